/**
 * Instruction -> IR for PowerPC: 64-bit little-endian, 64-bit big-endian and 32-bit, from one table
 * of semantics. The machine is in user mode. Decimal floating point, and vectors other than those
 * of `vectors.ts` and `float-rows.ts`, stop with their name.
 *
 * What differs from most machines:
 *
 * - In 32-bit mode registers are 32 bits (slots hold zero-extended values); in 64-bit mode `add.`
 *   and the like compare all 64 bits, `cmpw` and the rotates by word the low 32.
 * - Condition register: eight fields of four bits (less, greater, equal, summary overflow). A field
 *   is a condition record (three slots) that the comparison writes; a branch in the same block
 *   compares the operands kept in the record, so the comparison itself is never computed there.
 *   Fields are read as bits only by `mfcr`, `cr…`, `isel` and branches in other blocks.
 * - The fourth bit of a field is a copy of XER.SO at the time of the comparison. SO changes only in
 *   `…o` forms, `mtxer` and `mcrxr`, which compilers never emit. So a record does not keep it: the
 *   bit is read from the SO slot, and code that changes SO first turns all records into literal
 *   bits (kind "bits", where bit 0 of A is the copy). These instructions are helpers.
 * - XER.CA is a slot of its own, 0 or 1. CA32 and OV32 (POWER9) exist on the 64-bit processors
 *   only: CA32 is kept as `a ^ b ^ sum`, whose bit 32 is the carry into the upper word, and is
 *   taken out where it is read.
 * - `lwarx`/`stwcx.` keep address and value of the reservation and compare both: a store by another
 *   CPU that restores the value is not seen. Every instruction is atomic here. An address that is
 *   not aligned to the operand is an alignment trap, which Linux answers with SIGBUS. `lq` and
 *   `stq` need no alignment: Linux completes them.
 * - Codings that the manual names invalid and a processor may refuse (`addex` with a reserved CY,
 *   `bcctr` that counts down) trap as `invalid-form`; Linux sends SIGILL.
 * - Results that the manual calls undefined: division by zero gives 0, the upper half of word
 *   products and quotients is 0.
 * - Multiple and string moves in little-endian mode, and prefixed instructions across a 64-byte
 *   boundary, raise the alignment interrupt: a trap.
 * - `darn` repeats: its numbers come from the count of completed instructions.
 *
 * Accesses that may fault come before the other effects of their instruction (update forms write
 * the base last, `lmw` loads into temporaries first).
 *
 * Source: Power ISA 3.1B, books I and II.
 */
import {
  BlockBuilder,
  inverse,
  recordBits,
  RECORD_KINDS,
  SlotLayout,
  slotRegister,
  vectorRegister,
} from '../machine/ir.js';
import type {
  Block,
  Condition,
  Helper,
  HelperState,
  Lifter,
  LiftLimits,
  LoadName,
  Operand,
  RecordKind,
  RegisterView,
  Slot,
  StoreName,
  Terminator,
} from '../machine/ir.js';
import { ByteView } from '../bytes.js';
import { floatSemantics } from './float-lift.js';
import { floatHelpers, FloatState } from './float-state.js';
import type { FloatSlots } from './float-state.js';
import { power9Semantics } from './power9.js';
import { power9Helpers } from './power9-memory.js';
import { readVscr, vectorHelper, vectorSemantics, writeVscr } from './vectors.js';
import { ElftraceError } from '../errors.js';
import { lazily, WordMemo } from '../isa/memo.js';
import type { Decoded, Operands } from '../isa/table.js';
import type { Address, Endian } from '../units.js';
import { decodePrefixed, isPrefix } from './isa.js';
import type { PpcMnemonic } from './isa.js';

// ------------------------------------------------------------------------------------------- slots

const numbered = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

/** Slots of both sizes. A field of CR is the record at `cr<n>k`. */
/** Of one instruction: shifts of bytes by bytes need 50. */
const VECTOR_TEMPORARIES = 64;
const SLOTS = new SlotLayout(
  [
    ...numbered('r', 32).map((name) => [name, 'i64'] as const),
    ...[
      'lr',
      'ctr',
      'ca',
      'so',
      'ov',
      'xerlow',
      'tar',
      'vrsave',
      'resaddress',
      'resvalue',
      'reshigh',
      'ca32',
      'ov32',
      'dscr',
      'ppr',
      'vscr',
      'fpscr',
      'float mode',
      'last float',
      'last a',
      'last b',
      'last c',
    ].map((name) => [name, 'i64'] as const),
    ...numbered('cr', 8).flatMap((name) => (['k', 'a', 'b'] as const).map((part) => [name + part, 'i64'] as const)),
    ...numbered('f', 32).map((name) => [name, 'f64'] as const),
    // The lower doublewords of the VSR that these are in, and VR.
    ...numbered('vsl', 32).map((name) => [name, 'i64'] as const),
    ...numbered('v', 32).map((name) => [name, 'v128'] as const),
  ],
  VECTOR_TEMPORARIES,
);
const GPR = numbered('r', 32).map((name) => SLOTS.slot(name));
const LR = SLOTS.slot('lr');
const CTR = SLOTS.slot('ctr');
const CA = SLOTS.slot('ca');
const SO = SLOTS.slot('so');
const OV = SLOTS.slot('ov');
const XER_LOW = SLOTS.slot('xerlow');
const TAR = SLOTS.slot('tar');
const VRSAVE = SLOTS.slot('vrsave');
const RESERVED_ADDRESS = SLOTS.slot('resaddress');
const RESERVED_VALUE = SLOTS.slot('resvalue');
/** Upper doubleword of a reserved quadword. */
const RESERVED_HIGH = SLOTS.slot('reshigh');
/**
 * Bit 32 is the carry out of the low word; the other bits mean nothing. Not written on 32-bit
 * processors.
 */
const CA32 = SLOTS.slot('ca32');
const OV32 = SLOTS.slot('ov32');
const DSCR = SLOTS.slot('dscr');
const PPR = SLOTS.slot('ppr');
const VSCR = SLOTS.slot('vscr');
const FLOAT_SLOTS: FloatSlots = {
  floats: numbered('f', 32).map((name) => SLOTS.slot(name)),
  lower: numbered('vsl', 32).map((name) => SLOTS.slot(name)),
  vectors: numbered('v', 32).map((name) => SLOTS.slot(name)),
  vscr: VSCR,
  fpscr: SLOTS.slot('fpscr'),
  mode: SLOTS.slot('float mode'),
  last: SLOTS.slot('last float'),
  operands: [SLOTS.slot('last a'), SLOTS.slot('last b'), SLOTS.slot('last c')],
};
const CR = numbered('cr', 8).map((name) => SLOTS.slot(`${name}k`));
/** No access can have this address: `lwarx` of 2^64 - 1 would be misaligned. */
const NO_RESERVATION = 0xffff_ffff_ffff_ffffn;

// ------------------------------------------------------------------------- registers as people see

/** The four bits of a CR field. */
function fieldValue(state: HelperState, field: number): number {
  const k = CR[field]!;
  const kind = state.get(k);
  const bits = recordBits(kind, state.get(k + 1), state.get(k + 2));
  return kind === BigInt(RECORD_KINDS.bits.code) ? bits : bits | Number(state.get(SO) & 1n);
}

function setField(state: HelperState, field: number, bits: number): void {
  const k = CR[field]!;
  state.set(k, BigInt(RECORD_KINDS.bits.code));
  state.set(k + 1, BigInt(bits));
  state.set(k + 2, 0n);
}

/** Every change of SO goes through here. */
function setSummaryOverflow(state: HelperState, value: bigint): void {
  if (state.get(SO) === value) return;
  for (let field = 0; field < 8; field++) setField(state, field, fieldValue(state, field));
  state.set(SO, value);
}

function readCr(state: HelperState): bigint {
  let value = 0n;
  for (let field = 0; field < 8; field++) value = (value << 4n) | BigInt(fieldValue(state, field));
  return value;
}

function writeCr(state: HelperState, value: bigint): void {
  for (let field = 0; field < 8; field++) setField(state, field, Number((value >> BigInt(28 - 4 * field)) & 15n));
}

/** OV32 is bit 19 of XER, CA32 bit 18; their slots are 0 on 32-bit processors. */
function readXer(state: HelperState): bigint {
  const words = (state.get(OV32) << 19n) | ((state.get(CA32) >> 14n) & 0x4_0000n);
  return (state.get(SO) << 31n) | (state.get(OV) << 30n) | (state.get(CA) << 29n) | words | state.get(XER_LOW);
}

function writeXer(state: HelperState, value: bigint, is64: boolean): void {
  setSummaryOverflow(state, (value >> 31n) & 1n);
  state.set(OV, (value >> 30n) & 1n);
  state.set(CA, (value >> 29n) & 1n);
  state.set(OV32, is64 ? (value >> 19n) & 1n : 0n);
  state.set(CA32, is64 ? ((value >> 18n) & 1n) << 32n : 0n);
  state.set(XER_LOW, value & 0x7fn);
}

/** `v0` to `v31`, and all of the VSR whose upper halves are floating point registers. */
function vectorViews(is64: boolean, endian: Endian): RegisterView[] {
  return [
    ...numbered('v', 32).map((name) => vectorRegister(name, SLOTS.slot(name), SLOTS.slot(name))),
    ...(is64 ? numbered('vs', 32) : []).map((name, i) =>
      vectorRegister(name, SLOTS.slot(`vsl${i}`), SLOTS.slot(`f${i}`), 0),
    ),
    {
      name: 'vscr',
      widthBits: 32,
      read: (state) => readVscr(state, VSCR, endian),
      write: (state, value): void => {
        writeVscr(state, VSCR, endian, value);
      },
    },
  ];
}

function registerViews(is64: boolean, endian: Endian, floats: FloatState): RegisterView[] {
  const width = is64 ? 64 : 32;
  return [
    ...GPR.map((slot, i) => slotRegister(`r${i}`, slot, width)),
    slotRegister('lr', LR, width),
    slotRegister('ctr', CTR, width),
    slotRegister('vrsave', VRSAVE, 32),
    ...(is64 ? [slotRegister('tar', TAR, width)] : []),
    ...numbered('f', 32).map((name) => slotRegister(name, SLOTS.slot(name), 64)),
    ...vectorViews(is64, endian),
    {
      name: 'fpscr',
      widthBits: is64 ? 64 : 32,
      read: (state) => floats.readAll(state),
      write: (state, value): void => {
        floats.writeAll(state, value);
      },
    },
    { name: 'cr', widthBits: 32, read: readCr, write: writeCr },
    {
      name: 'xer',
      widthBits: 32,
      read: readXer,
      write: (state, value): void => {
        writeXer(state, value, is64);
      },
    },
  ];
}

// ----------------------------------------------------------------------------------------- lifting

interface Width {
  readonly is64: boolean;
  readonly endian: Endian;
}

/** Operation names that have a 32-bit form. */
type Sized = 'add' | 'sub' | 'mul';

/** An instruction being lifted. */
class Lifting {
  /** Records written in this block: a branch may use their operands directly. */
  private readonly known = new Map<number, { readonly kind: RecordKind; readonly b: Operand }>();
  pc: Address = 0n;
  /** `isync` must end the block: see `LiftLimits.synchronises`. */
  synchronises = false;

  constructor(
    readonly b: BlockBuilder,
    readonly width: Width,
    /** Word of the instruction. */
    public word: number,
    /** See `LiftLimits.slow`. */
    readonly slow: boolean,
  ) {}

  get is64(): boolean {
    return this.width.is64;
  }

  /** All bits of a register. */
  get ones(): bigint {
    return this.is64 ? 0xffff_ffff_ffff_ffffn : 0xffff_ffffn;
  }

  get next(): Address {
    return this.wrap(this.pc + 4n);
  }

  wrap(value: bigint): bigint {
    return value & this.ones;
  }

  /** Name of an operation in the width of the registers. */
  sized(name: Sized): Sized | `${Sized}32` {
    return this.is64 ? name : `${name}32`;
  }

  /** Sign-extended values end as zero-extended ones in 32-bit mode. */
  narrow(d: Slot): void {
    if (!this.is64) this.b.to(d, 'zx32', d);
  }

  // ---------------------------------------------------------------------------- condition register

  compare(field: number, kind: RecordKind, a: Operand, b: Operand): void {
    this.b.record(CR[field]!, kind, a, b);
    this.known.set(field, { kind, b: typeof b === 'bigint' ? b : CR[field]! + 2 });
  }

  /** CR0 from a result. */
  result(d: Slot): void {
    this.compare(0, this.is64 ? 'cmps64' : 'cmps32', d, 0n);
  }

