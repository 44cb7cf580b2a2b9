/**
 * The intermediate representation: slots, the op table, terminators, blocks, and the builder that
 * the lifters of the `arch-*` folders use. Both tiers are generated from the one op table, so an op
 * is wrong in both or in none.
 *
 * A **slot** is a guest register, a field of a condition record or a temporary; it has one type and
 * lies in the state block of its CPU. In an operand a `number` names a slot and a `bigint` is a
 * constant (taken modulo 2^64). An i64 slot of a 32-bit machine holds a zero-extended value: each
 * op that writes it keeps that so.
 *
 * A **row** says the form of an op, the types of its operands and the WebAssembly bytes that follow
 * the value of operand a, of operand b, and both. The tiers push the operands (from memory, from
 * locals, as constants) and store the result.
 *
 * A **condition record** is three consecutive slots K, A, B: kind of the comparison and its two
 * operands. Flag bits are computed only when they are asked for: a branch in the same block
 * compares A with B itself, others use `testlt`, `testgt`, `testeq`, which are generated from
 * `RECORD_KINDS`. Kind 0, "bits", holds literal flags in A, so zeroed state is valid.
 *
 * Owns no machine. The rows of floating point are in `float-ops.ts`.
 */
import { FLOAT_OPS } from './float-ops.js';
import { within } from './packed-float-ops.js';
import type { FloatFunction, FloatName, FloatRow } from './float-ops.js';
import { ElftraceError } from '../errors.js';
import type { Address, Endian } from '../units.js';
import type { X87Function } from './x87-ops.js';
import { flagCode, type FlagKind, type FlagTestName } from './status-flags.js';

export type SlotType = 'i64' | 'f64' | 'v128';
/** Index of a slot in its `SlotLayout`. */
export type Slot = number;
/** A slot (number) or a constant (bigint). */
export type Operand = number | bigint;

/** A guest register, or a part of one. */
type NamedSlot = readonly [name: string, type: SlotType];

const TYPE_BYTES = { i64: 8, f64: 8, v128: 16 } as const satisfies Record<SlotType, number>;

/** Bytes of one state block. Records of tier 0 name slots with 16 bits, which is the bound. */
const STATE_BYTES = 0x8000;
/** Temporaries of one instruction. Packed singles of x86 need 70. */
const TEMPORARIES = 96;

/**
 * The slots of a machine: guest registers and condition records in the order of declaration, then
 * the temporaries, then what is in memory only.
 */
export class SlotLayout {
  private readonly names = new Map<string, Slot>();
  private readonly types: SlotType[] = [];
  private readonly offsets: number[] = [];
  private end = 0;
  /** First temporary: they are dead at the end of an instruction. */
  readonly firstTemporary: Slot;
  /** First slot that compiled code never has in a local, since functions of ops work on it. */
  readonly firstInMemory: Slot;

  /**
   * @param vectors   so many temporaries are vectors
   * @param inMemory  guest registers that are in memory only, one behind the other
   */
  constructor(registers: readonly NamedSlot[], vectors = 0, inMemory: readonly NamedSlot[] = []) {
    this.declare(registers);
    this.firstTemporary = this.types.length;
    for (let i = 0; i < TEMPORARIES; i++) this.add('i64');
    for (let i = 0; i < vectors; i++) this.add('v128');
    this.firstInMemory = this.types.length;
    this.declare(inMemory);
  }

  private declare(slots: readonly NamedSlot[]): void {
    for (const [name, type] of slots) {
      this.names.set(name, this.types.length);
      this.add(type);
    }
  }

  private add(type: SlotType): void {
    const bytes = TYPE_BYTES[type];
    this.end = Math.ceil(this.end / bytes) * bytes;
    this.types.push(type);
    this.offsets.push(this.end);
    this.end += bytes;
    if (this.end > STATE_BYTES) throw new ElftraceError('internal', 'the state block is full', { max: STATE_BYTES });
  }

  get count(): number {
    return this.types.length;
  }

  isTemporary(slot: Slot): boolean {
    return slot >= this.firstTemporary && slot < this.firstInMemory;
  }

  isInMemory(slot: Slot): boolean {
    return slot >= this.firstInMemory;
  }

  /** Bytes in use of the state block. */
  get sizeBytes(): number {
    return this.end;
  }

  /** The slot of that name. */
  slot(name: string): Slot {
    const slot = this.names.get(name);
    if (slot === undefined) throw new ElftraceError('internal', `no slot is named ${name}`, { what: name });
    return slot;
  }

  has(name: string): boolean {
    return this.names.has(name);
  }

  type(slot: Slot): SlotType {
    return this.types[slot]!;
  }

  /** Byte offset of the slot in the state block. */
  offset(slot: Slot): number {
    return this.offsets[slot]!;
  }
}

// -------------------------------------------------------------------------------------------------
// WebAssembly opcodes of values. Source: WebAssembly Core Specification 2.0, 5.4.

export const I32 = {
  load: 0x28, load8u: 0x2d, load16u: 0x2f, store: 0x36, store8: 0x3a, store16: 0x3b,
  eqz: 0x45, eq: 0x46, ne: 0x47, lt: 0x48, ltu: 0x49, gt: 0x4a, gtu: 0x4b, le: 0x4c, leu: 0x4d, ge: 0x4e, geu: 0x4f,
  clz: 0x67, ctz: 0x68, popcnt: 0x69, add: 0x6a, sub: 0x6b, mul: 0x6c, and: 0x71, or: 0x72, xor: 0x73,
  shl: 0x74, sar: 0x75, shr: 0x76, rotl: 0x77, rotr: 0x78, wrap: 0xa7,
} as const; // prettier-ignore

export const I64 = {
  load: 0x29, load8s: 0x30, load8u: 0x31, load16s: 0x32, load16u: 0x33, load32s: 0x34, load32u: 0x35,
  store: 0x37, store8: 0x3c, store16: 0x3d, store32: 0x3e,
  eqz: 0x50, eq: 0x51, ne: 0x52, lt: 0x53, ltu: 0x54, gt: 0x55, gtu: 0x56, le: 0x57, leu: 0x58, ge: 0x59, geu: 0x5a,
  clz: 0x79, ctz: 0x7a, popcnt: 0x7b, add: 0x7c, sub: 0x7d, mul: 0x7e, divs: 0x7f, divu: 0x80, rems: 0x81, remu: 0x82,
  and: 0x83, or: 0x84, xor: 0x85, shl: 0x86, sar: 0x87, shr: 0x88, rotl: 0x89, rotr: 0x8a,
  extendS: 0xac, extendU: 0xad, extend8: 0xc2, extend16: 0xc3, extend32: 0xc4,
} as const; // prettier-ignore

export const F64 = { load: 0x2b, store: 0x39 } as const;
export const V128 = {
  load: [0xfd, 0x00], store: [0xfd, 0x0b], load32Zero: [0xfd, 0x5c], load64Zero: [0xfd, 0x5d], store32Lane: [0xfd, 0x5a], store64Lane: [0xfd, 0x5b],
} as const; // prettier-ignore
/** Vector opcodes that are used by name; all stand behind 0xfd. */
const SIMD = {
  shuffle: 0x0d, swizzle: 0x0e, splat8: 0x0f, splat64: 0x12, lane64: 0x1d, setLane64: 0x1e, popcnt8: 0x62, and: 0x4e, andnot: 0x4f, or: 0x50, xor: 0x51,
} as const; // prettier-ignore

