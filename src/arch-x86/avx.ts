/**
 * Operations of AVX, AVX2, FMA and F16C as helpers execute them, beside those that SSE has too
 * (`vector.ts`).
 *
 * Source: Intel SDM volume 2; volume 1, 14.5.2 (NaNs of fused operations).
 */
import { BINARY32, BINARY64 } from '../float/index.js';
import { ELEMENTS } from './float-lift.js';
import type { Elements } from './float-lift.js';
import type { FusedKind } from './float.js';
import { bitsOf, converted, lane, pack } from './lanes.js';
import type { VectorOperation } from './lanes.js';

/** How fused operations change signs: of elements in even places, and in odd ones. */
const FUSED: readonly (readonly [name: string, even: FusedKind, odd: FusedKind])[] = (
  [
    ['vfmadd', '++', '++'],
    ['vfmsub', '+-', '+-'],
    ['vfnmadd', '-+', '-+'],
    ['vfnmsub', '--', '--'],
    ['vfmaddsub', '+-', '++'],
    ['vfmsubadd', '++', '+-'],
  ] as const
).map(([name, even, odd]) => {
  const kind = (signs: string): FusedKind => ({ negates: signs.startsWith('-'), subtracts: signs.endsWith('-') });
  return [name, kind(even), kind(odd)] as const;
});

/** A fused operation: signs by place, which of target, second and third operand are multiplied. */
export interface Fused {
  readonly name: string;
  readonly kind: (i: number) => FusedKind;
  /** 0: the target, 1 and 2: the operands behind it; the last is added. */
  readonly order: readonly [0 | 1 | 2, 0 | 1 | 2, 0 | 1 | 2];
  readonly elements: Elements;
  /** The control byte of the helper. */
  readonly control: number;
}

const ORDERS = { 132: [0, 2, 1], 213: [1, 0, 2], 231: [1, 2, 0] } as const;

/** All 60 of them. The control is the place in this list. */
export const FUSED_OPERATIONS: readonly Fused[] = FUSED.flatMap(([stem, even, odd]) =>
  Object.entries(ORDERS).flatMap(([digits, order]) =>
    ELEMENTS.filter((elements) => elements.startsWith('p') || !/addsub|subadd/.test(stem)).map((elements) => ({
      name: `${stem}${digits}${elements}`,
      kind: (i: number): FusedKind => (i % 2 === 0 ? even : odd),
      order,
      elements,
    })),
  ),
).map((row, control) => ({ ...row, control }));

const fused: VectorOperation = (x) => {
  const { kind, order, elements } = FUSED_OPERATIONS[x.control]!;
  const of = elements.endsWith('d') ? BINARY64 : BINARY32;
  const bits = bitsOf(of);
  const operands = [x.c, x.a, x.b];
  const [first, second, third] = order.map((which) => operands[which]!);
  return pack(x.width / bits, bits, (i) => {
    if (elements.startsWith('s') && i > 0) return lane(x.c, i, bits);
    const at = (value: bigint): bigint => lane(value, i, bits);
    const result = x.sse.fused(of, kind(i), at(first!), at(second!), at(third!));
    x.flags |= result.flags;
    return result.bits;
  });
};

/** The operations by their names; that of all fused ones is `fused`. */
export const AVX_OPERATIONS: Readonly<Record<string, VectorOperation>> = {
  vcvtph2ps: (x) => converted(x, x.width / 32, 32, (i) => x.sse.fromHalf(lane(x.b, i, 16))),
  vcvtps2ph: (x) => converted(x, x.width / 32, 16, (i) => x.sse.toHalf(lane(x.b, i, 32), x.control)),
  fused,
};

/** Those of them that take 256 bits as one. */
export const AVX_WHOLE: readonly string[] = ['vcvtph2ps', 'vcvtps2ph', 'fused'];
