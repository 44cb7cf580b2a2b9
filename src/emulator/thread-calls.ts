/**
 * System calls that make threads, end them and speak of them. A thread is a CPU of the machine; it
 * begins between two runs (`begin`), when the call that made it is completed, as a copy of the CPU
 * that made it.
 *
 * Source: Linux, clone(2), uapi/linux/sched.h, uapi/linux/rseq.h.
 */
import { type Answer, arg, type Arguments, type CallContext, int, type Service, storeOr } from './call-context.js';
import { Futexes } from './futex.js';
import { newThread, type Thread } from './thread.js';
import type { Address } from '../units.js';

const CLONE = {
  VM: 0x100n, FS: 0x200n, FILES: 0x400n, SIGHAND: 0x800n, PIDFD: 0x1000n, THREAD: 0x1_0000n, SYSVSEM: 0x4_0000n, SETTLS: 0x8_0000n,
  PARENT_SETTID: 0x10_0000n, CHILD_CLEARTID: 0x20_0000n, DETACHED: 0x40_0000n, CHILD_SETTID: 0x100_0000n,
} as const; // prettier-ignore
/** What is one for the threads of a process. */
const SHARED = CLONE.VM | CLONE.FS | CLONE.FILES | CLONE.SIGHAND | CLONE.THREAD;
/** All that is served of a new thread. */
const SERVED =
  SHARED | CLONE.SYSVSEM | CLONE.SETTLS | CLONE.PARENT_SETTID | CLONE.CHILD_CLEARTID | CLONE.DETACHED | CLONE.CHILD_SETTID; // prettier-ignore
/** The signal that tells the parent of a process, in the flags of `clone`. */
const CSIGNAL = 0xffn;
/** Least size of `struct clone_args`, and how much of it is known. */
const CLONE_ARGS_LEAST = 64n;
const CLONE_ARGS_BYTES = 88;
const PAGE = 4096n;
/** Most threads of a process. */
const THREADS_MOST = 1024;

export type ThreadCallName =
  | 'clone' | 'clone3' | 'exit' | 'futex' | 'get_robust_list' | 'gettid' | 'rseq' | 'sched_getaffinity' | 'sched_yield' | 'set_robust_list'
  | 'set_tid_address'; // prettier-ignore

/** What a new thread is to be. */
interface Request {
  readonly flags: bigint;
  /** 0: as in the one that makes it. */
  readonly stack: Address;
  readonly parentId: Address;
  readonly childId: Address;
  readonly tls: bigint;
}

/** What these calls need beside the process. */
export interface ThreadOptions {
  readonly context: CallContext;
  /** Of the process, and of its first thread. */
  readonly id: number;
  /** The running thread gives way to others. */
  readonly giveWay: () => void;
}

export class ThreadCalls implements Readonly<Record<ThreadCallName, Service>> {
  private readonly context: CallContext;
  private readonly futexes = new Futexes();
  private lastId: number;
  /** CPUs of threads that have ended. */
  private freeCpus: readonly number[] = [];
  /** Threads that begin when the system call is completed. */
  private births: readonly (readonly [Thread, Request])[] = [];
  /** The status that the first thread ended with, before the others. */
  private firstCode: number | null = null;

  constructor(private readonly options: ThreadOptions) {
    this.context = options.context;
    this.lastId = options.id;
  }

  save(): () => void {
    const { lastId, freeCpus, births, firstCode } = this;
    const putFutexesBack = this.futexes.save();
    return () => {
      Object.assign(this, { lastId, freeCpus, births, firstCode });
      putFutexesBack();
    };
  }

  // ------------------------------------------------------------------------------------ beginning