// -------------------------------------------------------------------------------------------------
// Conditions

/** Relations of two integers, as branches and `set…` use them. */
export const CONDITIONS = ['eq', 'ne', 'lt', 'ge', 'gt', 'le', 'ltu', 'geu', 'gtu', 'leu'] as const;
export type Condition = (typeof CONDITIONS)[number];

const INVERSE = {
  eq: 'ne', ne: 'eq', lt: 'ge', ge: 'lt', gt: 'le', le: 'gt', ltu: 'geu', geu: 'ltu', gtu: 'leu', leu: 'gtu',
} as const satisfies Record<Condition, Condition>; // prettier-ignore

/** The condition that holds exactly when `condition` does not. */
export function inverse(condition: Condition): Condition {
  return INVERSE[condition];
}

const MIRRORED = {
  eq: 'eq', ne: 'ne', lt: 'gt', ge: 'le', gt: 'lt', le: 'ge', ltu: 'gtu', geu: 'leu', gtu: 'ltu', leu: 'geu',
} as const satisfies Record<Condition, Condition>; // prettier-ignore

/** The condition with its operands exchanged. */
export function mirrored(condition: Condition): Condition {
  return MIRRORED[condition];
}

/** What a condition record can be asked. */
export type RecordTest = 'lt' | 'gt' | 'eq';

interface RecordKindRow {
  /** Value of the K slot. */
  readonly code: number;
  /**
   * How `lt`, `gt`, `eq` compare A and B; null for literal bits, and for kinds that only `testnzcv`
   * reads.
   */
  readonly compare: { readonly signed: boolean; readonly width: 32 | 64 } | null;
  /**
   * Kinds of four flags (negative, zero, carry, overflow: 8, 4, 2, 1) from a subtraction (carry: no
   * borrow) or an addition of A and B. They have a fourth slot C: `adc` adds its lowest bit.
   * `conditional`: where that bit is 0, bits 1 to 4 of C are the flags.
   */
  readonly nzcv?: { readonly op: 'sub' | 'add' | 'adc'; readonly width: 32 | 64; readonly conditional: boolean };
}

/** Kinds of condition records. Families with more flags than an ordering add kinds here. */
export const RECORD_KINDS = {
  /**
   * A holds the flags themselves: 8 = less, 4 = greater, 2 = equal; 1 is the machine's own (PPC:
   * summary overflow).
   */
  bits: { code: 0, compare: null },
  /**
   * The code of a comparison is 1, one more for unsigned numbers and two more for words; generated
   * code computes with it.
   */
  cmps64: { code: 1, compare: { signed: true, width: 64 } },
  cmpu64: { code: 2, compare: { signed: false, width: 64 } },
  cmps32: { code: 3, compare: { signed: true, width: 32 } },
  cmpu32: { code: 4, compare: { signed: false, width: 32 } },
  /**
   * The code is 16 | conditional << 3 | op << 1 | (width = 32). Literal flags are of kind `bits`.
   */
  nzcvsub64: { code: 16, compare: null, nzcv: { op: 'sub', width: 64, conditional: false } },
  nzcvsub32: { code: 17, compare: null, nzcv: { op: 'sub', width: 32, conditional: false } },
  nzcvadd64: { code: 18, compare: null, nzcv: { op: 'add', width: 64, conditional: false } },
  nzcvadd32: { code: 19, compare: null, nzcv: { op: 'add', width: 32, conditional: false } },
  nzcvadc64: { code: 20, compare: null, nzcv: { op: 'adc', width: 64, conditional: false } },
  nzcvadc32: { code: 21, compare: null, nzcv: { op: 'adc', width: 32, conditional: false } },
  nzcvcsub64: { code: 24, compare: null, nzcv: { op: 'sub', width: 64, conditional: true } },
  nzcvcsub32: { code: 25, compare: null, nzcv: { op: 'sub', width: 32, conditional: true } },
  nzcvcadd64: { code: 26, compare: null, nzcv: { op: 'add', width: 64, conditional: true } },
  nzcvcadd32: { code: 27, compare: null, nzcv: { op: 'add', width: 32, conditional: true } },
} as const satisfies Record<string, RecordKindRow>;
export type RecordKind = keyof typeof RECORD_KINDS;

/** Any kind of record. */
export type AnyKind = RecordKind | FlagKind;

const PLAIN_CODES: ReadonlyMap<string, number> = new Map(
  Object.entries<RecordKindRow>(RECORD_KINDS).map(([kind, { code }]) => [kind, code]),
);

/** Value of the K slot for a kind. */
export function recordCode(kind: AnyKind): number {
  return PLAIN_CODES.get(kind) ?? flagCode(kind as FlagKind);
}

const COMPARISONS: ReadonlyMap<string, RecordKindRow['compare']> = new Map(
  Object.entries<RecordKindRow>(RECORD_KINDS).map(([kind, { compare }]) => [kind, compare]),
);

/** How a kind compares A and B; null where it holds flags, or makes them otherwise. */
export function comparisonOf(kind: AnyKind): RecordKindRow['compare'] {
  return COMPARISONS.get(kind) ?? null;
}

/** Kinds by their codes. */
const KIND_ROWS: readonly (RecordKindRow | undefined)[] = Object.values<RecordKindRow>(RECORD_KINDS).reduce<
  (RecordKindRow | undefined)[]
>((rows, row) => {
  rows[row.code] = row;
  return rows;
}, []);

/** Flag bits of the kind "bits", and of `recordBits`. */
export const RECORD_BIT = { lt: 8, gt: 4, eq: 2 } as const satisfies Record<RecordTest, number>;

/**
 * The flags of a record as bits 8, 4, 2 (and what else A holds for the kind "bits"): what
 * TypeScript asks at stops.
 */
export function recordBits(code: bigint, a: bigint, b: bigint): number {
  const kind = KIND_ROWS[Number(code)];
  if (kind === undefined) throw new ElftraceError('internal', `no record kind has code ${code}`, { value: code });
  if (kind.compare === null) return Number(a & 15n);
  const { signed, width } = kind.compare;
  const x = signed ? BigInt.asIntN(width, a) : BigInt.asUintN(width, a);
  const y = signed ? BigInt.asIntN(width, b) : BigInt.asUintN(width, b);
  return x < y ? RECORD_BIT.lt : x > y ? RECORD_BIT.gt : RECORD_BIT.eq;
}

/**
 * Flags of a record with four slots as bits 8, 4, 2, 1 for N, Z, C, V: what TypeScript asks at
 * stops.
 */
export function recordNzcv(code: bigint, a: bigint, b: bigint, c: bigint): number {
  if (code === 0n) return Number(a & 15n);
  const row = KIND_ROWS[Number(code)];
  if (row?.nzcv === undefined) {
    throw new ElftraceError('internal', `no record kind of four flags has code ${code}`, { value: code });
  }
  const { op, width, conditional } = row.nzcv;
  if (conditional && (c & 1n) === 0n) return Number((c >> 1n) & 15n);
  const x = BigInt.asUintN(width, a);
  const y = BigInt.asUintN(width, op === 'sub' ? ~b : b);
  const carry = op === 'sub' ? 1n : op === 'adc' ? c & 1n : 0n;
  const sum = x + y + carry;
  const signed = BigInt.asIntN(width, x) + BigInt.asIntN(width, y) + carry;
  const result = BigInt.asUintN(width, sum);
  return (
    (BigInt.asIntN(width, result) < 0n ? 8 : 0) |
    (result === 0n ? 4 : 0) |
    (sum >> BigInt(width) !== 0n ? 2 : 0) |
    (BigInt.asIntN(width, result) !== signed ? 1 : 0)
  );
}

