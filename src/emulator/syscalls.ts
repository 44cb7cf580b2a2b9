/**
 * The Linux system calls of a process. Numbers, registers and structures come from the target, what
 * is served of each from `calls.ts`; semantics are here for time, signals and limits, and in
 * `memory-calls.ts`, `file-calls.ts`, `descriptor-calls.ts`, `event-calls.ts`, `thread-calls.ts`
 * and `process-calls.ts` for the others. What is not served returns ENOSYS. Nothing depends on the
 * host: time is the instruction count, random bytes repeat, files are those of the tree that was
 * given.
 *
 * Whatever is not done as Linux does it is noted with the machine (`deviate`), under the condition
 * of `calls.ts` that the handler met.
 *
 * What signals do is in `signals.ts`, what waits and who runs next in `scheduler.ts`.
 */
import type { Abi } from '../machine/abi.js';
import { type AddressSpace, STACK_BYTES } from './address-space.js';
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import { ERRNO, type Errno } from './errno.js';
import { DescriptorCalls, type DescriptorCallName } from './descriptor-calls.js';
import { type Description, type Descriptors, InputDescription, OPEN_MAX } from './descriptions.js';
import { EventCalls, type EventCallName } from './event-calls.js';
import { FileCalls, type FileCallName } from './file-calls.js';
import { type FileSystem, joinPath, type NodeStatus, putNumber } from './files.js';

import type { Machine } from './machine.js';
import type { SyscallResult } from './stops.js';
import { MemoryCalls, type MemoryCallName } from './memory-calls.js';
import type { AccessKind, GuestMemory } from './memory.js';
import type { ProcSubject } from './proc.js';
import { ProcessCalls, type ProcessCallName } from './process-calls.js';
import type { Identity, KnownProcess, ProcessWorld, ProgramFacts } from './processes.js';
import type { Task } from './scheduler.js';
import { bit, newTimer, type Sent, Signals, SIGNALS } from './signals.js';
import { ThreadCalls, type ThreadCallName } from './thread-calls.js';
import type { Thread, Timer, Wait } from './thread.js';
import { SIGNAL } from '../machine/signals.js';
import type { Cause, Raised } from '../machine/signals.js';
import { type Condition, CONDITIONS, SERVED_CALLS, type ServiceName } from '../machine/calls.js';
import type { ProcessModel } from '../machine/emulation.js';
import type { Address, Endian } from '../units.js';

/** Bytes that the guest wrote to a file descriptor. The array is the receiver's. */
export type GuestOutput = (descriptor: number, bytes: Uint8Array) => void;

/**
 * At most `size` bytes of the guest's standard input; none at its end; null: there are none yet,
 * and the run stops, `waiting`.
 */
export type GuestInput = (size: number) => Uint8Array | null;

const CR0_SO = 0x1000_0000n;

/** Process id of every program, and thread id of its first thread. */
export const PID = 1000n;
const USER = 1000n;
/** Codes of `siginfo` of signals that the process sends. */
const SI_USER = 0;
const SI_TKILL = -6;
/** Most timers of a process. */
const TIMERS_MOST = 1024;

/**
 * ARCH_GET_CPUID, ARCH_SET_CPUID, permissions of extended state, mapping of the vDSO. Source: Linux
 * asm/prctl.h of x86.
 */
const OTHER_CODES: ReadonlySet<number> = new Set([
  0x1011, 0x1012, 0x1021, 0x1022, 0x1023, 0x1024, 0x1025, 0x2001, 0x2002, 0x2003,
]); // prettier-ignore

const RLIMIT_STACK = 3n;
const RLIMIT_NOFILE = 7n;
const RLIMITS = 16n;
/** Bytes of memory that the machine says it has. */
const MEMORY_BYTES = 0x4000_0000n;
/** Longest piece that `getrandom` gives at once. */
const RANDOM_MAX = 0x1ff_ffffn;

/**
 * Clocks that `clock_gettime` knows; those of the CPU's time, and those that move by ticks. Source:
 * Linux uapi/linux/time.h.
 */
const CLOCKS: ReadonlySet<number> = new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
const CPU_CLOCKS: ReadonlySet<number> = new Set([2, 3]);
const COARSE_CLOCKS: ReadonlySet<number> = new Set([5, 6]);
/** Nanoseconds of a tick: 250 a second. */
const COARSE_TICK = 4_000_000n;

/** 1 GHz: one instruction a nanosecond. */
const NANOSECONDS = 1_000_000_000n;
const MICROSECOND = 1000n;

/** Standard input has nothing yet. Nothing of the call was done. */
class InputPending extends Error {}

export interface GuestOptions {
  readonly world: ProcessWorld;
  readonly machine: Machine;
  readonly space: AddressSpace;
  readonly identity: Identity;
  readonly program: ProgramFacts;
  readonly descriptors: Descriptors;
}

/** The names of calls whose handlers are in other files. */
type ElsewhereName = ThreadCallName | MemoryCallName | FileCallName | DescriptorCallName | EventCallName | ProcessCallName; // prettier-ignore

/**
 * A process: the system calls by their names, and what it keeps from one to the next. Methods
 * rather than closures in one function: V8 compiles each when it is called first, but that function
 * whole, with all that is in it read once more, when a process starts.
 */
