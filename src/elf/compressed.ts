/**
 * Compressed inputs (`.ko.gz`, `.ko.xz`, `.ko.zst`): recognised by their magic and unpacked into memory, with a limit
 * against bombs. Packing again is the command line's business. gzip through the platform's DecompressionStream, xz
 * through `xz-decompress` (xz-embedded as wasm), zstd through `fzstd`; the packages are loaded when they are needed.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError, malformed, truncated } from '../errors.js';
import { xxh64Low } from './xxhash.js';

export type CompressedForm = 'none' | 'gzip' | 'xz' | 'zstd';

export interface Unpacked {
  readonly form: CompressedForm;
  /** The input itself when it was not compressed. */
  readonly bytes: Uint8Array;
}

/** Unpacked size that `unpack` accepts unless told otherwise: 2 GiB, far above any kernel image with debug sections. */
export const UNPACK_LIMIT = 2 ** 31;
/** Most that a compressed block of zstd stands for. */
const ZSTD_BLOCK = 1 << 17;
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
 * Unpacks one layer of compression; bytes that are not compressed come back as they are.
 * @param limitBytes most that may come out
 * @throws ElftraceError 'elf-truncated' where the data end early, 'elf-malformed' where they are damaged or too large;
 *         the package's own error is the cause
 */
export async function unpack(bytes: Uint8Array, limitBytes = UNPACK_LIMIT): Promise<Unpacked> {
  const form = compressedForm(bytes);
  switch (form) {
    case 'none':
      return { form, bytes };
    case 'gzip':
      return { form, bytes: await unpackGzip(bytes, limitBytes) };
    case 'xz':
      return { form, bytes: await unpackXz(bytes, limitBytes) };
    case 'zstd':
      return { form, bytes: await unpackZstd(bytes, limitBytes) };
    default:
      return form satisfies never;
  }
}

/** Chunks of output, counted against the limit. */
class Output {
  readonly #chunks: Uint8Array[] = [];
  #size = 0;

  constructor(
    readonly what: string,
    readonly limit: number,
  ) {}