// -------------------------------------------------------------------------------------------------
// The op table

/**
 * Functions put into each module that uses them, because their WebAssembly needs locals or is long.
 */
export type FunctionName =
  | 'mulhu'
  | 'mulhs'
  | 'divs'
  | 'divu'
  | 'rems'
  | 'remu'
  | 'sarlost'
  | 'testlt'
  | 'testgt'
  | 'testeq'
  | 'testcr'
  | 'testnzcv'
  | 'divwide'
  | 'crc32'
  | 'crc32c'
  | 'reverseinbytes'
  | 'pdep'
  | 'pext'
  | FlagTestName
  | FloatFunction
  | X87Function;

type Bytes = readonly number[];

/** d = f(a, b) or d = f(a): no exit, no side effect. */
export interface PureRow {
  readonly form: 'unary' | 'binary';
  readonly d: SlotType;
  readonly type: SlotType;
  /** Type of operand b where it is another one. */
  readonly second?: SlotType;
  /** Bytes before operand a where there are some, after it, after operand b, and after both. */
  readonly before?: Bytes;
  readonly a: Bytes;
  readonly b: Bytes;
  readonly both: Bytes;
  /** Called after both instead of, or rather before, the bytes in `both`. */
  readonly call?: FunctionName;
}

/** d = c != 0 ? a : b. */
export interface SelectRow {
  readonly form: 'select';
  readonly type: SlotType;
}

/**
 * Load: d from a + b. Store: c to a + b. `b` is a constant or an index slot. May leave the block.
 */
export interface AccessRow {
  readonly form: 'load' | 'store';
  readonly type: SlotType;
  readonly bytes: 1 | 2 | 4 | 8 | 16;
  readonly signed: boolean;
  readonly endian: Endian;
  /**
   * The wasm access; loads are followed by `swap`, stores preceded. `lane`: of a vector, which it
   * stores.
   */
  readonly access: Bytes;
  readonly lane?: 0;
  readonly swap: Bytes;
  /**
   * First half of a read-modify-write: a fault is one of writing, for the same instruction goes on
   * to store there.
   */
  readonly update?: true;
}

/** Writes the record at slots d, d+1, d+2: kind, a, b. With `guarded` only when c != 0. */
export interface RecordRow {
  readonly form: 'record';
  readonly guarded: boolean;
}

/**
 * May leave the block in the middle. `leavez`: when a = 0, to guest address c; only in the last
 * instruction, for the block is paid. `guard`: when a = 0, before its instruction, which is then
 * lifted alone with `LiftLimits.slow`.
 */
export interface LeaveRow {
  readonly form: 'leave';
}

/**
 * d from so many slots in a row, of which a is the first: what a condition record is asked, and
 * operations on three numbers.
 */
export interface SlotsRow {
  readonly form: 'slots';
  readonly slots: 3 | 4;
  readonly call: FunctionName;
}

/**
 * d = f(a), by a function that reads and writes slots in memory; `b` is a constant that says what
 * is asked. A negative result is none: nothing is written then, and the block is left before the
 * instruction, as `guard` does.
 */
export interface UnitRow {
  readonly form: 'unit';
  readonly call: X87Function;
}

/** Stops as an alignment trap, before the instruction, when a & b is not 0. */
export interface AlignedRow {
  readonly form: 'aligned';
}

/** Leaves the block with a trap where a & b is not zero; `b` is a constant. */
export interface CheckRow {
  readonly form: 'check';
  readonly trap: TrapKind;
}

export type OpRow =
  PureRow | SelectRow | AccessRow | RecordRow | SlotsRow | AlignedRow | CheckRow | LeaveRow | FloatRow | UnitRow;

const constant = (value: number): Bytes => {
  const out = [0x42];
  let rest = value;
  for (;;) {
    const low = rest & 0x7f;
    rest = Math.floor(rest / 128);
    if (rest === 0 && (low & 0x40) === 0) return [...out, low];
    out.push(low | 0x80);
  }
};

const binary = (both: Bytes, a: Bytes = [], b: Bytes = []): PureRow => ({
  form: 'binary', d: 'i64', type: 'i64', a, b, both,
}); // prettier-ignore
const unary = (both: Bytes): PureRow => ({ form: 'unary', d: 'i64', type: 'i64', a: [], b: [], both });
const called = (call: FunctionName): PureRow => ({ ...binary([]), call });
/** 32-bit form: both operands truncated, result zero-extended. */
const word = (opcode: number): PureRow => binary([opcode, I64.extendU], [I32.wrap], [I32.wrap]);
/** 32-bit form whose result is sign-extended. */
const signedWord = (opcode: number): PureRow => binary([opcode, I64.extendS], [I32.wrap], [I32.wrap]);
/** A comparison leaves an i32. */
const set = (opcode: number): PureRow => binary([opcode, I64.extendU]);

/**
 * A swizzle whose mask is a constant: one machine instruction, and V8 keeps the mask in a register.
 * Lanes of 0xff are 0.
 */
const swizzle = (lanes: Bytes): Bytes => [
  0xfd, 0x0c, ...lanes, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, SIMD.swizzle,
]; // prettier-ignore
const LANES32 = swizzle([3, 2, 1, 0, 0xff, 0xff, 0xff, 0xff]);
const LANES64 = swizzle([7, 6, 5, 4, 3, 2, 1, 0]);
const LANES128: Bytes = [
  0xfd, 0x0c, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0xfd, SIMD.swizzle,
]; // prettier-ignore
/**
 * Halves of vectors are doubles, whatever they stand for: processors have both in the same
 * registers, and integers in others.
 */
const DOUBLES = {
  splat: [0xfd, 0x14],
  lane: (i: 0 | 1): Bytes => [0xfd, 0x21, i],
  setLane: (i: 0 | 1): Bytes => [0xfd, 0x22, i],
} as const;
const SPLAT64 = [0xfd, SIMD.splat64];
const LOW_LANE = [...DOUBLES.lane(0), 0xbd];
/**
 * Byte order, without a local, which rotates and masks would need: of the low 16 bits by a product,
 * of more by a swizzle.
 */
const SWAP16 = [
  ...constant(0xffff), I64.and, ...constant(0x1_0001), I64.mul, ...constant(8), I64.shr, ...constant(0xffff), I64.and,
]; // prettier-ignore
const SWAP32 = [...SPLAT64, ...LANES32, ...LOW_LANE];
const SWAP64 = [...SPLAT64, ...LANES64, ...LOW_LANE];
/**
 * What follows a load, whose value is in a vector where it has 4 or 8 bytes; a load of 2 bytes
 * leaves no other bits.
 */
const SWAP_LOADED = {
  1: [],
  2: SWAP16.slice(constant(0xffff).length + 1),
  4: [...LANES32, ...LOW_LANE],
  8: [...LANES64, ...LOW_LANE],
  16: LANES128,
} as const satisfies Record<number, Bytes>;
/** What precedes a store, which stores a lane of a vector where it has 4 or 8 bytes. */
const SWAP_STORED = {
  1: [],
  2: SWAP16.slice(0, -constant(0xffff).length - 1),
  4: [...SPLAT64, ...LANES32],
  8: [...SPLAT64, ...LANES64],
  16: LANES128,
} as const satisfies Record<number, Bytes>;

