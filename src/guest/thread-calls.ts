/**
 * System calls that make threads and processes, end threads and speak of them. A thread is a CPU of
 * the machine; it begins between two runs, when the call that made it is completed, as a copy of
 * the CPU that made it.
 *
 * Source: Linux, clone(2), uapi/linux/sched.h, uapi/linux/rseq.h.
 */
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import type { Futexes } from './futex.js';
import type { CloneRequest, KnownProcess } from './processes.js';
import { ProcessDescription } from './special-descriptions.js';
import { limitOf, RLIMIT } from './rights-calls.js';
import { newThread, type Thread } from './thread.js';
import type { Address } from '../units.js';
import { PAGE } from '../emulator/windows.js';

const CLONE = {
  VM: 0x100n, FS: 0x200n, FILES: 0x400n, SIGHAND: 0x800n, PIDFD: 0x1000n, THREAD: 0x1_0000n, SYSVSEM: 0x4_0000n, SETTLS: 0x8_0000n, VFORK: 0x4000n,
  PARENT_SETTID: 0x10_0000n, CHILD_CLEARTID: 0x20_0000n, DETACHED: 0x40_0000n, CHILD_SETTID: 0x100_0000n,
  CLEAR_SIGHAND: 0x1_0000_0000n,
} as const; // prettier-ignore
/** What is one for the threads of a process. */
const SHARED = CLONE.VM | CLONE.FS | CLONE.FILES | CLONE.SIGHAND | CLONE.THREAD;
/** What is served of threads and processes alike. */
const SERVED =
  CLONE.VM | CLONE.SYSVSEM | CLONE.SETTLS | CLONE.PARENT_SETTID | CLONE.CHILD_CLEARTID | CLONE.DETACHED | CLONE.CHILD_SETTID; // prettier-ignore
/** What is served of processes alone. */
const OF_PROCESSES = CLONE.VFORK | CLONE.PIDFD | CLONE.CLEAR_SIGHAND;
/** The signal that tells the parent of a process, in the flags of `clone`. */
const CSIGNAL = 0xffn;
/** Least size of `struct clone_args`, and how much of it is known. */
const CLONE_ARGS_LEAST = 64n;
const CLONE_ARGS_BYTES = 88;
/** Most threads of a process. */
const THREADS_MOST = 1024;
const SIGCHLD = 17;
const PLAIN = { stack: 0n, parentId: 0n, descriptor: 0n, childId: 0n, tls: 0n, exitSignal: SIGCHLD } as const;

export type ThreadCallName =
  | 'clone' | 'clone3' | 'exit' | 'fork' | 'futex' | 'get_robust_list' | 'gettid' | 'rseq' | 'sched_yield'
  | 'set_robust_list'
  | 'set_tid_address' | 'vfork'; // prettier-ignore

export class ThreadCalls implements Readonly<Record<ThreadCallName, Service>> {
  private readonly futexes: Futexes;
  /** CPUs of threads that have ended. */
  private freeCpus: readonly number[] = [];
  /** Threads that are about to begin. */
  private beginning = 0;
  /** The status that the first thread ended with, before the others. */
  private firstCode: number | null = null;

  constructor(private readonly context: KnownProcess) {
    this.futexes = context.world.futexes;
  }

  save(): () => void {
    const { freeCpus, beginning, firstCode } = this;
    return () => {
      Object.assign(this, { freeCpus, beginning, firstCode });
    };
  }

  // ------------------------------------------------------------------------------------ beginning

  clone(args: Arguments): Answer {
    const { wordBytes, model } = this.context;
    const flags = BigInt.asUintN(8 * wordBytes, arg(args, 0));
    const { cloneTls } = model.threads;
    const request = {
      flags: flags & ~CSIGNAL,
      exitSignal: Number(flags & CSIGNAL),
      stack: arg(args, 1),
      parentId: arg(args, 2),
      descriptor: arg(args, 2),
      tls: arg(args, cloneTls),
      childId: arg(args, 7 - cloneTls),
    };
    // Both are stored at one place.
    const both = CLONE.PIDFD | CLONE.PARENT_SETTID;
    return (flags & both) === both ? 'EINVAL' : this.make(request);
  }

