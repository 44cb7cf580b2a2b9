/**
 * A process: what it keeps from one system call to the next, and the way from a number and
 * registers to the handler of a call. Numbers, registers and structures come from the target, what
 * is served of each from `calls.ts`; the handlers are in the files `*-calls.ts`. What is not served
 * returns ENOSYS. Nothing depends on the host: time is the instruction count, random bytes repeat,
 * files are those of the tree that was given.
 *
 * Whatever is not done as Linux does it is noted with the machine (`deviate`), under the condition
 * of `calls.ts` that the handler met.
 *
 * What signals do is in `signals.ts`, what waits and who runs next in `scheduler.ts`.
 */
import { ElftraceError } from '../errors.js';
import type { Abi } from '../machine/abi.js';
import type { AddressSpace } from './address-space.js';
import { type Answer, arg, type Arguments, int, type Patience, type Service } from './call-context.js';
import { ERRNO, type Errno } from './errno.js';
import { BatchCalls, type BatchCallName } from './batch-calls.js';
import { DescriptorCalls, type DescriptorCallName } from './descriptor-calls.js';
import { type Description, type Descriptors, InputDescription } from './descriptions.js';
import { EventCalls, type EventCallName } from './event-calls.js';
import { FactCalls, type FactCallName } from './fact-calls.js';
import { ChangeCalls, type ChangeCallName } from './change-calls.js';
import { GuestPaths } from './guest-paths.js';
import { FileCalls, type FileCallName } from './file-calls.js';
import { joinPath, type NodeStatus, putNumber } from './files.js';
import { attachmentsOf, IpcCalls, type IpcCallName } from './ipc-calls.js';
import type { Segment } from './ipc.js';
import { ipcTable } from './ipc-tables.js';
import { segmentMost } from './ipc-told.js';
import { LockCalls, lockedInode, type LockCallName } from './lock-calls.js';
import type { Machine } from '../emulator/machine.js';
import type { SyscallResult } from '../emulator/stops.js';
import { MemoryCalls, type MemoryCallName } from './memory-calls.js';
import type { AccessKind, GuestMemory } from '../emulator/memory.js';
import { MessageCalls, type MessageCallName } from './message-calls.js';
import { QueueDescription } from './message-queues.js';
import type { Network } from './network.js';
import { QueueCalls, type QueueCallName } from './queue-calls.js';
import type { Terminals } from './terminals.js';
import { OptionCalls, type OptionCallName } from './option-calls.js';
import type { ProcSubject, TaskState } from './proc.js';
import type { ProcSystem } from './proc-system.js';
import { ProcessCalls, type ProcessCallName } from './process-calls.js';
import { isOrphaned } from './halt.js';
import { FIRST_STANDING, type Identity, type KnownProcess, type ProcessWorld, type ProgramFacts, type Standing, USER } from './processes.js'; // prettier-ignore
import { ForeignMemoryCalls, type ForeignMemoryCallName } from './foreign-memory-calls.js';
import { PriorityCalls, type PriorityCallName } from './priority-calls.js';
import { limitOf, RightsCalls, RLIMIT, type RightsCallName } from './rights-calls.js';
import { SharingCalls, type SharingCallName } from './sharing-calls.js';
import type { Task } from './scheduler.js';
import type { SharedMemory } from './shared-memory.js';
import { SemaphoreCalls, type SemaphoreCallName } from './semaphore-calls.js';
import { SignalCalls, type SignalCallName } from './signal-calls.js';
import type { FollowedFiles } from './followed-files.js';
import { WatchCalls, type WatchCallName } from './watch-calls.js';
import { SpecialCalls, type SpecialCallName } from './special-calls.js';
import { SpliceCalls, type SpliceCallName } from './splice-calls.js';
import { Signals } from './signals.js';
import { SocketCalls, type SocketCallName } from './socket-calls.js';
import { TransferCalls, type TransferCallName } from './transfer-calls.js';
import { ThreadCalls, type ThreadCallName } from './thread-calls.js';
import type { Wait } from './thread.js';
import { TimeCalls, type TimeCallName } from './time-calls.js';
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

