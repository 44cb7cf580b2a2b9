/**
 * The generic apply and its inverse: by properties on every row, and against ld on assembled
 * objects.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ppc32, ppc64ElfV1, ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import type { Arch } from '../src/machine/arch.js';
import { ElftraceError } from '../src/errors.js';
import {
  applyRelocation,
  checkRelocation,
  computeRelocation,
  extractRelocation,
  relocationPart,
} from '../src/relocs/apply.js';
import type { RelocationRow } from '../src/relocs/kinds.js';
import { fromWords } from './support/fake-view.js';
import { assembleWith, compileWith, inFolder, linkWith, type PpcTarget, ppcTargets } from './support/ppc-build.js';
import { compareRelocations } from './support/reloc-harness.js';
import { describeWith, run } from './support/tools.js';
import { writeFileSync } from 'node:fs';

const PARAMETERS = { seed: 20_260_101, numRuns: 60 };
const BIG = { data: 'big', code: 'big' } as const;

function code(error: () => void): string {
  try {
    error();
  } catch (cause) {
    if (cause instanceof ElftraceError) return cause.code;
    throw cause;
  }
  return 'none';
}

function rowOf(arch: Arch, name: string): RelocationRow {
  for (const row of arch.relocations.values()) if (row.name === name) return row;
  throw new Error(name);
}

/** Amount by which the number of a part is shifted up again by the inverse. */
function shiftOf(row: RelocationRow): bigint {
  if (/^(hi|ha)16$/.test(row.part)) return 16n;
  if (/^highera?16$/.test(row.part)) return 32n;
  if (/^highesta?16$/.test(row.part)) return 48n;
  if (/^(hi|ha)34$/.test(row.part)) return 34n;
  return row.part.startsWith('highest') ? 50n : 0n;
}

