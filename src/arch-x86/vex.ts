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
import type { Helper, HelperState, Operand, PureName, Slot, Terminator } from '../machine/ir.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import { FUSED_OPERATIONS } from './avx.js';
import type { Fused } from './avx.js';
import type { MemoryOperand, VectorOperand, X86Operand } from './decode.js';
import { FLOAT_OPERATIONS } from './float.js';
import { ELEMENTS, FastFloat } from './float-lift.js';
import { lane } from './lanes.js';
import {
  bytesConstant, generalNumber, immediateOf, LOGIC_OPS, PROTECTION, UNDEFINED, vectorConstant, VECTOR_FIELDS,
  VECTOR_OPS, vectorNumber,
} from './lifting.js'; // prettier-ignore
import type { Lift, Lifting } from './lifting.js';
import type { OpcodeRow } from './opcode-map.js';
import {
  ARGUMENT, FS_BASE, GPR, GS_BASE, HIGH_VECTOR, MODE, RESULT_NUMBERS, SECOND, setWhole, SOURCE_NUMBERS, VECTOR,
  VECTORS, wholeOf, XMM, YMM,
} from './state.js'; // prettier-ignore
import { VECTOR_CONVERSIONS, VECTOR_ESTIMATES, VECTOR_LATER, vectorOperation } from './vector.js';

// ------------------------------------------------------------------------------------------ halves

type Half = 0 | 1;
const vectorAt = (number: number): VectorOperand => ({ kind: 'vector', number, bytes: 16 });
const isWide = (x: Lifting): boolean => x.instruction.vectorLength === 1;
const halvesOf = (x: Lifting): readonly Half[] => (isWide(x) ? [0, 1] : [0]);

/** The upper or lower half of an operand; what is no vector has one. */
function halfOf(operand: X86Operand, half: Half): X86Operand {
  if (half === 0) return operand;
  if (operand.kind === 'vector') return vectorAt(operand.number + 16);
  if (operand.kind === 'memory') return { ...operand, displacement: operand.displacement + 16n };
  return operand;
}

/** The operands of an instruction: target, first one where it has three, the others. */
interface Parts {
  readonly target: X86Operand;
  readonly first: VectorOperand | null;
  readonly others: readonly X86Operand[];
}

function partsOf(x: Lifting): Parts {
  const [target, ...rest] = x.operands;
  const { operands } = x.instruction.row!;
  if (!target) throw new ElftraceError('internal', 'an instruction of AVX has operands');
  const first = rest[0];
  // Shifts by a constant have their target in vvvv, and the operand that they shift behind it.
  const isFirst = operands[1]?.startsWith('H') === true || operands[0]?.startsWith('H') === true;
  if (!isFirst || first?.kind !== 'vector') return { target, first: null, others: rest };
  return { target, first, others: rest.slice(1) };
}

/** Writes a register from the result slots; the upper half becomes 0 where there is one only. */
function commit(x: Lifting, number: number, wide: boolean): void {
  const { b } = x;
  const [low, high] = RESULT_NUMBERS;
  b.to(XMM[number]!, 'mov128', VECTORS[low]!);
  if (wide) b.to(YMM[number]!, 'mov128', VECTORS[high]!);
  else clearUpper(x, number);
}

function clearUpper(x: Lifting, number: number): void {
  x.b.to(YMM[number]!, 'xor128', YMM[number]!, YMM[number]!);
}

/** What differs from the instruction of SSE. */
interface Variant {
  /** The target is a vector of 128 bits whatever VEX.L says. */
  readonly single?: boolean;
  /** The control byte of the upper half is shifted by this. */
  readonly controlShift?: number;
  /** The operand behind the first one, for a half. */
  readonly source?: (operand: X86Operand, half: Half) => X86Operand;
}

