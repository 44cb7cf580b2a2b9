/**
 * The compiled tier: when regions are made and when they are dropped. `regions.ts` finds them,
 * `region-modules.ts` makes modules of them, `region-units.ts` holds those that are there;
 * `tiers.ts` enters them and acts on their stops.
 *
 * Modules hold several regions: one that is asked for and the functions that it calls. All frames
 * of compiled code have returned when TypeScript runs, so dropping needs no care for callers.
 *
 * When the bound on modules or on the table is reached everything is dropped: what is hot comes
 * back within milliseconds.
 */
import { CONTROL } from './host.js';
import type { HostMemory } from './host.js';
import type { Block, Lifter, Op } from '../machine/ir.js';
import type { Interpreter } from './interpreter.js';
import type { KeptRegions } from './kept-regions.js';
import type { GuestMemory } from './memory.js';
import { ReachedCode } from './reached-code.js';
import type { ReachedBlock } from './reached-code.js';
import type { StopName } from './region-frames.js';
import { RegionKeeper } from './region-keeper.js';
import type { KeeperParts } from './region-keeper.js';
import { RegionModules } from './region-modules.js';
import type { FoundRegion, PlacedRegion } from './region-modules.js';
import { covers, pagesOf, RegionUnits } from './region-units.js';
import type { Unit } from './region-units.js';
import { RegionWindows } from './region-windows.js';
import type { PredictedAccess } from './region-windows.js';
import { findRegion, MOST_WHOLE, PIECE } from './regions.js';
import type { BlockSource, Region } from './regions.js';
import { Spread } from './spread.js';
import { Gains } from './gains.js';
import type { Address } from '../units.js';

/** Instructions between two looks at where tier 0 is, about: hot code is found so. */
export const SAMPLE = 10_000;

/** What all modules of a machine may take. */
const MAX_MODULE_BYTES = 0x100_0000;
/** Regions and blocks of one module, at most (but for the last region). */
const BATCH_REGIONS = 16;
const BATCH_BLOCKS = 400;
/** Blocks of spread code, which leads from any part to any other: it is made at once. */
const SPREAD_BLOCKS = 4000;
/**
 * What making a region costs, for each instruction that it holds: as many instructions of tier 0
 * take as long (measured on programs of a distribution: 50 to 100 us, V8's part included). Nothing
 * is made before the work that it would have saved has cost as much, so a program that goes through
 * much code a few times costs at most twice what tier 0 takes.
 */
export const COST = 18_000;
/** How many times less it costs to take a region that was kept: V8's part is left. */
const TAKING = 8;
/**
 * The same for leaving compiled code for what is not compiled, and for an access that its window
 * does not serve, which TypeScript sees more often.
 */
const EXIT_COST = 200;
const MISS_COST = 700;
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
/**
 * How many times less making costs in spread code, in functions of so many instructions, for what
 * tier 0 executes in the same time.
 */
const WIDE = 2;
const MOST_SPREAD = 2500;
/**
 * What is paid for waits for others until it has cost so many times its price. All of spread code
 * is paid for at about the same time.
 */
const WAITS = 2;
const WAITS_IN_SPREAD = 1.25;
/** Samples that a function needs at least. */
const LEAST_HEAT = 3;
/** Instructions of a function that is made with those that call it. */
const SMALL = 50;

/** Exits that cost as much as making a region of so many instructions. */
const exitsFor = (instructions: number, cost: number): number => Math.ceil((instructions * COST) / cost);

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
  /** Whether regions may be taken that were made without hooks. */
  mayTake(): boolean;
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

/** A region that is not there. */
interface Asked {
  /** How often compiled code asked for it. */
  count: number;
  /** Count at which it is looked at again. */
  due: number;
}

