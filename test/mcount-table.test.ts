/**
 * The producer of `__mcount_loc` on real compiler output of every target, held against the calls
 * that objdump shows, GCC's own -mrecord-mcount, and the addresses that linkers make of the slots.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { ByteView } from '../src/bytes.js';
import { SHF_ALLOC, SHT_PROGBITS, SHT_RELA } from '../src/elf/constants.js';
import type { ElfImage, ElfSection } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { writeElf } from '../src/elf/write.js';
import { ElftraceError } from '../src/errors.js';
import { type McountOptions, type McountPlan, mcountSections, planMcountTable } from '../src/sites/mcount-slots.js';
import { findMcountCalls, isMcountSymbol, isTracedSection, type McountMachine } from '../src/sites/mcount-table.js';
import { describeWith, run, tool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'mcount-table-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

let fileNumber = 0;
function fresh(suffix: string): string {
  fileNumber++;
  return join(folder, `${fileNumber}${suffix}`);
}

// ---------------------------------------------------------------------------------------- machines

type Rule = 'abs' | 'pcrel' | 'got-pcrel' | 'align' | 'none';

/**
 * A machine as data: word type, call types with deltas, other types by name, what a call looks
 * like.
 */
interface Machine extends McountMachine {
  readonly objdumpCalls: RegExp;
  isCall(code: Uint8Array, offset: number, little: boolean): boolean;
}

function machine(
  word: number,
  calls: readonly (readonly [type: number, delta: number])[],
  names: readonly (readonly [type: number, name: string, rule?: Rule])[],
  more: Pick<Machine, 'objdumpCalls' | 'isCall'> & { symbols: string[]; companions?: number[] },
): Machine {
  return {
    mcount: { symbols: more.symbols, callRelocations: new Map(calls) },
    relocationRoles: { none: 0, word, companions: more.companions ?? [] },
    relocations: new Map(names.map(([type, name, rule]) => [type, { name, rule: rule ?? 'abs' }])),
    objdumpCalls: more.objdumpCalls,
    isCall: more.isCall,
  };
}

function word32(code: Uint8Array, offset: number, little: boolean): number {
  return offset + 4 <= code.length ? new ByteView(code, little ? 'little' : 'big').u32(offset) : 0;
}

const X86 = machine(
  1,
  [
    [1, -2],
    [2, -1],
    [4, -1],
    [9, -2],
    [41, -2],
    [42, -2],
  ],
  [
    [1, 'R_X86_64_64'],
    [2, 'R_X86_64_PC32'],
    [4, 'R_X86_64_PLT32'],
  ],
  {
    symbols: ['mcount', '__fentry__'],
    objdumpCalls: /^(call|movabs)/,
    isCall: (code, at) =>
      code[at] === 0xe8 ||
      (code[at] === 0xff && code[at + 1] === 0x15) ||
      (code[at] === 0x67 && code[at + 1] === 0xe8) ||
      ((code[at]! & 0xf8) === 0x48 && (code[at + 1]! & 0xf8) === 0xb8),
  },
);
const isBl = (code: Uint8Array, at: number, little: boolean): boolean =>
  ((word32(code, at, little) & 0xfc00_0003) ^ 0x4800_0001) === 0;
const PPC32 = machine(
  1,
  [
    [10, 0],
    [18, 0],
  ],
  [
    [6, 'R_PPC_ADDR16_HA'],
    [4, 'R_PPC_ADDR16_LO'],
  ],
  { symbols: ['_mcount'], objdumpCalls: /^bl\s/, isCall: isBl },
);
const PPC64 = machine(
  38,
  [
    [10, 0],
    [116, 0],
  ],
  [],
  { symbols: ['_mcount'], objdumpCalls: /^bl\s/, isCall: isBl },
);
const RISCV = machine(
  2,
  [
    [18, 0],
    [19, 0],
  ],
  [
    [43, 'R_RISCV_ALIGN', 'align'],
    [51, 'R_RISCV_RELAX', 'none'],
  ],
  {
    symbols: ['_mcount'],
    companions: [51],
    objdumpCalls: /^auipc\s+ra/,
    isCall: (code, at) =>
      (word32(code, at, true) & 0x7f) === 0x17 &&
      (word32(code, at + 4, true) & 0x7f) === 0x67 &&
      (word32(code, at + 4, true) & 0xf80) !== 0,
  },
);
const ARM64 = machine(257, [[283, 0]], [[282, 'R_AARCH64_JUMP26', 'pcrel']], {
  symbols: ['_mcount'],
  objdumpCalls: /^bl\s/,
  isCall: (code, at) => word32(code, at, true) >>> 26 === 0x25,
});

