/**
 * The plan of a request that is a session: the sessions that the record knows, then those of files,
 * then the options as one more, on the image as it was before all of them.
 */
import type { Arch } from '../machine/arch.js';
import { chosen, chosenBeside, type MachineOption } from '../machine/options.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { planProbes, unoptimised } from '../kprobes/index.js';
import { unpatched } from '../patch/undo.js';
import { readLoadMap } from '../program/load-map.js';
import type { Source } from '../program/loader.js';
import type { FileRecord } from '../record/journal.js';
import type { SessionOperation } from '../tracing/session-file.js';
import { recordedSessions, withParts } from '../tracing/session-parts.js';
import { readSessions, sessionOptions, type SessionOperations } from '../tracing/session-plan.js';
import { formatSession } from '../tracing/session-text.js';
import { tracerSymbols } from '../tracing/tracing.js';
import type { OpenedImage } from './open.js';
import type { Planned } from './planned.js';
import type { PatchHost, PatchRequest } from './request.js';
import { checkOpsEntries, prepared, type PreparedImage } from './runtime.js';

/** `--enable` as operations: an ops or a graph of its own, whose name no other one has. */
function tracerOperations(
  { tracer, saveRegs, filters }: PatchRequest,
  taken: readonly string[],
): readonly SessionOperation[] {
  let name = 'tracer';
  for (let i = 2; taken.includes(name); i++) name = `tracer-${i}`;
  const words = (given: readonly string[]): string | null => (given.length === 0 ? null : given.join(' '));
  const own = { name, filter: words(filters.filter), notrace: words(filters.notrace), at: null };
  if (tracer.kind === 'function_graph') return [{ kind: 'graph', callbacks: null, ...own }];
  const call = tracer.kind === 'symbol' ? tracer.name : tracerSymbols[tracer.kind];
  const regs = saveRegs ? 'yes' : 'no';
  return [
    { kind: 'ops', call, regs, traits: [], shared: false, trampoline: null, ...own },
    { kind: 'register', ops: name, at: null },
  ];
}

/** The options that are operations themselves, in the order in which they happen. */
function optionOperations(
  request: PatchRequest,
  objects: readonly Source[],
  earlier: readonly SessionOperation[],
): readonly SessionOperation[] {
  const taken = earlier.flatMap((each) => (each.kind === 'ops' || each.kind === 'graph' ? [each.name] : []));
  return [
    ...objects.map(({ name }) => ({ kind: 'load', module: name, file: null, at: null }) as const),
    ...request.direct,
    ...request.livepatches,
    ...(request.to === 'tracer' ? tracerOperations(request, taken) : []),
    ...request.probes,
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
  readonly objects: readonly Source[];
}

/** The sessions of a record and what a request adds: files, then the options as one more. */
async function allSessions(
  request: PatchRequest,
  record: FileRecord | null,
  arch: Arch,
  host: PatchHost,
): Promise<Added> {
  const earlier = record === null ? [] : recordedSessions(record);
  const objects: Source[] = [];
  for (const path of request.objects) objects.push(await host.source(path, arch, null));
  const read = readSessions([...earlier, ...request.sessions]);
  const operations = optionOperations(
    request,
    objects,
    read.flatMap((each) => each.operations),
  );
  const none = operations.length === 0;
  return {
    sessions: none ? read : [...read, { name: 'options', operations }],
    known: earlier.length,
    texts: [...request.sessions.map(({ text }) => text), ...(none ? [] : [formatSession(operations)])],
    objects,
  };
}

/** Objects that the `load` steps of session files name, and that are not in the image. */
async function namedObjects(
  sessions: readonly SessionOperations[],
  image: ElfImage,
  arch: Arch,
  host: PatchHost,
): Promise<Source[]> {
  const parts = new Set(readLoadMap(image)?.parts.map(({ name }) => name));
  const found: Source[] = [];
  for (const { name, operations } of sessions) {
    for (const each of operations) {
      if (each.kind !== 'load' || each.file === null || parts.has(each.module)) continue;
      parts.add(each.module);
      found.push({ ...(await host.source(each.file, arch, name)), name: each.module });
    }
  }
  return found;
}

/**
 * How many single probes sessions speak of, which decides the room that an image gets for them;
 * null: of none. One that is taken away counts, too: that it is not there is said by who looks for
 * it.
 */
function probesIn(sessions: readonly SessionOperations[]): number | null {
  const found = sessions.flatMap(({ operations }) => operations.filter((each) => 'define' in each || 'event' in each));
  return found.length === 0 ? null : found.length;
}

/**
 * The options that decide bytes: those of the record, which the request may repeat and not change.
 */
function formsOf(
  record: FileRecord | null,
  request: PatchRequest,
  { options }: Arch,
): Readonly<Record<string, string>> {
  const { machine, preempt } = request;
  const asked: Record<string, string> = {};
  const add = (decides: MachineOption['decides'][number], value: string | undefined): void => {
    const option = options.find((each) => each.decides.includes(decides));
    if (option !== undefined && value !== undefined) asked[option.name] = value;
  };
  add('nop-form', chosenBeside(options, 'nop-form', machine));
  add('idle-ops', chosen(options, 'idle-ops', machine));
  if (preempt !== undefined) asked['preempt'] = preempt;
  // It decides no bytes: who asks again, or for more, need not repeat it.
  const unsafe = request.allowUnsafeGraph ? { 'unsafe-graph': 'allowed' } : {};
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

/** @throws ElftraceError 'unsupported-form' for files whose record has no sessions to go on with */
function checkRecord({ record, recordBeside }: OpenedImage): void {
  if (record !== null && record.session.length === 0) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched without a session: revert it, then ask for everything in one session (--enable is an operation of it too)',
    );
  }
  if (recordBeside) throw new ElftraceError('unsupported-form', 'sessions keep their record in the file');
}

