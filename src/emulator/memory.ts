/**
 * Guest memory: a few windows, each a contiguous range of guest addresses with contiguous backing
 * in the one WebAssembly.Memory and one permission.
 *
 *   guest   0x0000_0000_1000_0000 .. text   rx        backing   +0x00a0_0000
 *           0x0000_0000_1002_0000 .. data   rw                  +0x00a1_0000
 *           0xffff_ffff_8100_0000 .. kernel rx                  +0x00b0_0000
 *
 * An access costs one subtraction and one comparison against the window that it hit last time;
 * where in the 64-bit address space the window lies makes no difference. A miss looks through the
 * descriptors (127) one by one: what grows (heap, stack, mappings) is a window that is extended,
 * and neighbours with equal permission and contiguous backing are joined. Of more windows than
 * descriptors those have one that were accessed last (`touch`); an access to another leaves the
 * generated code once.
 *
 * An access across the end of a window is served here, byte by byte, when the neighbour allows it,
 * and faults at the first byte that may not be accessed otherwise. Nothing is written by a store
 * that faults.
 *
 * A window that may be written and executed serves stores in the generated code only where no
 * translated code lies (the page map); windows that may only be executed cannot be written by the
 * guest at all. Writes by the host go through `write`, which reports them, so that translated code
 * of the pages is dropped.
 *
 * Watched ranges (hooks on memory, reservations of other CPUs) use the same path: while a window
 * holds one, its limits of the fast path are 0, so its accesses are resolved by the slower
 * function, which serves the pages that are not marked and leaves the generated code at those that
 * are. Windows without a watched range cost nothing.
 *
 * Backing is allocated in pages of 4 KiB and only grows; a range that is unmapped gives it back.
 * What may not be accessed has no backing until it may: programs reserve far more address space
 * than there is memory.
 */
import { CODE_MAP, CONTROL, MAX_WINDOWS, PAGE_MARK, roundUpBacking, WINDOW, WINDOW_FLAG } from './host.js';
import type { HostMemory } from './host.js';
import { endOf, isOneArea, type MutableWindow, type Permission, WindowList } from './windows.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';

export type AccessKind = 'read' | 'write' | 'execute';

/**
 * The longest instruction of any machine: an instruction may begin in one line or window and end in
 * the next.
 */
export const MAX_INSTRUCTION_BYTES = 16;

/**
 * Code map granularity and the unit of dropping translated code, bytes. Not the guest's page size.
 */
export const CODE_PAGE_BITS = 12n;

/** A contiguous range of guest memory with one permission. */
export interface Window {
  readonly address: Address;
  readonly size: number;
  readonly permission: Permission;
  readonly name: string;
  /** Indirect branches may enter at landing pads only. */
  readonly guarded: boolean;
}

export interface MapRequest {
  readonly address: Address;
  /** Bytes, at least 1. */
  readonly size: number;
  readonly permission: Permission;
  readonly name?: string;
  /** Bytes of backing to allocate, so that the window can be extended in place. */
  readonly reserve?: number;
  /**
   * Indirect branches may enter at landing pads only, on machines that have them (arm64: PROT_BTI).
   * Default false.
   */
  readonly guarded?: boolean;
  /**
   * Pages of it may be marked (`mark`, 'write'): what stores to them is told before it does
   * (`Machine.observeStores`). Default false.
   */
  readonly marked?: boolean;
}

const FLAGS: Readonly<Record<Permission, number>> = { none: 0, r: 1, rw: 3, rx: 5, rwx: 7 };
const NEEDS: Readonly<Record<AccessKind, number>> = { read: 1, write: 2, execute: 4 };
type PageMark = keyof typeof PAGE_MARK;

/**
 * What wants to know of changes. A store of the generated code to a page without marks is not
 * reported.
 */
