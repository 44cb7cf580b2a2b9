/**
 * Instruction -> IR for AVX, AVX2, FMA and F16C: what `run --cpu x86-64-v3` executes beyond SSE.
 *
 *   addps   xmm0, xmm1           xmm0 := xmm0 + xmm1                bits 128 to 255 stay
 *   vaddps  xmm0, xmm2, xmm1     xmm0 := xmm2 + xmm1                bits 128 to 255 become 0
 *   vaddps  ymm0, ymm2, ymm1     each half like the one above
 *
 * So most of these are an instruction of SSE on one or two halves: its semantics run with a result
 * slot in place of their target, which begins as the first operand (`onHalves`). The target is
 * written when nothing can fault any more, for it may be a source too, and a fault of the second
 * half must leave the first alone. Instructions on scalars and those that helpers execute follow
 * the same pattern.
 *
 * Memory operands need no alignment but for the moves that are named so. A store of 32 bytes across
 * the end of a page is a helper's, which writes all of it or nothing. Memory of elements that a
 * mask leaves out is not touched. A gather that faults has done the elements before, and cleared
 * their masks.
 *
 * Source: Intel SDM volume 1, chapter 14; volume 2.
 */
import type { PureName, Slot } from '../machine/ir.js';
import { FUSED_OPERATIONS } from './avx.js';
import type { Fused } from './avx.js';
import type { X86Operand } from './decode.js';
import { ELEMENTS, FastFloat } from './float-lift.js';
import { FLOAT_OPERATIONS } from './float.js';
import { generalNumber, LOGIC_OPS, VECTOR_FIELDS, VECTOR_OPS, vectorConstant, vectorNumber } from './lifting.js';
import type { Lift, Lifting } from './lifting.js';
import type { OpcodeRow } from './opcode-map.js';
import { ARGUMENT, GPR, HIGH_VECTOR, MODE, RESULT_NUMBERS, SECOND, VECTOR, VECTORS, XMM, YMM } from './state.js';
import { VECTOR_CONVERSIONS, VECTOR_ESTIMATES, VECTOR_LATER, vectorOperation } from './vector.js';
import { gather, maskedMove } from './vex-elements.js';
import {
  clearUpper, commit,
  narrowing, direct, halfOf, halvesOf, isWide, onHalves, partsOf, single, sources,
} from './vex-halves.js'; // prettier-ignore
import {
  broadcast, broadcastHalf, duplicateWords, extractHalf, insertHalf, move, permuteByVector, permuteHalves, permuteInHalves, permuteWithin, permuteWords, permuteWordsWithin, shiftEach, shifts, widens,
} from './vex-moves.js'; // prettier-ignore

// ----------------------------------------------------------------------------------------- helpers

/** Bytes of an operand in memory: of a scalar, or for each 16 bytes of a vector. */
type SourceBytes = 4 | 8 | 16;

/** Puts a source into the slots of helpers, memory as far as it is one. */
function helperSource(x: Lifting, operand: X86Operand, bytes: SourceBytes, isScalar: boolean): void {
  const { b } = x;
  if (operand.kind !== 'memory') {
    b.to(VECTOR, 'mov128', x.vector(operand));
    if (isWide(x) && !isScalar) b.to(HIGH_VECTOR, 'mov128', x.vector(halfOf(operand, 1)));
    return;
  }
  const isHalf = bytes === 8 && isWide(x) && !isScalar;
  const place = x.place(operand);
  b.load(bytes === 4 ? 'ldv32' : bytes === 8 && !isHalf ? 'ldv64' : 'ldv128', VECTOR, place.base, place.offset);
  if (!isWide(x) || isScalar || isHalf) return;
  const upper = x.place(operand, 16n);
  b.load('ldv128', HIGH_VECTOR, upper.base, upper.offset);
}

