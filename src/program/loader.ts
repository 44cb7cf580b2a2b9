/**
 * The module loader: core, runtime and modules in one address space, as an ET_EXEC image that knows
 * its parts. All functions are pure and all or nothing: a fault is thrown before any byte is made.
 *
 * The way of a part: its sections are chosen (object-part.ts), stub areas reserved (stub-areas.ts),
 * addresses given (layout.ts), relocations applied (link.ts, scope.ts), the image written
 * (image-writer.ts). An image is taken apart again by its load map (image-parts.ts), so adding to
 * it and taking away from it are the same way with fewer or more parts.
 *
 * Parts see each other's exported symbols: those of the request all of one another, later ones
 * those of the image. A linked core sees no other part.
 */
import type { Arch } from '../machine/arch.js';
import { type ConventionName, conventionNamed } from '../machine/conventions.js';
import type { OutOfLineModel } from '../machine/out-of-line.js';
import type { MachineOptions, ModuleLoader } from '../machine/loader.js';
import { alignUpBig, reaches } from '../bits.js';
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError, hex } from '../errors.js';
import { sha256 as portableSha256, type Sha256 } from '../sha256.js';
import type { Address } from '../units.js';
import { version } from '../version.js';
import { conventionsOf, hasOwnStubs, runtimeFor } from './conventions.js';
import { coreStubPages } from './core-stubs.js';
import { linkedCore, originalCore, partsOf } from './image-parts.js';
import { headerBytes, headerPlace, type ImageParts, writeImage } from './image-writer.js';
import { checkOverlaps, type Cursor, fileEndAfter, placeSections } from './layout.js';
import { linkPart, stubWriter } from './link.js';
import { type LoadBase, type LoadMap, loadMapOwner, type PartKind, readLoadMap } from './load-map.js';
import { madeSection, makeSymbols, type ObjectPart, objectPart, type PartRoom } from './object-part.js';
import { probeSections, siteStubHead, siteStubSection, trampolineSection } from './program.js';
import { checkedPads, landingProblem } from './landing.js';
import { endOf, type Part, type PartSection, permissionOf, rangesOf, startOf, wordAt } from './part.js';
import { Scope } from './scope.js';
import { StubAreas } from './stub-areas.js';

/** A file to load. */
export interface Source {
  /** Name of the part: of a module its own name, else that of the file. */
  readonly name: string;
  readonly image: ElfImage;
}

export interface LoaderOptions {
  /** Options of the machine by their names (`ppc-stubs`); defaults otherwise. */
  readonly machine?: Readonly<Record<string, string>>;
  /** Symbol that the image starts at instead of `_start`. */
  readonly entry?: string;
  /**
   * Entries more (or, negative, fewer) than the rule reserves in every stub area. For tests of what
   * happens when an area is full (T-PPC-28).
   */
  readonly stubSpare?: number;
  /** What modules have at least. */
  readonly room?: PartRoom;
  /** Convention of the sites, when the caller knows it better than a look at the files tells. */
  readonly convention?: ConventionName;
  /**
   * Sites of a linked core: places that must reach the tracer's entries. Without them both ends of
   * its code are taken.
   */
  readonly coreSites?: readonly Address[];
  /**
   * Room for probes that a runtime gets, bytes: out-of-line code, and objects. Every module gets as
   * much for code, since it lies out of the runtime's reach; one that comes later has what the
   * runtime has. None by default.
   */
  readonly probeRoom?: { readonly text: number; readonly data: number };
  readonly sha256?: Sha256;
}

export interface LoadRequest {
  /** A relocatable file, which is laid out, or a linked one (ET_EXEC), which stays as it is. */
  readonly core: Source;
  readonly modules: readonly Source[];
  readonly base: LoadBase | Address;
  readonly moduleBase?: Address;
  /** Laid in unless the core has the tracer's entries itself or no part has sites. */
  readonly runtime: Source | null;
  readonly options: LoaderOptions;
}

export interface LoadResult {
  readonly bytes: Uint8Array;
  readonly map: LoadMap;
  readonly notices: readonly string[];
}

export interface LoadMoreRequest {
  readonly image: ElfImage;
  readonly modules: readonly Source[];
  /** Laid in when the image has no entries of a tracer and a module has sites. */
  readonly runtime: Source | null;
  readonly options: LoaderOptions;
}

/** Names of the loader's own options in the load map; those of the machine stand beside them. */
const optionKeys = {
  coreBase: 'core-base',
  moduleBase: 'module-base',
  convention: 'convention',
  /**
   * Where sites are: `modules` when the core has none, so that a runtime goes with the last module.
   */
  sitesIn: 'sites-in',
} as const;

/** Modules of programs begin at a multiple of this. */
const moduleBaseStep = 0x1000_0000n;
/** Room behind a core for its runtime. */
const runtimeRoom = 0x200_0000n;

/** What an image is made of, before it is written. */
interface Plan {
  readonly arch: Arch;
  readonly loader: ModuleLoader;
  readonly machine: MachineOptions;
  readonly base: LoadBase;
  readonly coreBase: Address;
  readonly moduleBase: Address;
  readonly original: LoadMap['original'];
  readonly options: LoaderOptions;
  convention: ConventionName | null;
  sitesIn: 'core' | 'modules' | null;
  registers: Readonly<Record<string, Address>>;
  entry: Address | null;
}

