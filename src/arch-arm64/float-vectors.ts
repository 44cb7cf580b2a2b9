/**
 * Vectors of numbers in ops of both tiers, and scalars in their encodings: whole vectors at once
 * where there is such an op, else element by element.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import type { FloatName } from '../machine/float-ops.js';
import type { Slot } from '../machine/ir.js';
import {
  awayInteger,
  BINARY,
  BOX,
  countOf,
  elementOf,
  exactly,
  fused,
  integral,
  named,
  ROUNDINGS,
  UNARY,
  widthOfVector,
} from './float-numbers.js';
import type { Compute, Emit, Fields, Floats, Width } from './float-numbers.js';

type Add = (name: string, emit: Emit) => void;

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

/** All ones where a relation of two numbers holds, or of their magnitudes. */
const relation =
  (op: 'feq' | 'fle' | 'flt', swapped: boolean, isAbsolute = false): Compute =>
  (floats, width, operands) => {
    const [a, c] = operands.map((each) => (isAbsolute ? floats.magnitude(width, each) : each));
    floats.undisturbed();
    return floats.b.make('sub', 0n, floats.op(op, width, swapped ? [c!, a!] : [a!, c!]));
  };

/** Of two operands, in vectors and in scalars of their encodings. */
const BOTH_FORMS: Readonly<Record<string, Compute>> = {
  fabd: (floats, width, x) => floats.magnitude(width, floats.op('fsub', width, x)),
  // Zero times infinity, which is another number here, is not decided.
  fmulx: named('fmul'),
  fcmeq: relation('feq', false),
  fcmge: relation('fle', true),
  fcmgt: relation('flt', true),
  facge: relation('fle', true, true),
  facgt: relation('flt', true, true),
};
const AGAINST_ZERO: Readonly<Record<string, Compute>> = {
  fcmeq: relation('feq', false),
  fcmge: relation('fle', true),
  fcmgt: relation('flt', true),
  fcmle: relation('fle', false),
  fcmlt: relation('flt', false),
};
const zero = ({ b }: Floats, width: Width): Slot => b.make('mov', width === 32 ? BOX : 0n);

/** Operands element by element: of all that the instruction has, or of the lowest alone. */
function elements(floats: Floats, f: Fields, fields: readonly string[], isScalar: boolean): Slot[][] {
  const width = widthOfVector(f);
  const count = isScalar ? 1 : countOf(f);
  return fields.map((field) => {
    if (field !== 'vem') return floats.lanes(f.n(field), width, count);
    const element = floats.lanes(f.n(field), width, 128 / width)[elementOf(f, width)]!;
    return Array.from({ length: count }, () => element);
  });
}

/** Rows of an operation: on scalars, the target in the field fd, or on vectors. */
function rowsOf(add: Add, isScalar: boolean): (name: string, fields: readonly string[], compute: Compute) => void {
  return (name, fields, compute) => {
    add(name, (floats, _x, f) => {
      const width = widthOfVector(f);
      const whole = !isScalar && countOf(f) * width === 128 ? PACKED[name] : undefined;
      if (whole) {
        const vectors = fields.map((field) =>
          field === 'vem' ? floats.everywhere(f.n(field), width, elementOf(f, width)) : floats.registers[f.n(field)]!,
        );
        floats.b.to(floats.registers[f.n('vd')]!, 'mov128', whole(floats, width, vectors));
        return;
      }
      const operands = elements(floats, f, fields, isScalar);
      const results = operands[0]!.map((_, i) =>
        compute(
          floats,
          width,
          operands.map((each) => each[i]!),
        ),
      );
      floats.write(f.n(isScalar ? 'fd' : 'vd'), width, results);
    });
  };
}

export function vectorRows(add: Add): void {
  const [vector, scalar] = [rowsOf(add, false), rowsOf(add, true)];
  for (const [name, compute] of Object.entries(BINARY))
    if (name !== 'fnmul') vector(`${name}-v`, ['vn', 'vm'], compute);
  for (const [name, compute] of Object.entries(UNARY)) vector(`${name}-v`, ['vn'], compute);
  for (const [name, compute] of Object.entries(BOTH_FORMS)) {
    vector(`${name}-v`, ['vn', 'vm'], compute);
    scalar(`${name}-s`, ['fn', 'fm'], compute);
  }
  for (const [name, compute] of Object.entries(AGAINST_ZERO)) {
    const withZero: Compute = (floats, width, [a]) => compute(floats, width, [a!, zero(floats, width)]);
    vector(`${name}-vz`, ['vn'], withZero);
    scalar(`${name}-sz`, ['fn'], withZero);
  }
  for (const [name, compute] of [
    ['fmla', fused(false, false)],
    ['fmls', fused(true, false)],
  ] as const) {
    vector(`${name}-v`, ['vn', 'vm', 'vd'], compute);
    vector(`${name}-e`, ['vn', 'vem', 'vd'], compute);
    scalar(`${name}-es`, ['fn', 'vem', 'fd'], compute);
  }
  for (const name of ['fmul', 'fmulx']) {
    vector(`${name}-e`, ['vn', 'vem'], named('fmul'));
    scalar(`${name}-es`, ['fn', 'vem'], named('fmul'));
  }
  for (const [letter, rounding] of Object.entries(ROUNDINGS))
    vector(`frint${letter}-v`, ['vn'], (floats, width, [x]) => integral(floats, width, x!, rounding));
  vector('frinti-v', ['vn'], (floats, width, [x]) => integral(floats, width, x!, 'nearest'));
  vector('frinta-v', ['vn'], (floats, width, [x]) => awayInteger(floats, width, x!));
  vector('frintx-v', ['vn'], (floats, width, [x]) => {
    const result = integral(floats, width, x!, 'nearest');
    exactly(floats, width, x!, result);
    return result;
  });
}

