/**
 * Instruction -> IR for A64 in user mode (EL0, Linux): integers, all forms of memory access,
 * exclusives and atomics, system instructions; vectors and floating point with the files beside
 * this one, which do most of them in ops and the others by two helpers.
 *
 * What differs from most machines:
 *
 * - A 32-bit operation clears the upper half of its destination. Sources are taken from the low 32
 *   bits of the register, so the 32-bit ops, which truncate, need no help; the others get `zx32`.
 * - Register 31 is the zero register or the stack pointer, by operand. As a source it is the
 *   constant 0, as a destination a temporary that is never read.
 * - NZCV is one condition record (four slots). `subs`, `adds` and the logical forms keep their
 *   operands (`ands` is the addition of its result and 0); a condition in the same block compares
 *   those operands, elsewhere `testnzcv` works out the four bits. `ccmp` keeps the condition in C
 *   beside the operands: nothing is decided before it is asked for.
 * - `ldxr`/`stxr` keep address and value of the reservation and compare both, and a failing `stxr`
 *   stores what is there: it needs write permission. Every instruction is atomic. Exclusive,
 *   ordered and atomic accesses that are not aligned raise the alignment fault (there is no
 *   FEAT_LSE2), and so does an access through a stack pointer that is not a multiple of 16.
 * - Pointer authentication is there with all keys switched off, as after
 *   prctl(PR_PAC_SET_ENABLED_KEYS, all, 0): `pac…` and `aut…` leave the pointer as it is, `xpac…`
 *   strips, the combined branches branch. `pacga` stops with its name: its result is of a key.
 * - Branch target identification is checked in guarded memory: `br` and `blr` set BTYPE, and every
 *   block there begins with a check. PACIASP is a landing pad for calls, not for jumps (Linux sets
 *   SCTLR_EL1.BT0).
 * - The top byte of an address is not ignored: tagged pointers fault.
 * - What the architecture leaves open is done as qemu-user does: write-back wins over a load of the
 *   same register, the first register of a pair over the second. A `stxr` of another size than its
 *   `ldxr` fails unless the value is the same.
 *
 * Accesses that may fault come before the other effects of their instruction.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C6 (base instructions), D1 (exceptions),
 * B2.9 (exclusives).
 */
import {
  BlockBuilder,
  inverse,
  recordNzcv,
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
  RegisterView,
  Slot,
  StoreName,
  Terminator,
} from '../machine/ir.js';
import { ByteView } from '../bytes.js';
import { AL, conditionHolds, CS, EQ, GE, GT, HI, MI, VS } from './conditions.js';
import { floatSemantics, modeOf, setMode } from './float-lift.js';
import { executeFloat } from './float-instructions.js';
import type { FloatRegisters } from './float-instructions.js';
import { cipherSemantics, CRYPTOGRAPHY_ROWS, executeCryptography } from './cryptography.js';
import type { CryptographyRow } from './cryptography.js';
import { elementOf, fillVector, readElement, replicate, setVector, truncated, writeElement } from './elements.js';
import { structureSemantics } from './structures.js';
import { executeLater, LATER_ROWS } from './later-rows.js';
import type { LaterRow } from './later-rows.js';
import { arithmeticSemantics } from './vector-arithmetic.js';
import { executeVector, INTEGER_ROWS } from './vector-rows.js';
import type { IntegerRow } from './vector-rows.js';
import { vectorSemantics } from './vectors.js';
import type { VectorSlots } from './vectors.js';
import { ElftraceError } from '../errors.js';
import { lazily, WordMemo } from '../isa/memo.js';
import type { Operands } from '../isa/table.js';
import type { Address } from '../units.js';
import { arm64Table, decodeBitmask } from './isa.js';
import type { Arm64Mnemonic } from './isa.js';

// ------------------------------------------------------------------------------------------- slots

const numbered = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

/** Of sums that saturate, element by element. */
const VECTOR_TEMPORARIES = 32;
const SLOTS = new SlotLayout(
  [
    ...numbered('x', 31).map((name) => [name, 'i64'] as const),
    ...[
      'sp',
      // The condition record: kind, operands, and what the kind needs besides.
      'flagsk',
      'flagsa',
      'flagsb',
      'flagsc',
      'btype',
      'resaddress',
      'resvalue',
      'reshigh',
      'tpidr_el0',
      'fpcr',
      'fpsr',
      'float mode',
      'dit',
      'ssbs',
    ].map((name) => [name, 'i64'] as const),
    ...numbered('v', 32).map((name) => [name, 'v128'] as const),
    // The first half of a pair while the second is loaded.
    ['vscratch', 'v128'],
    // What a structure load has read.
    ...numbered('read', 4).map((name) => [name, 'v128'] as const),
  ],
  VECTOR_TEMPORARIES,
);
const GPR = numbered('x', 31).map((name) => SLOTS.slot(name));
const SP = SLOTS.slot('sp');
const FLAGS = SLOTS.slot('flagsk');
const FLAGS_A = FLAGS + 1;
const FLAGS_B = FLAGS + 2;
const FLAGS_C = FLAGS + 3;
/** 0, or 1 << BTYPE: how the last instruction branched. Kept only where memory is guarded. */
const BTYPE = SLOTS.slot('btype');
const RESERVED_ADDRESS = SLOTS.slot('resaddress');
const RESERVED_VALUE = SLOTS.slot('resvalue');
/** Upper doubleword of a reserved quadword. */
const RESERVED_HIGH = SLOTS.slot('reshigh');
const FPCR = SLOTS.slot('fpcr');
const FPSR = SLOTS.slot('fpsr');
/** What they say to the ops of floating point (`modeOf`). */
const MODE = SLOTS.slot('float mode');
const VECTOR = numbered('v', 32).map((name) => SLOTS.slot(name));
const VECTOR_SCRATCH = SLOTS.slot('vscratch');
const LANE_SLOTS: VectorSlots = { registers: VECTOR };
const READ = numbered('read', 4).map((name) => SLOTS.slot(name));
/**
 * No access can have this address: a reservation is aligned, or of one byte and then at the end of
 * the address space.
 */
const NO_RESERVATION = 0xffff_ffff_ffff_ffffn;
/** Reservations are lost by stores to this many bytes around: what CTR_EL0.ERG says. */
const GRANULE_BYTES = 64;
/** Bytes that `dc zva` clears: what DCZID_EL0 says. */
const ZERO_BYTES = 64;

const ONES = { 64: 0xffff_ffff_ffff_ffffn, 32: 0xffff_ffffn } as const;

// ------------------------------------------------------------------------- registers as people see

function readFlags(state: HelperState): bigint {
  const [k, a, b, c] = [state.get(FLAGS), state.get(FLAGS_A), state.get(FLAGS_B), state.get(FLAGS_C)];
  return BigInt(recordNzcv(k, a, b, c)) << 28n;
}

function writeFlags(state: HelperState, value: bigint): void {
  state.set(FLAGS, BigInt(RECORD_KINDS.bits.code));
  state.set(FLAGS_A, (value >> 28n) & 15n);
  state.set(FLAGS_B, 0n);
  state.set(FLAGS_C, 0n);
}

/** Writes FPCR or FPSR. */
function setFloatControl(state: HelperState, slot: Slot, value: bigint): void {
  state.set(slot, value);
  state.set(MODE, modeOf(state.get(FPCR), state.get(FPSR)));
}

const REGISTERS: readonly RegisterView[] = [
  ...GPR.map((slot, i) => slotRegister(`x${i}`, slot, 64)),
  slotRegister('sp', SP, 64),
  { name: 'nzcv', widthBits: 32, read: readFlags, write: writeFlags },
  slotRegister('tpidr_el0', SLOTS.slot('tpidr_el0'), 64),
  ...[FPCR, FPSR].map((slot): RegisterView => ({
    name: slot === FPCR ? 'fpcr' : 'fpsr',
    widthBits: 32,
    read: (state) => state.get(slot),
    write: (state, value) => {
      setFloatControl(state, slot, value & 0xffff_ffffn);
    },
  })),
  {
    name: 'btype',
    widthBits: 32,
    read: (state) => BigInt(31 - Math.clz32(Number(state.get(BTYPE)) | 1)),
    write: (state, value) => {
      state.set(BTYPE, (value & 3n) === 0n ? 0n : 1n << (value & 3n));
    },
  },
  ...VECTOR.map((slot, i) => vectorRegister(`v${i}`, slot, slot)),
];

// -------------------------------------------------------------------------------------- conditions

/** A condition as a comparison of two operands, or known in advance. */
type Test =
  | boolean
  | {
      readonly condition: Condition;
      readonly width: 32 | 64;
      readonly a: Slot;
      readonly b: Operand;
      /** `a` is 0 or 1 and compared with 0. */
      readonly bit?: true;
    };

/** What is known of the record within the block. */
type Known =
  | {
      readonly kind: 'sub' | 'add' | 'adc';
      readonly width: 32 | 64;
      /** A constant, or the slot of B. */
      readonly b: Operand;
      /** Slot that held the result when so many instructions were begun. */
      readonly result?: { readonly slot: Slot; readonly count: number };
    }
  | { readonly kind: 'csub' | 'cadd'; readonly width: 32 | 64; readonly b: Operand; readonly literal: number }
  | { readonly kind: 'bits' };

/** Bit i: the condition holds for flags i. */
const CONDITION_MASKS = Array.from({ length: 16 }, (_, condition) => {
  let mask = 0n;
  for (let nzcv = 0; nzcv < 16; nzcv++) if (conditionHolds(condition, nzcv)) mask |= 1n << BigInt(nzcv);
  return mask;
});

const not = (test: Test): Test => (typeof test === 'boolean' ? !test : { ...test, condition: inverse(test.condition) });

// ----------------------------------------------------------------------------------------- lifting

/** Operations that have a 32-bit form. */
type Sized = 'add' | 'sub' | 'mul' | 'and' | 'or' | 'xor' | 'shl' | 'shr' | 'sar' | 'rotr' | 'clz';

/** An instruction being lifted. */
class Lifting {
  private known: Known | undefined;
  /** Registers whose values are constants, so far in the block. */
  private readonly constants = new Map<number, bigint>();
  /** The stack pointer was found to be a multiple of 16 in this block. */
  private stackAligned = false;
  pc: Address = 0n;
  word = 0;
  /** `isb` must end the block: see `LiftLimits.synchronises`. */
  synchronises = false;
  /** Some memory is guarded: branches set BTYPE. */
  tracksBranches = false;
  /** The block lies in guarded memory. */
  guarded = false;
  /** See `LiftLimits.slow`. */
  slow = false;
  /** What processors of one kind have in identification registers, by their numbers. */
  identification: ReadonlyMap<number, bigint> = BASE;

  constructor(readonly b: BlockBuilder) {}

  get next(): Address {
    return BigInt.asUintN(64, this.pc + 4n);
  }

  relative(offset: bigint): Address {
    return BigInt.asUintN(64, this.pc + offset);
  }

  // ------------------------------------------------------------------------------------- registers

  /** A register as a source; 31 is zero. */
  source(number: number): Operand {
    return number === 31 ? 0n : GPR[number]!;
  }

  /** A source in a slot. */
  slot(number: number): Slot {
    return number === 31 ? this.b.make('mov', 0n) : GPR[number]!;
  }

  /** A register that is about to be written; 31 is nowhere. */
  target(number: number): Slot {
    if (number === 31) return this.b.temp();
    this.constants.delete(number);
    return GPR[number]!;
  }

  sourceOrStack(number: number): Slot {
    return number === 31 ? SP : GPR[number]!;
  }

  targetOrStack(number: number): Slot {
    if (number !== 31) return this.target(number);
    this.stackAligned = false;
    return SP;
  }

  /** Sets a register to a constant, which later instructions of the block may use. */
  setConstant(number: number, value: bigint): void {
    this.b.mov(this.target(number), value);
    if (number !== 31) this.constants.set(number, value);
  }

  constantOf(number: number): bigint | undefined {
    return this.constants.get(number);
  }

  /**
   * Base register of an access. An unaligned stack pointer faults (Arm ARM, CheckSPAlignment; Linux
   * sets SA0).
   */
  base(number: number): Slot {
    if (number !== 31) return GPR[number]!;
    if (!this.stackAligned) this.b.aligned(SP, 15n);
    this.stackAligned = true;
    return SP;
  }

  /** register := register + amount, for bases and the stack pointer. */
  advance(number: number, amount: bigint): void {
    const aligned = number === 31 && this.stackAligned && amount % 16n === 0n;
    const slot = this.targetOrStack(number);
    this.b.to(slot, 'add', slot, BigInt.asUintN(64, amount));
    this.stackAligned = aligned || (number !== 31 && this.stackAligned);
  }

  sized(name: Sized, sf: boolean): Sized | `${Sized}32` {
    return sf ? name : `${name}32`;
  }

  // ----------------------------------------------------------------------------------------- flags

  private record(kind: 'sub' | 'add', width: 32 | 64, a: Operand, b: Operand, conditional: boolean): Operand {
    this.b.record(FLAGS, `nzcv${conditional ? 'c' : ''}${kind}${width}`, a, b);
    return typeof b === 'bigint' ? b : FLAGS_B;
  }

  /** NZCV of a - b or a + b. `result`: the slot that gets the result now. */
  setFlags(kind: 'sub' | 'add', width: 32 | 64, a: Operand, b: Operand, result?: Slot): void {
    const kept = this.record(kind, width, a, b, false);
    this.known = { kind, width, b: kept };
    if (result !== undefined) this.known = { ...this.known, result: { slot: result, count: this.b.count } };
  }

