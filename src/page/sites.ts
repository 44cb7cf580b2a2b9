/**
 * Sites of files as rows of a page: place, verdict, code before and after, way. Files come one
 * after the other, and nothing of one is kept when the next comes.
 */
import { demangle } from '../demangle/index.js';
import { hex, hexBytes } from '../errors.js';
import { type Disassembler, loadDisassembler } from '../isa/disassembler.js';
import type { SiteReading } from '../machine/sites.js';
import type { FileRecord } from '../record/journal.js';
import type { CodeRange } from '../program/program.js';
import { verdictPages } from '../report/verdict-pages.js';
import type { Sites } from '../sites/sites.js';
import { type Finding, type Verdict, verdictSeverity, verify, type Verification } from '../sites/verdicts.js';
import type { Address } from '../units.js';
import { visibleLine } from '../visible.js';
import { type Columns, unsigned } from './columns.js';
import type { PageArc, PageFile, PageRange, PageVerdict, siteColumns } from './model.js';
import type { Strings } from './strings.js';
import { type CodeText, Ways } from './ways.js';

/** A file of a page. */
export interface HtmlFile {
  /** For people. */
  readonly name: string;
  readonly sites: Sites;
  /** What `verify` said of them; default: what it says now. */
  readonly verification?: Verification;
  /** The record of the file's changes, which says what was there before. */
  readonly record?: FileRecord | null;
  readonly remarks?: readonly string[];
}

type SiteColumn = (typeof siteColumns)[number];
type Row = Readonly<Record<SiteColumn, number>>;

const none = new Uint8Array(0);
const allVerdicts = Object.keys(verdictSeverity) as Verdict[];

/** Verdicts as pages explain them, in the order of the column. */
export const pageVerdicts = (): PageVerdict[] =>
  allVerdicts.map((name) => ({ name, severity: verdictSeverity[name], meaning: verdictPages[name].meaning }));

/** Bytes of a file's range as its record says that they were; null: it says nothing of them. */
function recorded(record: FileRecord | null, offset: number, now: Uint8Array): Uint8Array | null {
  let before: Uint8Array | null = null;
  for (const edit of record?.edits ?? []) {
    const from = Math.max(offset, edit.offset);
    const to = Math.min(offset + now.length, edit.offset + edit.before.length);
    if (from >= to) continue;
    before ??= now.slice();
    before.set(edit.before.subarray(from - edit.offset, to - edit.offset), from - offset);
  }
  return before;
}

/** What the bytes of a site are as a nop, or why they are none. */
function asNop(
  sites: Sites,
  index: number,
  reading: SiteReading,
  now: Uint8Array,
): { readonly bytes: Uint8Array; readonly refusal: string } {
  if (reading.state === 'foreign') return { bytes: none, refusal: reading.reason ?? 'the bytes are no site' };
  const change = reading.shape.write(reading, { kind: 'nop' }, sites.viewOf(index));
  if ('refused' in change) return { bytes: none, refusal: change.reason };
  const bytes = now.slice();
  for (const { delta, at, after } of change.stores) {
    const offset = delta - reading.startDelta;
    const isInside = at === undefined && offset >= 0 && offset + after.length <= bytes.length;
    if (isInside) bytes.set(after, offset);
  }
  return { bytes, refusal: '' };
}

/** Collects the rows of all files. */
export class SiteRows {
  readonly files: PageFile[] = [];
  readonly ways = new Ways();
  private readonly rows: Row[] = [];

  constructor(private readonly strings: Strings) {}

  get count(): number {
    return this.rows.length;
  }

  /** Adds a file with all of its sites, and what is said of functions that have none. */
  async add(file: HtmlFile): Promise<void> {
    const { arch } = file.sites.program;
    const verification = file.verification ?? verify(file.sites);
    const rows = new FileRows(file, this.files.length, this.strings, this.ways, await loadDisassembler(arch.isa.text));
    const findings = new Map<number, Finding>();
    for (const finding of verification.findings) if (finding.site >= 0) findings.set(finding.site, finding);
    for (let i = 0; i < file.sites.count; i++) this.rows.push(rows.site(i, findings.get(i)));
    for (const finding of verification.findings) if (finding.site < 0) this.rows.push(rows.finding(finding));
    this.files.push(rows.file(verification));
  }

