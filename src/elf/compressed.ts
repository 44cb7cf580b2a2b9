/**
 * Compressed inputs (`.ko.gz`, `.ko.xz`, `.ko.zst`): recognised by their magic and unpacked, within
 * limits against bombs, as a whole or piece by piece. Packing again is the command line's business.
 * gzip through the platform's DecompressionStream, xz through `xz-decompress` (xz-embedded as
 * wasm), zstd through `fzstd`; the packages are loaded when they are needed.
 *
 * What is unpacked as a whole is never in memory twice: the pieces go into one array that has the
 * size which the data promise. Where they promise none, or not the truth, they are unpacked twice,
 * and the first time only counted.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError, malformed, truncated } from '../errors.js';
import { Deadline, defaultLimits, limitExceeded } from '../limits/index.js';
import { Xxh64, xxh64Low } from './xxhash.js';

export type CompressedForm = 'none' | 'gzip' | 'xz' | 'zstd';

export interface Unpacked {
  readonly form: CompressedForm;
  /** The input itself when it was not compressed. */
  readonly bytes: Uint8Array;
}

/** How far unpacking may go. */
export interface UnpackLimits {
  /** Bytes that may come out of it as a whole. */
  readonly unpacked?: number;
  /** Times that it may grow, once more than `RATIO_FLOOR` bytes came out. */
  readonly ratio?: number;
  readonly deadline?: Deadline;
}

/** Data that stay below this size are no bomb, however small they were. */
const RATIO_FLOOR = 2 ** 24;
/** Bytes that a decompressor is given at once. */
const INPUT_PIECE = 1 << 16;
/** Most that a compressed block of zstd stands for. */
const ZSTD_BLOCK = 1 << 17;
/** Bytes that fzstd is given at once: a block is three and more, and gives at most 128 KiB. */
const ZSTD_PIECE = 256;
/** What zstd itself accepts without being asked (`--long` beyond it). */
const ZSTD_MAX_WINDOW = 1 << 27;

/** The form that the first bytes show. */
export function compressedForm(bytes: Uint8Array): CompressedForm {
  const magic = (...wanted: readonly number[]): boolean => wanted.every((byte, i) => bytes[i] === byte);
  if (magic(0x1f, 0x8b)) return 'gzip';
  if (magic(0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00)) return 'xz';
  if (magic(0x28, 0xb5, 0x2f, 0xfd)) return 'zstd';
  return 'none';
}

/**
 * Unpacks one layer of compression; bytes that are not compressed come back as they are. In memory
 * there is at any time little more than what comes out: an xz dictionary, or the window of zstd
 * frames that do not say their size.
 * @throws ElftraceError 'elf-truncated' where the data end early, 'elf-malformed' where they are
 *   damaged (the package's own error
 *         is the cause), 'limit-exceeded' where they are larger than is allowed, 'timeout'
 */
export async function unpack(bytes: Uint8Array, limits: UnpackLimits = {}): Promise<Unpacked> {
  const form = compressedForm(bytes);
  if (form === 'none') return { form, bytes };
  const meter = new Meter(form, bytes.length, limits.unpacked ?? defaultLimits.unpacked, limits);
  if (form === 'zstd') {
    const unpacked = await unpackZstd(bytes, zstdFrames(bytes), meter);
    if (unpacked !== null) return { form, bytes: unpacked };
  }
  return { form, bytes: await collect(() => pieces(bytes, form, meter), promisedSize(bytes, form, meter), meter) };
}

/**
 * The same piece by piece, with no limit to the whole: of archives whose members are looked at one
 * after another. Pieces belong to the caller. What was given out is proved right
 * (checksums, sizes) only when the last piece has come.
 * @param bytes  compressed data
 * @throws ElftraceError as `unpack`, from taking the next piece
 */