const ZERO128: Bytes = [0xfd, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/** Lanes of a shuffle: the lower half of the first operand and that of the second. */
const LOW_OF_FIRST: Bytes = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
/** An i64 becomes the low half of a vector whose upper half is 0. */
const LOW_HALF: Bytes = [0xfd, SIMD.splat64, ...ZERO128, 0xfd, SIMD.shuffle, ...LOW_OF_FIRST];
const vector = (both: Bytes): PureRow => ({ form: 'unary', d: 'v128', type: 'v128', a: [], b: [], both });
/** A SIMD opcode of one or two LEB128 bytes. */
const vectors = (opcode: number): PureRow => ({
  form: 'binary', d: 'v128', type: 'v128', a: [], b: [],
  both: [0xfd, ...(opcode < 0x80 ? [opcode] : [(opcode & 0x7f) | 0x80, opcode >> 7])],
}); // prettier-ignore

const load = (bytes: AccessRow['bytes'], signed: boolean, access: Bytes, endian: Endian = 'little'): AccessRow => {
  let swap: Bytes = endian === 'big' ? SWAP_LOADED[bytes] : [];
  if (endian === 'big' && signed) swap = [...swap, bytes === 2 ? I64.extend16 : I64.extend32];
  return { form: 'load', type: 'i64', bytes, signed, endian, access, swap };
};
const store = (bytes: AccessRow['bytes'], access: Bytes, endian: Endian = 'little'): AccessRow => ({
  form: 'store', type: 'i64', bytes, signed: false, endian, access, swap: endian === 'big' ? SWAP_STORED[bytes] : [],
}); // prettier-ignore

const vectorShift = (opcode: number): PureRow => ({ ...vectors(opcode), second: 'i64', b: [I32.wrap] });
/** Bytes of a, and of b as 16 to 31. */
const shuffle = (lanes: Bytes): PureRow => ({
  form: 'binary', d: 'v128', type: 'v128', a: [], b: [], both: [0xfd, SIMD.shuffle, ...lanes],
}); // prettier-ignore
/** Lanes of `bytes` of the lower or upper halves of a and b in turn. */
const interleave = (bytes: number, upper: boolean): PureRow =>
  shuffle(
    Array.from({ length: 16 }, (_, i) => {
      const lane = Math.floor(i / (2 * bytes)) * bytes + (i % bytes) + (upper ? 8 : 0);
      return Math.floor(i / bytes) % 2 === 0 ? lane : lane + 16;
    }),
  );
const ofSlots = (slots: SlotsRow['slots'], call: FunctionName): SlotsRow => ({ form: 'slots', slots, call });

/**
 * No spreads but the last: V8 would make the rows behind one for one, 0.7 MB of garbage at every
 * start.
 */
const OP_TABLE = {
  mov: unary([]),
  select: { form: 'select', type: 'i64' },

  add: binary([I64.add]),
  sub: binary([I64.sub]),
  mul: binary([I64.mul]),
  mulhu: called('mulhu'),
  mulhs: called('mulhs'),
  /** Total: x / 0 = 0, MIN / -1 = MIN; the lifter adds its machine's rule. */
  divs: called('divs'),
  divu: called('divu'),
  /** Total: x % 0 = x, MIN % -1 = 0. */
  rems: called('rems'),
  remu: called('remu'),
  addsh1: binary([I64.add], [], [...constant(1), I64.shl]),
  addsh2: binary([I64.add], [], [...constant(2), I64.shl]),
  addsh3: binary([I64.add], [], [...constant(3), I64.shl]),

  and: binary([I64.and]),
  or: binary([I64.or]),
  xor: binary([I64.xor]),
  /** Counts are taken modulo the width. */
  shl: binary([I64.shl]),
  shr: binary([I64.shr]),
  sar: binary([I64.sar]),
  rotl: binary([I64.rotl]),
  rotr: binary([I64.rotr]),
  clz: unary([I64.clz]),
  ctz: unary([I64.ctz]),
  popcnt: unary([I64.popcnt]),
  bswap16: unary(SWAP16),
  bswap32: unary(SWAP32),
  bswap64: unary(SWAP64),
  /**
   * 1 when a is negative and loses one bits in an arithmetic shift right by b (0 to 63): the carry
   * of such shifts.
   */
  sarlost: called('sarlost'),
  /**
   * 1 when a has the highest bit of a doubleword (word) and at least one other bit of b, which has
   * that one: the same where the count is known.
   */
  signand: binary([I64.and, ...constant(1), ...constant(63), I64.shl, I64.gtu, I64.extendU]),
  signand32: binary([I64.and, ...constant(0x8000_0000), I64.gtu, I64.extendU]),
  /** Products of words, sign-extended or zero-extended. */
  mulsx32: binary([I64.mul], [I64.extend32], [I64.extend32]),
  mulzx32: binary([I64.mul], [I32.wrap, I64.extendU], [I32.wrap, I64.extendU]),

  add32: word(I32.add),
  sub32: word(I32.sub),
  mul32: word(I32.mul),
  and32: word(I32.and),
  or32: word(I32.or),
  xor32: word(I32.xor),
  shl32: word(I32.shl),
  shr32: word(I32.shr),
  sar32: word(I32.sar),
  rotl32: word(I32.rotl),
  rotr32: word(I32.rotr),
  /** Results sign-extended, as 64-bit RISC-V keeps words. */
  add32s: signedWord(I32.add),
  sub32s: signedWord(I32.sub),
  mul32s: signedWord(I32.mul),
  shl32s: signedWord(I32.shl),
  shr32s: signedWord(I32.shr),
  sar32s: signedWord(I32.sar),
  clz32: unary([I32.wrap, I32.clz, I64.extendU]),
  ctz32: unary([I32.wrap, I32.ctz, I64.extendU]),

  sx8: unary([I64.extend8]),
  sx16: unary([I64.extend16]),
  sx32: unary([I64.extend32]),
  zx8: unary([...constant(0xff), I64.and]),
  zx16: unary([...constant(0xffff), I64.and]),
  zx32: unary([I32.wrap, I64.extendU]),
  /** a with its lowest byte, its second byte, its lowest two bytes replaced by those of b. */
  ins8: binary([I64.or], [...constant(8), I64.shr, ...constant(8), I64.shl], [...constant(0xff), I64.and]),
  ins8h: binary(
    [I64.or],
    [...constant(16), I64.rotr, ...constant(8), I64.rotl, ...constant(8), I64.shr, ...constant(8), I64.shl,
      ...constant(8), I64.rotl],
    [...constant(0xff), I64.and, ...constant(8), I64.shl],
  ), // prettier-ignore
  ins16: binary([I64.or], [...constant(16), I64.shr, ...constant(16), I64.shl], [...constant(0xffff), I64.and]),

  seteq: set(I64.eq),
  setne: set(I64.ne),
  setlt: set(I64.lt),
  setge: set(I64.ge),
  setgt: set(I64.gt),
  setle: set(I64.le),
  setltu: set(I64.ltu),
  setgeu: set(I64.geu),
  setgtu: set(I64.gtu),
  setleu: set(I64.leu),
  seteq32: word(I32.eq),
  setne32: word(I32.ne),
  setlt32: word(I32.lt),
  setge32: word(I32.ge),
  setgt32: word(I32.gt),
  setle32: word(I32.le),
  setltu32: word(I32.ltu),
  setgeu32: word(I32.geu),
  setgtu32: word(I32.gtu),
  setleu32: word(I32.leu),

  ld8u: load(1, false, [I64.load8u]),
  ld8s: load(1, true, [I64.load8s]),
  ld16u: load(2, false, [I64.load16u]),
  ld16s: load(2, true, [I64.load16s]),
  ld32u: load(4, false, [I64.load32u]),
  ld32s: load(4, true, [I64.load32s]),
  ld64: load(8, false, [I64.load]),
  ld16ube: load(2, false, [I64.load16u], 'big'),
  ld16sbe: load(2, true, [I64.load16u], 'big'),
  ld32ube: load(4, false, V128.load32Zero, 'big'),
  ld32sbe: load(4, true, V128.load32Zero, 'big'),
  ld64be: load(8, false, V128.load64Zero, 'big'),
  /** Of atomic instructions that store afterwards. */
  ld32srmw: { ...load(4, true, [I64.load32s]), update: true },
  ld64rmw: { ...load(8, false, [I64.load]), update: true },
  st8: store(1, [I64.store8]),
  st16: store(2, [I64.store16]),
  st32: store(4, [I64.store32]),
  st64: store(8, [I64.store]),
  st16be: store(2, [I64.store16], 'big'),
  st32be: { ...store(4, V128.store32Lane, 'big'), lane: 0 },
  st64be: { ...store(8, V128.store64Lane, 'big'), lane: 0 },
  /**
   * Into and out of slots of other types, bits unchanged. Big-endian doubles pass through `bits`.
   */
  ldf64: { ...load(8, false, [F64.load]), type: 'f64' },
  stf64: { ...store(8, [F64.store]), type: 'f64' },
  ldv128: { ...load(16, false, V128.load), type: 'v128' },
  stv128: { ...store(16, V128.store), type: 'v128' },
  ldv128be: { ...load(16, false, V128.load, 'big'), type: 'v128' },
  stv128be: { ...store(16, V128.store, 'big'), type: 'v128' },
  /** Moves 64 bits between an i64 and an f64 slot. */
  f64bits: { form: 'unary', d: 'i64', type: 'f64', a: [], b: [], both: [0xbd] },
  bitsf64: { form: 'unary', d: 'f64', type: 'i64', a: [], b: [], both: [0xbf] },
  movf64: { form: 'unary', d: 'f64', type: 'f64', a: [], b: [], both: [] },
  /** Words as doubles, which is exact. */
  doubles32: { form: 'unary', d: 'f64', type: 'i64', a: [], b: [], both: [I32.wrap, 0xb7] },
  doubleu32: { form: 'unary', d: 'f64', type: 'i64', a: [], b: [], both: [I32.wrap, 0xb8] },

  aligned: { form: 'aligned' },
  rec: { form: 'record', guarded: false },
  recif: { form: 'record', guarded: true },
  /** Conditions of a record, 0 or 1. */
  testlt: ofSlots(3, 'testlt'),
  testgt: ofSlots(3, 'testgt'),
  testeq: ofSlots(3, 'testeq'),
  /** 8, 4 or 2 for less, greater, equal; or the literal bits. */
  testcr: ofSlots(3, 'testcr'),
  /** The four flags of arm64. */
  testnzcv: ofSlots(4, 'testnzcv'),
  /**
   * The quotient of the unsigned 128 bits in slots a (upper half) and a+1 by slot a+2; 0 where that
   * needs more than 64 bits.
   */
  divwide: ofSlots(3, 'divwide'),

  /** An indirect branch that may not land here. */
  checklanding: { form: 'check', trap: 'branch-target' },
  checkcontrol: { form: 'check', trap: 'control-protection' },
  /** An access that is not aligned, where that is a protection error. */
  checkaligned: { form: 'check', trap: 'protection' },

  /**
   * b steps (modulo 128) of the division by the polynomial of CRC-32 and CRC-32C; lowest bit of a
   * first.
   */
  crc32: called('crc32'),
  crc32c: called('crc32c'),
  /** Bit 0 of a becomes bit 63. */
  bitreverse: { ...unary(SWAP64), call: 'reverseinbytes' },

  /** Scalars of 1 to 8 bytes into the low end of a vector, the rest is zero; and back to memory. */
  ldv8: { ...load(1, false, [I64.load8u]), type: 'v128', swap: LOW_HALF },
  ldv16: { ...load(2, false, [I64.load16u]), type: 'v128', swap: LOW_HALF },
  ldv32: { ...load(4, false, [0xfd, 0x5c]), type: 'v128' },
  ldv64: { ...load(8, false, [0xfd, 0x5d]), type: 'v128' },
  stv8: { ...store(1, [I64.store8]), type: 'v128', swap: [0xfd, 0x1d, 0] },
  stv16: { ...store(2, [I64.store16]), type: 'v128', swap: [0xfd, 0x1d, 0] },
  stv32: { ...store(4, V128.store32Lane), type: 'v128', lane: 0 },
  stv64: { ...store(8, V128.store64Lane), type: 'v128', lane: 0 },

  /** Of records of six status flags (status-flags.ts). */
  flagbits: ofSlots(4, 'flagbits'),
  flago: ofSlots(4, 'flago'),
  flagb: ofSlots(4, 'flagb'),
  flage: ofSlots(4, 'flage'),
  flagbe: ofSlots(4, 'flagbe'),
  flags: ofSlots(4, 'flags'),
  flagp: ofSlots(4, 'flagp'),
  flagl: ofSlots(4, 'flagl'),
  flagle: ofSlots(4, 'flagle'),

  leavez: { form: 'leave' },
  guard: { form: 'leave' },

  /** Deposit and extract the bits of a that b marks (x86 BMI2). */
  pdep: called('pdep'),
  pext: called('pext'),

  mov128: vector([]),
  /** Ones of each byte. */
  popcnt8x16: vector([0xfd, SIMD.popcnt8]),
  and128: vectors(SIMD.and),
  or128: vectors(SIMD.or),
  xor128: vectors(SIMD.xor),
  /** a & ~b. */
  andnot128: vectors(SIMD.andnot),
  /** A half of a vector; a vector whose upper half is 0; one of two halves, the lower first. */
  low64: { ...unary(DOUBLES.lane(0)), d: 'f64', type: 'v128' },
  high64: { ...unary(DOUBLES.lane(1)), d: 'f64', type: 'v128' },
  wide64: { ...unary(DOUBLES.setLane(0)), d: 'v128', type: 'f64', before: ZERO128 },
  /** a with the lower half b; a vector of two slots, the lower first. */
  setlow64: { ...vectors(0), second: 'f64', both: DOUBLES.setLane(0) },
  pair64: { ...binary(DOUBLES.setLane(1), DOUBLES.splat), d: 'v128', type: 'f64' },
  join64: { ...binary([0xfd, SIMD.setLane64, 1], [0xfd, SIMD.splat64]), d: 'v128' },
  /**
   * Lanes of 8, 16, 32 and 64 bits: comparisons (all ones or 0), sums (`s`, `u`: saturated), and so
   * on, one SIMD op each.
   */
  veq8: vectors(0x23),
  vgt8: vectors(0x27),
  veq16: vectors(0x2d),
  vgt16: vectors(0x31),
  veq32: vectors(0x37),
  vgt32: vectors(0x3b),
  veq64: vectors(0xd6),
  vgt64: vectors(0xd9),
  vadd8: vectors(0x6e),
  vadds8: vectors(0x6f),
  vaddu8: vectors(0x70),
  vsub8: vectors(0x71),
  vsubs8: vectors(0x72),
  vsubu8: vectors(0x73),
  vmins8: vectors(0x76),
  vminu8: vectors(0x77),
  vmaxs8: vectors(0x78),
  vmaxu8: vectors(0x79),
  vavg8: vectors(0x7b),
  vadd16: vectors(0x8e),
  vadds16: vectors(0x8f),
  vaddu16: vectors(0x90),
  vsub16: vectors(0x91),
  vsubs16: vectors(0x92),
  vsubu16: vectors(0x93),
  vmul16: vectors(0x95),
  vmins16: vectors(0x96),
  vminu16: vectors(0x97),
  vmaxs16: vectors(0x98),
  vmaxu16: vectors(0x99),
  vavg16: vectors(0x9b),
  vadd32: vectors(0xae),
  vsub32: vectors(0xb1),
  vmul32: vectors(0xb5),
  vmins32: vectors(0xb6),
  vminu32: vectors(0xb7),
  vmaxs32: vectors(0xb8),
  vmaxu32: vectors(0xb9),
  vdot16: vectors(0xba),
  vadd64: vectors(0xce),
  vsub64: vectors(0xd1),
  vnarrows16: vectors(0x65),
  vnarrowu16: vectors(0x66),
  vnarrows32: vectors(0x85),
  vnarrowu32: vectors(0x86),
  /** The lanes of a that the bytes of b name; 0 where b is 16 or more. */
  vswizzle: vectors(0x0e),
  vlow8: interleave(1, false),
  vhigh8: interleave(1, true),
  vlow16: interleave(2, false),
  vhigh16: interleave(2, true),
  vlow32: interleave(4, false),
  vhigh32: interleave(4, true),
  vlow64: interleave(8, false),
  vhigh64: interleave(8, true),
  /** The upper half of a and the lower one of b; the lower half of a and the upper one of b. */
  vcross64: shuffle([8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]),
  vouter64: shuffle([0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31]),
  vabs8: vector([0xfd, 0x60]),
  vabs16: vector([0xfd, 0x80, 0x01]),
  vabs32: vector([0xfd, 0xa0, 0x01]),
  /** The lower lanes widened. */
  vsx8: vector([0xfd, 0x87, 0x01]),
  vzx8: vector([0xfd, 0x89, 0x01]),
  vsx16: vector([0xfd, 0xa7, 0x01]),
  vzx16: vector([0xfd, 0xa9, 0x01]),
  vsx32: vector([0xfd, 0xc7, 0x01]),
  vzx32: vector([0xfd, 0xc9, 0x01]),
  /** Ones in lanes of subnormal numbers; whether any bit of a vector is 1; numbers negated. */
  vsubnormal64: vector(within(64, 1n, (1n << 53n) - 1n)),
  vsubnormal32: vector(within(32, 1n, (1n << 24n) - 1n)),
  vany: { ...unary([0xfd, 0x53, I64.extendU]), type: 'v128' },
  vfneg64: vector([0xfd, 0xed, 0x01]),
  vfneg32: vector([0xfd, 0xe1, 0x01]),
  /** Top bits of the lanes as a number. */
  vmask8: { ...unary([0xfd, 0x64, I64.extendU]), type: 'v128' },
  vmask32: { ...unary([0xfd, 0xa4, 0x01, I64.extendU]), type: 'v128' },
  vmask64: { ...unary([0xfd, 0xc4, 0x01, I64.extendU]), type: 'v128' },
  /** Every lane by b (an i64) modulo the width. */
  vshl16: vectorShift(0x8b),
  vsar16: vectorShift(0x8c),
  vshr16: vectorShift(0x8d),
  vshl32: vectorShift(0xab),
  vsar32: vectorShift(0xac),
  vshr32: vectorShift(0xad),
  vshl64: vectorShift(0xcb),
  vshr64: vectorShift(0xcd),

  ...FLOAT_OPS,

  x87load: { form: 'unit', call: 'x87load' },
  x87arithmetic: { form: 'unit', call: 'x87arithmetic' },
  x87compare: { form: 'unit', call: 'x87compare' },
  x87store: { form: 'unit', call: 'x87store' },
  x87move: { form: 'unit', call: 'x87move' },
  x87unary: { form: 'unit', call: 'x87unary' },
} as const satisfies Record<string, OpRow>;

export type OpName = keyof typeof OP_TABLE;
/**
 * True for the ops on lanes of vectors (`vadd8`, `fadd64x2` …): only front ends that say so get
 * them. `name` may go on behind a colon.
 */
export function isLaneOp(name: string): boolean {
  return /^v[a-z]|x[24](:|$)/.test(name);
}
/** True for the ops of floating point: only front ends that say so get them. */
export function isFloatOp(name: string): boolean {
  return name in FLOAT_OPS;
}
/** True for the ops of x87: only front ends that say so get them. */
export const isX87Op = (name: string): boolean => name.startsWith('x87');
/** The op table. */
export const OPS: Readonly<Record<OpName, OpRow>> = OP_TABLE;
export const OP_NAMES = Object.keys(OP_TABLE).filter((name): name is OpName => name in OP_TABLE);

type NamesOf<Form> = {
  [Name in OpName]: (typeof OP_TABLE)[Name] extends { readonly form: Form } ? Name : never;
}[OpName];
export type LoadName = Extract<OpName, `ld${string}`>;
export type StoreName = Extract<OpName, `st${string}`>;
export type SlotsName = NamesOf<'slots'>;
export type CheckName = NamesOf<'check'>;
export type UnitName = NamesOf<'unit'>;
/** Ops that compute a slot from two operands. */
export type PureName = Exclude<
  OpName,
  | LoadName
  | StoreName
  | SlotsName
  | CheckName
  | UnitName
  | FloatName
  | 'rec'
  | 'recif'
  | 'select'
  | 'aligned'
  | 'leavez'
  | 'guard'
>;

// -------------------------------------------------------------------------------------------------
// Blocks

/**
 * One op. The use of the fields depends on the form of the row: pure: d = op(a, b) (`b` is 0n for
 * unary); select: d = c ? a : b; load: d = [a + b]; store: [a + b] = c; record: d.. = kind, a, b;
 * slots: d from the slots at a; aligned: stop unless a & b = 0; check: trap of the row unless a & b
 * = 0; leave: see there; float: d = op(a, b, c), all of them slots; unit: d = op(a), b says what.
 */
export interface Op {
  readonly op: OpName;
  /** Its row in the table. */
  readonly row: OpRow;
  readonly d: Slot;
  readonly a: Operand;
  readonly b: Operand;
  readonly c: Operand;
  readonly kind: AnyKind;
  /** Index in `Block.instructions` of the instruction it belongs to. */
  readonly at: number;
  /** The mode slot of a float op; 0 in others. */
  readonly mode: Slot;
}

/** Why a guest raised an exception on purpose or did what the machine forbids. */
export type TrapKind =
  | 'breakpoint'
  | 'trap-instruction'
  | 'divide'
  | 'privileged'
  | 'misaligned-pc'
  | 'alignment'
  /** An instruction that is undefined on purpose (x86 `ud2`). */
  | 'undefined-instruction'
  /** x86 #GP: privileged instructions in user mode, misaligned vector accesses. */
  | 'protection'
  /**
   * The manual names the instruction and forbids this coding of it (reserved values, contradicting
   * fields).
   */
  | 'invalid-form'
  /** The architecture says that the word is undefined here, and stays so. */
  | 'undefined'
  /** An indirect branch into guarded memory that did not land on a landing pad. */
  | 'branch-target'
  /** The same on machines that call it a violation of control flow. */
  | 'control-protection';

/**
 * How a block ends. `pc`, `next` and `ret` are guest addresses; `s` is the slot that holds one, of
 * which the bits in `mask` count. `ret` names the address to which the callee returns: it is
 * information for the compiler of regions, the link register or stack is written by ordinary ops.
 */
export type Terminator =
  | { readonly kind: 'jmp'; readonly pc: Address }
  | {
      readonly kind: 'br';
      readonly condition: Condition;
      readonly width: 32 | 64;
      readonly a: Slot;
      readonly b: Operand;
      readonly pc: Address;
      readonly next: Address;
    }
  | { readonly kind: 'call'; readonly pc: Address; readonly ret: Address }
  | { readonly kind: 'calli'; readonly s: Slot; readonly mask: bigint; readonly ret: Address }
  | { readonly kind: 'ret'; readonly s: Slot; readonly mask: bigint }
  | { readonly kind: 'ind'; readonly s: Slot; readonly mask: bigint }
  /** TypeScript acts on the state: `name` is a key of the lifter's `helpers` or `syscall`. */
  | { readonly kind: 'helper'; readonly name: string; readonly argument: number; readonly next: Address }
  | { readonly kind: 'trap'; readonly trap: TrapKind }
  /**
   * The instruction drops what the CPU has fetched ahead. Only where `LiftLimits.synchronises` asks
   * for it.
   */
  | { readonly kind: 'sync'; readonly next: Address }
  /**
   * The instruction is not known (mnemonic null) or known and without semantics. It does not count
   * as executed.
   */
  | { readonly kind: 'unknown'; readonly mnemonic: string | null; readonly sizeBytes: number }
  /** The instruction reaches past the executable bytes. */
  | { readonly kind: 'fetch' };

/**
 * Straight-line guest code. `ops` are in program order; the terminator belongs to the last
 * instruction or to none.
 */
export interface Block {
  readonly address: Address;
  /** Addresses of the instructions in order; their number is what the block costs. */
  readonly instructions: readonly Address[];
  /** Address after the last byte lifted. */
  readonly end: Address;
  readonly ops: readonly Op[];
  readonly terminator: Terminator;
}

/** Where a lifter must stop at the latest. */
export interface LiftLimits {
  readonly maxInstructions: number;
  /**
   * True where a block must begin (hooks): the lifter ends the block in front of such an address,
   * except its first.
   */
  readonly startsAt: (address: Address) => boolean;
  /**
   * True: instructions that make the CPU fetch anew (`isync`, `fence.i`, `isb`) end the block with
   * `sync`. Elsewhere they are ordinary instructions without an effect, for nothing is stale then.
   */
  readonly synchronises?: boolean;
  /**
   * True: one instruction whose `guard` failed; it must be lifted in a way that serves every
   * operand (a helper).
   */
  readonly slow?: boolean;
  /**
   * True at addresses in guarded memory, which indirect branches may enter at landing pads only
   * (`MapRequest.guarded`). Absent while no memory is guarded: then nothing needs to be kept for
   * it.
   */
  readonly guarded?: (address: Address) => boolean;
}

/** Guest memory as helpers see it: string moves whose length is known only when they run. */
export interface HelperMemory {
  /** The first address of the range that may not be accessed so, or null. */
  check(address: Address, size: number, access: 'read' | 'write'): Address | null;
  /** A copy of mapped bytes; null when one is not mapped. */
  read(address: Address, size: number): Uint8Array | null;
  /** Writes mapped bytes; false, and nothing is written, when one is not mapped. */
  write(address: Address, bytes: Uint8Array): boolean;
}

/** The state block of a CPU as helpers and register views see it. */
export interface HelperState {
  /** 64 bits of the slot; `half` 1 is the upper half of a vector. */
  get(slot: Slot, half?: 0 | 1): bigint;
  set(slot: Slot, value: bigint, half?: 0 | 1): void;
  /** Address of the instruction that called the helper. */
  readonly pc: Address;
  /** Instructions that the CPU has completed. */
  readonly instructions: number;
  /** Virtual time in units of 1 / TIME_HZ seconds (`Machine.time`): the same for all CPUs. */
  readonly time: bigint;
  readonly memory: HelperMemory;
}

/**
 * What a helper decided: go on at `next` of the terminator, go elsewhere, or stop. It has changed
 * nothing before a stop.
 */
export type HelperResult =
  | { readonly kind: 'next' }
  | { readonly kind: 'goto'; readonly pc: Address }
  | { readonly kind: 'trap'; readonly trap: TrapKind }
  /** An access that `HelperMemory.check` refused. */
  | { readonly kind: 'fault'; readonly address: Address; readonly access: 'read' | 'write' };

export type Helper = (state: HelperState, argument: number) => HelperResult;

/**
 * A register as people name it. Composite registers (CR, XER, flags) are put together from slots.
 */
export interface RegisterView {
  readonly name: string;
  readonly widthBits: 32 | 64 | 128;
  /**
   * The words of 64 bits, low first, that are the register and nothing else, each with its slot and
   * half; of a register of 32 bits the upper half of the word is zero. Absent where the register is
   * put together, or where writing it changes more; it is then read from words that no register
   * with parts has.
   */
  readonly parts?: readonly (readonly [slot: Slot, half: 0 | 1])[];
  read(state: HelperState): bigint;
  write(state: HelperState, value: bigint): void;
}

/** One machine's front end: everything the emulator must know about an instruction set. */
export interface Lifter {
  readonly addressBits: 32 | 64;
  readonly codeAlignBytes: 1 | 2 | 4;
  /** The front end uses ops on lanes of vectors (`isLaneOp`). Default: no. */
  readonly lanes?: boolean;
  /** The front end uses ops of floating point (`isFloatOp`). Default: no. */
  readonly floats?: boolean;
  /** The front end uses ops of x87 (`isX87Op`). Default: no. */
  readonly x87?: boolean;
  /** The front end keeps comparisons in condition records. Default: yes. */
  readonly conditionRecords?: boolean;
  readonly endian: Endian;
  readonly slots: SlotLayout;
  readonly registers: readonly RegisterView[];
  readonly helpers: Readonly<Record<string, Helper>>;
  /**
   * The register in which calls keep the stack, and how many bytes a return takes off it: what
   * compiled code hands from function to function in registers of the host, since each call waits
   * for the last one's. Any other slot of 64 bits costs time alone. Default: the first slot.
   */
  readonly stackPointer?: { readonly slot: Slot; readonly popped: bigint };
  /**
   * Where load-and-reserve keeps its address, if the machine has such instructions. The ordinary
   * ops of the lifter set it, and set it to `none` when the CPU gives it up; the machine does so
   * when another CPU stores to the granule.
   */
  readonly reservation?: {
    readonly address: Slot;
    readonly none: bigint;
    /** Reservations are lost by stores to the aligned range of this size; a power of two. */
    readonly granuleBytes: number;
  };
  /**
   * How fetch sees stores, in machines that model it (`fetch.ts`). `ownStores`: a CPU executes what
   * it has stored itself from its next instruction on. `synchronising`: the helpers that make the
   * CPU fetch anew. Default: no, and system calls.
   */
  readonly fetch?: { readonly ownStores: boolean; readonly synchronising: ReadonlySet<string> };
  /** What the system call instruction itself does to registers when the call is done. */
  readonly afterSyscall?: (state: HelperState, next: Address) => void;
  /**
   * Lifts the instructions from `code[0]`, which lies at `address`, to the end of the block.
   * @param code  executable bytes, at least one
   */
  lift(code: Uint8Array, address: Address, limits: LiftLimits): Block;
}

/** The view of a register that is one slot. */
export function slotRegister(name: string, slot: Slot, widthBits: 32 | 64): RegisterView {
  return {
    name,
    widthBits,
    parts: [[slot, 0]],
    read: (state) => state.get(slot),
    write: (state, value) => {
      state.set(slot, BigInt.asUintN(widthBits, value));
    },
  };
}

/** The view of a register of 128 bits that is two halves of slots. */
export function vectorRegister(name: string, low: Slot, high: Slot, half: 0 | 1 = 1): RegisterView {
  return {
    name,
    widthBits: 128,
    parts: [
      [low, 0],
      [high, half],
    ],
    read: (state) => state.get(low) | (state.get(high, half) << 64n),
    write: (state, value) => {
      state.set(low, BigInt.asUintN(64, value));
      state.set(high, BigInt.asUintN(64, value >> 64n), half);
    },
  };
}

/** One to three slots of a floating point op. */
type FloatSlots = readonly [a: Slot, b?: Slot | undefined, c?: Slot | undefined];

/**
 * Collects the ops of a block. A lifter calls `begin` before each instruction, so that ops carry
 * the index of theirs, and `finish` once. Temporaries are numbered anew at each instruction.
 */
export class BlockBuilder {
  private readonly ops: Op[] = [];
  private readonly instructions: Address[] = [];
  private temporaries = 0;
  private vectors = 0;
  /** Ops in front of the instruction that was begun last. */
  private opsBefore = 0;

  constructor(
    readonly slots: SlotLayout,
    readonly address: Address,
  ) {}

  get count(): number {
    return this.instructions.length;
  }

  /** Ops so far. */
  get size(): number {
    return this.ops.length;
  }

  begin(address: Address): void {
    this.instructions.push(address);
    this.temporaries = 0;
    this.vectors = 0;
    this.opsBefore = this.ops.length;
  }

  /**
   * Takes back a `begin` whose instruction turned out not to be liftable, with what stands for it
   * already: a check of how it was reached.
   */
  cancel(): void {
    this.instructions.pop();
    this.ops.length = this.opsBefore;
  }

  temp(): Slot {
    if (this.temporaries === TEMPORARIES)
      throw new ElftraceError('internal', 'an instruction needs too many temporaries');
    return this.slots.firstTemporary + this.temporaries++;
  }

  /** The same of those that are vectors. */
  vectorTemp(): Slot {
    const slot = this.slots.firstTemporary + TEMPORARIES + this.vectors++;
    if (slot >= this.slots.firstInMemory)
      throw new ElftraceError('internal', 'an instruction needs too many temporaries that are vectors');
    return slot;
  }

  /** The temporaries of the instruction so far are not needed any more. */
  reuseTemporaries(): void {
    this.temporaries = 0;
  }

  private push(op: OpName, d: Slot, a: Operand, b: Operand, c: Operand, kind: AnyKind = 'bits', mode = 0): void {
    this.ops.push({ op, row: OPS[op], d, a, b, c, kind, at: this.instructions.length - 1, mode });
  }

  /** A pure op into slot `d`. */
  to(d: Slot, op: PureName, a: Operand, b: Operand = 0n): Slot {
    this.push(op, d, a, b, 0n);
    return d;
  }

  /** A pure op into a new temporary. */
  make(op: PureName, a: Operand, b: Operand = 0n): Slot {
    return this.to(this.temp(), op, a, b);
  }

  mov(d: Slot, a: Operand): void {
    if (d !== a) this.push('mov', d, a, 0n, 0n);
  }

  select(d: Slot, c: Operand, a: Operand, b: Operand): void {
    this.push('select', d, a, b, c);
  }

  /**
   * Demands that no bit of `mask` is set in an address; comes before the instruction's accesses and
   * other writes.
   */
  aligned(address: Operand, mask: bigint): void {
    this.push('aligned', 0, address, mask, 0n);
  }

  load(op: LoadName, d: Slot, base: Operand, displacement: Operand): void {
    this.push(op, d, base, displacement, 0n);
  }

  store(op: StoreName, value: Operand, base: Operand, displacement: Operand): void {
    this.push(op, 0, base, displacement, value);
  }

  /** Writes the condition record whose K slot is `d`. */
  record(d: Slot, kind: AnyKind, a: Operand, b: Operand): void {
    this.push('rec', d, a, b, 0n, kind);
  }

  /** Writes the record only when `condition` is not 0. */
  recordIf(condition: Operand, d: Slot, kind: AnyKind, a: Operand, b: Operand): void {
    this.push('recif', d, a, b, condition, kind);
  }

  /** Goes to `target` when `a` is 0; only in the last instruction of a block. */
  leaveIfZero(a: Slot, target: Address): void {
    this.push('leavez', 0, a, 0n, target);
  }

  /**
   * Begins the instruction anew in the slow way when `a` is 0. Before the other effects of the
   * instruction.
   */
  guard(a: Slot): void {
    this.push('guard', 0, a, 0n, 0n);
  }

  /** Asks the record whose K slot is `record`, or takes what other slots from there on hold. */
  test(op: SlotsName, record: Slot): Slot {
    const d = this.temp();
    this.push(op, d, record, 0n, 0n);
    return d;
  }

  /**
   * Quotient of unsigned 128 bits by 64; 0 where it does not fit. Temporaries of an instruction
   * follow each other.
   */
  divideWide(high: Operand, low: Operand, divisor: Operand): Slot {
    const first = this.make('mov', high);
    this.make('mov', low);
    this.make('mov', divisor);
    return this.test('divwide', first);
  }

  /**
   * A floating point op on one to three slots. Before the other effects of the instruction, for it
   * may begin anew in the slow way.
   * @param mode  the slot with one of `FLOAT_MODE`
   */
  float(d: Slot, op: FloatName, mode: Slot, [a, b, c]: FloatSlots): void {
    this.push(op, d, a, b ?? 0n, c ?? 0n, 'bits', mode);
  }

  /**
   * An op on state in memory. Before the other effects of the instruction, as `float`.
   * @param asked  what; see `x87-ops.ts`
   */
  unit(op: UnitName, value: Operand, asked: bigint): Slot {
    const d = this.temp();
    this.push(op, d, value, asked, 0n);
    return d;
  }

  /** Leaves with the trap of `op` where `value` has a bit of `mask`. */
  check(op: CheckName, value: Slot, mask: bigint): void {
    this.push(op, 0, value, mask, 0n);
  }

  finish(end: Address, terminator: Terminator): Block {
    return { address: this.address, instructions: this.instructions, end, ops: this.ops, terminator };
  }
}
