/** Every order of the events: what is gone through without reduction, or with few switches. */
import { DEFAULT_STEPS, multinomial, PROGRESS_EVENTS } from './search.js';
import type { End, RaceProgress, Search } from './search.js';
import type { SavedWorld } from './states.js';

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

/** A state of one layer: what was done to get there, and in how many ways. */
interface Place {
  readonly saved: SavedWorld;
  /** Slots of each actor that were used. */
  readonly used: readonly number[];
  /** The actor that acted last, or -1. */
  readonly last: number;
  readonly switched: number;
  ways: bigint;
}

/** Every order of the slots, layer by layer: schedules of one layer have equally many events. */
export function* enumerate(search: Search, slots: readonly number[]): Generator<RaceProgress> {
  yield* new Enumeration(search, slots).run();
}

class Enumeration {
  private next = new Map<string, Place>();
  /** A bound ends the search. */
  private ended = false;

  constructor(
    private readonly search: Search,
    private readonly slots: readonly number[],
  ) {}

  *run(): Generator<RaceProgress> {
    const { search } = this;
    const { maxSchedules } = search.options;
    const start = { saved: search.world.save(), used: this.slots.map(() => 0), last: -1, switched: 0, ways: 1n };
    let layer: ReadonlyMap<string, Place> = new Map([['', start]]);
    let since = 0;
    while (layer.size > 0) {
      this.next = new Map();
      for (const place of layer.values()) {
        if (!this.visit(place)) continue;
        if (this.ended) return;
        if (search.events - since >= PROGRESS_EVENTS) {
          since = search.events;
          yield search.progress('count');
          if (search.interrupted) {
            search.bound(search.interrupted.kind, search.interrupted.limit);
            return;
          }
        }
        if (maxSchedules !== undefined && search.explored >= BigInt(maxSchedules)) {
          search.bound('max-schedules', maxSchedules);
          return;
        }
      }
      layer = this.next;
    }
  }

  /** Ways to order what is left, where switches do not matter. */
  private rest(used: readonly number[]): bigint {
    return multinomial(this.slots.map((count, i) => count - used[i]!));
  }

  /** False: no slot is left, or no actor can use one. */
  private visit(place: Place): boolean {
    const { search } = this;
    const { world, actors } = search;
    search.states++;
    world.load(place.saved);
    const open = this.slots.map((count, i) => place.used[i]! < count);
    if (!open.includes(true)) {
      search.end(runOut(search), place.ways);
      return false;
    }
    const can = actors.map((actor, i) => open[i]! && (world.finished(actor) || world.enabled(actor)));
    if (!can.includes(true)) {
      // Only waits are left, for what happens behind the windows.
      search.end(runOut(search), place.ways);
      search.impossible += place.ways * (this.rest(place.used) - 1n);
      return false;
    }
    for (let i = 0; i < actors.length && !this.ended; i++) if (open[i]) this.use(place, i, can);
    return true;
  }

  /** Actor `i` has the next slot. `can`: those that could. */
  private use(place: Place, i: number, can: readonly boolean[]): void {
    const { search } = this;
    const { world, actors, options } = search;
    const { switches } = options;
    const actor = actors[i]!;
    const used = place.used.map((each, at) => (at === i ? each + 1 : each));
    if (!can[i]) {
      search.impossible += place.ways * this.rest(used);
      return;
    }
    world.load(place.saved);
    let { switched, last } = place;
    if (!world.finished(actor)) {
      if (last !== i && this.leaves(last, can)) switched++;
      if (switches !== undefined && switched > switches) {
        search.bound('switches', switches);
        return;
      }
      last = i;
      const { violation } = world.perform(actor);
      search.events++;
      if (violation) {
        search.end({ kind: 'violated', violation }, place.ways * (switches === undefined ? this.rest(used) : 1n));
        if (options.first === true) {
          search.bound('first', 1);
          this.ended = true;
        }
        return;
      }
    } else if (this.isIdleTurn(can)) return;
    const saved = world.save();
    const key = `${used.join()}|${switches === undefined ? '' : `${last},${switched}`}|${saved.key}`;
    const known = this.next.get(key);
    if (known) known.ways += place.ways;
    else this.next.set(key, { saved, used, last, switched, ways: place.ways });
  }

  /** Another actor than the last one acts although that could go on: a switch that is counted. */
  private leaves(last: number, can: readonly boolean[]): boolean {
    const { world, actors, options } = this.search;
    return options.switches !== undefined && last >= 0 && can[last] === true && !world.finished(actors[last]!);
  }

  /**
   * With a bound on switches a slot that passes is no schedule of its own: the slots of others come
   * first.
   */
  private isIdleTurn(can: readonly boolean[]): boolean {
    const { world, actors, options } = this.search;
    if (options.switches === undefined) return false;
    if (!actors.some((each) => !world.finished(each) && world.enabled(each))) return false;
    return actors.some((each, at) => can[at] === true && !world.finished(each));
  }
}
