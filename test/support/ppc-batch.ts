/**
 * PowerPC instructions in batches: programs made from the instruction rows, run here and under
 * qemu-user, their results compared byte by byte; and the record of what was executed, from which
 * the coverage table is printed and checked.
 *
 * A program is a driver, one short routine per **variant** (a row with chosen registers, immediates
 * and suffixes), and tables of inputs. For each variant and input the driver sets r0, r3 to r7, r9,
 * r10, CR and XER, calls the routine and appends r0, r3 to r7, r9, CR and XER to a buffer; routines
 * that access memory get 256 fresh bytes around r9, in the middle of which a page ends, and append
 * them and r24 to r31 too. At the end it writes the buffer to descriptor 1.
 *
 * Words come from the rows' encoder, which other tests compare with objdump.
 */
import { ppc32, ppc64ElfV2Be, ppc64ElfV2Le } from '../../src/arch-ppc/index.js';
import { ppc32Table, ppc64Table } from '../../src/arch-ppc/isa.js';
import type { IsaTable, Operands, Row } from '../../src/isa/table.js';
import {
  buildProgram,
  check,
  CORNERS_64,
  encodeLines,
  encodes,
  makes,
  HALF,
  MIDDLE,
  rowChecking,
  RowCoverage,
  RowPlanner,
  runHere,
  runQemu,
  thinned,
} from './batch.js';
import { Random } from './random.js';
import type { BatchMachine, BatchResult, Item, Layout, Outside, RowInput, RowVariant } from './batch.js';
// The types only: that module needs the test framework, which `scripts/coverage.ts` has not.
import type { PpcKind, PpcLine } from './emulator.js';

export const PPC_KINDS = ['32', 'be', 'le'] as const;
export const ppcQemu = (kind: PpcKind): string => ({ le: 'qemu-ppc64le', be: 'qemu-ppc64', 32: 'qemu-ppc' })[kind];

export const ppcWords = (kind: PpcKind, lines: readonly PpcLine[]): Uint8Array =>
  encodeLines(tableOf(kind), lines, kind === 'le');

export function tableOf(kind: PpcKind): IsaTable {
  return kind === '32' ? ppc32Table : ppc64Table;
}

/** Rows that a program can execute. */
export function executableRows(kind: PpcKind): Row[] {
  return tableOf(kind).rows.filter((row) => row.attributes.decodeOnly !== true);
}

const bitsOf = (kind: PpcKind): 32 | 64 => (kind === '32' ? 32 : 64);

// ------------------------------------------------------------------------------------------ inputs

/** Registers before the instruction; `offset` is r9 minus the middle of the memory. r0 is r4. */
const INPUT_FIELDS = ['r3', 'r4', 'r5', 'cr', 'xer', 'offset', 'r10'] as const;
export type Input = RowInput<(typeof INPUT_FIELDS)[number]>;

/** Corner values of either width: carries, signs, shift counts around the widths. */
const CORNERS: Readonly<Record<32 | 64, readonly bigint[]>> = {
  32: [0n, 1n, -1n, 0x8000_0000n, 0x7fff_ffffn, 2n, -2n, 31n, 32n, 33n, 63n, 64n, 0xffffn, 0x80n],
  64: CORNERS_64,
}; // prettier-ignore
const MORE_CORNERS: Readonly<Record<32 | 64, readonly bigint[]>> = {
  32: [0xffn, 0x7fffn, 0x8000n, -0x8000n, 0x5555_5555n, 127n],
  64: [2n, -2n, 33n, 65n, 127n, 0xffn, 0x8000n, -0x8000n, 0x5555_5555_5555_5555n, (1n << 33n) - 1n],
};

interface Inputs {
  readonly all: Input[];
  /** Every corner with every corner, then random ones. */
  readonly pairs: readonly [first: number, count: number];
  /** Every corner in r4, then random ones. */
  readonly singles: readonly [first: number, count: number];
  /**
   * Doubles in r4 (32 bits: r4 and r5) around the borders of singles, singles in the low word of
   * r5.
   */
  readonly floats: readonly [first: number, count: number];
}

/** Exponents of doubles around zero, denormals and normals of singles, infinity. */
const EXPONENTS = [0, 1, 873, 874, 875, 895, 896, 897, 1023, 1150, 1151, 2046, 2047];
const SINGLES = [
  0, 0x8000_0000, 1, 0x8000_0001, 0x7f_ffff, 0x80_0000, 0x40_0000, 0x7f7f_ffff, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7f80_0001,
  0x3f80_0000,
]; // prettier-ignore

function makeInputs(kind: PpcKind): Inputs {
  const random = new Random();
  const bits = bitsOf(kind);
  const all: Input[] = [];
  const add = (r4: bigint, r5: bigint, plainPlace: boolean): void => {
    const xerBits = BigInt(random.below(8)) << 29n;
    const wordBits = kind === '32' ? 0n : BigInt(random.below(4)) << 18n;
    all.push({
      r3: random.wide(),
      r4: BigInt.asUintN(bits, r4),
      r5: BigInt.asUintN(bits, r5),
      cr: BigInt(random.below(0xffff_fffb)),
      xer: xerBits | wordBits | BigInt(random.below(65)),
      offset: BigInt(plainPlace ? random.below(3) * 16 - 16 : random.below(33) - 16),
      r10: BigInt(plainPlace ? random.below(3) * 16 - 16 : random.below(33) - 16),
    });
  };
  const corners = CORNERS[bits];
  for (const a of corners) for (const b of corners) add(a, b, false);
  for (let i = 0; i < 60; i++) add(random.wide(), random.wide(), false);
  const pairs = [0, all.length] as const;
  const first = all.length;
  for (const a of [...corners, ...MORE_CORNERS[bits]]) add(a, random.wide(), true);
  for (let i = 0; i < 16; i++) add(random.wide(), random.wide(), true);
  const singles = [first, all.length - first] as const;
  const floats = all.length;
  for (const [i, exponent] of EXPONENTS.entries()) {
    for (const fraction of [0n, 1n, 0xf_ffff_ffff_ffffn, 0x8_0000_2000_0000n]) {
      const double = (BigInt(random.below(2)) << 63n) | (BigInt(exponent) << 52n) | fraction;
      const single = BigInt(SINGLES[(i + Number(fraction & 3n)) % SINGLES.length]!);
      if (kind === '32') add(double >> 32n, single, false);
      else add(double, single, false);
    }
  }
  return { all, pairs, singles, floats: [floats, all.length - floats] };
}

