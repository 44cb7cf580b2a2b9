/**
 * A machine: guest memory, CPUs, hooks, and the loop that runs translated blocks and decides what
 * happens when the generated code leaves. Everything that is not the fast path of an instruction is
 * here: faults, stores to code, helpers, hooks, budgets. A stop leaves the state exactly before the
 * instruction that stopped (after it for a budget).
 *
 * One CPU runs at a time; its state block is in the WebAssembly.Memory, those of the others are
 * kept aside and copied in by `switchTo`. No generated code is on the call stack while TypeScript
 * runs, so code can be dropped and CPUs switched here.
 *
 * Translated code is shared by all CPUs, unless the machine models what CPUs have fetched
 * (`fetch.ts`): then each has its own, made from the bytes that it sees, and a store to code drops
 * nothing until the CPU synchronises.
 */
import { CompiledTier } from './compiled.js';
import type { CompiledCounts } from './compiled.js';
import { FetchBuffers } from './fetch.js';
import { CONTROL, HostMemory, RECORDS_END, RECORDS_START, STATE } from './host.js';
import {
  Encoder,
  encodedBound,
  EXIT_REASONS,
  HEADER_BYTES,
  Interpreter,
  predictions,
  RECORD_BYTES,
  writeDropped,
  writeForward,
  writeTrampoline,
} from './interpreter.js';
import { OPS } from '../machine/ir.js';
import type { AccessRow, Block, HelperState, Lifter, LiftLimits, Op, RegisterView, Slot } from '../machine/ir.js';
import type { EncodedBlock, ExitReason } from './interpreter.js';
import { CODE_PAGE_BITS, MAX_INSTRUCTION_BYTES, firstDifference, GuestMemory } from './memory.js';
import type { AccessKind, MapRequest, WatchedRange } from './memory.js';
import { eliminateDeadOps } from './passes.js';
import { Reservations } from './reservations.js';
import { sameLayout } from './snapshot.js';
import type { CpuState, Snapshot, StatePart } from './snapshot.js';
import type { Deviation, StopReason, WatchEvent } from './stops.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address, RegisterName } from '../units.js';

/**
 * What a system call did. `unserved` and `waiting` stop the run at the instruction. `yields`: the
 * run ends behind it. `resumed`: registers and `pc` are what the call made them.
 */
export type SyscallResult =
  | { readonly kind: 'next'; readonly yields?: boolean }
  | { readonly kind: 'resumed' }
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: number }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'unserved' };

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
}

/** What holds where options say nothing. Tests change it, to run everything in one tier. */
export const defaults: { tier: 'auto' | 0 | 1 } = { tier: 'auto' };

/** The state of a CPU that is not running. */
interface Cpu {
  readonly state: Uint8Array;
  pc: Address;
  /** Address of the hook that was already served. */
  passHook: Address | null;
  /**
   * The instruction whose watches were served: where, after how many instructions, how many of its
   * accesses.
   */
  passWatch: { readonly pc: Address; readonly instructions: number; readonly served: number } | null;
  instructions: number;
  /** Its translated code; of all CPUs the same unless they fetch for themselves. */
  readonly blocks: Map<Address, Translated>;
}

interface Translated {
  readonly block: Block;
  readonly encoded: EncodedBlock;
  /** What it asks for before its first instruction. */
  readonly prefix: 'hook' | 'region' | null;
  /**
   * The hooks of its address, whatever comes and goes: while there are some it is the same list.
   */
  readonly hooks: readonly Hook[];
  readonly pages: readonly number[];
  /** Where it is found by its address. */
  readonly home: Map<Address, Translated>;
  dropped: boolean;
}

/** Where a call of `run` is. */
interface Running {
  readonly cpu: Cpu;
  /** Instructions of the budget that are left. */
  remaining: number;
  /** Header to enter next; 0: find the block of `pc`. */
  entry: number;
  /** The next instruction stores into translated code: execute it alone. */
  alone: boolean;
  /** A guard of the next instruction failed: execute it alone and in the slow way. */
  slow: boolean;
  /** Watched accesses that the instruction has made since it was begun. */
  watched: number;
  /** Tier 0 executes the next block, whatever is compiled. */
  interpret: boolean;
  /** Compiled code has just asked for a region of `pc`. */
  asked: boolean;
  /** There is stack for compiled code; null: not known yet. */
  stack: boolean | null;
}

/** What to watch; `any` is reads and writes. */
export interface WatchRequest {
  readonly address: Address;
  /** Bytes, at least 1. */
  readonly size: number;
  readonly access: 'read' | 'write' | 'any';
}

interface Watch extends WatchedRange {
  readonly hook: WatchHook;
}

/** Instructions between two looks at where tier 0 is, about: hot code is found so. */
const SAMPLE = 10_000;
/**
 * Instructions after which generated code returns even when nothing happened: V8 replaces baseline
 * code on calls only.
 */
const SLICE = 2_000_000;
/** Runs of fewer instructions stay in tier 0: compiled code could not begin a loop with them. */
const LEAST_COMPILED = 200;
const MAX_BLOCK_INSTRUCTIONS = 64;
const MAX_CODE_BYTES = 1024;
/** Blocks that run once (exact stops, stores to their own page) are written here. */
const SCRATCH_BYTES = 0x1_0000;
const BLOCKS_START = RECORDS_START + SCRATCH_BYTES;
const CHUNK_BYTES = 0x20_0000;
const DEFAULT_RECORD_BYTES = 0x100_0000;

const NOWHERE = (): boolean => false;

/** A page whose compiled code was written so often stays in tier 0. */
const REWRITES = 4;
/** Instructions of a stay in compiled code that was not worth it; so many of them are too many. */
const SHORT_RUN = 32;
const SHORT_RUNS = 2_000;
/** Pages of which that is counted. */
const PAGES_COUNTED = 0x1_0000;

/**
 * An emulated machine: guest memory, CPUs, hooks and watches, and code that is translated to
 * WebAssembly. Everything is deterministic; docs/emulator.md shows it at work.
 */
export class Machine {
  readonly memory: GuestMemory;
  readonly lifter: Lifter;
  private readonly host: HostMemory;
  private readonly interpreter: Interpreter;
  private readonly registers = new Map<RegisterName, RegisterView>();
  private readonly allNames: readonly RegisterName[];
  private readonly cpus: Cpu[] = [];
  private current = 0;
  private readonly syscall: SyscallHandler | undefined;
  private readonly hooks = new Map<Address, Hook[]>();
  private readonly gates = new Map<Address, Hook>();
  private readonly watches = new Set<Watch>();
  private readonly switchHooks = new Set<SwitchHook>();
  private readonly parts = new Set<StatePart>();
  /** By kind, what and why; part of the state. */
  private readonly deviated = new Map<string, Deviation>();
  private onDeviation: ((deviation: Deviation) => void) | null = null;
  /** Compiled code has executed something. */
  private compiledRan = false;
  private readonly fetch: FetchBuffers | null;
  private readonly reservations: Reservations | null;
  /** Memory is written by an instruction of the running CPU, not by the host. */
  private storing = false;
  /** Blocks of the running CPU. */
  private blocks = new Map<Address, Translated>();
  /** Blocks in the order of their host addresses. */
  private byHeader: Translated[] = [];
  private readonly byPage = new Map<number, Set<Translated>>();
  /** How often compiled code of a page was written. */
  private readonly rewrites = new Map<number, number>();
  private anyRestless = false;
  /** How often compiled code of a page ran for a moment only, by page. */
  private readonly shortRuns = new Map<number, number>();
  private scratch: Translated | null = null;
  /** Room for blocks, ascending; `recordsEnd` is in `chunks[chunk]`. */
  private readonly chunks: { readonly start: number; readonly end: number }[];
  private chunk = 0;
  private recordsEnd = BLOCKS_START;
  private recordBytesLeft: number;
  private readonly onFault: MachineOptions['onFault'];
  private readonly blockInstructions: number;
  private onStore: ((address: Address, size: number) => void) | null = null;
  private skippedTicks = 0n;
  /** The compiled tier; null where it is not used (yet). */
  private compiled: CompiledTier | null = null;
  private readonly tier: 'auto' | 0 | 1;
  private readonly tierUpAfter: number;
  /** Indirect calls and jumps and where they went, as tier 0 saw them. */
  private readonly indirectCalls: (readonly [Address, Address])[] = [];
  private readonly indirectJumps: (readonly [Address, Address])[] = [];
  /** State of the sequence that spreads samples, so that they fall on no loop's period. */
  private sampleSeed = 1;
  /** Instructions that tier 0 executes before the machine looks where it is. */
  private untilSample = 0;
  /** Counts how often all translated code was thrown away. */
  private generation = 0;
  /** Address of the instruction being executed, while a helper, hook or system call runs. */
  pc: Address = 0n;
  /** The running CPU as helpers and register views see it. */
  readonly state: HelperState;

