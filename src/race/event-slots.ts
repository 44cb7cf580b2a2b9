/**
 * Which slots of its CPU an event of a thread reads and writes: the instruction itself, what is
 * asked of registers when it begins and when a call returns, and what handlers of traps do. What is
 * read is asked for before it is used, since it may have been taken for dead (`liveness.ts`).
 */
import type { Machine, SlotUse } from '../emulator/index.js';
import type { Slot } from '../machine/ir.js';
import type { RegisterName } from '../units.js';
import type { WorldStates } from './states.js';

export class EventSlots {
  private thread = 0;
  private reads: Slot[] = [];
  private writes: Slot[] = [];
  private addresses: readonly Slot[] = [];
  /** Any may be read. */
  private isAny = false;
  private readonly ofRegisters = new Map<RegisterName, readonly Slot[] | null>();
  private readonly all: readonly Slot[];

  constructor(
    private readonly machine: Machine,
    private readonly states: WorldStates,
  ) {
    const { slots } = machine.lifter;
    this.all = Array.from({ length: slots.count }, (_, slot) => slot).filter((slot) => !slots.isTemporary(slot));
  }

  /** An event of a thread begins, whose CPU is the running one. */
  begin(thread: number): void {
    this.thread = thread;
    this.reads = [];
    this.writes = [];
    this.addresses = [];
    this.isAny = false;
  }

  /** What it has come to so far; null: it may depend on any slot. */
  get taken(): SlotUse | null {
    const { reads, writes, addresses } = this;
    return this.isAny ? null : { reads, writes, addresses };
  }

  /**
   * It reads, and then writes; null: any.
   * @throws DeadRead
   */
  use(use: SlotUse | null): void {
    this.states.reads(this.thread, use?.reads ?? null);
    if (use === null) {
      this.isAny = true;
      return;
    }
    for (const slot of use.reads) if (!this.writes.includes(slot)) this.reads.push(slot);
    this.writes.push(...use.writes);
    this.addresses = use.addresses;
    this.states.writes(this.thread, use.writes);
  }

  /** The instruction stopped, and may not have written what it writes else. */
  stopped(): void {
    if (this.writes.length > 0) this.use(null);
  }

  /** Every slot was written. */
  overwritten(): void {
    this.use({ reads: [], writes: this.all, addresses: [] });
  }

  register(name: RegisterName): bigint {
    const slots = this.slotsOf(name);
    this.use(slots && { reads: slots, writes: [], addresses: [] });
    return this.machine.register(name);
  }

  setRegister(name: RegisterName, value: bigint): void {
    const slots = this.slotsOf(name);
    this.machine.setRegister(name, value);
    // Of a slot that has more than the register, the rest stays.
    this.use(slots && { reads: slots, writes: slots, addresses: [] });
  }

  /** Slots of a register; null: it is put together. */
  private slotsOf(name: RegisterName): readonly Slot[] | null {
    if (name === 'pc') return [];
    let slots = this.ofRegisters.get(name);
    if (slots === undefined) {
      const view = this.machine.lifter.registers.find((each) => each.name === name);
      slots = view?.parts?.map(([slot]) => slot) ?? null;
      this.ofRegisters.set(name, slots);
    }
    return slots;
  }
}
