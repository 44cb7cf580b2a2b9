/**
 * Instructions of VMX on integers that take several ops: elements shifted each by its own count,
 * products into wider elements, sums across, what saturates, packs, counts of bits. Every row gives
 * the vector that its instruction writes, from those that it reads.
 *
 * The even elements, of which element 0 is the most significant, are the upper halves of the fields
 * of twice their width, the odd ones the lower halves.
 *
 * Source: Power ISA 2.07B, Book I, chapter 6.
 */
import type { Operand, PureName, Slot } from '../machine/ir.js';
import { EQUAL, ONES } from './vector-builder.js';
import type { Vectors, VectorEmit } from './vector-builder.js';

export interface ElementRow {
  /** Fields of the vectors that it reads. */
  readonly sources: readonly string[];
  readonly emit: VectorEmit;
}

const ROWS = new Map<string, ElementRow>();
const one = ['vrb'];
const two = ['vra', 'vrb'];
const three = ['vra', 'vrb', 'vrc'];

function unary(name: string, emit: (v: Vectors, a: Slot) => Slot): void {
  ROWS.set(name, { sources: one, emit: (v, [a]) => emit(v, a!) });
}
function binary(name: string, emit: (v: Vectors, a: Slot, c: Slot) => Slot): void {
  ROWS.set(name, { sources: two, emit: (v, [a, c]) => emit(v, a!, c!) });
}
function ternary(name: string, emit: (v: Vectors, a: Slot, c: Slot, d: Slot) => Slot): void {
  ROWS.set(name, { sources: three, emit: (v, [a, c, d]) => emit(v, a!, c!, d!) });
}

const SIGNS = [['s', true], ['u', false]] as const; // prettier-ignore
const ADD = { 8: 'vadd8', 16: 'vadd16', 32: 'vadd32', 64: 'vadd64' } as const;
type Narrow = 8 | 16 | 32;

/** Both halves of a result, from those of its operands. */
export function byHalves(v: Vectors, operands: readonly Slot[], compute: (x: readonly Slot[]) => Operand): Slot {
  const halves = operands.map((each) => v.halves(each));
  const [upper, lower] = [0, 1].map((i) => compute(halves.map((each) => each[i]!)));
  return v.joined(upper!, lower!);
}

/** The same of words. */
export function byWords(v: Vectors, operands: readonly Slot[], compute: (x: readonly Slot[]) => Slot): Slot {
  const { b } = v;
  return byHalves(v, operands, (x) => {
    const upper = compute(x.map((each) => b.make('shr', each, 32n)));
    return b.make('or', b.make('shl', upper, 32n), b.make('zx32', compute(x)));
  });
}

// ----------------------------------------------------------------------------------------- shifts

type Shift = (v: Vectors, bits: 8 | 16, a: Slot, by: number) => Slot;
/** Every element of 1 or 2 bytes by the same count. */
export const SHIFTS: Readonly<Record<'l' | 'r' | 'ra' | 'rotate', Shift>> = {
  l: (v, bits, a, by) => {
    const moved = v.op('vshl16', a, BigInt(by));
    return bits === 16 ? moved : v.op('and128', moved, v.each(0xffn << BigInt(by), 8));
  },
  r: (v, bits, a, by) => {
    const moved = v.op('vshr16', a, BigInt(by));
    return bits === 16 ? moved : v.op('and128', moved, v.each(0xffn >> BigInt(by), 8));
  },
  ra: (v, bits, a, by) => {
    if (bits === 16) return v.op('vsar16', a, BigInt(by));
    // The sign is where bit 0 of the sign went: (x ^ s) - s.
    const sign = v.each(0x80n >> BigInt(by), 8);
    return v.op('vsub8', v.op('xor128', SHIFTS.r(v, 8, a, by), sign), sign);
  },
  rotate: (v, bits, a, by) => v.op('or128', SHIFTS.l(v, bits, a, by), SHIFTS.r(v, bits, a, bits - by)),
};

