/**
 * Instructions on packed integers and conversions as helpers execute them: those of SSE2 and its
 * successors that are rare or whose flags matter, and all of MMX. One definition serves both
 * widths.
 *
 * Source: Intel SDM volume 2.
 */
import { BINARY32, BINARY64, convert, divide, squareRoot } from '../float/index.js';
import type { Environment, Format } from '../float/index.js';
import { isNan, isSubnormal } from './float.js';
import { AVX_OPERATIONS, AVX_WHOLE } from './avx.js';
import { FLOAT_OPERATIONS } from './float.js';
import type { FloatOperation, FloatResult } from './float.js';
import type { VectorConversion } from './float-lift.js';
import { bitsOf, converted, each, lane, pack, signedLane } from './lanes.js';
import type { VectorOperands, VectorOperation } from './lanes.js';

const clamp = (value: bigint, low: bigint, high: bigint): bigint => (value < low ? low : value > high ? high : value);
const saturate = (value: bigint, bits: number, signed: boolean): bigint =>
  signed
    ? clamp(value, -(1n << BigInt(bits - 1)), (1n << BigInt(bits - 1)) - 1n)
    : clamp(value, 0n, (1n << BigInt(bits)) - 1n);
const saturating = (bits: number, signed: boolean, operation: (a: bigint, b: bigint) => bigint): VectorOperation =>
  each(bits, signed, (a, b) => saturate(operation(a, b), bits, signed));

/** Two lanes of a in one of half the bits, then those of b. */
const packing =
  (bits: number, signed: boolean): VectorOperation =>
  ({ width, a, b }) => {
    const half = width / bits;
    return pack(2 * half, bits / 2, (i) => saturate(signedLane(i < half ? a : b, i % half, bits), bits / 2, signed));
  };

const interleaving =
  (bits: number, high: boolean): VectorOperation =>
  ({ width, a, b }) => {
    const count = width / bits;
    return pack(count, bits, (i) => lane(i % 2 === 0 ? a : b, (high ? count / 2 : 0) + (i >> 1), bits));
  };

const shifting =
  (bits: number, kind: 'left' | 'right' | 'arithmetic'): VectorOperation =>
  ({ width, a, b }) => {
    const wanted = lane(b, 0, 64);
    const count = wanted < BigInt(bits) ? wanted : BigInt(bits);
    return pack(width / bits, bits, (i) =>
      kind === 'left'
        ? lane(a, i, bits) << count
        : (kind === 'right' ? lane(a, i, bits) : signedLane(a, i, bits)) >> count,
    );
  };

const absolute = (value: bigint): bigint => (value < 0n ? -value : value);
/** Sums of neighbours, of a and then of b. */
const horizontal =
  (bits: number, operation: (a: bigint, b: bigint) => bigint): VectorOperation =>
  ({ width, a, b }) => {
    const half = width / bits / 2;
    return pack(2 * half, bits, (i) => {
      const from = i < half ? a : b;
      const at = 2 * (i % half);
      return operation(signedLane(from, at, bits), signedLane(from, at + 1, bits));
    });
  };

const plus = (a: bigint, b: bigint): bigint => a + b;
const minus = (a: bigint, b: bigint): bigint => a - b;
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);
const average = (a: bigint, b: bigint): bigint => (a + b + 1n) >> 1n;
const ones = (holds: boolean): bigint => (holds ? -1n : 0n);