export interface MemoryObserver {
  /** `bytes` are about to be written by `write`; the range is mapped. */
  beforeWrite(address: Address, bytes: Uint8Array): void;
  /**
   * `bytes`: written by `write`. `map`: windows or permissions changed. Translated code there is
   * stale.
   */
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

const descriptorPlace = (index: number): number => WINDOW.start + WINDOW.bytes * (index + 1);

const NOBODY: MemoryObserver = { beforeWrite: () => undefined, changed: () => undefined };

/** Most that is reserved below a mapping. */
const DOWN_RESERVE = 0x10_0000;

/** Descriptors for windows; the first is the empty window. */
const DESCRIPTORS = MAX_WINDOWS - 1;

/**
 * Most areas of a process. Source: Linux, `vm.max_map_count`, whose default has been this since
 * 2.4.
 */
const MAX_AREAS = 65_530;

/**
 * Why a mapping cannot be made. `areas`, `backing`: the limits of a process and of this emulator.
 */
export interface MapRefusal {
  readonly code: 'range' | 'overlap' | 'areas' | 'backing';
  readonly reason: string;
}

export class GuestMemory {
  private readonly list = new WindowList();
  /** By descriptor, the first of them descriptor 1. */
  private readonly resident: (MutableWindow | null)[] = [];
  /** Descriptor that is given away next where there are more windows. */
  private hand = 0;
  /** Descriptors no longer say what windows are. */
  private isStale = true;
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
    return this.list.all;
  }

  private get limit(): bigint {
    return 1n << BigInt(this.addressBits);
  }

  /**
   * Maps zeroed memory.
   * @throws ElftraceError 'usage' when the range is empty, wraps or overlaps a window, or areas or
   *   memory are used up
   */
  map(request: MapRequest): void {
    const refusal = this.tryMap(request);
    if (refusal !== null) {
      const { address, size } = request;
      throw new ElftraceError('usage', `mapping ${hex(address)}, ${hex(size)} bytes: ${refusal.reason}`, { address });
    }
  }

  /** True once a guarded window was mapped. */
  get anyGuarded(): boolean {
    return this.everGuarded;
  }

  /**
   * From the first guarded window on all code keeps track of indirect branches: what was translated
   * before does not.
   */
  private noticeGuarded(guarded: boolean): void {
    if (!guarded || this.everGuarded) return;
    this.everGuarded = true;
    for (const { address, size } of [...this.list.all]) this.observer.changed(address, size, 'map');
  }

  /** As `map`, but returns why it cannot be done, or null when it is. */
  tryMap(request: MapRequest): MapRefusal | null {
    const { address, size, permission, name = '', reserve = 0, guarded = false, marked = false } = request;
    if (size <= 0 || address < 0n || address + BigInt(size) > this.limit) {
      return { code: 'range', reason: 'empty, or outside the address space' };
    }
    const other = this.list.overlapping(address, size)[0];
    if (other) return { code: 'overlap', reason: `overlaps the window at ${hex(other.address)}` };
    if (this.hasMostAreas) return { code: 'areas', reason: `${MAX_AREAS} areas are in use` };
    const window: MutableWindow = {
      ...{ address, size, permission, name, guarded, marked, host: 0, allocation: null, descriptor: -1 },
    };
    const above = reserve === 0 ? this.sameAbove(window) : null;
    if (above && this.growDown(above, size)) {
      if (above.descriptor >= 0) {
        this.describe(above, above.descriptor);
        this.onPublish();
      }
      this.settle(address, size, false);
      return null;
    }
    if (permission !== 'none' && !this.back(window, reserve, above)) {
      return { code: 'backing', reason: 'no memory is left' };
    }
    this.list.insert(window);
    this.settle(address, size, false);
    // Windows that are there keep their descriptors: making all anew takes longer than the mapping.
    if (this.list.all.length <= DESCRIPTORS) this.touch(address);
    this.noticeGuarded(guarded);
    return null;
  }

  /**
   * The window that begins where this one ends, where Linux would make one area of them; null
   * otherwise.
   */
  private sameAbove(window: MutableWindow): MutableWindow | null {
    const end = endOf(window);
    const above = this.list.at(end);
    return above?.address === end && above.allocation !== null && isOneArea(window, above) ? above : null;
  }

  /**
   * Mappings grow down: a window takes what its memory has left below it. False: there is not so
   * much.
   */
  private growDown(window: MutableWindow, size: number): boolean {
    const { allocation, host } = window;
    if (allocation === null || allocation.users > 1 || host - allocation.host < size) return false;
    this.host.u8.fill(0, host - size, host);
    this.list.change(window.address, 1, (each) => {
      each.address -= BigInt(size);
      each.size += size;
      each.host -= size;
    });
    return true;
  }

