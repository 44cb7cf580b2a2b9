/**
 * What a record must call, what it calls now, and what the shared entries call: C-TGT-1 to C-TGT-5
 * and C-TGT-9. Owns the decisions, which follow from the list of ops and the flags alone; changes
 * nothing but the wanted flags of one record.
 */
import { ElftraceError } from '../errors.js';
import { type CallSite, COUNT_LIMIT, type Literal, REC, STICKY, WANTED } from './records.js';
import { type Callee, type Content, needsAssist, type Ops, trampolineAddress, wantsRegs } from './ops.js';
import { hashesMatch } from './hash.js';
import type { CoreState } from './state.js';

/** Enabled ops that match a record, in list order: whose callbacks a call of it runs (C-TGT-2). */
export function attachedTo(state: CoreState, site: CallSite): Ops[] {
  return state.list.filter((ops) => ops.has('ENABLED') && ops.matches(site));
}

/**
 * C-TGT-1: count and wanted flags for the ops that match a record now. They are made anew from the
 * attached ops, which gives what adding and removing one ops at a time is meant to give: REGS and
 * TRAMP follow from those that remain.
 * @param changed  the ops that came or went; only the kernel's rule for CALL_OPS looks at it
 * @returns false when more ops are attached than can be counted
 */
export function refreshWanted(state: CoreState, site: CallSite, changed: Ops | null): boolean {
  const attached = attachedTo(state, site);
  const { capabilities } = state.backend;
  if (attached.length >= COUNT_LIMIT) return false;
  const sole = attached.length === 1 ? attached[0]! : null;
  let wanted = 0;
  for (const ops of attached) {
    if (ops.has('DIRECT')) wanted |= REC.DIRECT;
    if (wantsRegs(ops, capabilities)) wanted |= REC.REGS;
  }
  if (sole !== null && mayCallTrampoline(state, site, sole)) wanted |= REC.TRAMP;
  if (sole !== null && capabilities.callOps) {
    const judged = state.policy.quirks.callOps === 'kernel' && changed !== null ? changed : sole;
    if (!needsAssist(judged)) wanted |= REC.CALL_OPS;
  }
  const kept = site.flags & ~(COUNT_LIMIT | WANTED);
  site.flags = (kept | wanted | attached.length) >>> 0;
  // With nothing attached and nothing in the text only the sticky flags mean anything; an update
  // run would never come by.
  if (attached.length === 0 && !site.has(REC.ENABLED)) site.flags = (site.flags & STICKY) >>> 0;
  return true;
}

/**
 * Ops that are called by a trampoline are so where it is in reach; a kernel's modules always are,
 * those of a program may lie anywhere.
 */
function mayCallTrampoline({ backend }: CoreState, site: CallSite, { trampoline }: Ops): boolean {
  return trampoline !== null && (trampoline.kind !== 'private' || backend.reachesTrampoline(site, trampoline.block));
}

/** The register entry, or the only one there is (C-TGT-2). */
function registerEntry(state: CoreState): Content {
  return state.backend.capabilities.regs === 'separate' ? { kind: 'regs-caller' } : { kind: 'caller' };
}

/**
 * A-CO-5: whether sites have a second entry to call while, and as long as, their word says nothing
 * of use.
 */
export function hasListEntry({ policy, backend }: CoreState): boolean {
  return policy.opsEntries === 'two' && backend.capabilities.listEntry;
}

/**
 * The plain entry: of two, the one that reads the word only where that names the one ops there is.
 */
function plainEntry(state: CoreState, readsWord: boolean): Content {
  return { kind: hasListEntry(state) && !readsWord ? 'list-caller' : 'caller' };
}

function trampolineContent(state: CoreState, ops: Ops): Content {
  if (ops.trampoline?.kind === 'entry') return registerEntry(state);
  return { kind: 'trampoline', address: trampolineAddress(ops, state.backend.symbols.registerEntry), ops };
}

/**
 * C-TGT-3: who owns the trampoline that the text calls now. The ops that is being removed by its
 * old hashes; an ops that is being added never; one that is being modified by its old hashes;
 * others by their hashes.
 */
