/**
 * Operands of a decoded x86-64 instruction, as the lifter wants them: which register of which
 * width, which address, which constant. The bytes were taken apart by `decodeInto` of `isa.ts`, the
 * operand codes come from the rows of `opcode-map.ts`.
 *
 *   48 03 44 8b 08   add rax,[rbx+rcx*4+8]   row `add Gv,Ev`
 *                    Gv: general register, ModRM.reg, 8 bytes by REX.W
 *                    Ev: memory, base rbx, index rcx shifted by 2, displacement 8, 8 bytes
 *
 * Register numbers 4 to 7 of byte operands are ah, ch, dh, bh where no REX stands before the
 * opcode, and spl, bpl, sil, dil with one: `high` tells them apart. An address relative to rip is
 * made absolute here. The segments ds, es, ss and cs begin at 0 in 64-bit mode, so only fs and gs
 * are kept.
 *
 * Source: Intel SDM volume 2, 2.1, 2.2 and appendix A.2.
 */
import type { Address } from '../units.js';
import type { X86Instruction } from './isa.js';
import type { OpcodeRow } from './opcode-map.js';

export type OperandBytes = 1 | 2 | 4 | 8 | 16;

export interface RegisterOperand {
  readonly kind: 'register';
  /** 0 to 15: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15. */
  readonly number: number;
  readonly bytes: OperandBytes;
  /** Bits 8 to 15 of the register. */
  readonly high: boolean;
}

export interface VectorOperand {
  readonly kind: 'vector';
  /** 0 to 15 (31 under EVEX): xmm; `VECTORS` of state.ts while an instruction of AVX is lifted. */
  readonly number: number;
  readonly bytes: OperandBytes;
}

export interface MemoryOperand {
  readonly kind: 'memory';
  readonly bytes: OperandBytes;
  /** Register numbers, -1 where there is none. */
  readonly base: number;
  readonly index: number;
  /** The index is shifted left by this. */
  readonly scale: 0 | 1 | 2 | 3;
  /** Signed; the absolute address when there is neither base nor index. */
  readonly displacement: bigint;
  readonly segment: 'fs' | 'gs' | null;
  /** 67: the sum has 32 bits before the segment is added. */
  readonly address32: boolean;
}

export interface ImmediateOperand {
  readonly kind: 'immediate';
  /** Sign-extended. */
  readonly value: bigint;
  readonly bytes: OperandBytes;
}

/**
 * Segment, control, debug, mask, tile and MMX registers: `code` is the first letter of the operand
 * code.
 */
export interface OtherOperand {
  readonly kind: 'other';
  readonly code: string;
  readonly number: number;
}

export type X86Operand = RegisterOperand | VectorOperand | MemoryOperand | ImmediateOperand | OtherOperand;

/** Bytes of the operand size: REX.W, then 66. */
export function operandBytes(instruction: X86Instruction): 2 | 4 | 8 {
  return (instruction.rex & 8) !== 0 ? 8 : instruction.operandSizePrefix ? 2 : 4;
}

function general(number: number, bytes: OperandBytes, instruction: X86Instruction): RegisterOperand {
  const high = bytes === 1 && !instruction.hasRex && instruction.encoding === 'legacy' && number >= 4 && number < 8;
  return { kind: 'register', number: high ? number - 4 : number, bytes, high };
}

function memory(instruction: X86Instruction, bytes: OperandBytes, address: Address): MemoryOperand {
  const { modRm, rex, sib, segmentPrefix } = instruction;
  const segment = segmentPrefix === 0x64 ? 'fs' : segmentPrefix === 0x65 ? 'gs' : null;
  const address32 = instruction.addressSizePrefix;
  const displacement = BigInt(instruction.disp);
  if (instruction.ripRelative) {
    const next = address + BigInt(instruction.sizeBytes);
    const absolute = BigInt.asUintN(address32 ? 32 : 64, next + displacement);
    return { kind: 'memory', bytes, base: -1, index: -1, scale: 0, displacement: absolute, segment, address32 };
  }
  let base = (modRm & 7) | ((rex & 1) << 3);
  let index = -1;
  let scale: MemoryOperand['scale'] = 0;
  if ((modRm & 7) === 4) {
    index = ((sib >> 3) & 7) | ((rex & 2) << 2);
    if (index === 4) index = -1;
    else scale = ([0, 1, 2, 3] as const)[sib >> 6]!;
    base = (sib & 7) === 5 && modRm < 0x40 ? -1 : (sib & 7) | ((rex & 1) << 3);
  }
  return { kind: 'memory', bytes, base, index, scale, displacement, segment, address32 };
}

/** The operand at `at` of a string instruction: rsi or rdi. */
function string(code: string, instruction: X86Instruction, bytes: OperandBytes): MemoryOperand {
  const { segmentPrefix, addressSizePrefix } = instruction;
  // The destination is always in es.
  const segment = code === 'Y' ? null : segmentPrefix === 0x64 ? 'fs' : segmentPrefix === 0x65 ? 'gs' : null;
  return {
    kind: 'memory',
    bytes,
    base: code === 'X' ? 6 : 7,
    index: -1,
    scale: 0,
    displacement: 0n,
    segment,
    address32: addressSizePrefix,
  };
}

/** Registers that a code names; bytes 0: of the operand size. */
const FIXED: Readonly<Record<string, readonly [number: number, bytes: OperandBytes | 0]>> = {
  AL: [0, 1],
  CL: [1, 1],
  DX: [2, 2],
  rAX: [0, 0],
  eAX: [0, 0],
};

/**
 * Bytes by size letter: of the operand size (0) for v, z and no letter, 4 or with REX.W 8 (-1) for
 * y.
 */