/**
 * Lays core and modules out in one address space.
 * @throws ElftraceError 'undefined-symbols' and 'duplicate-symbols' (all of them),
 *   'toc-restore-missing', 'branch-out-of-range' (with the
 *         distance), 'stub-area-full', 'relocation-out-of-range', 'unknown-relocation',
 *         'unsupported-form', 'usage'
 * Source: RT-14, P-STUB-1 to P-STUB-3
 */
export function loadImages(request: LoadRequest, arch: Arch): LoadResult {
  const loader = loaderOf(arch);
  const { core: coreSource, modules, options } = request;
  const hash = options.sha256 ?? portableSha256;
  const machine = machineOptions(loader, options.machine ?? {});
  for (const source of [coreSource, ...modules]) checkMachine(source, arch);
  const linked = coreSource.image.header.type !== elf.ET_REL;
  if (readLoadMap(coreSource.image) !== null) {
    throw new ElftraceError('usage', `${coreSource.name} is a loaded image already: add modules to it`, {
      file: coreSource.name,
    });
  }
  const base: LoadBase = typeof request.base === 'bigint' ? 'user' : request.base;
  const bases = loader.bases(base, machine);
  const coreSha = hash(coreSource.image.bytes);
  const core = linked
    ? linkedCore(coreSource.name, coreSha, executable(coreSource), arch)
    : objectPart({ ...coreSource, sha256: coreSha }, 'core', loader.stubs.placeholders, arch);
  const coreBase = linked ? startOf(core) : typeof request.base === 'bigint' ? request.base : bases.core;
  const page = BigInt(loader.segmentAlignBytes);
  if (coreBase % page !== 0n && !linked) {
    throw new ElftraceError('usage', `the base ${hex(coreBase)} is no multiple of ${hex(page)}`, { value: coreBase });
  }
  const coreSize = linked
    ? endOf(core) - coreBase
    : core.sections.reduce((sum, section) => sum + BigInt(section.size), 0n);
  const far = alignUpBig(coreBase + coreSize + runtimeRoom + (1n << 25n), moduleBaseStep);
  const plan: Plan = {
    arch,
    loader,
    machine,
    base,
    coreBase,
    moduleBase: request.moduleBase ?? bases.modules ?? max(coreBase + loader.moduleDistance, far),
    original: linked
      ? {
          sha256: coreSha,
          size: coreSource.image.bytes.length,
          headers: [{ offset: 0, bytes: headerBytes(coreSource.image) }],
        }
      : null,
    options,
    convention: null,
    sitesIn: null,
    registers: {},
    entry: linked ? coreSource.image.header.entry : null,
  };
  if (plan.moduleBase % page !== 0n) {
    throw new ElftraceError('usage', `the module base ${hex(plan.moduleBase)} is no multiple of ${hex(page)}`, {
      value: plan.moduleBase,
    });
  }
  const { convention } = options;
  const coreSites = convention === undefined ? conventionsOf(coreSource.image, arch) : [convention];
  const inModules = modules.flatMap((source) => conventionsOf(source.image, arch));
  const moduleSites = convention === undefined ? inModules : inModules.map(() => convention);
  const present = linked ? [core] : [];
  return assemble(plan, present, linked ? [] : [core as ObjectPart], request, coreSites, moduleSites);
}

/**
 * Adds modules to a loaded image (module coming).
 * @throws ElftraceError as `loadImages`; 'usage' when a module of that name is there or the image
 *   is none of `load`, 'state-mismatch' when
 *         it was patched
 */
export function loadMore(request: LoadMoreRequest, arch: Arch): LoadResult {
  const { image, modules, options } = request;
  for (const source of modules) checkMachine(source, arch);
  const { plan, parts } = takeApart(image, arch, options);
  // Areas of nops do not say which generation of a machine's sites they become; the image does.
  const { patchable } = plan.loader;
  const moduleSites = modules
    .flatMap((source) => conventionsOf(source.image, arch))
    .map((each) => (each === patchable ? (plan.convention ?? each) : each));
  return assemble(plan, parts, [], request, plan.sitesIn === 'core' ? known(plan.convention) : [], [
    ...known(plan.convention),
    ...moduleSites,
  ]);
}

const known = (convention: ConventionName | null): ConventionName[] => (convention === null ? [] : [convention]);

/**
 * Takes a module out of a loaded image (module going). The other parts stay where they are.
 * @throws ElftraceError 'no-match' when there is no such module, 'module-in-use' when another part
 *   uses its symbols, 'state-mismatch' when the
 *         image was patched since
 */