  /** `struct clone_args`: words of 8 bytes on all targets. */
  clone3(args: Arguments): Answer {
    const { context } = this;
    const [address, size] = [arg(args, 0), arg(args, 1)];
    if (size > PAGE) return 'E2BIG';
    if (size < CLONE_ARGS_LEAST) return 'EINVAL';
    const bytes = context.load(address, Number(size));
    if (!bytes) return 'EFAULT';
    if (bytes.subarray(CLONE_ARGS_BYTES).some((each) => each !== 0)) return 'E2BIG';
    const word = (i: number): bigint => context.loadNumber(address + BigInt(8 * i), 8)!;
    const [stack, stackBytes] = [word(5), word(6)];
    if ((stack === 0n) !== (stackBytes === 0n)) return 'EINVAL';
    const ids = size > CLONE_ARGS_LEAST ? [word(8), word(9)] : [];
    if (ids.some((each) => each !== 0n)) {
      context.deviate('clone-flags');
      return 'EPERM';
    }
    const exitSignal = word(4);
    if ((word(0) & CSIGNAL) !== 0n || exitSignal > 64n) return 'EINVAL';
    return this.make({
      flags: word(0),
      exitSignal: Number(exitSignal),
      descriptor: word(1),
      childId: word(2),
      parentId: word(3),
      stack: stack + stackBytes,
      tls: word(7),
    });
  }

  private make(request: CloneRequest): Answer {
    const { context } = this;
    const { flags } = request;
    const has = (flag: bigint): boolean => (flags & flag) !== 0n;
    if (has(CLONE.THREAD) && !has(CLONE.SIGHAND)) return 'EINVAL';
    if (has(CLONE.SIGHAND) && (!has(CLONE.VM) || has(CLONE.CLEAR_SIGHAND))) return 'EINVAL';
    if (has(CLONE.PIDFD) && (has(CLONE.THREAD) || has(CLONE.DETACHED))) return 'EINVAL';
    const served = has(CLONE.THREAD) ? SHARED | SERVED : SERVED | OF_PROCESSES;
    if ((has(CLONE.THREAD) && (flags & SHARED) !== SHARED) || (flags & ~served) !== 0n) {
      context.deviate('clone-flags');
      return 'EINVAL';
    }
    return has(CLONE.THREAD) ? this.makeThread(request) : this.makeProcess(request);
  }

  /** RLIMIT_NPROC: the user has as many threads as it may; those not waited for count. */
  private get hasAllThreads(): boolean {
    const { standing, world } = this.context;
    const [most] = limitOf(standing, RLIMIT.PROCESSES);
    const threads = world.guests.reduce((sum, { signals }) => sum + signals.threads.length, this.beginning);
    return BigInt(threads + world.zombies.length) >= most;
  }

  private makeThread(request: CloneRequest): Answer {
    const { context } = this;
    const { flags } = request;
    const { signals, machine, world } = context;
    if (this.hasAllThreads) return 'EAGAIN';
    if (signals.threads.length + this.beginning >= THREADS_MOST) {
      context.deviate('thread-limit');
      return 'EAGAIN';
    }
    const id = world.nextId();
    if ((flags & CLONE.PARENT_SETTID) !== 0n) context.storeNumbers(request.parentId, [BigInt(id)], 4);
    if ((flags & CLONE.CHILD_SETTID) !== 0n) context.storeNumbers(request.childId, [BigInt(id)], 4);
    const thread = newThread(id, this.takeCpu(), signals.blocked);
    if ((flags & CLONE.CHILD_CLEARTID) !== 0n) thread.clearAddress = request.childId;
    this.beginning++;
    world.whenDone(() => {
      this.beginning--;
      const maker = machine.cpu;
      machine.copyRunning(thread.cpu);
      machine.switchTo(thread.cpu);
      thread.startedAt = machine.instructions;
      this.enter(request);
      machine.switchTo(maker);
      signals.threads = [...signals.threads, thread];
    });
    return BigInt(id);
  }

