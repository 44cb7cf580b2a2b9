/**
 * `elftrace patch FILE -o OUT --nop` turns call sites into nops, `--enable` into calls of a tracer;
 * everything is decided before a byte is written.
 */
import { dirname, join } from 'node:path';
import { visibleJson } from '../visible.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { readModuleSignature } from '../elf/signature.js';
import { type Applied, applyPlan, keepsEmptyRecord, unpatched } from '../patch/apply.js';
import { planDirect } from '../tracing/direct.js';
import { checkGraphSafety, UnsafeGraphError } from '../tracing/graph-safety.js';
import { withRuntime } from '../tracing/inject.js';
import {
  type Acceptance,
  checkAcceptance,
  type Plan,
  type PlanRequest,
  type Refusal,
  type Step,
} from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import { planUntrace } from '../patch/untrace.js';
import { enableEntry, readRecord } from '../record/journal.js';
import { withKeptRelocations } from '../patch/kept-relocations.js';
import { encodePlanFile, injectionOf } from '../patch/plan-file.js';
import { entryPoint } from '../program/entry-points.js';
import type { FileRecord } from '../record/journal.js';
import { recordedSessions, withParts } from '../tracing/session-parts.js';
import type { SessionOperation } from '../tracing/session-file.js';
import { readSessions, sessionOptions, type SessionOperations } from '../tracing/session-plan.js';
import { formatSession } from '../tracing/session-text.js';
import { findSites, type Sites } from '../sites/sites.js';
import { entriesOf } from '../tracing/entries.js';
import { idleOpsOf } from '../tracing/site-state.js';
import { planTracing, type Tracer } from '../tracing/tracing.js';
import { type ListedProbe, planProbes, probeRoomFor } from '../kprobes/index.js';
import { writeOutputs } from '../output/commit.js';
import { readLoadMap } from '../program/load-map.js';
import type { Source } from '../program/loader.js';
import { load } from '../program/program.js';
import {
  hazardNotices,
  hazardsJson,
  initialisedJson,
  jsonSchema,
  newRelocationsJson,
  planJson,
  refusalsJson,
  stepJson,
  unsafeGraphJson,
} from '../report/json.js';
import type { WritableState } from '../machine/sites.js';
import type { Address, SiteIndex } from '../units.js';
import { oneLine } from './disassembly.js';
import { exitCodes } from './exit.js';
import { outputLike, outputPath, readBytes, readInput } from './files.js';
import { journalOutput } from './journal.js';
import { sourceOf } from './load.js';
import { checkMachineOptions } from './machine-options.js';
import { hash, open, type Opened, type OpenOptions } from './open.js';
import { didYouMean } from './nearest.js';
import { progress } from './progress.js';
import { probeJson, probeNotices, probeSummary } from './probes.js';
import { filterTexts, selectSites, type SelectionOptions } from './selection.js';
import { err, out } from './terminal.js';

/** Generations of sites that RISC-V's areas of nops can become. */
/** Conventions of PowerPC that may be chosen. */
export const ppcEntryNames = ['ool-ops', 'ool', 'callops', 'regs'] as const;
export const riscvSites = ['g1', 'g2', 'g2-plain', 'g2-merged', 'g3', 'g3c'] as const;

export interface PatchArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly nop: boolean;
  readonly init: boolean;
  readonly enable: boolean;
  readonly session?: readonly string[] | undefined;
  readonly direct?: readonly string[] | undefined;
  readonly livepatch?: readonly string[] | undefined;
  readonly with?: readonly string[] | undefined;
  readonly probe?: readonly string[] | undefined;
  readonly optimize: boolean;
  readonly kprobeOpt?: '2009' | 'modern' | undefined;
  readonly tracer: string;
  readonly entry?: string | undefined;
  readonly ops?: string | undefined;
  readonly ppcNop?: '2008' | 'b8' | undefined;
  readonly preempt?: 'none' | 'full' | undefined;
  readonly ppcEntries?: (typeof ppcEntryNames)[number] | undefined;
  readonly a64Era?: 'regs' | 'args' | 'callops' | undefined;
  readonly a64Default?: 'list' | 'nop' | undefined;
  readonly a64Entries?: 'one' | 'two' | undefined;
  readonly x86Tramp?: 'modern' | '2014' | 'none' | undefined;
  readonly saveRegs: boolean;
  readonly allowUnsafeGraph: boolean;
  readonly riscvDirect?: string | undefined;
  readonly riscvSite?: (typeof riscvSites)[number] | undefined;
  readonly dryRun: boolean;
  /** The verb `plan`: the plan goes to a file, or to standard output. */
  readonly planOnly: boolean;
  readonly partial: boolean;
  /** Nothing is written unless each changed site is proved. */
  readonly prove?: boolean | undefined;
  /** Sites that stay as they are, because they could not be proved. */
  readonly without?: ReadonlySet<Address>;
  readonly require?: number | undefined;
  readonly compress: boolean;
  readonly strictPerm: boolean;
  readonly untrace: boolean;
  /** What --untrace was. */
  readonly emptySlots: boolean;
  readonly readonly?: readonly string[] | undefined;
  readonly json: boolean;
}

