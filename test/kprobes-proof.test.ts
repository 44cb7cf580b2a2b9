/**
 * Breakpoint path and jump path of every instruction of samples, on every machine: the same events and the same final state as without probes.
 * Registers that are left out: those that entries of ftrace do not keep, and words of a frame that no buffer fills.
 */
import { expect, test } from '@jest/globals';
import { readSample } from './support/pipeline.js';
import { prove, subjectOf } from './support/probe-proof.js';

/** Sites are probed as well where entries keep every register that a frame has. */
const SAMPLES: readonly (readonly [name: string, scratch: readonly string[], sites: boolean, jumps: number])[] = [
  ['x86-64/program-fentry', ['r11', 'orig_ax'], true, 300],
  ['x86-64/program-mcount', ['r11', 'orig_ax'], true, 300],
  ['ppc32/program-mcount', [], false, 700],
  ['ppc64-elfv2-le/program-mprofile', [], false, 700],
  ['riscv64/program-patchable-8', [], false, 600],
  ['arm64/program-patchable-2', [], false, 500],
];
const counts = (record: Readonly<Record<string, number>>): string =>
  Object.entries(record).sort().map(([code, count]) => `${count} ${code}`).join(', ') || 'none'; // prettier-ignore

test.each(SAMPLES)(
  'T-KP-1 T-KP-32 every instruction of %s by breakpoint and by jump',
  (name, scratch, sites, least) => {
    const begin = performance.now();
    const proof = prove(subjectOf(readSample(name), { scratch, sites }));
    expect(proof).not.toBeNull();
    const { instructions, places, refusedProbes, refusedJumps, executed, hits, jumps, jumpBatches, jumpHits } = proof!;
    process.stderr.write(
      `${name}: ${instructions} instructions, ${places.length} probed (refused: ${counts(refusedProbes)}), ${executed} executed, ` +
        `${hits} hits; ${jumps} jumps in ${jumpBatches} batches, ${jumpHits} hits (not optimised: ${counts(refusedJumps)}); ` +
        `${Math.round(performance.now() - begin)} ms\n`,
    );
    expect(places.length).toBeGreaterThan(400);
    expect(jumps).toBeGreaterThan(least);
  },
);
