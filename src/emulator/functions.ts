/**
 * The WebAssembly functions that ops call (`FunctionName` of the op table): what needs locals or is
 * long. A module gets the ones it uses.
 */
import { comparisonOf, I32, I64, isFloatOp, isX87Op, OPS, OP_NAMES, RECORD_BIT } from '../machine/ir.js';
import type { AnyKind, CONDITIONS, FunctionName, Lifter, RecordTest } from '../machine/ir.js';
import type { FloatFunction } from '../machine/float-ops.js';
import { floatFunction } from './float-functions.js';
import { INLINED, INLINED_LOCALS } from './inlined.js';
import type { InlinedName } from './inlined.js';
import { carryTest, flagBitsFunction, flagTest } from './status-flags.js';
import { Code } from './wasm.js';
import type { ValueType, WasmFunction } from './wasm.js';
import { x87Arithmetic } from './x87-arithmetic-code.js';
import { x87Compare, x87Load, x87Move, x87Store } from './x87-code.js';
import { x87Unary } from './x87-unary-code.js';

function binary(locals: number, write: (code: Code) => void): WasmFunction {
  const code = new Code();
  write(code);
  const names: ValueType[] = [];
  for (let i = 0; i < locals; i++) names.push('i64');
  return { parameters: ['i64', 'i64'], results: ['i64'], locals: names, code };
}

/**
 * Quotient of 128 bits (parameters: upper half, lower half) by 64 bits, unsigned; 0 where it does
 * not fit. Two digits of 32 bits, each guessed from the first digit of the divisor, whose highest
 * bit is made 1, and one or two too large at most: Knuth, The Art of Computer Programming 2, 4.3.1,
 * D.
 */
function wideDivision(): WasmFunction {
  const code = new Code();
  const [high, low, divisor, shift, first, second, digit, rest, quotient] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const mask = 0xffff_ffffn;
  code.get(high).get(divisor).op(I64.geu).if();
  code.i64(0n).return().end();
  code.get(high).op(I64.eqz).if();
  code.get(low).get(divisor).op(I64.divu).return().end();
  code.get(divisor).op(I64.clz).set(shift);
  // The shift may be 0, and one by 64 is one by 0.
  code.get(high).get(shift).op(I64.shl);
  code.get(low).i64(1n).op(I64.shr).i64(63n).get(shift).op(I64.sub).op(I64.shr).op(I64.or).set(high);
  code.get(low).get(shift).op(I64.shl).set(low);
  code.get(divisor).get(shift).op(I64.shl).tee(divisor).i64(32n).op(I64.shr).set(first);
  code.get(divisor).i64(mask).op(I64.and).set(second);
  for (const place of [32n, 0n]) {
    code.get(high).get(first).op(I64.divu).tee(digit).get(first).op(I64.mul).set(rest);
    code.get(high).get(rest).op(I64.sub).set(rest);
    const done = code.block();
    const again = code.loop();
    code.get(digit).i64(mask).op(I64.gtu);
    code.get(digit).get(second).op(I64.mul);
    code.get(rest).i64(32n).op(I64.shl).get(low).i64(place).op(I64.shr).i64(mask).op(I64.and).op(I64.or);
    code.op(I64.gtu).op(I32.or).op(I32.eqz).brIf(done);
    code.get(digit).i64(1n).op(I64.sub).set(digit);
    code.get(rest).get(first).op(I64.add).tee(rest).i64(mask).op(I64.leu).brIf(again);
    code.end();
    code.end();
    // What is left over, modulo 64 bits, is below the divisor.
    code.get(high).i64(32n).op(I64.shl).get(low).i64(place).op(I64.shr).i64(mask).op(I64.and).op(I64.or);
    code.get(digit).get(divisor).op(I64.mul).op(I64.sub).set(high);
    code.get(quotient).i64(32n).op(I64.shl).get(digit).op(I64.or).set(quotient);
  }
  code.get(quotient);
  const locals: ValueType[] = ['i64', 'i64', 'i64', 'i64', 'i64', 'i64'];
  return { parameters: ['i64', 'i64', 'i64'], results: ['i64'], locals, code };
}

/**
 * Leaves on the stack, as i32, whether a record (K of `RECORD_KINDS` without flags, A, B) is less,
 * greater or equal; `push` pushes field 0 to 2. A comparison is one of signed 64-bit numbers: words
 * are shifted to the top, and unsigned numbers have their first bit changed.
 */