  /** A CPU of the machine that executes nothing now. */
  takeCpu(): number {
    const [free, ...rest] = this.freeCpus;
    this.freeCpus = rest;
    return free ?? this.context.machine.addCpu();
  }

  giveCpu(cpu: number): void {
    this.freeCpus = [...this.freeCpus, cpu];
  }

  /** Sets the registers with which a copy of the running thread goes on. */
  private enter({ flags, stack, tls }: CloneRequest): void {
    const { machine, model, stackPointer } = this.context;
    this.context.answer(0n);
    if (stack !== 0n) machine.setRegister(stackPointer, stack);
    if ((flags & CLONE.SETTLS) !== 0n) machine.setRegister(model.threads.pointer, tls);
  }

  /**
   * A process of its own; with VM it shares the memory of this one, which with VFORK waits for it.
   */
  private makeProcess(request: CloneRequest): Answer {
    const { context } = this;
    const { flags, exitSignal } = request;
    const { world } = context;
    const has = (flag: bigint): boolean => (flags & flag) !== 0n;
    if (this.hasAllThreads) return 'EAGAIN';
    if (!world.hasRoom(context, has(CLONE.VM))) {
      context.deviate('process-limit');
      return 'EAGAIN';
    }
    if (has(CLONE.PIDFD) && !context.descriptors.hasRoom(1)) return 'EMFILE';
    if (has(CLONE.PIDFD) && !context.usable(request.descriptor, 4, 'write')) return 'EFAULT';
    const id = world.nextId();
    if (has(CLONE.PARENT_SETTID)) context.storeNumbers(request.parentId, [BigInt(id)], 4);
    let isReleased = false;
    world.whenDone(() => {
      const child = world.fork(context, { id, exitSignal, isShared: has(CLONE.VM) });
      child.whenReleased(() => {
        isReleased = true;
      });
      child.threads.beginAs(request);
      if (has(CLONE.CLEAR_SIGHAND)) child.signals.forgetHandlers();
      if (has(CLONE.PIDFD)) this.describe(child, request.descriptor);
    });
    if (!has(CLONE.VFORK)) return BigInt(id);
    return context.waitFor({
      deadline: null,
      isFirm: true,
      ready: () => isReleased,
      woken: () => {
        context.answer(BigInt(id));
      },
    });
  }

  /** Gives the maker a descriptor of the process, whose number it finds at a place. */
  private describe(child: KnownProcess, place: Address): void {
    const { context } = this;
    const hasEnded = (): boolean => !context.world.guests.includes(child);
    const description = new ProcessDescription(0, context.nextInode(), child.identity.id, hasEnded);
    context.storeNumbers(place, [BigInt(context.descriptors.add(description, true))], 4);
  }

  /** The first thread of a process that was made as a copy. */
  beginAs(request: CloneRequest): void {
    const { context } = this;
    const { machine, identity, signals } = context;
    const has = (flag: bigint): boolean => (request.flags & flag) !== 0n;
    const maker = machine.cpu;
    const { cpu } = signals.thread;
    if (cpu !== maker) machine.switchTo(cpu);
    this.enter(request);
    if (has(CLONE.CHILD_SETTID)) context.storeNumbers(request.childId, [BigInt(identity.id)], 4);
    if (has(CLONE.CHILD_CLEARTID)) signals.thread.clearAddress = request.childId;
    if (cpu !== maker) machine.switchTo(maker);
  }

  fork(): Answer {
    return this.makeProcess({ ...PLAIN, flags: 0n });
  }

  vfork(): Answer {
    const flags = CLONE.VM | CLONE.VFORK;
    return this.makeProcess({ ...PLAIN, flags });
  }

  // --------------------------------------------------------------------------------------- ending

  /** The thread ends; with the last one the process does, with the status of the first. */
  exit(args: Arguments): Answer {
    const { context } = this;
    const { signals } = context;
    const { thread, threads } = signals;
    const code = Number(arg(args, 0) & 0xffn);
    this.futexes.ended(context, thread);
    if (thread.id === context.identity.id) this.firstCode = code;
    if (threads.length === 1) return { kind: 'exit', code: this.firstCode ?? code };
    thread.isGone = true;
    signals.threads = threads.filter((each) => each !== thread);
    this.giveCpu(thread.cpu);
    return { kind: 'waits' };
  }