/** The semantics of SSE on each half, in place of their target a result. */
const onHalves =
  (emit: Lift, { single = false, controlShift = 0, source = halfOf }: Variant = {}): Lift =>
  (x) => {
    const { target, first, others } = partsOf(x);
    const all = x.operands;
    for (const half of single ? ([0] as const) : halvesOf(x)) {
      const result = RESULT_NUMBERS[half];
      if (first) x.b.to(VECTORS[result]!, 'mov128', VECTORS[first.number + 16 * half]!);
      const rest = others.map((each, i) => {
        if (each.kind !== 'immediate') return i === 0 ? source(each, half) : halfOf(each, half);
        return half === 0 ? each : { ...each, value: BigInt.asUintN(8, each.value) >> BigInt(controlShift) };
      });
      x.operands = [vectorAt(result), ...rest];
      const ended = emit(x);
      x.operands = all;
      if (ended) throw new ElftraceError('internal', `${x.instruction.mnemonic} is no helper's`);
      x.b.reuseTemporaries();
    }
    if (target.kind !== 'vector') throw new ElftraceError('internal', 'no vector target');
    commit(x, target.number, !single && isWide(x));
    return undefined;
  };

/** On 128 bits with a vector as the target; as SSE has it with another one. */
const single =
  (emit: Lift): Lift =>
  (x) =>
    x.operand(0).kind === 'vector' ? onHalves(emit, { single: true })(x) : emit(x);

/** The halves of an operand; memory is loaded, all of it before anything is written. */
function sources(x: Lifting, operand: X86Operand): readonly Slot[] {
  return halvesOf(x).map((half) => {
    const each = halfOf(operand, half);
    if (each.kind !== 'memory') return x.vector(each);
    const place = x.place(each);
    const slot = half === 0 ? VECTOR : HIGH_VECTOR;
    x.b.load('ldv128', slot, place.base, place.offset);
    return slot;
  });
}

/** One op for each half, of one or two operands, or exchanged ones. */
const direct =
  (name: PureName, isMirrored = false): Lift =>
  (x) => {
    const { target, first, others } = partsOf(x);
    const from = sources(x, others[0]!);
    if (target.kind !== 'vector') throw new ElftraceError('internal', 'no vector target');
    halvesOf(x).forEach((half, i) => {
      const d = VECTORS[target.number + 16 * half]!;
      if (!first) x.b.to(d, name, from[i]!);
      else {
        const a = VECTORS[first.number + 16 * half]!;
        x.b.to(d, name, isMirrored ? from[i]! : a, isMirrored ? a : from[i]!);
      }
    });
    if (!isWide(x)) clearUpper(x, target.number);
    return undefined;
  };

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

// ------------------------------------------------------------------------------------------- moves

const PAGE_BYTES = 0x1000n;

/** Stores both halves at once, or lets the helper do so across the end of a page. */
function storeBoth(x: Lifting, operand: MemoryOperand, number: number, aligned: boolean): Terminator | undefined {
  const { b } = x;
  const [low, high] = [XMM[number]!, YMM[number]!];
  const place = x.place(operand);
  const address = place.offset === 0n ? place.base : b.make('add', place.base, place.offset);
  if (aligned) x.aligned({ base: address, offset: 0n }, 32);
  else if (x.slow) {
    b.mov(ARGUMENT, address);
    b.to(VECTOR, 'mov128', low);
    b.to(HIGH_VECTOR, 'mov128', high);
    return { kind: 'helper', name: 'storeboth', argument: 0, next: x.next };
  } else b.guard(b.make('setleu', b.make('and', address, PAGE_BYTES - 1n), PAGE_BYTES - 32n));
  b.store('stv128', low, address, 0n);
  b.store('stv128', high, address, 16n);
  return undefined;
}

const move =
  (aligned: boolean): Lift =>
  (x) => {
    const { b } = x;
    if (x.slow && aligned) return PROTECTION;
    const [to, from] = [x.operand(0), x.operand(1)];
    if (to.kind === 'memory') {
      const number = vectorNumber(x, 1);
      if (isWide(x)) return storeBoth(x, to, number, aligned);
      const place = x.place(to);
      if (aligned) x.aligned(place, 16);
      b.store('stv128', XMM[number]!, place.base, place.offset);
      return undefined;
    }
    if (from.kind === 'memory' && aligned) x.aligned(x.place(from), isWide(x) ? 32 : 16);
    return direct('mov128')(x);
  };

