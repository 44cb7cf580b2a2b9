/**
 * System calls about time: clocks, sleeping, interval timers and POSIX timers. Time is the number
 * of instructions, and passes at once where a process has nothing else to do.
 *
 * Source: Linux, clock_gettime(2), clock_nanosleep(2), getitimer(2), timer_create(2).
 */
import type { Address } from '../units.js';
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import { deadlineOf, loadTime, NANOSECONDS, storeTime } from './guest-times.js';
import type { KnownProcess } from './processes.js';
import { newTimer, SIGNALS } from './signals.js';
import type { Timer } from './thread.js';

// prettier-ignore
export type TimeCallName =
  | 'adjtimex' | 'alarm' | 'clock_adjtime' | 'clock_getres' | 'clock_gettime' | 'clock_settime'
  | 'clock_nanosleep' | 'getitimer'
  | 'gettimeofday' | 'nanosleep' | 'setitimer' | 'settimeofday' | 'time' | 'timer_create'
  | 'timer_delete' | 'timer_getoverrun' | 'timer_gettime' | 'timer_settime';

/**
 * Clocks that `clock_gettime` knows; those of the CPU's time, and those that move by ticks. Source:
 * Linux uapi/linux/time.h.
 */
const CLOCKS: ReadonlySet<number> = new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
const [PROCESS_CLOCK, THREAD_CLOCK, RAW_CLOCK] = [2, 3, 4];
/** Those that show the date: REALTIME, coarse and waking too, and TAI, without an offset. */
const WALL_CLOCKS: ReadonlySet<number> = new Set([0, 5, 8, 11]);
const COARSE_CLOCKS: ReadonlySet<number> = new Set([5, 6]);
/** Nanoseconds of a tick: 250 a second. */
const COARSE_TICK = 4_000_000n;
const MICROSECOND = 1000n;
/** Modes of `struct timex`: as `adjtime` asks, of which one only reads. */
const ADJUST = { OFFSET: 1, READ: 0x2000, AS_ADJTIME: 0x8000 } as const;
/**
 * A clock that nothing steers, in the words of `struct timex`, and its bytes: what is not named is
 * 0. Source: Linux uapi/linux/timex.h, kernel/time/ntp.c.
 */
const TIMEX = {
  words: { maxError: 3, error: 4, status: 5, constant: 6, precision: 7, tolerance: 8, seconds: 9, rest: 10, tick: 11 },
  bytes: { 4: 128, 8: 208 },
  unsteered: {
    maxError: 16_000_000n,
    error: 16_000_000n,
    constant: 2n,
    precision: 1n,
    tolerance: 32_768_000n,
    tick: 10_000n,
  },
  unsynchronised: 0x40n,
  answer: 5n,
} as const;
/** Most timers of a process. */
const TIMERS_MOST = 1024;

export class TimeCalls implements Readonly<Record<TimeCallName, Service>> {
  /** Number of the next timer of `timer_create`. */
  private timerCount = 0;

  constructor(private readonly context: KnownProcess) {}

  /** Remembers the state; the function that it returns puts that back. */
  save(): () => void {
    const { timerCount } = this;
    return () => {
      this.timerCount = timerCount;
    };
  }

  /** What the wall clock shows. */
  private get now(): bigint {
    return this.context.date + this.context.machine.time;
  }

  time(args: Arguments): Answer {
    const seconds = this.now / NANOSECONDS;
    return arg(args, 0) === 0n ? seconds : storeOr(this.context.storeNumbers(arg(args, 0), [seconds]), seconds);
  }

  gettimeofday(args: Arguments): Answer {
    const time = this.now;
    if (arg(args, 1) !== 0n && !this.context.storeNumbers(arg(args, 1), [0n, 0n], 4)) return 'EFAULT';
    if (arg(args, 0) === 0n) return 0n;
    return storeOr(this.context.storeNumbers(arg(args, 0), [time / NANOSECONDS, (time % NANOSECONDS) / 1000n]));
  }