describe('relocation rows', () => {
  test.each([
    ['ppc32', ppc32],
    ['ppc64', ppc64ElfV1],
  ] as const)(
    '%s: extract gives back what apply stored, other bits stay, values out of range are refused',
    (_, arch) => {
      for (const row of arch.relocations.values()) {
        if (row.field.slices.length === 0) continue;
        fc.assert(
          fc.property(
            fc.bigInt(-(1n << 63n), (1n << 63n) - 1n),
            fc.integer({ min: 0, max: 63 }),
            fc.uint8Array({ minLength: 16, maxLength: 16 }),
            fc.constantFrom('big' as const, 'little' as const),
            (wide, shift, bytes, endian) => {
              const value = ((wide >> BigInt(shift)) / BigInt(row.alignBytes)) * BigInt(row.alignBytes);
              const orders = { data: endian, code: endian };
              const before = bytes.slice();
              let refused = false;
              try {
                applyRelocation(row, bytes, 4, value, orders);
              } catch (cause) {
                refused = cause instanceof ElftraceError && cause.code === 'relocation-out-of-range';
                expect(refused).toBe(true);
              }
              if (refused) {
                expect(bytes).toEqual(before);
                return;
              }
              expect(extractRelocation(row, bytes, 4, orders)).toBe(relocationPart(row, value) << shiftOf(row));
              // A second application with what was extracted changes nothing; putting zero back
              // restores all other bits.
              const zero = bytes.slice();
              applyRelocation(row, zero, 4, 0n, orders);
              applyRelocation(row, before, 4, 0n, orders);
              expect(zero).toEqual(before);
            },
          ),
          { ...PARAMETERS, numRuns: 25 },
        );
      }
    },
  );

  test('P-ENC-3: HA and LO add up to the value for all 32-bit values', () => {
    const ha = rowOf(ppc32, 'R_PPC_ADDR16_HA');
    const lo = rowOf(ppc32, 'R_PPC_ADDR16_LO');
    fc.assert(
      fc.property(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), (number) => {
        const value = BigInt(number);
        const bytes = new Uint8Array(4);
        applyRelocation(ha, bytes, 0, value, BIG);
        applyRelocation(lo, bytes, 2, value, BIG);
        const sum = extractRelocation(ha, bytes, 0, BIG) + BigInt.asIntN(16, extractRelocation(lo, bytes, 2, BIG));
        expect(BigInt.asIntN(32, sum)).toBe(value);
      }),
      { ...PARAMETERS, numRuns: 500 },
    );
    // P-OFF-3: 0xc0018000 -> c002 8000.
    expect(relocationPart(ha, 0xc001_8000n)).toBe(0xc002n);
    expect(relocationPart(lo, 0xc001_8000n)).toBe(0x8000n);
  });

  test('P-ENC-1: the limits of REL24, and messages with both of them', () => {
    const row = rowOf(ppc64ElfV1, 'R_PPC64_REL24');
    const bytes = fromWords([0x4800_0001], 'big');
    applyRelocation(row, bytes, 0, 0x1ff_fffcn, BIG);
    expect(bytes).toEqual(fromWords([0x49ff_fffd], 'big'));
    applyRelocation(row, bytes, 0, -0x200_0000n, BIG);
    expect(bytes).toEqual(fromWords([0x4a00_0001], 'big'));
    expect(code(() => applyRelocation(row, bytes, 0, 0x200_0000n, BIG))).toBe('relocation-out-of-range');
    expect(code(() => applyRelocation(row, bytes, 0, -0x200_0004n, BIG))).toBe('relocation-out-of-range');
    expect(code(() => applyRelocation(row, bytes, 0, 2n, BIG))).toBe('relocation-misaligned');
    expect(code(() => applyRelocation(row, bytes, 2, 0n, BIG))).toBe('elf-truncated');
    expect(() => checkRelocation(row, 0x200_0000n)).toThrow(
      'R_PPC64_REL24: 0x2000000 is outside [-0x2000000, 0x1ffffff]',
    );
  });

  test('64-bit HA checks 32 bits, HIGHA does not; 32-bit HA never does; DS fields keep the opcode bits', () => {
    const far = 0x1_0000_0000n;
    expect(code(() => checkRelocation(rowOf(ppc64ElfV1, 'R_PPC64_TOC16_HA'), far))).toBe('relocation-out-of-range');
    expect(code(() => checkRelocation(rowOf(ppc64ElfV1, 'R_PPC64_TOC16_HA'), 0x7fff_7fffn))).toBe('none');
    expect(code(() => checkRelocation(rowOf(ppc64ElfV1, 'R_PPC64_TOC16_HA'), 0x7fff_8000n))).toBe(
      'relocation-out-of-range',
    );
    expect(code(() => checkRelocation(rowOf(ppc64ElfV1, 'R_PPC64_ADDR16_HIGHA'), far))).toBe('none');
    expect(code(() => checkRelocation(rowOf(ppc32, 'R_PPC_ADDR16_HA'), 0xffff_ffffn))).toBe('none');
    const bytes = fromWords([0xf821_0001], 'big');
    applyRelocation(rowOf(ppc64ElfV1, 'R_PPC64_TOC16_LO_DS'), bytes, 2, 0x1234n, BIG);
    expect(bytes).toEqual(fromWords([0xf821_1235], 'big'));
  });

  test('values: every rule, missing inputs and rules of linkers', () => {
    const inputs = { symbol: 0x1000n, addend: 8n, place: 0x400n };
    const value = (rule: RelocationRow['rule'], more = {}): bigint | null =>
      computeRelocation({ ...rowOf(ppc64ElfV1, 'R_PPC64_ADDR64'), rule }, { ...inputs, ...more });
    expect(value('abs')).toBe(0x1008n);
    expect(value('pcrel')).toBe(0xc08n);
    expect(value('relative', { base: 0x10000n })).toBe(0x10008n);
    expect(value('relative')).toBe(8n);
    expect(value('toc-relative', { toc: 0x8000n })).toBe(0x1008n - 0x8000n);
    expect(value('toc-base', { toc: 0x8000n })).toBe(0x8008n);
    expect(value('got-pcrel', { gotSlot: 0x2000n })).toBe(0x1c08n);
    expect(value('got-relative', { gotSlot: 0x2000n, toc: 0x8000n })).toBe(0x2008n - 0x8000n);
    expect(value('got-abs', { gotSlot: 0x2000n })).toBe(0x2008n);
    expect(value('page-pcrel', { symbol: 0x12_3456n, place: 0x1_0ffcn })).toBe(0x12_3000n - 0x1_0000n);
    expect(value('add', { held: 1n })).toBe(0x1009n);
    expect(value('sub', { held: 0x2000n })).toBe(0xff8n);
    expect(value('size', { symbolSize: 4n })).toBe(12n);
    expect(value('none')).toBeNull();
    expect(code(() => value('toc-relative'))).toBe('bad-reference');
    expect(code(() => value('tls'))).toBe('unsupported-form');
    expect(code(() => value('linker'))).toBe('unsupported-form');
    // The addend of PLTREL24 is no part of the value; 32-bit values wrap.
    const plt = rowOf(ppc32, 'R_PPC_PLTREL24');
    expect(computeRelocation(plt, { ...inputs, addend: 0x8000n }, 4)).toBe(0xc00n);
    expect(computeRelocation(plt, { symbol: 0n, addend: 0n, place: 0xffff_fff0n }, 4)).toBe(0x10n);
  });
});

