/**
 * Guest memory: a few windows, each a contiguous range of guest addresses with contiguous backing in the one
 * WebAssembly.Memory and one permission.
 *
 *   guest   0x0000_0000_1000_0000 .. text   rx        backing   +0x00a0_0000
 *           0x0000_0000_1002_0000 .. data   rw                  +0x00a1_0000
 *           0xffff_ffff_8100_0000 .. kernel rx                  +0x00b0_0000
 *
 * An access costs one subtraction and one comparison against the window that it hit last time; where in the 64-bit address
 * space the window lies makes no difference. Windows are few (127) because a miss looks through them one by one: what
 * grows (heap, stack, mappings) is a window that is extended, and neighbours with equal permission and contiguous backing
 * are joined.
 *
 * An access across the end of a window is served here, byte by byte, when the neighbour allows it, and faults at the first
 * byte that may not be accessed otherwise. Nothing is written by a store that faults.
 *
 * A window that may be written and executed serves stores in the generated code only where no translated code lies
 * (the page map); windows that may only be executed cannot be written by the guest at all. Writes by the host go
 * through `write`, which reports them, so that translated code of the pages is dropped.
 *
 * Watched ranges (hooks on memory, reservations of other CPUs) use the same path: while a window holds one, its limits
 * of the fast path are 0, so its accesses are resolved by the slower function, which serves the pages that are not marked and
 * leaves the generated code at those that are. Windows without a watched range cost nothing.
 *
 * Backing is allocated in units of 64 KiB and only grows; a range that is unmapped gives it back for later ranges of the
 * same size.
 */
import { CODE_MAP, CONTROL, MAX_WINDOWS, PAGE_MARK, WINDOW, WINDOW_FLAG } from './host.js';
import type { HostMemory } from './host.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';

export type Permission = 'none' | 'r' | 'rw' | 'rx' | 'rwx';
export type AccessKind = 'read' | 'write' | 'execute';

/** The longest instruction of any machine: an instruction may begin in one line or window and end in the next. */
export const MAX_INSTRUCTION_BYTES = 16;

/** Code map granularity and the unit of dropping translated code, bytes. Not the guest's page size. */
export const CODE_PAGE_BITS = 12n;

interface Allocation {
  host: number;
  size: number;
  /** Windows that lie in it. */
  users: number;
}

/** A contiguous range of guest memory with one permission. */
export interface Window {
  readonly address: Address;
  readonly size: number;
  readonly permission: Permission;
  readonly name: string;
  /** Indirect branches may enter at landing pads only. */
  readonly guarded: boolean;
}

interface MutableWindow {
  address: Address;
  size: number;
  permission: Permission;
  name: string;
  guarded: boolean;
  /** Host address of the first byte. */
  host: number;
  allocation: Allocation;
}

export interface MapRequest {
  readonly address: Address;
  /** Bytes, at least 1. */
  readonly size: number;
  readonly permission: Permission;
  readonly name?: string;
  /** Bytes of backing to allocate, so that the window can be extended in place. */
  readonly reserve?: number;
  /** Indirect branches may enter at landing pads only, on machines that have them (arm64: PROT_BTI). Default false. */
  readonly guarded?: boolean;
}

const FLAGS: Readonly<Record<Permission, number>> = { none: 0, r: 1, rw: 3, rx: 5, rwx: 7 };
const NEEDS: Readonly<Record<AccessKind, number>> = { read: 1, write: 2, execute: 4 };
type PageMark = keyof typeof PAGE_MARK;

/** What wants to know of changes. A store of the generated code to a page without marks is told to nobody. */
export interface MemoryObserver {
  /** `bytes` are about to be written by `write`; the range is mapped. */
  beforeWrite(address: Address, bytes: Uint8Array): void;
  /** `bytes`: written by `write`. `map`: windows or permissions changed. Translated code there is stale. */
  changed(address: Address, size: number, what: 'bytes' | 'map'): void;
}

/** A range whose accesses leave the generated code. */
export interface WatchedRange {
  readonly address: Address;
  readonly size: number;
  readonly access: 'read' | 'write';
}

/** A window with a copy of its bytes. */
export interface SavedWindow extends Window {
  readonly bytes: Uint8Array;
}

