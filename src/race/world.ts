/**
 * The state of a race and its single events: which actors may act, what one event does, what it
 * touched, what it violated; and saving and loading of states. Knows nothing of orders;
 * `reduced.ts` and `every-order.ts` do.
 *
 * A state is saved as the difference from the start: registers of the CPUs and those lines of 64
 * bytes of memory that differ. Contents are interned, so a state's key is a short text and two
 * states have one key exactly if they are equal; nothing is hashed.
 *
 * Virtual time stands still, so that a clock read by one thread does not depend on how far another
 * one is.
 */
import type { LivePatch } from '../machine/live-patching.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { type CpuState, type Machine, type TrapKind } from '../emulator/index.js';
import type { Address } from '../units.js';
import type { ProbeCpu } from '../machine/probes.js';
import { type Books, booksBehind, startBooks, type ThreadState, variableIn } from './books.js';
import { ChangedLines } from './changed-lines.js';
import { emptyFootprint, type Footprint, overlaps, patchedLines, type Range, stepFootprint } from './footprints.js';
import type { ProbeEntry, Property, RaceStep, Scene, Sequence, Violation } from './model.js';
import { Places, type Wrong, wrongStop } from './places.js';

/** A thread that executes, a patcher, or a CPU that fetches the window ahead of its thread. */
export interface Actor {
  readonly kind: 'thread' | 'patcher' | 'prefetch';
  /** Of the thread or patcher. */
  readonly index: number;
  readonly name: string;
}

export interface Performed {
  readonly footprint: Footprint;
  readonly violation: Violation | null;
}

/** A state that can be loaded again. */
export interface SavedWorld {
  readonly key: string;
  readonly cpus: readonly CpuState[];
  readonly lines: ReadonlyMap<Address, number>;
  readonly books: Books;
}

/** What one event of a thread did, to be taken back. */
interface Journal {
  readonly cpu: number;
  readonly before: CpuState;
  readonly books: Books;
  readonly stores: { readonly address: Address; readonly bytes: Uint8Array }[];
}

/** No instruction is longer. */
const LONGEST = { breakpoint: 15n, word: 8n } as const;

/** Instructions that are there to trap; those of PowerPC are conditional ones. */
const isBreakpoint = (trap: TrapKind): boolean => trap === 'breakpoint' || trap === 'trap-instruction';

const latin1 = new TextDecoder('latin1');

/** Threads, patchers, and CPUs that fetch ahead. */
function actorsOf(scene: Scene, sequence: Sequence, prefetch: boolean): Actor[] {
  const threads = scene.threads.map(({ name }, index): Actor => ({ kind: 'thread', index, name }));
  const fetching = threads.map(({ index, name }): Actor => ({ kind: 'prefetch', index, name: `${name} fetches` }));
  return [
    ...threads,
    ...sequence.patchers.map(({ name }, index): Actor => ({ kind: 'patcher', index, name })),
    ...(prefetch ? fetching : []),
  ];
}

