/**
 * The state of a race and its single events: which actors may act, what one event does, what it
 * touched, what it violated; and saving and loading of states. Knows nothing of orders;
 * `reduced.ts` and `every-order.ts` do.
 *
 * Virtual time stands still, so that a clock read by one thread does not depend on how far another
 * one is.
 */
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { CpuState, Machine, SlotUse, TrapKind } from '../emulator/index.js';
import type { Address } from '../units.js';
import { applies, type Books, booksBehind, canAct, startBooks, type ThreadState, variableIn } from './books.js';
import { type Actor, actorsOf } from './actors.js';
import { ChangedLines } from './changed-lines.js';
import { Conflicts } from './conflicts.js';
import { type Choice, DeferredFetch } from './deferred-fetch.js';
import { EventSlots } from './event-slots.js';
import { emptyFootprint, type Footprint, overlaps, patchedLines, type Range, stepFootprint } from './footprints.js';
import type { Property, RaceStep, Scene, Sequence, Violation } from './model.js';
import { handlerViews } from './handler-views.js';
import { InstructionLengths } from './instruction-lengths.js';
import { Places, type Wrong, wrongStop } from './places.js';
import { type SavedWorld, WorldStates } from './states.js';

export interface Performed {
  readonly footprint: Footprint;
  readonly violation: Violation | null;
  /** Of a thread: slots that decide what it does, beside `pc` and memory; null: all may. */
  readonly use?: SlotUse | null;
}

/** Where fetching is deferred: what an event says of it, for schedules that are told afterwards. */
export interface FetchNote {
  /** Stores to patched lines so far. */
  readonly stores: number;
  /** What the CPU of the thread held: patched lines as they were behind so many stores. */
  readonly held: readonly { readonly line: number; readonly origin: number }[];
}

/** Stores of one event, to be taken back. */
type Journal = { readonly address: Address; readonly bytes: Uint8Array }[];

/** No instruction is longer. */
const LONGEST = { breakpoint: 15n, word: 8n } as const;

/** Instructions that are there to trap; those of PowerPC are conditional ones. */
const isBreakpoint = (trap: TrapKind): boolean => trap === 'breakpoint' || trap === 'trap-instruction';

export class World {
  readonly actors: readonly Actor[];
  private readonly machine: Machine;
  private books: Books;
  private readonly initial: readonly CpuState[];
  readonly lines: ChangedLines;
  readonly states: WorldStates;
  private journal: Journal | null = null;
  private footprint = emptyFootprint();
  /** Slots of the CPU that the event reads and writes. */
  private readonly slots: EventSlots;
  private readonly longest: bigint;
  private readonly lengths: InstructionLengths;
  /** Threads may trap at probes. */
  private readonly servesProbes: boolean;
  /** Lines of code that a patcher ever stores to, in machines that model fetching. */
  private patched: readonly Range[] = [];
  /** Addresses of its lines. */
  private readonly patchedLines: readonly Address[];
  private readonly places: Places;
  private readonly unwatch: (() => void)[] = [];
  /** Null: CPUs that fetch are actors. */
  private deferred: DeferredFetch | null = null;
  /** Of the last event; null where fetching is not deferred. */
  fetchNote: FetchNote | null = null;
  /** A thread stored to a patched line: fetching cannot be deferred. */
  storesCode = false;
  /** What every step of each patcher touches; never changed. */
  private readonly steps: readonly (readonly Footprint[])[];
  /** Steps with which events of threads conflict, where fetching is an event of its own. */
  private readonly fetchConflicts: Conflicts;
  /** The same where it is deferred: to fetch anew changes nothing for one who has no choice. */
  private readonly deferredConflicts: Conflicts;

