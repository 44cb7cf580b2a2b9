/**
 * `elftrace explain IMAGE SITE`: why a site looks as it does: its chain from the call over stubs
 * and slots to the target, with bytes and disassembly of each hop, the verdict and what its rule
 * says, and what a nop would be. `elftrace explain VERDICT`: the page of a verdict.
 */
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { type ChainHop, describeHop, siteChain, type SiteChain } from '../sites/chain.js';
import { entryPoint, type EntryPoint } from '../program/entry-points.js';
import { findNamedSites } from '../sites/named.js';
import type { Sites } from '../sites/sites.js';
import { directCallerOf, judge, type Verdict, verdictSeverity, type VerifyOptions } from '../sites/verdicts.js';
import { explainPlace, type ProbeExplanation } from '../kprobes/index.js';
import { jsonSchema, type Json } from '../report/json.js';
import { ruleText } from '../report/rules.js';
import { verdictPages } from '../report/verdict-pages.js';
import { disassemblerOf } from './disassembly.js';
import { exitCodes } from './exit.js';
import { readInput } from './files.js';
import { hash } from './hash.js';
import { open, type Opened, type OpenOptions } from './open.js';
import { explainLines, explanationJson } from './probes.js';
import { out, paint } from './terminal.js';
import type { SiteIndex } from '../units.js';

export interface ExplainArguments extends OpenOptions {
  /** An image, or a verdict when there is no site. */
  readonly path: string;
  readonly site?: string | undefined;
  readonly json: boolean;
}

function isVerdict(name: string): name is Verdict {
  return Object.hasOwn(verdictPages, name);
}

// ---------------------------------------------------------------------------------------- verdicts

/** The page of a verdict as plain data. */
export function verdictJson(verdict: Verdict): Json {
  const page = verdictPages[verdict];
  return {
    schema: jsonSchema,
    verdict,
    severity: verdictSeverity[verdict],
    meaning: page.meaning,
    causes: page.causes,
    advice: page.advice,
    rules: page.rules.map((rule) => ({ rule, text: ruleText(rule) })),
  };
}

/** Breaks a paragraph at blanks. */
function wrapped(text: string, indent: string, width = 100): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(indent + line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, indent + line];
}

/** The page of a verdict as lines. */
export function verdictLines(verdict: Verdict): string[] {
  const page = verdictPages[verdict];
  const severity = verdictSeverity[verdict];
  const lines = [
    `${paint('bold', verdict)}${severity === 'none' ? '' : `  (${severity})`}`,
    ...wrapped(page.meaning, '  '),
    '',
    ...page.causes.flatMap((each) => wrapped(each, '  ')),
    '',
    ...page.advice.flatMap((each) => wrapped(`To do: ${each}`, '  ')),
    '',
  ];
  for (const rule of page.rules) {
    const [first, ...more] = wrapped(ruleText(rule), '', 88);
    lines.push(`  ${rule.padEnd(10)} ${first ?? ''}`, ...more.map((line) => `  ${''.padEnd(10)} ${line}`));
  }
  return lines;
}

// ------------------------------------------------------------------------------------------- sites

interface Line {
  readonly address: bigint;
  readonly bytes: Uint8Array;
  readonly text: string;
}

interface ExplainedHop {
  readonly hop: ChainHop;
  readonly lines: readonly Line[];
  readonly note: string;
}

async function explainHops(opened: Opened, chain: SiteChain): Promise<ExplainedHop[]> {
  const disassembler = await disassemblerOf(opened.arch);
  return chain.hops.map((hop) => {
    const note = describeHop(hop);
    if (hop.kind === 'slot') return { hop, note, lines: [{ address: hop.address, bytes: hop.bytes, text: '' }] };
    const lines = disassembler
      .disassemble(hop.bytes, hop.address, opened.arch.isa)
      .map(({ address, bytes, text }) => ({ address, bytes, text }));
    return { hop, note, lines };
  });
}

/** What the site would become, or why it cannot. */
function asNop(opened: Opened, index: SiteIndex): { readonly text: string; readonly json: Json } {
  const { sites } = opened;
  const reading = sites.reading(index);
  if (!reading || reading.state === 'foreign') return { text: '', json: null };
  const change = reading.shape.write(reading, { kind: 'nop' }, sites.viewOf(index));
  if ('refused' in change) {
    return { text: `cannot be a nop: ${change.reason}`, json: { refused: change.refused, reason: change.reason } };
  }
  const stores = change.stores.map((store) => ({
    address: store.at ?? sites.anchor[index]! + BigInt(store.delta),
    before: store.before,
    after: store.after,
  }));
  const json: Json = {
    rule: change.rule,
    stores: stores.map(({ address, before, after }) => ({
      address: hex(address),
      before: hexBytes(before),
      after: hexBytes(after),
    })),
    relocations: change.neutralise.length,
  };
  if (stores.length === 0) return { text: 'is a nop already', json };
  const bytes = stores.map(({ address, after }) => `${hexBytes(after)} at ${hex(address)}`).join(', ');
  const more = change.neutralise.length > 0 ? `, ${change.neutralise.length} relocation(s) neutralised` : '';
  return { text: `as a nop: ${bytes}${more} [${change.rule}]`, json };
}

