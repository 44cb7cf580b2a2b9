/**
 * Tables between `__start_mcount_loc` and `__stop_mcount_loc`, as kernels have them: what their
 * slots name is told by the sites, never by the name. Images are linked from compiled code with a
 * script that lays the table into `.init.data`.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { applyPlan } from '../src/patch/apply.js';
import { planSites } from '../src/patch/plan-sites.js';
import { verify } from '../src/sites/verdicts.js';
import { hash } from '../src/cli/hash.js';
import { openBytes, type Opened } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-kernel-tables-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Functions with a TOC set-up and without, that call and that do not; `quick` begins with what
 * looks like a second nop.
 */
const source = `
extern int shared[8];
int shared[8];
void _mcount(void) {}
void __fentry__(void) {}
__attribute__((noinline)) int leaf(int x) { return x * 3; }
__attribute__((noinline)) int loads(int x) { return shared[x & 7]; }
__attribute__((noinline)) static int inner(int x) { return leaf(x) + loads(x); }
__attribute__((noinline)) int outer(int x) { return inner(x) + inner(x + 1); }
__attribute__((noinline)) int sums(int x) { for (int i = 0; i < 8; i++) x += outer(shared[i]); return x; }
int quick(int x) { __asm__ volatile("nop"); return x; }
void _start(void) { shared[0] = sums(1) + quick(1); for (;;) ; }
`;

const script = `SECTIONS {
  . = 0x10000;
  .text : { *(.text .text.*) }
  . = ALIGN(0x10000);
  .data : { *(.rodata* .data* .sdata*) }
  .opd : { *(.opd) }
  .got : { *(.got .toc) }
  .init.data : { __start_mcount_loc = .; KEEP(*(__mcount_loc __patchable_function_entries)) __stop_mcount_loc = .; }
  .bss : { *(.bss* .sbss* COMMON) }
  /DISCARD/ : { *(.comment .note* .eh_frame* .gnu*) }
}
`;

const common = ['-O2', '-fno-pie', '-fno-pic', '-ffreestanding', '-fno-asynchronous-unwind-tables', '-static'];
let serial = 0;

/**
 * Links an image of the source; where the compiler makes no table of its calls, the slots are added
 * to its assembly.
 */
function link(
  compiler: string,
  options: readonly string[],
  prepare = (text: string) => text,
): Opened & { bytes: Uint8Array } {
  const base = join(folder, `image${serial++}`);
  writeFileSync(`${base}.c`, source);
  writeFileSync(`${base}.ld`, script);
  run(compiler, [...common, ...options, '-S', '-o', `${base}.s`, `${base}.c`]);
  writeFileSync(`${base}.s`, prepare(readFileSync(`${base}.s`, 'utf8')));
  run(compiler, [
    ...[...common, '-nostdlib', '-no-pie', '-Wl,--build-id=none', '-Wl,-e,_start', `-Wl,-T,${base}.ld`],
    ...options.filter((each) => /^-m/.test(each)),
    ...['-o', base, `${base}.s`],
  ]);
  const bytes = new Uint8Array(readFileSync(base));
  return { bytes, ...openBytes(bytes) };
}

/** Slots for the calls of -pg, as recordmcount makes them. */
const recorded =
  (word: 4 | 8) =>
  (text: string): string =>
    text.replaceAll(
      /^\s*bl\s+_mcount\b.*$/gm,
      (line) => `\t.pushsection __mcount_loc,"a"\n\t.${word}byte 771f\n\t.popsection\n771:${line}`,
    );

const verdicts = (opened: Opened): object => verify(opened.sites).verdicts;

/** Shapes and states of an image, and the same after a request. */
function after(opened: Opened, kind: 'nop' | 'init'): { changed: number; opened: Opened; refused: string[] } {
  const plan = planSites(opened.sites, { to: { kind } });
  const { bytes } = applyPlan(opened.image, { ...plan, refusals: [] }, { hash });
  return { changed: plan.changed, opened: openBytes(bytes), refused: plan.refusals.map(({ code }) => code) };
}

const twoNops: readonly [name: string, compiler: string, options: readonly string[], shape: string][] = [
  ['ppc64-elfv2-le', 'powerpc64le-linux-gnu-gcc', ['-mabi=elfv2'], 'ppc64.patchable-2'],
  ['ppc64-elfv1', 'powerpc64-linux-gnu-gcc', ['-mabi=elfv1'], 'ppc64.patchable-2'],
  ['ppc64-elfv2-be', 'powerpc64-linux-gnu-gcc', ['-mabi=elfv2'], 'ppc64.patchable-2'],
  ['ppc32', 'powerpc-linux-gnu-gcc', [], 'ppc32.patchable-2'],
  ['arm64', 'aarch64-linux-gnu-gcc', [], 'arm64.patchable'],
];

