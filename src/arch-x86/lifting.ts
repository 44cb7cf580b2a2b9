/**
 * One x86-64 instruction being lifted: its operands as ops read and write them, the status flags as
 * far as the block knows them, the stack, and whole vectors. What instructions mean is in `lift.ts`
 * and `vex.ts`.
 */
import { inverse, recordCode } from '../machine/ir.js';
import type {
  BlockBuilder, Condition, LoadName, Operand, PureName, Slot, StoreName, Terminator,
} from '../machine/ir.js'; // prettier-ignore
import { FLAG_FAMILIES, FLAG_ROTATED } from '../machine/status-flags.js';
import type { FlagFamily, FlagKind, FlagTestName } from '../machine/status-flags.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import type { MemoryOperand, RegisterOperand, X86Operand } from './decode.js';
import { X86Instruction } from './isa.js';
import {
  CONSTANT, FA, FB, FC, FS_BASE, GPR, GS_BASE, K, RSP, SLOTS, STATUS, VECTOR, VECTORS, ZERO,
} from './state.js'; // prettier-ignore

/** By condition code / 2: what it asks; the lowest bit asks for the opposite. */
const CONDITION_NAMES = ['o', 'b', 'e', 'be', 's', 'p', 'l', 'le'] as const;
const TESTS: readonly FlagTestName[] = ['flago', 'flagb', 'flage', 'flagbe', 'flags', 'flagp', 'flagl', 'flagle'];

export const LOADS: Readonly<Record<1 | 2 | 4 | 8, LoadName>> = { 1: 'ld8u', 2: 'ld16u', 4: 'ld32u', 8: 'ld64' };
const SIGNED_LOADS: Readonly<Record<1 | 2 | 4 | 8, LoadName>> = { 1: 'ld8s', 2: 'ld16s', 4: 'ld32s', 8: 'ld64' };
export const STORES: Readonly<Record<1 | 2 | 4 | 8, StoreName>> = { 1: 'st8', 2: 'st16', 4: 'st32', 8: 'st64' };
export type Bytes = 1 | 2 | 4 | 8;
const flagKinds = (family: FlagFamily) =>
  ({ 1: `${family}8`, 2: `${family}16`, 4: `${family}32`, 8: `${family}64` }) as const satisfies Record<
    Bytes,
    FlagKind
  >;
/** Kinds of records by family and bytes: nearly every instruction asks for one. */
export const FLAG_KINDS = Object.fromEntries(FLAG_FAMILIES.map((each) => [each, flagKinds(each)])) as Readonly<
  Record<FlagFamily, Readonly<Record<Bytes, FlagKind>>>
>;
export const LOG2 = { 1: 0, 2: 1, 4: 2, 8: 3 } as const;

export type Sized = 'add' | 'sub' | 'and' | 'or' | 'xor' | 'mul' | 'shl' | 'shr' | 'sar' | 'rotl' | 'rotr';
/** The same operations in 32 bits. */
const NARROW: Readonly<Record<Sized, PureName>> = {
  add: 'add32', sub: 'sub32', and: 'and32', or: 'or32', xor: 'xor32', mul: 'mul32', shl: 'shl32', shr: 'shr32',
  sar: 'sar32', rotl: 'rotl32', rotr: 'rotr32',
}; // prettier-ignore

/** A comparison that holds exactly when a condition does. */
export interface Test {
  readonly condition: Condition;
  readonly width: 32 | 64;
  readonly a: Slot;
  readonly b: Operand;
}

/** What the block knows of the record: `null` of a family whose K is computed. */
export interface Known {
  readonly family: FlagFamily | 'bits';
  readonly bytes: Bytes;
  /** A constant, or the B slot. */
  readonly b: Operand;
  /** The carry is in C. */
  readonly rotated: boolean;
  /**
   * Where the difference is, as long as the instruction behind number `count` of the block is
   * lifted.
   */
  result: { readonly slot: Slot; readonly count: number } | null;
}

/** An address as an access takes it: slot + constant, or slot + slot. */
export interface Place {
  readonly base: Slot;
  readonly offset: Operand;
}

/** One is lifted at a time. */
const INSTRUCTION = new X86Instruction();

