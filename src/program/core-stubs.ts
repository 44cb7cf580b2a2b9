/**
 * Stub areas for a linked core whose sites do not reach the tracer's entries (P-NEW-3, P-OFF-2):
 * where in the gaps of the address space they go. Writes no stub.
 */
import { alignUpBig, type Reach, reaches } from '../bits.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';
import type { AddressRange } from './load-map.js';

export interface CoreStubRequest {
  /** Places that must reach a stub. */
  readonly sites: readonly Address[];
  /** Where the tracer's entries are. */
  readonly entries: readonly Address[];
  readonly reach: Reach;
  /** What is occupied. */
  readonly ranges: readonly AddressRange[];
  /** Bytes of one area. */
  readonly areaBytes: number;
  readonly pageBytes: number;
  readonly limit: bigint;
}

/** Pages that are free and at an end of a gap, ascending. */
function freePages({ ranges, pageBytes, limit }: CoreStubRequest): Address[] {
  const page = BigInt(pageBytes);
  const sorted = [...ranges].sort((a, b) => (a.start < b.start ? -1 : 1));
  const pages = new Set<Address>();
  // The first page stays unmapped: it catches null pointers.
  let free = page;
  for (const range of [...sorted, { start: limit, end: limit }]) {
    const end = range.start & -page;
    if (end - free >= page) {
      pages.add(free);
      pages.add(end - page);
    }
    const next = alignUpBig(range.end, page);
    if (next > free) free = next;
  }
  return [...pages].sort((a, b) => (a < b ? -1 : 1));
}

/** True when a branch from `site` reaches every place of an area in that page. */
function serves({ reach, pageBytes }: CoreStubRequest, site: Address, page: Address): boolean {
  return reaches(reach, site, page) && reaches(reach, site, page + BigInt(pageBytes) - 4n);
}

/**
 * Pages for stub areas, each near enough to some of the sites that do not reach the entries
 * directly; empty when all do.
 * @throws ElftraceError 'branch-out-of-range' with the distance when a site reaches no free page
 */
export function coreStubPages(request: CoreStubRequest): Address[] {
  const { sites, entries, reach } = request;
  let left = sites.filter((site) => !entries.every((entry) => reaches(reach, site, entry)));
  const chosen: Address[] = [];
  if (left.length === 0) return chosen;
  const pages = freePages(request);
  while (left.length > 0) {
    let best: Address | null = null;
    let bestCount = 0;
    for (const page of pages) {
      const count = left.reduce((sum, site) => sum + (serves(request, site, page) ? 1 : 0), 0);
      if (count > bestCount) {
        best = page;
        bestCount = count;
      }
    }
    if (best === null) {
      const site = left[0]!;
      const entry = entries.find((each) => !reaches(reach, site, each))!;
      throw new ElftraceError(
        'branch-out-of-range',
        `core: the site at ${hex(site)} is ${hex(entry - site)} from the tracer's entry at ${hex(entry)}, a branch reaches ` +
          `[${hex(reach.min)}, ${hex(reach.max)}], and no free page for stubs is nearer`,
        { address: site, value: entry - site, min: reach.min, max: reach.max },
      );
    }
    chosen.push(best);
    const page = best;
    left = left.filter((site) => !serves(request, site, page));
  }
  return chosen;
}
