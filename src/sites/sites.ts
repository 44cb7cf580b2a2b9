/**
 * Finding sites: slots of the tables, or calls where there is no table, each with the shape and
 * state of its bytes.
 *
 * After `findSites` every site of the result has an anchor; those that name code have a shape index
 * (or none fits) and a state. Sites are sorted by code range and anchor, unplaced ones last.
 * Columns, because kernels have 60,000 of them; `Site` objects are views made on demand.
 */
import type { SiteReading, SiteShape, SiteSource, SiteStateKind, SiteView } from '../machine/sites.js';
import { type CodeRange, probeSections, type Program } from '../program/program.js';
import type { Address, Column, CodeIndex, SiteIndex, SymbolIndex } from '../units.js';
import { distance, halves, HIGH, LOW } from '../elf/lookup.js';
import { type CallTest, findMcountCalls, type McountMachine } from './mcount-table.js';
import { type FileRecord, readRecord } from '../record/journal.js';
import { RepeatedReadings } from './repeated-readings.js';
import { SiteStubs } from './site-stubs.js';
import { otherRanges } from './overlaps.js';
import { readTables, type SlotTable, type TableOptions } from './tables.js';
import { tellUnnamedEntry } from './unnamed-entry.js';
import { type Entry, unnamedTable } from './unnamed-table.js';
import { ProgramView } from './view.js';

/** States in the order of the `state` column; `unknown` is bytes that no shape knows. */
const stateNames = ['compiled', 'nop', 'call', 'foreign', 'unknown', 'zero', 'outside'] as const;
export type SiteState = (typeof stateNames)[number];
const stateIndex: Readonly<Record<SiteStateKind, number>> = { compiled: 0, nop: 1, call: 2, foreign: 3 };
const stateUnknown = 4;
const stateZero = 5;
const stateOutside = 6;
const noShape = 255;

/** One site as an object. */
export interface Site {
  readonly index: SiteIndex;
  readonly table: SlotTable;
  /** Row in `table`. */
  readonly slot: number;
  readonly source: SiteSource;
  /** undefined when the slot names no code. */
  readonly range: CodeRange | undefined;
  /** What the slot names: address, or offset in the section. */
  readonly anchor: Address;
  /** The instruction that toggles. */
  readonly ip: Address;
  readonly state: SiteState;
  /** Name of the shape, '' when none fits. */
  readonly shape: string;
  /** Symbol of the function it belongs to, -1 for none. */
  readonly functionSymbol: SymbolIndex;
}

export interface FindOptions extends TableOptions {
  /**
   * Record of changes that was kept beside the file; the one in the file is read without being
   * asked for.
   */
  readonly record?: FileRecord | null;
  /** The program as it was before what the record says, where its calls name another entry now. */
  readonly original?: Program;
  readonly signal?: AbortSignal;
}

/**
 * The bytes were found to be a site that is off, or on as it was compiled, of which there is
 * nothing more to say.
 */
const QUIET = 1;
/** So, and it reads as the site in front of it, by one object. */
export const LIKE = 2;

/** All sites of a program. */
export class Sites {
  readonly count: number;

  constructor(
    readonly program: Program,
    readonly tables: readonly SlotTable[],
    /** Source of each table after `unknown` was decided; parallel to `tables`. */
    readonly sources: readonly SiteSource[],
    private readonly tableOf: Uint8Array,
    private readonly slotOf: Uint32Array,
    /** Position in `program.code`, -1 for unplaced. */
    readonly range: Column<Int32Array, CodeIndex>,
    readonly anchor: BigUint64Array,
    /** Of the anchor in its range of code, bytes; -1 for unplaced. */
    readonly offset: Float64Array,
    /** ip minus anchor. */
    readonly ipDelta: Int16Array,
    /** First byte of the site minus anchor, as it was found. */
    readonly startDelta: Int16Array,
    private readonly shapeOf: Uint8Array,
    private readonly stateOf: Uint8Array,
    private readonly functionOf: Column<Int32Array, SymbolIndex>,
    private readonly view: ProgramView,
    /**
     * Tables most of whose sites have nops in no number or place that a call can use; parallel to
     * `tables`.
     */
    private readonly unusable: readonly boolean[],
    /** Shapes that each table has no sites of; parallel to `tables`. */
    private readonly excluded: readonly ReadonlySet<SiteShape>[],
    /** File positions of what was taken out of the tables on purpose, as the record says. */
    readonly untraced: ReadonlySet<number>,
    /** QUIET, LIKE, or 0, of each site. */
    readonly quiet: Uint8Array,
  ) {
    this.count = anchor.length;
    view.stubs = () => this.stubs;
  }

  private kept = false;
  private readers: readonly ShapeReader[] | undefined;

  state(index: SiteIndex): SiteState {
    return stateNames[this.stateOf[index]!]!;
  }

  /** Name of the shape, '' when none fits. */
  shape(index: SiteIndex): string {
    return this.shapeAt(index)?.name ?? '';
  }

  /** The shape, undefined when none fits. */
  shapeAt(index: SiteIndex): SiteShape | undefined {
    return this.program.arch.siteShapes[this.shapeOf[index]!];
  }

  functionSymbol(index: SiteIndex): SymbolIndex {
    return this.functionOf[index]!;
  }

  table(index: SiteIndex): SlotTable {
    return this.tables[this.tableOf[index]!]!;
  }

  /** Position of its table in `tables`. */
  tablePosition(index: SiteIndex): number {
    return this.tableOf[index]!;
  }

  slot(index: SiteIndex): number {
    return this.slotOf[index]!;
  }

  source(index: SiteIndex): SiteSource {
    const source = this.sources[this.tableOf[index]!]!;
    return source === 'call' && this.kept ? 'mcount-table' : source;
  }

  /**
   * From now on a place that was found because of its call is a site whatever stands there, as one
   * that a table names.
   */
  keep(): void {
    this.kept = true;
  }

