/**
 * arm64 relocation rows (ELF for the Arm 64-bit Architecture, 5.7). Fields of instructions
 * are slices of the instruction rows, so an encoder and a relocation cannot disagree about a bit.
 *
 * LO12 types put bits of S + A into the field and drop the others without a word (`_NC`, no check);
 * the alignment that a scaled load demands is checked. MOVW_SABS and MOVW_PREL choose movn for
 * negative values: their fields hold the 16 bits only, and the opcode is left to the linker.
 */
import type { RelocationRoles } from '../machine/tables.js';
import type { FieldCodec, RelocationRow, ValueRule } from '../relocs/kinds.js';
import { arm64Table, type Arm64Mnemonic } from './isa.js';

const R_AARCH64_NONE = 0;
export const R_AARCH64_ABS64 = 257;
const R_AARCH64_JUMP26 = 282;
export const R_AARCH64_CALL26 = 283;
const R_AARCH64_JUMP_SLOT = 1026;
const R_AARCH64_RELATIVE = 1027;

type Overflow = RelocationRow['overflow'];

/**
 * The field of an instruction row as a codec. `shift`: value bits that stand below the row's lowest
 * bit (12 for adrp, whose row counts pages). `widthBits` is the width of the checked value.
 */
function code(name: string, mnemonic: Arm64Mnemonic, field: string, shift = 0, widthBits?: number): FieldCodec {
  const found = arm64Table.field(mnemonic, field);
  return {
    name,
    sizeBytes: 4,
    kind: 'code',
    slices: found.slices.map(({ high, low, at }) => ({ high: high + shift, low: low + shift, at })),
    widthBits: widthBits ?? found.widthBits + shift,
  };
}

/**
 * A load or store's 12-bit field: bits 11..scale of the address; the field's upper bits stay as
 * they are, zero in objects.
 */
function loadStore(name: string, scale: number): FieldCodec {
  const field = arm64Table.field('add-imm', 'imm12').slices[0]!;
  return {
    name,
    sizeBytes: 4,
    kind: 'code',
    slices: [{ high: 11, low: scale, at: field.at }],
    widthBits: 12,
  };
}

function data(name: string, sizeBytes: 2 | 4 | 8): FieldCodec {
  const widthBits = sizeBytes * 8;
  return { name, sizeBytes, kind: 'data', slices: [{ high: widthBits - 1, low: 0, at: 0 }], widthBits };
}

const WORD64 = data('word64', 8);
const WORD32 = data('word32', 4);
const WORD16 = data('word16', 2);
const NOTHING: FieldCodec = { name: 'none', sizeBytes: 4, kind: 'data', slices: [], widthBits: 32 };
/** Markers on an instruction that a linker may relax: no bits. */
const MARKER: FieldCodec = { name: 'marker', sizeBytes: 4, kind: 'code', slices: [], widthBits: 32 };
const BRANCH26 = code('branch26', 'bl', 'off');
const BRANCH19 = code('branch19', 'b-cond', 'off');
const BRANCH14 = code('branch14', 'tbz', 'off');
const LITERAL19 = code('literal19', 'ldr-x-lit', 'off');
const ADR21 = code('adr21', 'adr', 'off');
const ADRP21 = code('adrp21', 'adrp', 'pages', 12);
const ADD12 = code('add12', 'add-imm', 'imm12');
/** The upper half of a 24-bit offset, for `add …, lsl #12`. */
const ADD12_HIGH = code('add12-high', 'add-imm', 'imm12', 12);
const LDST8 = loadStore('ldst8', 0);
const LDST16 = loadStore('ldst16', 1);
const LDST32 = loadStore('ldst32', 2);
const LDST64 = loadStore('ldst64', 3);
const LDST128 = loadStore('ldst128', 4);
/** Offset of a GOT slot: 15 bits, multiples of 8. */
const GOT15 = code('got15', 'ldr-x-imm', 'pimm');
const MOVW = ([0, 16, 32, 48] as const).map((shift) => code(`movw-g${shift / 16}`, 'movz', 'imm16', shift));
/** The signed groups hold one bit more, the sign, which becomes movz or movn. */
const MOVW_SIGNED = ([0, 16, 32, 48] as const).map((shift) =>
  code(`movw-sg${shift / 16}`, 'movz', 'imm16', shift, shift === 48 ? 64 : shift + 17),
);

