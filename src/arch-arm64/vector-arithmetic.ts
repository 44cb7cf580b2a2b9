/**
 * Advanced SIMD on integers in lane ops, of rows that `vector-rows.ts` has as numbers, too: sums,
 * products and differences in elements of twice the size, what halves, rounds and saturates, shifts
 * by other elements, and scalars of 8 bytes. What has no lane ops is left to that.
 *
 * An element that did not fit is noted in FPSR.QC, on which nothing else depends.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';
import { ADD, bitsOf, EXTREMES, Lanes, ONES, permutation, replicated, SUB, WIDEN } from './vectors.js';
import type { Fields, PureName, Size, VectorSlots } from './vectors.js';
import { integerElement } from './vector-rows.js';

interface Place {
  readonly b: BlockBuilder;
}
/** False: the slow way. */
type Emit = (v: Arithmetic) => boolean;
type Narrow = 0 | 1 | 2;

const SATURATION = 27n;
const GREATER_SIGNED = ['vgt8', 'vgt16', 'vgt32', 'vgt64'] as const;

/** One instruction. Results are temporaries. */
class Arithmetic {
  readonly b: BlockBuilder;
  readonly lanes: Lanes;
  readonly size: Size;

  constructor(
    x: Place,
    readonly f: Fields,
    private readonly slots: VectorSlots & { readonly status: Slot },
  ) {
    this.b = x.b;
    this.lanes = new Lanes(x.b);
    const shift = f.has('shiftimm') ? 31 - Math.clz32(f.n('shiftimm') >> 3) : null;
    this.size = (shift ?? (f.has('size') ? f.n('size') : 3)) as Size;
  }

  register(field: string): Slot {
    return this.slots.registers[this.f.n(field)]!;
  }

  op(name: PureName, a: Operand, c: Operand = 0n): Slot {
    return this.b.to(this.b.vectorTemp(), name, a, c);
  }

  each(value: bigint, size: number): Slot {
    const half = replicated(value, bitsOf(size as Size));
    return this.op('join64', half, half);
  }

  /** The elements that the instruction reads of a register of narrow ones, in twice the size. */
  widened(narrow: Slot, signed: boolean): Slot {
    const half = this.f.n('two') === 1 ? this.op('wide64', this.b.make('high64', narrow)) : narrow;
    return this.op(WIDEN[signed ? 'signed' : 'unsigned'][this.size as Narrow], half);
  }

  /** The second operand: a register, or one element of it again and again. */
  second(): Slot {
    const { f, lanes, size } = this;
    if (!f.has('vem')) return this.register('vm');
    const { number, index } = integerElement({ size, h: f.n('h'), l: f.n('l'), vem: f.n('vem') });
    const out = this.b.vectorTemp();
    lanes.pick(
      out,
      this.slots.registers[number]!,
      permutation(1, size, () => index),
    );
    return out;
  }

  /** Products in elements of twice the size. */
  product(a: Slot, c: Slot, signed: boolean): Slot {
    const { b, size } = this;
    if (size < 2) return this.op(size === 0 ? 'vmul16' : 'vmul32', this.widened(a, signed), this.widened(c, signed));
    const [x, y] = [a, c].map((each) => b.make(this.f.n('two') === 1 ? 'high64' : 'low64', each));
    const multiply = signed ? 'mulsx32' : 'mulzx32';
    const upper = b.make(multiply, b.make('shr', x!, 32n), b.make('shr', y!, 32n));
    return this.op('join64', b.make(multiply, x!, y!), upper);
  }

  /** Whether a > c, as ones. */
  above(a: Slot, c: Slot, size: Size, signed: boolean): Slot {
    if (signed) return this.op(GREATER_SIGNED[size], a, c);
    const out = this.b.vectorTemp();
    this.lanes.notBelow(out, c, a, size);
    return this.op('xor128', out, this.each(ONES, 3));
  }

  chosen(mask: Slot, a: Slot, c: Slot): Slot {
    return this.op('or128', this.op('and128', a, mask), this.op('andnot128', c, mask));
  }

  /** |a - c|, modulo the size of the elements. */
  distance(a: Slot, c: Slot, size: Size, signed: boolean): Slot {
    if (size < 3) {
      const [most, least] = signed ? (['smax', 'smin'] as const) : (['umax', 'umin'] as const);
      const of = (how: keyof typeof EXTREMES): Slot => this.op(EXTREMES[how][size as Narrow], a, c);
      return this.op(SUB[size], of(most), of(least));
    }
    const difference = this.op('vsub64', a, c);
    const isNegative = this.above(c, a, 3, signed);
    return this.op('vsub64', this.op('xor128', difference, isNegative), isNegative);
  }