  constructor(
    readonly scene: Scene,
    readonly sequence: Sequence,
    private readonly properties: readonly Property[],
    prefetch = false,
  ) {
    const { machine } = scene;
    this.machine = machine;
    this.lines = new ChangedLines(machine.memory);
    if (scene.threads.length !== machine.cpuCount || scene.threads.length > 30) {
      throw new ElftraceError('usage', `${scene.threads.length} threads on ${machine.cpuCount} CPUs`, {
        value: scene.threads.length,
      });
    }
    this.longest = LONGEST[scene.livePatching.kind];
    this.lengths = new InstructionLengths(machine.lifter);
    this.servesProbes =
      sequence.serves !== undefined ||
      sequence.patchers.some(({ steps }) => steps.some(({ serves }) => serves !== undefined));
    this.places = new Places(scene);
    if (prefetch && machine.fetchMode !== 'buffered') {
      throw new ElftraceError('usage', 'CPUs of a machine that is coherent do not fetch ahead');
    }
    const lineBytes = BigInt(machine.fetchLineBytes);
    this.patchedLines = patchedLines(machine, sequence);
    this.actors = actorsOf(scene, sequence, prefetch ? this.patchedLines : []);
    this.patched = this.patchedLines.map((line): Range => [line, line + lineBytes]);
    const footprints = (fetched: readonly Range[]): (readonly Footprint[])[] =>
      sequence.patchers.map(({ steps }) =>
        steps.map((step, at) => stepFootprint(step, steps[at + 1]?.kind === 'wait', fetched)),
      );
    this.steps = footprints(this.patched);
    this.fetchConflicts = new Conflicts(this.steps);
    this.deferredConflicts = new Conflicts(footprints([]));
    this.watchAll();
    for (let cpu = 0; cpu < machine.cpuCount; cpu++) machine.synchronise(cpu);
    machine.forgetInstructions();
    this.initial = scene.threads.map((_, index) => machine.saveCpu(index));
    this.states = new WorldStates(machine, this.lines, this.patchedLines);
    this.slots = new EventSlots(machine, this.states);
    this.books = startBooks(scene.threads.length, sequence);
  }

  /** Notes what instructions touch, and lines before they change. */
  private watchAll(): void {
    const { machine } = this;
    for (const window of machine.memory.windows) {
      const range = { address: window.address, size: window.size, access: 'any' } as const;
      this.unwatch.push(
        machine.watch(range, (_machine, { address, size, access }) => {
          this.footprint[access === 'read' ? 'reads' : 'writes'].push([address, address + BigInt(size)]);
          return 'continue';
        }),
      );
    }
    machine.observeHelpers((address, size, access) => {
      this.footprint[access === 'read' ? 'reads' : 'writes'].push([address, address + BigInt(size)]);
    });
    machine.observeStores((address, size) => {
      this.beforeStore(address, size);
    });
  }

  /** Takes hooks off the machine; the world is of no use any more. */
  close(): void {
    for (const each of this.unwatch) each();
    this.machine.observeHelpers(null);
    this.machine.observeStores(null);
  }

  /**
   * From now on CPUs that fetch are no actors: threads choose among what they may hold
   * (`deferred-fetch.ts`). The world must be as it was made.
   */
  deferFetching(is: boolean): void {
    this.states.touch('all');
    const isPossible = is && this.actors.some(({ kind }) => kind === 'prefetch') && this.patchedLines.length > 0;
    if (!isPossible) this.deferred = null;
    else this.deferred ??= new DeferredFetch(this.machine, this.lines, this.patchedLines, this.longest, this.lengths);
    const held = this.deferred === null ? [] : this.scene.threads.map(() => this.deferred!.nothing());
    this.books = { ...this.books, held, stores: 0 };
  }

  get defersFetching(): boolean {
    return this.deferred !== null;
  }

  /** A thread executed a patched line for the first time: what was searched so far left it out. */
  get grew(): boolean {
    return this.deferred?.grew === true;
  }

  /** The same, and that it is known now. */
  takeGrowth(): boolean {
    const { grew } = this;
    if (grew) this.deferred!.grew = false;
    return grew;
  }

  private beforeStore(address: Address, size: number): void {
    if (this.states.loading) return;
    this.deferred?.changed();
    this.journal?.push({ address, bytes: this.machine.memory.read(address, size)! });
    this.lines.beforeStore(address, size);
  }

  save(): SavedWorld {
    return this.states.save(this.books, this.deferred !== null);
  }

  load(saved: SavedWorld): void {
    this.states.load(saved);
    this.deferred?.changed();
    this.books = saved.books;
  }

