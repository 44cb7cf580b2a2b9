/**
 * The instruction rows of 32-bit and 64-bit PowerPC, and the decoder over them. Owns bit patterns,
 * operand text and control flow; knows no ABI, no relocation and no patch site.
 *
 * What a patcher needs to know of this ISA:
 *
 * - Every instruction is a 32-bit word on a 4-byte boundary, stored in the image's byte order
 *   (ELFv2 images are usually little-endian, everything else here is big-endian). The exception
 *   came with POWER10: a *prefixed* instruction is two words, the first with primary opcode 1; it
 *   must not straddle a 64-byte boundary. A single word can be replaced atomically.
 * - The primary opcode is the most significant six bits. Opcodes 19, 31, 59, 60, 63 and 4 have
 *   extended opcodes near the low end of the word. Manuals number bits from the left; the patterns
 *   below follow their order, so nothing is converted.
 * - `bl` (I-form, primary opcode 18) reaches -0x2000000 … +0x1fffffc from its own address; bit 30
 *   (AA) makes the displacement absolute, bit 31 (LK) writes LR := address + 4. `bc` reaches
 *   -0x8000 … +0x7ffc.
 * - There is one link register and one count register. A far call goes through CTR (`mtctr; bctr`),
 *   so CTR, r11, r12 and r0 are what linker stubs and tracer entries may change at a function
 *   entry. r0 as a base register in an address means the number 0 (the field is `ra0` here).
 * - `bcl 20,31,.+4` reads the program counter; processors know it and do not push it on their
 *   return stack, so its flow here is `next`.
 * - `nop` is `ori 0,0,0` = 0x60000000. `or rN,rN,rN` and `ori rN,rN,0` may be priority or barrier
 *   hints, all of them no-operations to a program.
 * - BO, the condition of `bc`, `bclr`, `bcctr`, has hint bits: `at` (POWER4 and later) or the old
 *   `y` bit. Compilers and glibc leave either; they never change what the instruction does. The
 *   rows accept every BO.
 */
import { signExtend32 } from '../bits.js';
import { ByteView } from '../bytes.js';
import { hex } from '../errors.js';
import type { Flow, Instruction, Isa } from '../isa/instruction.js';
import { IsaTable, row } from '../isa/table.js';
import type { Alias, Decoded, FieldSpec, Operands, RowAttributes, RowSpec } from '../isa/table.js';
import type { Endian } from '../units.js';
import { rowsDecimal } from './isa-decimal.js';
import { rowsPower9 } from './isa-power9.js';

// ------------------------------------------------------------------------------------------ fields

const CONDITION = ['lt', 'gt', 'eq', 'so'] as const;

function crBit(value: number): string {
  const bit = CONDITION[value & 3]!;
  return value < 4 ? bit : `4*cr${value >> 2}+${bit}`;
}

const register: FieldSpec = { kind: 'register', width: 5, prefix: 'r' };
/** A base register: 0 means the number zero. */
const registerOrZero: FieldSpec = { kind: 'register', width: 5, format: (value) => (value === 0 ? '0' : `r${value}`) };
const floating: FieldSpec = { kind: 'register', width: 5, prefix: 'f' };
/** The first of two registers, by half its number. */
const floatingPair: FieldSpec = { kind: 'register', width: 4, format: (value) => `f${2 * value}` };
const vector: FieldSpec = { kind: 'register', width: 5, prefix: 'v' };
const scalarVector: FieldSpec = { kind: 'register', width: 6, prefix: 'vs' };
const conditionBit: FieldSpec = { kind: 'register', width: 5, format: crBit };
const conditionField: FieldSpec = { kind: 'register', width: 3, prefix: 'cr' };
const signed: FieldSpec = { kind: 'signed', width: 16 };

function unsigned(width: number): FieldSpec {
  return { kind: 'unsigned', width };
}

/** Fields common to both address sizes; the manuals' names in lower case. */
const FIELDS: Readonly<Record<string, FieldSpec>> = {
  rt: register,
  rs: register,
  ra: register,
  ra0: registerOrZero,
  rb: register,
  rb0: registerOrZero,
  rc5: register,
  frt: floating,
  frs: floating,
  fra: floating,
  frb: floating,
  frc: floating,
  frtp: floatingPair,
  frap: floatingPair,
  frbp: floatingPair,
  vrt: vector,
  vrs: vector,
  vra: vector,
  vrb: vector,
  vrc: vector,
  xt: scalarVector,
  xs: scalarVector,
  xa: scalarVector,
  xb: scalarVector,
  xc: scalarVector,
  bt: conditionBit,
  ba: conditionBit,
  bb: conditionBit,
  bi: conditionBit,
  bc: conditionBit,
  bf: conditionField,
  bfa: conditionField,
  bfn: unsigned(3),
  si: signed,
  ui: unsigned(16),
  d: signed,
  ds: signed,
  dq: signed,
  dx: signed,
  sim: { kind: 'signed', width: 5 },
  uim2: unsigned(2),
  uim3: unsigned(3),
  uim4: unsigned(4),
  uim5: unsigned(5),
  li: { kind: 'displacement' },
  bd: { kind: 'displacement' },
  la: { kind: 'signed', format: (value) => hex(BigInt.asUintN(64, BigInt(value))) },
  bda: { kind: 'signed', format: (value) => hex(BigInt.asUintN(64, BigInt(value))) },
  bo: unsigned(5),
  bh: unsigned(2),
  sh: unsigned(5),
  mb: unsigned(5),
  me: unsigned(5),
  sh6: unsigned(6),
  mb6: unsigned(6),
  me6: unsigned(6),
  spr: unsigned(10),
  fxm: unsigned(8),
  l: unsigned(1),
  l2: unsigned(2),
  l3: unsigned(3),
  drm: unsigned(3),
  dcmx: unsigned(7),
  dcm: unsigned(6),
  rm: unsigned(2),
  sc2: unsigned(2),
  wc: unsigned(2),
  to: unsigned(5),
  /** Byte count of string moves: 0 means 32. */
  nb: { kind: 'unsigned', width: 5, format: (value) => String(value === 0 ? 32 : value) },
  ct: unsigned(5),
  mo: unsigned(5),
  lev: unsigned(7),
  eh: unsigned(1),
  e: unsigned(1),
  sr: unsigned(4),
  ric: unsigned(2),
  prs: unsigned(1),
  r: unsigned(1),
  a: unsigned(1),
  ih: unsigned(3),
  t3: unsigned(3),
  flm: unsigned(8),
  w: unsigned(1),
  u: unsigned(4),
  bhrbe: unsigned(10),
  dcr: unsigned(10),
  dm: unsigned(2),
  shw: unsigned(2),
  shb: unsigned(4),
  st: unsigned(1),
  ps: unsigned(1),
  six: unsigned(4),
  /** Negative offset of hash instructions, doublewords from -512 on. */
  hash: { kind: 'unsigned', width: 6, format: (value) => String(8 * value - 512) },
  fc: unsigned(5),
  oe: { kind: 'suffix', suffix: 'o' },
  rc: { kind: 'suffix', suffix: '.' },
  ro: { kind: 'suffix', suffix: 'o' },
  imm8: unsigned(8),
};

// ------------------------------------------------------------------------------- patterns of forms

/** `value` as `width` binary digits. */
function binary(value: number, width: number): string {
  return value.toString(2).padStart(width, '0');
}

/** D-form: primary opcode, two registers, 16 bits. */
function dForm<const M extends string>(
  mnemonic: M,
  opcode: number,
  fields: string,
  syntax: string,
  attributes: RowAttributes = {},
): RowSpec<M> {
  return row(mnemonic, `${binary(opcode, 6)} ${fields}`, syntax, attributes);
}

/**
 * X-form under primary opcode 31: `fields` are the 15 bits before the extended opcode, `last` the
 * bit behind it.
 */
function xForm<const M extends string>(
  mnemonic: M,
  extended: number,
  fields: string,
  syntax: string,
  last = '0',
  attributes: RowAttributes = {},
): RowSpec<M> {
  return row(mnemonic, `011111 ${fields} ${binary(extended, 10)} ${last}`, syntax, attributes);
}

/** XO-form arithmetic with OE and Rc. */
function arithmetic<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return row(mnemonic, `011111 rt ra rb oe ${binary(extended, 9)} rc`, 'rt,ra,rb');
}

/** XO-form with one source and OE, Rc. */
function arithmetic1<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return row(mnemonic, `011111 rt ra 00000 oe ${binary(extended, 9)} rc`, 'rt,ra');
}

/** X-form logical: ra := rs op rb. */
function logical<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return xForm(mnemonic, extended, 'rs ra rb', 'ra,rs,rb', 'rc');
}

function logical1<const M extends string>(mnemonic: M, extended: number, last = 'rc'): RowSpec<M> {
  return xForm(mnemonic, extended, 'rs ra 00000', 'ra,rs', last);
}

/**
 * Update loads must not name r0 or their own target as base; the manuals call these forms invalid
 * (floating point loads: r0 only).
 */
const loadUpdate: RowAttributes = { not: { ra: [0] }, when: (operands) => operands['ra'] !== operands['rt'] };
const storeUpdate: RowAttributes = { not: { ra: [0] } };

/** `mfocrf` and `mtocrf` are defined for exactly one field only. */
const oneField: RowAttributes = { when: ({ fxm }) => fxm !== 0 && (fxm! & (fxm! - 1)) === 0 };

/**
 * Invalid when the base is among the loaded registers, which wrap from r31 to r0; a count of 0
 * means 32.
 */
function lswiKeepsBase({ rt, ra0, nb }: Operands): boolean {
  const registers = Math.ceil((nb === 0 ? 32 : nb!) / 4);
  return (ra0! - rt! + 32) % 32 >= registers;
}

function load<const M extends string>(mnemonic: M, opcode: number): RowSpec<M> {
  return dForm(mnemonic, opcode, 'rt ra0 d', 'rt,d(ra0)');
}
function loadU<const M extends string>(mnemonic: M, opcode: number): RowSpec<M> {
  return dForm(mnemonic, opcode, 'rt ra d', 'rt,d(ra)', loadUpdate);
}
function store<const M extends string>(mnemonic: M, opcode: number): RowSpec<M> {
  return dForm(mnemonic, opcode, 'rs ra0 d', 'rs,d(ra0)');
}
function storeU<const M extends string>(mnemonic: M, opcode: number): RowSpec<M> {
  return dForm(mnemonic, opcode, 'rs ra d', 'rs,d(ra)', storeUpdate);
}
function loadX<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return xForm(mnemonic, extended, 'rt ra0 rb', 'rt,ra0,rb');
}
function loadUX<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return xForm(mnemonic, extended, 'rt ra rb', 'rt,ra,rb', '0', loadUpdate);
}
function storeX<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return xForm(mnemonic, extended, 'rs ra0 rb', 'rs,ra0,rb');
}
function storeUX<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return xForm(mnemonic, extended, 'rs ra rb', 'rs,ra,rb', '0', storeUpdate);
}
function loadReserve<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return xForm(mnemonic, extended, 'rt ra0 rb', 'rt,ra0,rb,eh', 'eh');
}
function storeConditional<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return xForm(mnemonic, extended, 'rs ra0 rb', 'rs,ra0,rb', '1');
}
function crLogical<const M extends string>(mnemonic: M, extended: number): RowSpec<M> {
  return row(mnemonic, `010011 bt ba bb ${binary(extended, 10)} 0`, 'bt,ba,bb');
}

