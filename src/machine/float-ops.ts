/**
 * The ops of the intermediate representation that compute with floating point, in rows like those
 * of `ir.ts`. WebAssembly rounds to nearest and raises no exceptions, so such an op may find that
 * it must not decide: it leaves the block before its instruction then, as `guard` does, and the
 * instruction is executed in the slow way (`LiftLimits.slow`). What it does decide has the result
 * of every machine, and raises no exception that is not raised already.
 *
 * What the control register of the machine says is in an i64 slot, the **mode**, which the lifter
 * names in each op and its helpers keep up to date: `FLOAT_MODE`. While inexact is not raised a
 * function of the row (`clean`) decides whether the result is exact; once it is, the result only
 * has to be far enough from overflow and underflow (`settled`), which takes three instructions.
 *
 * A single lies in the low half of a slot of 64 bits, below 32 ones, as RISC-V has it; of rows
 * whose names end with w it is the double of the same value, as PowerPC has it. Operands in another
 * form are left to the slow way.
 *
 * Source: WebAssembly Core Specification 2.0, 4.3.3 and 5.4; IEEE Std 754-2019, clause 7.
 */

import { packed } from './packed-float-ops.js';

type Bytes = readonly number[];

/** Values of the mode slot. */
export const FLOAT_MODE = {
  /** To nearest, ties to even; inexact is not raised, and not to be ignored. */
  nearest: 0n,
  /** To nearest; inexact is raised, or never read. */
  inexact: 1n,
  /** Anything else: the op decides nothing. */
  other: 2n,
  /** Rounded so; inexact is raised. Sums of doubles alone are decided. */
  toZero: 5n,
  up: 6n,
  down: 7n,
} as const;

/**
 * What `ftold` is asked, in its mode slot: which operation rounded the operands to nearest, which
 * `kind` and the bits beside it say. It gives FR, FI and FPRF of the result as FPSCR of PowerPC
 * holds them, the one machine that tells of each result.
 */
export const TOLD = {
  kinds: {
    add: 1, sub: 2, mul: 3, div: 4, sqrt: 5, fma: 6,
    /** A double to the precision of the result. */
    round: 7,
    /** The operand is the result, which is exact. */
    value: 8,
    /** To an integer, cut off or to the nearest: it has no class. */
    cut: 9, nearest: 10,
    /** An integer with a sign, of which the operand has the bits. */
    integer: 11,
  },
  /** The result is a single, as are the operands of arithmetic; all of them are doubles. */
  single: 0x10,
  /** The addend, and the result of a fused operation are negated. */
  negatesAddend: 0x20,
  negates: 0x40,
  /** A sum of doubles in a directed mode, whose lower two bits are in place of the two above. */
  directed: 0x80,
  /** No such operation: nothing is decided. */
  unknown: 0x80,
} as const; // prettier-ignore
export type ToldKind = keyof typeof TOLD.kinds;

/**
 * Functions that the rows call: `fma64`, `fma32`, and those that say (1 or 0) whether an op that
 * was not settled raised nothing; their parameters are the operands, the result and the mode. Those
 * of `told` are the operands and the mode.
 */
export const FLOAT_FUNCTIONS = [
  'fma64', 'fma32', 'cleanadd64', 'cleansub64', 'cleanmul64', 'cleandiv64', 'cleansqrt64', 'cleanfma64', 'cleanadd32',
  'cleansub32', 'cleanmul32', 'cleandiv32', 'cleansqrt32', 'cleanfma32', 'cleannarrow', 'cleansigned64', 'cleanunsigned64',
  'cleansigned32', 'cleanunsigned32', 'cleaninteger', 'told',
  'roundadd64', 'roundsub64',
] as const; // prettier-ignore
export type FloatFunction = (typeof FLOAT_FUNCTIONS)[number];

