/**
 * A64 instruction rows, their text, and the single-instruction encoders that patching needs. Owns
 * bit patterns; knows no sites and no relocation types.
 *
 * What a patcher has to know about A64
 *
 * - Every instruction is one 32-bit word at a 4-aligned address, little-endian in memory whatever
 *   the data order is (Arm ARM, B2.6.2). So every place is one store, and neighbours never move.
 * - nop <-> bl, and bl <-> bl of another target, may be exchanged under a running CPU: B, BL, NOP,
 *   BRK, SVC, HVC, SMC and ISB are the words that may be modified and executed concurrently (Arm
 *   ARM, B2.2.5). `mov x9, x30` is not in that list: it has to stand before the code can run. A
 *   file at rest needs neither, but its plans keep the order.
 * - At a function's entry x0-x8 hold arguments (x8: address of the result), x18 belongs to the
 *   platform, x19-x29 to the caller, x30 to the return. Free: x9-x17 (AAPCS64, 6.1.1). x16 and x17
 *   are the linker's: any bl may pass through a veneer that destroys them. x9 carries the caller's
 *   return address from the patched site to the tracer.
 * - bl reaches +-128 MiB, b.cond, cbz and ldr (literal) +-1 MiB, tbz +-32 KiB, adr +-1 MiB, adrp
 *   +-4 GiB of pages. adrp counts 4 KiB pages from its own page, whatever the page size of the
 *   system is.
 * - With branch target identification an indirect branch may only land on `bti` (or paciasp).
 *   Compilers put `bti c` in front of the patchable nops, and only into functions whose address can
 *   be taken. `ret x9` is no indirect branch in this sense, `br x9` is one.
 * - `bti`, `paciasp`, `xpaclri` and `nop` are all hints: where the feature is absent the word does
 *   nothing.
 * - Register 31 is sp or the zero register, depending on the operand. Many names (`mov`, `cmp`,
 *   `lsl`, `ret`) are only other spellings; the rows hold the real instruction and print what
 *   `objdump -M no-aliases` prints. Text for people comes from the disassembler engine.
 *
 * Reading: Arm Architecture Reference Manual for A-profile, C4.1 (encodings), C6 (instructions).
 *
 * A row is named by its mnemonic and, where one mnemonic has several encodings, a form behind a
 * dash: `add-imm`, `ldr-x-post`. No A64 mnemonic has a dash of its own. In a syntax `~` joins two
 * fields without a blank.
 */
import type { FlowClass, Operands, Row, RowAttributes, RowSpec } from '../isa/table.js';
import type { FieldSpec } from '../isa/table.js';
import { IsaTable, row } from '../isa/table.js';
import type { Flow, Instruction, Isa } from '../isa/instruction.js';
import { reaches, type Reach } from '../bits.js';
import { hex, outOfRange } from '../errors.js';
import { halfElement, integerElement, isLeftShift } from './vector-rows.js';
import type { Address } from '../units.js';

// ---------------------------------------------------------------------------------------- bitmasks

/**
 * Value of a logical immediate, field N:immr:imms, or null where the combination is reserved. A run
 * of ones of length S+1, rotated right by R inside an element of 2..64 bits, repeated over the
 * register (Arm ARM, DecodeBitMasks).
 */
export function decodeBitmask(field: number, widthBits: 32 | 64): bigint | null {
  const n = (field >>> 12) & 1;
  const immr = (field >>> 6) & 63;
  const imms = field & 63;
  if (widthBits === 32 && n === 1) return null;
  const length = 31 - Math.clz32((n << 6) | (~imms & 63));
  if (length < 1) return null;
  const size = 1 << length;
  const ones = (imms & (size - 1)) + 1;
  if (ones === size) return null;
  const rotate = immr & (size - 1);
  const run = (1n << BigInt(ones)) - 1n;
  const bits = BigInt(size);
  const mask = (1n << bits) - 1n;
  const element = ((run >> BigInt(rotate)) | (run << (bits - BigInt(rotate)))) & mask;
  let value = 0n;
  for (let at = 0; at < widthBits; at += size) value |= element << BigInt(at);
  return value;
}

const bitmaskFields = new Map<string, number>();

/** Field N:immr:imms whose value is `value`, or null when no logical immediate has that value. */
export function encodeBitmask(value: bigint, widthBits: 32 | 64): number | null {
  if (bitmaskFields.size === 0) {
    for (const width of [32, 64] as const) {
      for (let field = 0; field < 1 << 13; field++) {
        // immr bits above the element size are ignored: the first, smallest, field of a value is
        // the canonical one.
        const decoded = decodeBitmask(field, width);
        const key = `${width}:${String(decoded)}`;
        if (decoded !== null && !bitmaskFields.has(key)) bitmaskFields.set(key, field);
      }
    }
  }
  return bitmaskFields.get(`${widthBits}:${String(BigInt.asUintN(widthBits, value))}`) ?? null;
}

// ------------------------------------------------------------------------------------------ fields

const register: FieldSpec = { kind: 'register', width: 5 };
/**
 * Consumed by the text of another field (a register's width, a shift's type): never named in a
 * syntax.
 */
const hidden: FieldSpec = { kind: 'suffix', suffix: '' };
const unsigned = (width: number): FieldSpec => ({ kind: 'unsigned', width });

/*
 * Register fields by what number 31 means and how wide they are: `r…` follows the row's `sf` bit,
 * `x…` and `w…` are fixed; `…sp` is the stack pointer at 31, the others are the zero register.
 * `base` is the register of an address.
 */
const REGISTER_FIELDS = [
  'rd rn rm ra rt rs rdsp rnsp rmx rs_pair rt_pair',
  'xd xn xm xa xt xt2 optional_xt xnsp xmsp base',
  'wd wn wm ws wt wt2',
  'bt ht st dt qt st2 dt2 qt2 hd sd dd dn fd fn fm fa',
  // vectors: arrangement by size, by bytes, fixed; elements; the other register file
  'vd vn vm vt bd bn bm v2d v4s v8h ed en en2 high vw rdq ad vt_2 vt_3 vt_4 vln vlm vld vem vpair vfl vfn dm se',
  // structures of one element; tables; what is twice as wide as the elements
  'qd qn sn td tn tm yd yn ve ve_2 ve_3 ve_4 vtable vtable_2 vtable_3 vtable_4 fld fln vpd',
  // sums of four products; words of SHA-512; bytes
  'dotd dote kd kn km ym ya',
  // halves whose products are singles
  'hvn hvm hve',
].flatMap((names) => names.split(' '));

const FIELDS: Readonly<Record<string, FieldSpec>> = {
  ...Object.fromEntries(REGISTER_FIELDS.map((name) => [name, register])),
  sf: hidden,
  sh: hidden,
  n: hidden,
  s: hidden,
  q: hidden,
  /** Q where the mnemonic says it: the upper half of the narrow operand. */
  two: { kind: 'suffix', suffix: '2' },
  shift: hidden,
  option: hidden,
  ptype: hidden,
  size: hidden,
  /** 1: doubles. */
  sz: hidden,
  /** Where it stands numbers are of half precision. */
  half: hidden,
  /** Number of an element: h:l, or h alone. */
  h: hidden,
  l: hidden,
  /** Number of an element of a structure. */
  lane: hidden,
  /** 64 less the digits behind the point. */
  fixed: unsigned(6),
  cmode: unsigned(2),
  vimm: unsigned(8),
  op: hidden,
  key: { kind: 'suffix', suffix: '' },
  /** Acquire and release bits of the atomics; the letters go into the mnemonic. */
  acquire: { kind: 'suffix', suffix: 'a' },
  release: { kind: 'suffix', suffix: 'l' },
  imm12: unsigned(12),
  imm16: unsigned(16),
  hw: unsigned(2),
  bitmask: unsigned(13),
  immr: unsigned(6),
  imms: unsigned(6),
  amount: unsigned(6),
  rotate: unsigned(6),
  extend: unsigned(3),
  pimm: { kind: 'unsigned' },
  simm: { kind: 'signed', width: 9 },
  pairimm: { kind: 'signed' },
  off: { kind: 'displacement' },
  /** adrp: pages of 4 KiB; the byte value has 33 bits, more than a field may hold. */
  pages: { kind: 'signed' },
  bit: unsigned(6),
  cond: unsigned(4),
  nzcv: unsigned(4),
  imm5: unsigned(5),
  imm4: unsigned(4),
  imm8: unsigned(8),
  hint: unsigned(7),
  crm: unsigned(4),
  crn: unsigned(4),
  op1: unsigned(3),
  op2: unsigned(3),
  sysreg: unsigned(15),
  prfop: unsigned(5),
  barrier: unsigned(4),
  shiftimm: unsigned(7),
  targets: unsigned(2),
};

// -------------------------------------------------------------------------------------------- rows

const narrowShift = (o: Operands): boolean => o['sf'] === 1 || o['amount']! < 32;
const bitmaskValid = (o: Operands): boolean => decodeBitmask(o['bitmask']!, o['sf'] === 1 ? 64 : 32) !== null;
const bitfieldValid = (o: Operands): boolean =>
  o['n'] === o['sf'] && (o['sf'] === 1 || (o['immr']! < 32 && o['imms']! < 32));

/**
 * Rows of one register size of a load or store: scaled, unscaled, post-indexed, pre-indexed,
 * register offset.
 */
function memory<const M extends string, const U extends string>(
  name: M,
  unscaled: U,
  /** size, V and opc fields of the encoding. */
  size: string,
  vector: '0' | '1',
  opc: string,
  rt: string,
  scale: number,
  attributes: RowAttributes = {},
) {
  const head = `${size} 111 ${vector}`;
  return [
    row(`${name}-imm`, `${head} 01 ${opc} pimm[${11 + scale}:${scale}] base ${rt}`, `${rt}, [base, pimm]`, attributes),
    row(`${unscaled}`, `${head} 00 ${opc} 0 simm 00 base ${rt}`, `${rt}, [base, simm]`, attributes),
    row(`${name}-post`, `${head} 00 ${opc} 0 simm 01 base ${rt}`, `${rt}, [base], simm`, attributes),
    row(`${name}-pre`, `${head} 00 ${opc} 0 simm 11 base ${rt}`, `${rt}, [base, simm]!`, attributes),
    row(`${name}-reg`, `${head} 00 ${opc} 1 rmx option[2:0] s 10 base ${rt}`, `${rt}, [base, rmx]`, {
      ...attributes,
      when: (o) => (o['option']! & 2) === 2,
    }),
  ] as const;
}

function unprivileged<const M extends string>(name: M, size: string, opc: string, rt: string) {
  return row(name, `${size} 111 0 00 ${opc} 0 simm 10 base ${rt}`, `${rt}, [base, simm]`);
}

/** Pair rows; `scale` is the size of one register as a power of two. */
function pairs<const L extends string>(
  name: L,
  opc: string,
  vector: '0' | '1',
  load: '0' | '1',
  rt: string,
  rt2: string,
  scale: number,
  attributes: RowAttributes = {},
) {
  const body = `${load} pairimm[${6 + scale}:${scale}] ${rt2} base ${rt}`;
  return [
    row(`${name}-post`, `${opc} 101 ${vector} 001 ${body}`, `${rt}, ${rt2}, [base], pairimm`, attributes),
    row(`${name}-off`, `${opc} 101 ${vector} 010 ${body}`, `${rt}, ${rt2}, [base, pairimm]`, attributes),
    row(`${name}-pre`, `${opc} 101 ${vector} 011 ${body}`, `${rt}, ${rt2}, [base, pairimm]!`, attributes),
  ] as const;
}

function pairNonTemporal<const M extends string>(
  name: M,
  opc: string,
  vector: '0' | '1',
  load: '0' | '1',
  rt: string,
  rt2: string,
  scale: number,
  attributes: RowAttributes = {},
) {
  return row(
    name,
    `${opc} 101 ${vector} 000 ${load} pairimm[${6 + scale}:${scale}] ${rt2} base ${rt}`,
    `${rt}, ${rt2}, [base, pairimm]`,
    attributes,
  );
}

/**
 * Exclusive and ordered accesses of one size: `size` is the encoding's size field, `rt` the data
 * register.
 */
function exclusive<const B extends '' | 'b' | 'h', const F extends '' | '-x' | '-w'>(
  letter: B,
  form: F,
  size: string,
  rt: string,
) {
  const at = `${size} 001000`;
  return [
    row(`stxr${letter}${form}`, `${at} 000 ws 0 11111 base ${rt}`, `ws, ${rt}, [base]`),
    row(`stlxr${letter}${form}`, `${at} 000 ws 1 11111 base ${rt}`, `ws, ${rt}, [base]`),
    row(`ldxr${letter}${form}`, `${at} 010 11111 0 11111 base ${rt}`, `${rt}, [base]`),
    row(`ldaxr${letter}${form}`, `${at} 010 11111 1 11111 base ${rt}`, `${rt}, [base]`),
    row(`stllr${letter}${form}`, `${at} 100 11111 0 11111 base ${rt}`, `${rt}, [base]`),
    row(`stlr${letter}${form}`, `${at} 100 11111 1 11111 base ${rt}`, `${rt}, [base]`),
    row(`ldlar${letter}${form}`, `${at} 110 11111 0 11111 base ${rt}`, `${rt}, [base]`),
    row(`ldar${letter}${form}`, `${at} 110 11111 1 11111 base ${rt}`, `${rt}, [base]`),
    row(`ldapr${letter}${form}`, `${size} 111000 101 11111 1 100 00 base ${rt}`, `${rt}, [base]`),
  ] as const;
}

function exclusivePairs<const F extends 'x' | 'w'>(form: F, sz: string, rt: string, rt2: string) {
  const at = `1 ${sz} 001000`;
  return [
    row(`stxp-${form}`, `${at} 001 ws 0 ${rt2} base ${rt}`, `ws, ${rt}, ${rt2}, [base]`),
    row(`stlxp-${form}`, `${at} 001 ws 1 ${rt2} base ${rt}`, `ws, ${rt}, ${rt2}, [base]`),
    row(`ldxp-${form}`, `${at} 011 11111 0 ${rt2} base ${rt}`, `${rt}, ${rt2}, [base]`),
    row(`ldaxp-${form}`, `${at} 011 11111 1 ${rt2} base ${rt}`, `${rt}, ${rt2}, [base]`),
  ] as const;
}

/**
 * One atomic of the Large System Extension in its sizes; acquire and release are letters of the
 * mnemonic.
 */
function atomic<const M extends string>(name: M, o3: '0' | '1', opc: string) {
  const tail = `1 rs ${o3} ${opc} 00 base rt`;
  return [
    row(name, `1 sf 111000 acquire release ${tail}`, 'rs, rt, [base]'),
    row(`${name}-b`, `00 111000 acquire release 1 ws ${o3} ${opc} 00 base wt`, 'ws, wt, [base]'),
    row(`${name}-h`, `01 111000 acquire release 1 ws ${o3} ${opc} 00 base wt`, 'ws, wt, [base]'),
  ] as const;
}

