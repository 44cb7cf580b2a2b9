/**
 * System calls about how soon processes get the CPU and their files: priorities, policies of the
 * scheduler, CPUs, classes of disks. They are told, and change nothing: threads take turns.
 *
 * Source: Linux, setpriority(2), sched(7), ioprio_set(2).
 */
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import { storeTime } from './guest-times.js';
import { FIRST_STANDING, INIT, type KnownProcess, processWith, type Standing, USER } from './processes.js';
import type { Address } from '../units.js';

// prettier-ignore
export type PriorityCallName =
  | 'getpriority' | 'ioprio_get' | 'ioprio_set' | 'nice' | 'sched_getaffinity' | 'sched_getattr'
  | 'sched_getparam' | 'sched_get_priority_max' | 'sched_get_priority_min' | 'sched_getscheduler'
  | 'sched_rr_get_interval' | 'sched_setaffinity' | 'sched_setattr' | 'sched_setparam'
  | 'sched_setscheduler' | 'setpriority';

const PRIORITY = { PROCESS: 0, GROUP: 1, USER: 2, LOWEST: 19 } as const;
/** What `getpriority` counts down from. */
const PRIORITY_BASE = 20n;
/** Source: Linux uapi/linux/sched.h. */
const POLICY = {
  OTHER: 0,
  FIFO: 1,
  ROUND_ROBIN: 2,
  BATCH: 3,
  IDLE: 5,
  DEADLINE: 6,
  RESET_ON_FORK: 0x4000_0000,
} as const;
const REAL_TIME_MOST = 99n;
/** A tick of 250 a second. */
const TURN_NANOSECONDS = 4_000_000n;
/**
 * `struct sched_attr`: how large it was first and is now, at most, and flags. Source: Linux
 * uapi/linux/sched/types.h.
 */
const ATTRIBUTES = { first: 48, size: 56, most: 4096, flags: 8, nice: 16, priority: 20, utilisation: 52 } as const;
const ATTRIBUTE_FLAG = { RESET_ON_FORK: 1n, KEEP_POLICY: 8n, KEEP_PARAMETERS: 0x10n, ALL: 0x7fn } as const;
const UTILISATION_MOST = 1024;

/** Whose a disk's class is, and the classes. Source: Linux uapi/linux/ioprio.h. */
const DISK = {
  PROCESS: 1,
  GROUP: 2,
  USER: 3,
  NONE: 0,
  REAL_TIME: 1,
  BEST_EFFORT: 2,
  IDLE: 3,
  LEVELS: 8,
  SHIFT: 13,
} as const;

/** A process that is asked about; `isOwn`: it is one of this user's, and may be changed. */
interface Ranked {
  readonly standing: Standing;
  readonly isOwn: boolean;
}

