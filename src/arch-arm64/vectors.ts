/**
 * Advanced SIMD on integers, in lane ops: comparisons, sums, pairs, shifts by constants,
 * permutations, narrowing and widening. Every op works on 16 bytes; of a form of 8 bytes the upper
 * half of the result is cleared at the end.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import { integerElement } from './vector-rows.js';
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';

/** What the semantics need of the instruction being lifted. */
export interface Place {
  readonly b: BlockBuilder;
}
export interface Fields {
  n(name: string): number;
  has(name: string): boolean;
}
type VectorLift = (x: Place, f: Fields) => undefined;
export type PureName = Parameters<BlockBuilder['to']>[1];

/** Log2 of the bytes of an element. */
export type Size = 0 | 1 | 2 | 3;
const sizeOf = (f: Fields): Size => f.n('size') as Size;
export const bitsOf = (size: Size): number => 8 << size;

/** Slots that the semantics use. */
export interface VectorSlots {
  /** v0 to v31. */
  readonly registers: readonly Slot[];
}

export const ADD = ['vadd8', 'vadd16', 'vadd32', 'vadd64'] as const;
export const SUB = ['vsub8', 'vsub16', 'vsub32', 'vsub64'] as const;
const EQUAL = ['veq8', 'veq16', 'veq32', 'veq64'] as const;
const GREATER = ['vgt8', 'vgt16', 'vgt32', 'vgt64'] as const;
/** Extremes, of elements up to 4 bytes. */
export const EXTREMES = {
  smax: ['vmaxs8', 'vmaxs16', 'vmaxs32'],
  umax: ['vmaxu8', 'vmaxu16', 'vmaxu32'],
  smin: ['vmins8', 'vmins16', 'vmins32'],
  umin: ['vminu8', 'vminu16', 'vminu32'],
} as const;
const ABSOLUTE = ['vabs8', 'vabs16', 'vabs32'] as const;
/** Shifts of 2 to 8 bytes. */
const SHIFT_LEFT = ['vshl16', 'vshl32', 'vshl64'] as const;
const SHIFT_RIGHT = ['vshr16', 'vshr32', 'vshr64'] as const;
const SHIFT_SIGNED = ['vsar16', 'vsar32'] as const;
export const WIDEN = { signed: ['vsx8', 'vsx16', 'vsx32'], unsigned: ['vzx8', 'vzx16', 'vzx32'] } as const;

export const ONES = 0xffff_ffff_ffff_ffffn;
/** Index of no byte: a swizzle gives 0 there. */
const NONE = 0xff;

/** `value` of `bits` bits again and again, in 64. */
export function replicated(value: bigint, bits: number): bigint {
  let out = 0n;
  for (let at = 0; at < 64; at += bits) out |= BigInt.asUintN(bits, value) << BigInt(at);
  return out;
}

/** One instruction's ops. Slots named `d` may be those of operands: they are written last. */
export class Lanes {
  private readonly one: Slot;
  private readonly two: Slot;
  private readonly indices: Slot;
  /** Free for the semantics. */
  readonly first: Slot;
  readonly second: Slot;

  constructor(readonly b: BlockBuilder) {
    const free = (): Slot => b.vectorTemp();
    [this.one, this.two, this.indices, this.first, this.second] = [free(), free(), free(), free(), free()];
  }

  /** A vector of two numbers, in a slot that the next call takes again. */
  constant(low: bigint, high = low): Slot {
    this.b.to(this.indices, 'join64', low, high);
    return this.indices;
  }

  each(value: bigint, size: Size): Slot {
    return this.constant(replicated(value, bitsOf(size)));
  }

  not(d: Slot, a: Slot): void {
    this.b.to(d, 'xor128', a, this.constant(ONES));
  }

  /** d := bytes of `a` by their numbers. */
  pick(d: Slot, a: Slot, bytes: readonly number[]): void {
    const half = (from: number): bigint => {
      let out = 0n;
      for (let i = 0; i < 8; i++) out |= BigInt(bytes[from + i] ?? NONE) << BigInt(8 * i);
      return out;
    };
    this.b.to(d, 'vswizzle', a, this.constant(half(0), half(8)));
  }