  setBits(field: number, bits: Operand): void {
    this.b.record(CR[field]!, 'bits', bits, 0n);
    this.known.set(field, { kind: 'bits', b: 0n });
  }

  copyField(to: number, from: number): void {
    if (to === from) return;
    for (let i = 0; i < 3; i++) this.b.mov(CR[to]! + i, CR[from]! + i);
    const known = this.known.get(from);
    if (known) this.known.set(to, typeof known.b === 'bigint' ? known : { ...known, b: CR[to]! + 2 });
    else this.known.delete(to);
  }

  /** Condition under which bit `bi` of CR is set (or clear), as a comparison of two operands. */
  bit(bi: number, wanted: boolean): { condition: Condition; width: 32 | 64; a: Slot; b: Operand } {
    const field = bi >> 2;
    const known = this.known.get(field);
    const name = (['lt', 'gt', 'eq', 'so'] as const)[bi & 3]!;
    const compare = known && RECORD_KINDS[known.kind].compare;
    if (known && compare && name !== 'so') {
      const condition: Condition = name === 'eq' || compare.signed ? name : `${name}u`;
      return {
        condition: wanted ? condition : inverse(condition),
        width: compare.width,
        a: CR[field]! + 1,
        b: known.b,
      };
    }
    return { condition: wanted ? 'ne' : 'eq', width: 64, a: this.bitValue(bi), b: 0n };
  }

  /** Bit `bi` of CR as 0 or 1. */
  bitValue(bi: number): Slot {
    const { b } = this;
    const field = bi >> 2;
    const k = CR[field]!;
    const known = this.known.get(field);
    if (known?.kind === 'bits') return b.make('and', b.make('shr', k + 1, BigInt(3 - (bi & 3))), 1n);
    if ((bi & 3) !== 3) {
      const compare = known && RECORD_KINDS[known.kind].compare;
      if (known && compare) {
        const { condition, width } = this.bit(bi, true);
        return b.make(width === 32 ? `set${condition}32` : `set${condition}`, k + 1, known.b);
      }
      return b.test((['testlt', 'testgt', 'testeq'] as const)[bi & 3]!, k);
    }
    if (known) return SO;
    const literal = b.make('and', k + 1, 1n);
    const isBits = b.make('seteq', k, BigInt(RECORD_KINDS.bits.code));
    const d = b.temp();
    b.select(d, isBits, literal, SO);
    return d;
  }

  /** The four bits of a field. */
  fieldBits(field: number): Slot {
    const { b } = this;
    const k = CR[field]!;
    const known = this.known.get(field);
    if (known?.kind === 'bits') return k + 1;
    // Literal bits have their own copy of SO.
    const summary = known ? SO : b.make('and', SO, b.make('setne', k, BigInt(RECORD_KINDS.bits.code)));
    return b.make('or', b.test('testcr', k), summary);
  }
}

/** Operands by the names of the rows. */
class Fields {
  constructor(private readonly operands: Operands) {}

  n(name: string): number {
    const value = this.operands[name];
    if (value === undefined) throw new ElftraceError('internal', `the row has no operand ${name}`, { what: name });
    return value;
  }

  big(name: string): bigint {
    return BigInt(this.n(name));
  }

  r(name: string): Slot {
    return GPR[this.n(name)]!;
  }

  /** A base register where 0 means the number zero. */
  base(): Operand {
    const number = this.n('ra0');
    return number === 0 ? 0n : GPR[number]!;
  }

  has(name: string): boolean {
    return this.operands[name] !== undefined;
  }

  /** A suffix bit: `.` or `o`. */
  flag(name: string): boolean {
    return this.operands[name] === 1;
  }
}

/** Emits one instruction. A terminator ends the block; nothing goes on at the next instruction. */
type Lift = (x: Lifting, f: Fields) => Terminator | undefined;

/** The lifter puts name and size into it. */
const UNKNOWN = { kind: 'unknown', mnemonic: null, sizeBytes: 4 } as const satisfies Terminator;

/**
 * A row that is executable by the manual but has no semantics here yet: executing it stops with its
 * name.
 */
const unsupported: Lift = () => UNKNOWN;

/** An instruction that does nothing a program can see. */
const nothing: Lift = () => undefined;

const helper =
  (name: string): Lift =>
  (x) => ({ kind: 'helper', name, argument: x.word, next: x.next });

/** Wraps arithmetic with OE and Rc: with OE the whole instruction is a helper. */
function arithmetic(emit: (x: Lifting, d: Slot, a: Slot, b: Slot) => void): Lift {
  return (x, f) => {
    if (f.flag('oe')) return { kind: 'helper', name: 'overflow', argument: x.word, next: x.next };
    const d = f.r('rt');
    emit(x, d, f.r('ra'), f.has('rb') ? f.r('rb') : d);
    if (f.flag('rc')) x.result(d);
    return undefined;
  };
}

/** ra := f(rs, rb), with Rc where the row has it. */
function logical(emit: (x: Lifting, d: Slot, s: Slot, b: Slot, f: Fields) => void): Lift {
  return (x, f) => {
    const d = f.r('ra');
    emit(x, d, f.r('rs'), f.has('rb') ? f.r('rb') : d, f);
    if (f.flag('rc')) x.result(d);
    return undefined;
  };
}

/** d := a + b + CA with carry out. Of CA32 the operands are kept in time: d may be one of them. */
function addExtended(x: Lifting, d: Slot, a: Slot, b: Operand): void {
  const { b: out } = x;
  if (!x.is64) {
    const sum = out.make('add', b === 0n ? a : out.make('add', a, b), CA);
    out.to(CA, 'shr', sum, 32n);
    out.to(d, 'zx32', sum);
    return;
  }
  if (b === 0n) {
    const before = d === a ? out.temp() : a;
    out.mov(before, a);
    out.to(d, 'add', a, CA);
    out.to(CA, 'setltu', d, before);
    out.to(CA32, 'xor', before, d);
    return;
  }
  const both = out.make('xor', a, b);
  const first = out.make('add', a, b);
  const carry = out.make('setltu', first, b);
  out.to(d, 'add', first, CA);
  out.to(CA, 'or', carry, out.make('setltu', d, first));
  out.to(CA32, 'xor', both, d);
}

function addCarrying(x: Lifting, d: Slot, a: Slot, b: Operand): void {
  const { b: out } = x;
  if (!x.is64) {
    const sum = out.make('add', a, b);
    out.to(CA, 'shr', sum, 32n);
    out.to(d, 'zx32', sum);
    return;
  }
  // Of CA32 only bit 32 is ever looked at. A sum that carries is less than either operand: one that
  // is still there afterwards.
  const isLow = typeof b === 'bigint' && ((b >> 32n) & 1n) === 0n;
  const both = isLow && d !== a ? a : out.make('xor', a, b);
  const other = d !== a ? a : d !== b ? b : out.make('add', a, 0n);
  out.to(d, 'add', a, b);
  out.to(CA, 'setltu', d, other);
  out.to(CA32, 'xor', both, d);
}

const addImmediateCarrying =
  (record: boolean): Lift =>
  (x, f) => {
    const d = f.r('rt');
    addCarrying(x, d, f.r('ra'), x.wrap(f.big('si')));
    if (record) x.result(d);
    return undefined;
  };

const addImmediate =
  (shift: bigint): Lift =>
  (x, f) => {
    const constant = x.wrap(f.big('si') << shift);
    const base = f.base();
    if (typeof base === 'bigint') x.b.mov(f.r('rt'), constant);
    else x.b.to(f.r('rt'), x.sized('add'), base, constant);
    return undefined;
  };

const logicalImmediate =
  (op: 'and' | 'or' | 'xor', shift: bigint, record = false): Lift =>
  (x, f) => {
    const constant = f.big('ui') << shift;
    const d = f.r('ra');
    const s = f.r('rs');
    if (constant === 0n && op !== 'and') x.b.mov(d, s);
    else x.b.to(d, op, s, constant);
    if (record) x.result(d);
    return undefined;
  };

const compare =
  (signed: boolean, second: 'rb' | 'si' | 'ui'): Lift =>
  (x, f) => {
    const wide = f.n('l') === 1 && x.is64;
    const kind: RecordKind = signed ? (wide ? 'cmps64' : 'cmps32') : wide ? 'cmpu64' : 'cmpu32';
    const b = second === 'rb' ? f.r('rb') : BigInt.asUintN(64, f.big(second));
    x.compare(f.n('bf'), kind, f.r('ra'), b);
    return undefined;
  };

// Rotates
// -------------------------------------------------------------------------------------------------

/**
 * Ones from bit `begin` to bit `end` in the manual's numbering of `bits` bits; wraps where begin >
 * end.
 */
function mask(begin: number, end: number, bits: 32 | 64): bigint {
  const all = (1n << BigInt(bits)) - 1n;
  const fromBegin = all >> BigInt(begin);
  const toEnd = (all << BigInt(bits - 1 - end)) & all;
  return begin <= end ? fromBegin & toEnd : fromBegin | toEnd;
}

/**
 * The word mask in a register: where it wraps, the upper half of a 64-bit register is in it too.
 */
function wordMask(x: Lifting, begin: number, end: number): bigint {
  const low = mask(begin, end, 32);
  return x.is64 && begin > end ? low | 0xffff_ffff_0000_0000n : low;
}

/** Word rotated left, repeated in the upper half where `both`. */
function rotatedWord(x: Lifting, s: Slot, count: Operand, both: boolean): Slot {
  const { b } = x;
  const low = count === 0n ? b.make('zx32', s) : b.make('rotl32', s, count);
  return both && x.is64 ? b.make('or', low, b.make('shl', low, 32n)) : low;
}

const rlwinm = logical((x, d, s, _b, f) => {
  const { b } = x;
  const [sh, mb, me] = [f.n('sh'), f.n('mb'), f.n('me')];
  const ones = wordMask(x, mb, me);
  if (mb > me) b.to(d, 'and', rotatedWord(x, s, BigInt(sh), true), ones);
  else if (sh === 0) b.to(d, 'and', s, ones);
  else if (mb === 0 && me === 31) b.to(d, 'rotl32', s, BigInt(sh));
  else if (mb === 0 && me === 31 - sh) b.to(d, 'shl32', s, BigInt(sh));
  else if (me === 31 && mb === 32 - sh) b.to(d, 'shr32', s, BigInt(mb));
  else b.to(d, 'and', b.make('rotl32', s, BigInt(sh)), ones);
});

/** d := rotated under the mask, d elsewhere. */
function insert(x: Lifting, d: Slot, rotated: Slot, ones: bigint): void {
  const { b } = x;
  const kept = b.make('and', d, x.ones & ~ones);
  b.to(d, 'or', b.make('and', rotated, ones), kept);
}

function rotateDouble(x: Lifting, d: Slot, s: Slot, sh: number, ones: bigint): void {
  const { b } = x;
  if (ones === x.ones) {
    if (sh === 0) b.mov(d, s);
    else b.to(d, 'rotl', s, BigInt(sh));
  } else if (sh === 0) b.to(d, 'and', s, ones);
  else if (ones === x.wrap(x.ones << BigInt(sh))) b.to(d, 'shl', s, BigInt(sh));
  else if (ones === x.ones >> BigInt(64 - sh)) b.to(d, 'shr', s, BigInt(64 - sh));
  else b.to(d, 'and', b.make('rotl', s, BigInt(sh)), ones);
}

/** CA and CA32 of arithmetic shifts are the same. */
function shiftCarry(x: Lifting): void {
  if (x.is64) x.b.to(CA32, 'shl', CA, 32n);
}

/** Arithmetic shift right of the word in `s`; CA tells of lost ones. */
function shiftWordAlgebraic(x: Lifting, d: Slot, s: Slot, count: bigint): void {
  x.b.to(CA, 'signand32', s, 0x8000_0000n | ((1n << count) - 1n));
  shiftCarry(x);
  x.b.to(d, x.is64 ? 'sar32s' : 'sar32', s, count);
}

/** Arithmetic shift right of a value that is sign-extended in `s`; CA tells of lost ones. */
function shiftRightAlgebraic(x: Lifting, d: Slot, s: Slot, count: Operand): void {
  if (typeof count === 'bigint') x.b.to(CA, 'signand', s, (1n << 63n) | ((1n << count) - 1n));
  else x.b.to(CA, 'sarlost', s, count);
  shiftCarry(x);
  x.b.to(d, 'sar', s, count);
  x.narrow(d);
}

// Loads and stores
// -------------------------------------------------------------------------------------------------