  shiftedRight(a: Slot, size: Size, count: number, signed: boolean): Slot {
    const out = this.b.vectorTemp();
    if (signed) this.lanes.shiftSigned(out, a, size, count);
    else this.lanes.shiftRight(out, a, size, count);
    return out;
  }

  shiftedLeft(a: Slot, size: Size, count: number): Slot {
    const out = this.b.vectorTemp();
    this.lanes.shiftLeft(out, a, size, count);
    return out;
  }

  /** Shifted to the right and rounded: the last bit that goes is added. */
  rounded(a: Slot, size: Size, count: number, signed: boolean): Slot {
    const last = this.shiftedRight(a, size, count - 1, signed);
    const carry = this.op('and128', last, this.each(1n, size));
    return this.op(ADD[size], this.shiftedRight(a, size, count, signed), carry);
  }

  /** Notes whether two vectors differ, where the result is. */
  saturated(a: Slot, c: Slot): void {
    const { b } = this;
    const differing = this.op('xor128', a, c);
    const low = b.make('low64', differing);
    const isFull = this.f.has('q') && this.f.n('q') === 0 ? low : b.make('or', low, b.make('high64', differing));
    const { status } = this.slots;
    b.to(status, 'or', status, b.make('shl', b.make('setne', isFull, 0n), SATURATION));
  }

  /** Writes elements as wide as the operands' are. */
  finish(value: Slot): true {
    this.lanes.finish(this.f.n('q'), this.register('vd'), value);
    return true;
  }

  finishWide(value: Slot): true {
    this.b.to(this.register('vld'), 'mov128', value);
    return true;
  }

  /** Writes narrow elements, which are in the lower half of `value`. */
  finishNarrow(value: Slot): true {
    const { b } = this;
    const d = this.register('vd');
    const low = b.make('low64', value);
    if (this.f.n('two') === 0) b.to(d, 'wide64', low);
    else b.to(d, 'join64', b.make('low64', d), low);
    return true;
  }
}

const ROWS = new Map<string, Emit>();
const SIGNS = [['s', true], ['u', false]] as const; // prettier-ignore

// ----------------------------------------------------------------- elements of twice the size

for (const [sign, signed] of SIGNS) {
  for (const [name, names] of [
    ['add', ADD],
    ['sub', SUB],
  ] as const) {
    ROWS.set(`${sign}${name}l`, (v) => {
      const [a, c] = ['vn', 'vm'].map((field) => v.widened(v.register(field), signed));
      return v.finishWide(v.op(names[v.size + 1]!, a!, c!));
    });
    ROWS.set(`${sign}${name}w`, (v) =>
      v.finishWide(v.op(names[v.size + 1]!, v.register('vln'), v.widened(v.register('vm'), signed))),
    );
  }
  for (const [name, names] of [
    ['mull', null],
    ['mlal', ADD],
    ['mlsl', SUB],
  ] as const) {
    const emit: Emit = (v) => {
      const product = v.product(v.register('vn'), v.second(), signed);
      return v.finishWide(names ? v.op(names[v.size + 1]!, v.register('vld'), product) : product);
    };
    ROWS.set(`${sign}${name}`, emit).set(`${sign}${name}-e`, emit);
  }
  for (const [name, accumulates] of [
    ['abdl', false],
    ['abal', true],
  ] as const) {
    ROWS.set(`${sign}${name}`, (v) => {
      const wide = (v.size + 1) as Size;
      const [a, c] = ['vn', 'vm'].map((field) => v.widened(v.register(field), signed));
      const distance = v.distance(a!, c!, wide, signed);
      return v.finishWide(accumulates ? v.op(ADD[wide], v.register('vld'), distance) : distance);
    });
  }
}

// ------------------------------------------------------------------------- elements of one size

