/**
 * The compiled tier: which regions exist, in which modules, when they are made and when they are
 * dropped. `regions.ts` finds them and `compile.ts` writes them; `tiers.ts` enters them and acts
 * on their stops.
 *
 * Modules hold several regions: one that is asked for and the functions that it calls. Each address
 * that regions call has an entry of one table for good; a region that is dropped leaves an empty
 * function in it, so that code of the past is never called. All frames of compiled code have
 * returned when TypeScript runs, so dropping needs no care for callers.
 *
 * When the bound on modules or on the table is reached everything is dropped: what is hot comes
 * back within milliseconds.
 */
import { CELL, compileModule, CONTROL, instantiate, LOOKUP_TABLE, makeTable, STATE, WINDOW } from './host.js';
import type { HostMemory, WasmTable } from './host.js';
import { RegionCompiler } from './compile.js';
import { someFunctions } from './functions.js';
import { resolveFunction } from './interpreter.js';
import { OPS } from '../machine/ir.js';
import type { Block, FunctionName, Lifter, Op } from '../machine/ir.js';
import { CODE_PAGE_BITS, MAX_INSTRUCTION_BYTES } from './memory.js';
import type { GuestMemory } from './memory.js';
import type { CompileContext, Site } from './region-code.js';
import { emptyFunction, enterFunction, gotoFunction, lookupPlace, probeFunction, STOP_NAMES } from './region-frames.js';
import type { StopName } from './region-frames.js';
import { findRegion } from './regions.js';
import type { BlockSource, Region } from './regions.js';
import { writeModule } from './wasm.js';
import type { WasmFunction } from './wasm.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

/** What the compiled tier may take. */
const TABLE_ENTRIES = 4096;
const MAX_MODULE_BYTES = 0x100_0000;
/** Regions and blocks of one module, at most (but for the last region). */
const BATCH_REGIONS = 16;
const BATCH_BLOCKS = 400;
/** Stack that compiled code may use, and that is proved to be there before it is entered; bytes. */
const STACK_BYTES = 0x3_0000;
/** The least that a frame of the probing function takes, bytes. */
const PROBE_FRAME_BYTES = 32;
/** Misses after which a region is made anew; doubled each time. */
const FIRST_MISSES = 32;

/**
 * Times that compiled code must ask for a region until it is made. Making one takes milliseconds,
 * asking for it and going on in tier 0 some microseconds: with a tenth of this a program that goes
 * through much code a little more often than that spends all its time here.
 */
const MANY_ASKED = 300;
/**
 * The same for regions that were dropped after they had been there for as many instructions as
 * compiled code executes while one is made, or more: functions that are patched now and then,
 * not code that is written all the time.
 */
const FEW_ASKED = 16;
const WORTH_ANEW = 1_000_000;

/** A region with its place. */
interface Unit {
  readonly entry: Address;
  readonly region: Region;
  readonly index: number;
  readonly pages: ReadonlySet<number>;
  /** Instructions that are to blame when a shared check fails, by the instruction that makes it. */
  readonly groups: ReadonlyMap<Address, readonly Address[]>;
  /** Instructions that the machine had executed when it was made. */
  readonly made: number;
  misses: number;
  jumps: number;
  dropped: boolean;
}

/** Where a region can be begun. */
interface Place {
  readonly unit: Unit;
  /** Table index, and the selector above. */
  readonly packed: number;
}

/** What the compiled tier asks of the machine. */
export interface CodeSource extends BlockSource {
  /**
   * The window descriptors that the accesses of the block at an address, as tier 0 knows it, hit
   * last.
   */
  predictions(address: Address): readonly { readonly instruction: Address; readonly descriptor: number }[];
  /** Instructions executed so far. */
  instructions(): number;
  /** Tier 0 asks before it executes the block at this address. */
  entered(address: Address): void;
}

export interface CompiledCounts {
  readonly regions: number;
  readonly modules: number;
  readonly moduleBytes: number;
  /** Since the machine was made. */
  readonly compiled: number;
  readonly dropped: number;
}