type Bytes = 1 | 2 | 4 | 8;

function loadName(bytes: Bytes, signed: boolean, endian: Endian): LoadName {
  const suffix = endian === 'big' ? 'be' : '';
  if (bytes === 1) return 'ld8u';
  if (bytes === 8) return `ld64${suffix}`;
  return bytes === 2 ? `ld16${signed ? 's' : 'u'}${suffix}` : `ld32${signed ? 's' : 'u'}${suffix}`;
}

function storeName(bytes: Bytes, endian: Endian): StoreName {
  const suffix = endian === 'big' ? 'be' : '';
  if (bytes === 1) return 'st8';
  return bytes === 2 ? `st16${suffix}` : bytes === 4 ? `st32${suffix}` : `st64${suffix}`;
}

interface AccessForm {
  /** The displacement operand, or null for the indexed form. */
  readonly displacement: 'd' | 'ds' | null;
  readonly update?: boolean;
  /** `lwbrx` and the like: against the byte order of the machine. */
  readonly reversed?: boolean;
  readonly signed?: boolean;
}

function byteOrder(x: Lifting, form: AccessForm): Endian {
  const { endian } = x.width;
  return form.reversed === true ? (endian === 'big' ? 'little' : 'big') : endian;
}

/** Base and displacement of an access; the update value is what the base register gets. */
function place(x: Lifting, f: Fields, form: AccessForm): { a: Operand; b: Operand; update: Operand } {
  const base = form.update === true ? f.r('ra') : f.base();
  if (form.displacement !== null) {
    const displacement = BigInt.asUintN(64, f.big(form.displacement));
    return { a: base, b: displacement, update: displacement };
  }
  const index = f.r('rb');
  if (form.update === true) {
    const sum = x.b.make(x.sized('add'), base, index);
    return { a: sum, b: 0n, update: sum };
  }
  return typeof base === 'bigint' ? { a: index, b: 0n, update: 0n } : { a: base, b: index, update: 0n };
}

function update(x: Lifting, f: Fields, form: AccessForm, value: Operand): void {
  if (form.update !== true) return;
  if (typeof value === 'bigint') x.b.to(f.r('ra'), x.sized('add'), f.r('ra'), x.wrap(value));
  else x.b.mov(f.r('ra'), value);
}

const load =
  (bytes: Bytes, form: AccessForm): Lift =>
  (x, f) => {
    const at = place(x, f, form);
    const d = f.r('rt');
    x.b.load(loadName(bytes, form.signed === true, byteOrder(x, form)), d, at.a, at.b);
    if (form.signed === true) x.narrow(d);
    update(x, f, form, at.update);
    return undefined;
  };

const store =
  (bytes: Bytes, form: AccessForm): Lift =>
  (x, f) => {
    const at = place(x, f, form);
    x.b.store(storeName(bytes, byteOrder(x, form)), f.r('rs'), at.a, at.b);
    update(x, f, form, at.update);
    return undefined;
  };

/** Address of an indexed access, as a slot. */
function indexedAddress(x: Lifting, f: Fields): Slot {
  const base = f.base();
  return typeof base === 'bigint' ? f.r('rb') : x.b.make(x.sized('add'), base, f.r('rb'));
}

/**
 * The address of a load-and-reserve or store-conditional of so many bytes: aligned, or an alignment
 * trap.
 */
function reservationAddress(x: Lifting, f: Fields, bytes: Bytes | 16): Slot {
  const address = indexedAddress(x, f);
  if (bytes > 1) x.b.aligned(address, BigInt(bytes - 1));
  return address;
}

const loadReserve =
  (bytes: Bytes): Lift =>
  (x, f) => {
    const { b } = x;
    const address = reservationAddress(x, f, bytes);
    const value = b.temp();
    b.load(loadName(bytes, false, x.width.endian), value, address, 0n);
    b.mov(RESERVED_ADDRESS, address);
    b.mov(RESERVED_VALUE, value);
    b.mov(f.r('rt'), value);
    return undefined;
  };

const storeConditional =
  (bytes: Bytes): Lift =>
  (x, f) => {
    const { b } = x;
    const address = reservationAddress(x, f, bytes);
    const current = b.temp();
    b.load(loadName(bytes, false, x.width.endian), current, address, 0n);
    const unchanged = b.make('seteq', current, RESERVED_VALUE);
    const success = b.make('and', b.make('seteq', address, RESERVED_ADDRESS), unchanged);
    const value = b.temp();
    b.select(value, success, f.r('rs'), current);
    b.store(storeName(bytes, x.width.endian), value, address, 0n);
    b.mov(RESERVED_ADDRESS, NO_RESERVATION);
    x.setBits(0, b.make('or', b.make('shl', success, 1n), SO));
    return undefined;
  };

const ALIGNMENT = { kind: 'trap', trap: 'alignment' } as const satisfies Terminator;
const INVALID_FORM = { kind: 'trap', trap: 'invalid-form' } as const satisfies Terminator;

const lmw: Lift = (x, f) => {
  if (x.width.endian === 'little') return ALIGNMENT;
  const values: Slot[] = [];
  for (let i = f.n('rt'); i < 32; i++) {
    const value = x.b.temp();
    const displacement = BigInt.asUintN(64, f.big('d') + BigInt(4 * values.length));
    x.b.load(loadName(4, false, x.width.endian), value, f.base(), displacement);
    values.push(value);
  }
  values.forEach((value, i) => {
    x.b.mov(GPR[f.n('rt') + i]!, value);
  });
  return undefined;
};

const stmw: Lift = (x, f) => {
  if (x.width.endian === 'little') return ALIGNMENT;
  for (let i = f.n('rs'); i < 32; i++) {
    const displacement = BigInt.asUintN(64, f.big('d') + BigInt(4 * (i - f.n('rs'))));
    x.b.store(storeName(4, x.width.endian), GPR[i]!, f.base(), displacement);
  }
  return undefined;
};

/** Loads a quadword, the lower address first; returns its upper and lower doubleword. */
function loadQuad(x: Lifting, base: Operand, displacement: bigint): readonly [high: Slot, low: Slot] {
  const { b } = x;
  const [first, second] = [b.temp(), b.temp()];
  const name = loadName(8, false, x.width.endian);
  b.load(name, first, base, BigInt.asUintN(64, displacement));
  b.load(name, second, base, BigInt.asUintN(64, displacement + 8n));
  return x.width.endian === 'big' ? [first, second] : [second, first];
}

function storeQuad(x: Lifting, base: Operand, displacement: bigint, high: Slot, low: Slot): void {
  const name = storeName(8, x.width.endian);
  const [first, second] = x.width.endian === 'big' ? [high, low] : [low, high];
  x.b.store(name, first, base, BigInt.asUintN(64, displacement));
  x.b.store(name, second, base, BigInt.asUintN(64, displacement + 8n));
}

/** Bytes of a string move with an immediate count. */
const stringBytes = (f: Fields): number => f.n('nb') || 32;

/**
 * Four bytes a register, filled from the left; the rest of the last register is 0. Big-endian only.
 */
const loadString: Lift = (x, f) => {
  if (x.width.endian === 'little') return ALIGNMENT;
  const { b } = x;
  const count = stringBytes(f);
  const values: Slot[] = [];
  for (let at = 0; at < count; at += 4) {
    const value = b.temp();
    const left = count - at;
    if (left >= 4) b.load('ld32ube', value, f.base(), BigInt(at));
    else {
      const part = b.temp();
      b.mov(value, 0n);
      for (let i = 0; i < left; i++) {
        b.load('ld8u', part, f.base(), BigInt(at + i));
        b.to(value, 'or', value, b.make('shl', part, BigInt(24 - 8 * i)));
      }
    }
    values.push(value);
  }
  values.forEach((value, i) => {
    b.mov(GPR[(f.n('rt') + i) % 32]!, value);
  });
  return undefined;
};

const storeString: Lift = (x, f) => {
  if (x.width.endian === 'little') return ALIGNMENT;
  const { b } = x;
  const count = stringBytes(f);
  for (let at = 0; at < count; at += 4) {
    const value = GPR[(f.n('rs') + at / 4) % 32]!;
    if (count - at >= 4) b.store('st32be', value, f.base(), BigInt(at));
    else
      for (let i = 0; i < count - at; i++)
        b.store('st8', b.make('shr', value, BigInt(24 - 8 * i)), f.base(), BigInt(at + i));
  }
  return undefined;
};

/** The count of `lswx` and `stswx` is in XER: a helper. */
const stringHelper =
  (name: 'lswx' | 'stswx'): Lift =>
  (x) =>
    x.width.endian === 'little' ? ALIGNMENT : { kind: 'helper', name, argument: x.word, next: x.next };

/** Bytes that `dcbz` clears: what AT_DCACHEBSIZE announces. */
export const CACHE_LINE_BYTES = { 32: 32, 64: 128 } as const;

const dcbz: Lift = (x, f) => {
  const { b } = x;
  const line = CACHE_LINE_BYTES[x.is64 ? 64 : 32];
  const start = b.make('and', indexedAddress(x, f), x.ones & ~BigInt(line - 1));
  const zero = b.make('mov', 0n);
  for (let at = 0; at < line; at += 8) b.store('st64', zero, start, BigInt(at));
  return undefined;
};

// Branches
// -------------------------------------------------------------------------------------------------

interface Taken {
  readonly condition: Condition;
  readonly width: 32 | 64;
  readonly a: Slot;
  readonly b: Operand;
}

/**
 * The condition of BO and BI; null: always. Bit 4 of BO is a hint wherever both other bits decide
 * nothing, and never matters here. Decrements CTR where BO says so.
 */
function branchCondition(x: Lifting, f: Fields): Taken | null {
  const bo = f.n('bo');
  const { b } = x;
  const usesCondition = (bo & 16) === 0;
  const usesCounter = (bo & 4) === 0;
  if (usesCounter) b.to(CTR, x.sized('sub'), CTR, 1n);
  const counter = (bo & 2) !== 0 ? ('eq' as const) : ('ne' as const);
  const wanted = (bo & 8) !== 0;
  if (!usesCondition && !usesCounter) return null;
  if (!usesCondition) return { condition: counter, width: 64, a: CTR, b: 0n };
  if (!usesCounter) return x.bit(f.n('bi'), wanted);
  const bit = x.bitValue(f.n('bi'));
  const both = b.make('and', b.make(`set${counter}`, CTR, 0n), wanted ? bit : b.make('xor', bit, 1n));
  return { condition: 'ne', width: 64, a: both, b: 0n };
}

const branch =
  (field: 'li' | 'la', link: boolean): Lift =>
  (x, f) => {
    const pc = x.wrap(field === 'li' ? x.pc + f.big('li') : f.big('la'));
    if (!link) return { kind: 'jmp', pc };
    x.b.mov(LR, x.next);
    return { kind: 'call', pc, ret: x.next };
  };

const branchConditional =
  (field: 'bd' | 'bda', link: boolean): Lift =>
  (x, f) => {
    const pc = x.wrap(field === 'bd' ? x.pc + f.big('bd') : f.big('bda'));
    const taken = branchCondition(x, f);
    if (link) x.b.mov(LR, x.next);
    if (!taken) {
      // bcl 20,31,.+4 reads the program counter: no call, and the block goes on.
      if (link && pc === x.next) return undefined;
      return link ? { kind: 'call', pc, ret: x.next } : { kind: 'jmp', pc };
    }
    return { kind: 'br', ...taken, pc, next: x.next };
  };

const branchToRegister =
  (register: Slot, link: boolean): Lift =>
  (x, f) => {
    // Decrementing CTR and jumping to it is an invalid form.
    if (register === CTR && (f.n('bo') & 4) === 0) return INVALID_FORM;
    const { b } = x;
    const alignment = x.ones & ~3n;
    const taken = branchCondition(x, f);
    let s = register;
    if (taken) {
      const choice = b.make(taken.width === 32 ? `set${taken.condition}32` : `set${taken.condition}`, taken.a, taken.b);
      if (link) {
        s = b.temp();
        b.select(s, choice, register, x.next);
      } else b.leaveIfZero(choice, x.next);
    } else if (link && register === LR) s = b.make('mov', LR);
    if (!link) return { kind: register === LR ? 'ret' : 'ind', s, mask: alignment };
    b.mov(LR, x.next);
    return { kind: 'calli', s, mask: alignment, ret: x.next };
  };