/** `vbroadcast…` and `vpbroadcast…` of an element. */
const broadcast =
  (bytes: 1 | 2 | 4 | 8): Lift =>
  (x) => {
    const { b } = x;
    const [to, from] = [vectorNumber(x, 0), x.operand(1)];
    const factor = { 1: 0x0101_0101_0101_0101n, 2: 0x1_0001_0001_0001n, 4: 0x1_0000_0001n, 8: 1n }[bytes];
    const value =
      from.kind === 'memory' ? x.load(x.place(from), bytes) : x.zero(b.make('low64', x.vector(from)), bytes);
    const both = bytes === 8 ? value : b.make('mul', value, factor);
    b.to(XMM[to]!, 'join64', both, both);
    if (isWide(x)) b.to(YMM[to]!, 'join64', both, both);
    else clearUpper(x, to);
    return undefined;
  };

/** `vbroadcastf128`: 16 bytes of memory twice. */
const broadcastHalf: Lift = (x) => {
  const { b } = x;
  const from = x.operand(1);
  if (from.kind !== 'memory') throw new ElftraceError('internal', 'a half comes from memory');
  const to = vectorNumber(x, 0);
  const place = x.place(from);
  b.load('ldv128', XMM[to]!, place.base, place.offset);
  b.to(YMM[to]!, 'mov128', XMM[to]!);
  return undefined;
};

/** `vextractf128`. */
const extractHalf: Lift = (x) => {
  const to = x.operand(0);
  const from = VECTORS[vectorNumber(x, 1) + 16 * (immediateOf(x, 2) & 1)]!;
  if (to.kind === 'memory') {
    const place = x.place(to);
    x.b.store('stv128', from, place.base, place.offset);
    return undefined;
  }
  x.b.to(x.vector(to), 'mov128', from);
  clearUpper(x, vectorNumber(x, 0));
  return undefined;
};

/** `vinsertf128`. */
const insertHalf: Lift = (x) => {
  const { b } = x;
  const [to, first, from] = [vectorNumber(x, 0), vectorNumber(x, 1), x.operand(2)];
  const place = from.kind === 'memory' ? x.place(from) : null;
  if (place) b.load('ldv128', VECTOR, place.base, place.offset);
  else b.to(VECTOR, 'mov128', x.vector(from));
  const isUpper = (immediateOf(x, 3) & 1) === 1;
  const kept = isUpper ? XMM[first]! : YMM[first]!;
  b.to(isUpper ? XMM[to]! : YMM[to]!, 'mov128', kept);
  b.to(isUpper ? YMM[to]! : XMM[to]!, 'mov128', VECTOR);
  return undefined;
};

/** `vperm2f128`: each half is one of four, or 0. */
const permuteHalves: Lift = (x) => {
  const { b } = x;
  const [to, first, from] = [vectorNumber(x, 0), vectorNumber(x, 1), x.operand(2)];
  const [low, high] = sources(x, from);
  const four = [XMM[first]!, YMM[first]!, low!, high!];
  const control = immediateOf(x, 3);
  for (const half of [0, 1] as const) {
    const part = control >> (4 * half);
    const d = VECTORS[RESULT_NUMBERS[half]]!;
    if ((part & 8) !== 0) b.to(d, 'xor128', d, d);
    else b.to(d, 'mov128', four[part & 3]!);
  }
  commit(x, to, true);
  return undefined;
};

/** `vpermq`: each word of 64 bits is one of four. */
const permuteWords: Lift = (x) => {
  const { b } = x;
  const [low, high] = sources(x, x.operand(1));
  const control = immediateOf(x, 2);
  const words = [0, 1, 2, 3].map((i) => {
    const which = (control >> (2 * i)) & 3;
    return b.make((which & 1) === 0 ? 'low64' : 'high64', which < 2 ? low! : high!);
  });
  const to = vectorNumber(x, 0);
  b.to(XMM[to]!, 'join64', words[0]!, words[1]!);
  b.to(YMM[to]!, 'join64', words[2]!, words[3]!);
  return undefined;
};

