/**
 * The processes that a program makes, and what they share: one CPU, one clock, numbers, files. Each
 * has a machine of its own, with a copy of the memory, but for those that share that of their maker
 * (`vfork`) until they become another program.
 *
 *   Guest 1000 -- Machine: CPU 0, CPU 1 (threads)     Guest 1002 -- Machine: CPU 0
 *   Guest 1003 -- the machine of 1000, CPU 2 (made by vfork)
 *
 * The run ends with the first process, when the others have ended too, or wait for what cannot
 * come.
 */
import { Descriptors, InputDescription, OutputDescription } from './descriptions.js';
import { FileLocks } from './file-locks.js';
import { type FileSystem, ReplayedInput } from './files.js';
import { FollowedFiles } from './followed-files.js';
import { Futexes } from './futex.js';
import type { LoadedProgram, ProcessImage } from './load.js';
import { Machine, type MachineOptions } from '../emulator/machine.js';
import { Ipc } from './ipc.js';
import { Network } from './network.js';
import { SharedMemory } from './shared-memory.js';
import { Terminals } from './terminals.js';
import { limitOf, RLIMIT } from './rights-calls.js';
import { Scheduler, type Slices, type Tasks } from './scheduler.js';
import { Guest, type GuestInput, type GuestOutput, PID } from './guest.js';
import { type ChildChange, type Ending, isOrphaned, SIGCONT } from './halt.js';
import {
  type ForkRequest,
  type Identity,
  INIT,
  type ProcessWorld,
  type ProgramFacts,
  type Zombie,
} from './processes.js';
import type { Deviation, StopReason } from '../emulator/stops.js';
import type { Abi } from '../machine/abi.js';
import { CODE, type Raised } from '../machine/signals.js';
import type { IrEmulation, ProcessModel } from '../machine/emulation.js';
import type { TrapKind } from '../machine/ir.js';
import { GENERIC_TERMINAL } from '../machine/terminals.js';
import type { Endian } from '../units.js';

/** Codes of `siginfo` about a child. Source: Linux asm-generic/siginfo.h. */
const CLD = { exit: 1, signal: 2, stopped: 5, continued: 6 } as const;
/** Most processes, those included that have ended and were not waited for. */
const PROCESSES = 128;

/** Signals by the traps that raise them. Source: Linux asm-generic/signal.h. */
const TRAP_SIGNALS: Readonly<Record<TrapKind, number>> = {
  breakpoint: 5,
  'trap-instruction': 5,
  divide: 8,
  privileged: 4,
  'misaligned-pc': 7,
  alignment: 7,
  'undefined-instruction': 4,
  protection: 11,
  'invalid-form': 4,
  undefined: 4,
  'branch-target': 4,
  'control-protection': 11,
};

/**
 * The signal that Linux raises where a run stopped so; null: the stop is no signal, or not one that
 * an instruction raises.
 */
export function signalOf(stop: StopReason): number | null {
  if (stop.kind === 'fault') return 11;
  if (stop.kind === 'unknown-instruction') {
    // A zero word is illegal by definition where it is no instruction; other unknown words may be
    // ours to learn.
    const isIllegal = stop.mnemonic === null && stop.bytes.length > 0 && stop.bytes.every((byte) => byte === 0);
    return isIllegal ? 4 : null;
  }
  return stop.kind === 'trap' ? TRAP_SIGNALS[stop.trap] : null;
}

/** What the stop of an instruction is to signals; null: it raises none. */
function raisedBy(machine: Machine, stop: StopReason): Raised | null {
  if (signalOf(stop) === null) return null;
  switch (stop.kind) {
    case 'fault': {
      const { address, access } = stop;
      return { kind: 'access', address, access, mapped: machine.memory.isMapped(address, 1) };
    }
    case 'trap':
      return { kind: 'trap', trap: stop.trap };
    case 'unknown-instruction':
      return { kind: 'trap', trap: 'undefined' };
    default:
      return null;
  }
}

function endingOf(stop: StopReason): Ending | null {
  if (stop.kind === 'exit') return { kind: 'exit', code: stop.code };
  const signal = stop.kind === 'signal' ? stop.signal : signalOf(stop);
  return signal === null ? null : { kind: 'signal', signal };
}

