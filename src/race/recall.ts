/**
 * What actors do from a state, executed once and remembered. An event depends on the part of the
 * state that belongs to its actor and on the memory that it touches:
 *
 *   thread   registers, place in its call, what its CPU may hold, common books, lines of memory
 *   patcher  its position, common books, what CPUs may hold, who is inside, the lines it stores to
 *
 * Where these are the same again, what came of them is put together without executing anything:
 * threads that stand at n and m places share n + m events, not n * m. A state is only loaded into
 * the machine for what was not executed so far.
 *
 * Must stay true: an event reads nothing that is not in its footprint, in the thread's own part, or
 * in the common books. Functions of properties that are asked when a call returns are not known to
 * keep to that, so what ends a call is executed each time where there are some. Where CPUs keep
 * what they fetched as an event of its own, one actor changes what another one's CPU holds: nothing
 * is remembered.
 */
import type { Slot } from '../machine/ir.js';
import type { Address } from '../units.js';
import type { Actor } from './actors.js';
import { canAct, type PatcherState, type ThreadState } from './books.js';
import type { ChangedLines, PageLines, PageParts } from './changed-lines.js';
import type { HeldLines } from './deferred-fetch.js';
import { bitsOf, Liveness } from './liveness.js';
import type { Violation } from './model.js';
import { type Key, Memory, patcherKey, threadKey } from './remembered.js';
import { Repetition } from './repetition.js';
import { DEFAULT_STEPS, endless, type Search } from './search.js';
import { type CommonBooks, DeadRead, type Part, type SavedCpu, SavedWorld } from './states.js';
import { Touched } from './touched.js';
import type { Performed, World } from './world.js';

/** Instructions of a thread that no other actor touches, after which states are compared. */
const SUSPICIOUS = 2048;
/**
 * Stretches and events of a thread that are followed to see what it touches: for each of them the
 * sum of those behind it is kept.
 */
const LONGEST_FUTURE = 256;

/** What was done from a state. */
export interface Done {
  readonly to: SavedWorld;
  readonly events: number;
  readonly violation: Violation | null;
  readonly touched: Touched;
}

type Performance = Pick<Done, 'events' | 'violation'>;

/** Bytes of a page as they become. */
interface Change extends PageParts {
  readonly known: Map<PageLines, PageLines>;
}

interface OwnEffect {
  /** The CPU of the thread, and which slots of it were written: null where it depends on all. */
  readonly cpu: SavedCpu;
  readonly writes: readonly Slot[] | null;
  /** CPUs before and behind, as they turned up. */
  readonly known: Map<SavedCpu, SavedCpu>;
  readonly thread: Part<ThreadState>;
  readonly held: Part<HeldLines> | undefined;
}

/** What becomes of a state. */
interface Effect {
  readonly events: number;
  readonly violation: Violation | null;
  readonly touched: Touched;
  readonly changes: readonly Change[];
  /** Of a thread. */
  readonly own?: OwnEffect;
  /** The thread was where it holds nothing. */
  readonly passes: boolean;
  /** Of a patcher. */
  readonly patched?: {
    readonly state: Part<PatcherState>;
    readonly held: readonly Part<HeldLines>[];
    readonly common: Part<CommonBooks>;
    readonly stores: number;
  };
}

/** What was taken for dead is not: the search begins anew. */
export class Again extends Error {}

export class Recall {
  private readonly world: World;
  private readonly lines: ChangedLines;
  private readonly events: Memory<Effect>;
  private readonly stretches: Memory<Effect>;
  private readonly choiceCounts: Memory<number>;
  private readonly futures: Memory<Touched | null>;
  private readonly liveness: Liveness;
  /** CPUs without what is dead where they are. */
  private readonly normal = new Map<SavedCpu, SavedCpu>();

  constructor(private readonly search: Search) {
    this.world = search.world;
    this.lines = this.world.lines;
    const { states } = this.world;
    this.events = new Memory(this.lines, states);
    this.stretches = new Memory(this.lines, states);
    this.choiceCounts = new Memory(this.lines, states);
    this.futures = new Memory(this.lines, states);
    const { scene } = this.world;
    const { slots, reservation } = scene.machine.lifter;
    this.liveness = new Liveness(slots, reservation?.address ?? null);
    this.liveness.ends(scene.stop, this.world.asksAtEnd ? this.liveness.all : 0n);
  }

  /** More lines are tracked, or more is shared: what was executed before left that out. */
  forget(): void {
    for (const each of [this.events, this.stretches, this.choiceCounts, this.futures]) each.clear();
  }

  /** What one thread does changes nothing of the CPU of another one but its reservation. */
  private get remembers(): boolean {
    return this.world.keepsCpusApart;
  }

