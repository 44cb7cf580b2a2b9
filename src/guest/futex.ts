/**
 * Futexes: threads that sleep until others wake them by the address of a word. A word is found by
 * its address in the machine's memory, and one that processes share by its place in what they share
 * (unless the call says that it is private). Waiters are woken in the order in which they came.
 *
 * Source: Linux, futex(2), uapi/linux/futex.h, locking/robust-futexes.rst.
 */
import { type Answer, arg, type Arguments, type CallContext } from './call-context.js';
import { checkWord, isSame, OWNER, OWNER_DIED, WAITERS, type Word, wordAt } from './futex-words.js';
import { checkTime, deadlineOf } from './guest-times.js';
import { type LockContext, PriorityLocks } from './priority-locks.js';
import type { Thread } from './thread.js';
import type { Address } from '../units.js';

const FUTEX = {
  ...{ WAIT: 0, WAKE: 1, REQUEUE: 3, CMP_REQUEUE: 4, WAKE_OP: 5 },
  ...{ LOCK: 6, UNLOCK: 7, TRY: 8, WAIT_BITSET: 9, WAKE_BITSET: 10, LOCK2: 13 },
} as const;
const PRIVATE = 0x80n;
const CLOCK_REALTIME = 0x100n;
/** WAIT_REQUEUE_PI, CMP_REQUEUE_PI: waiting that ends with a lock. */
const REQUEUED = new Set([11, 12]);
const ALL_BITS = 0xffff_ffffn;
/** Most locks of a list that are looked at. */
const ROBUST_MOST = 2048;

interface Waiter {
  word: Word;
  readonly bits: bigint;
  isWoken: boolean;
}

export class Futexes {
  /** In the order in which they came. */
  private waiters: readonly Waiter[] = [];
  private readonly priority = new PriorityLocks();

  save(): () => void {
    const { waiters } = this;
    const saved = waiters.map((each) => ({ ...each }));
    const putLocksBack = this.priority.save();
    return () => {
      putLocksBack();
      waiters.forEach((each, i) => Object.assign(each, saved[i]));
      this.waiters = waiters;
    };
  }

  private remove(waiter: Waiter): void {
    this.waiters = this.waiters.filter((each) => each !== waiter);
  }

  /** Wakes waiters at a word, at most `count`; how many that were. */
  private wake(word: Word, count: number, bits = ALL_BITS): number {
    let woken = 0;
    for (const each of this.waiters) {
      if (woken >= count) break;
      if (!isSame(each.word, word) || (each.bits & bits) === 0n) continue;
      each.isWoken = true;
      woken++;
    }
    if (woken > 0) this.waiters = this.waiters.filter((each) => !each.isWoken);
    return woken;
  }

  /** Moves waiters, at most `count`, behind those at another address. */
  private requeue(from: Word, to: Word, count: number): number {
    const moved = this.waiters.filter((each) => isSame(each.word, from)).slice(0, count);
    for (const each of moved) each.word = to;
    this.waiters = [...this.waiters.filter((each) => !moved.includes(each)), ...moved];
    return moved.length;
  }