  /** NZCV of a logical operation: C and V are 0, as those of the addition of 0. */
  setLogicalFlags(width: 32 | 64, result: Slot): void {
    this.setFlags('add', width, result, 0n);
  }

  /** NZCV of a + b + carry. */
  setCarryFlags(width: 32 | 64, a: Operand, b: Operand, carry: Slot): void {
    this.b.record(FLAGS, `nzcvadc${width}`, a, b);
    this.b.mov(FLAGS_C, carry);
    this.known = { kind: 'adc', width, b: typeof b === 'bigint' ? b : FLAGS_B };
  }

  /** NZCV of a comparison where `condition` holds, of `literal` where it does not. */
  setConditionalFlags(
    kind: 'sub' | 'add',
    width: 32 | 64,
    condition: number,
    literal: number,
    a: Operand,
    b: Operand,
  ): void {
    if (condition >> 1 === AL) {
      this.setFlags(kind, width, a, b);
      return;
    }
    if (literal === 0) this.value(condition, FLAGS_C);
    else this.b.to(FLAGS_C, 'or', this.value(condition), BigInt(literal << 1));
    const kept = this.record(kind, width, a, b, true);
    this.known = { kind: `c${kind}`, width, b: kept, literal };
  }

  setBits(nzcv: Operand): void {
    this.b.record(FLAGS, 'bits', nzcv, 0n);
    this.known = { kind: 'bits' };
  }

  /** The four flags as a number in a slot. */
  nzcv(): Slot {
    return this.known?.kind === 'bits' ? FLAGS_A : this.b.test('testnzcv', FLAGS);
  }

  /** The condition as a comparison. */
  condition(condition: number): Test {
    if (condition >> 1 === AL) return true;
    const { known } = this;
    if (known && known.kind !== 'bits') {
      if ('literal' in known) {
        // Where the literal fulfils the condition: not (C and not the comparison); else: C and the
        // comparison.
        const instead = conditionHolds(condition, known.literal);
        const compared = this.compare(
          known.kind === 'csub' ? 'sub' : 'add',
          known.width,
          known.b,
          condition ^ Number(instead),
        );
        if (compared !== null) {
          if (compared === false) return instead;
          const both =
            compared === true ? this.b.make('and', FLAGS_C, 1n) : this.b.make('and', FLAGS_C, this.asValue(compared));
          return { condition: instead ? 'eq' : 'ne', width: 64, a: both, b: 0n, bit: true };
        }
      } else {
        const fresh = known.result?.count === this.b.count - 1 ? known.result.slot : undefined;
        const compared = this.compare(known.kind, known.width, known.b, condition, fresh);
        if (compared !== null) return compared;
      }
    }
    const flags = this.nzcv();
    const single = { [EQ]: 4n, [CS]: 2n, [MI]: 8n, [VS]: 1n }[condition >> 1];
    if (single !== undefined) {
      const bit = this.b.make('and', flags, single);
      return { condition: (condition & 1) === 0 ? 'ne' : 'eq', width: 64, a: bit, b: 0n };
    }
    const bit = this.b.make('and', this.b.make('shr', CONDITION_MASKS[condition]!, flags), 1n);
    return { condition: 'ne', width: 64, a: bit, b: 0n, bit: true };
  }

  /** A condition on the comparison of A and `second`; null: it takes all four flags. */
  private compare(
    kind: 'sub' | 'add' | 'adc',
    width: 32 | 64,
    second: Operand,
    condition: number,
    result?: Slot,
  ): Test | null {
    const plain = this.compareBase(kind, width, second, condition >> 1, result);
    return plain === null || (condition & 1) === 0 ? plain : not(plain);
  }

  private compareBase(
    kind: 'sub' | 'add' | 'adc',
    width: 32 | 64,
    second: Operand,
    base: number,
    result?: Slot,
  ): Test | null {
    const { b } = this;
    const a = FLAGS_A;
    // The result of a 32-bit instruction is zero-extended.
    if (result !== undefined && base === EQ) return { condition: 'eq', width: 64, a: result, b: 0n };
    if (result !== undefined && base === MI) return { condition: 'lt', width, a: result, b: 0n };
    if (kind === 'sub') {
      switch (base) {
        case EQ: return { condition: 'eq', width, a, b: second };
        case CS: return { condition: 'geu', width, a, b: second };
        case HI: return { condition: 'gtu', width, a, b: second };
        case GE: return { condition: 'ge', width, a, b: second };
        case GT: return { condition: 'gt', width, a, b: second };
      } // prettier-ignore
      if (second === 0n) return base === VS ? false : { condition: 'lt', width, a, b: 0n };
      const difference = b.make('sub', a, second);
      if (base === MI) return { condition: 'lt', width, a: difference, b: 0n };
      const overflow = b.make('and', b.make('xor', a, second), b.make('xor', a, difference));
      return { condition: 'lt', width, a: overflow, b: 0n };
    }
    if (kind === 'add' && second === 0n) {
      switch (base) {
        case EQ: return { condition: 'eq', width, a, b: 0n };
        case MI: return { condition: 'lt', width, a, b: 0n };
        case GE: return { condition: 'ge', width, a, b: 0n };
        case GT: return { condition: 'gt', width, a, b: 0n };
        default: return false;
      } // prettier-ignore
    }
    let sum = b.make('add', a, second);
    if (kind === 'adc') sum = b.make('add', sum, FLAGS_C);
    switch (base) {
      case EQ:
        return { condition: 'eq', width, a: sum, b: 0n };
      case MI:
        return { condition: 'lt', width, a: sum, b: 0n };
      case CS: {
        // Carry out of the top: both operands have it, or one has and the sum has not.
        if (kind === 'add') return { condition: 'ltu', width, a: sum, b: a };
        const either = b.make('and', b.make('or', a, second), b.make('xor', sum, ONES[64]));
        return { condition: 'lt', width, a: b.make('or', b.make('and', a, second), either), b: 0n };
      }
      case VS:
      case GE: {
        const overflow = b.make('and', b.make('xor', a, sum), b.make('xor', second, sum));
        if (base === VS) return { condition: 'lt', width, a: overflow, b: 0n };
        return { condition: 'ge', width, a: b.make('xor', sum, overflow), b: 0n };
      }
      default:
        return null;
    }
  }

  private asValue(test: Exclude<Test, boolean>, d: Slot = this.b.temp()): Slot {
    const { condition, width, a, b } = test;
    if (test.bit === true && condition === 'ne') this.b.mov(d, a);
    else if (test.bit === true) this.b.to(d, 'xor', a, 1n);
    else this.b.to(d, width === 32 ? `set${condition}32` : `set${condition}`, a, b);
    return d;
  }

  /** A condition as 0 or 1, in `d` or a temporary. */
  value(condition: number, d?: Slot): Slot {
    const test = this.condition(condition);
    if (typeof test !== 'boolean') {
      // A bit that is not wanted elsewhere needs no copy.
      if (d === undefined && test.bit === true && test.condition === 'ne') return test.a;
      return this.asValue(test, d);
    }
    const out = d ?? this.b.temp();
    this.b.mov(out, test ? 1n : 0n);
    return out;
  }
}

/** Operands by the names of the rows. */
class Fields {
  constructor(readonly operands: Operands) {}

  n(name: string): number {
    const value = this.operands[name];
    if (value === undefined) throw new ElftraceError('internal', `the row has no operand ${name}`, { what: name });
    return value;
  }

  has(name: string): boolean {
    return this.operands[name] !== undefined;
  }

  big(name: string): bigint {
    return BigInt(this.n(name));
  }

  /** The value of the first of these names that the row has. */
  any(...names: readonly string[]): number {
    const name = names.find((each) => this.operands[each] !== undefined);
    return this.n(name ?? names[0]!);
  }

  /** 64-bit form. */
  get sf(): boolean {
    return this.operands['sf'] === 1;
  }

  get width(): 32 | 64 {
    return this.sf ? 64 : 32;
  }
}

/** Emits one instruction. A terminator ends the block; nothing goes on at the next instruction. */
type Lift = (x: Lifting, f: Fields) => Terminator | undefined;

const UNDEFINED = { kind: 'trap', trap: 'undefined' } as const satisfies Terminator;

/** Has no semantics here yet: the front end stops with its name and does not come here. */
const unsupported: Lift = () => UNDEFINED;

/** Undefined at EL0: belongs to kernels, hypervisors, debuggers. */
const undefinedHere: Lift = () => UNDEFINED;

/** An instruction that does nothing a program can see. */
const nothing: Lift = () => undefined;

// Moves, additions, logic
// -------------------------------------------------------------------------------------------------

const addSubImmediate =
  (op: 'add' | 'sub', flags: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const { sf, width } = f;
    const constant = f.big('imm12') << (f.n('sh') === 1 ? 12n : 0n);
    const n = f.n('rnsp');
    if (flags) {
      const a = x.sourceOrStack(n);
      const d = f.n('rd');
      x.setFlags(op, width, a, constant, d === 31 ? undefined : GPR[d]!);
      if (d !== 31) b.to(x.target(d), x.sized(op, sf), a, constant);
      return undefined;
    }
    const d = f.n('rdsp');
    if (d === 31 && n === 31 && sf) {
      x.advance(31, op === 'add' ? constant : -constant);
      return undefined;
    }
    const known = n === 31 ? undefined : x.constantOf(n);
    if (known !== undefined && d !== 31) {
      x.setConstant(d, BigInt.asUintN(width, op === 'add' ? known + constant : known - constant));
      return undefined;
    }
    const a = x.sourceOrStack(n);
    const target = x.targetOrStack(d);
    if (constant === 0n && sf) b.mov(target, a);
    else b.to(target, x.sized(op, sf), a, constant);
    return undefined;
  };

/** The second operand of a shifted register form. */
function shifted(x: Lifting, f: Fields): Operand {
  const source = x.source(f.n('rm'));
  const amount = f.big('amount');
  if (amount === 0n || typeof source === 'bigint') return source;
  return x.b.make(x.sized((['shl', 'shr', 'sar', 'rotr'] as const)[f.n('shift')]!, f.sf), source, amount);
}

/** The second operand of an extended register form. */
function extended(x: Lifting, f: Fields): Operand {
  const source = x.source(f.n('rmx'));
  if (typeof source === 'bigint') return source;
  const value = extend(x, source, f.n('option'));
  const amount = f.big('extend');
  return amount === 0n ? value : x.b.make('shl', value, amount);
}

/** UXTB to SXTX. */
function extend(x: Lifting, source: Slot, option: number): Slot {
  const op = (['zx8', 'zx16', 'zx32', null, 'sx8', 'sx16', 'sx32', null] as const)[option]!;
  return op === null ? source : x.b.make(op, source);
}

const SCALED_ADD = ['addsh1', 'addsh2', 'addsh3'] as const;

const addSubShifted =
  (op: 'add' | 'sub', flags: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const { sf, width } = f;
    const [d, n] = [f.n('rd'), f.n('rn')];
    const a = x.source(n);
    // a + (m << 1..3) is one op.
    const scale = f.n('amount');
    if (
      op === 'add' &&
      !flags &&
      sf &&
      f.n('shift') === 0 &&
      scale >= 1 &&
      scale <= 3 &&
      n !== 31 &&
      f.n('rm') !== 31
    ) {
      b.to(x.target(d), SCALED_ADD[scale - 1]!, a, x.source(f.n('rm')));
      return undefined;
    }
    const second = shifted(x, f);
    if (flags) {
      x.setFlags(op, width, a, second, d === 31 ? undefined : GPR[d]!);
      if (d === 31) return undefined;
    }
    const target = x.target(d);
    if (op === 'sub' && n === 31) b.to(target, x.sized('mul', sf), second, ONES[width]);
    else b.to(target, x.sized(op, sf), a, second);
    return undefined;
  };

const addSubExtended =
  (op: 'add' | 'sub', flags: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const { sf, width } = f;
    const a = x.sourceOrStack(f.n('rnsp'));
    const second = extended(x, f);
    if (flags) {
      const d = f.n('rd');
      x.setFlags(op, width, a, second, d === 31 ? undefined : GPR[d]!);
      if (d !== 31) b.to(x.target(d), x.sized(op, sf), a, second);
    } else b.to(x.targetOrStack(f.n('rdsp')), x.sized(op, sf), a, second);
    return undefined;
  };

/** adc, sbc: a + b + carry, b inverted for sbc. */
const addCarry =
  (subtract: boolean, flags: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const { sf, width } = f;
    const a = x.source(f.n('rn'));
    const plain = x.source(f.n('rm'));
    const second = !subtract ? plain : typeof plain === 'bigint' ? ONES[64] : b.make('xor', plain, ONES[64]);
    const carry = x.value(2 * CS);
    const sum = b.make('add', b.make('add', a, second), carry);
    if (flags) x.setCarryFlags(width, a, second, carry);
    b.to(x.target(f.n('rd')), sf ? 'mov' : 'zx32', sum);
    return undefined;
  };

/** A logical operation in one or two ops; `second` may be a constant. */
function logical(x: Lifting, op: 'and' | 'or' | 'xor', sf: boolean, d: Slot, a: Operand, second: Operand): void {
  const { b } = x;
  if (op !== 'and' && a === 0n) b.to(d, sf ? 'mov' : 'zx32', second);
  else if (op !== 'and' && second === 0n) b.to(d, sf ? 'mov' : 'zx32', a);
  else if (op !== 'xor' && a === second) b.to(d, sf ? 'mov' : 'zx32', a);
  else b.to(d, x.sized(op, sf), a, second);
}

