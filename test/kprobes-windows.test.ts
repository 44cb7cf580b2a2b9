/**
 * Windows of optimised probes, entered by every branch of the image that leads into one: all
 * samples, and random programs whose functions have cold parts in a section of their own.
 * ELFTRACE_WINDOW_PROGRAMS and ELFTRACE_SEED: other numbers of programs
 * (`node build/scripts/soak-probes.js`).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { builtFolder as built } from '../scripts/build-samples.js';
import { buildPartitioned, RISCV_TARGETS, X86_TARGETS } from './support/c-programs.js';
import { describeWith } from './support/tools.js';
import { type Explored, exploreWindows } from './support/window-entries.js';
import { isWhole, longTest, times } from './support/long.js';

const PROGRAMS = Number(process.env['ELFTRACE_WINDOW_PROGRAMS'] ?? times(2, 1));
const SEED = Number(process.env['ELFTRACE_SEED'] ?? 1);

/** The same code with other tables around it. */
const REPEATED = /stripped|relocations|record|aligned|bypassed|\.(ko|o|a|so)(\.|$)|^pie/;

function add(sum: Explored, more: Explored): void {
  for (const key of ['windows', 'entered', 'taken', 'untaken', 'refused', 'inside', 'broken'] as const) {
    sum[key] += more[key];
  }
  sum.faults.push(...more.faults);
}

const nothing = (): Explored => ({
  ...{ windows: 0, entered: 0, taken: 0, untaken: 0, refused: 0, inside: 0, broken: 0 },
  faults: [],
});

function tell(name: string, { faults, ...numbers }: Explored): void {
  process.stderr.write(`${name}: ${JSON.stringify({ ...numbers, faults: faults.length })}\n`);
}

const MACHINES = [
  { target: 'x86-64', tools: ['objdump', 'gcc', 'csmith'], variants: [X86_TARGETS[0]!, X86_TARGETS[2]!] },
  {
    target: 'riscv64',
    tools: ['riscv64-linux-gnu-objdump', 'riscv64-linux-gnu-gcc', 'csmith'],
    variants: RISCV_TARGETS,
  },
] as const;

for (const { target, tools, variants } of MACHINES) {
  describeWith(tools, target, () => {
    test('X-2, K-WAY-1: every branch into a window of a sample, taken', () => {
      const sum = nothing();
      const all = readdirSync(join(built, target)).filter((name) => !REPEATED.test(name));
      const names = all.filter((_, i) => isWhole || i % 2 === 0);
      for (const name of names) {
        const path = join(built, target, name);
        add(sum, exploreWindows(path, new Uint8Array(readFileSync(path))));
      }
      tell(`${target}: ${names.length} samples`, sum);
      expect(sum.faults).toEqual([]);
      expect(sum.windows).toBeGreaterThan((1000 * names.length) / all.length);
      expect(sum.taken).toBeGreaterThan((100 * names.length) / all.length);
    });

    longTest(
      'X-2, K-WAY-1: every branch into a window of a program with cold parts, taken; those that are refused break it',
      () => {
        const sum = nothing();
        for (let i = 0; i < PROGRAMS; i++) {
          const path = buildPartitioned(variants[i % variants.length]!, SEED + i);
          const found = exploreWindows(path, new Uint8Array(readFileSync(path)));
          if (found.faults.length > 0) process.stderr.write(`${path}: seed ${SEED + i}\n`);
          add(sum, found);
        }
        tell(`${target}: ${PROGRAMS} programs from seed ${SEED}`, sum);
        expect(sum.faults).toEqual([]);
        expect(sum.taken).toBeGreaterThan(20 * PROGRAMS);
        // What leads into the middle comes from cold parts, and is seen to break what it leads
        // into.
        expect(sum.inside).toBeGreaterThan(0);
        // Half of a jump of RISC-V is an instruction that does no harm, now and then.
        expect(sum.broken).toBeGreaterThan(0.95 * sum.inside);
      },
    );
  });
}