export function unload(image: ElfImage, name: string, arch: Arch, options: LoaderOptions = {}): LoadResult {
  const { plan, parts } = takeApart(image, arch, options);
  const going = parts.find((part) => part.name === name && part.kind === 'module');
  if (going === undefined) {
    const modules = parts.filter((part) => part.kind === 'module').map((part) => part.name);
    throw new ElftraceError(
      'no-match',
      `no module '${name}' is loaded (${modules.length === 0 ? 'there are none' : modules.join(', ')})`,
      { symbol: name },
    );
  }
  const users = parts.filter((part) => part !== going && part.uses.has(name)).map((part) => part.name);
  if (users.length > 0) {
    throw new ElftraceError('module-in-use', `${name} is used by ${users.join(', ')} (EBUSY)`, { symbol: name });
  }
  let left = parts.filter((part) => part !== going);
  // Room for probes serves the core, too.
  const serves = left.some(({ sections }) => sections.some(({ name: each }) => each === probeSections.text));
  if (plan.sitesIn === 'modules' && !serves && !left.some((part) => part.kind === 'module')) {
    left = left.filter((part) => part.kind !== 'runtime');
    plan.sitesIn = null;
    plan.convention = null;
  }
  return { ...finish(plan, left), notices: [] };
}

export { originalCore };

function loaderOf(arch: Arch): ModuleLoader {
  if (arch.loader.kind === 'none') {
    throw new ElftraceError('unsupported-form', `${arch.target.title}: ${arch.loader.reason}`);
  }
  return arch.loader;
}

/**
 * A stub of a loaded image that leads to code out of the reach of what is around it, r2 or its like
 * left alone.
 */
export function farStub(
  map: LoadMap,
  arch: Arch,
  address: Address,
  target: Address,
  targetToc: Address | null,
): Uint8Array {
  const loader = loaderOf(arch);
  const toc = map.parts.find(({ ranges }) => ranges.some(({ start, end }) => address >= start && address < end))?.toc;
  const context = {
    loader,
    base: map.base,
    options: machineOptions(loader, machineOptionsOf(loader, map)),
    coreToc: map.parts[0]?.toc ?? null,
  };
  return stubWriter(context, loader.farStub, target, targetToc, toc ?? null)(address);
}

/** The options of a load map that are the machine's. */
const machineOptionsOf = (loader: ModuleLoader, { options }: LoadMap): Record<string, string> =>
  Object.fromEntries(Object.entries(options).filter(([name]) => name in loader.options));

/** The machine's options with their defaults. */
function machineOptions(loader: ModuleLoader, given: Readonly<Record<string, string>>): MachineOptions {
  for (const [name, value] of Object.entries(given)) {
    const values = loader.options[name];
    if (values === undefined) throw new ElftraceError('usage', `this machine has no load option '${name}'`);
    if (!values.includes(value)) {
      throw new ElftraceError('usage', `--${name} takes ${values.join(' or ')}, not '${value}'`, { value });
    }
  }
  return Object.fromEntries(Object.entries(loader.options).map(([name, values]) => [name, given[name] ?? values[0]!]));
}

function checkMachine(source: Source, arch: Arch): void {
  const { header } = source.image;
  const { elfMachine, wordBytes, dataEndian } = arch.target;
  if (header.machine !== elfMachine || header.is64 !== (wordBytes === 8) || header.endian !== dataEndian) {
    throw new ElftraceError('usage', `${source.name} is no file of ${arch.target.title}`, { file: source.name });
  }
}

function executable(source: Source): ElfImage {
  const { type } = source.image.header;
  if (type === elf.ET_EXEC) return source.image;
  throw new ElftraceError(
    'unsupported-form',
    `${source.name} is neither an object (ET_REL) nor a program with fixed addresses (ET_EXEC)`,
    { file: source.name, value: type },
  );
}

const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** The inverse of writing: parts and what they were made with. */
function takeApart(
  image: ElfImage,
  arch: Arch,
  options: LoaderOptions,
): { readonly plan: Plan; readonly parts: Part[] } {
  const loader = loaderOf(arch);
  const map = readLoadMap(image);
  if (map === null) throw new ElftraceError('usage', "the file is no image of 'load'");
  if (map.target !== arch.target.id) throw new ElftraceError('bad-record', `the load map is one of ${map.target}`);
  // The other note of ours is the record of a patch: its positions would not hold in another image.
  if (image.notes().some((note) => note.owner === loadMapOwner && note.section !== mapNoteSection(image))) {
    throw new ElftraceError('state-mismatch', 'the image is patched: revert it, change its modules, patch it again');
  }
  const machine = machineOptions(loader, machineOptionsOf(loader, map));
  const address = (key: string): Address => {
    const text = map.options[key];
    if (text === undefined) throw new ElftraceError('bad-record', `the load map does not say '${key}'`);
    return BigInt(text);
  };
  const { sitesIn } = optionKeys;
  const plan: Plan = {
    arch,
    loader,
    machine,
    base: map.base,
    coreBase: address(optionKeys.coreBase),
    moduleBase: address(optionKeys.moduleBase),
    original: map.original,
    options,
    convention: recordedConvention(arch, map),
    sitesIn: (['core', 'modules'] as const).find((each) => each === map.options[sitesIn]) ?? null,
    registers: map.registers,
    entry: image.header.entry,
  };
  return { plan, parts: partsOf(image, map, arch, options.sha256) };
}

/** The convention that a load map records, one of the machine's; null where it records none. */
export function recordedConvention(arch: Arch, map: LoadMap): ConventionName | null {
  const name = map.options[optionKeys.convention];
  if (name === undefined) return null;
  if (conventionNamed(arch.conventions, name) !== null) return name;
  throw new ElftraceError(
    'bad-record',
    `the load map names the convention '${name}', which ${arch.target.title} does not have`,
    {
      value: name,
    },
  );
}

