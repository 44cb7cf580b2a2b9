/**
 * Units that cannot be mixed by accident: addresses are bigint, positions in a file are number.
 * Types only.
 */

/**
 * Virtual address, bytes. 32-bit targets keep the upper 32 bits zero. In a relocatable file: offset
 * in a section.
 */
export type Address = bigint;
/** Position in a Uint8Array, bytes. */
export type FileOffset = number;
export type RegisterName = string;
export type Endian = 'little' | 'big';

/**
 * Positions in lists: which list, the compiler knows. A position of one kind is no position of
 * another; a plain number, of a loop say, is taken for any.
 */
interface Of<List extends string> {
  readonly positionIn?: List;
}
/** In `ElfImage.sections`; -1 where there is none. */
export type SectionIndex = number & Of<'sections'>;
/** In a symbol table; -1 where there is none. */
export type SymbolIndex = number & Of<'symbols'>;
/** In `Sites`. */
export type SiteIndex = number & Of<'sites'>;
/** In `Program.code`; -1 where there is none. */
export type CodeIndex = number & Of<'code'>;
/** A typed array whose elements are such positions. */
export type Column<List, Index extends number> = List & { readonly [at: number]: Index };
