/**
 * System calls by which a process would become another user, or have more or less than before:
 * users, groups, capabilities, limits. There is one user, who may change to himself and give rights
 * up, and has no capability.
 *
 * Source: Linux, credentials(7), capabilities(7), getrlimit(2).
 */
import { STACK_BYTES } from './address-space.js';
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import { OPEN_MAX } from './descriptions.js';
import type { Errno } from './errno.js';
import { QUEUE_BYTES } from './message-queues.js';
import { type KnownProcess, processWith, type Standing, USER } from './processes.js';
import type { Address } from '../units.js';

// prettier-ignore
export type RightsCallName =
  | 'capget' | 'capset' | 'getrlimit' | 'privileged' | 'prlimit64' | 'setfsuid' | 'setgroups'
  | 'setresuid' | 'setreuid' | 'setrlimit' | 'setuid';

/** Versions of `struct __user_cap_header_struct`, with how many words each set has. */
const CAPABILITY_WORDS: ReadonlyMap<bigint, number> = new Map([
  [0x1998_0330n, 1],
  [0x2007_1026n, 2],
  [0x2008_0522n, 2],
]);
const CAPABILITY_VERSION = 0x2008_0522n;

export const RLIMIT = {
  ...{ CPU: 0, FSIZE: 1, DATA: 2, STACK: 3, CORE: 4, RSS: 5, PROCESSES: 6, FILES: 7 },
  ...{ MEMLOCK: 8, AS: 9, QUEUES: 12, COUNT: 16 },
} as const;
/** Limits that a program would run into. */
const FELT: ReadonlySet<number> = new Set([RLIMIT.CPU, RLIMIT.DATA, RLIMIT.STACK, RLIMIT.MEMLOCK, RLIMIT.AS]);
const INFINITE = (1n << 64n) - 1n;

type Limit = readonly [soft: bigint, hard: bigint];

/** The limits of a process. */
export function limitOf({ limits }: Standing, resource: number): Limit {
  const known = limits.get(resource);
  if (known) return known;
  if (resource === RLIMIT.QUEUES) return [QUEUE_BYTES, QUEUE_BYTES];
  if (resource === RLIMIT.FILES) return [BigInt(OPEN_MAX), BigInt(OPEN_MAX)];
  // No core is written: a status of `wait4` tells of none.
  if (resource === RLIMIT.CORE) return [0n, INFINITE];
  return [resource === RLIMIT.STACK ? BigInt(STACK_BYTES) : INFINITE, INFINITE];
}

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
    if (!processWith(this.context, found.process)) return 'ESRCH';
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

  /** What only a user with rights may do. */
  privileged(): Answer {
    return 'EPERM';
  }

  // ---------------------------------------------------------------------------------------- limits

  /** What stands for no limit, in a word. */
  private get infinity(): bigint {
    return (1n << BigInt(8 * this.context.wordBytes)) - 1n;
  }

  /** A hard limit may only go down, a soft one up to it. */
  private setLimit(process: KnownProcess, resource: number, [soft, hard]: Limit): Errno | null {
    const [softNow, hardNow] = limitOf(process.standing, resource);
    if (soft > hard) return 'EINVAL';
    if (hard > hardNow) return 'EPERM';
    if (FELT.has(resource) && soft < softNow) this.context.deviate('set-limit');
    if (resource === RLIMIT.FILES) process.descriptors.most = Number(soft);
    process.standing.limits = new Map([...process.standing.limits, [resource, [soft, hard]]]);
    return null;
  }

  getrlimit(args: Arguments): Answer {
    const resource = Number(BigInt.asUintN(32, arg(args, 0)));
    if (resource >= RLIMIT.COUNT) return 'EINVAL';
    const words = limitOf(this.context.standing, resource).map((each) => (each > this.infinity ? this.infinity : each));
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
    const process = processWith(context, id);
    if (!process) return 'ESRCH';
    const words = limitOf(process.standing, resource);
    const refusal = next === 0n ? null : this.setLimit(process, resource, [soft, hard]);
    return refusal ?? (old === 0n ? 0n : storeOr(context.storeNumbers(old, words, 8)));
  }
}