/** By the counts of another vector: by 1, 2, 4 where those have that bit. */
export function shifted(v: Vectors, how: keyof typeof SHIFTS, bits: 8 | 16, a: Slot, counts: Slot): Slot {
  let value = a;
  for (let by = 1; by < bits; by *= 2) {
    const bit = v.each(BigInt(by), bits);
    const mask = v.op(`veq${bits}`, v.op('and128', counts, bit), bit);
    value = v.choose(mask, SHIFTS[how](v, bits, value, by), value);
  }
  return value;
}

for (const [name, how, word, doubleword] of [
  ['vsl', 'l', 'shl32', 'shl'],
  ['vsr', 'r', 'shr32', 'shr'],
  ['vsra', 'ra', 'sar32', 'sar'],
  ['vrl', 'rotate', 'rotl32', 'rotl'],
] as const satisfies readonly (readonly [string, keyof typeof SHIFTS, PureName, PureName])[]) {
  binary(`${name}b`, (v, a, c) => shifted(v, how, 8, a, c));
  binary(`${name}h`, (v, a, c) => shifted(v, how, 16, a, c));
  binary(`${name}w`, (v, a, c) => byWords(v, [a, c], ([x, y]) => v.b.make(word, x!, y!)));
  binary(`${name}d`, (v, a, c) => byHalves(v, [a, c], ([x, y]) => v.b.make(doubleword, x!, y!)));
}

// --------------------------------------------------------------------------------------- products

/** Even or odd elements in fields of twice their bits. */
function widened(v: Vectors, bits: 8 | 16, a: Slot, isEven: boolean, signed: boolean): Slot {
  const by = BigInt(bits);
  const wide = (2 * bits) as 16 | 32;
  if (isEven) return v.op(`v${signed ? 'sar' : 'shr'}${wide}`, a, by);
  if (!signed) return v.op('and128', a, v.each((1n << by) - 1n, wide));
  return v.op(`vsar${wide}`, v.op(`vshl${wide}`, a, by), by);
}

function product(v: Vectors, bits: 8 | 16, [a, c]: readonly [Slot, Slot], isEven: boolean, signs: Signs): Slot {
  const multiply = bits === 8 ? 'vmul16' : 'vmul32';
  return v.op(multiply, widened(v, bits, a, isEven, signs[0]), widened(v, bits, c, isEven, signs[1]));
}
type Signs = readonly [a: boolean, c: boolean];

for (const [where, isEven] of [['e', true], ['o', false]] as const) {
  for (const [sign, signed] of SIGNS) {
    for (const [letter, bits] of [['b', 8], ['h', 16]] as const)
      binary(`vmul${where}${sign}${letter}`, (v, a, c) => product(v, bits, [a, c], isEven, [signed, signed]));
    binary(`vmul${where}${sign}w`, (v, a, c) =>
      byHalves(v, [a, c], (x) => {
        const [first, second] = isEven ? x.map((each) => v.b.make('shr', each, 32n)) : x;
        return v.b.make(signed ? 'mulsx32' : 'mulzx32', first!, second!);
      }),
    );
  }
} // prettier-ignore
binary('vmuluwm', (v, a, c) => v.op('vmul32', a, c));
ternary('vmladduhm', (v, a, c, d) => v.op('vadd16', v.op('vmul16', a, c), d));

/** Words of the lower or upper half of a vector of halfwords, signed. */
const wordsOf = (v: Vectors, a: Slot, half: 'low' | 'high'): Slot => v.op('vsar32', v.op(`v${half}16`, a, a), 16n);

for (const [name, rounds] of [['vmhaddshs', false], ['vmhraddshs', true]] as const) {
  ternary(name, (v, a, c, d) => {
    const [low, high] = (['low', 'high'] as const).map((half) => {
      let sum = v.op('vmul32', wordsOf(v, a, half), wordsOf(v, c, half));
      if (rounds) sum = v.op('vadd32', sum, v.each(0x4000n, 32));
      return v.op('vadd32', v.op('vsar32', sum, 15n), wordsOf(v, d, half));
    });
    const narrow = v.op('vnarrows32', low!, high!);
    const wide = (['low', 'high'] as const).map((half) => wordsOf(v, narrow, half));
    v.saturated(v.b.make('or', v.differ(low!, wide[0]!), v.differ(high!, wide[1]!)));
    return narrow;
  });
} // prettier-ignore

