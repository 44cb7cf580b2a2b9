/**
 * What the package that unpacks xz was built without: branch filters (`xz --x86`, `--powerpc`),
 * which kernels are packed with, and SHA-256 as the check, which rpm asks for. The stream is
 * written anew without its filter and without its check; what comes out of that is filtered back,
 * and the check is made here. The .xz File Format 1.2.0; what the filters do is defined by the
 * public domain code of xz-embedded.
 */
import { ByteView } from '../bytes.js';
import type { Sha256Pieces } from '../sha256.js';
import { ElftraceError, hexBytes, malformed, truncated } from '../errors.js';

const WHAT = 'xz data';
const LZMA2 = 0x21;
const CHECK_NONE = 0;
const CHECK_CRC32 = 1;
const CHECK_SHA256 = 10;
const SHA256_BYTES = 32;

/** A block of the original, as it comes out of the stream without filters. */
interface FilteredBlock {
  readonly unpackedBytes: number;
  readonly crc32: number | null;
}

export interface WithoutFilter {
  /** An .xz stream with LZMA2 alone. */
  readonly bytes: Uint8Array;
  /**
   * Filters, in place, what was unpacked of it. @throws ElftraceError 'elf-malformed' where a check
   * is wrong
   */
  restore(unpacked: Uint8Array): void;
}

let crcTable: Uint32Array | null = null;

/** CRC-32 of ISO 3309. */
function crc32(bytes: Uint8Array): number {
  crcTable ??= Uint32Array.from({ length: 256 }, (_, index) => {
    let value = index;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb8_8320 : 0);
    return value;
  });
  let crc = 0xffff_ffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ crcTable[(crc ^ byte) & 0xff]!;
  return (crc ^ 0xffff_ffff) >>> 0;
}

/** Numbers of seven bits a byte, lowest first; 63 bits in the format, 53 here. */
class Numbers {
  constructor(
    readonly bytes: Uint8Array,
    public at: number,
    readonly end: number,
  ) {}

  next(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      if (byte === undefined || this.at > this.end || scale > 2 ** 42) throw malformed(WHAT, 'a number has no end');
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }
}

function numberBytes(value: number): number[] {
  const out: number[] = [];
  for (; value >= 0x80; value = Math.floor(value / 128)) out.push((value % 128) | 0x80);
  return [...out, value];
}

const word = (value: number): number[] => [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24];

/** Header of a block, as far as it is used; null: not of the form [branch filter, LZMA2]. */
function blockHeader(bytes: Uint8Array, at: number): { size: number; filter: number; dictionary: number } | null {
  const size = (bytes[at]! + 1) * 4;
  const flags = bytes[at + 1]!;
  if ((flags & 3) !== 1) return null;
  const numbers = new Numbers(bytes, at + 2, at + size - 4);
  if (flags & 0x40) numbers.next();
  if (flags & 0x80) numbers.next();
  const filter = numbers.next();
  const properties = numbers.next();
  numbers.at += properties;
  // A start offset is of no use in files, and no program writes one by itself.
  if (properties !== 0 || numbers.next() !== LZMA2 || numbers.next() !== 1) return null;
  return { size, filter, dictionary: bytes[numbers.at]! };
}

/** Records of the index: sizes of the blocks. */
function indexRecords(bytes: Uint8Array): readonly { unpadded: number; unpacked: number }[] {
  const view = new ByteView(bytes, 'little', WHAT);
  if (bytes.length < 32 || bytes[bytes.length - 2] !== 0x59 || bytes[bytes.length - 1] !== 0x5a) {
    throw new ElftraceError('elf-truncated', `${WHAT}: the stream footer is missing`, { max: bytes.length });
  }
  const index = bytes.length - 12 - (view.u32(bytes.length - 8) + 1) * 4;
  if (index < 12 || bytes[index] !== 0) throw malformed(`${WHAT}: index`, 'is not where the footer says');
  const numbers = new Numbers(bytes, index + 1, bytes.length - 12);
  const records = [];
  let end = 12;
  for (let count = numbers.next(); count > 0; count--) {
    const record = { unpadded: numbers.next(), unpacked: numbers.next() };
    records.push(record);
    end += Math.ceil(record.unpadded / 4) * 4;
    if (end > index) throw malformed(`${WHAT}: index`, 'does not fit the blocks in front of it');
  }
  return records;
}

