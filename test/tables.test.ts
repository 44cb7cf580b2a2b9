/**
 * Where table values are (M-TAB-1, M-TAB-2; on kernels and of linkers): every place,
 * every machine.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { readTables, type SlotTable, type TableOptions } from '../src/sites/tables.js';
import { findSites } from '../src/sites/sites.js';
import { load } from '../src/program/program.js';
import { errorOf, openBytes, readSample } from './support/pipeline.js';
import { type Machine, machines, tableAddress, tableFile, textAddress } from './support/table-object.js';

function tables(bytes: Uint8Array, options: TableOptions = {}): SlotTable[] {
  const image = readElf(bytes);
  return readTables(load(image, archOf(image.header)), options);
}

const only = (found: readonly SlotTable[]): SlotTable => {
  expect(found).toHaveLength(1);
  return found[0]!;
};
const x86 = machines[0]!;
const wordOf = (machine: Machine): bigint => (machine.shape.is64 ? 8n : 4n);

describe.each(machines.map((machine) => [machine.name, machine] as const))('tables of %s', (_, machine) => {
  const word = wordOf(machine);

  test('M-TAB-1 M-TAB-2 relocatable: symbol + addend of the relocation, never the word under it', () => {
    const table = only(
      tables(
        tableFile({
          machine,
          type: 1,
          contents: [0n, 0x77n, 0n],
          rows: [
            { offset: 0n, symbol: 1, type: machine.word, addend: 0x20n },
            { offset: word, symbol: 2, type: machine.word, addend: 8n },
            { offset: 2n * word, symbol: 2, type: machine.word, addend: -4n },
          ],
        }),
      ),
    );
    expect([...table.value]).toEqual([0x20n, 24n, 12n]);
    expect([...table.section]).toEqual([1, 1, 1]);
    expect(table.origin).toBe('relocations');
    expect(table.zero).toBe(0);
    expect(table.sorted).toBe(false);
  });

  test('M-TAB-1 relocatable REL: the addend is the word in place', () => {
    const table = only(
      tables(
        tableFile({
          machine,
          type: 1,
          form: 'rel',
          contents: [0x30n, 8n],
          rows: [
            { offset: 0n, symbol: 1, type: machine.word },
            { offset: word, symbol: 2, type: machine.word },
          ],
        }),
      ),
    );
    expect([...table.value]).toEqual([0x30n, 24n]);
    expect([...table.section]).toEqual([1, 1]);
  });

  test('M-TAB-1 relocatable: rows in any order; a neutralised row is an empty slot', () => {
    const table = only(
      tables(
        tableFile({
          machine,
          type: 1,
          contents: [0n, 0n, 0n],
          rows: [
            { offset: 2n * word, symbol: 1, type: machine.word, addend: 4n },
            { offset: word, symbol: 0, type: 0, addend: 0n },
            { offset: 0n, symbol: 1, type: machine.word, addend: 8n },
          ],
        }),
      ),
    );
    expect([...table.value]).toEqual([8n, 0n, 4n]);
    expect([...table.section]).toEqual([1, -1, 1]);
    expect(table.zero).toBe(1);
  });

  test('M-TAB-2 linked: words in place; zero slots first', () => {
    for (const type of [2, 3] as const) {
      const table = only(tables(tableFile({ machine, type, contents: [0n, 0n, textAddress, textAddress + 16n] })));
      expect([...table.value]).toEqual([0n, 0n, textAddress, textAddress + 16n]);
      expect(table.zero).toBe(2);
      expect(table.origin).toBe('contents');
      expect(table.sorted).toBe(true);
      expect([...table.position].map((at) => at - table.position[0]!)).toEqual(
        [0, 1, 2, 3].map((i) => i * Number(word)),
      );
    }
  });

  test('M-TAB-2 linked: a zero word takes the addend of its RELATIVE relocation', () => {
    const table = only(
      tables(
        tableFile({
          machine,
          type: 3,
          dynamic: true,
          contents: [0n, 0n, 0n],
          rows: [
            { offset: tableAddress + 2n * word, symbol: 0, type: machine.relative, addend: textAddress + 4n },
            { offset: tableAddress, symbol: 0, type: machine.relative, addend: textAddress + 16n },
            // Another slot's, behind the table.
            { offset: tableAddress + 3n * word, symbol: 0, type: machine.relative, addend: 0x99n },
          ],
        }),
      ),
    );
    expect([...table.value]).toEqual([textAddress + 16n, 0n, textAddress + 4n]);
    expect(table.zero).toBe(1);
    expect(table.origin).toBe('relative');
  });

  test('M-TAB-2 linked: words win over RELATIVE addends where both are there', () => {
    const table = only(
      tables(
        tableFile({
          machine,
          type: 3,
          dynamic: true,
          contents: [textAddress, 0n],
          rows: [
            { offset: tableAddress, symbol: 0, type: machine.relative, addend: textAddress + 32n },
            { offset: tableAddress + word, symbol: 0, type: machine.relative, addend: textAddress + 16n },
          ],
        }),
      ),
    );
    expect([...table.value]).toEqual([textAddress, textAddress + 16n]);
    expect(table.origin).toBe('contents and relative');
  });

  test('M-TAB-2 RELR: the word in place is the value', () => {
    const table = only(
      tables(tableFile({ machine, type: 3, contents: [textAddress, textAddress + 16n], relr: [tableAddress, 3n] })),
    );
    expect([...table.value]).toEqual([textAddress, textAddress + 16n]);
    expect(table.zero).toBe(0);
  });

  test('M-TAB-2 relocations that a linker kept are stale after a sort: contents win', () => {
    const table = only(
      tables(
        tableFile({
          machine,
          type: 2,
          contents: [0n, textAddress, textAddress + 16n],
          rows: [
            { offset: tableAddress, symbol: 1, type: machine.word, addend: 0x30n },
            { offset: tableAddress + word, symbol: 1, type: machine.relative, addend: 0x20n },
          ],
        }),
      ),
    );
    expect([...table.value]).toEqual([0n, textAddress, textAddress + 16n]);
    expect(table.zero).toBe(1);
  });

  test('M-TAB-1 slots that cannot be slots are errors with their place', () => {
    const row = (offset: bigint, type: number): Uint8Array =>
      tableFile({ machine, type: 1, contents: [0n, 0n], rows: [{ offset, symbol: 1, type, addend: 0n }] });
    const wrongType = errorOf(() => tables(row(word, machine.word + 1)));
    expect([wrongType.code, wrongType.context.section, wrongType.context.offset]).toEqual([
      'elf-malformed',
      '__mcount_loc',
      word,
    ]);
    const offGrid = errorOf(() => tables(row(word + 1n, machine.word)));
    expect([offGrid.code, offGrid.context.offset]).toEqual(['elf-malformed', word + 1n]);
    const behind = errorOf(() => tables(row(2n * word, machine.word)));
    expect([behind.code, behind.context.offset]).toEqual(['elf-malformed', 2n * word]);
    for (const type of [1, 2] as const) {
      const size = errorOf(() => tables(tableFile({ machine, type, contents: [0n], extraBytes: 2 })));
      expect(size.code).toBe('elf-malformed');
      expect(size.message).toContain('__mcount_loc');
    }
  });

  test('M-TAB-1 two relocations on one slot: one of them is a mistake', () => {
    const error = errorOf(() =>
      tables(
        tableFile({
          machine,
          type: 1,
          contents: [0n],
          rows: [
            { offset: 0n, symbol: 1, type: machine.word, addend: 0n },
            { offset: 0n, symbol: 1, type: machine.word, addend: 16n },
          ],
        }),
      ),
    );
    expect([error.code, error.context.section, error.context.offset]).toEqual(['elf-malformed', '__mcount_loc', 0n]);
  });
});

describe('which sections are tables', () => {
  test('C-INIT-1 an empty slot is no site, and a symbol that is undefined names no code', () => {
    const bytes = tableFile({
      machine: x86,
      type: 1,
      contents: [0n, 0n],
      rows: [{ offset: 8n, symbol: 3, type: 1, addend: 0n }],
    });
    const { sites } = openBytes(bytes);
    expect([sites.state(0), sites.state(1)].sort()).toEqual(['outside', 'zero']);
    expect(sites.totals().total).toBe(1);
  });

  test('a slot with a word and no relocation in a relocatable file is remarked on', () => {
    const table = only(tables(tableFile({ machine: x86, type: 1, contents: [0x10n] })));
    expect(table.zero).toBe(1);
    expect(table.remarks.join()).toMatch(/slot 0 .*no relocation/);
  });

  test('-mfentry-section: a custom name is read instead of the known ones', () => {
    const bytes = tableFile({
      machine: x86,
      type: 1,
      name: 'my_table',
      contents: [0n],
      rows: [{ offset: 0n, symbol: 1, type: 1, addend: 4n }],
    });
    expect(tables(bytes)).toEqual([]);
    const table = only(tables(bytes, { tableSections: ['my_table'] }));
    expect([table.name, table.source, table.value[0]]).toEqual(['my_table', 'mcount-table', 4n]);
  });

  test('a custom name that the file does not have is an error, not another table', () => {
    const bytes = tableFile({ machine: x86, type: 2, contents: [textAddress] });
    const error = errorOf(() => tables(bytes, { tableSections: ['no_such_table'] }));
    expect(error.code).toBe('no-match');
    expect(error.message).toContain('no_such_table');
  });

  test('sh_link of a table decides nothing', () => {
    for (const link of [0, 2, 5]) {
      const bytes = tableFile({
        machine: x86,
        type: 1,
        link,
        name: '__patchable_function_entries',
        contents: [0n],
        rows: [{ offset: 0n, symbol: 1, type: 1, addend: 4n }],
      });
      expect(only(tables(bytes)).section[0]).toBe(1);
    }
  });

  test('several sections of one name are several tables (clang)', () => {
    const found = tables(readSample('x86-64/program-clang-patchable-5'));
    expect(found.length).toBeGreaterThan(0);
    const shape = x86.shape;
    const bytes = tableFile({
      machine: x86,
      type: 2,
      contents: [textAddress],
      more: [{ name: '__mcount_loc', type: 1, flags: 2, address: 0x30000n, contents: new Uint8Array(8) }],
    });
    expect(shape.is64).toBe(true);
    expect(tables(bytes).map((table) => [table.name, table.count, table.zero])).toEqual([
      ['__mcount_loc', 1, 0],
      ['__mcount_loc', 1, 1],
    ]);
  });

  test('x86-64 with both tables: __mcount_loc is ftrace, the other is call padding', () => {
    const { sites } = openBytes(readSample('x86-64/module-fentry-ibt.ko'));
    expect(sites.tables.map((table) => [table.name, table.count, table.role])).toEqual([
      ['__mcount_loc', 11, 'sites'],
      ['__patchable_function_entries', 11, 'padding'],
    ]);
    expect(sites.count).toBe(11);
  });

  test('sites of a linked file with RELR and its twin with RELATIVE are the same', () => {
    const plain = openBytes(readSample('x86-64/pie-patchable-5')).sites;
    const relr = openBytes(readSample('x86-64/pie-patchable-5-relr')).sites;
    const lld = openBytes(readSample('x86-64/pie-clang-patchable-5')).sites;
    expect([plain.count, relr.count, lld.count]).toEqual([19, 19, 19]);
    expect(lld.tables.map((table) => table.origin)).toEqual(['relative']);
    // The pad of the overridden weak function has no symbol to say where its call goes.
    expect([plain, relr, lld].map((sites) => sites.totals().byState)).toEqual(
      Array(3).fill({ compiled: 18, foreign: 1 }),
    );
  });
});

describe('the range between __start_mcount_loc and __stop_mcount_loc', () => {
  test.each([
    ['x86-64/core-fentry', 18, 'mcount-table', {}],
    ['ppc32/core-mcount', 18, 'mcount-table', {}],
    ['ppc64-elfv1/core-mcount', 18, 'mcount-table', {}],
    ['ppc64-elfv2-be/core-mprofile', 18, 'mcount-table', {}],
    ['ppc64-elfv2-le/core-mprofile', 18, 'mcount-table', {}],
    ['riscv64/core-patchable-4', 19, 'patchable-table', {}],
    ['arm64/core-patchable-2', 19, 'patchable-table', {}],
    // Without the symbol of the overridden weak function nothing tells =4,2 from four nops of =N:
    // that slot is not placed.
    ['arm64/core-patchable-4-2', 19, 'patchable-table', { compiled: 18, foreign: 1 }],
  ] as const)('M-TAB-1 %s', (name, count, source, states) => {
    const image = readElf(readSample(name));
    const sites = findSites(load(image, archOf(image.header)));
    expect(sites.sources).toEqual([source]);
    const table = only([...sites.tables]);
    expect([table.name, table.count - table.zero]).toEqual(['__start_mcount_loc', count]);
    expect(image.sections[table.container]?.name).toBe('.init.data');
    expect(sites.totals().byState).toEqual({ compiled: count, ...states });
  });

  test('a range that is none is an error that names the symbols', () => {
    const range = (start: bigint, stop: bigint): Uint8Array =>
      tableFile({
        machine: x86,
        type: 2,
        name: '.init.data',
        contents: [textAddress, textAddress + 16n],
        symbols: [
          { name: '__start_mcount_loc', value: start, section: 2 },
          { name: '__stop_mcount_loc', value: stop, section: 2 },
        ],
      });
    expect([...only(tables(range(tableAddress, tableAddress + 16n))).value]).toEqual([textAddress, textAddress + 16n]);
    expect(tables(range(tableAddress, tableAddress))).toEqual([]);
    for (const [start, stop] of [
      [tableAddress + 16n, tableAddress],
      [tableAddress, tableAddress + 0x10_0000n],
      [0x70000n, 0x70010n],
      [tableAddress, tableAddress + 12n],
    ] as const) {
      const error = errorOf(() => tables(range(start, stop)));
      expect([error.code, /mcount_loc/.test(error.message)]).toEqual(['elf-malformed', true]);
    }
  });
});