export async function* unpackPieces(bytes: Uint8Array, limits: UnpackLimits = {}): AsyncGenerator<Uint8Array> {
  const form = compressedForm(bytes);
  if (form === 'none') {
    yield bytes;
    return;
  }
  const meter = new Meter(form, bytes.length, limits.unpacked ?? Infinity, limits);
  for await (const piece of pieces(bytes, form, meter)) {
    meter.add(piece.length);
    yield piece;
  }
}

function pieces(bytes: Uint8Array, form: Exclude<CompressedForm, 'none'>, meter: Meter): AsyncGenerator<Uint8Array> {
  switch (form) {
    case 'gzip':
      return gzipPieces(bytes, meter.what);
    case 'xz':
      return xzPieces(bytes, meter);
    case 'zstd':
      return zstdPieces(bytes, meter);
    default:
      return form satisfies never;
  }
}

/**
 * Size that compressed data state, where they are one stream, member or frame; null where they are
 * not, state none, or more than is allowed. It is a promise: the data were not looked into.
 */
export function statedSize(bytes: Uint8Array, limits: UnpackLimits): number | null {
  const form = compressedForm(bytes);
  if (form === 'none') return null;
  const meter = new Meter(form, bytes.length, limits.unpacked ?? defaultLimits.unpacked, limits);
  try {
    const size = sizeOfOne(bytes, form, meter);
    if (size !== null) meter.fits(size);
    return size;
  } catch (error) {
    if (error instanceof ElftraceError) return null;
    throw error;
  }
}

function sizeOfOne(bytes: Uint8Array, form: CompressedForm, meter: Meter): number | null {
  if (form === 'gzip') return promisedSize(bytes, form, meter) || null;
  if (form === 'xz') {
    const [stream, ...others] = xzStreams(bytes);
    // More than one filter (block flags, 3.1.2): other programs read some that are not read here.
    if ((bytes[13]! & 3) !== 0) return null;
    return others.length === 0 && stream?.end === bytes.length ? stream.unpackedSize : null;
  }
  const [frame, ...others] = zstdFrames(bytes);
  const content = frame?.content ?? null;
  return others.length === 0 && content !== null ? Number(content) : null;
}

/** What came out so far, against the limits. */
class Meter {
  readonly what: string;
  readonly #most: number;
  readonly #deadline: Deadline;
  #size = 0;

  constructor(
    form: string,
    packedBytes: number,
    readonly unpacked: number,
    limits: UnpackLimits,
  ) {
    this.what = `${form} data`;
    this.ratio = limits.ratio ?? defaultLimits.ratio;
    this.#most = Math.max(RATIO_FLOOR, this.ratio * packedBytes);
    this.#deadline = limits.deadline ?? Deadline.never;
  }

  readonly ratio: number;

  /** From the beginning once more. */
  restart(): this {
    this.#size = 0;
    return this;
  }