export class Guest implements KnownProcess, Task, Readonly<Record<Exclude<ServiceName, ElsewhereName>, Service>> {
  readonly model: ProcessModel;
  readonly convention: Abi['syscall'];
  readonly stackPointer: Abi['stackPointer'];
  readonly wordBytes: 4 | 8;
  readonly endian: Endian;
  readonly files: FileSystem;
  readonly world: ProcessWorld;
  readonly identity: Identity;
  readonly descriptors: Descriptors;
  readonly signals: Signals;
  readonly threads: ThreadCalls;
  readonly paths: FileCalls;
  private readonly mappings: MemoryCalls;
  private readonly encoder = new TextEncoder();
  /** Where the handlers of other files are. */
  private readonly groups: readonly Readonly<Partial<Record<ServiceName, Service>>>[];

  machine: Machine;
  space: AddressSpace;
  program: ProgramFacts;
  /** The process whose memory it executes in. */
  borrows: Guest | null = null;
  /** Called when the process ends or becomes another program. */
  private onRelease: (() => void) | null = null;
  /** PR_SET_NAME; null: that of the program. */
  name: string | null = null;
  /** Number of the next timer of `timer_create`. */
  private timerCount = 0;
  /** The system call that is being served. */
  private what = '';

  constructor(options: GuestOptions) {
    const { world, machine, identity } = options;
    const { abi, model, files, wordBytes } = world;
    this.world = world;
    this.machine = machine;
    this.space = options.space;
    this.identity = identity;
    this.program = options.program;
    this.descriptors = options.descriptors;
    this.model = model;
    this.convention = abi.syscall;
    this.stackPointer = abi.stackPointer;
    this.wordBytes = wordBytes;
    this.files = files;
    this.endian = machine.lifter.endian;
    this.mappings = new MemoryCalls(this);
    this.paths = new FileCalls(this);
    const currentMachine = (): Machine => this.machine;
    this.signals = new Signals({
      get machine() {
        return currentMachine();
      },
      model: model.signals,
      wordBytes,
      hasRestorer: model.sigactionRestorer,
      stackPointer: this.stackPointer,
      load: (address, size) => this.load(address, size),
      store: (address, bytes) => this.store(address, bytes),
      mapCode: (code) => this.mappings.mapCode(code),
      stops: () => {
        this.deviate('stop-signal');
      },
      user: USER,
      process: BigInt(identity.id),
    });
    this.threads = new ThreadCalls(this);
    this.groups = [
      this.threads,
      this.mappings,
      this.paths,
      new DescriptorCalls(this),
      new EventCalls(this),
      new ProcessCalls(this),
      this,
    ];
  }

  /** Serves the system call that the running thread makes. */
  handle(): SyscallResult {
    const { machine, convention } = this;
    const answer = this.call(
      int(machine.register(convention.number)),
      convention.arguments.map((register) => machine.register(register)),
    );
    if (typeof answer !== 'object') this.answer(answer);
    else if (answer.kind !== 'waits') return answer;
    return this.hasWork ? { kind: 'next', yields: true } : { kind: 'next' };
  }

  whenReleased(release: () => void): void {
    this.onRelease = release;
  }

  /** Its maker need not wait for it any more. */
  released(): void {
    this.onRelease?.();
    this.onRelease = null;
  }

  /** The running thread gives way to another. */
  leave(): void {
    this.threads.leave();
  }

  private get memory(): GuestMemory {
    return this.machine.memory;
  }

  /** True when something is to be done before the program goes on. */
  get hasWork(): boolean {
    const { signals, world } = this;
    return world.isShared || signals.threads.length > 1 || signals.thread.isGone || world.hasBirths || signals.hasWork;
  }

  /** Puts the answer of a system call where the program finds it. */
  answer(answer: bigint | Errno): void {
    const { machine, wordBytes, convention } = this;
    const failed = typeof answer === 'string';
    switch (convention.failure) {
      case 'negative-result':
        machine.setRegister(convention.result, failed ? BigInt.asUintN(8 * wordBytes, BigInt(-ERRNO[answer])) : answer);
        break;
      case 'cr0-so': {
        machine.setRegister(convention.result, failed ? BigInt(ERRNO[answer]) : answer);
        const cr = machine.register('cr');
        machine.setRegister('cr', failed ? cr | CR0_SO : cr & ~CR0_SO);
        break;
      }
      default:
        convention.failure satisfies never;
    }
  }

  /** Remembers the state of the process; the function that it returns puts that back. */
  save(): () => void {
    const { machine, space, program, name, timerCount, borrows, onRelease } = this;
    const { parent, group, session } = this.identity;
    const putBack = [
      this.threads.save(),
      this.signals.save(),
      this.descriptors.save(),
      this.paths.save(),
      space.save(),
    ];
    return () => {
      Object.assign(this, { machine, space, program, name, timerCount, borrows, onRelease });
      Object.assign(this.identity, { parent, group, session });
      for (const each of putBack) each();
    };
  }

  randomBytes(size: number): Uint8Array {
    return this.world.randomBytes(size);
  }

  statusOfPath(path: string): NodeStatus | Errno {
    return this.paths.status(joinPath(this.paths.directory, path), true);
  }

