/**
 * Sums over a trace: instructions by stack (`a;b;c 123`, what flame graph tools read) and by
 * function. Memory grows with the number of different stacks, not with the length of the run.
 *
 * An instruction counts for the activation on top of its CPU's stack; what other CPUs do meanwhile
 * does not. What runs before the first function is entered counts for `OUTSIDE`.
 */
import type { Address } from '../units.js';
import { visibleLine } from '../visible.js';
import type { TracedFunction, TraceEvent, TraceSink } from './events.js';
import type { TextSink } from './ndjson.js';

/** Stands for code that runs outside of every known function. */
export const OUTSIDE = '[outside]';
/** Stands for the activations below `DEPTH_MAX`. */
export const DEEPER = '[deeper]';
/** Stacks that are deeper are cut: the lines would grow with the square of a recursion's depth. */
const DEPTH_MAX = 512;

interface Node {
  readonly function: TracedFunction | null;
  readonly parent: Node | null;
  readonly depth: number;
  readonly children: Map<TracedFunction, Node>;
  self: number;
}

/** Where a CPU is. */
interface Position {
  node: Node;
  /** Activations that have no node because they are too deep. */
  hidden: number;
  time: number;
}

const PIECE = 0x1_0000;

export interface FoldedOptions {
  /**
   * When the clock of a CPU begins: `zero`, or at its first event (what was before is lost).
   * Default `zero`.
   */
  readonly start?: 'zero' | 'first-event';
  /**
   * False: the trace has no returns. Calls are counted then, by caller and callee. Default true.
   */
  readonly nested?: boolean;
  /** Names callers where there are no returns. */
  readonly nameOf?: (address: Address) => string;
}

const plain = (name: string): string => visibleLine(name).replace(/[;\s]/g, '_');

/** Entries alone: `caller;callee NUMBER OF CALLS`, in order of first call. */
function foldedCalls(write: TextSink, nameOf: (address: Address) => string): TraceSink {
  const counts = new Map<string, number>();
  return {
    event(event) {
      if (event.kind !== 'entry') return;
      const path = `${plain(nameOf(event.parent) || OUTSIDE)};${plain(event.function.name)}`;
      counts.set(path, (counts.get(path) ?? 0) + 1);
    },
    end() {
      for (const [path, count] of counts) write(`${path} ${count}\n`);
    },
  };
}

/**
 * Collects stacks; they are written at the end, parents before their callees, in order of first
 * execution.
 */
export function foldedWriter(write: TextSink, options: FoldedOptions = {}): TraceSink {
  const { start = 'zero', nested = true, nameOf = (): string => '' } = options;
  if (!nested) return foldedCalls(write, nameOf);
  return new FoldedStacks(write, start === 'zero' ? 0 : -1);
}

/** Stacks as a tree, and where each CPU is in it. */
class FoldedStacks implements TraceSink {
  private readonly root: Node = { function: null, parent: null, depth: 0, children: new Map(), self: 0 };
  private readonly positions: Position[] = [];

  /** @param begin  time of a CPU before its first event; -1: that of its first event */
  constructor(
    private readonly write: TextSink,
    private readonly begin: number,
  ) {}

  private advance(cpu: number, time: number): Position {
    const { positions } = this;
    for (let i = positions.length; i <= cpu; i++) {
      positions.push({ node: this.root, hidden: 0, time: this.begin });
    }
    const position = positions[cpu]!;
    if (position.time < 0) position.time = time;
    position.node.self += time - position.time;
    position.time = time;
    return position;
  }

  event(event: TraceEvent): void {
    // Points do not count here: a clock that begins with the first event begins with the first
    // entry.
    if (event.kind !== 'entry' && event.kind !== 'return') return;
    const position = this.advance(event.cpu, event.instructions);
    const { node } = position;
    if (event.kind === 'return') {
      if (position.hidden > 1) position.hidden--;
      else {
        position.hidden = 0;
        position.node = node.parent ?? this.root;
      }
      return;
    }
    if (position.hidden > 0) {
      position.hidden++;
      return;
    }
    let child = node.children.get(event.function);
    if (!child) {
      child = { function: event.function, parent: node, depth: node.depth + 1, children: new Map(), self: 0 };
      node.children.set(event.function, child);
    }
    position.node = child;
    if (child.depth > DEPTH_MAX) position.hidden = 1;
  }

