/**
 * A machine: guest memory, CPUs, hooks, and code that is translated to WebAssembly. This is the
 * whole of it to those who use it; each part is in a file of its own:
 *
 *   cpus.ts          registers, counts and reservations; which CPU runs
 *   memory.ts        guest memory
 *   hooks.ts         what is called besides the program
 *   fetch.ts         what CPUs have fetched, where that is modelled
 *   translations.ts  the code that tier 0 executes
 *   tiers.ts         which tier executes what; compiled.ts holds the compiled code
 *   stores.ts        what a write means for all of them
 *   runner.ts        the loop that runs translated code and acts on what that leaves for
 *
 * One CPU runs at a time, and no generated code is on the call stack while TypeScript runs, so code
 * can be dropped and CPUs switched between runs.
 */
import type { CompiledCounts } from './compiled.js';
import { Cpus } from './cpus.js';
import { Deviations } from './deviations.js';
import { FetchBuffers } from './fetch.js';
import type { FetchedLines } from './fetch.js';
import { Hooks, Watches } from './hooks.js';
import type { WatchRequest } from './hooks.js';
import { HostMemory } from './host.js';
import { Interpreter } from './interpreter.js';
import type { KeptTranslations } from './kept-translations.js';
import type { HelperState, Lifter, Slot } from '../machine/ir.js';
import { GuestMemory } from './memory.js';
import type { AccessKind, MapRequest } from './memory.js';
import { synchronise } from './parts.js';
import type { MachineParts } from './parts.js';
import { Runner } from './runner.js';
import { sameLayout } from './snapshot.js';
import type { CpuState, Snapshot, StatePart } from './snapshot.js';
import type { SlotUse } from './slot-use.js';
import type { Deviation, StopReason, SyscallResult, WatchEvent } from './stops.js';
import { Stores } from './stores.js';
import { Tiers } from './tiers.js';
import { Translations } from './translations.js';
import { ElftraceError } from '../errors.js';
import type { Address, RegisterName } from '../units.js';

export type SyscallHandler = (machine: Machine) => SyscallResult;

/**
 * Called before the instruction at the hooked address; `stop` ends the run there, and the next run
 * goes past the hook.
 */
export type Hook = (machine: Machine) => 'continue' | 'stop';

/**
 * Called before an access to a watched range; `stop` ends the run before the instruction, and the
 * next run performs it.
 */
export type WatchHook = (machine: Machine, event: WatchEvent) => 'continue' | 'stop';

/** Called after another CPU has become the running one. */
export type SwitchHook = (machine: Machine, from: number, to: number) => void;

/**
 * What a CPU executes after code was overwritten. `coherent`: the new bytes, from the next
 * instruction on. `buffered`: what it has fetched before, until it synchronises (`fetch.ts`).
 */
export type FetchMode = 'coherent' | 'buffered';

/**
 * Ticks of virtual time in a second. An instruction takes one tick, whichever CPU executes it; a
 * sleep takes what it asks for.
 */
export const TIME_HZ = 1_000_000_000;

export interface MachineOptions {
  readonly lifter: Lifter;
  /** Default `coherent`. */
  readonly fetch?: FetchMode;
  /**
   * Size of what a CPU fetches at once, bytes: a power of two from 16 to 4096. Only for `buffered`;
   * default 64.
   */
  readonly fetchLineBytes?: number;
  readonly syscall?: SyscallHandler;
  /**
   * Called when an access faults, before the run ends; true: the address is mapped now, try again.
   * The state is that before the instruction. This is how a stack grows.
   */
  readonly onFault?: (machine: Machine, address: Address, access: AccessKind) => boolean;
  /**
   * Most bytes of memory that windows have together; asked for whenever some is wanted. Default: no
   * limit but the 4 GiB of the host.
   */
  readonly memoryBytes?: number | (() => number);
  /**
   * Most bytes of translated code; when they are full everything is translated anew. Default 16
   * MiB.
   */
  readonly recordBytes?: number;
  /**
   * Most instructions of a block, 1 to 64 (default). 1 makes `step` cheap and `run` slow: for
   * machines that are only stepped.
   */
  readonly blockInstructions?: number;
  /**
   * Whether hot code is compiled to WebAssembly. `auto`: what is hot, once a million instructions
   * were executed. 0: never. 1: everything as soon as it is reached, for tests. No result depends
   * on it. Default `auto`; a machine with `fetch: 'buffered'` compiles nothing.
   */
  readonly tier?: 'auto' | 0 | 1;
  /**
   * Instructions that all CPUs together execute before something is compiled, for `auto`. Default
   * 1,000,000.
   */
  readonly tierUpAfter?: number;
  /**
   * Translations that machines with the same lifter share, one after another or at a time: each
   * takes what is there, and adds its own. Default: none.
   */
  readonly kept?: KeptTranslations;
}