// ---------------------------------------------------------------------------------------- variants

/** What of a row a variant shows. */
export type Aspect =
  | 'distinct' | 'equal' | 'zero' | 'corners' | 'page-crossing' | 'window-crossing' | 'misaligned' | 'fault' | 'Rc=0' | 'Rc=1' | 'OE=0 Rc=0' | 'OE=0 Rc=1' | 'OE=1 Rc=0'
  | 'OE=1 Rc=1'; // prettier-ignore

type Variant = RowVariant<Input, Aspect>;

/** Rows that access memory at base + index or base + displacement. */
export function accessBytes(mnemonic: string): number {
  if (/^(icbi|dcb(st|f|t|tst))$/.test(mnemonic)) return 0;
  if (/^dcbz/.test(mnemonic)) return 1;
  if (/^(lm|stm|lsw|stsw)/.test(mnemonic)) return 4;
  if (/^(lq|stq)/.test(mnemonic)) return 16;
  const match = /^(?:l|st)(f[sdi]|[bhwd])/.exec(mnemonic);
  return match ? ({ b: 1, h: 2, w: 4, d: 8, fs: 4, fd: 8, fi: 4 }[match[1]!] ?? 0) : 0;
}

/** Rows whose first argument is a base register, with or without access. */
export function isMemoryRow(row: Row): boolean {
  const has = (name: string): boolean => row.fields.some((field) => field.name === name);
  return accessBytes(row.mnemonic) > 0 ? true : /^(icbi|dcb)/.test(row.mnemonic) && has('rb');
}

/** SPR numbers that programs reach and that hold what is written. */
const PLAIN_SPRS = { 32: [8, 9, 256], 64: [8, 9, 256, 815] } as const;

const LR = 8;
const CTR = 9;
const mflr = (rt: number): PpcLine => ['mfspr', { rt, spr: LR }];
const mtlr = (rs: number): PpcLine => ['mtspr', { rs, spr: LR }];
const mfctr = (rt: number): PpcLine => ['mfspr', { rt, spr: CTR }];
const mtctr = (rs: number): PpcLine => ['mtspr', { rs, spr: CTR }];
const move = (ra: number, rs: number): PpcLine => ['or', { ra, rs, rb: rs }];
const addi = (rt: number, ra0: number, si: number): PpcLine => ['addi', { rt, ra0, si }];
const constant = (rt: number, value: number): PpcLine[] => [
  ['addis', { rt, ra0: 0, si: (value << 0) >> 16 }],
  ['ori', { ra: rt, rs: rt, ui: value & 0xffff }],
];

/** The 13 bits of trap conditions that hold, as TO would name them. Source: Power ISA 3.3.11. */
export function trapConditions(a: bigint, b: bigint, width: 32 | 64): number {
  const [x, y] = [BigInt.asIntN(width, a), BigInt.asIntN(width, b)];
  const [ux, uy] = [BigInt.asUintN(width, a), BigInt.asUintN(width, b)];
  return (x < y ? 16 : 0) | (x > y ? 8 : 0) | (x === y ? 4 : 0) | (ux < uy ? 2 : 0) | (ux > uy ? 1 : 0);
}

class Planner extends RowPlanner<Input, Aspect> {
  readonly inputs: Inputs;
  private readonly is64: boolean;

  constructor(readonly kind: PpcKind) {
    super();
    this.inputs = makeInputs(kind);
    this.is64 = kind !== '32';
    for (const row of executableRows(kind)) this.plan(row);
  }

  private plan(row: Row): void {
    const { mnemonic } = row;
    if (UNIT_ONLY.has(mnemonic)) return;
    if (/^(bc?l?a?|bc(lr|ctr|tar)l?)$/.test(mnemonic)) this.branch(row);
    else if (/^t[wd]i?$/.test(mnemonic)) this.traps(row);
    else if (/spr$/.test(mnemonic)) this.specialRegisters(row);
    else if (mnemonic === 'sc') {
      // A system call that does not exist: ENOSYS with CR0.SO.
      this.add('sc', [addi(0, 0, 9999), ['sc', { lev: 0 }]], this.range(this.inputs.pairs), { aspects: ['corners'] });
    } else if (isMemoryRow(row)) this.memory(row);
    else this.plain(row);
  }

  // -------------------------------------------------------------------------------- registers only

  private immediate(name: string, row: Row, turn: number): number {
    const field = row.fields.find((each) => each.name === name)!;
    const { random } = this;
    if (field.signed) {
      const [max, min] = [2 ** (field.widthBits - 1) - 1, -(2 ** (field.widthBits - 1))];
      const corners = [0, 1, -1, max, min, 31, 64];
      return corners[turn] ?? random.below(max - min + 1) + min;
    }
    const max = 2 ** field.widthBits - 1;
    const corners = [0, max, 1, (max + 1) / 2, max - 1];
    // Fields of one instruction reach their corners at different times.
    const shifted = turn + (name.startsWith('mb') ? 1 : name.startsWith('me') ? 3 : 0);
    return turn < 6 ? corners[shifted % 5]! : random.below(max + 1);
  }

