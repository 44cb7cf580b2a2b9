/**
 * An image as a proof sees it: pages of bytes at addresses, with the rights of their segments. What
 * no segment holds appears on first access (PV-1).
 */
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';

export const PAGE_BYTES = 4096;

interface Segment {
  readonly address: Address;
  readonly end: Address;
  /** File position and size of what the file has of it; the rest is zero. */
  readonly offset: number;
  readonly fileBytes: number;
  readonly write: boolean;
  readonly execute: boolean;
}

const PT_LOAD = 1;

/** A page in words of 32 bits. */
function wordsOf(page: Uint8Array): Uint32Array {
  const { buffer, byteOffset } = (page.byteOffset & 3) === 0 ? page : page.slice();
  return new Uint32Array(buffer, byteOffset, PAGE_BYTES / 4);
}

/** Positions in which two pages differ. */
export function differing(a: Uint8Array, b: Uint8Array): number[] {
  const found: number[] = [];
  const [x, y] = [wordsOf(a), wordsOf(b)];
  for (let word = 0; word < PAGE_BYTES / 4; word++) {
    if (x[word] === y[word]) continue;
    for (let i = 4 * word; i < 4 * word + 4; i++) if (a[i] !== b[i]) found.push(i);
  }
  return found;
}

/** Pages of a linked or loaded image. */
export class ImageLayout {
  private readonly segments: readonly Segment[];

  constructor(readonly program: Program) {
    this.segments = program.image.segments
      .filter(({ type, memorySize }) => type === PT_LOAD && memorySize > 0n)
      .map(({ address, memorySize, offset, fileSize, flags }) => ({
        address,
        end: address + memorySize,
        offset: Number(offset),
        fileBytes: Number(fileSize),
        write: (flags & 2) !== 0,
        execute: (flags & 1) !== 0,
      }))
      .sort((a, b) => (a.address < b.address ? -1 : 1));
  }

  private *touching(page: Address): Generator<Segment> {
    const end = page + BigInt(PAGE_BYTES);
    for (const segment of this.segments) {
      if (segment.address >= end) return;
      if (segment.end > page) yield segment;
    }
  }

  /** Whether a segment that is executed has an address. */
  executes(address: Address): boolean {
    return this.segments.some((each) => each.execute && address >= each.address && address < each.end);
  }

  /** Where code may be executed. */
  get text(): readonly { readonly start: Address; readonly end: Address }[] {
    return this.segments.filter(({ execute }) => execute).map(({ address, end }) => ({ start: address, end }));
  }

  /** What the image has at an address: zeros where that is nothing. */
  bytes(address: Address, size: number): Uint8Array {
    const first = address - (address % BigInt(PAGE_BYTES));
    const found = new Uint8Array(2 * PAGE_BYTES);
    for (const i of [0, 1])
      this.fill(first + BigInt(i * PAGE_BYTES), found.subarray(i * PAGE_BYTES, (i + 1) * PAGE_BYTES));
    const from = Number(address - first);
    return found.subarray(from, from + size);
  }

  /** Whether the image has bytes at an address. */
  owns(address: Address): boolean {
    return this.segments.some((each) => address >= each.address && address < each.end);
  }

  /** Whether a part of the image is on a page. */
  touches(page: Address): boolean {
    return this.touching(page).next().done !== true;
  }

  /** Rights of a page: those of all segments that have a part of it; the rest is data. */
  permission(page: Address): 'r' | 'rw' | 'rx' | 'rwx' {
    let [read, write, execute] = [false, false, false];
    for (const segment of this.touching(page)) {
      read = true;
      write ||= segment.write;
      execute ||= segment.execute;
    }
    if (!read) return 'rw';
    return `r${write ? 'w' : ''}${execute ? 'x' : ''}` as 'r' | 'rw' | 'rx' | 'rwx';
  }

  /** A page as the file has it; null: no part of the file is the page. */
  whole(page: Address): Uint8Array | null {
    const [first, second] = [...this.touching(page)];
    if (first === undefined || second !== undefined || page < first.address) return null;
    const skip = Number(page - first.address);
    if (skip + PAGE_BYTES > first.fileBytes) return null;
    return this.program.image.bytes.subarray(first.offset + skip, first.offset + skip + PAGE_BYTES);
  }

  /** Lays what the image has of a page over it. */
  fill(page: Address, bytes: Uint8Array): void {
    for (const { address, end, offset, fileBytes } of this.touching(page)) {
      const from = address > page ? Number(address - page) : 0;
      const to = Math.min(PAGE_BYTES, Number(end - page));
      bytes.fill(0, from, to);
      const first = Number(page + BigInt(from) - address);
      const size = Math.min(to - from, fileBytes - first);
      if (size > 0) bytes.set(this.program.image.bytes.subarray(offset + first, offset + first + size), from);
    }
  }
}
