/**
 * The collection of C programs under test/programs on x86-64, by gcc and clang at three levels:
 * what they print here must be what they print under qemu-user, and on this processor where it is
 * one.
 */
import { spawnSync } from './support/spawn.js';
import { expect } from '@jest/globals';
import { LEVELS, X86_TARGETS } from './support/c-programs.js';
import { hasFeatures, isX86Linux } from './support/processor.js';
import { describeCollection } from './support/program-tests.js';

/** What x86-64-v2 has beyond the base, by the names of /proc/cpuinfo. */
const V2 = ['cx16', 'lahf_lm', 'popcnt', 'pni', 'ssse3', 'sse4_1', 'sse4_2'];

describeCollection(X86_TARGETS, {
  inStep: 'x86-64',
  levels: (target) => (target.name === 'x86-64-v2' ? LEVELS.slice(1) : LEVELS),
  also: (path, expected, target) => {
    if (!isX86Linux || (target.name === 'x86-64-v2' && !hasFeatures(V2))) return;
    const native = spawnSync(path, [], { env: { A: 'B' }, maxBuffer: 1 << 28 });
    expect([native.status, native.stdout.toString('latin1') === expected.output]).toEqual([expected.end, true]);
  },
});