// --------------------------------------------------------------------- executable rows, both sizes

/**
 * What programs of either size execute: the emulator has semantics for each. 64-bit only rows are
 * in `rows64`.
 */
const rowsCommon = [
  // branches (ISA 2.4)
  row('b', '010010 li[25:2] 0 0', 'li', { flow: 'jump' }),
  row('bl', '010010 li[25:2] 0 1', 'li', { flow: 'call' }),
  row('ba', '010010 la[25:2] 1 0', 'la', { flow: 'jump' }),
  row('bla', '010010 la[25:2] 1 1', 'la', { flow: 'call' }),
  row('bc', '010000 bo bi bd[15:2] 0 0', 'bo,bi,bd', { flow: 'branch' }),
  row('bcl', '010000 bo bi bd[15:2] 0 1', 'bo,bi,bd', { flow: 'call' }),
  row('bca', '010000 bo bi bda[15:2] 1 0', 'bo,bi,bda', { flow: 'branch' }),
  row('bcla', '010000 bo bi bda[15:2] 1 1', 'bo,bi,bda', { flow: 'call' }),
  row('bclr', '010011 bo bi 000 bh 0000010000 0', 'bo,bi,bh', { flow: 'return' }),
  row('bclrl', '010011 bo bi 000 bh 0000010000 1', 'bo,bi,bh', { flow: 'indirect-call' }),
  row('bcctr', '010011 bo bi 000 bh 1000010000 0', 'bo,bi,bh', { flow: 'indirect-jump' }),
  row('bcctrl', '010011 bo bi 000 bh 1000010000 1', 'bo,bi,bh', { flow: 'indirect-call' }),
  row('sc', '010001 00000 00000 0000 lev 000 1 0', 'lev', { flow: 'syscall' }),
  // condition register (2.5)
  row('mcrf', '010011 bf 00 bfa 00 00000 0000000000 0', 'bf,bfa'),
  crLogical('crand', 257),
  crLogical('crandc', 129),
  crLogical('creqv', 289),
  crLogical('crnand', 225),
  crLogical('crnor', 33),
  crLogical('cror', 449),
  crLogical('crorc', 417),
  crLogical('crxor', 193),
  row('mfcr', '011111 rt 0 00000000 0 0000010011 0', 'rt'),
  row('mfocrf', '011111 rt 1 fxm 0 0000010011 0', 'rt,fxm', oneField),
  row('mtcrf', '011111 rs 0 fxm 0 0010010000 0', 'fxm,rs'),
  row('mtocrf', '011111 rs 1 fxm 0 0010010000 0', 'fxm,rs', oneField),
  row('mcrxr', '011111 bf 00 00000 00000 1000000000 0', 'bf'),
  // integer arithmetic (3.3.9)
  dForm('addi', 14, 'rt ra0 si', 'rt,ra0,si'),
  dForm('addis', 15, 'rt ra0 si', 'rt,ra0,si'),
  dForm('addic', 12, 'rt ra si', 'rt,ra,si'),
  dForm('addic.', 13, 'rt ra si', 'rt,ra,si'),
  dForm('subfic', 8, 'rt ra si', 'rt,ra,si'),
  dForm('mulli', 7, 'rt ra si', 'rt,ra,si'),
  arithmetic('add', 266),
  arithmetic('addc', 10),
  arithmetic('adde', 138),
  arithmetic1('addme', 234),
  arithmetic1('addze', 202),
  arithmetic('subf', 40),
  arithmetic('subfc', 8),
  arithmetic('subfe', 136),
  arithmetic1('subfme', 232),
  arithmetic1('subfze', 200),
  arithmetic1('neg', 104),
  arithmetic('mullw', 235),
  row('mulhw', '011111 rt ra rb 0 001001011 rc', 'rt,ra,rb'),
  row('mulhwu', '011111 rt ra rb 0 000001011 rc', 'rt,ra,rb'),
  arithmetic('divw', 491),
  arithmetic('divwu', 459),
  arithmetic('divwe', 427),
  arithmetic('divweu', 395),
  xForm('modsw', 779, 'rt ra rb', 'rt,ra,rb'),
  xForm('moduw', 267, 'rt ra rb', 'rt,ra,rb'),
  // compare, trap, select (3.3.10 to 3.3.12)
  dForm('cmpi', 11, 'bf 0 l ra si', 'bf,l,ra,si'),
  dForm('cmpli', 10, 'bf 0 l ra ui', 'bf,l,ra,ui'),
  xForm('cmp', 0, 'bf 0 l ra rb', 'bf,l,ra,rb'),
  xForm('cmpl', 32, 'bf 0 l ra rb', 'bf,l,ra,rb'),
  dForm('twi', 3, 'to ra si', 'to,ra,si', { flow: 'trap' }),
  xForm('tw', 4, 'to ra rb', 'to,ra,rb', '0', { flow: 'trap' }),
  row('isel', '011111 rt ra0 rb bc 01111 0', 'rt,ra0,rb,bc'),
  // logical (3.3.13)
  dForm('andi.', 28, 'rs ra ui', 'ra,rs,ui'),
  dForm('andis.', 29, 'rs ra ui', 'ra,rs,ui'),
  dForm('ori', 24, 'rs ra ui', 'ra,rs,ui'),
  dForm('oris', 25, 'rs ra ui', 'ra,rs,ui'),
  dForm('xori', 26, 'rs ra ui', 'ra,rs,ui'),
  dForm('xoris', 27, 'rs ra ui', 'ra,rs,ui'),
  logical('and', 28),
  logical('andc', 60),
  logical('eqv', 284),
  logical('nand', 476),
  logical('nor', 124),
  logical('or', 444),
  logical('orc', 412),
  logical('xor', 316),
  logical1('extsb', 954),
  logical1('extsh', 922),
  logical1('cntlzw', 26),
  logical1('cnttzw', 538),
  logical1('popcntb', 122, '0'),
  logical1('popcntw', 378, '0'),
  logical1('prtyw', 154, '0'),
  xForm('cmpb', 508, 'rs ra rb', 'ra,rs,rb'),
  // rotate and shift (3.3.14)
  row('rlwinm', '010101 rs ra sh mb me rc', 'ra,rs,sh,mb,me'),
  row('rlwnm', '010111 rs ra rb mb me rc', 'ra,rs,rb,mb,me'),
  row('rlwimi', '010100 rs ra sh mb me rc', 'ra,rs,sh,mb,me'),
  logical('slw', 24),
  logical('srw', 536),
  logical('sraw', 792),
  xForm('srawi', 824, 'rs ra sh', 'ra,rs,sh', 'rc'),
  // special registers (3.3.17)
  row('mfspr', '011111 rt spr[4:0|9:5] 0101010011 0', 'rt,spr'),
  row('mtspr', '011111 rs spr[4:0|9:5] 0111010011 0', 'spr,rs'),
  row('mftb', '011111 rt spr[4:0|9:5] 0101110011 0', 'rt,spr', {
    when: ({ spr }) => spr === 268 || spr === 269,
  }),
  // loads and stores (3.3.2 to 3.3.8)
  load('lbz', 34),
  loadU('lbzu', 35),
  load('lhz', 40),
  loadU('lhzu', 41),
  load('lha', 42),
  loadU('lhau', 43),
  load('lwz', 32),
  loadU('lwzu', 33),
  loadX('lbzx', 87),
  loadUX('lbzux', 119),
  loadX('lhzx', 279),
  loadUX('lhzux', 311),
  loadX('lhax', 343),
  loadUX('lhaux', 375),
  loadX('lwzx', 23),
  loadUX('lwzux', 55),
  store('stb', 38),
  storeU('stbu', 39),
  store('sth', 44),
  storeU('sthu', 45),
  store('stw', 36),
  storeU('stwu', 37),
  storeX('stbx', 215),
  storeUX('stbux', 247),
  storeX('sthx', 407),
  storeUX('sthux', 439),
  storeX('stwx', 151),
  storeUX('stwux', 183),
  loadX('lhbrx', 790),
  loadX('lwbrx', 534),
  storeX('sthbrx', 918),
  storeX('stwbrx', 662),
  // The base must not be among the loaded registers.
  dForm('lmw', 46, 'rt ra0 d', 'rt,d(ra0)', { when: ({ rt, ra0 }) => ra0! < rt! }),
  dForm('stmw', 47, 'rs ra0 d', 'rs,d(ra0)'),
  xForm('lswi', 597, 'rt ra0 nb', 'rt,ra0,nb', '0', { when: lswiKeepsBase }),
  xForm('stswi', 725, 'rs ra0 nb', 'rs,ra0,nb'),
  xForm('lswx', 533, 'rt ra0 rb', 'rt,ra0,rb', '0', { when: ({ rt, ra0 }) => rt !== ra0 }),
  storeX('stswx', 661),
  // loads and stores of floating point registers (4.6.2, 4.6.3)
  dForm('lfs', 48, 'frt ra0 d', 'frt,d(ra0)'),
  dForm('lfsu', 49, 'frt ra d', 'frt,d(ra)', storeUpdate),
  dForm('lfd', 50, 'frt ra0 d', 'frt,d(ra0)'),
  dForm('lfdu', 51, 'frt ra d', 'frt,d(ra)', storeUpdate),
  dForm('stfs', 52, 'frs ra0 d', 'frs,d(ra0)'),
  dForm('stfsu', 53, 'frs ra d', 'frs,d(ra)', storeUpdate),
  dForm('stfd', 54, 'frs ra0 d', 'frs,d(ra0)'),
  dForm('stfdu', 55, 'frs ra d', 'frs,d(ra)', storeUpdate),
  xForm('lfsx', 535, 'frt ra0 rb', 'frt,ra0,rb'),
  xForm('lfsux', 567, 'frt ra rb', 'frt,ra,rb', '0', storeUpdate),
  xForm('lfdx', 599, 'frt ra0 rb', 'frt,ra0,rb'),
  xForm('lfdux', 631, 'frt ra rb', 'frt,ra,rb', '0', storeUpdate),
  xForm('stfsx', 663, 'frs ra0 rb', 'frs,ra0,rb'),
  xForm('stfsux', 695, 'frs ra rb', 'frs,ra,rb', '0', storeUpdate),
  xForm('stfdx', 727, 'frs ra0 rb', 'frs,ra0,rb'),
  xForm('stfdux', 759, 'frs ra rb', 'frs,ra,rb', '0', storeUpdate),
  xForm('lfiwax', 855, 'frt ra0 rb', 'frt,ra0,rb'),
  xForm('lfiwzx', 887, 'frt ra0 rb', 'frt,ra0,rb'),
  xForm('stfiwx', 983, 'frs ra0 rb', 'frs,ra0,rb'),
  // atomic (book II 4.6)
  loadReserve('lbarx', 52),
  loadReserve('lharx', 116),
  loadReserve('lwarx', 20),
  storeConditional('stbcx.', 694),
  storeConditional('sthcx.', 726),
  storeConditional('stwcx.', 150),
  // synchronisation and caches (book II 4)
  row('sync', '011111 00 l3 000 sc2 00000 1001010110 0', 'l3,sc2', { not: { l3: [3, 6, 7], sc2: [1, 2, 3] } }),
  row('isync', '010011 00000 00000 00000 0010010110 0', ''),
  row('eieio', '011111 00000 00000 00000 1101010110 0', ''),
  xForm('dcbz', 1014, '00000 ra0 rb', 'ra0,rb'),
  xForm('dcbzl', 1014, '00001 ra0 rb', 'ra0,rb'),
  xForm('dcbst', 54, '00000 ra0 rb', 'ra0,rb'),
  xForm('dcbf', 86, '00 l3 ra0 rb', 'ra0,rb,l3', '0', { not: { l3: [2, 5, 7] } }),
  xForm('dcbt', 278, 'ct ra0 rb', 'ra0,rb,ct'),
  xForm('dcbtst', 246, 'ct ra0 rb', 'ra0,rb,ct'),
  xForm('icbi', 982, '00000 ra0 rb', 'ra0,rb'),
] as const;

