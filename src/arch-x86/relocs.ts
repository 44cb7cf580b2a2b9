/**
 * Relocation rows of x86-64 (System V psABI 1.0, table 4.9, and the APX additions 43 to 51). RELA
 * only; every field is a little-endian word at the place, also inside instructions, so there are
 * only four fields.
 *
 * The addend of a pc-relative field in an instruction includes the distance from the field to the
 * end of the instruction: a call has -4. GOTPC32 and GOTPC64 name `_GLOBAL_OFFSET_TABLE_` as their
 * symbol, so S is already the GOT's address and the plain pc-relative rule gives the value.
 */
import type { FieldCodec, RelocationRow, ValueRule } from '../relocs/kinds.js';

function word(bits: 8 | 16 | 32 | 64, sizeBytes: 1 | 2 | 4 | 8): FieldCodec {
  return {
    name: `word${bits}`,
    sizeBytes,
    kind: 'data',
    slices: [{ high: bits - 1, low: 0, at: 0 }],
    widthBits: bits,
  };
}

/** Nothing is written: markers and NONE. */
const NOTHING: FieldCodec = { name: 'none', sizeBytes: 4, kind: 'data', slices: [], widthBits: 32 };
const WORD8 = word(8, 1);
const WORD16 = word(16, 2);
const WORD32 = word(32, 4);
const WORD64 = word(64, 8);

export const R_X86_64_NONE = 0;
export const R_X86_64_64 = 1;
export const R_X86_64_PC32 = 2;
export const R_X86_64_PLT32 = 4;
export const R_X86_64_RELATIVE = 8;
export const R_X86_64_GOTPCREL = 9;
export const R_X86_64_GOTPCRELX = 41;
export const R_X86_64_REX_GOTPCRELX = 42;

type Overflow = RelocationRow['overflow'];
type Extra = Pick<RelocationRow, 'branch' | 'stubAllowed' | 'note'>;

function row(
  type: number,
  name: string,
  rule: ValueRule,
  field: FieldCodec,
  overflow: Overflow,
  extra: Extra = {},
): RelocationRow {
  return { type, name: `R_X86_64_${name}`, rule, part: 'all', field, overflow, alignBytes: 1, ...extra };
}