/** The instruction being lifted, and what is known of the flags in this block. */
export class Lifting {
  readonly instruction = INSTRUCTION;
  operands: readonly X86Operand[] = [];
  pc: Address = 0n;
  /** Behind the instruction. */
  next: Address = 0n;
  known: Known | null = null;
  /** A serialising instruction must end the block: see `LiftLimits.synchronises`. */
  synchronises = false;
  slow = false;
  /** The instruction is one of AVX: vectors in memory may lie anywhere. */
  vex = false;
  /** Some memory is guarded: indirect branches are noted. */
  tracksBranches = false;

  constructor(readonly b: BlockBuilder) {}

  operand(i: number): X86Operand {
    const operand = this.operands[i];
    if (!operand) throw new ElftraceError('internal', `the row has no operand ${i}`, { value: i });
    return operand;
  }

  /** The size of the operation: that of the first operand unless said otherwise. */
  bytes(i = 0): Bytes {
    const operand = this.operand(i);
    if (operand.kind === 'other' || operand.bytes === 16) throw new ElftraceError('internal', 'no integer operand');
    return operand.bytes;
  }

  /** The operation in 32 or 64 bits. */
  sized(name: Sized, bytes: Bytes): PureName {
    return bytes === 8 ? name : NARROW[name];
  }

  // -------------------------------------------------------------------------------------- operands

  private segment(operand: MemoryOperand): Slot | null {
    return operand.segment === null ? null : operand.segment === 'fs' ? FS_BASE : GS_BASE;
  }

  /**
   * The offset of a memory operand without its segment, in a slot: what `lea` computes. `plus` is
   * added.
   */
  effective(operand: MemoryOperand, plus = 0n): Operand {
    const { b } = this;
    const { base, index, scale, address32 } = operand;
    const displacement = operand.displacement + plus;
    if (base < 0 && index < 0) return BigInt.asUintN(address32 ? 32 : 64, displacement);
    let sum: Slot;
    if (index < 0) sum = GPR[base]!;
    else {
      const shift = BigInt(scale);
      if (base < 0) sum = scale === 0 ? GPR[index]! : b.make('shl', GPR[index]!, shift);
      else if (scale === 0) sum = b.make('add', GPR[base]!, GPR[index]!);
      else sum = b.make((['addsh1', 'addsh2', 'addsh3'] as const)[scale - 1]!, GPR[base]!, GPR[index]!);
    }
    if (displacement !== 0n) sum = b.make('add', sum, displacement);
    return address32 ? b.make('zx32', sum) : sum;
  }

  /** Where a memory operand lies. */
  place(operand: MemoryOperand, plus = 0n): Place {
    const { b } = this;
    const segment = this.segment(operand);
    const { base, index, scale } = operand;
    if (!operand.address32 && !(base < 0 && index < 0)) {
      // The displacement goes into the access.
      let sum = GPR[base < 0 ? index : base]!;
      const displacement = operand.displacement + plus;
      if (base < 0) {
        if (scale > 0) sum = b.make('shl', sum, BigInt(scale));
      } else if (index >= 0) {
        if (scale === 0 && displacement === 0n && segment === null) return { base: sum, offset: GPR[index]! };
        const op = (['add', 'addsh1', 'addsh2', 'addsh3'] as const)[scale];
        sum = b.make(op, sum, GPR[index]!);
      }
      if (segment !== null) sum = b.make('add', sum, segment);
      return { base: sum, offset: BigInt.asUintN(64, displacement) };
    }
    const offset = this.effective(operand, plus);
    if (typeof offset === 'bigint') return { base: segment ?? ZERO, offset };
    return { base: segment === null ? offset : b.make('add', offset, segment), offset: 0n };
  }

  load(place: Place, bytes: Bytes, signed = false, d = this.b.temp()): Slot {
    this.b.load((signed ? SIGNED_LOADS : LOADS)[bytes], d, place.base, place.offset);
    return d;
  }

  store(place: Place, bytes: Bytes, value: Operand): void {
    this.b.store(STORES[bytes], value, place.base, place.offset);
  }

  /**
   * The slot of a register of at least 16 bits, or its byte moved down. Bits above the width are
   * anything.
   */
  register(operand: RegisterOperand): Slot {
    const slot = GPR[operand.number]!;
    return operand.high ? this.b.make('shr', slot, 8n) : slot;
  }

