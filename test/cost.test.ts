/**
 * `elftrace cost`: the measurement behind private trampolines, on every target that can be traced
 * here. The numbers are those of the emulator, so the same everywhere; what must hold between them
 * follows from the mechanism.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
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
  readonly absent: readonly { readonly way: string; readonly reason: string }[];
}

const validate = new Ajv2020({ strict: true, strictTypes: false }).compile<Cost>(
  JSON.parse(readFileSync(join(root, 'schemas/cost.schema.json'), 'utf8')) as object,
);

function cost(path: string, more: readonly string[] = []): Cost {
  const { status, stdout, stderr } = elftrace(['cost', '--json', ...more, path]);
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
      found.rows.every(({ ways }) => ways.every(({ way, trampoline }) => trampoline === way.startsWith('private'))),
    ).toBe(true);
  });

  /** Every target: the ways that are there, and a word of the reason for each that is not. */
  test.each([
    [
      'x86-64/program-fentry',
      ['shared entry', 'private trampoline, 2014', 'private trampoline', 'direct call'],
      ['per-callsite ops: no entry that reads'],
    ],
    [
      'x86-64/program-mcount',
      ['shared entry', 'private trampoline, 2014'],
      [
        'private trampoline: entries of 2014 only',
        'per-callsite ops: no entry that reads',
        'direct call: no direct calls',
      ],
    ],
    [
      'ppc32/core-mcount',
      ['shared entry'],
      [
        'private trampoline: one entry serves all',
        'per-callsite ops: no site has room',
        'direct call: no direct calls',
      ],
    ],
    [
      'ppc64-elfv1/core-mcount',
      ['shared entry'],
      [
        'private trampoline: one entry serves all',
        'per-callsite ops: no site has room',
        'direct call: no direct calls',
      ],
    ],
    [
      'ppc64-elfv2-be/core-mprofile',
      ['shared entry'],
      [
        'private trampoline: one entry serves all',
        'per-callsite ops: no site has room',
        'direct call: no direct calls',
      ],
    ],
    [
      'ppc64-elfv2-le/core-mprofile',
      ['shared entry'],
      [
        'private trampoline: one entry serves all',
        'per-callsite ops: no site has room',
        'direct call: no direct calls',
      ],
    ],
    [
      'ppc32/program-patchable-1',
      ['shared entry', 'per-callsite ops', 'direct call'],
      ['private trampoline: one entry serves all'],
    ],
    [
      'riscv64/program-patchable-8',
      ['shared entry', 'direct call'],
      ['private trampoline: one entry serves all', 'per-callsite ops: no eight bytes of nops'],
    ],
    [
      'riscv64/program-patchable-8-4-aligned',
      ['shared entry', 'per-callsite ops', 'direct call'],
      ['private trampoline: one entry serves all'],
    ],
    [
      'arm64/program-patchable-4-2',
      ['shared entry', 'per-callsite ops', 'direct call'],
      ['private trampoline: per-callsite ops serve it'],
    ],
    [
      'arm64/program-patchable-2',
      ['shared entry', 'direct call'],
      ['private trampoline: per-callsite ops serve it', 'per-callsite ops: no site has room'],
    ],
    [
      'arm64/program-mcount',
      ['shared entry'],
      [
        'private trampoline: per-callsite ops serve it',
        'per-callsite ops: no site has room',
        'direct call: no direct calls',
      ],
    ],
  ] as const)(
    'C-DIR-7, A-CO-2, T-X86-31: %s: the ways that there are, the reason for the others',
    (name, ways, absent) => {
      const found = cost(join(builtSamples, name), ['--tracers', '0', '--tracers', '1', '--tracers', '6']);
      for (const row of found.rows) expect(row.ways.map(({ way }) => way)).toEqual(ways);
      expect(found.absent.map(({ way }) => way)).toEqual(absent.map((each) => each.split(': ')[0]));
      absent.forEach((each, i) => {
        expect(found.absent[i]!.reason).toContain(each.split(': ')[1]!);
      });
      const shared = column(found, 'shared entry');
      expect(shared[1]! > shared[0]! && shared[2]! > shared[1]! + 80).toBe(true);
      // The list asks everybody; a pointer in front of the function and a direct call ask nobody.
      // The call of the other function, once, is in the sums.
      for (const way of ['per-callsite ops', 'direct call']) {
        const own = column(found, way);
        if (own.length === 0) continue;
        expect(Math.max(...own) - Math.min(...own)).toBeLessThan(8);
        // PowerPC's entry looks for a direct caller in front of the callback and behind it.
        expect(own[0]! < shared[0]! + (name.startsWith('ppc') ? 9 : 6)).toBe(true);
        expect(
          found.rows.flatMap((row) => row.ways).filter((each) => each.way === way && each.listRuns >= each.calls),
        ).toEqual([]);
      }
      expect(found.rows.every((row) => row.ways.every(({ calls }) => calls > 10))).toBe(true);
    },
  );

  test('the table for people: what the list did, and what is not there', () => {
    const { stdout } = elftrace([
      'cost',
      '--tracers',
      '0',
      '--tracers',
      '1',
      join(builtSamples, 'arm64/program-patchable-4-2'),
    ]);
    const [, columns, none, one, reason] = stdout.split('\n');
    expect(columns).toMatch(/^other tracers +shared entry +per-callsite ops +direct call$/);
    expect(none).toMatch(/^0 +\d+\.\d +\d+\.\d +\d+\.\d$/);
    expect(one).toMatch(/^1 +\d+\.\d list +\d+\.\d +\d+\.\d$/);
    expect(reason).toMatch(/^no private trampoline: .*per-callsite ops/);
  });

  test('A-PLT-2: modules out of reach: direct callers through the entry and the ops', () => {
    const sample = (name: string): string => join(builtSamples, 'arm64', name);
    for (const era of ['callops', 'args'] as const) {
      const image = join(folder, `arm64-${era}`);
      const files = [sample('core.o'), sample('far-one.ko'), sample('far-two.ko')];
      expect(elftrace(['load', ...files, `--a64-era=${era}`, '-o', image]).status).toBe(0);
      const found = cost(image, ['--tracers', '0']);
      const names = era === 'callops' ? ['per-callsite ops', 'direct call'] : ['shared entry', 'direct call'];
      expect(found.rows[0]!.ways.map(({ way }) => way)).toEqual(names);
      expect(found.absent.map(({ way }) => way)).toEqual(
        era === 'callops' ? ['shared entry', 'private trampoline'] : ['private trampoline', 'per-callsite ops'],
      );
      const [near] = column(cost(join(builtSamples, 'arm64/program-patchable-4-2'), ['--tracers', '0']), 'direct call');
      // Four instructions where the branch reaches; through the entry more, with a frame many more.
      expect([near, column(found, 'direct call')[0]! > (era === 'callops' ? 6 : 20)]).toEqual([4, true]);
    }
  });

  test('a loaded image: its own entries; sites of modules beyond 2 GiB do not reach the trampoline', () => {
    const sample = (name: string): string => join(builtSamples, 'x86-64', name);
    for (const base of ['0x20000000', null]) {
      const image = join(folder, `image-${base ?? 'far'}`);
      const files = [sample('core.o'), sample('far-one.ko'), sample('far-two.ko')];
      const at = base === null ? [] : ['--module-base', base];
      expect(elftrace(['load', ...files, ...at, '-o', image]).status).toBe(0);
      const { rows } = cost(image, ['--tracers', '1']);
      const [shared, own] = rows[0]!.ways;
      expect([shared!.way, shared!.trampoline, own!.way, own!.trampoline]).toEqual([
        'shared entry',
        false,
        'private trampoline',
        true,
      ]);
      expect([own!.listRuns > 0, own!.listRuns < own!.calls]).toEqual([base === null, true]);
      expect(own!.instructionsPerCall < shared!.instructionsPerCall).toBe(true);
    }
    expect(elftrace(['cost', '--tracers', '1', join(folder, 'image-far')]).stdout).toMatch(
      /calls went through the list all the same: .*out of reach/,
    );
  });

  test('what cannot be measured', () => {
    const program = join(builtSamples, 'x86-64/program-fentry');
    const fails = (args: readonly string[], status: number, message: RegExp): void => {
      const done = elftrace(['cost', ...args]);
      expect([done.status, done.stderr]).toEqual([status, expect.stringMatching(message)]);
    };
    fails(['--tracers', '16', program], 2, /from 0 to 15/);
    fails(['--max-instructions', '100', program], 4, /did not end by itself/);
    const on = join(folder, 'on');
    expect(elftrace(['patch', program, '--enable', '-o', on]).status).toBe(0);
    fails([on], 4, /the file is patched/);
    fails([join(builtSamples, 'x86-64/module-fentry.ko')], 2, /a relocatable file is loaded first/);
  });
});
