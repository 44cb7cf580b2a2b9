/**
 * A traced call of the entries that are laid in as kernels have them (docs/spec/runtime.md): on
 * x86-64 its CPU time, natively, less that of the loop without sites; on every machine its
 * instructions, counted by the emulator, less those of the same loop with its sites off. Beside
 * them stand the aims.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileFor, MACHINES } from './machines.js';

/** Calls of a native run, and of one that is counted. */
const CALLS = Number(process.env['BENCH_CALLS'] ?? 30_000_000);
const COUNTED = 2000;

export interface TracedCallBench {
  readonly root: string;
  readonly folder: string;
  readonly cli: string;
  readonly runs: number;
  readonly hasTool: (name: string) => boolean;
  readonly spread: (values: readonly number[], digits?: number) => string;
}

/** One function with a site, called in a loop that has none. */
const LEAF = `__attribute__((noinline)) void leaf(void) { __asm__ volatile(""); }\n`;

/** Prints nanoseconds of CPU time. */
const NATIVE = `#include <stdio.h>
#include <stdlib.h>
#include <time.h>
${LEAF}
PLAIN static long cpu(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }
PLAIN int main(int count, char **words) {
  long calls = atol(words[1]), begin = cpu();
  (void)count;
  for (long i = 0; i < calls; i++) leaf();
  printf("%ld\\n", cpu() - begin);
  return 0;
}
`;

/** The profiling function is there to be named: sites are off, or call the tracer. */
const COUNTING = `${LEAF}
#ifdef MCOUNT
PLAIN void MCOUNT(void) { __asm__ volatile(""); }
#endif
PLAIN int main(void) { for (int i = 0; i < CALLS; i++) leaf(); return 0; }
`;

const PLAIN_PAD = '-DPLAIN=__attribute__((patchable_function_entry(0)))';
const PLAIN_PG = '-DPLAIN=__attribute__((no_instrument_function))';
const pg = (mcount: string, ...more: readonly string[]): string[] => ['-pg', PLAIN_PG, `-DMCOUNT=${mcount}`, ...more];

/** A convention: where its sites come from, and what the command is told. */
interface Convention {
  readonly machine: string;
  readonly name: string;
  readonly flags: readonly string[];
  readonly options?: readonly string[];
}

const pad = (area: string): string[] => [`-fpatchable-function-entry=${area}`, PLAIN_PAD];
const CONVENTIONS: readonly Convention[] = [
  { machine: 'x86-64', name: 'modern', flags: pad('5') },
  { machine: 'x86-64', name: 'mcount', flags: pg('mcount') },
  { machine: 'arm64', name: 'callops', flags: ['-falign-functions=8', ...pad('4,2')] },
  { machine: 'arm64', name: 'args', flags: pad('2'), options: ['--a64-era', 'args'] },
  { machine: 'arm64', name: 'regs', flags: pad('2'), options: ['--a64-era', 'regs'] },
  { machine: 'arm64', name: 'pg', flags: pg('_mcount') },
  { machine: 'riscv64', name: 'g2', flags: pad('4') },
  { machine: 'riscv64', name: 'g2-merged', flags: pad('4'), options: ['--riscv-site', 'g2-merged'] },
  { machine: 'riscv64', name: 'g3', flags: ['-falign-functions=4', ...pad('4')], options: ['--riscv-site', 'g3'] },
  { machine: 'riscv64', name: 'g3c', flags: ['-falign-functions=8', ...pad('8,4')], options: ['--riscv-site', 'g3c'] },
  { machine: 'ppc32', name: 'regs', flags: pad('2') },
  { machine: 'ppc32', name: 'ool-ops', flags: pad('1'), options: ['--ppc-entries', 'ool-ops'] },
  { machine: 'ppc64-elfv1', name: 'pg', flags: pg('_mcount') },
  { machine: 'ppc64-elfv1', name: 'regs', flags: pg('_mcount', '-mprofile-kernel') },
  { machine: 'ppc64-elfv1', name: 'ool-ops', flags: pad('1'), options: ['--ppc-entries', 'ool-ops'] },
  { machine: 'ppc64-elfv2-be', name: 'regs', flags: pg('_mcount', '-mprofile-kernel') },
  { machine: 'ppc64le', name: 'regs', flags: pg('_mcount', '-mprofile-kernel') },
];

const TRACERS = ['function', 'function_graph', 'counter'] as const;