/** `START-END` or `START+SIZE`, file positions in hex or decimal. */
function parseRange(text: string): { start: number; end: number } {
  const match = /^(0x[0-9a-fA-F]+|\d+)([-+])(0x[0-9a-fA-F]+|\d+)$/.exec(text);
  if (!match) throw new ElftraceError('usage', `--readonly ${text}: write START-END or START+SIZE`);
  const start = Number(match[1]);
  const second = Number(match[3]);
  return { start, end: match[2] === '+' ? start + second : second };
}

const readonlyOf = ({ readonly }: PatchArguments): { readonlyRanges?: { start: number; end: number }[] } =>
  readonly ? { readonlyRanges: readonly.map(parseRange) } : {};

/** What `--tracer` names. */
function tracerOf(name: string): Tracer {
  if (name === 'function' || name === 'function_graph' || name === 'counter') return { kind: name };
  return { kind: 'symbol', name };
}

/**
 * The file as it will be patched: itself, or an image of it that has the tracing entries which the
 * request needs.
 */
function prepared(
  opened: Opened,
  selection: Uint8Array | undefined,
  args: PatchArguments,
): Opened & { injected: boolean } {
  // RT-2: the linker or loader finds the entry that is named.
  if (args.entry !== undefined) return { ...opened, injected: false };
  if ((!args.enable && args.direct === undefined) || entryPoint(opened.program, 'ftrace_caller') !== null)
    return { ...opened, injected: false };
  if (opened.record !== null) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched before and has no tracing entries: revert it first',
    );
  }
  const machine = {
    ...(args.x86Tramp ? { 'x86-tramp': args.x86Tramp } : {}),
    ...(args.a64Era ? { 'a64-era': args.a64Era } : {}),
    ...(args.a64Entries ? { 'a64-entries': args.a64Entries } : {}),
    ...(args.ppcEntries ? { 'ppc-entries': args.ppcEntries } : {}),
  };
  // Words in front of functions are asked for by name: without them there is an error.
  const preferred = args.a64Era ?? args.ppcEntries ?? args.riscvSite;
  const probeRoom = args.probe === undefined ? undefined : probeRoomFor(args.probe.length);
  const image = withRuntime(opened.sites, selection, hash, preferred, machine, probeRoom);
  const program = load(image, opened.arch, {
    ...(args.mcount ? { mcountNames: args.mcount } : {}),
    ...(opened.symbols ? { symbols: opened.symbols } : {}),
  });
  const sites = findSites(program, { record: null, ...(args.table ? { tableSections: args.table } : {}) });
  return { ...opened, image, program, sites, injected: true };
}

/** An image has the entries of one time: those of another are laid in anew. */
function checkLayout(opened: Opened, option: 'x86-tramp' | 'a64-entries', value: string): void {
  const { program } = opened;
  const has = program.loadMap?.options[option];
  if (has === value) return;
  throw new ElftraceError(
    'usage',
    has === undefined
      ? `--${option}=${value}: the image's entries were not laid in by elftrace`
      : `--${option}=${value}: the image was laid out with --${option}=${has}: revert it first, or load it anew`,
    { value },
  );
}

function checkTrampolines(opened: Opened, { x86Tramp }: PatchArguments): void {
  if (x86Tramp !== undefined && x86Tramp !== 'none') checkLayout(opened, 'x86-tramp', x86Tramp);
}

function checkOpsEntries(opened: Opened, { a64Entries }: PatchArguments): void {
  if (a64Entries === undefined) return;
  const { kind } = entriesOf(opened.program);
  if (kind !== 'callops') {
    throw new ElftraceError(
      'usage',
      `--a64-entries=${a64Entries} is about entries that read an ops pointer (callops), those of the image are ${kind}`,
      { value: a64Entries },
    );
  }
  checkLayout(opened, 'a64-entries', a64Entries);
}

async function checkMachine({ arch }: Opened, args: PatchArguments): Promise<void> {
  await checkMachineOptions(arch, {
    'x86-tramp': args.x86Tramp,
    'a64-era': args.a64Era,
    'a64-default': args.a64Default,
    'a64-entries': args.a64Entries,
    'riscv-site': args.riscvSite,
    'riscv-direct': args.riscvDirect,
    'ppc-nop': args.ppcNop,
    'ppc-entries': args.ppcEntries,
  });
}

interface Planned {
  readonly plan: Plan;
  readonly on: Opened & { injected: boolean };
  /** What the record keeps of a session. */
  readonly kept: Pick<FileRecord, 'session' | 'forms' | 'brought' | 'gone'> | null;
  readonly probes?: readonly ListedProbe[];
}

/** `FUNCTION=OTHER` of an option. */
function pairOf(option: string, text: string): [name: string, other: string] {
  const match = /^([^=\s]+)=([^=\s]+)$/.exec(text);
  if (!match) throw new ElftraceError('usage', `--${option} ${text}: write FUNCTION=OTHER`);
  return [match[1]!, match[2]!];
}