  /**
   * Gives a window memory, zeroed; false when nothing is left. `reserve`: more than it needs now,
   * above it; `above`: its upper neighbour, which says that mappings grow down here, and then more
   * is reserved below.
   */
  private back(window: MutableWindow, reserve = 0, above: MutableWindow | null = null): boolean {
    if (window.allocation) return true;
    if (above) {
      const size = roundUpBacking(Math.max(window.size, Math.min(2 * (above.allocation?.size ?? 0), DOWN_RESERVE)));
      const host = this.host.allocate(size);
      if (host !== -1) {
        window.host = host + size - window.size;
        window.allocation = { host, size, users: 1 };
        return true;
      }
    }
    const wanted = Math.max(window.size, reserve);
    let host = this.host.allocate(wanted);
    let size = wanted;
    if (host === -1 && wanted > window.size) {
      size = window.size;
      host = this.host.allocate(size);
    }
    if (host === -1) return false;
    window.host = host;
    window.allocation = { host, size: roundUpBacking(size), users: 1 };
    return true;
  }

  private releaseBacking({ allocation }: MutableWindow): void {
    if (allocation && --allocation.users === 0) this.host.release(allocation.host, allocation.size);
  }

  /**
   * Grows or shrinks the window that begins at `address`; false when another window is in the way
   * or nothing is left.
   */
  resize(address: Address, size: number): boolean {
    const window = this.list.at(address);
    if (window?.address !== address || size <= 0 || address + BigInt(size) > this.limit) return false;
    if (size < window.size) return this.unmap(address + BigInt(size), window.size - size);
    const old = window.allocation;
    if (old === null || this.list.overlaps(endOf(window), size - window.size)) return false;
    if (window.host + size > old.host + old.size || old.users > 1) {
      const from = window.host;
      const grown: MutableWindow = { ...window, size, allocation: null };
      if (!this.back(grown, Math.min(window.size * 2, 0x1000_0000))) return false;
      this.host.u8.copyWithin(grown.host, from, from + window.size);
      this.releaseBacking(window);
      window.host = grown.host;
      window.allocation = grown.allocation;
    } else {
      this.host.u8.fill(0, window.host + window.size, window.host + size);
    }
    this.list.change(address, 1, (each) => {
      each.size = size;
    });
    this.settle(address, size, true);
    return true;
  }

  /** True when a byte of the range is mapped. */
  isMapped(address: Address, size: number): boolean {
    return this.list.overlaps(address, size);
  }

  /** Cuts windows so that none crosses `address`. */
  private split(address: Address): void {
    const window = this.list.at(address);
    if (!window || window.address === address) return;
    const head = Number(address - window.address);
    if (window.allocation) window.allocation.users++;
    const tail: MutableWindow = {
      ...window,
      address,
      size: window.size - head,
      host: window.allocation ? window.host + head : 0,
      descriptor: -1,
    };
    this.list.change(window.address, 1, (each) => {
      each.size = head;
    });
    this.list.insert(tail);
    this.isStale ||= window.descriptor >= 0;
  }

  /**
   * Removes what is mapped in the range; false when that would make more areas than a process may
   * have.
   */
  unmap(address: Address, size: number): boolean {
    if (size <= 0) return true;
    const end = address + BigInt(size);
    const inside = this.list.at(address);
    const cutsHole = inside !== undefined && inside.address < address && endOf(inside) > end;
    if (cutsHole && this.list.areas >= MAX_AREAS) return false;
    this.split(address);
    this.split(end);
    for (const window of this.list.overlapping(address, size)) {
      this.list.remove(window);
      this.releaseBacking(window);
      this.leave(window);
    }
    this.settle(address, size, false);
    this.observer.changed(address, size, 'map');
    return true;
  }

  /** Windows with a byte of the range, ascending. */
  windowsIn(address: Address, size: number): readonly Window[] {
    return this.list.overlapping(address, size);
  }

  /**
   * The last window that begins in front of `address`, as far as it lies there; null: there is
   * none.
   */
  lastBelow(address: Address): { readonly address: Address; readonly end: Address } | null {
    const window = this.list.below(address);
    if (window === undefined) return null;
    const end = endOf(window);
    return { address: window.address, end: end < address ? end : address };
  }

  /** True when Linux would make no further area. */
  get hasMostAreas(): boolean {
    return this.list.areas > MAX_AREAS;
  }

  /** Bytes of memory that windows have. */
  get usedBytes(): number {
    return this.host.used;
  }

  /** True when so many bytes of memory can still be had. */
  hasRoom(size: number): boolean {
    return this.host.hasRoom(size);
  }

  /** How many bytes from `address` on are mapped without a gap, at most `size`. */
  mappedFrom(address: Address, size: number): number {
    let at = address;
    const end = address + BigInt(size);
    for (const window of this.list.overlapping(address, size)) {
      if (window.address > at) break;
      at = endOf(window);
    }
    return Number((at < end ? at : end) - address);
  }