  /** Bytes come out, or are promised. */
  add(bytes: number): void {
    this.#size += bytes;
    this.fits(this.#size);
    this.#deadline.check(this.what);
  }

  /** Whether so many bytes are not too many. */
  allows(bytes: number): boolean {
    return bytes <= this.unpacked && bytes <= this.#most;
  }

  /** @throws ElftraceError 'limit-exceeded' when so many bytes are too many */
  fits(bytes: number): void {
    if (bytes > this.unpacked) throw limitExceeded('unpacked', this.what, this.unpacked, { value: bytes });
    if (bytes > this.#most) throw limitExceeded('ratio', this.what, this.ratio, { value: bytes });
  }
}

/**
 * Size that gzip and xz data state; 0: none that could be true. It is a guess until everything has
 * come out.
 */
function promisedSize(bytes: Uint8Array, form: CompressedForm, meter: Meter): number {
  if (form === 'xz') {
    const size = xzStreams(bytes).reduce((sum, { unpackedSize }) => sum + unpackedSize, 0);
    meter.fits(size);
    return size;
  }
  if (form !== 'gzip' || bytes.length < 18) return 0;
  // ISIZE of the last member, RFC 1952 2.3.1. Deflate makes at most 1,032 bytes of one.
  const size = new ByteView(bytes, 'little', meter.what).u32(bytes.length - 4);
  return size <= Math.min(meter.unpacked, 1032 * bytes.length) && !mayHaveMembers(bytes) ? size : 0;
}

/**
 * Whether a second gzip member may begin somewhere: if not, the last ISIZE is that of the whole.
 * Compressed data look so now and then.
 */
function mayHaveMembers(bytes: Uint8Array): boolean {
  for (let at = bytes.indexOf(0x1f, 1); at >= 0; at = bytes.indexOf(0x1f, at + 1)) {
    if (bytes[at + 1] === 0x8b && bytes[at + 2] === 8 && bytes[at + 3]! < 0x20) return true;
  }
  return false;
}

/** All pieces in one array. `guess`: size that they will probably have. */
async function collect(again: () => AsyncGenerator<Uint8Array>, guess: number, meter: Meter): Promise<Uint8Array> {
  const fill = async (out: Uint8Array): Promise<number> => {
    meter.restart();
    let at = 0;
    for await (const piece of again()) {
      meter.add(piece.length);
      if (at + piece.length <= out.length) out.set(piece, at);
      at += piece.length;
    }
    return at;
  };
  let out = new Uint8Array(guess);
  const size = await fill(out);
  if (size === out.length) return out;
  out = new Uint8Array(size);
  await fill(out);
  return out;
}

/** What a decompressor threw, as an error of ours. */
function damaged(what: string, cause: unknown, size: number): ElftraceError {
  if (cause instanceof ElftraceError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  if (/unexpected (end|eof)/i.test(message)) {
    return new ElftraceError('elf-truncated', `${what}: ${message}`, { what, max: size }, { cause });
  }
  // xz-embedded's enum xz_ret: 6 is XZ_OPTIONS_ERROR; the package is built without the branch
  // filters (`xz --x86`).
  if (/error code 6\b/.test(message)) {
    return new ElftraceError(
      'unsupported-form',
      `${what}: made with a filter or check that is not supported here (unpack it with xz)`,
      { what },
      { cause },
    );
  }
  return new ElftraceError('elf-malformed', `${what}: ${message}`, { what, max: size }, { cause });
}

async function* gzipPieces(bytes: Uint8Array, what: string): AsyncGenerator<Uint8Array> {
  const stream = new DecompressionStream('gzip');
  const writer = stream.writable.getWriter();
  const write = async (): Promise<void> => {
    for (let at = 0; at < bytes.length; at += INPUT_PIECE) {
      await writer.ready;
      await writer.write(bytes.subarray(at, at + INPUT_PIECE));
    }
    await writer.close();
  };
  // Rejections of the writing side come out of the reading side too; only one of them is to be
  // reported.
  const written = write().catch(() => undefined);
  const reader = stream.readable.getReader();
  try {
    for (;;) {
      const part = await reader.read();
      if (part.done) break;
      yield part.value;
    }
    await written;
  } catch (error) {
    throw damaged(what, error, bytes.length);
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** One stream of an .xz file, and what its index promises. */
interface XzStream {
  readonly start: number;
  readonly end: number;
  readonly unpackedSize: number;
}

/**
 * The streams of an .xz file, found from the end: footer, index, blocks (The .xz File Format 1.2.0,
 * 2.1.2 and 4). The package reads one stream only, and asks for input for ever where one has no
 * end.
 */
function xzStreams(bytes: Uint8Array): readonly XzStream[] {
  const what = 'xz data';
  const streams: XzStream[] = [];
  let end = bytes.length;
  while (end > 0) {
    // Stream padding: zeros, four at a time.
    while (end >= 4 && bytes.subarray(end - 4, end).every((byte) => byte === 0)) end -= 4;
    if (end < 32 || bytes[end - 2] !== 0x59 || bytes[end - 1] !== 0x5a) {
      throw new ElftraceError('elf-truncated', `${what}: the stream footer is missing`, { what, max: bytes.length });
    }
    const indexBytes = (new ByteView(bytes, 'little', what).u32(end - 8) + 1) * 4;
    const indexAt = end - 12 - indexBytes;
    if (indexAt < 12 || bytes[indexAt] !== 0) throw malformed(`${what}: index`, 'is not where the footer says');
    let at = indexAt + 1;
    /** Seven bits a byte, lowest first. */
    const number = (): number => {
      let value = 0;
      for (let scale = 1; ; scale *= 128) {
        const byte = bytes[at++]!;
        value += (byte & 0x7f) * scale;
        if (byte < 0x80) break;
        if (at >= end || scale > 2 ** 42) throw malformed(`${what}: index`, 'holds a number without an end');
      }
      return value;
    };
    let packed = 0;
    let unpacked = 0;
    for (let records = number(); records > 0; records--) {
      if (at >= end) throw malformed(`${what}: index`, 'has fewer records than it says');
      packed += Math.ceil(number() / 4) * 4;
      unpacked += number();
    }
    const start = indexAt - packed - 12;
    if (start < 0 || compressedForm(bytes.subarray(start, start + 6)) !== 'xz') {
      throw malformed(`${what}: index`, 'does not fit the blocks in front of it');
    }
    streams.unshift({ start, end, unpackedSize: unpacked });
    end = start;
  }
  return streams;
}

async function* xzPieces(bytes: Uint8Array, { what }: Meter): AsyncGenerator<Uint8Array> {
  const streams = xzStreams(bytes);
  const { XzReadableStream } = (await import('xz-decompress')).default;
  const { sha256Pieces } = await import('../sha256.js');
  const { withoutSums } = await import('./xz-filters.js');
  for (const { start, end, unpackedSize } of streams) {
    const own = bytes.subarray(start, end);
    const summed = withoutSums(own);
    let sent = false;
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent) controller.close();
        else controller.enqueue(summed?.bytes ?? own);
        sent = true;
      },
    });
    const reader = new XzReadableStream(source).getReader();
    let idle = 0;
    let size = 0;
    try {
      for (;;) {
        const part = await reader.read();
        if (part.done) break;
        // It gives out an empty chunk for each piece of input: damaged data may make it starve
        // without end.
        idle = part.value.length === 0 ? idle + 1 : 0;
        if (idle > 2 + bytes.length / 1024) throw truncated(what, bytes.length, 1, bytes.length);
        size += part.value.length;
        summed?.add(part.value, sha256Pieces);
        if (part.value.length > 0) yield part.value;
      }
    } catch (error) {
      throw damaged(what, error, bytes.length);
    } finally {
      await reader.cancel().catch(() => undefined);
    }
    if (size !== unpackedSize) throw malformed(what, `${size} bytes came out, the index says ${unpackedSize}`);
  }
}

/** A zstd frame whose blocks were walked, RFC 8878 3.1.1. */
interface ZstdFrame {
  readonly start: number;
  readonly end: number;
  readonly skippable: boolean;
  readonly window: number;
  /** Frame_Content_Size, null where the header has none. */
  readonly content: bigint | null;
  /** Most that the blocks can unpack to. */
  readonly most: number;
  readonly checksum: number | null;
  /** Of the frame's bytes: its last block, and the end of that. */
  readonly last: number;
  readonly dataEnd: number;
}

function zstdFrame(bytes: Uint8Array, start: number): ZstdFrame {
  const what = 'zstd data';
  const view = new ByteView(bytes, 'little', what);
  const magic = view.u32(start);
  if (magic >= 0x184d_2a50 && magic <= 0x184d_2a5f) {
    const end = start + 8 + view.u32(start + 4);
    if (end > bytes.length) throw truncated(what, start, end - start, bytes.length);
    return { start, end, skippable: true, window: 0, content: 0n, most: 0, checksum: null, last: 0, dataEnd: 0 };
  }
  if (magic !== 0xfd2f_b528) throw malformed(what, 'a frame does not begin with its magic', { fileOffset: start });
  const descriptor = view.u8(start + 4);
  const singleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3]!;
  const sizeFlag = descriptor >>> 6;
  const sizeBytes = sizeFlag === 0 ? (singleSegment ? 1 : 0) : 1 << sizeFlag;
  let at = start + 5 + (singleSegment ? 0 : 1) + dictionaryBytes;
  let content: bigint | null = null;
  if (sizeBytes > 0) {
    content = sizeBytes === 2 ? 256n : 0n;
    for (let i = 0; i < sizeBytes; i++) content += BigInt(view.u8(at + i)) << BigInt(8 * i);
  }
  at += sizeBytes;
  let window = Number(content);
  if (!singleSegment) {
    const exponent = view.u8(start + 5);
    const base = 2 ** (10 + (exponent >>> 3));
    window = base + (base / 8) * (exponent & 7);
  }
  let most = 0;
  let last = at;
  for (;;) {
    last = at;
    if (at + 3 > bytes.length) throw truncated(what, at, 3, bytes.length);
    const header = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16);
    const type = (header >>> 1) & 3;
    const size = header >>> 3;
    if (type === 3) throw malformed(what, 'a block has the reserved type 3', { fileOffset: at });
    at += 3 + (type === 1 ? 1 : size);
    if (at > bytes.length) throw truncated(what, at - size, size, bytes.length);
    most += type === 2 ? ZSTD_BLOCK : size;
    if ((header & 1) !== 0) break;
  }
  const dataEnd = at;
  let checksum: number | null = null;
  if ((descriptor & 4) !== 0) {
    if (at + 4 > bytes.length) throw truncated(what, at, 4, bytes.length);
    checksum = view.u32(at);
    at += 4;
  }
  const own = { last: last - start, dataEnd: dataEnd - start };
  return { start, end: at, skippable: false, window, content, most, checksum, ...own };
}

