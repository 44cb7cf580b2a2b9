/**
 * `--untrace` on images whose table has fixed ends. What a kernel makes of the table afterwards is
 * computed by a model of start-up: it applies the relocations, then goes through the slots as one
 * generation of kernels does. The set of places that it would patch must be that of the original
 * without the selection, at whatever address the image runs.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { encodeRelr } from '../src/patch/empty-slots.js';
import type { Sites } from '../src/sites/sites.js';
import { planTableSort } from '../src/sites/table-sort.js';
import { findTableRange } from '../src/sites/tables.js';
import { planUntrace } from '../src/patch/untrace.js';
import { verify } from '../src/sites/verdicts.js';
import { codeOf, errorOf, openBytes, readSample, root, sameBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-untrace-linked-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/**
 * What kernels of a time do with a slot. `adds`: what leads from it to the instruction that is
 * patched.
 */
interface Generation {
  readonly asks: 'first' | 'last';
  readonly adds: bigint;
}

const word64 = (bytes: Uint8Array, at: number, size: 4 | 8, little: boolean): bigint => {
  let value = 0n;
  for (let i = 0; i < size; i++) value |= BigInt(bytes[at + (little ? i : size - 1 - i)]!) << BigInt(8 * i);
  return value;
};

/** Memory of the table when start-up has relocated the image by `bias`. */
function relocated(
  image: ElfImage,
  relative: number,
  bias: bigint,
): { readonly words: bigint[]; readonly mask: bigint } {
  const size = image.wordBytes;
  const little = image.header.endian === 'little';
  const mask = (1n << BigInt(8 * size)) - 1n;
  const at = (name: string): bigint => image.symbols.value[image.symbols.find(name)]!;
  const start = at('__start_mcount_loc');
  const count = Number(at('__stop_mcount_loc') - start) / size;
  const from = image.fileOffsetOf(start);
  const words = Array.from({ length: count }, (_, i) => word64(image.bytes, from + i * size, size, little));
  const slot = (place: bigint): number => Number(place - start) / size;
  for (const { type, flags, offset, fileSize } of image.sections) {
    // SHF_ALLOC: what a linker kept is not applied.
    if ((flags & 2n) === 0n) continue;
    const read = (index: number): bigint => word64(image.bytes, offset + index * size, size, little);
    if (type === 4) {
      for (let i = 0; i < fileSize / size; i += 3) {
        const kind = size === 8 ? read(i + 1) : read(i + 1) & 0xffn;
        if (kind === BigInt(relative) && words[slot(read(i))] !== undefined)
          words[slot(read(i))] = (read(i + 2) + bias) & mask;
      }
    }
    if (type !== 19) continue;
    let place = 0n;
    const add = (): void => {
      if (words[slot(place)] !== undefined) words[slot(place)] = (words[slot(place)]! + bias) & mask;
    };
    for (let i = 0; i < fileSize / size; i++) {
      const entry = read(i);
      if ((entry & 1n) === 0n) {
        place = entry;
        add();
        place += BigInt(size);
        continue;
      }
      const next = place + BigInt(size * (8 * size - 1));
      for (let bits = entry >> 1n; bits !== 0n; bits >>= 1n, place += BigInt(size)) if ((bits & 1n) !== 0n) add();
      place = next;
    }
  }
  return { words, mask };
}