  /** The same with 16 to 31 for the bytes of `c`. */
  pickOfTwo(d: Slot, a: Slot, c: Slot, bytes: readonly number[]): void {
    this.pick(
      this.one,
      a,
      bytes.map((each) => (each < 16 ? each : NONE)),
    );
    this.pick(
      this.two,
      c,
      bytes.map((each) => (each < 16 ? NONE : each - 16)),
    );
    this.b.to(d, 'or128', this.one, this.two);
  }

  /** d := value; of 8 bytes alone where `full` is 0. */
  finish(full: number, d: Slot, value: Slot): void {
    if (full === 1) this.b.to(d, 'mov128', value);
    else this.b.to(d, 'wide64', this.b.make('low64', value));
  }

  /** a * b modulo the size of the elements. */
  product(d: Slot, a: Slot, c: Slot, size: Size): void {
    const { b, one, two } = this;
    if (size === 1) b.to(d, 'vmul16', a, c);
    else if (size === 2) b.to(d, 'vmul32', a, c);
    else {
      // Of bytes: the even and the odd ones in fields of 16 bits.
      b.to(one, 'vshr16', a, 8n);
      b.to(two, 'vshr16', c, 8n);
      b.to(one, 'vmul16', one, two);
      b.to(one, 'vshl16', one, 8n);
      b.to(two, 'vmul16', a, c);
      b.to(two, 'and128', two, this.each(0xffn, 1));
      b.to(d, 'or128', one, two);
    }
  }

  shiftLeft(d: Slot, a: Slot, size: Size, count: number): void {
    const { b } = this;
    if (size > 0) b.to(d, SHIFT_LEFT[(size - 1) as 0 | 1 | 2], a, BigInt(count));
    else {
      b.to(d, 'vshl16', a, BigInt(count));
      b.to(d, 'and128', d, this.each(0xffn << BigInt(count), 0));
    }
  }

  /** `count` may be the width. */
  shiftRight(d: Slot, a: Slot, size: Size, count: number): void {
    const { b } = this;
    if (count === bitsOf(size)) b.to(d, 'mov128', this.constant(0n));
    else if (size > 0) b.to(d, SHIFT_RIGHT[(size - 1) as 0 | 1 | 2], a, BigInt(count));
    else {
      b.to(d, 'vshr16', a, BigInt(count));
      b.to(d, 'and128', d, this.each(0xffn >> BigInt(count), 0));
    }
  }

  shiftSigned(d: Slot, a: Slot, size: Size, count: number): void {
    const { b } = this;
    const bits = bitsOf(size);
    const by = Math.min(count, bits - 1);
    if (size === 1 || size === 2) {
      b.to(d, SHIFT_SIGNED[size === 1 ? 0 : 1], a, BigInt(by));
      return;
    }
    // The sign is where bit 0 of the sign went: (x ^ s) - s.
    this.shiftRight(d, a, size, by);
    const sign = this.each(1n << BigInt(bits - 1 - by), size);
    b.to(d, 'xor128', d, sign);
    b.to(d, SUB[size], d, sign);
  }

  /** Unsigned a >= c. */
  notBelow(d: Slot, a: Slot, c: Slot, size: Size): void {
    const { b, one, two } = this;
    if (size < 3) {
      b.to(one, EXTREMES.umax[size as 0 | 1 | 2], a, c);
      b.to(d, EQUAL[size], one, a);
      return;
    }
    const sign = this.constant(1n << 63n);
    b.to(one, 'xor128', a, sign);
    b.to(two, 'xor128', c, sign);
    b.to(one, 'vgt64', two, one);
    this.not(d, one);
  }