  /** The system call. `words`: size of the words of its time. */
  call(context: LockContext, args: Arguments, words: 4 | 8): Answer {
    const operation = BigInt.asUintN(32, arg(args, 1));
    const command = Number(operation & ~(PRIVATE | CLOCK_REALTIME));
    const isRealTime = (operation & CLOCK_REALTIME) !== 0n;
    if (REQUEUED.has(command)) {
      context.deviate('futex-priority');
      return 'ENOSYS';
    }
    // The clock is checked before anything else.
    if (isRealTime && command !== FUTEX.WAIT_BITSET && command !== FUTEX.LOCK2) return 'ENOSYS';
    const address = arg(args, 0);
    const isShared = (operation & PRIVATE) === 0n;
    switch (command) {
      case FUTEX.WAIT:
        return this.wait(context, args, words, ALL_BITS);
      case FUTEX.WAIT_BITSET:
        return this.wait(context, args, words, BigInt.asUintN(32, arg(args, 5)));
      case FUTEX.WAKE:
      case FUTEX.WAKE_BITSET: {
        const bits = command === FUTEX.WAKE ? ALL_BITS : BigInt.asUintN(32, arg(args, 5));
        if (bits === 0n) return 'EINVAL';
        const wrong = checkWord(context, address, isShared);
        return wrong ?? BigInt(this.wake(wordAt(context, address, !isShared), countOf(arg(args, 2)), bits));
      }
      case FUTEX.REQUEUE:
      case FUTEX.CMP_REQUEUE:
        return this.moveWaiters(context, args, isShared, command === FUTEX.CMP_REQUEUE);
      case FUTEX.WAKE_OP:
        return this.wakeAndChange(context, args, isShared);
      case FUTEX.LOCK:
      case FUTEX.LOCK2:
        return this.lock(context, args, words, command === FUTEX.LOCK || isRealTime);
      case FUTEX.TRY:
        return this.priority.lock(context, address, !isShared, { deadline: null, tries: true });
      case FUTEX.UNLOCK:
        return this.priority.unlock(context, address, !isShared);
      default:
        return 'ENOSYS';
    }
  }

  private lock(context: LockContext, args: Arguments, words: 4 | 8, isWall: boolean): Answer {
    const [address, time] = [arg(args, 0), arg(args, 3)];
    const deadline = time === 0n ? null : deadlineOf(context, time, words, isWall ? context.date : 0n);
    if (typeof deadline === 'string') return deadline;
    const isPrivate = (arg(args, 1) & PRIVATE) !== 0n;
    return this.priority.lock(context, address, isPrivate, { deadline, tries: false });
  }

  private wait(context: CallContext, args: Arguments, words: 4 | 8, bits: bigint): Answer {
    const [address, wanted, time] = [arg(args, 0), arg(args, 2), arg(args, 3)];
    // The time is checked before the word.
    const wrong = time === 0n ? null : checkTime(context, time, words);
    if (wrong !== null) return wrong;
    if (bits === 0n || address % 4n !== 0n) return 'EINVAL';
    const value = context.loadNumber(address, 4);
    if (value === null) return 'EFAULT';
    if (value !== BigInt.asUintN(32, wanted)) return 'EAGAIN';
    const operation = BigInt.asUintN(32, arg(args, 1));
    const isAbsolute = (operation & 0x7fn) === BigInt(FUTEX.WAIT_BITSET);
    const origin = (operation & CLOCK_REALTIME) !== 0n ? context.date : 0n;
    const deadline = time === 0n ? null : deadlineOf(context, time, words, isAbsolute ? origin : null);
    if (typeof deadline === 'string') return deadline;
    if (deadline !== null && deadline <= context.machine.time) return 'ETIMEDOUT';
    const isPrivate = (operation & PRIVATE) !== 0n;
    const waiter: Waiter = { word: wordAt(context, address, isPrivate), bits, isWoken: false };
    this.waiters = [...this.waiters, waiter];
    return context.waitFor({
      deadline,
      ready: () => waiter.isWoken,
      woken: () => {
        context.answer(0n);
      },
      expired: () => {
        context.answer('ETIMEDOUT');
      },
      // With a time it is made again only where no handler ran.
      restart: deadline === null ? context.restarting() : null,
      over: () => {
        this.remove(waiter);
      },
    });
  }

  private moveWaiters(context: CallContext, args: Arguments, isShared: boolean, compares: boolean): Answer {
    const [from, to] = [arg(args, 0), arg(args, 4)];
    const [woken, moved] = [BigInt.asIntN(32, arg(args, 2)), BigInt.asIntN(32, arg(args, 3))];
    if (woken < 0n || moved < 0n) return 'EINVAL';
    const wrong = checkWord(context, from, isShared || compares) ?? checkWord(context, to, isShared);
    if (wrong !== null) return wrong;
    if (compares && context.loadNumber(from, 4) !== BigInt.asUintN(32, arg(args, 5))) return 'EAGAIN';
    const [first, second] = [wordAt(context, from, !isShared), wordAt(context, to, !isShared)];
    const count = this.wake(first, Number(woken));
    return BigInt(count + this.requeue(first, second, Number(moved)));
  }

