/**
 * Register, unregister, change of a filter, global on and off: C-REG-1 to C-REG-3 with the checks
 * of C-IPM-5 in their order. Owns the order of checks and effects; what a site must then hold is in
 * `targets.ts`, what is written in which order in `update.ts`.
 */
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import type { Step } from './backend.js';
import { equalCallees, mayHaveTrampoline, type Ops, soleCallee, wantsRegs } from './ops.js';
import { type HashPair, type HashSnapshot, hashesMatch, isEmpty, type SiteHash, snapshot } from './hash.js';
import { type CallSite, REC, STICKY } from './records.js';
import { type CoreState, type Refusal, refuse } from './state.js';
import type { Transaction } from './transaction.js';
import { attachedTo, refreshWanted } from './targets.js';
import { graceSteps, updateRun } from './update.js';

/** C-UPD-4: every operation of a dead core. */
export function refuseDead({ dead }: CoreState): Refusal | null {
  return dead === null ? null : refuse('ENODEV', `tracing is disabled for good: ${dead}`);
}

/**
 * Records that a pair of hashes matches, in table order; those that every walk skips are left out
 * (C-REC-2).
 */
function sitesOf(state: CoreState, hashes: HashSnapshot): CallSite[] {
  const { filter } = hashes;
  const candidates = filter === null || isEmpty(filter) ? state.records.list : inOrder(filter.sites);
  return candidates.filter((site) => !site.skipped && hashesMatch(hashes, site));
}

function inOrder(sites: Iterable<CallSite>): CallSite[] {
  return [...sites].sort((a, b) => (a.ip < b.ip ? -1 : a.ip > b.ip ? 1 : 0));
}

/** What C-REG-1 asks before anything changes. */
function checkRegistrable(state: CoreState, ops: Ops): Refusal | null {
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  const { capabilities } = state.backend;
  if (ops.has('DELETED')) return refuse('EINVAL', `${ops.name} was deleted`);
  if (ops.has('ENABLED')) return refuse('EBUSY', `${ops.name} is registered already`);
  if (ops.has('ALLOC_TRAMP') && ops.trampoline?.kind !== 'private') {
    return refuse('EINVAL', `${ops.name}: only the core says that a trampoline is its own (ALLOC_TRAMP)`);
  }
  if (ops.has('SAVE_REGS') && capabilities.regs === 'none' && !ops.has('SAVE_REGS_IF_SUPPORTED')) {
    return refuse('EINVAL', `${ops.name} wants registers, and no entry of the target saves them`);
  }
  if (ops.has('IPMODIFY')) {
    if (ops.has('DIRECT')) return refuse('EINVAL', `${ops.name} cannot be both a direct caller and IPMODIFY`);
    const can = capabilities.resume === 'any' || (capabilities.resume === 'regs' && wantsRegs(ops, capabilities));
    if (!can)
      return refuse('EINVAL', `${ops.name} could not change the resume address behind the entries that it gets`);
  }
  if (ops.has('PERMANENT') && !state.enabled) {
    return refuse('EBUSY', `${ops.name} is permanent, and tracing is switched off`);
  }
  return null;
}

/**
 * C-IPM-4: asks the direct callers that are there whether they share the sites with a new IPMODIFY
 * ops.
 */
function askPeers(tx: Transaction, ops: Ops, sites: Iterable<CallSite>): Refusal | null {
  const { directShares } = tx.state.backend.capabilities;
  for (const site of inOrder(sites)) {
    const peer = directOpsAt(tx.state, site);
    if (peer === null) continue;
    if (!directShares) return refuse('EBUSY', `${site.name} has a direct caller: ${neverBoth}`);
    const { negotiate } = peer;
    if (negotiate === null) return refuse('EBUSY', `${site.name} has a direct caller, which does not share`);
    const answer = negotiate('enable-share-peer', site);
    if (answer !== 0) return refuse(answer, `${peer.name} does not share ${site.name} with ${ops.name}`);
    tx.onAbort(() => void negotiate('disable-share-peer', site));
  }
  return null;
}

const neverBoth = 'no entry of the target goes on to a direct caller and in another function';

function directOpsAt(state: CoreState, site: CallSite): Ops | null {
  return state.list.find((ops) => ops.has('DIRECT') && ops.pair.filter?.sites.has(site) === true) ?? null;
}