const SIZES: Readonly<Record<string, OperandBytes | 0 | -1>> = { b: 1, w: 2, d: 4, q: 8, x: 16, y: -1 };

/** An operand code of a row, taken apart. */
interface OperandCode {
  /** Where the operand is: the first letter, `1`, or `fixed`. */
  readonly place: string;
  readonly size: OperandBytes | 0 | -1;
  /** Register number, for `fixed`. */
  readonly number: number;
}

const codes = new Map<string, OperandCode>();

function codeOf(text: string): OperandCode {
  const known = codes.get(text);
  if (known) return known;
  const fixed = FIXED[text];
  const code: OperandCode = fixed
    ? { place: 'fixed', size: fixed[1], number: fixed[0] }
    : { place: text[0]!, size: SIZES[text.slice(1)] ?? 0, number: 0 };
  codes.set(text, code);
  return code;
}

/**
 * The operands of an instruction that `decodeInto` has filled in.
 * @param code     the bytes; `offset` is where the instruction begins
 * @param address  guest address of the instruction
 */
export function operandsOf(
  instruction: X86Instruction,
  code: Uint8Array,
  offset: number,
  address: Address,
): readonly X86Operand[] {
  const { row, rex } = instruction;
  if (!row) return [];
  let immediateAt = instruction.immOffset;
  const { operands } = row;
  // As long as it will be: an array that grows begins with room for 17.
  const out = new Array<X86Operand>(operands.length);
  for (let i = 0; i < operands.length; i++) {
    const of = codeOf(operands[i]!);
    const { place, size } = of;
    const bytes = size > 0 ? (size as OperandBytes) : size < 0 && (rex & 8) === 0 ? 4 : operandBytes(instruction);
    if (place === 'I' || place === 'J') {
      const width = immediateAt === instruction.immOffset ? instruction.immBytes : 1;
      out[i] = immediate(instruction, code, offset, immediateAt, width, bytes);
      immediateAt += width;
    } else if (place === 'O') {
      out[i] = absolute(instruction, littleEndian(code, offset + immediateAt, instruction.immBytes), bytes);
    } else out[i] = registerOrMemory(of, instruction, row, bytes, address);
  }
  return out;
}

/** The immediate of `width` bytes at `at` in the instruction; the first one is decoded already. */
function immediate(
  instruction: X86Instruction,
  code: Uint8Array,
  offset: number,
  at: number,
  width: number,
  bytes: OperandBytes,
): ImmediateOperand {
  const value =
    at === instruction.immOffset && width <= 4
      ? BigInt(instruction.imm)
      : BigInt.asIntN(8 * width, littleEndian(code, offset + at, width));
  return { kind: 'immediate', value, bytes };
}

/** An address that stands in the instruction. */
function absolute(instruction: X86Instruction, displacement: bigint, bytes: OperandBytes): MemoryOperand {
  const { segmentPrefix, addressSizePrefix } = instruction;
  const segment = segmentPrefix === 0x64 ? 'fs' : segmentPrefix === 0x65 ? 'gs' : null;
  return {
    kind: 'memory', bytes, base: -1, index: -1, scale: 0, displacement, segment, address32: addressSizePrefix,
  }; // prettier-ignore
}

/** An operand that ModRM, the opcode, a prefix or the code itself names. */
function registerOrMemory(
  { place, number }: OperandCode,
  instruction: X86Instruction,
  { modReg }: OpcodeRow,
  bytes: OperandBytes,
  address: Address,
): X86Operand {
  const { modRm, rex } = instruction;
  const isRegister = modRm >= 0xc0 || modReg;
  const reg = ((modRm >> 3) & 7) | ((rex & 4) << 1);
  const rm = (modRm & 7) | ((rex & 1) << 3);
  switch (place) {
    case 'E':
    case 'R':
    case 'M':
      return isRegister ? general(rm, bytes, instruction) : memory(instruction, bytes, address);
    case 'G':
      return general(reg, bytes, instruction);
    case 'Z':
      return general((instruction.opcode & 7) | ((rex & 1) << 3), bytes, instruction);
    case 'fixed':
      return { kind: 'register', number, bytes, high: false };
    case '1':
      return { kind: 'immediate', value: 1n, bytes: 1 };
    case 'B':
      return general(instruction.vvvv & 15, bytes, instruction);
    case 'V':
      return { kind: 'vector', number: reg, bytes: 16 };
    case 'U':
    case 'W':
      return isRegister ? { kind: 'vector', number: rm, bytes: 16 } : memory(instruction, bytes, address);
    case 'H':
      return { kind: 'vector', number: instruction.vvvv, bytes: 16 };
    case 'L':
      return { kind: 'vector', number: (instruction.imm >> 4) & 15, bytes: 16 };
    case 'P':
    case 'Q':
    case 'N': {
      // MMX rows that exist on XMM registers under 66.
      const isMmx = !instruction.operandSizePrefix || instruction.repeatPrefix !== 0;
      if (place !== 'P' && !isRegister) return memory(instruction, isMmx ? 8 : 16, address);
      const which = place === 'P' ? reg : rm;
      if (isMmx) return { kind: 'other', code: place, number: which & 7 };
      return { kind: 'vector', number: which, bytes: 16 };
    }
    case 'X':
    case 'Y':
      return string(place, instruction, bytes);
    default:
      return { kind: 'other', code: place, number: place === 'S' || place === 'C' || place === 'D' ? reg : rm };
  }
}

function littleEndian(code: Uint8Array, at: number, size: number): bigint {
  let value = 0n;
  for (let i = size - 1; i >= 0; i--) value = (value << 8n) | BigInt(code[at + i]!);
  return value;
}