function mapNoteSection(image: ElfImage): number {
  return image.section('.note.elftrace.load')?.index ?? -1;
}

/**
 * The convention of the runtime that serves sites of these, for callers who provide it.
 * @returns null where there are no sites, or where none serves all: loading them says so
 */
export function runtimeConvention(
  arch: Arch,
  found: readonly ConventionName[],
  given: Readonly<Record<string, string>> = {},
): ConventionName | null {
  const distinct = [...new Set(found)];
  if (distinct.length === 0 || arch.loader.kind === 'none') return null;
  const { loader } = arch;
  const joined = distinct.length === 1 ? distinct[0]! : loader.joinConventions(distinct);
  return joined && runtimeFor(loader, joined, machineOptions(loader, given));
}

/** Whether modules get a stub for an entry, with the choices of the image. */
function isCalledEntry(loader: ModuleLoader, name: string, options: MachineOptions): boolean {
  const chosen = loader.chosenEntries.filter(({ symbol }) => symbol === name);
  return chosen.every(({ option, choice }) => options[option] === choice);
}

/**
 * One convention for all sites: the entries of a tracer serve one, and so do the stubs of its
 * entries.
 */
function oneConvention(loader: ModuleLoader, found: readonly ConventionName[]): ConventionName | null {
  const distinct = [...new Set(found)].sort();
  if (distinct.length <= 1) return distinct[0] ?? null;
  const joined = loader.joinConventions(distinct);
  const stub = loader.entryStub(joined, 'module');
  if (joined !== null && distinct.every((each) => loader.entryStub(each, 'module') === stub)) return joined;
  throw new ElftraceError(
    'unsupported-form',
    `the parts have sites of two conventions (${distinct.join(', ')}): no entry serves both`,
  );
}

/** Makes parts of relocatable files. */
function maker({ arch, loader }: Plan, options: LoaderOptions): (source: Source, kind: PartKind) => ObjectPart {
  const hash = options.sha256 ?? portableSha256;
  return (source, kind) => {
    if (source.image.header.type !== elf.ET_REL) {
      throw new ElftraceError('usage', `${source.name} is linked: a ${kind} is a relocatable file`, {
        file: source.name,
      });
    }
    const room = kind === 'module' ? options.room : undefined;
    const file = { ...source, sha256: hash(source.image.bytes) };
    return objectPart(file, kind, loader.stubs.placeholders, arch, room);
  };
}

/** What may not be reached by an indirect branch, and why; null where nothing checks. */
function landingOf({ arch }: Plan, parts: readonly Part[]): (name: string, address: Address) => string | null {
  const core = parts[0]!;
  const pads = core.linked === null ? null : checkedPads(core.linked, arch);
  return (name, address) => {
    if (pads === null) return null;
    const words = parts.map((part) => wordAt(part, address, 4, arch.target.codeEndian));
    return landingProblem(pads, name, address, Number(words.find((word) => word !== null) ?? -1n));
  };
}

/** Stubs of a part for the entries that its sites call. */
function writeEntryStubs(
  part: Part,
  entries: readonly string[],
  own: StubAreas,
  convention: ConventionName | null,
  context: Parameters<typeof stubWriter>[0] & { readonly scope: Scope },
): void {
  const { scope, loader } = context;
  const from = part.kind === 'module' ? 'module' : 'core';
  for (const symbol of entries) {
    const found = scope.find(symbol)!;
    const target = scope.callTarget({ ...found, kind: 'defined', size: 0n, isSection: false }, 0n);
    const kind = loader.entryStub(convention, from);
    const write = stubWriter(context, kind, target.code, target.toc, part.toc);
    for (const address of own.everywhere(symbol, write)) part.entryStubs.push({ symbol, address });
    if (found.part !== part && part.kind === 'module') part.uses.add(found.part.name);
  }
}

/** Symbols of the rooms that the loader makes. */
function nameRooms(
  room: ReturnType<typeof trampolineRoom>,
  probes: ReturnType<typeof probeRoom>,
  ownStubs: ReturnType<typeof siteStubRoom>,
): void {
  if (room !== null) nameRoom(room.owner, room.section, 'elftrace_text');
  for (const { owner, section, symbol } of probes) {
    // Every module has one of the name.
    nameRoom(owner, section, symbol, owner.kind === 'module' ? elf.STB_LOCAL : elf.STB_GLOBAL);
  }
  // A label ends the function in front: no stub is part of it.
  for (const { owner, section } of ownStubs)
    nameRoom(owner, section, 'elftrace_site_stubs', elf.STB_LOCAL, elf.STT_NOTYPE);
}

/** Parts that have their places, with what linking them needs. */
interface PlacedParts {
  readonly parts: readonly Part[];
  readonly fresh: readonly ObjectPart[];
  readonly scope: Scope;
  readonly areas: ReadonlyMap<Part, StubAreas>;
  /** The core is a linked file that gets its first runtime. */
  readonly linked: boolean;
}