/** The names of calls that have a handler: all that `calls.ts` serves, or `Guest` has no type. */
type HandledName =
  | ThreadCallName | MemoryCallName | FileCallName | ChangeCallName | DescriptorCallName | LockCallName | EventCallName | ProcessCallName | SignalCallName
  | TimeCallName | FactCallName | RightsCallName | TransferCallName | SocketCallName | MessageCallName
  | BatchCallName | IpcCallName | QueueCallName | SemaphoreCallName | OptionCallName | SpecialCallName | SpliceCallName
  | WatchCallName
  | PriorityCallName | SharingCallName | ForeignMemoryCallName; // prettier-ignore

const [SIGXFSZ, SI_USER] = [25, 0] as const;

/**
 * Handlers are methods rather than closures in one function: V8 compiles each when it is called
 * first, but that function whole, with all that is in it read once more, when a process starts.
 */
export class Guest implements KnownProcess, Task, Readonly<Record<Exclude<ServiceName, HandledName>, Service>> {
  readonly model: ProcessModel;
  readonly convention: Abi['syscall'];
  readonly stackPointer: Abi['stackPointer'];
  readonly wordBytes: 4 | 8;
  readonly endian: Endian;
  readonly files: FollowedFiles;
  readonly world: ProcessWorld;
  readonly identity: Identity;
  readonly standing: Standing = { ...FIRST_STANDING };
  readonly descriptors: Descriptors;
  readonly signals: Signals;
  readonly threads: ThreadCalls;
  readonly paths: GuestPaths;
  private readonly mappings: MemoryCalls;
  private readonly times: TimeCalls;
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
  /** The system call that is being served. */
  private what = '';
  private given: Arguments = [];
  private isRestarted = false;

