/**
 * Operands that floating point is wrong about first, for the batches of all machines, in the manner
 * of level 1 of Berkeley TestFloat: exponents at the ends, around 1 and around the width of a
 * fraction; fractions of one bit, of a run of ones, one less than a power of two; a second operand
 * whose sum, product or quotient with the first is at a border, a third at the product of the two.
 */
import type { Random } from './random.js';

export interface FloatShape {
  readonly exponentBits: number;
  readonly fractionBits: number;
}

export const FLOAT_SHAPES = {
  16: { exponentBits: 5, fractionBits: 10 },
  32: { exponentBits: 8, fractionBits: 23 },
  64: { exponentBits: 11, fractionBits: 52 },
} as const satisfies Record<16 | 32 | 64, FloatShape>;

const ones = (count: number): bigint => (1n << BigInt(count)) - 1n;

function hardFraction(random: Random, bits: number): bigint {
  const at = random.below(bits);
  switch (random.below(8)) {
    case 0:
      return 0n;
    case 1:
      return 1n;
    case 2:
      return ones(bits);
    case 3:
      return ones(bits) - 1n;
    case 4:
      return 1n << BigInt(at);
    case 5:
      return ones(at);
    case 6:
      return ones(bits) ^ ones(at);
    default:
      return BigInt.asUintN(bits, (BigInt(random.below(2 ** 32)) << 32n) | BigInt(random.below(2 ** 32)));
  }
}

/** Three numbers of a format, which belong together in this order. */
export function hardTriple(random: Random, { exponentBits, fractionBits }: FloatShape): [bigint, bigint, bigint] {
  const [bias, top] = [2 ** (exponentBits - 1) - 1, 2 ** exponentBits - 1];
  const special = [0, 0, 1, 2, bias - fractionBits - 1, bias - fractionBits, bias - 2, bias - 1, bias, bias, bias + 1, bias + 2,
    bias + fractionBits, bias + fractionBits + 1, top - 2, top - 1, top, random.below(top + 1)]; // prettier-ignore
  const near = (exponent: number, distance: number): number => exponent + random.below(2 * distance + 1) - distance;
  const border = (): number => random.pick([near(0, fractionBits + 2), near(1, 2), near(top, 2), near(bias, 2)]);
  const number = (exponent: number): bigint => {
    const field = BigInt(Math.min(Math.max(exponent, 0), top)) << BigInt(fractionBits);
    return (
      (BigInt(random.below(2)) << BigInt(exponentBits + fractionBits)) | field | hardFraction(random, fractionBits)
    );
  };
  const a = random.pick(special);
  const b = [
    () => random.pick(special),
    () => near(a, fractionBits + 3),
    () => near(a, 1),
    () => border() - a + bias,
    () => a - border() + bias,
  ][random.below(5)]!();
  const product = a + b - bias;
  const c = random.pick([random.pick(special), near(product, 2), near(product, 2 * fractionBits + 4)]);
  return [number(a), number(b), number(c)];
}

/** The same in C: `hard(exponent bits, fraction bits, out)` over the program's `next64`. */
export const HARD_C = `
static int hard_near(int exponent, int distance) { return exponent + (int)(next64() % (2 * distance + 1)) - distance; }
static u64 hard_number(int exponent, int e, int f) {
  u64 ones = (1ull << f) - 1, any = next64(), fraction = 0;
  int at = (any >> 8) % f, top = (1 << e) - 1;
  if (exponent < 0) exponent = 0;
  if (exponent > top) exponent = top;
  switch (any & 7) {
  case 0: break;
  case 1: fraction = 1; break;
  case 2: fraction = ones; break;
  case 3: fraction = ones - 1; break;
  case 4: fraction = 1ull << at; break;
  case 5: fraction = (1ull << at) - 1; break;
  case 6: fraction = ones ^ ((1ull << at) - 1); break;
  default: fraction = next64() & ones;
  }
  return (any >> 63) << (e + f) | (u64)exponent << f | fraction;
}
static int hard_border(int e, int f) {
  int bias = (1 << (e - 1)) - 1, top = (1 << e) - 1;
  switch (next64() >> 20 & 3) {
  case 0: return hard_near(0, f + 2);
  case 1: return hard_near(1, 2);
  case 2: return hard_near(top, 2);
  default: return hard_near(bias, 2);
  }
}
static __attribute__((noinline)) void hard(int e, int f, u64 out[3]) {
  int bias = (1 << (e - 1)) - 1, top = (1 << e) - 1;
  int special[18] = {0, 0, 1, 2, bias - f - 1, bias - f, bias - 2, bias - 1, bias, bias, bias + 1, bias + 2, bias + f, bias + f + 1, top - 2, top - 1, top, (int)(next64() % (top + 1))};
  int a = special[next64() % 18], b, c;
  switch (next64() % 5) {
  case 0: b = special[next64() % 18]; break;
  case 1: b = hard_near(a, f + 3); break;
  case 2: b = hard_near(a, 1); break;
  case 3: b = hard_border(e, f) - a + bias; break;
  default: b = a - hard_border(e, f) + bias;
  }
  switch (next64() % 3) {
  case 0: c = special[next64() % 18]; break;
  case 1: c = hard_near(a + b - bias, 2); break;
  default: c = hard_near(a + b - bias, 2 * f + 4);
  }
  out[0] = hard_number(a, e, f);
  out[1] = hard_number(b, e, f);
  out[2] = hard_number(c, e, f);
}
`;