function optionsOf(each: Machine, image: ElfImage, more: Partial<McountOptions> = {}): McountOptions {
  const little = image.header.endian === 'little';
  return {
    isCall: (section: ElfSection, offset: number) => each.isCall(image.contents(section), offset, little),
    ...more,
  };
}

function plan(each: Machine, image: ElfImage, more: Partial<McountOptions> = {}): McountPlan {
  return planMcountTable(image, each, optionsOf(each, image, more));
}

// ----------------------------------------------------------------------------------------- sources

const SOURCE = `
int sink;
extern int ext(int);
int plain(int x) { return ext(x) + 1; }
static __attribute__((noinline)) int local(int x) { sink = x; return x * 3; }
WEAK
int sum(int n, ...) { __builtin_va_list ap; __builtin_va_start(ap, n); int s = 0;
  while (n--) s += __builtin_va_arg(ap, int); __builtin_va_end(ap); return s; }
__attribute__((section(".init.text"))) int init_one(int x) { return ext(x) + 2; }
__attribute__((section(".sched.text"))) int sched_one(int x) { return ext(x) + 6; }
__attribute__((section(".exit.text"))) int exit_one(int x) { return ext(x) + 3; }
__attribute__((section(".noinstr.text"))) int noinstr_one(int x) { return ext(x) + 7; }
__attribute__((cold)) int cold_one(int x) { return ext(x) + 4; }
__attribute__((no_instrument_function)) int untouched(int x) { return ext(x) + 5; }
int main(void) { return local(1); }
`;
const WEAK = '__attribute__((weak)) int weak_one(int x) { return local(x) + ext(2); }';
const STRONG_SOURCE = SOURCE.replace('WEAK', '');
const FULL_SOURCE = SOURCE.replace('WEAK', WEAK);

function compile(compiler: string, flags: readonly string[], source: string, suffix = '.c'): string {
  const input = fresh(suffix);
  const output = fresh('.o');
  writeFileSync(input, source);
  run(compiler, ['-O2', ...flags, '-c', input, '-o', output]);
  return output;
}

function load(path: string): ElfImage {
  return readElf(new Uint8Array(readFileSync(path)));
}

// ------------------------------------------------------------------------------------------ oracle

/**
 * Calls of the profiling entry as objdump shows them: `section+offset`, in the order of the
 * listing.
 */
function callsByObjdump(path: string, each: Machine): string[] {
  const text = run('objdump', ['-dr', path]).toString();
  const calls: string[] = [];
  let section = '';
  let at = -1;
  let instruction = '';
  for (const line of text.split('\n')) {
    const heading = /^Disassembly of section (.*):$/.exec(line);
    const code = /^\s*([0-9a-f]+):\t[0-9a-f ]+\t\s*(.*)$/.exec(line);
    const relocation = /^\s+[0-9a-f]+: R_\S+\t(\S+)/.exec(line);
    if (heading) section = heading[1]!;
    else if (code) {
      at = parseInt(code[1]!, 16);
      instruction = code[2]!;
    } else if (relocation) {
      const name = relocation[1]!.replace(/[-+]0x[0-9a-f]+$/, '');
      if (/^\.?_?mcount$|^__fentry__$/.test(name) && each.objdumpCalls.test(instruction)) {
        calls.push(`${section}+${at}`);
      }
    }
  }
  return calls;
}

function traced(calls: readonly string[]): string[] {
  return calls.filter((call) => /^\.(text|init\.text|sched\.text)/.test(call));
}

function entryPlaces(each: McountPlan): string[] {
  return each.entries.map(({ section, offset }) => `${section.name}+${offset}`);
}

/** Writes the file with its new table. */
function record(path: string, each: Machine, more: Partial<McountOptions> = {}): string {
  const image = load(path);
  const { slots } = plan(each, image, more);
  const output = fresh('.o');
  writeFileSync(output, writeElf(image, { patches: [], appendSections: mcountSections(image, each, slots) }).bytes);
  return output;
}

/**
 * Slots by readelf: offset in the table and `symbol + addend`, of the relocations of
 * `__mcount_loc`.
 */
