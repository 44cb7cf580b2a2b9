/**
 * The order of test files: those that take longest come first, so that the workers end together. Jest itself knows durations of earlier runs only, and a
 * clean clone has none. Owns nothing but the order; files that are not named here follow by size, as jest sorts them.
 */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import TestSequencer from '@jest/test-sequencer';

/** Half a minute and more, longest first. */
const LONGEST = [
  'emulator-tier1',
  'kprobes-csmith',
  'kprobes-csmith-riscv',
  'kprobes-csmith-ppc64',
  'kprobes-proof',
  'runtime-collection',
  'emulator-c-programs',
  'emulator-csmith',
  'session-live',
  'session-model',
  'arm64-runtime',
  'probes-race',
  'emulator-csmith-riscv',
  'kprobes-csmith-arm64',
  'runtime-riscv',
  'coverage-arm64',
  'coverage-ppc',
  'cli',
  'emulator-c-programs-riscv',
  'emulator-c-programs-x86',
  'emulator-c-programs-arm64',
  'runtime-programs',
  'samples',
  'cli-files',
];

export default class Sequencer extends TestSequencer {
  async sort(tests) {
    for (const name of LONGEST) {
      if (!existsSync(new URL(`test/${name}.test.ts`, import.meta.url))) throw new Error(`there is no ${name}.test.ts`);
    }
    const rank = (path) => {
      const at = LONGEST.indexOf(basename(path, '.test.js'));
      return at < 0 ? LONGEST.length : at;
    };
    const sorted = await super.sort(tests);
    return [...sorted].sort((a, b) => rank(a.path) - rank(b.path));
  }
}
