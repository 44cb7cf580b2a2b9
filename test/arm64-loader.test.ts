/**
 * The module loader on arm64. What an image must print comes from the same objects linked by GNU ld
 * 2.40 and run under qemu-user; readelf and objdump say whether it is well formed.
 */
import { spawnSync } from './support/spawn.js';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { arm64 } from '../src/arch-arm64/index.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { findSites } from '../src/sites/sites.js';
import { planTracing } from '../src/tracing/tracing.js';
import { conventionsOf } from '../src/program/conventions.js';
import { loadImages, type LoadRequest, type LoadResult, type Source } from '../src/program/loader.js';
import { load as loadProgram } from '../src/program/program.js';
import type { ConventionName } from '../src/machine/conventions.js';
import { runtimeObject } from '../src/runtime/index.js';
import { plainTarget } from './support/arm64-runtime.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { scratch } from './support/c-programs.js';
import { runHere, type Ran, source } from './support/loader-build.js';
import { loadSamples, runImage, trace } from './support/loaded.js';
import { errorOf, openBytes, root } from './support/pipeline.js';
import { PROGRAMS } from './support/runtime-harness.js';
import { describeWith, run } from './support/tools.js';

const PREFIX = 'aarch64-linux-gnu-';
const tools = [`${PREFIX}gcc`, `${PREFIX}ld`, `${PREFIX}readelf`, `${PREFIX}objdump`, 'qemu-aarch64'];
const flagsOf = plainTarget.flags.filter((each) => each !== '-fno-pie' && each !== '-no-pie');

function compile(text: string, flags: readonly string[] = [], language: 'c' | 'assembler-with-cpp' = 'c'): Uint8Array {
  const output = scratch('a.o');
  const common = [
    '-O2',
    '-ffreestanding',
    '-fno-stack-protector',
    '-w',
    '-fno-asynchronous-unwind-tables',
    '-mgeneral-regs-only',
  ];
  const pic = flags.some((each) => /^-fpic$/i.test(each)) ? [] : ['-fno-pie'];
  run(
    `${PREFIX}gcc`,
    [...common, ...flagsOf, ...pic, ...flags, '-I', PROGRAMS, '-x', language, '-c', '-', '-o', output],
    text,
  );
  return new Uint8Array(readFileSync(output));
}
const assemble = (text: string): Uint8Array => compile(text, [], 'assembler-with-cpp');

function files(objects: readonly Uint8Array[]): string[] {
  return objects.map((bytes) => {
    const path = scratch('part.o');
    writeFileSync(path, bytes);
    return path;
  });
}
function merge(objects: readonly Uint8Array[]): Uint8Array {
  const output = scratch('merged.o');
  run(`${PREFIX}ld`, ['-r', ...files(objects), '-o', output]);
  return new Uint8Array(readFileSync(output));
}
function link(objects: readonly Uint8Array[], flags: readonly string[] = []): Uint8Array {
  const output = scratch('linked');
  run(`${PREFIX}ld`, [
    '-static',
    '--no-warn-rwx-segments',
    '-z',
    'noexecstack',
    ...flags,
    ...files(objects),
    '-o',
    output,
  ]);
  return new Uint8Array(readFileSync(output));
}
function runQemu(bytes: Uint8Array): Ran {
  const path = scratch('image');
  writeFileSync(path, bytes, { mode: 0o755 });
  const result = spawnSync('qemu-aarch64', [path], { maxBuffer: 1 << 26 });
  return { output: result.stdout.toString('latin1'), code: result.status ?? -1 };
}
const load = (core: Source, modules: readonly Source[], more: Partial<LoadRequest> = {}): LoadResult =>
  loadImages({ core, modules, base: 'user', runtime: null, options: {}, ...more }, arm64);
const runtime = (flavour: ConventionName): Source => source(`runtime-${flavour}`, runtimeObject('arm64', flavour)!);

/** The last two words of a 4 KiB page. */
const isForbidden = (address: bigint): boolean => (address & 0xfffn) >= 0xff8n;

