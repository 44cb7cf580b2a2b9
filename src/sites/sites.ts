/**
 * Finding sites: slots of the tables, or calls where there is no table, each with the shape and
 * state of its bytes.
 *
 * After `findSites` every site of the result has an anchor; those that name code have a shape index
 * (or none fits) and a state. Sites are sorted by code range and anchor, unplaced ones last.
 * Columns, because kernels have 60,000 of them; `Site` objects are views made on demand.
 */
import { halves, HIGH, LOW } from '../elf/lookup.js';
import type { SiteReading, SiteShape, SiteSource } from '../machine/sites.js';
import { type CodeRange, probeSections, type Program } from '../program/program.js';
import type { Address, Column, CodeIndex, SiteIndex, SymbolIndex } from '../units.js';
import { type CallTest, findMcountCalls, type McountMachine } from './mcount-table.js';
import { type FileRecord, readRecord } from '../record/journal.js';
import { ShapeReader } from './shape-reader.js';
import { noShape, type SiteState, stateNames } from './site-states.js';
import { RepeatedReadings } from './repeated-readings.js';
import { SiteStubs } from './site-stubs.js';
import { placeSlots } from './slot-columns.js';
import { SlotReader, type Sources } from './slot-reader.js';
import { otherRanges } from './overlaps.js';
import { readTables, type SlotTable, type TableOptions } from './tables.js';
import { tellUnnamedEntry } from './unnamed-entry.js';
import { type Entry, unnamedTable } from './unnamed-table.js';
import { ProgramView } from './view.js';

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
  /** Anchors as halves. */
  private anchorWords: Uint32Array | undefined;
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
    const words = (this.anchorWords ??= halves(this.anchor));
    const wantedLow = Number(BigInt.asUintN(32, value));
    const wantedHigh = Number(value >> 32n);
    const isBelow = (i: number): boolean => {
      const here = words[2 * i + HIGH]!;
      return here < wantedHigh || (here === wantedHigh && words[2 * i + LOW]! < wantedLow);
    };
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      // Unplaced sites, of range -1, are behind all others.
      const range = this.range[middle]! >>> 0;
      if (range < index || (range === index && isBelow(middle))) low = middle + 1;
      else high = middle;
    }
    if (low === this.count || this.range[low] !== index) return false;
    return words[2 * low + LOW] === wantedLow && words[2 * low + HIGH] === wantedHigh;
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

/** How many slots are read, from all over the table, to decide what it names. */
const sampleSize = 256;

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
