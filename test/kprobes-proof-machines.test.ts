/**
 * Breakpoint path and jump path of every instruction of samples of PowerPC, RISC-V and arm64: the same events in the ring and the same final state as without
 * probes. Sites are served by ftrace, so registers that its entries may change, and words of the frame that they leave, are not compared.
 */
import { expect, test } from '@jest/globals';
import { readSample } from './support/pipeline.js';
import { prove, subjectOf } from './support/probe-proof.js';

const PPC = ['gpr0', 'gpr11', 'gpr12', 'ctr', 'trap', 'dar', 'dsisr'];
const RISCV = ['t0', 't1', 't3', 't4', 't5', 't6', 'status', 'badaddr', 'cause', 'orig_a0'];
const ARM64 = ['x9', 'x10', 'x11', 'x12', 'x13', 'x14', 'x15', 'x16', 'x17', 'pstate'];

const SAMPLES: readonly (readonly [name: string, scratch: readonly string[]])[] = [
  ['ppc32/program-mcount', PPC],
  ['ppc64-elfv1/program-mprofile', PPC],
  ['ppc64-elfv2-be/program-patchable', PPC],
  ['ppc64-elfv2-le/program-mprofile', PPC],
  ['riscv64/program-patchable-4', RISCV],
  ['arm64/program-patchable-2', ARM64],
];
const counts = (record: Readonly<Record<string, number>>): string =>
  Object.entries(record).sort().map(([code, count]) => `${count} ${code}`).join(', ') || 'none'; // prettier-ignore

test.each(SAMPLES)('T-KP-1 T-KP-32 every instruction of %s by breakpoint and by jump', (name, scratch) => {
  const proof = prove(subjectOf(readSample(name), scratch));
  expect(proof).not.toBeNull();
  const { instructions, places, refusedProbes, refusedJumps, executed, hits, jumps, jumpBatches, jumpHits } = proof!;
  process.stderr.write(
    `${name}: ${instructions} instructions, ${places.length} probed (refused: ${counts(refusedProbes)}), ${executed} executed, ` +
      `${hits} hits; ${jumps} jumps in ${jumpBatches} batches, ${jumpHits} hits (not optimised: ${counts(refusedJumps)})\n`,
  );
  expect(places.length).toBeGreaterThan(400);
  expect(jumps).toBeGreaterThan(350);
});