  private plain(row: Row): void {
    const names = row.fields.map((field) => field.name);
    const has = (name: string): boolean => names.includes(name);
    const target = has('rt') ? 'rt' : has('rs') && has('ra') ? 'ra' : null;
    const sources = (
      has('rt') ? ['ra', 'ra0', 'rb', 'rc5'] : target === 'ra' ? ['rs', 'rb'] : ['rs', 'ra', 'rb']
    ).filter(has);
    const others = names.filter((name) => name !== target && !sources.includes(name) && name !== 'oe' && name !== 'rc');
    const suffixes: { oe: number; rc: number; aspect: Aspect | null }[] = has('oe')
      ? [0, 1, 2, 3].map((k) => ({ oe: k >> 1, rc: k & 1, aspect: `OE=${k >> 1} Rc=${k & 1}` as Aspect }))
      : has('rc')
        ? [0, 1].map((rc) => ({ oe: 0, rc, aspect: `Rc=${rc}` as Aspect }))
        : [{ oe: 0, rc: 0, aspect: null }];
    // Target, then sources.
    const patterns: { registers: readonly number[]; aspect: Aspect | null }[] = [
      { registers: [3, 4, 5, 7], aspect: 'distinct' },
      { registers: [4, 4, 5, 7], aspect: 'equal' },
      { registers: [5, 4, 5, 7], aspect: 'equal' },
      { registers: [3, 4, 4, 7], aspect: 'equal' },
      { registers: [4, 4, 4, 4], aspect: 'equal' },
      { registers: [3, 4, 5, 3], aspect: 'equal' },
      { registers: [3, 0, 5, 7], aspect: has('ra0') ? 'zero' : null },
      { registers: [0, 4, 0, 0], aspect: null },
    ];
    for (const { oe, rc, aspect } of suffixes) {
      for (const [p, pattern] of patterns.entries()) {
        const operands: Record<string, number> = {};
        if (target !== null) operands[target] = pattern.registers[0]!;
        sources.forEach((name, i) => (operands[name] = pattern.registers[i + 1]!));
        if (has('oe')) operands['oe'] = oe;
        if (has('rc')) operands['rc'] = rc;
        const aspects: Aspect[] = [...(pattern.aspect ? [pattern.aspect] : []), ...(aspect ? [aspect] : [])];
        const turns = others.length === 0 ? 1 : p === 0 ? 40 : 6;
        for (let turn = 0; turn < turns; turn++) {
          for (const name of others) operands[name] = this.immediate(name, row, turn);
          this.fix(row.mnemonic, operands, turn);
          if (!makes(tableOf(this.kind), row, operands)) continue;
          const wide = sources.length > 1;
          let inputs = this.range(wide ? this.inputs.pairs : this.inputs.singles, p === 0 ? undefined : 24);
          if (others.length > 0 && wide) inputs = this.range(this.inputs.pairs, 24);
          this.add(row.mnemonic, this.around(row.mnemonic, { ...operands }), inputs, {
            aspects: p === 0 ? ['corners', ...aspects] : aspects,
            ...this.undefinedResults(row.mnemonic, operands),
          });
        }
      }
    }
    // Condition records known in the block.
    if (/^(cr|mcrf$|isel|setb)/.test(row.mnemonic)) {
      for (let turn = 0; turn < 24; turn++) {
        const operands: Record<string, number> = {};
        for (const [name, register] of [
          ['rt', 3],
          ['ra0', 4],
          ['rb', 5],
        ] as const)
          if (has(name)) operands[name] = register;
        for (const name of others) operands[name] = this.immediate(name, row, 99);
        const bf = turn % 8;
        const compare: PpcLine[] = [
          [turn & 1 ? 'cmp' : 'cmpl', { bf, l: this.is64 ? (turn >> 1) & 1 : 0, ra: 4, rb: 5 }],
          ['cmpi', { bf: (bf + 1) % 8, l: 0, ra: 4, si: 1 }],
          ['mcrf', { bf: (bf + 2) % 8, bfa: bf }],
        ];
        this.add(row.mnemonic, [...compare, [row.mnemonic, operands]], this.range(this.inputs.pairs, 24));
      }
    }
  }

  /** Operands that only some values make valid. */
  private fix(mnemonic: string, operands: Record<string, number>, turn: number): void {
    if (/^m[ft]ocrf$/.test(mnemonic)) operands['fxm'] = 1 << (turn % 8);
    if (/^cmpl?i?$/.test(mnemonic)) operands['l'] = this.is64 ? turn & 1 : 0;
    if (mnemonic === 'addex') operands['l2'] = 0;
    if (mnemonic === 'sync') Object.assign(operands, { l3: [0, 1, 2][turn % 3], sc2: 0 });
  }

  private around(mnemonic: string, operands: Operands): PpcLine[] {
    const line: PpcLine = [mnemonic, operands];
    // Bits of other fields are undefined.
    if (mnemonic === 'mfocrf') {
      const first = 4 * (7 - Math.log2(operands['fxm']!));
      const [rt] = [operands['rt']!];
      return [line, ['rlwinm', { rs: rt, ra: rt, sh: 0, mb: first, me: first + 3 }]];
    }
    return [line];
  }