const crLogical =
  (combine: (b: BlockBuilder, first: Slot, second: Slot) => Slot): Lift =>
  (x, f) => {
    const { b } = x;
    const bt = f.n('bt');
    const bit = 3 - (bt & 3);
    const value = b.make('and', combine(b, x.bitValue(f.n('ba')), x.bitValue(f.n('bb'))), 1n);
    const rest = b.make('and', x.fieldBits(bt >> 2), BigInt(15 & ~(1 << bit)));
    x.setBits(bt >> 2, b.make('or', rest, b.make('shl', value, BigInt(bit))));
    return undefined;
  };

const moveToCr: Lift = (x, f) => {
  const value = f.r('rs');
  for (let field = 0; field < 8; field++) {
    if ((f.n('fxm') & (0x80 >> field)) === 0) continue;
    const shifted = field === 7 ? value : x.b.make('shr', value, BigInt(28 - 4 * field));
    x.setBits(field, x.b.make('and', shifted, 15n));
  }
  return undefined;
};

const moveFromCr: Lift = (x, f) => {
  const { b } = x;
  const rt = f.r('rt');
  b.mov(rt, x.fieldBits(0));
  for (let field = 1; field < 8; field++) {
    b.to(rt, 'shl', rt, 4n);
    b.to(rt, 'or', rt, x.fieldBits(field));
  }
  return undefined;
};

const moveFromOneCr: Lift = (x, f) => {
  const fxm = f.n('fxm');
  const field = Math.clz32(fxm) - 24;
  // Undefined for more than one field: all are moved.
  if (fxm === 0 || (fxm & (fxm - 1)) !== 0) return moveFromCr(x, f);
  x.b.to(f.r('rt'), 'shl', x.fieldBits(field), BigInt(28 - 4 * field));
  return undefined;
};

/** Special registers that user programs reach and that are one slot. */
const SPR_SLOTS: Readonly<Record<number, Slot>> = { 8: LR, 9: CTR, 256: VRSAVE };
/** Those of 64-bit processors: DSCR for users, TAR, PPR. */
const SPR_SLOTS_64: Readonly<Record<number, Slot>> = { ...SPR_SLOTS, 3: DSCR, 815: TAR, 896: PPR };
/** SPRG3 for users: Linux puts the number of the processor and node there, both 0 here. */
const SPR_SPRG3 = 259;
/**
 * PVR is the supervisor's to read; Linux answers for users, and glibc asks on 32 bits. The numbers
 * are those of the processors that are executed: a 750, and a POWER8.
 */
const SPR_PVR = 287;
const PVR = { 32: 0x0008_0301n, 64: 0x004d_0200n } as const;
const SPR_XER = 1;
const SPR_TIME = 268;
const SPR_TIME_UPPER = 269;

const sprSlot = (x: Lifting, spr: number): Slot | undefined => (x.is64 ? SPR_SLOTS_64 : SPR_SLOTS)[spr];

/** Registers that no user reaches have this bit in their number. The others we do not have. */
const otherSpr = (spr: number): Terminator => ((spr & 16) !== 0 ? { kind: 'trap', trap: 'privileged' } : UNKNOWN);

const mfspr: Lift = (x, f) => {
  const spr = f.n('spr');
  const slot = sprSlot(x, spr);
  const d = f.r('rt');
  const { b } = x;
  if (slot !== undefined) b.mov(d, slot);
  else if (spr === SPR_XER) {
    const [so, ov, ca] = [b.make('shl', SO, 31n), b.make('shl', OV, 30n), b.make('shl', CA, 29n)];
    const low = b.make('or', ca, XER_LOW);
    const word = x.is64
      ? b.make('or', b.make('shl', OV32, 19n), b.make('and', b.make('shr', CA32, 14n), 0x4_0000n))
      : null;
    b.to(d, 'or', b.make('or', so, ov), word === null ? low : b.make('or', low, word));
  } else if (spr === SPR_SPRG3) {
    b.mov(d, 0n);
  } else if (spr === SPR_PVR) {
    b.mov(d, PVR[x.is64 ? 64 : 32]);
  } else if (spr === SPR_TIME || spr === SPR_TIME_UPPER) {
    return { kind: 'helper', name: 'timebase', argument: x.word, next: x.next };
  } else return otherSpr(spr);
  return undefined;
};

const mtspr: Lift = (x, f) => {
  const spr = f.n('spr');
  const slot = sprSlot(x, spr);
  if (slot !== undefined) {
    if (slot === VRSAVE) x.b.to(slot, 'zx32', f.r('rs'));
    else x.b.mov(slot, f.r('rs'));
    return undefined;
  }
  return spr === SPR_XER ? { kind: 'helper', name: 'mtxer', argument: x.word, next: x.next } : otherSpr(spr);
};

/**
 * `tw 31,…` always traps; the others are helpers, for nothing that is executed often is a
 * conditional trap.
 */
const trap =
  (name: 'trapword' | 'trapdouble'): Lift =>
  (x, f) =>
    f.n('to') === 31
      ? { kind: 'trap', trap: 'trap-instruction' }
      : { kind: 'helper', name, argument: x.word, next: x.next };

/** Division of words: 0 divisor gives 0. */
function divideWord(signed: boolean): Lift {
  return arithmetic((x, d, a, b) => {
    const out = x.b;
    const extend = signed ? 'sx32' : 'zx32';
    const quotient = out.make(signed ? 'divs' : 'divu', out.make(extend, a), out.make(extend, b));
    out.to(d, 'zx32', quotient);
  });
}

/** Upper half of a * b + c, 128 bits. */
const multiplyAddHigh =
  (high: 'mulhs' | 'mulhu'): Lift =>
  (x, f) => {
    const { b } = x;
    const [first, second, added] = [f.r('ra'), f.r('rb'), f.r('rc5')];
    const low = b.make('mul', first, second);
    const carry = b.make('setltu', b.make('add', low, added), low);
    const sum = b.make('add', b.make(high, first, second), carry);
    if (high === 'mulhu') b.mov(f.r('rt'), sum);
    else b.to(f.r('rt'), 'add', sum, b.make('sar', added, 63n));
    return undefined;
  };

/** rt := one of two numbers by a bit of CR. */
const setByBit =
  (set: bigint, clear: bigint): Lift =>
  (x, f) => {
    x.b.select(f.r('rt'), x.bitValue(f.n('bi')), x.wrap(set), x.wrap(clear));
    return undefined;
  };

/** The constant with `half` in each halfword of 64 bits. */
const everyHalf = (half: bigint): bigint => 0x0001_0001_0001_0001n * half;

/** The constant with `byte` in each byte of a register. */
const everyByte = (x: Lifting, byte: bigint): bigint => x.wrap(0x0101_0101_0101_0101n * byte);

// ----------------------------------------------------------------------------------- the semantics

const D = { displacement: 'd' } as const;
const DU = { displacement: 'd', update: true } as const;
const DS = { displacement: 'ds' } as const;
const DSU = { displacement: 'ds', update: true } as const;
const X = { displacement: null } as const;
const XU = { displacement: null, update: true } as const;
const signed = { signed: true } as const;
const reversed = { reversed: true } as const;

// Floating point registers: loads, stores and copies
// ------------------------------------------------------------------------

/** Slot of f0. */
const FPR = FLOAT_SLOTS.floats;

const loadDouble =
  (form: AccessForm): Lift =>
  (x, f) => {
    const at = place(x, f, form);
    const d = FPR[f.n('frt')]!;
    if (x.width.endian === 'little') x.b.load('ldf64', d, at.a, at.b);
    else {
      const bits = x.b.temp();
      x.b.load('ld64be', bits, at.a, at.b);
      x.b.to(d, 'bitsf64', bits);
    }
    update(x, f, form, at.update);
    return undefined;
  };

const storeDouble =
  (form: AccessForm): Lift =>
  (x, f) => {
    const at = place(x, f, form);
    const s = FPR[f.n('frs')]!;
    if (x.width.endian === 'little') x.b.store('stf64', s, at.a, at.b);
    else x.b.store('st64be', x.b.make('f64bits', s), at.a, at.b);
    update(x, f, form, at.update);
    return undefined;
  };

/**
 * The double of a single's bits, by integers (4.6.2): denormals are normalised, NaNs keep their
 * bits.
 */
function doubleOfSingle(x: Lifting, word: Slot): Slot {
  const { b } = x;
  const sign = b.make('shl', b.make('and', word, 0x8000_0000n), 32n);
  const magnitude = b.make('and', word, 0x7fff_ffffn);
  const shifted = b.make('shl', magnitude, 29n);
  const rebias = 896n << 52n;
  const normal = b.make('add', shifted, rebias);
  // Infinities and NaNs need the largest exponent.
  const infinite = b.make('setgeu', magnitude, 0x7f80_0000n);
  b.select(normal, infinite, b.make('add', normal, rebias), normal);
  // The leading one of a denormal goes to bit 52, where it adds 1 to the exponent: 936 - clz = 937
  // - clz - 1.
  const zeros = b.make('clz', magnitude);
  const fraction = b.make('shl', magnitude, b.make('sub', zeros, 11n));
  const denormal = b.make('add', fraction, b.make('shl', b.make('sub', 936n, zeros), 52n));
  b.select(denormal, magnitude, denormal, 0n);
  b.select(normal, b.make('setltu', magnitude, 0x80_0000n), denormal, normal);
  return b.make('or', sign, normal);
}

/**
 * The single that `stfs` stores (4.6.3): no rounding, doubles too small for a normal single are
 * denormalised.
 */
function singleOfDouble(x: Lifting, bits: Slot): Slot {
  const { b } = x;
  const sign = b.make('and', b.make('shr', bits, 32n), 0x8000_0000n);
  const direct = b.make('and', b.make('shr', bits, 29n), 0x3fff_ffffn);
  const high = b.make('and', b.make('shr', bits, 32n), 0x4000_0000n);
  const normal = b.make('or', high, direct);
  const exponent = b.make('and', b.make('shr', bits, 52n), 0x7ffn);
  const fraction = b.make('or', b.make('and', bits, 0xf_ffff_ffff_ffffn), 0x10_0000_0000_0000n);
  const denormal = b.make('shr', fraction, b.make('sub', 926n, exponent));
  // Below exponent 874 the manual leaves the result open; it is zero here.
  b.select(denormal, b.make('setltu', exponent, 874n), 0n, denormal);
  b.select(normal, b.make('setleu', exponent, 896n), denormal, normal);
  return b.make('or', sign, normal);
}

const loadSingle =
  (form: AccessForm): Lift =>
  (x, f) => {
    const at = place(x, f, form);
    const word = x.b.temp();
    x.b.load(loadName(4, false, x.width.endian), word, at.a, at.b);
    x.b.to(FPR[f.n('frt')]!, 'bitsf64', doubleOfSingle(x, word));
    update(x, f, form, at.update);
    return undefined;
  };

const storeSingle =
  (form: AccessForm): Lift =>
  (x, f) => {
    const at = place(x, f, form);
    const word = singleOfDouble(x, x.b.make('f64bits', FPR[f.n('frs')]!));
    x.b.store(storeName(4, x.width.endian), word, at.a, at.b);
    update(x, f, form, at.update);
    return undefined;
  };

const loadIntegerWord =
  (signed: boolean): Lift =>
  (x, f) => {
    const at = place(x, f, X);
    const word = x.b.temp();
    x.b.load(loadName(4, signed, x.width.endian), word, at.a, at.b);
    x.b.to(FPR[f.n('frt')]!, 'bitsf64', word);
    return undefined;
  };