/** The argument of the helper of a vector (`VECTOR_FIELDS`). */
function helperArgument(x: Lifting, name: string, control: number, isScalar: boolean): number {
  const { target, first } = partsOf(x);
  const number = target.kind === 'vector' ? target.number : 0;
  return (
    vectorOperation(name) |
    (number << VECTOR_FIELDS.target) |
    ((first?.number ?? number) << VECTOR_FIELDS.first) |
    (control << VECTOR_FIELDS.control) |
    (isWide(x) && !isScalar ? VECTOR_FIELDS.wide : VECTOR_FIELDS.clears)
  );
}

function controlOf({ operands }: Lifting): number {
  const last = operands.at(-1);
  return last?.kind === 'immediate' ? Number(last.value & 255n) : 0;
}

const vectorHelper =
  (name: string, bytes: SourceBytes = 16, isScalar = false): Lift =>
  (x) => {
    helperSource(x, partsOf(x).others[0]!, bytes, isScalar);
    const isElement = name === 'insertps' && partsOf(x).others[0]!.kind === 'memory';
    const control = controlOf(x) & (isElement ? 0x3f : 0xff);
    return { kind: 'helper', name: 'vector', argument: helperArgument(x, name, control, isScalar), next: x.next };
  };

const SCALAR_BYTES = { ss: 4, sd: 8 } as const;

/** Floating point: ops as of SSE, and the helper for what these leave. */
const floats =
  (name: string, emit: Lift): Lift =>
  (x) => {
    const scalar = /s[sd]$/.test(name) ? (name.slice(-2) as 'ss' | 'sd') : null;
    if (!x.slow) return onHalves(emit, { single: scalar !== null })(x);
    const slow = vectorHelper(name, scalar ? SCALAR_BYTES[scalar] : 16, scalar !== null)(x);
    if (!name.startsWith('cmp') || slow?.kind !== 'helper') return slow;
    // Of the control byte five bits count.
    return { ...slow, argument: slow.argument & ~(0xe0 << VECTOR_FIELDS.control) };
  };

/** A conversion of scalars, by the letter of its source. */
const converts = (name: 'cvtss2sd' | 'cvtsd2ss', emit: Lift): Lift => {
  const bytes = name === 'cvtss2sd' ? 4 : 8;
  return (x) => (x.slow ? vectorHelper(name, bytes, true)(x) : onHalves(emit, { single: true })(x));
};

/** Conversions of vectors: of half of the source, into half of the target, or half by half. */
const convertsVector = (name: string, emit: Lift): Lift => {
  const widensElements = /^cvt(ps2pd|dq2pd)$/.test(name);
  const slow = vectorHelper(name, widensElements ? 8 : 16);
  const fast = widensElements ? widens(emit, 8) : /^cvtt?pd/.test(name) ? narrowing(emit) : onHalves(emit);
  return (x) => (x.slow ? slow(x) : fast(x));
};

const fromInteger =
  (name: string, emit: Lift): Lift =>
  (x) => {
    if (!x.slow) return onHalves(emit, { single: true })(x);
    x.b.to(VECTOR, 'wide64', x.signed(x.operand(2), x.bytes(2)));
    return { kind: 'helper', name: 'vector', argument: helperArgument(x, name, 0, true), next: x.next };
  };

/** A fused operation on each half. */
const fused =
  ({ elements, order, kind, control }: Fused): Lift =>
  (x) => {
    const isScalar = elements.startsWith('s');
    if (x.slow) {
      const slow = vectorHelper('fused', isScalar ? SCALAR_BYTES[elements as 'ss' | 'sd'] : 16, isScalar)(x);
      if (slow?.kind !== 'helper') return slow;
      return { ...slow, argument: slow.argument | (control << VECTOR_FIELDS.control) };
    }
    const [target, first] = [vectorNumber(x, 0), vectorNumber(x, 1)];
    const { b } = x;
    for (const half of isScalar ? ([0] as const) : halvesOf(x)) {
      const source = halfOf(x.operand(2), half);
      let third = VECTOR;
      if (source.kind === 'memory') {
        const place = x.place(source);
        const load = elements === 'ss' ? 'ldv32' : elements === 'sd' ? 'ldv64' : 'ldv128';
        b.load(load, VECTOR, place.base, place.offset);
      } else third = x.vector(source);
      const slots = [VECTORS[target + 16 * half]!, VECTORS[first + 16 * half]!, third] as const;
      const d = VECTORS[RESULT_NUMBERS[half]]!;
      b.to(d, 'mov128', slots[0]);
      const [one, two, three] = order.map((which) => slots[which]) as [Slot, Slot, Slot];
      new FastFloat(b, MODE).fused(elements, d, [one, two, three], kind);
      b.reuseTemporaries();
    }
    commit(x, target, !isScalar && isWide(x));
    return undefined;
  };