  /** Division: zero divisors and quotients that do not fit; digits that are no decimal ones. */
  private undefinedResults(mnemonic: string, operands: Operands): Pick<Variant, 'undefinedResult' | 'qemuWrong'> {
    const match = /^(div|mod)([sw]?)([wd])?(e?)(u?)/.exec(mnemonic);
    if (match && /^(div|mod)/.test(mnemonic)) {
      const width = mnemonic.includes('w') ? 32 : 64;
      const unsigned = mnemonic.endsWith('u') || mnemonic.startsWith('modu');
      const extended = /^div[wd]e/.test(mnemonic);
      const take = (value: bigint): bigint => (unsigned ? BigInt.asUintN(width, value) : BigInt.asIntN(width, value));
      const absolute = (value: bigint): bigint => (value < 0n ? -value : value);
      return {
        ...(mnemonic === 'divde' && operands['oe'] === 1
          ? {
              qemuWrong: (input): boolean => {
                const [a, b] = [take(valueOf(input, operands['ra']!)), take(valueOf(input, operands['rb']!))];
                return absolute(a) < absolute(b) && take((a << 64n) / b) !== (a << 64n) / b;
              },
            }
          : {}),
        undefinedResult: (input) => {
          // CR0 of an unsigned word is that of 64 bits where the comparison is with a 64-bit
          // processor.
          if (this.kind === '32' && mnemonic === 'divweu' && operands['rc'] === 1) return true;
          const a = take(valueOf(input, operands['ra']!)) << (extended ? BigInt(width) : 0n);
          const b = take(valueOf(input, operands['rb']!));
          return b === 0n || take(a / b) !== a / b;
        },
      };
    }
    if (mnemonic === 'cbcdtd') {
      return {
        undefinedResult: (input) => {
          const value = valueOf(input, operands['rs']!);
          for (const word of [0n, 32n]) {
            for (let i = 0n; i < 24n; i += 4n) if (((value >> (word + i)) & 15n) > 9n) return true;
          }
          return false;
        },
      };
    }
    return {};
  }

  private specialRegisters(row: Row): void {
    for (const spr of PLAIN_SPRS[bitsOf(this.kind)]) {
      for (const [rs, rt] of [
        [4, 3],
        [4, 4],
        [0, 0],
      ] as const) {
        const lines: PpcLine[] = [mflr(11), ['mtspr', { rs, spr }], ['mfspr', { rt, spr }], mtlr(11)];
        // VRSAVE has 32 bits; qemu keeps 64 (`QEMU_DIFFERENCES`).
        if (spr === 256) lines.push(['rlwinm', { rs: rt, ra: rt, sh: 0, mb: 0, me: 31 }]);
        const aspects: Aspect[] = ['distinct', 'equal', 'corners'];
        this.add(row.mnemonic, lines, this.range(this.inputs.singles), { aspects });
      }
    }
    // Reserved bits of XER read as they were written on qemu: they are masked.
    const mask = this.is64 ? 0xe00c_007f : 0xe000_007f;
    const lines: PpcLine[] = [
      ['mtspr', { rs: 4, spr: 1 }],
      ['mfspr', { rt: 3, spr: 1 }],
      ...constant(5, mask | 0),
      ['and', { ra: 3, rs: 3, rb: 5 }],
      ['addze', { rt: 6, ra: 6, oe: 0, rc: 1 }],
    ];
    this.add(row.mnemonic, lines, this.range(this.inputs.pairs), { aspects: ['corners'] });
  }

  private traps(row: Row): void {
    const { mnemonic } = row;
    const width = mnemonic.startsWith('td') ? 64 : 32;
    const immediate = mnemonic.endsWith('i');
    for (let to = 0; to < 31; to++) {
      const sets: [number, number, Aspect][] = [[4, 5, 'distinct'], [4, 4, 'equal']]; // prettier-ignore
      for (const [ra, second, aspect] of immediate
        ? [...([0, 1, -1, -32768, 32767] as const).map((si) => [4, si, 'distinct'] as const)]
        : sets) {
        const quiet = this.range(this.inputs.pairs).filter((index) => {
          const input = this.inputs.all[index]!;
          const b = immediate ? BigInt(second) : valueOf(input, second);
          return (trapConditions(valueOf(input, ra), b, width) & to) === 0;
        });
        const operands = { to, ra, [immediate ? 'si' : 'rb']: second };
        if (quiet.length > 0) this.add(mnemonic, [[mnemonic, operands]], quiet, { aspects: [aspect, 'corners'] });
      }
    }
  }

  // -------------------------------------------------------------------------------------- branches

  private branch(row: Row): void {
    const { mnemonic } = row;
    const skip = addi(3, 3, 1);
    const [inputs] = [this.inputs.pairs];
    const save = mflr(11);
    if (/^bl?a?$/.test(mnemonic)) {
      const lines = (address: number): PpcLine[] => {
        const head: PpcLine[] = [save, mtctr(4)];
        const target = address + 4 * (head.length + 2);
        const field = mnemonic.endsWith('a') ? { la: target } : { li: 8 };
        return [...head, [mnemonic, field], skip, mflr(5), mtlr(11)];
      };
      this.add(mnemonic, lines, this.range(inputs), { aspects: ['corners'] });
      return;
    }
    const register = /^bc(lr|ctr|tar)l?$/.exec(mnemonic)?.[1];
    for (let bo = 0; bo < 32; bo++) {
      if (register === 'ctr' && (bo & 4) === 0) continue;
      for (const [b, bi] of [0, 1, 2, 3, 6, 27, 29, 30].entries()) {
        // The condition is from outside the block, or from a comparison in it, or from literal
        // bits.
        const before: PpcLine[][] = [
          [],
          [['cmp', { bf: bi >> 2, l: 0, ra: 4, rb: 5 }]],
          [['cmpl', { bf: bi >> 2, l: this.is64 ? 1 : 0, ra: 4, rb: 5 }]],
          [['crxor', { bt: bi, ba: bi, bb: (bi + 5) % 32 }]],
        ];
        const head = before[(bo + b) % 4]!;
        const lines = (address: number): PpcLine[] => {
          if (register === undefined) {
            return [save, mtctr(4), ...head, [mnemonic, { bo, bi, bd: 8 }], skip, mfctr(5), mflr(6), mtlr(11)];
          }
          const spr = { lr: 8, ctr: 9, tar: 815 }[register]!;
          const start: PpcLine[] = [save, ...(register === 'ctr' ? [] : [mtctr(4)]), ...head];
          const target = address + 4 * (start.length + 5);
          return [
            ...start,
            // The two lowest bits of the address do not count.
            ...constant(6, target + (bo & 3)),
            ['mtspr', { rs: 6, spr }],
            [mnemonic, { bo, bi, bh: (bi & 1) === 0 ? 0 : 1 }],
            skip, mfctr(5), mflr(6), mtlr(11),
          ]; // prettier-ignore
        };
        this.add(mnemonic, lines, this.range(inputs, 24), { aspects: ['corners'] });
      }
    }
  }

