/**
 * Operands of a decoded x86-64 instruction, as the lifter wants them: which register of which width, which address, which
 * constant. The bytes were taken apart by `decodeInto` of `isa.ts`, the operand codes come from the rows of `opcode-map.ts`.
 *
 *   48 03 44 8b 08   add rax,[rbx+rcx*4+8]   row `add Gv,Ev`
 *                    Gv: general register, ModRM.reg, 8 bytes by REX.W
 *                    Ev: memory, base rbx, index rcx shifted by 2, displacement 8, 8 bytes
 *
 * Register numbers 4 to 7 of byte operands are ah, ch, dh, bh where no REX stands before the opcode, and spl, bpl, sil, dil
 * with one: `high` tells them apart. An address relative to rip is made absolute here. The segments ds, es, ss and cs begin
 * at 0 in 64-bit mode, so only fs and gs are kept.
 *
 * Source: Intel SDM volume 2, 2.1, 2.2 and appendix A.2.
 */
import type { Address } from '../units.js';
import type { X86Instruction } from './isa.js';

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
  /** 0 to 15 (31 under EVEX): xmm. */
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

/** Segment, control, debug, mask, tile and MMX registers: `code` is the first letter of the operand code. */
export interface OtherOperand {
  readonly kind: 'other';
  readonly code: string;
  readonly number: number;
}

export type X86Operand = RegisterOperand | VectorOperand | MemoryOperand | ImmediateOperand | OtherOperand;

/** Bytes of an operand code's size letter. */
function sizeOf(letters: string, instruction: X86Instruction): OperandBytes {
  const wide = (instruction.rex & 8) !== 0;
  switch (letters) {
    case 'b':
      return 1;
    case 'w':
      return 2;
    case 'd':
      return 4;
    case 'q':
      return 8;
    case 'x':
      return 16;
    case 'y':
      return wide ? 8 : 4;
    // v, z and no letter: by the operand size
    default:
      return wide ? 8 : instruction.operandSizePrefix ? 2 : 4;
  }
}

/** Bytes of the operand size: REX.W, then 66. */
export function operandBytes(instruction: X86Instruction): 2 | 4 | 8 {
  return (instruction.rex & 8) !== 0 ? 8 : instruction.operandSizePrefix ? 2 : 4;
}

function general(number: number, bytes: OperandBytes, instruction: X86Instruction): RegisterOperand {
  const high = bytes === 1 && !instruction.hasRex && instruction.encoding === 'legacy' && number >= 4 && number < 8;
  return { kind: 'register', number: high ? number - 4 : number, bytes, high };
}

function memory(instruction: X86Instruction, bytes: OperandBytes, next: Address): MemoryOperand {
  const { modRm, rex, sib, segmentPrefix } = instruction;
  const segment = segmentPrefix === 0x64 ? 'fs' : segmentPrefix === 0x65 ? 'gs' : null;
  const address32 = instruction.addressSizePrefix;
  const displacement = BigInt(instruction.disp);
  if (instruction.ripRelative) {
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

const FIXED: Readonly<Record<string, readonly [number: number, bytes: OperandBytes | 0]>> = {
  AL: [0, 1],
  CL: [1, 1],
  DX: [2, 2],
  // By the operand size.
  rAX: [0, 0],
  eAX: [0, 0],
};

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
  const { row, modRm, rex } = instruction;
  if (!row) return [];
  const next = address + BigInt(instruction.sizeBytes);
  const isRegister = modRm >= 0xc0 || row.modReg;
  const reg = ((modRm >> 3) & 7) | ((rex & 4) << 1);
  const rm = (modRm & 7) | ((rex & 1) << 3);
  let immediateAt = instruction.immOffset;
  return row.operands.map((operand): X86Operand => {
    const fixed = FIXED[operand];
    if (fixed) {
      const bytes = fixed[1] === 0 ? operandBytes(instruction) : fixed[1];
      return { kind: 'register', number: fixed[0], bytes, high: false };
    }
    if (operand === '1') return { kind: 'immediate', value: 1n, bytes: 1 };
    const place = operand[0]!;
    const bytes = sizeOf(operand.slice(1), instruction);
    switch (place) {
      case 'E':
      case 'R':
      case 'M':
        return isRegister ? general(rm, bytes, instruction) : memory(instruction, bytes, next);
      case 'G':
        return general(reg, bytes, instruction);
      case 'B':
        return general(instruction.vvvv & 15, bytes, instruction);
      case 'Z':
        return general((instruction.opcode & 7) | ((rex & 1) << 3), bytes, instruction);
      case 'V':
        return { kind: 'vector', number: reg, bytes: 16 };
      case 'U':
      case 'W':
        return isRegister ? { kind: 'vector', number: rm, bytes: 16 } : memory(instruction, bytes, next);
      case 'H':
        return { kind: 'vector', number: instruction.vvvv, bytes: 16 };
      case 'P':
      case 'Q':
      case 'N': {
        // MMX rows that exist on XMM registers under 66.
        const isMmx = !instruction.operandSizePrefix || instruction.repeatPrefix !== 0;
        if (place !== 'P' && !isRegister) return memory(instruction, isMmx ? 8 : 16, next);
        const number = place === 'P' ? reg : rm;
        return isMmx ? { kind: 'other', code: place, number: number & 7 } : { kind: 'vector', number, bytes: 16 };
      }
      case 'X':
      case 'Y':
        return string(place, instruction, bytes);
      case 'I':
      case 'J': {
        const size = immediateAt === instruction.immOffset ? instruction.immBytes : 1;
        let value = 0n;
        for (let i = size - 1; i >= 0; i--) value = (value << 8n) | BigInt(code[offset + immediateAt + i]!);
        immediateAt += size;
        const signed = BigInt.asIntN(8 * size, value);
        return { kind: 'immediate', value: signed, bytes: sizeOf(operand.slice(1), instruction) };
      }
      case 'O': {
        let value = 0n;
        for (let i = instruction.immBytes - 1; i >= 0; i--) {
          value = (value << 8n) | BigInt(code[offset + immediateAt + i]!);
        }
        const { segmentPrefix, addressSizePrefix } = instruction;
        const segment = segmentPrefix === 0x64 ? 'fs' : segmentPrefix === 0x65 ? 'gs' : null;
        return {
          kind: 'memory', bytes, base: -1, index: -1, scale: 0, displacement: value, segment, address32: addressSizePrefix,
        }; // prettier-ignore
      }
      default:
        return { kind: 'other', code: place, number: place === 'S' || place === 'C' || place === 'D' ? reg : rm };
    }
  });
}
