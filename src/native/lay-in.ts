/**
 * A linked program, once patched, that writes its own trace (RT-27, RT-28): the runtime in
 * a segment of its own, its sites calling it, a record from which `revert` makes the original.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import { readElf } from '../elf/read.js';
import { type NewSection, writeElf } from '../elf/write.js';
import { ElftraceError, hex } from '../errors.js';
import { noteBytes } from '../patch/apply.js';
import { encodeRecord, type FileRecord, recordSchema, recordSection } from '../patch/journal.js';
import type { Plan, Step } from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import { sha256, type Sha256 } from '../sha256.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';
import { version } from '../version.js';
import { type Places, placesFor, writeHeaders } from './place.js';
import { refused, type RuntimeTracing, tracingOf } from './refuse.js';
import { type NativeRuntime, nativeRuntime, runtimeBytes, type RuntimeFacts, symbolAddress } from './runtime.js';

/** Names of the sections that are added. */
const nativeSections = { code: '.elftrace.text', words: '.elftrace.bss' } as const;

/** What the record of a file that writes its own trace calls the request. */
const nativeRequest = 'record function';

export interface LayInOptions {
  /** Path of the file, which traces name. */
  readonly name: string;
  /** One byte per site, nonzero for selected; all when absent. */
  readonly selection?: Uint8Array;
  readonly hash?: Sha256;
}

export interface LaidIn {
  readonly bytes: Uint8Array;
  readonly plan: Plan;
  /** SHA-256 of the original: what its traces carry. */
  readonly id: string;
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
function frontSteps(sites: Sites, { callInFront }: RuntimeTracing, entry: Address, selection: Uint8Array): Step[] {
  const steps: Step[] = [];
  for (let site = 0; site < sites.count; site++) {
    const reading = selection[site] === 0 ? null : sites.reading(site);
    if (reading?.state !== 'foreign') continue;
    const stores = callInFront(sites.viewOf(site), reading, entry);
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
  if (first !== undefined && sites.reading(first.site)?.nops === 'few') {
    return refused('too-small', `${first.function}: ${first.reason}: compile with ${options.shortest}`);
  }
  const place = first === undefined ? '' : first.function || hex(first.address);
  const why = first === undefined ? 'functions must begin with their sites' : `${place}: ${first.reason}`;
  const hint = program.namesFunctions ? '' : ': name them with --symbols FILE';
  const message = `no site of the file can call the runtime: ${why}${hint}`;
  return new ElftraceError('no-match', message, { reason: 'no-sites' });
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
  checkReach(sites, tracing);
  const runtime = nativeRuntime(arch, tracing);
  const places = placesFor(image, runtime.wordsBytes, arch.target.pageBytes);
  const id = (options.hash ?? sha256)(image.bytes);
  const facts = {
    ...places,
    id: Uint8Array.from(id.match(/../g)!, (digits) => Number.parseInt(digits, 16)),
    name: options.name,
  };
  const target = symbolAddress(runtime, tracing.entry, facts);
  const selection = servedSites(sites, tracing, options.selection);
  const front = frontSteps(sites, tracing, target, selection);
  const plan = withSteps(planSites(sites, { to: { kind: 'call', target }, name: nativeRequest, selection }), front);
  if (plan.changed === 0) throw noneServed(sites, tracing, plan);
  const code = runtimeBytes(runtime, arch, tracing, facts);
  return { bytes: write(sites, plan, id, { runtime, places, facts, code }), plan, id };
}

interface Parts {
  readonly runtime: NativeRuntime;
  readonly places: Places;
  readonly facts: RuntimeFacts;
  readonly code: Uint8Array;
}

function recordOf({ program: { image } }: Sites, plan: Plan, id: string): FileRecord {
  const { phoff, phnum, phentsize, is64 } = image.header;
  const kept = (offset: number, size: number) => ({ offset, bytes: image.bytes.slice(offset, offset + size) });
  return {
    schema: recordSchema,
    tool: version,
    sha256: id,
    originalSize: image.bytes.length,
    keptSize: image.bytes.length,
    headers: [kept(0, is64 ? 64 : 52), kept(phoff, phnum * phentsize)],
    requests: [nativeRequest],
    injected: false,
    session: [],
    forms: {},
    brought: [],
    gone: [],
    untraced: [],
    edits: plan.steps.map(({ fileOffset, before, after }) => ({ offset: fileOffset, before, after })),
    cut: new Uint8Array(0),
  };
}

function write(sites: Sites, plan: Plan, id: string, { runtime, places, code }: Parts): Uint8Array {
  const { image } = sites.program;
  const plain = { link: 0, info: 0, entrySize: 0 };
  const note = noteBytes(encodeRecord(recordOf(sites, plan, id)), image.header.endian === 'little');
  const appendSections: NewSection[] = [
    {
      ...plain,
      name: nativeSections.code,
      type: elf.SHT_PROGBITS,
      flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
      alignBytes: places.pageBytes,
      contents: code,
    },
    {
      ...plain,
      name: nativeSections.words,
      type: elf.SHT_NOBITS,
      flags: elf.SHF_ALLOC | elf.SHF_WRITE,
      alignBytes: 64,
      contents: new Uint8Array(0),
    },
    { ...plain, name: recordSection, type: elf.SHT_NOTE, flags: 0n, alignBytes: 4, contents: note },
  ];
  const patches = plan.steps.map(({ fileOffset, after }) => ({ offset: fileOffset, bytes: after }));
  const { bytes, sections } = writeElf(image, { patches, appendSections });
  const offset = sections[0]!.offset;
  writeHeaders(bytes, image, places, { offset, size: code.length }, runtime.wordsBytes);
  giveAddresses(bytes, sections[0]!.index, [places.code, null]);
  giveAddresses(bytes, sections[1]!.index, [places.words, BigInt(runtime.wordsBytes)]);
  return bytes;
}

/** Writes address and, where it is given, size of a section's header. */
function giveAddresses(bytes: Uint8Array, index: number, [address, size]: readonly [bigint, bigint | null]): void {
  const { header, wordBytes } = readElf(bytes);
  const view = new ByteView(bytes, header.endian);
  const at = header.shoff + index * header.shentsize;
  view.insertWord(at + 8 + wordBytes, address, wordBytes);
  if (size !== null) view.insertWord(at + 8 + 3 * wordBytes, size, wordBytes);
}
