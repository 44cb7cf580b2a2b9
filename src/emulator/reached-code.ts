/**
 * What tier 0 has reached of a program: blocks, where they lead, where functions begin. What it
 * never reached is not worth compiling.
 */
import { FunctionEntries } from './function-entries.js';
import type { KeptRegion } from './kept-regions.js';
import type { Terminator } from '../machine/ir.js';
import type { Address } from '../units.js';

/** The most instructions that are counted of a function. */
const MAX_COUNTED = 1000;
/** Functions of more instructions are counted and made in parts, where they have indirect jumps. */
const LARGE = 2500;
/** Bytes of records of an instruction, as most programs have them at most. */
const USUAL_BYTES = 48;
/** The most targets of one indirect jump that are kept. */
const MAX_TARGETS = 256;

/** A block that tier 0 has translated. */
export interface ReachedBlock {
  readonly address: Address;
  /** Its instructions, and the address of the last of them. */
  readonly count: number;
  readonly last: Address;
  readonly terminator: Terminator;
  /** Host addresses of its records: the first byte, and behind the last. */
  readonly header: number;
  readonly recordsEnd: number;
}

export class ReachedCode {
  private readonly blocks = new Map<Address, ReachedBlock>();
  /** Where blocks begin of regions that were taken, and that tier 0 need not have reached. */
  private readonly taken = new Set<Address>();
  private readonly functions = new FunctionEntries();
  /** Where indirect jumps and calls went, by their instructions. */
  private readonly jumps = new Map<Address, Set<Address>>();

  /**
   * Indirect jumps of large functions, each of whose targets counts as a function of its own: of an
   * interpreter what executes one of its instructions.
   */
  private readonly threaded = new Set<Address>();
  /** Entries of functions that have such jumps, and where these go. */
  private readonly parts = new Set<Address>();
  /** Instructions that tier 0 has translated. */
  private translated = 0;
  /** Functions that are no large ones with indirect jumps before it has translated so many. */
  private readonly small = new Map<Address, number>();

  /** @param isPlaced  where a region can be begun */
  constructor(private readonly isPlaced: (address: Address) => boolean) {}

  has(address: Address): boolean {
    return this.blocks.has(address) || this.taken.has(address);
  }

  /** A region was taken, which knows so much of the program. */
  addTaken({ entry, isFunction, region, targets }: KeptRegion): void {
    if (isFunction) this.functions.add(entry);
    for (const { block } of region.blocks) this.taken.add(block.address);
    for (const [instruction, places] of targets) {
      for (const each of places) this.addTarget(instruction, each);
      if (places.length > 0) continue;
      this.threaded.add(instruction);
      this.parts.add(entry);
    }
  }

  /** Tier 0 has translated a block. */
  add(block: ReachedBlock): void {
    // The program begins somewhere, and nothing calls that place.
    if (this.functions.isEmpty) this.functions.add(block.address);
    if (block.terminator.kind === 'call') this.functions.add(block.terminator.pc);
    this.blocks.set(block.address, block);
    this.translated += block.count;
  }

  /** The indirect call of the instruction went to an address. */
  addCall(instruction: Address, target: Address): void {
    this.functions.add(target);
    this.addTarget(instruction, target);
  }

  /** Where an indirect jump goes; false when that was known, or is too much. */
  addJump(instruction: Address, target: Address): boolean {
    const isNew = this.addTarget(instruction, target);
    // Blocks that are known become part of the function.
    if (isNew) this.small.clear();
    if (isNew && this.parts.size > 0 && this.parts.has(this.entryOf(instruction))) this.thread(instruction);
    return isNew && !this.threaded.has(instruction);
  }

  /** Where an indirect jump or call goes; false when that was known, or is too much. */
  private addTarget(instruction: Address, target: Address): boolean {
    const targets = this.jumps.get(instruction);
    if (!targets) {
      this.jumps.set(instruction, new Set([target]));
      return true;
    }
    if (targets.has(target) || targets.size >= MAX_TARGETS) return false;
    targets.add(target);
    return true;
  }