  nextInode(): number {
    return this.world.nextInode();
  }

  procSubject(): ProcSubject {
    const { identity, program, signals, space, descriptors } = this;
    const { id, parent, group, session } = identity;
    return {
      id,
      parent,
      group,
      session,
      descriptors,
      program: program.path,
      name: this.name,
      args: program.args,
      env: program.env,
      auxiliary: program.auxiliary,
      threads: signals.threads.map((each) => each.id),
      windows: this.memory.windows,
      stackTop: this.model.stackTop,
      cwd: this.paths.directory,
      mappedAt: (address) => space.mappedAt(address),
    };
  }

  /** Serves the call with this number. */
  call(number: number, args: Arguments): Answer {
    const name = this.model.syscalls.get(number);
    // Linux has no such call either.
    if (name === undefined) return 'ENOSYS';
    this.what = `system call ${name} (${number})`;
    const served = SERVED_CALLS[name];
    if (!served) {
      this.machine.deviate({ kind: 'refused', what: this.what, why: 'not served: ENOSYS' });
      return 'ENOSYS';
    }
    try {
      const { by } = served;
      const group = this.groups.find((each) => by in each)!;
      return group[by]!(args, served.wide ? 8 : this.wordBytes);
    } catch (error) {
      if (error instanceof InputPending) return { kind: 'waiting' };
      throw error;
    }
  }

  /** Notes that the call is not served as Linux serves it. */
  deviate(condition: Condition): void {
    this.machine.deviate({ kind: 'half', what: this.what, why: CONDITIONS[condition] });
  }

  private isBehindFile(address: Address): boolean {
    return this.space.behindFiles.some(([from, to]) => address >= from && address < to);
  }

  private isKernelCode(address: Address): boolean {
    const [from, to] = this.model.kernelCode ?? [0n, 0n];
    return address >= from && address < to;
  }

  /** An instruction raised a signal: enters its handler; false: none runs. */
  raised(raised: Raised): boolean {
    const cause = this.causeOf(raised);
    if (raised.kind === 'access' && this.isKernelCode(raised.address)) return false;
    if (!this.signals.raised(cause)) return false;
    if (raised.kind === 'trap' && raised.trap === 'alignment') {
      const why = 'si_addr is the address of the instruction, where Linux gives that of the access';
      this.machine.deviate({ kind: 'signal', what: `signal ${cause.signal}`, why });
    }
    return true;
  }

  private causeOf(raised: Raised): Cause {
    const cause = this.signals.causeOf(raised);
    if (raised.kind !== 'access' || !this.isBehindFile(raised.address)) return cause;
    return { ...cause, signal: SIGNAL.BUS, code: 2 };
  }

  /** What an instruction that raised `signal` at `address` meets in Linux. */
  faulted(signal: number, address: Address | null): void {
    if (address === null) return;
    if (this.isKernelCode(address)) {
      const why = 'nothing is there, where Linux has code of its own';
      this.machine.deviate({ kind: 'signal', what: `signal ${signal}`, why });
    }
    if (this.isBehindFile(address)) {
      this.machine.deviate({ kind: 'signal', what: `signal ${signal}`, why: CONDITIONS['behind-file'] });
    }
  }

  // ----------------------------------------------------------------------- arguments, guest memory

  /**
   * A 64-bit argument from index `i` on: one register, or on 32 bits a pair, most significant word
   * first if big-endian.
   */
  long(args: Arguments, i: number): bigint {
    if (this.wordBytes === 8) return arg(args, i);
    const pair = i + (i % 2);
    const [first, second] = [arg(args, pair), arg(args, pair + 1)];
    return this.endian === 'big' ? (first << 32n) | second : (second << 32n) | first;
  }

  /**
   * True when the guest may access the range; parts of the stack that were not touched yet are
   * mapped.
   */
  usable(address: Address, size: number, access: AccessKind): boolean {
    for (;;) {
      const bad = this.memory.check(address, size, access);
      if (bad === null) return true;
      if (!this.space.stack.grow(bad)) return false;
    }
  }

  /** The same for a buffer, of which Linux transfers what it can. */
  usableBuffer(address: Address, size: number, access: AccessKind): boolean {
    if (this.usable(address, size, access)) return true;
    if (size > 0 && this.usable(address, 1, access)) this.deviate('partial');
    return false;
  }

  load(address: Address, size: number): Uint8Array | null {
    return this.usable(address, size, 'read') ? this.memory.read(address, size) : null;
  }

  store(address: Address, bytes: Uint8Array): boolean {
    return this.usable(address, bytes.length, 'write') && this.memory.write(address, bytes);
  }

  loadNumber(address: Address, size: number = this.wordBytes): bigint | null {
    const bytes = this.load(address, size);
    return bytes && this.numberOf(bytes);
  }

  /** The number in `bytes`, which may be reversed. */
  private numberOf(bytes: Uint8Array): bigint {
    if (this.endian === 'little') bytes.reverse();
    return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  }

  storeNumbers(address: Address, values: readonly bigint[], size: number = this.wordBytes): boolean {
    const bytes = new Uint8Array(values.length * size);
    values.forEach((value, i) => {
      putNumber(bytes, i * size, size, value, this.endian);
    });
    return this.store(address, bytes);
  }

