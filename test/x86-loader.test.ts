/**
 * The module loader on x86-64: the samples far from their core and near it, every relocation of
 * compilers and assemblers against what GNU ld makes of the same objects, stubs beyond 2 GiB,
 * kernel addresses. Runs here, on this processor and under qemu-x86_64.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from './support/spawn.js';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { x86_64 } from '../src/arch-x86/index.js';
import { equalBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import { findSites } from '../src/sites/sites.js';
import { loadImages, loadMore, type LoadRequest, type LoadResult, unload } from '../src/program/loader.js';
import { load as loadProgram } from '../src/program/program.js';
import { runtimeObject } from '../src/runtime/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { loadSamples, runImage, trace } from './support/loaded.js';
import { builtSamples, codeOf, errorOf, openBytes, readSample, root } from './support/pipeline.js';
import { describeWith, run, tool } from './support/tools.js';
import { isX86Linux } from './support/processor.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-x86-load-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
let files = 0;
const file = (name: string, contents?: Uint8Array | string): string => {
  const path = join(folder, `${String(files++)}-${name}`);
  if (contents !== undefined) writeFileSync(path, contents);
  return path;
};

const native = isX86Linux;
const qemu = tool('qemu-x86_64');

interface Ran {
  readonly output: string;
  readonly exit: number | null;
}

/** On the processor and under qemu, as far as they are there. */
function elsewhere(bytes: Uint8Array): Ran[] {
  const path = file('image', bytes);
  chmodSync(path, 0o755);
  return [...(native ? [[path]] : []), ...(qemu ? [['qemu-x86_64', path]] : [])].map(([command, ...args]) => {
    const { stdout, status } = spawnSync(command!, args, { encoding: 'utf8', timeout: 20_000 });
    return { output: stdout, exit: status };
  });
}

function everywhere(bytes: Uint8Array): Ran[] {
  const { output, exit } = runImage(bytes);
  return [{ output, exit }, ...elsewhere(bytes)];
}

const expected = readFileSync(join(root, 'samples/expected/loaded.txt'), 'utf8');
const kinds = [
  { title: '-mfentry', ending: '', flavour: 'modern', tramp: 'modern' },
  { title: '-mfentry as in 2014', ending: '', flavour: 'y2014', tramp: '2014' },
  { title: '-mfentry without trampolines', ending: '', flavour: 'modern', tramp: 'none' },
  { title: '-pg', ending: '-mcount', flavour: 'mcount', tramp: 'modern' },
] as const;
const NEAR = 0x2000_0000n;

describe.each(kinds)('core and two modules, $title', ({ ending, flavour, tramp }) => {
  const load = (more: Partial<LoadRequest> = {}): LoadResult =>
    loadSamples({ target: 'x86-64', ending, flavour }, { options: { machine: { 'x86-tramp': tramp } }, ...more });

  test.each([
    ['beyond 2 GiB', undefined],
    ['within 2 GiB', NEAR],
  ] as const)('RT-8, RT-14: modules %s print what GNU ld makes of the same objects, traced too', (_, moduleBase) => {
    const { bytes, map } = load(moduleBase === undefined ? {} : { moduleBase });
    for (const { output, exit } of everywhere(bytes)) expect([output, exit]).toEqual([expected, 51]);
    const image = readElf(bytes);
    expect(image.relocations).toEqual([]);
    const { program, sites } = openBytes(bytes);
    expect(sites.totals().byState).toEqual({ compiled: sites.count });
    const caller = program.definedAt(program.symbols.find('ftrace_caller'))!;
    for (const part of map.parts.filter(({ kind }) => kind === 'module')) {
      expect(part.ranges[0]!.start - caller > 0x8000_0000n).toBe(moduleBase === undefined);
      for (const { symbol, address } of part.entryStubs) {
        expect(program.stub(address)).toMatchObject({ form: 'x86-64.plt-got', sizeBytes: 14, slot: address + 6n });
        expect(program.stub(address)!.target).toBe(program.definedAt(program.symbols.find(symbol)));
      }
      // A call needs a stub only where it does not reach.
      const used = part.stubs.flatMap(({ address, count }) =>
        Array.from({ length: count }, (_each, i) => address + BigInt(16 * i)).filter((at) => program.stub(at) !== null),
      );
      expect(used.length - part.entryStubs.length > 0).toBe(moduleBase === undefined);
    }
    for (const kind of ['function', 'function_graph'] as const) {
      const on = trace(bytes, { tracer: { kind } });
      const both = runWithBoth(on);
      expect([both.output, traceDifferences(both)]).toEqual([expected, []]);
      expect(both.guest.filter((each) => each.kind === 'entry').length).toBe(99);
      for (const { output, exit } of elsewhere(on)) expect([output, exit]).toEqual([expected, 51]);
      // Far sites call the shared entry through a stub of their module, near ones the trampoline.
      const opened = openBytes(on);
      const room = opened.image.section('.elftrace.text');
      const counts = { trampoline: 0, stub: 0, direct: 0 };
      for (let i = 0; i < opened.sites.count; i++) {
        const target = opened.sites.reading(i)!.target!;
        if (room && target >= room.address && target < room.address + BigInt(room.size)) counts.trampoline++;
        else if (opened.program.stub(target)) counts.stub++;
        else counts.direct++;
      }
      expect(counts.stub).toBe(moduleBase === undefined ? 17 : 0);
      if (tramp === 'none') expect(counts.trampoline).toBe(0);
      else if (kind === 'function') expect(counts.direct).toBe(0);
    }
  });
});

