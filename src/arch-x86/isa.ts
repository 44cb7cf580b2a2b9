/**
 * x86-64 instructions: length, name, flow and the places of displacement and immediate. Owns the
 * walk over the bytes of one instruction; the opcode map (`opcode-map.ts`) owns what the opcodes
 * are; text for people comes from Capstone.
 *
 * What is special about this machine for a patcher:
 *
 *   prefixes*  REX or VEX or EVEX or XOP  opcode  ModRM  SIB  displacement  immediates
 *
 * Instructions have 1 to 15 bytes and no alignment, so the start of the next one is known only
 * after decoding this one: there is no walking backwards, and code must be decoded from a place
 * that is known to be a start (a symbol, the start of a section). Bytes inside an instruction are
 * often a valid other instruction.
 *
 * REX (40 to 4f) counts only directly before the opcode; a legacy prefix behind it cancels it. 66
 * shortens `Iz` immediates to 2 bytes unless REX.W is set, 67 shortens the `moffs` address of a0 to
 * a3 from 8 to 4 and changes nothing in the length of ModRM forms. Near branches keep their 32-bit
 * displacement under 66 (Intel; AMD processors take 16 bits), so `66 e8` is decoded the Intel way,
 * as the linkers rely on for `data16 call __tls_get_addr`. On 0F opcodes 66, F3 and F2 select
 * another instruction ("mandatory prefixes"), F3 and F2 winning over 66, the last of the two
 * winning.
 *
 * c4, c5 and 62 are always VEX and EVEX here, 8f is XOP unless ModRM.reg is 0; 06, 07, 0e, 16, 17,
 * 1e, 1f, 27, 2f, 37, 3f, 60, 61, 82, 9a, ce, d4, d5, d6, ea do not exist in 64-bit mode.
 *
 * Memory order is total store order and instruction fetch is coherent, but a store over an
 * instruction that another processor executes must follow the int3 protocol: no store of 5 bytes is
 * atomic with respect to fetch.
 *
 * At a function's first instruction r11, the flags and (outside variadic calls) rax are free; r10
 * may hold the static chain; rdi rsi rdx rcx r8 r9 and xmm0 to xmm7 hold arguments. A rel32 branch
 * reaches ±2 GiB from its own end.
 *
 * Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 and
 * appendix A; AMD64 Architecture Programmer's Manual, volumes 3 (XOP, 3DNow!) and 4.
 */
import type { Flow, Instruction, Isa } from '../isa/instruction.js';
import type { Operands } from '../isa/table.js';
import type { Address } from '../units.js';
import type { ImmediateCode, OpcodeFlow, OpcodeRow, OpcodeTable } from './opcode-map.js';
import { opcodeMaps as maps, THREE_D_NOW } from './opcode-map.js';

/** Longest instruction; a longer run of prefixes faults. */
export const MAX_INSTRUCTION_BYTES = 15;

/** Encoding families of an instruction. */
export type X86Encoding = 'legacy' | 'vex' | 'evex' | 'xop';

/**
 * The parts of one decoded instruction, in one object that a walk uses again and again: no
 * allocation per instruction. Positions are relative to the instruction's first byte; -1 or 0 bytes
 * where a part is absent.
 */
export class X86Instruction {
  sizeBytes = 0;
  row: OpcodeRow | null = null;
  encoding: X86Encoding = 'legacy';
  /** 0: one-byte map, 1: 0F, 2: 0F38, 3: 0F3A; EVEX 5 and 6; XOP 8 to 10. */
  map = 0;
  opcode = 0;
  /** Low nibble of REX, or the same bits out of VEX, EVEX and XOP (W R X B). */
  rex = 0;
  hasRex = false;
  /** 66 was among the prefixes. */
  operandSizePrefix = false;
  addressSizePrefix = false;
  lockPrefix = false;
  /** 0, 0xf2 or 0xf3: the last of the two. */
  repeatPrefix = 0;
  /** 0 or the last segment prefix. */
  segmentPrefix = 0;
  opcodeOffset = 0;
  modRmOffset = -1;
  modRm = 0;
  sib = -1;
  dispOffset = -1;
  dispBytes = 0;
  /** Sign-extended; EVEX scales a one-byte displacement, which is not done here. */
  disp = 0;
  ripRelative = false;
  immOffset = -1;
  immBytes = 0;
  /**
   * First immediate, sign-extended, or its low 32 bits when it has 8 bytes; a branch displacement
   * is one.
   */
  imm = 0;
  /** High 32 bits of an 8-byte immediate. */
  immHigh = 0;
  /** VEX.vvvv as a register number (0 without VEX). */
  vvvv = 0;
  /** VEX.L or EVEX.L'L. */
  vectorLength = 0;
  /** P2 of EVEX: mask register, zeroing, broadcast. */
  evexP2 = 0;

