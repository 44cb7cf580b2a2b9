/**
 * What a search of schedules has found so far, whatever its way through them: counts, outcomes,
 * bounds that cut it, and the places that threads share.
 */
import type { Footprint } from './footprints.js';
import type { Actor } from './actors.js';
import type { FetchNote, World } from './world.js';
import type { Property, Violation } from './model.js';
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
  readonly kind: 'max-schedules' | 'max-steps' | 'switches' | 'first' | 'seconds' | 'memory' | 'interrupted';
  /** 0 for `interrupted`; MiB for `memory`. */
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

export const DEFAULT_STEPS = 20_000;
export const PROGRESS_EVENTS = 2000;

/** What a schedule came to. */
export type End =
  { readonly kind: 'done'; readonly outcome: string } | { readonly kind: 'violated'; readonly violation: Violation };

/** A thread that goes on for ever, whatever others do. */
export const endless = ({ name, index }: Actor): Violation => {
  const message = `${name} comes back to the state it was in, and nobody can change that`;
  return { rule: 'endless-loop', thread: index, message };
};

export class Search {
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
  isLocal(thread: number, footprint: Footprint): boolean {
    const { world } = this;
    if ((world.conflicts.of(footprint) & world.remaining) !== 0n) return false;
    return world.isLast(thread) || !this.isShared(footprint);
  }

  /** The event touches what another thread touches, too, and one of them writes. */
  isShared({ reads, writes }: Footprint): boolean {
    if (this.shared.size === 0) return false;
    for (const ranges of [reads, writes]) {
      for (const granule of this.granules(ranges)) if (this.shared.has(granule)) return true;
    }
    return false;
  }
}

/** The way to a violation: a list from its end. */
export interface Way {
  readonly actor: Actor;
  readonly before: Way | null;
  /** Null or absent where fetching is an event of its own. */
  readonly fetch?: FetchNote | null;
}

/** The events of a way. Where fetching was deferred, it is put where it can have been. */
export function entriesOf(way: Way | null, actors: readonly Actor[]): ScheduleEntry[] {
  const events: Way[] = [];
  for (let at = way; at !== null; at = at.before) events.push(at);
  events.reverse();
  const fetches = actors.flatMap((actor) => fetchesOf(events, actor).map((at) => ({ actor, at })));
  return events.flatMap(({ actor }, at) => [
    ...fetches.filter((each) => each.at === at).map((each) => each.actor),
    actor,
  ]);
}

/**
 * In front of which events a CPU fetches a line. What it held at an instruction it had fetched when
 * memory had it for the last time: what earlier instructions say of the time between is the same.
 */
function fetchesOf(events: readonly Way[], { kind, index, line }: Actor): number[] {
  const found: number[] = [];
  for (let at = events.length - 1; at >= 0 && kind === 'prefetch'; at--) {
    const { actor, fetch } = events[at]!;
    const held = actor.kind === 'thread' && actor.index === index ? fetch?.held : undefined;
    const origin = held?.find((each) => each.line === line)?.origin;
    if (origin === undefined) continue;
    const store = events.findIndex((each) => (each.fetch?.stores ?? 0) > origin);
    at = store < 0 ? at : Math.min(store, at);
    found.push(at);
  }
  return found;
}