type RunFunction = (...values: number[]) => unknown;

/**
 * What every machine needs around its regions: an empty function for the table, and the functions
 * that enter regions and probe the stack.
 */
interface FrameModules {
  readonly empty: object;
  readonly enter: object;
}

const frames = new Map<number, FrameModules>();

/** Compiled once for all machines with such a `codeShift`. */
function frameModules(codeShift: number): FrameModules {
  let known = frames.get(codeShift);
  if (!known) {
    const functions = [enterFunction(codeShift), emptyFunction(), probeFunction(2)];
    known = {
      empty: compileModule(writeModule([emptyFunction()])),
      enter: compileModule(writeModule(functions, 1)),
    };
    frames.set(codeShift, known);
  }
  return known;
}

export class CompiledTier {
  private readonly table: WasmTable;
  private readonly enterModule: (place: number, stack: number) => number;
  private readonly probe: RunFunction;
  private readonly empty: unknown;
  private readonly codeShift: number;
  /** Functions that every module has. */
  private readonly common: readonly WasmFunction[];
  /** Table entries by the address of the callee. */
  private indices = new Map<Address, number>();
  private readonly units = new Map<Address, Unit>();
  private readonly places = new Map<Address, Place>();
  private readonly byPage = new Map<number, Set<Unit>>();
  /** Addresses at which no region begins, until code changes. */
  private readonly refused = new Set<Address>();
  /** Window cells in use, by base and host address. */
  private readonly cells = new Map<string, { readonly base: Address; readonly host: number; readonly at: number }>();
  /** An address in the window that each access of an instruction hit last, in tier 0. */
  private readonly hints = new Map<Address, (Address | undefined)[]>();
  /** Instructions whose accesses went to several windows. */
  private readonly searching = new Set<Address>();
  /** How often regions were made anew because of misses. */
  private readonly remade = new Map<Address, number>();
  /** Where indirect jumps and calls went. */
  private readonly jumps = new Map<Address, Set<Address>>();
  /** Blocks from which one may come directly, by address; only what tier 0 has translated. */
  private readonly predecessors = new Map<Address, Address[]>();
  private readonly called = new Set<Address>();
  private moduleBytes = 0;
  private moduleCount = 0;
  private compiledCount = 0;
  private droppedCount = 0;
  /**
   * Blocks of the regions that are being made, and their ops without those that are never seen:
   * copies and neighbours share them.
   */
  private readonly lifted = new Map<Address, Block | null>();
  private readonly simplified = new WeakMap<Block, readonly Op[]>();
  /** Times at which tier 0 was found in a block. */
  private readonly heat = new Map<Address, number>();
  /** Regions that compiled code has asked for often enough; they wait for others. */
  private readonly pending = new Set<Address>();
  /** How often compiled code asked for a region that is not there. */
  private readonly asked = new Map<Address, number>();
  /** Regions that are made anew as soon as they are asked for a few times. */
  private readonly worthAnew = new Set<Address>();

  constructor(
    private readonly host: HostMemory,
    private readonly lifter: Lifter,
    private readonly memory: GuestMemory,
    private readonly source: CodeSource,
    private readonly maxModuleBytes = MAX_MODULE_BYTES,
  ) {
    this.codeShift = { 1: 0, 2: 1, 4: 2 }[lifter.codeAlignBytes];
    this.common = [gotoFunction(this.codeShift), resolveFunction()];
    const modules = frameModules(this.codeShift);
    const { empty } = instantiate(modules.empty, host);
    this.table = makeTable(TABLE_ENTRIES, empty);
    const { enter, probe } = instantiate(modules.enter, host, this.table);
    if (typeof enter !== 'function' || typeof empty !== 'function' || typeof probe !== 'function') {
      throw new ElftraceError('internal', 'the module of the compiled tier is incomplete');
    }
    this.enterModule = (place, stack) => Number(enter(place, stack));
    this.probe = (...values) => probe(...values) as unknown;
    this.empty = empty;
    memory.onPublish = () => {
      this.publish();
    };
  }

