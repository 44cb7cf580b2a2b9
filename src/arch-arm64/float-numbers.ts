/**
 * Numbers of 32 and 64 bits in ops of both tiers, on their way between registers: what rows of
 * scalars (`float-lift.ts`) and of vectors (`float-vectors.ts`) are made of.
 *
 * A single is in the low half of a slot, below 32 ones.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import { FLOAT_MODE } from '../machine/float-ops.js';
import type { FloatName } from '../machine/float-ops.js';
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';

export type Width = 32 | 64;

export const BOX = 0xffff_ffff_0000_0000n;

/** What the semantics need of the instruction being lifted. */
export interface Place {
  readonly b: BlockBuilder;
  readonly slow: boolean;
  setBits(nzcv: Operand): void;
  /** 1 where the condition holds, else 0. */
  value(condition: number): Slot;
  source(number: number): Operand;
  target(number: number): Slot;
}
export interface Fields {
  n(name: string): number;
}
export type Emit = (floats: Floats, x: Place, f: Fields) => void;

/** An operation on numbers of one width, in slots. */
export type Compute = (floats: Floats, width: Width, x: readonly Slot[]) => Slot;

export class Floats {
  constructor(
    readonly b: BlockBuilder,
    readonly mode: Slot,
    readonly registers: readonly Slot[],
  ) {}

  op(name: string, width: Width, [a, c, d]: readonly Slot[]): Slot {
    const result = this.b.temp();
    this.b.float(result, `${name}${width}` as FloatName, this.mode, [a!, c, d]);
    return result;
  }

  /**
   * In front of ops that raise nothing and so do not ask for the mode: FZ makes zeros of subnormal
   * operands.
   */
  undisturbed(): void {
    this.b.guard(this.b.make('setne', this.mode, FLOAT_MODE.other));
  }

  /** Of all elements of vectors. */
  packed(name: 'fadd' | 'fsub' | 'fmul' | 'fdiv' | 'fsqrt' | 'fma', width: Width, x: readonly Slot[]): Slot {
    const result = this.b.vectorTemp();
    this.b.float(result, width === 64 ? `${name}64x2` : `${name}32x4`, this.mode, [x[0]!, x[1], x[2]]);
    return result;
  }

  /** A vector with one element of a register in all places. */
  everywhere(number: number, width: Width, element: number): Slot {
    const { b } = this;
    const half = b.make(element * width < 64 ? 'low64' : 'high64', this.registers[number]!);
    if (width === 64) return b.to(b.vectorTemp(), 'pair64', half, half);
    const word = element % 2 === 0 ? b.make('zx32', half) : b.make('shr', half, 32n);
    const both = b.make('or', word, b.make('shl', word, 32n));
    return b.to(b.vectorTemp(), 'pair64', both, both);
  }

  /** An op whose name says both formats. */
  convert(name: FloatName, a: Slot): Slot {
    const result = this.b.temp();
    this.b.float(result, name, this.mode, [a]);
    return result;
  }

  /** A number times a power of two, exactly. */
  scaled(width: Width, a: Slot, exponent: number): Slot {
    const factor = width === 64 ? BigInt(1023 + exponent) << 52n : (BigInt(127 + exponent) << 23n) | BOX;
    return this.op('fmul', width, [a, this.b.make('mov', factor)]);
  }

  magnitude(width: Width, a: Slot): Slot {
    return this.b.make('and', a, BigInt.asUintN(64, ~(1n << BigInt(width - 1))));
  }

  negated(width: Width, a: Slot): Slot {
    return this.b.make('xor', a, 1n << BigInt(width - 1));
  }

  /** Elements of a register, boxed. */
  lanes(number: number, width: Width, count: number): Slot[] {
    const { b } = this;
    return Array.from({ length: count }, (_, i) => {
      const half = b.make(i * width < 64 ? 'low64' : 'high64', this.registers[number]!);
      if (width === 64) return half;
      return b.make('or', i % 2 === 0 ? half : b.make('shr', half, 32n), BOX);
    });
  }

  /** The low element. */
  scalar(number: number, width: Width): Slot {
    return this.lanes(number, width, 1)[0]!;
  }

