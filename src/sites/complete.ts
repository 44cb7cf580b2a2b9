/**
 * Functions that a site table lacks: they begin as the functions of the table do, and no slot names
 * them. Owns what counts as such a beginning. A function without a pad or call (`notrace`) is none,
 * and neither is one that only looks so where the image's other sites are somewhere else.
 *
 * Few nops may be a function's own: linkers relax the first half of an address to one, and feature
 * sections leave them. In linked files they count only where that cannot be, see `isEvident`.
 *
 *   f:  90 90 90 90 90   slot       what f, g, … have at +0 (or, behind landing pads, at +4) is
 *   g:  90 90 90 90 90   slot       what a site of this image begins with
 *   h:  90 90 90 90 90   -          pad-without-slot
 *
 * Rule M-PAD-3 of the specification.
 */
import { STT_FUNC } from '../elf/constants.js';
import { distance, halves } from '../elf/lookup.js';
import type { SiteReading } from '../machine/sites.js';
import type { CodeRange } from '../program/program.js';
import { slotLoser } from './compilers.js';
import { isTracedSection } from './mcount-table.js';
import { otherRanges } from './overlaps.js';
import type { Sites } from './sites.js';
import type { SiteIndex, SymbolIndex } from '../units.js';

/** A place that should have a slot. */
export interface UnlistedSite {
  readonly range: CodeRange;
  /** What the slot would name: address, or offset in the section. */
  readonly anchor: bigint;
  readonly symbol: SymbolIndex;
  readonly shape: SiteReading['shape'];
  /** Least instructions of the machine that its bytes have room for. */
  readonly nops: number;
  /** Position in `Sites.tables` of the table whose sites look so. */
  readonly table: number;
}

/** Where sites of one table lie in their functions, and what they are. */
interface Form {
  readonly table: number;
  /** Bytes from the entry that every call passes to the anchor. */
  readonly delta: number;
  readonly shape: SiteReading['shape'];
  readonly startDelta: number;
  count: number;
}

function isForm(form: Form, table: number, delta: number, shape: Form['shape'], startDelta: number): boolean {
  return form.delta === delta && form.startDelta === startDelta && form.shape === shape && form.table === table;
}

/** A form that fewer sites of a table have may be that of one odd function. */
const LEAST_SHARE = 1 / 50;

/** Instructions of a pad that no function begins with by chance. */
const EVIDENT_NOPS = 4;

/** First instruction of a function that every call passes. */
function entryOf({ program }: Sites, symbol: SymbolIndex, start: bigint): bigint {
  return start + BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
}

/**
 * What the sites of an image look like, and which places are named: a row of the functions by a
 * mark, anything else by a search among the sorted anchors, which few functions need.
 */
class Listed {
  private readonly marked: Uint8Array;
  /** Starts of labels with a site. */
  private readonly labels = new Set<bigint>();
  private readonly totals: number[];
  readonly forms: readonly Form[];

  constructor(private readonly sites: Sites) {
    this.marked = new Uint8Array(sites.program.functions.functions.count);
    this.totals = sites.tables.map(() => 0);
    this.forms = this.countForms().filter(({ table, count }) => count >= LEAST_SHARE * this.totals[table]!);
  }

  /** Marks what has a slot, and counts where the sites of functions lie in them. */
  private countForms(): Form[] {
    const { sites, marked } = this;
    const { functions, symbols, arch } = sites.program;
    const rows = functions.functions;
    const { range, startDelta: startDeltas } = sites;
    const isOfTable = sites.tables.map((_, table) => this.isOfTable(table));
    const starts = halves(rows.start);
    const anchors = halves(sites.anchor);
    const forms: Form[] = [];
    let last: Form | undefined;
    for (let i = 0; i < sites.count; i++) {
      const symbol = range[i]! < 0 ? -1 : sites.functionSymbol(i);
      if (symbol < 0) continue;
      const row = rows.rowOf(symbol);
      // Whatever its slot names: the function has one.
      if (row >= 0) marked[row] = 1;
      else if (!this.markLabel(i, symbol)) continue;
      const table = sites.tablePosition(i);
      const shape = sites.shapeAt(i);
      if (shape === undefined || !isOfTable[table]! || sites.state(i) === 'foreign') continue;
      this.totals[table]!++;
      const entry = arch.abi.localEntryOffset(symbols.other[symbol]!);
      const delta =
        row < 0
          ? Number(sites.anchor[i]! - functions.placeOf(symbol)!.value) - entry
          : distance(anchors, i, starts, row) - entry;
      const startDelta = startDeltas[i]!;
      // Most sites look as the one in front of them does.
      if (last === undefined || !isForm(last, table, delta, shape, startDelta)) {
        last = forms.find((form) => isForm(form, table, delta, shape, startDelta));
        if (last === undefined) forms.push((last = { table, delta, shape, startDelta, count: 0 }));
      }
      last.count++;
    }
    return forms;
  }

  /** Marks the label that a site lies behind; false where none is known. */
  private markLabel(site: SiteIndex, symbol: SymbolIndex): boolean {
    const start = this.sites.program.functions.placeOf(symbol)?.value;
    if (start !== undefined) this.labels.add(this.key(this.sites.codeRange(site)!, start));
    return start !== undefined;
  }

  /** Sites that were found by their bytes are all that there are. */
  private isOfTable(table: number): boolean {
    return this.sites.tables[table]!.container >= 0 && this.sites.sources[table] !== 'call';
  }