  get mnemonic(): string {
    const row = this.row;
    if (!row) return 'unknown';
    // nop is xchg rax,rax; with REX.B it exchanges r8 and is no nop.
    if (row === this.xchgAx && (this.rex & 1) === 0) return this.repeatPrefix === 0xf3 ? 'pause' : 'nop';
    if (row === this.threeDNow) return THREE_D_NOW.get(this.imm & 0xff) ?? 'unknown';
    if (this.map === 0 && this.opcode === 0xe3 && this.addressSizePrefix) return 'jecxz';
    return row.mnemonics[(this.rex & 8) !== 0 ? 2 : this.operandSizePrefix ? 0 : 1];
  }

  get flow(): OpcodeFlow {
    return this.row?.flow ?? 'next';
  }

  private get threeDNow(): OpcodeRow | null {
    return this.map === 1 && this.opcode === 0x0f && this.encoding === 'legacy' ? this.row : null;
  }

  private get xchgAx(): OpcodeRow | null {
    return this.map === 0 && this.opcode === 0x90 ? this.row : null;
  }
}

const EMPTY: Operands = {};

/** Bytes that an immediate takes. */
function immediateBytes(code: ImmediateCode, operandSize16: boolean, wide: boolean, address32: boolean): number {
  switch (code) {
    case 'Ib':
    case 'J8':
      return 1;
    case 'Iw':
      return 2;
    case 'Id':
    case 'J32':
      return 4;
    case 'Iz':
      return operandSize16 && !wide ? 2 : 4;
    case 'Jz':
      return operandSize16 && !wide ? 2 : 4;
    case 'Iv':
      return wide ? 8 : operandSize16 ? 2 : 4;
    case 'O':
      return address32 ? 4 : 8;
    default:
      return code satisfies never;
  }
}

function readSigned(code: Uint8Array, at: number, size: number): number {
  switch (size) {
    case 1:
      return (code[at]! << 24) >> 24;
    case 2:
      return ((code[at]! | (code[at + 1]! << 8)) << 16) >> 16;
    default:
      return code[at]! | (code[at + 1]! << 8) | (code[at + 2]! << 16) | (code[at + 3]! << 24);
  }
}

/** By what the row of an instruction is chosen, beside its bytes. */
class Choice {
  table: OpcodeTable | null | undefined = null;
  /** Of the mandatory prefixes, that which the instruction has. */
  prefixBit = 1;
  /** VEX, EVEX or XOP: W, L and vvvv count as well. */
  isVector = false;
  /** Bit 4 of the register in `reg`. */
  highReg = false;
}

/** One for all instructions: nothing here calls back, and each begins it anew. */
const choice = new Choice();

/**
 * Decodes the instruction at `offset` into `out`. Reads nothing at or behind `limit` (default: the
 * end of `code`). The parts below read on from a position, and give the one behind what they read;
 * 0: there is no such instruction, or its bytes end before. Positions stay in registers so.
 * @returns its size in bytes, or 0 when the bytes are no instruction in 64-bit mode or end too
 *   early
 */
export function decodeInto(out: X86Instruction, code: Uint8Array, offset: number, limit = code.length): number {
  clear(out);
  const end = Math.min(limit, offset + MAX_INSTRUCTION_BYTES, code.length);
  let at = readLead(out, code, offset, end);
  if (at === 0) return 0;
  const opcode = code[at - 1]!;
  out.opcode = opcode;
  out.opcodeOffset = at - 1 - offset;
  // ModRM is needed to choose the row of a group; every opcode of the maps either always has one or
  // never.
  const candidates = choice.table!.rows(opcode);
  if (candidates.length === 0) return 0;
  const { hasModRm } = candidates[0]!;
  if (hasModRm) {
    if (at >= end) return 0;
    out.modRm = code[at]!;
    out.modRmOffset = at - offset;
    at++;
  }
  const row = findRow(out, candidates, hasModRm);
  if (!row || ((choice.isVector || out.lockPrefix) && isReserved(out, row))) return 0;
  if (hasModRm && out.modRm < 0xc0 && !row.modReg && (at = readMemory(out, code, offset, at, end, row)) === 0) return 0;
  if (row.immediates.length > 0 && (at = readImmediates(out, code, offset, at, end, row)) === 0) return 0;
  const isThreeDNow = opcode === 0x0f && out.map === 1 && out.encoding === 'legacy';
  if (isThreeDNow && !THREE_D_NOW.has(code[at - 1]!)) return 0;
  out.row = row;
  out.sizeBytes = at - offset;
  return out.sizeBytes;
}

