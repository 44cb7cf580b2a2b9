/** `elftrace run --call` and `--compare`, and the standard input. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { parseCall } from '../src/cli/call-expression.js';
import { compareRuns } from '../src/running/compare.js';
import { ElftraceError } from '../src/errors.js';
import { buildPpc, ppcGcc, PROGRAMS, writeSource } from './support/emulator.js';
import { cliPath, warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { ends, kinds, run } from './support/run.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);
const mprofile = sample('ppc64-elfv2-le/program-mprofile');

describeWith(kinds.map(ppcGcc), 'calls and comparisons', () => {
  test.each(kinds)('--call on %s', (kind) => {
    const path = ends(kind);
    const call = (expression: string): [number | null, string] => {
      const { status, stdout } = run(['--call', expression, path]);
      return [status, stdout];
    };
    expect(call('add( -5 , 0x2 )')[1]).toMatch(/ = -3 \(0xf+d\)\n$/);
    expect(call('eight(1,2,3,4,5,6,7,8)')[1]).toBe('eight(1,2,3,4,5,6,7,8) = 204 (0xcc)\n');
    expect(call('greet("wide \\"world\\"")')).toEqual([0, 'hi wide "world"\ngreet("wide \\"world\\"") = 12 (0xc)\n']);
    const crashed = run(['--call', 'crash(64)', path]);
    expect([crashed.status, crashed.json['signal']]).toEqual([139, 11]);
    expect(crashed.stderr).toMatch(/read fault at 0x40, instruction 0x[0-9a-f]+ \(crash/);
    expect(run(['--call', 'add(3,4)', path]).json).toMatchObject({ exit: 0, result: { value: '7', hex: '0x7' } });
  });

  test('--call: what cannot be called', () => {
    for (const expression of ['nothing(1)', 'add', 'eight(1,2,3,4,5,6,7,8,9)', 'greeting()']) {
      expect([expression, run(['--call', expression, ends('le')]).status]).toEqual([expression, 125]);
    }
    expect(run(['--call', 'module_run()', sample('ppc64-elfv2-le/module-mprofile.ko')]).status).toBe(125);
  });

  test('--compare: equal, different output, different status, lines ignored', () => {
    const other = at('other');
    writeFileSync(other, readFileSync(ends('le')));
    const equal = run(['--compare', other, ends('le'), 'p', 'x']);
    expect([equal.status, equal.json['exit'], equal.stderr]).toEqual([0, 0, '']);
    expect(equal.stdout).toMatch(/^equal: exit status 0, 2 lines of output, (\d+) and \1 instructions\n$/);
    // The 32-bit and the 64-bit program write the same.
    expect(run(['--compare', ends('32'), ends('be'), 'p', 'x']).status).toBe(0);
    const nonzero = run(['--compare', other, ends('le'), 'p', 'z']);
    expect([nonzero.status, nonzero.json['exit']]).toEqual([0, 1]);
    // Another greeting in the file.
    const bytes = readFileSync(ends('le'));
    bytes.write('SAME\n', bytes.indexOf('same\n'), 'latin1');
    writeFileSync(other, bytes);
    const different = run(['--compare', other, ends('le'), 'p', 'x']);
    expect(different.status).toBe(1);
    expect(different.stderr).toContain('stdout differs');
    expect(different.stderr).toContain('  here:     "same\\n"\n  original: "SAME\\n"\n');
    expect(different.json['compare']).toMatchObject({
      equal: false,
      difference: { what: 'stdout', line: 1, here: 'same\n', original: 'SAME\n' },
      original: { exit: 0 },
    });
    expect(run(['--compare', other, '--compare-ignore', '^(same|SAME)$', ends('le'), 'p', 'x']).status).toBe(0);
    expect(run(['--compare', other, '--compare-ignore', '(', ends('le'), 'p', 'x']).status).toBe(125);
    // A run that could not be done proves nothing.
    const unknown = run(['--compare', other, ends('le'), 'u']);
    expect([unknown.status, (unknown.json['compare'] as { equal: unknown }).equal]).toEqual([125, null]);
    // Equal ends by a signal are equal.
    expect(run(['--compare', other, ends('le'), 't']).status).toBe(0);
    expect(run(['--call', 'add(1,2)', '--compare', other, ends('le')]).status).toBe(0);
  });
});

describe('samples', () => {
  test('--compare: a patched program and its original', () => {
    const nops = at('nops');
    expect(elftrace(['patch', '--nop', mprofile, '-o', nops]).status).toBe(0);
    const plain = run(['--compare', mprofile, nops]);
    expect(plain.status).toBe(1);
    expect(plain.stderr).toContain('  here:     "trace=0\\n"\n  original: "trace=49\\n"\n');
    const ignoring = run(['--compare', mprofile, '--compare-ignore', '^trace=', nops]);
    expect([ignoring.status, ignoring.stderr]).toEqual([0, '']);
    expect(ignoring.stdout).toMatch(
      /^equal: exit status 0, 30 lines of output \(1 more ignored\), \d+ and \d+ instructions\n$/,
    );
  });

  test('--call: descriptors, TOC, position-independent images', () => {
    const results = [
      'ppc32/program-mcount',
      'ppc64-elfv1/program-mcount',
      'ppc64-elfv2-be/program-mcount',
      'ppc64-elfv2-le/pie-mprofile',
      'ppc64-elfv2-le/core-mprofile',
    ].map((name) => {
      const { status, stdout, stderr } = run(['--call', 'recurse(9)', sample(name)]);
      expect([name, status, stderr]).toEqual([name, 0, '']);
      return Number(BigInt.asUintN(32, BigInt(/\(0x([0-9a-f]+)\)/.exec(stdout)![0].slice(1, -1))));
    });
    expect(new Set(results).size).toBe(1);
  });
});

describeWith([ppcGcc('le')], 'standard input', () => {
  test('is the program’s, and both runs of a comparison get it', async () => {
    const source = writeSource(
      'cat.c',
      `#include "lib.h"
       int main(int argc, char **argv) {
         char text[7]; long n; (void)argv;
         while ((n = sys(3, 0L, text, 7L)) > 0) sys(4, 1L, text, n);
         return argc;
       }`,
    );
    const path = buildPpc('le', '1', [join(PROGRAMS, 'start.S'), source], ['-I', PROGRAMS]);
    const feed = (args: readonly string[]): Promise<[number | null, string]> =>
      new Promise((done) => {
        const child = spawn(process.execPath, [cliPath, 'run', ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
        let output = '';
        child.stdout.on('data', (data: Buffer) => (output += data.toString()));
        child.on('close', (status) => {
          done([status, output]);
        });
        child.stdin.write('first line\n');
        setTimeout(() => child.stdin.end('second line\n'), 300);
      });
    expect(await feed([path])).toEqual([1, 'first line\nsecond line\n']);
    const [status, text] = await feed(['--compare', path, path]);
    expect([status, text.replace(/\d+ and \d+/, 'N')]).toEqual([
      0,
      'equal: exit status 1, 2 lines of output, N instructions\n',
    ]);
  });
});

describe('parts', () => {
  test('call expressions', () => {
    expect(parseCall(' f ( ) ')).toEqual({ name: 'f', args: [] });
    expect(parseCall("f(1, -0x10, +7, 'a', '\\n', \"b,(\\\"c\\\\\")")).toEqual({
      name: 'f',
      args: [1n, -16n, 7n, 97n, 10n, 'b,("c\\'],
    });
    expect(parseCall('_ZN1a1bEv.part.0(18446744073709551615)').args).toEqual([0xffff_ffff_ffff_ffffn]);
    for (const bad of [
      '',
      'f',
      'f(',
      'f)',
      'f(1 2)',
      'f(1,)',
      'f(,1)',
      'f(x)',
      'f("x)',
      "f('ab')",
      'f("\\q")',
      'f(1.5)',
      '(1)',
    ]) {
      expect(() => parseCall(bad)).toThrow(ElftraceError);
    }
  });

  test('first differences', () => {
    const result = (stdout: string, end = 'exit status 0', stderr = '') => ({
      end,
      stdout: Buffer.from(stdout, 'latin1'),
      stderr: Buffer.from(stderr, 'latin1'),
      doubts: [],
    });
    const compared = (...args: Parameters<typeof compareRuns>): unknown => {
      const comparison = compareRuns(...args);
      return comparison.result === 'different' ? comparison.difference : comparison.result;
    };
    expect(compared(result('a\nb'), result('a\nb'), null)).toBe('equal');
    expect(compared(result('a\nb'), result('a\nb\n'), null)).toMatchObject({ what: 'stdout', line: 2, here: 'b' });
    expect(compared(result('a\n'), result('a\nb\n'), null)).toMatchObject({ line: 2, here: null, original: 'b\n' });
    expect(compared(result('', 'signal 11'), result('', 'signal 6'), null)).toMatchObject({
      what: 'end',
      line: null,
    });
    expect(compared(result('', 'x', 'e'), result('', 'x', 'f'), null)).toMatchObject({ what: 'stderr' });
    expect(compared(result('x\n\xff\n'), result('x\n\xfe\n'), null)).toMatchObject({ line: 2 });
    expect(compared(result('t=1\na\n'), result('a\nt=22\n'), /^t=/)).toBe('equal');
    expect(compared(result('t=1\na\n'), result('b\n'), /^t=/)).toMatchObject({ line: 2, here: 'a\n' });
  });
});
