/**
 * The regions that are there: by their entries, by where they can be begun, and by the bytes that
 * they depend on.
 */
import { REGION_TABLE } from './host.js';
import type { HostMemory } from './host.js';
import { LookupTable } from './lookup-table.js';
import { CODE_PAGE_BITS, MAX_INSTRUCTION_BYTES } from './memory.js';
import type { GuestMemory } from './memory.js';
import type { PlacedRegion } from './region-modules.js';
import type { RegionExtent } from './regions.js';
import type { Address } from '../units.js';

/** A region that is there. */
export interface Unit extends PlacedRegion {
  /** Pages that hold its code. */
  readonly pages: ReadonlySet<number>;
  /** Instructions that the machine had executed when it was made. */
  readonly made: number;
  misses: number;
  jumps: number;
  /** Exits of one kind at which it is looked at whether it is made anew. */
  exitsDue: number;
  /** Jumps went where the region does not know of. */
  hasNewTargets: boolean;
  dropped: boolean;
}

/** Where a region can be begun. */
export interface Place {
  readonly unit: Unit;
  /** Table index, and the selector above. */
  readonly packed: number;
}

export class RegionUnits {
  private readonly byEntry = new Map<Address, Unit>();
  private readonly places = new Map<Address, Place>();
  /** Places that compiled code finds by itself. */
  private readonly known: LookupTable;
  /** What `placeAt` was asked last, while no place came or went. */
  private lastAsked: Address | null = null;
  private lastPlace: Place | undefined;
  private readonly byPage = new Map<number, Set<Unit>>();
  /** Units that hold an instruction, as far as they were looked for since one came or went. */
  private readonly covering = new Map<Address, readonly Unit[]>();

  constructor(
    host: HostMemory,
    private readonly memory: GuestMemory,
  ) {
    this.known = new LookupTable(host, REGION_TABLE);
  }

  get size(): number {
    return this.byEntry.size;
  }

  /** All of them, as they are now. */
  all(): readonly Unit[] {
    return [...this.byEntry.values()];
  }

  /** The one whose own entry is at an address. */
  get(entry: Address): Unit | undefined {
    return this.byEntry.get(entry);
  }

  /** True where one can be begun. */
  isPlace(address: Address): boolean {
    return this.places.has(address);
  }

  /**
   * On the way into compiled code and out of it three ask for the same address, and to find it in a
   * large map takes as long as twenty instructions.
   */
  placeAt(address: Address): Place | undefined {
    if (address !== this.lastAsked) {
      this.lastPlace = this.places.get(address);
      this.lastAsked = address;
    }
    return this.lastPlace;
  }

  /** Compiled code finds the place by itself from now on. */
  publish(address: Address, { packed }: Place): void {
    this.known.set(address, packed);
  }

  /**
   * A unit that is there from now on.
   * @returns where it can be begun, and no other one could
   */
  add(unit: Unit): readonly Address[] {
    const { entry, region, index, pages } = unit;
    this.covering.clear();
    this.byEntry.set(entry, unit);
    for (const page of pages) {
      let set = this.byPage.get(page);
      if (!set) {
        set = new Set();
        this.byPage.set(page, set);
        this.memory.mark(page, 'code', 1);
      }
      set.add(unit);
    }
    const added: Address[] = [];
    for (const number of region.entries) {
      const { address } = region.blocks[number]!.block;
      if (number !== 0 && this.places.has(address)) continue;
      const place: Place = { unit, packed: index | ((number === 0 ? 0 : number + 1) << 16) };
      this.places.set(address, place);
      this.publish(address, place);
      added.push(address);
    }
    this.lastAsked = null;
    return added;
  }

  remove(unit: Unit): void {
    this.covering.clear();
    this.byEntry.delete(unit.entry);
    for (const number of unit.region.entries) {
      const { address } = unit.region.blocks[number]!.block;
      if (this.places.get(address)?.unit !== unit) continue;
      this.places.delete(address);
      this.known.remove(address);
    }
    this.lastAsked = null;
    for (const page of unit.pages) {
      const set = this.byPage.get(page);
      if (set?.delete(unit) && set.size === 0) {
        this.byPage.delete(page);
        this.memory.mark(page, 'code', -1);
      }
    }
  }

  /** Compiled code finds nothing by itself. */
  clearKnown(): void {
    this.known.clear();
  }

  /** Those that hold the instruction at an address. */
  at(address: Address): readonly Unit[] {
    const known = this.covering.get(address);
    if (known) return known;
    const found = [...(this.byPage.get(Number(address >> CODE_PAGE_BITS)) ?? [])];
    const units = found.filter(({ region }) => covers(region, address));
    this.covering.set(address, units);
    return units;
  }

  /** Those that depend on a byte of the range: what made a block end may lie behind it. */
  in(address: Address, size: number): readonly Unit[] {
    if (this.byPage.size === 0) return [];
    const end = address + BigInt(size);
    const reach = BigInt(MAX_INSTRUCTION_BYTES);
    const first = Number((address - reach) >> CODE_PAGE_BITS);
    const last = Number((end - 1n) >> CODE_PAGE_BITS);
    const out = new Set<Unit>();
    const see = (page: number): void => {
      for (const unit of this.byPage.get(page) ?? []) {
        if (unit.region.blocks.some(({ block }) => block.address < end && block.end + reach > address)) out.add(unit);
      }
    };
    if (last - first < this.byPage.size) for (let page = first; page <= last; page++) see(page);
    else for (const page of this.byPage.keys()) if (page >= first && page <= last) see(page);
    return [...out];
  }
}

/** True when an instruction of the region holds the address. */
export function covers(region: RegionExtent, address: Address): boolean {
  return region.blocks.some(({ block }) => address >= block.address && address < block.end);
}

/** Numbers of the pages that hold code of a region. */
export function pagesOf(region: RegionExtent): ReadonlySet<number> {
  const pages = new Set<number>();
  for (const { block } of region.blocks) {
    const last = block.end > block.address ? block.end - 1n : block.address;
    for (let page = block.address >> CODE_PAGE_BITS; page <= last >> CODE_PAGE_BITS; page++) pages.add(Number(page));
  }
  return pages;
}
