/**
 * The calling convention of a target as patched code, entries and the emulator need it. Types only.
 */
import type { ElfImage, SymbolTable } from '../elf/image.js';
import type { RegisterName, SectionIndex, SymbolIndex } from '../units.js';

/** Calling and system-call convention. */
export interface Abi {
  readonly stackPointer: RegisterName;
  /** null: the return address is on the stack. */
  readonly linkRegister: RegisterName | null;
  readonly argumentRegisters: readonly RegisterName[];
  readonly resultRegister: RegisterName;
  /**
   * Integer registers that belong to the caller besides the stack pointer: as they were when a
   * function returns.
   */
  readonly preservedRegisters: readonly RegisterName[];
  /**
   * Text of instructions that use registers of floating point or vectors, which tracing entries do
   * not save (C-FG-7).
   */
  readonly unsavedRegisters: RegExp;
  readonly syscall: {
    readonly number: RegisterName;
    readonly arguments: readonly RegisterName[];
    readonly result: RegisterName;
    readonly failure: 'negative-result' | 'cr0-so';
  };
  /**
   * Bytes from a function symbol's value to the entry that local calls use, from st_other (ELFv2);
   * 0 elsewhere.
   */
  localEntryOffset(symbolOther: number): number;
  /**
   * Place of the code of a function symbol: on ELFv1 the text address behind the `.opd` descriptor,
   * elsewhere the symbol's own place. `section` is the section index (relocatable files) and
   * `value` an offset in it, or an address. null when the descriptor cannot be followed. `symbols`:
   * the table of the symbol where it is not the file's own.
   */
  codePlace(
    image: ElfImage,
    symbolIndex: SymbolIndex,
    symbols?: SymbolTable,
  ): { readonly section: SectionIndex; readonly value: bigint } | null;
}
