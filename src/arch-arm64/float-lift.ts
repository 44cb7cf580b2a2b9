/**
 * Floating point in ops of both tiers, where those decide (`machine/float-ops.ts`): scalars of 32
 * and 64 bits, and vectors of them element by element. `float-instructions.ts` does the rest.
 *
 * A single is in the low half of a slot, below 32 ones.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import { FLOAT_MODE } from '../machine/float-ops.js';
import type { FloatName } from '../machine/float-ops.js';
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';

type Width = 32 | 64;

const BOX = 0xffff_ffff_0000_0000n;
/** FZ, RMode, and the exceptions that would trap; NaNs, on which DN bears, the ops leave alone. */
const OTHER = 0x01c0_9f00n;
const INEXACT = 0x10n;

/** What FPCR and FPSR say to the ops. */
export function modeOf(fpcr: bigint, fpsr: bigint): bigint {
  if ((fpcr & OTHER) !== 0n) return FLOAT_MODE.other;
  return (fpsr & INEXACT) === 0n ? FLOAT_MODE.nearest : FLOAT_MODE.inexact;
}

/** The same in ops. */
export function setMode(b: BlockBuilder, mode: Slot, fpcr: Slot, fpsr: Slot): void {
  const isOther = b.make('setne', b.make('and', fpcr, OTHER), 0n);
  b.select(mode, isOther, FLOAT_MODE.other, b.make('and', b.make('shr', fpsr, 4n), 1n));
}

/** What the semantics need of the instruction being lifted. */
interface Place {
  readonly b: BlockBuilder;
  readonly slow: boolean;
  setBits(nzcv: Operand): void;
  source(number: number): Operand;
  target(number: number): Slot;
}
interface Fields {
  n(name: string): number;
}
type Emit = (floats: Floats, x: Place, f: Fields) => void;

/** An operation on numbers of one width, in slots. */
type Compute = (floats: Floats, width: Width, x: readonly Slot[]) => Slot;