type Filter = (bytes: Uint8Array) => void;
const filters: ReadonlyMap<number, Filter> = new Map([
  [4, restoreX86],
  [5, restorePowerPc],
]);

/**
 * The stream without its branch filter; null when the bytes are no single .xz stream whose first
 * block has a known one.
 * @throws ElftraceError 'elf-truncated', 'elf-malformed', 'unsupported-form' (a check other than
 *   CRC32)
 */
export function withoutBranchFilter(bytes: Uint8Array): WithoutFilter | null {
  if (bytes.length < 32 || bytes[0] !== 0xfd || bytes[1] !== 0x37 || bytes[12] === 0) return null;
  const first = blockHeader(bytes, 12);
  const restore = first === null ? undefined : filters.get(first.filter);
  if (first === null || restore === undefined) return null;
  const check = bytes[7]! & 15;
  if (check !== CHECK_NONE && check !== CHECK_CRC32) {
    throw new ElftraceError('unsupported-form', `${WHAT}: a branch filter with check ${check}: only CRC32 is read`, {
      what: WHAT,
      value: check,
      reason: 'xz-check',
    });
  }
  const checkBytes = check === CHECK_CRC32 ? 4 : 0;
  const view = new ByteView(bytes, 'little', WHAT);
  const blocks: FilteredBlock[] = [];
  const parts: Uint8Array[] = [streamHeader()];
  const index: number[] = [];
  let at = 12;
  for (const { unpadded, unpacked } of indexRecords(bytes)) {
    const header = blockHeader(bytes, at);
    if (header?.filter !== first.filter) throw malformed(WHAT, 'its blocks have different filters', { fileOffset: at });
    const data = bytes.subarray(at + header.size, at + unpadded - checkBytes);
    const own = withCrc([2, 0, LZMA2, 1, header.dictionary, 0, 0, 0]);
    parts.push(own, data, new Uint8Array(-(own.length + data.length) & 3));
    index.push(...numberBytes(own.length + data.length), ...numberBytes(unpacked));
    at += Math.ceil(unpadded / 4) * 4;
    blocks.push({ unpackedBytes: unpacked, crc32: checkBytes === 0 ? null : view.u32(at - checkBytes) });
  }
  return {
    bytes: joined([...parts, ...streamEnd(blocks.length, index)]),
    restore(unpacked) {
      restoreBlocks(unpacked, blocks, restore);
    },
  };
}

/** Index and footer of a stream. @param index  numbers of its records */
function streamEnd(count: number, index: readonly number[]): readonly Uint8Array[] {
  const records = [0, ...numberBytes(count), ...index];
  while (records.length % 4 !== 0) records.push(0);
  const written = withCrc(records);
  return [written, streamFooter(written.length)];
}

/** A stream without its SHA-256 sums, and what is checked of what comes out. */
export interface WithoutSums {
  readonly bytes: Uint8Array;
  /**
   * The next piece that came out of it.
   * @throws ElftraceError 'elf-malformed' where the sum of a block is wrong
   */
  add(piece: Uint8Array, begin: () => Sha256Pieces): void;
}

/** null: the stream has another check. @throws ElftraceError 'elf-truncated', 'elf-malformed' */
export function withoutSums(bytes: Uint8Array): WithoutSums | null {
  if ((bytes[7]! & 15) !== CHECK_SHA256) return null;
  const parts: Uint8Array[] = [streamHeader()];
  const index: number[] = [];
  const blocks: { readonly unpacked: number; readonly sum: string }[] = [];
  let at = 12;
  for (const { unpadded, unpacked } of indexRecords(bytes)) {
    const size = unpadded - SHA256_BYTES;
    if (size <= 0) throw malformed(`${WHAT}: index`, 'has a block that is shorter than its check');
    const padded = Math.ceil(size / 4) * 4;
    parts.push(bytes.subarray(at, at + padded));
    index.push(...numberBytes(size), ...numberBytes(unpacked));
    at += padded;
    blocks.push({ unpacked, sum: hexBytes(bytes.subarray(at, at + SHA256_BYTES)).replaceAll(' ', '') });
    at += SHA256_BYTES;
  }
  let sums: Sha256Pieces | null = null;
  let left = blocks[0]?.unpacked ?? 0;
  let block = 0;
  return {
    bytes: joined([...parts, ...streamEnd(blocks.length, index)]),
    add(piece, begin) {
      for (let from = 0; from < piece.length;) {
        const part = piece.subarray(from, from + left);
        (sums ??= begin()).add(part);
        from += part.length;
        left -= part.length;
        if (left > 0) continue;
        if (sums.end() !== blocks[block]!.sum) throw malformed(WHAT, 'the checksum is wrong');
        sums = null;
        // What comes out behind the last block is an error of its own.
        left = blocks[++block]?.unpacked ?? Infinity;
      }
    },
  };
}

