/**
 * What calls of System V tell of all objects of a kind: the limits (`IPC_INFO`), what there is
 * (`SHM_INFO`, `SEM_INFO`, `MSG_INFO`), and an object by its index (`SHM_STAT` and its kin), which
 * is the part of its number below the count of how often it was given.
 *
 * Source: Linux, shmctl(2), semctl(2), msgctl(2), uapi/linux/shm.h, sem.h, msg.h.
 */
import { putNumber } from './files.js';
import { bytesOf, INDEX_MOST, IPC_MOST, type Ipc, type IpcObject, type IpcTable } from './ipc.js';
import type { Endian } from '../units.js';

/** `kernel.shmmax` and `shmall` as a kernel has them that was told no others, `shmmni`. */
const SHM = { below: 1n << 24n, segments: BigInt(IPC_MOST.segments), page: 4096n } as const;
/** `kernel.sem`; SEMUSZ. */
const SEM = {
  set: BigInt(IPC_MOST.set),
  sets: BigInt(IPC_MOST.sets),
  operations: BigInt(IPC_MOST.operations),
  value: BigInt(IPC_MOST.value),
  undo: 20n,
} as const;
/** `kernel.msgmax`, `msgmnb`, `msgmni`; MSGSSZ, MSGSEG. */
const MSG = {
  message: BigInt(IPC_MOST.message),
  queue: BigInt(IPC_MOST.queue),
  queues: BigInt(IPC_MOST.queues),
  piece: 16n,
  pieces: 0xffffn,
} as const;

/** The same, as files of `/proc/sys/kernel` tell it. */
export const IPC_LIMITS = {
  message: MSG.message,
  queue: MSG.queue,
  queues: MSG.queues,
  segments: SHM.segments,
  semaphores: [SEM.set, SEM.set * SEM.sets, SEM.operations, SEM.sets],
} as const;
export const segmentMost = (wordBytes: 4 | 8): bigint => (1n << BigInt(8 * wordBytes)) - 1n - SHM.below;

/** What the calls say that they found: the highest index in use. */
export const highestIndex = <Kind extends IpcObject>(table: IpcTable<Kind>): bigint =>
  BigInt(Math.max(0, ...table.all.map(({ id }) => id % INDEX_MOST)));

export const atIndex = <Kind extends IpcObject>(table: IpcTable<Kind>, index: number): Kind | null =>
  table.all.find(({ id }) => id % INDEX_MOST === index) ?? null;

function numbers(values: readonly bigint[], size: number, endian: Endian): Uint8Array {
  const out = new Uint8Array(values.length * size);
  values.forEach((value, i) => {
    putNumber(out, i * size, size, value, endian);
  });
  return out;
}

/** `struct shminfo`. */
export function memoryLimits(wordBytes: 4 | 8, endian: Endian): Uint8Array {
  const most = segmentMost(wordBytes);
  const unused = [0n, 0n, 0n, 0n];
  return numbers([most, 1n, SHM.segments, SHM.segments, most, ...unused], wordBytes, endian);
}

/** `struct shm_info`: an int, in a word of its own. */
export function memoryUse({ segments }: Ipc, wordBytes: 4 | 8, endian: Endian): Uint8Array {
  const pages = segments.all.reduce((sum, { size }) => sum + (BigInt(size) + SHM.page - 1n) / SHM.page, 0n);
  const out = numbers([0n, pages, pages, 0n, 0n, 0n], wordBytes, endian);
  putNumber(out, 0, 4, segments.all.length, endian);
  return out;
}

/** `struct seminfo`; with `use`: how many there are in its last fields. */
export function semaphoreLimits({ semaphores }: Ipc, use: boolean, endian: Endian): Uint8Array {
  const all = SEM.set * SEM.sets;
  const count = semaphores.all.reduce((sum, { values }) => sum + values.length, 0);
  const [sets, adjusted] = use ? [BigInt(semaphores.all.length), BigInt(count)] : [SEM.undo, SEM.value];
  const rest = [SEM.set, SEM.operations, SEM.operations, sets, SEM.value, adjusted];
  return numbers([all, SEM.sets, all, all, ...rest], 4, endian);
}

/** `struct msginfo`; with `use`: queues, messages and bytes. */
export function queueLimits({ queues }: Ipc, use: boolean, endian: Endian): Uint8Array {
  const messages = queues.all.reduce((sum, each) => sum + each.messages.length, 0);
  const bytes = queues.all.reduce((sum, each) => sum + bytesOf(each), 0);
  const pool = (MSG.queues * MSG.queue) / 1024n;
  const [first, second, total] = use ? [queues.all.length, messages, bytes].map(BigInt) : [pool, MSG.queue, MSG.queue];
  const out = numbers([first!, second!, MSG.message, MSG.queue, MSG.queues, MSG.piece, total!, 0n], 4, endian);
  putNumber(out, 28, 2, MSG.pieces, endian);
  return out;
}