  // ---------------------------------------------------------------------------------------- memory

  private memory(row: Row): void {
    const { mnemonic } = row;
    const names = row.fields.map((field) => field.name);
    const has = (name: string): boolean => names.includes(name);
    const bytes = accessBytes(mnemonic);
    const aligned = /arx$|cx\.$|^lq|^stq/.test(mnemonic);
    const value = has('rt') ? 'rt' : has('rs') ? 'rs' : has('frt') ? 'frt' : has('frs') ? 'frs' : null;
    const base = has('ra') ? 'ra' : 'ra0';
    const indexed = has('rb');
    const first = value === 'rt' || value === 'rs' ? this.valueRegister(mnemonic, value) : 3;
    const patterns: { registers: readonly [value: number, base: number, index: number]; aspect: Aspect | null }[] = [
      { registers: [first, 9, 10], aspect: 'distinct' },
      { registers: [9, 9, 10], aspect: 'equal' },
      { registers: [10, 9, 10], aspect: 'equal' },
      { registers: [0, 9, 10], aspect: null },
      { registers: [first, 8, 8], aspect: 'equal' },
      { registers: [first, 0, 9], aspect: 'zero' },
      { registers: [9, 0, 9], aspect: 'zero' },
      // Quadwords start at even registers.
      ...(mnemonic === 'stq' ? [{ registers: [8, 8, 10], aspect: 'equal' } as const] : []),
    ];
    const displacement = row.fields.find((field) => ['d', 'ds', 'dq'].includes(field.name));
    const others = names.filter((name) => ['eh', 'nb', 'ct', 'l3'].includes(name));
    for (const [p, { registers, aspect }] of patterns.entries()) {
      const [rv, ra, rb] = registers;
      if (!indexed && (rb === 8 || ra === 0 || rv === 10)) {
        // Without an index: zero as base is an address near 0, which only our machine can map; the
        // string moves have no displacement.
        if (!(ra === 0 && has('nb'))) continue;
      }
      if (/^(dcb|icbi|lswx)/.test(mnemonic) && rv !== first) continue;
      if ((value === 'frt' || value === 'frs') && rv !== first) continue;
      for (let turn = 0; turn < (p === 0 ? 10 : 4); turn++) {
        const operands: Record<string, number> = { [base]: ra };
        if (value !== null) operands[value] = rv;
        if (indexed) operands['rb'] = rb;
        let offset = 0;
        if (displacement) {
          offset = aligned ? [0, 16, -16][turn % 3]! : ([0, -1, -4, 4, 15, -16][turn] ?? this.random.below(32) - 16);
          offset -= ((offset % 2 ** displacement.lowBit) + 2 ** displacement.lowBit) % 2 ** displacement.lowBit;
          operands[displacement.name] = offset;
        }
        for (const name of others) operands[name] = this.immediate(name, row, turn);
        if (mnemonic === 'dcbf') operands['l3'] = turn & 1;
        if (has('nb') && ra === 0) operands['ra0'] = 9;
        if (!makes(tableOf(this.kind), row, operands)) continue;
        const lines: PpcLine[] = mnemonic === 'stq' && ra === 8 ? [move(8, 9)] : [];
        if (rb === 8) lines.push(['rlwinm', { rs: 9, ra: 8, sh: 31, mb: 1, me: 31 }]);
        lines.push(...this.access(mnemonic, operands, value));
        if (rb === 8) lines.push(move(6, 8));
        const place = (input: Input): bigint => {
          const at = input.offset;
          if (rb === 8) return at & -2n;
          return at + (indexed ? (ra === 0 ? 0n : input.r10) : BigInt(offset));
        };
        const floating = value === 'frt' || value === 'frs';
        const source = aligned ? this.inputs.singles : floating && turn > 0 ? this.inputs.floats : this.inputs.pairs;
        const inputs = this.range(source, p === 0 ? 40 : 24);
        this.add(mnemonic, lines, inputs, {
          memory: true,
          aspects: [...(aspect ? [aspect] : []), ...(p === 0 ? (['corners'] as const) : [])],
          access: { bytes, place },
        });
      }
    }
  }

  private valueRegister(mnemonic: string, value: 'rt' | 'rs'): number {
    if (/^l?stmw|^lmw/.test(mnemonic)) return 29;
    if (/^(lsw|stsw)/.test(mnemonic)) return 24;
    if (/^(lq|stq)/.test(mnemonic)) return 4;
    return value === 'rt' ? 3 : 4;
  }

