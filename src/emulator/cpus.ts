/**
 * The CPUs of a machine: their registers, counts and reservations, and which of them runs. The
 * state block of the running one is in the WebAssembly.Memory, where generated code has it; those
 * of the others are kept here, and copied when another CPU is made the running one.
 */
import { STATE } from './host.js';
import type { HostMemory } from './host.js';
import type { HelperMemory, HelperState, Lifter, RegisterView, Slot } from '../machine/ir.js';
import type { GuestMemory } from './memory.js';
import { Reservations } from './reservations.js';
import type { CpuState } from './snapshot.js';
import { ElftraceError } from '../errors.js';
import type { Address, RegisterName } from '../units.js';

/** The state of a CPU; of the running one registers and `pc` are elsewhere. */
export interface Cpu {
  readonly state: Uint8Array;
  pc: Address;
  /** Address of the hook that was already served. */
  passHook: Address | null;
  /**
   * The instruction whose watches were served: where, after how many instructions, how many of its
   * accesses.
   */
  passWatch: CpuState['passWatch'];
  instructions: number;
}

/** A state without what the CPU has fetched. */
type OwnState = Omit<CpuState, 'fetched'>;

export class Cpus {
  /** Address of the instruction that the running CPU executes, or executes next. */
  pc: Address = 0n;
  private readonly all: Cpu[] = [];
  private current = 0;
  private skippedTicks = 0n;
  private words: Uint32Array = new Uint32Array(0);
  private readonly reservations: Reservations | null;
  /** Memory as helpers see it while they are watched. */
  private observed: HelperMemory | null = null;
  private readonly views = new Map<RegisterName, RegisterView>();
  private readonly places = new Map<RegisterName, readonly number[] | null>();
  /** Names of the registers; `pc` is one. */
  readonly registerNames: readonly RegisterName[];
  /** The running CPU as helpers and register views see it. */
  readonly state: HelperState;

  /** @param loaded  another CPU, or another state, is the running one now */
  constructor(
    private readonly host: HostMemory,
    private readonly lifter: Lifter,
    private readonly memory: GuestMemory,
    private readonly loaded: (index: number) => void,
  ) {
    const { reservation } = lifter;
    this.reservations = reservation
      ? new Reservations(memory, reservation.granuleBytes, (cpu) => {
          this.dropReservation(cpu);
        })
      : null;
    for (const view of lifter.registers) this.views.set(view.name, view);
    this.registerNames = [...this.views.keys(), 'pc'];
    this.state = this.helperState(memory);
    this.add();
    host.u8.set(this.all[0]!.state, STATE);
  }

  private helperState(memory: GuestMemory): HelperState {
    const { host, lifter } = this;
    const self = (): Cpus => this;
    return {
      get: (slot, half = 0) => host.u64[((STATE + lifter.slots.offset(slot)) >> 3) + half]!,
      set: (slot, value, half = 0) => {
        host.u64[((STATE + lifter.slots.offset(slot)) >> 3) + half] = value;
      },
      get pc() {
        return self().pc;
      },
      get instructions() {
        return self().running.instructions;
      },
      get time() {
        return self().time;
      },
      get memory() {
        return self().observed ?? memory;
      },
    };
  }

  /** Accesses of helpers are told before they happen; null: no longer. */
  observeHelpers(hook: ((address: Address, size: number, access: 'read' | 'write') => void) | null): void {
    const { memory } = this;
    if (hook === null) this.observed = null;
    else
      this.observed = {
        check: (address, size, access) => memory.check(address, size, access),
        read: (address, size) => {
          hook(address, size, 'read');
          return memory.read(address, size);
        },
        write: (address, bytes) => {
          hook(address, bytes.length, 'write');
          return memory.write(address, bytes);
        },
      };
  }

  // ------------------------------------------------------------------------------------ which runs

  get count(): number {
    return this.all.length;
  }

  /** Index of the running CPU. */
  get index(): number {
    return this.current;
  }

  get running(): Cpu {
    return this.all[this.current]!;
  }

  /** @throws ElftraceError 'usage' when there is no such CPU */
  at(index: number): Cpu {
    const cpu = this.all[index];
    if (!cpu) throw new ElftraceError('usage', `there is no CPU ${index}`, { value: index });
    return cpu;
  }

  /** Adds a CPU with zeroed registers and returns its index. */
  add(): number {
    const { slots, reservation } = this.lifter;
    const state = new Uint8Array(slots.sizeBytes);
    if (reservation) {
      new DataView(state.buffer).setBigUint64(slots.offset(reservation.address), reservation.none, true);
    }
    this.all.push({ state, pc: 0n, passHook: null, passWatch: null, instructions: 0 });
    return this.all.length - 1;
  }