/** The image as it was before all sessions, with the parts that new ones bring. */
async function imageFor(
  opened: OpenedImage,
  request: PatchRequest,
  { sessions, known, objects }: Added,
  host: PatchHost,
): Promise<{ readonly on: PreparedImage; readonly brought: readonly Source[] }> {
  const { record, image, arch } = opened;
  const base: PreparedImage =
    record === null
      ? prepared(opened, undefined, request, host, probesIn(sessions))
      : { ...opened, image: readElf(unpatched(image, null, host.hash)), record: null, injected: record.injected };
  checkOpsEntries(base, request);
  const brought = [...(await namedObjects(sessions.slice(known), base.image, arch, host)), ...objects];
  if (brought.length === 0) return { on: base, brought };
  const { bytes, notices } = withParts(base.image, brought, arch, { sha256: host.hash });
  notices.forEach(host.notice);
  // A program that was no image of `load` comes back whole.
  const injected = base.injected || readLoadMap(base.image) === null;
  return { on: { ...base, image: readElf(bytes), injected }, brought };
}

/** The plan of sessions: those that the record knows, then the new ones. */
export async function planSessions(opened: OpenedImage, request: PatchRequest, host: PatchHost): Promise<Planned> {
  checkRecord(opened);
  const { record, arch } = opened;
  const added = await allSessions(request, record, arch, host);
  const { on, brought } = await imageFor(opened, request, added, host);
  const kept = {
    session: [...(record?.session ?? []), ...added.texts],
    forms: formsOf(record, request, arch),
    brought: [...(record?.brought ?? []), ...brought.map(({ name }) => name)],
    gone: record?.gone ?? [],
  };
  const { plan, probes } = planProbes(on.image, arch, added.sessions, {
    ...sessionOptions(kept, arch),
    ...(request.readonlyRanges ? { readonlyRanges: request.readonlyRanges } : {}),
    ...(on.symbols ? { symbols: on.symbols } : {}),
  });
  const listed = probes?.probes() ?? [];
  return { plan: { ...plan, notices: [...(plan.notices ?? []), ...unoptimised(listed)] }, on, kept, probes: listed };
}