  /**
   * The instruction with what it needs before and after: reservations, floating point registers by
   * way of memory.
   */
  private access(mnemonic: string, operands: Operands, value: string | null): PpcLine[] {
    const line: PpcLine = [mnemonic, operands];
    const scratch = 96;
    if (value === 'frs') {
      const stores: PpcLine[] = this.is64
        ? [['std', { rs: 4, ra0: 21, ds: scratch }]]
        : [['stw', { rs: 4, ra0: 21, d: scratch }], ['stw', { rs: 5, ra0: 21, d: scratch + 4 }]]; // prettier-ignore
      return [...stores, ['lfd', { frt: operands['frs']!, ra0: 21, d: scratch }], line];
    }
    if (value === 'frt') {
      // The single of r5 to where the instruction reads.
      const { ra, ra0 = ra!, rb, d } = operands;
      const store: PpcLine = rb === undefined ? ['stw', { rs: 5, ra0, d: d! }] : ['stwx', { rs: 5, ra0, rb }];
      const before = /^lfs/.test(mnemonic) && this.random.below(4) > 0 ? [store] : [];
      return [...before, line, ['stfd', { frs: operands['frt']!, ra0: 21, d: scratch }]];
    }
    const conditional = /^st([bhwdq])cx\.$/.exec(mnemonic);
    if (conditional) {
      const { ra0, rb } = operands;
      // This qemu's `lqarx` reserves nothing: only the failing store is compared
      // (`QEMU_DIFFERENCES`).
      if (mnemonic === 'stqcx.') return [['stdcx.', { rs: 5, ra0: 0, rb: 9 }], line];
      const reserve: PpcLine = [`l${conditional[1]!}arx`, { rt: 6, ra0: ra0!, rb: rb!, eh: 0 }];
      const between: PpcLine[][] = [
        [],
        [addi(31, 31, 1)],
        [['stw', { rs: 5, ra0: 21, d: -64 }]],
        [['stb', { rs: 5, ra0: 9, d: 0 }]],
      ];
      if (this.random.below(4) === 0) {
        // What was there is stored: only the lost reservation makes the second store fail.
        const unchanged: PpcLine = [mnemonic, { ...operands, rs: 6 }];
        return [reserve, unchanged, ['mcrf', { bf: 4, bfa: 0 }], unchanged];
      }
      const chosen = between[this.random.below(4)]!;
      // Twice: the second has no reservation any more.
      const again: PpcLine[] = this.random.below(3) === 0 ? [['mcrf', { bf: 4, bfa: 0 }], line] : [];
      return [reserve, ...chosen, line, ...again];
    }
    if (/^(lq|stq)/.test(mnemonic)) return [line, move(6, 5)];
    return [line];
  }
}

/** Value of a register as the driver set it. */
function valueOf(input: Input, register: number): bigint {
  return register === 3 ? input.r3 : register === 5 ? input.r5 : register === 7 ? input.xer : input.r4;
}

/** Rows that the programs cannot hold, and why; tests of their own execute them. */
const UNIT_ONLY: ReadonlyMap<string, string> = new Map([
  ['bca', 'reaches only the first and last 32 KiB of the address space, which a process cannot map'],
  ['bcla', 'as bca'],
  ['mftb', 'time differs'],
  ['darn', 'random numbers differ'],
]);

// ------------------------------------------------------------------------------------- the program

const RESULT_NAMES = ['r0', 'r3', 'r4', 'r5', 'r6', 'r7', 'r9', 'cr', 'xer'];
const SAVED = [24, 25, 26, 27, 28, 29, 30, 31];

function driver(kind: PpcKind, layout: Layout): readonly Item[] {
  const is64 = kind !== '32';
  const w = is64 ? 8 : 4;
  const load = (rt: number, ra0: number, at: number): PpcLine =>
    is64 ? ['ld', { rt, ra0, ds: at }] : ['lwz', { rt, ra0, d: at }];
  const store = (rs: number, ra0: number, at: number): PpcLine =>
    is64 ? ['std', { rs, ra0, ds: at }] : ['stw', { rs, ra0, d: at }];
  const copies = (fromRegister: number, fromAt: number, toRegister: number, toAt: number): PpcLine[] => {
    const out: PpcLine[] = [];
    for (let i = 0; i < 2 * HALF; i += w) out.push(load(8, fromRegister, fromAt + i), store(8, toRegister, toAt + i));
    return out;
  };
  const lwz = (rt: number, ra0: number, d: number): PpcLine => ['lwz', { rt, ra0, d }];
  const ne = [4, 2] as const;
  const eq = [12, 2] as const;
  const branch = ([bo, bi]: readonly [bo: number, bi: number], to: string): Item => ({
    to,
    branch: (bd) => ['bc', { bo, bi, bd }],
  });
  return [
    ...constant(15, layout.results), ...constant(16, layout.variants), ...constant(17, layout.variantsEnd),
    ...constant(21, MIDDLE), ...constant(22, layout.pattern), ...constant(14, layout.pointers), ...constant(13, is64 ? 0xe00c_007f : 0xe000_007f),
    // Registers that multiple and string stores write out: the stack is not where qemu's is.
    ...[1, 2, 8, 11, 12, ...SAVED].map((register) => addi(register, 0, register * 0x101)),
    { label: 'variant' },
    lwz(20, 16, 0), lwz(19, 16, 4), lwz(23, 16, 8), addi(16, 16, 16),
    { label: 'case' },
    lwz(18, 14, 0), addi(14, 14, 4),
    ['cmpi', { bf: 0, l: 0, ra: 23, si: 0 }],
    branch(eq, 'set'),
    ...copies(22, 0, 21, -HALF),
    { label: 'set' },
    mtctr(20),
    load(6, 18, 3 * w), ['mtcrf', { rs: 6, fxm: 255 }], load(7, 18, 4 * w), ['mtspr', { rs: 7, spr: 1 }],
    load(9, 18, 5 * w), ['add', { rt: 9, ra: 9, rb: 21 }], load(10, 18, 6 * w),
    load(3, 18, 0), load(4, 18, w), load(5, 18, 2 * w), move(0, 4),
    ['bcctrl', { bo: 20, bi: 0, bh: 0 }],
    ...[0, 3, 4, 5, 6, 7, 9].map((register, i) => store(register, 15, i * w)),
    ['mfcr', { rt: 8 }], store(8, 15, 7 * w),
    // What is reserved in XER does not count.
    ['mfspr', { rt: 8, spr: 1 }], ['and', { ra: 8, rs: 8, rb: 13 }], store(8, 15, 8 * w),
    addi(15, 15, RESULT_NAMES.length * w),
    ['cmpi', { bf: 0, l: 0, ra: 23, si: 0 }],
    branch(eq, 'next'),
    ...copies(21, -HALF, 15, 0),
    ...SAVED.map((register, i) => store(register, 15, 2 * HALF + i * w)),
    addi(15, 15, 2 * HALF + SAVED.length * w),
    { label: 'next' },
    addi(19, 19, -1), ['cmpi', { bf: 0, l: 0, ra: 19, si: 0 }],
    branch(ne, 'case'),
    ['cmpl', { bf: 0, l: 0, ra: 16, rb: 17 }],
    branch(ne, 'variant'),
    addi(0, 0, 4), addi(3, 0, 1), ...constant(4, layout.results), ...constant(5, layout.resultBytes), ['sc', { lev: 0 }],
    addi(0, 0, 234), addi(3, 0, 5), ['sc', { lev: 0 }],
  ]; // prettier-ignore
}

