/**
 * A trace as a page shows it: slices of a timeline, the tree of a flame graph, sums by function.
 * Both are bounded, so that a page stays readable; what is left out is counted and said.
 */
import { type ReadEvent, readTrace } from '../trace/read.js';
import { visibleLine } from '../visible.js';
import { type Column, type Columns, unsigned } from './columns.js';
import type { FlameColumn, PageTrace, SliceColumn } from './model.js';
import type { Strings } from './strings.js';

/** Slices of the timeline: the first ones are kept. */
const MOST_SLICES = 100_000;
/** Stacks of the flame graph, beyond which further ones count for the last known caller. */
const MOST_STACKS = 20_000;
/** Callers that a stack names. */
const MOST_DEPTH = 256;

interface Node {
  readonly number: number;
  readonly function: number;
  readonly parent: number;
  readonly depth: number;
  readonly children: Map<number, Node>;
  self: number;
  total: number;
  calls: number;
}

interface Open {
  readonly function: number;
  readonly node: Node;
  readonly start: number;
  /** Position of its slice; -1: left out. */
  readonly slice: number;
  inside: number;
}

interface Sums {
  calls: number;
  self: number;
  total: number;
}

/** Collects events into slices, stacks and sums. */
class Collector {
  readonly slices: { function: number; cpu: number; depth: number; start: number; length: number }[] = [];
  readonly nodes: Node[] = [];
  readonly functions = new Map<number, Sums>();
  readonly cpus = new Set<number>();
  events = 0;
  left = 0;
  merged = 0;
  points = 0;
  unmatched = 0;
  first = -1;
  last = 0;
  private readonly stacks = new Map<number, Open[]>();

  constructor(private readonly strings: Strings) {
    this.node(0, null);
  }

  private node(name: number, parent: Node | null): Node {
    const depth = parent === null ? 0 : parent.depth + 1;
    const number = this.nodes.length;
    const made = { number, function: name, parent: parent?.number ?? 0, depth, children: new Map(), self: 0, total: 0, calls: 0 };
    this.nodes.push(made);
    parent?.children.set(name, made);
    return made;
  } // prettier-ignore

  private child(parent: Node, name: number): Node {
    const known = parent.children.get(name);
    if (known !== undefined) return known;
    if (this.nodes.length < MOST_STACKS && parent.depth < MOST_DEPTH) return this.node(name, parent);
    this.merged++;
    return parent;
  }

  take(event: ReadEvent, nested: boolean): void {
    this.events++;
    if (this.first < 0) this.first = event.time;
    this.last = Math.max(this.last, event.time);
    this.cpus.add(event.cpu);
    const name = this.strings.line(event.function);
    const stack = this.stacks.get(event.cpu) ?? [];
    this.stacks.set(event.cpu, stack);
    if (event.kind === 'entry' && nested) this.enter(event, name, stack);
    else if (event.kind === 'entry') this.called(event, name);
    else if (event.kind === 'return') this.leave(event, stack);
    else this.points++;
  }

  private slice(event: ReadEvent, name: number): number {
    if (this.slices.length >= MOST_SLICES) {
      this.left++;
      return -1;
    }
    const { cpu, depth, time } = event;
    return this.slices.push({ function: name, cpu, depth, start: time, length: 0 }) - 1;
  }

  private sums(name: number): Sums {
    const known = this.functions.get(name);
    if (known !== undefined) return known;
    const made = { calls: 0, self: 0, total: 0 };
    this.functions.set(name, made);
    return made;
  }

  private enter(event: ReadEvent, name: number, stack: Open[]): void {
    const node = this.child(stack.at(-1)?.node ?? this.nodes[0]!, name);
    node.calls++;
    this.sums(name).calls++;
    stack.push({ function: name, node, start: event.time, slice: this.slice(event, name), inside: 0 });
  }

  /** An entry of a trace without returns: it takes no time that is known. */
  private called(event: ReadEvent, name: number): void {
    this.slice(event, name);
    this.sums(name).calls++;
    this.child(this.nodes[0]!, name).calls++;
  }

