/**
 * Reads the bytes at all slots into columns by site, and learns of each table what its sites say
 * together.
 */
import { halves, HIGH, LOW } from '../elf/lookup.js';
import type { SiteReading, SiteShape, SiteSource } from '../machine/sites.js';
import type { CodeRange, Program } from '../program/program.js';
import { RepeatedReadings } from './repeated-readings.js';
import { minorities, none, ShapeReader } from './shape-reader.js';
import { LIKE, noShape, QUIET, stateIndex, stateOutside, stateUnknown, stateZero } from './site-states.js';
import { runsOf } from './slot-columns.js';
import type { SlotColumns } from './slot-columns.js';
import type { SlotTable } from './tables.js';
import type { ProgramView } from './view.js';

/** Tables whose slots are read, and of what kind each is. */
export interface Sources {
  readonly tables: readonly SlotTable[];
  readonly sources: readonly SiteSource[];
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
export class SlotReader {
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
