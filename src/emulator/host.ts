/**
 * The one WebAssembly.Memory of a machine, and where things lie in it:
 *
 *   0x0000_0000  control block: what the generated code tells TypeScript at an exit (`CONTROL`)
 *   0x0000_1000  cells of the compiled tier: how far each of its windows reaches (`CELL`)
 *   0x0000_4000  window descriptors, 128 bytes each (`WINDOW`); descriptor 0 is the empty window
 *   0x0000_8000  state block of the running CPU: its slots
 *   0x0001_0000  page map: one byte of `PAGE_MARK` per guest page number modulo 65,536
 *   0x0002_0000  lookup table: guest address -> block, 16 bytes an entry
 *   0x0004_0000  lookup table of the compiled tier: guest address -> region, 16 bytes an entry
 *   0x0008_0000  records of accesses that may go to any window, in compiled code (`HINT`)
 *   0x0009_0000  how often accesses of tier 0 went to another window than before (`MOVES`)
 *   0x0009_4000  how much stack compiled regions need, by their numbers (`FRAMES`)
 *   0x0009_8000  records of translated blocks, the first megabyte
 *   above        backing of guest windows, more room for records
 *
 * Everything below 64 KiB can be named with 16 bits, which is what makes a decoded record 16 bytes
 * long. Owns the memory and its typed views, which are replaced whenever it grows; knows no guest.
 */

/**
 * The part of the WebAssembly JavaScript interface that is used; `@types/node` declares none of it.
 */
