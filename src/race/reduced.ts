/**
 * The reduced set of schedules: of those that differ only in events that no other actor can notice
 * one is gone through. A state that was reached before is not gone through again.
 */
import { canAct } from './books.js';
import { Again, contextOf, Recall } from './recall.js';
import { Repetition } from './repetition.js';
import { DEFAULT_STEPS, endless } from './search.js';
import type { End, RaceProgress, Search, Way } from './search.js';
import type { Actor } from './actors.js';
import type { SavedWorld } from './states.js';

/** A caller is told of the search, and may end it, after so many moves. */
const PROGRESS_MOVES = 512;
/** Stretches of one thread, after which states are compared. */
const SUSPICIOUS = 64;

/** An actor's turn, and what its CPU then holds (`World.choices`). */
interface Move {
  readonly actor: Actor;
  readonly choice: number;
}

/** The way to a state, from its end: moves, each with how many events of the actor it is. */
interface Path extends Move {
  readonly events: number;
  readonly before: Path | null;
}

/**
 * A state of the reduced graph: every thread stands in front of an event that another actor may
 * notice.
 */
interface Node {
  readonly saved: SavedWorld;
  /** Events of each actor so far, on the way on which it was found. */
  readonly taken: readonly number[];
  readonly path: Path | null;
  readonly edges: (Node | End)[];
  /** undefined: being explored. */
  paths: bigint | undefined;
  order: number;
}

const isNode = (each: Node | End): each is Node => 'saved' in each;

/** Where a way leads once all is done that no other actor can notice. */
interface Settled {
  readonly saved: SavedWorld;
  readonly path: Path | null;
  readonly end: End | null;
}

/** The graph of states in which every thread stands in front of what another actor may notice. */
class ReducedPass {
  private readonly nodes = new Map<string, Node>();
  /** What schedules came to that ended in a state. */
  private readonly ends = new Map<string, End>();
  /** The nodes on the way to where the pass is, with the moves that are still to come. */
  private readonly stack: { readonly node: Node; readonly next: Move[] }[] = [];
  private readonly limit: bigint | null;
  private readonly maxSteps: number;
  /** Schedules that were found so far. */
  private running = 0n;

  constructor(
    private readonly search: Search,
    private readonly recall: Recall,
    private readonly start: SavedWorld,
  ) {
    const { maxSchedules, maxSteps = DEFAULT_STEPS } = search.options;
    this.limit = maxSchedules === undefined ? null : BigInt(maxSchedules);
    this.maxSteps = maxSteps;
  }

  *run(): Generator<RaceProgress, Node | End> {
    const { search, stack } = this;
    const first = this.arrive(
      this.start,
      search.actors.map(() => 0),
      null,
    );
    if (!isNode(first.at)) return first.at;
    const root = first.at;
    this.open(root);
    let moves = 0;
    while (stack.length > 0) {
      search.restart ||= search.world.grew;
      if (search.restart && search.events > 0) return root;
      if (++moves % PROGRESS_MOVES === 0) {
        yield search.progress('explore');
        if (search.interrupted) {
          search.bound(search.interrupted.kind, search.interrupted.limit);
          break;
        }
      }
      const { node, next } = stack.at(-1)!;
      const move = next.shift();
      if (move === undefined) {
        stack.pop();
        node.paths = pathsOf(node);
      } else if (this.take(node, move)) break;
    }
    // What was cut still has the schedules that were found.
    for (const { node } of stack.reverse()) node.paths = pathsOf(node);
    return root;
  }

  /** What a violation shows: the first one is the schedule that is told if no shorter one is. */
  private found(end: End, path: Path | null): void {
    if (end.kind === 'violated' && this.search.found === null)
      this.search.found = { way: this.wayOf(path), violation: end.violation };
  }

  /** The events of a path one by one, executed again for what CPUs held. */
  private wayOf(path: Path | null): Way | null {
    const { world } = this.search;
    const moves: Path[] = [];
    for (let at = path; at !== null; at = at.before) moves.push(at);
    world.load(this.start);
    let way: Way | null = null;
    for (const { actor, choice, events } of moves.reverse()) {
      for (let i = 0; i < events; i++) {
        world.perform(actor, choice);
        way = { actor, before: way, fetch: world.fetchNote };
      }
    }
    return way;
  }

  private count(counts: readonly number[]): void {
    const { longest } = this.search;
    counts.forEach((count, i) => (longest[i] = Math.max(longest[i]!, count)));
  }

