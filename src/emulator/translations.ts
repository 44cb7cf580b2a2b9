/**
 * The code that tier 0 executes: blocks of a program, lifted and written as records into the host's
 * memory, found by their address, and dropped when what they were made from is no longer so.
 *
 * All CPUs share it, unless the machine models what CPUs have fetched (`fetch.ts`): then each has
 * its own, made from the bytes that it sees, and a store to code drops nothing until the CPU
 * synchronises.
 */
import { guardAt } from './code-bytes.js';
import type { CompiledTier } from './compiled.js';
import type { FetchBuffers } from './fetch.js';
import { RECORDS_END, RECORDS_START } from './host.js';
import type { HostMemory } from './host.js';
import { RECORD_BYTES } from './handlers.js';
import type { Hooks } from './hooks.js';
import { describeRecords, encodedBound, writeBlock, writeDropped } from './encoder.js';
import type { RecordNotes } from './encoder.js';
import type { Interpreter } from './interpreter.js';
import type { CodeAt, KeptTranslations } from './kept-translations.js';
import type { Block, Lifter, LiftLimits, Terminator } from '../machine/ir.js';
import { CODE_PAGE_BITS, MAX_INSTRUCTION_BYTES } from './memory.js';
import type { GuestMemory } from './memory.js';
import { ElftraceError, hex } from '../errors.js';
import { type SlotUse, slotUse } from './slot-use.js';
import type { Address } from '../units.js';

export const MAX_BLOCK_INSTRUCTIONS = 64;
const MAX_CODE_BYTES = 1024;
/** Blocks that run once (exact stops, stores to their own page) are written here. */
const SCRATCH_BYTES = 0x1_0000;
export const BLOCKS_START = RECORDS_START + SCRATCH_BYTES;
const CHUNK_BYTES = 0x20_0000;
const DEFAULT_RECORD_BYTES = 0x100_0000;

/** So many are dropped one by one in less time than the lookup table is cleared. */
const FEW_BLOCKS = 128;

/** So many descriptions are kept of blocks that were asked for theirs. */
const DESCRIPTIONS = 256;

const NOWHERE = (): boolean => false;

/**
 * A block as tier 0 executes it. What it was made of is not kept: a large program has tens of
 * thousands of blocks, few of which are ever asked for their ops (`Translations.describe`).
 */
export interface Translated {
  readonly address: Address;
  /** Address after the last byte. */
  readonly end: Address;
  /** So many instructions, which is what it costs. */
  readonly count: number;
  /** Address of the last of them; its own where there is none. */
  readonly last: Address;
  readonly terminator: Terminator;
  /** Host addresses: of the header, and after the last record. */
  readonly header: number;
  readonly recordsEnd: number;
  /** What it asks for before its first instruction. */
  readonly prefix: 'hook' | 'region' | null;
  /** Where it is found by its address. */
  readonly home: Map<Address, Translated>;
  /** Kept where it could not be lifted again as it was. */
  readonly described: Described | null;
  dropped: boolean;
}

/** What a translated block was made of. */
export interface Described {
  readonly block: Block;
  readonly records: RecordNotes;
}

type Blocks = Map<Address, Translated>;

const firstPage = ({ address }: Translated): number => Number(address >> CODE_PAGE_BITS);
const lastPage = ({ address, end }: Translated): number =>
  Number((end > address ? end - 1n : address) >> CODE_PAGE_BITS);

/** What a cache of translated code works with. */
export interface TranslationsOptions {
  readonly host: HostMemory;
  readonly lifter: Lifter;
  readonly memory: GuestMemory;
  readonly interpreter: Interpreter;
  readonly fetch: FetchBuffers | null;
  readonly hooks: Hooks;
  /** Most bytes of records; when they are full everything is translated anew. */
  readonly recordBytes: number | undefined;
  /** Most instructions of a block. */
  readonly blockInstructions: number | undefined;
  /** What other machines with the lifter have translated. */
  readonly kept: KeptTranslations | undefined;
}