interface WasmMemory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}
/** A table of functions. */
export interface WasmTable {
  get(index: number): unknown;
  set(index: number, value: unknown): void;
}
interface WasmNamespace {
  readonly Table: new (
    descriptor: { element: 'anyfunc'; initial: number; maximum?: number },
    value: unknown,
  ) => WasmTable;
  readonly Memory: new (descriptor: { initial: number; maximum?: number }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => object;
  readonly Instance: new (
    module: object,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => { readonly exports: Readonly<Record<string, unknown>> };
}
declare const WebAssembly: WasmNamespace;

export const CONTROL = {
  /** Guest address: of a missed access, or that an indirect branch asked for. */
  value: 0x10,
  /** Record at which the code left, or block header for `fuel`. */
  pointer: 0x20,
  fuel: 0x24,
  /** End of the window descriptors in use. */
  windowsEnd: 0x28,
  /** Guest address at which the compiled tier stopped. */
  place: 0x30,
  /** Address of the indirect jump that the compiled tier executed last. */
  site: 0x38,
  /** A block header and one record, to enter translated code in mid-block. */
  trampoline: 0x40,
  /** Where tiers take turns (`alternation.ts`): instructions that are left, and left to tier 0. */
  left: 0x60,
  own: 0x64,
  /** Stays in compiled code until TypeScript is told of one. */
  stays: 0x68,
  /** Instructions of the last stay, and where it began. */
  used: 0x6c,
  from: 0x70,
} as const;

export const WINDOW = {
  start: 0x4000,
  bytes: 128,
  /** Guest address of the first byte. */
  base: 0,
  /** Host address of the first byte. */
  host: 8,
  flags: 12,
  /**
   * Exclusive bounds of base-relative addresses for accesses of 1, 2, 4, 8, 16 bytes; 0 where
   * reading is forbidden.
   */
  readLimits: 16,
  /** The same for stores that need no look at the page map. */
  writeLimits: 56,
  size: 96,
} as const;
export const MAX_WINDOWS = (0x8000 - WINDOW.start) / WINDOW.bytes;

/**
 * Cells of the compiled tier, one set for each window that it uses: for each span the exclusive
 * bound of addresses relative to the window's base at which so many bytes can be read, or read and
 * written, in the fast path; 0 where nothing can.
 */
export const CELL = {
  start: 0x1000,
  bytes: 128,
  count: 96,
  spans: [1, 2, 4, 8, 16, 64, 256, 1024],
  read: 0,
  write: 64,
} as const;

/**
 * Window flags beside the permission (1 read, 2 write, 4 execute): accesses that the page map
 * decides.
 */
export const WINDOW_FLAG = { checkWrite: 8, checkRead: 16 } as const;

/**
 * Why accesses to a page leave the generated code: stores to translated code, watched stores,
 * watched loads.
 */
export const PAGE_MARK = { code: 1, write: 2, read: 4 } as const;

export const STATE = 0x8000;
export const CODE_MAP = 0x1_0000;
/** Blocks of tier 0, and regions of the compiled tier, by address (`lookup-table.ts`). */
export const BLOCK_TABLE = { start: 0x2_0000, bits: 13 } as const;
export const REGION_TABLE = { start: 0x4_0000, bits: 14 } as const;
/**
 * Records of accesses in compiled code that may go to any window, as `resolve` knows them: the
 * window that such an access hit last.
 */
export const HINT = { start: 0x8_0000, bytes: 8, window: 6, count: 0x2000 } as const;
/**
 * Counts, one byte each, by the address of an access's record, a unit of 16 bytes; few of different
 * accesses share one.
 */
export const MOVES = { start: 0x9_0000, count: 0x4000 } as const;
/**
 * One word for each region of the compiled tier: the stack that its function needs, bytes, or
 * `dropped`, which is more than there ever is.
 */
export const FRAMES = { start: 0x9_4000, bytes: 4, count: 0x1000, dropped: 0x7fff_ffff } as const;
export const RECORDS_START = FRAMES.start + FRAMES.bytes * FRAMES.count;
const WASM_PAGE = 0x1_0000;
const BACKING_UNIT = 0x1000;
/** The first room for records, about 8,000 guest instructions; more is allocated like backing. */
const RECORDS_BYTES = 0x10_0000;
export const RECORDS_END = RECORDS_START + RECORDS_BYTES;
/**
 * Memory is created and grown in steps of this size: growing replaces the views. Not more at once,
 * because V8 counts all of it as allocated, touched or not, and a few megabytes too many make it
 * collect all garbage (10 ms) while a small program starts.
 */
const GROWTH_BYTES = 0x20_0000;

/** Backing is given in pages of 4 KiB. */
export function roundUpBacking(sizeBytes: number): number {
  return Math.max(BACKING_UNIT, Math.ceil(sizeBytes / BACKING_UNIT) * BACKING_UNIT);
}

/** Memory with its views. */
export class HostMemory {
  readonly memory: WasmMemory;
  u8: Uint8Array;
  u16: Uint16Array;
  u32: Uint32Array;
  i64: BigInt64Array;
  u64: BigUint64Array;
  private end = RECORDS_END;
  /** Addresses of free blocks by size. */
  private readonly free = new Map<number, number[]>();
  private freeBytes = 0;

  /** @param mostBytes  backing that windows may have together */
  constructor(private readonly mostBytes: () => number = () => Infinity) {
    this.memory = new WebAssembly.Memory({ initial: (RECORDS_END + GROWTH_BYTES) / WASM_PAGE, maximum: 65536 });
    const { buffer } = this.memory;
    this.u8 = new Uint8Array(buffer);
    this.u16 = new Uint16Array(buffer);
    this.u32 = new Uint32Array(buffer);
    this.i64 = new BigInt64Array(buffer);
    this.u64 = new BigUint64Array(buffer);
  }

  /** Bytes of backing that windows have now. */
  get used(): number {
    return this.end - RECORDS_END - this.freeBytes;
  }

  /**
   * Zeroed bytes, at a multiple of 4 KiB; -1 when there are no more. `fresh`: above everything
   * allocated so far, for the emulator's own use.
   */
  allocate(sizeBytes: number, fresh = false): number {
    const size = roundUpBacking(sizeBytes);
    if (!fresh && this.used + size > this.mostBytes()) return -1;
    const reused = fresh ? -1 : this.reuse(size);
    if (reused !== -1) {
      this.u8.fill(0, reused, reused + size);
      return reused;
    }
    const address = this.end;
    if (!this.grow(address + size - this.u8.length)) return -1;
    this.end = address + size;
    return address;
  }

  /** True when so many bytes more are allowed. */
  hasRoom(sizeBytes: number): boolean {
    return this.used + roundUpBacking(sizeBytes) <= this.mostBytes();
  }

  /** Makes at least so many bytes more; false when the 4 GiB are used up. */
  private grow(missing: number): boolean {
    if (missing <= 0) return true;
    const most = 65535 * WASM_PAGE - this.u8.length;
    if (missing > most) return false;
    const pages = Math.min(most, Math.ceil(missing / GROWTH_BYTES) * GROWTH_BYTES) / WASM_PAGE;
    try {
      this.memory.grow(pages);
    } catch {
      return false;
    }
    const { buffer } = this.memory;
    this.u8 = new Uint8Array(buffer);
    this.u16 = new Uint16Array(buffer);
    this.u32 = new Uint32Array(buffer);
    this.i64 = new BigInt64Array(buffer);
    this.u64 = new BigUint64Array(buffer);
    return true;
  }

  /** A free block of exactly that size, or a part of a larger one; -1: none. */
  private reuse(size: number): number {
    if (size > this.freeBytes) return -1;
    const exact = this.free.get(size)?.pop();
    if (exact !== undefined) {
      this.freeBytes -= size;
      return exact;
    }
    // Looking for parts is worth its time where much is free, as after a large program's arenas.
    if (this.freeBytes < Math.max(size, this.end >> 2)) return -1;
    return this.takePart(size);
  }

  /**
   * Joins free blocks that touch, and takes the front of the first that is large enough; -1: none
   * is.
   */
  private takePart(size: number): number {
    const blocks = [...this.free].flatMap(([bytes, places]) => places.map((address) => ({ address, bytes })));
    blocks.sort((a, b) => a.address - b.address);
    const joined: { address: number; bytes: number }[] = [];
    for (const block of blocks) {
      const last = joined.at(-1);
      if (last && last.address + last.bytes === block.address) last.bytes += block.bytes;
      else joined.push(block);
    }
    const found = joined.find(({ bytes }) => bytes >= size);
    const taken = found?.address ?? -1;
    if (found) {
      found.address += size;
      found.bytes -= size;
    }
    this.free.clear();
    this.freeBytes = 0;
    for (const { address, bytes } of joined) if (bytes > 0) this.release(address, bytes);
    return taken;
  }

  /** Gives back what `allocate` returned for `sizeBytes`. */
  release(address: number, sizeBytes: number): void {
    const size = roundUpBacking(sizeBytes);
    this.freeBytes += size;
    const places = this.free.get(size);
    if (places) places.push(address);
    else this.free.set(size, [address]);
  }
}

/** Compiles a module; the result may be instantiated on any number of memories. */
export function compileModule(bytes: Uint8Array<ArrayBuffer>): object {
  return new WebAssembly.Module(bytes);
}

/** Instantiates a module on a memory, and a table where it wants one, and returns its exports. */
export function instantiate(module: object, host: HostMemory, table?: WasmTable): Readonly<Record<string, unknown>> {
  return new WebAssembly.Instance(module, { env: { memory: host.memory, ...(table && { table }) } }).exports;
}

/** A table with so many entries, all of them `value`, a function of WebAssembly. */
export function makeTable(entries: number, value: unknown): WasmTable {
  return new WebAssembly.Table({ element: 'anyfunc', initial: entries, maximum: entries }, value);
}
