/**
 * Core and modules become one image, as `load` asks for it: which runtime comes in, where all of
 * it lies, and what an image that is there already has decided.
 */
import type { Arch } from '../machine/arch.js';
import type { ConventionName } from '../machine/conventions.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import type { Disassembler } from '../isa/disassembler.js';
import { probeRoomFor, probeServer } from '../kprobes/index.js';
import { conventionsOf } from '../program/conventions.js';
import { type LoadBase, readLoadMap } from '../program/load-map.js';
import {
  loadImages,
  loadMore,
  type LoaderOptions,
  type LoadResult,
  recordedConvention,
  runtimeConvention,
  type Source,
} from '../program/loader.js';
import { load, probeSections } from '../program/program.js';
import { readRecord } from '../record/journal.js';
import { runtimeObject } from '../runtime/index.js';
import type { Sha256 } from '../sha256.js';
import { findSites } from '../sites/sites.js';
import { isRuntimeObject, unsavedUses, vectorWrapper } from '../tracing/callback-code.js';
import { withRoomFor } from '../tracing/inject.js';
import { loadIntoSession } from '../tracing/session-parts.js';
import type { Address } from '../units.js';
import { checkMachineOptions } from './machine-options.js';

export interface LoadRequest {
  /** The core's file, or the image's, for messages. */
  readonly path: string;
  readonly core: Source;
  readonly modules: readonly Source[];
  readonly base?: LoadBase | Address | undefined;
  readonly moduleBase?: Address | undefined;
  /** Name of the entry point. */
  readonly entry?: string | undefined;
  /** The runtime's file; 'none'; undefined: the one that comes with elftrace, if sites want one. */
  readonly runtime?: 'none' | { readonly path: string; readonly source: Source } | undefined;
  /** Room for so many probes. */
  readonly probes?: number | undefined;
  /** Options of the machine that were given, by name. */
  readonly machine: Readonly<Record<string, string>>;
}

export interface LoadHost {
  readonly hash: Sha256;
  readonly disassembler: (arch: Arch) => Promise<Disassembler>;
}

/**
 * Decides and loads. Nothing is written: the bytes are the result.
 * @throws ElftraceError 'usage' for what does not go together; 'unsupported-form' for a runtime
 *   that changes what entries do not save; and as the loader does
 */
export async function loadFiles(request: LoadRequest, arch: Arch, host: LoadHost): Promise<LoadResult> {
  const { core, modules, machine, moduleBase } = request;
  checkMachineOptions(arch, machine);
  const map = readLoadMap(core.image);
  checkProbes(request, map?.parts.some(({ kind }) => kind === 'runtime') === true);
  const images = [core.image, ...modules.map((each) => each.image)];
  const runtime = await runtimeOf(request, images, arch, host);
  const options = optionsOf(request, images, arch, host);
  if (map !== null) refuseDecided(request);
  const base = request.base ?? baseOf(core.image, arch);
  const result =
    map !== null
      ? loadBehind(request, arch, host, options, runtime)
      : loadImages(
          {
            ...{ core, modules, runtime, base },
            ...(moduleBase === undefined ? {} : { moduleBase }),
            options: { ...options, ...sitesOf(core.image, arch) },
          },
          arch,
        );
  if (request.probes !== undefined && readElf(result.bytes).section(probeSections.text) === undefined) {
    throw new ElftraceError('usage', '--probes: no runtime was laid in, so there is no room for them');
  }
  return result;
}

/** Kernels are recognised by where they are linked. */
function baseOf(core: ElfImage, arch: Arch): LoadBase {
  if (core.header.type === elf.ET_REL || arch.loader.kind === 'none') return 'user';
  const kernel = arch.loader.bases('kernel', {}).core;
  return core.segments.some((each) => each.type === elf.PT_LOAD && each.address >= kernel) ? 'kernel' : 'user';
}

/** Slots of the site tables of files. */
function slotsOf(images: readonly ElfImage[]): number {
  const tables = images.flatMap((image) =>
    ['__mcount_loc', '__patchable_function_entries'].flatMap((name) =>
      image.sectionsNamed(name).map((section) => section.size / image.wordBytes),
    ),
  );
  return tables.reduce((sum, slots) => sum + slots, 0);
}

/** The runtime: one that is named, none, or the one that comes with elftrace. */
async function runtimeOf(
  request: LoadRequest,
  images: readonly ElfImage[],
  arch: Arch,
  host: LoadHost,
): Promise<Source | null> {
  const { runtime, probes } = request;
  if (runtime === 'none') return null;
  if (runtime !== undefined) {
    await checkSaved(runtime, arch, host);
    return { ...runtime.source, name: 'runtime' };
  }
  const convention = conventionOf(request, images, arch);
  checkConvention(request, arch, convention);
  const bytes = convention === null ? null : runtimeObject(arch.target.id, convention, probes !== undefined);
  return bytes === null ? null : { name: 'runtime', image: withRoomFor(bytes, slotsOf(images)) };
}