/** A negative value turns movz into movn. */
const BY_SIGN = {
  mask: arm64Table.row('movz').mask,
  positive: arm64Table.row('movz').match,
  negative: arm64Table.row('movn').match,
} as const;

interface Options {
  readonly alignBytes?: RelocationRow['alignBytes'];
  readonly branch?: NonNullable<RelocationRow['branch']>;
  readonly stubAllowed?: true;
  readonly bySign?: NonNullable<RelocationRow['bySign']>;
  readonly note?: string;
}

function row(
  type: number,
  name: string,
  rule: ValueRule,
  field: FieldCodec,
  overflow: Overflow,
  options: Options = {},
): RelocationRow {
  return {
    type,
    name: `R_AARCH64_${name}`,
    rule,
    part: 'all',
    field,
    overflow,
    alignBytes: options.alignBytes ?? 1,
    ...(options.branch ? { branch: options.branch } : {}),
    ...(options.stubAllowed ? { stubAllowed: true } : {}),
    ...(options.note === undefined ? {} : { note: options.note }),
    ...(options.bySign ? { bySign: options.bySign } : {}),
  };
}

/**
 * Checked and unchecked rows of the five access sizes of a TLS offset (types `first`, `first + 1`,
 * … in pairs).
 */
function tlsLoadStore(first: number, first128: number, kind: string): RelocationRow[] {
  const sizes = [
    [8, LDST8, 1],
    [16, LDST16, 2],
    [32, LDST32, 4],
    [64, LDST64, 8],
  ] as const;
  const rows = sizes.flatMap(([bits, field, alignBytes], i) => [
    row(first + 2 * i, `${kind.replace('@', `LDST${bits}`)}_LO12`, 'tls', field, 'unsigned', { alignBytes }),
    row(first + 2 * i + 1, `${kind.replace('@', `LDST${bits}`)}_LO12_NC`, 'tls', field, 'none', { alignBytes }),
  ]);
  const name = kind.replace('@', 'LDST128');
  return [
    ...rows,
    row(first128, `${name}_LO12`, 'tls', LDST128, 'unsigned', { alignBytes: 16 }),
    row(first128 + 1, `${name}_LO12_NC`, 'tls', LDST128, 'none', { alignBytes: 16 }),
  ];
}

