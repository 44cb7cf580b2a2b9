/**
 * What changes beside sites when tables of sites change: their slots, and what start-up relocates
 * of them. The changes are those of `--untrace`, whose effect on kernels `untrace-linked.test.ts`
 * computes; the twins change a relocation of something else.
 */
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { planUntrace } from '../src/patch/untrace.js';
import { prove, type ProofSummary } from '../src/prove/index.js';
import { openBytes, readSample } from './support/pipeline.js';

/** A proof of few sites: what is asked is what changed beside them. */
async function summaryOf(before: Uint8Array, after: Uint8Array): Promise<ProofSummary> {
  const { image, arch } = openBytes(before);
  const results = prove(image, readElf(after), arch, { sample: 2 });
  for (;;) {
    const { done, value } = await results.next();
    if (done === true) return value;
  }
}

function untraced(bytes: Uint8Array): Uint8Array {
  const { image, sites } = openBytes(bytes);
  const selection = Uint8Array.from({ length: sites.count }, (_, i) => i % 2);
  return applyPlan(image, planUntrace(sites, { selection })).bytes.slice();
}

const SAMPLES = [
  'x86-64/core-fentry',
  'ppc64-elfv2-le/core-mprofile',
  'riscv64/core-patchable-4',
  'arm64/core-patchable-2',
  'x86-64/pie-patchable-5',
  'x86-64/pie-patchable-5-relr',
] as const;

describe('PV-4: what changed beside the sites of a linked file', () => {
  test.each(SAMPLES)('%s: slots that are emptied and their relocations are explained', async (name) => {
    const bytes = readSample(name);
    const after = untraced(bytes);
    expect(after).not.toEqual(bytes);
    const { unexplained, different, inconclusive } = await summaryOf(bytes, after);
    expect({ unexplained, different, inconclusive }).toEqual({ unexplained: [], different: 0, inconclusive: 0 });
  });

  test.each(['arm64/core-patchable-2', 'x86-64/pie-patchable-5', 'x86-64/pie-patchable-5-relr'] as const)(
    '%s: a relocation of anything else is not',
    async (name) => {
      const bytes = readSample(name);
      const after = untraced(bytes);
      const { image, sites } = openBytes(after);
      const [table] = sites.tables;
      const first = image.addressOf(table!.position[0]!)!;
      const isSlot = (place: bigint): boolean => place >= first && place < first + BigInt(8 * table!.count);
      const isRelr = name.endsWith('relr');
      const rows = image.relocations.find(
        ({ form, section, target }) => section >= 0 && target === 0 && form === (isRelr ? 'relr' : 'rela'),
      )!;
      const row = [...rows.offset].findIndex((place) => !isSlot(place));
      expect(row).toBeGreaterThanOrEqual(0);
      // RELR begins with an address; of RELA rows the addend is changed.
      const at = isRelr ? image.sections[rows.section]!.offset : rows.fileOffset(row) + 16;
      after[at] = after[at]! ^ 8;
      const { unexplained } = await summaryOf(bytes, after);
      expect(unexplained.length).toBeGreaterThan(0);
      expect(unexplained.every(({ section }) => /^\.rel[ar]\.dyn$/.test(section))).toBe(true);
    },
  );
});

/** A word of st_shndx, behind the name's index, the kind, and what else there is, of ELF64. */
const SHNDX = { at: 6, bytes: 24 } as const;

describe('PV-4: what changed beside the sites of a relocatable file', () => {
  test.each(['x86-64/far-one.ko', 'arm64/module-patchable-2.ko'])(
    '%s: a symbol that is not defined any more is not explained, as no loader takes the file',
    async (name) => {
      const bytes = readSample(name);
      const after = untraced(bytes);
      expect((await summaryOf(bytes, after)).unexplained).toEqual([]);
      const { image } = openBytes(after);
      const { symbols, sections, relocations } = image;
      // One that relocations do not name: those that they name show where they stand, too.
      const isNamed = new Set(relocations.flatMap(({ symbol }) => [...symbol]));
      const isOwn = (home: number, i: number): boolean => home > 0 && home < sections.length && !isNamed.has(i);
      const own = [...symbols.sectionIndex].findIndex(isOwn);
      const at = sections[symbols.section]!.offset + SHNDX.bytes * own + SHNDX.at;
      after.fill(0, at, at + 2);
      const { unexplained } = await summaryOf(bytes, after);
      expect(unexplained.map(({ section, address }) => [section, address])).toEqual([
        ['.symtab', BigInt(SHNDX.bytes * own)],
      ]);
    },
  );
});
