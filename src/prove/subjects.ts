/** The sites of two images that a proof is about. */
import type { ElfImage } from '../elf/image.js';
import type { Arch } from '../machine/arch.js';
import { load } from '../program/program.js';
import { findSites, type Sites } from '../sites/sites.js';
import type { SlotTable } from '../sites/tables.js';
import type { Address } from '../units.js';
import type { ProveOptions } from './options.js';

/** A site of one of the images, or of both. */
export interface Subject {
  readonly anchor: Address;
  /** Number in the patched image and in the original; -1: it is not in the table there. */
  readonly patched: number;
  readonly original: number;
}

/** The sites of both, by address. */
export function subjects(original: Sites, patched: Sites): Subject[] {
  const found = new Map<Address, Subject>();
  for (let i = 0; i < original.count; i++) {
    if (original.codeRange(i))
      found.set(original.anchor[i]!, { anchor: original.anchor[i]!, original: i, patched: -1 });
  }
  for (let i = 0; i < patched.count; i++) {
    if (!patched.codeRange(i)) continue;
    const anchor = patched.anchor[i]!;
    found.set(anchor, { anchor, original: found.get(anchor)?.original ?? -1, patched: i });
  }
  return [...found.values()].sort((a, b) => (a.anchor < b.anchor ? -1 : 1));
}

export function sitesOf(image: ElfImage, arch: Arch, { load: how, tableSections }: ProveOptions): Sites {
  return findSites(load(image, arch, how), tableSections === undefined ? {} : { tableSections });
}

/**
 * Sites of the patched image. Where its own calls and its record do not tell all that the original
 * has (a session with probes), those of the original do.
 */
export function patchedSites(original: Sites, found: Sites): Sites {
  const known = new Set(found.anchor.subarray(0, found.count));
  let isMissing = false;
  for (let i = 0; i < original.count && !isMissing; i++) {
    isMissing = original.codeRange(i) !== undefined && !known.has(original.anchor[i]!);
  }
  const isListed = ({ role, origin }: SlotTable): boolean =>
    role === 'sites' && origin !== 'code' && origin !== 'record';
  if (!isMissing || found.tables.some(isListed)) return found;
  return findSites(found.program, { original: original.program });
}