  /** What the clock shows; null: there is no such clock. */
  private clock(id: number): bigint | null {
    if (id < 0) {
      // Of a process, a thread or a device: the number, inverted, above three bits. There is no
      // device of which a descriptor would be a clock.
      const number = ~(id >> 3);
      if ((id & 3) === 3) return null;
      return (id & 4) === 0 ? this.processTime(number) : this.threadTime(number);
    }
    if (!CLOCKS.has(id)) return null;
    if (id === PROCESS_CLOCK) return this.processTime(0);
    if (id === THREAD_CLOCK) return this.threadTime(0);
    const now = WALL_CLOCKS.has(id) ? this.now : this.context.machine.time;
    return COARSE_CLOCKS.has(id) ? now - (now % COARSE_TICK) : now;
  }

  /** What a process has executed; 0: the running one; null: there is none with that id. */
  private processTime(id: number): bigint | null {
    const { world, machine } = this.context;
    if (id === 0) return BigInt(machine.totalInstructions);
    const zombie = world.zombies.find((each) => each.id === id);
    if (zombie) return zombie.instructions;
    const process = world.guests.find((each) => each.identity.id === id);
    return process ? BigInt(process.machine.totalInstructions) : null;
  }

  /** The same of a thread of this process. */
  private threadTime(id: number): bigint | null {
    const { machine, signals } = this.context;
    const thread = id === 0 ? signals.thread : signals.find(id);
    if (!thread) return null;
    const own = machine.cpu;
    machine.switchTo(thread.cpu);
    const executed = machine.instructions - thread.startedAt;
    machine.switchTo(own);
    return BigInt(executed);
  }

  clock_gettime(args: Arguments, words: 4 | 8): Answer {
    const time = this.clock(int(arg(args, 0)));
    if (time === null) return 'EINVAL';
    return arg(args, 1) === 0n ? 'EFAULT' : storeOr(storeTime(this.context, arg(args, 1), time, words));
  }

  /** A user with rights may set the clock that shows the date; the others are not set at all. */
  clock_settime(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    const time = loadTime(this.context, arg(args, 1), words);
    if (id !== 0 && (id >= 0 || this.clock(id) === null)) return 'EINVAL';
    if (!time) return 'EFAULT';
    const [seconds, rest] = time;
    return id === 0 && (seconds < 0n || rest < 0n || rest >= NANOSECONDS) ? 'EINVAL' : 'EPERM';
  }

  adjtimex(args: Arguments, words: 4 | 8): Answer {
    return this.adjusted(arg(args, 0), words, null);
  }

  clock_adjtime(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    const isKnown = id < 0 ? this.clock(id) !== null : CLOCKS.has(id);
    return this.adjusted(arg(args, 1), words, id === 0 ? null : isKnown ? 'EOPNOTSUPP' : 'EINVAL');
  }

  /** Tells of the clock, which is not the program's to set. `refusal`: that of another clock. */
  private adjusted(place: Address, words: 4 | 8, refusal: Errno | null): Answer {
    const { context } = this;
    const bytes = context.load(place, TIMEX.bytes[words]);
    const modes = context.loadNumber(place, 4);
    if (!bytes || modes === null) return 'EFAULT';
    if (refusal !== null) return refusal;
    const asked = Number(modes);
    if ((asked & ADJUST.AS_ADJTIME) === 0) {
      if (asked !== 0) return 'EPERM';
    } else if ((asked & ADJUST.OFFSET) === 0) return 'EINVAL';
    else if ((asked & ADJUST.READ) === 0) return 'EPERM';
    const now = this.now;
    const values = { ...TIMEX.unsteered, seconds: now / NANOSECONDS, rest: (now % NANOSECONDS) / MICROSECOND };
    const out = new Uint8Array(TIMEX.bytes[words]);
    putNumber(out, 0, 4, modes, context.endian);
    putNumber(out, TIMEX.words.status * words, 4, TIMEX.unsynchronised, context.endian);
    for (const [name, value] of Object.entries(values) as [keyof typeof values, bigint][])
      putNumber(out, TIMEX.words[name] * words, words, value, context.endian);
    return storeOr(context.store(place, out), TIMEX.answer);
  }