export function recordTest(code: Code, test: RecordTest, push: (field: 0 | 1 | 2) => void): void {
  push(0);
  code.op(I64.eqz).if('i32');
  push(1);
  code.i64({ lt: 3n, gt: 2n, eq: 1n }[test]).op(I64.shr).op(I32.wrap).i32(1).op(I32.and);
  code.else();
  for (const field of [1, 2] as const) comparable(code, field, test !== 'eq', push);
  code.op(I64[test]).end();
}

/**
 * The same of a record of which the kind is known; false, and nothing is written, where it is one
 * of flags.
 */
export function knownTest(code: Code, test: RecordTest, kind: AnyKind, push: (field: 1 | 2) => void): boolean {
  if (kind === 'bits') {
    push(1);
    code.i64(BigInt(RECORD_BIT[test])).op(I64.and).i64(0n).op(I64.ne);
    return true;
  }
  const compare = comparisonOf(kind);
  if (compare === null) return false;
  for (const field of [1, 2] as const) {
    push(field);
    if (compare.width === 32) code.op(I32.wrap);
  }
  code.op(compareOpcode(test === 'eq' || compare.signed ? test : `${test}u`, compare.width));
  return true;
}

/** The bits of a field of PowerPC's condition register, of a record of which the kind is known. */
export function knownField(code: Code, kind: AnyKind, push: (field: 1 | 2) => void): boolean {
  if (kind === 'bits') {
    push(1);
    code.i64(15n).op(I64.and);
    return true;
  }
  if (comparisonOf(kind) === null) return false;
  code.i64(8n).i64(4n).i64(2n);
  for (const test of ['gt', 'lt'] as const) {
    knownTest(code, test, kind, push);
    code.select();
  }
  return true;
}

/**
 * Pushes A or B of a record of a comparison so that a signed one of 64 bits serves all kinds, or
 * one that knows no sign where it is not `ordered`.
 */
function comparable(code: Code, field: 1 | 2, ordered: boolean, push: (field: 0 | 1 | 2) => void): void {
  push(field);
  // 1, 2, 3, 4: signed and unsigned of 64 bits, of 32 bits.
  push(0);
  code.i64(1n).op(I64.sub).i64(1n).op(I64.shr).i64(5n).op(I64.shl).op(I64.shl);
  if (!ordered) return;
  push(0);
  code.i64(1n).op(I64.sub).i64(63n).op(I64.shl).op(I64.xor);
}

/**
 * The bits of a field of PowerPC's condition register as its record has them: parameters K, A, B.
 */
function fieldTest(): WasmFunction {
  const code = new Code();
  code.get(0).op(I64.eqz).if();
  code.get(1).i64(15n).op(I64.and).return().end();
  for (const field of [1, 2] as const) {
    comparable(code, field, true, (part) => {
      code.get(part);
    });
    code.set(2 + field);
  }
  code.i64(8n).i64(4n).i64(2n);
  code.get(3).get(4).op(I64.gt).select();
  code.get(3).get(4).op(I64.lt).select();
  return { parameters: ['i64', 'i64', 'i64'], results: ['i64'], locals: ['i64', 'i64'], code };
}

/** Record tests: parameters K, A, B. */
function recordTestFunction(test: RecordTest): WasmFunction {
  const code = new Code();
  recordTest(code, test, (field) => {
    code.get(field);
  });
  code.op(I64.extendU);
  return { parameters: ['i64', 'i64', 'i64'], results: ['i64'], locals: [], code };
}

/** Bit by bit through the mask in 1: 2 = result, 3 = place, 4 = lowest bit of the mask. */
function bitField(deposit: boolean): WasmFunction {
  return binary(3, (code) => {
    code.i64(1n).set(3);
    const end = code.block();
    const loop = code.loop();
    code.get(1).op(I64.eqz).brIf(end);
    code.get(1).i64(0n).get(1).op(I64.sub).op(I64.and).set(4);
    code.get(0);
    code.get(deposit ? 3 : 4).op(I64.and).i64(0n).op(I64.ne).if();
    code.get(2).get(deposit ? 4 : 3).op(I64.or).set(2);
    code.end();
    code.get(3).i64(1n).op(I64.shl).set(3);
    code.get(1).get(4).op(I64.xor).set(1);
    code.br(loop);
    code.end();
    code.end();
    code.get(2);
  }); // prettier-ignore
}

/**
 * N, Z, C, V of a record with four slots, from the bits of its kind's code (`RECORD_KINDS`):
 * parameters K, A, B, C. 32-bit operands are moved to the upper half, where all four flags are
 * those of 64 bits.
 */
