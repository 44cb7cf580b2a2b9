/**
 * Signals of a process and its threads: what is pending and blocked, which handler runs next, the
 * stack that handlers have, timers in virtual time, and how system calls that wait end. Frames are
 * the machine's (`machine/signals.ts`), which thread runs is the scheduler's (`scheduler.ts`).
 *
 * Handlers are entered between two runs of the machine (`resume`): behind a system call, at an
 * instruction that raised a signal, and when a timer expires, which is at an exact count of
 * instructions. So the same program does the same at every run.
 */
import type { Machine } from '../emulator/machine.js';
import type { StopReason } from '../emulator/stops.js';
import { putNumber } from './files.js';
import { type Halt, type HaltNews, SIGCONT, SIGSTOP, stopsProcesses } from './halt.js';
import { newThread, NO_STACK } from './thread.js';
import type { Pending, Thread, Timer, Wait } from './thread.js';
import { CODE, SIGNAL } from '../machine/signals.js';
import type { Cause, SignalCpu, SignalModel, SignalStack, ThreadContexts } from '../machine/signals.js';
import type { Address, RegisterName } from '../units.js';

export const SIGNALS = 64;
/** From here on each signal that is sent is kept. */
const FIRST_QUEUED = 32;
/** Most signals that are kept (RLIMIT_SIGPENDING). */
const QUEUED_MOST = 4096;
const SIG_IGN = 1n;
/** Signals that do nothing unless they are caught: SIGCHLD, SIGCONT, SIGURG, SIGWINCH. */
const HARMLESS: ReadonlySet<number> = new Set([17, 18, 23, 28]);
/** Signals that instructions raise come first. */
const SYNCHRONOUS = bit(SIGNAL.SEGV) | bit(SIGNAL.BUS) | bit(SIGNAL.ILL) | bit(SIGNAL.TRAP) | bit(SIGNAL.FPE);
/** Flags of `sigaction`. Source: Linux asm-generic/signal-defs.h. */
const SA = { NOCLDSTOP: 1n, NOCLDWAIT: 2n, SIGINFO: 4n, RESTORER: 0x0400_0000n, ONSTACK: 0x0800_0000n, RESTART: 0x1000_0000n, NODEFER: 0x4000_0000n, RESETHAND: 0x8000_0000n } as const; // prettier-ignore
const SS = { ONSTACK: 1n, DISABLE: 2n, AUTODISARM: 0x8000_0000n } as const;
const INFO_BYTES = 128;
const SI_TIMER = -2;
const SIGCHLD = 17;

/** The bit of `signal` in a set of signals. */
export function bit(signal: number): bigint {
  return 1n << BigInt(signal - 1);
}
const NEVER_BLOCKED = bit(SIGNAL.KILL) | bit(SIGNAL.STOP);

/** What a handler is and when it runs. */
interface Action {
  readonly handler: Address;
  readonly flags: bigint;
  /** Null: none was given. */
  readonly restorer: Address | null;
  readonly mask: bigint;
}

/** What signals need of the process. */
export interface SignalOptions {
  readonly machine: Machine;
  readonly model: SignalModel;
  readonly wordBytes: 4 | 8;
  /** `struct sigaction` has a `sa_restorer`. */
  readonly hasRestorer: boolean;
  readonly stackPointer: RegisterName;
  readonly load: (address: Address, size: number) => Uint8Array | null;
  readonly store: (address: Address, bytes: Uint8Array) => boolean;
  /** Maps a page of code; null: there is no room. */
  readonly mapCode: (code: Uint8Array) => Address | null;
  /** A signal of a terminal may stop the process: someone could let it go on. */
  readonly mayStop: () => boolean;
  /** Tells the parent that the process has stopped, or goes on. */
  readonly changed: (change: HaltNews) => void;
  /** User and process, for `siginfo`. */
  readonly user: bigint;
  readonly process: bigint;
  /** What the wall clock showed when the run began: nanoseconds since 1970. */
  readonly date: bigint;
}

