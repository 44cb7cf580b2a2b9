/** Code of the guest that something was made of, and whether it is still there. */
import type { GuestMemory } from './memory.js';
import type { Address } from '../units.js';

/** How indirect branches are guarded: in no memory, not here, here. */
export type Guard = 0 | 1 | 2;

export interface CodeBytes {
  readonly address: Address;
  readonly bytes: Uint8Array;
  /** A `Guard`. */
  readonly guarded: number;
}

/** How indirect branches to an address are guarded. */
export function guardAt(memory: GuestMemory, address: Address): Guard {
  if (!memory.anyGuarded) return 0;
  return memory.windowAt(address)?.guarded === true ? 2 : 1;
}

/** Whether the machine has exactly this code. */
export function hasCode(memory: GuestMemory, { address, bytes, guarded }: CodeBytes): boolean {
  const code = memory.code(address, bytes.length);
  if (!code || code.length < bytes.length || guardAt(memory, address) !== guarded) return false;
  for (let i = 0; i < bytes.length; i++) if (code[i] !== bytes[i]) return false;
  return true;
}