function slotsByReadelf(path: string): string[] {
  const text = run('readelf', ['-rW', path]).toString();
  const slots: string[] = [];
  let inside = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('Relocation section')) inside = line.includes("'.rela__mcount_loc'");
    const row = /^([0-9a-f]+)\s+[0-9a-f]+\s+(R_\S+)\s+([0-9a-f]+)\s+(\S+) ([-+]) ([0-9a-f]+)$/.exec(line);
    if (inside && row) slots.push(`${parseInt(row[1]!, 16)} ${row[2]!} ${row[4]!} ${row[5]!} ${row[6]!}`);
  }
  return slots;
}

// ------------------------------------------------------------------------------------- the targets

interface Case {
  readonly target: string;
  readonly compiler: string;
  readonly machine: Machine;
  readonly flagSets: readonly (readonly string[])[];
}

const fs = '-ffunction-sections';
const CASES: readonly Case[] = [
  {
    target: 'x86-64',
    compiler: 'x86_64-linux-gnu-gcc',
    machine: X86,
    flagSets: [
      ['-pg', '-fno-pie'],
      ['-pg', '-fno-pie', fs],
      ['-pg', '-mfentry', '-fno-pie'],
      ['-pg', '-mfentry', '-fcf-protection=branch', '-fno-pie', fs],
      ['-pg', '-fPIC'],
      ['-pg', '-mfentry', '-fPIC'],
      ['-pg', '-mfentry', '-mcmodel=kernel', '-fno-pie', '-mno-red-zone'],
      ['-pg', '-mfentry', '-mcmodel=large', '-fno-pie'],
      ['-pg', '-mcmodel=large', '-fno-pie'],
    ],
  },
  {
    target: 'ppc32',
    compiler: 'powerpc-linux-gnu-gcc',
    machine: PPC32,
    flagSets: [['-pg'], ['-pg', fs], ['-pg', '-fPIC'], ['-pg', '-mlongcall']],
  },
  {
    target: 'ppc64-elfv1',
    compiler: 'powerpc64-linux-gnu-gcc',
    machine: PPC64,
    flagSets: [['-pg'], ['-pg', fs], ['-pg', '-mprofile-kernel'], ['-pg', '-fPIC']],
  },
  {
    target: 'ppc64-elfv2-be',
    compiler: 'powerpc64-linux-gnu-gcc',
    machine: PPC64,
    flagSets: [
      ['-mabi=elfv2', '-pg'],
      ['-mabi=elfv2', '-pg', '-mprofile-kernel'],
    ],
  },
  {
    target: 'ppc64-elfv2-le',
    compiler: 'powerpc64le-linux-gnu-gcc',
    machine: PPC64,
    flagSets: [
      ['-pg'],
      ['-pg', fs],
      ['-pg', '-mprofile-kernel'],
      ['-pg', '-fPIC'],
      ['-pg', '-mcpu=power10'],
      ['-pg', '-mcmodel=large', '-mprofile-kernel'],
    ],
  },
  {
    target: 'riscv64',
    compiler: 'riscv64-linux-gnu-gcc',
    machine: RISCV,
    flagSets: [['-pg'], ['-pg', fs], ['-pg', '-fPIC'], ['-pg', '-mno-relax'], ['-pg', '-march=rv64g']],
  },
  {
    target: 'arm64',
    compiler: 'aarch64-linux-gnu-gcc',
    machine: ARM64,
    flagSets: [
      ['-pg'],
      ['-pg', fs],
      ['-pg', '-fPIC'],
      ['-pg', '-mbranch-protection=standard'],
      ['-pg', '-mcmodel=large', '-fno-pic'],
    ],
  },
];

