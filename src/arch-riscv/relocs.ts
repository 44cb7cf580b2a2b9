/**
 * RISC-V relocation rows, fields taken from the instruction rows.
 *
 * What a patcher must know of them:
 *
 * - `R_RISCV_CALL_PLT` lies on an `auipc` and covers the `jalr` behind it: one value in two words,
 *   the upper part rounded because the lower is signed. `R_RISCV_CALL` is its deprecated twin.
 * - `PCREL_LO12` names not the target but the label of its `auipc`; its value is the low part of
 *   *that* relocation's.
 * - `R_RISCV_RELAX` at the same place allows the linker to shorten the sequence, `ALIGN` to remove
 *   nops: code moves, so even local branches and differences of labels (ADD/SUB/SET pairs) carry
 *   relocations, and table entries name labels.
 * - Everything is RELA; only ADD and SUB read what the place holds.
 *
 * Source: RISC-V ABIs Specification (psABI) 1.0, 8.4 and the TLS descriptor supplement of 1.1.
 * Types 47 to 50 are the linker's own, seen with --emit-relocs after relaxation.
 */
import type { FieldCodec, RelocationRow, ValuePart, ValueRule } from '../relocs/kinds.js';
import { riscvTable } from './isa.js';

// Types that sites, stubs and tests name.
export const R_RISCV_NONE = 0;
export const R_RISCV_64 = 2;
export const R_RISCV_RELATIVE = 3;
export const R_RISCV_CALL = 18;
export const R_RISCV_CALL_PLT = 19;
export const R_RISCV_PCREL_HI20 = 23;
export const R_RISCV_PCREL_LO12_I = 24;
export const R_RISCV_RELAX = 51;

// ------------------------------------------------------------------------------------------ fields

/** The field of a row as a codec; `shift` value bits were cut off by the relocation's part. */
function codeField(mnemonic: string, name: string, shift = 0): FieldCodec {
  const found = riscvTable.field(mnemonic, name);
  return {
    name: `${mnemonic}.${name}`,
    sizeBytes: riscvTable.row(mnemonic).sizeBytes,
    kind: 'code',
    slices: found.slices.map(({ high, low, at }) => ({ high: high - shift, low: low - shift, at })),
    widthBits: found.widthBits - shift,
  };
}

function dataField(name: string, sizeBytes: 1 | 2 | 4 | 8, widthBits = 8 * sizeBytes): FieldCodec {
  return { name, sizeBytes, kind: 'data', slices: [{ high: widthBits - 1, low: 0, at: 0 }], widthBits };
}

/** Bits 31..12 of the rounded value: the part is a 20-bit number. */
const UTYPE = codeField('auipc', 'upper', 12);
const ITYPE = codeField('addi', 'imm');
const STYPE = codeField('sd', 'imm');
/** c.lui takes bits 17..12. */
const CLUI = codeField('c.lui', 'upper', 12);

/**
 * auipc and the jalr behind it. The value is 32 bits, the rounded upper part in bits 31..12 and the
 * low part in 11..0; slices at 32 and above lie in the second word.
 */
const PAIR: FieldCodec = {
  name: 'auipc.upper+jalr.imm',
  sizeBytes: 8,
  kind: 'code',
  slices: [
    ...riscvTable.field('auipc', 'upper').slices,
    ...riscvTable.field('jalr', 'imm').slices.map(({ high, low, at }) => ({ high, low, at: at + 32 })),
  ],
  widthBits: 32,
};

const NOTHING: FieldCodec = { name: 'none', sizeBytes: 1, kind: 'data', slices: [], widthBits: 8 };
const WORD8 = dataField('word8', 1);
const WORD6 = dataField('word6', 1, 6);
const WORD16 = dataField('word16', 2);
const WORD32 = dataField('word32', 4);
const WORD64 = dataField('word64', 8);

// -------------------------------------------------------------------------------------------- rows

type More = Partial<Pick<RelocationRow, 'overflow' | 'alignBytes' | 'branch' | 'stubAllowed' | 'note'>>;

function define(
  type: number,
  name: string,
  rule: ValueRule,
  field: FieldCodec,
  more: More = {},
  part: ValuePart = 'all',
): RelocationRow {
  return { type, name: `R_RISCV_${name}`, rule, part, field, overflow: 'none', alignBytes: 1, ...more };
}

/** Upper part of a 32-bit value for lui or auipc. */
const upper = (type: number, name: string, rule: ValueRule, more: More = {}): RelocationRow =>
  define(type, name, rule, UTYPE, { overflow: 'signed', ...more }, 'hi20');
const lower = (type: number, name: string, rule: ValueRule, field: FieldCodec, more: More = {}): RelocationRow =>
  define(type, name, rule, field, more, 'lo12');
const even: More = { overflow: 'signed', alignBytes: 2 };

