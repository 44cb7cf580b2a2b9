/**
 * `patch --enable --entry SYMBOL [--ops SYMBOL]` on relocatable arm64 files (F-2, A-OFF-1): what
 * readelf and objdump see, what ld makes of it, that the linked program calls the entry with the
 * right ops, here and under qemu, and that revert gives the file back. What needs relocations and
 * cannot have them.
 */
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { revert } from '../src/patch/apply.js';
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
const gcc = 'aarch64-linux-gnu-gcc';

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

/**
 * The other half of the program: exit code = result * 16 + hits by ops a * 4 + hits by ops b.
 * Entries by convention: the ops' counter is word 3, as in RT-10.
 */
const rest = `
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

function build(name: string, flags: readonly string[], compiler = gcc): string {
  writeFileSync(at('k.c'), source);
  run(compiler, [
    '-O2',
    '-ffreestanding',
    '-fno-pie',
    '-fno-asynchronous-unwind-tables',
    ...flags,
    '-c',
    at('k.c'),
    '-o',
    at(name),
  ]);
  return at(name);
}

/** Links with the other half and gives the exit code, the same here and under qemu where it is. */
function exitCode(object: string): number {
  writeFileSync(at('rest.s'), rest);
  run('aarch64-linux-gnu-as', [at('rest.s'), '-o', at('rest.o')]);
  run('aarch64-linux-gnu-ld', [object, at('rest.o'), '-o', at('linked')]);
  const here = runImage(readFileSync(at('linked'))).exit;
  if (tool('qemu-aarch64') !== null) expect(spawnSync('qemu-aarch64', [at('linked')]).status).toBe(here);
  return here;
}

/** Relocations as readelf lists them: section, offset, type, symbol. */
const relocations = (file: string): string[] => {
  const found: string[] = [];
  let section = '';
  for (const line of run('readelf', ['-rW', file]).toString().split('\n')) {
    section = /^Relocation section '([^']+)'/.exec(line)?.[1] ?? section;
    const row = /^([0-9a-f]{16})\s+[0-9a-f]+\s+(R_\w+)(?:\s+[0-9a-f]+\s+(\S+) \+ 0)?$/.exec(line.trim());
    if (row && section.startsWith('.rela.text'))
      found.push(`${section} ${Number.parseInt(row[1]!, 16).toString(16)} ${row[2]!} ${row[3] ?? ''}`);
  }
  return found;
};

/** What is said of symbols that the object does not define. */
const undefinedNotice = (entry: string): RegExp => new RegExp(`^\\S+: notice: .*${entry}.*\\n$`);

const RESULT = (4 + 3) * 2 - 1;

describeWith([gcc, 'aarch64-linux-gnu-ld', 'readelf'], 'relocatable files', () => {
  const forms = [
    {
      name: '=4,2',
      flags: ['-fpatchable-function-entry=4,2', '-falign-functions=8'],
      entry: 'entry_ops',
      ops: 'ops_b',
      hits: 3,
      site: 12,
    },
    {
      name: '=4,2 with landing pads',
      flags: ['-fpatchable-function-entry=4,2', '-falign-functions=8', '-mbranch-protection=bti'],
      entry: 'entry_ops',
      ops: 'ops_b',
      hits: 3,
      site: 16,
    },
    { name: '=2', flags: ['-fpatchable-function-entry=2'], entry: 'entry_pair', ops: null, hits: 12, site: 4 },
    { name: '-pg', flags: ['-pg', '-fno-omit-frame-pointer'], entry: 'entry_pg', ops: null, hits: 12, site: -1 },
  ] as const;

  test.each(forms)(
    'F-2, A-OFF-1: $name: CALL26 at ip, ABS64 at the literal, linked and run',
    ({ name, flags, entry, ops, hits, site }) => {
      const object = build('k.o', flags);
      const before = readFileSync(object);
      const options = ['--entry', entry, ...(ops === null ? [] : ['--ops', ops])];
      expect(elftrace(['patch', '--enable', ...options, object, '-o', at('on.o')])).toMatchObject({
        status: 0,
        stderr: expect.stringMatching(undefinedNotice(entry)),
      });
      const old = new Set(relocations(object));
      const added = relocations(at('on.o')).filter((each) => !old.has(each));
      expect(added.filter((each) => each.includes(`R_AARCH64_CALL26 ${entry}`)).length).toBe(3);
      expect(added.filter((each) => each.includes('R_AARCH64_ABS64')).length).toBe(ops === null ? 0 : 3);
      if (site >= 0) {
        // A section that had no relocations gets a table.
        expect(added.filter((each) => each.startsWith('.rela.text.lonely'))).toEqual([
          ...(ops === null ? [] : [`.rela.text.lonely 0 R_AARCH64_ABS64 ${ops}`]),
          `.rela.text.lonely ${site.toString(16)} R_AARCH64_CALL26 ${entry}`,
        ]);
      } else {
        // The relocation of the call changes its symbol, nothing is added.
        expect(relocations(at('on.o')).length).toBe(relocations(object).length);
      }
      expect(exitCode(object)).toBe((RESULT * 16) & 0xff);
      expect(exitCode(at('on.o'))).toBe((RESULT * 16 + hits) & 0xff);
      // Read again: three calls of that entry, nothing wrong; the original comes back.
      expect(elftrace(['status', at('on.o')]).stdout).toContain('3 call');
      expect(elftrace(['status', at('on.o')]).stdout.match(new RegExp(`->${entry}`, 'g'))?.length).toBe(3);
      expect(elftrace(['verify', at('on.o')])).toMatchObject({ status: 0 });
      expect(Buffer.from(revert(readElf(readFileSync(at('on.o'))))).equals(before)).toBe(true);
      expect(name.length).toBeGreaterThan(0);
    },
  );

  test("F-2: without --ops the words in front of functions stay the compiler's nops", () => {
    const object = build('k.o', forms[0].flags);
    elftrace(['patch', '--enable', '--entry', 'entry_pair', object, '-o', at('on.o')]);
    expect(relocations(at('on.o')).filter((each) => each.includes('ABS64'))).toEqual([]);
    const { sites } = openBytes(readFileSync(at('on.o')));
    for (let i = 0; i < sites.count; i++) expect(sites.viewOf(i).u32(0)).toBe(0xd503_201f);
    expect(exitCode(at('on.o'))).toBe((RESULT * 16 + 12) & 0xff);
  });

  test('the plan says which relocations are new; a second patch wants the file as it was', () => {
    const object = build('k.o', forms[0].flags);
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
    const object = build('c.o', ['--target=aarch64-linux-gnu', '-fpatchable-function-entry=2'], 'clang');
    expect(elftrace(['patch', '--enable', '--entry', 'entry_pair', object, '-o', at('on.o')])).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(undefinedNotice('entry_pair')),
    });
    expect(exitCode(at('on.o'))).toBe((RESULT * 16 + 12) & 0xff);
  });
});

describeWith([gcc], 'position-independent files', () => {
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
    run(gcc, [
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