/** What becomes of a signal that is sent. */
export type Sent = 'done' | 'kills' | 'full';

export class Signals {
  /** `struct sigaction` by signal, as the program gave it. */
  private readonly actions = new Map<number, Uint8Array>();
  /** Signals that were sent to the process as a whole. */
  private shared: readonly Pending[] = [];
  /** Those that have not ended, in the order in which they were made. */
  threads: readonly Thread[];
  /** The one that the CPU executes, of which all other members speak. */
  thread: Thread;
  /** Of `setitimer`: real, virtual, profile. */
  readonly intervalTimers: readonly Timer[] = [14, 26, 27].map((signal, i) => ({
    ...newTimer(i === 0 ? 'real' : 'cpu', signal, null),
  }));
  /** Of `timer_create`. */
  readonly timers = new Map<number, Timer>();
  /** Whether the process is stopped. */
  readonly halt: Halt = { signal: null, news: null };
  /** Code that handlers return to, by whether they want `siginfo`. */
  private readonly trampolines = new Map<boolean, Address>();
  private known: { readonly machine: Machine; readonly cpu: SignalCpu } | null = null;

  constructor(private readonly options: SignalOptions) {
    this.thread = newThread(Number(options.process), options.machine.cpu);
    this.threads = [this.thread];
  }

  /** The running CPU, of the machine that the process has now. */
  private get cpu(): SignalCpu {
    const { machine, load, store } = this.options;
    if (this.known?.machine === machine) return this.known.cpu;
    const cpu: SignalCpu = {
      endian: machine.lifter.endian,
      state: machine.state,
      register: (name) => machine.register(name),
      setRegister: (name, value) => {
        machine.setRegister(name, value);
      },
      load,
      store,
    };
    this.known = { machine, cpu };
    return cpu;
  }

  /** Gives the process that begins as a copy of this one what it has of it. */
  copyTo(other: Signals): void {
    putBack(other.actions, this.actions);
    putBack(other.trampolines, this.trampolines);
    other.thread.blocked = this.thread.blocked;
    other.thread.stack = this.thread.stack;
    other.thread.sequences = this.thread.sequences;
  }

  /** What has handlers does again what it did without. */
  forgetHandlers(): void {
    for (const signal of [...this.actions.keys()]) if (this.isCaught(signal)) this.actions.delete(signal);
  }

  /** Another program begins: handlers are gone, what is ignored, blocked or pending stays. */
  exec(): void {
    this.forgetHandlers();
    this.trampolines.clear();
    this.timers.clear();
    Object.assign(this.thread, { stack: NO_STACK, robustList: 0n, sequences: null, clearAddress: 0n, savedMask: null });
  }

  /**
   * True when the signal was set to be ignored, or a process that ends leaves nothing to wait for.
   */
  discards(signal: number): boolean {
    const { handler, flags } = this.action(signal);
    return handler === SIG_IGN || (flags & SA.NOCLDWAIT) !== 0n;
  }

  /** True when SIGCHLD tells of children that stop and go on. */
  get hearsOfHalts(): boolean {
    const { handler, flags } = this.action(SIGCHLD);
    return handler !== SIG_IGN && (flags & SA.NOCLDSTOP) === 0n;
  }

  /** Sends a signal that is taken when its receiver goes on, whatever comes of it. */
  post(signal: number, info: Uint8Array, to: Thread | null = this.thread): Sent {
    const sent = this.send(signal, info, to);
    if (sent !== 'kills') return sent;
    this.keep({ signal, info, timer: null }, to);
    return 'done';
  }

