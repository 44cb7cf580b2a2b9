/**
 * Over how much code the time of tier 0 is spread. Where it goes through hundreds of blocks of few
 * functions (state machines, large switches), the processor guesses few of the interpreter's jumps:
 * an instruction takes 1.6 times as long as in loops, and V8 makes the functions, all in one
 * module, for less than others. Where there are many functions as well (interpreters of a
 * distribution), most of them are not executed much more.
 */
import type { Address } from '../units.js';

/** Samples that are looked at, the last ones. */
const SAMPLES = 256;
/** So many different blocks among them are many, so many functions few. */
const MANY_BLOCKS = 90;
const FEW_FUNCTIONS = 10;

/** How often each address is among the last ones. */
class Last {
  private readonly ring: Address[] = [];
  private readonly counts = new Map<Address, number>();
  private next = 0;

  add(address: Address): void {
    const old = this.ring[this.next];
    if (old !== undefined) {
      const left = this.counts.get(old)! - 1;
      if (left === 0) this.counts.delete(old);
      else this.counts.set(old, left);
    }
    this.ring[this.next] = address;
    this.next = (this.next + 1) % SAMPLES;
    this.counts.set(address, (this.counts.get(address) ?? 0) + 1);
  }

  get different(): ReadonlyMap<Address, number> {
    return this.counts;
  }
}

export class Spread {
  private readonly blocks = new Last();
  private readonly entries = new Last();

  /** Tier 0 was found before the block at an address, of the function at `entry`. */
  add(address: Address, entry: Address): void {
    this.blocks.add(address);
    this.entries.add(entry);
  }

  /** Whether it goes through many blocks of few functions. */
  get isWide(): boolean {
    return this.blocks.different.size >= MANY_BLOCKS && this.entries.different.size <= FEW_FUNCTIONS;
  }

  /** Entries of the functions that tier 0 was found in. */
  get functions(): readonly Address[] {
    return [...this.entries.different.keys()];
  }
}