  codeRange(index: SiteIndex): CodeRange | undefined {
    return this.program.code[this.range[index]!];
  }

  ip(index: SiteIndex): Address {
    return this.anchor[index]! + BigInt(this.ipDelta[index]!);
  }

  /** Whether a slot names the place. */
  isAnchor({ index }: CodeRange, value: Address): boolean {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      // Unplaced sites, of range -1, are behind all others.
      const range = this.range[middle]! >>> 0;
      if (range < index || (range === index && this.anchor[middle]! < value)) low = middle + 1;
      else high = middle;
    }
    return low < this.count && this.range[low] === index && this.anchor[low] === value;
  }

  /** File position of the anchor; -1 for unplaced sites. */
  fileOffset(index: SiteIndex): number {
    const range = this.codeRange(index);
    return range ? range.fileOffset + this.offset[index]! : -1;
  }

  at(index: SiteIndex): Site {
    return {
      index,
      table: this.table(index),
      slot: this.slot(index),
      source: this.source(index),
      range: this.codeRange(index),
      anchor: this.anchor[index]!,
      ip: this.ip(index),
      state: this.state(index),
      shape: this.shape(index),
      functionSymbol: this.functionSymbol(index),
    };
  }

  /** The view moved to a site, for shapes. Valid until the next call. */
  viewOf(index: SiteIndex): ProgramView {
    const range = this.codeRange(index)!;
    this.view.move(range, this.offset[index]!);
    return this.view;
  }

  /** Name of the module that a site of a loaded image is in; null elsewhere. */
  module(index: SiteIndex): string | null {
    const part = this.range[index]! < 0 ? undefined : this.program.partOf(this.anchor[index]!);
    return part?.kind === 'module' ? part.name : null;
  }

  /**
   * What the bytes at a site say, read again; null for sites that no shape knows or that name no
   * code.
   */
  reading(index: SiteIndex): SiteReading | null {
    const found = this.read(index);
    return found !== null && this.unusable[this.tableOf[index]!] ? asUnusable(found) : found;
  }

  /**
   * What a place would be if a table named it; null where it would be none.
   * @param table  position in `tables`
   */
  readingAt(range: CodeRange, offset: number, table: number): SiteReading | null {
    if (this.unusable[table]!) return null;
    this.view.move(range, offset);
    this.readers ??= this.sources.map((source, i) => new ShapeReader(this.program, source, this.excluded[i]!));
    return this.readers[table]!.read(this.view);
  }

  private read(index: SiteIndex): SiteReading | null {
    if (this.range[index]! < 0) return null;
    const shape = this.shapeOf[index]!;
    if (shape === noShape) return null;
    const { siteShapes } = this.program.arch;
    const source = this.source(index);
    const known = siteShapes[shape]!;
    const found = known.read(this.viewOf(index), source);
    if (found !== null) return found;
    // Without a table only the compiler's call is a site; but this one was found, and a session may
    // have changed it since. With one a shape may ask what stands in front (RISC-V and arm64 tell
    // nops of -pg by the store of the return address); that was seen, and a probe may lie on it
    // since.
    const other = source === 'call' ? 'mcount-table' : source === 'mcount-table' ? 'call' : null;
    if (other !== null && known.sources.includes(other)) {
      const place = known.read(this.viewOf(index), other);
      if (place !== null) return place;
    }
    // What a session writes may be a form of another shape: nops of RISC-V become a site of any
    // generation.
    for (const shape of siteShapes) {
      if (this.excluded[this.tableOf[index]!]!.has(shape)) continue;
      const reading = shape.sources.includes(source) ? shape.read(this.viewOf(index), source) : null;
      if (reading !== null) return reading;
    }
    return null;
  }

  /** Conventions of entries that can serve a site, given what its bytes say. */
  entriesOf(index: SiteIndex, reading: SiteReading): readonly string[] {
    const { shape } = reading;
    return shape.servedAt?.(reading, this.viewOf(index)).entries ?? shape.entries;
  }

  private pairs: SiteStubs | null | undefined;

  /** Stubs out of line of these sites; null where no site calls through one. */
  get stubs(): SiteStubs | null {
    if (this.pairs === undefined) {
      const { arch } = this.program;
      const own = arch.outOfLine === null || this.program.relocatable ? [] : this.ipsOutOfLine();
      this.pairs =
        arch.outOfLine === null || own.length === 0 ? null : new SiteStubs(this.program, arch.outOfLine, own);
    }
    return this.pairs;
  }

  /** Sites of the tables that have such sites, damaged ones too: each takes a stub. */
  private ipsOutOfLine(): Address[] {
    const { siteShapes } = this.program.arch;
    const tables = new Set<number>();
    for (let i = 0; i < this.count; i++) {
      if (siteShapes[this.shapeOf[i]!]?.outOfLine === true) tables.add(this.tableOf[i]!);
    }
    const own: Address[] = [];
    for (let i = 0; i < this.count && tables.size > 0; i++) {
      if (this.range[i]! >= 0 && tables.has(this.tableOf[i]!) && this.ip(i) !== own.at(-1)) own.push(this.ip(i));
    }
    return own.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  }

  /** Number of sites by state and by shape; zero slots and padding are no sites. */
  totals(): { total: number; byState: Record<string, number>; byShape: Record<string, number> } {
    const byState: Record<string, number> = {};
    const byShape: Record<string, number> = {};
    let total = 0;
    for (let i = 0; i < this.count; i++) {
      const state = this.state(i);
      if (state === 'zero') continue;
      total++;
      byState[state] = (byState[state] ?? 0) + 1;
      const shape = this.shape(i);
      if (shape !== '') byShape[shape] = (byShape[shape] ?? 0) + 1;
    }
    return { total, byState, byShape };
  }

  [Symbol.iterator](): Iterator<Site> {
    let index = 0;
    return {
      next: () => (index < this.count ? { done: false, value: this.at(index++) } : { done: true, value: undefined }),
    };
  }
}

