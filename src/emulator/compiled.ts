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
import { compileModule, CONTROL, FRAMES, instantiate, makeTable, REGION_TABLE, STATE } from './host.js';
import type { HostMemory, WasmTable } from './host.js';
import { RegionCompiler } from './compile.js';
import { FunctionEntries } from './function-entries.js';
import { someFunctions } from './functions.js';
import { resolveFunction } from './interpreter.js';
import { LookupTable } from './lookup-table.js';
import type { Block, FunctionName, Lifter, Op, Terminator } from '../machine/ir.js';
import { CODE_PAGE_BITS, MAX_INSTRUCTION_BYTES } from './memory.js';
import type { GuestMemory } from './memory.js';
import type { CompileContext, StackPointer } from './region-code.js';
import { emptyFunction, enterFunction, gotoFunction, probeFunction, STOP_NAMES } from './region-frames.js';
import type { StopName } from './region-frames.js';
import { RegionWindows } from './region-windows.js';
import type { PredictedAccess } from './region-windows.js';
import { findRegion } from './regions.js';
import type { BlockSource, Region } from './regions.js';
import { Balance, Gains, MOST_LOST, MOST_LOST_BY_ALL } from './short-stays.js';
import { writeModule } from './wasm.js';
import type { WasmFunction } from './wasm.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

/** Instructions between two looks at where tier 0 is, about: hot code is found so. */
export const SAMPLE = 10_000;

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
/**
 * What making a region costs, for each instruction that it holds: as many instructions of tier 0
 * take as long (measured on programs of a distribution: 50 to 100 us, V8's part included). Nothing
 * is made before the work that it would have saved has cost as much, so a program that goes through
 * much code a few times costs at most twice what tier 0 takes.
 */
export const COST = 18_000;
/** The same for leaving compiled code and coming back, which takes some microseconds. */
const EXIT_COST = 700;
/** The same work has to be worth so many times as much when the region is made again. */
const AGAIN = 4;
/** Exits of one kind (misses, jumps that lead elsewhere) after which a region may be made anew. */
const LEAST_EXITS = 16;
/** Times that compiled code must ask for a region at least until it is made. */
const LEAST_ASKED = 100;
/**
 * The same for regions that were dropped after they had been there for as many instructions as
 * compiled code executes while one is made, or more: functions that are patched now and then,
 * not code that is written all the time.
 */
const FEW_ASKED = 16;
const WORTH_ANEW = 1_000_000;
/** Samples that a function needs at least. */
const LEAST_HEAT = 3;
/** The most instructions that are counted of a function that is not compiled yet. */
const MAX_COUNTED = 1000;
/** Instructions of a function that is made with those that call it. */
const SMALL = 50;

/** Exits that cost as much as making a region of so many instructions. */
const exitsFor = (instructions: number): number => Math.ceil((instructions * COST) / EXIT_COST);

/** Functions that every module has behind its regions, in this order. */
const COMMON = ['goto', 'jump', 'resolve'] as const;

/** A region whose code is written. */
interface Made {
  readonly entry: Address;
  readonly region: Region;
  /** Instructions that are to blame when a shared check fails, by the instruction that makes it. */
  readonly groups: ReadonlyMap<Address, readonly Address[]>;
  /** Host address of its word in `FRAMES`, and what stands there while the region is there. */
  readonly frame: number;
  readonly frameBytes: number;
}

/** A region with its place. */
interface Unit extends Omit<Made, 'frameBytes'> {
  readonly index: number;
  readonly pages: ReadonlySet<number>;
  /** Instructions that the machine had executed when it was made. */
  readonly made: number;
  /** Instructions of its blocks, those of copies too. */
  readonly size: number;
  misses: number;
  jumps: number;
  /** Exits of one kind at which it is looked at whether it is made anew. */
  exitsDue: number;
  /** Jumps went where the region does not know of. */
  hasNewTargets: boolean;
  readonly balance: Balance;
  dropped: boolean;
}

/** Where a region can be begun. */
interface Place {
  readonly unit: Unit;
  /** Table index, and the selector above. */
  readonly packed: number;
}

