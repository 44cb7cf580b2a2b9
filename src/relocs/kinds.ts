/**
 * Relocations as rows of data. A row says what value to compute, where its bits go, what range and
 * alignment it has; one routine (`apply.ts`) applies every row and its inverse reads the value
 * back. Types only, plus the rule docs.
 *
 * Letters are the psABI's: S symbol value, A addend, P place, B load base, G and GOT the symbol's
 * GOT slot, TP the thread pointer offset.
 */

/** How the value is computed. Each rule is one line of a psABI table. */
export type ValueRule =
  /** Nothing is computed and nothing is written (NONE, RELAX, markers). */
  | 'none'
  /** S + A */
  | 'abs'
  /** S + A - P */
  | 'pcrel'
  /** (S + A) page - P page, pages of 4 KiB (arm64 ADRP). */
  | 'page-pcrel'
  /** B + A */
  | 'relative'
  /** S + A - .TOC. (PPC64) or - GOT base. */
  | 'toc-relative'
  /** .TOC. base (+ A): R_PPC64_TOC. */
  | 'toc-base'
  /** GOT slot of S, plus A, minus P. */
  | 'got-pcrel'
  /** GOT slot's page - P page. */
  | 'got-page-pcrel'
  /** Address of the GOT slot + A. */
  | 'got-abs'
  /** GOT slot - .TOC./GOT base. */
  | 'got-relative'
  /** GOT slot - page of the GOT base. */
  | 'got-page-relative'
  /** The value of the pcrel relocation at the label that the symbol names (RISC-V PCREL_LO12). */
  | 'pcrel-low'
  /** V + S + A, V - S - A, where V is what the place holds now (RISC-V ADD, SUB). */
  | 'add'
  | 'sub'
  /**
   * S + A, and what the place holds minus (S + A), as ULEB128 of the length that the place has
   * (RISC-V): applied as pairs.
   */
  | 'uleb-set'
  | 'uleb-sub'
  /** Address of the descriptor or PLT entry of S (dynamic). */
  | 'jump-slot'
  | 'glob-dat'
  | 'copy'
  /** Result of the resolver function at B + A. */
  | 'irelative'
  /** Thread-local values; listed so that they are named, applied by a dynamic linker only. */
  | 'tls'
  /**
   * A value that only a linker can make (small data, section offsets, PLT layout): named, never
   * applied.
   */
  | 'linker'
  /** Bytes to skip so that the next instruction is aligned (RISC-V ALIGN): link-time only. */
  | 'align'
  /** Symbol size + A. */
  | 'size';

/** Which part of the value goes into the field. */
export type ValuePart =
  | 'all'
  /** bits 15..0 */
  | 'lo16'
  /** bits 31..16 */
  | 'hi16'
  /** bits 31..16 of value + 0x8000 ("high adjusted") */
  | 'ha16'
  | 'higher16'
  | 'highera16'
  | 'highest16'
  | 'highesta16'
  /**
   * PowerPC prefixed forms, whose low part has 34 bits: bits from 34 and from 50 on, `a` with
   * rounding.
   */
  | 'hi34'
  | 'ha34'
  | 'highest34'
  | 'highesta34'
  /** bits 33..18-style prefixed halves are not used; RISC-V: bits 31..12 of value + 0x800 */
  | 'hi20'
  /** RISC-V: bits 11..0 */
  | 'lo12'
  /** both: hi20 into the auipc at the place, lo12 into the jalr behind it */
  | 'hi20lo12';

/**
 * Where the bits go: `extract` and `insert` are inverses. `slices` lists the value bits from the
 * field's most significant slice on: value bits [high..low] stand at word bits [at + high - low ..
 * at].
 */
export interface FieldCodec {
  readonly name: string;
  /**
   * Bytes touched at the place: 1, 2, 4 or 8 (12 for instruction pairs that are not adjacent are
   * not used).
   */
  readonly sizeBytes: 1 | 2 | 4 | 8;
  /** How many of them are instruction words (code endianness) or data (data endianness). */
  readonly kind: 'data' | 'code';
  readonly slices: readonly { readonly high: number; readonly low: number; readonly at: number }[];
  /** Width of the value as a signed or unsigned number of this many bits. */
  readonly widthBits: number;
}

export interface RelocationRow {
  readonly type: number;
  /** Standard name: `R_PPC64_REL24`. */
  readonly name: string;
  readonly rule: ValueRule;
  readonly part: ValuePart;
  readonly field: FieldCodec;
  /**
   * `none`: truncated silently, as the psABI says for LO parts; `either`: fits signed or unsigned.
   */
  readonly overflow: 'none' | 'signed' | 'unsigned' | 'either';
  /** The value must be a multiple of this. */
  readonly alignBytes: 1 | 2 | 4 | 8 | 16;
  /** True for a branch that calls or jumps to S (candidates for sites, stubs and PLTs). */
  readonly branch?: 'call' | 'jump' | 'conditional';
  /** True when the branch may be served by a stub. */
  readonly stubAllowed?: boolean;
  /**
   * The addend is no part of the value (R_PPC_PLTREL24 carries the caller's GOT pointer offset in
   * it).
   */
  readonly addendIgnored?: boolean;
  /**
   * The sign of the value decides the opcode, whose bits these are; of a negative value the field
   * holds the complement.
   */
  readonly bySign?: { readonly mask: number; readonly positive: number; readonly negative: number };
  /** A second row for a different address size (RV32) or deprecated alias: only named in text. */
  readonly note?: string;
}

/** What a value rule needs to know; every figure is an address of the laid-out program. */
export interface RelocationInputs {
  /** S */
  readonly symbol: bigint;
  /** A */
  readonly addend: bigint;
  /** P */
  readonly place: bigint;
  /** B, 0 for a file at rest. */
  readonly base?: bigint;
  /** .TOC. of the module (PPC64) or the GOT base. */
  readonly toc?: bigint;
  /** Address of the symbol's GOT slot. */
  readonly gotSlot?: bigint;
  /** Value of the paired high part (RISC-V PCREL_LO12). */
  readonly paired?: bigint;
  readonly symbolSize?: bigint;
  /** V: what the place holds now (rules add and sub). */
  readonly held?: bigint;
}