for (const { target, compiler, machine: each, flagSets } of CASES) {
  describeWith([compiler, 'objdump', 'readelf'], target, () => {
    test.each(flagSets.map((flags) => [flags.join(' '), flags] as const))(
      `M-REC-2..5: ${target} %s: the slots are the calls that objdump shows`,
      (_, flags) => {
        const path = compile(compiler, flags, STRONG_SOURCE);
        const image = load(path);
        const calls = callsByObjdump(path, each);
        const found = plan(each, image);
        expect(traced(calls).length).toBeGreaterThanOrEqual(7);
        expect([...entryPlaces(found)].sort()).toEqual(traced(calls).sort());
        expect(found.refusals).toEqual([]);
        // M-REC-10: what is left over are the calls in sections that are not traced
        const untraced = found.untraced.map(({ section, offset }) => `${section.name}+${offset}`);
        expect(untraced.sort()).toEqual(calls.filter((call) => !traced(calls).includes(call)).sort());
        expect(untraced.map((call) => call.replace(/\+.*/, ''))).toEqual(['.exit.text', '.noinstr.text']);
        expect(found.remarks.some((remark) => remark.includes('.exit.text'))).toBe(true);
      },
    );

    test(`M-REC-7: M-REC-8: M-TAB-1: ${target}: readelf reads the slots back, a second run does nothing`, () => {
      const path = compile(compiler, flagSets[0]!, STRONG_SOURCE);
      const image = load(path);
      const output = record(path, each);
      const written = load(output);
      const table = written.section('__mcount_loc')!;
      const rows = written.section('.rela__mcount_loc')!;
      const word = image.wordBytes;
      expect(table).toMatchObject({
        type: SHT_PROGBITS,
        flags: SHF_ALLOC,
        size: word * plan(each, image).entries.length,
      });
      expect([table.alignBytes, table.entrySize]).toEqual([BigInt(word), BigInt(word)]);
      expect(written.contents(table).every((byte) => byte === 0)).toBe(true);
      expect(rows).toMatchObject({ type: SHT_RELA, link: image.symbols.section, info: table.index });
      expect(rows.entrySize).toBe(BigInt(3 * word));
      // old contents untouched: every old section has its bytes at its old place
      for (const section of image.sections) {
        if (section.index === image.header.shstrndx) continue;
        const now = written.sections[section.index]!;
        expect([now.name, now.offset, now.size]).toEqual([section.name, section.offset, section.size]);
        expect(written.contents(now)).toEqual(image.contents(section));
      }
      const slots = slotsByReadelf(output);
      expect(slots.map((slot) => slot.split(' ')[0])).toEqual(
        plan(each, image).entries.map((_, i) => String(i * word)),
      );
      const wordName = {
        'x86-64': 'R_X86_64_64',
        ppc32: 'R_PPC_ADDR32',
        riscv64: 'R_RISCV_64',
        arm64: 'R_AARCH64_ABS64',
      }[target];
      expect(new Set(slots.map((slot) => slot.split(' ')[1]))).toEqual(new Set([wordName ?? 'R_PPC64_ADDR64']));
      // M-REC-1: idempotent
      const again = plan(each, written);
      expect([again.skipped, again.entries, again.refusals]).toEqual(['has-table', [], []]);
      expect(findMcountCalls(written, each, optionsOf(each, written).isCall).calls.length).toBe(
        findMcountCalls(image, each, optionsOf(each, image).isCall).calls.length,
      );
    });

    test(`M-REC-6: ${target}: linked slots hold the addresses of the calls`, () => {
      // Two contributions: alignment may put zeros between them (M-SORT-4).
      const first = record(compile(compiler, [...flagSets[0]!, '-fno-pie'], STRONG_SOURCE), each);
      const second = record(compile(compiler, [...flagSets[0]!, '-fno-pie'], 'int more(int x) { return x; }'), each);
      const stubs = compile(
        compiler,
        [...flagSets[0]!.filter((flag) => flag.startsWith('-mabi')), '-fno-pie'],
        'void _mcount(void) {} void mcount(void) {} void __fentry__(void) {} int ext(int x) { return x; } ' +
          'extern char __start___mcount_loc[], __stop___mcount_loc[]; char *ends[] = { __start___mcount_loc, __stop___mcount_loc };',
      );
      const output = fresh('');
      run(compiler, [
        ...flagSets[0]!.filter((flag) => flag.startsWith('-mabi')),
        ...['-nostdlib', '-static', '-no-pie', '-Wl,-e,main', first, second, stubs, '-o', output],
      ]);
      const image = load(output);
      const table = image.section('__mcount_loc')!;
      const view = new ByteView(image.contents(table), image.header.endian);
      const addresses: bigint[] = [];
      for (let at = 0; at < table.size; at += image.wordBytes) addresses.push(view.word(at, image.wordBytes));
      // objdump shows where the calls went, relaxed or not
      const calls = run('objdump', ['-d', output])
        .toString()
        .split('\n')
        .flatMap((line) => {
          const call =
            /^\s*([0-9a-f]+):\t[0-9a-f ]+\t(?:call|bl|jal|jalr)\s.*<\.?_?_?(?:mcount|fentry__)(?:\+0x8)?>/.exec(line);
          return call ? [BigInt(`0x${call[1]!}`)] : [];
        });
      const inTraced = calls.filter((address) => {
        const name = image.sectionAt(address)!.name;
        return name !== '.exit.text' && name !== '.noinstr.text';
      });
      // bfd merges .text.* and keeps other names; .exit.text may be anywhere, so compare as sets
      expect(addresses.filter((address) => address !== 0n).sort()).toEqual(inTraced.sort());
      expect(addresses.length).toBeGreaterThanOrEqual(8);
    });
  });
}

