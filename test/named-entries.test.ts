/**
 * `patch --enable --entry SYMBOL [--ops SYMBOL]` on relocatable files (F-2), one spec over the
 * machines whose sites can name what they call: the relocations as readelf sees them; linked, the
 * program calls the entry with the right ops, here and under qemu; revert gives the file back. Then
 * what is one machine's: what needs relocations and cannot have them.
 */
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { revert } from '../src/patch/revert.js';
import { Session } from '../src/tracing/session.js';
import { planTracing } from '../src/tracing/tracing.js';
import { archOf } from '../src/arches.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { runImage } from './support/loaded.js';
import { openBytes, readSample } from './support/pipeline.js';
import { describeWith, run, tool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-entry-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);

/**
 * Three functions; f1 refers to data, so its section has relocations of its own; f3 lies in a
 * section without any.
 */
const source = `
int g = 3;
__attribute__((noinline)) int f1(int a) { return a + g; }
__attribute__((noinline)) int f2(int a) { return f1(a) * 2; }
__attribute__((noinline, section(".text.lonely"))) int f3(int a) { __asm__ volatile("" : "+r"(a)); return a - 1; }
`;

const RESULT = (4 + 3) * 2 - 1;

/**
 * The other half of a program, by machine: exit code = result * 16 + hits by ops a * 4 + hits by
 * ops b. Entries by convention, which keep the argument: the ops' counter is word 3, as in RT-10.
 */
const arm64Rest = `
  .text
  .globl _start, entry_ops, entry_pair, entry_pg, ops_a, ops_b, _mcount
_start:
  mov w0, 4
  bl f2
  bl f3
  adrp x1, ops_a
  add x1, x1, :lo12:ops_a
  ldr w2, [x1, 24]
  ldr w3, [x1, 64 + 24]
  lsl w0, w0, 4
  add w0, w0, w2, lsl 2
  add w0, w0, w3
  mov x8, 93
  svc 0
entry_ops:
  hint 34
  and x11, x30, -8
  ldr x11, [x11, -16]
hit:
  ldr x12, [x11, 24]
  add x12, x12, 1
  str x12, [x11, 24]
  mov x10, x30
  mov x30, x9
  ret x10
entry_pair:
  adrp x11, ops_a
  add x11, x11, :lo12:ops_a
  b hit
entry_pg:
  adrp x11, ops_a
  add x11, x11, :lo12:ops_a
  ldr x12, [x11, 24]
  add x12, x12, 1
  str x12, [x11, 24]
_mcount:
  ret
  .data
  .balign 8
ops_a: .zero 64
ops_b: .zero 64
`;
const riscvRest = `
  .option norelax
  .text
  .globl _start, entry_t0, entry_g1, entry_pg, entry_ops, ops_a, ops_b, _mcount
_start:
  la gp, __global_pointer\$
  li a0, 4
  call f2
  call f3
  la a1, ops_a
  ld a2, 24(a1)
  ld a3, 64 + 24(a1)
  slli a0, a0, 4
  slli a2, a2, 2
  add a0, a0, a2
  add a0, a0, a3
  li a7, 93
  ecall
entry_ops:
  ld t1, -16(t0)
hit:
  ld t2, 24(t1)
  addi t2, t2, 1
  sd t2, 24(t1)
  jr t0
entry_t0:
  la t1, ops_a
  j hit
entry_g1:
entry_pg:
  la t1, ops_a
  ld t2, 24(t1)
  addi t2, t2, 1
  sd t2, 24(t1)
_mcount:
  ret
  .data
  .balign 8
ops_a: .zero 64
ops_b: .zero 64
`;

/** A relocation of code as readelf lists it. */
interface Row {
  readonly section: string;
  readonly offset: number;
  readonly type: string;
  readonly symbol: string;
}

/** A way in which sites are compiled, and what they name. */
interface Form {
  readonly name: string;
  readonly flags: readonly string[];
  readonly entry: string;
  readonly ops: string | null;
  /** Options beside --entry and --ops. */
  readonly options?: readonly string[];
  /** What the counters of the ops add to the exit code. */
  readonly hits: number;
  /** Offset of the call of `f3`, where its relocations are new. */
  readonly site?: number;
  /** Beginning of `f1` after the link, and its pair: what a linker leaves alone. */
  readonly linked?: readonly RegExp[];
  readonly frame?: readonly string[];
}