/** What holds where options say nothing. Tests change it, to run everything in one tier. */
export const defaults: { tier: 'auto' | 0 | 1 } = { tier: 'auto' };

/** How a machine is put together. */
function assemble(options: MachineOptions, lineBytes: number, machine: () => Machine): MachineParts {
  const { lifter, memoryBytes, syscall, onFault } = options;
  const host = new HostMemory(typeof memoryBytes === 'number' ? () => memoryBytes : memoryBytes);
  const interpreter = new Interpreter(host, lifter);
  const memory = new GuestMemory(host, lifter.addressBits);
  const fetch = options.fetch === 'buffered' ? new FetchBuffers(memory, lineBytes) : null;
  const hooks = new Hooks((address) => {
    tiers.dropCovering(address);
  });
  const { recordBytes, blockInstructions, tierUpAfter, kept } = options;
  const code = { host, lifter, memory, hooks };
  const translations = new Translations({ ...code, interpreter, fetch, recordBytes, blockInstructions, kept });
  const cpus = new Cpus(host, lifter, memory, (index) => {
    translations.switchTo(index);
  });
  const tier = fetch ? 0 : (options.tier ?? defaults.tier);
  const tiers = new Tiers({ ...code, interpreter, cpus, translations, tier, tierUpAfter, kept });
  const ownStores = lifter.fetch?.ownStores === true;
  const stores = new Stores({ memory, cpus, fetch, translations, tiers, ownStores });
  memory.observer = stores;
  return {
    ...{ ...code, interpreter, cpus, fetch, translations, tiers, stores },
    watches: new Watches(memory),
    syscall: () => syscall?.(machine()) ?? { kind: 'unserved' },
    onFault: (address, access) => onFault?.(machine(), address, access) === true,
  };
}

/**
 * An emulated machine: guest memory, CPUs, hooks and watches, and code that is translated to
 * WebAssembly. Everything is deterministic; docs/emulator.md shows it at work.
 */
export class Machine {
  readonly memory: GuestMemory;
  readonly lifter: Lifter;
  /** The running CPU as helpers and register views see it. */
  readonly state: HelperState;
  private readonly parts: MachineParts;
  private readonly cpus: Cpus;
  private readonly runner: Runner;
  private readonly switchHooks = new Set<SwitchHook>();
  private readonly stateParts = new Set<StatePart>();
  private readonly deviated = new Deviations();

  constructor(options: MachineOptions) {
    const lineBytes = options.fetchLineBytes ?? 64;
    if (lineBytes < 16 || lineBytes > 4096 || (lineBytes & (lineBytes - 1)) !== 0) {
      throw new ElftraceError('usage', 'a fetch line has a power of two from 16 to 4096 bytes', { value: lineBytes });
    }
    this.parts = assemble(options, lineBytes, () => this);
    this.memory = this.parts.memory;
    this.lifter = options.lifter;
    this.cpus = this.parts.cpus;
    this.state = this.cpus.state;
    this.runner = new Runner(this.parts);
  }

  /** Address of the instruction being executed, while a helper, hook or system call runs. */
  get pc(): Address {
    return this.cpus.pc;
  }

  set pc(address: Address) {
    this.cpus.pc = address;
  }

  // ------------------------------------------------------------------------------------ deviations

  /**
   * What was not done as Linux does it, one entry a kind, in the order in which it came up. Empty:
   * everything was.
   */
  get deviations(): readonly Deviation[] {
    return this.deviated.all;
  }

