/**
 * Linked files without section headers, and those without symbols: their sites are told by dynamic
 * relocations, by what they call, and by unwind information; what leaves a doubt is refused. And
 * files that lose their section headers when they are patched.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { covering, sampled } from './support/long.js';
import { machines, ROOM } from './support/native-machines.js';
import { compile, countsOf, describeNatively, NOPS, patched, report, traced } from './support/native-run.js';
import { describeWith, run } from './support/tools.js';

const FIB = `#include <stdio.h>\nstatic int half(int n) { return n / 2; }
int fib(int n) { return n < 2 ? n + half(n) : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%d\\n", fib(12)); return 3; }`;
const FIB12 = { fib: 465, half: 233, main: 1 };
const PLAIN = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls'];
const NO_PIE = ['-no-pie', '-fno-pie'];
const NO_UNWINDING = ['-fno-asynchronous-unwind-tables', '-fno-unwind-tables'];
/** Nops with room for the call in front of functions alone (RT-32). */
const FRONT = '-fpatchable-function-entry=16,14';
const FENTRY = ['-pg', '-mfentry'];
const TRACERS = [[], ['--tracer', 'function_graph'], ['--tracer', 'counter'], ['--clock', 'none']] as const;

function bare(file: string): string {
  const output = scratch('bare');
  run('llvm-strip', ['--strip-sections', '-o', output, file]);
  return output;
}

/** The same of static programs of x86-64, which llvm-strip does not take. */
function cut(file: string): string {
  const bytes = readFileSync(file);
  const [headers, count] = [Number(bytes.readBigUInt64LE(32)), bytes.readUInt16LE(56)];
  const ends = Array.from({ length: count }, (_, i) => {
    const at = headers + i * 56;
    return Number(bytes.readBigUInt64LE(at + 8) + bytes.readBigUInt64LE(at + 32));
  });
  bytes.fill(0, 40, 48);
  bytes.fill(0, 60, 64);
  const output = scratch('cut');
  writeFileSync(output, bytes.subarray(0, Math.max(...ends)), { mode: 0o755 });
  return output;
}

/** Counts by the names that a file with symbols has for the addresses of one without. */
function named(counts: Readonly<Record<string, number>>, file: string): Record<string, number> {
  const symbols = [
    ...run('nm', [file])
      .toString()
      .matchAll(/^([0-9a-f]+) [tTdD] (\w+)$/gm),
  ];
  const starts = symbols.map(([, at, name]) => [Number.parseInt(at!, 16), name!] as const).sort(([a], [b]) => b - a);
  /** A site lies a few bytes behind the start of its function. */
  const nameAt = (text: string): string => {
    const found = starts.find(([start]) => start <= Number(text));
    return found !== undefined && Number(text) - found[0] < 16 ? found[1] : text;
  };
  return Object.fromEntries(
    Object.entries(counts).map(([name, calls]) => [name.startsWith('0x') ? nameAt(name) : name, calls]),
  );
}

const rows = [
  [NOPS],
  [NOPS, '-Wl,-z,pack-relative-relocs'],
  ['-fpatchable-function-entry=9,2'],
  [NOPS, '-fcf-protection', '-fuse-ld=lld'],
  FENTRY,
  [...FENTRY, '-mrecord-mcount'],
  [NOPS, '-static-pie', '-fPIE'],
  [NOPS, ...NO_PIE],
  [FRONT],
  [FRONT, '-fcf-protection', ...NO_UNWINDING],
  [NOPS, ...NO_UNWINDING],
  [NOPS, ...NO_PIE, ...NO_UNWINDING],
  ['-fpatchable-function-entry=9,2', '-fcf-protection', ...NO_UNWINDING],
].flatMap((form, i) => TRACERS.map((tracer, k) => ({ form, tracer, at: i + k, name: form.join(' ') })));

