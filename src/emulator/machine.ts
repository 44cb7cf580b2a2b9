/**
 * A machine: guest memory, CPUs, hooks, and the loop that runs translated blocks and decides what happens when the generated
 * code leaves. Everything that is not the fast path of an instruction is here: faults, stores to code, helpers, hooks,
 * budgets. A stop leaves the state exactly before the instruction that stopped (after it for a budget).
 *
 * One CPU runs at a time; its state block is in the WebAssembly.Memory, those of the others are kept aside and copied in by
 * `switchTo`. No generated code is on the call stack while TypeScript runs, so code can be dropped and CPUs switched here.
 */
import { CONTROL, HostMemory, RECORDS_END, RECORDS_START, STATE } from './host.js';
import {
  Encoder,
  encodedBound,
  EXIT_REASONS,
  HEADER_BYTES,
  Interpreter,
  RECORD_BYTES,
  writeDropped,
  writeForward,
  writeTrampoline,
} from './interpreter.js';
import { OPS } from './ir.js';
import type { AccessRow, Block, HelperState, Lifter, Op, RegisterView, Slot, TrapKind } from './ir.js';
import type { EncodedBlock } from './interpreter.js';
import { CODE_PAGE_BITS, GuestMemory } from './memory.js';
import type { AccessKind, MapRequest } from './memory.js';
import { eliminateDeadOps } from './passes.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address, RegisterName } from '../units.js';

/** Why a run ended. `instruction` is the address of the instruction that did not complete. */
export type StopReason =
  | { readonly kind: 'exit'; readonly code: number }
  | {
      readonly kind: 'fault';
      /** First byte that may not be accessed. */
      readonly address: Address;
      readonly access: AccessKind;
      readonly instruction: Address;
    }
  | { readonly kind: 'trap'; readonly trap: TrapKind; readonly instruction: Address }
  | {
      readonly kind: 'unknown-instruction';
      readonly instruction: Address;
      readonly bytes: Uint8Array;
      /** null: the bytes are no instruction we know; a name: known, but its semantics are missing. */
      readonly mnemonic: string | null;
    }
  | { readonly kind: 'syscall'; readonly instruction: Address }
  /** A system call raised a signal that ends the process; the call is completed. Numbers as in Linux asm-generic/signal.h. */
  | { readonly kind: 'signal'; readonly signal: number; readonly instruction: Address }
  | { readonly kind: 'hook'; readonly address: Address }
  | { readonly kind: 'step-limit' };

/** What a system call did. `unserved` stops the run at the instruction. */
export type SyscallResult =
  | { readonly kind: 'next' }
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: number }
  | { readonly kind: 'unserved' };

export type SyscallHandler = (machine: Machine) => SyscallResult;

/** Called before the instruction at the hooked address; `stop` ends the run there, and the next run goes past the hook. */
export type Hook = (machine: Machine) => 'continue' | 'stop';

export interface MachineOptions {
  readonly lifter: Lifter;
  readonly syscall?: SyscallHandler;
  /**
   * Called when an access faults, before the run ends; true: the address is mapped now, try again. The state is that before
   * the instruction. This is how a stack grows.
   */
  readonly onFault?: (machine: Machine, address: Address, access: AccessKind) => boolean;
  /** Most bytes of translated code; when they are full everything is translated anew. Default 16 MiB. */
  readonly recordBytes?: number;
}

/** The state of a CPU that is not running. */
interface Cpu {
  readonly state: Uint8Array;
  pc: Address;
  /** Address of the hook that was already served. */
  passHook: Address | null;
  instructions: number;
}

interface Translated {
  readonly block: Block;
  readonly encoded: EncodedBlock;
  readonly hooked: boolean;
  readonly pages: readonly number[];
  dropped: boolean;
}

/** Instructions after which generated code returns even when nothing happened: V8 replaces baseline code on calls only. */
const SLICE = 2_000_000;
const MAX_BLOCK_INSTRUCTIONS = 64;
const MAX_CODE_BYTES = 1024;
/** Blocks that run once (exact stops, stores to their own page) are written here. */
const SCRATCH_BYTES = 0x1_0000;
const BLOCKS_START = RECORDS_START + SCRATCH_BYTES;
const CHUNK_BYTES = 0x20_0000;
const DEFAULT_RECORD_BYTES = 0x100_0000;

