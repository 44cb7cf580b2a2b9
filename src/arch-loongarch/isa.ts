/**
 * LoongArch instruction rows: the integer instructions of LA64 that compilers put around function
 * entries, and the decoder over them.
 *
 * What a patcher must know of the ISA:
 *
 * - Instructions are 4 bytes long, 4-aligned, little-endian: one store of a word changes one, and
 *   `ibar` makes other code see it.
 * - `bl` (010101 and 26 bits) calls and puts the return address into $ra; `b` (010100) jumps. The
 *   distance counts in words and its upper 10 bits stand below the lower 16. They reach 128 MiB
 *   both ways; farther calls are pairs, `pcaddu18i` and `jirl`, of 128 GiB.
 * - A call overwrites $ra, so a function's entry keeps it first: `move $t0,$ra` (that is
 *   `or $t0,$ra,$zero`), then `bl`.
 * - `nop` is `andi $zero,$zero,0`.
 * - Linkers that relax delete nops and words of pairs: code of objects moves, and slots of tables
 *   name labels (.LPFE), which move with it.
 *
 * Source: LoongArch Reference Manual, Volume 1: Basic Architecture, 1.10, chapter 2 and appendix B.
 */
import { reaches, type Reach } from '../bits.js';
import { ElftraceError, hex } from '../errors.js';
import type { Flow, Instruction, Isa } from '../isa/instruction.js';
import { type Alias, type Decoded, type FieldSpec, IsaTable, row, type RowSpec } from '../isa/table.js';
import type { Address } from '../units.js';

const REGISTER_NAMES = (
  'zero ra tp sp a0 a1 a2 a3 a4 a5 a6 a7 t0 t1 t2 t3 t4 t5 t6 t7 t8 r21 fp s0 s1 s2 s3 s4 s5 s6 s7 s8' as const
).split(' ');
const ZERO = 0;
const RA = 1;
export const T1 = 13;
export const T3 = 15;

const register: FieldSpec = { kind: 'register', width: 5, names: REGISTER_NAMES.map((name) => `$${name}`) };

const FIELDS: Readonly<Record<string, FieldSpec>> = {
  rd: register,
  rj: register,
  rk: register,
  imm: { kind: 'signed' },
  bits: { kind: 'unsigned', hex: true },
  // One less than what is shifted by.
  less: { kind: 'unsigned', width: 2, bias: 1, hex: true },
  high: { kind: 'unsigned', hex: true },
  low: { kind: 'unsigned', hex: true },
  code: { kind: 'unsigned', hex: true },
  off: { kind: 'displacement' },
};

// -------------------------------------------------------------------------------------------- rows

const binary = (value: number, bits: number): string => value.toString(2).padStart(bits, '0');

/** `mnemonic number` pairs of a list become rows of one format. */
function rows(list: string, make: (mnemonic: string, opcode: number) => RowSpec): RowSpec[] {
  const words = list.split(' ');
  return words.flatMap((mnemonic, i) => (i % 2 === 0 ? [make(mnemonic, parseInt(words[i + 1]!, 16))] : []));
}

