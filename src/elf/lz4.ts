/**
 * The legacy frame of LZ4, which kernels are packed in (`lz4 -l`): no package that is kept up reads
 * it, and it is no more than a magic and blocks with their sizes (LZ4 Frame Format 1.6.4, "Legacy
 * frame"; LZ4 Block Format).
 */
import { ByteView } from '../bytes.js';
import { malformed, truncated } from '../errors.js';
import { limitExceeded } from '../limits/index.js';

/** 0x184c2102, as it stands in the file. */
export const LZ4_LEGACY_MAGIC: readonly number[] = [0x02, 0x21, 0x4c, 0x18];
/** Most that a block unpacks to. */
const BLOCK_BYTES = 1 << 23;
const WHAT = 'lz4 data';

/** Output of one block, which refers to nothing in front of it. */
class Block {
  #at = 0;
  readonly #out: Uint8Array;

  constructor(
    readonly packed: Uint8Array,
    /** Of the block in the file. */
    readonly start: number,
    scratch: Uint8Array,
  ) {
    this.#out = scratch;
  }

  /** A length that goes on in bytes of 255. */
  #length(nibble: number, at: number): [length: number, at: number] {
    let length = nibble;
    if (nibble < 15) return [length, at];
    for (;;) {
      const more = this.packed[at++];
      if (more === undefined) throw truncated(WHAT, this.start, at, this.start + this.packed.length);
      length += more;
      if (more < 255) return [length, at];
    }
  }

  #room(bytes: number): void {
    if (this.#at + bytes > this.#out.length) {
      throw malformed(WHAT, `a block unpacks to more than ${BLOCK_BYTES} bytes`, { fileOffset: this.start });
    }
  }

  /** Unpacked bytes, in the scratch. */
  unpack(): Uint8Array {
    const { packed } = this;
    for (let at = 0; at < packed.length;) {
      const token = packed[at]!;
      let literals: number;
      [literals, at] = this.#length(token >>> 4, at + 1);
      if (at + literals > packed.length) {
        throw truncated(WHAT, this.start + at, literals, this.start + packed.length);
      }
      this.#room(literals);
      this.#out.set(packed.subarray(at, at + literals), this.#at);
      this.#at += literals;
      at += literals;
      // The last sequence has literals only.
      if (at === packed.length) break;
      at = this.#match(token & 15, at);
    }
    return this.#out.subarray(0, this.#at);
  }

  #match(nibble: number, at: number): number {
    const { packed } = this;
    if (at + 2 > packed.length) throw truncated(WHAT, this.start + at, 2, this.start + packed.length);
    const distance = packed[at]! | (packed[at + 1]! << 8);
    if (distance === 0 || distance > this.#at) {
      throw malformed(WHAT, `a match refers ${distance} bytes back where ${this.#at} came out`, {
        fileOffset: this.start + at,
      });
    }
    const [more, next] = this.#length(nibble, at + 2);
    const length = more + 4;
    this.#room(length);
    const out = this.#out;
    const from = this.#at - distance;
    if (distance >= length) out.copyWithin(this.#at, from, from + length);
    else for (let i = 0; i < length; i++) out[this.#at + i] = out[from + i]!;
    this.#at += length;
    return next;
  }
}

/**
 * Unpacks LZ4 legacy frames.
 * @param limitBytes  most that may come out
 * @throws ElftraceError 'elf-truncated', 'elf-malformed' where the data are damaged,
 *   'limit-exceeded' where they unpack to more
 */
export function unpackLz4Legacy(bytes: Uint8Array, limitBytes: number): Uint8Array {
  const view = new ByteView(bytes, 'little', WHAT);
  const scratch = new Uint8Array(BLOCK_BYTES);
  const parts: Uint8Array[] = [];
  let size = 0;
  for (let at = 4; at < bytes.length;) {
    const packed = view.u32(at);
    at += 4;
    // Frames may follow each other.
    if (packed === 0x184c_2102) continue;
    if (at + packed > bytes.length) throw truncated(WHAT, at, packed, bytes.length);
    const out = new Block(bytes.subarray(at, at + packed), at, scratch).unpack();
    size += out.length;
    if (size > limitBytes) throw limitExceeded('unpacked', WHAT, limitBytes, { value: size });
    parts.push(out.slice());
    at += packed;
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
