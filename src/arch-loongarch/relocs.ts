/**
 * LoongArch relocation rows. Fields of instructions are slices of the instruction rows.
 *
 * What a patcher must know of them: `B26` lies on a `bl`, `CALL36` on a `pcaddu18i` and covers the
 * `jirl` behind it; `RELAX` at the same place allows a linker to shorten the sequence, and `ALIGN`
 * to remove nops. Parts of addresses (`HI20`, `LO12` and their like) are rounded against each
 * other, and old assemblers computed fields on a stack (`SOP_…`): what only a linker makes is named
 * here and never applied.
 *
 * Source: ELF for the LoongArch Architecture 20231219; later types as binutils names them.
 */
import type { FieldCodec, RelocationRow, ValueRule } from '../relocs/kinds.js';
import { loongarchTable } from './isa.js';

export const R_LARCH_NONE = 0;
export const R_LARCH_64 = 2;
export const R_LARCH_RELATIVE = 3;
export const R_LARCH_B26 = 66;
export const R_LARCH_GOT_PC_HI20 = 75;
export const R_LARCH_RELAX = 100;
export const R_LARCH_CALL36 = 110;

function code(mnemonic: string, field: string): FieldCodec {
  const { slices, widthBits } = loongarchTable.field(mnemonic, field);
  return { name: `${mnemonic}.${field}`, sizeBytes: 4, kind: 'code', slices: [...slices], widthBits };
}

function data(name: string, sizeBytes: 1 | 2 | 4 | 8, widthBits = 8 * sizeBytes): FieldCodec {
  return { name, sizeBytes, kind: 'data', slices: [{ high: widthBits - 1, low: 0, at: 0 }], widthBits };
}

const NOTHING: FieldCodec = { name: 'none', sizeBytes: 1, kind: 'data', slices: [], widthBits: 8 };
/** An instruction of which a linker makes the field. */
const WORD: FieldCodec = { name: 'instruction', sizeBytes: 4, kind: 'code', slices: [], widthBits: 32 };
const WORD6 = data('word6', 1, 6);
const WORD8 = data('word8', 1);
const WORD16 = data('word16', 2);
const WORD32 = data('word32', 4);
const WORD64 = data('word64', 8);

type More = Partial<Pick<RelocationRow, 'overflow' | 'alignBytes' | 'branch' | 'stubAllowed' | 'note'>>;

function row(type: number, name: string, rule: ValueRule, field: FieldCodec, more: More = {}): RelocationRow {
  return { type, name: `R_LARCH_${name}`, rule, part: 'all', field, overflow: 'none', alignBytes: 1, ...more };
}

/** Rows of names from a type on; `-` leaves a type out. */
function list(first: number, names: string, rule: ValueRule, field: FieldCodec, prefix = ''): RelocationRow[] {
  return names.split(' ').flatMap((name, i) => (name === '-' ? [] : [row(first + i, prefix + name, rule, field)]));
}

const branch: More = { overflow: 'signed', alignBytes: 4 };