/** One entry per executable row of the instruction table. */
const SEMANTICS = {
  b: branch('li', false),
  bl: branch('li', true),
  ba: branch('la', false),
  bla: branch('la', true),
  bc: branchConditional('bd', false),
  bcl: branchConditional('bd', true),
  bca: branchConditional('bda', false),
  bcla: branchConditional('bda', true),
  bclr: branchToRegister(LR, false),
  bclrl: branchToRegister(LR, true),
  bcctr: branchToRegister(CTR, false),
  bcctrl: branchToRegister(CTR, true),
  bctar: branchToRegister(TAR, false),
  bctarl: branchToRegister(TAR, true),
  sc: helper('syscall'),

  mcrf: (x, f) => {
    x.copyField(f.n('bf'), f.n('bfa'));
    return undefined;
  },
  crand: crLogical((b, p, q) => b.make('and', p, q)),
  crandc: crLogical((b, p, q) => b.make('and', p, b.make('xor', q, 1n))),
  creqv: crLogical((b, p, q) => b.make('xor', b.make('xor', p, q), 1n)),
  crnand: crLogical((b, p, q) => b.make('xor', b.make('and', p, q), 1n)),
  crnor: crLogical((b, p, q) => b.make('xor', b.make('or', p, q), 1n)),
  cror: crLogical((b, p, q) => b.make('or', p, q)),
  crorc: crLogical((b, p, q) => b.make('or', p, b.make('xor', q, 1n))),
  crxor: crLogical((b, p, q) => b.make('xor', p, q)),
  mfcr: moveFromCr,
  mfocrf: moveFromOneCr,
  mtcrf: moveToCr,
  mtocrf: moveToCr,
  mcrxr: helper('mcrxr'),
  mcrxrx: (x, f) => {
    const { b } = x;
    const overflow = b.make('or', b.make('shl', OV, 3n), b.make('shl', OV32, 2n));
    const word = b.make('and', b.make('shr', CA32, 32n), 1n);
    x.setBits(f.n('bf'), b.make('or', overflow, b.make('or', b.make('shl', CA, 1n), word)));
    return undefined;
  },
  /**
   * a + b + OV; OV and OV32 are the carries. CY = 0 is the only value that ISA 3.0B defines, 1 to 3
   * are reserved.
   */
  addex: (x, f) => {
    if (f.n('l2') !== 0) return INVALID_FORM;
    const { b } = x;
    const [d, first, second] = [f.r('rt'), f.r('ra'), f.r('rb')];
    const partial = b.make('add', first, second);
    const sum = b.make('add', partial, OV);
    const carry = b.make('or', b.make('setltu', partial, first), b.make('setltu', sum, partial));
    const into = b.make('xor', b.make('xor', first, second), sum);
    b.to(OV32, 'and', b.make('shr', into, 32n), 1n);
    b.mov(OV, carry);
    b.mov(d, sum);
    return undefined;
  },
  addg6s: helper('addg6s'),
  cbcdtd: helper('cbcdtd'),
  cdtbcd: helper('cdtbcd'),
  cmprb: helper('cmprb'),
  cmpeqb: helper('cmpeqb'),
  setb: (x, f) => {
    x.b.select(f.r('rt'), x.bitValue(4 * f.n('bfa')), x.ones, x.bitValue(4 * f.n('bfa') + 1));
    return undefined;
  },

  addi: addImmediate(0n),
  addis: addImmediate(16n),
  addpcis: (x, f) => {
    x.b.mov(f.r('rt'), x.wrap(x.pc + 4n + (f.big('dx') << 16n)));
    return undefined;
  },
  addic: addImmediateCarrying(false),
  'addic.': addImmediateCarrying(true),
  subfic: (x, f) => {
    const constant = x.wrap(f.big('si'));
    const [d, a] = [f.r('rt'), f.r('ra')];
    x.b.to(CA, 'setleu', a, constant);
    const both = x.is64 ? x.b.make('xor', a, x.wrap(~constant)) : 0n;
    x.b.to(d, x.sized('sub'), constant, a);
    if (x.is64) x.b.to(CA32, 'xor', both, d);
    return undefined;
  },
  mulli: (x, f) => {
    x.b.to(f.r('rt'), x.sized('mul'), f.r('ra'), x.wrap(f.big('si')));
    return undefined;
  },
  add: arithmetic((x, d, a, b) => x.b.to(d, x.sized('add'), a, b)),
  addc: arithmetic(addCarrying),
  adde: arithmetic(addExtended),
  addme: arithmetic((x, d, a) => {
    addExtended(x, d, a, x.ones);
  }),
  addze: arithmetic((x, d, a) => {
    addExtended(x, d, a, 0n);
  }),
  subf: arithmetic((x, d, a, b) => x.b.to(d, x.sized('sub'), b, a)),
  subfc: arithmetic((x, d, a, b) => {
    x.b.to(CA, 'setgeu', b, a);
    const both = x.is64 ? x.b.make('xor', x.b.make('xor', a, x.ones), b) : 0n;
    x.b.to(d, x.sized('sub'), b, a);
    if (x.is64) x.b.to(CA32, 'xor', both, d);
  }),
  subfe: arithmetic((x, d, a, b) => {
    addExtended(x, d, x.b.make('xor', a, x.ones), b);
  }),
  subfme: arithmetic((x, d, a) => {
    addExtended(x, d, x.b.make('xor', a, x.ones), x.ones);
  }),
  subfze: arithmetic((x, d, a) => {
    addExtended(x, d, x.b.make('xor', a, x.ones), 0n);
  }),
  neg: arithmetic((x, d, a) => x.b.to(d, x.sized('mul'), a, x.ones)),
  mullw: arithmetic((x, d, a, b) => {
    x.b.to(d, x.is64 ? 'mulsx32' : 'mul32', a, b);
  }),
  mulld: arithmetic((x, d, a, b) => x.b.to(d, 'mul', a, b)),
  mulhw: arithmetic((x, d, a, b) => {
    x.b.to(d, 'shr', x.b.make('mulsx32', a, b), 32n);
  }),
  mulhwu: arithmetic((x, d, a, b) => {
    x.b.to(d, 'shr', x.b.make('mulzx32', a, b), 32n);
  }),
  mulhd: arithmetic((x, d, a, b) => x.b.to(d, 'mulhs', a, b)),
  mulhdu: arithmetic((x, d, a, b) => x.b.to(d, 'mulhu', a, b)),
  divw: divideWord(true),
  divwu: divideWord(false),
  divd: arithmetic((x, d, a, b) => x.b.to(d, 'divs', a, b)),
  divdu: arithmetic((x, d, a, b) => x.b.to(d, 'divu', a, b)),
  divwe: helper('overflow'),
  divweu: arithmetic((x, d, a, b) => {
    const [dividend, divisor] = [x.b.make('shl', a, 32n), x.b.make('zx32', b)];
    const fits = x.b.make('setltu32', a, b);
    x.b.select(d, fits, x.b.make('divu', dividend, divisor), 0n);
  }),
  divde: helper('overflow'),
  divdeu: arithmetic((x, d, a, b) => {
    x.b.mov(d, x.b.divideWide(a, 0n, b));
  }),
  modsw: arithmetic((x, d, a, b) => {
    x.b.to(d, 'rems', x.b.make('sx32', a), x.b.make('sx32', b));
    x.narrow(d);
  }),
  moduw: arithmetic((x, d, a, b) => x.b.to(d, 'remu', x.b.make('zx32', a), x.b.make('zx32', b))),
  modsd: arithmetic((x, d, a, b) => x.b.to(d, 'rems', a, b)),
  modud: arithmetic((x, d, a, b) => x.b.to(d, 'remu', a, b)),
  maddhd: multiplyAddHigh('mulhs'),
  maddhdu: multiplyAddHigh('mulhu'),
  maddld: (x, f) => {
    x.b.to(f.r('rt'), 'add', x.b.make('mul', f.r('ra'), f.r('rb')), f.r('rc5'));
    return undefined;
  },

  cmpi: compare(true, 'si'),
  cmpli: compare(false, 'ui'),
  cmp: compare(true, 'rb'),
  cmpl: compare(false, 'rb'),
  twi: trap('trapword'),
  tw: trap('trapword'),
  tdi: trap('trapdouble'),
  td: trap('trapdouble'),
  isel: (x, f) => {
    x.b.select(f.r('rt'), x.bitValue(f.n('bc')), f.base(), f.r('rb'));
    return undefined;
  },

  'andi.': logicalImmediate('and', 0n, true),
  'andis.': logicalImmediate('and', 16n, true),
  ori: logicalImmediate('or', 0n),
  oris: logicalImmediate('or', 16n),
  xori: logicalImmediate('xor', 0n),
  xoris: logicalImmediate('xor', 16n),
  and: logical((x, d, s, b) => {
    if (s === b) x.b.mov(d, s);
    else x.b.to(d, 'and', s, b);
  }),
  andc: logical((x, d, s, b) => x.b.to(d, 'and', s, x.b.make('xor', b, x.ones))),
  eqv: logical((x, d, s, b) => x.b.to(d, 'xor', x.b.make('xor', s, b), x.ones)),
  nand: logical((x, d, s, b) => x.b.to(d, 'xor', x.b.make('and', s, b), x.ones)),
  nor: logical((x, d, s, b) => x.b.to(d, 'xor', s === b ? s : x.b.make('or', s, b), x.ones)),
  or: logical((x, d, s, b) => {
    if (s === b) x.b.mov(d, s);
    else x.b.to(d, 'or', s, b);
  }),
  orc: logical((x, d, s, b) => x.b.to(d, 'or', s, x.b.make('xor', b, x.ones))),
  xor: logical((x, d, s, b) => x.b.to(d, 'xor', s, b)),
  extsb: logical((x, d, s) => {
    x.b.to(d, 'sx8', s);
    x.narrow(d);
  }),
  extsh: logical((x, d, s) => {
    x.b.to(d, 'sx16', s);
    x.narrow(d);
  }),
  setbc: setByBit(1n, 0n),
  setbcr: setByBit(0n, 1n),
  setnbc: setByBit(-1n, 0n),
  setnbcr: setByBit(0n, -1n),
  brh: logical((x, d, s) => {
    const { b } = x;
    const low = b.make('and', b.make('shr', s, 8n), everyHalf(0xffn));
    b.to(d, 'or', low, b.make('shl', b.make('and', s, everyHalf(0xffn)), 8n));
  }),
  brw: logical((x, d, s) => x.b.to(d, 'rotl', x.b.make('bswap64', s), 32n)),
  brd: logical((x, d, s) => x.b.to(d, 'bswap64', s)),
  cfuged: helper('cfuged'),
  pdepd: helper('pdepd'),
  pextd: helper('pextd'),
  cntlzdm: helper('cntlzdm'),
  cnttzdm: helper('cnttzdm'),
  extsw: logical((x, d, s) => x.b.to(d, 'sx32', s)),
  extswsli: logical((x, d, s, _b, f) => x.b.to(d, 'shl', x.b.make('sx32', s), f.big('sh6'))),
  cntlzw: logical((x, d, s) => x.b.to(d, 'clz32', s)),
  cntlzd: logical((x, d, s) => x.b.to(d, 'clz', s)),
  cnttzw: logical((x, d, s) => x.b.to(d, 'ctz32', s)),
  cnttzd: logical((x, d, s) => x.b.to(d, 'ctz', s)),
  popcntb: logical((x, d, s) => {
    const { b } = x;
    const pairs = b.make('sub', s, b.make('and', b.make('shr', s, 1n), everyByte(x, 0x55n)));
    const high = b.make('and', b.make('shr', pairs, 2n), everyByte(x, 0x33n));
    const nibbles = b.make('add', b.make('and', pairs, everyByte(x, 0x33n)), high);
    b.to(d, 'and', b.make('add', nibbles, b.make('shr', nibbles, 4n)), everyByte(x, 0x0fn));
  }),
  popcntw: logical((x, d, s) => {
    const low = x.b.make('popcnt', x.b.make('zx32', s));
    const high = x.b.make('popcnt', x.b.make('shr', s, 32n));
    x.b.to(d, 'or', low, x.b.make('shl', high, 32n));
  }),
  popcntd: logical((x, d, s) => x.b.to(d, 'popcnt', s)),
  prtyw: logical((x, d, s) => {
    const { b } = x;
    const low = b.make('and', b.make('popcnt', b.make('and', s, 0x0101_0101n)), 1n);
    const high = b.make('and', b.make('popcnt', b.make('and', s, 0x0101_0101n << 32n)), 1n);
    b.to(d, 'or', low, b.make('shl', high, 32n));
  }),
  prtyd: logical((x, d, s) => {
    const { b } = x;
    b.to(d, 'and', b.make('popcnt', b.make('and', s, everyByte(x, 1n))), 1n);
  }),
  /**
   * 0xff in each byte in which the sources agree: a byte of the difference is 0 when neither it nor
   * it + 0x7f has bit 7.
   */
  cmpb: logical((x, d, s, other) => {
    const { b } = x;
    const difference = b.make('xor', s, other);
    const low = everyByte(x, 0x7fn);
    const carried = b.make('add', b.make('and', difference, low), low);
    const marked = b.make('and', b.make('xor', b.make('or', carried, difference), x.ones), everyByte(x, 0x80n));
    b.to(d, 'mul', b.make('shr', marked, 7n), 0xffn);
  }),
  bpermd: helper('bpermd'),

  rlwinm,
  rlwnm: logical((x, d, s, b, f) => {
    const [mb, me] = [f.n('mb'), f.n('me')];
    x.b.to(d, 'and', rotatedWord(x, s, b, mb > me), wordMask(x, mb, me));
  }),
  rlwimi: logical((x, d, s, _b, f) => {
    const [mb, me] = [f.n('mb'), f.n('me')];
    insert(x, d, rotatedWord(x, s, f.big('sh'), mb > me), wordMask(x, mb, me));
  }),
  rldicl: logical((x, d, s, _b, f) => {
    rotateDouble(x, d, s, f.n('sh6'), mask(f.n('mb6'), 63, 64));
  }),
  rldicr: logical((x, d, s, _b, f) => {
    rotateDouble(x, d, s, f.n('sh6'), mask(0, f.n('me6'), 64));
  }),
  rldic: logical((x, d, s, _b, f) => {
    rotateDouble(x, d, s, f.n('sh6'), mask(f.n('mb6'), 63 - f.n('sh6'), 64));
  }),
  rldimi: logical((x, d, s, _b, f) => {
    insert(x, d, x.b.make('rotl', s, f.big('sh6')), mask(f.n('mb6'), 63 - f.n('sh6'), 64));
  }),
  rldcl: logical((x, d, s, b, f) => x.b.to(d, 'and', x.b.make('rotl', s, b), mask(f.n('mb6'), 63, 64))),
  rldcr: logical((x, d, s, b, f) => x.b.to(d, 'and', x.b.make('rotl', s, b), mask(0, f.n('me6'), 64))),
  // Shift counts of words have six bits, of doublewords seven; the 64-bit shift takes six.
  slw: logical((x, d, s, b) => x.b.to(d, 'zx32', x.b.make('shl', s, b))),
  srw: logical((x, d, s, b) => x.b.to(d, 'shr', x.is64 ? x.b.make('zx32', s) : s, b)),
  sld: logical((x, d, s, b) => {
    x.b.select(d, x.b.make('and', b, 64n), 0n, x.b.make('shl', s, b));
  }),
  srd: logical((x, d, s, b) => {
    x.b.select(d, x.b.make('and', b, 64n), 0n, x.b.make('shr', s, b));
  }),
  sraw: logical((x, d, s, b) => {
    shiftRightAlgebraic(x, d, x.b.make('sx32', s), b);
  }),
  srawi: logical((x, d, s, _b, f) => {
    shiftWordAlgebraic(x, d, s, f.big('sh'));
  }),
  srad: logical((x, d, s, b) => {
    // From 64 on all bits are lost, the sign bit included: shift by 63, and CA is the sign.
    const out = x.b;
    const far = out.make('and', b, 64n);
    const count = out.temp();
    out.select(count, far, 63n, b);
    out.select(CA, far, out.make('shr', s, 63n), out.make('sarlost', s, count));
    shiftCarry(x);
    out.to(d, 'sar', s, count);
  }),
  sradi: logical((x, d, s, _b, f) => {
    shiftRightAlgebraic(x, d, s, f.big('sh6'));
  }),

  mfspr,
  mtspr,
  mftb: helper('timebase'),

  lbz: load(1, D),
  lbzu: load(1, DU),
  lbzx: load(1, X),
  lbzux: load(1, XU),
  lhz: load(2, D),
  lhzu: load(2, DU),
  lhzx: load(2, X),
  lhzux: load(2, XU),
  lha: load(2, { ...D, ...signed }),
  lhau: load(2, { ...DU, ...signed }),
  lhax: load(2, { ...X, ...signed }),
  lhaux: load(2, { ...XU, ...signed }),
  lwz: load(4, D),
  lwzu: load(4, DU),
  lwzx: load(4, X),
  lwzux: load(4, XU),
  lwa: load(4, { ...DS, ...signed }),
  lwax: load(4, { ...X, ...signed }),
  lwaux: load(4, { ...XU, ...signed }),
  ld: load(8, DS),
  ldu: load(8, DSU),
  ldx: load(8, X),
  ldux: load(8, XU),
  lhbrx: load(2, { ...X, ...reversed }),
  lwbrx: load(4, { ...X, ...reversed }),
  ldbrx: load(8, { ...X, ...reversed }),
  stb: store(1, D),
  stbu: store(1, DU),
  stbx: store(1, X),
  stbux: store(1, XU),
  sth: store(2, D),
  sthu: store(2, DU),
  sthx: store(2, X),
  sthux: store(2, XU),
  stw: store(4, D),
  stwu: store(4, DU),
  stwx: store(4, X),
  stwux: store(4, XU),
  std: store(8, DS),
  stdu: store(8, DSU),
  stdx: store(8, X),
  stdux: store(8, XU),
  sthbrx: store(2, { ...X, ...reversed }),
  stwbrx: store(4, { ...X, ...reversed }),
  stdbrx: store(8, { ...X, ...reversed }),
  lmw,
  stmw,
  lswi: loadString,
  stswi: storeString,
  lswx: stringHelper('lswx'),
  stswx: stringHelper('stswx'),
  lq: (x, f) => {
    const [high, low] = loadQuad(x, f.base(), f.big('dq'));
    x.b.mov(f.r('rt'), high);
    x.b.mov(GPR[f.n('rt') + 1]!, low);
    return undefined;
  },
  stq: (x, f) => {
    storeQuad(x, f.base(), f.big('ds'), f.r('rs'), GPR[f.n('rs') + 1]!);
    return undefined;
  },
  lbarx: loadReserve(1),
  lharx: loadReserve(2),
  lwarx: loadReserve(4),
  ldarx: loadReserve(8),
  lqarx: (x, f) => {
    const { b } = x;
    const address = reservationAddress(x, f, 16);
    const [high, low] = loadQuad(x, address, 0n);
    b.mov(RESERVED_ADDRESS, address);
    b.mov(RESERVED_HIGH, high);
    b.mov(RESERVED_VALUE, low);
    b.mov(f.r('rt'), high);
    b.mov(GPR[f.n('rt') + 1]!, low);
    return undefined;
  },
  'stbcx.': storeConditional(1),
  'sthcx.': storeConditional(2),
  'stwcx.': storeConditional(4),
  'stdcx.': storeConditional(8),
  'stqcx.': (x, f) => {
    const { b } = x;
    const address = reservationAddress(x, f, 16);
    const [high, low] = loadQuad(x, address, 0n);
    const unchanged = b.make('and', b.make('seteq', high, RESERVED_HIGH), b.make('seteq', low, RESERVED_VALUE));
    const success = b.make('and', b.make('seteq', address, RESERVED_ADDRESS), unchanged);
    const [newHigh, newLow] = [b.temp(), b.temp()];
    b.select(newHigh, success, f.r('rs'), high);
    b.select(newLow, success, GPR[f.n('rs') + 1]!, low);
    storeQuad(x, address, 0n, newHigh, newLow);
    b.mov(RESERVED_ADDRESS, NO_RESERVATION);
    x.setBits(0, b.make('or', b.make('shl', success, 1n), SO));
    return undefined;
  },

  // The emulator runs instructions one after the other; stores to code are seen at once, unless the
  // machine models stale fetches.
  sync: nothing,
  isync: (x) => (x.synchronises ? { kind: 'sync', next: x.next } : undefined),
  eieio: nothing,
  dcbst: nothing,
  dcbf: nothing,
  dcbt: nothing,
  dcbtst: nothing,
  icbi: nothing,
  dcbz,
  dcbzl: dcbz,
  darn: helper('darn'),

  lfs: loadSingle(D),
  lfsu: loadSingle(DU),
  lfsx: loadSingle(X),
  lfsux: loadSingle(XU),
  lfd: loadDouble(D),
  lfdu: loadDouble(DU),
  lfdx: loadDouble(X),
  lfdux: loadDouble(XU),
  lfiwax: loadIntegerWord(true),
  lfiwzx: loadIntegerWord(false),
  stfs: storeSingle(D),
  stfsu: storeSingle(DU),
  stfsx: storeSingle(X),
  stfsux: storeSingle(XU),
  stfd: storeDouble(D),
  stfdu: storeDouble(DU),
  stfdx: storeDouble(X),
  stfdux: storeDouble(XU),
  stfiwx: (x, f) => {
    const at = place(x, f, X);
    x.b.store(storeName(4, x.width.endian), x.b.make('f64bits', FPR[f.n('frs')]!), at.a, at.b);
    return undefined;
  },
} satisfies Record<PpcMnemonic, Lift>;