/** Bytes of words that numbers choose: for each of a vector the places of its bytes. */
function placesOf(x: Lifting, numbers: Slot, mask: bigint): Slot {
  const { b } = x;
  b.to(SECOND, 'and128', numbers, vectorConstant(x, mask, mask));
  b.to(SECOND, 'vmul32', SECOND, vectorConstant(x, 0x0404_0404_0404_0404n, 0x0404_0404_0404_0404n));
  b.to(SECOND, 'vadd8', SECOND, vectorConstant(x, 0x0302_0100_0302_0100n, 0x0302_0100_0302_0100n));
  return SECOND;
}

/** `vpermd`: each word of 32 bits is one of eight. A place of 16 or more gives 0. */
const permuteByVector: Lift = (x) => {
  const { b } = x;
  const [to, numbers] = [vectorNumber(x, 0), vectorNumber(x, 1)];
  const [low, high] = sources(x, x.operand(2));
  for (const half of [0, 1] as const) {
    const d = VECTORS[RESULT_NUMBERS[half]]!;
    const places = placesOf(x, VECTORS[numbers + 16 * half]!, 0x0000_0007_0000_0007n);
    b.to(d, 'vswizzle', low!, places);
    b.to(places, 'vsub8', places, vectorConstant(x, 0x1010_1010_1010_1010n, 0x1010_1010_1010_1010n));
    b.to(places, 'vswizzle', high!, places);
    b.to(d, 'or128', d, places);
  }
  commit(x, to, true);
  return undefined;
};

/** `vpermilps` by a vector: each word of 32 bits is one of the four in its half. */
const permuteWithin: Lift = (x) => {
  const { b } = x;
  const [to, first] = [vectorNumber(x, 0), vectorNumber(x, 1)];
  const numbers = sources(x, x.operand(2));
  halvesOf(x).forEach((half, i) => {
    const places = placesOf(x, numbers[i]!, 0x0000_0003_0000_0003n);
    b.to(VECTORS[to + 16 * half]!, 'vswizzle', VECTORS[first + 16 * half]!, places);
  });
  if (!isWide(x)) clearUpper(x, to);
  return undefined;
};

/** `vpermilpd` by a vector: bit 1 of each number counts. */
const permuteWordsWithin: Lift = (x) => {
  const { b } = x;
  const [to, first] = [vectorNumber(x, 0), vectorNumber(x, 1)];
  const numbers = sources(x, x.operand(2));
  halvesOf(x).forEach((half, i) => {
    const from = VECTORS[first + 16 * half]!;
    const [low, high] = [b.make('low64', from), b.make('high64', from)];
    const words = (['low64', 'high64'] as const).map((name) => {
      const d = b.temp();
      b.select(d, b.make('and', b.make(name, numbers[i]!), 2n), high, low);
      return d;
    });
    b.to(VECTORS[to + 16 * half]!, 'join64', words[0]!, words[1]!);
  });
  if (!isWide(x)) clearUpper(x, to);
  return undefined;
};

/** `vpsllvd` and its kin: each lane by its own count; from the width on 0 is left, or the sign. */
const shiftEach =
  (op: 'shl' | 'shr' | 'sar', width: 32 | 64): Lift =>
  (x) => {
    const { b } = x;
    const [to, first] = [vectorNumber(x, 0), vectorNumber(x, 1)];
    const counts = sources(x, x.operand(2));
    /** One lane of so many bits, with what is above them 0. */
    const shifted = (value: Slot, by: Slot): Slot => {
      const within = b.make('setltu', by, BigInt(width));
      const d = b.temp();
      if (op === 'sar') {
        b.select(d, within, by, BigInt(width - 1));
        return b.make('zx32', b.make('sar', b.make('sx32', value), d));
      }
      const plain = b.make(op, value, by);
      b.select(d, within, width === 32 ? b.make('zx32', plain) : plain, 0n);
      return d;
    };
    const half = (value: Slot, by: Slot): Slot => {
      if (width === 64) return shifted(value, by);
      const low = shifted(b.make('zx32', value), b.make('zx32', by));
      const high = shifted(b.make('shr', value, 32n), b.make('shr', by, 32n));
      return b.make('or', low, b.make('shl', high, 32n));
    };
    halvesOf(x).forEach((which, i) => {
      const [from, by] = [VECTORS[first + 16 * which]!, counts[i]!];
      const low = half(b.make('low64', from), b.make('low64', by));
      const high = half(b.make('high64', from), b.make('high64', by));
      b.to(VECTORS[to + 16 * which]!, 'join64', low, high);
    });
    if (!isWide(x)) clearUpper(x, to);
    return undefined;
  };