function restoreBlocks(unpacked: Uint8Array, blocks: readonly FilteredBlock[], restore: Filter): void {
  let start = 0;
  for (const block of blocks) {
    const out = unpacked.subarray(start, start + block.unpackedBytes);
    if (out.length < block.unpackedBytes) throw truncated(WHAT, start, block.unpackedBytes, unpacked.length);
    restore(out);
    if (block.crc32 !== null && crc32(out) !== block.crc32) throw malformed(WHAT, 'the checksum is wrong');
    start += block.unpackedBytes;
  }
}

const withCrc = (bytes: readonly number[]): Uint8Array =>
  Uint8Array.from([...bytes, ...word(crc32(Uint8Array.from(bytes)))]);

const streamHeader = (): Uint8Array =>
  joined([Uint8Array.of(0xfd, 0x37, 0x7a, 0x58, 0x5a, 0), withCrc([0, CHECK_NONE])]);

function streamFooter(indexBytes: number): Uint8Array {
  const fields = [...word(indexBytes / 4 - 1), 0, CHECK_NONE];
  return Uint8Array.from([...word(crc32(Uint8Array.from(fields))), ...fields, 0x59, 0x5a]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** `bl` with a relative target, big-endian: the filter made it absolute. */
function restorePowerPc(bytes: Uint8Array): void {
  for (let at = 0; at + 4 <= bytes.length; at += 4) {
    if ((bytes[at]! & 0xfc) !== 0x48 || (bytes[at + 3]! & 3) !== 1) continue;
    const code = ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
    const relative = (((code & 0x03ff_fffc) - at) & 0x03ff_fffc) | 0x4800_0001;
    bytes.set(word(relative).reverse(), at);
  }
}

/** The highest byte of a displacement that a call or jump of 16 MiB either way has. */
const isHighByte = (byte: number): boolean => byte === 0 || byte === 0xff;
/**
 * By the opcodes in the four bytes in front (one bit each, the nearest lowest): whether a target
 * may be here, and which byte of it tells.
 */
const MAY_FOLLOW = [true, true, true, false, true, false, false, false];
const TELLING_BYTE = [0, 1, 2, 2, 3, 3, 3, 3];

/** `call` and `jmp` (e8, e9) with 32-bit targets: the filter made them absolute. */
function restoreX86(bytes: Uint8Array): void {
  let before = 0;
  let last = -1;
  for (let at = 0; at < bytes.length - 4; at++) {
    if ((bytes[at]! & 0xfe) !== 0xe8) continue;
    const distance = at - last;
    last = at;
    if (distance > 3) before = 0;
    else {
      before = (before << (distance - 1)) & 7;
      if (before !== 0 && (!MAY_FOLLOW[before] || isHighByte(bytes[at + 4 - TELLING_BYTE[before]!]!))) {
        before = (before << 1) | 1;
        continue;
      }
    }
    if (!isHighByte(bytes[at + 4]!)) {
      before = (before << 1) | 1;
      continue;
    }
    const stored = bytes[at + 1]! | (bytes[at + 2]! << 8) | (bytes[at + 3]! << 16) | (bytes[at + 4]! << 24);
    const target = relativeTarget(stored, at + 5, before);
    bytes.set(word((target << 7) >> 7), at + 1);
    at += 4;
  }
}

function relativeTarget(stored: number, next: number, before: number): number {
  for (let value = stored; ;) {
    const relative = (value - next) | 0;
    if (before === 0) return relative;
    const bits = TELLING_BYTE[before]! * 8;
    if (!isHighByte((relative >>> (24 - bits)) & 0xff)) return relative;
    value = relative ^ (2 ** (32 - bits) - 1);
  }
}
