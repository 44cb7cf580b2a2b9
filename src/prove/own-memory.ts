/**
 * The tracer's own data in memory: where its ring and the blocks of its threads are, what stood
 * there when a trial began, and what of it changed since. Written down from `runtime/abi.ts`.
 */
import type { Program } from '../program/program.js';
import { graphEntryBytes, RING_HEADER, THREAD_HEAD_WORDS, THREAD_WORDS, threadBytes } from '../runtime/abi.js';
import type { Address } from '../units.js';
import { differing, PAGE_BYTES } from './layout.js';
import type { TracerMemory } from './state-writer.js';
import type { ProofWorld } from './world.js';
import type { Write } from './writes.js';

/** Where the tracer's data is. */
export type OwnPlaces = Omit<TracerMemory, 'word' | 'capacity' | 'recordBytes' | 'store' | 'aside'>;

export class OwnMemory {
  readonly word: 4 | 8;
  readonly ring: Address;
  readonly isLittle: boolean;
  private readonly threads: Address;
  /** Pages as they were when the trial began, where that is not as they are in the image. */
  private readonly before = new Map<Address, Uint8Array>();

  /**
   * @param own       ranges of the tracer
   * @param original  the other world of a trial
   */
  constructor(
    private readonly program: Program,
    private readonly own: readonly { readonly start: Address; readonly end: Address }[],
    private readonly places: OwnPlaces,
    private readonly original: ProofWorld,
  ) {
    this.word = program.image.wordBytes;
    this.isLittle = program.image.header.endian === 'little';
    this.ring = places.ring;
    this.threads = places.threads;
  }

  /** A trial begins: all is as the image has it. */
  forget(): void {
    this.before.clear();
  }

  /** What was changed until now is as it was when the trial began. */
  keep(world: ProofWorld): void {
    for (const page of world.changed()) this.before.set(page, world.read(page, PAGE_BYTES));
  }

  /** The data as states are written to it. */
  memory(world: ProofWorld): TracerMemory {
    const { word, ring, places, program } = this;
    return {
      ...places,
      word,
      capacity: this.number(world, ring + BigInt(RING_HEADER.capacity), 4),
      recordBytes: this.number(world, ring + BigInt(RING_HEADER.recordBytes), 4),
      store: (at, value, size) => {
        const bytes = Uint8Array.from({ length: size }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
        if (program.image.header.endian === 'big') bytes.reverse();
        for (const [i, byte] of bytes.entries()) this.pageAt(world, at + BigInt(i))[pageOffset(at + BigInt(i))] = byte;
        world.write(at, bytes);
      },
      aside: (at, value) => this.aside([world, this.original], at, value),
    };
  }

  /** Writes a word that belongs to neither image, for both. */
  private aside(worlds: readonly ProofWorld[], at: Address, value: bigint): boolean {
    const { word } = this;
    const isFree = (each: ProofWorld): boolean =>
      !each.layout.owns(at) && !each.layout.owns(at + BigInt(word - 1)) && each.readable(at, word) !== null;
    if (!worlds.every(isFree)) return false;
    for (const each of worlds) each.writeWord(at, BigInt.asUintN(8 * word, value));
    return true;
  }

  /** A page as it was when the trial began, for changes that belong to the state. */
  private pageAt(world: ProofWorld, address: Address): Uint8Array {
    const page = address & ~BigInt(PAGE_BYTES - 1);
    let bytes = this.before.get(page);
    if (bytes === undefined) this.before.set(page, (bytes = world.page(page).before.slice()));
    return bytes;
  }

  private isOwn(page: Address): boolean {
    return this.own.some(({ start, end }) => start < page + BigInt(PAGE_BYTES) && end > page);
  }

  number(world: ProofWorld, address: Address, size: number): bigint {
    return numberOf(world.read(address, size), this.program.image.header.endian);
  }

  /** As it was when the trial began. */
  was(world: ProofWorld, address: Address, size = this.word as number): bigint {
    const page = address & ~BigInt(PAGE_BYTES - 1);
    const skip = pageOffset(address);
    if (skip + size > PAGE_BYTES) {
      const bytes = Array.from({ length: size }, (_, i) => this.was(world, address + BigInt(i), 1));
      if (this.program.image.header.endian === 'little') bytes.reverse();
      return bytes.reduce((sum, byte) => (sum << 8n) | byte, 0n);
    }
    const bytes = this.before.get(page) ?? world.page(page).before;
    return numberOf(bytes.slice(skip, skip + size), this.program.image.header.endian);
  }

  blockAt(number: number): Address {
    return this.threads + BigInt(number * threadBytes(this.word));
  }

  headOf(block: Address, name: keyof typeof THREAD_WORDS): Address {
    return block + BigInt(THREAD_WORDS[name] * this.word);
  }

  entryAt(block: Address, index: bigint): Address {
    return block + BigInt(THREAD_HEAD_WORDS * this.word) + index * BigInt(graphEntryBytes(this.word));
  }

  numberOf(block: Address): bigint {
    return (block - this.threads) / BigInt(threadBytes(this.word));
  }

  /** A word that grows. */
  grown(world: ProofWorld, address: Address, by: bigint, what: string): Write {
    const size = this.word;
    return { address, size, holds: [BigInt.asUintN(8 * size, this.was(world, address) + by)], what };
  }

  /** The first byte that changed and that no callback writes; null: there is none. */
  strayWrite(world: ProofWorld, writes: readonly Write[]): Address | null {
    for (const page of world.changed()) {
      if (!this.isOwn(page)) continue;
      const { before, now } = world.page(page);
      const was = this.before.get(page) ?? before;
      if (Buffer.compare(was, now) === 0) continue;
      const inside = writes.map(({ address, size }) => ({ from: Number(address - page), size }));
      for (const i of differing(was, now)) {
        if (inside.some(({ from, size }) => i >= from && i < from + size)) continue;
        const address = page + BigInt(i);
        if (this.own.some(({ start, end }) => address >= start && address < end)) return address;
      }
    }
    return null;
  }
}

const pageOffset = (address: Address): number => Number(address & BigInt(PAGE_BYTES - 1));
function numberOf(bytes: Uint8Array, endian: 'little' | 'big'): bigint {
  const read = endian === 'little' ? bytes.slice().reverse() : bytes;
  return read.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}