  /** Remembers everything; the function that it returns puts that back. */
  save(): () => void {
    const { shared, threads, thread } = this;
    const halt = { ...this.halt };
    const each = threads.map((own) => ({ own, saved: { ...own } }));
    const actions = new Map(this.actions);
    const trampolines = new Map(this.trampolines);
    const timers = new Map(this.timers);
    const states = [...this.allTimers()].map((timer) => ({ timer, state: { ...timer } }));
    return () => {
      Object.assign(this, { shared, threads, thread });
      Object.assign(this.halt, halt);
      for (const { own, saved } of each) Object.assign(own, saved);
      for (const [own, saved] of [
        [this.actions, actions],
        [this.trampolines, trampolines],
        [this.timers, timers],
      ] as const) {
        // prettier-ignore
        putBack(own as Map<unknown, unknown>, saved);
      }
      for (const { timer, state } of states) Object.assign(timer, state);
    };
  }

  // ---------------------------------------------------------------------------------- dispositions

  /** Bytes of a `struct sigaction`. */
  get actionBytes(): number {
    return (this.options.hasRestorer ? 3 : 2) * this.options.wordBytes + 8;
  }

  actionOf(signal: number): Uint8Array {
    return this.actions.get(signal)?.slice() ?? new Uint8Array(this.actionBytes);
  }

  setAction(signal: number, action: Uint8Array): void {
    this.actions.set(signal, action);
    if (this.isIgnored(signal)) this.forget((each) => each === signal);
  }

  /** Signals that are pending are so no more. */
  private forget(isMeant: (signal: number) => boolean): void {
    const others = (list: readonly Pending[]): readonly Pending[] => list.filter(({ signal }) => !isMeant(signal));
    this.shared = others(this.shared);
    for (const each of this.threads) each.pending = others(each.pending);
  }

  private action(signal: number): Action {
    const { wordBytes, hasRestorer, machine } = this.options;
    const bytes = this.actionOf(signal);
    const word = (at: number, size: number): bigint => {
      const part = bytes.slice(at, at + size);
      if (machine.lifter.endian === 'little') part.reverse();
      return part.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
    };
    const flags = word(wordBytes, wordBytes);
    const at = (hasRestorer ? 3 : 2) * wordBytes;
    const mask = wordBytes === 8 ? word(at, 8) : word(at, 4) | (word(at + 4, 4) << 32n);
    return {
      handler: word(0, wordBytes),
      flags,
      restorer: hasRestorer && (flags & SA.RESTORER) !== 0n ? word(2 * wordBytes, wordBytes) : null,
      mask,
    };
  }

  /** True when a handler would run. */
  isCaught(signal: number): boolean {
    const { handler } = this.action(signal);
    return handler !== 0n && handler !== SIG_IGN;
  }

  /** Sets of the signals that are ignored on purpose, and of those that have handlers. */
  get dispositions(): { readonly ignored: bigint; readonly caught: bigint } {
    const set = (isMeant: (signal: number) => boolean): bigint =>
      [...this.actions.keys()].filter(isMeant).reduce((sum, signal) => sum | bit(signal), 0n);
    return {
      ignored: set((signal) => this.action(signal).handler === SIG_IGN),
      caught: set((signal) => this.isCaught(signal)),
    };
  }

  /** The running thread blocks it, or it is ignored. */
  holds(signal: number): boolean {
    return (this.thread.blocked & bit(signal)) !== 0n || this.isIgnored(signal);
  }

  private isIgnored(signal: number): boolean {
    if (signal === SIGNAL.KILL || signal === SIGNAL.STOP) return false;
    const { handler } = this.action(signal);
    return handler === SIG_IGN || (handler === 0n && HARMLESS.has(signal));
  }

  // --------------------------------------------------------------------------------------- sending

  /** `siginfo` of a signal. `fields`: numbers behind signal, errno and code: size and value. */
  info(signal: number, code: number, fields: readonly (readonly [size: number, value: bigint])[] = []): Uint8Array {
    const { wordBytes, machine } = this.options;
    const bytes = new Uint8Array(INFO_BYTES);
    const put = (at: number, size: number, value: bigint): void => {
      putNumber(bytes, at, size, BigInt.asUintN(8 * size, value), machine.lifter.endian);
    };
    put(0, 4, BigInt(signal));
    put(8, 4, BigInt(code));
    // Fields that may be pointers are aligned as such.
    let at = wordBytes === 8 ? 16 : 12;
    for (const [size, value] of fields) {
      at = Math.ceil(at / size) * size;
      put(at, size, value);
      at += size;
    }
    return bytes;
  }

