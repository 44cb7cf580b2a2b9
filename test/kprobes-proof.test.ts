/**
 * Breakpoint path and jump path of every instruction of samples, on every machine: the same events and the same final state as without probes.
 * Registers that are left out: those that entries of ftrace do not keep, and words of a frame that no buffer fills.
 */
import { expect, test } from '@jest/globals';
import { readSample } from './support/pipeline.js';
import { batches, costOfForms, prove, subjectOf, survey } from './support/probe-proof.js';

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

test.each([
  'x86-64/program-fentry',
  'ppc32/program-mcount',
  'ppc64-elfv1/program-mprofile',
  'ppc64-elfv2-be/program-mprofile',
  'ppc64-elfv2-le/program-mprofile',
  'riscv64/program-patchable-8',
  'arm64/program-patchable-2',
])('T-KP-1 T-KP-32 a jump has no trap and costs fewer instructions than the cheapest breakpoint: %s', (name) => {
  const subject = subjectOf(readSample(name), { sites: false });
  const [all = []] = batches(survey(subject).places.filter(({ method }) => method === 'copy'));
  const places = all.slice(0, 120);
  const { jump, breakpoint } = costOfForms(subject, places);
  const perHit = ({ instructions, hits }: typeof jump): string => (instructions / hits).toFixed(1);
  process.stderr.write(
    `${name}: ${jump.hits} hits at ${places.length} places; instructions per hit: jump ${perHit(jump)}, breakpoint at least ` +
      `${perHit(breakpoint)} and ${(breakpoint.traps / breakpoint.hits).toFixed(2)} traps\n`,
  );
  expect(places.length).toBeGreaterThan(50);
  expect(jump.hits).toBeGreaterThan(100);
  expect(jump.traps).toBe(0);
  expect(breakpoint.hits).toBe(jump.hits);
  expect(breakpoint.traps).toBeGreaterThanOrEqual(breakpoint.hits);
  expect(jump.instructions).toBeLessThanOrEqual(breakpoint.instructions - breakpoint.hits);
});