function dataImmediate() {
  return [
    row('adr', '0 off[1:0] 10000 off[20:2] xd', 'xd, off'),
    row('adrp', '1 pages[1:0] 10000 pages[20:2] xd', 'xd, pages'),
    row('add-imm', 'sf 0 0 100010 sh imm12 rnsp rdsp', 'rdsp, rnsp, imm12'),
    row('adds-imm', 'sf 0 1 100010 sh imm12 rnsp rd', 'rd, rnsp, imm12'),
    row('sub-imm', 'sf 1 0 100010 sh imm12 rnsp rdsp', 'rdsp, rnsp, imm12'),
    row('subs-imm', 'sf 1 1 100010 sh imm12 rnsp rd', 'rd, rnsp, imm12'),
    row('and-imm', 'sf 00 100100 bitmask rn rdsp', 'rdsp, rn, bitmask', { when: bitmaskValid }),
    row('orr-imm', 'sf 01 100100 bitmask rn rdsp', 'rdsp, rn, bitmask', { when: bitmaskValid }),
    row('eor-imm', 'sf 10 100100 bitmask rn rdsp', 'rdsp, rn, bitmask', { when: bitmaskValid }),
    row('ands-imm', 'sf 11 100100 bitmask rn rd', 'rd, rn, bitmask', { when: bitmaskValid }),
    row('movn', 'sf 00 100101 hw imm16 rd', 'rd, imm16~hw', { when: (o) => o['sf'] === 1 || o['hw']! < 2 }),
    row('movz', 'sf 10 100101 hw imm16 rd', 'rd, imm16~hw', { when: (o) => o['sf'] === 1 || o['hw']! < 2 }),
    row('movk', 'sf 11 100101 hw imm16 rd', 'rd, imm16~hw', { when: (o) => o['sf'] === 1 || o['hw']! < 2 }),
    row('sbfm', 'sf 00 100110 n immr imms rn rd', 'rd, rn, immr, imms', { when: bitfieldValid }),
    row('bfm', 'sf 01 100110 n immr imms rn rd', 'rd, rn, immr, imms', { when: bitfieldValid }),
    row('ubfm', 'sf 10 100110 n immr imms rn rd', 'rd, rn, immr, imms', { when: bitfieldValid }),
    row('extr', 'sf 00 100111 n 0 rm imms rn rd', 'rd, rn, rm, imms', {
      when: (o) => o['n'] === o['sf'] && (o['sf'] === 1 || o['imms']! < 32),
    }),
  ] as const;
}

function shifted<const M extends string>(name: M, opc: string, invert: '0' | '1') {
  return row(name, `sf ${opc} 01010 shift[1:0] ${invert} rm amount rn rd`, 'rd, rn, rm~amount', { when: narrowShift });
}

function addSub<const M extends string>(name: M, op: string, flags: '0' | '1') {
  const rd = flags === '1' ? 'rd' : 'rdsp';
  return [
    row(`${name}-reg`, `sf ${op} ${flags} 01011 shift[1:0] 0 rm amount rn rd`, 'rd, rn, rm~amount', {
      when: (o) => o['shift'] !== 3 && narrowShift(o),
    }),
    row(`${name}-ext`, `sf ${op} ${flags} 01011 00 1 rmx option[2:0] extend rnsp ${rd}`, `${rd}, rnsp, rmx~extend`, {
      when: (o) => o['extend']! <= 4,
    }),
  ] as const;
}

// Codes of data processing with registers.
const twoSources = (opcode: string): string => `sf 0 0 11010110 rm ${opcode} rn rd`;
const oneSource = (opcode: string): string => `sf 1 0 11010110 00000 ${opcode} rn rd`;
const signed = (opcode: string): string => `1 1 0 11010110 00001 ${opcode} xnsp xd`;
const signedZero = (opcode: string): string => `1 1 0 11010110 00001 ${opcode} 11111 xd`;

function dataRegister() {
  return [
    shifted('and-reg', '00', '0'),
    shifted('bic', '00', '1'),
    shifted('orr-reg', '01', '0'),
    shifted('orn', '01', '1'),
    shifted('eor-reg', '10', '0'),
    shifted('eon', '10', '1'),
    shifted('ands-reg', '11', '0'),
    shifted('bics', '11', '1'),
    ...addSub('add', '0', '0'),
    ...addSub('adds', '0', '1'),
    ...addSub('sub', '1', '0'),
    ...addSub('subs', '1', '1'),
    row('adc', 'sf 0 0 11010000 rm 000000 rn rd', 'rd, rn, rm'),
    row('adcs', 'sf 0 1 11010000 rm 000000 rn rd', 'rd, rn, rm'),
    row('sbc', 'sf 1 0 11010000 rm 000000 rn rd', 'rd, rn, rm'),
    row('sbcs', 'sf 1 1 11010000 rm 000000 rn rd', 'rd, rn, rm'),
    row('ccmn-reg', 'sf 0 1 11010010 rm cond 00 rn 0 nzcv', 'rn, rm, nzcv, cond'),
    row('ccmp-reg', 'sf 1 1 11010010 rm cond 00 rn 0 nzcv', 'rn, rm, nzcv, cond'),
    row('ccmn-imm', 'sf 0 1 11010010 imm5 cond 10 rn 0 nzcv', 'rn, imm5, nzcv, cond'),
    row('ccmp-imm', 'sf 1 1 11010010 imm5 cond 10 rn 0 nzcv', 'rn, imm5, nzcv, cond'),
    row('csel', 'sf 0 0 11010100 rm cond 00 rn rd', 'rd, rn, rm, cond'),
    row('csinc', 'sf 0 0 11010100 rm cond 01 rn rd', 'rd, rn, rm, cond'),
    row('csinv', 'sf 1 0 11010100 rm cond 00 rn rd', 'rd, rn, rm, cond'),
    row('csneg', 'sf 1 0 11010100 rm cond 01 rn rd', 'rd, rn, rm, cond'),
    row('madd', 'sf 00 11011 000 rm 0 ra rn rd', 'rd, rn, rm, ra'),
    row('msub', 'sf 00 11011 000 rm 1 ra rn rd', 'rd, rn, rm, ra'),
    row('smaddl', '1 00 11011 001 wm 0 xa wn xd', 'xd, wn, wm, xa'),
    row('smsubl', '1 00 11011 001 wm 1 xa wn xd', 'xd, wn, wm, xa'),
    row('smulh', '1 00 11011 010 xm 0 11111 xn xd', 'xd, xn, xm'),
    row('umaddl', '1 00 11011 101 wm 0 xa wn xd', 'xd, wn, wm, xa'),
    row('umsubl', '1 00 11011 101 wm 1 xa wn xd', 'xd, wn, wm, xa'),
    row('umulh', '1 00 11011 110 xm 0 11111 xn xd', 'xd, xn, xm'),
    row('udiv', twoSources('000010'), 'rd, rn, rm'),
    row('sdiv', twoSources('000011'), 'rd, rn, rm'),
    row('lslv', twoSources('001000'), 'rd, rn, rm'),
    row('lsrv', twoSources('001001'), 'rd, rn, rm'),
    row('asrv', twoSources('001010'), 'rd, rn, rm'),
    row('rorv', twoSources('001011'), 'rd, rn, rm'),
    row('crc32b', '0 0 0 11010110 wm 010000 wn wd', 'wd, wn, wm'),
    row('crc32h', '0 0 0 11010110 wm 010001 wn wd', 'wd, wn, wm'),
    row('crc32w', '0 0 0 11010110 wm 010010 wn wd', 'wd, wn, wm'),
    row('crc32x', '1 0 0 11010110 xm 010011 wn wd', 'wd, wn, xm'),
    row('crc32cb', '0 0 0 11010110 wm 010100 wn wd', 'wd, wn, wm'),
    row('crc32ch', '0 0 0 11010110 wm 010101 wn wd', 'wd, wn, wm'),
    row('crc32cw', '0 0 0 11010110 wm 010110 wn wd', 'wd, wn, wm'),
    row('crc32cx', '1 0 0 11010110 xm 010111 wn wd', 'wd, wn, xm'),
    row('pacga', '1 0 0 11010110 xmsp 001100 xn xd', 'xd, xn, xmsp', { decodeOnly: true }),
    row('rbit', oneSource('000000'), 'rd, rn'),
    row('rev16', oneSource('000001'), 'rd, rn'),
    row('rev-w', '0 1 0 11010110 00000 000010 wn wd', 'wd, wn'),
    row('rev32', '1 1 0 11010110 00000 000010 xn xd', 'xd, xn'),
    row('rev-x', '1 1 0 11010110 00000 000011 xn xd', 'xd, xn'),
    row('clz', oneSource('000100'), 'rd, rn'),
    row('cls', oneSource('000101'), 'rd, rn'),
    row('pacia', signed('000000'), 'xd, xnsp'),
    row('pacib', signed('000001'), 'xd, xnsp'),
    row('pacda', signed('000010'), 'xd, xnsp'),
    row('pacdb', signed('000011'), 'xd, xnsp'),
    row('autia', signed('000100'), 'xd, xnsp'),
    row('autib', signed('000101'), 'xd, xnsp'),
    row('autda', signed('000110'), 'xd, xnsp'),
    row('autdb', signed('000111'), 'xd, xnsp'),
    row('paciza', signedZero('001000'), 'xd'),
    row('pacizb', signedZero('001001'), 'xd'),
    row('pacdza', signedZero('001010'), 'xd'),
    row('pacdzb', signedZero('001011'), 'xd'),
    row('autiza', signedZero('001100'), 'xd'),
    row('autizb', signedZero('001101'), 'xd'),
    row('autdza', signedZero('001110'), 'xd'),
    row('autdzb', signedZero('001111'), 'xd'),
    row('xpaci', signedZero('010000'), 'xd'),
    row('xpacd', signedZero('010001'), 'xd'),
  ] as const;
}

function branches() {
  const flow = (kind: FlowClass): RowAttributes => ({ flow: kind });
  /**
   * Register branches: opc is bits 24..21, key selects the pointer authentication key (0: A, 1: B).
   */
  const plain = (opc: string): string => `1101011 ${opc} 11111 000000 xn 00000`;
  const zero = (opc: string, m: string): string => `1101011 ${opc} 11111 00001 ${m} xn 11111`;
  const both = (opc: string, m: string): string => `1101011 ${opc} 11111 00001 ${m} xn xmsp`;
  const none = (opc: string, tail: string): string => `1101011 ${opc} 11111 ${tail}`;
  return [
    row('b', '000101 off[27:2]', 'off', flow('jump')),
    row('bl', '100101 off[27:2]', 'off', flow('call')),
    row('b-cond', '01010100 off[20:2] 0 cond', "'.'~cond off", flow('branch')),
    row('cbz', 'sf 011010 0 off[20:2] rt', 'rt, off', flow('branch')),
    row('cbnz', 'sf 011010 1 off[20:2] rt', 'rt, off', flow('branch')),
    row('tbz', 'bit[5] 011011 0 bit[4:0] off[15:2] rt', 'rt, bit, off', flow('branch')),
    row('tbnz', 'bit[5] 011011 1 bit[4:0] off[15:2] rt', 'rt, bit, off', flow('branch')),
    row('br', plain('0000'), 'xn', flow('indirect-jump')),
    row('blr', plain('0001'), 'xn', flow('indirect-call')),
    row('ret', plain('0010'), 'xn', flow('return')),
    row('braaz', zero('0000', '0'), 'xn', flow('indirect-jump')),
    row('brabz', zero('0000', '1'), 'xn', flow('indirect-jump')),
    row('blraaz', zero('0001', '0'), 'xn', flow('indirect-call')),
    row('blrabz', zero('0001', '1'), 'xn', flow('indirect-call')),
    row('braa', both('1000', '0'), 'xn, xmsp', flow('indirect-jump')),
    row('brab', both('1000', '1'), 'xn, xmsp', flow('indirect-jump')),
    row('blraa', both('1001', '0'), 'xn, xmsp', flow('indirect-call')),
    row('blrab', both('1001', '1'), 'xn, xmsp', flow('indirect-call')),
    row('retaa', none('0010', '000010 11111 11111'), '', flow('return')),
    row('retab', none('0010', '000011 11111 11111'), '', flow('return')),
    row('eret', none('0100', '000000 11111 00000'), '', flow('return')),
    row('eretaa', none('0100', '000010 11111 11111'), '', flow('return')),
    row('eretab', none('0100', '000011 11111 11111'), '', flow('return')),
    row('drps', none('0101', '000000 11111 00000'), '', flow('return')),
  ] as const;
}

function hintRow<const M extends string>(name: M, number: number) {
  return row(name, `11010101000000110010 ${number.toString(2).padStart(7, '0')} 11111`, '', { over: ['hint'] });
}

// Codes of system instructions.
const exception = (opc: string, ll: string): string => `11010100 ${opc} imm16 000 ${ll}`;
const barrier = (op2: string): string => `11010101000000110011 barrier ${op2} 11111`;
/** msr (immediate): op1 and op2 name the field of PSTATE. */
const ONE_BIT: RowAttributes = { when: (o) => o['crm']! < 2 };
const pstate = (op1: string, op2: string): string => `1101010100000 ${op1} 0100 crm ${op2} 11111`;