describeWith(['x86_64-linux-gnu-gcc', 'readelf'], 'against GCC -mrecord-mcount', () => {
  test.each(
    [
      ['-pg', '-mfentry', '-fno-pie'],
      ['-pg', '-mfentry', '-fno-pie', '-ffunction-sections'],
      ['-pg', '-mfentry', '-fno-pie', '-fcf-protection=full'],
      ['-pg', '-fno-pie'],
      ['-pg', '-fPIC'],
      ['-pg', '-mfentry', '-fPIC'],
      ['-pg', '-mfentry', '-mcmodel=large', '-fno-pie'],
    ].map((flags) => [flags.join(' '), flags] as const),
  )('M-REC-5: M-REC-6: x86-64 %s: the same slots', (_, flags) => {
    // GCC makes slots in sections that are not traced too: without such functions the tables are
    // equal.
    const source = FULL_SOURCE.replace(/^.*\.(exit|noinstr)\.text.*$/gm, '');
    const theirs = compile('x86_64-linux-gnu-gcc', [...flags, '-mrecord-mcount'], source);
    const ours = record(compile('x86_64-linux-gnu-gcc', flags, source), X86);
    // Content: the places; their order is that of GCC's output, which emits cold functions when it
    // likes.
    const content = (path: string): string[] =>
      slotsByReadelf(path)
        .map((slot) => slot.split(' ').slice(1).join(' '))
        .sort();
    expect(content(theirs).length).toBe(8);
    expect(content(ours)).toEqual(content(theirs));
    const image = load(theirs);
    // trap 1: alignment 1
    expect(image.section('__mcount_loc')!.alignBytes).toBe(1n);
    expect(plan(X86, image).skipped).toBe('has-table');
  });

  test('M-REC-1: an -mnop-mcount object has a table and no calls', () => {
    const flags = ['-pg', '-mfentry', '-fno-pie', '-mrecord-mcount', '-mnop-mcount'];
    const image = load(compile('x86_64-linux-gnu-gcc', flags, FULL_SOURCE));
    expect(plan(X86, image)).toMatchObject({ skipped: 'has-table', entries: [] });
  });
});

// ------------------------------------------------------------------------------------------- rules

test.each([
  ['.text', true],
  ['.text.unlikely', true],
  ['.text.startup', true],
  ['.text.f', true],
  ['.textual', true],
  ['.init.text', true],
  ['.ref.text', true],
  ['.sched.text', true],
  ['.spinlock.text', true],
  ['.irqentry.text', true],
  ['.softirqentry.text', true],
  ['.kprobes.text', true],
  ['.cpuidle.text', true],
  ['.exit.text', false],
  ['.entry.text', false],
  ['.noinstr.text', false],
  ['.init.text.f', false],
  ['.data', false],
])('M-REC-2: %s traced: %p', (name, expected) => {
  expect(isTracedSection(name)).toBe(expected);
});

test('M-REC-3: one leading dot is ignored', () => {
  expect(['_mcount', '._mcount', '.._mcount', 'mcount', '_mcount2'].map((n) => isMcountSymbol(n, ['_mcount']))).toEqual(
    [true, true, false, false, false],
  );
});