  // --------------------------------------------------------------------------- the process, limits

  exit_group(args: Arguments): Answer {
    return { kind: 'exit', code: Number(arg(args, 0) & 0xffn) };
  }

  getpid(): Answer {
    return BigInt(this.identity.id);
  }

  getppid(): Answer {
    return BigInt(this.identity.parent);
  }

  /** Source: Linux uapi/linux/sysinfo.h. */
  sysinfo(args: Arguments): Answer {
    const word = this.wordBytes;
    const seconds = this.now() / NANOSECONDS;
    const memory = [MEMORY_BYTES, MEMORY_BYTES / 2n, 0n, 0n, 0n, 0n];
    const bytes = new Uint8Array(word === 8 ? 112 : 64);
    [seconds, 0n, 0n, 0n, ...memory].forEach((value, i) => {
      putNumber(bytes, i * word, word, value, this.endian);
    });
    putNumber(bytes, 10 * word, 2, 1, this.endian);
    // Behind the number of processes, padding, and two words for high memory.
    putNumber(bytes, word === 8 ? 104 : 52, 4, 1, this.endian);
    return storeOr(this.store(arg(args, 0), bytes));
  }

  getuid(): Answer {
    return USER;
  }

  uname(args: Arguments): Answer {
    const FIELD_BYTES = 65;
    const bytes = new Uint8Array(6 * FIELD_BYTES);
    ['Linux', 'elftrace', '6.1.0', '#1', this.model.machineName, '(none)'].forEach((text, i) => {
      bytes.set(this.encoder.encode(text), i * FIELD_BYTES);
    });
    return storeOr(this.store(arg(args, 0), bytes));
  }

  /** What stands for no limit, in a word. */
  private get infinity(): bigint {
    return (1n << BigInt(8 * this.wordBytes)) - 1n;
  }

  private limit(resource: bigint): readonly [bigint, bigint] {
    if (resource === RLIMIT_NOFILE) return [BigInt(OPEN_MAX), BigInt(OPEN_MAX)];
    return [resource === RLIMIT_STACK ? BigInt(STACK_BYTES) : this.infinity, this.infinity];
  }

  getrlimit(args: Arguments): Answer {
    const resource = BigInt.asUintN(32, arg(args, 0));
    return resource >= RLIMITS ? 'EINVAL' : storeOr(this.storeNumbers(arg(args, 1), this.limit(resource)));
  }

  prlimit64(args: Arguments): Answer {
    const [id, resource, next, old] = [int(arg(args, 0)), BigInt.asUintN(32, arg(args, 1)), arg(args, 2), arg(args, 3)];
    if (resource >= RLIMITS) return 'EINVAL';
    if (next !== 0n && this.load(next, 16) === null) return 'EFAULT';
    if (id !== 0 && !this.signals.find(id)) return 'ESRCH';
    if (next !== 0n) this.deviate('set-limit');
    if (old === 0n) return 0n;
    const words = this.limit(resource).map((value) => (value === this.infinity ? (1n << 64n) - 1n : value));
    return storeOr(this.storeNumbers(old, words, 8));
  }

  getrandom(args: Arguments): Answer {
    const [address, size, flags] = [arg(args, 0), arg(args, 1), BigInt.asUintN(32, arg(args, 2))];
    // GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE; the last two exclude each other.
    if (flags > 7n || (flags & 6n) === 6n) return 'EINVAL';
    const length = Number(size > RANDOM_MAX ? RANDOM_MAX : size);
    if (!this.usableBuffer(address, length, 'write')) return 'EFAULT';
    const bytes = this.randomBytes(length);
    this.memory.write(address, bytes);
    return BigInt(length);
  }

  arch_prctl(args: Arguments): Answer {
    const names: Readonly<Record<number, 'gs_base' | 'fs_base'>> = {
      0x1001: 'gs_base',
      0x1002: 'fs_base',
      0x1003: 'fs_base',
      0x1004: 'gs_base',
    };
    const code = int(arg(args, 0));
    const name = names[code];
    if (name === undefined) {
      if (OTHER_CODES.has(code)) this.deviate('codes');
      return 'EINVAL';
    }
    if (code >= 0x1003) return storeOr(this.storeNumbers(arg(args, 1), [this.machine.register(name)]));
    // TASK_SIZE_MAX
    if (arg(args, 1) >= 0x7fff_ffff_f000n) return 'EPERM';
    this.machine.setRegister(name, arg(args, 1));
    return 0n;
  }

  // ------------------------------------------------------------------------------------------ time

  /** Ticks of the machine are nanoseconds. */
  private now(): bigint {
    return this.machine.time;
  }

  private storeTime(address: Address, time: bigint, size: number): boolean {
    return address === 0n || this.storeNumbers(address, [time / NANOSECONDS, time % NANOSECONDS], size);
  }

  time(args: Arguments): Answer {
    const seconds = this.now() / NANOSECONDS;
    return arg(args, 0) === 0n ? seconds : storeOr(this.storeNumbers(arg(args, 0), [seconds]), seconds);
  }

