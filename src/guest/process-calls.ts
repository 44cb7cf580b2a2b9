/**
 * System calls that replace a process by another program, wait for processes, and speak of them.
 *
 * Source: Linux, execve(2), wait4(2), waitid(2), setpgid(2), prctl(2), getrusage(2), times(2).
 */
import { ProcessDescription } from './special-descriptions.js';
import { type Answer, arg, type Arguments, int, type Service, storeOr } from './call-context.js';
import type { Errno } from './errno.js';
import { checkForm, interpreterPath, loadProgram, type ProcessImage } from './load.js';
import { FileDescription, PlaceDescription } from './descriptions.js';
import { isSpecial, joinPath } from './files.js';
import { AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW } from './guest-paths.js';
import type { ChildChange, Relative } from './halt.js';
import type { KnownProcess } from './processes.js';
import { executableFile, type ExecutableFile, isScript, throughScripts } from './scripts.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import { nameBytes, textOf } from '../bytes.js';

export type ProcessCallName =
  | 'execve' | 'execveat' | 'getcpu' | 'getgroups' | 'getpgid' | 'getpgrp' | 'getresuid' | 'getrusage' | 'getsid' | 'membarrier' | 'prctl' | 'setpgid' | 'setsid' | 'times'
  | 'wait4' | 'waitid' | 'waitpid'; // prettier-ignore

/** Most bytes of one string, and of all, that a program is started with; most strings. */
const STRING_MOST = 0x2_0000;
const STRINGS_MOST = 0x20_0000;
const STRING_COUNT = 0x4_0000;
const SIGKILL = 9;
const SIGCHLD = 17;
const TICKS = 100n;
const SECOND = 1_000_000_000n;

/** Flags of `wait4` and `waitid`. Source: Linux uapi/linux/wait.h. */
const W = { NOHANG: 1, UNTRACED: 2, EXITED: 4, CONTINUED: 8, NOWAIT: 0x100_0000, NOTHREAD: 0x2000_0000, ALL: 0x4000_0000, CLONE: 0x8000_0000 } as const; // prettier-ignore
const WAIT_FLAGS = (W.NOHANG | W.UNTRACED | W.CONTINUED | W.NOTHREAD | W.ALL | W.CLONE) >>> 0;
const WAITID_FLAGS = (WAIT_FLAGS | W.EXITED | W.NOWAIT) >>> 0;

/** Codes of `prctl`. Source: Linux uapi/linux/prctl.h. */
const PR = {
  SET_PDEATHSIG: 1, GET_PDEATHSIG: 2, GET_DUMPABLE: 3, SET_DUMPABLE: 4, GET_KEEPCAPS: 7, SET_KEEPCAPS: 8, SET_NAME: 15, GET_NAME: 16, GET_SECCOMP: 21, SET_SECCOMP: 22,
  CAPBSET_READ: 23, CAPBSET_DROP: 24, GET_SECUREBITS: 27, SET_TIMERSLACK: 29, GET_TIMERSLACK: 30, SET_MM: 35, SET_NO_NEW_PRIVS: 38, GET_NO_NEW_PRIVS: 39,
  SET_THP_DISABLE: 41, GET_THP_DISABLE: 42, CAP_AMBIENT: 47, SET_VMA: 0x5356_4d41, SET_PTRACER: 0x5961_6d61,
} as const; // prettier-ignore
/** Codes from 1 on that Linux 6.1 knows, on one machine or another. */
const PR_MOST = 65;
const CAPABILITIES = 41n;

/** What is started in place of a program. */
interface Start {
  readonly image: ProcessImage;
  readonly interpreter: ProcessImage | undefined;
  readonly path: string;
  /** How the file was called that is executed, a script also. */
  readonly name: string;
  readonly args: readonly string[];
}

/** What has become of a child, and how it is not told of again. */
interface ChildNews {
  readonly id: number;
  readonly change: ChildChange;
  readonly instructions: bigint;
  readonly tell: () => void;
}

