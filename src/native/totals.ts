/** Sums over a trace: calls by function, and by stack. Memory grows with what differs. */
import type { NativeFunction } from './objects.js';
import type { NativeTrace, TraceThread } from './trace.js';
import { type CallListener, CallTree } from './tree.js';

export interface FunctionTotal {
  readonly called: NativeFunction;
  calls: number;
  /** Threads that called it. */
  readonly threads: Set<number>;
}

/** Calls of each function, the most called first, then by name. */
export function functionTotals(trace: NativeTrace): FunctionTotal[] {
  const totals: (FunctionTotal | undefined)[] = [];
  trace.byTask((thread, called) => {
    if (called === null) return;
    const total = (totals[called.index] ??= { called, calls: 0, threads: new Set() });
    total.calls++;
    total.threads.add(thread.task);
  });
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
}

/** Deeper calls count for the function at this depth. */
const DEPTH_MAX = 512;

class StackCounter implements CallListener {
  private readonly path: StackNode[];

  constructor(root: StackNode) {
    this.path = [root];
  }

  enter(called: NativeFunction, depth: number): void {
    if (depth >= DEPTH_MAX) return;
    const parent = this.path[depth]!;
    let node = parent.children.get(called.index);
    if (node === undefined) {
      node = { called, children: new Map(), calls: 0 };
      parent.children.set(called.index, node);
    }
    node.calls++;
    this.path[depth + 1] = node;
  }

  leave(): void {
    // The path is written over by the next call.
  }
}

/** All threads together: calls by stack, in order of first call; `calls` of the root is 0. */
export function stackTotals(trace: NativeTrace): StackNode {
  const root: StackNode = { called: null, children: new Map(), calls: 0 };
  forTrees(trace, () => new StackCounter(root));
  return root;
}

/** Each thread's calls nested, of all objects together, one thread after the other. */
export function forTrees(trace: NativeTrace, listenerOf: (thread: TraceThread) => CallListener): void {
  let task = -1;
  let tree: CallTree | null = null;
  trace.byTask((thread, called, stack, time) => {
    if (tree === null || thread.task !== task) {
      tree?.end();
      task = thread.task;
      tree = new CallTree(listenerOf(thread));
    }
    tree.event(called, stack, time);
  });
  (tree as CallTree | null)?.end();
}
