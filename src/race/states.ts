/**
 * States of a race, saved and loaded: the difference from the start, part by part. Each part (the
 * registers of a CPU, where a thread is, a page of memory) is interned and has a number, so a
 * state's key is a short text of numbers and two states have one key exactly if they are equal;
 * nothing is hashed.
 */
import type { CpuState, Machine } from '../emulator/index.js';
import type { Slot } from '../machine/ir.js';
import type { LivePatch } from '../machine/live-patching.js';
import type { Address } from '../units.js';
import type { Books, PatcherState, ThreadState } from './books.js';
import type { ChangedLines, PageLines } from './changed-lines.js';
import type { HeldLines } from './deferred-fetch.js';
import { bitsOf, type SlotBits } from './liveness.js';
import type { ProbeEntry } from './model.js';

/** One part of states: two are equal exactly if their numbers are. */
export interface Part<T> {
  readonly id: number;
  readonly value: T;
}

/** A CPU, the granule that it has reserved, or null, and slots that are 0 since they are dead. */
export interface SavedCpu {
  readonly id: number;
  readonly value: CpuState;
  readonly reserved: Address | null;
  readonly dead: SlotBits;
}

/** An instruction is about to read what was taken for dead. */
export class DeadRead extends Error {
  constructor(readonly slots: SlotBits) {
    super('a register was taken for dead');
  }
}

/** Of the books: what no thread or patcher has for itself. */
export type CommonBooks = Pick<Books, 'variables' | 'locks' | 'published' | 'serves' | 'freed'>;

/** Numbers for equal things, in the order in which they come. */
class Parts<T> {
  private readonly known = new Map<string, Part<T>>();

  of(text: string, value: T): Part<T> {
    let part = this.known.get(text);
    if (part === undefined) {
      part = { id: this.known.size, value };
      this.known.set(text, part);
    }
    return part;
  }
}

/** A state that can be loaded again. */
export class SavedWorld {
  private text: string | null = null;
  private whole: Books | null = null;

  constructor(
    readonly cpus: readonly SavedCpu[],
    readonly threads: readonly Part<ThreadState>[],
    /** What CPUs may hold, where fetching is deferred. */
    readonly held: readonly Part<HeldLines>[],
    readonly patchers: readonly Part<PatcherState>[],
    readonly common: Part<CommonBooks>,
    readonly pages: readonly PageLines[],
    /** Stores to patched lines so far; no part of what is compared. */
    readonly stores: number,
  ) {}

  get key(): string {
    return (this.text ??= this.write());
  }

  private write(): string {
    let text = `${this.common.id}`;
    for (const { id } of this.cpus) text += `,${id}`;
    for (const { id } of this.threads) text += `,${id}`;
    for (const { id } of this.held) text += `,${id}`;
    for (const { id } of this.patchers) text += `,${id}`;
    // Pages that were met later were as at the start.
    for (let page = 0; page < this.pages.length; page++) {
      const { id } = this.pages[page]!;
      if (id !== 0) text += `;${page}:${id}`;
    }
    return text;
  }

  withCpus(cpus: readonly SavedCpu[]): SavedWorld {
    const { threads, held, patchers, common, pages, stores } = this;
    return new SavedWorld(cpus, threads, held, patchers, common, pages, stores);
  }

  get books(): Books {
    return (this.whole ??= this.bind());
  }

  private bind(): Books {
    const value = <T>({ value: each }: Part<T>): T => each;
    const { variables, locks, published, serves, freed } = this.common.value;
    return {
      variables,
      locks,
      published,
      serves,
      freed,
      threads: this.threads.map(value),
      patchers: this.patchers.map(value),
      held: this.held.map(value),
      stores: this.stores,
    };
  }
}

const latin1 = new TextDecoder('latin1');

