/**
 * RISC-V sites of real compiler output: every option of gcc and clang that makes sites, relocatable
 * and linked by both linkers with and without relaxation; and patched programs executed by an
 * independent emulator.
 */
import { covering, sampled } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { riscv64 } from '../src/arch-riscv/index.js';
import type { WritableState } from '../src/machine/sites.js';
import { readElf } from '../src/elf/read.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { ProgramView } from '../src/sites/view.js';
import { load, type Program } from '../src/program/program.js';
import { asChange } from './support/fake-view.js';
import { inFolder } from './support/riscv-tools.js';
import { describeWith, run } from './support/tools.js';

/** Twelve functions of all kinds; main returns a number that depends on every one of them. */
const SOURCE = `
typedef long (*fn)(long);
extern void keep(void *) __attribute__((weak));
volatile long global = 3;
__attribute__((noinline)) long leaf(long x) { return x * 3 + 1; }
__attribute__((noinline)) static long stat(long x) { global += x; return leaf(x) + global; }
__attribute__((noinline)) long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{ return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j; }
__attribute__((noinline)) long var(int n, ...)
{ __builtin_va_list l; long s = 0; __builtin_va_start(l, n); while (n--) s += __builtin_va_arg(l, long); __builtin_va_end(l); return s; }
__attribute__((noinline)) long rec(long n) { return n < 2 ? n : rec(n - 1) + rec(n - 2); }
__attribute__((noinline)) double fp(double a, double b) { return a * b + 0.5; }
__attribute__((noinline)) void big(long n) { volatile char buffer[5000]; buffer[n] = 1; global += buffer[n]; }
__attribute__((noinline)) long tail(long x) { return leaf(x + 1); }
__attribute__((noinline)) void empty(void) {}
__attribute__((noinline)) long indirect(fn f, long x) { return f(x) + 1; }
__attribute__((noinline)) long loop(long n) { long s = 0; for (long i = 0; i < n; i++) s += i ^ (s << 1); return s; }
__attribute__((weak, noinline)) long weakly(long x) { return x + 11; }
long body(void) {
  empty();
  big(100);
  return leaf(1) + stat(2) + many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) + var(3, 1L, 2L, 3L) + rec(10) + (long)fp(2.0, 3.0)
    + tail(4) + indirect(leaf, 5) + loop(20) + weakly(1) + global;
}
`;
const FUNCTIONS = 13;

/**
 * Start-up, the profiling entry, and a hook that patchable entries can call: it counts and returns
 * through t0.
 */
const START = `
  .text
  .option push
  .option norelax
  .globl _start
  .type _start,@function
_start:
  lla gp,__global_pointer$
  andi sp,sp,-16
  .option pop
  call body
  lla a1,counter
  ld a1,0(a1)
  slli a1,a1,4
  xor a0,a0,a1
  srli a1,a0,8
  xor a0,a0,a1
  andi a0,a0,0xff
  li a7,93
  ecall
  .size _start,.-_start
  .globl _mcount
  .type _mcount,@function
_mcount:
  lla t0,counter
  ld t1,0(t0)
  addi t1,t1,1
  sd t1,0(t0)
  ret
  .size _mcount,.-_mcount
  .globl ftrace_caller
  .type ftrace_caller,@function
ftrace_caller:
  lla t1,counter
  ld t3,0(t1)
  addi t3,t3,1
  sd t3,0(t1)
  jr t0
  .size ftrace_caller,.-ftrace_caller
  .globl memset
memset:
  ret
  .data
  .balign 8
counter: .quad 0
`;

type Compiler = 'gcc' | 'clang';
const COMMON = ['-O2', '-ffreestanding', '-fno-builtin', '-fno-stack-protector', '-fno-pie', '-w'];

function compile(compiler: Compiler, march: string, flags: readonly string[], source: string, output: string): void {
  const target = [`-march=${march}`, '-mabi=lp64d', ...COMMON, ...flags, '-c', source, '-o', output];
  if (compiler === 'gcc') run('riscv64-linux-gnu-gcc', target);
  else run('clang', ['--target=riscv64-linux-gnu', '-fno-vectorize', '-fno-slp-vectorize', ...target]);
}

