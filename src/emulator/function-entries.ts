/**
 * Where functions of a program begin, as far as it has called them: the compiled tier counts by
 * function where time goes, and makes regions of functions. A guess that is wrong costs time, and
 * changes no result.
 */
import type { Address } from '../units.js';

export class FunctionEntries {
  /** Ascending. */
  private readonly list: Address[] = [];

  /** Index of the first entry above an address. */
  private above(address: Address): number {
    let low = 0;
    let high = this.list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.list[middle]! <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  add(entry: Address): void {
    const at = this.above(entry);
    if (at === 0 || this.list[at - 1] !== entry) this.list.splice(at, 0, entry);
  }

  get isEmpty(): boolean {
    return this.list.length === 0;
  }

  /** The entry of the function that an address belongs to: the last one that is not behind it. */
  of(address: Address): Address {
    return this.list[this.above(address) - 1] ?? address;
  }
}
