/**
 * A64 instructions in batches, as `ppc-batch.ts` has it: programs made from the instruction rows,
 * run here and under qemu-aarch64, their results compared byte by byte; and the record of what was
 * executed, from which the coverage table is checked.
 *
 * For each **variant** (a row with chosen operands, in a short routine) and input the driver sets
 * x3 to x6, x9 (an address), x10 and NZCV, calls the routine and appends x3 to x7, x9, x10 and NZCV
 * to a buffer; where the routine uses memory it gets 256 fresh bytes around the end of a page and
 * appends them too. Vector registers q3 to q5 are set from the input and stored into that memory.
 *
 * Words come from the rows' encoder, which other tests compare with objdump and Keystone.
 */
import { arm64Emulation } from '../../src/arch-arm64/emulation.js';
import { arm64 } from '../../src/arch-arm64/index.js';
import { arm64Table, encodeBitmask } from '../../src/arch-arm64/isa.js';
import type { Operands, Row } from '../../src/isa/table.js';
import {
  buildProgram,
  check,
  CORNERS_64,
  encodeLines,
  encodes,
  floatCorners,
  HALF,
  MIDDLE,
  MIN_CASES,
  rowChecking,
  RowCoverage,
  RowPlanner,
  runHere,
  runQemu,
  thinned,
} from './batch.js';
import { FLOAT_SHAPES, hardTriple } from './hard-floats.js';
import { Random } from './random.js';
import type { BatchMachine, BatchResult, Item, Layout, RowInput, RowLine, RowVariant } from './batch.js';

export const ARM64_QEMU = 'qemu-aarch64';

export type A64Line = RowLine;

export const a64Words = (lines: readonly A64Line[]): Uint8Array => encodeLines(arm64Table, lines);

/** Rows that a program can execute. */
export const executableRows = (): Row[] => arm64Table.rows.filter((row) => row.attributes.decodeOnly !== true);

/** Rows that the batches cannot hold, and why; tests of their own execute them. */
export const UNIT_ONLY: ReadonlyMap<string, string> = new Map([
  ...['eret', 'eretaa', 'eretab', 'drps', 'hvc', 'smc', 'hlt', 'dcps1', 'dcps2', 'dcps3', 'udf', 'sysl'].map(
    (name) => [name, 'undefined at EL0'] as const,
  ),
  ...['msr-spsel', 'msr-daifset', 'msr-daifclr', 'msr-uao', 'msr-pan'].map(
    (name) => [name, 'undefined at EL0'] as const,
  ),
  ['msr-tco', 'undefined without FEAT_MTE, which qemu has'],
  ['brk', 'stops the program'],
]);

// ------------------------------------------------------------------------------------------ inputs

/** x3 to x6 (q3 is x3 and x4, q4 is x5 and x6), NZCV, x9 minus the middle of the memory, x10. */
const INPUT_FIELDS = ['x3', 'x4', 'x5', 'x6', 'nzcv', 'offset', 'x10'] as const;
export type Input = RowInput<(typeof INPUT_FIELDS)[number]>;

const CORNERS: readonly bigint[] = [...CORNERS_64, 0x80n, 0x7fn];

interface Inputs {
  readonly all: readonly Input[];
  /** Every corner with every corner, then random ones. */
  readonly pairs: readonly [first: number, count: number];
  /** Numbers of one width, special ones and random ones, in every element. */
  readonly numbers: Readonly<Record<16 | 32 | 64, readonly [first: number, count: number]>>;
}

function makeInputs(): Inputs {
  const random = new Random();
  const all: Input[] = [];
  const add = (a: bigint, b: bigint): void => {
    all.push({
      x3: random.wide(),
      x4: BigInt.asUintN(64, a),
      x5: BigInt.asUintN(64, b),
      x6: random.wide(),
      nzcv: BigInt(random.below(16)) << 28n,
      offset: BigInt(random.below(49) - 24),
      x10: BigInt(random.below(17) - 8),
    });
  };
  for (const a of CORNERS) for (const b of CORNERS) add(a, b);
  for (let i = 0; i < 80; i++) add(random.wide(), random.wide());
  const pairs = [0, all.length] as const;
  const numbers = (bits: 16 | 32 | 64): readonly [number, number] => {
    const first = all.length;
    for (let i = 0; i < 400; i++) {
      // Of hard ones, those of q4, q5 and q3 stand in x5, x4 and x3, and in x6, x5 and x4.
      const [x3, x4, x5, x6] =
        i % 2 === 0 ? hardElements(random, bits) : [0, 1, 2, 3].map(() => elementsOf(random, bits));
      all.push({ x3: x3!, x4: x4!, x5: x5!, x6: x6!, nzcv: BigInt(random.below(16)) << 28n, offset: 0n, x10: 0n });
    }
    return [first, all.length - first];
  };
  return { all, pairs, numbers: { 16: numbers(16), 32: numbers(32), 64: numbers(64) } };
}

/** 64 bits of hard cases each. */
function hardElements(random: Random, bits: 16 | 32 | 64): bigint[] {
  const out = [0n, 0n, 0n, 0n];
  for (let at = 0n; at < 64n; at += BigInt(bits)) {
    const [a, b, c] = hardTriple(random, FLOAT_SHAPES[bits]);
    [c, b, a, hardTriple(random, FLOAT_SHAPES[bits])[0]].forEach((each, i) => (out[i]! |= each << at));
  }
  return out;
}

const FLOAT_CORNERS = { 16: floatCorners(5, 10), 32: floatCorners(8, 23), 64: floatCorners(11, 52) } as const;

/** 64 bits of numbers: special ones, any, and some whose sums and products are neither. */
function elementsOf(random: Random, bits: 16 | 32 | 64): bigint {
  const corners = FLOAT_CORNERS[bits];
  const fractionBits = BigInt({ 16: 10, 32: 23, 64: 52 }[bits]);
  const one = corners[12]! >> fractionBits;
  let out = 0n;
  for (let at = 0; at < 64; at += bits) {
    const any = BigInt.asUintN(bits, random.wide());
    const near = (any & ((1n << fractionBits) - 1n)) | ((one + BigInt(random.below(5) - 2)) << fractionBits);
    const each = [corners[random.below(corners.length)]!, any, near, near | (any & (1n << BigInt(bits - 1)))];
    out |= each[random.below(each.length)]! << BigInt(at);
  }
  return out;
}