describe('models of code', () => {
  const source = (name: string, sample: string) => ({ name, image: readElf(readSample(`x86-64/${sample}`)) });
  const load = (one: string, more: Partial<LoadRequest> = {}): LoadResult =>
    loadSamples(
      { target: 'x86-64', ending: '', flavour: 'modern' },
      {
        modules: [source('far_one', one), source('far_two', 'far-two.ko')],
        ...more,
      },
    );

  test('-mcmodel=large lies anywhere: 64-bit addresses only', () => {
    for (const { output } of everywhere(load('far-one-large.ko').bytes)) expect(output).toBe(expected);
    const on = trace(load('far-one-large.ko').bytes, { tracer: { kind: 'function_graph' } });
    expect(runWithBoth(on).output).toBe(expected);
    for (const { output } of elsewhere(on)) expect(output).toBe(expected);
  });

  test('-mcmodel=kernel lies within 2 GiB; further away the first address that does not fit is named', () => {
    const near = load('near-one.ko', { moduleBase: NEAR });
    for (const { output } of everywhere(near.bytes)) expect(output).toBe(expected);
    const error = errorOf(() => load('near-one.ko'));
    expect([error.code, error.message]).toEqual([
      'relocation-out-of-range',
      expect.stringMatching(/^far_one: \.\S+\+0x\w+ \(\S+\): R_X86_64_(32S|PC32)/),
    ]);
  });

  test('sites of two conventions have no entry in common', () => {
    const bad = () =>
      loadSamples(
        { target: 'x86-64', ending: '', flavour: 'modern' },
        { modules: [source('one', 'far-one-mcount.ko')] },
      );
    expect(errorOf(bad).message).toMatch(/two conventions \(mcount, modern\)/);
  });

  test('T-PPC-28 a stub area one entry short is a load error here too', () => {
    expect(codeOf(() => load('far-one.ko', { options: { stubSpare: -4 } }))).toBe('stub-area-full');
  });
});

// -------------------------------------------------------------------------------------- with tools

const gcc = 'x86_64-linux-gnu-gcc';
const programs = join(root, 'test/programs');
const base = ['-O2', '-ffreestanding', '-fno-stack-protector', '-fno-pie', '-fcf-protection=none', '-w', '-c'];
const object = (text: string, flags: readonly string[] = [], language = 'c'): Uint8Array => {
  const path = file('a.o');
  run(gcc, [...base, ...flags, '-I', programs, '-x', language, '-', '-o', path], text);
  return new Uint8Array(readFileSync(path));
};
const link = (objects: readonly Uint8Array[], flags: readonly string[] = []): Uint8Array => {
  const path = file('linked');
  const mode = flags.includes('-r') ? [] : ['-static', '-z', 'noexecstack', '--no-warn-rwx-segments'];
  run('x86_64-linux-gnu-ld', [...mode, ...flags, ...objects.map((each) => file('part.o', each)), '-o', path]);
  return new Uint8Array(readFileSync(path));
};
const source = (name: string, bytes: Uint8Array) => ({ name, image: readElf(bytes) });
const loaded = (core: Uint8Array, modules: readonly Uint8Array[], more: Partial<LoadRequest> = {}): LoadResult =>
  loadImages(
    {
      core: source('core', core),
      modules: modules.map((each, i) => source(`mod_${String(i)}`, each)),
      base: 'user',
      runtime: null,
      options: {},
      ...more,
    },
    x86_64,
  );