const ROWS: readonly RelocationRow[] = [
  row(R_AARCH64_NONE, 'NONE', 'none', NOTHING, 'none'),
  row(256, 'NULL', 'none', NOTHING, 'none', { note: 'withdrawn name of NONE' }),
  // Data
  row(R_AARCH64_ABS64, 'ABS64', 'abs', WORD64, 'none'),
  row(258, 'ABS32', 'abs', WORD32, 'either'),
  row(259, 'ABS16', 'abs', WORD16, 'either'),
  row(260, 'PREL64', 'pcrel', WORD64, 'none'),
  row(261, 'PREL32', 'pcrel', WORD32, 'either'),
  row(262, 'PREL16', 'pcrel', WORD16, 'either'),
  row(314, 'PLT32', 'pcrel', WORD32, 'signed', { stubAllowed: true }),
  row(315, 'GOTPCREL32', 'got-pcrel', WORD32, 'signed'),
  // movz, movk, movn groups of an absolute value
  row(263, 'MOVW_UABS_G0', 'abs', MOVW[0]!, 'unsigned'),
  row(264, 'MOVW_UABS_G0_NC', 'abs', MOVW[0]!, 'none'),
  row(265, 'MOVW_UABS_G1', 'abs', MOVW[1]!, 'unsigned'),
  row(266, 'MOVW_UABS_G1_NC', 'abs', MOVW[1]!, 'none'),
  row(267, 'MOVW_UABS_G2', 'abs', MOVW[2]!, 'unsigned'),
  row(268, 'MOVW_UABS_G2_NC', 'abs', MOVW[2]!, 'none'),
  row(269, 'MOVW_UABS_G3', 'abs', MOVW[3]!, 'none'),
  row(270, 'MOVW_SABS_G0', 'abs', MOVW_SIGNED[0]!, 'signed', { bySign: BY_SIGN }),
  row(271, 'MOVW_SABS_G1', 'abs', MOVW_SIGNED[1]!, 'signed', { bySign: BY_SIGN }),
  row(272, 'MOVW_SABS_G2', 'abs', MOVW_SIGNED[2]!, 'signed', { bySign: BY_SIGN }),
  // pc-relative and page-relative addresses
  row(273, 'LD_PREL_LO19', 'pcrel', LITERAL19, 'signed', { alignBytes: 4 }),
  row(274, 'ADR_PREL_LO21', 'pcrel', ADR21, 'signed'),
  row(275, 'ADR_PREL_PG_HI21', 'page-pcrel', ADRP21, 'signed'),
  row(276, 'ADR_PREL_PG_HI21_NC', 'page-pcrel', ADRP21, 'none'),
  row(277, 'ADD_ABS_LO12_NC', 'abs', ADD12, 'none'),
  row(278, 'LDST8_ABS_LO12_NC', 'abs', LDST8, 'none'),
  row(284, 'LDST16_ABS_LO12_NC', 'abs', LDST16, 'none', { alignBytes: 2 }),
  row(285, 'LDST32_ABS_LO12_NC', 'abs', LDST32, 'none', { alignBytes: 4 }),
  row(286, 'LDST64_ABS_LO12_NC', 'abs', LDST64, 'none', { alignBytes: 8 }),
  row(299, 'LDST128_ABS_LO12_NC', 'abs', LDST128, 'none', { alignBytes: 16 }),
  // Branches
  row(279, 'TSTBR14', 'pcrel', BRANCH14, 'signed', { alignBytes: 4, branch: 'conditional' }),
  row(280, 'CONDBR19', 'pcrel', BRANCH19, 'signed', { alignBytes: 4, branch: 'conditional' }),
  row(R_AARCH64_JUMP26, 'JUMP26', 'pcrel', BRANCH26, 'signed', { alignBytes: 4, branch: 'jump', stubAllowed: true }),
  row(R_AARCH64_CALL26, 'CALL26', 'pcrel', BRANCH26, 'signed', { alignBytes: 4, branch: 'call', stubAllowed: true }),
  // movz, movk, movn groups of a pc-relative value
  row(287, 'MOVW_PREL_G0', 'pcrel', MOVW_SIGNED[0]!, 'signed', { bySign: BY_SIGN }),
  row(288, 'MOVW_PREL_G0_NC', 'pcrel', MOVW_SIGNED[0]!, 'none'),
  row(289, 'MOVW_PREL_G1', 'pcrel', MOVW_SIGNED[1]!, 'signed', { bySign: BY_SIGN }),
  row(290, 'MOVW_PREL_G1_NC', 'pcrel', MOVW_SIGNED[1]!, 'none'),
  row(291, 'MOVW_PREL_G2', 'pcrel', MOVW_SIGNED[2]!, 'signed', { bySign: BY_SIGN }),
  row(292, 'MOVW_PREL_G2_NC', 'pcrel', MOVW_SIGNED[2]!, 'none'),
  row(293, 'MOVW_PREL_G3', 'pcrel', MOVW_SIGNED[3]!, 'none', { bySign: BY_SIGN }),
  // GOT
  row(300, 'MOVW_GOTOFF_G0', 'got-relative', MOVW_SIGNED[0]!, 'signed', { bySign: BY_SIGN }),
  row(301, 'MOVW_GOTOFF_G0_NC', 'got-relative', MOVW_SIGNED[0]!, 'none'),
  row(302, 'MOVW_GOTOFF_G1', 'got-relative', MOVW_SIGNED[1]!, 'signed', { bySign: BY_SIGN }),
  row(303, 'MOVW_GOTOFF_G1_NC', 'got-relative', MOVW_SIGNED[1]!, 'none'),
  row(304, 'MOVW_GOTOFF_G2', 'got-relative', MOVW_SIGNED[2]!, 'signed', { bySign: BY_SIGN }),
  row(305, 'MOVW_GOTOFF_G2_NC', 'got-relative', MOVW_SIGNED[2]!, 'none'),
  row(306, 'MOVW_GOTOFF_G3', 'got-relative', MOVW_SIGNED[3]!, 'none', { bySign: BY_SIGN }),
  row(307, 'GOTREL64', 'toc-relative', WORD64, 'none'),
  row(308, 'GOTREL32', 'toc-relative', WORD32, 'signed'),
  row(309, 'GOT_LD_PREL19', 'got-pcrel', LITERAL19, 'signed', { alignBytes: 4 }),
  row(310, 'LD64_GOTOFF_LO15', 'got-relative', GOT15, 'unsigned', { alignBytes: 8 }),
  row(311, 'ADR_GOT_PAGE', 'got-page-pcrel', ADRP21, 'signed'),
  row(312, 'LD64_GOT_LO12_NC', 'got-abs', LDST64, 'none', { alignBytes: 8 }),
  row(313, 'LD64_GOTPAGE_LO15', 'got-page-relative', GOT15, 'unsigned', { alignBytes: 8 }),
  // Thread-local storage: general dynamic
  row(512, 'TLSGD_ADR_PREL21', 'tls', ADR21, 'signed'),
  row(513, 'TLSGD_ADR_PAGE21', 'tls', ADRP21, 'signed'),
  row(514, 'TLSGD_ADD_LO12_NC', 'tls', ADD12, 'none'),
  row(515, 'TLSGD_MOVW_G1', 'tls', MOVW_SIGNED[1]!, 'signed'),
  row(516, 'TLSGD_MOVW_G0_NC', 'tls', MOVW[0]!, 'none'),
  // local dynamic
  row(517, 'TLSLD_ADR_PREL21', 'tls', ADR21, 'signed'),
  row(518, 'TLSLD_ADR_PAGE21', 'tls', ADRP21, 'signed'),
  row(519, 'TLSLD_ADD_LO12_NC', 'tls', ADD12, 'none'),
  row(520, 'TLSLD_MOVW_G1', 'tls', MOVW_SIGNED[1]!, 'signed'),
  row(521, 'TLSLD_MOVW_G0_NC', 'tls', MOVW[0]!, 'none'),
  row(522, 'TLSLD_LD_PREL19', 'tls', LITERAL19, 'signed', { alignBytes: 4 }),
  row(523, 'TLSLD_MOVW_DTPREL_G2', 'tls', MOVW[2]!, 'unsigned'),
  row(524, 'TLSLD_MOVW_DTPREL_G1', 'tls', MOVW_SIGNED[1]!, 'signed'),
  row(525, 'TLSLD_MOVW_DTPREL_G1_NC', 'tls', MOVW[1]!, 'none'),
  row(526, 'TLSLD_MOVW_DTPREL_G0', 'tls', MOVW_SIGNED[0]!, 'signed'),
  row(527, 'TLSLD_MOVW_DTPREL_G0_NC', 'tls', MOVW[0]!, 'none'),
  row(528, 'TLSLD_ADD_DTPREL_HI12', 'tls', ADD12_HIGH, 'unsigned'),
  row(529, 'TLSLD_ADD_DTPREL_LO12', 'tls', ADD12, 'unsigned'),
  row(530, 'TLSLD_ADD_DTPREL_LO12_NC', 'tls', ADD12, 'none'),
  ...tlsLoadStore(531, 572, 'TLSLD_@_DTPREL'),
  // initial executable
  row(539, 'TLSIE_MOVW_GOTTPREL_G1', 'tls', MOVW_SIGNED[1]!, 'signed'),
  row(540, 'TLSIE_MOVW_GOTTPREL_G0_NC', 'tls', MOVW[0]!, 'none'),
  row(541, 'TLSIE_ADR_GOTTPREL_PAGE21', 'tls', ADRP21, 'signed'),
  row(542, 'TLSIE_LD64_GOTTPREL_LO12_NC', 'tls', LDST64, 'none', { alignBytes: 8 }),
  row(543, 'TLSIE_LD_GOTTPREL_PREL19', 'tls', LITERAL19, 'signed', { alignBytes: 4 }),
  // local executable
  row(544, 'TLSLE_MOVW_TPREL_G2', 'tls', MOVW[2]!, 'unsigned'),
  row(545, 'TLSLE_MOVW_TPREL_G1', 'tls', MOVW_SIGNED[1]!, 'signed'),
  row(546, 'TLSLE_MOVW_TPREL_G1_NC', 'tls', MOVW[1]!, 'none'),
  row(547, 'TLSLE_MOVW_TPREL_G0', 'tls', MOVW_SIGNED[0]!, 'signed'),
  row(548, 'TLSLE_MOVW_TPREL_G0_NC', 'tls', MOVW[0]!, 'none'),
  row(549, 'TLSLE_ADD_TPREL_HI12', 'tls', ADD12_HIGH, 'unsigned'),
  row(550, 'TLSLE_ADD_TPREL_LO12', 'tls', ADD12, 'unsigned'),
  row(551, 'TLSLE_ADD_TPREL_LO12_NC', 'tls', ADD12, 'none'),
  ...tlsLoadStore(552, 570, 'TLSLE_@_TPREL'),
  // descriptors
  row(560, 'TLSDESC_LD_PREL19', 'tls', LITERAL19, 'signed', { alignBytes: 4 }),
  row(561, 'TLSDESC_ADR_PREL21', 'tls', ADR21, 'signed'),
  row(562, 'TLSDESC_ADR_PAGE21', 'tls', ADRP21, 'signed'),
  row(563, 'TLSDESC_LD64_LO12', 'tls', LDST64, 'none', { alignBytes: 8 }),
  row(564, 'TLSDESC_ADD_LO12', 'tls', ADD12, 'none'),
  row(565, 'TLSDESC_OFF_G1', 'tls', MOVW_SIGNED[1]!, 'signed'),
  row(566, 'TLSDESC_OFF_G0_NC', 'tls', MOVW[0]!, 'none'),
  row(567, 'TLSDESC_LDR', 'tls', MARKER, 'none', { note: 'marks the load for relaxation' }),
  row(568, 'TLSDESC_ADD', 'tls', MARKER, 'none', { note: 'marks the add for relaxation' }),
  row(569, 'TLSDESC_CALL', 'tls', MARKER, 'none', { note: 'marks the blr for relaxation' }),
  // Dynamic
  row(1024, 'COPY', 'copy', NOTHING, 'none'),
  row(1025, 'GLOB_DAT', 'glob-dat', WORD64, 'none'),
  row(R_AARCH64_JUMP_SLOT, 'JUMP_SLOT', 'jump-slot', WORD64, 'none'),
  row(R_AARCH64_RELATIVE, 'RELATIVE', 'relative', WORD64, 'none'),
  row(1028, 'TLS_DTPMOD', 'tls', WORD64, 'none'),
  row(1029, 'TLS_DTPREL', 'tls', WORD64, 'none'),
  row(1030, 'TLS_TPREL', 'tls', WORD64, 'none'),
  row(1031, 'TLSDESC', 'tls', WORD64, 'none', { note: 'two words: resolver and argument' }),
  row(1032, 'IRELATIVE', 'irelative', WORD64, 'none'),
];

export const arm64Relocations: ReadonlyMap<number, RelocationRow> = new Map(ROWS.map((each) => [each.type, each]));

/** Types that kernels' module loaders take: both NONE, data, MOVW, immediates and branches. */
const moduleTypes = new Set([
  ...[0, 256, 257, 258, 259, 260, 261, 262],
  ...[263, 264, 265, 266, 267, 268, 269, 270, 271, 272, 287, 288, 289, 290, 291, 292, 293],
  ...[273, 274, 275, 276, 277, 278, 279, 280, 282, 283, 284, 285, 286, 299],
]);

export const arm64RelocationRoles: RelocationRoles = {
  none: R_AARCH64_NONE,
  word: R_AARCH64_ABS64,
  relative: R_AARCH64_RELATIVE,
  companions: [],
  neutralInModule: { type: R_AARCH64_NONE, addend: 'kept' },
  takenInModules: [moduleTypes],
  zeroInModules: false,
};
