/** Breakpoint path and jump path of every instruction of the x86-64 samples: the same events and the same final state as without probes. */
import { expect, test } from '@jest/globals';
import { readSample } from './support/pipeline.js';
import { prove, subjectOf } from './support/probe-proof.js';

const SAMPLES = ['program-fentry', 'program-mcount', 'program-clang-fentry'] as const;
const counts = (record: Readonly<Record<string, number>>): string =>
  Object.entries(record).sort().map(([code, count]) => `${count} ${code}`).join(', ') || 'none'; // prettier-ignore

test.each(SAMPLES)('T-KP-1 T-KP-32 every instruction of %s by breakpoint and by jump', (name) => {
  const begin = performance.now();
  const proof = prove(subjectOf(readSample(`x86-64/${name}`), ['r11', 'orig_ax']));
  expect(proof).not.toBeNull();
  const { instructions, places, refusedProbes, refusedJumps, executed, hits, jumps, jumpBatches, jumpHits } = proof!;
  process.stderr.write(
    `${name}: ${instructions} instructions, ${places.length} probed (refused: ${counts(refusedProbes)}), ${executed} executed, ` +
      `${hits} hits; ${jumps} jumps in ${jumpBatches} batches, ${jumpHits} hits (not optimised: ${counts(refusedJumps)}); ` +
      `${Math.round(performance.now() - begin)} ms\n`,
  );
  expect(places.length).toBeGreaterThan(400);
  expect(jumps).toBeGreaterThan(100);
});