const logicalImmediate =
  (op: 'and' | 'or' | 'xor', flags: boolean): Lift =>
  (x, f) => {
    const { sf, width } = f;
    const constant = decodeBitmask(f.n('bitmask'), width) ?? 0n;
    const a = x.source(f.n('rn'));
    if (flags) {
      const d = x.target(f.n('rd'));
      logical(x, op, sf, d, a, constant);
      x.setLogicalFlags(width, d);
    } else if (f.n('rn') === 31 && f.n('rdsp') !== 31 && op !== 'and') x.setConstant(f.n('rdsp'), constant);
    else logical(x, op, sf, x.targetOrStack(f.n('rdsp')), a, constant);
    return undefined;
  };

const logicalShifted =
  (op: 'and' | 'or' | 'xor', invert: boolean, flags = false): Lift =>
  (x, f) => {
    const { sf, width } = f;
    const a = x.source(f.n('rn'));
    let second = shifted(x, f);
    if (invert) second = typeof second === 'bigint' ? ONES[width] : x.b.make('xor', second, ONES[64]);
    const d = x.target(f.n('rd'));
    logical(x, op, sf, d, a, second);
    if (flags) x.setLogicalFlags(width, d);
    return undefined;
  };

const moveWide =
  (kind: 'n' | 'z' | 'k'): Lift =>
  (x, f) => {
    const { width } = f;
    const shift = 16n * f.big('hw');
    const value = f.big('imm16') << shift;
    const d = f.n('rd');
    if (kind !== 'k') {
      x.setConstant(d, kind === 'z' ? value : BigInt.asUintN(width, ~value));
      return undefined;
    }
    const rest = ONES[width] & ~(0xffffn << shift);
    const known = d === 31 ? undefined : x.constantOf(d);
    if (known !== undefined) x.setConstant(d, (known & rest) | value);
    else if (d !== 31) {
      const slot = x.target(d);
      const kept = x.b.make('and', slot, rest);
      x.b.to(slot, 'or', kept, value);
    }
    return undefined;
  };

const pcRelative =
  (page: boolean): Lift =>
  (x, f) => {
    const place = page ? (x.pc & ~0xfffn) + (f.big('pages') << 12n) : x.pc + f.big('off');
    x.setConstant(f.n('xd'), BigInt.asUintN(64, place));
    return undefined;
  };

// Bit fields
// -------------------------------------------------------------------------------------------------

const lowOnes = (count: number): bigint => (1n << BigInt(count)) - 1n;

const bitfieldUnsigned: Lift = (x, f) => {
  const { b } = x;
  const { sf, width } = f;
  const [r, s] = [f.n('immr'), f.n('imms')];
  const a = x.source(f.n('rn'));
  const d = x.target(f.n('rd'));
  if (s === width - 1) b.to(d, x.sized('shr', sf), a, BigInt(r));
  else if (s + 1 === r) b.to(d, x.sized('shl', sf), a, BigInt(width - r));
  else if (s >= r) b.to(d, 'and', r === 0 ? a : b.make('shr', a, BigInt(r)), lowOnes(s - r + 1));
  else b.to(d, 'shl', b.make('and', a, lowOnes(s + 1)), BigInt(width - r));
  return undefined;
};

const bitfieldSigned: Lift = (x, f) => {
  const { b } = x;
  const { sf, width } = f;
  const [r, s] = [f.n('immr'), f.n('imms')];
  const a = x.source(f.n('rn'));
  const d = x.target(f.n('rd'));
  if (s === width - 1) {
    b.to(d, x.sized('sar', sf), a, BigInt(r));
    return undefined;
  }
  const whole = r === 0 ? ({ 7: 'sx8', 15: 'sx16', 31: 'sx32' } as const)[s] : undefined;
  if (whole !== undefined) b.to(d, whole, a);
  else {
    const down = s >= r ? 63 - s + r : 63 - s - (width - r);
    b.to(d, 'sar', b.make('shl', a, BigInt(63 - s)), BigInt(down));
  }
  if (!sf) b.to(d, 'zx32', d);
  return undefined;
};

const bitfieldInsert: Lift = (x, f) => {
  const { b } = x;
  const { width } = f;
  const [r, s] = [f.n('immr'), f.n('imms')];
  const a = x.source(f.n('rn'));
  const d = f.n('rd');
  if (d === 31) return undefined;
  const length = s >= r ? s - r + 1 : s + 1;
  const low = s >= r ? 0 : width - r;
  const down = s >= r && r > 0 ? b.make('shr', a, BigInt(r)) : a;
  const field = b.make('and', down, lowOnes(length));
  const placed = low === 0 ? field : b.make('shl', field, BigInt(low));
  const slot = x.target(d);
  const kept = b.make('and', slot, ONES[width] & ~(lowOnes(length) << BigInt(low)));
  b.to(slot, 'or', kept, placed);
  return undefined;
};

const extract: Lift = (x, f) => {
  const { b } = x;
  const { sf, width } = f;
  const [high, low] = [x.source(f.n('rn')), x.source(f.n('rm'))];
  const at = f.n('imms');
  const d = x.target(f.n('rd'));
  if (at === 0) b.to(d, sf ? 'mov' : 'zx32', low);
  else if (high === low) b.to(d, x.sized('rotr', sf), low, BigInt(at));
  else {
    const right = b.make(x.sized('shr', sf), low, BigInt(at));
    const left = b.make(x.sized('shl', sf), high, BigInt(width - at));
    b.to(d, 'or', left, right);
  }
  return undefined;
};

// Other data processing
// -------------------------------------------------------------------------------------------------

const select =
  (invert: boolean, increment: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const { sf, width } = f;
    const [n, m] = [f.n('rn'), f.n('rm')];
    const condition = f.n('cond');
    const fixed = condition >> 1 === AL;
    // cset, csetm, cinc: the inverted condition is the number itself.
    if (!fixed && increment && !invert && n === m) {
      const value = x.value(condition ^ 1);
      const d = x.target(f.n('rd'));
      if (n === 31) b.mov(d, value);
      else b.to(d, x.sized('add', sf), GPR[n]!, value);
      return undefined;
    }
    if (!fixed && invert && !increment && n === 31 && m === 31) {
      const value = x.value(condition ^ 1);
      b.to(x.target(f.n('rd')), x.sized('mul', sf), value, ONES[width]);
      return undefined;
    }
    const test = fixed ? null : x.value(condition);
    const first = x.source(n);
    let second = x.source(m);
    if (!fixed) {
      if (invert && increment) second = typeof second === 'bigint' ? 0n : b.make('mul', second, ONES[64]);
      else if (invert) second = typeof second === 'bigint' ? ONES[64] : b.make('xor', second, ONES[64]);
      else if (increment) second = typeof second === 'bigint' ? 1n : b.make('add', second, 1n);
    }
    const d = x.target(f.n('rd'));
    if (test === null) b.to(d, sf ? 'mov' : 'zx32', first);
    else if (sf) b.select(d, test, first, second);
    else {
      const chosen = b.temp();
      b.select(chosen, test, first, second);
      b.to(d, 'zx32', chosen);
    }
    return undefined;
  };

const conditionalCompare =
  (op: 'sub' | 'add', second: 'rm' | 'imm5'): Lift =>
  (x, f) => {
    const b = second === 'imm5' ? f.big('imm5') : x.source(f.n('rm'));
    x.setConditionalFlags(op, f.width, f.n('cond'), f.n('nzcv'), x.source(f.n('rn')), b);
    return undefined;
  };

/** a ± n * m, of the width of the registers. */
const multiplyAdd =
  (op: 'add' | 'sub'): Lift =>
  (x, f) => {
    const { b } = x;
    const { sf } = f;
    const [first, second] = [x.source(f.n('rn')), x.source(f.n('rm'))];
    const a = x.source(f.n('ra'));
    const d = x.target(f.n('rd'));
    if (op === 'add' && a === 0n) b.to(d, x.sized('mul', sf), first, second);
    else b.to(d, x.sized(op, sf), a, b.make('mul', first, second));
    return undefined;
  };

/** 64-bit a ± n * m of 32-bit numbers. */
const multiplyLong =
  (op: 'add' | 'sub', widen: 'sx32' | 'zx32'): Lift =>
  (x, f) => {
    const { b } = x;
    const product = b.make('mul', b.make(widen, x.source(f.n('wn'))), b.make(widen, x.source(f.n('wm'))));
    const a = x.source(f.n('xa'));
    const d = x.target(f.n('xd'));
    if (op === 'add' && a === 0n) b.mov(d, product);
    else b.to(d, op, a, product);
    return undefined;
  };

const multiplyHigh =
  (op: 'mulhs' | 'mulhu'): Lift =>
  (x, f) => {
    const [first, second] = [x.source(f.n('xn')), x.source(f.n('xm'))];
    x.b.to(x.target(f.n('xd')), op, first, second);
    return undefined;
  };

/** x / 0 = 0, MIN / -1 = MIN: the rule of the ops too. */
const divide =
  (signed: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const [first, second] = [x.source(f.n('rn')), x.source(f.n('rm'))];
    const d = x.target(f.n('rd'));
    const op = signed ? 'divs' : 'divu';
    if (f.sf) b.to(d, op, first, second);
    else {
      const widen = signed ? 'sx32' : 'zx32';
      b.to(d, op, b.make(widen, first), b.make(widen, second));
      if (signed) b.to(d, 'zx32', d);
    }
    return undefined;
  };

/** Shifts by a register: the count is taken modulo the width, by the ops too. */
const shiftVariable =
  (op: 'shl' | 'shr' | 'sar' | 'rotr'): Lift =>
  (x, f) => {
    const [value, count] = [x.source(f.n('rn')), x.source(f.n('rm'))];
    x.b.to(x.target(f.n('rd')), x.sized(op, f.sf), value, count);
    return undefined;
  };

const crc =
  (op: 'crc32' | 'crc32c', bits: 8 | 16 | 32 | 64): Lift =>
  (x, f) => {
    const { b } = x;
    const data = x.source(bits === 64 ? f.n('xm') : f.n('wm'));
    const narrow = bits === 64 ? data : b.make(`zx${bits}`, data);
    const mixed = b.make('xor', b.make('zx32', x.source(f.n('wn'))), narrow);
    b.to(x.target(f.n('wd')), op, mixed, BigInt(bits));
    return undefined;
  };

/** d := emit(n) for operations on one register. */
const unary =
  (emit: (x: Lifting, d: Slot, n: Operand, sf: boolean) => void): Lift =>
  (x, f) => {
    const n = x.source(f.any('rn', 'xn', 'wn'));
    emit(x, x.target(f.any('rd', 'xd', 'wd')), n, f.sf);
    return undefined;
  };

/** Swaps neighbouring fields of `bits` bits, of which `mask` names the lower ones. */
function swapFields(x: Lifting, d: Slot, n: Operand, bits: bigint, mask: bigint): void {
  const { b } = x;
  const down = b.make('and', b.make('shr', n, bits), mask);
  const up = b.make('shl', b.make('and', n, mask), bits);
  b.to(d, 'or', down, up);
}

// Branches
// -------------------------------------------------------------------------------------------------

/** BTYPE of a branch through a register (Arm ARM, BranchTo of BR, BLR). */
function noteBranch(x: Lifting, register: number, link: boolean): void {
  if (!x.tracksBranches) return;
  const type = link ? 2 : x.guarded && register !== 16 && register !== 17 ? 3 : 1;
  x.b.mov(BTYPE, 1n << BigInt(type));
}

function branchOn(x: Lifting, test: Test, offset: bigint): Terminator {
  const pc = x.relative(offset);
  if (typeof test === 'boolean') return { kind: 'jmp', pc: test ? pc : x.next };
  const { condition, width, a, b } = test;
  return { kind: 'br', condition, width, a, b, pc, next: x.next };
}

const branch =
  (link: boolean): Lift =>
  (x, f) => {
    const pc = x.relative(f.big('off'));
    if (!link) return { kind: 'jmp', pc };
    x.b.mov(GPR[30]!, x.next);
    return { kind: 'call', pc, ret: x.next };
  };

const compareAndBranch =
  (condition: 'eq' | 'ne'): Lift =>
  (x, f) => {
    const source = x.source(f.n('rt'));
    const test: Test =
      typeof source === 'bigint' ? condition === 'eq' : { condition, width: f.width, a: source, b: 0n };
    return branchOn(x, test, f.big('off'));
  };

const testAndBranch =
  (condition: 'eq' | 'ne'): Lift =>
  (x, f) => {
    const source = x.source(f.n('rt'));
    const bit = f.n('bit');
    if (typeof source === 'bigint') return branchOn(x, condition === 'eq', f.big('off'));
    if (bit === 31 || bit === 63) {
      const sign = condition === 'eq' ? 'ge' : 'lt';
      return branchOn(x, { condition: sign, width: bit === 31 ? 32 : 64, a: source, b: 0n }, f.big('off'));
    }
    const value = x.b.make('and', source, 1n << BigInt(bit));
    return branchOn(x, { condition, width: 64, a: value, b: 0n }, f.big('off'));
  };

