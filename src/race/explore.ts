/**
 * All orders of a race. Two ways of looking at the same schedules:
 *
 *   full     every event is a choice; every actor has a number of slots, an event each, and one
 *            that has nothing more to do lets its slot pass. The
 *            number of schedules is that of the ways to merge the slots: (n1 + n2 + ...)! / (n1!
 *            n2! ...), counted and compared
 *   reduced  events that touch nothing which another actor may still touch are done at once,
 *            because doing them earlier or later cannot be told apart
 *            (partial-order reduction with singleton persistent sets). One schedule stands for all
 *            that differ in such orders
 *
 * Schedules that lead to equal states are continued once: their number is the sum over the ways to
 * the state. Nothing is sampled.
 *
 * Why the reduction misses nothing: an event of a thread is done at once only if it is independent
 * of every step that any patcher has left, and of everything that another thread is known to touch.
 * What patchers touch is written in their steps. What threads touch is found by running them:
 * should one ever touch what an event done at once has touched, the whole search begins anew with
 * that place marked as shared, until nothing is found any more. Orders of dependent events are then
 * all there, in every equivalence class, so no conflict can have been missed.
 *
 * The shortest schedule that goes wrong is searched for in the full set, breadth first, with as few
 * threads as will do: others stay outside.
 */
import { ElftraceError } from '../errors.js';
import type { Property, RaceStep, Scene, Sequence, Violation } from './model.js';
import { type Actor, type Footprint, independent, type SavedWorld, World } from './world.js';

export interface RaceOptions {
  readonly properties?: readonly Property[];
  /** `none`: every event is a choice. Default: reduced. */
  readonly reduction?: 'partial-order' | 'none';
  /**
   * Events of each thread that are choices, with `reduction: 'none'`; what comes after runs alone.
   * Default: as many as its longest call has.
   */
  readonly window?: number | readonly number[];
  /**
   * CPUs may fetch the lines that are patched at any time, ahead of what they execute. For machines
   * with `fetch: 'buffered'`.
   */
  readonly prefetch?: boolean;
  /** End when so many schedules were explored. Default: all. */
  readonly maxSchedules?: number;
  /** End of a thread that executes so many instructions. Default 20,000. */
  readonly maxSteps?: number;
  /**
   * Only schedules with at most so many switches away from an actor that could go on. Implies every
   * event is a choice.
   */
  readonly switches?: number;
  /** End at the first violation. Default: false, all are counted. */
  readonly first?: boolean;
  /** False: no search for the shortest schedule. Default true. */
  readonly shortest?: boolean;
}

/** What cut a search short. */
export interface Bound {
  readonly kind: 'max-schedules' | 'max-steps' | 'switches' | 'first' | 'seconds' | 'interrupted';
  /** 0 for `interrupted`. */
  readonly limit: number;
}

/** One event of a schedule: who acted. */
export type ScheduleEntry = Actor;

export interface FailingSchedule {
  readonly entries: readonly ScheduleEntry[];
  readonly violation: Violation;
  /** Shorter ones do not exist with as few threads; false where the search for them was cut. */
  readonly shortest: boolean;
}

export interface RaceCounts {
  /** States with a choice, and events executed in the search. */
  readonly states: number;
  readonly events: number;
  /** Schedules of the reduced set (or of the full one), and how many of them are violated. */
  readonly explored: bigint;
  readonly violated: bigint;
  /** All orders of the events, by formula, and the slots it was computed from. */
  readonly total: bigint;
  readonly slots: readonly { readonly actor: string; readonly events: number }[];
  /**
   * `total - explored`: equivalent to one that was explored, or impossible because of waits and
   * locks.
   */
  readonly pruned: bigint;
  /**
   * Orders in which an actor that waits would have to go on; only `reduction: 'none'` counts them:
   * with `explored` they are `total`.
   */
  readonly impossible: bigint | null;
  /** By what became of them: rules that were violated, or the marks of all calls. */
  readonly outcomes: ReadonlyMap<string, bigint>;
}

export interface RaceResult {
  /** `undecided`: a bound cut the search before anything was found. */
  readonly verdict: 'holds' | 'violated' | 'undecided';
  readonly counts: RaceCounts;
  /** The bounds that mattered. */
  readonly bounds: readonly Bound[];
  readonly failing: FailingSchedule | null;
  /** One violation of each rule that was violated. */
  readonly violations: readonly Violation[];
}