/** Sources that a table's slots may have, most specific first. */
const possibleSources: readonly SiteSource[] = ['mcount-table', 'patchable-table'];

/**
 * A site of a table most of whose sites have too few nops, or have them in front of their
 * functions: a build has one form, so one that looks as if it had enough begins with a nop of its
 * own, and one without any is no damaged one.
 */
function asUnusable(reading: SiteReading): SiteReading {
  if (reading.nops !== undefined) return reading.fault === undefined ? { ...reading, fault: 'unsupported' } : reading;
  if (reading.state !== 'compiled') return reading;
  return {
    ...reading,
    state: 'foreign',
    form: 'chance',
    fault: 'unsupported',
    nops: 'few',
    reason: 'most sites of the table have no room for a call: what follows here are nops of the function itself',
  };
}

const none: ReadonlySet<SiteShape> = new Set();

/**
 * Shapes that a table has no sites of: those of a family in which another has more
 * (`SiteShape.family`). Sites of the shapes are counted where their bytes are as the shape wants.
 */
function minorities(shapes: readonly SiteShape[], votes: ReadonlyMap<SiteShape, number>): ReadonlySet<SiteShape> {
  const votesOf = (shape: SiteShape): number => votes.get(shape) ?? 0;
  const lost = shapes.filter(({ family }, i) => {
    if (family === undefined) return false;
    return shapes.some((other, k) => {
      if (other.family !== family || k === i) return false;
      const more = votesOf(other) - votesOf(shapes[i]!);
      return more > 0 || (more === 0 && k < i);
    });
  });
  return lost.length > 0 ? new Set(lost) : none;
}

/** How many slots are read, from all over the table, to decide what it names. */
const sampleSize = 256;

/** Shapes and their positions in a list of them. */
interface NumberedShapes {
  readonly shapes: readonly SiteShape[];
  readonly numbers: readonly number[];
}

/** Of each machine, by sources; made once, for a tree of modules asks file by file. */
const knownShapes = new WeakMap<readonly SiteShape[], Map<SiteSource, NumberedShapes>>();

function shapesOf(all: readonly SiteShape[], source: SiteSource): NumberedShapes {
  let bySource = knownShapes.get(all);
  if (bySource === undefined) knownShapes.set(all, (bySource = new Map()));
  let found = bySource.get(source);
  if (found === undefined) {
    const numbers = [...all.keys()].filter((i) => all[i]!.sources.includes(source));
    bySource.set(source, (found = { numbers, shapes: numbers.map((i) => all[i]!) }));
  }
  return found;
}

/** The shapes that sites of a source may have, asked one after the other. */
class ShapeReader {
  private readonly shapes: readonly SiteShape[];
  private readonly numbers: readonly number[];
  /** Position in `Arch.siteShapes` of the shape of the last reading. */
  number = noShape;

  constructor(
    { arch }: Program,
    private readonly source: SiteSource,
    excluded: ReadonlySet<SiteShape> = none,
  ) {
    const { siteShapes } = arch;
    const { numbers, shapes } = shapesOf(siteShapes, source);
    this.numbers = excluded.size === 0 ? numbers : numbers.filter((i) => !excluded.has(siteShapes[i]!));
    this.shapes = excluded.size === 0 ? shapes : this.numbers.map((i) => siteShapes[i]!);
  }

  /** What the bytes at the view's place are; null: no shape knows them. */
  read(view: SiteView): SiteReading | null {
    let fallback: SiteReading | null = null;
    this.number = noShape;
    for (let i = 0; i < this.shapes.length; i++) {
      const reading = this.shapes[i]!.read(view, this.source);
      if (reading === null) continue;
      // A misaligned literal is that shape's business alone: its words would pass for plain nops.
      const isAnswer = reading.state !== 'foreign' || reading.fault === 'misaligned';
      // A foreign reading is only the answer when no other shape recognises the bytes.
      if (isAnswer || fallback === null) this.number = this.numbers[i]!;
      if (isAnswer) return reading;
      fallback ??= reading;
    }
    return fallback;
  }
}

/**
 * Filled slots of a table that name code, at most `sampleSize` and evenly spread: the first ones
 * may all be of one odd section.
 */
function* samples(program: Program, table: SlotTable): Generator<{ range: CodeRange; offset: number }> {
  const step = Math.max(1, Math.ceil((table.count - table.zero) / sampleSize));
  let filled = 0;
  for (let slot = 0; slot < table.count; slot++) {
    const value = table.value[slot]!;
    const empty = program.relocatable ? table.section[slot] === -1 : value === 0n;
    if (empty || filled++ % step !== 0) continue;
    const range = program.relocatable ? program.codeOfSection(table.section[slot]!) : program.codeAt(value);
    const offset = range ? Number(value - range.address) : -1;
    if (range && offset >= 0 && offset < range.bytes.length) yield { range, offset };
  }
}

/**
 * vmlinux has one table symbol for both kinds of site: the kind under which more sites are
 * recognised, then the one that knows more of them as damaged. The shapes themselves say what
 * cannot be theirs: nops of a call are never the first instruction of a function.
 */
function decideSource(program: Program, table: SlotTable, view: ProgramView): SiteSource {
  if (table.source !== 'unknown') return table.source;
  let best: SiteSource = 'mcount-table';
  let bestScore = -1;
  for (const source of possibleSources) {
    let score = 0;
    let known = 0;
    let entries = 0;
    const reader = new ShapeReader(program, source);
    for (const { range, offset } of samples(program, table)) {
      view.move(range, offset);
      const reading = reader.read(view);
      if (!reading) continue;
      if (reading.state === 'foreign') known++;
      else score++;
      if (reading.shape.sources.includes('patchable-table')) entries++;
    }
    // arm64 knows patchable entries under either name of a table; one of mostly such is no table of
    // calls.
    if (source === 'mcount-table' && entries * 2 > score + known) continue;
    // What is recognised counts before any number of damaged sites.
    const total = score * (sampleSize + 1) + known;
    if (total > bestScore) {
      best = source;
      bestScore = total;
    }
  }
  return best;
}