const branchToRegister =
  (kind: 'ind' | 'call' | 'ret', register?: number): Lift =>
  (x, f) => {
    const { b } = x;
    const number = register ?? f.n('xn');
    const s = x.slot(number);
    if (kind !== 'ret') noteBranch(x, number, kind === 'call');
    if (kind !== 'call') return { kind, s, mask: ONES[64] };
    const target = number === 30 ? b.make('mov', s) : s;
    b.mov(GPR[30]!, x.next);
    return { kind: 'calli', s: target, mask: ONES[64], ret: x.next };
  };

// Loads and stores
// -------------------------------------------------------------------------------------------------

type Form = 'offset' | 'unscaled' | 'post' | 'pre' | 'index';

/** What is moved: the op, the register operand of the rows, the size. */
interface Transfer {
  readonly register: string;
  /** log2 of the bytes. */
  readonly scale: 0 | 1 | 2 | 3 | 4;
  readonly load?: LoadName;
  readonly store?: StoreName;
  /** The result of a signed load of 32 bits is narrowed. */
  readonly narrow?: true;
  readonly vector?: true;
}

interface Place {
  readonly a: Slot;
  readonly b: Operand;
  /** What is added to the base afterwards. */
  readonly advance: bigint;
}

function place(x: Lifting, f: Fields, form: Form, scale: number): Place {
  const base = x.base(f.n('base'));
  switch (form) {
    case 'offset':
      return { a: base, b: f.big('pimm'), advance: 0n };
    case 'unscaled':
      return { a: base, b: BigInt.asUintN(64, f.big('simm')), advance: 0n };
    case 'post':
      return { a: base, b: 0n, advance: f.big('simm') };
    case 'pre':
      return { a: base, b: BigInt.asUintN(64, f.big('simm')), advance: f.big('simm') };
    case 'index': {
      const source = x.source(f.n('rmx'));
      if (typeof source === 'bigint') return { a: base, b: 0n, advance: 0n };
      const index = extend(x, source, f.n('option'));
      return { a: base, b: f.n('s') === 1 && scale > 0 ? x.b.make('shl', index, BigInt(scale)) : index, advance: 0n };
    }
    default:
      return form satisfies never;
  }
}

const transfer =
  (what: Transfer, form: Form): Lift =>
  (x, f) => {
    const { b } = x;
    const at = place(x, f, form, what.scale);
    const number = f.n(what.register);
    if (what.store !== undefined) {
      b.store(what.store, what.vector ? VECTOR[number]! : x.source(number), at.a, at.b);
    } else if (what.load !== undefined) {
      if (what.vector) b.load(what.load, VECTOR[number]!, at.a, at.b);
      else {
        const writesBase = (form === 'post' || form === 'pre') && number === f.n('base') && number !== 31;
        const d = writesBase ? b.temp() : x.target(number);
        b.load(what.load, d, at.a, at.b);
        if (what.narrow) b.to(d, 'zx32', d);
      }
    }
    if (at.advance !== 0n) x.advance(f.n('base'), at.advance);
    return undefined;
  };

/** The rows that `memory` of the instruction table makes. */
function memory<const M extends string, const U extends string>(name: M, unscaled: U, what: Transfer) {
  const forms: Record<string, Lift> = {
    [`${name}-imm`]: transfer(what, 'offset'),
    [unscaled]: transfer(what, 'unscaled'),
    [`${name}-post`]: transfer(what, 'post'),
    [`${name}-pre`]: transfer(what, 'pre'),
    [`${name}-reg`]: transfer(what, 'index'),
  };
  return forms as Record<`${M}-imm` | U | `${M}-post` | `${M}-pre` | `${M}-reg`, Lift>;
}

const literal =
  (what: Transfer): Lift =>
  (x, f) => {
    if (what.load === undefined) return undefined;
    const number = f.n(what.register);
    x.b.load(what.load, what.vector ? VECTOR[number]! : x.target(number), x.relative(f.big('off')), 0n);
    return undefined;
  };

interface PairTransfer extends Transfer {
  readonly second: string;
}

const pairTransfer =
  (what: PairTransfer, form: 'post' | 'off' | 'pre'): Lift =>
  (x, f) => {
    const { b } = x;
    const base = f.n('base');
    const a = x.base(base);
    const immediate = f.big('pairimm');
    const from = form === 'post' ? 0n : immediate;
    const [first, second] = [BigInt.asUintN(64, from), BigInt.asUintN(64, from + (1n << BigInt(what.scale)))];
    const [n, m] = [f.n(what.register), f.n(what.second)];
    if (what.store !== undefined) {
      b.store(what.store, what.vector ? VECTOR[n]! : x.source(n), a, first);
      b.store(what.store, what.vector ? VECTOR[m]! : x.source(m), a, second);
    } else if (what.load !== undefined && what.vector) {
      b.load(what.load, VECTOR_SCRATCH, a, first);
      b.load(what.load, VECTOR[m]!, a, second);
      b.to(VECTOR[n]!, 'mov128', VECTOR_SCRATCH);
    } else if (what.load !== undefined) {
      const keepsBase = form !== 'off' && base !== 31;
      const value = b.temp();
      b.load(what.load, value, a, first);
      b.load(what.load, keepsBase && m === base ? b.temp() : x.target(m), a, second);
      if (!(keepsBase && n === base)) b.mov(x.target(n), value);
    }
    if (form !== 'off') x.advance(base, immediate);
    return undefined;
  };

/** The rows of a pair with and without write-back. */
function pairs<const M extends string>(name: M, what: PairTransfer) {
  const forms: Record<string, Lift> = {
    [`${name}-post`]: pairTransfer(what, 'post'),
    [`${name}-off`]: pairTransfer(what, 'off'),
    [`${name}-pre`]: pairTransfer(what, 'pre'),
  };
  return forms as Record<`${M}-post` | `${M}-off` | `${M}-pre`, Lift>;
}

const LOADS = ['ld8u', 'ld16u', 'ld32u', 'ld64'] as const;
const STORES = ['st8', 'st16', 'st32', 'st64'] as const;
const VECTOR_LOADS = ['ldv8', 'ldv16', 'ldv32', 'ldv64', 'ldv128'] as const;
const VECTOR_STORES = ['stv8', 'stv16', 'stv32', 'stv64', 'stv128'] as const;
type Scale = 0 | 1 | 2 | 3;

const loads = (scale: Scale, register: 'wt' | 'xt'): Transfer => ({ scale, register, load: LOADS[scale] });
const stores = (scale: Scale, register: 'wt' | 'xt'): Transfer => ({ scale, register, store: STORES[scale] });
const signedLoads = (scale: 0 | 1 | 2, register: 'wt' | 'xt'): Transfer => ({
  scale,
  register,
  load: (['ld8s', 'ld16s', 'ld32s'] as const)[scale],
  ...(register === 'wt' ? { narrow: true } : {}),
});
const vectorLoads = (scale: Scale | 4, register: string): Transfer => ({
  scale,
  register,
  load: VECTOR_LOADS[scale],
  vector: true,
});
const vectorStores = (scale: Scale | 4, register: string): Transfer => ({
  scale,
  register,
  store: VECTOR_STORES[scale],
  vector: true,
});
/** Both registers of a pair: `xt` and `xt2`. */
const both = (what: Transfer): PairTransfer => ({ ...what, second: `${what.register}2` });

// Ordered, exclusive and atomic accesses
// ----------------------------------------------------------------------------------

/** Address of an access that must be aligned to its size. */
function alignedBase(x: Lifting, f: Fields, scale: number): Slot {
  const base = x.base(f.n('base'));
  if (scale > 0) x.b.aligned(base, (1n << BigInt(scale)) - 1n);
  return base;
}

const orderedLoad =
  (scale: Scale, register: 'wt' | 'xt'): Lift =>
  (x, f) => {
    const a = alignedBase(x, f, scale);
    x.b.load(LOADS[scale], x.target(f.n(register)), a, 0n);
    return undefined;
  };

const orderedStore =
  (scale: Scale, register: 'wt' | 'xt'): Lift =>
  (x, f) => {
    const a = alignedBase(x, f, scale);
    x.b.store(STORES[scale], x.source(f.n(register)), a, 0n);
    return undefined;
  };

const exclusiveLoad =
  (scale: Scale, register: 'wt' | 'xt'): Lift =>
  (x, f) => {
    const { b } = x;
    const a = alignedBase(x, f, scale);
    const value = b.temp();
    b.load(LOADS[scale], value, a, 0n);
    b.mov(RESERVED_ADDRESS, a);
    b.mov(RESERVED_VALUE, value);
    b.mov(x.target(f.n(register)), value);
    return undefined;
  };

const exclusiveStore =
  (scale: Scale, register: 'wt' | 'xt'): Lift =>
  (x, f) => {
    const { b } = x;
    const a = alignedBase(x, f, scale);
    const current = b.temp();
    b.load(LOADS[scale], current, a, 0n);
    const unchanged = b.make('seteq', current, RESERVED_VALUE);
    const success = b.make('and', b.make('seteq', a, RESERVED_ADDRESS), unchanged);
    const value = b.temp();
    b.select(value, success, x.source(f.n(register)), current);
    b.store(STORES[scale], value, a, 0n);
    b.mov(RESERVED_ADDRESS, NO_RESERVATION);
    b.to(x.target(f.n('ws')), 'xor', success, 1n);
    return undefined;
  };

/** Two words of 32 bits as one of 64, the first lower. */
function joinWords(x: Lifting, first: Operand, second: Operand): Slot {
  const { b } = x;
  return b.make('or', b.make('zx32', first), b.make('shl', second, 32n));
}

const exclusiveLoadPair =
  (sf: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const a = alignedBase(x, f, sf ? 4 : 3);
    const [first, second] = [b.temp(), b.temp()];
    b.load('ld64', first, a, 0n);
    if (sf) b.load('ld64', second, a, 8n);
    b.mov(RESERVED_ADDRESS, a);
    b.mov(RESERVED_VALUE, first);
    if (sf) b.mov(RESERVED_HIGH, second);
    const [n, m] = sf ? [f.n('xt'), f.n('xt2')] : [f.n('wt'), f.n('wt2')];
    if (sf) b.mov(x.target(m), second);
    else b.to(x.target(m), 'shr', first, 32n);
    b.to(x.target(n), sf ? 'mov' : 'zx32', first);
    return undefined;
  };

const exclusiveStorePair =
  (sf: boolean): Lift =>
  (x, f) => {
    const { b } = x;
    const a = alignedBase(x, f, sf ? 4 : 3);
    const [first, second] = [b.temp(), b.temp()];
    b.load('ld64', first, a, 0n);
    if (sf) b.load('ld64', second, a, 8n);
    let unchanged = b.make('seteq', first, RESERVED_VALUE);
    if (sf) unchanged = b.make('and', unchanged, b.make('seteq', second, RESERVED_HIGH));
    const success = b.make('and', b.make('seteq', a, RESERVED_ADDRESS), unchanged);
    const [n, m] = sf ? [x.source(f.n('xt')), x.source(f.n('xt2'))] : [x.source(f.n('wt')), x.source(f.n('wt2'))];
    const value = b.temp();
    b.select(value, success, sf ? n : joinWords(x, n, m), first);
    b.store('st64', value, a, 0n);
    if (sf) {
      b.select(value, success, m, second);
      b.store('st64', value, a, 8n);
    }
    b.mov(RESERVED_ADDRESS, NO_RESERVATION);
    b.to(x.target(f.n('ws')), 'xor', success, 1n);
    return undefined;
  };

type Atomic = 'add' | 'clr' | 'eor' | 'set' | 'smax' | 'smin' | 'umax' | 'umin' | 'swp';

/** What memory gets from its value and the operand, both of `scale`; bits above do not count. */
function combine(x: Lifting, op: Atomic, scale: Scale, old: Slot, operand: Operand): Operand {
  const { b } = x;
  const bits = ([8, 16, 32, 64] as const)[scale];
  switch (op) {
    case 'add':
      return b.make('add', old, operand);
    case 'clr':
      return b.make('and', old, typeof operand === 'bigint' ? ONES[64] : b.make('xor', operand, ONES[64]));
    case 'eor':
      return b.make('xor', old, operand);
    case 'set':
      return b.make('or', old, operand);
    case 'swp':
      return operand;
    case 'smax':
    case 'smin':
    case 'umax':
    case 'umin': {
      const sign = op.startsWith('s') ? 's' : 'z';
      const wide = (value: Operand): Operand => (bits === 64 ? value : b.make(`${sign}x${bits}`, value));
      const relation = op.endsWith('max') ? 'gt' : 'lt';
      const keeps = b.make(sign === 's' ? `set${relation}` : `set${relation}u`, wide(old), wide(operand));
      const value = b.temp();
      b.select(value, keeps, old, operand);
      return value;
    }
    default:
      return op satisfies never;
  }
}

const atomic =
  (op: Atomic, size: 'b' | 'h' | null): Lift =>
  (x, f) => {
    const { b } = x;
    const scale: Scale = size === 'b' ? 0 : size === 'h' ? 1 : f.sf ? 3 : 2;
    const a = alignedBase(x, f, scale);
    const old = b.temp();
    b.load(LOADS[scale], old, a, 0n);
    b.store(STORES[scale], combine(x, op, scale, old, x.source(f.any('rs', 'ws'))), a, 0n);
    b.mov(x.target(f.any('rt', 'wt')), old);
    return undefined;
  };

/** The three sizes of an atomic. */
function atomics<const M extends string>(name: M, op: Atomic) {
  const rows: Record<string, Lift> = {
    [name]: atomic(op, null),
    [`${name}-b`]: atomic(op, 'b'),
    [`${name}-h`]: atomic(op, 'h'),
  };
  return rows as Record<M | `${M}-b` | `${M}-h`, Lift>;
}

