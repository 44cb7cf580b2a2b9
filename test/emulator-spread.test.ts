/** When time is spread over much code of few functions. */
import { describe, expect, test } from '@jest/globals';
import { Spread } from '../src/emulator/spread.js';

/** Samples in turn over so many blocks of so many functions. */
function samples(blocks: number, functions: number, count = 1000, spread = new Spread()): Spread {
  for (let i = 0; i < count; i++) spread.add(BigInt(0x1000 + (i % blocks) * 4), BigInt(0x8000 + (i % functions)));
  return spread;
}

describe('Spread', () => {
  test.each([
    ['a loop', 3, 1, false],
    ['an interpreter of thirty cases', 60, 5, false],
    ['a state machine', 200, 8, true],
    ['many functions', 200, 40, false],
  ] as const)('%s: %i blocks of %i functions', (_, blocks, functions, isWide) => {
    expect(samples(blocks, functions).isWide).toBe(isWide);
  });

  test('what was long ago is forgotten, functions too', () => {
    const spread = samples(200, 8);
    expect([spread.isWide, spread.functions.length]).toEqual([true, 8]);
    samples(3, 1, 255, spread);
    expect(spread.functions).toHaveLength(2);
    samples(3, 1, 1, spread);
    expect([spread.isWide, spread.functions]).toEqual([false, [0x8000n]]);
  });
});