// ---------------------------------------------------------------------------------------- variants

/** What of a row a variant shows. */
export type Aspect =
  'distinct' | 'equal' | 'zero' | 'stack' | 'corners' | 'sf=0' | 'sf=1' | 'page-crossing' | 'window-crossing' | 'fault';

export type Variant = RowVariant<Input, Aspect>;

const has = (row: Row, name: string): boolean => row.fields.some((field) => field.name === name);

const isVectorRow = (row: Row): boolean =>
  row.fields.some((field) =>
    /^([fv][dnmat]|[bhsdq]t2?|b[dnm]|[hsd]d|v2d|v4s|v8h|e[dn]2?|high|ad|v[te]_\d|ve|vl[dnm]|vtable.*|vem|hv[nme]|vpair|vf[ln]|d[nm]|se|fl[dn]|vpd|q[dn]|sn|t[dnm]|y[dn])$/.test(
      field.name,
    ),
  );
/** Loads, stores and atomics; not prefetches. */
export const isMemoryRow = (row: Row): boolean =>
  (has(row, 'base') && !row.mnemonic.startsWith('prf')) || /^ldr.*-lit$/.test(row.mnemonic);
/** Computes with numbers; not the moves of their bits. */
const isFloatRow = (row: Row): boolean => /^(f(?!mov)|[su]cvtf|u(rec|rsqrt)pe|ursqrte)/.test(row.mnemonic);
/** Accesses that must be aligned. */
export const isAlignedRow = (row: Row): boolean =>
  /^(st|ld)(l?x|ax|l?lr|lar|ar|apr)|^cas|^swp|^ld(add|clr|eor|set|[su]max|[su]min)/.test(row.mnemonic);

/** Bytes of the access in a form with these operands. */
export function accessBytes(row: Row, operands: Operands): number {
  const { mnemonic } = row;
  const q = operands['q'] === 1 ? 16 : 8;
  const whole = /^(?:ld|st)[1-4]-(\d)/.exec(mnemonic);
  if (whole) return q * Number(whole[1]);
  const filling = /^ld(\d)r\b/.exec(mnemonic);
  if (filling) return Number(filling[1]) << (operands['size'] ?? 3);
  const single = /^(?:ld|st)(\d)-([bhsd])/.exec(mnemonic);
  if (single) return Number(single[1]) << 'bhsd'.indexOf(single[2]!);
  const pair = /^(ldp|stp|ldnp|stnp|ldxp|stxp|stlxp|ldaxp|casp|ldpsw)/.test(mnemonic) ? 2 : 1;
  if (mnemonic.startsWith('ldpsw')) return 8;
  const vector = /-f([bhsdq])/.exec(mnemonic);
  if (vector) return pair * { b: 1, h: 2, s: 4, d: 8, q: 16 }[vector[1]! as 'b' | 'h' | 's' | 'd' | 'q'];
  if (/^ldu?rsw|^ldtrsw/.test(mnemonic)) return 4;
  // The size letter stands at the end of the name, with its sign; atomics have it as their form.
  const [name, form] = mnemonic.split('-');
  if (/^(cas|swp|ld(add|clr|eor|set|[su]max|[su]min))/.test(name!)) {
    if (form === 'b') return 1;
    if (form === 'h') return 2;
    return pair * (operands['sf'] === 1 ? 8 : 4);
  }
  if (/rs?b$|rb$/.test(name!)) return 1;
  if (/rs?h$|rh$/.test(name!)) return 2;
  return pair * (form === 'x' || has(row, 'xt') ? 8 : 4);
}

const move = (xd: number, xm: number): A64Line => ['orr-reg', { sf: 1, shift: 0, rm: xm, amount: 0, rn: 31, rd: xd }];
const addi = (rdsp: number, rnsp: number, imm12: number): A64Line => ['add-imm', { sf: 1, sh: 0, imm12, rnsp, rdsp }];
const constant = (rd: number, value: number): A64Line[] => [
  ['movz', { sf: 1, hw: 0, imm16: value & 0xffff, rd }],
  ['movk', { sf: 1, hw: 1, imm16: (value >>> 16) & 0xffff, rd }],
];
const signedConstant = (rd: number, value: number): A64Line =>
  value >= 0 ? ['movz', { sf: 1, hw: 0, imm16: value, rd }] : ['movn', { sf: 1, hw: 0, imm16: ~value, rd }];
const andMask = (rd: number, rn: number, mask: bigint): A64Line => [
  'and-imm',
  { sf: 1, bitmask: encodeBitmask(mask, 64)!, rn, rdsp: rd },
];
const readFlags = (xt: number): A64Line => ['mrs', { sysreg: SYSREG.nzcv, xt }];
const writeFlags = (xt: number): A64Line => ['msr-reg', { sysreg: SYSREG.nzcv, xt }];
const loadQ = (qt: number, base: number, pimm: number): A64Line => ['ldr-fq-imm', { pimm, base, qt }];
const storeQ = (qt: number, base: number, pimm: number): A64Line => ['str-fq-imm', { pimm, base, qt }];

const register = (op1: number, n: number, m: number, op2: number): number =>
  (1 << 14) | (op1 << 11) | (n << 7) | (m << 3) | op2;
export const SYSREG = {
  nzcv: register(3, 4, 2, 0),
  fpcr: register(3, 4, 4, 0),
  fpsr: register(3, 4, 4, 1),
  tpidr: register(3, 13, 0, 2),
  dit: register(3, 4, 2, 5),
  ssbs: register(3, 4, 2, 6),
};