export interface RaceProgress {
  readonly states: number;
  readonly events: number;
  readonly explored: bigint;
  readonly violated: bigint;
  readonly phase: 'explore' | 'count' | 'shortest';
}

/** (n1 + n2 + ...)! / (n1! n2! ...) */
export function multinomial(parts: readonly number[]): bigint {
  let result = 1n;
  let sum = 0;
  for (const part of parts) {
    for (let i = 1; i <= part; i++) {
      sum++;
      result = (result * BigInt(sum)) / BigInt(i);
    }
  }
  return result;
}

const DEFAULT_STEPS = 20_000;
/** Instructions of a thread that no other actor touches, after which states are compared. */
const SUSPICIOUS = 2048;
const PROGRESS_EVENTS = 2000;

/** What a schedule came to. */
type End =
  { readonly kind: 'done'; readonly outcome: string } | { readonly kind: 'violated'; readonly violation: Violation };

class Search {
  states = 0;
  events = 0;
  explored = 0n;
  violated = 0n;
  impossible = 0n;
  readonly outcomes = new Map<string, bigint>();
  readonly violations = new Map<string, Violation>();
  readonly bounds = new Map<Bound['kind'], Bound>();
  /** Most events of an actor in one schedule. */
  longest: number[];
  /** Set by the caller that ends the search early. */
  interrupted: Bound | null = null;
  /** The first schedule that was found to go wrong. */
  found: { readonly way: Way | null; readonly violation: Violation } | null = null;
  private readonly touched: { reads: Set<number>; writes: Set<number> }[];
  readonly shared = new Set<number>();
  restart = false;

  constructor(
    readonly world: World,
    readonly options: RaceOptions,
  ) {
    this.longest = world.actors.map(() => 0);
    this.touched = world.scene.threads.map(() => ({ reads: new Set(), writes: new Set() }));
  }

  get actors(): readonly Actor[] {
    return this.world.actors;
  }

  bound(kind: Bound['kind'], limit: number): void {
    if (!this.bounds.has(kind)) this.bounds.set(kind, { kind, limit });
  }

  end(end: End, ways: bigint): void {
    this.explored += ways;
    const name = end.kind === 'done' ? end.outcome : `violated: ${end.violation.rule}`;
    this.outcomes.set(name, (this.outcomes.get(name) ?? 0n) + ways);
    if (end.kind === 'done') return;
    this.violated += ways;
    if (!this.violations.has(end.violation.rule)) this.violations.set(end.violation.rule, end.violation);
  }

  progress(phase: RaceProgress['phase']): RaceProgress {
    const { states, events, explored, violated } = this;
    return { states, events, explored, violated, phase };
  }

  /** The outcome of a schedule in which every actor is at rest. */
  finish(): End {
    const violation = this.world.atEnd();
    if (violation) return { kind: 'violated', violation };
    const marks = this.world.marks.map((rounds) =>
      rounds.map((each) => (each.length > 0 ? each.join('+') : '-')).join('/'),
    );
    return { kind: 'done', outcome: marks.join(' ') };
  }

  deadlock(): End {
    const waiting = this.actors
      .filter((each) => !this.world.finished(each) && !this.world.enabled(each))
      .map(({ name }) => name);
    const message = `nobody can go on: ${waiting.join(', ')} wait`;
    return { kind: 'violated', violation: { rule: 'deadlock', thread: -1, message } };
  }

  // ------------------------------------------------------------------------------- what is touched

  /** 8 bytes; numbers of high addresses are inexact, which only makes places larger. */
  private *granules(ranges: Footprint['reads']): Generator<number> {
    for (const [start, end] of ranges) for (let at = start >> 3n; at < (end + 7n) >> 3n; at++) yield Number(at);
  }

  /**
   * Notes what a thread touched. Places that two threads touch, one of them writing, are shared.
   */
  note(thread: number, { reads, writes }: Footprint): void {
    if (this.touched.length < 2) return;
    const own = this.touched[thread]!;
    const share = (granule: number): void => {
      if (this.shared.has(granule)) return;
      this.shared.add(granule);
      this.restart = true;
    };
    for (const granule of this.granules(reads)) {
      if (own.reads.has(granule)) continue;
      own.reads.add(granule);
      if (this.touched.some((each, i) => i !== thread && each.writes.has(granule))) share(granule);
    }
    for (const granule of this.granules(writes)) {
      if (own.writes.has(granule)) continue;
      own.writes.add(granule);
      if (this.touched.some((each, i) => i !== thread && (each.writes.has(granule) || each.reads.has(granule))))
        share(granule);
    }
  }

