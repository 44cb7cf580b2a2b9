/**
 * `elftrace load CORE MODULE… -o IMAGE`: core and modules in one address space;
 * `load IMAGE MODULE…` adds to a loaded image.
 */
import { basename } from 'node:path';
import type { Arch } from '../machine/arch.js';
import type { ConventionName } from '../machine/conventions.js';
import { loadArch, targetOf } from '../targets.js';
import { readElf } from '../elf/read.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { isRuntimeObject, unsavedUses, vectorWrapper } from '../tracing/callback-code.js';
import { disassemblerOf } from './disassembly.js';
import { ElftraceError } from '../errors.js';
import { readRecord } from '../record/journal.js';
import { loadIntoSession } from '../tracing/session-parts.js';
import { findSites } from '../sites/sites.js';
import { withRoomFor } from '../tracing/inject.js';
import { probeRoomFor, probeServer } from '../kprobes/index.js';
import { conventionsOf } from '../program/conventions.js';
import { type LoadBase, readLoadMap } from '../program/load-map.js';
import { moduleName } from '../program/module-name.js';
import {
  recordedConvention,
  loadImages,
  loadMore,
  type LoaderOptions,
  type LoadResult,
  runtimeConvention,
  type Source,
} from '../program/loader.js';
import { load as loadProgram, probeSections } from '../program/program.js';
import { loadJson } from '../report/json.js';
import { runtimeObject } from '../runtime/index.js';
import type { Address } from '../units.js';
import { checkMachineOptions } from '../pipeline/machine-options.js';
import { exitCodes } from './exit.js';
import { outputPath, readInput, writeOutput } from './files.js';
import { hash } from './open.js';
import { err, out } from './terminal.js';

export interface LoadArguments {
  readonly path: string;
  readonly modules: readonly string[];
  readonly output?: string | undefined;
  readonly base?: string | undefined;
  readonly moduleBase?: string | undefined;
  readonly entry?: string | undefined;
  readonly runtime?: string | undefined;
  /** Room for so many probes. */
  readonly probes?: number | undefined;
  /** Load options of the machine by name. */
  readonly machine: Readonly<Record<string, string | undefined>>;
  readonly json: boolean;
}

/** `0x…` or decimal. */
export function parseAddress(text: string, option: string): Address {
  if (!/^(0x[0-9a-f]+|[0-9]+)$/i.test(text)) {
    throw new ElftraceError('usage', `${option} takes an address, not '${text}'`, { value: text });
  }
  return BigInt(text);
}

/** A part's name: that of the module, else the file's without its ending. */
function partName(image: ElfImage, path: string): string {
  return moduleName(image, path) ?? basename(path).replace(/\.(o|ko|elf)$/, '');
}

/** A file that becomes a part. */
export async function sourceOf(path: string, arch: Arch | null): Promise<Source> {
  const input = await readInput(path);
  const image = readElf(input.bytes);
  const target = targetOf(image.header);
  if (arch !== null && target !== arch.target.id) {
    const { title } = (await loadArch(image.header)).target;
    throw new ElftraceError('usage', `${path} is of ${title}, the core of ${arch.target.title}`, {
      file: path,
    });
  }
  return { name: partName(image, path), image };
}

