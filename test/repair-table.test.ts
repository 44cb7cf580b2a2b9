/**
 * `mcount --repair`: objects whose tables a link breaks, and what links make of them before and
 * after. Which functions a program has is read by nm; programs are linked by GNU ld and lld, with
 * --gc-sections and without.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ElftraceError } from '../src/errors.js';
import { type Repaired, repairTables } from '../src/patch/repair-table.js';
import { verify } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { withCrel } from './support/crel.js';
import { openBytes, readSample, sameBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';
import { sampled } from './support/long.js';

const INLINE = `
inline __attribute__((noinline)) int common(int a) { asm volatile(""); return a * 11 + 1; }
int only_second(int);
`;
const sources: Readonly<Record<string, string>> = {
  'first.cc': `${INLINE}
extern "C" __attribute__((no_instrument_function, patchable_function_entry(0))) void __fentry__() {}
int user(int a) { return common(a) + only_second(a); }
extern "C" void _start() { user(1); for (;;) asm volatile(""); }
`,
  'second.cc': `${INLINE} int only_second(int a) { return common(a) - 2; }\n`,
  'unused.c': `
int counter;
int unused(int x) { return x * 3 + counter; }
int used(int x) { counter++; return x + 1; }
int also(int x) { counter--; return used(x) * 7; }
__attribute__((patchable_function_entry(0, 0))) int quiet(int x) { return x; }
void _start(void) { counter = used(1) + also(2) + quiet(3); for (;;) ; }
`,
};

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'repair-'));
  for (const [name, source] of Object.entries(sources)) writeFileSync(join(folder, name), source);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);
const read = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

/** Repairs a file; the result is beside it. */
function repaired(path: string): Repaired & { readonly path: string } {
  const result = repairTables(openBytes(read(path)).program);
  writeFileSync(`${path}.repaired`, result.bytes);
  return { ...result, path: `${path}.repaired` };
}

/** Functions of a file but those that are not traced, by nm; and those that a slot is of. */
function coverage(path: string, nm: string, untraced: readonly string[]): { functions: string[]; slots: string[] } {
  const lines = run(nm, ['--defined-only', path]).toString().split('\n');
  const functions = lines
    .flatMap((line) => (/^\S+ [tTwW] ([^.$]\S*)$/.exec(line) ?? []).slice(1))
    .filter((name) => !untraced.includes(name));
  const { sites, program } = openBytes(read(path));
  const slots = Array.from({ length: sites.count }, (_, i) => program.symbolName(sites.functionSymbol(i)));
  return { functions: functions.sort(), slots: slots.sort() };
}

const ways = (prefix: string): readonly (readonly [string, readonly string[]])[] =>
  [`${prefix}-ld`, 'ld.lld'].flatMap((linker) => [[linker, []], [linker, ['--gc-sections']]] as const); // prettier-ignore

const PAD = ['-fpatchable-function-entry=5'];
const producers = [
  ['g++-12 -fpatchable-function-entry', PAD, 3],
  ['g++-12 -pg -mfentry', ['-pg', '-mfentry'], 0],
  ['g++-12 -pg -mfentry -mrecord-mcount', ['-pg', '-mfentry', '-mrecord-mcount'], 3],
  ['g++-12 -pg -mfentry beside padding', ['-pg', '-mfentry', '-fpatchable-function-entry=11,11'], 0],
] as const;

describeWith(['g++-12', 'x86_64-linux-gnu-ld', 'ld.lld', 'nm'], 'C++ with inline functions', () => {
  test.each(producers)('M-LINK-4 %s: any order, linker and --gc-sections', (_, flags, had) => {
    const compile = ['-O1', '-ffreestanding', '-fno-pic', '-fno-exceptions', '-fcf-protection=none', ...flags];
    const objects = ['first', 'second'].map((name) => {
      run('g++-12', [...compile, '-c', at(`${name}.cc`), '-o', at(`${name}.o`)]);
      return repaired(at(`${name}.o`));
    });
    const [first, second] = objects as [Repaired & { path: string }, Repaired & { path: string }];
    expect(first.slots - first.added).toBe(had);
    expect([first.slots, second.slots]).toEqual([3, 2]);
    for (const { path } of objects) {
      const { lint, verdicts } = verify(openBytes(read(path)).sites);
      expect([lint, Object.keys(verdicts)]).toEqual([[], ['ok']]);
    }
    for (const [linker, options] of ways('x86_64-linux-gnu')) {
      for (const order of [
        [first, second],
        [second, first],
      ]) {
        // prettier-ignore
        run(linker, ['-static', ...options, ...order.map(({ path }) => path), '-o', at('program')]);
        const { functions, slots } = coverage(at('program'), 'nm', ['__fentry__']);
        expect([linker, ...options, functions]).toEqual([linker, ...options, slots]);
        expect(slots).toHaveLength(4);
        expect(verify(openBytes(read(at('program'))).sites).verdicts).toEqual({ ok: 4 });
      }
    }
  });
});

const machines = [
  ['x86_64-linux-gnu', '5', []],
  ['aarch64-linux-gnu', '2', []],
  ['aarch64-linux-gnu', '4,2', ['-falign-functions=8']],
  ['riscv64-linux-gnu', '4', []],
  ['powerpc64le-linux-gnu', '2', ['-mcpu=power10', '-mpcrel']],
  ['powerpc-linux-gnu', '2', []],
] as const;