export class Translations {
  /** Blocks of the running CPU. */
  blocks: Blocks = new Map();
  /** Of each CPU; in `coherent` mode there is one for all. */
  private readonly ofCpus = new Map([[0, this.blocks]]);
  private cpu = 0;
  /** Blocks in the order of their host addresses. */
  private byHeader: Translated[] = [];
  private readonly byPage = new Map<number, Set<Translated>>();
  private scratch: Translated | null = null;
  /** Of blocks that were asked lately. */
  private readonly described = new Map<Translated, Described>();
  /** Of instructions that were asked, with the bytes that they had. */
  private readonly uses = new Map<Address, { readonly bytes: Uint8Array; readonly use: SlotUse | null }>();
  /** Room for blocks, ascending; `recordsEnd` is in `chunks[chunk]`. */
  private readonly chunks: { readonly start: number; readonly end: number }[];
  private chunk = 0;
  private recordsEnd = BLOCKS_START;
  private recordBytesLeft: number;
  private readonly blockInstructions: number;
  /** Counts how often all of it was thrown away. */
  generation = 0;
  /** The compiled tier, which has regions at some addresses, once there is one. */
  compiled: CompiledTier | null = null;

  constructor(private readonly options: TranslationsOptions) {
    const { recordBytes = DEFAULT_RECORD_BYTES, blockInstructions = Infinity } = options;
    const first = Math.min(RECORDS_END - BLOCKS_START, recordBytes);
    this.chunks = [{ start: BLOCKS_START, end: BLOCKS_START + first }];
    this.recordBytesLeft = recordBytes - first;
    this.blockInstructions = Math.min(MAX_BLOCK_INSTRUCTIONS, Math.max(1, blockInstructions));
  }

  /** Another CPU is the running one. */
  switchTo(cpu: number): void {
    this.cpu = cpu;
    if (!this.options.fetch) return;
    const next = this.blocksOf(cpu);
    if (this.blocks === next) return;
    this.blocks = next;
    this.options.interpreter.blocks.clear();
  }

  private blocksOf(cpu: number): Blocks {
    if (!this.options.fetch) return this.blocks;
    const known = this.ofCpus.get(cpu);
    if (known) return known;
    const own: Blocks = new Map();
    this.ofCpus.set(cpu, own);
    return own;
  }

  // ---------------------------------------------------------------------------------------- making

  private guardedLimits(): Pick<LiftLimits, 'guarded'> {
    const { memory } = this.options;
    return memory.anyGuarded ? { guarded: (address) => memory.windowAt(address)?.guarded === true } : {};
  }

  /** A block of code as memory has it; `startsAt`: where others begin. */
  private liftMemory(
    address: Address,
    startsAt: (place: Address) => boolean,
    maxInstructions: number,
    slow = false,
  ): Block | null {
    const { memory, lifter } = this.options;
    const code = memory.code(address, MAX_CODE_BYTES);
    const limits = { maxInstructions, startsAt, slow, ...this.guardedLimits() };
    return code && lifter.lift(code, address, limits);
  }