/** Everything that not every instruction sets. */
function clear(out: X86Instruction): void {
  out.sizeBytes = 0;
  out.row = null;
  out.encoding = 'legacy';
  out.map = 0;
  out.modRmOffset = -1;
  out.modRm = 0;
  out.sib = -1;
  out.dispOffset = -1;
  out.dispBytes = 0;
  out.disp = 0;
  out.ripRelative = false;
  out.immOffset = -1;
  out.immBytes = 0;
  out.imm = 0;
  out.immHigh = 0;
  out.vvvv = 0;
  out.vectorLength = 0;
  out.evexP2 = 0;
}

/** 1 for bytes that stand in front of an opcode or of another map: all of them but REX. */
const LEADS = new Uint8Array(256);
for (const byte of [0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65]) LEADS[byte] = 1;
for (const byte of [0x0f, 0xc4, 0xc5, 0x62, 0x8f]) LEADS[byte] = 1;

/**
 * Reads up to behind the opcode, and finds its map. Most instructions have at most a REX in front
 * of an opcode of the first map.
 */
function readLead(out: X86Instruction, code: Uint8Array, offset: number, end: number): number {
  let at = offset;
  if (at >= end) return 0;
  let byte = code[at++]!;
  let rex = 0;
  const hasRex = (byte & 0xf0) === 0x40;
  if (hasRex) {
    if (at >= end) return 0;
    rex = byte & 15;
    byte = code[at++]!;
  }
  choice.isVector = false;
  choice.highReg = false;
  if (LEADS[byte] === 1 || (hasRex && (byte & 0xf0) === 0x40)) {
    at = readPrefixes(out, code, offset, end);
    return at === 0 ? 0 : readMap(out, code, at, end);
  }
  out.operandSizePrefix = false;
  out.addressSizePrefix = false;
  out.lockPrefix = false;
  out.repeatPrefix = 0;
  out.segmentPrefix = 0;
  out.rex = rex;
  out.hasRex = hasRex;
  choice.prefixBit = 1;
  choice.table = maps.one;
  return at;
}

/** Reads up to behind the first byte that is no prefix. */
function readPrefixes(out: X86Instruction, code: Uint8Array, offset: number, end: number): number {
  let at = offset;
  let rex = 0;
  let hasRex = false;
  let operand16 = false;
  let address32 = false;
  let lock = false;
  let repeat = 0;
  let segment = 0;
  prefixes: for (; ; at++) {
    if (at >= end) return 0;
    const byte = code[at]!;
    switch (byte) {
      case 0x66:
        operand16 = true;
        break;
      case 0x67:
        address32 = true;
        break;
      case 0xf0:
        lock = true;
        break;
      case 0xf2:
      case 0xf3:
        repeat = byte;
        break;
      case 0x26:
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x64:
      case 0x65:
        segment = byte;
        break;
      default:
        if ((byte & 0xf0) !== 0x40) break prefixes;
        rex = byte & 15;
        hasRex = true;
        continue prefixes;
    }
    rex = 0;
    hasRex = false;
  }
  out.operandSizePrefix = operand16;
  out.addressSizePrefix = address32;
  out.lockPrefix = lock;
  out.repeatPrefix = repeat;
  out.segmentPrefix = segment;
  out.rex = rex;
  out.hasRex = hasRex;
  choice.prefixBit = 1 << (repeat === 0xf3 ? 2 : repeat === 0xf2 ? 3 : operand16 ? 1 : 0);
  return at + 1;
}

/** Finds the map by the byte in front of `at`, and reads up to behind the opcode. */
function readMap(out: X86Instruction, code: Uint8Array, at: number, end: number): number {
  const lead = code[at - 1]!;
  if (lead === 0x0f) {
    if (at >= end) return 0;
    const byte = code[at]!;
    if (byte !== 0x38 && byte !== 0x3a) {
      choice.table = maps.legacy0f;
      out.map = 1;
      return at + 1;
    }
    choice.table = byte === 0x38 ? maps.legacy0f38 : maps.legacy0f3a;
    out.map = byte === 0x38 ? 2 : 3;
    return at + 1 >= end ? 0 : at + 2;
  }
  const isXop = lead === 0x8f && at < end && (code[at]! & 0x38) !== 0;
  if (lead === 0xc5 || lead === 0xc4 || lead === 0x62 || isXop) return readVectorPrefix(out, code, at, end);
  choice.table = maps.one;
  return at;
}

