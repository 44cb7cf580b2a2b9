/**
 * System calls about semaphores of System V (`ipc.ts`).
 *
 * Source: Linux, semget(2), semop(2), semctl(2), ipc/sem.c, uapi/linux/sem.h.
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import type { Errno } from './errno.js';
import { checkTime, deadlineOf } from './guest-times.js';
import { IPC_MOST, type Semaphores, type Waiter } from './ipc.js';
import { FORM_64, IPC, IpcBase } from './ipc-base.js';
import { semaphoreLimits } from './ipc-told.js';
import type { Address } from '../units.js';

export type SemaphoreCallName = 'semctl' | 'semget' | 'semop' | 'semtimedop';

const SEM = {
  GETPID: 11,
  GETVAL: 12,
  GETALL: 13,
  GETNCNT: 14,
  GETZCNT: 15,
  SETVAL: 16,
  SETALL: 17,
  UNDO: 0x1000,
} as const;
/** Of all sets, and of one by its index; ANY: whatever its permissions are. */
const TOLD = { STAT: 18, INFO: 19, STAT_ANY: 20 } as const;
/** Semaphores of all sets that there is memory for. */
const ALL_MOST = 4_000_000;

interface Operation {
  readonly number: number;
  readonly amount: number;
  readonly flags: number;
}

export class SemaphoreCalls extends IpcBase implements Readonly<Record<SemaphoreCallName, Service>> {
  semget(args: Arguments): Answer {
    const [key, count, flags] = [int(arg(args, 0)), int(arg(args, 1)), int(arg(args, 2))];
    const { semaphores } = this.context.world.ipc;
    if (count < 0 || count > IPC_MOST.set) return 'EINVAL';
    return this.get(
      semaphores,
      key,
      flags,
      (there) => (count > there.values.length ? 'EINVAL' : null),
      (common): Semaphores | Errno => {
        if (count === 0) return 'EINVAL';
        const all = semaphores.all.reduce((sum, each) => sum + each.values.length, 0);
        if (semaphores.all.length >= IPC_MOST.sets) return 'ENOSPC';
        if (all + count > ALL_MOST) {
          this.context.deviate('limits');
          return 'ENOMEM';
        }
        const zeros = (): number[] => Array<number>(count).fill(0);
        return { ...common, values: zeros(), processes: zeros(), operated: 0n, waiters: new Set(), undo: new Map() };
      },
    );
  }

  private operationsAt(place: Address, count: number): readonly Operation[] | Errno {
    const { context } = this;
    const out: Operation[] = [];
    for (let i = 0; i < count; i++) {
      const fields = [0n, 2n, 4n].map((at) => context.loadNumber(place + BigInt(6 * i) + at, 2));
      const [number, amount, flags] = fields;
      if (typeof number !== 'bigint' || typeof amount !== 'bigint' || typeof flags !== 'bigint') return 'EFAULT';
      out.push({ number: Number(number), amount: Number(BigInt.asIntN(16, amount)), flags: Number(flags) });
    }
    return out;
  }

  /** Does all of it or nothing; nothing where it only asks. An operation: that is what waits. */
  private operate(set: Semaphores, operations: readonly Operation[], asks = false): Operation | Errno | null {
    const values = [...set.values];
    const undo = [...(set.undo.get(this.self) ?? Array<number>(values.length).fill(0))];
    for (const each of operations) {
      const { number, amount, flags } = each;
      const next = values[number]! + amount;
      if (amount === 0 ? values[number] !== 0 : next < 0) return each;
      if (next > IPC_MOST.value) return 'ERANGE';
      values[number] = next;
      if ((flags & SEM.UNDO) === 0 || amount === 0) continue;
      undo[number]! -= amount;
      if (Math.abs(undo[number]!) > IPC_MOST.value) return 'ERANGE';
    }
    if (asks) return null;
    for (const { number } of operations) set.processes[number] = this.self;
    set.values = values;
    set.operated = this.now;
    if (operations.some(({ flags }) => (flags & SEM.UNDO) !== 0)) set.undo.set(this.self, undo);
    return null;
  }

  semop(args: Arguments): Answer {
    return this.operateWith(args, null);
  }

  semtimedop(args: Arguments, words: 4 | 8): Answer {
    const place = arg(args, 3);
    if (place === 0n) return this.operateWith(args, null);
    const wrong = checkTime(this.context, place, words);
    if (wrong !== null) return wrong;
    const deadline = deadlineOf(this.context, place, words, null);
    return typeof deadline === 'string' ? deadline : this.operateWith(args, deadline);
  }

