/**
 * The instruction table itself: rows that contradict themselves are refused, and every row of every
 * table is a bijection.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { ElftraceError } from '../src/errors.js';
import { extractField, insertField, IsaTable, row } from '../src/isa/table.js';
import type { Alias, FieldSpec, Operands, Row, RowSpec } from '../src/isa/table.js';
import { times } from './support/long.js';

const FIELDS: Readonly<Record<string, FieldSpec>> = {
  rd: { kind: 'register', width: 5, prefix: 'x' },
  rs: { kind: 'register', width: 5, prefix: 'x' },
  imm: { kind: 'signed' },
  off: { kind: 'displacement' },
  bare: { kind: 'unsigned' },
  rc: { kind: 'suffix', suffix: '.' },
  biased: { kind: 'register', width: 3, prefix: 'x', bias: 8 },
};

function table(rows: readonly RowSpec[], aliases: readonly Alias[] = []): IsaTable {
  return new IsaTable({ name: 'test', fields: FIELDS, rows, aliases });
}

function codeOf(body: () => unknown): string {
  try {
    body();
  } catch (cause) {
    if (cause instanceof ElftraceError) return `${cause.code}: ${cause.message}`;
    throw cause;
  }
  return 'accepted';
}

describe('rows that contradict themselves', () => {
  const alone = (pattern: string, syntax: string): string => codeOf(() => table([row('op', pattern, syntax)]));

  test.each([
    ['widths', '0110 rd', 'rd', /add up to 9 bits/],
    ['a token that is none', '0112 rd', 'rd', /'0112' cannot be read/],
    ['an undeclared field', '0'.repeat(27) + ' rx', 'rx', /'rx' is not declared/],
    ['a field without width', '0'.repeat(31) + ' bare', 'bare', /no declared width/],
    ['an empty slice', '0'.repeat(29) + ' imm[0:2]', 'imm', /empty or too high/],
    ['a slice above bit 31', '0'.repeat(31) + ' imm[32]', 'imm', /empty or too high/],
    ['a bit given twice', '0'.repeat(28) + ' imm[3:2|2:1]', 'imm', /bit 2 of 'imm' is given twice/],
    ['a gap', '0'.repeat(29) + ' imm[4|2:1]', 'imm', /leave a gap/],
    ['a field that the syntax lacks', '0'.repeat(27) + ' rd', '', /'rd' is not in the syntax/],
    ['a syntax name that is no field', '0'.repeat(27) + ' rd', 'rd,rs', /names 'rs'/],
  ])('%s', (_, pattern, syntax, message) => {
    expect(alone(pattern, syntax)).toMatch(/^bad-row: /);
    expect(alone(pattern, syntax)).toMatch(message);
  });

  test('a mnemonic given twice', () => {
    const twice = [row('op', '0'.repeat(27) + ' rd', 'rd'), row('op', '1'.repeat(27) + ' rd', 'rd')];
    expect(codeOf(() => table(twice))).toMatch(/bad-row: .*given twice/);
  });

  test('rows that match the same word must say which wins', () => {
    const general = row('op', '0'.repeat(22) + ' rs rd', 'rd,rs');
    const special = '0'.repeat(27) + ' rd';
    expect(codeOf(() => table([general, row('special', special, 'rd')]))).toMatch(
      /op and special match the same words/,
    );
    expect(codeOf(() => table([general, row('special', special, 'rd', { over: ['op'] })]))).toBe('accepted');
    const excluding = row('op', '0'.repeat(22) + ' rs rd', 'rd,rs', { not: { rs: [0] } });
    expect(codeOf(() => table([excluding, row('special', special, 'rd')]))).toBe('accepted');
    const wrong = row('op', '0'.repeat(22) + ' rs rd', 'rd,rs', { not: { rs: [1] } });
    expect(codeOf(() => table([wrong, row('special', special, 'rd')]))).toMatch(/match the same words/);
  });

  test('a row that is over another must be the more specific one', () => {
    const general = row('op', '0'.repeat(22) + ' rs rd', 'rd,rs', { over: ['special'] });
    const special = row('special', '0'.repeat(27) + ' rd', 'rd');
    expect(codeOf(() => table([general, special]))).toMatch(/bad-row: .*op.*special/);
    expect(codeOf(() => table([row('op', '0'.repeat(27) + ' rd', 'rd', { over: ['gone'] })]))).toMatch(
      /bad-row: .*gone/,
    );
    // Among equally specific rows the one that says so wins.
    const left = row('left', '0'.repeat(22) + ' 00001 rd', 'rd', { over: ['right'] });
    const right = row('right', '0'.repeat(22) + ' rs 00001', 'rs');
    const both = table([right, left]);
    expect(both.decode(0b00001_00001)!.row.mnemonic).toBe('left');
    expect(both.decode(0b00010_00001)!.row.mnemonic).toBe('right');
  });

  test('aliases of unknown rows and with unknown fields', () => {
    const op = row('op', '0'.repeat(27) + ' rd', 'rd');
    const alias = (more: Partial<Alias>): string =>
      codeOf(() => table([op], [{ mnemonic: 'short', of: 'op', where: {}, syntax: 'rd', ...more }]));
    expect(alias({})).toBe('accepted');
    expect(alias({ of: 'gone' })).toMatch(/bad-row: .*no row 'gone'/);
    expect(alias({ where: { rs: 0 } })).toMatch(/bad-row: .*'rs'/);
    expect(alias({ syntax: 'rd,rs' })).toMatch(/bad-row: .*'rs'/);
    expect(alias({ syntax: "rd,'rs'" })).toBe('accepted');
  });

  test('`not` that names no field', () => {
    const bad = row('op', '0'.repeat(27) + ' rd', 'rd', { not: { rs: [0] } });
    expect(codeOf(() => table([bad]))).toMatch(/bad-row: .*'rs'/);
  });
});

describe('fields', () => {
  const one = table([
    row('op', '0000000 imm[11|4:1|10:5] imm[0] rd 1110111 rc', 'rd,imm'),
    row('jump', '01 off[20|10:1|11|19:12] 0000000000', 'off'),
    row('small', '1'.repeat(29) + ' biased', 'biased'),
  ]);

  test('signs, scattered slices, biases, suffixes', () => {
    for (const imm of [-2048, -1, 0, 1, 2047]) {
      const word = one.encode('op', { imm, rd: 3 });
      expect(one.decode(word)!.operands).toEqual({ imm, rd: 3, rc: 0 });
    }
    expect(one.format(one.decode(one.encode('op', { imm: -5, rd: 3, rc: 1 }))!, 0n)).toBe('op. x3,-5');
    expect(one.decode(one.encode('small', { biased: 15 }))!.operands).toEqual({ biased: 15 });
    expect(one.reach('jump')).toEqual({ min: -0x10_0000n, max: 0xf_fffen, alignBytes: 2 });
    expect(one.format(one.decode(one.encode('jump', { off: -4 }))!, 0x10n)).toBe('jump 0xc');
  });

  test.each([
    ['above', 'op', { imm: 2048, rd: 0 }],
    ['below', 'op', { imm: -2049, rd: 0 }],
    ['a fraction', 'op', { imm: 0.5, rd: 0 }],
    ['NaN', 'op', { imm: Number.NaN, rd: 0 }],
    ['a register too high', 'op', { imm: 0, rd: 32 }],
    ['a negative register', 'op', { imm: 0, rd: -1 }],
    ['an odd displacement', 'jump', { off: 3 }],
    ['a displacement past the end', 'jump', { off: 0x10_0000 }],
    ['below the bias', 'small', { biased: 7 }],
    ['above the bias', 'small', { biased: 16 }],
    ['a suffix of two', 'op', { imm: 0, rd: 0, rc: 2 }],
    ['a missing operand', 'op', { imm: 0 }],
    ['an operand too many', 'op', { imm: 0, rd: 0, rs: 0 }],
  ])('out of range: %s', (_, mnemonic, operands) => {
    expect(codeOf(() => one.encode(mnemonic, operands as Operands))).toMatch(/^operand-out-of-range: /);
  });

  test('names that the table does not have', () => {
    expect(codeOf(() => one.encode('gone', {}))).toMatch(/^unknown-instruction: /);
    expect(codeOf(() => one.field('op', 'rs'))).toMatch(/^bad-row: /);
    expect(codeOf(() => one.reach('op'))).toMatch(/^bad-row: /);
    expect(one.has('gone')).toBe(false);
  });
});

/** Ignored bits of a row (`...`): neither fixed nor in a field. */
function ignored(found: Row): number {
  let known = found.mask;
  for (const field of found.fields) {
    for (const { high, low, at } of field.slices) known |= (2 ** (high - low + 1) - 1) << at;
  }
  return (~known & (found.sizeBytes === 2 ? 0xffff : 0xffff_ffff)) >>> 0;
}