  /** Makes another CPU the running one. */
  switchTo(index: number): void {
    this.saveRunning();
    this.holdReservation(this.current);
    this.load(index);
  }

  /** Gives another CPU the registers of the running one, and no reservation. */
  copyRunning(to: number): void {
    const cpu = this.all[to];
    if (!cpu || to === this.current) throw new ElftraceError('usage', `there is no other CPU ${to}`, { value: to });
    this.saveRunning();
    cpu.state.set(this.running.state);
    cpu.pc = this.pc;
    cpu.passHook = null;
    cpu.passWatch = null;
    this.dropReservation(to);
  }

  /** Copies the running CPU into its place among the others. */
  private saveRunning(): void {
    const last = this.running;
    last.state.set(this.host.u8.subarray(STATE, STATE + last.state.length));
    last.pc = this.pc;
  }

  private load(index: number): void {
    const next = this.all[index]!;
    this.reservations?.release(index);
    this.host.u8.set(next.state, STATE);
    this.pc = next.pc;
    this.current = index;
    this.loaded(index);
  }

  // ---------------------------------------------------------------------------------- reservations

  /** The running CPU loses its reservation, as when a kernel switches threads. */
  loseReservation(): void {
    const { reservation } = this.lifter;
    if (reservation) this.setSlot(reservation.address, reservation.none);
  }

  /** A CPU that does not run loses its reservation. */
  private dropReservation(index: number): void {
    const { reservation, slots } = this.lifter;
    if (!reservation) return;
    this.reservations?.release(index);
    const { state } = this.all[index]!;
    const view = new DataView(state.buffer, state.byteOffset, state.byteLength);
    view.setBigUint64(slots.offset(reservation.address), reservation.none, true);
  }

  /** Watches the reservation of a CPU that does not run. */
  private holdReservation(index: number): void {
    const { reservation, slots } = this.lifter;
    if (!reservation || !this.reservations) return;
    const { state } = this.all[index]!;
    const address = new DataView(state.buffer).getBigUint64(slots.offset(reservation.address), true);
    if (address !== reservation.none) this.reservations.hold(index, address);
  }

  /** The host writes to the range. */
  loseReservations(address: Address, size: number): void {
    const { reservation } = this.lifter;
    if (!reservation || !this.reservations) return;
    this.reservations.written(address, size);
    const own = this.slot(reservation.address);
    if (own === reservation.none) return;
    const granule = this.reservations.granuleOf(own);
    if (address + BigInt(size) <= granule || address >= granule + BigInt(reservation.granuleBytes)) return;
    this.setSlot(reservation.address, reservation.none);
  }

  /** The running CPU stores to the range; `changes`: to other bytes than are there. */
  stored(address: Address, size: number, changes: () => boolean): void {
    if (this.reservations && changes()) this.reservations.written(address, size);
  }

  // ---------------------------------------------------------------------------------- counts, time

  /** Instructions that all CPUs together have completed. */
  get totalInstructions(): number {
    let sum = 0;
    for (let i = 0; i < this.all.length; i++) sum += this.all[i]!.instructions;
    return sum;
  }

  /** One tick for each instruction that any CPU has completed, and those skipped. */
  get time(): bigint {
    return BigInt(this.totalInstructions) + this.skippedTicks;
  }

  skipTime(ticks: bigint): void {
    if (ticks < 0n) throw new ElftraceError('usage', 'time does not go back', { value: ticks });
    this.skippedTicks += ticks;
  }

  forgetInstructions(): void {
    for (const each of this.all) {
      each.instructions = 0;
      each.passWatch = null;
    }
  }

  // ------------------------------------------------------------------------------------- registers

  /** Value of an i64 slot. */
  slot(slot: Slot): bigint {
    return this.host.u64[(STATE + this.lifter.slots.offset(slot)) >> 3]!;
  }

  setSlot(slot: Slot, value: bigint): void {
    this.host.u64[(STATE + this.lifter.slots.offset(slot)) >> 3] = value;
  }

  private view(name: RegisterName): RegisterView {
    const view = this.views.get(name);
    if (!view) throw new ElftraceError('bad-reference', `no register is named ${name}`, { what: name });
    return view;
  }

  register(name: RegisterName): bigint {
    return name === 'pc' ? this.pc : this.view(name).read(this.state);
  }

