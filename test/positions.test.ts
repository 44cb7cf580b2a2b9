/**
 * Positions in lists of different kinds: the compiler tells them apart. What must not compile is
 * marked, so that the type check fails where it does.
 */
import { expect, test } from '@jest/globals';
import type { SectionIndex, SiteIndex, SymbolIndex } from '../src/units.js';

test('a symbol is no section and a section no site; a plain number is taken for any', () => {
  const section = (at: SectionIndex): number => at;
  const site = (at: SiteIndex): number => at;
  const symbol: SymbolIndex = 3;
  const table: SectionIndex = 4;
  // @ts-expect-error a symbol is no section
  expect(section(symbol)).toBe(3);
  // @ts-expect-error a section is no site
  expect(site(table)).toBe(4);
  expect([section(table), section(-1), site(0)]).toEqual([4, -1, 0]);
});