interface Build {
  readonly compiler: Compiler;
  readonly march: string;
  readonly flags: readonly string[];
}

/** The object of a build. */
function object({ compiler, march, flags }: Build): Uint8Array {
  return inFolder((folder) => {
    const source = join(folder, 'x.c');
    writeFileSync(source, SOURCE);
    compile(compiler, march, flags, source, join(folder, 'x.o'));
    return new Uint8Array(readFileSync(join(folder, 'x.o')));
  });
}

type Linker = 'bfd' | 'bfd --no-relax' | 'lld' | 'bfd -r';

function linkedProgram(build: Build, linker: Linker): Uint8Array {
  return inFolder((folder) => {
    writeFileSync(join(folder, 'x.c'), SOURCE);
    writeFileSync(join(folder, 'start.S'), START);
    const objects = ['x.o', 'start.o'].map((each) => join(folder, each));
    compile(build.compiler, build.march, build.flags, join(folder, 'x.c'), objects[0]!);
    compile('gcc', build.march, [], join(folder, 'start.S'), objects[1]!);
    const output = join(folder, 'program');
    if (linker === 'lld') run('ld.lld', ['-o', output, ...objects]);
    else run('riscv64-linux-gnu-ld', ['-o', output, ...linker.split(' ').slice(1), ...objects]);
    return new Uint8Array(readFileSync(output));
  });
}

function sitesOf(bytes: Uint8Array): { program: Program; sites: Sites } {
  const program = load(readElf(bytes), riscv64);
  return { program, sites: findSites(program) };
}

/** shape, state, form and ip of each site, equal ones counted together. */
function summary(sites: Sites): Record<string, number> {
  const out: Record<string, number> = {};
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.reading(i);
    const key = reading
      ? `${reading.shape.name} ${reading.state} ${reading.form} ip+${reading.ipDelta} size ${reading.sizeBytes}`
      : 'unknown';
    out[key] = (out[key] ?? 0) + 1;
  }
  return out;
}

const pg = 'riscv64.mcount-pair compiled call ip+0 size 8';
const jal = 'riscv64.mcount-jal compiled jal ip+0 size 4';
const patchable = (form: 'c.nops' | 'nops', ip: number, n = FUNCTIONS): Record<string, number> => ({
  [`riscv64.patchable-8 ${form === 'nops' ? 'nop' : 'compiled'} ${form} ip+${ip} size ${ip + 8}`]: n,
});
const small = (ip: number): Record<string, number> => ({
  [`riscv64.patchable-8 foreign foreign ip+${ip} size 8`]: FUNCTIONS,
});
const pfe = (option: string): string => `-fpatchable-function-entry=${option}`;

/** Options of compilers and what their sites are. */
const OPTIONS: readonly (readonly [march: string, flags: readonly string[], expected: Record<string, number>])[] = [
  ['rv64gc', ['-pg'], { [pg]: FUNCTIONS }],
  ['rv64gc', ['-fPIC', '-pg'], { [pg]: FUNCTIONS }],
  ['rv64gc', ['-fPIE', '-pg'], { [pg]: FUNCTIONS }],
  ['rv64gc', ['-pg', '-ffunction-sections'], { [pg]: FUNCTIONS }],
  ['rv64gc', ['-mno-relax', '-pg'], { [pg]: FUNCTIONS }],
  ['rv64gc', ['-mcmodel=medany', '-pg'], { [pg]: FUNCTIONS }],
  ['rv64gc', ['-O0', '-pg'], { [pg]: FUNCTIONS }],
  ['rv64g', ['-pg'], { [pg]: FUNCTIONS }],
  ['rv64gc', [pfe('4')], patchable('c.nops', 0)],
  ['rv64gc', ['-mcmodel=medany', pfe('4')], patchable('c.nops', 0)],
  ['rv64gc', ['-fPIC', pfe('4')], patchable('c.nops', 0)],
  ['rv64gc', ['-O0', pfe('4')], patchable('c.nops', 0)],
  ['rv64g', [pfe('2')], patchable('nops', 0)],
  ['rv64g', [pfe('4')], patchable('nops', 0)],
  ['rv64gc', [pfe('8')], patchable('c.nops', 0)],
  ['rv64gc', ['-mno-relax', pfe('8')], patchable('c.nops', 0)],
  ['rv64g', [pfe('8')], patchable('nops', 0)],
  ['rv64gc', [pfe('8,4')], patchable('c.nops', 8)],
  ['rv64gc', ['-ffunction-sections', pfe('8,4')], patchable('c.nops', 8)],
  ['rv64g', [pfe('8,4')], patchable('nops', 16)],
  ['rv64g', [pfe('4,2')], patchable('nops', 8)],
  ['rv64gc', [pfe('7,3')], patchable('c.nops', 6)],
  ['rv64gc', [pfe('2')], small(0)],
  ['rv64gc', ['-fPIC', pfe('2')], small(0)],
  ['rv64gc', ['-ffunction-sections', pfe('2')], small(0)],
  ['rv64gc', [pfe('4,2')], small(4)],
  ['rv64gc', ['-ffunction-sections', pfe('4,2')], small(4)],
  ['rv64g', [pfe('1')], small(0)],
];

