/**
 * Locks on ranges of files (`fcntl`) and on whole files (`flock`). Those of a process end when it
 * closes any descriptor of the file, those of a description with it. The two kinds do not see each
 * other.
 *
 * Source: Linux, fcntl(2), flock(2), fs/locks.c.
 */
import type { Description } from './descriptions.js';

/** Who holds a lock: a process, by its id, or a description. */
export type LockOwner = number | Description;

interface Lock {
  readonly inode: number;
  readonly owner: LockOwner;
  readonly isWhole: boolean;
  readonly isExclusive: boolean;
  /** Bytes of the file; Infinity: to its end, wherever that will be. */
  readonly from: number;
  readonly to: number;
}

export type LockRequest = Lock;

export class FileLocks {
  private locks: readonly Lock[] = [];
  /** Who waits for whom. */
  private waits: ReadonlyMap<LockOwner, LockOwner> = new Map();

  /** A lock of another that is in the way; null: there is none. */
  conflict(wanted: LockRequest): Lock | null {
    const isInTheWay = (each: Lock): boolean =>
      each.inode === wanted.inode &&
      each.isWhole === wanted.isWhole &&
      each.owner !== wanted.owner &&
      (each.isExclusive || wanted.isExclusive) &&
      each.from < wanted.to &&
      each.to > wanted.from;
    const found = this.locks.filter(isInTheWay).sort((a, b) => a.from - b.from);
    return found[0] ?? null;
  }

  /** Takes a range out of the locks of an owner. */
  unlock({ inode, owner, isWhole, from, to }: Omit<LockRequest, 'isExclusive'>): void {
    this.locks = this.locks.flatMap((each) => {
      const isHit = each.inode === inode && each.owner === owner && each.isWhole === isWhole;
      if (!isHit || each.from >= to || each.to <= from) return [each];
      const parts = [
        { ...each, to: from },
        { ...each, from: to },
      ];
      return parts.filter((part) => part.from < part.to);
    });
  }

  /** Nothing is in the way: the owner has the lock, in place of what it had there. */
  lock(wanted: LockRequest): void {
    this.unlock(wanted);
    this.locks = [...this.locks, wanted];
  }

  /** `owner` waits for a lock of another; false: that one waits for it, as far as processes do. */
  wait(owner: LockOwner, other: LockOwner): boolean {
    for (let at: LockOwner | undefined = other; at !== undefined; at = this.waits.get(at)) {
      if (at === owner) return false;
    }
    this.waits = new Map([...this.waits, [owner, other]]);
    return true;
  }

  stopWaiting(owner: LockOwner): void {
    this.waits = new Map([...this.waits].filter(([each]) => each !== owner));
  }

  /** A process has closed a descriptor of a file. */
  closed(process: number, description: Description, inode: number): void {
    const isOver = ({ owner, inode: file }: Lock): boolean =>
      (owner === process && file === inode) || (owner === description && !description.isOpen);
    if (this.locks.some(isOver)) this.locks = this.locks.filter((each) => !isOver(each));
  }

  save(): () => void {
    const { locks, waits } = this;
    return () => {
      Object.assign(this, { locks, waits });
    };
  }
}
