/**
 * Relocatable files, laid out as `load` would (PV-1): each as a module beside an object that has
 * what it wants from elsewhere, and beside the tracer's entries, both files at the same addresses.
 */
import type { Arch } from '../machine/arch.js';
import { type ConventionName, conventionNamed } from '../machine/conventions.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSection } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { conventionsOf } from '../program/conventions.js';
import { type LoadedPart, readLoadMap } from '../program/load-map.js';
import { loadImages, runtimeConvention, type Source } from '../program/loader.js';
import type { PartRoom } from '../program/object-part.js';
import { load } from '../program/program.js';
import { entryPoint } from '../program/entry-points.js';
import { idleOpsOf } from '../tracing/site-state.js';
import { runtimeObject } from '../runtime/index.js';
import type { Address } from '../units.js';
import { neighbours, wantedSymbols } from './neighbours.js';

const FILE = 'file';

/** Bytes from one symbol from elsewhere to the next. */
const STEP = 64n;
/**
 * From the place of programs to that of modules, and from there to that of those symbols: all in
 * reach of each other where addresses have 31 bits and branches 26.
 */
const MODULES = 0x200_0000n;
const DISTANCE = 0x200_0000n;

/** Both files at their addresses. */
export interface LaidOut {
  readonly original: ElfImage;
  readonly patched: ElfImage;
}

export const isRelocatable = ({ header }: ElfImage): boolean => header.type === elf.ET_REL;

/** The part of an image that the file is. */
function filePart(image: ElfImage): LoadedPart {
  return readLoadMap(image)!.parts.find(({ name }) => name === FILE)!;
}

/** Sections of an image that come from the file, or were made for it. */
function fileSections(image: ElfImage): readonly ElfSection[] {
  const { first, count } = filePart(image).sections;
  return image.sections.slice(first, first + count).filter(({ flags }) => (flags & elf.SHF_ALLOC) !== 0n);
}

/** Where the sections are, as text: equal where both layouts are. */
const placesOf = (image: ElfImage): string =>
  fileSections(image)
    .map(({ name, address }) => `${name}@${address}`)
    .join();

/** What a module takes for stubs and addresses, beside the sections of its file. */
function roomOf(image: ElfImage): PartRoom {
  const stubs = new Map<string, number[]>();
  const sections = fileSections(image);
  for (const { address, count } of filePart(image).stubs) {
    const name = sections.find((section) => section.address === address)?.name ?? '';
    stubs.set(name, [...(stubs.get(name) ?? []), count]);
  }
  const got = sections.find(({ name }) => name === '.got')?.size ?? 0;
  return { stubs, gotSlots: got / image.wordBytes };
}

/** Room for either of two modules. */
function roomForBoth(a: PartRoom, b: PartRoom): PartRoom {
  const stubs = new Map([...a.stubs].map(([name, counts]) => [name, [...counts]]));
  for (const [name, counts] of b.stubs) {
    const known = stubs.get(name) ?? [];
    counts.forEach((count, i) => (known[i] = Math.max(known[i] ?? 0, count)));
    stubs.set(name, known);
  }
  return { stubs, gotSlots: Math.max(a.gotSlots, b.gotSlots) };
}

/** Tables of sites, which shrink where sites are taken out of them. */
const siteTable = /^(__mcount_loc|__patchable_function_entries)/;

/**
 * A patched file with tables of sites as long as they were, so that what lies behind them is where
 * it was. What is left of a slot that is gone is zero: an empty one.
 */
function withTablesOf(original: ElfImage, patched: ElfImage): ElfImage {
  const bytes = patched.bytes.slice();
  const { shoff, shentsize } = original.header;
  let isShorter = false;
  for (const { index, name, size, offset } of original.sections) {
    const own = patched.sections[index];
    const isGone = own?.type === elf.SHT_NULL;
    if (own === undefined || !siteTable.test(name) || !(isGone || (own.name === name && own.size < size))) continue;
    isShorter = true;
    const row = original.bytes.subarray(shoff + index * shentsize, shoff + (index + 1) * shentsize);
    bytes.set(row, patched.header.shoff + index * shentsize);
    bytes.fill(0, offset + own.size, offset + size);
  }
  return isShorter ? readElf(bytes) : patched;
}

/** Symbols that only one file wants: what its sites call, and what their words name. */
interface NewSymbols {
  readonly called: readonly string[];
  readonly named: readonly string[];
}

function newSymbols(original: ElfImage, patched: ElfImage, arch: Arch): NewSymbols {
  const known = new Set(wantedSymbols(original));
  const names = wantedSymbols(patched).filter((name) => !known.has(name));
  const called = new Set<string>();
  for (const section of patched.sections) {
    for (const { count, type, symbol } of patched.relocationsOf(section)) {
      for (let row = 0; row < count; row++) {
        if (arch.relocations.get(type[row]!)?.branch !== undefined) called.add(patched.symbols.name(symbol[row]!));
      }
    }
  }
  return { called: names.filter((name) => called.has(name)), named: names.filter((name) => !called.has(name)) };
}