describeNatively('without section headers', () => {
  describeWith(['llvm-strip'], 'with sites that are told', () => {
    const some = covering(
      rows.filter(({ at }) => at % 4 === 0),
      ({ name }) => name,
    );
    test.each(some.map(({ name, tracer, form }) => [name, tracer, form] as const))(
      'RT-56: %s, %j: patched, run, without section headers again, reverted',
      (_, tracer, form) => {
        const whole = compile(FIB, [...PLAIN, ...form]);
        const plain = bare(whole);
        const output = patched(plain, ...tracer);
        expect(readFileSync(bare(output)).equals(readFileSync(output))).toBe(true);
        const ran = traced(output);
        expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
        for (const object of [plain, output]) expect(named(countsOf(report(ran.dir, object)), whole)).toEqual(FIB12);
        const back = scratch('back');
        expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
        expect(readFileSync(back).equals(readFileSync(plain))).toBe(true);
      },
    );

    test.each([
      ['with unwind information', []],
      ['without', NO_UNWINDING],
    ])('RT-56: a library, whose dynamic symbols are names: %s', (_, unwinding) => {
      const source =
        'int getppid(void), g; static int below(int n) { return g += getppid() ? n : 0; } int first(int n) { return below(n); }';
      const folder = scratch('libraries');
      mkdirSync(folder);
      const path = join(folder, 'libfirst.so');
      const shared = compile(source, [...PLAIN, NOPS, ...unwinding, '-fPIC', '-shared', '-Wl,-soname,libfirst.so']);
      writeFileSync(path, readFileSync(shared), { mode: 0o755 });
      const program = compile('int first(int); int main(void) { return first(2) == 2 ? 3 : 4; }', ['-O1'], 'c', [
        path,
        `-Wl,-rpath,${folder}`,
      ]);
      writeFileSync(path, readFileSync(patched(bare(shared))), { mode: 0o755 });
      const ran = traced(program);
      const counts = countsOf(report(ran.dir));
      expect([ran.status, counts['first'], named(counts, shared)]).toEqual([3, 1, { below: 1, first: 1 }]);
    });

    test('RT-56: a function of its own unwind information that begins with nops, which another word names, is a doubt', () => {
      const other = `${FIB}\n__asm__(".pushsection .data.rel.ro,\\"aw\\"\\n.quad 0, other\\n.popsection\\n.text\\nother: .cfi_startproc\\n.rept 5\\nnop\\n.endr\\nret\\n.cfi_endproc\\n");`;
      const { status, stdout } = elftrace([
        'record', '-o', scratch('never'), '--json', bare(compile(other, [...PLAIN, NOPS])),
      ]); // prettier-ignore
      expect([status, stdout]).toEqual([4, expect.stringContaining('"reason":"no-sections"')]);
    });

    test('RT-41: names that were given for a stripped program are given to those that read its trace', () => {
      // Calls of a profiling entry of its own, which nothing else names.
      const whole = compile(FIB, [...PLAIN, ...FENTRY, '-static', ...NO_PIE]);
      const stripped = scratch('stripped');
      run('strip', ['-o', stripped, whole]);
      const ran = traced(patched(stripped, '--symbols', whole));
      const { status, stdout } = elftrace(['report', ran.dir, '--json', '--symbols', whole]);
      const { functions } = JSON.parse(stdout) as { functions: { function: string; calls: number }[] };
      const counts = Object.fromEntries(functions.map(({ function: name, calls }) => [name, calls]));
      expect([status, counts]).toEqual([0, FIB12]);
      const dir = scratch('recorded');
      expect(elftrace(['record', '-d', dir, '--symbols', whole, stripped]).status).toBe(3);
      expect(countsOf(report(dir))).toEqual(FIB12);
    });

    test('RT-56: a static program, whose words lie where it says', () => {
      const whole = compile(FIB, [...PLAIN, NOPS, '-static', ...NO_PIE]);
      const plain = cut(whole);
      const output = patched(plain);
      const ran = traced(output);
      expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
      expect(named(countsOf(report(ran.dir)), whole)).toEqual(FIB12);
    });

    test.each([
      ['calls that nothing names', [...FENTRY, '-static-pie', '-fPIE'], 'no-sections'],
      ['nops without room', ['-fpatchable-function-entry=2'], 'too-small'],
    ])('RT-56: %s are refused', (_, flags, reason) => {
      const output = scratch('never');
      const { status, stdout } = elftrace(['record', '-o', output, '--json', cut(compile(FIB, [...PLAIN, ...flags]))]);
      expect([status, existsSync(output)]).toEqual([4, false]);
      expect(stdout).toContain(`"reason":"${reason}"`);
      expect(stdout).toContain(`compile with ${NOPS}`);
    });
  });
});

