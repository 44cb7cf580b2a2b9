/**
 * K-REL-2 on programs linked with --emit-relocs: what the linker kept is in the image
 * that gets a runtime, and every entry is true of the bytes at its place before and after probes;
 * the sum is over all entries of types whose value can be computed here.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import type { ElfImage, RelocationTable } from '../src/elf/image.js';
import { ElftraceError } from '../src/errors.js';
import { settleKeptRelocations } from '../src/patch/kept-relocations.js';
import { keptTables } from '../src/program/kept-tables.js';
import { load } from '../src/program/program.js';
import { applyRelocation, computeRelocation } from '../src/relocs/apply.js';
import {
  ARM64_TARGETS,
  buildProgram,
  type PpcTarget,
  RISCV_TARGETS,
  scratch,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { placesOf } from './support/probe-everywhere.js';
import { builtSamples } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';
import { sampled } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-kept-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);

const SOURCE = `#include "lib.h"
static volatile u32 counter = 3;
static u32 table[16] = {5, 7, 11, 13};
u32 other[4] = {1, 2, 3, 4};
__attribute__((noinline)) u32 step(u32 a) {
  counter += a;
  other[a & 3] ^= counter;
  return table[a & 15] + counter;
}
__attribute__((noinline)) u32 fold(u32 a, u32 b) {
  u32 x = a * 3 + counter;
  table[b & 15] = x ^ other[1];
  return x + table[(b + 1) & 15];
}
int main(void) {
  u32 sum = 0;
  for (u32 i = 0; i < 20; i++) sum = fold(sum, step(i));
  line("sum", sum);
  flush();
  return 0;
}
`;

/** An entry of the file, with what it says of its place. */
interface Entry {
  readonly place: bigint;
  readonly type: number;
  readonly symbol: string;
  readonly symbolValue: bigint;
  readonly addend: bigint;
  /** Null: its value cannot be computed here. */
  readonly isTrue: boolean | null;
  /** Bytes of the field, where there is one. */
  readonly field: Uint8Array;
}

/**
 * Of sections that are loaded, in file order: that order is the same in a file and in its images.
 */
function opened(image: ElfImage, { arch }: PpcTarget): Entry[] {
  const program = load(image, arch);
  const orders = { data: arch.target.dataEndian, code: arch.target.codeEndian };
  const { symbols } = image;
  // Values of high halves by their places: what low halves name (RISC-V).
  const halves = new Map<bigint, bigint>();
  const tables = keptTables(image).filter(({ target }) => image.sections[target]!.address !== 0n);
  const rows = tables.flatMap((table) => Array.from({ length: table.count }, (_, row) => ({ table, row })));
  const entry = (table: RelocationTable, row: number): Entry => {
    const place = table.offset[row]!;
    const type = table.type[row]!;
    const known = arch.relocations.get(type);
    const number = table.symbol[row]!;
    const symbol = symbols.value[number]!;
    const addend = table.addend[row]!;
    const offset = image.fileOffsetOf(place);
    const size = known === undefined || known.field.slices.length === 0 ? 0 : known.field.sizeBytes;
    const field = image.bytes.slice(offset, offset + size);
    let isTrue: boolean | null = null;
    if (known !== undefined && size > 0) {
      const made = field.slice();
      const toc = program.tocAt(place);
      const paired = halves.get(symbol);
      const inputs = { symbol, addend, place, ...(toc === null ? {} : { toc }), ...(paired === undefined ? {} : { paired }) };
      try {
        const value = computeRelocation(known, inputs, arch.target.wordBytes);
        if (value !== null) {
          if (known.part === 'hi20') halves.set(place, value);
          applyRelocation(known, made, 0, value, orders);
          isTrue = Buffer.from(made).equals(field);
        }
      } catch (error) {
        if (!(error instanceof ElftraceError)) throw error;
        // A low half without its high half is about nothing.
        const cannot = known.rule !== 'pcrel-low' && ['bad-reference', 'unsupported-form'].includes(error.code);
        isTrue = cannot ? null : false;
      }
    }
    return { place, type, symbol: symbols.name(number), symbolValue: symbol, addend, isTrue, field };
  };
  // High halves first.
  for (const { table, row } of rows) entry(table, row);
  return rows.map(({ table, row }) => entry(table, row));
} // prettier-ignore

const byName = (targets: readonly PpcTarget[], name: string): PpcTarget => targets.find((each) => each.name === name)!;
interface Subject {
  readonly name: string;
  readonly target: PpcTarget;
  readonly flags?: readonly string[];
  /** Forms in which an entry moves; both by default. */
  readonly moves?: readonly string[];
  /** An entry becomes NONE. */
  readonly drops: boolean;
  /** Instructions that get no probe. */
  readonly but?: string;
}