  get counts(): CompiledCounts {
    return {
      regions: this.units.size,
      modules: this.moduleCount,
      moduleBytes: this.moduleBytes,
      compiled: this.compiledCount,
      dropped: this.droppedCount,
    };
  }

  // --------------------------------------------------------------------------------------- running

  /** Where a region can be begun for the address; 0: nowhere. */
  find(address: Address): number {
    return this.places.get(address)?.packed ?? 0;
  }

  /** True when there is stack enough for compiled code. */
  hasStack(): boolean {
    try {
      this.probe(STACK_BYTES / PROBE_FRAME_BYTES);
      return true;
    } catch (error) {
      if (error instanceof RangeError) return false;
      throw error;
    }
  }

  /**
   * Executes from an address whose place `find` returned; `CONTROL.place` says where it stopped,
   * `CONTROL.fuel` what is left.
   */
  enter(packed: number, address: Address, fuel: number): StopName {
    const { host } = this;
    host.u64[CONTROL.place >> 3] = address;
    host.u32[CONTROL.fuel >> 2] = fuel;
    const stop = STOP_NAMES[this.enterModule(packed, STACK_BYTES) - 1];
    if (stop === undefined) throw new ElftraceError('internal', 'compiled code stopped for no reason');
    return stop;
  }

  /**
   * Compiled code asked for a region: as `find`. If there is none it is made when it is asked for
   * often.
   */
  wanted(address: Address): number {
    const place = this.places.get(address);
    if (place) {
      this.remember(address, place);
      return place.packed;
    }
    const count = (this.asked.get(address) ?? 0) + 1;
    this.asked.set(address, count);
    if (count < FEW_ASKED) return 0;
    const anew = this.worthAnew.has(address);
    if (!anew && count < MANY_ASKED) return 0;
    this.pending.add(address);
    // Those that are about as hot share a module: each costs V8 some 100 KB.
    if (anew || count >= 2 * MANY_ASKED || this.pending.size >= BATCH_REGIONS) this.flush(address);
    return this.find(address);
  }

  /** Makes the regions that wait. */
  private flush(address: Address): void {
    const batch = [...this.pending];
    this.pending.clear();
    for (const each of batch) this.asked.delete(each);
    this.compile(address, batch);
  }

  /** Compiled code finds the region of an address by itself from now on. */
  private remember(address: Address, place: Place): void {
    const at = lookupPlace(address, this.codeShift);
    this.host.u64[at >> 3] = address;
    this.host.u32[(at + 8) >> 2] = place.packed;
  }

  /** An access at the instruction was not served by its window. */
  missed(instruction: Address): void {
    for (const unit of this.unitsAt(instruction)) {
      for (const each of unit.groups.get(instruction) ?? [instruction]) this.searching.add(each);
      if (++unit.misses >= FIRST_MISSES << (this.remade.get(unit.entry) ?? 0)) this.remake(unit);
    }
  }

  /** The indirect jump at the instruction went to an address. */
  jumped(instruction: Address, target: Address): void {
    let targets = this.jumps.get(instruction);
    if (!targets) {
      targets = new Set();
      this.jumps.set(instruction, targets);
    }
    if (targets.has(target) || targets.size >= 256) return;
    targets.add(target);
    for (const unit of this.unitsAt(instruction)) {
      if (++unit.jumps >= 2 << (this.remade.get(unit.entry) ?? 0)) this.remake(unit);
    }
  }

  private remake(unit: Unit): void {
    this.remade.set(unit.entry, Math.min(16, (this.remade.get(unit.entry) ?? 0) + 1));
    this.drop(unit);
    this.compile(unit.entry);
  }

  private unitsAt(address: Address): Unit[] {
    const out: Unit[] = [];
    for (const unit of this.byPage.get(Number(address >> CODE_PAGE_BITS)) ?? []) {
      if (covers(unit.region, address)) out.push(unit);
    }
    return out;
  }

  // --------------------------------------------------------------------------------------- profile