describeWith(['powerpc64-linux-gnu-as', 'powerpc-linux-gnu-as', 'readelf'], 'relocation names', () => {
  test.each([
    ['ppc32', ppcTargets.ppc32, 'R_PPC_ADDR32'],
    ['ppc64', ppcTargets.v1, 'R_PPC64_ADDR64'],
  ] as const)(
    '%s: every type that readelf names has a row of that name, and no other type has one',
    (_, target, word) => {
      const lines = Array.from({ length: 256 }, () => ` .reloc 0, ${word}, x\n`).join('');
      const bytes = assembleWith(target, ` .text\n nop\n nop\n${lines}`);
      // Entry i of the relocation section gets type i: r_info's lowest byte, big-endian.
      const is64 = target === ppcTargets.v1;
      const view = new DataView(bytes.buffer);
      const sections = is64 ? Number(view.getBigUint64(40)) : view.getUint32(32);
      for (let i = 0; i < view.getUint16(is64 ? 60 : 48); i++) {
        const header = sections + i * (is64 ? 64 : 40);
        if (view.getUint32(header + 4) !== 4) continue;
        const at = is64 ? Number(view.getBigUint64(header + 24)) : view.getUint32(header + 16);
        for (let type = 0; type < 256; type++) bytes[at + type * (is64 ? 24 : 12) + (is64 ? 15 : 7)] = type;
      }
      const text = inFolder((path) => {
        writeFileSync(path('a.o'), bytes);
        return run('readelf', ['-rW', path('a.o')]).toString();
      });
      const names = text
        .split('\n')
        .filter((line) => /^0+[0-9a-f]* /.test(line))
        .map((line) => line.split(/\s+/)[2]!);
      expect(names).toHaveLength(256);
      const ours = names.map(
        (name, type) => target.arch.relocations.get(type)?.name ?? (/^unrec/.test(name) ? name : ''),
      );
      expect(ours).toEqual(names);
    },
  );
});

const ASM32 = `
 .text
 .globl _start,f,g
_start: nop
f: bl g
 b g
 beq g
 lis 3,data@ha
 addi 3,3,data@l
 lis 4,data@h
 ori 4,4,data@l
 lwz 5,data@l(3)
 .space 0x7000
g: bl f
 blr
 .data
 .globl data
 .space 0x8ffc
data: .long f, data+4, g-.
 .short small
 .globl small
 .set small,0x1230
`;

const ASM64 = `
 .text
 .globl _start
_start: nop
f: bl g
 nop
 beq g
 addis 3,2,data@toc@ha
 addi 3,3,data@toc@l
 ld 4,data@toc@l(3)
 lis 5,data@highest
 ori 5,5,data@higher
 lis 6,data@highesta
 addi 6,6,data@highera
 lis 5,data@high
 ori 5,5,data@l
 lis 7,data@higha
 addis 8,12,(data-f)@ha
 addi 8,8,(data-f)@l
 .section .text2,"ax"
g: bl f
 b f
 blr
 .data
 .globl data
 .space 0x8000
data: .quad f, data+4, g-., .TOC.@tocbase
 .long g-.
 .section .got,"aw"
 .quad 0
`;

