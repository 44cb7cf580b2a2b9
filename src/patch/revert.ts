/** The way back of a patched file, through everything that was laid in for its patches. */
import type { Arch } from '../machine/arch.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { readLoadMap } from '../program/load-map.js';
import { originalCore, unload } from '../program/loader.js';
import { sha256, type Sha256 } from '../sha256.js';
import { undo } from './undo.js';

/**
 * The original of a patched file, byte for byte, trailing data and headers included.
 * @param beside  a record that was kept in a file of its own
 * @param arch    the machine: needed where the patch brought parts into the image, which are taken
 *                out again
 * @throws ElftraceError 'no-record' without a record; 'state-mismatch', with the places, when the
 *   bytes are not those that the
 *         record describes; 'bad-record' when the restored bytes do not have the recorded hash
 */
export function revert(
  image: ElfImage,
  beside: Uint8Array | null = null,
  hash: Sha256 = sha256,
  arch: Arch | null = null,
): Uint8Array {
  const { bytes, record } = undo(image, beside, hash);
  if (record.injected) {
    const loaded = readElf(bytes);
    const map = readLoadMap(loaded);
    return (map && originalCore(loaded, map, hash)) ?? bytes;
  }
  if (record.brought.length === 0) return bytes;
  if (arch === null) {
    throw new ElftraceError('usage', `taking ${record.brought.join(', ')} out of the image needs its machine: archOf`);
  }
  // The latest first: each is the last part of its image, so that its file comes back byte for
  // byte.
  return record.brought.reduceRight(
    (loaded, part) => unload(readElf(loaded), part, arch, { sha256: hash }).bytes,
    bytes,
  );
}