export class ProcessCalls implements Readonly<Record<ProcessCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  // -------------------------------------------------------------------------------- other programs

  /** The strings that a list of pointers leads to; `budget` is what is left for all of them. */
  private strings(list: Address, budget: { bytes: number }): readonly string[] | Errno {
    const { context } = this;
    const { memory } = context.machine;
    const out: string[] = [];
    if (list === 0n) return out;
    for (let at = list; out.length < STRING_COUNT; at += BigInt(context.wordBytes)) {
      const pointer = context.loadNumber(at);
      if (pointer === null) return 'EFAULT';
      if (pointer === 0n) return out;
      const bytes = memory.readCString(pointer, STRING_MOST);
      if (!bytes) return memory.check(pointer, 1, 'read') === null ? 'E2BIG' : 'EFAULT';
      budget.bytes -= bytes.length + 1 + context.wordBytes;
      if (budget.bytes < 0) return 'E2BIG';
      out.push(textOf(bytes));
    }
    return 'E2BIG';
  }

  /** A file that may be executed; `name` is meant from the current directory. */
  private executable(name: string): ExecutableFile | Errno {
    const { files, paths } = this.context;
    const place = paths.inTree(joinPath(paths.directory, name));
    if (typeof place === 'string') return place;
    const file = executableFile(files, place.path);
    if (typeof file !== 'string' && files.isWatched(place.path)) this.context.deviate('watches');
    return file;
  }

  private imageIn(bytes: Uint8Array): ProcessImage | null {
    try {
      return this.context.world.programIn(bytes);
    } catch (error) {
      if (error instanceof ElftraceError) return null;
      throw error;
    }
  }

  /** What is started when a path is executed: through the interpreters of scripts. */
  private startOf(file: ExecutableFile | Errno, name: string, args: readonly string[]): Start | Errno {
    if (typeof file === 'string') return file;
    const found = throughScripts(file, name, args, (each) => this.executable(each));
    if (typeof found === 'string') return found;
    return this.imageStart(found.file, name, found.args);
  }

  private imageStart({ path, bytes }: ExecutableFile, name: string, args: readonly string[]): Start | Errno {
    const image = this.imageIn(bytes);
    if (!image) {
      const isElf = bytes[0] === 0x7f && bytes[1] === 0x45;
      if (isElf) this.context.deviate('other-programs');
      return 'ENOEXEC';
    }
    try {
      const loader = interpreterPath(image);
      let interpreter: ProcessImage | undefined;
      if (loader !== null) {
        const found = this.executable(loader);
        if (typeof found === 'string') return found;
        interpreter = this.imageIn(found.bytes) ?? undefined;
      }
      checkForm(image, 'entry', interpreter);
      return { image, interpreter, path, name, args };
    } catch (error) {
      if (error instanceof ElftraceError) return 'ENOEXEC';
      throw error;
    }
  }

  /** Decides first; what lies in memory is gone only when the other program can be started. */
  private exec(
    find: () => ExecutableFile | Errno,
    name: string,
    [list, environment]: readonly [Address, Address],
  ): Answer {
    const { context } = this;
    const { world } = context;
    const budget = { bytes: STRINGS_MOST };
    const given = this.strings(list, budget);
    if (typeof given === 'string') return given;
    const env = this.strings(environment, budget);
    if (typeof env === 'string') return env;
    if (!world.loadsPrograms) {
      context.deviate('other-programs');
      return 'ENOEXEC';
    }
    // Linux gives a program that was called without a name an empty one.
    const start = this.startOf(find(), name, given.length === 0 ? [''] : given);
    if (typeof start === 'string') return start;
    context.threads.left(context.signals.thread);
    context.threads.exec();
    world.leaveMemory(context);
    context.released();
    context.descriptors.exec();
    context.signals.exec();
    try {
      const { space, auxiliary } = loadProgram(context.machine, {
        ...start,
        abi: world.abi,
        emulation: world.emulation,
        env,
        start: 'entry',
      });
      context.space = space;
      context.program = { path: start.path, name: start.name, args: start.args, env, auxiliary };
      context.name = null;
    } catch (error) {
      if (!(error instanceof ElftraceError)) throw error;
      return { kind: 'signal', signal: SIGKILL };
    }
    context.standing.hasBarrier = false;
    world.replaced(context);
    return { kind: 'resumed' };
  }

  execve(args: Arguments): Answer {
    return this.execFrom(AT_FDCWD, args);
  }

  /** `args`: the path, as it is meant from a descriptor, and the two lists. */
  private execFrom(from: number, args: Arguments): Answer {
    const { paths } = this.context;
    const found = paths.pathAt(from, arg(args, 0));
    if (typeof found === 'string') return found;
    const said = paths.textAt(arg(args, 0));
    if (typeof said === 'string') return said;
    const isOwn = from === AT_FDCWD || said.text.startsWith('/');
    const name = isOwn ? said.text : `/dev/fd/${from}/${said.text}`;
    const find = (): ExecutableFile | Errno => (found.path === '' ? 'ENOENT' : this.executable(found.path));
    return this.exec(find, name, [arg(args, 1), arg(args, 2)]);
  }

  /** The file that a descriptor leads to, which may have no name any more. */
  private executableAt(number: number): ExecutableFile | Errno {
    const { descriptors } = this.context;
    if (number === AT_FDCWD) return 'EACCES';
    const description = descriptors.get(number);
    if (!description) return 'EBADF';
    const { status, path } = description;
    if (status.kind === 'link') return 'ELOOP';
    if (isSpecial(status) || status.kind !== 'file' || (status.permissions & OWNER_EXECUTE) === 0) return 'EACCES';
    if (description instanceof PlaceDescription) return description.isGone ? 'ENOENT' : this.executable(path);
    if (!(description instanceof FileDescription)) return 'EACCES';
    const bytes = description.contents(0, status.sizeBytes);
    // Its interpreter would not find it any more.
    return isScript(bytes) && descriptors.closesOnExec(number) ? 'ENOENT' : { path, bytes };
  }

  execveat(args: Arguments): Answer {
    const { paths } = this.context;
    const [from, flags] = [int(arg(args, 0)), BigInt.asUintN(32, arg(args, 4))];
    if ((flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) !== 0n) return 'EINVAL';
    const said = paths.textAt(arg(args, 1));
    if (typeof said === 'string') return said;
    if (said.text === '' && (flags & AT_EMPTY_PATH) !== 0n) {
      return this.exec(() => this.executableAt(from), `/dev/fd/${from}`, [arg(args, 2), arg(args, 3)]);
    }
    const found = paths.pathAt(from, arg(args, 1));
    const isLink = typeof found !== 'string' && (flags & AT_SYMLINK_NOFOLLOW) !== 0n;
    const status = isLink ? paths.status(found.path, false) : null;
    if (typeof status === 'object' && status?.kind === 'link') return 'ELOOP';
    return this.execFrom(from, args.slice(1));
  }

  // --------------------------------------------------------------------------------------- waiting

  /**
   * What has become of a child of which `matches` says that it is wanted, and was not told yet: of
   * the one that was made first. Null: nothing.
   */
  private newsOf(matches: (child: Relative) => boolean, flags: number): ChildNews | null {
    const { world, identity } = this.context;
    const isWanted = (child: Relative): boolean => child.parent === identity.id && matches(child);
    const found: ChildNews[] = [];
    for (const zombie of (flags & W.EXITED) !== 0 ? world.zombies : []) {
      if (!isWanted(zombie)) continue;
      const tell = (): void => {
        world.zombies = world.zombies.filter((each) => each !== zombie);
      };
      found.push({ id: zombie.id, change: zombie.ending, instructions: zombie.instructions, tell });
    }
    for (const { identity: child, signals, machine } of world.guests) {
      const { halt } = signals;
      const { news } = halt;
      const wanted = news?.kind === 'stopped' ? W.UNTRACED : W.CONTINUED;
      if (news === null || (flags & wanted) === 0 || !isWanted(child)) continue;
      const tell = (): void => {
        halt.news = null;
      };
      found.push({ id: child.id, change: news, instructions: BigInt(machine.totalInstructions), tell });
    }
    return found.reduce<ChildNews | null>((least, each) => (least && least.id < each.id ? least : each), null);
  }

  /** Waits for a child of which `matches` says that it is wanted. */
  private waitForChild(
    matches: (child: Relative) => boolean,
    flags: number,
    answer: (news: ChildNews | null) => bigint | Errno,
  ): Answer {
    const { context } = this;
    const { world, identity } = context;
    const found = (): ChildNews | null => this.newsOf(matches, flags);
    const take = (news: ChildNews): bigint | Errno => {
      if ((flags & W.NOWAIT) === 0) news.tell();
      return answer(news);
    };
    const news = found();
    if (news) return take(news);
    const hasChild = (): boolean =>
      world.guests.some((each) => each.identity.parent === identity.id && matches(each.identity));
    if (!hasChild()) return 'ECHILD';
    if ((flags & W.NOHANG) !== 0) return answer(null);
    return context.waitFor({
      deadline: null,
      ready: () => found() !== null || !hasChild(),
      woken: () => {
        const now = found();
        context.answer(now ? take(now) : 'ECHILD');
      },
      restart: context.restarting(),
    });
  }

  /** `struct rusage`: two times, and fourteen words of which none is counted. */
  private usage(address: Address, instructions: bigint): boolean {
    const times = [instructions / SECOND, (instructions % SECOND) / 1000n];
    return this.context.storeNumbers(address, [...times, ...Array<bigint>(16).fill(0n)]);
  }

  private wait(id: number, place: Address, flags: number, usage: Address): Answer {
    if ((flags & ~WAIT_FLAGS) !== 0) return 'EINVAL';
    const own = this.context.identity.group;
    const matches = (child: Relative): boolean => {
      if (id > 0) return child.id === id;
      return id === -1 || child.group === (id === 0 ? own : -id);
    };
    return this.waitForChild(matches, flags | W.EXITED, (news) => {
      if (!news) return 0n;
      if (place !== 0n && !this.context.storeNumbers(place, [BigInt(waitStatus(news.change))], 4)) return 'EFAULT';
      if (usage !== 0n && !this.usage(usage, news.instructions)) return 'EFAULT';
      return BigInt(news.id);
    });
  }

  wait4(args: Arguments): Answer {
    return this.wait(int(arg(args, 0)), arg(args, 1), int(arg(args, 2)), arg(args, 3));
  }

  waitpid(args: Arguments): Answer {
    return this.wait(int(arg(args, 0)), arg(args, 1), int(arg(args, 2)), 0n);
  }

  waitid(args: Arguments): Answer {
    const { context } = this;
    const [type, id, info, flags] = [int(arg(args, 0)), int(arg(args, 1)), arg(args, 2), int(arg(args, 3))];
    const usage = arg(args, 4);
    const P = { ALL: 0, PID: 1, PGID: 2, PIDFD: 3 } as const;
    if ((flags & ~WAITID_FLAGS) !== 0 || (flags & (W.EXITED | W.UNTRACED | W.CONTINUED)) === 0) return 'EINVAL';
    if (type === P.PIDFD) {
      const process = id < 0 ? 'EINVAL' : context.descriptors.get(id);
      if (!(process instanceof ProcessDescription)) return process === 'EINVAL' ? process : 'EBADF';
      const hangs = process.isNonBlocking ? W.NOHANG : 0;
      const answer = this.waitid([1n, BigInt(process.id), info, BigInt(flags | hangs), usage]);
      if (hangs === 0 || (flags & W.NOHANG) !== 0 || answer !== 0n) return answer;
      return process.hasEnded() ? answer : 'EAGAIN';
    }
    if (type < 0 || type > P.PIDFD || (type === P.PID && id <= 0) || (type === P.PGID && id < 0)) return 'EINVAL';
    const group = id === 0 ? context.identity.group : id;
    const matches = (child: Relative): boolean =>
      type === P.ALL || (type === P.PID ? child.id === id : child.group === group);
    return this.waitForChild(matches, flags, (news) => {
      const bytes = news ? context.world.childInfo(context, SIGCHLD, news.id, news.change) : new Uint8Array(INFO_BYTES);
      if (info !== 0n && !context.store(info, bytes.subarray(0, INFO_BYTES))) return 'EFAULT';
      if (usage !== 0n && news && !this.usage(usage, news.instructions)) return 'EFAULT';
      return 0n;
    });
  }

  // -------------------------------------------------------------------------- groups and sessions

  private processOf(id: number): KnownProcess | null {
    const { world, identity } = this.context;
    return world.guests.find((each) => each.identity.id === (id === 0 ? identity.id : id)) ?? null;
  }

  getpgrp(): Answer {
    return BigInt(this.context.identity.group);
  }

  getpgid(args: Arguments): Answer {
    const process = this.processOf(int(arg(args, 0)));
    return process ? BigInt(process.identity.group) : 'ESRCH';
  }

  getsid(args: Arguments): Answer {
    const process = this.processOf(int(arg(args, 0)));
    return process ? BigInt(process.identity.session) : 'ESRCH';
  }

  setpgid(args: Arguments): Answer {
    const { world, identity } = this.context;
    const [id, group] = [int(arg(args, 0)), int(arg(args, 1))];
    if (group < 0 || (group === 0 && id < 0)) return 'EINVAL';
    const process = this.processOf(id);
    if (!process) return 'ESRCH';
    const own = process.identity;
    if (own.id !== identity.id && own.parent !== identity.id) return 'ESRCH';
    if (own.session === own.id || own.session !== identity.session) return 'EPERM';
    const wanted = group === 0 ? own.id : group;
    const isKnown = (each: KnownProcess): boolean =>
      each.identity.group === wanted && each.identity.session === identity.session;
    if (wanted !== own.id && !world.guests.some(isKnown)) return 'EPERM';
    own.group = wanted;
    return 0n;
  }

  setsid(): Answer {
    const { world, identity } = this.context;
    if (world.guests.some((each) => each.identity.group === identity.id)) return 'EPERM';
    identity.session = identity.id;
    identity.group = identity.id;
    return BigInt(identity.id);
  }

  // ------------------------------------------------------------------------ what a process is told

  prctl(args: Arguments): Answer {
    const { context } = this;
    const code = int(arg(args, 0));
    switch (code) {
      case PR.SET_NAME: {
        const bytes = context.machine.memory.readCString(arg(args, 1), 16) ?? context.load(arg(args, 1), 15);
        if (!bytes) return 'EFAULT';
        context.name = textOf(bytes.subarray(0, 15));
        return 0n;
      }
      case PR.GET_NAME: {
        const bytes = new Uint8Array(16);
        bytes.set(nameBytes(context.procSubject().name).subarray(0, 15));
        return storeOr(context.store(arg(args, 1), bytes));
      }
      case PR.GET_DUMPABLE:
        return 1n;
      case PR.SET_DUMPABLE:
        return arg(args, 1) <= 1n ? 0n : 'EINVAL';
      default:
        return this.rightsCode(code, args);
    }
  }

  /** Codes about what the process may do. */
  private rightsCode(code: number, args: Arguments): Answer {
    const { context } = this;
    const { standing } = context;
    const value = arg(args, 1);
    const hasOthers = args.slice(2, 5).some((each) => each !== 0n);
    switch (code) {
      case PR.SET_PDEATHSIG:
        if (value > 64n) return 'EINVAL';
        standing.deathSignal = Number(value);
        return 0n;
      case PR.GET_PDEATHSIG:
        return storeOr(context.storeNumbers(value, [BigInt(standing.deathSignal)], 4));
      case PR.GET_KEEPCAPS:
        return standing.keepsCapabilities ? 1n : 0n;
      case PR.SET_KEEPCAPS:
        if (value > 1n) return 'EINVAL';
        standing.keepsCapabilities = value === 1n;
        return 0n;
      case PR.SET_NO_NEW_PRIVS:
        if (value !== 1n || hasOthers) return 'EINVAL';
        standing.hasNoNewPrivileges = true;
        return 0n;
      case PR.GET_NO_NEW_PRIVS:
        return value !== 0n || hasOthers ? 'EINVAL' : standing.hasNoNewPrivileges ? 1n : 0n;
      case PR.CAPBSET_READ:
        return value < CAPABILITIES ? 1n : 'EINVAL';
      case PR.CAPBSET_DROP:
      case PR.SET_MM:
        return 'EPERM';
      case PR.GET_SECUREBITS:
        return 0n;
      case PR.SET_THP_DISABLE:
        if (hasOthers) return 'EINVAL';
        standing.hasNoHugePages = value !== 0n;
        return 0n;
      case PR.GET_THP_DISABLE:
        return value !== 0n || hasOthers ? 'EINVAL' : standing.hasNoHugePages ? 1n : 0n;
      case PR.SET_TIMERSLACK:
        // 0, or what is no positive number, is what a process begins with.
        standing.timerSlack = BigInt.asIntN(64, value) <= 0n ? standing.firstSlack : value;
        return 0n;
      case PR.GET_TIMERSLACK:
        return standing.timerSlack;
      case PR.CAP_AMBIENT:
        return ambient(args);
      // Without CONFIG_SECCOMP, CONFIG_ANON_VMA_NAME, and without Yama.
      case PR.GET_SECCOMP:
      case PR.SET_SECCOMP:
      case PR.SET_VMA:
      case PR.SET_PTRACER:
        return 'EINVAL';
      default:
        if (code >= 1 && code <= PR_MOST) context.deviate('process-codes');
        return 'EINVAL';
    }
  }

  /**
   * What the process and the children that it waited for have used: its own instructions are known.
   */
  getrusage(args: Arguments): Answer {
    const who = int(arg(args, 0));
    if (who < -1 || who > 1) return 'EINVAL';
    const own = who === -1 ? 0n : BigInt(this.context.machine.totalInstructions);
    return storeOr(this.usage(arg(args, 1), own));
  }

  times(args: Arguments): Answer {
    const { context } = this;
    const used = (BigInt(context.machine.totalInstructions) * TICKS) / SECOND;
    const now = (context.machine.time * TICKS) / SECOND;
    const place = arg(args, 0);
    return storeOr(place === 0n || context.storeNumbers(place, [used, 0n, 0n, 0n]), now);
  }

  /** There is one CPU, and one node. */
  getcpu(args: Arguments): Answer {
    const places = [arg(args, 0), arg(args, 1)].filter((each) => each !== 0n);
    return storeOr(places.every((each) => this.context.storeNumbers(each, [0n], 4)));
  }

  /** MEMBARRIER_CMD_QUERY, and barriers: threads take turns, so that each sees all. */
  membarrier(args: Arguments): Answer {
    const [command, flags] = [int(arg(args, 0)), int(arg(args, 1))];
    const COMMANDS = 0x1f;
    if (flags !== 0) return 'EINVAL';
    if (command === 0) return BigInt(COMMANDS);
    const { standing } = this.context;
    if (command === BARRIER.REGISTER) standing.hasBarrier = true;
    if (command === BARRIER.PRIVATE && !standing.hasBarrier) return 'EPERM';
    return (command & (command - 1)) === 0 && (command & ~COMMANDS) === 0 ? 0n : 'EINVAL';
  }

  getgroups(args: Arguments): Answer {
    const [count, place] = [int(arg(args, 0)), arg(args, 1)];
    if (count < 0) return 'EINVAL';
    return count === 0 ? 1n : storeOr(this.context.storeNumbers(place, [USER], 4), 1n);
  }

  getresuid(args: Arguments): Answer {
    return storeOr([0, 1, 2].every((i) => this.context.storeNumbers(arg(args, i), [USER], 4)));
  }
}