export class Machine {
  readonly memory: GuestMemory;
  readonly lifter: Lifter;
  private readonly host = new HostMemory();
  private readonly interpreter: Interpreter;
  private readonly registers = new Map<RegisterName, RegisterView>();
  private readonly cpus: Cpu[] = [];
  private current = 0;
  private readonly syscall: SyscallHandler | undefined;
  private readonly hooks = new Map<Address, Hook[]>();
  private readonly blocks = new Map<Address, Translated>();
  /** Blocks in the order of their host addresses. */
  private byHeader: Translated[] = [];
  private readonly byPage = new Map<number, Set<Translated>>();
  private scratch: Translated | null = null;
  /** Room for blocks, ascending; `recordsEnd` is in `chunks[chunk]`. */
  private readonly chunks: { readonly start: number; readonly end: number }[];
  private chunk = 0;
  private recordsEnd = BLOCKS_START;
  private recordBytesLeft: number;
  private readonly onFault: MachineOptions['onFault'];
  /** Counts how often all translated code was thrown away. */
  private generation = 0;
  /** Address of the instruction being executed, while a helper, hook or system call runs. */
  pc: Address = 0n;
  private readonly state: HelperState;

  constructor(options: MachineOptions) {
    const { lifter } = options;
    this.lifter = lifter;
    this.syscall = options.syscall;
    this.onFault = options.onFault;
    const first = Math.min(RECORDS_END - BLOCKS_START, options.recordBytes ?? DEFAULT_RECORD_BYTES);
    this.chunks = [{ start: BLOCKS_START, end: BLOCKS_START + first }];
    this.recordBytesLeft = (options.recordBytes ?? DEFAULT_RECORD_BYTES) - first;
    this.interpreter = new Interpreter(this.host, lifter);
    this.memory = new GuestMemory(this.host, lifter.addressBits);
    this.memory.onChange = (address, size) => {
      this.dropRange(address, size);
    };
    for (const view of lifter.registers) this.registers.set(view.name, view);
    const self = (): Machine => this;
    this.state = {
      get: (slot) => this.slot(slot),
      set: (slot, value) => {
        this.setSlot(slot, value);
      },
      get pc() {
        return self().pc;
      },
      get instructions() {
        return self().instructions;
      },
    };
    this.addCpu();
  }

  // ------------------------------------------------------------------------------------------------------ CPUs, state

  /** Adds a CPU with zeroed registers and returns its index. */
  addCpu(): number {
    const state = new Uint8Array(this.lifter.slots.sizeBytes);
    this.cpus.push({ state, pc: 0n, passHook: null, instructions: 0 });
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
    const last = this.cpus[this.current]!;
    const size = this.lifter.slots.sizeBytes;
    last.state.set(this.host.u8.subarray(STATE, STATE + size));
    last.pc = this.pc;
    this.host.u8.set(next.state, STATE);
    this.pc = next.pc;
    this.current = index;
  }

