/**
 * The rows of every table, checked against each other: programs load the tables deferred and skip
 * these checks.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { compileRow, extractField, IsaTable } from '../src/isa/table.js';

describe('instruction tables', () => {
  for (const table of [ppc32Table, ppc64Table, riscvTable, arm64Table]) {
    test(`${table.name}: every row compiles and no two match one word undeclared`, () => {
      expect(() => {
        table.check();
      }).not.toThrow();
      expect(table.rows.length).toBeGreaterThan(100);
    });

    test(`${table.name}: the numbers that the package brings along make the same rows, and find the row that trying all finds`, () => {
      const { spec } = table;
      // As text, which is how they are brought.
      const fresh = new IsaTable(spec, 'deferred', JSON.parse(JSON.stringify(table.data)));
      const compiled = spec.rows.map((each) => compileRow(each, spec.fields));
      expect(fresh.rows).toEqual(compiled);
      // Most specific first, as the rows are tried.
      const bits = ({ mask }: { mask: number }): number => mask.toString(2).replaceAll('0', '').length;
      const rank = (each: (typeof compiled)[number]): number => 2 * bits(each) + (each.attributes.over ? 1 : 0);
      const ordered = [...compiled].sort((a, b) => rank(b) - rank(a));
      fc.assert(
        fc.property(fc.nat({ max: compiled.length - 1 }), fc.nat({ max: 0xffff_ffff }), (number, noise) => {
          const { mask, match, sizeBytes } = compiled[number]!;
          const word = ((match | (noise & ~mask)) >>> 0) & (sizeBytes === 2 ? 0xffff : -1);
          const found = fresh.decode(word >>> 0, sizeBytes);
          const matching = ordered.filter(
            (each) => each.sizeBytes === sizeBytes && (word & each.mask) >>> 0 === each.match,
          );
          const wanted = matching.find((each) => {
            const operands = Object.fromEntries(each.fields.map((field) => [field.name, extractField(field, word)]));
            const { not, when } = each.attributes;
            const refused = Object.entries(not ?? {}).some(([name, values]) => values.includes(operands[name]!));
            return !refused && (when?.(operands) ?? true);
          });
          expect(found?.row.mnemonic).toBe(wanted?.mnemonic);
        }),
        { numRuns: 3000 },
      );
    });
  }
});
