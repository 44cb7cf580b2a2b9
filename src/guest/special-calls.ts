/**
 * System calls that make descriptors of timers, signals, processes and memory.
 *
 * Source: Linux, timerfd_create(2), signalfd(2), pidfd_open(2), pidfd_getfd(2), memfd_create(2).
 */
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import { DirectoryDescription, FileDescription, O } from './descriptions.js';
import type { Errno } from './errno.js';
import { loadTime, NANOSECONDS, storeTime } from './guest-times.js';
import { MemoryFile } from './memory-file.js';
import type { KnownProcess } from './processes.js';
import type { SignalCalls } from './signal-calls.js';
import { bit } from './signals.js';
import { ProcessDescription, SignalDescription, TimerDescription } from './special-descriptions.js';
import { SIGNAL } from '../machine/signals.js';
import type { Address } from '../units.js';
import { textOf } from '../bytes.js';

// prettier-ignore
export type SpecialCallName =
  | 'memfd_create' | 'pidfd_getfd' | 'pidfd_open' | 'pidfd_send_signal' | 'signalfd' | 'signalfd4' | 'timerfd_create' | 'timerfd_gettime'
  | 'timerfd_settime';

const REALTIME = 0;
/** REALTIME, MONOTONIC, BOOTTIME; those behind wake a machine that sleeps. */
const CLOCKS: ReadonlySet<number> = new Set([REALTIME, 1, 7]);
const WAKING_CLOCKS: ReadonlySet<number> = new Set([8, 9]);
/** Flags of `timerfd_settime`. */
const TFD = { ABSTIME: 1, CANCEL_ON_SET: 2 } as const;
const MFD = { CLOEXEC: 1, ALLOW_SEALING: 2, HUGETLB: 4 } as const;
/** Longest name of memory. */
const NAME_MOST = 249;

export class SpecialCalls implements Readonly<Record<SpecialCallName, Service>> {
  constructor(
    private readonly context: KnownProcess,
    private readonly signalCalls: SignalCalls,
  ) {}

  // ---------------------------------------------------------------------------------------- timers

  timerfd_create(args: Arguments): Answer {
    const { context } = this;
    const { network } = context;
    const [clock, flags] = [int(arg(args, 0)), int(arg(args, 1))];
    if ((flags & ~(O.NONBLOCK | O.CLOEXEC)) !== 0) return 'EINVAL';
    if (WAKING_CLOCKS.has(clock)) return 'EPERM';
    if (!CLOCKS.has(clock)) return 'EINVAL';
    if (!context.descriptors.hasRoom(1)) return 'EMFILE';
    const timer = new TimerDescription(
      flags & O.NONBLOCK,
      context.nextInode(),
      context.endian,
      () => context.world.time,
      clock === REALTIME ? context.date : 0n,
      (each) => {
        network.removeAlarm(each);
      },
    );
    network.addAlarm(timer);
    return BigInt(context.descriptors.add(timer, (flags & O.CLOEXEC) !== 0));
  }

