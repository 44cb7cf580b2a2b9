/**
 * The address space of a process: the stack, which grows, and where heap and mappings are.
 * Processes of which one waits for the other (`vfork`) share one.
 */
import { ElftraceError } from '../errors.js';
import type { Machine } from '../emulator/machine.js';
import type { GuestMemory } from '../emulator/memory.js';
import type { SharedObject } from './shared-object.js';
import type { Permission } from '../emulator/windows.js';
import type { Address } from '../units.js';

/** The name of windows that processes would share. */
export const SHARED_NAME = 'shared';
/**
 * The stack grows on demand, from the first size by doubling to the limit; Linux's default limit.
 */
export const STACK_BYTES = 0x80_0000;
const STACK_FIRST_BYTES = 0x4_0000;

/**
 * The stack of a process, mapped as far as it was touched: at most STACK_BYTES down from `end`. How
 * far is part of the machine's snapshots.
 */
export class Stack {
  constructor(
    private readonly machine: Machine,
    /** Exclusive. */
    readonly end: Address,
    private size = STACK_FIRST_BYTES,
  ) {}

  /** Maps the first part. */
  map(): void {
    this.machine.map({
      address: this.end - BigInt(STACK_FIRST_BYTES),
      size: STACK_FIRST_BYTES,
      permission: 'rw',
      name: 'stack',
    });
  }

  /** Maps more of it if `address` is in it; false when it is not. */
  grow(address: Address): boolean {
    const bottom = this.end - BigInt(this.size);
    if (address >= bottom || address < this.end - BigInt(STACK_BYTES)) return false;
    let size = this.size * 2;
    while (address < this.end - BigInt(size)) size *= 2;
    const request = {
      address: this.end - BigInt(size),
      size: size - this.size,
      permission: 'rw',
      name: 'stack',
    } as const;
    if (this.machine.memory.tryMap(request) !== null) return false;
    this.size = size;
    return true;
  }

  /** The same of a machine that has a copy of the memory. */
  copy(machine: Machine): Stack {
    return new Stack(machine, this.end, this.size);
  }

  place(address: Address, bytes: Uint8Array): void {
    const { memory } = this.machine;
    if (memory.write(address, bytes)) return;
    if (!this.grow(address) || !memory.write(address, bytes)) {
      throw new ElftraceError('usage', 'arguments and environment do not fit the stack', { max: STACK_BYTES });
    }
  }

  save(): () => void {
    const { size } = this;
    return () => {
      this.size = size;
    };
  }
}

/** Where the parts of an address space begin. */
export interface SpaceLayout {
  /** Where the heap begins; page-aligned. */
  readonly heapStart: Address;
  /** Mappings grow down from here. */
  readonly mappingTop: Address;
}

interface FileMapping {
  readonly from: Address;
  readonly to: Address;
  readonly path: string;
  /** In the file, of `from`. */
  readonly offset: bigint;
}

/** Where an address space has what it shares. */
export interface SharedMapping {
  /** Multiples of pages. */
  readonly from: Address;
  readonly to: Address;
  readonly object: SharedObject;
  /** In the object, bytes, of `from`. */
  readonly offset: number;
  /** That of pages that a file grows to. */
  permission: Permission;
  /** What is stored there is stored for all. */
  readonly mayWrite: boolean;
  /** The version of the object that is here; -1: none. */
  seen: number;
}

/** Parts of an address space, none in another. */
export type Ranges = readonly (readonly [from: Address, to: Address])[];

/** The ranges with one more, or without it. */
export function ranged(ranges: Ranges, from: Address, to: Address, isIn: boolean): Ranges {
  const rest = ranges.flatMap(([low, high]): Ranges => {
    if (high <= from || low >= to) return [[low, high]];
    const parts: Ranges = [
      [low, from],
      [to, high],
    ];
    return parts.filter(([begin, end]) => begin < end);
  });
  return isIn && from < to ? [...rest, [from, to]] : rest;
}