const three = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 17)} rk rj rd`, `rd, rj, rk`);
const two = (mnemonic: string, opcode: number): RowSpec => row(mnemonic, `${binary(opcode, 22)} rj rd`, 'rd, rj');
const signed12 = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 10)} imm[11:0] rj rd`, 'rd, rj, imm');
const bits12 = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 10)} bits[11:0] rj rd`, 'rd, rj, bits');
const shift = (width: 5 | 6, opcodeBits: number) => (mnemonic: string, opcode: number) =>
  row(mnemonic, `${binary(opcode, opcodeBits)} bits[${width - 1}:0] rj rd`, 'rd, rj, bits');
const shiftAdd = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 15)} less rk rj rd`, 'rd, rj, rk, less');
const upper20 = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 7)} imm[19:0] rd`, 'rd, imm');
const words14 = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 8)} imm[15:2] rj rd`, 'rd, rj, imm');
const compare = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 6)} off[17:2] rj rd`, 'rj, rd, off', { flow: 'branch' });
const zeroTest = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 6)} off[17:2] rj off[22:18]`, 'rj, off', { flow: 'branch' });
const trap = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 17)} code[14:0]`, 'code', { flow: mnemonic === 'syscall' ? 'syscall' : 'trap' });
const barrier = (mnemonic: string, opcode: number): RowSpec =>
  row(mnemonic, `${binary(opcode, 17)} code[14:0]`, 'code');

const ROWS: readonly RowSpec[] = [
  ...rows(
    'add.w 20 add.d 21 sub.w 22 sub.d 23 slt 24 sltu 25 maskeqz 26 masknez 27 nor 28 and 29 or 2a xor 2b orn 2c andn 2d ' +
      'sll.w 2e srl.w 2f sra.w 30 sll.d 31 srl.d 32 sra.d 33 rotr.w 36 rotr.d 37 mul.w 38 mulh.w 39 mulh.wu 3a mul.d 3b ' +
      'mulh.d 3c mulh.du 3d mulw.d.w 3e mulw.d.wu 3f div.w 40 mod.w 41 div.wu 42 mod.wu 43 div.d 44 mod.d 45 div.du 46 ' +
      'mod.du 47 ldx.b 7000 ldx.h 7008 ldx.w 7010 ldx.d 7018 stx.b 7020 stx.h 7028 stx.w 7030 stx.d 7038 ldx.bu 7040 ' +
      'ldx.hu 7048 ldx.wu 7050',
    three,
  ),
  ...rows(
    'clo.w 4 clz.w 5 cto.w 6 ctz.w 7 clo.d 8 clz.d 9 cto.d a ctz.d b revb.2h c revb.4h d revb.2w e revb.d f ext.w.h 16 ext.w.b 17',
    two,
  ),
  ...rows(
    'slti 8 sltui 9 addi.w a addi.d b lu52i.d c ld.b a0 ld.h a1 ld.w a2 ld.d a3 st.b a4 st.h a5 st.w a6 st.d a7 ' +
      'ld.bu a8 ld.hu a9 ld.wu aa',
    signed12,
  ),
  ...rows('andi d ori e xori f', bits12),
  ...rows('slli.w 81 srli.w 89 srai.w 91 rotri.w 99', shift(5, 17)),
  ...rows('slli.d 41 srli.d 45 srai.d 49 rotri.d 4d', shift(6, 16)),
  ...rows('alsl.w 2 alsl.wu 3 alsl.d 16', shiftAdd),
  ...rows('lu12i.w a lu32i.d b pcaddi c pcalau12i d pcaddu12i e pcaddu18i f', upper20),
  ...rows('ll.w 20 sc.w 21 ll.d 22 sc.d 23 ldptr.w 24 stptr.w 25 ldptr.d 26 stptr.d 27', words14),
  ...rows('beq 16 bne 17 blt 18 bge 19 bltu 1a bgeu 1b', compare),
  ...rows('beqz 10 bnez 11', zeroTest),
  ...rows('break 54 syscall 56', trap),
  ...rows('dbar 70e4 ibar 70e5', barrier),
  row('addu16i.d', '000100 imm[15:0] rj rd', 'rd, rj, imm'),
  row('bstrins.w', '00000000011 high[4:0] 0 low[4:0] rj rd', 'rd, rj, high, low'),
  row('bstrpick.w', '00000000011 high[4:0] 1 low[4:0] rj rd', 'rd, rj, high, low'),
  row('bstrins.d', '0000000010 high[5:0] low[5:0] rj rd', 'rd, rj, high, low'),
  row('bstrpick.d', '0000000011 high[5:0] low[5:0] rj rd', 'rd, rj, high, low'),
  row('b', '010100 off[17:2] off[27:18]', 'off', { flow: 'jump' }),
  row('bl', '010101 off[17:2] off[27:18]', 'off', { flow: 'call' }),
  row('jirl', '010011 imm[17:2] rj rd', 'rd, rj, imm', { flow: 'indirect-call-if-link' }),
];

const ALIASES: readonly Alias[] = [
  { mnemonic: 'nop', of: 'andi', where: { rd: ZERO, rj: ZERO, bits: 0 }, syntax: '' },
  { mnemonic: 'move', of: 'or', where: { rk: ZERO }, syntax: 'rd, rj' },
  { mnemonic: 'ret', of: 'jirl', where: { rd: ZERO, rj: RA, imm: 0 }, syntax: '' },
  { mnemonic: 'jr', of: 'jirl', where: { rd: ZERO, imm: 0 }, syntax: 'rj' },
];

/** The rows, checked. */
export const loongarchTable = new IsaTable(
  { name: 'loongarch64', fields: FIELDS, rows: ROWS, aliases: ALIASES },
  'deferred',
);

// ---------------------------------------------------------------------------------- words of sites

export const NOP = loongarchTable.encode('andi', { rd: ZERO, rj: ZERO, bits: 0 });
const T0 = 12;
/** move $t0,$ra */
export const MOVE_T0_RA = loongarchTable.encode('or', { rd: T0, rj: RA, rk: ZERO });
/** A `bl` whose field is zero, as relocatable files have it. */
export const BL_ZERO = loongarchTable.encode('bl', { off: 0 });

/** From the address of a `b` or `bl`. */
export const BRANCH_REACH: Reach = { min: -0x800_0000n, max: 0x7ff_fffcn, alignBytes: 4 };

export const isBl = (word: number): boolean => word >>> 26 === 0b010101;

/** The first word of a pair: pcaddu18i $ra; and the one that ends it: jirl $ra,$ra. */
export const isPairHead = (word: number): boolean => (word & 0xfe00_001f) >>> 0 === 0x1e00_0001;
export const isPairTail = (word: number): boolean => (word & 0xfc00_03ff) >>> 0 === 0x4c00_0021;

/** Where a `b` or `bl` at `place` leads. */
export function branchTarget(word: number, place: Address): Address {
  const words = (((word & 0x3ff) << 16) | ((word >>> 10) & 0xffff)) << 6;
  return BigInt.asUintN(64, place + BigInt(words >> 6) * 4n);
}

/** Where the pair at `place` leads. */
export function pairTarget(head: number, tail: number, place: Address): Address {
  const upper = BigInt((head << 7) >> 12) << 18n;
  const lower = BigInt((tail << 6) >> 16) * 4n;
  return BigInt.asUintN(64, place + upper + lower);
}

/** Where the call at `place` leads; null: there is none. */
export function callTarget(word: number, next: number, place: Address): Address | null {
  if (isBl(word)) return branchTarget(word, place);
  return isPairHead(word) && isPairTail(next) ? pairTarget(word, next, place) : null;
}

/**
 * `b` or `bl` at `place` to `target`.
 * @throws ElftraceError 'branch-out-of-range'
 */
export function encodeBranch(mnemonic: 'b' | 'bl', place: Address, target: Address): number {
  if (!reaches(BRANCH_REACH, place, target)) {
    throw new ElftraceError('branch-out-of-range', `${mnemonic} at ${hex(place)} does not reach ${hex(target)}`, {
      address: place,
    });
  }
  return loongarchTable.encode(mnemonic, { off: Number(target - place) });
}

// ---------------------------------------------------------------------------------------- decoding

function flowOf({ row: found, operands }: Decoded, address: Address): Flow {
  const { flow } = found;
  switch (flow) {
    case 'jump':
    case 'call':
    case 'branch':
      return { kind: flow, target: BigInt.asUintN(64, address + BigInt(operands['off']!)) };
    case 'indirect-call-if-link':
      if (operands['rd'] !== ZERO) return { kind: 'indirect-call' };
      return { kind: operands['rj'] === RA && operands['imm'] === 0 ? 'return' : 'indirect-jump' };
    case 'syscall':
    case 'trap':
      return { kind: flow };
    default:
      return { kind: 'next' };
  }
}

export const loongarchIsa: Isa = {
  text: 'rows',
  minInstructionBytes: 4,
  maxInstructionBytes: 4,
  decode(code, offset, address): Instruction {
    const left = code.length - offset;
    const unknown: Instruction = {
      address,
      sizeBytes: Math.max(1, Math.min(4, left)),
      mnemonic: 'unknown',
      operands: {},
      flow: { kind: 'next' },
    };
    if (left < 4) return unknown;
    const word =
      (code[offset]! | (code[offset + 1]! << 8) | (code[offset + 2]! << 16) | (code[offset + 3]! << 24)) >>> 0;
    const decoded = loongarchTable.decode(word, 4);
    if (decoded === null) return unknown;
    const { mnemonic } = decoded.row;
    return { ...unknown, mnemonic, operands: decoded.operands, flow: flowOf(decoded, address) };
  },
  format(instruction) {
    if (!loongarchTable.has(instruction.mnemonic)) return instruction.mnemonic;
    const found = loongarchTable.row(instruction.mnemonic);
    return loongarchTable.format({ row: found, operands: instruction.operands }, instruction.address);
  },
};