  end(instructions: readonly number[]): void {
    const { root, write } = this;
    instructions.forEach((time, cpu) => this.advance(cpu, time));
    let text = root.self > 0 ? `${OUTSIDE} ${root.self}\n` : '';
    const pending: { readonly node: Node; readonly path: string }[] = [];
    const push = (node: Node, path: string): void => {
      for (const child of [...node.children.values()].reverse()) {
        const name = child.depth > DEPTH_MAX ? DEEPER : plain(child.function?.name ?? OUTSIDE);
        pending.push({ node: child, path: path === '' ? name : `${path};${name}` });
      }
    };
    push(root, '');
    for (let next = pending.pop(); next; next = pending.pop()) {
      const { node, path } = next;
      if (node.self > 0) text += `${path} ${node.self}\n`;
      if (text.length >= PIECE) {
        write(text);
        text = '';
      }
      push(node, path);
    }
    if (text !== '') write(text);
  }
}

/** A function's part in a run. */
export interface ProfileRow {
  /** null: code outside of every known function. */
  readonly function: TracedFunction | null;
  readonly calls: number;
  /** Instructions of the function itself. */
  readonly self: number;
  /** With those of what it called; recursion counts once. */
  readonly total: number;
}

export interface Profile extends TraceSink {
  /** Rows in descending order of `self`; complete after the end of the run. */
  rows(): readonly ProfileRow[];
}

/** What is counted of a function. */
interface Counts {
  calls: number;
  self: number;
  total: number;
  /** Open activations, by CPU. */
  readonly open: number[];
  /** Time of the outermost open one, by CPU. */
  readonly since: number[];
}

/** Counts instructions and calls by function. */
export function profile(): Profile {
  return new CallCounts();
}

class CallCounts implements Profile {
  private readonly counts = new Map<TracedFunction | null, Counts>();
  private readonly stacks: Counts[][] = [];
  private readonly last: number[] = [];

  private of(traced: TracedFunction | null): Counts {
    let found = this.counts.get(traced);
    if (!found) {
      found = { calls: 0, self: 0, total: 0, open: [], since: [] };
      this.counts.set(traced, found);
    }
    return found;
  }

  private advance(cpu: number, time: number): Counts[] {
    const { stacks, last } = this;
    for (let i = stacks.length; i <= cpu; i++) {
      stacks.push([]);
      last.push(0);
    }
    const stack = stacks[cpu]!;
    const passed = time - last[cpu]!;
    last[cpu] = time;
    if (stack.length > 0) stack.at(-1)!.self += passed;
    else if (passed > 0) {
      const outside = this.of(null);
      outside.self += passed;
      outside.total += passed;
    }
    return stack;
  }

  event(event: TraceEvent): void {
    const { cpu, instructions: time } = event;
    const stack = this.advance(cpu, time);
    const each = this.of(event.function);
    const open = each.open[cpu] ?? 0;
    if (event.kind === 'entry') {
      stack.push(each);
      each.calls++;
      each.open[cpu] = open + 1;
      if (open === 0) each.since[cpu] = time;
    } else if (event.kind === 'return') {
      stack.pop();
      each.open[cpu] = open - 1;
      if (open === 1) each.total += time - each.since[cpu]!;
    }
  }

  end(instructions: readonly number[]): void {
    instructions.forEach((time, cpu) => this.advance(cpu, time));
  }

  rows(): readonly ProfileRow[] {
    return [...this.counts]
      .map(([traced, { calls, self, total }]) => ({ function: traced, calls, self, total }))
      .sort((a, b) => b.self - a.self || (a.function?.index ?? -1) - (b.function?.index ?? -1));
  }
}