/**
 * Rows that the instruction table marks as decoded only, but which need nothing that is missing.
 */
const OTHERS: readonly (readonly [string, Lift])[] = [
  // Hints and locks of caches, streams, and waiting: no-operations to a program.
  ...['dcba', 'icbt', 'dcbtls', 'dcbtstls', 'dcblc', 'dst', 'dstt', 'dstst', 'dststt', 'dss', 'dssall', 'wait'].map(
    (name) => [name, nothing] as const,
  ),
];

// Prefixed instructions (POWER10): one instruction of two words
// -------------------------------------------------------------

/** Base and 34-bit displacement; relative to the instruction itself where `r` is 1. */
function longPlace(x: Lifting, f: Fields): { a: Operand; b: bigint } {
  const displacement = (f.big('d_high') << 16n) | f.big('d_low');
  return f.n('r') === 1 ? { a: 0n, b: x.wrap(x.pc + displacement) } : { a: f.base(), b: x.wrap(displacement) };
}

const longLoad =
  (bytes: Bytes, signed = false): Lift =>
  (x, f) => {
    const { a, b } = longPlace(x, f);
    x.b.load(loadName(bytes, signed, x.width.endian), f.r('rt'), a, b);
    return undefined;
  };

const longStore =
  (bytes: Bytes): Lift =>
  (x, f) => {
    const { a, b } = longPlace(x, f);
    x.b.store(storeName(bytes, x.width.endian), f.r('rt'), a, b);
    return undefined;
  };

const PREFIXED: readonly (readonly [string, Lift])[] = [
  [
    'paddi',
    (x, f) => {
      const { a, b } = longPlace(x, f);
      if (typeof a === 'bigint') x.b.mov(f.r('rt'), b);
      else x.b.to(f.r('rt'), 'add', a, b);
      return undefined;
    },
  ],
  ['pnop', nothing],
  ['plbz', longLoad(1)],
  ['plhz', longLoad(2)],
  ['plha', longLoad(2, true)],
  ['plwz', longLoad(4)],
  ['plwa', longLoad(4, true)],
  ['pld', longLoad(8)],
  ['pstb', longStore(1)],
  ['psth', longStore(2)],
  ['pstw', longStore(4)],
  ['pstd', longStore(8)],
  // The lower address belongs to the lower register in either byte order, unlike `lq` and `stq`.
  [
    'plq',
    (x, f) => {
      if (f.n('rt') % 2 === 1 || f.n('rt') === f.n('ra0')) return INVALID_FORM;
      const { a, b } = longPlace(x, f);
      const name = loadName(8, false, x.width.endian);
      const [first, second] = [x.b.temp(), x.b.temp()];
      x.b.load(name, first, a, b);
      x.b.load(name, second, a, x.wrap(b + 8n));
      x.b.mov(f.r('rt'), first);
      x.b.mov(GPR[f.n('rt') + 1]!, second);
      return undefined;
    },
  ],
  [
    'pstq',
    (x, f) => {
      if (f.n('rt') % 2 === 1) return INVALID_FORM;
      const { a, b } = longPlace(x, f);
      const name = storeName(8, x.width.endian);
      x.b.store(name, f.r('rt'), a, b);
      x.b.store(name, GPR[f.n('rt') + 1]!, a, x.wrap(b + 8n));
      return undefined;
    },
  ],
  [
    'plfs',
    (x, f) => {
      const { a, b } = longPlace(x, f);
      const word = x.b.temp();
      x.b.load(loadName(4, false, x.width.endian), word, a, b);
      x.b.to(FPR[f.n('rt')]!, 'bitsf64', doubleOfSingle(x, word));
      return undefined;
    },
  ],
  [
    'plfd',
    (x, f) => {
      const { a, b } = longPlace(x, f);
      const bits = x.b.temp();
      x.b.load(loadName(8, false, x.width.endian), bits, a, b);
      x.b.to(FPR[f.n('rt')]!, 'bitsf64', bits);
      return undefined;
    },
  ],
  [
    'pstfs',
    (x, f) => {
      const { a, b } = longPlace(x, f);
      const word = singleOfDouble(x, x.b.make('f64bits', FPR[f.n('rt')]!));
      x.b.store(storeName(4, x.width.endian), word, a, b);
      return undefined;
    },
  ],
  [
    'pstfd',
    (x, f) => {
      const { a, b } = longPlace(x, f);
      x.b.store(storeName(8, x.width.endian), x.b.make('f64bits', FPR[f.n('rt')]!), a, b);
      return undefined;
    },
  ],
];