  /** The event of a thread commutes with all that other actors may still do. */
  isLocal(footprint: Footprint): boolean {
    for (const each of this.world.remaining()) if (!independent(footprint, each)) return false;
    if (this.shared.size === 0) return true;
    for (const granule of this.granules(footprint.reads)) if (this.shared.has(granule)) return false;
    for (const granule of this.granules(footprint.writes)) if (this.shared.has(granule)) return false;
    return true;
  }
}

/** The way to a violation: a list from its end. */
interface Way {
  readonly actor: Actor;
  readonly before: Way | null;
}

function entriesOf(way: Way | null): ScheduleEntry[] {
  const entries: ScheduleEntry[] = [];
  for (let at = way; at !== null; at = at.before) entries.push(at.actor);
  return entries.reverse();
}

/**
 * A state of the reduced graph: every thread stands in front of an event that another actor may
 * notice.
 */
interface Node {
  readonly saved: SavedWorld;
  /** Events of each actor so far, on the way on which it was found. */
  readonly taken: readonly number[];
  readonly way: Way | null;
  readonly edges: (Node | End)[];
  /** undefined: being explored. */
  paths: bigint | undefined;
  order: number;
}

const isNode = (each: Node | End): each is Node => 'saved' in each;

/** Does what no other actor can notice; the end of the schedule, where there is one. */
function settle(search: Search, taken: number[], log: (actor: Actor) => void): End | null {
  const { world } = search;
  const { maxSteps = DEFAULT_STEPS } = search.options;
  for (const actor of search.actors) {
    if (actor.kind !== 'thread') continue;
    let alone = 0;
    let mark = '';
    let power = SUSPICIOUS;
    while (world.enabled(actor)) {
      const range = world.fetchRange(actor.index);
      if (range === null || world.mayFetchAnew(actor.index, range)) break;
      if (!search.isLocal({ reads: [range], writes: [], readNames: [], writtenNames: [] })) break;
      const tried = world.tryThread(actor.index);
      search.events++;
      search.note(actor.index, tried.footprint);
      if (!search.isLocal(tried.footprint)) {
        tried.undo();
        break;
      }
      taken[actor.index]!++;
      log(actor);
      if (tried.violation) return { kind: 'violated', violation: tried.violation };
      alone++;
      if (taken[actor.index]! > maxSteps) {
        search.bound('max-steps', maxSteps);
        return { kind: 'done', outcome: `cut after ${maxSteps} instructions` };
      }
      if (alone < SUSPICIOUS) continue;
      const { key } = world.save();
      if (key === mark) {
        const message = `${actor.name} comes back to the state it was in, and nobody can change that`;
        return { kind: 'violated', violation: { rule: 'endless-loop', thread: actor.index, message } };
      }
      if (alone === power) {
        mark = key;
        power *= 2;
      }
    }
  }
  return null;
}