function leavePeers(tx: Transaction, sites: Iterable<CallSite>): void {
  for (const site of inOrder(sites)) {
    const negotiate = directOpsAt(tx.state, site)?.negotiate;
    if (negotiate) tx.onDone(() => void negotiate('disable-share-peer', site));
  }
}

const nothing: ReadonlySet<CallSite> = new Set();

/** The sites of a filter, or null for one that is everything. */
function named(filter: SiteHash | null): ReadonlySet<CallSite> | null {
  return filter === null || isEmpty(filter) ? null : filter.sites;
}

/**
 * C-IPM-1, C-IPM-2 and the second half of C-IPM-4: moves the IPMODIFY flags of an ops from one set
 * of sites to another, null being everything.
 */
function moveIpModify(
  { backend }: CoreState,
  ops: Ops,
  before: ReadonlySet<CallSite> | null,
  after: ReadonlySet<CallSite> | null,
): Refusal | null {
  const modifies = ops.has('IPMODIFY');
  if (!modifies && !ops.has('DIRECT')) return null;
  if (before === null || after === null) {
    return refuse('EINVAL', `${ops.name} may not take every function: it needs a filter`);
  }
  for (const site of inOrder(new Set([...before, ...after]))) {
    if (site.has(REC.DISABLED) || before.has(site) === after.has(site)) continue;
    if (!after.has(site)) {
      if (modifies) site.clear(REC.IPMODIFY);
    } else if (site.has(REC.IPMODIFY)) {
      if (modifies) return refuse('EBUSY', `another ops changes the resume address of ${site.name} already`);
      if (!backend.capabilities.directShares) {
        return refuse('EBUSY', `an ops changes the resume address of ${site.name}: ${neverBoth}`);
      }
      if (ops.negotiate === null) return refuse('EBUSY', `an ops changes the resume address of ${site.name}`);
      const answer = ops.negotiate('enable-share-self', site);
      if (answer !== 0) return refuse(answer, `${ops.name} does not share ${site.name}`);
    } else if (modifies) site.set(REC.IPMODIFY);
  }
  return null;
}

/** Counts and wanted flags of sites after an ops came or went. */
function refreshAll(tx: Transaction, sites: readonly CallSite[], changed: Ops | null): Refusal | null {
  for (const site of sites) {
    if (!refreshWanted(tx.state, site, changed)) return refuse('EINVAL', `${site.name} has too many users`);
  }
  return null;
}

/**
 * C-TRAMP-1 to 5: builds a trampoline, or points the call of the one that is there to the ops'
 * function. The steps are returned, so that the ops object, which names the trampoline, can be
 * written first.
 */
function prepareTrampoline(tx: Transaction, ops: Ops): readonly Step[] {
  const { backend, policy } = tx.state;
  const { trampoline } = ops;
  const steps: Step[] = [];
  if (trampoline === null ? !mayHaveTrampoline(ops, backend.capabilities, policy) : trampoline.kind !== 'private') {
    return steps;
  }
  const callee = soleCallee(ops, policy);
  const template = wantsRegs(ops, backend.capabilities) ? 'regs' : 'plain';
  if (trampoline?.kind === 'private') {
    const { block } = trampoline;
    if (trampoline.template === template || policy.quirks.template === '2014') {
      if (equalCallees(trampoline.callee, callee) && trampoline.template === template) return steps;
      // The template named here is that of the present flags: 2014 finds the call with it, wrongly
      // if it is not that of the copy (T-X86-44).
      steps.push({ kind: 'inner-call', ops, block, template, before: trampoline.callee, after: callee });
      ops.trampoline = { ...trampoline, callee };
      return steps;
    }
    const image = { template: trampoline.template, callee: trampoline.callee };
    ops.trampoline = null;
    ops.clear('ALLOC_TRAMP');
    steps.push(...graceSteps(tx.state), { kind: 'trampoline', ops, block, before: image, after: null });
    steps.push({ kind: 'free', object: 'trampoline', of: ops.name });
  }
  const block = backend.planTrampoline({ ops, template, callee });
  if ('refused' in block) {
    tx.warnings.push(`${ops.name} gets no trampoline: ${block.refused}`);
    return steps;
  }
  tx.onAbort(() => backend.dropTrampoline(block));
  ops.trampoline = { kind: 'private', block, template, callee };
  ops.set('ALLOC_TRAMP');
  steps.push({ kind: 'trampoline', ops, block, before: null, after: { template, callee } });
  return steps;
}

