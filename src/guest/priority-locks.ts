/**
 * Locks with priority inheritance: the word names the thread that has the lock, and a thread that
 * gives it up hands it to the one that has waited longest. All threads have one priority here, so
 * nothing is inherited, and what is left is who has the lock.
 *
 * Source: Linux, futex(2), kernel/futex/pi.c, locking/pi-futex.rst.
 */
import type { Answer, CallContext } from './call-context.js';
import type { Errno } from './errno.js';
import { checkWord, isSame, OWNER, OWNER_DIED, WAITERS, type Word, wordAt } from './futex-words.js';
import type { Address } from '../units.js';

/** A process that makes the calls, and all there are. */
export interface LockContext extends CallContext {
  readonly world: { readonly guests: readonly Pick<CallContext, 'signals'>[] };
}

interface Waiter {
  readonly thread: number;
  hasLock: boolean;
}

/** A lock that threads wait for. */
interface Lock {
  readonly word: Word;
  /** Who has it, whatever the word says meanwhile. */
  owner: number;
  waiters: readonly Waiter[];
  /** Its owner has ended: the next one finds that in the word, which it writes itself. */
  isLeft: boolean;
}

const isAlive = ({ world }: LockContext, id: number): boolean =>
  world.guests.some(({ signals }) => signals.threads.some((each) => each.id === id));

export class PriorityLocks {
  private locks: readonly Lock[] = [];

  save(): () => void {
    const { locks } = this;
    const saved = locks.map((lock) => {
      const waiters = lock.waiters.map((each) => ({ ...each }));
      return { lock, fields: { ...lock }, waiters };
    });
    return () => {
      for (const { lock, fields, waiters } of saved) {
        Object.assign(lock, fields);
        lock.waiters.forEach((each, i) => Object.assign(each, waiters[i]));
      }
      this.locks = locks;
    };
  }

  private at(word: Word): Lock | null {
    return this.locks.find((each) => isSame(each.word, word)) ?? null;
  }

  /** True when one thread waits, over others, for what another has. */
  private waitsFor(thread: number, owner: number): boolean {
    const lock = this.locks.find(({ waiters }) => waiters.some((each) => each.thread === thread && !each.hasLock));
    if (!lock) return false;
    return lock.owner === owner || this.waitsFor(lock.owner, owner);
  }

  /**
   * Takes the lock, or waits for it until `deadline` (null: for ever); `tries`: it does not wait.
   */
  lock(
    context: LockContext,
    address: Address,
    isPrivate: boolean,
    { deadline, tries }: { readonly deadline: bigint | null; readonly tries: boolean },
  ): Answer {
    const wrong = checkWord(context, address, true);
    if (wrong !== null) return wrong;
    const self = context.signals.thread.id;
    const value = context.loadNumber(address, 4)!;
    const owner = Number(value & OWNER);
    if (owner === self) return 'EDEADLK';
    const word = wordAt(context, address, isPrivate);
    const there = this.at(word);
    if (!there && owner === 0) {
      return context.storeNumbers(address, [(value & OWNER_DIED) | BigInt(self)], 4) ? 0n : 'EFAULT';
    }
    if (!context.storeNumbers(address, [value | WAITERS], 4)) return 'EFAULT';
    if (!there && !isAlive(context, owner)) return 'ESRCH';
    if (tries) return 'EAGAIN';
    const now = there?.owner ?? owner;
    if (now === self || this.waitsFor(now, self)) return 'EDEADLK';
    if (deadline !== null && deadline <= context.machine.time) return 'ETIMEDOUT';
    return this.wait(context, address, there ?? this.add({ word, owner, waiters: [], isLeft: false }), deadline);
  }

  private add(lock: Lock): Lock {
    this.locks = [...this.locks, lock];
    return lock;
  }

  private wait(context: LockContext, address: Address, lock: Lock, deadline: bigint | null): Answer {
    const { id } = context.signals.thread;
    const waiter: Waiter = { thread: id, hasLock: false };
    lock.waiters = [...lock.waiters, waiter];
    const restart = context.restarting();
    return context.waitFor({
      deadline,
      ready: () => waiter.hasLock,
      woken: () => {
        const left = lock.isLeft ? OWNER_DIED : 0n;
        if (left !== 0n) context.storeNumbers(address, [left | WAITERS | BigInt(id)], 4);
        lock.isLeft = false;
        context.answer(0n);
      },
      expired: () => {
        context.answer('ETIMEDOUT');
      },
      // It is made again behind every handler.
      interrupted: restart,
      restart,
      over: () => {
        this.leave(lock, waiter);
      },
    });
  }

  private leave(lock: Lock, waiter: Waiter): void {
    lock.waiters = lock.waiters.filter((each) => each !== waiter);
    if (lock.waiters.length === 0) this.locks = this.locks.filter((each) => each !== lock);
  }

  /** Gives it to who has waited longest; that thread leaves the lock when it goes on. */
  private hand(lock: Lock): Waiter | null {
    const next = lock.waiters.find((each) => !each.hasLock);
    if (!next) return null;
    next.hasLock = true;
    lock.owner = next.thread;
    return next;
  }

  unlock(context: LockContext, address: Address, isPrivate: boolean): bigint | Errno {
    const wrong = checkWord(context, address, true);
    if (wrong !== null) return wrong;
    const self = context.signals.thread.id;
    if (Number(context.loadNumber(address, 4)! & OWNER) !== self) return 'EPERM';
    const lock = this.at(wordAt(context, address, isPrivate));
    const next = lock && this.hand(lock);
    return context.storeNumbers(address, [next ? WAITERS | BigInt(next.thread) : 0n], 4) ? 0n : 'EFAULT';
  }

  /** A thread has ended: it waits for nothing, and what it had is the next one's. */
  ended(thread: number): void {
    for (const lock of this.locks) {
      for (const each of lock.waiters) if (each.thread === thread) this.leave(lock, each);
      if (lock.owner === thread && this.hand(lock)) lock.isLeft = true;
    }
  }
}
