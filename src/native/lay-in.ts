/**
 * A linked program, once patched, that writes its own trace (RT-27, RT-28): the runtime in
 * a segment of its own, its sites calling it, a record from which `revert` makes the original.
 */
import { alignUp } from '../bits.js';
import { ByteView, concatBytes } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { FrameTable } from '../elf/frame-table.js';
import { gnuPropertyOffset } from '../elf/gnu-property.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { firstNewSection } from '../elf/image.js';
import { type NewSection, type CodeSymbol, whyNoSymbols, writeElf } from '../elf/write.js';
import { ElftraceError, hex } from '../errors.js';
import type { GraphTracing } from '../machine/native-tracing.js';
import { noteBytes } from '../patch/apply.js';
import { encodeRecord } from '../record/encode.js';
import { type FileRecord, recordAtEnd, recordSchema, recordSection } from '../record/journal.js';
import type { Plan, Step } from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import { sha256, type Sha256 } from '../sha256.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';
import { version } from '../version.js';
import { debugFrames, frameTable, frameTableBytes, hasFrames, makeFrameTable, runtimeFrames } from './frames.js';
import { type Places, placesFor, writeHeaders } from './place.js';
import { type CountedSites, countedSites } from './counter.js';
import { MODES } from './layout.js';
import type { NativeTracer, TraceClock } from './reader.js';
import { refused, type RuntimeTracing, tracingOf } from './refuse.js';
import { type NativeRuntime, nativeRuntime, runtimeBytes, type RuntimeFacts, symbolAddress } from './runtime.js';
import { withStubs } from './stubs.js';

/** Names of the sections that are added. */
const nativeSections = { code: '.elftrace.text', table: '.elftrace.frames', words: '.elftrace.bss' } as const;

/** What the record of a file that writes its own trace calls the request. */
const requestOf = (tracer: NativeTracer, clock: TraceClock): string =>
  `record ${tracer}${tracer === 'function' && clock === 'none' ? ' without clock' : ''}`;

export interface LayInOptions {
  /** Path of the file, which traces name. */
  readonly name: string;
  /** Calls, calls and returns, or how often what is called. Default: `function`. */
  readonly tracer?: NativeTracer;
  /** Whether calls have times. Default: `mono`. */
  readonly clock?: TraceClock;
  /** One byte per site, nonzero for selected; all when absent. */
  readonly selection?: Uint8Array;
  readonly hash?: Sha256;
}

export interface LaidIn {
  readonly bytes: Uint8Array;
  readonly plan: Plan;
  /** SHA-256 of the original: what its traces carry. */
  readonly id: string;
  /** Whether the program no longer asks for shadow stacks. */
  readonly clearsShadowStacks: boolean;
}

/** Sites that are as the compiler left them, or off, and whose function has not begun. */
function servedSites(sites: Sites, { conventions }: RuntimeTracing, selection?: Uint8Array): Uint8Array {
  const served = new Uint8Array(sites.count);
  for (let i = 0; i < sites.count; i++) {
    const reading = selection?.[i] === 0 ? null : sites.reading(i);
    if (reading === null) continue;
    const entries = reading.state === 'foreign' ? conventions : sites.entriesOf(i, reading);
    // Damaged sites stay selected: the plan refuses them with the reason.
    if (reading.state !== 'call' && entries.some((each) => conventions.includes(each))) served[i] = 1;
  }
  return served;
}

/**
 * Steps of sites that call in front of their functions (RT-32), which are taken out of the
 * selection: their shape cannot change them.
 */
function frontSteps(
  sites: Sites,
  { callInFront }: RuntimeTracing,
  entryOf: (site: number) => Address,
  selection: Uint8Array,
): Step[] {
  const steps: Step[] = [];
  for (let site = 0; site < sites.count; site++) {
    const reading = selection[site] === 0 ? null : sites.reading(site);
    if (reading?.state !== 'foreign') continue;
    const stores = callInFront(sites.viewOf(site), reading, entryOf(site));
    if (stores === null) continue;
    selection[site] = 0;
    const anchor = sites.anchor[site]!;
    const section = sites.codeRange(site)!.name;
    for (const { delta, before, after } of stores) {
      const fileOffset = sites.fileOffset(site) + delta;
      const place = { section, address: anchor + BigInt(delta), fileOffset };
      steps.push({ kind: 'store', site, ...place, before, after, rule: 'RT-32' });
    }
  }
  return steps;
}