  /** Does what no other actor can notice. Counts go on with it. */
  private settle(from: SavedWorld, counts: number[], way: Path | null): Settled {
    const { search, recall } = this;
    let settled: Settled = { saved: from, path: way, end: null };
    for (;;) {
      settled = this.settleThreads(settled, counts);
      const patcher = settled.end === null ? recall.quietPatcher(settled.saved) : null;
      if (patcher === null) return settled;
      const { to, events, violation } = recall.event(settled.saved, patcher, 0);
      search.events += events;
      counts[search.actors.indexOf(patcher)]! += events;
      const path = { actor: patcher, choice: 0, events, before: settled.path };
      settled = { saved: to, path, end: violation && { kind: 'violated', violation } };
      if (violation) return settled;
    }
  }

  private settleThreads({ saved: from, path: way }: Settled, counts: number[]): Settled {
    const { search, recall, maxSteps } = this;
    let [saved, path] = [from, way];
    for (let isAnew = true; isAnew;) {
      isAnew = false;
      for (const actor of search.actors) {
        if (actor.kind !== 'thread') continue;
        const repetition = new Repetition(SUSPICIOUS);
        while (saved.threads[actor.index]!.value.status !== 'done') {
          const { to, events, violation } = recall.stretch(saved, actor, contextOf(saved, actor.index));
          if (events === 0) break;
          search.events += events;
          saved = to;
          path = { actor, choice: 0, events, before: path };
          counts[actor.index]! += events;
          if (violation) return { saved, path, end: { kind: 'violated', violation } };
          if (repetition.isBack(() => to.key))
            return { saved, path, end: { kind: 'violated', violation: endless(actor) } };
          if (counts[actor.index]! > maxSteps) {
            search.bound('max-steps', maxSteps);
            return { saved, path, end: { kind: 'done', outcome: `cut after ${maxSteps} instructions` } };
          }
          // What this one shared with others is theirs alone.
          isAnew ||= to.threads[actor.index]!.value.status === 'done';
        }
      }
    }
    return { saved, path, end: null };
  }

  /** Where the way leads once all is done that no other actor can notice. */
  private arrive(
    from: SavedWorld,
    counts: number[],
    way: Path | null,
  ): { readonly at: Node | End; readonly known: boolean } {
    const { search, nodes } = this;
    const { saved: settled, path, end } = this.settle(from, counts, way);
    const saved = end ? settled : this.recall.normalised(settled);
    if (end) this.found(end, path);
    this.count(counts);
    if (end) return { at: end, known: true };
    const known = nodes.get(saved.key);
    if (known) return { at: known, known: true };
    if (isOver(saved, search)) return { at: this.endAt(saved, path), known: true };
    const node: Node = { saved, taken: counts, path, edges: [], paths: undefined, order: -1 };
    nodes.set(saved.key, node);
    search.states++;
    return { at: node, known: false };
  }

  private endAt(saved: SavedWorld, path: Path | null): End {
    const { search, ends } = this;
    let end = ends.get(saved.key);
    if (end === undefined) {
      search.world.load(saved);
      end = search.finish();
      ends.set(saved.key, end);
      this.found(end, path);
    }
    return end;
  }

  /** Goes on at a new node. */
  private open(node: Node): void {
    const { search, recall } = this;
    const next: Move[] = [];
    let isDeadlock = true;
    for (const actor of search.actors) {
      if (!recall.enabled(node.saved, actor)) continue;
      if (actor.kind !== 'prefetch') isDeadlock = false;
      const choices = recall.choices(node.saved, actor);
      for (let choice = 0; choice < choices; choice++) next.push({ actor, choice });
    }
    if (!isDeadlock) {
      this.stack.push({ node, next });
      return;
    }
    search.world.load(node.saved);
    const end = search.deadlock();
    this.found(end, node.path);
    node.edges.push(end);
    node.paths = 1n;
  }

  /** The actor has its turn in a node. True: a bound ends the pass. */
  private take(node: Node, move: Move): boolean {
    const { search, stack } = this;
    const { at: child, known, path } = this.step(node, move);
    if (isNode(child) && known && child.paths === undefined && stack.some((each) => each.node === child)) {
      const end = cycle(search, stack.slice(stack.findIndex((each) => each.node === child)), move.actor);
      // A cycle that another actor could leave is no schedule: the others get their turn in the
      // end.
      if (end) {
        node.edges.push(end);
        this.found(end, path);
      }
      return false;
    }
    node.edges.push(child);
    if (isNode(child) && !known) this.open(child);
    else this.running += isNode(child) ? (child.paths ?? 0n) : 1n;
    if (!isNode(child) && child.kind === 'violated' && search.options.first === true) {
      search.bound('first', 1);
      return true;
    }
    const { limit } = this;
    if (limit === null || this.running < limit) return false;
    search.bound('max-schedules', Number(limit));
    return true;
  }