export class CompiledTier {
  private readonly windows: RegionWindows;
  private readonly modules: RegionModules;
  private readonly units: RegionUnits;
  private readonly keeper: RegionKeeper | null;
  private readonly reached = new ReachedCode((address) => this.units.isPlace(address));
  /** Addresses at which no region begins, until code changes. */
  private readonly refused = new Set<Address>();
  private compiledCount = 0;
  private droppedCount = 0;
  private instructionCount = 0;
  /**
   * Blocks of the regions that are being made, and their ops without those that are never seen:
   * copies and neighbours share them.
   */
  private readonly lifted = new Map<Address, Block | null>();
  private readonly simplified = new WeakMap<Block, readonly Op[]>();
  /**
   * Times at which tier 0 was found in a block, weighed by how slow its instructions are; of a
   * function's entry, in the function.
   */
  private readonly heat = new Map<Address, number>();
  private readonly spread = new Spread();
  /** Heat at which a function is looked at again. */
  private readonly due = new Map<Address, number>();
  /** Regions that compiled code has asked for often enough; they wait for others. */
  private readonly pending = new Set<Address>();
  /** Regions that are not there, and that compiled code asked for. */
  private readonly asked = new Map<Address, Asked>();
  private readonly gains = new Gains();
  /** How often regions were made anew. */
  private readonly remade = new Map<Address, number>();
  /** Regions that are made anew as soon as they are asked for a few times. */
  private readonly worthAnew = new Set<Address>();

  constructor(
    private readonly host: HostMemory,
    lifter: Lifter,
    memory: GuestMemory,
    private readonly source: CodeSource,
    interpreter: Interpreter,
    kept?: KeptRegions,
    maxModuleBytes = MAX_MODULE_BYTES,
  ) {
    this.windows = new RegionWindows(host, lifter, (address) => source.predictions(address));
    this.modules = new RegionModules(host, lifter, this.windows, interpreter, maxModuleBytes);
    this.units = new RegionUnits(host, memory);
    memory.onPublish = () => {
      this.windows.publish();
    };
    const { modules, windows, reached } = this;
    const excluded = (address: Address): boolean => source.excluded(address);
    const isPlaced: KeeperParts['isPlaced'] = ({ entry, frame }) => this.units.get(entry)?.frame === frame;
    this.keeper = kept ? new RegionKeeper(kept, { memory, modules, windows, reached, isPlaced, excluded }) : null;
  }

  get counts(): CompiledCounts {
    return {
      regions: this.units.size,
      modules: this.modules.count,
      moduleBytes: this.modules.bytes,
      compiled: this.compiledCount,
      dropped: this.droppedCount,
      instructions: this.instructionCount,
    };
  }

  // --------------------------------------------------------------------------------------- running

  /** Where a region can be begun for the address; 0: nowhere. */
  find(address: Address): number {
    return this.units.placeAt(address)?.packed ?? 0;
  }

  /** True when there is stack enough for compiled code. */
  hasStack(): boolean {
    return this.modules.hasStack();
  }

  /**
   * Executes from an address whose place `find` returned; `CONTROL.place` says where it stopped,
   * `CONTROL.fuel` what is left.
   */
  enter(packed: number, address: Address, fuel: number): StopName {
    const stop = this.modules.enter(packed, address, fuel);
    this.executed(fuel - this.host.u32[CONTROL.fuel >> 2]!);
    return stop;
  }

  /** Executes tier 0 from a block header, and compiled code in turn: see `alternation.ts`. */
  alternate(header: number): number {
    return this.modules.alternate(header);
  }

  /** Compiled code has executed so many instructions. */
  executed(instructions: number): void {
    this.gains.executed(instructions);
  }

