/**
 * The compiled tier: the tests of machines once more with everything compiled as soon as it is reached, and both tiers in step on
 * random programs to which everything happens that can happen to a program.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { defaults } from '../src/emulator/machine.js';
import { randomProgram } from './support/tiers.js';

/** Seeds of random programs, and slices of each. `scripts/soak-tiers.ts` runs more. */
const SEEDS = [1, 2, 3];
const SLICES = 120;

beforeAll(() => {
  defaults.tier = 1;
});
afterAll(() => {
  defaults.tier = 'auto';
});

const AGAIN = [
  'emulator-ir', 'emulator-machine', 'emulator-memory', 'emulator-cpus', 'emulator-gates', 'emulator-snapshot', 'lift-arm64',
]; // prettier-ignore
// Another query is another instance of the module, which registers its tests here.
for (const name of AGAIN) await import(new URL(`./${name}.test.js?tier=1`, import.meta.url).href);

describe('random programs in step on both tiers', () => {
  for (const { target, emulation } of arches) {
    // The ELFv2 big-endian target has the front end of ELFv1.
    if (emulation.kind !== 'ir' || target.id === 'ppc64-elfv2-be') continue;
    test(target.id, () => {
      const runs = SEEDS.map((seed) => randomProgram(target.id, emulation.lifter, seed, SLICES));
      expect(runs.flatMap((each) => each.differing)).toEqual([]);
      const sum = (of: 'instructions' | 'patches' | 'compiled'): number =>
        runs.reduce((all, each) => all + each[of], 0);
      expect(sum('instructions')).toBeGreaterThan(5000);
      expect(sum('compiled')).toBeGreaterThan(50);
      process.stderr.write(`${target.id}: ${sum('instructions')} instructions, ${sum('patches')} patches in step\n`);
    });
  }
});