  /** Instructions that the running CPU has completed. */
  get instructions(): number {
    return this.cpus[this.current]!.instructions;
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

  get registerNames(): readonly RegisterName[] {
    return [...this.registers.keys(), 'pc'];
  }

  // ---------------------------------------------------------------------------------------------------------- memory

  map(request: MapRequest): void {
    this.memory.map(request);
  }

  /** Maps `bytes` (and zeroes behind them up to `size`) at an address. */
  load(address: Address, bytes: Uint8Array, request: Omit<MapRequest, 'address' | 'size'> & { size?: number }): void {
    this.memory.map({ ...request, address, size: Math.max(bytes.length, request.size ?? 0) });
    this.memory.write(address, bytes);
  }

  // ----------------------------------------------------------------------------------------------------------- hooks

  /** Calls `hook` before each execution of the instruction at `address`. Returns a function that takes it off again. */
  hook(address: Address, hook: Hook): () => void {
    const list = this.hooks.get(address);
    if (list) list.push(hook);
    else {
      this.hooks.set(address, [hook]);
      this.dropCovering(address);
    }
    return () => {
      const rest = (this.hooks.get(address) ?? []).filter((each) => each !== hook);
      if (rest.length > 0) this.hooks.set(address, rest);
      else if (this.hooks.delete(address)) this.dropCovering(address);
    };
  }

  // ----------------------------------------------------------------------------------------------------- translation

  private lift(address: Address, maxInstructions: number): Block | null {
    const code = this.memory.code(address, MAX_CODE_BYTES);
    if (!code) return null;
    return this.lifter.lift(code, address, { maxInstructions, startsAt: (place) => this.hooks.has(place) });
  }

  private encode(block: Block, start: number, hooked: boolean, pages: readonly number[]): Translated {
    const ops = eliminateDeadOps(block, this.lifter.slots);
    const encoder = new Encoder(this.host, this.lifter.slots, start);
    const encoded = encoder.write(ops, block.terminator, block.instructions.length, hooked);
    return { block, encoded, hooked, pages, dropped: false };
  }

  /** The block at `address`; null when it may not be executed. */
  private translate(address: Address): Translated | null {
    const known = this.blocks.get(address);
    if (known) return known;
    const block = this.lift(address, MAX_BLOCK_INSTRUCTIONS);
    if (!block) return null;
    if (this.recordsEnd + encodedBound(block.ops.length) > this.chunks[this.chunk]!.end) this.makeRoom();
    const pages: number[] = [];
    const last = block.end > address ? block.end - 1n : address;
    for (let page = address >> CODE_PAGE_BITS; page <= last >> CODE_PAGE_BITS; page++) pages.push(Number(page));
    const translated = this.encode(block, this.recordsEnd, this.hooks.has(address), pages);
    this.recordsEnd = translated.encoded.end;
    this.blocks.set(address, translated);
    this.byHeader.push(translated);
    for (const page of pages) {
      let set = this.byPage.get(page);
      if (!set) {
        set = new Set();
        this.byPage.set(page, set);
        this.memory.countCode(page, 1);
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

  /** A block of at most `count` instructions that is used once and found by nobody. */
  private translateOnce(address: Address, count: number, hooked: boolean): Translated | null {
    const block = this.lift(address, Math.min(count, MAX_BLOCK_INSTRUCTIONS));
    if (!block) return null;
    this.scratch = this.encode(block, RECORDS_START, hooked, []);
    if (this.scratch.encoded.end > BLOCKS_START) throw new ElftraceError('internal', 'a block is too long');
    return this.scratch;
  }

  private drop(translated: Translated): void {
    translated.dropped = true;
    const { block, encoded } = translated;
    this.blocks.delete(block.address);
    this.interpreter.removeLookup(block.address);
    writeDropped(this.host, encoded.header, block.address);
    for (const page of translated.pages) {
      const set = this.byPage.get(page);
      if (set?.delete(translated) && set.size === 0) {
        this.byPage.delete(page);
        this.memory.countCode(page, -1);
      }
    }
  }

  private dropRange(address: Address, size: number): void {
    if (this.byPage.size === 0 || size === 0) return;
    const first = Number(address >> CODE_PAGE_BITS);
    const last = Number((address + BigInt(size) - 1n) >> CODE_PAGE_BITS);
    if (last - first < this.byPage.size) {
      for (let page = first; page <= last; page++) this.dropPage(page);
    } else {
      for (const page of [...this.byPage.keys()]) if (page >= first && page <= last) this.dropPage(page);
    }
  }

  private dropPage(page: number): void {
    const set = this.byPage.get(page);
    if (set) for (const each of [...set]) this.drop(each);
  }

  private dropCovering(address: Address): void {
    const set = this.byPage.get(Number(address >> CODE_PAGE_BITS));
    if (!set) return;
    for (const each of [...set]) if (address >= each.block.address && address < each.block.end) this.drop(each);
  }

  private dropAll(): void {
    for (const page of this.byPage.keys()) this.memory.countCode(page, -1);
    this.byPage.clear();
    this.blocks.clear();
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

  // --------------------------------------------------------------------------------------------------------- running

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
    let remaining = budget;
    /** Header to enter next; 0: find the block of `pc`. */
    let entry = 0;
    /** The next instruction stores into translated code: execute it alone. */
    let alone = false;
    for (;;) {
      if (entry === 0) {
        if (remaining <= 0) return { kind: 'step-limit' };
        const passing = cpu.passHook === this.pc;
        if (!passing) cpu.passHook = null;
        let block = alone ? null : this.translate(this.pc);
        if (alone || (block && block.block.instructions.length > remaining)) {
          block = this.translateOnce(this.pc, alone ? 1 : remaining, !passing && this.hooks.has(this.pc));
        }
        alone = false;
        if (!block) return { kind: 'fault', address: this.pc, access: 'execute', instruction: this.pc };
        entry = block.encoded.header;
        if (passing && block.hooked) {
          entry = writeTrampoline(host, entry + HEADER_BYTES + RECORD_BYTES, block.block.instructions.length);
        }
      }
      const fuel = Math.min(remaining, SLICE);
      const reason = EXIT_REASONS[this.interpreter.run(entry, fuel)]!;
      const used = fuel - host.u32[CONTROL.fuel >> 2]!;
      remaining -= used;
      cpu.instructions += used;
      entry = 0;
      const pointer = host.u32[CONTROL.pointer >> 2]!;
      /** Gives back the instructions of a block from `index` on and stands before that one. */
      const rewind = (owner: Translated, index: number): Address => {
        const unused = owner.block.instructions.length - index;
        remaining += unused;
        cpu.instructions -= unused;
        this.pc = owner.block.instructions[index] ?? owner.block.end;
        if (this.pc !== cpu.passHook) cpu.passHook = null;
        return this.pc;
      };
      switch (reason) {
        case 'fuel':
          this.pc = this.ownerOf(pointer).block.address;
          cpu.passHook = null;
          break;
        case 'lookup': {
          this.pc = host.u64[CONTROL.value >> 3]!;
          cpu.passHook = null;
          const found = this.translate(this.pc);
          if (found) this.interpreter.enterLookup(this.pc, found.encoded.header);
          break;
        }
        case 'untranslated': {
          this.pc = host.u64[(pointer + 8) >> 3]!;
          cpu.passHook = null;
          const header = pointer - HEADER_BYTES;
          const link = host.u32[header >> 2]!;
          const { generation } = this;
          const found = this.translate(this.pc);
          if (found && generation === this.generation && pointer >= BLOCKS_START) {
            if (link === 0) writeForward(host, header, found.encoded.header);
            else host.u32[link >> 2] = found.encoded.header;
          }
          break;
        }
        case 'hook': {
          const owner = this.ownerOf(pointer);
          const address = rewind(owner, 0);
          cpu.passHook = address;
          let stop = false;
          for (const each of [...(this.hooks.get(address) ?? [])]) if (each(this) === 'stop') stop = true;
          if (this.pc !== address) cpu.passHook = null;
          if (stop) return { kind: 'hook', address };
          this.checkCpu(cpu);
          break;
        }
        case 'helper': {
          // The block is paid; while the helper looks, its own instruction is not completed yet.
          cpu.instructions--;
          const stop = this.helper(this.ownerOf(pointer), (owner, index) => {
            cpu.instructions++;
            const place = rewind(owner, index);
            cpu.instructions--;
            return place;
          });
          cpu.instructions++;
          this.checkCpu(cpu);
          if (stop) return stop;
          cpu.passHook = null;
          break;
        }
        case 'trap': {
          const owner = this.ownerOf(pointer);
          const { terminator } = owner.block;
          const instruction = rewind(owner, owner.block.instructions.length - 1);
          if (terminator.kind !== 'trap') throw new ElftraceError('internal', 'a trap without a trap');
          return { kind: 'trap', trap: terminator.trap, instruction };
        }
        case 'unknown': {
          const owner = this.ownerOf(pointer);
          const { terminator } = owner.block;
          if (terminator.kind !== 'unknown') throw new ElftraceError('internal', 'unknown without a cause');
          this.pc = owner.block.end;
          return {
            kind: 'unknown-instruction',
            instruction: this.pc,
            bytes: this.memory.read(this.pc, terminator.sizeBytes) ?? new Uint8Array(),
            mnemonic: terminator.mnemonic,
          };
        }
        case 'fetch': {
          const { block } = this.ownerOf(pointer);
          this.pc = block.end;
          const bad = this.memory.check(this.pc, 16, 'execute') ?? this.pc;
          return { kind: 'fault', address: bad, access: 'execute', instruction: this.pc };
        }
        case 'miss': {
          const owner = this.ownerOf(pointer);
          const index = (pointer - owner.encoded.header - HEADER_BYTES) / RECORD_BYTES;
          const op = owner.encoded.ops[index];
          const row = op && OPS[op.op];
          if (!row || (row.form !== 'load' && row.form !== 'store')) {
            throw new ElftraceError('internal', 'a missed access without an access');
          }
          const address = host.u64[CONTROL.value >> 3]!;
          const access = row.form === 'load' ? 'read' : 'write';
          const bad = this.memory.check(address, row.bytes, access);
          if (bad !== null) {
            const instruction = rewind(owner, owner.encoded.at[index]!);
            if (this.onFault?.(this, bad, access) === true) {
              this.checkCpu(cpu);
              break;
            }
            return { kind: 'fault', address: bad, access, instruction };
          }
          if (access === 'write' && this.holdsCode(address, row.bytes)) {
            rewind(owner, owner.encoded.at[index]!);
            this.dropRange(address, row.bytes);
            alone = true;
            break;
          }
          this.access(op, row, address);
          entry = writeTrampoline(host, pointer + RECORD_BYTES, 0);
          break;
        }
        default:
          reason satisfies never;
      }
    }
  }

  private checkCpu(cpu: Cpu): void {
    if (this.cpus[this.current] === cpu) return;
    throw new ElftraceError('usage', 'hooks and system calls must not switch CPUs: stop, and switch between runs', {
      address: this.pc,
    });
  }

  private holdsCode(address: Address, size: number): boolean {
    const last = BigInt.asUintN(this.lifter.addressBits, address + BigInt(size - 1));
    return this.byPage.has(Number(address >> CODE_PAGE_BITS)) || this.byPage.has(Number(last >> CODE_PAGE_BITS));
  }

  /** Performs an access that crosses windows and is allowed. */
  private access(op: Op, row: AccessRow, address: Address): void {
    const slotOffset = (slot: number): number => STATE + this.lifter.slots.offset(slot);
    if (row.form === 'load') {
      const bytes = this.memory.read(address, row.bytes)!;
      if (row.endian === 'big') bytes.reverse();
      const wide = new Uint8Array(Math.max(8, row.bytes));
      wide.set(bytes);
      if (row.signed && bytes.at(-1)! >= 0x80) wide.fill(0xff, row.bytes);
      this.host.u8.set(wide, slotOffset(op.d));
    } else {
      let bytes: Uint8Array;
      if (typeof op.c === 'number') {
        const place = slotOffset(op.c);
        bytes = this.host.u8.slice(place, place + row.bytes);
      } else bytes = new Uint8Array(BigUint64Array.of(BigInt.asUintN(64, op.c)).buffer).slice(0, row.bytes);
      if (row.endian === 'big') bytes.reverse();
      this.memory.write(address, bytes);
    }
  }

  /** Runs the helper that ends `owner`. */
  private helper(owner: Translated, rewind: (owner: Translated, index: number) => Address): StopReason | null {
    const { block } = owner;
    const { terminator } = block;
    if (terminator.kind !== 'helper') throw new ElftraceError('internal', 'a helper exit without a helper');
    const index = block.instructions.length - 1;
    const instruction = block.instructions[index]!;
    this.pc = instruction;
    if (terminator.name === 'syscall') {
      const result: SyscallResult = this.syscall ? this.syscall(this) : { kind: 'unserved' };
      switch (result.kind) {
        case 'next':
          if (this.pc === instruction) this.pc = terminator.next;
          return null;
        case 'exit':
          this.pc = terminator.next;
          return { kind: 'exit', code: result.code };
        case 'signal':
          this.pc = terminator.next;
          return { kind: 'signal', signal: result.signal, instruction };
        case 'unserved':
          return { kind: 'syscall', instruction: rewind(owner, index) };
        default:
          return result satisfies never;
      }
    }
    const helper = this.lifter.helpers[terminator.name];
    if (!helper)
      throw new ElftraceError('internal', `no helper is named ${terminator.name}`, { what: terminator.name });
    const result = helper(this.state, terminator.argument);
    switch (result.kind) {
      case 'next':
        this.pc = terminator.next;
        return null;
      case 'goto':
        this.pc = result.pc;
        return null;
      case 'trap':
        return { kind: 'trap', trap: result.trap, instruction: rewind(owner, index) };
      default:
        return result satisfies never;
    }
  }
}