  /** A search begins anew. */
  restart(): void {
    this.liveness.restart();
    this.normal.clear();
  }

  /** The state without registers that no thread reads any more: with it, it is the same. */
  normalised(state: SavedWorld): SavedWorld {
    if (!this.remembers) return state;
    const cpus = state.cpus.map((cpu) => {
      let normal = this.normal.get(cpu);
      if (normal === undefined) {
        normal = this.world.states.withoutDead(cpu, this.liveness.deadAt(cpu.value.pc));
        this.normal.set(cpu, normal);
      }
      return normal;
    });
    return cpus.every((each, index) => each === state.cpus[index]) ? state : state.withCpus(cpus);
  }

  /** What an event reads may have been taken for dead. */
  private guarded<T>({ value: { pc } }: SavedCpu, execute: () => T): T {
    try {
      return execute();
    } catch (error) {
      if (!(error instanceof DeadRead)) throw error;
      this.liveness.note({ from: pc, to: pc, reads: error.slots, writes: 0n });
      throw new Again();
    }
  }

  // ------------------------------------------------------------------------------------- questions

  enabled(state: SavedWorld, actor: Actor): boolean {
    if (actor.kind === 'prefetch') {
      if (this.world.defersFetching) return false;
      this.world.load(state);
      return this.world.enabled(actor);
    }
    return canAct(state.books, this.world.sequence, actor);
  }

  /** In how many ways an actor may act (`World.choices`). */
  choices(state: SavedWorld, actor: Actor): number {
    if (actor.kind !== 'thread' || !this.world.defersFetching) return 1;
    const key = threadKey(state, actor.index, 0);
    const known = this.choiceCounts.find(key, state.pages);
    if (known !== undefined) return known;
    this.world.load(state);
    const count = this.world.choices(actor);
    const touched = new Touched(this.search);
    touched.ranges(this.world.fetchedFrom(actor.index));
    this.choiceCounts.add(key, state.pages, touched, count);
    return count;
  }

  // ---------------------------------------------------------------------------------------- events

  /** One event of an actor that is enabled. */
  event(state: SavedWorld, actor: Actor, choice: number): Done {
    const key = actor.kind === 'thread' ? threadKey(state, actor.index, choice) : patcherKey(state, actor.index);
    const known = this.remembers ? this.events.find(key, state.pages) : undefined;
    if (known !== undefined) return this.put(state, actor, known);
    const { world, search } = this;
    world.load(state);
    const touched = new Touched(this.search);
    if (actor.kind === 'thread') touched.ranges(world.fetchedFrom(actor.index));
    const perform = (): Performed => world.perform(actor, choice);
    const performed = key.cpu === null ? perform() : this.guarded(key.cpu, perform);
    const { footprint, violation } = performed;
    if (actor.kind === 'thread') search.note(actor.index, footprint);
    else touched.ranges(footprint.writes.map((each) => world.wholeLines(each)));
    touched.event(performed);
    return this.keep(this.events, key, state, actor, touched, { events: 1, violation });
  }

  /**
   * What a thread does that no other actor can notice: some events, or none, where the next one is
   * an event that others may notice.
   * @param context  what of the state the question depends on
   */
  stretch(state: SavedWorld, actor: Actor, context: number | string): Done {
    const key = threadKey(state, actor.index, context);
    const known = this.remembers ? this.stretches.find(key, state.pages) : undefined;
    if (known !== undefined) return this.put(state, actor, known);
    this.world.load(state);
    const touched = new Touched(this.search);
    const { events, violation } = this.guarded(key.cpu!, () => this.runAlone(actor, touched));
    return this.keep(this.stretches, key, state, actor, touched, { events, violation });
  }

  /** Executes the stretch. */
  private runAlone(actor: Actor, touched: Touched): Performance {
    const { world, search } = this;
    const { maxSteps = DEFAULT_STEPS } = search.options;
    let events = 0;
    const repetition = new Repetition(SUSPICIOUS);
    while (world.enabled(actor) && events <= maxSteps) {
      const range = world.fetchRange(actor.index);
      touched.ranges(world.fetchedFrom(actor.index));
      if (range === null || world.mayFetchAnew(actor.index, range)) break;
      if (!search.isLocal(actor.index, { reads: [range], writes: [], readNames: [], writtenNames: [] })) break;
      const tried = world.tryThread(actor.index);
      search.note(actor.index, tried.footprint);
      const isLocal = search.isLocal(actor.index, tried.footprint);
      if (!isLocal) touched.end(tried);
      // What depends on all registers, or on what other threads have left, is a stretch of its own:
      // the others are the same then whatever that was.
      const isApart = tried.use === null || search.isShared(tried.footprint);
      if (!isLocal || (events > 0 && isApart)) {
        tried.undo();
        break;
      }
      touched.event(tried);
      events++;
      if (tried.violation) return { events, violation: tried.violation };
      if (isApart) break;
      if (repetition.isBack(() => world.save().key)) return { events, violation: endless(actor) };
    }
    return { events, violation: null };
  }

