/**
 * The order of test files: those with long proofs first where these run, so that the workers end
 * together. Jest itself knows durations of earlier runs only, and a clean clone has none. Owns
 * nothing but the order; the rest follows as jest sorts it: failed before, slow before, large.
 */
import { readFileSync } from 'node:fs';
import TestSequencer from '@jest/test-sequencer';

const hasLongProofs = ({ path }) => /support\/(?:long|probe-csmith)\.js/.test(readFileSync(path, 'utf8'));

export default class Sequencer extends TestSequencer {
  async sort(tests) {
    const sorted = await super.sort(tests);
    if (process.env['ELFTRACE_LONG'] !== '1') return sorted;
    return [...sorted.filter(hasLongProofs), ...sorted.filter((test) => !hasLongProofs(test))];
  }
}
