/**
 * `run --can`: what it lists is what a run stops at or warns of, with the same place; what it calls
 * served runs. System calls are those that objdump shows.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from '@jest/globals';
import { ARM64_TARGETS, buildProgram, RISCV_TARGETS, scratch, TARGETS, X86_TARGETS } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { writeSource } from './support/emulator.js';
import { sampled } from './support/long.js';
import { builtSamples, root } from './support/pipeline.js';
import { run } from './support/run.js';
import { describeWith, run as runTool } from './support/tools.js';

const schema = JSON.parse(readFileSync(join(root, 'schemas', 'run-can.schema.json'), 'utf8')) as object;
const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(schema);

interface Found {
  readonly count: number;
  readonly address: string;
  readonly function: string;
}
interface Can {
  readonly served: boolean;
  readonly files: readonly {
    readonly file: string;
    readonly total: number;
    readonly instructions: readonly (Found & { readonly mnemonic: string | null; readonly bytes: string })[];
    readonly calls: readonly (Found & {
      readonly name: string;
      readonly number: number | null;
      readonly class: string;
    })[];
  }[];
  readonly missing: readonly string[];
}

function can(args: readonly string[], status: number): Can {
  const result = elftrace(['run', '--can', '--json', ...args]);
  expect([result.status, result.stderr]).toEqual([status, '']);
  const value = JSON.parse(result.stdout) as Can;
  expect(validate(value) ? [] : validate.errors).toEqual([]);
  expect(value.served).toBe(status === 0);
  return value;
}

/** A system call whose number is in the code, behind a branch around another; an instruction. */
const SOURCE = `
#include <asm/unistd.h>
#define SYS_WRITE __NR_write
#include "lib.h"
#define TEXT(x) #x
#define NUMBER(x) TEXT(x)
__attribute__((noinline)) static void direct(int yes) {
#if defined(__x86_64__)
  if (yes) __asm__ volatile("mov $" NUMBER(__NR_getpid) ", %%eax\\nsyscall" ::: "rax", "rcx", "r11", "memory");
#elif defined(__aarch64__)
  if (yes) __asm__ volatile("mov x8, #" NUMBER(__NR_getpid) "\\nsvc #0" ::: "x0", "x8", "memory");
#elif defined(__riscv)
  if (yes) __asm__ volatile("li a7, " NUMBER(__NR_getpid) "\\necall" ::: "a0", "a7", "memory");
#else
  if (yes) __asm__ volatile("li 0, " NUMBER(__NR_getpid) "\\nsc" ::: "r0", "r3", "cr0", "memory");
#endif
#ifdef UNSERVED
#if defined(__x86_64__)
  __asm__ volatile("test %0, %0\\nmov $" NUMBER(__NR_ptrace) ", %%eax\\njne 1f\\nmov $1, %%eax\\njmp 2f\\n1: syscall\\n2:" : "+r"(yes) : : "rax", "rcx", "r11", "memory");
  __asm__ volatile("vaddps %ymm0, %ymm1, %ymm2");
#elif defined(__aarch64__)
  __asm__ volatile("mov x8, #" NUMBER(__NR_ptrace) "\\ncbnz %w0, 1f\\nmov x8, #1\\nb 2f\\n1: svc #0\\n2:" : "+r"(yes) : : "x0", "x8", "memory");
  __asm__ volatile(".inst 0xffffffff");
#elif defined(__riscv)
  __asm__ volatile("li a7, " NUMBER(__NR_ptrace) "\\nbnez %0, 1f\\nli a7, 1\\nj 2f\\n1: ecall\\n2:" : "+r"(yes) : : "a0", "a7", "memory");
  __asm__ volatile(".word 0xffffffff");
#else
  __asm__ volatile("li 0, " NUMBER(__NR_ptrace) "\\ncmpwi %0, 0\\nbne 1f\\nli 0, 1\\nb 2f\\n1: sc\\n2:" : "+r"(yes) : : "r0", "r3", "cr0", "memory");
  __asm__ volatile(".long 0x00000001");
#endif
#endif
}
int main(int argc, char **argv) { direct(argc); return 6; }
`;

const ALL = [...TARGETS, X86_TARGETS[0]!, RISCV_TARGETS[0]!, ARM64_TARGETS[0]!];

for (const target of sampled(ALL, 3)) {
  describeWith([target.gcc], `run --can on ${target.name}`, () => {
    const source = writeSource('can.c', SOURCE);
    const build = (...flags: string[]): string => buildProgram(target, '1', [source], ['-fno-inline', ...flags]);

    test('what is not served is listed with the place where a run stops', () => {
      const path = build('-DUNSERVED');
      const { files, missing } = can([path], 1);
      expect([files.length, missing]).toEqual([1, []]);
      const [file] = files;
      expect(file!.instructions).toHaveLength(1);
      const [instruction] = file!.instructions;
      const there = run([path]);
      expect(there.json['stop']).toMatchObject({
        reason: 'unknown-instruction',
        instruction: instruction!.address,
        bytes: instruction!.bytes,
        function: instruction!.function,
      });
      expect(file!.calls.map((each) => [each.name, each.class])).toContainEqual(['ptrace', 'refused']);
      const call = file!.calls.find((each) => each.name === 'ptrace')!;
      const [deviation] = there.json['deviations'] as { what: string; instruction: string }[];
      expect(deviation).toMatchObject({ what: `system call ptrace (${call.number})`, instruction: call.address });
      const { stdout } = elftrace(['run', '--can', path]);
      expect(stdout).toContain(`  system call ptrace (${call.number}) is not served: once, first at ${call.address} (`);
      expect(stdout).toMatch(/\nnot all is served\n$/);
    });

    test('a number that comes from elsewhere is said; served calls are not listed', () => {
      const { files } = can([build()], 1);
      const [{ instructions, calls }] = files as [Can['files'][0]];
      expect(instructions).toEqual([]);
      expect(calls.map((each) => [each.class, each.count])).toEqual([['unknown', 1]]);
      expect(calls[0]!.function).toMatch(/^\.?sys/);
    });
  });
}