/**
 * Stores what was there when the comparison fails: like the machine it needs write permission in
 * any case.
 */
const compareAndSwap =
  (size: 'b' | 'h' | null): Lift =>
  (x, f) => {
    const { b } = x;
    const scale: Scale = size === 'b' ? 0 : size === 'h' ? 1 : f.sf ? 3 : 2;
    const a = alignedBase(x, f, scale);
    const old = b.temp();
    b.load(LOADS[scale], old, a, 0n);
    const [s, t] = [f.any('rs', 'ws'), f.any('rt', 'wt')];
    const expected = scale === 3 ? x.source(s) : b.make((['zx8', 'zx16', 'zx32'] as const)[scale], x.source(s));
    const value = b.temp();
    b.select(value, b.make('seteq', old, expected), x.source(t), old);
    b.store(STORES[scale], value, a, 0n);
    b.mov(x.target(s), old);
    return undefined;
  };

const compareAndSwapPair: Lift = (x, f) => {
  const { b } = x;
  const { sf } = f;
  const a = alignedBase(x, f, sf ? 4 : 3);
  const [s, t] = [f.n('rs_pair'), f.n('rt_pair')];
  const [low, high] = [b.temp(), b.temp()];
  b.load('ld64', low, a, 0n);
  if (!sf) {
    const equal = b.make('seteq', low, joinWords(x, x.source(s), x.source(s + 1)));
    const value = b.temp();
    b.select(value, equal, joinWords(x, x.source(t), x.source(t + 1)), low);
    b.store('st64', value, a, 0n);
    b.to(x.target(s), 'zx32', low);
    b.to(x.target(s + 1), 'shr', low, 32n);
    return undefined;
  }
  b.load('ld64', high, a, 8n);
  const equal = b.make('and', b.make('seteq', low, x.source(s)), b.make('seteq', high, x.source(s + 1)));
  const value = b.temp();
  b.select(value, equal, x.source(t), low);
  b.store('st64', value, a, 0n);
  b.select(value, equal, x.source(t + 1), high);
  b.store('st64', value, a, 8n);
  b.mov(x.target(s), low);
  b.mov(x.target(s + 1), high);
  return undefined;
};

// System
// -------------------------------------------------------------------------------------------------

/** Number of a system register as the field of mrs and msr has it; op0 is 3. */
const systemRegister = (op1: number, n: number, m: number, op2: number): number =>
  (1 << 14) | (op1 << 11) | (n << 7) | (m << 3) | op2;

/** Ticks of CNTVCT_EL0 in a second: the machine's virtual time. */
const COUNTER_HZ = 1_000_000_000n;

/**
 * What reads as a constant: to the end of the list the identification registers that Linux answers
 * for programs (HWCAP_CPUID). They name what is executed here; fields of everything else say "not
 * there". Source: Arm ARM, D19.2.
 */
const CONSTANT_REGISTERS: ReadonlyMap<number, bigint> = new Map([
  // CTR_EL0: lines of 64 bytes, reservation granule and write-back granule too, cleaning and
  // invalidating needed.
  [systemRegister(3, 0, 0, 1), 0x8444_c004n],
  // DCZID_EL0: 16 words.
  [systemRegister(3, 0, 0, 7), 4n],
  // TPIDRRO_EL0
  [systemRegister(3, 13, 0, 3), 0n],
  // CNTFRQ_EL0
  [systemRegister(3, 14, 0, 0), COUNTER_HZ],
  // MIDR_EL1: implementer 0, reserved for software; MPIDR_EL1 as Linux shows it; REVIDR_EL1.
  [systemRegister(0, 0, 0, 0), 0x000f_e1f0n],
  [systemRegister(0, 0, 0, 5), 0x8000_0000n],
  [systemRegister(0, 0, 0, 6), 0n],
  // ID_AA64PFR0_EL1: EL0 and EL1 of 64 bits; floating point and Advanced SIMD without half
  // precision (0, 0); DIT.
  [systemRegister(0, 0, 4, 0), 0x0001_0000_0000_0011n],
  // ID_AA64PFR1_EL1: BT 1, SSBS 2.
  [systemRegister(0, 0, 4, 1), 0x21n],
  // ID_AA64ISAR1_EL1: DPB 2, LRCPC 1, SB 1.
  [systemRegister(0, 0, 6, 1), 0x0000_0010_0010_0002n],
]);

// ID_AA64ISAR0_EL1: CRC32, Atomic 2, TS 1 (FlagM); AES 2 (with PMULL), SHA1, SHA2.
const BASE: ReadonlyMap<number, bigint> = new Map([[systemRegister(0, 0, 6, 0), 0x0010_0000_0021_0000n]]);
const CRYPTOGRAPHY: ReadonlyMap<number, bigint> = new Map([[systemRegister(0, 0, 6, 0), 0x0010_0000_0021_1120n]]);
/** With RDM, DotProd, SHA-512, SHA-3 and FHM beside it, and half precision in ID_AA64PFR0_EL1. */
const ARMV8_2: ReadonlyMap<number, bigint> = new Map([
  [systemRegister(0, 0, 6, 0), 0x0011_1001_1021_2120n],
  [systemRegister(0, 0, 4, 0), 0x0001_0000_0011_0011n],
]);

const FZ16 = 1n << 19n;
const NZCV = systemRegister(3, 4, 2, 0);
const CNTVCT = systemRegister(3, 14, 0, 2);
/**
 * Registers that hold what is written, as far as they have bits; those of PSTATE keep their bit at
 * its place.
 */
const STORED_REGISTERS: ReadonlyMap<number, { readonly slot: Slot; readonly mask: bigint }> = new Map([
  [systemRegister(3, 13, 0, 2), { slot: SLOTS.slot('tpidr_el0'), mask: ONES[64] }],
  // FPCR: AHP, DN, FZ, RMode (FZ16 with half precision). FPSR: QC, IDC, the five of IEEE 754.
  [systemRegister(3, 4, 4, 0), { slot: FPCR, mask: 0x07c0_0000n }],
  [systemRegister(3, 4, 4, 1), { slot: FPSR, mask: 0x0800_009fn }],
  [systemRegister(3, 4, 2, 5), { slot: SLOTS.slot('dit'), mask: 1n << 24n }],
  [systemRegister(3, 4, 2, 6), { slot: SLOTS.slot('ssbs'), mask: 1n << 12n }],
]);

const readSystem: Lift = (x, f) => {
  const number = f.n('sysreg');
  const stored = STORED_REGISTERS.get(number);
  const constant = x.identification.get(number) ?? CONSTANT_REGISTERS.get(number);
  if (stored) x.b.mov(x.target(f.n('xt')), stored.slot);
  else if (constant !== undefined) x.b.mov(x.target(f.n('xt')), constant);
  else if (number === NZCV) {
    const flags = x.nzcv();
    x.b.to(x.target(f.n('xt')), 'shl', flags, 28n);
  } else if (number === CNTVCT) return { kind: 'helper', name: 'counter', argument: f.n('xt'), next: x.next };
  // The other identification registers (op1 and CRn 0, CRm 2 to 7) read as zero under Linux.
  else if (number >> 6 === 1 << 8 && ((number >> 3) & 7) >= 2) x.b.mov(x.target(f.n('xt')), 0n);
  else return UNDEFINED;
  return undefined;
};

const writeSystem: Lift = (x, f) => {
  const number = f.n('sysreg');
  const stored = STORED_REGISTERS.get(number);
  const source = x.source(f.n('xt'));
  if (stored) {
    const more = stored.slot === FPCR && x.identification === ARMV8_2 ? FZ16 : 0n;
    x.b.to(stored.slot, 'and', source, stored.mask | more);
    if (stored.slot === FPCR || stored.slot === FPSR) setMode(x.b, MODE, FPCR, FPSR);
  } else if (number === NZCV) x.setBits(x.b.make('and', x.b.make('shr', source, 28n), 15n));
  else return UNDEFINED;
  return undefined;
};

/** msr (immediate) of the bits of PSTATE that programs may set. */
const writeStateBit =
  (name: 'dit' | 'ssbs', bit: bigint): Lift =>
  (x, f) => {
    x.b.mov(SLOTS.slot(name), f.big('crm') << bit);
    return undefined;
  };

/** `sys`: cache maintenance by address. Everything else belongs to kernels. */
const maintenance: Lift = (x, f) => {
  const { b } = x;
  const [n, m, op2] = [f.n('crn'), f.n('crm'), f.n('op2')];
  if (f.n('op1') !== 3 || n !== 7) return UNDEFINED;
  const address = x.source(f.n('optional_xt'));
  // dc zva
  if (m === 4 && op2 === 1) {
    const start = b.make('and', address, BigInt.asUintN(64, BigInt(-ZERO_BYTES)));
    const zero = b.make('mov', 0n);
    for (let at = 0; at < ZERO_BYTES; at += 8) b.store('st64', zero, start, BigInt(at));
    return undefined;
  }
  // dc cvac, cvau, cvap, cvadp, civac; ic ivau: nothing to do, but the address must be readable.
  if (op2 !== 1 || ![5, 10, 11, 12, 13, 14].includes(m)) return UNDEFINED;
  b.load('ld8u', b.temp(), address, 0n);
  return undefined;
};

/**
 * x with the authentication code taken out: bits 48 to 54 become bit 55, and of kernel addresses
 * all above (TBI is for users).
 */
const strip: Lift = (x, f) => {
  stripRegister(x, x.target(f.n('xd')));
  return undefined;
};

function stripRegister({ b }: Lifting, slot: Slot): void {
  const kernel = b.make('and', slot, 1n << 55n);
  const user = b.make('and', slot, 0xff80_ffff_ffff_ffffn);
  const upper = b.make('or', slot, 0xffff_0000_0000_0000n);
  b.select(slot, kernel, upper, user);
}

const hint: Lift = nothing;

/** `isb` makes the CPU fetch anew. */
const instructionBarrier: Lift = (x) => (x.synchronises ? { kind: 'sync', next: x.next } : undefined);

// Vector registers: moves, constants, elements, logic
// -----------------------------------------------------------------------

/** Clears what an instruction of 64 bits leaves in the upper half. */
function narrowVector(x: Lifting, f: Fields, d: Slot): void {
  if (f.n('q') === 0) x.b.to(d, 'wide64', x.b.make('low64', d));
}

/** Floating constants of eight bits (Arm ARM, VFPExpandImm). */
function floatingBits(imm8: number, bits: 16 | 32 | 64): bigint {
  const exponentBits = { 16: 5, 32: 8, 64: 11 }[bits];
  const fractionBits = bits - exponentBits - 1;
  const b = (imm8 >> 6) & 1;
  const high = b === 1 ? lowOnes(exponentBits - 3) : 0n;
  const exponent = (BigInt(b ^ 1) << BigInt(exponentBits - 1)) | (high << 2n) | BigInt((imm8 >> 4) & 3);
  const fraction = BigInt(imm8 & 15) << BigInt(fractionBits - 4);
  return (BigInt(imm8 >> 7) << BigInt(bits - 1)) | (exponent << BigInt(fractionBits)) | fraction;
}

const FLOAT_BITS = { 0: 32, 1: 64, 3: 16 } as const;

/** Bits of a scalar by the type field; 2 is no type. */
const scalarBits = (f: Fields): 16 | 32 | 64 => {
  const type = f.n('ptype');
  return type === 0 || type === 1 || type === 3 ? FLOAT_BITS[type] : 64;
};

const floatMove: Lift = (x, f) => {
  const low = x.b.make('low64', VECTOR[f.n('fn')]!);
  x.b.to(VECTOR[f.n('fd')]!, 'wide64', truncated(x, low, scalarBits(f)));
  return undefined;
};

const floatToInteger: Lift = (x, f) => {
  const low = x.b.make('low64', VECTOR[f.n('fn')]!);
  const value = truncated(x, low, scalarBits(f));
  x.b.mov(x.target(f.n('rd')), value);
  return undefined;
};

const integerToFloat: Lift = (x, f) => {
  const value = truncated(x, x.source(f.n('rn')), scalarBits(f));
  x.b.to(VECTOR[f.n('fd')]!, 'wide64', value);
  return undefined;
};

const floatConstant: Lift = (x, f) => {
  x.b.to(VECTOR[f.n('fd')]!, 'wide64', floatingBits(f.n('imm8'), scalarBits(f)));
  return undefined;
};

/** movi, mvni: `value` makes the element from imm8 and cmode. */
const vectorConstant =
  (
    bits: 8 | 16 | 32,
    value: (imm: bigint, cmode: bigint) => bigint,
    target: 'bd' | 'v4s' | 'v8h',
    invert = false,
  ): Lift =>
  (x, f) => {
    const element = value(f.big('vimm'), bits === 8 ? 0n : f.big('cmode'));
    const number = replicate(invert ? ~element : element, bits);
    setVector(x, f.n('q') === 1, VECTOR[f.n(target)]!, number);
    return undefined;
  };

/** orr and bic with a constant of 16 or 32 bits. */
const vectorImmediate =
  (op: 'or128' | 'andnot128', bits: 16 | 32): Lift =>
  (x, f) => {
    const d = VECTOR[f.n(bits === 32 ? 'v4s' : 'v8h')]!;
    setVector(x, true, VECTOR_SCRATCH, replicate(shiftedByte(f.big('vimm'), f.big('cmode')), bits));
    x.b.to(d, op, d, VECTOR_SCRATCH);
    narrowVector(x, f, d);
    return undefined;
  };