  /**
   * Changes the permission of a range, and whether it is guarded; false when a byte of it is not
   * mapped or areas or memory are lacking.
   */
  protect(address: Address, size: number, permission: Permission, guarded = false): boolean {
    return this.tryProtect(address, size, permission, guarded) === null;
  }

  /** As `protect`, but returns why it cannot be done, or null when it is. */
  tryProtect(address: Address, size: number, permission: Permission, guarded: boolean): MapRefusal | null {
    if (this.mappedFrom(address, size) !== size) return { code: 'range', reason: 'a part of it is not mapped' };
    const cuts = [address, address + BigInt(size)].filter((place) => {
      const window = this.list.at(place);
      return window !== undefined && window.address !== place;
    });
    if (cuts.length > 0 && this.list.areas + cuts.length > MAX_AREAS) {
      return { code: 'areas', reason: `${MAX_AREAS} areas are in use` };
    }
    this.split(address);
    this.split(address + BigInt(size));
    const windows = this.list.overlapping(address, size);
    if (permission !== 'none' && !windows.every((each) => this.back(each))) {
      this.settle(address, size, true);
      return { code: 'backing', reason: 'no memory is left' };
    }
    this.list.change(address, size, (each) => {
      each.permission = permission;
      each.guarded = guarded;
      this.isStale ||= each.descriptor >= 0;
    });
    this.settle(address, size, false);
    this.noticeGuarded(guarded);
    this.observer.changed(address, size, 'map');
    return null;
  }

  // ----------------------------------------------------------------------------------- descriptors

  /** The window is gone. */
  private leave(window: MutableWindow): void {
    if (window.descriptor < 0) return;
    this.resident[window.descriptor] = null;
    window.descriptor = -1;
    this.isStale = true;
  }

  /** Joins what belongs together around a range, and writes descriptors where that is needed. */
  private settle(address: Address, size: number, stale: boolean): void {
    for (const { gone, into } of this.list.join(address, size)) {
      this.isStale ||= into.descriptor >= 0;
      this.leave(gone);
    }
    if (stale || this.isStale) this.publish();
  }

  /**
   * Gives the window of `address` a descriptor; false when it has one, and when there is no such
   * window.
   */
  touch(address: Address): boolean {
    const window = this.list.at(address);
    if (window === undefined || window.descriptor >= 0 || window.allocation === null) return false;
    const free = this.resident.indexOf(null);
    const index = free >= 0 ? free : this.resident.length < DESCRIPTORS ? this.resident.length : this.hand;
    if (index === this.hand) this.hand = (this.hand + 1) % DESCRIPTORS;
    const before = this.resident[index];
    if (before) before.descriptor = -1;
    this.resident[index] = window;
    window.descriptor = index;
    this.describe(window, index);
    this.host.u32[CONTROL.windowsEnd >> 2] = descriptorPlace(this.resident.length);
    this.onPublish();
    return true;
  }

  /**
   * Writes the descriptors. Predictions in records may now name another window; they are only
   * predictions.
   */
  private publish(): void {
    this.isStale = false;
    const { all } = this.list;
    if (all.length <= DESCRIPTORS) {
      this.resident.length = 0;
      for (const window of all) {
        window.descriptor = this.resident.length;
        this.resident.push(window);
      }
    }
    const { host, resident } = this;
    host.u8.fill(0, WINDOW.start, WINDOW.start + WINDOW.bytes * MAX_WINDOWS);
    resident.forEach((window, index) => {
      if (window) this.describe(window, index);
    });
    host.u32[CONTROL.windowsEnd >> 2] = descriptorPlace(resident.length);
    this.onPublish();
  }

  private describe(window: MutableWindow, index: number): void {
    const { host } = this;
    const at = descriptorPlace(index);
    const permission = FLAGS[window.permission];
    const checksWrites = (permission & 4) !== 0 || window.marked || this.isWatched(window, 'write');
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
  }

  private isWatched(window: Window, access: WatchedRange['access']): boolean {
    for (const each of this.watched) {
      if (each.access !== access || each.address >= window.address + BigInt(window.size)) continue;
      if (window.address < each.address + BigInt(each.size)) return true;
    }
    return false;
  }

