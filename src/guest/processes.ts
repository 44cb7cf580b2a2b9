/**
 * What processes and the world that owns them know of each other, as far as system calls are about
 * both: types, and how a process begins. A process is `Guest` (`guest.ts`), the world is `World`
 * (`world.ts`).
 */
import type { Abi } from '../machine/abi.js';
import type { IrEmulation, ProcessModel } from '../machine/emulation.js';
import type { Address } from '../units.js';
import type { AddressSpace } from './address-space.js';
import type { CallContext } from './call-context.js';
import type { FileLocks } from './file-locks.js';
import type { FollowedFiles } from './followed-files.js';
import type { Futexes } from './futex.js';
import type { Ipc } from './ipc.js';
import type { LoadedProgram, ProcessImage } from './load.js';
import type { GuestPaths } from './guest-paths.js';
import type { FileMemory } from './memory-file.js';
import type { Network } from './network.js';
import type { SharedMemory } from './shared-memory.js';
import type { Terminals } from './terminals.js';
import type { ChildChange, Ending, Relative } from './halt.js';
import type { Thread } from './thread.js';

/** User and group of every process. */
export const USER = 1000n;

/**
 * The parent of processes whose own has ended, and of the first: one of another user, which is
 * known by its number and by what every new process has.
 */
export const INIT = 1;

/** A process that has ended and was not waited for. */
export interface Zombie extends Relative {
  readonly ending: Ending;
  readonly instructions: bigint;
}

/** Who a process is, as it and others see it. */
export interface Identity {
  readonly id: number;
  parent: number;
  group: number;
  session: number;
  /** The signal that tells its parent that it has ended; 0: none. */
  readonly exitSignal: number;
}

/** What a process may do, as far as it can change that; a new one has what its maker had. */
export interface Standing {
  /** -20 to 19. */
  nice: number;
  /** That of the scheduler. */
  policy: number;
  /** Limits that were set, by resource: soft and hard. */
  limits: ReadonlyMap<number, readonly [bigint, bigint]>;
  /** PR_SET_NO_NEW_PRIVS. */
  hasNoNewPrivileges: boolean;
  /** PR_SET_KEEPCAPS. */
  keepsCapabilities: boolean;
  /** PR_SET_THP_DISABLE. */
  hasNoHugePages: boolean;
  /** PR_SET_TIMERSLACK, in nanoseconds. */
  timerSlack: bigint;
  /** What it was when the process began. */
  firstSlack: bigint;
  /** It has registered for barriers of its own threads (`membarrier`). */
  hasBarrier: boolean;
  /** PR_SET_PDEATHSIG; 0: none. A new process has none. */
  deathSignal: number;
  /** How soon its files are served: class and level, as `ioprio_get` tells them. */
  diskPriority: number;
  /** What `personality` set. */
  personality: bigint;
}

const TIMER_SLACK = 50_000n;

export const FIRST_STANDING: Standing = {
  nice: 0,
  policy: 0,
  limits: new Map(),
  hasNoNewPrivileges: false,
  keepsCapabilities: false,
  hasNoHugePages: false,
  timerSlack: TIMER_SLACK,
  firstSlack: TIMER_SLACK,
  hasBarrier: false,
  deathSignal: 0,
  diskPriority: 0,
  personality: 0n,
};

/** What a process executes, for `/proc/self`. */
export interface ProgramFacts {
  /** Its path in the tree. */
  readonly path: string;
  /** How the file was called that was executed: a script also, whose interpreter this is. */
  readonly name: string;
  readonly args: readonly string[];
  readonly env: readonly string[];
  readonly auxiliary: LoadedProgram['auxiliary'];
}

export interface ForkRequest {
  readonly id: number;
  readonly exitSignal: number;
  /** It shares the memory of its maker. */
  readonly isShared: boolean;
}

/** What a new thread, or the first of a new process, is to be. */
export interface CloneRequest {
  readonly flags: bigint;
  /** 0: as in the one that makes it. */
  readonly stack: Address;
  readonly parentId: Address;
  /** Where the number of a descriptor of the process is stored (CLONE_PIDFD). */
  readonly descriptor: Address;
  readonly childId: Address;
  readonly tls: bigint;
  /** The signal that tells the parent of a process that it has ended. */
  readonly exitSignal: number;
}

/** The threads of a process, as calls about processes need them. */
export interface ProcessThreads {
  /** The first thread of a process that was made as a copy. */
  beginAs(request: CloneRequest): void;
  /** A thread leaves the memory that it executed in. */
  left(thread: Thread): void;
  /** All threads but the running one end. */
  exec(): void;
}

/** A process, as others and its own calls know it. */
export interface KnownProcess extends CallContext {
  readonly world: ProcessWorld;
  readonly identity: Identity;
  readonly standing: Standing;
  readonly threads: ProcessThreads;
  restarts(): void;
  readonly paths: Pick<
    GuestPaths,
    'changes' | 'directory' | 'inTree' | 'mask' | 'nodePath' | 'pathAt' | 'refusedAt' | 'status' | 'textAt'
  >;
  space: AddressSpace;
  program: ProgramFacts;
  /** PR_SET_NAME; null: that of the program. */
  name: string | null;
  /** `release` is called when the process ends or becomes another program. */
  whenReleased(release: () => void): void;
  released(): void;
}

/** The world, as system calls know it. */
export interface ProcessWorld {
  readonly abi: Pick<Abi, 'stackPointer' | 'syscall'>;
  readonly emulation: IrEmulation;
  readonly model: ProcessModel;
  readonly files: FollowedFiles;
  readonly wordBytes: 4 | 8;
  readonly guests: readonly KnownProcess[];
  zombies: readonly Zombie[];
  /** Programs can be executed. */
  readonly loadsPrograms: boolean;
  /** There is more than one process. */
  readonly isShared: boolean;
  readonly hasBirths: boolean;
  /** The last id that a process or thread was given. */
  readonly lastId: number;
  nextId(): number;
  nextInode(): number;
  randomBytes(size: number): Uint8Array;
  isZombie(id: number): boolean;
  programIn(bytes: Uint8Array): ProcessImage | null;
  readonly futexes: Futexes;
  readonly sharing: SharedMemory;
  readonly locks: FileLocks;
  readonly network: Network;
  readonly terminals: Terminals;
  readonly ipc: Ipc;
  /** The process that runs. */
  readonly current: KnownProcess;
  /** What the wall clock showed when the run began: nanoseconds since 1970. */
  readonly date: bigint;
  readonly time: bigint;
  /** That all processes have executed. */
  readonly instructions: number;
  readonly fileMemory: FileMemory;
  hasRoom(maker: KnownProcess, isShared: boolean): boolean;
  fork(maker: KnownProcess, request: ForkRequest): KnownProcess;
  leaveMemory(process: KnownProcess): void;
  replaced(process: KnownProcess): void;
  /** `siginfo` about what has become of a child. */
  childInfo(to: KnownProcess, signal: number, id: number, change: ChildChange): Uint8Array;
  /** The parent of a process learns that it has stopped, or goes on. */
  tellParent(of: KnownProcess, change: ChildChange): void;
  whenDone(birth: () => void): void;
  giveWay(): void;
}

/** A process of the run by its id, or by that of one of the caller's threads; 0: the caller. */
export function processWith(context: KnownProcess, id: number): KnownProcess | null {
  if (id === 0 || context.signals.find(id)) return context;
  return context.world.guests.find((each) => each.identity.id === id) ?? null;
}