/** Entries that a call may end at, as far as a linked image defines them. */
function entriesOf(opened: Opened): EntryPoint[] {
  const { program } = opened;
  if (program.relocatable) return [];
  const names = [...program.profilingNames, 'ftrace_caller', 'ftrace_regs_caller', 'ftrace_list_caller'];
  return names.flatMap((name) => entryPoint(program, name) ?? []);
}

interface Explanation {
  readonly text: readonly string[];
  readonly json: Json;
}

const HOP_WIDTH = 8;

/** Says which hop is the direct caller of the function. */
function noteDirect(hops: readonly ExplainedHop[], own: ReturnType<typeof directCallerOf>): readonly ExplainedHop[] {
  const note = `the direct caller of the function${own?.jump ? ', which the site jumps to' : ''}`;
  return hops.map((each) =>
    each.hop.kind === 'target' && each.hop.address === own?.caller ? { ...each, note } : each,
  );
}

/** The way of a call, each hop with its instructions. */
function chainLines(hops: readonly ExplainedHop[], part: string | null): readonly string[] {
  const text: string[] = [];
  const width = Math.max(
    11,
    ...hops.flatMap(({ hop, lines }) => (hop.kind === 'slot' ? [] : lines.map(({ bytes }) => hexBytes(bytes).length))),
  );
  for (const { hop, lines, note } of hops) {
    const label = [hop.name, hop.part === null || hop.part === part ? '' : `part ${hop.part}`].filter(
      (each) => each !== '',
    );
    text.push(`  ${hop.kind.padEnd(HOP_WIDTH)} ${hex(hop.address)}  ${[...label, note].join('  ')}`);
    for (const line of lines) {
      const row = `  ${''.padEnd(HOP_WIDTH)} ${hex(line.address).padStart(10)}  ${hexBytes(line.bytes).padEnd(width)}  ${line.text}`;
      text.push(row.trimEnd());
    }
  }
  return text;
}

function hopRow({ hop, lines, note }: ExplainedHop): Json {
  return {
    kind: hop.kind,
    address: hex(hop.address),
    bytes: hexBytes(hop.bytes),
    name: hop.name,
    part: hop.part,
    note,
    lines: lines.map((line) => ({ address: hex(line.address), bytes: hexBytes(line.bytes), text: line.text })),
    ...hopJson(hop),
  };
}

/** The verdict, with the bytes that it is about. */
async function judgementLines(
  { arch }: Opened,
  ip: bigint,
  judgement: ReturnType<typeof judge>,
): Promise<readonly string[]> {
  const text: string[] = [];
  const severity = verdictSeverity[judgement.verdict];
  const disassembler = await disassemblerOf(arch);
  const plainText = (bytes: Uint8Array): string =>
    disassembler.disassemble(bytes, ip, arch.isa).map((line) => line.text).join('; '); // prettier-ignore
  const { expected, actual } = judgement;
  const verdict = severity === 'error' ? paint('red', judgement.verdict) : judgement.verdict;
  text.push(
    `  ${'verdict'.padEnd(HOP_WIDTH)} ${verdict}: ${judgement.message === '' ? verdictPages[judgement.verdict].meaning : judgement.message}`,
  );
  for (const [label, bytes] of [
    ['expected', expected],
    ['actual', actual],
  ] as const) {
    if (bytes && bytes.length > 0) text.push(`  ${label.padEnd(HOP_WIDTH)} ${hexBytes(bytes)}  ${plainText(bytes)}`);
  }
  return text;
}

/** Where the call should end. */
function entryLines(entries: ReturnType<typeof entriesOf>): readonly string[] {
  if (entries.length === 0) return [];
  const names = entries.map(({ symbol, identity }) => `${symbol} ${hex(identity)}`).join(', ');
  return [`  ${'expected'.padEnd(HOP_WIDTH)} a call that ends at ${names}`];
}

function ruleLines(rule: string): readonly string[] {
  const [first, ...more] = wrapped(`${rule}: ${ruleText(rule)}`, '', 96);
  return [`  ${'rule'.padEnd(HOP_WIDTH)} ${first ?? ''}`, ...more.map((line) => `  ${''.padEnd(HOP_WIDTH)} ${line}`)];
}

