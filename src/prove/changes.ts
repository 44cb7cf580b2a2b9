/**
 * What of an image changed beside its sites. Tables of sites, the tracer and its objects change
 * with them; any other byte that a program could execute or read is nothing that trials prove.
 */
import { equalBytes } from '../bytes.js';
import type { ElfImage, ElfSection } from '../elf/image.js';
import { SHF_ALLOC, SHN_UNDEF } from '../elf/constants.js';
import { trampolineSection } from '../program/program.js';
import { recordSection } from '../record/journal.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';
import { changedGaps } from './changed-gaps.js';
import { changedHeaders, type UnexplainedChange } from './changed-headers.js';

/** Bytes compared at once: most of an image is equal. */
const BLOCK = 4096;
/** Changes nearer to each other than this are one. */
const GAP = 8;
/** More are not listed. */
const LISTED = 100;
const SHT_NOBITS = 8;

/** Ranges that change with sites, by section of relocatable files; -1: of a whole image. */
class Explained {
  private readonly ranges = new Map<number, { readonly start: Address; readonly end: Address }[]>();

  /** @param others  what else is proved, in a whole image */
  constructor(
    original: Sites,
    patched: Sites,
    others: readonly { readonly address: Address; readonly end: Address }[] = [],
  ) {
    for (const { address, end } of others) this.add(-1, address, end);
    for (const sites of [original, patched]) {
      for (let i = 0; i < sites.count; i++) this.addSite(sites, i);
      if (!sites.program.relocatable) for (const { start, end } of tableRanges(sites)) this.add(-1, start, end);
      for (const part of sites.program.loadMap?.parts ?? []) {
        if (part.kind === 'runtime') for (const { start, end } of part.ranges) this.add(-1, start, end);
      }
    }
    for (const each of this.ranges.values()) each.sort((a, b) => (a.start < b.start ? -1 : 1));
  }

  private add(section: number, start: Address, end: Address): void {
    const known = this.ranges.get(section);
    if (known === undefined) this.ranges.set(section, [{ start, end }]);
    else known.push({ start, end });
  }

  private addSite(sites: Sites, i: number): void {
    const { program } = sites;
    const range = sites.codeRange(i);
    const reading = range === undefined ? null : sites.reading(i);
    if (range === undefined || reading === null) return;
    const section = program.relocatable ? range.section : -1;
    const word = BigInt(program.image.wordBytes);
    const start = sites.anchor[i]! + BigInt(reading.startDelta);
    this.add(section, start, start + BigInt(reading.sizeBytes));
    // A stub that the site leads through: executed with it, or not at all while the site is off.
    const stub = sites.stubs?.of(sites.ip(i)) ?? null;
    const code = program.arch.outOfLine?.codeBytes ?? 0;
    if (stub !== null) this.add(section, stub.address - word, stub.address + BigInt(code));
    // The word that names a site's ops.
    for (const { literal } of reading.literal === undefined ? [] : program.arch.conventions) {
      const place = literal?.place(sites.ip(i), stub) ?? null;
      if (place !== null) this.add(section, place, place + word);
    }
  }

  has(section: number, address: Address): boolean {
    const ranges = this.ranges.get(section) ?? [];
    let [low, high] = [0, ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranges[middle]!.start <= address) low = middle + 1;
      else high = middle;
    }
    // Ranges may nest: a few in front of the place are looked at.
    for (let i = low - 1; i >= 0 && i >= low - 16; i--) if (ranges[i]!.end > address) return true;
    return false;
  }
}

interface Range {
  readonly start: Address;
  readonly end: Address;
}

/** Where the slots of a linked file's tables are: a kernel's own have no section of theirs. */
function tableRanges({ tables, program: { image } }: Sites): Range[] {
  return tables.flatMap(({ position, count }) => {
    const start = count === 0 || position[0]! < 0 ? undefined : image.addressOf(position[0]!);
    return start === undefined ? [] : [{ start, end: start + BigInt(count * image.wordBytes) }];
  });
}

