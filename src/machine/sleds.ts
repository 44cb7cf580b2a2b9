/**
 * Sleds of XRay: places at the entry, the exits and the tail calls of a function that are passed
 * over until a runtime switches them on. A machine says here how they look in either state; which
 * sleds a file has is read in `sites/sleds.ts`. Types only.
 */
import type { Address } from '../units.js';

export type SledKind = 'entry' | 'exit' | 'tail' | 'entry-args' | 'custom-event' | 'typed-event';

/** What stands at a sled. */
export type SledReading =
  /** `target`: what it would call, where the compiler's call is a part of it (linked files). */
  | { readonly state: 'off'; readonly target: Address | null }
  /** `id`: number of its function in the order of the map, from 1 on. */
  | { readonly state: 'on'; readonly id: number; readonly target: Address | null }
  | { readonly state: 'wrong'; readonly reason: string };

export interface SledPlace {
  readonly kind: SledKind;
  readonly address: Address;
}

/** A sled that is to call. */
export interface SledCall extends SledPlace {
  readonly id: number;
  /** The trampoline of the kind; ignored where the compiler's call is a part of the sled. */
  readonly target: Address;
}

export interface SledModel {
  /** Bytes of a sled; null: sleds of the kind are not read. */
  sizeOf(kind: SledKind): number | null;
  /** Sleds hold addresses, so a file that is loaded anywhere would need relocations for them. */
  readonly absolute: boolean;
  /** The compiler's call is a part of the sled: its target cannot be chosen. */
  readonly bound: boolean;
  /**
   * @param bytes  `sizeOf` bytes
   * @param relocatable  branches that leave the sled have relocations and lead nowhere yet
   */
  read(bytes: Uint8Array, place: SledPlace, relocatable: boolean): SledReading;
  /**
   * The sled when it is on; `bytes` as it is now, which `read` knows.
   * @param code  the first words of the trampoline, which may tell what it expects
   */
  on(bytes: Uint8Array, call: SledCall, code: Uint8Array): Uint8Array | { readonly refused: string };
  /** The sled as the compiler leaves it. */
  off(bytes: Uint8Array, place: SledPlace): Uint8Array;
}