const ROWS: readonly RelocationRow[] = [
  define(0, 'NONE', 'none', NOTHING),
  define(1, '32', 'abs', WORD32, { overflow: 'either' }),
  define(2, '64', 'abs', WORD64),
  define(3, 'RELATIVE', 'relative', WORD64),
  define(4, 'COPY', 'copy', NOTHING),
  define(5, 'JUMP_SLOT', 'jump-slot', WORD64),
  define(6, 'TLS_DTPMOD32', 'tls', WORD32),
  define(7, 'TLS_DTPMOD64', 'tls', WORD64),
  define(8, 'TLS_DTPREL32', 'tls', WORD32),
  define(9, 'TLS_DTPREL64', 'tls', WORD64),
  define(10, 'TLS_TPREL32', 'tls', WORD32),
  define(11, 'TLS_TPREL64', 'tls', WORD64),
  define(12, 'TLSDESC', 'tls', WORD64, { note: 'two words: resolver and argument' }),
  define(16, 'BRANCH', 'pcrel', codeField('beq', 'off'), { ...even, branch: 'conditional' }),
  define(17, 'JAL', 'pcrel', codeField('jal', 'off'), { ...even, branch: 'call' }),
  define(
    18,
    'CALL',
    'pcrel',
    PAIR,
    { ...even, branch: 'call', stubAllowed: true, note: 'deprecated, as CALL_PLT' },
    'hi20lo12',
  ),
  define(19, 'CALL_PLT', 'pcrel', PAIR, { ...even, branch: 'call', stubAllowed: true }, 'hi20lo12'),
  upper(20, 'GOT_HI20', 'got-pcrel'),
  upper(21, 'TLS_GOT_HI20', 'tls'),
  upper(22, 'TLS_GD_HI20', 'tls'),
  upper(23, 'PCREL_HI20', 'pcrel'),
  lower(24, 'PCREL_LO12_I', 'pcrel-low', ITYPE),
  lower(25, 'PCREL_LO12_S', 'pcrel-low', STYPE),
  upper(26, 'HI20', 'abs'),
  lower(27, 'LO12_I', 'abs', ITYPE),
  lower(28, 'LO12_S', 'abs', STYPE),
  upper(29, 'TPREL_HI20', 'tls'),
  lower(30, 'TPREL_LO12_I', 'tls', ITYPE),
  lower(31, 'TPREL_LO12_S', 'tls', STYPE),
  define(32, 'TPREL_ADD', 'none', NOTHING, { note: 'marks the add of a thread-local access' }),
  define(33, 'ADD8', 'add', WORD8),
  define(34, 'ADD16', 'add', WORD16),
  define(35, 'ADD32', 'add', WORD32),
  define(36, 'ADD64', 'add', WORD64),
  define(37, 'SUB8', 'sub', WORD8),
  define(38, 'SUB16', 'sub', WORD16),
  define(39, 'SUB32', 'sub', WORD32),
  define(40, 'SUB64', 'sub', WORD64),
  define(41, 'GOT32_PCREL', 'got-pcrel', WORD32, { overflow: 'signed', note: 'GNU_VTINHERIT before psABI 1.1' }),
  define(43, 'ALIGN', 'align', NOTHING, { note: 'the addend is the number of nop bytes at the place' }),
  define(44, 'RVC_BRANCH', 'pcrel', codeField('c.beqz', 'off'), { ...even, branch: 'conditional' }),
  define(45, 'RVC_JUMP', 'pcrel', codeField('c.j', 'off'), { ...even, branch: 'jump' }),
  define(46, 'RVC_LUI', 'abs', CLUI, { overflow: 'signed' }, 'hi20'),
  lower(47, 'GPREL_I', 'toc-relative', ITYPE, { note: 'linker-internal: S + A - gp' }),
  lower(48, 'GPREL_S', 'toc-relative', STYPE, { note: 'linker-internal: S + A - gp' }),
  lower(49, 'TPREL_I', 'tls', ITYPE, { note: 'linker-internal' }),
  lower(50, 'TPREL_S', 'tls', STYPE, { note: 'linker-internal' }),
  define(51, 'RELAX', 'none', NOTHING, { note: 'companion: the linker may shorten the sequence at the place' }),
  define(52, 'SUB6', 'sub', WORD6),
  define(53, 'SET6', 'abs', WORD6),
  define(54, 'SET8', 'abs', WORD8),
  define(55, 'SET16', 'abs', WORD16),
  define(56, 'SET32', 'abs', WORD32),
  define(57, '32_PCREL', 'pcrel', WORD32),
  define(58, 'IRELATIVE', 'irelative', WORD64),
  define(59, 'PLT32', 'pcrel', WORD32, { overflow: 'signed', stubAllowed: true }),
  // Variable-length data: no fixed field.
  define(60, 'SET_ULEB128', 'uleb-set', NOTHING, { note: 'ULEB128 data of the length that the place has' }),
  define(61, 'SUB_ULEB128', 'uleb-sub', NOTHING, { note: 'ULEB128 data of the length that the place has' }),
  upper(62, 'TLSDESC_HI20', 'tls'),
  lower(63, 'TLSDESC_LOAD_LO12', 'tls', ITYPE),
  lower(64, 'TLSDESC_ADD_LO12', 'tls', ITYPE),
  define(65, 'TLSDESC_CALL', 'none', NOTHING, { note: 'marks the call of a TLS descriptor' }),
];

export const riscvRelocations: ReadonlyMap<number, RelocationRow> = new Map(ROWS.map((each) => [each.type, each]));

/**
 * Types that kernels' module loaders take: neither NONE nor ALIGN, nothing of a dynamic linker or
 * of thread-local data.
 */
export const riscvModuleTypes: ReadonlySet<number> = new Set([
  ...[1, 2, 16, 17, 18, 19, 20, 23, 24, 25, 26, 27, 28],
  ...[33, 34, 35, 36, 37, 38, 39, 40, 44, 45, 51, 52, 53, 54, 55, 56, 57, 59, 60, 61],
]);