  /** A CPU acts; where fetching is not deferred, what others have fetched may change, too. */
  private touch(thread: number | null): void {
    this.states.touch(this.deferred === null ? 'all' : thread);
  }

  // ------------------------------------------------------------------------------------- questions

  /** Nothing is left to do for this actor. */
  finished({ kind, index, line }: Actor): boolean {
    switch (kind) {
      case 'thread':
        return this.books.threads[index]!.status === 'done';
      case 'patcher':
        return this.books.patchers[index]!.at === this.sequence.patchers[index]!.steps.length;
      case 'prefetch':
        return !this.canPrefetch(index, line!);
      default:
        return kind satisfies never;
    }
  }

  private canPrefetch(thread: number, position: number): boolean {
    if (this.deferred !== null || this.books.threads[thread]!.status === 'done') return false;
    const line = this.patchedLines[position]!;
    const { fetched } = this.machine.saveCpu(thread);
    return fetched !== null && (!fetched.lines.has(line) || fetched.kept.has(line));
  }

  /** How many of its steps a patcher has done. */
  positionOf(patcher: number): number {
    return this.books.patchers[patcher]!.at;
  }

  /** Where the thread is in its call. */
  statusOf(thread: number): 'ready' | 'running' | 'trapped' | 'done' {
    return this.books.threads[thread]!.status;
  }

  /** In how many ways an actor may act, by what its CPU holds where fetching is deferred. */
  choices({ kind, index }: Actor): number {
    return kind === 'thread' ? this.heldNext(index).length : 1;
  }

  /** What the CPU may hold when the thread executes its next instruction, by what that is then. */
  private heldNext(thread: number): readonly Choice[] {
    if (this.deferred === null || this.books.threads[thread]!.status === 'trapped') return [{ lines: [] }];
    this.machine.switchTo(thread);
    return this.deferred.choices(this.books.held[thread]!, this.machine.register('pc'), this.books.stores);
  }

  private hold(thread: number, held: Books['held'][number]): void {
    this.books = { ...this.books, held: this.books.held.map((each, i) => (i === thread ? held : each)) };
  }

  /** What the thread executes next depends on what its CPU has fetched, or fetches anew before. */
  mayFetchAnew(thread: number, [start, end]: Range): boolean {
    if (this.deferred !== null) return this.heldNext(thread).length > 1;
    return this.actors.some(
      ({ kind, index, line }) =>
        kind === 'prefetch' &&
        index === thread &&
        overlaps([this.patched[line!]!], start, end) &&
        this.canPrefetch(thread, line!),
    );
  }

  /** The step that a patcher does next. */
  nextStep(patcher: number): RaceStep | undefined {
    return this.sequence.patchers[patcher]!.steps[this.books.patchers[patcher]!.at];
  }

  /** The actor can act now; a patcher that waits cannot. */
  enabled(actor: Actor): boolean {
    return actor.kind === 'prefetch' ? !this.finished(actor) : canAct(this.books, this.sequence, actor);
  }

  variable(name: string): bigint {
    return variableIn(this.books, name);
  }

  get marks(): readonly (readonly (readonly string[])[])[] {
    return this.books.threads.map(({ marks }) => marks);
  }

  /** Steps with which events conflict of threads whose CPUs may hold one thing only. */
  get conflicts(): Conflicts {
    return this.deferred === null ? this.fetchConflicts : this.deferredConflicts;
  }

  /** Steps that patchers have left, as bits (`Conflicts`). */
  get remaining(): bigint {
    return this.conflicts.remaining(this.books.patchers.map(({ at }) => at));
  }

  /** Every other thread has done all of its calls. */
  isLast(thread: number): boolean {
    return this.books.threads.every(({ status }, index) => index === thread || status === 'done');
  }

  /** An event changes no CPU but its actor's, if it is not for reservations. */
  get keepsCpusApart(): boolean {
    return this.machine.fetchMode !== 'buffered' || this.deferred !== null;
  }

  /** Properties are asked when calls return. */
  get asksAtReturns(): boolean {
    return this.properties.some(({ atReturn }) => atReturn !== undefined);
  }

  /** Properties are asked when all is at rest. */
  get asksAtEnd(): boolean {
    return this.properties.some(({ atEnd }) => atEnd !== undefined);
  }