describe.each(sampled(machines, 3))('$name', (machine) => {
  // Calls that lead to a function of the program itself, and functions without unwind information.
  const isTold = machine.finish === undefined;
  describeWith([`${machine.triple}-gcc`, 'llvm-strip', machine.run[0]!], 'without section headers', () => {
    const whole = (source: string): string =>
      compile(source, [...PLAIN, '-pie', '-fPIE', '-fasynchronous-unwind-tables', ...machine.sites], 'c', [], machine);

    if (isTold)
      test('RT-56: sites are told by relocated words', () => {
        const plain = whole(FIB);
        const ran = traced(patched(bare(plain)), [], ROOM, machine);
        const counts = countsOf(report(ran.dir));
        // Symbols of ELFv1 name descriptors.
        const isNamed = machine.name !== 'ppc64';
        expect([ran.status, isNamed ? named(counts, plain) : Object.values(counts).sort()]).toEqual([
          3,
          isNamed ? FIB12 : Object.values(FIB12).sort(),
        ]);
      });

    if (machine.name === 'arm64')
      test('RT-56: nops inside a function are none of the table, whatever leads there', () => {
        const doubt = `${FIB}\n__asm__(".pushsection .data.rel.ro,\\"aw\\"\\n.quad there\\n.popsection\\n.text\\nnop\\nthere: nop\\nnop\\nnop\\n");`;
        const { status, stdout } = elftrace(['record', '-o', scratch('traced'), '--json', bare(whole(doubt))]);
        expect([status, (JSON.parse(stdout) as { traced: number }).traced]).toEqual([0, 3]);
      });

    if (machine.name === 'arm64')
      test.each([
        ['one, two'],
        // What another word is, too, is a label all the same.
        ['one, two, two\\n.quad one, two'],
      ])('RT-56: labels that begin with nops are no table: %s', (words) => {
        // In the order of their addresses, and nothing calls them.
        const labels = `${FIB}\n__asm__(".pushsection .data.rel.ro,\\"aw\\"\\n.quad ${words}\\n.popsection\\n.text\\nb two\\none: nop\\nnop\\nret\\ntwo: nop\\nnop\\nret\\n");`;
        const plain = bare(compile(labels, [...PLAIN, '-pie', '-fPIE', ...NO_UNWINDING], 'c', [], machine));
        const { status, stdout } = elftrace(['record', '-o', scratch('never'), '--json', plain]);
        expect([status, stdout]).toEqual([4, expect.stringContaining('"reason":"no-sections"')]);
      });

    if (isTold)
      test.each([['-pie', '-fPIE'], NO_PIE])(
        'RT-56: calls and pointers tell them without unwind information: %s',
        (...form) => {
          const flags = [...PLAIN, ...form, ...NO_UNWINDING, ...machine.sites];
          const output = scratch('traced');
          const { stderr } = elftrace(['record', '-o', output, bare(compile(FIB, flags, 'c', [], machine))]);
          expect(stderr).toBe('');
          const ran = traced(output, [], ROOM, machine);
          expect([ran.status, Object.values(countsOf(report(ran.dir))).sort()]).toEqual([
            3,
            Object.values(FIB12).sort(),
          ]);
        },
      );
  });
});