/** Vector registers out of and into memory around an instruction; `more`: q6 and q7 too. */
const withVectors = (lines: readonly A64Line[], more = false): A64Line[] => [
  loadQ(3, 28, 0),
  loadQ(4, 28, 16),
  loadQ(5, 22, 0),
  ...(more ? [loadQ(6, 22, 16), loadQ(7, 22, 32)] : []),
  ...lines,
  storeQ(3, 21, 80),
  storeQ(4, 21, 96),
  storeQ(5, 21, 112),
  ...(more ? [storeQ(6, 21, 48), storeQ(7, 21, 64)] : []),
];
/** Rows with more vector registers than `withVectors` has without `more`. */
const hasList = (row: Row): boolean => row.fields.some(({ name }) => /^v(t|e|table)_[34]$/.test(name));

const TARGETS = [
  'rd',
  'xd',
  'wd',
  'rdsp',
  'fd',
  'vd',
  'bd',
  'hd',
  'sd',
  'dd',
  'v2d',
  'v4s',
  'v8h',
  'ed',
  'rdq',
  'ad',
  'vld',
  'se',
  'fld',
  'vpd',
  'qd',
  'td',
  'yd',
  'dotd',
  'kd',
];
const SOURCES = [
  'rn', 'xn', 'wn', 'rnsp', 'xnsp', 'fn', 'vn', 'bn', 'en', 'en2', 'vw', 'rm', 'xm', 'wm', 'rmx', 'xmsp', 'fm', 'bm', 'ra', 'xa', 'high',
  'vln', 'vlm', 'vtable', 'vtable_2', 'vtable_3', 'vtable_4', 'vm', 'dn', 'dm', 'fln', 'vem', 'vpair', 'sn', 'qn', 'tn', 'yn', 'tm',
  'dote', 'kn', 'km', 'ym', 'ya',
]; // prettier-ignore

const QC_CLEARED: A64Line = ['msr-reg', { sysreg: SYSREG.fpsr, xt: 31 }];
const QC_READ: A64Line = ['mrs', { sysreg: SYSREG.fpsr, xt: 7 }];

/** To nearest first, the other modes, and those with AHP (26), DN (25), FZ (24) and FZ16 (19). */
const FLOAT_CONTROLS = [
  0, 0, 1 << 22, 2 << 22, 3 << 22, 1 << 24, 1 << 25, (1 << 24) | (3 << 22), 7 << 24, 1 << 26, 1 << 19, (1 << 19) | (2 << 22),
]; // prettier-ignore