// -------------------------------------------------------------------------- numbers out of vectors

/** `vmovmskps` and its kin: so many bits of each half. */
const moveMask =
  (name: PureName, lanes: number): Lift =>
  (x) => {
    const { b } = x;
    const [low, high] = sources(x, x.operand(1)).map((each) => b.make(name, each));
    const to = GPR[generalNumber(x, 0)]!;
    if (high === undefined) b.mov(to, low!);
    else b.to(to, 'or', low!, b.make('shl', high, BigInt(lanes)));
    return undefined;
  };

/** `vptest`; of top bits alone `vtestps`, `vtestpd`. ZF: target AND source, CF: its NOT. */
const tests =
  (signs: bigint): Lift =>
  (x) => {
    const { b } = x;
    const from = sources(x, x.operand(1));
    const number = vectorNumber(x, 0);
    const bitsOf = (value: Slot): Slot => b.make('or', b.make('low64', value), b.make('high64', value));
    const [both, only]: Slot[][] = [[], []];
    const mask = signs === 0n ? null : vectorConstant(x, signs, signs);
    halvesOf(x).forEach((half, i) => {
      const target = VECTORS[number + 16 * half]!;
      for (const [name, a, c, out] of [['and128', target, from[i]!, both!], ['andnot128', from[i]!, target, only!]] as const) {
        b.to(SECOND, name, a, c);
        if (mask !== null) b.to(SECOND, 'and128', SECOND, mask);
        out.push(bitsOf(SECOND));
      } // prettier-ignore
    });
    const isZero = (all: readonly Slot[]): Slot =>
      b.make(
        'seteq',
        all.reduce((sum, each) => b.make('or', sum, each)),
        0n,
      );
    const zero = isZero(both!);
    x.literal(b.make('or', b.make('shl', zero, 6n), isZero(only!)));
    return undefined;
  };

/** `vcvtps2ph`: the target may be memory. */
const toHalves: Lift = (x) => {
  const { b } = x;
  const to = x.operand(0);
  helperSource(x, x.operand(1), 16, false);
  const argument = helperArgument(x, 'vcvtps2ph', controlOf(x), false);
  if (to.kind !== 'memory') return { kind: 'helper', name: 'vector', argument, next: x.next };
  const { base, offset } = x.place(to);
  b.to(ARGUMENT, 'add', base, offset);
  return { kind: 'helper', name: 'vectortomemory', argument, next: x.next };
};

/** Upper halves, or all of the vector registers, become 0. */
const zeroes =
  (all: boolean): Lift =>
  (x) => {
    YMM.forEach((_, number) => {
      clearUpper(x, number);
      if (all) x.b.to(XMM[number]!, 'xor128', XMM[number]!, XMM[number]!);
    });
    return undefined;
  };

// ------------------------------------------------------------------------------------------- table

/** The semantics of SSE by name. */
type Legacy = (name: string) => Lift | undefined;

