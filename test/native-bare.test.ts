/**
 * Linked files without section headers, and those without symbols: their sites are told by dynamic
 * relocations, by what they call, and by unwind information; what leaves a doubt is refused. And
 * files that lose their section headers when they are patched.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from '@jest/globals';

import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { covering, sampled } from './support/long.js';
import { machines, ROOM } from './support/native-machines.js';
import { compile, countsOf, describeNatively, NOPS, patched, report, schemaOf, traced } from './support/native-run.js';
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

/** The same of static programs of 64 bits, little-endian, which llvm-strip does not take. */
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

/** The patched file records the calls of the program, and reverts to what it was. */
function expectTraced(whole: string, plain: string, output: string): void {
  const ran = traced(output);
  expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
  for (const object of [plain, output]) expect(named(countsOf(report(ran.dir, object)), whole)).toEqual(FIB12);
  const back = scratch('back');
  expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
  expect(readFileSync(back).equals(readFileSync(plain))).toBe(true);
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
        expectTraced(whole, plain, output);
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
        'record',
        '-o',
        scratch('never'),
        '--json',
        bare(compile(other, [...PLAIN, NOPS])),
      ]);
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

    test('RT-56: what is left off is counted for programs: no word but one of the table leads there', () => {
      // The last of the table, and nothing calls it.
      const last = `${FIB}\nvoid never(void) { puts("never"); }`;
      const plain = bare(compile(last, [...PLAIN, NOPS, ...NO_UNWINDING]));
      const { status, stdout, stderr } = elftrace(['record', '-o', scratch('traced'), '--json', plain]);
      const found = JSON.parse(stdout) as { traced: number; leftOff: { count: number; reason: string }[] };
      expect([new Ajv2020().compile(schemaOf('record'))(found), status, found.traced]).toEqual([true, 0, 3]);
      expect(found.leftOff).toMatchObject([{ count: 1, reason: 'no-start' }]);
      expect(stderr).toContain('1 places with nops are left off');
    });

    test.each([
      [[...FENTRY, '-static-pie', '-fPIE'], []],
      [
        [...FENTRY, '-static', ...NO_PIE],
        ['--tracer', 'counter'],
      ],
      [
        [...FENTRY, '-static', ...NO_PIE, ...NO_UNWINDING],
        ['--clock', 'none'],
      ],
    ] as const)('RT-58: calls of a profiling entry that nothing names: %j, %j', (flags, tracer) => {
      const whole = compile(FIB, [...PLAIN, ...flags]);
      const plain = cut(whole);
      const output = patched(plain, ...tracer);
      expectTraced(whole, plain, output);
    });

    test('RT-58: a table says where such calls are, not what they lead to', () => {
      const whole = compile(FIB, [...PLAIN, ...FENTRY, '-mrecord-mcount', '-static', ...NO_PIE]);
      const plain = scratch('stripped');
      run('strip', ['-o', plain, whole]);
      expectTraced(whole, plain, patched(plain));
    });

    const KEEPS = 'push %rax; push %rcx; push %rdx; push %rsi; push %rdi; push %r8; push %r9;';
    const GIVES = 'pop %r9; pop %r8; pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax; ret';
    const ENTRY = `.globl __fentry__; __fentry__: ${KEEPS} ${GIVES}`;
    /** Another one, called in front of what so many words name. */
    const other = (words: string): string =>
      `other: ${KEEPS} ${GIVES}\ncaller: call other; ret\n.pushsection .data; .quad ${words}; .popsection`;
    test.each([
      ['one that keeps nothing', '.globl __fentry__; __fentry__: ret', 4],
      ['two of them', `${other('caller, caller')}\n${ENTRY}`, 4],
      ['another one, called where nothing tells that a function begins', `${other('0')}\n${ENTRY}`, 4],
      ['one of the program itself', ENTRY, 0],
    ])('RT-58: %s', (_, code, status) => {
      const text = `${FIB}\n__asm__(${JSON.stringify(code)});`;
      const plain = cut(compile(text, [...PLAIN, '-pg', '-mfentry', '-static', ...NO_PIE]));
      const found = elftrace(['record', '-o', scratch('never'), '--json', plain]);
      expect([found.status, found.stdout.includes('"reason":"no-sections"')]).toEqual([status, status !== 0]);
    });

    test.each([['nops without room', ['-fpatchable-function-entry=2'], 'too-small']])(
      'RT-56: %s are refused',
      (_, flags, reason) => {
        const output = scratch('never');
        const { status, stdout } = elftrace([
          'record',
          '-o',
          output,
          '--json',
          cut(compile(FIB, [...PLAIN, ...flags])),
        ]);
        expect([status, existsSync(output)]).toEqual([4, false]);
        expect(stdout).toContain(`"reason":"${reason}"`);
        expect(stdout).toContain(`compile with ${NOPS}`);
      },
    );
  });
});