/** Registers an ops (C-REG-1). */
export function registerIn(tx: Transaction, ops: Ops): Refusal | null {
  const { state } = tx;
  const refusal = checkRegistrable(state, ops);
  if (refusal !== null) return refusal;
  if (ops.has('IPMODIFY')) {
    const refused = askPeers(tx, ops, ops.pair.filter?.sites ?? nothing);
    if (refused !== null) return refused;
  }
  ops.savedFunc = ops.func;
  ops.set('INITIALIZED', 'ENABLED', 'ADDING');
  const trampoline = prepareTrampoline(tx, ops);
  tx.object(ops);
  tx.relink([ops, ...state.list]);
  for (const step of trampoline) tx.step(step);
  const sites = sitesOf(state, ops.pair);
  const refused = moveIpModify(state, ops, nothing, named(ops.pair.filter)) ?? refreshAll(tx, sites, ops);
  if (refused !== null) return refused;
  updateRun(tx);
  ops.clear('ADDING');
  return null;
}

/** Unregisters an ops (C-REG-1, C-Q-2). */
export function unregisterIn(tx: Transaction, ops: Ops): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  if (!ops.has('ENABLED')) return refuse('EBUSY', `${ops.name} is not registered`);
  ops.old = snapshot(ops.pair);
  tx.relink(state.list.filter((each) => each !== ops));
  ops.clear('ENABLED');
  ops.set('REMOVING');
  if (ops.has('IPMODIFY')) {
    leavePeers(tx, ops.pair.filter?.sites ?? nothing);
    const refused = moveIpModify(state, ops, named(ops.pair.filter), nothing);
    if (refused !== null) return refused;
  }
  const refused = refreshAll(tx, sitesOf(state, ops.old), ops);
  if (refused !== null) return refused;
  updateRun(tx, { removed: ops });
  ops.old = null;
  ops.clear('REMOVING');
  checkUnused(state);
  if (ops.has('DYNAMIC')) release(tx, ops);
  else tx.object(ops);
  return null;
}

/**
 * Waits until no thread can be inside or on the way to an ops, then gives its trampoline and its
 * object back (C-Q-2).
 */
function release(tx: Transaction, ops: Ops): void {
  const { state } = tx;
  if (!state.objects.has(ops)) return;
  for (const step of graceSteps(state)) tx.step(step);
  const { trampoline } = ops;
  if (trampoline?.kind === 'private') {
    const { block, template, callee } = trampoline;
    tx.step({ kind: 'trampoline', ops, block, before: { template, callee }, after: null });
    tx.step({ kind: 'free', object: 'trampoline', of: ops.name });
    ops.trampoline = null;
    ops.clear('ALLOC_TRAMP');
  }
  tx.object(ops, 'absent');
  tx.step({ kind: 'free', object: 'ops', of: ops.name });
}

/** C-REG-1: when no ops remains every record holds only the flags that are never cleared. */
function checkUnused({ list, records }: CoreState): void {
  if (list.length > 0) return;
  const wrong = records.list.find((site) => (site.flags & ~STICKY) !== 0);
  if (wrong !== undefined) throw new ElftraceError('internal', `${wrong.name} has flags though nothing is registered`);
}

/**
 * Ends the life of an ops: its trampoline and object are given back, and it cannot be registered
 * again.
 */
export function destroyIn(tx: Transaction, ops: Ops): Refusal | null {
  const dead = refuseDead(tx.state);
  if (dead !== null) return dead;
  if (ops.has('ENABLED')) return refuse('EBUSY', `${ops.name} is registered`);
  release(tx, ops);
  ops.set('DELETED');
  tx.state.known = tx.state.known.filter((each) => each !== ops);
  return null;
}

/**
 * Gives back what registrations that ended have left: objects, and trampolines that were kept for
 * the next time.
 */
export function reclaimIn(tx: Transaction): Refusal | null {
  const dead = refuseDead(tx.state);
  if (dead !== null) return dead;
  for (const ops of tx.state.known) if (!ops.has('ENABLED')) release(tx, ops);
  return null;
}

