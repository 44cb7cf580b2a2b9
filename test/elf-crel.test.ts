/**
 * Compact relocations (SHT_CREL): every object among the samples is read with its RELA tables
 * written as compact ones; tables, sites, verdicts and loading must not see a difference.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ByteView } from '../src/bytes.js';
import { readCrel } from '../src/elf/crel.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { verify } from '../src/sites/verdicts.js';
import { SHT_CREL } from '../src/elf/constants.js';
import { hash } from '../src/cli/hash.js';
import { applyPlan } from '../src/patch/apply.js';
import { unpatched } from '../src/patch/undo.js';
import { planSites } from '../src/patch/plan-sites.js';
import { recordTable } from '../src/patch/record-table.js';
import { repairTables } from '../src/patch/repair-table.js';
import { planUntrace } from '../src/patch/untrace.js';
import { packCrel, withCrel } from './support/crel.js';
import { builtSamples, openBytes, planNop, sameBytes } from './support/pipeline.js';

const objects = readdirSync(builtSamples, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(ko|o)$/.test(name))
  .map((name) => ({ name, bytes: new Uint8Array(readFileSync(join(builtSamples, name))) }))
  .map((each) => ({ ...each, compact: withCrel(each.bytes) }))
  .filter((each): each is typeof each & { compact: Uint8Array } => each.compact !== null);

const source = (bytes: Uint8Array, is64 = true): Parameters<typeof readCrel>[0] => ({
  view: new ByteView(bytes, 'little', 'rows'),
  is64,
  form: 'crel',
  section: 1,
  target: 2,
  what: 'rows',
  offset: 0,
  sizeBytes: bytes.length,
  symbols: null,
});

describe('rows', () => {
  test('any rows, with addends and without, are what was written', () => {
    const row = fc.record({
      offset: fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
      symbol: fc.nat(0x7fff_ffff),
      type: fc.nat(0x7fff_ffff),
      addend: fc.bigInt({ min: -(1n << 62n), max: 1n << 62n }),
    });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 40 }), fc.boolean(), (rows, addends) => {
        const columns = readCrel(source(packCrel(rows, addends)));
        expect([...columns.offset]).toEqual(rows.map(({ offset }) => offset));
        expect([...columns.symbol]).toEqual(rows.map(({ symbol }) => symbol));
        expect([...columns.type]).toEqual(rows.map(({ type }) => type));
        expect([...columns.addend]).toEqual(rows.map(({ addend }) => (addends ? addend : 0n)));
      }),
    );
  });

  test('more rows than bytes, cut rows and numbers without an end are errors', () => {
    const code = (bytes: readonly number[]): string => {
      try {
        readCrel(source(Uint8Array.from(bytes)));
        return 'read';
      } catch (error) {
        return error instanceof ElftraceError ? error.code : String(error);
      }
    };
    expect(code([])).toBe('elf-truncated');
    expect(code([0xfc, 0xff, 0xff, 0xff, 0x0f, 1])).toBe('elf-malformed');
    expect(code([0x0c, 0x01])).toBe('elf-truncated');
    expect(code([0x0c, 0x01, ...Array.from({ length: 20 }, () => 0xff)])).toBe('elf-malformed');
    const whole = packCrel([{ offset: 300n, symbol: 70, type: 4, addend: -4n }], true);
    for (let size = 0; size < whole.length; size++) expect(code([...whole.slice(0, size)])).toMatch(/^elf-/);
  });
});

describe('objects', () => {
  test('tables are those of the RELA original, for every target', () => {
    const targets = new Set(objects.map(({ name }) => name.split('/')[0]));
    expect(targets.size).toBe(9);
    for (const { name, bytes, compact } of objects) {
      const columns = (file: Uint8Array): unknown =>
        readElf(file).relocations.map(({ section, target, addends, offset, type, symbol, addend }) => ({
          ...{ section, target, addends, offset, type, symbol, addend },
        }));
      expect([name, columns(compact)]).toEqual([name, columns(bytes)]);
    }
  });

  test('sites and verdicts are those of the RELA original', () => {
    for (const { name, bytes, compact } of objects) {
      const judged = (file: Uint8Array): unknown => {
        const { sites } = openBytes(file);
        return [sites.count, verify(sites).verdicts, [...sites.anchor]];
      };
      expect([name, judged(compact)]).toEqual([name, judged(bytes)]);
    }
  });

  test('calls whose rows would have to change are refused, with the reason', () => {
    let refused = 0;
    for (const { name, compact } of objects) {
      const plan = planNop(openBytes(compact).sites);
      expect([name, plan.steps.filter(({ kind }) => kind === 'reloc')]).toEqual([name, []]);
      for (const { code, reason } of plan.refusals) {
        if (code !== 'packed-relocations') continue;
        expect(reason).toContain('SHT_CREL');
        refused++;
      }
    }
    expect(refused).toBeGreaterThan(100);
  });

  test('every writer keeps the rows byte for byte, or says that it does not write them', () => {
    /** Bytes of the compact sections, by number; those of tables that went as a whole aside. */
    const rowsOf = (file: Uint8Array, gone: ReadonlySet<number> = new Set()): unknown => {
      const image = readElf(file);
      const compact = image.sections.filter(({ type, index }) => type === SHT_CREL && !gone.has(index));
      return compact.map((each) => [each.index, [...image.contents(each)]]);
    };
    /** Sections that are there no more. */
    const goneFrom = (before: Uint8Array, after: Uint8Array): Set<number> => {
      const now = readElf(after).sections;
      const { sections } = readElf(before);
      return new Set(
        sections.filter(({ index, type }) => type !== 0 && now[index]?.type === 0).map(({ index }) => index),
      );
    };
    const written = { init: 0, untrace: 0, mcount: 0, repair: 0, revert: 0 };
    const refused = { untrace: 0, mcount: 0, repair: 0 };
    for (const { name, compact } of objects) {
      const { image, program, sites } = openBytes(compact);
      const keep = (writer: keyof typeof written, bytes: Uint8Array): void => {
        expect([name, writer, rowsOf(bytes)]).toEqual([name, writer, rowsOf(compact, goneFrom(compact, bytes))]);
        written[writer]++;
      };
      const attempt = (writer: keyof typeof refused, work: () => Uint8Array): void => {
        try {
          keep(writer, work());
        } catch (error) {
          if (!(error instanceof ElftraceError)) throw error;
          expect([name, writer, error.code]).toEqual([
            name,
            writer,
            expect.stringMatching(/^unsupported-form|plan-refused/),
          ]);
          refused[writer]++;
        }
      };
      // Calls are refused, see above; nops of the compiler have no relocations.
      const plan = planSites(sites, { to: { kind: 'init' } });
      if (plan.changed > 0) {
        const patched = applyPlan(image, plan).bytes;
        keep('init', patched);
        const back = unpatched(readElf(patched), null, hash);
        expect([name, back.length, sameBytes(back, compact)]).toEqual([name, compact.length, true]);
        keep('revert', back);
      }
      attempt('mcount', () => recordTable(program).bytes);
      attempt('repair', () => repairTables(program).bytes);
      // All slots: the table goes, its rows with it. One of several: rows would have to change.
      for (const count of [sites.count, 1]) {
        attempt('untrace', () => {
          const selection = new Uint8Array(sites.count).fill(1, 0, count);
          return applyPlan(image, planUntrace(sites, { selection })).bytes;
        });
      }
    }
    expect(Math.min(...Object.values(written))).toBeGreaterThan(0);
    expect(refused.untrace).toBeGreaterThan(0);
  });
});