/**
 * Padding in a patchable table of its own (`=N,N`; x86-64 modules without any call site): no slot
 * has room behind its function's symbol (M-PAD-1). A nop with which the function begins is no room
 * where another mechanism patches it (a jump label that is off). A table whose pads are merely too
 * small for a call is not that, and its sites get their verdicts.
 */
function isPadding(program: Program, table: SlotTable, source: SiteSource, view: ProgramView): boolean {
  if (source !== 'patchable-table' || table.role === 'padding') return false;
  const reader = new ShapeReader(program, source);
  let tried = 0;
  for (const { range, offset } of samples(program, table)) {
    view.move(range, offset);
    const reading = reader.read(view);
    // The pad of an overridden weak function has no symbol to be in front of, and says nothing.
    if (reading?.form === 'unplaced') continue;
    if (reading === null) return false;
    if (reading.nops !== 'front' && isLeftover(program, range, view.address + BigInt(reading.ipDelta))) continue;
    if (reading.nops !== 'front') {
      const ip = view.address + BigInt(reading.ipDelta);
      const section = program.relocatable ? range.section : -1;
      if (reading.ipDelta === 0 || otherRanges(program).overlapping(section, ip, ip + 1n) === null) return false;
    }
    tried++;
  }
  return tried > 0;
}

/** True where the file names its functions and none of them covers a place. */
function isLeftover(program: Program, range: CodeRange, ip: Address): boolean {
  return program.namesFunctions && program.functionAt(range, ip) < 0;
}

/** True when the bytes at a place are a call of the profiling entry, by the machine's shapes. */
export function callTest(program: Program): CallTest {
  const view = new ProgramView(program);
  const reader = new ShapeReader(program, 'call');
  const repeated = new RepeatedReadings(program, view);
  const place = new Float64Array(1);
  return (section, offset) => {
    const range = program.codeOfSection(section.index);
    if (!range || offset >= range.bytes.length) return false;
    place[0] = offset;
    if (repeated.behind(reader, range, place, 0, 1) === 1) return repeated.noted.reading.state === 'compiled';
    view.move(range, offset);
    return repeated.read(reader, range, offset)?.state === 'compiled';
  };
}

/** The rules of `mcount-table.ts` with the names of this program. */
export function mcountMachine(program: Program): McountMachine {
  const { arch } = program;
  return {
    mcount: { symbols: program.profilingNames, callRelocations: arch.mcount.callRelocations },
    relocationRoles: arch.relocationRoles,
    relocations: arch.relocations,
  };
}

/**
 * Offsets of calls in a section of a relocatable file, ascending. A branch relocation on bytes that
 * are neither call nor jump is a damaged call: it is a site too, so that it gets a verdict.
 */
function relocatedCalls(program: Program, range: CodeRange): number[] {
  const { arch } = program;
  const { lists, others } = program.derived('mcount-calls', () =>
    findMcountCalls(program.image, mcountMachine(program), callTest(program)),
  );
  const offsets: number[] = [];
  for (const { section, offset } of lists) {
    if (section.index === range.section) for (const each of offset) offsets.push(each);
  }
  for (const other of others) {
    if (other.section.index !== range.section) continue;
    const type = other.table.type[other.row]!;
    const adjust = arch.mcount.callRelocations.get(type);
    if (adjust === undefined || arch.relocations.get(type)?.branch !== 'call') continue;
    const at = other.offset + adjust;
    if (at < 0 || leavesWithoutLink(program, range, at)) continue;
    offsets.push(at);
  }
  return offsets.sort((a, b) => a - b);
}

/** True when one of the two instructions at a place is a jump: a tail call, which is no site. */
function leavesWithoutLink(program: Program, range: CodeRange, offset: number): boolean {
  let at = offset;
  for (let i = 0; i < 2 && at < range.bytes.length; i++) {
    const { flow, sizeBytes } = program.arch.isa.decode(range.bytes, at, range.address + BigInt(at));
    if (flow.kind === 'jump' || flow.kind === 'indirect-jump') return true;
    at += sizeBytes;
  }
  return false;
}

/** Calls of the profiling entry: by relocation in relocatable files, by branch target elsewhere. */
export function findCalls(program: Program, signal?: AbortSignal): SlotTable {
  const sections: number[] = [];
  const values: bigint[] = [];
  const { arch } = program;
  for (const range of program.code) {
    signal?.throwIfAborted();
    // Copies of probed instructions are no sites.
    if (range.name === probeSections.text) continue;
    if (program.relocatable) {
      for (const offset of relocatedCalls(program, range)) {
        sections.push(range.section);
        values.push(BigInt(offset));
      }
    } else {
      const isTarget = (address: Address): boolean => program.callee(address) === 'mcount';
      const offsets: number[] = [];
      let start = 0;
      for (const end of program.functionStarts(range)) {
        if (end > start)
          for (const offset of arch.mcount.findCalls(range.bytes, start, end, range.address, isTarget))
            offsets.push(offset);
        start = end;
      }
      if (start < range.bytes.length) {
        for (const offset of arch.mcount.findCalls(range.bytes, start, range.bytes.length, range.address, isTarget))
          offsets.push(offset);
      }
      for (const offset of offsets) {
        sections.push(-1);
        values.push(range.address + BigInt(offset));
      }
    }
  }
  return {
    name: 'calls',
    source: 'call',
    role: 'sites',
    count: values.length,
    zero: 0,
    section: Int32Array.from(sections),
    value: BigUint64Array.from(values),
    isInFile: false,
    position: new Float64Array(values.length).fill(-1),
    container: -1,
    sorted: true,
    origin: 'code',
    remarks: [],
  };
}