  /** The process leaves its memory: it ends, or becomes another program. */
  left(thread: Thread): void {
    this.futexes.ended(this.context, thread);
  }

  /** All threads but the running one end: the process becomes another program. */
  exec(): void {
    const { signals, identity } = this.context;
    for (const each of signals.threads) {
      if (each === signals.thread) continue;
      each.isGone = true;
      this.giveCpu(each.cpu);
    }
    if (signals.thread.id !== identity.id) signals.thread = { ...signals.thread, id: identity.id };
    signals.threads = [signals.thread];
    this.firstCode = null;
  }

  // -------------------------------------------------------------------------- what a thread knows

  gettid(): Answer {
    return BigInt(this.context.signals.thread.id);
  }

  set_tid_address(args: Arguments): Answer {
    const { thread } = this.context.signals;
    thread.clearAddress = arg(args, 0);
    return BigInt(thread.id);
  }

  set_robust_list(args: Arguments): Answer {
    const { wordBytes, signals } = this.context;
    if (arg(args, 1) !== BigInt(3 * wordBytes)) return 'EINVAL';
    signals.thread.robustList = arg(args, 0);
    return 0n;
  }

  get_robust_list(args: Arguments): Answer {
    const { context } = this;
    const { signals, wordBytes } = context;
    const id = int(arg(args, 0));
    const thread = id === 0 ? signals.thread : signals.find(id);
    if (!thread) return 'ESRCH';
    if (!context.storeNumbers(arg(args, 2), [BigInt(3 * wordBytes)])) return 'EFAULT';
    return storeOr(context.storeNumbers(arg(args, 1), [thread.robustList]));
  }

  /** The number of the CPU, which is 0 and stays it, at `address`. */
  rseq(args: Arguments): Answer {
    const { context } = this;
    const { thread } = context.signals;
    const [address, size, flags, signature] = [
      arg(args, 0),
      BigInt.asUintN(32, arg(args, 1)),
      int(arg(args, 2)),
      arg(args, 3),
    ];
    const { sequences } = thread;
    const isSame = sequences !== null && sequences[0] === address && sequences[1] === size;
    if (flags === 1) {
      if (!isSame) return 'EINVAL';
      if (sequences[2] !== signature) return 'EPERM';
      thread.sequences = null;
      // RSEQ_CPU_ID_UNINITIALIZED
      return storeOr(context.storeNumbers(address, [0n, 0xffff_ffffn], 4));
    }
    if (flags !== 0) return 'EINVAL';
    if (sequences !== null) return !isSame ? 'EINVAL' : sequences[2] === signature ? 'EBUSY' : 'EPERM';
    if (address % 32n !== 0n || size !== 32n) return 'EINVAL';
    if (!context.storeNumbers(address, [0n, 0n], 4)) return 'EFAULT';
    thread.sequences = [address, size, signature];
    return 0n;
  }

  /**
   * The running thread gives way to another: a sequence in which it stands is begun anew. `struct
   * rseq_cs`: version and flags, first instruction, length, where an interrupted one goes on.
   */
  leave(): void {
    const { context } = this;
    const { machine, signals } = context;
    const { sequences } = signals.thread;
    if (sequences === null) return;
    const place = sequences[0] + 8n;
    const sequence = context.loadNumber(place, 8);
    if (sequence === null || sequence === 0n) return;
    const [start, length, goesOn] = [8n, 16n, 24n].map((at) => context.loadNumber(sequence + at, 8));
    if (start === undefined || length === undefined || goesOn === undefined) return;
    if (start === null || length === null || goesOn === null) return;
    if (!context.storeNumbers(place, [0n], 8)) return;
    const inside = BigInt.asUintN(64, machine.pc - start) < length;
    if (inside) machine.setRegister('pc', goesOn);
  }

  sched_yield(): Answer {
    this.context.world.giveWay();
    return 0n;
  }

  futex(args: Arguments, words: 4 | 8): Answer {
    return this.futexes.call(this.context, args, words);
  }
}