  // --------------------------------------------------------------------------------------- futures

  /**
   * The only patcher that has something left, where its next step commutes with all that threads
   * can do before it: done at once, it stands for every order (a persistent set of one). Threads
   * must not touch what they share: then each of them does what it would do alone.
   */
  quietPatcher(state: SavedWorld): Actor | null {
    const { world, search } = this;
    if (!this.remembers) return null;
    const { sequence } = world;
    const left = sequence.patchers.flatMap(({ steps }, index) =>
      state.patchers[index]!.value.at < steps.length ? [index] : [],
    );
    const [index] = left;
    if (index === undefined || left.length > 1) return null;
    const actor = search.actors.find((each) => each.kind === 'patcher' && each.index === index)!;
    const bit = world.conflicts.bitOf(index, state.patchers[index]!.value.at);
    let sharing = 0;
    for (const thread of search.actors) {
      if (thread.kind !== 'thread' || state.threads[thread.index]!.value.status === 'done') continue;
      const future = this.future(state, thread);
      if (future === null || (future.conflicts & bit) !== 0n) return null;
      if (future.isShared && ++sharing > 1) return null;
    }
    return canAct(state.books, sequence, actor) ? actor : null;
  }

  /**
   * All that a thread touches from a state on, alone, while no patcher goes on. null: it may go on
   * in several ways, goes wrong, or comes to no end.
   */
  private future(state: SavedWorld, actor: Actor): Touched | null {
    const parts: { readonly from: SavedWorld; readonly touched: Touched }[] = [];
    let from = state;
    let behind: Touched | null | undefined = undefined;
    while (behind === undefined) {
      if (from.threads[actor.index]!.value.status === 'done') behind = new Touched(this.search);
      else behind = this.futures.find(threadKey(from, actor.index, 0), from.pages);
      if (behind !== undefined) break;
      let done = this.stretch(from, actor, contextOf(from, actor.index));
      if (done.events === 0 && this.choices(from, actor) === 1) done = this.event(from, actor, 0);
      parts.push({ from, touched: done.touched });
      if (done.events === 0 || done.violation !== null || parts.length > LONGEST_FUTURE) behind = null;
      from = done.to;
    }
    for (const { from: at, touched } of parts.reverse()) {
      behind = behind && touched.before(behind);
      this.futures.add(threadKey(at, actor.index, 0), at.pages, behind ?? { needed: new Map(), reads: null }, behind);
    }
    return behind;
  }

  // ---------------------------------------------------------------------------------------- states

  /** Remembers what the machine has just done. */
  private keep(
    memory: Memory<Effect>,
    key: Key,
    from: SavedWorld,
    actor: Actor,
    touched: Touched,
    { events, violation }: Performance,
  ): Done {
    const { world, lines } = this;
    if (events === 0) {
      const nothing = { events, violation, touched, changes: [], passes: false };
      if (this.remembers) memory.add(key, from.pages, touched, nothing);
      return { to: from, events, violation, touched };
    }
    const { index, kind } = actor;
    const saved = world.save();
    const to = this.remembers && kind === 'thread' ? this.withOthers(from, saved, index) : saved;
    const was = from.threads[index];
    const is = to.threads[index];
    const passes = kind === 'thread' && (was!.value.round !== is!.value.round || is!.value.status === 'done');
    if (!this.remembers) return { to, events, violation, touched };
    if (kind === 'thread') this.live(from.cpus[index]!, to.cpus[index]!, touched);
    if (passes && world.asksAtReturns) return { to, events, violation, touched };
    const changes = lines.partsOf(to.pages, touched.stored).map((each): Change => ({ ...each, known: new Map() }));
    const common = { events, violation, touched, changes, passes };
    memory.add(
      key,
      from.pages,
      touched,
      kind === 'thread'
        ? { ...common, own: ownEffect(to, index, touched) }
        : {
            ...common,
            patched: {
              state: to.patchers[index]!,
              held: to.held,
              common: to.common,
              stores: to.stores - from.stores,
            },
          },
    );
    return { to, events, violation, touched };
  }

