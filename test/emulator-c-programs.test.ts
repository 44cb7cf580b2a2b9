/**
 * The collection of C programs under test/programs, on every target at three levels: what they
 * print here must be what they print under qemu-user, and on this processor where it is one. One
 * executable per target and level holds them all.
 */
import { spawnSync } from './support/spawn.js';
import { expect, test } from '@jest/globals';
import { ARM64_TARGETS, type Level, LEVELS, RISCV_TARGETS, TARGETS, X86_TARGETS } from './support/c-programs.js';
import { isWhole } from './support/long.js';
import { hasFeatures, isX86Linux } from './support/processor.js';
import { type CollectionOptions, describeCollection, NAMES } from './support/program-tests.js';

test('there are at least 60 programs', () => {
  expect(new Set(NAMES).size).toBe(NAMES.length);
  expect(NAMES.length).toBeGreaterThanOrEqual(60);
});

/** What x86-64-v2 has beyond the base, by the names of /proc/cpuinfo. */
const V2 = ['cx16', 'lahf_lm', 'popcnt', 'pni', 'ssse3', 'sse4_1', 'sse4_2'];

const onThisProcessor: CollectionOptions['also'] = (path, expected, target) => {
  if (!isX86Linux || (target.name === 'x86-64-v2' && !hasFeatures(V2))) return;
  const native = spawnSync(path, [], { env: { A: 'B' }, maxBuffer: 1 << 28 });
  expect([native.status, native.stdout.toString('latin1') === expected.output]).toEqual([expected.end, true]);
};

/** Levels of targets that are another form of one before; the others are built at all but -Os. */
const FEW: Readonly<Record<string, readonly Level[]>> = {
  'ppc64-elfv2-be': ['2', 's'],
  rv64g: ['2'],
  rv64gc_zba_zbb_zbs: ['2', 's'],
  // Atomics in line differ in one program.
  'arm64-lse': ['2'],
  'arm64-plain': ['2', 's'],
  'x86-64-clang': ['2', 's'],
  'x86-64-v2': ['2'],
};
const levels = ({ name }: { readonly name: string }): readonly Level[] =>
  isWhole ? LEVELS : (FEW[name] ?? ['0', '2']);

describeCollection(TARGETS, { inStep: 'ppc64-elfv1', levels });
// Compressed, uncompressed and with bit manipulation.
describeCollection(RISCV_TARGETS, { inStep: 'rv64gc', levels });
// With integer registers only, with LSE atomics in line, and as GCC makes them by itself.
describeCollection(ARM64_TARGETS, { inStep: 'arm64', levels });
// By gcc and clang.
describeCollection(X86_TARGETS, { inStep: 'x86-64', levels, also: onThisProcessor });