function system() {
  return [
    row('svc', exception('000', '01'), 'imm16', { flow: 'syscall' }),
    row('hvc', exception('000', '10'), 'imm16'),
    row('smc', exception('000', '11'), 'imm16'),
    row('brk', exception('001', '00'), 'imm16', { flow: 'trap' }),
    row('hlt', exception('010', '00'), 'imm16', { flow: 'trap' }),
    row('dcps1', exception('101', '01'), 'imm16', { flow: 'trap' }),
    row('dcps2', exception('101', '10'), 'imm16', { flow: 'trap' }),
    row('dcps3', exception('101', '11'), 'imm16', { flow: 'trap' }),
    row('udf', '0000000000000000 imm16', 'imm16', { flow: 'trap' }),
    row('hint', '11010101000000110010 hint 11111', 'hint'),
    hintRow('nop', 0),
    hintRow('yield', 1),
    hintRow('wfe', 2),
    hintRow('wfi', 3),
    hintRow('sev', 4),
    hintRow('sevl', 5),
    hintRow('xpaclri', 7),
    hintRow('pacia1716', 8),
    hintRow('pacib1716', 10),
    hintRow('autia1716', 12),
    hintRow('autib1716', 14),
    hintRow('esb', 16),
    hintRow('psb', 17),
    hintRow('csdb', 20),
    hintRow('paciaz', 24),
    hintRow('paciasp', 25),
    hintRow('pacibz', 26),
    hintRow('pacibsp', 27),
    hintRow('autiaz', 28),
    hintRow('autiasp', 29),
    hintRow('autibz', 30),
    hintRow('autibsp', 31),
    /* targets: 0 none, 1 c (calls), 2 j (jumps), 3 both. */
    row('bti', '11010101000000110010 0100 targets 0 11111', 'targets', { over: ['hint'] }),
    row('clrex', barrier('010'), 'barrier'),
    row('dsb', barrier('100'), 'barrier'),
    row('dmb', barrier('101'), 'barrier'),
    row('isb', barrier('110'), 'barrier'),
    row('sb', '11010101000000110011 0000 111 11111', ''),
    row('msr-spsel', pstate('000', '101'), "'spsel', crm", ONE_BIT),
    row('msr-daifset', pstate('011', '110'), "'daifset', crm"),
    row('msr-daifclr', pstate('011', '111'), "'daifclr', crm"),
    row('msr-uao', pstate('000', '011'), "'uao', crm", ONE_BIT),
    row('msr-pan', pstate('000', '100'), "'pan', crm", ONE_BIT),
    row('msr-ssbs', pstate('011', '001'), "'ssbs', crm", ONE_BIT),
    row('msr-dit', pstate('011', '010'), "'dit', crm", ONE_BIT),
    row('msr-tco', pstate('011', '100'), "'tco', crm", ONE_BIT),
    row('cfinv', '1101010100000 000 0100 0000 000 11111', ''),
    row('rmif', '1 01 11010000 immr 00001 xn 0 nzcv', 'xn, immr, nzcv'),
    row('setf8', '0 01 11010000 000000 0 0010 wn 01101', 'wn'),
    row('setf16', '0 01 11010000 000000 1 0010 wn 01101', 'wn'),
    row('sys', '1101010100 0 01 op1 crn crm op2 optional_xt', 'op1, crn, crm, op2~optional_xt'),
    row('sysl', '1101010100 1 01 op1 crn crm op2 xt', 'xt, op1, crn, crm, op2'),
    row('msr-reg', '1101010100 0 1 sysreg xt', 'sysreg, xt'),
    row('mrs', '1101010100 1 1 sysreg xt', 'xt, sysreg'),
  ] as const;
}

function loadsAndStores() {
  return [
    ...memory('strb', 'sturb', '00', '0', '00', 'wt', 0),
    ...memory('ldrb', 'ldurb', '00', '0', '01', 'wt', 0),
    ...memory('ldrsb-x', 'ldursb-x', '00', '0', '10', 'xt', 0),
    ...memory('ldrsb-w', 'ldursb-w', '00', '0', '11', 'wt', 0),
    ...memory('strh', 'sturh', '01', '0', '00', 'wt', 1),
    ...memory('ldrh', 'ldurh', '01', '0', '01', 'wt', 1),
    ...memory('ldrsh-x', 'ldursh-x', '01', '0', '10', 'xt', 1),
    ...memory('ldrsh-w', 'ldursh-w', '01', '0', '11', 'wt', 1),
    ...memory('str-w', 'stur-w', '10', '0', '00', 'wt', 2),
    ...memory('ldr-w', 'ldur-w', '10', '0', '01', 'wt', 2),
    ...memory('ldrsw', 'ldursw', '10', '0', '10', 'xt', 2),
    ...memory('str-x', 'stur-x', '11', '0', '00', 'xt', 3),
    ...memory('ldr-x', 'ldur-x', '11', '0', '01', 'xt', 3),
    row('prfm-imm', '11 111 0 01 10 pimm[14:3] base prfop', 'prfop, [base, pimm]'),
    row('prfum', '11 111 0 00 10 0 simm 00 base prfop', 'prfop, [base, simm]'),
    row('prfm-reg', '11 111 0 00 10 1 rmx option[2:0] s 10 base prfop', 'prfop, [base, rmx]', {
      when: (o) => (o['option']! & 2) === 2,
    }),
    row('prfm-lit', '11 011 0 00 off[20:2] prfop', 'prfop, off'),
    row('ldr-w-lit', '00 011 0 00 off[20:2] wt', 'wt, off'),
    row('ldr-x-lit', '01 011 0 00 off[20:2] xt', 'xt, off'),
    row('ldrsw-lit', '10 011 0 00 off[20:2] xt', 'xt, off'),
    unprivileged('sttrb', '00', '00', 'wt'),
    unprivileged('ldtrb', '00', '01', 'wt'),
    unprivileged('ldtrsb-x', '00', '10', 'xt'),
    unprivileged('ldtrsb-w', '00', '11', 'wt'),
    unprivileged('sttrh', '01', '00', 'wt'),
    unprivileged('ldtrh', '01', '01', 'wt'),
    unprivileged('ldtrsh-x', '01', '10', 'xt'),
    unprivileged('ldtrsh-w', '01', '11', 'wt'),
    unprivileged('sttr-w', '10', '00', 'wt'),
    unprivileged('ldtr-w', '10', '01', 'wt'),
    unprivileged('ldtrsw', '10', '10', 'xt'),
    unprivileged('sttr-x', '11', '00', 'xt'),
    unprivileged('ldtr-x', '11', '01', 'xt'),
    ...pairs('stp-w', '00', '0', '0', 'wt', 'wt2', 2),
    ...pairs('ldp-w', '00', '0', '1', 'wt', 'wt2', 2),
    ...pairs('ldpsw', '01', '0', '1', 'xt', 'xt2', 2),
    ...pairs('stp-x', '10', '0', '0', 'xt', 'xt2', 3),
    ...pairs('ldp-x', '10', '0', '1', 'xt', 'xt2', 3),
    pairNonTemporal('stnp-w', '00', '0', '0', 'wt', 'wt2', 2),
    pairNonTemporal('ldnp-w', '00', '0', '1', 'wt', 'wt2', 2),
    pairNonTemporal('stnp-x', '10', '0', '0', 'xt', 'xt2', 3),
    pairNonTemporal('ldnp-x', '10', '0', '1', 'xt', 'xt2', 3),
    ...exclusive('b', '', '00', 'wt'),
    ...exclusive('h', '', '01', 'wt'),
    ...exclusive('', '-w', '10', 'wt'),
    ...exclusive('', '-x', '11', 'xt'),
    ...exclusivePairs('w', '0', 'wt', 'wt2'),
    ...exclusivePairs('x', '1', 'xt', 'xt2'),
    row('cas', '1 sf 001000 1 acquire 1 rs release 11111 base rt', 'rs, rt, [base]'),
    row('cas-b', '00 001000 1 acquire 1 ws release 11111 base wt', 'ws, wt, [base]'),
    row('cas-h', '01 001000 1 acquire 1 ws release 11111 base wt', 'ws, wt, [base]'),
    row('casp', '0 sf 001000 0 acquire 1 rs_pair release 11111 base rt_pair', 'rs_pair, rt_pair, [base]', {
      when: (o) => ((o['rs_pair']! | o['rt_pair']!) & 1) === 0,
    }),
    ...atomic('ldadd', '0', '000'),
    ...atomic('ldclr', '0', '001'),
    ...atomic('ldeor', '0', '010'),
    ...atomic('ldset', '0', '011'),
    ...atomic('ldsmax', '0', '100'),
    ...atomic('ldsmin', '0', '101'),
    ...atomic('ldumax', '0', '110'),
    ...atomic('ldumin', '0', '111'),
    ...atomic('swp', '1', '000'),
    // SIMD and floating point registers.
    ...memory('str-fb', 'stur-fb', '00', '1', '00', 'bt', 0),
    ...memory('ldr-fb', 'ldur-fb', '00', '1', '01', 'bt', 0),
    ...memory('str-fh', 'stur-fh', '01', '1', '00', 'ht', 1),
    ...memory('ldr-fh', 'ldur-fh', '01', '1', '01', 'ht', 1),
    ...memory('str-fs', 'stur-fs', '10', '1', '00', 'st', 2),
    ...memory('ldr-fs', 'ldur-fs', '10', '1', '01', 'st', 2),
    ...memory('str-fd', 'stur-fd', '11', '1', '00', 'dt', 3),
    ...memory('ldr-fd', 'ldur-fd', '11', '1', '01', 'dt', 3),
    ...memory('str-fq', 'stur-fq', '00', '1', '10', 'qt', 4),
    ...memory('ldr-fq', 'ldur-fq', '00', '1', '11', 'qt', 4),
    row('ldr-fs-lit', '00 011 1 00 off[20:2] st', 'st, off'),
    row('ldr-fd-lit', '01 011 1 00 off[20:2] dt', 'dt, off'),
    row('ldr-fq-lit', '10 011 1 00 off[20:2] qt', 'qt, off'),
    ...pairs('stp-fs', '00', '1', '0', 'st', 'st2', 2),
    ...pairs('ldp-fs', '00', '1', '1', 'st', 'st2', 2),
    ...pairs('stp-fd', '01', '1', '0', 'dt', 'dt2', 3),
    ...pairs('ldp-fd', '01', '1', '1', 'dt', 'dt2', 3),
    ...pairs('stp-fq', '10', '1', '0', 'qt', 'qt2', 4),
    ...pairs('ldp-fq', '10', '1', '1', 'qt', 'qt2', 4),
    pairNonTemporal('stnp-fs', '00', '1', '0', 'st', 'st2', 2),
    pairNonTemporal('ldnp-fs', '00', '1', '1', 'st', 'st2', 2),
    pairNonTemporal('stnp-fd', '01', '1', '0', 'dt', 'dt2', 3),
    pairNonTemporal('ldnp-fd', '01', '1', '1', 'dt', 'dt2', 3),
    pairNonTemporal('stnp-fq', '10', '1', '0', 'qt', 'qt2', 4),
    pairNonTemporal('ldnp-fq', '10', '1', '1', 'qt', 'qt2', 4),
  ] as const;
}

const floating = (o: Operands): boolean => o['ptype'] !== 2;
const TYPED: RowAttributes = { when: floating };
/** As many digits as the integer has. */
const FIXED: RowAttributes = { when: (o) => floating(o) && (o['sf'] === 1 || o['fixed']! >= 32) };

// Codes of floating point.
const floatOne = (opcode: string): string => `00011110 ptype[1:0] 1 ${opcode} 10000 fn fd`;
const floatTwo = (opcode: string): string => `00011110 ptype[1:0] 1 fm ${opcode} 10 fn fd`;
const floatThree = (o1: string, o0: string): string => `00011111 ptype[1:0] ${o1} fm ${o0} fa fn fd`;
const toInteger = (rmode: string, opcode: string): string => `sf 0011110 ptype[1:0] 1 ${rmode} ${opcode} 000000 fn rd`;
const fromInteger = (rmode: string, opcode: string): string =>
  `sf 0011110 ptype[1:0] 1 ${rmode} ${opcode} 000000 rn fd`;

function floatingPoint() {
  return [
    row('fmov-reg', floatOne('000000'), 'fd, fn', TYPED),
    row('fabs', floatOne('000001'), 'fd, fn', TYPED),
    row('fneg', floatOne('000010'), 'fd, fn', TYPED),
    row('fsqrt', floatOne('000011'), 'fd, fn', TYPED),
    row('frintn', floatOne('001000'), 'fd, fn', TYPED),
    row('frintp', floatOne('001001'), 'fd, fn', TYPED),
    row('frintm', floatOne('001010'), 'fd, fn', TYPED),
    row('frintz', floatOne('001011'), 'fd, fn', TYPED),
    row('frinta', floatOne('001100'), 'fd, fn', TYPED),
    row('frintx', floatOne('001110'), 'fd, fn', TYPED),
    row('frinti', floatOne('001111'), 'fd, fn', TYPED),
    row('fcvt-s', '00011110 ptype[1:0] 1 000100 10000 fn sd', 'sd, fn', {
      when: (o) => o['ptype'] === 1 || o['ptype'] === 3,
    }),
    row('fcvt-d', '00011110 ptype[1:0] 1 000101 10000 fn dd', 'dd, fn', {
      when: (o) => o['ptype'] === 0 || o['ptype'] === 3,
    }),
    row('fcvt-h', '00011110 ptype[1:0] 1 000111 10000 fn hd', 'hd, fn', { when: (o) => o['ptype']! < 2 }),
    row('fmul', floatTwo('0000'), 'fd, fn, fm', TYPED),
    row('fdiv', floatTwo('0001'), 'fd, fn, fm', TYPED),
    row('fadd', floatTwo('0010'), 'fd, fn, fm', TYPED),
    row('fsub', floatTwo('0011'), 'fd, fn, fm', TYPED),
    row('fmax', floatTwo('0100'), 'fd, fn, fm', TYPED),
    row('fmin', floatTwo('0101'), 'fd, fn, fm', TYPED),
    row('fmaxnm', floatTwo('0110'), 'fd, fn, fm', TYPED),
    row('fminnm', floatTwo('0111'), 'fd, fn, fm', TYPED),
    row('fnmul', floatTwo('1000'), 'fd, fn, fm', TYPED),
    row('fcmp', '00011110 ptype[1:0] 1 fm 00 1000 fn 00000', 'fn, fm', TYPED),
    row('fcmp-zero', '00011110 ptype[1:0] 1 00000 00 1000 fn 01000', "fn, '#0.0'", TYPED),
    row('fcmpe', '00011110 ptype[1:0] 1 fm 00 1000 fn 10000', 'fn, fm', TYPED),
    row('fcmpe-zero', '00011110 ptype[1:0] 1 00000 00 1000 fn 11000', "fn, '#0.0'", TYPED),
    row('fccmp', '00011110 ptype[1:0] 1 fm cond 01 fn 0 nzcv', 'fn, fm, nzcv, cond', TYPED),
    row('fccmpe', '00011110 ptype[1:0] 1 fm cond 01 fn 1 nzcv', 'fn, fm, nzcv, cond', TYPED),
    row('fcsel', '00011110 ptype[1:0] 1 fm cond 11 fn fd', 'fd, fn, fm, cond', TYPED),
    row('fmov-imm', '00011110 ptype[1:0] 1 imm8 100 00000 fd', 'fd, imm8', TYPED),
    row('fmadd', floatThree('0', '0'), 'fd, fn, fm, fa', TYPED),
    row('fmsub', floatThree('0', '1'), 'fd, fn, fm, fa', TYPED),
    row('fnmadd', floatThree('1', '0'), 'fd, fn, fm, fa', TYPED),
    row('fnmsub', floatThree('1', '1'), 'fd, fn, fm, fa', TYPED),
    row('fcvtns', toInteger('00', '000'), 'rd, fn', TYPED),
    row('fcvtnu', toInteger('00', '001'), 'rd, fn', TYPED),
    row('fcvtas', toInteger('00', '100'), 'rd, fn', TYPED),
    row('fcvtau', toInteger('00', '101'), 'rd, fn', TYPED),
    row('fcvtps', toInteger('01', '000'), 'rd, fn', TYPED),
    row('fcvtpu', toInteger('01', '001'), 'rd, fn', TYPED),
    row('fcvtms', toInteger('10', '000'), 'rd, fn', TYPED),
    row('fcvtmu', toInteger('10', '001'), 'rd, fn', TYPED),
    row('fcvtzs', toInteger('11', '000'), 'rd, fn', TYPED),
    row('fcvtzu', toInteger('11', '001'), 'rd, fn', TYPED),
    row('scvtf', fromInteger('00', '010'), 'fd, rn', TYPED),
    row('ucvtf', fromInteger('00', '011'), 'fd, rn', TYPED),
    ...(
      [
        ['fcvtzs-fix', '11', '000'],
        ['fcvtzu-fix', '11', '001'],
      ] as const
    ).map(([name, rmode, opcode]) =>
      row(name, `sf 0011110 ptype[1:0] 0 ${rmode} ${opcode} fixed fn rd`, 'rd, fn, fixed', FIXED),
    ),
    ...(
      [
        ['scvtf-fix', '00', '010'],
        ['ucvtf-fix', '00', '011'],
      ] as const
    ).map(([name, rmode, opcode]) =>
      row(name, `sf 0011110 ptype[1:0] 0 ${rmode} ${opcode} fixed rn fd`, 'fd, rn, fixed', FIXED),
    ),
    row('fmov-toint', toInteger('00', '110'), 'rd, fn', { when: fmovWidth }),
    row('fmov-fromint', fromInteger('00', '111'), 'fd, rn', { when: fmovWidth }),
  ] as const;
}

