/**
 * The code of the floating point ops against `src/float`, row by row: what an op decides is the
 * exact result rounded once, and raises nothing that its mode does not allow; and ordinary numbers
 * are decided, for the slow way is a thousand times slower.
 */
import { describe, expect, test } from '@jest/globals';
import { emitFloat } from '../src/emulator/float-code.js';
import type { FloatPlace } from '../src/emulator/float-code.js';
import { floatFunction } from '../src/emulator/float-functions.js';
import { fusesMultiplyAdd } from '../src/emulator/fused.js';
import { compileModule, HostMemory, instantiate } from '../src/emulator/host.js';
import { Code, writeModule } from '../src/emulator/wasm.js';
import type { ValueType, WasmFunction } from '../src/emulator/wasm.js';
import {
  add, BINARY32, BINARY64, compare, convert, divide, EXCEPTION, extremeNumber, fromInteger, multiply, multiplyAdd,
  roundToIntegral, squareRoot, subtract, toInteger,
} from '../src/float/index.js'; // prettier-ignore
import type { Environment, Format, Result, Rounding } from '../src/float/index.js';
import { FLOAT_FUNCTIONS, FLOAT_MODE, FLOAT_OPS } from '../src/machine/float-ops.js';
import type { FloatName, FloatRow } from '../src/machine/float-ops.js';
import { I32 } from '../src/machine/ir.js';
import { sampled } from './support/long.js';
import { Random } from './support/random.js';

const ALL = Object.keys(FLOAT_OPS).filter((name): name is FloatName => name in FLOAT_OPS);
const rowOf = (name: FloatName): FloatRow => FLOAT_OPS[name];
// What was told of a result is asked in told-function.test.ts.
const NAMES = ALL.filter((name) => !rowOf(name).lanes && name !== 'ftold');
const PACKED = ALL.filter((name) => rowOf(name).lanes);

/** A row as it is emitted; `fuses`: where the engine multiplies and adds in one rounding. */
interface Variant {
  readonly name: FloatName;
  readonly key: string;
  readonly fuses: boolean;
}
const host = new HostMemory();
const canFuse = fusesMultiplyAdd(host);
if (!canFuse) process.stderr.write('this processor does not multiply and add in one rounding: not tried\n');
const variantsOf = (name: FloatName): Variant[] => [
  { name, key: name, fuses: false },
  ...(canFuse && rowOf(name).inOne ? [{ name, key: `${name} in one rounding`, fuses: true }] : []),
];
const VARIANTS = NAMES.flatMap(variantsOf);
const PACKED_VARIANTS = PACKED.flatMap(variantsOf);

/** What functions of rows have in common: their calls, and 1 at 0 where they do not decide. */
function leaving(code: Code): Pick<FloatPlace, 'call' | 'demand'> {
  return {
    call: (called) => {
      code.call(FLOAT_FUNCTIONS.indexOf(called));
    },
    demand: () => {
      code.op(I32.eqz).if();
      code.i32(0).i32(1).memory([0x36], 0);
      code.end();
    },
  };
}

/** A function of the bits of the operands and the mode. */
function functionOf({ name, key, fuses }: Variant): WasmFunction {
  const row = rowOf(name);
  const code = new Code();
  const parameters = Array.from({ length: row.operands + 1 }, (): ValueType => 'i64');
  const locals: ValueType[] = [];
  emitFloat(row, {
    code,
    push: (operand) => {
      code.get(operand);
      if (row.type === 'f64') code.op(0xbf);
    },
    pushMode: () => {
      code.get(row.operands);
    },
    scratch: (type) => {
      locals.push(type);
      return parameters.length + locals.length - 1;
    },
    ...leaving(code),
    fuses,
  });
  if (row.d === 'f64') code.op(0xbd);
  return { parameters, results: ['i64'], locals, code, export: key };
}

/** The same of vectors: operands at 16, 32 and 48, the result at 64. */
function packedFunction({ name, key, fuses }: Variant): WasmFunction {
  const row = rowOf(name);
  const code = new Code();
  code.i32(0);
  emitFloat(row, {
    code,
    push: (operand) => {
      code.i32(0).memory([0xfd, 0x00], 16 + 16 * operand);
    },
    pushMode: () => {
      code.get(0);
    },
    scratch: () => 1,
    ...leaving(code),
    fuses,
  });
  code.memory([0xfd, 0x0b], 64);
  return { parameters: ['i64'], results: [], locals: ['v128'], code, export: key };
}

