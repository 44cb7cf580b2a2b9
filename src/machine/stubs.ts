/** Branch islands that linkers and loaders put between a call and its target. Types only. */
import type { Address } from '../units.js';

/**
 * Reads guest memory by address; -1 or null where nothing is mapped. Words in the target's own byte
 * order.
 */
export interface AddressReader {
  u32(address: Address): number;
  u64(address: Address): bigint | null;
  u8(address: Address): number;
}

/** What a stub is and where it leads. */
export interface StubReading {
  /** Name of the form: `ppc64.module`. */
  readonly form: string;
  /** Code and the data behind it that belongs to the stub. */
  readonly sizeBytes: number;
  readonly target: Address;
  /**
   * Where the target was loaded from (a PLT slot, a word of the stub); null when it is in the
   * instructions.
   */
  readonly slot: Address | null;
  /** Size of the slot: a word, or a whole descriptor; 0 without a slot. */
  readonly slotBytes: number;
  /** The TOC that the stub loads for its target; null when it loads none. */
  readonly targetToc: Address | null;
  /**
   * True when it stores the caller's TOC in the caller's frame: the word after the call must load
   * it back.
   */
  readonly savesToc: boolean;
}

/** A branch island that a linker or loader put between a call and its target. */
export interface StubForm {
  /** `ppc64.plt-call-v2`. */
  readonly name: string;
  /**
   * Address the stub leads to, or null when the code at `address` is not this stub. `toc` is .TOC.
   * or null.
   */
  readTarget(code: AddressReader, address: Address, toc: Address | null): Address | null;
  /** The whole stub, or null when the code at `address` is not this stub. */
  read(code: AddressReader, address: Address, toc: Address | null): StubReading | null;
}