for (const [sign, signed] of SIGNS) {
  for (const [name, accumulates] of [
    ['abd', false],
    ['aba', true],
  ] as const) {
    ROWS.set(`${sign}${name}`, (v) => {
      const distance = v.distance(v.register('vn'), v.register('vm'), v.size, signed);
      return v.finish(accumulates ? v.op(ADD[v.size], v.register('vd'), distance) : distance);
    });
  }
  // Half of the bits that differ, beside those that both have, or that one has.
  const halving = (name: string, rest: (v: Arithmetic, a: Slot, c: Slot) => Slot, whole: 'rest' | 'half'): void => {
    ROWS.set(`${sign}${name}`, (v) => {
      const [a, c] = [v.register('vn'), v.register('vm')];
      const half = v.shiftedRight(v.op('xor128', a, c), v.size, 1, signed);
      const other = rest(v, a, c);
      if (name.endsWith('hadd') && whole === 'half') return v.finish(v.op(ADD[v.size], half, other));
      return v.finish(whole === 'half' ? v.op(SUB[v.size], half, other) : v.op(SUB[v.size], other, half));
    });
  };
  halving('hadd', (v, a, c) => v.op('and128', a, c), 'half');
  halving('hsub', (v, a, c) => v.op('andnot128', c, a), 'half');
  halving('rhadd', (v, a, c) => v.op('or128', a, c), 'rest');
  for (const [name, accumulates] of [
    ['rshr', false],
    ['rsra', true],
  ] as const) {
    ROWS.set(`${sign}${name}`, (v) => {
      const value = v.rounded(v.register('vn'), v.size, 2 * bitsOf(v.size) - v.f.n('shiftimm'), signed);
      return v.finish(accumulates ? v.op(ADD[v.size], v.register('vd'), value) : value);
    });
  }
}
ROWS.set('sli', (v) => {
  const count = v.f.n('shiftimm') - bitsOf(v.size);
  const kept = v.op('and128', v.register('vd'), v.each((1n << BigInt(count)) - 1n, v.size));
  return v.finish(v.op('or128', v.shiftedLeft(v.register('vn'), v.size, count), kept));
});
ROWS.set('sri', (v) => {
  const bits = bitsOf(v.size);
  const count = 2 * bits - v.f.n('shiftimm');
  const kept = ((1n << BigInt(count)) - 1n) << BigInt(bits - count);
  const moved = v.shiftedRight(v.register('vn'), v.size, count, false);
  return v.finish(v.op('or128', moved, v.op('and128', v.register('vd'), v.each(kept, v.size))));
});

/** Words and doublewords by the low byte of others, to the right where that is negative. */
for (const [sign, signed] of SIGNS) {
  const moved = (v: Arithmetic, value: Slot, by: Slot): Slot => {
    const { b } = v;
    const count = b.make('sx8', by);
    const [left, right] = [b.temp(), b.temp()];
    b.select(left, b.make('setltu', count, 64n), b.make('shl', value, count), 0n);
    const back = b.make('sub', 0n, count);
    if (signed) {
      const most = b.temp();
      b.select(most, b.make('setltu', back, 63n), back, 63n);
      b.to(right, 'sar', value, most);
    } else b.select(right, b.make('setltu', back, 64n), b.make('shr', value, back), 0n);
    const out = b.temp();
    b.select(out, b.make('setlt', count, 0n), right, left);
    return out;
  };
  ROWS.set(`${sign}shl`, (v) => {
    const { b, size } = v;
    if (size < 2) return false;
    const halves = (['low64', 'high64'] as const).map((half) => {
      const [x, by] = [b.make(half, v.register('vn')), b.make(half, v.register('vm'))];
      if (size === 3) return moved(v, x, by);
      const low = moved(v, b.make(signed ? 'sx32' : 'zx32', x), by);
      const high = moved(v, b.make(signed ? 'sar' : 'shr', x, 32n), b.make('shr', by, 32n));
      return b.make('or', b.make('zx32', low), b.make('shl', high, 32n));
    });
    return v.finish(v.op('join64', halves[0]!, halves[1]!));
  });
  ROWS.set(`${sign}shl-d`, (v) => {
    const { b } = v;
    b.to(v.register('dd'), 'wide64', moved(v, b.make('low64', v.register('dn')), b.make('low64', v.register('dm'))));
    return true;
  });
}

// ------------------------------------------------------------------------------------- saturated

const SATURATING = {
  sqadd: [['vadds8', 'vadds16'], ADD], uqadd: [['vaddu8', 'vaddu16'], ADD],
  sqsub: [['vsubs8', 'vsubs16'], SUB], uqsub: [['vsubu8', 'vsubu16'], SUB],
} as const; // prettier-ignore
for (const [name, [saturating, wrapping]] of Object.entries(SATURATING)) {
  ROWS.set(name, (v) => {
    const { size } = v;
    const [a, c] = [v.register('vn'), v.register('vm')];
    const wrapped = v.op(wrapping[size], a, c);
    let result: Slot;
    if (size < 2) result = v.op(saturating[size as 0 | 1], a, c);
    else if (name === 'uqadd') result = v.op('or128', wrapped, v.above(a, wrapped, size, false));
    else if (name === 'uqsub') result = v.op('andnot128', wrapped, v.above(c, a, size, false));
    else {
      // The operands of a sum that wraps have one sign, those of a difference two.
      const isSum = name === 'sqadd';
      const one = v.op('xor128', a, wrapped);
      const other = isSum ? v.op('xor128', c, wrapped) : v.op('xor128', a, c);
      const isOver = v.above(v.each(0n, 3), v.op('and128', one, other), size, true);
      const top = (1n << BigInt(bitsOf(size) - 1)) - 1n;
      const limit = v.op('xor128', v.above(v.each(0n, 3), a, size, true), v.each(top, size));
      result = v.chosen(isOver, limit, wrapped);
    }
    v.saturated(result, wrapped);
    return v.finish(result);
  });
}