/** VEX, EVEX and XOP: the payload behind the lead byte, and the opcode. */
function readVectorPrefix(out: X86Instruction, code: Uint8Array, at: number, end: number): number {
  const lead = code[at - 1]!;
  // None of these takes LOCK, 66, F2, F3 or REX before it.
  if (out.lockPrefix || out.operandSizePrefix || out.repeatPrefix !== 0 || out.hasRex) return 0;
  const payload = lead === 0xc5 ? 1 : lead === 0x62 ? 3 : 2;
  if (at + payload >= end) return 0;
  const p0 = code[at]!;
  let last = p0;
  let map = 1;
  out.rex = (~p0 >> 5) & 4; // R
  if (lead === 0xc5) {
    out.encoding = 'vex';
  } else {
    last = code[at + 1]!;
    out.rex = ((~p0 >> 5) & 7) | (last & 0x80 ? 8 : 0);
    map = p0 & 0x1f;
    out.encoding = lead === 0xc4 ? 'vex' : 'xop';
  }
  out.vvvv = (~last >> 3) & 15;
  choice.prefixBit = 1 << (last & 3);
  if (lead === 0x62) {
    const p2 = code[at + 2]!;
    // P0 bit 3 is 0 and P1 bit 2 is 1 in every EVEX instruction.
    if ((p0 & 8) !== 0 || (last & 4) === 0) return 0;
    map = p0 & 7;
    out.encoding = 'evex';
    choice.highReg = (p0 & 0x10) === 0;
    out.evexP2 = p2;
    out.vvvv |= (~p2 << 1) & 16;
    out.vectorLength = (p2 >> 5) & 3;
    choice.table = maps.evex[map];
  } else {
    out.vectorLength = (last >> 2) & 1;
    choice.table = lead === 0x8f ? (map >= 8 ? maps.xop[map - 8] : null) : maps.vex[map];
  }
  choice.isVector = true;
  out.map = map;
  return choice.table ? at + payload + 1 : 0;
}

/** The first of the rows of an opcode that the prefixes and ModRM fit. */
function findRow(out: X86Instruction, candidates: readonly OpcodeRow[], hasModRm: boolean): OpcodeRow | null {
  const { modRm } = out;
  const { prefixBit, isVector } = choice;
  const regBit = 1 << ((modRm >> 3) & 7);
  const modBit = modRm >= 0xc0 ? 2 : 1;
  for (let i = 0; i < candidates.length; i++) {
    const candidate = candidates[i]!;
    if ((candidate.prefixMask & prefixBit) === 0) continue;
    if (hasModRm) {
      if (candidate.modRm >= 0 && candidate.modRm !== modRm) continue;
      if ((candidate.regMask & regBit) === 0 || (candidate.modMask & modBit) === 0) continue;
    }
    if (!isVector || fitsVector(out, candidate)) return candidate;
  }
  return null;
}

/** W, L and vvvv of a vector prefix fit a row. */
function fitsVector({ modRm, rex, vvvv, encoding, evexP2, vectorLength }: X86Instruction, row: OpcodeRow): boolean {
  if ((row.wMask & ((rex & 8) !== 0 ? 2 : 1)) === 0) return false;
  // With a register operand EVEX.b means rounding, and L'L its mode instead of a length.
  const rounding = encoding === 'evex' && modRm >= 0xc0 && (evexP2 & 0x10) !== 0;
  if ((row.lMask & (1 << vectorLength)) === 0 && !(rounding && row.lMask === 7)) return false;
  return row.usesVvvv || (row.vsib ? vvvv & 15 : vvvv) === 0;
}

/** The row exists, but not with these registers, or not with LOCK. */
function isReserved(out: X86Instruction, row: OpcodeRow): boolean {
  const isRegister = out.modRm >= 0xc0;
  if (choice.isVector) {
    // Mask and tile registers are eight, so the bits that would name more of them are reserved.
    const { eightMask } = row;
    if ((eightMask & 1) !== 0 && (out.rex & 4) !== 0) return true;
    if ((eightMask & 2) !== 0 && isRegister && (out.rex & 1) !== 0 && out.encoding === 'vex') return true;
    if ((eightMask & 4) !== 0 && (out.vvvv & 8) !== 0) return true;
    if (choice.highReg && row.plainReg) return true;
  }
  return out.lockPrefix && !(row.lock && !isRegister);
}