/** d = f(a, b, c), or leaves the block before its instruction. */
export interface FloatRow {
  readonly form: 'float';
  /** Types of the slots: of the result and of all operands. */
  readonly d: 'i64' | 'f64' | 'v128';
  readonly type: 'i64' | 'f64' | 'v128';
  readonly operands: 1 | 2 | 3;
  /** Bytes after each operand, which make it a value of type `operand`. */
  readonly each: Bytes;
  readonly operand: 'i64' | 'f32' | 'f64' | 'v128';
  /** Called with all operands; then the bytes after them, which leave a value of type `result`. */
  readonly call?: FloatFunction;
  /** The mode is the last parameter of the call. */
  readonly callHasMode?: true;
  readonly both: Bytes;
  readonly result: 'i64' | 'f32' | 'f64' | 'v128';
  /**
   * The same where the engine multiplies and adds in one rounding (`relaxed_madd`): bytes after
   * each operand more, in place of the call, and what is settled then.
   */
  readonly inOne?: { readonly each: Bytes; readonly both: Bytes; readonly settled: Bytes };
  /** Bytes that make the result what the slot holds. */
  readonly after: Bytes;
  /** After the result, an i32: 0 where more may be raised than inexact. Empty: never. */
  readonly settled: Bytes;
  /** null: the mode does not matter. */
  readonly clean: FloatFunction | null;
  /** Called in place of `clean`: the result as the mode has it, a NaN where it is not decided. */
  readonly rounds?: FloatFunction;
  /** All elements of vectors are computed: their width, and what is settled of one result. */
  readonly lanes?: { readonly width: 32 | 64; readonly settled: Bytes; readonly settledInOne: Bytes };
  /** The operands are singles in slots of 64 bits. */
  readonly boxed: boolean;
  /** The operands are singles in the form of doubles. */
  readonly widened: boolean;
  /** After all operands, an i32 that is 0 where the op does not decide. */
  readonly domain: Bytes;
}

/** `i64.const`. */
function i64(value: bigint): Bytes {
  const out = [0x42];
  let rest = BigInt.asIntN(64, value);
  for (;;) {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    if ((rest === 0n && (low & 0x40) === 0) || (rest === -1n && (low & 0x40) !== 0)) return [...out, low];
    out.push(low | 0x80);
  }
}

/** `i32.const`. */
const i32 = (value: number): Bytes => [0x41, ...i64(BigInt(value | 0)).slice(1)];

/** Opcodes. */
const I32 = { eq: 0x46, ltu: 0x49, shl: 0x74, sub: 0x6b, wrap: 0xa7 } as const;
const I64 = { ltu: 0x54, shl: 0x86, sub: 0x7d, or: 0x84, and: 0x83, extendU: 0xad, extend32: 0xc4 } as const;
const BITS = { i32f32: 0xbc, i64f64: 0xbd, f32i32: 0xbe, f64i64: 0xbf } as const;
const PROMOTE = 0xbb;
const INFINITY64: Bytes = [0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f];
const INFINITY32: Bytes = [0x43, 0, 0, 0x80, 0x7f];

/** Bytes that unbox and box a single. */
const UNBOX: Bytes = [BITS.i64f64, I32.wrap, BITS.f32i32];
const INTO_BOX: Bytes = [BITS.i32f32, I64.extendU, ...i64(-0x1_0000_0000n), I64.or, BITS.f64i64];

/** Neither zero, nor next to the subnormal numbers or among them, nor infinite, nor a NaN. */
const ORDINARY: Readonly<Record<32 | 64, Bytes>> = {
  64: [BITS.i64f64, ...i64(1n), I64.shl, ...i64(2n << 53n), I64.sub, ...i64(2045n << 53n), I64.ltu],
  32: [BITS.i32f32, ...i32(1), I32.shl, ...i32(2 << 24), I32.sub, ...i32(253 << 24), I32.ltu],
};
/** Sums do not underflow. */
const FINITE: Readonly<Record<32 | 64, Bytes>> = {
  64: [0x99, ...INFINITY64, 0x63],
  32: [0x8b, ...INFINITY32, 0x5d],
};
/** Two numbers, neither a NaN nor infinities of both signs: their sum is not a NaN. */
const ORDERED: Readonly<Record<32 | 64, Bytes>> = {
  64: [0xa0, 0x99, ...INFINITY64, 0x65],
  32: [0x92, 0x8b, ...INFINITY32, 0x5f],
};

/** A number in all lanes; the multiplication and addition of lanes, and the lowest of them. */
const MULTIPLY_ADD: Readonly<Record<32 | 64, { readonly each: Bytes; readonly both: Bytes }>> = {
  64: { each: [0xfd, 0x14], both: [0xfd, 0x87, 0x02, 0xfd, 0x21, 0] },
  32: { each: [0xfd, 0x13], both: [0xfd, 0x85, 0x02, 0xfd, 0x1f, 0] },
};

