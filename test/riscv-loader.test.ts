/**
 * The module loader on RISC-V: what an image prints is what GNU ld makes of the same objects, near
 * and beyond the reach of a pair; every kind of relocation; the exact bounds of the pair; what is
 * refused.
 */
import { spawnSync } from './support/spawn.js';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { riscv64 } from '../src/arch-riscv/index.js';
import { pairReach } from '../src/arch-riscv/sites.js';
import { equalBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { planSites } from '../src/patch/plan-sites.js';
import { planTracing } from '../src/tracing/tracing.js';
import { verify } from '../src/sites/verdicts.js';
import { loadImages, type LoadRequest, type LoadResult, type Source } from '../src/program/loader.js';
import { load as loadProgram } from '../src/program/program.js';
import { runtimeObject } from '../src/runtime/index.js';
import { RISCV_TARGETS, scratch } from './support/c-programs.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { runImage } from './support/loaded.js';
import { openBytes, readSample, root } from './support/pipeline.js';
import { PROGRAMS, run } from './support/riscv-runtime.js';
import { describeWith } from './support/tools.js';

const expected = readFileSync(join(root, 'samples/expected/loaded.txt'), 'utf8');

function load(core: Source, modules: readonly Source[], more: Partial<LoadRequest> = {}): LoadResult {
  return loadImages({ core, modules, base: 'user', runtime: null, options: {}, ...more }, riscv64);
}
const source = (name: string, bytes: Uint8Array): Source => ({ name, image: readElf(bytes) });
const sample = (name: string, file: string): Source => source(name, readSample(`riscv64/${file}`));
const runtimeOf = (flavour: 'g2' | 'g2-merged'): Source => source('runtime', runtimeObject('riscv64', flavour)!);

function runQemu(bytes: Uint8Array): { output: string; code: number } {
  const path = scratch('image');
  writeFileSync(path, bytes);
  chmodSync(path, 0o755);
  const result = spawnSync('qemu-riscv64', [path], { maxBuffer: 1 << 26 });
  if (result.error) throw result.error;
  return { output: result.stdout.toString('latin1'), code: result.status ?? -1 };
}

describe.each([
  ['', 'g2', 'far'],
  ['', 'g2-merged', 'far'],
  ['', 'g2', 'near'],
  ['-rv64g', 'g2', 'far'],
  ['-rv64g', 'g2', 'kernel'],
] as const)('core%s.o and its modules, %s, %s', (suffix, flavour, place) => {
  const request: Partial<LoadRequest> = {
    runtime: runtimeOf(flavour),
    options: { convention: flavour },
    ...(place === 'near' ? { moduleBase: 0x2000_0000n } : {}),
    ...(place === 'kernel' ? { base: 'kernel' as const } : {}),
  };
  const core = sample('core', `core${suffix}.o`);
  const modules = [sample('far_one', `far-one${suffix}.ko`), sample('far_two', `far-two${suffix}.ko`)];
  const { bytes, map } = load(core, modules, request);

  test('prints what the sources say; modules lie where they were put', () => {
    const { output, exit: code } = runImage(bytes);
    expect([output, code]).toEqual([expected, 51]);
    const [start, module] = [map.parts[0]!, map.parts[2]!].map((part) => part.ranges[0]!.start);
    const distance = module! - start!;
    expect(distance > pairReach.max || distance < pairReach.min).toBe(place === 'far');
    const { sites, verdicts } = verify(openBytes(bytes).sites);
    expect([sites, verdicts.ok]).toEqual([26, 26]);
  });

  test.each(['function', 'function_graph'] as const)(
    'C-INIT-2, R-DIR-6: off, then %s: the trace is what the machine sees',
    (kind) => {
      const off = openBytes(bytes);
      const nops = planSites(off.sites, { to: { kind: 'init' } });
      expect([nops.refusals, nops.changed]).toEqual([[], suffix === '' ? 26 : 0]);
      const initial = applyPlan(off.image, nops).bytes;
      const opened = openBytes(initial);
      const plan = planTracing(opened.sites, { tracer: { kind }, others: 'nop' });
      expect([plan.refusals, plan.enabled]).toEqual([[], 26]);
      const on = applyPlan(opened.image, plan).bytes;
      const both = runWithBoth(on);
      expect(both.output).toBe(expected);
      expect(traceDifferences(both)).toEqual([]);
      expect(both.guest.length).toBe(kind === 'function' ? 90 : 180);
      const { verdicts } = verify(openBytes(on).sites);
      expect(verdicts.ok).toBe(26);
      expect(equalBytes(revert(readElf(on)), bytes)).toBe(true);
    },
  );

  test('a far site reaches the entry through a stub that leaves t0 alone', () => {
    const program = loadProgram(readElf(bytes), riscv64);
    for (const part of map.parts.filter((each) => each.kind === 'module')) {
      for (const { symbol, address } of part.entryStubs) {
        const read = program.stub(address)!;
        expect([read.form, read.target]).toEqual([
          'riscv64.far-literal',
          program.symbols.value[program.symbols.find(symbol)],
        ]);
      }
    }
  });
});

const MAIN = `
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
/** Tables of differences, a switch, a tail call, sub-word relocations, data in every section. */
const MOD_A =
  `
extern int core_value, core_add(int, int), twice(int);
__attribute__((weak)) extern int nowhere(int);
static int own = 100;
int shared_counter;
static const int table[] = { 1, 2, 3, 4 };
int (*volatile pointer)(int, int) = core_add;
__attribute__((noinline)) static int local(int x) { own += x; return own + table[x & 3]; }
__attribute__((noinline)) int choose(int x) {
  switch (x) {
    case 0: return core_add(1, 2); case 1: return local(5); case 2: return twice(7) + 1; case 3: return own ^ 3;
    case 4: return -x; case 5: return core_value * 3; default: return 9;
  }
}
static int counted(int x) {
  /* ADD and SUB of 8, 16, 32, 64 bits, SET and SUB6, by the assembler. */
  extern const unsigned char d8[]; extern const unsigned short d16[]; extern const unsigned d32[];
  extern const unsigned long d64[]; extern const int p32[];
  __asm__(".pushsection .rodata.d,\\"a\\"\\n.balign 8\\nd64: .dword 2f-1f\\nd32: .word 2f-1f\\np32: .word mod_a - .\\nd16: .half 2f-1f\\nd8: .byte 2f-1f\\n"
          ".popsection\\n.pushsection .text.gap,\\"ax\\"\\n1: .rept 5\\n auipc a0,0\\n.endr\\n call core_add\\n2: ret\\n.popsection\\n");
  return d8[0] + d16[0] * 2 + (int)d32[0] * 3 + (int)d64[0] * 4 + x + ((long)p32 + *p32 == (long)mod_a_address());
}
`.replace('static int counted', 'static long mod_a_address(void);\nstatic int counted') +
  `
int mod_a(int x) {
  core_value += x;
  shared_counter++;
  int r = 0;
  for (int i = 0; i < 8; i++) r = r * 3 + choose(i);
  return core_add(x, local(x)) + pointer(1, 2) + twice(own) + r + counted(x) + (nowhere ? nowhere(1) : 4);
}
static long mod_a_address(void) { return (long)mod_a; }
`;
const MOD_B = `
extern int core_value, core_add(int, int), mod_a(int), shared_counter;
int mod_b(int x) { int r = mod_a(x) + shared_counter; core_value *= 2; return core_add(r, core_value); }
int tail(int x) { return mod_a(x); }
`;

for (const target of RISCV_TARGETS.slice(0, 2)) {
  describeWith([target.gcc, target.qemu], `equal to ld on ${target.name}`, () => {
    const compile = (text: string, flags: readonly string[], language = 'c'): Uint8Array => {
      const path = scratch(language === 'c' ? 'a.c' : 'a.S');
      const object = scratch('a.o');
      writeFileSync(path, text);
      run(target.gcc, [
        '-O2', '-w', '-ffreestanding', '-fno-stack-protector', '-fno-pie', '-fno-asynchronous-unwind-tables', '-I', PROGRAMS,
        ...target.flags, ...flags, '-c', path, '-o', object,
      ]); // prettier-ignore
      return new Uint8Array(readFileSync(object));
    };
    const file = (bytes: Uint8Array): string => {
      const path = scratch('part.o');
      writeFileSync(path, bytes);
      return path;
    };
    const START = `
	.globl _start, sys
_start:	ld a0, 0(sp)
	addi a1, sp, 8
	andi sp, sp, -16
	call main
	li a7, 94
	ecall
sys:	mv a7, a0
	mv a0, a1
	mv a1, a2
	mv a2, a3
	ecall
	ret
`;
    const library = readFileSync(join(PROGRAMS, 'library-riscv64.c'), 'utf8');
    const merge = (objects: readonly Uint8Array[]): Uint8Array => {
      const output = scratch('merged.o');
      run(target.gcc.replace('gcc', 'ld'), ['-r', ...objects.map(file), '-o', output]);
      return new Uint8Array(readFileSync(output));
    };
    const link = (objects: readonly Uint8Array[]): Uint8Array => {
      const output = scratch('linked');
      run(target.gcc.replace('gcc', 'ld'), [
        '-static',
        '--no-relax',
        '--no-warn-rwx-segments',
        ...objects.map(file),
        '-o',
        output,
      ]);
      return new Uint8Array(readFileSync(output));
    };

    test.each([
      ['medany, relaxing marks', ['-mcmodel=medany'], 'near'],
      ['medany', ['-mcmodel=medany', '-mno-relax'], 'near'],
      ['medlow', ['-mcmodel=medlow', '-mno-relax'], 'near'],
      ['PIC far away', ['-fPIC', '-mno-relax'], 'far'],
      ['PIC near', ['-fPIC'], 'near'],
    ] as const)('R-ENC-1: %s', (_name, flags, place) => {
      const objects = {
        start: compile(START, ['-mno-relax'], 'S'),
        main: compile(MAIN, ['-mcmodel=medany', '-mno-relax']),
        helpers: compile(library, ['-mcmodel=medany', '-mno-relax']),
        a: compile(MOD_A, flags),
        b: compile(MOD_B, flags),
      };
      const linked = link(Object.values(objects));
      const want = runQemu(linked);
      expect(want.code).toBe(7);
      const core = source('core', merge([objects.start, objects.main, objects.helpers]));
      const modules = [source('mod_a', objects.a), source('mod_b', objects.b)];
      const { bytes } = load(core, modules, place === 'near' ? { moduleBase: 0x2000_0000n } : {});
      expect(runImage(bytes)).toMatchObject({ output: want.output, exit: want.code });
      expect(runQemu(bytes)).toEqual(want);
    });

    test.each([
      ['near, HI20 and absolute LO12', 'near'],
      ['far, by PLT and GOT', 'far'],
    ] as const)('every relocation of code that the loader must bind: %s', (_name, place) => {
      const near = place === 'near';
      const core = `
	.data
	.balign 8
	.globl datum, word
datum:	.quad 0x1122334455667788
word:	.word 0x2468
	.text
	.globl first
first:	addi a0, a0, 3
	ret
`;
      // Each part adds to a0; labels keep what the assembler could decide itself from being
      // decided.
      const module = `
	.text
	.globl probe
probe:	addi sp, sp, -16
	sd ra, 0(sp)
	sd s0, 8(sp)
	li s0, 0
${
  near
    ? `	lui a1, %hi(datum)
	ld a0, %lo(datum)(a1)
	add s0, s0, a0
	lui a1, %hi(own)
	sd s0, %lo(own)(a1)
	lui a1, %hi(own)
	addi a1, a1, %lo(own)
	ld a0, 0(a1)
	add s0, s0, a0
1:	auipc a1, %pcrel_hi(word)
	lw a0, %pcrel_lo(1b)(a1)
	add s0, s0, a0
`
    : ''
}
	# Two partners of one upper part, one of them in front of it.
	j 3f
2:	ld a0, %pcrel_lo(3f)(a1)
	j 4f
3:	auipc a1, %pcrel_hi(own)
	sd s0, %pcrel_lo(3b)(a1)
	j 2b
4:	add s0, s0, a0
5:	auipc a1, %got_pcrel_hi(datum)
	ld a1, %pcrel_lo(5b)(a1)
	ld a0, 0(a1)
	xor s0, s0, a0
	mv a0, s0
	call first
	.reloc ., R_RISCV_CALL, first
	auipc ra, 0
	jalr ra, 0(ra)
	jal ra, second
	# beq zero, zero
	.reloc ., R_RISCV_BRANCH, far_branch
	.word 0x00000063
	.option rvc
	c.li a1, 1
	.reloc ., R_RISCV_RVC_BRANCH, skip
	.half 0xc191
	.half 0x9002
skip:	.reloc ., R_RISCV_RVC_JUMP, over
	.half 0xa001
	.half 0x9002
over:	ebreak
	.size probe, .-probe
	.section .text.other, "ax"
	.option push
	.option norelax
	.balign 4
	.option pop
	.option rvc
	c.nop
	# At 2 modulo 4: the two bytes that it asks for are needed, and nothing is deleted.
	.balign 4
second:	addi a0, a0, 5
	ret
far_branch:
	# c.lui a1, 5; a name whose value is 0x5000.
	.reloc ., R_RISCV_RVC_LUI, five
	.half 0x6585
	add a0, a0, a1
	la a1, differences
	lw a2, 0(a1)
	add a0, a0, a2
	lhu a2, 4(a1)
	add a0, a0, a2
	lbu a2, 6(a1)
	add a0, a0, a2
	lbu a2, 7(a1)
	slli a2, a2, 8
	add a0, a0, a2
	ld a2, 8(a1)
	add a0, a0, a2
	lw a2, 16(a1)
	add a2, a2, a1
	addi a2, a2, 16
	la a3, probe
	sub a2, a2, a3
	add a0, a0, a2
	lbu a2, 20(a1)
	lhu a3, 22(a1)
	lw a4, 24(a1)
	add a0, a0, a2
	add a0, a0, a3
	add a0, a0, a4
	ld ra, 0(sp)
	ld s0, 8(sp)
	addi sp, sp, 16
	ret
	.section .data
	.balign 8
own:	.quad 0
	.section .rodata
	.balign 8
differences:
	.reloc ., R_RISCV_ADD32, far_branch
	.reloc ., R_RISCV_SUB32, second
	.word 0x100
	.reloc ., R_RISCV_ADD16, far_branch
	.reloc ., R_RISCV_SUB16, second
	.half 0x200
	.reloc ., R_RISCV_ADD8, far_branch
	.reloc ., R_RISCV_SUB8, second
	.byte 3
	.reloc ., R_RISCV_SET6, three
	.reloc ., R_RISCV_SUB6, one
	.byte 0xc0
	.reloc ., R_RISCV_ADD64, far_branch
	.reloc ., R_RISCV_SUB64, second
	.quad 0x4000
	.reloc ., R_RISCV_32_PCREL, probe
	.word 0
	.reloc ., R_RISCV_SET8, three
	.byte 0
	.byte 0
	.reloc ., R_RISCV_SET16, five
	.half 0
	.reloc ., R_RISCV_SET32, five
	.word 0
	.globl one, three, five
one = 1
three = 3
five = 0x5000
`;
      const main = `
#include "lib.h"
extern u64 probe(void);
int main(void) { u64 r = probe(); line("high", (u32)(r >> 32)); line("low", (u32)r); flush(); return 9; }
`;
      const objects = {
        start: compile(START, ['-mno-relax'], 'S'),
        main: compile(main, ['-mcmodel=medany', '-mno-relax']),
        library: compile(library, ['-mcmodel=medany', '-mno-relax']),
        core: compile(core, ['-mno-relax'], 'S'),
        module: compile(module, ['-fPIC'], 'S'),
      };
      const types = new Set<string>();
      const { relocations } = riscv64;
      const object = readElf(objects.module);
      for (const section of object.sections) {
        for (const table of object.relocationsOf(section))
          for (let i = 0; i < table.count; i++)
            types.add(relocations.get(table.type[i]!)!.name.slice('R_RISCV_'.length));
      }
      const expectedTypes =
        'ADD16 ADD32 ADD64 ADD8 ALIGN BRANCH CALL CALL_PLT GOT_HI20 JAL PCREL_HI20 PCREL_LO12_I PCREL_LO12_S RELAX RVC_BRANCH RVC_JUMP ' +
        `RVC_LUI SET16 SET32 SET6 SET8 SUB16 SUB32 SUB6 SUB64 SUB8 32_PCREL${near ? ' HI20 LO12_I LO12_S' : ''}`;
      expect([...types].sort()).toEqual(expectedTypes.split(' ').sort());
      const want = runQemu(link(Object.values(objects)));
      expect(want.code).toBe(9);
      const { module: only, ...rest } = objects;
      const { bytes } = load(
        source('core', merge(Object.values(rest))),
        [source('mod', only)],
        near ? { moduleBase: 0x2000_0000n } : {},
      );
      expect(runImage(bytes)).toMatchObject({ output: want.output, exit: want.code });
      expect(runQemu(bytes)).toEqual(want);
    });

    /**
     * A core that is one function at the start of its text, and a module that calls it; their
     * distance is exact.
     */
    const calling = (moduleBase: bigint, pad: number, base?: bigint): Uint8Array => {
      const core = source(
        'core',
        compile('	.globl f, _start\n_start:\nf:	li a0, 11\n	li a7, 94\n	ecall\n', ['-mno-relax'], 'S'),
      );
      const text = `	.option norvc\n	.globl m\nm:	.space ${pad}\n	.globl site\nsite:	call f\n`;
      const module = source('m', compile(text, ['-mno-relax'], 'S'));
      return load(core, [module], { moduleBase, ...(base === undefined ? {} : { base }) }).bytes;
    };
    const linked = (bytes: Uint8Array): { direct: boolean; distance: bigint; word: number } => {
      const image = readElf(bytes);
      const value = (name: string): bigint => image.symbols.value[image.symbols.find(name)]!;
      const site = value('site');
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      const at = image.fileOffsetOf(site);
      const [auipc, jalr] = [view.getUint32(at, true), view.getUint32(at + 4, true)];
      const to = BigInt.asUintN(64, site + BigInt((auipc & 0xffff_f000) | 0) + BigInt((jalr | 0) >> 20));
      const distance = value('f') - site;
      return { direct: to === value('f'), distance, word: auipc };
    };

    test('R-ENC-1: exact bounds of the pair: the last distance that reaches is bound directly, the next by a PLT entry', () => {
      // The module's text begins somewhere in its page; one trial tells where.
      const base = 0x9000_0000n;
      const trial = linked(calling(base, 0));
      // -2^31 - 2^11 is the lowest displacement, in steps of an instruction.
      const rest = Number(pairReach.min - trial.distance);
      const pad = -rest;
      expect(pad % 4).toBe(0);
      const moved = pad >= 0 ? { base, pad } : { base: base - 0x1000n * BigInt(Math.ceil(-pad / 0x1000)), pad: 0 };
      const again = moved.base === base ? trial : linked(calling(moved.base, 0));
      const exact = Number(again.distance - pairReach.min);
      const last = linked(calling(moved.base, exact));
      expect([last.distance, last.direct, last.word]).toEqual([pairReach.min, true, 0x8000_0097]);
      const beyond = linked(calling(moved.base, exact + 4));
      expect([beyond.distance, beyond.direct]).toEqual([pairReach.min - 4n, false]);
    });

    test('R-ENC-1, F-4: the other end: a module below its core, 2^31 - 2^11 - 1 away', () => {
      const base = 0x2_0000_0000n;
      const moduleBase = base - 0x8000_0000n - 0x1_0000n;
      const trial = linked(calling(moduleBase, 0, base));
      // Sites are even, so the last that reaches is one byte short of the bound.
      const pad = Number(trial.distance - pairReach.max);
      expect([pairReach.max, pad > 0]).toEqual([2n ** 31n - 2n ** 11n - 2n, true]);
      const last = linked(calling(moduleBase, pad, base));
      expect([last.distance, last.direct, last.word]).toEqual([pairReach.max, true, 0x7fff_f097]);
      const beyond = linked(calling(moduleBase, pad - 2, base));
      expect([beyond.distance, beyond.direct]).toEqual([pairReach.max + 2n, false]);
    });

    test('refused: data beyond the reach without a GOT, a branch to another part, code that a linker must shorten', () => {
      const core = source(
        'core',
        compile('int core_value; int f(void) { return 1; }', ['-mcmodel=medany', '-mno-relax']),
      );
      const code = (module: Uint8Array, more: Partial<LoadRequest> = {}): string => {
        try {
          load(core, [source('m', module)], more);
          return '';
        } catch (error) {
          return error instanceof ElftraceError ? error.code : String(error);
        }
      };
      expect(code(compile('extern int core_value; int m(void) { return core_value; }', ['-mcmodel=medany']))).toBe(
        'relocation-out-of-range',
      );
      expect(code(compile('	.globl m\nm:	j f\n', ['-mno-relax'], 'S'))).toBe('relocation-out-of-range');
      const aligned = '	.option relax\n	.globl m\nm:	call f\n	.balign 64\n	ret\n	.balign 64\n	ret\n';
      expect(code(compile(aligned, [], 'S'))).toBe('relocation-misaligned');
      expect(code(compile(aligned, ['-mno-relax', '-Wa,-mno-relax'], 'S').slice(), {})).toBe(
        code(compile(aligned, [], 'S')) === '' ? '' : 'relocation-misaligned',
      );
      expect(code(compile('	.globl m\nm:	call nobody\n', [], 'S'))).toBe('undefined-symbols');
    });
  });
}