const PAGE_BYTES = 1 << Number(CODE_PAGE_BITS);

/** Index of the first byte from `from` in which two arrays of one length differ, or -1. */
export function firstDifference(a: Uint8Array, b: Uint8Array, from = 0): number {
  let at = from;
  if (((a.byteOffset | b.byteOffset) & 3) === 0) {
    while ((at & 3) !== 0) {
      if (at >= a.length || a[at] !== b[at]) return at < a.length ? at : -1;
      at++;
    }
    const words = a.length >>> 2;
    const [x, y] = [new Uint32Array(a.buffer, a.byteOffset, words), new Uint32Array(b.buffer, b.byteOffset, words)];
    let word = at >>> 2;
    while (word < words && x[word] === y[word]) word++;
    at = word * 4;
  }
  while (at < a.length && a[at] === b[at]) at++;
  return at < a.length ? at : -1;
}

const NOBODY: MemoryObserver = { beforeWrite: () => undefined, changed: () => undefined };

export class GuestMemory {
  private windowsByAddress: MutableWindow[] = [];
  observer: MemoryObserver = NOBODY;
  /** Called when the window descriptors have changed. */
  onPublish: () => void = () => undefined;
  /** Reasons by page number modulo 65,536; no entry is 0. */
  private readonly marks: Readonly<Record<PageMark, Map<number, number>>> = {
    code: new Map(),
    write: new Map(),
    read: new Map(),
  };
  private readonly watched = new Set<WatchedRange>();
  private everGuarded = false;

  constructor(
    private readonly host: HostMemory,
    readonly addressBits: 32 | 64,
  ) {
    this.publish();
  }

  get windows(): readonly Window[] {
    return this.windowsByAddress;
  }

  private get limit(): bigint {
    return 1n << BigInt(this.addressBits);
  }

  /**
   * Maps zeroed memory.
   * @throws ElftraceError 'usage' when the range is empty, wraps or overlaps a window, or the windows or 4 GiB are used up
   */
  map(request: MapRequest): void {
    const refusal = this.tryMap(request);
    if (refusal !== null) {
      const { address, size } = request;
      throw new ElftraceError('usage', `mapping ${hex(address)}, ${hex(size)} bytes: ${refusal}`, { address });
    }
  }

  /** True once a guarded window was mapped. */
  get anyGuarded(): boolean {
    return this.everGuarded;
  }

  /** From the first guarded window on all code keeps track of indirect branches: what was translated before does not. */
  private noticeGuarded(guarded: boolean): void {
    if (!guarded || this.everGuarded) return;
    this.everGuarded = true;
    for (const { address, size } of [...this.windowsByAddress]) this.observer.changed(address, size, 'map');
  }

  /** As `map`, but returns why it cannot be done, or null when it is. */
  tryMap(request: MapRequest): string | null {
    const { address, size, permission, name = '', reserve = 0, guarded = false } = request;
    if (size <= 0 || address < 0n || address + BigInt(size) > this.limit) return 'empty, or outside the address space';
    const other = this.overlapping(address, size)[0];
    if (other) return `overlaps the window at ${hex(other.address)}`;
    if (this.windowsByAddress.length >= MAX_WINDOWS - 1) return `${MAX_WINDOWS - 1} windows are in use`;
    const allocated = Math.max(size, reserve);
    const host = this.host.allocate(allocated);
    if (host === -1) return 'no backing is left';
    const allocation = { host, size: Math.ceil(allocated / 0x1_0000) * 0x1_0000, users: 1 };
    this.windowsByAddress.push({ address, size, permission, name, guarded, host, allocation });
    this.publish();
    this.noticeGuarded(guarded);
    return null;
  }

