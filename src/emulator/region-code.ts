/**
 * The code of one region as it grows: slots of the state are locals of its function, and a block
 * leaves through stores of what may be dirty.
 */
import { CONTROL } from './host.js';
import { F64, I32, I64, V128 } from '../machine/ir.js';
import type { FunctionName, Lifter, Op, Operand, SlotLayout, SlotType } from '../machine/ir.js';
import { FUEL, PARAMETERS, POINTER, STACK, STOP } from './region-frames.js';
import type { StopName } from './region-frames.js';
import type { SlotSet } from './region-flow.js';
import { Code } from './wasm.js';
import type { ValueType } from './wasm.js';
import type { Address } from '../units.js';

/** Where an access is expected. */
export type Site =
  | {
      readonly kind: 'window';
      /** Guest and host address of its first byte. */
      readonly base: Address;
      readonly host: number;
      /** Host address of its cells. */
      readonly cells: number;
    }
  /** It goes here and there, or to memory that the page map decides on. */
  /** `record`: host address of its HINT record. */
  | { readonly kind: 'search'; readonly record: number };

export interface CompileContext {
  readonly slots: SlotLayout;
  /** What calls keep the stack in (`Lifter.stackPointer`). */
  readonly pointer: StackPointer;
  /** Host address of the word of the region in `FRAMES`. */
  readonly frame: number;
  readonly addressBits: 32 | 64;
  /** Whether the engine multiplies and adds in one rounding. */
  readonly fuses: boolean;
  /** Offset of the state block. */
  readonly state: number;
  /** The site of access number `ordinal` of an instruction. */
  site(instruction: Address, ordinal: number, op: Op): Site;
  /** Number of the function of a region that is made with this one; null where it is not. */
  memberIndex(address: Address): number | null;
  /** Number of the table entry of the region of an address. */
  tableIndex(address: Address): number;
  /** Number of a function in the module. */
  functionIndex(name: FunctionName | 'resolve' | 'goto' | 'jump'): number;
  /** Several accesses share a check at `first`: what to blame for a miss. */
  group(first: Address, members: readonly Address[]): void;
}

export type StackPointer = NonNullable<Lifter['stackPointer']>;

/** More than what may be owed where a block stops. */
export const MOST_OWED = 0x8000;

const LOAD: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.load], f64: [F64.load], v128: V128.load };
const STORE: Readonly<Record<SlotType, readonly number[]>> = { i64: [I64.store], f64: [F64.store], v128: V128.store };

export class RegionCode {
  readonly code = new Code(1024);
  readonly locals: ValueType[] = [];
  private readonly slotLocals = new Map<number, number>();
  /**
   * Slots of integers that were given doubles in this block, which are in locals of their own, too.
   * Engines move them to registers of integers and back otherwise.
   */
  private readonly doubles = new Set<number>();
  /** These locals. Each costs an engine something at each branch, so a slot keeps its own. */
  private readonly doubleLocals = new Map<number, number>();
  private readonly scratches = new Map<ValueType, number>();
  private readonly spares: number[] = [];
  readonly fuel = FUEL;
  /** Where an indirect branch goes, or where the code stops. */
  readonly target: number;
  readonly wide: number;
  readonly narrow: number;

  constructor(readonly context: CompileContext) {
    this.slotLocals.set(context.pointer.slot, POINTER);
    this.target = this.local('i64');
    this.wide = this.local('i64');
    this.narrow = this.local('i32');
  }

  local(type: ValueType): number {
    this.locals.push(type);
    return PARAMETERS + this.locals.length - 1;
  }

  /** A local for a value that is used at once. */
  scratch(type: ValueType): number {
    let local = this.scratches.get(type);
    if (local === undefined) {
      local = this.local(type);
      this.scratches.set(type, local);
    }
    return local;
  }

  /** Several such locals for integers. */
  spare(index: number): number {
    return (this.spares[index] ??= this.local('i64'));
  }

  slotLocal(slot: number): number {
    let local = this.slotLocals.get(slot);
    if (local === undefined) {
      local = this.local(this.context.slots.type(slot));
      this.slotLocals.set(slot, local);
    }
    return local;
  }

  /** Another block begins, which code comes to from elsewhere. */
  beginBlock(): void {
    this.doubles.clear();
  }

  private offset(slot: number): number {
    return this.context.state + this.context.slots.offset(slot);
  }

  value(operand: Operand, type: SlotType = 'i64'): void {
    const { code } = this;
    if (typeof operand === 'bigint') {
      code.i64(operand);
      if (type === 'f64') code.op(0xbf);
      return;
    }
    if (type === 'f64' && this.doubles.has(operand)) {
      code.get(this.doubleLocals.get(operand)!);
      return;
    }
    const own = this.context.slots.type(operand);
    if (this.context.slots.isInMemory(operand)) code.i32(0).memory(LOAD[own], this.offset(operand));
    else code.read(this.slotLocal(operand));
    if (own === type) return;
    code.op(type === 'f64' ? 0xbf : 0xbd);
  }

