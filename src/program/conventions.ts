/**
 * Which entry convention the patch sites of a file have (RT-13), from its site
 * tables and calls of the profiling entry. Looks at the words around the calls only; what a site's
 * shape is, is ftrace's.
 */
import type { Arch } from '../machine/arch.js';
import type { ConventionName } from '../machine/conventions.js';
import type { MachineOptions, ModuleLoader } from '../machine/loader.js';
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { type CodeRange, Program } from './program.js';
import type { SectionIndex } from '../units.js';

const patchableSection = '__patchable_function_entries';
const callTable = '__mcount_loc';
/** No call of a profiling entry is longer: `movabs` and `call` through the register. */
const MOST_CALL_BYTES = 16;

/** The conventions that occur in a file, in order; empty for a file without sites. */
export function conventionsOf(image: ElfImage, arch: Arch): readonly ConventionName[] {
  const found = new Set<ConventionName>();
  if (arch.loader.kind === 'none') return [];
  const pads = (): void => {
    for (const table of image.sectionsNamed(patchableSection))
      if (table.size > 0) ofPatchable(image, arch, table, found);
  };
  if (!arch.mcount.patchableIsPadding) pads();
  if (image.header.type === elf.ET_REL) ofObject(image, arch, found);
  else ofLinked(image, arch, found);
  // Beside calls of the profiling entry pads are padding; alone they are sites.
  if (arch.mcount.patchableIsPadding && found.size === 0) pads();
  return [...found].sort();
}

/** Conventions of the areas that a table of patchable entries names. */
function ofPatchable(
  image: ElfImage,
  arch: Arch,
  table: ElfImage['sections'][number],
  found: Set<ConventionName>,
): void {
  if (arch.loader.kind === 'none') return;
  const { conventionOfPatchable: decide, patchable } = arch.loader;
  if (decide === null) {
    found.add(patchable);
    return;
  }
  const counts = new Map<ConventionName, number>();
  const functions = new Set<string>();
  const { symbols } = image;
  const relocatable = image.header.type === elf.ET_REL;
  const key = (section: SectionIndex, value: bigint): string => `${relocatable ? section : 0} ${value}`;
  for (let i = 1; i < symbols.count; i++) {
    const place = (symbols.info[i]! & 15) === elf.STT_FUNC ? arch.abi.codePlace(image, i) : null;
    if (place !== null) functions.add(key(place.section, place.value));
  }
  const one = (section: SectionIndex, value: bigint, bytes: Uint8Array, offset: number): void => {
    const view = new ByteView(bytes, arch.target.codeEndian, 'code');
    const word = (delta: number): number => {
      const at = offset + delta;
      return at < 0 || at + 4 > bytes.length ? -1 : view.u32(at);
    };
    const convention = decide((delta) => functions.has(key(section, value + BigInt(delta))), word);
    if (convention !== null) counts.set(convention, (counts.get(convention) ?? 0) + 1);
  };
  if (relocatable) {
    for (const rows of image.relocationsOf(table)) {
      for (let row = 0; row < rows.count; row++) {
        const symbol = rows.symbol[row]!;
        const section = symbols.sectionIndex[symbol] ?? 0;
        const code = image.sections[section];
        if (code === undefined || section === elf.SHN_UNDEF) continue;
        const value = symbols.value[symbol]! + rows.addend[row]!;
        one(section, value, image.contents(code), Number(value));
      }
    }
    addFound(arch, counts, found);
    return;
  }
  const program = new Program(image, arch);
  const { wordBytes } = arch.target;
  const view = new ByteView(image.bytes, arch.target.dataEndian, patchableSection);
  for (let at = 0; at + wordBytes <= table.fileSize; at += wordBytes) {
    const value = view.word(table.offset + at, wordBytes);
    const range = program.codeAt(value);
    if (range !== undefined) one(0, value, range.bytes, Number(value - range.address));
  }
  addFound(arch, counts, found);
}

/** The runtime that is laid in for sites of a convention, with the choices of an image. */
export function runtimeFor(loader: ModuleLoader, convention: ConventionName, options: MachineOptions): ConventionName {
  const chosen = loader.chosenRuntimes.find(
    ({ option, choice, sites }) => options[option] === choice && sites.includes(convention),
  );
  return chosen?.runtime ?? convention;
}

/** True for conventions whose sites call through stubs of their own. */
export function hasOwnStubs({ siteShapes }: Arch, convention: ConventionName): boolean {
  return siteShapes.some(({ outOfLine, entries }) => outOfLine === true && entries.includes(convention));
}

/**
 * Adds the conventions of a table's areas. One compiler option leaves sites with stubs of their own
 * or sites without: what fewer areas look like is chance (P-OOL-3).
 */
function addFound(arch: Arch, counts: ReadonlyMap<ConventionName, number>, found: Set<ConventionName>): void {
  const rows = [...counts];
  const most = Math.max(...rows.map(([, count]) => count));
  const winner = rows.find(([, count]) => count === most)?.[0];
  for (const [name] of rows) {
    if (winner !== undefined && hasOwnStubs(arch, name) === hasOwnStubs(arch, winner)) found.add(name);
  }
}

function classify(arch: Arch, bytes: Uint8Array, offset: number, found: Set<ConventionName>, callee?: string): void {
  if (arch.loader.kind === 'none') return;
  const view = new ByteView(bytes, arch.target.codeEndian, 'code');
  found.add(
    arch.loader.conventionOf((delta) => {
      const at = offset + delta;
      return at < 0 || at + 4 > bytes.length ? -1 : view.u32(at);
    }, callee),
  );
}