/** fmov between register files: both sides of one width, or a half-precision value with either. */
function fmovWidth(o: Operands): boolean {
  return o['ptype'] === 3 || o['ptype'] === o['sf'];
}

const lanes = (o: Operands): boolean => o['size'] !== 3 || o['q'] === 1;
const V: RowAttributes = { when: lanes };
/** Elements of 2 and 4 bytes. */
const V_HS: RowAttributes = { when: (o) => o['size'] === 1 || o['size'] === 2 };
/** Element sizes b, h, s only. */
const V_BHS: RowAttributes = { when: (o) => o['size'] !== 3 };
/**
 * immh:immb of a shift by immediate: the highest bit set gives the element size, and 64-bit
 * elements need Q. With immh zero a modified immediate (movi, mvni) stands there.
 */
const SHIFT: RowAttributes = {
  not: { shiftimm: [0, 1, 2, 3, 4, 5, 6, 7] },
  when: (o) => o['shiftimm']! < 64 || o['q'] === 1,
};
/** The same of elements that are half as wide as others of the row. */
const LONG_SHIFT: RowAttributes = { not: SHIFT.not!, when: (o) => o['shiftimm']! < 64 };

/** Shifts of scalars: of any size, of one that becomes narrow. */
const SCALAR_SHIFT: RowAttributes = { not: SHIFT.not! };
const NARROW_SHIFT: RowAttributes = { not: SHIFT.not!, when: (o) => o['shiftimm']! < 64 };

/** Across all elements: of 4 bytes there are two in 8 bytes, which is a pair. */
const ACROSS: RowAttributes = { when: (o) => o['size']! < 2 || (o['size'] === 2 && o['q'] === 1) };

/**
 * The three rows of a structure: without write-back, with it by the bytes accessed, by a register.
 *
 * @param code  by bit 23 and what stands in bits 20 to 16
 */
function structure<const M extends string>(
  name: M,
  code: (post: '0' | '1', last: string) => string,
  text: string,
  bytes: string,
  when: RowAttributes = {},
) {
  return [
    row(name, code('0', '00000'), text, when),
    row(`${name}-post`, code('1', '11111'), `${text}, ${bytes}`, when),
    row(`${name}-postreg`, code('1', 'xm'), `${text}, xm`, { ...when, not: { xm: [31] } }),
  ] as const;
}

type Count = 1 | 2 | 3 | 4;
const listOf = (field: string, count: Count): string => (count === 1 ? field : `${field}_${count}`);

/** ld1 or st1 of one to four registers, and the others with as many as their elements. */
function structures<const M extends 'ld' | 'st'>(name: M, l: '0' | '1') {
  const of = <const N extends string, const C extends Count>(
    form: N,
    count: C,
    opcode: string,
    when?: RowAttributes,
  ) => {
    const list = listOf('vt', count);
    return structure(
      `${name}${form}-${count}`,
      (post, last) => `0 q 001100${post} ${l} 0 ${last} ${opcode} size[1:0] base ${list}`,
      `'{'~${list}~'}', [base]`,
      'q',
      when,
    );
  };
  return [
    ...of('1', 1, '0111'),
    ...of('1', 2, '1010'),
    ...of('1', 3, '0110'),
    ...of('1', 4, '0010'),
    ...of('2', 2, '1000', V),
    ...of('3', 3, '0100', V),
    ...of('4', 4, '0000', V),
  ] as const;
}

/** Bits 15 to 10 of structures of one element, without what is its number; Q is its highest bit. */
const ONE_ELEMENT = [
  ['b', 'lane[3]', '00', 'lane[2:0]', 1],
  ['h', 'lane[2]', '01', 'lane[1:0] 0', 2],
  ['s', 'lane[1]', '10', 'lane[0] 00', 4],
  ['d', 'lane[0]', '10', '0 01', 8],
] as const;

/** Structures of one element, and those that fill registers with it (`r`). */
function singleStructures<const M extends 'ld' | 'st'>(name: M, l: '0' | '1') {
  return ([1, 2, 3, 4] as const).flatMap((count) => {
    const list = listOf('ve', count);
    const [r, third] = [count % 2 === 0 ? '1' : '0', count > 2 ? '1' : '0'];
    return ONE_ELEMENT.flatMap(([letter, q, opcode, rest, bytes]) =>
      structure(
        `${name}${count}-${letter}`,
        (post, last) => `0 ${q} 001101${post} ${l} ${r} ${last} ${opcode}${third} ${rest} base ${list}`,
        `'{'~${list}~'}'~lane, [base]`,
        `'#${count * bytes}'`,
      ),
    );
  });
}

function replicatingLoads() {
  return ([1, 2, 3, 4] as const).flatMap((count) => {
    const list = listOf('vt', count);
    const [r, third] = [count % 2 === 0 ? '1' : '0', count > 2 ? '1' : '0'];
    return structure(
      `ld${count}r`,
      (post, last) => `0 q 001101${post} 1 ${r} ${last} 11${third} 0 size[1:0] base ${list}`,
      `'{'~${list}~'}', [base]`,
      'size',
    );
  });
}

// Codes of vectors.
const vectorThree = (u: string, opcode: string): string => `0 q ${u} 01110 size[1:0] 1 vm ${opcode} 1 vn vd`;
const vectorLogic = (u: string, size: string): string => `0 q ${u} 01110 ${size} 1 bm 00011 1 bn bd`;
const vectorMisc = (u: string, opcode: string): string => `0 q ${u} 01110 size[1:0] 10000 ${opcode} 10 vn vd`;
const modifiedImmediate = (op: string, cmode: string, vd = 'bd'): string =>
  `0 q ${op} 0111100000 vimm[7:5] ${cmode} 01 vimm[4:0] ${vd}`;
const shiftImmediate = (u: string, opcode: string): string => `0 q ${u} 011110 shiftimm ${opcode} 1 vn vd`;

function vectors() {
  return [
    row('add-v', vectorThree('0', '10000'), 'vd, vn, vm', V),
    row('sub-v', vectorThree('1', '10000'), 'vd, vn, vm', V),
    row('cmtst', vectorThree('0', '10001'), 'vd, vn, vm', V),
    row('cmeq', vectorThree('1', '10001'), 'vd, vn, vm', V),
    row('cmgt', vectorThree('0', '00110'), 'vd, vn, vm', V),
    row('cmhi', vectorThree('1', '00110'), 'vd, vn, vm', V),
    row('cmge', vectorThree('0', '00111'), 'vd, vn, vm', V),
    row('cmhs', vectorThree('1', '00111'), 'vd, vn, vm', V),
    row('addp', vectorThree('0', '10111'), 'vd, vn, vm', V),
    row('mla', vectorThree('0', '10010'), 'vd, vn, vm', V_BHS),
    row('mls', vectorThree('1', '10010'), 'vd, vn, vm', V_BHS),
    row('mul', vectorThree('0', '10011'), 'vd, vn, vm', V_BHS),
    row('smax', vectorThree('0', '01100'), 'vd, vn, vm', V_BHS),
    row('umax', vectorThree('1', '01100'), 'vd, vn, vm', V_BHS),
    row('smin', vectorThree('0', '01101'), 'vd, vn, vm', V_BHS),
    row('umin', vectorThree('1', '01101'), 'vd, vn, vm', V_BHS),
    row('smaxp', vectorThree('0', '10100'), 'vd, vn, vm', V_BHS),
    row('umaxp', vectorThree('1', '10100'), 'vd, vn, vm', V_BHS),
    row('sminp', vectorThree('0', '10101'), 'vd, vn, vm', V_BHS),
    row('uminp', vectorThree('1', '10101'), 'vd, vn, vm', V_BHS),
    row('and-v', vectorLogic('0', '00'), 'bd, bn, bm'),
    row('bic-v', vectorLogic('0', '01'), 'bd, bn, bm'),
    row('orr-v', vectorLogic('0', '10'), 'bd, bn, bm'),
    row('orn-v', vectorLogic('0', '11'), 'bd, bn, bm'),
    row('eor-v', vectorLogic('1', '00'), 'bd, bn, bm'),
    row('bsl', vectorLogic('1', '01'), 'bd, bn, bm'),
    row('bit', vectorLogic('1', '10'), 'bd, bn, bm'),
    row('bif', vectorLogic('1', '11'), 'bd, bn, bm'),
    row('rev64', vectorMisc('0', '00000'), 'vd, vn', V_BHS),
    row('rev32-v', vectorMisc('1', '00000'), 'vd, vn', { when: (o) => o['size']! < 2 }),
    row('rev16-v', vectorMisc('0', '00001'), 'vd, vn', { when: (o) => o['size'] === 0 }),
    row('cnt', '0 q 0 01110 00 10000 00101 10 bn bd', 'bd, bn'),
    row('addv', '0 q 0 01110 size[1:0] 11000 11011 10 vn ad', 'ad, vn', ACROSS),
    row('not', '0 q 1 01110 00 10000 00101 10 bn bd', 'bd, bn'),
    row('rbit-v', '0 q 1 01110 01 10000 00101 10 bn bd', 'bd, bn'),
    row('cmgt-zero', vectorMisc('0', '01000'), "vd, vn, '#0'", V),
    row('cmeq-zero', vectorMisc('0', '01001'), "vd, vn, '#0'", V),
    row('cmlt-zero', vectorMisc('0', '01010'), "vd, vn, '#0'", V),
    row('cmge-zero', vectorMisc('1', '01000'), "vd, vn, '#0'", V),
    row('cmle-zero', vectorMisc('1', '01001'), "vd, vn, '#0'", V),
    row('cmgt-dz', '01 0 11110 11 10000 01000 10 dn dd', "dd, dn, '#0'"),
    row('cmeq-dz', '01 0 11110 11 10000 01001 10 dn dd', "dd, dn, '#0'"),
    row('cmlt-dz', '01 0 11110 11 10000 01010 10 dn dd', "dd, dn, '#0'"),
    row('cmge-dz', '01 1 11110 11 10000 01000 10 dn dd', "dd, dn, '#0'"),
    row('cmle-dz', '01 1 11110 11 10000 01001 10 dn dd', "dd, dn, '#0'"),
    row('abs-v', vectorMisc('0', '01011'), 'vd, vn', V),
    row('neg-v', vectorMisc('1', '01011'), 'vd, vn', V),
    row('dup-gen', '0 q 0 01110000 imm5 0 0001 1 vw vd', 'vd, vw~imm5', { when: dupValid }),
    row('ext', '0 q 1 01110 000 bm 0 imm4 0 bn bd', 'bd, bn, bm, imm4', {
      when: (o) => o['q'] === 1 || o['imm4']! < 8,
    }),
    row('dup-elem', '0 q 0 01110000 imm5 0 0000 1 en vd', 'vd, en~imm5', { when: dupValid }),
    row('dup-s', '01 0 11110000 imm5 0 0000 1 en se', 'se, en~imm5', { when: (o) => (o['imm5']! & 15) !== 0 }),
    row('umov', '0 q 0 01110000 imm5 0 0111 1 en rdq', 'rdq, en~imm5', {
      when: (o) => (o['q'] === 1 ? (o['imm5']! & 15) === 8 : (o['imm5']! & 7) !== 0),
    }),
    row('smov', '0 q 0 01110000 imm5 0 0101 1 en rdq', 'rdq, en~imm5', {
      when: (o) => (o['imm5']! & (o['q'] === 1 ? 7 : 3)) !== 0,
    }),
    row('ins-gen', '0 1 0 01110000 imm5 0 0011 1 vw ed', 'ed, vw~imm5', {
      when: (o) => (o['imm5']! & 15) !== 0,
    }),
    row('ins-elem', '0 1 1 01110000 imm5 0 imm4 1 en2 ed', 'ed, en2~imm4~imm5', {
      // The unused low bits of the source index are ignored by the machine and not printed.
      when: (o) => (o['imm5']! & 15) !== 0,
    }),
    row('fmov-tohigh', '1001111010 1 01 111 000000 xn high', 'high, xn'),
    row('fmov-fromhigh', '1001111010 1 01 110 000000 high xd', 'xd, high'),
    row('movi-b', modifiedImmediate('0', '1110'), 'bd, vimm'),
    row('movi-d', '0 0 1 0111100000 vimm[7:5] 1110 01 vimm[4:0] dd', 'dd, vimm'),
    row('movi-2d', '0 1 1 0111100000 vimm[7:5] 1110 01 vimm[4:0] v2d', 'v2d, vimm'),
    row('movi-s', modifiedImmediate('0', '0 cmode[1:0] 0', 'v4s'), 'v4s, vimm~cmode'),
    row('mvni-s', modifiedImmediate('1', '0 cmode[1:0] 0', 'v4s'), 'v4s, vimm~cmode'),
    row('orr-s', modifiedImmediate('0', '0 cmode[1:0] 1', 'v4s'), 'v4s, vimm~cmode'),
    row('bic-s', modifiedImmediate('1', '0 cmode[1:0] 1', 'v4s'), 'v4s, vimm~cmode'),
    row('orr-h', modifiedImmediate('0', '10 cmode[0] 1', 'v8h'), 'v8h, vimm~cmode'),
    row('bic-h', modifiedImmediate('1', '10 cmode[0] 1', 'v8h'), 'v8h, vimm~cmode'),
    row('movi-h', modifiedImmediate('0', '10 cmode[0] 0', 'v8h'), 'v8h, vimm~cmode'),
    row('mvni-h', modifiedImmediate('1', '10 cmode[0] 0', 'v8h'), 'v8h, vimm~cmode'),
    row('movi-msl', modifiedImmediate('0', '110 cmode[0]', 'v4s'), 'v4s, vimm~cmode'),
    row('mvni-msl', modifiedImmediate('1', '110 cmode[0]', 'v4s'), 'v4s, vimm~cmode'),
    row('sshr', shiftImmediate('0', '00000'), 'vd, vn, shiftimm', SHIFT),
    row('ushr', shiftImmediate('1', '00000'), 'vd, vn, shiftimm', SHIFT),
    row('ssra', shiftImmediate('0', '00010'), 'vd, vn, shiftimm', SHIFT),
    row('usra', shiftImmediate('1', '00010'), 'vd, vn, shiftimm', SHIFT),
    row('shl', shiftImmediate('0', '01010'), 'vd, vn, shiftimm', SHIFT),
    ...(
      [
        ['uzp1', '001'],
        ['trn1', '010'],
        ['zip1', '011'],
        ['uzp2', '101'],
        ['trn2', '110'],
        ['zip2', '111'],
      ] as const
    ).map(([name, opcode]) => row(name, `0 q 0 01110 size[1:0] 0 vm 0 ${opcode} 10 vn vd`, 'vd, vn, vm', V)),
    ...(
      [
        ['smaxv', '0', '01010'],
        ['umaxv', '1', '01010'],
        ['sminv', '0', '11010'],
        ['uminv', '1', '11010'],
      ] as const
    ).map(([name, u, opcode]) => row(name, `0 q ${u} 01110 size[1:0] 11000 ${opcode} 10 vn ad`, 'ad, vn', ACROSS)),
    ...([1, 2, 3, 4] as const).flatMap((count) => {
      const list = listOf('vtable', count);
      const code = (op: string): string =>
        `0 q 0 01110 000 bm 0 ${['00', '01', '10', '11'][count - 1]!} ${op} 00 ${list} bd`;
      return [
        row(`tbl-${count}`, code('0'), `bd, '{'~${list}~'}', bm`),
        row(`tbx-${count}`, code('1'), `bd, '{'~${list}~'}', bm`),
      ];
    }),
    row('shrn', '0 two 0 011110 shiftimm 10000 1 vln vd', 'vd, vln, shiftimm', LONG_SHIFT),
    row('sshll', '0 two 0 011110 shiftimm 10100 1 vn vld', 'vld, vn, shiftimm', LONG_SHIFT),
    row('ushll', '0 two 1 011110 shiftimm 10100 1 vn vld', 'vld, vn, shiftimm', LONG_SHIFT),
    row('xtn', '0 two 0 01110 size[1:0] 10000 10010 10 vln vd', 'vd, vln', V_BHS),
    row('addhn', '0 two 0 01110 size[1:0] 1 vlm 0100 00 vln vd', 'vd, vln, vlm', V_BHS),
    row('subhn', '0 two 0 01110 size[1:0] 1 vlm 0110 00 vln vd', 'vd, vln, vlm', V_BHS),
    row('shll', '0 two 1 01110 size[1:0] 10000 10011 10 vn vld', 'vld, vn, size', V_BHS),
    row('addp-d', '01 0 11110 11 11000 11011 10 vpair dd', 'dd, vpair'),
    ...(
      [
        ['saddlp', '0', '00010'],
        ['sadalp', '0', '00110'],
        ['uaddlp', '1', '00010'],
        ['uadalp', '1', '00110'],
      ] as const
    ).map(([name, u, opcode]) => row(name, `0 q ${u} 01110 size[1:0] 10000 ${opcode} 10 vn vpd`, 'vpd, vn', V_BHS)),
    row('saddlv', '0 q 0 01110 size[1:0] 11000 00011 10 vn fld', 'fld, vn', ACROSS),
    row('uaddlv', '0 q 1 01110 size[1:0] 11000 00011 10 vn fld', 'fld, vn', ACROSS),
    ...(
      [
        ['mla', '1', '0000'],
        ['mls', '1', '0100'],
        ['mul', '0', '1000'],
      ] as const
    ).map(([name, u, opcode]) =>
      row(`${name}-e`, `0 q ${u} 01111 size[1:0] l vem ${opcode} h 0 vn vd`, 'vd, vn, vem', V_HS),
    ),
    ...structures('st', '0'),
    ...structures('ld', '1'),
    ...singleStructures('st', '0'),
    ...singleStructures('ld', '1'),
    ...replicatingLoads(),
  ] as const;
}

