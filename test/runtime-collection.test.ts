/**
 * The collection of C programs under test/programs, traced everywhere by function and graph, prints
 * what it prints untraced: under qemu-user and here, on all PowerPC targets and through every
 * entry.
 */
import { writeFileSync } from 'node:fs';
import { test } from '@jest/globals';
import { combined, programPaths, scratch, TARGETS } from './support/c-programs.js';
import { checkTraced } from './support/runtime-check.js';
import { isLong, isWhole, sampled } from './support/long.js';
import { describeWith } from './support/tools.js';

const ENTRIES = [
  ['pg', 'ftrace_caller', ['both']],
  ['regs', 'ftrace_caller', ['graph']],
  ['regs', 'ftrace_regs_caller', ['both']],
] as const;

const source = scratch('all.c');
writeFileSync(source, combined(sampled(programPaths(), 3)), 'latin1');
let calls = 0;

/** Entries of targets; all of each take minutes, most of it the compilers'. */
const FEW: Readonly<Record<string, readonly (typeof ENTRIES)[number][]>> = {
  ppc32: ENTRIES.slice(2),
  'ppc64-elfv1': ENTRIES.slice(0, 1),
  'ppc64-elfv2-be': ENTRIES.slice(1, 2),
  'ppc64-elfv2-le': ENTRIES.slice(2),
};

for (const target of TARGETS) {
  describeWith([target.gcc, target.qemu], `the collection on ${target.name}`, () => {
    // ELFv2 in big-endian order goes through the entries of the others.
    if (!isWhole && !(isLong ? /ppc32|v1|le/ : /le/).test(target.name)) return;
    test.each(isWhole ? ENTRIES : (FEW[target.name] ?? ENTRIES))(
      'T-PPC-9, F-11: %s, %s, %j',
      (flavour, entry, tracers) => {
        calls += checkTraced({ target, flavour, entry, sources: [source], flags: ['-std=gnu11'] }, tracers, true);
      },
    );
  });
}

test('measured', () => {
  process.stderr.write(`traced collection: ${calls} calls on ${TARGETS.length} targets\n`);
});