/**
 * Changes the hashes of a pair (C-REG-2). Enabled ops that share the pair are taken out and put
 * back together, in one update run.
 * @param owner  who asks; direct callers change their filter only through the direct calls
 */
export function modifyIn(tx: Transaction, pair: HashPair, next: HashSnapshot, owner: 'user' | 'core'): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  const users = state.known.filter((ops) => ops.pair === pair);
  if (next.notrace !== pair.notrace && users.some((ops) => ops.has('IPMODIFY'))) {
    return refuse('EINVAL', 'an ops that may change the resume address takes no notrace filter');
  }
  const sharing = state.list.filter((ops) => ops.pair === pair);
  const before = snapshot(pair);
  for (const ops of sharing) {
    if (ops.has('DIRECT') && owner === 'user') {
      return refuse(
        'EINVAL',
        `${ops.name} is a direct caller: unregister it, or register another function by its address`,
      );
    }
    const added = [...(named(next.filter) ?? nothing)].filter((site) => before.filter?.sites.has(site) !== true);
    const refused =
      (ops.has('IPMODIFY') ? askPeers(tx, ops, added) : null) ??
      (next.filter === before.filter ? null : moveIpModify(state, ops, named(before.filter), named(next.filter)));
    if (refused !== null) return refused;
  }
  for (const ops of sharing) {
    ops.old = before;
    ops.set('MODIFYING');
  }
  pair.filter = next.filter;
  pair.notrace = next.notrace;
  const held = users.filter((ops) => state.objects.has(ops));
  for (const ops of held) tx.object(ops);
  if (sharing.length > 0) {
    const changed = state.records.list.filter(
      (site) => !site.skipped && hashesMatch(before, site) !== hashesMatch(next, site),
    );
    const refused = refreshAll(tx, changed, sharing[0]!);
    if (refused !== null) return refused;
    updateRun(tx);
    for (const ops of sharing) {
      ops.old = null;
      ops.clear('MODIFYING');
    }
    // The kernel leaves peers alone here; a direct caller that shares must hear that it is alone
    // again.
    if (sharing.some((ops) => ops.has('IPMODIFY'))) {
      leavePeers(
        tx,
        [...(before.filter?.sites ?? nothing)].filter((site) => next.filter?.sites.has(site) !== true),
      );
    }
  }
  const dropped = [
    before.filter !== next.filter ? before.filter : null,
    before.notrace !== next.notrace ? before.notrace : null,
  ];
  if (held.length > 0 && dropped.some((hash) => !isEmpty(hash))) tx.free('read', 'hash', held[0]!.name);
  return null;
}

/** C-REG-3. */
export function switchIn(tx: Transaction, on: boolean): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  if (on === state.enabled) return null;
  const permanent = on ? undefined : state.list.find((ops) => ops.has('PERMANENT'));
  if (permanent !== undefined) return refuse('EBUSY', `${permanent.name} is permanent`);
  state.enabled = on;
  updateRun(tx);
  return null;
}

/**
 * Puts another function into an ops, a wrapper for instance. Records do not change: what calls the
 * function does, that is the trampoline's own call and, for a lone ops, the calls of the shared
 * entries (C-OUT-1).
 */
export function setFunctionIn(tx: Transaction, ops: Ops, func: Address): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  if (ops.has('DELETED') || ops.has('DIRECT')) return refuse('EINVAL', `the function of ${ops.name} cannot be changed`);
  ops.func = func;
  if (state.objects.has(ops)) tx.object(ops);
  if (!ops.has('ENABLED')) return null;
  const { trampoline } = ops;
  if (trampoline?.kind === 'private') {
    const callee = soleCallee(ops, state.policy);
    const { block, template } = trampoline;
    if (!equalCallees(trampoline.callee, callee)) {
      tx.step({ kind: 'inner-call', ops, block, template, before: trampoline.callee, after: callee });
      ops.trampoline = { ...trampoline, callee };
    }
  }
  updateRun(tx);
  return null;
}

/**
 * Sites of an ops with no other user: what must be switched away before their direct caller changes
 * (C-DIR-6).
 */
export function sitesAlone(state: CoreState, ops: Ops): CallSite[] {
  return sitesOf(state, ops.pair).filter((site) => attachedTo(state, site).length === 1);
}
