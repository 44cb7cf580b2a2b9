/**
 * Floating point in ops of both tiers, where those decide (`machine/float-ops.ts`): scalars of 32
 * and 64 bits here, vectors of them in `float-vectors.ts`. `float-instructions.ts` does the rest.
 *
 * A single is in the low half of a slot, below 32 ones.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C7.2.
 */
import { FLOAT_MODE } from '../machine/float-ops.js';
import type { FloatName } from '../machine/float-ops.js';
import type { BlockBuilder, Slot } from '../machine/ir.js';
import {
  awayInteger,
  BINARY,
  BOX,
  exactly,
  Floats,
  fused,
  integral,
  ROUNDINGS,
  UNARY,
  widthOf,
} from './float-numbers.js';
import type { Compute, Emit, Fields, Place, Width } from './float-numbers.js';
import { acrossRows, convertedRows, signRows, vectorRows } from './float-vectors.js';

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

const FUSED: Readonly<Record<string, Compute>> = {
  fmadd: fused(false, false),
  fmsub: fused(true, false),
  fnmadd: fused(true, true),
  fnmsub: fused(false, true),
};
/** N, Z, C and V of two numbers. */
function compared(floats: Floats, width: Width, first: Slot, second: Slot): Slot {
  const { b } = floats;
  floats.undisturbed();
  const less = floats.op('flt', width, [first, second]);
  const equal = floats.op('feq', width, [first, second]);
  const notLess = b.make('shl', b.make('xor', less, 1n), 1n);
  return b.make('or', b.make('or', b.make('shl', less, 3n), b.make('shl', equal, 2n)), notLess);
}

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
      x.setBits(compared(floats, width, first, second));
    });
  }
  for (const name of ['fccmp', 'fccmpe']) {
    add(name, (floats, x, f) => {
      const width = widthOf(f)!;
      const bits = compared(floats, width, floats.scalar(f.n('fn'), width), floats.scalar(f.n('fm'), width));
      const either = x.b.temp();
      x.b.select(either, x.value(f.n('cond')), bits, BigInt(f.n('nzcv')));
      x.setBits(either);
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
  for (const sign of ['s', 'u'] as const) {
    add(`fcvtz${sign}-fix`, (floats, x, f) => {
      const width = widthOf(f)!;
      const bits = f.n('sf') === 1 ? 64 : 32;
      const scaled = floats.scaled(width, floats.scalar(f.n('fn'), width), 64 - f.n('fixed'));
      const value = floats.convert(`fzero${width}_${sign}${bits}`, scaled);
      x.b.to(x.target(f.n('rd')), bits === 64 ? 'mov' : 'zx32', value);
    });
  }
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
  for (const [sign, suffix] of [['s', ''], ['u', ''], ['s', '-fix'], ['u', '-fix']] as const) {
    add(`${sign}cvtf${suffix}`, (floats, x, f) => {
      const width = widthOf(f)!;
      const isWide = f.n('sf') === 1;
      const source = x.source(f.n('rn'));
      const value = x.b.make(isWide ? 'mov' : sign === 's' ? 'sx32' : 'zx32', source);
      // A word of either sign is a doubleword.
      const from = isWide ? `${sign}64` : 's64';
      const number = floats.convert(`f${width === 64 ? 'double' : 'single'}_${from}` as FloatName, value);
      floats.write(f.n('fd'), width, [suffix === '' ? number : floats.scaled(width, number, f.n('fixed') - 64)]);
    });
  }
} // prettier-ignore

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

/** All rows; `hasType`: of those whose encoding says the format of the number. */
const ROWS = [
  { hasType: true, rows: scalarRows },
  { hasType: true, rows: integerRows },
  { hasType: true, rows: integralRows },
  { hasType: false, rows: vectorRows },
  { hasType: false, rows: acrossRows },
  { hasType: false, rows: convertedRows },
  { hasType: false, rows: signRows },
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
    const isServed = (f: F): boolean => {
      if (!hasType) return !/^fcvt[ln]$/.test(name) || f.n('sz') === 1;
      return needed === null ? widthOf(f) !== null : f.n('ptype') === needed;
    };
    out.set(name, (x, f) => {
      if (x.slow || !isServed(f)) return slowly(x, f);
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