/** What the compiled tier asks of the machine. */
export interface CodeSource extends Omit<BlockSource, 'placed'> {
  /**
   * The window descriptors that the accesses of the block at an address, as tier 0 knows it, hit
   * last, and how often they went to another one than before.
   */
  predictions(address: Address): readonly PredictedAccess[];
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
  /** Guest instructions that were compiled, copies and repetitions counted. */
  readonly instructions: number;
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

/** By where the state has the stack pointer. */
const frames = new Map<number, FrameModules>();

/** Compiled once for all machines of an architecture. */
function frameModules(pointer: number): FrameModules {
  let modules = frames.get(pointer);
  if (!modules) {
    modules = {
      empty: compileModule(writeModule([emptyFunction(pointer)])),
      enter: compileModule(writeModule([enterFunction(pointer), emptyFunction(pointer), probeFunction(2)], 1)),
    };
    frames.set(pointer, modules);
  }
  return modules;
}

/** A region that is not there. */
interface Asked {
  /** How often compiled code asked for it. */
  count: number;
  /** Count at which it is looked at again. */
  due: number;
}

/** A block that tier 0 has translated. */
export interface ReachedBlock {
  readonly address: Address;
  /** Its instructions, and the address of the last of them. */
  readonly count: number;
  readonly last: Address;
  readonly terminator: Terminator;
}

export class CompiledTier {
  private readonly table: WasmTable;
  private readonly pointer: StackPointer;
  private readonly enterModule: (place: number, stack: number) => number;
  /** Regions that compiled code finds by itself. */
  private readonly known: LookupTable;
  private readonly windows: RegionWindows;
  private readonly probe: RunFunction;
  private readonly empty: unknown;
  /** Functions that every module has. */
  private readonly common: readonly WasmFunction[];
  /** Table entries by the address of the callee. */
  private indices = new Map<Address, number>();
  private readonly units = new Map<Address, Unit>();
  private readonly places = new Map<Address, Place>();
  /** What `placeAt` was asked last, while no place came or went. */
  private lastAsked: Address | null = null;
  private lastPlace: Place | undefined;
  private readonly byPage = new Map<number, Set<Unit>>();
  /** Addresses at which no region begins, until code changes. */
  private readonly refused = new Set<Address>();
  /** Where indirect jumps and calls went. */
  private readonly jumps = new Map<Address, Set<Address>>();
  /** What tier 0 has ever translated: what it never reached is not worth compiling. */
  private readonly reached = new Map<Address, ReachedBlock>();
  private readonly functions = new FunctionEntries();
  private moduleBytes = 0;
  private moduleCount = 0;
  /** Words of `FRAMES` in use. */
  private frameCount = 0;
  private compiledCount = 0;
  private droppedCount = 0;
  private instructionCount = 0;
  /**
   * Blocks of the regions that are being made, and their ops without those that are never seen:
   * copies and neighbours share them.
   */
  private readonly lifted = new Map<Address, Block | null>();
  private readonly simplified = new WeakMap<Block, readonly Op[]>();
  /** Times at which tier 0 was found in a block; of a function's entry, in the function. */
  private readonly heat = new Map<Address, number>();
  /** Heat at which a function is looked at again. */
  private readonly due = new Map<Address, number>();
  /** Regions that compiled code has asked for often enough; they wait for others. */
  private readonly pending = new Set<Address>();
  /** Regions that are not there, and that compiled code asked for. */
  private readonly asked = new Map<Address, Asked>();
  private readonly gains = new Gains();
  /** What short stays have lost in all regions. */
  private readonly balance = new Balance();
  /** How often regions were given up (`MOST_LOST`), by their entries. */
  private readonly givenUp = new Map<Address, number>();
  /** How often regions were made anew. */
  private readonly remade = new Map<Address, number>();
  /** Regions that are made anew as soon as they are asked for a few times. */
  private readonly worthAnew = new Set<Address>();
  /** Regions that hold an instruction, as far as they were looked for since one came or went. */
  private readonly covering = new Map<Address, readonly Unit[]>();