  /**
   * What a thread was seen to do and did not do yet may have taken reservations of others: theirs
   * are those of the state before, without what was taken.
   */
  private withOthers(from: SavedWorld, to: SavedWorld, thread: number): SavedWorld {
    const cpus = this.cpusBehind(from, to.pages, thread);
    cpus[thread] = to.cpus[thread]!;
    return to.withCpus(cpus);
  }

  private live({ value: { pc } }: SavedCpu, to: SavedCpu, { reads, writes }: Touched): void {
    const { liveness } = this;
    liveness.note({
      from: pc,
      to: to.value.pc,
      reads: reads === null ? liveness.all : bitsOf(reads) & liveness.all,
      writes: bitsOf(writes),
    });
    if (liveness.grew) throw new Again();
  }

  /** The state behind what is remembered. */
  private put(from: SavedWorld, { kind, index }: Actor, effect: Effect): Done {
    const { events, violation, touched, changes, own, passes, patched } = effect;
    if (events === 0) return { to: from, events, violation, touched };
    const pages = this.pagesBehind(from, changes);
    const cpus = this.cpusBehind(from, pages, kind === 'thread' ? index : -1);
    let { threads, held, patchers, common, stores } = from;
    if (own !== undefined) {
      cpus[index] = this.cpuBehind(from.cpus[index]!, own);
      threads = withPart(threads, index, own.thread);
      if (own.held !== undefined && own.held !== held[index]) held = withPart(held, index, own.held);
      if (passes) patchers = patchers.map((each) => this.world.states.withoutPending(each, index));
    } else if (patched !== undefined) {
      patchers = withPart(patchers, index, patched.state);
      ({ held, common } = patched);
      stores += patched.stores;
    }
    const to = new SavedWorld(cpus, threads, held, patchers, common, pages, stores);
    return { to, events, violation, touched };
  }

  private cpuBehind(before: SavedCpu, { cpu, writes, known }: OwnEffect): SavedCpu {
    if (writes === null) return cpu;
    let after = known.get(before);
    if (after === undefined) {
      after = this.world.states.withSlots(before, writes, cpu);
      known.set(before, after);
    }
    return after;
  }

  private pagesBehind(from: SavedWorld, changes: readonly Change[]): readonly PageLines[] {
    if (changes.length === 0) return from.pages;
    const pages = [...from.pages];
    for (const change of changes) {
      // Pages that were met since.
      for (let page = pages.length; page <= change.page; page++) pages.push(this.lines.pageIn(pages, page));
      const before = pages[change.page]!;
      let after = change.known.get(before);
      if (after === undefined) {
        after = this.lines.withParts(before, change);
        change.known.set(before, after);
      }
      pages[change.page] = after;
    }
    return pages;
  }

  /** CPUs whose reservation the actor has taken by changing a byte of the granule. */
  private cpusBehind(from: SavedWorld, pages: readonly PageLines[], actor: number): SavedCpu[] {
    const cpus = [...from.cpus];
    for (let index = 0; index < cpus.length; index++) {
      const { reserved } = cpus[index]!;
      if (reserved === null || index === actor || !this.differs(reserved, from.pages, pages)) continue;
      cpus[index] = this.world.states.withoutReservation(cpus[index]!);
    }
    return cpus;
  }

  private differs(granule: Address, before: readonly PageLines[], after: readonly PageLines[]): boolean {
    const { lines } = this;
    const end = granule + BigInt(this.world.granuleBytes);
    for (const line of lines.linesIn(granule, end)) {
      const [was, is] = [lines.contentIn(before, line), lines.contentIn(after, line)];
      if (was === is) continue;
      const start = lines.startOf(line);
      const old = lines.contentsOf(was);
      const differing = lines.contentsOf(is).findIndex((byte, i) => {
        const address = start + BigInt(i);
        return address >= granule && address < end && byte !== old[i];
      });
      if (differing >= 0) return true;
    }
    return false;
  }
}

/** What of a state decides which events of a thread another actor may notice. */
export function contextOf({ patchers, threads }: SavedWorld, thread: number): number | string {
  const isLast = threads.every(({ value }, index) => index === thread || value.status === 'done');
  const last = isLast ? 1 : 0;
  if (patchers.length === 1) return 2 * patchers[0]!.value.at + last;
  return `${last},${patchers.map(({ value }) => value.at).join()}`;
}

function withPart<T>(parts: readonly T[], index: number, part: T): readonly T[] {
  if (parts[index] === part) return parts;
  const copy = [...parts];
  copy[index] = part;
  return copy;
}

const ownEffect = ({ cpus, threads, held }: SavedWorld, index: number, { reads, writes }: Touched): OwnEffect => ({
  cpu: cpus[index]!,
  writes: reads === null ? null : [...writes],
  known: new Map(),
  thread: threads[index]!,
  held: held[index],
});
