/**
 * One HTML page about images: verdicts as a table, the code and the way of each site, a map of
 * addresses; a trace, differences and races where there are any. The page is one file that loads
 * nothing; its data are one compressed block (`columns.ts`), which its script unpacks.
 */
import { ElftraceError } from '../errors.js';
import { escapeHtml, htmlFrame } from '../report/html.js';
import { version } from '../version.js';
import { type Columns, packBlock } from './columns.js';
import { type HtmlDiff, pageDiff } from './diff.js';
import { type PageHead, siteColumns } from './model.js';
import { pageProof } from './proof.js';
import { PAGE_SCRIPT } from './prebuilt.js';
import { pageRaces, type RaceText } from './races.js';
import { demangledPairs, type HtmlFile, pageVerdicts, SiteRows } from './sites.js';
import { Strings } from './strings.js';
import { pageStyle } from './style.js';
import { pageTrace } from './trace.js';

export type { HtmlDiff, HtmlDifference } from './diff.js';
export type { RaceText } from './races.js';
export type { HtmlFile } from './sites.js';

export interface HtmlPageRequest {
  /** Default: the names of the files. */
  readonly title?: string;
  /** One after the other: of each, what the page needs is taken before the next is asked for. */
  readonly files: Iterable<HtmlFile> | AsyncIterable<HtmlFile>;
  /** A trace of `run --trace`, in the form ndjson, and its name. */
  readonly trace?: { readonly name: string; readonly text: string };
  readonly diff?: HtmlDiff;
  /** What `prove --json` wrote of the one file of the page, and its name. */
  readonly proof?: { readonly name: string; readonly text: string };
  /** What `race --json` wrote, and its names. A page of races needs no file. */
  readonly races?: readonly RaceText[];
}

/** A page, and how much is in it. */
export interface HtmlPage {
  readonly html: string;
  readonly files: number;
  /** Rows: sites, and functions that should have one. */
  readonly rows: number;
  /** Events of the trace; null: there is none. */
  readonly events: number | null;
  /** Rows of differences; null: nothing was compared. */
  readonly differences: number | null;
  /** Races; null: there is none. */
  readonly races: number | null;
  /** Rows by verdict. */
  readonly verdicts: Readonly<Record<string, number>>;
}

/**
 * The block of a page before it is compressed, and what is in it. For tests.
 * @internal
 */
export async function pageData(
  request: HtmlPageRequest,
): Promise<{ readonly bytes: Uint8Array; readonly head: PageHead; readonly page: Omit<HtmlPage, 'html'> }> {
  const strings = new Strings();
  const rows = new SiteRows(strings);
  for await (const file of request.files) await rows.add(file);
  const races = pageRaces(request.races ?? []);
  const isOfFiles = request.trace ?? request.diff ?? request.proof;
  if (rows.files.length === 0 && (races.length === 0 || isOfFiles)) {
    throw new ElftraceError('no-match', 'a page needs a file');
  }
  const traced = request.trace && pageTrace(request.trace.name, request.trace.text, strings);
  const compared = request.diff && pageDiff(request.diff, strings);
  if (request.proof && rows.files.length > 1) throw new ElftraceError('usage', 'a proof is about one file: name one');
  const proved = request.proof && pageProof(request.proof, strings, rows.byAddress(), rows.count);
  const columns: Columns = {
    ...rows.columns(siteColumns),
    ...traced?.columns,
    ...compared?.columns,
    ...proved?.columns,
  };
  const names = ['site.function', 'diff.function'].flatMap((name) => [...(columns[name] ?? [])]);
  const inTrace = traced?.trace.functions.map(([name]) => name) ?? [];
  const demangled = demangledPairs(strings, [...new Set([...names, ...inTrace])]);
  const [first] = rows.files;
  const more = rows.files.length > 1 ? ` and ${rows.files.length - 1} more` : '';
  const head: PageHead = {
    title: request.title ?? `${(first ?? { name: races[0]!.title }).name}${more}`,
    version,
    files: rows.files,
    verdicts: pageVerdicts(),
    strings: strings.all,
    demangled,
    ways: rows.ways.all,
    trace: traced?.trace ?? null,
    diff: compared?.diff ?? null,
    proof: proved?.proof ?? null,
    races,
  };
  const verdicts: Record<string, number> = {};
  for (const verdict of columns['site.verdict']!) {
    const { name } = head.verdicts[verdict]!;
    verdicts[name] = (verdicts[name] ?? 0) + 1;
  }
  const page = {
    files: rows.files.length,
    rows: rows.count,
    events: head.trace?.events ?? null,
    differences: columns['diff.change']?.length ?? null,
    races: request.races === undefined ? null : races.length,
    verdicts,
  };
  return { bytes: packBlock({ head, columns }), head, page };
}

/** Bytes compressed as browsers unpack them (RFC 1951), as base64. */
async function packed(bytes: Uint8Array): Promise<string> {
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>])
    .stream()
    .pipeThrough(new CompressionStream('deflate-raw'));
  const small = new Uint8Array(await new Response(stream).arrayBuffer());
  // Multiples of three bytes, so that pieces join without padding.
  const PIECE = 0x6000;
  let text = '';
  for (let at = 0; at < small.length; at += PIECE) text += btoa(String.fromCharCode(...small.subarray(at, at + PIECE)));
  return text;
}

/**
 * A page about images, as one HTML file that needs no server and no network.
 * @throws ElftraceError 'no-match' without a file; 'bad-record' for a trace or a proof that is
 *   none, and for races that `race --json` did not write; 'usage' for a proof beside several files;
 *   what reading the files throws
 *
 * @example
 * const { html } = await htmlPage({ files: [{ name: 'driver.ko', sites }] });
 */
export async function htmlPage(request: HtmlPageRequest): Promise<HtmlPage> {
  if (PAGE_SCRIPT === '')
    throw new ElftraceError('internal', 'the script of pages is in the bundle only: dist/index.js');
  const { bytes, head, page } = await pageData(request);
  return { html: await pageAround(bytes, head.title, PAGE_SCRIPT), ...page };
}

/**
 * The page around a block of data. For tests.
 * @internal
 */
export async function pageAround(bytes: Uint8Array, title: string, script: string): Promise<string> {
  const body = `<header><h1>${escapeHtml(title)}</h1></header>
<main id="main"><noscript><p>This page shows its data by a script of its own, which does not run here.</p></noscript>
<p id="loading" role="status">Reading the data …</p></main>
<script type="application/octet-stream" id="data">${await packed(bytes)}</script>`;
  return htmlFrame({ title: `${title}: elftrace`, style: pageStyle, body, script });
}