  /** Tier 0 has translated a block. */
  translated(block: Block): void {
    const { terminator, address } = block;
    const from = (target: Address): void => {
      const list = this.predecessors.get(target);
      if (!list) this.predecessors.set(target, [address]);
      else if (list.length < 16 && !list.includes(address)) list.push(address);
    };
    if (terminator.kind === 'call') this.called.add(terminator.pc);
    // Behind a call its callee comes back; `pc` of others is where they go.
    if ('ret' in terminator) from(terminator.ret);
    else {
      if ('next' in terminator) from(terminator.next);
      if ('pc' in terminator) from(terminator.pc);
    }
  }

  /** The indirect call of the instruction went to an address. */
  calledFrom(instruction: Address, target: Address): void {
    this.called.add(target);
    const targets = this.jumps.get(instruction);
    if (!targets) this.jumps.set(instruction, new Set([target]));
    else if (targets.size < 256) targets.add(target);
  }

  /** Tier 0 was found before the block at an address. Compiles what is hot. */
  sample(address: Address): void {
    const heat = (this.heat.get(address) ?? 0) + 1;
    this.heat.set(address, heat);
    const entry = this.entryOf(address);
    const unit = this.units.get(entry);
    const total = entry === address ? heat : (this.heat.get(entry) ?? 0) + 1;
    if (entry !== address) this.heat.set(entry, total);
    if (!unit) {
      if (total < 2) return;
      this.pending.add(entry);
      if (total >= 4 || this.pending.size >= BATCH_REGIONS) this.flush(entry);
      return;
    }
    // The region of its function is there, and tier 0 is here nevertheless.
    if (this.places.has(address)) return;
    if (heat >= (covers(unit.region, address) ? 6 : 2)) this.compile(address);
  }

  /** The entry of the function, as far as one can see, to which the block at an address belongs. */
  private entryOf(address: Address): Address {
    const seen = new Set([address]);
    const queue = [address];
    let first: Address | null = null;
    for (let i = 0; i < queue.length && i < 400; i++) {
      const each = queue[i]!;
      if (this.called.has(each)) return each;
      const list = this.predecessors.get(each) ?? [];
      if (list.length === 0) first ??= each;
      for (const from of list) {
        if (seen.has(from)) continue;
        seen.add(from);
        queue.push(from);
      }
    }
    return first ?? address;
  }

  // ------------------------------------------------------------------------------------- compiling

  /**
   * Makes the region of an address, `others` with it, and those of the functions that they call;
   * true when there is one now.
   */
  compile(address: Address, others: readonly Address[] = []): boolean {
    if (this.units.has(address)) return true;
    if (this.refused.has(address)) return false;
    if (this.moduleBytes > this.maxModuleBytes || this.indices.size > TABLE_ENTRIES - 256) this.dropAll();
    const wanted = [
      ...new Set([address, ...others.filter((each) => !this.units.has(each) && !this.refused.has(each))]),
    ];
    const regions: { readonly entry: Address; readonly region: Region }[] = [];
    this.lifted.clear();
    let blocks = 0;
    for (let i = 0; i < wanted.length && regions.length < BATCH_REGIONS && blocks < BATCH_BLOCKS; i++) {
      const entry = wanted[i]!;
      const region = findRegion(entry, { ...this.bound, targets: (site) => [...(this.jumps.get(site) ?? [])] });
      if (!region || !isWorthwhile(region)) {
        this.refused.add(entry);
        continue;
      }
      regions.push({ entry, region });
      blocks += region.blocks.length;
      for (const { block, targets } of region.blocks) {
        const { terminator } = block;
        if (terminator.kind !== 'call' || targets.length > 0 || wanted.includes(terminator.pc)) continue;
        if (this.units.has(terminator.pc) || this.refused.has(terminator.pc)) continue;
        if (this.source.known(terminator.pc)) wanted.push(terminator.pc);
      }
    }
    if (regions.length === 0) return false;
    this.build(regions);
    return this.units.has(address);
  }

