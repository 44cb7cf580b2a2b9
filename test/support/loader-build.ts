/**
 * Cores, modules and a small runtime for tests of the loader; images run under qemu-user and in the
 * emulator.
 */
import { spawnSync } from './spawn.js';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Arch } from '../../src/machine/arch.js';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { type Process, startProcess } from '../../src/guest/index.js';
import { loadImages, type LoadRequest, type LoadResult, type Source } from '../../src/program/loader.js';
import { type PpcTarget, ppcTargets } from './ppc-build.js';
import { run } from './tools.js';

export type LoaderTarget = keyof typeof ppcTargets;
export const loaderTargets: readonly LoaderTarget[] = ['ppc32', 'v1', 'v2be', 'v2le'];

const programs = join(dirname(fileURLToPath(import.meta.url)), '../../../test/programs');
const qemuOf: Readonly<Record<LoaderTarget, string>> = {
  ppc32: 'qemu-ppc',
  v1: 'qemu-ppc64',
  v2be: 'qemu-ppc64',
  v2le: 'qemu-ppc64le',
};
/** Tools that the tests of all targets need. */
export const loaderTools: readonly string[] = [
  ...new Set(Object.values(ppcTargets).flatMap(({ prefix }) => [`${prefix}gcc`, `${prefix}ld`])),
  ...new Set(Object.values(qemuOf)),
  'objdump',
];

const folder = mkdtempSync(join(tmpdir(), 'elftrace-load-'));
process.on('exit', () => {
  rmSync(folder, { recursive: true, force: true });
});
let files = 0;
/** A new file in a folder that is removed at the end. */
export function file(name: string, contents?: Uint8Array | string): string {
  const path = join(folder, `${files++}-${name}`);
  if (contents !== undefined) writeFileSync(path, contents);
  return path;
}

const common = [
  '-O2', '-ffreestanding', '-fno-stack-protector', '-fno-pie', '-w', '-c', '-fno-asynchronous-unwind-tables',
]; // prettier-ignore

/** An object from C or assembly (`.S` with the preprocessor). */
export function compile(
  target: LoaderTarget,
  source: string,
  flags: readonly string[] = [],
  language: 'c' | 'assembler-with-cpp' = 'c',
): Uint8Array {
  const { prefix, gccFlags }: PpcTarget = ppcTargets[target];
  const output = file('a.o');
  const vectors = target === 'ppc32' ? [] : ['-mno-vsx', '-mno-altivec'];
  const more = [...common, ...gccFlags, ...vectors, ...flags, '-x', language, '-', '-I', programs, '-o', output];
  run(`${prefix}gcc`, more, source);
  return new Uint8Array(readFileSync(output));
}

export const assemble = (target: LoaderTarget, source: string): Uint8Array =>
  compile(target, source, [], 'assembler-with-cpp');

export const source = (name: string, bytes: Uint8Array): Source => ({ name, image: readElf(bytes) });

/** `_start` and `sys` of the test programs. */
export const startObject = (target: LoaderTarget): Uint8Array =>
  assemble(target, readFileSync(join(programs, 'start.S'), 'utf8'));

/** Objects made one (`ld -r`). */
export function merge(target: LoaderTarget, objects: readonly Uint8Array[]): Uint8Array {
  const output = file('merged.o');
  const { prefix } = ppcTargets[target];
  run(`${prefix}ld`, [...emulation(target), '-r', ...objects.map((bytes) => file('part.o', bytes)), '-o', output]);
  return new Uint8Array(readFileSync(output));
}

const emulation = (target: LoaderTarget): string[] => (target === 'v2be' ? ['-m', 'elf64ppc'] : []);

/** A program by GNU ld. */
export function link(target: LoaderTarget, objects: readonly Uint8Array[], flags: readonly string[] = []): Uint8Array {
  const output = file('linked');
  const { prefix } = ppcTargets[target];
  run(`${prefix}ld`, [
    ...emulation(target), '-static', '--no-warn-rwx-segments', '-z', 'noexecstack', ...flags,
    ...objects.map((bytes) => file('part.o', bytes)), '-o', output,
  ]); // prettier-ignore
  return new Uint8Array(readFileSync(output));
}

/** Calls modules only through a pointer that nothing sets: its image runs without any. */
export const CORE_ALONE = `
#include "lib.h"
int core_value = 5;
int (*hook)(int);
__attribute__((noinline)) int core_add(int a, int b) { return a + b + core_value; }
__attribute__((noinline)) int twice(int x) { return core_add(x, x); }
int main(void) {
  line("value", (u32)twice(core_value));
  if (hook) line("hook", (u32)hook(3));
  flush();
  return 7;
}
`;
/** Modules that use the core, and the second the first. */
export const MODULE_A = `
extern int core_value, core_add(int, int), twice(int);
static int own = 100;
int shared_counter;
static const int table[] = { 1, 2, 3, 4 };
int (*volatile pointer)(int, int) = core_add;
__attribute__((noinline)) static int local(int x) { own += x; return own + table[x & 3]; }
int mod_a(int x) { core_value += x; shared_counter++; return core_add(x, local(x)) + pointer(1, 2) + twice(own); }
`;
export const MODULE_B = `
extern int core_value, core_add(int, int), mod_a(int), shared_counter;
int mod_b(int x) { int r = mod_a(x) + shared_counter; core_value *= 2; return core_add(r, core_value); }
`;