describeWith(['x86_64-linux-gnu-as', 'x86_64-linux-gnu-gcc', 'objdump'], 'x86-64 corner cases', () => {
  const assemble = (text: string): ElfImage => load(compile('x86_64-linux-gnu-gcc', [], text, '.s'));

  test('M-REC-3: two profiling symbols in one section are both found', () => {
    const image = assemble('.text\nf: call mcount\ng: call __fentry__\n call *__fentry__@GOTPCREL(%rip)\n');
    expect(entryPlaces(plan(X86, image))).toEqual(['.text+0', '.text+5', '.text+10']);
  });

  test('M-REC-4: tail calls, addresses and data are no sites, and are told', () => {
    const image = assemble(
      '.text\nf: call __fentry__\n jmp __fentry__\n lea __fentry__(%rip), %rax\n .quad __fentry__\n .data\n .quad mcount\n',
    );
    const found = plan(X86, image);
    expect(entryPlaces(found)).toEqual(['.text+0']);
    // gas puts relocations of relaxable jumps last
    expect([...found.remarks].sort()).toEqual([
      '.text+0x11: R_X86_64_64 names __fentry__ and is no direct call of it: no slot',
      '.text+0x6: R_X86_64_PLT32 names __fentry__ and is no direct call of it: no slot',
      '.text+0xd: R_X86_64_PC32 names __fentry__ and is no direct call of it: no slot',
    ]);
  });

  test('M-REC-9: sections in relocation-section order; by offset in each, or in relocation order', () => {
    // .reloc directives put the later call first
    const image = assemble(
      '.section .text.b,"ax"\nb: .byte 0xe8,0,0,0,0\n.byte 0xe8,0,0,0,0\n.reloc b+6, R_X86_64_PLT32, mcount-4\n.reloc b+1, R_X86_64_PLT32, mcount-4\n' +
        '.section .text.a,"ax"\na: call mcount\n',
    );
    expect(entryPlaces(plan(X86, image))).toEqual(['.text.b+0', '.text.b+5', '.text.a+0']);
    const raw = entryPlaces(plan(X86, image, { sort: false }));
    const relocations = image.relocationsOf(image.section('.text.b')!)[0]!;
    expect(raw.slice(0, 2)).toEqual([...relocations.offset].map((offset) => `.text.b+${Number(offset) - 1}`));
  });

  test('M-REC-1: only relocatable files; the tracer itself and files without calls get no table', () => {
    const path = compile('x86_64-linux-gnu-gcc', [], '.globl f\nf: call mcount\nmcount: ret\n', '.s');
    const output = fresh('');
    run('x86_64-linux-gnu-gcc', ['-nostdlib', '-static', '-Wl,-e,f', path, '-o', output]);
    expect(() => plan(X86, load(output))).toThrow(ElftraceError);
    const image = assemble('.text\nf: call mcount\n');
    expect(plan(X86, image, { path: 'kernel/trace/ftrace.o' }).skipped).toBe('tracer');
    expect(plan(X86, image, { path: 'kernel/trace/myftrace.o' }).skipped).toBeNull();
    expect(plan(X86, assemble('.text\nf: call other\n')).skipped).toBe('no-calls');
  });

  test('M-REC-6: never a weak symbol or an indirect function; none at all is an error that names the section', () => {
    // gas makes a section symbol only where one is used: none here.
    const image = assemble(
      '.section .text.i,"ax"\n.type i,@gnu_indirect_function\ni: nop\n.weak w\nw: call mcount\n.globl g\ng: nop\n',
    );
    const { baseSymbol } = plan(X86, image).entries[0]!;
    expect(image.symbols.name(baseSymbol)).toBe('g');
    const weak = assemble('.section .text.w,"ax"\n.weak w\nw: call mcount\n');
    expect(() => plan(X86, weak)).toThrow(
      expect.objectContaining({ code: 'unsupported-form', context: { section: '.text.w' } }),
    );
  });

  test('trap 12: slots into COMDAT sections are told', () => {
    const image = assemble('.section .text.c,"axG",@progbits,sig,comdat\nc: call mcount\n');
    expect(plan(X86, image).remarks.join('\n')).toContain('COMDAT group sig');
  });

  test('trap 10: objects merged with ld -r keep both contributions, and the merged file has a table', () => {
    const one = record(compile('x86_64-linux-gnu-gcc', ['-pg', '-fno-pie'], 'int a(void) { return 1; }'), X86);
    const two = record(compile('x86_64-linux-gnu-gcc', ['-pg', '-fno-pie'], 'int b(void) { return 1; }'), X86);
    const bare = compile('x86_64-linux-gnu-gcc', ['-pg', '-fno-pie'], 'int c(void) { return 1; }');
    const merged = fresh('.o');
    run('x86_64-linux-gnu-ld', ['-r', one, two, '-o', merged]);
    expect(slotsByReadelf(merged).length).toBe(2);
    const mixed = fresh('.o');
    run('x86_64-linux-gnu-ld', ['-r', merged, bare, '-o', mixed]);
    const found = plan(X86, load(mixed));
    expect(found.skipped).toBe('has-table');
    expect(found.remarks).toContain('it makes 3 calls: 1 of them have no slot');
  });

  test('trap 11: section numbers of 0xff00 and more', () => {
    const lines: string[] = [];
    for (let i = 0; i < 0xff10; i++) lines.push(`.section .d${i},"a"`);
    lines.push('.section .text.last,"ax"', 'f: nop', 'call mcount');
    const path = compile('x86_64-linux-gnu-gcc', [], `${lines.join('\n')}\n`, '.s');
    const image = load(path);
    const found = plan(X86, image);
    expect(found.entries[0]!.section.index).toBeGreaterThan(0xff00);
    expect(entryPlaces(found)).toEqual(['.text.last+1']);
    const output = record(path, X86);
    expect(slotsByReadelf(output)).toEqual([expect.stringMatching(/^0 R_X86_64_64 (f|\.text\.last) \+ 1$/)]);
  });

  test('M-REC-5: a relocation outside its section is refused', () => {
    const image = assemble('.text\nf: call mcount\n');
    const table = image.relocationsOf(image.section('.text')!)[0]!;
    const bytes = image.bytes.slice();
    new ByteView(bytes, 'little').insertU64(table.fileOffset(0), 0x1000n);
    expect(() => plan(X86, readElf(bytes))).toThrow(/outside the section/);
  });
});