/** Records of every kind before a condition is asked; null: in another block. */
const FLAG_HEADS: readonly (readonly A64Line[])[] = [
  [],
  ...[0, 1].flatMap((sf): A64Line[][] => [
    [['subs-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 31 }]],
    [['subs-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 7 }]],
    [['subs-imm', { sf, sh: 0, imm12: 0, rnsp: 4, rd: 31 }]],
    [['adds-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 31 }]],
    [['adds-imm', { sf, sh: 0, imm12: 1, rnsp: 4, rd: 7 }]],
    [['ands-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 31 }]],
    [['adcs', { sf, rm: 5, rn: 4, rd: 31 }]],
    [['sbcs', { sf, rm: 5, rn: 4, rd: 7 }]],
    [
      ['subs-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 31 }],
      ['ccmp-reg', { sf, rm: 6, cond: 1, rn: 4, nzcv: 5 }],
    ],
    [
      ['adds-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 31 }],
      ['ccmn-imm', { sf, imm5: 31, cond: 11, rn: 5, nzcv: 0 }],
      ['ccmp-imm', { sf, imm5: 0, cond: 8, rn: 4, nzcv: 10 }],
    ],
    [
      ['subs-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 31 }],
      ['ccmp-imm', { sf, imm5: 1, cond: 3, rn: 5, nzcv: 4 }],
      ['b', { off: 4 }],
    ],
    [
      ['subs-reg', { sf, shift: 0, rm: 5, amount: 0, rn: 4, rd: 31 }],
      ['b', { off: 4 }],
    ],
  ]),
  [['cfinv', {}]],
];

class Planner extends RowPlanner<Input, Aspect> {
  readonly inputs = makeInputs();

  constructor() {
    super();
    for (const row of executableRows()) this.plan(row);
  }

  /** Neighbours in the inputs have a corner in common: parts of them take each eleventh. */
  private part(count: number): number[] {
    return this.range(this.inputs.pairs, count, 11);
  }

  private addPart(row: string, lines: Variant['lines'], count: number, rest: Partial<Variant> = {}): void {
    this.add(row, lines, this.part(count), rest);
  }

  private plan(row: Row): void {
    const { mnemonic } = row;
    if (UNIT_ONLY.has(mnemonic)) return;
    if (row.flow !== 'next' && row.flow !== 'syscall') this.branch(row);
    else if (/^(pac|aut|xpac)/.test(mnemonic)) this.authentication(row);
    else if (['mrs', 'msr-reg', 'msr-dit', 'msr-ssbs', 'sys', 'svc'].includes(mnemonic)) this.system(row);
    else if (isMemoryRow(row)) this.memory(row);
    else if (isFloatRow(row)) this.float(row);
    else this.plain(row);
  }

  private immediate(row: Row, name: string, turn: number): number {
    const field = row.fields.find((each) => each.name === name)!;
    const step = 2 ** field.lowBit;
    const max = field.signed ? 2 ** (field.widthBits - 1) - step : 2 ** field.widthBits - step;
    const min = field.signed ? -(2 ** (field.widthBits - 1)) : 0;
    const middle = field.signed ? -step : 2 ** (field.widthBits - 1);
    const corners = [0, max, step, middle, min, max - step];
    return corners[turn] ?? this.random.below((max - min) / step + 1) * step + min;
  }

  // -------------------------------------------------------------------------------- registers only

  private plain(row: Row): void {
    const names = row.fields.map((field) => field.name);
    const target = TARGETS.find((name) => names.includes(name)) ?? null;
    const sources = SOURCES.filter((name) => names.includes(name));
    const others = names.filter((name) => name !== target && !sources.includes(name) && name !== 'sf');
    const vector = isVectorRow(row);
    const asksFlags = others.includes('cond') || /^(adc|sbc|cfinv|rmif|setf)/.test(row.mnemonic);
    const widths = names.includes('sf') ? [0, 1] : [null];
    const patterns: { registers: readonly number[]; aspect: Aspect | null }[] = [
      { registers: [3, 4, 5, 6], aspect: 'distinct' },
      { registers: [4, 4, 5, 6], aspect: 'equal' },
      { registers: [5, 4, 5, 6], aspect: 'equal' },
      { registers: [3, 4, 4, 6], aspect: 'equal' },
      { registers: [4, 4, 4, 4], aspect: 'equal' },
      ...(vector
        ? [{ registers: [5, 3, 4, 4], aspect: null }]
        : [
            { registers: [3, 31, 5, 6], aspect: 'zero' as const },
            { registers: [3, 4, 31, 6], aspect: 'zero' as const },
            { registers: [3, 4, 5, 31], aspect: null },
            { registers: [31, 4, 5, 6], aspect: 'zero' as const },
            { registers: [3, 31, 31, 31], aspect: null },
          ]),
    ];
    for (const sf of widths) {
      for (const [p, { registers, aspect }] of patterns.entries()) {
        const turns = others.length === 0 ? 1 : p === 0 ? (asksFlags ? 48 : 24) : asksFlags ? 12 : 5;
        for (let turn = 0; turn < turns; turn++) {
          const operands: Record<string, number> = sf === null ? {} : { sf };
          if (target !== null) operands[target] = registers[0]!;
          sources.forEach((name, i) => (operands[name] = registers[i + 1]!));
          let valid = false;
          for (let tries = 0; tries < 60 && !valid; tries++) {
            others.forEach(
              (name, i) => (operands[name] = this.immediate(row, name, tries === 0 ? (turn + 2 * i) % 8 : 99)),
            );
            if (others.includes('cond')) operands['cond'] = turn % 16;
            if (operands['n'] !== undefined && sf !== null) operands['n'] = sf;
            // The bit above a register of four bits is part of the element's number.
            if (names.includes('vem'))
              operands['vem'] = (operands['vem']! & 15) | (operands['size'] === 1 ? 16 * (turn % 2) : 0);
            valid = encodes(arm64Table, row, operands);
          }
          if (!valid) continue;
          const line: A64Line = [row.mnemonic, { ...operands }];
          const head = asksFlags ? FLAG_HEADS[(turn + p) % FLAG_HEADS.length]! : [];
          const stack = ['rdsp', 'rnsp'].some((name) => operands[name] === 31);
          let lines: A64Line[] = [...head, line];
          // The stack pointer is set and read; nothing goes through it.
          if (stack) lines = [addi(31, 4, 0), ...lines, addi(7, 31, 0), addi(31, 21, 0)];
          // FPSR.QC, from 0.
          if (/^(su|us|[su])q/.test(row.mnemonic)) lines = [QC_CLEARED, ...lines, QC_READ];
          if (vector) lines = withVectors(lines, hasList(row));
          const aspects: Aspect[] = [
            ...(aspect && !(aspect === 'zero' && stack) ? [aspect] : []),
            ...(stack ? (['stack'] as const) : []),
            ...(p === 0 ? (['corners'] as const) : []),
            ...(sf === null ? [] : [sf === 1 ? ('sf=1' as const) : ('sf=0' as const)]),
          ];
          const count = p === 0 && others.length === 0 ? this.inputs.all.length : p === 0 ? 40 : 24;
          this.addPart(row.mnemonic, lines, vector ? Math.min(count, 100) : count, { aspects, memory: vector });
        }
      }
    }
  }

  /** Width of the numbers, or integers, that the row reads. */
  private numbersOf(mnemonic: string, operands: Operands): readonly [number, number] {
    const { ptype, sz, shiftimm, half } = operands;
    if (half !== undefined || shiftimm! < 32) return this.inputs.numbers[16];
    if (/^(u(rec|rsqrt)pe|ursqrte)/.test(mnemonic) || (/^[su]cvtf/.test(mnemonic) && ptype !== undefined)) {
      return this.inputs.pairs;
    }
    const isDouble = ptype === 1 || sz === 1 || (shiftimm !== undefined && shiftimm >= 64);
    if (mnemonic === 'fcvtl') return this.inputs.numbers[sz === 1 ? 32 : 16];
    return this.inputs.numbers[ptype === 3 ? 16 : isDouble ? 64 : 32];
  }

  /**
   * Under several values of FPCR; the target comes out in x4 and x5, FPSR, once 0 or IXC, in x7.
   * q3, q4 and q5 hold numbers of their own.
   */
  private float(row: Row): void {
    const { mnemonic } = row;
    const names = row.fields.map((field) => field.name);
    const choices = (name: string): readonly (number | null)[] => (names.includes(name) ? [0, 1] : [null]);
    const target =
      (mnemonic === 'fcvtl' ? ['vfl'] : ['fd', 'vd', 'sd', 'dd', 'hd', 'vfn', 'v4s']).find((name) =>
        names.includes(name),
      ) ?? null;
    const sources = [
      'rn',
      'fn',
      'vn',
      'dn',
      'vpair',
      'vfn',
      'vfl',
      'hvn',
      'fm',
      'vm',
      'vem',
      'hvm',
      'hve',
      'fa',
    ].filter((name) => names.includes(name) && name !== target);
    const patterns = [
      [6, 4, 5, 3],
      [4, 4, 5, 3],
      [5, 4, 5, 3],
      [6, 4, 4, 3],
      [3, 3, 3, 3],
      [3, 4, 5, 3],
    ] as const;
    const types = names.includes('ptype') ? [0, 1, 3] : choices('sz');
    for (const type of types)
      for (const q of choices('q'))
        for (const sf of choices('sf'))
          for (const [turn, control] of FLOAT_CONTROLS.entries()) {
            const operands: Record<string, number> = {};
            const registers = patterns[turn % patterns.length]!;
            if (sf !== null) operands['sf'] = sf;
            if (q !== null) operands['q'] = q;
            if (type !== null) operands[names.includes('sz') ? 'sz' : 'ptype'] = type;
            if (target !== null) operands[target] = registers[0];
            sources.forEach((name, i) => (operands[name] = registers[i + 1]!));
            if (names.includes('rd')) operands['rd'] = 3;
            const others = names.filter((name) => operands[name] === undefined);
            let valid = false;
            for (let tries = 0; tries < 60 && !valid; tries++) {
              others.forEach((name) => (operands[name] = this.immediate(row, name, 99)));
              valid = encodes(arm64Table, row, operands);
            }
            if (!valid) continue;
            const lines: A64Line[] = [
              loadQ(3, 28, 0),
              loadQ(4, 28, 16),
              ['ldur-fq', { simm: 8, base: 28, qt: 5 }],
              loadQ(6, 22, 0),
              ...constant(12, control),
              ['msr-reg', { sysreg: SYSREG.fpcr, xt: 12 }],
              // IXC: ops decide more once it is set.
              ...constant(12, turn === 1 ? 0x10 : 0),
              ['msr-reg', { sysreg: SYSREG.fpsr, xt: 12 }],
              [mnemonic, { ...operands }],
              ['mrs', { sysreg: SYSREG.fpsr, xt: 7 }],
              ['msr-reg', { sysreg: SYSREG.fpcr, xt: 31 }],
            ];
            if (target !== null) {
              const d = operands[target]!;
              // qemu 7.2 leaves bits of a sign above a half of a fixed point.
              if (mnemonic === 'fcvtzs-sfix' && operands['shiftimm']! < 32)
                lines.push(['fmov-reg', { ptype: 3, fn: d, fd: d }]);
              lines.push(['fmov-toint', { sf: 1, ptype: 1, fn: d, rd: 4 }], ['fmov-fromhigh', { high: d, xd: 5 }]);
            }
            const aspects: Aspect[] = [
              'corners',
              turn % patterns.length === 0 ? 'distinct' : 'equal',
              ...(sf === null ? [] : [sf === 1 ? ('sf=1' as const) : ('sf=0' as const)]),
            ];
            const inputs = this.range(this.numbersOf(mnemonic, operands), turn === 0 ? 80 : 40, 11);
            this.add(mnemonic, lines, inputs, { aspects });
          }
  }

  /** Signed and authenticated under qemu: the pointer comes back. Here both leave it alone. */
  private authentication(row: Row): void {
    const { mnemonic } = row;
    const aspects: Aspect[] = ['distinct', 'zero', 'equal', 'corners'];
    const user = andMask(4, 4, 0x0000_7fff_ffff_fff8n);
    const opposite = mnemonic.replace(/^(pac|aut)/, (name) => (name === 'pac' ? 'aut' : 'pac'));
    const order = (lines: readonly A64Line[]): A64Line[] =>
      mnemonic.startsWith('aut') ? [lines[1]!, lines[0]!] : [...lines];
    const both = (operands: Operands): A64Line[] => order([[mnemonic, operands], [opposite, operands]]); // prettier-ignore
    if (/^xpac[id]$/.test(mnemonic)) {
      for (const xd of [3, 4, 5, 31]) this.addPart(mnemonic, [[mnemonic, { xd }]], 200, { aspects });
    } else if (mnemonic === 'xpaclri') {
      const lines = [move(11, 30), move(30, 4), [mnemonic, {}], move(3, 30), move(30, 11)] as const;
      this.addPart(mnemonic, lines, 336, { aspects });
    } else if (has(row, 'xnsp')) {
      for (const xnsp of [5, 31, 3]) this.addPart(mnemonic, [user, ...both({ xd: 4, xnsp })], 100, { aspects });
      this.addPart(mnemonic, [user, ...both({ xd: 31, xnsp: 5 })], 20, { aspects });
    } else if (has(row, 'xd')) {
      this.addPart(mnemonic, [user, ...both({ xd: 4 })], 336, { aspects });
    } else {
      const target = mnemonic.endsWith('1716') ? 17 : 30;
      const lines = [move(11, 30), user, move(16, 5), move(target, 4), ...both({}), move(3, target), move(30, 11)];
      this.addPart(mnemonic, lines, 336, { aspects });
    }
  }

  private system(row: Row): void {
    const { mnemonic } = row;
    const aspects: Aspect[] = ['distinct', 'equal', 'zero', 'corners'];
    const read = (sysreg: number, xt: number): A64Line => ['mrs', { sysreg, xt }];
    const write = (sysreg: number, xt: number): A64Line => ['msr-reg', { sysreg, xt }];
    // What qemu keeps besides: FZ16 and the lengths of AArch32 in FPCR, flags of AArch32 in FPSR.
    const masks = new Map([
      [SYSREG.fpcr, 0x07c0_0000n],
      [SYSREG.fpsr, 0x0800_009fn],
    ]);
    if (mnemonic === 'svc') {
      // A system call that does not exist.
      const number: A64Line[] = [move(0, 4), ['movz', { sf: 1, hw: 0, imm16: 9999, rd: 8 }]];
      this.addPart(mnemonic, [...number, ['svc', { imm16: 0 }], move(3, 0)], 336, { aspects });
    } else if (mnemonic === 'sys') {
      // The block of dc zva differs under qemu, and it refuses dc cvap: tests of their own. The
      // others do nothing that is seen.
      for (const crm of [5, 10, 11, 14]) {
        this.addPart(mnemonic, [[mnemonic, { op1: 3, crn: 7, crm, op2: 1, optional_xt: 9 }]], 60, {
          aspects,
          memory: true,
        });
      }
    } else if (mnemonic === 'msr-dit' || mnemonic === 'msr-ssbs') {
      for (const crm of [1, 0]) {
        const name = mnemonic === 'msr-dit' ? SYSREG.dit : SYSREG.ssbs;
        this.addPart(mnemonic, [[mnemonic, { crm }], read(name, 3)], 120, { aspects });
      }
    } else {
      for (const sysreg of Object.values(SYSREG)) {
        for (const [from, to] of [[4, 3], [4, 4], [31, 3], [4, 31]] as const) {
          const lines: A64Line[] = [write(sysreg, from), read(sysreg, to)];
          const mask = masks.get(sysreg);
          if (mask !== undefined) {
            const [low, high] = [Number(mask & 0xffffn), Number(mask >> 16n)];
            lines.push(...constant(12, (high << 16) | low), ['and-reg', { sf: 1, shift: 0, rm: 12, amount: 0, rn: to, rd: 3 }]);
            if (to !== 31) lines.push(move(to, 3));
          }
          this.addPart(mnemonic, lines, 60, { aspects });
        } // prettier-ignore
      }
    }
  }

  // -------------------------------------------------------------------------------------- branches

  private branch(row: Row): void {
    const { mnemonic } = row;
    const skip = addi(3, 3, 1);
    const save = move(11, 30);
    const restore: A64Line[] = [move(6, 30), move(30, 11)];
    const aspects: Aspect[] = ['distinct', 'zero', 'equal', 'corners', 'sf=0', 'sf=1'];
    if (mnemonic === 'b' || mnemonic === 'bl') {
      this.addPart(mnemonic, [save, [mnemonic, { off: 8 }], skip, ...restore], 336, { aspects });
    } else if (mnemonic === 'b-cond') {
      for (let cond = 0; cond < 16; cond++) {
        for (const head of FLAG_HEADS)
          this.addPart(mnemonic, [...head, [mnemonic, { cond, off: 8 }], skip], 24, { aspects });
      }
    } else if (/^cbn?z$/.test(mnemonic)) {
      for (const sf of [0, 1]) {
        for (const rt of [4, 5, 31]) this.addPart(mnemonic, [[mnemonic, { sf, rt, off: 8 }], skip], 336, { aspects });
        // Backwards, after a loop of one round.
        const loop: A64Line[] = [['movz', { sf: 1, hw: 0, imm16: 3, rd: 7 }], ['sub-imm', { sf, sh: 0, imm12: 1, rnsp: 7, rdsp: 7 }], skip]; // prettier-ignore
        if (mnemonic === 'cbnz') this.addPart(mnemonic, [...loop, [mnemonic, { sf, rt: 7, off: -8 }]], 20, { aspects });
      }
    } else if (/^tbn?z$/.test(mnemonic)) {
      for (let bit = 0; bit < 64; bit++) {
        this.addPart(mnemonic, [[mnemonic, { bit, rt: bit % 5 === 0 ? 31 : 4, off: 8 }], skip], 24, { aspects });
      }
    } else {
      // Through x6; the authenticated forms after signing it, which does nothing here. x30 for
      // those that return.
      const auth = /^(?:br|blr|ret)a([ab])(z?)$/.exec(mnemonic);
      for (const xn of /^reta/.test(mnemonic) ? [30] : /^bra/.test(mnemonic) ? [6, 17, 16] : [6, 30, 16]) {
        const lines = (address: number): A64Line[] => {
          const head: A64Line[] = [save, addi(5, 5, 0)];
          const sign: A64Line[] = [];
          const operands: Record<string, number> = mnemonic.startsWith('reta') ? {} : { xn };
          if (auth) {
            const plain = mnemonic.startsWith('reta');
            if (auth[2] === 'z') sign.push([`paciz${auth[1]!}`, { xd: xn }]);
            else sign.push([`paci${auth[1]!}`, { xd: xn, xnsp: plain ? 31 : 5 }]);
            if (auth[2] !== 'z' && !plain) operands['xmsp'] = 5;
          }
          const target = address + 4 * (head.length + 2 + sign.length + 2);
          // A signed x30 stays signed under qemu.
          const after = mnemonic.startsWith('reta') ? [move(30, 11)] : restore;
          return [...head, ...constant(xn, target), ...sign, [mnemonic, operands], skip, ...after];
        };
        this.addPart(mnemonic, lines, mnemonic.startsWith('reta') ? 336 : 112, { aspects });
      }
    }
  }

  // ---------------------------------------------------------------------------------------- memory

  private memory(row: Row): void {
    const { mnemonic } = row;
    const names = row.fields.map((field) => field.name);
    const aligned = isAlignedRow(row);
    const vector = isVectorRow(row);
    const value = names.find((name) => /^([wxbhsdq]t|rt|rt_pair|v[te](_\d)?)$/.test(name))!;
    const second = names.find((name) => /^[wxsdq]t2$/.test(name));
    const status = names.find((name) => /^(ws|rs|rs_pair)$/.test(name));
    const exclusiveStore = /^stl?x/.test(mnemonic);
    const pair = names.includes('rt_pair');
    const literal = mnemonic.endsWith('-lit');
    interface Pattern { readonly t: number; readonly t2: number; readonly s: number; readonly base: number; readonly m: number; readonly aspect: Aspect | null } // prettier-ignore
    const of = (t: number, t2: number, s: number, base: number, m: number, aspect: Aspect | null): Pattern => ({ t, t2, s, base, m, aspect }); // prettier-ignore
    const patterns: Pattern[] = pair
      ? [of(4, 0, 6, 9, 0, 'distinct'), of(4, 0, 4, 9, 0, 'equal'), of(30, 0, 6, 9, 0, 'zero'), of(4, 0, 6, 31, 0, 'stack')]
      : [
          of(4, 5, 6, 9, 10, 'distinct'),
          of(31, 5, 6, 9, 10, 'zero'),
          of(4, 5, 6, 31, 10, 'stack'),
          ...(vector ? [] : [of(4, 31, 31, 9, 31, 'zero')]),
          ...(vector
            ? [of(4, 3, 6, 9, 10, 'equal')]
            : exclusiveStore
              ? [of(9, 5, 6, 9, 10, 'equal')]
              : [of(9, 5, 5, 9, 10, 'equal'), of(10, 9, 10, 9, 10, 'equal'), of(4, 5, 4, 9, 10, 'equal')]),
        ]; // prettier-ignore
    if (vector) patterns[1] = of(3, 4, 6, 9, 10, 'equal');
    const others = names.filter((name) => !['base', 'rmx', value, second, status].includes(name));
    for (const [p, { t, t2, s, base, m, aspect }] of patterns.entries()) {
      if (literal && base === 31) continue;
      for (let turn = 0; turn < (p === 0 ? 16 : 6); turn++) {
        const operands: Record<string, number> = { [value]: t };
        if (second !== undefined) operands[second] = t2;
        if (status !== undefined) operands[status] = s;
        if (names.includes('rmx')) operands['rmx'] = m;
        if (!literal) operands['base'] = base;
        let valid = false;
        for (let tries = 0; tries < 40 && !valid; tries++) {
          others.forEach((name, i) => (operands[name] = this.immediate(row, name, tries === 0 ? (turn + i) % 8 : 99)));
          if (names.includes('option')) operands['option'] = [2, 3, 6, 7][turn % 4]!;
          if (literal) operands['off'] = 0;
          valid = encodes(arm64Table, row, operands);
        }
        if (!valid) continue;
        const bytes = accessBytes(row, operands);
        const displacement = mnemonic.endsWith('-post')
          ? 0
          : (operands['pimm'] ?? operands['simm'] ?? operands['pairimm'] ?? 0);
        const scale = operands['s'] === 1 ? Math.log2(bytes) : 0;
        const index = names.includes('rmx') && m !== 31;
        const lines: A64Line[] = [];
        if (literal) {
          // The instruction's own word and what follows.
          lines.push([mnemonic, operands], ['nop', {}], ['nop', {}], ['nop', {}]);
          this.addPart(mnemonic, vector ? withVectors(lines) : lines, 200, {
            memory: vector,
            aspects: ['distinct', 'corners', 'zero', 'equal', 'page-crossing'],
          });
          continue;
        }
        // A large displacement is taken off the base; an index stays small, and a 32-bit one is
        // extended.
        if (displacement !== 0) {
          lines.push(signedConstant(12, -displacement), [
            'add-reg',
            { sf: 1, shift: 0, rm: 12, amount: 0, rn: 9, rd: 9 },
          ]);
        }
        if (aligned) lines.push(andMask(9, 9, 0xffff_ffff_ffff_fff0n));
        if (index && scale === 4) lines.push(['sbfm', { sf: 1, n: 1, immr: 2, imms: 63, rn: 10, rd: 10 }]);
        if (index && operands['option'] === 2) lines.push(andMask(10, 10, 7n));
        if (base === 31) lines.push(andMask(31, 9, 0xffff_ffff_ffff_fff0n));
        const body: A64Line[] = this.access(mnemonic, operands, value, second, base);
        lines.push(...(vector ? withVectors(body, hasList(row)) : body));
        if (base === 31) lines.push(addi(7, 31, 0), addi(31, 21, 0));
        // Out of the base comes what is left of an address; under qemu and here it is the same.
        const place = (input: Input): bigint => {
          let at = input.offset;
          if (aligned || base === 31) at &= -16n;
          if (!index) return at;
          let x10 = scale === 4 ? input.x10 >> 2n : input.x10;
          if (operands['option'] === 2) x10 &= 7n;
          return at + (x10 << BigInt(scale));
        };
        // The index, shifted, must stay in the memory.
        const inputs = this.part(p === 0 ? 40 : 24).filter((at) => {
          const where = place(this.inputs.all[at]!);
          return where >= -120n && where + BigInt(bytes) <= (hasList(row) ? 48n : vector ? 80n : 120n);
        });
        const aspects: Aspect[] = [
          ...(aspect ? [aspect] : []),
          ...(p === 0 ? (['corners'] as const) : []),
          ...(names.includes('sf') ? [operands['sf'] === 1 ? ('sf=1' as const) : ('sf=0' as const)] : []),
        ];
        this.add(mnemonic, lines, inputs, { memory: true, aspects, access: { bytes, place } });
      }
    }
  }

  /**
   * Stores with a reservation need one first, which may be lost; compares need something that is
   * equal.
   */
  private access(
    mnemonic: string,
    operands: Operands,
    value: string,
    second: string | undefined,
    base: number,
  ): A64Line[] {
    const line: A64Line = [mnemonic, operands];
    const exclusive = /^stl?x([rp])([bh]?)(-[wx])?$/.exec(mnemonic);
    if (exclusive) {
      const reserve: A64Line = [
        `ldx${exclusive[1]!}${exclusive[2]!}${exclusive[3] ?? ''}`,
        { base, [value]: 7, ...(second === undefined ? {} : { [second]: 12 }) },
      ];
      const between: A64Line[][] = [
        [],
        [addi(13, 13, 1)],
        [['clrex', { barrier: 15 }]],
        [['strb-imm', { wt: 3, base: 9, pimm: 0 }]],
        [['ldxr-x', { base: 18, xt: 13 }]],
      ];
      const again: A64Line[] = this.random.below(3) === 0 ? [move(7, operands['ws']!), line] : [];
      return [reserve, ...between[this.random.below(5)]!, line, ...again];
    }
    if (mnemonic.startsWith('cas') && this.random.below(2) === 0) {
      // What is there is expected: the swap takes place.
      const s = operands['rs_pair'] ?? operands['rs'] ?? operands['ws']!;
      const at = base === 31 ? 31 : 9;
      if (operands['rs_pair'] !== undefined && s < 30) {
        const form = operands['sf'] === 1 ? 'x' : 'w';
        return [[`ldp-${form}-off`, { [`${form}t`]: s, [`${form}t2`]: s + 1, base: at, pairimm: 0 }], line];
      }
      if (operands['rs_pair'] === undefined && s !== 31 && s !== 9)
        return [['ldr-x-imm', { xt: s, base: at, pimm: 0 }], line];
    }
    return [line];
  }
}

/** All inputs and variants. */
function planOf(): { readonly inputs: readonly Input[]; readonly variants: readonly Variant[] } {
  const planner = new Planner();
  return { inputs: planner.inputs.all, variants: planner.variants };
}

// ------------------------------------------------------------------------------------- the program

const RESULT_REGISTERS = [3, 4, 5, 6, 7, 9, 10];
const RESULT_NAMES = [...RESULT_REGISTERS.map((each) => `x${each}`), 'nzcv'];

function driver(layout: Layout): readonly Item[] {
  const load = (xt: number, base: number, pimm: number): A64Line => ['ldr-x-imm', { xt, base, pimm }];
  const store = (xt: number, base: number, pimm: number): A64Line => ['str-x-imm', { xt, base, pimm }];
  const copies = (from: number, fromAt: number, to: number, toAt: number): A64Line[] => {
    const out: A64Line[] = [];
    for (let i = 0; i < 2 * HALF; i += 8) out.push(load(12, from, fromAt + i), store(12, to, toAt + i));
    return out;
  };
  const branch = (mnemonic: 'cbz' | 'cbnz', rt: number, to: string): Item => ({
    to,
    branch: (off) => [mnemonic, { sf: 1, rt, off }],
  });
  return [
    ...constant(19, layout.results), ...constant(20, layout.variants), ...constant(24, layout.variantsEnd),
    ...constant(21, MIDDLE), ...constant(22, layout.pattern), ...constant(23, layout.pointers), addi(31, 21, 0),
    // The memory begins below the middle.
    ['sub-imm', { sf: 1, sh: 0, imm12: HALF, rnsp: 21, rdsp: 18 }],
    ...[0, 1, 2, 7, 8, 11, 12, 13, 14, 15, 16, 17, 29].flatMap((register) => constant(register, register * 0x10101)),
    { label: 'variant' },
    load(26, 20, 0), load(25, 20, 8), load(27, 20, 16), addi(20, 20, 24),
    { label: 'case' },
    load(28, 23, 0), addi(23, 23, 8),
    branch('cbz', 27, 'set'),
    ...copies(22, 0, 18, 0),
    { label: 'set' },
    load(7, 28, 32), writeFlags(7), load(9, 28, 40),
    ['add-reg', { sf: 1, shift: 0, rm: 21, amount: 0, rn: 9, rd: 9 }],
    load(10, 28, 48), load(3, 28, 0), load(4, 28, 8), load(5, 28, 16), load(6, 28, 24),
    ['blr', { xn: 26 }],
    ...RESULT_REGISTERS.map((register, i) => store(register, 19, 8 * i)),
    readFlags(12), store(12, 19, 8 * RESULT_REGISTERS.length),
    addi(19, 19, 8 * RESULT_NAMES.length),
    branch('cbz', 27, 'next'),
    ...copies(18, 0, 19, 0),
    addi(19, 19, 2 * HALF),
    { label: 'next' },
    ['sub-imm', { sf: 1, sh: 0, imm12: 1, rnsp: 25, rdsp: 25 }],
    branch('cbnz', 25, 'case'),
    ['sub-reg', { sf: 1, shift: 0, rm: 24, amount: 0, rn: 20, rd: 12 }],
    branch('cbnz', 12, 'variant'),
    ...constant(8, 64), ...constant(0, 1), ...constant(1, layout.results), ...constant(2, layout.resultBytes), ['svc', { imm16: 0 }],
    ...constant(8, 94), ...constant(0, 5), ['svc', { imm16: 0 }],
  ]; // prettier-ignore
}

const MACHINE: BatchMachine<Input> = {
  table: arm64Table,
  elf: { machine: 183, flags: 0, bits: 64, little: true },
  tables: { wordBytes: 8, entryBytes: 24, alignment: 8 },
  inputFields: INPUT_FIELDS,
  inputBytes: 64,
  recordBytes: ({ memory }) => 8 * RESULT_NAMES.length + (memory ? 2 * HALF : 0),
  driver,
  back: ['ret', { xn: 30 }],
};

// --------------------------------------------------------------------------------------- execution

const QEMU = [ARM64_QEMU, '-cpu', 'max'];

export class Coverage extends RowCoverage<Aspect> {}

/** Runs all rows here and under qemu, and records what was executed. */
/** @param every  of the inputs of a variant each so-many-th is taken */
export function runBatches(coverage: Coverage, every = 1, only?: RegExp): BatchResult {
  const { inputs, variants: all } = planOf();
  const chosen = all.filter((each) => each.inputs.length > 0 && (only === undefined || only.test(each.row)));
  const variants = thinned(chosen, every, ({ row }) => row);
  const program = buildProgram(MACHINE, inputs, variants);
  const theirs = runQemu(QEMU, program);
  const words = { names: RESULT_NAMES, bytes: 8, little: true } as const;
  const checking = rowChecking<Input, Aspect>(inputs, { words, recordBytes: MACHINE.recordBytes });
  const emulation = arm64Emulation.cpus!.at(-1)!.emulation();
  return check(variants, runHere({ ...arm64, emulation }, program), theirs, ARM64_QEMU, coverage, checking);
}

// ---------------------------------------------------------------------------------------- coverage

/** Register operands of a row. */
const registersOf = (row: Row): readonly string[] =>
  row.fields.filter((field) => field.spec.kind === 'register').map((field) => field.name);

/** What a row must have shown. */
function requiredAspects(row: Row): Aspect[] {
  const registers = registersOf(row);
  const vector = isVectorRow(row);
  const out: Aspect[] = [];
  if (UNIT_ONLY.has(row.mnemonic)) return ['corners'];
  if (registers.length > 0) out.push('corners', 'distinct');
  if (registers.length > 1 && !/^(movi|fmov|smov|umov|dup-gen|ins-gen|addv)/.test(row.mnemonic)) out.push('equal');
  const zero = registers.some((name) => /^(r[dnma]|r[ts]|[xw][dnmat]2?|ws|rmx|optional_xt)$/.test(name));
  if (zero && !/^(sys|prf)/.test(row.mnemonic)) out.push('zero');
  if (registers.some((name) => ['rdsp', 'rnsp'].includes(name))) out.push('stack');
  if (has(row, 'sf')) out.push('sf=0', 'sf=1');
  if (isMemoryRow(row)) {
    out.push('fault');
    if (has(row, 'base')) out.push('stack');
    const bytes = accessBytes(row, { sf: 1, q: 1 });
    if (bytes > 1 && !isAlignedRow(row)) out.push('page-crossing');
    if (bytes > 1 && !isAlignedRow(row) && has(row, 'base')) out.push('window-crossing');
  }
  return vector ? out.filter((each) => each !== 'zero') : out;
}

/** What the record lacks: one text a row. */
export const missingCoverage = (coverage: Coverage): string[] =>
  executableRows().flatMap((row) => {
    const least = UNIT_ONLY.has(row.mnemonic) ? 0 : MIN_CASES;
    return coverage.lacks(row.mnemonic, requiredAspects(row), least);
  });