const ROWS: readonly RelocationRow[] = [
  row(R_LARCH_NONE, 'NONE', 'none', NOTHING),
  row(1, '32', 'abs', WORD32, { overflow: 'either' }),
  row(R_LARCH_64, '64', 'abs', WORD64),
  row(R_LARCH_RELATIVE, 'RELATIVE', 'relative', WORD64),
  row(4, 'COPY', 'copy', NOTHING),
  row(5, 'JUMP_SLOT', 'jump-slot', WORD64),
  row(6, 'TLS_DTPMOD32', 'tls', WORD32),
  row(7, 'TLS_DTPMOD64', 'tls', WORD64),
  row(8, 'TLS_DTPREL32', 'tls', WORD32),
  row(9, 'TLS_DTPREL64', 'tls', WORD64),
  row(10, 'TLS_TPREL32', 'tls', WORD32),
  row(11, 'TLS_TPREL64', 'tls', WORD64),
  row(12, 'IRELATIVE', 'irelative', WORD64),
  row(13, 'TLS_DESC32', 'tls', WORD32),
  row(14, 'TLS_DESC64', 'tls', WORD64, { note: 'two words: resolver and argument' }),
  row(20, 'MARK_LA', 'none', NOTHING),
  row(21, 'MARK_PCREL', 'none', NOTHING),
  ...list(
    22,
    'PUSH_PCREL PUSH_ABSOLUTE PUSH_DUP PUSH_GPREL PUSH_TLS_TPREL PUSH_TLS_GOT PUSH_TLS_GD PUSH_PLT_PCREL ASSERT NOT SUB ' +
      'SL SR ADD AND IF_ELSE POP_32_S_10_5 POP_32_U_10_12 POP_32_S_10_12 POP_32_S_10_16 POP_32_S_10_16_S2 ' +
      'POP_32_S_5_20 POP_32_S_0_5_10_16_S2 POP_32_S_0_10_10_16_S2 POP_32_U',
    'linker',
    WORD,
    'SOP_',
  ),
  row(47, 'ADD8', 'add', WORD8),
  row(48, 'ADD16', 'add', WORD16),
  row(49, 'ADD24', 'linker', NOTHING),
  row(50, 'ADD32', 'add', WORD32),
  row(51, 'ADD64', 'add', WORD64),
  row(52, 'SUB8', 'sub', WORD8),
  row(53, 'SUB16', 'sub', WORD16),
  row(54, 'SUB24', 'linker', NOTHING),
  row(55, 'SUB32', 'sub', WORD32),
  row(56, 'SUB64', 'sub', WORD64),
  row(57, 'GNU_VTINHERIT', 'none', NOTHING),
  row(58, 'GNU_VTENTRY', 'none', NOTHING),
  row(64, 'B16', 'pcrel', code('beq', 'off'), { ...branch, branch: 'conditional' }),
  row(65, 'B21', 'pcrel', code('beqz', 'off'), { ...branch, branch: 'conditional' }),
  row(R_LARCH_B26, 'B26', 'pcrel', code('bl', 'off'), { ...branch, branch: 'call', stubAllowed: true }),
  ...list(
    67,
    'ABS_HI20 ABS_LO12 ABS64_LO20 ABS64_HI12 PCALA_HI20 PCALA_LO12 PCALA64_LO20 PCALA64_HI12',
    'linker',
    WORD,
  ),
  // Where it names the profiling entry a call through a register follows.
  row(R_LARCH_GOT_PC_HI20, 'GOT_PC_HI20', 'linker', WORD, { branch: 'call' }),
  ...list(76, 'GOT_PC_LO12 GOT64_PC_LO20 GOT64_PC_HI12 GOT_HI20 GOT_LO12 GOT64_LO20 GOT64_HI12', 'linker', WORD),
  ...list(
    83,
    'LE_HI20 LE_LO12 LE64_LO20 LE64_HI12 IE_PC_HI20 IE_PC_LO12 IE64_PC_LO20 IE64_PC_HI12 IE_HI20 IE_LO12 IE64_LO20 ' +
      'IE64_HI12 LD_PC_HI20 LD_HI20 GD_PC_HI20 GD_HI20',
    'tls',
    WORD,
    'TLS_',
  ),
  row(99, '32_PCREL', 'pcrel', WORD32),
  row(R_LARCH_RELAX, 'RELAX', 'none', NOTHING, {
    note: 'companion: the linker may shorten the sequence at the place',
  }),
  row(101, 'DELETE', 'none', NOTHING, { note: 'linker-internal' }),
  row(102, 'ALIGN', 'align', NOTHING, { note: 'the addend is the number of nop bytes at the place' }),
  row(103, 'PCREL20_S2', 'linker', WORD),
  row(104, 'CFA', 'linker', NOTHING),
  row(105, 'ADD6', 'add', WORD6),
  row(106, 'SUB6', 'sub', WORD6),
  row(107, 'ADD_ULEB128', 'uleb-set', NOTHING, { note: 'ULEB128 data of the length that the place has' }),
  row(108, 'SUB_ULEB128', 'uleb-sub', NOTHING, { note: 'ULEB128 data of the length that the place has' }),
  row(109, '64_PCREL', 'pcrel', WORD64),
  row(R_LARCH_CALL36, 'CALL36', 'linker', WORD, { ...branch, branch: 'call', stubAllowed: true }),
  ...list(
    111,
    'DESC_PC_HI20 DESC_PC_LO12 DESC64_PC_LO20 DESC64_PC_HI12 DESC_HI20 DESC_LO12 DESC64_LO20 DESC64_HI12 DESC_LD ' +
      'DESC_CALL LE_HI20_R LE_ADD_R LE_LO12_R LD_PCREL20_S2 GD_PCREL20_S2 DESC_PCREL20_S2',
    'tls',
    WORD,
    'TLS_',
  ),
  ...list(127, 'CALL30 PCADD_HI20 PCADD_LO12 GOT_PCADD_HI20 GOT_PCADD_LO12', 'linker', WORD),
  ...list(
    132,
    'IE_PCADD_HI20 IE_PCADD_LO12 LD_PCADD_HI20 LD_PCADD_LO12 GD_PCADD_HI20 GD_PCADD_LO12 DESC_PCADD_HI20 DESC_PCADD_LO12',
    'tls',
    WORD,
    'TLS_',
  ),
];

export const loongarchRelocations: ReadonlyMap<number, RelocationRow> = new Map(ROWS.map((each) => [each.type, each]));

/**
 * Types that the module loader of a kernel takes (L-MOD-2): words, the stack operations of old
 * compilers, differences, branches, and addresses by page or through the GOT. Neither the pairs of
 * the medium code model nor marks of relaxation.
 */
export const loongarchModuleTypes: ReadonlySet<number> = new Set([
  R_LARCH_NONE, 1, R_LARCH_64, 20, 21, 22, 23, 24, 29, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 50, 51, 55, 56,
  R_LARCH_B26, 71, 72, 73, 74, R_LARCH_GOT_PC_HI20, 76, 99, 109,
]); // prettier-ignore
