/**
 * The collection of C programs under test/programs on all four PowerPC targets at three levels:
 * what they print here must be what they print under qemu-user. One executable per target and level
 * holds them all.
 */
import { expect, test } from '@jest/globals';
import { TARGETS } from './support/c-programs.js';
import { describeCollection, NAMES } from './support/program-tests.js';

test('there are at least 60 programs', () => {
  expect(new Set(NAMES).size).toBe(NAMES.length);
  expect(NAMES.length).toBeGreaterThanOrEqual(60);
});

describeCollection(TARGETS, { inStep: 'ppc64-elfv1' });