  gettimeofday(args: Arguments): Answer {
    const time = this.now();
    if (arg(args, 1) !== 0n && !this.storeNumbers(arg(args, 1), [0n, 0n], 4)) return 'EFAULT';
    if (arg(args, 0) === 0n) return 0n;
    return storeOr(this.storeNumbers(arg(args, 0), [time / NANOSECONDS, (time % NANOSECONDS) / 1000n]));
  }

  /** What the clock shows; null: there is no such clock. */
  private clock(id: number): bigint | null {
    if (id < 0) {
      // Of a process, a thread or a device.
      this.deviate('other-clocks');
      return null;
    }
    if (!CLOCKS.has(id)) return null;
    if (CPU_CLOCKS.has(id)) return BigInt(this.machine.totalInstructions);
    const now = this.now();
    return COARSE_CLOCKS.has(id) ? now - (now % COARSE_TICK) : now;
  }

  clock_gettime(args: Arguments, words: 4 | 8): Answer {
    const time = this.clock(int(arg(args, 0)));
    if (time === null) return 'EINVAL';
    return arg(args, 1) === 0n ? 'EFAULT' : storeOr(this.storeTime(arg(args, 1), time, words));
  }

  clock_getres(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    if (this.clock(id) === null) return 'EINVAL';
    return storeOr(this.storeTime(arg(args, 1), COARSE_CLOCKS.has(id) ? COARSE_TICK : 1n, words));
  }

  /**
   * Time passes at once, unless a timer expires before. `absolute`: until then, not for so long.
   * `rest`: where what is left is stored.
   */
  private sleep(address: Address, size: number, absolute: boolean, rest: Address): Answer {
    const deadline = this.deadlineOf(address, size, absolute);
    if (typeof deadline === 'string') return deadline;
    if (deadline <= this.now()) return 0n;
    return this.waitFor({
      deadline,
      expired: () => {
        this.answer(0n);
      },
      interrupted: () => {
        const left = deadline - this.now();
        const stored = absolute || rest === 0n || this.storeTime(rest, left > 0n ? left : 0n, size);
        this.answer(stored ? 'EINTR' : 'EFAULT');
      },
    });
  }

  /** The time of the machine that the time at `address` stands for. */
  deadlineOf(address: Address, size: number, absolute: boolean): bigint | Errno {
    const wrong = this.checkTime(address, size);
    if (wrong !== null) return wrong;
    const [seconds, rest] = this.loadTime(address, size)!;
    const wanted = seconds * NANOSECONDS + rest;
    return absolute ? wanted : this.now() + wanted;
  }

  /** The system call waits: it answers when the time has come or a handler has interrupted it. */
  waitFor(wait: Partial<Wait> & Pick<Wait, 'deadline'>): Answer {
    const { machine, signals } = this;
    const instruction = machine.pc;
    if (wait.deadline !== null && !this.hasWork) {
      machine.skipTime(wait.deadline - this.now());
      if (wait.mask) signals.setMask(wait.mask);
      wait.over?.();
      wait.expired?.();
      return { kind: 'waits' };
    }
    signals.thread.waiting = {
      ready: null,
      woken: () => undefined,
      over: null,
      expired: () => undefined,
      interrupted: () => {
        this.answer('EINTR');
      },
      restart: null,
      accepts: 0n,
      accepted: () => undefined,
      mask: null,
      isFirm: false,
      instruction,
      ...wait,
    };
    return { kind: 'waits' };
  }

  attempt(
    description: Description,
    ready: () => boolean,
    attempt: () => bigint | Errno | null,
    done = (): bigint => 0n,
  ): Answer {
    const first = attempt();
    if (first !== null) return first;
    if (description instanceof InputDescription) throw new InputPending();
    if (description.isNonBlocking) return 'EAGAIN';
    const restart = this.restarting();
    this.waitFor({
      deadline: null,
      ready,
      woken: () => {
        const answer = attempt();
        if (answer === null) this.signals.thread.waiting = waiting;
        else this.answer(answer);
      },
      interrupted: () => {
        const part = done();
        this.answer(part > 0n ? part : 'EINTR');
      },
      restart: () => {
        // What is done is not done again.
        const part = done();
        if (part > 0n) this.answer(part);
        else restart();
      },
    });
    const { waiting } = this.signals.thread;
    return { kind: 'waits' };
  }

  /** What is wrong with the time at `address`; null: nothing. */
  checkTime(address: Address, size: number): Errno | null {
    const time = this.loadTime(address, size);
    if (time === null) return 'EFAULT';
    const [seconds, rest] = time;
    return seconds < 0n || rest < 0n || rest >= NANOSECONDS ? 'EINVAL' : null;
  }

  /** Seconds and the rest, signed. On 32 bits the upper half of a wide rest is padding. */
  private loadTime(address: Address, size: number): readonly [bigint, bigint] | null {
    const seconds = this.loadNumber(address, size);
    const rest = this.loadNumber(address + BigInt(size), size);
    if (seconds === null || rest === null) return null;
    return [BigInt.asIntN(8 * size, seconds), BigInt.asIntN(8 * this.wordBytes, rest)];
  }

  nanosleep(args: Arguments): Answer {
    return this.sleep(arg(args, 0), this.wordBytes, false, arg(args, 1));
  }