  /** What is reserved at once; 0 where nothing is. */
  get granuleBytes(): number {
    return this.machine.lifter.reservation?.granuleBytes ?? 0;
  }

  /** Memory on which the thread's next instruction may depend: what it is fetched from. */
  fetchedFrom(thread: number): Range[] {
    const range = this.fetchRange(thread);
    return range === null ? [] : [this.wholeLines(range)];
  }

  /** The range with the rest of the lines in which CPUs fetch. */
  wholeLines([start, end]: Range): Range {
    const line = BigInt(Math.max(1, this.machine.fetchLineBytes));
    return [start & -line, ((end - 1n) & -line) + line];
  }

  /** What the thread's next instruction is fetched from; null where it does not fetch. */
  fetchRange(thread: number): Range | null {
    if (this.books.threads[thread]!.status === 'trapped') return null;
    this.machine.switchTo(thread);
    const pc = this.machine.register('pc');
    if (this.keepsCpusApart) return [pc, pc + this.lengthAt(thread, pc)];
    return this.wholeLines([pc, pc + this.longest]);
  }

  /** Bytes on which it depends what the thread executes next. */
  private lengthAt(thread: number, pc: Address): bigint {
    if (this.heldNext(thread).length > 1) return this.longest;
    for (let size = Number(this.longest); size > 0; size--) {
      const code = this.machine.memory.read(pc, size);
      if (code !== null) return BigInt(this.lengths.of(code, pc) ?? this.longest);
    }
    return this.longest;
  }

  // ---------------------------------------------------------------------------------------- events

  /**
   * One event of an actor that is enabled.
   * @param choice  of a thread, less than `choices`
   */
  perform(actor: Actor, choice = 0): Performed {
    this.touch(actor.kind === 'thread' ? actor.index : null);
    switch (actor.kind) {
      case 'thread':
        return this.performThread(actor.index, choice);
      case 'patcher':
        return this.performPatcher(actor.index);
      case 'prefetch': {
        const [start, end] = this.patched[actor.line!]!;
        this.machine.prefetch(actor.index, start, Number(end - start));
        return { footprint: { reads: [[start, end]], writes: [], readNames: [], writtenNames: [] }, violation: null };
      }
      default:
        return actor.kind satisfies never;
    }
  }

  /** One event of a thread, with what takes it back. */
  tryThread(thread: number): Performed & { undo(): void } {
    const { machine, books } = this;
    const journal: Journal = [];
    machine.switchTo(thread);
    const restore = this.saveThread(thread);
    this.journal = journal;
    this.touch(thread);
    const performed = this.performThread(thread, 0);
    this.journal = null;
    return {
      ...performed,
      undo: () => {
        for (const { address, bytes } of journal.reverse()) machine.memory.write(address, bytes);
        restore();
        this.books = books;
        this.touch(thread);
      },
    };
  }

  /** What puts the CPU of a thread back, which is the running one. */
  private saveThread(thread: number): () => void {
    const { machine } = this;
    if (this.keepsCpusApart) {
      const [words, pc] = [machine.stateWords.slice(), machine.register('pc')];
      const restoreDead = this.states.keepDead(thread);
      return () => {
        machine.setState(words, pc);
        restoreDead();
      };
    }
    const before = machine.saveCpu(thread);
    return () => {
      machine.restoreCpus(this.initial.map((_, index) => (index === thread ? before : null)));
    };
  }

  private update(thread: number, change: Partial<ThreadState>): void {
    const threads = this.books.threads.map((each, index) => (index === thread ? { ...each, ...change } : each));
    this.books = { ...this.books, threads };
  }

  /** The thread is where it holds nothing: waits no longer wait for it. */
  private passPoint(thread: number): void {
    this.footprint.writtenNames.push('points');
    const patchers = this.books.patchers.map((each) => ({ ...each, pending: each.pending & ~(1 << thread) }));
    this.books = { ...this.books, patchers };
  }