export interface WorldOptions {
  readonly abi: Pick<Abi, 'stackPointer' | 'syscall'>;
  readonly emulation: IrEmulation;
  readonly wordBytes: 4 | 8;
  readonly endian: Endian;
  readonly files: FileSystem;
  readonly input: GuestInput;
  readonly output: GuestOutput;
  /** What the wall clock shows when the run begins: nanoseconds since 1970. */
  readonly date: bigint;
  /** How threads share the CPU. */
  readonly slices: Slices;
  readonly machine: Pick<MachineOptions, 'tier' | 'tierUpAfter' | 'kept'>;
  /** Most bytes of memory of all processes together. */
  readonly memoryBytes: number;
  /** Most processes at a time. */
  readonly processes?: number | undefined;
  /** A program of this machine in a file; null: it is none. Default: no program is one. */
  readonly program: ((bytes: Uint8Array) => ProcessImage | null) | undefined;
  readonly onProcess: ((event: ProcessEvent) => void) | undefined;
}

/** A process was made, or became another program. */
export interface ProcessEvent {
  readonly kind: 'made' | 'replaced';
  readonly process: number;
  /** The path of the program. */
  readonly program: string;
  readonly machine: Machine;
}

/** What is asked before a signal is raised; true: go on. */
export type OnStop = (stop: StopReason, machine: Machine) => boolean;

export class World implements Tasks, ProcessWorld {
  readonly abi: WorldOptions['abi'];
  readonly model: ProcessModel;
  readonly files: FollowedFiles;
  readonly wordBytes: 4 | 8;
  /** Those that have not ended, in the order in which they were made. */
  guests: readonly Guest[] = [];
  zombies: readonly Zombie[] = [];
  private running: Guest | null = null;
  private first: Guest | null = null;
  /** How the first process ended, while others go on. */
  private firstStop: StopReason | null = null;
  readonly scheduler: Scheduler;
  private readonly input: ReplayedInput;
  lastId = Number(PID);
  private lastInode = 1_000_000;
  private random = 0x9e37_79b9;
  /** Instructions in machines that are gone. */
  private pastInstructions = 0;
  /** What is done when the system call is completed. */
  private births: readonly (() => void)[] = [];
  readonly futexes = new Futexes();
  readonly locks = new FileLocks();
  readonly network: Network;
  readonly terminals: Terminals;
  readonly ipc = new Ipc();
  /** Of files that are memory. */
  readonly fileMemory = {
    bytes: 0,
    hasRoom: (bytes: number): boolean => {
      const { machine } = this.current;
      return bytes <= this.options.memoryBytes - this.memoryOfOthers(machine) - machine.memory.usedBytes;
    },
    now: (): bigint => this.wallTime,
  };
  readonly sharing: SharedMemory;
  /** Puts zeros into the registers of the running CPU. */
  private readonly resets = new WeakMap<Machine, () => void>();

  constructor(private readonly options: WorldOptions) {
    this.abi = options.abi;
    this.model = options.emulation.process;
    this.files = new FollowedFiles(options.files, () => this.wallTime);
    this.network = new Network(() => this.wallTime, options.endian);
    this.terminals = new Terminals(this, this.model.terminal ?? GENERIC_TERMINAL, () => this.nextInode());
    this.wordBytes = options.wordBytes;
    this.input = new ReplayedInput(options.input);
    this.scheduler = new Scheduler(this, options.slices);
    const now = (): Guest | null => this.running;
    const all = (): readonly Guest[] => this.guests;
    this.sharing = new SharedMemory({
      get running() {
        return now();
      },
      get all() {
        return all();
      },
    });
  }

  // ------------------------------------------------------------------------------------- processes

  get tasks(): readonly Guest[] {
    return this.guests;
  }

  get current(): Guest {
    return this.running!;
  }

  get date(): bigint {
    return this.options.date;
  }

  get time(): bigint {
    return this.current.machine.time;
  }

  private get wallTime(): bigint {
    return this.date + (this.running?.machine.time ?? 0n);
  }

  get due(): bigint | null {
    return this.network.due;
  }

  /** A machine in which nothing is. */
  newMachine(): Machine {
    const { emulation, machine: options } = this.options;
    const machine: Machine = new Machine({
      ...options,
      lifter: emulation.lifter,
      syscall: () => this.current.handle(),
      onFault: (_machine, address) => this.current.space.stack.grow(address),
      memoryBytes: () => this.options.memoryBytes - this.memoryOfOthers(machine),
    });
    this.resets.set(machine, machine.saveRegisters());
    return machine;
  }

  private memoryOfOthers(machine: Machine): number {
    let bytes = 0;
    for (const each of this.machines()) if (each !== machine) bytes += each.memory.usedBytes;
    return bytes + this.sharing.usedBytes + this.fileMemory.bytes;
  }