interface Machine {
  readonly prefix: string;
  readonly qemu: string;
  readonly rules: string;
  readonly flags: readonly string[];
  readonly assembler: readonly string[];
  readonly rest: string;
  /** Types of the relocations of a call, and of a pointer to ops. */
  readonly call: string;
  readonly pointer: string;
  readonly forms: readonly Form[];
}

const pair = [/^.{5}297$/, /^.{3}282e7$/];
const pairOfRa = [/^.{5}097$/, /^.{3}080e7$/];
const arm64Pads = ['-fpatchable-function-entry=4,2', '-falign-functions=8'];
// Where a linker may relax, it decides about alignment, and an object's offsets do not tell.
const g3c = ['-march=rv64gc', '-mno-relax', '-fpatchable-function-entry=8,4', '-falign-functions=8'];
const machines: readonly Machine[] = [
  {
    prefix: 'aarch64-linux-gnu-',
    qemu: 'qemu-aarch64',
    rules: 'A-OFF-1',
    flags: [],
    assembler: [],
    rest: arm64Rest,
    call: 'R_AARCH64_CALL26',
    pointer: 'R_AARCH64_ABS64',
    forms: [
      { name: '=4,2', flags: arm64Pads, entry: 'entry_ops', ops: 'ops_b', hits: 3, site: 12 },
      {
        name: '=4,2 with landing pads',
        flags: [...arm64Pads, '-mbranch-protection=bti'],
        ...{ entry: 'entry_ops', ops: 'ops_b', hits: 3, site: 16 },
      },
      { name: '=2', flags: ['-fpatchable-function-entry=2'], entry: 'entry_pair', ops: null, hits: 12, site: 4 },
      // The relocation of the call changes its symbol, nothing is added.
      { name: '-pg', flags: ['-pg', '-fno-omit-frame-pointer'], entry: 'entry_pg', ops: null, hits: 12 },
    ],
  },
  {
    prefix: 'riscv64-linux-gnu-',
    qemu: 'qemu-riscv64',
    rules: 'R-OFF-1',
    flags: ['-mcmodel=medany'],
    assembler: ['-march=rv64gc'],
    rest: riscvRest,
    call: 'R_RISCV_CALL_PLT',
    pointer: 'R_RISCV_64',
    forms: [
      {
        name: 'G2 with C',
        flags: ['-march=rv64gc', '-fpatchable-function-entry=4'],
        ...{ entry: 'entry_t0', ops: null, hits: 12, linked: pair },
      },
      {
        name: 'G2 without C',
        flags: ['-march=rv64g', '-fpatchable-function-entry=2'],
        ...{ entry: 'entry_t0', ops: null, hits: 12, linked: pair },
      },
      {
        name: 'G1',
        flags: ['-march=rv64gc', '-fpatchable-function-entry=8'],
        options: ['--riscv-site', 'g1'],
        ...{ entry: 'entry_g1', ops: null, hits: 12, linked: pairOfRa, frame: ['fe113c23', 'ff813083'] },
      },
      {
        name: 'G3',
        flags: ['-march=rv64g', '-fpatchable-function-entry=2'],
        options: ['--riscv-site', 'g3'],
        ...{ entry: 'entry_t0', ops: null, hits: 12, linked: pair },
      },
      {
        name: 'G3c',
        flags: g3c,
        options: ['--riscv-site', 'g3c'],
        ...{ entry: 'entry_ops', ops: 'ops_b', hits: 3, linked: pair },
      },
      {
        name: '-pg',
        flags: ['-march=rv64gc', '-pg'],
        ...{ entry: 'entry_pg', ops: null, hits: 12, linked: pairOfRa },
      },
    ],
  },
];
const [arm64, riscv] = machines as [Machine, Machine];

function build({ prefix, flags: own }: Machine, flags: readonly string[], compiler = `${prefix}gcc`): string {
  writeFileSync(at('k.c'), source);
  const common = ['-O2', '-ffreestanding', '-fno-pie', '-fno-asynchronous-unwind-tables'];
  run(compiler, [...common, ...own, ...flags, '-c', at('k.c'), '-o', at('k.o')]);
  return at('k.o');
}

const assembled = new Set<Machine>();

/**
 * Links with the other half, relaxing where the machine does; the exit code, the same here and
 * under qemu where it is.
 */