const bytes = writeModule([
  ...FLOAT_FUNCTIONS.map((name) => floatFunction(name)),
  ...VARIANTS.map(functionOf),
  ...PACKED_VARIANTS.map(packedFunction),
]);
const exports = instantiate(compileModule(bytes), host);
const undecided = new Uint32Array(host.memory.buffer, 0, 1);

/** What the op gives; null where it does not decide. */
function here(key: string, operands: readonly bigint[], mode: bigint): bigint | null {
  const call = exports[key];
  if (typeof call !== 'function') throw new Error(key);
  undecided[0] = 0;
  const value: unknown = call(...operands, mode);
  return undecided[0] === 0 ? BigInt.asUintN(64, value as bigint) : null;
}

const BOX = 0xffff_ffff_0000_0000n;
const ENVIRONMENT: Environment = {
  rounding: 'nearest-even',
  tininess: 'after',
  nan: ({ infinity, quietBit }) => infinity | quietBit,
};
const wide = (value: bigint): bigint => BigInt.asUintN(64, value);

const BINARY: Readonly<Record<string, (of: Format, env: Environment, a: bigint, b: bigint) => Result>> = {
  fadd: add, fsub: subtract, fmul: multiply, fdiv: divide,
  fmin: (of, env, a, b) => extremeNumber(of, env, 'less', a, b),
  fmax: (of, env, a, b) => extremeNumber(of, env, 'greater', a, b),
}; // prettier-ignore
const DIRECTIONS: Readonly<Record<string, Rounding>> = {
  zero: 'to-zero',
  down: 'down',
  up: 'up',
  nearest: 'nearest-even',
};

const widen = (single: bigint): bigint => convert(BINARY32, BINARY64, ENVIRONMENT, single).bits;

/** The same of a row of singles as doubles, by the row of singles in boxes. */
function wantedWide(name: FloatName, slots: readonly bigint[]): { readonly bits: bigint; readonly flags: number } {
  const singles = slots.map((slot) => convert(BINARY64, BINARY32, ENVIRONMENT, slot).bits);
  // Nothing else is decided.
  if (rowOf(name).widened && singles.some((single, i) => widen(single) !== slots[i])) return { bits: -1n, flags: 0 };
  const narrow = NAMES.find((each) => `${each}w` === name)!;
  const { bits, flags } = wanted(narrow, rowOf(name).widened ? singles.map((single) => single | BOX) : slots);
  return { bits: widen(BigInt.asUintN(32, bits)), flags };
}

/** Bits of the slot, and the exceptions. */
function wanted(name: FloatName, slots: readonly bigint[]): { readonly bits: bigint; readonly flags: number } {
  if (name.endsWith('w') && name !== 'fnarrow') return wantedWide(name, slots);
  const conversion = /^f(zero|down|up|nearest)(32|64)_([su])(32|64)$/.exec(name);
  const integer = /^f(single|double)_([su])(32|64)$/.exec(name);
  const isWhole = integer !== null;
  const format = conversion?.[2] ?? (isWhole ? (integer[1] === 'single' ? '32' : '64') : name.slice(-2));
  const of = format === '32' ? BINARY32 : BINARY64;
  const boxed = ({ bits, flags }: Result, single = of === BINARY32): Result => ({
    bits: single ? bits | BOX : bits,
    flags,
  });
  const [a, b, c] = slots.map((slot) => (of === BINARY32 && !isWhole ? BigInt.asUintN(32, slot) : slot));
  if (integer) {
    const width = Number(integer[3]);
    return boxed(
      fromInteger(of, ENVIRONMENT, integer[2] === 's' ? BigInt.asIntN(width, a!) : BigInt.asUintN(width, a!)),
    );
  }
  if (conversion) {
    const width = Number(conversion[4]);
    const result = toInteger(of, DIRECTIONS[conversion[1]!]!, a!, { bits: width, signed: conversion[3] === 's' });
    return result.kind === 'integer'
      ? { bits: wide(BigInt.asIntN(width, result.value)), flags: result.flags }
      : { bits: 0n, flags: EXCEPTION.invalid };
  }
  if (name === 'fnarrow') return boxed(convert(BINARY64, BINARY32, ENVIRONMENT, a!), true);
  if (name === 'fwiden') return convert(BINARY32, BINARY64, ENVIRONMENT, BigInt.asUintN(32, a!));
  const operation = name.slice(0, -2);
  const integral = /^fint(\w+)$/.exec(operation);
  if (integral) {
    return boxed(roundToIntegral(of, { ...ENVIRONMENT, rounding: DIRECTIONS[integral[1]!]! }, a!, false));
  }
  if (operation === 'fma') return boxed(multiplyAdd(of, ENVIRONMENT, a!, b!, c!));
  if (operation === 'fsqrt') return boxed(squareRoot(of, ENVIRONMENT, a!));
  const compute = BINARY[operation];
  if (compute) return boxed(compute(of, ENVIRONMENT, a!, b!));
  const { relation, flags } = compare(of, a!, b!, operation !== 'feq');
  const holds = (relation === 'less' && operation !== 'feq') || (relation === 'equal' && operation !== 'flt');
  return { bits: holds ? 1n : 0n, flags };
}