/** Names of the relocation types of an object's loaded sections. */
function typesOf(bytes: Uint8Array): Set<string> {
  const image = readElf(bytes);
  const names = new Set<string>();
  for (const section of image.sections) {
    for (const table of image.relocationsOf(section)) {
      for (let row = 0; row < table.count; row++) {
        names.add(x86_64.relocations.get(table.type[row]!)!.name.replace('R_X86_64_', ''));
      }
    }
  }
  return names;
}

const CORE = `
#include "lib.h"
int core_value = 5;
int core_array[4] = { 10, 20, 30, 40 };
__attribute__((noinline)) int core_add(int a, int b) { return a + b + core_value; }
extern int mod_main(int);
int main(void) { line("module", (u32)mod_main(3)); line("value", (u32)core_value); flush(); return 7; }
`;
/** One use of each kind; \`WIDE\` leaves out what only reaches 2 GiB. */
const MODULE = `
	.text
	.globl mod_main
	.type mod_main, @function
mod_main:
	pushq %rbx
	movl %edi, %ebx
	movl %ebx, %esi
	call core_add@PLT			/* PLT32 */
	addl %eax, %ebx
	movq core_value@GOTPCREL(%rip), %rax	/* REX_GOTPCRELX */
	addl (%rax), %ebx
	movl %ebx, %esi
	movl $1, %edi
	call *core_add@GOTPCREL(%rip)		/* GOTPCRELX */
	addl %eax, %ebx
	movq core_array@GOTPCREL(%rip), %rax
	addl 8(%rax), %ebx
	pushq core_value@GOTPCREL(%rip)		/* GOTPCREL: no X form of push */
	popq %rax
	incl (%rax)
	movabsq $core_array + 4, %rax		/* 64 */
	addl (%rax), %ebx
	addl own(%rip), %ebx			/* PC32 in the module */
	leaq distance(%rip), %rcx
	movq (%rcx), %rax			/* PC64 */
	addq %rcx, %rax
	addl (%rax), %ebx
	movq pointer(%rip), %rax
	addl (%rax), %ebx
#ifndef WIDE
	movl core_value(%rip), %eax		/* PC32 */
	addl %eax, %ebx
	movl $core_array + 12, %eax		/* 32 */
	addl (%rax), %ebx
	movq $core_array, %rax			/* 32S */
	addl (%rax), %ebx
	movl core_array(, %rdi, 4), %eax	/* 32S */
	xorl %eax, %ebx
#endif
	movl %ebx, %edi
	movl %ebx, %esi
	popq %rbx
	jmp core_add@PLT			/* a tail call: the stub changes no register */
	.size mod_main, .-mod_main
	.data
	.balign 8
own:	.long 1000
	.balign 8
distance: .quad core_array - .
pointer: .quad core_array + 8
`;