/**
 * The frames that hold something, in order, so far as their headers and the sizes of their blocks
 * can be true.
 */
function zstdFrames(bytes: Uint8Array): readonly ZstdFrame[] {
  const what = 'zstd data';
  const frames: ZstdFrame[] = [];
  for (let at = 0; at < bytes.length;) {
    const frame = zstdFrame(bytes, at);
    if (frame.content !== null && frame.content > BigInt(frame.most)) {
      throw malformed(what, `blocks for ${frame.most} bytes cannot unpack to ${frame.content}`, {
        value: frame.content,
      });
    }
    if (!frame.skippable) frames.push(frame);
    at = frame.end;
  }
  return frames;
}

/**
 * fzstd compares the array that it shall fill with a number, which would print all its bytes first.
 */
function comparable(bytes: Uint8Array): Uint8Array {
  return Object.defineProperty(bytes, Symbol.toPrimitive, { value: () => NaN });
}

/**
 * A frame that does not say its size, with one block more, which is empty: where it goes is where
 * the content ends.
 */
function withEmptyBlock(packed: Uint8Array, { last, dataEnd }: ZstdFrame): Uint8Array {
  const out = new Uint8Array(dataEnd + EMPTY_BLOCK.length);
  out.set(packed.subarray(0, dataEnd));
  out[last]! &= ~1;
  out.set(EMPTY_BLOCK, dataEnd);
  return out;
}

