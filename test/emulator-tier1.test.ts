/**
 * The compiled tier: the tests of machines once more with everything compiled as soon as it is reached, and both tiers in step on
 * random programs to which everything happens that can happen to a program.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { defaults } from '../src/emulator/machine.js';
import type { Machine } from '../src/emulator/machine.js';
import { CODE, handMachine, s } from './support/emulator.js';
import type { HandInstruction } from './support/emulator.js';
import { differences, randomProgram } from './support/tiers.js';

/** Seeds of random programs, and slices of each. `scripts/soak-tiers.ts` runs more. */
const SEEDS = [1, 2];
const SLICES = 120;

beforeAll(() => {
  defaults.tier = 1;
});
afterAll(() => {
  defaults.tier = 'auto';
});

const AGAIN = [
  'emulator-ir', 'emulator-machine', 'emulator-memory', 'emulator-cpus', 'emulator-snapshot',
]; // prettier-ignore
// Another query is another instance of the module, which registers its tests here.
for (const name of AGAIN) await import(new URL(`./${name}.test.js?tier=1`, import.meta.url).href);

test('accesses that share a check: at both ends of a window, all or the right one is refused, as in tier 0', () => {
  const START = 0x2_0000n;
  const SIZE = 0x1000;
  const shapes: readonly (readonly HandInstruction[])[] = [
    [
      (b) => void b.load('ld64', s(1), s(0), 0n),
      (b) => void b.load('ld32u', s(2), s(0), 40n),
      (b) => void b.to(s(3), 'add', s(1), s(2)),
      (b) => void b.store('st64', s(3), s(0), -24n),
      (b) => void b.load('ld8s', s(4), s(0), 48n),
    ],
    [
      (b) => void b.store('st16', s(5), s(0), 8n),
      (b) => void b.to(s(0), 'add', s(0), 16n),
      (b) => void b.load('ld64', s(1), s(0), -32n),
      (b) => void b.load('ld64', s(6), s(0), 4n),
    ],
  ];
  for (const permission of ['rw', 'r'] as const) {
    for (const shape of shapes) {
      const pair = (): readonly Machine[] =>
        ([0, 1] as const).map((tier) => {
          defaults.tier = tier;
          const machine = handMachine(shape);
          machine.map({ address: START, size: SIZE, permission: 'rw' });
          machine.memory.write(
            START,
            Uint8Array.from({ length: SIZE }, (_, i) => i * 7),
          );
          machine.setRegister('s0', START + 0x800n);
          machine.run();
          machine.memory.protect(START, SIZE, permission);
          return machine;
        });
      let faults = 0;
      for (const end of [START, START + BigInt(SIZE)]) {
        let machines = pair();
        for (let near = -64n; near <= 64n; near += 2n) {
          // Accesses that miss often are no longer expected in one window.
          if (near % 16n === 0n) machines = pair();
          const stops = machines.map((machine) => {
            machine.setRegister('pc', CODE);
            machine.setRegister('s0', end + near);
            machine.setRegister('s5', 0x1234_5678n + near);
            return machine.run();
          });
          expect([near, stops[1]]).toEqual([near, stops[0]]);
          expect([near, differences(machines[0]!, machines[1]!)]).toEqual([near, []]);
          if (stops[0]!.kind === 'fault') faults++;
          expect(machines[1]!.compiledCounts?.compiled).toBe(1);
        }
        expect(differences(machines[0]!, machines[1]!, true)).toEqual([]);
      }
      expect(faults).toBeGreaterThan(50);
    }
  }
});

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