/** The base that was asked for; kernels are recognised by where they are linked. */
function baseOf(text: string | undefined, core: ElfImage, arch: Arch): LoadBase | Address {
  if (text === 'user' || text === 'kernel') return text;
  if (text !== undefined) return parseAddress(text, '--base');
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

/**
 * The runtime for the sites of the files: one that is named, none, or the one that comes with
 * elftrace.
 */
async function runtimeOf(args: LoadArguments, images: readonly ElfImage[], arch: Arch): Promise<Source | null> {
  if (args.runtime === 'none') return null;
  if (args.runtime !== undefined) {
    const source = await sourceOf(args.runtime, arch);
    const program = loadProgram(source.image, arch);
    const [unsaved] = isRuntimeObject(program) ? unsavedUses(program, await disassemblerOf(arch)) : [];
    if (unsaved) {
      throw new ElftraceError(
        'unsupported-form',
        `${args.runtime}: ${unsaved.function} changes what the entries do not save (${unsaved.text}), and there is no ${vectorWrapper} [C-FG-7]`,
        { symbol: unsaved.function },
      );
    }
    return { ...source, name: 'runtime' };
  }
  const map = readLoadMap(images[0]!);
  const recorded = map === null ? null : recordedConvention(arch, map);
  const found = [...(recorded === null ? [] : [recorded]), ...images.flatMap((image) => conventionsOf(image, arch))];
  const own = arch.loader.kind === 'none' ? {} : arch.loader.options;
  const given = Object.entries(map?.options ?? machineOf(args)).filter(([name]) => name in own);
  // Where several occur, or several serve, the entries that pass more come first: they serve all,
  // or the loader refuses.
  const serves = (convention: ConventionName): boolean =>
    found.every((each) =>
      arch.siteShapes.every(({ entries }) => !entries.includes(each) || entries.includes(convention)),
    );
  const convention =
    found.length === 0
      ? args.probes === undefined
        ? null
        : arch.conventions[0]?.name
      : (runtimeConvention(arch, found, Object.fromEntries(given)) ??
        arch.conventions.find(({ name }) => found.includes(name) || serves(name))?.name);
  const bytes = convention ? runtimeObject(arch.target.id, convention, args.probes !== undefined) : null;
  if (machineOf(args)['a64-era'] === 'callops' && convention !== 'callops') {
    throw new ElftraceError('usage', '--a64-era=callops: not all sites have an ops pointer in front of the function');
  }
  if (machineOf(args)['a64-entries'] === 'two' && convention !== 'callops') {
    throw new ElftraceError(
      'usage',
      `--a64-entries=two is about entries that read an ops pointer (callops), those of the image are ${convention ?? 'none'}`,
    );
  }
  return bytes === null ? null : { name: 'runtime', image: withRoomFor(bytes, slotsOf(images)) };
}

/** Options of the machine that were given. */
function machineOf(args: LoadArguments): Record<string, string> {
  return Object.fromEntries(
    Object.entries(args.machine).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  );
}

/** As many as a room can be asked for: what they take is still in the reach of a branch. */
const MOST_PROBES = 0x4000;

function checkProbes({ probes, runtime }: LoadArguments, isLaidIn: boolean): void {
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
  { probes, entry }: LoadArguments,
  machine: Readonly<Record<string, string>>,
  images: readonly ElfImage[],
  arch: Arch,
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
function refuseDecided({ path, base, moduleBase }: LoadArguments, machine: Readonly<Record<string, string>>): void {
  const bases = [...(base === undefined ? [] : ['base']), ...(moduleBase === undefined ? [] : ['module-base'])];
  const [given] = [...Object.keys(machine), ...bases];
  if (given !== undefined) throw new ElftraceError('usage', `${path} is loaded already: --${given} was decided then`);
}

/** Loads the modules into an image of `load`, behind its sessions if it has any. */
function loadBehind(
  { image }: Source,
  modules: readonly Source[],
  arch: Arch,
  options: LoaderOptions,
  runtime: Awaited<ReturnType<typeof runtimeOf>>,
): LoadResult {
  const record = readRecord(image);
  if (record === null || record.session.length === 0) return loadMore({ image, modules, runtime, options }, arch);
  return loadIntoSession({ image, record, hash, probes: probeServer(arch).hosts }, modules, arch, options, runtime);
}

function sayLoaded({ json, path }: LoadArguments, output: string, result: LoadResult): void {
  if (json) {
    out(JSON.stringify(loadJson(path, output, result)));
    return;
  }
  for (const part of result.map.parts) {
    const where = part.ranges.map(({ start, end }) => `${start.toString(16)}-${end.toString(16)}`).join(' ');
    out(`${part.kind.padEnd(7)} ${part.name}  ${where}${part.toc === null ? '' : `  TOC ${part.toc.toString(16)}`}`);
  }
}

export async function runLoad(args: LoadArguments): Promise<number> {
  const output = outputPath(args.path, args.output, false);
  const core = await sourceOf(args.path, null);
  const arch = await loadArch(core.image.header);
  await checkMachineOptions(arch, args.machine);
  const map = readLoadMap(core.image);
  checkProbes(args, map?.parts.some(({ kind }) => kind === 'runtime') === true);
  const modules: Source[] = [];
  for (const path of args.modules) modules.push(await sourceOf(path, arch));
  const images = [core.image, ...modules.map((each) => each.image)];
  const runtime = await runtimeOf(args, images, arch);
  const machine = machineOf(args);
  const options = optionsOf(args, machine, images, arch);
  if (map !== null) refuseDecided(args, machine);
  const result =
    map !== null
      ? loadBehind(core, modules, arch, options, runtime)
      : loadImages(
          {
            core,
            modules,
            runtime,
            base: baseOf(args.base, core.image, arch),
            ...(args.moduleBase === undefined ? {} : { moduleBase: parseAddress(args.moduleBase, '--module-base') }),
            options: { ...options, ...sitesOf(core.image, arch) },
          },
          arch,
        );
  if (args.probes !== undefined && readElf(result.bytes).section(probeSections.text) === undefined) {
    throw new ElftraceError('usage', '--probes: no runtime was laid in, so there is no room for them');
  }
  const written = await writeOutput({ output, like: args.path, form: 'none' }, result.bytes, true);
  for (const notice of [...result.notices, ...written]) err(`${args.path}: notice: ${notice}`);
  sayLoaded(args, output, result);
  return exitCodes.ok;
}

/** Places of a linked core that will call the tracer's entries. */
function sitesOf(core: ElfImage, arch: Arch): Pick<LoaderOptions, 'coreSites'> {
  if (core.header.type === elf.ET_REL) return {};
  const sites = findSites(loadProgram(core, arch));
  return { coreSites: Array.from({ length: sites.count }, (_, i) => sites.ip(i)) };
}