function machineOf(kind: PpcKind): BatchMachine<Input> {
  const bits = bitsOf(kind);
  const w = bits / 8;
  const little = kind === 'le';
  return {
    table: tableOf(kind),
    elf: bits === 64 ? { machine: 21, flags: 2, bits, little } : { machine: 20, flags: 0, bits, little },
    tables: { wordBytes: 4, entryBytes: 16, alignment: 4 },
    inputFields: INPUT_FIELDS,
    inputBytes: INPUT_FIELDS.length * w,
    recordBytes: ({ memory }) => RESULT_NAMES.length * w + (memory ? 2 * HALF + SAVED.length * w : 0),
    driver: (layout) => driver(kind, layout),
    back: ['bclr', { bo: 20, bi: 0, bh: 0 }],
  };
}

// --------------------------------------------------------------------------------------- execution

const ARCHES = { 32: ppc32, be: ppc64ElfV2Be, le: ppc64ElfV2Le } as const;

export class Coverage extends RowCoverage<Aspect> {}

/** A row in the record, which is of all kinds. */
export const rowOf = (kind: PpcKind, mnemonic: string): string => `${kind} ${mnemonic}`;

/** The CPU of qemu that has a row; null: none. */
function qemuCpu(kind: PpcKind, row: string): string | null {
  const table = QEMU_CPUS[kind];
  for (const [cpu, rows] of table.others) if (rows.includes(row)) return cpu;
  return table.none.includes(row) ? null : table.usual;
}

interface CpuTable {
  readonly usual: string;
  readonly others: readonly (readonly [cpu: string, rows: readonly string[]])[];
  /**
   * Rows that no CPU of this qemu has: on 32 bits they are compared with the low words that
   * qemu-ppc64 gives.
   */
  readonly none: readonly string[];
}

const QEMU_CPUS: Readonly<Record<PpcKind, CpuTable>> = {
  32: {
    usual: '750',
    others: [
      ['7400', ['mfspr', 'mtspr']],
      ['e500mc', ['isel']],
    ],
    none: [
      'divwe', 'divweu', 'modsw', 'moduw', 'cnttzw', 'popcntb', 'popcntw', 'prtyw', 'cmpb', 'lfiwax', 'lfiwzx', 'lbarx', 'lharx', 'stbcx.', 'sthcx.',
    ],
  }, // prettier-ignore
  be: { usual: 'power10', others: [], none: [] },
  le: { usual: 'power10', others: [], none: ['lmw', 'stmw', 'lswi', 'stswi', 'lswx', 'stswx'] },
};

/**
 * Where qemu-user 7.2 does not do what the Power ISA says; the tests of these rows take the
 * manual's word.
 */
export const QEMU_DIFFERENCES: readonly (readonly [row: string, difference: string])[] = [
  ['divde', 'OV is not set for quotients from 2^63 up when the dividend is smaller than the divisor in magnitude'],
  ['lqarx', 'reserves nothing, so stqcx. always fails'],
  [
    'stwcx.',
    'without a reservation a misaligned address fails instead of raising the alignment interrupt; so do the other sizes',
  ],
  ['mtspr', 'VRSAVE keeps 64 bits, reserved bits of XER read as they were written'],
];

/** Rows of each CPU of qemu. */
function planOf(kind: PpcKind): { readonly inputs: readonly Input[]; readonly variants: readonly Variant[] } {
  const planner = new Planner(kind);
  return { inputs: planner.inputs.all, variants: planner.variants };
}

const LOW_WORDS = 'low words of qemu-ppc64 -cpu power9';