/** What `--tracer` names, as a symbol of the runtime. */
const tracerSymbols = { function: 'elftrace_function_tracer', counter: 'elftrace_counter' } as const;

/** `--enable` as operations: an ops or a graph of its own, whose name no other one has. */
function tracerSteps(args: PatchArguments, taken: readonly string[]): readonly SessionOperation[] {
  const tracer = tracerOf(args.tracer);
  let name = 'tracer';
  for (let i = 2; taken.includes(name); i++) name = `tracer-${i}`;
  const texts = filterTexts(args);
  const words = (given: readonly string[]): string | null => (given.length === 0 ? null : given.join(' '));
  const own = { name, filter: words(texts.filter), notrace: words(texts.notrace), at: null };
  if (tracer.kind === 'function_graph') return [{ kind: 'graph', callbacks: null, ...own }];
  const call = tracer.kind === 'symbol' ? tracer.name : tracerSymbols[tracer.kind];
  const regs = args.saveRegs ? 'yes' : 'no';
  return [
    { kind: 'ops', call, regs, traits: [], shared: false, trampoline: null, ...own },
    { kind: 'register', ops: name, at: null },
  ];
}

/** `--direct FUNCTION=CALLER`; `jmp:` in front of the caller: the site jumps to it. */
function directStep(text: string): SessionOperation {
  const [name, caller] = pairOf('direct', text);
  const jump = caller.startsWith('jmp:');
  if (caller === 'jmp:') throw new ElftraceError('usage', `--direct ${text}: write FUNCTION=jmp:CALLER`);
  return { kind: 'direct', function: name, caller: jump ? caller.slice(4) : caller, jump, at: null };
}

function livepatchStep(text: string): SessionOperation {
  const [name, replacement] = pairOf('livepatch', text);
  return { kind: 'livepatch', function: name, replacement, at: null };
}

/** The options that are operations themselves, in the order in which they happen. */
function optionSteps(
  args: PatchArguments,
  objects: readonly Source[],
  earlier: readonly SessionOperation[],
): readonly SessionOperation[] {
  const taken = earlier.flatMap((each) => (each.kind === 'ops' || each.kind === 'graph' ? [each.name] : []));
  const { optimize, kprobeOpt: version = null, preempt = null } = args;
  return [
    ...objects.map(({ name }) => ({ kind: 'load', module: name, file: null, at: null }) as const),
    ...(args.direct ?? []).map(directStep),
    ...(args.livepatch ?? []).map(livepatchStep),
    ...(args.enable ? tracerSteps(args, taken) : []),
    ...(args.probe ?? []).map((define) => ({ kind: 'probe', define, optimize, version, preempt, at: null }) as const),
  ];
}

/** What a request adds to a session. */
interface Added {
  /** Those of the record, those of files, those of options. */
  readonly sessions: readonly SessionOperations[];
  /** How many the record had. */
  readonly known: number;
  /** Of the new ones, for the record. */
  readonly texts: readonly string[];
  /** Objects of --with. */
  readonly objects: readonly Source[];
}

/** The sessions of a record and what a request adds: files, then the options as one more. */
async function allSessions(args: PatchArguments, record: FileRecord | null, arch: Opened['arch']): Promise<Added> {
  const earlier = record === null ? [] : recordedSessions(record);
  const files = (args.session ?? []).map((name) => ({ name, text: new TextDecoder().decode(readBytes(name)) }));
  const objects: Source[] = [];
  for (const path of args.with ?? []) objects.push(await sourceOf(path, arch));
  const read = readSessions([...earlier, ...files]);
  const operations = optionSteps(
    args,
    objects,
    read.flatMap((each) => each.operations),
  );
  const none = operations.length === 0;
  return {
    sessions: none ? read : [...read, { name: 'options', operations }],
    known: earlier.length,
    texts: [...files.map(({ text }) => text), ...(none ? [] : [formatSession(operations)])],
    objects,
  };
}

/**
 * Objects that the `load` steps of session files name, and that are not in the image. Paths are
 * relative to the file that names them.
 */
async function namedObjects(
  sessions: readonly SessionOperations[],
  image: ElfImage,
  arch: Opened['arch'],
): Promise<Source[]> {
  const parts = new Set(readLoadMap(image)?.parts.map(({ name }) => name));
  const found: Source[] = [];
  for (const { name, operations } of sessions) {
    for (const each of operations) {
      if (each.kind !== 'load' || each.file === null || parts.has(each.module)) continue;
      parts.add(each.module);
      found.push({ ...(await sourceOf(join(dirname(name), each.file), arch)), name: each.module });
    }
  }
  return found;
}

/**
 * What sessions say of single probes: how much decides the room that an image gets for them. One
 * that is taken away counts, too: that it is not there is said by who looks for it.
 */
function probesIn(sessions: readonly SessionOperations[]): readonly string[] | undefined {
  const found = sessions.flatMap(({ operations }) =>
    operations.flatMap((each) => ('define' in each ? [each.define] : 'event' in each ? [each.event] : [])),
  );
  return found.length === 0 ? undefined : found;
}