async function checkSaved(
  { path, source }: Exclude<LoadRequest['runtime'], 'none' | undefined>,
  arch: Arch,
  { disassembler }: LoadHost,
): Promise<void> {
  const program = load(source.image, arch);
  const [unsaved] = isRuntimeObject(program) ? unsavedUses(program, await disassembler(arch)) : [];
  if (unsaved === undefined) return;
  throw new ElftraceError(
    'unsupported-form',
    `${path}: ${unsaved.function} changes what the entries do not save (${unsaved.text}), and there is no ${vectorWrapper} [C-FG-7]`,
    { symbol: unsaved.function },
  );
}

/**
 * The entries for the sites of the files; null: there are none. Where several occur, or several
 * serve, the entries that pass more come first: they serve all, or the loader refuses.
 */
function conventionOf(
  { probes, machine }: LoadRequest,
  images: readonly ElfImage[],
  arch: Arch,
): ConventionName | null {
  const map = readLoadMap(images[0]!);
  const recorded = map === null ? null : recordedConvention(arch, map);
  const found = [...(recorded === null ? [] : [recorded]), ...images.flatMap((image) => conventionsOf(image, arch))];
  if (found.length === 0) return probes === undefined ? null : (arch.conventions[0]?.name ?? null);
  const own = arch.loader.kind === 'none' ? {} : arch.loader.options;
  const given = Object.entries(map?.options ?? machine).filter(([name]) => name in own);
  const serves = (convention: ConventionName): boolean =>
    found.every((each) =>
      arch.siteShapes.every(({ entries }) => !entries.includes(each) || entries.includes(convention)),
    );
  return (
    runtimeConvention(arch, found, Object.fromEntries(given)) ??
    arch.conventions.find(({ name }) => found.includes(name) || serves(name))?.name ??
    null
  );
}

/** Choices that one convention alone has. */
function checkConvention({ machine }: LoadRequest, arch: Arch, convention: ConventionName | null): void {
  for (const { name, needs } of arch.options) {
    const need = needs?.[machine[name] ?? ''];
    if (need === undefined || need.convention === convention) continue;
    throw new ElftraceError('usage', `--${name}=${machine[name]!}: ${need.otherwise(convention ?? 'none')}`);
  }
}

/** As many as a room can be asked for: what they take is still in the reach of a branch. */
const MOST_PROBES = 0x4000;

function checkProbes({ probes, runtime }: LoadRequest, isLaidIn: boolean): void {
  if (probes === undefined) return;
  if (!Number.isSafeInteger(probes) || probes < 1 || probes > MOST_PROBES) {
    throw new ElftraceError('usage', `--probes takes a number from 1 to ${MOST_PROBES}`, { value: probes });
  }
  if (runtime === 'none')
    throw new ElftraceError('usage', '--probes: the room goes with the runtime, which --runtime=none leaves out');
  if (isLaidIn)
    throw new ElftraceError('usage', '--probes: the image has its runtime already, with or without room for probes');
}

/** What the loader is told; a runtime with room for probes needs no sites. */
function optionsOf(
  { probes, entry, machine }: LoadRequest,
  images: readonly ElfImage[],
  arch: Arch,
  { hash }: LoadHost,
): LoaderOptions {
  // Where there are no sites nothing says which entries the runtime has.
  const first = arch.conventions[0]?.name;
  const hasSites = images.some((image) => conventionsOf(image, arch).length > 0);
  return {
    machine,
    ...(probes === undefined || hasSites || !first ? {} : { convention: first }),
    sha256: hash,
    ...(entry === undefined ? {} : { entry }),
    ...(probes === undefined ? {} : { probeRoom: probeRoomFor(probes) }),
  };
}

/**
 * What was decided when the image was made is not decided again.
 * @throws ElftraceError 'usage'
 */
function refuseDecided({ path, base, moduleBase, machine }: LoadRequest): void {
  const bases = [...(base === undefined ? [] : ['base']), ...(moduleBase === undefined ? [] : ['module-base'])];
  const [given] = [...Object.keys(machine), ...bases];
  if (given !== undefined) throw new ElftraceError('usage', `${path} is loaded already: --${given} was decided then`);
}

/** Loads the modules into an image of `load`, behind its sessions if it has any. */
function loadBehind(
  { core: { image }, modules }: LoadRequest,
  arch: Arch,
  { hash }: LoadHost,
  options: LoaderOptions,
  runtime: Source | null,
): LoadResult {
  const record = readRecord(image);
  if (record === null || record.session.length === 0) return loadMore({ image, modules, runtime, options }, arch);
  return loadIntoSession({ image, record, hash, probes: probeServer(arch).hosts }, modules, arch, options, runtime);
}

/** Places of a linked core that will call the tracer's entries. */
function sitesOf(core: ElfImage, arch: Arch): Pick<LoaderOptions, 'coreSites'> {
  if (core.header.type === elf.ET_REL) return {};
  const sites = findSites(load(core, arch));
  return { coreSites: Array.from({ length: sites.count }, (_, i) => sites.ip(i)) };
}