  private timerAt(number: number): TimerDescription | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    return description instanceof TimerDescription ? description : 'EINVAL';
  }

  private storeTimer(timer: TimerDescription, address: Address, words: 4 | 8): boolean {
    const { left, interval } = timer;
    return storeTime(this.context, address, interval, words) && storeTime(this.context, address + BigInt(2 * words), left, words); // prettier-ignore
  }

  timerfd_settime(args: Arguments, words: 4 | 8): Answer {
    const { context } = this;
    const [flags, next, old] = [int(arg(args, 1)), arg(args, 2), arg(args, 3)];
    const times = [0n, 1n].map((i) => loadTime(context, next + i * BigInt(2 * words), words));
    const values: bigint[] = [];
    for (const time of times) {
      if (time === null) return 'EFAULT';
      const [seconds, rest] = time;
      if (seconds < 0n || rest < 0n || rest >= NANOSECONDS) return 'EINVAL';
      values.push(seconds * NANOSECONDS + rest);
    }
    if ((flags & ~(TFD.ABSTIME | TFD.CANCEL_ON_SET)) !== 0) return 'EINVAL';
    const timer = this.timerAt(int(arg(args, 0)));
    if (typeof timer === 'string') return timer;
    const [interval, first] = values as [bigint, bigint];
    const { left, interval: before } = timer;
    const from = (flags & TFD.ABSTIME) !== 0 ? -timer.origin : context.machine.time;
    timer.set(first === 0n ? null : from + first, interval);
    if (old === 0n) return 0n;
    const isStored = storeTime(context, old, before, words) && storeTime(context, old + BigInt(2 * words), left, words);
    return isStored ? 0n : 'EFAULT';
  }

  timerfd_gettime(args: Arguments, words: 4 | 8): Answer {
    const timer = this.timerAt(int(arg(args, 0)));
    return typeof timer === 'string' ? timer : storeOr(this.storeTimer(timer, arg(args, 1), words));
  }

  // --------------------------------------------------------------------------------------- signals

  private signalDescriptor(args: Arguments, flags: number): Answer {
    const { context } = this;
    const [number, place, size] = [int(arg(args, 0)), arg(args, 1), arg(args, 2)];
    if (size !== 8n) return 'EINVAL';
    const wanted = context.loadSet(place);
    if (wanted === null) return 'EFAULT';
    if ((flags & ~(O.NONBLOCK | O.CLOEXEC)) !== 0) return 'EINVAL';
    const set = wanted & ~(bit(SIGNAL.KILL) | bit(SIGNAL.STOP));
    if (number !== -1) {
      const description = context.descriptors.get(number);
      if (!description) return 'EBADF';
      if (!(description instanceof SignalDescription)) return 'EINVAL';
      description.set = set;
      return BigInt(number);
    }
    if (!context.descriptors.hasRoom(1)) return 'EMFILE';
    const { world, signals } = context;
    const made = new SignalDescription(flags & O.NONBLOCK, context.nextInode(), set, signals, () => world.current.signals, context); // prettier-ignore
    return BigInt(context.descriptors.add(made, (flags & O.CLOEXEC) !== 0));
  }

  signalfd(args: Arguments): Answer {
    return this.signalDescriptor(args, 0);
  }

  signalfd4(args: Arguments): Answer {
    return this.signalDescriptor(args, int(arg(args, 3)));
  }

  // ------------------------------------------------------------------------------------- processes

  pidfd_open(args: Arguments): Answer {
    const { context } = this;
    const [id, flags] = [int(arg(args, 0)), int(arg(args, 1))];
    if ((flags & ~O.NONBLOCK) !== 0 || id <= 0) return 'EINVAL';
    const { world } = context;
    const process = world.guests.find((each) => each.identity.id === id);
    if (!process && !world.isZombie(id)) return 'ESRCH';
    const hasEnded = (): boolean => !process || !world.guests.includes(process);
    const description = new ProcessDescription(flags, context.nextInode(), id, hasEnded);
    const number = context.descriptors.add(description, true);
    return number < 0 ? 'EMFILE' : BigInt(number);
  }

  private processAt(number: number): ProcessDescription | Errno {
    const description = this.context.descriptors.get(number);
    return description instanceof ProcessDescription ? description : 'EBADF';
  }

  /** The process whose folder below `/proc` a descriptor leads to; null: it is none. */
  private processOfFolder(number: number): number | null {
    const description = this.context.descriptors.get(number);
    if (!(description instanceof DirectoryDescription)) return null;
    const id = /^\/proc\/(\d+)$/.exec(description.path)?.[1];
    return id === undefined ? null : Number(id);
  }

  pidfd_send_signal(args: Arguments): Answer {
    if (int(arg(args, 3)) !== 0) return 'EINVAL';
    const number = int(arg(args, 0));
    const process = this.processAt(number);
    // The folder of a process stands for it, too.
    const id = typeof process === 'string' ? this.processOfFolder(number) : process.id;
    if (id === null) return 'EBADF';
    const { world } = this.context;
    const isThere = world.guests.some((each) => each.identity.id === id);
    if (!isThere || (typeof process !== 'string' && process.hasEnded())) return world.isZombie(id) ? 0n : 'ESRCH';
    const target = [BigInt(id), arg(args, 1), arg(args, 2)];
    if (arg(args, 2) === 0n) return this.signalCalls.kill(target);
    const signal = this.context.loadNumber(arg(args, 2), 4);
    if (signal === null) return 'EFAULT';
    return int(signal) === int(arg(args, 1)) ? this.signalCalls.rt_sigqueueinfo(target) : 'EINVAL';
  }

  pidfd_getfd(args: Arguments): Answer {
    const { context } = this;
    if (int(arg(args, 2)) !== 0) return 'EINVAL';
    const process = this.processAt(int(arg(args, 0)));
    if (typeof process === 'string') return process;
    const target = context.world.guests.find((each) => each.identity.id === process.id);
    if (!target || process.hasEnded()) return 'ESRCH';
    const description = target.descriptors.get(int(arg(args, 1)));
    if (!description) return 'EBADF';
    const number = context.descriptors.add(description, true);
    return number < 0 ? 'EMFILE' : BigInt(number);
  }

  // ---------------------------------------------------------------------------------------- memory

  memfd_create(args: Arguments): Answer {
    const { context } = this;
    const { network, machine } = context;
    const flags = int(arg(args, 1));
    if ((flags & MFD.HUGETLB) !== 0) {
      context.deviate('huge-pages');
      return 'EINVAL';
    }
    if ((flags & ~(MFD.CLOEXEC | MFD.ALLOW_SEALING)) !== 0) return 'EINVAL';
    const bytes = machine.memory.readCString(arg(args, 0), NAME_MOST + 1);
    if (!bytes) return machine.memory.check(arg(args, 0), 1, 'read') === null ? 'EINVAL' : 'EFAULT';
    if (!context.descriptors.hasRoom(1)) return 'EMFILE';
    const file = new MemoryFile(
      context.world.fileMemory,
      context.nextInode(),
      (flags & MFD.ALLOW_SEALING) !== 0,
      (each) => {
        network.forget(each);
      },
    );
    network.remember(file);
    const large = Number(context.wordBytes === 8 ? context.model.openFlags.largeFile : 0n);
    const path = `/memfd:${textOf(bytes)} (deleted)`;
    const description = new FileDescription(path, file, O.RDWR | large, context.sharing);
    return BigInt(context.descriptors.add(description, (flags & MFD.CLOEXEC) !== 0));
  }
}
