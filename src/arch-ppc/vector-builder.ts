/**
 * Ops on vector registers for the lifts of VMX and VSX: how a register is read and written, and
 * what several instructions are made of.
 *
 * A vector register is a number of 128 bits in a v128 slot, so element 0, the most significant, is
 * the last lane, and a little-endian quadword in memory is the slot as it stands. VSR 32 to 63 are
 * VR 0 to 31. Of VSR 0 to 31 the upper doubleword is a floating point register; the lower one has a
 * slot of its own.
 */
import type { BlockBuilder, Operand, PureName, Slot } from '../machine/ir.js';

/** Slots that the semantics use. */
export interface VectorSlots {
  /** VR 0 to 31. */
  readonly vectors: readonly Slot[];
  /** Floating point registers, and the lower doublewords of the VSR that they are in. */
  readonly floats: readonly Slot[];
  readonly lower: readonly Slot[];
  /** VSCR as it differs from that of a process that starts (`startingVscr`). */
  readonly vscr: Slot;
}

export const ONES = 0xffff_ffff_ffff_ffffn;
/** Index of no byte: a swizzle gives 0 there. */
const NONE = 0xff;
export const BYTES = 0x0101_0101_0101_0101n;

/** `value` of `bits` bits again and again, in 64. */
export function replicated(value: bigint, bits: number): bigint {
  let out = 0n;
  for (let at = 0; at < 64; at += bits) out |= BigInt.asUintN(bits, value) << BigInt(at);
  return out;
}

/** A number of 16 bytes, the first the least significant, as its halves. */
export function halvesOf(bytes: readonly number[]): readonly [low: bigint, high: bigint] {
  const half = (from: number): bigint => {
    let out = 0n;
    for (let i = 0; i < 8; i++) out |= BigInt(bytes[from + i] ?? NONE) << BigInt(8 * i);
    return out;
  };
  return [half(0), half(8)];
}

export const EQUAL = ['veq8', 'veq16', 'veq32', 'veq64'] as const;

/** Unsigned extremes, of elements up to 4 bytes. */
const GREATEST = ['vmaxu8', 'vmaxu16', 'vmaxu32'] as const;

/** The ops of one instruction. Results are temporaries, so registers are written last. */
export class Vectors {
  constructor(
    readonly b: BlockBuilder,
    private readonly slots: VectorSlots,
  ) {}

  op(name: PureName, a: Operand, c: Operand = 0n): Slot {
    return this.b.to(this.b.vectorTemp(), name, a, c);
  }

  constant(low: bigint, high = low): Slot {
    return this.op('join64', low, high);
  }

  /** A constant in all elements of so many bits. */
  each(value: bigint, bits: number): Slot {
    return this.constant(replicated(value, bits));
  }

  joined(upper: Operand, lower: Operand): Slot {
    return this.op('join64', lower, upper);
  }

  halves(a: Slot): readonly [upper: Slot, lower: Slot] {
    return [this.b.make('high64', a), this.b.make('low64', a)];
  }

  /** VSR `number`; of the first 32 a copy. */
  read(number: number): Slot {
    if (number >= 32) return this.slots.vectors[number - 32]!;
    return this.joined(this.upper(number), this.slots.lower[number]!);
  }

  /** Doublewords of VSR `number`: element 0, and element 1. */
  upper(number: number): Slot {
    const { vectors, floats } = this.slots;
    return number < 32 ? this.b.make('f64bits', floats[number]!) : this.b.make('high64', vectors[number - 32]!);
  }

  /** Element 0 as an operand of floating point. */
  number(number: number): Slot {
    return number < 32 ? this.slots.floats[number]! : this.upper(number);
  }

  low(number: number): Slot {
    const { vectors, lower } = this.slots;
    return number < 32 ? lower[number]! : this.b.make('low64', vectors[number - 32]!);
  }