const TABLES = [
  ['ppc32', ppc32Table],
  ['ppc64', ppc64Table],
  ['riscv', riscvTable],
  ['arm64', arm64Table],
] as const;

describe.each(TABLES)('every row of %s', (_, each) => {
  const parameters = { seed: 7, numRuns: times(20, 20, 5) };

  test('no two rows match one word without saying so, all aliases fit', () => {
    expect(codeOf(() => each.check())).toBe('accepted');
  });

  test('decode and encode are inverses; what does not fit is refused', () => {
    for (const found of each.rows) {
      const size = found.sizeBytes;
      const free = ignored(found);
      fc.assert(
        fc.property(fc.integer({ min: 0, max: 0xffff_ffff }), (random) => {
          const bits = size === 2 ? random & 0xffff : random;
          const word = ((bits & ~found.mask & ~free) | found.match) >>> 0;
          const decoded = each.decode(word, size);
          // Another row may have the word (over), or nobody (reserved operands).
          if (decoded === null || decoded.row !== found) return;
          expect(each.encode(found.mnemonic, decoded.operands)).toBe(word);
          // Ignored bits do not change what is decoded.
          expect(each.decode((word | (bits & free)) >>> 0, size)?.operands).toEqual(decoded.operands);
        }),
        parameters,
      );
      for (const field of found.fields) {
        const bias = field.spec.bias ?? 0;
        const max = bias + (field.signed ? 2 ** (field.widthBits - 1) : 2 ** field.widthBits);
        const min = bias + (field.signed ? -(2 ** (field.widthBits - 1)) : 0) - 1;
        for (const value of [max, min]) {
          expect(codeOf(() => insertField(field, found.match, value, found.mnemonic))).toMatch(/^operand-out-of-range/);
        }
        const step = 2 ** field.lowBit;
        for (const value of [min + 1, max - step]) {
          expect(extractField(field, insertField(field, found.match, value, found.mnemonic))).toBe(value);
        }
      }
    }
  });

  test('any word: decode never throws, gives one row, and that row encodes it again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffff_ffff }), fc.constantFrom(2 as const, 4 as const), (random, size) => {
        const word = size === 2 ? random & 0xffff : random;
        const decoded = each.decode(word, size);
        if (decoded === null) return;
        expect((word & decoded.row.mask) >>> 0).toBe(decoded.row.match);
        const free = ignored(decoded.row);
        expect(each.encode(decoded.row.mnemonic, decoded.operands)).toBe((word & ~free) >>> 0);
        expect(each.format(decoded, 0n)).not.toBe('');
        // Rows that also match by their fixed bits gave the word up: they are less specific, or
        // refuse the operands.
        for (const other of each.rows) {
          if (other === decoded.row || other.sizeBytes !== size || (word & other.mask) >>> 0 !== other.match) continue;
          const declared =
            decoded.row.attributes.over?.includes(other.mnemonic) === true ||
            other.attributes.over?.includes(decoded.row.mnemonic) === true ||
            other.attributes.not !== undefined ||
            other.attributes.when !== undefined;
          expect(`${other.mnemonic}: ${String(declared)}`).toBe(`${other.mnemonic}: true`);
        }
      }),
      { seed: 11, numRuns: times(3000, 1000) },
    );
  });

  test('every row has a word of its own', () => {
    const shadowed = each.rows.filter((found) => {
      let state = found.match ^ 0x9e37_79b9;
      for (let i = 0; i < 4000; i++) {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        const bits = found.sizeBytes === 2 ? (state >>> 16) & 0xffff : (state ^ (state >>> 15)) >>> 0;
        const word = ((bits & ~found.mask) | found.match) >>> 0;
        if (each.decode(word, found.sizeBytes)?.row === found) return false;
      }
      return true;
    });
    expect(shadowed.map((found) => found.mnemonic)).toEqual([]);
  });
});