  private operateWith(args: Arguments, deadline: bigint | null): Answer {
    const { context } = this;
    const [id, place, count] = [int(arg(args, 0)), arg(args, 1), Number(BigInt.asUintN(32, arg(args, 2)))];
    if (count < 1 || id < 0) return 'EINVAL';
    if (count > IPC_MOST.operations) return 'E2BIG';
    const operations = this.operationsAt(place, count);
    if (typeof operations === 'string') return operations;
    const set = context.world.ipc.semaphores.byId(id);
    if (!set) return 'EINVAL';
    if (operations.some(({ number }) => number >= set.values.length)) return 'EFBIG';
    const alters = operations.some(({ amount }) => amount !== 0);
    if (!this.allows(set, alters ? 2 : 4)) return 'EACCES';
    let waiter: Waiter | null = null;
    const over = (): void => {
      if (waiter) set.waiters.delete(waiter);
    };
    const attempt = (): bigint | Errno | null => {
      over();
      if (set.isGone) return 'EIDRM';
      const waits = this.operate(set, operations);
      if (waits === null) return 0n;
      if (typeof waits === 'string') return waits;
      if ((waits.flags & IPC.NOWAIT) !== 0) return 'EAGAIN';
      waiter = { number: waits.number, isForZero: waits.amount === 0 };
      set.waiters.add(waiter);
      return null;
    };
    const first = attempt();
    if (first !== null) return first;
    const isReady = (): boolean => {
      if (set.isGone) return true;
      const waits = this.operate(set, operations, true);
      return waits === null || typeof waits === 'string';
    };
    return context.retry(isReady, attempt, { deadline, over, isBrittle: true });
  }

  semctl(args: Arguments): Answer {
    const { context } = this;
    const [id, number, command, value] = [
      int(arg(args, 0)),
      int(arg(args, 1)),
      int(arg(args, 2)) & ~FORM_64,
      arg(args, 3),
    ];
    if (id < 0) return 'EINVAL';
    const { ipc } = context.world;
    if (command === IPC.INFO || command === TOLD.INFO)
      return this.tell(ipc.semaphores, value, semaphoreLimits(ipc, command === TOLD.INFO, context.endian));
    if (command === TOLD.STAT || command === TOLD.STAT_ANY)
      return this.byIndex(ipc.semaphores, id, command === TOLD.STAT, (each) => this.storeSet(value, each));
    const set = ipc.semaphores.byId(id);
    if (!set) return 'EINVAL';
    switch (command) {
      case IPC.REMOVE:
        context.world.ipc.semaphores.remove(set);
        return 0n;
      case IPC.SET: {
        const done = this.set(set, value, null);
        return typeof done === 'string' ? done : 0n;
      }
      case IPC.STATUS:
        return this.allows(set, 4) ? this.storeSet(value, set) : 'EACCES';
      case SEM.GETALL:
        if (!this.allows(set, 4)) return 'EACCES';
        return context.storeNumbers(value, set.values.map(BigInt), 2) ? 0n : 'EFAULT';
      case SEM.SETALL:
        return this.setAll(set, value);
    }
    return this.oneSemaphore(set, number, command, value);
  }

  private storeSet(place: Address, set: Semaphores): Answer {
    const { sem } = this.context.model.ipc;
    const word = this.context.wordBytes;
    return this.storeStatus(place, set, sem.bytes, [
      [sem.operated, word, set.operated],
      [sem.changed, word, set.changed],
      [sem.count, word, set.values.length],
    ]);
  }

  private setAll(set: Semaphores, place: Address): Answer {
    if (!this.allows(set, 2)) return 'EACCES';
    const values = set.values.map((_, i) => this.context.loadNumber(place + BigInt(2 * i), 2));
    if (values.includes(null)) return 'EFAULT';
    if (values.some((each) => each! > BigInt(IPC_MOST.value))) return 'ERANGE';
    set.values = values.map(Number);
    set.processes = set.processes.map(() => this.self);
    set.undo.clear();
    set.changed = this.now;
    return 0n;
  }

  private oneSemaphore(set: Semaphores, number: number, command: number, given: bigint): Answer {
    const { context } = this;
    if (command !== SEM.SETVAL && !this.allows(set, 4)) return 'EACCES';
    if (command === SEM.SETVAL && !this.allows(set, 2)) return 'EACCES';
    // An int in a word: where its bytes are first.
    const shift = context.wordBytes === 8 && context.endian === 'big' ? 32n : 0n;
    const value = int(given >> shift);
    if (command === SEM.SETVAL && (value < 0 || value > IPC_MOST.value)) return 'ERANGE';
    if (number < 0 || number >= set.values.length) return 'EINVAL';
    const waiting = (isForZero: boolean): bigint =>
      BigInt([...set.waiters].filter((each) => each.number === number && each.isForZero === isForZero).length);
    switch (command) {
      case SEM.GETVAL:
        return BigInt(set.values[number]!);
      case SEM.GETPID:
        return BigInt(set.processes[number]!);
      case SEM.GETNCNT:
        return waiting(false);
      case SEM.GETZCNT:
        return waiting(true);
      case SEM.SETVAL:
        set.values[number] = value;
        set.processes[number] = this.self;
        for (const amounts of set.undo.values()) amounts[number] = 0;
        set.changed = this.now;
        return 0n;
      default:
        return 'EINVAL';
    }
  }
}
