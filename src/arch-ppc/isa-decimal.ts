/**
 * Decimal floating point, which came with POWER6: rows as those of `isa.ts`. Each operation is for
 * numbers of 64 bits and, with a `q`, of 128, which lie in pairs of registers.
 *
 * Source: Power ISA 3.0B, Book I, chapter 5.
 */
import { row } from '../isa/table.js';
import type { RowSpec } from '../isa/table.js';

const only = { decodeOnly: true } as const;
const binary = (value: number, width: number): string => value.toString(2).padStart(width, '0');

interface Form {
  readonly fields: string;
  readonly syntax: string;
  /** Bits of the extended opcode. */
  readonly bits: 8 | 9 | 10;
  readonly last: 'rc' | '0';
}

const THREE: Form = { fields: 'frt fra frb', syntax: 'frt,fra,frb', bits: 10, last: 'rc' };
const TWO: Form = { fields: 'frt 00000 frb', syntax: 'frt,frb', bits: 10, last: 'rc' };
const COMPARE: Form = { fields: 'bf 00 fra frb', syntax: 'bf,fra,frb', bits: 10, last: '0' };
const TEST: Form = { fields: 'bf 00 fra dcm', syntax: 'bf,fra,dcm', bits: 9, last: '0' };
const SHIFT: Form = { fields: 'frt fra sh6', syntax: 'frt,fra,sh6', bits: 9, last: 'rc' };
const QUANTUM: Form = { fields: 'frt fra frb rm', syntax: 'frt,fra,frb,rm', bits: 8, last: 'rc' };

/** Names, extended opcodes and forms; what of the quad form is no pair. */
const ROWS: readonly (readonly [name: string, opcode: number, form: Form, single?: string])[] = [
  ['dadd', 2, THREE],
  ['dmul', 34, THREE],
  ['dsub', 514, THREE],
  ['ddiv', 546, THREE],
  ['diex', 866, THREE, 'fra'],
  ['dctfix', 290, TWO, 'frt'],
  ['dcffix', 802, TWO, 'frb'],
  ['dxex', 354, TWO, 'frt'],
  ['dcmpo', 130, COMPARE],
  ['dcmpu', 642, COMPARE],
  ['dtstex', 162, COMPARE],
  ['dtstsf', 674, COMPARE, 'fra'],
  ['dtstsfi', 675, { fields: 'bf 0 dcm frb', syntax: 'bf,dcm,frb', bits: 10, last: '0' }],
  ['dtstdc', 194, TEST],
  ['dtstdg', 226, TEST],
  ['dscli', 66, SHIFT],
  ['dscri', 98, SHIFT],
  ['dqua', 3, QUANTUM],
  ['drrnd', 35, QUANTUM, 'fra'],
  ['dquai', 67, { fields: 'frt sim frb rm', syntax: 'sim,frt,frb,rm', bits: 8, last: 'rc' }],
  ['drintx', 99, { fields: 'frt 0000 r frb rm', syntax: 'r,frt,frb,rm', bits: 8, last: 'rc' }],
  ['drintn', 227, { fields: 'frt 0000 r frb rm', syntax: 'r,frt,frb,rm', bits: 8, last: 'rc' }],
  ['ddedpd', 322, { fields: 'frt l2 000 frb', syntax: 'l2,frt,frb', bits: 10, last: 'rc' }],
  ['denbcd', 834, { fields: 'frt l 0000 frb', syntax: 'l,frt,frb', bits: 10, last: 'rc' }],
];

const made = (name: string, primary: 59 | 63, opcode: number, { fields, syntax, bits, last }: Form): RowSpec =>
  row(name, `${binary(primary, 6)} ${fields} ${binary(opcode, bits)} ${last}`, syntax, only);

/** The form of 128 bits: registers are the first of two, with an even number. */
function pairs(form: Form, single = ''): Form {
  const isPair = (name: string): boolean => /^fr[abt]$/.test(name) && name !== single;
  const paired = (text: string, separator: string, rest: string): string =>
    text
      .split(separator)
      .map((each) => (isPair(each) ? `${each}p${rest}` : each))
      .join(separator);
  return { ...form, fields: paired(form.fields, ' ', ' 0'), syntax: paired(form.syntax, ',', '') };
}

export const rowsDecimal: readonly RowSpec[] = [
  ...ROWS.flatMap(([name, opcode, form, single]) => [
    made(name, 59, opcode, form),
    made(`${name}q`, 63, opcode, pairs(form, single)),
  ]),
  // Conversions between the sizes.
  made('dctdp', 59, 258, TWO),
  made('drsp', 59, 770, TWO),
  made('dctqpq', 63, 258, pairs(TWO, 'frb')),
  made('drdpq', 63, 770, pairs(TWO)),
];