function currentTrampolineOps(state: CoreState, site: CallSite, removed: Ops | null): Ops | null {
  if (removed !== null && removed.trampoline !== null && removed.old !== null && hashesMatch(removed.old, site)) {
    return removed;
  }
  for (const ops of state.list) {
    if (ops.trampoline === null || ops.has('ADDING')) continue;
    const hashes = ops.has('MODIFYING') && ops.old !== null ? ops.old : ops.pair;
    if (hashesMatch(hashes, site)) return ops;
  }
  return null;
}

/** C-TGT-3: whose trampoline the text is to call. */
export function newTrampolineOps(state: CoreState, site: CallSite): Ops | null {
  return state.list.find((ops) => ops.trampoline !== null && ops.matches(site)) ?? null;
}

function directContent(state: CoreState, site: CallSite): Content {
  const address = state.direct.get(site);
  if (address === undefined) throw new ElftraceError('internal', `${site.name} has no entry in the direct table`);
  return { kind: 'direct', address };
}

/** C-TGT-2 by the wanted flags: what an enabled record is to call. */
export function wantedContent(state: CoreState, site: CallSite): Content {
  if (site.count === 0 || !state.enabled) return { kind: 'nop' };
  if (site.has(REC.DIRECT) && site.count === 1) return directContent(state, site);
  if (site.has(REC.TRAMP)) {
    const ops = newTrampolineOps(state, site);
    if (ops === null) throw new ElftraceError('internal', `${site.name} wants a trampoline that no ops has`);
    return trampolineContent(state, ops);
  }
  return site.has(REC.REGS) && !hasListEntry(state)
    ? registerEntry(state)
    : plainEntry(state, site.count === 1 && site.has(REC.CALL_OPS));
}

/** C-TGT-2 by the _EN flags: what the text of a record is expected to be. */
export function currentContent(state: CoreState, site: CallSite, removed: Ops | null): Content {
  if (!site.has(REC.ENABLED)) return { kind: 'nop' };
  if (site.has(REC.DIRECT_EN)) return directContent(state, site);
  if (site.has(REC.TRAMP_EN)) {
    const ops = currentTrampolineOps(state, site, removed);
    if (ops === null) throw new ElftraceError('internal', `${site.name} calls a trampoline that no ops has`);
    return trampolineContent(state, ops);
  }
  return site.has(REC.REGS_EN) && !hasListEntry(state)
    ? registerEntry(state)
    : plainEntry(state, site.has(REC.CALL_OPS_EN));
}

/** A-CO-3: what the word of per-callsite ops is to name, by the _EN flags. */
export function wantedLiteral(state: CoreState, site: CallSite): Literal {
  if (!site.has(REC.ENABLED)) return offLiteral(state);
  if (site.has(REC.CALL_OPS_EN)) {
    const attached = attachedTo(state, site);
    if (attached.length === 1) return { kind: 'ops', ops: attached[0]! };
  }
  return { kind: 'list-ops' };
}

/** What the word names while its site is off. */
export function offLiteral(state: CoreState): Literal {
  return { kind: state.policy.literalOff === 'list' ? 'list-ops' : 'nop-ops' };
}

/**
 * C-TGT-4, C-TGT-9: what the patched calls of the shared entries lead to, from the ops of the whole
 * image.
 */
export function wantedCallee(state: CoreState): Callee {
  const [first, second] = state.list;
  if (!state.enabled || first === undefined) return { kind: 'stub' };
  if (second !== undefined) return { kind: 'list' };
  // The function of a placeholder is the stub.
  if (first.has('STUB')) return { kind: 'stub' };
  const { capabilities } = state.backend;
  if (capabilities.passes === 2 || first.has('DYNAMIC') || first.has('RCU')) return { kind: 'list' };
  if (!needsAssist(first)) {
    // The list is right for any number of ops, so a callback out of reach costs time and nothing
    // else.
    return state.backend.reachesCallback(first.func) ? { kind: 'function', address: first.func } : { kind: 'list' };
  }
  return capabilities.assist ? { kind: 'assist', ops: first } : { kind: 'list' };
}
