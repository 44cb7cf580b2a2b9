/**
 * Operations as transactions on the core's state: a body changes the state and lists steps; then
 * all steps are verified, then written, and whatever goes wrong puts the state back. Owns pass one
 * and pass two (C-UPD-3), the undo and the dead state (C-UPD-4). Does not own which steps an
 * operation has.
 */
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import type { Backend, CodePlace, Reading, Step } from './backend.js';
import { type Ops, equalCallees, equalContents, equalImages, imageOf } from './ops.js';
import { type CallSite, equalLiterals } from './records.js';
import { buildReport } from './report.js';
import type { Problem } from './failure.js';
import type { CoreState, Outcome, Refusal } from './state.js';
import { describePlace } from './describe.js';

/** The steps of one operation while it is made. */
export class Transaction {
  readonly steps: Step[] = [];
  readonly warnings: string[] = [];
  /** What to take back outside the core when the operation does not happen, latest first. */
  readonly #aborts: (() => void)[] = [];
  readonly #dones: (() => void)[] = [];

  constructor(readonly state: CoreState) {}

  step(step: Step): void {
    this.steps.push(step);
  }

  onAbort(undo: () => void): void {
    this.#aborts.unshift(undo);
  }

  /** What to say outside the core once everything is written. */
  onDone(tell: () => void): void {
    this.#dones.push(tell);
  }