  clock_nanosleep(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    if (this.clock(id) === null || COARSE_CLOCKS.has(id) || id === 3 || id === 4) return 'EINVAL';
    if (CPU_CLOCKS.has(id)) {
      this.deviate('other-clocks');
      return 'EINVAL';
    }
    return this.sleep(arg(args, 2), words, (arg(args, 1) & 1n) !== 0n, arg(args, 3));
  }

  /** Makes the system call again: registers and `pc` are those before it. */
  restarting(): () => void {
    const { machine } = this;
    const { number, arguments: [first], failure } = this.convention; // prettier-ignore
    const registers = [number, first!].map((name) => [name, machine.register(name)] as const);
    const cr = failure === 'cr0-so' ? machine.register('cr') : null;
    const instruction = machine.pc;
    return () => {
      for (const [name, value] of registers) machine.setRegister(name, value);
      if (cr !== null) machine.setRegister('cr', cr);
      machine.setRegister('pc', instruction);
    };
  }

  // --------------------------------------------------------------------------------------- signals

  /** What a system call answers that sent a signal. */
  private sent(sent: Sent, signal: number): Answer {
    switch (sent) {
      case 'done':
        return 0n;
      case 'full':
        return 'EAGAIN';
      case 'kills':
        return { kind: 'signal', signal };
      case 'stops':
        this.deviate('stop-signal');
        return { kind: 'unserved' };
      default:
        return sent satisfies never;
    }
  }

