/**
 * The bytes of a file as they will be, of which a few change: a copy of the pages alone that
 * something is written to. A whole copy of a large file would be most of what a plan needs.
 */
import { ByteView } from '../bytes.js';
import type { Endian } from '../units.js';

const PAGE = 4096;

export class ChangedPages {
  private readonly pages = new Map<number, Uint8Array>();

  constructor(
    private readonly bytes: Uint8Array,
    private readonly endian: Endian,
  ) {}

  set(bytes: Uint8Array, at: number): void {
    for (let done = 0; done < bytes.length;) {
      const from = (at + done) % PAGE;
      const size = Math.min(bytes.length - done, PAGE - from);
      this.page((at + done - from) / PAGE).set(bytes.subarray(done, done + size), from);
      done += size;
    }
  }

  /** Zeros in [from, to). */
  clear(from: number, to: number): void {
    this.set(new Uint8Array(to - from), from);
  }

  insertU8(at: number, value: number): void {
    this.set(Uint8Array.of(value), at);
  }

  insertU16(at: number, value: number): void {
    const view = new ByteView(new Uint8Array(2), this.endian);
    view.insertU16(0, value);
    this.set(view.bytes, at);
  }

  insertWord(at: number, value: bigint, size: 4 | 8): void {
    const view = new ByteView(new Uint8Array(size), this.endian);
    view.insertWord(0, value, size);
    this.set(view.bytes, at);
  }

  /** A copy of [from, to). */
  slice(from: number, to: number): Uint8Array {
    const copy = this.bytes.slice(from, to);
    for (let at = from; at < to; at = (Math.floor(at / PAGE) + 1) * PAGE) {
      const number = Math.floor(at / PAGE);
      const page = this.pages.get(number);
      if (page === undefined) continue;
      const start = number * PAGE;
      copy.set(page.subarray(at - start, Math.min(PAGE, to - start)), at - from);
    }
    return copy;
  }

  private page(number: number): Uint8Array {
    let page = this.pages.get(number);
    if (page === undefined) {
      page = new Uint8Array(PAGE);
      page.set(this.bytes.subarray(number * PAGE, (number + 1) * PAGE));
      this.pages.set(number, page);
    }
    return page;
  }
}
