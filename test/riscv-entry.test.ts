/**
 * `patch --enable --entry SYMBOL [--ops SYMBOL]` on relocatable RISC-V files (F-2, R-OFF-1): the
 * pair with zero fields and one CALL_PLT on its auipc, as readelf and objdump see it; linked by a
 * relaxing ld the pair stays a pair; the program calls the entry, here and under qemu; revert gives
 * the file back.
 */
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { revert } from '../src/patch/apply.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { runImage } from './support/loaded.js';
import { describeWith, run, tool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-riscv-entry-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);
const gcc = 'riscv64-linux-gnu-gcc';

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
 * The other half of the program: exit code = result * 16 + hits by ops a * 4 + hits by ops b; the
 * ops' counter is word 3. Entries keep a0, as all do.
 */
const rest = `
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

function build(flags: readonly string[]): string {
  writeFileSync(at('k.c'), source);
  const common = ['-O2', '-ffreestanding', '-fno-pie', '-mcmodel=medany', '-fno-asynchronous-unwind-tables'];
  run(gcc, [...common, ...flags, '-c', at('k.c'), '-o', at('k.o')]);
  return at('k.o');
}

/** Links with the other half, relaxing; the exit code, the same here and under qemu where it is. */
function exitCode(object: string): number {
  writeFileSync(at('rest.s'), rest);
  run('riscv64-linux-gnu-as', ['-march=rv64gc', at('rest.s'), '-o', at('rest.o')]);
  run('riscv64-linux-gnu-ld', [object, at('rest.o'), '-o', at('linked')]);
  const here = runImage(readFileSync(at('linked'))).exit;
  if (tool('qemu-riscv64') !== null) expect(spawnSync('qemu-riscv64', [at('linked')]).status).toBe(here);
  return Number(here);
}

interface Row {
  readonly section: string;
  readonly offset: number;
  readonly type: string;
  readonly symbol: string;
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

/** Words of the code of a function as objdump prints them. */
function words(file: string, name: string): string[] {
  const { stdout } = spawnSync('riscv64-linux-gnu-objdump', ['-d', file], { encoding: 'utf8' });
  const body = stdout.slice(stdout.indexOf(`<${name}>:`)).split('\n\n')[0]!;
  return [...body.matchAll(/^\s*[0-9a-f]+:\s+([0-9a-f]{4,8})\s/gm)].map((each) => each[1]!);
}

const forms = [
  { name: 'G2 with C', flags: ['-march=rv64gc', '-fpatchable-function-entry=4'], entry: 'entry_t0', site: [] },
  { name: 'G2 without C', flags: ['-march=rv64g', '-fpatchable-function-entry=2'], entry: 'entry_t0', site: [] },
  { name: 'G1', flags: ['-march=rv64gc', '-fpatchable-function-entry=8'], entry: 'entry_g1', site: ['--riscv-site', 'g1'] },
  { name: 'G3', flags: ['-march=rv64g', '-fpatchable-function-entry=2'], entry: 'entry_t0', site: ['--riscv-site', 'g3'] },
  {
    name: 'G3c',
    // Where a linker may relax, it decides about alignment, and an object's offsets do not tell.
    flags: ['-march=rv64gc', '-mno-relax', '-fpatchable-function-entry=8,4', '-falign-functions=8'],
    entry: 'entry_ops',
    site: ['--riscv-site', 'g3c', '--ops', 'ops_b'],
  },
  { name: '-pg', flags: ['-march=rv64gc', '-pg'], entry: 'entry_pg', site: [] },
] as const; // prettier-ignore

describeWith([gcc, 'riscv64-linux-gnu-ld', 'readelf'], 'relocatable files', () => {
  test.each(forms)(
    'F-2, R-OFF-1: $name: CALL_PLT on the auipc, no RELAX beside it, linked and run',
    ({ name, flags, entry, site }) => {
      const object = build(flags);
      const before = new Uint8Array(readFileSync(object));
      const request = ['--enable', '--entry', entry, ...site];
      const on = elftrace(['patch', ...request, object, '-o', at('on.o')]);
      expect([on.status, on.stderr]).toEqual([0, expect.stringMatching(new RegExp(`^\\S+: notice: .*${entry}.*\n$`))]);
      const rows = relocations(at('on.o'));
      const calls = rows.filter((row) => row.symbol === entry);
      expect(calls.map((row) => row.type)).toEqual(calls.map(() => 'R_RISCV_CALL_PLT'));
      expect(calls.length).toBe(3);
      for (const call of calls) {
        const beside = rows.filter((row) => row.section === call.section && row.offset === call.offset);
        expect(beside.filter((row) => row.type === 'R_RISCV_RELAX')).toEqual([]);
      }
      const ops = rows.filter((row) => row.symbol === 'ops_b');
      expect(ops.map((row) => row.type)).toEqual(name === 'G3c' ? ['R_RISCV_64', 'R_RISCV_64', 'R_RISCV_64'] : []);
      // The twin without an entry.
      expect(exitCode(object)).toBe((RESULT * 16) & 0xff);
      expect(exitCode(at('on.o'))).toBe((RESULT * 16 + (name === 'G3c' ? 3 : 12)) & 0xff);
      // The linker filled in immediates, and left the registers and the size alone.
      const linked = words(at('linked'), 'f1');
      const pair = linked.findIndex((word) => /(297|097)$/.test(word) && word.length === 8);
      expect(linked.slice(pair, pair + 2)).toEqual(
        name === 'G1' || name === '-pg'
          ? [expect.stringMatching(/^.{5}097$/), expect.stringMatching(/^.{3}080e7$/)]
          : [expect.stringMatching(/^.{5}297$/), expect.stringMatching(/^.{3}282e7$/)],
      );
      if (name === 'G1') expect([linked[0], linked[3]]).toEqual(['fe113c23', 'ff813083']);
      expect(elftrace(['status', at('on.o')]).stdout.match(new RegExp(`->${entry}`, 'g'))?.length).toBe(3);
      expect(elftrace(['verify', at('on.o')])).toMatchObject({ status: 0 });
      expect(Buffer.from(revert(readElf(new Uint8Array(readFileSync(at('on.o')))))).equals(before)).toBe(true);
    },
  );

  test('F-2: what cannot be: ops without a word for them, a word without ops, too few nops', () => {
    const refused = (flags: readonly string[], ...options: string[]): string => {
      const { status, stderr } = elftrace(['patch', '--enable', ...options, build(flags), '-o', at('no.o')]);
      expect(status).toBe(1);
      return stderr;
    };
    const g2 = ['-march=rv64gc', '-fpatchable-function-entry=4'];
    expect(refused(g2, '--entry', 'entry_t0', '--ops', 'ops_a')).toMatch(/name no ops/);
    expect(refused(g2, '--entry', 'entry_g1', '--riscv-site', 'g1')).toMatch(/sixteen bytes/);
    const g3c = ['-march=rv64gc', '-mno-relax', '-fpatchable-function-entry=8,4', '-falign-functions=8'];
    expect(refused(g3c, '--entry', 'entry_ops', '--riscv-site', 'g3c')).toMatch(/say which \(--ops\)/);
    const plain = ['-march=rv64g', '-fpatchable-function-entry=2'];
    expect(refused(plain, '--entry', 'entry_ops', '--riscv-site', 'g3c', '--ops', 'ops_a')).toMatch(
      /no eight bytes of nops/,
    );
  });

  test('R-SITE-6: slots of the table name a local label at the first nop, not a section and an offset', () => {
    const object = build(['-march=rv64gc', '-fpatchable-function-entry=4']);
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