for (const [name, compiler, options, shape] of twoNops) {
  describeWith([compiler], `patchable entries of ${name}`, () => {
    // With one nop GCC makes no local entry: code without a TOC pointer has none.
    const image = (count: number): ReturnType<typeof link> =>
      link(compiler, [
        ...options,
        ...(count === 1 && name === 'ppc64-elfv2-le' ? ['-mcpu=power10'] : []),
        `-fpatchable-function-entry=${count}`,
      ]);

    test(`M-TAB-2 ${name}: two nops are entries, initialised or not`, () => {
      const opened = image(2);
      const { sites } = opened;
      expect(sites.tables.map((table) => table.name)).toEqual(['__start_mcount_loc']);
      expect(sites.sources).toEqual(['patchable-table']);
      const total = sites.count;
      expect(total).toBeGreaterThan(6);
      const { byShape, byState } = sites.totals();
      expect(byShape).toEqual({ [shape]: total });
      expect(byState['nop']).toBeUndefined();
      const ready = after(opened, 'init');
      // GCC 12 puts nops in front of the TOC set-up, where local calls never pass: those are
      // refused.
      expect(ready.changed + ready.refused.length).toBe(total);
      expect(ready.changed).toBeGreaterThan(2);
      expect(ready.opened.sites.sources).toEqual(['patchable-table']);
      expect(ready.opened.sites.totals().byState['nop']).toBe(ready.changed);
      expect(verdicts(ready.opened)).toEqual(verdicts(opened));
      expect(after(opened, 'nop')).toMatchObject({ changed: 0, refused: [] });
    });

    if (name === 'ppc64-elfv2-be') return;
    if (name !== 'arm64') {
      test(`P-OOL-1 P-OOL-3 ${name}: one nop is a site, and one that a nop follows by chance is no other`, () => {
        const opened = image(1);
        const { sites } = opened;
        expect(sites.sources).toEqual(['patchable-table']);
        expect(verdicts(opened)).toEqual({ ok: sites.count });
        expect(sites.totals().byShape).toEqual({ [`${shape.split('.')[0]!}.out-of-line`]: sites.count });
        expect(Array.from(sites, ({ ip, anchor }) => ip - anchor)).toEqual(Array(sites.count).fill(0n));
        // The stubs are the kernel's to fill: nothing is to be done at the sites.
        for (const kind of ['init', 'nop'] as const) {
          expect(after(opened, kind)).toMatchObject({ changed: 0, refused: [] });
        }
      });
      return;
    }
    test(`M-VAL-1 ${name}: one nop is no site, and one that a nop follows by chance is none either`, () => {
      const opened = image(1);
      const { sites } = opened;
      expect(sites.sources).toEqual(['patchable-table']);
      expect(verdicts(opened)).toEqual({ 'unsupported-shape': sites.count });
      const quick = verify(sites).findings.find((finding) => finding.function.startsWith('quick'))!;
      expect(quick.message).toContain('no room for a call');
      expect(after(opened, 'init')).toMatchObject({
        changed: 0,
        refused: Array(sites.count).fill('unsupported-shape'),
      });
      expect(after(opened, 'nop')).toMatchObject({ changed: 0, refused: [] });
    });
  });
}

const calls: readonly [name: string, compiler: string, options: readonly string[], word: 4 | 8, shape: string][] = [
  ['ppc64-elfv1 -pg', 'powerpc64-linux-gnu-gcc', ['-mabi=elfv1', '-pg'], 8, 'ppc64.pg'],
  ['ppc64-elfv2-le -pg', 'powerpc64le-linux-gnu-gcc', ['-pg'], 8, 'ppc64.pg'],
  ['ppc64-elfv2-le', 'powerpc64le-linux-gnu-gcc', ['-pg', '-mprofile-kernel'], 8, 'ppc64.mprofile-kernel'],
  ['ppc32', 'powerpc-linux-gnu-gcc', ['-pg'], 4, 'ppc32.pg'],
  ['arm64', 'aarch64-linux-gnu-gcc', ['-pg'], 8, 'arm64.mcount'],
  ['x86-64', 'x86_64-linux-gnu-gcc', ['-pg', '-mfentry', '-mrecord-mcount'], 8, 'x86-64.call5'],
];