/** Singles in registers of VSX: loads, stores, and conversions that keep every NaN. */
const SINGLES: readonly (readonly [string, Lift])[] = [
  [
    'lxsspx',
    (x, f) => {
      const word = x.b.temp();
      x.b.load(loadName(4, false, x.width.endian), word, indexedAddress(x, f), 0n);
      writeUpper(x, f.n('xt'), doubleOfSingle(x, word));
      return undefined;
    },
  ],
  [
    'stxsspx',
    (x, f) => {
      const word = singleOfDouble(x, readUpper(x, f.n('xs')));
      x.b.store(storeName(4, x.width.endian), word, indexedAddress(x, f), 0n);
      return undefined;
    },
  ],
  [
    'xscvspdpn',
    (x, f) => {
      writeUpper(x, f.n('xt'), doubleOfSingle(x, x.b.make('shr', readUpper(x, f.n('xb')), 32n)));
      return undefined;
    },
  ],
  [
    'xscvdpspn',
    (x, f) => {
      const word = singleOfDouble(x, readUpper(x, f.n('xb')));
      // The second word is undefined: here it is the same.
      writeUpper(x, f.n('xt'), x.b.make('or', word, x.b.make('shl', word, 32n)));
      return undefined;
    },
  ],
];

/** Singles of POWER9 in memory, which are in VR. */
const POWER9_SINGLES: readonly (readonly [string, Lift])[] = [
  [
    'lxssp',
    (x, f) => {
      const word = x.b.temp();
      x.b.load(loadName(4, false, x.width.endian), word, f.base(), f.big('ds'));
      writeUpper(x, 32 + f.n('vrt'), doubleOfSingle(x, word));
      return undefined;
    },
  ],
  [
    'stxssp',
    (x, f) => {
      const word = singleOfDouble(x, readUpper(x, 32 + f.n('vrs')));
      x.b.store(storeName(4, x.width.endian), word, f.base(), f.big('ds'));
      return undefined;
    },
  ],
];

/** The first doubleword of a VSR. */
function readUpper({ b }: Lifting, number: number): Slot {
  return number < 32 ? b.make('f64bits', FPR[number]!) : b.make('high64', FLOAT_SLOTS.vectors[number - 32]!);
}

/** Writes it, and 0 behind it. */
function writeUpper({ b }: Lifting, number: number, bits: Slot): void {
  if (number >= 32) b.to(FLOAT_SLOTS.vectors[number - 32]!, 'join64', 0n, bits);
  else {
    b.to(FPR[number]!, 'bitsf64', bits);
    b.mov(FLOAT_SLOTS.lower[number]!, 0n);
  }
}

const vectors = lazily(() => new Map<string, Lift>(vectorSemantics(FLOAT_SLOTS)));
const floating = lazily(() => floatSemantics(FLOAT_SLOTS));
/** Of VMX. VSX, the rest of `vectors`, is for 64-bit programs. */
const isOfVmx = (name: string): boolean => /^(l|st)?v|^m[ft]vscr|^bcd/.test(name);
const table = lazily(
  () =>
    new Map<string, Lift>([
      ...Object.entries<Lift>(SEMANTICS),
      ...OTHERS,
      ...PREFIXED,
      ...floating().classic,
      ...[...vectors()].filter(([name]) => isOfVmx(name)),
    ]),
);
const table64 = lazily(() => new Map<string, Lift>([...table(), ...vectors(), ...floating().vsx, ...SINGLES]));
const tablePower9 = lazily(
  () =>
    new Map<string, Lift>([
      ...table64(),
      ...power9Semantics(FLOAT_SLOTS),
      ...floating().power9,
      ...POWER9_SINGLES,
      ...['lwat', 'ldat', 'stwat', 'stdat'].map((name): [string, Lift] => [name, helper('atomic')]),
    ]),
);

// ----------------------------------------------------------------------------------------- helpers

const field = (word: number, from: number, bits: number): number => (word >>> (32 - from - bits)) & (2 ** bits - 1);

/** What an instruction with OE computes, with exact integers. */
interface Arithmetic {
  readonly result: bigint;
  readonly overflow: boolean;
  /** Of the low word alone; null: as `overflow`. */
  readonly wordOverflow: boolean | null;
  /** CA and CA32; null where there is none. */
  readonly carries: readonly [bigint, bigint] | null;
}

/** `setsCarry`: the carrying forms. */
function sum(x: bigint, y: bigint, carry: bigint, bits: 32 | 64, setsCarry: boolean): Arithmetic {
  const total = x + y + carry;
  const result = BigInt.asUintN(bits, total);
  const overflow = BigInt.asIntN(bits, result) !== BigInt.asIntN(bits, x) + BigInt.asIntN(bits, y) + carry;
  const lowSum = BigInt.asIntN(32, x) + BigInt.asIntN(32, y) + carry;
  const wordOverflow = BigInt.asIntN(32, lowSum) !== lowSum;
  return { result, overflow, wordOverflow, carries: setsCarry ? [total >> BigInt(bits), x ^ y ^ result] : null };
}

function product(a: bigint, b: bigint, width: 32 | 64, bits: 32 | 64): Arithmetic {
  const exact = BigInt.asIntN(width, a) * BigInt.asIntN(width, b);
  const overflow = BigInt.asIntN(width, exact) !== exact;
  return { result: BigInt.asUintN(bits, exact), overflow, wordOverflow: null, carries: null };
}

/** Extended division has zeros below its dividend. */
const EXTENDED_DIVISION: ReadonlySet<number> = new Set([393, 395, 425, 427]);

function quotient(
  a: bigint,
  b: bigint,
  width: 32 | 64,
  form: { readonly signed: boolean; readonly extended: boolean; readonly bits: 32 | 64 },
): Arithmetic {
  const { signed, extended, bits } = form;
  const take = (value: bigint): bigint => (signed ? BigInt.asIntN(width, value) : BigInt.asUintN(width, value));
  const divisor = take(b);
  const dividend = extended ? take(a) << BigInt(width) : take(a);
  const exact = divisor === 0n ? 0n : dividend / divisor;
  const overflow = divisor === 0n || take(exact) !== exact;
  // Undefined: 0 on overflow, except that the plain forms keep the low bits; the upper half of
  // words is the sign.
  const result = !extended
    ? BigInt.asUintN(width, exact)
    : overflow
      ? 0n
      : BigInt.asUintN(bits, signed ? exact : BigInt.asUintN(width, exact));
  return { result, overflow, wordOverflow: null, carries: null };
}

function arithmeticOf(word: number, a: bigint, b: bigint, ca: bigint, bits: 32 | 64): Arithmetic {
  const opcode = field(word, 22, 9);
  const extended = EXTENDED_DIVISION.has(opcode);
  const inverted = BigInt.asUintN(bits, ~a);
  const ones = BigInt.asUintN(bits, -1n);
  const divide = (width: 32 | 64, signed: boolean): Arithmetic => quotient(a, b, width, { signed, extended, bits });
  switch (opcode) {
    case 266: return sum(a, b, 0n, bits, false);
    case 10: return sum(a, b, 0n, bits, true);
    case 138: return sum(a, b, ca, bits, true);
    case 234: return sum(a, ones, ca, bits, true);
    case 202: return sum(a, 0n, ca, bits, true);
    case 40: return sum(inverted, b, 1n, bits, false);
    case 8: return sum(inverted, b, 1n, bits, true);
    case 136: return sum(inverted, b, ca, bits, true);
    case 232: return sum(inverted, ones, ca, bits, true);
    case 200: return sum(inverted, 0n, ca, bits, true);
    case 104: return sum(inverted, 0n, 1n, bits, false);
    case 235: return product(a, b, 32, bits);
    case 233: return product(a, b, 64, bits);
    case 491: case 427: return divide(32, true);
    case 459: case 395: return divide(32, false);
    case 489: case 425: return divide(64, true);
    case 457: case 393: return divide(64, false);
    default:
      throw new ElftraceError('internal', `no overflow form has extended opcode ${opcode}`, { value: word });
  } // prettier-ignore
}

/** Arithmetic with OE, and extended division: the result, CA, OV, SO and CR0. */
function overflowHelper(is64: boolean): Helper {
  const bits = is64 ? 64 : 32;
  return (state, word) => {
    const a = state.get(GPR[field(word, 11, 5)]!);
    const b = state.get(GPR[field(word, 16, 5)]!);
    const { result, overflow, wordOverflow, carries } = arithmeticOf(word, a, b, state.get(CA), bits);
    if (carries) {
      state.set(CA, carries[0]);
      if (is64) state.set(CA32, carries[1]);
    }
    state.set(GPR[field(word, 6, 5)]!, result);
    if ((word & 0x400) !== 0) {
      state.set(OV, overflow ? 1n : 0n);
      if (is64) state.set(OV32, (wordOverflow ?? overflow) ? 1n : 0n);
      if (overflow) setSummaryOverflow(state, 1n);
    }
    if (word & 1) {
      const value = BigInt.asIntN(bits, result);
      setField(state, 0, (value < 0n ? 8 : value > 0n ? 4 : 2) | Number(state.get(SO)));
    }
    return { kind: 'next' };
  };
}

function trapHelper(width: 32 | 64): Helper {
  return (state, word) => {
    const to = field(word, 6, 5);
    const a = state.get(GPR[field(word, 11, 5)]!);
    const opcode = word >>> 26;
    const b =
      opcode === 31
        ? state.get(GPR[field(word, 16, 5)]!)
        : BigInt.asUintN(64, BigInt.asIntN(16, BigInt(word & 0xffff)));
    const [x, y] = [BigInt.asIntN(width, a), BigInt.asIntN(width, b)];
    const [ux, uy] = [BigInt.asUintN(width, a), BigInt.asUintN(width, b)];
    const hit =
      (to & 16 && x < y) || (to & 8 && x > y) || (to & 4 && x === y) || (to & 2 && ux < uy) || (to & 1 && ux > uy);
    return hit ? { kind: 'trap', trap: 'trap-instruction' } : { kind: 'next' };
  };
}

/** The `i`th byte from the right. */
const byteOf = (value: bigint, i: number): bigint => (value >> BigInt(8 * i)) & 0xffn;

/** Ten bits of densely packed decimal -> three digits (IEEE 754-2008, 3.5.2). */
function digitsOfDeclet(declet: number): number {
  const bit = (i: number): number => (declet >> i) & 1;
  const low = declet & 7;
  const [first, second, third] = [(declet >> 7) & 7, (declet >> 4) & 7, low];
  const digits = (a: number, b: number, c: number): number => (a << 8) | (b << 4) | c;
  const large = (i: number): number => 8 | bit(i);
  if (bit(3) === 0) return digits(first, second, third);
  switch ((bit(2) << 1) | bit(1)) {
    case 0: return digits(first, second, large(0));
    case 1: return digits(first, large(4), (((declet >> 5) & 3) << 1) | bit(0));
    case 2: return digits(large(7), second, (((declet >> 8) & 3) << 1) | bit(0));
  } // prettier-ignore
  switch ((declet >> 5) & 3) {
    case 0: return digits(large(7), large(4), (((declet >> 8) & 3) << 1) | bit(0));
    case 1: return digits(large(7), (((declet >> 8) & 3) << 1) | bit(4), large(0));
    case 2: return digits(first, large(4), large(0));
    default: return digits(large(7), large(4), large(0));
  } // prettier-ignore
}

/**
 * Three digits -> ten bits: the canonical declet. Digits above 9 give what the equations of the
 * manual give.
 */
function decletOfDigits(bcd: number): number {
  const bit = (i: number): number => (bcd >> i) & 1;
  // Names of IEEE 754 table 3.4: a b c d, e f g h, i j k m from the left.
  const [a, b, c, d] = [bit(11), bit(10), bit(9), bit(8)];
  const [e, f, g, h] = [bit(7), bit(6), bit(5), bit(4)];
  const [i, j, k, m] = [bit(3), bit(2), bit(1), bit(0)];
  const not = (value: number): number => value ^ 1;
  const p = b | (a & j) | (a & f & i);
  const q = c | (a & k) | (a & g & i);
  const s = (f & (not(a) | not(i))) | (not(a) & e & j) | (e & i);
  const t = g | (not(a) & e & k) | (a & i);
  const v = a | e | i;
  const w = a | (e & i) | (not(e) & j);
  const x = e | (a & i) | (not(a) & k);
  return (p << 9) | (q << 8) | (d << 7) | (s << 6) | (t << 5) | (h << 4) | (v << 3) | (w << 2) | (x << 1) | m;
}