/** Halfwords of each word, the upper and the lower ones, summed as words. */
const summedHalves = (v: Vectors, a: Slot, signed: boolean): Slot =>
  v.op('vadd32', widened(v, 16, a, true, signed), widened(v, 16, a, false, signed));

for (const [name, signed] of [['vmsumubm', false], ['vmsummbm', true]] as const) {
  ternary(name, (v, a, c, d) => {
    const [even, odd] = [true, false].map((isEven) => product(v, 8, [a, c], isEven, [signed, false]));
    const sum = v.op('vadd32', summedHalves(v, even!, signed), summedHalves(v, odd!, signed));
    return v.op('vadd32', sum, d);
  });
} // prettier-ignore
ternary('vmsumuhm', (v, a, c, d) => {
  const [even, odd] = [true, false].map((isEven) => product(v, 16, [a, c], isEven, [false, false]));
  return v.op('vadd32', v.op('vadd32', even!, odd!), d);
});
ternary('vmsumshm', (v, a, c, d) => v.op('vadd32', v.op('vdot16', a, c), d));
ternary('vmsumuhs', (v, a, c, d) => {
  const [even, odd] = [true, false].map((isEven) => product(v, 16, [a, c], isEven, [false, false]));
  return unsignedSum(v, unsignedSum(v, even!, odd!), d);
});
ternary('vmsumshs', (v, a, c, d) => {
  const sum = v.op('vdot16', a, c);
  // Of two products the sum is 2^31, which wraps, where all factors are the lowest number.
  const wraps = v.op('veq32', sum, v.each(1n << 31n, 32));
  return signedSum(v, sum, d, v.op('andnot128', sum, wraps));
});

// -------------------------------------------------------------------------- sums that saturate

/** Words without a sign: a + c. */
function unsignedSum(v: Vectors, a: Slot, c: Slot): Slot {
  const sum = v.op('vadd32', a, c);
  const isAbove = v.above(a, sum, 2);
  v.saturated(v.some(isAbove));
  return v.op('or128', sum, isAbove);
}

/** Signed words: a + c; `sign` has the sign of a. */
function signedSum(v: Vectors, a: Slot, c: Slot, sign = a): Slot {
  const sum = v.op('vadd32', a, c);
  return limited(v, sum, v.op('and128', v.op('xor128', sign, sum), v.op('xor128', c, sum)), sign);
}

/** Words, or where the sign of `overflow` says so the limit on the side of `sign`. */
function limited(v: Vectors, sum: Slot, overflow: Slot, sign: Slot): Slot {
  const isOver = v.op('vsar32', overflow, 31n);
  v.saturated(v.some(isOver));
  const limit = v.op('xor128', v.op('vsar32', sign, 31n), v.each(0x7fff_ffffn, 32));
  return v.choose(isOver, limit, sum);
}

const SATURATING = {
  addub: ['vaddu8', 'vadd8'], addsb: ['vadds8', 'vadd8'], subub: ['vsubu8', 'vsub8'], subsb: ['vsubs8', 'vsub8'],
  adduh: ['vaddu16', 'vadd16'], addsh: ['vadds16', 'vadd16'], subuh: ['vsubu16', 'vsub16'], subsh: ['vsubs16', 'vsub16'],
} as const; // prettier-ignore
for (const [name, [saturating, wrapping]] of Object.entries(SATURATING)) {
  binary(`v${name}s`, (v, a, c) => {
    const result = v.op(saturating, a, c);
    // An element that did not fit differs from the one that wraps.
    v.saturated(v.differ(result, v.op(wrapping, a, c)));
    return result;
  });
}
binary('vadduws', unsignedSum);
binary('vaddsws', signedSum);
binary('vsubuws', (v, a, c) => {
  const greatest = v.op('vmaxu32', a, c);
  v.saturated(v.differ(greatest, a));
  return v.op('vsub32', greatest, c);
});
binary('vsubsws', (v, a, c) => {
  const difference = v.op('vsub32', a, c);
  return limited(v, difference, v.op('and128', v.op('xor128', a, c), v.op('xor128', a, difference)), a);
});