  /** Each machine once. */
  private machines(): ReadonlySet<Machine> {
    const out = new Set(this.guests.map(({ machine }) => machine));
    if (this.first && this.firstStop) out.add(this.first.machine);
    return out;
  }

  /** Makes the first process of a program that lies in a machine. */
  start(machine: Machine, { space }: LoadedProgram, program: ProgramFacts): Guest {
    const descriptors = new Descriptors(this.files);
    descriptors.put(0, new InputDescription(this.input), false);
    for (const number of [1, 2]) descriptors.put(number, new OutputDescription(number, this.options.output), false);
    const id = Number(PID);
    const identity = { id, parent: INIT, group: id, session: id, exitSignal: 0 };
    const guest = new Guest({ world: this, machine, space, identity, program, descriptors });
    this.guests = [guest];
    this.first = guest;
    this.running = guest;
    machine.addState(() => this.save());
    return guest;
  }

  /** True when one process more may be made. */
  hasRoom(maker: Guest, isShared: boolean): boolean {
    const most = this.options.processes ?? PROCESSES;
    if (this.guests.length + this.zombies.length >= most) return false;
    return isShared || maker.machine.memory.usedBytes <= this.options.memoryBytes - this.memoryOfOthers(maker.machine) - maker.machine.memory.usedBytes; // prettier-ignore
  }

  /** Makes a process that is a copy of the one that runs, whose running thread it goes on with. */
  fork(maker: Guest, { id, exitSignal, isShared }: ForkRequest): Guest {
    if (!isShared) this.sharing.forked(maker);
    const machine = isShared ? maker.machine : this.copyOf(maker.machine);
    const { group, session } = maker.identity;
    const guest = new Guest({
      world: this,
      machine,
      space: isShared ? maker.space : maker.space.copy(machine),
      identity: { id, parent: maker.identity.id, group, session, exitSignal },
      program: maker.program,
      descriptors: maker.descriptors.copy(),
    });
    guest.name = maker.name;
    Object.assign(guest.standing, { ...maker.standing, deathSignal: 0, firstSlack: maker.standing.timerSlack });
    maker.paths.copyTo(guest.paths);
    maker.signals.copyTo(guest.signals);
    if (isShared) {
      const cpu = maker.threads.takeCpu();
      machine.copyRunning(cpu);
      guest.signals.thread = { ...guest.signals.thread, cpu };
      guest.signals.threads = [guest.signals.thread];
      guest.borrows = maker;
    }
    this.guests = [...this.guests, guest];
    this.options.onProcess?.({ kind: 'made', process: id, program: guest.program.path, machine });
    return guest;
  }

  private copyOf(maker: Machine): Machine {
    const machine = this.newMachine();
    machine.observeDeviations((deviation) => {
      this.deviated(deviation);
    });
    machine.memory.restore(maker.memory.save());
    machine.restoreCpus([maker.saveCpu(maker.cpu)]);
    machine.loseReservation();
    machine.skipTime(maker.time);
    return machine;
  }

  /** What a later process does otherwise than Linux is noted with the first. */
  private deviated({ kind, what, why, arguments: given }: Deviation): void {
    const of = `${what} of process ${this.current.identity.id}`;
    this.first?.machine.deviate({ kind, what: of, why, ...(given && { arguments: given }) }, 0n);
  }

  /**
   * The process leaves the memory that it shares, or empties its own; what is put there is another
   * program.
   */
  leaveMemory(guest: Guest): void {
    this.sharing.publish(guest);
    if (guest.borrows) {
      guest.borrows.threads.giveCpu(guest.signals.thread.cpu);
      guest.borrows = null;
      guest.machine = this.newMachine();
      guest.machine.observeDeviations((deviation) => {
        this.deviated(deviation);
      });
      guest.signals.thread.cpu = 0;
      this.synchronise();
    } else {
      const { memory } = guest.machine;
      for (const { address, size } of [...memory.windows]) memory.unmap(address, size);
    }
    const { machine } = guest;
    this.resets.get(machine)!();
    machine.loseReservation();
  }

  /** Another program has taken the place of a process. */
  replaced({ identity, program, machine }: Guest): void {
    this.sharing.settle();
    this.options.onProcess?.({ kind: 'replaced', process: identity.id, program: program.path, machine });
  }

  programIn(bytes: Uint8Array): ProcessImage | null {
    return this.options.program?.(bytes) ?? null;
  }