/** Relocations of the fresh parts, and stubs for the entries that sites call. */
function linkAll(
  plan: Plan,
  { parts, fresh, scope, areas, linked }: PlacedParts,
  entries: readonly string[],
  convention: ConventionName | null,
): void {
  const { loader } = plan;
  const core = parts[0]!;
  const landing = landingOf(plan, parts);
  const context = { scope, base: plan.base, options: plan.machine, coreToc: core.toc, landing };
  for (const pass of ['descriptors', 'rest'] as const) {
    for (const part of fresh) linkPart(part, { ...context, stubs: areas.get(part)! }, pass);
  }
  for (const part of parts) {
    const wanted = part.kind === 'module' ? fresh.includes(part as ObjectPart) : part === core && linked;
    if (wanted) writeEntryStubs(part, entries, areas.get(part)!, convention, { ...context, loader });
    part.stubs.push(...areas.get(part)!.describe());
  }
}

/** Lays the fresh parts in beside those that are there. */
function assemble(
  plan: Plan,
  present: readonly Part[],
  freshCore: readonly ObjectPart[],
  request: Pick<LoadRequest, 'modules' | 'runtime' | 'options'>,
  coreSites: readonly ConventionName[],
  moduleSites: readonly ConventionName[],
): LoadResult {
  const { arch, loader } = plan;
  const notices: string[] = [];
  const make = maker(plan, request.options);
  const fresh: ObjectPart[] = [...freshCore];
  const modules = request.modules.map((source) => make(source, 'module'));
  const convention = oneConvention(loader, [...coreSites, ...moduleSites]);
  plan.convention = convention && runtimeFor(loader, convention, plan.machine);
  const runtime = chooseRuntime(plan, [...present, ...freshCore], request.runtime, make, notices);
  if (runtime !== null) fresh.push(runtime);
  if (plan.convention !== null) plan.sitesIn = coreSites.length > 0 ? 'core' : 'modules';
  fresh.push(...modules);
  const ofKind = (kind: PartKind): Part[] => [...present, ...fresh].filter((part) => part.kind === kind);
  const parts = [...ofKind('core'), ...ofKind('runtime'), ...ofKind('module')];
  checkNames(parts);

  const scope = new Scope(arch, loader, parts, new Map(fresh.map((part) => [part, part])));
  scope.checkDefined();
  const entries = loader.entrySymbols.filter(
    (name) => scope.exporter(name) !== undefined && isCalledEntry(loader, name, plan.machine),
  );
  const areas = new Map<Part, StubAreas>();
  for (const part of parts) areas.set(part, new StubAreas(part, loader));
  const block = kernelBlock(plan, parts, fresh);
  const room = trampolineRoom(plan, fresh);
  const probes = probeRoom(plan, parts, fresh);
  const ownStubs = siteStubRoom(plan, scope, fresh);
  for (const part of fresh) {
    const stubs = part.kind === 'module' ? request.options.room?.stubs : undefined;
    areas.get(part)!.plan(part, arch, entries.length, request.options.stubSpare ?? 0, stubs);
  }

  place(plan, parts, fresh);
  const core = parts[0]!;
  const linked = core.linked !== null && present.every((part) => part.kind !== 'runtime');
  setTocs(plan, parts, fresh);
  if (linked) coreAreas(plan, parts, fresh, scope, entries, areas.get(core)!);
  checkOverlaps([...parts, headers(plan, parts)], loader.addressLimit);
  if (block !== null) fillBlock(plan, core, block);

  linkAll(plan, { parts, fresh, scope, areas, linked }, entries, convention);
  for (const { owner, section } of ownStubs) fillSiteStubs(plan, scope, owner, section);
  for (const part of fresh) makeSymbols(part, loader.tocSymbol);
  nameRooms(room, probes, ownStubs);
  setThreadMode(parts, arch.target.wordBytes);
  if (plan.base === 'kernel') setKernelWords(parts, loader, arch.target.codeEndian);
  plan.entry = entryOf(plan, scope);
  return { ...finish(plan, parts), notices };
}

/** RT-2: the core's own entries, else the runtime. */
function chooseRuntime(
  plan: Plan,
  present: readonly Part[],
  source: Source | null,
  make: (source: Source, kind: PartKind) => ObjectPart,
  notices: string[],
): ObjectPart | null {
  if (source === null || plan.convention === null) return null;
  if (present.some((part) => part.kind === 'runtime')) return null;
  const core = present.find((part) => part.kind === 'core');
  const names = core === undefined ? new Set<string>() : definedNames(core);
  const group = ['ftrace_caller', 'ftrace_call'];
  if (group.every((name) => names.has(name))) {
    notices.push('the core has the entries of a tracer itself: no runtime is laid in');
    return null;
  }
  return make(source, 'runtime');
}

function definedNames(part: Part): Set<string> {
  if (part.symbols.length > 0) {
    return new Set(part.symbols.filter((each) => each.home !== 'undefined').map((each) => each.name));
  }
  const names = new Set<string>();
  if (!('object' in part)) return names;
  const { symbols } = (part as ObjectPart).object;
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] !== elf.SHN_UNDEF) names.add(symbols.name(i));
  }
  return names;
}

function checkNames(parts: readonly Part[]): void {
  const seen = new Set<string>();
  for (const { name } of parts) {
    if (seen.has(name)) throw new ElftraceError('usage', `two parts are named '${name}'`, { symbol: name });
    seen.add(name);
  }
}