export interface Ran {
  readonly output: string;
  readonly code: number;
}

export function runQemu(target: LoaderTarget, bytes: Uint8Array): Ran {
  const path = file('image', bytes);
  chmodSync(path, 0o755);
  const result = spawnSync(qemuOf[target], [path], { maxBuffer: 1 << 26 });
  if (result.error) throw result.error;
  return { output: result.stdout.toString('latin1'), code: result.status ?? -1 };
}

/** Starts an image in the emulator; registers of its load map are set. */
export function start(
  arch: Arch,
  image: ElfImage,
  registers: Readonly<Record<string, bigint>> = {},
): { readonly process: Process; output(): string } {
  const { emulation: model } = arch;
  if (model.kind !== 'ir') throw new Error('this target is not executed');
  let text = '';
  const process = startProcess({
    image,
    abi: arch.abi,
    emulation: model,
    onOutput: (_fd, bytes) => {
      text += new TextDecoder('latin1').decode(bytes);
    },
  });
  for (const [name, value] of Object.entries(registers)) process.machine.setRegister(name, value);
  return { process, output: () => text };
}

export function runHere(arch: Arch, bytes: Uint8Array, registers: Readonly<Record<string, bigint>> = {}): Ran {
  const { process, output } = start(arch, readElf(bytes), registers);
  const reason = process.machine.run({ budget: 50_000_000 });
  if (reason.kind !== 'exit')
    throw new Error(
      `${JSON.stringify(reason, (_key, each: unknown) => (typeof each === 'bigint' ? each.toString(16) : each))} after: ${output()}`,
    );
  return { output: output(), code: reason.code };
}

/** `load` with the defaults of the tests. */
export function load(
  target: LoaderTarget,
  core: Source,
  modules: readonly Source[],
  more: Partial<LoadRequest> = {},
): LoadResult {
  return loadImages({ core, modules, base: 'user', runtime: null, options: {}, ...more }, ppcTargets[target].arch);
}

/**
 * A runtime that counts calls in `trace_count`, for tests of stubs. `pg`: entered as an ordinary
 * call on 64 bits; `regs`: as at a -mprofile-kernel site. On 32 bits both are the same.
 */
export function countingRuntime(target: LoaderTarget, convention: 'pg' | 'regs'): string {
  if (target === 'ppc32') {
    return `
	.globl _mcount, ftrace_caller, ftrace_regs_caller, trace_count
	.weak _mcount
	.text
ftrace_caller:
ftrace_regs_caller:
	stwu 1,-16(1)
	stw 11,8(1)
	lis 12,trace_count@ha
	lwz 11,trace_count@l(12)
	addi 11,11,1
	stw 11,trace_count@l(12)
	lwz 11,8(1)
	addi 1,1,16
_mcount:
	mflr 0
	mtctr 0
	lwz 0,4(1)
	mtlr 0
	bctr
	.bss
	.align 3
trace_count: .space 8
`;
  }
  const v2 = target === 'v2be' || target === 'v2le';
  const head = (name: string): string =>
    v2
      ? `\t.globl ${name}\n\t.type ${name},@function\n${name}:\n0:\taddis 2,12,.TOC.-0b@ha\n\taddi 2,2,.TOC.-0b@l\n\t.localentry ${name},.-${name}\n`
      : `\t.section .opd,"aw"\n\t.align 3\n\t.globl ${name}\n\t.type ${name},@function\n${name}:\t.quad .L${name},.TOC.@tocbase,0\n\t.text\n.L${name}:\n`;
  const abi = v2 ? '\t.abiversion 2\n' : '';
  if (convention === 'pg') {
    return `${abi}	.text
${head('ftrace_caller')}	addis 11,2,trace_count@toc@ha
	ld 12,trace_count@toc@l(11)
	addi 12,12,1
	std 12,trace_count@toc@l(11)
	blr
${head('_mcount')}	blr
	.weak _mcount
	.globl trace_count
	.bss
	.align 3
trace_count: .space 8
`;
  }
  // Entered with any TOC: the address comes from the program counter, which costs LR.
  return `${abi}	.text
${v2 ? '\t.globl ftrace_caller, ftrace_regs_caller, _mcount\n' : ''}${v2 ? 'ftrace_caller:\nftrace_regs_caller:\n' : head('ftrace_caller')}	mflr 11
	std 11,-8(1)
	bcl 20,31,1f
1:	mflr 12
	mtlr 11
	addis 12,12,trace_count-1b@ha
	addi 12,12,trace_count-1b@l
	ld 11,0(12)
	addi 11,11,1
	std 11,0(12)
	b 2f
${v2 ? '_mcount:\n' : head('_mcount')}2:	mflr 12
	mtctr 12
	mtlr 0
	bctr
	.weak _mcount
	.globl trace_count
	.bss
	.align 3
trace_count: .space 8
`;
}
