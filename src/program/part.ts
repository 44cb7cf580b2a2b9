/**
 * Parts of an image while it is put together: sections with their contents and addresses, symbols,
 * stubs. Owns what follows from a part's sections alone: permissions, runs that become segments,
 * address ranges, words at an address.
 */
import { alignUpBig } from '../bits.js';
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import type { Address, Endian } from '../units.js';
import type { AddressRange, EntryStub, PartKind, StubArea } from './load-map.js';

/**
 * Position of a symbol's section in `Part.sections`; symbols without one are absolute or (in linked
 * cores) undefined.
 */
export type SymbolHome = number | 'absolute' | 'undefined';

export interface PartSymbol {
  readonly name: string;
  /** An address. */
  readonly value: bigint;
  readonly size: bigint;
  readonly info: number;
  readonly other: number;
  readonly home: SymbolHome;
}

export interface PartSection {
  readonly name: string;
  readonly type: number;
  readonly flags: bigint;
  readonly alignBytes: bigint;
  readonly entrySize: bigint;
  readonly size: number;
  readonly link: number;
  readonly info: number;
  /** 0 until it is placed. */
  address: Address;
  /** Own copy, which relocations change; null for SHT_NOBITS. */
  readonly contents: Uint8Array | null;
  /** Sections of a linked core stay where they are in the file; null for all others. */
  readonly fileOffset: number | null;
}

/**
 * Part of an image. Sections in the order of the image's table; symbols with the local ones first.
 */
export interface Part {
  readonly kind: PartKind;
  readonly name: string;
  readonly sha256: string;
  toc: Address | null;
  readonly sections: PartSection[];
  readonly symbols: PartSymbol[];
  readonly stubs: StubArea[];
  readonly entryStubs: EntryStub[];
  readonly uses: Set<string>;
  /** The file of a linked core, unchanged; null for parts that were laid out. */
  readonly linked: ElfImage | null;
}

/** What a section's memory may do: sections of one permission make a segment. */
export type Permission = 'rx' | 'r' | 'rwx' | 'rw';

/** Order of the segments of a part. */
export const permissionOrder: readonly Permission[] = ['rx', 'r', 'rwx', 'rw'];

export function permissionOf(flags: bigint): Permission {
  const write = (flags & elf.SHF_WRITE) !== 0n;
  if ((flags & elf.SHF_EXECINSTR) !== 0n) return write ? 'rwx' : 'rx';
  return write ? 'rw' : 'r';
}

export function segmentFlags(permission: Permission): number {
  return elf.PF_R | (permission.includes('w') ? elf.PF_W : 0) | (permission.includes('x') ? elf.PF_X : 0);
}

/** Sections of one permission that lie behind each other: a loadable segment. */
export interface Run {
  readonly permission: Permission;
  readonly start: Address;
  readonly end: Address;
  /** Where the bytes of the file end; the rest is zero. */
  readonly fileEnd: Address;
  readonly sections: readonly PartSection[];
}

/** Sections further apart than this are segments of their own. */
const greatestGap = 0x1_0000n;

/**
 * The segments that a part adds to the image; sections of a linked core are in segments of its own.
 */
export function runsOf(part: Part): Run[] {
  const runs: PartSection[][] = [];
  let last: Permission | null = null;
  let end = 0n;
  for (const section of part.sections) {
    if (section.fileOffset !== null || (section.flags & elf.SHF_ALLOC) === 0n) continue;
    const permission = permissionOf(section.flags);
    const apart = section.address < end || section.address - end >= greatestGap;
    if (permission === last && !apart) runs[runs.length - 1]!.push(section);
    else runs.push([section]);
    last = permission;
    end = section.address + BigInt(section.size);
  }
  return runs
    .map((sections) => {
      const start = sections[0]!.address;
      let end = start;
      let fileEnd = start;
      for (const section of sections) {
        end = section.address + BigInt(section.size);
        if (section.contents !== null) fileEnd = end;
      }
      return { permission: permissionOf(sections[0]!.flags), start, end, fileEnd, sections };
    })
    .filter((run) => run.end > run.start);
}

/** All addresses of a part, ascending; ranges that touch are one. */
export function rangesOf(part: Part): AddressRange[] {
  const ranges: { start: Address; end: Address }[] = runsOf(part).map(({ start, end }) => ({ start, end }));
  for (const segment of part.linked?.segments ?? []) {
    if (segment.type !== elf.PT_LOAD || segment.memorySize === 0n) continue;
    ranges.push({ start: segment.address, end: segment.address + segment.memorySize });
  }
  ranges.sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  const merged: { start: Address; end: Address }[] = [];
  for (const range of ranges) {
    const last = merged[merged.length - 1];
    if (last !== undefined && range.start <= last.end) {
      if (range.end > last.end) last.end = range.end;
    } else merged.push(range);
  }
  return merged;
}

/** First address behind a part; 0 for a part without memory. */
export function endOf(part: Part): Address {
  return rangesOf(part).at(-1)?.end ?? 0n;
}

/** First address of a part; 0 for a part without memory. */
export function startOf(part: Part): Address {
  return rangesOf(part)[0]?.start ?? 0n;
}

/** The section that holds bytes of the file at `address`, or undefined. */
export function sectionAt(part: Part, address: Address): PartSection | undefined {
  return part.sections.find(
    (section) =>
      section.contents !== null &&
      (section.flags & elf.SHF_ALLOC) !== 0n &&
      address >= section.address &&
      address < section.address + BigInt(section.size),
  );
}

/** The word at an address of a part, or null where no byte of the file lies. */
export function wordAt(part: Part, address: Address, wordBytes: 4 | 8, endian: Endian): bigint | null {
  const section = sectionAt(part, address);
  if (section === undefined || section.contents === null) return null;
  const offset = Number(address - section.address);
  if (offset + wordBytes > section.contents.length) return null;
  return new ByteView(section.contents, endian, section.name).word(offset, wordBytes);
}

/** First file position from `from` on that is congruent to `address` in pages of `pageBytes`. */
export function congruentOffset(from: number, address: Address, pageBytes: number): number {
  const page = BigInt(pageBytes);
  const wanted = Number(address % page);
  const now = from % pageBytes;
  return from + ((wanted - now + pageBytes) % pageBytes);
}

/** First address from `from` on in a page of its own that is congruent to a file position. */
export function congruentAddress(from: Address, offset: number, pageBytes: number): Address {
  return alignUpBig(from, BigInt(pageBytes)) + BigInt(offset % pageBytes);
}
