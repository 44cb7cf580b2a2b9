/** The direct branches of a machine as bytes. Types only. */
import type { Reach } from '../bits.js';
import type { Address } from '../units.js';

/**
 * One of the machine's direct branches as bytes: what the patched calls inside tracers' entries are
 * made of, and what the reach of a site is. `encode` and `target` are inverses.
 */
export interface BranchCodec {
  /** Bytes of the branch, a pair of instructions included. */
  readonly sizeBytes: number;
  /** From the address of the first byte. */
  readonly reach: Reach;
  /**
   * The branch at `from` to `to`.
   * @throws ElftraceError 'branch-out-of-range'
   */
  encode(from: Address, to: Address): Uint8Array;
  /** Where the bytes at `from` lead; null when they are not this branch. */
  target(bytes: Uint8Array, from: Address): Address | null;
}

/** How far something leads that a call is made of, for people. */
export interface NamedReach {
  /** As manuals name it: `bl, 24 bits`. */
  readonly name: string;
  readonly reach: Reach;
}

export interface Branches {
  /** Call with a return address: `call`, `bl`, `auipc ra; jalr ra`. */
  readonly call: BranchCodec;
  /** Jump without: `jmp`, `b`, `jal zero`. */
  readonly jump: BranchCodec;
  /**
   * What an entry has for the graph tracer: it leads behind itself, or to the stub, while that is
   * off.
   */
  readonly graph: BranchCodec;
  /** The call first, then what stubs reach where one call does not. */
  readonly reaches: readonly NamedReach[];
}