/** The operations that MMX has, by their names. */
const INTEGERS: Readonly<Record<string, VectorOperation>> = {
  paddb: each(8, false, plus),
  paddw: each(16, false, plus),
  paddd: each(32, false, plus),
  paddq: each(64, false, plus),
  psubb: each(8, false, minus),
  psubw: each(16, false, minus),
  psubd: each(32, false, minus),
  psubq: each(64, false, minus),
  paddsb: saturating(8, true, plus),
  paddsw: saturating(16, true, plus),
  paddusb: saturating(8, false, plus),
  paddusw: saturating(16, false, plus),
  psubsb: saturating(8, true, minus),
  psubsw: saturating(16, true, minus),
  psubusb: saturating(8, false, minus),
  psubusw: saturating(16, false, minus),
  pminub: each(8, false, least),
  pmaxub: each(8, false, most),
  pminsw: each(16, true, least),
  pmaxsw: each(16, true, most),
  pavgb: each(8, false, average),
  pavgw: each(16, false, average),
  pcmpeqb: each(8, false, (a, b) => ones(a === b)),
  pcmpeqw: each(16, false, (a, b) => ones(a === b)),
  pcmpeqd: each(32, false, (a, b) => ones(a === b)),
  pcmpgtb: each(8, true, (a, b) => ones(a > b)),
  pcmpgtw: each(16, true, (a, b) => ones(a > b)),
  pcmpgtd: each(32, true, (a, b) => ones(a > b)),
  pand: ({ a, b }) => a & b,
  pandn: ({ a, b }) => ~a & b,
  por: ({ a, b }) => a | b,
  pxor: ({ a, b }) => a ^ b,
  pmullw: each(16, true, (a, b) => a * b),
  pmulhw: each(16, true, (a, b) => (a * b) >> 16n),
  pmulhuw: each(16, false, (a, b) => (a * b) >> 16n),
  pmulhrsw: each(16, true, (a, b) => (a * b + 0x4000n) >> 15n),
  pmuludq: each(64, false, (a, b) => BigInt.asUintN(32, a) * BigInt.asUintN(32, b)),
  pmaddwd: each(
    32,
    false,
    (a, b) => signedLane(a, 0, 16) * signedLane(b, 0, 16) + signedLane(a, 1, 16) * signedLane(b, 1, 16),
  ),
  pmaddubsw: each(16, false, (a, b) =>
    saturate(lane(a, 0, 8) * signedLane(b, 0, 8) + lane(a, 1, 8) * signedLane(b, 1, 8), 16, true),
  ),
  psadbw: each(64, false, (a, b) => {
    let sum = 0n;
    for (let i = 0; i < 8; i++) sum += absolute(lane(a, i, 8) - lane(b, i, 8));
    return sum;
  }),
  packsswb: packing(16, true),
  packuswb: packing(16, false),
  packssdw: packing(32, true),
  punpcklbw: interleaving(8, false),
  punpcklwd: interleaving(16, false),
  punpckldq: interleaving(32, false),
  punpckhbw: interleaving(8, true),
  punpckhwd: interleaving(16, true),
  punpckhdq: interleaving(32, true),
  psllw: shifting(16, 'left'),
  pslld: shifting(32, 'left'),
  psllq: shifting(64, 'left'),
  psrlw: shifting(16, 'right'),
  psrld: shifting(32, 'right'),
  psrlq: shifting(64, 'right'),
  psraw: shifting(16, 'arithmetic'),
  psrad: shifting(32, 'arithmetic'),
  pshufw: ({ b, control }) => pack(4, 16, (i) => lane(b, (control >> (2 * i)) & 3, 16)),
  pinsrw: ({ width, a, b, control }) => {
    const at = BigInt(16 * (control & (width / 16 - 1)));
    return (a & ~(0xffffn << at)) | (lane(b, 0, 16) << at);
  },
  pshufb: ({ width, a, b }) =>
    pack(width / 8, 8, (i) => {
      const from = Number(lane(b, i, 8));
      return from >= 0x80 ? 0n : lane(a, from & (width / 8 - 1), 8);
    }),
  palignr: ({ width, a, b, control }) => ((a << BigInt(width)) | BigInt.asUintN(width, b)) >> BigInt(8 * control),
  phaddw: horizontal(16, plus),
  phaddd: horizontal(32, plus),
  phaddsw: horizontal(16, (a, b) => saturate(a + b, 16, true)),
  phsubw: horizontal(16, minus),
  phsubd: horizontal(32, minus),
  phsubsw: horizontal(16, (a, b) => saturate(a - b, 16, true)),
  psignb: each(8, true, (a, b) => (b < 0n ? -a : b === 0n ? 0n : a)),
  psignw: each(16, true, (a, b) => (b < 0n ? -a : b === 0n ? 0n : a)),
  psignd: each(32, true, (a, b) => (b < 0n ? -a : b === 0n ? 0n : a)),
  pabsb: each(8, true, (_, b) => absolute(b)),
  pabsw: each(16, true, (_, b) => absolute(b)),
  pabsd: each(32, true, (_, b) => absolute(b)),
  /** The whole source. */
  movq: ({ b }) => b,
};

// ------------------------------------------------------------------------------------ conversions

/** @param bits  so many of the register have an element */
const floatsToIntegers =
  (of: Format, bits: 32 | 64, truncates: boolean): VectorOperation =>
  (x) =>
    converted(x, x.width / bits, 32, (i) => x.sse.toInteger(of, lane(x.b, i, bitsOf(of)), 32, truncates));

const integersToFloats =
  (to: Format): VectorOperation =>
  (x) =>
    converted(x, x.width / bitsOf(to), bitsOf(to), (i) => x.sse.fromInteger(to, signedLane(x.b, i, 32)));

