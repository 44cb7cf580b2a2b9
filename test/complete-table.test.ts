/**
 * Is the table complete? Objects and programs whose compiler, linker or test lost slots; and the
 * objects that have calls beside a table of padding. Which functions there are comes from nm, what
 * they begin with from objdump, slots from the compilers' own labels.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { verify, type Verification } from '../src/sites/verdicts.js';
import { builtSamples, edited, openBytes, type Opened, readSample } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

/** Two files with one inline function: the linker keeps the copy of the first. */
const INLINE = `
inline __attribute__((noinline)) int common(int a) { asm volatile(""); return a * 11 + 1; }
int only_second(int);
`;
const FIRST = `${INLINE}
int user(int a) { return common(a) + only_second(a); }
extern "C" void _start() { user(1); for (;;) asm volatile(""); }
`;
const SECOND = `${INLINE} int only_second(int a) { return common(a) - 2; }\n`;

/** The first function of the file is never called. */
const UNUSED = `
int counter;
int unused(int x) { return x * 3 + counter; }
int used(int x) { counter++; return x + 1; }
int also(int x) { counter--; return used(x) * 7; }
__attribute__((patchable_function_entry(0, 0))) int quiet(int x) { return x; }
int elsewhere(int x);
void _start(void) { counter = used(1) + also(2) + quiet(elsewhere(3)); for (;;) ; }
`;
const OTHER = 'int elsewhere(int x) { return x ^ 5; }\n';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'complete-'));
  writeFileSync(join(folder, 'first.cc'), FIRST);
  writeFileSync(join(folder, 'second.cc'), SECOND);
  writeFileSync(join(folder, 'unused.c'), UNUSED);
  writeFileSync(join(folder, 'other.c'), OTHER);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const look = (path: string): Opened => openBytes(new Uint8Array(readFileSync(path)));
const judged = (path: string): Verification => verify(look(path).sites);

/** Names of functions that are said to lack a slot. */
function lacking(path: string): string[] {
  const findings = judged(path).findings.filter(({ verdict }) => verdict === 'pad-without-slot');
  for (const { rule, severity, site } of findings) expect([rule, severity, site]).toEqual(['M-PAD-3', 'error', -1]);
  return findings.map((finding) => finding.function).sort();
}

const at = (name: string): string => join(folder, name);

describeWith(['g++-12', 'ld'], 'a compiler that loses slots', () => {
  const FLAGS = ['-O1', '-ffreestanding', '-fno-pic', '-fcf-protection=none', '-fpatchable-function-entry=5'];

  test('M-PAD-3: the slots of a file whose table hangs on a discarded function are missed, and the compiler is named', () => {
    for (const name of ['first', 'second']) run('g++-12', [...FLAGS, '-c', at(`${name}.cc`), '-o', at(`${name}.o`)]);
    run('ld', ['-static', at('first.o'), at('second.o'), '-o', at('program')]);
    expect(lacking(at('program'))).toEqual(['_Z11only_secondi']);
    const { findings, verdicts, sites } = judged(at('program'));
    expect([sites, verdicts]).toEqual([3, { ok: 3, 'pad-without-slot': 1 }]);
    expect(findings.at(-1)?.message).toMatch(/GCC 12\.[\d.]+ .*PR 110729/);
    // The other order discards nothing that a table hangs on.
    run('ld', ['-static', at('second.o'), at('first.o'), '-o', at('program')]);
    expect(lacking(at('second.o'))).toEqual([]);
  });

  test('without .comment the verdict is the same, and no compiler is blamed', () => {
    run('ld', ['-static', at('first.o'), at('second.o'), '-o', at('program')]);
    run('objcopy', ['--remove-section=.comment', at('program')]);
    expect(lacking(at('program'))).toEqual(['_Z11only_secondi']);
    expect(judged(at('program')).findings.at(-1)?.message).not.toContain('GCC');
  });
});

const compilers = [
  ['x86_64-linux-gnu', '5', []],
  ['x86_64-linux-gnu', '16,11', ['-fcf-protection=branch']],
  ['aarch64-linux-gnu', '2', []],
  ['aarch64-linux-gnu', '4,2', ['-falign-functions=8']],
  ['riscv64-linux-gnu', '4', ['-march=rv64gc']],
  ['powerpc64le-linux-gnu', '2', ['-mcpu=power10', '-mpcrel']],
  ['powerpc-linux-gnu', '2', []],
] as const;