// ------------------------------------------------------------------------- sums across elements

/** Bytes of each halfword summed as halfwords. */
const summedBytes = (v: Vectors, a: Slot, signed: boolean): Slot =>
  v.op('vadd16', widened(v, 8, a, true, signed), widened(v, 8, a, false, signed));

binary('vsum4ubs', (v, a, c) => unsignedSum(v, summedHalves(v, summedBytes(v, a, false), false), c));
binary('vsum4sbs', (v, a, c) => signedSum(v, summedHalves(v, summedBytes(v, a, true), true), c));
binary('vsum4shs', (v, a, c) => signedSum(v, summedHalves(v, a, true), c));

/** A sum as the nearest signed word, without the bits above it. */
function clampedWord(v: Vectors, sum: Slot): Slot {
  const { b } = v;
  const fits = b.make('seteq', b.make('sx32', sum), sum);
  v.saturated(b.make('xor', fits, 1n));
  const d = b.temp();
  b.select(d, fits, sum, b.make('xor', b.make('sar', sum, 63n), 0x7fff_ffffn));
  return b.make('zx32', d);
}
const sumOfWords = (v: Vectors, half: Slot): Slot =>
  v.b.make('add', v.b.make('sar', half, 32n), v.b.make('sx32', half));
binary('vsum2sws', (v, a, c) =>
  byHalves(v, [a, c], ([x, y]) => clampedWord(v, v.b.make('add', sumOfWords(v, x!), v.b.make('sx32', y!)))),
);
binary('vsumsws', (v, a, c) => {
  const [upper, lower] = v.halves(a).map((half) => sumOfWords(v, half));
  const last = v.b.make('sx32', v.halves(c)[1]);
  return v.joined(0n, clampedWord(v, v.b.make('add', v.b.make('add', upper!, lower!), last)));
});

// --------------------------------------------------------------------- averages, carries, extremes

for (const [letter, bits] of [['b', 8], ['h', 16]] as const) {
  binary(`vavgu${letter}`, (v, a, c) => v.op(`vavg${bits}`, a, c));
  binary(`vavgs${letter}`, (v, a, c) => {
    const sign = v.each(1n << BigInt(bits - 1), bits);
    return v.op('xor128', v.op(`vavg${bits}`, v.op('xor128', a, sign), v.op('xor128', c, sign)), sign);
  });
} // prettier-ignore
for (const [sign, shift] of [['s', 'vsar32'], ['u', 'vshr32']] as const) {
  binary(`vavg${sign}w`, (v, a, c) => v.op('vsub32', v.op('or128', a, c), v.op(shift, v.op('xor128', a, c), 1n)));
} // prettier-ignore
binary('vaddcuw', (v, a, c) => v.op('vshr32', v.above(a, v.op('vadd32', a, c), 2), 31n));
binary('vsubcuw', (v, a, c) => v.op('vshr32', v.not(v.above(c, a, 2)), 31n));

for (const [name, isMaximum, isSigned] of [
  ['vmaxsd', true, true], ['vminsd', false, true], ['vmaxud', true, false], ['vminud', false, false],
] as const) {
  binary(name, (v, a, c) => {
    const isGreater = isSigned ? v.op('vgt64', a, c) : v.above(a, c, 3);
    return isMaximum ? v.choose(isGreater, a, c) : v.choose(isGreater, c, a);
  });
} // prettier-ignore

