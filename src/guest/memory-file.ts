/**
 * Files that are memory (`memfd_create`): they have no place in the tree, may have holes, and can
 * be sealed against changes.
 *
 * Source: Linux, memfd_create(2), fcntl(2), mm/shmem.c.
 */
import type { FileError, FileStatus, WritableFile } from './files.js';
import type { Remembered } from './network.js';

/** What must not be done any more. Source: Linux uapi/linux/fcntl.h. */
export const SEAL = { SEAL: 1, SHRINK: 2, GROW: 4, WRITE: 8, FUTURE_WRITE: 0x10 } as const;
const PAGE_BYTES = 4096;

/** The memory of all such files of a run. */
export interface FileMemory {
  bytes: number;
  hasRoom(bytes: number): boolean;
  /** Nanoseconds since 1970. */
  now(): bigint;
}

export class MemoryFile implements WritableFile, Remembered {
  /** By number; a page that is not here is zeros. */
  private pages: ReadonlyMap<number, Uint8Array> = new Map();
  private size = 0;
  seals: number;
  private readonly made: bigint;
  private modified: bigint;

  constructor(
    private readonly memory: FileMemory,
    private readonly inode: number,
    maySeal: boolean,
    private readonly closes: (file: MemoryFile) => void,
  ) {
    this.seals = maySeal ? 0 : SEAL.SEAL;
    this.made = memory.now();
    this.modified = this.made;
  }

  get status(): FileStatus {
    const { size, modified, made, inode } = this;
    return { kind: 'file', permissions: 0o777, sizeBytes: size, modified, accessed: made, inode, links: 0 };
  }

  read(offset: number, size: number): Uint8Array {
    const out = new Uint8Array(Math.max(0, Math.min(size, this.size - offset)));
    for (let at = offset; at < offset + out.length;) {
      const begin = at % PAGE_BYTES;
      const part = Math.min(PAGE_BYTES - begin, offset + out.length - at);
      const page = this.pages.get((at - begin) / PAGE_BYTES);
      if (page) out.set(page.subarray(begin, begin + part), at - offset);
      at += part;
    }
    return out;
  }

  write(offset: number, bytes: Uint8Array): number | FileError {
    if ((this.seals & (SEAL.WRITE | SEAL.FUTURE_WRITE)) !== 0) return 'EPERM';
    const end = offset + bytes.length;
    if (end > this.size && (this.seals & SEAL.GROW) !== 0) return 'EPERM';
    if (end > Number.MAX_SAFE_INTEGER) return 'EFBIG';
    return this.store(offset, bytes) ? bytes.length : 'ENOSPC';
  }

  /** What a mapping that was there before the seals has stored. */
  store(offset: number, bytes: Uint8Array): boolean {
    const end = offset + bytes.length;
    const pages = new Map(this.pages);
    let more = 0;
    for (let at = offset; at < end;) {
      const begin = at % PAGE_BYTES;
      const part = Math.min(PAGE_BYTES - begin, end - at);
      const number = (at - begin) / PAGE_BYTES;
      if (!pages.has(number)) more += PAGE_BYTES;
      const page = pages.get(number)?.slice() ?? new Uint8Array(PAGE_BYTES);
      page.set(bytes.subarray(at - offset, at - offset + part), begin);
      pages.set(number, page);
      at += part;
    }
    if (!this.memory.hasRoom(more)) return false;
    this.memory.bytes += more;
    this.pages = pages;
    this.size = Math.max(this.size, end);
    this.modified = this.memory.now();
    return true;
  }

  resize(size: number): FileError | null {
    if (size < this.size && (this.seals & SEAL.SHRINK) !== 0) return 'EPERM';
    if (size > this.size && (this.seals & SEAL.GROW) !== 0) return 'EPERM';
    if (size < this.size) {
      const last = Math.ceil(size / PAGE_BYTES);
      const kept = [...this.pages].filter(([number]) => number < last);
      this.memory.bytes -= (this.pages.size - kept.length) * PAGE_BYTES;
      const rest = size % PAGE_BYTES;
      this.pages = new Map(
        kept.map(([number, page]) => [number, rest > 0 && number === last - 1 ? page.slice().fill(0, rest) : page]),
      );
    }
    this.size = size;
    this.modified = this.memory.now();
    return null;
  }

  close(): void {
    this.memory.bytes -= this.pages.size * PAGE_BYTES;
    this.pages = new Map();
    this.closes(this);
  }

  save(): () => void {
    const { pages, size, seals, modified } = this;
    return () => {
      Object.assign(this, { pages, size, seals, modified });
    };
  }
}