/** Bytes. */
const V_B: RowAttributes = { when: (o) => o['size'] === 0 };
/** Bytes, and elements of 8 bytes with cryptography. */
const POLYNOMIALS: RowAttributes = { when: (o) => o['size'] === 0 || o['size'] === 3 };
/** A shift of one element of 8 bytes. */
const ONE_SHIFT: RowAttributes = { when: (o) => o['shiftimm']! >= 64 };

/** Integers that `vector-rows.ts` computes: U, opcode. */
function vectorIntegers() {
  return [
    ...(
      [
        ['shadd', '0', '00000', V_BHS], ['uhadd', '1', '00000', V_BHS], ['sqadd', '0', '00001', V], ['uqadd', '1', '00001', V],
        ['srhadd', '0', '00010', V_BHS], ['urhadd', '1', '00010', V_BHS], ['shsub', '0', '00100', V_BHS],
        ['uhsub', '1', '00100', V_BHS], ['sqsub', '0', '00101', V], ['uqsub', '1', '00101', V], ['sshl', '0', '01000', V],
        ['ushl', '1', '01000', V], ['sqshl-v', '0', '01001', V], ['uqshl-v', '1', '01001', V], ['srshl', '0', '01010', V],
        ['urshl', '1', '01010', V], ['sqrshl', '0', '01011', V], ['uqrshl', '1', '01011', V], ['sabd', '0', '01110', V_BHS],
        ['uabd', '1', '01110', V_BHS], ['saba', '0', '01111', V_BHS], ['uaba', '1', '01111', V_BHS],
        ['sqdmulh', '0', '10110', V_HS], ['sqrdmulh', '1', '10110', V_HS], ['pmul', '1', '10011', V_B],
      ] as const
    ).map(([name, u, opcode, when]) => row(name, `0 q ${u} 01110 size[1:0] 1 vm ${opcode} 1 vn vd`, 'vd, vn, vm', when)),
    ...(
      [['sqrdmlah', '10000', '1101'], ['sqrdmlsh', '10001', '1111']] as const
    ).flatMap(([name, opcode, byElement]) => [
      row(name, `0 q 1 01110 size[1:0] 0 vm ${opcode} 1 vn vd`, 'vd, vn, vm', V_HS),
      row(`${name}-s`, `01 1 11110 size[1:0] 0 fm ${opcode} 1 fn fd`, 'fd, fn, fm', V_HS),
      row(`${name}-e`, `0 q 1 01111 size[1:0] l vem ${byElement} h 0 vn vd`, 'vd, vn, vem', V_HS),
      row(`${name}-es`, `01 1 11111 size[1:0] l vem ${byElement} h 0 fn fd`, 'fd, fn, vem', V_HS),
    ]),
    ...(
      [
        ['saddl', '0', '0000', V_BHS], ['uaddl', '1', '0000', V_BHS], ['ssubl', '0', '0010', V_BHS], ['usubl', '1', '0010', V_BHS],
        ['sabal', '0', '0101', V_BHS], ['uabal', '1', '0101', V_BHS], ['sabdl', '0', '0111', V_BHS], ['uabdl', '1', '0111', V_BHS],
        ['smlal', '0', '1000', V_BHS], ['umlal', '1', '1000', V_BHS], ['smlsl', '0', '1010', V_BHS], ['umlsl', '1', '1010', V_BHS],
        ['smull', '0', '1100', V_BHS], ['umull', '1', '1100', V_BHS], ['pmull', '0', '1110', POLYNOMIALS], ['sqdmlal', '0', '1001', V_HS],
        ['sqdmlsl', '0', '1011', V_HS], ['sqdmull', '0', '1101', V_HS],
      ] as const
    ).map(([name, u, opcode, when]) => row(name, `0 two ${u} 01110 size[1:0] 1 vm ${opcode} 00 vn vld`, 'vld, vn, vm', when)),
    ...(
      [['saddw', '0', '0001'], ['uaddw', '1', '0001'], ['ssubw', '0', '0011'], ['usubw', '1', '0011']] as const
    ).map(([name, u, opcode]) => row(name, `0 two ${u} 01110 size[1:0] 1 vm ${opcode} 00 vln vld`, 'vld, vln, vm', V_BHS)),
    row('raddhn', '0 two 1 01110 size[1:0] 1 vlm 0100 00 vln vd', 'vd, vln, vlm', V_BHS),
    row('rsubhn', '0 two 1 01110 size[1:0] 1 vlm 0110 00 vln vd', 'vd, vln, vlm', V_BHS),
    ...(
      [
        ['cls-v', '0', '00100', V_BHS], ['clz-v', '1', '00100', V_BHS], ['sqabs', '0', '00111', V], ['sqneg', '1', '00111', V],
        ['suqadd', '0', '00011', V], ['usqadd', '1', '00011', V],
      ] as const
    ).map(([name, u, opcode, when]) => row(name, `0 q ${u} 01110 size[1:0] 10000 ${opcode} 10 vn vd`, 'vd, vn', when)),
    ...(
      [['sqxtn', '0', '10100'], ['uqxtn', '1', '10100'], ['sqxtun', '1', '10010']] as const
    ).map(([name, u, opcode]) => row(name, `0 two ${u} 01110 size[1:0] 10000 ${opcode} 10 vln vd`, 'vd, vln', V_BHS)),
    ...(
      [
        ['srshr', '0', '00100'], ['urshr', '1', '00100'], ['srsra', '0', '00110'], ['ursra', '1', '00110'], ['sri', '1', '01000'],
        ['sli', '1', '01010'], ['sqshlu', '1', '01100'], ['sqshl', '0', '01110'], ['uqshl', '1', '01110'],
      ] as const
    ).map(([name, u, opcode]) => row(name, `0 q ${u} 011110 shiftimm ${opcode} 1 vn vd`, 'vd, vn, shiftimm', SHIFT)),
    ...(
      [
        ['rshrn', '0', '10001'], ['sqshrun', '1', '10000'], ['sqrshrun', '1', '10001'], ['sqshrn', '0', '10010'],
        ['sqrshrn', '0', '10011'], ['uqshrn', '1', '10010'], ['uqrshrn', '1', '10011'],
      ] as const
    ).map(([name, u, opcode]) => row(name, `0 two ${u} 011110 shiftimm ${opcode} 1 vln vd`, 'vd, vln, shiftimm', LONG_SHIFT)),
    ...(
      [
        ['add-d', '0', '10000'], ['sub-d', '1', '10000'], ['cmtst-d', '0', '10001'], ['cmeq-d', '1', '10001'], ['cmgt-d', '0', '00110'],
        ['cmhi-d', '1', '00110'], ['cmge-d', '0', '00111'], ['cmhs-d', '1', '00111'], ['sshl-d', '0', '01000'],
        ['ushl-d', '1', '01000'], ['srshl-d', '0', '01010'], ['urshl-d', '1', '01010'],
      ] as const
    ).map(([name, u, opcode]) => row(name, `01 ${u} 11110 11 1 dm ${opcode} 1 dn dd`, 'dd, dn, dm')),
    row('abs-d', '01 0 11110 11 10000 01011 10 dn dd', 'dd, dn'),
    row('neg-d', '01 1 11110 11 10000 01011 10 dn dd', 'dd, dn'),
    ...(
      [
        ['sshr-d', '0', '00000'], ['ushr-d', '1', '00000'], ['ssra-d', '0', '00010'], ['usra-d', '1', '00010'], ['srshr-d', '0', '00100'],
        ['urshr-d', '1', '00100'], ['srsra-d', '0', '00110'], ['ursra-d', '1', '00110'], ['shl-d', '0', '01010'],
        ['sri-d', '1', '01000'], ['sli-d', '1', '01010'],
      ] as const
    ).map(([name, u, opcode]) => row(name, `01 ${u} 111110 shiftimm ${opcode} 1 dn dd`, 'dd, dn, shiftimm', ONE_SHIFT)),
  ] as const;
} // prettier-ignore

/** Those that saturate on scalars, and those with an element. */
function scalarIntegers() {
  return [
    ...(
      [
        ['sqadd', '0', '00001', {}], ['uqadd', '1', '00001', {}], ['sqsub', '0', '00101', {}], ['uqsub', '1', '00101', {}],
        ['sqshl-v', '0', '01001', {}], ['uqshl-v', '1', '01001', {}], ['sqrshl', '0', '01011', {}], ['uqrshl', '1', '01011', {}],
        ['sqdmulh', '0', '10110', V_HS], ['sqrdmulh', '1', '10110', V_HS],
      ] as const
    ).map(([name, u, opcode, when]) => row(`${name}-s`, `01 ${u} 11110 size[1:0] 1 fm ${opcode} 1 fn fd`, 'fd, fn, fm', when)),
    ...(
      [['sqdmlal', '1001'], ['sqdmlsl', '1011'], ['sqdmull', '1101']] as const
    ).map(([name, opcode]) => row(`${name}-s`, `01 0 11110 size[1:0] 1 fm ${opcode} 00 fn fld`, 'fld, fn, fm', V_HS)),
    ...(
      [['suqadd', '0', '00011'], ['usqadd', '1', '00011'], ['sqabs', '0', '00111'], ['sqneg', '1', '00111']] as const
    ).map(([name, u, opcode]) => row(`${name}-s`, `01 ${u} 11110 size[1:0] 10000 ${opcode} 10 fn fd`, 'fd, fn')),
    ...(
      [['sqxtn', '0', '10100'], ['uqxtn', '1', '10100'], ['sqxtun', '1', '10010']] as const
    ).map(([name, u, opcode]) => row(`${name}-s`, `01 ${u} 11110 size[1:0] 10000 ${opcode} 10 fln fd`, 'fd, fln', V_BHS)),
    ...(
      [['sqshlu', '1', '01100'], ['sqshl', '0', '01110'], ['uqshl', '1', '01110']] as const
    ).map(([name, u, opcode]) => row(`${name}-s`, `01 ${u} 111110 shiftimm ${opcode} 1 fn fd`, 'fd, fn, shiftimm', SCALAR_SHIFT)),
    ...(
      [
        ['sqshrun', '1', '10000'], ['sqrshrun', '1', '10001'], ['sqshrn', '0', '10010'], ['sqrshrn', '0', '10011'],
        ['uqshrn', '1', '10010'], ['uqrshrn', '1', '10011'],
      ] as const
    ).map(([name, u, opcode]) => row(`${name}-s`, `01 ${u} 111110 shiftimm ${opcode} 1 fln fd`, 'fd, fln, shiftimm', NARROW_SHIFT)),
    ...(
      [
        ['smlal', '0', '0010'], ['umlal', '1', '0010'], ['smlsl', '0', '0110'], ['umlsl', '1', '0110'], ['smull', '0', '1010'],
        ['umull', '1', '1010'], ['sqdmlal', '0', '0011'], ['sqdmlsl', '0', '0111'], ['sqdmull', '0', '1011'],
      ] as const
    ).map(([name, u, opcode]) => row(`${name}-e`, `0 two ${u} 01111 size[1:0] l vem ${opcode} h 0 vn vld`, 'vld, vn, vem', V_HS)),
    ...(
      [['sqdmulh', '1100'], ['sqrdmulh', '1101']] as const
    ).flatMap(([name, opcode]) => [
      row(`${name}-e`, `0 q 0 01111 size[1:0] l vem ${opcode} h 0 vn vd`, 'vd, vn, vem', V_HS),
      row(`${name}-es`, `01 0 11111 size[1:0] l vem ${opcode} h 0 fn fd`, 'fd, fn, vem', V_HS),
    ]),
    ...(
      [['sqdmlal', '0011'], ['sqdmlsl', '0111'], ['sqdmull', '1011']] as const
    ).map(([name, opcode]) => row(`${name}-es`, `01 0 11111 size[1:0] l vem ${opcode} h 0 fn fld`, 'fld, fn, vem', V_HS)),
  ] as const;
} // prettier-ignore