export class World {
  readonly actors: readonly Actor[];
  private readonly machine: Machine;
  private books: Books;
  private readonly initial: readonly CpuState[];
  private readonly stateIds = new Map<string, number>();
  private readonly lines: ChangedLines;
  private loading = false;
  private journal: Journal | null = null;
  private footprint = emptyFootprint();
  private readonly longest: bigint;
  /** Threads may trap at probes. */
  private readonly servesProbes: boolean;
  /** Lines of code that a patcher ever stores to, in machines that model fetching. */
  private patched: readonly Range[] = [];
  /** Addresses of its lines. */
  private readonly patchedLines: readonly Address[];
  private readonly places: Places;
  private readonly unwatch: (() => void)[] = [];
  /** What every step of each patcher touches; never changed. */
  private readonly steps: readonly (readonly Footprint[])[];

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
    this.servesProbes =
      sequence.serves !== undefined ||
      sequence.patchers.some(({ steps }) => steps.some(({ serves }) => serves !== undefined));
    this.places = new Places(scene);
    this.actors = actorsOf(scene, sequence, prefetch);
    if (prefetch && machine.fetchMode !== 'buffered') {
      throw new ElftraceError('usage', 'CPUs of a machine that is coherent do not fetch ahead');
    }
    const lineBytes = BigInt(machine.fetchLineBytes);
    this.patchedLines = patchedLines(machine, sequence);
    this.patched = this.patchedLines.map((line): Range => [line, line + lineBytes]);
    this.steps = sequence.patchers.map(({ steps }) =>
      steps.map((step, at) => stepFootprint(step, steps[at + 1]?.kind === 'wait', this.patched)),
    );
    this.watchAll();
    for (let cpu = 0; cpu < machine.cpuCount; cpu++) machine.synchronise(cpu);
    machine.forgetInstructions();
    this.initial = scene.threads.map((_, index) => machine.saveCpu(index));
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
    machine.observeStores((address, size) => {
      this.beforeStore(address, size);
    });
  }

  /** Takes hooks off the machine; the world is of no use any more. */
  close(): void {
    for (const each of this.unwatch) each();
    this.machine.observeStores(null);
  }

  private beforeStore(address: Address, size: number): void {
    if (this.loading) return;
    this.journal?.stores.push({ address, bytes: this.machine.memory.read(address, size)! });
    this.lines.beforeStore(address, size);
  }

  private readonly entries: (LivePatch | ProbeEntry)[] = [];

  private entryId(entry: LivePatch | ProbeEntry): number {
    const at = this.entries.indexOf(entry);
    return at < 0 ? this.entries.push(entry) - 1 : at;
  }

  private stateId(text: string): number {
    let id = this.stateIds.get(text);
    if (id === undefined) {
      id = this.stateIds.size;
      this.stateIds.set(text, id);
    }
    return id;
  }

  private keyOf(cpus: readonly CpuState[]): string {
    const { threads, patchers, variables, locks, published, serves, freed } = this.books;
    let text = '';
    cpus.forEach(({ state, pc, fetched }, index) => {
      let own = `${pc.toString(36)} ${latin1.decode(state)}`;
      if (fetched) {
        // Lines that are never stored to are the same whether they were fetched or not.
        own += '|';
        for (const line of this.patchedLines) {
          const kept = fetched.kept.get(line);
          own += !fetched.lines.has(line) ? '-,' : kept ? `${this.lines.intern(kept.bytes)},` : '=,';
        }
      }
      const { status, round, marks, trapped } = threads[index]!;
      text += `${this.stateId(own)}${status[0]!}${round}${trapped}[${marks.map((each) => each.join('+')).join('/')}];`;
    });
    for (const { at, pending } of patchers) text += `${at}.${pending};`;
    for (const [name, value] of variables) text += `${name}=${value},`;
    for (const [name, owner] of locks) text += `${name}!${owner},`;
    text += `${published.map((each) => this.entryId(each)).join()};${serves.map((each) => this.entryId(each)).join()};`;
    text += `${freed.map(({ start }) => start.toString(36)).join()};`;
    return text + this.lines.key;
  }

  save(): SavedWorld {
    const cpus = this.initial.map((_, index) => this.machine.saveCpu(index));
    const lines = this.lines.save();
    return { key: this.keyOf(cpus), cpus, lines, books: this.books };
  }

  load(saved: SavedWorld): void {
    this.loading = true;
    this.lines.load(saved.lines);
    this.loading = false;
    this.machine.restoreCpus(saved.cpus);
    this.books = saved.books;
  }

  // ------------------------------------------------------------------------------------- questions

  /** Nothing is left to do for this actor. */
  finished({ kind, index }: Actor): boolean {
    switch (kind) {
      case 'thread':
        return this.books.threads[index]!.status === 'done';
      case 'patcher':
        return this.books.patchers[index]!.at === this.sequence.patchers[index]!.steps.length;
      case 'prefetch':
        return !this.canPrefetch(index);
      default:
        return kind satisfies never;
    }
  }

  private canPrefetch(thread: number): boolean {
    if (this.books.threads[thread]!.status === 'done') return false;
    const { fetched } = this.machine.saveCpu(thread);
    return fetched !== null && this.patchedLines.some((line) => !fetched.lines.has(line) || fetched.kept.has(line));
  }

  /** How many of its steps a patcher has done. */
  positionOf(patcher: number): number {
    return this.books.patchers[patcher]!.at;
  }

  /** Where the thread is in its call. */
  statusOf(thread: number): 'ready' | 'running' | 'trapped' | 'done' {
    return this.books.threads[thread]!.status;
  }

  /** What the thread executes next depends on whether its CPU fetches anew before. */
  mayFetchAnew(thread: number, [start, end]: Range): boolean {
    const fetches = this.actors.some(({ kind, index }) => kind === 'prefetch' && index === thread);
    return fetches && overlaps(this.patched, start, end) && this.canPrefetch(thread);
  }

  /** The step that a patcher does next. */
  nextStep(patcher: number): RaceStep | undefined {
    return this.sequence.patchers[patcher]!.steps[this.books.patchers[patcher]!.at];
  }

  /** The actor can act now; a patcher that waits cannot. */
  enabled(actor: Actor): boolean {
    if (this.finished(actor)) return false;
    if (actor.kind !== 'patcher') return true;
    const step = this.nextStep(actor.index)!;
    if (!this.holds(step)) return true;
    if (step.stopped === true && this.books.threads.some(({ status }) => status === 'running' || status === 'trapped'))
      return false;
    switch (step.kind) {
      case 'lock':
        return !this.books.locks.has(step.lock);
      case 'wait':
        return step.until === 'outside' ? this.books.patchers[actor.index]!.pending === 0 : !this.anyTrapped();
      case 'synchronise':
        return step.thread === 'all' ? !this.anyTrapped() : this.books.threads[step.thread]!.status !== 'trapped';
      default:
        return true;
    }
  }

  private anyTrapped(): boolean {
    return this.books.threads.some(({ status }) => status === 'trapped');
  }

  private holds({ when }: RaceStep): boolean {
    return when === undefined || this.variable(when.variable) === when.equals;
  }

  variable(name: string): bigint {
    return variableIn(this.books, name);
  }

  get marks(): readonly (readonly (readonly string[])[])[] {
    return this.books.threads.map(({ marks }) => marks);
  }

  /** What all patchers may still touch. */
  *remaining(except = -1): Generator<Footprint> {
    for (let index = 0; index < this.steps.length; index++) {
      if (index === except) continue;
      const steps = this.steps[index]!;
      for (let at = this.books.patchers[index]!.at; at < steps.length; at++) yield steps[at]!;
    }
  }

  /** What the thread's next instruction is fetched from; null where it does not fetch. */
  fetchRange(thread: number): Range | null {
    if (this.books.threads[thread]!.status === 'trapped') return null;
    this.machine.switchTo(thread);
    const pc = this.machine.register('pc');
    const line = BigInt(this.machine.fetchLineBytes);
    return line === 0n ? [pc, pc + this.longest] : [pc & -line, ((pc + this.longest - 1n) & -line) + line];
  }

  // ---------------------------------------------------------------------------------------- events

  /** One event of an actor that is enabled. */
  perform(actor: Actor): Performed {
    switch (actor.kind) {
      case 'thread':
        return this.performThread(actor.index);
      case 'patcher':
        return this.performPatcher(actor.index);
      case 'prefetch':
        // An interrupt is a serialising event.
        this.machine.synchronise(actor.index);
        for (const [start, end] of this.patched) this.machine.prefetch(actor.index, start, Number(end - start));
        return {
          footprint: { reads: [...this.patched], writes: [], readNames: [], writtenNames: [] },
          violation: null,
        };
      default:
        return actor.kind satisfies never;
    }
  }

  /** One event of a thread, with what takes it back. */
  tryThread(thread: number): Performed & { undo(): void } {
    const journal: Journal = { cpu: thread, before: this.machine.saveCpu(thread), books: this.books, stores: [] };
    this.journal = journal;
    const performed = this.performThread(thread);
    this.journal = null;
    return {
      ...performed,
      undo: () => {
        for (const { address, bytes } of journal.stores.reverse()) this.machine.memory.write(address, bytes);
        this.machine.restoreCpus(this.initial.map((_, index) => (index === thread ? journal.before : null)));
        this.books = journal.books;
      },
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

  private performThread(thread: number): Performed {
    const { machine } = this;
    const footprint = emptyFootprint();
    this.footprint = footprint;
    machine.switchTo(thread);
    const isTrapped = this.books.threads[thread]!.status === 'trapped';
    const violation = isTrapped ? this.leaveTrap(thread) : this.performInstruction(thread);
    return { footprint, violation: violation && { thread, ...violation } };
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
    const before = machine.fetchLineBytes > 0 ? machine.saveCpu(thread).fetched : null;
    const stop = machine.step();
    if (before && before.lines.size > 0 && machine.saveCpu(thread).fetched!.lines.size < before.lines.size)
      footprint.reads.push(...this.patched);
    const freed = this.checkFreed(pc);
    if (freed) return freed;
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

  /** What the scene demands of registers and memory at an instruction. */
  private checkOps(pc: Address): Wrong | null {
    const { machine } = this;
    const check = this.scene.checks?.get(pc);
    if (check === undefined) return null;
    const message = check({
      register: (name) => machine.register(name),
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
    if (
      livePatching.kind === 'breakpoint' &&
      livePatching.handle(this.books.published, pc, livePatching.trapped(machine))
    )
      return true;
    const entry = this.books.serves.find(({ address }) => address === pc);
    if (entry !== undefined) {
      const to = entry.resume(this.probeCpu());
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

  /** The processor as the handler of probes sees it. What it accesses belongs to the event. */
  private probeCpu(): ProbeCpu {
    const { machine } = this;
    return {
      register: (name) => machine.register(name),
      setRegister: (name, value) => {
        machine.setRegister(name, value);
      },
      read: (address, size) => {
        this.footprint.reads.push([address, address + BigInt(size)]);
        return machine.memory.read(address, size);
      },
      write: (address, bytes) => {
        this.footprint.writes.push([address, address + BigInt(bytes.length)]);
        return machine.memory.write(address, bytes);
      },
    };
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
    const { expect, rounds = 1 } = scene.threads[thread]!;
    for (const [name, wanted] of expect) {
      const is = machine.register(name);
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
    return null;
  }

  private performPatcher(index: number): Performed {
    const state = this.books.patchers[index]!;
    const { steps } = this.sequence.patchers[index]!;
    const step = steps[state.at]!;
    if (this.holds(step)) {
      this.act(step, index);
      if (step.serves !== undefined) this.books = { ...this.books, serves: step.serves };
      if (step.synchronises === true)
        for (let cpu = 0; cpu < this.machine.cpuCount; cpu++) this.machine.synchronise(cpu);
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
      if (machine.memory.write(address, bytes)) return;
      throw new ElftraceError('usage', `a patcher step stores to ${hex(address)}, which is not mapped`, { address });
    };
    if (step.kind === 'store') write(step.address, step.bytes);
    else if (step.kind === 'free') {
      const { address, size, fill } = step;
      write(
        address,
        Uint8Array.from({ length: size }, (_, i) => fill[i % fill.length]!),
      );
    } else if (step.kind === 'synchronise') {
      for (let cpu = 0; cpu < machine.cpuCount; cpu++)
        if (step.thread === 'all' || step.thread === cpu) machine.synchronise(cpu);
    }
    this.books = { ...this.books, ...booksBehind(this.books, step, patcher) };
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