  constructor(
    private readonly host: HostMemory,
    private readonly lifter: Lifter,
    private readonly memory: GuestMemory,
    private readonly source: CodeSource,
    private readonly maxModuleBytes = MAX_MODULE_BYTES,
  ) {
    this.pointer = lifter.stackPointer ?? { slot: 0, popped: 0n };
    const pointer = STATE + lifter.slots.offset(this.pointer.slot);
    this.common = [
      gotoFunction('lookup', pointer),
      gotoFunction('jump', pointer),
      resolveFunction({ triesLast: true }),
    ];
    const modules = frameModules(pointer);
    const { empty } = instantiate(modules.empty, host);
    this.table = makeTable(TABLE_ENTRIES, empty);
    const { enter, probe } = instantiate(modules.enter, host, this.table);
    if (typeof enter !== 'function' || typeof empty !== 'function' || typeof probe !== 'function') {
      throw new ElftraceError('internal', 'the module of the compiled tier is incomplete');
    }
    this.enterModule = (place, stack) => Number(enter(place, stack));
    this.probe = (...values) => probe(...values) as unknown;
    this.empty = empty;
    this.known = new LookupTable(host, REGION_TABLE);
    this.windows = new RegionWindows(host, lifter, (address) => source.predictions(address));
    memory.onPublish = () => {
      this.windows.publish();
    };
  }

  get counts(): CompiledCounts {
    return {
      regions: this.units.size,
      modules: this.moduleCount,
      moduleBytes: this.moduleBytes,
      compiled: this.compiledCount,
      dropped: this.droppedCount,
      instructions: this.instructionCount,
    };
  }

  // --------------------------------------------------------------------------------------- running

  /** Where a region can be begun for the address; 0: nowhere. */
  find(address: Address): number {
    return this.placeAt(address)?.packed ?? 0;
  }

  /**
   * On the way into compiled code and out of it three ask for the same address, and to find it in a
   * large map takes as long as twenty instructions.
   */
  private placeAt(address: Address): Place | undefined {
    if (address !== this.lastAsked) {
      this.lastPlace = this.places.get(address);
      this.lastAsked = address;
    }
    return this.lastPlace;
  }

  private setPlace(address: Address, place: Place): void {
    this.places.set(address, place);
    this.known.set(address, place.packed);
    this.lastAsked = null;
  }

  private deletePlace(address: Address): void {
    this.places.delete(address);
    this.known.remove(address);
    this.lastAsked = null;
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
    this.gains.executed(fuel - host.u32[CONTROL.fuel >> 2]!);
    return stop;
  }

  /**
   * Compiled code asked for a region: as `find`. If there is none it is made when it is asked for
   * often.
   */
  wanted(address: Address): number {
    const place = this.placeAt(address);
    if (place) {
      this.known.set(address, place.packed);
      // What is called directly must begin a region of its own to be found.
      if (place.unit.entry === address || !this.indices.has(address)) return place.packed;
    }
    const there = place?.packed ?? 0;
    let asked = this.asked.get(address);
    if (!asked) this.asked.set(address, (asked = { count: 0, due: LEAST_ASKED }));
    const count = ++asked.count;
    if (count < FEW_ASKED) return there;
    const anew = this.worthAnew.has(address);
    if (!anew) {
      if (count < asked.due) return there;
      const enough = exitsFor(this.sizeOf(address)) * this.dearness(address);
      // Those that are about as hot share a module: each costs V8 some 100 KB.
      const isAlone = count >= 2 * enough;
      asked.due = Math.max(2 * count, enough);
      if (count >= enough) this.pending.add(address);
      if (!isAlone && this.pending.size < BATCH_REGIONS) return there;
    }
    this.pending.add(address);
    this.flush(address);
    return this.find(address);
  }

  /** Makes the regions that wait. */
  private flush(address: Address): void {
    const batch = [...this.pending];
    this.pending.clear();
    for (const each of batch) this.asked.delete(each);
    this.compile(address, batch);
  }

  /** An access at the instruction was not served by its window. */
  missed(instruction: Address): void {
    for (const unit of this.unitsAt(instruction)) {
      for (const each of unit.groups.get(instruction) ?? [instruction]) this.windows.mayGoAnywhere(each);
      if (this.isDue(unit, ++unit.misses)) this.remake(unit);
    }
  }