function* reducedPass(search: Search): Generator<RaceProgress, Node | End> {
  const { world, options } = search;
  const nodes = new Map<string, Node>();
  const taken = search.actors.map(() => 0);
  const limit = options.maxSchedules === undefined ? null : BigInt(options.maxSchedules);
  let running = 0n;

  const arrive = (counts: number[], from: Way | null): { readonly at: Node | End; readonly known: boolean } => {
    let way = from;
    const end = settle(search, counts, (actor) => {
      way = { actor, before: way };
    });
    if (end?.kind === 'violated') search.found ??= { way, violation: end.violation };
    counts.forEach((count, i) => (search.longest[i] = Math.max(search.longest[i]!, count)));
    if (end) return { at: end, known: true };
    const saved = world.save();
    const known = nodes.get(saved.key);
    if (known) return { at: known, known: true };
    const node: Node = { saved, taken: counts, way, edges: [], paths: undefined, order: -1 };
    if (search.actors.some((actor) => actor.kind !== 'prefetch' && !world.finished(actor))) {
      nodes.set(saved.key, node);
      search.states++;
      return { at: node, known: false };
    }
    const last = search.finish();
    if (last.kind === 'violated') search.found ??= { way, violation: last.violation };
    return { at: last, known: true };
  };

  const first = arrive(taken, null);
  if (!isNode(first.at)) return first.at;
  const root = first.at;
  const stack: { readonly node: Node; readonly next: Actor[] }[] = [];
  const open = (node: Node): void => {
    const next = search.actors.filter((actor) => world.enabled(actor));
    if (!next.some(({ kind }) => kind !== 'prefetch')) {
      const end = search.deadlock();
      if (end.kind === 'violated') search.found ??= { way: node.way, violation: end.violation };
      node.edges.push(end);
    } else {
      stack.push({ node, next });
      return;
    }
    node.paths = 1n;
  };
  world.load(root.saved);
  open(root);
  let last = 0;
  while (stack.length > 0) {
    if (search.restart && search.events > 0) return root;
    if (search.events - last >= PROGRESS_EVENTS) {
      last = search.events;
      yield search.progress('explore');
      if (search.interrupted) {
        search.bound(search.interrupted.kind, search.interrupted.limit);
        break;
      }
    }
    const { node, next } = stack.at(-1)!;
    const actor = next.shift();
    if (actor === undefined) {
      stack.pop();
      node.paths = node.edges.reduce((sum, each) => sum + (isNode(each) ? (each.paths ?? 0n) : 1n), 0n);
      continue;
    }
    world.load(node.saved);
    const { footprint, violation } = world.perform(actor);
    search.events++;
    if (actor.kind === 'thread') search.note(actor.index, footprint);
    const counts = [...node.taken];
    counts[search.actors.indexOf(actor)]!++;
    let child: Node | End;
    let known = true;
    const way: Way = { actor, before: node.way };
    if (violation) {
      child = { kind: 'violated', violation };
      search.found ??= { way, violation };
    } else if (counts[search.actors.indexOf(actor)]! > (options.maxSteps ?? DEFAULT_STEPS)) {
      search.bound('max-steps', options.maxSteps ?? DEFAULT_STEPS);
      child = { kind: 'done', outcome: 'cut' };
    } else ({ at: child, known } = arrive(counts, way));
    counts.forEach((count, i) => (search.longest[i] = Math.max(search.longest[i]!, count)));
    if (isNode(child) && known && child.paths === undefined && stack.some((each) => each.node === child)) {
      const end = cycle(search, stack.slice(stack.findIndex((each) => each.node === child)), actor);
      // A cycle that another actor could leave is no schedule: the others get their turn in the
      // end.
      if (end) {
        node.edges.push(end);
        if (end.kind === 'violated') search.found ??= { way, violation: end.violation };
      }
      continue;
    }
    node.edges.push(child);
    if (isNode(child) && !known) open(child);
    else running += isNode(child) ? (child.paths ?? 0n) : 1n;
    if (!isNode(child) && child.kind === 'violated' && options.first === true) {
      search.bound('first', 1);
      break;
    }
    if (limit !== null && running >= limit) {
      search.bound('max-schedules', Number(limit));
      break;
    }
  }
  // What was cut still has the schedules that were found.
  for (const { node } of stack.reverse())
    node.paths = node.edges.reduce((sum, each) => sum + (isNode(each) ? (each.paths ?? 0n) : 1n), 0n);
  return root;
}

/** A state that comes again: endless where all who could act did, and still. */
function cycle(search: Search, loop: readonly { readonly node: Node }[], actor: Actor): End | null {
  const { world } = search;
  const alone = loop.every(({ node }) => {
    world.load(node.saved);
    return search.actors.every((each) => each === actor || each.kind === 'prefetch' || !world.enabled(each));
  });
  if (!alone) return null;
  const message = `${actor.name} comes back to the state it was in, and nobody can change that`;
  return { kind: 'violated', violation: { rule: 'endless-loop', thread: actor.index, message } };
}

/** Numbers of ways to each end, from the root down. */
function countEnds(search: Search, root: Node): void {
  const order: Node[] = [];
  const stack: { readonly node: Node; at: number }[] = [{ node: root, at: 0 }];
  root.order = 0;
  while (stack.length > 0) {
    const top = stack.at(-1)!;
    const edge = top.node.edges[top.at++];
    if (edge === undefined) {
      order.push(top.node);
      stack.pop();
    } else if (isNode(edge) && edge.order < 0) {
      edge.order = 0;
      stack.push({ node: edge, at: 0 });
    }
  }
  const ways = new Map<Node, bigint>([[root, 1n]]);
  for (const node of order.reverse()) {
    const own = ways.get(node) ?? 0n;
    for (const edge of node.edges) {
      if (isNode(edge)) ways.set(edge, (ways.get(edge) ?? 0n) + own);
      else search.end(edge, own);
    }
  }
}