const random = new Random();
const SPECIAL = [
  0n, 1n, BINARY64.signBit, BINARY64.infinity, BINARY64.infinity | 1n, BINARY64.infinity | BINARY64.quietBit, BINARY64.infinity - 1n,
  BINARY64.fractionMask, BINARY64.fractionMask + 1n, BINARY64.signBit | BINARY64.infinity,
]; // prettier-ignore
const SPECIAL_SINGLE = [
  0n, 1n, BINARY32.signBit, BINARY32.infinity, BINARY32.infinity | 1n, BINARY32.infinity | BINARY32.quietBit, BINARY32.infinity - 1n,
  BINARY32.fractionMask, BINARY32.fractionMask + 1n, BINARY32.signBit | BINARY32.infinity,
].map((bits) => bits | BOX); // prettier-ignore

/** A number near 1; of few bits, so that many results are exact, when `short`. */
function ordinary(of: Format, short: boolean): bigint {
  const bias = (of.infinity >> BigInt(of.fractionBits)) >> 1n;
  const exponent = (bias + BigInt(random.below(30)) - 15n) << BigInt(of.fractionBits);
  const cut = -1n << BigInt(short ? of.fractionBits - 3 : 0);
  return (random.wide() & (of.signBit | (of.fractionMask & cut))) | exponent;
}

/** Bits of an operand's slot. */
function operand(name: FloatName, kind: 'ordinary' | 'short' | 'any'): bigint {
  if (!rowOf(name).widened) return plainOperand(rowOf(name), kind);
  // Also doubles that are no singles.
  if (kind === 'any' && random.below(4) === 0) return wide(random.wide());
  return widen(BigInt.asUintN(32, plainOperand({ type: 'f64', boxed: true }, kind)));
}

function plainOperand({ type, boxed }: Pick<FloatRow, 'type' | 'boxed'>, kind: 'ordinary' | 'short' | 'any'): bigint {
  if (type === 'i64') return wide(random.wide() >> BigInt(kind === 'short' ? 45 : random.below(60)));
  const isSingle = boxed;
  if (kind !== 'any')
    return isSingle ? ordinary(BINARY32, kind === 'short') | BOX : ordinary(BINARY64, kind === 'short');
  const which = random.below(4);
  if (which === 0) return (isSingle ? SPECIAL_SINGLE : SPECIAL)[random.below(SPECIAL.length)]!;
  // Singles that are in no box too.
  return which === 1 ? wide(random.wide()) : isSingle ? wide(random.wide()) | BOX : wide(random.wide());
}

const text = (values: readonly bigint[]): string => values.map((each) => each.toString(16)).join(' ');