  /** The indirect jump at the instruction left compiled code for an address. */
  jumped(instruction: Address, target: Address): void {
    const isNew = this.noteTarget(instruction, target);
    for (const unit of this.unitsAt(instruction)) {
      unit.jumps++;
      unit.hasNewTargets ||= isNew;
      if (unit.hasNewTargets && this.isDue(unit, unit.jumps)) this.remake(unit);
    }
  }

  /** Where an indirect jump or call goes; false when that was known, or is too much. */
  private noteTarget(instruction: Address, target: Address): boolean {
    const targets = this.jumps.get(instruction);
    if (!targets) {
      this.jumps.set(instruction, new Set([target]));
      return true;
    }
    if (targets.has(target) || targets.size >= 256) return false;
    targets.add(target);
    return true;
  }

  /**
   * Whether a region had so many exits of one kind that it is made anew: by then it may be larger,
   * for more of its function is known.
   */
  private isDue(unit: Unit, exits: number): boolean {
    if (exits < unit.exitsDue) return false;
    const enough = Math.max(LEAST_EXITS, exitsFor(unit.size), exitsFor(this.sizeOf(unit.entry)));
    // What was made anew before may be again soon, of a large switch with each way that it takes.
    unit.exitsDue = enough * 2 ** (this.remade.get(unit.entry) ?? 0);
    return exits >= unit.exitsDue;
  }

  /** Each time more is known of it, so this comes to an end. */
  private remake(unit: Unit): void {
    this.remade.set(unit.entry, (this.remade.get(unit.entry) ?? 0) + 1);
    this.drop(unit);
    this.compile(unit.entry);
  }

  /** How many times as much work as usual the region of an entry must save. */
  private dearness(entry: Address): number {
    return AGAIN ** (this.givenUp.get(entry) ?? 0) * this.gains.caution;
  }

  /**
   * A stay that began at the address came to code that is not compiled, after so many instructions.
   */
  ended(address: Address, instructions: number): void {
    const unit = this.placeAt(address)?.unit;
    if (!unit) return;
    const made = this.compiledCount;
    const all = this.balance.add(instructions, made) >= MOST_LOST_BY_ALL;
    const own = unit.balance.add(instructions, made) >= MOST_LOST;
    if (all) {
      this.balance.clear();
      for (const each of [...this.units.values()]) if (each.balance.isLoss(made)) this.giveUp(each);
    } else if (own) this.giveUp(unit);
  }

  /** Leaves the code of a region to tier 0, until it has executed much more of it. */
  private giveUp(unit: Unit): void {
    const { entry } = unit;
    this.givenUp.set(entry, (this.givenUp.get(entry) ?? 0) + 1);
    this.drop(unit);
    this.worthAnew.delete(entry);
    for (const known of [this.heat, this.due, this.asked]) known.delete(entry);
  }

  private unitsAt(address: Address): readonly Unit[] {
    const known = this.covering.get(address);
    if (known) return known;
    const found = [...(this.byPage.get(Number(address >> CODE_PAGE_BITS)) ?? [])];
    const units = found.filter(({ region }) => covers(region, address));
    this.covering.set(address, units);
    return units;
  }

  // --------------------------------------------------------------------------------------- profile

  /** Tier 0 has translated a block. */
  translated(block: ReachedBlock): void {
    // The program begins somewhere, and nothing calls that place.
    if (this.functions.isEmpty) this.functions.add(block.address);
    if (block.terminator.kind === 'call') this.functions.add(block.terminator.pc);
    this.reached.set(block.address, block);
  }

  /** Where a block leads, as far as it is known. */
  private waysOf({ terminator, last }: ReachedBlock): readonly Address[] {
    const indirect = terminator.kind === 'ind' || terminator.kind === 'calli' ? this.jumps.get(last) : undefined;
    const direct = waysOf(terminator);
    return indirect ? [...direct, ...indirect] : direct;
  }