function ofObject(image: ElfImage, arch: Arch, found: Set<ConventionName>): void {
  const isMcount = (name: string): boolean => arch.mcount.symbols.includes(name.startsWith('.') ? name.slice(1) : name);
  for (const section of image.sections) {
    if ((section.flags & elf.SHF_EXECINSTR) === 0n || section.fileSize === 0) continue;
    const bytes = image.contents(section);
    for (const table of image.relocationsOf(section)) {
      const named = new Map<number, boolean>();
      for (let row = 0; row < table.count; row++) {
        const delta = arch.mcount.callRelocations.get(table.type[row]!);
        if (delta === undefined || table.symbols === null) continue;
        const symbol = table.symbol[row]!;
        let known = named.get(symbol);
        if (known === undefined) {
          known = isMcount(table.symbols.name(symbol));
          named.set(symbol, known);
        }
        if (known) classify(arch, bytes, Number(table.offset[row]!) + delta, found, table.symbols.name(symbol));
      }
    }
  }
}

/** The convention of an area of nops in a linked image. */
function ofArea(program: Program, range: CodeRange, address: bigint, found: Set<ConventionName>): void {
  const { arch } = program;
  if (arch.loader.kind === 'none') return;
  const { conventionOfPatchable: decide, patchable } = arch.loader;
  const view = new ByteView(range.bytes, arch.target.codeEndian, 'code');
  const word = (delta: number): number => {
    const at = Number(address - range.address) + delta;
    return at < 0 || at + 4 > range.bytes.length ? -1 : view.u32(at);
  };
  const startsAt = (delta: number): boolean => program.functionStarting(range, address + BigInt(delta)) >= 0;
  const convention = decide === null ? patchable : decide(startsAt, word);
  if (convention !== null) found.add(convention);
}

/**
 * Name of the profiling entry that a call in a linked image reaches, where the image says it;
 * undefined where two share an address.
 */
function calleeNames(program: Program): (address: bigint) => string | undefined {
  const names = new Map<bigint, string | undefined>();
  for (const name of program.arch.mcount.symbols) {
    const address = program.definedAt(program.symbols.find(name));
    if (address !== null) names.set(address, names.has(address) ? undefined : name);
  }
  return (address) => names.get(program.finalTarget(address));
}

interface CallTable {
  /** Bytes of the file. */
  readonly offset: number;
  readonly size: number;
  /** Between the symbols of a kernel, which has one table for calls and areas. */
  readonly isKernel: boolean;
}

/** Tables of linked files: a section of the name, and what a kernel has between its two symbols. */
function callTables({ image, symbols }: Program): readonly CallTable[] {
  const sections = image
    .sectionsNamed(callTable)
    .map(({ offset, fileSize: size }) => ({ offset, size, isKernel: false }));
  const [start = 0n, stop = 0n] = ['__start_mcount_loc', '__stop_mcount_loc'].map((name) => {
    const symbol = symbols.find(name);
    return symbol > 0 && symbols.sectionIndex[symbol] !== elf.SHN_UNDEF ? symbols.value[symbol]! : 0n;
  });
  if (sections.length > 0 || start === 0n || stop <= start) return sections;
  const offset = image.fileOffsetOf(start);
  const size = Math.min(Number(stop - start), image.bytes.length - offset);
  return offset < 0 ? [] : [{ offset, size, isKernel: true }];
}

function ofLinked(image: ElfImage, arch: Arch, found: Set<ConventionName>): void {
  const program = new Program(image, arch);
  const view = new ByteView(image.bytes, arch.target.dataEndian, callTable);
  const { wordBytes } = arch.target;
  const nameOf = calleeNames(program);
  /** Calls of the profiling entry in [start, end), with the names of their callees. */
  const callsIn = (range: CodeRange, start: number, end: number): { at: number; callee: string | undefined }[] => {
    const callees: (string | undefined)[] = [];
    const isTarget = (address: bigint): boolean => {
      const isEntry = program.callee(address) === 'mcount';
      if (isEntry) callees.push(nameOf(address));
      return isEntry;
    };
    const calls = arch.mcount.findCalls(range.bytes, start, end, range.address, isTarget);
    return calls.map((at, index) => ({ at, callee: callees[index] }));
  };
  let tabled = false;
  for (const table of callTables(program)) {
    for (let at = 0; at + wordBytes <= table.size; at += wordBytes) {
      const address = view.word(table.offset + at, wordBytes);
      const range = program.codeAt(address);
      if (range === undefined) continue;
      tabled = true;
      const offset = Number(address - range.address);
      const call = callsIn(range, offset, Math.min(offset + MOST_CALL_BYTES, range.bytes.length)).find(
        (each) => each.at === offset,
      );
      // The kernel's table names areas of nops as well; those of a table of calls were turned off.
      if (call === undefined && table.isKernel) ofArea(program, range, address, found);
      else classify(arch, range.bytes, offset, found, call?.callee);
    }
  }
  if (tabled || !program.hasMcountEntry) return;
  for (const range of program.code) {
    for (const { at, callee } of callsIn(range, 0, range.bytes.length)) {
      classify(arch, range.bytes, at, found, callee);
    }
  }
}
