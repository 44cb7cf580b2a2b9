/**
 * One update run (C-UPD-1): which records change, and the order of everything that changes with
 * them. Owns the order C-UPD-1 and the transition of the _EN flags; the steps are verified and
 * written later, by the transaction.
 */
import type { Step } from './backend.js';
import { equalLiterals, type Literal, type CallSite, CURRENT, REC, STICKY } from './records.js';
import { type Content, equalCallees, equalContents, type Ops } from './ops.js';
import type { CoreState } from './state.js';
import type { Transaction } from './transaction.js';
import { currentContent, hasListEntry, wantedCallee, wantedContent, wantedLiteral } from './targets.js';

export interface RunOptions {
  /** The ops that is being removed; its `old` hashes are set. */
  readonly removed?: Ops;
  /** Only these records; all when absent. */
  readonly sites?: Iterable<CallSite>;
}

export type UpdateKind = 'ignore' | 'make-call' | 'modify-call' | 'make-nop';

/** Pairs of wanted and current flags of which only a lone ops decides. */
const LONE = [
  [REC.DIRECT, REC.DIRECT_EN],
  [REC.CALL_OPS, REC.CALL_OPS_EN],
] as const;

const PLAIN = [
  [REC.REGS, REC.REGS_EN],
  [REC.TRAMP, REC.TRAMP_EN],
] as const;

/** The _EN flags that a record gets when it is updated now. */
function nextCurrent(site: CallSite, enabled: boolean): number {
  if (!enabled || site.count === 0) return 0;
  let flags: number = REC.ENABLED;
  for (const [wanted, current] of PLAIN) if (site.has(wanted)) flags |= current;
  // With more than one ops the direct caller is reached through its helper, and the literal names
  // the list.
  if (site.count === 1) for (const [wanted, current] of LONE) if (site.has(wanted)) flags |= current;
  return flags >>> 0;
}

/**
 * What an update would do to a record. Flags that agree mean nothing is done, even if the function
 * inside a trampoline changed (C-OUT-1).
 */
function updateKind(site: CallSite, enabled: boolean): UpdateKind {
  if (site.skipped) return 'ignore';
  const next = nextCurrent(site, enabled);
  if ((site.flags & CURRENT) >>> 0 === next) return 'ignore';
  if (next === 0) return 'make-nop';
  return site.has(REC.ENABLED) ? 'modify-call' : 'make-call';
}

/** Flags of a record after an update. */
function commitFlags(site: CallSite, enabled: boolean): void {
  const next = nextCurrent(site, enabled);
  site.clear(CURRENT);
  if (next === 0) {
    if (site.count === 0) site.flags = (site.flags & STICKY) >>> 0;
    return;
  }
  site.set(next | REC.TOUCHED);
  if (site.has(REC.DIRECT | REC.IPMODIFY)) site.set(REC.MODIFIED);
}

/** What an update does to one record. */
interface RecordChange {
  readonly site: CallSite;
  readonly update: Exclude<UpdateKind, 'ignore'>;
  /** As they were: new wishes, old text. */
  readonly flags: number;
  readonly before: Content;
  readonly after: Content;
  /** What the word in front of the function becomes; null: it stays as it is. */
  readonly literal: Literal | null;
}

/** Lists the steps that bring records to their wanted flags. */
function updateRecords(tx: Transaction, options: RunOptions): void {
  const { state } = tx;
  const removed = options.removed ?? null;
  const changes: RecordChange[] = [];
  for (const site of options.sites ?? state.records.list) {
    const update = updateKind(site, state.enabled);
    if (update === 'ignore') continue;
    const { flags } = site;
    const before = currentContent(state, site, removed);
    const after = wantedContent(state, site);
    commitFlags(site, state.enabled);
    if (!state.backend.capabilities.patchable) continue;
    const wanted = site.literal === null ? null : wantedLiteral(state, site);
    const literal = wanted === null || equalLiterals(site.literal!, wanted) ? null : wanted;
    changes.push({ site, update, flags, before, after, literal });
  }
  if (hasListEntry(state)) changeByList(tx, changes);
  else
    for (const each of changes) {
      // Before the call on enabling and before the nop on disabling: a thread between call and load
      // finds a harmless ops (C-Q-4).
      changeWord(tx, each);
      changeSite(tx, each, each.before, each.after);
    }
}