  /** Takes the value on the stack. */
  assign(slot: number, type: SlotType): void {
    const { code } = this;
    const own = this.context.slots.type(slot);
    if (this.context.slots.isInMemory(slot)) {
      const value = this.scratch(own);
      code.set(value).i32(0).get(value).memory(STORE[own], this.offset(slot));
      return;
    }
    this.doubles.delete(slot);
    if (own !== type) {
      if (type === 'f64') {
        let double = this.doubleLocals.get(slot);
        if (double === undefined) this.doubleLocals.set(slot, (double = this.local('f64')));
        this.doubles.add(slot);
        code.tee(double);
      }
      code.op(own === 'f64' ? 0xbf : 0xbd);
    }
    code.write(this.slotLocal(slot));
  }

  storeSlots(slots: readonly number[]): void {
    const { code } = this;
    for (const slot of slots) {
      const local = this.slotLocals.get(slot);
      if (local === undefined) continue;
      code.i32(0).get(local).memory(STORE[this.context.slots.type(slot)], this.offset(slot));
    }
  }

  loadSlots(set: SlotSet): void {
    for (const slot of set.slots()) if (slot !== this.context.pointer.slot) this.loadSlot(slot);
  }

  loadSlot(slot: number): void {
    this.code.i32(0).memory(LOAD[this.context.slots.type(slot)], this.offset(slot)).set(this.slotLocal(slot));
  }

  storeFuel(): void {
    this.code.i32(0).get(this.fuel).memory([I32.store], CONTROL.fuel);
  }

  storePlace(address: Address): void {
    this.code.i32(0).i64(address).memory([I64.store], CONTROL.place);
  }

  /**
   * The exits of a block. What is dirty only grows in it, so all exits share one chain of stores:
   * the exit of level n stores what was written after level n - 1 and goes on there. Places and
   * refunds are in locals.
   */
  openExits(levels: readonly SlotSet[]): (level: number, reason: StopName, place: Address, refund: number) => void {
    const { code } = this;
    const labels = levels.map(() => code.block());
    return (level, reason, place, refund) => {
      code.i64(place).set(this.target);
      code.i32((-STOP[reason] << 16) | (MOST_OWED + refund)).set(this.narrow);
      code.br(labels[level]!);
    };
  }

  closeExits(levels: readonly SlotSet[]): void {
    const { code } = this;
    for (let level = levels.length - 1; level >= 0; level--) {
      code.end();
      const before = levels[level - 1];
      this.storeSlots(levels[level]!.slots().filter((slot) => before?.has(slot) !== true));
    }
    code.i32(0).get(this.fuel).get(this.narrow).i32(0xffff).op(I32.and).op(I32.add);
    code.i32(MOST_OWED).op(I32.sub).memory([I32.store], CONTROL.fuel);
    code.i32(0).get(this.target).memory([I64.store], CONTROL.place);
    code.i64(0n).get(this.narrow).i32(16).op(I32.shr).op(I64.extendU).op(I64.sub);
    this.returnResult();
  }

  /** Returns the i64 on the stack. */
  returnResult(): void {
    this.code.get(this.fuel).return();
  }

  /** Pushes what a call hands on, behind the first parameter. */
  pushHanded(): void {
    this.code.get(STACK).get(POINTER).get(this.fuel);
  }

  /** What is dirty is written, but for what a call hands on. */
  storeForCall(dirty: SlotSet): void {
    this.storeSlots(dirty.slots().filter((slot) => slot !== this.context.pointer.slot));
  }

  /** Behind a call: the stack pointer is mostly what is expected; then nothing waits for memory. */
  takePointer(): void {
    const { code } = this;
    const { slot, popped } = this.context.pointer;
    if (popped !== 0n) code.get(POINTER).i64(popped).op(I64.add).set(POINTER);
    code.i32(0).memory([I64.load], this.offset(slot)).tee(this.wide).get(POINTER).op(I64.ne).if();
    code.get(this.wide).set(POINTER);
    code.end();
  }

  /** Leaves the region for an address at which no block of it begins. */
  leaveFor(address: Address, dirty: SlotSet): void {
    const { code } = this;
    this.storeForCall(dirty);
    code.i64(address);
    this.pushHanded();
    code.call(this.context.functionIndex('goto')).return();
  }

  /** Goes to the one of `targets` that is `this.target`, if any. */
  choose(targets: readonly Address[], follow: (target: Address) => void): void {
    const { code } = this;
    if (targets.length === 0) return;
    const sorted = [...targets].sort((a, b) => (a < b ? -1 : 1));
    const low = sorted[0]!;
    const span = sorted.at(-1)! - low;
    let shift = 0n;
    while (shift < 2n && sorted.every((each) => ((each - low) & ((2n << shift) - 1n)) === 0n)) shift++;
    if (sorted.length >= 4 && span >> shift <= 600n) {
      // Distances in units of the alignment: a rotation moves what must be 0 to the top, so that it
      // is out of range.
      const miss = code.block();
      const labels = sorted.map(() => code.block());
      labels.reverse();
      const table = new Array<number>(Number(span >> shift) + 1).fill(miss);
      sorted.forEach((each, index) => {
        table[Number((each - low) >> shift)] = labels[index]!;
      });
      code.get(this.target).i64(low).op(I64.sub).i64(shift).op(I64.rotr).tee(this.wide);
      code.i64(BigInt(table.length)).op(I64.geu).brIf(miss);
      code.get(this.wide).op(I32.wrap).brTable(table, miss);
      for (const each of sorted) {
        code.end();
        follow(each);
      }
      code.end();
      return;
    }
    for (const each of sorted) {
      code.get(this.target).i64(each).op(I64.eq).if();
      follow(each);
      code.end();
    }
  }
}