/** SIB and displacement of an operand in memory. */
function readMemory(
  out: X86Instruction,
  code: Uint8Array,
  offset: number,
  from: number,
  end: number,
  row: OpcodeRow,
): number {
  let at = from;
  const mod = out.modRm >> 6;
  const rm = out.modRm & 7;
  let dispBytes = mod === 1 ? 1 : mod === 2 ? 4 : 0;
  if (rm === 4) {
    if (at >= end) return 0;
    out.sib = code[at++]!;
    if (mod === 0 && (out.sib & 7) === 5) dispBytes = 4;
  } else {
    if (row.vsib) return 0;
    if (mod === 0 && rm === 5) {
      dispBytes = 4;
      out.ripRelative = true;
    }
  }
  if (dispBytes === 0) return at;
  if (at + dispBytes > end) return 0;
  out.dispOffset = at - offset;
  out.dispBytes = dispBytes;
  out.disp = readSigned(code, at, dispBytes);
  return at + dispBytes;
}

function readImmediates(
  out: X86Instruction,
  code: Uint8Array,
  offset: number,
  from: number,
  end: number,
  { immediates }: OpcodeRow,
): number {
  let at = from;
  for (let i = 0; i < immediates.length; i++) {
    const size = immediateBytes(immediates[i]!, out.operandSizePrefix, (out.rex & 8) !== 0, out.addressSizePrefix);
    if (at + size > end) return 0;
    if (i === 0) {
      out.immOffset = at - offset;
      out.immBytes = size;
      out.imm = readSigned(code, at, size);
      if (size === 8) out.immHigh = readSigned(code, at + 4, 4);
    }
    at += size;
  }
  return at;
}

/** Where an instruction decoded at `address` leads. */
function flowOf(instruction: X86Instruction, address: Address): Flow {
  const kind = instruction.flow;
  switch (kind) {
    case 'jump':
    case 'call':
    case 'branch':
      return {
        kind,
        target: BigInt.asUintN(64, address + BigInt(instruction.sizeBytes) + BigInt(instruction.imm)),
      };
    default:
      return { kind };
  }
}

/** The numbers that patchers ask for, by name; absent parts are left out. */
function operandsOf(instruction: X86Instruction): Operands {
  const operands: Record<string, number> = {};
  if (instruction.modRmOffset >= 0) {
    operands['mod'] = instruction.modRm >> 6;
    operands['reg'] = ((instruction.modRm >> 3) & 7) | ((instruction.rex & 4) << 1);
    operands['rm'] = (instruction.modRm & 7) | ((instruction.rex & 1) << 3);
  }
  if (instruction.dispBytes !== 0) {
    operands['disp'] = instruction.disp;
    operands['dispOffset'] = instruction.dispOffset;
    operands['dispBytes'] = instruction.dispBytes;
    if (instruction.ripRelative) operands['ripRelative'] = 1;
  }
  if (instruction.immBytes !== 0) {
    operands['imm'] = instruction.imm;
    operands['immOffset'] = instruction.immOffset;
    operands['immBytes'] = instruction.immBytes;
    if (instruction.immBytes === 8) operands['immHigh'] = instruction.immHigh;
  }
  return operands;
}

const scratch = new X86Instruction();

/**
 * The `Isa` of x86-64. Operands of a decoded instruction: `mod`, `reg`, `rm` (with the REX bits),
 * `disp` and `imm` (signed 32-bit; an 8-byte immediate has its upper half in `immHigh`),
 * `dispOffset`, `dispBytes`, `immOffset`, `immBytes` (relative to the first byte), `ripRelative` =
 * 1 for addresses relative to the next instruction.
 */
export const x86Isa: Isa = {
  text: 'capstone-x86-64',
  minInstructionBytes: 1,
  maxInstructionBytes: MAX_INSTRUCTION_BYTES,

  decode(code, offset, address): Instruction {
    const size = decodeInto(scratch, code, offset);
    if (size === 0) return { address, sizeBytes: 1, mnemonic: 'unknown', operands: EMPTY, flow: { kind: 'next' } };
    return {
      address,
      sizeBytes: size,
      mnemonic: scratch.mnemonic,
      operands: operandsOf(scratch),
      flow: flowOf(scratch, address),
    };
  },

  format(instruction): string {
    return instruction.mnemonic;
  },
};