const floatsToFloats =
  (from: Format, to: Format): VectorOperation =>
  (x) =>
    converted(x, x.width / 64, bitsOf(to), (i) => x.sse.convert(from, to, lane(x.b, i, bitsOf(from))));

const CONVERSIONS: Readonly<Record<VectorConversion, VectorOperation>> = {
  cvtps2pd: floatsToFloats(BINARY32, BINARY64),
  cvtpd2ps: floatsToFloats(BINARY64, BINARY32),
  cvtdq2ps: integersToFloats(BINARY32),
  cvtdq2pd: integersToFloats(BINARY64),
  cvtps2dq: floatsToIntegers(BINARY32, 32, false),
  cvttps2dq: floatsToIntegers(BINARY32, 32, true),
  cvtpd2dq: floatsToIntegers(BINARY64, 64, false),
  cvttpd2dq: floatsToIntegers(BINARY64, 64, true),
};

/** Between MMX and SSE. */
const MMX_CONVERSIONS: Readonly<Record<string, VectorOperation>> = {
  cvtps2pi: floatsToIntegers(BINARY32, 32, false),
  cvttps2pi: floatsToIntegers(BINARY32, 32, true),
  cvtpd2pi: floatsToIntegers(BINARY64, 32, false),
  cvttpd2pi: floatsToIntegers(BINARY64, 32, true),
  /** The upper half of the target stays. */
  cvtpi2ps: (x) =>
    ((x.a >> 64n) << 64n) | converted(x, 2, 32, (i) => x.sse.fromInteger(BINARY32, signedLane(x.b, i, 32))),
  cvtpi2pd: integersToFloats(BINARY64),
};

// ---------------------------------------------------------------------------------- SSE3 and SSE4

const countOf = (of: Format): number => 128 / bitsOf(of);

/** One operation on elements, whose exceptions are noted. */
function element(x: VectorOperands, of: Format, operation: FloatOperation, a: bigint, b: bigint): bigint {
  const { bits, flags } = x.sse.element(of, operation, a, b, x.control);
  x.flags |= flags;
  return bits;
}

/** All elements, or the lowest one. */
const floats =
  (of: Format, operation: FloatOperation, isScalar: boolean): VectorOperation =>
  (x) => {
    const bits = bitsOf(of);
    return pack(countOf(of), bits, (i) => {
      if (isScalar && i > 0) return lane(x.a, i, bits);
      return element(x, of, operation, lane(x.a, i, bits), lane(x.b, i, bits));
    });
  };

/** The lowest element anew. */
const scalar =
  (to: Format, convert: (x: VectorOperands) => FloatResult): VectorOperation =>
  (x) => {
    const { bits, flags } = convert(x);
    x.flags |= flags;
    const place = BigInt(bitsOf(to));
    return ((x.a >> place) << place) | bits;
  };

/** Those of which ops do the most. */
const FLOATS: Readonly<Record<string, VectorOperation>> = {
  ...Object.fromEntries(
    FLOAT_OPERATIONS.flatMap((name) => [
      [`${name}ss`, floats(BINARY32, name, true)],
      [`${name}sd`, floats(BINARY64, name, true)],
      [`${name}ps`, floats(BINARY32, name, false)],
      [`${name}pd`, floats(BINARY64, name, false)],
    ]),
  ),
  cvtss2sd: scalar(BINARY64, ({ sse, b }) => sse.convert(BINARY32, BINARY64, lane(b, 0, 32))),
  cvtsd2ss: scalar(BINARY32, ({ sse, b }) => sse.convert(BINARY64, BINARY32, lane(b, 0, 64))),
  /** The integer has 64 bits. */
  cvtsi2ss: scalar(BINARY32, ({ sse, b }) => sse.fromInteger(BINARY32, signedLane(b, 0, 64))),
  cvtsi2sd: scalar(BINARY64, ({ sse, b }) => sse.fromInteger(BINARY64, signedLane(b, 0, 64))),
};

/** Neighbours of a, then those of b. */
const horizontalFloats =
  (of: Format, operation: FloatOperation): VectorOperation =>
  (x) => {
    const [bits, half] = [bitsOf(of), countOf(of) / 2];
    return pack(2 * half, bits, (i) => {
      const [from, at] = [i < half ? x.a : x.b, 2 * (i % half)];
      return element(x, of, operation, lane(from, at, bits), lane(from, at + 1, bits));
    });
  };

