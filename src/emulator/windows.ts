/**
 * The windows of guest memory by address, and which of them the generated code can name. A process
 * may have tens of thousands of mappings, the descriptors of the generated code are a hundred:
 * where there are more windows than descriptors, the descriptors hold those that were accessed
 * last.
 *
 * Owns the order, the look-up by halves, the joining of neighbours and the count of areas as Linux
 * counts them; knows neither backing nor permissions' meaning.
 */
import type { Address } from '../units.js';

/** Bytes of a page, on all targets. */
export const PAGE = 4096n;

/** What the guest may do with a window. */
export type Permission = 'none' | 'r' | 'rw' | 'rx' | 'rwx';

/** Backing of one or more windows. */
export interface Allocation {
  readonly host: number;
  /** Bytes, a multiple of the host's unit. */
  readonly size: number;
  /** Windows that lie in it. */
  users: number;
}

export interface MutableWindow {
  address: Address;
  size: number;
  permission: Permission;
  name: string;
  guarded: boolean;
  /** Stores to marked pages of it leave the generated code. */
  marked: boolean;
  /** Host address of the first byte; 0 without backing. */
  host: number;
  /** null: it may not be accessed, and nothing was ever stored there. */
  allocation: Allocation | null;
  /** Index of its descriptor; -1: none. */
  descriptor: number;
}

export const endOf = ({ address, size }: Pick<MutableWindow, 'address' | 'size'>): Address => address + BigInt(size);

/** Whether two neighbours are one window: the same rights, and backing without a gap. */
function joins(a: MutableWindow, b: MutableWindow): boolean {
  if (a.permission !== b.permission || a.guarded !== b.guarded || a.allocation !== b.allocation) return false;
  if (a.marked !== b.marked) return false;
  return endOf(a) === b.address && (a.allocation === null || a.host + a.size === b.host);
}

/** Whether Linux counts two neighbours as one area: anonymous memory with the same rights. */
export function isOneArea(a: MutableWindow, b: MutableWindow): boolean {
  if (a.name !== b.name || a.name === 'file' || a.name === 'segment') return false;
  return a.permission === b.permission && a.guarded === b.guarded && endOf(a) === b.address;
}

export class WindowList {
  private list: MutableWindow[] = [];
  private areaCount = 0;

  get all(): readonly MutableWindow[] {
    return this.list;
  }

  /** Areas as Linux counts them (`vm.max_map_count`). */
  get areas(): number {
    return this.areaCount;
  }

  /**
   * Index of the first window that ends behind `address`; the number of windows when there is none.
   */
  private firstBehind(address: Address): number {
    let low = 0;
    let high = this.list.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.list[middle]!.address <= address) low = middle + 1;
      else high = middle;
    }
    // Windows do not overlap: only the last one that begins there may end behind it.
    const last = this.list[low - 1];
    return last !== undefined && endOf(last) > address ? low - 1 : low;
  }

  at(address: Address): MutableWindow | undefined {
    const found = this.list[this.firstBehind(address)];
    return found !== undefined && found.address <= address ? found : undefined;
  }

  /** The last window that begins in front of `address`. */
  below(address: Address): MutableWindow | undefined {
    const index = this.firstBehind(address);
    const found = this.list[index];
    return found !== undefined && found.address < address ? found : this.list[index - 1];
  }

  /** Windows with a byte of the range, ascending. */
  overlapping(address: Address, size: number): MutableWindow[] {
    const end = address + BigInt(size);
    const from = this.firstBehind(address);
    let to = from;
    while (to < this.list.length && this.list[to]!.address < end) to++;
    return this.list.slice(from, to);
  }

  /** True when a byte of the range is in a window. */
  overlaps(address: Address, size: number): boolean {
    const first = this.list[this.firstBehind(address)];
    return first !== undefined && first.address < address + BigInt(size);
  }

  /** Areas of the windows `from` to `to` (exclusive), each with its neighbour in front. */
  private countAreas(from: number, to: number): number {
    let count = 0;
    for (let i = Math.max(0, from); i < Math.min(to, this.list.length); i++) {
      if (i === 0 || !isOneArea(this.list[i - 1]!, this.list[i]!)) count++;
    }
    return count;
  }

  /** Puts `items` in place of `count` windows from `index` on. */
  private replace(index: number, count: number, items: readonly MutableWindow[]): void {
    this.areaCount -= this.countAreas(index, index + count + 1);
    this.list.splice(index, count, ...items);
    this.areaCount += this.countAreas(index, index + items.length + 1);
  }

  insert(window: MutableWindow): void {
    this.replace(this.firstBehind(window.address), 0, [window]);
  }

  remove(window: MutableWindow): void {
    this.replace(this.firstBehind(window.address), 1, []);
  }

  /** Changes windows of a range; what decides areas may change. */
  change(address: Address, size: number, body: (window: MutableWindow) => void): void {
    const from = this.firstBehind(address);
    const windows = this.overlapping(address, size);
    this.areaCount -= this.countAreas(from, from + windows.length + 1);
    windows.forEach(body);
    this.areaCount += this.countAreas(from, from + windows.length + 1);
  }

  /**
   * Joins neighbours from the one in front of the range to the one behind it.
   * @returns windows that are gone, each with the one that holds their bytes now
   */
  join(address: Address, size: number): { readonly gone: MutableWindow; readonly into: MutableWindow }[] {
    const joined: { gone: MutableWindow; into: MutableWindow }[] = [];
    const end = address + BigInt(size);
    for (let i = Math.max(1, this.firstBehind(address)); i < this.list.length;) {
      const [into, gone] = [this.list[i - 1]!, this.list[i]!];
      if (gone.address > end) break;
      if (!joins(into, gone)) {
        i++;
        continue;
      }
      this.areaCount -= this.countAreas(i - 1, i + 2);
      into.size += gone.size;
      if (into.allocation) into.allocation.users--;
      this.list.splice(i, 1);
      this.areaCount += this.countAreas(i - 1, i + 1);
      joined.push({ gone, into });
    }
    return joined;
  }
}
