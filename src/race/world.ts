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
import { type CpuState, type Machine, type StopReason, type TrapKind } from '../emulator/index.js';
import type { Address } from '../units.js';
import type { ProbeCpu } from '../machine/probes.js';
import type { ProbeEntry, Property, RaceStep, Scene, Sequence, Violation } from './model.js';

/** A thread that executes, a patcher, or a CPU that fetches the window ahead of its thread. */
export interface Actor {
  readonly kind: 'thread' | 'patcher' | 'prefetch';
  /** Of the thread or patcher. */
  readonly index: number;
  readonly name: string;
}

/** Bytes, end exclusive. */
export type Range = readonly [start: Address, end: Address];

/**
 * What an event depended on and changed. Names stand for what is not memory: `points`, `trapped`,
 * `pokes`, locks, variables.
 */
export interface Footprint {
  readonly reads: Range[];
  readonly writes: Range[];
  readonly readNames: string[];
  readonly writtenNames: string[];
}

export interface Performed {
  readonly footprint: Footprint;
  readonly violation: Violation | null;
}

type Status = 'ready' | 'running' | 'trapped' | 'done';

interface ThreadState {
  readonly status: Status;
  readonly round: number;
  /** Of each call, the last one may not be over. */
  readonly marks: readonly (readonly string[])[];
  /** What trapped, as it was fetched; empty while nothing has. */
  readonly trapped: string;
}

interface PatcherState {
  readonly at: number;
  /** Threads that the wait that comes next still waits for, as bits. */
  readonly pending: number;
}

/** Everything but memory and registers. */
interface Books {
  readonly threads: readonly ThreadState[];
  readonly patchers: readonly PatcherState[];
  readonly variables: ReadonlyMap<string, bigint>;
  readonly locks: ReadonlyMap<string, number>;
  readonly published: readonly LivePatch[];
  readonly serves: readonly ProbeEntry[];
  readonly freed: readonly { readonly start: Address; readonly end: Address; readonly what: string }[];
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

/** What an event of a thread violates. */
type Wrong = Omit<Violation, 'thread'>;

const LINE = 64n;
/** No instruction is longer. */
const LONGEST = { breakpoint: 15n, word: 8n } as const;

/** Instructions that are there to trap; those of PowerPC are conditional ones. */
const isBreakpoint = (trap: TrapKind): boolean => trap === 'breakpoint' || trap === 'trap-instruction';

const latin1 = new TextDecoder('latin1');

function overlaps(ranges: readonly Range[], start: Address, end: Address): boolean {
  for (const [from, to] of ranges) if (start < to && from < end) return true;
  return false;
}

/** True when neither could be told from the other if they changed places. */
export function independent(a: Footprint, b: Footprint): boolean {
  const meets = (writes: readonly Range[], others: readonly Range[]): boolean =>
    others.some(([start, end]) => overlaps(writes, start, end));
  const shares = (writes: readonly string[], others: readonly string[]): boolean =>
    others.some((each) => writes.includes(each));
  return !(
    meets(a.writes, b.reads) ||
    meets(a.writes, b.writes) ||
    meets(b.writes, a.reads) ||
    shares(a.writtenNames, b.readNames) ||
    shares(a.writtenNames, b.writtenNames) ||
    shares(b.writtenNames, a.readNames)
  );
}

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

/** Lines of code that a patcher ever stores to, ascending; none where fetching is not modelled. */
function patchedLines(machine: Machine, { patchers }: Sequence): Address[] {
  const lineBytes = BigInt(machine.fetchLineBytes);
  const lines = new Set<Address>();
  if (lineBytes === 0n) return [];
  for (const step of patchers.flatMap(({ steps }) => steps)) {
    if (step.kind !== 'store' && step.kind !== 'free') continue;
    // Data is not fetched.
    if (machine.memory.windowAt(step.address)?.permission.includes('x') === false) continue;
    const end = step.address + BigInt(step.kind === 'store' ? step.bytes.length : step.size);
    for (let line = step.address & -lineBytes; line < end; line += lineBytes) lines.add(line);
  }
  return [...lines].sort((a, b) => (a < b ? -1 : 1));
}

export class World {
  readonly actors: readonly Actor[];
  private readonly machine: Machine;
  private books: Books;
  private readonly initial: readonly CpuState[];
  private readonly contents: Uint8Array[] = [];
  private readonly contentIds = new Map<string, number>();
  private readonly stateIds = new Map<string, number>();
  private readonly base = new Map<Address, number>();
  /** Lines that differ from the start, and lines of which that is not known. */
  private readonly lines = new Map<Address, number>();
  private readonly stale = new Set<Address>();
  private loading = false;
  private journal: Journal | null = null;
  private footprint: Footprint = { reads: [], writes: [], readNames: [], writtenNames: [] };
  private readonly longest: bigint;
  /** Threads may trap at probes. */
  private readonly servesProbes: boolean;
  /** Lines of code that a patcher ever stores to, in machines that model fetching. */
  private patched: readonly Range[] = [];
  /** Addresses of its lines. */
  private readonly patchedLines: readonly Address[];
  /** Code, sorted by start, to tell where a thread got to. */
  private readonly code: Scene['code'];
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
    if (scene.threads.length !== machine.cpuCount || scene.threads.length > 30) {
      throw new ElftraceError('usage', `${scene.threads.length} threads on ${machine.cpuCount} CPUs`, {
        value: scene.threads.length,
      });
    }
    this.longest = LONGEST[scene.livePatching.kind];
    this.servesProbes =
      sequence.serves !== undefined ||
      sequence.patchers.some(({ steps }) => steps.some(({ serves }) => serves !== undefined));
    this.code = scene.code && [...scene.code].sort((a, b) => (a.start < b.start ? -1 : 1));
    this.actors = actorsOf(scene, sequence, prefetch);
    if (prefetch && machine.fetchMode !== 'buffered') {
      throw new ElftraceError('usage', 'CPUs of a machine that is coherent do not fetch ahead');
    }
    const lineBytes = BigInt(machine.fetchLineBytes);
    this.patchedLines = patchedLines(machine, sequence);
    this.patched = this.patchedLines.map((line): Range => [line, line + lineBytes]);
    this.steps = sequence.patchers.map(({ steps }) =>
      steps.map((step, at) => this.footprintOf(step, steps[at + 1]?.kind === 'wait')),
    );
    this.watchAll();
    for (let cpu = 0; cpu < machine.cpuCount; cpu++) machine.synchronise(cpu);
    machine.forgetInstructions();
    this.initial = scene.threads.map((_, index) => machine.saveCpu(index));
    this.books = {
      threads: scene.threads.map(() => ({ status: 'ready', round: 0, marks: [[]], trapped: '' })),
      patchers: sequence.patchers.map(() => ({ at: 0, pending: 0 })),
      variables: new Map(Object.entries(sequence.variables ?? {})),
      locks: new Map(),
      published: sequence.published ?? [],
      serves: sequence.serves ?? [],
      freed: [],
    };
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