/** Differences in even places, sums in odd ones. */
const alternating =
  (of: Format): VectorOperation =>
  (x) =>
    pack(countOf(of), bitsOf(of), (i) =>
      element(x, of, i % 2 === 0 ? 'sub' : 'add', lane(x.a, i, bitsOf(of)), lane(x.b, i, bitsOf(of))),
    );

const rounding =
  (of: Format, isScalar: boolean): VectorOperation =>
  (x) => {
    const bits = bitsOf(of);
    return pack(countOf(of), bits, (i) => {
      if (isScalar && i > 0) return lane(x.a, i, bits);
      const { bits: value, flags } = x.sse.round(of, lane(x.b, i, bits), x.control);
      x.flags |= flags;
      return value;
    });
  };

/** Products that the upper half of the control chooses are summed into places of the lower one. */
const dotProduct =
  (of: Format): VectorOperation =>
  (x) => {
    const [bits, count] = [bitsOf(of), countOf(of)];
    const products = Array.from({ length: count }, (_, i) =>
      ((x.control >> (4 + i)) & 1) === 0 ? 0n : element(x, of, 'mul', lane(x.a, i, bits), lane(x.b, i, bits)),
    );
    const pairs = [0, 2].slice(0, count / 2).map((i) => element(x, of, 'add', products[i]!, products[i + 1]!));
    const sum = pairs.length === 1 ? pairs[0]! : element(x, of, 'add', pairs[0]!, pairs[1]!);
    return pack(count, bits, (i) => (((x.control >> i) & 1) === 0 ? 0n : sum));
  };

const LATER: Readonly<Record<string, VectorOperation>> = {
  haddps: horizontalFloats(BINARY32, 'add'),
  haddpd: horizontalFloats(BINARY64, 'add'),
  hsubps: horizontalFloats(BINARY32, 'sub'),
  hsubpd: horizontalFloats(BINARY64, 'sub'),
  addsubps: alternating(BINARY32),
  addsubpd: alternating(BINARY64),
  roundps: rounding(BINARY32, false),
  roundpd: rounding(BINARY64, false),
  roundss: rounding(BINARY32, true),
  roundsd: rounding(BINARY64, true),
  dpps: dotProduct(BINARY32),
  dppd: dotProduct(BINARY64),
  insertps: ({ a, b, control }) =>
    pack(4, 32, (i) => {
      if (((control >> i) & 1) === 1) return 0n;
      return i === ((control >> 4) & 3) ? lane(b, control >> 6, 32) : lane(a, i, 32);
    }),
  /** The least word, and its place. */
  phminposuw: ({ b }) => {
    const words = Array.from({ length: 8 }, (_, i) => lane(b, i, 16));
    const found = words.reduce(least);
    return found | (BigInt(words.indexOf(found)) << 16n);
  },
  /** Differences of four bytes of b from every four of a. */
  mpsadbw: ({ a, b, control }) => {
    const [from, against] = [control & 4, 4 * (control & 3)];
    return pack(8, 16, (i) =>
      [0, 1, 2, 3].reduce((sum, j) => sum + absolute(lane(a, from + i + j, 8) - lane(b, against + j, 8)), 0n),
    );
  },
};

/** What `pcmpistri` and its kin came to. */
export interface TextComparison {
  /** A bit for each element of the second text. */
  readonly bits: number;
  /** Elements in a register. */
  readonly count: number;
}

/**
 * Compares two texts in registers.
 * @param lengths  elements of each that count
 */
export function compareTexts(
  a: bigint,
  b: bigint,
  control: number,
  lengths: readonly [number, number],
): TextComparison {
  const width = (control & 1) !== 0 ? 16 : 8;
  const count = 128 / width;
  const take = (control & 2) !== 0 ? signedLane : lane;
  const [first, second] = [a, b].map((text) => Array.from({ length: count }, (_, i) => take(text, i, width)));
  const [x, y] = [first!, second!];
  const [has, hasOther] = lengths.map(
    (length) =>
      (i: number): boolean =>
        i < length,
  );
  const all = Array.from({ length: count }, (_, i) => i);
  const holds = [
    (j: number): boolean => hasOther!(j) && all.some((i) => has!(i) && x[i] === y[j]),
    (j: number): boolean =>
      hasOther!(j) && all.some((i) => i % 2 === 0 && has!(i + 1) && y[j]! >= x[i]! && y[j]! <= x[i + 1]!),
    (j: number): boolean => (has!(j) && hasOther!(j) ? x[j] === y[j] : has!(j) === hasOther!(j)),
    (j: number): boolean => all.slice(0, count - j).every((i) => !has!(i) || (hasOther!(i + j) && x[i] === y[i + j])),
  ][(control >> 2) & 3]!;
  const negates = (j: number): boolean => (control & 0x10) !== 0 && ((control & 0x20) === 0 || hasOther!(j));
  const bits = all.reduce((sum, j) => sum | (holds(j) !== negates(j) ? 1 << j : 0), 0);
  return { bits, count };
}

