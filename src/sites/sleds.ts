/**
 * Sleds of XRay, counted by kind from `xray_instr_map`. Owns the layout of its entries. Does not
 * look at the code of sleds.
 */
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';

/** Entries of 64-bit machines: sled, function (8 bytes each), kind, always, version, padding. */
const ENTRY_BYTES = 32;
const KIND_AT = 16;
const VERSION_AT = 18;
/** Both words count from their own places. */
const VERSION = 2;

/** Index = kind, as LLVM's XRay numbers them. */
const KINDS = ['at entries', 'at exits', 'at tail calls', 'at entries with arguments', 'custom events', 'typed events'];

/**
 * Sleds of a 64-bit file by kind.
 * @returns a phrase: `3 at entries, 2 at exits`; what is not of version 2 is said and not counted;
 *   null for a file without `xray_instr_map`
 * Source: M-PROD-2
 */
export function describeSleds(image: ElfImage): string | null {
  const maps = image.sectionsNamed('xray_instr_map');
  if (maps.length === 0) return null;
  const counts = KINDS.map(() => 0);
  for (const map of maps) {
    if (map.type === elf.SHT_NOBITS || map.size % ENTRY_BYTES !== 0)
      return 'not counted, the map is no list of entries';
    const bytes = image.contents(map);
    for (let at = 0; at < bytes.length; at += ENTRY_BYTES) {
      const kind = bytes[at + KIND_AT]!;
      if (bytes[at + VERSION_AT] !== VERSION || kind >= KINDS.length)
        return 'not counted, its entries are not of version 2';
      counts[kind]!++;
    }
  }
  const present = KINDS.flatMap((name, kind) => (counts[kind] === 0 ? [] : `${counts[kind]} ${name}`));
  return present.join(', ') || 'none';
}
