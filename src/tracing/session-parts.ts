/**
 * Parts of an image that has a session in its record: modules that come and go
 * (`load IMAGE MODULE`, `unload IMAGE MODULE`), and objects that a session brings itself. Owns how
 * the record goes on: the operations stay, the step of the module is added behind them, and all is
 * performed again on the image with its new parts. The laying out is the loader's, what the steps
 * mean is the core's.
 */
import type { Arch } from '../machine/arch.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { type LoadMap, readLoadMap } from '../program/load-map.js';
import { loadImages, loadMore, type LoaderOptions, type LoadResult, type Source, unload } from '../program/loader.js';
import type { Sha256 } from '../sha256.js';
import { applyPlan } from '../patch/apply.js';
import { unpatched } from '../patch/undo.js';
import type { GoneModule } from '../record/gone-modules.js';
import type { FileRecord } from '../record/journal.js';
import type { SessionOperation } from './session-file.js';
import { formatSession } from './session-text.js';
import { planSession, type ProbeHosts, sessionOptions, type SessionPlan, type SessionText } from './session-plan.js';

/** The sessions that a record keeps, as files. */
export function recordedSessions({ session }: Pick<FileRecord, 'session'>): SessionText[] {
  return session.map((text, index) => ({ name: `recorded session ${index + 1}`, text }));
}

/**
 * What the sessions of a record make of the image as it was before them. What they do was allowed
 * when they were recorded.
 * @param options  names for a stripped file; who performs operations of probes
 */
export function replaySessions(
  image: ElfImage,
  record: FileRecord,
  arch: Arch,
  hash: Sha256,
  options: { readonly symbols?: SymbolTable | undefined; readonly probes?: ProbeHosts | undefined } = {},
): SessionPlan {
  const { symbols, probes } = options;
  const all = { ...sessionOptions(record, arch), ...(symbols ? { symbols } : {}), probes, allowUnsafeGraph: true };
  return planSession(readElf(unpatched(image, null, hash)), arch, recordedSessions(record), all);
}

/** An image with more parts. A program that `load` did not make becomes the core of one. */
export function withParts(
  image: ElfImage,
  sources: readonly Source[],
  arch: Arch,
  options: LoaderOptions,
  runtime: Source | null = null,
): LoadResult {
  if (readLoadMap(image) !== null) return loadMore({ image, modules: sources, runtime, options }, arch);
  return loadImages({ core: { name: 'core', image }, modules: sources, base: 'user', runtime, options }, arch);
}

export interface PartsRequest {
  /** A patched image whose record keeps sessions. */
  readonly image: ElfImage;
  readonly record: FileRecord;
  readonly hash: Sha256;
  /** Who serves the steps about probes; without it a session that has some is refused. */
  readonly probes?: ProbeHosts;
}

export interface PartsResult {
  readonly bytes: Uint8Array;
  readonly map: LoadMap;
  readonly notices: readonly string[];
}

/** Performs the sessions of a record and what comes behind them, and writes the record. */
function perform(
  loaded: LoadResult,
  arch: Arch,
  record: FileRecord,
  added: readonly SessionOperation[],
  { hash, probes }: PartsRequest,
): PartsResult {
  const image = readElf(loaded.bytes);
  const sessions = [...recordedSessions(record), { name: 'modules', operations: added }];
  const { plan, steps } = planSession(image, arch, sessions, {
    ...sessionOptions(record, arch),
    probes,
    allowUnsafeGraph: true,
  });
  const { forms, brought, gone } = record;
  const session = added.length === 0 ? record.session : [...record.session, formatSession(added)];
  // Nothing to write, no record: a session that left nothing still is one.
  const applied = applyPlan(image, plan, { hash, session, forms, brought, gone, keep: true });
  const last = steps.at(-1)?.outcome;
  return {
    bytes: applied.bytes,
    map: loaded.map,
    notices: [...loaded.notices, ...(last?.kind === 'done' ? last.warnings : [])],
  };
}

/**
 * Modules come to an image with a session (C-MOD-1): their sites become records, and the words of
 * filters that waited for them take effect. Reverting gives the image with the modules, as it would
 * be without the session.
 * @throws ElftraceError as `loadMore` and `planSession`
 */
export function loadIntoSession(
  request: PartsRequest,
  modules: readonly Source[],
  arch: Arch,
  options: LoaderOptions,
  runtime: Source | null,
): PartsResult {
  const { image, record, hash } = request;
  const base = readElf(unpatched(image, null, hash));
  const loaded = withParts(base, modules, arch, options, runtime);
  const step = modules.map(({ name }) => ({ kind: 'load', module: name, file: null, at: null }) as const);
  // The parts are the user's own now: reverting gives the loaded image.
  const next = { ...record, injected: false, brought: [] };
  return perform(loaded, arch, next, step, request);
}

/**
 * A module of an image with a session goes (C-MOD-2): its records go without being patched, hashes
 * forget it and keep their counts (C-HASH-4).
 * @throws ElftraceError 'module-in-use' also while a registered callback lies in it
 */
export function unloadFromSession(request: PartsRequest, name: string, arch: Arch): PartsResult {
  const { image, record, hash, probes } = request;
  const base = readElf(unpatched(image, null, hash));
  const loaded = unload(base, name, arch, { sha256: hash });
  const { session, symbols, host } = planSession(base, arch, recordedSessions(record), {
    ...sessionOptions(record, arch),
    probes,
    allowUnsafeGraph: true,
  });
  const reason = session.moduleUse(name) ?? host?.moduleUse(name) ?? null;
  if (reason !== null) throw new ElftraceError('module-in-use', `${reason} (EBUSY)`, { symbol: name });
  const there = session.isLoaded(name);
  const part = readLoadMap(base)?.parts.find((each) => each.name === name);
  const gone: GoneModule = {
    name,
    unload: session.unloadsOf(name) - (there ? 0 : 1),
    sites: session.sitesOfModule(name) ?? [],
    symbols: symbols.filter(
      ({ address }) => part?.ranges.some(({ start, end }) => address >= start && address < end) === true,
    ),
    // Those of an earlier life of the module are known already.
    probes: (host?.placesIn(name) ?? []).filter(({ id }) => session.goneProbe(id) === null),
  };
  const next: FileRecord = {
    ...record,
    injected: false,
    brought: [],
    untraced: [],
    gone: [...record.gone, gone],
  };
  const step = there ? [{ kind: 'unload', module: name, at: null } as const] : [];
  return perform(loaded, arch, next, step, request);
}