// -------------------------------------------------------------------------------------- estimates

const NEAREST: Environment = { rounding: 'nearest-even', tininess: 'after', nan: () => 0n };

/**
 * An estimate of 1/x, or of the root of that, without flags: the rounded number, where processors
 * have other ones within 1.5 * 2^-12. As there, subnormal numbers are zeros, before and behind.
 */
function estimate(bits: bigint, isRoot: boolean): bigint {
  const { signBit, infinity, quietBit } = BINARY32;
  if (isNan(BINARY32, bits)) return bits | quietBit;
  const sign = bits & signBit;
  const magnitude = bits & ~signBit;
  if (magnitude === 0n || isSubnormal(BINARY32, bits)) return sign | infinity;
  if (isRoot && sign !== 0n) return signBit | infinity | quietBit;
  if (magnitude === infinity) return sign;
  const one = 0x3ff0_0000_0000_0000n;
  const wide = convert(BINARY32, BINARY64, NEAREST, bits).bits;
  const divisor = isRoot ? squareRoot(BINARY64, NEAREST, wide).bits : wide;
  const result = convert(BINARY64, BINARY32, NEAREST, divide(BINARY64, NEAREST, one, divisor).bits).bits;
  return isSubnormal(BINARY32, result) ? sign : result;
}

const estimating =
  (isRoot: boolean, isScalar: boolean): VectorOperation =>
  ({ a, b }) =>
    pack(4, 32, (i) => (isScalar && i > 0 ? lane(a, i, 32) : estimate(lane(b, i, 32), isRoot)));

const ESTIMATES: Readonly<Record<string, VectorOperation>> = {
  rcpps: estimating(false, false),
  rcpss: estimating(false, true),
  rsqrtps: estimating(true, false),
  rsqrtss: estimating(true, true),
};

/** All of them; helpers name one by its number. */
const OPERATIONS: readonly (readonly [name: string, operation: VectorOperation])[] = Object.entries({
  ...INTEGERS,
  ...CONVERSIONS,
  ...MMX_CONVERSIONS,
  ...ESTIMATES,
  ...LATER,
  ...FLOATS,
  ...AVX_OPERATIONS,
});

/** Those that take 256 bits as one; of the others AVX executes each half by itself. */
const WHOLE = new Set(['cvtps2pd', 'cvtpd2ps', 'cvtdq2pd', 'cvtpd2dq', 'cvttpd2dq', ...AVX_WHOLE]);
/** By what the control byte of the upper half is shifted. */
const UPPER_CONTROL: Readonly<Record<string, number>> = { mpsadbw: 3 };
const isWhole: readonly boolean[] = OPERATIONS.map(([name]) => WHOLE.has(name));

/** The number of an operation; -1: there is none of that name. */
export const vectorOperation = (name: string): number => OPERATIONS.findIndex(([each]) => each === name);

/** The result, as far as the register is wide. */
export function runVectorOperation(number: number, operands: VectorOperands): bigint {
  const run = OPERATIONS[number]![1];
  if (operands.width === 256 && !isWhole[number]) {
    const shift = UPPER_CONTROL[OPERATIONS[number]![0]] ?? 0;
    const part = (at: bigint): bigint => {
      const [a, b, c] = [operands.a, operands.b, operands.c].map((each) => low128(each >> at)) as [
        bigint,
        bigint,
        bigint,
      ];
      const control = at === 0n ? operands.control : operands.control >> shift;
      const half = { ...operands, width: 128 as const, a, b, c, control };
      const value = BigInt.asUintN(128, run(half));
      operands.flags |= half.flags;
      return value;
    };
    return part(0n) | (part(128n) << 128n);
  }
  return BigInt.asUintN(operands.width, run(operands));
}

const low128 = (value: bigint): bigint => BigInt.asUintN(128, value);

/** Names of operations on registers of MMX alone. */
export const MMX_INTEGERS: readonly string[] = Object.keys(INTEGERS);
/** Names of those on the other registers. */
export const VECTOR_CONVERSIONS = Object.keys(CONVERSIONS) as readonly VectorConversion[];
export const VECTOR_ESTIMATES: readonly string[] = Object.keys(ESTIMATES);
/** Names of those of SSE3 and SSE4. */
export const VECTOR_LATER: readonly string[] = Object.keys(LATER);