/** `vpermilpd` by a constant: a bit for each word of 64 bits. */
const permuteInHalves: Lift = (x) => {
  const { b } = x;
  const from = sources(x, x.operand(1));
  const control = immediateOf(x, 2);
  const to = vectorNumber(x, 0);
  halvesOf(x).forEach((half, i) => {
    const word = (at: number): Slot => b.make(((control >> at) & 1) === 0 ? 'low64' : 'high64', from[i]!);
    const low = word(2 * half);
    b.to(VECTORS[to + 16 * half]!, 'join64', low, word(2 * half + 1));
  });
  if (!isWide(x)) clearUpper(x, to);
  return undefined;
};

/** `vmovddup`: a word of 64 bits twice in each half; of 128 bits memory has one of them. */
const duplicateWords: Lift = (x) => {
  const { b } = x;
  const [to, from] = [vectorNumber(x, 0), x.operand(1)];
  const lows = isWide(x)
    ? sources(x, from).map((each) => b.make('low64', each))
    : [from.kind === 'memory' ? x.load(x.place(from), 8) : b.make('low64', x.vector(from))];
  b.to(XMM[to]!, 'join64', lows[0]!, lows[0]!);
  if (isWide(x)) b.to(YMM[to]!, 'join64', lows[1]!, lows[1]!);
  else clearUpper(x, to);
  return undefined;
};

/** `vpmovsx…` and `vpmovzx…`: each half from so many bytes of the source. */
const widening = (emit: Lift, bytes: 2 | 4 | 8): Lift =>
  onHalves(emit, {
    source: (operand, half) => (half === 1 && operand.kind === 'memory' ? { ...operand, displacement: operand.displacement + BigInt(bytes) } : operand),
  }); // prettier-ignore

/** The same of a register: its bytes are moved down for the upper half. */
const widens =
  (emit: Lift, bytes: 2 | 4 | 8): Lift =>
  (x) => {
    const from = x.operand(1);
    if (from.kind !== 'vector' || !isWide(x)) return widening(emit, bytes)(x);
    const [, upper] = SOURCE_NUMBERS;
    const control = bytesConstant(x, (i) => (i + bytes < 16 ? i + bytes : 0xff));
    x.b.to(HIGH_VECTOR, 'vswizzle', x.vector(from), control);
    return onHalves(emit, { source: (operand, half) => (half === 1 ? vectorAt(upper) : operand) })(x);
  };