/** What `brk` and `mmap` keep of an address space; part of the snapshots of its machine. */
export class AddressSpace {
  heapEnd: Address;
  /** Nothing is free from here to the top of mappings: a search for room begins here. */
  mappingBottom: Address;
  /** Pages of mapped files that lie behind their ends: begin and end. */
  behindFiles: readonly (readonly [Address, Address])[] = [];
  /** What was mapped of files, the newest last. */
  private mapped: readonly FileMapping[] = [];
  /** What others may see, or change. */
  shared: readonly SharedMapping[] = [];
  /** What is locked in memory. */
  locked: Ranges = [];
  /** So is what is mapped from now on. */
  locksNew = false;
  /** What is mapped without the right to read; it can be read all the same, as on most machines. */
  unread: Ranges = [];
  readonly heapStart: Address;
  readonly mappingTop: Address;

  constructor(
    readonly stack: Stack,
    layout: SpaceLayout,
  ) {
    this.heapStart = layout.heapStart;
    this.mappingTop = layout.mappingTop;
    this.heapEnd = layout.heapStart;
    this.mappingBottom = layout.mappingTop;
  }

  /** The same of a machine that has a copy of the memory. */
  copy(machine: Machine): AddressSpace {
    const out = new AddressSpace(this.stack.copy(machine), this);
    const { heapEnd, mappingBottom, behindFiles, mapped, unread } = this;
    const shared = this.shared.map((each) => ({ ...each }));
    return Object.assign(out, { heapEnd, mappingBottom, behindFiles, mapped, shared, unread });
  }

  /** Nothing of a range is shared any more. */
  unshare(from: Address, to: Address): void {
    this.shared = this.shared.flatMap((each) => {
      if (each.to <= from || each.from >= to) return [each];
      const parts: SharedMapping[] = [];
      if (each.from < from) parts.push({ ...each, to: from });
      if (each.to > to) parts.push({ ...each, from: to, offset: each.offset + Number(to - each.from) });
      return parts;
    });
  }

  /** Where in what is shared an address lies; null: it is not. */
  sharedAt(address: Address): { readonly object: SharedObject; readonly offset: number } | null {
    const found = this.shared.find(({ from, to }) => address >= from && address < to);
    return found ? { object: found.object, offset: found.offset + Number(address - found.from) } : null;
  }

  /**
   * Of what is mapped of a file from `from` to `to`, the first `size` bytes lie in the file; the
   * rest cannot be accessed. False: no memory is left.
   */
  showFile(memory: GuestMemory, from: Address, to: Address, size: bigint, permission: Permission): boolean {
    const end = size < 0n ? from : from + size;
    const hidden = this.behindFiles.filter(([low, high]) => low < to && high > from);
    const shown = hidden.reduce((least, [low]) => (low < least ? low : least), to);
    let done = true;
    if (end > shown) done = memory.protect(shown, Number(end - shown), permission);
    else if (end < shown) done = memory.protect(end, Number(shown - end), 'none');
    const others = this.behindFiles.filter((each) => !hidden.includes(each));
    this.behindFiles = end < to ? [...others, [end, to]] : others;
    return done;
  }

  /** Notes that a file was mapped. */
  noteFile(mapping: FileMapping): void {
    const isHidden = ({ from, to }: FileMapping): boolean => from >= mapping.from && to <= mapping.to;
    this.mapped = [...this.mapped.filter((each) => !isHidden(each)), mapping];
  }

  /** The file, and where in it, that an address was mapped from. */
  mappedAt(address: Address): { readonly path: string; readonly offset: bigint } | null {
    const found = this.mapped.findLast(({ from, to }) => address >= from && address < to);
    return found ? { path: found.path, offset: found.offset + (address - found.from) } : null;
  }

  save(): () => void {
    const { heapEnd, mappingBottom, behindFiles, mapped, locked, locksNew, unread } = this;
    const shared = this.shared.map((each) => ({ ...each }));
    const putStackBack = this.stack.save();
    return () => {
      const again = shared.map((each) => ({ ...each }));
      Object.assign(this, { heapEnd, mappingBottom, behindFiles, mapped, locked, locksNew, unread, shared: again });
      putStackBack();
    };
  }
}