function* explore(search: Search): Generator<RaceProgress> {
  const start = search.world.save();
  // Threads one after the other, to know beforehand most of what they share.
  if (search.world.scene.threads.length > 1) {
    for (const actor of search.actors) {
      if (actor.kind !== 'thread') continue;
      for (let i = 0; i < DEFAULT_STEPS && search.world.enabled(actor); i++) {
        const { footprint, violation } = search.world.perform(actor);
        search.note(actor.index, footprint);
        if (violation) break;
      }
    }
    search.world.load(start);
  }
  for (;;) {
    search.restart = false;
    search.states = 0;
    search.bounds.clear();
    search.longest = search.actors.map(() => 0);
    search.world.load(start);
    const root = yield* reducedPass(search);
    if (search.restart && search.interrupted === null) continue;
    if (isNode(root)) countEnds(search, root);
    else search.end(root, 1n);
    search.world.load(start);
    return;
  }
}

/** Runs every actor that is left to the end, one after the other, without choices. */
function runOut(search: Search): End {
  const { world } = search;
  const { maxSteps = DEFAULT_STEPS } = search.options;
  for (let steps = 0; ;) {
    const left = search.actors.filter((each) => each.kind !== 'prefetch' && !world.finished(each));
    if (left.length === 0) return search.finish();
    const actor = left.find((each) => world.enabled(each));
    if (actor === undefined) return search.deadlock();
    while (world.enabled(actor)) {
      const { violation } = world.perform(actor);
      search.events++;
      if (violation) return { kind: 'violated', violation };
      if (++steps > maxSteps) {
        search.bound('max-steps', maxSteps);
        return { kind: 'done', outcome: `cut after ${maxSteps} instructions` };
      }
    }
  }
}

/** Every order of the slots, layer by layer: schedules of one layer have equally many events. */
function* enumerate(search: Search, slots: readonly number[]): Generator<RaceProgress> {
  const { world, options, actors } = search;
  interface Place {
    readonly saved: SavedWorld;
    readonly used: readonly number[];
    readonly last: number;
    readonly switched: number;
    ways: bigint;
  }
  const start = world.save();
  let layer = new Map<string, Place>([
    ['', { saved: start, used: slots.map(() => 0), last: -1, switched: 0, ways: 1n }],
  ]);
  const { switches } = options;
  let since = 0;
  /** Ways to order what is left, where switches do not matter. */
  const rest = (used: readonly number[]): bigint => multinomial(slots.map((count, i) => count - used[i]!));
  while (layer.size > 0) {
    const next = new Map<string, Place>();
    for (const place of layer.values()) {
      search.states++;
      world.load(place.saved);
      const open = slots.map((count, i) => place.used[i]! < count);
      if (!open.includes(true)) {
        search.end(runOut(search), place.ways);
        continue;
      }
      const can = actors.map((actor, i) => open[i]! && (world.finished(actor) || world.enabled(actor)));
      if (!can.includes(true)) {
        // Only waits are left, for what happens behind the windows.
        search.end(runOut(search), place.ways);
        search.impossible += place.ways * (rest(place.used) - 1n);
        continue;
      }
      for (const [i, actor] of actors.entries()) {
        if (!open[i]) continue;
        const used = place.used.map((each, at) => (at === i ? each + 1 : each));
        if (!can[i]) {
          search.impossible += place.ways * rest(used);
          continue;
        }
        world.load(place.saved);
        let { switched } = place;
        let { last } = place;
        if (!world.finished(actor)) {
          if (
            switches !== undefined &&
            last >= 0 &&
            last !== i &&
            can[last] === true &&
            !world.finished(actors[last]!)
          ) {
            switched++;
            if (switched > switches) {
              search.bound('switches', switches);
              continue;
            }
          }
          last = i;
          const { violation } = world.perform(actor);
          search.events++;
          if (violation) {
            search.end({ kind: 'violated', violation }, place.ways * (switches === undefined ? rest(used) : 1n));
            if (options.first === true) {
              search.bound('first', 1);
              return;
            }
            continue;
          }
        } else if (switches !== undefined && actors.some((each) => !world.finished(each) && world.enabled(each))) {
          // With a bound on switches a slot that passes is no schedule of its own: the slots of
          // others come first.
          const others = actors.some((each, at) => can[at] === true && !world.finished(each));
          if (others) continue;
        }
        const saved = world.save();
        const key = `${used.join()}|${switches === undefined ? '' : `${last},${switched}`}|${saved.key}`;
        const known = next.get(key);
        if (known) known.ways += place.ways;
        else next.set(key, { saved, used, last, switched, ways: place.ways });
      }
      if (search.events - since >= PROGRESS_EVENTS) {
        since = search.events;
        yield search.progress('count');
        if (search.interrupted) {
          search.bound(search.interrupted.kind, search.interrupted.limit);
          return;
        }
      }
      if (options.maxSchedules !== undefined && search.explored >= BigInt(options.maxSchedules)) {
        search.bound('max-schedules', options.maxSchedules);
        return;
      }
    }
    layer = next;
  }
}