  /** Writes elements, and 0 above them. */
  write(number: number, width: Width, results: readonly Slot[]): void {
    const { b } = this;
    const d = this.registers[number]!;
    const words = width === 64 ? results : results.map((each) => b.make('zx32', each));
    const halves: Slot[] = [];
    if (width === 64) halves.push(...words);
    else
      for (let i = 0; i < words.length; i += 2)
        halves.push(i + 1 < words.length ? b.make('or', words[i]!, b.make('shl', words[i + 1]!, 32n)) : words[i]!);
    if (halves.length === 1) b.to(d, 'wide64', halves[0]!);
    else b.to(d, 'pair64', halves[0]!, halves[1]!);
  }
}

export const named =
  (name: string): Compute =>
  (floats, width, x) =>
    floats.op(name, width, x);
const extreme =
  (name: 'fmax' | 'fmin'): Compute =>
  (floats, width, x) => {
    floats.undisturbed();
    return floats.op(name, width, x);
  };

/** a + b * c; `product` and `addend` are negated. */
export const fused =
  (product: boolean, addend: boolean): Compute =>
  (floats, width, [first, second, third]) => {
    const factor = product ? floats.negated(width, first!) : first!;
    return floats.op('fma', width, [factor, second!, addend ? floats.negated(width, third!) : third!]);
  };

export const ROUNDINGS = { z: 'zero', n: 'nearest', p: 'up', m: 'down' } as const;

/** Type of a scalar; null: of half precision. */
export const widthOf = (f: Fields): Width | null => (({ 0: 32, 1: 64 }) as const)[f.n('ptype') as 0 | 1] ?? null;
export const widthOfVector = (f: Fields): Width => (f.n('sz') === 1 ? 64 : 32);
export const countOf = (f: Fields): number => (f.n('q') === 1 ? 128 : 64) / widthOfVector(f);

/** The element that an instruction names, of the fields H and L. */
export const elementOf = (f: Fields, width: Width): number => (width === 64 ? f.n('h') : 2 * f.n('h') + f.n('l'));

/** What leaves where inexact is not raised, and would be: the number was not `rounded` already. */
export function exactly(floats: Floats, width: Width, x: Slot, rounded: Slot): void {
  const { b } = floats;
  const isRaised = b.make('seteq', floats.mode, FLOAT_MODE.inexact);
  b.guard(b.make('or', isRaised, floats.op('feq', width, [x, rounded])));
}

/** Rounded to an integer in the same format; to the even one of two for the mode that is served. */
export const integral = (floats: Floats, width: Width, x: Slot, rounding: string): Slot => {
  floats.undisturbed();
  return floats.op(`fint${rounding}`, width, [x]);
};

/** The nearest integer, of two the one away from zero: what is cut off is exact. */
export function awayInteger(floats: Floats, width: Width, x: Slot): Slot {
  const { b } = floats;
  const [signBit, half, one, box] =
    width === 64 ? [1n << 63n, 0x3fe0n << 48n, 0x3ff0n << 48n, 0n] : [1n << 31n, 0x3f00_0000n, 0x3f80_0000n, BOX];
  const whole = integral(floats, width, x, 'zero');
  const rest = b.make('and', floats.op('fsub', width, [x, whole]), signBit - 1n);
  const unit = b.make('or', b.make('and', x, signBit), one | box);
  const next = floats.op('fadd', width, [whole, unit]);
  const result = b.temp();
  b.select(result, b.make('setgeu', rest, half), next, whole);
  return result;
}

/** Operations on scalars and on elements. */
export const BINARY: Readonly<Record<string, Compute>> = {
  fadd: named('fadd'),
  fsub: named('fsub'),
  fmul: named('fmul'),
  fdiv: named('fdiv'),
  // Of ordered numbers, which alone the ops take, both kinds of extremes are one.
  fmax: extreme('fmax'),
  fmaxnm: extreme('fmax'),
  fmin: extreme('fmin'),
  fminnm: extreme('fmin'),
  fnmul: (floats, width, x) => floats.negated(width, floats.op('fmul', width, x)),
};

export const UNARY: Readonly<Record<string, Compute>> = { fsqrt: named('fsqrt') };