describeWith(
  ['powerpc-linux-gnu-ld', 'powerpc64-linux-gnu-ld', 'powerpc64le-linux-gnu-ld'],
  'relocations against ld',
  () => {
    const linked = (target: PpcTarget, object: Uint8Array, flags: readonly string[] = []): Uint8Array =>
      linkWith(target, [object], ['-e', '_start', '--no-toc-optimize', ...flags]);

    test('ppc32: assembled object', () => {
      const object = assembleWith(ppcTargets.ppc32, ASM32);
      const result = compareRelocations(
        ppc32,
        object,
        linkWith(ppcTargets.ppc32, [object], ['-e', '_start', '-Ttext=0x10018000', '-Tdata=0x1012a000']),
      );
      expect(result.differences).toEqual([]);
      expect(Object.keys(result.compared).sort()).toEqual([
        'R_PPC_ADDR16',
        'R_PPC_ADDR16_HA',
        'R_PPC_ADDR16_HI',
        'R_PPC_ADDR16_LO',
        'R_PPC_ADDR32',
        'R_PPC_REL14',
        'R_PPC_REL24',
        'R_PPC_REL32',
      ]);
    });

    test.each([
      ['ELFv1', ppcTargets.v1],
      ['ELFv2 LE', ppcTargets.v2le],
    ] as const)('ppc64 %s: assembled object', (name, target) => {
      const source = name === 'ELFv1' ? ASM64 : `.abiversion 2\n${ASM64}`;
      const object = assembleWith(target, source);
      const out = linked(target, object, [
        '-Ttext=0x10018000',
        '-Tdata=0x1012a000',
        '--section-start=.got=0x10230000',
        '--section-start=.text2=0x1001c000',
      ]);
      const result = compareRelocations(target.arch, object, out, { toc: 0x1023_8000n });
      expect(result.differences).toEqual([]);
      for (const type of ['REL24', 'REL14', 'TOC16_HA', 'TOC16_LO', 'TOC16_LO_DS', 'ADDR64', 'REL64', 'TOC', 'REL32']) {
        expect(Object.keys(result.compared)).toContain(`R_PPC64_${type}`);
      }
      for (const type of ['HIGHEST', 'HIGHER', 'HIGHESTA', 'HIGHERA', 'HIGH', 'HIGHA']) {
        expect(Object.keys(result.compared)).toContain(`R_PPC64_ADDR16_${type}`);
      }
    });

    test.each([
      ['ppc32', ppcTargets.ppc32],
      ['ELFv1', ppcTargets.v1],
      ['ELFv2 BE', ppcTargets.v2be],
      ['ELFv2 LE', ppcTargets.v2le],
    ] as const)('%s: compiled C, local entries and descriptors included', (name, target) => {
      const source = `
asm(".section .got,\\"aw\\"; .p2align 8; .long 0, 0; .previous");
int table[3]; int shared = 5; const char *text = "words";
__attribute__((noinline)) int add(int a) { shared += a; return shared; }
__attribute__((noinline)) int twice(int a) { return add(a) + add(table[a]); }
int (*pointer)(int) = twice;
void _start(void) { pointer(twice(2)); }
`;
      const object = compileWith(target, 'gcc', ['-O1'], source);
      const emulation = name === 'ELFv2 BE' ? ['-melf64ppc'] : [];
      const flags = name === 'ppc32' ? ['-e', '_start'] : ['-e', '_start', '--no-toc-optimize', ...emulation];
      const out = linkWith(target, [object], flags);
      // The TOC pointer of ELFv2 code is set by the linker (REL16 of .TOC.), which non-PIC links
      // rewrite to lis/addi.
      const skip = new Set([252, 250]);
      const toc = tocOf(out, name);
      const result = compareRelocations(target.arch, object, out, toc === undefined ? { skip } : { skip, toc });
      expect(result.differences).toEqual([]);
      expect(Object.values(result.compared).reduce((sum, n) => sum + n, 0)).toBeGreaterThan(10);
    });
  },
);

/** `.TOC.` = .got + 0x8000 by the ABI, from the section headers as readelf prints them. */
function tocOf(bytes: Uint8Array, name: string): bigint | undefined {
  if (name === 'ppc32') return undefined;
  const text = inFolder((path) => {
    writeFileSync(path('out'), bytes);
    return run('readelf', ['-SW', path('out')]).toString();
  });
  const match = /\.got\s+PROGBITS\s+([0-9a-f]+)/.exec(text) ?? /\.toc\s+PROGBITS\s+([0-9a-f]+)/.exec(text);
  return match ? BigInt(`0x${match[1]}`) + 0x8000n : undefined;
}

test('ELFv2 little-endian halves stand at the lower address of the word', () => {
  const row = rowOf(ppc64ElfV2Le, 'R_PPC64_TOC16_LO');
  const bytes = fromWords([0x3863_0000], 'little');
  applyRelocation(row, bytes, 0, 0x1234n, { data: 'little', code: 'little' });
  expect(bytes).toEqual(fromWords([0x3863_1234], 'little'));
});