  constructor(options: MachineOptions) {
    const { memoryBytes } = options;
    this.host = new HostMemory(typeof memoryBytes === 'number' ? () => memoryBytes : memoryBytes);
    const { lifter } = options;
    this.lifter = lifter;
    this.syscall = options.syscall;
    this.onFault = options.onFault;
    this.blockInstructions = Math.min(MAX_BLOCK_INSTRUCTIONS, Math.max(1, options.blockInstructions ?? Infinity));
    const first = Math.min(RECORDS_END - BLOCKS_START, options.recordBytes ?? DEFAULT_RECORD_BYTES);
    this.chunks = [{ start: BLOCKS_START, end: BLOCKS_START + first }];
    this.recordBytesLeft = (options.recordBytes ?? DEFAULT_RECORD_BYTES) - first;
    this.interpreter = new Interpreter(this.host, lifter);
    this.memory = new GuestMemory(this.host, lifter.addressBits);
    this.memory.observer = {
      beforeWrite: (address, bytes) => {
        this.onStore?.(address, bytes.length);
        const writer = this.storing && lifter.fetch?.ownStores === true ? this.current : null;
        if (writer !== null && this.fetch) for (const each of this.ownBlocks(address, bytes.length)) this.drop(each);
        this.fetch?.beforeWrite(address, bytes.length, writer);
        if (!this.storing) this.loseReservations(address, bytes.length);
        else if (this.reservations && firstDifference(this.memory.read(address, bytes.length)!, bytes) !== -1) {
          this.reservations.written(address, bytes.length);
        }
      },
      changed: (address, size, what) => {
        if (this.fetch) {
          if (what === 'bytes') return;
          this.fetch.forget(address, size);
        }
        this.dropRange(address, size, what === 'bytes');
      },
    };
    const lineBytes = options.fetchLineBytes ?? 64;
    if (lineBytes < 16 || lineBytes > 4096 || (lineBytes & (lineBytes - 1)) !== 0) {
      throw new ElftraceError('usage', 'a fetch line has a power of two from 16 to 4096 bytes', { value: lineBytes });
    }
    this.fetch = options.fetch === 'buffered' ? new FetchBuffers(this.memory, lineBytes) : null;
    const { reservation } = lifter;
    this.reservations = reservation
      ? new Reservations(this.memory, reservation.granuleBytes, (cpu) => {
          this.dropReservation(cpu);
        })
      : null;
    for (const view of lifter.registers) this.registers.set(view.name, view);
    this.allNames = [...this.registers.keys(), 'pc'];
    const self = (): Machine => this;
    this.state = {
      get: (slot, half = 0) => this.host.u64[((STATE + lifter.slots.offset(slot)) >> 3) + half]!,
      set: (slot, value, half = 0) => {
        this.host.u64[((STATE + lifter.slots.offset(slot)) >> 3) + half] = value;
      },
      get pc() {
        return self().pc;
      },
      get instructions() {
        return self().instructions;
      },
      get time() {
        return self().time;
      },
      memory: this.memory,
    };
    this.tier = this.fetch ? 0 : (options.tier ?? defaults.tier);
    this.tierUpAfter = this.tier === 1 ? 0 : (options.tierUpAfter ?? 1_000_000);
    this.addCpu();
    this.host.u8.set(this.cpus[0]!.state, STATE);
  }

  // ------------------------------------------------------------------------------------ deviations

  /**
   * What was not done as Linux does it, one entry a kind, in the order in which it came up. Empty:
   * everything was.
   */
  get deviations(): readonly Deviation[] {
    return [...this.deviated.values()];
  }

  /**
   * Notes that something is not done as Linux does it, by the instruction at `pc` unless another is
   * named.
   */
  deviate(deviation: Omit<Deviation, 'instruction' | 'count'>, instruction = this.pc): void {
    const key = `${deviation.kind} ${deviation.what}: ${deviation.why}`;
    const known = this.deviated.get(key);
    const noted = { ...deviation, instruction: known?.instruction ?? instruction, count: (known?.count ?? 0) + 1 };
    this.deviated.set(key, noted);
    if (!known) this.onDeviation?.(noted);
  }

  /** Calls `hook` when a kind of deviation comes up for the first time; null takes it off. */
  observeDeviations(hook: ((deviation: Deviation) => void) | null): void {
    this.onDeviation = hook;
  }

  // ----------------------------------------------------------------------------------- CPUs, state

  /** Adds a CPU with zeroed registers and returns its index. */
  addCpu(): number {
    const { slots, reservation } = this.lifter;
    const state = new Uint8Array(slots.sizeBytes);
    if (reservation) {
      new DataView(state.buffer).setBigUint64(slots.offset(reservation.address), reservation.none, true);
    }
    const blocks = this.fetch && this.cpus.length > 0 ? new Map<Address, Translated>() : this.blocks;
    this.cpus.push({ state, pc: 0n, passHook: null, passWatch: null, instructions: 0, blocks });
    return this.cpus.length - 1;
  }

  get cpuCount(): number {
    return this.cpus.length;
  }

  get cpu(): number {
    return this.current;
  }

  /** Makes another CPU the running one. All other members speak of the running CPU. */
  switchTo(index: number): void {
    const next = this.cpus[index];
    if (!next) throw new ElftraceError('usage', `there is no CPU ${index}`, { value: index });
    const from = this.current;
    if (index === from) return;
    this.saveRunning();
    this.holdReservation(from);
    this.loadCpu(index);
    for (const hook of [...this.switchHooks]) hook(this, from, index);
  }

