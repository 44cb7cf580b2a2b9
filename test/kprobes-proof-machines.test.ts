/**
 * Breakpoint path and jump path of every instruction of samples of PowerPC, RISC-V and arm64: the
 * same events in the ring and the same final state as without probes. Sites are served by ftrace,
 * so registers that its entries may change, and words of the frame that they leave, are not
 * compared.
 */
import { expect, test } from '@jest/globals';
import { covering, isLong, sampled } from './support/long.js';
import { readSample } from './support/pipeline.js';
import { prove, runProbed, subjectOf, survey } from './support/probe-proof.js';

const PPC = ['gpr0', 'gpr11', 'gpr12', 'ctr', 'trap'];
const RISCV = ['t0', 't1', 't3', 't4', 't5', 't6', 'status', 'badaddr', 'cause', 'orig_a0'];
const ARM64 = ['x9', 'x10', 'x11', 'x12', 'x13', 'x14', 'x15', 'x16', 'x17', 'pstate'];

const SAMPLES: readonly (readonly [name: string, scratch: readonly string[]])[] = [
  ['ppc32/program-mcount', PPC],
  ['ppc64-elfv1/program-mprofile', PPC],
  ['ppc64-elfv2-be/program-patchable', PPC],
  ['ppc64-elfv2-le/program-mprofile', PPC],
  // Behind a call of -pg ra is what the call left.
  ['riscv64/program-rv64g-mcount', ['ra', ...RISCV]],
  ['arm64/program-patchable-2', ARM64],
];
const counts = (record: Readonly<Record<string, number>>): string =>
  Object.entries(record).sort().map(([code, count]) => `${count} ${code}`).join(', ') || 'none'; // prettier-ignore

// Of each front end one, or of each target.
const targetOf = (name: string): string => name.replace(isLong ? /\/.*/ : /[-\d/].*/, '');

test.each(
  sampled(
    covering(SAMPLES, ([name]) => targetOf(name)),
    2,
  ),
)('T-KP-1 T-KP-32 every instruction of %s by breakpoint and by jump', (name, scratch) => {
  const proof = prove(subjectOf(readSample(name), { scratch }));
  expect(proof).not.toBeNull();
  const { instructions, places, refusedProbes, refusedJumps, executed, hits, jumps, jumpBatches, jumpHits } = proof!;
  process.stderr.write(
    `${name}: ${instructions} instructions, ${places.length} probed (refused: ${counts(refusedProbes)}), ${executed} executed, ` +
      `${hits} hits; ${jumps} jumps in ${jumpBatches} batches, ${jumpHits} hits (not optimised: ${counts(refusedJumps)})\n`,
  );
  expect(places.length).toBeGreaterThan(400);
  expect(jumps).toBeGreaterThan(350);
});

// Calls of -pg are found without a table, and their nops are told from others by the prologue in
// front of them.
test.each(['riscv64/program-rv64g-mcount', 'riscv64/program-mcount'])(
  'K-ADDR-7 C-UPD-4: a probe on the store of the return address hides no site from the core: %s',
  (name) => {
    const subject = subjectOf(readSample(name));
    const { places } = survey(subject, (each) => each === 'leaf' || each === 'recurse');
    const sites = places.filter(({ method }) => method === 'ftrace');
    expect(sites.map((each) => each.name).sort()).toEqual(['leaf', 'recurse']);
    for (const list of [places, [...places].reverse()]) {
      const run = runProbed(
        subject,
        list.map(({ address }) => ({ define: `p 0x${address.toString(16)}` })),
      );
      expect(run.end.stop).toContain('exit');
      expect(run.session.probes().map(({ address }) => address)).toEqual(places.map(({ address }) => address));
      const heard = new Set(run.records.flatMap(({ kind, ip }) => (kind === 'probe' ? [ip] : [])));
      expect(sites.filter(({ address }) => !heard.has(address))).toEqual([]);
    }
  },
);