  /** A block of code as the running CPU has fetched it. */
  private liftFetched(fetch: FetchBuffers, address: Address, maxInstructions: number, slow: boolean): Block | null {
    const { hooks, lifter } = this.options;
    const code = fetch.code(this.cpu, address);
    if (!code) return null;
    const startsAt = (place: Address): boolean => fetch.leavesLine(address, place) || hooks.has(place);
    const lift = (most: number): Block =>
      lifter.lift(code, address, {
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
    fetch.fetched(this.cpu, address, block.end);
    return block;
  }

  private lift(address: Address, maxInstructions: number, slow = false): Block | null {
    const { fetch, hooks } = this.options;
    if (fetch) return this.liftFetched(fetch, address, maxInstructions, slow);
    const startsAt = hooks.any ? (place: Address) => hooks.has(place) : NOWHERE;
    return this.liftMemory(address, startsAt, maxInstructions, slow);
  }

  /** A block for the compiled tier, which ends before each of the `leaders`. */
  liftForRegion(address: Address, leaders: ReadonlySet<Address> | null): Block | null {
    const known = this.blocks.get(address);
    if (known && !leaders) return this.describe(known).block;
    const { hooks } = this.options;
    const startsAt = (place: Address): boolean => leaders?.has(place) === true || hooks.has(place);
    return this.liftMemory(address, startsAt, MAX_BLOCK_INSTRUCTIONS);
  }

  /**
   * What a block was made of. It is lifted again from the bytes that it was lifted from: a block
   * whose bytes change is dropped before anything asks, and one that ended for want of room or at a
   * hook ends where it did.
   */
  describe(translated: Translated): Described {
    const known = translated.described ?? this.described.get(translated);
    if (known) return known;
    const { address, end, header, recordsEnd, prefix, terminator } = translated;
    const startsAt = terminator.kind === 'jmp' ? (place: Address) => place === end : NOWHERE;
    const { memory, lifter } = this.options;
    const code = translated.dropped ? null : memory.code(address, MAX_CODE_BYTES);
    const limits = { maxInstructions: this.blockInstructions, startsAt, ...this.guardedLimits() };
    const block = code && lifter.lift(code, address, limits);
    const records = block && describeRecords(block, lifter, prefix);
    if (!block || records?.bytes !== recordsEnd - header) {
      throw new ElftraceError('internal', `what the block at ${hex(address)} was made of is not there any more`);
    }
    const made = { block, records };
    if (this.described.size >= DESCRIPTIONS) this.described.clear();
    this.described.set(translated, made);
    return made;
  }

  /**
   * Bytes of the instruction at `address`, as the running CPU sees them; empty where nothing may be
   * executed.
   */
  instructionBytes(address: Address): Uint8Array {
    const { fetch, memory, lifter } = this.options;
    const code = fetch ? fetch.code(this.cpu, address) : memory.code(address, MAX_CODE_BYTES);
    if (!code) return new Uint8Array();
    const block = lifter.lift(code, address, { maxInstructions: 1, startsAt: NOWHERE });
    const { terminator } = block;
    const size = terminator.kind === 'unknown' ? terminator.sizeBytes : Number(block.end - address);
    return code.slice(0, size);
  }

  /** Slots that the instruction at `address` reads and writes; null: any. */
  slotUse(address: Address): SlotUse | null {
    const { fetch, memory, lifter } = this.options;
    const code = fetch ? fetch.code(this.cpu, address) : memory.code(address, MAX_CODE_BYTES);
    if (!code) return null;
    const known = this.uses.get(address);
    if (known?.bytes.every((byte, i) => byte === code[i]) === true) return known.use;
    const block = lifter.lift(code, address, { maxInstructions: 1, startsAt: NOWHERE, ...this.guardedLimits() });
    const use = slotUse(block, lifter.slots);
    this.uses.set(address, { bytes: code.slice(0, Number(block.end - address)), use });
    return use;
  }

  /** Bytes of an instruction as the running CPU sees them; as many as are mapped. */
  codeBytes(address: Address, size: number): Uint8Array {
    const { fetch, memory } = this.options;
    const code = fetch ? fetch.code(this.cpu, address) : memory.code(address, size);
    return code && code.length >= size ? code.slice(0, size) : (memory.read(address, size) ?? new Uint8Array());
  }

  /** `keep`: it cannot be lifted again as it was, or hardly costs anything to keep. */
  private encode(block: Block, start: number, prefix: Translated['prefix'], keep: boolean): Translated {
    const { host, lifter } = this.options;
    const { address, end, instructions, terminator } = block;
    return {
      address,
      end,
      count: instructions.length,
      last: instructions.at(-1) ?? address,
      terminator,
      header: start,
      recordsEnd: writeBlock(block, lifter, host, start, prefix),
      prefix,
      home: this.blocks,
      described: keep ? { block, records: describeRecords(block, lifter, prefix) } : null,
      dropped: false,
    };
  }

  private prefixOf(address: Address): Translated['prefix'] {
    if (this.options.hooks.has(address)) return 'hook';
    return this.compiled && this.compiled.find(address) !== 0 ? 'region' : null;
  }

  /** The block at `address`; null when it may not be executed. */
  translate(address: Address): Translated | null {
    const known = this.blocks.get(address);
    if (known) return known;
    const prefix = this.prefixOf(address);
    const code = prefix === 'hook' ? null : this.keepable(address);
    const translated = (code && this.fromKept(code, prefix)) ?? this.newBlock(address, prefix, code);
    if (!translated) return null;
    this.compiled?.translated(translated);
    this.recordsEnd = translated.recordsEnd;
    this.blocks.set(address, translated);
    this.byHeader.push(translated);
    const last = lastPage(translated);
    for (let page = firstPage(translated); page <= last; page++) this.markPage(page, translated);
    return translated;
  }

  /** Lifts a block and writes its records. */
  private newBlock(address: Address, prefix: Translated['prefix'], code: CodeAt | null): Translated | null {
    const { fetch, kept, host } = this.options;
    const block = this.lift(address, this.blockInstructions);
    if (!block) return null;
    this.needRoom(encodedBound(block.ops.length));
    const translated = this.encode(block, this.recordsEnd, prefix, fetch !== null);
    if (code && prefix === null) kept!.add(code, block, host, translated.header, translated.recordsEnd);
    return translated;
  }

  /** The code at an address, where what is made of it depends on nothing that is not compared. */
  private keepable(address: Address): CodeAt | null {
    const { fetch, hooks, kept, memory } = this.options;
    if (kept === undefined || fetch || hooks.any || this.blockInstructions < MAX_BLOCK_INSTRUCTIONS) return null;
    const code = memory.code(address, MAX_CODE_BYTES);
    if (!code) return null;
    const guarded = guardAt(memory, address);
    // What is behind the window may be guarded in another way.
    if (guarded !== 0 && guardAt(memory, address + BigInt(code.length - 1)) !== guarded) return null;
    return { address, code, guarded };
  }

  /** A block that another machine has translated. */
  private fromKept(code: CodeAt, prefix: Translated['prefix']): Translated | null {
    const { kept, host } = this.options;
    const found = kept!.find(code);
    if (!found) return null;
    const { end, count, last, terminator, recordsBytes } = found;
    this.needRoom(recordsBytes + RECORD_BYTES);
    const header = this.recordsEnd;
    return {
      address: code.address,
      ...{ end, count, last, terminator, header, prefix },
      recordsEnd: kept!.write(found, host, header, prefix),
      home: this.blocks,
      described: null,
      dropped: false,
    };
  }

  private needRoom(bytes: number): void {
    if (this.recordsEnd + bytes > this.chunks[this.chunk]!.end) this.makeRoom();
  }

  private markPage(page: number, translated: Translated): void {
    let set = this.byPage.get(page);
    if (!set) {
      set = new Set();
      this.byPage.set(page, set);
      this.options.memory.mark(page, 'code', 1);
    }
    set.add(translated);
  }

  /** Goes on in the next chunk of records, or begins again in the first. */
  private makeRoom(): void {
    if (this.chunk === this.chunks.length - 1 && this.recordBytesLeft >= CHUNK_BYTES) {
      const start = this.options.host.allocate(CHUNK_BYTES, true);
      if (start !== -1) {
        this.chunks.push({ start, end: start + CHUNK_BYTES });
        this.recordBytesLeft -= CHUNK_BYTES;
      }
    }
    if (this.chunk === this.chunks.length - 1) this.dropAll();
    else this.recordsEnd = this.chunks[++this.chunk]!.start;
  }

  /** A block of at most `count` instructions that is used once and never looked up. */
  translateOnce(address: Address, count: number, hooked: boolean, slow: boolean): Translated | null {
    const block = this.lift(address, Math.min(count, MAX_BLOCK_INSTRUCTIONS), slow);
    if (!block) return null;
    this.scratch = this.encode(block, RECORDS_START, hooked ? 'hook' : null, true);
    if (this.scratch.recordsEnd > BLOCKS_START) throw new ElftraceError('internal', 'a block is too long');
    return this.scratch;
  }

  // ---------------------------------------------------------------------------------------- asking

  /** The block that holds a record or header. */
  ownerOf(pointer: number): Translated {
    if (pointer < BLOCKS_START) {
      if (!this.scratch) throw new ElftraceError('internal', 'left from a block that does not exist');
      return this.scratch;
    }
    let low = 0;
    let high = this.byHeader.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.byHeader[middle]!.header <= pointer) low = middle;
      else high = middle - 1;
    }
    const found = this.byHeader[low];
    if (!found) throw new ElftraceError('internal', `no block holds host address ${hex(pointer)}`);
    return found;
  }