type Width = 32 | 64;

const row = (width: Width, operands: FloatRow['operands'], both: Bytes, rest: Partial<FloatRow>): FloatRow => ({
  form: 'float',
  d: 'f64',
  type: 'f64',
  operands,
  each: width === 32 ? UNBOX : [],
  operand: width === 32 ? 'f32' : 'f64',
  both,
  result: width === 32 ? 'f32' : 'f64',
  after: width === 32 ? INTO_BOX : [],
  settled: [],
  clean: null,
  boxed: width === 32,
  widened: false,
  domain: [],
  ...rest,
});

const DEMOTE = 0xb6;
/** A row of singles as doubles. Operands that are integers stay what they are. */
const widened = (single: FloatRow): FloatRow => ({
  ...single,
  each: single.boxed ? [DEMOTE] : single.each,
  after: [PROMOTE],
  boxed: false,
  widened: single.boxed,
});

/** The opcode of doubles, that of singles is 14 lower. */
const opcode = (width: Width, double: number): Bytes => [width === 64 ? double : double - 14];

const sum = (width: Width, double: number, clean: FloatFunction): FloatRow =>
  row(width, 2, opcode(width, double), { settled: FINITE[width], clean });
const product = (width: Width, double: number, clean: FloatFunction): FloatRow =>
  row(width, 2, opcode(width, double), { settled: ORDINARY[width], clean });
const root = (width: Width, clean: FloatFunction): FloatRow =>
  row(width, 1, opcode(width, 0x9f), { settled: ORDINARY[width], clean });
const fused = (width: Width, call: FloatFunction, clean: FloatFunction): FloatRow =>
  row(width, 3, [], {
    call,
    // No sum of a product that `fma64` computes is subnormal and inexact.
    settled: width === 64 ? FINITE[64] : ORDINARY[32],
    inOne: { ...MULTIPLY_ADD[width], settled: ORDINARY[width] },
    clean,
  });
const extreme = (width: Width, double: number): FloatRow =>
  row(width, 2, opcode(width, double), { domain: ORDERED[width] });
/** Opcodes of comparisons of singles are 6 lower. */
const comparison = (width: Width, double: number): FloatRow =>
  row(width, 2, [width === 64 ? double : double - 6, I64.extendU], {
    d: 'i64', result: 'i64', after: [], domain: ORDERED[width],
  }); // prettier-ignore

/** Bytes that round a double to an integer of its format. */
const TO_INTEGRAL = { zero: [0x9d], down: [0x9c], up: [0x9b], nearest: [0x9e] } as const satisfies Record<
  string,
  Bytes
>;
export type IntegralRounding = keyof typeof TO_INTEGRAL;

/** Conversions to integers, and what a double must be for them after it was rounded. */
const TO_INTEGER = {
  // The range without its lowest number, and without negative zeros where it is unsigned.
  s32: { convert: [0xfc, 0x02, 0xac], domain: [0x99, 0x44, 0, 0, 0, 0, 0, 0, 0xe0, 0x41, 0x63] },
  u32: { convert: [0xfc, 0x03, 0xac], domain: [BITS.i64f64, ...i64(0x41f0_0000_0000_0000n), I64.ltu] },
  s64: { convert: [0xfc, 0x06], domain: [0x99, 0x44, 0, 0, 0, 0, 0, 0, 0xe0, 0x43, 0x63] },
  u64: { convert: [0xfc, 0x07], domain: [BITS.i64f64, ...i64(0x43f0_0000_0000_0000n), I64.ltu] },
} as const satisfies Record<string, { convert: Bytes; domain: Bytes }>;

/** An integer; those of 32 bits are sign-extended, unsigned ones too. */
const toInteger = (from: Width, rounding: IntegralRounding, to: keyof typeof TO_INTEGER): FloatRow => {
  const { convert, domain } = TO_INTEGER[to];
  return row(from, 1, [...TO_INTEGRAL[rounding], ...convert], {
    d: 'i64',
    // Every single is a double.
    each: from === 32 ? [...UNBOX, PROMOTE] : [],
    operand: 'f64',
    result: 'i64',
    after: [],
    clean: 'cleaninteger',
    domain: [...TO_INTEGRAL[rounding], ...domain],
  });
};