/** Sections that hold tables of sites, or what tools write down about themselves. */
function isBookkeeping({ name }: ElfSection, sites: Sites): boolean {
  return (
    name === trampolineSection ||
    name === recordSection ||
    name.startsWith('.elftrace.') ||
    sites.tables.some((table) => table.name === name) ||
    /^(__mcount_loc|__patchable_function_entries)/.test(name)
  );
}

const sectionBytes = (image: ElfImage, section: ElfSection): Uint8Array =>
  image.bytes.subarray(section.offset, section.offset + section.size);

/** Changed bytes that nothing explains, collected by section. */
class Changes {
  readonly found: { address: Address; size: number; section: string }[] = [];

  add(section: string, address: Address): void {
    const last = this.found.at(-1);
    if (last?.section === section && address >= last.address && address <= last.address + BigInt(last.size + GAP)) {
      last.size = Math.max(last.size, Number(address - last.address) + 1);
    } else if (this.found.length < LISTED) this.found.push({ address, size: 1, section });
  }

  /** Compares bytes; `isExplained` is asked of positions in them that differ. */
  compare(section: ElfSection, before: Uint8Array, after: Uint8Array, isExplained: (at: number) => boolean): void {
    for (let block = 0; block < before.length; block += BLOCK) {
      const end = Math.min(before.length, block + BLOCK);
      if (Buffer.compare(before.subarray(block, end), after.subarray(block, end)) === 0) continue;
      for (let i = block; i < end; i++) {
        if (before[i] !== after[i] && !isExplained(i)) this.add(section.name, section.address + BigInt(i));
      }
    }
  }
}

const isLoaded = ({ flags, size }: ElfSection): boolean => (flags & SHF_ALLOC) !== 0n && size > 0;

/** Changed bytes that nothing explains, by address. */
export function unexplainedChanges(
  original: Sites,
  patched: Sites,
  others: readonly { readonly address: Address; readonly end: Address }[] = [],
): readonly UnexplainedChange[] {
  const { image } = original.program;
  const isFile = original.program.relocatable;
  const headers = changedHeaders(image, patched.program.image, isFile, (section) => isBookkeeping(section, original));
  return [
    ...headers,
    ...(isFile ? unexplainedInFile(original, patched) : unexplainedInImage(original, patched, others)),
  ];
}

function unexplainedInImage(
  original: Sites,
  patched: Sites,
  others: readonly { readonly address: Address; readonly end: Address }[],
): readonly UnexplainedChange[] {
  const explained = new Explained(original, patched, others);
  const changes = new Changes();
  const image = original.program.image;
  for (const section of image.sections) {
    if (!isLoaded(section) || section.type === SHT_NOBITS || isBookkeeping(section, original)) continue;
    const at = patched.program.image.fileOffsetOf(section.address);
    const after = at < 0 ? new Uint8Array(0) : patched.program.image.bytes.subarray(at, at + section.size);
    const before = sectionBytes(image, section);
    if (image.relocations.some((each) => each.section === section.index)) {
      if (!equalBytes(before, after)) compareRelocations(section, original, patched, changes);
      continue;
    }
    changes.compare(section, before, after, (i) => explained.has(-1, section.address + BigInt(i)));
  }
  changedGaps(image, patched.program.image, (address) => {
    if (!explained.has(-1, address)) changes.add('between sections', address);
  });
  for (const address of strangeSlots(original, patched)) changes.add('table of sites', address);
  return changes.found;
}

/** What tables of the patched file name that is no code, as far as the original does not, too. */
function strangeSlots(original: Sites, patched: Sites): Address[] {
  const unplaced = (sites: Sites): Address[] =>
    [...sites.anchor].filter((anchor, i) => sites.codeRange(i) === undefined && anchor !== 0n);
  const known = new Set(unplaced(original));
  return unplaced(patched).filter((anchor) => !known.has(anchor));
}

/** A relocation of a linked file as text, with its place. */
type Row = readonly [text: string, place: Address];