  /** One event of the actor in a node, and where that leads. */
  private step(
    node: Node,
    { actor, choice }: Move,
  ): { readonly at: Node | End; readonly known: boolean; readonly path: Path } {
    const { search, maxSteps } = this;
    const { to: behind, events, violation } = this.recall.event(node.saved, actor, choice);
    const path: Path = { actor, choice, events, before: node.path };
    search.events += events;
    const counts = [...node.taken];
    const own = search.actors.indexOf(actor);
    counts[own]! += events;
    let to: { readonly at: Node | End; readonly known: boolean };
    if (violation) {
      const end: End = { kind: 'violated', violation };
      to = { at: end, known: true };
      this.found(end, path);
    } else if (counts[own]! > maxSteps) {
      search.bound('max-steps', maxSteps);
      to = { at: { kind: 'done', outcome: 'cut' }, known: true };
    } else to = this.arrive(behind, counts, path);
    this.count(counts);
    return { ...to, path };
  }
}

/** Every thread and patcher has done all it has to do. */
function isOver({ threads, patchers }: SavedWorld, { world }: Search): boolean {
  return (
    threads.every(({ value }) => value.status === 'done') &&
    patchers.every(({ value }, index) => value.at === world.sequence.patchers[index]!.steps.length)
  );
}

/** Schedules that go through a node whose edges are known. */
function pathsOf({ edges }: Node): bigint {
  return edges.reduce((sum, each) => sum + (isNode(each) ? (each.paths ?? 0n) : 1n), 0n);
}

/** A state that comes again: endless where all who could act did, and still. */
function cycle(search: Search, loop: readonly { readonly node: Node }[], actor: Actor): End | null {
  const { sequence } = search.world;
  const isIdle = (each: Actor, { saved }: Node): boolean =>
    each === actor || each.kind === 'prefetch' || !canAct(saved.books, sequence, each);
  const alone = loop.every(({ node }) => search.actors.every((each) => isIdle(each, node)));
  if (!alone) return null;
  return { kind: 'violated', violation: endless(actor) };
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

/** One actor after the other as far as it gets, to know beforehand most of what threads touch. */
function rehearse(search: Search, actors: readonly Actor[]): void {
  for (const actor of actors) {
    for (let i = 0; i < DEFAULT_STEPS && search.world.enabled(actor); i++) {
      const { footprint, violation } = search.world.perform(actor);
      if (actor.kind === 'thread') search.note(actor.index, footprint);
      if (violation) break;
    }
  }
}

/** null: what was taken for dead is not. */
function* again<T, R>(pass: Generator<T, R>): Generator<T, R | null> {
  try {
    return yield* pass;
  } catch (error) {
    if (error instanceof Again) return null;
    throw error;
  }
}

/** Goes through the reduced set, anew when more turns out to be shared, or executed. */
export function* explore(search: Search): Generator<RaceProgress> {
  const { world } = search;
  const start = world.save();
  try {
    world.deferFetching(true);
    const deferred = world.save();
    const of = (kind: Actor['kind']): Actor[] => search.actors.filter((each) => each.kind === kind);
    if (world.scene.threads.length > 1 || of('prefetch').length > 0) {
      rehearse(search, of('thread'));
      world.load(deferred);
      rehearse(search, [...of('patcher'), ...of('thread')]);
    }
    const recall = new Recall(search);
    for (;;) {
      // What was executed before may have left something out.
      const isNew = world.takeGrowth() || search.restart;
      search.restart = false;
      recall.restart();
      if (isNew) recall.forget();
      search.states = 0;
      search.bounds.clear();
      search.longest = search.actors.map(() => 0);
      world.load(start);
      // What it held is counted by the lines that are known now.
      world.deferFetching(!world.storesCode);
      const root = yield* again(new ReducedPass(search, recall, world.save()).run());
      search.restart ||= world.grew;
      const isAnew = root === null || search.restart || (world.storesCode && world.defersFetching);
      if (isAnew && search.interrupted === null) continue;
      if (root === null) return;
      if (isNode(root)) countEnds(search, root);
      else search.end(root, 1n);
      return;
    }
  } finally {
    world.load(start);
    world.deferFetching(false);
  }
}