/** Instructions of SSE on each half, by how the control byte of the upper one is shifted. */
const ON_HALVES: Readonly<Record<string, number>> = {
  ...Object.fromEntries(
    'unpcklpd unpckhpd punpcklqdq punpckhqdq pshufb pmuludq pmuldq shufps pshufd pshufhw pshuflw palignr pslldq psrldq movsldup movshdup pblendw pblendvb blendvps blendvpd'
      .split(' ')
      .map((name) => [name, 0]),
  ),
  blendps: 4,
  blendpd: 2,
  shufpd: 2,
};

/** Those whose target is one half, or no vector. */
const SINGLE =
  'movlps movlpd movhps movhpd movlhps movhlps movss movsd movd movq pinsrb pinsrw pinsrd pextrb pextrw pextrd extractps';
/** Those whose target is never a vector, but for one. */
const SAME =
  'ucomiss ucomisd comiss comisd cvtss2si cvtsd2si cvttss2si cvttsd2si pcmpestri pcmpistri ldmxcsr stmxcsr maskmovdqu';
const SHIFTS = 'psllw pslld psllq psrlw psrld psrlq psraw psrad';
const WIDENING = { bw: 8, bd: 4, bq: 2, wd: 8, wq: 4, dq: 8 } as const;
const HELPED =
  'pmulhw pmulhuw psadbw pmulhrsw pmaddubsw phaddw phaddd phaddsw phsubw phsubd phsubsw psignb psignw psignd';

const OWN: ReadonlyMap<string, Lift> = new Map<string, Lift>([
  ...'vmovaps vmovapd vmovdqa vmovntps vmovntpd vmovntdq vmovntdqa'.split(' ').map((name) => [name, move(true)] as const),
  ...'vmovups vmovupd vmovdqu vlddqu'.split(' ').map((name) => [name, move(false)] as const),
  ['vmovddup', duplicateWords],
  ['vbroadcastss', broadcast(4)],
  ['vbroadcastsd', broadcast(8)],
  ['vpbroadcastb', broadcast(1)],
  ['vpbroadcastw', broadcast(2)],
  ['vpbroadcastd', broadcast(4)],
  ['vpbroadcastq', broadcast(8)],
  ['vbroadcastf128', broadcastHalf],
  ['vbroadcasti128', broadcastHalf],
  ['vextractf128', extractHalf],
  ['vextracti128', extractHalf],
  ['vinsertf128', insertHalf],
  ['vinserti128', insertHalf],
  ['vperm2f128', permuteHalves],
  ['vperm2i128', permuteHalves],
  ['vpermq', permuteWords],
  ['vpermpd', permuteWords],
  ['vpmovmskb', moveMask('vmask8', 16)],
  ['vmovmskps', moveMask('vmask32', 4)],
  ['vmovmskpd', moveMask('vmask64', 2)],
  ['vptest', tests(0n)],
  ['vtestps', tests(0x8000_0000_8000_0000n)],
  ['vtestpd', tests(1n << 63n)],
  ['vpabsb', direct('vabs8')],
  ['vpabsw', direct('vabs16')],
  ['vpabsd', direct('vabs32')],
  ['vzeroupper', zeroes(false)],
  ['vzeroall', zeroes(true)],
  ['vpsllvd', shiftEach('shl', 32)],
  ['vpsllvq', shiftEach('shl', 64)],
  ['vpsrlvd', shiftEach('shr', 32)],
  ['vpsrlvq', shiftEach('shr', 64)],
  ['vpsravd', shiftEach('sar', 32)],
  ['vpermd', permuteByVector],
  ['vpermps', permuteByVector],
  ['vcvtph2ps', vectorHelper('vcvtph2ps', 8)],
  ['vcvtps2ph', toHalves],
  ['vmaskmovps', maskedMove(4)],
  ['vmaskmovpd', maskedMove(8)],
  ['vpmaskmovd', maskedMove(4)],
  ['vpmaskmovq', maskedMove(8)],
  ['vpgatherdd', gather(4, 4)],
  ['vgatherdps', gather(4, 4)],
  ['vpgatherdq', gather(8, 4)],
  ['vgatherdpd', gather(8, 4)],
  ['vpgatherqd', gather(4, 8)],
  ['vgatherqps', gather(4, 8)],
  ['vpgatherqq', gather(8, 8)],
  ['vgatherqpd', gather(8, 8)],
  ...Object.entries(VECTOR_OPS).map(([name, op]) => [`v${name}`, direct(op)] as const),
  ...Object.entries(LOGIC_OPS).map(([name, op]) => [`v${name}`, direct(op, op === 'andnot128')] as const),
  ...FUSED_OPERATIONS.map((row) => [row.name, fused(row)] as const),
  ...HELPED.split(' ').map((name) => [`v${name}`, vectorHelper(name)] as const),
  ...VECTOR_ESTIMATES.map((name) => [`v${name}`, vectorHelper(name, name.endsWith('ss') ? 4 : 16, name.endsWith('ss'))] as const),
  ...VECTOR_LATER.filter((name) => !name.startsWith('round')).map((name) => {
    return [`v${name}`, name === 'insertps' ? vectorHelper(name, 4, true) : vectorHelper(name)] as const;
  }),
]); // prettier-ignore