  /** Instructions of the function at an address, as far as tier 0 has reached it. */
  private sizeOf(entry: Address): number {
    const queue = [entry];
    const seen = new Set(queue);
    let size = 0;
    for (const address of queue) {
      const block = this.reached.get(address);
      if (!block) continue;
      size += block.count;
      if (size > MAX_COUNTED) break;
      for (const each of this.waysOf(block)) {
        if (seen.has(each) || this.places.has(each)) continue;
        seen.add(each);
        queue.push(each);
      }
    }
    return size;
  }

  /** The indirect call of the instruction went to an address. */
  calledFrom(instruction: Address, target: Address): void {
    this.functions.add(target);
    this.noteTarget(instruction, target);
  }

  /** Tier 0 was found before the block at an address. Compiles what is hot. */
  sample(address: Address): void {
    const heat = (this.heat.get(address) ?? 0) + 1;
    this.heat.set(address, heat);
    const entry = this.functions.of(address);
    const unit = this.units.get(entry);
    const total = entry === address ? heat : (this.heat.get(entry) ?? 0) + 1;
    if (entry !== address) this.heat.set(entry, total);
    if (!unit) {
      if (total < (this.due.get(entry) ?? LEAST_HEAT)) return;
      const enough = Math.ceil((this.sizeOf(entry) * COST * this.dearness(entry)) / SAMPLE);
      if (total < enough) {
        // By then more of it may have been reached.
        this.due.set(entry, Math.max(total + 1, enough));
        return;
      }
      this.pending.add(entry);
      if (total >= 2 * enough || this.pending.size >= BATCH_REGIONS) this.flush(entry);
      // It waits for others: counting what is reached of it costs more than a sample.
      else this.due.set(entry, 2 * enough);
      return;
    }
    // The region of its function is there, and tier 0 is here nevertheless.
    if (this.places.has(address)) return;
    if (heat < (this.due.get(address) ?? 0)) return;
    const isHeld = covers(unit.region, address);
    // Where another function was taken for its own (nothing calls it directly), it is made as well.
    const size = isHeld ? this.sizeOf(address) : Math.max(this.sizeOf(entry), this.sizeOf(address));
    const enough = Math.ceil((size * COST * this.gains.caution) / SAMPLE);
    if (heat < enough) {
      // By then regions may be there that it leads to, and less of it has to be made.
      this.due.set(address, Math.min(2 * heat, enough));
      return;
    }
    this.heat.delete(address);
    this.due.delete(address);
    if (!isHeld) this.remake(unit);
    if (!this.places.has(address)) this.compile(address);
  }

  // ------------------------------------------------------------------------------------- compiling