  private readonly bound: Omit<BlockSource, 'targets'> = {
    lift: (address, leaders) => {
      if (leaders) return this.source.lift(address, leaders);
      let block = this.lifted.get(address);
      if (block === undefined) {
        block = this.source.lift(address, null);
        this.lifted.set(address, block);
      }
      return block;
    },
    excluded: (address) => this.source.excluded(address),
    known: (address) => this.source.known(address),
    simplify: (block) => {
      let ops = this.simplified.get(block);
      if (!ops) {
        ops = this.source.simplify(block);
        this.simplified.set(block, ops);
      }
      return ops;
    },
  };

  private tableIndex(address: Address): number {
    let index = this.indices.get(address);
    if (index === undefined) {
      // Entry 0 stays empty: it is what an empty entry of the lookup table names.
      index = this.indices.size + 1;
      if (index >= TABLE_ENTRIES) index = 0;
      else this.indices.set(address, index);
    }
    return index;
  }

  private build(regions: readonly { readonly entry: Address; readonly region: Region }[]): void {
    const { host, lifter } = this;
    const used = new Set<FunctionName>();
    const gotoIndex = regions.length;
    const resolveIndex = regions.length + 1;
    const firstHelper = regions.length + 2;
    const compiled: WasmFunction[] = [];
    const groups: Map<Address, readonly Address[]>[] = [];
    for (const { region } of regions) {
      const own = new Map<Address, readonly Address[]>();
      groups.push(own);
      const sites = this.sitesOf(region);
      const context: CompileContext = {
        slots: lifter.slots,
        addressBits: lifter.addressBits,
        state: STATE,
        site: sites,
        tableIndex: (address) => this.tableIndex(address),
        functionIndex: (name) => {
          if (name === 'goto') return gotoIndex;
          if (name === 'resolve') return resolveIndex;
          used.add(name);
          return firstHelper + [...used].indexOf(name);
        },
        group: (first, members) => {
          own.set(first, members);
        },
      };
      compiled.push(new RegionCompiler(region, context).compile(`r${compiled.length}`));
    }
    const functions = someFunctions(used, firstHelper);
    const bytes = writeModule([...compiled, ...this.common, ...functions], 0);
    const exports = instantiate(compileModule(bytes), host, this.table);
    this.moduleBytes += bytes.length;
    this.moduleCount++;
    regions.forEach(({ entry, region }, number) => {
      const index = this.tableIndex(entry);
      if (index === 0) return;
      this.table.set(index, exports[`r${number}`]);
      this.add(entry, region, index, groups[number]!);
    });
  }

  private add(entry: Address, region: Region, index: number, groups: ReadonlyMap<Address, readonly Address[]>): void {
    const pages = new Set<number>();
    for (const { block } of region.blocks) {
      const last = block.end > block.address ? block.end - 1n : block.address;
      for (let page = block.address >> CODE_PAGE_BITS; page <= last >> CODE_PAGE_BITS; page++) pages.add(Number(page));
    }
    const made = this.source.instructions();
    const unit: Unit = { entry, region, index, pages, groups, made, misses: 0, jumps: 0, dropped: false };
    this.units.set(entry, unit);
    this.worthAnew.delete(entry);
    this.compiledCount++;
    for (const page of pages) {
      let set = this.byPage.get(page);
      if (!set) {
        set = new Set();
        this.byPage.set(page, set);
        this.memory.mark(page, 'code', 1);
      }
      set.add(unit);
    }
    for (const number of region.entries) {
      const { address } = region.blocks[number]!.block;
      if (number !== 0 && this.places.has(address)) continue;
      const place: Place = { unit, packed: index | ((number === 0 ? 0 : number + 1) << 16) };
      this.places.set(address, place);
      this.remember(address, place);
      this.source.entered(address);
    }
  }

  // --------------------------------------------------------------------------------------- windows

