/**
 * Floating point of SSE in ops of both tiers, where those decide (`machine/float-ops.ts`); the
 * helpers of `lift.ts` do the rest. Vectors are computed element by element.
 *
 * Ops know nothing of subnormal operands, which x86 tells of (DE), so these are left to the
 * helpers. A single is in the low half of a slot, below 32 ones.
 *
 * Source: Intel SDM volume 1, 11.5; volume 2.
 */
import { FLOAT_MODE } from '../machine/float-ops.js';
import type { FloatName } from '../machine/float-ops.js';
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';
import { RELATION, relationsOf } from './float.js';
import type { FloatOperation, FusedKind } from './float.js';

/** Elements of an instruction: scalars, or all of a vector. */
export const ELEMENTS = ['ss', 'sd', 'ps', 'pd'] as const;
export type Elements = (typeof ELEMENTS)[number];

/** All relations of numbers. */
const ORDERED = RELATION.less | RELATION.equal | RELATION.greater;
/** Comparisons by the relations that they hold with, and whether the operands are exchanged. */
const COMPARISONS: Readonly<Record<number, readonly [name: 'feq' | 'flt' | 'fle', mirrors: boolean]>> = {
  0: ['feq', false],
  [RELATION.less]: ['flt', false],
  [RELATION.equal]: ['feq', false],
  [RELATION.less | RELATION.equal]: ['fle', false],
};

const BOX = 0xffff_ffff_0000_0000n;
/** Conversions of all elements of a vector. */
export type VectorConversion =
  'cvtdq2ps' | 'cvtdq2pd' | 'cvtps2pd' | 'cvtpd2ps' | 'cvtps2dq' | 'cvttps2dq' | 'cvtpd2dq' | 'cvttpd2dq';
/** Operations of all elements at once. */
const PACKED: Partial<Readonly<Record<FloatOperation, 'fadd' | 'fsub' | 'fmul' | 'fdiv' | 'fsqrt'>>> = {
  add: 'fadd',
  sub: 'fsub',
  mul: 'fmul',
  div: 'fdiv',
  sqrt: 'fsqrt',
};
const isDouble = (elements: Elements): boolean => elements.endsWith('d');

/** What MXCSR says to the ops: all exceptions masked, to nearest, nothing flushed. */
export function modeOf(mxcsr: bigint): bigint {
  if ((mxcsr & 0xffc0n) !== 0x1f80n) return FLOAT_MODE.other;
  return (mxcsr & 0x20n) === 0n ? FLOAT_MODE.nearest : FLOAT_MODE.inexact;
}

/** One instruction's ops. Nothing is written before the last op that may leave the block. */
export class FastFloat {
  constructor(
    private readonly b: BlockBuilder,
    private readonly mode: Slot,
  ) {}

  /** The mode of a value of MXCSR in a slot. */
  setMode(mxcsr: Slot): void {
    const { b, mode } = this;
    const isOther = b.make('setne', b.make('and', mxcsr, 0xffc0n), 0x1f80n);
    b.select(mode, isOther, FLOAT_MODE.other, b.make('and', b.make('shr', mxcsr, 5n), 1n));
  }

  /** Bits of the elements of a vector, boxed. */
  private lanes(vector: Slot, elements: Elements): Slot[] {
    const { b } = this;
    const halves = elements.startsWith('p') ? (['low64', 'high64'] as const) : (['low64'] as const);
    return halves.flatMap((name) => {
      const half = b.make(name, vector);
      if (isDouble(elements)) return [half];
      const first = b.make('or', half, BOX);
      return elements === 'ss' ? [first] : [first, b.make('or', b.make('shr', half, 32n), BOX)];
    });
  }

  /** Leaves where one of the numbers is subnormal. */
  private normal(numbers: readonly Slot[], elements: Elements): void {
    const { b } = this;
    // Without the sign, at the top of the slot; zero becomes the largest number.
    const [shift, bound] = isDouble(elements) ? [1n, 1n << 53n] : [33n, 1n << 56n];
    for (const each of numbers) b.guard(b.make('setgeu', b.make('sub', b.make('shl', each, shift), 1n), bound - 1n));
  }

  private op(name: string, elements: Elements, operands: readonly [Slot, Slot?, Slot?]): Slot {
    const d = this.b.temp();
    this.b.float(d, `${name}${isDouble(elements) ? '64' : '32'}` as FloatName, this.mode, [...operands]);
    return d;
  }

