/**
 * Function names like a kernel's, as many as asked for, as filters see them. The same in every run.
 */
import type { FilterNames } from '../../src/sites/filter.js';

const PARTS = 'sched mutex tcp vfs ext4 net do sys lock read write page alloc timer'.split(' ');

/** Names of two to four parts and a number. */
export function kernelNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => {
    let state = (index * 2_654_435_761) >>> 0;
    const words = Array.from({ length: 2 + (index % 3) }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return PARTS[(state >>> 16) % PARTS.length]!;
    });
    return `${words.join('_')}_${index}`;
  });
}

/** One function in ten belongs to a module. */
export const filterTable = (names: readonly string[]): FilterNames => ({
  count: names.length,
  name: (index) => names[index]!,
  address: (index) => 0x1000n + 16n * BigInt(index),
  module: (index) => (index % 10 === 0 ? `m${index % 50}` : null),
  disabled: () => false,
  siteOffset: () => 4n,
  maxSiteOffset: 16n,
});
