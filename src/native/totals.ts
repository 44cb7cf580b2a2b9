/**
 * Sums over a trace: calls and times by function, and by stack. Memory grows with what differs.
 * Times are nanoseconds; where ends of calls are inferred (RT-30), they are at most those.
 */
import type { NativeFunction } from './objects.js';
import { type CallSelection, matcherOf, selector } from './select.js';
import type { NativeTrace } from './trace.js';
import type { CallListener } from './tree.js';

export interface FunctionTotal {
  readonly called: NativeFunction;
  calls: number;
  /** Threads that called it. */
  readonly threads: Set<number>;
  /** Time in it with what it called; of calls inside of another call of it, that of the outer. */
  total: number;
  /** Time in it alone. */
  self: number;
  /** Of a single call, with what it called. */
  least: number;
  most: number;
}

const newTotal = (called: NativeFunction): FunctionTotal => ({
  called,
  calls: 0,
  threads: new Set(),
  total: 0,
  self: 0,
  least: Infinity,
  most: 0,
});

class FunctionCounter implements CallListener {
  private readonly starts: number[] = [];
  /** Time in what the call at a depth called. */
  private readonly inner: number[] = [];
  private readonly open: number[] = [];

  constructor(
    private readonly totals: (FunctionTotal | undefined)[],
    private readonly task: number,
  ) {}

  enter(called: NativeFunction, depth: number, time: number): void {
    let total = this.totals[called.index];
    if (total === undefined) {
      total = newTotal(called);
      this.totals[called.index] = total;
    }
    const open = this.open[called.index];
    // A call of this thread, so far without one.
    if (open === undefined) total.threads.add(this.task);
    this.open[called.index] = (open ?? 0) + 1;
    total.calls++;
    this.starts[depth] = time;
    this.inner[depth] = 0;
  }

  leave(called: NativeFunction, depth: number, time: number): void {
    const total = this.totals[called.index]!;
    const spent = time - this.starts[depth]!;
    const open = this.open[called.index]! - 1;
    this.open[called.index] = open;
    if (open === 0) total.total += spent;
    total.self += spent - this.inner[depth]!;
    if (spent < total.least) total.least = spent;
    if (spent > total.most) total.most = spent;
    if (depth > 0) this.inner[depth - 1]! += spent;
  }
}

/** Functions whose calls were counted. What they called is not known: each is asked about alone. */
function addCounted(totals: (FunctionTotal | undefined)[], trace: NativeTrace, selection: CallSelection): void {
  const { only, not = [], hide = [], match } = selection;
  const isOnly = only === undefined ? () => true : matcherOf(only, match);
  const isLeftOut = matcherOf([...not, ...hide], match);
  for (const [called, { task }, calls] of trace.counted()) {
    if (!isOnly(called) || isLeftOut(called)) continue;
    const total = (totals[called.index] ??= newTotal(called));
    total.calls += calls;
    total.threads.add(task);
  }
}

/** Each function that was called, the most called first, then by name. */
export function functionTotals(trace: NativeTrace, selection: CallSelection = {}): FunctionTotal[] {
  const totals: (FunctionTotal | undefined)[] = [];
  const select = selector(selection);
  trace.byTask(({ task }) => select(new FunctionCounter(totals, task)));
  if (trace.counts) addCounted(totals, trace, selection);
  return totals
    .filter((each) => each !== undefined)
    .sort((a, b) => b.calls - a.calls || (a.called.name < b.called.name ? -1 : 1));
}

/** Calls of a function below the same callers. */
export interface StackNode {
  /** null: above all functions. */
  readonly called: NativeFunction | null;
  readonly children: Map<number, StackNode>;
  calls: number;
  /** Nanoseconds in it with what it called. */
  total: number;
}

/** Deeper calls count for the function at this depth. */
const DEPTH_MAX = 512;

class StackCounter implements CallListener {
  private readonly path: StackNode[];
  private readonly starts: number[] = [];

  constructor(root: StackNode) {
    this.path = [root];
  }

  enter(called: NativeFunction, depth: number, time: number): void {
    if (depth >= DEPTH_MAX) return;
    const parent = this.path[depth]!;
    let node = parent.children.get(called.index);
    if (node === undefined) {
      node = { called, children: new Map(), calls: 0, total: 0 };
      parent.children.set(called.index, node);
    }
    node.calls++;
    this.path[depth + 1] = node;
    this.starts[depth] = time;
  }

  leave(_called: NativeFunction, depth: number, time: number): void {
    if (depth < DEPTH_MAX) this.path[depth + 1]!.total += time - this.starts[depth]!;
  }
}

/** All threads together: calls by stack, in order of first call; `calls` of the root is 0. */
export function stackTotals(trace: NativeTrace, selection: CallSelection = {}): StackNode {
  const root: StackNode = { called: null, children: new Map(), calls: 0, total: 0 };
  const select = selector(selection);
  trace.byTask(() => select(new StackCounter(root)));
  return root;
}