/** Block_Header of a raw block without bytes that is the last one, RFC 8878 3.1.1.2. */
const EMPTY_BLOCK = [1, 0, 0];

/**
 * Unpacks a frame that does not say its size to where it will stay.
 * @returns  its size; null: the package did not tell
 */
function unpackUnsized(
  decompress: (packed: Uint8Array, part: Uint8Array) => unknown,
  packed: Uint8Array,
  frame: ZstdFrame,
  room: Uint8Array,
): number | null {
  let size: number | null = null;
  const set = (source: ArrayLike<number>, at?: number): void => {
    if (source.length === 0) size = at ?? 0;
    Uint8Array.prototype.set.call(room, source, at);
  };
  decompress(withEmptyBlock(packed, frame), Object.defineProperty(comparable(room), 'set', { value: set }));
  return size;
}

/**
 * Each frame is unpacked where it will stay, and what is there is its window: piece by piece the
 * package moves a whole window for each block, 128 MiB for 128 KiB in a kernel. Of frames that do
 * not state their size there is room for the most that their blocks can give.
 * @returns  null: so much is not allowed, but what comes out may be less
 */
async function unpackZstd(bytes: Uint8Array, frames: readonly ZstdFrame[], meter: Meter): Promise<Uint8Array | null> {
  const { what } = meter;
  const roomOf = ({ content, most }: ZstdFrame): number => (content === null ? most : Number(content));
  const isSized = frames.every(({ content }) => content !== null);
  const whole = frames.reduce((sum, frame) => sum + roomOf(frame), 0);
  if (!isSized && !meter.allows(whole)) return null;
  // Promises are checked before anything is allocated for them.
  for (const frame of frames) meter.add(roomOf(frame));
  const { decompress } = await import('fzstd');
  const out = new Uint8Array(whole);
  let at = 0;
  try {
    for (const frame of frames) {
      const { start, end, content, checksum, window } = frame;
      const packed = bytes.subarray(start, end);
      if (content === null) {
        checkWindow(what, window);
        const size = unpackUnsized(decompress, packed, frame, out.subarray(at, at + frame.most));
        if (size === null) return null;
        if (checksum !== null && xxh64Low(out.subarray(at, at + size)) !== checksum)
          throw malformed(what, 'the checksum is wrong');
        at += size;
        meter.restart().add(at);
        continue;
      }
      const part = comparable(out.subarray(at, at + Number(content)));
      at += part.length;
      if (part.length === 0) continue;
      decompress(packed, part);
      meter.restart().add(at);
      if (checksum !== null) {
        if (xxh64Low(part) !== checksum) throw malformed(what, 'the checksum is wrong');
        continue;
      }
      // The package does not say how much came out. What was reached has its value whatever stood
      // there.
      const last = part.length - 1;
      const value = part[last]!;
      part[last] = ~value;
      decompress(packed, part);
      if (part[last] !== value) throw malformed(what, `fewer bytes come out than the header says, ${content}`);
    }
  } catch (error) {
    throw damaged(what, error, bytes.length);
  }
  // Room that was not needed is rarely more than a block.
  return out.length - at <= at / 8 ? out.subarray(0, at) : out.slice(0, at);
}

