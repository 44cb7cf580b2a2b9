/**
 * Text at the limit of a branch, ppc64le: images linked by ld whose `bl` has kilobytes left, so
 * that there is no room for a runtime in reach of every site. Such sites are served by a nearer
 * stub, and refused with the distance where no page for one is free.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { findNamedSites } from '../src/sites/named.js';
import { siteChain } from '../src/sites/chain.js';
import { verify } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { comparable, runWithBoth, traceDifferences } from './support/compare-traces.js';
import { sitesOf } from './support/loaded-samples.js';
import { sameBytes } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'reach-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const BASE = 0x1000_0000;
/** P-ENC-1: the farthest forward and backward target of a branch. */
const FORWARD = 0x1ff_fffc;
const BACKWARD = 0x200_0000;

const SOURCE = `
#define far_text __attribute__((section(".far"), noipa))
#define quiet __attribute__((no_instrument_function, noipa))
__attribute__((noipa)) int low(int a) { return a + 1; }
far_text int high_leaf(int a) { return a * 3; }
far_text int high(int a) { return low(a) + high_leaf(a); }
__attribute__((noipa)) int start(int a) { return high(a) + low(a); }
__attribute__((section(".far"))) quiet void _mcount(void) {}
quiet void _start(void) {
  const long result = start(5) + start(7);
  register long number __asm__("r0") = 1, code __asm__("r3") = result;
  __asm__ volatile("sc" : : "r"(number), "r"(code));
  for (;;) {}
}
`;
/** low 6 + leaf 15 + low 6, low 8 + leaf 21 + low 8. */
const CODE = 6 + 15 + 6 + 8 + 21 + 8;

function build(name: string, sections: Readonly<Record<string, number>>, more = ''): string {
  const source = join(folder, `${name}.c`);
  // The profiling entry of -mprofile-kernel: called with the return address in r0, which it hands
  // back.
  const entry = `__asm__(".pushsection .far,\\"ax\\"; .globl _mcount; .type _mcount,@function; _mcount: mflr 12; mtctr 12; mtlr 0; bctr; .size _mcount,.-_mcount; .popsection");`;
  writeFileSync(source, SOURCE.replace(/^.*void _mcount.*$/m, entry) + more);
  const output = join(folder, name);
  const starts = Object.entries(sections).map(([section, at]) => `-Wl,--section-start=${section}=0x${at.toString(16)}`);
  run('powerpc64le-linux-gnu-gcc', [
    '-O1', '-pg', '-mprofile-kernel', '-mno-vsx', '-mno-altivec', '-ffreestanding', '-nostdlib', '-static', '-fno-pie', '-no-pie',
    '-fno-stack-protector', '-Wl,--build-id=none', '-Wl,-z,norelro', ...starts, '-o', output, source,
  ]); // prettier-ignore
  return output;
}

const bytesOf = (path: string): Uint8Array => new Uint8Array(readFileSync(path));

describeWith(['powerpc64le-linux-gnu-gcc'], 'ppc64le reach', () => {
  test.each([64, 16, 4, 1])(
    '%i KiB left: the runtime does not fit in reach, and a nearer stub serves the sites',
    (kib) => {
      const image = build(`left${kib}`, { '.text': BASE, '.far': BASE + FORWARD + 4 - kib * 1024 });
      const before = sitesOf(bytesOf(image));
      expect(verify(before).verdicts).toEqual({ ok: 4 });
      // ld needed no stub: the calls lead to the entry itself, with so much left.
      const [low] = findNamedSites(before, 'low');
      const [call, target] = siteChain(before, low!).hops;
      const distance = Number(target!.address - before.ip(low!));
      expect([call!.kind, target!.kind]).toEqual(['call', 'target']);
      expect(distance).toBeLessThanOrEqual(FORWARD);
      expect(FORWARD - distance).toBeLessThan(kib * 1024 + 0x100);
      const on = join(folder, `on${kib}`);
      const patched = elftrace(['patch', image, '--enable', '--tracer', 'function_graph', '-o', on]);
      expect([patched.status, patched.stderr]).toEqual([0, '']);
      const after = sitesOf(bytesOf(on));
      expect(verify(after).verdicts).toEqual({ ok: 4 });
      let stubs = 0;
      for (const name of ['low', 'start', 'high', 'high_leaf']) {
        const [site] = findNamedSites(after, name);
        const { hops } = siteChain(after, site!);
        const first = hops.find(({ kind }) => kind === 'stub' || kind === 'target')!;
        const away = Number(first.address - after.ip(site!));
        expect([name, away >= -BACKWARD && away <= FORWARD]).toEqual([name, true]);
        expect(hops.at(-1)).toMatchObject({ kind: 'target', is: 'tracer' });
        if (first.kind !== 'stub') continue;
        stubs++;
        // The entry itself is farther than a branch reaches.
        expect(Math.abs(Number(hops.at(-1)!.address - after.ip(site!)))).toBeGreaterThan(FORWARD);
      }
      expect(stubs).toBeGreaterThan(0);
      const both = runWithBoth(bytesOf(on));
      expect(both.stop).toEqual({ kind: 'exit', code: CODE });
      expect(traceDifferences(both)).toEqual([]);
      expect(comparable(both.guest).filter((row) => row.startsWith('>')).length).toBe(10);
      // And back, byte for byte.
      const back = join(folder, `back${kib}`);
      expect(elftrace(['revert', on, '-o', back]).status).toBe(0);
      expect(sameBytes(bytesOf(back), bytesOf(image))).toBe(true);
    },
  );

  test('no free page in reach: refused with the distance, and nothing is written', () => {
    // 40 MiB of data in front of the code and behind it, without a page between; NOBITS, so that
    // the file stays small.
    const fill = (name: string): string => `__asm__(".pushsection ${name},\\"aw\\",@nobits; .space 0x2800000; .popsection");\n`;
    const image = build(
      'walled',
      { '.filla': BASE, '.text': BASE + 0x280_0000, '.far': BASE + 0x280_8000, '.fillb': BASE + 0x281_0200 },
      fill('.filla') + fill('.fillb'),
    );
    expect(verify(sitesOf(bytesOf(image))).verdicts).toEqual({ ok: 4 });
    expect(bytesOf(image).length).toBeLessThan(1 << 20);
    const output = join(folder, 'never');
    const result = elftrace(['patch', image, '--enable', '-o', output]);
    expect([result.status, result.stdout]).toEqual([2, '']);
    const said = /the site at (0x[0-9a-f]+) is (-?0x[0-9a-f]+) from the tracer's entry at (0x[0-9a-f]+), a branch reaches \[-0x2000000, 0x1fffffc\], and no free page for stubs is nearer \[branch-out-of-range\]/.exec(result.stderr);
    expect([result.stderr, said === null]).toEqual([result.stderr, false]);
    const [site, distance, target] = said!.slice(1).map((each) => (each.startsWith('-') ? -BigInt(each.slice(1)) : BigInt(each)));
    expect(target! - site!).toBe(distance);
    expect(distance! > BigInt(FORWARD) || distance! < -BigInt(BACKWARD)).toBe(true);
    expect(() => readFileSync(output)).toThrow(/ENOENT/);
  }); // prettier-ignore
});