  /** Code was translated of a page that the access touches, or compiled of the range. */
  private holds(address: Address, size: number): boolean {
    const last = BigInt.asUintN(this.options.lifter.addressBits, address + BigInt(size - 1));
    const onPage = (place: Address): boolean => this.byPage.has(Number(place >> CODE_PAGE_BITS));
    return onPage(address) || onPage(last) || this.compiled?.holds(address, size) === true;
  }

  /** The running CPU has translated code that a store of its own must change at once. */
  changesWith(address: Address, size: number): boolean {
    const { fetch, lifter } = this.options;
    if (!fetch) return this.holds(address, size);
    return lifter.fetch?.ownStores === true && this.own(address, size).length > 0;
  }

  /** Blocks of the running CPU that hold a byte of the range. */
  private own(address: Address, size: number): Translated[] {
    const out = new Set<Translated>();
    const end = address + BigInt(size);
    for (const place of [address, end - 1n]) {
      for (const each of this.byPage.get(Number(place >> CODE_PAGE_BITS)) ?? []) {
        if (each.home === this.blocks && each.address < end && each.end > address) out.add(each);
      }
    }
    return [...out];
  }

  // -------------------------------------------------------------------------------------- dropping

  /** What refers to the block comes back for another one. */
  drop(translated: Translated): void {
    const { interpreter, host, memory } = this.options;
    translated.dropped = true;
    const { address } = translated;
    translated.home.delete(address);
    interpreter.blocks.remove(address);
    writeDropped(host, translated.header, address);
    const last = lastPage(translated);
    for (let page = firstPage(translated); page <= last; page++) {
      const set = this.byPage.get(page);
      if (set?.delete(translated) && set.size === 0) {
        this.byPage.delete(page);
        memory.mark(page, 'code', -1);
      }
    }
  }