/** What calls took with records of 32 bytes, in the order of `TRACERS`: the aim is a fifth less. */
const BEFORE: Readonly<Record<string, readonly number[]>> = {
  'arm64 callops': [85, 359, 51],
  'arm64 args': [81, 355, 47],
  'arm64 regs': [81, 354, 47],
  'arm64 pg': [129, 427, 94],
  'riscv64 g2': [93, 411, 48],
  'riscv64 g2-merged': [92, 409, 47],
  'riscv64 g3': [94, 411, 49],
  'riscv64 g3c': [92, 409, 47],
  'ppc32 regs': [116, 460, 67],
  'ppc32 ool-ops': [138, 482, 89],
  'ppc64-elfv1 pg': [169, 434, 128],
  'ppc64-elfv1 regs': [117, 452, 76],
  'ppc64-elfv1 ool-ops': [136, 471, 95],
  'ppc64-elfv2-be regs': [117, 452, 76],
  'ppc64le regs': [117, 452, 76],
};

function must(command: string, args: readonly string[], input = ''): string {
  const { status, stdout, stderr, error } = spawnSync(command, [...args], { input, encoding: 'utf8' });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr}`);
}

/** Aims of x86-64, nanoseconds a call; a record has at most 16 bytes. */
const AIMS: readonly { readonly name: string; readonly options: readonly string[]; readonly most: number }[] = [
  { name: 'function', options: ['--tracer', 'function'], most: 20 },
  { name: 'function-untimed', options: ['--tracer', 'function', '--clock', 'none'], most: 12 },
  { name: 'function_graph', options: ['--tracer', 'function_graph'], most: 45 },
  { name: 'counter', options: ['--tracer', 'counter'], most: 3 },
];

function benchTimes({ folder, cli, runs, spread }: TracedCallBench): void {
  const at = (name: string): string => join(folder, `call-${name}`);
  const build = (name: string, flags: readonly string[]): void => {
    must('gcc', ['-O2', '-no-pie', ...flags, '-x', 'c', '-', '-o', at(name)], NATIVE);
  };
  build('none', ['-DPLAIN=']);
  build('nops', pad('5'));
  for (const { name, options } of AIMS)
    must(process.execPath, [cli, 'patch', '--enable', ...options, at('nops'), '-o', at(name)]);
  const run = (name: string): number => Number(must(at(name), [String(CALLS)])) / CALLS;
  const spent = new Map<string, number[]>();
  // One after the other, so that a slow minute is one for all.
  for (let i = 0; i < runs; i++) {
    const base = run('none');
    for (const { name } of AIMS) spent.set(name, [...(spent.get(name) ?? []), run(name) - base]);
  }
  for (const { name, most } of AIMS)
    console.log(`x86-64 ${name}: ${spread(spent.get(name)!, 2)} ns CPU a call, at most ${String(most)} wanted`);
}

/** Instructions of a whole run in the emulator. */
function instructionsOf(cli: string, program: string, status: string): number {
  must(process.execPath, [cli, 'run', '--json-status', status, program]);
  return (JSON.parse(readFileSync(status, 'utf8')) as { instructions: number }).instructions;
}

function benchInstructions({ root, folder, cli, hasTool }: TracedCallBench): void {
  const source = join(folder, 'counting.c');
  writeFileSync(source, COUNTING);
  const programs = join(root, 'test', 'programs');
  for (const { machine: name, name: convention, flags, options = [] } of CONVENTIONS) {
    const machine = MACHINES.find((each) => each.name === name)!;
    if (!hasTool(machine.compiler)) {
      console.log(`${name} ${convention}: skipped (no ${machine.compiler})`);
      continue;
    }
    const [output, traced, status] = ['counting', 'counting-traced', 'counting.json'].map((each) => join(folder, each));
    const all = ['-O2', `-DCALLS=${String(COUNTED)}`, ...flags];
    compileFor(machine, { programs, source, output: output!, flags: all });
    const command = [cli, 'patch', '--enable', '--partial', ...options];
    const off = join(folder, 'counting-off');
    must(process.execPath, [cli, 'patch', '--nop', output!, '-o', off]);
    const without = instructionsOf(cli, off, status!);
    const cost = TRACERS.map((tracer) => {
      must(process.execPath, [...command, '-l', 'leaf', '--tracer', tracer, output!, '-o', traced!]);
      return (instructionsOf(cli, traced!, status!) - without) / COUNTED;
    });
    const wanted = BEFORE[`${name} ${convention}`]?.map((each) => (each * 0.8).toFixed(1));
    const beside = wanted === undefined ? '' : `; at most ${wanted.join(', ')} wanted`;
    const words = TRACERS.map((tracer, i) => `${tracer} ${cost[i]!.toFixed(1)}`);
    console.log(`${name} ${convention}: ${words.join(', ')} instructions a call${beside}`);
  }
}

/** Traced calls as kernels have them: time on x86-64, instructions everywhere. */
export function benchTracedCalls(bench: TracedCallBench): void {
  if (process.arch === 'x64' && bench.hasTool('gcc')) benchTimes(bench);
  else console.log('times of traced calls: skipped (they need x86-64 and gcc)');
  benchInstructions(bench);
}