  /** An element of an operation. */
  private element(operation: FloatOperation, elements: Elements, a: Slot, c: Slot, predicate: number): Slot {
    const { b } = this;
    switch (operation) {
      case 'add':
      case 'sub':
      case 'mul':
      case 'div':
        return this.op(`f${operation}`, elements, [a, c]);
      case 'sqrt':
        return this.op('fsqrt', elements, [c]);
      case 'min':
      case 'max': {
        // The second operand where they are equal.
        const takesFirst = this.op('flt', elements, operation === 'min' ? [a, c] : [c, a]);
        const d = b.temp();
        b.select(d, takesFirst, a, c);
        return d;
      }
      case 'cmp': {
        // Of ordered numbers: which of the three others. Whether they are is asked in any case.
        const wanted = relationsOf(predicate) & (RELATION.less | RELATION.equal | RELATION.greater);
        const isInverse = wanted > ORDERED - wanted;
        const [name, mirrors] = COMPARISONS[isInverse ? ORDERED - wanted : wanted]!;
        const relation = this.op(name, elements, mirrors ? [c, a] : [a, c]);
        let holds: Operand = (wanted & ORDERED) === 0 || wanted === ORDERED ? b.make('and', relation, 0n) : relation;
        if (isInverse) holds = b.make('xor', holds, 1n);
        return b.make('sub', 0n, holds);
      }
      default:
        return operation satisfies never;
    }
  }

  /** Leaves where an element of one of the vectors is subnormal. */
  private normalVectors(vectors: readonly Slot[], elements: Elements): void {
    const { b } = this;
    const tests = vectors.map((each) =>
      b.to(b.vectorTemp(), isDouble(elements) ? 'vsubnormal64' : 'vsubnormal32', each),
    );
    const all = tests.reduce((first, second) => b.to(first, 'or128', first, second));
    b.guard(b.make('seteq', b.make('vany', all), 0n));
  }

  /** d := operation of d and `source`, of the elements. */
  elements(operation: FloatOperation, elements: Elements, d: Slot, source: Slot, predicate: number): void {
    const packed = elements.startsWith('p') ? PACKED[operation] : undefined;
    if (packed !== undefined) {
      const operands = operation === 'sqrt' ? [source] : [d, source];
      this.normalVectors(operands, elements);
      this.b.float(d, isDouble(elements) ? `${packed}64x2` : `${packed}32x4`, this.mode, [operands[0]!, operands[1]]);
      return;
    }
    const [first, second] = [this.lanes(d, elements), this.lanes(source, elements)];
    this.normal(operation === 'sqrt' ? second : [...first, ...second], elements);
    const results = first.map((each, i) => this.element(operation, elements, each, second[i]!, predicate));
    this.write(d, elements, results);
  }

  /**
   * d := a * c + added, each element with its signs.
   * @param kind  of the element of that number
   */
  fused(elements: Elements, d: Slot, [a, c, added]: readonly [Slot, Slot, Slot], kind: (i: number) => FusedKind): void {
    const { b } = this;
    if (elements.startsWith('p') && kind(0).negates === kind(1).negates && kind(0).subtracts === kind(1).subtracts) {
      this.fusedPacked(elements, d, [a, c, added], kind(0));
      return;
    }
    const [first, second, third] = [this.lanes(a, elements), this.lanes(c, elements), this.lanes(added, elements)];
    this.normal([...first, ...second, ...third], elements);
    const sign = isDouble(elements) ? 1n << 63n : 1n << 31n;
    const signed = (value: Slot, isOther: boolean): Slot => (isOther ? b.make('xor', value, sign) : value);
    const results = first.map((each, i) => {
      const { negates, subtracts } = kind(i);
      return this.op('fma', elements, [signed(each, negates), second[i]!, signed(third[i]!, subtracts)]);
    });
    this.write(d, elements, results);
  }

  private fusedPacked(
    elements: Elements,
    d: Slot,
    [a, c, added]: readonly [Slot, Slot, Slot],
    { negates, subtracts }: FusedKind,
  ): void {
    const { b } = this;
    this.normalVectors([a, c, added], elements);
    const width = isDouble(elements) ? 64 : 32;
    const signed = (vector: Slot, isOther: boolean): Slot =>
      isOther ? b.to(b.vectorTemp(), `vfneg${width}`, vector) : vector;
    const operands = [signed(a, negates), c, signed(added, subtracts)] as const;
    b.float(d, width === 64 ? 'fma64x2' : 'fma32x4', this.mode, operands);
  }

  /** Writes elements; of a scalar the others stay. */
  private write(d: Slot, elements: Elements, results: readonly Slot[]): void {
    const { b } = this;
    if (elements === 'sd') b.to(d, 'setlow64', d, results[0]!);
    else if (elements === 'pd') b.to(d, 'pair64', results[0]!, results[1]!);
    else if (elements === 'ss') {
      const kept = b.make('and', b.make('low64', d), BOX);
      b.to(d, 'setlow64', d, b.make('or', kept, b.make('zx32', results[0]!)));
    } else {
      const half = (i: number): Slot => b.make('or', b.make('zx32', results[i]!), b.make('shl', results[i + 1]!, 32n));
      const [low, high] = [half(0), half(2)];
      b.to(d, 'pair64', low, high);
    }
  }