export class WorldStates {
  /** Memory is being put back: that is no store. */
  loading = false;
  /** Slots of the CPUs that must not be read. */
  private readonly dead: SlotBits[];
  /** CPUs as they were saved or loaded, null where anything may have changed since. */
  private readonly saved: (SavedCpu | null)[];
  private readonly cpus = new Map<string, SavedCpu>();
  private readonly threads = new Parts<ThreadState>();
  private readonly held = new Parts<HeldLines>();
  private readonly patchers = new Parts<PatcherState>();
  private readonly commons = new Parts<CommonBooks>();
  /** Where they are among the slots, end exclusive. */
  private readonly temporaries: readonly [number, number];
  private readonly entries: (LivePatch | ProbeEntry)[] = [];

  constructor(
    private readonly machine: Machine,
    private readonly lines: ChangedLines,
    private readonly patchedLines: readonly Address[],
  ) {
    this.saved = Array.from({ length: machine.cpuCount }, () => null);
    this.dead = this.saved.map(() => 0n);
    const { slots } = machine.lifter;
    const { firstTemporary, firstInMemory, count } = slots;
    this.temporaries = [
      slots.offset(firstTemporary),
      firstInMemory < count ? slots.offset(firstInMemory) : slots.sizeBytes,
    ];
  }

  private entryId(entry: LivePatch | ProbeEntry): number {
    const at = this.entries.indexOf(entry);
    return at < 0 ? this.entries.push(entry) - 1 : at;
  }

  /** What CPUs have fetched is part of a state where it is not deferred. */
  private saveCpu(index: number, isDeferred: boolean): SavedCpu {
    const state = this.machine.saveCpu(index);
    // Temporaries are dead behind an instruction.
    state.state.fill(0, this.temporaries[0], this.temporaries[1]);
    const dead = this.dead[index]!;
    if (isDeferred || state.fetched === null) return this.cpuOf({ ...state, fetched: null }, '', dead);
    const { lines, kept } = state.fetched;
    // Lines that are never stored to are the same whether they were fetched or not.
    let text = '|';
    for (const line of this.patchedLines) {
      const old = kept.get(line);
      text += !lines.has(line) ? '-,' : old ? `${this.lines.intern(old.bytes)},` : '=,';
    }
    return this.cpuOf(state, text, dead);
  }

  private cpuOf(value: CpuState, more: string, dead: SlotBits): SavedCpu {
    const text = `${value.pc.toString(36)} ${dead.toString(36)} ${latin1.decode(value.state)}${more}`;
    let cpu = this.cpus.get(text);
    if (cpu === undefined) {
      cpu = { id: this.cpus.size, value, reserved: this.reservedBy(value), dead };
      this.cpus.set(text, cpu);
    }
    return cpu;
  }

  private reservedBy({ state }: CpuState): Address | null {
    const { reservation, slots } = this.machine.lifter;
    if (!reservation) return null;
    const address = new DataView(state.buffer, state.byteOffset).getBigUint64(slots.offset(reservation.address), true);
    return address === reservation.none ? null : address & -BigInt(reservation.granuleBytes);
  }

  /** The CPU without its reservation. Only where fetching is no part of it. */
  withoutReservation({ value, dead }: SavedCpu): SavedCpu {
    const { reservation, slots } = this.machine.lifter;
    const state = value.state.slice();
    new DataView(state.buffer).setBigUint64(slots.offset(reservation!.address), reservation!.none, true);
    return this.cpuOf({ ...value, state }, '', dead);
  }

  /** The CPU with 0 in slots that are dead. Only where fetching is no part of it. */
  withoutDead(cpu: SavedCpu, dead: SlotBits): SavedCpu {
    const added = dead & ~cpu.dead;
    if (added === 0n) return cpu;
    const state = cpu.value.state.slice();
    for (let slot = 0, rest = added; rest !== 0n; slot++, rest >>= 1n) {
      if ((rest & 1n) !== 0n) state.fill(0, ...this.slotBytes(slot));
    }
    return this.cpuOf({ ...cpu.value, state }, '', cpu.dead | added);
  }

  /** The CPU is about to read slots. null: any. */
  reads(index: number, slots: Iterable<Slot> | null): void {
    const dead = this.dead[index]!;
    if (dead === 0n) return;
    const wrong = slots === null ? dead : dead & bitsOf(slots);
    if (wrong !== 0n) throw new DeadRead(wrong);
  }