/** MEMBARRIER_CMD_PRIVATE_EXPEDITED and its registration. Source: Linux uapi/linux/membarrier.h. */
const BARRIER = { PRIVATE: 8, REGISTER: 16 } as const;

/** Of the permissions of a file. */
const OWNER_EXECUTE = 0o100;
const INFO_BYTES = 128;
const USER = 1000n;

/** PR_CAP_AMBIENT: no capability is, nor may be. */
function ambient(args: Arguments): Answer {
  const [IS_SET, RAISE, LOWER, CLEAR_ALL] = [1n, 2n, 3n, 4n];
  const [what, capability] = [arg(args, 1), arg(args, 2)];
  if (what === CLEAR_ALL) return args.slice(2, 5).every((each) => each === 0n) ? 0n : 'EINVAL';
  const isOne = what === IS_SET || what === RAISE || what === LOWER;
  if (!isOne || capability >= CAPABILITIES || arg(args, 3) !== 0n || arg(args, 4) !== 0n) return 'EINVAL';
  return what === RAISE ? 'EPERM' : 0n;
}

/** The status that `wait4` stores. */
function waitStatus(change: ChildChange): number {
  switch (change.kind) {
    case 'exit':
      return change.code << 8;
    case 'signal':
      return change.signal;
    case 'stopped':
      return (change.signal << 8) | 0x7f;
    case 'continued':
      return 0xffff;
    default:
      return change satisfies never;
  }
}
