/**
 * Breakpoint path and jump path of every instruction of samples, on every machine: the same events
 * and the same final state as without probes; and what a hit costs in both forms.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { builtFolder as built } from '../scripts/build-samples.js';
import { readSample } from './support/pipeline.js';
import { batches, costOfForms, prove, subjectOf, survey } from './support/probe-proof.js';
import { isWhole, repeats } from './support/long.js';

/**
 * What entries of x86-64 leave changed; sites are probed as well where entries keep every other
 * register of a frame.
 */
const X86_SCRATCH = ['r11', 'orig_ax'];
/** Sites of the large model load r10 themselves. */
const LARGE_SCRATCH = [...X86_SCRATCH, 'r10'];
/** Jumps that there are at least, where it is not 300. */
const LEAST: Readonly<Record<string, number>> = {
  'ppc32/program-mcount': 700,
  'ppc64-elfv2-le/program-mprofile': 700,
  'riscv64/program-patchable-8': 600,
  'arm64/program-patchable-2': 500,
};

/**
 * The same code with other tables, or none, or sites around it; and one with functions whose sites
 * no call passes.
 */
const REPEATED = /stripped|relocations|record|fentry-nop|patchable-\d+-\d+$|aligned|bypassed/;

/**
 * Two of arm64: landing pads, and a last instruction. `kprobes-proof-machines.test.ts` has one of
 * each other machine.
 */
const SOME = ['x86-64/program-fentry', 'arm64/program-clang-mcount', 'arm64/program-mcount-bti'];

const ALL = ['x86-64', 'ppc32', 'ppc64-elfv1', 'ppc64-elfv2-be', 'ppc64-elfv2-le', 'riscv64', 'arm64'].flatMap(
  (target) =>
    readdirSync(join(built, target))
      .filter((name) => name.startsWith('program-') && !REPEATED.test(name))
      .sort()
      .map((name) => `${target}/${name}`),
);
const SAMPLES = isWhole ? ALL : repeats(SOME);

const counts = (record: Readonly<Record<string, number>>): string =>
  Object.entries(record).sort().map(([code, count]) => `${count} ${code}`).join(', ') || 'none'; // prettier-ignore

test.each(SAMPLES)('T-KP-1 T-KP-32 every instruction of %s by breakpoint and by jump', (name) => {
  const isX86 = name.startsWith('x86-64');
  const scratch = !isX86 ? [] : name.endsWith('large') ? LARGE_SCRATCH : X86_SCRATCH;
  const proof = prove(subjectOf(readSample(name), { scratch, sites: isX86 }));
  expect(proof).not.toBeNull();
  const { instructions, places, refusedProbes, refusedJumps, executed, hits, jumps, jumpBatches, jumpHits } = proof!;
  process.stderr.write(
    `${name}: ${instructions} instructions, ${places.length} probed (refused: ${counts(refusedProbes)}), ${executed} executed, ` +
      `${hits} hits; ${jumps} jumps in ${jumpBatches} batches, ${jumpHits} hits (not optimised: ${counts(refusedJumps)})\n`,
  );
  // The one about landing pads is small.
  const isSmall = name.endsWith('mixed');
  expect(places.length).toBeGreaterThan(isSmall ? 100 : 400);
  expect(jumps).toBeGreaterThan(isSmall ? 100 : (LEAST[name] ?? 300));
  expect(proof!.indeterminate).toBe(0);
});

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