/** States that the search for the shortest schedule looks at before it settles for a longer one. */
const SHORTEST_STATES = 60_000;

/** Breadth first among all schedules in which only some threads run. */
function* shortestWith(
  search: Search,
  threads: readonly number[],
  budget: number,
): Generator<RaceProgress, { found: FailingSchedule | null; complete: boolean }> {
  const { world } = search;
  const { maxSteps = DEFAULT_STEPS } = search.options;
  const actors = search.actors.filter(({ kind, index }) => kind === 'patcher' || threads.includes(index));
  const start = world.save();
  const seen = new Set<string>([start.key]);
  let layer: { readonly saved: SavedWorld; readonly way: Way | null }[] = [{ saved: start, way: null }];
  const fail = (way: Way | null, violation: Violation) => ({
    found: { entries: entriesOf(way), violation, shortest: true },
    complete: true,
  });
  let since = search.events;
  for (let depth = 0; layer.length > 0 && depth <= maxSteps; depth++) {
    const next: typeof layer = [];
    for (const { saved, way } of layer) {
      world.load(saved);
      const able = actors.filter((actor) => world.enabled(actor));
      const ended = actors.every((actor) => actor.kind === 'prefetch' || world.finished(actor));
      if (ended && search.actors.every((actor) => actor.kind === 'prefetch' || world.finished(actor))) {
        const violation = world.atEnd();
        if (violation) return fail(way, violation);
        continue;
      }
      if (able.every(({ kind }) => kind === 'prefetch')) {
        if (ended) continue;
        const end = search.deadlock();
        if (end.kind === 'violated') return fail(way, end.violation);
      }
      for (const actor of able) {
        world.load(saved);
        const { violation } = world.perform(actor);
        search.events++;
        const onward: Way = { actor, before: way };
        if (violation) return fail(onward, violation);
        const after = world.save();
        if (seen.has(after.key)) {
          if (able.length > 1) continue;
          // Only this one can act, and nothing is new.
          if (after.key === saved.key || actor.kind === 'thread') {
            const message = `${actor.name} comes back to the state it was in, and nobody can change that`;
            if (onlyActor(search, after)) {
              return fail(onward, { rule: 'endless-loop', thread: actor.index, message });
            }
          }
          continue;
        }
        seen.add(after.key);
        next.push({ saved: after, way: onward });
      }
      if (seen.size > budget) return { found: null, complete: false };
      if (search.events - since >= PROGRESS_EVENTS) {
        since = search.events;
        yield search.progress('shortest');
        if (search.interrupted) return { found: null, complete: false };
      }
    }
    layer = next;
  }
  return { found: null, complete: true };
}

/** From this state on only one actor acts, and it comes back. */
function onlyActor(search: Search, from: SavedWorld): boolean {
  const { world } = search;
  world.load(from);
  const seen = new Set<string>([from.key]);
  for (let i = 0; i < 10_000; i++) {
    const able = search.actors.filter((actor) => actor.kind !== 'prefetch' && world.enabled(actor));
    if (able.length !== 1) return false;
    if (world.perform(able[0]!).violation) return false;
    const { key } = world.save();
    if (key === from.key) return true;
    if (seen.has(key)) return false;
    seen.add(key);
  }
  return false;
}

function* shortest(search: Search): Generator<RaceProgress, FailingSchedule | null> {
  const { world } = search;
  const start = world.save();
  const count = world.scene.threads.length;
  const sets: number[][] = [[]];
  for (let i = 0; i < count; i++) sets.push([i]);
  for (let i = 0; i < count; i++) for (let j = i + 1; j < count; j++) sets.push([i, j]);
  for (const threads of sets) {
    if (threads.length > 2) break;
    world.load(start);
    const { found } = yield* shortestWith(search, threads, SHORTEST_STATES);
    if (found) {
      world.load(start);
      return found;
    }
    if (search.interrupted) break;
  }
  world.load(start);
  return null;
}

