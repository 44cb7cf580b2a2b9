/**
 * Which entry convention the patch sites of a file have (05-runtime-abi section 7), from its site tables and calls of the profiling entry. Looks
 * at the words around the calls only; what a site's shape is, is ftrace's.
 */
import type { Arch, EntryFlavour } from '../arch.js';
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { Program } from './program.js';

const patchableSection = '__patchable_function_entries';
const callTable = '__mcount_loc';

/** The conventions that occur in a file, in order; empty for a file without sites. */
export function conventionsOf(image: ElfImage, arch: Arch): readonly EntryFlavour[] {
  const found = new Set<EntryFlavour>();
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
function ofPatchable(image: ElfImage, arch: Arch, table: ElfImage['sections'][number], found: Set<EntryFlavour>): void {
  const decide = arch.loader.kind === 'none' ? undefined : arch.loader.conventionOfPatchable;
  if (decide === undefined) {
    found.add(arch.loader.kind === 'modules' ? arch.loader.patchable : 'regs');
    return;
  }
  const functions = new Set<string>();
  const { symbols } = image;
  const relocatable = image.header.type === elf.ET_REL;
  const key = (section: number, value: bigint): string => `${relocatable ? section : 0} ${value}`;
  for (let i = 1; i < symbols.count; i++) {
    if ((symbols.info[i]! & 15) === elf.STT_FUNC) functions.add(key(symbols.sectionIndex[i]!, symbols.value[i]!));
  }
  const one = (section: number, value: bigint, bytes: Uint8Array, offset: number): void => {
    const view = new ByteView(bytes, arch.target.codeEndian, 'code');
    const word = (delta: number): number => {
      const at = offset + delta;
      return at < 0 || at + 4 > bytes.length ? -1 : view.u32(at);
    };
    const convention = decide((delta) => functions.has(key(section, value + BigInt(delta))), word);
    if (convention !== null) found.add(convention);
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
}

function classify(arch: Arch, bytes: Uint8Array, offset: number, found: Set<EntryFlavour>, callee?: string): void {
  if (arch.loader.kind === 'none') {
    found.add('pg');
    return;
  }
  const view = new ByteView(bytes, arch.target.codeEndian, 'code');
  found.add(
    arch.loader.conventionOf((delta) => {
      const at = offset + delta;
      return at < 0 || at + 4 > bytes.length ? -1 : view.u32(at);
    }, callee),
  );
}

function ofObject(image: ElfImage, arch: Arch, found: Set<EntryFlavour>): void {
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

function ofLinked(image: ElfImage, arch: Arch, found: Set<EntryFlavour>): void {
  const program = new Program(image, arch);
  const view = new ByteView(image.bytes, arch.target.dataEndian, callTable);
  const { wordBytes } = arch.target;
  let tabled = false;
  for (const table of image.sectionsNamed(callTable)) {
    for (let at = 0; at + wordBytes <= table.fileSize; at += wordBytes) {
      const address = view.word(table.offset + at, wordBytes);
      const range = program.codeAt(address);
      if (range === undefined) continue;
      tabled = true;
      classify(arch, range.bytes, Number(address - range.address), found);
    }
  }
  if (tabled || !program.hasMcountEntry) return;
  const isTarget = (address: bigint): boolean => program.callee(address) === 'mcount';
  for (const range of program.code) {
    for (const at of arch.mcount.findCalls(range.bytes, 0, range.bytes.length, range.address, isTarget)) {
      classify(arch, range.bytes, at, found);
    }
  }
}
