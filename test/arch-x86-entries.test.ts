/**
 * Which entry serves a site: what gcc and clang emit before their profiling calls, and the same as
 * bytes.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { flavoursFor, siteConvention, type SiteConvention } from '../src/arch-x86/entries.js';
import { STT_FUNC } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import { FakeView } from './support/fake-view.js';
import { describeWith, run } from './support/tools.js';

const bytesOf = (text: string): Uint8Array => Uint8Array.from(text.split(' '), (each) => parseInt(each, 16));
const NOP = '0f 1f 44 00 00';

describe('X-ENT-5 conventions of a site', () => {
  const rows: readonly (readonly [string, string, readonly number[], number, SiteConvention])[] = [
    ['first instruction', NOP, [0], 0, 'fentry'],
    ['behind endbr64', `f3 0f 1e fa ${NOP}`, [0], 4, 'fentry'],
    ['behind push %r10', `41 52 ${NOP} 41 5a`, [0], 2, 'fentry-nested'],
    ['behind endbr64 and push %r10', `f3 0f 1e fa 41 52 ${NOP} 41 5a`, [0], 6, 'fentry-nested'],
    ['behind a frame', `55 48 89 e5 ${NOP}`, [0], 4, 'mcount'],
    ['behind endbr64, a frame and its locals', `f3 0f 1e fa 55 48 89 e5 48 83 ec 20 ${NOP}`, [0], 12, 'mcount'],
    ['behind a frame and push %r10', `55 48 89 e5 41 52 ${NOP} 41 5a`, [0], 6, 'mcount'],
    ['behind something else', `48 83 ec 20 90 ${NOP}`, [0], 5, 'unknown'],
    ['no symbols, endbr64', `f3 0f 1e fa ${NOP}`, [], 4, 'fentry'],
    ['no symbols, a frame', `55 48 89 e5 ${NOP}`, [], 4, 'mcount'],
    ['no symbols, nothing', `90 90 90 90 ${NOP}`, [], 4, 'unknown'],
  ];
  test.each(rows)('%s', (_name, text, functions, at, convention) => {
    const view = new FakeView({ code: bytesOf(text), endian: 'little', functions }).at(at);
    expect(siteConvention(view, 0)).toBe(convention);
    expect(flavoursFor(convention).length > 0).toBe(convention !== 'unknown');
  });
});

const SOURCE = `
long leaf(long a) { return a + 1; }
long many(long a, long b, char *c) { volatile char x[200]; x[a] = b; return x[b] + c[a]; }
double eight(double a, double b, double c, double d, double e, double f, double g, double h) { return a+b+c+d+e+f+g+h; }
int printf(const char *, ...);
void varied(int n, ...) { __builtin_va_list l; __builtin_va_start(l, n); printf("%d", __builtin_va_arg(l, int)); __builtin_va_end(l); }
#ifdef NESTED
long outer(long a) { long sum = a; __attribute__((noinline)) long add(long b) { sum += b; return sum; } add(1); return add(2); }
#endif
`;

/** Conventions of the profiling calls of an object, by function name. */
function conventions(compiler: string, flags: readonly string[]): ReadonlyMap<string, SiteConvention> {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-entries-'));
  try {
    writeFileSync(join(folder, 'a.c'), SOURCE);
    run(compiler, [...flags, '-fno-pie', '-c', join(folder, 'a.c'), '-o', join(folder, 'a.o')]);
    const image = readElf(new Uint8Array(readFileSync(join(folder, 'a.o'))));
    const text = image.section('.text')!;
    const functions = new Map<number, string>();
    for (let i = 1; i < image.symbols.count; i++) {
      if (image.symbols.sectionIndex[i] !== text.index || (image.symbols.info[i]! & 15) !== STT_FUNC) continue;
      functions.set(Number(image.symbols.value[i]!), image.symbols.name(i));
    }
    const view = new FakeView({ code: image.contents(text), endian: 'little', functions: [...functions.keys()] });
    const found = new Map<string, SiteConvention>();
    for (const table of image.relocationsOf(text)) {
      for (let row = 0; row < table.count; row++) {
        const name = image.symbols.name(table.symbol[row]!);
        if (name !== 'mcount' && name !== '__fentry__') continue;
        const at = Number(table.offset[row]!) - 1;
        const start = [...functions.keys()].filter((each) => each <= at).sort((a, b) => b - a)[0]!;
        found.set(functions.get(start)!.replace(/\.\d+$/, ''), siteConvention(view.at(at), 0));
      }
    }
    return found;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describeWith(['x86_64-linux-gnu-gcc'], 'X-ENT-5 sites of gcc', () => {
  test.each(['-O0', '-O2', '-Os'])('%s', (level) => {
    for (const cf of ['none', 'branch']) {
      const common = [level, `-fcf-protection=${cf}`, '-DNESTED'];
      const fentry = conventions('x86_64-linux-gnu-gcc', [...common, '-pg', '-mfentry']);
      expect(Object.fromEntries(fentry)).toEqual({
        leaf: 'fentry', many: 'fentry', eight: 'fentry', varied: 'fentry', outer: 'fentry', add: 'fentry-nested',
      }); // prettier-ignore
      const mcount = conventions('x86_64-linux-gnu-gcc', [...common, '-pg']);
      expect(new Set(mcount.values())).toEqual(new Set(['mcount']));
      expect(mcount.size).toBe(6);
    }
  });
});

describeWith(['clang'], 'X-ENT-5 sites of clang', () => {
  test.each(['-O0', '-O2'])('%s', (level) => {
    const target = '--target=x86_64-linux-gnu';
    const fentry = conventions('clang', [target, level, '-pg', '-mfentry']);
    expect(new Set(fentry.values())).toEqual(new Set(['fentry']));
    const mcount = conventions('clang', [target, level, '-pg']);
    expect(new Set(mcount.values())).toEqual(new Set(['mcount']));
    expect(mcount.size).toBe(4);
  });
});
