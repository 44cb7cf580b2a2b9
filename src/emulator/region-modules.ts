/**
 * Modules of the compiled tier, and the table through which their regions call each other. Each
 * address that regions call has an entry of the table for good; a region that goes leaves an empty
 * function in it, and its word of `FRAMES` says that it is not there, so that code of the past is
 * never executed.
 */
import { compileModule, CONTROL, FRAMES, instantiate, makeTable, STATE } from './host.js';
import type { HostMemory, WasmTable } from './host.js';
import { alternateFunction } from './alternation.js';
import { RegionCompiler } from './compile.js';
import { someFunctions } from './functions.js';
import { resolveFunction } from './interpreter.js';
import type { Interpreter } from './interpreter.js';
import type { FunctionName, Lifter } from '../machine/ir.js';
import type { CompileContext, StackPointer } from './region-code.js';
import { emptyFunction, enterFunction, gotoFunction, probeFunction, STOP_NAMES } from './region-frames.js';
import type { StopName } from './region-frames.js';
import type { KeptModule, RegionNumbers } from './kept-regions.js';
import type { RegionWindows } from './region-windows.js';
import { lastInstruction } from './regions.js';
import type { Region, RegionExtent } from './regions.js';
import { fusesMultiplyAdd } from './fused.js';
import { writeModule } from './wasm.js';
import type { WasmFunction } from './wasm.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';

/** Entries of the table. */
const TABLE_ENTRIES = 4096;
/** The entry behind those of regions has tier 0's function. */
const RUN_ENTRY = TABLE_ENTRIES;
/** The type of the second function of a module whose first is `enter`: table calls have type 0. */
const RUN_TYPE = 1;
/** Entries, and words of `FRAMES`, that one module may take. */
const RESERVE = 256;
/** Stack that compiled code may use, and that is proved to be there before it is entered; bytes. */
const STACK_BYTES = 0x3_0000;
/** The least that a frame of the probing function takes, bytes. */
const PROBE_FRAME_BYTES = 32;

/** Functions that every module has behind its regions, in this order. */
const COMMON = ['goto', 'jump', 'resolve'] as const;

/** A region by its own entry. */
export interface FoundRegion {
  readonly entry: Address;
  readonly region: Region;
}

/** A region whose code is written. */
interface WrittenRegion extends FoundRegion {
  /** Its number in the module. */
  readonly number: number;
  /** Instructions that are to blame when a shared check fails, by the instruction that makes it. */
  readonly groups: ReadonlyMap<Address, readonly Address[]>;
  /** Host address of its word in `FRAMES`, and what stands there while the region is there. */
  readonly frame: number;
  readonly frameBytes: number;
}

/** A region that can be called. */
export interface PlacedRegion extends Omit<WrittenRegion, 'region'> {
  readonly region: RegionExtent;
  /** Instructions of its blocks, those of copies too. */
  readonly size: number;
  /** Its indirect branches. */
  readonly sites: readonly Address[];
  /** Its entry of the table. */
  readonly index: number;
}

/** A module that was made. */
export interface BuiltModule {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly regions: readonly PlacedRegion[];
}

const exportName = (number: number): string => `r${number}`;

/** The stop of compiled code with a number. */
export function stopOf(number: number): StopName {
  const stop = STOP_NAMES[number - 1];
  if (stop === undefined) throw new ElftraceError('internal', 'compiled code stopped for no reason');
  return stop;
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
      enter: compileModule(
        writeModule(
          [enterFunction(pointer), emptyFunction(pointer), probeFunction(2), alternateFunction(0, RUN_ENTRY, RUN_TYPE)],
          1,
        ),
      ),
    };
    frames.set(pointer, modules);
  }
  return modules;
}

export class RegionModules {
  private readonly table: WasmTable;
  private readonly pointer: StackPointer;
  private readonly run: (place: number, stack: number) => number;
  private readonly runBoth: (header: number, stack: number) => number;
  private readonly probe: RunFunction;
  private readonly empty: unknown;
  /** Functions that every module has. */
  private readonly common: readonly WasmFunction[];
  /** Table entries by the address of the callee. */
  private indices = new Map<Address, number>();
  /** Words of `FRAMES` in use. */
  private frameCount = 0;
  /** See `fused.ts`; asked when the first module is made. */
  private fuses: boolean | undefined;
  /** Modules since `clear`, and their bytes. */
  count = 0;
  bytes = 0;

  constructor(
    private readonly host: HostMemory,
    private readonly lifter: Lifter,
    private readonly windows: RegionWindows,
    interpreter: Interpreter,
    private readonly mostBytes: number,
  ) {
    this.pointer = lifter.stackPointer ?? { slot: 0, popped: 0n };
    const pointer = STATE + lifter.slots.offset(this.pointer.slot);
    const lookups = [gotoFunction('lookup', pointer), gotoFunction('jump', pointer)];
    this.common = [...lookups, resolveFunction({ counts: false })];
    const modules = frameModules(pointer);
    const { empty } = instantiate(modules.empty, host);
    this.table = makeTable(TABLE_ENTRIES + 1, empty);
    this.table.set(RUN_ENTRY, interpreter.code);
    const { enter, probe, alternate } = instantiate(modules.enter, host, this.table);
    if (
      typeof enter !== 'function' ||
      typeof empty !== 'function' ||
      typeof probe !== 'function' ||
      typeof alternate !== 'function'
    ) {
      throw new ElftraceError('internal', 'the module of the compiled tier is incomplete');
    }
    this.run = (place, stack) => Number(enter(place, stack));
    this.runBoth = (header, stack) => Number(alternate(header, stack));
    this.probe = (...values) => probe(...values) as unknown;
    this.empty = empty;
  }