function exitCode(machine: Machine, object: string): number {
  const { prefix, qemu, assembler, rest } = machine;
  const half = at(`${prefix}rest.o`);
  if (!assembled.has(machine)) {
    writeFileSync(at('rest.s'), rest);
    run(`${prefix}as`, [...assembler, at('rest.s'), '-o', half]);
    assembled.add(machine);
  }
  run(`${prefix}ld`, [object, half, '-o', at('linked')]);
  const here = runImage(readFileSync(at('linked'))).exit;
  if (tool(qemu) !== null) expect(spawnSync(qemu, [at('linked')]).status).toBe(here);
  return Number(here);
}

/** Relocations of code as readelf lists them. */
function relocations(file: string): Row[] {
  const found: Row[] = [];
  let section = '';
  for (const line of run('readelf', ['-rW', file]).toString().split('\n')) {
    section = /^Relocation section '\.rela([^']+)'/.exec(line)?.[1] ?? section;
    const row = /^([0-9a-f]{16})\s+[0-9a-f]+\s+(R_\w+)(?:\s+[0-9a-f]+\s+(\S+) \+ \S+)?/.exec(line.trim());
    if (row && section.startsWith('.text'))
      found.push({ section, offset: Number.parseInt(row[1]!, 16), type: row[2]!, symbol: row[3] ?? '' });
  }
  return found;
}
const rowText = ({ section, offset, type, symbol }: Row): string =>
  `${section} ${offset.toString(16)} ${type} ${symbol}`;

/** Words of the code of a function as objdump prints them. */
function words({ prefix }: Machine, file: string, name: string): string[] {
  const { stdout } = spawnSync(`${prefix}objdump`, ['-d', file], { encoding: 'utf8' });
  const body = stdout.slice(stdout.indexOf(`<${name}>:`)).split('\n\n')[0]!;
  return [...body.matchAll(/^\s*[0-9a-f]+:\s+([0-9a-f]{4,8})\s/gm)].map((each) => each[1]!);
}

/** What is said of symbols that the object does not define. */
const undefinedNotice = (entry: string): RegExp => new RegExp(`^\\S+: notice: .*${entry}.*\\n$`);

/** What the patch adds to the relocations of an object, beside what it leaves. */
function checkRelocations({ call, pointer }: Machine, { entry, ops, site, linked }: Form, object: string): void {
  const [before, after] = [relocations(object), relocations(at('on.o'))];
  const calls = after.filter((row) => row.symbol === entry);
  expect(calls.map(({ type }) => type)).toEqual([call, call, call]);
  for (const { section, offset } of calls) {
    const beside = after.filter((row) => row.section === section && row.offset === offset);
    expect(beside.filter(({ type }) => type === 'R_RISCV_RELAX')).toEqual([]);
  }
  const old = new Set(before.map(rowText));
  const added = after.filter((row) => !old.has(rowText(row)));
  const pointers = added.filter(({ type }) => type === pointer);
  expect(pointers.map(({ symbol }) => symbol)).toEqual(ops === null ? [] : [ops, ops, ops]);
  if (site !== undefined) {
    // A section that had no relocations gets a table.
    expect(added.map(rowText).filter((each) => each.startsWith('.text.lonely '))).toEqual([
      ...(ops === null ? [] : [`.text.lonely 0 ${pointer} ${ops}`]),
      `.text.lonely ${site.toString(16)} ${call} ${entry}`,
    ]);
  } else if (linked === undefined) {
    expect(after.length).toBe(before.length);
  }
}