describe.each(sampled(VARIANTS, 3))('$key', ({ name, key }) => {
  const row = rowOf(name);
  const operandsOf = (kind: 'ordinary' | 'short' | 'any'): bigint[] =>
    Array.from({ length: row.operands }, () => operand(name, kind));

  test('what it decides is right, and raises nothing but what is raised already', () => {
    const wrong: string[] = [];
    for (let i = 0; i < 3000; i++) {
      const slots = operandsOf((['any', 'ordinary', 'short'] as const)[i % 3]!);
      const result = wanted(name, slots);
      for (const [mode, allowed] of [
        [FLOAT_MODE.nearest, 0],
        [FLOAT_MODE.inexact, EXCEPTION.inexact],
      ] as const) {
        const value = here(key, slots, mode);
        if (value === null) continue;
        if (value !== result.bits || (result.flags & ~allowed) !== 0)
          wrong.push(`${text(slots)}: ${text([value])} ${mode}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test('ordinary numbers are decided while inexact is raised, exact results always', () => {
    let [decided, exact, exactDecided] = [0, 0, 0];
    const COUNT = 1000;
    for (let i = 0; i < COUNT; i++) {
      // A negative number has no root, and is no unsigned integer.
      const positive = (slot: bigint): bigint => (row.boxed ? slot & ~BINARY32.signBit : slot & ~BINARY64.signBit);
      const slots = operandsOf('ordinary').map(positive);
      if (here(key, slots, FLOAT_MODE.inexact) !== null) decided++;
      const short = operandsOf('short').map(positive);
      if (wanted(name, short).flags !== 0) continue;
      exact++;
      if (here(key, short, FLOAT_MODE.nearest) !== null) exactDecided++;
    }
    expect(decided).toBeGreaterThan(COUNT * 0.95);
    expect(exactDecided).toBeGreaterThan(exact * 0.95 - 1);
  });

  test('in other modes of rounding only what rounds nothing is decided', () => {
    for (let i = 0; i < 500; i++) {
      const slots = operandsOf((['any', 'ordinary', 'short'] as const)[i % 3]!);
      for (const mode of [FLOAT_MODE.other, FLOAT_MODE.toZero, FLOAT_MODE.up, FLOAT_MODE.down]) {
        if (row.clean === null) expect(here(key, slots, mode)).toBe(here(key, slots, FLOAT_MODE.nearest));
        else if (!row.rounds || mode === FLOAT_MODE.other) expect(here(key, slots, mode)).toBeNull();
      }
    }
  });
});

describe.each(['fadd64', 'fsub64'] as const)('%s in directed modes', (name) => {
  test.each([
    ['to-zero', FLOAT_MODE.toZero],
    ['up', FLOAT_MODE.up],
    ['down', FLOAT_MODE.down],
  ] as const)('%s: what it decides is right, and ordinary numbers are decided', (rounding, mode) => {
    const [compute, counts] = [BINARY[name.slice(0, -2)]!, { ordinary: 0, decided: 0 }];
    for (let i = 0; i < 6000; i++) {
      const kind = (['any', 'ordinary', 'short', 'ordinary'] as const)[i % 4]!;
      const slots = [operand(name, kind), operand(name, kind)];
      // Next to each other, or the same: sums that are zero, of either sign.
      if (i % 4 === 3) slots[1] = (slots[0]! + BigInt(random.below(3))) ^ (BigInt(random.below(2)) << 63n);
      if (i % 97 === 0) slots.fill(BigInt(random.below(2)) << 63n);
      const result = compute(BINARY64, { ...ENVIRONMENT, rounding }, slots[0]!, slots[1]!);
      const value = here(name, slots, mode);
      if (kind !== 'any') counts.ordinary++;
      if (value === null) continue;
      if (kind !== 'any') counts.decided++;
      expect([text(slots), text([value])]).toEqual([text(slots), text([result.bits])]);
      expect(result.flags & ~EXCEPTION.inexact).toBe(0);
    }
    expect(counts.decided).toBe(counts.ordinary);
  });
});

describe.each(sampled(PACKED_VARIANTS, 3))('$key', ({ name, key }) => {
  const row = rowOf(name);
  const [width, count] = row.lanes!.width === 64 ? ([64, 2] as const) : ([32, 4] as const);
  const scalar = NAMES.find((each) => each === name.replace(/x[24]$/, ''))!;
  const memory = new DataView(host.memory.buffer);
  const lanesAt = (at: number): bigint[] =>
    Array.from({ length: count }, (_, lane) =>
      width === 64 ? memory.getBigUint64(at + 8 * lane, true) : BigInt(memory.getUint32(at + 4 * lane, true)),
    );
  const put = (at: number, lanes: readonly bigint[]): void => {
    lanes.forEach((bits, lane) => {
      if (width === 64) memory.setBigUint64(at + 8 * lane, bits, true);
      else memory.setUint32(at + 4 * lane, Number(bits & 0xffff_ffffn), true);
    });
  };
  const call = exports[key];

  /** Lanes of the result; null where it is not decided. */
  function vectorHere(operands: readonly (readonly bigint[])[], mode: bigint): bigint[] | null {
    if (typeof call !== 'function') throw new Error(key);
    undecided[0] = 0;
    operands.forEach((lanes, i) => {
      put(16 + 16 * i, lanes);
    });
    call(mode);
    return undecided[0] === 0 ? lanesAt(64) : null;
  }

  test.each([
    ['while inexact is raised', FLOAT_MODE.inexact, EXCEPTION.inexact],
    ['before', FLOAT_MODE.nearest, 0],
  ] as const)('each lane has the result of one number, %s, and raises nothing else', (_when, mode, allowed) => {
    const box = width === 64 ? 0n : BOX;
    const low = (bits: bigint): bigint => BigInt.asUintN(width, bits);
    const lane = (kind: 'any' | 'ordinary' | 'short'): bigint => {
      if (!scalar.includes('sqrt') || kind === 'any') return operand(scalar, kind) | box;
      // A negative number has no root, and most have none that is exact.
      if (kind === 'ordinary') return (operand(scalar, kind) | box) & ~(1n << BigInt(width - 1));
      const of = width === 64 ? BINARY64 : BINARY32;
      const square = BigInt(1 + random.below(1000)) ** 2n;
      return fromInteger(of, ENVIRONMENT, square).bits | box;
    };
    const wrong: string[] = [];
    let decided = 0;
    for (let i = 0; i < 3000; i++) {
      // Mostly lanes that are decided: one that is not hides the others.
      const kinds = Array.from({ length: count }, () =>
        random.below(6) === 0 ? 'any' : mode === FLOAT_MODE.inexact ? 'ordinary' : 'short',
      );
      const lanes = kinds.map((kind) => Array.from({ length: row.operands }, () => lane(kind)));
      const results = lanes.map((each) => wanted(scalar, each));
      const value = vectorHere(
        Array.from({ length: row.operands }, (_, at) => lanes.map((each) => each[at]!)),
        mode,
      );
      if (value === null) continue;
      decided++;
      const isRight = results.every(({ bits, flags }, at) => low(bits) === value[at] && (flags & ~allowed) === 0);
      if (!isRight) wrong.push(`${lanes.map(text).join('; ')}: ${text(value)}`);
    }
    expect(wrong).toEqual([]);
    expect(decided).toBeGreaterThan(mode === FLOAT_MODE.inexact ? 1000 : 20);
  });

  test('lanes that are zero are decided, and nothing is in another mode', () => {
    const zeros = Array.from({ length: count }, () => 0n);
    const ones = Array.from({ length: count }, () => (width === 64 ? 0x3ff0n << 48n : 0x3f80_0000n));
    const operands = [zeros, ones, zeros].slice(0, row.operands);
    expect(vectorHere(operands, FLOAT_MODE.inexact)).not.toBeNull();
    expect(vectorHere(operands, FLOAT_MODE.nearest)).not.toBeNull();
    expect(vectorHere(operands, FLOAT_MODE.other)).toBeNull();
  });
});

const FUSED = VARIANTS.filter(({ name }) => /^fma(32|64)$/.test(name));

test.each(FUSED)('$key: sums at the border of what is subnormal, and zeros', ({ name, key }) => {
  const of = name === 'fma64' ? BINARY64 : BINARY32;
  const box = name === 'fma64' ? 0n : BOX;
  const bias = Number((of.infinity >> BigInt(of.fractionBits)) >> 1n);
  /** A number with that exponent; a zero or a subnormal one below the least. */
  const near = (exponent: number): bigint => {
    const biased = Math.max(0, exponent + bias + random.below(5) - 2);
    const fraction = random.wide() & of.fractionMask & (random.below(3) === 0 ? 0n : -1n << BigInt(random.below(20)));
    return (random.wide() & of.signBit) | (BigInt(biased) << BigInt(of.fractionBits)) | fraction | box;
  };
  const wrong: string[] = [];
  let decided = 0;
  for (let i = 0; i < 6000; i++) {
    const sum = [1 - bias, -bias - of.fractionBits, 60 - bias, -5][i % 4]!;
    const first = random.below(bias) - (bias >> 1);
    const slots = [near(first), near(sum - first), random.below(5) === 0 ? box : near(sum)];
    if (random.below(8) === 0) slots[random.below(3)] = box;
    const { bits, flags } = wanted(name, slots);
    for (const mode of [FLOAT_MODE.nearest, FLOAT_MODE.inexact]) {
      const value = here(key, slots, mode);
      const allowed = mode === FLOAT_MODE.inexact ? EXCEPTION.inexact : 0;
      if (value !== null) decided++;
      if (value !== null && (value !== bits || (flags & ~allowed) !== 0))
        wrong.push(`${text(slots)}: ${text([value])}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(decided).toBeGreaterThan(1500);
});

describe('a tie that the rest of the product decides', () => {
  const view = new DataView(new ArrayBuffer(8));
  const slotOf = (value: number, isSingle: boolean): bigint => {
    if (isSingle) view.setFloat32(0, value);
    else view.setFloat64(0, value);
    return isSingle ? BigInt(view.getUint32(0)) | BOX : view.getBigUint64(0);
  };
  test.each(FUSED)('$key goes to the nearer number', ({ name, key }) => {
    const [precision, step] = name === 'fma32' ? [24, 15] : [53, 30];
    // The product is 1 - 2^(-2 step), and half a unit of the addend is 1.
    const [above, below] = [1 + 2 ** -step, 1 - 2 ** -step];
    for (const addend of [2 ** precision, 2 ** precision + 2, 2 ** precision + 4]) {
      for (const sign of [1, -1]) {
        const slots = [sign * above, below, sign * addend].map((each) => slotOf(each, name === 'fma32'));
        const value = here(key, slots, FLOAT_MODE.inexact);
        expect(value).toBe(slotOf(sign * addend, name === 'fma32'));
        expect(value).toBe(wanted(name, slots).bits);
      }
    }
  });
});

/** Reads the parts of a module that are numbers of variable length. */
class Reader {
  constructor(
    private readonly bytes: Uint8Array,
    public at = 0,
  ) {}

  unsigned(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.bytes[this.at++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  numbers(count: number): number[] {
    return Array.from({ length: count }, () => this.unsigned());
  }
}

/** A reader at the content of the section of that number. */
function sectionOf(module: Uint8Array, wanted: number): Reader {
  const reader = new Reader(module, 8);
  for (;;) {
    const [id, size] = reader.numbers(2);
    if (id === wanted) return reader;
    reader.at += size!;
  }
}

test('what is asked when a result is not settled is hinted as rare, at the branch there', () => {
  const code = sectionOf(bytes, 10);
  const bodies = Array.from({ length: code.unsigned() }, () => {
    const size = code.unsigned();
    code.at += size;
    return code.at - size;
  });
  const reader = sectionOf(bytes, 0);
  const name = String.fromCharCode(...reader.numbers(reader.unsigned()));
  expect(name).toBe('metadata.code.branch_hint');
  const hinted = Array.from({ length: reader.unsigned() }, () => {
    const [index, count] = reader.numbers(2);
    for (let i = 0; i < count!; i++) {
      const [place, size, value] = reader.numbers(3);
      expect({ size, value, opcode: bytes[bodies[index!]! + place!] }).toEqual({ size: 1, value: 0, opcode: 0x04 });
    }
    return [...VARIANTS, ...PACKED_VARIANTS][index! - FLOAT_FUNCTIONS.length];
  });
  expect(hinted).toEqual([...VARIANTS, ...PACKED_VARIANTS].filter(({ name }) => rowOf(name).clean !== null));
});