function checkWindow(what: string, window: number): void {
  if (window > ZSTD_MAX_WINDOW) {
    throw malformed(what, `a window of ${window} bytes`, { value: window, max: ZSTD_MAX_WINDOW });
  }
}

async function* zstdPieces(bytes: Uint8Array, { what }: Meter): AsyncGenerator<Uint8Array> {
  const { Decompress } = await import('fzstd');
  for (const { start, end, content, checksum, window } of zstdFrames(bytes)) {
    checkWindow(what, window);
    const packed = bytes.subarray(start, end);
    const hash = checksum === null ? null : new Xxh64();
    let size = 0n;
    let ready: Uint8Array[] = [];
    const stream = new Decompress((chunk) => ready.push(chunk.slice()));
    // A piece of input is at most some hundred blocks, and mostly one: what waits is small.
    for (let at = 0; at < packed.length; at += ZSTD_PIECE) {
      try {
        stream.push(packed.subarray(at, at + ZSTD_PIECE), at + ZSTD_PIECE >= packed.length);
      } catch (error) {
        throw damaged(what, error, bytes.length);
      }
      const now = ready;
      ready = [];
      for (const piece of now) {
        size += BigInt(piece.length);
        hash?.update(piece);
        yield piece;
      }
    }
    // fzstd checks neither.
    if (content !== null && size !== content) {
      throw malformed(what, `${size} bytes came out, the header says ${content}`);
    }
    if (hash !== null && hash.low() !== checksum) throw malformed(what, 'the checksum is wrong');
  }
}
