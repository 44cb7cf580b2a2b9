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
 * of every step that any patcher has left, and of everything that another thread is known to touch;
 * a step of the last patcher only if it is independent of all that threads do before it
 * (`Recall.quietPatcher`).
 * What patchers touch is written in their steps. What threads touch is found by running them:
 * should one ever touch what an event done at once has touched, the whole search begins anew with
 * that place marked as shared, until nothing is found any more. Orders of dependent events are then
 * all there, in every equivalence class, so no conflict can have been missed.
 *
 * The shortest schedule that goes wrong is searched for in the full set, breadth first, with as few
 * threads as will do: others stay outside.
 */
import { enumerate } from './every-order.js';
import { ElftraceError } from '../errors.js';
import type { RaceStep, Scene, Sequence } from './model.js';
import { explore } from './reduced.js';
import { entriesOf, multinomial, Search } from './search.js';
import type { Bound, FailingSchedule, RaceCounts, RaceOptions, RaceProgress, RaceResult } from './search.js';
import { shortest } from './shortest.js';
import { World } from './world.js';

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
  // What an interruption ends: the search, or the one that comes before it.
  const current = { search };
  const iterator = run(search, current);
  return {
    next: () => iterator.next(),
    return: (value: RaceResult) => iterator.return(value),
    interrupt: (bound = { kind: 'interrupted', limit: 0 }) => {
      current.search.interrupted = bound;
    },
  };
}

function* run(search: Search, current: { search: Search }): Generator<RaceProgress, RaceResult> {
  const { world, options } = search;
  const start = world.save();
  try {
    const full = options.reduction === 'none' || options.switches !== undefined;
    if (full && options.window === undefined) {
      // The longest calls are those of the reduced set: equivalent schedules have the same events.
      const scout = new Search(world, { ...options, first: false });
      current.search = scout;
      yield* explore(scout);
      current.search = search;
      search.longest = scout.longest;
      search.interrupted = scout.interrupted;
      search.found = scout.found;
      world.load(start);
    }
    if (full) yield* enumerate(search, slotsOf(search));
    else yield* explore(search);
    world.load(start);
    const counts = countsOf(search, full);
    let failing: FailingSchedule | null = null;
    const isViolated = search.violated > 0n;
    if (isViolated && options.shortest !== false && search.interrupted === null) failing = yield* shortest(search);
    world.load(start);
    // Where the shortest one was not found, or not looked for, any will do.
    if (failing === null && isViolated && search.found !== null)
      failing = {
        entries: entriesOf(search.found.way, search.actors),
        violation: search.found.violation,
        shortest: false,
      };
    // An end in the search for the shortest schedule cuts nothing else.
    const bounds = [...search.bounds.values()];
    const verdict = isViolated ? 'violated' : bounds.length === 0 ? 'holds' : 'undecided';
    return { verdict, counts, bounds, failing, violations: [...search.violations.values()] };
  } finally {
    world.load(start);
    world.close();
  }
}

/** `full`: every order was gone through, not the reduced set. */
function countsOf(search: Search, full: boolean): RaceCounts {
  const slots = slotsOf(search);
  const total = multinomial(slots);
  const { explored, violated, states, events, outcomes } = search;
  const isComplete = full && search.options.switches === undefined && search.bounds.size === 0;
  return {
    states, events, explored, violated, total, outcomes, pruned: total - explored,
    impossible: isComplete ? search.impossible : null,
    slots: slots.map((each, i) => ({ actor: search.actors[i]!.name, events: each })),
  }; // prettier-ignore
}

/** All schedules of a sequence against the threads of a scene. */
export function race(scene: Scene, sequence: Sequence, options: RaceOptions = {}): RaceResult {
  const search = startRace(scene, sequence, options);
  for (;;) {
    const step = search.next();
    if (step.done === true) return step.value;
  }
}