/** Those that SSE has under another name. */
const RENAMED: Readonly<Record<string, readonly [name: string, controlShift: number]>> = {
  vpblendd: ['blendps', 4],
  vpermilps: ['pshufd', 0],
};

const FLOAT_NAMES = new Set(
  [...FLOAT_OPERATIONS, 'round'].flatMap((name) => ELEMENTS.map((elements) => name + elements)),
);
const isIn = (list: string, name: string): boolean => list.split(' ').includes(name);

/** `vpcmpestrm` and `vpcmpistrm` have xmm0 as their target. */
const masksTexts =
  (emit: Lift): Lift =>
  (x) => {
    const ended = emit(x);
    clearUpper(x, 0);
    return ended;
  };

/** An instruction by what SSE has under its name without the v. */
function likeLegacy(name: string, legacy: Legacy): Lift | null {
  const emit = legacy(({ pinsrq: 'pinsrd', pextrq: 'pextrd' } as const)[name] ?? name);
  if (!emit) return null;
  if (FLOAT_NAMES.has(name)) return floats(name, emit);
  if (name in ON_HALVES) return onHalves(emit, { controlShift: ON_HALVES[name]! });
  if (isIn(SHIFTS, name)) return shifts(emit);
  if (isIn(SINGLE, name) || name === 'pinsrq' || name === 'pextrq') return single(emit);
  if (isIn(SAME, name)) return emit;
  if (/^pcmp[ei]strm$/.test(name)) return masksTexts(emit);
  if (VECTOR_CONVERSIONS.some((each) => each === name)) return convertsVector(name, emit);
  if (name === 'cvtss2sd' || name === 'cvtsd2ss') return converts(name, emit);
  if (/^cvtsi2s[sd]$/.test(name)) return fromInteger(name, emit);
  const bytes = WIDENING[/^pmov[sz]x(..)$/.exec(name)?.[1] as keyof typeof WIDENING];
  return bytes ? widens(emit, bytes) : null;
}

/** The semantics of a row of VEX on vectors; null: it stops with its name. */
export function vexSemantics(row: OpcodeRow, legacy: Legacy): Lift | null {
  const name = row.mnemonics[1];
  const byConstant = row.operands.includes('Ib');
  // FMA4 and XOP have four registers, and names that are none of FMA.
  if (row.operands.includes('Lx') && !/^vp?blendv/.test(name)) return null;
  if (name === 'vpermilpd') return byConstant ? permuteInHalves : permuteWordsWithin;
  if (name === 'vpermilps' && !byConstant) return permuteWithin;
  const renamed = RENAMED[name];
  if (renamed) {
    const emit = legacy(renamed[0]);
    return emit ? onHalves(emit, { controlShift: renamed[1] }) : null;
  }
  return OWN.get(name) ?? (name.startsWith('v') ? likeLegacy(name.slice(1), legacy) : null);
}