  /**
   * Makes accesses of a kind to the range leave the generated code, until `unwatch` is called with
   * the same object.
   */
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
    return this.list.at(address);
  }

  /** The window that holds `address`. */
  windowAt(address: Address): Window | undefined {
    return this.windowOf(address);
  }

  /**
   * The first address of the range that may not be accessed so, or null. The range may wrap around
   * the address space.
   */
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
      if (!window?.allocation) return false;
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

  /**
   * Writes mapped bytes, whatever the permission; false, and nothing is written, when one is not
   * mapped.
   */
  write(address: Address, bytes: Uint8Array): boolean {
    if (!this.pieces(address, bytes.length, () => undefined)) return false;
    this.observer.beforeWrite(address, bytes);
    this.pieces(address, bytes.length, (host, length, done) => {
      this.host.u8.set(bytes.subarray(done, done + length), host);
    });
    this.observer.changed(address, bytes.length, 'bytes');
    return true;
  }

  /**
   * A view of a mapped range inside one window, whatever the permission: valid until memory is
   * mapped or changed.
   */
  view(address: Address, size: number): Uint8Array | null {
    const window = this.windowOf(address);
    if (!window?.allocation) return null;
    const skip = Number(address - window.address);
    if (skip + size > window.size) return null;
    return this.host.u8.subarray(window.host + skip, window.host + skip + size);
  }

  /** Windows as they are to the program: neighbours that differ in their backing only are one. */
  private runs(): MutableWindow[][] {
    const runs: MutableWindow[][] = [];
    for (const window of this.list.all) {
      const run = runs.at(-1);
      const last = run?.at(-1);
      const belongs =
        last !== undefined && isOneArea(last, window) && (last.allocation === null) === (window.allocation === null);
      if (run && belongs) run.push(window);
      else runs.push([window]);
    }
    return runs;
  }

  /**
   * Copies of all windows, by address; no bytes where there is no memory. How windows came to their
   * memory does not show: what did the same has the same windows.
   */
  save(): readonly SavedWindow[] {
    return this.runs().map((run) => {
      const { address, permission, name, guarded } = run[0]!;
      const size = run.reduce((sum, each) => sum + each.size, 0);
      const bytes = new Uint8Array(run[0]!.allocation ? size : 0);
      for (const each of run) {
        if (!each.allocation) continue;
        bytes.set(this.host.u8.subarray(each.host, each.host + each.size), Number(each.address - address));
      }
      return { address, size, permission, name, guarded, bytes };
    });
  }

  /**
   * Makes windows and bytes those of `save`. Only what differs is written and reported as changed,
   * in pages of 4096 bytes.
   * @throws ElftraceError 'usage' when there is no backing for them any more
   */
  restore(saved: readonly SavedWindow[]): void {
    const key = (each: Window): string =>
      `${each.address}:${each.size}:${each.permission}:${each.name}:${each.guarded}`;
    const wanted = new Set(saved.map(key));
    const present = new Set<string>();
    for (const run of this.runs()) {
      const whole = { ...run[0]!, size: run.reduce((sum, each) => sum + each.size, 0) };
      if (wanted.has(key(whole))) present.add(key(whole));
      else if (!this.unmap(whole.address, whole.size)) {
        throw new ElftraceError('usage', 'too many areas to restore a snapshot');
      }
    }
    for (const each of saved) {
      if (!present.has(key(each))) this.map(each);
      if (each.bytes.length > 0) this.restoreBytes(each);
    }
  }

  private restoreBytes(saved: SavedWindow): void {
    for (const window of this.list.overlapping(saved.address, saved.size)) {
      // It is `none` now, and was something else when it got its bytes.
      this.back(window);
      const skip = Number(window.address - saved.address);
      for (let at = 0; at < window.size; at += PAGE_BYTES) {
        const end = Math.min(window.size, at + PAGE_BYTES);
        const now = this.host.u8.subarray(window.host + at, window.host + end);
        const then = saved.bytes.subarray(skip + at, skip + end);
        if (firstDifference(now, then) === -1) continue;
        now.set(then);
        this.observer.changed(window.address + BigInt(at), end - at, 'bytes');
      }
    }
  }

  /**
   * A NUL-terminated string of at most `max` bytes, without the NUL; null when it reaches past what
   * is mapped.
   */
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
   * The executable bytes from `address`: at most `max`, to the end of its window and, where the
   * next one follows at once and is executable too, one instruction further. A view or a copy; null
   * when there are none.
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

  /**
   * Counts a reason (1), or takes it back (-1), for accesses to a page (address / 4096) to leave
   * the generated code.
   */
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