  settimeofday(args: Arguments): Answer {
    const [address, zone] = [arg(args, 0), arg(args, 1)];
    const time = address === 0n ? null : loadTime(this.context, address, this.context.wordBytes);
    if (address !== 0n && !time) return 'EFAULT';
    if (time && (time[1] < 0n || time[1] >= NANOSECONDS / MICROSECOND || time[0] < 0n)) return 'EINVAL';
    return zone === 0n || this.context.load(zone, 8) ? 'EPERM' : 'EFAULT';
  }

  clock_getres(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    if (this.clock(id) === null) return 'EINVAL';
    return storeOr(storeTime(this.context, arg(args, 1), COARSE_CLOCKS.has(id) ? COARSE_TICK : 1n, words));
  }

  /**
   * Time passes at once, unless a timer expires before. `origin`: as `deadlineOf` takes it. `rest`:
   * where what is left of a time from now on is stored.
   */
  private sleep(address: Address, size: number, origin: bigint | null, rest: Address): Answer {
    const deadline = deadlineOf(this.context, address, size, origin);
    if (typeof deadline === 'string') return deadline;
    if (deadline <= this.context.machine.time) return 0n;
    return this.context.waitFor({
      deadline,
      expired: () => {
        this.context.answer(0n);
      },
      interrupted: () => {
        const left = deadline - this.context.machine.time;
        const stored = origin !== null || rest === 0n || storeTime(this.context, rest, left > 0n ? left : 0n, size);
        this.context.answer(stored ? 'EINTR' : 'EFAULT');
      },
    });
  }

  nanosleep(args: Arguments): Answer {
    return this.sleep(arg(args, 0), this.context.wordBytes, null, arg(args, 1));
  }

  clock_nanosleep(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    if (this.clock(id) === null) return 'EINVAL';
    if (COARSE_CLOCKS.has(id) || id === THREAD_CLOCK || id === RAW_CLOCK) return 'EOPNOTSUPP';
    if (id === PROCESS_CLOCK || id < 0) {
      this.context.deviate('other-clocks');
      return 'EINVAL';
    }
    const isAbsolute = (arg(args, 1) & 1n) !== 0n;
    const origin = WALL_CLOCKS.has(id) ? this.context.date : 0n;
    return this.sleep(arg(args, 2), words, isAbsolute ? origin : null, arg(args, 3));
  }

  /** Interval and time that is left, in units of `unit` nanoseconds. */
  private timeLeft(timer: Timer, unit: bigint): readonly bigint[] {
    const { expiry, interval } = timer;
    const left = expiry === null ? 0n : expiry - this.context.signals.clock(timer);
    // A timer that is set and has nothing left expires at once.
    const shown = expiry !== null && left <= 0n ? 1n : left;
    return [interval, shown].flatMap((each) => [each / NANOSECONDS, (each % NANOSECONDS) / unit]);
  }

  /** Interval and first time of a timer at an address; an error where they are none. */
  private timesOf(address: Address, size: number, unit: bigint): readonly [bigint, bigint] | Errno {
    const times = [0n, 1n].map((i) => loadTime(this.context, address + i * BigInt(2 * size), size));
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
    const timer = this.context.signals.intervalTimers[int(arg(args, 0))];
    return timer ? storeOr(this.context.storeNumbers(arg(args, 1), this.timeLeft(timer, MICROSECOND))) : 'EINVAL';
  }