/** Neighbours, of one register or two, and all elements of one. */
export function acrossRows(add: Add): void {
  for (const name of ['fadd', 'fmax', 'fmin', 'fmaxnm', 'fminnm']) {
    const compute = BINARY[name]!;
    const pairs = (floats: Floats, width: Width, x: readonly Slot[]): Slot[] =>
      Array.from({ length: x.length / 2 }, (_, i) => compute(floats, width, [x[2 * i]!, x[2 * i + 1]!]));
    add(`${name}p-v`, (floats, _x, f) => {
      const width = widthOfVector(f);
      floats.write(f.n('vd'), width, pairs(floats, width, elements(floats, f, ['vn', 'vm'], false).flat()));
    });
    add(`${name}p-s`, (floats, _x, f) => {
      const width = widthOfVector(f);
      floats.write(f.n('fd'), width, pairs(floats, width, floats.lanes(f.n('vpair'), width, 2)));
    });
    if (name === 'fadd') continue;
    add(`${name}v`, (floats, _x, f) => {
      const four = floats.lanes(f.n('vn'), 32, 4);
      floats.write(f.n('fd'), 32, pairs(floats, 32, pairs(floats, 32, four)));
    });
  }
}

/** Integers in registers of vectors, to numbers. */
function fromIntegers(floats: Floats, width: Width, sign: 's' | 'u', x: Slot): Slot {
  const name: FloatName = width === 64 ? `fdouble_${sign}64` : 'fsingle_s64';
  if (width === 64) return floats.convert(name, x);
  return floats.convert(name, floats.b.make(sign === 's' ? 'sx32' : 'zx32', x));
}

/** Conversions between integers and numbers, and between formats. */
export function convertedRows(add: Add): void {
  const [vector, scalar] = [rowsOf(add, false), rowsOf(add, true)];
  const both = (name: string, compute: Compute): void => {
    vector(`${name}-v`, ['vn'], compute);
    scalar(`${name}-s`, ['fn'], compute);
  };
  for (const sign of ['s', 'u'] as const) {
    both(`${sign}cvtf`, (floats, width, [x]) => fromIntegers(floats, width, sign, x!));
    for (const [letter, rounding] of Object.entries(ROUNDINGS))
      both(`fcvt${letter}${sign}`, (floats, width, [x]) => floats.convert(`f${rounding}${width}_${sign}${width}`, x!));
    both(`fcvta${sign}`, (floats, width, [x]) => {
      const whole = awayInteger(floats, width, x!);
      exactly(floats, width, x!, whole);
      return floats.convert(`fzero${width}_${sign}${width}`, whole);
    });
  }
  add('fcvtl', (floats, _x, f) => {
    const upper = 2 * f.n('two');
    const singles = floats.lanes(f.n('vfn'), 32, 4).slice(upper, upper + 2);
    floats.undisturbed();
    floats.write(
      f.n('vfl'),
      64,
      singles.map((each) => floats.convert('fwiden', each)),
    );
  });
  add('fcvtn', (floats, _x, f) => {
    const { b, registers } = floats;
    const singles = floats.lanes(f.n('vfl'), 64, 2).map((each) => floats.convert('fnarrow', each));
    if (f.n('two') === 0) {
      floats.write(f.n('vfn'), 32, singles);
      return;
    }
    const d = registers[f.n('vfn')]!;
    const narrow = b.make('or', b.make('zx32', singles[0]!), b.make('shl', singles[1]!, 32n));
    b.to(d, 'pair64', b.make('low64', d), narrow);
  });
}

/** Signs: bits of all elements. */
export function signRows(add: Add): void {
  for (const [name, op] of [
    ['fabs-v', 'and'],
    ['fneg-v', 'xor'],
  ] as const) {
    add(name, (floats, _x, f) => {
      const { b, registers } = floats;
      const sign = widthOfVector(f) === 64 ? 1n << 63n : 0x8000_0000_8000_0000n;
      const mask = op === 'xor' ? sign : BigInt.asUintN(64, ~sign);
      const [vn, vd] = [registers[f.n('vn')]!, registers[f.n('vd')]!];
      const low = b.make(op, b.make('low64', vn), mask);
      if (f.n('q') === 0) b.to(vd, 'wide64', low);
      else b.to(vd, 'pair64', low, b.make(op, b.make('high64', vn), mask));
    });
  }
}