  /**
   * Notes that something is not done as Linux does it, by the instruction at `pc` unless another is
   * named.
   */
  deviate(deviation: Omit<Deviation, 'instruction' | 'count'>, instruction = this.pc): void {
    this.deviated.note(deviation, instruction);
  }

  /** Calls `hook` when a kind of deviation comes up for the first time; null takes it off. */
  observeDeviations(hook: ((deviation: Deviation) => void) | null): void {
    this.deviated.observer = hook;
  }

  // ----------------------------------------------------------------------------------- CPUs, state

  /** Adds a CPU with zeroed registers and returns its index. */
  addCpu(): number {
    return this.cpus.add();
  }

  get cpuCount(): number {
    return this.cpus.count;
  }

  get cpu(): number {
    return this.cpus.index;
  }

  /** Makes another CPU the running one. All other members speak of the running CPU. */
  switchTo(index: number): void {
    this.cpus.at(index);
    const from = this.cpu;
    if (index === from) return;
    this.cpus.switchTo(index);
    for (const hook of [...this.switchHooks]) hook(this, from, index);
  }

  /**
   * Gives another CPU the registers of the running one, and no reservation; what that one has
   * completed stays.
   */
  copyRunning(to: number): void {
    this.cpus.copyRunning(to);
  }

  /** The running CPU loses its reservation, as when a kernel switches threads. */
  loseReservation(): void {
    this.cpus.loseReservation();
  }

  /** Calls `hook` after each switch to another CPU. Returns a function that takes it off again. */
  onSwitch(hook: SwitchHook): () => void {
    const own: SwitchHook = (machine, from, to) => {
      hook(machine, from, to);
    };
    this.switchHooks.add(own);
    return () => {
      this.switchHooks.delete(own);
    };
  }

  /** Bytes that a CPU fetches at once; 0 in `coherent` mode. */
  get fetchLineBytes(): number {
    return this.parts.fetch?.lineBytes ?? 0;
  }

  get fetchMode(): FetchMode {
    return this.parts.fetch ? 'buffered' : 'coherent';
  }

  /**
   * Makes a CPU (default: the running one) fetch anew, as an interrupt of another CPU would. True:
   * it had old bytes. Nothing happens in `coherent` mode.
   */
  synchronise(index = this.cpu): boolean {
    this.cpus.at(index);
    return synchronise(this.parts, index);
  }

  /** How often a CPU was made to fetch anew so far: a difference says that it was, between two. */
  synchronisations(index = this.cpu): number {
    return this.parts.fetch?.synchronisations(index) ?? 0;
  }

  /** Addresses of the lines in which a CPU sees older bytes than memory has, ascending. */
  staleLines(index = this.cpu): readonly Address[] {
    return this.parts.fetch?.staleLines(index) ?? [];
  }

  /** Instructions that the running CPU has completed. */
  get instructions(): number {
    return this.cpus.running.instructions;
  }

  /** Instructions that all CPUs together have completed. */
  get totalInstructions(): number {
    return this.cpus.totalInstructions;
  }

  /**
   * Virtual time: ticks of 1 / TIME_HZ seconds, one for each instruction that any CPU has
   * completed, and those skipped.
   */
  get time(): bigint {
    return this.cpus.time;
  }

  /** Lets ticks pass in which no CPU executes anything: a sleep. */
  skipTime(ticks: bigint): void {
    this.cpus.skipTime(ticks);
  }

  /** Value of an i64 slot. */
  slot(slot: Slot): bigint {
    return this.cpus.slot(slot);
  }

  setSlot(slot: Slot, value: bigint): void {
    this.cpus.setSlot(slot, value);
  }

  /** Value of a register, unsigned. `pc` is one. */
  register(name: RegisterName): bigint {
    return this.cpus.register(name);
  }

  setRegister(name: RegisterName, value: bigint): void {
    this.cpus.setRegister(name, value);
  }

  /**
   * The slots of the running CPU in words of 32 bits, the low one of each 64 first. Valid until
   * memory is mapped.
   */
  get stateWords(): Uint32Array {
    return this.cpus.stateWords;
  }

  /**
   * Where in `stateWords` a register is: the position of each of its words of 64 bits, low first;
   * null: it is put together from several, or more follows from it.
   */
  statePlaces(name: RegisterName): readonly number[] | null {
    return this.cpus.statePlaces(name);
  }

