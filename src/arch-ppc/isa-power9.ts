/**
 * The instructions of vectors, VSX and numbers of 128 bits that came with POWER9, and what else it
 * has for programs: rows as those of `isa.ts`.
 *
 * Several share an extended opcode and differ in the place of the first operand, which has a number
 * there: `000100 vrt 00110 vrb …` is `vnegw`.
 *
 * Source: Power ISA 3.0B, Book I, chapters 6 and 7.
 */
import { row } from '../isa/table.js';
import type { RowSpec } from '../isa/table.js';

const only = { decodeOnly: true } as const;
const binary = (value: number, width: number): string => value.toString(2).padStart(width, '0');

type Rows = readonly (readonly [name: string, opcode: number])[];

/** VX-form, three vectors. */
const VECTOR3: Rows = [['vrldmi', 197], ['vrldnm', 453], ['bcdcpsgn.', 833], ['bcdus.', 1153], ['bcdutrunc.', 1345]]; // prettier-ignore
/** With a bit for the preferred sign. */
const DECIMAL3: Rows = [
  ['bcds.', 0b011000001],
  ['bcdtrunc.', 0b100000001],
  ['bcdsr.', 0b111000001],
];
/** Decimal numbers, by what stands in place of the first operand, with that bit and without. */
const DECIMAL1: Rows = [
  ['bcdcfsq.', 2],
  ['bcdctz.', 4],
  ['bcdcfz.', 6],
  ['bcdcfn.', 7],
  ['bcdsetsgn.', 31],
];
const DECIMAL_PLAIN: Rows = [
  ['bcdctsq.', 0],
  ['bcdctn.', 5],
];
const VECTOR1: Rows = [
  ['vnegw', 6], ['vnegd', 7], ['vprtybw', 8], ['vprtybd', 9], ['vprtybq', 10], ['vextsb2w', 16], ['vextsh2w', 17],
  ['vextsb2d', 24], ['vextsh2d', 25], ['vextsw2d', 26], ['vctzb', 28], ['vctzh', 29], ['vctzw', 30], ['vctzd', 31],
]; // prettier-ignore
const PLACED: Rows = [
  ['vextractub', 525], ['vextractuh', 589], ['vextractuw', 653], ['vextractd', 717],
  ['vinsertb', 781], ['vinserth', 845], ['vinsertw', 909], ['vinsertd', 973],
]; // prettier-ignore
const INDEXED: Rows = [
  ['vextublx', 1549], ['vextuhlx', 1613], ['vextuwlx', 1677], ['vextubrx', 1805], ['vextuhrx', 1869], ['vextuwrx', 1933],
]; // prettier-ignore
const COMPARE: Rows = [
  ['vcmpnezb', 263],
  ['vcmpnezh', 327],
  ['vcmpnezw', 391],
];

/** XX2-form by the same place. */
const XX2: Rows = [
  ['xvxexpdp', 0], ['xvxsigdp', 1], ['xxbrh', 7], ['xvxexpsp', 8], ['xvxsigsp', 9], ['xxbrw', 15], ['xxbrd', 23],
  ['xvcvhpsp', 24], ['xvcvsphp', 25], ['xxbrq', 31],
]; // prettier-ignore
/** Quad precision, X-form by the same place: signs and parts, and conversions. */
const QUAD1: Rows = [
  ['xsabsqp', 0],
  ['xsxexpqp', 2],
  ['xsnabsqp', 8],
  ['xsnegqp', 16],
  ['xsxsigqp', 18],
];
const CONVERSIONS: Rows = [
  ['xscvqpuwz', 1], ['xscvudqp', 2], ['xscvqpswz', 9], ['xscvsdqp', 10], ['xscvqpudz', 17], ['xscvdpqp', 22], ['xscvqpsdz', 25],
]; // prettier-ignore

const rowsVector: readonly RowSpec[] = [
  ...VECTOR3.map(([name, xo]) => row(name, `000100 vrt vra vrb ${binary(xo, 11)}`, 'vrt,vra,vrb', only)),
  ...DECIMAL3.map(([name, xo]) => row(name, `000100 vrt vra vrb 1 ps ${binary(xo, 9)}`, 'vrt,vra,vrb,ps', only)),
  ...DECIMAL1.map(([name, at]) => row(name, `000100 vrt ${binary(at, 5)} vrb 1 ps 110000001`, 'vrt,vrb,ps', only)),
  ...DECIMAL_PLAIN.map(([name, at]) => row(name, `000100 vrt ${binary(at, 5)} vrb 10110000001`, 'vrt,vrb', only)),
  ...VECTOR1.map(([name, at]) => row(name, `000100 vrt ${binary(at, 5)} vrb 11000000010`, 'vrt,vrb', only)),
  ...PLACED.map(([name, xo]) => row(name, `000100 vrt 0 uim4 vrb ${binary(xo, 11)}`, 'vrt,vrb,uim4', only)),
  ...INDEXED.map(([name, xo]) => row(name, `000100 rt ra vrb ${binary(xo, 11)}`, 'rt,ra,vrb', only)),
  ...COMPARE.map(([name, xo]) => row(name, `000100 vrt vra vrb rc ${binary(xo, 10)}`, 'vrt,vra,vrb', only)),
  row('vclzlsbb', '000100 rt 00000 vrb 11000000010', 'rt,vrb', only),
  row('vctzlsbb', '000100 rt 00001 vrb 11000000010', 'rt,vrb', only),
  row('vmul10cuq', '000100 vrt vra 00000 00000000001', 'vrt,vra', only),
  row('vmul10uq', '000100 vrt vra 00000 01000000001', 'vrt,vra', only),
  row('vmsumudm', '000100 vrt vra vrb vrc 100011', 'vrt,vra,vrb,vrc', only),
];

