/**
 * The machines that the bench compiles C for: compiler, emulator, start-up code. Programs stand
 * alone, on the start-up code and lib.h of test/programs, or have the C library of the compiler.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

export interface BenchMachine {
  readonly name: string;
  readonly compiler: string;
  readonly qemu: string;
  /** What every program needs. */
  readonly flags: readonly string[];
  /** What keeps code to integer registers, for the loops. */
  readonly integers: readonly string[];
  /** Start-up code in test/programs. */
  readonly start: readonly string[];
  readonly libraries?: readonly string[];
  /** There is no C library for it (in Debian). */
  readonly alone?: true;
}

export const MACHINES: readonly BenchMachine[] = [
  { name: 'ppc32', compiler: 'powerpc-linux-gnu-gcc', qemu: 'qemu-ppc', flags: [], integers: [], start: ['start.S'] },
  {
    name: 'ppc64-elfv1',
    compiler: 'powerpc64-linux-gnu-gcc',
    qemu: 'qemu-ppc64',
    flags: [],
    integers: ['-mno-vsx', '-mno-altivec'],
    start: ['start.S'],
  },
  {
    name: 'ppc64-elfv2-be',
    compiler: 'powerpc64-linux-gnu-gcc',
    qemu: 'qemu-ppc64',
    flags: ['-mabi=elfv2', '-mcpu=power8'],
    integers: ['-mno-vsx', '-mno-altivec'],
    start: ['start.S'],
    libraries: [],
    alone: true,
  },
  {
    name: 'ppc64le',
    compiler: 'powerpc64le-linux-gnu-gcc',
    qemu: 'qemu-ppc64le',
    flags: [],
    integers: ['-mno-vsx', '-mno-altivec'],
    start: ['start.S'],
  },
  {
    name: 'riscv64',
    compiler: 'riscv64-linux-gnu-gcc',
    qemu: 'qemu-riscv64',
    flags: ['-march=rv64gc', '-mabi=lp64d', '-DSYS_WRITE=64'],
    integers: [],
    start: ['start-riscv64.S'],
  },
  {
    name: 'arm64',
    compiler: 'aarch64-linux-gnu-gcc',
    qemu: 'qemu-aarch64',
    flags: ['-DSYS_WRITE=64'],
    integers: ['-mgeneral-regs-only'],
    start: ['start-arm64.S'],
  },
  {
    name: 'x86-64',
    compiler: 'x86_64-linux-gnu-gcc',
    qemu: 'qemu-x86_64',
    flags: ['-fcf-protection=none'],
    integers: ['-mgeneral-regs-only'],
    start: ['start.S'],
  },
];

const ALONE = ['-ffreestanding', '-fno-builtin', '-fno-stack-protector', '-fno-pie', '-w'];

export interface CompileOptions {
  /** The folder test/programs. */
  readonly programs: string;
  readonly source: string;
  readonly output: string;
  readonly flags: readonly string[];
}

function compiled(machine: BenchMachine, args: readonly string[]): void {
  const built = spawnSync(machine.compiler, [...machine.flags, ...args], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`${machine.compiler}: ${built.error?.message ?? built.stderr}`);
}

/**
 * Compiles one source to a static program.
 * @throws with the compiler's words
 */
export function compileFor(machine: BenchMachine, { programs, source, output, flags }: CompileOptions): void {
  const sources = [source, ...machine.start.map((each) => join(programs, each))];
  const link = ['-nostdlib', '-static', '-no-pie', ...sources, '-o', output, ...(machine.libraries ?? ['-lgcc'])];
  compiled(machine, [...ALONE, '-I', programs, ...flags, ...link]);
}

/**
 * The same of one that calls the C library, and its mathematical functions.
 * @throws with the compiler's words
 */
export function compileWithLibrary(machine: BenchMachine, { source, output, flags }: CompileOptions): void {
  compiled(machine, ['-fno-pie', '-no-pie', '-static', ...flags, source, '-o', output, '-lm']);
}
