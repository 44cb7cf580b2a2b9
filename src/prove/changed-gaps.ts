/**
 * Memory of a linked file that belongs to no section with contents: what is between sections, and
 * what begins as zeros. A patched file may have bytes there that the original has not.
 */
import { PT_LOAD, SHF_ALLOC, SHT_NOBITS } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import type { Address } from '../units.js';

interface Range {
  readonly start: Address;
  readonly end: Address;
}

/** What is compared at once. */
const BLOCK = 65_536n;

/** The parts of some ranges that others leave free. */
function without(ranges: readonly Range[], others: readonly Range[]): Range[] {
  const sorted = [...others].sort((a, b) => (a.start < b.start ? -1 : 1));
  return ranges.flatMap(({ start, end }) => {
    const free: Range[] = [];
    let at = start;
    for (const other of sorted) {
      if (other.end <= at || other.start >= end) continue;
      if (other.start > at) free.push({ start: at, end: other.start });
      at = other.end;
    }
    if (at < end) free.push({ start: at, end });
    return free;
  });
}

/** Where the headers are, as far as memory has them: they say where other headers went. */
function headers(image: ElfImage): Range[] {
  const { ehsize, phoff, phentsize, phnum, shoff, shentsize, shnum } = image.header;
  const files = [
    [0, ehsize],
    [phoff, phentsize * phnum],
    [shoff, shentsize * shnum],
  ] as const;
  return files.flatMap(([offset, size]) => {
    const start = size === 0 ? undefined : image.addressOf(offset);
    return start === undefined ? [] : [{ start, end: start + BigInt(size) }];
  });
}

/** Memory that segments have and sections do not. */
function gapsOf(original: ElfImage, patched: ElfImage): Range[] {
  const loaded = original.segments
    .filter(({ type }) => type === PT_LOAD)
    .map(({ address, memorySize }) => ({ start: address, end: address + memorySize }));
  const sections = original.sections
    .filter(({ type, flags, size }) => type !== SHT_NOBITS && (flags & SHF_ALLOC) !== 0n && size > 0)
    .map(({ address, size }) => ({ start: address, end: address + BigInt(size) }));
  return without(loaded, [...sections, ...headers(original), ...headers(patched)]);
}

/** Bytes of segments as memory has them in the beginning; null: zeros. */
function memoryAt(image: ElfImage, { start, end }: Range): Uint8Array | null {
  const parts = image.segments.filter(
    ({ type, address, fileSize }) => type === PT_LOAD && address < end && address + BigInt(fileSize) > start,
  );
  if (parts.length === 0) return null;
  const found = new Uint8Array(Number(end - start));
  for (const { address, offset, fileSize } of parts) {
    const from = address > start ? address : start;
    const to = address + BigInt(fileSize) < end ? address + BigInt(fileSize) : end;
    const first = offset + Number(from - address);
    found.set(image.bytes.subarray(first, first + Number(to - from)), Number(from - start));
  }
  return found;
}

/** Calls `found` with each address between sections of the original at which the files differ. */
export function changedGaps(original: ElfImage, patched: ElfImage, found: (address: Address) => void): void {
  for (const { start, end } of gapsOf(original, patched)) {
    for (let at = start; at < end; at += BLOCK) {
      const block = { start: at, end: at + BLOCK < end ? at + BLOCK : end };
      const [before, after] = [memoryAt(original, block), memoryAt(patched, block)];
      if (before === null && after === null) continue;
      const size = Number(block.end - block.start);
      for (let i = 0; i < size; i++) if ((before?.[i] ?? 0) !== (after?.[i] ?? 0)) found(at + BigInt(i));
    }
  }
}