  /** Everything must go before more can be made. */
  get isFull(): boolean {
    const { indices, frameCount } = this;
    return this.bytes > this.mostBytes || indices.size > TABLE_ENTRIES - RESERVE || frameCount > FRAMES.count - RESERVE;
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
   * Executes from an address at which a region can be begun; `packed`: its place.
   * `CONTROL.place` says where it stopped, `CONTROL.fuel` what is left.
   */
  enter(packed: number, address: Address, fuel: number): StopName {
    const { host } = this;
    host.u64[CONTROL.place >> 3] = address;
    host.u32[CONTROL.fuel >> 2] = fuel;
    return stopOf(this.run(packed, STACK_BYTES));
  }

  /** Executes tier 0 from a block header, and regions in turn: see `alternation.ts`. */
  alternate(header: number): number {
    return this.runBoth(header, STACK_BYTES);
  }

  /** True when compiled code calls the address through the table. */
  isCalled(address: Address): boolean {
    return this.indices.has(address);
  }

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

  /** The word of a region that is not there yet. */
  private newFrame(): number {
    const frame = FRAMES.start + FRAMES.bytes * this.frameCount++;
    this.host.u32[frame >> 2] = FRAMES.dropped;
    return frame;
  }

  /** Makes one module of regions; those that have an entry of the table can be called then. */
  build(regions: readonly FoundRegion[]): BuiltModule {
    const used = new Set<FunctionName>();
    const firstHelper = regions.length + COMMON.length;
    const members = new Map(regions.map(({ entry }, number) => [entry, number]));
    const shared = {
      slots: this.lifter.slots,
      pointer: this.pointer,
      addressBits: this.lifter.addressBits,
      state: STATE,
      fuses: this.isFusing,
      memberIndex: (address) => members.get(address) ?? null,
      tableIndex: (address) => this.tableIndex(address),
      functionIndex: (name) => {
        if (name === 'goto' || name === 'jump' || name === 'resolve') return regions.length + COMMON.indexOf(name);
        used.add(name);
        return firstHelper + [...used].indexOf(name);
      },
    } satisfies Partial<CompileContext>;
    const functions: WasmFunction[] = [];
    const written: WrittenRegion[] = [];
    for (const { entry, region } of regions) {
      const groups = new Map<Address, readonly Address[]>();
      const frame = this.newFrame();
      const site = this.windows.sitesOf(region);
      const compiler = new RegionCompiler(region, {
        ...shared,
        frame,
        site,
        group: (first, places) => {
          groups.set(first, places);
        },
      });
      const number = functions.length;
      functions.push(compiler.compile(exportName(number)));
      written.push({ entry, region, number, groups, frame, frameBytes: compiler.frameBytes });
    }
    const bytes = writeModule([...functions, ...this.common, ...someFunctions(used, firstHelper)], 0);
    const exports = this.instantiate(bytes);
    return { bytes, regions: written.flatMap((each) => this.place(each, exports[exportName(each.number)])) };
  }

  private instantiate(bytes: Uint8Array<ArrayBuffer>): Readonly<Record<string, unknown>> {
    this.bytes += bytes.length;
    this.count++;
    return instantiate(compileModule(bytes), this.host, this.table);
  }

  /** Where the table is full the region stays uncalled. */
  private place(written: WrittenRegion, code: unknown): readonly PlacedRegion[] {
    const index = this.tableIndex(written.entry);
    if (index === 0) return [];
    this.table.set(index, code);
    this.host.u32[written.frame >> 2] = written.frameBytes;
    const blocks = written.region.blocks.map(({ block }) => block);
    const size = blocks.reduce((sum, { instructions }) => sum + instructions.length, 0);
    const indirect = blocks.filter(({ terminator: { kind } }) => kind === 'ind' || kind === 'calli');
    return [{ ...written, index, size, sites: indirect.map(lastInstruction) }];
  }

  /** Whether the engine fuses multiplications and additions, as far as code of modules asks. */
  get isFusing(): boolean {
    return (this.fuses ??= fusesMultiplyAdd(this.host));
  }

  /** The numbers that code of modules has in it. */
  get numbers(): Pick<RegionNumbers, 'indices' | 'frames'> {
    return { indices: [...this.indices.keys()], frames: this.frameCount };
  }

  /** Begins with the numbers of another machine; nothing was made yet. */
  begin({ indices, frames }: Pick<RegionNumbers, 'indices' | 'frames'>): void {
    this.indices = new Map(indices.map((address, number) => [address, number + 1]));
    for (let i = 0; i < frames; i++) this.newFrame();
  }

  /**
   * Takes regions of a module that was made by a machine whose numbers this one began with.
   * @param regions  those that are to be called; others of the module are not there
   */
  take({ bytes, regions }: KeptModule): void {
    const exports = this.instantiate(bytes);
    for (const { number, index, frame, frameBytes } of regions) {
      this.table.set(index, exports[exportName(number)]);
      this.host.u32[frame >> 2] = frameBytes;
    }
  }

  /** The region is not executed any more. */
  remove({ index, frame }: PlacedRegion): void {
    this.table.set(index, this.empty);
    this.host.u32[frame >> 2] = FRAMES.dropped;
  }

  /** Forgets all modules; their regions are removed. */
  clear(): void {
    for (const index of this.indices.values()) this.table.set(index, this.empty);
    this.indices = new Map();
    this.frameCount = 0;
    this.bytes = 0;
    this.count = 0;
  }
}