async function explain(opened: Opened, index: SiteIndex, options: VerifyOptions): Promise<Explanation> {
  const { sites, program, arch } = opened;
  const chain = siteChain(sites, index);
  const direct = directCallerOf(sites, index);
  const hops = noteDirect(await explainHops(opened, chain), direct);
  const judgement = judge(sites, index, options);
  const severity = verdictSeverity[judgement.verdict];
  const { expected, actual } = judgement;
  const range = sites.codeRange(index);
  const ip = sites.ip(index);
  const shape = sites.shape(index);
  const title = arch.siteShapes.find(({ name }) => name === shape)?.title ?? '';
  const name = range ? program.describe(range, ip) : '';
  const table = sites.table(index);
  const form = sites.reading(index)?.form ?? '';
  const state = form === '' || form === sites.state(index) ? sites.state(index) : `${sites.state(index)} (${form})`;
  const part = chain.hops[0]?.part ?? null;
  const nop = asNop(opened, index);

  const text: string[] = [
    `${paint('bold', name === '' ? hex(ip) : name)}  ${range?.name ?? ''}${range ? `+${hex(sites.anchor[index]! - range.address)}` : ''}` +
      `${part === null ? '' : `  part ${part}`}`,
    `  ${'shape'.padEnd(HOP_WIDTH)} ${shape === '' ? 'none' : `${shape}: ${title}`}`,
    `  ${'state'.padEnd(HOP_WIDTH)} ${state}, slot ${sites.slot(index)} of ${table.name}`,
  ];
  if (chain.toc !== null) text.push(`  ${'TOC'.padEnd(HOP_WIDTH)} ${hex(chain.toc)}`);
  text.push(...chainLines(hops, part));
  text.push(...(await judgementLines(opened, ip, judgement)));
  const entries = entriesOf(opened);
  if (hops.some(({ hop }) => hop.kind === 'target' && hop.is === 'other' && hop.address !== (direct?.caller ?? null)))
    text.push(...entryLines(entries));
  if (judgement.rule !== '') text.push(...ruleLines(judgement.rule));
  if (nop.text !== '') text.push(`  ${'change'.padEnd(HOP_WIDTH)} ${nop.text}`);

  const json: Json = {
    function: name,
    section: range?.name ?? '',
    address: hex(sites.anchor[index]!),
    ip: hex(ip),
    table: table.name,
    slot: sites.slot(index),
    part,
    shape,
    title,
    state: sites.state(index),
    form,
    toc: chain.toc === null ? null : hex(chain.toc),
    chain: hops.map(hopRow),
    verdict: judgement.verdict,
    severity,
    rule: judgement.rule,
    ruleText: ruleText(judgement.rule),
    message: judgement.message,
    expected: hexBytes(expected ?? new Uint8Array()),
    actual: hexBytes(actual ?? new Uint8Array()),
    entries: entries.map(({ symbol, identity }) => ({ name: symbol, address: hex(identity) })),
    nop: nop.json,
  };
  return { text, json };
}

function hopJson(hop: ChainHop): Record<string, Json> {
  switch (hop.kind) {
    case 'call':
      return {
        target: hop.target === null ? null : hex(hop.target),
        ...(hop.relocation ? { relocation: { ...hop.relocation, addend: hex(hop.relocation.addend) } } : {}),
      };
    case 'restore':
      return {};
    case 'stub':
      return {
        form: hop.form,
        target: hex(hop.target),
        savesToc: hop.savesToc,
        targetToc: hop.targetToc === null ? null : hex(hop.targetToc),
      };
    case 'slot':
      return { target: hex(hop.target), symbol: hop.symbol };
    case 'target':
      return { is: hop.is };
    default:
      return hop satisfies never;
  }
}

/** A place without a site may be one for a probe. */
function namedSites(sites: Sites, text: string, probe: ProbeExplanation | null): readonly number[] {
  try {
    return findNamedSites(sites, text);
  } catch (error) {
    const isPlace = /0x[0-9a-fA-F]+$/.test(text);
    const nowhere = probe?.place.kind === 'refused' && ['not-text', 'no-symbol'].includes(probe.place.code);
    const isMissing = error instanceof ElftraceError && error.code === 'no-match';
    if (isPlace && isMissing && probe !== null && !nowhere) return [];
    throw error;
  }
}

export async function runExplain(args: ExplainArguments): Promise<number> {
  if (args.site === undefined) {
    if (!isVerdict(args.path)) {
      throw new ElftraceError(
        'usage',
        `name a site behind the image, or one of the verdicts: ${Object.keys(verdictPages).join(', ')}`,
      );
    }
    if (args.json) out(JSON.stringify(verdictJson(args.path)));
    else for (const line of verdictLines(args.path)) out(line);
    return exitCodes.ok;
  }
  const opened = await open(await readInput(args.path, 'read'), args);
  // A record beside the file does not say where it was.
  const probe = opened.recordBeside ? null : explainPlace(opened, args.site, hash);
  const found = namedSites(opened.sites, args.site, probe);
  const options: VerifyOptions = opened.recorded ? { recorded: opened.recorded } : {};
  const all: Json[] = [];
  for (const [position, index] of found.entries()) {
    const { text, json } = await explain(opened, index, options);
    all.push(json);
    if (args.json) continue;
    if (position > 0) out('');
    for (const line of text) out(line);
  }
  if (args.json) {
    const more = probe === null ? {} : { probe: explanationJson(probe) };
    out(JSON.stringify({ schema: jsonSchema, file: args.path, target: opened.arch.target.id, sites: all, ...more }));
  } else if (probe !== null) for (const line of await explainLines(opened, probe, HOP_WIDTH)) out(line);
  return exitCodes.ok;
}
