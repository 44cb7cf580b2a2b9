/**
 * Gives the entries of an image one of the ways to direct callers that their convention has. Owns
 * the stores; which ways there are, and what differs between them, stands in the convention's row.
 */
import { wordBytes } from '../bytes.js';
import { ElftraceError } from '../errors.js';
import { entryPoint } from '../program/entry-points.js';
import type { Sites } from '../sites/sites.js';
import type { StoreLedger } from './ledger.js';
import { conventionOf } from './entries.js';

/**
 * Gives the entries of an image a way to direct callers, in the image's own bytes.
 * @param ledger  gets the stores
 * @param way  a name of the convention's `directWays`
 * @throws ElftraceError 'usage' where the entries of the image cannot have it, 'no-runtime' where
 *   they know no direct callers
 */
export function setDirectVariant({ program }: Sites, way: string, ledger: StoreLedger): void {
  const { name, directWays } = conventionOf(program);
  const slot = directWays?.slots[way];
  if (directWays === null || slot === undefined) {
    throw new ElftraceError('usage', `the entries of the image (${name}) have no direct calls through ${way}`);
  }
  const { image } = program;
  const write = (symbol: string, word: number): void => {
    const place = entryPoint(program, symbol);
    if (place === null) {
      throw new ElftraceError('no-runtime', `the entries of the image have no ${symbol}`, { symbol });
    }
    const [at, bytes] = [image.fileOffsetOf(place.identity), wordBytes(word, image.header.endian)];
    ledger.note(at, bytes.length, { rule: 'R-DIR-4', site: -1, reason: `direct callers through ${way}` });
    image.bytes.set(bytes, at);
  };
  // The word has eight bytes; offsets need the lower four.
  write('elftrace_direct_slot', slot);
  if (way === directWays.built) return;
  for (const { symbol, word } of directWays.omits) write(symbol, word);
}
