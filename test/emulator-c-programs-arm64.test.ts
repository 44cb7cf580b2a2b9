/**
 * The collection of C programs on arm64 at three levels, with integer registers only, with LSE
 * atomics in line, and as GCC makes them by itself (structures copied by vector registers): what
 * they print here must be what they print under qemu-user.
 */
import { ARM64_TARGETS, LEVELS } from './support/c-programs.js';
import { describeCollection } from './support/program-tests.js';

describeCollection(ARM64_TARGETS, {
  inStep: 'arm64',
  // Atomics in line differ in one program: one level is enough.
  levels: (target) => (target.name === 'arm64-lse' ? ['2'] : LEVELS),
});
