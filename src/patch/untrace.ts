/**
 * Untracing: the tables of a file name the selected functions no more, and nothing is called in
 * them. No kernel that loads the file can trace them, and everything else is what it was. Decides
 * which sites go and what their code becomes; the tables themselves are the business of
 * `shrink-table.ts` (relocatable files) and `empty-slots.ts` (linked ones).
 *
 *   code of the site            slot                               code afterwards
 *   call of the profiling entry goes                               nop: the kernel would have made
 *                                                                  it one, from the table
 *   nops                        goes                               the same
 *   anything else               stays, and the site is refused     the same
 */
import type { SiteReading } from '../machine/sites.js';
import { equalBytes } from '../bytes.js';
import { ElftraceError, hex } from '../errors.js';
import { ascending } from '../elf/lookup.js';
import { readElf } from '../elf/read.js';
import { checkAgrees, type FileRecord, readRecord } from '../record/journal.js';
import { withoutCarrier } from './undo.js';
import { planEmptySlots } from './empty-slots.js';
import type { Plan, PlanRequest, Refusal, Step, TableStep } from './plan.js';
import { planSites } from './plan-sites.js';
import { planWith, sitesWritten } from './step-columns.js';
import { planShrinking, type SlotsToDrop } from './shrink-table.js';
import type { CodeRange, Program } from '../program/program.js';
import { plainSites } from '../sites/plain.js';
import { LIKE } from '../sites/site-states.js';
import type { Sites } from '../sites/sites.js';
import { judge, type VerifyOptions } from '../sites/verdicts.js';
import type { Address, SiteIndex } from '../units.js';

export interface UntraceRequest extends Pick<
  PlanRequest,
  'selection' | 'readonlyRanges' | 'strictPermissions' | 'recorded' | 'signal'
> {
  /**
   * The record inside the file, where the caller has read it: what is a table in the original is
   * changed there.
   */
  readonly record?: FileRecord | null;
}

/** How a plan and a record name the request. */
const untraceRequest = 'untrace';

/** Sections of code that a kernel throws away when it has started. */
const initText = '.init.text';

/** True when the code at a site calls nothing: nops, whatever else may be wrong with the place. */
function callsNobody(sites: Sites, site: SiteIndex, reading: SiteReading | null): boolean {
  if (reading === null) return false;
  if (reading.state === 'nop') return true;
  if (reading.state !== 'foreign') {
    return reading.state === 'compiled' && reading.target === null && reading.relocationDeltas.length === 0;
  }
  // An area of nops that has no room for a call: none was ever made there.
  if (reading.fault === 'unsupported') return true;
  const { expected, startDelta } = reading;
  if (reading.fault !== 'misaligned' || expected === undefined) return false;
  return equalBytes(sites.viewOf(site).bytes(startDelta, expected.length), expected);
}

/** Which sites a request is about. */
interface Chosen {
  /** Nonzero: its code is to become nops. */
  readonly calls: Uint8Array;
  /** Nonzero: only its slot goes. */
  readonly quiet: Uint8Array;
  /** The site before it names the same place: what becomes of that becomes of it. */
  readonly again: Uint8Array;
}

function choose(sites: Sites, request: UntraceRequest): Chosen {
  const [calls, quiet, again] = [0, 1, 2].map(() => new Uint8Array(sites.count));
  const options: VerifyOptions = request.recorded ? { recorded: request.recorded } : {};
  const plain = request.recorded ? null : plainSites(sites);
  for (let i = 0; i < sites.count; i++) {
    if ((i & 0xfff) === 0) request.signal?.throwIfAborted();
    if (request.selection && !request.selection[i]) continue;
    // What was said of the site in front of it holds where that was a plain one, too.
    if (plain !== null && plain[i] === LIKE && plain[i - 1] !== 0 && calls![i - 1] !== quiet![i - 1]) {
      calls![i] = calls![i - 1]!;
      quiet![i] = quiet![i - 1]!;
      continue;
    }
    const reading = sites.reading(i);
    const { verdict } = judge(sites, i, options, reading);
    // A pattern never names what has no name; without one everything goes.
    if (verdict === 'zero-entry' || (verdict === 'weak-leftover' && request.selection)) continue;
    if (verdict === 'duplicate' && (calls![i - 1] || quiet![i - 1] || again![i - 1])) again![i] = 1;
    else if (verdict !== 'state-mismatch' && callsNobody(sites, i, reading)) quiet![i] = 1;
    else calls![i] = 1;
  }
  return { calls: calls!, quiet: quiet!, again: again! };
}

/** A table's slots that go, by the number of the table. */
function slotsToDrop(sites: Sites, accepted: Uint8Array): Map<number, Uint8Array> {
  const drop = sites.tables.map(({ count }) => new Uint8Array(count));
  const isInFile = sites.tables.map((each) => each.isInFile);
  for (let i = 0; i < accepted.length; i++) {
    const table = sites.tablePosition(i);
    if (accepted[i] !== 0 && isInFile[table]!) drop[table]![sites.slot(i)] = 1;
  }
  return new Map([...drop.entries()].filter(([, slots]) => slots.includes(1)));
}

/**
 * Slots of relocatable files: empty ones go with the others, since a table of empty slots is a
 * table without a site.
 */
function shrinkingOf(sites: Sites, drop: ReadonlyMap<number, Uint8Array>, record: FileRecord | null): TableStep[] {
  const wanted: SlotsToDrop[] = [...drop].map(([index, slots]) => {
    const { container, section, count } = sites.tables[index]!;
    for (let i = 0; i < count; i++) if (section[i] === -1) slots[i] = 1;
    return { section: container, drop: slots };
  });
  const { image } = sites.program;
  if (record !== null) checkAgrees(record, image.bytes);
  return planShrinking(record === null ? image : readElf(withoutCarrier(image, record)), wanted);
}