/** The output of a 64-bit program as the 32-bit one would give it. */
function lowWords(variants: readonly Variant[], { output, why }: Outside): Outside {
  if (!output) return { output, why };
  const parts: Buffer[] = [];
  let at = 0;
  for (const variant of variants) {
    for (let i = 0; i < variant.inputs.length; i++) {
      const words = (count: number): void => {
        for (let k = 0; k < count; k++, at += 8) parts.push(output.subarray(at + 4, at + 8));
      };
      words(RESULT_NAMES.length - 1);
      // CA32 and OV32 are not there on 32 bits.
      const xer = Buffer.from(output.subarray(at + 4, at + 8));
      xer[1]! &= 0xf3;
      parts.push(xer);
      at += 8;
      if (!variant.memory) continue;
      parts.push(output.subarray(at, at + 2 * HALF));
      at += 2 * HALF;
      words(SAVED.length);
    }
  }
  return { output: Buffer.concat(parts), why };
}

/** Runs all rows of a kind here and under qemu, and records what was executed. */
/** @param every  of the inputs of an instruction each so-many-th is tried */
export function runBatches(kind: PpcKind, coverage: Coverage, every = 1): BatchResult {
  const { inputs, variants: all } = planOf(kind);
  const variants = thinned(all, every, ({ row }) => row);
  const byCpu = new Map<string, Variant[]>();
  for (const variant of variants) {
    const cpu = qemuCpu(kind, variant.row) ?? LOW_WORDS;
    if (kind !== '32' && cpu === LOW_WORDS) continue;
    const list = byCpu.get(cpu);
    if (list) list.push(variant);
    else byCpu.set(cpu, [variant]);
  }
  const machine = machineOf(kind);
  const checking = rowChecking<Input, Aspect>(
    inputs,
    {
      words: { names: RESULT_NAMES, bytes: kind === '32' ? 4 : 8, little: kind === 'le' },
      recordBytes: machine.recordBytes,
      // Undefined: the target and the first three bits of CR0.
      ignored: (variant, input, i, got, want) =>
        variant.undefinedResult?.(inputs[input]!) === true &&
        (i <= 5 || (i === 7 && (got | 0xe000_0000n) === (want | 0xe000_0000n))),
    },
    (mnemonic) => rowOf(kind, mnemonic),
  );
  const results = [...byCpu].map(([cpu, list]) => {
    const program = buildProgram(machine, inputs, list);
    const isLow = cpu === LOW_WORDS;
    const theirs = isLow
      ? lowWords(list, runQemu([ppcQemu('be'), '-cpu', 'power9'], buildProgram(machineOf('be'), inputs, list)))
      : runQemu([ppcQemu(kind), '-cpu', cpu], program);
    const name = isLow ? cpu : `${ppcQemu(kind)} -cpu ${cpu}`;
    return check(list, runHere(ARCHES[kind], program), theirs, name, coverage, checking);
  });
  return {
    cases: results.reduce((sum, each) => sum + each.cases, 0),
    differences: results.flatMap((each) => each.differences),
  };
}

// ---------------------------------------------------------------------------------------- coverage

/** True when some choice makes two register operands of the row equal. */
function canBeEqual(kind: PpcKind, row: Row): boolean {
  const table = tableOf(kind);
  const names = row.fields.map((each) => each.name).filter((name) => /^(rt|rs|ra0?|rb|rc5)$/.test(name));
  const others: Record<string, number> = {};
  for (const { name } of row.fields) if (!names.includes(name)) others[name] = name === 'fxm' || name === 'nb' ? 1 : 0;
  for (const a of names) {
    for (const b of names) {
      if (a >= b) continue;
      const operands: Record<string, number> = { ...others };
      names.forEach((name, i) => (operands[name] = 12 + 4 * i));
      operands[a] = 20;
      operands[b] = 20;
      if (encodes(table, row, operands)) return true;
    }
  }
  return false;
}

/** What a row must have shown. */
function requiredAspects(kind: PpcKind, row: Row): Aspect[] {
  const { mnemonic } = row;
  const has = (name: string): boolean => row.fields.some((each) => each.name === name);
  const registers = row.fields.some((each) => /^(rt|rs|ra0?|rb)$/.test(each.name));
  const out: Aspect[] = [];
  if (UNIT_ONLY.has(mnemonic)) return ['corners'];
  if (registers && !has('spr')) out.push('distinct');
  if (canBeEqual(kind, row)) out.push('equal');
  if (has('ra0')) out.push('zero');
  if (registers) out.push('corners');
  if (has('oe')) out.push('OE=0 Rc=0', 'OE=0 Rc=1', 'OE=1 Rc=0', 'OE=1 Rc=1');
  else if (has('rc')) out.push('Rc=0', 'Rc=1');
  const bytes = isMemoryRow(row) ? accessBytes(mnemonic) : 0;
  // Reservations are aligned; quadwords are in the batches, which stay in atomic accesses of qemu.
  if (bytes > 1 && !/arx$|cx\.$|^lq|^stq/.test(mnemonic)) out.push('page-crossing');
  if (bytes > 1) out.push(/arx$|cx\.$/.test(mnemonic) ? 'misaligned' : 'window-crossing');
  if (bytes > 0) out.push('fault');
  return out;
}

/** What the record lacks: one text a row. */
export const missingCoverage = (kind: PpcKind, coverage: Coverage): string[] =>
  executableRows(kind).flatMap((row) => coverage.lacks(rowOf(kind, row.mnemonic), requiredAspects(kind, row)));

/** The coverage table as text: a line for each row and kind. */
export const coverageTable = (coverage: Coverage): string =>
  coverage.table('kind  row       ', (row) => {
    const [kind, mnemonic] = row.split(' ');
    return `${kind!.padEnd(5)} ${mnemonic!.padEnd(10)}`;
  });
