/**
 * s390x relocation rows.
 *
 * What a patcher must know of them: the types whose names end in DBL hold a distance in halfwords,
 * and stand on the displacement, 2 bytes behind the instruction that it counts from; so calls carry
 * an addend of 2. Everything is RELA, and the places are not aligned.
 *
 * Source: ELF Application Binary Interface s390x Supplement 1.6, 3.6; names as in binutils.
 */
import type { FieldCodec, RelocationRow, ValueRule } from '../relocs/kinds.js';

export const R_390_NONE = 0;
export const R_390_RELATIVE = 12;
export const R_390_PC32DBL = 19;
export const R_390_PLT32DBL = 20;
export const R_390_64 = 22;

function data(name: string, sizeBytes: 1 | 2 | 4 | 8, widthBits = 8 * sizeBytes): FieldCodec {
  return { name, sizeBytes, kind: 'data', slices: [{ high: widthBits - 1, low: 0, at: 0 }], widthBits };
}

/** A distance in halfwords: `widthBits` bits of it are stored. */
function halfwords(name: string, sizeBytes: 2 | 4, widthBits = 8 * sizeBytes): FieldCodec {
  return { name, sizeBytes, kind: 'code', slices: [{ high: widthBits, low: 1, at: 0 }], widthBits: widthBits + 1 };
}

const NOTHING: FieldCodec = { name: 'none', sizeBytes: 1, kind: 'data', slices: [], widthBits: 8 };
const WORD8 = data('word8', 1);
const WORD16 = data('word16', 2);
const WORD32 = data('word32', 4);
const WORD64 = data('word64', 8);
/** The displacement of a storage operand, behind its base register. */
const SHORT12: FieldCodec = { ...data('displacement12', 2, 12), kind: 'code' };
/** The long one: lower 12 bits first, the upper 8 behind them. */
const LONG20: FieldCodec = {
  name: 'displacement20',
  sizeBytes: 4,
  kind: 'code',
  slices: [
    { high: 11, low: 0, at: 16 },
    { high: 19, low: 12, at: 8 },
  ],
  widthBits: 20,
};
const DBL12 = halfwords('distance12', 2, 12);
const DBL16 = halfwords('distance16', 2);
/** In the lower 24 bits of a word whose first byte is another field. */
const DBL24 = halfwords('distance24', 4, 24);
const DBL32 = halfwords('distance32', 4);

type More = Partial<Pick<RelocationRow, 'overflow' | 'alignBytes' | 'branch' | 'stubAllowed' | 'note'>>;

function row(type: number, name: string, rule: ValueRule, field: FieldCodec, more: More = {}): RelocationRow {
  return { type, name: `R_390_${name}`, rule, part: 'all', field, overflow: 'none', alignBytes: 1, ...more };
}

const signed: More = { overflow: 'signed' };
const even: More = { overflow: 'signed', alignBytes: 2 };
const call: More = { ...even, branch: 'call' };
/** A marker of a thread-local access, or its value. */
const tls = (type: number, name: string, field = NOTHING): RelocationRow => row(type, `TLS_${name}`, 'tls', field);
/** Places in a procedure linkage table, which only a linker lays out. */
const linker = (type: number, name: string, field: FieldCodec): RelocationRow => row(type, name, 'linker', field);

