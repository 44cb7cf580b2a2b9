/**
 * The entries of RISC-V in programs that are traced everywhere: they print what they print untraced, under qemu-user and here, and every record
 * holds together. Every generation of sites, with and without compressed instructions.
 */
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { PROGRAMS, RISCV_FLAVOURS, TRACED_TARGETS } from './support/riscv-runtime.js';
import { checkTraced } from './support/runtime-check.js';
import { describeWith } from './support/tools.js';

const ENTRIES = RISCV_FLAVOURS.flatMap((flavour) =>
  (['ftrace_caller', 'ftrace_regs_caller'] as const).map((entry) => [flavour, entry] as const),
);

for (const target of TRACED_TARGETS) {
  describeWith([target.gcc, target.qemu], `traced programs on ${target.name}`, () => {
    test.each(ENTRIES)(
      'R-ENT-0..4, C-FG-1, C-FG-2, C-FG-3: arguments, results, nested functions, recursion: %s, %s',
      (flavour, entry) => {
        // Plain entries of G0 and G1 pass no frame.
        const hasFrame = entry === 'ftrace_regs_caller' || (flavour !== 'g0' && flavour !== 'g1');
        const tracers = hasFrame
          ? (['counter', 'function', 'graph', 'both'] as const)
          : (['counter', 'function'] as const);
        for (const level of ['0', '2']) {
          const sources = [join(PROGRAMS, 'runtime/features.c')];
          const build = { target, flavour, entry, level, sources, flags: ['-std=gnu11'] };
          expect(checkTraced(build, tracers, true)).toBeGreaterThan(500);
        }
      },
    );
  });
}