  /** The value of an operand; bits above `bytes` are anything. */
  value(operand: X86Operand, bytes: Bytes): Operand {
    switch (operand.kind) {
      case 'register':
        return this.register(operand);
      case 'memory':
        return this.load(this.place(operand), bytes);
      case 'immediate':
        return BigInt.asUintN(64, operand.value);
      default:
        throw new ElftraceError('internal', 'no integer operand');
    }
  }

  /** The value sign-extended to 64 bits. */
  signed(operand: X86Operand, bytes: Bytes): Operand {
    if (operand.kind === 'memory') return this.load(this.place(operand), bytes, true);
    if (operand.kind === 'immediate') return BigInt.asUintN(64, BigInt.asIntN(8 * bytes, operand.value));
    return this.extend(this.value(operand, bytes), bytes);
  }

  /** The value zero-extended to 64 bits. */
  zeroed(operand: X86Operand, bytes: Bytes): Operand {
    if (operand.kind === 'immediate') return BigInt.asUintN(8 * bytes, operand.value);
    const value = this.value(operand, bytes);
    return operand.kind === 'memory' ? value : this.zero(value, bytes);
  }

  /**
   * The value of operand `i` as the record of a difference wants it: sign-extended below 32 bits.
   */
  narrow(i: number, bytes: Bytes): Operand {
    const operand = this.operand(i);
    return bytes < 4 ? this.signed(operand, bytes) : this.value(operand, bytes);
  }

  extend(value: Operand, bytes: Bytes): Slot {
    return bytes === 8 ? this.inSlot(value) : this.b.make(({ 1: 'sx8', 2: 'sx16', 4: 'sx32' } as const)[bytes], value);
  }

  zero(value: Operand, bytes: Bytes): Slot {
    return bytes === 8 ? this.inSlot(value) : this.b.make(({ 1: 'zx8', 2: 'zx16', 4: 'zx32' } as const)[bytes], value);
  }

  inSlot(value: Operand): Slot {
    return typeof value === 'number' ? value : this.copy(value);
  }

  copy(value: Operand): Slot {
    const d = this.b.temp();
    this.b.mov(d, value);
    return d;
  }

  /** Writes a register; bits above the width are ignored. */
  setRegister(operand: RegisterOperand, value: Operand): void {
    const slot = GPR[operand.number]!;
    switch (operand.bytes) {
      case 8:
        this.b.mov(slot, value);
        break;
      case 4:
        if (typeof value === 'bigint') this.b.mov(slot, BigInt.asUintN(32, value));
        else this.b.to(slot, 'zx32', value);
        break;
      case 2:
        this.b.to(slot, 'ins16', slot, value);
        break;
      default:
        this.b.to(slot, operand.high ? 'ins8h' : 'ins8', slot, value);
    }
  }

  /** Register `number` in a width, for implicit operands. */
  implicit(number: number, bytes: Bytes): RegisterOperand {
    return { kind: 'register', number, bytes, high: false };
  }

  /**
   * Reads, changes and writes the first operand. `compute` writes the new value to `d`, which may
   * be the slot of `old`; `before` sees the old value (flags of a difference), `after` the new one.
   * Both come when nothing can fault any more. Values of 8 and 16 bits come sign-extended.
   */
  modify(steps: {
    readonly compute: (d: Slot, old: Slot, bytes: Bytes) => void;
    readonly before?: (old: Slot, bytes: Bytes) => void;
    readonly after?: (value: Slot, bytes: Bytes) => void;
  }): void {
    const operand = this.operand(0);
    const bytes = this.bytes();
    if (operand.kind === 'memory') {
      const place = this.place(operand);
      const old = this.load(place, bytes, bytes < 4);
      const d = this.b.temp();
      steps.compute(d, old, bytes);
      this.store(place, bytes, d);
      steps.before?.(old, bytes);
      steps.after?.(d, bytes);
      return;
    }
    if (operand.kind !== 'register') throw new ElftraceError('internal', 'a destination that cannot be written');
    if (bytes >= 4) {
      const slot = GPR[operand.number]!;
      steps.before?.(slot, bytes);
      steps.compute(slot, slot, bytes);
      steps.after?.(slot, bytes);
      return;
    }
    const old = this.extend(this.register(operand), bytes);
    const d = this.b.temp();
    steps.before?.(old, bytes);
    steps.compute(d, old, bytes);
    steps.after?.(d, bytes);
    this.setRegister(operand, d);
  }