/**
 * The convention of the entries that both files are laid out with. Those that read a word in front
 * of the function are taken only where the patched file says what it names.
 */
function conventionOf(original: ElfImage, patched: ElfImage, arch: Arch, hasOps: boolean): ConventionName | null {
  const found = [...new Set([original, patched].flatMap((image) => conventionsOf(image, arch)))];
  const convention = runtimeConvention(arch, found) ?? found[0] ?? null;
  const row = convention === null ? null : conventionNamed(arch.conventions, convention);
  if (row === null || row.capabilities.callOps === hasOps) return convention;
  const serves = ({ name }: { readonly name: ConventionName }): boolean =>
    arch.siteShapes.every(({ entries }) => !entries.includes(row.name) || entries.includes(name));
  const other = arch.conventions.find((each) => each.capabilities.callOps === hasOps && serves(each));
  return other?.name ?? convention;
}

/** Where things are for both files. */
class Layouts {
  private readonly wanted: Map<string, Address>;
  private readonly runtime: Source | null;
  private readonly base: Address;
  private readonly convention: ConventionName | null;
  private readonly more: NewSymbols;

  constructor(
    original: ElfImage,
    patched: ElfImage,
    private readonly arch: Arch,
  ) {
    const { loader } = arch;
    if (loader.kind === 'none') {
      throw new ElftraceError('unsupported-form', 'modules of this machine are not laid out', { what: arch.target.id });
    }
    this.more = newSymbols(original, patched, arch);
    this.convention = conventionOf(original, patched, arch, this.more.named.length > 0);
    const bytes = this.convention === null ? null : runtimeObject(arch.target.id, this.convention);
    this.runtime = bytes === null ? null : { name: 'runtime', image: readElf(bytes) };
    const defined = new Set(this.runtime === null ? [] : definedNames(this.runtime.image));
    this.base = loader.bases('user', {}).core + MODULES;
    const names = [...new Set([original, patched].flatMap(wantedSymbols))].filter(
      (name) => !defined.has(name) && name !== loader.tocSymbol,
    );
    this.wanted = new Map(names.map((name, i) => [name, this.base + DISTANCE + STEP * BigInt(i)]));
  }

  /** Lays a file out, with no less room than another one needs. */
  image(file: ElfImage, room: PartRoom | null): ElfImage {
    const { convention, base, runtime, wanted } = this;
    const { bytes } = loadImages(
      {
        core: { name: 'neighbours', image: neighbours(file, wanted) },
        modules: [{ name: FILE, image: file }],
        base: 'user',
        moduleBase: base,
        runtime,
        options: { ...(room === null ? {} : { room }), ...(convention === null ? {} : { convention }) },
      },
      this.arch,
    );
    return readElf(bytes);
  }

  /**
   * A tracer that only the patched file calls is the entry that has nothing to do, and an ops that
   * only its words name is the one without callbacks (PV-1, 3).
   * @returns false where there is no such symbol
   */
  giveEntries(laid: ElfImage): boolean {
    const program = load(laid, this.arch);
    const entry = entryPoint(program, 'ftrace_caller')?.identity ?? null;
    const ops = idleOpsOf(program, 'nop');
    for (const [names, address] of [
      [this.more.called, entry],
      [this.more.named, ops],
    ] as const) {
      for (const name of address === null ? [] : names) if (this.wanted.has(name)) this.wanted.set(name, address!);
    }
    return this.more.called.length + this.more.named.length > 0;
  }
}

function definedNames({ symbols }: ElfImage): string[] {
  const names: string[] = [];
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] !== elf.SHN_UNDEF) names.push(symbols.name(i));
  }
  return names;
}

/**
 * Both files in the same layout: the sections that they share are at the same addresses.
 * @throws ElftraceError as `loadImages`; 'unsupported-form' where the files do not fit each other
 */
export function layOut(original: ElfImage, patched: ElfImage, arch: Arch): LaidOut {
  const layouts = new Layouts(original, patched, arch);
  const sized = withTablesOf(original, patched);
  const both = (room: PartRoom | null): LaidOut => ({
    original: layouts.image(original, room),
    patched: layouts.image(sized, room),
  });
  let laid = both(null);
  // A file that calls more from elsewhere has longer stub areas: the other one gets as long ones.
  const room = roomForBoth(roomOf(laid.original), roomOf(laid.patched));
  if (placesOf(laid.original) !== placesOf(laid.patched)) laid = both(room);
  if (layouts.giveEntries(laid.patched)) laid = both(room);
  if (placesOf(laid.original) !== placesOf(laid.patched)) {
    throw new ElftraceError(
      'unsupported-form',
      'the two files do not have the same sections, and cannot be laid out alike',
      { reason: 'other-layout' },
    );
  }
  return laid;
}

/** A place of a laid-out file as the file has it: section and offset. */
export function placeInFile(image: ElfImage, address: Address): { readonly section: string; readonly offset: Address } {
  const section = fileSections(image).find(
    (each) => address >= each.address && address < each.address + BigInt(each.size),
  );
  return section === undefined
    ? { section: '', offset: address }
    : { section: section.name, offset: address - section.address };
}