export class PriorityCalls implements Readonly<Record<PriorityCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  private rankedWith(id: number): Ranked | null {
    const process = processWith(this.context, id);
    if (process) return { standing: process.standing, isOwn: true };
    return id === INIT ? { standing: { ...FIRST_STANDING }, isOwn: false } : null;
  }

  // ------------------------------------------------------------------------------------ priorities

  /** The processes that a priority is about. */
  private rankedBy(kind: number, who: number): readonly Ranked[] | Errno {
    const guests = this.context.world.guests.map(({ standing, identity }) => ({ standing, identity, isOwn: true }));
    switch (kind) {
      case PRIORITY.PROCESS: {
        const process = this.rankedWith(who);
        return process ? [process] : 'ESRCH';
      }
      case PRIORITY.GROUP: {
        const group = who === 0 ? this.context.identity.group : who;
        const found = guests.filter((each) => each.identity.group === group);
        return found.length > 0 ? found : 'ESRCH';
      }
      case PRIORITY.USER:
        return who === 0 || BigInt(who) === USER ? guests : 'ESRCH';
      default:
        return 'EINVAL';
    }
  }

  getpriority(args: Arguments): Answer {
    const found = this.rankedBy(int(arg(args, 0)), int(arg(args, 1)));
    if (typeof found === 'string') return found;
    return PRIORITY_BASE - BigInt(Math.min(...found.map((each) => each.standing.nice)));
  }

  /** Priorities may only go down. */
  setpriority(args: Arguments): Answer {
    const found = this.rankedBy(int(arg(args, 0)), int(arg(args, 1)));
    if (typeof found === 'string') return found;
    if (found.some(({ isOwn }) => !isOwn)) return 'EPERM';
    const nice = Math.max(-20, Math.min(PRIORITY.LOWEST, int(arg(args, 2))));
    const allowed = found.filter(({ standing }) => nice >= standing.nice);
    for (const { standing } of allowed) standing.nice = nice;
    return allowed.length < found.length ? 'EACCES' : 0n;
  }

  nice(args: Arguments): Answer {
    const { standing } = this.context;
    const more = Math.max(-40, Math.min(40, int(arg(args, 0))));
    if (more < 0) return 'EPERM';
    standing.nice = Math.min(PRIORITY.LOWEST, standing.nice + more);
    return 0n;
  }

  sched_getscheduler(args: Arguments): Answer {
    const id = int(arg(args, 0));
    if (id < 0) return 'EINVAL';
    const process = this.rankedWith(id);
    return process ? BigInt(process.standing.policy) : 'ESRCH';
  }

  private setPolicy(id: number, policy: number | null, parameter: Address): Answer {
    const process = this.rankedWith(id);
    if (id < 0 || parameter === 0n) return 'EINVAL';
    const priority = this.context.loadNumber(parameter, 4);
    if (priority === null) return 'EFAULT';
    if (!process) return 'ESRCH';
    const wanted = policy ?? process.standing.policy;
    switch (wanted & ~POLICY.RESET_ON_FORK) {
      case POLICY.OTHER:
      case POLICY.BATCH:
      case POLICY.IDLE:
        if (priority !== 0n) return 'EINVAL';
        if (!process.isOwn) return 'EPERM';
        process.standing.policy = wanted;
        return 0n;
      case POLICY.FIFO:
      case POLICY.ROUND_ROBIN:
        return priority >= 1n && priority <= REAL_TIME_MOST ? 'EPERM' : 'EINVAL';
      default:
        return 'EINVAL';
    }
  }

  sched_setscheduler(args: Arguments): Answer {
    const policy = int(arg(args, 1));
    return policy < 0 ? 'EINVAL' : this.setPolicy(int(arg(args, 0)), policy, arg(args, 2));
  }

  sched_setparam(args: Arguments): Answer {
    return this.setPolicy(int(arg(args, 0)), null, arg(args, 1));
  }

  sched_getparam(args: Arguments): Answer {
    const id = int(arg(args, 0));
    if (id < 0 || arg(args, 1) === 0n) return 'EINVAL';
    return this.rankedWith(id) ? storeOr(this.context.storeNumbers(arg(args, 1), [0n], 4)) : 'ESRCH';
  }

  sched_getattr(args: Arguments): Answer {
    const [id, address, size, flags] = [
      int(arg(args, 0)),
      arg(args, 1),
      Number(BigInt.asUintN(32, arg(args, 2))),
      int(arg(args, 3)),
    ];
    if (address === 0n || id < 0 || flags !== 0 || size < ATTRIBUTES.first || size > ATTRIBUTES.most) return 'EINVAL';
    const process = this.rankedWith(id);
    if (!process) return 'ESRCH';
    const { policy, nice } = process.standing;
    const known = Math.min(size, ATTRIBUTES.size);
    const bytes = new Uint8Array(ATTRIBUTES.size);
    const put = (at: number, width: number, value: number): void => {
      putNumber(bytes, at, width, value, this.context.endian);
    };
    put(0, 4, known);
    put(4, 4, policy & ~POLICY.RESET_ON_FORK);
    put(ATTRIBUTES.flags, 8, (policy & POLICY.RESET_ON_FORK) === 0 ? 0 : Number(ATTRIBUTE_FLAG.RESET_ON_FORK));
    put(ATTRIBUTES.nice, 4, nice);
    put(ATTRIBUTES.utilisation, 4, UTILISATION_MOST);
    return storeOr(this.context.store(address, bytes.subarray(0, known)));
  }

  /** What of a `struct sched_attr` Linux looks at for a policy that a user may have. */
  private attributesAt(
    address: Address,
  ): { readonly policy: number; readonly flags: bigint; readonly nice: number; readonly priority: bigint } | Errno {
    const { context } = this;
    const given = context.loadNumber(address, 4);
    if (given === null) return 'EFAULT';
    const size = given === 0n ? ATTRIBUTES.first : Number(given);
    const tooBig = (): Errno => (context.storeNumbers(address, [BigInt(ATTRIBUTES.size)], 4) ? 'E2BIG' : 'EFAULT');
    if (size < ATTRIBUTES.first || size > ATTRIBUTES.most) return tooBig();
    const bytes = context.load(address, size);
    if (!bytes) return 'EFAULT';
    if (bytes.subarray(ATTRIBUTES.size).some((each) => each !== 0)) return tooBig();
    const numberAt = (at: number, width: number): bigint => context.loadNumber(address + BigInt(at), width)!;
    const [policy, flags] = [int(numberAt(4, 4)), numberAt(ATTRIBUTES.flags, 8)];
    const nice = Math.max(-20, Math.min(PRIORITY.LOWEST, int(numberAt(ATTRIBUTES.nice, 4))));
    return { policy, flags, nice, priority: numberAt(ATTRIBUTES.priority, 4) };
  }

  sched_setattr(args: Arguments): Answer {
    const [id, address, none] = [int(arg(args, 0)), arg(args, 1), int(arg(args, 2))];
    if (address === 0n || id < 0 || none !== 0) return 'EINVAL';
    const found = this.attributesAt(address);
    if (typeof found === 'string') return found;
    const { policy, flags, nice, priority } = found;
    if (policy < 0) return 'EINVAL';
    const process = this.rankedWith(id);
    if (!process) return 'ESRCH';
    if ((flags & ~ATTRIBUTE_FLAG.ALL) !== 0n) return 'EINVAL';
    const { standing, isOwn } = process;
    const own = (flags & ATTRIBUTE_FLAG.KEEP_POLICY) === 0n ? policy : standing.policy & ~POLICY.RESET_ON_FORK;
    if (this.priorityOf(own, 1n) === 'EINVAL') return 'EINVAL';
    const isRealTime = own === POLICY.FIFO || own === POLICY.ROUND_ROBIN;
    if (own === POLICY.DEADLINE || (isRealTime && priority >= 1n && priority <= REAL_TIME_MOST)) return 'EPERM';
    if (isRealTime || priority !== 0n) return 'EINVAL';
    if (!isOwn) return 'EPERM';
    const keeps = (flags & ATTRIBUTE_FLAG.KEEP_PARAMETERS) !== 0n || own === POLICY.IDLE;
    if (!keeps && nice < standing.nice) return 'EPERM';
    const wasReset = (standing.policy & POLICY.RESET_ON_FORK) !== 0;
    const resets = (flags & ATTRIBUTE_FLAG.RESET_ON_FORK) !== 0n;
    if (wasReset && !resets) return 'EPERM';
    standing.policy = own | (resets ? POLICY.RESET_ON_FORK : 0);
    if (!keeps) standing.nice = nice;
    return 0n;
  }

  private priorityOf(policy: number, realTime: bigint): Answer {
    if (policy === POLICY.FIFO || policy === POLICY.ROUND_ROBIN) return realTime;
    const others: readonly number[] = [POLICY.OTHER, POLICY.BATCH, POLICY.IDLE, POLICY.DEADLINE];
    return others.includes(policy) ? 0n : 'EINVAL';
  }

  sched_get_priority_max(args: Arguments): Answer {
    return this.priorityOf(int(arg(args, 0)), REAL_TIME_MOST);
  }

  sched_get_priority_min(args: Arguments): Answer {
    return this.priorityOf(int(arg(args, 0)), 1n);
  }

  /** What a thread gets at a time, by a tick of the clock. */
  sched_rr_get_interval(args: Arguments, words: 4 | 8): Answer {
    const id = int(arg(args, 0));
    if (id < 0) return 'EINVAL';
    if (!this.rankedWith(id)) return 'ESRCH';
    return storeOr(storeTime(this.context, arg(args, 1), TURN_NANOSECONDS, words));
  }

  /** There is one CPU: a set of CPUs without it is empty. */
  sched_setaffinity(args: Arguments): Answer {
    const { context } = this;
    const [id, size] = [int(arg(args, 0)), Number(BigInt.asUintN(32, arg(args, 1)))];
    const { wordBytes, endian } = context;
    const bytes = context.load(arg(args, 2), Math.min(size, wordBytes));
    if (!bytes) return 'EFAULT';
    const process = this.rankedWith(id);
    if (!process) return 'ESRCH';
    if (!process.isOwn) return 'EPERM';
    // The first CPU is the lowest bit of a word.
    const at = endian === 'little' ? 0 : wordBytes - 1;
    return ((bytes[at] ?? 0) & 1) !== 0 ? 0n : 'EINVAL';
  }

  sched_getaffinity(args: Arguments): Answer {
    const { context } = this;
    const size = BigInt(context.wordBytes);
    const [id, room] = [int(arg(args, 0)), BigInt.asUintN(32, arg(args, 1))];
    if (room < size || room % size !== 0n) return 'EINVAL';
    if (!this.rankedWith(id)) return 'ESRCH';
    return storeOr(context.storeNumbers(arg(args, 2), [1n]), size);
  }

  // ----------------------------------------------------------------------------------------- disks

  /** The kinds of `ioprio_set` are those of `setpriority`, counted from 1. */
  private disksOf(args: Arguments): readonly Ranked[] | Errno {
    return this.rankedBy(int(arg(args, 0)) - DISK.PROCESS, int(arg(args, 1)));
  }

  /** Of several the best: the lowest number, where no class counts as the middle of best effort. */
  ioprio_get(args: Arguments): Answer {
    const found = this.disksOf(args);
    if (typeof found === 'string') return found;
    const [only] = found;
    if (int(arg(args, 0)) === DISK.PROCESS) return BigInt(only!.standing.diskPriority);
    const middle = (DISK.BEST_EFFORT << DISK.SHIFT) | (DISK.LEVELS / 2);
    const all = found.map(({ standing }) => standing.diskPriority);
    if (all.every((each) => each === 0)) return 0n;
    return BigInt(Math.min(...all.map((each) => (each === 0 ? middle : each))));
  }

  ioprio_set(args: Arguments): Answer {
    const wanted = int(arg(args, 2));
    const [kind, level] = [wanted >> DISK.SHIFT, wanted & ((1 << DISK.SHIFT) - 1)];
    switch (kind) {
      case DISK.REAL_TIME:
        return 'EPERM';
      case DISK.BEST_EFFORT:
        if (level >= DISK.LEVELS) return 'EINVAL';
        break;
      case DISK.IDLE:
        break;
      case DISK.NONE:
        if (level !== 0) return 'EINVAL';
        break;
      default:
        return 'EINVAL';
    }
    const found = this.disksOf(args);
    if (typeof found === 'string') return found;
    if (found.some(({ isOwn }) => !isOwn)) return 'EPERM';
    for (const { standing } of found) standing.diskPriority = wanted;
    return 0n;
  }
}