  /** The value of a register as `stateWords` were. */
  registerIn(words: Uint32Array, name: RegisterName): bigint {
    return this.cpus.registerIn(words, name);
  }

  /** The slots of the running CPU become what `stateWords` were; it has completed nothing. */
  setState(words: Uint32Array, pc: Address): void {
    this.cpus.setState(words, pc);
  }

  /** Remembers the registers of the running CPU; the function that it returns puts them back. */
  saveRegisters(): () => void {
    return this.cpus.saveRegisters();
  }

  get registerNames(): readonly RegisterName[] {
    return this.cpus.registerNames;
  }

  // ---------------------------------------------------------------------------------------- memory

  map(request: MapRequest): void {
    this.memory.map(request);
  }

  /** Maps `bytes` (and zeroes behind them up to `size`) at an address. */
  load(address: Address, bytes: Uint8Array, request: Omit<MapRequest, 'address' | 'size'> & { size?: number }): void {
    this.memory.map({ ...request, address, size: Math.max(bytes.length, request.size ?? 0) });
    this.memory.write(address, bytes);
  }

  /**
   * The unsigned value of `size` bytes (1, 2, 4, 8) in the target's byte order; null where they are
   * not mapped.
   */
  readWord(address: Address, size: number): bigint | null {
    const bytes = this.memory.read(address, size);
    if (!bytes) return null;
    if (this.lifter.endian === 'little') bytes.reverse();
    return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  }