  /**
   * Rows of sites by their place, as JSON has it: by the address, and by the position of the name
   * of their section with the address, which is an offset in relocatable files.
   */
  byAddress(): ReadonlyMap<string, number> {
    const address = (row: Row): string => hex((BigInt(row['site.high']) << 32n) | BigInt(row['site.low']));
    return new Map(
      this.rows.flatMap((row, i) => [
        [address(row), i] as const,
        [`${row['site.section']} ${address(row)}`, i] as const,
      ]),
    );
  }

  columns(names: readonly SiteColumn[]): Columns {
    return Object.fromEntries(
      names.map((name) => {
        const values = this.rows.map((row) => row[name]);
        return [name, name === 'site.offset' ? Int32Array.from(values) : unsigned(values)];
      }),
    );
  }
}

const LOW = 0xffff_ffffn;
const split = (address: Address): { 'site.low': number; 'site.high': number } => ({
  'site.low': Number(address & LOW),
  'site.high': Number((address >> 32n) & LOW),
});

/** Changes an address to one in another page of every size. */
const ELSEWHERE = 0x1234_5670n;

/** Rows of one file, and what its map shows. */
class FileRows {
  private readonly text: CodeText;
  private readonly perRange = new Map<number, number>();
  private readonly arcs = new Map<string, { readonly from: number; readonly to: Address; count: number }>();
  /** Texts by bytes; '' where they depend on the place. */
  private readonly texts = new Map<string, string>();

  constructor(
    private readonly input: HtmlFile,
    private readonly number: number,
    private readonly strings: Strings,
    private readonly ways: Ways,
    disassembler: Disassembler,
  ) {
    const { isa } = input.sites.program.arch;
    this.text = (code, address) =>
      disassembler
        .disassemble(code, address, isa)
        .map(({ bytes, text }) => `${hexBytes(bytes)}\t${text}`)
        .join('\n');
    ways.begin(input.sites);
  }

  /** Position of the text of some code. Text that depends on no place is made once. */
  private code(code: Uint8Array, address: Address): number {
    if (code.length === 0) return 0;
    const key = hexBytes(code);
    const known = this.texts.get(key);
    if (known !== undefined && known !== '') return this.strings.lines(known);
    const text = this.text(code, address);
    if (known === undefined) this.texts.set(key, this.text(code, address ^ ELSEWHERE) === text ? text : '');
    return this.strings.lines(text);
  }

  private name(symbol: number): number {
    return symbol < 0 ? 0 : this.strings.line(this.input.sites.program.symbolName(symbol));
  }

  /** @param finding  none: the site is fine */
  site(index: number, finding: Finding | undefined): Row {
    const { sites, record = null } = this.input;
    const { program } = sites;
    const range = sites.codeRange(index);
    const reading = sites.reading(index);
    const symbol = sites.functionSymbol(index);
    const start = sites.anchor[index]! + BigInt(reading?.startDelta ?? 0);
    const now =
      range === undefined ? none : sites.viewOf(index).bytes(reading?.startDelta ?? 0, reading?.sizeBytes ?? 8);
    const offset = sites.fileOffset(index) + (reading?.startDelta ?? 0);
    const before = range === undefined ? null : recorded(record, offset, now);
    const nop = reading === null ? { bytes: none, refusal: '' } : asNop(sites, index, reading, now);
    const place = symbol < 0 ? undefined : program.functions.placeOf(symbol);
    const { way, to } = this.ways.of(index, this.text);
    if (range !== undefined) this.count(range, to);
    return {
      ...this.judged(finding, start),
      ...split(sites.ip(index)),
      'site.function': this.name(symbol),
      'site.offset': place === undefined ? 0 : Number(BigInt.asIntN(32, sites.ip(index) - place.value)),
      'site.section': this.strings.line(range?.name ?? finding?.section ?? ''),
      'site.state': this.strings.line(sites.state(index)),
      'site.shape': this.strings.line(sites.shape(index)),
      'site.before': before === null ? 0 : this.code(before, start),
      'site.now': this.code(now, start),
      'site.nop': this.code(nop.bytes, start),
      'site.refusal': this.strings.line(nop.refusal),
      'site.way': way,
      'site.slot': this.strings.line(`slot ${sites.slot(index)} of ${sites.table(index).name}`),
    };
  }

