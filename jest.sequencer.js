/**
 * The order of test files: those with long proofs, and those that compile programs for all
 * machines, first where these run, so that the workers end together. Jest itself knows durations of
 * earlier runs only, and a clean clone has none. Owns nothing but the order; the rest follows as
 * jest sorts it: failed before, slow before, large.
 */
import { readFileSync } from 'node:fs';
import TestSequencer from '@jest/test-sequencer';

const isLong = ({ path }) =>
  /(?:support\/(?:long|probe-csmith|c-programs)|scripts\/cookbook)\.js/.test(readFileSync(path, 'utf8'));

export default class Sequencer extends TestSequencer {
  async sort(tests) {
    const sorted = await super.sort(tests);
    if (process.env['ELFTRACE_LONG'] === undefined) return sorted;
    return [...sorted.filter(isLong), ...sorted.filter((test) => !isLong(test))];
  }
}