/** A part of the address range of the program headers, for the check of overlaps only. */
function headers(plan: Plan, parts: readonly Part[]): Part {
  const place = headerPlace({ ...plan, parts });
  const section = madeSection({
    name: '',
    type: elf.SHT_PROGBITS,
    flags: elf.SHF_ALLOC,
    alignBytes: 1n,
    size: place.size,
    contents: new Uint8Array(0),
  });
  section.address = place.address;
  return {
    kind: 'core',
    name: 'the program headers',
    sha256: '',
    toc: null,
    sections: [section],
    symbols: [],
    stubs: [],
    entryStubs: [],
    uses: new Set(),
    linked: null,
  };
}

/** Addresses for the fresh parts: core and runtime together, modules from the module base on. */
function place(plan: Plan, parts: readonly Part[], fresh: readonly ObjectPart[]): void {
  const { loader } = plan;
  const page = loader.segmentAlignBytes;
  const isFresh = (part: Part): boolean => fresh.includes(part as ObjectPart);
  const settled = parts.filter((part) => !isFresh(part));
  const header = headerPlace({ ...plan, parts: settled.length > 0 ? settled : parts.slice(0, 1) }, 4 * fresh.length);
  let near = max(header.address + BigInt(header.size), 0n);
  let far = plan.moduleBase;
  for (const part of settled) {
    if (part.kind === 'module') far = max(far, endOf(part));
    else near = max(near, endOf(part));
  }
  let offset = header.end;
  for (const part of parts) {
    if (!isFresh(part)) {
      offset = fileEndAfter(part, offset, page);
      continue;
    }
    const cursor: Cursor = { address: part.kind === 'module' ? far : near, offset };
    const next = placeSections(part, cursor, page);
    offset = next.offset;
    if (part.kind === 'module') far = next.address;
    else near = next.address;
  }
}

/** Every part its own TOC; the runtime has that of the core. */
function setTocs(plan: Plan, parts: readonly Part[], fresh: readonly ObjectPart[]): void {
  const { loader, machine } = plan;
  const own = (part: Part): Address | null =>
    loader.toc((name) => {
      if (name === '') return part.sections.length === 0 ? null : startOf(part);
      return part.sections.find((section) => section.name === name && section.size > 0)?.address ?? null;
    }, machine);
  const core = parts[0]!;
  core.toc ??= own(core);
  for (const part of fresh) part.toc = part.kind === 'module' ? own(part) : core.toc;
}

/**
 * A block that kernel code finds through a register: in the runtime, or in the core where there is
 * none.
 */
function kernelBlock(plan: Plan, parts: readonly Part[], fresh: readonly ObjectPart[]): PartSection | null {
  const { kernelBlock: model } = plan.loader;
  if (model === null || plan.base !== 'kernel' || model.register in plan.registers) return null;
  const owner = fresh.find((part) => part.kind === 'runtime') ?? fresh.find((part) => part.kind === 'core');
  if (owner === undefined) return null;
  const bytes = model.contents(0n);
  const section = madeSection({
    name: model.section,
    type: elf.SHT_PROGBITS,
    flags: elf.SHF_ALLOC | elf.SHF_WRITE,
    alignBytes: BigInt(bytes.length),
    size: bytes.length,
    contents: bytes,
  });
  const first = owner.sections.findIndex((each) => permissionOf(each.flags) === 'rw');
  owner.sections.splice(first < 0 ? owner.sections.length : first, 0, section);
  return parts.length > 0 ? section : null;
}

/** Bytes of the room for private trampolines, with the choices of the image. */
function trampolineRoomOf({ trampolineRoom: room }: ModuleLoader, options: MachineOptions): number {
  return room === null || options[room.unless.option] === room.unless.choice ? 0 : room.bytes;
}

/** Room for private trampolines, in reach of the entries: in the runtime's text (RT-4). */
function trampolineRoom(
  plan: Plan,
  fresh: readonly ObjectPart[],
): { readonly owner: ObjectPart; readonly section: PartSection } | null {
  const room = trampolineRoomOf(plan.loader, plan.machine);
  const owner = fresh.find((part) => part.kind === 'runtime');
  const { trampolines } = plan.arch;
  if (room === 0 || owner === undefined || trampolines.kind === 'none') return null;
  const section = madeSection({
    name: trampolineSection,
    type: elf.SHT_PROGBITS,
    flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
    alignBytes: 16n,
    size: room,
    contents: new Uint8Array(room).fill(trampolines.fill),
  });
  const last = owner.sections.findLastIndex((each) => permissionOf(each.flags) === 'rx');
  owner.sections.splice(last + 1, 0, section);
  return { owner, section };
}

/**
 * Room for out-of-line code of probes, and for the objects that their callback gets (K-SLOT-3).
 */
