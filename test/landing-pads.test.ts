/**
 * Landing pads of arm64 (BTI): what processors check where the property of an executable says so.
 * Programs run here and under qemu-aarch64 -cpu max, which checks them, too; what would trap is
 * refused, or enters its target by a return.
 */
import { chmodSync, copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { few } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'landing-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
let fileNumber = 0;
const fresh = (name: string): string => join(mkdtempSync(join(folder, `${++fileNumber}-`)), name);

const gcc = 'aarch64-linux-gnu-gcc';
const guarded = ['-fpatchable-function-entry=4,2', '-falign-functions=8', '-mbranch-protection=bti'];
const common = ['-O2', '-w', '-ffreestanding', '-fno-stack-protector', '-fno-asynchronous-unwind-tables'];

function compile(source: string, language: 'c' | 'assembler', flags: readonly string[] = []): string {
  const output = fresh('part.o');
  run(gcc, [...common, ...flags, '-c', '-x', language, '-', '-o', output], source);
  return output;
}

/** Exits with what leaf returns; the first argument of leaf is 4. */
const CORE = `
__attribute__((noinline)) int leaf(int a) { return a + 3; }
extern int bare(int);
__attribute__((noinline)) int call(int (*f)(int), int a) { return f(a) + bare(0); }
int (*volatile pointer)(int) = POINTER;
void _start(void) {
  register long x0 asm("x0") = leaf(4) + call(pointer, 4);
  register long x8 asm("x8") = 93;
  asm volatile("svc 0" : : "r"(x0), "r"(x8));
}
`;
/** A function without a landing pad, as hand-written code has them. */
const BARE = '.globl bare\n.type bare,@function\nbare: ret\n.size bare,.-bare\n';

function core(pointer = 'leaf', property = true): string {
  const output = fresh('core');
  const parts = [compile(CORE.replace('POINTER', pointer), 'c', guarded), compile(BARE, 'assembler')];
  // The bare function has no property, so the linker is told that the program has it all the same.
  run('aarch64-linux-gnu-ld', [...(property ? ['-z', 'force-bti'] : []), '-o', output, ...parts]);
  return output;
}

/** Exit status, or the signal as shells say it. */
function ways(path: string): (number | null)[] {
  chmodSync(path, 0o755);
  const { status, signal } = spawnSync('qemu-aarch64', ['-cpu', 'max', path], { encoding: 'utf8', timeout: 20_000 });
  return [elftrace(['run', path]).status, signal === 'SIGILL' ? 132 : status];
}

describeWith([gcc, 'aarch64-linux-gnu-ld', 'qemu-aarch64'], 'landing pads', () => {
  test('calls through pointers trap without a pad where the property says so, here and under qemu', () => {
    expect(ways(core())).toEqual([14, 14]);
    expect(ways(core('bare'))).toEqual([132, 132]);
    expect(ways(core('bare', false))).toEqual([11, 11]);
  });

  test('M-PAD-5: a direct caller without a pad is refused, one with a pad runs', () => {
    const program = core();
    // It returns to the caller of `leaf` in its place.
    const direct = (first: string): string =>
      compile(
        `.globl mine\n.type mine,@function\nmine: ${first}\n add x0, x0, #1\n ret x9\n.size mine,.-mine\n`,
        'assembler',
      );
    for (const pad of ['hint #34', 'hint #38', 'paciasp; autiasp']) {
      const output = fresh('patched');
      const made = elftrace(['patch', program, '--direct', 'leaf=mine', '--with', direct(pad), '-o', output]);
      expect([made.status, made.stderr]).toEqual([0, expect.not.stringContaining('error')]);
      expect(ways(output)).toEqual([10, 10]);
    }
    for (const none of ['nop', 'hint #32', 'hint #36']) {
      const output = fresh('refused');
      const args = ['patch', program, '--direct', 'leaf=mine', '--with', direct(none), '-o', output];
      const { status, stderr } = elftrace(args);
      expect([status, stderr]).toEqual([
        2,
        expect.stringMatching(/mine at 0x[0-9a-f]+ does not begin with bti c.*\[M-PAD-5\] \[no-landing-pad\]/),
      ]);
      expect(existsSync(output)).toBe(false);
    }
    const unchecked = fresh('unchecked');
    const args = ['patch', core('leaf', false), '--direct', 'leaf=mine', '--with', direct('nop'), '-o', unchecked];
    expect(elftrace(args).status).toBe(0);
    expect(ways(unchecked)).toEqual([10, 10]);
  });

  test('M-PAD-5: a stub to a function without a pad is refused by load', () => {
    const far = (callee: string, name = 'far'): string =>
      compile(`extern int ${callee}(int); int ${name}(int a) { return ${callee}(a) + 1; }`, 'c', guarded);
    const output = fresh('image');
    expect(elftrace(['load', core(), far('leaf'), '-o', output]).status).toBe(0);
    const refused = fresh('image');
    const { status, stderr } = elftrace(['load', core(), far('bare'), '-o', refused]);
    expect([status, stderr]).toEqual([
      2,
      expect.stringMatching(/the call of bare needs a stub: bare at .*\[M-PAD-5\] \[no-landing-pad\]/),
    ]);
    expect(existsSync(refused)).toBe(false);
    expect(elftrace(['load', core('leaf', false), far('bare'), '-o', refused]).status).toBe(0);
    // The same of a module that comes to an image.
    const late = fresh('late.o');
    copyFileSync(far('bare', 'later'), late);
    expect(elftrace(['load', output, late, '-o', fresh('more')]).stderr).toContain('[no-landing-pad]');
  });

  test('M-PAD-4: verify finds functions without a pad that pointers lead to, where pads are checked', () => {
    const source = 'int plain(int a) { return a * 2; }';
    const build = (pointer: string, flags: readonly string[], options: readonly string[] = []): string => {
      const output = fresh('core');
      const code = CORE.replace('int (*vol', 'extern int plain(int);\nint (*vol').replace('POINTER', pointer);
      const parts = [compile(code, 'c', guarded), compile(BARE, 'assembler'), compile(source, 'c', flags)];
      run('aarch64-linux-gnu-ld', ['-z', 'force-bti', ...options, '-o', output, ...parts]);
      return output;
    };
    const without = guarded.slice(0, 2);
    const verdict = (path: string): [number | null, string] => {
      const { status, stdout } = elftrace(['verify', path]);
      return [status, stdout];
    };
    const bad = build('plain', without);
    expect(verdict(bad)).toEqual([1, expect.stringMatching(/\(plain\+?.*\): error: no-landing-pad: .*\[M-PAD-4\]/)]);
    expect(ways(bad)).toEqual([132, 132]);
    expect(verdict(build('plain', without, ['-pie', '--no-dynamic-linker']))).toEqual([
      1,
      expect.stringContaining('error: no-landing-pad'),
    ]);
    for (const good of [build('plain', guarded), build('leaf', without)]) {
      expect(verdict(good)[0]).toBe(0);
      expect(ways(good)[0]).toBe(ways(good)[1]);
      expect(ways(good)[0]).not.toBe(132);
    }
  });

  test('a livepatched function needs no pad: it is entered by a return', () => {
    const replacement = compile('int leaf_new(int a) { return a + 5; }', 'c');
    const output = fresh('patched');
    const args = ['patch', core(), '--livepatch', 'leaf=leaf_new', '--with', replacement, '-o', output];
    expect(elftrace(args).status).toBe(0);
    expect(ways(output)).toEqual([18, 18]);
  });
});

/** The same of machines that neither qemu nor Linux has check it: what the manuals say. */
describeWith(['x86_64-linux-gnu-gcc', 'ld'], 'landing pads of x86-64 (IBT)', () => {
  const build = (source: string, flags: readonly string[] = [], link: readonly string[] = ['-z', 'ibt']): string => {
    const parts = ['c', 'assembler'].map((language, i) => {
      const output = fresh('part.o');
      const all = [...common, '-fcf-protection=branch', ...flags, '-c', '-x', language, '-', '-o', output];
      run('x86_64-linux-gnu-gcc', all, i === 0 ? source : BARE);
      return output;
    });
    const output = fresh('core');
    run('ld', [...link, '-o', output, ...parts]);
    chmodSync(output, 0o755);
    return output;
  };
  const program = (call: string): string => `
int g = 4;
__attribute__((noinline)) int leaf(int a) { return a + 3 + g; }
extern int bare(int);
void finish(int);
int (*volatile good)(int) = leaf;
int (*volatile bad)(int) = bare;
__attribute__((used)) int later(void) { asm volatile("nop"); return 21; }
void _start(void) {
  int v = 0;
  ${call}
  asm volatile("syscall" : : "a"(60), "D"(v));
}
`;
  // `bare` of the assembler part returns what rax holds.
  const CALLS: readonly [string, string, number][] = [
    ['through a pointer to a pad', 'v = good(5);', 12],
    ['through a pointer to none', 'asm volatile("call *%1" : "=a"(v) : "r"(bad), "0"(9) : "memory");', 139],
    ['through memory', 'asm volatile("call *%1" : "=a"(v) : "m"(bad), "0"(9) : "memory");', 139],
    ['with notrack', 'asm volatile("notrack call *%1" : "=a"(v) : "r"(bad), "0"(9) : "memory");', 9],
    ['directly', 'asm volatile("call bare" : "=a"(v) : "0"(9) : "memory");', 9],
    ['by a jump', 'asm volatile("lea 1f(%%rip),%%rcx; jmp *%%rcx; 1: mov $3,%0" : "=a"(v) : : "rcx");', 139],
    [
      'by a jump to a pad',
      'asm volatile("lea 1f(%%rip),%%rcx; jmp *%%rcx; 1: endbr64; mov $3,%0" : "=a"(v) : : "rcx");',
      3,
    ],
    ['by a return', 'asm volatile("lea 1f(%%rip),%%rcx; push %%rcx; ret; 1: mov $4,%0" : "=a"(v) : : "rcx");', 4],
  ];

  test.each(CALLS)('M-PAD-7: a branch %s', (_, call, status) => {
    const path = build(program(call));
    for (const tiers of few([[], ['--tier', '0']])) expect(elftrace(['run', ...tiers, path]).status).toBe(status);
    // Without the property nothing is checked, as on every processor before.
    const unchecked = elftrace(['run', build(program(call), [], [])]).status;
    expect(unchecked).toBe(status === 139 ? (call.includes('jmp') ? 3 : 9) : status);
  });

  test('M-PAD-4: a traced function without a pad that a pointer leads to; one with, or none, is fine', () => {
    const source = program('v = good(1);').replace(
      '__attribute__((noinline)) int leaf',
      '__attribute__((noinline, nocf_check)) int leaf',
    );
    const sites = ['-fpatchable-function-entry=5'];
    const bad = build(source, sites);
    const verdict = elftrace(['verify', bad]);
    expect([verdict.status, verdict.stdout]).toEqual([
      1,
      expect.stringMatching(/\(leaf.*error: no-landing-pad: .*endbr64.*\[M-PAD-4\]/),
    ]);
    expect(elftrace(['verify', build(source, sites, [])]).status).toBe(0);
    expect(elftrace(['verify', build(program('v = good(1);'), sites)]).status).toBe(0);
  });

  test('M-PAD-6: objects: what their note says and a pointer of their data contradicts', () => {
    const object = (more: string, flags: readonly string[] = ['-fcf-protection=branch']): string => {
      const output = fresh('part.o');
      const source = `${more} int leaf(int a) { return a + 3; } int (*pointer)(int) = leaf; int plain(int a) { return a; }`;
      const all = [...common, '-fpatchable-function-entry=5', ...flags, '-c', '-x', 'c', '-', '-o', output];
      run('x86_64-linux-gnu-gcc', all, source);
      return output;
    };
    const bad = elftrace(['verify', object('__attribute__((nocf_check))')]);
    expect([bad.status, bad.stdout]).toEqual([
      1,
      expect.stringMatching(/\(leaf.*no-landing-pad: the word at \.data[^ ]*\+0x0 names .*\[M-PAD-6\]/),
    ]);
    expect(bad.stdout).not.toContain('plain');
    expect(elftrace(['verify', object('')]).status).toBe(0);
    expect(elftrace(['verify', object('', ['-fcf-protection=none'])]).status).toBe(0);
  });

  test('M-PAD-4: a function that a shared object exports is entered through the PLT of others', () => {
    const library = (more: string): string => {
      const [object, output] = [fresh('part.o'), fresh('library.so')];
      const source = `${more} int leaf(int a) { return a + 3; } __attribute__((visibility("hidden"), nocf_check)) int own(int a) { return a; }`;
      const all = [...common, '-fPIC', '-fcf-protection=branch', '-fpatchable-function-entry=5'];
      run('x86_64-linux-gnu-gcc', [...all, '-c', '-x', 'c', '-', '-o', object], source);
      run('ld', ['-shared', '-z', 'ibt', object, '-o', output]);
      return output;
    };
    const bad = elftrace(['verify', library('__attribute__((nocf_check))')]);
    expect([bad.status, bad.stdout]).toEqual([
      1,
      expect.stringMatching(/no-landing-pad: the dynamic symbol leaf names .*\[M-PAD-4\]/),
    ]);
    expect(bad.stdout).not.toContain('own');
    expect(elftrace(['verify', library('')]).status).toBe(0);
  });

  test('M-PAD-5: sites call direct callers and entries return to them, so these need no pad', () => {
    const path = build(program('v = good(1);'), ['-fpatchable-function-entry=5']);
    const mine = fresh('mine.o');
    run(
      'x86_64-linux-gnu-gcc',
      ['-c', '-x', 'assembler', '-', '-o', mine],
      '.globl mine\n.type mine,@function\nmine: add $1,%edi\n ret\n.size mine,.-mine\n',
    );
    const output = fresh('patched');
    const { status, stderr } = elftrace(['patch', path, '--direct', 'leaf=mine', '--with', mine, '-o', output]);
    expect([status, stderr]).toEqual([0, expect.not.stringContaining('error')]);
    expect(elftrace(['run', output]).status).toBe(9);
    // Beside a tracer the entry goes on to it.
    const both = fresh('both');
    const args = ['patch', path, '--direct', 'leaf=mine', '--with', mine, '--enable', '-l', 'leaf', '-o', both];
    expect(elftrace(args).status).toBe(0);
    expect(elftrace(['run', both]).status).toBe(9);
  });

  test.each(['function', 'function_graph', 'counter'])('a program that is checked is traced with %s', (tracer) => {
    const path = build(program('v = good(1);'), ['-fpatchable-function-entry=5']);
    const output = fresh('traced');
    const made = elftrace(['patch', path, '--enable', '--tracer', tracer, '-l', 'leaf', '-o', output]);
    expect([made.status, made.stderr]).toEqual([0, expect.not.stringContaining('error')]);
    expect(elftrace(['run', output]).status).toBe(8);
  });
});

const RISCV_SCRIPT = `
ENTRY(_start)
PHDRS { text PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); property 0x6474e553; }
SECTIONS {
  . = 0x10000;
  .text : { *(.text*) } :text
  .rodata : { *(.rodata*) *(.note.of.test) } :text
  .property : { *(.property) } :text :property
  __patchable_function_entries : { *(__patchable_function_entries) } :text
  . = 0x200000;
  .data : { *(.data*) *(.sdata*) *(.bss*) *(.sbss*) } :data
}
`;
/** The property of an executable with pads; bit 0: labels are 0, bit 2: they are of types. */
const riscvProperty = (bits: number): string => ` .section .property,"a",@note
 .balign 8
 .word 4, 16, 5, 0x00554e47, 0xc0000000, 4, ${bits}, 0
`;

describeWith(['riscv64-linux-gnu-gcc', 'riscv64-linux-gnu-ld'], 'landing pads of RISC-V (Zicfilp)', () => {
  const link = (parts: readonly [string, 'c' | 'assembler'][], flags: readonly string[] = []): string => {
    const script = fresh('script.lds');
    writeFileSync(script, RISCV_SCRIPT);
    const objects = parts.map(([source, language]) => {
      const output = fresh('part.o');
      const all = [...common, '-mno-relax', '-fno-pie', ...flags, '-c', '-x', language, '-', '-o', output];
      run('riscv64-linux-gnu-gcc', all, source);
      return output;
    });
    const output = fresh('core');
    run('riscv64-linux-gnu-ld', ['--no-relax', '-T', script, '-o', output, ...objects]);
    chmodSync(output, 0o755);
    return output;
  };
  const program = (call: string, bits: number | null): string =>
    link([
      [
        ` .text
 .globl _start
_start: li a0, 0
 ${call}
 li a7, 93
 ecall
 .p2align 2
good: .word 0x17
 li a0, 12
 ret
 .p2align 2
labelled: .word 0x5017
 li a0, 7
 ret
bare: li a0, 9
 ret
 .p2align 2
 .half 1
crooked: .word 0x17
 li a0, 8
 ret
${bits === null ? '' : riscvProperty(bits)}`,
        'assembler',
      ],
    ]);

  test.each([
    ['to a pad', 'la t1, good\n jalr t1', 12, 12],
    ['to none', 'la t1, bare\n jalr t1', 139, 9],
    ['to none, compressed', 'la a5, bare\n c.jalr a5', 139, 9],
    ['through t2, which software guards', 'la t2, bare\n jalr t2', 9, 9],
    ['through t0, as returns are', 'la t0, bare\n jalr t0', 9, 9],
    ['with the label of the pad', 'la t1, labelled\n li t2, 0x5fff\n jalr t1', 7, 7],
    ['with another label', 'la t1, labelled\n li t2, 0x6000\n jalr t1', 139, 7],
    ['to a pad that is not aligned', 'la t1, crooked\n jalr t1', 139, 8],
    ['by a pair that is a direct call', 'call bare', 9, 9],
  ] as const)('M-PAD-7: a branch %s', (_, call, checked, plain) => {
    for (const tiers of few([[], ['--tier', '0']])) {
      expect(elftrace(['run', ...tiers, program(call, 1)]).status).toBe(checked);
      expect(elftrace(['run', ...tiers, program(call, 4)]).status).toBe(checked);
    }
    expect(elftrace(['run', program(call, null)]).status).toBe(plain);
  });

  const TRACED = `
int g = 4;
__attribute__((noinline)) int leaf(int a) { return a + 3 + g; }
int (*volatile pointer)(int) = POINTER;
int start(void) { return leaf(1); }
`;
  const START = ` .text\n .globl _start\n_start: call start\n li a7, 93\n ecall\n${riscvProperty(1)}`;
  // Tail calls of this compiler go through t1, which is tracked.
  const sites = ['-fpatchable-function-entry=4', '-fno-optimize-sibling-calls'];

  test('M-PAD-4: a traced function without a pad that a pointer leads to', () => {
    const bad = elftrace([
      'verify',
      link(
        [
          [START, 'assembler'],
          [TRACED.replace('POINTER', 'leaf'), 'c'],
        ],
        sites,
      ),
    ]);
    expect([bad.status, bad.stdout]).toEqual([1, expect.stringMatching(/\(leaf.*error: no-landing-pad: .*lpad/)]);
    expect(
      elftrace([
        'verify',
        link(
          [
            [START, 'assembler'],
            [TRACED.replace('POINTER', '0'), 'c'],
          ],
          sites,
        ),
      ]).status,
    ).toBe(0);
  });

  test.each(['function', 'function_graph', 'counter'])('a program that is checked is traced with %s', (tracer) => {
    const path = link(
      [
        [START, 'assembler'],
        [TRACED.replace('POINTER', '0'), 'c'],
      ],
      sites,
    );
    for (const form of ['g2', 'g2-merged', 'g3', 'g1']) {
      const output = fresh('traced');
      const args = ['patch', path, '--enable', '--tracer', tracer, '--riscv-site', form, '-l', 'leaf', '-o', output];
      const made = elftrace(args);
      // The first generation has sites of another size.
      if (made.status !== 0 && form === 'g1') continue;
      expect([made.status, made.stderr]).toEqual([0, expect.not.stringContaining('error')]);
      expect(elftrace(['run', output]).status).toBe(8);
    }
  });

  test('M-PAD-5: entries branch to direct callers, which need a pad', () => {
    const path = link(
      [
        [START, 'assembler'],
        [TRACED.replace('POINTER', '0'), 'c'],
      ],
      sites,
    );
    for (const [pad, status] of [
      ['.word 0x17', 0],
      ['nop', 2],
    ] as const) {
      const mine = fresh('mine.o');
      run(
        'riscv64-linux-gnu-gcc',
        ['-c', '-x', 'assembler', '-', '-o', mine],
        ` .option norelax\n .globl mine\n .type mine,@function\n .p2align 2\nmine: ${pad}\n addi a0,a0,1\n jr t0\n .size mine,.-mine\n`,
      );
      const output = fresh('patched');
      const made = elftrace(['patch', path, '--direct', 'leaf=mine', '--with', mine, '-o', output]);
      expect([pad, made.status]).toEqual([pad, status]);
      if (status === 0) expect(elftrace(['run', output]).status).toBe(9);
      else expect(made.stderr).toContain('[no-landing-pad]');
    }
  });
});
