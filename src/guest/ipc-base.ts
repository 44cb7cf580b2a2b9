/**
 * What the calls of System V have in common: objects by keys, permissions, and the structure that
 * each begins with.
 *
 * Source: Linux, ipc/util.c, uapi/linux/ipc.h.
 */
import type { Answer } from './call-context.js';
import type { Errno } from './errno.js';
import { putNumber } from './files.js';
import type { IpcObject, IpcTable } from './ipc.js';
import { atIndex, highestIndex } from './ipc-told.js';
import { NANOSECONDS } from './guest-times.js';
import { type KnownProcess, USER } from './processes.js';
import type { Address } from '../units.js';

export const IPC = {
  CREATE: 0o1000,
  EXCLUSIVE: 0o2000,
  NOWAIT: 0o4000,
  REMOVE: 0,
  SET: 1,
  STATUS: 2,
  INFO: 3,
} as const;
/** A command in the form that all programs have. */
export const FORM_64 = 0x100;

export class IpcBase {
  constructor(protected readonly context: KnownProcess) {}

  protected allows({ mode, owner }: IpcObject, wanted: number): boolean {
    const bits = owner === Number(USER) ? mode >> 6 : mode;
    return (bits & wanted) === wanted;
  }

  /** The object of a key, or a new one. `fits`: what else must hold of one that is there. */
  protected get<Kind extends IpcObject>(
    table: IpcTable<Kind>,
    key: number,
    flags: number,
    fits: (object: Kind) => Errno | null,
    make: (common: IpcObject) => Kind | Errno,
  ): Answer {
    const there = key === 0 ? null : table.byKey(key);
    if (there) {
      if ((flags & IPC.CREATE) !== 0 && (flags & IPC.EXCLUSIVE) !== 0) return 'EEXIST';
      const wrong = fits(there);
      if (wrong !== null) return wrong;
      const wanted = ((flags >> 6) | (flags >> 3) | flags) & 7;
      return this.allows(there, wanted) ? BigInt(there.id) : 'EACCES';
    }
    if (key !== 0 && (flags & IPC.CREATE) === 0) return 'ENOENT';
    const [user, changed] = [Number(USER), this.now];
    const common = { key, mode: flags & 0o777, owner: user, group: user, changed, isGone: false };
    const probe = make({ ...common, id: 0 });
    if (typeof probe === 'string') return probe;
    return BigInt(table.add((id) => Object.assign(probe, { id })).id);
  }

  protected get now(): bigint {
    return (this.context.date + this.context.world.time) / NANOSECONDS;
  }

  protected get self(): number {
    return this.context.identity.id;
  }

  /** Writes `struct ipc64_perm` and further fields: place, size, value. */
  protected storeStatus(
    place: Address,
    object: IpcObject,
    bytes: number,
    fields: readonly (readonly [at: number, size: number, value: number | bigint])[],
  ): Answer {
    const { endian, model } = this.context;
    const out = new Uint8Array(bytes);
    const head = [object.key, object.owner, object.group, Number(USER), Number(USER), object.mode];
    head.forEach((value, i) => {
      putNumber(out, 4 * i, 4, value, endian);
    });
    putNumber(out, 24, model.ipc.sequenceBytes, object.id >> 15, endian);
    for (const [at, size, value] of fields) putNumber(out, at, size, value, endian);
    return this.context.store(place, out) ? 0n : 'EFAULT';
  }

  /** IPC_SET: owner and mode; behind them what `size` bytes at `more` say. */
  protected set(object: IpcObject, place: Address, more: number | null): bigint | Errno {
    const { context } = this;
    const [owner, group, mode] = [4n, 8n, 20n].map((at) => context.loadNumber(place + at, 4));
    const extra = more === null ? 0n : context.loadNumber(place + BigInt(more));
    if (typeof owner !== 'bigint' || typeof group !== 'bigint' || typeof mode !== 'bigint' || extra === null)
      return 'EFAULT';
    if (object.owner !== Number(USER)) return 'EPERM';
    Object.assign(object, { owner: Number(owner), group: Number(group), changed: this.now });
    object.mode = (object.mode & ~0o777) | (Number(mode) & 0o777);
    return extra;
  }

  /** Stores what is told of all objects of a table; the answer is the highest index in use. */
  protected tell<Kind extends IpcObject>(table: IpcTable<Kind>, place: Address, bytes: Uint8Array): Answer {
    return this.context.store(place, bytes) ? highestIndex(table) : 'EFAULT';
  }

  /** IPC_STAT by an index: the answer is the number of the object there. */
  protected byIndex<Kind extends IpcObject>(
    table: IpcTable<Kind>,
    index: number,
    asks: boolean,
    store: (object: Kind) => Answer,
  ): Answer {
    const object = atIndex(table, index);
    if (!object) return 'EINVAL';
    if (asks && !this.allows(object, 4)) return 'EACCES';
    const answer = store(object);
    return answer === 0n ? BigInt(object.id) : answer;
  }
}