function probeRoom(
  plan: Plan,
  parts: readonly Part[],
  fresh: readonly ObjectPart[],
): { readonly owner: ObjectPart; readonly section: PartSection; readonly symbol: string }[] {
  const runtime = parts.find((part) => part.kind === 'runtime');
  if (runtime === undefined) return [];
  const owner = fresh.find((part) => part === runtime);
  const there = runtime.sections.find(({ name }) => name === probeSections.text)?.size;
  const sizes = owner ? plan.options.probeRoom : there === undefined ? undefined : { text: there, data: 0 };
  if (sizes === undefined) return [];
  const make = (name: string, flags: bigint, size: number): PartSection =>
    madeSection({
      name,
      type: elf.SHT_PROGBITS,
      flags: elf.SHF_ALLOC | flags,
      alignBytes: 16n,
      size,
      contents: new Uint8Array(size),
    });
  const rooms: { owner: ObjectPart; section: PartSection; symbol: string }[] = [];
  for (const part of fresh) {
    const code = part.sections.findLastIndex((each) => permissionOf(each.flags) === 'rx');
    if (part.kind === 'core' || (part.kind === 'module' && code < 0)) continue;
    const section = make(probeSections.text, elf.SHF_EXECINSTR, sizes.text);
    part.sections.splice(code + 1, 0, section);
    rooms.push({ owner: part, section, symbol: 'elftrace_slots' });
  }
  if (owner !== undefined) {
    const section = make(probeSections.data, elf.SHF_WRITE, sizes.data);
    const first = owner.sections.findIndex((each) => permissionOf(each.flags) === 'rw');
    owner.sections.splice(first < 0 ? owner.sections.length : first, 0, section);
    rooms.push({ owner, section, symbol: 'elftrace_probes' });
  }
  return rooms;
}

/** Tables whose slots name sites with stubs of their own. */
const siteTable = '__patchable_function_entries';

/** Bytes of the stub of a site, with the word in front of its code where entries look for one. */
function siteStubBytes({ codeBytes, idleOps }: OutOfLineModel, scope: Scope): number {
  return codeBytes + (scope.exporter(idleOps) === undefined ? 0 : scope.arch.target.wordBytes);
}

/** Sections for the stubs of sites, behind the text of each part whose sites have their own. */
function siteStubRoom(
  { arch, convention }: Plan,
  scope: Scope,
  fresh: readonly ObjectPart[],
): { readonly owner: ObjectPart; readonly section: PartSection }[] {
  const model = arch.outOfLine;
  if (model === null || convention === null || !hasOwnStubs(arch, convention)) return [];
  const stubBytes = siteStubBytes(model, scope);
  return fresh.flatMap((owner) => {
    const tables = owner.sections.filter(({ name }) => name === siteTable);
    const slots = tables.reduce((sum, { size }) => sum + size, 0) / arch.target.wordBytes;
    if (slots === 0 || owner.kind === 'runtime') return [];
    const size = siteStubHead + Math.floor(slots) * stubBytes;
    const section = madeSection({
      name: siteStubSection,
      type: elf.SHT_PROGBITS,
      flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
      alignBytes: 16n,
      size,
      contents: new Uint8Array(size),
    });
    const code = owner.sections.findLastIndex((each) => permissionOf(each.flags) === 'rx');
    owner.sections.splice(code + 1, 0, section);
    return [{ owner, section }];
  });
}

/**
 * Writes the stubs of a part's sites, in ascending order of the sites: each calls the entry, or the
 * part's stub of it where it lies too far away, and comes back (P-OOL-2, P-OOL-6).
 */
function fillSiteStubs({ arch }: Plan, scope: Scope, owner: ObjectPart, section: PartSection): void {
  const model = arch.outOfLine!;
  const entry = scope.find(model.entry);
  if (!entry) return;
  const entryBytes = siteStubBytes(model, scope);
  const idle = entryBytes > model.codeBytes ? (scope.find(model.idleOps)?.value ?? 0n) : null;
  const { code, localEntry } = scope.callTarget({ ...entry, kind: 'defined', size: 0n, isSection: false }, 0n);
  const ways = [
    code + BigInt(localEntry),
    ...owner.entryStubs.flatMap((each) => (each.symbol === model.entry ? [each.address] : [])),
  ];
  const { wordBytes, dataEndian } = arch.target;
  const sites = new Set<Address>();
  for (const table of owner.sections.filter(({ name }) => name === siteTable)) {
    const words = new ByteView(table.contents!, dataEndian, siteTable);
    for (let at = 0; at + wordBytes <= table.size; at += wordBytes) {
      const site = words.word(at, wordBytes);
      if (site !== 0n) sites.add(site);
    }
  }
  [...sites]
    .sort((a, b) => (a < b ? -1 : 1))
    .forEach((site, i) => {
      const start = siteStubHead + i * entryBytes;
      const offset = start + entryBytes - model.codeBytes;
      const address = section.address + BigInt(offset);
      const call = address + BigInt(model.callDelta);
      const target = ways.find((each) => reaches(model.reach, call, each));
      if (target === undefined || !reaches(model.reach, site, address)) return;
      section.contents!.set(model.write({ address, site, target }), offset);
      if (idle !== null)
        new ByteView(section.contents!, dataEndian, siteStubSection).insertWord(start, idle, wordBytes);
    });
}

/** A symbol for a room, so that listings name what lies there. */
function nameRoom(
  owner: Part,
  section: PartSection,
  name: string,
  binding: number = elf.STB_GLOBAL,
  type: number = elf.STT_OBJECT,
): void {
  owner.symbols.push({
    name,
    value: section.address,
    size: type === elf.STT_OBJECT ? BigInt(section.size) : 0n,
    info: (binding << 4) | type,
    other: 0,
    home: owner.sections.indexOf(section),
  });
}

