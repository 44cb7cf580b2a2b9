/**
 * Instructions of AVX as one of SSE on one or two halves of 128 bits (`vex.ts` has the lesson): the
 * parts that all of them are made of.
 */
import { ElftraceError } from '../errors.js';
import type { PureName, Slot } from '../machine/ir.js';
import type { VectorOperand, X86Operand } from './decode.js';
import type { Lift, Lifting } from './lifting.js';
import { HIGH_VECTOR, RESULT_NUMBERS, VECTOR, VECTORS, XMM, YMM } from './state.js';

export type Half = 0 | 1;
export const vectorAt = (number: number): VectorOperand => ({ kind: 'vector', number, bytes: 16 });
export const isWide = (x: Lifting): boolean => x.instruction.vectorLength === 1;
export const halvesOf = (x: Lifting): readonly Half[] => (isWide(x) ? [0, 1] : [0]);

/** The upper or lower half of an operand; what is no vector has one. */
export function halfOf(operand: X86Operand, half: Half): X86Operand {
  if (half === 0) return operand;
  if (operand.kind === 'vector') return vectorAt(operand.number + 16);
  if (operand.kind === 'memory') return { ...operand, displacement: operand.displacement + 16n };
  return operand;
}

/** The operands of an instruction: target, first one where it has three, the others. */
export interface Parts {
  readonly target: X86Operand;
  readonly first: VectorOperand | null;
  readonly others: readonly X86Operand[];
}

export function partsOf(x: Lifting): Parts {
  const [target, ...rest] = x.operands;
  const { operands } = x.instruction.row!;
  if (!target) throw new ElftraceError('internal', 'an instruction of AVX has operands');
  const first = rest[0];
  // Shifts by a constant have their target in vvvv, and the operand that they shift behind it.
  const isFirst = operands[1]?.startsWith('H') === true || operands[0]?.startsWith('H') === true;
  if (!isFirst || first?.kind !== 'vector') return { target, first: null, others: rest };
  return { target, first, others: rest.slice(1) };
}

/** Writes a register from the result slots; the upper half becomes 0 where there is one only. */
export function commit(x: Lifting, number: number, wide: boolean): void {
  const { b } = x;
  const [low, high] = RESULT_NUMBERS;
  b.to(XMM[number]!, 'mov128', VECTORS[low]!);
  if (wide) b.to(YMM[number]!, 'mov128', VECTORS[high]!);
  else clearUpper(x, number);
}

export function clearUpper(x: Lifting, number: number): void {
  x.b.to(YMM[number]!, 'xor128', YMM[number]!, YMM[number]!);
}

/** What differs from the instruction of SSE. */
export interface Variant {
  /** The target is a vector of 128 bits whatever VEX.L says. */
  readonly single?: boolean;
  /** The control byte of the upper half is shifted by this. */
  readonly controlShift?: number;
  /** The operand behind the first one, for a half. */
  readonly source?: (operand: X86Operand, half: Half) => X86Operand;
}

/** The semantics of SSE on each half, in place of their target a result. */
function computeHalves(
  x: Lifting,
  emit: Lift,
  { single = false, controlShift = 0, source = halfOf }: Variant = {},
): number {
  const { target, first, others } = partsOf(x);
  const all = x.operands;
  for (const half of single ? ([0] as const) : halvesOf(x)) {
    const result = RESULT_NUMBERS[half];
    if (first) x.b.to(VECTORS[result]!, 'mov128', VECTORS[first.number + 16 * half]!);
    const rest = others.map((each, i) => {
      if (each.kind !== 'immediate') return i === 0 ? source(each, half) : halfOf(each, half);
      return half === 0 ? each : { ...each, value: BigInt.asUintN(8, each.value) >> BigInt(controlShift) };
    });
    x.operands = [vectorAt(result), ...rest];
    const ended = emit(x);
    x.operands = all;
    if (ended) throw new ElftraceError('internal', `${x.instruction.mnemonic} is no helper's`);
    x.b.reuseTemporaries();
  }
  if (target.kind !== 'vector') throw new ElftraceError('internal', 'no vector target');
  return target.number;
}

/** The same, and the target is written. */
export const onHalves =
  (emit: Lift, variant: Variant = {}): Lift =>
  (x) => {
    const number = computeHalves(x, emit, variant);
    commit(x, number, variant.single !== true && isWide(x));
    return undefined;
  };

/** Of results whose upper halves are 0 the lower ones make the target: what narrows elements. */
export const narrowing =
  (emit: Lift): Lift =>
  (x) => {
    const number = computeHalves(x, emit);
    const { b } = x;
    const [low, high] = RESULT_NUMBERS.map((each) => VECTORS[each]!) as [Slot, Slot];
    if (isWide(x)) b.to(low, 'join64', b.make('low64', low), b.make('low64', high));
    commit(x, number, false);
    return undefined;
  };

/** On 128 bits with a vector as the target; as SSE has it with another one. */
export const single =
  (emit: Lift): Lift =>
  (x) =>
    x.operand(0).kind === 'vector' ? onHalves(emit, { single: true })(x) : emit(x);

/** The halves of an operand; memory is loaded, all of it before anything is written. */
export function sources(x: Lifting, operand: X86Operand): readonly Slot[] {
  return halvesOf(x).map((half) => {
    const each = halfOf(operand, half);
    if (each.kind !== 'memory') return x.vector(each);
    const place = x.place(each);
    const slot = half === 0 ? VECTOR : HIGH_VECTOR;
    x.b.load('ldv128', slot, place.base, place.offset);
    return slot;
  });
}

/** One op for each half, of one or two operands, or exchanged ones. */
export const direct =
  (name: PureName, isMirrored = false): Lift =>
  (x) => {
    const { target, first, others } = partsOf(x);
    const from = sources(x, others[0]!);
    if (target.kind !== 'vector') throw new ElftraceError('internal', 'no vector target');
    halvesOf(x).forEach((half, i) => {
      const d = VECTORS[target.number + 16 * half]!;
      if (!first) x.b.to(d, name, from[i]!);
      else {
        const a = VECTORS[first.number + 16 * half]!;
        x.b.to(d, name, isMirrored ? from[i]! : a, isMirrored ? a : from[i]!);
      }
    });
    if (!isWide(x)) clearUpper(x, target.number);
    return undefined;
  };
