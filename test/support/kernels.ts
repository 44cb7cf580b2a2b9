/**
 * Small kernels: linked where a kernel is, with its table of sites between two symbols, with
 * entries of their own, and with what `--emit-relocs` keeps.
 */
import { readFileSync } from 'node:fs';
import { file } from './loader-build.js';
import { run } from './tools.js';

export interface KernelTarget {
  readonly name: string;
  readonly gcc: string;
  readonly base: string;
  readonly flags: readonly string[];
  /** Entries and profiling function. */
  readonly entries: string;
  /** How sites of a kernel of that kind are entered, as `conventionsOf` names it. */
  readonly convention: string;
  /** A word of data that holds an address. */
  readonly word: '.long' | '.8byte';
}

const descriptor = (name: string): string =>
  `\t.section .opd,"aw"\n\t.align 3\n\t.globl ${name}\n\t.type ${name},@function\n${name}:\t.quad .L${name},.TOC.@tocbase,0\n\t.text\n.L${name}:\n`;
const plain = (name: string): string => `\t.globl ${name}\n\t.type ${name},@function\n${name}:\n`;
/** A call of the stub, under the names that kernels have for its place. */
const called = (call: string, head: typeof plain): string =>
  `\t.text\n${head('ftrace_caller')}\t.globl ftrace_call\nftrace_call:\t${call} ftrace_stub\n${head('ftrace_stub')}`;
/**
 * What a PowerPC profiling function does that is called with the caller's LR saved: back to the
 * function, LR as it was.
 */
const back = (load: string): string => `\tmflr 12\n\tmtctr 12\n\t${load}\tmtlr 0\n\tbctr\n`;

export const kernelTargets: readonly KernelTarget[] = [
  {
    name: 'x86-64',
    gcc: 'x86_64-linux-gnu-gcc',
    base: '0xffffffff81000000',
    flags: ['-fno-pic', '-pg', '-mfentry', '-mrecord-mcount', '-mcmodel=kernel', '-fcf-protection=none'],
    // Hand-written code with a frame right in front of a function: nothing of it belongs to the
    // site.
    entries: `${called('call', plain)}\tret\n${plain('__fentry__')}\tret\n\t.balign 16\n${plain('copy')}\tpush %rbp\n\tmov %rsp,%rbp\n\tpop %rbp\n\tret\n`,
    convention: 'modern',
    word: '.8byte',
  },
  {
    name: 'ppc32',
    gcc: 'powerpc-linux-gnu-gcc',
    base: '0xc0000000',
    flags: ['-pg'],
    entries: `${called('bl', plain)}\tblr\n${plain('_mcount')}${back('lwz 0,4(1)\n')}`,
    convention: 'pg',
    word: '.long',
  },
  {
    name: 'ppc64-elfv1',
    gcc: 'powerpc64-linux-gnu-gcc',
    base: '0xc000000000000000',
    flags: ['-pg'],
    entries: `${called('bl', descriptor)}\tblr\n${descriptor('_mcount')}\tblr\n`,
    convention: 'pg',
    word: '.8byte',
  },
  {
    name: 'ppc64-elfv2-be',
    gcc: 'powerpc64-linux-gnu-gcc',
    base: '0xc000000000000000',
    flags: ['-mabi=elfv2', '-pg', '-mprofile-kernel'],
    entries: `\t.abiversion 2\n${called('bl', plain)}\tblr\n${plain('_mcount')}${back('')}`,
    convention: 'regs',
    word: '.8byte',
  },
  {
    name: 'ppc64-elfv2-le',
    gcc: 'powerpc64le-linux-gnu-gcc',
    base: '0xc000000000000000',
    // Areas behind the local entry, as compilers of kernels make them: see `buildKernel`.
    flags: [],
    entries: `\t.abiversion 2\n${called('bl', plain)}\tblr\n`,
    convention: 'regs',
    word: '.8byte',
  },
  {
    name: 'riscv64',
    gcc: 'riscv64-linux-gnu-gcc',
    base: '0xffffffff80000000',
    flags: ['-fpatchable-function-entry=8', '-mcmodel=medany', '-march=rv64gc', '-mno-relax'],
    entries: `${called('call', plain)}\tret\n`,
    convention: 'g2',
    word: '.8byte',
  },
  {
    name: 'arm64',
    gcc: 'aarch64-linux-gnu-gcc',
    base: '0xffff800080000000',
    flags: ['-fpatchable-function-entry=4,2'],
    entries: `${called('bl', plain)}\tret\n`,
    convention: 'callops',
    word: '.8byte',
  },
];

/** Tools that all of them need. */
export const kernelTools: readonly string[] = [
  ...new Set(kernelTargets.flatMap(({ gcc }) => [gcc, gcc.replace(/gcc$/, 'ld')])),
];

const SOURCE = `
int counter = 7;
static int table[4] = {1, 2, 3, 4};
int *pointer = &table[2];
__attribute__((noinline)) int step(int x) { counter++; return x + table[x & 3]; }
__attribute__((noinline)) int twice(int x) { return step(x) + step(x + 1); }
int (*handlers[2])(int) = {step, twice};
int through(int x) { return handlers[x & 1](x) + *pointer; }
void start_kernel(void) { for (;;) counter += through(counter); }
`;

const script = (base: string): string => `ENTRY(_stext)
SECTIONS {
  . = ${base};
  .text : { _stext = .; *(.text .text.*) _etext = .; }
  .rodata : { *(.rodata .rodata.*) }
  .init.data : { __start_mcount_loc = .; KEEP(*(__mcount_loc)) KEEP(*(__patchable_function_entries)) __stop_mcount_loc = .; }
  .opd : { *(.opd) }
  .data : { *(.data .data.*) *(.sdata .sdata.*) *(.got) *(.toc) }
  .bss : { *(.bss .sbss) }
}
`;

/** A small kernel, with the relocations that its linker applied and kept where `kept` says so. */
export function buildKernel(target: KernelTarget, kept = true): Uint8Array {
  const { name, gcc, flags, entries, word, base } = target;
  const common = ['-O2', '-ffreestanding', '-fno-stack-protector', '-fno-pie', '-fno-asynchronous-unwind-tables', '-w'];
  const text = run(gcc, [...common, '-g', ...flags, '-S', '-x', 'c', '-', '-o', '-'], SOURCE).toString();
  const slot = (table: string): string => `\t.pushsection ${table},"a"\n\t${word} 771b\n\t.popsection`;
  // The table of calls that the build of a kernel makes; and areas of two nops behind local
  // entries.
  const recorded =
    name === 'ppc64-elfv2-le'
      ? text.replaceAll(/^\t\.localentry\t.*$/gm, `$&\n771:\tnop\n\tnop\n${slot('__patchable_function_entries')}`)
      : text.replaceAll(/^\tbl (_mcount)$/gm, `771:\tbl $1\n${slot('__mcount_loc')}`);
  const object = (part: string, source: string): string => {
    const output = file(`${part}.o`);
    run(gcc, [...flags.filter((each) => each !== '-pg'), '-c', '-x', 'assembler', '-', '-o', output], source);
    return output;
  };
  const output = file('vmlinux');
  run(gcc.replace(/gcc$/, 'ld'), [
    ...(name === 'ppc64-elfv2-be' ? ['-m', 'elf64ppc'] : []),
    ...(kept ? ['--emit-relocs'] : []),
    ...['--no-warn-rwx-segments', '-z', 'noexecstack', '-T', file('vmlinux.lds', script(base))],
    ...[object('entries', entries), object('kernel', recorded), '-o', output],
  ]);
  return new Uint8Array(readFileSync(output));
}
