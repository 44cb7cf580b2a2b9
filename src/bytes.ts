/**
 * Endian-aware access to a Uint8Array. Every access is bounds-checked here (DataView throws
 * RangeError, turned into an ElftraceError with the place), so no caller repeats a check. The only
 * file that names DataView.
 */
import { truncated } from './errors.js';
import type { Endian } from './units.js';

/**
 * A view of `bytes` in one byte order. Offsets are positions in `bytes`; reads outside throw
 * 'elf-truncated'.
 */
export class ByteView {
  private readonly view: DataView;
  readonly littleEndian: boolean;

  constructor(
    readonly bytes: Uint8Array,
    readonly endian: Endian,
    /** What the bytes are, for messages. */
    readonly what = 'file',
  ) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.littleEndian = endian === 'little';
  }

  get size(): number {
    return this.bytes.length;
  }

  private fail(offset: number, size: number): never {
    throw truncated(this.what, Number.isSafeInteger(offset) ? offset : 0, size, this.bytes.length);
  }

  u8(offset: number): number {
    if (!(offset >= 0 && offset < this.bytes.length)) this.fail(offset, 1);
    return this.bytes[offset]!;
  }

  u16(offset: number): number {
    if (!(offset >= 0 && offset + 2 <= this.bytes.length)) this.fail(offset, 2);
    return this.view.getUint16(offset, this.littleEndian);
  }

  u32(offset: number): number {
    if (!(offset >= 0 && offset + 4 <= this.bytes.length)) this.fail(offset, 4);
    return this.view.getUint32(offset, this.littleEndian);
  }

  i32(offset: number): number {
    return this.u32(offset) | 0;
  }

  u64(offset: number): bigint {
    if (!(offset >= 0 && offset + 8 <= this.bytes.length)) this.fail(offset, 8);
    return this.view.getBigUint64(offset, this.littleEndian);
  }

  i64(offset: number): bigint {
    return BigInt.asIntN(64, this.u64(offset));
  }

  /** A word of 4 or 8 bytes, unsigned. */
  word(offset: number, wordBytes: 4 | 8): bigint {
    return wordBytes === 8 ? this.u64(offset) : BigInt(this.u32(offset));
  }

  /** The same as a number; 2^53 where it is that or more. No bigint is made. */
  exact(offset: number, wordBytes: 4 | 8): number {
    if (wordBytes === 4) return this.u32(offset);
    if (!(offset >= 0 && offset + 8 <= this.bytes.length)) this.fail(offset, 8);
    const first = this.view.getUint32(offset, this.littleEndian);
    const second = this.view.getUint32(offset + 4, this.littleEndian);
    const [low, high] = this.littleEndian ? [first, second] : [second, first];
    // Before V8 compiles it, a product is a number on the heap, also that of 0.
    return high === 0 ? low : Math.min(high * 0x1_0000_0000 + low, 2 ** 53);
  }

  /** A copy of `size` bytes. */
  copy(offset: number, size: number): Uint8Array {
    if (!(offset >= 0 && size >= 0 && offset + size <= this.bytes.length)) this.fail(offset, size);
    return this.bytes.slice(offset, offset + size);
  }

  /** A view without copying. */
  slice(offset: number, size: number): Uint8Array {
    if (!(offset >= 0 && size >= 0 && offset + size <= this.bytes.length)) this.fail(offset, size);
    return this.bytes.subarray(offset, offset + size);
  }

  insertU8(offset: number, value: number): void {
    if (!(offset >= 0 && offset < this.bytes.length)) this.fail(offset, 1);
    this.bytes[offset] = value;
  }

  insertU16(offset: number, value: number): void {
    if (!(offset >= 0 && offset + 2 <= this.bytes.length)) this.fail(offset, 2);
    this.view.setUint16(offset, value, this.littleEndian);
  }

  insertU32(offset: number, value: number): void {
    if (!(offset >= 0 && offset + 4 <= this.bytes.length)) this.fail(offset, 4);
    this.view.setUint32(offset, value, this.littleEndian);
  }

  insertU64(offset: number, value: bigint): void {
    if (!(offset >= 0 && offset + 8 <= this.bytes.length)) this.fail(offset, 8);
    this.view.setBigUint64(offset, BigInt.asUintN(64, value), this.littleEndian);
  }

  insertWord(offset: number, value: bigint, wordBytes: 4 | 8): void {
    if (wordBytes === 8) this.insertU64(offset, value);
    else this.insertU32(offset, Number(BigInt.asUintN(32, value)));
  }
}

/**
 * A word of 4 or 8 bytes at the start of `bytes`, unsigned. For arrays that were made to hold one
 * word: a view of such an array first moves it out of the JavaScript heap, which takes longer than
 * all the rest.
 */