  /** Changes the second word, wakes at the first, and at the second as its old value says. */
  private wakeAndChange(context: CallContext, args: Arguments, isShared: boolean): Answer {
    const [first, second, code] = [arg(args, 0), arg(args, 4), BigInt.asUintN(32, arg(args, 5))];
    const wrong = checkWord(context, first, isShared) ?? checkWord(context, second, true);
    if (wrong !== null) return wrong;
    const old = context.loadNumber(second, 4)!;
    const [operation, comparison] = [Number((code >> 28n) & 7n), Number((code >> 24n) & 15n)];
    const signed = (value: bigint): bigint => BigInt.asIntN(12, value);
    const shifts = code >> 31n === 1n;
    const operand = shifts ? 1n << ((code >> 12n) & 31n) : signed(code >> 12n);
    const value = [operand, old + operand, old | operand, old & ~operand, old ^ operand][operation];
    if (value === undefined) return 'ENOSYS';
    if (!context.storeNumbers(second, [BigInt.asUintN(32, value)], 4)) return 'EFAULT';
    const [before, bound] = [BigInt.asIntN(32, old), signed(code)];
    const holds = [
      before === bound,
      before !== bound,
      before < bound,
      before <= bound,
      before > bound,
      before >= bound,
    ];
    const isSecond = holds[comparison];
    if (isSecond === undefined) return 'ENOSYS';
    const [word, other] = [wordAt(context, first, !isShared), wordAt(context, second, !isShared)];
    const count = this.wake(word, countOf(arg(args, 2)));
    return BigInt(count + (isSecond ? this.wake(other, countOf(arg(args, 3))) : 0));
  }

  /** A thread ends: who waits for that is woken, and for locks that it leaves behind. */
  ended(context: CallContext, { id, clearAddress, robustList }: Thread): void {
    if (robustList !== 0n) this.leaveLocks(context, BigInt(id), robustList);
    this.priority.ended(id);
    if (clearAddress === 0n || !context.storeNumbers(clearAddress, [0n], 4)) return;
    this.wake(wordAt(context, clearAddress, false), 1);
  }

  /**
   * `struct robust_list_head`: the first lock, the distance from a lock's entry to its word, and an
   * entry that is being put in or taken out. The list ends where it began.
   */
  private leaveLocks(context: CallContext, owner: bigint, head: Address): void {
    const word = BigInt(context.wordBytes);
    const first = context.loadNumber(head);
    const distance = context.loadNumber(head + word);
    const pending = context.loadNumber(head + 2n * word);
    if (first === null || distance === null || pending === null) return;
    const place = (entry: Address): Address => BigInt.asUintN(8 * context.wordBytes, (entry & ~1n) + distance);
    let entry: Address | null = first;
    for (let i = 0; i < ROBUST_MOST && entry !== null && (entry & ~1n) !== head; i++) {
      const next = context.loadNumber(entry & ~1n);
      if (entry !== pending) this.leaveLock(context, owner, place(entry), (entry & 1n) !== 0n);
      entry = next;
    }
    if (pending !== 0n) this.leaveLock(context, owner, place(pending), (pending & 1n) !== 0n);
  }

  /** `isHanded`: a lock with priority inheritance, which its waiters are given. */
  private leaveLock(context: CallContext, owner: bigint, address: Address, isHanded: boolean): void {
    const value = address % 4n === 0n ? context.loadNumber(address, 4) : null;
    if (value === null || (value & OWNER) !== owner) return;
    if (context.storeNumbers(address, [(value & WAITERS) | OWNER_DIED], 4) && (value & WAITERS) !== 0n && !isHanded) {
      this.wake(wordAt(context, address, false), 1);
    }
  }
}

/** How many to wake: Linux wakes one where none is asked for. */
function countOf(value: bigint): number {
  return Math.max(1, Number(BigInt.asIntN(32, value)));
}