  get emulation(): IrEmulation {
    return this.options.emulation;
  }

  get loadsPrograms(): boolean {
    return this.options.program !== undefined;
  }

  isZombie(id: number): boolean {
    return this.zombies.some((each) => each.id === id);
  }

  /** The process has ended: its parent learns of it. */
  private end(guest: Guest, ending: Ending): void {
    const { identity, machine, borrows } = guest;
    const { id, parent, group, exitSignal } = identity;
    this.synchronise();
    for (const thread of guest.signals.threads) {
      guest.threads.left(thread);
      thread.isGone = true;
      if (borrows) borrows.threads.giveCpu(thread.cpu);
    }
    this.sharing.publish(guest);
    const before = this.guests.map((each) => ({ ...each.identity }));
    guest.descriptors.closeAll();
    guest.paths.leave();
    this.terminals.left(identity);
    this.ipc.ended(id);
    guest.borrows = null;
    guest.released();
    this.guests = this.guests.filter((each) => each !== guest);
    this.sharing.settle();
    if (guest !== this.first && !this.machines().has(machine)) this.pastInstructions += machine.totalInstructions;
    for (const each of this.guests) {
      if (each.identity.parent !== id) continue;
      each.identity.parent = INIT;
      const { deathSignal } = each.standing;
      if (deathSignal !== 0) each.signals.post(deathSignal, each.signals.ownInfo(deathSignal, SI_USER), null);
    }
    this.releaseOrphans(before);
    this.zombies = this.zombies.filter((each) => each.parent !== id);
    const maker = this.guests.find((each) => each.identity.id === parent);
    if (!maker) return;
    if (ending.kind === 'signal' && CORE_SIGNALS.has(ending.signal) && limitOf(guest.standing, RLIMIT.CORE)[0] > 0n)
      this.first?.machine.deviate({ kind: 'half', what: `core of process ${id}`, why: 'none is written' }, 0n);
    const isDiscarded = exitSignal === SIGCHLD && maker.signals.discards(SIGCHLD);
    const instructions = BigInt(machine.totalInstructions);
    if (!isDiscarded) this.zombies = [...this.zombies, { id, parent, group, ending, instructions }];
    if (exitSignal === 0) return;
    maker.signals.post(exitSignal, this.childInfo(maker, exitSignal, id, ending), null);
  }

  childInfo(to: Guest, signal: number, id: number, change: ChildChange): Uint8Array {
    const status = change.kind === 'exit' ? change.code : change.kind === 'continued' ? SIGCONT : change.signal;
    return to.signals.info(signal, CLD[change.kind], [
      [4, BigInt(id)],
      [4, USER],
      [4, BigInt(status)],
    ]);
  }

  tellParent({ identity }: Guest, change: ChildChange): void {
    const to = this.guests.find((each) => each.identity.id === identity.parent);
    if (to?.signals.hearsOfHalts !== true) return;
    to.signals.post(SIGCHLD, this.childInfo(to, SIGCHLD, identity.id, change), null);
  }

  /**
   * Groups that are orphaned since a process has ended, and in which processes are stopped, go on,
   * and learn of it: its own, and those of its children. `before`: who was there.
   */
  private releaseOrphans(before: readonly Identity[]): void {
    const after = this.guests.map(({ identity }) => identity);
    const groups = new Set(before.map(({ group }) => group));
    for (const group of groups) {
      const members = this.guests.filter(({ identity }) => identity.group === group);
      const [any] = members;
      if (!any || isOrphaned(any.identity, before) || !isOrphaned(any.identity, after)) continue;
      if (members.every(({ signals }) => signals.halt.signal === null)) continue;
      for (const signal of [SIGHUP, SIGCONT])
        for (const { signals } of members) signals.post(signal, signals.info(signal, CODE.SI_KERNEL), null);
    }
  }

  // ------------------------------------------------------------------------------------ scheduling

  /** True when there are several processes. */
  get isShared(): boolean {
    return this.guests.length > 1 || this.firstStop !== null;
  }

  get hasBirths(): boolean {
    return this.births.length > 0;
  }

  /** Does something when the system call that is being served is completed. */
  whenDone(birth: () => void): void {
    this.births = [...this.births, birth];
  }

  begin(): void {
    if (this.births.length === 0) return;
    const { births } = this;
    this.births = [];
    for (const each of births) each();
  }

  giveWay(): void {
    this.scheduler.giveWay();
  }

  get instructions(): number {
    let sum = this.pastInstructions;
    for (const each of this.machines()) sum += each.totalInstructions;
    return sum;
  }