  /** `siginfo` of a signal that the process sends. */
  ownInfo(signal: number, code: number): Uint8Array {
    return this.info(signal, code, [
      [4, this.options.process],
      [4, this.options.user],
    ]);
  }

  /**
   * Sends a signal to a thread, or to the process (null). `kills`: it does so at once; `full`: too
   * many are pending.
   */
  send(signal: number, info: Uint8Array, to: Thread | null = null, timer: Timer | null = null): Sent {
    this.actAtOnce(signal);
    const target = to ?? this.receiver(signal);
    const isHeld = target === null || (target.blocked & bit(signal)) !== 0n || isAccepted(target, signal);
    if (this.isIgnored(signal) && !isHeld) return 'done';
    if (!isHeld && !this.isCaught(signal) && !stopsProcesses(signal)) return 'kills';
    const pending = to?.pending ?? this.shared;
    if (signal < FIRST_QUEUED && pending.some((each) => each.signal === signal)) return 'done';
    if (this.pendingCount >= QUEUED_MOST) return 'full';
    this.keep({ signal, info, timer }, to);
    return 'done';
  }

  /**
   * What a signal does before anyone takes it, or has blocked or ignored it: SIGCONT lets a stopped
   * process go on, and SIGKILL lets it end.
   */
  private actAtOnce(signal: number): void {
    const { halt } = this;
    if (stopsProcesses(signal)) this.forget((each) => each === SIGCONT);
    if (signal === SIGCONT) this.forget(stopsProcesses);
    if (halt.signal === null || (signal !== SIGCONT && signal !== SIGNAL.KILL)) return;
    halt.signal = null;
    if (signal === SIGCONT) this.tell({ kind: 'continued' });
  }

  private tell(change: HaltNews): void {
    this.halt.news = change;
    this.options.changed(change);
  }

  private keep(pending: Pending, to: Thread | null): void {
    if (to) to.pending = [...to.pending, pending];
    else this.shared = [...this.shared, pending];
  }

  private get pendingCount(): number {
    return this.threads.reduce((sum, each) => sum + each.pending.length, this.shared.length);
  }

  /** The thread with this id; null: there is none. */
  find(id: number): Thread | null {
    return this.threads.find((each) => each.id === id) ?? null;
  }

  /** The signal would interrupt the thread now. */
  private wants(thread: Thread, signal: number): boolean {
    return (thread.blocked & bit(signal)) === 0n || isAccepted(thread, signal);
  }

  /** The thread that takes a signal of the process; null: all have blocked it. */
  private receiver(signal: number): Thread | null {
    return this.threads.find((each) => this.wants(each, signal)) ?? null;
  }

  /** What a thread may take, in the order of Linux: its own first. */
  private pendingOf(thread: Thread): readonly Pending[] {
    if (this.shared.length === 0) return thread.pending;
    const shared = this.shared.filter(({ signal }) => {
      const receiver = this.threads.length === 1 ? thread : this.receiver(signal);
      return receiver === null || receiver === thread;
    });
    return [...thread.pending, ...shared];
  }

  /** Signals that a descriptor of them may have; those of one thread only where there is one. */
  get readableSet(): bigint {
    const own = this.threads.length === 1 ? this.thread.pending : [];
    return [...own, ...this.shared].reduce((set, { signal }) => set | bit(signal), 0n);
  }

  /** The set of signals that are pending. */
  get pendingSet(): bigint {
    return [...this.thread.pending, ...this.shared].reduce((set, { signal }) => set | bit(signal), 0n);
  }

  /** The pending signal that the thread takes next, if it ends the process; null: it does not. */
  get fatal(): number | null {
    const next = this.next(~this.thread.blocked);
    return next !== null && this.kills(next.signal) ? next.signal : null;
  }