  /** An operand that `modify` may overwrite before it is looked at again. */
  kept(operand: X86Operand, bytes: Bytes): Operand {
    const value = bytes < 4 ? this.signed(operand, bytes) : this.value(operand, bytes);
    const target = this.operand(0);
    return target.kind === 'register' && value === GPR[target.number] ? this.copy(value) : value;
  }

  // ----------------------------------------------------------------------------------------- flags

  /** Writes the record. */
  flags(family: FlagFamily, bytes: Bytes, a: Operand, b: Operand): void {
    this.b.record(K, FLAG_KINDS[family][bytes], a, b);
    this.known = { family, bytes, b: typeof b === 'bigint' ? b : FB, rotated: false, result: null };
  }

  /** The flags of a result without carry and overflow. */
  logic(bytes: Bytes, result: Operand): void {
    this.flags('sub', bytes, result, 0n);
  }

  flagsIf(condition: Operand, family: FlagFamily, bytes: Bytes, a: Operand, b: Operand): void {
    this.b.recordIf(condition, K, FLAG_KINDS[family][bytes], a, b);
    this.known = null;
  }

  /** Literal flags, at their places in RFLAGS. */
  literal(bits: Operand): void {
    this.b.record(K, 'bits', bits, 0n);
    this.known = { family: 'bits', bytes: 8, b: 0n, rotated: false, result: null };
  }

  /** Carry is bit 0 of `c`, overflow that and bit 63; the other flags stay. */
  rotated(c: Operand): void {
    const { known, b } = this;
    if (known) b.mov(K, BigInt(this.codeOf(known) | FLAG_ROTATED));
    else b.to(K, 'or', K, BigInt(FLAG_ROTATED));
    b.mov(FC, c);
    this.known = known && { ...known, rotated: true };
  }

  /** The same if `condition` (0 or 1) holds. */
  rotatedIf(condition: Slot, c: Operand): void {
    const { b } = this;
    b.select(FC, condition, c, FC);
    b.to(K, 'or', K, b.make('shl', condition, 6n));
    this.known = null;
  }

  private codeOf(known: Known): number {
    return recordCode(known.family === 'bits' ? 'bits' : FLAG_KINDS[known.family][known.bytes]);
  }

  /** All status flags. */
  status(): Slot {
    const { known, b } = this;
    return known?.family === 'bits' && !known.rotated ? b.make('and', FA, STATUS) : b.test('flagbits', K);
  }

  /**
   * The comparison of a condition code; `cc` as in the low nibble of the opcode. A temporary that
   * is compared with 0 is 0 or 1.
   */
  test(cc: number): Test {
    const plain = this.direct(cc >> 1);
    const test = plain ?? { condition: 'ne', width: 64, a: this.b.test(TESTS[cc >> 1]!, K), b: 0n };
    return (cc & 1) === 0 ? test : { ...test, condition: inverse(test.condition) };
  }

  /** A comparison of the operands of the record; null where only the functions know. */
  private direct(which: number): Test | null {
    const { known, b } = this;
    if (!known) return null;
    const width = known.bytes === 4 ? 32 : 64;
    const is = (condition: Condition, a: Slot = FA, other: Operand = known.b): Test => ({
      condition,
      width,
      a,
      b: other,
    });
    const bit = (from: Slot, place: number): Test => ({
      condition: 'ne',
      width: 64,
      a: b.make('and', place === 0 ? from : b.make('shr', from, BigInt(place)), 1n),
      b: 0n,
    });
    const name = CONDITION_NAMES[which]!;
    if (known.rotated) {
      if (name === 'b') return bit(FC, 0);
      if (name !== 'e' && name !== 's') return null;
    }
    switch (known.family) {
      case 'sub':
        return this.ofDifference(name, known, is);
      case 'add':
        if (name === 'b') return is('ltu');
        break;
      case 'inc':
      case 'dec':
      case 'shr':
      case 'res':
        if (name === 'b') return bit(FB, 0);
        break;
      case 'bits':
        switch (name) {
          case 'o': return bit(FA, 11);
          case 'b': return bit(FA, 0);
          case 'e': return bit(FA, 6);
          case 's': return bit(FA, 7);
          case 'p': return bit(FA, 2);
          case 'be': return { condition: 'ne', width: 64, a: b.make('setne', b.make('and', FA, 0x41n), 0n), b: 0n };
          default: return null;
        } // prettier-ignore
      default:
        return null;
    }
    // Families whose A is the result.
    if (name === 'e') return is('eq', FA, 0n);
    return name === 's' ? is('lt', FA, 0n) : null;
  }