  synchronise(): void {
    if (!this.isShared) return;
    let latest = this.current.machine.time;
    for (const { time } of this.machines()) if (time > latest) latest = time;
    for (const each of this.machines()) if (each.time < latest) each.skipTime(latest - each.time);
  }

  enter(guest: Guest): void {
    if (this.running) this.sharing.switched(this.running, guest);
    this.running = guest;
  }

  idle(): StopReason | null {
    return this.firstStop;
  }

  over(guest: Guest, stop: StopReason): StopReason | null {
    const ending = endingOf(stop);
    const isFirst = guest === this.first;
    if (ending === null) {
      const { id } = guest.identity;
      return isFirst ? stop : { kind: 'child', process: id, program: guest.program.path, stop };
    }
    if (isFirst && this.guests.length === 1) return stop;
    if (isFirst) this.firstStop = stop;
    else if (stop.kind !== 'exit' && stop.kind !== 'signal') {
      guest.faulted(ending.kind === 'signal' ? ending.signal : 0, stop.kind === 'fault' ? stop.address : null);
    }
    this.end(guest, ending);
    return this.guests.length === 0 ? this.firstStop : null;
  }

  /** Runs until something stops the program, or so many instructions are completed. */
  run(budget: number, onStop: OnStop | undefined): StopReason {
    const stop = this.runProcesses(budget, onStop);
    // Files hold what was stored in their memory.
    if (this.guests.length > 0) this.sharing.publish(this.current);
    return stop;
  }

  private runProcesses(budget: number, onStop: OnStop | undefined): StopReason {
    const last = this.instructions + budget;
    for (;;) {
      const stop = this.scheduler.prepare();
      if (stop) return stop;
      const { current } = this;
      const { machine } = current;
      const left = last - this.instructions;
      const ticks = this.scheduler.ticks();
      const most = ticks === null || ticks > BigInt(left) ? left : Math.max(1, Number(ticks));
      const ended = machine.run({ budget: Math.min(left, most) });
      if (ended.kind === 'yield') continue;
      if (ended.kind === 'step-limit') {
        if (this.instructions < last) continue;
        return ended;
      }
      if (ended.kind === 'waiting' && this.scheduler.lacksInput()) continue;
      if (ended.kind === 'waiting') return ended;
      if (onStop?.(ended, machine) === true) continue;
      const raised = raisedBy(machine, ended);
      if (raised !== null && current.raised(raised)) continue;
      const over = this.over(current, ended);
      if (over) return over;
    }
  }

  // ------------------------------------------------------------------------- numbers, bytes, state

  nextId(): number {
    return ++this.lastId;
  }

  nextInode(): number {
    return ++this.lastInode;
  }

  randomBytes(size: number): Uint8Array {
    const bytes = new Uint8Array(size);
    for (let i = 0; i < bytes.length; i++) {
      this.random = (Math.imul(this.random, 1_664_525) + 1_013_904_223) >>> 0;
      bytes[i] = this.random >>> 24;
    }
    return bytes;
  }

  /** Remembers everything but the machine of the first process, whose state this is part of. */
  private save(): () => void {
    const { guests, zombies, running, firstStop, lastId, lastInode, random, pastInstructions, births } = this;
    const fileBytes = this.fileMemory.bytes;
    const own = this.first!.machine;
    const machines = [...this.machines()];
    const others = machines.filter((each) => each !== own).map((each) => [each, each.snapshot()] as const);
    const parts = [
      this.scheduler.save(),
      this.input.save(),
      this.futexes.save(),
      this.locks.save(),
      this.network.save(),
      this.terminals.save(),
      this.ipc.save(),
      this.sharing.save(),
      this.files.save(),
      ...guests.map((each) => each.save()),
    ];
    return () => {
      const state = { guests, zombies, running, firstStop, lastId, lastInode, random, pastInstructions, births };
      Object.assign(this, state);
      this.fileMemory.bytes = fileBytes;
      for (const each of parts) each();
      for (const [machine, snapshot] of others) machine.restore(snapshot);
    };
  }
}

const SIGHUP = 1;
/** QUIT, ILL, TRAP, ABRT, BUS, FPE, SEGV, XCPU, XFSZ, SYS. Source: Linux, signal(7). */
const CORE_SIGNALS: ReadonlySet<number> = new Set([3, 4, 5, 6, 7, 8, 11, 24, 25, 31]);
const SIGCHLD = 17;
const SI_USER = 0;
const USER = 1000n;