  /** The CPU has written slots. */
  writes(index: number, slots: Iterable<Slot>): void {
    if (this.dead[index] !== 0n) this.dead[index]! &= ~bitsOf(slots);
  }

  /** What puts back which slots of a CPU are dead. */
  keepDead(index: number): () => void {
    const dead = this.dead[index]!;
    return () => {
      this.dead[index] = dead;
    };
  }

  /** The CPU with some slots, and the `pc`, as another one has them. */
  withSlots(cpu: SavedCpu, slots: readonly Slot[], { value: from }: SavedCpu): SavedCpu {
    const state = cpu.value.state.slice();
    for (const slot of slots) {
      const [start, end] = this.slotBytes(slot);
      state.set(from.state.subarray(start, end), start);
    }
    return this.cpuOf({ ...from, state }, '', cpu.dead & ~bitsOf(slots));
  }

  /** What a CPU has in some slots, as a text. */
  textOf({ value: { state } }: SavedCpu, slots: readonly Slot[]): string {
    let text = '';
    for (const slot of slots) {
      const [start, end] = this.slotBytes(slot);
      for (let at = start; at < end; at += 2) text += String.fromCharCode(state[at]! | (state[at + 1]! << 8));
    }
    return text;
  }

  private slotBytes(slot: Slot): readonly [start: number, end: number] {
    const { slots } = this.machine.lifter;
    const start = slots.offset(slot);
    return [start, start + (slots.type(slot) === 'v128' ? 16 : 8)];
  }

  private threadOf(thread: ThreadState): Part<ThreadState> {
    const { status, round, marks, trapped } = thread;
    return this.threads.of(`${status} ${round} ${trapped}[${marks.map((each) => each.join('+')).join('/')}]`, thread);
  }

  private commonOf({ variables, locks, published, serves, freed }: CommonBooks): Part<CommonBooks> {
    let text = '';
    for (const [name, value] of variables) text += `${name}=${value},`;
    for (const [name, owner] of locks) text += `${name}!${owner},`;
    text += `${published.map((each) => this.entryId(each)).join()};${serves.map((each) => this.entryId(each)).join()};`;
    text += freed.map(({ start }) => start.toString(36)).join();
    return this.commons.of(text, { variables, locks, published, serves, freed });
  }

  /** @param isDeferred  what CPUs have fetched is no part of a state */
  save(books: Books, isDeferred: boolean): SavedWorld {
    const cpus = this.saved.map((known, index) => (this.saved[index] = known ?? this.saveCpu(index, isDeferred)));
    return new SavedWorld(
      cpus,
      books.threads.map((each) => this.threadOf(each)),
      books.held.map((each) =>
        this.held.of(each.map((line) => line.map(({ content }) => content).join('.')).join(), each),
      ),
      books.patchers.map((each) => this.patchers.of(`${each.at}.${each.pending}`, each)),
      this.commonOf(books),
      this.lines.save(),
      books.stores,
    );
  }

  /** A thread whose call is over for a patcher that waits. */
  withoutPending(patcher: Part<PatcherState>, thread: number): Part<PatcherState> {
    const { at, pending } = patcher.value;
    const left = pending & ~(1 << thread);
    return left === pending ? patcher : this.patchers.of(`${at}.${left}`, { at, pending: left });
  }

  /** Makes memory and CPUs what they were. */
  load({ pages, cpus }: SavedWorld): void {
    this.loading = true;
    this.lines.load(pages);
    this.loading = false;
    cpus.forEach(({ dead }, index) => (this.dead[index] = dead));
    // Memory that was put back may have taken a reservation.
    if (cpus.every((each, index) => this.saved[index] === each && each.reserved === null)) return;
    this.machine.restoreCpus(cpus.map(({ value }) => value));
    cpus.forEach((each, index) => (this.saved[index] = each));
  }

  /** A CPU may have changed, and those whose reservation a store may have taken. */
  touch(cpu: number | 'all' | null): void {
    if (cpu === 'all') this.saved.fill(null);
    else
      this.saved.forEach((each, index) => {
        if (index === cpu || each?.reserved !== null) this.saved[index] = null;
      });
  }
}
