/**
 * The reduced set of schedules: of those that differ only in events that no other actor can notice
 * one is gone through. A state that was reached before is not gone through again.
 */
import { DEFAULT_STEPS, PROGRESS_EVENTS } from './search.js';
import type { End, RaceProgress, Search, Way } from './search.js';
import type { Actor } from './actors.js';
import type { SavedWorld } from './states.js';

/** An actor's turn, and what its CPU then holds (`World.choices`). */
interface Move {
  readonly actor: Actor;
  readonly choice: number;
}

/** Instructions of a thread that no other actor touches, after which states are compared. */
const SUSPICIOUS = 2048;

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
  for (const actor of search.actors) {
    const end = actor.kind === 'thread' ? settleThread(search, actor, taken, log) : null;
    if (end) return end;
  }
  return null;
}

function settleThread(search: Search, actor: Actor, taken: number[], log: (actor: Actor) => void): End | null {
  const { world } = search;
  const { maxSteps = DEFAULT_STEPS } = search.options;
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
  return null;
}

/** The graph of states in which every thread stands in front of what another actor may notice. */
class ReducedPass {
  private readonly nodes = new Map<string, Node>();
  /** The nodes on the way to where the pass is, with the moves that are still to come. */
  private readonly stack: { readonly node: Node; readonly next: Move[] }[] = [];
  private readonly limit: bigint | null;
  private readonly maxSteps: number;
  /** Schedules that were found so far. */
  private running = 0n;

  constructor(private readonly search: Search) {
    const { maxSchedules, maxSteps = DEFAULT_STEPS } = search.options;
    this.limit = maxSchedules === undefined ? null : BigInt(maxSchedules);
    this.maxSteps = maxSteps;
  }

  *run(): Generator<RaceProgress, Node | End> {
    const { search, stack } = this;
    const first = this.arrive(
      search.actors.map(() => 0),
      null,
    );
    if (!isNode(first.at)) return first.at;
    const root = first.at;
    search.world.load(root.saved);
    this.open(root);
    let last = 0;
    while (stack.length > 0) {
      search.restart ||= search.world.takeGrowth();
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
  private found(end: End, way: Way | null): void {
    if (end.kind === 'violated') this.search.found ??= { way, violation: end.violation };
  }

  private count(counts: readonly number[]): void {
    const { longest } = this.search;
    counts.forEach((count, i) => (longest[i] = Math.max(longest[i]!, count)));
  }

  /** Where the way leads once all is done that no other actor can notice. */
  private arrive(counts: number[], from: Way | null): { readonly at: Node | End; readonly known: boolean } {
    const { search, nodes } = this;
    const { world } = search;
    let way = from;
    const end = settle(search, counts, (actor) => {
      way = { actor, before: way, fetch: world.fetchNote };
    });
    if (end) this.found(end, way);
    this.count(counts);
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
    this.found(last, way);
    return { at: last, known: true };
  }

  /** Goes on at a new node, in whose state the world is. */
  private open(node: Node): void {
    const { search } = this;
    const { world } = search;
    const able = search.actors.filter((actor) => world.enabled(actor));
    if (able.some(({ kind }) => kind !== 'prefetch')) {
      const next = able.flatMap((actor) =>
        Array.from({ length: world.choices(actor) }, (_, choice): Move => ({ actor, choice })),
      );
      this.stack.push({ node, next });
      return;
    }
    const end = search.deadlock();
    this.found(end, node.way);
    node.edges.push(end);
    node.paths = 1n;
  }

  /** The actor has its turn in a node. True: a bound ends the pass. */
  private take(node: Node, move: Move): boolean {
    const { search, stack } = this;
    const { at: child, known, way } = this.step(node, move);
    if (isNode(child) && known && child.paths === undefined && stack.some((each) => each.node === child)) {
      const end = cycle(search, stack.slice(stack.findIndex((each) => each.node === child)), move.actor);
      // A cycle that another actor could leave is no schedule: the others get their turn in the
      // end.
      if (end) {
        node.edges.push(end);
        this.found(end, way);
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
  ): { readonly at: Node | End; readonly known: boolean; readonly way: Way } {
    const { search, maxSteps } = this;
    search.world.load(node.saved);
    const { footprint, violation } = search.world.perform(actor, choice);
    const way: Way = { actor, before: node.way, fetch: search.world.fetchNote };
    search.events++;
    if (actor.kind === 'thread') search.note(actor.index, footprint);
    const counts = [...node.taken];
    const own = search.actors.indexOf(actor);
    counts[own]!++;
    let to: { readonly at: Node | End; readonly known: boolean };
    if (violation) {
      const end: End = { kind: 'violated', violation };
      to = { at: end, known: true };
      this.found(end, way);
    } else if (counts[own]! > maxSteps) {
      search.bound('max-steps', maxSteps);
      to = { at: { kind: 'done', outcome: 'cut' }, known: true };
    } else to = this.arrive(counts, way);
    this.count(counts);
    return { ...to, way };
  }
}

/** Schedules that go through a node whose edges are known. */
function pathsOf({ edges }: Node): bigint {
  return edges.reduce((sum, each) => sum + (isNode(each) ? (each.paths ?? 0n) : 1n), 0n);
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
    for (;;) {
      search.restart = false;
      world.takeGrowth();
      search.states = 0;
      search.bounds.clear();
      search.longest = search.actors.map(() => 0);
      world.load(start);
      // What it held is counted by the lines that are known now.
      world.deferFetching(!world.storesCode);
      const root = yield* new ReducedPass(search).run();
      search.restart ||= world.takeGrowth();
      const isAnew = search.restart || (world.storesCode && world.defersFetching);
      if (isAnew && search.interrupted === null) continue;
      if (isNode(root)) countEnds(search, root);
      else search.end(root, 1n);
      return;
    }
  } finally {
    world.load(start);
    world.deferFetching(false);
  }
}