function nzcvTest(): WasmFunction {
  const code = new Code();
  const [k, a, b, c, carry, result] = [0, 1, 2, 3, 4, 5];
  const bit = (number: number): void => {
    code
      .get(k)
      .i64(BigInt(1 << number))
      .op(I64.and)
      .i64(0n)
      .op(I64.ne);
  };
  code.get(k).op(I64.eqz).if();
  code.get(a).i64(15n).op(I64.and).return();
  code.end();
  bit(3);
  code.get(c).op(I32.wrap).i32(1).op(I32.and).op(I32.eqz).op(I32.and).if();
  code.get(c).i64(1n).op(I64.shr).i64(15n).op(I64.and).return();
  code.end();
  code.get(c).i64(1n).op(I64.and).set(carry);
  bit(0);
  code.if();
  for (const local of [a, b, carry]) code.get(local).i64(32n).op(I64.shl).set(local);
  code.end();
  code.get(k).i64(6n).op(I64.and).op(I64.eqz).if();
  // a - b: no borrow, and overflow where a and b have different signs and the result not that of a.
  code.get(a).get(b).op(I64.sub).set(result);
  code.get(a).get(b).op(I64.geu).op(I64.extendU).set(carry);
  code.get(a).get(b).op(I64.xor).get(a).get(result).op(I64.xor).op(I64.and).set(a);
  code.else();
  code.get(a).get(b).op(I64.add);
  code.get(carry).i64(0n);
  bit(2);
  code.select().op(I64.add).set(result);
  // Carry: both signs, or one of them and a result without.
  code.get(a).get(b).op(I64.and);
  code.get(a).get(b).op(I64.or).get(result).i64(-1n).op(I64.xor).op(I64.and);
  code.op(I64.or).i64(63n).op(I64.shr).set(carry);
  code.get(a).get(result).op(I64.xor).get(b).get(result).op(I64.xor).op(I64.and).set(a);
  code.end();
  code.get(result).i64(63n).op(I64.shr).i64(3n).op(I64.shl);
  code.get(result).op(I64.eqz).op(I64.extendU).i64(2n).op(I64.shl).op(I64.or);
  code.get(carry).i64(1n).op(I64.shl).op(I64.or);
  code.get(a).i64(63n).op(I64.shr).op(I64.or);
  return { parameters: ['i64', 'i64', 'i64', 'i64'], results: ['i64'], locals: ['i64', 'i64'], code };
}

/** `b` steps of a division with remainder by a reflected polynomial. */
function crcSteps(polynomial: bigint): WasmFunction {
  return binary(0, (code) => {
    code.get(1).i64(127n).op(I64.and).set(1);
    const done = code.block();
    const loop = code.loop();
    code.get(1).op(I64.eqz).brIf(done);
    code.get(0).i64(1n).op(I64.shr);
    code.i64(0n).get(0).i64(1n).op(I64.and).op(I64.sub).i64(polynomial).op(I64.and);
    code.op(I64.xor).set(0);
    code.get(1).i64(1n).op(I64.sub).set(1).br(loop);
    code.end();
    code.end();
    code.get(0);
  });
}

/** The bits of each byte in the other order. */
function reverseInBytes(): WasmFunction {
  const code = new Code();
  for (const [shift, mask] of [
    [1n, 0x5555_5555_5555_5555n],
    [2n, 0x3333_3333_3333_3333n],
    [4n, 0x0f0f_0f0f_0f0f_0f0fn],
  ] as const) {
    code.get(0).i64(shift).op(I64.shr).i64(mask).op(I64.and);
    code.get(0).i64(mask).op(I64.and).i64(shift).op(I64.shl).op(I64.or).set(0);
  }
  code.get(0);
  return { parameters: ['i64'], results: ['i64'], locals: [], code };
}

/** The function of what is mostly written where it is used. */
const madeOf = (name: InlinedName): WasmFunction =>
  binary(INLINED_LOCALS, (code) => {
    INLINED[name]({
      code,
      push: (operand) => {
        code.get(operand);
      },
      local: (index) => 2 + index,
    });
  });

type IndexOf = (name: FunctionName) => number;