describe.each(machines)('$rules', (machine) => {
  const { prefix, forms, rules } = machine;
  describeWith([`${prefix}gcc`, `${prefix}ld`, 'readelf'], 'relocatable files', () => {
    test.each(forms)(`F-2, ${rules}: $name: the relocations of the call and of the literal, linked and run`, (form) => {
      const { flags, entry, ops, options = [], hits, linked, frame } = form;
      const object = build(machine, flags);
      const before = readFileSync(object);
      const request = ['--entry', entry, ...options, ...(ops === null ? [] : ['--ops', ops])];
      const on = elftrace(['patch', '--enable', ...request, object, '-o', at('on.o')]);
      expect([on.status, on.stderr]).toEqual([0, expect.stringMatching(undefinedNotice(entry))]);
      checkRelocations(machine, form, object);
      // The twin without an entry.
      expect(exitCode(machine, object)).toBe((RESULT * 16) & 0xff);
      expect(exitCode(machine, at('on.o'))).toBe((RESULT * 16 + hits) & 0xff);
      if (linked !== undefined) {
        // The linker filled in immediates, and left the registers and the size alone.
        const code = words(machine, at('linked'), 'f1');
        const first = code.findIndex((word) => /(297|097)$/.test(word) && word.length === 8);
        expect(code.slice(first, first + 2)).toEqual(linked.map((each) => expect.stringMatching(each)));
        if (frame !== undefined) expect([code[0], code[3]]).toEqual(frame);
      }
      // Read again: three calls of that entry, nothing wrong; the original comes back.
      const { stdout } = elftrace(['status', at('on.o')]);
      expect(stdout).toContain('3 call');
      expect(stdout.match(new RegExp(`->${entry}`, 'g'))?.length).toBe(3);
      expect(elftrace(['verify', at('on.o')])).toMatchObject({ status: 0 });
      expect(Buffer.from(revert(readElf(readFileSync(at('on.o'))))).equals(before)).toBe(true);
    });
  });
});

describeWith([`${arm64.prefix}gcc`, `${arm64.prefix}ld`, 'readelf'], 'words in front of functions', () => {
  test("F-2: without --ops the words in front of functions stay the compiler's nops", () => {
    const object = build(arm64, arm64Pads);
    elftrace(['patch', '--enable', '--entry', 'entry_pair', object, '-o', at('on.o')]);
    expect(relocations(at('on.o')).filter(({ type }) => type.includes('ABS64'))).toEqual([]);
    const { sites } = openBytes(readFileSync(at('on.o')));
    for (let i = 0; i < sites.count; i++) expect(sites.viewOf(i).u32(0)).toBe(0xd503_201f);
    expect(exitCode(arm64, at('on.o'))).toBe((RESULT * 16 + 12) & 0xff);
  });

  test('the plan says which relocations are new; a second patch wants the file as it was', () => {
    const object = build(arm64, arm64Pads);
    const options = ['--enable', '--entry', 'entry_ops', '--ops', 'ops_a'];
    const dry = elftrace(['patch', '--dry-run', ...options, object]);
    expect(dry.stdout.match(/new relocation R_AARCH64_(?:CALL26 entry_ops|ABS64 ops_a)/g)?.length).toBe(6);
    elftrace(['patch', ...options, object, '-o', at('on.o')]);
    expect(elftrace(['patch', '--nop', at('on.o'), '-o', at('off.o')])).toMatchObject({
      status: 4,
      stderr: expect.stringContaining('revert it first'),
    });
    expect(elftrace(['plan', ...options, object, '-o', at('k.plan')])).toMatchObject({
      status: 4,
      stderr: expect.stringContaining('unsupported-form'),
    });
    expect(elftrace(['patch', '--enable', object, '-o', at('x.o')])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--entry SYMBOL'),
    });
    expect(elftrace(['patch', '--nop', '--entry', 'x', object, '-o', at('x.o')]).status).toBe(2);
  });

  test('a kernel module: every site names the entry, the original comes back', () => {
    const module = readSample('arm64/module-patchable-4-2.ko');
    writeFileSync(at('m.ko'), module);
    const options = ['patch', '--enable', '--entry', 'entry_ops', '--ops', 'ops_a', at('m.ko'), '-o', at('on.ko')];
    // A-SITE-1: the section of cold functions is aligned to 4: the word may lie anywhere in it.
    const { status, stderr } = elftrace(options);
    expect([status, stderr]).toEqual([1, expect.stringContaining('misaligned-ops: .text.unlikely is aligned to 4')]);
    expect(elftrace([...options, '--partial']).status).toBe(0);
    const on = readElf(readFileSync(at('on.ko')));
    expect(revert(on)).toEqual(module);
    const { sites } = openBytes(on.bytes);
    expect(sites.totals().byState).toEqual({ call: sites.count - 1, compiled: 1 });
  });
});

describeWith(['clang', 'aarch64-linux-gnu-ld'], 'clang', () => {
  test('names of symbols and sections share a table', () => {
    const object = build(arm64, ['--target=aarch64-linux-gnu', '-fpatchable-function-entry=2'], 'clang');
    expect(elftrace(['patch', '--enable', '--entry', 'entry_pair', object, '-o', at('on.o')])).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(undefinedNotice('entry_pair')),
    });
    expect(exitCode(arm64, at('on.o'))).toBe((RESULT * 16 + 12) & 0xff);
  });
});