  private performThread(thread: number, choice: number): Performed {
    const { machine } = this;
    const footprint = emptyFootprint();
    this.footprint = footprint;
    machine.switchTo(thread);
    this.slots.begin(thread);
    const isTrapped = this.books.threads[thread]!.status === 'trapped';
    if (this.deferred !== null) this.fetchNote = { stores: this.books.stores, held: [] };
    const violation = isTrapped
      ? this.leaveTrap(thread)
      : this.deferred === null
        ? this.performInstruction(thread)
        : this.performHeld(this.deferred, thread, choice);
    return { footprint, violation: violation && { thread, ...violation }, use: this.slots.taken };
  }

  /** The next instruction as one of what the CPU may hold has it. */
  private performHeld(deferred: DeferredFetch, thread: number, choice: number): Wrong | null {
    const { machine } = this;
    const pc = machine.register('pc');
    const choices = this.heldNext(thread);
    const chosen = choices[choice]!;
    if (choices.length > 1) {
      const held = chosen.lines.map(({ line, held: [first] }) => ({ line, origin: first!.origin }));
      this.fetchNote = { stores: this.books.stores, held };
    }
    const isPatched = chosen.lines.length > 0;
    if (choice > 0) deferred.install(thread, chosen);
    else this.fetchAnew(thread, chosen);
    const bytes = isPatched ? machine.instructionBytes().length : 0;
    const before = machine.synchronisations(thread);
    const wrong = this.performInstruction(thread);
    const { footprint } = this;
    if (footprint.writes.some(([start, end]) => deferred.isPatched(start, end))) this.storesCode = true;
    if (this.books.threads[thread]!.status === 'done') this.hold(thread, deferred.nothing());
    else if (machine.synchronisations(thread) !== before) {
      this.forget(thread);
      footprint.reads.push(...this.patched);
    } else if (isPatched)
      this.hold(thread, deferred.executed(this.books.held[thread]!, chosen, pc, pc + BigInt(bytes)));
    if (choice > 0) machine.synchronise(thread);
    return wrong;
  }

  /** The CPU executes what memory has. */
  private fetchAnew(thread: number, { lines }: Choice): void {
    for (const { line } of lines) {
      const [start, end] = this.patched[line]!;
      this.machine.prefetch(thread, start, Number(end - start));
    }
  }

  /** The CPU of a thread fetches all anew. */
  private forget(thread: number): void {
    if (this.deferred === null || this.books.threads[thread]!.status === 'done') return;
    this.hold(thread, this.deferred.nothing());
  }

  /** The handler of the trap that the thread is in. */
  private leaveTrap(thread: number): Wrong | null {
    const pc = this.machine.register('pc');
    this.footprint.readNames.push('pokes');
    this.footprint.writtenNames.push('trapped');
    if (!this.handled(thread, pc)) {
      return { rule: 'stopped', message: `a breakpoint at ${hex(pc)} that nobody serves`, address: pc };
    }
    this.update(thread, { status: 'running', trapped: '' });
    return null;
  }

  private performInstruction(thread: number): Wrong | null {
    const { machine, footprint } = this;
    const pc = machine.register('pc');
    const [start, end] = this.fetchRange(thread)!;
    footprint.reads.push([start, end]);
    if (this.books.threads[thread]!.status === 'ready') {
      footprint.writtenNames.push('points');
      this.update(thread, { status: 'running' });
    }
    const wrong = this.places.check(pc, this.books.freed) ?? this.checkOps(pc);
    if (wrong) return wrong;
    machine.forgetInstructions();
    const fetched = this.servesProbes ? machine.instructionBytes() : null;
    const before = machine.fetchLineBytes > 0 && this.deferred === null ? machine.saveCpu(thread).fetched : null;
    const reserved = this.reserved();
    this.slots.use(machine.slotUse());
    const stop = machine.step();
    if (stop.kind !== 'step-limit') this.slots.stopped();
    if (before && before.lines.size > 0 && machine.saveCpu(thread).fetched!.lines.size < before.lines.size)
      footprint.reads.push(...this.patched);
    const freed = this.checkFreed(pc);
    if (freed) return freed;
    this.noteReservation(reserved, this.reserved());
    if (stop.kind === 'trap' && isBreakpoint(stop.trap) && (fetched !== null || this.usesBreakpoints())) {
      footprint.writtenNames.push('trapped');
      this.update(thread, { status: 'trapped', trapped: fetched === null ? '' : hexBytes(fetched) });
      return null;
    }
    if (stop.kind !== 'step-limit') return wrongStop(stop, pc);
    const mark = this.scene.marks.get(pc);
    if (mark !== undefined) this.mark(thread, mark);
    return machine.register('pc') === this.scene.stop ? this.returned(thread) : null;
  }