/** Each word of `value` with both of its 12-bit or 10-bit groups converted. */
function convertDecimal(value: bigint, from: 10 | 12, convert: (group: number) => number): bigint {
  const to = from === 10 ? 12n : 10n;
  let out = 0n;
  for (const word of [0n, 32n]) {
    for (const group of [0n, 1n]) {
      const bits = Number((value >> (word + group * BigInt(from))) & ((1n << BigInt(from)) - 1n));
      out |= BigInt(convert(bits)) << (word + group * to);
    }
  }
  return out;
}

/** The bits of a doubleword that a mask selects, in order at the right end. */
function extractBits(value: bigint, mask: bigint): bigint {
  let out = 0n;
  let to = 0n;
  for (let i = 0n; i < 64n; i++) {
    if (((mask >> i) & 1n) === 0n) continue;
    out |= ((value >> i) & 1n) << to;
    to++;
  }
  return out;
}

function countOnes(value: bigint): number {
  let count = 0;
  for (let rest = value; rest !== 0n; rest &= rest - 1n) count++;
  return count;
}

/** A random number that repeats: splitmix64 of a count. */
function splitmix(count: bigint): bigint {
  const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
  let z = wrap((count + 1n) * 0x9e37_79b9_7f4a_7c15n);
  z = wrap((z ^ (z >> 30n)) * 0xbf58_476d_1ce4_e5b9n);
  z = wrap((z ^ (z >> 27n)) * 0x94d0_49bb_1331_11ebn);
  return z ^ (z >> 31n);
}

/** `lswx` and `stswx`: the byte count is the low end of XER. */
function stringHelpers(wrap: (value: bigint) => bigint): Readonly<Record<string, Helper>> {
  const move =
    (
      act: (state: HelperState, address: bigint, count: number, register: number) => void,
      access: 'read' | 'write',
    ): Helper =>
    (state, word) => {
      const base = field(word, 11, 5);
      const address = wrap((base === 0 ? 0n : state.get(GPR[base]!)) + state.get(GPR[field(word, 16, 5)]!));
      const count = Number(state.get(XER_LOW));
      const bad = state.memory.check(address, count, access);
      if (bad !== null) return { kind: 'fault', address: bad, access };
      act(state, address, count, field(word, 6, 5));
      return { kind: 'next' };
    };
  return {
    lswx: move((state, address, count, register) => {
      const bytes = state.memory.read(address, count);
      if (!bytes) return;
      for (let at = 0; at < count; at += 4) {
        let value = 0n;
        for (let i = 0; i < 4; i++) value = (value << 8n) | BigInt(bytes[at + i] ?? 0);
        state.set(GPR[(register + at / 4) % 32]!, value);
      }
    }, 'read'),
    stswx: move((state, address, count, register) => {
      const bytes = Uint8Array.from({ length: count }, (_, at) => {
        const value = state.get(GPR[(register + (at >> 2)) % 32]!);
        return Number(byteOf(value, 3 - (at & 3)));
      });
      state.memory.write(address, bytes);
    }, 'write'),
  };
}

/** rt or ra := f(first, second) of an X-form, registers by the position of their fields. */
function compute(at: 6 | 11, first: 6 | 11, f: (a: bigint, b: bigint) => bigint): Helper {
  return (state, word) => {
    const value = f(state.get(GPR[field(word, first, 5)]!), state.get(GPR[field(word, 16, 5)]!));
    state.set(GPR[field(word, at, 5)]!, value);
    return { kind: 'next' };
  };
}

function helpers(is64: boolean): Readonly<Record<string, Helper>> {
  return {
    ...stringHelpers((value) => BigInt.asUintN(is64 ? 64 : 32, value)),
    /**
     * Bit i of the result is the bit of rb that byte i of rs names from the left; 0 where it names
     * 64 and more.
     */
    bpermd: compute(11, 6, (selectors, source) => {
      let out = 0n;
      for (let i = 0; i < 8; i++) {
        const index = byteOf(selectors, i);
        if (index < 64n) out |= ((source >> (63n - index)) & 1n) << BigInt(i);
      }
      return out;
    }),
    /** What the mask selects goes to the right end, what it does not to the left end, in order. */
    cfuged: compute(11, 6, (value, mask) => {
      const rest = BigInt.asUintN(64, ~mask);
      return extractBits(value, mask) | (extractBits(value, rest) << BigInt(countOnes(mask)));
    }),
    pextd: compute(11, 6, extractBits),
    /** The right end of the value, spread over the ones of the mask. */
    pdepd: compute(11, 6, (value, mask) => {
      let out = 0n;
      let from = 0n;
      for (let i = 0n; i < 64n; i++) {
        if (((mask >> i) & 1n) === 0n) continue;
        out |= ((value >> from) & 1n) << i;
        from++;
      }
      return out;
    }),
    /**
     * Zeros in front of the first one among the bits that the mask selects; all of them when there
     * is none.
     */
    cntlzdm: compute(11, 6, (value, mask) => {
      const selected = extractBits(value, mask);
      return BigInt(countOnes(mask) - (selected === 0n ? 0 : selected.toString(2).length));
    }),
    cnttzdm: compute(11, 6, (value, mask) => {
      const selected = extractBits(value, mask);
      return BigInt(selected === 0n ? countOnes(mask) : countOnes((selected & -selected) - 1n));
    }),
    /** 6 in each digit whose addition carries not out. */
    addg6s: compute(6, 11, (a, b) => {
      let out = 0n;
      for (let i = 0n; i < 16n; i++) {
        const low = (1n << (4n * i + 4n)) - 1n;
        if (((a & low) + (b & low)) >> (4n * i + 4n) === 0n) out |= 6n << (4n * i);
      }
      return out;
    }),
    cdtbcd: compute(11, 6, (value) => convertDecimal(value, 10, digitsOfDeclet)),
    cbcdtd: compute(11, 6, (value) => convertDecimal(value, 12, decletOfDigits)),
    cmprb: (state, word) => {
      const low = byteOf(state.get(GPR[field(word, 11, 5)]!), 0);
      const ranges = state.get(GPR[field(word, 16, 5)]!);
      const within = (i: number): boolean => byteOf(ranges, i) <= low && low <= byteOf(ranges, i + 1);
      const hit = within(0) || (field(word, 10, 1) === 1 && within(2));
      setField(state, field(word, 6, 3), hit ? 4 : 0);
      return { kind: 'next' };
    },
    cmpeqb: (state, word) => {
      const low = byteOf(state.get(GPR[field(word, 11, 5)]!), 0);
      const bytes = state.get(GPR[field(word, 16, 5)]!);
      let hit = false;
      for (let i = 0; i < 8; i++) if (byteOf(bytes, i) === low) hit = true;
      setField(state, field(word, 6, 3), hit ? 4 : 0);
      return { kind: 'next' };
    },
    /** L = 0: 32 bits, 1 and 2: 64 bits, 3: reserved, which reads as the error value. */
    darn: (state, word) => {
      const kind = field(word, 14, 2);
      const value = splitmix(BigInt(state.instructions));
      const number = kind === 0 ? value >> 32n : kind === 3 ? 0xffff_ffff_ffff_ffffn : value;
      state.set(GPR[field(word, 6, 5)]!, number);
      return { kind: 'next' };
    },
    overflow: overflowHelper(is64),
    trapword: trapHelper(32),
    trapdouble: trapHelper(64),
    mtxer: (state, word) => {
      writeXer(state, state.get(GPR[field(word, 6, 5)]!), is64);
      return { kind: 'next' };
    },
    mcrxr: (state, word) => {
      const xer = readXer(state);
      setField(state, field(word, 6, 3), Number(xer >> 28n));
      writeXer(state, xer & 0x0fff_ffffn, is64);
      return { kind: 'next' };
    },
    /** Time is derived from the number of completed instructions, so a run repeats exactly. */
    timebase: (state, word) => {
      const spr = field(word, 11, 5) | (field(word, 16, 5) << 5);
      const ticks = state.time;
      const upper = spr === SPR_TIME_UPPER;
      state.set(GPR[field(word, 6, 5)]!, upper ? ticks >> 32n : BigInt.asUintN(is64 ? 64 : 32, ticks));
      return { kind: 'next' };
    },
  };
}

// --------------------------------------------------------------------------------------- front end

/** A block ends when it has this many ops, so that its records are bounded (`dcbz`, `stmw`). */
const MAX_OPS = 300;

/** What the lifter needs from the instruction table: the row of a word, or null. */
export type PpcDecode = (word: number) => Decoded | null;

/** What a word is, wherever it stands. */
interface Meaning {
  /** null: no instruction we know. */
  readonly mnemonic: string | null;
  readonly emit: Lift;
  readonly fields: Fields;
}

function meaningOf(mnemonic: string | null, operands: Operands, processor: Processor): Meaning {
  const semantics = { ppc32: table, power8: table64, power9: tablePower9 }[processor];
  const emit = (mnemonic !== null && semantics().get(mnemonic)) || unsupported;
  return { mnemonic, emit, fields: new Fields(operands) };
}

/** Whose vectors and floating point are executed. */
export type Processor = 'ppc32' | 'power8' | 'power9';

function helpersOf(processor: Processor, endian: Endian, floats: FloatState): Lifter['helpers'] {
  const is64 = processor !== 'ppc32';
  return {
    ...helpers(is64),
    ...floatHelpers(floats, FLOAT_SLOTS, setField, is64),
    vector: vectorHelper(FLOAT_SLOTS, endian, (word) => floats.of(word), setField),
    ...(processor === 'power9' ? power9Helpers(FLOAT_SLOTS, GPR, endian, (word) => floats.of(word)) : {}),
  };
}

/**
 * The front end for one processor and byte order.
 * @param decode  decoder over the rows of its size
 */
export function createPpcLifter(processor: Processor, endian: Endian, decode: PpcDecode): Lifter {
  const is64 = processor !== 'ppc32';
  const wordBytes = is64 ? 8 : 4;
  const width: Width = { is64, endian };
  const floats = new FloatState(FLOAT_SLOTS, decode);
  const meanings = new WordMemo((word) => {
    const decoded = decode(word);
    return meaningOf(decoded?.row.mnemonic ?? null, decoded?.operands ?? {}, processor);
  });
  const prefixed = (prefix: number, suffix: number): Meaning => {
    const { mnemonic, operands } = decodePrefixed(prefix, suffix);
    return meaningOf(mnemonic, operands, processor);
  };
  const lift = (code: Uint8Array, address: Address, limits: LiftLimits): Block => {
    const view = new ByteView(code, endian, 'code');
    const builder = new BlockBuilder(SLOTS, address);
    const lifting = new Lifting(builder, width, 0, limits.slow === true);
    lifting.synchronises = limits.synchronises === true;
    let pc = address;
    // The view may end before the window does; a block of its own decides.
    const endOfCode = (): Block => builder.finish(pc, builder.count > 0 ? { kind: 'jmp', pc } : { kind: 'fetch' });
    for (let offset = 0; ; offset += 4) {
      if (offset + 4 > code.length) return endOfCode();
      const full = builder.count >= limits.maxInstructions || builder.size >= MAX_OPS;
      if (builder.count > 0 && (full || limits.startsAt(pc))) return builder.finish(pc, { kind: 'jmp', pc });
      const word = view.u32(offset);
      lifting.word = word;
      lifting.pc = pc;
      const sizeBytes = is64 && isPrefix(word) ? 8 : 4;
      if (offset + sizeBytes > code.length) return endOfCode();
      const { mnemonic, emit, fields } = sizeBytes === 8 ? prefixed(word, view.u32(offset + 4)) : meanings.of(word);
      builder.begin(pc);
      const straddles = sizeBytes === 8 && (pc & 63n) === 60n;
      const terminator: Terminator | undefined = straddles ? ALIGNMENT : emit(lifting, fields);
      if (terminator?.kind === 'unknown') {
        builder.cancel();
        return builder.finish(pc, { kind: 'unknown', mnemonic, sizeBytes });
      }
      if (sizeBytes === 8) offset += 4;
      pc = BigInt.asUintN(8 * wordBytes, pc + BigInt(sizeBytes));
      if (terminator) return builder.finish(pc, terminator);
    }
  };
  return {
    addressBits: is64 ? 64 : 32,
    codeAlignBytes: 4,
    stackPointer: { slot: SLOTS.slot('r1'), popped: 0n },
    lanes: true,
    floats: true,
    endian,
    slots: SLOTS,
    registers: registerViews(is64, endian, floats),
    helpers: helpersOf(processor, endian, floats),
    reservation: { address: RESERVED_ADDRESS, none: NO_RESERVATION, granuleBytes: CACHE_LINE_BYTES[is64 ? 64 : 32] },
    lift,
  };
}