  constructor(options: GuestOptions) {
    const { world, machine, identity } = options;
    const { abi, model, files, wordBytes } = world;
    this.world = world;
    this.machine = machine;
    this.space = options.space;
    this.identity = identity;
    this.program = options.program;
    this.descriptors = options.descriptors;
    this.descriptors.onClose = (description) => {
      world.locks.closed(identity.id, description, lockedInode(description));
      if (description instanceof QueueDescription) description.queue.flushed(identity.id);
    };
    this.model = model;
    this.convention = abi.syscall;
    this.stackPointer = abi.stackPointer;
    this.wordBytes = wordBytes;
    this.files = files;
    this.endian = machine.lifter.endian;
    this.mappings = new MemoryCalls(this);
    this.paths = new GuestPaths(this);
    this.times = new TimeCalls(this);
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
      mayStop: () =>
        !isOrphaned(
          identity,
          world.guests.map((each) => each.identity),
        ),
      changed: (change) => {
        world.tellParent(this, change);
      },
      user: USER,
      date: world.date,
      process: BigInt(identity.id),
    });
    this.threads = new ThreadCalls(this);
    this.groups = this.handlers();
  }

  private handlers(): Guest['groups'] {
    const locks = new LockCalls(this);
    const descriptors = new DescriptorCalls(this, locks);
    const sockets = new SocketCalls(this, descriptors);
    const semaphores = new SemaphoreCalls(this);
    const messages = new MessageCalls(this, descriptors, sockets);
    const signalCalls = new SignalCalls(this);
    return [
      this.threads,
      this.mappings,
      new FileCalls(this, this.paths),
      new ChangeCalls(this, this.paths),
      descriptors,
      new TransferCalls(this, descriptors),
      new SpliceCalls(this, descriptors),
      sockets,
      messages,
      new BatchCalls(this, messages),
      new OptionCalls(this),
      semaphores,
      new IpcCalls(this, this.mappings, semaphores),
      new QueueCalls(this),
      locks,
      new EventCalls(this),
      new ProcessCalls(this),
      signalCalls,
      new SpecialCalls(this, signalCalls),
      new WatchCalls(this, this.paths),
      this.times,
      new FactCalls(this),
      new RightsCalls(this),
      new PriorityCalls(this),
      new SharingCalls(this, this.paths),
      new ForeignMemoryCalls(this),
    ];
  }

  /** Serves the system call that the running thread makes. */
  handle(): SyscallResult {
    const { machine, convention } = this;
    this.isRestarted = false;
    let answer = this.call(
      int(machine.register(convention.number)),
      convention.arguments.map((register) => machine.register(register)),
    );
    if (answer === 'EINTR' && this.isRestarted) answer = this.behindSignals();
    if (typeof answer !== 'object') this.answer(answer);
    else if (answer.kind !== 'waits') return answer;
    return this.hasWork ? { kind: 'next', yields: true } : { kind: 'next' };
  }

  /** Makes the system call again, unless a handler runs and does not ask for that. */
  private behindSignals(): Answer {
    const restart = this.restarting();
    return this.waitFor({ deadline: this.machine.time, restart, expired: restart });
  }

  restarts(): void {
    this.isRestarted = true;
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

  get date(): bigint {
    return this.world.date;
  }

  get sharing(): SharedMemory {
    return this.world.sharing;
  }

  get network(): Network {
    return this.world.network;
  }

  get terminals(): Terminals {
    return this.world.terminals;
  }

  private get memory(): GuestMemory {
    return this.machine.memory;
  }

  /** True when something is to be done before the program goes on. */
  get hasWork(): boolean {
    const { signals, world } = this;
    return (
      world.isShared ||
      world.network.due !== null ||
      signals.threads.length > 1 ||
      signals.thread.isGone ||
      world.hasBirths ||
      signals.hasWork
    );
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
    const { machine, space, program, name, borrows, onRelease } = this;
    const { parent, group, session } = this.identity;
    const standing = { ...this.standing };
    const putBack = [
      this.threads.save(),
      this.signals.save(),
      this.descriptors.save(),
      this.paths.save(),
      this.times.save(),
      space.save(),
    ];
    return () => {
      Object.assign(this, { machine, space, program, name, borrows, onRelease });
      Object.assign(this.identity, { parent, group, session });
      Object.assign(this.standing, standing);
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

  /**
   * The process begins in a directory.
   * @throws ElftraceError 'usage' when it is none that the process may enter
   */
  begin(directory: string): void {
    const status = this.paths.status(directory, true);
    if (typeof status === 'string' || status.kind !== 'directory') {
      const why = typeof status === 'string' ? status : 'ENOTDIR';
      throw new ElftraceError('usage', `the program cannot begin in ${directory} (${why})`, { file: directory });
    }
    this.paths.enter(this.realPath(joinPath('/', directory)), status);
  }

  /** The path without links; as it is where nothing is there any more. */
  realPath(path: string): string {
    const real = this.files.realPath(path);
    return typeof real === 'string' ? path : real.path;
  }

  private stateOf(id: number): TaskState {
    const { signals } = this;
    const thread = signals.threads.find((each) => each.id === id);
    if (signals.halt.signal !== null) return 'T';
    if (!thread) return 'Z';
    return thread.waiting === null ? 'R' : 'S';
  }

  get fileMost(): number {
    return Number(limitOf(this.standing, RLIMIT.FSIZE)[0]);
  }

  fileTooLarge(): void {
    this.signals.post(SIGXFSZ, this.signals.ownInfo(SIGXFSZ, SI_USER));
  }

  procSubject(): ProcSubject {
    const { identity, program, signals, space, descriptors } = this;
    const { id, parent, group, session } = identity;
    return {
      id,
      stateOf: (thread) => this.stateOf(thread),
      hasOthers: this.world.isShared,
      parent,
      group,
      session,
      descriptors,
      program: program.path,
      name: this.name ?? program.name.replace(/^.*\//, ''),
      args: program.args,
      env: program.env,
      auxiliary: program.auxiliary,
      threads: signals.threads.map((each) => each.id),
      windows: this.memory.windows,
      unread: this.space.unread,
      blocked: signals.thread.blocked,
      ...signals.dispositions,
      umask: this.paths.mask,
      nice: this.standing.nice,
      instructions: BigInt(this.machine.totalInstructions),
      limits: (resource) => limitOf(this.standing, resource),
      stackTop: this.model.stackTop,
      cwd: `${this.paths.directory}${this.paths.isGone ? ' (deleted)' : ''}`,
      real: (path) => this.realPath(path),
      mappedAt: (address) => space.mappedAt(address),
    };
  }

  procSystem(): ProcSystem {
    const { world, identity, signals } = this;
    return {
      time: world.time,
      used: BigInt(world.instructions),
      date: world.date,
      processes: world.guests.map((each) => each.identity.id).sort((a, b) => a - b),
      caller: { process: identity.id, thread: signals.thread.id },
      last: world.lastId,
      isWritable: world.files.changes !== undefined,
      systemV: (name) => {
        const attachments = (each: Segment): number => attachmentsOf(each, world.guests);
        return ipcTable(name, world.ipc, { attachments, user: USER, wordBytes: this.wordBytes });
      },
      segmentMost: segmentMost(this.wordBytes),
      randomBytes: (size) => this.randomBytes(size),
    };
  }

  procSubjectOf(id: number): ProcSubject | null {
    return this.world.guests.find((each) => each.identity.id === id)?.procSubject() ?? null;
  }

  /** Serves the call with this number. */
  call(number: number, args: Arguments): Answer {
    const name = this.model.syscalls.get(number);
    // Linux has no such call either.
    if (name === undefined) return 'ENOSYS';
    this.what = `system call ${name} (${number})`;
    this.given = args;
    const served = SERVED_CALLS[name];
    if (!served) {
      this.machine.deviate({ kind: 'refused', what: this.what, why: 'not served: ENOSYS', arguments: args });
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
    this.machine.deviate({ kind: 'half', what: this.what, why: CONDITIONS[condition], arguments: this.given });
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

  // --------------------------------------------------------------------------------------- waiting

  /** The system call waits: it answers when the time has come or a handler has interrupted it. */
  waitFor(wait: Partial<Wait> & Pick<Wait, 'deadline'>): Answer {
    const { machine, signals } = this;
    const instruction = machine.pc;
    if (wait.deadline !== null && !this.hasWork) {
      machine.skipTime(wait.deadline - machine.time);
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
      endsByStop: false,
      instruction,
      ...wait,
    };
    return { kind: 'waits' };
  }

  attempt(
    description: Description,
    ready: () => boolean,
    attempt: () => bigint | Errno | null,
    patience: Patience = {},
  ): Answer {
    const first = attempt();
    if (first !== null) return first;
    if (description instanceof InputDescription) throw new InputPending();
    return (patience.isHasty ?? description.isNonBlocking) ? 'EAGAIN' : this.retry(ready, attempt, patience);
  }

  retry(
    ready: () => boolean,
    attempt: () => bigint | Errno | null,
    {
      done = () => 0n,
      over = null,
      deadline = null,
      expires = 'EAGAIN',
      isBrittle = false,
      endsByStop = isBrittle,
    }: Patience = {},
  ): Answer {
    if (deadline !== null && deadline <= this.machine.time) {
      over?.();
      return done() || expires;
    }
    const restart = this.restarting();
    const answerPart = (error: Errno): void => {
      const part = done();
      this.answer(part > 0n ? part : error);
    };
    this.waitFor({
      deadline,
      ready,
      over,
      woken: () => {
        const answer = attempt();
        if (answer === null) this.signals.thread.waiting = waiting;
        else this.answer(answer);
      },
      expired: () => {
        answerPart(expires);
      },
      interrupted: () => {
        answerPart('EINTR');
      },
      endsByStop,
      restart: isBrittle
        ? null
        : () => {
            // What is done is not done again.
            const part = done();
            if (part > 0n) this.answer(part);
            else restart();
          },
    });
    const { waiting } = this.signals.thread;
    return { kind: 'waits' };
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

  loadSet(address: Address): bigint | null {
    const low = this.loadNumber(address);
    if (low === null || this.wordBytes === 8) return low;
    const high = this.loadNumber(address + 4n);
    return high === null ? null : low | (high << 32n);
  }
}
