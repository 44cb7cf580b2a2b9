/** Bytes of an archive as they arrive: what was taken is forgotten. */
import { truncated } from '../errors.js';
import { limitExceeded } from '../limits/index.js';

export class Arriving {
  #piece: Uint8Array = new Uint8Array();
  /** Position in the archive. */
  at = 0;

  constructor(private readonly source: AsyncIterator<Uint8Array>) {}

  /** True when there is a byte more. */
  async more(): Promise<boolean> {
    while (this.#piece.length === 0) {
      const next = await this.source.next();
      if (next.done === true) return false;
      this.#piece = next.value;
    }
    return true;
  }

  /** The next bytes, fewer at the end. */
  async take(size: number): Promise<Uint8Array> {
    const out = new Uint8Array(size);
    return out.subarray(0, await this.takeInto(out, 0));
  }

  /** The same into an array, from `from` to its end. Number of bytes that were there. */
  async takeInto(out: Uint8Array, from: number): Promise<number> {
    return this.#pass(out.length - from, (piece, at) => {
      out.set(piece, from + at);
    });
  }

  /** Number of bytes that were there. */
  async skip(size: number): Promise<number> {
    return this.#pass(size, () => undefined);
  }

  async #pass(size: number, give: (piece: Uint8Array, at: number) => void): Promise<number> {
    let done = 0;
    while (done < size && (await this.more())) {
      const piece = this.#piece.subarray(0, size - done);
      give(piece, done);
      this.#piece = this.#piece.subarray(piece.length);
      done += piece.length;
    }
    this.at += done;
    return done;
  }

  /**
   * So many bytes.
   * @param what  for errors
   * @throws ElftraceError 'limit-exceeded' before more than `limitBytes` are in memory,
   *   'elf-truncated'
   */
  async exactly(size: number, what: string, limitBytes: number): Promise<Uint8Array> {
    const start = this.at;
    if (size > limitBytes) throw limitExceeded('unpacked', what, limitBytes, { value: size, fileOffset: start });
    const bytes = await this.take(size);
    if (bytes.length < size) throw truncated(what, start, size, this.at);
    return bytes;
  }

  /** @throws ElftraceError 'elf-truncated' where so many bytes are not there */
  async skipExactly(size: number, what: string): Promise<void> {
    const start = this.at;
    if ((await this.skip(size)) < size) throw truncated(what, start, size, this.at);
  }

  /** To the end: checksums of what it came from are compared there. */
  async drain(): Promise<void> {
    while (await this.more()) await this.skip(2 ** 30);
  }
}