/** FEAT_DotProd, FEAT_SHA512, FEAT_SHA3. */
function laterOnes() {
  return [
    ...(
      [['sdot', '0'], ['udot', '1']] as const
    ).flatMap(([name, u]) => [
      row(name, `0 q ${u} 01110 100 bm 100101 bn dotd`, 'dotd, bn, bm'),
      row(`${name}-e`, `0 q ${u} 01111 10 l dote 1110 h 0 bn dotd`, 'dotd, bn, dote'),
    ]),
    row('sha512h', '11001110 011 km 100000 qn qd', 'qd, qn, km'),
    row('sha512h2', '11001110 011 km 100001 qn qd', 'qd, qn, km'),
    row('sha512su1', '11001110 011 km 100010 kn kd', 'kd, kn, km'),
    row('sha512su0', '11001110 110 00000 100000 kn kd', 'kd, kn'),
    row('eor3', '11001110 000 ym 0 ya yn yd', 'yd, yn, ym, ya'),
    row('bcax', '11001110 001 ym 0 ya yn yd', 'yd, yn, ym, ya'),
    row('rax1', '11001110 011 km 100011 kn kd', 'kd, kn, km'),
    row('xar', '11001110 100 km rotate kn kd', 'kd, kn, km, rotate'),
  ] as const;
} // prettier-ignore

function cryptography() {
  const three = (opcode: string, registers: string): string => `01011110 000 tm 0 ${opcode} 00 ${registers}`;
  return [
    ...(
      [['aese', '00100'], ['aesd', '00101'], ['aesmc', '00110'], ['aesimc', '00111']] as const
    ).map(([name, opcode]) => row(name, `01001110 00 10100 ${opcode} 10 yn yd`, 'yd, yn')),
    ...(
      [['sha1c', '000'], ['sha1p', '001'], ['sha1m', '010']] as const
    ).map(([name, opcode]) => row(name, three(opcode, 'sn qd'), 'qd, sn, tm')),
    row('sha1su0', three('011', 'tn td'), 'td, tn, tm'),
    row('sha256h', three('100', 'qn qd'), 'qd, qn, tm'),
    row('sha256h2', three('101', 'qn qd'), 'qd, qn, tm'),
    row('sha256su1', three('110', 'tn td'), 'td, tn, tm'),
    row('sha1h', '01011110 00 10100 00000 10 sn sd', 'sd, sn'),
    row('sha1su1', '01011110 00 10100 00001 10 tn td', 'td, tn'),
    row('sha256su0', '01011110 00 10100 00010 10 tn td', 'td, tn'),
  ] as const;
} // prettier-ignore

/** Numbers of 4 bytes, or of 8 in whole registers. */
const NUMBERS: RowAttributes = { when: (o) => o['sz'] === 0 || o['q'] === 1 };
/** An element of 8 bytes is one of two. */
const ELEMENT: RowAttributes = { when: (o) => o['sz'] === 0 || (o['l'] === 0 && o['q'] !== 0) };
/** Fixed points in numbers of 2 or 4 bytes, or of 8 in whole registers. */
const FIXED_NUMBERS: RowAttributes = {
  not: SHIFT.not!,
  when: (o) => o['shiftimm']! >= 16 && (o['shiftimm']! < 64 || o['q'] !== 0),
};

/** Operations on numbers: mnemonic, U, bit 23 (not with an element), opcode. */
const THREE_NUMBERS = [
  ['fmaxnm', '0', '0', '11000'], ['fmla', '0', '0', '11001'], ['fadd', '0', '0', '11010'],
  ['fmulx', '0', '0', '11011'], ['fcmeq', '0', '0', '11100'], ['fmax', '0', '0', '11110'],
  ['frecps', '0', '0', '11111'], ['fminnm', '0', '1', '11000'], ['fmls', '0', '1', '11001'],
  ['fsub', '0', '1', '11010'], ['fmin', '0', '1', '11110'], ['frsqrts', '0', '1', '11111'],
  ['fmaxnmp', '1', '0', '11000'], ['faddp', '1', '0', '11010'], ['fmul', '1', '0', '11011'],
  ['fcmge', '1', '0', '11100'], ['facge', '1', '0', '11101'], ['fmaxp', '1', '0', '11110'],
  ['fdiv', '1', '0', '11111'], ['fminnmp', '1', '1', '11000'], ['fabd', '1', '1', '11010'],
  ['fcmgt', '1', '1', '11100'], ['facgt', '1', '1', '11101'], ['fminp', '1', '1', '11110'],
] as const; // prettier-ignore
const ONE_NUMBER = [
  ['frintn', '0', '0', '11000'], ['frintm', '0', '0', '11001'], ['fcvtns', '0', '0', '11010'],
  ['fcvtms', '0', '0', '11011'], ['fcvtas', '0', '0', '11100'], ['scvtf', '0', '0', '11101'],
  ['fabs', '0', '1', '01111'], ['frintp', '0', '1', '11000'], ['frintz', '0', '1', '11001'],
  ['fcvtps', '0', '1', '11010'], ['fcvtzs', '0', '1', '11011'], ['frecpe', '0', '1', '11101'],
  ['frinta', '1', '0', '11000'], ['frintx', '1', '0', '11001'], ['fcvtnu', '1', '0', '11010'],
  ['fcvtmu', '1', '0', '11011'], ['fcvtau', '1', '0', '11100'], ['ucvtf', '1', '0', '11101'],
  ['fneg', '1', '1', '01111'], ['frinti', '1', '1', '11001'], ['fcvtpu', '1', '1', '11010'],
  ['fcvtzu', '1', '1', '11011'], ['frsqrte', '1', '1', '11101'], ['fsqrt', '1', '1', '11111'],
] as const; // prettier-ignore
const AGAINST_ZERO = [
  ['fcmgt', '0', '1', '01100'], ['fcmeq', '0', '1', '01101'], ['fcmlt', '0', '1', '01110'],
  ['fcmge', '1', '1', '01100'], ['fcmle', '1', '1', '01101'],
] as const; // prettier-ignore
const THREE_SCALARS = [
  ['fmulx', '0', '0', '11011'], ['fcmeq', '0', '0', '11100'], ['frecps', '0', '0', '11111'],
  ['frsqrts', '0', '1', '11111'], ['fcmge', '1', '0', '11100'], ['facge', '1', '0', '11101'],
  ['fabd', '1', '1', '11010'], ['fcmgt', '1', '1', '11100'], ['facgt', '1', '1', '11101'],
] as const; // prettier-ignore
const ONE_SCALAR = [
  ['fcvtns', '0', '0', '11010'], ['fcvtms', '0', '0', '11011'], ['fcvtas', '0', '0', '11100'],
  ['scvtf', '0', '0', '11101'], ['fcvtps', '0', '1', '11010'], ['fcvtzs', '0', '1', '11011'],
  ['frecpe', '0', '1', '11101'], ['fcvtnu', '1', '0', '11010'], ['fcvtmu', '1', '0', '11011'],
  ['fcvtau', '1', '0', '11100'], ['ucvtf', '1', '0', '11101'], ['fcvtpu', '1', '1', '11010'],
  ['fcvtzu', '1', '1', '11011'], ['frsqrte', '1', '1', '11101'], ['frecpx', '0', '1', '11111'],
] as const; // prettier-ignore
const EXTREMES = [
  ['fmaxnm', '0', '01100'], ['fmax', '0', '01111'], ['fminnm', '1', '01100'], ['fmin', '1', '01111'],
] as const; // prettier-ignore
const BY_ELEMENT = [
  ['fmla', '0', '0001'], ['fmls', '0', '0101'], ['fmul', '0', '1001'], ['fmulx', '1', '1001'],
] as const; // prettier-ignore

function vectorNumbers() {
  return [
    ...THREE_NUMBERS.map(([name, u, a, opcode]) =>
      row(`${name}-v`, `0 q ${u} 01110 ${a} sz 1 vm ${opcode} 1 vn vd`, 'vd, vn, vm', NUMBERS),
    ),
    ...ONE_NUMBER.map(([name, u, a, opcode]) =>
      row(`${name}-v`, `0 q ${u} 01110 ${a} sz 10000 ${opcode} 10 vn vd`, 'vd, vn', NUMBERS),
    ),
    ...AGAINST_ZERO.flatMap(([name, u, a, opcode]) => [
      row(`${name}-vz`, `0 q ${u} 01110 ${a} sz 10000 ${opcode} 10 vn vd`, "vd, vn, '#0.0'", NUMBERS),
      row(`${name}-sz`, `01 ${u} 11110 ${a} sz 10000 ${opcode} 10 fn fd`, "fd, fn, '#0.0'"),
    ]),
    ...THREE_SCALARS.map(([name, u, a, opcode]) =>
      row(`${name}-s`, `01 ${u} 11110 ${a} sz 1 fm ${opcode} 1 fn fd`, 'fd, fn, fm'),
    ),
    ...ONE_SCALAR.map(([name, u, a, opcode]) =>
      row(`${name}-s`, `01 ${u} 11110 ${a} sz 10000 ${opcode} 10 fn fd`, 'fd, fn'),
    ),
    ...EXTREMES.flatMap(([name, a, opcode]) => [
      row(`${name}p-s`, `01 1 11110 ${a} sz 11000 ${opcode} 10 vpair fd`, 'fd, vpair'),
      row(`${name}v`, `0 q 1 01110 ${a} sz 11000 ${opcode} 10 vn fd`, 'fd, vn', {
        when: (o) => o['q'] === 1 && o['sz'] === 0,
      }),
    ]),
    row('faddp-s', '01 1 11110 0 sz 11000 01101 10 vpair fd', 'fd, vpair'),
    ...BY_ELEMENT.flatMap(([name, u, opcode]) => [
      row(`${name}-e`, `0 q ${u} 01111 1 sz l vem ${opcode} h 0 vn vd`, 'vd, vn, vem', ELEMENT),
      row(`${name}-es`, `01 ${u} 11111 1 sz l vem ${opcode} h 0 fn fd`, 'fd, fn, vem', ELEMENT),
    ]),
    ...(
      [
        ['scvtf', '0', '11100'],
        ['ucvtf', '1', '11100'],
        ['fcvtzs', '0', '11111'],
        ['fcvtzu', '1', '11111'],
      ] as const
    ).flatMap(([name, u, opcode]) => [
      row(`${name}-vfix`, `0 q ${u} 011110 shiftimm ${opcode} 1 vn vd`, 'vd, vn, shiftimm', FIXED_NUMBERS),
      row(`${name}-sfix`, `01 ${u} 111110 shiftimm ${opcode} 1 fn fd`, 'fd, fn, shiftimm', FIXED_NUMBERS),
    ]),
    row('fcvtl', '0 two 0 01110 0 sz 10000 10111 10 vfn vfl', 'vfl, vfn'),
    row('fcvtn', '0 two 0 01110 0 sz 10000 10110 10 vfl vfn', 'vfn, vfl'),
    row('fcvtxn', '0 two 1 01110 0 sz 10000 10110 10 vfl vfn', 'vfn, vfl', { when: (o) => o['sz'] === 1 }),
    row('fcvtxn-s', '01 1 11110 01 10000 10110 10 dn sd', 'sd, dn'),
    row('urecpe', '0 q 0 01110 1 sz 10000 11100 10 vn vd', 'vd, vn', { when: (o) => o['sz'] === 0 }),
    row('ursqrte', '0 q 1 01110 1 sz 10000 11100 10 vn vd', 'vd, vn', { when: (o) => o['sz'] === 0 }),
    row('fmov-v4s', '0 q 0 0111100000 imm8[7:5] 1111 01 imm8[4:0] v4s', 'v4s, imm8'),
    row('fmov-v2d', '0 1 1 0111100000 imm8[7:5] 1111 01 imm8[4:0] v2d', 'v2d, imm8'),
  ] as const;
}

