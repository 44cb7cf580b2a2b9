/**
 * What changes beside sites when tables of sites change: their slots, and what start-up relocates
 * of them. The changes are those of `--untrace`, whose effect on kernels `untrace-linked.test.ts`
 * computes; the twins change a relocation of something else.
 */
import { describe, expect, test } from '@jest/globals';
import { PT_GNU_STACK } from '../src/elf/constants.js';
import type { ElfImage, ElfSegment } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { planUntrace } from '../src/patch/untrace.js';
import { prove, type ProofSummary } from '../src/prove/index.js';
import type { Sites } from '../src/sites/sites.js';
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

/** Bytes of ELF64 files of little endian: of headers, symbols, or what is between sections. */
type Edit = (image: ElfImage, view: DataView, sites: Sites) => void;

/** From the header of a segment or a section to a field. */
const P = { flags: 4, fileSize: 32, memorySize: 40 } as const;
const S = { alignment: 48 } as const;

const segmentOf = (image: ElfImage, isIt: (each: ElfSegment) => boolean): number =>
  image.header.phoff + image.header.phentsize * image.segments.find((each) => each.type === 1 && isIt(each))!.index;

const data = ({ flags }: ElfSegment): boolean => (flags & 1) === 0;

describe('PV-4: what no byte of a section says of a linked file', () => {
  const cases: readonly (readonly [what: string, where: string, edit: Edit])[] = [
    ['the program begins elsewhere', 'ELF header', (_, view) => view.setUint8(24, view.getUint8(24) ^ 4)],
    ['flags of the ABI', 'ELF header', (_, view) => view.setUint8(48, view.getUint8(48) ^ 1)],
    [
      'data that may not be written any more',
      'program headers',
      (image, view) => view.setUint32(segmentOf(image, data) + P.flags, 4, true),
    ],
    [
      'a stack whose memory may be executed',
      'program headers',
      (image, view) => {
        const { phoff, phentsize } = image.header;
        const { index } = image.segments.find(({ type }) => type === PT_GNU_STACK)!;
        view.setUint32(phoff + phentsize * index + P.flags, 7, true);
      },
    ],
    [
      'less memory behind data',
      'program headers',
      (image, view) => {
        const at = segmentOf(image, data) + P.memorySize;
        view.setBigUint64(at, view.getBigUint64(at, true) - 8n, true);
      },
    ],
    [
      'bytes where memory begins as zeros',
      'between sections',
      (image, view) => {
        const at = segmentOf(image, data) + P.fileSize;
        view.setBigUint64(at, view.getBigUint64(at, true) + 8n, true);
        const { offset, fileSize } = image.segments.find((each) => each.type === 1 && data(each))!;
        view.setUint8(offset + fileSize, 1);
      },
    ],
    [
      'a slot of the table that names no code',
      'table of sites',
      (_, view, sites) => view.setUint8(sites.tables[0]!.position[0]! + 3, 0x70),
    ],
  ];
  test.each(cases)('%s', async (_, where, edit) => {
    const bytes = readSample('x86-64/program-fentry');
    const after = untraced(bytes);
    expect((await summaryOf(bytes, after)).unexplained).toEqual([]);
    const { image, sites } = openBytes(bytes);
    edit(image, new DataView(after.buffer, after.byteOffset), sites);
    const { unexplained } = await summaryOf(bytes, after);
    expect(unexplained.map(({ section }) => section)).toEqual([where]);
  });
});

test('PV-4: a note of the program is no record of the tool', async () => {
  const bytes = readSample('arm64/program-patchable-2-bti');
  const after = untraced(bytes);
  expect((await summaryOf(bytes, after)).unexplained).toEqual([]);
  const { name, offset, size } = readElf(after).section('.note.gnu.property')!;
  after[offset + size - 8] = after[offset + size - 8]! ^ 1;
  const { unexplained } = await summaryOf(bytes, after);
  expect(unexplained.map(({ section }) => section)).toEqual([name]);
});

describe('PV-4: what no byte of a section says of a relocatable file', () => {
  const symbol = ({ symbols, sections }: ElfImage, name: string): number =>
    sections[symbols.section]!.offset + 24 * symbols.find(name);
  const cases: readonly (readonly [what: string, where: string, edit: Edit])[] = [
    ['a name stands for another place', '.symtab', (image, view) => view.setUint8(symbol(image, 'init_module') + 8, 4)],
    ['a name is not for others any more', '.symtab', (image, view) => view.setUint8(symbol(image, 'util_note') + 4, 2)],
    [
      'a name from elsewhere may be missing',
      '.symtab',
      (image, view) => view.setUint8(symbol(image, 'sample_clock') + 4, 0x20),
    ],
    [
      'a section may lie at any address',
      '.text',
      (image, view) => {
        const { shoff, shentsize } = image.header;
        view.setBigUint64(shoff + shentsize * image.section('.text')!.index + S.alignment, 1n, true);
      },
    ],
  ];
  test.each(cases)('%s', async (_, where, edit) => {
    const bytes = readSample('x86-64/module-fentry.ko');
    const after = untraced(bytes);
    expect((await summaryOf(bytes, after)).unexplained).toEqual([]);
    edit(readElf(after), new DataView(after.buffer, after.byteOffset), openBytes(bytes).sites);
    const { unexplained } = await summaryOf(bytes, after);
    expect(unexplained.map(({ section }) => section)).toEqual([where]);
  });
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
