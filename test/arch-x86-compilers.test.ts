/**
 * x86-64 sites as gcc, clang, GNU ld and lld make them, in objects and linked images; patched
 * programs are run.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SiteReading, WritableState } from '../src/machine/sites.js';
import { x86_64 } from '../src/arch-x86/index.js';
import { readElf } from '../src/elf/read.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { load } from '../src/program/program.js';
import { asChange } from './support/fake-view.js';
import { sampled } from './support/long.js';
import { describeWith, run, runProgramFile, tool } from './support/tools.js';
import { isX86Linux } from './support/processor.js';

const SAMPLE = `
typedef __builtin_va_list va_list;
int counter;
__attribute__((noinline, noclone)) static int leaf(int x) { return x * 3 + counter; }
__attribute__((noinline, noclone)) int mid(int x) { counter++; return leaf(x) + 1; }
__attribute__((noinline, noclone)) int apply(int (*f)(int), int x) { return f(x) + 1; }
__attribute__((noinline, noclone)) int sum(int n, ...) {
  va_list ap; int total = 0;
  __builtin_va_start(ap, n);
  while (n-- > 0) total += __builtin_va_arg(ap, int);
  __builtin_va_end(ap);
  return total;
}
#ifdef NESTED
__attribute__((noinline, noclone)) int outer(int x) {
  int inner(int y) { return x + y; }
  return apply(inner, 2) + inner(1);
}
#else
__attribute__((noinline, noclone)) int outer(int x) { return mid(x) + 1; }
#endif
int run(int x) { return apply(mid, 3) + outer(4) + sum(3, 1, 2, 3) + leaf(x); }
`;

/**
 * Counts calls of the profiling entry, and of another tracer sixteen-fold; the sum is the exit
 * status.
 */
const TRACER_SOURCE = `
  .text
  .globl __fentry__, mcount, ftrace_caller, _start
__fentry__:
mcount: incl hits(%rip); ret
ftrace_caller: incl others(%rip); ret
_start: xor %ebp,%ebp; and $-16,%rsp; mov $5,%edi; call run
  mov hits(%rip),%edi; mov others(%rip),%eax; shl $4,%eax; add %eax,%edi; mov $60,%eax; syscall
  .local hits, others
  .comm hits,4,4
  .comm others,4,4
  .section .note.GNU-stack,"",@progbits
`;

let folder = '';

function compile(compiler: string, flags: string, output: string): Uint8Array {
  const object = join(folder, output);
  const common = '-O2 -c -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -x c';
  run(compiler, [
    ...`${common} ${flags}`.split(/\s+/).filter((each) => each !== ''),
    join(folder, 'sample.c'),
    '-o',
    object,
  ]);
  return readFileSync(object);
}

function sitesOf(bytes: Uint8Array, mcountNames: readonly string[] = []): Sites {
  return findSites(load(readElf(bytes), x86_64, { mcountNames }));
}

/** Every site as [shape, state, form, ipDelta, size]; the table is counted by readelf. */
function readingsOf(sites: Sites): SiteReading[] {
  return Array.from({ length: sites.count }, (_, i) => sites.reading(i)!);
}

function patched(bytes: Uint8Array, sites: Sites, to: (index: number) => WritableState): Uint8Array {
  const out = bytes.slice();
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.reading(i)!;
    for (const { delta, before, after } of asChange(reading.shape.write(reading, to(i), sites.viewOf(i))).stores) {
      const at = sites.fileOffset(i) + delta;
      expect(out.slice(at, at + before.length)).toEqual(before);
      out.set(after, at);
    }
  }
  return out;
}

/** Relocations by readelf: slots of the site table, and calls of the profiling entry. */
function countByReadelf(file: string): { slots: number; calls: number } {
  let section = '';
  let slots = 0;
  let calls = 0;
  for (const line of run('readelf', ['-rW', join(folder, file)])
    .toString()
    .split('\n')) {
    section = /^Relocation section '(.*?)'/.exec(line)?.[1] ?? section;
    if (!line.includes('R_X86_64_')) continue;
    if (/__mcount_loc|__patchable_function_entries/.test(section)) slots++;
    else if (/ (?:__fentry__|mcount) /.test(line)) calls++;
  }
  return { slots, calls };
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'x86-sites-'));
  writeFileSync(join(folder, 'sample.c'), SAMPLE);
  writeFileSync(join(folder, 'tracer.S'), TRACER_SOURCE);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/**
 * Pads wholly before the symbol (16,16) are call padding, whatever the functions begin with: gcc
 * starts some with a call.
 */
