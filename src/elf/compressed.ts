/**
 * Compressed inputs (`.ko.gz`, `.ko.xz`, `.ko.zst`): recognised by their magic and unpacked into memory, with a limit
 * against bombs. Packing again is the command line's business. gzip through the platform's DecompressionStream, xz
 * through `xz-decompress` (xz-embedded as wasm), zstd through `fzstd`; the packages are loaded when they are needed.
 */
import { ElftraceError, malformed, truncated } from '../errors.js';

export type CompressedForm = 'none' | 'gzip' | 'xz' | 'zstd';

export interface Unpacked {
  readonly form: CompressedForm;
  /** The input itself when it was not compressed. */
  readonly bytes: Uint8Array;
}

/** Unpacked size that `unpack` accepts unless told otherwise: 2 GiB, far above any kernel image with debug sections. */
export const UNPACK_LIMIT = 2 ** 31;
/** A zstd block of 4 bytes can stand for 128 KiB: no frame unpacks to more than this times its size. */
const ZSTD_MAX_RATIO = 1 << 15;
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
 *         the library's own error is the cause
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

async function unpackXz(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  const what = 'xz data';
  // A complete stream ends in a footer with the magic "YZ", maybe followed by padding of zeros. Without one the package
  // would ask for more input for ever.
  let end = bytes.length;
  while (end > 12 && bytes[end - 1] === 0) end--;
  if (end < 24 || bytes[end - 2] !== 0x59 || bytes[end - 1] !== 0x5a) {
    throw new ElftraceError('elf-truncated', `${what}: the stream footer is missing`, { what, max: bytes.length });
  }
  const { XzReadableStream } = (await import('xz-decompress')).default;
  const output = new Output(what, limit);
  let sent = false;
  const source = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent) controller.close();
      else controller.enqueue(bytes.subarray(0, end));
      sent = true;
    },
  });
  const reader = new XzReadableStream(source).getReader();
  let idle = 0;
  try {
    for (;;) {
      const part = await reader.read();
      if (part.done) break;
      // The package gives out an empty chunk per pull while it starves: damaged data may make it do so without end.
      idle = part.value.length === 0 ? idle + 1 : 0;
      if (idle > 2 + bytes.length / 1024) throw truncated(what, bytes.length, 1, bytes.length);
      output.add(part.value);
    }
  } catch (error) {
    await reader.cancel().catch(() => undefined);
    throw damaged(what, error, bytes.length);
  }
  return output.join();
}

/** RFC 8878, 3.1.1.1: what the header of the first frame promises. */
function zstdFrame(bytes: Uint8Array): { readonly window: number; readonly content: bigint | null } {
  const descriptor = bytes[4] ?? 0;
  const singleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3]!;
  const sizeFlag = descriptor >>> 6;
  const sizeBytes = sizeFlag === 0 ? (singleSegment ? 1 : 0) : 1 << sizeFlag;
  const sizeAt = 5 + (singleSegment ? 0 : 1) + dictionaryBytes;
  if (sizeAt + sizeBytes > bytes.length) throw truncated('zstd frame header', 0, sizeAt + sizeBytes, bytes.length);
  let content: bigint | null = null;
  if (sizeBytes > 0) {
    content = sizeBytes === 2 ? 256n : 0n;
    for (let i = 0; i < sizeBytes; i++) content += BigInt(bytes[sizeAt + i]!) << BigInt(8 * i);
  }
  if (singleSegment) return { window: Number(content), content };
  const window = bytes[5]!;
  const base = 2 ** (10 + (window >>> 3));
  return { window: base + (base / 8) * (window & 7), content };
}

async function unpackZstd(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  const what = 'zstd data';
  const { window, content } = zstdFrame(bytes);
  // Promised sizes are checked before anything is allocated for them.
  if (content !== null) {
    if (content > BigInt(limit)) throw tooLarge(what, content, limit);
    if (content > BigInt(bytes.length) * BigInt(ZSTD_MAX_RATIO)) {
      throw malformed(what, `${bytes.length} bytes cannot unpack to ${content}`, { value: content });
    }
  } else if (window > ZSTD_MAX_WINDOW) {
    throw malformed(what, `a window of ${window} bytes`, { value: window, max: ZSTD_MAX_WINDOW });
  }
  const { Decompress, decompress } = await import('fzstd');
  try {
    if (content !== null) {
      const out = decompress(bytes);
      if (out.length > limit) throw tooLarge(what, out.length, limit);
      return out;
    }
    const output = new Output(what, limit);
    const stream = new Decompress((chunk) => output.add(chunk.slice()));
    const step = 1 << 16;
    for (let at = 0; at < bytes.length; at += step) {
      stream.push(bytes.subarray(at, at + step), at + step >= bytes.length);
    }
    return output.join();
  } catch (error) {
    throw damaged(what, error, bytes.length);
  }
}