describeWith(['gcc', 'objdump', 'readelf'], 'REL files', () => {
  const flags = ['-m32', '-pg', '-fno-pie', '-ffreestanding'];
  const I386 = machine(
    1,
    [
      [2, -1],
      [4, -1],
    ],
    [],
    { symbols: ['mcount', '__fentry__'], objdumpCalls: /^call/, isCall: (code, at) => code[at] === 0xe8 },
  );

  test('M-TAB-1: M-REC-8: addends stand in the slots', () => {
    const path = compile('gcc', flags, STRONG_SOURCE);
    const image = load(path);
    const found = plan(I386, image);
    expect(entryPlaces(found).sort()).toEqual(traced(callsByObjdump(path, I386)).sort());
    const output = load(record(path, I386));
    const table = output.section('__mcount_loc')!;
    const relocations = output.relocationsOf(table)[0]!;
    expect([relocations.form, output.sections[relocations.section]!.name]).toEqual(['rel', '.rel__mcount_loc']);
    const view = new ByteView(output.contents(table), 'little');
    const places = found.entries.map((_, row) => {
      const symbol = relocations.symbol[row]!;
      const value = output.symbols.value[symbol]! + BigInt(view.u32(Number(relocations.offset[row]!)));
      return `${output.sections[output.symbols.sectionIndex[symbol]!]!.name}+${value}`;
    });
    expect(places).toEqual(entryPlaces(found));
  });
});

describeWith(['riscv64-linux-gnu-gcc', 'objdump', 'riscv64-linux-gnu-ld'], 'RISC-V relaxation', () => {
  const assemble = (text: string): ElfImage => load(compile('riscv64-linux-gnu-gcc', [], text, '.s'));

  test('trap 5: M-REC-6: the base is the nearest symbol with nothing relaxable in between, else the call is refused', () => {
    const image = assemble(
      [
        'f: call g',
        'call _mcount', // behind a relaxable call: refused
        'x: nop',
        'call _mcount', // x + 2, behind a compressed nop
        'y: call _mcount', // y + 0
        '.weak w',
        'w: call _mcount', // the weak symbol does not count, and y's call is relaxable
        '',
      ].join('\n'),
    );
    const found = plan(RISCV, image);
    const named = found.entries.map(({ baseSymbol, addend }) => `${image.symbols.name(baseSymbol)}+${addend}`);
    expect(named).toEqual(['x+2', 'y+0']);
    expect(found.refusals.map(({ offset }) => offset)).toEqual([8, 34]);
    expect(found.refusals[1]!.reason).toContain('relaxation');
  });

  test('M-REC-6: without relaxation the section symbol serves', () => {
    const image = assemble('.option norelax\nf: call g\ncall _mcount\n.weak w\nw: call _mcount\n');
    const found = plan(RISCV, image);
    expect(found.refusals).toEqual([]);
    expect(found.entries.map(({ addend }) => addend)).toEqual([8n, 16n]);
  });

  test('M-WEAK-4: a weak function whose call has no other symbol in reach is refused, not recorded wrong', () => {
    const image = load(compile('riscv64-linux-gnu-gcc', ['-pg'], FULL_SOURCE));
    const found = plan(RISCV, image);
    expect(found.refusals.length).toBe(1);
    expect(found.entries.length).toBe(7);
  });
});

describeWith(['aarch64-linux-gnu-gcc'], 'arm64 tail calls', () => {
  test('M-REC-4: trap 8: JUMP26 is no site', () => {
    const image = load(compile('aarch64-linux-gnu-gcc', [], 'f: bl _mcount\n b _mcount\n', '.s'));
    const found = plan(ARM64, image);
    expect(entryPlaces(found)).toEqual(['.text+0']);
    expect(found.remarks).toEqual(['.text+0x4: R_AARCH64_JUMP26 names _mcount and is no direct call of it: no slot']);
  });
});