/** How each function is made but those of floating point. */
const BUILDERS: Readonly<Record<Exclude<FunctionName, FloatFunction>, (indexOf: IndexOf) => WasmFunction>> = {
  mulhu: () => madeOf('mulhu'),
  mulhs: () => madeOf('mulhs'),
  divs: () => madeOf('divs'),
  divu: () => madeOf('divu'),
  rems: () => madeOf('rems'),
  remu: () => madeOf('remu'),
  sarlost: () => binary(0, lostBits),
  pdep: () => bitField(true),
  pext: () => bitField(false),
  flagbits: (indexOf) => flagBitsFunction(indexOf('mulhs')),
  flago: (indexOf) => flagTest(indexOf('flagbits'), 0x800n, false),
  flagb: (indexOf) => carryTest(indexOf('flagbits')),
  flage: (indexOf) => flagTest(indexOf('flagbits'), 0x40n, false),
  flagbe: (indexOf) => flagTest(indexOf('flagbits'), 0x41n, false),
  flags: (indexOf) => flagTest(indexOf('flagbits'), 0x80n, false),
  flagp: (indexOf) => flagTest(indexOf('flagbits'), 4n, false),
  flagl: (indexOf) => flagTest(indexOf('flagbits'), 0n, true),
  flagle: (indexOf) => flagTest(indexOf('flagbits'), 0x40n, true),
  testlt: () => recordTestFunction('lt'),
  testgt: () => recordTestFunction('gt'),
  testeq: () => recordTestFunction('eq'),
  testcr: () => fieldTest(),
  testnzcv: () => nzcvTest(),
  divwide: () => wideDivision(),
  crc32: () => crcSteps(0xedb8_8320n),
  crc32c: () => crcSteps(0x82f6_3b78n),
  reverseinbytes: () => reverseInBytes(),
  x87load: x87Load,
  x87arithmetic: (indexOf) => x87Arithmetic(indexOf('divwide')),
  x87compare: x87Compare,
  x87store: x87Store,
  x87move: x87Move,
  x87unary: (indexOf) => x87Unary(indexOf('divwide')),
};

/** A shift to the right of a negative number loses bits that are set. */
function lostBits(code: Code): void {
  code.get(0).i64(0n).op(I64.lt).op(I64.extendU);
  code.get(0).i64(-1n).get(1).op(I64.shl).i64(-1n).op(I64.xor).op(I64.and).i64(0n).op(I64.ne).op(I64.extendU);
  code.op(I64.and);
}

const isFloatFunction = (name: FunctionName): name is FloatFunction => !(name in BUILDERS);

function build(name: FunctionName, indexOf: IndexOf): WasmFunction {
  return isFloatFunction(name) ? floatFunction(name) : BUILDERS[name](indexOf);
}

/**
 * All functions that the op table calls, in a fixed order, for a module that holds every op, or
 * every op but those of floating point or x87.
 */
export function buildFunctions({ floats, x87 }: Pick<Lifter, 'floats' | 'x87'>): {
  readonly names: readonly FunctionName[];
  readonly functions: readonly WasmFunction[];
} {
  const names: FunctionName[] = [];
  for (const name of OP_NAMES) {
    if ((isFloatOp(name) && floats !== true) || (isX87Op(name) && x87 !== true)) continue;
    const row = OPS[name];
    const called = 'call' in row ? row.call : undefined;
    const asked = row.form === 'float' ? [row.clean, 'rounds' in row ? row.rounds : null] : [];
    for (const each of [called, ...asked]) if (each && !names.includes(each)) names.push(each);
  }
  return { names, functions: names.map((name) => build(name, (other) => names.indexOf(other))) };
}

const NEEDED: Partial<Readonly<Record<FunctionName, readonly FunctionName[]>>> = {
  flagbits: ['mulhs'],
  x87arithmetic: ['divwide'],
  x87unary: ['divwide'],
};

/**
 * Functions by their names and the numbers of those that they call: every module that is compiled
 * while a program runs has some of them.
 */
const built = new Map<string, WasmFunction>();

/** Those of the functions that are asked for, and what they call, numbered from `first`. */
export function someFunctions(wanted: Iterable<FunctionName>, first: number): readonly WasmFunction[] {
  // In the order in which they were asked for; what they call comes behind.
  const names = [...wanted];
  const neededBy = (name: FunctionName): readonly FunctionName[] =>
    NEEDED[name] ?? (name.startsWith('flag') ? ['flagbits'] : []);
  for (let i = 0; i < names.length; i++) {
    for (const each of neededBy(names[i]!)) if (!names.includes(each)) names.push(each);
  }
  const indexOf = (name: FunctionName): number => first + names.indexOf(name);
  return names.map((name) => {
    const key = [name, ...neededBy(name).map(indexOf)].join();
    let known = built.get(key);
    if (!known) {
      known = build(name, indexOf);
      built.set(key, known);
    }
    return known;
  });
}

/** Opcode that compares two i32 or i64 values. */
export function compareOpcode(condition: (typeof CONDITIONS)[number], width: 32 | 64): number {
  return width === 32 ? I32[condition] : I64[condition];
}