  clone(args: Arguments): Answer {
    const { wordBytes, model } = this.context;
    const flags = BigInt.asUintN(8 * wordBytes, arg(args, 0));
    const { cloneTls } = model.threads;
    const request = {
      flags: flags & ~CSIGNAL,
      stack: arg(args, 1),
      parentId: arg(args, 2),
      tls: arg(args, cloneTls),
      childId: arg(args, 7 - cloneTls),
    };
    return this.make(request);
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
    return this.make({
      flags: word(0),
      childId: word(2),
      parentId: word(3),
      stack: stack + stackBytes,
      tls: word(7),
    });
  }

  private make(request: Request): Answer {
    const { context } = this;
    const { flags } = request;
    const has = (flag: bigint): boolean => (flags & flag) !== 0n;
    if (has(CLONE.THREAD) && !has(CLONE.SIGHAND)) return 'EINVAL';
    if (has(CLONE.SIGHAND) && !has(CLONE.VM)) return 'EINVAL';
    if (!has(CLONE.THREAD)) {
      context.deviate('new-processes');
      return 'EAGAIN';
    }
    if ((flags & SHARED) !== SHARED || (flags & ~SERVED) !== 0n) {
      context.deviate('clone-flags');
      return 'EINVAL';
    }
    const { signals, machine } = context;
    if (signals.threads.length + this.births.length >= THREADS_MOST) {
      context.deviate('thread-limit');
      return 'EAGAIN';
    }
    const id = ++this.lastId;
    if (has(CLONE.PARENT_SETTID)) context.storeNumbers(request.parentId, [BigInt(id)], 4);
    if (has(CLONE.CHILD_SETTID)) context.storeNumbers(request.childId, [BigInt(id)], 4);
    const [free, ...rest] = this.freeCpus;
    this.freeCpus = rest;
    const thread = newThread(id, free ?? machine.addCpu(), signals.blocked);
    if (has(CLONE.CHILD_CLEARTID)) thread.clearAddress = request.childId;
    this.births = [...this.births, [thread, request]];
    return BigInt(id);
  }

  /** True when threads wait to begin. */
  get hasBirths(): boolean {
    return this.births.length > 0;
  }

  /** Makes the threads that the running one has made begin. */
  begin(): void {
    const { machine, signals, model, stackPointer } = this.context;
    for (const [thread, { flags, stack, tls }] of this.births) {
      const maker = machine.cpu;
      machine.copyRunning(thread.cpu);
      machine.switchTo(thread.cpu);
      this.context.answer(0n);
      if (stack !== 0n) machine.setRegister(stackPointer, stack);
      if ((flags & CLONE.SETTLS) !== 0n) machine.setRegister(model.threads.pointer, tls);
      machine.switchTo(maker);
      signals.threads = [...signals.threads, thread];
    }
    if (this.births.length > 0) this.births = [];
  }

  // --------------------------------------------------------------------------------------- ending

  /** The thread ends; with the last one the process does, with the status of the first. */
  exit(args: Arguments): Answer {
    const { context } = this;
    const { signals } = context;
    const { thread, threads } = signals;
    const code = Number(arg(args, 0) & 0xffn);
    this.futexes.ended(context, thread);
    if (thread.id === this.options.id) this.firstCode = code;
    if (threads.length === 1) return { kind: 'exit', code: this.firstCode ?? code };
    thread.isGone = true;
    signals.threads = threads.filter((each) => each !== thread);
    this.freeCpus = [...this.freeCpus, thread.cpu];
    return { kind: 'waits' };
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
    this.options.giveWay();
    return 0n;
  }

  sched_getaffinity(args: Arguments): Answer {
    const { context } = this;
    const size = BigInt(context.wordBytes);
    const [id, room] = [int(arg(args, 0)), BigInt.asUintN(32, arg(args, 1))];
    if (room < size || room % size !== 0n) return 'EINVAL';
    if (id !== 0 && !context.signals.find(id)) return 'ESRCH';
    return storeOr(context.storeNumbers(arg(args, 2), [1n]), size);
  }

  futex(args: Arguments, words: 4 | 8): Answer {
    return this.futexes.call(this.context, args, words);
  }
}