/** The plan with steps of further sites, two for each. */
function withSteps(plan: Plan, more: readonly Step[]): Plan {
  const steps = [...plan.steps, ...more].sort((a, b) => a.fileOffset - b.fileOffset);
  const sites = more.length / 2;
  return { ...plan, steps, selected: plan.selected + sites, changed: plan.changed + sites };
}

/** Records hold the lowest bits of addresses. */
function checkReach(sites: Sites, { reach }: RuntimeTracing): void {
  const places = [...sites].flatMap(({ range, ip }) => (range === undefined ? [] : [ip]));
  const [low, high] = places.reduce(
    ([least, most], each) => [each < least ? each : least, each > most ? each : most],
    [places[0] ?? 0n, places[0] ?? 0n],
  );
  if (high - low >= BigInt(reach)) {
    throw refused('text-too-large', `its sites lie ${high - low} bytes apart, a record tells ${reach} apart`);
  }
}

/** Why no site can be served: by the first of those that the plan refuses. */
function noneServed(sites: Sites, { options }: RuntimeTracing, { refusals: [first] }: Plan): ElftraceError {
  const { program } = sites;
  const place = first === undefined ? '' : first.function || hex(first.address);
  if (first !== undefined && sites.reading(first.site)?.nops === 'few') {
    return refused('too-small', `${place}: ${first.reason}: compile with ${options.shortest}`);
  }
  const why = first === undefined ? 'functions must begin with their sites' : `${place}: ${first.reason}`;
  const hint = program.namesFunctions ? '' : ': name them with --symbols FILE';
  const message = `no site of the file can call the runtime: ${why}${hint}`;
  return new ElftraceError('no-match', message, { reason: 'no-sites' });
}

/** What the tracer asks of a machine's runtime. */
interface Wanted {
  readonly runtime: NativeRuntime;
  readonly entry: string;
  readonly mode: number;
  readonly graph: GraphTracing | null;
}

function wantedOf(
  { program: { arch } }: Sites,
  tracing: RuntimeTracing,
  { tracer = 'function', clock = 'mono' }: LayInOptions,
): Wanted {
  const { graph, entries } = tracing;
  if (tracer === 'function_graph') {
    if (graph === null) {
      throw refused('tracer', `${arch.target.title}: there is no runtime for ${tracer} yet: record --tracer function`);
    }
    if (clock === 'none')
      throw refused('tracer', 'returns are recorded with their times: --clock none goes with calls');
    return { runtime: nativeRuntime(arch, graph.runtime), entry: graph.entry, mode: MODES.function_graph, graph };
  }
  const kind = tracer === 'function' && clock === 'none' ? 'noClock' : tracer;
  return { runtime: nativeRuntime(arch, tracing.runtime), entry: entries[kind], mode: MODES[kind], graph: null };
}

/**
 * Decides and makes the patched file; the image stays as it is.
 * @returns the plan's refusals name sites that stay off
 * @throws ElftraceError 'unsupported-form' or 'unsupported-machine' with a NativeRefusal in
 *   `context.reason`; 'no-match' where no site can be served
 */
export function layIn(sites: Sites, options: LayInOptions): LaidIn {
  const { image, arch } = sites.program;
  const tracing = tracingOf(sites);
  const { runtime, entry, mode, graph } = wantedOf(sites, tracing, options);
  if (mode !== MODES.counter) checkReach(sites, tracing);
  const places = placesFor(image, runtime.wordsBytes, arch.target.pageBytes, graph !== null && hasFrames(image, graph));
  const id = (options.hash ?? sha256)(image.bytes);
  const selection = servedSites(sites, tracing, options.selection);
  const target = symbolAddress(runtime, entry, places);
  const counted = mode === MODES.counter ? withCounters(sites, tracing, runtime, [places, target], selection) : null;
  const facts = {
    ...places,
    id: Uint8Array.from(id.match(/../g)!, (digits) => Number.parseInt(digits, 16)),
    name: options.name,
    mode,
    counters: counted?.counters ?? 0,
  };
  const targetOf = (site: number): Address => counted?.targets.get(site) ?? target;
  const front = frontSteps(sites, tracing, targetOf, selection);
  const name = requestOf(options.tracer ?? 'function', options.clock ?? 'mono');
  const to = (site: number) => [{ kind: 'call', target: targetOf(site) }] as const;
  const called = withSteps(planSites(sites, { to, name, selection }), front);
  if (called.changed === 0) throw noneServed(sites, tracing, called);
  const base = withStubsBehind(runtimeBytes(runtime, arch, tracing, facts), counted);
  const { plan, ...made } =
    graph === null
      ? { plan: called, code: base, tableBytes: 0, debug: null, symbols: [] }
      : withReturns({ sites, plan: called, graph, runtime, places, facts, base });
  const more = graph?.shadowStacks ? withoutShadowStacks(image, graph.shadowStacks) : [];
  const bytes = write(sites, plan, id, { runtime, places, ...made, more, request: name });
  return { bytes, plan, id, clearsShadowStacks: more.length > 0 };
}