for (const compiler of ['gcc', 'clang'] as const) {
  const tools = compiler === 'gcc' ? ['riscv64-linux-gnu-gcc'] : ['clang'];
  describeWith(tools, `RISC-V sites of ${compiler}`, () => {
    test.each(
      sampled(OPTIONS, 2).map(
        ([march, flags, expected]) => [`${march} ${flags.join(' ')}`, march, flags, expected] as const,
      ),
    )('R-SITE-1: %s', (_, march, flags, expected) => {
      const { sites } = sitesOf(object({ compiler, march, flags }));
      expect(summary(sites)).toEqual(expected);
      for (let i = 0; i < sites.count; i++) {
        const reading = sites.reading(i)!;
        if (reading.state === 'foreign') {
          expect(reading.fault).toBe('unsupported');
          expect(reading.reason).toMatch(/4 bytes of nops/);
        } else {
          expect(sites.functionSymbol(i)).toBeGreaterThanOrEqual(0);
        }
      }
    });
  });
}

const LINKED: readonly (readonly [Compiler, string, readonly string[], Linker, Record<string, number>])[] = [
  ['gcc', 'rv64gc', ['-pg'], 'bfd', { [jal]: FUNCTIONS }],
  ['gcc', 'rv64gc', ['-pg'], 'bfd --no-relax', { [pg]: FUNCTIONS }],
  ['gcc', 'rv64gc', ['-pg'], 'lld', { [pg]: FUNCTIONS }],
  ['gcc', 'rv64gc', ['-pg'], 'bfd -r', { [pg]: FUNCTIONS }],
  ['gcc', 'rv64g', ['-pg'], 'bfd', { [jal]: FUNCTIONS }],
  ['gcc', 'rv64g', ['-pg'], 'lld', { [pg]: FUNCTIONS }],
  // clang 14 leaves out RELAX, so GNU ld keeps the pair.
  ['clang', 'rv64gc', ['-pg'], 'bfd', { [pg]: FUNCTIONS }],
  ['clang', 'rv64gc', ['-pg'], 'lld', { [pg]: FUNCTIONS }],
  ['gcc', 'rv64gc', ['-O0', '-pg'], 'bfd', { [jal]: FUNCTIONS }],
  ['clang', 'rv64gc', ['-O0', '-pg'], 'lld', { [pg]: FUNCTIONS }],
  ['clang', 'rv64g', ['-pg'], 'lld', { [pg]: FUNCTIONS }],
  ['gcc', 'rv64gc', [pfe('4')], 'bfd', patchable('c.nops', 0)],
  ['gcc', 'rv64gc', [pfe('4')], 'lld', patchable('c.nops', 0)],
  ['gcc', 'rv64gc', [pfe('4')], 'bfd -r', patchable('c.nops', 0)],
  ['gcc', 'rv64gc', [pfe('8')], 'bfd', patchable('c.nops', 0)],
  ['gcc', 'rv64gc', [pfe('8,4')], 'bfd', patchable('c.nops', 8)],
  ['gcc', 'rv64gc', [pfe('7,3')], 'bfd', patchable('c.nops', 6)],
  ['gcc', 'rv64g', [pfe('2')], 'bfd', patchable('nops', 0)],
  ['gcc', 'rv64g', [pfe('4,2')], 'lld', patchable('nops', 8)],
  ['clang', 'rv64gc', [pfe('4')], 'lld', patchable('c.nops', 0)],
  ['clang', 'rv64gc', [pfe('8,4')], 'bfd', patchable('c.nops', 8)],
  ['clang', 'rv64g', [pfe('2')], 'lld', patchable('nops', 0)],
];

