/**
 * Callbacks that use what the entries do not save: `verify` and `load --runtime` refuse the object,
 * unless it has the wrapper. Objects are made by the compilers; our own runtimes of all targets
 * pass.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { unsavedUses } from '../src/tracing/callback-code.js';
import { readElf } from '../src/elf/read.js';
import { loadDisassembler } from '../src/isa/disassembler.js';
import { load } from '../src/program/program.js';
import { runtimeObject } from '../src/runtime/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';
import { sampled } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-callbacks-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const compilers: readonly [target: string, gcc: string, flags: readonly string[]][] = [
  ['x86-64', 'gcc', []],
  ['ppc32', 'powerpc-linux-gnu-gcc', []],
  ['ppc64-elfv1', 'powerpc64-linux-gnu-gcc', ['-mno-vsx']],
  ['ppc64-elfv2-le', 'powerpc64le-linux-gnu-gcc', []],
  ['riscv64', 'riscv64-linux-gnu-gcc', []],
  ['arm64', 'aarch64-linux-gnu-gcc', []],
];

const SOURCE = `
void ftrace_caller(void) {}
void ftrace_stub(void) {}
volatile double sum;
unsigned long hits;
void counts(unsigned long ip, unsigned long parent) { hits += ip ^ parent; }
void adds(unsigned long ip, unsigned long parent) { sum = sum + 1.5; }
`;

test('C-FG-7: our own runtimes use general registers only, or have the wrapper', async () => {
  for (const arch of arches) {
    const disassembler = await loadDisassembler(arch.isa.text);
    for (const { name: flavour } of arch.conventions) {
      const bytes = runtimeObject(arch.target.id, flavour);
      if (bytes === null) continue;
      expect([arch.target.id, flavour, unsavedUses(load(readElf(bytes), arch), disassembler)]).toEqual([
        arch.target.id,
        flavour,
        [],
      ]);
    }
  }
});

describeWith(
  compilers.map(([, gcc]) => gcc),
  'objects with callbacks',
  () => {
    test.each(sampled(compilers, 2))(
      'C-FG-7: %s: verify and load refuse the callback, and take the object with a wrapper',
      (target, gcc, flags) => {
        const object = (name: string, source: string): string => {
          const path = join(folder, `${target}-${name}.o`);
          run(gcc, ['-O2', '-ffreestanding', '-fno-pie', '-w', ...flags, '-c', '-x', 'c', '-', '-o', path], source);
          return path;
        };
        const bad = object('bad', SOURCE);
        const { status, stdout } = elftrace(['verify', bad]);
        expect([status, stdout.split('\n').filter((line) => line.includes('C-FG-7'))]).toEqual([
          1,
          [expect.stringMatching(/\(adds\): error: the tracing entries do not save what '.+' changes/)],
        ]);
        const loaded = elftrace([
          'load',
          join(builtSamples, target, 'core.o'),
          '--runtime',
          bad,
          '-o',
          join(folder, 'never'),
        ]);
        expect([loaded.status, loaded.stderr]).toEqual([
          4,
          expect.stringMatching(/adds changes what the entries do not save.*\[C-FG-7\]/),
        ]);
        expect(elftrace(['verify', object('wrapped', `${SOURCE}void elftrace_vector_func(void) {}`)]).status).toBe(0);
        expect(elftrace(['verify', object('plain', SOURCE.replace('sum = sum + 1.5', 'hits++'))]).status).toBe(0);
      },
    );
  },
);
