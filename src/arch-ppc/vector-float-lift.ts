/**
 * Floating point of vectors in ops of both tiers, element by element, where those decide
 * (`machine/float-ops.ts`); the helpers of `float-lift.ts` and `vectors.ts` do the rest. Of VSX,
 * whose exceptions are in FPSCR and which says nothing in FR, FI and FPRF; and of VMX, which raises
 * nothing.
 *
 * A single on its way is in the low half of a slot, below 32 ones.
 *
 * Source: Power ISA 2.07B, Book I, chapters 6 and 7.
 */
import { FLOAT_MODE } from '../machine/float-ops.js';
import type { FloatName } from '../machine/float-ops.js';
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';
import type { Endian } from '../units.js';
import { FUSED, FUSED_FORMS } from './float-rows.js';
import { recordAll, Vectors } from './vector-builder.js';
import type { VectorSlots } from './vector-builder.js';

type Width = 32 | 64;
const BOX = 0xffff_ffff_0000_0000n;

/** Roundings to integers by the last letters of names; null: as FPSCR says. */
export const INTEGRAL = { i: 'away', ic: null, im: 'down', ip: 'up', iz: 'zero' } as const;
type Integral = (typeof INTEGRAL)[keyof typeof INTEGRAL];
const SPECIAL = {
  32: { one: 0x3f80_0000n, half: 0x3f00_0000n, sign: 1n << 31n, shift: 33n },
  64: { one: 0x3ff0_0000_0000_0000n, half: 0x3fe0_0000_0000_0000n, sign: 1n << 63n, shift: 1n },
} as const;

/** What ops on numbers give: those of 64 bits as they are, singles boxed. */
export class Numbers {
  constructor(
    readonly b: BlockBuilder,
    readonly mode: Slot,
  ) {}

  convert(name: FloatName, a: Slot): Slot {
    const d = this.b.temp();
    this.b.float(d, name, this.mode, [a]);
    return d;
  }

  op(name: string, width: Width, [a, c, d]: readonly Slot[]): Slot {
    const result = this.b.temp();
    this.b.float(result, `${name}${width}` as FloatName, this.mode, [a!, c, d]);
    return result;
  }

  negated(width: Width, a: Slot): Slot {
    return this.b.make('xor', a, SPECIAL[width].sign);
  }

  one(width: Width): Slot {
    return this.b.make('mov', SPECIAL[width].one | (width === 32 ? BOX : 0n));
  }

  /** A number rounded to an integer of its format. */
  integral(width: Width, a: Slot, how: Integral): Slot {
    const { b, mode } = this;
    if (how === null) {
      const result = this.op('fintnearest', width, [a]);
      const isExact = b.make('and', b.make('seteq', mode, FLOAT_MODE.nearest), b.make('seteq', result, a));
      b.guard(b.make('or', isExact, b.make('seteq', mode, FLOAT_MODE.inexact)));
      return result;
    }
    if (how !== 'away') return this.op(`fint${how}`, width, [a]);
    const { one, half, sign, shift } = SPECIAL[width];
    const cut = this.op('fintzero', width, [a]);
    const rest = this.op('fsub', width, [a, cut]);
    // One more where the rest is a half at least.
    const isMore = b.make('setgeu', b.make('shl', rest, shift), half << shift);
    const more = b.make('and', b.make('sub', 0n, isMore), one);
    const signed = b.make('or', more, b.make('and', a, sign | (width === 32 ? BOX : 0n)));
    return this.op('fadd', width, [cut, signed]);
  } // prettier-ignore
}

/** One instruction on vectors. */
class Elements extends Numbers {
  constructor(
    readonly v: Vectors,
    mode: Slot,
  ) {
    super(v.b, mode);
  }

  /** Elements of a register in the order of the manual. */
  read(number: number, width: Width): Slot[] {
    if (width === 64) return [this.v.number(number), this.v.low(number)];
    const halves = [this.v.upper(number), this.v.low(number)];
    return halves.flatMap((half) => [this.boxed(this.b.make('shr', half, 32n)), this.boxed(half)]);
  } // prettier-ignore