  /** The same where the record is of a subtraction or comparison. */
  private ofDifference(
    name: (typeof CONDITION_NAMES)[number],
    known: Known,
    is: (condition: Condition, a?: Slot, other?: Operand) => Test,
  ): Test | null {
    const { b } = this;
    switch (name) {
      case 'b': return is('ltu');
      case 'e':
        if (known.result?.count === b.count - 1) return { condition: 'eq', width: 64, a: known.result.slot, b: 0n };
        return is('eq');
      case 'be': return is('leu');
      case 'l': return is('lt');
      case 'le': return is('le');
      case 's':
        if (known.b === 0n) return is('lt');
        if (known.bytes >= 4) return is('lt', b.make('sub', FA, known.b), 0n);
        return is('lt', this.extend(b.make('sub', FA, known.b), known.bytes), 0n);
      default: return null;
    } // prettier-ignore
  }

  /** A condition as 0 or 1. */
  truth(cc: number): Slot {
    const { condition, width, a, b } = this.test(cc);
    if (condition === 'ne' && b === 0n && width === 64 && a >= SLOTS.firstTemporary) return a;
    return this.b.make(width === 32 ? `set${condition}32` : `set${condition}`, a, b);
  }

  /** The carry flag as 0 or 1. */
  carry(): Slot {
    return this.truth(2);
  }

  // ----------------------------------------------------------------------------------------- stack

  push(value: Operand, bytes: 2 | 8 = 8): void {
    const { b } = this;
    const size = BigInt(bytes);
    b.store(STORES[bytes], value, RSP, BigInt.asUintN(64, -size));
    b.to(RSP, 'sub', RSP, size);
  }

  pop(bytes: 2 | 8 = 8): Slot {
    const { b } = this;
    const value = this.load({ base: RSP, offset: 0n }, bytes);
    b.to(RSP, 'add', RSP, BigInt(bytes));
    return value;
  }

  // --------------------------------------------------------------------------------------- vectors

  vector(operand: X86Operand): Slot {
    if (operand.kind !== 'vector') throw new ElftraceError('internal', 'no vector operand');
    return VECTORS[operand.number]!;
  }

  /** A 16-byte operand in a slot; those in memory go through the temporary vector. */
  wide(operand: X86Operand, aligned: boolean): Slot {
    if (operand.kind !== 'memory') return this.vector(operand);
    const place = this.place(operand);
    if (aligned && !this.vex) this.aligned(place, 16);
    this.b.load('ldv128', VECTOR, place.base, place.offset);
    return VECTOR;
  }

  /** Goes on only when the place is a multiple of `bytes`; the slow way is the exception. */
  aligned(place: Place, bytes: number): void {
    const { b } = this;
    const address = place.offset === 0n ? place.base : b.make('add', place.base, place.offset);
    b.guard(b.make('seteq', b.make('and', address, BigInt(bytes - 1)), 0n));
  }
}

/** Emits one instruction. A terminator ends the block. */
export type Lift = (x: Lifting) => Terminator | undefined;

export const UNKNOWN = { kind: 'unknown', mnemonic: null, sizeBytes: 1 } as const satisfies Terminator;
export const PROTECTION = { kind: 'trap', trap: 'protection' } as const satisfies Terminator;
/** Signal 8. */
export const FLOAT_TRAP = { kind: 'trap', trap: 'divide' } as const satisfies Terminator;
export const UNDEFINED = { kind: 'trap', trap: 'undefined-instruction' } as const satisfies Terminator;

export const nothing: Lift = () => undefined;
/** Privileged, so it faults in user mode. */
export const privileged: Lift = () => PROTECTION;
export const helper =
  (name: string, argument = 0): Lift =>
  (x) => ({ kind: 'helper', name, argument, next: x.next });

export function immediateOf(x: Lifting, i: number): number {
  const operand = x.operand(i);
  if (operand.kind !== 'immediate') throw new ElftraceError('internal', 'a control byte is a constant');
  return Number(operand.value & 0xffn);
}