  /** Where the CPU that runs has a reservation. */
  private reserved(): Address | null {
    const { reservation } = this.machine.lifter;
    const address = reservation ? this.machine.slot(reservation.address) : null;
    return address === reservation?.none ? null : address;
  }

  /**
   * An instruction that takes or gives up a reservation depends on every store to its granule.
   */
  private noteReservation(before: Address | null, after: Address | null): void {
    const isTakenAgain = after !== null && this.footprint.reads.slice(1).some(([start]) => start === after);
    if (before === after && !isTakenAgain) return;
    const { reservation } = this.machine.lifter;
    const size = BigInt(reservation!.granuleBytes);
    for (const each of [before, after]) {
      if (each !== null) this.footprint.reads.push([each & -size, (each & -size) + size]);
    }
  }

  /** What the scene demands of registers and memory at an instruction. */
  private checkOps(pc: Address): Wrong | null {
    const { machine } = this;
    const check = this.scene.checks?.get(pc);
    if (check === undefined) return null;
    const message = check({
      register: (name) => this.slots.register(name),
      read: (address, size) => {
        this.footprint.reads.push([address, address + BigInt(size)]);
        return machine.readWord(address, size);
      },
    });
    return message === null ? null : { rule: 'wrong-ops', message, address: pc };
  }

  /** The instruction that was performed has accessed memory that is freed. */
  private checkFreed(pc: Address): Wrong | null {
    const { reads, writes } = this.footprint;
    for (const [from, to] of [...reads.slice(1), ...writes]) {
      const freed = this.books.freed.find((each) => from < each.end && each.start < to);
      if (!freed) continue;
      const message = `the instruction at ${hex(pc)} accesses ${hex(from)} of ${freed.what}, which is freed`;
      return { rule: 'freed-memory', message, address: pc };
    }
    return null;
  }

  private mark(thread: number, mark: string): void {
    const { marks } = this.books.threads[thread]!;
    this.update(thread, { marks: [...marks.slice(0, -1), [...marks.at(-1)!, mark]] });
  }

  /** The handler lets the thread go on; false: no breakpoint is known there. */
  private handled(thread: number, pc: Address): boolean {
    const { machine } = this;
    const { livePatching } = this.scene;
    const { breakpoints, probes } = handlerViews(machine, this.slots, this.footprint);
    if (
      livePatching.kind === 'breakpoint' &&
      livePatching.handle(this.books.published, pc, livePatching.trapped(breakpoints))
    )
      return true;
    const entry = this.books.serves.find(({ address }) => address === pc);
    if (entry !== undefined) {
      const to = entry.resume(probes);
      if (to === null) return false;
      machine.setRegister('pc', to);
      if (entry.mark !== null) this.mark(thread, entry.mark);
      return true;
    }
    // Something else stands there by now: the thread tries again.
    const { trapped } = this.books.threads[thread]!;
    const size = trapped === '' ? 0 : (trapped.length + 1) / 3;
    this.footprint.reads.push([pc, pc + BigInt(size)]);
    const now = machine.memory.read(pc, size);
    return size > 0 && now !== null && hexBytes(now) !== trapped;
  }

  private usesBreakpoints(): boolean {
    if (this.scene.livePatching.kind !== 'breakpoint') return false;
    const { published, patchers } = this.sequence;
    return published !== undefined || patchers.some(({ steps }) => steps.some(({ kind }) => kind === 'publish'));
  }