  setitimer(args: Arguments): Answer {
    const timer = this.context.signals.intervalTimers[int(arg(args, 0))];
    const [next, old] = [arg(args, 1), arg(args, 2)];
    const times = next === 0n ? ([0n, 0n] as const) : this.timesOf(next, this.context.wordBytes, MICROSECOND);
    if (typeof times === 'string') return times;
    if (!timer) return 'EINVAL';
    const before = this.timeLeft(timer, MICROSECOND);
    const [interval, first] = times;
    timer.interval = interval;
    timer.expiry = first === 0n ? null : this.context.signals.clock(timer) + first;
    return old === 0n ? 0n : storeOr(this.context.storeNumbers(old, before));
  }

  alarm(args: Arguments): Answer {
    const timer = this.context.signals.intervalTimers[0]!;
    const [, , seconds, rest] = this.timeLeft(timer, MICROSECOND);
    const wanted = BigInt.asUintN(32, arg(args, 0)) * NANOSECONDS;
    timer.interval = 0n;
    timer.expiry = wanted === 0n ? null : this.context.machine.time + wanted;
    // Rounded as Linux does: never to no time at all.
    const isUp = (seconds === 0n && rest! > 0n) || rest! >= 500_000n;
    return seconds! + (isUp ? 1n : 0n);
  }

  timer_create(args: Arguments): Answer {
    const [id, event, place] = [int(arg(args, 0)), arg(args, 1), arg(args, 2)];
    const word = this.context.wordBytes;
    if (!CLOCKS.has(id) || COARSE_CLOCKS.has(id) || id === 4) {
      if (id < 0) this.context.deviate('other-clocks');
      return 'EINVAL';
    }
    const { timers } = this.context.signals;
    if (timers.size >= TIMERS_MOST) return 'EAGAIN';
    const number = this.timerCount;
    let [value, signal, notify] = [BigInt(number), 14, 0];
    let thread: number | null = null;
    if (event !== 0n) {
      const loaded = this.context.loadNumber(event);
      const numbers = [0n, 4n, 8n].map((at) => this.context.loadNumber(event + BigInt(word) + at, 4));
      if (loaded === null || numbers.includes(null)) return 'EFAULT';
      [value, signal, notify] = [loaded, int(numbers[0]!), int(numbers[1]!)];
      if (notify === 4) thread = int(numbers[2]!);
      // SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD_ID.
      const isKnown = notify === 0 || notify === 1 || (thread !== null && this.context.signals.find(thread) !== null);
      if (!isKnown || (notify !== 1 && (signal < 1 || signal > SIGNALS))) return 'EINVAL';
    }
    if (!this.context.storeNumbers(place, [BigInt(number)], 4)) return 'EFAULT';
    const sends = notify === 1 ? 0 : signal;
    const info = sends === 0 ? null : this.context.signals.timerInfo(sends, number, value);
    timers.set(
      number,
      newTimer(
        id === PROCESS_CLOCK || id === THREAD_CLOCK ? 'cpu' : WALL_CLOCKS.has(id) ? 'wall' : 'real',
        sends,
        info,
        thread,
      ),
    );
    this.timerCount++;
    return 0n;
  }

  private timer(args: Arguments): Timer | undefined {
    return this.context.signals.timers.get(int(arg(args, 0)));
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
    timer.expiry = first === 0n ? null : isAbsolute ? first : this.context.signals.clock(timer) + first;
    return old === 0n ? 0n : storeOr(this.context.storeNumbers(old, before, words));
  }

  timer_gettime(args: Arguments, words: 4 | 8): Answer {
    const timer = this.timer(args);
    return timer ? storeOr(this.context.storeNumbers(arg(args, 1), this.timeLeft(timer, 1n), words)) : 'EINVAL';
  }

  timer_getoverrun(args: Arguments): Answer {
    const timer = this.timer(args);
    if (!timer) return 'EINVAL';
    return timer.overrun > 0x7fff_ffffn ? 0x7fff_ffffn : timer.overrun;
  }

  timer_delete(args: Arguments): Answer {
    return this.context.signals.timers.delete(int(arg(args, 0))) ? 0n : 'EINVAL';
  }
}