  /** Predicts the windows of the accesses of a region. */
  private sitesOf(region: Region): CompileContext['site'] {
    const { host } = this;
    const common = new Map<Address, number>();
    for (const { block } of region.blocks) {
      const ordinals = new Map<Address, number>();
      for (const { instruction, descriptor } of this.source.predictions(block.address)) {
        const ordinal = ordinals.get(instruction) ?? 0;
        ordinals.set(instruction, ordinal + 1);
        if (descriptor === WINDOW.start) continue;
        const base = host.u64[(descriptor + WINDOW.base) >> 3]!;
        const list = this.hints.get(instruction) ?? [];
        list[ordinal] = base;
        this.hints.set(instruction, list);
        common.set(base, (common.get(base) ?? 0) + 1);
      }
    }
    const most = [...common].sort((a, b) => b[1] - a[1])[0]?.[0];
    const usual = most === undefined ? undefined : this.descriptorOf(most);
    const cache = new Map<Op, Site>();
    return (instruction, ordinal, op) => {
      const known = cache.get(op);
      if (known) return known;
      const site = ((): Site => {
        if (this.searching.has(instruction)) return { kind: 'search' };
        const hint = this.hints.get(instruction)?.[ordinal];
        const seen = hint === undefined ? undefined : this.descriptorOf(hint);
        const constant =
          typeof op.a === 'bigint' && typeof op.b === 'bigint'
            ? BigInt.asUintN(this.lifter.addressBits, op.a + op.b)
            : null;
        const descriptor = constant !== null ? this.descriptorOf(constant) : (seen ?? this.guess(op) ?? usual);
        if (descriptor === undefined) return { kind: 'search' };
        const row = OPS[op.op];
        const limits = row.form === 'store' ? WINDOW.writeLimits : WINDOW.readLimits;
        if (host.u64[(descriptor + limits) >> 3] === 0n) return { kind: 'search' };
        const base = host.u64[(descriptor + WINDOW.base) >> 3]!;
        const first = host.u32[(descriptor + WINDOW.host) >> 2]!;
        const cells = this.cellsOf(base, first);
        return cells === 0 ? { kind: 'search' } : { kind: 'window', base, host: first, cells };
      })();
      cache.set(op, site);
      return site;
    };
  }

  /** The window to which the registers point as they are now. */
  private guess(op: Op): number | undefined {
    let address = 0n;
    for (const each of [op.a, op.b]) {
      if (typeof each === 'bigint') address += each;
      else if (each >= this.lifter.slots.firstTemporary) return undefined;
      else address += this.host.u64[(STATE + this.lifter.slots.offset(each)) >> 3]!;
    }
    return this.descriptorOf(BigInt.asUintN(this.lifter.addressBits, address));
  }

  private descriptorOf(address: Address): number | undefined {
    const { host } = this;
    const end = host.u32[CONTROL.windowsEnd >> 2]!;
    for (let at = WINDOW.start + WINDOW.bytes; at < end; at += WINDOW.bytes) {
      const offset = address - host.u64[(at + WINDOW.base) >> 3]!;
      if (offset >= 0n && offset < host.u64[(at + WINDOW.size) >> 3]!) return at;
    }
    return undefined;
  }

  /** Host address of the cells of a window; 0 when there are too many windows. */
  private cellsOf(base: Address, first: number): number {
    const key = `${base}:${first}`;
    const known = this.cells.get(key);
    if (known) return known.at;
    if (this.cells.size >= CELL.count) return 0;
    const cells = { base, host: first, at: CELL.start + CELL.bytes * this.cells.size };
    this.cells.set(key, cells);
    this.fill(cells);
    return cells.at;
  }

  private publish(): void {
    for (const each of this.cells.values()) this.fill(each);
  }

  /** Writes how far a window reaches now. */
  private fill({
    base,
    host: first,
    at,
  }: {
    readonly base: Address;
    readonly host: number;
    readonly at: number;
  }): void {
    const { host } = this;
    const descriptor = this.descriptorOf(base);
    let readable = 0n;
    let writable = 0n;
    if (descriptor !== undefined) {
      const skip = base - host.u64[(descriptor + WINDOW.base) >> 3]!;
      const size = host.u64[(descriptor + WINDOW.size) >> 3]! - skip;
      if (host.u32[(descriptor + WINDOW.host) >> 2]! + Number(skip) === first) {
        if (host.u64[(descriptor + WINDOW.readLimits) >> 3] !== 0n) {
          readable = size;
          if (host.u64[(descriptor + WINDOW.writeLimits) >> 3] !== 0n) writable = size;
        }
      }
    }
    CELL.spans.forEach((span, index) => {
      const bound = (size: bigint): bigint => (size >= BigInt(span) ? size - BigInt(span) + 1n : 0n);
      host.u64[(at + CELL.read + 8 * index) >> 3] = bound(readable);
      host.u64[(at + CELL.write + 8 * index) >> 3] = bound(writable);
    });
  }