describeWith([gcc, 'x86_64-linux-gnu-ld', 'qemu-x86_64'], 'against GNU ld', () => {
  const start = object(readFileSync(join(programs, 'start.S'), 'utf8'), [], 'assembler-with-cpp');
  const core = link([start, object(CORE)], ['-r']);
  const module = object(MODULE, [], 'assembler-with-cpp');
  const wide = object(MODULE, ['-DWIDE'], 'assembler-with-cpp');

  test('every relocation: near as ld, far without those of 32 bits', () => {
    expect([...typesOf(module)].sort()).toEqual(
      ['32', '32S', '64', 'GOTPCREL', 'GOTPCRELX', 'PC32', 'PC64', 'PLT32', 'REX_GOTPCRELX'].sort(),
    );
    const [want] = elsewhere(link([core, module]));
    const [wantWide] = elsewhere(link([core, wide]));
    expect(want!.exit).toBe(7);
    expect(want!.output).not.toBe(wantWide!.output);
    for (const each of everywhere(loaded(core, [module], { moduleBase: NEAR }).bytes)) expect(each).toEqual(want);
    for (const moduleBase of [NEAR, 0x8000_0000n, 0x1_8000_0000n]) {
      for (const each of everywhere(loaded(core, [wide], { moduleBase }).bytes)) expect(each).toEqual(wantWide);
    }
  });

  test.each([
    ['PC32', 'movl core_value(%rip), %eax; ret'],
    ['32S', 'movl core_array(, %rdi, 4), %eax; ret'],
  ])('%s of another part does not reach beyond 2 GiB', (name, text) => {
    const bad = object(`\t.globl mod_main\nmod_main: ${text}\n`, [], 'assembler-with-cpp');
    const body = () =>
      loaded(core, [bad], { moduleBase: 0x2_0000_0000n, base: name === '32S' ? 0x1_0000_0000n : 'user' });
    const error = errorOf(body);
    expect([error.code, error.message]).toEqual([
      'relocation-out-of-range',
      expect.stringContaining(`R_X86_64_${name}`),
    ]);
  });

  /**
   * A module with the displacement of its call of the core at one offset and its entry at another.
   */
  const padded = (call: number, entry: number): Uint8Array => {
    const order = call < entry ? (['caller', 'mod_main'] as const) : (['mod_main', 'caller'] as const);
    const bodies = {
      caller: `\t.org ${String(call - 5)}\ncaller: movl %edi, %esi\n\tnop; nop\n\tcall core_add@PLT\n\tret\n`,
      mod_main: `\t.org ${String(entry)}\nmod_main: pushq %rax\n\tcall caller\n\tpopq %rdx\n\tret\n`,
    };
    return object(`\t.globl mod_main\n${order.map((each) => bodies[each]).join('')}`, [], 'assembler-with-cpp');
  };

  test.each([
    ['down to the core', -1n],
    ['up from the core', 1n],
  ] as const)('the limits of a call %s: the last byte in reach is called straight, the next by a stub', (_, sign) => {
    // Distances count from the displacement; a rel32 counts from behind it, and one form serves
    // calls and jumps of all lengths.
    const limit = 0x7fff_fffbn;
    const near = readElf(loaded(core, [padded(0x40, 0x80)], { moduleBase: NEAR }).bytes);
    const at = (image: typeof near, name: string): bigint => image.symbols.value[image.symbols.find(name)]!;
    const target = at(near, 'core_add');
    // The displacement of main's call of mod_main is the only one that leads there.
    const main = at(near, 'main');
    const text = near.sections.find(({ address, size }) => address <= main && main < address + BigInt(size))!;
    const code = near.contents(text);
    const view = new DataView(code.buffer, code.byteOffset, code.byteLength);
    const calls = Array.from({ length: code.length - 4 }, (_each, i) => i).filter(
      (i) => code[i] === 0xe8 && text.address + BigInt(i + 5 + view.getInt32(i + 1, true)) === at(near, 'mod_main'),
    );
    expect(calls).toHaveLength(1);
    const place = text.address + BigInt(calls[0]! + 1);
    // Text begins behind the headers of the file.
    const skew = at(near, 'mod_main') - 0x80n - NEAR;
    const kinds: string[] = [];
    for (const beyond of [-1n, 0n, 1n, 2n, 6n]) {
      // Where the moving end lies: the displacement of the module's call, or its entry.
      const moving = sign < 0n ? target + limit + beyond : place + limit + beyond;
      const moduleBase = (moving & ~0xfffn) - 0x1000n;
      const offset = Number(moving - moduleBase - skew);
      // The other one is where it reaches, or does not, by a wide margin.
      const module = sign < 0n ? padded(offset, 0x40) : padded(0x40, offset);
      const { bytes } = loaded(core, [module], { moduleBase });
      const image = readElf(bytes);
      const from = sign < 0n ? moving : place;
      const to = sign < 0n ? target : moving;
      expect([at(image, 'core_add'), at(image, 'mod_main')]).toEqual([
        target,
        sign < 0n ? moduleBase + skew + 0x40n : moving,
      ]);
      const field = image.fileOffsetOf(from);
      expect(bytes[field - 1]).toBe(0xe8);
      const leads = from + 4n + BigInt(new DataView(bytes.buffer, bytes.byteOffset).getInt32(field, true));
      const opened = openBytes(bytes).program;
      kinds.push(leads === to ? 'straight' : opened.stub(leads)?.target === to ? 'stub' : 'wrong');
      // mod_main(3) is core_add(3, 3).
      for (const each of everywhere(bytes))
        expect([each.exit, each.output]).toEqual([7, expect.stringMatching(/module b$/m)]);
    }
    expect(kinds).toEqual(['straight', 'straight', 'stub', 'stub', 'stub']);
  });

  test('a call of a weak function that nobody defines is no call', () => {
    const weak = object(
      `\t.globl mod_main\n\t.weak nobody\nmod_main: movl $42, %eax\n\tcall nobody@PLT\n\tret\n`,
      [],
      'assembler-with-cpp',
    );
    for (const moduleBase of [NEAR, 0x3_0000_0000n]) {
      const { bytes, map } = loaded(core, [weak], { moduleBase });
      for (const { output } of everywhere(bytes)) expect(output).toMatch(/module.*2a/);
      const at = readElf(bytes).fileOffsetOf(map.parts[1]!.ranges[0]!.start);
      expect([...bytes.subarray(at + 5, at + 10)]).toEqual([0x0f, 0x1f, 0x44, 0, 0]);
    }
  });

  const alone = object(CORE.replace('mod_main(3)', 'core_add(1, 2)'), ['-pg', '-mfentry', '-mrecord-mcount']);

  test.each(['modern', '2014', 'none'])('modules come and go byte for byte, trampolines %s', (tramp) => {
    const flavour = tramp === '2014' ? 'y2014' : 'modern';
    const runtime = source(`runtime-${flavour}`, runtimeObject('x86-64', flavour)!);
    const options = { machine: { 'x86-tramp': tramp } };
    const objects = [link([start, alone], ['-r']), wide] as const;
    const other = object('extern int mod_main(int); int other(int x) { return mod_main(x) + 1; }', [
      '-fPIC',
      '-pg',
      '-mfentry',
    ]);
    const none = loaded(objects[0], [], { runtime, options });
    const one = loaded(objects[0], [objects[1]], { runtime, options });
    const two = loaded(objects[0], [objects[1], other], { runtime, options });
    const more = (bytes: Uint8Array, modules: readonly Uint8Array[], first: number): Uint8Array =>
      loadMore(
        {
          image: readElf(bytes),
          modules: modules.map((each, i) => source(`mod_${String(first + i)}`, each)),
          runtime,
          options: {},
        },
        x86_64,
      ).bytes;
    expect(equalBytes(unload(readElf(two.bytes), 'mod_1', x86_64).bytes, one.bytes)).toBe(true);
    expect(equalBytes(unload(readElf(one.bytes), 'mod_0', x86_64).bytes, none.bytes)).toBe(true);
    expect(equalBytes(more(one.bytes, [other], 1), two.bytes)).toBe(true);
    expect(equalBytes(more(none.bytes, [wide, other], 0), two.bytes)).toBe(true);
    expect(() => unload(readElf(two.bytes), 'mod_0', x86_64)).toThrow(/used by mod_1/);
  });

  test('--base kernel: core and modules in the top 2 GiB, 32S with a sign, in the emulator', () => {
    const flags = ['-mcmodel=kernel', '-mno-red-zone', '-pg', '-mfentry', '-mrecord-mcount'];
    const kernelStart = object(
      readFileSync(join(programs, 'start.S'), 'utf8'),
      ['-mcmodel=kernel'],
      'assembler-with-cpp',
    );
    const kernel = link([kernelStart, object(CORE, flags)], ['-r']);
    const own = object(
      'extern int core_add(int, int), core_array[]; int mod_main(int x) { return core_add(x, core_array[x & 3]); }',
      flags,
    );
    const runtime = source('runtime', runtimeObject('x86-64', 'modern')!);
    const { bytes, map } = loaded(kernel, [own], { base: 'kernel', runtime });
    expect(map.parts.map((part) => part.ranges[0]!.start >> 31n)).toEqual([
      0x1_ffff_ffffn,
      0x1_ffff_ffffn,
      0x1_ffff_ffffn,
    ]);
    const { output, exit } = runImage(bytes);
    const user = loaded(kernel, [own], { runtime, moduleBase: NEAR });
    expect({ output, exit }).toEqual(elsewhere(user.bytes)[0]);
    const both = runWithBoth(trace(bytes, { tracer: { kind: 'function_graph' } }));
    expect([both.output, traceDifferences(both)]).toEqual([output, []]);
    // X-ENT-1: register frames name the segments of a kernel there, those of a program elsewhere;
    // trampolines copy them.
    const y2014 = source('runtime', runtimeObject('x86-64', 'y2014')!);
    for (const [where, expectedCs, expectedSs] of [
      [{ base: 'kernel' }, 0x10n, 0x18n],
      [{ moduleBase: NEAR }, 0x33n, 0x2bn],
    ] as const) {
      for (const [entries, tramp] of [
        [runtime, 'modern'],
        [runtime, 'none'],
        [y2014, '2014'],
      ] as const) {
        const options = { machine: { 'x86-tramp': tramp } };
        const image = loaded(kernel, [own], { ...where, runtime: entries, options }).bytes;
        const opened = openBytes(trace(image, { tracer: { kind: 'counter' }, saveRegs: true }));
        const { arch, program } = opened;
        if (arch.emulation.kind !== 'ir') throw new Error('not executed');
        const { machine } = startProcess({ image: opened.image, abi: arch.abi, emulation: arch.emulation });
        const seen = new Set<string>();
        machine.hook(program.definedAt(program.symbols.find('elftrace_counter'))!, () => {
          const slot = (at: bigint): bigint => machine.readWord(machine.register('rcx') + at, 8)!;
          seen.add(`${String(slot(136n))} ${String(slot(160n))}`);
          return 'continue';
        });
        expect(machine.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 7 });
        expect([...seen]).toEqual([`${String(expectedCs)} ${String(expectedSs)}`]);
      }
    }
  });

  test.each([
    ['=5', true],
    ['=16,11', true],
    ['=5 -fcf-protection=branch', true],
    ['=16,11 -fcf-protection=branch', true],
    ['=16,16', false],
  ])(
    'objects with nothing but pads (-fpatchable-function-entry%s): entries are laid in where a pad holds a call: %s',
    (flag, holds) => {
      const flags = `-fpatchable-function-entry${flag}`.split(' ');
      const main = file('core.o', link([start, object(CORE, flags)], ['-r']));
      const module = file(
        'mod.ko',
        object('extern int core_add(int, int); int mod_main(int x) { return core_add(x, 4) * 2; }', flags),
      );
      const image = file('image');
      const done = elftrace(['load', main, module, '-o', image]);
      expect([done.status, done.stderr]).toEqual([0, '']);
      const bytes = new Uint8Array(readFileSync(image));
      const [want] = elsewhere(bytes);
      expect(want).toMatchObject({ exit: 7, output: expect.stringMatching(/module.*18/) });
      const on = file('on');
      const enable = elftrace(['patch', image, '--enable', '--tracer', 'function_graph', '-o', on]);
      if (!holds) {
        expect(enable.status).not.toBe(0);
        return;
      }
      expect([enable.status, enable.stderr]).toEqual([0, '']);
      for (const each of everywhere(new Uint8Array(readFileSync(on)))) expect(each).toEqual(want);
      const both = runWithBoth(new Uint8Array(readFileSync(on)));
      expect([traceDifferences(both), both.guest.filter(({ name }) => name === 'mod_main').length]).toEqual([[], 2]);
    },
  );

  test('X-ENT-2: -O0 -pg, where rsp is 8 mod 16 at sites: graph and counter, everywhere', () => {
    const flags = ['-O0', '-pg'];
    const main = object(CORE + 'int mod_main(int x) { char big[40]; big[x] = 3; return core_add(big[x], x); }', flags);
    const linked = link([start, main, object('void mcount(void) {}')]);
    const [want] = elsewhere(linked);
    const path = file('o0', linked);
    // Both alignments occur.
    const { image, arch, sites } = openBytes(linked);
    if (arch.emulation.kind !== 'ir') throw new Error('not executed');
    const { machine } = startProcess({ image, abi: arch.abi, emulation: arch.emulation });
    const alignments = new Set<bigint>();
    for (let i = 0; i < sites.count; i++) {
      machine.hook(sites.ip(i), () => {
        alignments.add(machine.register('rsp') & 15n);
        return 'continue';
      });
    }
    expect(machine.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 7 });
    expect([...alignments].sort()).toEqual([0n, 8n]);
    for (const tracer of ['function', 'function_graph', 'counter']) {
      for (const tramp of ['modern', 'none']) {
        const out = file('on');
        const done = elftrace(['patch', path, '--enable', '--tracer', tracer, `--x86-tramp=${tramp}`, '-o', out]);
        expect([done.status, done.stderr]).toEqual([0, '']);
        for (const each of everywhere(new Uint8Array(readFileSync(out)))) expect(each).toEqual(want);
      }
    }
  });

  test('programs with a C library and threads: the runtime tells them apart by fs', () => {
    const text = `
#include <pthread.h>
#include <stdio.h>
__attribute__((noinline)) int deep(int n) { return n == 0 ? 1 : deep(n - 1) + n; }
static void *body(void *x) { long sum = 0; for (int i = 0; i < 50; i++) sum += deep(20); return (void *)(sum + (long)x); }
int main(void) {
  pthread_t t[3];
  long sum = 0;
  for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, body, (void *)i);
  for (int i = 0; i < 3; i++) { void *r; pthread_join(t[i], &r); sum += (long)r; }
  printf("%ld\\n", sum);
  return 0;
}`;
    const path = file('threads');
    run(
      gcc,
      ['-O2', '-static', '-no-pie', '-fno-pie', '-pg', '-mfentry', '-x', 'c', '-', '-o', path, '-pthread'],
      text,
    );
    const out = file('threads-on');
    const done = elftrace([
      'patch',
      path,
      '--enable',
      '--tracer',
      'function_graph',
      '-l',
      'deep',
      '-l',
      'body',
      '-o',
      out,
    ]);
    expect(done.status).toBe(0);
    const { program } = openBytes(new Uint8Array(readFileSync(out)));
    expect(program.reader.u64(program.definedAt(program.symbols.find('elftrace_thread_mode'))!)).toBe(1n);
    chmodSync(out, 0o755);
    for (const command of [[out], ['qemu-x86_64', out]].slice(native ? 0 : 1)) {
      const { stdout } = spawnSync(command[0]!, command.slice(1), { encoding: 'utf8', cwd: folder });
      expect(stdout).toBe('31653\n');
    }
  });
});