/** a + c + carry of quadwords, and the carry out. */
function quadwordSum(v: Vectors, a: Slot, c: Slot, carry: Operand): { readonly sum: Slot; readonly carry: Slot } {
  const { b } = v;
  const [[aUpper, aLower], [cUpper, cLower]] = [v.halves(a), v.halves(c)];
  const part = (x: Slot, y: Slot, carryIn: Operand): readonly [sum: Slot, carry: Slot] => {
    const first = b.make('add', x, y);
    const sum = b.make('add', first, carryIn);
    return [sum, b.make('or', b.make('setltu', first, x), b.make('setltu', sum, first))];
  };
  const [lower, between] = part(aLower, cLower, carry);
  const [upper, out] = part(aUpper, cUpper, between);
  return { sum: v.joined(upper, lower), carry: v.joined(0n, out) };
}
for (const [name, isDifference] of [['add', false], ['sub', true]] as const) {
  // Differences add the complement.
  const second = (v: Vectors, c: Slot): Slot => (isDifference ? v.not(c) : c);
  const first = isDifference ? 1n : 0n;
  const carryIn = (v: Vectors, d: Slot): Slot => v.b.make('and', v.halves(d)[1], 1n);
  binary(`v${name}uqm`, (v, a, c) => quadwordSum(v, a, second(v, c), first).sum);
  binary(`v${name}cuq`, (v, a, c) => quadwordSum(v, a, second(v, c), first).carry);
  ternary(`v${name}euqm`, (v, a, c, d) => quadwordSum(v, a, second(v, c), carryIn(v, d)).sum);
  ternary(`v${name}ecuq`, (v, a, c, d) => quadwordSum(v, a, second(v, c), carryIn(v, d)).carry);
} // prettier-ignore

// ------------------------------------------------------------------------------------------ packs

/** Elements limited to what half their width holds, and packed: those of `a` are the upper ones. */
function packed(name: string, bits: 16 | 32, limits: readonly [name: PureName, value: bigint][], pack: PureName): void {
  binary(name, (v, a, c) => {
    const fitting = [a, c].map((each) => limits.reduce((x, [op, value]) => v.op(op, x, v.each(value, bits)), each));
    v.saturated(v.b.make('or', v.differ(a, fitting[0]!), v.differ(c, fitting[1]!)));
    return v.op(pack, fitting[1]!, fitting[0]!);
  });
}
for (const [letter, bits] of [['h', 16], ['w', 32]] as const) {
  const half = BigInt(bits / 2);
  const top = (1n << (half - 1n)) - 1n;
  packed(`vpku${letter}us`, bits, [[`vminu${bits}`, 2n * top + 1n]], `vnarrowu${bits}`);
  packed(`vpks${letter}us`, bits, [[`vmins${bits}`, 2n * top + 1n], [`vmaxs${bits}`, 0n]], `vnarrowu${bits}`);
  packed(`vpks${letter}ss`, bits, [[`vmins${bits}`, top], [`vmaxs${bits}`, -top - 1n]], `vnarrows${bits}`);
} // prettier-ignore

/** Doublewords to the nearest words. */
function packedDoublewords(name: string, narrow: (v: Vectors, x: Slot) => readonly [fits: Slot, limit: Slot]): void {
  binary(name, (v, a, c) => {
    const { b } = v;
    const [first, second] = [a, c].map((each) => {
      const words = v.halves(each).map((half) => {
        const [fits, limit] = narrow(v, half);
        v.saturated(b.make('xor', fits, 1n));
        const d = b.temp();
        b.select(d, fits, half, limit);
        return d;
      });
      return b.make('or', b.make('shl', words[0]!, 32n), b.make('zx32', words[1]!));
    });
    return v.joined(first!, second!);
  });
}
packedDoublewords('vpkudus', ({ b }, x) => [b.make('setleu', x, 0xffff_ffffn), b.make('mov', ONES)]);
packedDoublewords('vpksdus', ({ b }, x) => [
  b.make('setleu', x, 0xffff_ffffn),
  b.make('xor', b.make('sar', x, 63n), ONES),
]);
packedDoublewords('vpksdss', ({ b }, x) => [
  b.make('seteq', b.make('sx32', x), x),
  b.make('xor', b.make('sar', x, 63n), 0x7fff_ffffn),
]);

/** Pixels: a bit, which fills a byte, and three numbers of 5 bits. */
const masked = (v: Vectors, a: Slot, parts: readonly (readonly [shift: PureName, by: bigint, mask: bigint])[]): Slot =>
  parts
    .map(([shift, by, mask]) => v.op('and128', by === 0n ? a : v.op(shift, a, by), v.each(mask, 32)))
    .reduce((all, each) => v.op('or128', all, each));