  setRegister(name: RegisterName, value: bigint): void {
    if (name === 'pc') this.pc = BigInt.asUintN(this.lifter.addressBits, value);
    else this.view(name).write(this.state, value);
  }

  /**
   * The slots of the running CPU in words of 32 bits, the low one of each 64 first. Valid until
   * memory is mapped.
   */
  get stateWords(): Uint32Array {
    const { buffer } = this.host.u32;
    if (this.words.buffer !== buffer) this.words = new Uint32Array(buffer, STATE, this.lifter.slots.sizeBytes >> 2);
    return this.words;
  }

  /**
   * Where in `stateWords` a register is: the position of each of its words of 64 bits, low first;
   * null: it is put together from several, or more follows from it.
   */
  statePlaces(name: RegisterName): readonly number[] | null {
    let places = this.places.get(name);
    if (places === undefined) {
      const { parts } = this.view(name);
      places = parts?.map(([slot, half]) => (this.lifter.slots.offset(slot) >> 2) + 2 * half) ?? null;
      this.places.set(name, places);
    }
    return places;
  }

  /** The value of a register as `stateWords` were. */
  registerIn(words: Uint32Array, name: RegisterName): bigint {
    const wide = new BigUint64Array(words.buffer, words.byteOffset, words.length >> 1);
    const get = (slot: Slot, half: 0 | 1 = 0): bigint => wide[(this.lifter.slots.offset(slot) >> 3) + half]!;
    const { pc, instructions, time, memory, set } = this.state;
    return this.view(name).read({ pc, instructions, time, memory, set, get });
  }

  /** The slots of the running CPU become what `stateWords` were; it has completed nothing. */
  setState(words: Uint32Array, pc: Address): void {
    this.stateWords.set(words);
    this.pc = pc;
    const cpu = this.running;
    cpu.passHook = null;
    cpu.passWatch = null;
    cpu.instructions = 0;
  }

  /** Remembers the registers of the running CPU; the function that it returns puts them back. */
  saveRegisters(): () => void {
    const saved = this.host.u8.slice(STATE, STATE + this.lifter.slots.sizeBytes);
    const { pc } = this;
    return () => {
      this.host.u8.set(saved, STATE);
      this.pc = pc;
    };
  }

  // ---------------------------------------------------------------------------- saved and put back

  /** Registers of a CPU, without its counts. */
  saveOne(index: number): OwnState {
    if (index === this.current) this.saveRunning();
    const cpu = this.at(index);
    return { state: cpu.state.slice(), pc: cpu.pc, instructions: 0, passHook: null, passWatch: null };
  }

  /** Every CPU with its counts, and what time was skipped. */
  save(): { readonly current: number; readonly skippedTicks: bigint; readonly cpus: readonly OwnState[] } {
    this.saveRunning();
    const cpus = this.all.map(({ state, pc, passHook, passWatch, instructions }) => ({
      state: state.slice(),
      pc,
      instructions,
      passHook,
      passWatch,
    }));
    return { current: this.current, skippedTicks: this.skippedTicks, cpus };
  }

  /** Makes room for so many CPUs, none of which has a reservation that is watched. */
  resize(count: number): void {
    this.releaseAll();
    while (this.all.length < count) this.add();
    this.all.length = count;
  }

  /** Puts back what `save` saved; `resize` comes first. */
  restore(saved: ReturnType<Cpus['save']>): void {
    saved.cpus.forEach((each, index) => {
      const cpu = this.all[index]!;
      cpu.state.set(each.state);
      cpu.pc = each.pc;
      cpu.instructions = each.instructions;
      cpu.passHook = each.passHook;
      cpu.passWatch = each.passWatch;
    });
    this.skippedTicks = saved.skippedTicks;
    this.begin(saved.current);
  }

  /** Puts registers back that `saveOne` saved; those of a CPU for which there is null stay. */
  restoreRegisters(saved: readonly (OwnState | null)[]): void {
    this.saveRunning();
    saved.forEach((each, index) => {
      if (each === null) return;
      const cpu = this.all[index]!;
      cpu.pc = each.pc;
      cpu.passHook = null;
      cpu.passWatch = null;
      cpu.instructions = 0;
      cpu.state.set(each.state);
    });
    this.releaseAll();
  }

  private releaseAll(): void {
    this.all.forEach((_, index) => this.reservations?.release(index));
  }

  /** A CPU runs from its place among the others; reservations of the others are watched. */
  begin(index: number): void {
    this.load(index);
    for (let each = 0; each < this.all.length; each++) if (each !== index) this.holdReservation(each);
  }
}
