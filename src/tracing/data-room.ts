/**
 * The room for objects behind the slots of ops (`elftrace_data`): which bytes are free, which were
 * given back, and which of those a thread may still read. Knows sizes and addresses, no contents.
 */
import type { Address } from '../units.js';
import type { Step, StepProblem } from '../ftrace/index.js';
import { failed, type Room } from './image-memory.js';

type FreedKind = Extract<Step, { readonly kind: 'free' }>['object'];

export class DataRoom {
  private free: Room[];
  /** Taken out of use, and not said to be free yet. */
  private given: (Room & { readonly kind: FreedKind })[] = [];

  constructor(start: Address, end: Address) {
    this.free = end > start ? [{ address: start, size: Number(end - start) }] : [];
  }

  /** Whether pieces of these sizes fit, taken one after another. */
  has(sizes: readonly number[]): boolean {
    return this.fits(() => sizes.every((size) => typeof this.take(size) === 'bigint'));
  }

  /** What a try would find; the room is afterwards as it was. */
  fits(place: () => boolean): boolean {
    const before = this.free;
    this.free = [...before];
    const all = place();
    this.free = before;
    return all;
  }

  take(size: number): Address | StepProblem {
    const at = this.free.findIndex((each) => each.size >= size);
    if (at < 0) return failed('EPERM', `there is no room for ${size} bytes in elftrace_data`);
    const { address, size: whole } = this.free[at]!;
    if (whole === size) this.free.splice(at, 1);
    else this.free[at] = { address: address + BigInt(size), size: whole - size };
    return address;
  }

  /**
   * Gives room back; neighbours become one, so that a session that goes on for long does not run
   * out of it.
   */
  release(place: Room): void {
    const free = [...this.free, place].sort((a, b) => (a.address < b.address ? -1 : 1));
    this.free = [];
    for (const { address, size } of free) {
      const last = this.free[this.free.length - 1];
      if (last !== undefined && last.address + BigInt(last.size) === address) {
        this.free[this.free.length - 1] = { address: last.address, size: last.size + size };
      } else this.free.push({ address, size });
    }
  }

  /** Memory that is out of use; a step of the core says when no thread can be in it. */
  retire(kind: FreedKind, { address, size }: Room): void {
    this.given.push({ kind, address, size });
  }

  /** What became free with an object of a kind: hashes go with whatever named them. */
  freed(object: FreedKind): readonly Room[] {
    const isFreed = ({ kind }: { readonly kind: string }): boolean => kind === object || kind === 'hash';
    const freed = this.given.filter(isFreed);
    this.given = this.given.filter((each) => !isFreed(each));
    return freed;
  }
}