class Floats {
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

const named =
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
const fused =
  (product: boolean, addend: boolean): Compute =>
  (floats, width, [first, second, third]) => {
    const factor = product ? floats.negated(width, first!) : first!;
    return floats.op('fma', width, [factor, second!, addend ? floats.negated(width, third!) : third!]);
  };

const BINARY: Readonly<Record<string, Compute>> = {
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
const UNARY: Readonly<Record<string, Compute>> = { fsqrt: named('fsqrt') };
const FUSED: Readonly<Record<string, Compute>> = {
  fmadd: fused(false, false),
  fmsub: fused(true, false),
  fnmadd: fused(true, true),
  fnmsub: fused(false, true),
};
const ROUNDINGS = { z: 'zero', n: 'nearest', p: 'up', m: 'down' } as const;

/** Type of a scalar; null: of half precision. */
const widthOf = (f: Fields): Width | null => (({ 0: 32, 1: 64 }) as const)[f.n('ptype') as 0 | 1] ?? null;
const widthOfVector = (f: Fields): Width => (f.n('sz') === 1 ? 64 : 32);
const countOf = (f: Fields): number => (f.n('q') === 1 ? 128 : 64) / widthOfVector(f);

function scalarRows(add: (name: string, emit: Emit) => void): void {
  const scalar = (name: string, fields: readonly string[], compute: Compute): void => {
    add(name, (floats, _x, f) => {
      const width = widthOf(f)!;
      floats.write(f.n('fd'), width, [compute(floats, width, fields.map((field) => floats.scalar(f.n(field), width)))]);
    });
  };
  for (const [name, compute] of Object.entries(BINARY)) scalar(name, ['fn', 'fm'], compute);
  for (const [name, compute] of Object.entries(UNARY)) scalar(name, ['fn'], compute);
  for (const [name, compute] of Object.entries(FUSED)) scalar(name, ['fn', 'fm', 'fa'], compute);
  for (const name of ['fcmp', 'fcmpe', 'fcmp-zero', 'fcmpe-zero']) {
    add(name, (floats, x, f) => {
      const width = widthOf(f)!;
      const first = floats.scalar(f.n('fn'), width);
      const zero = width === 32 ? BOX : 0n;
      const second = name.endsWith('zero') ? x.b.make('mov', zero) : floats.scalar(f.n('fm'), width);
      floats.undisturbed();
      const less = floats.op('flt', width, [first, second]);
      const equal = floats.op('feq', width, [first, second]);
      const notLess = x.b.make('shl', x.b.make('xor', less, 1n), 1n);
      const upper = x.b.make('or', x.b.make('shl', less, 3n), x.b.make('shl', equal, 2n));
      x.setBits(x.b.make('or', upper, notLess));
    });
  }
  add('fcvt-d', (floats, _x, f) => {
    floats.undisturbed();
    floats.write(f.n('dd'), 64, [floats.convert('fwiden', floats.scalar(f.n('fn'), 32))]);
  });
  add('fcvt-s', (floats, _x, f) => {
    floats.write(f.n('sd'), 32, [floats.convert('fnarrow', floats.scalar(f.n('fn'), 64))]);
  });
} // prettier-ignore

function integerRows(add: (name: string, emit: Emit) => void): void {
  for (const [letter, rounding] of Object.entries(ROUNDINGS)) {
    for (const sign of ['s', 'u'] as const) {
      add(`fcvt${letter}${sign}`, (floats, x, f) => {
        const width = widthOf(f)!;
        const bits = f.n('sf') === 1 ? 64 : 32;
        const value = floats.convert(`f${rounding}${width}_${sign}${bits}`, floats.scalar(f.n('fn'), width));
        x.b.to(x.target(f.n('rd')), bits === 64 ? 'mov' : 'zx32', value);
      });
    }
  }
  for (const sign of ['s', 'u'] as const) {
    add(`${sign}cvtf`, (floats, x, f) => {
      const width = widthOf(f)!;
      const isWide = f.n('sf') === 1;
      const source = x.source(f.n('rn'));
      const value = x.b.make(isWide ? 'mov' : sign === 's' ? 'sx32' : 'zx32', source);
      // A word of either sign is a doubleword.
      const from = isWide ? `${sign}64` : 's64';
      floats.write(f.n('fd'), width, [floats.convert(`f${width === 64 ? 'double' : 'single'}_${from}` as FloatName, value)]);
    });
  }
} // prettier-ignore

/** What one operation makes of whole vectors, of two doubles or four singles. */
type Packed = (floats: Floats, width: Width, x: readonly Slot[]) => Slot;

const packed =
  (name: 'fadd' | 'fsub' | 'fmul' | 'fdiv' | 'fsqrt'): Packed =>
  (floats, width, x) =>
    floats.packed(name, width, x);
const packedFused =
  (negates: boolean): Packed =>
  (floats, width, [first, second, third]) => {
    const { b } = floats;
    const factor = negates ? b.to(b.vectorTemp(), `vfneg${width}`, first!) : first!;
    return floats.packed('fma', width, [factor, second!, third!]);
  };
const PACKED: Readonly<Record<string, Packed>> = {
  'fadd-v': packed('fadd'),
  'fsub-v': packed('fsub'),
  'fmul-v': packed('fmul'),
  'fdiv-v': packed('fdiv'),
  'fsqrt-v': packed('fsqrt'),
  'fmla-v': packedFused(false),
  'fmls-v': packedFused(true),
  'fmla-e': packedFused(false),
  'fmls-e': packedFused(true),
  'fmul-e': packed('fmul'),
};

/** The element that an instruction names, of the fields H and L. */
const elementOf = (f: Fields, width: Width): number => (width === 64 ? f.n('h') : 2 * f.n('h') + f.n('l'));

/** What leaves where inexact is not raised, and would be: the number was not `rounded` already. */
function exactly(floats: Floats, width: Width, x: Slot, rounded: Slot): void {
  const { b } = floats;
  const isRaised = b.make('seteq', floats.mode, FLOAT_MODE.inexact);
  b.guard(b.make('or', isRaised, floats.op('feq', width, [x, rounded])));
}

/** Rounded to an integer in the same format; to the even one of two for the mode that is served. */
const integral = (floats: Floats, width: Width, x: Slot, rounding: string): Slot => {
  floats.undisturbed();
  return floats.op(`fint${rounding}`, width, [x]);
};

/** The nearest integer, of two the one away from zero: what is cut off is exact. */
function awayInteger(floats: Floats, width: Width, x: Slot): Slot {
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

function integralRows(add: (name: string, emit: Emit) => void): void {
  const rounded = (name: string, round: Compute): void => {
    add(name, (floats, _x, f) => {
      const width = widthOf(f)!;
      floats.write(f.n('fd'), width, [round(floats, width, [floats.scalar(f.n('fn'), width)])]);
    });
  };
  for (const [letter, rounding] of Object.entries(ROUNDINGS))
    rounded(`frint${letter}`, (floats, width, [x]) => integral(floats, width, x!, rounding));
  rounded('frinti', (floats, width, [x]) => integral(floats, width, x!, 'nearest'));
  rounded('frintx', (floats, width, [x]) => {
    const result = integral(floats, width, x!, 'nearest');
    exactly(floats, width, x!, result);
    return result;
  });
  rounded('frinta', (floats, width, [x]) => awayInteger(floats, width, x!));
  for (const sign of ['s', 'u'] as const) {
    add(`fcvta${sign}`, (floats, x, f) => {
      const width = widthOf(f)!;
      const bits = f.n('sf') === 1 ? 64 : 32;
      const number = floats.scalar(f.n('fn'), width);
      const whole = awayInteger(floats, width, number);
      exactly(floats, width, number, whole);
      const value = floats.convert(`fzero${width}_${sign}${bits}`, whole);
      x.b.to(x.target(f.n('rd')), bits === 64 ? 'mov' : 'zx32', value);
    });
  }
}

/** Conversions of integers that are in registers of vectors. */
function scalarIntegerRows(add: (name: string, emit: Emit) => void): void {
  for (const sign of ['s', 'u'] as const) {
    add(`${sign}cvtf-s`, (floats, { b }, f) => {
      const width = widthOfVector(f);
      const low = b.make('low64', floats.registers[f.n('fn')]!);
      const value = width === 64 ? b.make('mov', low) : b.make(sign === 's' ? 'sx32' : 'zx32', low);
      const name: FloatName = width === 64 ? `fdouble_${sign}64` : 'fsingle_s64';
      floats.write(f.n('fd'), width, [floats.convert(name, value)]);
    });
  }
}

function vectorRows(add: (name: string, emit: Emit) => void): void {
  const vector = (name: string, fields: readonly string[], compute: Compute): void => {
    add(name, (floats, _x, f) => {
      const [width, count] = [widthOfVector(f), countOf(f)];
      const whole = count * width === 128 ? PACKED[name] : undefined;
      if (whole) {
        const vectors = fields.map((field) =>
          field === 'vem' ? floats.everywhere(f.n(field), width, elementOf(f, width)) : floats.registers[f.n(field)]!,
        );
        floats.b.to(floats.registers[f.n('vd')]!, 'mov128', whole(floats, width, vectors));
        return;
      }
      const operands = fields.map((field) => {
        if (field !== 'vem') return floats.lanes(f.n(field), width, count);
        const element = floats.lanes(f.n(field), width, 128 / width)[elementOf(f, width)]!;
        return Array.from({ length: count }, () => element);
      });
      const results = operands[0]!.map((_, i) => compute(floats, width, operands.map((each) => each[i]!)));
      floats.write(f.n('vd'), width, results);
    });
  };
  for (const [name, compute] of Object.entries(BINARY)) if (name !== 'fnmul') vector(`${name}-v`, ['vn', 'vm'], compute);
  for (const [name, compute] of Object.entries(UNARY)) vector(`${name}-v`, ['vn'], compute);
  vector('fmla-v', ['vn', 'vm', 'vd'], fused(false, false));
  vector('fmls-v', ['vn', 'vm', 'vd'], fused(true, false));
  vector('fmla-e', ['vn', 'vem', 'vd'], fused(false, false));
  vector('fmls-e', ['vn', 'vem', 'vd'], fused(true, false));
  vector('fmul-e', ['vn', 'vem'], named('fmul'));
  for (const [name, op, swapped] of [['fcmeq', 'feq', false], ['fcmge', 'fle', true], ['fcmgt', 'flt', true]] as const) {
    vector(`${name}-v`, ['vn', 'vm'], (floats, width, [a, c]) => {
      floats.undisturbed();
      return floats.b.make('sub', 0n, floats.op(op, width, swapped ? [c!, a!] : [a!, c!]));
    });
  }
  add('faddp-s', (floats, _x, f) => {
    const width = widthOfVector(f);
    floats.write(f.n('fd'), width, [floats.op('fadd', width, floats.lanes(f.n('vpair'), width, 2))]);
  });
} // prettier-ignore

/** All rows; `hasType`: of those whose encoding says the format of the number. */
const ROWS = [
  { hasType: true, rows: scalarRows },
  { hasType: true, rows: integerRows },
  { hasType: true, rows: integralRows },
  { hasType: false, rows: scalarIntegerRows },
  { hasType: false, rows: vectorRows },
] as const;

/**
 * Semantics by name of what ops decide; `slowly` where they do not, of half precision and in the
 * slow flavour.
 */
export function floatSemantics<Lifting extends Place, F extends Fields, End>(
  slots: { readonly mode: Slot; readonly registers: readonly Slot[] },
  slowly: (x: Lifting, f: F) => End,
): ReadonlyMap<string, (x: Lifting, f: F) => End | undefined> {
  const out = new Map<string, (x: Lifting, f: F) => End | undefined>();
  const add = (name: string, hasType: boolean, emit: Emit): void => {
    // The type of a conversion between formats is that of its operand, which its name does not say.
    const needed = name === 'fcvt-d' ? 0 : name === 'fcvt-s' ? 1 : null;
    const isServed = (f: F): boolean => (needed === null ? widthOf(f) !== null : f.n('ptype') === needed);
    out.set(name, (x, f) => {
      if (x.slow || (hasType && !isServed(f))) return slowly(x, f);
      emit(new Floats(x.b, slots.mode, slots.registers), x, f);
      return undefined;
    });
  };
  for (const { hasType, rows } of ROWS) {
    rows((name, emit) => {
      add(name, hasType, emit);
    });
  }
  return out;
}
