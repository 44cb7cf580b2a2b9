/**
 * Where the runtime goes in a linked file (RT-27): a segment of code in place of a program header
 * that names notes, words behind the last data that is zero at the start, sections that say so. The
 * table of program headers stays where it is, so that AT_PHDR stays right and `strip` works;
 * nothing of the program moves, but for notes behind that table, where it must become longer: they
 * go behind the code, and their sections with them.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSegment } from '../elf/image.js';
import type { Address } from '../units.js';
import { refused } from './refuse.js';

const alignUp = (value: bigint, align: bigint): bigint => ((value + align - 1n) / align) * align;
const endOf = ({ address, memorySize }: ElfSegment): bigint => address + memorySize;

/** Where code and words lie, before their sizes are known to fit. */
export interface Places {
  readonly code: Address;
  readonly words: Address;
  /** The segment that grows, and the one whose header is used. */
  readonly data: ElfSegment;
  readonly given: ElfSegment;
  /** Takes in the code of `given`, which is one of code then; null: that one named notes. */
  readonly joined: ElfSegment | null;
  /** The one that names, or shall name, unwind information; null: none does, or a new one. */
  readonly table: ElfSegment | null;
  /** The notes that make room for a new one, and are `given`; null: there is none. */
  readonly moved: ElfSegment | null;
  readonly pageBytes: number;
}

/**
 * The header that is given up: notes about properties have a header of their own beside it, other
 * notes are still found by their sections.
 */
function givenUp(image: ElfImage, taken?: ElfSegment): ElfSegment | null {
  const free = image.segments.filter((segment) => segment !== taken);
  const notes = free.filter(({ type }) => type === elf.PT_NOTE);
  const properties = image.segments.find(({ type }) => type === elf.PT_GNU_PROPERTY);
  const twice = notes.find(({ offset, fileSize }) => properties?.offset === offset && properties.fileSize === fileSize);
  return free.find(({ type }) => type === elf.PT_NULL) ?? twice ?? notes.at(-1) ?? null;
}

/**
 * Two loads of which one can do the work of both: what is only read in front of the code (headers,
 * tables of the loader), as far from it in the file as in memory. Linkers put both into one segment
 * unless they are asked for separate ones.
 */
function joinable(image: ElfImage): readonly [ElfSegment, ElfSegment] | null {
  const loads = image.segments.filter(({ type }) => type === elf.PT_LOAD);
  for (const [i, first] of loads.entries()) {
    const second = loads[i + 1];
    if (second === undefined) return null;
    const isClose = second.address - first.address === BigInt(second.offset - first.offset);
    const isWhole = first.memorySize === BigInt(first.fileSize) && second.offset > first.offset;
    const isCode = first.flags === elf.PF_R && second.flags === (elf.PF_R | elf.PF_X);
    if (isClose && isWhole && isCode && first.alignBytes === second.alignBytes) return [first, second];
  }
  return null;
}

/**
 * Whether notes lie right behind the table of program headers, with room for one more of these. Of
 * the loads, the first alone holds both; all other sections are elsewhere.
 */
function makesRoom({ header, segments, sections }: ElfImage, notes: ElfSegment): boolean {
  const { phoff, phnum, phentsize } = header;
  const start = phoff + phnum * phentsize;
  const end = start + phentsize;
  const noteEnd = notes.offset + notes.fileSize;
  const isBehind = notes.type === elf.PT_NOTE && notes.offset >= start && notes.offset < end && noteEnd >= end;
  const overlaps = (offset: number, size: number): boolean => offset < noteEnd && offset + size > start;
  const others = segments.filter((each) => each !== notes && each.type !== elf.PT_LOAD);
  const inside = sections.filter(({ offset, fileSize }) => fileSize > 0 && overlaps(offset, fileSize));
  return (
    isBehind &&
    others.every(
      ({ offset, fileSize, type }) => fileSize === 0 || (type !== elf.PT_PHDR && !overlaps(offset, fileSize)),
    ) &&
    inside.every(
      ({ type, offset, size }) => type === elf.SHT_NOTE && offset >= notes.offset && offset + size <= noteEnd,
    )
  );
}

/**
 * @param wordsBytes  size of what must be zero at the start
 * @throws ElftraceError 'unsupported-form', reason 'no-room'
 */
