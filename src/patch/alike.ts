/**
 * Sites that are planned as the one in front of them is. In a relocatable file nearly all sites
 * have the same bytes, the same relocation and nothing to be said of them: what was decided about
 * the first holds for those behind it, as far as they are like it (`SiteChange.alike`). Their steps
 * are made column by column, in loops that are short enough for V8 to compile at once.
 */
import type { SiteChange } from '../machine/sites.js';
import { lowerBoundFrom } from '../elf/lookup.js';
import type { CodeRange, PlacedRelocations } from '../program/program.js';
import type { SiteIndex } from '../units.js';
import { otherRanges } from '../sites/overlaps.js';
import { plainSites } from '../sites/plain.js';
import { LIKE } from '../sites/site-states.js';
import type { Sites } from '../sites/sites.js';
import type { PlanRequest } from './plan.js';
import type { BytePairs } from '../record/edit-columns.js';
import type { StepMaker } from './site-steps.js';
import { type GrowingSteps, rowBytes } from './step-columns.js';

export class AlikeSites {
  /** Null: each site is decided about by itself. */
  private readonly plain: Uint8Array | null;
  /** The range of the last question, and whether its sites may be planned together. */
  private last: CodeRange | null = null;
  private isLastFree = false;

  constructor(
    private readonly sites: Sites,
    private readonly request: PlanRequest,
    private readonly maker: StepMaker,
  ) {
    const { to, recorded, leftBehind, module } = request;
    const isOneState = typeof to !== 'function' && to.kind !== 'call';
    const isOfBytesAlone = recorded === undefined && leftBehind === undefined && module === undefined;
    const { program } = sites;
    // What others patch may lie in any site.
    const isAlone = program.relocatable && isOneState && isOfBytesAlone && otherRanges(program).list.length === 0;
    this.plain = isAlone ? plainSites(sites) : null;
  }

  /**
   * Plans the sites behind one as it was planned, as far as they are like it.
   * @param change  what was decided about it, and made steps of last
   * @param most  so many sites
   * @returns the first site that is not planned
   */
  planBehind(site: SiteIndex, change: SiteChange, range: CodeRange, most: number): SiteIndex {
    const { stores, neutralise } = change;
    const { writer } = this.maker;
    const first = site + 1;
    let end = this.behind(site, change, range, Math.min(first + most, this.sites.count));
    if (end === first) return first;
    if (stores.length === 0 && neutralise.length === 0) return end;
    if (stores.length !== 1 || neutralise.length > 1 || !writer.isPlain(neutralise.length)) return first;
    const { offset } = this.sites;
    const { delta, before } = stores[0]!;
    end = behindSame(range.bytes, offset, first, end, delta, before);
    if (neutralise.length === 1) end = this.rowsBehind(first, end, range, neutralise[0]!);
    writer.stores.more(end - first);
    fillPlaces(writer.stores, offset, first, end, range.fileOffset + delta);
    return end;
  }

  /** The first site behind one that does not read as it does. */
  private behind(site: SiteIndex, { alike }: SiteChange, range: CodeRange, limit: number): SiteIndex {
    const { plain, sites } = this;
    const { selection } = this.request;
    let next = site + 1;
    if (plain === null || plain[site] === 0 || plain[next] !== LIKE || alike !== true) return next;
    if (range !== this.last) {
      this.last = range;
      this.isLastFree = this.maker.isFree(range);
    }
    if (!this.isLastFree) return next;
    const { range: ranges } = sites;
    while (next < limit && plain[next] === LIKE && ranges[next] === range.index) {
      if (selection !== undefined && selection[next] === 0) break;
      next++;
    }
    return next;
  }

  /**
   * Rows of the relocations of sites, which become what the last one does.
   * @returns the first site that has another relocation there, or several
   */
  private rowsBehind(from: SiteIndex, to: SiteIndex, { section }: CodeRange, delta: number): SiteIndex {
    const { writer } = this.maker;
    const { rows, pairs } = writer;
    const table = writer.lastTable();
    if (table === null) return from;
    const { program, offset } = this.sites;
    const placed = program.relocationsOf(section);
    const pair = rows.pair[rows.count - 1]!;
    rows.more(to - from);
    const first = table.fileOffset(0) + program.image.wordBytes;
    const end = fillRows(rows, placed, table, first, offset, from, to, delta);
    const count = sameRows(rows, end - from, pairs, pair, program.image.bytes);
    rows.count += count;
    return from + count;
  }
}

/** The first of the sites whose code has other bytes. */
function behindSame(
  code: Uint8Array,
  offsets: Float64Array,
  from: SiteIndex,
  to: SiteIndex,
  delta: number,
  bytes: Uint8Array,
): SiteIndex {
  const { length } = bytes;
  for (let site = from; site < to; site++) {
    const at = offsets[site]! + delta;
    for (let i = 0; i < length; i++) if (code[at + i] !== bytes[i]) return site;
  }
  return to;
}

/** Steps of sites, behind the last that counts. */
function fillPlaces(steps: GrowingSteps, offsets: Float64Array, from: SiteIndex, to: SiteIndex, start: number): void {
  const { site, offset, count } = steps;
  for (let i = from, at = count; i < to; i++, at++) {
    site[at] = i;
    offset[at] = start + offsets[i]!;
  }
  steps.count += to - from;
}

/**
 * Steps about the rows of the only relocation of each site at a delta, behind the last that counts.
 * @param first  file position of what the first row of the table is changed at
 * @returns the first site whose relocation is another table's, or not the only one
 */
function fillRows(
  { site, offset, count }: GrowingSteps,
  placed: PlacedRelocations,
  table: PlacedRelocations['tables'][number],
  first: number,
  offsets: Float64Array,
  from: SiteIndex,
  to: SiteIndex,
  delta: number,
): SiteIndex {
  const { offset: places, table: tableOf, row: rowOf } = placed;
  const number = placed.tables.indexOf(table);
  const step = rowBytes(table);
  let rank = 0;
  for (let i = from, at = count; i < to; i++, at++) {
    const place = offsets[i]! + delta;
    if (places[rank] !== place) rank = lowerBoundFrom(placed.offset, place, rank);
    if (places[rank] !== place || places[rank + 1] === place || tableOf[rank] !== number) return i;
    site[at] = i;
    offset[at] = first + step * rowOf[rank]!;
    rank++;
  }
  return to;
}

/** How many rows from the first one behind those that count hold what a pair has before. */
function sameRows(
  { offset, count }: GrowingSteps,
  most: number,
  pairs: BytePairs,
  pair: number,
  bytes: Uint8Array,
): number {
  let i = 0;
  while (i < most && pairs.holds(pair, bytes, offset[count + i]!)) i++;
  return i;
}
