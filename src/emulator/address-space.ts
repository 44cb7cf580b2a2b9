/**
 * The address space of a process: the stack, which grows, and where heap and mappings are.
 * Processes of which one waits for the other (`vfork`) share one.
 */
import { ElftraceError } from '../errors.js';
import type { Machine } from './machine.js';
import type { Address } from '../units.js';

export const PAGE = 4096n;
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

/** What `brk` and `mmap` keep of an address space; part of the snapshots of its machine. */
export class AddressSpace {
  heapEnd: Address;
  /** Nothing is free from here to the top of mappings: a search for room begins here. */
  mappingBottom: Address;
  /** Pages of mapped files that lie behind their ends: begin and end. */
  behindFiles: readonly (readonly [Address, Address])[] = [];
  /** What was mapped of files, the newest last. */
  private mapped: readonly FileMapping[] = [];
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
    const { heapEnd, mappingBottom, behindFiles, mapped } = this;
    return Object.assign(out, { heapEnd, mappingBottom, behindFiles, mapped });
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
    const { heapEnd, mappingBottom, behindFiles, mapped } = this;
    const putStackBack = this.stack.save();
    return () => {
      Object.assign(this, { heapEnd, mappingBottom, behindFiles, mapped });
      putStackBack();
    };
  }
}