function complaints(bytes: Uint8Array): string {
  const path = scratch('checked');
  writeFileSync(path, bytes);
  const readelf = spawnSync(`${PREFIX}readelf`, ['-aW', path], { maxBuffer: 1 << 28, encoding: 'utf8' });
  const objdump = spawnSync(`${PREFIX}objdump`, ['-d', path], { maxBuffer: 1 << 28, encoding: 'utf8' });
  expect([readelf.status, objdump.status]).toEqual([0, 0]);
  const spoken = readelf.stdout.split('\n').filter((line) => /warning|error:/i.test(line));
  return [readelf.stderr, objdump.stderr, ...spoken].join('').trim();
}

const CORE = `
#include "lib.h"
int core_value = 5;
extern int mod_a(int), mod_b(int);
__attribute__((noinline)) int core_add(int a, int b) { return a + b + core_value; }
__attribute__((noinline)) int twice(int x) { return core_add(x, x); }
int main(void) {
  line("a", (u32)mod_a(3));
  line("b", (u32)mod_b(4));
  line("value", core_value);
  flush();
  return 7;
}
`;
const ALONE = `
#include "lib.h"
int core_value = 5;
__attribute__((noinline)) int core_add(int a, int b) { return a + b + core_value; }
__attribute__((noinline)) int twice(int x) { return core_add(x, x); }
int main(void) { line("value", (u32)twice(core_value)); flush(); return 7; }
`;
const MOD_A = `
extern int core_value, core_add(int, int), twice(int);
static int own = 100;
int shared_counter;
int common_one, common_two[3];
static const int table[] = { 1, 2, 3, 4 };
int (*volatile pointer)(int, int) = core_add;
__attribute__((weak)) extern int nobody(int);
__attribute__((noinline)) static int local(int x) { own += x; common_two[1] += own; return own + table[x & 3]; }
__attribute__((noinline)) static int which(int x) {
  switch (x) { case 0: return 3; case 1: return core_value; case 2: return 17; case 3: return local(x); case 4: return 1; default: return x * 5; }
}
int mod_a(int x) {
  core_value += x; shared_counter++;
  if (nobody) nobody(1);
  return core_add(x, local(x)) + pointer(1, 2) + twice(own) + which(x) + common_two[1];
}
`;
const MOD_B = `
extern int core_value, core_add(int, int), mod_a(int), shared_counter;
int mod_b(int x) { int r = mod_a(x) + shared_counter; core_value *= 2; return core_add(r, core_value); }
int mod_tail(int x) { return mod_a(x + 1); }
`;

/** Code models, position-independent code: every way in which compilers name addresses. */
const MODELS: readonly (readonly [name: string, flags: readonly string[]])[] = [
  ['-O2', []],
  ['-O0', ['-O0']],
  ['-Os', ['-Os']],
  ['-fpic', ['-fpic']],
  ['-fPIC', ['-fPIC']],
  ['-mcmodel=large', ['-mcmodel=large']],
];

