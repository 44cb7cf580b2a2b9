/** Returns under a condition, of PowerPC: where they are not taken, compiled code goes on. */
import { expect, test } from '@jest/globals';
import { ppc64ElfV2Be } from '../src/arch-ppc/index.js';
import { findRegion } from '../src/emulator/regions.js';
import type { BlockSource, Region } from '../src/emulator/regions.js';
import { ppcMachine } from './support/emulator.js';

const START = 0x1_0000n;
/** `cmpdi r3,0; beqlr; addi r3,r3,-1; b -12`, and at +0x10 `bl -16; blr`. */
const WORDS = [0x2c23_0000, 0x4d82_0020, 0x3863_ffff, 0x4bff_fff4, 0x4bff_fff1, 0x4e80_0020];
const bytes = Uint8Array.from(WORDS.flatMap((word) => [24, 16, 8, 0].map((shift) => (word >>> shift) & 255)));

const { emulation } = ppc64ElfV2Be;
if (emulation.kind !== 'ir') throw new Error('no emulation');
const { lifter } = emulation;
const source: BlockSource = {
  lift: (address, leaders) =>
    lifter.lift(bytes.subarray(Number(address - START)), address, {
      maxInstructions: 64,
      startsAt: (place) => leaders?.has(place) === true,
    }),
  excluded: () => false,
  targets: () => [],
  known: () => true,
  placed: () => false,
  simplify: ({ ops }) => ops,
};
const placesOf = (region: Region | null): bigint[] | undefined => region?.blocks.map(({ block }) => block.address);

test('a loop around a return that is not taken is one region', () => {
  const region = findRegion(START, source);
  expect(placesOf(region)).toEqual([START, START + 8n]);
  expect(region?.blocks.map(({ successors }) => successors)).toEqual([[1], [0]]);
});

test('a copy of a function that returns early goes up to that return', () => {
  const region = findRegion(START + 16n, source);
  expect(placesOf(region)).toEqual([START + 16n, START, START + 20n]);
  // The way behind it leads out of the region, the return to the block behind the call.
  expect(region?.blocks[1]?.successors).toEqual([-1, 2]);
});

test('both ways are the instructions of the manual in both tiers', () => {
  for (const tier of [0, 1] as const) {
    const machine = ppcMachine('be', [], { tier });
    machine.load(0x3_0000n, bytes, { permission: 'rx' });
    machine.setRegister('pc', 0x3_0000n);
    machine.setRegister('lr', 0x3_0014n);
    machine.setRegister('r3', 5n);
    // Five rounds of four instructions, and a comparison and a return.
    expect(machine.run({ budget: 22 })).toEqual({ kind: 'step-limit' });
    expect([machine.register('pc'), machine.register('r3'), machine.instructions]).toEqual([0x3_0014n, 0n, 22]);
  }
});