  /** Status flags of a comparison of ordered numbers: ZF where they are equal, CF where less. */
  relation(elements: 'ss' | 'sd', first: Slot, second: Slot): Slot {
    const { b } = this;
    const [[a], [c]] = [this.lanes(first, elements), this.lanes(second, elements)];
    this.normal([a!, c!], elements);
    const less = this.op('flt', elements, [a!, c!]);
    const equal = this.op('feq', elements, [a!, c!]);
    return b.make('or', less, b.make('shl', equal, 6n));
  }

  /** The low element of `source` in the other format. */
  convert(from: 'ss' | 'sd', d: Slot, source: Slot): void {
    const { b, mode } = this;
    const [value] = this.lanes(source, from);
    const result = b.temp();
    if (from === 'ss') this.normal([value!], 'ss');
    b.float(result, from === 'ss' ? 'fwiden' : 'fnarrow', mode, [value!]);
    this.write(d, from === 'ss' ? 'sd' : 'ss', [result]);
  }

  /**
   * A vector converted. Of what has fewer bits behind it the elements are in the lower half, which
   * is alone read of what gets more.
   */
  convertVector(name: VectorConversion, d: Slot, source: Slot): void {
    const { b } = this;
    const [low, high] = [b.make('low64', source), b.make('high64', source)];
    const integers = (half: Slot): Slot[] => [b.make('sx32', half), b.make('sar', half, 32n)];
    const singles = (half: Slot): Slot[] => [b.make('or', half, BOX), b.make('or', b.make('shr', half, 32n), BOX)];
    const each = (operands: readonly Slot[], op: FloatName): Slot[] =>
      operands.map((operand) => {
        const result = b.temp();
        b.float(result, op, this.mode, [operand]);
        return result;
      });
    switch (name) {
      case 'cvtdq2ps':
        this.write(d, 'ps', each([...integers(low), ...integers(high)], 'fsingle_s64'));
        break;
      case 'cvtdq2pd':
        this.write(d, 'pd', each(integers(low), 'fdouble_s64'));
        break;
      case 'cvtps2pd': {
        const operands = singles(low);
        this.normal(operands, 'ps');
        this.write(d, 'pd', each(operands, 'fwiden'));
        break;
      }
      case 'cvtps2dq':
      case 'cvttps2dq': {
        const op = name === 'cvtps2dq' ? 'fnearest32_s32' : 'fzero32_s32';
        this.write(d, 'ps', each([...singles(low), ...singles(high)], op));
        break;
      }
      default: {
        const op = ({ cvtpd2ps: 'fnarrow', cvtpd2dq: 'fnearest64_s32', cvttpd2dq: 'fzero64_s32' } as const)[name];
        const [first, second] = each([low, high], op);
        b.to(d, 'wide64', b.make('or', b.make('zx32', first!), b.make('shl', second!, 32n)));
      }
    }
  }

  /**
   * Elements rounded to integers of their format, as the control byte of `roundps` has it. An
   * integer of 64 bits is between; a zero keeps the sign.
   */
  round(elements: Elements, d: Slot, source: Slot, control: number): void {
    const { b } = this;
    const way = (control & 4) !== 0 ? 'nearest' : (['nearest', 'down', 'up', 'zero'] as const)[control & 3]!;
    const isWide = isDouble(elements);
    const results = this.lanes(source, elements).map((each) => {
      const [integer, result] = [b.temp(), b.temp()];
      b.float(integer, `f${way}${isWide ? 64 : 32}_s64`, this.mode, [each]);
      b.float(result, isWide ? 'fdouble_s64' : 'fsingle_s64', this.mode, [integer]);
      return b.make('or', result, b.make('and', each, isWide ? 1n << 63n : 1n << 31n));
    });
    this.write(d, elements, results);
  }

  /** `source`: sign-extended. */
  fromInteger(to: 'ss' | 'sd', d: Slot, source: Slot): void {
    const result = this.b.temp();
    this.b.float(result, to === 'sd' ? 'fdouble_s64' : 'fsingle_s64', this.mode, [source]);
    this.write(d, to, [result]);
  }

  /** An integer of so many bytes, sign-extended; what does not fit is left to the helper. */
  toInteger(from: 'ss' | 'sd', source: Slot, bytes: 4 | 8, truncates: boolean): Slot {
    const [value] = this.lanes(source, from);
    const result = this.b.temp();
    const width = from === 'sd' ? 64 : 32;
    const name: FloatName = `f${truncates ? 'zero' : 'nearest'}${width}_s${bytes === 8 ? 64 : 32}`;
    this.b.float(result, name, this.mode, [value!]);
    return result;
  }
}