function isSession({ session, direct, livepatch, with: objects, probe }: PatchArguments): boolean {
  return [session, direct, livepatch, objects, probe].some((each) => each !== undefined);
}

/**
 * The options that decide bytes: those of the record, which the request may repeat and not change.
 */
function formsOf(record: FileRecord | null, args: PatchArguments): Readonly<Record<string, string>> {
  const asked = {
    ...(args.ppcNop !== '2008' ? {} : { 'ppc-nop': args.ppcNop }),
    ...(args.a64Default === undefined ? {} : { 'a64-default': args.a64Default }),
    ...(args.preempt === undefined ? {} : { preempt: args.preempt }),
  };
  // It decides no bytes: who asks again, or for more, need not repeat it.
  const unsafe = args.allowUnsafeGraph ? { 'unsafe-graph': 'allowed' } : {};
  if (record === null) return { ...asked, ...unsafe };
  for (const [name, value] of Object.entries(asked)) {
    const kept = record.forms[name];
    if (kept !== value) {
      throw new ElftraceError(
        'usage',
        `--${name}=${value}: the session of the file has --${name}=${kept ?? 'its default'}`,
      );
    }
  }
  return { ...record.forms, ...unsafe };
}

/**
 * The plan of session files: those that the record knows, then the new ones, on the image as it was
 * before all of them.
 */
async function planSessions(opened: Opened, args: PatchArguments): Promise<Planned> {
  const { record, image, arch } = opened;
  if (record !== null && record.session.length === 0) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched without a session: revert it, then ask for everything in one session (--enable is an operation of it too)',
    );
  }
  if (opened.recordBeside) {
    throw new ElftraceError('unsupported-form', 'sessions keep their record in the file');
  }
  if (!args.enable && (args.l !== undefined || args.n !== undefined || args.file !== undefined)) {
    throw new ElftraceError(
      'usage',
      '-l, -n and --file are about --enable: operations of a session have filters of their own',
    );
  }
  const { sessions, known, texts, objects } = await allSessions(args, record, arch);
  const base: Opened & { injected: boolean } =
    record === null
      ? prepared(opened, undefined, { ...args, enable: true, probe: probesIn(sessions) })
      : { ...opened, image: readElf(unpatched(image, null, hash)), record: null, injected: record.injected };
  checkOpsEntries(base, args);
  const brought = [...(await namedObjects(sessions.slice(known), base.image, arch)), ...objects];
  const parts = brought.length === 0 ? null : withParts(base.image, brought, arch, { sha256: hash });
  for (const notice of parts?.notices ?? []) err(`${opened.input.name}: notice: ${notice}`);
  const on = {
    ...base,
    image: parts === null ? base.image : readElf(parts.bytes),
    // A program that was no image of `load` comes back whole.
    injected: base.injected || (parts !== null && readLoadMap(base.image) === null),
  };
  const kept = {
    session: [...(record?.session ?? []), ...texts],
    forms: formsOf(record, args),
    brought: [...(record?.brought ?? []), ...brought.map(({ name }) => name)],
    gone: record?.gone ?? [],
  };
  const { plan, probes } = planProbes(on.image, arch, sessions, {
    ...sessionOptions(kept, arch),
    ...readonlyOf(args),
    ...(on.symbols ? { symbols: on.symbols } : {}),
  });
  const listed = probes?.probes() ?? [];
  const notices = [...(plan.notices ?? []), ...probeNotices(listed)];
  return { plan: { ...plan, notices }, on, kept, probes: listed };
}

/** Direct callers in one of the proposals that were not taken. */
function planOfDirect(opened: Opened, pairs: readonly string[], args: PatchArguments): Planned {
  const callers = pairs.map((text) => {
    const [name, caller] = pairOf('direct', text);
    return { function: name, caller };
  });
  const on = prepared(opened, undefined, args);
  const tracer = tracerOf(args.tracer);
  const symbols = { ...tracerSymbols, function_graph: 'ftrace_graph_func' };
  const filter = args.l === undefined || args.l.length === 0 ? null : args.l.join(' ');
  const isGraph = args.enable && tracer.kind === 'function_graph';
  const unsafe = isGraph ? checkGraphSafety(on.sites, 'enable function_graph', args.allowUnsafeGraph) : [];
  const direct = planDirect(on.sites, {
    callers,
    tracer: args.enable ? { symbol: tracer.kind === 'symbol' ? tracer.name : symbols[tracer.kind], filter } : null,
    variant: args.riscvDirect ?? null,
    preempt: args.preempt,
    ...readonlyOf(args),
  });
  const notices = [...unsafe, ...(direct.notices ?? [])];
  return { plan: { ...direct, notices }, on, kept: null };
}

