/**
 * Linked files with their debugging sections left out. Kernels have five times as many bytes of
 * them as of everything else, and a proof looks at none. What is left out reads as zero in memory
 * that is never touched; the digest is that of the whole file, which is read for it again.
 */
import * as fs from 'node:fs';
import { ET_DYN, ET_EXEC, SHF_ALLOC, SHT_PROGBITS } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { isElf, readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { noteInput } from '../output/inputs.js';
import { ioError } from '../output/target.js';
import { hash, newHash } from './hash.js';
import { commandDeadline, commandLimits } from './limits.js';
import { STANDARD_INPUT } from './standard-input.js';

/** A part of a file: [start, end). */
interface Part {
  readonly start: number;
  readonly end: number;
}

/** What is known of a file whose bytes are not all in memory. */
interface Kept {
  readonly path: string;
  readonly leftOut: readonly Part[];
  /** Absent until it is asked for. */
  digest?: string;
}

const known = new WeakMap<ArrayBufferLike, Kept>();

/** Below that nothing is gained. */
const LEAST_BYTES = 32 << 20;
const PIECE = 4 << 20;
/** Program headers are in them, as a rule; otherwise the file is read as a whole. */
const FIRST_BYTES = 4096;

/** Reads until `into` is full; what is behind the end of the file is an error. */
function fill(descriptor: number, into: Uint8Array, position: number): void {
  for (let done = 0; done < into.length;) {
    const count = fs.readSync(descriptor, into, done, into.length - done, position + done);
    if (count === 0) throw new Error('it became shorter while it was read');
    done += count;
  }
}

/** Positions of e_shoff, e_shentsize, e_shnum by class. */
const HEADER = { 1: { bytes: 52, shoff: 32, shentsize: 46 }, 2: { bytes: 64, shoff: 40, shentsize: 58 } } as const;

/**
 * The headers of a file at their places, and nothing else; null: it is none whose parts are known
 * by them.
 */
function headersOf(descriptor: number, size: number): Uint8Array | null {
  const bytes = new Uint8Array(size);
  fill(descriptor, bytes.subarray(0, 64), 0);
  const form = isElf(bytes) && (bytes[4] === 1 || bytes[4] === 2) ? HEADER[bytes[4]] : null;
  if (form === null) return null;
  const view = new DataView(bytes.buffer);
  const little = bytes[5] === 1;
  const shoff = form.bytes === 64 ? Number(view.getBigUint64(form.shoff, little)) : view.getUint32(form.shoff, little);
  const [shentsize, shnum, shstrndx] = [0, 2, 4].map((at) => view.getUint16(form.shentsize + at, little)) as [
    number,
    number,
    number,
  ];
  const end = shoff + shnum * shentsize;
  if (shoff === 0 || end > size || shstrndx >= shnum) return null;
  fill(descriptor, bytes.subarray(0, FIRST_BYTES), 0);
  fill(descriptor, bytes.subarray(shoff, end), shoff);
  // sh_offset and sh_size of the names.
  const row = shoff + shstrndx * shentsize;
  const [offset, length] = [0, 1].map((i) =>
    form.bytes === 64 ? Number(view.getBigUint64(row + 24 + 8 * i, little)) : view.getUint32(row + 16 + 4 * i, little),
  ) as [number, number];
  if (offset + length > size) return null;
  fill(descriptor, bytes.subarray(offset, offset + length), offset);
  return bytes;
}

/** Sections that debuggers alone read, where nothing else lies over them; ascending. */
function debuggingParts({ header, sections, segments }: ElfImage): Part[] {
  if (header.type !== ET_EXEC && header.type !== ET_DYN) return [];
  const isLeftOut = ({ type, flags, name }: ElfImage['sections'][number]): boolean =>
    type === SHT_PROGBITS && (flags & SHF_ALLOC) === 0n && name.startsWith('.debug_');
  const parts = sections
    .filter((each) => isLeftOut(each) && each.fileSize > 0)
    .map(({ offset, fileSize }) => ({ start: offset, end: offset + fileSize }))
    .sort((a, b) => a.start - b.start);
  const others: Part[] = [
    ...sections
      .filter((each) => !isLeftOut(each))
      .map((each) => ({ start: each.offset, end: each.offset + each.fileSize })),
    ...segments.map(({ offset, fileSize }) => ({ start: Number(offset), end: Number(offset + fileSize) })),
    { start: header.shoff, end: header.shoff + header.shentsize * sections.length },
    { start: header.phoff, end: header.phoff + header.phentsize * segments.length },
  ];
  const overlaps = (a: Part, b: Part): boolean => a.start < b.end && b.start < a.end;
  const isShared = parts.some(
    (part, i) => (i > 0 && overlaps(parts[i - 1]!, part)) || others.some((each) => overlaps(part, each)),
  );
  return isShared ? [] : parts;
}

/** Ranges of a file that are not left out. */
function* keptOf(size: number, leftOut: readonly Part[]): Generator<Part> {
  let start = 0;
  for (const part of [...leftOut, { start: size, end: size }]) {
    if (part.start > start) yield { start, end: part.start };
    start = part.end;
  }
}

/** Pieces of a range, the clock looked at between them. */
function* piecesOf({ start, end }: Part): Generator<Part> {
  for (let at = start; at < end; at += PIECE) {
    commandDeadline().check('reading the file');
    yield { start: at, end: Math.min(end, at + PIECE) };
  }
}

/** SHA-256 of a file whose parts are in memory, or on the disk where they are left out. */
function digestThrough(bytes: Uint8Array, { path, leftOut }: Kept): string {
  const digest = newHash();
  const descriptor = fs.openSync(path, 'r');
  try {
    const buffer = new Uint8Array(PIECE);
    let done = 0;
    for (const out of [...leftOut, { start: bytes.length, end: bytes.length }]) {
      digest.update(bytes.subarray(done, out.start));
      for (const { start, end } of piecesOf(out)) {
        const piece = buffer.subarray(0, end - start);
        fill(descriptor, piece, start);
        digest.update(piece);
      }
      done = out.end;
    }
  } catch (cause) {
    throw cause instanceof ElftraceError ? cause : ioError(path, 'read', cause);
  } finally {
    fs.closeSync(descriptor);
  }
  return digest.digest('hex');
}

/**
 * A linked file without its debugging sections.
 * @returns null: it is small, none, or has none
 */
export function readLoadedParts(path: string): Uint8Array | null {
  const stats = path === STANDARD_INPUT ? undefined : fs.statSync(path, { bigint: true, throwIfNoEntry: false });
  const size = Number(stats?.size ?? 0n);
  if (stats?.isFile() !== true || size < LEAST_BYTES || size > commandLimits().file) return null;
  let descriptor = -1;
  try {
    descriptor = fs.openSync(path, 'r');
    const bytes = headersOf(descriptor, size);
    const leftOut = bytes === null ? [] : debuggingParts(readElf(bytes));
    if (bytes === null || leftOut.length === 0) return null;
    noteInput(path, stats);
    for (const part of keptOf(size, leftOut)) {
      for (const { start, end } of piecesOf(part)) fill(descriptor, bytes.subarray(start, end), start);
    }
    known.set(bytes.buffer, { path, leftOut });
    return bytes;
  } catch (cause) {
    // Whatever is wrong with it, the reader of whole files says.
    if (cause instanceof ElftraceError && cause.code !== 'timeout') return null;
    throw cause instanceof ElftraceError ? cause : ioError(path, 'read', cause);
  } finally {
    if (descriptor >= 0) fs.closeSync(descriptor);
  }
}

/** Whether parts of a file are left out. */
export const isInParts = ({ buffer }: Uint8Array): boolean => known.has(buffer);

/** SHA-256 of a file, whatever of it is in memory. */
export function digestOf(bytes: Uint8Array): string {
  const kept = known.get(bytes.buffer);
  return kept === undefined ? hash(bytes) : (kept.digest ??= digestThrough(bytes, kept));
}

/**
 * A hash for what is made of a file by changing bytes in it: parts that are left out of the file
 * are at the same places in that.
 */
export function digestLike(file: Uint8Array): (bytes: Uint8Array) => string {
  const kept = known.get(file.buffer);
  if (kept === undefined) return hash;
  const { path, leftOut } = kept;
  return (bytes) => {
    known.set(bytes.buffer, { path, leftOut });
    return digestOf(bytes);
  };
}
