/**
 * System calls by which a process would become another user, or have more or less than before:
 * users, groups, capabilities, priorities, limits. There is one user, who may change to himself
 * and give rights up, and has no capability.
 *
 * Source: Linux, credentials(7), capabilities(7), setpriority(2), sched(7), getrlimit(2).
 */
import { STACK_BYTES } from './address-space.js';
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import { OPEN_MAX } from './descriptions.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import { storeTime } from './guest-times.js';
import { type KnownProcess, USER } from './processes.js';
import type { Address } from '../units.js';

// prettier-ignore
export type RightsCallName =
  | 'capget' | 'capset' | 'getpriority' | 'getrlimit' | 'nice' | 'privileged' | 'prlimit64'
  | 'sched_rr_get_interval' | 'sched_get_priority_max' | 'sched_get_priority_min' | 'sched_getparam'
  | 'sched_getattr' | 'sched_getscheduler' | 'sched_setaffinity' | 'sched_setattr'
  | 'sched_setparam' | 'sched_setscheduler' | 'setfsuid' | 'setgroups' | 'setpriority' | 'setresuid'
  | 'setreuid' | 'setrlimit' | 'setuid';

/** Versions of `struct __user_cap_header_struct`, with how many words each set has. */
const CAPABILITY_WORDS: ReadonlyMap<bigint, number> = new Map([
  [0x1998_0330n, 1],
  [0x2007_1026n, 2],
  [0x2008_0522n, 2],
]);
const CAPABILITY_VERSION = 0x2008_0522n;

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

const RLIMIT = { CPU: 0, FSIZE: 1, DATA: 2, STACK: 3, CORE: 4, RSS: 5, PROCESSES: 6, FILES: 7, MEMLOCK: 8, AS: 9, COUNT: 16 } as const; // prettier-ignore
/** Limits that a program would run into. */
const FELT: ReadonlySet<number> = new Set([RLIMIT.CPU, RLIMIT.FSIZE, RLIMIT.DATA, RLIMIT.STACK, RLIMIT.PROCESSES, RLIMIT.FILES, RLIMIT.MEMLOCK, RLIMIT.AS]); // prettier-ignore
const INFINITE = (1n << 64n) - 1n;

type Limit = readonly [soft: bigint, hard: bigint];