  /**
   * Compiled code asked for a region: as `find`. If there is none it is made when it is asked for
   * often.
   */
  wanted(address: Address, times: number): number {
    const place = this.units.placeAt(address);
    if (place) {
      this.units.publish(address, place);
      // What is called by its number must begin a region of its own to be found.
      if (place.unit.entry === address || !this.modules.isCalled(address)) return place.packed;
    }
    if (this.take(address)) return this.find(address);
    this.warm(this.reached.entryOf(address), (times * EXIT_COST) / SAMPLE);
    const there = this.find(address);
    let asked = this.asked.get(address);
    if (!asked) this.asked.set(address, (asked = { count: 0, due: LEAST_ASKED }));
    const count = (asked.count += times);
    if (count < FEW_ASKED) return there;
    const anew = this.worthAnew.has(address);
    if (!anew) {
      if (count < asked.due) return there;
      const enough = exitsFor(this.reached.sizeOf(address), EXIT_COST) * this.gains.caution;
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
    if (this.spread.isWide) {
      // Without one of them compiled code of the others would be left again and again.
      for (const each of this.spread.functions) if (this.isWanted(each)) this.pending.add(each);
    }
    const batch = [...this.pending];
    this.pending.clear();
    for (const each of batch) this.asked.delete(each);
    this.compile(address, batch);
  }

  /** Accesses at the instruction were not served by their window, so many times. */
  missed(instruction: Address, times: number): void {
    for (const unit of this.units.at(instruction)) {
      for (const each of unit.groups.get(instruction) ?? [instruction]) this.windows.mayGoAnywhere(each);
      if (this.isDue(unit, (unit.misses += times), MISS_COST)) this.remake(unit);
    }
  }

  /** The indirect jump at the instruction left compiled code for an address, so many times. */
  jumped(instruction: Address, target: Address, times = 1): void {
    const isNew = this.reached.addJump(instruction, target);
    if (this.reached.isThreaded(instruction)) return;
    for (const unit of this.units.at(instruction)) {
      unit.jumps += times;
      unit.hasNewTargets ||= isNew;
      if (unit.hasNewTargets && this.isDue(unit, unit.jumps, EXIT_COST)) this.remake(unit);
    }
  }

  /**
   * Whether a region had so many exits of one kind that it is made anew: by then it may be larger,
   * for more of its function is known.
   */
  private isDue(unit: Unit, exits: number, cost: number): boolean {
    if (exits < unit.exitsDue) return false;
    const size = Math.max(unit.size, this.reached.sizeOf(unit.entry));
    const enough = Math.max(LEAST_EXITS, exitsFor(size, cost));
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

  // --------------------------------------------------------------------------------------- profile

  /** Tier 0 has translated a block. */
  translated(block: ReachedBlock): void {
    this.reached.add(block);
  }

  /** The indirect call of the instruction went to an address. */
  calledFrom(instruction: Address, target: Address): void {
    this.reached.addCall(instruction, target);
  }

  /** Tier 0 was found before the block at an address. Compiles what is hot. */
  sample(address: Address): void {
    const entry = this.reached.entryOf(address);
    this.spread.add(address, entry);
    if (!this.units.get(entry) && (this.take(entry) || this.take(address))) return;
    const slowness = this.reached.slownessOf(address);
    const heat = (this.heat.get(address) ?? 0) + slowness;
    this.heat.set(address, heat);
    const unit = this.units.get(entry);
    const total = entry === address ? heat : (this.heat.get(entry) ?? 0) + slowness;
    if (entry !== address) this.heat.set(entry, total);
    if (!unit) {
      this.makeIfPaid(entry, total);
      return;
    }
    this.makeRest(unit, address, Math.max(heat, total));
  }

  /**
   * The region of a function is there, and tier 0 is at an address of it nevertheless, not for the
   * first time.
   */
  private makeRest(unit: Unit, address: Address, total: number): void {
    const { entry } = unit;
    if (this.units.isPlace(address) || total < (this.due.get(entry) ?? 0)) return;
    const parts = this.reached.split(entry);
    if (parts.size > 0) {
      this.divide(entry, parts);
      return;
    }
    const isHeld = covers(unit.region, address);
    // Where another function was taken for its own (nothing calls it directly), it is made as well.
    const size = isHeld
      ? this.reached.sizeOf(address)
      : Math.max(this.reached.sizeOf(entry), this.reached.sizeOf(address));
    const enough = Math.ceil((size * COST * this.gains.caution) / SAMPLE);
    if (total < enough) {
      // By then regions may be there that it leads to, and less of it has to be made.
      this.due.set(entry, Math.min(2 * total, enough));
      return;
    }
    this.heat.delete(address);
    this.heat.delete(entry);
    this.due.delete(entry);
    if (!isHeld) this.remake(unit);
    if (!this.units.isPlace(address)) this.compile(address);
  }

  /** What making the region of a function costs, in instructions of tier 0. */
  private priceOf(entry: Address): number {
    const spread = this.spread.isWide ? this.reached.sizeOf(entry, MOST_SPREAD) : MOST_SPREAD;
    return spread < MOST_SPREAD ? (spread * COST) / WIDE : this.reached.sizeOf(entry) * COST;
  }

  /** Makes the region of a function when tier 0 has spent on it what that costs. */
  private makeIfPaid(entry: Address, total: number): void {
    if (total < (this.due.get(entry) ?? LEAST_HEAT)) return;
    const parts = this.reached.split(entry);
    if (parts.size > 0) {
      this.divide(entry, parts);
      return;
    }
    const enough = Math.ceil((this.priceOf(entry) * this.gains.caution) / SAMPLE);
    if (total < enough) {
      // By then more of it may have been reached, or time be spread over more.
      this.due.set(entry, Math.max(total + 1, Math.min(2 * total, enough)));
      return;
    }
    this.pending.add(entry);
    const most = Math.ceil((this.spread.isWide ? WAITS_IN_SPREAD : WAITS) * enough);
    if (total >= most || this.pending.size >= BATCH_REGIONS) this.flush(entry);
    // It waits for others: counting what is reached of it costs more than a sample.
    else this.due.set(entry, most);
  }

  /** The heat of a function that was taken to pieces becomes that of these. */
  private divide(entry: Address, parts: ReadonlySet<Address>): void {
    const { heat, reached } = this;
    let rest = heat.get(entry) ?? 0;
    for (const [address, each] of [...heat]) {
      const part = reached.entryOf(address);
      if (!parts.has(part)) continue;
      rest -= each;
      if (part !== address) heat.set(part, (heat.get(part) ?? 0) + each);
    }
    heat.set(entry, Math.max(0, rest));
  }

  /** What leaving compiled code costs counts for the function that follows, as time in it does. */
  private warm(entry: Address, heat: number): void {
    const total = (this.heat.get(entry) ?? 0) + heat;
    this.heat.set(entry, total);
    if (!this.units.get(entry)) this.makeIfPaid(entry, total);
  }

  // ------------------------------------------------------------------------------------- compiling

  /**
   * Makes the region of an address, `others` with it, and those of the functions that they call;
   * true when there is one now.
   */
  compile(address: Address, others: readonly Address[] = []): boolean {
    if (this.units.get(address) || (this.take(address) && this.units.get(address))) return true;
    if (this.refused.has(address)) return false;
    if (this.modules.isFull) this.dropAll();
    const wanted = [
      ...new Set([address, ...others.filter((each) => !this.units.get(each) && !this.refused.has(each))]),
    ];
    const regions: FoundRegion[] = [];
    this.lifted.clear();
    const { isWide } = this.spread;
    const most = isWide ? SPREAD_BLOCKS : BATCH_BLOCKS;
    let blocks = 0;
    for (let i = 0; i < wanted.length && regions.length < BATCH_REGIONS && blocks < most; i++) {
      const entry = wanted[i]!;
      const source = { ...this.bound, targets: (site: Address) => this.reached.targets(site) };
      const region = findRegion(entry, source, isWide ? MOST_WHOLE : PIECE);
      if (!region || !isWorthwhile(region)) {
        this.refused.add(entry);
        continue;
      }
      regions.push({ entry, region });
      blocks += region.blocks.length;
      for (const { block, targets } of region.blocks) {
        const { terminator } = block;
        if (terminator.kind !== 'call' || targets.length > 0 || wanted.includes(terminator.pc)) continue;
        if (this.units.get(terminator.pc) || this.refused.has(terminator.pc)) continue;
        if (this.isWanted(terminator.pc)) wanted.push(terminator.pc);
      }
    }
    if (regions.length === 0) return false;
    const built = this.modules.build(regions);
    this.keeper?.add(built);
    for (const each of built.regions) this.add(each, COST);
    return this.units.get(address) !== undefined;
  }

  /** Whether a function is made with a region that calls it: it is half paid for, or small. */
  private isWanted(callee: Address): boolean {
    if (!this.source.known(callee)) return false;
    const size = this.reached.sizeOf(callee);
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
    placed: (address) => this.units.isPlace(address),
    simplify: (block) => {
      let ops = this.simplified.get(block);
      if (!ops) {
        ops = this.source.simplify(block);
        this.simplified.set(block, ops);
      }
      return ops;
    },
  };

  /** Takes the module that was kept for an address; true: there is a region now. */
  private take(address: Address): boolean {
    if (!this.keeper || this.modules.isFull || !this.source.mayTake()) return false;
    for (const each of this.keeper.take(address)) {
      if (this.units.get(each.entry)) continue;
      this.add({ ...each, sites: [] }, COST / TAKING);
    }
    return this.units.isPlace(address);
  }

  /** @param cost  of an instruction, in instructions of tier 0 */
  private add(placed: PlacedRegion, cost: number): void {
    const { region, entry, size } = placed;
    this.worthAnew.delete(entry);
    for (const known of [this.heat, this.due]) known.delete(entry);
    this.compiledCount++;
    this.instructionCount += size;
    this.gains.made(size * cost);
    const added = this.units.add({
      ...placed,
      ...{ pages: pagesOf(region), made: this.source.instructions() },
      ...{ misses: 0, jumps: 0, exitsDue: LEAST_EXITS, hasNewTargets: false, dropped: false },
    });
    for (const address of added) this.source.entered(address);
  }

  // -------------------------------------------------------------------------------------- dropping

  /** True when a region depends on a byte of the range. */
  holds(address: Address, size: number): boolean {
    return this.units.in(address, size).length > 0;
  }

  private drop(unit: Unit): void {
    if (unit.dropped) return;
    unit.dropped = true;
    this.droppedCount++;
    this.units.remove(unit);
    this.modules.remove(unit);
    if (this.source.instructions() - unit.made >= WORTH_ANEW) this.worthAnew.add(unit.entry);
  }

  /**
   * Bytes of the range changed, or how it is mapped. Regions of the same page that do not hold any
   * of them stay.
   */
  dropRange(address: Address, size: number): void {
    this.refused.clear();
    for (const unit of this.units.in(address, size)) this.drop(unit);
  }

  /** A hook was set at an address, or taken away. */
  dropCovering(address: Address): void {
    this.refused.clear();
    for (const unit of this.units.at(address)) this.drop(unit);
  }

  dropAll(): void {
    for (const unit of this.units.all()) this.drop(unit);
    this.modules.clear();
    this.keeper?.clear();
    this.units.clearKnown();
    this.refused.clear();
    this.pending.clear();
    this.asked.clear();
    this.worthAnew.clear();
    this.remade.clear();
    this.heat.clear();
    this.due.clear();
  }
}

/** A region whose first block only stops would be entered for nothing. */
function isWorthwhile(region: Region): boolean {
  const { block } = region.blocks[0]!;
  const { kind } = block.terminator;
  const stops = kind === 'helper' || kind === 'trap' || kind === 'sync' || kind === 'unknown' || kind === 'fetch';
  return block.instructions.length > (stops ? 1 : 0);
}