  /** The low half of each element of a vector of `2 << size` bytes, or the high half. */
  halves(d: Slot, a: Slot, size: Size, high: boolean): void {
    const bytes = 1 << size;
    const list = Array.from({ length: 8 }, (_, i) => {
      const element = Math.floor(i / bytes);
      return 2 * element * bytes + (high ? bytes : 0) + (i % bytes);
    });
    this.pick(d, a, list);
  }
}

/** Byte numbers of elements by a rule: `element` gives the number of a result's element. */
export function permutation(full: number, size: Size, element: (index: number, count: number) => number): number[] {
  const bytes = 1 << size;
  const count = (full === 1 ? 16 : 8) / bytes;
  return Array.from({ length: count * bytes }, (_, i) => {
    const from = element(Math.floor(i / bytes), count);
    // Elements of the second operand are numbered on from `count`.
    return (from < count ? from * bytes : 16 + (from - count) * bytes) + (i % bytes);
  });
}

type Binary = (lanes: Lanes, d: Slot, a: Slot, c: Slot, size: Size) => void;

const named =
  (names: readonly PureName[]): Binary =>
  ({ b }, d, a, c, size) => {
    b.to(d, names[size]!, a, c);
  };

/** Comparisons, by what a greater or equal result is called. */
const COMPARE = {
  eq: named(EQUAL),
  gt: named(GREATER),
  ge: (lanes, d, a, c, size) => {
    lanes.b.to(d, GREATER[size], c, a);
    lanes.not(d, d);
  },
  hi: (lanes, d, a, c, size) => {
    lanes.notBelow(d, c, a, size);
    lanes.not(d, d);
  },
  hs: (lanes, d, a, c, size) => {
    lanes.notBelow(d, a, c, size);
  },
} satisfies Record<string, Binary>;

/** The element size that immh:immb names. */
const sizeOfShift = (f: Fields): Size => (31 - Math.clz32(f.n('shiftimm') >> 3)) as Size;

/** The shapes that the semantics of several rows have. */
class VectorForms {
  constructor(private readonly slots: VectorSlots) {}

  of(f: Fields, name: string): Slot {
    return this.slots.registers[f.n(name)]!;
  }

  lanesOf(x: Place): Lanes {
    return new Lanes(x.b);
  }

