/**
 * Sites of which nothing needs to be said: most of any file. They are told in one loop over
 * columns, without objects, so that `verify` and plans look closely at the others alone.
 *
 * Whatever is not certain here is not plain: `judge` (verdicts.ts) decides about it, line by line
 * of its table. Plain is a site about which `judge` says `ok`; `test/verdicts.test.ts` compares.
 */
import { halves, HIGH, LOW } from '../elf/lookup.js';
import { checkedPads } from '../program/landing.js';
import type { Program } from '../program/program.js';
import type { Sites } from './sites.js';

/** Values of st_other. */
const OTHERS = 256;

const knownPlaces = new WeakMap<Sites, Uint8Array>();
const knownSites = new WeakMap<Sites, Uint8Array | null>();

/**
 * Nonzero for each site that names a place of its own which a site can be at, in a function of
 * known size (or in a file that names none): nothing is wrong with it but what its bytes say.
 */
export function plainPlaces(sites: Sites): Uint8Array {
  const known = knownPlaces.get(sites);
  if (known !== undefined) return known;
  const plain = new Uint8Array(sites.count);
  markPlaces(sites, plain);
  keepCovered(sites, plain);
  knownPlaces.set(sites, plain);
  return plain;
}

/** Places in code, aligned, and those of no other slot. */
function markPlaces({ range, anchor, program }: Sites, plain: Uint8Array): void {
  const alignBytes = program.arch.target.codeAlignBytes;
  const words = halves(anchor);
  let [before, beforeLow, beforeHigh] = [-1, 0, 0];
  for (let i = 0; i < plain.length; i++) {
    const here = range[i]!;
    const low = words[2 * i + LOW]!;
    const high = words[2 * i + HIGH]!;
    const isRepeated = here === before && low === beforeLow && high === beforeHigh;
    if (here >= 0 && !isRepeated && low % alignBytes === 0) plain[i] = 1;
    before = here;
    beforeLow = low;
    beforeHigh = high;
  }
}

/** Takes out what no function of known size covers, or whose function has a local entry. */
function keepCovered(sites: Sites, plain: Uint8Array): void {
  const { symbols, functions, namesFunctions } = sites.program;
  const { other } = symbols;
  const { labels } = functions;
  const hasLocalEntry = localEntries(sites.program);
  const sizes = halves(symbols.size);
  const hasLabels = labels.count > 0;
  for (let i = 0; i < plain.length; i++) {
    if (plain[i] === 0) continue;
    const symbol = sites.functionSymbol(i);
    const isSized = symbol >= 0 && (sizes[2 * symbol + LOW] !== 0 || sizes[2 * symbol + HIGH] !== 0);
    const isCovered = isSized && !(hasLabels && functions.isLabel(symbol));
    if (namesFunctions && !isCovered) plain[i] = 0;
    else if (symbol >= 0 && hasLocalEntry[other[symbol]!] !== 0) plain[i] = 0;
  }
}

/** Made once for each machine: a tree of modules asks for it file by file. */
const knownEntries = new WeakMap<object, Uint8Array>();

/** Nonzero for each st_other of functions that local calls enter behind their start. */
function localEntries({ arch: { abi } }: Program): Uint8Array {
  let entries = knownEntries.get(abi);
  if (entries === undefined) {
    entries = Uint8Array.from({ length: OTHERS }, (_, other) => (abi.localEntryOffset(other) === 0 ? 0 : 1));
    knownEntries.set(abi, entries);
  }
  return entries;
}

/**
 * Nonzero for each site that is `ok` without a look at its bytes: they were looked at when it was
 * found; LIKE where it also reads as the one in front of it. Null: none is, for the
 * file is one whose sites need more (a loaded image has several TOCs; functions need landing pads).
 */
export function plainSites(sites: Sites): Uint8Array | null {
  const known = knownSites.get(sites);
  if (known !== undefined) return known;
  const { program, quiet } = sites;
  const needsMore = program.loadMap !== null || checkedPads(program.image, program.arch) !== null;
  const plain = needsMore ? null : quiet.slice();
  if (plain !== null) keepWhere(plain, plainPlaces(sites));
  knownSites.set(sites, plain);
  return plain;
}

function keepWhere(plain: Uint8Array, places: Uint8Array): void {
  for (let i = 0; i < plain.length; i++) if (places[i] === 0) plain[i] = 0;
}