const shiftedByte = (imm: bigint, cmode: bigint): bigint => imm << (8n * cmode);
const shiftedOnes = (imm: bigint, cmode: bigint): bigint => ((imm + 1n) << (8n * cmode + 8n)) - 1n;

/** Each bit of the immediate is a byte. */
const byteMask =
  (full: boolean): Lift =>
  (x, f) => {
    let mask = 0n;
    for (let bit = 0; bit < 8; bit++) if ((f.n('vimm') >> bit) & 1) mask |= 0xffn << BigInt(8 * bit);
    setVector(x, full, VECTOR[f.n(full ? 'v2d' : 'dd')]!, mask);
    return undefined;
  };

type VectorLogic = 'and128' | 'or128' | 'xor128' | 'andnot128';

const vectorLogic =
  (op: VectorLogic): Lift =>
  (x, f) => {
    const d = VECTOR[f.n('bd')]!;
    x.b.to(d, op, VECTOR[f.n('bn')]!, VECTOR[f.n('bm')]!);
    narrowVector(x, f, d);
    return undefined;
  };

const vectorNot: Lift = (x, f) => {
  const d = VECTOR[f.n('bd')]!;
  setVector(x, true, VECTOR_SCRATCH, ONES[64]);
  x.b.to(d, 'andnot128', VECTOR_SCRATCH, VECTOR[f.n('bn')]!);
  narrowVector(x, f, d);
  return undefined;
};

const vectorOrNot: Lift = (x, f) => {
  const d = VECTOR[f.n('bd')]!;
  setVector(x, true, VECTOR_SCRATCH, ONES[64]);
  x.b.to(VECTOR_SCRATCH, 'andnot128', VECTOR_SCRATCH, VECTOR[f.n('bm')]!);
  x.b.to(d, 'or128', VECTOR[f.n('bn')]!, VECTOR_SCRATCH);
  narrowVector(x, f, d);
  return undefined;
};

/** bsl, bit, bif: each is `p ^ ((p ^ q) & mask)`. */
const vectorSelect =
  (kind: 'bsl' | 'bit' | 'bif'): Lift =>
  (x, f) => {
    const [d, n, m] = [VECTOR[f.n('bd')]!, VECTOR[f.n('bn')]!, VECTOR[f.n('bm')]!];
    const p = kind === 'bsl' ? m : d;
    x.b.to(VECTOR_SCRATCH, 'xor128', p, n);
    x.b.to(VECTOR_SCRATCH, kind === 'bif' ? 'andnot128' : 'and128', VECTOR_SCRATCH, kind === 'bsl' ? d : m);
    x.b.to(d, 'xor128', p, VECTOR_SCRATCH);
    narrowVector(x, f, d);
    return undefined;
  };

const countOnes: Lift = (x, f) => {
  const d = VECTOR[f.n('bd')]!;
  x.b.to(d, 'popcnt8x16', VECTOR[f.n('bn')]!);
  narrowVector(x, f, d);
  return undefined;
};

/**
 * Sum of all elements, modulo their size: neighbours are added into fields of twice the size, which
 * do not overflow.
 */
const addAcross: Lift = (x, f) => {
  const { b } = x;
  const bits = ([8, 16, 32] as const)[f.n('size')]!;
  const vector = VECTOR[f.n('vn')]!;
  const sum = (half: 'low64' | 'high64'): Slot => {
    let value = b.make(half, vector);
    for (let width: number = bits; width < 64; width *= 2) {
      const lower = replicate(lowOnes(width), 2 * width);
      value = b.make('add', b.make('and', value, lower), b.make('and', b.make('shr', value, BigInt(width)), lower));
    }
    return value;
  };
  const low = sum('low64');
  const total = f.n('q') === 0 ? low : b.make('add', low, sum('high64'));
  b.to(VECTOR[f.n('ad')]!, 'wide64', b.make(`zx${bits}`, total));
  return undefined;
};

const elementToInteger =
  (signed: boolean): Lift =>
  (x, f) => {
    const element = elementOf(f.n('imm5'));
    const value = readElement(x, VECTOR[f.n('en')]!, element);
    const d = x.target(f.n('rdq'));
    if (!signed || element.bits === 64) x.b.mov(d, value);
    else {
      x.b.to(d, `sx${element.bits}`, value);
      if (f.n('q') === 0) x.b.to(d, 'zx32', d);
    }
    return undefined;
  };

// Floating point
// -------------------------------------------------------------------------------------------------

/** By the helper: for every operand, mode and flag. */
const slowFloat: Lift = (x) => ({ kind: 'helper', name: 'float', argument: x.word, next: x.next });

const slowVector: Lift = (x) => ({ kind: 'helper', name: 'vector', argument: x.word, next: x.next });

const slowCryptography: Lift = (x) => ({ kind: 'helper', name: 'cryptography', argument: x.word, next: x.next });

const slowLater: Lift = (x) => ({ kind: 'helper', name: 'later', argument: x.word, next: x.next });

/** fcsel: which register it is does not matter to the number. */
const floatSelect: Lift = (x, f) => {
  const [n, m] = ['fn', 'fm'].map((name) => truncated(x, x.b.make('low64', VECTOR[f.n(name)]!), scalarBits(f)));
  const chosen = x.b.temp();
  x.b.select(chosen, x.value(f.n('cond')), n!, m!);
  x.b.to(VECTOR[f.n('fd')]!, 'wide64', chosen);
  return undefined;
};

/** fabs and fneg: an op on the bits. */
const floatSign =
  (op: 'and' | 'xor'): Lift =>
  (x, f) => {
    const bits = scalarBits(f);
    const sign = 1n << BigInt(bits - 1);
    const low = x.b.make('low64', VECTOR[f.n('fn')]!);
    const value = truncated(x, low, bits);
    x.b.to(VECTOR[f.n('fd')]!, 'wide64', x.b.make(op, value, op === 'and' ? sign - 1n : sign));
    return undefined;
  };

const scalarFloats = {
  fabs: floatSign('and'),
  fneg: floatSign('xor'),
  fsqrt: slowFloat,
  frintn: slowFloat,
  frintp: slowFloat,
  frintm: slowFloat,
  frintz: slowFloat,
  frinta: slowFloat,
  frintx: slowFloat,
  frinti: slowFloat,
  'fcvt-s': slowFloat,
  'fcvt-d': slowFloat,
  'fcvt-h': slowFloat,
  fmul: slowFloat,
  fdiv: slowFloat,
  fadd: slowFloat,
  fsub: slowFloat,
  fmax: slowFloat,
  fmin: slowFloat,
  fmaxnm: slowFloat,
  fminnm: slowFloat,
  fnmul: slowFloat,
  fcmp: slowFloat,
  'fcmp-zero': slowFloat,
  fcmpe: slowFloat,
  'fcmpe-zero': slowFloat,
  fccmp: slowFloat,
  fccmpe: slowFloat,
  fcsel: floatSelect,
  fmadd: slowFloat,
  fmsub: slowFloat,
  fnmadd: slowFloat,
  fnmsub: slowFloat,
  fcvtns: slowFloat,
  fcvtnu: slowFloat,
  fcvtas: slowFloat,
  fcvtau: slowFloat,
  fcvtps: slowFloat,
  fcvtpu: slowFloat,
  fcvtms: slowFloat,
  fcvtmu: slowFloat,
  fcvtzs: slowFloat,
  fcvtzu: slowFloat,
  scvtf: slowFloat,
  ucvtf: slowFloat,
  'fcvtzs-fix': slowFloat,
  'fcvtzu-fix': slowFloat,
  'scvtf-fix': slowFloat,
  'ucvtf-fix': slowFloat,
} as const satisfies Partial<Record<Arm64Mnemonic, Lift>>;

// ----------------------------------------------------------------------------------- the semantics

/** Numbers in vectors, and scalars in their encodings: by the helper. */
const VECTOR_NUMBERS = [
  'fmaxnm-v', 'fmla-v', 'fadd-v', 'fmulx-v', 'fcmeq-v', 'fmax-v', 'frecps-v', 'fminnm-v', 'fmls-v', 'fsub-v', 'fmin-v',
  'frsqrts-v', 'fmaxnmp-v', 'faddp-v', 'fmul-v', 'fcmge-v', 'facge-v', 'fmaxp-v', 'fdiv-v', 'fminnmp-v', 'fabd-v',
  'fcmgt-v', 'facgt-v', 'fminp-v', 'frintn-v', 'frintm-v', 'fcvtns-v', 'fcvtms-v', 'fcvtas-v', 'scvtf-v', 'fabs-v',
  'frintp-v', 'frintz-v', 'fcvtps-v', 'fcvtzs-v', 'frecpe-v', 'frinta-v', 'frintx-v', 'fcvtnu-v', 'fcvtmu-v', 'fcvtau-v',
  'ucvtf-v', 'fneg-v', 'frinti-v', 'fcvtpu-v', 'fcvtzu-v', 'frsqrte-v', 'fsqrt-v', 'fcmgt-vz', 'fcmgt-sz', 'fcmeq-vz',
  'fcmeq-sz', 'fcmlt-vz', 'fcmlt-sz', 'fcmge-vz', 'fcmge-sz', 'fcmle-vz', 'fcmle-sz', 'fmulx-s', 'fcmeq-s', 'frecps-s',
  'frsqrts-s', 'fcmge-s', 'facge-s', 'fabd-s', 'fcmgt-s', 'facgt-s', 'fcvtns-s', 'fcvtms-s', 'fcvtas-s', 'scvtf-s',
  'fcvtps-s', 'fcvtzs-s', 'frecpe-s', 'fcvtnu-s', 'fcvtmu-s', 'fcvtau-s', 'ucvtf-s', 'fcvtpu-s', 'fcvtzu-s', 'frsqrte-s',
  'frecpx-s', 'fmaxnmp-s', 'fmaxnmv', 'fmaxp-s', 'fmaxv', 'fminnmp-s', 'fminnmv', 'fminp-s', 'fminv', 'faddp-s',
  'fmla-e', 'fmla-es', 'fmls-e', 'fmls-es', 'fmul-e', 'fmul-es', 'fmulx-e', 'fmulx-es', 'scvtf-vfix', 'scvtf-sfix',
  'ucvtf-vfix', 'ucvtf-sfix', 'fcvtzs-vfix', 'fcvtzs-sfix', 'fcvtzu-vfix', 'fcvtzu-sfix', 'fcvtl', 'fcvtn', 'fcvtxn',
  'fcvtxn-s', 'urecpe', 'ursqrte',
] as const satisfies readonly Arm64Mnemonic[]; // prettier-ignore

/** Rows of half precision alone (FEAT_FP16, FEAT_FHM). */
type HalfRow = Extract<
  Arm64Mnemonic,
  `${string}${'-vh' | '-sh' | '-vzh' | '-szh' | '-eh' | '-esh' | 'v-h'}` | `fml${'a' | 's'}l${string}`
>;
const isHalfRow = (name: string): name is HalfRow =>
  /^(f|[su]cvtf).*-(vz?|sz?|es?)h$|^f(max|min)(nm)?v-h$|^fml[as]l2?(-e)?$/.test(name);

/** Named, not lifted yet. */
const NAMED_ONLY = [
  // The key that it depends on does not exist: see above.
  'pacga',
] as const satisfies readonly Arm64Mnemonic[]; // prettier-ignore

/**
 * One entry per executable row of the instruction table. Many objects: one literal of all of them,
 * with what functions make spread into it, takes V8 three times as long, at every start.
 */
