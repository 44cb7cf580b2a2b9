/**
 * What of an image changed beside its sites. Tables of sites, the tracer and its objects change
 * with them; any other byte that a program could execute or read is nothing that trials prove.
 */
import type { ElfImage, ElfSection } from '../elf/image.js';
import { SHF_ALLOC } from '../elf/constants.js';
import { trampolineSection } from '../program/program.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';

export interface UnexplainedChange {
  readonly address: Address;
  readonly size: number;
  readonly section: string;
}

/** Bytes compared at once: most of an image is equal. */
const BLOCK = 4096;
/** Changes nearer to each other than this are one. */
const GAP = 8;
/** More are not listed. */
const LISTED = 100;
const SHT_NOBITS = 8;

/** Ranges that change with sites: [start, end). */
function explained(original: Sites, patched: Sites): { readonly start: Address; readonly end: Address }[] {
  const ranges: { start: Address; end: Address }[] = [];
  for (const sites of [original, patched]) {
    const { program } = sites;
    const word = BigInt(program.image.wordBytes);
    for (let i = 0; i < sites.count; i++) {
      const reading = sites.codeRange(i) ? sites.reading(i) : null;
      if (reading === null) continue;
      const start = sites.anchor[i]! + BigInt(reading.startDelta);
      ranges.push({ start, end: start + BigInt(reading.sizeBytes) });
      // A stub that the site leads through: executed with it, or not at all while the site is off.
      const stub = sites.stubs?.of(sites.ip(i)) ?? null;
      const code = program.arch.outOfLine?.codeBytes ?? 0;
      if (stub !== null) ranges.push({ start: stub.address - word, end: stub.address + BigInt(code) });
      // The word that names a site's ops.
      for (const { literal } of reading.literal === undefined ? [] : program.arch.conventions) {
        const place = literal?.place(sites.ip(i), stub) ?? null;
        if (place !== null) ranges.push({ start: place, end: place + word });
      }
    }
    for (const part of program.loadMap?.parts ?? []) if (part.kind === 'runtime') ranges.push(...part.ranges);
  }
  return ranges.sort((a, b) => (a.start < b.start ? -1 : 1));
}

/** Sections that hold tables of sites, or what tools write down about themselves. */
function isBookkeeping({ name }: ElfSection, sites: Sites): boolean {
  return (
    name === trampolineSection ||
    name.startsWith('.note.') ||
    name.startsWith('.elftrace.') ||
    sites.tables.some((table) => table.name === name) ||
    /^(__mcount_loc|__patchable_function_entries)/.test(name)
  );
}

const sectionBytes = (image: ElfImage, section: ElfSection): Uint8Array =>
  image.bytes.subarray(section.offset, section.offset + section.size);

/** Changed bytes that nothing explains, by address. */
export function unexplainedChanges(original: Sites, patched: Sites): readonly UnexplainedChange[] {
  const ranges = explained(original, patched);
  const isExplained = (address: Address): boolean => {
    let [low, high] = [0, ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranges[middle]!.start <= address) low = middle + 1;
      else high = middle;
    }
    // Ranges may nest: a few in front of the place are looked at.
    for (let i = low - 1; i >= 0 && i >= low - 16; i--) if (ranges[i]!.end > address) return true;
    return false;
  };
  const found: { address: Address; size: number; section: string }[] = [];
  const image = original.program.image;
  for (const section of image.sections) {
    if ((section.flags & BigInt(SHF_ALLOC)) === 0n || section.type === SHT_NOBITS || section.size === 0) continue;
    if (isBookkeeping(section, original)) continue;
    const before = sectionBytes(image, section);
    const at = patched.program.image.fileOffsetOf(section.address);
    const after = at < 0 ? new Uint8Array(0) : patched.program.image.bytes.subarray(at, at + section.size);
    for (let block = 0; block < before.length; block += BLOCK) {
      const end = Math.min(before.length, block + BLOCK);
      for (let i = block; i < end; i++) {
        if (before[i] === after[i]) continue;
        const address = section.address + BigInt(i);
        if (isExplained(address)) continue;
        const last = found.at(-1);
        if (last?.section === section.name && address <= last.address + BigInt(last.size + GAP)) {
          last.size = Number(address - last.address) + 1;
        } else if (found.length < LISTED) found.push({ address, size: 1, section: section.name });
      }
    }
  }
  return found;
}