export function wordOf(bytes: Uint8Array, endian: Endian, size: 4 | 8): bigint {
  if (bytes.length < size) throw truncated('word', 0, size, bytes.length);
  const half = (at: number): number =>
    endian === 'little'
      ? (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
      : (bytes[at + 3]! | (bytes[at + 2]! << 8) | (bytes[at + 1]! << 16) | (bytes[at]! << 24)) >>> 0;
  if (size === 4) return BigInt(half(0));
  const [low, high] = endian === 'little' ? [half(0), half(4)] : [half(4), half(0)];
  return high === 0 ? BigInt(low) : (BigInt(high) << 32n) | BigInt(low);
}

/** The other way round: the low bits of a value as a word, fresh. */
export function bytesOfWord(value: bigint, endian: Endian, size: 4 | 8): Uint8Array {
  const bytes = new Uint8Array(size);
  for (let i = 0; i < size; i += 4) {
    let rest = Number(BigInt.asUintN(32, i === 0 ? value : value >> 32n));
    for (let k = i; k < i + 4; k++, rest >>>= 8) bytes[endian === 'little' ? k : size - 1 - k] = rest;
  }
  return bytes;
}

/** Bytes that are made one piece after the other, so that there is room for one alone. */
export interface Pieces {
  /** How many bytes that are. */
  readonly size: number;
  /** The pieces in order; each holds until the next one is asked for. */
  pieces(): Iterable<Uint8Array>;
}

/** Bytes that are there, as one piece. */
export function whole(bytes: Uint8Array): Pieces {
  return { size: bytes.length, pieces: () => [bytes] };
}

/** True when both arrays hold the same bytes. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** True when every byte is zero. */
export function isZero(bytes: Uint8Array): boolean {
  const { length } = bytes;
  let at = 0;
  if ((bytes.byteOffset & 3) === 0) {
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, length >> 2);
    for (const word of words) if (word !== 0) return false;
    at = length & ~3;
  }
  for (; at < length; at++) if (bytes[at] !== 0) return false;
  return true;
}

/** True when `bytes` holds `expected` at `offset`; false where it ends earlier. */
export function holdsAt(bytes: Uint8Array, offset: number, expected: Uint8Array): boolean {
  if (offset < 0 || offset + expected.length > bytes.length) return false;
  for (let i = 0; i < expected.length; i++) if (bytes[offset + i] !== expected[i]) return false;
  return true;
}

/** The arrays one after the other, in a fresh array. */
export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  let size = 0;
  for (const part of parts) size += part.length;
  const out = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** A word as bytes in the given order, fresh. */
export function wordBytes(value: number, endian: Endian): Uint8Array {
  const out = new Uint8Array(4);
  new DataView(out.buffer).setUint32(0, value >>> 0, endian === 'little');
  return out;
}

const LINE_FEED = 0x0a;

/**
 * NUL-terminated text at `offset`; stops at `end`. Names are decoded as UTF-8; a byte that is none
 * becomes a lone surrogate (U+DC00 plus the byte), so that different names stay different and
 * output can show the byte. So does a line feed, which is in no name that a compiler makes: it
 * would begin a line of its own.
 */
export function cString(bytes: Uint8Array, offset: number, end: number): string {
  let at = offset;
  let ascii = true;
  while (at < end) {
    const byte = bytes[at]!;
    if (byte === 0) break;
    if (byte >= 0x80 || byte === LINE_FEED) ascii = false;
    at++;
  }
  if (ascii && at - offset < 512) return asciiText(bytes, offset, at);
  return decodeUtf8(bytes.subarray(offset, at));
}

/**
 * ASCII as text, eight characters at a time: each piece that is added to a text of some length is
 * an object of V8's, of more bytes than the piece.
 */
function asciiText(bytes: Uint8Array, start: number, end: number): string {
  const { fromCharCode } = String;
  let text = '';
  let i = start;
  for (; i + 8 <= end; i += 8) {
    text += fromCharCode(
      bytes[i]!,
      bytes[i + 1]!,
      bytes[i + 2]!,
      bytes[i + 3]!,
      bytes[i + 4]!,
      bytes[i + 5]!,
      bytes[i + 6]!,
      bytes[i + 7]!,
    );
  }
  if (i + 4 <= end) {
    text += fromCharCode(bytes[i]!, bytes[i + 1]!, bytes[i + 2]!, bytes[i + 3]!);
    i += 4;
  }
  for (; i < end; i++) text += fromCharCode(bytes[i]!);
  return text;
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Text of names and arguments of Linux, which are bytes, whatever they are: as `cString`, but that
 * a line feed is one.
 */
export function textOf(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return decodeUtf8(bytes, null);
  }
}

/** False of text with bytes that are no UTF-8, and of some without. */
export const isUtf8 = (text: string): boolean => !/[\udc00-\udcff]/.test(text);

/**
 * The bytes of a name that `cString` or `textOf` decoded, without a NUL behind them: those that it
 * came from.
 */
export function nameBytes(name: string): Uint8Array {
  const encoder = new TextEncoder();
  if (isUtf8(name)) return encoder.encode(name);
  const parts = name.split(/(\p{Surrogate})/u).filter((part) => part !== '');
  return concatBytes(
    parts.map((part) => {
      const code = part.charCodeAt(0);
      return part.length === 1 && code >= 0xdc00 && code <= 0xdcff
        ? Uint8Array.of(code - 0xdc00)
        : encoder.encode(part);
    }),
  );
}

/** Bytes of the UTF-8 sequence that begins at `at`; 0 when none does. */
function sequenceBytes(bytes: Uint8Array, at: number): number {
  const first = bytes[at]!;
  const size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size < 2) return size;
  const second = bytes[at + 1] ?? 0;
  // Overlong forms, surrogates, and what is above U+10FFFF.
  const low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < low || second > high) return 0;
  for (let i = 2; i < size; i++) {
    if (((bytes[at + i] ?? 0) & 0xc0) !== 0x80) return 0;
  }
  return size;
}

/** @param foreign  a byte that is taken for none of a text */
function decodeUtf8(bytes: Uint8Array, foreign: number | null = LINE_FEED): string {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let text = '';
  let from = 0;
  for (let at = 0; at < bytes.length;) {
    const size = bytes[at] === foreign ? 0 : sequenceBytes(bytes, at);
    if (size > 0) {
      at += size;
      continue;
    }
    text += decoder.decode(bytes.subarray(from, at)) + String.fromCharCode(0xdc00 + bytes[at]!);
    from = ++at;
  }
  return text + decoder.decode(bytes.subarray(from));
}