  /** A block that was used once is not found again, so there is nothing to drop. */
  dropFound(translated: Translated): void {
    if (translated !== this.scratch) this.drop(translated);
  }

  /** The running CPU stores to code that it has fetched, and sees it at once. */
  dropOwn(address: Address, size: number): void {
    for (const each of this.own(address, size)) this.drop(each);
  }

  /** The CPU fetches anew. */
  dropOf(cpu: number): void {
    for (const each of [...this.blocksOf(cpu).values()]) this.drop(each);
  }

  /**
   * Code in the range is stale. `only`: blocks of its pages that hold none of its bytes stay, for
   * the host writes to code in few places; a program that stores to a page of code goes on doing
   * so, and does it faster when the page holds none.
   */
  dropRange(address: Address, size: number, only: boolean): void {
    if (this.byPage.size === 0) return;
    // What made a block end may lie behind it.
    const reach = BigInt(MAX_INSTRUCTION_BYTES);
    const end = address + BigInt(size);
    const first = Number((only ? address - reach : address) >> CODE_PAGE_BITS);
    const last = Number((end - 1n) >> CODE_PAGE_BITS);
    const dropPage = (page: number): void => {
      for (const each of [...(this.byPage.get(page) ?? [])]) {
        if (!only || (each.address < end && each.end + reach > address)) this.drop(each);
      }
    };
    if (last - first < this.byPage.size) {
      for (let page = first; page <= last; page++) dropPage(page);
    } else {
      for (const page of [...this.byPage.keys()]) if (page >= first && page <= last) dropPage(page);
    }
  }

  dropCovering(address: Address): void {
    const set = this.byPage.get(Number(address >> CODE_PAGE_BITS));
    if (!set) return;
    for (const each of [...set]) if (address >= each.address && address < each.end) this.drop(each);
  }

  /** Forgets what was translated, and gives its memory back. */
  dropAll(): void {
    const { interpreter, memory } = this.options;
    if (this.byHeader.length < FEW_BLOCKS) {
      // Of a map that is cleared V8 keeps what was in it until all garbage is collected.
      for (const each of this.byHeader) if (!each.dropped) this.drop(each);
    } else {
      for (const page of this.byPage.keys()) memory.mark(page, 'code', -1);
      this.byPage.clear();
      for (const each of this.ofCpus.values()) each.clear();
      for (const each of this.byHeader) each.dropped = true;
      interpreter.blocks.clear();
    }
    this.byHeader = [];
    this.chunk = 0;
    this.recordsEnd = BLOCKS_START;
    this.generation++;
  }
}
