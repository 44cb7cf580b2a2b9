/** Sums over a trace: calls by function, and by stack. Memory grows with what differs. */
import type { NativeFunction } from './objects.js';
import type { NativeTrace } from './trace.js';
import type { CallListener } from './tree.js';

export interface FunctionTotal {
  readonly called: NativeFunction;
  calls: number;
  /** Threads that called it. */
  readonly threads: Set<number>;
}

/** Calls of each function, the most called first, then by name. */
export function functionTotals(trace: NativeTrace): FunctionTotal[] {
  const totals: (FunctionTotal | undefined)[] = [];
  trace.byTask(({ task }) => ({
    enter: (called) => {
      const total = (totals[called.index] ??= { called, calls: 0, threads: new Set() });
      total.calls++;
      total.threads.add(task);
    },
    leave: () => undefined,
  }));
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
  trace.byTask(() => new StackCounter(root));
  return root;
}