  /** The signal ends the process that takes it. */
  private kills(signal: number): boolean {
    return !this.isCaught(signal) && !this.isIgnored(signal) && !stopsProcesses(signal);
  }

  /** The pending signal of a set that the running thread takes first; null: none is. */
  private next(set: bigint, isMeant: (signal: number) => boolean = () => true): Pending | null {
    const { thread } = this;
    const meant = (list: readonly Pending[]): readonly Pending[] => list.filter(({ signal }) => isMeant(signal));
    return firstOf(meant(thread.pending), set) ?? firstOf(meant(this.pendingOf(thread)), set);
  }

  /** Takes the next pending signal of a set; null: none is. */
  take(set: bigint): { readonly signal: number; readonly info: Uint8Array } | null {
    const { thread } = this;
    const found = this.next(set);
    if (found === null) return null;
    thread.pending = thread.pending.filter((each) => each !== found);
    this.shared = this.shared.filter((each) => each !== found);
    const { timer } = found;
    if (timer) {
      timer.overrun = timer.missed;
      timer.missed = 0n;
      const at = this.options.wordBytes === 8 ? 20 : 16;
      const most = timer.overrun > 0x7fff_ffffn ? 0x7fff_ffffn : timer.overrun;
      if (timer.info) putNumber(found.info, at, 4, most, this.cpu.endian);
    }
    return found;
  }

  // ---------------------------------------------------------------------------------------- timers

  private *allTimers(): Generator<Timer> {
    yield* this.intervalTimers;
    yield* this.timers.values();
  }

  /** What the clock of a timer shows. */
  clock({ clock }: Pick<Timer, 'clock'>): bigint {
    const { machine, date } = this.options;
    if (clock === 'cpu') return BigInt(machine.totalInstructions);
    return clock === 'wall' ? date + machine.time : machine.time;
  }

  /** Sends the signals of timers that have expired. */
  fire(): void {
    for (const timer of this.allTimers()) {
      const { expiry, interval } = timer;
      const past = expiry === null ? -1n : this.clock(timer) - expiry;
      if (expiry === null || past < 0n) continue;
      const times = interval === 0n ? 1n : 1n + past / interval;
      timer.expiry = interval === 0n ? null : expiry + times * interval;
      if (timer.signal === 0) continue;
      if (this.isPending(timer)) {
        timer.missed += times;
        continue;
      }
      timer.missed = times - 1n;
      const info = timer.info?.slice() ?? this.info(timer.signal, CODE.SI_KERNEL);
      const to = timer.thread === null ? null : this.find(timer.thread);
      const sent = this.send(timer.signal, info, to, timer);
      if (sent === 'kills') this.keep({ signal: timer.signal, info, timer }, to);
    }
  }

  private isPending(timer: Timer): boolean {
    const isOf = (each: Pending): boolean => each.timer === timer;
    return this.shared.some(isOf) || this.threads.some(({ pending }) => pending.some(isOf));
  }

  /** A timer whose expiry changes what the program does. */
  private matters(timer: Timer): boolean {
    if (timer.expiry === null || timer.signal === 0 || this.isPending(timer)) return false;
    return !this.isIgnored(timer.signal) || this.receiver(timer.signal) === null;
  }

  /** Ticks until a timer expires; null: none will. `idle`: nothing is executed meanwhile. */
  ticks(idle = false): bigint | null {
    let next: bigint | null = null;
    for (const timer of this.allTimers()) {
      if (!this.matters(timer) || (idle && timer.clock === 'cpu')) continue;
      const left = timer.expiry! - this.clock(timer);
      if (next === null || left < next) next = left < 0n ? 0n : left;
    }
    return next;
  }

  // -------------------------------------------------------------------------------------- delivery

  /** True when something is to be done before the program goes on. */
  get hasWork(): boolean {
    const { thread, shared } = this;
    if (thread.waiting !== null || this.ticks() !== null) return true;
    return thread.pending.length + shared.length > 0 && (this.pendingSet & ~this.thread.blocked) !== 0n;
  }