function checkPadding(compiler: string, flags: string): void {
  const sites = sitesOf(compile(compiler, flags, 'object.o'));
  expect(countByReadelf('object.o').slots).toBe(6);
  // clang makes a table for each function.
  expect(new Set(sites.tables.map((table) => table.role))).toEqual(new Set(['padding']));
  expect(sites.tables.reduce((sum, table) => sum + table.count, 0)).toBe(6);
  expect(sites.count).toBe(0);
}

const PADDING = ['-fpatchable-function-entry=16,16', '-fpatchable-function-entry=16,16 -fcf-protection=branch'];

type Row = readonly [flags: string, shape: string, state: string, size: number, ipDelta: number | 'mixed'];

const CALLS_BOTH: readonly Row[] = [
  ['-fno-pie -pg', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -mfentry', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -mfentry -fcf-protection=branch', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -O0', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -ffunction-sections', 'x86-64.call5', 'compiled', 5, 0],
];
const CALLS_GCC: readonly Row[] = [
  ['-fPIC -pg', 'x86-64.call6', 'compiled', 6, 0],
  ['-fPIE -pg -mfentry', 'x86-64.call6', 'compiled', 6, 0],
  ['-fno-pie -mcmodel=large -pg', 'x86-64.call-abs64', 'compiled', 13, 0],
  ['-fno-pie -mcmodel=large -pg -mfentry -mrecord-mcount', 'x86-64.call-abs64', 'compiled', 13, 0],
  ['-fno-pie -mcmodel=kernel -mno-red-zone -pg -mfentry -mrecord-mcount', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -mfentry -mrecord-mcount', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -mfentry -mrecord-mcount -fcf-protection=branch', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -mrecord-mcount', 'x86-64.call5', 'compiled', 5, 0],
  ['-fPIC -pg -mrecord-mcount', 'x86-64.call6', 'compiled', 6, 0],
  ['-fPIC -pg -mfentry -mrecord-mcount', 'x86-64.call6', 'compiled', 6, 0],
  ['-fno-pie -pg -mfentry -mrecord-mcount -DNESTED', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -pg -mfentry -mrecord-mcount -mnop-mcount', 'x86-64.call5', 'nop', 5, 0],
  ['-fno-pie -pg -mrecord-mcount -mnop-mcount', 'x86-64.call5', 'nop', 5, 0],
  ['-fno-pie -pg -mfentry -mrecord-mcount -mnop-mcount -fcf-protection=branch', 'x86-64.call5', 'nop', 5, 0],
];
const CALLS_CLANG: readonly Row[] = [
  ['-fPIC -pg -mfentry', 'x86-64.call5', 'compiled', 5, 0],
  ['-fno-pie -mcmodel=large -pg', 'x86-64.call-abs64', 'compiled', 12, 0],
];
const PADS: readonly Row[] = [
  ['-fpatchable-function-entry=5', 'x86-64.patchable-5', 'compiled', 5, 0],
  ['-fPIC -fpatchable-function-entry=5,0', 'x86-64.patchable-5', 'compiled', 5, 0],
  ['-fpatchable-function-entry=5 -ffunction-sections', 'x86-64.patchable-5', 'compiled', 5, 0],
  ['-fpatchable-function-entry=5 -fcf-protection=branch', 'x86-64.patchable-5', 'compiled', 5, 0],
  ['-fpatchable-function-entry=16,11', 'x86-64.patchable-5', 'compiled', 5, 11],
  // gcc gives a static function whose address is not taken no endbr64 (X-SITE-2).
  ['-fpatchable-function-entry=16,11 -fcf-protection=branch', 'x86-64.patchable-5', 'compiled', 5, 'mixed'],
  ['-fpatchable-function-entry=2', 'x86-64.patchable-5', 'foreign', 5, 0],
  ['-fpatchable-function-entry=4,2', 'x86-64.patchable-5', 'foreign', 5, 2],
];

function checkObject(compiler: string, [flags, shape, state, size, ipDelta]: Row): void {
  const bytes = compile(compiler, flags, 'object.o');
  const sites = sitesOf(bytes);
  const counted = countByReadelf('object.o');
  expect(sites.count).toBe(counted.slots > 0 ? counted.slots : counted.calls);
  expect(sites.count).toBeGreaterThanOrEqual(6);
  for (const reading of readingsOf(sites)) {
    expect([reading.shape.name, reading.state, reading.reason]).toEqual([shape, state, reading.reason]);
    if (state !== 'foreign') expect(reading.sizeBytes).toBe(size);
    else expect(reading.fault).toBe('unsupported');
    if (ipDelta !== 'mixed') expect(reading.ipDelta).toBe(ipDelta);
    else expect([11, 15]).toContain(reading.ipDelta);
    expect(reading.relocationDeltas.length).toBe(state === 'compiled' && !flags.includes('patchable') ? 1 : 0);
  }
}

describeWith(['gcc', 'readelf'], 'X-SITE-1 X-SITE-2 X-SITE-3 gcc objects', () => {
  test.each(sampled([...CALLS_BOTH, ...CALLS_GCC, ...PADS], 2))('gcc %s: %s %s', (...row) => {
    checkObject('gcc', row);
  });

  test.each(PADDING)('gcc %s: no sites', (flags) => {
    checkPadding('gcc', flags);
  });

  test('-mfentry-name: a call of a name that nobody declared, compiled once it is declared', () => {
    const flags = '-fno-pie -pg -mfentry -mrecord-mcount -mfentry-name=my_entry -mfentry-section=__mcount_loc';
    const bytes = compile('gcc', flags, 'object.o');
    expect(new Set(readingsOf(sitesOf(bytes)).map((each) => `${each.state} ${each.form}`))).toEqual(
      new Set(['call named']),
    );
    expect(new Set(readingsOf(sitesOf(bytes, ['my_entry'])).map((each) => each.state))).toEqual(new Set(['compiled']));
  });
});

describeWith(['clang', 'readelf'], 'X-SITE-1 X-SITE-2 X-SITE-3 clang objects', () => {
  test.each(sampled([...CALLS_BOTH, ...CALLS_CLANG, ...PADS], 2))('clang %s: %s %s', (...row) => {
    checkObject('clang', row);
  });

  test.each(PADDING)('clang %s: no sites', (flags) => {
    checkPadding('clang', flags);
  });

  test.each(sampled([6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20], 3))('clang pad of %i bytes holds a call', (size) => {
    const sites = sitesOf(compile('clang', `-fpatchable-function-entry=${size}`, 'object.o'));
    for (const reading of readingsOf(sites)) {
      expect([reading.state, reading.form, reading.sizeBytes]).toEqual(['compiled', 'long-nop', Math.min(size, 10)]);
    }
  });
});

// --------------------------------------------------------------------------------- linked programs

type Link = readonly [compiler: string, flags: string, link: string, shape: string, form: string, runs: boolean];

const LINKS: readonly Link[] = [
  ['gcc', '-fno-pie -pg -mfentry -mrecord-mcount', '-static', 'x86-64.call5', 'call', true],
  ['gcc', '-fno-pie -pg', '-static', 'x86-64.call5', 'call', true],
  ['gcc', '-fno-pie -pg -mfentry -fcf-protection=branch', '-static', 'x86-64.call5', 'call', true],
  ['gcc', '-fPIE -pg -mfentry', '-static', 'x86-64.call6', 'addr32', true],
  ['gcc', '-fPIE -pg', '-pie --no-dynamic-linker', 'x86-64.call6', 'addr32', true],
  ['gcc', '-fPIE -pg -mfentry', '-static --no-relax', 'x86-64.call6', 'got', true],
  ['gcc', '-fPIC -pg', '-shared', 'x86-64.call6', 'got', false],
  ['gcc', '-fno-pie -mcmodel=large -pg', '-static', 'x86-64.call-abs64', 'r10', true],
  ['gcc', '-fno-pie -fpatchable-function-entry=5', '-static', 'x86-64.patchable-5', 'nops', true],
  ['gcc', '-fPIC -fpatchable-function-entry=16,11', '-pie --no-dynamic-linker', 'x86-64.patchable-5', 'nops', true],
  [
    'gcc',
    '-fPIC -fpatchable-function-entry=16,11 -fcf-protection=branch',
    '-shared',
    'x86-64.patchable-5',
    'nops',
    false,
  ],
  ['clang', '-fno-pie -pg', '-static', 'x86-64.call5', 'call', true],
  ['clang', '-fno-pie -pg -mfentry', '-static', 'x86-64.call5', 'call', true],
  ['clang', '-fPIC -pg -mfentry', '-shared', 'x86-64.call5', 'call', false],
  ['clang', '-fno-pie -mcmodel=large -pg', '-static', 'x86-64.call-abs64', 'rax', true],
  ['clang', '-fno-pie -fpatchable-function-entry=5', '-static', 'x86-64.patchable-5', 'long-nop', true],
  ['clang', '-fPIE -fpatchable-function-entry=6', '-pie --no-dynamic-linker', 'x86-64.patchable-5', 'long-nop', true],
  ['clang', '-fno-pie -fpatchable-function-entry=16', '-static', 'x86-64.patchable-5', 'long-nop', true],
];

/** Exit status of a program image, run here or under qemu. */
function status(bytes: Uint8Array): number {
  const file = join(folder, 'patched');
  writeFileSync(file, bytes);
  chmodSync(file, 0o755);
  const result = isX86Linux ? runProgramFile(file) : runProgramFile('qemu-x86_64', [file]);
  return result.status ?? -1;
}

const canRun = isX86Linux || tool('qemu-x86_64') !== null;

describeWith(['gcc', 'clang', 'ld.bfd', 'ld.lld'], 'X-SITE-1 linked images', () => {
  test.each(sampled(LINKS, 2))('%s %s %s: %s %s, by both linkers', (compiler, flags, link, shape, form, runs) => {
    compile(compiler, flags, 'sample.o');
    run('gcc', ['-c', join(folder, 'tracer.S'), '-o', join(folder, 'tracer.o')]);
    for (const linker of ['ld.bfd', 'ld.lld']) checkLinked(linker, link, shape, form, runs);
  });
});

function checkLinked(linker: string, link: string, shape: string, form: string, runs: boolean): void {
  // In a shared object the profiling entry is imported, as from libc.
  const inputs = link === '-shared' ? ['sample.o'] : ['tracer.o', 'sample.o'];
  run(linker, [...link.split(' '), ...inputs.map((each) => join(folder, each)), '-o', join(folder, 'program')]);
  const bytes = new Uint8Array(readFileSync(join(folder, 'program')));
  const sites = sitesOf(bytes);
  expect(sites.count).toBe(6);
  for (const reading of readingsOf(sites)) {
    expect([reading.shape.name, reading.state, reading.form]).toEqual([shape, 'compiled', form]);
  }
  const table = sites.source(0) !== 'call';
  const nopped = patched(bytes, sites, () => ({ kind: 'init' }));
  if (table) expect(new Set(readingsOf(sitesOf(nopped)).map((each) => each.state))).toEqual(new Set(['nop']));
  if (!runs) return;

  const { symbols } = readElf(bytes);
  const tracer = symbols.value[symbols.find('ftrace_caller')]!;
  const enabled = patched(bytes, sites, () => ({ kind: 'call', target: tracer }));
  if (table) expect(new Set(readingsOf(sitesOf(enabled)).map((each) => each.state))).toEqual(new Set(['call']));
  if (!canRun) return;
  // run, apply, mid, leaf, outer, mid, leaf, sum, leaf: nine entries.
  const calls = shape === 'x86-64.patchable-5' ? 0 : 9;
  expect(status(bytes)).toBe(calls);
  expect(status(nopped)).toBe(0);
  expect(status(enabled)).toBe((9 * 16) % 256);
  const half = patched(bytes, sites, (i) => (i % 2 === 0 ? { kind: 'nop' } : { kind: 'call', target: tracer }));
  expect(status(half) % 16).toBe(0);
}