export class RightsCalls implements Readonly<Record<RightsCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  // ------------------------------------------------------------------------------ users and groups

  /** Changes to users or groups; -1 leaves what is. */
  private change(ids: readonly bigint[], mayKeep: boolean): Answer {
    const wanted = ids.map(int);
    if (!mayKeep && wanted.includes(-1)) return 'EINVAL';
    return wanted.every((id) => id === -1 || BigInt(id) === USER) ? 0n : 'EPERM';
  }

  setuid(args: Arguments): Answer {
    return this.change(args.slice(0, 1), false);
  }

  setreuid(args: Arguments): Answer {
    return this.change(args.slice(0, 2), true);
  }

  setresuid(args: Arguments): Answer {
    return this.change(args.slice(0, 3), true);
  }

  /** Answers what was, whether that changes or not. */
  setfsuid(): Answer {
    return USER;
  }

  setgroups(): Answer {
    return 'EPERM';
  }

  // ---------------------------------------------------------------------------------- capabilities

  /** How many words a set has, by the version in a header, and whose it is. */
  private capabilities(
    header: Address,
    empty: bigint | Errno,
  ): { readonly words: number; readonly process: number } | bigint | Errno {
    const { context } = this;
    const version = context.loadNumber(header, 4);
    const process = context.loadNumber(header + 4n, 4);
    if (version === null || process === null) return 'EFAULT';
    const words = CAPABILITY_WORDS.get(version);
    if (words === undefined) {
      return context.storeNumbers(header, [CAPABILITY_VERSION], 4) ? empty : 'EFAULT';
    }
    return { words, process: int(process) };
  }

  /** Effective, permitted and inheritable ones: none. */
  capget(args: Arguments): Answer {
    const [header, data] = [arg(args, 0), arg(args, 1)];
    const found = this.capabilities(header, data === 0n ? 0n : 'EINVAL');
    if (typeof found !== 'object') return found;
    if (found.process < 0) return 'EINVAL';
    if (!this.processOf(found.process)) return 'ESRCH';
    return data === 0n ? 0n : storeOr(this.context.storeNumbers(data, Array<bigint>(3 * found.words).fill(0n), 4));
  }

  capset(args: Arguments): Answer {
    const [header, data] = [arg(args, 0), arg(args, 1)];
    const found = this.capabilities(header, 'EINVAL');
    if (typeof found !== 'object') return found;
    if (found.process !== 0 && found.process !== this.context.signals.thread.id) return 'EPERM';
    const bytes = this.context.load(data, 12 * found.words);
    if (!bytes) return 'EFAULT';
    return bytes.every((byte) => byte === 0) ? 0n : 'EPERM';
  }

  // ------------------------------------------------------------------------------------ priorities

  private processOf(id: number): KnownProcess | null {
    const { context } = this;
    if (id === 0 || context.signals.find(id)) return context;
    return context.world.guests.find((each) => each.identity.id === id) ?? null;
  }

  /** The processes that a priority is about. */
  private processesOf(kind: number, who: number): readonly KnownProcess[] | Errno {
    const { guests } = this.context.world;
    switch (kind) {
      case PRIORITY.PROCESS: {
        const process = this.processOf(who);
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
    const found = this.processesOf(int(arg(args, 0)), int(arg(args, 1)));
    if (typeof found === 'string') return found;
    return PRIORITY_BASE - BigInt(Math.min(...found.map((each) => each.standing.nice)));
  }

  /** Priorities may only go down. They change nothing: threads take turns. */
  setpriority(args: Arguments): Answer {
    const found = this.processesOf(int(arg(args, 0)), int(arg(args, 1)));
    if (typeof found === 'string') return found;
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
    const process = this.processOf(id);
    return process ? BigInt(process.standing.policy) : 'ESRCH';
  }

  private setPolicy(id: number, policy: number | null, parameter: Address): Answer {
    const process = this.processOf(id);
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
    return this.processOf(id) ? storeOr(this.context.storeNumbers(arg(args, 1), [0n], 4)) : 'ESRCH';
  }

  sched_getattr(args: Arguments): Answer {
    const [id, address, size, flags] = [
      int(arg(args, 0)),
      arg(args, 1),
      Number(BigInt.asUintN(32, arg(args, 2))),
      int(arg(args, 3)),
    ];
    if (address === 0n || id < 0 || flags !== 0 || size < ATTRIBUTES.first || size > ATTRIBUTES.most) return 'EINVAL';
    const process = this.processOf(id);
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
    const process = this.processOf(id);
    if (!process) return 'ESRCH';
    if ((flags & ~ATTRIBUTE_FLAG.ALL) !== 0n) return 'EINVAL';
    const { standing } = process;
    const own = (flags & ATTRIBUTE_FLAG.KEEP_POLICY) === 0n ? policy : standing.policy & ~POLICY.RESET_ON_FORK;
    if (this.priorityOf(own, 1n) === 'EINVAL') return 'EINVAL';
    const isRealTime = own === POLICY.FIFO || own === POLICY.ROUND_ROBIN;
    if (own === POLICY.DEADLINE || (isRealTime && priority >= 1n && priority <= REAL_TIME_MOST)) return 'EPERM';
    if (isRealTime || priority !== 0n) return 'EINVAL';
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
    if (!this.processOf(id)) return 'ESRCH';
    return storeOr(storeTime(this.context, arg(args, 1), TURN_NANOSECONDS, words));
  }

  /** What only a user with rights may do. */
  privileged(): Answer {
    return 'EPERM';
  }

  /** There is one CPU: a set of CPUs without it is empty. */
  sched_setaffinity(args: Arguments): Answer {
    const { context } = this;
    const [id, size] = [int(arg(args, 0)), Number(BigInt.asUintN(32, arg(args, 1)))];
    const { wordBytes, endian } = context;
    const bytes = context.load(arg(args, 2), Math.min(size, wordBytes));
    if (!bytes) return 'EFAULT';
    if (!this.processOf(id)) return 'ESRCH';
    // The first CPU is the lowest bit of a word.
    const at = endian === 'little' ? 0 : wordBytes - 1;
    return ((bytes[at] ?? 0) & 1) !== 0 ? 0n : 'EINVAL';
  }

  // ---------------------------------------------------------------------------------------- limits

  /** What stands for no limit, in a word. */
  private get infinity(): bigint {
    return (1n << BigInt(8 * this.context.wordBytes)) - 1n;
  }

  private limitOf({ standing }: KnownProcess, resource: number): Limit {
    const known = standing.limits.get(resource);
    if (known) return known;
    if (resource === RLIMIT.FILES) return [BigInt(OPEN_MAX), BigInt(OPEN_MAX)];
    return [resource === RLIMIT.STACK ? BigInt(STACK_BYTES) : INFINITE, INFINITE];
  }

  /** A hard limit may only go down, a soft one up to it. */
  private setLimit(process: KnownProcess, resource: number, [soft, hard]: Limit): Errno | null {
    const [softNow, hardNow] = this.limitOf(process, resource);
    if (soft > hard) return 'EINVAL';
    if (hard > hardNow) return 'EPERM';
    if (FELT.has(resource) && soft < softNow) this.context.deviate('set-limit');
    process.standing.limits = new Map([...process.standing.limits, [resource, [soft, hard]]]);
    return null;
  }

  getrlimit(args: Arguments): Answer {
    const resource = Number(BigInt.asUintN(32, arg(args, 0)));
    if (resource >= RLIMIT.COUNT) return 'EINVAL';
    const words = this.limitOf(this.context, resource).map((each) => (each > this.infinity ? this.infinity : each));
    return storeOr(this.context.storeNumbers(arg(args, 1), words));
  }

  setrlimit(args: Arguments): Answer {
    const { context, infinity } = this;
    const resource = Number(BigInt.asUintN(32, arg(args, 0)));
    const word = BigInt(context.wordBytes);
    const values = [arg(args, 1), arg(args, 1) + word].map((at) => context.loadNumber(at));
    const [soft, hard] = values.map((value) => (value === infinity ? INFINITE : value));
    if (soft === null || soft === undefined || hard === null || hard === undefined) return 'EFAULT';
    if (resource >= RLIMIT.COUNT) return 'EINVAL';
    return this.setLimit(context, resource, [soft, hard]) ?? 0n;
  }

  prlimit64(args: Arguments): Answer {
    const { context } = this;
    const [id, resource] = [int(arg(args, 0)), Number(BigInt.asUintN(32, arg(args, 1)))];
    const [next, old] = [arg(args, 2), arg(args, 3)];
    if (resource >= RLIMIT.COUNT) return 'EINVAL';
    const [soft, hard] = next === 0n ? [0n, 0n] : [context.loadNumber(next, 8), context.loadNumber(next + 8n, 8)];
    if (soft === null || hard === null) return 'EFAULT';
    const process = this.processOf(id);
    if (!process) return 'ESRCH';
    const words = this.limitOf(process, resource);
    const refusal = next === 0n ? null : this.setLimit(process, resource, [soft, hard]);
    return refusal ?? (old === 0n ? 0n : storeOr(context.storeNumbers(old, words, 8)));
  }
}