  /** A number of its own for each place. */
  private key(range: CodeRange, value: bigint): bigint {
    return this.sites.program.relocatable ? (value << 32n) | BigInt(range.index) : value;
  }

  /** Whether a slot leads into a function. */
  isMarked(row: number): boolean {
    return this.marked[row] === 1;
  }

  /** Whether a slot names the start of a function, or leads into it. */
  hasFunction(row: number, range: CodeRange): boolean {
    return this.isMarked(row) || this.has(range, this.sites.program.functions.functions.start[row]!);
  }

  /** Whether a slot names the place, or the function that begins there has one. */
  has(range: CodeRange, value: bigint): boolean {
    const { program } = this.sites;
    if (this.sites.isAnchor(range, value)) return true;
    if (this.labels.size > 0 && this.labels.has(this.key(range, value))) return true;
    const symbol = program.functionStarting(range, value);
    const row = symbol < 0 ? -1 : program.functions.functions.rowOf(symbol);
    return row >= 0 && this.marked[row] === 1;
  }
}

/**
 * Slots of each table that name no place of their own: emptied ones, ones that name no code or what
 * another slot names. Each may be that of a function which seems to have none, and says so itself.
 */
function slotsAstray(sites: Sites): number[] {
  const astray = sites.tables.map(() => 0);
  for (let i = 0; i < sites.count; i++) {
    const state = sites.state(i);
    const repeated = i > 0 && sites.range[i] === sites.range[i - 1] && sites.anchor[i] === sites.anchor[i - 1];
    if (state === 'zero' || state === 'outside' || state === 'unknown' || repeated) {
      astray[sites.tablePosition(i)]!++;
    }
  }
  return astray;
}

/**
 * Functions with a pad or call of the image's own form that no slot names, in order of their
 * places. Empty for images without a table, without functions of known size, and where slots that
 * lost their place account for all of them.
 */
export function unlistedSites(sites: Sites): UnlistedSite[] {
  const { program } = sites;
  if (!program.namesFunctions) return [];
  const listed = new Listed(sites);
  if (listed.forms.length === 0) return [];
  const { functions } = program.functions;
  const rangeOf = (row: number): CodeRange | undefined =>
    program.relocatable ? program.codeOfSection(functions.section[row]!) : program.codeAt(functions.start[row]!);
  const isListed = (row: number): boolean => {
    const range = row < 0 || row >= functions.count ? undefined : rangeOf(row);
    return range !== undefined && listed.hasFunction(row, range);
  };
  const found: UnlistedSite[] = [];
  for (let row = 0; row < functions.count; row++) {
    if (listed.isMarked(row)) continue;
    const symbol = functions.symbol[row]!;
    if ((program.symbols.info[symbol]! & 15) !== STT_FUNC || program.symbols.size[symbol] === 0n) continue;
    const range = rangeOf(row);
    if (range === undefined || listed.hasFunction(row, range)) continue;
    const entry = entryOf(sites, symbol, functions.start[row]!);
    const unlisted = unlistedIn(sites, listed, range, symbol, entry, functions.end[row]!);
    if (unlisted === null) continue;
    if (isEvident(sites, unlisted, () => isListed(row - 1) && isListed(row + 1))) found.push(unlisted);
  }
  if (found.length === 0) return found;
  const astray = slotsAstray(sites);
  const lost = sites.tables.map((_, table) => found.filter((each) => each.table === table).length);
  return found.filter(({ table }) => lost[table]! > astray[table]!);
}

/**
 * Whether the bytes are a pad and no nops of the function's own. In relocatable files nothing is
 * relaxed yet. In linked ones calls of the profiling entry and pads of several nops speak for
 * themselves; two nops where a compiler is named that loses slots, or between two functions that
 * have theirs (whole files are compiled without pads); one nop never.
 */
function isEvident(sites: Sites, { shape, nops }: UnlistedSite, isBetweenListed: () => boolean): boolean {
  const { program } = sites;
  if (program.relocatable || nops >= EVIDENT_NOPS || shape.sources.includes('call')) return true;
  return shape.outOfLine !== true && (slotLoser(program.image) !== null || isBetweenListed());
}

function unlistedIn(
  sites: Sites,
  listed: Listed,
  range: CodeRange,
  symbol: SymbolIndex,
  entry: bigint,
  end: bigint,
): UnlistedSite | null {
  for (const { table, delta, shape, startDelta } of listed.forms) {
    // Calls of other sections get no slot by design (M-REC-2).
    if (sites.sources[table] === 'mcount-table' && !isTracedSection(range.name)) continue;
    const anchor = entry + BigInt(delta);
    const offset = Number(anchor - range.address);
    if (offset < 0 || offset >= range.bytes.length || listed.has(range, anchor)) continue;
    const reading = sites.readingAt(range, offset, table);
    if (reading?.shape !== shape || reading.state !== 'compiled' || reading.startDelta !== startDelta) continue;
    const stop = anchor + BigInt(reading.startDelta + reading.sizeBytes);
    if (stop > end || sites.untraced.has(range.fileOffset + offset + reading.ipDelta)) continue;
    if (reading.nops !== undefined || reading.padBehind === true) continue;
    // What another mechanism patches is no pad of this one.
    const section = sites.program.relocatable ? range.section : -1;
    if (otherRanges(sites.program).overlapping(section, anchor + BigInt(reading.startDelta), stop) !== null) continue;
    const nops = reading.sizeBytes / sites.program.arch.target.codeAlignBytes;
    return { range, anchor, symbol, shape, nops, table };
  }
  return null;
}
