/**
 * What a proof of a site must know of a machine's calling convention (PV-1): what a function may
 * find in its registers at its entry, what it may leave changed behind a site, and what callbacks
 * are handed. A machine's facts are in `proof.ts` of its folder.
 */
import type { ConventionName } from './conventions.js';
import type { RegisterName } from '../units.js';

/**
 * What a word must hold when a callback is called: a register as it was where the site began, the
 * function's own return address, the place behind the site or so many bytes behind the ip that the
 * callback is told, an address so many bytes from the frame, one of some constants.
 */
export type FrameValue =
  | { readonly is: 'register'; readonly name: RegisterName }
  | { readonly is: 'return' }
  | { readonly is: 'behind'; readonly ip: bigint | null }
  | { readonly is: 'frame'; readonly at: bigint }
  | { readonly is: 'constant'; readonly values: readonly bigint[] };

/** A word of a register frame. */
export interface FrameWord {
  /** Byte offset from the address that callbacks are handed. */
  readonly at: number;
  readonly holds: FrameValue;
  /** Who may have changed it when a later callback reads it; absent: none may. */
  readonly writer?: 'graph' | 'replacement' | 'direct';
}

/**
 * What the entries of a convention hand to callbacks. Not listed is what they leave out, and what
 * the way from the site to the entry may change.
 */
export interface FrameRow {
  /** Words of the frame that holds not all registers; null: callbacks get none (0). */
  readonly plain: readonly FrameWord[] | null;
  /** Words of the frame with all registers; null: there is no other frame. */
  readonly full: readonly FrameWord[] | null;
  /** Only registers of the plain frame are given back, from the full one, too (A-ENT-1). */
  readonly restoresPlain?: boolean;
  /** The word that is 0 in the plain frame alone; null: nothing tells frames apart. */
  readonly mark: number | null;
  /** Registers as callbacks find them beside their arguments: unwinders begin with them. */
  readonly registers: readonly { readonly name: RegisterName; readonly holds: FrameValue }[];
}

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
  /** Bytes below the stack pointer that functions may use, of programs and of kernels. */
  readonly redZoneBytes: { readonly program: number; readonly kernel: number };
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
  /** General registers that are the platform's or the thread's: no callback changes them. */
  readonly platform: readonly RegisterName[];
  /** Where stubs to other modules save `toc`, byte offset from the stack pointer; null: nowhere. */
  readonly tocSlot: number | null;
  /** Registers of results, as they are when a function returns. */
  readonly results: readonly RegisterName[];
  /**
   * Where the runtime does not tell threads apart by the thread pointer: the symbol of a word, and
   * by its value the register that has the address of what does; any other value: 0 does.
   */
  readonly threadKey?: { readonly mode: string; readonly at: Readonly<Record<string, RegisterName>> };
  /** The front end's name of what reads half of a clock; null: code reads all of it at once. */
  readonly halfClock: string | null;
  /** Frames by convention; a convention that is not named passes ip and parent alone. */
  readonly frames: Readonly<Record<ConventionName, FrameRow>>;
}

/** A word that holds a register. */
function registerWord(at: number, name: RegisterName): FrameWord {
  return { at, holds: { is: 'register', name } };
}

/** Words that hold registers, one behind the other. */
export function registerWords(at: number, wordBytes: number, names: readonly RegisterName[]): FrameWord[] {
  return names.map((name, i) => registerWord(at + i * wordBytes, name));
}

/** A word that holds one of some constants. */
export function constantWord(at: number, ...values: readonly bigint[]): FrameWord {
  return { at, holds: { is: 'constant', values } };
}