  /**
   * Gives another CPU the registers of the running one, and no reservation; what that one has
   * completed stays.
   */
  copyRunning(to: number): void {
    const cpu = this.cpus[to];
    if (!cpu || to === this.current) throw new ElftraceError('usage', `there is no other CPU ${to}`, { value: to });
    this.saveRunning();
    cpu.state.set(this.cpus[this.current]!.state);
    cpu.pc = this.pc;
    cpu.passHook = null;
    cpu.passWatch = null;
    this.dropReservation(to);
  }

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
    const { state } = this.cpus[index]!;
    const view = new DataView(state.buffer, state.byteOffset, state.byteLength);
    view.setBigUint64(slots.offset(reservation.address), reservation.none, true);
  }

  /** Copies the running CPU into its place among the others. */
  private saveRunning(): void {
    const last = this.cpus[this.current]!;
    last.state.set(this.host.u8.subarray(STATE, STATE + last.state.length));
    last.pc = this.pc;
  }

  private loadCpu(index: number): void {
    const next = this.cpus[index]!;
    this.reservations?.release(index);
    this.host.u8.set(next.state, STATE);
    this.pc = next.pc;
    this.current = index;
    if (this.blocks === next.blocks) return;
    this.blocks = next.blocks;
    this.interpreter.clearLookup();
  }

  /** Watches the reservation of a CPU that does not run. */
  private holdReservation(index: number): void {
    const { reservation, slots } = this.lifter;
    if (!reservation || !this.reservations) return;
    const { state } = this.cpus[index]!;
    const address = new DataView(state.buffer).getBigUint64(slots.offset(reservation.address), true);
    if (address !== reservation.none) this.reservations.hold(index, address);
  }

  /** The host writes to the range. */
  private loseReservations(address: Address, size: number): void {
    const { reservation } = this.lifter;
    if (!reservation || !this.reservations) return;
    this.reservations.written(address, size);
    const own = this.slot(reservation.address);
    if (own === reservation.none) return;
    const granule = this.reservations.granuleOf(own);
    if (address + BigInt(size) <= granule || address >= granule + BigInt(reservation.granuleBytes)) return;
    this.setSlot(reservation.address, reservation.none);
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
    return this.fetch?.lineBytes ?? 0;
  }

  get fetchMode(): FetchMode {
    return this.fetch ? 'buffered' : 'coherent';
  }

  /**
   * Makes a CPU (default: the running one) fetch anew, as an interrupt of another CPU would. True:
   * it had old bytes. Nothing happens in `coherent` mode.
   */
  synchronise(index = this.current): boolean {
    const cpu = this.cpus[index];
    if (!cpu) throw new ElftraceError('usage', `there is no CPU ${index}`, { value: index });
    if (!this.fetch) return false;
    const stale = this.fetch.synchronise(index);
    for (const each of [...cpu.blocks.values()]) this.drop(each);
    return stale;
  }

  /** Addresses of the lines in which a CPU sees older bytes than memory has, ascending. */
  staleLines(index = this.current): readonly Address[] {
    return this.fetch?.staleLines(index) ?? [];
  }

  /** Instructions that the running CPU has completed. */
  get instructions(): number {
    return this.cpus[this.current]!.instructions;
  }

  /** Instructions that all CPUs together have completed. */
  get totalInstructions(): number {
    let sum = 0;
    for (let i = 0; i < this.cpus.length; i++) sum += this.cpus[i]!.instructions;
    return sum;
  }

  /**
   * Virtual time: ticks of 1 / TIME_HZ seconds, one for each instruction that any CPU has
   * completed, and those skipped.
   */
  get time(): bigint {
    return BigInt(this.totalInstructions) + this.skippedTicks;
  }

  /** Lets ticks pass in which no CPU executes anything: a sleep. */
  skipTime(ticks: bigint): void {
    if (ticks < 0n) throw new ElftraceError('usage', 'time does not go back', { value: ticks });
    this.skippedTicks += ticks;
  }

  /** Value of an i64 slot. */
  slot(slot: Slot): bigint {
    return this.host.u64[(STATE + this.lifter.slots.offset(slot)) >> 3]!;
  }

  setSlot(slot: Slot, value: bigint): void {
    this.host.u64[(STATE + this.lifter.slots.offset(slot)) >> 3] = value;
  }

  private view(name: RegisterName): RegisterView {
    const view = this.registers.get(name);
    if (!view) throw new ElftraceError('bad-reference', `no register is named ${name}`, { what: name });
    return view;
  }

  /** Value of a register, unsigned. `pc` is one. */
  register(name: RegisterName): bigint {
    return name === 'pc' ? this.pc : this.view(name).read(this.state);
  }

  setRegister(name: RegisterName, value: bigint): void {
    if (name === 'pc') this.pc = BigInt.asUintN(this.lifter.addressBits, value);
    else this.view(name).write(this.state, value);
  }

  /** The value of a register as `saveCpu` saved it. */
  registerOf({ state, pc }: CpuState, name: RegisterName): bigint {
    if (name === 'pc') return pc;
    const words = new BigUint64Array(state.buffer, state.byteOffset, state.length >> 3);
    const get = (slot: Slot, half: 0 | 1 = 0): bigint => words[(this.lifter.slots.offset(slot) >> 3) + half]!;
    return this.view(name).read({ ...this.state, get });
  }

  /** Remembers the registers of the running CPU; the function that it returns puts them back. */
  saveRegisters(): () => void {
    const size = this.lifter.slots.sizeBytes;
    const saved = this.host.u8.slice(STATE, STATE + size);
    const { pc } = this;
    return () => {
      this.host.u8.set(saved, STATE);
      this.pc = pc;
    };
  }

  get registerNames(): readonly RegisterName[] {
    return this.allNames;
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
    this.saveRunning();
    const { lifter, current, skippedTicks } = this;
    const cpus = this.cpus.map(({ state, pc, passHook, passWatch, instructions }, index) => ({
      state: state.slice(),
      pc,
      instructions,
      passHook,
      passWatch,
      fetched: this.fetch?.save(index) ?? null,
    }));
    return {
      lifter,
      current,
      skippedTicks,
      cpus,
      windows: this.memory.save(),
      parts: [...this.parts].map((each) => each()),
      deviated: new Map(this.deviated),
    };
  }

  /**
   * Makes the machine what it was. Hooks, gates and watches stay as they are.
   * @throws ElftraceError 'usage' when the snapshot is of a machine with another front end or fetch
   *   mode
   */
  restore(snapshot: Snapshot): void {
    if (!sameLayout(snapshot.lifter, this.lifter)) {
      throw new ElftraceError('usage', 'the snapshot is of another kind of machine');
    }
    if (snapshot.cpus.some((each) => (each.fetched === null) !== (this.fetch === null))) {
      throw new ElftraceError('usage', 'the snapshot is of a machine with another fetch mode');
    }
    this.cpus.forEach((_, index) => this.reservations?.release(index));
    while (this.cpus.length < snapshot.cpus.length) this.addCpu();
    if (this.fetch) this.dropAll();
    this.cpus.length = snapshot.cpus.length;
    this.memory.restore(snapshot.windows);
    snapshot.cpus.forEach((saved, index) => {
      const cpu = this.cpus[index]!;
      cpu.state.set(saved.state);
      cpu.pc = saved.pc;
      cpu.instructions = saved.instructions;
      cpu.passHook = saved.passHook;
      cpu.passWatch = saved.passWatch;
    });
    this.skippedTicks = snapshot.skippedTicks;
    this.fetch?.restore(snapshot.cpus.map((each) => each.fetched));
    this.loadCpu(snapshot.current);
    for (let index = 0; index < this.cpus.length; index++) if (index !== this.current) this.holdReservation(index);
    this.deviated.clear();
    for (const [key, each] of snapshot.deviated) this.deviated.set(key, each);
    for (const part of snapshot.parts) part();
  }

  /**
   * Registers of a CPU and what it has fetched, without memory; counts of instructions are not part
   * of it.
   */
  saveCpu(index: number): CpuState {
    if (index === this.current) this.saveRunning();
    const cpu = this.cpus[index];
    if (!cpu) throw new ElftraceError('usage', `there is no CPU ${index}`, { value: index });
    const fetched = this.fetch?.save(index) ?? null;
    return { state: cpu.state.slice(), pc: cpu.pc, instructions: 0, passHook: null, passWatch: null, fetched };
  }

  /**
   * Makes CPUs what `saveCpu` saved of them, with no instructions completed; memory stays as it is,
   * and so do the registers of a CPU for which there is null.
   */
  restoreCpus(saved: readonly (CpuState | null)[]): void {
    if (saved.length !== this.cpus.length) {
      throw new ElftraceError('usage', `${saved.length} CPUs were saved, there are ${this.cpus.length}`, {
        value: saved.length,
      });
    }
    this.saveRunning();
    saved.forEach((each, index) => {
      if (each === null) return;
      const cpu = this.cpus[index]!;
      cpu.pc = each.pc;
      cpu.passHook = null;
      cpu.passWatch = null;
      cpu.instructions = 0;
      cpu.state.set(each.state);
    });
    this.cpus.forEach((_, index) => this.reservations?.release(index));
    const { fetch } = this;
    if (fetch) {
      const states = saved.map((each, index) => each?.fetched ?? fetch.save(index));
      this.dropAll();
      fetch.restore(states);
    }
    this.loadCpu(this.current);
    for (let index = 0; index < this.cpus.length; index++) if (index !== this.current) this.holdReservation(index);
  }

  /**
   * Forgets how many instructions were completed, on every CPU: with it virtual time stands still.
   */
  forgetInstructions(): void {
    for (const each of this.cpus) {
      each.instructions = 0;
      each.passWatch = null;
    }
  }

  /**
   * Calls `hook` before bytes change by anything but the fast path of a store: by the host, by
   * helpers, and by instructions in windows that are watched. null takes it off.
   */
  observeStores(hook: ((address: Address, size: number) => void) | null): void {
    this.onStore = hook;
  }

  /**
   * The CPU fetches the lines of the range, as processors do ahead of what they execute. Nothing
   * happens in `coherent` mode.
   */
  prefetch(index: number, address: Address, size: number): void {
    this.fetch?.fetched(index, address, address + BigInt(size));
  }

  /**
   * Makes something outside the machine part of its state: `part` is called for each snapshot, and
   * what it returns is called when that snapshot is restored. Returns a function that takes it off
   * again.
   */
  addState(part: StatePart): () => void {
    this.parts.add(part);
    return () => {
      this.parts.delete(part);
    };
  }

  // ----------------------------------------------------------------------------------------- hooks

  /**
   * Calls `hook` before each execution of the instruction at `address`; several are called in the
   * order in which they were added. Returns a function that takes this one off again.
   */
  hook(address: Address, hook: Hook): () => void {
    const own: Hook = (machine) => hook(machine);
    const list = this.hooks.get(address);
    if (list) list.push(own);
    else {
      this.hooks.set(address, [own]);
      this.dropCovering(address);
    }
    return () => {
      const rest = this.hooks.get(address);
      const index = rest?.indexOf(own) ?? -1;
      if (!rest || index === -1) return;
      rest.splice(index, 1);
      if (rest.length > 0) return;
      this.hooks.delete(address);
      this.dropCovering(address);
    };
  }

  /**
   * Calls `hook` before each access to the range that an instruction makes; accesses of the host,
   * of system calls and of helpers are not seen. Windows that hold no watched range are as fast as
   * before. Returns a function that takes it off.
   */
  watch(range: WatchRequest, hook: WatchHook): () => void {
    const { address, size } = range;
    if (size <= 0) throw new ElftraceError('usage', 'a watched range has at least one byte', { address });
    const kinds = range.access === 'any' ? (['read', 'write'] as const) : [range.access];
    const watches = kinds.map((access): Watch => ({ address, size, access, hook }));
    for (const each of watches) {
      this.watches.add(each);
      this.memory.watch(each);
    }
    return () => {
      for (const each of watches) {
        this.watches.delete(each);
        this.memory.unwatch(each);
      }
    };
  }

  /**
   * Executes `gate` in place of the instruction at `address`, which counts as one; it must say
   * where to go on (`pc`). `stop` ends the run after it. `gates.ts` makes callbacks with the
   * calling convention of the target from this.
   */
  setGate(address: Address, gate: Hook): () => void {
    if (this.gates.has(address)) throw new ElftraceError('usage', `there is a gate at ${hex(address)}`, { address });
    this.gates.set(address, gate);
    this.dropCovering(address);
    return () => {
      if (this.gates.delete(address)) this.dropCovering(address);
    };
  }

  private isHooked(address: Address): boolean {
    return this.hooks.has(address) || (this.gates.size > 0 && this.gates.has(address));
  }

  // ----------------------------------------------------------------------------------- translation

  private guardedLimits(): Pick<LiftLimits, 'guarded'> {
    const { memory } = this;
    return memory.anyGuarded ? { guarded: (address) => memory.windowAt(address)?.guarded === true } : {};
  }

  private lift(address: Address, maxInstructions: number, slow = false): Block | null {
    const { fetch } = this;
    if (!fetch) {
      const code = this.memory.code(address, MAX_CODE_BYTES);
      const startsAt = this.hooks.size + this.gates.size > 0 ? (place: Address) => this.isHooked(place) : NOWHERE;
      return code && this.lifter.lift(code, address, { maxInstructions, startsAt, slow, ...this.guardedLimits() });
    }
    const code = fetch.code(this.current, address);
    if (!code) return null;
    const startsAt = (place: Address): boolean => fetch.leavesLine(address, place) || this.isHooked(place);
    const lift = (most: number): Block =>
      this.lifter.lift(code, address, {
        maxInstructions: most,
        startsAt,
        synchronises: true,
        slow,
        ...this.guardedLimits(),
      });
    let block = lift(maxInstructions);
    // An instruction that ends in the next line is a block of its own: that line is not fetched
    // before.
    const { length } = block.instructions;
    if (length > 1 && fetch.leavesLine(address, block.end - 1n)) block = lift(length - 1);
    fetch.fetched(this.current, address, block.end);
    return block;
  }

  private encode(block: Block, start: number, prefix: 'hook' | 'region' | null, pages: readonly number[]): Translated {
    const ops = eliminateDeadOps(block, this.lifter.slots);
    const encoder = new Encoder(this.host, this.lifter.slots, this.lifter.addressBits, start);
    const encoded = encoder.write(ops, block.terminator, block.instructions.length, prefix);
    const hooks = this.hooks.get(block.address) ?? [];
    return { block, encoded, prefix, hooks, pages, home: this.blocks, dropped: false };
  }

  /** The compiled tier, if this machine has one and it is time for it. */
  private compiledTier(): CompiledTier | null {
    if (this.tier === 0) return null;
    if (this.compiled) return this.compiled;
    return this.totalInstructions < this.tierUpAfter ? null : this.beginCompiling();
  }

  private beginCompiling(): CompiledTier {
    const { lifter, host } = this;
    this.compiled = new CompiledTier(host, lifter, this.memory, {
      lift: (address, leaders) => {
        const known = this.blocks.get(address);
        if (known && !leaders) return known.block;
        const code = this.memory.code(address, MAX_CODE_BYTES);
        if (!code) return null;
        const startsAt = (place: Address): boolean => leaders?.has(place) === true || this.isHooked(place);
        return lifter.lift(code, address, {
          maxInstructions: MAX_BLOCK_INSTRUCTIONS,
          startsAt,
          ...this.guardedLimits(),
        });
      },
      excluded: (address) => this.isHooked(address) || this.isRestless(address),
      targets: () => [],
      simplify: (block) => eliminateDeadOps(block, lifter.slots),
      predictions: (address) => {
        const known = this.blocks.get(address);
        if (!known) return [];
        return predictions(host, known.encoded).map(({ op, descriptor }) => ({
          instruction: known.block.instructions[op.at]!,
          descriptor,
        }));
      },
      known: (address) => this.tier === 1 || this.blocks.has(address),
      instructions: () => this.totalInstructions,
      entered: (address) => {
        const known = this.blocks.get(address);
        if (known && known.prefix !== 'region') this.drop(known);
      },
    });
    for (const each of this.blocks.values()) this.compiled.translated(each.block);
    for (const [site, target] of this.indirectCalls) this.compiled.calledFrom(site, target);
    for (const [site, target] of this.indirectJumps) this.compiled.jumped(site, target);
    return this.compiled;
  }

  /** The highest tier that has executed an instruction. */
  get tierReached(): 0 | 1 {
    return this.compiledRan ? 1 : 0;
  }

  /** What the compiled tier holds; null while there is none. */
  get compiledCounts(): CompiledCounts | null {
    return this.compiled?.counts ?? null;
  }

  /** The block at `address`; null when it may not be executed. */
  private translate(address: Address): Translated | null {
    const known = this.blocks.get(address);
    if (known) return known;
    const block = this.lift(address, this.blockInstructions);
    if (!block) return null;
    if (this.recordsEnd + encodedBound(block.ops.length) > this.chunks[this.chunk]!.end) this.makeRoom();
    const pages: number[] = [];
    const last = block.end > address ? block.end - 1n : address;
    for (let page = address >> CODE_PAGE_BITS; page <= last >> CODE_PAGE_BITS; page++) pages.push(Number(page));
    const prefix = this.isHooked(address)
      ? 'hook'
      : this.compiled && this.compiled.find(address) !== 0
        ? 'region'
        : null;
    const translated = this.encode(block, this.recordsEnd, prefix, pages);
    this.compiled?.translated(block);
    this.recordsEnd = translated.encoded.end;
    this.blocks.set(address, translated);
    this.byHeader.push(translated);
    for (const page of pages) {
      let set = this.byPage.get(page);
      if (!set) {
        set = new Set();
        this.byPage.set(page, set);
        this.memory.mark(page, 'code', 1);
      }
      set.add(translated);
    }
    return translated;
  }

  /** Goes on in the next chunk of records, or begins again in the first. */
  private makeRoom(): void {
    if (this.chunk === this.chunks.length - 1 && this.recordBytesLeft >= CHUNK_BYTES) {
      const start = this.host.allocate(CHUNK_BYTES, true);
      if (start !== -1) {
        this.chunks.push({ start, end: start + CHUNK_BYTES });
        this.recordBytesLeft -= CHUNK_BYTES;
      }
    }
    if (this.chunk === this.chunks.length - 1) this.dropAll();
    else this.recordsEnd = this.chunks[++this.chunk]!.start;
  }

  /** A block of at most `count` instructions that is used once and never looked up. */
  private translateOnce(address: Address, count: number, hooked: boolean, slow = false): Translated | null {
    const block = this.lift(address, Math.min(count, MAX_BLOCK_INSTRUCTIONS), slow);
    if (!block) return null;
    this.scratch = this.encode(block, RECORDS_START, hooked ? 'hook' : null, []);
    if (this.scratch.encoded.end > BLOCKS_START) throw new ElftraceError('internal', 'a block is too long');
    return this.scratch;
  }

  private drop(translated: Translated): void {
    translated.dropped = true;
    const { block, encoded } = translated;
    translated.home.delete(block.address);
    this.interpreter.removeLookup(block.address);
    writeDropped(this.host, encoded.header, block.address);
    for (const page of translated.pages) {
      const set = this.byPage.get(page);
      if (set?.delete(translated) && set.size === 0) {
        this.byPage.delete(page);
        this.memory.mark(page, 'code', -1);
      }
    }
  }

  /**
   * Compiled code of the range was written: a page to which that happens again and again is not
   * worth compiling.
   */
  private countRewrite(address: Address, size: number): void {
    const last = Number((address + BigInt(size) - 1n) >> CODE_PAGE_BITS);
    for (let page = Number(address >> CODE_PAGE_BITS); page <= last && this.rewrites.size < PAGES_COUNTED; page++) {
      const count = (this.rewrites.get(page) ?? 0) + 1;
      this.rewrites.set(page, count);
      this.anyRestless ||= count >= REWRITES;
    }
  }

  /**
   * Compiled code at `address` was left after `used` instructions. Code that calls what is written
   * again and again goes in and out of the compiled tier, which costs more than it gains: its page
   * stays in tier 0 as well.
   */
  private countShortRun(address: Address, used: number): void {
    if (!this.anyRestless || used >= SHORT_RUN) return;
    const page = Number(address >> CODE_PAGE_BITS);
    const count = (this.shortRuns.get(page) ?? 0) + 1;
    this.shortRuns.set(page, count);
    if (count !== SHORT_RUNS) return;
    this.rewrites.set(page, REWRITES);
    this.compiled?.dropRange(address & -(1n << CODE_PAGE_BITS), 1 << Number(CODE_PAGE_BITS));
  }

  private isRestless(address: Address): boolean {
    return this.rewrites.size > 0 && (this.rewrites.get(Number(address >> CODE_PAGE_BITS)) ?? 0) >= REWRITES;
  }

  /**
   * Code in the range is stale. `only`: blocks of its pages that hold none of its bytes stay, for
   * the host writes to code in few places; a program that stores to a page of code goes on doing
   * so, and does it faster when the page holds none.
   */
  private dropRange(address: Address, size: number, only = false): void {
    if (size === 0) return;
    if (!this.isRestless(address) && this.compiled?.holds(address, size)) this.countRewrite(address, size);
    this.compiled?.dropRange(address, size);
    if (this.byPage.size === 0) return;
    // What made a block end may lie behind it.
    const reach = BigInt(MAX_INSTRUCTION_BYTES);
    const end = address + BigInt(size);
    const first = Number((only ? address - reach : address) >> CODE_PAGE_BITS);
    const last = Number((end - 1n) >> CODE_PAGE_BITS);
    const dropPage = (page: number): void => {
      for (const each of [...(this.byPage.get(page) ?? [])]) {
        if (!only || (each.block.address < end && each.block.end + reach > address)) this.drop(each);
      }
    };
    if (last - first < this.byPage.size) {
      for (let page = first; page <= last; page++) dropPage(page);
    } else {
      for (const page of [...this.byPage.keys()]) if (page >= first && page <= last) dropPage(page);
    }
  }

  private dropCovering(address: Address): void {
    this.compiled?.dropCovering(address);
    const set = this.byPage.get(Number(address >> CODE_PAGE_BITS));
    if (!set) return;
    for (const each of [...set]) if (address >= each.block.address && address < each.block.end) this.drop(each);
  }

  /** Forgets what was translated, and gives its memory back. */
  dropAll(): void {
    for (const page of this.byPage.keys()) this.memory.mark(page, 'code', -1);
    this.byPage.clear();
    for (const each of this.cpus) each.blocks.clear();
    for (const each of this.byHeader) each.dropped = true;
    this.byHeader = [];
    this.interpreter.clearLookup();
    this.chunk = 0;
    this.recordsEnd = BLOCKS_START;
    this.generation++;
  }

  /** The block that holds a record or header. */
  private ownerOf(pointer: number): Translated {
    if (pointer < BLOCKS_START) {
      if (!this.scratch) throw new ElftraceError('internal', 'left from a block that does not exist');
      return this.scratch;
    }
    let low = 0;
    let high = this.byHeader.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.byHeader[middle]!.encoded.header <= pointer) low = middle;
      else high = middle - 1;
    }
    const found = this.byHeader[low];
    if (!found) throw new ElftraceError('internal', `no block holds host address ${hex(pointer)}`);
    return found;
  }

  // --------------------------------------------------------------------------------------- running

  /** Runs until something stops it, or `budget` instructions are completed (exactly). */
  run(options: { readonly budget?: number } = {}): StopReason {
    return this.execute(options.budget ?? Number.MAX_SAFE_INTEGER);
  }

  /** Completes one instruction; `step-limit` says that it did. */
  step(): StopReason {
    return this.execute(1);
  }

  private execute(budget: number): StopReason {
    const cpu = this.cpus[this.current]!;
    const { host } = this;
    const run: Running = {
      cpu,
      remaining: budget,
      entry: 0,
      alone: false,
      slow: false,
      watched: 0,
      interpret: false,
      asked: false,
      stack: null,
    };
    for (;;) {
      if (run.entry === 0) {
        const stop = this.enter(run);
        if (stop) return stop;
        if (run.entry === 0) continue;
      }
      let fuel = Math.min(run.remaining, SLICE);
      const sampling = this.tier === 'auto' && this.compiled !== null;
      if (this.tier === 'auto') {
        const most = sampling
          ? Math.max(MAX_BLOCK_INSTRUCTIONS, this.untilSample)
          : Math.max(MAX_BLOCK_INSTRUCTIONS, this.tierUpAfter - this.totalInstructions);
        fuel = Math.min(fuel, most);
      }
      const reason = EXIT_REASONS[this.interpreter.run(run.entry, fuel)]!;
      const used = fuel - host.u32[CONTROL.fuel >> 2]!;
      run.remaining -= used;
      cpu.instructions += used;
      this.untilSample -= used;
      run.entry = 0;
      const pointer = host.u32[CONTROL.pointer >> 2]!;
      // What every program leaves for is here; V8 need not compile the rest for most.
      switch (reason) {
        case 'fuel':
          this.pc = this.ownerOf(pointer).block.address;
          cpu.passHook = null;
          if (sampling && this.untilSample < MAX_BLOCK_INSTRUCTIONS) {
            this.untilSample = this.nextSample();
            this.compiled?.sample(this.pc);
          }
          break;
        case 'lookup': {
          this.pc = host.u64[CONTROL.value >> 3]!;
          cpu.passHook = null;
          // Restless code is not compiled: where it is called from and whether it is there need not
          // be asked.
          if (!this.isRestless(this.pc)) {
            this.noteJump(pointer);
            if (this.isCompiled(this.pc)) break;
          }
          // What is not executed yet is not fetched.
          const found = this.fetch && run.remaining <= 0 ? null : this.translate(this.pc);
          if (found) this.interpreter.enterLookup(this.pc, found.encoded.header);
          break;
        }
        case 'untranslated': {
          this.pc = host.u64[(pointer + 8) >> 3]!;
          cpu.passHook = null;
          const header = pointer - HEADER_BYTES;
          const link = host.u32[header >> 2]!;
          const { generation } = this;
          if (!this.isRestless(this.pc) && this.isCompiled(this.pc)) break;
          const found = this.fetch && run.remaining <= 0 ? null : this.translate(this.pc);
          if (found && generation === this.generation && pointer >= BLOCKS_START) {
            if (link === 0) writeForward(host, header, found.encoded.header);
            else host.u32[link >> 2] = found.encoded.header;
          }
          break;
        }
        default: {
          const stop = this.serveExit(run, reason, pointer);
          if (stop) return stop;
        }
      }
    }
  }

  /**
   * Finds what is executed at `pc` and makes it `run.entry`; 0: compiled code, hooks or a gate were
   * there, and something else is next.
   */
  private enter(run: Running): StopReason | null {
    const { cpu } = run;
    if (run.remaining <= 0) return { kind: 'step-limit' };
    let passing = cpu.passHook === this.pc;
    if (!passing) cpu.passHook = null;
    run.watched = 0;
    const known = run.alone ? undefined : this.blocks.get(this.pc);
    // What tier 0 would come back for after its first record.
    if (known?.prefix === 'hook' && !passing) {
      const stop = this.serveHooks(cpu, known);
      if (stop) return stop;
      if (cpu.passHook === null) return null;
      passing = true;
    }
    const compiled = this.compiledTier();
    if (compiled && !run.interpret && !passing && !run.alone && this.enterCompiled(run, compiled)) return null;
    run.asked = false;
    const gate = passing && this.gates.size > 0 ? this.gates.get(this.pc) : undefined;
    if (gate) {
      const address = this.pc;
      const result = gate(this);
      this.checkCpu(cpu);
      cpu.instructions++;
      run.remaining--;
      cpu.passHook = null;
      return result === 'stop' ? { kind: 'hook', address } : null;
    }
    let block = run.alone ? null : known && !known.dropped ? known : this.translate(this.pc);
    if (run.alone || (block && block.block.instructions.length > run.remaining)) {
      const hooked = !passing && this.isHooked(this.pc);
      block = this.translateOnce(this.pc, run.alone ? 1 : run.remaining, hooked, run.slow);
    }
    run.alone = false;
    run.slow = false;
    run.interpret = false;
    if (!block) return { kind: 'fault', address: this.pc, access: 'execute', instruction: this.pc };
    const { header } = block.encoded;
    const skips = (passing && block.prefix === 'hook') || block.prefix === 'region';
    run.entry = skips
      ? writeTrampoline(this.host, header + HEADER_BYTES + RECORD_BYTES, block.block.instructions.length)
      : header;
    return null;
  }

  /**
   * Executes compiled code at `pc` where there is some and it is worthwhile; false: tier 0 goes on.
   */
  private enterCompiled(run: Running, compiled: CompiledTier): boolean {
    if (run.remaining < LEAST_COMPILED && this.tier !== 1) return false;
    if (this.isRestless(this.pc)) return false;
    const { host } = this;
    if (this.tier === 1 && compiled.find(this.pc) === 0) compiled.compile(this.pc);
    const place = run.asked ? compiled.wanted(this.pc) : compiled.find(this.pc);
    run.asked = false;
    if (place === 0 || !(run.stack ??= compiled.hasStack())) return false;
    const fuel = Math.min(run.remaining, SLICE);
    const from = this.pc;
    const stop = compiled.enter(place, from, fuel);
    const used = fuel - host.u32[CONTROL.fuel >> 2]!;
    run.remaining -= used;
    run.cpu.instructions += used;
    this.pc = host.u64[CONTROL.place >> 3]!;
    run.interpret = used === 0;
    if (used > 0) this.compiledRan = true;
    if (this.anyRestless && stop !== 'fuel') this.countShortRun(from, used);
    switch (stop) {
      case 'fuel':
        break;
      case 'jump':
        compiled.jumped(host.u64[CONTROL.site >> 3]!, this.pc);
        run.asked = true;
        break;
      case 'lookup':
        run.asked = true;
        break;
      case 'miss':
        compiled.missed(this.pc);
        run.interpret = true;
        break;
      case 'exit':
        run.interpret = true;
        break;
      default:
        stop satisfies never;
    }
    return true;
  }

  /** Gives back the instructions of a block from `index` on and stands before that one. */
  private rewind(run: Running, owner: Translated, index: number): Address {
    const { cpu } = run;
    const unused = owner.block.instructions.length - index;
    run.remaining += unused;
    cpu.instructions -= unused;
    this.pc = owner.block.instructions[index] ?? owner.block.end;
    if (this.pc !== cpu.passHook) cpu.passHook = null;
    return this.pc;
  }

  /** What tier 0 has left for, beside what every program does. `pointer`: its record. */
  private serveExit(
    run: Running,
    reason: Exclude<ExitReason, 'fuel' | 'lookup' | 'untranslated'>,
    pointer: number,
  ): StopReason | null {
    const { cpu } = run;
    const owner = this.ownerOf(pointer);
    const { block, encoded } = owner;
    const { terminator } = block;
    /** Index of the record in the block. */
    const index = (pointer - encoded.header - HEADER_BYTES) / RECORD_BYTES;
    switch (reason) {
      case 'region':
        this.rewind(run, owner, 0);
        // A region that is gone left this behind.
        if (this.compiled?.find(this.pc) === 0) this.drop(owner);
        return null;
      case 'hook':
        this.rewind(run, owner, 0);
        // A block without instructions costs nothing, so it can be reached with nothing left.
        return run.remaining > 0 ? this.serveHooks(cpu, owner) : null;
      case 'helper': {
        const stop = this.helper(run, owner);
        this.checkCpu(cpu);
        if (!stop) cpu.passHook = null;
        return stop;
      }
      case 'trap': {
        const instruction = this.rewind(run, owner, block.instructions.length - 1);
        if (terminator.kind !== 'trap') throw new ElftraceError('internal', 'a trap without a trap');
        this.synchronise();
        return { kind: 'trap', trap: terminator.trap, instruction };
      }
      case 'check': {
        const op = encoded.ops[index];
        const row = op && OPS[op.op];
        if (row?.form !== 'check') throw new ElftraceError('internal', 'a check that failed without a check');
        const instruction = this.rewind(run, owner, encoded.at[index]!);
        this.synchronise();
        return { kind: 'trap', trap: row.trap, instruction };
      }
      case 'sync':
        if (terminator.kind !== 'sync') throw new ElftraceError('internal', 'a synchronisation without a cause');
        this.pc = terminator.next;
        cpu.passHook = null;
        this.synchronise();
        return null;
      case 'slow':
        // Its hooks were served when the block was entered, or it is not the first.
        cpu.passHook = this.rewind(run, owner, encoded.at[index]!);
        run.alone = true;
        run.slow = true;
        return null;
      case 'unknown':
        if (terminator.kind !== 'unknown') throw new ElftraceError('internal', 'unknown without a cause');
        this.pc = block.end;
        if (run.remaining <= 0) return null;
        return {
          kind: 'unknown-instruction',
          instruction: this.pc,
          bytes: this.codeBytes(this.pc, terminator.sizeBytes),
          mnemonic: terminator.mnemonic,
        };
      case 'fetch': {
        this.pc = block.end;
        // Its last bytes may be mapped by the next time.
        if (owner !== this.scratch) this.drop(owner);
        if (run.remaining <= 0) return null;
        const bad = this.memory.check(this.pc, 16, 'execute') ?? this.pc;
        return { kind: 'fault', address: bad, access: 'execute', instruction: this.pc };
      }
      case 'miss':
        return this.serveMiss(run, owner, index);
      default:
        return reason satisfies never;
    }
  }

  /**
   * An access that no window serves in the fast path: misaligned, a fault, watched, of code, or
   * across windows. `index`: its record.
   */
  private serveMiss(run: Running, owner: Translated, index: number): StopReason | null {
    const { cpu } = run;
    const { block, encoded } = owner;
    const op = encoded.ops[index];
    const at = encoded.at[index]!;
    const row = op && OPS[op.op];
    if (row?.form === 'aligned') {
      const instruction = this.rewind(run, owner, at);
      this.synchronise();
      return { kind: 'trap', trap: 'alignment', instruction };
    }
    if (!row || (row.form !== 'load' && row.form !== 'store')) {
      throw new ElftraceError('internal', 'a missed access without an access');
    }
    const address = this.host.u64[CONTROL.value >> 3]!;
    const access = row.form === 'load' ? 'read' : 'write';
    const bad = this.memory.check(address, row.bytes, access);
    if (bad !== null) {
      const instruction = this.rewind(run, owner, at);
      const wanted = row.update === true ? 'write' : access;
      this.synchronise();
      if (this.onFault?.(this, bad, wanted) !== true)
        return { kind: 'fault', address: bad, access: wanted, instruction };
      this.checkCpu(cpu);
      return null;
    }
    if (this.watches.size > 0 && this.isWatched(address, row.bytes, access)) {
      const instructions = cpu.instructions - (block.instructions.length - at);
      const instruction = block.instructions[at]!;
      let pass = cpu.passWatch;
      if (pass?.pc !== instruction || pass.instructions !== instructions) {
        pass = { pc: instruction, instructions, served: 0 };
        run.watched = 0;
      }
      if (++run.watched > pass.served) {
        // The instruction begins anew behind the hooks, and passes those accesses that they have
        // seen.
        this.rewind(run, owner, at);
        cpu.passWatch = { ...pass, served: run.watched };
        const bytes = access === 'write' ? this.bytesOfStore(op, row) : null;
        const event = { address, size: row.bytes, access, instruction, bytes } as const;
        const stop = this.serveWatches(event);
        this.checkCpu(cpu);
        return stop ? { kind: 'hook', address: instruction, watch: event } : null;
      }
    }
    if (access === 'write' && this.sees(address, row.bytes)) {
      this.rewind(run, owner, at);
      if (this.fetch) for (const each of this.ownBlocks(address, row.bytes)) this.drop(each);
      else this.dropRange(address, row.bytes);
      run.alone = true;
      return null;
    }
    // Where there are many windows, the one that is accessed now gets a descriptor.
    this.memory.touch(address);
    this.access(op, row, address);
    const record = encoded.header + HEADER_BYTES + RECORD_BYTES * (index + 1);
    run.entry = writeTrampoline(this.host, record, 0);
    return null;
  }

  /**
   * Calls the hooks in front of a block, at which `pc` is. They are behind it (`passHook`) unless
   * one of them went elsewhere.
   */
  private serveHooks(cpu: Cpu, { block: { address }, hooks }: Translated): StopReason | null {
    cpu.passHook = address;
    let stop = false;
    for (const each of [...hooks]) if (each(this) === 'stop') stop = true;
    if (this.pc !== address) cpu.passHook = null;
    if (stop) return { kind: 'hook', address };
    this.checkCpu(cpu);
    return null;
  }

  /** Instructions until tier 0 is looked at again. */
  private nextSample(): number {
    this.sampleSeed = (Math.imul(this.sampleSeed, 1_664_525) + 1_013_904_223) >>> 0;
    return SAMPLE - (SAMPLE >> 2) + Math.floor((this.sampleSeed / 0x1_0000_0000) * (SAMPLE >> 1));
  }

  private isCompiled(address: Address): boolean {
    return this.compiled !== null && this.compiled.find(address) !== 0;
  }

  /** An indirect branch went to `pc` for the first time, as tier 0 knows. */
  private noteJump(pointer: number): void {
    if (this.tier === 0) return;
    const { block } = this.ownerOf(pointer);
    const { kind } = block.terminator;
    const site = block.instructions.at(-1)!;
    if (kind === 'calli') {
      if (this.compiled) this.compiled.calledFrom(site, this.pc);
      else if (this.indirectCalls.length < 4096) this.indirectCalls.push([site, this.pc]);
    } else if (kind === 'ind') {
      if (this.compiled) this.compiled.jumped(site, this.pc);
      else if (this.indirectJumps.length < 4096) this.indirectJumps.push([site, this.pc]);
    }
  }

  private isWatched(address: Address, size: number, access: 'read' | 'write'): boolean {
    for (const each of this.watches) {
      if (each.access !== access || address + BigInt(size) <= each.address) continue;
      if (address < each.address + BigInt(each.size)) return true;
    }
    return false;
  }

  private serveWatches(event: WatchEvent): boolean {
    let stop = false;
    for (const each of [...this.watches]) {
      if (each.access !== event.access || event.address + BigInt(event.size) <= each.address) continue;
      if (event.address >= each.address + BigInt(each.size)) continue;
      if (each.hook(this, event) === 'stop') stop = true;
    }
    return stop;
  }

  /**
   * Bytes of the instruction at `pc`, as the running CPU sees them; empty where nothing may be
   * executed.
   */
  instructionBytes(): Uint8Array {
    const code = this.fetch ? this.fetch.code(this.current, this.pc) : this.memory.code(this.pc, MAX_CODE_BYTES);
    if (!code) return new Uint8Array();
    const block = this.lifter.lift(code, this.pc, { maxInstructions: 1, startsAt: NOWHERE });
    const { terminator } = block;
    const size = terminator.kind === 'unknown' ? terminator.sizeBytes : Number(block.end - this.pc);
    return code.slice(0, size);
  }

  /** Bytes of an instruction as the running CPU sees them; as many as are mapped. */
  private codeBytes(address: Address, size: number): Uint8Array {
    const code = this.fetch ? this.fetch.code(this.current, address) : this.memory.code(address, size);
    return code && code.length >= size ? code.slice(0, size) : (this.memory.read(address, size) ?? new Uint8Array());
  }

  private checkCpu(cpu: Cpu): void {
    if (this.cpus[this.current] === cpu) return;
    throw new ElftraceError('usage', 'hooks and system calls must not switch CPUs: stop, and switch between runs', {
      address: this.pc,
    });
  }

  private holdsCode(address: Address, size: number): boolean {
    const last = BigInt.asUintN(this.lifter.addressBits, address + BigInt(size - 1));
    const onPage = (place: Address): boolean => this.byPage.has(Number(place >> CODE_PAGE_BITS));
    return onPage(address) || onPage(last) || this.compiled?.holds(address, size) === true;
  }

  /** The running CPU has translated code that a store of its own must change at once. */
  private sees(address: Address, size: number): boolean {
    if (!this.fetch) return this.holdsCode(address, size);
    return this.lifter.fetch?.ownStores === true && this.ownBlocks(address, size).length > 0;
  }

  /** Blocks of the running CPU that hold a byte of the range. */
  private ownBlocks(address: Address, size: number): Translated[] {
    const out = new Set<Translated>();
    const end = address + BigInt(size);
    for (const place of [address, end - 1n]) {
      for (const each of this.byPage.get(Number(place >> CODE_PAGE_BITS)) ?? []) {
        const { block } = each;
        if (each.home === this.blocks && block.address < end && block.end > address) out.add(each);
      }
    }
    return [...out];
  }

  private bytesOfStore(op: Op, row: AccessRow): Uint8Array {
    let bytes: Uint8Array;
    if (typeof op.c === 'number') {
      const place = STATE + this.lifter.slots.offset(op.c);
      bytes = this.host.u8.slice(place, place + row.bytes);
    } else bytes = new Uint8Array(BigUint64Array.of(BigInt.asUintN(64, op.c)).buffer).slice(0, row.bytes);
    return row.endian === 'big' ? bytes.reverse() : bytes;
  }

  /** Performs an access that crosses windows, or that is watched, and is allowed. */
  private access(op: Op, row: AccessRow, address: Address): void {
    if (row.form === 'load') {
      const bytes = this.memory.read(address, row.bytes)!;
      if (row.endian === 'big') bytes.reverse();
      const wide = new Uint8Array(row.type === 'v128' ? 16 : 8);
      wide.set(bytes);
      if (row.signed && bytes.at(-1)! >= 0x80) wide.fill(0xff, row.bytes);
      this.host.u8.set(wide, STATE + this.lifter.slots.offset(op.d));
    } else {
      this.storing = true;
      this.memory.write(address, this.bytesOfStore(op, row));
      this.storing = false;
    }
  }

  /**
   * Runs the helper that ends `owner`. The block is paid; while the helper looks, its own
   * instruction is not completed yet.
   */
  private helper(run: Running, owner: Translated): StopReason | null {
    const { cpu } = run;
    cpu.instructions--;
    const result = this.callHelper(owner);
    cpu.instructions++;
    if (result === null || result.kind === 'exit' || result.kind === 'signal') return result;
    if (result.kind === 'yield') {
      cpu.passHook = null;
      return result;
    }
    this.rewind(run, owner, owner.block.instructions.length - 1);
    if (result.kind === 'trap' || result.kind === 'fault') this.synchronise();
    if (result.kind !== 'fault') return result;
    return this.onFault?.(this, result.address, result.access) === true ? null : result;
  }

  /** A stop but for `exit` and `signal` is one before the instruction. */
  private callHelper(owner: Translated): StopReason | null {
    const { block } = owner;
    const { terminator } = block;
    if (terminator.kind !== 'helper') throw new ElftraceError('internal', 'a helper exit without a helper');
    const index = block.instructions.length - 1;
    const instruction = block.instructions[index]!;
    this.pc = instruction;
    const synchronises = this.lifter.fetch
      ? this.lifter.fetch.synchronising.has(terminator.name)
      : terminator.name === 'syscall';
    if (synchronises) this.synchronise();
    if (terminator.name === 'syscall') {
      // The kernel runs on this CPU: where that sees its own stores it sees those of the call.
      this.storing = this.lifter.fetch?.ownStores === true;
      const result: SyscallResult = this.syscall ? this.syscall(this) : { kind: 'unserved' };
      this.storing = false;
      const isDone = result.kind !== 'unserved' && result.kind !== 'waiting' && result.kind !== 'resumed';
      if (isDone) this.lifter.afterSyscall?.(this.state, terminator.next);
      switch (result.kind) {
        case 'next':
          if (this.pc === instruction) this.pc = terminator.next;
          return result.yields === true ? { kind: 'yield', instruction } : null;
        case 'resumed':
          return { kind: 'yield', instruction };
        case 'exit':
          this.pc = terminator.next;
          return { kind: 'exit', code: result.code };
        case 'signal':
          this.pc = terminator.next;
          return { kind: 'signal', signal: result.signal, instruction };
        case 'unserved':
          return { kind: 'syscall', instruction };
        case 'waiting':
          return { kind: 'waiting', instruction };
        default:
          return result satisfies never;
      }
    }
    const helper = this.lifter.helpers[terminator.name];
    if (!helper)
      throw new ElftraceError('internal', `no helper is named ${terminator.name}`, { what: terminator.name });
    this.storing = true;
    const result = helper(this.state, terminator.argument);
    this.storing = false;
    switch (result.kind) {
      case 'next':
        this.pc = terminator.next;
        return null;
      case 'goto':
        this.pc = result.pc;
        return null;
      case 'trap':
        return { kind: 'trap', trap: result.trap, instruction };
      case 'fault':
        return { kind: 'fault', address: result.address, access: result.access, instruction };
      default:
        return result satisfies never;
    }
  }
}
