/**
 * System calls that lock files.
 *
 * Source: Linux, fcntl(2), flock(2), asm-generic/fcntl.h.
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import { type Description, FileDescription } from './descriptions.js';
import type { Errno } from './errno.js';
import type { LockOwner, LockRequest } from './file-locks.js';
import { putNumber } from './files.js';
import type { MemoryFile } from './memory-file.js';
import type { KnownProcess } from './processes.js';
import type { Address } from '../units.js';

/** Commands of `fcntl`; those with 64 in their names are of targets with words of 32 bits. */
const COMMANDS: ReadonlyMap<number, { readonly does: 'get' | 'set' | 'wait'; readonly of: 'process' | 'description'; readonly isWide: boolean }> = new Map([
  [5, { does: 'get', of: 'process', isWide: false }],
  [6, { does: 'set', of: 'process', isWide: false }],
  [7, { does: 'wait', of: 'process', isWide: false }],
  [12, { does: 'get', of: 'process', isWide: true }],
  [13, { does: 'set', of: 'process', isWide: true }],
  [14, { does: 'wait', of: 'process', isWide: true }],
  [36, { does: 'get', of: 'description', isWide: true }],
  [37, { does: 'set', of: 'description', isWide: true }],
  [38, { does: 'wait', of: 'description', isWide: true }],
]); // prettier-ignore

const TYPE = { READ: 0, WRITE: 1, NONE: 2 } as const;
const LOCK = { SHARED: 1, EXCLUSIVE: 2, NON_BLOCKING: 4, NONE: 8 } as const;
/** Largest offset of a file. */
const MOST = 2 ** 63;

/** The number of what is locked; what is no file of the tree has numbers of its own. */
export function lockedInode(description: Description): number {
  return description instanceof FileDescription ? description.inode : -1 - description.status.inode;
}

export type LockCallName = 'flock';

export class LockCalls implements Readonly<Record<LockCallName, Service>> {
  constructor(private readonly context: KnownProcess) {}

  /** True when a process has mapped a file so that it may store there. */
  isMappedForWriting(file: MemoryFile): boolean {
    return this.context.world.guests.some(({ space }) =>
      space.shared.some((each) => each.mayWrite && each.object.isOf(file)),
    );
  }

  /** Waits for what is in the way, or says so; null: the lock is the owner's. */
  private take(wanted: LockRequest, waits: boolean, refusal: Errno): Answer {
    const { locks } = this.context.world;
    const attempt = (): bigint | Errno | null => {
      const other = locks.conflict(wanted);
      if (!other) {
        locks.lock(wanted);
        return 0n;
      }
      // Whole files are not looked at for circles.
      return wanted.isWhole || locks.wait(wanted.owner, other.owner) ? null : 'EDEADLK';
    };
    const isFree = (): boolean => locks.conflict(wanted) === null;
    if (!waits) return isFree() ? attempt()! : refusal;
    const over = (): void => {
      locks.stopWaiting(wanted.owner);
    };
    return attempt() ?? this.context.retry(isFree, attempt, { over });
  }

  /** `struct flock`: type, whence, first byte, length, process. */
  private lockAt(
    address: Address,
    description: Description,
    isWide: boolean,
  ): { readonly type: number; readonly from: number; readonly to: number; readonly process: number } | Errno {
    const { context } = this;
    const [at, size] = this.layout(isWide);
    const type = context.loadNumber(address, 2);
    const whence = context.loadNumber(address + 2n, 2);
    const [start, length] = [0n, 1n].map((i) => context.loadNumber(address + at + i * BigInt(size), size));
    const process = context.loadNumber(address + at + 2n * BigInt(size), 4);
    if (type === null || whence === null || process === null) return 'EFAULT';
    if (start === null || start === undefined || length === null || length === undefined) return 'EFAULT';
    const isFile = description instanceof FileDescription;
    const bases = isFile ? [0, description.position, description.status.sizeBytes] : [0, 0, 0];
    const base = bases[Number(whence)];
    if (base === undefined) return 'EINVAL';
    const first = base + Number(BigInt.asIntN(8 * size, start));
    const count = Number(BigInt.asIntN(8 * size, length));
    const [from, to] = count < 0 ? [first + count, first] : [first, count === 0 ? Infinity : first + count];
    if (from < 0) return 'EINVAL';
    if (from >= MOST || (to !== Infinity && to > MOST)) return 'EOVERFLOW';
    return { type: int(type), from, to, process: int(process) };
  }