/** The plan of a request, and the file that it is about. */
async function planOf(opened: Opened, args: PatchArguments): Promise<Planned> {
  await checkMachine(opened, args);
  if (args.riscvDirect !== undefined) {
    if (args.direct === undefined)
      throw new ElftraceError('usage', '--riscv-direct is about --direct: name a function and its caller');
    return planOfDirect(opened, args.direct, args);
  }
  const goesOn = opened.record !== null && opened.record.session.length > 0;
  // --enable alone does without a session, which kernels and files with refused sites could not
  // have.
  if (isSession(args) || (goesOn && args.enable)) return planSessions(opened, args);
  if (goesOn) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched by a session: go on with --session (step `tracing: off`), or revert it',
    );
  }
  if (args.untrace) {
    const request = {
      ...planCommon(opened, selectSites(opened.sites, opened.module, args), args),
      record: readRecord(opened.image),
    };
    return { plan: planUntrace(opened.sites, request), on: { ...opened, injected: false }, kept: null };
  }
  const { plan, on } = planWords(opened, args);
  return { plan: withKeptRelocations(plan, on.program), on, kept: null };
}

/** The sites of a selection that may be changed. */
function selectionWithout(
  sites: Sites,
  selection: Uint8Array | undefined,
  without: ReadonlySet<Address> = new Set(),
): Uint8Array | undefined {
  if (without.size === 0) return selection;
  return Uint8Array.from({ length: sites.count }, (_, i) =>
    without.has(sites.ip(i)) ? 0 : selection === undefined ? 1 : selection[i]!,
  );
}

/** What every plan of sites is told. */
function planCommon(
  { recorded, sites }: Opened,
  selected: Uint8Array | undefined,
  args: PatchArguments,
): Pick<PlanRequest, 'selection' | 'recorded' | 'readonlyRanges' | 'strictPermissions'> {
  const selection = selectionWithout(sites, selected, args.without);
  return {
    ...(selection ? { selection } : {}),
    ...(recorded ? { recorded } : {}),
    ...readonlyOf(args),
    strictPermissions: args.strictPerm,
  };
}

/** Sites of a relocatable file that name what they call: a linker or loader finds it (RT-2). */
function planNamed({ program, sites }: Opened, args: PatchArguments, common: ReturnType<typeof planCommon>): Plan {
  if (!program.relocatable || !args.enable || args.entry === undefined) {
    throw new ElftraceError(
      'usage',
      '--entry SYMBOL [--ops SYMBOL] goes with --enable on a relocatable file: its sites name what they call',
    );
  }
  const names = { call: args.entry, ops: args.ops ?? null };
  const to: WritableState = {
    kind: 'call',
    target: 0n,
    names,
    ...(args.riscvSite === undefined ? {} : { form: args.riscvSite }),
  };
  return planSites(sites, { to, name: enableEntry(args.entry), ...common });
}

function planWords(opened: Opened, args: PatchArguments): Omit<Planned, 'kept'> {
  const before = selectSites(opened.sites, opened.module, args);
  const on = prepared(opened, before, args);
  const { sites, program, module } = on;
  const selection = on.injected ? selectSites(sites, module, args) : before;
  const common = planCommon(on, selection, args);
  const forms = {
    ...(args.ppcNop !== '2008' ? {} : { nopForm: args.ppcNop }),
    ...(args.a64Default === undefined ? {} : { idleOps: args.a64Default }),
  };
  if (args.entry !== undefined || args.ops !== undefined) return { plan: planNamed(on, args, common), on };
  const ours = program.relocatable || entryPoint(program, 'ftrace_caller') === null ? null : entriesOf(program);
  if (args.enable) {
    const others = program.loadMap !== null && program.loadMap.original === null ? 'nop' : 'untouched';
    checkTrampolines(on, args);
    checkOpsEntries(on, args);
    const { saveRegs, allowUnsafeGraph } = args;
    const trampolines = args.x86Tramp !== 'none';
    const { preempt } = args;
    const request = {
      tracer: tracerOf(args.tracer),
      others,
      saveRegs,
      allowUnsafeGraph,
      trampolines,
      preempt,
      ...common,
      ...forms,
    } as const;
    return { plan: planTracing(sites, request), on };
  }
  // With the last site the tracer goes too, and the image is as it was before.
  if (args.nop && ours?.hasObjects) {
    return {
      plan: { ...planTracing(sites, { tracer: null, others: 'nop', ...common, ...forms }), request: 'nop' },
      on,
    };
  }
  const idle = idleOpsOf(program, args.a64Default ?? 'nop');
  const to: WritableState = args.init
    ? {
        kind: 'init',
        ...(args.riscvSite === undefined ? {} : { form: args.riscvSite }),
        ...(idle === null ? {} : { literal: idle }),
      }
    : { kind: 'nop', ...(args.ppcNop !== '2008' ? {} : { form: args.ppcNop }) };
  return { plan: planSites(sites, { to, ...common }), on };
}

function acceptanceOf({ partial, require }: PatchArguments): Acceptance {
  return { partial, ...(require === undefined ? {} : { requirePercent: require }) };
}

/**
 * What a request says must be one thing, and say how much of it.
 * @throws ElftraceError 'usage'
 */