  add(chunk: Uint8Array): void {
    this.#size += chunk.length;
    if (this.#size > this.limit) throw tooLarge(this.what, this.#size, this.limit);
    this.#chunks.push(chunk);
  }

  /** The first chunk, where there is only one: not copied. */
  only(): Uint8Array {
    return this.#chunks[0] ?? new Uint8Array(0);
  }

  join(): Uint8Array {
    const out = new Uint8Array(this.#size);
    let at = 0;
    for (const chunk of this.#chunks) {
      out.set(chunk, at);
      at += chunk.length;
    }
    return out;
  }
}

function tooLarge(what: string, size: number | bigint, limit: number): ElftraceError {
  return malformed(what, `unpacks to more than ${limit} bytes`, { value: size, max: limit });
}

/** What a decompressor threw, as an error of ours. */
function damaged(what: string, cause: unknown, size: number): ElftraceError {
  if (cause instanceof ElftraceError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  if (/unexpected (end|eof)/i.test(message)) {
    return new ElftraceError('elf-truncated', `${what}: ${message}`, { what, max: size }, { cause });
  }
  // xz-embedded's enum xz_ret: 6 is XZ_OPTIONS_ERROR; the package is built without the branch filters (`xz --x86`).
  if (/error code 6\b/.test(message)) {
    return new ElftraceError(
      'unsupported-form',
      `${what}: made with a filter that is not supported here (unpack it with xz)`,
      { what },
      { cause },
    );
  }
  return new ElftraceError('elf-malformed', `${what}: ${message}`, { what, max: size }, { cause });
}

async function unpackGzip(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  const what = 'gzip data';
  const output = new Output(what, limit);
  const stream = new DecompressionStream('gzip');
  const writer = stream.writable.getWriter();
  // Rejections of the writing side come out of the reading side too; only one of them is to be reported.
  const written = writer
    .write(bytes)
    .then(() => writer.close())
    .catch(() => undefined);
  const reader = stream.readable.getReader();
  try {
    for (;;) {
      const part = await reader.read();
      if (part.done) break;
      output.add(part.value);
    }
    await written;
  } catch (error) {
    await reader.cancel().catch(() => undefined);
    throw damaged(what, error, bytes.length);
  }
  return output.join();
}

/** One stream of an .xz file, and what its index promises. */
interface XzStream {
  readonly start: number;
  readonly end: number;
  readonly unpackedSize: number;
}

/**
 * The streams of an .xz file, found from the end: footer, index, blocks (The .xz File Format 1.2.0, 2.1.2 and 4). The
 * package reads one stream only, and asks for input for ever where one has no end.
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

async function unpackXz(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  const what = 'xz data';
  const streams = xzStreams(bytes);
  const promised = streams.reduce((sum, stream) => sum + stream.unpackedSize, 0);
  if (promised > limit) throw tooLarge(what, promised, limit);
  const { XzReadableStream } = (await import('xz-decompress')).default;
  const output = new Output(what, limit);
  for (const { start, end } of streams) {
    let sent = false;
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent) controller.close();
        else controller.enqueue(bytes.subarray(start, end));
        sent = true;
      },
    });
    const reader = new XzReadableStream(source).getReader();
    let idle = 0;
    try {
      for (;;) {
        const part = await reader.read();
        if (part.done) break;
        // It gives out an empty chunk for each piece of input: damaged data may make it starve without end.
        idle = part.value.length === 0 ? idle + 1 : 0;
        if (idle > 2 + bytes.length / 1024) throw truncated(what, bytes.length, 1, bytes.length);
        output.add(part.value);
      }
    } catch (error) {
      await reader.cancel().catch(() => undefined);
      throw damaged(what, error, bytes.length);
    }
  }
  const out = output.join();
  if (out.length !== promised) throw malformed(what, `${out.length} bytes came out, the index says ${promised}`);
  return out;
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
}

function zstdFrame(bytes: Uint8Array, start: number): ZstdFrame {
  const what = 'zstd data';
  const view = new ByteView(bytes, 'little', what);
  const magic = view.u32(start);
  if (magic >= 0x184d_2a50 && magic <= 0x184d_2a5f) {
    const end = start + 8 + view.u32(start + 4);
    if (end > bytes.length) throw truncated(what, start, end - start, bytes.length);
    return { start, end, skippable: true, window: 0, content: 0n, most: 0, checksum: null };
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
  for (;;) {
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
  let checksum: number | null = null;
  if ((descriptor & 4) !== 0) {
    if (at + 4 > bytes.length) throw truncated(what, at, 4, bytes.length);
    checksum = view.u32(at);
    at += 4;
  }
  return { start, end: at, skippable: false, window, content, most, checksum };
}

async function unpackZstd(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  const what = 'zstd data';
  const frames: ZstdFrame[] = [];
  let most = 0;
  for (let at = 0; at < bytes.length;) {
    const frame = zstdFrame(bytes, at);
    // Promises are checked before anything is allocated for them.
    if (frame.content !== null) {
      most += Number(frame.content);
      if (frame.content > BigInt(frame.most)) {
        throw malformed(what, `blocks for ${frame.most} bytes cannot unpack to ${frame.content}`, {
          value: frame.content,
        });
      }
    } else {
      most += frame.most;
      if (frame.window > ZSTD_MAX_WINDOW) {
        throw malformed(what, `a window of ${frame.window} bytes`, { value: frame.window, max: ZSTD_MAX_WINDOW });
      }
    }
    if (!frame.skippable) frames.push(frame);
    at = frame.end;
  }
  const { Decompress, decompress } = await import('fzstd');
  const output = new Output(what, limit);
  try {
    for (const { start, end, content, checksum } of frames) {
      const packed = bytes.subarray(start, end);
      let out: Uint8Array;
      if (content !== null || most <= limit) {
        if (content !== null && content > BigInt(limit)) throw tooLarge(what, content, limit);
        out = decompress(packed);
      } else {
        // More may come out than is allowed: count while it comes.
        const parts = new Output(what, limit);
        const stream = new Decompress((chunk) => {
          parts.add(chunk.slice());
        });
        const step = 1 << 16;
        for (let at = 0; at < packed.length; at += step) {
          stream.push(packed.subarray(at, at + step), at + step >= packed.length);
        }
        out = parts.join();
      }
      // fzstd checks neither.
      if (content !== null && BigInt(out.length) !== content) {
        throw malformed(what, `${out.length} bytes came out, the header says ${content}`);
      }
      if (checksum !== null && xxh64Low(out) !== checksum) throw malformed(what, 'the checksum is wrong');
      output.add(out);
    }
  } catch (error) {
    throw damaged(what, error, bytes.length);
  }
  return frames.length === 1 ? output.only() : output.join();
}