/** Addresses that a kernel would patch, ascending, as offsets from where the image runs. */
function records(image: ElfImage, relative: number, bias: bigint, { asks, adds }: Generation): bigint[] {
  const { words, mask } = relocated(image, relative, bias);
  const isText = (address: bigint): boolean =>
    image.sections.some(
      ({ flags, address: start, size }) =>
        (flags & 4n) !== 0n && address >= start + bias && address < start + bias + BigInt(size),
    );
  const found: bigint[] = [];
  for (const value of words) {
    if (asks === 'first' && (value === 0n || !isText(value))) continue;
    const ip = (value + adds) & mask;
    if (asks === 'last' && ip === 0n) continue;
    found.push(ip - bias);
  }
  return found.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

const last = (adds: bigint): Generation => ({ asks: 'last', adds });
const first = (adds: bigint): Generation => ({ asks: 'first', adds });

/** Untraces some sites and compares what kernels make of the table. */
function check(
  bytes: Uint8Array,
  relative: number,
  biases: readonly bigint[],
  generations: readonly Generation[],
): void {
  const { image, sites } = openBytes(bytes);
  const wanted = Uint8Array.from({ length: sites.count }, (_, i) => (i % 3 === 1 ? 1 : 0));
  const gone = new Set([...sites].filter(({ index }) => wanted[index]).map(({ anchor }) => anchor));
  const plan = planUntrace(sites, { selection: wanted });
  expect([plan.refusals, plan.changed]).toEqual([[], gone.size]);
  expect(gone.size).toBeGreaterThan(2);
  const { bytes: out } = applyPlan(image, plan);
  const after = openBytes(out);
  for (const bias of biases) {
    for (const generation of generations) {
      const left = records(image, relative, bias, generation).filter((ip) => !gone.has(ip - generation.adds));
      expect(left.length).toBeGreaterThan(2);
      expect(records(after.image, relative, bias, generation)).toEqual(left);
    }
  }
  expect(after.sites.totals().total).toBe(sites.totals().total - gone.size);
  // GCC puts nops of ELFv2 functions in front of the TOC set-up: what is wrong with a site that
  // stays is what was wrong before.
  const wrong = (of: Sites): string[] =>
    verify(of).findings.flatMap(({ severity, address, verdict }) =>
      severity === 'note' ? [] : [`${address} ${verdict}`],
    );
  expect(wrong(after.sites)).toEqual(wrong(sites).filter((each) => !gone.has(BigInt(each.split(' ')[0]!))));
  // A table in order is in order afterwards.
  const inOrder = (of: ElfImage): boolean => {
    const { words } = relocated(of, relative, 0n);
    return words.every((value, i) => i === 0 || value >= words[i - 1]!);
  };
  if (inOrder(image)) expect(inOrder(after.image)).toBe(true);
  // Again, on what is untraced already; then back.
  const again = planUntrace(after.sites, {
    record: null,
    selection: Uint8Array.from({ length: after.sites.count }, (_, i) => (i % 5 === 4 ? 1 : 0)),
  });
  expect(again.refusals).toEqual([]);
  expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
}

const biases = [0n, 0x1234_0000n];

describe('C-INIT-1 untraced images', () => {
  test.each([
    ['x86-64/core-fentry', 8, [0n], [last(0n), first(0n)]],
    ['ppc32/core-mcount', 22, [0n], [last(0n), first(0n)]],
    ['ppc64-elfv1/core-mcount', 22, [0n], [last(0n), first(0n)]],
    ['ppc64-elfv2-be/core-mprofile', 22, [0n], [last(0n), first(0n)]],
    ['ppc64-elfv2-le/core-mprofile', 22, [0n], [last(0n), first(0n)]],
    ['riscv64/core-patchable-4', 3, [0n], [last(0n), first(0n), first(12n)]],
    ['arm64/core-patchable-2', 1027, biases, [last(4n), first(4n)]],
  ] as const)('%s', (name, relative, at, generations) => {
    const bytes = readSample(name);
    check(bytes, relative, at, generations);
    const { image, arch } = openBytes(bytes);
    const order = planTableSort(image, arch, findTableRange(image)!);
    if (order.kind === 'refused') throw new Error(order.reason);
    const sorted = bytes.slice();
    for (const { offset, after } of order.patches) sorted.set(after, offset);
    expect(order.patches.length).toBeGreaterThan(0);
    check(sorted, relative, at, generations);
  });

  test('arm64 =4,2: no value is skipped in silence by all kernels, unless the table has slots of 0', () => {
    const bytes = readSample('arm64/core-patchable-4-2');
    const { image, sites } = openBytes(bytes);
    const error = errorOf(() => planUntrace(sites, { selection: new Uint8Array(sites.count).fill(1, 2, 5) }));
    expect([error.code, error.context['what'], error.message]).toEqual([
      'unsupported-form',
      '__start_mcount_loc',
      expect.stringMatching(/arm64\.call-ops/),
    ]);
    const zeroed = bytes.slice();
    const table = image.fileOffsetOf(image.symbols.value[image.symbols.find('__start_mcount_loc')]!);
    zeroed.fill(0, table, table + 8);
    check(zeroed, 1027, [0n], [first(12n)]);
  });

  test('a kernel keeps a site that is there when it has started', () => {
    const { sites } = openBytes(readSample('x86-64/core-fentry'));
    expect(codeOf(() => planUntrace(sites))).toBe('unsupported-form');
    const all = new Uint8Array(sites.count).fill(1);
    const text = [...sites].findIndex(({ range }) => range!.name === '.text');
    all[text] = 0;
    // A selection names no bodies of overridden weak functions.
    const leftovers = verify(sites).verdicts['weak-leftover']!;
    expect(planUntrace(sites, { selection: all }).changed).toBe(sites.count - 1 - leftovers);
  });

  test('programs of users: 0, and nothing relocates it', () => {
    for (const name of [
      'arm64/pie-patchable-2',
      'x86-64/pie-patchable-5',
      'x86-64/pie-patchable-5-relr',
      'riscv64/pie-patchable-4',
    ]) {
      const bytes = readSample(name);
      const { image, sites } = openBytes(bytes);
      const selection = Uint8Array.from({ length: sites.count }, (_, i) => i % 2);
      const plan = planUntrace(sites, { selection });
      expect(plan.changed).toBeGreaterThanOrEqual(Math.floor(sites.count / 2) - 1);
      const { bytes: out } = applyPlan(image, plan);
      const after = openBytes(out);
      const { position, start } = ((table) => ({
        position: table.position[0]!,
        start: after.image.sections[table.container]!.address,
      }))(after.sites.tables[0]!);
      const relocatedPlaces = new Set<bigint>();
      for (const { offset, section } of after.image.relocations) {
        if (section < 0 || (after.image.sections[section]!.flags & 2n) !== 0n)
          for (const place of offset) relocatedPlaces.add(place);
      }
      let empty = 0;
      for (let i = 0; i < after.sites.tables[0]!.count; i++) {
        if (relocatedPlaces.has(start + BigInt(8 * i))) continue;
        if (word64(out, position + 8 * i, 8, true) === 0n) empty++;
      }
      expect([name, empty]).toEqual([name, plan.changed]);
      expect(sameBytes(revert(readElf(out)), bytes)).toBe(true);
    }
  });
});

describe('RELR', () => {
  test('what is encoded is decoded again, and no set takes more words without one of its places (property)', () => {
    const decode = (words: readonly bigint[], size: 4 | 8): bigint[] => {
      const places: bigint[] = [];
      let base = 0n;
      for (const entry of words) {
        if ((entry & 1n) === 0n) {
          places.push(entry);
          base = entry + BigInt(size);
          continue;
        }
        for (let bit = 1; bit < 8 * size; bit++)
          if (((entry >> BigInt(bit)) & 1n) !== 0n) places.push(base + BigInt((bit - 1) * size));
        base += BigInt(size * (8 * size - 1));
      }
      return places;
    };
    fc.assert(
      fc.property(
        fc.constantFrom(4 as const, 8 as const),
        fc.uniqueArray(fc.oneof(fc.nat(200), fc.nat(5000)), { minLength: 1, maxLength: 120 }),
        fc.nat(),
        (size, numbers, pick) => {
          const places = numbers.sort((a, b) => a - b).map((each) => BigInt(0x1000 + each * size));
          const words = encodeRelr(places, size);
          expect(decode(words, size)).toEqual(places);
          const fewer = places.filter((_, i) => i !== pick % places.length);
          expect(encodeRelr(fewer, size).length).toBeLessThanOrEqual(words.length);
        },
      ),
      { seed: 21, numRuns: 400 },
    );
  });
});

const source = `
#define F(n) __attribute__((noinline)) int f##n(int x) { return x * n + 1; }
F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10)
int (*volatile table[])(int) = { f2, f3, f4, f5, f6, f7, f8, f9, f10 };
__attribute__((section(".init.text"))) int setup(int x) { return x + 3; }
void _mcount(void) {}
void __fentry__(void) {}
void _start(void) { for (int i = 0; ; i++) table[i % 9](setup(i)); }
`;

interface Linked {
  readonly name: string;
  readonly compiler: string;
  readonly flags: readonly string[];
  readonly relative: number;
  readonly biases: readonly bigint[];
  readonly generations: readonly Generation[];
}

/** Forms that no sample has. */
const linked: readonly Linked[] = [
  {
    name: 'x86-64, relocations kept',
    compiler: 'gcc',
    flags: ['-pg', '-mfentry', '-mrecord-mcount', '-no-pie', '-fno-pie', '-static', '-Wl,-q'],
    relative: 8,
    biases: [0n],
    generations: [last(0n), first(0n)],
  },
  {
    name: 'arm64, RELR',
    compiler: 'clang',
    flags: [
      '--target=aarch64-linux-gnu',
      '-fuse-ld=lld',
      '-fpatchable-function-entry=2',
      '-fPIE',
      '-pie',
      '-Wl,--pack-dyn-relocs=relr',
    ],
    relative: 1027,
    biases,
    generations: [last(4n), first(4n)],
  },
  {
    name: 'arm64, words and addends',
    compiler: 'clang',
    flags: [
      '--target=aarch64-linux-gnu',
      '-fuse-ld=lld',
      '-fpatchable-function-entry=2',
      '-fPIE',
      '-pie',
      '-Wl,--apply-dynamic-relocs',
    ],
    relative: 1027,
    biases,
    generations: [last(4n), first(4n)],
  },
  {
    name: 'ppc64le, position-independent',
    compiler: 'powerpc64le-linux-gnu-gcc',
    flags: ['-fpatchable-function-entry=2', '-fPIE', '-pie', '-fno-stack-protector'],
    relative: 22,
    biases,
    generations: [last(4n), first(4n)],
  },
  {
    name: 'ppc32, two nops',
    compiler: 'powerpc-linux-gnu-gcc',
    flags: ['-fpatchable-function-entry=2', '-fno-pie', '-no-pie', '-static'],
    relative: 22,
    biases: [0n],
    generations: [last(4n), first(4n)],
  },
];

describeWith(
  ['gcc', 'clang', 'ld.lld', 'powerpc64le-linux-gnu-gcc', 'powerpc-linux-gnu-gcc'],
  'C-INIT-1 linked for the purpose',
  () => {
    test.each(linked)('$name', ({ name, compiler, flags, relative, biases: at, generations }) => {
      const path = join(folder, name.replace(/\W+/g, '-'));
      const script = join(root, 'samples', 'src', 'core.lds');
      const common = ['-O1', '-ffreestanding', '-nostdlib', '-x', 'c', '-', `-Wl,-T,${script}`, '-o', path];
      run(compiler, [...flags, ...common], source);
      check(new Uint8Array(readFileSync(path)), relative, at, generations);
    });

    test('x86-64: kept relocations of emptied slots are NONE, the others stay true', () => {
      const path = join(folder, 'kept');
      const script = join(root, 'samples', 'src', 'core.lds');
      run(
        'gcc',
        [...linked[0]!.flags, '-O1', '-ffreestanding', '-nostdlib', '-x', 'c', '-', `-Wl,-T,${script}`, '-o', path],
        source,
      );
      const { image, sites } = openBytes(new Uint8Array(readFileSync(path)));
      const { bytes: out } = applyPlan(
        image,
        planUntrace(sites, { selection: new Uint8Array(sites.count).fill(1, 2, 5) }),
      );
      writeFileSync(path, out);
      const text = run('readelf', ['-rW', path]).toString();
      const rows = text
        .slice(text.indexOf("'.rela.init.data'"))
        .split('\n\n')[0]!
        .split('\n')
        .filter((row) => row.includes('R_X86_64_'));
      const after = readElf(out);
      expect(rows.length).toBe(sites.count);
      for (const row of rows) {
        const [place, , type, value, ...rest] = row.trim().split(/\s+/);
        const held = word64(out, after.fileOffsetOf(BigInt(`0x${place!}`)), 8, true);
        if (type === 'R_X86_64_NONE') expect(held).toBe(0n);
        else expect(held).toBe(BigInt(`0x${value!}`) + (rest[1] === '+' ? BigInt(`0x${rest[2]!}`) : 0n));
      }
      expect(rows.filter((row) => row.includes('R_X86_64_NONE'))).toHaveLength(3);
    });
  },
);