/** Shifts by a count that is in a vector of 128 bits, or constant. */
const shifts =
  (emit: Lift): Lift =>
  (x) => {
    const by = x.operand(2);
    if (by.kind !== 'memory') return onHalves(emit, { source: (operand) => operand })(x);
    const place = x.place(by);
    const [low] = SOURCE_NUMBERS;
    x.b.load('ldv128', VECTOR, place.base, place.offset);
    return onHalves(emit, { source: () => vectorAt(low) })(x);
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
    const isZero = (all: readonly Slot[]): Slot => b.make('seteq', all.reduce((sum, each) => b.make('or', sum, each)), 0n); // prettier-ignore
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

// ------------------------------------------------------------------------------ elements of memory

/** Fields of the arguments of helpers that touch elements of memory. */
const ELEMENT_FIELDS = { mask: 4, index: 8, scale: 12, wide: 1 << 14, long: 1 << 15, stores: 1 << 16, longIndex: 1 << 17, narrow: 1 << 18, segment: 19 } as const; // prettier-ignore

/** `vmaskmovps` and its kin, from or to memory. */
const maskedMove =
  (bytes: 4 | 8): Lift =>
  (x) => {
    const isStore = x.operand(0).kind === 'memory';
    const memory = x.operand(isStore ? 0 : 2);
    if (memory.kind !== 'memory') throw new ElftraceError('internal', 'a masked move has an address');
    const { base, offset } = x.place(memory);
    x.b.to(ARGUMENT, 'add', base, offset);
    const argument =
      vectorNumber(x, isStore ? 2 : 0) |
      (vectorNumber(x, 1) << ELEMENT_FIELDS.mask) |
      (isWide(x) ? ELEMENT_FIELDS.wide : 0) |
      (bytes === 8 ? ELEMENT_FIELDS.long : 0) |
      (isStore ? ELEMENT_FIELDS.stores : 0);
    return { kind: 'helper', name: 'maskedmove', argument, next: x.next };
  };

/** `vgatherdps` and its kin: elements of so many bytes, by indices of so many. */
const gather =
  (bytes: 4 | 8, indexBytes: 4 | 8): Lift =>
  (x) => {
    const { sib, rex } = x.instruction;
    const [target, mask] = [vectorNumber(x, 0), vectorNumber(x, 2)];
    const index = ((sib >> 3) & 7) | ((rex & 2) << 2);
    const memory = x.operand(1);
    if (memory.kind !== 'memory') throw new ElftraceError('internal', 'a gather has an address');
    if (target === mask || target === index || mask === index) return UNDEFINED;
    const base: Operand = x.effective({ ...memory, index: -1, scale: 0 });
    x.b.mov(ARGUMENT, base);
    const argument =
      target |
      (mask << ELEMENT_FIELDS.mask) |
      (index << ELEMENT_FIELDS.index) |
      ((sib >> 6) << ELEMENT_FIELDS.scale) |
      (isWide(x) ? ELEMENT_FIELDS.wide : 0) |
      (bytes === 8 ? ELEMENT_FIELDS.long : 0) |
      (indexBytes === 8 ? ELEMENT_FIELDS.longIndex : 0) |
      (memory.address32 ? ELEMENT_FIELDS.narrow : 0) |
      ((memory.segment === null ? 0 : memory.segment === 'fs' ? 1 : 2) << ELEMENT_FIELDS.segment);
    return { kind: 'helper', name: 'gather', argument, next: x.next };
  };

const wideOf = (state: HelperState, number: number): bigint =>
  wholeOf(state, XMM[number]!) | (wholeOf(state, YMM[number]!) << 128n);

function setWide(state: HelperState, number: number, value: bigint): void {
  setWhole(state, XMM[number]!, value);
  setWhole(state, YMM[number]!, value >> 128n);
}

const numberIn = (bytes: Uint8Array): bigint => bytes.reduceRight((sum, each) => (sum << 8n) | BigInt(each), 0n);
const bytesOf = (value: bigint, count: number): Uint8Array =>
  Uint8Array.from({ length: count }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));