/**
 * The program with every site brought to `to`, its bytes changed only where the shapes' stores say.
 */
function patched(bytes: Uint8Array, to: WritableState): Uint8Array {
  const { sites } = sitesOf(bytes);
  const out = bytes.slice();
  for (let i = 0; i < sites.count; i++) {
    const reading = sites.reading(i)!;
    const change = asChange(reading.shape.write(reading, to, sites.viewOf(i)));
    const base = sites.fileOffset(i);
    for (const { delta, before, after } of change.stores) {
      expect(out.slice(base + delta, base + delta + before.length)).toEqual(before);
      out.set(after, base + delta);
    }
  }
  return out;
}

function exitStatus(program: Uint8Array): number | null {
  return inFolder((folder) => {
    const path = join(folder, 'program');
    writeFileSync(path, program, { mode: 0o755 });
    return spawnSync('qemu-riscv64', [path]).status;
  });
}

describeWith(
  ['riscv64-linux-gnu-gcc', 'riscv64-linux-gnu-ld', 'ld.lld', 'clang', 'qemu-riscv64'],
  'RISC-V sites after linking',
  () => {
    // Each compiler with each linker and architecture, and each form of a site.
    const rows = covering(
      LINKED,
      ([compiler, , , linker]) => `${compiler} ${linker}`,
      ([compiler, march]) => `${compiler} ${march}`,
      ([, , , , expected]) => JSON.stringify(expected),
    );
    test.each(
      rows.map(
        ([compiler, march, flags, linker, expected]) =>
          [`${compiler} ${march} ${flags.join(' ')}, ${linker}`, { compiler, march, flags }, linker, expected] as const,
      ),
    )('%s', (_, build, linker, expected) => {
      const bytes = linkedProgram(build, linker);
      const { program, sites } = sitesOf(bytes);
      expect(summary(sites)).toEqual(expected);
      if (program.relocatable) return;

      // Off: the program runs and nothing counts.
      const off = patched(bytes, { kind: 'init' });
      const quiet = exitStatus(off);
      expect(quiet).not.toBeNull();
      const after = sitesOf(off);
      for (let i = 0; i < after.sites.count; i++) expect(after.sites.reading(i)!.state).toBe('nop');
      if (build.flags.includes('-pg')) {
        // A table that names the places still reads them as disabled calls.
        const view = new ProgramView(after.program);
        for (let i = 0; i < sites.count; i++) {
          const range = after.program.codeAt(sites.anchor[i]!)!;
          view.move(range, Number(sites.anchor[i]! - range.address));
          const { shape } = sites.reading(i)!;
          expect(shape.read(view, 'mcount-table')).toMatchObject({ state: 'nop' });
        }
        // The sites of the untouched program count; without them the status is the one of plain
        // code.
        expect(exitStatus(bytes)).not.toBe(quiet);
        return;
      }
      // R-SITE-4: on, the hook runs and comes back to the body by jr t0.
      const entry = program.symbols.value[program.symbols.find('ftrace_caller')]!;
      const on = patched(off, { kind: 'call', target: entry });
      expect(exitStatus(bytes)).toBe(quiet);
      expect(exitStatus(on)).not.toBe(quiet);
      const calls = sitesOf(on);
      for (let i = 0; i < calls.sites.count; i++) {
        expect(calls.sites.reading(i)).toMatchObject({ state: 'call', form: 't0-pair', target: entry });
      }
      expect(patched(on, { kind: 'nop' })).toEqual(off);
      expect(exitStatus(patched(on, { kind: 'nop' }))).toBe(quiet);
    });

    test.each([
      ['riscv64-linux-gnu-ld', ['-pie'], jal],
      ['riscv64-linux-gnu-ld', ['-pie', '--no-relax'], pg],
      ['riscv64-linux-gnu-ld', ['-pie', '-z', 'now'], jal],
      ['riscv64-linux-gnu-ld', ['-shared'], jal],
      ['riscv64-linux-gnu-ld', [], jal],
      ['ld.lld', ['-pie'], pg],
      ['ld.lld', [], pg],
    ] as const)('calls of an imported _mcount go through its PLT entry: %s %p', (linker, flags, form) => {
      const bytes = inFolder((folder) => {
        writeFileSync(join(folder, 'x.c'), SOURCE);
        writeFileSync(
          join(folder, 'm.S'),
          '.globl _mcount\n.type _mcount,@function\n_mcount: ret\n.size _mcount,.-_mcount\n',
        );
        const [x, m, library, output] = ['x.o', 'm.o', 'libm.so', 'program'].map((each) => join(folder, each));
        compile('gcc', 'rv64gc', ['-pg', '-fPIC', '-fvisibility=hidden'], join(folder, 'x.c'), x!);
        compile('gcc', 'rv64gc', [], join(folder, 'm.S'), m!);
        run('riscv64-linux-gnu-ld', ['-shared', '-o', library!, m!]);
        run(linker, [...flags, '-e', '0', '-o', output!, x!, library!]);
        return new Uint8Array(readFileSync(output!));
      });
      expect(summary(sitesOf(bytes).sites)).toEqual({ [form]: FUNCTIONS });
    });

    test('the program with and without sites gives the status of one compiled without any', () => {
      const plain = linkedProgram({ compiler: 'gcc', march: 'rv64gc', flags: [] }, 'bfd');
      const expected = exitStatus(plain);
      for (const flags of [['-pg'], [pfe('4')], [pfe('8,4')]]) {
        const bytes = linkedProgram({ compiler: 'gcc', march: 'rv64gc', flags }, 'bfd');
        expect(exitStatus(patched(bytes, { kind: 'init' }))).toBe(expected);
      }
    });

    test('F-2: the nop of a -pg call in an object takes CALL_PLT along, so the linker leaves it alone', () => {
      inFolder((folder) => {
        writeFileSync(join(folder, 'x.c'), SOURCE);
        writeFileSync(join(folder, 'start.S'), START);
        const path = join(folder, 'x.o');
        compile('gcc', 'rv64gc', ['-pg'], join(folder, 'x.c'), path);
        compile('gcc', 'rv64gc', [], join(folder, 'start.S'), join(folder, 'start.o'));
        const { program, sites } = sitesOf(new Uint8Array(readFileSync(path)));
        const out = program.image.bytes.slice();
        for (let i = 0; i < sites.count; i++) {
          const reading = sites.reading(i)!;
          const view = sites.viewOf(i);
          const change = asChange(reading.shape.write(reading, { kind: 'nop' }, view));
          for (const { delta, after } of change.stores) out.set(after, sites.fileOffset(i) + delta);
          expect(change.neutralise).toEqual([0]);
          // CALL_PLT and, by gcc, the RELAX beside it.
          const rows = view.relocationsAt(0);
          expect(rows.map(({ table, row }) => table.type[row])).toEqual([19, 51]);
          for (const { table, row } of rows) out.fill(0, table.fileOffset(row) + 8, table.fileOffset(row) + 16);
        }
        writeFileSync(path, out);
        for (const flags of [[], ['--no-relax']]) {
          const linked = join(folder, 'program');
          run('riscv64-linux-gnu-ld', [...flags, '-o', linked, path, join(folder, 'start.o')]);
          const bytes = new Uint8Array(readFileSync(linked));
          expect(sitesOf(bytes).sites.count).toBe(0);
          expect(exitStatus(bytes)).toBe(
            exitStatus(linkedProgram({ compiler: 'gcc', march: 'rv64gc', flags: [] }, 'bfd')),
          );
        }
      });
    });
  },
);