  /** True when the thread runs, or what it waits for is there, and its process is not stopped. */
  canGoOn(thread: Thread): boolean {
    const { waiting } = thread;
    if (this.halt.signal !== null) return false;
    if (waiting === null || waiting.ready?.() === true) return true;
    if (waiting.deadline !== null && waiting.deadline <= this.options.machine.time) return true;
    return this.pendingOf(thread).some(({ signal }) => (waiting.accepts & bit(signal)) !== 0n || this.breaks(thread, signal, waiting)); // prettier-ignore
  }

  /** A pending signal that ends what the thread waits for. */
  private breaks(thread: Thread, signal: number, wait: Wait): boolean {
    if (wait.isFirm && !this.kills(signal)) return false;
    return (thread.blocked & bit(signal)) === 0n && !this.isIgnored(signal);
  }

  /**
   * Brings the thread, which can go on, to where it does: the answer of its system call, handlers;
   * or a signal stops the process. A stop: a signal ends it.
   */
  resume(): StopReason | null {
    const { waiting } = this.thread;
    if (waiting !== null) {
      if (this.halts(waiting)) return null;
      this.thread.waiting = null;
      waiting.over?.();
      this.finish(waiting);
      if (this.thread.waiting !== null) return null;
    }
    return this.deliverAll();
  }

  /** The answer of a system call whose wait is over. */
  private finish(wait: Wait): void {
    const { thread } = this;
    if (wait.ready?.() === true) {
      if (wait.mask !== null) thread.blocked = wait.mask;
      wait.woken();
      return;
    }
    const accepted = this.take(wait.accepts);
    if (accepted) {
      wait.accepted(accepted.signal, accepted.info);
      return;
    }
    const breaking = this.next(~0n, (signal) => this.breaks(thread, signal, wait));
    if (breaking) {
      const restarts = wait.restart !== null && (this.action(breaking.signal).flags & SA.RESTART) !== 0n;
      if (restarts) wait.restart?.();
      else wait.interrupted();
      thread.savedMask = wait.mask;
      return;
    }
    if (wait.mask !== null) thread.blocked = wait.mask;
    wait.expired();
  }

  /**
   * The next signal that interrupts the wait, or null that the thread takes, stops the process. The
   * wait goes on when the process does, except for system calls that a stop interrupts.
   */
  private halts(wait: Wait | null): boolean {
    if (wait?.isFirm === true) return false;
    const set = ~this.thread.blocked & ~(wait?.accepts ?? 0n);
    for (;;) {
      const signal = this.next(set, (each) => !this.isIgnored(each))?.signal;
      if (signal === undefined || !stopsProcesses(signal) || this.isCaught(signal)) return false;
      this.take(bit(signal));
      if (signal !== SIGSTOP && !this.options.mayStop()) continue;
      if (this.isPendingAnywhere(SIGNAL.KILL)) return false;
      for (const thread of this.threads) thread.waiting &&= interruptedByStop(thread.waiting);
      this.halt.signal = signal;
      this.tell({ kind: 'stopped', signal });
      return true;
    }
  }

  private isPendingAnywhere(signal: number): boolean {
    const lists = [this.shared, ...this.threads.map(({ pending }) => pending)];
    return lists.some((list) => list.some((each) => each.signal === signal));
  }

  /** Enters the handlers of all pending signals; one that stops the process is the last for now. */
  private deliverAll(): StopReason | null {
    for (;;) {
      if (this.halts(null)) return null;
      const { fatal } = this;
      if (fatal !== null) return this.end(fatal);
      const next = this.take(~this.thread.blocked);
      if (!next) break;
      if (this.isIgnored(next.signal)) continue;
      const mask = this.thread.savedMask ?? this.thread.blocked;
      this.thread.savedMask = null;
      if (!this.enter(next.signal, next.info, null, mask)) return this.end(SIGNAL.SEGV);
    }
    if (this.thread.savedMask !== null) this.thread.blocked = this.thread.savedMask;
    this.thread.savedMask = null;
    return null;
  }

