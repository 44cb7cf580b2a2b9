/**
 * Moves, broadcasts, permutations and shifts of AVX, which have other operands than those of SSE or
 * cross the halves.
 *
 * Source: Intel SDM volume 2.
 */
import { ElftraceError } from '../errors.js';
import type { Slot, Terminator } from '../machine/ir.js';
import type { MemoryOperand } from './decode.js';
import { bytesConstant, immediateOf, PROTECTION, vectorConstant, vectorNumber } from './lifting.js';
import type { Lift, Lifting } from './lifting.js';
import { ARGUMENT, HIGH_VECTOR, RESULT_NUMBERS, SECOND, SOURCE_NUMBERS, VECTOR, VECTORS, XMM, YMM } from './state.js';
import { clearUpper, commit, direct, halvesOf, isWide, onHalves, sources, vectorAt } from './vex-halves.js';

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

export const move =
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
export const broadcast =
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
export const broadcastHalf: Lift = (x) => {
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
export const extractHalf: Lift = (x) => {
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
export const insertHalf: Lift = (x) => {
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
export const permuteHalves: Lift = (x) => {
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
export const permuteWords: Lift = (x) => {
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
export const permuteByVector: Lift = (x) => {
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
export const permuteWithin: Lift = (x) => {
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
export const permuteWordsWithin: Lift = (x) => {
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
export const shiftEach =
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
export const permuteInHalves: Lift = (x) => {
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
export const duplicateWords: Lift = (x) => {
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
export const widens =
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
export const shifts =
  (emit: Lift): Lift =>
  (x) => {
    const by = x.operand(2);
    if (by.kind !== 'memory') return onHalves(emit, { source: (operand) => operand })(x);
    const place = x.place(by);
    const [low] = SOURCE_NUMBERS;
    x.b.load('ldv128', VECTOR, place.base, place.offset);
    return onHalves(emit, { source: () => vectorAt(low) })(x);
  };