const fromInteger = (to: Width, each: Bytes, convert: number, clean: FloatFunction): FloatRow =>
  row(to, 1, [convert], { type: 'i64', each, operand: 'i64', clean, boxed: false });

const SIGNED_WORD: Bytes = [I64.extend32];
const UNSIGNED_WORD: Bytes = [I32.wrap, I64.extendU];

/** Rounded to an integer of its format; opcodes of singles are 14 lower. */
const integral = (width: Width, rounding: IntegralRounding): FloatRow =>
  row(width, 1, opcode(width, TO_INTEGRAL[rounding][0]), { settled: FINITE[width] });

/** The rows. Names end with the width of the numbers: `fadd64`, `fadd32`. */
export const FLOAT_OPS = {
  fadd64: { ...sum(64, 0xa0, 'cleanadd64'), rounds: 'roundadd64' },
  fsub64: { ...sum(64, 0xa1, 'cleansub64'), rounds: 'roundsub64' },
  fmul64: product(64, 0xa2, 'cleanmul64'),
  fdiv64: product(64, 0xa3, 'cleandiv64'),
  fsqrt64: root(64, 'cleansqrt64'),
  /** a * b + c, rounded once. */
  fma64: fused(64, 'fma64', 'cleanfma64'),
  fmin64: extreme(64, 0xa4),
  fmax64: extreme(64, 0xa5),
  feq64: comparison(64, 0x61),
  flt64: comparison(64, 0x63),
  fle64: comparison(64, 0x65),
  fadd32: sum(32, 0xa0, 'cleanadd32'),
  fsub32: sum(32, 0xa1, 'cleansub32'),
  fmul32: product(32, 0xa2, 'cleanmul32'),
  fdiv32: product(32, 0xa3, 'cleandiv32'),
  fsqrt32: root(32, 'cleansqrt32'),
  fma32: fused(32, 'fma32', 'cleanfma32'),
  fmin32: extreme(32, 0xa4),
  fmax32: extreme(32, 0xa5),
  feq32: comparison(32, 0x61),
  flt32: comparison(32, 0x63),
  fle32: comparison(32, 0x65),
  fadd32w: widened(sum(32, 0xa0, 'cleanadd32')),
  fsub32w: widened(sum(32, 0xa1, 'cleansub32')),
  fmul32w: widened(product(32, 0xa2, 'cleanmul32')),
  fdiv32w: widened(product(32, 0xa3, 'cleandiv32')),
  fsqrt32w: widened(root(32, 'cleansqrt32')),
  fma32w: widened(fused(32, 'fma32', 'cleanfma32')),
  /** A double to a single, which is a double still. */
  fnarroww: row(64, 1, [DEMOTE], { result: 'f32', after: [PROMOTE], settled: ORDINARY[32], clean: 'cleannarrow' }),
  fsingle_s64w: widened(fromInteger(32, [], 0xb4, 'cleansigned32')),
  fsingle_u64w: widened(fromInteger(32, [], 0xb5, 'cleanunsigned32')),
  /** A double to a single, and back. */
  fnarrow: row(64, 1, [DEMOTE], { result: 'f32', after: INTO_BOX, settled: ORDINARY[32], clean: 'cleannarrow' }),
  fwiden: row(32, 1, [PROMOTE], { result: 'f64', after: [], settled: FINITE[64] }),
  /** From integers: of 64 bits, or the low 32 bits of a slot. */
  fdouble_s64: fromInteger(64, [], 0xb9, 'cleansigned64'),
  fdouble_u64: fromInteger(64, [], 0xba, 'cleanunsigned64'),
  fsingle_s64: fromInteger(32, [], 0xb4, 'cleansigned32'),
  fsingle_u64: fromInteger(32, [], 0xb5, 'cleanunsigned32'),
  fsingle_s32: fromInteger(32, SIGNED_WORD, 0xb4, 'cleansigned32'),
  fsingle_u32: fromInteger(32, UNSIGNED_WORD, 0xb5, 'cleanunsigned32'),
  /** All elements of vectors. */
  fadd64x2: packed(64, sum(64, 0xa0, 'cleanadd64'), 0xf0, 'finite'),
  fsub64x2: packed(64, sum(64, 0xa1, 'cleansub64'), 0xf1, 'finite'),
  fmul64x2: packed(64, product(64, 0xa2, 'cleanmul64'), 0xf2, 'ordinary'),
  fdiv64x2: packed(64, product(64, 0xa3, 'cleandiv64'), 0xf3, 'ordinary'),
  fsqrt64x2: packed(64, root(64, 'cleansqrt64'), 0xef, 'ordinary'),
  fma64x2: packed(64, fused(64, 'fma64', 'cleanfma64'), 0x107, 'finite'),
  fadd32x4: packed(32, sum(32, 0xa0, 'cleanadd32'), 0xe4, 'finite'),
  fsub32x4: packed(32, sum(32, 0xa1, 'cleansub32'), 0xe5, 'finite'),
  fmul32x4: packed(32, product(32, 0xa2, 'cleanmul32'), 0xe6, 'ordinary'),
  fdiv32x4: packed(32, product(32, 0xa3, 'cleandiv32'), 0xe7, 'ordinary'),
  fsqrt32x4: packed(32, root(32, 'cleansqrt32'), 0xe3, 'ordinary'),
  fma32x4: packed(32, fused(32, 'fma32', 'cleanfma32'), 0x105, 'ordinary'),
  /** What was told of a result before (`TOLD`). */
  ftold: row(64, 3, [], {
    d: 'i64', type: 'i64', each: [BITS.f64i64], call: 'told', callHasMode: true, result: 'i64', settled: [...i64(0n), 0x59],
  }), // prettier-ignore
  /** Numbers rounded so to integers; inexact is not raised. */
  fintzero64: integral(64, 'zero'),
  fintdown64: integral(64, 'down'),
  fintup64: integral(64, 'up'),
  fintnearest64: integral(64, 'nearest'),
  fintzero32: integral(32, 'zero'),
  fintdown32: integral(32, 'down'),
  fintup32: integral(32, 'up'),
  fintnearest32: integral(32, 'nearest'),
  /** To integers, rounded so. */
  fzero64_s32: toInteger(64, 'zero', 's32'),
  fzero64_u32: toInteger(64, 'zero', 'u32'),
  fzero64_s64: toInteger(64, 'zero', 's64'),
  fzero64_u64: toInteger(64, 'zero', 'u64'),
  fdown64_s32: toInteger(64, 'down', 's32'),
  fdown64_u32: toInteger(64, 'down', 'u32'),
  fdown64_s64: toInteger(64, 'down', 's64'),
  fdown64_u64: toInteger(64, 'down', 'u64'),
  fup64_s32: toInteger(64, 'up', 's32'),
  fup64_u32: toInteger(64, 'up', 'u32'),
  fup64_s64: toInteger(64, 'up', 's64'),
  fup64_u64: toInteger(64, 'up', 'u64'),
  fnearest64_s32: toInteger(64, 'nearest', 's32'),
  fnearest64_u32: toInteger(64, 'nearest', 'u32'),
  fnearest64_s64: toInteger(64, 'nearest', 's64'),
  fnearest64_u64: toInteger(64, 'nearest', 'u64'),
  fzero32_s32: toInteger(32, 'zero', 's32'),
  fzero32_u32: toInteger(32, 'zero', 'u32'),
  fzero32_s64: toInteger(32, 'zero', 's64'),
  fzero32_u64: toInteger(32, 'zero', 'u64'),
  fdown32_s32: toInteger(32, 'down', 's32'),
  fdown32_u32: toInteger(32, 'down', 'u32'),
  fdown32_s64: toInteger(32, 'down', 's64'),
  fdown32_u64: toInteger(32, 'down', 'u64'),
  fup32_s32: toInteger(32, 'up', 's32'),
  fup32_u32: toInteger(32, 'up', 'u32'),
  fup32_s64: toInteger(32, 'up', 's64'),
  fup32_u64: toInteger(32, 'up', 'u64'),
  fnearest32_s32: toInteger(32, 'nearest', 's32'),
  fnearest32_u32: toInteger(32, 'nearest', 'u32'),
  fnearest32_s64: toInteger(32, 'nearest', 's64'),
  fnearest32_u64: toInteger(32, 'nearest', 'u64'),
} as const satisfies Record<string, FloatRow>;
export type FloatName = keyof typeof FLOAT_OPS;