describe.each(sampled(machines, 2))('%s =%s', (prefix, number, flags) => {
  describeWith([`${prefix}-gcc`, `${prefix}-ld`, 'ld.lld', `${prefix}-nm`], 'a function that nobody uses', () => {
    test('M-LINK-4 no slot goes but with its function', () => {
      const object = at(`${prefix}-${number}.o`);
      const compile = [
        '-O1',
        '-fno-pic',
        '-ffreestanding',
        '-fno-inline',
        '-fno-ipa-icf',
        '-fno-optimize-sibling-calls',
      ];
      const pad = `-fpatchable-function-entry=${number}`;
      run(`${prefix}-gcc`, [...compile, ...flags, '-ffunction-sections', pad, '-c', at('unused.c'), '-o', object]);
      const { path, moved, added, slots, sections } = repaired(object);
      expect([moved, added, slots, sections]).toEqual([3, 0, 4, 3]);
      for (const [linker, options] of ways(prefix)) {
        const program = at(`${prefix}-${number}`);
        run(linker, ['-static', '-e', '_start', ...options, path, '-o', program]);
        const { functions, slots: listed } = coverage(program, `${prefix}-nm`, ['quiet']);
        expect([linker, ...options, listed]).toEqual([linker, ...options, functions]);
        expect(listed.includes('unused')).toBe(options.length === 0);
      }
      // Again: nothing to do.
      const again = repairTables(openBytes(read(path)).program);
      expect([again.sections, sameBytes(again.bytes, read(path))]).toEqual([0, true]);
    });
  });
});

describeWith(['x86_64-linux-gnu-as', 'x86_64-linux-gnu-ld'], 'what is lacking, and what cannot be repaired', () => {
  /** Two functions with five nops, one slot. */
  const source = (more = ''): string => `
  .text
  .irp name, f, g
  .globl \\name
  .type \\name,@function
\\name: .fill 5,1,0x90
  ret
  .size \\name,.-\\name
  .endr
  .section __patchable_function_entries,"awo",@progbits,.text
  .quad f
${more}`;
  const assemble = (name: string, text: string): string => {
    writeFileSync(at(`${name}.s`), text);
    run('x86_64-linux-gnu-as', [at(`${name}.s`), '-o', at(`${name}.o`)]);
    return at(`${name}.o`);
  };
  const failure = (bytes: Uint8Array): readonly [string, string] => {
    try {
      repairTables(openBytes(bytes).program);
    } catch (error) {
      if (error instanceof ElftraceError) return [error.code, error.message];
      throw error;
    }
    return ['repaired', ''];
  };

  test('M-PAD-3 M-LINK-4 a function without a slot gets one', () => {
    const object = assemble('lacking', source());
    expect(verify(openBytes(read(object)).sites).verdicts).toEqual({ ok: 1, 'pad-without-slot': 1 });
    const { path, added, moved, slots } = repaired(object);
    expect([added, moved, slots]).toEqual([1, 0, 2]);
    expect(verify(openBytes(read(path)).sites).verdicts).toEqual({ ok: 2 });
    run('x86_64-linux-gnu-ld', ['-static', '-e', 'f', path, '-o', at('lacking')]);
    expect(coverage(at('lacking'), 'nm', []).slots).toEqual(['f', 'g']);
  });

  test('linked files and modules that lack slots are refused; rows of SHT_CREL are not rewritten', () => {
    const object = assemble('module', source('  .section .modinfo,"a",@progbits\n  .asciz "name=m"\n'));
    expect(failure(read(object))).toEqual(['unsupported-form', expect.stringContaining('repair the objects')]);
    run('x86_64-linux-gnu-ld', ['-static', '-e', 'f', assemble('linked', source()), '-o', at('linked')]);
    expect(failure(read(at('linked')))).toEqual(['unsupported-form', expect.stringContaining('repair the objects')]);
    const two = assemble('crel', source('  .quad h\n  .section .text.h,"ax",@progbits\nh: .fill 5,1,0x90\n  ret\n'));
    expect(failure(read(two))[0]).toBe('repaired');
    expect(failure(withCrel(read(two))!)).toEqual(['unsupported-form', expect.stringContaining('is not written')]);
    const whole = readSample('x86-64/module-patchable-5.ko');
    expect(sameBytes(repairTables(openBytes(whole).program).bytes, whole)).toBe(true);
  });

  test('the command line says what it did', () => {
    const object = assemble('lacking', source());
    const output = at('said.o');
    const { status, stdout } = elftrace(['mcount', '--repair', object, '-o', output]);
    expect([status, stdout]).toEqual([
      0,
      `${output}: 2 slots, 1 of them new, 0 moved to tables that go with their functions\n`,
    ]);
    const json = JSON.parse(elftrace(['mcount', '--repair', '--json', output, '-o', at('again.o')]).stdout) as unknown;
    expect(json).toMatchObject({ entries: 2, skipped: 'whole', repaired: { moved: 0, added: 0, sections: 0 } });
    expect(sameBytes(read(output), read(at('again.o')))).toBe(true);
  });
});
