/**
 * `elftrace cost`: the measurement behind private trampolines, on every target that can be traced here. The numbers are those of the emulator, so the same
 * everywhere; what must hold between them follows from the mechanism.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { elftrace } from './support/cli.js';
import { builtSamples, root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-cost-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

interface Cost {
  readonly target: string;
  readonly others: { readonly function: string; readonly calls: number };
  readonly rows: readonly {
    readonly others: number;
    readonly ways: readonly {
      readonly way: string;
      readonly calls: number;
      readonly instructionsPerCall: number;
      readonly listRuns: number;
      readonly trampoline: boolean;
    }[];
  }[];
}

const validate = new Ajv2020({ strict: true, strictTypes: false }).compile<Cost>(
  JSON.parse(readFileSync(join(root, 'schemas/cost.schema.json'), 'utf8')) as object,
);

function cost(path: string, more: readonly string[] = []): Cost {
  const { status, stdout, stderr } = elftrace(['cost', path, '--json', ...more]);
  expect([status, stderr]).toEqual([0, '']);
  const value: unknown = JSON.parse(stdout);
  if (!validate(value)) throw new Error(JSON.stringify(validate.errors));
  return value;
}

/** Instructions per call through a way, by number of other tracers. */
const column = ({ rows }: Cost, way: string): number[] =>
  rows.flatMap(({ ways }) => ways.filter((each) => each.way === way).map((each) => each.instructionsPerCall));

const COUNTS = ['--tracers', '0', '--tracers', '1', '--tracers', '2', '--tracers', '6'];

describe('T-X86-1 T-X86-2 T-X86-3: what tracers cost that do not want a call', () => {
  test.each([
    ['program-fentry', ['private trampoline, 2014', 'private trampoline']],
    ['program-mcount', ['private trampoline, 2014']],
    ['program-fentry-indirect', ['private trampoline, 2014', 'private trampoline']],
  ])('x86-64/%s', (name, privates) => {
    const found = cost(join(builtSamples, 'x86-64', name), COUNTS);
    expect(found.rows.map(({ others }) => others)).toEqual([0, 1, 2, 6]);
    const shared = column(found, 'shared entry');
    // With one tracer the entry calls it; with two it runs the list; each further one costs a test.
    expect(shared[1]! > shared[0]! + 50).toBe(true);
    expect(shared[2]! > shared[1]! + 20 && shared[3]! > shared[2]! + 80).toBe(true);
    for (const way of privates) {
      const own = column(found, way);
      // The one call of the other function adds less than an instruction to each.
      expect(Math.max(...own) - Math.min(...own)).toBeLessThan(1.5);
      expect(own[0]! < shared[0]! + 3).toBe(true);
    }
    const rest = found.rows.map(({ ways }) => ways.map(({ listRuns, calls }) => listRuns >= calls));
    expect(rest.map(([first]) => first)).toEqual([false, true, true, true]);
    expect(rest.every(([, ...own]) => own.every((each) => !each))).toBe(true);
    expect(
      found.rows.every(({ ways }) => ways.every(({ way, trampoline }) => trampoline === (way !== 'shared entry'))),
    ).toBe(true);
  });

  test.each([
    'ppc32/core-mcount',
    'ppc64-elfv1/core-mcount',
    'ppc64-elfv2-le/core-mprofile',
    'riscv64/program-patchable-8',
  ])('%s: the list only', (name) => {
    const found = cost(join(builtSamples, name), COUNTS);
    expect(new Set(found.rows.flatMap(({ ways }) => ways.map(({ way }) => way)))).toEqual(new Set(['shared entry']));
    const shared = column(found, 'shared entry');
    expect(shared[2]! > shared[1]! && shared[3]! > shared[2]!).toBe(true);
    expect(elftrace(['cost', join(builtSamples, name), '--tracers', '1']).stdout).toMatch(/shared entry only: /);
  });

  test('a loaded image: its own entries; with modules beyond 2 GiB no trampoline can serve all sites', () => {
    const sample = (name: string): string => join(builtSamples, 'x86-64', name);
    for (const [base, made] of [
      ['0x20000000', true],
      [null, false],
    ] as const) {
      const image = join(folder, `image-${String(made)}`);
      const files = [sample('core.o'), sample('far-one.ko'), sample('far-two.ko')];
      const at = base === null ? [] : ['--module-base', base];
      expect(elftrace(['load', ...files, ...at, '-o', image]).status).toBe(0);
      const { rows } = cost(image, ['--tracers', '1']);
      expect(rows[0]!.ways.map(({ way, trampoline }) => [way, trampoline])).toEqual([
        ['shared entry', false],
        ['private trampoline', made],
      ]);
    }
    expect(elftrace(['cost', join(folder, 'image-false'), '--tracers', '1']).stdout).toMatch(/out of its reach/);
  });

  test('what cannot be measured', () => {
    const program = join(builtSamples, 'x86-64/program-fentry');
    const fails = (args: readonly string[], status: number, message: RegExp): void => {
      const done = elftrace(['cost', ...args]);
      expect([done.status, done.stderr]).toEqual([status, expect.stringMatching(message)]);
    };
    fails([program, '--tracers', '16'], 2, /from 0 to 15/);
    fails([program, '--max-instructions', '100'], 4, /did not end by itself/);
    const on = join(folder, 'on');
    expect(elftrace(['patch', program, '--enable', '-o', on]).status).toBe(0);
    fails([on], 4, /the file is patched/);
    fails([join(builtSamples, 'x86-64/module-fentry.ko')], 2, /a relocatable file is loaded first/);
  });
});
