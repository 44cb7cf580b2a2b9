/** Relocations in the order of their places, and addends kept in place. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import * as C from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import {
  dynamicRelocationsSorted,
  inPlaceAddend,
  isDynamic,
  placeFileOffset,
  relocationsSorted,
  sortRelocations,
} from '../src/relocs/read.js';
import { ElftraceError } from '../src/errors.js';
import {
  ALL_SHAPES,
  buildElf,
  relocationRows,
  shapeName,
  words,
  type BuiltRelocation,
  type Shape,
} from './support/elf-builder.js';

const LITTLE64: Shape = { is64: true, endian: 'little' };

/** .data of 64 bytes with the words 0, -1, 2, -3, …, and relocation tables for it. */
function image(
  shape: Shape,
  tables: readonly { readonly form: 'rel' | 'rela'; readonly rows: readonly BuiltRelocation[] }[],
) {
  const size = shape.is64 ? 8 : 4;
  return readElf(
    buildElf({
      ...shape,
      type: C.ET_REL,
      sections: [
        {
          name: '.data',
          type: 1,
          flags: 3,
          contents: words(
            shape,
            Array.from({ length: 64 / size }, (_, i) => (i % 2 === 0 ? i : -i)),
          ),
        },
        ...tables.map(({ form, rows }) => ({
          name: `.${form}.data`,
          type: form === 'rel' ? C.SHT_REL : C.SHT_RELA,
          info: 1,
          entrySize: size * (form === 'rel' ? 2 : 3),
          contents: relocationRows(shape, form, rows),
        })),
      ],
    }),
  );
}

function place(offset: bigint, type = 1): BuiltRelocation {
  return { offset, symbol: 0, type };
}

describe('sorted relocations', () => {
  test('rows of several tables are merged; equal places keep file order', () => {
    const file = image(LITTLE64, [
      { form: 'rela', rows: [place(16n, 1), place(8n, 2), place(8n, 3)] },
      { form: 'rel', rows: [place(8n, 4), place(0n, 5), place(24n, 6)] },
    ]);
    const sorted = relocationsSorted(file, file.section('.data')!);
    const types = Array.from(sorted.row, (row, rank) => sorted.tables[sorted.table[rank]!]!.type[row]);
    expect([...sorted.offset]).toEqual([0n, 8n, 8n, 8n, 16n, 24n]);
    expect(types).toEqual([5, 2, 3, 4, 1, 6]);
    expect([0n, 1n, 8n, 9n, 25n].map(sorted.from)).toEqual([0, 1, 1, 4, 6]);
    expect([0n, 1n, 8n, 24n, 25n].map(sorted.at)).toEqual([0, -1, 1, 5, -1]);
    expect(relocationsSorted(file, file.section('.rela.data')!).count).toBe(0);
  });

  test('any places come out in order, exactly, and each row once', () => {
    const rows = fc.array(fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), { maxLength: 50 });
    fc.assert(
      fc.property(rows, rows, (a, b) => {
        const file = image(LITTLE64, [
          { form: 'rela', rows: a.map((offset) => place(offset)) },
          { form: 'rela', rows: b.map((offset) => place(offset)) },
        ]);
        const sorted = sortRelocations(file.relocations);
        expect([...sorted.offset]).toEqual([...a, ...b].sort((x, y) => (x < y ? -1 : x > y ? 1 : 0)));
        const seen = new Set(Array.from(sorted.row, (row, rank) => `${sorted.table[rank]} ${row}`));
        expect(seen.size).toBe(a.length + b.length);
        for (let rank = 0; rank < sorted.count; rank++) {
          expect(sorted.tables[sorted.table[rank]!]!.offset[sorted.row[rank]!]).toBe(sorted.offset[rank]);
        }
      }),
      { seed: 3, numRuns: 100 },
    );
  });
});

describe.each(ALL_SHAPES.map((shape) => [shapeName(shape), shape] as const))('%s', (_name, shape) => {
  const size = shape.is64 ? 8n : 4n;

  test('REL addends are read in place, sign-extended', () => {
    const file = image(shape, [{ form: 'rel', rows: [place(0n), place(3n * size), place(60n)] }]);
    const [table] = file.relocations;
    expect(inPlaceAddend(file, table!, 0, shape.is64 ? 8 : 4)).toBe(0n);
    expect(inPlaceAddend(file, table!, 1, shape.is64 ? 8 : 4)).toBe(-3n);
    expect(placeFileOffset(file, table!, 1)).toBe(file.section('.data')!.offset + 3 * Number(size));
    const [a, b] = file.contents(file.section('.data')!).slice(60, 62);
    const half = shape.endian === 'little' ? b! * 256 + a! : a! * 256 + b!;
    expect(inPlaceAddend(file, table!, 2, 2)).toBe(BigInt.asIntN(16, BigInt(half)));
  });

  test('places outside their section', () => {
    const file = image(shape, [{ form: 'rel', rows: [place(64n), place(63n)] }]);
    const [table] = file.relocations;
    expect(() => placeFileOffset(file, table!, 0)).toThrow(ElftraceError);
    expect(placeFileOffset(file, table!, 1)).toBeGreaterThan(0);
  });

  test('M-TAB-2 RELR rows of a linked file: dynamic, RELATIVE of the machine, addend in place', () => {
    const file = readElf(
      buildElf({
        ...shape,
        type: C.ET_DYN,
        sections: [
          {
            name: '.relr.dyn',
            type: C.SHT_RELR,
            flags: 2,
            entrySize: Number(size),
            contents: words(shape, [0x1000n, 0b11n]),
          },
          { name: '.data', type: 1, flags: 3, address: 0x1000n, contents: words(shape, [0x1234, 0x5678, 0x9abc]) },
        ],
        segments: [{ type: C.PT_LOAD, section: 2 }],
      }),
    );
    const [table] = file.relocations;
    expect(isDynamic(file, table!)).toBe(true);
    const sorted = dynamicRelocationsSorted(file);
    expect([...sorted.offset]).toEqual([0x1000n, 0x1000n + size]);
    expect([0, 1].map((row) => inPlaceAddend(file, table!, row, shape.is64 ? 8 : 4))).toEqual([0x1234n, 0x5678n]);
    expect([...table!.type]).toEqual([C.RELR_RELATIVE, C.RELR_RELATIVE]);
  });
});