  /** Grows or shrinks the window that begins at `address`; false when another window is in the way or nothing is left. */
  resize(address: Address, size: number): boolean {
    const window = this.windowsByAddress.find((each) => each.address === address);
    if (!window || size <= 0 || address + BigInt(size) > this.limit) return false;
    if (size < window.size) {
      this.unmap(address + BigInt(size), window.size - size);
      return true;
    }
    const grown = BigInt(window.size);
    if (this.overlapping(address + grown, size - window.size).length > 0) return false;
    const { allocation } = window;
    if (window.host + size > allocation.host + allocation.size || allocation.users > 1) {
      const reserve = Math.max(size, Math.min(window.size * 2, 0x1000_0000));
      const host = this.host.allocate(reserve);
      if (host === -1) return false;
      this.host.u8.copyWithin(host, window.host, window.host + window.size);
      if (--allocation.users === 0) this.host.release(allocation.host, allocation.size);
      window.host = host;
      window.allocation = { host, size: Math.ceil(reserve / 0x1_0000) * 0x1_0000, users: 1 };
    } else {
      this.host.u8.fill(0, window.host + window.size, window.host + size);
    }
    window.size = size;
    this.publish();
    return true;
  }

  private overlapping(address: Address, size: number): MutableWindow[] {
    const end = address + BigInt(size);
    return this.windowsByAddress.filter((each) => each.address < end && address < each.address + BigInt(each.size));
  }

  /** Cuts windows so that none crosses `address`. */
  private split(address: Address): void {
    const window = this.overlapping(address, 1)[0];
    if (!window || window.address === address) return;
    const head = Number(address - window.address);
    window.allocation.users++;
    this.windowsByAddress.push({
      address,
      size: window.size - head,
      permission: window.permission,
      name: window.name,
      guarded: window.guarded,
      host: window.host + head,
      allocation: window.allocation,
    });
    window.size = head;
  }

  /** Removes what is mapped in the range; false when that would need more windows than there are. */
  unmap(address: Address, size: number): boolean {
    if (size <= 0) return true;
    if (this.windowsByAddress.length + 2 > MAX_WINDOWS - 1) return false;
    this.split(address);
    this.split(address + BigInt(size));
    for (const window of this.overlapping(address, size)) {
      this.windowsByAddress.splice(this.windowsByAddress.indexOf(window), 1);
      if (--window.allocation.users === 0) this.host.release(window.allocation.host, window.allocation.size);
    }
    this.publish();
    this.observer.changed(address, size, 'map');
    return true;
  }

  /** Changes the permission of a range, and whether it is guarded; false when a byte of it is not mapped or windows are lacking. */
  protect(address: Address, size: number, permission: Permission, guarded = false): boolean {
    let mapped = 0;
    for (const window of this.overlapping(address, size)) {
      const start = window.address > address ? window.address : address;
      const windowEnd = window.address + BigInt(window.size);
      const end = windowEnd < address + BigInt(size) ? windowEnd : address + BigInt(size);
      mapped += Number(end - start);
    }
    if (mapped !== size || this.windowsByAddress.length + 2 > MAX_WINDOWS - 1) return false;
    this.split(address);
    this.split(address + BigInt(size));
    for (const window of this.overlapping(address, size)) {
      window.permission = permission;
      window.guarded = guarded;
    }
    this.publish();
    this.noticeGuarded(guarded);
    this.observer.changed(address, size, 'map');
    return true;
  }

  /** Writes the descriptors. Predictions in records may now name another window; they are only predictions. */
  private publish(): void {
    this.windowsByAddress.sort((a, b) => (a.address < b.address ? -1 : 1));
    const joined: MutableWindow[] = [];
    for (const window of this.windowsByAddress) {
      const last = joined.at(-1);
      if (
        last &&
        last.allocation === window.allocation &&
        last.permission === window.permission &&
        last.guarded === window.guarded &&
        last.address + BigInt(last.size) === window.address &&
        last.host + last.size === window.host
      ) {
        last.size += window.size;
        last.allocation.users--;
      } else joined.push(window);
    }
    this.windowsByAddress = joined;
    const { host } = this;
    host.u8.fill(0, WINDOW.start, WINDOW.start + WINDOW.bytes * MAX_WINDOWS);
    let at = WINDOW.start + WINDOW.bytes;
    for (const window of joined) {
      const permission = FLAGS[window.permission];
      const checksWrites = (permission & 4) !== 0 || this.isWatched(window, 'write');
      const checksReads = this.isWatched(window, 'read');
      const flags =
        permission |
        (checksWrites && permission & 2 ? WINDOW_FLAG.checkWrite : 0) |
        (checksReads && permission & 1 ? WINDOW_FLAG.checkRead : 0);
      host.u64[(at + WINDOW.base) >> 3] = window.address;
      host.u32[(at + WINDOW.host) >> 2] = window.host;
      host.u32[(at + WINDOW.flags) >> 2] = flags;
      host.u64[(at + WINDOW.size) >> 3] = BigInt(window.size);
      for (let log = 0; log < 5; log++) {
        const bound = BigInt(Math.max(0, window.size - (1 << log) + 1));
        host.u64[(at + WINDOW.readLimits + 8 * log) >> 3] = permission & 1 && !checksReads ? bound : 0n;
        host.u64[(at + WINDOW.writeLimits + 8 * log) >> 3] = permission & 2 && !checksWrites ? bound : 0n;
      }
      at += WINDOW.bytes;
    }
    host.u32[CONTROL.windowsEnd >> 2] = at;
    this.onPublish();
  }