/** Words and halfwords, limited to what half their size holds. */
const limited = (v: Arithmetic, value: Slot, from: boolean, to: boolean): true => {
  const wide = (v.size + 1) as 1 | 2;
  const top = (1n << BigInt(bitsOf(v.size) - (to ? 1 : 0))) - 1n;
  const [least, most] = from ? (['smax', 'smin'] as const) : (['umax', 'umin'] as const);
  let result = v.op(EXTREMES[most][wide], value, v.each(top, wide));
  if (from) result = v.op(EXTREMES[least][wide], result, v.each(to ? -top - 1n : 0n, wide));
  v.saturated(result, value);
  const out = v.b.vectorTemp();
  v.lanes.halves(out, result, v.size, false);
  return v.finishNarrow(out);
};
for (const [name, from, to] of [
  ['sqxtn', true, true],
  ['uqxtn', false, false],
  ['sqxtun', true, false],
] as const)
  ROWS.set(name, (v) => v.size < 2 && limited(v, v.register('vln'), from, to));
for (const [name, from, to] of [
  ['sq', true, true],
  ['uq', false, false],
  ['sq', true, false],
] as const) {
  for (const rounds of [false, true]) {
    ROWS.set(`${name}${rounds ? 'r' : ''}shr${from && !to ? 'u' : ''}n`, (v) => {
      if (v.size >= 2) return false;
      const wide = (v.size + 1) as Size;
      const count = 2 * bitsOf(v.size) - v.f.n('shiftimm');
      const shift = rounds ? v.rounded.bind(v) : v.shiftedRight.bind(v);
      return limited(v, shift(v.register('vln'), wide, count, from), from, to);
    });
  }
}
ROWS.set('rshrn', (v) => {
  const out = v.b.vectorTemp();
  const count = 2 * bitsOf(v.size) - v.f.n('shiftimm');
  v.lanes.halves(out, v.rounded(v.register('vln'), (v.size + 1) as Size, count, false), v.size, false);
  return v.finishNarrow(out);
});

// --------------------------------------------------------------------------- scalars of 8 bytes

type Scalar = (v: Arithmetic, a: Slot, c: Slot, count: bigint) => Slot;
const relation =
  (name: PureName): Scalar =>
  ({ b }, a, c) =>
    b.make('sub', 0n, b.make(name, a, c));
const SCALARS: Readonly<Record<string, Scalar>> = {
  add: ({ b }, a, c) => b.make('add', a, c),
  sub: ({ b }, a, c) => b.make('sub', a, c),
  cmeq: relation('seteq'),
  cmgt: relation('setgt'),
  cmge: relation('setge'),
  cmhi: relation('setgtu'),
  cmhs: relation('setgeu'),
  cmtst: ({ b }, a, c) => b.make('sub', 0n, b.make('setne', b.make('and', a, c), 0n)),
  neg: ({ b }, a) => b.make('sub', 0n, a),
  abs: ({ b }, a) => {
    const sign = b.make('sar', a, 63n);
    return b.make('sub', b.make('xor', a, sign), sign);
  },
  shl: ({ b }, a, _c, shift) => b.make('shl', a, shift - 64n),
  sshr: ({ b }, a, _c, shift) => b.make('sar', a, shift === 64n ? 63n : 128n - shift),
  ushr: ({ b }, a, _c, shift) => (shift === 64n ? b.make('mov', 0n) : b.make('shr', a, 128n - shift)),
};
for (const [name, compute] of Object.entries(SCALARS)) {
  ROWS.set(`${name}-d`, (v) => {
    const { b, f } = v;
    const a = b.make('low64', v.register('dn'));
    const c = f.has('dm') ? b.make('low64', v.register('dm')) : a;
    b.to(v.register('dd'), 'wide64', compute(v, a, c, f.has('shiftimm') ? BigInt(f.n('shiftimm')) : 0n));
    return true;
  });
}

/**
 * Semantics by name.
 * @param slowly  what does the rest
 */
export function arithmeticSemantics<P extends Place, F extends Fields, R>(
  slots: VectorSlots & { readonly status: Slot },
  slowly: (x: P, f: F) => R | undefined,
): readonly (readonly [string, (x: P, f: F) => R | undefined])[] {
  return [...ROWS].map(([name, emit]) => [
    name,
    (x, f) => (emit(new Arithmetic(x, f, slots)) ? undefined : slowly(x, f)),
  ]);
}