/**
 * A kernel's own table must keep a site that stays when the kernel has started: with none left its
 * list of pages of records is empty, and what walks that reads in front of a page.
 */
function checkOneStays(sites: Sites, accepted: Uint8Array): void {
  const kernel = sites.tables.findIndex(({ name }) => name === '__start_mcount_loc');
  if (kernel < 0) return;
  for (let i = 0; i < sites.count; i++) {
    const range = sites.codeRange(i);
    if (!accepted[i] && range && range.name !== initText && sites.table(i) === sites.tables[kernel]) return;
  }
  throw new ElftraceError(
    'unsupported-form',
    `a kernel cannot do without any site outside ${initText}: leave one out of the selection (-n FUNCTION)`,
    { what: '__start_mcount_loc' },
  );
}

function checkWritable(steps: readonly Step[], { readonlyRanges }: UntraceRequest): void {
  for (const { fileOffset, before } of steps) {
    const end = fileOffset + before.length;
    const hit = readonlyRanges?.find((each) => fileOffset < each.end && each.start < end);
    if (hit === undefined) continue;
    throw new ElftraceError(
      'plan-refused',
      `the table lies at ${hex(fileOffset)}..${hex(end)} of the file, which may not be written`,
      { fileOffset, what: 'table' },
    );
  }
}

/**
 * Decides what makes the selected functions untraceable. The table and its relocations shrink in
 * relocatable files; in linked ones slots get what the kernels of the machine skip.
 * @returns steps sorted by file position; a site that is neither a known call nor nops is refused
 *   and keeps its slot
 * @throws ElftraceError 'unsupported-form' where no slot value would do, or where the file depends
 *   on the table; 'plan-refused' for ranges that may not
 *         be written
 */
export function planUntrace(sites: Sites, request: UntraceRequest = {}): Plan {
  const { program } = sites;
  const record = request.record === undefined ? readRecord(program.image) : request.record;
  if (program.loadMap !== null) {
    throw new ElftraceError(
      'unsupported-form',
      'an image that was laid out for tracing is no file that a kernel loads: untrace the files that it was made of',
      { what: '.elftrace.map' },
    );
  }
  const { calls, quiet, again } = choose(sites, request);
  const { selection: _, ...common } = request;
  const code = planSites(sites, {
    ...common,
    to: { kind: 'nop' },
    name: untraceRequest,
    selection: calls,
    leftovers: true,
  });
  const accepted = acceptedSites(sites, { calls, quiet, again }, code.refusals);
  checkOneStays(sites, accepted);
  const drop = slotsToDrop(sites, accepted);
  const inTables = program.relocatable ? shrinkingOf(sites, drop, record) : planEmptySlots(sites, drop);
  checkWritable(inTables, request);
  const { untraced, changed, ...rest } = untracedPlaces(sites, accepted, sitesWritten(code, sites.count));
  const selected = code.refusals.length + rest.accepted;
  return planWith(code, inTables, {
    target: program.arch.target.id,
    request: untraceRequest,
    refusals: code.refusals,
    selected,
    changed,
    unchanged: selected - changed - code.refusals.length,
    untraced: ascending(untraced),
  });
}

/** Where the sites are that change, or whose slots do, and how many were accepted. */
function untracedPlaces(
  sites: Sites,
  accepted: Uint8Array,
  written: Uint8Array,
): { readonly untraced: readonly number[]; readonly changed: number; readonly accepted: number } {
  // At once as long as it can be: an array that grows leaves its shorter forms behind.
  const untraced = new Array<number>(accepted.length);
  const isInFile = sites.tables.map((each) => each.isInFile);
  const { ipDelta } = sites;
  let count = 0;
  let changed = 0;
  for (let i = 0; i < accepted.length; i++) {
    if (accepted[i] === 0) continue;
    count++;
    if (written[i] === 0 && !isInFile[sites.tablePosition(i)]!) continue;
    untraced[changed++] = sites.fileOffset(i) + ipDelta[i]!;
  }
  untraced.length = changed;
  return { untraced, changed, accepted: count };
}

/**
 * Sites whose slots go: those whose code calls nothing, those whose calls become nops, and slots
 * that name one of these again.
 */
function acceptedSites(sites: Sites, { calls, quiet, again }: Chosen, refusals: readonly Refusal[]): Uint8Array {
  const refused = new Set(refusals.map(({ site }) => site));
  const accepted = new Uint8Array(sites.count);
  for (let i = 0; i < sites.count; i++) {
    if (quiet[i] || (calls[i] && !refused.has(i)) || (again[i] && accepted[i - 1])) accepted[i] = 1;
  }
  return accepted;
}

/** A function that the tables of a file named once. */
export interface UntracedFunction {
  readonly name: string;
  readonly range: CodeRange;
  /** Where its site was. */
  readonly ip: Address;
}

/** The functions that a record says were untraced, in the order of the file. */
export function untracedFunctions(program: Program, record: FileRecord | null): UntracedFunction[] {
  return (record?.untraced ?? []).flatMap((offset) => {
    const range = program.code.find(
      ({ fileOffset, bytes }) => offset >= fileOffset && offset < fileOffset + bytes.length,
    );
    if (range === undefined) return [];
    const ip = range.address + BigInt(offset - range.fileOffset);
    return [{ name: program.symbolName(program.functionAt(range, ip)), range, ip }];
  });
}