/** The same of half precision, whose sign of it is a bit that is the same in all rows. */
function vectorHalves() {
  const ONE: RowAttributes = { not: { half: [0] } };
  const ZERO: RowAttributes = { not: { half: [1] } };
  const low = (opcode: string): string => opcode.slice(2);
  return [
    ...THREE_NUMBERS.map(([name, u, a, opcode]) =>
      row(`${name}-vh`, `0 q ${u} 01110 ${a} half 0 vm 00 ${low(opcode)} 1 vn vd`, 'vd, vn, vm', ONE),
    ),
    ...ONE_NUMBER.map(([name, u, a, opcode]) =>
      row(`${name}-vh`, `0 q ${u} 01110 ${a} half 11100 ${opcode} 10 vn vd`, 'vd, vn', ONE),
    ),
    ...AGAINST_ZERO.flatMap(([name, u, a, opcode]) => [
      row(`${name}-vzh`, `0 q ${u} 01110 ${a} half 11100 ${opcode} 10 vn vd`, "vd, vn, '#0.0'", ONE),
      row(`${name}-szh`, `01 ${u} 11110 ${a} half 11100 ${opcode} 10 fn fd`, "fd, fn, '#0.0'", ONE),
    ]),
    ...THREE_SCALARS.map(([name, u, a, opcode]) =>
      row(`${name}-sh`, `01 ${u} 11110 ${a} half 0 fm 00 ${low(opcode)} 1 fn fd`, 'fd, fn, fm', ONE),
    ),
    ...ONE_SCALAR.map(([name, u, a, opcode]) =>
      row(`${name}-sh`, `01 ${u} 11110 ${a} half 11100 ${opcode} 10 fn fd`, 'fd, fn', ONE),
    ),
    ...EXTREMES.flatMap(([name, a, opcode]) => [
      row(`${name}p-sh`, `01 0 11110 ${a} half 11000 ${opcode} 10 vpair fd`, 'fd, vpair', ZERO),
      row(`${name}v-h`, `0 q 0 01110 ${a} half 11000 ${opcode} 10 vn fd`, 'fd, vn', ZERO),
    ]),
    row('faddp-sh', '01 0 11110 0 half 11000 01101 10 vpair fd', 'fd, vpair', ZERO),
    ...BY_ELEMENT.flatMap(([name, u, opcode]) => [
      row(`${name}-eh`, `0 q ${u} 01111 0 half l vem ${opcode} h 0 vn vd`, 'vd, vn, vem', ZERO),
      row(`${name}-esh`, `01 ${u} 11111 0 half l vem ${opcode} h 0 fn fd`, 'fd, fn, vem', ZERO),
    ]),
    row('fmov-v8h', '0 q 0 0111100000 imm8[7:5] 1111 11 imm8[4:0] v8h', 'v8h, imm8'),
    // Products of halves as singles (FEAT_FHM).
    ...(
      [['fmlal', '0'], ['fmlsl', '1']] as const
    ).flatMap(([name, s]) => [
      row(name, `0 q 0 01110 ${s} half 1 hvm 11101 1 hvn v4s`, 'v4s, hvn, hvm', ZERO),
      row(`${name}2`, `0 q 1 01110 ${s} half 1 hvm 11001 1 hvn v4s`, 'v4s, hvn, hvm', ZERO),
      row(`${name}-e`, `0 q 0 01111 1 half l hve 0 ${s} 00 h 0 hvn v4s`, 'v4s, hvn, hve', ZERO),
      row(`${name}2-e`, `0 q 1 01111 1 half l hve 1 ${s} 00 h 0 hvn v4s`, 'v4s, hvn, hve', ZERO),
    ]),
  ] as const;
} // prettier-ignore

function dupValid(o: Operands): boolean {
  const imm5 = o['imm5']!;
  return (imm5 & 15) !== 0 && ((imm5 & 7) !== 0 || o['q'] === 1);
}

const ROWS = [
  ...dataImmediate(),
  ...dataRegister(),
  ...branches(),
  ...system(),
  ...loadsAndStores(),
  ...floatingPoint(),
  ...vectors(),
  ...vectorIntegers(),
  ...scalarIntegers(),
  ...cryptography(),
  ...laterOnes(),
  ...vectorNumbers(),
  ...vectorHalves(),
];

/** Name of a row: mnemonic, or mnemonic-form. */
export type Arm64Mnemonic = (typeof ROWS)[number]['mnemonic'];

export const arm64Table = new IsaTable(
  { name: 'arm64', fields: FIELDS, rows: ROWS satisfies readonly RowSpec[] },
  'deferred',
);

// -------------------------------------------------------------------------------------------- text

const CONDITIONS = ['eq', 'ne', 'cs', 'cc', 'mi', 'pl', 'vs', 'vc', 'hi', 'ls', 'ge', 'lt', 'gt', 'le', 'al', 'nv'];
const SHIFTS = ['lsl', 'lsr', 'asr', 'ror'];
const EXTENDS = ['uxtb', 'uxth', 'uxtw', 'uxtx', 'sxtb', 'sxth', 'sxtw', 'sxtx'];
const BARRIERS = [
  '',
  'oshld',
  'oshst',
  'osh',
  '',
  'nshld',
  'nshst',
  'nsh',
  '',
  'ishld',
  'ishst',
  'ish',
  '',
  'ld',
  'st',
  'sy',
];
const BTI_TARGETS = ['', 'c', 'j', 'jc'];
const VECTOR_SIZES = ['8b', '16b', '4h', '8h', '2s', '4s', '1d', '2d', '', '1q'];

/**
 * System registers that kernels and C libraries name; every other one prints as
 * s<op0>_<op1>_c<n>_c<m>_<op2>.
 */
const SYSTEM_REGISTERS: ReadonlyMap<number, string> = new Map(
  (
    [
      ['midr_el1', 3, 0, 0, 0, 0],
      ['mpidr_el1', 3, 0, 0, 0, 5],
      ['id_aa64pfr0_el1', 3, 0, 0, 4, 0],
      ['id_aa64isar0_el1', 3, 0, 0, 6, 0],
      ['id_aa64mmfr0_el1', 3, 0, 0, 7, 0],
      ['sctlr_el1', 3, 0, 1, 0, 0],
      ['cpacr_el1', 3, 0, 1, 0, 2],
      ['ttbr0_el1', 3, 0, 2, 0, 0],
      ['ttbr1_el1', 3, 0, 2, 0, 1],
      ['tcr_el1', 3, 0, 2, 0, 2],
      ['spsr_el1', 3, 0, 4, 0, 0],
      ['elr_el1', 3, 0, 4, 0, 1],
      ['sp_el0', 3, 0, 4, 1, 0],
      ['currentel', 3, 0, 4, 2, 2],
      ['esr_el1', 3, 0, 5, 2, 0],
      ['far_el1', 3, 0, 6, 0, 0],
      ['par_el1', 3, 0, 7, 4, 0],
      ['mair_el1', 3, 0, 10, 2, 0],
      ['vbar_el1', 3, 0, 12, 0, 0],
      ['contextidr_el1', 3, 0, 13, 0, 1],
      ['tpidr_el1', 3, 0, 13, 0, 4],
      ['cntkctl_el1', 3, 0, 14, 1, 0],
      ['ctr_el0', 3, 3, 0, 0, 1],
      ['dczid_el0', 3, 3, 0, 0, 7],
      ['nzcv', 3, 3, 4, 2, 0],
      ['daif', 3, 3, 4, 2, 1],
      ['fpcr', 3, 3, 4, 4, 0],
      ['fpsr', 3, 3, 4, 4, 1],
      ['tpidr_el0', 3, 3, 13, 0, 2],
      ['tpidrro_el0', 3, 3, 13, 0, 3],
      ['cntfrq_el0', 3, 3, 14, 0, 0],
      ['cntpct_el0', 3, 3, 14, 0, 1],
      ['cntvct_el0', 3, 3, 14, 0, 2],
      ['tpidr_el2', 3, 4, 13, 0, 2],
    ] as const
  ).map(([name, op0, op1, n, m, op2]) => [((op0 - 2) << 14) | (op1 << 11) | (n << 7) | (m << 3) | op2, name]),
);

function numbered(prefix: string, number: number, at31: string): string {
  return number === 31 ? at31 : `${prefix}${number}`;
}
const x = (number: number): string => numbered('x', number, 'xzr');
const w = (number: number): string => numbered('w', number, 'wzr');
const xOrSp = (number: number): string => numbered('x', number, 'sp');

function systemRegister(value: number): string {
  return (
    SYSTEM_REGISTERS.get(value) ??
    `s${2 + (value >>> 14)}_${(value >>> 11) & 7}_c${(value >>> 7) & 15}_c${(value >>> 3) & 15}_${value & 7}`
  );
}

function prefetch(value: number): string {
  const type = ['pld', 'pli', 'pst'][value >>> 3];
  const level = (value >>> 1) & 3;
  if (type === undefined || level === 3) return `#0x${value.toString(16).padStart(2, '0')}`;
  return `${type}l${level + 1}${value & 1 ? 'strm' : 'keep'}`;
}

/** Element that imm5 names: the lowest bit set gives the size, the bits above it the index. */
function element(imm5: number): string {
  const size = 31 - Math.clz32(imm5 & -imm5);
  return `${'bhsd'[size]!}[${imm5 >> (size + 1)}]`;
}

/** Arrangement of a vector operand by element size (0 to 3) and Q. */
function arrangement(o: Operands): string {
  const q = o['q'] ?? o['two']!;
  if (o['imm5'] !== undefined) {
    const size = 31 - Math.clz32(o['imm5'] & -o['imm5']);
    return VECTOR_SIZES[size * 2 + q]!;
  }
  if (o['half'] !== undefined) return VECTOR_SIZES[2 + q]!;
  if (o['sz'] !== undefined) return VECTOR_SIZES[(2 + o['sz']) * 2 + q]!;
  if (o['shiftimm'] !== undefined) return VECTOR_SIZES[(31 - Math.clz32(o['shiftimm'] >> 3)) * 2 + q]!;
  return VECTOR_SIZES[o['size']! * 2 + q]!;
}

/** Log2 of the bytes of an element. */
const elementSize = (o: Operands): number =>
  o['shiftimm'] === undefined ? o['size']! : 31 - Math.clz32(o['shiftimm'] >> 3);

/** Arrangement of an operand whose elements are twice as wide. */
const longArrangement = (o: Operands): string => VECTOR_SIZES[(elementSize(o) + 1) * 2 + 1]!;

/** A scalar whose size `size` or a shift says, or one that is twice as wide. */
const scalarText = (o: Operands, number: number, twice = 0): string => `${'bhsd'[elementSize(o) + twice]!}${number}`;

function floatingRegister(o: Operands, number: number): string {
  if (o['half'] !== undefined) return `h${number}`;
  if (o['sz'] !== undefined) return `${'sd'[o['sz']]!}${number}`;
  if (o['ptype'] === undefined) return scalarText(o, number);
  return `${['s', 'd', '', 'h'][o['ptype']!]!}${number}`;
}

/**
 * Eight-bit floating constant: sign, three bits of exponent, four of fraction (Arm ARM,
 * VFPExpandImm).
 */
function floatingConstant(value: number): string {
  const exponent = ((value >>> 4) & 7) ^ 4;
  const number = (value & 0x80 ? -1 : 1) * (1 + (value & 15) / 16) * 2 ** (exponent - 3);
  return `#${number.toExponential(18).replace(/e([+-])(\d)$/, 'e$10$2')}`;
}

type Text = (value: number, operands: Operands, address: Address, row: Row) => string;

const bySf =
  (at31x: string, at31w: string): Text =>
  (value, o) =>
    o['sf'] === 1 ? numbered('x', value, at31x) : numbered('w', value, at31w);

const bySfOrQ: Text = (value, o) => (o['q'] === 1 ? x(value) : w(value));

const plainText: Text = (value) => `#${value}`;
const hexText: Text = (value) => `#${hex(value)}`;

/** Log2 of the access size, from the field that scales it, for the shift of a register offset. */
const SCALES: Readonly<Record<string, number>> = { b: 0, h: 1, w: 2, x: 3, fb: 0, fh: 1, fs: 2, fd: 3, fq: 4 };

function accessScale(mnemonic: string): number {
  const [name, form] = mnemonic.split('-');
  if (name === 'prfm') return 3;
  if (name!.endsWith('b')) return 0;
  if (name!.endsWith('h')) return 1;
  if (name === 'ldrsw') return 2;
  return SCALES[form!]!;
}