const ppc32 = byName(TARGETS, 'ppc32');
const rv64gc = byName(RISCV_TARGETS, 'rv64gc');
const SUBJECTS: readonly Subject[] = [
  // A breakpoint of one byte leaves fields behind it where they are.
  { name: 'x86-64', target: byName(X86_TARGETS, 'x86-64'), moves: ['jump'], drops: false },
  { name: 'ppc32', target: ppc32, flags: ['-fno-pie', '-no-pie'], drops: false },
  // Halves of a distance from the place: a copy has the same halves and is elsewhere.
  { name: 'ppc32 pic', target: ppc32, flags: ['-fpic'], drops: true },
  { name: 'ppc64-elfv2-le', target: byName(TARGETS, 'ppc64-elfv2-le'), drops: false },
  { name: 'ppc64-elfv1', target: byName(TARGETS, 'ppc64-elfv1'), drops: false },
  { name: 'rv64gc medlow', target: rv64gc, flags: ['-fno-pie', '-mcmodel=medlow'], drops: true },
  // Without their high halves, which are simulated, low halves are about nothing; with them, low
  // halves go with their copies.
  { name: 'rv64gc medany', target: rv64gc, flags: ['-fno-pie', '-mcmodel=medany'], moves: [], drops: true },
  { name: 'rv64gc low halves', target: rv64gc, flags: ['-fno-pie', '-mcmodel=medany'], drops: true, but: 'auipc' },
  { name: 'arm64', target: byName(ARM64_TARGETS, 'arm64'), drops: true },
];

/**
 * Holds the entries of a patched image against those of the link: gone with their bytes, become
 * NONE, or as they were.
 */
function compareEntries(
  image: ElfImage,
  before: ReturnType<typeof opened>,
  after: ReturnType<typeof opened>,
  none: number,
): { readonly moved: number; readonly neutral: number } {
  let moved = 0;
  let neutral = 0;
  after.forEach((entry, i) => {
    const was = before[i]!;
    if (entry.type === none && was.type !== none) {
      neutral++;
      expect([i, entry]).toMatchObject([i, { symbolValue: 0n, addend: 0n, place: was.place }]);
      return;
    }
    const { type, symbol, symbolValue, addend, isTrue } = was;
    expect([i, entry]).toMatchObject([i, { type, symbol, symbolValue, addend, isTrue }]);
    if (entry.place === was.place) {
      expect([i, entry.field]).toEqual([i, was.field]);
      return;
    }
    moved++;
    // In room for probes, and the same instruction there says so too.
    expect(image.sectionAt(entry.place)?.name).toBe('.elftrace.slots');
    expect([i, entry.isTrue]).not.toEqual([i, false]);
  });
  return { moved, neutral };
}

for (const { name: machine, target, flags = [], moves = ['breakpoint', 'jump'], drops, but = '' } of sampled(
  SUBJECTS,
  4,
)) {
  describeWith([target.gcc, 'readelf'], `K-REL-2 kept relocations: ${machine}`, () => {
    test('entries go with copies or become NONE, all are as true as before, the program does the same, revert gives the file', () => {
      const source = scratch('kept.c');
      writeFileSync(source, SOURCE);
      const file = buildProgram(target, '2', [source], ['-Wl,--emit-relocs', ...flags]);
      const original = readElf(new Uint8Array(readFileSync(file)));
      const before = opened(original, target);
      expect(before.filter(({ isTrue }) => isTrue === true).length).toBeGreaterThan(10);
      // Every instruction of two functions that has an entry.
      const places = placesOf(target.arch, original).valid.filter(
        ({ symbol, address, instruction }) =>
          instruction.mnemonic !== but &&
          /^\.?(step|fold)$/.test(symbol) &&
          before.some(({ place }) => place >= address && place < address + BigInt(instruction.bytes.length)),
      );
      expect(places.length).toBeGreaterThan(3);
      const wanted = elftrace(['run', file]);
      expect(wanted).toMatchObject({ status: 0, stdout: expect.stringMatching(/sum/) });
      const { none } = target.arch.relocationRoles;
      for (const form of ['breakpoint', 'jump']) {
        const name = `${machine.replaceAll(' ', '-')}.${form}`;
        const probes = places.flatMap(({ symbol, offset }, i) => ['--probe', `p:e${i} ${symbol}+${offset}`]);
        const patched = elftrace([
          'patch',
          file,
          ...probes,
          ...(form === 'jump' ? ['--optimize'] : []),
          '-o',
          at(name),
        ]);
        expect([name, patched]).toMatchObject([name, { status: 0 }]);
        expect(patched.stderr).not.toMatch(/relocations that the linker kept/);
        const image = readElf(new Uint8Array(readFileSync(at(name))));
        const after = opened(image, target);
        expect(after).toHaveLength(before.length);
        const { moved, neutral } = compareEntries(image, before, after, none);
        process.stdout.write(`${name}: ${after.length} entries, ${moved} moved, ${neutral} NONE\n`);
        expect([name, moved > 0]).toEqual([name, moves.includes(form)]);
        if (form === 'breakpoint' || moves.length > 0) expect([name, neutral > 0]).toEqual([name, drops]);
        const elsewhere = after.filter(({ place }, i) => place !== before[i]!.place);
        const listed = run('readelf', ['-rW', at(name)]).toString();
        for (const { place } of elsewhere) {
          expect(listed).toMatch(new RegExp(`^0*${place.toString(16)} .*R_`, 'm'));
        }
        expect(elftrace(['run', at(name)])).toMatchObject({ status: 0, stdout: wanted.stdout });
        expect(elftrace(['revert', at(name), '-o', at(`${name}.r`)]).status).toBe(0);
        expect(readFileSync(at(`${name}.r`)).equals(readFileSync(file))).toBe(true);
        if (form === 'breakpoint') continue;
        // Without its probes an image has the entries of the link again.
        const steps = places.map((_, i) => ({ 'no-probe': `e${i}` }));
        writeFileSync(at('off.json'), JSON.stringify({ version: 1, steps }));
        expect(elftrace(['patch', at(name), '--session', at('off.json'), '-o', at(`${name}.off`)]).status).toBe(0);
        const off = opened(readElf(new Uint8Array(readFileSync(at(`${name}.off`)))), target);
        expect(off.map(({ place, type }) => [place, type])).toEqual(before.map(({ place, type }) => [place, type]));
      }
    });
  });
}