export function placesFor(image: ElfImage, wordsBytes: number, pageBytes: number, needsTable: boolean): Places {
  const unused = givenUp(image);
  const [joined = null, code = null] = unused === null ? (joinable(image) ?? []) : [];
  const given = unused ?? code;
  if (given === null) {
    throw refused(
      'no-room',
      'no program header can be given up (PT_NULL, PT_NOTE, two loads that can be one), and the table cannot grow in place',
    );
  }
  const named = image.segments.find(({ type }) => type === elf.PT_GNU_EH_FRAME) ?? givenUp(image, given);
  const table = needsTable ? named : null;
  const moved = needsTable && table === null && makesRoom(image, given) ? given : null;
  if (needsTable && table === null && moved === null) {
    throw refused('no-unwind-tables', 'no program header names its unwind information, and none more can be given up');
  }
  const loads = image.segments.filter(({ type }) => type === elf.PT_LOAD);
  const data = loads.filter(({ flags }) => (flags & elf.PF_W) !== 0).at(-1);
  if (data === undefined) throw refused('no-room', 'no segment can be written to: there is no place for words');
  const page = BigInt(pageBytes);
  const words = alignUp(endOf(data), 64n);
  const end = words + BigInt(wordsBytes);
  const next = loads.find(({ address }) => address > data.address);
  // The kernel may clear up to the end of the page.
  if (next !== undefined && alignUp(end, page) > (next.address / page) * page) {
    throw refused('no-room', 'another segment begins behind the data: there is no place for words');
  }
  const behind = loads.map(endOf).reduce((last, each) => (each > last ? each : last), end);
  return { code: alignUp(behind, page), words, data, given, joined, table, moved, pageBytes };
}

/** File position of a program header. */
const headerAt = (image: ElfImage, index: number): number => image.header.phoff + index * image.header.phentsize;

/** Writes one program header; `size` is that of the file and of memory. */
function writeLoad(view: ByteView, at: number, wordBytes: 4 | 8, segment: Omit<ElfSegment, 'index'>): void {
  const words = wordBytes === 8 ? at + 8 : at + 4;
  view.insertU32(at, segment.type);
  view.insertU32(wordBytes === 8 ? at + 4 : at + 24, segment.flags);
  view.insertWord(words, BigInt(segment.offset), wordBytes);
  view.insertWord(words + wordBytes, segment.address, wordBytes);
  view.insertWord(words + 2 * wordBytes, segment.physicalAddress, wordBytes);
  view.insertWord(words + 3 * wordBytes, BigInt(segment.fileSize), wordBytes);
  view.insertWord(words + 4 * wordBytes, segment.memorySize, wordBytes);
  view.insertWord(wordBytes === 8 ? at + 48 : at + 28, segment.alignBytes, wordBytes);
}

/**
 * The program headers with the segment of code in them, which stands behind the other loads: the
 * kernel and the dynamic loader want them in the order of their addresses.
 * @param bytes  the output, written in place
 */
export function writeHeaders(
  bytes: Uint8Array,
  image: ElfImage,
  places: Places,
  code: { readonly offset: number; readonly size: number; readonly tableAt: number; readonly tableBytes: number },
  wordsBytes: number,
): void {
  const view = new ByteView(bytes, image.header.endian);
  const { data, given, joined, table, moved, pageBytes } = places;
  const added: Omit<ElfSegment, 'index'> = {
    type: elf.PT_LOAD,
    flags: elf.PF_R | elf.PF_X,
    offset: code.offset,
    address: places.code,
    physicalAddress: places.code,
    fileSize: code.size,
    memorySize: BigInt(code.size),
    alignBytes: BigInt(pageBytes),
  };
  const grown = { ...data, memorySize: places.words + BigInt(wordsBytes) - data.address };
  const start = code.tableAt;
  const newTable: Omit<ElfSegment, 'index'> = {
    type: elf.PT_GNU_EH_FRAME,
    flags: elf.PF_R,
    offset: code.offset + start,
    address: places.code + BigInt(start),
    physicalAddress: places.code + BigInt(start),
    fileSize: code.tableBytes,
    memorySize: BigInt(code.tableBytes),
    alignBytes: 4n,
  };
  const both = joined && {
    ...joined,
    flags: given.flags,
    fileSize: given.offset + given.fileSize - joined.offset,
    memorySize: given.address + given.memorySize - joined.address,
  };
  const replaced = new Map<ElfSegment | null, Omit<ElfSegment, 'index'>>([
    [data, grown],
    [table, newTable],
    ...(both === null ? [] : [[joined, both] as const]),
  ]);
  const rest: Omit<ElfSegment, 'index'>[] = image.segments
    .filter((segment) => segment !== given)
    .map((segment) => replaced.get(segment) ?? segment);
  const lastLoad = rest.reduce((last, { type }, i) => (type === elf.PT_LOAD ? i : last), 0);
  // In place where that is behind them, so that the other headers stay where they are.
  const at = Math.max(lastLoad + 1, given.index);
  rest.splice(at, 0, added);
  if (moved !== null) rest.push(newTable);
  // e_phnum.
  view.insertU16(image.header.is64 ? 56 : 44, rest.length);
  rest.forEach((segment, i) => writeLoad(view, headerAt(image, i), image.wordBytes, segment));
}