/** Executable rows that 32-bit processors do not have. */
const rows64 = [
  dForm('tdi', 2, 'to ra si', 'to,ra,si', { flow: 'trap' }),
  xForm('td', 68, 'to ra rb', 'to,ra,rb', '0', { flow: 'trap' }),
  row('bctar', '010011 bo bi 000 bh 1000110000 0', 'bo,bi,bh', { flow: 'indirect-jump' }),
  row('bctarl', '010011 bo bi 000 bh 1000110000 1', 'bo,bi,bh', { flow: 'indirect-call' }),
  row('addpcis', '010011 rt dx[5:1] dx[15:6] 00010 dx[0]', 'rt,dx'),
  arithmetic('mulld', 233),
  row('mulhd', '011111 rt ra rb 0 001001001 rc', 'rt,ra,rb'),
  row('mulhdu', '011111 rt ra rb 0 000001001 rc', 'rt,ra,rb'),
  arithmetic('divd', 489),
  arithmetic('divdu', 457),
  arithmetic('divde', 425),
  arithmetic('divdeu', 393),
  xForm('modsd', 777, 'rt ra rb', 'rt,ra,rb'),
  xForm('modud', 265, 'rt ra rb', 'rt,ra,rb'),
  row('maddhd', '000100 rt ra rb rc5 110000', 'rt,ra,rb,rc5'),
  row('maddhdu', '000100 rt ra rb rc5 110001', 'rt,ra,rb,rc5'),
  row('maddld', '000100 rt ra rb rc5 110011', 'rt,ra,rb,rc5'),
  row('addex', '011111 rt ra rb l2 10101010 0', 'rt,ra,rb,l2'),
  xForm('addg6s', 74, 'rt ra rb', 'rt,ra,rb'),
  logical1('cbcdtd', 314, '0'),
  logical1('cdtbcd', 282, '0'),
  row('cmprb', '011111 bf 0 l ra rb 0011000000 0', 'bf,l,ra,rb'),
  row('cmpeqb', '011111 bf 00 ra rb 0011100000 0', 'bf,ra,rb'),
  row('setb', '011111 rt bfa 00 00000 0010000000 0', 'rt,bfa'),
  row('mcrxrx', '011111 bf 00 00000 00000 1001000000 0', 'bf'),
  // POWER10
  row('setbc', '011111 rt bi 00000 0110000000 0', 'rt,bi'),
  row('setbcr', '011111 rt bi 00000 0110100000 0', 'rt,bi'),
  row('setnbc', '011111 rt bi 00000 0111000000 0', 'rt,bi'),
  row('setnbcr', '011111 rt bi 00000 0111100000 0', 'rt,bi'),
  logical1('brh', 219, '0'),
  logical1('brw', 155, '0'),
  logical1('brd', 187, '0'),
  xForm('cfuged', 220, 'rs ra rb', 'ra,rs,rb'),
  xForm('pdepd', 156, 'rs ra rb', 'ra,rs,rb'),
  xForm('pextd', 188, 'rs ra rb', 'ra,rs,rb'),
  xForm('cntlzdm', 59, 'rs ra rb', 'ra,rs,rb'),
  xForm('cnttzdm', 571, 'rs ra rb', 'ra,rs,rb'),
  logical1('extsw', 986),
  logical1('cntlzd', 58),
  logical1('cnttzd', 570),
  logical1('popcntd', 506, '0'),
  logical1('prtyd', 186, '0'),
  xForm('bpermd', 252, 'rs ra rb', 'ra,rs,rb'),
  logical('sld', 27),
  logical('srd', 539),
  logical('srad', 794),
  row('sradi', '011111 rs ra sh6[4:0] 110011101 sh6[5] rc', 'ra,rs,sh6'),
  row('extswsli', '011111 rs ra sh6[4:0] 110111101 sh6[5] rc', 'ra,rs,sh6'),
  row('rldicl', '011110 rs ra sh6[4:0] mb6[4:0|5] 000 sh6[5] rc', 'ra,rs,sh6,mb6'),
  row('rldicr', '011110 rs ra sh6[4:0] me6[4:0|5] 001 sh6[5] rc', 'ra,rs,sh6,me6'),
  row('rldic', '011110 rs ra sh6[4:0] mb6[4:0|5] 010 sh6[5] rc', 'ra,rs,sh6,mb6'),
  row('rldimi', '011110 rs ra sh6[4:0] mb6[4:0|5] 011 sh6[5] rc', 'ra,rs,sh6,mb6'),
  row('rldcl', '011110 rs ra rb mb6[4:0|5] 1000 rc', 'ra,rs,rb,mb6'),
  row('rldcr', '011110 rs ra rb me6[4:0|5] 1001 rc', 'ra,rs,rb,me6'),
  row('ld', '111010 rt ra0 ds[15:2] 00', 'rt,ds(ra0)'),
  row('ldu', '111010 rt ra ds[15:2] 01', 'rt,ds(ra)', loadUpdate),
  row('lwa', '111010 rt ra0 ds[15:2] 10', 'rt,ds(ra0)'),
  row('std', '111110 rs ra0 ds[15:2] 00', 'rs,ds(ra0)'),
  row('stdu', '111110 rs ra ds[15:2] 01', 'rs,ds(ra)', storeUpdate),
  row('lq', '111000 rt ra0 dq[15:4] 0000', 'rt,dq(ra0)', {
    when: ({ rt, ra0 }) => rt! % 2 === 0 && rt !== ra0,
  }),
  row('stq', '111110 rs ra0 ds[15:2] 10', 'rs,ds(ra0)', { when: ({ rs }) => rs! % 2 === 0 }),
  loadX('ldx', 21),
  loadUX('ldux', 53),
  loadX('lwax', 341),
  loadUX('lwaux', 373),
  storeX('stdx', 149),
  storeUX('stdux', 181),
  loadX('ldbrx', 532),
  storeX('stdbrx', 660),
  loadReserve('ldarx', 84),
  xForm('lqarx', 276, 'rt ra0 rb', 'rt,ra0,rb,eh', 'eh', {
    when: ({ rt, ra0, rb }) => rt! % 2 === 0 && rt !== ra0 && rt !== rb,
  }),
  storeConditional('stdcx.', 214),
  xForm('stqcx.', 182, 'rs ra0 rb', 'rs,ra0,rb', '1', { when: ({ rs }) => rs! % 2 === 0 }),
  xForm('darn', 755, 'rt 000 l2 00000', 'rt,l2'),
] as const;

/** Mnemonics that the emulator must have semantics for: `satisfies Record<PpcMnemonic, …>`. */
export type PpcMnemonic = (typeof rowsCommon)[number]['mnemonic'] | (typeof rows64)[number]['mnemonic'];

// -------------------------------------------------------------------------------- decode-only rows

const only: RowAttributes = { decodeOnly: true };

/** X-form under 31 for supervisors: named, never executed in a program. */
function system(
  mnemonic: string,
  extended: number,
  fields: string,
  syntax: string,
  last = '0',
  attributes: RowAttributes = {},
): RowSpec {
  return xForm(mnemonic, extended, fields, syntax, last, { ...only, ...attributes });
}

function system19(mnemonic: string, extended: number, attributes: RowAttributes = {}): RowSpec {
  return row(mnemonic, `010011 00000 00000 00000 ${binary(extended, 10)} 0`, '', { ...only, ...attributes });
}

/** Supervisor, transactional and embedded instructions of either size (book III-S and III-E). */
const rowsSystem: readonly RowSpec[] = [
  system19('rfi', 50, { flow: 'return' }),
  system19('rfci', 51, { flow: 'return' }),
  system19('rfdi', 39, { flow: 'return' }),
  system19('rfmci', 38, { flow: 'return' }),
  system('mfmsr', 83, 'rt 00000 00000', 'rt'),
  system('mtmsr', 146, 'rs 0000 l 00000', 'rs,l'),
  system('mfsr', 595, 'rt 0 sr 00000', 'rt,sr'),
  system('mfsrin', 659, 'rt 00000 rb', 'rt,rb'),
  system('mtsr', 210, 'rs 0 sr 00000', 'sr,rs'),
  system('mtsrin', 242, 'rs 00000 rb', 'rs,rb'),
  system('tlbie', 306, 'rs 0 ric prs r rb', 'rb,rs,ric,prs,r'),
  system('tlbiel', 274, 'rs 0 ric prs r rb', 'rb,rs,ric,prs,r'),
  system('tlbsync', 566, '00000 00000 00000', ''),
  system('tlbia', 370, '00000 00000 00000', ''),
  system('tlbre', 946, 'rt ra sh', 'rt,ra,sh'),
  system('tlbwe', 978, 'rs ra sh', 'rs,ra,sh'),
  system('tlbsx', 914, 'rt ra0 rb', 'rt,ra0,rb', 'rc'),
  system('tlbivax', 786, '00000 ra0 rb', 'ra0,rb'),
  system('tlbilx', 18, '000 l2 ra0 rb', 'l2,ra0,rb'),
  system('wrtee', 131, 'rs 00000 00000', 'rs'),
  system('wrteei', 163, '00000 00000 e 0000', 'e'),
  system('msgsnd', 206, '00000 00000 rb', 'rb'),
  system('msgclr', 238, '00000 00000 rb', 'rb'),
  system('msgsndp', 142, '00000 00000 rb', 'rb'),
  system('msgclrp', 174, '00000 00000 rb', 'rb'),
  system('msgsync', 886, '00000 00000 00000', ''),
  system('wait', 30, '000 wc 000 l2 00000', 'wc,l2', '0', { not: { l2: [1, 2, 3], wc: [3] } }),
  system('mfdcr', 323, 'rt dcr[4:0|9:5]', 'rt,dcr'),
  system('mtdcr', 451, 'rs dcr[4:0|9:5]', 'dcr,rs'),
  system('mfpmr', 334, 'rt dcr[4:0|9:5]', 'rt,dcr'),
  system('mtpmr', 462, 'rs dcr[4:0|9:5]', 'dcr,rs'),
  system('dcbi', 470, '00000 ra0 rb', 'ra0,rb'),
  system('dcba', 758, '00000 ra0 rb', 'ra0,rb'),
  system('icbt', 22, '0 six ra0 rb', 'six,ra0,rb'),
  system('dcbtls', 166, 'ct ra0 rb', 'ct,ra0,rb'),
  system('dcbtstls', 134, 'ct ra0 rb', 'ct,ra0,rb'),
  system('dcblc', 390, 'ct ra0 rb', 'ct,ra0,rb'),
  system('lwepx', 31, 'rt ra0 rb', 'rt,ra0,rb'),
  system('lbepx', 95, 'rt ra0 rb', 'rt,ra0,rb'),
  system('stwepx', 159, 'rs ra0 rb', 'rs,ra0,rb'),
  system('stbepx', 223, 'rs ra0 rb', 'rs,ra0,rb'),
];