  three(compute: Binary): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      compute(lanes, lanes.first, this.of(f, 'vn'), this.of(f, 'vm'), sizeOf(f));
      lanes.finish(f.n('q'), this.of(f, 'vd'), lanes.first);
    };
  }

  /** Neighbours of both operands. */
  pairwise(names: readonly PureName[]): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      const [full, size] = [f.n('q'), sizeOf(f)];
      const [n, m] = [this.of(f, 'vn'), this.of(f, 'vm')];
      const pick = (d: Slot, odd: 0 | 1): void => {
        lanes.pickOfTwo(
          d,
          n,
          m,
          permutation(full, size, (i) => 2 * i + odd),
        );
      };
      pick(lanes.first, 0);
      pick(lanes.second, 1);
      x.b.to(lanes.first, names[size]!, lanes.first, lanes.second);
      lanes.finish(full, this.of(f, 'vd'), lanes.first);
    };
  }

  permuted(element: (index: number, count: number) => number): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      lanes.pickOfTwo(lanes.first, this.of(f, 'vn'), this.of(f, 'vm'), permutation(f.n('q'), sizeOf(f), element));
      lanes.finish(f.n('q'), this.of(f, 'vd'), lanes.first);
    };
  }

  /** With zero: `swapped` compares zero with the operand. */
  private comparedWithZero(
    x: Place,
    compare: Binary,
    swapped: boolean,
    place: { readonly d: Slot; readonly n: Slot; readonly size: Size; readonly full: number },
  ): void {
    const lanes = this.lanesOf(x);
    const { d, n, size, full } = place;
    x.b.to(lanes.second, 'mov128', lanes.constant(0n));
    if (swapped) compare(lanes, lanes.first, lanes.second, n, size);
    else compare(lanes, lanes.first, n, lanes.second, size);
    lanes.finish(full, d, lanes.first);
  }

  withZero(compare: Binary, swapped: boolean): VectorLift {
    return (x, f) => {
      const place = { d: this.of(f, 'vd'), n: this.of(f, 'vn'), size: sizeOf(f), full: f.n('q') };
      this.comparedWithZero(x, compare, swapped, place);
    };
  }

  /** One element of 8 bytes. */
  oneWithZero(compare: Binary, swapped: boolean): VectorLift {
    return (x, f) => {
      this.comparedWithZero(x, compare, swapped, { d: this.of(f, 'dd'), n: this.of(f, 'dn'), size: 3, full: 0 });
    };
  }

  multiplied(names: readonly PureName[]): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      const d = this.of(f, 'vd');
      lanes.product(lanes.first, this.of(f, 'vn'), this.of(f, 'vm'), sizeOf(f));
      x.b.to(lanes.first, names[sizeOf(f)]!, d, lanes.first);
      lanes.finish(f.n('q'), d, lanes.first);
    };
  }

  /** Products with one element of the second operand; null: alone. */
  withElement(compute: Binary | null): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      const size = sizeOf(f);
      const { number, index } = integerElement({ size, h: f.n('h'), l: f.n('l'), vem: f.n('vem') });
      const d = this.of(f, 'vd');
      lanes.pick(
        lanes.second,
        this.slots.registers[number]!,
        permutation(1, size, () => index),
      );
      lanes.product(lanes.first, this.of(f, 'vn'), lanes.second, size);
      compute?.(lanes, lanes.first, d, lanes.first, size);
      lanes.finish(f.n('q'), d, lanes.first);
    };
  }

  /** Sums of neighbours in elements of twice the size, into a slot that is free. */
  private sumsOfNeighbours(x: Place, f: Fields, signed: boolean): Lanes {
    const lanes = this.lanesOf(x);
    const { first, second } = lanes;
    const wide = (sizeOf(f) + 1) as Size;
    const bits = bitsOf(sizeOf(f));
    const right = (d: Slot, a: Slot): void => {
      if (signed) lanes.shiftSigned(d, a, wide, bits);
      else lanes.shiftRight(d, a, wide, bits);
    };
    right(second, this.of(f, 'vn'));
    lanes.shiftLeft(first, this.of(f, 'vn'), wide, bits);
    right(first, first);
    x.b.to(first, ADD[wide], first, second);
    return lanes;
  }

  neighboursAdded(signed: boolean, accumulates: boolean): VectorLift {
    return (x, f) => {
      const lanes = this.sumsOfNeighbours(x, f, signed);
      const d = this.of(f, 'vpd');
      if (accumulates) x.b.to(lanes.first, ADD[sizeOf(f) + 1]!, d, lanes.first);
      lanes.finish(f.n('q'), d, lanes.first);
    };
  }

  /** The sum of all elements, twice as wide. */
  addedAcross(signed: boolean): VectorLift {
    return (x, f) => {
      const lanes = this.sumsOfNeighbours(x, f, signed);
      const { first, second } = lanes;
      const wide = (sizeOf(f) + 1) as Size;
      for (let half = f.n('q') === 1 ? 8 : 4; half >= 1 << wide; half >>= 1) {
        const moved = Array.from({ length: 16 }, (_, i) => (i < half ? i + half : i));
        lanes.pick(second, first, moved);
        x.b.to(first, ADD[wide], first, second);
      }
      const low = x.b.make('low64', first);
      x.b.to(this.of(f, 'fld'), 'wide64', wide === 3 ? low : x.b.make(wide === 2 ? 'zx32' : 'zx16', low));
    };
  }

  /** A table of `count` registers; where no byte of it is named there is 0, or the target's own. */
  table(count: number, keeps: boolean): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      const { first, second, b } = lanes;
      const table = f.n(count === 1 ? 'vtable' : `vtable_${count}`);
      const [d, m] = [this.of(f, 'bd'), this.of(f, 'bm')];
      for (let i = 0; i < count; i++) {
        const register = this.slots.registers[(table + i) % 32]!;
        if (i === 0) b.to(first, 'vswizzle', register, m);
        else {
          b.to(second, 'vsub8', m, lanes.each(BigInt(16 * i), 0));
          b.to(second, 'vswizzle', register, second);
          b.to(first, 'or128', first, second);
        }
      }
      if (keeps) {
        b.to(second, 'mov128', lanes.each(BigInt(16 * count), 0));
        lanes.notBelow(second, m, second, 0);
        b.to(second, 'and128', d, second);
        b.to(first, 'or128', first, second);
      }
      lanes.finish(f.n('q'), d, first);
    };
  }

  /** Elements of `unit` bytes with their bytes, or halves, in the other order. */
  reversed(unit: 2 | 4 | 8): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      const count = unit >> sizeOf(f);
      const element = (i: number): number => i - (i % count) + (count - 1 - (i % count));
      lanes.pick(lanes.first, this.of(f, 'vn'), permutation(1, sizeOf(f), element));
      lanes.finish(f.n('q'), this.of(f, 'vd'), lanes.first);
    };
  }

  shiftedRight(signed: boolean, accumulates: boolean): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      const size = sizeOfShift(f);
      const count = 2 * bitsOf(size) - f.n('shiftimm');
      const { first } = lanes;
      if (signed) lanes.shiftSigned(first, this.of(f, 'vn'), size, count);
      else lanes.shiftRight(first, this.of(f, 'vn'), size, count);
      if (accumulates) x.b.to(first, ADD[size], this.of(f, 'vd'), first);
      lanes.finish(f.n('q'), this.of(f, 'vd'), first);
    };
  }

  /** The lower half of the target, or its upper half, from the low 8 bytes of `value`. */
  narrowed(x: Place, f: Fields, value: Slot): void {
    const d = this.of(f, 'vd');
    const low = x.b.make('low64', value);
    if (f.n('two') === 0) x.b.to(d, 'wide64', low);
    else x.b.to(d, 'join64', x.b.make('low64', d), low);
  }

  /** Elements in fields of twice their size, shifted to the left there. */
  wider(x: Place, f: Fields, how: { readonly signed: boolean; readonly size: 0 | 1 | 2; readonly left: number }): void {
    const lanes = this.lanesOf(x);
    const n = this.of(f, 'vn');
    if (f.n('two') === 1) x.b.to(lanes.first, 'wide64', x.b.make('high64', n));
    x.b.to(lanes.first, WIDEN[how.signed ? 'signed' : 'unsigned'][how.size], f.n('two') === 1 ? lanes.first : n);
    lanes.shiftLeft(this.of(f, 'vld'), lanes.first, (how.size + 1) as Size, how.left);
  }

  widened(signed: boolean): VectorLift {
    return (x, f) => {
      const size = sizeOfShift(f) as 0 | 1 | 2;
      this.wider(x, f, { signed, size, left: f.n('shiftimm') - bitsOf(size) });
    };
  }

  /** High halves of sums or differences. */
  highHalf(names: readonly PureName[]): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      x.b.to(lanes.first, names[sizeOf(f) + 1]!, this.of(f, 'vln'), this.of(f, 'vlm'));
      lanes.halves(lanes.first, lanes.first, sizeOf(f), true);
      this.narrowed(x, f, lanes.first);
    };
  }

  /** The extreme of all elements: of two halves, until one element is left. */
  across(names: readonly PureName[]): VectorLift {
    return (x, f) => {
      const lanes = this.lanesOf(x);
      const { first, second } = lanes;
      x.b.to(first, 'mov128', this.of(f, 'vn'));
      for (let half = f.n('q') === 1 ? 8 : 4; half >= 1 << sizeOf(f); half >>= 1) {
        const moved = Array.from({ length: 16 }, (_, i) => (i < half ? i + half : i));
        lanes.pick(second, first, moved);
        x.b.to(first, names[sizeOf(f)]!, first, second);
      }
      const low = x.b.make('low64', first);
      const element: Operand = x.b.make((['zx8', 'zx16', 'zx32'] as const)[sizeOf(f) as 0 | 1 | 2], low);
      x.b.to(this.of(f, 'ad'), 'wide64', element);
    };
  }
}