  private isWatched(window: Window, access: WatchedRange['access']): boolean {
    for (const each of this.watched) {
      if (each.access !== access || each.address >= window.address + BigInt(window.size)) continue;
      if (window.address < each.address + BigInt(each.size)) return true;
    }
    return false;
  }

  /** Makes accesses of a kind to the range leave the generated code, until `unwatch` is called with the same object. */
  watch(range: WatchedRange): void {
    if (this.watched.has(range)) return;
    this.watched.add(range);
    this.markPages(range, 1);
    this.publish();
  }

  unwatch(range: WatchedRange): void {
    if (!this.watched.delete(range)) return;
    this.markPages(range, -1);
    this.publish();
  }

  private markPages(range: WatchedRange, by: 1 | -1): void {
    const last = (range.address + BigInt(range.size) - 1n) >> CODE_PAGE_BITS;
    for (let page = range.address >> CODE_PAGE_BITS; page <= last; page++) this.mark(Number(page), range.access, by);
  }

  private windowOf(address: Address): MutableWindow | undefined {
    for (const each of this.windowsByAddress) {
      if (address >= each.address && address < each.address + BigInt(each.size)) return each;
    }
    return undefined;
  }

  /** The window that holds `address`. */
  windowAt(address: Address): Window | undefined {
    return this.windowOf(address);
  }

  /** The first address of the range that may not be accessed so, or null. The range may wrap around the address space. */
  check(address: Address, size: number, access: AccessKind): Address | null {
    let at = address;
    let left = size;
    while (left > 0) {
      const window = this.windowOf(at);
      if (!window || (FLAGS[window.permission] & NEEDS[access]) === 0) return at;
      const served = Math.min(left, Number(window.address + BigInt(window.size) - at));
      left -= served;
      at = BigInt.asUintN(this.addressBits, at + BigInt(served));
    }
    return null;
  }

  /** Walks the pieces of a mapped range; false when a byte is not mapped. */
  private pieces(address: Address, size: number, visit: (host: number, length: number, done: number) => void): boolean {
    let at = address;
    let done = 0;
    while (done < size) {
      const window = this.windowOf(at);
      if (!window) return false;
      const skip = Number(at - window.address);
      const length = Math.min(size - done, window.size - skip);
      visit(window.host + skip, length, done);
      done += length;
      at = BigInt.asUintN(this.addressBits, at + BigInt(length));
    }
    return true;
  }

  /** A copy of mapped bytes, whatever the permission; null when one is not mapped. */
  read(address: Address, size: number): Uint8Array | null {
    const out = new Uint8Array(size);
    const whole = this.pieces(address, size, (host, length, done) => {
      out.set(this.host.u8.subarray(host, host + length), done);
    });
    return whole ? out : null;
  }

  /** Writes mapped bytes, whatever the permission; false, and nothing is written, when one is not mapped. */
  write(address: Address, bytes: Uint8Array): boolean {
    if (!this.pieces(address, bytes.length, () => undefined)) return false;
    this.observer.beforeWrite(address, bytes);
    this.pieces(address, bytes.length, (host, length, done) => {
      this.host.u8.set(bytes.subarray(done, done + length), host);
    });
    this.observer.changed(address, bytes.length, 'bytes');
    return true;
  }