const SEMANTICS = [
  {
    adr: pcRelative(false),
    adrp: pcRelative(true),
    'add-imm': addSubImmediate('add', false),
    'adds-imm': addSubImmediate('add', true),
    'sub-imm': addSubImmediate('sub', false),
    'subs-imm': addSubImmediate('sub', true),
    'and-imm': logicalImmediate('and', false),
    'orr-imm': logicalImmediate('or', false),
    'eor-imm': logicalImmediate('xor', false),
    'ands-imm': logicalImmediate('and', true),
    movn: moveWide('n'),
    movz: moveWide('z'),
    movk: moveWide('k'),
    sbfm: bitfieldSigned,
    bfm: bitfieldInsert,
    ubfm: bitfieldUnsigned,
    extr: extract,

    'and-reg': logicalShifted('and', false),
    bic: logicalShifted('and', true),
    'orr-reg': logicalShifted('or', false),
    orn: logicalShifted('or', true),
    'eor-reg': logicalShifted('xor', false),
    eon: logicalShifted('xor', true),
    'ands-reg': logicalShifted('and', false, true),
    bics: logicalShifted('and', true, true),
    'add-reg': addSubShifted('add', false),
    'adds-reg': addSubShifted('add', true),
    'sub-reg': addSubShifted('sub', false),
    'subs-reg': addSubShifted('sub', true),
    'add-ext': addSubExtended('add', false),
    'adds-ext': addSubExtended('add', true),
    'sub-ext': addSubExtended('sub', false),
    'subs-ext': addSubExtended('sub', true),
    adc: addCarry(false, false),
    adcs: addCarry(false, true),
    sbc: addCarry(true, false),
    sbcs: addCarry(true, true),
    'ccmn-reg': conditionalCompare('add', 'rm'),
    'ccmp-reg': conditionalCompare('sub', 'rm'),
    'ccmn-imm': conditionalCompare('add', 'imm5'),
    'ccmp-imm': conditionalCompare('sub', 'imm5'),
    csel: select(false, false),
    csinc: select(false, true),
    csinv: select(true, false),
    csneg: select(true, true),
    madd: multiplyAdd('add'),
    msub: multiplyAdd('sub'),
    smaddl: multiplyLong('add', 'sx32'),
    smsubl: multiplyLong('sub', 'sx32'),
    smulh: multiplyHigh('mulhs'),
    umaddl: multiplyLong('add', 'zx32'),
    umsubl: multiplyLong('sub', 'zx32'),
    umulh: multiplyHigh('mulhu'),
    udiv: divide(false),
    sdiv: divide(true),
    lslv: shiftVariable('shl'),
    lsrv: shiftVariable('shr'),
    asrv: shiftVariable('sar'),
    rorv: shiftVariable('rotr'),
    crc32b: crc('crc32', 8),
    crc32h: crc('crc32', 16),
    crc32w: crc('crc32', 32),
    crc32x: crc('crc32', 64),
    crc32cb: crc('crc32c', 8),
    crc32ch: crc('crc32c', 16),
    crc32cw: crc('crc32c', 32),
    crc32cx: crc('crc32c', 64),
    rbit: unary((x, d, n, sf) => {
      x.b.to(d, 'bitreverse', n);
      if (!sf) x.b.to(d, 'shr', d, 32n);
    }),
    rev16: unary((x, d, n, sf) => {
      swapFields(x, d, n, 8n, sf ? 0x00ff_00ff_00ff_00ffn : 0x00ff_00ffn);
    }),
    'rev-w': unary((x, d, n) => {
      x.b.to(d, 'bswap32', n);
    }),
    rev32: unary((x, d, n) => {
      x.b.to(d, 'rotr', x.b.make('bswap64', n), 32n);
    }),
    'rev-x': unary((x, d, n) => {
      x.b.to(d, 'bswap64', n);
    }),
    clz: unary((x, d, n, sf) => {
      x.b.to(d, x.sized('clz', sf), n);
    }),
    cls: unary((x, d, n, sf) => {
      const changes = x.b.make('xor', n, x.b.make(x.sized('sar', sf), n, 1n));
      x.b.to(d, 'sub', x.b.make(x.sized('clz', sf), changes), 1n);
    }),
    pacia: nothing,
    pacib: nothing,
    pacda: nothing,
    pacdb: nothing,
    autia: nothing,
    autib: nothing,
    autda: nothing,
    autdb: nothing,
    paciza: nothing,
    pacizb: nothing,
    pacdza: nothing,
    pacdzb: nothing,
    autiza: nothing,
    autizb: nothing,
    autdza: nothing,
    autdzb: nothing,
    xpaci: strip,
    xpacd: strip,

    b: branch(false),
    bl: branch(true),
    'b-cond': (x, f) => branchOn(x, x.condition(f.n('cond')), f.big('off')),
    cbz: compareAndBranch('eq'),
    cbnz: compareAndBranch('ne'),
    tbz: testAndBranch('eq'),
    tbnz: testAndBranch('ne'),
    br: branchToRegister('ind'),
    blr: branchToRegister('call'),
    ret: branchToRegister('ret'),
    braaz: branchToRegister('ind'),
    brabz: branchToRegister('ind'),
    blraaz: branchToRegister('call'),
    blrabz: branchToRegister('call'),
    braa: branchToRegister('ind'),
    brab: branchToRegister('ind'),
    blraa: branchToRegister('call'),
    blrab: branchToRegister('call'),
    retaa: branchToRegister('ret', 30),
    retab: branchToRegister('ret', 30),
    eret: undefinedHere,
    eretaa: undefinedHere,
    eretab: undefinedHere,
    drps: undefinedHere,

    /** Returning from the exception clears the reservation (Arm ARM, B2.9.1). */
    svc: (x) => {
      x.b.mov(RESERVED_ADDRESS, NO_RESERVATION);
      return { kind: 'helper', name: 'syscall', argument: x.word, next: x.next };
    },
    hvc: undefinedHere,
    smc: undefinedHere,
    brk: () => ({ kind: 'trap', trap: 'breakpoint' }),
    hlt: undefinedHere,
    dcps1: undefinedHere,
    dcps2: undefinedHere,
    dcps3: undefinedHere,
    udf: undefinedHere,
    hint,
    nop: hint,
    yield: hint,
    wfe: hint,
    wfi: hint,
    sev: hint,
    sevl: hint,
    xpaclri: (x) => {
      stripRegister(x, x.target(30));
      return undefined;
    },
    pacia1716: hint,
    pacib1716: hint,
    autia1716: hint,
    autib1716: hint,
    esb: hint,
    psb: hint,
    csdb: hint,
    paciaz: hint,
    paciasp: hint,
    pacibz: hint,
    pacibsp: hint,
    autiaz: hint,
    autiasp: hint,
    autibz: hint,
    autibsp: hint,
    bti: hint,
    clrex: (x) => {
      x.b.mov(RESERVED_ADDRESS, NO_RESERVATION);
      return undefined;
    },
    dsb: nothing,
    dmb: nothing,
    isb: instructionBarrier,
    sb: nothing,
    'msr-spsel': undefinedHere,
    'msr-daifset': undefinedHere,
    'msr-daifclr': undefinedHere,
    'msr-uao': undefinedHere,
    'msr-pan': undefinedHere,
    'msr-ssbs': writeStateBit('ssbs', 12n),
    'msr-dit': writeStateBit('dit', 24n),
    // There is no FEAT_MTE.
    'msr-tco': undefinedHere,
    cfinv: (x) => {
      x.setBits(x.b.make('xor', x.nzcv(), 2n));
      return undefined;
    },
    rmif: (x, f) => {
      const { b } = x;
      const mask = f.big('nzcv');
      const bits = b.make('and', b.make('rotr', x.source(f.n('xn')), f.big('immr')), mask);
      x.setBits(b.make('or', b.make('and', x.nzcv(), 15n & ~mask), bits));
      return undefined;
    },
    setf8: setFlagsOf(8),
    setf16: setFlagsOf(16),
    sys: maintenance,
    sysl: undefinedHere,
    'msr-reg': writeSystem,
    mrs: readSystem,
  },
  memory('strb', 'sturb', stores(0, 'wt')),
  memory('ldrb', 'ldurb', loads(0, 'wt')),
  memory('ldrsb-x', 'ldursb-x', signedLoads(0, 'xt')),
  memory('ldrsb-w', 'ldursb-w', signedLoads(0, 'wt')),
  memory('strh', 'sturh', stores(1, 'wt')),
  memory('ldrh', 'ldurh', loads(1, 'wt')),
  memory('ldrsh-x', 'ldursh-x', signedLoads(1, 'xt')),
  memory('ldrsh-w', 'ldursh-w', signedLoads(1, 'wt')),
  memory('str-w', 'stur-w', stores(2, 'wt')),
  memory('ldr-w', 'ldur-w', loads(2, 'wt')),
  memory('ldrsw', 'ldursw', signedLoads(2, 'xt')),
  memory('str-x', 'stur-x', stores(3, 'xt')),
  memory('ldr-x', 'ldur-x', loads(3, 'xt')),
  {
    'prfm-imm': nothing,
    prfum: nothing,
    'prfm-reg': nothing,
    'prfm-lit': nothing,
    'ldr-w-lit': literal(loads(2, 'wt')),
    'ldr-x-lit': literal(loads(3, 'xt')),
    'ldrsw-lit': literal(signedLoads(2, 'xt')),
    // At EL0 the unprivileged forms are the plain ones.
    sttrb: transfer(stores(0, 'wt'), 'unscaled'),
    ldtrb: transfer(loads(0, 'wt'), 'unscaled'),
    'ldtrsb-x': transfer(signedLoads(0, 'xt'), 'unscaled'),
    'ldtrsb-w': transfer(signedLoads(0, 'wt'), 'unscaled'),
    sttrh: transfer(stores(1, 'wt'), 'unscaled'),
    ldtrh: transfer(loads(1, 'wt'), 'unscaled'),
    'ldtrsh-x': transfer(signedLoads(1, 'xt'), 'unscaled'),
    'ldtrsh-w': transfer(signedLoads(1, 'wt'), 'unscaled'),
    'sttr-w': transfer(stores(2, 'wt'), 'unscaled'),
    'ldtr-w': transfer(loads(2, 'wt'), 'unscaled'),
    ldtrsw: transfer(signedLoads(2, 'xt'), 'unscaled'),
    'sttr-x': transfer(stores(3, 'xt'), 'unscaled'),
    'ldtr-x': transfer(loads(3, 'xt'), 'unscaled'),
  },
  pairs('stp-w', both(stores(2, 'wt'))),
  pairs('ldp-w', both(loads(2, 'wt'))),
  pairs('ldpsw', both(signedLoads(2, 'xt'))),
  pairs('stp-x', both(stores(3, 'xt'))),
  pairs('ldp-x', both(loads(3, 'xt'))),
  {
    'stnp-w': pairTransfer(both(stores(2, 'wt')), 'off'),
    'ldnp-w': pairTransfer(both(loads(2, 'wt')), 'off'),
    'stnp-x': pairTransfer(both(stores(3, 'xt')), 'off'),
    'ldnp-x': pairTransfer(both(loads(3, 'xt')), 'off'),
  },
  exclusives('b', '', 0, 'wt'),
  exclusives('h', '', 1, 'wt'),
  exclusives('', '-w', 2, 'wt'),
  exclusives('', '-x', 3, 'xt'),
  {
    'stxp-w': exclusiveStorePair(false),
    'stlxp-w': exclusiveStorePair(false),
    'ldxp-w': exclusiveLoadPair(false),
    'ldaxp-w': exclusiveLoadPair(false),
    'stxp-x': exclusiveStorePair(true),
    'stlxp-x': exclusiveStorePair(true),
    'ldxp-x': exclusiveLoadPair(true),
    'ldaxp-x': exclusiveLoadPair(true),
    cas: compareAndSwap(null),
    'cas-b': compareAndSwap('b'),
    'cas-h': compareAndSwap('h'),
    casp: compareAndSwapPair,
  },
  atomics('ldadd', 'add'),
  atomics('ldclr', 'clr'),
  atomics('ldeor', 'eor'),
  atomics('ldset', 'set'),
  atomics('ldsmax', 'smax'),
  atomics('ldsmin', 'smin'),
  atomics('ldumax', 'umax'),
  atomics('ldumin', 'umin'),
  atomics('swp', 'swp'),

  memory('str-fb', 'stur-fb', vectorStores(0, 'bt')),
  memory('ldr-fb', 'ldur-fb', vectorLoads(0, 'bt')),
  memory('str-fh', 'stur-fh', vectorStores(1, 'ht')),
  memory('ldr-fh', 'ldur-fh', vectorLoads(1, 'ht')),
  memory('str-fs', 'stur-fs', vectorStores(2, 'st')),
  memory('ldr-fs', 'ldur-fs', vectorLoads(2, 'st')),
  memory('str-fd', 'stur-fd', vectorStores(3, 'dt')),
  memory('ldr-fd', 'ldur-fd', vectorLoads(3, 'dt')),
  memory('str-fq', 'stur-fq', vectorStores(4, 'qt')),
  memory('ldr-fq', 'ldur-fq', vectorLoads(4, 'qt')),
  {
    'ldr-fs-lit': literal(vectorLoads(2, 'st')),
    'ldr-fd-lit': literal(vectorLoads(3, 'dt')),
    'ldr-fq-lit': literal(vectorLoads(4, 'qt')),
  },
  pairs('stp-fs', both(vectorStores(2, 'st'))),
  pairs('ldp-fs', both(vectorLoads(2, 'st'))),
  pairs('stp-fd', both(vectorStores(3, 'dt'))),
  pairs('ldp-fd', both(vectorLoads(3, 'dt'))),
  pairs('stp-fq', both(vectorStores(4, 'qt'))),
  pairs('ldp-fq', both(vectorLoads(4, 'qt'))),
  {
    'stnp-fs': pairTransfer(both(vectorStores(2, 'st')), 'off'),
    'ldnp-fs': pairTransfer(both(vectorLoads(2, 'st')), 'off'),
    'stnp-fd': pairTransfer(both(vectorStores(3, 'dt')), 'off'),
    'ldnp-fd': pairTransfer(both(vectorLoads(3, 'dt')), 'off'),
    'stnp-fq': pairTransfer(both(vectorStores(4, 'qt')), 'off'),
    'ldnp-fq': pairTransfer(both(vectorLoads(4, 'qt')), 'off'),

    ...scalarFloats,
    'fmov-reg': floatMove,
    'fmov-imm': floatConstant,
    'fmov-toint': floatToInteger,
    'fmov-fromint': integerToFloat,
    'fmov-tohigh': (x, f) => {
      const vector = VECTOR[f.n('high')]!;
      x.b.to(vector, 'join64', x.b.make('low64', vector), x.source(f.n('xn')));
      return undefined;
    },
    'fmov-fromhigh': (x, f) => {
      x.b.to(x.target(f.n('xd')), 'high64', VECTOR[f.n('high')]!);
      return undefined;
    },
    'fmov-v4s': (x, f) => {
      setVector(x, f.n('q') === 1, VECTOR[f.n('v4s')]!, replicate(floatingBits(f.n('imm8'), 32), 32));
      return undefined;
    },
    'fmov-v8h': (x, f) => {
      setVector(x, f.n('q') === 1, VECTOR[f.n('v8h')]!, replicate(floatingBits(f.n('imm8'), 16), 16));
      return undefined;
    },
    'fmov-v2d': (x, f) => {
      setVector(x, true, VECTOR[f.n('v2d')]!, floatingBits(f.n('imm8'), 64));
      return undefined;
    },
    'movi-b': vectorConstant(8, (imm) => imm, 'bd'),
    'movi-d': byteMask(false),
    'movi-2d': byteMask(true),
    'movi-s': vectorConstant(32, shiftedByte, 'v4s'),
    'mvni-s': vectorConstant(32, shiftedByte, 'v4s', true),
    'orr-s': vectorImmediate('or128', 32),
    'bic-s': vectorImmediate('andnot128', 32),
    'orr-h': vectorImmediate('or128', 16),
    'bic-h': vectorImmediate('andnot128', 16),
    'movi-h': vectorConstant(16, shiftedByte, 'v8h'),
    'mvni-h': vectorConstant(16, shiftedByte, 'v8h', true),
    'movi-msl': vectorConstant(32, shiftedOnes, 'v4s'),
    'mvni-msl': vectorConstant(32, shiftedOnes, 'v4s', true),
    'and-v': vectorLogic('and128'),
    'bic-v': vectorLogic('andnot128'),
    'orr-v': vectorLogic('or128'),
    'orn-v': vectorOrNot,
    'eor-v': vectorLogic('xor128'),
    not: vectorNot,
    bsl: vectorSelect('bsl'),
    bit: vectorSelect('bit'),
    bif: vectorSelect('bif'),
    cnt: countOnes,
    addv: addAcross,
    umov: elementToInteger(false),
    smov: elementToInteger(true),
    'ins-gen': (x, f) => {
      writeElement(x, VECTOR[f.n('ed')]!, elementOf(f.n('imm5')), x.source(f.n('vw')));
      return undefined;
    },
    'ins-elem': (x, f) => {
      const value = readElement(x, VECTOR[f.n('en2')]!, elementOf(f.n('imm5'), f.n('imm4')));
      writeElement(x, VECTOR[f.n('ed')]!, elementOf(f.n('imm5')), value);
      return undefined;
    },
    'dup-gen': (x, f) => {
      fillVector(x, f.n('q') === 1, VECTOR[f.n('vd')]!, elementOf(f.n('imm5')).bits, x.source(f.n('vw')));
      return undefined;
    },
    'dup-s': (x, f) => {
      const element = elementOf(f.n('imm5'));
      const value = truncated(x, readElement(x, VECTOR[f.n('en')]!, element), element.bits);
      x.b.to(VECTOR[f.n('se')]!, 'wide64', value);
      return undefined;
    },
    'dup-elem': (x, f) => {
      const element = elementOf(f.n('imm5'));
      const value = readElement(x, VECTOR[f.n('en')]!, element);
      fillVector(x, f.n('q') === 1, VECTOR[f.n('vd')]!, element.bits, value);
      return undefined;
    },
  },
  structureSemantics(LANE_SLOTS, READ),
  vectorSemantics(LANE_SLOTS),
  cipherSemantics(VECTOR),
] as const satisfies readonly Partial<Record<Arm64Mnemonic, Lift>>[];