  boxed(word: Slot): Slot {
    return this.b.make('or', word, BOX);
  }

  /** An op on vectors. */
  packed(name: PackedName, width: Width, [a, c, d]: readonly Slot[]): Slot {
    const result = this.b.vectorTemp();
    this.b.float(result, width === 64 ? `${name}64x2` : `${name}32x4`, this.mode, [a!, c, d]);
    return result;
  }

  negatedVector(width: Width, a: Slot): Slot {
    return this.v.op(`vfneg${width}`, a);
  }

  /** The doublewords of elements. */
  halves(width: Width, x: readonly Slot[]): readonly [upper: Slot, lower: Slot] {
    if (width === 64) return [x[0]!, x[1]!];
    const half = (i: number): Slot => this.b.make('or', this.b.make('shl', x[i]!, 32n), this.b.make('zx32', x[i + 1]!));
    return [half(0), half(2)];
  }

  /** The same word twice. */
  twice(word: Slot): Slot {
    return this.b.make('or', this.b.make('shl', word, 32n), this.b.make('zx32', word));
  }

  relation(name: 'feq' | 'fle' | 'flt', width: Width, x: readonly Slot[]): Slot {
    return this.b.make('sub', 0n, this.op(name, width, x));
  }
}

/** An element from those of the operands. */
type Compute = (e: Elements, width: Width, x: readonly Slot[]) => Slot;
/** All elements at once, from vectors. */
type Packed = (e: Elements, width: Width, x: readonly Slot[]) => Slot;
interface ElementRow {
  readonly sources: readonly string[];
  readonly width: Width;
  readonly compute: Compute;
  readonly packed?: Packed | undefined;
}
/** A doubleword from doublewords. */
type Convert = (e: Elements, half: Slot) => Slot;

const named =
  (name: string): Compute =>
  (e, width, x) =>
    e.op(name, width, x);
const reciprocal: Compute = (e, width, [a]) => e.op('fdiv', width, [e.one(width), a!]);
const reciprocalRoot: Compute = (e, width, [a]) => e.op('fdiv', width, [e.one(width), e.op('fsqrt', width, [a!])]);
/** Comparisons, with operands exchanged where greater is asked. */
const COMPARISONS: readonly (readonly [string, Compute])[] = [
  ['eq', (e, width, x) => e.relation('feq', width, x)],
  ['ge', (e, width, [a, c]) => e.relation('fle', width, [c!, a!])],
  ['gt', (e, width, [a, c]) => e.relation('flt', width, [c!, a!])],
];
/** a * b + c with signs. */
const fused =
  (operation: string): Compute =>
  (e, width, [a, c, d]) => {
    const result = e.op('fma', width, [a!, c!, operation.endsWith('sub') ? e.negated(width, d!) : d!]);
    return operation.startsWith('n') ? e.negated(width, result) : result;
  };

type PackedName = 'fadd' | 'fsub' | 'fmul' | 'fdiv' | 'fsqrt' | 'fma';
const PACKED: Readonly<Record<string, Packed>> = Object.fromEntries(
  (['add', 'sub', 'mul', 'div', 'sqrt'] as const).map((name): [string, Packed] => [
    name,
    (e, width, x) => e.packed(`f${name}`, width, x),
  ]),
);
const packedFused =
  (operation: string): Packed =>
  (e, width, [a, c, d]) => {
    const addend = operation.endsWith('sub') ? e.negatedVector(width, d!) : d!;
    const result = e.packed('fma', width, [a!, c!, addend]);
    return operation.startsWith('n') ? e.negatedVector(width, result) : result;
  };

