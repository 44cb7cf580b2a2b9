/**
 * What an entry could break in particular: programs that are traced everywhere print what they
 * print untraced, under qemu-user and here.
 */
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { TARGETS } from './support/c-programs.js';
import { buildTraced, PROGRAMS, runTracedHere } from './support/runtime-harness.js';
import { isLong, isWhole, repeats } from './support/long.js';
import { checkTraced } from './support/runtime-check.js';
import { describeWith } from './support/tools.js';

const ENTRIES = [
  ['pg', 'ftrace_caller'],
  ['regs', 'ftrace_caller'],
  ['regs', 'ftrace_regs_caller'],
] as const;
const TRACERS = isWhole ? (['counter', 'function', 'graph', 'both'] as const) : repeats(['both', 'counter'] as const);
const LEVELS = isWhole ? (['0', '2'] as const) : (['2'] as const);

for (const [at, target] of TARGETS.entries()) {
  /** Each entry on one target, where not all run on all. */
  const entries = isLong ? ENTRIES : ENTRIES.slice(at % 3, (at % 3) + 1);
  describeWith([target.gcc, target.qemu], `traced programs on ${target.name}`, () => {
    test.each(entries)(
      'C-FG-1, C-FG-2, C-FG-3, P-ENT-1: arguments, results, nested functions, deep recursion, %s, %s',
      (flavour, entry) => {
        for (const level of LEVELS) {
          const sources = [join(PROGRAMS, 'runtime/features.c')];
          const counted = checkTraced({ target, flavour, entry, level, sources, flags: ['-std=gnu11'] }, TRACERS, true);
          expect(counted).toBeGreaterThan(500);
        }
      },
    );

    // Of GCC 12 on ELFv2 the areas precede the TOC set-up, where r12 is live (P-SITE-2), and calls
    // to the local entry pass them by.
    test.each(['ftrace_caller', 'ftrace_regs_caller'] as const)('P-ENT-3: patchable areas, %s', (entry) => {
      const sources = [join(PROGRAMS, 'runtime/features.c')];
      const build = { target, flavour: 'regs', entry, sources, flags: ['-std=gnu11'], patchable: true } as const;
      expect(checkTraced(build, TRACERS, true)).toBeGreaterThan(100);
    });

    // Under qemu only: the emulator has no floating point arithmetic on PowerPC.
    test.each(ENTRIES)(
      'C-FG-7: eight doubles, mixed and variable arguments, complex results, %s, %s',
      (flavour, entry) => {
        const sources = [join(PROGRAMS, 'runtime/doubles.c')];
        expect(
          checkTraced({ target, flavour, entry, level: '2', sources, flags: ['-std=gnu11'] }, TRACERS, false),
        ).toBeGreaterThan(10);
      },
    );

    test('C-FG-1: what does not fit the shadow stack is counted and not hooked', () => {
      const path = buildTraced({
        target,
        flavour: 'regs',
        tracer: 'graph',
        sources: [join(PROGRAMS, 'runtime/features.c')],
        flags: ['-std=gnu11'],
      });
      const { report } = runTracedHere(target, path);
      expect(report).toMatchObject({ deepest: 64, unpaired: 0, abandoned: 0 });
      expect(report['entries']).toBe(report['returns']);
      // deep(200): main and 63 of the 201 are on the stack, the rest and its leaves (but those of
      // the 63 hooked) are not.
      expect(report['overrun']).toBeGreaterThan(200);
    });
  });
}