/** The same for 64-bit processors. */
const rowsSystem64: readonly RowSpec[] = [
  system19('rfid', 18, { flow: 'return' }),
  system19('hrfid', 274, { flow: 'return' }),
  row('rfscv', '010011 00000 00000 00000 0001010010 0', '', { ...only, flow: 'return' }),
  row('scv', '010001 00000 00000 0000 lev 000 0 1', 'lev', { ...only, flow: 'syscall' }),
  system19('doze', 402),
  system19('nap', 434),
  system19('sleep', 466),
  system19('rvwinkle', 498),
  system19('stop', 370),
  row('rfebb', '010011 00000 00000 0000 e 0010010010 0', 'e', { ...only, flow: 'return' }),
  row('attn', '000000 00000 00000 00000 0100000000 0', '', { ...only, flow: 'trap' }),
  system('mtmsrd', 178, 'rs 0000 l 00000', 'rs,l'),
  system('slbie', 434, '00000 00000 rb', 'rb'),
  system('slbia', 498, '00 ih 00000 00000', 'ih'),
  system('slbmte', 402, 'rs 00000 rb', 'rs,rb'),
  system('slbmfee', 915, 'rt 0000 l rb', 'rt,rb,l'),
  system('slbmfev', 851, 'rt 0000 l rb', 'rt,rb,l'),
  system('slbfee.', 979, 'rt 00000 rb', 'rt,rb', '1'),
  system('slbsync', 338, '00000 00000 00000', ''),
  system('mfbhrbe', 302, 'rt bhrbe[9:0]', 'rt,bhrbe'),
  system('clrbhrb', 430, '00000 00000 00000', ''),
  system('tbegin.', 654, '0000 r 00000 00000', 'r', '1'),
  system('tend.', 686, 'a 0000 00000 00000', 'a', '1'),
  system('tabort.', 910, '00000 ra 00000', 'ra', '1'),
  system('treclaim.', 942, '00000 ra 00000', 'ra', '1'),
  system('trechkpt.', 1006, '00000 00000 00000', '', '1'),
  system('tsr.', 750, '0000 l 00000 00000', 'l', '1'),
  system('tabortwc.', 782, 'to ra rb', 'to,ra,rb', '1'),
  system('tabortdc.', 814, 'to ra rb', 'to,ra,rb', '1'),
  system('tabortwci.', 846, 'to ra sim', 'to,ra,sim', '1'),
  system('tabortdci.', 878, 'to ra sim', 'to,ra,sim', '1'),
  system('lwat', 582, 'rt ra0 fc', 'rt,ra0,fc'),
  system('ldat', 614, 'rt ra0 fc', 'rt,ra0,fc'),
  system('stwat', 710, 'rs ra0 fc', 'rs,ra0,fc'),
  system('stdat', 742, 'rs ra0 fc', 'rs,ra0,fc'),
  row('hashst', '011111 hash[4:0] ra0 rb 1011010010 hash[5]', 'rb,hash(ra0)', only),
  row('hashchk', '011111 hash[4:0] ra0 rb 1011110010 hash[5]', 'rb,hash(ra0)', only),
  row('hashstp', '011111 hash[4:0] ra0 rb 1010010010 hash[5]', 'rb,hash(ra0)', only),
  row('hashchkp', '011111 hash[4:0] ra0 rb 1010110010 hash[5]', 'rb,hash(ra0)', only),
  system('slbiag', 850, 'rs 0000 l 00000', 'rs,l'),
  system('slbieg', 466, 'rs 00000 rb', 'rs,rb'),
  system('tcheck', 718, 'bf 00 00000 00000', 'bf'),
  system('copy', 774, '0000 1 ra0 rb', 'ra0,rb'),
  system('paste.', 902, '0000 l ra0 rb', 'ra0,rb,l', '1'),
  system('cpabort', 838, '00000 00000 00000', ''),
  system('lbzcix', 853, 'rt ra0 rb', 'rt,ra0,rb'),
  system('lhzcix', 821, 'rt ra0 rb', 'rt,ra0,rb'),
  system('lwzcix', 789, 'rt ra0 rb', 'rt,ra0,rb'),
  system('ldcix', 885, 'rt ra0 rb', 'rt,ra0,rb'),
  system('stbcix', 981, 'rs ra0 rb', 'rs,ra0,rb'),
  system('sthcix', 949, 'rs ra0 rb', 'rs,ra0,rb'),
  system('stwcix', 917, 'rs ra0 rb', 'rs,ra0,rb'),
  system('stdcix', 1013, 'rs ra0 rb', 'rs,ra0,rb'),
];

/** A-form floating point under 59 (`s`, single) or 63. */
function floatA(mnemonic: string, opcode: 59 | 63, extended: number, fields: string, syntax: string): RowSpec {
  return row(mnemonic, `${binary(opcode, 6)} ${fields} ${binary(extended, 5)} rc`, syntax, only);
}

function floatX(
  mnemonic: string,
  opcode: 59 | 63,
  extended: number,
  fields: string,
  syntax: string,
  last = 'rc',
): RowSpec {
  return row(mnemonic, `${binary(opcode, 6)} ${fields} ${binary(extended, 10)} ${last}`, syntax, only);
}

function floatPair(name: string, extended: number, fields: string, syntax: string): readonly RowSpec[] {
  return [floatA(name, 63, extended, fields, syntax), floatA(`${name}s`, 59, extended, fields, syntax)];
}

const float1 = (name: string, extended: number): RowSpec => floatX(name, 63, extended, 'frt 00000 frb', 'frt,frb');

/** Classic floating point, of both sizes; its loads and stores are in `rowsCommon`. */
const rowsFloat: readonly RowSpec[] = [
  ...floatPair('fadd', 21, 'frt fra frb 00000', 'frt,fra,frb'),
  ...floatPair('fsub', 20, 'frt fra frb 00000', 'frt,fra,frb'),
  ...floatPair('fmul', 25, 'frt fra 00000 frc', 'frt,fra,frc'),
  ...floatPair('fdiv', 18, 'frt fra frb 00000', 'frt,fra,frb'),
  ...floatPair('fsqrt', 22, 'frt 00000 frb 00000', 'frt,frb'),
  floatA('fre', 63, 24, 'frt 00000 frb 00000', 'frt,frb'),
  floatA('fres', 59, 24, 'frt 00000 frb 00000', 'frt,frb'),
  ...floatPair('frsqrte', 26, 'frt 00000 frb 00000', 'frt,frb'),
  ...floatPair('fmadd', 29, 'frt fra frb frc', 'frt,fra,frc,frb'),
  ...floatPair('fmsub', 28, 'frt fra frb frc', 'frt,fra,frc,frb'),
  ...floatPair('fnmadd', 31, 'frt fra frb frc', 'frt,fra,frc,frb'),
  ...floatPair('fnmsub', 30, 'frt fra frb frc', 'frt,fra,frc,frb'),
  floatA('fsel', 63, 23, 'frt fra frb frc', 'frt,fra,frc,frb'),
  floatX('fcmpu', 63, 0, 'bf 00 fra frb', 'bf,fra,frb', '0'),
  floatX('fcmpo', 63, 32, 'bf 00 fra frb', 'bf,fra,frb', '0'),
  floatX('fcpsgn', 63, 8, 'frt fra frb', 'frt,fra,frb'),
  float1('fneg', 40),
  float1('fmr', 72),
  float1('fnabs', 136),
  float1('fabs', 264),
  float1('frsp', 12),
  float1('fctiw', 14),
  float1('fctiwz', 15),
  float1('fctiwu', 142),
  float1('fctiwuz', 143),
  float1('fctid', 814),
  float1('fctidz', 815),
  float1('fctidu', 942),
  float1('fctiduz', 943),
  float1('fcfid', 846),
  float1('fcfidu', 974),
  floatX('fcfids', 59, 846, 'frt 00000 frb', 'frt,frb'),
  floatX('fcfidus', 59, 974, 'frt 00000 frb', 'frt,frb'),
  float1('frin', 392),
  float1('friz', 424),
  float1('frip', 456),
  float1('frim', 488),
  floatX('ftdiv', 63, 128, 'bf 00 fra frb', 'bf,fra,frb', '0'),
  floatX('ftsqrt', 63, 160, 'bf 00 00000 frb', 'bf,frb', '0'),
  floatX('mffs', 63, 583, 'frt 00000 00000', 'frt'),
  floatX('mffsl', 63, 583, 'frt 11000 00000', 'frt', '0'),
  floatX('mffsce', 63, 583, 'frt 00001 00000', 'frt', '0'),
  floatX('mffscdrn', 63, 583, 'frt 10100 frb', 'frt,frb', '0'),
  floatX('mffscdrni', 63, 583, 'frt 10101 00 drm', 'frt,drm', '0'),
  floatX('mffscrn', 63, 583, 'frt 10110 frb', 'frt,frb', '0'),
  floatX('mffscrni', 63, 583, 'frt 10111 000 rm', 'frt,rm', '0'),
  row('mtfsf', '111111 l flm w frb 1011000111 rc', 'flm,frb,l,w', only),
  row('mtfsfi', '111111 bfn 00 0000 w u 0 0010000110 rc', 'bfn,u,w', only),
  floatX('mtfsb0', 63, 70, 'bo 00000 00000', 'bo'),
  floatX('mtfsb1', 63, 38, 'bo 00000 00000', 'bo'),
  floatX('mcrfs', 63, 64, 'bf 00 bfa 00 00000', 'bf,bfa', '0'),
  floatX('fmrgew', 63, 966, 'frt fra frb', 'frt,fra,frb', '0'),
  floatX('fmrgow', 63, 838, 'frt fra frb', 'frt,fra,frb', '0'),
];