/** Semantics of the rows, by name. */
export function vectorSemantics(slots: VectorSlots): ReturnType<typeof semanticsOf> {
  return semanticsOf(new VectorForms(slots));
}

function semanticsOf(forms: VectorForms) {
  return {
    'add-v': forms.three(named(ADD)),
    'sub-v': forms.three(named(SUB)),
    cmeq: forms.three(COMPARE.eq),
    cmgt: forms.three(COMPARE.gt),
    cmge: forms.three(COMPARE.ge),
    cmhi: forms.three(COMPARE.hi),
    cmhs: forms.three(COMPARE.hs),
    cmtst: forms.three((lanes, d, a, c, size) => {
      lanes.b.to(d, 'and128', a, c);
      lanes.b.to(d, EQUAL[size], d, lanes.constant(0n));
      lanes.not(d, d);
    }),
    mul: forms.three((lanes, d, a, c, size) => {
      lanes.product(d, a, c, size);
    }),
    mla: forms.multiplied(ADD),
    mls: forms.multiplied(SUB),
    smax: forms.three(named(EXTREMES.smax)),
    umax: forms.three(named(EXTREMES.umax)),
    smin: forms.three(named(EXTREMES.smin)),
    umin: forms.three(named(EXTREMES.umin)),
    addp: forms.pairwise(ADD),
    smaxp: forms.pairwise(EXTREMES.smax),
    umaxp: forms.pairwise(EXTREMES.umax),
    sminp: forms.pairwise(EXTREMES.smin),
    uminp: forms.pairwise(EXTREMES.umin),
    smaxv: forms.across(EXTREMES.smax),
    umaxv: forms.across(EXTREMES.umax),
    sminv: forms.across(EXTREMES.smin),
    uminv: forms.across(EXTREMES.umin),
    'cmgt-zero': forms.withZero(COMPARE.gt, false),
    'cmge-zero': forms.withZero(COMPARE.ge, false),
    'cmeq-zero': forms.withZero(COMPARE.eq, false),
    'cmle-zero': forms.withZero(COMPARE.ge, true),
    'cmlt-zero': forms.withZero(COMPARE.gt, true),
    'cmgt-dz': forms.oneWithZero(COMPARE.gt, false),
    'cmge-dz': forms.oneWithZero(COMPARE.ge, false),
    'cmeq-dz': forms.oneWithZero(COMPARE.eq, false),
    'cmle-dz': forms.oneWithZero(COMPARE.ge, true),
    'cmlt-dz': forms.oneWithZero(COMPARE.gt, true),
    'neg-v': forms.withZero(named(SUB), true),
    'abs-v': (x: Place, f: Fields): undefined => {
      const lanes = forms.lanesOf(x);
      const { first, second } = lanes;
      const size = sizeOf(f);
      if (size < 3) x.b.to(first, ABSOLUTE[size as 0 | 1 | 2], forms.of(f, 'vn'));
      else {
        x.b.to(second, 'vgt64', lanes.constant(0n), forms.of(f, 'vn'));
        x.b.to(first, 'xor128', forms.of(f, 'vn'), second);
        x.b.to(first, 'vsub64', first, second);
      }
      lanes.finish(f.n('q'), forms.of(f, 'vd'), first);
    },
    rev64: forms.reversed(8),
    'rev32-v': forms.reversed(4),
    'rev16-v': forms.reversed(2),
    'rbit-v': (x: Place, f: Fields): undefined => {
      const lanes = forms.lanesOf(x);
      const of64 = (half: 'low64' | 'high64'): Slot =>
        x.b.make('bswap64', x.b.make('bitreverse', x.b.make(half, forms.of(f, 'bn'))));
      x.b.to(lanes.first, 'join64', of64('low64'), of64('high64'));
      lanes.finish(f.n('q'), forms.of(f, 'bd'), lanes.first);
    },
    ext: (x: Place, f: Fields): undefined => {
      const lanes = forms.lanesOf(x);
      const first = f.n('imm4');
      lanes.pickOfTwo(
        lanes.first,
        forms.of(f, 'bn'),
        forms.of(f, 'bm'),
        permutation(f.n('q'), 0, (i) => i + first),
      );
      lanes.finish(f.n('q'), forms.of(f, 'bd'), lanes.first);
    },
    zip1: forms.permuted((i, count) => (i >> 1) + (i % 2 === 0 ? 0 : count)),
    zip2: forms.permuted((i, count) => (i >> 1) + (i % 2 === 0 ? 0 : count) + count / 2),
    uzp1: forms.permuted((i) => 2 * i),
    uzp2: forms.permuted((i) => 2 * i + 1),
    trn1: forms.permuted((i, count) => (i % 2 === 0 ? i : i - 1 + count)),
    trn2: forms.permuted((i, count) => (i % 2 === 0 ? i + 1 : i + count)),
    'tbl-1': forms.table(1, false),
    'tbl-2': forms.table(2, false),
    'tbl-3': forms.table(3, false),
    'tbl-4': forms.table(4, false),
    'tbx-1': forms.table(1, true),
    'tbx-2': forms.table(2, true),
    'tbx-3': forms.table(3, true),
    'tbx-4': forms.table(4, true),
    saddlp: forms.neighboursAdded(true, false),
    uaddlp: forms.neighboursAdded(false, false),
    sadalp: forms.neighboursAdded(true, true),
    uadalp: forms.neighboursAdded(false, true),
    saddlv: forms.addedAcross(true),
    uaddlv: forms.addedAcross(false),
    'mul-e': forms.withElement(null),
    'mla-e': forms.withElement(named(ADD)),
    'mls-e': forms.withElement(named(SUB)),
    'addp-d': (x: Place, f: Fields): undefined => {
      const pair = forms.of(f, 'vpair');
      x.b.to(forms.of(f, 'dd'), 'wide64', x.b.make('add', x.b.make('low64', pair), x.b.make('high64', pair)));
    },
    sshr: forms.shiftedRight(true, false),
    ushr: forms.shiftedRight(false, false),
    ssra: forms.shiftedRight(true, true),
    usra: forms.shiftedRight(false, true),
    shl: (x: Place, f: Fields): undefined => {
      const lanes = forms.lanesOf(x);
      const size = sizeOfShift(f);
      lanes.shiftLeft(lanes.first, forms.of(f, 'vn'), size, f.n('shiftimm') - bitsOf(size));
      lanes.finish(f.n('q'), forms.of(f, 'vd'), lanes.first);
    },
    shrn: (x: Place, f: Fields): undefined => {
      const lanes = forms.lanesOf(x);
      const size = sizeOfShift(f);
      lanes.shiftRight(lanes.first, forms.of(f, 'vln'), (size + 1) as Size, 2 * bitsOf(size) - f.n('shiftimm'));
      lanes.halves(lanes.first, lanes.first, size, false);
      forms.narrowed(x, f, lanes.first);
    },
    xtn: (x: Place, f: Fields): undefined => {
      const lanes = forms.lanesOf(x);
      lanes.halves(lanes.first, forms.of(f, 'vln'), sizeOf(f), false);
      forms.narrowed(x, f, lanes.first);
    },
    sshll: forms.widened(true),
    ushll: forms.widened(false),
    shll: (x: Place, f: Fields): undefined => {
      const size = sizeOf(f) as 0 | 1 | 2;
      forms.wider(x, f, { signed: false, size, left: bitsOf(size) });
    },
    addhn: forms.highHalf(ADD),
    subhn: forms.highHalf(SUB),
  } as const;
}