  private end(signal: number): StopReason {
    return { kind: 'signal', signal, instruction: this.options.machine.pc };
  }

  /** What the machine calls what an instruction raised. */
  causeOf(raised: Parameters<SignalModel['cause']>[1]): Cause {
    return this.options.model.cause(this.cpu, raised);
  }

  /**
   * An instruction raised a signal: enters its handler. False: it has none, or may not have it now,
   * and the signal ends the process.
   */
  raised(cause: Cause): boolean {
    const { signal, code, address, skip } = cause;
    if ((this.thread.blocked & bit(signal)) !== 0n || !this.isCaught(signal)) return false;
    const { machine, wordBytes } = this.options;
    const info = this.info(signal, code, [[wordBytes, address]]);
    const { pc } = machine;
    if (skip !== undefined) machine.setRegister('pc', pc + BigInt(skip));
    if (this.enter(signal, info, cause, this.thread.blocked)) return true;
    machine.setRegister('pc', pc);
    return false;
  }

  private isOnStack(sp: Address): boolean {
    const { pointer, size, flags } = this.thread.stack;
    return (flags & SS.AUTODISARM) === 0n && sp > pointer && sp - pointer <= size;
  }

  /** Enters a handler; false: there is no room for its frame, nor for that of SIGSEGV. */
  private enter(signal: number, info: Uint8Array, cause: Cause | null, mask: bigint): boolean {
    if (this.tryEnter(signal, info, cause, mask)) return true;
    if (signal === SIGNAL.SEGV || !this.isCaught(SIGNAL.SEGV) || (this.thread.blocked & bit(SIGNAL.SEGV)) !== 0n)
      return false;
    return this.tryEnter(SIGNAL.SEGV, this.info(SIGNAL.SEGV, CODE.SI_KERNEL), null, mask);
  }

  private tryEnter(signal: number, info: Uint8Array, cause: Cause | null, mask: bigint): boolean {
    const { machine, model, stackPointer } = this.options;
    const { handler, flags, restorer, mask: more } = this.action(signal);
    const wantsInfo = (flags & SA.SIGINFO) !== 0n;
    const returnTo = model.trampoline === null ? restorer : this.trampoline(wantsInfo, restorer);
    if (returnTo === null) return false;
    const sp = machine.register(stackPointer);
    const { pointer, size } = this.thread.stack;
    const isOn = this.isOnStack(sp);
    const switched = (flags & SA.ONSTACK) !== 0n && size !== 0n && !isOn;
    const delivery = {
      signal, handler, wantsInfo, returnTo, info, mask, cause, switched, stack: this.thread.stack,
      top: switched ? pointer + size : sp,
      guarded: machine.memory.windowAt(handler)?.guarded === true,
    }; // prettier-ignore
    const registers = machine.saveRegisters();
    const frame = model.enter(this.cpu, delivery);
    if (frame === null || (isOn && frame <= pointer)) {
      registers();
      return false;
    }
    if ((flags & SA.RESETHAND) !== 0n) this.actions.delete(signal);
    if ((this.thread.stack.flags & SS.AUTODISARM) !== 0n) this.thread.stack = NO_STACK;
    this.thread.blocked |= (more | ((flags & SA.NODEFER) !== 0n ? 0n : bit(signal))) & ~NEVER_BLOCKED;
    return true;
  }

  /** Code that a handler returns to; null: there is no room for it. */
  private trampoline(wantsInfo: boolean, restorer: Address | null): Address | null {
    const { model, mapCode, wordBytes } = this.options;
    if (model.usesRestorer === true && restorer !== null) return restorer;
    const key = wordBytes === 8 || wantsInfo;
    const known = this.trampolines.get(key);
    if (known !== undefined) return known;
    const made = mapCode(model.trampoline!(key));
    if (made !== null) this.trampolines.set(key, made);
    return made;
  }