/** Three-vector VX-form instructions: name, extended opcode (11 bits). */
const VECTOR3: readonly (readonly [string, number])[] = [
  ['vaddubm', 0],
  ['vadduhm', 64],
  ['vadduwm', 128],
  ['vaddudm', 192],
  ['vadduqm', 256],
  ['vaddcuw', 384],
  ['vaddubs', 512],
  ['vadduhs', 576],
  ['vadduws', 640],
  ['vaddsbs', 768],
  ['vaddshs', 832],
  ['vaddsws', 896],
  ['vsububm', 1024],
  ['vsubuhm', 1088],
  ['vsubuwm', 1152],
  ['vsubudm', 1216],
  ['vsubuqm', 1280],
  ['vsubcuw', 1408],
  ['vsububs', 1536],
  ['vsubuhs', 1600],
  ['vsubuws', 1664],
  ['vsubsbs', 1792],
  ['vsubshs', 1856],
  ['vsubsws', 1920],
  ['vmaxub', 2],
  ['vmaxuh', 66],
  ['vmaxuw', 130],
  ['vmaxud', 194],
  ['vmaxsb', 258],
  ['vmaxsh', 322],
  ['vmaxsw', 386],
  ['vmaxsd', 450],
  ['vminub', 514],
  ['vminuh', 578],
  ['vminuw', 642],
  ['vminud', 706],
  ['vminsb', 770],
  ['vminsh', 834],
  ['vminsw', 898],
  ['vminsd', 962],
  ['vavgub', 1026],
  ['vavguh', 1090],
  ['vavguw', 1154],
  ['vavgsb', 1282],
  ['vavgsh', 1346],
  ['vavgsw', 1410],
  ['vrlb', 4],
  ['vrlh', 68],
  ['vrlw', 132],
  ['vrld', 196],
  ['vslb', 260],
  ['vslh', 324],
  ['vslw', 388],
  ['vsld', 1476],
  ['vsl', 452],
  ['vsrb', 516],
  ['vsrh', 580],
  ['vsrw', 644],
  ['vsrd', 1732],
  ['vsr', 708],
  ['vsrab', 772],
  ['vsrah', 836],
  ['vsraw', 900],
  ['vsrad', 964],
  ['vslo', 1036],
  ['vsro', 1100],
  ['vand', 1028],
  ['vandc', 1092],
  ['vor', 1156],
  ['vorc', 1348],
  ['vxor', 1220],
  ['vnor', 1284],
  ['vnand', 1412],
  ['veqv', 1668],
  ['vmulouh', 72],
  ['vmuloub', 8],
  ['vmulouw', 136],
  ['vmuluwm', 137],
  ['vmulosb', 264],
  ['vmulosh', 328],
  ['vmulosw', 392],
  ['vmuleub', 520],
  ['vmuleuh', 584],
  ['vmuleuw', 648],
  ['vmulesb', 776],
  ['vmulesh', 840],
  ['vmulesw', 904],
  ['vpmsumb', 1032],
  ['vpmsumh', 1096],
  ['vpmsumw', 1160],
  ['vpmsumd', 1224],
  ['vcipher', 1288],
  ['vcipherlast', 1289],
  ['vncipher', 1352],
  ['vncipherlast', 1353],
  ['vbpermq', 1356],
  ['vmrghb', 12],
  ['vmrghh', 76],
  ['vmrghw', 140],
  ['vmrglb', 268],
  ['vmrglh', 332],
  ['vmrglw', 396],
  ['vmrgew', 1932],
  ['vmrgow', 1676],
  ['vpkuhum', 14],
  ['vpkuwum', 78],
  ['vpkudum', 1102],
  ['vpkuhus', 142],
  ['vpkuwus', 206],
  ['vpkshus', 270],
  ['vpkswus', 334],
  ['vpkshss', 398],
  ['vpkswss', 462],
  ['vpkpx', 782],
  ['vaddfp', 10],
  ['vsubfp', 74],
  ['vmaxfp', 1034],
  ['vminfp', 1098],
  ['vsum4ubs', 1544],
  ['vsum4sbs', 1800],
  ['vsum4shs', 1608],
  ['vsum2sws', 1672],
  ['vsumsws', 1928],
  ['vabsdub', 1027],
  ['vabsduh', 1091],
  ['vabsduw', 1155],
  ['vaddcuq', 320],
  ['vbpermd', 1484],
  ['vcfuged', 1357],
  ['vclzdm', 1924],
  ['vctzdm', 1988],
  ['vdivesd', 971],
  ['vdivesq', 779],
  ['vdivesw', 907],
  ['vdiveud', 715],
  ['vdiveuq', 523],
  ['vdiveuw', 651],
  ['vdivsd', 459],
  ['vdivsq', 267],
  ['vdivsw', 395],
  ['vdivud', 203],
  ['vdivuq', 11],
  ['vdivuw', 139],
  ['vmodsd', 1995],
  ['vmodsq', 1803],
  ['vmodsw', 1931],
  ['vmodud', 1739],
  ['vmoduq', 1547],
  ['vmoduw', 1675],
  ['vmul10ecuq', 65],
  ['vmul10euq', 577],
  ['vmulesd', 968],
  ['vmuleud', 712],
  ['vmulhsd', 969],
  ['vmulhsw', 905],
  ['vmulhud', 713],
  ['vmulhuw', 649],
  ['vmulld', 457],
  ['vmulosd', 456],
  ['vmuloud', 200],
  ['vpdepd', 1485],
  ['vpextd', 1421],
  ['vpksdss', 1486],
  ['vpksdus', 1358],
  ['vpkudus', 1230],
  ['vrlq', 5],
  ['vrlqmi', 69],
  ['vrlqnm', 325],
  ['vrlwmi', 133],
  ['vrlwnm', 389],
  ['vslq', 261],
  ['vslv', 1860],
  ['vsraq', 773],
  ['vsrq', 517],
  ['vsrv', 1796],
  ['vsubcuq', 1344],
];

/** VX-form with one vector source. */
const VECTOR1: readonly (readonly [string, number])[] = [
  ['vupkhsb', 526],
  ['vupkhsh', 590],
  ['vupkhsw', 1614],
  ['vupklsb', 654],
  ['vupklsh', 718],
  ['vupklsw', 1742],
  ['vupkhpx', 846],
  ['vupklpx', 974],
  ['vclzb', 1794],
  ['vclzh', 1858],
  ['vclzw', 1922],
  ['vclzd', 1986],
  ['vpopcntb', 1795],
  ['vpopcnth', 1859],
  ['vpopcntw', 1923],
  ['vpopcntd', 1987],
  ['vgbbd', 1292],
  ['vrefp', 266],
  ['vexptefp', 394],
  ['vlogefp', 458],
  ['vrsqrtefp', 330],
  ['vrfin', 522],
  ['vrfiz', 586],
  ['vrfip', 650],
  ['vrfim', 714],
];

/** VC-form compares (10 bits, with Rc in front). */
const VECTOR_COMPARE: readonly (readonly [string, number])[] = [
  ['vcmpequb', 6],
  ['vcmpequh', 70],
  ['vcmpequw', 134],
  ['vcmpequd', 199],
  ['vcmpgtub', 518],
  ['vcmpgtuh', 582],
  ['vcmpgtuw', 646],
  ['vcmpgtud', 711],
  ['vcmpgtsb', 774],
  ['vcmpgtsh', 838],
  ['vcmpgtsw', 902],
  ['vcmpgtsd', 967],
  ['vcmpeqfp', 198],
  ['vcmpgefp', 454],
  ['vcmpgtfp', 710],
  ['vcmpbfp', 966],
  ['vcmpneb', 7],
  ['vcmpneh', 71],
  ['vcmpnew', 135],
];

/** VA-form: four vectors. */
const VECTOR4: readonly (readonly [string, number])[] = [
  ['vperm', 43],
  ['vsel', 42],
  ['vmladduhm', 34],
  ['vmhaddshs', 32],
  ['vmhraddshs', 33],
  ['vmsumubm', 36],
  ['vmsummbm', 37],
  ['vmsumuhm', 38],
  ['vmsumuhs', 39],
  ['vmsumshm', 40],
  ['vmsumshs', 41],
  ['vpermxor', 45],
  ['vaddeuqm', 60],
  ['vaddecuq', 61],
  ['vsubeuqm', 62],
  ['vsubecuq', 63],
  ['vpermr', 59],
];

/** AltiVec (VMX), present on some 32-bit processors as well. */
const rowsVector: readonly RowSpec[] = [
  ...VECTOR3.map(([name, xo]) => row(name, `000100 vrt vra vrb ${binary(xo, 11)}`, 'vrt,vra,vrb', only)),
  ...VECTOR1.map(([name, xo]) => row(name, `000100 vrt 00000 vrb ${binary(xo, 11)}`, 'vrt,vrb', only)),
  ...VECTOR_COMPARE.map(([name, xo]) => row(name, `000100 vrt vra vrb rc ${binary(xo, 10)}`, 'vrt,vra,vrb', only)),
  ...VECTOR4.map(([name, xo]) => row(name, `000100 vrt vra vrb vrc ${binary(xo, 6)}`, 'vrt,vra,vrb,vrc', only)),
  row('vmaddfp', '000100 vrt vra vrb vrc 101110', 'vrt,vra,vrc,vrb', only),
  row('vnmsubfp', '000100 vrt vra vrb vrc 101111', 'vrt,vra,vrc,vrb', only),
  row('vsldoi', '000100 vrt vra vrb 0 shb 101100', 'vrt,vra,vrb,shb', only),
  row('vspltb', '000100 vrt 0 uim4 vrb 01000001100', 'vrt,vrb,uim4', only),
  row('vsplth', '000100 vrt 00 uim3 vrb 01001001100', 'vrt,vrb,uim3', only),
  row('vspltw', '000100 vrt 000 uim2 vrb 01010001100', 'vrt,vrb,uim2', only),
  row('vspltisb', '000100 vrt sim 00000 01100001100', 'vrt,sim', only),
  row('vspltish', '000100 vrt sim 00000 01101001100', 'vrt,sim', only),
  row('vspltisw', '000100 vrt sim 00000 01110001100', 'vrt,sim', only),
  row('vcfux', '000100 vrt uim5 vrb 01100001010', 'vrt,vrb,uim5', only),
  row('vcfsx', '000100 vrt uim5 vrb 01101001010', 'vrt,vrb,uim5', only),
  row('vctuxs', '000100 vrt uim5 vrb 01110001010', 'vrt,vrb,uim5', only),
  row('vctsxs', '000100 vrt uim5 vrb 01111001010', 'vrt,vrb,uim5', only),
  row('vshasigmaw', '000100 vrt vra st six 11010000010', 'vrt,vra,st,six', only),
  row('vshasigmad', '000100 vrt vra st six 11011000010', 'vrt,vra,st,six', only),
  row('bcdadd.', '000100 vrt vra vrb 1 ps 000000001', 'vrt,vra,vrb,ps', only),
  row('bcdsub.', '000100 vrt vra vrb 1 ps 001000001', 'vrt,vra,vrb,ps', only),
  row('vsbox', '000100 vrt vra 00000 10111001000', 'vrt,vra', only),
  row('mfvscr', '000100 vrt 00000 00000 11000000100', 'vrt', only),
  row('mtvscr', '000100 00000 00000 vrb 11001000100', 'vrb', only),
  system('lvx', 103, 'vrt ra0 rb', 'vrt,ra0,rb'),
  system('lvxl', 359, 'vrt ra0 rb', 'vrt,ra0,rb'),
  system('lvsl', 6, 'vrt ra0 rb', 'vrt,ra0,rb'),
  system('lvsr', 38, 'vrt ra0 rb', 'vrt,ra0,rb'),
  system('lvebx', 7, 'vrt ra0 rb', 'vrt,ra0,rb'),
  system('lvehx', 39, 'vrt ra0 rb', 'vrt,ra0,rb'),
  system('lvewx', 71, 'vrt ra0 rb', 'vrt,ra0,rb'),
  system('stvx', 231, 'vrs ra0 rb', 'vrs,ra0,rb'),
  system('stvxl', 487, 'vrs ra0 rb', 'vrs,ra0,rb'),
  system('stvebx', 135, 'vrs ra0 rb', 'vrs,ra0,rb'),
  system('stvehx', 167, 'vrs ra0 rb', 'vrs,ra0,rb'),
  system('stvewx', 199, 'vrs ra0 rb', 'vrs,ra0,rb'),
  system('dst', 342, '000 l2 ra rb', 'ra,rb,l2'),
  system('dstt', 342, '100 l2 ra rb', 'ra,rb,l2'),
  system('dstst', 374, '000 l2 ra rb', 'ra,rb,l2'),
  system('dststt', 374, '100 l2 ra rb', 'ra,rb,l2'),
  system('dss', 822, '000 l2 00000 00000', 'l2'),
  system('dssall', 822, '10000 00000 00000', ''),
];