function checkRequest(args: PatchArguments): void {
  if (args.emptySlots) {
    throw new ElftraceError(
      'usage',
      '--empty-slots is no more: --untrace takes functions out of the table, and nops their calls',
    );
  }
  const wanted = [
    args.nop && '--nop',
    args.init && '--init',
    args.untrace && '--untrace',
    isSession(args) ? '--session' : args.enable && '--enable',
  ].filter((each) => each !== false);
  if (wanted.length === 0)
    throw new ElftraceError(
      'usage',
      'say what to do: --nop, --untrace, --enable, --probe, --session, --livepatch, --direct or --init',
    );
  if (args.prove === true && (args.dryRun || args.planOnly)) {
    throw new ElftraceError('usage', '--prove decides over what is written: not with --dry-run or plan');
  }
  if (args.prove === true && args.partial && (isSession(args) || args.riscvDirect !== undefined)) {
    throw new ElftraceError('usage', '--prove --partial: a session is proved as a whole, or not at all');
  }
  if (wanted.length > 1) throw new ElftraceError('usage', `${wanted.join(' and ')} exclude each other`);
}

export async function runPatch(args: PatchArguments): Promise<number> {
  checkRequest(args);
  const output = args.dryRun || args.planOnly ? undefined : outputPath(args.path, args.output, args.inPlace);
  const input = await readInput(args.path);
  const before = await open(input, args);
  progress(`patch ${args.path}: deciding`);
  const planned = await planOf(before, args).catch((error: unknown) => {
    if (error instanceof UnsafeGraphError && args.json) printUnsafe(error, before, args);
    throw tracerHint(error, args.tracer);
  });
  // Every selected site is changed by steps with the bytes before and after, is as asked already,
  // or is refused with a reason. Nothing is written.
  const { plan, on: opened } = planned;
  const acceptance = acceptanceOf(args);
  if (args.planOnly) {
    await planFile(before, planned, args);
    checkAcceptance(plan, acceptance);
    return exitCodes.ok;
  }
  if (args.dryRun) {
    if (args.json) out(JSON.stringify(planJson(input.name, hash(opened.image.bytes), plan)));
    else await printPlan(plan, opened);
    // The plan is the output; whether it would be carried out is the exit code.
    checkAcceptance(plan, acceptance);
    return exitCodes.ok;
  }
  printRefusals(plan, input.name);
  checkAcceptance(plan, acceptance);
  const written =
    args.prove === true ? await proved(before, planned, args) : { planned, applied: appliedOf(planned, args) };
  // The new bytes are in memory, each `before` was compared, and the record leads back.
  return write(before, written, args, output!);
}

/**
 * Writes the plan as a file.
 * @throws ElftraceError 'usage', 'unsupported-form' for plans that a file cannot hold
 */
async function planFile(before: Opened, planned: Planned, args: PatchArguments): Promise<void> {
  const { plan, on: opened } = planned;
  if (opened.recordBeside || args.journal !== undefined) {
    throw new ElftraceError('usage', 'plan works on files that carry their record');
  }
  if (plan.additions) {
    throw new ElftraceError('unsupported-form', 'a plan file has no room for new relocations: patch carries them out');
  }
  await writePlan(before, { ...planned, plan: { ...plan, notices: planNotices(plan, opened, args) } }, args);
}

/** A plan, and the file that it makes. */
interface Written {
  readonly planned: Planned;
  readonly applied: Applied;
}

function appliedOf({ plan, on, kept }: Planned, args: PatchArguments): Applied {
  progress(`patch ${args.path}: writing ${plan.steps.length} places`);
  const beside = args.journal !== undefined;
  return applyPlan(on.image, plan, {
    hash,
    record: beside ? 'beside' : 'note',
    earlier: on.recordBeside ? on.record : null,
    injected: on.injected,
    keep: keepsEmptyRecord(plan, on.image, on.record, beside),
    ...(kept ?? {}),
  });
}

/**
 * What may be written because it is proved. With --partial, sites that are not stay as they are:
 * the plan is made again without them, and proved again.
 */
async function proved(before: Opened, first: Planned, args: PatchArguments): Promise<Written> {
  const { unproved } = await import('./prove.js');
  const original = before.record === null ? before.image : readElf(unpatched(before.image, null, hash));
  const left = new Map<Address, Refusal>();
  let planned = first;
  for (;;) {
    const applied = appliedOf(planned, args);
    progress(`patch ${args.path}: proving`);
    const found = await unproved(before.input.name, original, applied.bytes, planned.on.arch, args.partial);
    if (found.length === 0) {
      const all = withRefusals(planned, [...left.values()]);
      checkAcceptance(all.plan, acceptanceOf(args));
      return { planned: all, applied };
    }
    const known = left.size;
    for (const each of found) left.set(each.address, each);
    if (left.size === known) {
      throw new ElftraceError('plan-refused', `${found[0]!.function} is not proved even where its site stays [PV-4]`, {
        reason: 'not-proved',
      });
    }
    printRefusals({ ...planned.plan, refusals: found }, before.input.name);
    planned = await planOf(before, { ...args, without: new Set(left.keys()) });
  }
}