/** What the helpers of AVX do; their arguments are those of the lifts above. */
export const VEX_HELPERS: Readonly<Record<string, Helper>> = {
  storeboth: (state) => {
    const at = state.get(ARGUMENT);
    const bad = state.memory.check(at, 32, 'write');
    if (bad !== null) return { kind: 'fault', address: bad, access: 'write' };
    state.memory.write(at, bytesOf(wholeOf(state, VECTOR) | (wholeOf(state, HIGH_VECTOR) << 128n), 32));
    return { kind: 'next' };
  },
  maskedmove: (state, argument) => {
    const isStore = (argument & ELEMENT_FIELDS.stores) !== 0;
    const bytes = (argument & ELEMENT_FIELDS.long) !== 0 ? 8 : 4;
    const count = ((argument & ELEMENT_FIELDS.wide) !== 0 ? 32 : 16) / bytes;
    const number = argument & 15;
    const mask = wideOf(state, (argument >> ELEMENT_FIELDS.mask) & 15);
    const chosen = Array.from({ length: count }, (_, i) => i).filter(
      (i) => ((mask >> BigInt(8 * bytes * (i + 1) - 1)) & 1n) === 1n,
    );
    const at = (i: number): Address => BigInt.asUintN(64, state.get(ARGUMENT) + BigInt(bytes * i));
    const access = isStore ? 'write' : 'read';
    for (const i of chosen) {
      const address = state.memory.check(at(i), bytes, access);
      if (address !== null) return { kind: 'fault', address, access };
    }
    const value = wideOf(state, number);
    let loaded = 0n;
    for (const i of chosen) {
      if (isStore) state.memory.write(at(i), bytesOf(lane(value, i, 8 * bytes), bytes));
      else loaded |= numberIn(state.memory.read(at(i), bytes)!) << BigInt(8 * bytes * i);
    }
    if (!isStore) setWide(state, number, loaded);
    return { kind: 'next' };
  },
  gather: (state, argument) => {
    const has = (bit: number): boolean => (argument & bit) !== 0;
    const number = (at: number): number => (argument >> at) & 15;
    const bits = has(ELEMENT_FIELDS.long) ? 64 : 32;
    const indexBits = has(ELEMENT_FIELDS.longIndex) ? 64 : 32;
    const count = (has(ELEMENT_FIELDS.wide) ? 256 : 128) / Math.max(bits, indexBits);
    const [target, mask] = [number(0), number(ELEMENT_FIELDS.mask)];
    const indices = wideOf(state, number(ELEMENT_FIELDS.index));
    const segment = [null, FS_BASE, GS_BASE][(argument >> ELEMENT_FIELDS.segment) & 3] ?? null;
    const before = segment === null ? 0n : state.get(segment);
    const scale = BigInt((argument >> ELEMENT_FIELDS.scale) & 3);
    const ones = (1n << BigInt(bits)) - 1n;
    let [value, masks] = [wideOf(state, target), wideOf(state, mask)];
    for (let i = 0; i < count; i++) {
      const place = BigInt(bits * i);
      if (((masks >> (place + BigInt(bits - 1))) & 1n) === 1n) {
        const offset = BigInt.asIntN(indexBits, lane(indices, i, indexBits)) << scale;
        const effective = BigInt.asUintN(has(ELEMENT_FIELDS.narrow) ? 32 : 64, state.get(ARGUMENT) + offset);
        const at = BigInt.asUintN(64, effective + before);
        const address = state.memory.check(at, bits / 8, 'read');
        if (address !== null) {
          setWide(state, target, value);
          setWide(state, mask, masks);
          return { kind: 'fault', address, access: 'read' };
        }
        value = (value & ~(ones << place)) | (numberIn(state.memory.read(at, bits / 8)!) << place);
      }
      masks &= ~(ones << place);
    }
    setWide(state, target, BigInt.asUintN(bits * count, value));
    setWide(state, mask, 0n);
    return { kind: 'next' };
  },
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
  ...VECTOR_CONVERSIONS.map((name) => [`v${name}`, vectorHelper(name, /^cvt(ps2pd|dq2pd)$/.test(name) ? 8 : 16)] as const),
  ...VECTOR_ESTIMATES.map((name) => [`v${name}`, vectorHelper(name, name.endsWith('ss') ? 4 : 16, name.endsWith('ss'))] as const),
  ...VECTOR_LATER.map((name) => {
    const scalar = ({ roundss: 4, roundsd: 8, insertps: 4 } as const)[name];
    return [`v${name}`, vectorHelper(name, scalar ?? 16, scalar !== undefined)] as const;
  }),
]); // prettier-ignore

/** Those that SSE has under another name. */
const RENAMED: Readonly<Record<string, readonly [name: string, controlShift: number]>> = {
  vpblendd: ['blendps', 4],
  vpermilps: ['pshufd', 0],
};

const FLOAT_NAMES = new Set(FLOAT_OPERATIONS.flatMap((name) => ELEMENTS.map((elements) => name + elements)));
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
