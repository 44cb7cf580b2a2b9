/**
 * The collection of C programs under test/programs, on every target: what they
 * print here must be what they print under qemu-user, and on this processor where it is one. One
 * executable per target and level holds them all.
 */
import { spawnSync } from './support/spawn.js';
import { expect, test } from '@jest/globals';
import {
  ARM64_TARGETS,
  type Level,
  LEVELS,
  type PpcTarget,
  RISCV_TARGETS,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { isLong, isWhole } from './support/long.js';
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

/** Targets that all others are near to. Both tiers execute the programs of two of them in step. */
const MAIN = ['ppc64-elfv1', 'rv64gc', 'arm64', 'x86-64'];
/** Those of them whose optimised code is that of the traced collection, too. */
const TRACED = ['ppc64-elfv1', 'arm64'];
/** Targets whose instructions compilers choose only where they optimise. */
const OPTIMISED = ['rv64gc_zba_zbb_zbs', 'x86-64-v2'];
/**
 * Nearly all the time goes to compilers, and to them most of it above -O0.
 */
const levels = ({ name }: { readonly name: string }): readonly Level[] => {
  if (isWhole) return LEVELS;
  if (!isLong) return ['0'];
  if (MAIN.includes(name)) return !TRACED.includes(name) ? ['2'] : ['1'];
  return OPTIMISED.includes(name) ? ['1'] : ['0'];
};

/** Targets whose instructions another one has, or the traced collection. */
const REPEATED = ['rv64g', 'ppc64-elfv2-be', 'arm64-plain'];
/** Both orders of bytes, and both sizes of words. */
const QUICK = [...MAIN, 'ppc32', 'ppc64-elfv2-le'];
const taken = (targets: readonly PpcTarget[]): readonly PpcTarget[] =>
  targets.filter(({ name }) => isWhole || (isLong ? !REPEATED.includes(name) : QUICK.includes(name)));

describeCollection(taken(TARGETS), { inStep: 'ppc64-elfv1', levels });
// Compressed, uncompressed and with bit manipulation.
describeCollection(taken(RISCV_TARGETS), { inStep: isWhole ? 'rv64gc' : '', levels });
// With integer registers only, with LSE atomics in line, and as GCC makes them by itself.
describeCollection(taken(ARM64_TARGETS), { inStep: isWhole ? 'arm64' : '', levels });
// By gcc and clang.
describeCollection(X86_TARGETS, { inStep: 'x86-64', levels, also: onThisProcessor });