  /** A view of a mapped range inside one window, whatever the permission: valid until memory is mapped or changed. */
  view(address: Address, size: number): Uint8Array | null {
    const window = this.windowOf(address);
    if (!window) return null;
    const skip = Number(address - window.address);
    if (skip + size > window.size) return null;
    return this.host.u8.subarray(window.host + skip, window.host + skip + size);
  }

  /** Copies of all windows, by address. */
  save(): readonly SavedWindow[] {
    return this.windowsByAddress.map(({ address, size, permission, name, guarded, host }) => ({
      address,
      size,
      permission,
      name,
      guarded,
      bytes: this.host.u8.slice(host, host + size),
    }));
  }

  /**
   * Makes windows and bytes those of `save`. Only what differs is written and reported as changed, in pages of 4096 bytes.
   * @throws ElftraceError 'usage' when there is no backing for them any more
   */
  restore(saved: readonly SavedWindow[]): void {
    const same = (a: Window, b: Window): boolean =>
      a.address === b.address &&
      a.size === b.size &&
      a.permission === b.permission &&
      a.name === b.name &&
      a.guarded === b.guarded;
    for (const each of [...this.windowsByAddress]) {
      if (saved.some((other) => same(each, other))) continue;
      if (!this.unmap(each.address, each.size))
        throw new ElftraceError('usage', 'too many windows to restore a snapshot');
    }
    for (const each of saved) {
      if (!this.windowsByAddress.some((other) => same(each, other))) this.map(each);
      const window = this.windowOf(each.address)!;
      for (let at = 0; at < each.size; at += PAGE_BYTES) {
        const end = Math.min(each.size, at + PAGE_BYTES);
        const now = this.host.u8.subarray(window.host + at, window.host + end);
        const then = each.bytes.subarray(at, end);
        if (firstDifference(now, then) === -1) continue;
        now.set(then);
        this.observer.changed(each.address + BigInt(at), end - at, 'bytes');
      }
    }
  }

  /** A NUL-terminated string of at most `max` bytes, without the NUL; null when it reaches past what is mapped. */
  readCString(address: Address, max = 4096): Uint8Array | null {
    const out: number[] = [];
    for (let i = 0; i < max; i++) {
      const byte = this.read(BigInt.asUintN(this.addressBits, address + BigInt(i)), 1);
      if (!byte) return null;
      if (byte[0] === 0) return Uint8Array.from(out);
      out.push(byte[0]!);
    }
    return null;
  }

  /**
   * The executable bytes from `address`: at most `max`, to the end of its window and, where the next one follows at once and is
   * executable too, one instruction further. A view or a copy; null when there are none.
   */
  code(address: Address, max: number): Uint8Array | null {
    const window = this.windowOf(address);
    if (!window || (FLAGS[window.permission] & NEEDS.execute) === 0) return null;
    const skip = Number(address - window.address);
    const here = this.host.u8.subarray(window.host + skip, window.host + Math.min(window.size, skip + max));
    if (here.length === max) return here;
    // An instruction may begin in one window and end in the next.
    const next = this.windowOf(address + BigInt(here.length));
    if (!next || (FLAGS[next.permission] & NEEDS.execute) === 0) return here;
    const more = Math.min(next.size, MAX_INSTRUCTION_BYTES, max - here.length);
    const both = new Uint8Array(here.length + more);
    both.set(here);
    both.set(this.host.u8.subarray(next.host, next.host + more), here.length);
    return both;
  }

  /** Counts a reason (1), or takes it back (-1), for accesses to a page (address / 4096) to leave the generated code. */
  mark(page: number, mark: PageMark, by: 1 | -1): void {
    const index = page % 0x1_0000;
    const counts = this.marks[mark];
    const count = (counts.get(index) ?? 0) + by;
    if (count === 0) counts.delete(index);
    else counts.set(index, count);
    const at = CODE_MAP + index;
    const others = this.host.u8[at]! & ~PAGE_MARK[mark];
    this.host.u8[at] = count === 0 ? others : others | PAGE_MARK[mark];
  }
}
