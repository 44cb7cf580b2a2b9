/**
 * Which entry convention the patch sites of a file have (05-runtime-abi section 7), from its site tables and calls of the profiling entry. Looks
 * at the words around the calls only; what a site's shape is, is ftrace's.
 */
import type { Arch, EntryConvention } from '../arch.js';
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { Program } from './program.js';

const patchableSection = '__patchable_function_entries';
const callTable = '__mcount_loc';

/** The conventions that occur in a file, in order; empty for a file without sites. */
export function conventionsOf(image: ElfImage, arch: Arch): readonly EntryConvention[] {
  const found = new Set<EntryConvention>();
  if (!arch.mcount.patchableIsPadding && image.sectionsNamed(patchableSection).some((each) => each.size > 0)) {
    found.add(arch.loader.kind === 'modules' ? arch.loader.patchable : 'regs');
  }
  if (image.header.type === elf.ET_REL) ofObject(image, arch, found);
  else ofLinked(image, arch, found);
  return [...found].sort();
}

function classify(arch: Arch, bytes: Uint8Array, offset: number, found: Set<EntryConvention>, callee?: string): void {
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

function ofObject(image: ElfImage, arch: Arch, found: Set<EntryConvention>): void {
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

function ofLinked(image: ElfImage, arch: Arch, found: Set<EntryConvention>): void {
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