/** As little of an unwinder as looks for its entries where a start-up file says they are. */
const UNWINDER = `const void *registered; void __register_frame(const void *at) { registered = at; }
extern const char begin[] __asm__("begin_of_frames"); int main(void) { __register_frame(begin); return registered == begin ? 3 : 4; }
__asm__(".pushsection .eh_frame,\\"a\\"\\nbegin_of_frames:\\n.popsection");`;

describeNatively('static programs of musl without symbols', () => {
  describeWith(['musl-gcc'], 'whose returns are recorded', () => {
    const GRAPH = ['--tracer', 'function_graph'];
    const musl = (source: string): string => {
      const output = scratch('program');
      run(
        'musl-gcc',
        [...PLAIN, NOPS, '-fasynchronous-unwind-tables', '-static', '-x', 'c', '-', '-o', output],
        source,
      );
      return output;
    };
    const stripped = (file: string): string => {
      const output = scratch('stripped');
      run('strip', ['-o', output, file]);
      return output;
    };

    test.each([
      ['stripped', stripped],
      ['without section headers', cut],
    ])('RT-44: nothing hands unwind information over: %s', (_, strip) => {
      const whole = musl(FIB);
      const ran = traced(patched(strip(whole), ...GRAPH));
      expect([ran.status, named(countsOf(report(ran.dir)), whole)]).toEqual([3, FIB12]);
    });

    test.each([
      ['stripped', stripped],
      ['without section headers', cut],
    ])('RT-44: something may: %s', (_, strip) => {
      const plain = strip(musl(UNWINDER));
      const { status, stdout } = elftrace(['record', '-o', scratch('never'), '--json', ...GRAPH, plain]);
      expect([status, stdout]).toEqual([4, expect.stringContaining('"reason":"no-unwind-tables"')]);
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

    // Programs of such machines bring an entry of their own, or the C library's static one.
    const ownEntry =
      machine.name === 'ppc64le' ? machine : machine.name === 'ppc32' ? { ...machine, sites: ['-pg'] } : null;
    if (ownEntry !== null)
      test.each([
        ['-fasynchronous-unwind-tables', machine.name === 'ppc64le' ? '-fPIE' : '-static'],
        machine.name === 'ppc64le' ? [...NO_UNWINDING, ...NO_PIE] : [...NO_UNWINDING, '-static'],
        ['-Os', '-static'],
      ])('RT-58: calls in front of the frame, of an entry that nothing names: %s %s', (...form) => {
        const flags = [...PLAIN, ...form, ...ownEntry.sites];
        const plain = compile(FIB, flags, 'c', [], ownEntry);
        const without = scratch('stripped');
        run(`${machine.triple}-strip`, ['-R', '__mcount_loc', '-o', without, plain]);
        const ran = traced(patched(form.includes('-static') ? without : bare(plain)), [], ROOM, machine);
        expect([ran.status, Object.values(countsOf(report(ran.dir))).sort()]).toEqual([3, Object.values(FIB12).sort()]);
      });

    if (ownEntry !== null)
      test.each([['-static'], ...(machine.name === 'ppc64le' ? [['-pie', '-fPIE']] : [])])(
        'RT-58: their table says where they are, not what they call: %s',
        (...form) => {
          const plain = compile(FIB, [...PLAIN, ...form, ...machine.sites], 'c', [], machine);
          const stripped = scratch('stripped');
          run(`${machine.triple}-strip`, ['-o', stripped, plain]);
          const ran = traced(patched(stripped), [], ROOM, machine);
          expect([ran.status, Object.values(countsOf(report(ran.dir))).sort()]).toEqual([
            3,
            Object.values(FIB12).sort(),
          ]);
        },
      );

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