  /** Where the first byte stands in `struct flock`, and the size of offsets. */
  private layout(isWide: boolean): readonly [at: bigint, size: 4 | 8] {
    return isWide || this.context.wordBytes === 8 ? [8n, 8] : [4n, 4];
  }

  /** A command of `fcntl` about locks; null: it is none. */
  command(description: Description, command: number, address: Address): Answer | null {
    const { context } = this;
    const row = COMMANDS.get(command);
    if (!row || (context.wordBytes === 8 && command >= 12 && command <= 14)) return null;
    const found = this.lockAt(address, description, row.isWide);
    if (typeof found === 'string') return found;
    const { type, from, to, process } = found;
    if (type < TYPE.READ || type > TYPE.NONE || (row.does === 'get' && type === TYPE.NONE)) return 'EINVAL';
    if (row.of === 'description' && process !== 0) return 'EINVAL';
    const owner: LockOwner = row.of === 'process' ? context.identity.id : description;
    const wanted = {
      inode: lockedInode(description),
      owner,
      isWhole: false,
      isExclusive: type === TYPE.WRITE,
      from,
      to,
    };
    if (row.does === 'get') return this.tell(wanted, address, row.isWide);
    if (type === TYPE.NONE) {
      context.world.locks.unlock(wanted);
      return 0n;
    }
    if (type === TYPE.READ ? !description.isReadable : !description.isWritable) return 'EBADF';
    return this.take(wanted, row.does === 'wait', 'EAGAIN');
  }

  /** Stores what is in the way of a lock, or that nothing is. */
  private tell(wanted: LockRequest, address: Address, isWide: boolean): bigint | Errno {
    const { context } = this;
    const other = context.world.locks.conflict(wanted);
    if (!other) return context.storeNumbers(address, [BigInt(TYPE.NONE)], 2) ? 0n : 'EFAULT';
    const [at, size] = this.layout(isWide);
    const bytes = new Uint8Array(Number(at) + 2 * size + 4);
    const put = (place: number, width: number, value: number): void => {
      putNumber(bytes, place, width, BigInt.asUintN(8 * width, BigInt(value)), context.endian);
    };
    put(0, 2, other.isExclusive ? TYPE.WRITE : TYPE.READ);
    put(Number(at), size, other.from);
    put(Number(at) + size, size, other.to === Infinity ? 0 : other.to - other.from);
    put(Number(at) + 2 * size, 4, typeof other.owner === 'number' ? other.owner : -1);
    return context.store(address, bytes) ? 0n : 'EFAULT';
  }

  flock(args: Arguments): Answer {
    const { descriptors, world } = this.context;
    const description = descriptors.get(int(arg(args, 0)));
    if (!description) return 'EBADF';
    const operation = int(arg(args, 1));
    const kind = operation & ~LOCK.NON_BLOCKING;
    if (kind !== LOCK.SHARED && kind !== LOCK.EXCLUSIVE && kind !== LOCK.NONE) return 'EINVAL';
    const whole = { inode: lockedInode(description), owner: description, isWhole: true, from: 0, to: Infinity };
    if (kind === LOCK.NONE) {
      world.locks.unlock(whole);
      return 0n;
    }
    const wanted = { ...whole, isExclusive: kind === LOCK.EXCLUSIVE };
    // A lock of the other kind is given up first.
    if (world.locks.conflict(wanted)) world.locks.unlock(whole);
    return this.take(wanted, (operation & LOCK.NON_BLOCKING) === 0, 'EAGAIN');
  }
}