  /** A handler has returned; false: its frame makes no sense, and SIGSEGV is raised. */
  leave(isOld: boolean): boolean {
    const { model } = this.options;
    const restored = isOld ? model.leaveOld?.(this.cpu) : model.leave(this.cpu);
    if (!restored) return this.raised({ signal: SIGNAL.SEGV, code: CODE.SI_KERNEL, address: 0n });
    this.thread.blocked = restored.mask & ~NEVER_BLOCKED;
    if (restored.stack) this.setStack(restored.stack);
    return true;
  }

  /** Keeps what the thread is in a `ucontext`; false: it cannot be written. */
  saveContext(contexts: ThreadContexts, at: Address): boolean {
    return contexts.save(this.cpu, at, this.thread.blocked);
  }

  /** Goes on as one says; false: it cannot be read. */
  takeContext(contexts: ThreadContexts, at: Address): boolean {
    const restored = contexts.take(this.cpu, at);
    if (restored) this.setMask(restored.mask);
    return restored !== null;
  }

  /** What the thread has blocked. */
  get blocked(): bigint {
    return this.thread.blocked;
  }

  setMask(mask: bigint): void {
    this.thread.blocked = mask & ~NEVER_BLOCKED;
  }

  /** The stack for handlers as `sigaltstack` shows it. */
  get shownStack(): SignalStack {
    const { pointer, flags, size } = this.thread.stack;
    const sp = this.options.machine.register(this.options.stackPointer);
    const mode = size === 0n ? SS.DISABLE : this.isOnStack(sp) ? SS.ONSTACK : 0n;
    return { pointer, size, flags: mode | (flags & SS.AUTODISARM) };
  }

  /** Sets the stack for handlers; null: it is done. */
  setStack({ pointer, flags, size }: SignalStack): 'EPERM' | 'EINVAL' | 'ENOMEM' | null {
    if (this.isOnStack(this.options.machine.register(this.options.stackPointer))) return 'EPERM';
    const mode = flags & ~SS.AUTODISARM;
    if (mode > SS.DISABLE) return 'EINVAL';
    if (mode === SS.DISABLE) {
      this.thread.stack = { pointer: 0n, flags, size: 0n };
      return null;
    }
    if (size < BigInt(this.options.model.leastStackBytes)) return 'ENOMEM';
    this.thread.stack = { pointer, flags: flags & SS.AUTODISARM, size };
    return null;
  }

  /** `siginfo` that a timer's signal has. */
  timerInfo(signal: number, id: number, value: bigint): Uint8Array {
    return this.info(signal, SI_TIMER, [
      [4, BigInt(id)],
      [4, 0n],
      [this.options.wordBytes, value],
    ]);
  }
}

export function newTimer(
  clock: Timer['clock'],
  signal: number,
  info: Uint8Array | null,
  thread: number | null = null,
): Timer {
  return { clock, signal, info, thread, expiry: null, interval: 0n, missed: 0n, overrun: 0n };
}

/** The thread waits for this signal, blocked or not. */
function isAccepted({ waiting }: Thread, signal: number): boolean {
  return waiting !== null && (waiting.accepts & bit(signal)) !== 0n;
}

/** What becomes of a wait when the process stops: some system calls are over when it goes on. */
function interruptedByStop(wait: Wait): Wait {
  return wait.endsByStop && wait.ready?.() !== true ? { ...wait, ready: () => true, woken: wait.interrupted } : wait;
}

/** The pending signal of a set that is taken first: what instructions raised, then by number. */
function firstOf(list: readonly Pending[], set: bigint): Pending | null {
  const rank = ({ signal }: Pending): number => ((SYNCHRONOUS & bit(signal)) === 0n ? signal : signal - SIGNALS);
  let found: Pending | null = null;
  for (const each of list) {
    if ((set & bit(each.signal)) !== 0n && (found === null || rank(each) < rank(found))) found = each;
  }
  return found;
}

function putBack<K, V>(own: Map<K, V>, saved: ReadonlyMap<K, V>): void {
  own.clear();
  for (const [key, value] of saved) own.set(key, value);
}