const ROWS: readonly RelocationRow[] = [
  row(R_X86_64_NONE, 'NONE', 'none', NOTHING, 'none'),
  row(R_X86_64_64, '64', 'abs', WORD64, 'none'),
  // PC32 stands in data and in lea as well; only PLT32 says that it is a branch.
  row(R_X86_64_PC32, 'PC32', 'pcrel', WORD32, 'signed'),
  row(3, 'GOT32', 'got-relative', WORD32, 'signed'),
  row(R_X86_64_PLT32, 'PLT32', 'pcrel', WORD32, 'signed', { branch: 'call', stubAllowed: true }),
  row(5, 'COPY', 'copy', WORD64, 'none'),
  row(6, 'GLOB_DAT', 'glob-dat', WORD64, 'none'),
  row(7, 'JUMP_SLOT', 'jump-slot', WORD64, 'none'),
  row(R_X86_64_RELATIVE, 'RELATIVE', 'relative', WORD64, 'none'),
  row(R_X86_64_GOTPCREL, 'GOTPCREL', 'got-pcrel', WORD32, 'signed'),
  row(10, '32', 'abs', WORD32, 'unsigned'),
  row(11, '32S', 'abs', WORD32, 'signed'),
  row(12, '16', 'abs', WORD16, 'either'),
  row(13, 'PC16', 'pcrel', WORD16, 'signed'),
  row(14, '8', 'abs', WORD8, 'either'),
  row(15, 'PC8', 'pcrel', WORD8, 'signed'),
  row(16, 'DTPMOD64', 'tls', WORD64, 'none'),
  row(17, 'DTPOFF64', 'tls', WORD64, 'none'),
  row(18, 'TPOFF64', 'tls', WORD64, 'none'),
  row(19, 'TLSGD', 'tls', WORD32, 'signed'),
  row(20, 'TLSLD', 'tls', WORD32, 'signed'),
  row(21, 'DTPOFF32', 'tls', WORD32, 'signed'),
  row(22, 'GOTTPOFF', 'tls', WORD32, 'signed'),
  row(23, 'TPOFF32', 'tls', WORD32, 'signed'),
  row(24, 'PC64', 'pcrel', WORD64, 'none'),
  row(25, 'GOTOFF64', 'toc-relative', WORD64, 'none', { note: 'S + A - GOT' }),
  row(26, 'GOTPC32', 'pcrel', WORD32, 'signed', { note: 'S is _GLOBAL_OFFSET_TABLE_' }),
  row(27, 'GOT64', 'got-relative', WORD64, 'none'),
  row(28, 'GOTPCREL64', 'got-pcrel', WORD64, 'none'),
  row(29, 'GOTPC64', 'pcrel', WORD64, 'none', { note: 'S is _GLOBAL_OFFSET_TABLE_' }),
  row(30, 'GOTPLT64', 'got-relative', WORD64, 'none'),
  row(31, 'PLTOFF64', 'toc-relative', WORD64, 'none', { note: 'L + A - GOT; without a PLT entry L is S' }),
  row(32, 'SIZE32', 'size', WORD32, 'unsigned'),
  row(33, 'SIZE64', 'size', WORD64, 'none'),
  row(34, 'GOTPC32_TLSDESC', 'tls', WORD32, 'signed'),
  row(35, 'TLSDESC_CALL', 'none', NOTHING, 'none', { note: 'marks the call through the descriptor' }),
  row(36, 'TLSDESC', 'tls', WORD64, 'none', { note: 'two words: resolver and argument' }),
  row(37, 'IRELATIVE', 'irelative', WORD64, 'none'),
  row(38, 'RELATIVE64', 'relative', WORD64, 'none'),
  row(39, 'PC32_BND', 'pcrel', WORD32, 'signed', { note: 'deprecated: as PC32' }),
  row(40, 'PLT32_BND', 'pcrel', WORD32, 'signed', {
    branch: 'call',
    stubAllowed: true,
    note: 'deprecated: as PLT32',
  }),
  // A linker may replace the instruction in front of these; a patcher must not expect the opcode to
  // survive a link.
  row(R_X86_64_GOTPCRELX, 'GOTPCRELX', 'got-pcrel', WORD32, 'signed'),
  row(R_X86_64_REX_GOTPCRELX, 'REX_GOTPCRELX', 'got-pcrel', WORD32, 'signed'),
  row(43, 'CODE_4_GOTPCRELX', 'got-pcrel', WORD32, 'signed'),
  row(44, 'CODE_4_GOTTPOFF', 'tls', WORD32, 'signed'),
  row(45, 'CODE_4_GOTPC32_TLSDESC', 'tls', WORD32, 'signed'),
  row(46, 'CODE_5_GOTPCRELX', 'got-pcrel', WORD32, 'signed'),
  row(47, 'CODE_5_GOTTPOFF', 'tls', WORD32, 'signed'),
  row(48, 'CODE_5_GOTPC32_TLSDESC', 'tls', WORD32, 'signed'),
  row(49, 'CODE_6_GOTPCRELX', 'got-pcrel', WORD32, 'signed'),
  row(50, 'CODE_6_GOTTPOFF', 'tls', WORD32, 'signed'),
  row(51, 'CODE_6_GOTPC32_TLSDESC', 'tls', WORD32, 'signed'),
  row(250, 'GNU_VTINHERIT', 'none', NOTHING, 'none'),
  row(251, 'GNU_VTENTRY', 'none', NOTHING, 'none'),
];

/** Rows by r_type. */
export const x86Relocations: ReadonlyMap<number, RelocationRow> = new Map(ROWS.map((each) => [each.type, each]));