describe.each(compilers)('%s =%s', (prefix, number, flags) => {
  describeWith([`${prefix}-gcc`, `${prefix}-ld`], 'sections that nobody uses', () => {
    test('M-PAD-3: the table goes with the function that it hangs on', () => {
      const options = [
        '-O1',
        '-fno-pic',
        '-ffreestanding',
        '-fno-inline',
        '-fno-ipa-icf',
        '-fno-optimize-sibling-calls',
      ];
      const compile = (name: string, ...more: string[]): string => {
        const object = at(`${prefix}-${number}-${name}.o`);
        const pad = `-fpatchable-function-entry=${number}`;
        run(`${prefix}-gcc`, [...options, ...flags, ...more, pad, '-c', at(`${name}.c`), '-o', object]);
        expect(lacking(object)).toEqual([]);
        return object;
      };
      const objects = [compile('other'), compile('unused', '-ffunction-sections')];
      const program = at(`${prefix}-${number}`);
      run(`${prefix}-ld`, ['-static', '-e', '_start', ...objects, '-o', program]);
      expect(lacking(program)).toEqual([]);
      run(`${prefix}-ld`, ['-static', '-e', '_start', '--gc-sections', ...objects, '-o', program]);
      expect(lacking(program)).toEqual(['_start', 'also', 'used']);
    });
  });
});

describeWith(['gcc', 'clang', 'nm'], 'calls beside a table of padding', () => {
  test.each([
    ['gcc', '-fno-pic'],
    ['clang', '--target=x86_64-linux-gnu'],
  ])('-pg -mfentry without -mrecord-mcount: the calls are the sites: %s', (compiler, flag) => {
    const object = at(`${compiler}.o`);
    run(compiler, [
      flag,
      '-O2',
      '-pg',
      '-mfentry',
      '-fpatchable-function-entry=11,11',
      '-c',
      at('unused.c'),
      '-o',
      object,
    ]);
    const { sites } = look(object);
    const { verdicts, incomplete } = verify(sites);
    const functions = run('nm', ['--defined-only', object])
      .toString()
      .split('\n')
      .filter((line) => / T /.test(line));
    expect([sites.count, verdicts, incomplete]).toEqual([functions.length, { ok: functions.length }, null]);
    expect(sites.tables.map(({ name, role }) => `${name} ${role}`)).toContain('calls sites');
    expect(sites.tables.filter(({ role }) => role === 'padding').length).toBeGreaterThan(0);
  });
});

const TEXTS = (link: string, flags = 'awo'): string => `
  .section .text.f,"axG",@progbits,f,comdat
  .weak f
  .type f,@function
f: .fill 5,1,0x90
  ret
  .size f,.-f
  .text
  .globl g
  .type g,@function
g: .fill 5,1,0x90
  ret
  .size g,.-g
  .section __patchable_function_entries,"${flags}",@progbits${link}
  .quad f
  .quad g
`;

describeWith(['x86_64-linux-gnu-as'], 'sections of tables', () => {
  const lintOf = (name: string, source: string): readonly string[] => {
    writeFileSync(at(`${name}.s`), source);
    run('x86_64-linux-gnu-as', [at(`${name}.s`), '-o', at(`${name}.o`)]);
    const { lint, remarks } = judged(at(`${name}.o`));
    for (const { rule, message } of lint) expect(remarks).toContain(`${message} [${rule}]`);
    return lint.map(({ rule }) => rule);
  };

  test('M-LINK-1: one table for several sections, linked to one of them', () => {
    expect(lintOf('linked', TEXTS(',f'))).toEqual(['M-LINK-1', 'M-LINK-2']);
    expect(judged(at('linked.o')).lint[0]?.message).toMatch(/COMDAT group f: .* 1 slot of other sections \(\.text\)/);
    expect(lintOf('text', TEXTS(',g'))).toEqual(['M-LINK-1', 'M-LINK-2']);
    expect(judged(at('text.o')).lint[0]?.message).toMatch(/linked to \.text: .*--gc-sections .* 1 slot of other/);
  });

  test('M-LINK-2: slots into a COMDAT member, in a table of its own', () => {
    expect(lintOf('plain', TEXTS('', 'aw'))).toEqual(['M-LINK-2']);
  });

  test('M-LINK-1 M-LINK-2 M-LINK-3: one table for each section is as it must be; ordered and unordered ones do not mix', () => {
    const [code = ''] = TEXTS('').split('  .section __patch');
    const own = (section: string, flags: string, link: string): string =>
      `  .section __patchable_function_entries,"${flags}",@progbits,${link}\n  .quad ${section}\n`;
    expect(lintOf('apart', code + own('f', 'awoG', 'f,f,comdat') + own('g', 'awo', 'g,unique,2'))).toEqual([]);
    const mixed = `${code}${own('f', 'awoG', 'f,f,comdat')}  .section __patchable_function_entries,"aw",@progbits,unique,3\n  .quad g\n`;
    expect(lintOf('mixed', mixed)).toEqual(['M-LINK-3']);
    // Modules are not linked again.
    expect(lintOf('module', `${TEXTS(',f')}  .section .modinfo,"a",@progbits\n  .asciz "name=m"\n`)).toEqual([]);
  });
});

