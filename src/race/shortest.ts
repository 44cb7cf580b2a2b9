/** The shortest schedule that goes wrong. */
import { DEFAULT_STEPS, endless, entriesOf, PROGRESS_EVENTS } from './search.js';
import type { FailingSchedule, RaceProgress, Search, Way } from './search.js';
import type { Violation } from './model.js';
import type { Actor } from './actors.js';
import type { SavedWorld } from './states.js';

/** States that the search for the shortest schedule looks at before it settles for a longer one. */
const SHORTEST_STATES = 60_000;

/** A state of the breadth-first search, and how it was reached. */
interface Reached {
  readonly saved: SavedWorld;
  readonly way: Way | null;
}

/** What the search came to: a schedule, or none, where `complete`: of all. */
interface Shortest {
  readonly found: FailingSchedule | null;
  readonly complete: boolean;
}

function fail(way: Way | null, violation: Violation): Shortest {
  return { found: { entries: entriesOf(way, []), violation, shortest: true }, complete: true };
}

/** Breadth first among all schedules in which only some threads run. */
function* shortestWith(search: Search, threads: readonly number[], budget: number): Generator<RaceProgress, Shortest> {
  const { world } = search;
  const { maxSteps = DEFAULT_STEPS } = search.options;
  const actors = search.actors.filter(({ kind, index }) => kind === 'patcher' || threads.includes(index));
  const start = world.save();
  const seen = new Set<string>([start.key]);
  let layer: readonly Reached[] = [{ saved: start, way: null }];
  let since = search.events;
  for (let depth = 0; layer.length > 0 && depth <= maxSteps; depth++) {
    const next: Reached[] = [];
    for (const at of layer) {
      const failing = visit(search, actors, at, seen, next);
      if (failing) return failing;
      if (failing === null) continue;
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

/**
 * All events that may come next in a state; new states go to `next`. null: nothing may, and that is
 * as it should be.
 */
function visit(
  search: Search,
  actors: readonly Actor[],
  { saved, way }: Reached,
  seen: Set<string>,
  next: Reached[],
): Shortest | null | undefined {
  const { world } = search;
  world.load(saved);
  const able = actors.filter((actor) => world.enabled(actor));
  const hasEnded = (actor: Actor): boolean => actor.kind === 'prefetch' || world.finished(actor);
  const ended = actors.every(hasEnded);
  if (ended && search.actors.every(hasEnded)) {
    const violation = world.atEnd();
    return violation ? fail(way, violation) : null;
  }
  if (able.every(({ kind }) => kind === 'prefetch')) {
    if (ended) return null;
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
    if (!seen.has(after.key)) {
      seen.add(after.key);
      next.push({ saved: after, way: onward });
      continue;
    }
    // Only this one can act, and nothing is new.
    const isAlone = able.length <= 1 && (after.key === saved.key || actor.kind === 'thread');
    if (isAlone && onlyActor(search, after)) {
      return fail(onward, endless(actor));
    }
  }
  return undefined;
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

export function* shortest(search: Search): Generator<RaceProgress, FailingSchedule | null> {
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