const XX_LOADS: readonly (readonly [string, number])[] = [
  ['lxvd2x', 844],
  ['lxvw4x', 780],
  ['lxsdx', 588],
  ['lxsspx', 524],
  ['lxsiwax', 76],
  ['lxsiwzx', 12],
  ['lxvdsx', 332],
  ['lxvx', 268],
  ['lxvh8x', 812],
  ['lxvb16x', 876],
  ['lxvwsx', 364],
  ['lxvl', 269],
  ['lxvll', 301],
  ['lxsibzx', 781],
  ['lxsihzx', 813],
  ['lxvrbx', 13],
  ['lxvrdx', 109],
  ['lxvrhx', 45],
  ['lxvrwx', 77],
];
const XX_STORES: readonly (readonly [string, number])[] = [
  ['stxvd2x', 972],
  ['stxvw4x', 908],
  ['stxsdx', 716],
  ['stxsspx', 652],
  ['stxsiwx', 140],
  ['stxvx', 396],
  ['stxvh8x', 940],
  ['stxvb16x', 1004],
  ['stxvl', 397],
  ['stxvll', 429],
  ['stxsibx', 909],
  ['stxsihx', 941],
  ['stxvrbx', 141],
  ['stxvrdx', 237],
  ['stxvrhx', 173],
  ['stxvrwx', 205],
];
/** XX3-form: three 6-bit registers, extended opcode of 8 bits. */
const XX3: readonly (readonly [string, number])[] = [
  ['xxland', 130],
  ['xxlandc', 138],
  ['xxleqv', 186],
  ['xxlnand', 178],
  ['xxlnor', 162],
  ['xxlor', 146],
  ['xxlorc', 170],
  ['xxlxor', 154],
  ['xxmrghw', 18],
  ['xxmrglw', 50],
  ['xxperm', 26],
  ['xxpermr', 58],
  ['xsadddp', 32],
  ['xssubdp', 40],
  ['xsmuldp', 48],
  ['xsdivdp', 56],
  ['xsaddsp', 0],
  ['xssubsp', 8],
  ['xsmulsp', 16],
  ['xsdivsp', 24],
  ['xsmaddadp', 33],
  ['xsmaddmdp', 41],
  ['xsmsubadp', 49],
  ['xsmsubmdp', 57],
  ['xsmaddasp', 1],
  ['xsmaddmsp', 9],
  ['xsmsubasp', 17],
  ['xsmsubmsp', 25],
  ['xsnmaddadp', 161],
  ['xsnmaddmdp', 169],
  ['xsnmsubadp', 177],
  ['xsnmsubmdp', 185],
  ['xsnmaddasp', 129],
  ['xsnmaddmsp', 137],
  ['xsnmsubasp', 145],
  ['xsnmsubmsp', 153],
  ['xscpsgndp', 176],
  ['xsmaxdp', 160],
  ['xsmindp', 168],
  ['xsmaxcdp', 128],
  ['xsmincdp', 136],
  ['xsmaxjdp', 144],
  ['xsminjdp', 152],
  ['xvadddp', 96],
  ['xvsubdp', 104],
  ['xvmuldp', 112],
  ['xvdivdp', 120],
  ['xvaddsp', 64],
  ['xvsubsp', 72],
  ['xvmulsp', 80],
  ['xvdivsp', 88],
  ['xvmaddadp', 97],
  ['xvmaddmdp', 105],
  ['xvmsubadp', 113],
  ['xvmsubmdp', 121],
  ['xvmaddasp', 65],
  ['xvmaddmsp', 73],
  ['xvmsubasp', 81],
  ['xvmsubmsp', 89],
  ['xvnmaddadp', 225],
  ['xvnmaddmdp', 233],
  ['xvnmsubadp', 241],
  ['xvnmsubmdp', 249],
  ['xvmaxdp', 224],
  ['xvmindp', 232],
  ['xvmaxsp', 192],
  ['xvminsp', 200],
  ['xvcpsgndp', 240],
  ['xvcpsgnsp', 208],
  ['xscmpeqdp', 3],
  ['xscmpgedp', 19],
  ['xscmpgtdp', 11],
  ['xvnmaddasp', 193],
  ['xvnmaddmsp', 201],
  ['xvnmsubasp', 209],
  ['xvnmsubmsp', 217],
];
/** XX3-form with a condition field as target. */
const XX_COMPARE: readonly (readonly [string, number])[] = [
  ['xscmpudp', 35],
  ['xscmpodp', 43],
  ['xstdivdp', 61],
  ['xscmpexpdp', 59],
  ['xvtdivdp', 125],
  ['xvtdivsp', 93],
];
/** The same of one source, extended opcode of 9 bits. */
const XX_TEST: readonly (readonly [string, number])[] = [
  ['xstsqrtdp', 106],
  ['xvtsqrtdp', 234],
  ['xvtsqrtsp', 170],
];
/** XX3-form with Rc in front of an extended opcode of 7 bits. */
const XX_RECORD: readonly (readonly [string, number])[] = [
  ['xvcmpeqdp', 99],
  ['xvcmpgtdp', 107],
  ['xvcmpgedp', 115],
  ['xvcmpeqsp', 67],
  ['xvcmpgtsp', 75],
  ['xvcmpgesp', 83],
];
/** XX2-form: one source, extended opcode of 9 bits. */
const XX2: readonly (readonly [string, number])[] = [
  ['xsabsdp', 345],
  ['xsnabsdp', 361],
  ['xsnegdp', 377],
  ['xssqrtdp', 75],
  ['xssqrtsp', 11],
  ['xsredp', 90],
  ['xsrsqrtedp', 74],
  ['xscvdpsp', 265],
  ['xscvspdp', 329],
  ['xscvdpspn', 267],
  ['xscvspdpn', 331],
  ['xsrsp', 281],
  ['xscvdpsxds', 344],
  ['xscvdpsxws', 88],
  ['xscvdpuxds', 328],
  ['xscvdpuxws', 72],
  ['xscvsxddp', 376],
  ['xscvsxdsp', 312],
  ['xscvuxddp', 360],
  ['xscvuxdsp', 296],
  ['xsrdpi', 73],
  ['xsrdpic', 107],
  ['xsrdpim', 121],
  ['xsrdpip', 105],
  ['xsrdpiz', 89],
  ['xvabsdp', 473],
  ['xvnegdp', 505],
  ['xvabssp', 409],
  ['xvnegsp', 441],
  ['xvsqrtdp', 203],
  ['xvsqrtsp', 139],
  ['xvcvdpsp', 393],
  ['xvcvspdp', 457],
  ['xvcvdpsxds', 472],
  ['xvcvdpsxws', 216],
  ['xvcvdpuxds', 456],
  ['xvcvdpuxws', 200],
  ['xvcvsxddp', 504],
  ['xvcvsxwdp', 248],
  ['xvcvuxddp', 488],
  ['xvcvuxwdp', 232],
  ['xvcvspsxws', 152],
  ['xvcvspuxws', 136],
  ['xvcvsxwsp', 184],
  ['xvcvuxwsp', 168],
  ['xvcvsxdsp', 440],
  ['xvcvuxdsp', 424],
  ['xsresp', 26],
  ['xsrsqrtesp', 10],
  ['xvcvspsxds', 408],
  ['xvcvspuxds', 392],
  ['xvnabsdp', 489],
  ['xvnabssp', 425],
  ['xvrdpi', 201],
  ['xvrdpic', 235],
  ['xvrdpim', 249],
  ['xvrdpip', 233],
  ['xvrdpiz', 217],
  ['xvredp', 218],
  ['xvresp', 154],
  ['xvrspi', 137],
  ['xvrspic', 171],
  ['xvrspim', 185],
  ['xvrspip', 169],
  ['xvrspiz', 153],
  ['xvrsqrtedp', 202],
  ['xvrsqrtesp', 138],
];

/** Quad precision: VRs, extended opcode of 10 bits, the last bit asks for round to odd. */
const QUAD: readonly (readonly [string, number])[] = [
  ['xsaddqp', 4],
  ['xsmulqp', 36],
  ['xsmaddqp', 388],
  ['xsmsubqp', 420],
  ['xsnmaddqp', 452],
  ['xsnmsubqp', 484],
  ['xssubqp', 516],
  ['xsdivqp', 548],
];