const rowsVsx: readonly RowSpec[] = [
  ...XX2.map(([name, at]) => row(name, `111100 xt[4:0] ${binary(at, 5)} xb[4:0] 111011011 xb[5] xt[5]`, 'xt,xb', only)),
  row('xscvhpdp', '111100 xt[4:0] 10000 xb[4:0] 101011011 xb[5] xt[5]', 'xt,xb', only),
  row('xscvdphp', '111100 xt[4:0] 10001 xb[4:0] 101011011 xb[5] xt[5]', 'xt,xb', only),
  row('xsxexpdp', '111100 rt 00000 xb[4:0] 101011011 xb[5] 0', 'rt,xb', only),
  row('xsxsigdp', '111100 rt 00001 xb[4:0] 101011011 xb[5] 0', 'rt,xb', only),
  row('xsiexpdp', '111100 xt[4:0] ra rb 1110010110 xt[5]', 'xt,ra,rb', only),
  row('xviexpsp', '111100 xt[4:0] xa[4:0] xb[4:0] 11011000 xa[5] xb[5] xt[5]', 'xt,xa,xb', only),
  row('xviexpdp', '111100 xt[4:0] xa[4:0] xb[4:0] 11111000 xa[5] xb[5] xt[5]', 'xt,xa,xb', only),
  row('xxextractuw', '111100 xt[4:0] 0 uim4 xb[4:0] 010100101 xb[5] xt[5]', 'xt,xb,uim4', only),
  row('xxinsertw', '111100 xt[4:0] 0 uim4 xb[4:0] 010110101 xb[5] xt[5]', 'xt,xb,uim4', only),
  row('xststdcdp', '111100 bf dcmx xb[4:0] 101101010 xb[5] 0', 'bf,xb,dcmx', only),
  row('xststdcsp', '111100 bf dcmx xb[4:0] 100101010 xb[5] 0', 'bf,xb,dcmx', only),
  row('xvtstdcdp', '111100 xt[4:0] dcmx[4:0] xb[4:0] 1111 dcmx[6] 101 dcmx[5] xb[5] xt[5]', 'xt,xb,dcmx', only),
  row('xvtstdcsp', '111100 xt[4:0] dcmx[4:0] xb[4:0] 1101 dcmx[6] 101 dcmx[5] xb[5] xt[5]', 'xt,xb,dcmx', only),
];

const rowsQuad: readonly RowSpec[] = [
  ...QUAD1.map(([name, at]) => row(name, `111111 vrt ${binary(at, 5)} vrb 1100100100 0`, 'vrt,vrb', only)),
  ...CONVERSIONS.map(([name, at]) => row(name, `111111 vrt ${binary(at, 5)} vrb 1101000100 0`, 'vrt,vrb', only)),
  row('xssqrtqp', '111111 vrt 11011 vrb 1100100100 ro', 'vrt,vrb', only),
  row('xscvqpdp', '111111 vrt 10100 vrb 1101000100 ro', 'vrt,vrb', only),
  row('xsiexpqp', '111111 vrt vra vrb 1101100100 0', 'vrt,vra,vrb', only),
  row('xscmpexpqp', '111111 bf 00 vra vrb 0010100100 0', 'bf,vra,vrb', only),
  row('xststdcqp', '111111 bf dcmx vrb 1011000100 0', 'bf,vrb,dcmx', only),
  row('xsrqpi', '111111 vrt 0000 r vrb rm 00000101 0', 'r,vrt,vrb,rm', only),
  row('xsrqpix', '111111 vrt 0000 r vrb rm 00000101 1', 'r,vrt,vrb,rm', only),
  row('xsrqpxp', '111111 vrt 0000 r vrb rm 00100101 0', 'r,vrt,vrb,rm', only),
];

/** Rows of POWER9, for 64-bit programs. */
export const rowsPower9: readonly RowSpec[] = [...rowsVector, ...rowsVsx, ...rowsQuad];