describe('i386', () => {
  test('T-X86-23: recognised, and refused', () => {
    // The smallest header that says so: 32 bits, little-endian, EM_386.
    const bytes = new Uint8Array(52);
    bytes.set([0x7f, 0x45, 0x4c, 0x46, 1, 1, 1]);
    bytes.set([1, 0, 3, 0, 1], 16);
    bytes[40] = 52;
    const path = file('i386.o', bytes);
    for (const args of [
      ['patch', path, '--enable', '-o', file('never')],
      ['patch', path, '--nop', '-o', file('never')],
      ['load', path, '-o', file('never')],
    ]) {
      const { status, stderr } = elftrace(args);
      expect([status, stderr]).toEqual([4, expect.stringMatching(/i386: recognised, and not served/)]);
    }
  });
});

test('the command line lays the samples out and enables them', () => {
  const image = file('image');
  const sample = (name: string): string => join(builtSamples, 'x86-64', name);
  const done = elftrace([
    'load',
    sample('core.o'),
    sample('far-one.ko'),
    sample('far-two.ko'),
    '--x86-tramp=2014',
    '-o',
    image,
  ]);
  expect([done.status, done.stderr]).toEqual([0, '']);
  const on = file('on');
  expect(elftrace(['patch', image, '--enable', '-o', on]).status).toBe(0);
  for (const { output } of everywhere(new Uint8Array(readFileSync(on)))) expect(output).toBe(expected);
  // The entries in the image are of 2014.
  const other = elftrace(['patch', image, '--enable', '--x86-tramp=modern', '-o', file('never')]);
  expect([other.status, other.stderr]).toEqual([2, expect.stringMatching(/laid out with --x86-tramp=2014/)]);
  const sites = findSites(loadProgram(readElf(new Uint8Array(readFileSync(on))), x86_64));
  expect(sites.totals().byState).toEqual({ call: sites.count });
  expect(elftrace(['load', sample('core.o'), '--ppc-stubs=2008', '-o', file('never')]).stderr).toMatch(
    /--ppc-stubs is about PowerPC, this is x86-64/,
  );
});