describeWith(['powerpc-linux-gnu-gcc', 'powerpc64-linux-gnu-gcc'], 'PowerPC corner cases', () => {
  test('M-REC-4: trap 8: b _mcount and @ha/@l are no sites', () => {
    const text = 'f: bl _mcount\n b _mcount\n lis 3,_mcount@ha\n addi 3,3,_mcount@l\n mtctr 3\n bctrl\n';
    const found = plan(PPC32, load(compile('powerpc-linux-gnu-gcc', [], text, '.s')));
    expect(entryPlaces(found)).toEqual(['.text+0']);
    expect(found.remarks.length).toBe(3);
    expect(found.remarks[1]).toContain('R_PPC_ADDR16_HA names _mcount');
  });

  test('trap 6: ELFv1 objects name the code symbol with a dot, or not', () => {
    const image = load(compile('powerpc64-linux-gnu-gcc', ['-pg'], STRONG_SOURCE));
    const { calls } = findMcountCalls(image, PPC64, optionsOf(PPC64, image).isCall);
    const called = new Set(calls.map(({ table, row }) => table.symbols!.name(table.symbol[row]!)));
    expect(['_mcount', '._mcount']).toEqual(expect.arrayContaining([...called]));
    const dotted = load(compile('powerpc64-linux-gnu-gcc', [], 'f: bl ._mcount\n nop\n bl _mcount\n nop\n', '.s'));
    expect(entryPlaces(plan(PPC64, dotted))).toEqual(['.text+0', '.text+8']);
  });
});

const clang = tool('clang') === null ? 'clang-14' : 'clang';
describeWith([clang, 'objdump'], 'clang', () => {
  const targets: readonly (readonly [string, Machine, readonly string[]])[] = [
    ['x86_64-linux-gnu', X86, ['-pg', '-mfentry', '-fno-pie']],
    ['x86_64-linux-gnu', X86, ['-pg', '-fPIC']],
    ['x86_64-linux-gnu', X86, ['-pg', '-mcmodel=large', '-fno-pie']],
    ['powerpc-linux-gnu', PPC32, ['-pg', '-fno-pie']],
    ['powerpc-linux-gnu', PPC32, ['-pg', '-fPIC']],
    ['powerpc64-linux-gnu', PPC64, ['-pg']],
    ['powerpc64le-linux-gnu', PPC64, ['-pg']],
    ['riscv64-linux-gnu', RISCV, ['-pg', '-march=rv64gc', '-mabi=lp64d']],
    ['aarch64-linux-gnu', ARM64, ['-pg']],
  ];
  test.each(targets)('M-REC-2..5: clang %s: the slots are the calls that objdump shows', (target, each, flags) => {
    const path = compile(clang, [`--target=${target}`, ...flags], STRONG_SOURCE);
    const found = plan(each, load(path));
    expect(found.entries.length).toBeGreaterThanOrEqual(7);
    expect(entryPlaces(found).sort()).toEqual(traced(callsByObjdump(path, each)).sort());
  });

  test('M-REC-4: clang -mlongcall on PPC32 makes no recordable calls', () => {
    const image = load(compile(clang, ['--target=powerpc-linux-gnu', '-pg', '-mlongcall', '-fno-pie'], STRONG_SOURCE));
    const found = plan(PPC32, image);
    expect(found.skipped).toBe('no-calls');
    expect(found.remarks.some((remark) => remark.includes('R_PPC_ADDR16_HA names _mcount'))).toBe(true);
  });

  test('M-REC-6: M-WEAK-4: a section with a weak function and no other symbol is an error', () => {
    const flags = ['--target=powerpc64le-linux-gnu', '-pg', '-ffunction-sections', '-fno-asynchronous-unwind-tables'];
    const path = compile(clang, flags, '__attribute__((weak)) int weak_one(int x) { return x; }');
    expect(() => plan(PPC64, load(path))).toThrow(
      expect.objectContaining({ code: 'unsupported-form', context: { section: '.text.weak_one' } }),
    );
  });
});

describe('an object without sections of code', () => {
  test('M-REC-1: nothing to do', () => {
    const bytes = new Uint8Array(64);
    bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
    bytes.set([1, 0, 62, 0, 1], 16);
    bytes.set([64], 52);
    expect(plan(X86, readElf(bytes)).skipped).toBe('no-calls');
  });
});