  // -------------------------------------------------------------------------------------- dropping

  /** True when a region depends on a byte of the range. */
  holds(address: Address, size: number): boolean {
    return this.unitsIn(address, size).length > 0;
  }

  /** Regions that depend on a byte of the range: what made a block end may lie behind it. */
  private unitsIn(address: Address, size: number): Unit[] {
    if (this.byPage.size === 0) return [];
    const end = address + BigInt(size);
    const reach = BigInt(MAX_INSTRUCTION_BYTES);
    const first = Number((address - reach) >> CODE_PAGE_BITS);
    const last = Number((end - 1n) >> CODE_PAGE_BITS);
    const out = new Set<Unit>();
    const see = (page: number): void => {
      for (const unit of this.byPage.get(page) ?? []) {
        if (unit.region.blocks.some(({ block }) => block.address < end && block.end + reach > address)) out.add(unit);
      }
    };
    if (last - first < this.byPage.size) for (let page = first; page <= last; page++) see(page);
    else for (const page of this.byPage.keys()) if (page >= first && page <= last) see(page);
    return [...out];
  }

  private drop(unit: Unit): void {
    if (unit.dropped) return;
    unit.dropped = true;
    this.droppedCount++;
    this.units.delete(unit.entry);
    if (this.source.instructions() - unit.made >= WORTH_ANEW) this.worthAnew.add(unit.entry);
    this.table.set(unit.index, this.empty);
    for (const number of unit.region.entries) {
      const { address } = unit.region.blocks[number]!.block;
      if (this.places.get(address)?.unit !== unit) continue;
      this.places.delete(address);
      const at = lookupPlace(address, this.codeShift);
      if (this.host.u64[at >> 3] === address) this.host.u32[(at + 8) >> 2] = 0;
    }
    for (const page of unit.pages) {
      const set = this.byPage.get(page);
      if (set?.delete(unit) && set.size === 0) {
        this.byPage.delete(page);
        this.memory.mark(page, 'code', -1);
      }
    }
  }

  /**
   * Bytes of the range changed, or how it is mapped. Regions of the same page that do not hold any
   * of them stay.
   */
  dropRange(address: Address, size: number): void {
    this.refused.clear();
    for (const unit of this.unitsIn(address, size)) this.drop(unit);
  }

  /** A hook was set at an address, or taken away. */
  dropCovering(address: Address): void {
    this.refused.clear();
    for (const unit of this.unitsAt(address)) this.drop(unit);
  }

  dropAll(): void {
    for (const unit of [...this.units.values()]) this.drop(unit);
    for (const index of this.indices.values()) this.table.set(index, this.empty);
    this.indices = new Map();
    this.host.u8.fill(0, LOOKUP_TABLE.start, LOOKUP_TABLE.start + (16 << LOOKUP_TABLE.bits));
    this.moduleBytes = 0;
    this.moduleCount = 0;
    this.refused.clear();
    this.pending.clear();
    this.asked.clear();
    this.worthAnew.clear();
    this.heat.clear();
  }
}

/** True when an instruction of the region holds the address. */
function covers(region: Region, address: Address): boolean {
  return region.blocks.some(({ block }) => address >= block.address && address < block.end);
}

/** A region whose first block only stops would be entered for nothing. */
function isWorthwhile(region: Region): boolean {
  const { block } = region.blocks[0]!;
  const { kind } = block.terminator;
  const stops = kind === 'helper' || kind === 'trap' || kind === 'sync' || kind === 'unknown' || kind === 'fetch';
  return block.instructions.length > (stops ? 1 : 0);
}