/**
 * Tells the runtime what tells threads apart: the thread pointer, where the program has a C library
 * to set it (THREAD_MODES of the runtime). The object says one thread, because reading a base that
 * was never set would fault.
 */
function setThreadMode(parts: readonly Part[], wordBytes: number): void {
  const runtime = parts.find((part) => part.kind === 'runtime');
  const symbol = runtime?.symbols.find(({ name }) => name === 'elftrace_thread_mode');
  const linked = parts[0]?.linked;
  if (!runtime || !symbol || !linked?.segments.some(({ type }) => type === elf.PT_TLS || type === elf.PT_INTERP))
    return;
  const section = runtime.sections[Number(symbol.home)];
  if (!section?.contents) return;
  const offset = Number(symbol.value - section.address);
  // 1, in either byte order of a word.
  section.contents.fill(0, offset, offset + wordBytes);
  section.contents[offset + (linked.header.endian === 'little' ? 0 : wordBytes - 1)] = 1;
}

/**
 * What the runtime has for programs and a kernel's code expects otherwise
 * (`ModuleLoader.kernelWords`).
 */
function setKernelWords(parts: readonly Part[], loader: ModuleLoader, endian: 'big' | 'little'): void {
  const runtime = parts.find((part) => part.kind === 'runtime');
  for (const { symbol, offset, value } of loader.kernelWords) {
    const place = runtime?.symbols.find(({ name }) => name === symbol);
    const section = place && runtime?.sections[Number(place.home)];
    if (!section?.contents) continue;
    const at = Number(place!.value - section.address) + offset;
    new ByteView(section.contents, endian, symbol).insertU32(at, value);
  }
}

function fillBlock(plan: Plan, core: Part, block: PartSection): void {
  const model = plan.loader.kernelBlock;
  if (model === null || core.toc === null) return;
  block.contents!.set(model.contents(core.toc));
  plan.registers = { ...plan.registers, [model.register]: block.address };
}

/**
 * Stub areas for sites of a linked core that do not reach the tracer's entries. The areas stand in
 * front of the runtime in the file, so the runtime is placed again behind them.
 */
function coreAreas(
  plan: Plan,
  parts: readonly Part[],
  fresh: readonly ObjectPart[],
  scope: Scope,
  entries: readonly string[],
  areas: StubAreas,
): void {
  const core = parts[0]!;
  if (entries.length === 0 || plan.sitesIn !== 'core') return;
  const { loader } = plan;
  const page = loader.segmentAlignBytes;
  const count = entries.length + 1;
  const addresses = (): Address[] => entries.map((name) => scope.codeAddress(name) ?? 0n);
  const header = headers(plan, parts);
  const pages = coreStubPages({
    sites: plan.options.coreSites ?? codeEnds(core),
    entries: addresses(),
    reach: loader.reach,
    ranges: [...parts, header].flatMap(rangesOf),
    areaBytes: count * loader.stubs.entryBytes,
    pageBytes: page,
    limit: loader.addressLimit,
  });
  if (pages.length === 0) return;
  for (const address of pages) {
    // The number of segments is known only now; their table has room for it by steps.
    const at = headerPlace({ ...plan, parts }, pages.length).end;
    const offset = fileEndAfter(core, at, page);
    core.sections.push(areas.addAt(address + BigInt(Math.min(offset % page, page / 2) & ~15), count));
  }
  place(plan, parts, fresh);
  setTocs(plan, parts, fresh);
}

/** First and last instruction of a linked core's code, for want of its sites. */
function codeEnds(core: Part): Address[] {
  return core.sections
    .filter((section) => (section.flags & elf.SHF_EXECINSTR) !== 0n && section.size >= 4 && section.fileOffset !== null)
    .flatMap((section) => [section.address, section.address + BigInt((section.size - 4) & ~3)]);
}

/**
 * e_entry: the asked symbol, else what the image has, else `_start` of the core; 0 for an image
 * without a start.
 */
function entryOf(plan: Plan, scope: Scope): Address {
  const { entry } = plan.options;
  if (entry !== undefined) {
    const found = scope.find(entry);
    if (found === undefined) throw new ElftraceError('no-match', `no symbol '${entry}' to start at`, { symbol: entry });
    return found.value;
  }
  return plan.entry ?? scope.find('_start')?.value ?? 0n;
}

function finish(plan: Plan, parts: readonly Part[]): { readonly bytes: Uint8Array; readonly map: LoadMap } {
  const image: ImageParts = {
    arch: plan.arch,
    loader: plan.loader,
    parts,
    entry: plan.entry ?? 0n,
    coreBase: plan.coreBase,
    map: {
      tool: `elftrace ${version}`,
      target: plan.arch.target.id,
      base: plan.base,
      options: {
        ...plan.machine,
        [optionKeys.coreBase]: hex(plan.coreBase),
        [optionKeys.moduleBase]: hex(plan.moduleBase),
        ...(plan.convention === null ? {} : { [optionKeys.convention]: plan.convention }),
        ...(plan.sitesIn === null ? {} : { [optionKeys.sitesIn]: plan.sitesIn }),
      },
      registers: plan.registers,
      original: plan.original,
    },
  };
  return writeImage(image);
}