/** Rows of VSX, by name. */
function elementRows(): ReadonlyMap<string, ElementRow> {
  const rows = new Map<string, ElementRow>();
  for (const [suffix, width] of [['dp', 64], ['sp', 32]] as const) {
    const add = (name: string, sources: readonly string[], compute: Compute, packed = PACKED[name]): void => {
      rows.set(`xv${name}${suffix}`, { sources, width, compute, packed });
    };
    for (const name of ['add', 'sub', 'mul', 'div', 'max', 'min']) add(name, ['xa', 'xb'], named(`f${name}`));
    add('sqrt', ['xb'], named('fsqrt'));
    add('re', ['xb'], reciprocal);
    add('rsqrte', ['xb'], reciprocalRoot);
    for (const operation of FUSED)
      for (const form of ['a', 'm'] as const)
        add(`${operation}${form}`, FUSED_FORMS[form], fused(operation), packedFused(operation));
    for (const [name, compute] of COMPARISONS) add(`cmp${name}`, ['xa', 'xb'], compute);
    for (const [letters, how] of Object.entries(INTEGRAL)) {
      const compute: Compute = (e, _width, [a]) => e.integral(width, a!, how);
      rows.set(`xvr${suffix}${letters}`, { sources: ['xb'], width, compute });
    }
  }
  for (const [sign, extend] of [['s', 'sx32'], ['u', 'zx32']] as const) {
    rows.set(`xvcvsp${sign}xws`, { sources: ['xb'], width: 32, compute: (e, _width, [a]) => e.convert(`fzero32_${sign}32`, a!) });
    rows.set(`xvcv${sign}xwsp`, { sources: ['xb'], width: 32, compute: (e, _width, [a]) => e.convert('fsingle_s64', e.b.make(extend, a!)) });
  }
  return rows;
} // prettier-ignore

function conversions(): ReadonlyMap<string, Convert> {
  const rows = new Map<string, Convert>();
  const upper = ({ b }: Elements, half: Slot): Slot => b.make('shr', half, 32n);
  rows.set('xvcvdpsp', (e, half) => e.twice(e.convert('fnarrow', half)));
  rows.set('xvcvspdp', (e, half) => e.convert('fwiden', e.boxed(upper(e, half))));
  for (const sign of ['s', 'u'] as const) {
    rows.set(`xvcvdp${sign}xds`, (e, half) => e.convert(`fzero64_${sign}64`, half));
    rows.set(`xvcvdp${sign}xws`, (e, half) => e.twice(e.convert(`fzero64_${sign}32`, half)));
    rows.set(`xvcvsp${sign}xds`, (e, half) => e.convert(`fzero32_${sign}64`, e.boxed(upper(e, half))));
    rows.set(`xvcv${sign}xddp`, (e, half) => e.convert(`fdouble_${sign}64`, half));
    rows.set(`xvcv${sign}xdsp`, (e, half) => e.twice(e.convert(`fsingle_${sign}64`, half)));
    rows.set(`xvcv${sign}xwdp`, (e, half) =>
      e.convert('fdouble_s64', e.b.make(sign === 's' ? 'sar' : 'shr', half, 32n)),
    );
  }
  return rows;
}

/** Bits of signs. */
const SIGNS: Readonly<Record<string, (v: Vectors, sign: Slot, x: readonly Slot[]) => Slot>> = {
  abs: (v, sign, [a]) => v.op('andnot128', a!, sign),
  nabs: (v, sign, [a]) => v.op('or128', a!, sign),
  neg: (v, sign, [a]) => v.op('xor128', a!, sign),
  cpsgn: (v, sign, [a, c]) => v.choose(sign, a!, c!),
};

/** What the semantics need of the instruction being lifted. */
interface Place {
  readonly b: BlockBuilder;
  readonly slow: boolean;
  setBits(field: number, bits: Operand): void;
}
interface Fields {
  n(name: string): number;
  flag(name: string): boolean;
}
/** True: done; false: the slow way. */
export type VectorFloatLift<P extends Place = Place> = (x: P, f: Fields) => boolean;