/** A row that is in neither does not compile. */
type KeysOf<Each> = Each extends unknown ? keyof Each : never;
type Missing = Exclude<
  Arm64Mnemonic,
  | KeysOf<(typeof SEMANTICS)[number]>
  | (typeof NAMED_ONLY | typeof VECTOR_NUMBERS)[number]
  | IntegerRow
  | CryptographyRow
  | LaterRow
  | HalfRow
>;
const NOTHING_MISSING: [Missing] extends [never] ? true : Missing = true;

const table = lazily(
  () =>
    new Map<string, Lift>([
      ...SEMANTICS.flatMap((each) => Object.entries<Lift>(each)),
      ...[...VECTOR_NUMBERS, ...arm64Table.rows.map(({ mnemonic }) => mnemonic).filter(isHalfRow)].map(
        (name) => [name, slowFloat] as const,
      ),
      ...CRYPTOGRAPHY_ROWS.map((name) => [name, slowCryptography] as const),
      ...LATER_ROWS.map((name) => [name, slowLater] as const),
      ...[...INTEGER_ROWS.keys()].map((name) => [name, slowVector] as const),
      ...arithmeticSemantics<Lifting, Fields, Terminator | undefined>({ ...LANE_SLOTS, status: FPSR }, slowVector),
      ...floatSemantics<Lifting, Fields, Terminator | undefined>({ mode: MODE, registers: VECTOR }, slowFloat),
      ...(NOTHING_MISSING ? NAMED_ONLY : []).map((name) => [name, unsupported] as const),
    ]),
);

/**
 * Flags of the low bits of a register: N and Z of them, V where the next bit differs from the sign;
 * C stays.
 */
function setFlagsOf(bits: 8 | 16): Lift {
  return (x, f) => {
    const { b } = x;
    const source = x.source(f.n('wn'));
    const sign = b.make('and', b.make('shr', source, BigInt(bits - 1)), 1n);
    const above = b.make('and', b.make('shr', source, BigInt(bits)), 1n);
    const zero = b.make('seteq', b.make(`zx${bits}`, source), 0n);
    const upper = b.make('or', b.make('shl', sign, 3n), b.make('shl', zero, 2n));
    const lower = b.make('or', b.make('and', x.nzcv(), 2n), b.make('xor', sign, above));
    x.setBits(b.make('or', upper, lower));
    return undefined;
  };
}

/** The rows that `exclusive` of the instruction table makes for one size. */
function exclusives<const B extends '' | 'b' | 'h', const F extends '' | '-x' | '-w'>(
  letter: B,
  form: F,
  scale: Scale,
  register: 'wt' | 'xt',
) {
  const [load, store] = [exclusiveLoad(scale, register), exclusiveStore(scale, register)];
  const [acquire, release] = [orderedLoad(scale, register), orderedStore(scale, register)];
  const rows: Record<string, Lift> = {
    [`stxr${letter}${form}`]: store,
    [`stlxr${letter}${form}`]: store,
    [`ldxr${letter}${form}`]: load,
    [`ldaxr${letter}${form}`]: load,
    [`stllr${letter}${form}`]: release,
    [`stlr${letter}${form}`]: release,
    [`ldlar${letter}${form}`]: acquire,
    [`ldar${letter}${form}`]: acquire,
    [`ldapr${letter}${form}`]: acquire,
  };
  type Name = 'stxr' | 'stlxr' | 'ldxr' | 'ldaxr' | 'stllr' | 'stlr' | 'ldlar' | 'ldar' | 'ldapr';
  return rows as Record<`${Name}${B}${F}`, Lift>;
}

// ----------------------------------------------------------------------------------------- helpers

/** The registers that floating point reads and writes. */
function floatRegisters(state: HelperState): FloatRegisters {
  return {
    fpcr: Number(state.get(FPCR)),
    vector: (number) => state.get(VECTOR[number]!) | (state.get(VECTOR[number]!, 1) << 64n),
    setVector: (number, value) => {
      state.set(VECTOR[number]!, BigInt.asUintN(64, value));
      state.set(VECTOR[number]!, value >> 64n, 1);
    },
    integer: (number) => (number === 31 ? 0n : state.get(GPR[number]!)),
    setInteger: (number, value) => {
      if (number !== 31) state.set(GPR[number]!, value);
    },
    setNzcv: (value) => {
      writeFlags(state, BigInt(value) << 28n);
    },
    holds: (condition) => conditionHolds(condition, Number(readFlags(state) >> 28n)),
  };
}

const HELPERS: Readonly<Record<string, Helper>> = {
  /** The word of an instruction that computes with floating point. */
  float: (state, argument) => {
    const { mnemonic, fields } = meanings.of(argument >>> 0);
    const flags = executeFloat(mnemonic ?? '', fields.operands, floatRegisters(state));
    if (flags === null) throw new ElftraceError('internal', `no floating point instruction: ${mnemonic ?? ''}`);
    setFloatControl(state, FPSR, state.get(FPSR) | BigInt(flags));
    return { kind: 'next' };
  },
  /** The word of an instruction of `INTEGER_ROWS`. */
  vector: (state, argument) => {
    const { mnemonic, fields } = meanings.of(argument >>> 0);
    const saturated = executeVector(mnemonic ?? '', fields.operands, floatRegisters(state));
    if (saturated) setFloatControl(state, FPSR, state.get(FPSR) | (1n << 27n));
    return { kind: 'next' };
  },
  /** The word of an instruction of `CRYPTOGRAPHY_ROWS`. */
  cryptography: (state, argument) => {
    const { mnemonic, fields } = meanings.of(argument >>> 0);
    executeCryptography(mnemonic ?? '', fields.operands, floatRegisters(state));
    return { kind: 'next' };
  },
  /** The word of an instruction of `LATER_ROWS`. */
  later: (state, argument) => {
    const { mnemonic, fields } = meanings.of(argument >>> 0);
    executeLater(mnemonic ?? '', fields.operands, floatRegisters(state));
    return { kind: 'next' };
  },
  /** CNTVCT_EL0. The argument is the number of the target. */
  counter: (state, number) => {
    if (number !== 31) state.set(GPR[number]!, state.time);
    return { kind: 'next' };
  },
};

// --------------------------------------------------------------------------------------- front end

/** A block ends when it has this many ops, so that its records are bounded. */
const MAX_OPS = 300;

/**
 * Values of BTYPE, as bits of the slot, that may not enter guarded memory at this word (Arm ARM,
 * D8.4.2).
 */
function refusedBranches(word: number): bigint {
  const [jumpOnly, callOnly, all] = [1n << 2n, 1n << 3n, 14n];
  switch (word) {
    // bti c, bti j, bti jc
    case 0xd503_245f:
      return callOnly;
    case 0xd503_249f:
      return jumpOnly;
    case 0xd503_24df:
      return 0n;
    // paciasp, pacibsp
    case 0xd503_233f:
    case 0xd503_237f:
      return callOnly;
  }
  // brk and hlt raise their own exception.
  return (word & 0xffe0_001f) >>> 0 === 0xd420_0000 || (word & 0xffe0_001f) >>> 0 === 0xd440_0000 ? 0n : all;
}

const meanings = new WordMemo((word) => {
  const decoded = arm64Table.decode(word);
  const mnemonic = decoded?.row.mnemonic ?? null;
  const emit = (mnemonic !== null && table().get(mnemonic)) || unsupported;
  return { mnemonic, emit, fields: new Fields(decoded?.operands ?? {}) };
});

function liftFor(
  identification: ReadonlyMap<number, bigint>,
  code: Uint8Array,
  address: Address,
  limits: LiftLimits,
): Block {
  const view = new ByteView(code, 'little', 'code');
  const builder = new BlockBuilder(SLOTS, address);
  const lifting = new Lifting(builder);
  lifting.identification = identification;
  lifting.synchronises = limits.synchronises === true;
  lifting.slow = limits.slow === true;
  lifting.tracksBranches = limits.guarded !== undefined;
  lifting.guarded = limits.guarded?.(address) === true;
  if ((address & 3n) !== 0n) {
    builder.begin(address);
    return builder.finish(address + 4n, { kind: 'trap', trap: 'misaligned-pc' });
  }
  let pc = address;
  for (let offset = 0; ; offset += 4) {
    // The view may end before the window does; a block of its own decides.
    if (offset + 4 > code.length)
      return builder.finish(pc, builder.count > 0 ? { kind: 'jmp', pc } : { kind: 'fetch' });
    const full = builder.count >= limits.maxInstructions || builder.size >= MAX_OPS;
    if (builder.count > 0 && (full || limits.startsAt(pc))) return builder.finish(pc, { kind: 'jmp', pc });
    const word = view.u32(offset);
    const { mnemonic, emit, fields } = meanings.of(word);
    if (emit === unsupported) return builder.finish(pc, { kind: 'unknown', mnemonic, sizeBytes: 4 });
    builder.begin(pc);
    lifting.pc = pc;
    lifting.word = word;
    if (offset === 0 && lifting.tracksBranches) {
      const refused = lifting.guarded ? refusedBranches(word) : 0n;
      if (refused !== 0n) builder.check('checklanding', BTYPE, refused);
      if (refused !== 14n) builder.mov(BTYPE, 0n);
    }
    const terminator = emit(lifting, fields);
    pc = BigInt.asUintN(64, pc + 4n);
    if (terminator) return builder.finish(pc, terminator);
  }
}

/** The front end for A64, user mode. */
export const arm64Lifter: Lifter = {
  addressBits: 64,
  codeAlignBytes: 4,
  stackPointer: { slot: SLOTS.slot('sp'), popped: 0n },
  lanes: true,
  floats: true,
  endian: 'little',
  slots: SLOTS,
  registers: REGISTERS,
  helpers: HELPERS,
  reservation: { address: RESERVED_ADDRESS, none: NO_RESERVATION, granuleBytes: GRANULE_BYTES },
  lift: (code, address, limits) => liftFor(BASE, code, address, limits),
};

/** With cryptography announced. */
export const arm64CryptographyLifter: Lifter = {
  ...arm64Lifter,
  lift: (code, address, limits) => liftFor(CRYPTOGRAPHY, code, address, limits),
};

/** With what `armv8.2-a+fp16fml+dotprod+sha3` announces. */
export const armv82Lifter: Lifter = {
  ...arm64Lifter,
  lift: (code, address, limits) => liftFor(ARMV8_2, code, address, limits),
};