  /** Writes both doublewords. */
  write(number: number, upper: Operand, lower: Operand): void {
    const { b, slots } = this;
    if (number >= 32) {
      b.to(slots.vectors[number - 32]!, 'join64', lower, upper);
      return;
    }
    const value = b.temp();
    b.mov(value, upper);
    b.mov(slots.lower[number]!, lower);
    b.to(slots.floats[number]!, 'bitsf64', value);
  }

  writeVector(number: number, value: Slot): void {
    if (number >= 32) this.b.to(this.slots.vectors[number - 32]!, 'mov128', value);
    else this.write(number, this.b.make('high64', value), this.b.make('low64', value));
  }

  /** Bytes of `a`, and of `c` as 16 to 31, by their numbers from element 0 on; 32 is a zero. */
  pick(a: Slot, c: Slot, bytes: readonly number[]): Slot {
    // Byte i of the elements is byte 15 - i of the number.
    const ofNumber = [...bytes].reverse();
    const of = (from: Slot, number: (each: number) => number): Slot =>
      this.op('vswizzle', from, this.constant(...halvesOf(ofNumber.map(number))));
    if (a === c) return of(a, (each) => (each < 32 ? 15 - (each & 15) : NONE));
    const first = of(a, (each) => (each < 16 ? 15 - each : NONE));
    return this.op('or128', first, of(c, (each) => (each < 16 || each >= 32 ? NONE : 31 - each))); // prettier-ignore
  }

  /** The same where the numbers are in a vector. */
  permute(a: Slot, c: Slot, by: Slot): Slot {
    const numbers = this.op('and128', by, this.each(31n, 8));
    // Numbers of the other operand are negative here, and above 15 there: nothing is there.
    const first = this.op('vswizzle', a, this.op('vsub8', this.each(15n, 8), numbers));
    const second = this.op('vswizzle', c, this.op('vsub8', this.each(31n, 8), numbers));
    return this.op('or128', first, second);
  }

  not(a: Slot): Slot {
    return this.op('xor128', a, this.constant(ONES));
  }

  /** Bits of `a` where `mask` has ones, else those of `c`. */
  choose(mask: Slot, a: Slot, c: Slot): Slot {
    return this.op('or128', this.op('and128', a, mask), this.op('andnot128', c, mask));
  }

  /** Unsigned a > c, of elements of `1 << log2` bytes: not a <= c. */
  above(a: Slot, c: Slot, log2: number): Slot {
    if (log2 === 3) {
      const sign = this.constant(1n << 63n);
      return this.op('vgt64', this.op('xor128', a, sign), this.op('xor128', c, sign));
    }
    return this.not(this.op(EQUAL[log2]!, this.op(GREATEST[log2]!, a, c), c));
  }

  /** A slot that is not 0 where two vectors differ. */
  differ(a: Slot, c: Slot): Slot {
    return this.some(this.op('xor128', a, c));
  }

  /** A slot that is not 0 where a vector is not. */
  some(a: Slot): Slot {
    const [upper, lower] = this.halves(a);
    return this.b.make('or', upper, lower);
  }

  /** Notes in VSCR that an element did not fit, where `what` is not 0. */
  saturated(what: Slot): void {
    const { vscr } = this.slots;
    this.b.to(vscr, 'or', vscr, this.b.make('setne', what, 0n));
  }
}

export type VectorEmit = (v: Vectors, x: readonly Slot[]) => Slot;

/** Field 6 of CR from a comparison: all ones, or all zeros. */
export function recordAll(v: Vectors, x: { setBits(field: number, bits: Operand): void }, result: Slot): void {
  const { b } = v;
  const [upper, lower] = v.halves(result);
  const all = b.make('seteq', b.make('and', lower, upper), ONES);
  const none = b.make('seteq', b.make('or', lower, upper), 0n);
  x.setBits(6, b.make('or', b.make('shl', all, 3n), b.make('shl', none, 1n)));
}
