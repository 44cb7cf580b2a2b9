/**
 * The words that threads sleep on: where one is, what is wrong with one, and what locks keep in
 * them.
 *
 * Source: Linux, futex(2), uapi/linux/futex.h.
 */
import type { CallContext } from './call-context.js';
import type { Errno } from './errno.js';
import type { Machine } from '../emulator/machine.js';
import type { SharedObject } from './shared-object.js';
import type { Address } from '../units.js';

/** Bits of the word of a lock: threads wait, its owner has died; the rest is the owner's id. */
export const WAITERS = 0x8000_0000n;
export const OWNER_DIED = 0x4000_0000n;
export const OWNER = 0x3fff_ffffn;

/** Where a word is: in the memory of a machine, or in what processes share. */
export interface Word {
  readonly home: Machine | SharedObject;
  readonly at: bigint;
}

export const isSame = (a: Word, b: Word): boolean => a.home === b.home && a.at === b.at;

export function wordAt({ machine, space }: CallContext, address: Address, isPrivate: boolean): Word {
  const shared = isPrivate ? null : space.sharedAt(address);
  return shared ? { home: shared.object, at: BigInt(shared.offset) } : { home: machine, at: address };
}

/** What is wrong with a futex word; `mapped`: it must be there. */
export function checkWord(context: CallContext, address: Address, mapped: boolean): Errno | null {
  if (address % 4n !== 0n) return 'EINVAL';
  return mapped && context.loadNumber(address, 4) === null ? 'EFAULT' : null;
}