describeWith(tools, 'loading', () => {
  const start = assemble(readFileSync(join(PROGRAMS, 'start-arm64.S'), 'utf8'));

  test.each(MODELS)('far modules print what ld makes of the same objects: %s', (_name, flags) => {
    const [core, a, b] = [CORE, MOD_A, MOD_B].map((each) => compile(each, flags));
    const expected = runQemu(link([start, core!, a!, b!]));
    expect(expected.code).toBe(7);
    const { bytes, map } = load(source('core', merge([start, core!])), [source('mod_a', a!), source('mod_b', b!)]);
    expect(runHere(arm64, bytes)).toEqual(expected);
    expect(runQemu(bytes)).toEqual(expected);
    expect(complaints(bytes)).toBe('');
    expect(readElf(bytes).relocations).toEqual([]);
    // Beyond the 128 MiB of a branch.
    for (const part of map.parts.slice(1))
      expect(part.ranges[0]!.start - map.parts[0]!.ranges[0]!.start > 0x800_0000n).toBe(true);
  });

  test('clang: the same', () => {
    if (spawnSync('clang', ['--version']).error) return;
    const clang = (text: string): Uint8Array => {
      const output = scratch('clang.o');
      const flags = [
        '--target=aarch64-linux-gnu',
        '-O2',
        '-ffreestanding',
        '-fno-pic',
        '-fno-vectorize',
        '-fno-slp-vectorize',
        '-w',
      ];
      run('clang', [...flags, '-DSYS_WRITE=64', '-I', PROGRAMS, '-x', 'c', '-c', '-', '-o', output], text);
      return new Uint8Array(readFileSync(output));
    };
    const [core, a, b] = [CORE, MOD_A, MOD_B].map(clang);
    const expected = runQemu(link([start, core!, a!, b!]));
    const { bytes } = load(source('core', merge([start, core!])), [source('mod_a', a!), source('mod_b', b!)]);
    expect(runQemu(bytes)).toEqual(expected);
    expect(runHere(arm64, bytes)).toEqual(expected);
  });

  test('relocations that compilers rarely make: every group of movz and movn, literals, short branches, GOT forms, 16 and 32 bits', () => {
    const module = assemble(
      `
	.text
	.macro	result
	str	x1, [x0], #8
	.endm
	.globl	forms
	.type	forms, %function
forms:
	movz	x1, #:abs_g3:absolute
	movk	x1, #:abs_g2_nc:absolute
	movk	x1, #:abs_g1_nc:absolute
	movk	x1, #:abs_g0_nc:absolute
	result
	movz	x1, #:abs_g2:middle
	movk	x1, #:abs_g1_nc:middle
	movk	x1, #:abs_g0_nc:middle
	result
	movz	x1, #:abs_g1:small
	movk	x1, #:abs_g0_nc:small
	result
	movz	x1, #:abs_g0:tiny
	result
	movz	x1, #:abs_g0_s:tiny
	result
	movz	x1, #:abs_g0_s:minus
	result
	movn	x1, #:abs_g1_s:minus
	movk	x1, #:abs_g0_nc:minus
	result
	movz	x1, #:abs_g2_s:minus_middle
	movk	x1, #:abs_g1_nc:minus_middle
	movk	x1, #:abs_g0_nc:minus_middle
	result
1:	movz	x1, #:prel_g3:behind
	movk	x1, #:prel_g2_nc:behind + 4
	movk	x1, #:prel_g1_nc:behind + 8
	movk	x1, #:prel_g0_nc:behind + 12
	adr	x2, 1b
	add	x1, x1, x2
	adr	x2, behind
	sub	x1, x1, x2
	result
1:	movz	x1, #:prel_g1:forms
	movk	x1, #:prel_g0_nc:forms + 4
	adr	x2, 1b
	add	x1, x1, x2
	adr	x2, forms
	sub	x1, x1, x2
	result
	adr	x2, behind
	ldrsw	x1, [x2]
	result
	ldr	x1, constant
	result
	adrp	x1, :got:datum
	ldr	x1, [x1, :got_lo12:datum]
	ldr	x1, [x1]
	result
	adrp	x2, _GLOBAL_OFFSET_TABLE_
	ldr	x1, [x2, #:gotpage_lo15:datum]
	ldr	x1, [x1]
	result
	adrp	x2, quad
	ldrb	w1, [x2, :lo12:quad + 1]
	result
	ldrh	w1, [x2, :lo12:quad + 2]
	result
	ldr	w1, [x2, :lo12:quad + 4]
	result
	ldr	x1, [x2, :lo12:quad]
	result
	ldr	q0, [x2, :lo12:quad]
	mov	x1, v0.d[1]
	result
	adrp	x2, :pg_hi21_nc:quad
	ldr	x1, [x2, :lo12:quad]
	result
	ldr	x1, :got:datum
	ldr	x1, [x1]
	result
	adrp	x2, quads
	add	x2, x2, :lo12:quads
	ldr	x1, [x2]
	add	x1, x1, x2
	adrp	x3, datum
	add	x3, x3, :lo12:datum
	sub	x1, x1, x3
	result
	ldr	x1, [x2, #8]
	sub	x1, x1, x3
	result
	ldrsw	x1, [x2, #16]
	result
	ldrsh	x1, [x2, #20]
	result
	ldp	x3, x4, [sp], #0
	adr	x2, words
	ldrsw	x1, [x2]
	add	x1, x1, x2
	adrp	x3, datum
	add	x3, x3, :lo12:datum
	sub	x1, x1, x3
	result
	ldrsw	x1, [x2, #4]
	result
	ldrsh	x1, [x2, #8]
	result
	ldrsh	x1, [x2, #10]
	result
	mov	x1, #0
	cbz	x1, taken
back:	result
	mov	x1, #8
	tbnz	x1, #3, tested
	ret
	.balign	4
words:	.word	datum - .
	.word	0
	.hword	words - . + 0x100
	.hword	tiny
	.section .text.other, "ax"
taken:	mov	x1, #77
	b	back
tested:	mov	x1, #78
	str	x1, [x0], #8
	ret
behind:	.word	0x1234567
	.balign	8
constant: .quad	0x1122334455667788
	.data
	.balign	16
	.globl	datum
datum:	.quad	0x0102030405060708
	.balign	16
quad:	.quad	0x1817161514131211
	.quad	0x2827262524232221
	.globl	near
near:	.word	0
	.section .data.other, "aw"
	.balign	8
quads:	.quad	datum - .
	.quad	datum
	.word	tiny
	.hword	near - .
	.data
	.globl	absolute, middle, small, tiny, minus, minus_middle
	.set	absolute, 0x123456789abcdef0
	.set	middle, 0x5678_9abc_def0
	.set	small, 0xdeadbeef
	.set	tiny, 0x7ed
	.set	minus, -0x1235
	.set	minus_middle, -0x123456789abc
	`
        .replaceAll('0x5678_9abc_def0', '0x56789abcdef0')
        .replace('\tldp\tx3, x4, [sp], #0\n', ''),
    );
    const main = compile(`
#include "lib.h"
extern void forms(u64 *);
u64 results[64];
int main(void) { forms(results); for (int i = 0; i < 32; i++) line("r", results[i]); flush(); return 3; }
`);
    // The list of the loader, as readelf names what as made.
    const path = scratch('forms.o');
    writeFileSync(path, module);
    const made = new Set(
      run(`${PREFIX}readelf`, ['-rW', path])
        .toString()
        .match(/R_AARCH64_\w+/g),
    );
    const wanted = [
      ...['ABS64', 'ABS32', 'ABS16', 'PREL64', 'PREL32', 'PREL16'],
      ...['ADR_PREL_PG_HI21', 'ADR_PREL_PG_HI21_NC', 'ADR_PREL_LO21', 'LD_PREL_LO19', 'ADD_ABS_LO12_NC'],
      ...[8, 16, 32, 64, 128].map((bits) => `LDST${bits}_ABS_LO12_NC`),
      ...['CONDBR19', 'TSTBR14', 'JUMP26'],
      ...[0, 1, 2].flatMap((group) => [`MOVW_UABS_G${group}`, `MOVW_UABS_G${group}_NC`, `MOVW_SABS_G${group}`]),
      ...['MOVW_UABS_G3', 'MOVW_PREL_G0_NC', 'MOVW_PREL_G1', 'MOVW_PREL_G1_NC', 'MOVW_PREL_G2_NC', 'MOVW_PREL_G3'],
      ...['ADR_GOT_PAGE', 'LD64_GOT_LO12_NC', 'LD64_GOTPAGE_LO15', 'GOT_LD_PREL19'],
    ].map((name) => `R_AARCH64_${name}`);
    expect(wanted.filter((name) => !made.has(name))).toEqual([]);
    const expected = runQemu(link([start, main, module]));
    expect(expected.output).toMatch(
      /^r 123456789abcdef0\nr 56789abcdef0\nr deadbeef\nr 7ed\nr 7ed\nr ffffffffffffedcb\n/,
    );
    const { bytes } = load(source('core', merge([start, main])), [source('forms', module)]);
    expect(runQemu(bytes)).toEqual(expected);
    expect(runHere(arm64, bytes)).toEqual(expected);
  });

  /** A core of many functions, and a module that calls each of them, and some by tail calls. */
  function withManyFunctions(count: number): { readonly core: Uint8Array[]; readonly module: Uint8Array } {
    const range = Array.from({ length: count }, (_, i) => i);
    const core = [
      start,
      compile(
        `
#include "lib.h"
u32 calls;
${range.map((i) => `__attribute__((noinline)) u32 ext_${i}(u32 x) { calls += ${i + 1}; return x * 3 + ${(i * 7919) % 65536}; }`).join('\n')}
extern u32 mod_main(void), mod_tail(u32), mod_multi(u32);
int main(void) { line("main", mod_main()); line("tail", mod_tail(5)); line("multi", mod_multi(100)); line("calls", calls); flush(); return 0; }
`,
        ['-O1'],
      ),
      assemble('\t.text\n\t.globl multi\n\t.type multi,%function\nmulti:\tadd w0,w0,#1\n\tadd w0,w0,#16\n\tret\n'),
    ];
    const module = merge([
      compile(
        `typedef unsigned u32; ${range.map((i) => `extern u32 ext_${i}(u32);`).join(' ')}
${[0, 1, 2, 3, 4]
  .map(
    (k) =>
      `__attribute__((noinline, section(".text.part${k}"))) static u32 part_${k}(u32 s) { ${range
        .slice(k * 144, (k + 1) * 144)
        .map((i) => `s ^= ext_${i}(s + ${i});`)
        .join(' ')} return s; }`,
  )
  .join('\n')}
u32 mod_main(void) { u32 s = 1; ${[0, 1, 2, 3, 4].map((k) => `s = part_${k}(s);`).join(' ')} return s; }`,
        ['-O1'],
      ),
      assemble(`	.text
	.globl	mod_tail, mod_multi
	.type	mod_tail, %function
	.type	mod_multi, %function
mod_tail: add w0, w0, #7
	b	ext_9
mod_multi: stp x29, x30, [sp, #-16]!
	bl	multi
	bl	multi + 4
	bl	multi + 4
	ldp	x29, x30, [sp], #16
	ret
`),
    ]);
    return { core, module };
  }

  test('A-PLT-1, A-PLT-3, A-PLT-4: 720 external functions, tail calls, addends: one entry each, none where an adrp may not stand', () => {
    const count = 720;
    const { core, module } = withManyFunctions(count);
    const expected = runQemu(link([...core, module]));
    expect(expected.code).toBe(0);
    const { bytes, map } = load(source('core', merge(core)), [source('module', module)]);
    expect(runHere(arm64, bytes)).toEqual(expected);
    expect(runQemu(bytes)).toEqual(expected);
    const program = loadProgram(readElf(bytes), arm64);
    const used: bigint[] = [];
    const targets = new Set<bigint>();
    let empty = 0;
    for (const { address, sizeBytes, count: slots } of map.parts[1]!.stubs) {
      expect(sizeBytes).toBe(12);
      for (let i = 0; i < slots; i++) {
        const at = address + BigInt(12 * i);
        const reading = program.stub(at);
        if (reading === null) empty++;
        else {
          used.push(at);
          targets.add(reading.target);
          expect(reading.form).toBe('arm64.veneer');
        }
      }
    }
    expect([used.length, targets.size]).toEqual([count + 2, count + 2]);
    expect(used.filter(isForbidden)).toEqual([]);
    // 722 entries are two pages and more: at least two of three page ends are met, unless the slots
    // fall beside them.
    process.stdout.write(`${used.length} PLT entries, ${empty} slots empty\n`);
    expect(empty).toBeGreaterThan(0);
  });

  test('A-PLT-4: whatever the place of the area, no entry begins in the last two words of a page', () => {
    let skipped = 0;
    for (let pad = 0; pad < 12; pad++) {
      const range = Array.from({ length: 360 }, (_, i) => i);
      const core = assemble(
        `\t.text\n\t.globl _start\n_start:\n${range.map((i) => `\t.globl e${i}\ne${i}:\tret\n`).join('')}`,
      );
      const module = assemble(
        `\t.text\n\t.globl m\nm:\n${range.map((i) => `\tbl e${i}\n`).join('')}\t.space ${4 * pad}\n\tret\n`,
      );
      const { bytes, map } = load(source('core', core), [source('m', module)]);
      const program = loadProgram(readElf(bytes), arm64);
      const [area] = map.parts[1]!.stubs;
      for (let i = 0; i < 360 + 1; i++) {
        const at = area!.address + BigInt(12 * i);
        if (isForbidden(at)) {
          skipped++;
          expect(program.stub(at)).toBeNull();
        } else if (i < 360) expect(program.stub(at)).not.toBeNull();
      }
    }
    expect(skipped).toBeGreaterThan(3);
  });

  test('A-PLT-3: what adrp does not reach is refused with the distance', () => {
    const alone = source('core', merge([start, compile(ALONE)]));
    const module = source('m', compile('extern int twice(int); int m(int x) { return twice(x) + 1; }'));
    const { code, message } = errorOf(() => load(alone, [module], { moduleBase: 0x2_0000_0000n }));
    expect([code, message]).toEqual(['branch-out-of-range', expect.stringMatching(/twice/)]);
  });

  test('the kernel base: core and modules where kernels have them', () => {
    const { bytes, map } = load(source('core', merge([start, compile(CORE)])), [source('mod_a', compile(MOD_A)), source('mod_b', compile(MOD_B))], { base: 'kernel' }); // prettier-ignore
    expect(map.parts.map((part) => part.ranges[0]!.start >> 24n)).toEqual([
      0xffff_8000_80n,
      0xffff_8000_00n,
      0xffff_8000_00n,
    ]);
    expect(runHere(arm64, bytes).code).toBe(7);
  });

  test('A-PLT-2: entries for the tracer, of text and of init text; sites of init text go through theirs', () => {
    const text = `
extern int twice(int);
int m(int x) { return twice(x) + 1; }
__attribute__((section(".init.text"), noinline)) int m_init(int x) { return twice(x) + 2; }
`;
    const core = source('core', merge([start, compile(`#include "lib.h"
__attribute__((noinline)) int twice(int x) { return x * 2; }
extern int m(int), m_init(int);
int main(void) { line("m", m(3) + m_init(4)); flush(); return 0; }
`)])); // prettier-ignore
    for (const [flavour, flags, entries] of [
      ['callops', ['-fpatchable-function-entry=4,2', '-falign-functions=8'], ['ftrace_caller']],
      ['regs', ['-fpatchable-function-entry=2'], ['ftrace_caller', 'ftrace_regs_caller']],
    ] as const) {
      const module = compile(text, flags);
      expect(conventionsOf(readElf(module), arm64)).toEqual([flavour]);
      const { bytes, map } = load(core, [source('m', module)], { runtime: runtime(flavour) });
      const image = readElf(bytes);
      const program = loadProgram(image, arm64);
      const part = map.parts[2]!;
      expect(part.entryStubs.map(({ symbol }) => symbol).sort()).toEqual([...entries, ...entries].sort());
      const sections = ['.text.ftrace_trampoline', '.init.text.ftrace_trampoline'].map((name) => image.section(name)!);
      for (const section of sections) {
        expect(section.size).toBe(12 * entries.length);
        for (const [i, symbol] of entries.entries()) {
          const at = section.address + BigInt(12 * i);
          expect(program.stubTarget(at)).toBe(program.definedAt(program.symbols.find(symbol)));
        }
      }
      const sites = findSites(program);
      const plan = planTracing(sites, { tracer: { kind: 'function' }, others: 'nop' });
      expect(plan.refusals).toEqual([]);
      const on = applyPlan(image, plan).bytes;
      const traced = openBytes(on);
      for (let i = 0; i < traced.sites.count; i++) {
        const { target } = traced.sites.reading(i)!;
        const init = traced.program.symbolName(traced.sites.functionSymbol(i)) === 'm_init';
        const home = sections[init ? 1 : 0]!;
        expect(target! >= home.address && target! < home.address + BigInt(home.size)).toBe(true);
      }
      const both = runWithBoth(on);
      expect([both.output, traceDifferences(both), both.guest.length]).toEqual(['m 11\n', [], 2]);
    }
  });
});

describe('samples, loaded', () => {
  const expected = readFileSync(join(root, 'samples/expected/loaded.txt'), 'utf8');
  test.each([
    ['', 'callops'],
    ['', 'regs'],
    ['-patchable-2', 'regs'],
  ] as const)(
    'core%s.o and far modules, %s: the same output untraced and traced; the trace is what the machine sees',
    (ending, flavour) => {
      const { bytes, map } = loadSamples({ target: 'arm64', ending, flavour });
      expect(map.parts[2]!.ranges[0]!.start - map.parts[0]!.ranges[0]!.start > 0x800_0000n).toBe(true);
      expect(runImage(bytes)).toMatchObject({ output: expected, exit: 51 });
      for (const kind of ['function', 'function_graph'] as const) {
        const on = trace(bytes, { tracer: { kind } });
        const both = runWithBoth(on);
        expect([both.output === expected, traceDifferences(both), both.guest.length]).toEqual([
          true,
          [],
          kind === 'function' ? 90 : 180,
        ]);
      }
      const counted = runImage(trace(bytes, { tracer: { kind: 'counter' } }));
      expect([counted.output === expected, counted.word('elftrace_count')]).toEqual([true, 90n]);
    },
  );
});