/** Semantics of VSX by name. */
export function vsxFloatSemantics(slots: VectorSlots & { readonly mode: Slot }): ReadonlyMap<string, VectorFloatLift> {
  const out = new Map<string, VectorFloatLift>();
  for (const [name, { sources, width, compute, packed }] of elementRows()) {
    out.set(name, (x, f) => {
      if (x.slow) return false;
      const v = new Vectors(x.b, slots);
      const e = new Elements(v, slots.mode);
      if (packed) {
        v.writeVector(f.n('xt'), packed(e, width, sources.map((field) => v.read(f.n(field)))));
        return true;
      }
      const operands = sources.map((field) => e.read(f.n(field), width));
      const results = operands[0]!.map((_, i) => compute(e, width, operands.map((each) => each[i]!)));
      const [upper, lower] = e.halves(width, results);
      v.write(f.n('xt'), upper, lower);
      if (name.startsWith('xvcmp') && f.flag('rc')) recordAll(v, x, v.joined(upper, lower));
      return true;
    });
  } // prettier-ignore
  for (const [name, convert] of conversions()) {
    out.set(name, (x, f) => {
      if (x.slow) return false;
      const v = new Vectors(x.b, slots);
      const e = new Elements(v, slots.mode);
      const [upper, lower] = e.read(f.n('xb'), 64).map((half) => convert(e, half));
      v.write(f.n('xt'), upper!, lower!);
      return true;
    });
  }
  for (const [name, change] of Object.entries(SIGNS)) {
    for (const [suffix, width] of [['dp', 64], ['sp', 32]] as const) {
      const sources = name === 'cpsgn' ? ['xa', 'xb'] : ['xb'];
      out.set(`xv${name}${suffix}`, (x, f) => {
        const v = new Vectors(x.b, slots);
        const operands = sources.map((field) => v.read(f.n(field)));
        v.writeVector(f.n('xt'), change(v, v.each(SPECIAL[width].sign, width), operands));
        return true;
      });
    } // prettier-ignore
  }
  return out;
}

// -------------------------------------------------------------------------------------------- VMX

interface VmxFloat {
  readonly sources: readonly string[];
  readonly compute: (e: Elements, x: readonly Slot[], uim: number) => Slot;
  readonly packed?: Packed;
  /** Operands are integers; results are. */
  readonly fromIntegers?: true;
  readonly toIntegers?: true;
}

/** An integer divided by a power of two, which changes the exponent alone. */
function fromFixed(e: Elements, word: Slot, uim: number): Slot {
  const { b } = e;
  const bits = e.convert('fsingle_s64', word);
  const isZero = b.make('seteq', b.make('zx32', bits), 0n);
  const d = b.temp();
  b.select(d, isZero, bits, b.make('sub', bits, BigInt(uim) << 23n));
  return d;
}

/** A single multiplied by a power of two, which is exact as a double, and cut off. */
function toFixed(e: Elements, a: Slot, uim: number, sign: 's' | 'u'): Slot {
  const factor = e.b.make('mov', BigInt(1023 + uim) << 52n);
  return e.convert(`fzero64_${sign}32`, e.op('fmul', 64, [e.convert('fwiden', a), factor]));
}