describeWith(['gcc'], 'K-REL-2 kept relocations that cannot go with a copy', () => {
  test('a copy that is not the instruction: the entry becomes NONE', () => {
    const target = byName(X86_TARGETS, 'x86-64');
    const source = scratch('kept.c');
    writeFileSync(source, SOURCE);
    const file = buildProgram(target, '2', [source], ['-Wl,--emit-relocs']);
    const image = readElf(new Uint8Array(readFileSync(file)));
    const program = load(image, target.arch);
    const before = opened(image, target);
    const code = program.code[0]!;
    const entries = before.filter(({ place }) => place >= code.address && place < code.address + BigInt(code.bytes.length));
    expect(entries.length).toBeGreaterThan(10);
    for (const { place } of entries.slice(0, 10)) {
      const after = image.bytes.slice();
      const replaced = [{ start: place - 2n, end: place + 4n, copy: code.address + 1n }];
      for (const { at, bytes } of settleKeptRelocations(image, target.arch, after, [], replaced)) after.set(bytes, at);
      const now = opened(readElf(after), target);
      const i = before.findIndex((each) => each.place === place);
      expect(now[i]).toMatchObject({ type: target.arch.relocationRoles.none, place, addend: 0n });
      expect(now.filter((each, k) => each.type !== before[k]!.type || each.place !== before[k]!.place).length).toBe(1);
    }
  });
}); // prettier-ignore

test('K-REL-2 sites of ftrace: an entry whose call is not there any more becomes NONE, by words and by sessions', () => {
  const file = join(builtSamples, 'x86-64', 'program-fentry-relocations');
  const target = byName(X86_TARGETS, 'x86-64');
  const before = opened(readElf(new Uint8Array(readFileSync(file))), target);
  const { none } = target.arch.relocationRoles;
  const ways: readonly (readonly string[])[] = [
    ['--enable'],
    ['--enable', '-l', 'mix64'],
    ['--probe', 'p:s sum'],
  ];
  for (const [i, way] of ways.entries()) {
    const name = `sites.${i}`;
    expect([way, elftrace(['patch', file, ...way, '-o', at(name)])]).toMatchObject([way, { status: 0 }]);
    const bytes = readFileSync(at(name));
    const after = opened(readElf(new Uint8Array(bytes)), target);
    let dropped = 0;
    after.forEach(({ place, type, isTrue }, k) => {
      if (type === none) dropped++;
      else expect([way, k, place, type, isTrue]).toEqual([way, k, before[k]!.place, before[k]!.type, before[k]!.isTrue]);
    });
    expect([way, dropped > 0]).toEqual([way, true]);
    const listed = elftrace(['patch', file, ...way, '--dry-run', '--json']);
    const { steps } = JSON.parse(listed.stdout) as { steps: { section: string; rule: string }[] };
    expect(steps).toContainEqual(expect.objectContaining({ section: '.rela.text', rule: 'K-REL-2' }));
    expect(elftrace(['plan', file, ...way, '-o', at('plan.json')]).status).toBe(0);
    expect(elftrace(['apply', file, at('plan.json'), '-o', at('applied')]).status).toBe(0);
    expect(readFileSync(at('applied')).equals(bytes)).toBe(true);
    expect(elftrace(['revert', at(name), '-o', at(`${name}.r`)]).status).toBe(0);
    expect(readFileSync(at(`${name}.r`)).equals(readFileSync(file))).toBe(true);
  }
}); // prettier-ignore