  // ---------------------------------------------------------------------------------------- states

  private windowPart(line: Address): { readonly start: Address; readonly size: number } {
    const window = this.machine.memory.windowAt(line) ?? this.machine.memory.windowAt(line + LINE - 1n);
    if (!window) throw new ElftraceError('internal', `nothing is mapped at ${hex(line)}`, { address: line });
    const start = window.address > line ? window.address : line;
    const end = window.address + BigInt(window.size);
    return { start, size: Number((end < line + LINE ? end : line + LINE) - start) };
  }

  private intern(bytes: Uint8Array): number {
    const text = latin1.decode(bytes);
    let id = this.contentIds.get(text);
    if (id === undefined) {
      id = this.contents.length;
      this.contentIds.set(text, id);
      this.contents.push(bytes.slice());
    }
    return id;
  }

  private lineContent(line: Address): number {
    const { start, size } = this.windowPart(line);
    return this.intern(this.machine.memory.read(start, size)!);
  }

  private beforeStore(address: Address, size: number): void {
    if (this.loading) return;
    this.journal?.stores.push({ address, bytes: this.machine.memory.read(address, size)! });
    for (let line = address & -LINE; line < address + BigInt(size); line += LINE) {
      if (!this.base.has(line)) this.base.set(line, this.lineContent(line));
      this.stale.add(line);
    }
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

  private settle(): void {
    for (const line of this.stale) {
      const id = this.lineContent(line);
      if (id === this.base.get(line)) this.lines.delete(line);
      else this.lines.set(line, id);
    }
    this.stale.clear();
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
          own += !fetched.lines.has(line) ? '-,' : kept ? `${this.intern(kept.bytes)},` : '=,';
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
    const lines: string[] = [];
    for (const [line, id] of this.lines) lines.push(`${line.toString(36)}:${id}`);
    return text + lines.sort().join();
  }

  save(): SavedWorld {
    this.settle();
    const cpus = this.initial.map((_, index) => this.machine.saveCpu(index));
    return { key: this.keyOf(cpus), cpus, lines: new Map(this.lines), books: this.books };
  }

  load(saved: SavedWorld): void {
    const { machine } = this;
    this.settle();
    this.loading = true;
    const put = (line: Address, id: number): void => {
      machine.memory.write(this.windowPart(line).start, this.contents[id]!);
    };
    for (const [line, id] of this.lines) {
      const wanted = saved.lines.get(line) ?? this.base.get(line)!;
      if (id !== wanted) put(line, wanted);
    }
    for (const [line, id] of saved.lines) if (!this.lines.has(line)) put(line, id);
    this.loading = false;
    this.lines.clear();
    for (const [line, id] of saved.lines) this.lines.set(line, id);
    machine.restoreCpus(saved.cpus);
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
    return this.books.variables.get(name) ?? 0n;
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

  private footprintOf(step: RaceStep, beforeWait: boolean): Footprint {
    const found: Footprint = { reads: [], writes: [], readNames: [], writtenNames: [] };
    if (step.when) found.readNames.push(`=${step.when.variable}`);
    // A wait begins when the step before it is done, and asks then who is inside.
    if (beforeWait || step.stopped === true) found.readNames.push('points');
    if (step.synchronises === true) found.writes.push(...this.patched);
    if (step.serves !== undefined) found.writtenNames.push('pokes');
    switch (step.kind) {
      case 'store':
        found.writes.push([step.address, step.address + BigInt(step.bytes.length)]);
        break;
      case 'free':
      case 'take':
        found.writes.push([step.address, step.address + BigInt(step.size)]);
        break;
      case 'serve':
        break;
      case 'synchronise':
        found.writes.push(...this.patched);
        found.readNames.push('trapped');
        break;
      case 'wait':
        found.readNames.push(step.until === 'outside' ? 'points' : 'trapped');
        break;
      case 'publish':
      case 'retract':
        found.writtenNames.push('pokes');
        break;
      case 'lock':
      case 'unlock':
        found.writtenNames.push(`!${step.lock}`);
        break;
      case 'set':
        found.writtenNames.push(`=${step.variable}`);
        if (typeof step.to === 'object') found.readNames.push(`=${step.to.variable}`);
        break;
      default:
        step satisfies never;
    }
    return found;
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
    const footprint: Footprint = { reads: [], writes: [], readNames: [], writtenNames: [] };
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
    const wrong = this.checkPlace(pc) ?? this.checkOps(pc);
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
    if (stop.kind !== 'step-limit') return this.stopped(stop, pc);
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

  private stopped(stop: Exclude<StopReason, { kind: 'step-limit' }>, pc: Address): Omit<Violation, 'thread'> {
    if (stop.kind === 'fault' && stop.access === 'execute') {
      return { rule: 'wrong-function', message: `nothing can be executed at ${hex(stop.address)}`, address: pc, stop };
    }
    const what =
      stop.kind === 'fault'
        ? `${stop.access} of ${hex(stop.address)}, which is not mapped so`
        : stop.kind === 'trap'
          ? `trap ${stop.trap}`
          : stop.kind === 'unknown-instruction'
            ? `${hexBytes(stop.bytes)} is no instruction`
            : stop.kind;
    return { rule: 'stopped', message: `${what}, at ${hex(pc)}`, address: pc, stop };
  }

  /** What is wrong with executing anything here, now. */
  private checkPlace(pc: Address): Wrong | null {
    for (const each of this.books.freed) {
      if (pc < each.start || pc >= each.end) continue;
      return { rule: 'freed-memory', message: `${hex(pc)} is executed, of ${each.what}, which is freed`, address: pc };
    }
    if (this.code && !this.inCode(pc)) {
      return { rule: 'wrong-function', message: `${hex(pc)} is reached, where nobody may get`, address: pc };
    }
    for (const { address, forms } of this.scene.units) {
      const size = forms.reduce((most, { bytes }) => Math.max(most, bytes.length), 0);
      if (pc < address || pc >= address + BigInt(size)) continue;
      const seen = this.machine.instructionBytes();
      const at = Number(pc - address);
      const whole = forms.some(
        ({ bytes, starts }) =>
          at < bytes.length &&
          starts.includes(at) &&
          seen.every((byte, i) => at + i >= bytes.length || byte === bytes[at + i]),
      );
      if (whole) continue;
      return {
        rule: 'torn-instruction',
        message: `${hexBytes(seen)} at ${hex(pc)} is no instruction of any of: ${forms.map(({ name }) => name).join(', ')}`,
        address: pc,
      };
    }
    return null;
  }

  private inCode(pc: Address): boolean {
    const code = this.code!;
    let low = 0;
    let high = code.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (code[middle]!.start <= pc) low = middle;
      else high = middle - 1;
    }
    // Extents may contain one another: those in front may reach further.
    for (let at = low; at >= 0; at--) if (pc >= code[at]!.start && pc < code[at]!.end) return true;
    return false;
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
    this.books = { ...this.books, ...this.booksBehind(step, patcher) };
  }

  /** What a step of a patcher changes beside memory. */
  private booksBehind(step: RaceStep, patcher: number): Partial<Books> {
    const { books } = this;
    switch (step.kind) {
      case 'store':
      case 'synchronise':
      case 'wait':
      case 'serve':
        return {};
      case 'free': {
        const { address, size, what } = step;
        return { freed: [...books.freed, { start: address, end: address + BigInt(size), what }] };
      }
      case 'take': {
        const end = step.address + BigInt(step.size);
        return { freed: books.freed.filter((each) => each.end <= step.address || end <= each.start) };
      }
      case 'publish': {
        const others = books.published.filter(({ address }) => !step.entries.some((each) => each.address === address));
        return { published: [...others, ...step.entries].sort((x, y) => (x.address < y.address ? -1 : 1)) };
      }
      case 'retract':
        return { published: books.published.filter((each) => !step.entries.includes(each)) };
      case 'lock':
        return { locks: new Map(books.locks).set(step.lock, patcher) };
      case 'unlock': {
        const locks = new Map(books.locks);
        locks.delete(step.lock);
        return { locks };
      }
      case 'set': {
        const value = typeof step.to === 'bigint' ? step.to : this.variable(step.to.variable);
        return { variables: new Map(books.variables).set(step.variable, value) };
      }
      default:
        return step satisfies never;
    }
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
