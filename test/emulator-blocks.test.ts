/**
 * Random instructions as one block and one by one: what a lifter knows of earlier instructions of a
 * block changes nothing.
 */
import { describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { oneBlock } from './support/one-block.js';
import { few, isLong, times } from './support/long.js';

/** Of each some 7,500 instructions. `scripts/soak-tiers.ts` goes on with more. */
const SEEDS = few([1, 2, 3]);
const SEQUENCES = times(2000, 2000, 250);

describe('a block does what its instructions do one by one', () => {
  for (const { target, emulation } of arches) {
    // The ELFv2 big-endian target has the front end of ELFv1.
    if (emulation.kind !== 'ir' || target.id === 'ppc64-elfv2-be') continue;
    // What PowerPC's targets share is seen on one of them.
    if (!isLong && /^ppc64-elfv1|^ppc32/.test(target.id)) continue;
    test(target.id, () => {
      const runs = SEEDS.map((seed) => oneBlock(emulation.lifter, seed, SEQUENCES));
      expect(runs.flatMap((each) => each.differing)).toEqual([]);
      for (const { instructions } of runs) expect(instructions).toBeGreaterThan(3 * SEQUENCES);
    });
  }
});