  /** `to` null: the process, whichever of its threads. */
  private raise(signal: number, info: Uint8Array, to: Thread | null): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    return signal === 0 ? 0n : this.sent(this.signals.send(signal, info, to), signal);
  }

  /**
   * Sends to other processes, of which there is one at least: it takes the signal when it goes on.
   */
  private toProcesses(guests: readonly KnownProcess[], signal: number, info: Uint8Array): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    if (guests.length === 0) return 'ESRCH';
    if (signal === 0) return 0n;
    let own: Answer = 0n;
    for (const each of guests) {
      if (each === this) own = this.raise(signal, info, null);
      else each.signals.post(signal, info, null);
    }
    return own;
  }

  /** A process, or the processes of a group. */
  kill(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    const { world, identity } = this;
    const isWanted = (each: KnownProcess): boolean => {
      if (id > 0) return each.identity.id === id;
      if (id === -1) return each !== this;
      return each.identity.group === (id === 0 ? identity.group : -id);
    };
    if (id > 0 && world.isZombie(id)) return signal < 0 || signal > SIGNALS ? 'EINVAL' : 0n;
    return this.toProcesses(world.guests.filter(isWanted), signal, this.signals.ownInfo(signal, SI_USER));
  }

  tkill(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    if (id <= 0) return 'EINVAL';
    return this.toThread(id, signal, this.signals.ownInfo(signal, SI_TKILL));
  }

  tgkill(args: Arguments): Answer {
    const [group, id, signal] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if (group <= 0 || id <= 0) return 'EINVAL';
    return this.toThread(id, signal, this.signals.ownInfo(signal, SI_TKILL), group);
  }

  /** A signal for one thread, of any process or of the one that is named. */
  private toThread(id: number, signal: number, info: Uint8Array, process: number | null = null): Answer {
    if (signal < 0 || signal > SIGNALS) return 'EINVAL';
    for (const each of this.world.guests) {
      const to = process === null || process === each.identity.id ? each.signals.find(id) : null;
      if (!to) continue;
      if (each === this) return this.raise(signal, info, to);
      if (signal !== 0) each.signals.post(signal, info, to);
      return 0n;
    }
    return 'ESRCH';
  }

  /** `siginfo` that a program gives. */
  private infoAt(signal: number, address: Address): Uint8Array | null {
    const info = this.load(address, 128);
    if (info) putNumber(info, 0, 4, BigInt(Math.max(0, signal)), this.endian);
    return info;
  }

  rt_sigqueueinfo(args: Arguments): Answer {
    const [id, signal] = [int(arg(args, 0)), int(arg(args, 1))];
    const info = this.infoAt(signal, arg(args, 2));
    if (!info) return 'EFAULT';
    return this.toProcesses(
      this.world.guests.filter((each) => each.identity.id === id),
      signal,
      info,
    );
  }

  rt_tgsigqueueinfo(args: Arguments): Answer {
    const [group, id, signal] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    if (group <= 0 || id <= 0) return 'EINVAL';
    const info = this.infoAt(signal, arg(args, 3));
    if (!info) return 'EFAULT';
    return this.toThread(id, signal, info, group);
  }

  rt_sigaction(args: Arguments): Answer {
    const [signal, next, old, size] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3)];
    if (size !== 8n || signal < 1 || signal > SIGNALS) return 'EINVAL';
    const action = next === 0n ? null : this.load(next, this.signals.actionBytes);
    if (next !== 0n) {
      if (!action) return 'EFAULT';
      if (signal === SIGNAL.KILL || signal === SIGNAL.STOP) return 'EINVAL';
    }
    if (old !== 0n && !this.store(old, this.signals.actionOf(signal))) return 'EFAULT';
    if (action) this.signals.setAction(signal, action);
    return 0n;
  }

  loadSet(address: Address): bigint | null {
    const low = this.loadNumber(address);
    if (low === null || this.wordBytes === 8) return low;
    const high = this.loadNumber(address + 4n);
    return high === null ? null : low | (high << 32n);
  }

  private storeSet(address: Address, set: bigint): boolean {
    return this.storeNumbers(address, this.wordBytes === 8 ? [set] : [set & 0xffff_ffffn, set >> 32n]);
  }

  rt_sigprocmask(args: Arguments): Answer {
    const [how, set, old, size] = [int(args[0]!), args[1]!, args[2]!, args[3]!];
    if (size !== 8n) return 'EINVAL';
    const before = this.signals.blocked;
    if (set !== 0n) {
      const wanted = this.loadSet(set);
      if (wanted === null) return 'EFAULT';
      if (how < 0 || how > 2) return 'EINVAL';
      this.signals.setMask(how === 0 ? before | wanted : how === 1 ? before & ~wanted : wanted);
    }
    if (old !== 0n && !this.storeSet(old, before)) return 'EFAULT';
    const { fatal } = this.signals;
    return fatal === null ? 0n : this.sent(fatal.kind, fatal.signal);
  }

  rt_sigpending(args: Arguments): Answer {
    // Linux takes smaller sets, too.
    if (arg(args, 1) !== 8n) return 'EINVAL';
    return storeOr(this.storeSet(arg(args, 0), this.signals.pendingSet & this.signals.blocked));
  }

  rt_sigsuspend(args: Arguments): Answer {
    if (arg(args, 1) !== 8n) return 'EINVAL';
    const set = this.loadSet(arg(args, 0));
    if (set === null) return 'EFAULT';
    const mask = this.signals.blocked;
    this.signals.setMask(set);
    return this.waitFor({ deadline: null, mask });
  }

  pause(): Answer {
    return this.waitFor({ deadline: null });
  }

  rt_sigtimedwait(args: Arguments, words: 4 | 8): Answer {
    const [wanted, info, time, size] = [arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3)];
    if (size !== 8n) return 'EINVAL';
    const set = this.loadSet(wanted);
    if (set === null) return 'EFAULT';
    const deadline = time === 0n ? null : this.deadlineOf(time, words, false);
    if (typeof deadline === 'string') return deadline;
    const accepted = (signal: number, found: Uint8Array): bigint | Errno =>
      storeOr(info === 0n || this.store(info, found), BigInt(signal));
    const accepts = set & ~(bit(SIGNAL.KILL) | bit(SIGNAL.STOP));
    const here = this.signals.take(accepts);
    if (here) return accepted(here.signal, here.info);
    if (deadline !== null && deadline <= this.now()) return 'EAGAIN';
    return this.waitFor({
      deadline,
      accepts,
      expired: () => {
        this.answer('EAGAIN');
      },
      accepted: (signal, found) => {
        this.answer(accepted(signal, found));
      },
    });
  }

  rt_sigreturn(): Answer {
    return this.signals.leave(false) ? { kind: 'resumed' } : { kind: 'signal', signal: SIGNAL.SEGV };
  }

  sigreturn(): Answer {
    if (this.model.signals.leaveOld === undefined) return 'ENOSYS';
    return this.signals.leave(true) ? { kind: 'resumed' } : { kind: 'signal', signal: SIGNAL.SEGV };
  }

  sigaltstack(args: Arguments): Answer {
    const [next, old] = [arg(args, 0), arg(args, 1)];
    const word = this.wordBytes;
    const before = this.signals.shownStack;
    if (next !== 0n) {
      const pointer = this.loadNumber(next);
      const flags = this.loadNumber(next + BigInt(word), 4);
      const size = this.loadNumber(next + BigInt(2 * word));
      if (pointer === null || flags === null || size === null) return 'EFAULT';
      const done = this.signals.setStack({ pointer, flags, size });
      if (done === 'small') this.deviate('small-stack');
      else if (done !== 'done') return done;
    }
    if (old === 0n) return 0n;
    const bytes = new Uint8Array(3 * word);
    putNumber(bytes, 0, word, before.pointer, this.endian);
    putNumber(bytes, word, 4, before.flags, this.endian);
    putNumber(bytes, 2 * word, word, before.size, this.endian);
    return storeOr(this.store(old, bytes));
  }

  // ---------------------------------------------------------------------------------------- timers

  /** Interval and time that is left, in units of `unit` nanoseconds. */
  private timeLeft(timer: Timer, unit: bigint): readonly bigint[] {
    const { expiry, interval } = timer;
    const left = expiry === null ? 0n : expiry - this.signals.clock(timer);
    // A timer that is set and has nothing left expires at once.
    const shown = expiry !== null && left <= 0n ? 1n : left;
    return [interval, shown].flatMap((each) => [each / NANOSECONDS, (each % NANOSECONDS) / unit]);
  }

  /** Interval and first time of a timer at an address; an error where they are none. */
  private timesOf(address: Address, size: number, unit: bigint): readonly [bigint, bigint] | Errno {
    const times = [0n, 1n].map((i) => this.loadTime(address + i * BigInt(2 * size), size));
    const out: bigint[] = [];
    for (const time of times) {
      if (time === null) return 'EFAULT';
      const [seconds, rest] = time;
      if (seconds < 0n || rest < 0n || rest >= NANOSECONDS / unit) return 'EINVAL';
      out.push(seconds * NANOSECONDS + rest * unit);
    }
    return [out[0]!, out[1]!];
  }

  getitimer(args: Arguments): Answer {
    const timer = this.signals.intervalTimers[int(arg(args, 0))];
    return timer ? storeOr(this.storeNumbers(arg(args, 1), this.timeLeft(timer, MICROSECOND))) : 'EINVAL';
  }

  setitimer(args: Arguments): Answer {
    const timer = this.signals.intervalTimers[int(arg(args, 0))];
    const [next, old] = [arg(args, 1), arg(args, 2)];
    const times = next === 0n ? ([0n, 0n] as const) : this.timesOf(next, this.wordBytes, MICROSECOND);
    if (typeof times === 'string') return times;
    if (!timer) return 'EINVAL';
    const before = this.timeLeft(timer, MICROSECOND);
    const [interval, first] = times;
    timer.interval = interval;
    timer.expiry = first === 0n ? null : this.signals.clock(timer) + first;
    return old === 0n ? 0n : storeOr(this.storeNumbers(old, before));
  }

  alarm(args: Arguments): Answer {
    const timer = this.signals.intervalTimers[0]!;
    const [, , seconds, rest] = this.timeLeft(timer, MICROSECOND);
    const wanted = BigInt.asUintN(32, arg(args, 0)) * NANOSECONDS;
    timer.interval = 0n;
    timer.expiry = wanted === 0n ? null : this.now() + wanted;
    // Rounded as Linux does: never to no time at all.
    const isUp = (seconds === 0n && rest! > 0n) || rest! >= 500_000n;
    return seconds! + (isUp ? 1n : 0n);
  }

  timer_create(args: Arguments): Answer {
    const [id, event, place] = [int(arg(args, 0)), arg(args, 1), arg(args, 2)];
    const word = this.wordBytes;
    if (!CLOCKS.has(id) || COARSE_CLOCKS.has(id) || id === 4) {
      if (id < 0) this.deviate('other-clocks');
      return 'EINVAL';
    }
    const { timers } = this.signals;
    if (timers.size >= TIMERS_MOST) return 'EAGAIN';
    const number = this.timerCount;
    let [value, signal, notify] = [BigInt(number), 14, 0];
    let thread: number | null = null;
    if (event !== 0n) {
      const loaded = this.loadNumber(event);
      const numbers = [0n, 4n, 8n].map((at) => this.loadNumber(event + BigInt(word) + at, 4));
      if (loaded === null || numbers.includes(null)) return 'EFAULT';
      [value, signal, notify] = [loaded, int(numbers[0]!), int(numbers[1]!)];
      if (notify === 4) thread = int(numbers[2]!);
      // SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD_ID.
      const isKnown = notify === 0 || notify === 1 || (thread !== null && this.signals.find(thread) !== null);
      if (!isKnown || (notify !== 1 && (signal < 1 || signal > SIGNALS))) return 'EINVAL';
    }
    if (!this.storeNumbers(place, [BigInt(number)], 4)) return 'EFAULT';
    const sends = notify === 1 ? 0 : signal;
    const info = sends === 0 ? null : this.signals.timerInfo(sends, number, value);
    timers.set(number, newTimer(CPU_CLOCKS.has(id) ? 'cpu' : 'real', sends, info, thread));
    this.timerCount++;
    return 0n;
  }

  private timer(args: Arguments): Timer | undefined {
    return this.signals.timers.get(int(arg(args, 0)));
  }

  timer_settime(args: Arguments, words: 4 | 8): Answer {
    const [flags, next, old] = [arg(args, 1), arg(args, 2), arg(args, 3)];
    if (next === 0n) return 'EINVAL';
    const times = this.timesOf(next, words, 1n);
    if (typeof times === 'string') return times;
    const timer = this.timer(args);
    if (!timer) return 'EINVAL';
    const before = this.timeLeft(timer, 1n);
    const [interval, first] = times;
    const TIMER_ABSTIME = 1n;
    const isAbsolute = (flags & TIMER_ABSTIME) !== 0n;
    timer.interval = interval;
    timer.overrun = 0n;
    timer.expiry = first === 0n ? null : isAbsolute ? first : this.signals.clock(timer) + first;
    return old === 0n ? 0n : storeOr(this.storeNumbers(old, before, words));
  }

  timer_gettime(args: Arguments, words: 4 | 8): Answer {
    const timer = this.timer(args);
    return timer ? storeOr(this.storeNumbers(arg(args, 1), this.timeLeft(timer, 1n), words)) : 'EINVAL';
  }

  timer_getoverrun(args: Arguments): Answer {
    const timer = this.timer(args);
    if (!timer) return 'EINVAL';
    return timer.overrun > 0x7fff_ffffn ? 0x7fff_ffffn : timer.overrun;
  }

  timer_delete(args: Arguments): Answer {
    return this.signals.timers.delete(int(arg(args, 0))) ? 0n : 'EINVAL';
  }
}