/** Where stubs begin behind the runtime's code. */
const stubsAt = (codeBytes: number): number => alignUp(codeBytes, STUB_ALIGN);

/** Stubs of sites whose calls are counted, behind the runtime. */
function withCounters(
  sites: Sites,
  { counterStubs }: RuntimeTracing,
  { codeBytes }: NativeRuntime,
  [{ code }, entry]: readonly [Places, Address],
  selection: Uint8Array,
): CountedSites {
  return countedSites(sites, counterStubs, [code + BigInt(stubsAt(codeBytes)), entry], selection);
}

function withStubsBehind(code: Uint8Array, counted: CountedSites | null): Uint8Array {
  if (counted === null) return code;
  const gap = new Uint8Array(stubsAt(code.length) - code.length);
  return concatBytes([code, gap, counted.stubs]);
}

interface Graphed {
  readonly sites: Sites;
  readonly plan: Plan;
  readonly graph: GraphTracing;
  readonly runtime: NativeRuntime;
  readonly places: Places;
  readonly facts: RuntimeFacts;
  /** The runtime's bytes. */
  readonly base: Uint8Array;
}

interface Code {
  readonly plan: Plan;
  readonly code: Uint8Array;
  /** Bytes at its end that are the table. */
  readonly tableBytes: number;
  /** A section for debuggers; null: none. */
  readonly debug: Uint8Array | null;
  /** Names of the stubs. */
  readonly symbols: readonly CodeSymbol[];
}

/** Stubs behind the runtime (RT-43), then the table by which they are unwound (RT-44). */
function withReturns(input: Graphed): Code {
  const { sites, plan, graph, runtime, places, facts, base } = input;
  const shape = graph.stubs;
  if (shape === null) return { ...withTable(input, plan, base, null), symbols: [] };
  const start = symbolAddress(runtime, shape.symbol, facts);
  const named = shape.names.map((symbol) => symbolAddress(runtime, symbol, facts));
  const { steps, stubs, sites: stubbed } = withStubs(plan.steps, shape, start, named);
  const code = concatBytes([base.subarray(0, Number(start - places.code)), stubs]);
  const made = withTable(input, { ...plan, steps }, code, { start, size: stubs.length });
  return { ...made, symbols: stubSymbols(sites, stubbed, start, shape.bytes) };
}

/** What the names of stubs end with; demanglers show it as the name of a copy. */
const STUB_SUFFIX = '.return';

/**
 * Names of stubs: profilers and debuggers that meet a return address of ours say whose return it
 * waits for. None where the file has no names itself.
 */
function stubSymbols(sites: Sites, stubbed: readonly number[], start: Address, size: number): CodeSymbol[] {
  const { program } = sites;
  const section = firstNewSection(program.image);
  if (whyNoSymbols(program.image) !== null || section >= elf.SHN_LORESERVE) return [];
  return stubbed.flatMap((site, i) => {
    const symbol = sites.functionSymbol(site);
    if (symbol < 0) return [];
    const name = `${program.symbolName(symbol)}${STUB_SUFFIX}`;
    return [{ name, section, address: start + BigInt(i * size), size }];
  });
}

function withTable(
  { sites, runtime, places }: Graphed,
  plan: Plan,
  code: Uint8Array,
  stubs: { readonly start: Address; readonly size: number } | null,
): Omit<Code, 'symbols'> {
  const { image } = sites.program;
  const { endian } = image.header;
  const { section, at } = runtime.code.find((each) => each.section.name === '.eh_frame')!;
  const start = places.code + BigInt(at);
  const frames = code.subarray(at, at + section.size);
  const found = runtimeFrames(frames, start, endian);
  const { entries } = found;
  const view = new ByteView(frames, endian);
  for (const { code: place, sizeAt } of entries) if (place === stubs?.start) view.insertU32(sizeAt, stubs.size);
  const before = debugFramesOf(image);
  const own = runtime.image.sections.find(({ name }) => name === DEBUG_STUBS);
  const other =
    own === undefined || stubs === null ? null : { code: stubs.start, instructions: runtime.image.contents(own) };
  const debug = before === null ? null : debugFrames(frames, found, endian, image.wordBytes, before, other);
  if (places.table === null && places.moved === null) return { plan, code, tableBytes: 0, debug };
  const table: FrameTable = frameTable(image) ?? { frames: start, rows: [] };
  const tableBytes = frameTableBytes(table, entries.length);
  const out = new Uint8Array(alignUp(code.length, TABLE_ALIGN) + tableBytes);
  out.set(code);
  const place = out.length - tableBytes;
  out.set(makeFrameTable(table, entries, places.code + BigInt(place), endian), place);
  return { plan, code: out, tableBytes, debug };
}