  done(): void {
    for (const tell of this.#dones) tell();
  }

  abort(): void {
    for (const undo of this.#aborts) undo();
  }

  /** Brings the object of an ops in guest memory to what the ops is now; null takes it away. */
  object(ops: Ops, kind: 'present' | 'absent' = 'present'): void {
    const { state } = this;
    const { capabilities, symbols } = state.backend;
    const before = state.objects.get(ops) ?? null;
    const after = kind === 'absent' ? null : imageOf(ops, capabilities, symbols.registerEntry);
    if (equalImages(before, after)) return;
    const objects = new Map(state.objects);
    if (after === null) objects.delete(ops);
    else objects.set(ops, after);
    state.objects = objects;
    this.step({ kind: 'object', ops, before, after });
  }

  relink(after: readonly Ops[]): void {
    this.step({ kind: 'list', before: this.state.list, after });
    this.state.list = after;
  }

  /** Sets or removes entries of the direct table. */
  direct(entries: Iterable<readonly [CallSite, Address | null]>): void {
    const table = new Map(this.state.direct);
    for (const [site, after] of entries) {
      const before = table.get(site) ?? null;
      if (before === after) continue;
      if (after === null) table.delete(site);
      else table.set(site, after);
      this.step({ kind: 'direct-entry', site, before, after });
    }
    this.state.direct = table;
  }

  /** A wait and what may be used again after it. */
  free(grace: 'read' | 'rude' | 'tasks', object: 'hash' | 'direct-table', of: string): void {
    this.step({ kind: 'quiesce', grace });
    this.step({ kind: 'free', object, of });
  }
}

/** Remembers the state; the result puts it back. */
function remember(state: CoreState): () => void {
  const { list, known, sharedPairs, enabled, callee, traceOp, direct, objects } = state;
  const { users, known: knownUsers, manager, saved, on } = state.graph;
  const records = state.records.list;
  const { modules } = state.records;
  const flags = records.map((site) => site.flags);
  const literals = records.map((site) => site.literal);
  const userPairs = knownUsers.map((user) => user.pair);
  const pairs = new Set([...sharedPairs, ...known.map((ops) => ops.pair), ...userPairs]);
  const hashes = [...pairs].map((pair) => ({ pair, filter: pair.filter, notrace: pair.notrace }));
  const all = known.map((ops) => ({
    ops,
    func: ops.func,
    savedFunc: ops.savedFunc,
    flags: ops.flags,
    pair: ops.pair,
    old: ops.old,
    trampoline: ops.trampoline,
    directCall: ops.directCall,
  }));
  return () => {
    Object.assign(state, { list, known, sharedPairs, enabled, callee, traceOp, direct, objects });
    Object.assign(state.graph, { users, known: knownUsers, manager, saved, on });
    state.records.replace(records, modules);
    for (let i = 0; i < records.length; i++) {
      records[i]!.flags = flags[i]!;
      records[i]!.literal = literals[i]!;
    }
    for (const { pair, filter, notrace } of hashes) {
      pair.filter = filter;
      pair.notrace = notrace;
    }
    for (const { ops, ...fields } of all) Object.assign(ops, fields);
  };
}

/**
 * Runs an operation: all of it or nothing.
 * @param body  changes the state and lists steps; a refusal takes everything back
 */
export function transact(state: CoreState, body: (tx: Transaction) => Refusal | null): Outcome {
  const restore = remember(state);
  const tx = new Transaction(state);
  let refusal: Refusal | null;
  try {
    refusal = body(tx);
  } catch (error) {
    restore();
    tx.abort();
    throw error;
  }
  if (refusal !== null) {
    restore();
    tx.abort();
    return { kind: 'refused', ...refusal };
  }
  const problem = verifySteps(state.backend, tx.steps) ?? writeSteps(state.backend, tx.steps);
  if (problem === null) {
    tx.done();
    return { kind: 'done', steps: tx.steps, warnings: tx.warnings };
  }
  if (problem.kind === 'refused') {
    restore();
    tx.abort();
    return { kind: 'refused', errno: problem.errno, reason: problem.reason };
  }
  // The report is about the state that the operation was making; only then it is put back.
  const report = buildReport(state, problem);
  restore();
  tx.abort();
  kill(state, problem.reason);
  return { kind: 'failed', errno: problem.errno, reason: problem.reason, report };
}

/**
 * C-UPD-4: no operation works any more, and what counts as the callee of the entries is the stub.
 * The image stays as it is.
 */
function kill(state: CoreState, reason: string): void {
  state.dead = reason;
  state.callee = { kind: 'stub' };
}

/** The code that a step changes; null for data that the tool owns. */
function placeOf(step: Step): { readonly place: CodePlace; readonly key: string } | null {
  switch (step.kind) {
    case 'site':
    case 'literal':
      return { place: { kind: step.kind, site: step.site }, key: `${step.kind} ${step.site.ip}` };
    case 'callee':
      return { place: { kind: 'callee', entry: step.entry }, key: `callee ${step.entry}` };
    case 'inner-call':
      return { place: { kind: 'inner-call', block: step.block }, key: `inner ${step.block.address}` };
    case 'graph-call':
      return { place: { kind: 'graph-call' }, key: 'graph' };
    default:
      return null;
  }
}

/** Does a place hold what a step expects? */
function holds(step: Step, reading: Reading): boolean {
  if (step.kind === 'site') return reading.kind === 'site' && equalContents(step.before, reading.content);
  if (step.kind === 'literal') return reading.kind === 'literal' && equalLiterals(step.before, reading.literal);
  if (step.kind === 'graph-call') return reading.kind === 'graph-call' && reading.on === step.before;
  if (step.kind === 'callee' || step.kind === 'inner-call') {
    return reading.kind === 'callee' && equalCallees(step.before, reading.callee);
  }
  return true;
}

/** Is the second step on a place the continuation of the first? */
function continues(first: Step, second: Step): boolean {
  if (first.kind === 'site' && second.kind === 'site') return equalContents(first.after, second.before);
  if (first.kind === 'literal' && second.kind === 'literal') return equalLiterals(first.after, second.before);
  if (first.kind === 'graph-call' && second.kind === 'graph-call') return first.after === second.before;
  if (first.kind === 'callee' && second.kind === 'callee') return equalCallees(first.after, second.before);
  return first.kind === 'inner-call' && second.kind === 'inner-call' && equalCallees(first.after, second.before);
}

/** Pass one (C-UPD-3): reads and compares every place before the first store. */
function verifySteps(backend: Backend, steps: readonly Step[]): Problem | null {
  const changed = new Map<string, Step>();
  for (const step of steps) {
    const at = placeOf(step);
    if (at !== null) {
      const earlier = changed.get(at.key);
      if (earlier !== undefined) {
        if (!continues(earlier, step)) {
          throw new ElftraceError('internal', `two steps on one place (${at.key}) do not fit together`);
        }
      } else {
        const reading = backend.read(at.place);
        if (reading.kind === 'fault') {
          const reason = `${describePlace(at.place)} cannot be read`;
          return { kind: 'failed', errno: 'EFAULT', reason, step, phase: 'read' };
        }
        if (!holds(step, reading)) {
          const reason = `${describePlace(at.place)} does not hold what is expected`;
          return { kind: 'failed', errno: 'EINVAL', reason, step, phase: 'compare' };
        }
      }
      changed.set(at.key, step);
    } else if (step.kind === 'trampoline' && step.after !== null) {
      // What is built in this operation is not read before it is changed again.
      changed.set(`inner ${step.block.address}`, {
        kind: 'inner-call',
        ops: step.ops,
        block: step.block,
        template: step.after.template,
        before: step.after.callee,
        after: step.after.callee,
      });
    }
    const problem = backend.check(step);
    if (problem !== null) return { ...problem, step, phase: 'check' };
  }
  return null;
}

/** Pass two. What was written before a failure is written back, so that the image is as it was. */
function writeSteps(backend: Backend, steps: readonly Step[]): Problem | null {
  for (const [index, step] of steps.entries()) {
    const problem = backend.write(step);
    if (problem === null) continue;
    for (const done of steps.slice(0, index).reverse()) {
      const back = inverse(done);
      const lost = back === null ? null : backend.write(back);
      if (lost !== null) {
        const reason = `${problem.reason}; writing back failed as well: ${lost.reason}`;
        return { kind: 'failed', errno: 'EPERM', reason, step, phase: 'write' };
      }
    }
    return { ...problem, step, phase: 'write' };
  }
  return null;
}

/** The step that takes another one back; null for waits and frees. */
function inverse(step: Step): Step | null {
  switch (step.kind) {
    case 'sync':
    case 'quiesce':
    case 'free':
      return null;
    case 'object':
      return { ...step, before: step.after, after: step.before };
    case 'list':
      return { ...step, before: step.after, after: step.before };
    case 'direct-entry':
      return { ...step, before: step.after, after: step.before };
    case 'trampoline':
      return { ...step, before: step.after, after: step.before };
    case 'inner-call':
    case 'callee':
      return { ...step, before: step.after, after: step.before };
    case 'trace-op':
      return { ...step, before: step.after, after: step.before };
    case 'site':
      return { ...step, before: step.after, after: step.before };
    case 'literal':
      return { ...step, before: step.after, after: step.before };
    case 'graph-call':
      return { ...step, before: step.after, after: step.before };
    case 'graph-users':
      return { ...step, before: step.after, after: step.before };
    default:
      return step satisfies never;
  }
}
