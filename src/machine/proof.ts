/**
 * What a proof of a site must know of a machine's calling convention (PV-1): what a function may
 * find in its registers at its entry, and what it may leave changed behind a site. Types only; a
 * machine's facts are in `proof.ts` of its folder.
 */
import type { RegisterName } from '../units.js';

export interface ProofModel {
  /**
   * Registers that keep what a process starts with: control words, of which few values mean
   * anything.
   */
  readonly fixed: readonly RegisterName[];
  /** Bits that may have any value at a function's entry; registers not named: all. */
  readonly random: Readonly<Record<RegisterName, bigint>>;
  /**
   * Bits that are compared behind a site; 0n: the register is dead there, since no caller passes
   * anything in it. Registers not named: all bits.
   */
  readonly compared: Readonly<Record<RegisterName, bigint>>;
  /** Registers of integers that an ordinary call may change, besides those that are dead anyway. */
  readonly volatile: readonly RegisterName[];
  /** What the stack pointer is a multiple of at a function's entry, bytes. */
  readonly stackAlign: bigint;
  /** Bytes from such a multiple to the stack pointer: what a call has pushed. */
  readonly stackSkew: bigint;
  /** Words above the stack pointer at an entry that the callee may write: offsets in bytes. */
  readonly calleeWords: readonly number[];
  /** The register that holds the function's own address at its global entry; null: none does. */
  readonly entryAddress: RegisterName | null;
  /** The register that holds the table of contents in code of one module; null: there is none. */
  readonly toc: RegisterName | null;
  /**
   * The register that has the function's own return address where a profiling entry is called,
   * which that entry puts back into the link register; null: it leaves the link register alone.
   */
  readonly savedLink: RegisterName | null;
  /** Where stubs to other modules save `toc`, byte offset from the stack pointer; null: nowhere. */
  readonly tocSlot: number | null;
  /** Registers of results, as they are when a function returns. */
  readonly results: readonly RegisterName[];
}