describeWith([`${arm64.prefix}gcc`], 'position-independent files', () => {
  test('A-OFF-2: an ops pointer in the text would need DT_TEXTREL: refused, and so are objects of tracers', () => {
    // A shared object that brings entries and objects of its own, as if somebody had linked the
    // runtime into it.
    const names = [
      'ftrace_caller',
      'ftrace_call',
      'ftrace_caller_end',
      'ftrace_stub',
      'ftrace_nop_ops',
      'ftrace_list_ops',
      'ftrace_ops_list',
      'ftrace_list_end',
      'ftrace_ops_list_func',
      'function_trace_op',
      'elftrace_function_tracer',
      'elftrace_counter',
      'elftrace_data',
    ];
    writeFileSync(
      at('own.c'),
      `${source}\n${names.map((name) => `__attribute__((aligned(8), patchable_function_entry(0,0))) void ${name}(void) {}`).join('\n')}\n`,
    );
    run(`${arm64.prefix}gcc`, [
      '-O2',
      '-fPIC',
      '-shared',
      '-nostdlib',
      '-fpatchable-function-entry=4,2',
      '-falign-functions=8',
      at('own.c'),
      '-o',
      at('own.so'),
    ]);
    const bytes = readFileSync(at('own.so'));
    const opened = openBytes(bytes);
    expect(opened.program.positionIndependent).toBe(true);
    const { sites } = opened;
    let tried = 0;
    for (let i = 0; i < sites.count; i++) {
      const reading = sites.reading(i)!;
      if (reading.literal === undefined) continue;
      const view = sites.viewOf(i);
      const to = { kind: 'call', target: sites.ip(i) + 64n } as const;
      expect(reading.shape.write(reading, { ...to, literal: 0x1000n }, view)).toMatchObject({
        refused: 'unsupported',
        reason: expect.stringContaining('DT_TEXTREL'),
      });
      // The twin: without the pointer the same call is written.
      expect(reading.shape.write(reading, to, view)).toHaveProperty('stores');
      tried++;
    }
    expect(tried).toBe(3);
    expect(() => planTracing(sites, { tracer: { kind: 'function' }, others: 'nop' })).toThrow(/DT_TEXTREL/);
    expect(() => Session.open(bytes, archOf(opened.image.header))).toThrow(/DT_TEXTREL/);
  });
});

describeWith([`${riscv.prefix}gcc`, 'readelf'], 'pairs', () => {
  test('F-2: what cannot be: ops without a word for them, a word without ops, too few nops', () => {
    const refused = (flags: readonly string[], ...options: string[]): string => {
      const { status, stderr } = elftrace(['patch', '--enable', ...options, build(riscv, flags), '-o', at('no.o')]);
      expect(status).toBe(1);
      return stderr;
    };
    const g2 = ['-march=rv64gc', '-fpatchable-function-entry=4'];
    expect(refused(g2, '--entry', 'entry_t0', '--ops', 'ops_a')).toMatch(/name no ops/);
    expect(refused(g2, '--entry', 'entry_g1', '--riscv-site', 'g1')).toMatch(/sixteen bytes/);
    expect(refused(g3c, '--entry', 'entry_ops', '--riscv-site', 'g3c')).toMatch(/say which \(--ops\)/);
    const plain = ['-march=rv64g', '-fpatchable-function-entry=2'];
    expect(refused(plain, '--entry', 'entry_ops', '--riscv-site', 'g3c', '--ops', 'ops_a')).toMatch(
      /no eight bytes of nops/,
    );
  });

  test('R-SITE-6: slots of the table name a local label at the first nop, not a section and an offset', () => {
    const object = build(riscv, ['-march=rv64gc', '-fpatchable-function-entry=4']);
    const rows = run('readelf', ['-rW', object])
      .toString()
      .split(/^Relocation section /m)
      .filter((text) => text.startsWith("'.rela__patchable_function_entries'"))
      .flatMap((text) => [...text.matchAll(/R_RISCV_64 +[0-9a-f]{16} (\S+) \+ (\S+)/g)].map((row) => row.slice(1, 3)));
    expect(rows.length).toBe(3);
    for (const [symbol, addend] of rows) expect([symbol, addend]).toEqual([expect.stringMatching(/^\.L/), '0']);
    expect(elftrace(['verify', object])).toMatchObject({ status: 0 });
  });
});