function slotsOf(search: Search): number[] {
  const { window } = search.options;
  const { memory } = search.world.scene.machine;
  const isFetched = (step: RaceStep): boolean =>
    step.kind === 'synchronise' ||
    ((step.kind === 'store' || step.kind === 'free') &&
      memory.windowAt(step.address)?.permission.includes('x') === true);
  return search.actors.map(({ kind, index }, i) => {
    if (kind === 'patcher') return search.world.sequence.patchers[index]!.steps.length;
    if (kind === 'prefetch') {
      // Once at first, and again when what was fetched is forgotten or old.
      return 1 + search.world.sequence.patchers.reduce((sum, { steps }) => sum + steps.filter(isFetched).length, 0);
    }
    const asked = typeof window === 'object' ? window[index] : window;
    return asked ?? search.longest[i]!;
  });
}

/**
 * A search that can be interrupted: iterate it, and call `interrupt` to have it end with what it
 * found.
 */
export interface RaceSearch extends Iterator<RaceProgress, RaceResult> {
  /** @param bound  why; default: `interrupted` */
  interrupt(bound?: Bound): void;
}

/**
 * Begins a search. The machine of the scene is the search's until it ends, and then as it was.
 * `race` does it at once.
 * @throws ElftraceError 'usage' for sequences that name what is not there
 */
export function startRace(scene: Scene, sequence: Sequence, options: RaceOptions = {}): RaceSearch {
  const { switches, maxSteps } = options;
  if ((switches ?? 0) < 0 || (maxSteps ?? 1) < 1) throw new ElftraceError('usage', 'a bound is a positive number');
  const world = new World(scene, sequence, options.properties ?? [], options.prefetch);
  const search = new Search(world, options);
  const start = world.save();
  let current = search;
  function* run(): Generator<RaceProgress, RaceResult> {
    try {
      const full = options.reduction === 'none' || switches !== undefined;
      if (full && options.window === undefined) {
        // The longest calls are those of the reduced set: equivalent schedules have the same
        // events.
        const scout = new Search(world, { ...options, first: false });
        current = scout;
        yield* explore(scout);
        current = search;
        search.longest = scout.longest;
        search.interrupted = scout.interrupted;
        search.found = scout.found;
        world.load(start);
      }
      if (full) {
        const slots = slotsOf(search);
        yield* enumerate(search, slots);
      } else yield* explore(search);
      const slots = slotsOf(search);
      const total = multinomial(slots);
      world.load(start);
      const { explored, violated, states, events, outcomes } = search;
      const counts: RaceCounts = {
        states, events, explored, violated, total, outcomes, pruned: total - explored,
        impossible: full && switches === undefined && search.bounds.size === 0 ? search.impossible : null,
        slots: slots.map((each, i) => ({ actor: search.actors[i]!.name, events: each })),
      }; // prettier-ignore
      let failing: FailingSchedule | null = null;
      if (violated > 0n && options.shortest !== false && search.interrupted === null) failing = yield* shortest(search);
      world.load(start);
      // Where the shortest one was not found, or not looked for, any will do.
      if (failing === null && violated > 0n && search.found !== null)
        failing = { entries: entriesOf(search.found.way), violation: search.found.violation, shortest: false };
      // An end in the search for the shortest schedule cuts nothing else.
      const cut = [...search.bounds.values()];
      const decided = cut.length === 0;
      return {
        verdict: violated > 0n ? 'violated' : decided ? 'holds' : 'undecided',
        counts,
        bounds: cut,
        failing,
        violations: [...search.violations.values()],
      };
    } finally {
      world.load(start);
      world.close();
    }
  }
  const iterator = run();
  return {
    next: () => iterator.next(),
    return: (value: RaceResult) => iterator.return(value),
    interrupt: (bound = { kind: 'interrupted', limit: 0 }) => {
      current.interrupted = bound;
    },
  };
}

/** All schedules of a sequence against the threads of a scene. */
export function race(scene: Scene, sequence: Sequence, options: RaceOptions = {}): RaceResult {
  const search = startRace(scene, sequence, options);
  for (;;) {
    const step = search.next();
    if (step.done === true) return step.value;
  }
}
