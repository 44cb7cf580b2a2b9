/**
 * How often each function is called, and nothing else (RT-54): a stub for each site behind the
 * runtime, and the numbers in the files of threads, in the order of the sites' addresses.
 */
import { ByteView, concatBytes } from '../bytes.js';
import type { CounterStubs } from '../machine/native-tracing.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';
import { HEADER_BYTES } from './layout.js';
import { sitesInOrder } from './objects.js';
import type { ThreadHeader, TraceSource } from './reader.js';
import { refused } from './refuse.js';

const COUNT_BYTES = 8;
const PIECE = 1 << 16;

export interface CountedSites {
  /** What a site calls; undefined: it is not selected. */
  readonly targets: ReadonlyMap<number, Address>;
  readonly stubs: Uint8Array;
  /** Numbers in a file. */
  readonly counters: number;
}

/**
 * @param start      address of the first stub
 * @param selection  one byte per site, nonzero for selected
 */
export function countedSites(
  sites: Sites,
  { bytes, make }: CounterStubs,
  [start, entry]: readonly [Address, Address],
  selection: Uint8Array,
): CountedSites {
  const order = sitesInOrder(sites);
  const targets = new Map<number, Address>();
  const stubs: Uint8Array[] = [];
  for (const [number, site] of order.entries()) {
    if (selection[site] === 0) continue;
    const stub = start + BigInt(stubs.length * bytes);
    const made = make(stub, number * COUNT_BYTES, entry);
    if (made === null) throw refused('text-too-large', 'there are too many sites: their stubs lie too far apart');
    targets.set(site, stub);
    stubs.push(made);
  }
  return { targets, stubs: concatBytes(stubs), counters: order.length };
}

/** The numbers of a file, in order; those of one that was cut are left out. */
export function* countsOf(source: TraceSource, { endian, counters }: ThreadHeader): Generator<number> {
  const bytes = new Uint8Array(PIECE);
  const view = new ByteView(bytes, endian);
  for (let at = 0; at < counters;) {
    const wanted = Math.min(PIECE, (counters - at) * COUNT_BYTES);
    const size = source.read(HEADER_BYTES + at * COUNT_BYTES, bytes.subarray(0, wanted));
    for (let i = 0; i + COUNT_BYTES <= size; i += COUNT_BYTES) yield Number(view.word(i, COUNT_BYTES));
    if (size < wanted) return;
    at += size / COUNT_BYTES;
  }
}