describeWith(
  ['gcc', 'powerpc64le-linux-gnu-gcc', 'riscv64-linux-gnu-gcc', 'riscv64-linux-gnu-objdump'],
  'run --can',
  () => {
    test('code that asks for nothing else is served, and runs', () => {
      const source = writeSource('served.S', '.globl _start\n_start: mov $231, %eax\nmov $5, %edi\nsyscall\n');
      const path = scratch('served');
      runTool('gcc', ['-nostdlib', '-static', '-o', path, source]);
      const result = elftrace(['run', '--can', path]);
      expect([result.status, result.stdout]).toEqual([0, `${path}: 3 instructions looked at\nall is served\n`]);
      expect(run([path])).toMatchObject({ status: 5, stderr: '' });
    });

    test('decimal floating point of PowerPC, which is not announced, has its names', () => {
      const names = ['dadd', 'dctqpq', 'dqua', 'denbcdq', 'dcmpu', 'dscri'];
      const text = 'dadd 1,2,3\ndctqpq 2,4\ndqua 1,2,3,0\ndenbcdq 0,2,4\ndcmpu 1,2,3\ndscri 1,2,5\n';
      const source = writeSource('decimal.S', `.machine "power8"\n.globl _start\n_start: ${text}li 0,1\nsc\n`);
      const path = scratch('decimal');
      runTool('powerpc64le-linux-gnu-gcc', ['-nostdlib', '-static', '-o', path, source]);
      const [{ instructions }] = can([path], 1).files as [Can['files'][0]];
      expect(instructions.map((each) => each.mnemonic).sort()).toEqual([...names].sort());
      expect(run([path]).stderr).toContain('instruction dadd at ');
    });

    test('libraries are those of the tree, with the loader; what is not found is said', () => {
      // Calls of the program's own, too: futex_waitv and set_mempolicy_home_node.
      const own = 'static void ask(void) { __asm__("li a7, 449; ecall; li a7, 450; ecall"); }';
      const main = 'int main(int c, char **v) { if (c > 9) ask(); return (int)sin(c); }';
      const source = writeSource('library.c', `#include <math.h>\n${own}\n${main}`);
      const path = scratch('dynamic');
      runTool('riscv64-linux-gnu-gcc', ['-O1', '-o', path, source, '-lm']);
      const tree = '/usr/riscv64-linux-gnu';
      const { files, missing } = can(['--root', tree, path], 1);
      expect(files.map((each) => each.file.replace(/^.*\//, '')).slice(1).sort()).toEqual([
      'ld-linux-riscv64-lp64d.so.1',
      'libc.so.6',
      'libm.so.6',
    ]); // prettier-ignore
      expect(missing).toEqual([]);
      const without = can([path], 1);
      expect([without.files.length, without.missing.length]).toEqual([1, 3]);
      // Their numbers, by another reader: `li a7,N` in front of an ecall.
      const library = join(tree, files.find((each) => each.file.endsWith('libc.so.6'))!.file);
      const lines = [library, path].flatMap((each) =>
        runTool('riscv64-linux-gnu-objdump', ['-d', '--no-show-raw-insn', each]).toString().split('\n'),
      );
      const numbers = new Set<number>();
      lines.forEach((line, i) => {
        const number = /\tli\ta7,(\d+)$/.exec(lines[i - 1] ?? '')?.[1];
        if (/\tecall$/.test(line) && number !== undefined) numbers.add(Number(number));
      });
      const { stdout } = elftrace(['run', '--list-syscalls', path]);
      const refused = new Set(stdout.split('\n').flatMap((line) => /^ *(\d+) +\S+ +refused/.exec(line)?.[1] ?? []).map(Number)); // prettier-ignore
      const expected = [...numbers].filter((each) => refused.has(each)).sort((a, b) => a - b);
      const found = files.filter((each) => each.file === path || each.file.endsWith('libc.so.6'));
      const calls = found.flatMap((each) => each.calls);
      const listed = calls.filter((each) => each.class === 'refused').map((each) => each.number);
      expect(expected.length).toBeGreaterThan(5);
      expect(expected.filter((each) => !listed.includes(each))).toEqual([]);
    });
  },
);

describe('run --json', () => {
  test('goes with --can', () => {
    const { status, stderr } = elftrace(['run', '--json', join(builtSamples, 'x86-64/program-fentry')]);
    expect([status, stderr]).toEqual([125, expect.stringContaining('--json goes with --can')]);
  });
});