describeWith(['x86_64-linux-gnu-as', 'x86_64-linux-gnu-ld'], 'calls without a slot', () => {
  const body = (name: string, code: string): string => `
  .globl ${name}
  .type ${name},@function
${name}: ${code}ret
  .size ${name},.-${name}
`;
  const call = 'call __fentry__\n';
  const calls = (section: string): string => `
  .text
${body('__fentry__', '')}${body('f', call)}${body('g', call)}
  .section ${section},"ax"
${body('h', call)}
  .section __mcount_loc,"a"
  .quad f
`;

  test('M-PAD-3 M-REC-2: a call in front of a function asks for a slot, in sections that are traced', () => {
    for (const [section, wanted] of [
      ['.text.more', ['g', 'h']],
      ['.exit.text', ['g']],
    ] as const) {
      const name = section.slice(1);
      writeFileSync(at(`${name}.s`), calls(section));
      run('x86_64-linux-gnu-as', [at(`${name}.s`), '-o', at(`${name}.o`)]);
      expect([section, lacking(at(`${name}.o`))]).toEqual([section, wanted]);
      run('x86_64-linux-gnu-ld', ['-static', '-e', 'f', at(`${name}.o`), '-o', at(name)]);
      expect([section, lacking(at(name))]).toEqual([section, wanted]);
    }
  });

  test('an emptied slot, and one that leads nowhere, are not said twice', () => {
    const bytes = readSample('x86-64/program-fentry');
    const { sites, image } = openBytes(bytes);
    const table = sites.tables[0]!;
    for (const value of [0n, 0x10n]) {
      const [position = 0] = table.position;
      const word = new Uint8Array(new BigUint64Array([value]).buffer);
      const { verdicts } = verify(openBytes(edited(image.bytes, position, word)).sites);
      expect([value, verdicts['pad-without-slot'] ?? 0]).toEqual([value, 0]);
    }
  });
});

describeWith(['powerpc64-linux-gnu-objdump'], 'nops that are no pads', () => {
  test('M-PAD-3: what a linker made a nop of an address is none, where pads are one nop', () => {
    const sample = 'ppc64-elfv1/program-patchable-1';
    const path = join(builtSamples, sample);
    const code = run('powerpc64-linux-gnu-objdump', ['-d', path]).toString();
    const begun = [...code.matchAll(/^[0-9a-f]+ <\.?(\w+)>:\n[^\n]*\tnop\n/gm)].map(([, name]) => name);
    const { sites, program } = openBytes(readSample(sample));
    const listed = Array.from({ length: sites.count }, (_, i) => program.symbolName(sites.functionSymbol(i)));
    expect(begun.filter((name) => !listed.includes(name!))).toContain('sample_clock');
    expect(lacking(path)).toEqual([]);
  });
});

describeWith(['aarch64-linux-gnu-as', 'aarch64-linux-gnu-ld'], 'two nops', () => {
  /** f and h have slots, g has two nops and none, q has no pad. */
  const program = (order: readonly string[]): string => {
    const body = (name: string): string => `
  .globl ${name}
  .type ${name},%function
${name}: ${name === 'q' ? '' : 'nop\n nop\n'} ret
  .size ${name},.-${name}
`;
    return `.text\n${order.map(body).join('')}
  .section __patchable_function_entries,"awo",%progbits,.text
  .quad f, h
`;
  };

  test.each([
    ['between functions that have slots', ['f', 'g', 'h'], ['g']],
    ['beside functions without any, as in files that are not traced', ['f', 'h', 'q', 'g'], []],
  ])('M-PAD-3: %s', (_, order, wanted) => {
    writeFileSync(at('two.s'), program(order));
    run('aarch64-linux-gnu-as', [at('two.s'), '-o', at('two.o')]);
    // Nothing is relaxed yet in an object.
    expect(lacking(at('two.o'))).toEqual(['g']);
    run('aarch64-linux-gnu-ld', ['-static', '-e', 'f', at('two.o'), '-o', at('two')]);
    expect(lacking(at('two'))).toEqual(wanted);
  });
});