  private returned(thread: number): Wrong | null {
    const { machine, scene } = this;
    const { round, marks } = this.books.threads[thread]!;
    const view = {
      thread,
      round,
      machine,
      marks: marks.at(-1)!,
      register: (name: string) => machine.register(name),
    };
    if (this.asksAtReturns) this.slots.use(null);
    const { expect, rounds = 1 } = scene.threads[thread]!;
    for (const [name, wanted] of expect) {
      const is = this.slots.register(name);
      if (is === wanted) continue;
      return {
        rule: name === scene.stackPointer ? 'caller-lost' : 'corrupted-register',
        message: `${name} is ${hex(is)} after the call, not ${hex(wanted)}`,
        address: scene.stop,
      };
    }
    for (const { name, atReturn } of this.properties) {
      const message = atReturn?.(view) ?? null;
      if (message !== null) return { rule: name, message, address: scene.stop };
    }
    this.passPoint(thread);
    if (round + 1 >= rounds) {
      this.update(thread, { status: 'done' });
      return null;
    }
    this.update(thread, { status: 'ready', round: round + 1, marks: [...marks, []] });
    const { fetched } = machine.saveCpu(thread);
    const again = { ...this.initial[thread]!, fetched };
    machine.restoreCpus(this.initial.map((_, index) => (index === thread ? again : null)));
    this.slots.overwritten();
    return null;
  }

  private performPatcher(index: number): Performed {
    const state = this.books.patchers[index]!;
    const { steps } = this.sequence.patchers[index]!;
    const step = steps[state.at]!;
    if (this.deferred !== null) this.fetchNote = { stores: this.books.stores, held: [] };
    if (applies(step, this.books)) {
      this.act(step, index);
      if (step.serves !== undefined) this.books = { ...this.books, serves: step.serves };
      if (step.synchronises === true) this.synchronise('all');
    }
    const next = steps[state.at + 1];
    let pending = 0;
    if (next?.kind === 'wait') {
      this.books.threads.forEach(({ status }, thread) => {
        if (status === 'running' || status === 'trapped') pending |= 1 << thread;
      });
    }
    const patchers = this.books.patchers.map((each, i) => (i === index ? { at: state.at + 1, pending } : each));
    this.books = { ...this.books, patchers };
    return { footprint: this.steps[index]![state.at]!, violation: null };
  }

  private act(step: RaceStep, patcher: number): void {
    const { machine } = this;
    const write = (address: Address, bytes: Uint8Array): void => {
      const isFetched = this.holdBefore(address, bytes.length);
      if (machine.memory.write(address, bytes)) {
        if (isFetched) this.holdBehind();
        return;
      }
      throw new ElftraceError('usage', `a patcher step stores to ${hex(address)}, which is not mapped`, { address });
    };
    if (step.kind === 'store') write(step.address, step.bytes);
    else if (step.kind === 'free') {
      const { address, size, fill } = step;
      write(
        address,
        Uint8Array.from({ length: size }, (_, i) => fill[i % fill.length]!),
      );
    } else if (step.kind === 'synchronise') this.synchronise(step.thread);
    this.books = { ...this.books, ...booksBehind(this.books, step, patcher) };
  }

  private synchronise(thread: number | 'all'): void {
    for (let cpu = 0; cpu < this.machine.cpuCount; cpu++) {
      if (thread !== 'all' && thread !== cpu) continue;
      this.machine.synchronise(cpu);
      this.forget(cpu);
    }
  }

  /** A patcher is about to store: CPUs may have fetched before. False: it is no code. */
  private holdBefore(address: Address, size: number): boolean {
    const { deferred } = this;
    const end = address + BigInt(size);
    if (deferred?.isPatched(address, end) !== true) return false;
    const { stores, threads } = this.books;
    const held = this.books.held.map((each, thread) =>
      threads[thread]!.status === 'done' ? each : deferred.beforeStore(each, address, end, stores),
    );
    this.books = { ...this.books, held, stores: stores + 1 };
    this.fetchNote = { ...this.fetchNote!, stores: stores + 1 };
    return true;
  }

  /** A patcher has stored: what memory has again need not be held. */
  private holdBehind(): void {
    this.books = { ...this.books, held: this.books.held.map((each) => this.deferred!.besideMemory(each)) };
  }

  /** What the properties say when everything is at rest. */
  atEnd(): Violation | null {
    const { machine, marks } = this;
    const variable = (name: string): bigint => this.variable(name);
    for (const { name, atEnd } of this.properties) {
      const message = atEnd?.({ machine, variable, marks }) ?? null;
      if (message !== null) return { rule: name, thread: -1, message };
    }
    return null;
  }
}