/** A plan that lists sites which were left as they are. */
function withRefusals(planned: Planned, left: readonly Refusal[]): Planned {
  const { plan } = planned;
  const selected = plan.selected + left.length;
  return { ...planned, plan: { ...plan, selected, refusals: [...plan.refusals, ...left] } };
}

async function write(
  before: Opened,
  { planned, applied }: Written,
  args: PatchArguments,
  output: string,
): Promise<number> {
  const { plan, on: opened, probes = [] } = planned;
  const { input } = before;
  const beside = args.journal !== undefined;
  // The record first: a file that was changed must never be without the way back.
  const written = await writeOutputs([
    ...(beside && applied.recordBytes ? [await journalOutput(args.journal!, applied.recordBytes, output)] : []),
    outputLike({ output: output, like: args.path, form: args.compress ? input.form : 'none' }, applied.bytes),
  ]);
  const notices = [
    ...applied.notices,
    ...written,
    ...copyNotice(plan, opened, beside),
    ...planNotices(plan, opened, args),
    ...hazardNotices(plan),
  ];
  for (const notice of notices) err(`${input.name}: notice: ${notice}`);
  const additions = applied.bytes.length - input.bytes.length;
  if (args.json) {
    out(
      JSON.stringify({
        schema: jsonSchema,
        file: input.name,
        output: output,
        edits: plan.steps.map(stepJson),
        ...newRelocationsJson(plan),
        additions: applied.record ? [{ section: beside ? null : '.note.elftrace', bytes: additions }] : [],
        refusals: refusalsJson(plan),
        ...initialisedJson(plan),
        ...(probes.length > 0 ? { probes: probes.map(probeJson) } : {}),
        hazards: hazardsJson(plan),
        notices,
      }),
    );
  } else {
    out(
      `${output}: ${plan.changed} of ${plan.selected} sites changed, ${initialisedText(plan)}${plan.unchanged} already as asked` +
        (plan.refusals.length > 0 ? `, ${plan.refusals.length} refused` : '') +
        (probes.length > 0 ? `; ${probeSummary(probes)}` : ''),
    );
  }
  return exitCodes.ok;
}

/** A tracer that is no symbol of the image may be a mistyped one of ours. */
function tracerHint(error: unknown, tracer: string): unknown {
  if (!(error instanceof ElftraceError) || error.context.symbol !== tracer) return error;
  const hint = didYouMean(tracer, ['function', 'function_graph', 'counter']);
  return hint === '' ? error : new ElftraceError(error.code, error.message + hint, error.context, { cause: error });
}

/**
 * A request that was refused as a whole, as JSON: of `--dry-run` a plan without steps. Nothing is
 * written.
 */
function printUnsafe({ what, hazards }: UnsafeGraphError, { input, arch }: Opened, args: PatchArguments): void {
  const refusals = unsafeGraphJson(hazards);
  const common = { schema: jsonSchema, file: input.name };
  out(
    JSON.stringify(
      args.dryRun
        ? {
            ...common,
            sha256: hash(input.bytes),
            target: arch.target.id,
            request: what,
            ...{ selected: 0, changed: 0, unchanged: 0, steps: [], refusals, hazards: [] },
          }
        : { ...common, output: null, edits: [], additions: [], refusals, hazards: [], notices: [] },
    ),
  );
}

/** Writes the plan file. */
async function writePlan(
  { input, image: original, record }: Opened,
  { plan, kept, on }: Planned,
  args: PatchArguments,
): Promise<void> {
  // Sessions start from the image as it was before them.
  const unpatchedFirst = kept !== null && record !== null;
  const base = unpatchedFirst ? unpatched(original, null, hash) : input.bytes;
  const text = encodePlanFile({
    sha256: hash(input.bytes),
    plan,
    session: kept === null ? null : { ...kept, injected: on.injected },
    unpatched: unpatchedFirst,
    injection: injectionOf(base, on.image.bytes),
  });
  if (args.output === undefined) out(text);
  else await writeOutputs([{ path: args.output, bytes: new TextEncoder().encode(`${visibleJson(text)}\n`) }]);
}

/**
 * What a kernel with dynamic ftrace does with a module or image whose table still names changed
 * sites: it loads it, reports ftrace_bug, and function tracing is dead until the next boot. Tried
 * on x86-64, PowerPC and arm64 kernels.
 */
function tableNotice(plan: Plan, { program, sites }: Opened): string[] {
  const kernel = program.isModule || sites.tables.some((table) => table.name === '__start_mcount_loc');
  if (!kernel || plan.untraced !== undefined || plan.changed === 0) return [];
  if (!sites.tables.some(({ role, position }) => role === 'sites' && (position[0] ?? -1) >= 0)) return [];
  // Stubs out of line are written again at start, whatever they hold; the sites are as they were.
  const touched = plan.steps.some((step) => step.kind !== 'store' || ownsAddress(sites, step.site, step.address));
  if (!touched) return [];
  return [
    `the site table still names the ${plan.changed} changed sites: a kernel with dynamic ftrace that loads this file stops function ` +
      'tracing until it is rebooted; take them out of the table with --untrace',
  ];
}