const ROWS: readonly RelocationRow[] = [
  row(R_390_NONE, 'NONE', 'none', NOTHING),
  row(1, '8', 'abs', WORD8, { overflow: 'either' }),
  row(2, '12', 'abs', SHORT12, { overflow: 'unsigned' }),
  row(3, '16', 'abs', WORD16, { overflow: 'either' }),
  row(4, '32', 'abs', WORD32, { overflow: 'either' }),
  row(5, 'PC32', 'pcrel', WORD32, signed),
  row(6, 'GOT12', 'got-relative', SHORT12, { overflow: 'unsigned' }),
  row(7, 'GOT32', 'got-relative', WORD32),
  row(8, 'PLT32', 'pcrel', WORD32, { ...signed, stubAllowed: true }),
  row(9, 'COPY', 'copy', NOTHING),
  row(10, 'GLOB_DAT', 'glob-dat', WORD64),
  row(11, 'JMP_SLOT', 'jump-slot', WORD64),
  row(R_390_RELATIVE, 'RELATIVE', 'relative', WORD64),
  row(13, 'GOTOFF32', 'toc-relative', WORD32),
  linker(14, 'GOTPC', WORD32),
  row(15, 'GOT16', 'got-relative', WORD16),
  row(16, 'PC16', 'pcrel', WORD16, signed),
  row(17, 'PC16DBL', 'pcrel', DBL16, { ...even, branch: 'conditional' }),
  row(18, 'PLT16DBL', 'pcrel', DBL16, { ...call, stubAllowed: true }),
  row(R_390_PC32DBL, 'PC32DBL', 'pcrel', DBL32, even),
  row(R_390_PLT32DBL, 'PLT32DBL', 'pcrel', DBL32, { ...call, stubAllowed: true }),
  linker(21, 'GOTPCDBL', DBL32),
  row(R_390_64, '64', 'abs', WORD64),
  row(23, 'PC64', 'pcrel', WORD64),
  row(24, 'GOT64', 'got-relative', WORD64),
  row(25, 'PLT64', 'pcrel', WORD64, { stubAllowed: true }),
  row(26, 'GOTENT', 'got-pcrel', DBL32, even),
  row(27, 'GOTOFF16', 'toc-relative', WORD16),
  row(28, 'GOTOFF64', 'toc-relative', WORD64),
  linker(29, 'GOTPLT12', SHORT12),
  linker(30, 'GOTPLT16', WORD16),
  linker(31, 'GOTPLT32', WORD32),
  linker(32, 'GOTPLT64', WORD64),
  linker(33, 'GOTPLTENT', DBL32),
  linker(34, 'PLTOFF16', WORD16),
  linker(35, 'PLTOFF32', WORD32),
  linker(36, 'PLTOFF64', WORD64),
  tls(37, 'LOAD'),
  tls(38, 'GDCALL'),
  tls(39, 'LDCALL'),
  tls(40, 'GD32', WORD32),
  tls(41, 'GD64', WORD64),
  tls(42, 'GOTIE12', SHORT12),
  tls(43, 'GOTIE32', WORD32),
  tls(44, 'GOTIE64', WORD64),
  tls(45, 'LDM32', WORD32),
  tls(46, 'LDM64', WORD64),
  tls(47, 'IE32', WORD32),
  tls(48, 'IE64', WORD64),
  tls(49, 'IEENT', DBL32),
  tls(50, 'LE32', WORD32),
  tls(51, 'LE64', WORD64),
  tls(52, 'LDO32', WORD32),
  tls(53, 'LDO64', WORD64),
  tls(54, 'DTPMOD', WORD64),
  tls(55, 'DTPOFF', WORD64),
  tls(56, 'TPOFF', WORD64),
  row(57, '20', 'abs', LONG20, signed),
  row(58, 'GOT20', 'got-relative', LONG20, signed),
  linker(59, 'GOTPLT20', LONG20),
  tls(60, 'GOTIE20', LONG20),
  row(61, 'IRELATIVE', 'irelative', WORD64),
  row(62, 'PC12DBL', 'pcrel', DBL12, { ...even, branch: 'conditional' }),
  row(63, 'PLT12DBL', 'pcrel', DBL12, { ...call, stubAllowed: true }),
  row(64, 'PC24DBL', 'pcrel', DBL24, { ...even, branch: 'conditional' }),
  row(65, 'PLT24DBL', 'pcrel', DBL24, { ...call, stubAllowed: true }),
  row(250, 'GNU_VTINHERIT', 'none', NOTHING),
  row(251, 'GNU_VTENTRY', 'none', NOTHING),
];

export const s390xRelocations: ReadonlyMap<number, RelocationRow> = new Map(ROWS.map((each) => [each.type, each]));

/**
 * Types that the module loader of a kernel takes (S-MOD-2): all but those of linked programs and of
 * thread-local storage.
 */
export const s390xModuleTypes: ReadonlySet<number> = new Set([
  R_390_NONE, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 18, R_390_PC32DBL, R_390_PLT32DBL, 21, R_390_64, 23, 24, 25, 26, 27, 28,
  29, 30, 31, 32, 33, 34, 35, 36, 57, 58, 59,
]); // prettier-ignore