/** VSX: from POWER7 on, in 32-bit programs as well. */
const rowsVsx: readonly RowSpec[] = [
  ...XX_LOADS.map(([name, xo]) => xForm(name, xo, 'xt[4:0] ra0 rb', 'xt,ra0,rb', 'xt[5]', only)),
  ...XX_STORES.map(([name, xo]) => xForm(name, xo, 'xs[4:0] ra0 rb', 'xs,ra0,rb', 'xs[5]', only)),
  ...XX3.map(([name, xo]) =>
    row(name, `111100 xt[4:0] xa[4:0] xb[4:0] ${binary(xo, 8)} xa[5] xb[5] xt[5]`, 'xt,xa,xb', only),
  ),
  ...XX_COMPARE.map(([name, xo]) =>
    row(name, `111100 bf 00 xa[4:0] xb[4:0] ${binary(xo, 8)} xa[5] xb[5] 0`, 'bf,xa,xb', only),
  ),
  ...XX_TEST.map(([name, xo]) => row(name, `111100 bf 00 00000 xb[4:0] ${binary(xo, 9)} xb[5] 0`, 'bf,xb', only)),
  ...XX_RECORD.map(([name, xo]) =>
    row(name, `111100 xt[4:0] xa[4:0] xb[4:0] rc ${binary(xo, 7)} xa[5] xb[5] xt[5]`, 'xt,xa,xb', only),
  ),
  ...XX2.map(([name, xo]) => row(name, `111100 xt[4:0] 00000 xb[4:0] ${binary(xo, 9)} xb[5] xt[5]`, 'xt,xb', only)),
  row('xxpermdi', '111100 xt[4:0] xa[4:0] xb[4:0] 0 dm 01010 xa[5] xb[5] xt[5]', 'xt,xa,xb,dm', only),
  row('xxsldwi', '111100 xt[4:0] xa[4:0] xb[4:0] 0 shw 00010 xa[5] xb[5] xt[5]', 'xt,xa,xb,shw', only),
  row('xxsel', '111100 xt[4:0] xa[4:0] xb[4:0] xc[4:0] 11 xc[5] xa[5] xb[5] xt[5]', 'xt,xa,xb,xc', only),
  ...QUAD.map(([name, xo]) => row(name, `111111 vrt vra vrb ${binary(xo, 10)} ro`, 'vrt,vra,vrb', only)),
  row('xscmpuqp', '111111 bf 00 vra vrb 1010000100 0', 'bf,vra,vrb', only),
  row('xscmpoqp', '111111 bf 00 vra vrb 0010000100 0', 'bf,vra,vrb', only),
  row('xscpsgnqp', '111111 vrt vra vrb 0001100100 0', 'vrt,vra,vrb', only),
  row('xxspltib', '111100 xt[4:0] 00 imm8 0101101000 xt[5]', 'xt,imm8', only),
  row('xxspltw', '111100 xt[4:0] 000 uim2 xb[4:0] 010100100 xb[5] xt[5]', 'xt,xb,uim2', only),
  xForm('mfvsrd', 51, 'xs[4:0] ra 00000', 'ra,xs', 'xs[5]', only),
  xForm('mfvsrld', 307, 'xs[4:0] ra 00000', 'ra,xs', 'xs[5]', only),
  xForm('mfvsrwz', 115, 'xs[4:0] ra 00000', 'ra,xs', 'xs[5]', only),
  xForm('mtvsrd', 179, 'xt[4:0] ra 00000', 'xt,ra', 'xt[5]', only),
  xForm('mtvsrwa', 211, 'xt[4:0] ra 00000', 'xt,ra', 'xt[5]', only),
  xForm('mtvsrwz', 243, 'xt[4:0] ra 00000', 'xt,ra', 'xt[5]', only),
  xForm('mtvsrdd', 435, 'xt[4:0] ra0 rb', 'xt,ra0,rb', 'xt[5]', only),
  xForm('mtvsrws', 403, 'xt[4:0] ra 00000', 'xt,ra', 'xt[5]', only),
  row('lxv', '111101 xt[4:0] ra0 dq[15:4] xt[5] 001', 'xt,dq(ra0)', only),
  row('stxv', '111101 xs[4:0] ra0 dq[15:4] xs[5] 101', 'xs,dq(ra0)', only),
  row('lxsd', '111001 vrt ra0 ds[15:2] 10', 'vrt,ds(ra0)', only),
  row('lxssp', '111001 vrt ra0 ds[15:2] 11', 'vrt,ds(ra0)', only),
  row('stxsd', '111101 vrs ra0 ds[15:2] 10', 'vrs,ds(ra0)', only),
  row('stxssp', '111101 vrs ra0 ds[15:2] 11', 'vrs,ds(ra0)', only),
];

/** Rows that are decoded and named; executing one is a stop. */
const rowsDecodeOnlyCommon: readonly RowSpec[] = [
  ...rowsSystem,
  ...rowsFloat,
  ...rowsDecimal,
  ...rowsVector,
  ...rowsVsx,
];
const rowsDecodeOnly64: readonly RowSpec[] = [...rowsSystem64, ...rowsPower9];

// ----------------------------------------------------------------------------------------- aliases

/** Condition names of `bc` and `bclr` by BO (hint bits off) and bit of the field. */
const BRANCH_NAMES: readonly (readonly [string, number, number])[] = [
  ['lt', 12, 0],
  ['gt', 12, 1],
  ['eq', 12, 2],
  ['so', 12, 3],
  ['ge', 4, 0],
  ['le', 4, 1],
  ['ne', 4, 2],
  ['ns', 4, 3],
];

function branchAliases(): Alias[] {
  const out: Alias[] = [];
  for (const [name, bo, bit] of BRANCH_NAMES) {
    for (let cr = 0; cr < 8; cr++) {
      const where = { bo, bi: 4 * cr + bit };
      const field = cr === 0 ? '' : `'cr${cr}'`;
      out.push({ mnemonic: `b${name}`, of: 'bc', where, syntax: cr === 0 ? 'bd' : `${field},bd` });
      out.push({ mnemonic: `b${name}lr`, of: 'bclr', where: { ...where, bh: 0 }, syntax: field });
      out.push({ mnemonic: `b${name}ctr`, of: 'bcctr', where: { ...where, bh: 0 }, syntax: field });
    }
  }
  return out;
}

const equal = (a: string, b: string) => (operands: Operands) => operands[a] === operands[b];

const ALIASES: readonly Alias[] = [
  { mnemonic: 'nop', of: 'ori', where: { rs: 0, ra: 0, ui: 0 }, syntax: '' },
  { mnemonic: 'li', of: 'addi', where: { ra0: 0 }, syntax: 'rt,si' },
  { mnemonic: 'lis', of: 'addis', where: { ra0: 0 }, syntax: 'rt,si' },
  { mnemonic: 'mr', of: 'or', where: {}, when: equal('rs', 'rb'), syntax: 'ra,rs' },
  { mnemonic: 'not', of: 'nor', where: {}, when: equal('rs', 'rb'), syntax: 'ra,rs' },
  { mnemonic: 'blr', of: 'bclr', where: { bo: 20, bi: 0, bh: 0 }, syntax: '' },
  { mnemonic: 'blrl', of: 'bclrl', where: { bo: 20, bi: 0, bh: 0 }, syntax: '' },
  { mnemonic: 'bctr', of: 'bcctr', where: { bo: 20, bi: 0, bh: 0 }, syntax: '' },
  { mnemonic: 'bctrl', of: 'bcctrl', where: { bo: 20, bi: 0, bh: 0 }, syntax: '' },
  { mnemonic: 'bdnz', of: 'bc', where: { bo: 16, bi: 0 }, syntax: 'bd' },
  { mnemonic: 'bdz', of: 'bc', where: { bo: 18, bi: 0 }, syntax: 'bd' },
  ...branchAliases(),
  { mnemonic: 'mflr', of: 'mfspr', where: { spr: 8 }, syntax: 'rt' },
  { mnemonic: 'mfctr', of: 'mfspr', where: { spr: 9 }, syntax: 'rt' },
  { mnemonic: 'mfxer', of: 'mfspr', where: { spr: 1 }, syntax: 'rt' },
  { mnemonic: 'mtlr', of: 'mtspr', where: { spr: 8 }, syntax: 'rs' },
  { mnemonic: 'mtctr', of: 'mtspr', where: { spr: 9 }, syntax: 'rs' },
  { mnemonic: 'mtxer', of: 'mtspr', where: { spr: 1 }, syntax: 'rs' },
  { mnemonic: 'cmpwi', of: 'cmpi', where: { l: 0, bf: 0 }, syntax: 'ra,si' },
  { mnemonic: 'cmpwi', of: 'cmpi', where: { l: 0 }, syntax: 'bf,ra,si' },
  { mnemonic: 'cmpdi', of: 'cmpi', where: { l: 1, bf: 0 }, syntax: 'ra,si' },
  { mnemonic: 'cmpdi', of: 'cmpi', where: { l: 1 }, syntax: 'bf,ra,si' },
  { mnemonic: 'cmplwi', of: 'cmpli', where: { l: 0, bf: 0 }, syntax: 'ra,ui' },
  { mnemonic: 'cmplwi', of: 'cmpli', where: { l: 0 }, syntax: 'bf,ra,ui' },
  { mnemonic: 'cmpldi', of: 'cmpli', where: { l: 1, bf: 0 }, syntax: 'ra,ui' },
  { mnemonic: 'cmpldi', of: 'cmpli', where: { l: 1 }, syntax: 'bf,ra,ui' },
  { mnemonic: 'cmpw', of: 'cmp', where: { l: 0, bf: 0 }, syntax: 'ra,rb' },
  { mnemonic: 'cmpw', of: 'cmp', where: { l: 0 }, syntax: 'bf,ra,rb' },
  { mnemonic: 'cmpd', of: 'cmp', where: { l: 1, bf: 0 }, syntax: 'ra,rb' },
  { mnemonic: 'cmpd', of: 'cmp', where: { l: 1 }, syntax: 'bf,ra,rb' },
  { mnemonic: 'cmplw', of: 'cmpl', where: { l: 0, bf: 0 }, syntax: 'ra,rb' },
  { mnemonic: 'cmplw', of: 'cmpl', where: { l: 0 }, syntax: 'bf,ra,rb' },
  { mnemonic: 'cmpld', of: 'cmpl', where: { l: 1, bf: 0 }, syntax: 'ra,rb' },
  { mnemonic: 'cmpld', of: 'cmpl', where: { l: 1 }, syntax: 'bf,ra,rb' },
  { mnemonic: 'trap', of: 'tw', where: { to: 31, ra: 0, rb: 0 }, syntax: '' },
  { mnemonic: 'twui', of: 'twi', where: { to: 31 }, syntax: 'ra,si' },
  { mnemonic: 'rotlwi', of: 'rlwinm', where: { mb: 0, me: 31 }, syntax: 'ra,rs,sh' },
  {
    mnemonic: 'slwi',
    of: 'rlwinm',
    where: { mb: 0 },
    when: (operands) => operands['me'] === 31 - operands['sh']!,
    syntax: 'ra,rs,sh',
  },
  {
    mnemonic: 'srwi',
    of: 'rlwinm',
    where: { me: 31 },
    when: (operands) => operands['mb'] === 32 - operands['sh']!,
    syntax: 'ra,rs,mb',
  },
  { mnemonic: 'clrlwi', of: 'rlwinm', where: { sh: 0, me: 31 }, syntax: 'ra,rs,mb' },
];

const ALIASES64: readonly Alias[] = [
  { mnemonic: 'tdui', of: 'tdi', where: { to: 31 }, syntax: 'ra,si' },
  { mnemonic: 'clrldi', of: 'rldicl', where: { sh6: 0 }, syntax: 'ra,rs,mb6' },
  { mnemonic: 'rotldi', of: 'rldicl', where: { mb6: 0 }, syntax: 'ra,rs,sh6' },
  {
    mnemonic: 'srdi',
    of: 'rldicl',
    where: {},
    when: (operands) => operands['mb6'] === 64 - operands['sh6']!,
    syntax: 'ra,rs,mb6',
  },
  {
    mnemonic: 'sldi',
    of: 'rldicr',
    where: {},
    when: (operands) => operands['me6'] === 63 - operands['sh6']!,
    syntax: 'ra,rs,sh6',
  },
];