/** A constant vector, in the slot for constants. */
export function vectorConstant(x: Lifting, low: bigint, high: bigint): Slot {
  x.b.to(CONSTANT, 'join64', low, high);
  return CONSTANT;
}

export function bytesConstant(x: Lifting, byte: (i: number) => number): Slot {
  let [low, high] = [0n, 0n];
  for (let i = 7; i >= 0; i--) {
    low = (low << 8n) | BigInt(byte(i));
    high = (high << 8n) | BigInt(byte(i + 8));
  }
  return vectorConstant(x, low, high);
}

export const vectorNumber = (x: Lifting, i: number): number => {
  const operand = x.operand(i);
  if (operand.kind !== 'vector') throw new ElftraceError('internal', 'no vector operand');
  return operand.number;
};
export const generalNumber = (x: Lifting, i: number): number => {
  const operand = x.operand(i);
  if (operand.kind !== 'register') throw new ElftraceError('internal', 'no general register');
  return operand.number;
};

/**
 * Where the argument of helpers on vectors has what: the numbers of the operation (from bit 0 on),
 * of the target and of the first operand, the control byte; how long the target is.
 */
export const VECTOR_FIELDS = {
  target: 8,
  control: 12,
  toMmx: 1 << 20,
  entersMmx: 1 << 21,
  first: 22,
  /** The upper half of the target is cleared, or written. */
  clears: 1 << 26,
  wide: 1 << 27,
} as const;

/** The name of the op that does it, by that of the instruction; 128 bits each. */
export const VECTOR_OPS: Readonly<Record<string, PureName>> = {
  pcmpeqb: 'veq8',
  pcmpeqw: 'veq16',
  pcmpeqd: 'veq32',
  pcmpeqq: 'veq64',
  pcmpgtb: 'vgt8',
  pcmpgtw: 'vgt16',
  pcmpgtd: 'vgt32',
  pcmpgtq: 'vgt64',
  paddb: 'vadd8',
  paddw: 'vadd16',
  paddd: 'vadd32',
  paddq: 'vadd64',
  psubb: 'vsub8',
  psubw: 'vsub16',
  psubd: 'vsub32',
  psubq: 'vsub64',
  paddsb: 'vadds8',
  paddsw: 'vadds16',
  paddusb: 'vaddu8',
  paddusw: 'vaddu16',
  psubsb: 'vsubs8',
  psubsw: 'vsubs16',
  psubusb: 'vsubu8',
  psubusw: 'vsubu16',
  pminub: 'vminu8',
  pmaxub: 'vmaxu8',
  pminsw: 'vmins16',
  pmaxsw: 'vmaxs16',
  pminsb: 'vmins8',
  pmaxsb: 'vmaxs8',
  pminuw: 'vminu16',
  pmaxuw: 'vmaxu16',
  pminsd: 'vmins32',
  pmaxsd: 'vmaxs32',
  pminud: 'vminu32',
  pmaxud: 'vmaxu32',
  pavgb: 'vavg8',
  pavgw: 'vavg16',
  pmullw: 'vmul16',
  pmulld: 'vmul32',
  pmaddwd: 'vdot16',
  packsswb: 'vnarrows16',
  packuswb: 'vnarrowu16',
  packssdw: 'vnarrows32',
  packusdw: 'vnarrowu32',
  punpcklbw: 'vlow8',
  punpckhbw: 'vhigh8',
  punpcklwd: 'vlow16',
  punpckhwd: 'vhigh16',
  punpckldq: 'vlow32',
  punpckhdq: 'vhigh32',
  unpcklps: 'vlow32',
  unpckhps: 'vhigh32',
};

/** The same of logic; `andnot128` has its operands the other way round. */
export const LOGIC_OPS: Readonly<Record<string, 'and128' | 'or128' | 'xor128' | 'andnot128'>> = {
  xorps: 'xor128',
  xorpd: 'xor128',
  pxor: 'xor128',
  orps: 'or128',
  orpd: 'or128',
  por: 'or128',
  andps: 'and128',
  andpd: 'and128',
  pand: 'and128',
  andnps: 'andnot128',
  andnpd: 'andnot128',
  pandn: 'andnot128',
};