/** True for the patched calls inside a tracer's entries: changed with the sites, and no sites. */
function isRuntime(program: Program, range: CodeRange, value: bigint): boolean {
  if (program.relocatable) return false;
  return (
    program.partOf(value)?.kind === 'runtime' ||
    program.isTracerName(program.symbolName(program.functionAt(range, value)))
  );
}

/**
 * Places in code that the record says were changed: what is left of calls that became nops in a
 * file without a table, or whose slots were emptied. Places that another table names are not
 * repeated.
 */
function recordedPlaces(program: Program, record: FileRecord | null, others: readonly SlotTable[]): SlotTable {
  const sections: number[] = [];
  const values: bigint[] = [];
  // Sessions with probes change places that are no sites, and nothing in the record tells which.
  const probed = record?.session.some((text) => /\bprobe["']?\s*:/.test(text)) ?? false;
  // These are no sites any more.
  const untraced = new Set(record?.untraced);
  const edits = probed ? [] : (record?.edits ?? []);
  const known = new Set<string>();
  // A file that was never changed has no need of it, and may have very many calls.
  for (const { count, section, value } of edits.length > 0 ? others : []) {
    for (let i = 0; i < count; i++) known.add(`${section[i]!}:${value[i]!}`);
  }
  for (const { offset } of edits) {
    const range = program.code.find(
      (each) => offset >= each.fileOffset && offset < each.fileOffset + each.bytes.length,
    );
    if (!range || untraced.has(offset)) continue;
    const section = program.relocatable ? range.section : -1;
    const value = range.address + BigInt(offset - range.fileOffset);
    if (known.has(`${section}:${value}`) || isRuntime(program, range, value)) continue;
    sections.push(section);
    values.push(value);
  }
  return {
    name: 'record',
    // A table names nops as well as calls; the scan for calls does not.
    source: 'mcount-table',
    role: 'sites',
    count: values.length,
    zero: 0,
    section: Int32Array.from(sections),
    value: BigUint64Array.from(values),
    isInFile: false,
    position: new Float64Array(values.length).fill(-1),
    container: -1,
    sorted: true,
    origin: 'record',
    remarks: [],
  };
}

/**
 * Calls of the profiling entry that the file made before it was enabled (--entry): where the
 * linker's relocation alone says what is called, no byte of the code tells them from other calls.
 */
function callsBefore(original: Program, known: SlotTable): SlotTable[] {
  const before = findCalls(original);
  const still = new Set(Array.from(known.value, (value, i) => `${known.section[i]!}:${value}`));
  const gone = Array.from(before.value, (value, i) => !still.has(`${before.section[i]!}:${value}`));
  const count = gone.filter(Boolean).length;
  if (count === 0) return [];
  return [
    {
      ...before,
      name: 'record',
      // A table names nops as well as calls; the scan for calls does not.
      source: 'mcount-table',
      origin: 'record',
      count,
      section: before.section.filter((_, i) => gone[i]),
      value: before.value.filter((_, i) => gone[i]),
      position: new Float64Array(count).fill(-1),
    },
  ];
}

/**
 * True when untracing made nops of calls: the record has changes of code at places that were sites.
 */
function hadTabledCalls(program: Program, record: FileRecord | null): boolean {
  if (!program.arch.mcount.patchableIsPadding || record === null || record.untraced.length === 0) return false;
  const untraced = new Set(record.untraced);
  return record.edits.some(({ offset }) => untraced.has(offset));
}

/** Whether sites stand in the order that `order` makes. */
function isOrdered(ranges: Int32Array, anchors: BigUint64Array): boolean {
  const words = halves(anchors);
  for (let i = 1; i < ranges.length; i++) {
    if (ranges[i] !== ranges[i - 1]) {
      // -1 (unplaced) becomes the greatest unsigned number.
      if (ranges[i - 1]! >>> 0 > ranges[i]! >>> 0) return false;
      continue;
    }
    const above = words[2 * i + HIGH]! - words[2 * i - 2 + HIGH]!;
    if (above > 0 || (above === 0 && words[2 * i + LOW]! >= words[2 * i - 2 + LOW]!)) continue;
    if (ranges[i]! >= 0) return false;
  }
  return true;
}

/** Sites in ascending order of (code range, anchor); unplaced ones last, in slot order. */
function order(ranges: Int32Array, anchors: BigUint64Array): Uint32Array | null {
  const { length } = ranges;
  if (isOrdered(ranges, anchors)) return null;
  return Uint32Array.from({ length }, (_, i) => i).sort((x, y) => {
    const byRange = (ranges[x]! >>> 0) - (ranges[y]! >>> 0);
    if (byRange !== 0) return byRange;
    if (ranges[x]! < 0) return x - y;
    const a = anchors[x]!;
    const b = anchors[y]!;
    return a < b ? -1 : a > b ? 1 : x - y;
  });
}

/** Tables whose slots are read, and of what kind each is. */
interface Sources {
  readonly tables: readonly SlotTable[];
  readonly sources: readonly SiteSource[];
}

/** A landing pad in front of nops. */
const LANDING_PAD_BYTES = 4;

/**
 * Whether nops with room for a call begin a function: that is told of their place, of the landing
 * pad in front of them, or, where compilers of some machines let unwind information begin, of the
 * place behind them.
 */
function entryOf(view: ProgramView, reading: SiteReading | null, room: 'enough' | 'few'): Entry | null {
  if (reading === null || reading.target !== null) return null;
  if (reading.state === 'foreign') {
    const { expected, form, nops } = reading;
    const isSmall = room === 'few' && nops === 'few';
    // Nops as they should be, and nothing known of where the function begins.
    const isUnplaced = form === 'unplaced' && expected?.every((byte, i) => view.u8(i) === byte) === true;
    if (!isSmall && !isUnplaced) return null;
  } else if (reading.state === 'call') return null;
  const end = reading.startDelta + reading.sizeBytes;
  for (let delta = 0; delta <= end; delta++) if (view.unwindsFrom(delta)) return 'unwound';
  const referenceTo = (delta: number) => (view.functionAt(delta) ? 'called' : view.calledFrom(delta));
  const references = Array.from({ length: reading.ipDelta + 1 }, (_, delta) => referenceTo(delta));
  const { landingPads } = view.program.arch;
  const isPadded = landingPads?.isPad(view.u32(-LANDING_PAD_BYTES)) === true;
  if (isPadded && view.unwindsFrom(-LANDING_PAD_BYTES)) return 'unwound';
  if (isPadded) references.push(referenceTo(-LANDING_PAD_BYTES));
  if (references.includes('called')) return 'called';
  return references.includes('named') ? 'named' : 'unknown';
}

/** The tables of a file, and what stands for one where calls or slots have none. */
function sourcesOf(program: Program, view: ProgramView, record: FileRecord | null, options: FindOptions): Sources {
  let tables: SlotTable[] = readTables(program, { ...options, hadCalls: hadTabledCalls(program, record) }).map(
    (table) =>
      isPadding(program, table, decideSource(program, table, view), view) ? { ...table, role: 'padding' } : table,
  );
  if (program.image.sections.length === 0 && tables.length === 0) {
    const reader = new ShapeReader(program, 'patchable-table');
    const unnamed = (room: 'enough' | 'few'): SlotTable | null =>
      unnamedTable(program, ({ range, offset }) => {
        view.move(range, offset);
        return entryOf(view, reader.read(view), room);
      });
    // Nops in front of a function may hold the call, where its own have no room (RT-32).
    const table = unnamed('enough') ?? unnamed('few');
    if (table !== null) tables.push(table);
  }
  const own = tables.filter(({ role }) => role === 'sites');
  if (own.every((table) => decideSource(program, table, view) === 'mcount-table')) {
    const edited = (record?.edits ?? []).map(({ offset }) => offset);
    tellUnnamedEntry(program, edited);
    if (options.original) tellUnnamedEntry(options.original, []);
  }
  // Beside a table of padding the calls are the sites (-pg -mfentry without -mrecord-mcount).
  if (own.length === 0) {
    const calls = findCalls(program, options.signal);
    const before = options.original ? callsBefore(options.original, calls) : [];
    const recorded = recordedPlaces(program, record, [calls, ...before]);
    for (const table of [calls, ...before, recorded]) if (table.count > 0) tables = [...tables, table];
  }
  const sources = tables.map((table) => decideSource(program, table, view));
  // Calls that were nopped and taken out of their table are sites all the same.
  if (tables.some((table, i) => table.container >= 0 && table.zero > 0 && sources[i] === 'mcount-table')) {
    const recorded = recordedPlaces(program, record, tables);
    if (recorded.count > 0) {
      tables = [...tables, recorded];
      sources.push('mcount-table');
    }
  }
  return { tables, sources };
}

/** Where the slots of all tables lead, sorted by place. */
interface SlotColumns {
  readonly tableOf: Uint8Array<ArrayBuffer>;
  readonly slotOf: Uint32Array<ArrayBuffer>;
  /** Position of the range of code; -1: none. */
  readonly rangeOf: Int32Array<ArrayBuffer>;
  readonly anchors: BigUint64Array;
  /** In the range, bytes; -1 where there is none. */
  readonly offsets: Float64Array<ArrayBuffer>;
}

/** Ranges of code of a table's slots in a relocatable file, by the sections that they name. */
function rangesBySection({ code }: Program, { section, value }: SlotTable, into: Int32Array): void {
  const range: number[] = [];
  const size: number[] = [];
  for (const each of code) {
    range[each.section] = each.index;
    size[each.section] = each.bytes.length;
  }
  const words = halves(value);
  for (let slot = 0; slot < into.length; slot++) {
    const home = section[slot]!;
    // Sections that hold no code have no size.
    if (home > 0 && words[2 * slot + HIGH] === 0 && words[2 * slot + LOW]! < size[home]!) into[slot] = range[home]!;
  }
}

/** The same in a linked file, by addresses. */
function rangesByAddress(program: Program, { value }: SlotTable, into: Int32Array): void {
  const words = halves(value);
  let last: CodeRange | undefined;
  // The last range as halves: a bigint of each slot would cost more than all the rest.
  let [first, end, upper] = [0, -1, -1];
  for (let slot = 0; slot < into.length; slot++) {
    const low = words[2 * slot + LOW]!;
    const high = words[2 * slot + HIGH]!;
    if (low === 0 && high === 0) continue;
    if (high !== upper || low < first || low >= end) {
      last = program.codeAt(value[slot]!);
      first = last === undefined ? 0 : Number(last.address & 0xffff_ffffn);
      end = last === undefined ? -1 : first + last.bytes.length;
      // A range that goes on behind 4 GiB is asked for again each time.
      upper = last === undefined || end > 0x1_0000_0000 ? -1 : high;
    }
    if (last !== undefined) into[slot] = last.index;
  }
}

function placeSlots(program: Program, tables: readonly SlotTable[]): SlotColumns {
  const used = tables.map((table, index) => ({ table, index })).filter(({ table }) => table.role === 'sites');
  const total = used.reduce((sum, { table }) => sum + table.count, 0);

  let tableOf = new Uint8Array(total);
  let slotOf = new Uint32Array(total);
  let rangeOf = new Int32Array(total).fill(-1);
  // A table alone keeps its column.
  let anchors: BigUint64Array = used.length === 1 ? used[0]!.table.value : new BigUint64Array(total);
  let at = 0;
  for (const { table, index } of used) {
    const end = at + table.count;
    tableOf.fill(index, at, end);
    countUp(slotOf.subarray(at, end));
    if (anchors !== table.value) anchors.set(table.value, at);
    const ranges = rangeOf.subarray(at, end);
    if (program.relocatable) rangesBySection(program, table, ranges);
    else rangesByAddress(program, table, ranges);
    at = end;
  }
  const permutation = order(rangeOf, anchors);
  if (permutation) {
    tableOf = Uint8Array.from(permutation, (i) => tableOf[i]!);
    slotOf = Uint32Array.from(permutation, (i) => slotOf[i]!);
    const ranges = rangeOf;
    rangeOf = Int32Array.from(permutation, (i) => ranges[i]!);
    const old = anchors;
    anchors = new BigUint64Array(total);
    for (let i = 0; i < total; i++) anchors[i] = old[permutation[i]!]!;
  }
  return { tableOf, slotOf, rangeOf, anchors, offsets: offsetsOf(program, rangeOf, anchors) };
}

function countUp(column: Uint32Array): void {
  for (let i = 0; i < column.length; i++) column[i] = i;
}

/** Where each run of sites of one range of code begins, and where the last one ends. */
function runsOf(ranges: Int32Array): number[] {
  const begins: number[] = [];
  for (let i = 0; i < ranges.length; i++) if (i === 0 || ranges[i] !== ranges[i - 1]) begins.push(i);
  begins.push(ranges.length);
  return begins;
}

/** Anchors as offsets in their ranges. */
function offsetsOf({ code }: Program, ranges: Int32Array, anchors: BigUint64Array): Float64Array<ArrayBuffer> {
  const offsets = new Float64Array(ranges.length).fill(-1);
  const runs = runsOf(ranges);
  for (let run = 0; run + 1 < runs.length; run++) {
    const [from, to] = [runs[run]!, runs[run + 1]!];
    const range = code[ranges[from]!];
    if (range !== undefined) distances(anchors.subarray(from, to), range.address, offsets.subarray(from, to));
  }
  return offsets;
}

/** How far values are above a base. */
function distances(values: BigUint64Array, base: Address, into: Float64Array): void {
  const words = halves(values);
  const from = halves(BigUint64Array.of(base));
  for (let i = 0; i < into.length; i++) into[i] = distance(words, i, from, 0);
}

/** Whether there is nothing to say of a site's bytes. */
function isQuiet({ state, fault, nops, padBehind, shape }: SiteReading): boolean {
  const isFine = state === 'compiled' || state === 'nop';
  return isFine && fault === undefined && nops === undefined && padBehind !== true && shape.outOfLine !== true;
}

/** So many sites are read before it is asked whether to go on. */
const STEP = 0x1000;
/** Fewer sites of a range are read one by one: to compare them takes a list of its functions. */
const MANY = 32;

/** Values and small distances. Of halves: a million sites make no bigint. */
function sums(values: BigUint64Array, deltas: Int16Array): BigUint64Array {
  const added = values.slice();
  const words = halves(added);
  for (let i = 0; i < deltas.length; i++) {
    const delta = deltas[i]!;
    if (delta === 0) continue;
    const sum = words[2 * i + LOW]! + delta;
    words[2 * i + LOW] = sum;
    if (sum < 0) words[2 * i + HIGH]!--;
    else if (sum > 0xffff_ffff) words[2 * i + HIGH]!++;
  }
  return added;
}

/** The first of some sites that is of another table than the first one. */
function endOfTable(tableOf: Uint8Array, from: number, to: number): number {
  const table = tableOf[from]!;
  let end = from + 1;
  while (end < to && tableOf[end] === table) end++;
  return end;
}

/** Reads every placed slot with the shapes of its table's source, into columns by site. */
class SlotReader {
  readonly ipDelta: Int16Array;
  readonly startDelta: Int16Array;
  readonly shapeOf: Uint8Array;
  readonly stateOf: Uint8Array;
  readonly functionOf: Int32Array;
  readonly quiet: Uint8Array;
  /** What was read last, and of which site. */
  private last: SiteReading | null = null;
  private lastSite = -1;
  /** By table: sites without room for a call less those with it. */
  private readonly lacking: Int32Array;
  private readonly votes: readonly Map<SiteShape, number>[];
  private readonly repeated: RepeatedReadings;

  constructor(
    private readonly program: Program,
    private readonly view: ProgramView,
    private readonly found: Sources,
    private readonly columns: SlotColumns,
  ) {
    const total = columns.anchors.length;
    this.ipDelta = new Int16Array(total);
    this.startDelta = new Int16Array(total);
    this.shapeOf = new Uint8Array(total).fill(noShape);
    this.stateOf = new Uint8Array(total);
    this.functionOf = new Int32Array(total).fill(-1);
    this.quiet = new Uint8Array(total);
    this.lacking = new Int32Array(found.tables.length);
    this.votes = found.tables.map(() => new Map<SiteShape, number>());
    this.repeated = new RepeatedReadings(program, view);
  }

  private read(
    i: number,
    range: CodeRange,
    reader: ShapeReader,
    repeated: RepeatedReadings | null,
  ): SiteReading | null {
    const offset = this.columns.offsets[i]!;
    this.view.move(range, offset);
    const reading = repeated === null ? reader.read(this.view) : repeated.read(reader, range, offset);
    this.shapeOf[i] = reader.number;
    this.stateOf[i] = reading === null ? stateUnknown : stateIndex[reading.state];
    this.ipDelta[i] = reading === null ? 0 : reading.ipDelta;
    this.startDelta[i] = reading === null ? 0 : reading.startDelta;
    this.quiet[i] = reading === null || !isQuiet(reading) ? 0 : this.isLike(i, reading) ? LIKE : QUIET;
    this.last = reading;
    this.lastSite = i;
    return reading;
  }

  /** Whether the site in front reads so. */
  private isLike(i: number, reading: SiteReading): boolean {
    return reading === this.last && this.lastSite === i - 1;
  }

  /** Sites that read as the one that was noted. */
  private repeat(from: number, to: number, { reading, number }: RepeatedReadings['noted']): void {
    this.shapeOf.fill(number, from, to);
    this.stateOf.fill(stateIndex[reading.state], from, to);
    this.ipDelta.fill(reading.ipDelta, from, to);
    this.startDelta.fill(reading.startDelta, from, to);
    if (isQuiet(reading)) {
      this.quiet.fill(LIKE, from, to);
      if (!this.isLike(from, reading)) this.quiet[from] = QUIET;
    }
    this.last = reading;
    this.lastSite = to - 1;
  }

  readAll(signal: AbortSignal | undefined): void {
    const { rangeOf } = this.columns;
    const { program, found } = this;
    const readers = found.sources.map((source) => new ShapeReader(program, source));
    const runs = runsOf(rangeOf);
    for (let run = 0; run + 1 < runs.length; run++) {
      const range = program.code[rangeOf[runs[run]!]!];
      for (let from = runs[run]!; from < runs[run + 1]!; from += STEP) {
        signal?.throwIfAborted();
        const to = Math.min(from + STEP, runs[run + 1]!);
        if (range === undefined) this.passOver(from, to);
        else this.readRun(range, readers, from, to);
      }
      if (range !== undefined) this.placeRun(range, runs[run]!, runs[run + 1]!);
    }
  }

  /** Slots that name no code. */
  private passOver(from: number, to: number): void {
    const { tableOf, slotOf, anchors } = this.columns;
    const { tables } = this.found;
    for (let i = from; i < to; i++) {
      const empty = this.program.relocatable ? tables[tableOf[i]!]!.section[slotOf[i]!] === -1 : anchors[i] === 0n;
      this.stateOf[i] = empty ? stateZero : stateOutside;
    }
  }

  private readRun(range: CodeRange, readers: readonly ShapeReader[], from: number, to: number): void {
    const { tableOf, offsets } = this.columns;
    const repeated = to - from < MANY ? null : this.repeated;
    let endOfThese = from;
    for (let i = from; i < to;) {
      const table = tableOf[i]!;
      const reader = readers[table]!;
      if (i >= endOfThese) endOfThese = endOfTable(tableOf, i, to);
      const end = repeated?.behind(reader, range, offsets, i, endOfThese) ?? i;
      if (end > i) {
        const { noted } = this.repeated;
        this.repeat(i, end, noted);
        this.count(noted.reading, table, end - i);
        i = end;
      } else {
        const reading = this.read(i, range, reader, repeated);
        if (reading !== null) this.count(reading, table, 1);
        i++;
      }
    }
  }

  /** What so many sites of a table say of it. */
  private count({ nops, state, shape }: SiteReading, table: number, sites: number): void {
    if (nops === 'few' || nops === 'front') this.lacking[table]! += sites;
    else if (state !== 'foreign') this.lacking[table]! -= sites;
    if (shape.family === undefined || state === 'foreign') return;
    const votes = this.votes[table]!;
    votes.set(shape, (votes.get(shape) ?? 0) + sites);
  }

  /** The functions that sites of a range lie in. */
  private placeRun({ section }: CodeRange, from: number, to: number): void {
    const { program, ipDelta } = this;
    const anchors = this.columns.anchors.subarray(from, to);
    const deltas = ipDelta.subarray(from, to);
    const ips = deltas.every((each) => each === 0) ? anchors : sums(anchors, deltas);
    program.functions.atEach(program.relocatable ? section : -1, ips, this.functionOf.subarray(from, to));
  }

  /**
   * Sites of shapes that few of a table have are read again without those.
   * @returns the shapes that each table has no sites of
   */
  dropMinorities(): readonly ReadonlySet<SiteShape>[] {
    const { program } = this;
    const { siteShapes } = program.arch;
    const { tableOf, rangeOf } = this.columns;
    const excluded = this.votes.map((each) => (each.size > 0 ? minorities(siteShapes, each) : none));
    if (excluded.every((each) => each.size === 0)) return excluded;
    const readers = excluded.map((lost, table) => new ShapeReader(program, this.found.sources[table]!, lost));
    for (let i = 0; i < rangeOf.length; i++) {
      const shape = siteShapes[this.shapeOf[i]!];
      if (rangeOf[i]! < 0 || shape === undefined || !excluded[tableOf[i]!]!.has(shape)) continue;
      const range = program.code[rangeOf[i]!]!;
      this.read(i, range, readers[tableOf[i]!]!, null);
      this.placeRun(range, i, i + 1);
      if (this.quiet[i + 1] === LIKE) this.quiet[i + 1] = QUIET;
    }
    return excluded;
  }

  /** Tables most of whose sites have nops in no number or place that a call can use. */
  dropUnusable(): readonly boolean[] {
    const { stateOf } = this;
    const { tableOf } = this.columns;
    const { sources } = this.found;
    const unusable = sources.map((source, table) => source === 'patchable-table' && this.lacking[table]! > 0);
    if (!unusable.includes(true)) return unusable;
    for (let i = 0; i < stateOf.length; i++) {
      if (!unusable[tableOf[i]!]) continue;
      if (stateOf[i] === stateIndex.compiled) stateOf[i] = stateIndex.foreign;
      this.quiet[i] = 0;
    }
    return unusable;
  }
}

/**
 * Finds the sites of a program.
 * @throws ElftraceError for tables that cannot be read; sites that are wrong are results, not
 *   errors
 */
export function findSites(program: Program, options: FindOptions = {}): Sites {
  const view = new ProgramView(program);
  const record = options.record ?? readRecord(program.image);
  const found = sourcesOf(program, view, record, options);
  const columns = placeSlots(program, found.tables);
  const reader = new SlotReader(program, view, found, columns);
  reader.readAll(options.signal);
  const excluded = reader.dropMinorities();
  const unusable = reader.dropUnusable();
  return new Sites(
    program,
    found.tables,
    found.sources,
    columns.tableOf,
    columns.slotOf,
    columns.rangeOf,
    columns.anchors,
    columns.offsets,
    reader.ipDelta,
    reader.startDelta,
    reader.shapeOf,
    reader.stateOf,
    reader.functionOf,
    view,
    unusable,
    excluded,
    new Set(record?.untraced),
    reader.quiet,
  );
}