/**
 * What start-up relocates: slots of tables, which go and come with their entries, and everything
 * else, of which every entry must be there as it was. Entries are compared where their bytes
 * differ; packed ones (RELR) as the places that they name.
 */
function compareRelocations(section: ElfSection, original: Sites, patched: Sites, changes: Changes): void {
  const images = [original.program.image, patched.program.image] as const;
  const tables = images.map(({ relocations }) => relocations.find((each) => each.section === section.index));
  const [before, after] = tables;
  if (before === undefined || after?.form !== before.form) {
    changes.add(section.name, section.address);
    return;
  }
  const slots = [original, patched].flatMap(tableRanges);
  const isSlot = (place: Address): boolean => slots.some(({ start, end }) => place >= start && place < end);
  const rows: Row[][] = [[], []];
  const isSame = (i: number): boolean =>
    before.offset[i] === after.offset[i] &&
    before.type[i] === after.type[i] &&
    before.symbol[i] === after.symbol[i] &&
    before.addend[i] === after.addend[i];
  for (let i = 0; i < Math.max(before.count, after.count); i++) {
    if (i < before.count && i < after.count && isSame(i)) continue;
    for (const [side, { count, offset, type, symbol, addend }] of [before, after].entries()) {
      if (i < count && !isSlot(offset[i]!))
        rows[side]!.push([`${offset[i]!} ${type[i]!} ${symbol[i]!} ${addend[i]!}`, offset[i]!]);
    }
  }
  const [was, is] = rows.map((each) => new Set(each.map(([text]) => text))) as [Set<string>, Set<string>];
  for (const [text, place] of rows[0]!) if (!is.has(text)) changes.add(section.name, place);
  for (const [text, place] of rows[1]!) if (!was.has(text)) changes.add(section.name, place);
}

/** The section of another version of a file that is this one. */
function sameSection({ sections }: ElfImage, { index, name }: ElfSection): ElfSection | undefined {
  const own = sections[index];
  return own?.name === name ? own : sections.find((each) => each.name === name);
}

/**
 * Of relocatable files: bytes, and what relocations say of them, and which symbols they define. A
 * relocation counts as a change of the byte at its place.
 */
function unexplainedInFile(original: Sites, patched: Sites): readonly UnexplainedChange[] {
  const explained = new Explained(original, patched);
  const changes = new Changes();
  const [before, after] = [original.program.image, patched.program.image];
  for (const section of before.sections) {
    if (!isLoaded(section) || isBookkeeping(section, original)) continue;
    const other = sameSection(after, section);
    const has = (offset: bigint): boolean => explained.has(section.index, offset);
    if (section.type !== SHT_NOBITS) {
      const bytes = other === undefined ? new Uint8Array(0) : sectionBytes(after, other);
      changes.compare(section, sectionBytes(before, section), bytes, (i) => has(BigInt(i)));
    }
    const rows = [relocationTexts(original, section), other ? relocationTexts(patched, other) : new Map()] as const;
    for (const [a, b] of [rows, [rows[1], rows[0]] as const]) {
      for (const [text, offset] of a) if (!b.has(text) && !has(offset)) changes.add(section.name, offset);
    }
  }
  return changes.found;
}

/** What the relocations of a section say, with their places; those that do nothing are left out. */
function relocationTexts({ program: { image, arch } }: Sites, section: ElfSection): ReadonlyMap<string, bigint> {
  const { symbols } = image;
  const found = new Map<string, bigint>();
  for (const { count, offset, type, symbol, addend } of image.relocationsOf(section)) {
    for (let row = 0; row < count; row++) {
      const rule = arch.relocations.get(type[row]!);
      if (rule?.rule === 'none') continue;
      const index = symbol[row]!;
      const home = symbols.sectionIndex[index]!;
      const name = symbols.name(index) || (image.sections[home]?.name ?? '');
      const place = home === SHN_UNDEF ? '' : `${home}:${symbols.value[index]!}`;
      found.set(`${offset[row]!} ${type[row]!} ${name}@${place}+${addend[row]!}`, offset[row]!);
    }
  }
  return found;
}