  /**
   * Makes the region of an address, `others` with it, and those of the functions that they call;
   * true when there is one now.
   */
  compile(address: Address, others: readonly Address[] = []): boolean {
    if (this.units.has(address)) return true;
    if (this.refused.has(address)) return false;
    if (this.isFull) this.dropAll();
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
        if (this.isWanted(terminator.pc)) wanted.push(terminator.pc);
      }
    }
    if (regions.length === 0) return false;
    this.build(regions);
    return this.units.has(address);
  }

  /** Whether a function is made with a region that calls it: it is half paid for, or small. */
  private isWanted(callee: Address): boolean {
    if (!this.source.known(callee)) return false;
    const size = this.sizeOf(callee);
    return size <= SMALL || 2 * (this.heat.get(callee) ?? 0) * SAMPLE >= size * COST;
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
    known: (address) => this.reached.has(address) || this.source.known(address),
    placed: (address) => this.places.has(address),
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

  /** Everything must go before more can be made. */
  private get isFull(): boolean {
    const { moduleBytes, maxModuleBytes, indices, frameCount } = this;
    return (
      moduleBytes > maxModuleBytes || indices.size > TABLE_ENTRIES - 256 || frameCount > FRAMES.count - BATCH_REGIONS
    );
  }

  private build(regions: readonly { readonly entry: Address; readonly region: Region }[]): void {
    const { host, lifter } = this;
    const used = new Set<FunctionName>();
    const firstHelper = regions.length + COMMON.length;
    const members = new Map(regions.map(({ entry }, number) => [entry, number]));
    const compiled: WasmFunction[] = [];
    const made: Made[] = [];
    for (const { entry, region } of regions) {
      const own = new Map<Address, readonly Address[]>();
      const sites = this.windows.sitesOf(region);
      const context: CompileContext = {
        slots: lifter.slots,
        pointer: this.pointer,
        frame: this.newFrame(),
        addressBits: lifter.addressBits,
        state: STATE,
        site: sites,
        memberIndex: (address) => members.get(address) ?? null,
        tableIndex: (address) => this.tableIndex(address),
        functionIndex: (name) => {
          if (name === 'goto' || name === 'jump' || name === 'resolve') return regions.length + COMMON.indexOf(name);
          used.add(name);
          return firstHelper + [...used].indexOf(name);
        },
        group: (first, members) => {
          own.set(first, members);
        },
      };
      const compiler = new RegionCompiler(region, context);
      compiled.push(compiler.compile(`r${compiled.length}`));
      made.push({ entry, region, groups: own, frame: context.frame, frameBytes: compiler.frameBytes });
    }
    const functions = someFunctions(used, firstHelper);
    const bytes = writeModule([...compiled, ...this.common, ...functions], 0);
    const exports = instantiate(compileModule(bytes), host, this.table);
    this.moduleBytes += bytes.length;
    this.moduleCount++;
    made.forEach((each, number) => {
      const index = this.tableIndex(each.entry);
      if (index === 0) return;
      this.table.set(index, exports[`r${number}`]);
      this.add(each, index);
    });
  }

  /** The word of a region that is not there yet. */
  private newFrame(): number {
    const frame = FRAMES.start + FRAMES.bytes * this.frameCount++;
    this.host.u32[frame >> 2] = FRAMES.dropped;
    return frame;
  }

  private add({ entry, region, groups, frame, frameBytes }: Made, index: number): void {
    this.host.u32[frame >> 2] = frameBytes;
    const pages = new Set<number>();
    for (const { block } of region.blocks) {
      const last = block.end > block.address ? block.end - 1n : block.address;
      for (let page = block.address >> CODE_PAGE_BITS; page <= last >> CODE_PAGE_BITS; page++) pages.add(Number(page));
    }
    const made = this.source.instructions();
    const size = region.blocks.reduce((sum, { block }) => sum + block.instructions.length, 0);
    const unit: Unit = {
      ...{ entry, region, index, frame, pages, groups, made, size },
      ...{ misses: 0, jumps: 0, exitsDue: LEAST_EXITS, hasNewTargets: false, dropped: false },
      balance: new Balance(),
    };
    this.covering.clear();
    this.units.set(entry, unit);
    this.worthAnew.delete(entry);
    this.compiledCount++;
    this.instructionCount += size;
    this.gains.made(size * COST);
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
      this.setPlace(address, place);
      this.source.entered(address);
    }
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
    this.covering.clear();
    this.units.delete(unit.entry);
    if (this.source.instructions() - unit.made >= WORTH_ANEW) this.worthAnew.add(unit.entry);
    this.table.set(unit.index, this.empty);
    this.host.u32[unit.frame >> 2] = FRAMES.dropped;
    for (const number of unit.region.entries) {
      const { address } = unit.region.blocks[number]!.block;
      if (this.places.get(address)?.unit !== unit) continue;
      this.deletePlace(address);
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
    this.frameCount = 0;
    this.known.clear();
    this.moduleBytes = 0;
    this.moduleCount = 0;
    this.refused.clear();
    this.pending.clear();
    this.asked.clear();
    this.worthAnew.clear();
    this.remade.clear();
    this.givenUp.clear();
    this.heat.clear();
    this.due.clear();
  }
}

/** Where a block leads directly, behind a call where that returns to. */
function waysOf(terminator: Terminator): readonly Address[] {
  // Behind a call its callee comes back; `pc` of others is where they go.
  if ('ret' in terminator) return [terminator.ret];
  if (!('next' in terminator)) return 'pc' in terminator ? [terminator.pc] : [];
  return 'pc' in terminator ? [terminator.next, terminator.pc] : [terminator.next];
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