  private leave(event: ReadEvent, stack: Open[]): void {
    const open = stack.pop();
    if (open === undefined) this.unmatched++;
    else this.close(open, event.time, stack);
  }

  private close(open: Open, time: number, outer: readonly Open[]): void {
    const length = time - open.start;
    if (open.slice >= 0) this.slices[open.slice]!.length = length;
    const own = length - open.inside;
    open.node.self += own;
    const sums = this.sums(open.function);
    sums.self += own;
    if (!outer.some((each) => each.function === open.function)) sums.total += length;
    const around = outer.at(-1);
    if (around !== undefined) around.inside += length;
  }

  /** Functions that never returned end with the trace. */
  end(): number {
    let open = 0;
    for (const stack of this.stacks.values()) {
      for (let each = stack.pop(); each !== undefined; each = stack.pop()) {
        this.close(each, this.last, stack);
        open++;
      }
    }
    // Children stand behind their parents.
    for (const node of [...this.nodes].reverse()) {
      node.total += node.self;
      if (node.number > 0) this.nodes[node.parent]!.total += node.total;
    }
    return open;
  }
}

function noticesOf(collected: Collector, open: number): string[] {
  const { left, merged, points, unmatched } = collected;
  return [
    ...(left > 0 ? [`the timeline shows the first ${MOST_SLICES} calls; ${left} later ones are left out`] : []),
    ...(merged > 0 ? [`${merged} calls of further or deeper stacks count for their callers in the flame graph`] : []),
    ...(points > 0 ? [`${points} events that are no call (probes, direct calls, marks) are counted, not drawn`] : []),
    ...(unmatched > 0 ? [`${unmatched} returns without their entry are left out`] : []),
    ...(open > 0 ? [`${open} functions did not return: they end with the trace`] : []),
  ];
}

/** A trace for a page. @throws ElftraceError 'bad-record' */
export function pageTrace(
  file: string,
  text: string,
  strings: Strings,
): { readonly trace: PageTrace; readonly columns: Columns } {
  const { header, events } = readTrace(text);
  const collected = new Collector(strings);
  for (const event of events) collected.take(event, header.nested);
  const notices = noticesOf(collected, collected.end());
  const { losses, nested, clock, source } = header;
  const lost = losses === null ? 0 : losses.written - losses.kept;
  if (lost > 0) notices.unshift(`${lost} events were overwritten before the trace was read`);
  if (losses !== null && losses.dropped > 0) notices.unshift(`${losses.dropped} events could not be recorded`);
  if (!nested) notices.unshift('the tracer recorded no returns: calls are marks without length, and are counted');
  const { slices, nodes } = collected;
  const trace: PageTrace = {
    file: visibleLine(file),
    image: visibleLine(header.image),
    clock,
    source,
    nested,
    notices,
    events: collected.events,
    start: Math.max(collected.first, 0),
    end: collected.last,
    cpus: [...collected.cpus].sort((a, b) => a - b),
    functions: [...collected.functions].map(([name, { calls, self, total }]) => [name, calls, self, total] as const),
  };
  const columns: Readonly<Record<SliceColumn | FlameColumn, Column>> = {
    'slice.function': unsigned(slices.map((each) => each.function)),
    'slice.cpu': unsigned(slices.map(({ cpu }) => cpu)),
    'slice.depth': unsigned(slices.map(({ depth }) => depth)),
    'slice.start': Float64Array.from(slices, ({ start }) => start),
    'slice.length': Float64Array.from(slices, ({ length }) => length),
    'flame.function': unsigned(nodes.map((each) => each.function)),
    'flame.parent': unsigned(nodes.map(({ parent }) => parent)),
    'flame.self': Float64Array.from(nodes, ({ self }) => self),
    'flame.total': Float64Array.from(nodes, ({ total }) => total),
    'flame.calls': unsigned(nodes.map(({ calls }) => calls)),
  };
  return { trace, columns };
}
