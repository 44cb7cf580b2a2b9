/** Single elements of vector registers in ops. */
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';

/** What is needed of the instruction being lifted. */
interface Place {
  readonly b: BlockBuilder;
}

export type ElementBits = 8 | 16 | 32 | 64;

export interface Element {
  readonly bits: ElementBits;
  readonly high: boolean;
  /** Bits from the low end of its half. */
  readonly shift: bigint;
}

/** An element by its number. */
export function elementAt(bits: ElementBits, index: number): Element {
  const at = index * bits;
  return { bits, high: at >= 64, shift: BigInt(at % 64) };
}

/**
 * The element that imm5 names: the lowest bit set is the size, the index stands above it. `imm4` is
 * an index by size.
 */
export function elementOf(imm5: number, imm4?: number): Element {
  const size = 31 - Math.clz32(imm5 & -imm5);
  return elementAt(([8, 16, 32, 64] as const)[size]!, imm4 === undefined ? imm5 >> (size + 1) : imm4 >> size);
}

/** The low bits of a number. */
export const truncated = (x: Place, value: Operand, bits: ElementBits): Operand =>
  bits === 64 ? value : x.b.make(`zx${bits}`, value);

/** The 64-bit number in which `value` of `bits` stands again and again. */
export function replicate(value: bigint, bits: number): bigint {
  let out = 0n;
  for (let at = 0; at < 64; at += bits) out |= BigInt.asUintN(bits, value) << BigInt(at);
  return out;
}

/** Both halves, or the lower one, from one number of 64 bits. */
export function setVector(x: Place, full: boolean, d: Slot, value: Operand): void {
  if (full) x.b.to(d, 'join64', value, value);
  else x.b.to(d, 'wide64', value);
}

/** Every element of a vector, or of its lower half, from the low bits of a number. */
export function fillVector(x: Place, full: boolean, d: Slot, bits: ElementBits, value: Operand): void {
  const low = truncated(x, value, bits);
  setVector(x, full, d, bits === 64 ? low : x.b.make('mul', low, replicate(1n, bits)));
}

export function readElement(x: Place, vector: Slot, { bits, high, shift }: Element): Operand {
  const half = x.b.make(high ? 'high64' : 'low64', vector);
  return truncated(x, shift === 0n ? half : x.b.make('shr', half, shift), bits);
}

export function writeElement(x: Place, vector: Slot, { bits, high, shift }: Element, value: Operand): void {
  const { b } = x;
  const halves: Operand[] = [b.make('low64', vector), b.make('high64', vector)];
  const ones = BigInt.asUintN(bits, -1n) << shift;
  const rest = b.make('and', halves[high ? 1 : 0]!, BigInt.asUintN(64, ~ones));
  const placed = b.make('shl', truncated(x, value, bits), shift);
  halves[high ? 1 : 0] = bits === 64 ? value : b.make('or', rest, placed);
  b.to(vector, 'join64', halves[0]!, halves[1]!);
}