  /**
   * Writes `size` bytes in the target's byte order, whatever the permission; false where they are
   * not mapped.
   */
  writeWord(address: Address, size: number, value: bigint): boolean {
    const bytes = Uint8Array.from({ length: size }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
    if (this.lifter.endian === 'big') bytes.reverse();
    return this.memory.write(address, bytes);
  }

  // ------------------------------------------------------------------------------------- snapshots

  /**
   * Everything that running may change: registers of all CPUs, counts, windows with their bytes,
   * and the added parts.
   */
  snapshot(): Snapshot {
    const { lifter, cpus, memory } = this;
    const saved = cpus.save();
    return {
      lifter,
      current: saved.current,
      skippedTicks: saved.skippedTicks,
      cpus: saved.cpus.map((each, index) => ({ ...each, fetched: this.fetchedBy(index) })),
      windows: memory.save(),
      parts: [...this.stateParts].map((each) => each()),
      deviated: this.deviated.save(),
    };
  }

  private fetchedBy(cpu: number): FetchedLines | null {
    return this.parts.fetch?.save(cpu) ?? null;
  }

  /**
   * Makes the machine what it was. Hooks, gates and watches stay as they are.
   * @throws ElftraceError 'usage' when the snapshot is of a machine with another front end or fetch
   *   mode
   */
  restore(snapshot: Snapshot): void {
    const { fetch } = this.parts;
    if (!sameLayout(snapshot.lifter, this.lifter)) {
      throw new ElftraceError('usage', 'the snapshot is of another kind of machine');
    }
    if (snapshot.cpus.some((each) => (each.fetched === null) !== (fetch === null))) {
      throw new ElftraceError('usage', 'the snapshot is of a machine with another fetch mode');
    }
    if (fetch) this.dropAll();
    this.cpus.resize(snapshot.cpus.length);
    this.memory.restore(snapshot.windows);
    fetch?.restore(snapshot.cpus.map((each) => each.fetched));
    this.cpus.restore(snapshot);
    this.deviated.restore(snapshot.deviated);
    for (const part of snapshot.parts) part();
  }

  /**
   * Registers of a CPU and what it has fetched, without memory; counts of instructions are not part
   * of it.
   */
  saveCpu(index: number): CpuState {
    return { ...this.cpus.saveOne(index), fetched: this.fetchedBy(index) };
  }

  /**
   * Makes CPUs what `saveCpu` saved of them, with no instructions completed; memory stays as it is,
   * and so do the registers of a CPU for which there is null. What CPUs have fetched stays where
   * none of them says what it is.
   */
  restoreCpus(saved: readonly (CpuState | null)[]): void {
    const { cpus } = this;
    const { fetch } = this.parts;
    if (saved.length !== cpus.count) {
      throw new ElftraceError('usage', `${saved.length} CPUs were saved, there are ${cpus.count}`, {
        value: saved.length,
      });
    }
    cpus.restoreRegisters(saved);
    if (fetch && saved.some((each) => each !== null && each.fetched !== null)) {
      const states = saved.map((each, index) => each?.fetched ?? fetch.save(index));
      this.dropAll();
      fetch.restore(states);
    }
    cpus.begin(cpus.index);
  }

  /**
   * Forgets how many instructions were completed, on every CPU: with it virtual time stands still.
   */
  forgetInstructions(): void {
    this.cpus.forgetInstructions();
  }

  /**
   * Calls `hook` before bytes change by anything but the fast path of a store: by the host, by
   * helpers, and by instructions in windows that are watched. null takes it off.
   */
  observeStores(hook: ((address: Address, size: number) => void) | null): void {
    this.parts.stores.observer = hook;
  }

  /** Calls `hook` before each access that a helper makes, which watches do not see. null: off. */
  observeHelpers(hook: ((address: Address, size: number, access: 'read' | 'write') => void) | null): void {
    this.cpus.observeHelpers(hook);
  }

  /**
   * The CPU fetches the lines of the range, as processors do ahead of what they execute; anew where
   * it had older bytes. Nothing happens in `coherent` mode.
   */
  prefetch(index: number, address: Address, size: number): void {
    const { fetch, translations } = this.parts;
    if (fetch?.fetchAnew(index, address, address + BigInt(size)) === true) translations.dropOf(index);
  }

  /**
   * Makes something outside the machine part of its state: `part` is called for each snapshot, and
   * what it returns is called when that snapshot is restored. Returns a function that takes it off
   * again.
   */
  addState(part: StatePart): () => void {
    this.stateParts.add(part);
    return () => {
      this.stateParts.delete(part);
    };
  }

  // ----------------------------------------------------------------------------------------- hooks

  /**
   * Calls `hook` before each execution of the instruction at `address`; several are called in the
   * order in which they were added. Returns a function that takes this one off again.
   */
  hook(address: Address, hook: Hook): () => void {
    return this.parts.hooks.add(address, () => hook(this));
  }

  /**
   * Calls `hook` before each access to the range that an instruction makes; accesses of the host,
   * of system calls and of helpers are not seen. Windows that hold no watched range are as fast as
   * before. Returns a function that takes it off.
   */
  watch(range: WatchRequest, hook: WatchHook): () => void {
    return this.parts.watches.add(range, (event) => hook(this, event));
  }

  /**
   * Executes `gate` in place of the instruction at `address`, which counts as one; it must say
   * where to go on (`pc`). `stop` ends the run after it. `gates.ts` makes callbacks with the
   * calling convention of the target from this.
   */
  setGate(address: Address, gate: Hook): () => void {
    return this.parts.hooks.setGate(address, () => gate(this));
  }

  // --------------------------------------------------------------------------------------- running

  /** The highest tier that has executed an instruction. */
  get tierReached(): 0 | 1 {
    return this.parts.tiers.reached;
  }

  /** What the compiled tier holds; null while there is none. */
  get compiledCounts(): CompiledCounts | null {
    return this.parts.tiers.counts;
  }

  /** Forgets what was translated, and gives its memory back. */
  dropAll(): void {
    this.parts.translations.dropAll();
  }

  /**
   * Bytes of the instruction at `pc`, as the running CPU sees them; empty where nothing may be
   * executed.
   */
  instructionBytes(): Uint8Array {
    return this.parts.translations.instructionBytes(this.pc);
  }

  /** Slots that the instruction at `pc` reads and writes; null: any. */
  slotUse(): SlotUse | null {
    return this.parts.translations.slotUse(this.pc);
  }

  /** Runs until something stops it, or `budget` instructions are completed (exactly). */
  run(options: { readonly budget?: number } = {}): StopReason {
    return this.runner.run(options.budget ?? Number.MAX_SAFE_INTEGER);
  }

  /** Completes one instruction; `step-limit` says that it did. */
  step(): StopReason {
    return this.runner.run(1);
  }
}
