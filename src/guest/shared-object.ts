/**
 * One thing that processes share: anonymous memory, or a file in memory. It holds what all have
 * agreed on; who has mapped it, and when bytes move, is in `shared-memory.ts`.
 */
import type { FileDescription } from './descriptions.js';
import type { OpenFile, WritableFile } from './files.js';
import { firstDifference } from '../emulator/memory.js';
import { MemoryFile } from './memory-file.js';
import { PAGE } from '../emulator/windows.js';

const PAGE_BYTES = Number(PAGE);
const ZEROS = new Uint8Array(PAGE_BYTES);

export class SharedObject {
  /** By number; a page that is not here is zeros. */
  private pages = new Map<number, Uint8Array>();
  /** Counts changes of what all have agreed on. */
  version = 0;
  /** More than one process may have it: a file, or memory across a fork. */
  isShared: boolean;
  /** Descriptions of the file, the one that is used last; they stay open as long as the object. */
  private held: readonly FileDescription[] = [];

  constructor(description: FileDescription | null) {
    this.isShared = description !== null;
    if (description) this.hold(description);
  }

  /** The file is read and written through this description from now on. */
  hold(description: FileDescription): void {
    const last = this.held.at(-1);
    if (this.held.includes(description) || (last?.isWritable === true && !description.isWritable)) return;
    description.hold();
    this.held = [...this.held, description];
  }

  /** Nothing is mapped of it any more. */
  release(): void {
    for (const each of this.held) each.release();
    this.held = [];
  }

  get usedBytes(): number {
    return this.pages.size * PAGE_BYTES;
  }

  /** True of what is mapped of this file. */
  isOf(file: OpenFile): boolean {
    return this.held.some((each) => each.file === file);
  }

  /** It is written through its description already. */
  get isWritten(): boolean {
    return this.held.at(-1)?.isWritable === true;
  }

  get isFile(): boolean {
    return this.held.length > 0;
  }

  private get file(): OpenFile | WritableFile | null {
    return this.held.at(-1)?.file ?? null;
  }

  /** Where the last page of the file ends; Infinity: it is no file. */
  get end(): number {
    const { file } = this;
    return file ? Math.ceil(file.status.sizeBytes / PAGE_BYTES) * PAGE_BYTES : Infinity;
  }

  page(number: number): Uint8Array {
    return this.pages.get(number) ?? ZEROS;
  }

  /** Bytes of a page from `at` on are these now. */
  private put(number: number, at: number, bytes: Uint8Array): void {
    const page = this.pages.get(number) ?? new Uint8Array(PAGE_BYTES);
    page.set(bytes, at);
    this.pages.set(number, page);
  }

  /** Reads what was written to the file in a range. */
  reread(offset: number, size: number): void {
    const { file } = this;
    if (!file) return;
    const last = Math.ceil((offset + size) / PAGE_BYTES);
    for (let number = Math.floor(offset / PAGE_BYTES); number < last; number++) {
      if (this.pages.has(number)) this.put(number, 0, padded(file.read(number * PAGE_BYTES, PAGE_BYTES)));
    }
    this.version++;
  }

  /** The file has another size: what lay behind its end is zeros. */
  resized(): void {
    for (const number of this.pages.keys()) this.reread(number * PAGE_BYTES, PAGE_BYTES);
    this.version++;
  }

  /** Takes pages of the file in that were mapped. */
  cover(offset: number, contents: Uint8Array): void {
    for (let at = 0; at < contents.length; at += PAGE_BYTES) {
      const number = (offset + at) / PAGE_BYTES;
      if (!this.pages.has(number)) this.put(number, 0, contents.subarray(at, at + PAGE_BYTES));
    }
  }

  /**
   * A process has page `number` so; `before`: what it was to that process. True: that has stored
   * something.
   */
  store(number: number, now: Uint8Array, before: Uint8Array): boolean {
    const first = firstDifference(now, before);
    if (first < 0) return false;
    const page = this.page(number).slice();
    let last = first;
    for (let i = first; i < PAGE_BYTES; i++) {
      if (now[i] === before[i]) continue;
      page[i] = now[i]!;
      last = i;
    }
    this.put(number, 0, page);
    const { file } = this;
    const at = number * PAGE_BYTES + first;
    const size = file ? Math.min(last + 1 - first, file.status.sizeBytes - at) : 0;
    if (size <= 0) return true;
    // Seals leave the mappings that were there.
    if (file instanceof MemoryFile) file.store(at, page.slice(first, first + size));
    else if (file && 'write' in file) file.write(at, page.subarray(first, first + size));
    return true;
  }

  save(): () => void {
    const { version, isShared, held } = this;
    const pages = new Map([...this.pages].map(([number, page]) => [number, page.slice()]));
    return () => {
      Object.assign(this, { version, isShared, held });
      this.pages = new Map([...pages].map(([number, page]) => [number, page.slice()]));
    };
  }
}

function padded(bytes: Uint8Array): Uint8Array {
  if (bytes.length === PAGE_BYTES) return bytes;
  const out = new Uint8Array(PAGE_BYTES);
  out.set(bytes);
  return out;
}