  /** Where the indirect jump or call of the instruction went, as far as a region goes on there. */
  targets(instruction: Address): readonly Address[] {
    return this.threaded.has(instruction) ? [] : [...(this.jumps.get(instruction) ?? [])];
  }

  isThreaded(instruction: Address): boolean {
    return this.threaded.has(instruction);
  }

  /**
   * Takes a large function with indirect jumps to pieces, once.
   * @returns entries of the pieces
   */
  split(entry: Address): ReadonlySet<Address> {
    if (this.parts.has(entry) || !this.isLarge(entry)) return new Set();
    const jumps = this.jumpsOf(entry);
    if (jumps.length === 0) {
      this.small.set(entry, Infinity);
      return new Set();
    }
    this.parts.add(entry);
    for (const each of jumps) this.thread(each);
    return new Set(jumps.flatMap((each) => [...this.jumps.get(each)!]));
  }

  /** Asked often: a function is counted again only where it may have grown as much as it lacks. */
  private isLarge(entry: Address): boolean {
    if (this.translated < (this.small.get(entry) ?? 0)) return false;
    const size = this.sizeOf(entry, LARGE);
    if (size < LARGE) this.small.set(entry, this.translated + LARGE - size);
    return size >= LARGE;
  }

  /** Indirect jumps of the function at an entry. */
  private jumpsOf(entry: Address): readonly Address[] {
    const jumps: Address[] = [];
    for (const { last, terminator } of this.blocks.values()) {
      if (terminator.kind === 'ind' && this.jumps.has(last) && this.entryOf(last) === entry) jumps.push(last);
    }
    return jumps;
  }

  private thread(instruction: Address): void {
    this.threaded.add(instruction);
    for (const each of this.jumps.get(instruction) ?? []) {
      this.functions.add(each);
      this.parts.add(each);
    }
  }

  /** The entry of the function that an address belongs to. */
  entryOf(address: Address): Address {
    return this.functions.of(address);
  }

  /**
   * Instructions from an address to the end of its function, without what is in regions.
   * @param most  are counted at least, where there are so many
   */
  sizeOf(entry: Address, most = MAX_COUNTED): number {
    const queue = [entry];
    const seen = new Set(queue);
    let size = 0;
    for (const address of queue) {
      const block = this.blocks.get(address);
      if (!block) continue;
      size += block.count;
      if (size > most) break;
      for (const each of this.waysOf(block)) {
        if (seen.has(each) || this.isPlaced(each)) continue;
        seen.add(each);
        queue.push(each);
      }
    }
    return size;
  }

  /**
   * How many times as long as usual tier 0 takes for an instruction of the block at an address, at
   * least 1. One of floating point has three times as many records, which call functions.
   */
  slownessOf(address: Address): number {
    const block = this.blocks.get(address);
    if (!block || block.count === 0) return 1;
    return Math.max(1, (block.recordsEnd - block.header) / block.count / USUAL_BYTES) ** 2;
  }

  /** Where a block leads, as far as it is known. */
  private waysOf({ terminator, last }: ReachedBlock): readonly Address[] {
    const isIndirect = (terminator.kind === 'ind' && !this.threaded.has(last)) || terminator.kind === 'calli';
    const indirect = isIndirect ? this.jumps.get(last) : undefined;
    const direct = directWays(terminator);
    return indirect ? [...direct, ...indirect] : direct;
  }
}

/** Where a block leads directly, behind a call where that returns to. */
function directWays(terminator: Terminator): readonly Address[] {
  // Behind a call its callee comes back; `pc` of others is where they go.
  if ('ret' in terminator) return [terminator.ret];
  if (!('next' in terminator)) return 'pc' in terminator ? [terminator.pc] : [];
  return 'pc' in terminator ? [terminator.next, terminator.pc] : [terminator.next];
}