const FIELD_TEXT: Readonly<Record<string, Text>> = {
  rd: bySf('xzr', 'wzr'),
  rn: bySf('xzr', 'wzr'),
  rm: bySf('xzr', 'wzr'),
  ra: bySf('xzr', 'wzr'),
  rs: bySf('xzr', 'wzr'),
  rt: (value, o) => {
    // tbz and tbnz: the register is as wide as the bit number needs.
    const wide = o['bit'] === undefined ? o['sf'] === 1 : o['bit'] >= 32;
    return wide ? x(value) : w(value);
  },
  rs_pair: (value, o) => (o['sf'] === 1 ? `${x(value)}, ${x(value + 1)}` : `${w(value)}, ${w(value + 1)}`),
  rt_pair: (value, o) => (o['sf'] === 1 ? `${x(value)}, ${x(value + 1)}` : `${w(value)}, ${w(value + 1)}`),
  rdsp: bySf('sp', 'wsp'),
  rnsp: bySf('sp', 'wsp'),
  base: xOrSp,
  xnsp: xOrSp,
  xmsp: xOrSp,
  ...Object.fromEntries(['xd', 'xn', 'xm', 'xa', 'xt', 'xt2'].map((name) => [name, x])),
  ...Object.fromEntries(['wd', 'wn', 'wm', 'ws', 'wt', 'wt2'].map((name) => [name, w])),
  ...Object.fromEntries(
    ['b', 'h', 's', 'd', 'q'].flatMap((letter) =>
      ['t', 't2', 'd', 'n'].map((end): [string, Text] => [`${letter}${end}`, (value) => `${letter}${value}`]),
    ),
  ),
  ...Object.fromEntries(
    ['fd', 'fn', 'fm', 'fa'].map((name): [string, Text] => [name, (value, o) => floatingRegister(o, value)]),
  ),
  ...Object.fromEntries(
    ['vd', 'vn', 'vm', 'vt'].map((name): [string, Text] => [name, (value, o) => `v${value}.${arrangement(o)}`]),
  ),
  ...Object.fromEntries(
    ['vld', 'vln', 'vlm'].map((name): [string, Text] => [name, (value, o) => `v${value}.${longArrangement(o)}`]),
  ),
  ...Object.fromEntries(
    ([1, 2, 3, 4] as const).flatMap((count): [string, Text][] => [
      [listOf('vtable', count), registerList(count, () => '16b')],
      [listOf('ve', count), registerList(count, (_o, each) => each.mnemonic.split('-')[1]!)],
    ]),
  ),
  lane: (value) => `[${value}]`,
  ...Object.fromEntries(['td', 'tn', 'tm'].map((name): [string, Text] => [name, (value) => `v${value}.4s`])),
  ...Object.fromEntries(['yd', 'yn', 'ym', 'ya'].map((name): [string, Text] => [name, (value) => `v${value}.16b`])),
  ...Object.fromEntries(['kd', 'kn', 'km'].map((name): [string, Text] => [name, (value) => `v${value}.2d`])),
  dotd: (value, o) => `v${value}.${o['q'] === 1 ? '4s' : '2s'}`,
  dote: (value, o) => `v${value}.4b[${2 * o['h']! + o['l']!}]`,
  vpd: (value, o) => `v${value}.${VECTOR_SIZES[(o['size']! + 1) * 2 + o['q']!]!}`,
  fld: (value, o) => scalarText(o, value, 1),
  fln: (value, o) => scalarText(o, value, 1),
  // What ldNr has read, and by how much shll shifts.
  size: (value, _o, _address, { mnemonic }) =>
    `#${mnemonic === 'shll' ? 8 << value : Number(/^ld(\d)r/.exec(mnemonic)![1]) << value}`,
  // Bytes of the registers of structures.
  q: (value, _o, _address, each) => `#${(value === 1 ? 16 : 8) * Number(each.mnemonic.split('-')[1])}`,
  ...Object.fromEntries(
    ['bd', 'bn', 'bm'].map((name): [string, Text] => [name, (value, o) => `v${value}.${o['q'] === 1 ? '16b' : '8b'}`]),
  ),
  ...Object.fromEntries([2, 3, 4].map((count): [string, Text] => [`vt_${count}`, registerList(count, arrangement)])),
  dn: (value) => `d${value}`,
  dm: (value) => `d${value}`,
  se: (value, o) => `${'bhsd'[31 - Math.clz32(o['imm5']! & -o['imm5']!)]!}${value}`,
  vfl: (value, o) => `v${value}.${o['sz'] === 1 ? '2d' : '4s'}`,
  vfn: (value, o) => `v${value}.${VECTOR_SIZES[(1 + o['sz']!) * 2 + o['two']!]!}`,
  vpair: (value, o) => `v${value}.2${o['half'] === undefined ? 'sd'[o['sz'] ?? 1]! : 'h'}`,
  hvn: (value, o) => `v${value}.${o['q'] === 1 ? '4h' : '2h'}`,
  hvm: (value, o) => `v${value}.${o['q'] === 1 ? '4h' : '2h'}`,
  hve: (value, o) => {
    const { number, index } = halfElement(value, o);
    return `v${number}.h[${index}]`;
  },
  vem: (value, o) => {
    if (o['half'] !== undefined) {
      const { number, index } = halfElement(value, o);
      return `v${number}.h[${index}]`;
    }
    if (o['size'] !== undefined) {
      const { number, index } = integerElement(o);
      return `v${number}.${'bhs'[o['size']]!}[${index}]`;
    }
    const index = o['sz'] === 1 ? o['h']! : 2 * o['h']! + o['l']!;
    return `v${value}.${'sd'[o['sz']!]!}[${index}]`;
  },
  fixed: (value) => `#${64 - value}`,
  rdq: bySfOrQ,
  ad: (value, o) => `${'bhs'[o['size']!]!}${value}`,
  ed: (value, o) => `v${value}.${element(o['imm5']!)}`,
  en: (value, o) => `v${value}.${element(o['imm5']!)}`,
  en2: (value, o) => {
    const size = 31 - Math.clz32(o['imm5']! & -o['imm5']!);
    return `v${value}.${'bhsd'[size]!}[${o['imm4']! >> size}]`;
  },
  high: (value) => `v${value}.d[1]`,
  v2d: (value) => `v${value}.2d`,
  v4s: (value, o) => `v${value}.${o['q'] === 1 ? '4s' : '2s'}`,
  v8h: (value, o) => `v${value}.${o['q'] === 1 ? '8h' : '4h'}`,
  vimm: (value, _o, _address, each) => {
    if (each.mnemonic !== 'movi-d' && each.mnemonic !== 'movi-2d') return `#${hex(value)}`;
    let mask = 0n;
    for (let bit = 0; bit < 8; bit++) if ((value >> bit) & 1) mask |= 0xffn << BigInt(8 * bit);
    return `#${hex(mask)}`;
  },
  cmode: (value, _o, _address, each) => {
    if (each.mnemonic.endsWith('-msl')) return `, msl #${value * 8 + 8}`;
    return value === 0 ? '' : `, lsl #${value * 8}`;
  },
  shiftimm: (value, _o, _address, each) => {
    const bits = 8 << (31 - Math.clz32(value >> 3));
    return `#${isLeftShift(each.mnemonic) ? value - bits : 2 * bits - value}`;
  },
  vw: (value, o) => ((o['imm5']! & 15) === 8 ? x(value) : w(value)),
  rmx: (value, o, _address, each) => {
    const option = o['option']!;
    if (o['extend'] !== undefined) return (option & 3) === 3 && o['sf'] === 1 ? x(value) : w(value);
    const name = option & 1 ? x(value) : w(value);
    if (option === 3 && o['s'] === 0) return name;
    const amount = o['s'] === 1 ? ` #${accessScale(each.mnemonic)}` : '';
    return `${name}, ${option === 3 ? 'lsl' : EXTENDS[option]!}${amount}`;
  },
  extend: (value, o) => {
    // uxtx (uxtw for 32 bits) next to a stack pointer is written lsl, and left away when it shifts
    // by nothing.
    const natural = o['option'] === (o['sf'] === 1 ? 3 : 2);
    const stack = o['rnsp'] === 31 || o['rdsp'] === 31;
    if (natural && stack) return value === 0 ? '' : `, lsl #${value}`;
    return `, ${EXTENDS[o['option']!]!}${value === 0 ? '' : ` #${value}`}`;
  },
  amount: (value, o) => (value === 0 && o['shift'] === 0 ? '' : `, ${SHIFTS[o['shift']!]!} #${value}`),
  imm12: (value, o) => `#${hex(value)}${o['sh'] === 1 ? ', lsl #12' : ''}`,
  imm16: (value, _o, _address, each) => (each.mnemonic === 'udf' ? `#${value}` : `#${hex(value)}`),
  hw: (value) => (value === 0 ? '' : `, lsl #${value * 16}`),
  bitmask: (value, o) => `#${hex(decodeBitmask(value, o['sf'] === 1 ? 64 : 32) ?? 0n)}`,
  off: (value, _o, address) => hex(BigInt.asUintN(64, address + BigInt(value))),
  pages: (value, _o, address) => hex(BigInt.asUintN(64, (address & ~0xfffn) + BigInt(value) * 4096n)),
  cond: (value) => CONDITIONS[value]!,
  nzcv: (value, _o, _address, each) => (each.mnemonic === 'rmif' ? `#${value}` : `#${hex(value)}`),
  imm5: (value, _o, _address, each) => (each.mnemonic.startsWith('ccm') ? `#${hex(value)}` : ''),
  imm4: (value, _o, _address, each) => (each.mnemonic === 'ext' ? `#${value}` : ''),
  imm8: floatingConstant,
  hint: hexText,
  crm: (value, _o, _address, each) => (each.mnemonic.startsWith('msr') ? `#${hex(value)}` : `C${value}`),
  crn: (value) => `C${value}`,
  sysreg: systemRegister,
  prfop: prefetch,
  barrier: (value, _o, _address, each) => {
    if (each.mnemonic === 'isb' || each.mnemonic === 'clrex') return value === 15 ? '' : `#${hex(value)}`;
    return BARRIERS[value] === '' ? `#0x${value.toString(16).padStart(2, '0')}` : BARRIERS[value]!;
  },
  targets: (value) => BTI_TARGETS[value]!,
  optional_xt: (value) => (value === 31 ? '' : `, ${x(value)}`),
};

/**
 * Consecutive vector registers; behind 31 comes 0. objdump writes three and more as a range where
 * they do not wrap.
 */
function registerList(count: number, kind: (o: Operands, each: Row) => string): Text {
  return (value, o, _address, each) => {
    const names = Array.from({ length: count }, (_, i) => `v${(value + i) % 32}.${kind(o, each)}`);
    return count > 2 && value + count <= 32 ? `${names[0]!}-${names.at(-1)!}` : names.join(', ');
  };
}

interface Part {
  readonly literal?: string;
  readonly field?: string;
  readonly text?: Text;
}

interface Printer {
  readonly base: string;
  /** Size letter that stands behind the acquire and release letters of an atomic. */
  readonly tail: string;
  readonly suffixes: readonly { readonly name: string; readonly text: string }[];
  readonly parts: readonly Part[];
}

const printers = new Map<string, Printer>();

/** Parses the syntax of a row once. */
function printerOf(each: Row): Printer {
  const known = printers.get(each.mnemonic);
  if (known) return known;
  const [base, form] = each.mnemonic.split('-');
  const suffixes = each.fields
    .filter((field) => field.spec.kind === 'suffix' && field.spec.suffix !== '')
    .map((field) => ({ name: field.name, text: field.spec.suffix ?? '' }));
  const parts = (each.syntax.match(/'[^']*'|[a-z_][a-z0-9_]*|[^a-z_']+/g) ?? []).map((token): Part => {
    if (token.startsWith("'")) return { literal: token.slice(1, -1) };
    if (/^[a-z_]/.test(token)) return { field: token, text: FIELD_TEXT[token] ?? plainText };
    return { literal: token.replaceAll('~', '') };
  });
  const made: Printer = {
    base: base!,
    tail: suffixes.length > 0 && (form === 'b' || form === 'h') ? form : '',
    suffixes,
    parts,
  };
  printers.set(each.mnemonic, made);
  return made;
}

/** Text of a decoded word as `objdump -M no-aliases` has it; the named hints keep their names. */
export function formatArm64(each: Row, operands: Operands, address: Address): string {
  const printer = printerOf(each);
  let mnemonic = printer.base;
  for (const suffix of printer.suffixes) if (operands[suffix.name] === 1) mnemonic += suffix.text;
  mnemonic += printer.tail;
  let text = '';
  for (const part of printer.parts) {
    text += part.literal ?? part.text!(operands[part.field!]!, operands, address, each);
  }
  text = text.replace(/, #0\]$/, ']');
  if (each.mnemonic === 'ret' && operands['xn'] === 30) text = '';
  if (text === '') return mnemonic;
  return text.startsWith('.') ? mnemonic + text : `${mnemonic} ${text}`;
}

// --------------------------------------------------------------------------------------------- isa

const UNKNOWN: Operands = {};

function flowOf(each: Row, operands: Operands, address: Address): Flow {
  switch (each.flow) {
    case 'jump':
    case 'call':
    case 'branch':
      return { kind: each.flow, target: BigInt.asUintN(64, address + BigInt(operands['off']!)) };
    case 'call-if-link':
    case 'indirect-call-if-link':
      // No A64 row links by its destination register.
      return { kind: 'next' };
    default:
      return { kind: each.flow };
  }
}

export const arm64Isa: Isa = {
  text: 'capstone-arm64',
  minInstructionBytes: 4,
  maxInstructionBytes: 4,
  decode(code: Uint8Array, offset: number, address: Address): Instruction {
    if (offset + 4 > code.length) {
      const sizeBytes = Math.max(1, code.length - offset);
      return { address, sizeBytes, mnemonic: 'unknown', operands: UNKNOWN, flow: { kind: 'next' } };
    }
    const word =
      (code[offset]! | (code[offset + 1]! << 8) | (code[offset + 2]! << 16) | (code[offset + 3]! << 24)) >>> 0;
    const decoded = arm64Table.decode(word);
    if (!decoded) return { address, sizeBytes: 4, mnemonic: 'unknown', operands: UNKNOWN, flow: { kind: 'next' } };
    const { row: each, operands } = decoded;
    return { address, sizeBytes: 4, mnemonic: each.mnemonic, operands, flow: flowOf(each, operands, address) };
  },
  format(instruction: Instruction): string {
    if (!arm64Table.has(instruction.mnemonic)) return instruction.mnemonic;
    return formatArm64(arm64Table.row(instruction.mnemonic), instruction.operands, instruction.address);
  },
};

// ---------------------------------------------------------------------------------------- encoders

/** The words that sites are made of (A-ENC-1). */
export const NOP = arm64Table.encode('nop', {});
/** orr x9, xzr, x30: keeps the caller's return address while bl overwrites x30. */
export const MOV_X9_X30 = arm64Table.encode('orr-reg', { sf: 1, shift: 0, rm: 30, amount: 0, rn: 31, rd: 9 });
/** bl with a zero displacement: what a CALL26 relocation completes. */
export const BL_ZERO = arm64Table.encode('bl', { off: 0 });

/** Displacements of b and bl. */
export const BRANCH_REACH: Reach = arm64Table.reach('bl');
/** Pages that adrp reaches, as bytes from its own page. */
export const PAGE_REACH: Reach = { min: -0x1_0000_0000n, max: 0xffff_f000n, alignBytes: 4096 };

/** True for `bti`, any of the four forms. */
export function isBti(word: number): boolean {
  return (word & ~0xc0) >>> 0 === 0xd503_241f;
}

/** True for the landing pads of calls: `bti c` and `bti jc`. */
export function isBtiC(word: number): boolean {
  return (word & ~0x80) >>> 0 === 0xd503_245f;
}

/** True for `bl`. */
export function isBl(word: number): boolean {
  return word >>> 26 === 0b100101;
}

/** Where a b or bl at `place` leads. */
export function branchTarget(word: number, place: Address): Address {
  return BigInt.asUintN(64, place + BigInt(((word << 6) >> 6) * 4));
}

function branchWord(mnemonic: 'b' | 'bl', place: Address, target: Address): number {
  if (!reaches(BRANCH_REACH, place, target)) {
    throw outOfRange(
      'branch-out-of-range',
      `${mnemonic} at ${hex(place)} to ${hex(target)}: displacement`,
      target - place,
      BRANCH_REACH.min,
      BRANCH_REACH.max,
      { address: place },
    );
  }
  return arm64Table.encode(mnemonic, { off: Number(target - place) });
}

/** `bl target` at `place`. Throws 'branch-out-of-range' beyond +-128 MiB. */
export function encodeBl(place: Address, target: Address): number {
  return branchWord('bl', place, target);
}

/** `b target` at `place`. Throws 'branch-out-of-range' beyond +-128 MiB. */
export function encodeB(place: Address, target: Address): number {
  return branchWord('b', place, target);
}

/** What `adrp xN, page; add xN, xN, #low` computes: how code names a place of its own file. */
export function pairedAddress(code: Uint8Array, at: number, place: Address): Address | null {
  const adrp = arm64Isa.decode(code, at, place);
  if (adrp.mnemonic !== 'adrp' || at + 8 > code.length) return null;
  const { mnemonic, operands } = arm64Isa.decode(code, at + 4, place + 4n);
  const isSame = operands['rdsp'] === operands['rnsp'] && operands['rnsp'] === adrp.operands['xd'];
  if (mnemonic !== 'add-imm' || !isSame || operands['sh'] !== 0) return null;
  return (place & ~0xfffn) + BigInt(adrp.operands['pages']!) + BigInt(operands['imm12']!);
}

/**
 * `adrp register, target` at `place`: the page of `target`. Throws 'branch-out-of-range' beyond +-4
 * GiB of pages.
 */
export function encodeAdrp(place: Address, target: Address, register: number): number {
  const from = place & ~0xfffn;
  const to = target & ~0xfffn;
  if (!reaches(PAGE_REACH, from, to)) {
    throw outOfRange(
      'branch-out-of-range',
      `adrp at ${hex(place)} to ${hex(target)}: pages`,
      to - from,
      PAGE_REACH.min,
      PAGE_REACH.max,
      { address: place },
    );
  }
  return arm64Table.encode('adrp', { pages: Number((to - from) / 4096n), xd: register });
}