describe('calls of the profiling entry', () => {
  for (const [name, compiler, options, word, shape] of calls) {
    describeWith([compiler], name, () => {
      test(`M-TAB-2 ${name}: calls are calls, and stay what they are when all of them are nops`, () => {
        const opened = link(compiler, options, shape.startsWith('x86') ? undefined : recorded(word));
        const { sites } = opened;
        const total = sites.count;
        expect(total).toBeGreaterThan(6);
        expect(sites.sources).toEqual(['mcount-table']);
        expect(sites.totals()).toEqual({ total, byState: { compiled: total }, byShape: { [shape]: total } });
        const off = after(opened, 'nop');
        expect([off.changed, off.refused]).toEqual([total, []]);
        expect(off.opened.sites.sources).toEqual(['mcount-table']);
        expect(off.opened.sites.totals()).toEqual({ total, byState: { nop: total }, byShape: { [shape]: total } });
      });
    });
  }
});

describeWith(['riscv64-linux-gnu-gcc'], 'riscv64', () => {
  test('M-TAB-2 riscv64: eight bytes of nops are entries, two are none', () => {
    const eight = link('riscv64-linux-gnu-gcc', ['-fpatchable-function-entry=4', '-mno-relax']);
    expect(eight.sites.sources).toEqual(['patchable-table']);
    expect(eight.sites.totals().byShape).toEqual({ 'riscv64.patchable-8': eight.sites.count });
    expect(verdicts(after(eight, 'init').opened)).toEqual({ ok: eight.sites.count });
    const two = link('riscv64-linux-gnu-gcc', ['-fpatchable-function-entry=1', '-mno-relax']);
    expect(two.sites.sources).toEqual(['patchable-table']);
    expect(verdicts(two)).toEqual({ 'unsupported-shape': two.sites.count });
  });
});

describeWith(
  ['aarch64-linux-gnu-gcc', 'aarch64-linux-gnu-ld', 'aarch64-linux-gnu-readelf'],
  'a discarded symbol table',
  () => {
    test('M-TAB-2: rows that name symbols of no table are read, and said', () => {
      const object = join(folder, 'absent.o');
      const image = join(folder, 'absent');
      writeFileSync(
        join(folder, 'absent.c'),
        `extern int absent __attribute__((weak));
       int *const holder = &absent;
       int here(int a) { return a + (&absent ? 1 : 0) + (holder != 0); }
       void _start(void) { here(1); for (;;) ; }`,
      );
      // As the script of arm64 kernels does.
      writeFileSync(
        join(folder, 'absent.lds'),
        `SECTIONS {
        . = 0x10000;
        .text : { *(.text*) } .rodata : { *(.rodata*) } .rela.dyn : { *(.rela*) }
        .data : { *(.data* .got*) }
        __patchable_function_entries : { *(__patchable_function_entries) }
        /DISCARD/ : { *(.dynsym) *(.dynstr*) *(.dynamic) *(.hash*) *(.gnu*) *(.interp) }
      }`,
      );
      const flags = ['-O2', '-fPIE', '-ffreestanding', '-fpatchable-function-entry=2'];
      run('aarch64-linux-gnu-gcc', [...flags, '-c', join(folder, 'absent.c'), '-o', object]);
      run('aarch64-linux-gnu-ld', ['-shared', '-Bsymbolic', '-T', join(folder, 'absent.lds'), object, '-o', image]);
      const sections = run('aarch64-linux-gnu-readelf', ['-SW', image]).toString();
      const [, index] = /\[ *(\d+)\] \.rela\.dyn +RELA /.exec(sections) ?? [];
      expect([index !== undefined, sections.includes('.dynsym')]).toEqual([true, false]);
      // binutils 2.40 names .symtab, whose numbers these are not; later ones name no table.
      const bytes = new Uint8Array(readFileSync(image));
      const view = new DataView(bytes.buffer);
      view.setUint32(Number(view.getBigUint64(40, true)) + 64 * Number(index) + 40, 0, true);
      const rows =
        run('aarch64-linux-gnu-readelf', ['-rW', image])
          .toString()
          .match(/^[0-9a-f]{16} +\w+ R_AARCH64_\w+/gm) ?? [];
      const named = rows.filter((row) => !/ 00000000\w{8} /.test(row)).length;
      const { sites } = openBytes(bytes);
      const { verdicts, findings, remarks } = verify(sites);
      expect([verdicts, findings]).toEqual([{ ok: 2 }, []]);
      expect(named).toBeGreaterThan(0);
      expect(remarks).toContain(
        `${named} of ${rows.length} relocations in .rela.dyn name symbols, and the file has no table of them (sh_link 0)`,
      );
    });
  },
);