  /** What is said of a function that has no site, or of a livepatch module. */
  finding(finding: Finding): Row {
    return {
      ...this.judged(finding, finding.address),
      ...split(finding.address),
      'site.function': this.strings.line(finding.function),
      'site.offset': 0,
      'site.section': this.strings.line(finding.section),
      'site.state': 0,
      'site.shape': 0,
      'site.before': 0,
      'site.now': 0,
      'site.nop': 0,
      'site.refusal': 0,
      'site.way': this.ways.none(),
      'site.slot': 0,
    };
  }

  private judged(finding: Finding | undefined, start: Address) {
    return {
      'site.file': this.number,
      'site.verdict': allVerdicts.indexOf(finding?.verdict ?? 'ok'),
      'site.message': this.strings.line(finding?.message ?? ''),
      'site.rule': this.strings.line(finding?.rule ?? ''),
      'site.expected': this.code(finding?.expected ?? none, start),
      'site.actual': this.code(finding?.actual ?? none, start),
    };
  }

  private count(range: CodeRange, to: Address | null): void {
    this.perRange.set(range.index, (this.perRange.get(range.index) ?? 0) + 1);
    if (to === null) return;
    const key = `${range.index} ${to}`;
    const arc = this.arcs.get(key);
    if (arc === undefined) this.arcs.set(key, { from: range.index, to, count: 1 });
    else arc.count++;
  }

  /** What the page says of the file; after its rows. */
  file(verification: Verification): PageFile {
    const { sites, name, remarks = [] } = this.input;
    const { program } = sites;
    const { target, branches } = program.arch;
    const shown = program.code.filter(({ bytes }) => bytes.length > 0);
    const arcs = [...this.arcs.values()].sort((a, b) => b.count - a.count).slice(0, MOST_ARCS);
    return {
      name: visibleLine(name),
      target: target.title,
      relocatable: program.relocatable,
      ranges: shown.map((range) => this.range(range)),
      arcs: arcs.map((arc): PageArc => {
        const code = program.codeAt(arc.to);
        return {
          from: shown.findIndex(({ index }) => index === arc.from),
          to: hex(arc.to),
          name: visibleLine(code === undefined ? '' : program.describe(code, arc.to)),
          count: arc.count,
        };
      }),
      reaches: branches.reaches.map((each) => ({
        name: each.name,
        min: each.reach.min.toString(),
        max: each.reach.max.toString(),
      })),
      sites: verification.sites,
      verdicts: { ...verification.verdicts },
      remarks: [...verification.remarks, ...remarks].map(visibleLine),
      incomplete: visibleLine(verification.incomplete?.message ?? ''),
    };
  }

  private range(range: CodeRange): PageRange {
    const part = this.input.sites.program.partOf(range.address)?.name ?? '';
    return {
      name: visibleLine(range.name),
      part: visibleLine(part),
      start: hex(range.address),
      end: hex(range.address + BigInt(range.bytes.length)),
      sites: this.perRange.get(range.index) ?? 0,
    };
  }
}

/** Arcs of a file that are drawn: those of most sites. */
const MOST_ARCS = 200;

/** Symbols that stand for another name, with it: pairs of positions. */
export function demangledPairs(strings: Strings, symbols: Iterable<number>): number[] {
  const pairs: number[] = [];
  for (const symbol of new Set(symbols)) {
    const name = demangle(strings.all[symbol]!);
    if (name !== null) pairs.push(symbol, strings.line(name));
  }
  return pairs;
}