// ------------------------------------------------------------------------------------------ tables

/** The L bit of compares asks for 64 bits: 32-bit processors refuse it. */
function for32(spec: RowSpec): RowSpec {
  return /^cmpl?i?$/.test(spec.mnemonic)
    ? { ...spec, attributes: { ...spec.attributes, not: { ...spec.attributes.not, l: [1] } } }
    : spec;
}

function address32(address: bigint): string {
  return hex(BigInt.asUintN(32, address));
}

/** Rows of 32-bit processors (classic and Book E): refuses what only 64-bit ones have. */
export const ppc32Table = new IsaTable(
  {
    name: 'ppc32',
    fields: {
      ...FIELDS,
      la: { kind: 'signed', format: (value) => hex(value >>> 0) },
      bda: { kind: 'signed', format: (value) => hex(value >>> 0) },
    },
    rows: [...[...rowsCommon].map(for32), ...rowsDecodeOnlyCommon],
    aliases: ALIASES,
    formatAddress: address32,
  },
  'deferred',
);

/** Rows of 64-bit processors up to POWER8 and the unprivileged integer ones of POWER9. */
export const ppc64Table = new IsaTable(
  {
    name: 'ppc64',
    fields: FIELDS,
    rows: [...rowsCommon, ...rows64, ...rowsDecodeOnlyCommon, ...rowsDecodeOnly64],
    aliases: [...ALIASES, ...ALIASES64],
  },
  'deferred',
);

// --------------------------------------------------------------------------- prefixed instructions

/**
 * Prefix type 00 (8-byte load/store) and 10 (modified load/store): name by the suffix's primary
 * opcode.
 */
const PREFIXED_8LS: Readonly<Record<number, string>> = {
  41: 'plwa',
  42: 'plxsd',
  43: 'plxssp',
  46: 'pstxsd',
  47: 'pstxssp',
  50: 'plxv',
  51: 'plxv',
  54: 'pstxv',
  55: 'pstxv',
  56: 'plq',
  57: 'pld',
  58: 'plxvp',
  60: 'pstq',
  61: 'pstd',
  62: 'pstxvp',
};
const PREFIXED_MLS: Readonly<Record<number, string>> = {
  14: 'paddi',
  32: 'plwz',
  34: 'plbz',
  36: 'pstw',
  38: 'pstb',
  40: 'plhz',
  42: 'plha',
  44: 'psth',
  48: 'plfs',
  50: 'plfd',
  52: 'pstfs',
  54: 'pstfd',
};

/**
 * Prefix type 01 (8-byte register to register): name by the suffix's primary and extended opcode.
 */
function prefixedRegisters(suffix: number): string | undefined {
  const pair = (suffix >>> 4) & 3;
  switch (suffix >>> 26) {
    case 32:
      return ['xxsplti32dx', 'xxsplti32dx', 'xxspltidp', 'xxspltiw'][(suffix >>> 17) & 15];
    case 33:
      return ['xxblendvb', 'xxblendvh', 'xxblendvw', 'xxblendvd'][pair];
    case 34:
      return ['xxpermx', 'xxeval'][pair];
    default:
      return undefined;
  }
}

/**
 * Prefix type 11 (modified masked outer products): name by the suffix's extended opcode of 8 bits.
 */
const PREFIXED_OUTER: Readonly<Record<number, string>> = {
  2: 'pmxvi8ger4pp', 3: 'pmxvi8ger4', 18: 'pmxvf16ger2pp', 19: 'pmxvf16ger2', 26: 'pmxvf32gerpp', 27: 'pmxvf32ger',
  34: 'pmxvi4ger8pp', 35: 'pmxvi4ger8', 42: 'pmxvi16ger2spp', 43: 'pmxvi16ger2s', 50: 'pmxvbf16ger2pp', 51: 'pmxvbf16ger2',
  58: 'pmxvf64gerpp', 59: 'pmxvf64ger', 75: 'pmxvi16ger2', 82: 'pmxvf16ger2np', 90: 'pmxvf32gernp', 99: 'pmxvi8ger4spp',
  107: 'pmxvi16ger2pp', 114: 'pmxvbf16ger2np', 122: 'pmxvf64gernp', 146: 'pmxvf16ger2pn', 154: 'pmxvf32gerpn',
  178: 'pmxvbf16ger2pn', 186: 'pmxvf64gerpn', 210: 'pmxvf16ger2nn', 218: 'pmxvf32gernn', 242: 'pmxvbf16ger2nn',
  250: 'pmxvf64gernn',
}; // prettier-ignore

/** True for the first word of an 8-byte instruction (POWER10): primary opcode 1. */
export function isPrefix(word: number): boolean {
  return word >>> 26 === 1;
}

/**
 * Name and operands of a prefixed instruction; `prefixed` for codes that ISA 3.1B does not define.
 * The 34-bit displacement is given in two operands, `d_high` (18 bits, signed) and `d_low` (16
 * bits).
 */
export function decodePrefixed(prefix: number, suffix: number): { mnemonic: string; operands: Operands } {
  const type = (prefix >>> 24) & 3;
  const opcode = suffix >>> 26;
  const subtype = (prefix >>> 20) & 15;
  if (type === 1 && subtype === 0) return { mnemonic: prefixedRegisters(suffix) ?? 'prefixed', operands: {} };
  if (type === 3 && subtype === 9 && opcode === 59) {
    return { mnemonic: PREFIXED_OUTER[(suffix >>> 3) & 0xff] ?? 'prefixed', operands: {} };
  }
  const mnemonic =
    type === 0 && (prefix & 0x00ec_0000) === 0
      ? PREFIXED_8LS[opcode]
      : type === 2 && (prefix & 0x00ec_0000) === 0
        ? PREFIXED_MLS[opcode]
        : type === 3 && (prefix & 0x00ff_ffff) === 0
          ? 'pnop'
          : undefined;
  if (mnemonic === undefined || mnemonic === 'pnop') return { mnemonic: mnemonic ?? 'prefixed', operands: {} };
  return {
    mnemonic,
    operands: {
      rt: (suffix >>> 21) & 31,
      ra0: (suffix >>> 16) & 31,
      r: (prefix >>> 20) & 1,
      d_high: signExtend32(prefix & 0x3_ffff, 18),
      d_low: suffix & 0xffff,
      tx: opcode & 1,
    },
  };
}

function formatPrefixed({ mnemonic, operands }: Instruction): string {
  const { rt, ra0, r, d_high: high, d_low: low, tx } = operands;
  if (rt === undefined || ra0 === undefined || high === undefined || low === undefined) return mnemonic;
  const displacement = high * 65536 + low;
  const target =
    mnemonic === 'plxv' || mnemonic === 'pstxv'
      ? `vs${rt + 32 * (tx ?? 0)}`
      : /^p(st|l)xvp/.test(mnemonic)
        ? `vs${(rt & 30) + 32 * (rt & 1)}`
        : /^p(st|l)xs/.test(mnemonic)
          ? `v${rt}`
          : /^p(st|l)f/.test(mnemonic)
            ? `f${rt}`
            : `r${rt}`;
  const base = ra0 === 0 ? '0' : `r${ra0}`;
  if (mnemonic === 'paddi') return `paddi ${target},${base},${displacement},${r ?? 0}`;
  return `${mnemonic} ${target},${displacement}(${base})${r === 1 ? ',1' : ',0'}`;
}

// ----------------------------------------------------------------------------------------- decoder

const NEXT: Flow = { kind: 'next' };

/** BO of a branch that is always taken: 1z1zz. */
export function branchesAlways(bo: number): boolean {
  return (bo & 0b10100) === 0b10100;
}

/**
 * Flow of a decoded word. Conditional returns and conditional jumps through CTR may go on with the
 * next instruction and lead nowhere that is known statically: `next`.
 */
function flowOf({ row: found, operands }: Decoded, address: bigint, bits: 32 | 64): Flow {
  const at = (displacement: number): bigint => BigInt.asUintN(bits, address + BigInt(displacement));
  const absolute = (value: number): bigint => BigInt.asUintN(bits, BigInt(value));
  switch (found.flow) {
    case 'jump':
    case 'call':
    case 'branch': {
      const { li, bd, la, bda, bo } = operands;
      const target =
        li !== undefined ? at(li) : bd !== undefined ? at(bd) : la !== undefined ? absolute(la) : absolute(bda ?? 0);
      if (found.flow === 'branch' && bo !== undefined && branchesAlways(bo)) return { kind: 'jump', target };
      // `bcl 20,31,.+4` only reads the program counter.
      if (found.mnemonic === 'bcl' && bo === 20 && operands['bi'] === 31 && bd === 4) return NEXT;
      return { kind: found.flow, target };
    }
    case 'return':
    case 'indirect-jump':
      return operands['bo'] !== undefined && !branchesAlways(operands['bo']) ? NEXT : { kind: found.flow };
    case 'trap': {
      // Conditional traps (BUG_ON) fall through when the condition is false; TO = 31 never does.
      const { to } = operands;
      return to !== undefined && to !== 31 ? NEXT : { kind: 'trap' };
    }
    case 'indirect-call':
    case 'syscall':
      return { kind: found.flow };
    case 'next':
    case 'call-if-link':
    case 'indirect-call-if-link':
      return NEXT;
    default:
      return found.flow satisfies never;
  }
}

/**
 * The decoder of one target. `endian` is the byte order of instruction words; prefixed instructions
 * are two such words, the prefix first in either order. Words that no row knows and a prefix at the
 * end of the code are `unknown` (4 bytes).
 */
export function createPpcIsa(table: IsaTable, endian: Endian, bits: 32 | 64): Isa {
  let view = new ByteView(new Uint8Array(0), endian, 'code');
  const unknown = (address: bigint): Instruction => ({
    address,
    sizeBytes: 4,
    mnemonic: 'unknown',
    operands: {},
    flow: NEXT,
  });
  return {
    text: 'rows',
    minInstructionBytes: 4,
    maxInstructionBytes: bits === 64 ? 8 : 4,
    decode(code, offset, address) {
      if (view.bytes !== code) view = new ByteView(code, endian, 'code');
      if (offset < 0 || offset + 4 > code.length) return unknown(address);
      const word = view.u32(offset);
      if (bits === 64 && isPrefix(word)) {
        if (offset + 8 > code.length) return unknown(address);
        return { address, sizeBytes: 8, ...decodePrefixed(word, view.u32(offset + 4)), flow: NEXT };
      }
      const decoded = table.decode(word);
      if (decoded === null) return unknown(address);
      return {
        address,
        sizeBytes: 4,
        mnemonic: decoded.row.mnemonic,
        operands: decoded.operands,
        flow: flowOf(decoded, address, bits),
      };
    },
    format(instruction) {
      if (instruction.sizeBytes === 8) return formatPrefixed(instruction);
      if (!table.has(instruction.mnemonic)) return instruction.mnemonic;
      return table.format(
        { row: table.row(instruction.mnemonic), operands: instruction.operands },
        instruction.address,
      );
    },
  };
}