/** What the section that is added begins with, for debuggers take the last; null: not readable. */
function debugFramesOf(image: ElfImage): Uint8Array | null {
  const section = image.sections.find(({ name }) => name === DEBUG_FRAMES);
  if (section === undefined) return new Uint8Array(0);
  return (section.flags & elf.SHF_COMPRESSED) === 0n ? image.contents(section) : null;
}

const TABLE_ALIGN = 16;
const STUB_ALIGN = 16;
const NOTE_ALIGN = 4;
const DEBUG_FRAMES = '.debug_frame';
/** Of a runtime whose rules are others for debuggers. */
const DEBUG_STUBS = '.stubs.debug';

/** The property without the bit, where it has it. */
function withoutShadowStacks(
  image: ElfImage,
  { property, bit }: NonNullable<GraphTracing['shadowStacks']>,
): FileEdit[] {
  const offset = gnuPropertyOffset(image, property);
  if (offset === null) return [];
  const before = image.bytes.slice(offset, offset + 4);
  const after = before.slice();
  const view = new ByteView(after, image.header.endian);
  const value = view.u32(0);
  if ((value & bit) === 0) return [];
  view.insertU32(0, (value & ~bit) >>> 0);
  return [{ offset, before, after }];
}

interface FileEdit {
  readonly offset: number;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

interface Parts {
  readonly runtime: NativeRuntime;
  readonly places: Places;
  readonly code: Uint8Array;
  /** Bytes at the end of the code that are a section of their own. */
  readonly tableBytes: number;
  readonly debug: Uint8Array | null;
  readonly symbols: readonly CodeSymbol[];
  /** Changes beside those of sites. */
  readonly more: readonly FileEdit[];
  readonly request: string;
}

const editsOf = ({ steps }: Plan, { more }: Parts): readonly FileEdit[] =>
  [...steps.map(({ fileOffset: offset, before, after }) => ({ offset, before, after })), ...more].sort(
    (a, b) => a.offset - b.offset,
  );

function recordOf({ program: { image } }: Sites, plan: Plan, id: string, parts: Parts): FileRecord {
  const { phoff, phnum, phentsize, is64 } = image.header;
  const count = parts.places.moved === null ? phnum : phnum + 1;
  const kept = (offset: number, size: number) => ({ offset, bytes: image.bytes.slice(offset, offset + size) });
  return {
    schema: recordSchema,
    tool: version,
    sha256: id,
    originalSize: image.bytes.length,
    keptSize: image.bytes.length,
    headers: [kept(0, is64 ? 64 : 52), kept(phoff, count * phentsize)],
    requests: [parts.request],
    injected: false,
    session: [],
    forms: {},
    brought: [],
    gone: [],
    untraced: [],
    edits: editsOf(plan, parts),
    cut: new Uint8Array(0),
  };
}

function write(sites: Sites, plan: Plan, id: string, parts: Parts): Uint8Array {
  const { runtime, places, code, tableBytes, debug } = parts;
  const tableAt = code.length - tableBytes;
  const { image } = sites.program;
  const notes = movedNotes(image, places);
  const plain = { link: 0, info: 0, entrySize: 0 };
  const note = noteBytes(encodeRecord(recordOf(sites, plan, id, parts)), image.header.endian === 'little');
  if (image.header.shnum === 0) return writeBare(image, plan, parts, concatBytes([code, notes]), note);
  const table: NewSection = {
    ...plain,
    name: nativeSections.table,
    type: elf.SHT_PROGBITS,
    flags: elf.SHF_ALLOC,
    alignBytes: TABLE_ALIGN,
    contents: concatBytes([code.subarray(tableAt), notes]),
  };
  const appendSections: NewSection[] = [
    {
      ...plain,
      name: nativeSections.code,
      type: elf.SHT_PROGBITS,
      flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
      alignBytes: places.pageBytes,
      contents: code.subarray(0, tableAt),
    },
    ...(tableBytes > 0 ? [table] : []),
    {
      ...plain,
      name: nativeSections.words,
      type: elf.SHT_NOBITS,
      flags: elf.SHF_ALLOC | elf.SHF_WRITE,
      alignBytes: 64,
      contents: new Uint8Array(0),
    },
    ...(debug !== null
      ? [{ ...plain, name: DEBUG_FRAMES, type: elf.SHT_PROGBITS, flags: 0n, alignBytes: 8, contents: debug }]
      : []),
    { ...plain, name: recordSection, type: elf.SHT_NOTE, flags: 0n, alignBytes: 4, contents: note },
  ];
  const patches = editsOf(plan, parts).map(({ offset, after }) => ({ offset, bytes: after }));
  const { bytes, sections } = writeElf(image, { patches, appendSections, codeSymbols: parts.symbols });
  const { offset } = sections[0]!;
  const size = code.length + notes.length;
  giveAddresses(bytes, sections[0]!.index, [places.code, null]);
  if (tableBytes > 0) {
    if (sections[1]!.offset !== offset + tableAt)
      throw new ElftraceError('internal', 'the table is not behind the code');
    giveAddresses(bytes, sections[1]!.index, [places.code + BigInt(tableAt), BigInt(tableBytes)]);
  }
  if (places.moved !== null) moveSections(bytes, image, places, offset, code.length);
  giveAddresses(bytes, sections[tableBytes > 0 ? 2 : 1]!.index, [places.words, BigInt(runtime.wordsBytes)]);
  writeHeaders(bytes, image, places, { offset, size, tableAt, tableBytes }, runtime.wordsBytes);
  return bytes;
}

/**
 * A file without section headers (RT-56) gets none: some that name a part of it alone would make
 * `strip` throw the rest away. The record lies in the segment of code, whose end tells it.
 * @param laid  code, table, and notes that moved
 */
function writeBare(image: ElfImage, plan: Plan, parts: Parts, laid: Uint8Array, note: Uint8Array): Uint8Array {
  const { places, runtime, code, tableBytes } = parts;
  const offset = alignUp(image.bytes.length, places.pageBytes);
  const noteAt = alignUp(laid.length, NOTE_ALIGN);
  const record = recordAtEnd(note, offset + noteAt, image.header.endian);
  const size = noteAt + record.length;
  const bytes = new Uint8Array(offset + size);
  bytes.set(image.bytes);
  for (const edit of editsOf(plan, parts)) bytes.set(edit.after, edit.offset);
  bytes.set(laid, offset);
  bytes.set(record, offset + noteAt);
  const tableAt = code.length - tableBytes;
  writeHeaders(bytes, image, places, { offset, size, tableAt, tableBytes }, runtime.wordsBytes);
  return bytes;
}

/** Notes that make room for a program header; they go behind the table, which ends with words. */
function movedNotes({ bytes }: ElfImage, { moved }: Places): Uint8Array {
  return moved === null ? new Uint8Array(0) : bytes.slice(moved.offset, moved.offset + moved.fileSize);
}

/** Sections of such notes, to where they lie now: `at` in the code that begins at `offset`. */
function moveSections(
  bytes: Uint8Array,
  { sections }: ElfImage,
  { moved, code }: Places,
  offset: number,
  at: number,
): void {
  const { header, wordBytes } = readElf(bytes);
  const view = new ByteView(bytes, header.endian);
  const { offset: from, fileSize } = moved!;
  for (const { index, type, offset: old } of sections) {
    if (type !== elf.SHT_NOTE || old < from || old >= from + fileSize) continue;
    const row = header.shoff + index * header.shentsize + 8 + wordBytes;
    view.insertWord(row, code + BigInt(at + old - from), wordBytes);
    view.insertWord(row + wordBytes, BigInt(offset + at + old - from), wordBytes);
  }
}

/** Writes address and, where it is given, size of a section's header. */
function giveAddresses(bytes: Uint8Array, index: number, [address, size]: readonly [bigint, bigint | null]): void {
  const { header, wordBytes } = readElf(bytes);
  const view = new ByteView(bytes, header.endian);
  const at = header.shoff + index * header.shentsize;
  view.insertWord(at + 8 + wordBytes, address, wordBytes);
  if (size !== null) view.insertWord(at + 8 + 3 * wordBytes, size, wordBytes);
}