/** False for a store that is elsewhere than at its site. */
function ownsAddress(sites: Opened['sites'], site: SiteIndex, address: bigint): boolean {
  const reading = sites.reading(site);
  if (reading === null) return true;
  const start = sites.anchor[site]! + BigInt(reading.startDelta);
  return address >= start && address < start + BigInt(reading.sizeBytes);
}

/** Why a file in which nothing was to be done has no record. */
function copyNotice(plan: Plan, opened: Opened, beside: boolean): string[] {
  const { steps, additions } = plan;
  if (steps.length > 0 || additions !== undefined || opened.record !== null) return [];
  if (keepsEmptyRecord(plan, opened.image, opened.record, beside)) return [];
  const why = readModuleSignature(opened.image.bytes) ? 'its signature holds' : 'it has no room for one';
  return [`nothing was to be changed: the output is a copy without a record, because ${why}`];
}

/** What who carries the plan out should know. */
function planNotices(plan: Plan, opened: Opened, args: PatchArguments): string[] {
  return [
    ...(plan.notices ?? []),
    ...tableNotice(plan, opened),
    ...formNotice(plan, args),
    ...initialisedNotice(plan),
    ...undefinedNotice(plan),
  ];
}

const initialisedText = ({ initialised = [] }: Plan): string =>
  initialised.length === 0 ? '' : `${initialised.length} made nops as in a kernel that starts, `;

/** Names in a notice; JSON has all of them. */
const NAMES = 8;

/** C-INIT-2: what an image of `load` gets beside what was asked. */
function initialisedNotice({ initialised = [] }: Plan): string[] {
  if (initialised.length === 0) return [];
  const more = initialised.length - NAMES;
  const names = initialised.slice(0, NAMES).join(', ') + (more > 0 ? ` and ${more} more` : '');
  return [
    `${initialised.length} sites that nobody traces became nops, as in a kernel that starts: ${names} [C-INIT-2]`,
  ];
}

/** Names of --entry and --ops that the file did not have. */
function undefinedNotice({ additions }: Plan): string[] {
  const symbols = additions?.symbols ?? [];
  if (symbols.length === 0) return [];
  return [`the file defines no ${symbols.join(', no ')}: undefined symbols of it now, for a linker or loader to find`];
}

/** H3: a thread that is inside the tracer returns to a nop where its restore was. */
function formNotice(plan: Plan, args: PatchArguments): string[] {
  if (args.ppcNop !== '2008' || !plan.steps.some((step) => step.rule === 'T-PPC-12')) return [];
  return [
    'sites were disabled in the form of 2008 (two nops): on a running system a thread inside the tracer would come back to a nop where ' +
      'r2 must be restored; --ppc-nop=b8 has no such window',
  ];
}

function printRefusals(plan: Plan, name: string): void {
  for (const refusal of plan.refusals) {
    const where = refusal.function === '' ? '' : ` (${refusal.function})`;
    err(
      `${name}:${refusal.section}+${hex(refusal.address)}${where}: error: ${refusal.code}: ${refusal.reason} [${refusal.errno}]`,
    );
    if (refusal.expected !== '') err(`  expected: ${refusal.expected}`);
    if (refusal.actual !== '') err(`  actual: ${refusal.actual}`);
  }
}

async function printPlan(plan: Plan, opened: Opened): Promise<void> {
  out(
    `plan: ${plan.request} on ${plan.target}: ${plan.changed} of ${plan.selected} sites change, ${initialisedText(plan)}${plan.unchanged} are as asked`,
  );
  for (const step of plan.steps) {
    out(
      `  ${step.section}+${hex(step.address)}: ${hexBytes(step.before)} -> ${hexBytes(step.after)}  ${await stepText(step, opened.arch)} [${step.rule}]`,
    );
  }
  for (const { site, section, offset, type, symbol } of plan.additions?.relocations ?? []) {
    const name = opened.arch.relocations.get(type)?.name ?? String(type);
    const where = opened.sites.codeRange(site)?.name ?? String(section);
    out(`  ${where}+${hex(offset)}: new relocation ${name} ${symbol} [F-2]`);
  }
  for (const refusal of plan.refusals) {
    out(
      `  refused ${refusal.section}+${hex(refusal.address)} ${refusal.function}: ${refusal.code}: ${refusal.reason} [${refusal.errno}]`,
    );
  }
  for (const notice of initialisedNotice(plan)) out(`  ${notice}`);
  for (const notice of hazardNotices(plan)) out(`  hazard ${notice}`);
}

async function stepText(step: Step, arch: Parameters<typeof oneLine>[0]): Promise<string> {
  if (step.kind === 'table') return `table: ${step.part}`;
  if (step.kind === 'reloc') {
    const [from, to] = [step.type, step.becomes].map((type) => arch.relocations.get(type)?.name ?? String(type));
    return `relocation ${from!} ${step.symbol} -> ${to!}`;
  }
  return `${await oneLine(arch, step.before, step.address)} -> ${await oneLine(arch, step.after, step.address)}`;
}