const VMX: Readonly<Record<string, VmxFloat>> = {
  vaddfp: { sources: ['vra', 'vrb'], compute: (e, x) => e.op('fadd', 32, x), packed: PACKED['add']! },
  vsubfp: { sources: ['vra', 'vrb'], compute: (e, x) => e.op('fsub', 32, x), packed: PACKED['sub']! },
  vmaxfp: { sources: ['vra', 'vrb'], compute: (e, x) => e.op('fmax', 32, x) },
  vminfp: { sources: ['vra', 'vrb'], compute: (e, x) => e.op('fmin', 32, x) },
  vmaddfp: { sources: ['vra', 'vrc', 'vrb'], compute: (e, x) => e.op('fma', 32, x), packed: packedFused('madd') },
  vnmsubfp: {
    sources: ['vra', 'vrc', 'vrb'],
    compute: (e, x) => fused('nmsub')(e, 32, x),
    packed: packedFused('nmsub'),
  },
  ...Object.fromEntries(
    COMPARISONS.map(([name, compute]): [string, VmxFloat] => [
      `vcmp${name}fp`,
      { sources: ['vra', 'vrb'], compute: (e, x) => compute(e, 32, x), toIntegers: true },
    ]),
  ),
  ...Object.fromEntries(
    Object.entries({ n: 'nearest', z: 'zero', p: 'up', m: 'down' }).map(([letter, how]): [string, VmxFloat] => [
      `vrfi${letter}`,
      { sources: ['vrb'], compute: (e, x) => e.op(`fint${how}`, 32, x) },
    ]),
  ),
  vcfsx: { sources: ['vrb'], compute: (e, [a], uim) => fromFixed(e, e.b.make('sx32', a!), uim), fromIntegers: true },
  vcfux: { sources: ['vrb'], compute: (e, [a], uim) => fromFixed(e, e.b.make('zx32', a!), uim), fromIntegers: true },
  vctsxs: { sources: ['vrb'], compute: (e, [a], uim) => toFixed(e, a!, uim, 's'), toIntegers: true },
  vctuxs: { sources: ['vrb'], compute: (e, [a], uim) => toFixed(e, a!, uim, 'u'), toIntegers: true },
  vrefp: { sources: ['vrb'], compute: (e, x) => reciprocal(e, 32, x) },
  vrsqrtefp: { sources: ['vrb'], compute: (e, x) => reciprocalRoot(e, 32, x) },
};

/** Leaves where one of the singles of vectors is subnormal. */
function demandNormal(v: Vectors, numbers: readonly Slot[]): void {
  // Without the sign, at the top of the word; zero becomes the largest number.
  const bound = v.each((1n << 24n) - 1n, 32);
  const found = numbers.map((each) => v.above(bound, v.op('vsub32', v.op('vshl32', each, 1n), v.each(1n, 32)), 2));
  const all = found.reduce((sum, each) => v.op('or128', sum, each));
  v.b.guard(v.b.make('seteq', v.some(all), 0n));
}

interface VmxPlace extends Place {
  readonly width: { readonly endian: Endian };
}

/**
 * Semantics of VMX by name.
 * @param nonJava  VSCR.NJ of a process that starts: the fast way is for that alone
 */
export function vmxFloatSemantics(
  slots: VectorSlots,
  nonJava: (endian: Endian) => boolean,
): ReadonlyMap<string, VectorFloatLift<VmxPlace>> {
  const out = new Map<string, VectorFloatLift<VmxPlace>>();
  for (const [name, { sources, compute, packed, fromIntegers, toIntegers }] of Object.entries(VMX)) {
    out.set(name, (x, f) => {
      if (x.slow) return false;
      const { b } = x;
      const v = new Vectors(b, slots);
      // Nothing tells of what is inexact.
      const e = new Elements(v, b.make('mov', FLOAT_MODE.inexact));
      const vectors = sources.map((field) => v.read(32 + f.n(field)));
      const uim = name.startsWith('vc') && !name.startsWith('vcmp') ? f.n('uim5') : 0;
      b.guard(b.make('setltu', slots.vscr, 0x1_0000n));
      const flushes = nonJava(x.width.endian);
      if (flushes && fromIntegers !== true) demandNormal(v, vectors);
      if (packed) {
        const result = packed(e, 32, vectors);
        if (flushes) demandNormal(v, [result]);
        v.writeVector(32 + f.n('vrt'), result);
        return true;
      }
      const operands = sources.map((field) => e.read(32 + f.n(field), 32));
      const results = operands[0]!.map((_, i) => compute(e, operands.map((each) => each[i]!), uim));
      const [upper, lower] = e.halves(32, results);
      if (flushes && toIntegers !== true) demandNormal(v, [v.joined(upper, lower)]);
      v.write(32 + f.n('vrt'), upper, lower);
      if (name.startsWith('vcmp') && f.flag('rc')) recordAll(v, x, v.joined(upper, lower));
      return true;
    });
  } // prettier-ignore
  return out;
}