for (const [name, half] of [['vupkhpx', 'high'], ['vupklpx', 'low']] as const) {
  unary(name, (v, a) =>
    masked(v, wordsOf(v, a, half), [
      ['vshl32', 0n, 0xff00_001fn],
      ['vshl32', 6n, 0x001f_0000n],
      ['vshl32', 3n, 0x0000_1f00n],
    ]),
  );
} // prettier-ignore
binary('vpkpx', (v, a, c) => {
  const narrow = (each: Slot): Slot =>
    masked(v, each, [
      ['vshr32', 9n, 0xfc00n],
      ['vshr32', 6n, 0x03e0n],
      ['vshr32', 3n, 0x001fn],
    ]);
  return v.op('vnarrowu32', narrow(c), narrow(a));
});

// ------------------------------------------------------------------------------------------- bits

const NIBBLE = 0x0fn;
/** Leading zeros of numbers of 4 bits. */
const LEADING_ZEROS = [0x0101_0101_0202_0304n, 0n] as const;

/** Leading zeros of the elements of half the bits put together. */
function leadingZeros(v: Vectors, a: Slot, bits: Narrow): Slot {
  if (bits === 8) {
    const of = (nibbles: Slot): Slot => v.op('vswizzle', v.constant(...LEADING_ZEROS), nibbles);
    const upper = v.op('and128', v.op('vshr16', a, 4n), v.each(NIBBLE, 8));
    const lower = v.op('and128', a, v.each(NIBBLE, 8));
    return v.op('vadd8', of(upper), v.op('and128', of(lower), v.op('veq8', upper, v.each(0n, 8))));
  }
  const half = (bits / 2) as 8 | 16;
  const counts = leadingZeros(v, a, half);
  const [upper, lower] = [widened(v, half, counts, true, false), widened(v, half, counts, false, false)];
  const isAll = v.op(EQUAL[bits === 16 ? 1 : 2], upper, v.each(BigInt(half), bits));
  return v.op(ADD[bits], upper, v.op('and128', lower, isAll));
}

export function ones(v: Vectors, a: Slot, bits: Narrow): Slot {
  if (bits === 8) return v.op('popcnt8x16', a);
  const half = (bits / 2) as 8 | 16;
  const counts = ones(v, a, half);
  return v.op(ADD[bits], widened(v, half, counts, true, false), widened(v, half, counts, false, false));
}
for (const [letter, bits] of [['b', 8], ['h', 16], ['w', 32]] as const) {
  unary(`vclz${letter}`, (v, a) => leadingZeros(v, a, bits));
  unary(`vpopcnt${letter}`, (v, a) => ones(v, a, bits));
} // prettier-ignore
for (const [name, count] of [['vclzd', 'clz'], ['vpopcntd', 'popcnt']] as const)
  unary(name, (v, a) => byHalves(v, [a], ([x]) => v.b.make(count, x!))); // prettier-ignore

/** The byte of `a` that has bit `index` is the one of that number; an index above 127 has none. */
binary('vbpermq', (v, a, c) => {
  const number = v.op('and128', v.op('vshr16', c, 3n), v.each(0x1fn, 8));
  const bytes = v.op('vswizzle', a, v.op('vsub8', v.each(15n, 8), number));
  const bit = v.op('vswizzle', v.constant(0x0102_0408_1020_4080n, 0n), v.op('and128', c, v.each(7n, 8)));
  const isSet = v.op('veq8', v.op('and128', bytes, bit), bit);
  return v.joined(v.b.make('vmask8', isSet), 0n);
});
ternary('vpermxor', (v, a, c, d) => {
  const of = (from: Slot, number: Slot): Slot =>
    v.op('vswizzle', from, v.op('vsub8', v.each(15n, 8), v.op('and128', number, v.each(NIBBLE, 8))));
  return v.op('xor128', of(a, v.op('vshr16', d, 4n)), of(c, d));
});

/** Rows by mnemonic. */
export const ELEMENT_ROWS: ReadonlyMap<string, ElementRow> = ROWS;
