/**
 * Tables that name places of code: what a producer of a site table asks of a machine, and the
 * tables of a kernel's other patching mechanisms. Types only.
 */
import type { Address } from '../units.js';

/** Relocation types that the generic code must know by role. */
export interface RelocationRoles {
  /** R_*_NONE: always 0 on these machines, named for messages. */
  readonly none: number;
  /** The absolute address-size word: what slots of a site table carry in relocatable files. */
  readonly word: number;
  /** RELATIVE: the dynamic relocation whose addend is the value. */
  readonly relative: number;
  /**
   * Markers that only accompany another relocation at the same place (R_RISCV_RELAX) and go with
   * it.
   */
  readonly companions: readonly number[];
  /**
   * What a relocation of a kernel *module* becomes when its call is nopped (with symbol 0). Linkers
   * know NONE; the module loaders of PowerPC and RISC-V kernels do not and refuse the module
   * ("Unknown relocation"), so there it is a type that they accept and that changes nothing.
   * `addend`: left alone, or the word that is stored at the place, which an absolute 32-bit
   * relocation then writes again.
   */
  readonly neutralInModule: { readonly type: number; readonly addend: 'kept' | 'stored-word' };
  /**
   * Types that module loaders of kernels take; they refuse a module that has others. Several lists
   * where options of the kernel decide: one of them must have all types of a module.
   */
  readonly takenInModules: readonly ReadonlySet<number>[];
  /** Module loaders refuse a relocation whose place does not hold zeros. */
  readonly zeroInModules: boolean;
}

/** How the compiler calls the profiling entry, and what a table producer needs (M-REC-3). */
export interface McountRules {
  /** Names of the profiling entry, without the leading dot of ELFv1. */
  readonly symbols: readonly string[];
  /**
   * Relocation types that a call of it carries -> what to add to r_offset to get the address of the
   * call's first byte (M-REC-5). A type that data uses too (x86 PC32) is only a candidate: the
   * shape decides.
   */
  readonly callRelocations: ReadonlyMap<number, number>;
  /**
   * True where a kernel's `__patchable_function_entries` is call padding and only `__mcount_loc` is
   * ftrace's (x86-64).
   */
  readonly patchableIsPadding: boolean;
  /**
   * What slots of a linked table hold that kernels of some generation skip, as signed words; 0 is
   * one everywhere.
   */
  readonly emptySlots: readonly bigint[];
  /** Greatest distance from a function symbol to a site that is not a weak leftover (C-FILT-4). */
  readonly maxSiteOffset: bigint | 'any';
  /**
   * Places in [start, end) of `code` at which a call-like instruction may lead to `isTarget`, in
   * ascending order. `start` is the start of a function or section; `address` is the address of
   * code[0].
   */
  findCalls(
    code: Uint8Array,
    start: number,
    end: number,
    address: Address,
    isTarget: (address: Address) => boolean,
  ): number[];
}

/** A field of a table entry that says where code lies. */
export interface PatchField {
  /** Its offset in the entry. */
  readonly at: number;
  readonly bytes: 4 | 8;
  /**
   * What its value is counted from: the field itself, the start of the entry, or nothing (an
   * address).
   */
  readonly from: 'field' | 'entry' | 'nothing';
}

/**
 * One format of a table in which a kernel keeps places of code that another mechanism than ftrace
 * patches, or knows by their address (F-6): entries of one size, one behind the other.
 */
export interface PatchTable {
  readonly section: string;
  /** For people: `a jump label`. */
  readonly what: string;
  readonly entryBytes: number;
  /** The first byte of the place. */
  readonly place: PatchField;
  /**
   * How far the place reaches: over its instruction, over as many bytes as a field says, or to
   * where another field leads.
   */
  readonly reach: 'instruction' | { readonly at: number; readonly bytes: 1 | 2 | 8 } | { readonly end: PatchField };
  /** Places that the entry names and that are gone to, not written. */
  readonly targets?: readonly PatchField[];
  /**
   * Fields that name the code that replaces other code: it is copied, and not executed where it
   * stands.
   */
  readonly replacement?: readonly PatchField[];
}