function changeWord(tx: Transaction, { site, literal }: RecordChange): void {
  if (literal === null) return;
  tx.step({ kind: 'literal', site, before: site.literal!, after: literal });
  site.literal = literal;
}

function changeSite(tx: Transaction, { site, update, flags }: RecordChange, before: Content, after: Content): void {
  if (!equalContents(before, after)) tx.step({ kind: 'site', site, update, flags, before, after });
}

/**
 * T-A64-5: sites whose word changes call the entry that lists, the words are set, and the sites get
 * what they shall have. A thread that is still between the other entry's call and its load would
 * see a word that is being written; it has left before the first word is (T-A64-14).
 */
function changeByList(tx: Transaction, changes: readonly RecordChange[]): void {
  const list: Content = { kind: 'list-caller' };
  const words = changes.filter(({ literal }) => literal !== null);
  for (const each of words) changeSite(tx, each, each.before, list);
  if (words.some(({ before }) => before.kind !== 'nop' && before.kind !== 'list-caller')) {
    for (const step of graceSteps(tx.state)) tx.step(step);
  }
  for (const each of words) changeWord(tx, each);
  for (const each of changes) changeSite(tx, each, each.literal === null ? each.before : list, each.after);
}

/**
 * C-Q-2: the waits until no thread is in what the sites called before: an ops, its trampoline, an
 * entry.
 */
export function graceSteps({ policy }: CoreState): Step[] {
  const rude: Step = { kind: 'quiesce', grace: 'rude' };
  // A task that cannot be preempted inside the tracer has left it at its next schedule point, which
  // the first wait already awaits.
  const preemptible = policy.preempt === 'full' && policy.trampolines !== '2014';
  return preemptible ? [rude, { kind: 'quiesce', grace: 'tasks' }] : [rude];
}

/** Patched calls of the entries. */
function entriesOf(tx: Transaction): readonly ('plain' | 'regs')[] {
  const { callOps, regs, patchable } = tx.state.backend.capabilities;
  if (!patchable || callOps) return [];
  return regs === 'separate' ? ['plain', 'regs'] : ['plain'];
}

/**
 * C-UPD-1: callee to the list function; records; third argument, then the new callee; graph. While
 * records are in transition a lone callback could be entered for a function that its ops does not
 * trace; the list function tests the hashes.
 */
export function updateRun(tx: Transaction, options: RunOptions = {}): void {
  const { state } = tx;
  const callee = wantedCallee(state);
  const changes = !equalCallees(state.callee, callee) || (callee.kind !== 'list' && calleeOps(tx) !== state.traceOp);
  const entries = entriesOf(tx);
  const toList = changes && state.callee.kind !== 'list';
  if (toList) {
    for (const entry of entries) tx.step({ kind: 'callee', entry, before: state.callee, after: { kind: 'list' } });
  }
  updateRecords(tx, options);
  if (changes && callee.kind !== 'list') {
    const ops = calleeOps(tx);
    if (entries.length > 0) {
      if (ops !== state.traceOp) {
        // Where the callee is a word of data nothing else orders the two (R-MOD-4).
        if (toList) tx.step({ kind: 'sync' });
        tx.step({ kind: 'trace-op', before: state.traceOp, after: ops });
      }
      tx.step({ kind: 'sync' });
      for (const entry of entries) tx.step({ kind: 'callee', entry, before: { kind: 'list' }, after: callee });
    }
    state.traceOp = ops;
  }
  state.callee = callee;
  updateGraphCall(tx);
}

/**
 * C-FG-6: the jump of the graph tracer, after the sites. A graph tracer that is an ordinary
 * callback has none.
 */
function updateGraphCall(tx: Transaction): void {
  const { state } = tx;
  const { manager } = state.graph;
  if (manager === null) return;
  const on = state.enabled && state.list.includes(manager);
  if (on === state.graph.on) return;
  const { capabilities } = state.backend;
  if (capabilities.graph !== 'callback' && capabilities.patchable) {
    tx.step({ kind: 'graph-call', ops: manager, before: state.graph.on, after: on });
  }
  state.graph.on = on;
}

/** The ops that the entries are to hand on: meaningful for a lone one only (C-TGT-8). */
function calleeOps(tx: Transaction): Ops | null {
  const callee = wantedCallee(tx.state);
  return callee.kind === 'function' || callee.kind === 'assist' ? tx.state.list[0]! : null;
}
