/**
 * RISC-V instructions in batches: programs made from the instruction rows, run here and under
 * qemu-user, their results compared byte by byte; and the record of what was executed, from which
 * the coverage table is checked.
 *
 * A program is a driver, one short routine per **variant** (a row with chosen registers, immediates
 * and suffixes), and tables of inputs. For each variant and input the driver sets a0 to a5, calls
 * the routine (the link is in s11, so that ra is free) and appends a0 to a5, t0 and t1 to a buffer;
 * routines that access memory get 256 fresh bytes around a4, in the middle of which a page ends,
 * and append them too. At the end it writes the buffer to descriptor 1.
 *
 * Words come from the rows' encoder, which other tests compare with objdump.
 */
import { riscv64 } from '../../src/arch-riscv/index.js';
import { riscvTable } from '../../src/arch-riscv/isa.js';
import type { Operands, Row } from '../../src/isa/table.js';
import {
  buildProgram,
  check,
  CORNERS_64,
  DATA,
  encodeLines,
  encodes as encodesIn,
  floatCorners,
  HALF,
  MIDDLE,
  RowCoverage,
  RowPlanner,
  rowChecking,
  runHere,
  runQemu,
  thinned,
} from './batch.js';
import { FLOAT_SHAPES, hardTriple } from './hard-floats.js';
import { Random } from './random.js';
import type { BatchMachine, BatchResult, Item, Layout, RowInput, RowLine } from './batch.js';

export const RISCV_QEMU = 'qemu-riscv64';
const QEMU_CPU = 'rv64,zba=true,zbb=true,zbs=true';

export type RiscvLine = RowLine;

export const riscvCode = (lines: readonly RiscvLine[]): Uint8Array => encodeLines(riscvTable, lines);

/** Rows that a program can execute. */
export function executableRows(): Row[] {
  return riscvTable.rows.filter((row) => row.attributes.decodeOnly !== true);
}

export const encodes = (row: Row, operands: Operands): boolean => encodesIn(riscvTable, row, operands);

export const [ZERO, RA, SP, T0, T1, A0, A1, A2, A3, A4, A5, A7, T5, T6] = [
  0, 1, 2, 5, 6, 10, 11, 12, 13, 14, 15, 17, 30, 31,
] as const;
/** The driver's own: not touched by routines. s11 holds the return address of a routine. */
const [S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, T3, T4] = [18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29] as const;

// ------------------------------------------------------------------------------------------ inputs

/** Registers before the instruction; `offset` is a4 minus the middle of the memory. a5 is 0. */
const INPUT_FIELDS = ['a0', 'a1', 'a2', 'a3', 'offset'] as const;
type Input = RowInput<(typeof INPUT_FIELDS)[number]>;

const MORE_CORNERS: readonly bigint[] = [
  2n, -2n, 33n, 65n, 127n, 0x80n, 0xffn, 0x8000n, -0x8000n, 0x5555_5555_5555_5555n, 0xff00_00ff_0100_8000n,
  0xffff_ffff_7fc0_0000n, 0xffff_ffff_8000_0001n,
]; // prettier-ignore

const DOUBLE_CORNERS = floatCorners(11, 52);
const SINGLE_CORNERS = floatCorners(8, 23);
const BOX = 0xffff_ffff_0000_0000n;

interface Inputs {
  readonly all: Input[];
  /**
   * Corners and random numbers in a1, a2, a3, as doubles and as singles, some of which are in no
   * box; a0 for the flags and the mode before.
   */
  readonly doubles: readonly [first: number, count: number];
  readonly singles: readonly [first: number, count: number];
  /** Every corner with every corner in a1, a2, then random ones. */
  readonly pairs: readonly [first: number, count: number];
  /** Every corner in a1, then random ones; a4 at multiples of 16. */
  readonly aligned: readonly [first: number, count: number];
}

/** Appends inputs for one format, whose numbers `box` makes registers of. */
function addFloats(
  all: Input[],
  random: Random,
  corners: readonly bigint[],
  fractionBits: number,
  box: (bits: bigint) => bigint,
): readonly [first: number, count: number] {
  const first = all.length;
  const bits = fractionBits === 52 ? 64 : 32;
  const f = BigInt(fractionBits);
  const bias = (1n << BigInt(bits - 2 - fractionBits)) - 1n;
  const corner = (): bigint => corners[random.below(corners.length)]!;
  /** Of a size near 1, with few bits of fraction now and then: sums and products that are exact. */
  const moderate = (): bigint => {
    const fraction = BigInt.asUintN(fractionBits, random.wide());
    const cut = BigInt(random.below(3) === 0 ? fractionBits - random.below(8) : 0);
    const exponent = bias + BigInt(random.below(60)) - 30n;
    return ((fraction >> cut) << cut) | (exponent << f) | (BigInt(random.below(2)) << BigInt(bits - 1));
  };
  const add = (...numbers: readonly [bigint, bigint, bigint]): void => {
    const [a1, a2, a3] = numbers.map((each) => BigInt.asUintN(64, box(each)));
    all.push({ a0: BigInt(random.below(32)), a1: a1!, a2: a2!, a3: a3!, offset: 0n });
  };
  for (const a of corners) for (let i = 0; i < 6; i++) add(a, corner(), corner());
  for (let i = 0; i < 40; i++) add(moderate(), corner(), moderate());
  for (let i = 0; i < 60; i++) add(moderate(), moderate(), moderate());
  for (let i = 0; i < 80; i++) add(...hardTriple(random, FLOAT_SHAPES[bits]));
  for (let i = 0; i < 60; i++)
    add(...([0, 1, 2].map(() => BigInt.asUintN(bits, random.wide())) as [bigint, bigint, bigint]));
  return [first, all.length - first];
}

function makeInputs(): Inputs {
  const random = new Random();
  const all: Input[] = [];
  const add = (a1: bigint, a2: bigint, aligned: boolean): void => {
    const offset = BigInt(aligned ? random.below(3) * 16 - 16 : random.below(33) - 16);
    all.push({ a0: random.wide(), a1, a2, a3: random.wide(), offset });
  };
  for (const a of CORNERS_64) for (const b of CORNERS_64) add(a, b, false);
  for (const a of MORE_CORNERS) add(a, random.wide(), false);
  for (let i = 0; i < 60; i++) add(random.wide(), random.wide(), false);
  const pairs = [0, all.length] as const;
  const doubles = addFloats(all, random, DOUBLE_CORNERS, 52, (bits) => bits);
  const singles = addFloats(all, random, SINGLE_CORNERS, 23, (bits) =>
    random.below(12) === 0 ? bits | (random.wide() << 32n) : bits | BOX,
  );
  const first = all.length;
  for (const a of [...CORNERS_64, ...MORE_CORNERS])
    for (let i = 0; i < 5; i++) add(a, CORNERS_64[random.below(14)]!, true);
  for (let i = 0; i < 20; i++) add(random.wide(), random.wide(), true);
  return { all, pairs, doubles, singles, aligned: [first, all.length - first] };
}

// ---------------------------------------------------------------------------------------- variants

/** What of a row a variant shows. */
export type Aspect = 'distinct' | 'equal' | 'zero' | 'corners' | 'page-crossing' | 'window-crossing' | 'fault';

const REGISTER_FIELDS = ['rd', 'rdc', 'rs1', 'rs1c', 'rs2', 'rs2c'] as const;
const isAtomic = (mnemonic: string): boolean => /^(lr|sc|amo)/.test(mnemonic);

/** Bytes that the row accesses; 0: none. */
export function accessBytes({ mnemonic }: Row): number {
  if (isAtomic(mnemonic)) return mnemonic.endsWith('.d') ? 8 : 4;
  const match = /^(?:c\.)?f?([ls])([bhwd])u?(sp)?$/.exec(mnemonic);
  return match ? { b: 1, h: 2, w: 4, d: 8 }[match[2]!]! : 0;
}

/** The field that counts bytes from the base of an access. */
export function displacementOf(row: Row): 'imm' | 'uimm' | null {
  const found = row.fields.find((field) => field.name === 'imm' || field.name === 'uimm');
  return found ? (found.name === 'imm' ? 'imm' : 'uimm') : null;
}

const addi = (rd: number, rs1: number, imm: number): RiscvLine => ['addi', { rd, rs1, imm }];
const move = (rd: number, rs1: number): RiscvLine => addi(rd, rs1, 0);

/** Rows that the programs cannot hold, and why; tests of their own execute them. */
export const UNIT_ONLY: ReadonlyMap<string, string> = new Map([
  ['ebreak', 'ends the program'],
  ['c.ebreak', 'as ebreak'],
  ['unimp', 'ends the program'],
  ['c.unimp', 'as unimp'],
  ['czero.eqz', 'qemu-user 7.2 has no Zicond'],
  ['czero.nez', 'as czero.eqz'],
]);

/**
 * Where qemu-user 7.2 does not do what the manual says; tests of these rows take the manual's word.
 */
export const QEMU_DIFFERENCES: readonly (readonly [row: string, difference: string])[] = [
  ['ctzw', 'counts zeros beyond the word when the low word is 0 (the manual: 32)'],
];

class Planner extends RowPlanner<Input, Aspect> {
  readonly inputs = makeInputs();

  constructor() {
    super();
    for (const row of executableRows()) this.plan(row);
  }

  private plan(row: Row): void {
    const { mnemonic } = row;
    if (UNIT_ONLY.has(mnemonic)) return;
    if (/^(c\.)?(b(eq|ne|ge|lt)u?z?)$/.test(mnemonic)) this.branch(row);
    else if (/^(jal|c\.j)$/.test(mnemonic)) this.jump(row);
    else if (/^(jalr|c\.jr|c\.jalr)$/.test(mnemonic)) this.indirect(row);
    else if (mnemonic.startsWith('csr')) this.csr(row);
    else if (mnemonic === 'ecall') {
      // A system call that does not exist: ENOSYS.
      this.add('ecall', [addi(A7, ZERO, 2000), ['ecall']], this.range(this.inputs.pairs), { aspects: ['corners'] });
    } else if (isAtomic(mnemonic)) this.atomic(row);
    else if (accessBytes(row) > 0) this.memory(row);
    else if (/^f(mv|sgnj)/.test(mnemonic)) this.floatMove(row);
    else if (row.fields.some((field) => /^f/.test(field.name))) this.float(row);
    else this.plain(row);
  }

  // -------------------------------------------------------------------------------- registers only

  private immediate(row: Row, name: string, turn: number): number {
    const field = row.fields.find((each) => each.name === name)!;
    const step = 2 ** field.lowBit;
    const span = 2 ** field.widthBits;
    const min = field.signed ? -span / 2 : 0;
    const max = min + span - step;
    const corners = [0, step, min, max, -step, 31, 32, 63, span / 4];
    const chosen = corners[turn] ?? min + this.random.below(span / step) * step;
    return Math.min(max, Math.max(min, chosen - (chosen % step)));
  }

  private plain(row: Row): void {
    const names = row.fields.map((field) => field.name);
    const others = names.filter((name) => !REGISTER_FIELDS.some((each) => each === name));
    // Target, first and second source.
    const patterns: { registers: readonly [number, number, number]; aspect: Aspect }[] = [
      { registers: [A0, A1, A2], aspect: 'distinct' },
      { registers: [A1, A1, A2], aspect: 'equal' },
      { registers: [A2, A1, A2], aspect: 'equal' },
      { registers: [A0, A1, A1], aspect: 'equal' },
      { registers: [A1, A1, A1], aspect: 'equal' },
      { registers: [ZERO, A1, A2], aspect: 'zero' },
      { registers: [A0, ZERO, A2], aspect: 'zero' },
      { registers: [A0, A1, ZERO], aspect: 'zero' },
      { registers: [A0, ZERO, ZERO], aspect: 'zero' },
      { registers: [ZERO, ZERO, ZERO], aspect: 'zero' },
      { registers: [SP, SP, A2], aspect: 'equal' },
      { registers: [A0, SP, A2], aspect: 'distinct' },
    ];
    const seen = new Set<number>();
    for (const [p, { registers, aspect }] of patterns.entries()) {
      const [d, first, second] = registers;
      const turns = others.length === 0 ? 1 : p === 0 ? 40 : 10;
      for (let turn = 0; turn < turns; turn++) {
        const operands: Record<string, number> = {};
        for (const name of names) {
          if (name === 'rd' || name === 'rdc') operands[name] = d;
          else if (name === 'rs1' || name === 'rs1c') operands[name] = first;
          else if (name === 'rs2' || name === 'rs2c') operands[name] = second;
          else operands[name] = this.immediate(row, name, turn);
        }
        if (!encodes(row, operands)) continue;
        const word = riscvTable.encode(row.mnemonic, operands);
        if (seen.has(word)) continue;
        seen.add(word);
        // Rows that name sp without a field, and those whose field is sp.
        const stack = row.syntax.includes("'sp'") || registers.includes(SP);
        const lines: RiscvLine[] = [
          ...(stack ? [move(SP, A1)] : []),
          [row.mnemonic, operands],
          ...(stack ? [move(T0, SP)] : []),
        ];
        const inputs = this.range(this.inputs.pairs, p === 0 ? undefined : 40);
        const aspects: Aspect[] = names.length === 0 ? ['corners'] : ['corners', aspect];
        if (row.mnemonic === 'ctzw' && first !== ZERO) {
          const qemuWrong = ({ a1 }: Input): boolean => BigInt.asUintN(32, a1) === 0n;
          this.add(row.mnemonic, lines, inputs, { aspects, qemuWrong });
        } else this.add(row.mnemonic, lines, inputs, { aspects });
      }
    }
  }

  private csr(row: Row): void {
    const source = row.fields.some((field) => field.name === 'zimm') ? 'zimm' : 'rs1';
    const patterns: (readonly [rd: number, source: number, aspect: Aspect])[] =
      source === 'rs1'
        ? [[A0, A1, 'distinct'], [A1, A1, 'equal'], [A0, ZERO, 'zero'], [ZERO, A1, 'zero'], [ZERO, ZERO, 'zero']]
        : [[A0, 0, 'distinct'], [A0, 1, 'distinct'], [A0, 31, 'distinct'], [ZERO, 21, 'zero'], [A1, 10, 'distinct']]; // prettier-ignore
    for (const number of [1, 2, 3]) {
      for (const [rd, value, aspect] of patterns) {
        const lines: RiscvLine[] = [
          ['csrrw', { rd: ZERO, csr: 3, rs1: A2 }],
          [row.mnemonic, { rd, csr: number, [source]: value }],
          ['csrrs', { rd: T0, csr: 3, rs1: ZERO }],
          ['csrrs', { rd: T1, csr: number, rs1: ZERO }],
          // Rounding modes that do not exist stay nowhere.
          ['csrrw', { rd: ZERO, csr: 3, rs1: ZERO }],
        ];
        this.add(row.mnemonic, lines, this.range(this.inputs.pairs), { aspects: [aspect, 'corners'] });
      }
    }
  }

  private floatMove(row: Row): void {
    const { mnemonic } = row;
    const into: RiscvLine[] = [
      ['fmv.d.x', { frd: 11, rs1: A1 }],
      ['fmv.d.x', { frd: 12, rs1: A2 }],
      ['fmv.d.x', { frd: 10, rs1: A3 }],
    ];
    const out: RiscvLine[] = [10, 11, 12].map((frs1, i) => ['fmv.x.d', { rd: [A5, T0, T1][i]!, frs1 }]);
    const names = row.fields.map((field) => field.name);
    const patterns: (readonly [d: number, first: number, second: number, aspect: Aspect])[] = [
      [10, 11, 12, 'distinct'], [11, 11, 12, 'equal'], [12, 11, 12, 'equal'], [10, 11, 11, 'equal'], [11, 11, 11, 'equal'],
      [0, 0, 0, 'zero'],
    ]; // prettier-ignore
    for (const [d, first, second, aspect] of patterns) {
      const operands: Record<string, number> = {};
      for (const name of names) {
        if (name === 'rd' || name === 'frd') operands[name] = d;
        else if (name === 'rs1' || name === 'frs1') operands[name] = first;
        else operands[name] = second;
      }
      // f0 is a register like the others.
      const zero: RiscvLine[] = d === 0 ? [['fmv.d.x', { frd: 0, rs1: A1 }]] : [];
      const zeroOut: RiscvLine[] = d === 0 ? [['fmv.x.d', { rd: A0, frs1: 0 }]] : [];
      const lines = [...into, ...zero, [mnemonic, operands] as const, ...out, ...zeroOut];
      this.add(mnemonic, lines, this.range(this.inputs.pairs), { aspects: [aspect, 'corners'] });
    }
  }

  /**
   * Every rounding mode, in the instruction and in `frm`, modes that do not exist excepted; flags
   * other than NX before from a0, and behind in t0. Every second variant has NX set before.
   */
  private float(row: Row): void {
    const { mnemonic } = row;
    const names = row.fields.map((field) => field.name);
    const isRounded = names.includes('rm');
    const isSingle =
      mnemonic === 'fcvt.d.s' || (mnemonic.endsWith('.s') && mnemonic !== 'fcvt.s.d') || /\.s\.(w|l)u?$/.test(mnemonic);
    const range = isSingle ? this.inputs.singles : this.inputs.doubles;
    const fromInteger = names.includes('rs1');
    const modes = isRounded
      ? [[7, 0], [7, 0], [7, 1], [7, 2], [7, 3], [7, 4], [0, 3], [0, 0], [1, 0], [1, 2], [2, 0], [3, 0], [4, 0]] as const
      : [[0, 0], [0, 0], [0, 2]] as const; // prettier-ignore
    const patterns: (readonly [d: number, first: number, second: number, third: number, aspect: Aspect])[] = [
      [10, 11, 12, 13, 'distinct'], [11, 11, 12, 13, 'equal'], [12, 11, 12, 11, 'equal'], [10, 11, 11, 12, 'equal'],
      [11, 11, 11, 11, 'equal'], [13, 12, 11, 13, 'equal'], [0, 0, 0, 0, 'zero'],
    ]; // prettier-ignore
    for (const [turn, [rm, frm]] of modes.entries()) {
      for (const [p, [d, first, second, third, aspect]] of patterns.entries()) {
        const operands: Record<string, number> = {};
        for (const name of names) {
          if (name === 'rm') operands[name] = rm;
          else if (name === 'rd' || name === 'frd') operands[name] = d;
          else if (name === 'rs1' || name === 'frs1') operands[name] = first;
          else operands[name] = name === 'frs2' ? second : third;
        }
        const numbers: RiscvLine[] = [A1, A2, A3].map((rs1, i) => ['fmv.d.x', { frd: 11 + i, rs1 }]);
        const lines: RiscvLine[] = [
          ...numbers,
          ['fmv.d.x', { frd: 0, rs1: A1 }],
          ['fmv.d.x', { frd: 10, rs1: A2 }],
          ['andi', { rd: T0, rs1: A0, imm: 0x1e }],
          ['ori', { rd: T0, rs1: T0, imm: (frm << 5) | (turn & 1) }],
          ['csrrw', { rd: ZERO, csr: 3, rs1: T0 }],
          [mnemonic, operands],
          ['csrrs', { rd: T0, csr: 3, rs1: ZERO }],
          ['csrrw', { rd: ZERO, csr: 3, rs1: ZERO }],
          ['fmv.x.d', { rd: T1, frs1: names.includes('frd') ? d : 10 }],
          ['fmv.x.d', { rd: A5, frs1: 12 }],
        ];
        const inputs = fromInteger
          ? this.range(this.inputs.pairs, p === 0 ? undefined : 30)
          : this.range(range, p === 0 ? undefined : 30);
        this.add(mnemonic, lines, inputs, { aspects: [aspect, 'corners'] });
      }
    }
  }

  // -------------------------------------------------------------------------------------- branches

  private branch(row: Row): void {
    const compressed = row.sizeBytes === 2;
    const patterns: (readonly [first: number, second: number, aspect: Aspect])[] = compressed
      ? [[A1, 0, 'distinct']]
      : [[A1, A2, 'distinct'], [A1, A1, 'equal'], [ZERO, A2, 'zero'], [A1, ZERO, 'zero'], [ZERO, ZERO, 'zero']]; // prettier-ignore
    for (const [first, second, aspect] of patterns) {
      for (const form of ['forward', 'back', 'far', 'after'] as const) {
        const operands = (off: number): Operands =>
          compressed ? { rs1c: first, off } : { rs1: first, rs2: second, off };
        const size = row.sizeBytes;
        const span = compressed ? 256 : 4096;
        let lines: RiscvLine[];
        switch (form) {
          case 'forward':
            lines = [[row.mnemonic, operands(size + 4)], addi(A0, A0, 1), addi(T0, A0, 2)];
            break;
          case 'after':
            // The comparison follows what writes its operands.
            lines = [addi(A1, A1, -1), [row.mnemonic, operands(size + 4)], addi(A0, A0, 1), addi(T0, A0, 2)];
            break;
          case 'back':
            // over the target, then back to it: taken -> +1, else +4
            lines = [
              ['jal', { rd: ZERO, off: 12 }],
              addi(A0, A0, 1),
              ['jal', { rd: ZERO, off: 4 + size + 4 }],
              [row.mnemonic, operands(-8)],
              addi(A0, A0, 4),
            ];
            break;
          case 'far': {
            // The longest displacement forward; what lies between is not executed.
            const gap = span - 2 - size - 4;
            const filler: RiscvLine[] = Array.from({ length: gap / 2 }, () => ['c.addi', { rd: A0, imm: 1 }]);
            lines = [
              [row.mnemonic, operands(span - 2)],
              ['jal', { rd: ZERO, off: 4 + gap }],
              ...filler,
              addi(T0, A0, 2),
            ];
            break;
          }
          default:
            form satisfies never;
            return;
        }
        this.add(row.mnemonic, lines, this.range(this.inputs.pairs, form === 'far' ? 40 : undefined), {
          aspects: [aspect, 'corners'],
        });
      }
    }
  }

  private jump(row: Row): void {
    const compressed = row.sizeBytes === 2;
    for (const [rd, aspect] of [
      [ZERO, 'zero'],
      [RA, 'distinct'],
      [T0, 'distinct'],
      [A5, 'distinct'],
      [S11, 'distinct'],
    ] as const) {
      if (compressed && rd !== ZERO) continue;
      const operands = (off: number): Operands => (compressed ? { off } : { rd, off });
      const after: RiscvLine[] = rd === ZERO ? [] : [move(A5, rd)];
      // The link of the routine itself is saved, where it is overwritten.
      const [before, end]: RiscvLine[][] = rd === S11 ? [[move(T6, S11)], [move(S11, T6)]] : [[], []];
      const size = row.sizeBytes;
      const forms: RiscvLine[][] = [
        [[row.mnemonic, operands(size + 4)], addi(A0, A0, 1), ...after],
        [['jal', { rd: ZERO, off: 12 }], addi(A0, A0, 1), ['jal', { rd: ZERO, off: 4 + size }], [row.mnemonic, operands(-8)], ...after],
      ]; // prettier-ignore
      for (const form of forms) {
        this.add(row.mnemonic, [...before!, ...form, ...end!], this.range(this.inputs.pairs), {
          aspects: [aspect, 'corners'],
        });
      }
    }
  }

  private indirect(row: Row): void {
    const { mnemonic } = row;
    const compressed = row.sizeBytes === 2;
    const patterns: (readonly [rd: number, rs1: number, aspect: Aspect])[] = [
      [ZERO, T1, 'zero'], [ZERO, RA, 'zero'], [RA, T1, 'distinct'], [T0, T1, 'distinct'], [T0, T0, 'equal'], [RA, RA, 'equal'], [T1, T1, 'equal'],
      [A5, T1, 'distinct'], [T0, RA, 'distinct'], [RA, T0, 'distinct'],
    ]; // prettier-ignore
    for (const [rd, rs1, aspect] of patterns) {
      if (compressed && rd !== (mnemonic === 'c.jr' ? ZERO : RA)) continue;
      for (const imm of compressed ? [0, 0, 0] : [0, 4, -4, 1, -1, 2047, -2048, 2, 16]) {
        for (const known of [true, false]) {
          const operands: Operands = compressed ? { rs1 } : { rd, rs1, imm };
          // auipc, addi (with an odd target now and then), and `add a5` where the value must not be
          // known
          const head: RiscvLine[] = [['auipc', { rd: rs1, upper: 0 }]];
          const middle: RiscvLine[] = known ? [] : [['add', { rd: rs1, rs1, rs2: A5 }]];
          const size = 4 + 4 + 4 * middle.length + row.sizeBytes + 4;
          const odd = imm % 2 === 0 ? this.random.below(2) : 1;
          const value = size - imm + (compressed || imm !== 0 ? odd : 0);
          const adjust: RiscvLine[] = [addi(rs1, rs1, Math.min(2047, value))];
          if (value > 2047) continue;
          const lines: RiscvLine[] = [
            ...head, ...adjust, ...middle, [mnemonic, operands], addi(A0, A0, 1),
            ...(rd === ZERO ? [] : [move(A5, rd)]), move(T0, rs1),
          ]; // prettier-ignore
          this.add(mnemonic, lines, this.range(this.inputs.pairs, 40), { aspects: [aspect, 'corners'] });
        }
      }
    }
  }

  // ---------------------------------------------------------------------------------------- memory

  private memory(row: Row): void {
    const { mnemonic } = row;
    const names = row.fields.map((field) => field.name);
    const floating = mnemonic.replace('c.', '').startsWith('f');
    const value = names.find((name) => /^(f?rdc?|f?rs2c?)$/.test(name))!;
    const stores = value.includes('rs2');
    const base = names.find((name) => name === 'rs1' || name === 'rs1c');
    const field = displacementOf(row)!;
    const spec = row.fields.find((each) => each.name === field)!;
    const step = 2 ** spec.lowBit;
    const max = spec.signed ? 2047 : 2 ** spec.widthBits - step;
    const displacements = [0, step, -step, max, spec.signed ? -2048 : max, 16, -1, 15, -16, 8, 4, 2].filter(
      (each, i, all) => all.indexOf(each) === i && each % step === 0 && (spec.signed || each >= 0),
    );
    const patterns: (readonly [value: number, aspect: Aspect])[] = floating
      ? [[10, 'distinct'], [0, 'zero'], [14, 'equal']]
      : [[stores ? A1 : A0, 'distinct'], [A4, 'equal'], [ZERO, 'zero'], ...(base === undefined ? [[SP, 'equal'] as const] : [])]; // prettier-ignore
    for (const [p, [rv, aspect]] of patterns.entries()) {
      for (const displacement of displacements) {
        const operands: Record<string, number> = { [value]: rv, [field]: displacement };
        if (base !== undefined) operands[base] = A4;
        if (!encodes(row, operands)) continue;
        const at = base === undefined ? SP : A4;
        // The base so that the access goes to a4 as it was.
        const lines: RiscvLine[] =
          displacement === -2048 ? [addi(at, A4, 2047), addi(at, at, 1)] : [addi(at, A4, -displacement)];
        if (floating && stores) lines.push(['fmv.d.x', { frd: rv, rs1: A1 }]);
        lines.push([mnemonic, operands]);
        if (floating && !stores) lines.push(['fmv.x.d', { rd: A0, frs1: rv }]);
        if (at === SP) lines.push(move(T0, SP));
        this.add(mnemonic, lines, this.range(this.inputs.pairs, p === 0 ? 60 : 30), {
          memory: true,
          aspects: [aspect, 'corners'],
          access: { bytes: accessBytes(row), place: ({ offset }) => offset },
        });
      }
    }
  }

  private atomic(row: Row): void {
    const { mnemonic } = row;
    const size = mnemonic.endsWith('.d') ? 'd' : 'w';
    const kind = mnemonic.slice(0, 2);
    const patterns: (readonly [rd: number, rs2: number, aspect: Aspect])[] = [
      [A0, A1, 'distinct'], [A1, A1, 'equal'], [A4, A1, 'equal'], [A0, A4, 'equal'], [A4, A4, 'equal'], [ZERO, A1, 'zero'], [A0, ZERO, 'zero'],
    ]; // prettier-ignore
    // What the memory holds: a corner value.
    const before: RiscvLine = ['sd', { rs2: A2, rs1: A4, imm: 0 }];
    const drop: RiscvLine = ['sc.w', { rd: T5, rs2: ZERO, rs1: S10, aq: 0, rl: 0 }];
    const reserve: RiscvLine = [`lr.${size}`, { rd: T0, rs1: A4, aq: 0, rl: 0 }];
    for (const [rd, rs2, aspect] of patterns) {
      if (kind === 'lr' && rs2 !== A1) continue;
      for (let ordering = 0; ordering < 4; ordering++) {
        const operands: Record<string, number> = { rd, rs1: A4, aq: ordering >> 1, rl: ordering & 1 };
        if (kind !== 'lr') operands['rs2'] = rs2;
        const line: RiscvLine = [mnemonic, operands];
        const forms: RiscvLine[][] = [[before, move(T1, A4), line]];
        if (kind === 'lr')
          forms.push([before, move(T6, A4), line, [`sc.${size}`, { rd: T0, rs2: A1, rs1: T6, aq: 0, rl: 0 }]]);
        if (kind === 'sc') {
          forms.length = 0;
          const again: RiscvLine = [mnemonic, { ...operands, rd: T1, rs1: T6 }];
          const keep = move(T6, A4);
          forms.push(
            [before, drop, line],
            [before, drop, reserve, line],
            [before, reserve, keep, line, again],
            [before, reserve, ['sb', { rs2: A1, rs1: A4, imm: 32 }], line],
            [before, reserve, ['xori', { rd: T1, rs1: T0, imm: 1 }], ['sb', { rs2: T1, rs1: A4, imm: 0 }], line],
            [before, reserve, addi(A4, A4, 16), line],
            [before, addi(T6, A4, 16), [`lr.${size}`, { rd: T1, rs1: T6, aq: 1, rl: 1 }], reserve, keep, line, again],
          );
        }
        for (const form of forms) {
          const inputs = this.range(this.inputs.aligned, kind === 'sc' ? 40 : aspect === 'distinct' ? undefined : 60);
          this.add(mnemonic, form, inputs, {
            memory: true,
            aspects: [aspect, 'corners'],
            access: { bytes: accessBytes(row), place: ({ offset }) => offset },
          });
        }
      }
    }
  }
}

// ------------------------------------------------------------------------------------- the program

const RESULT_REGISTERS = [A0, A1, A2, A3, A4, A5, T0, T1];
const RESULT_NAMES = ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 't0', 't1'];

const constant = (rd: number, value: number): RiscvLine[] => [
  ['lui', { rd, upper: ((value + 0x800) & ~0xfff) | 0 }],
  ['addiw', { rd, rs1: rd, imm: (value << 20) >> 20 }],
];

function driver(layout: Layout): readonly Item[] {
  const ld = (rd: number, rs1: number, imm: number): RiscvLine => ['ld', { rd, rs1, imm }];
  const sd = (rs2: number, rs1: number, imm: number): RiscvLine => ['sd', { rs2, rs1, imm }];
  const lwu = (rd: number, rs1: number, imm: number): RiscvLine => ['lwu', { rd, rs1, imm }];
  const copies = (from: number, fromAt: number, to: number, toAt: number): RiscvLine[] => {
    const out: RiscvLine[] = [];
    for (let i = 0; i < 2 * HALF; i += 8) out.push(ld(T3, from, fromAt + i), sd(T3, to, toAt + i));
    return out;
  };
  const branch = (mnemonic: 'beq' | 'bne', rs1: number, rs2: number, to: string): Item => ({
    to,
    branch: (off) => [mnemonic, { rs1, rs2, off }],
  });
  return [
    ...constant(S2, layout.results), ...constant(S3, layout.variants), ...constant(S4, layout.variantsEnd),
    ...constant(S5, MIDDLE), ...constant(S6, layout.pattern), ...constant(S7, layout.pointers), ...constant(S10, DATA),
    ...[RA, SP, 3, 4, T0, T1, 7, 8, 9, 16, A7, T4, T5, T6].map((register) => addi(register, ZERO, register * 0x31)),
    { label: 'variant' },
    lwu(S8, S3, 0), lwu(S9, S3, 4), lwu(T4, S3, 8), addi(S3, S3, 16),
    { label: 'case' },
    branch('beq', T4, ZERO, 'set'),
    ...copies(S6, 0, S5, -HALF),
    { label: 'set' },
    lwu(T3, S7, 0), addi(S7, S7, 4),
    ld(A0, T3, 0), ld(A1, T3, 8), ld(A2, T3, 16), ld(A3, T3, 24), ld(A4, T3, 32), ['add', { rd: A4, rs1: A4, rs2: S5 }],
    move(A5, ZERO), addi(T0, ZERO, 0x55), addi(T1, ZERO, 0x66),
    ['jalr', { rd: S11, rs1: S8, imm: 0 }],
    ...RESULT_REGISTERS.map((register, i) => sd(register, S2, 8 * i)),
    addi(S2, S2, 8 * RESULT_REGISTERS.length),
    branch('beq', T4, ZERO, 'next'),
    ...copies(S5, -HALF, S2, 0),
    addi(S2, S2, 2 * HALF),
    { label: 'next' },
    addi(S9, S9, -1),
    // The way back is longer than a branch reaches with the copies between; it is not here.
    branch('bne', S9, ZERO, 'case'),
    branch('bne', S3, S4, 'variant'),
    addi(A7, ZERO, 64), addi(A0, ZERO, 1), ...constant(A1, layout.results), ...constant(A2, layout.resultBytes), ['ecall'],
    addi(A7, ZERO, 94), addi(A0, ZERO, 5), ['ecall'],
  ]; // prettier-ignore
}

const MACHINE: BatchMachine<Input> = {
  table: riscvTable,
  // EF_RISCV_RVC, double-float ABI
  elf: { machine: 243, flags: 5, bits: 64, little: true },
  tables: { wordBytes: 4, entryBytes: 16, alignment: 8 },
  inputFields: INPUT_FIELDS,
  inputBytes: 40,
  recordBytes: ({ memory }) => 8 * RESULT_REGISTERS.length + (memory ? 2 * HALF : 0),
  driver,
  back: ['jalr', { rd: ZERO, rs1: S11, imm: 0 }],
};

// --------------------------------------------------------------------------------------- execution

export class Coverage extends RowCoverage<Aspect> {}

/** Runs all rows here and under qemu, and records what was executed. */
/** @param every  of the inputs of an instruction each so-many-th is tried */
export function runBatches(coverage: Coverage, every = 1): BatchResult {
  const planner = new Planner();
  const variants = thinned(planner.variants, every, ({ row }) => row);
  const inputs = planner.inputs.all;
  const program = buildProgram(MACHINE, inputs, variants);
  const theirs = runQemu([RISCV_QEMU, '-cpu', QEMU_CPU], program);
  const words = { names: RESULT_NAMES, bytes: 8, little: true } as const;
  const checking = rowChecking<Input, Aspect>(inputs, { words, recordBytes: MACHINE.recordBytes });
  return check(variants, runHere(riscv64, program), theirs, RISCV_QEMU, coverage, checking);
}

// ---------------------------------------------------------------------------------------- coverage

/** True when some choice of registers under the row's rules satisfies `accept`. */
function registersCan(row: Row, accept: (values: readonly number[]) => boolean): boolean {
  const names = row.fields.map((each) => each.name).filter((name) => REGISTER_FIELDS.some((each) => each === name));
  if (names.length === 0) return false;
  const rest: Record<string, number> = {};
  for (const field of row.fields) {
    if (!names.includes(field.name)) rest[field.name] = field.name === 'csr' ? 3 : 2 ** field.lowBit;
  }
  const choices = [ZERO, A0, A1, A2];
  for (let code = 0; code < choices.length ** names.length; code++) {
    const values = names.map((_, i) => choices[Math.floor(code / choices.length ** i) % choices.length]!);
    if (!accept(values)) continue;
    const operands = { ...rest };
    names.forEach((name, i) => (operands[name] = values[i]!));
    if (encodes(row, operands)) return true;
  }
  return false;
}

/** What a row must have shown. */
export function requiredAspects(row: Row): Aspect[] {
  const { mnemonic } = row;
  const out: Aspect[] = [];
  const registers = row.fields.some((field) => /^f?r[sd]\d?c?$/.test(field.name));
  if (/^(c\.)?(ebreak|unimp)$/.test(mnemonic)) return ['corners'];
  if (registers && !/^c\.j/.test(mnemonic)) out.push('distinct');
  if (registersCan(row, (values) => new Set(values).size < values.length && !values.includes(ZERO))) out.push('equal');
  // A link register of `c.jr` is no operand that can be zero.
  if (registersCan(row, (values) => values.includes(ZERO))) out.push('zero');
  out.push('corners');
  const bytes = accessBytes(row);
  if (bytes > 1 && !isAtomic(mnemonic)) out.push('page-crossing', 'window-crossing');
  if (bytes > 0) out.push('fault');
  return out;
}

/** What the record lacks: one text a row. */
export const missingCoverage = (coverage: Coverage): string[] =>
  executableRows().flatMap((row) => coverage.lacks(row.mnemonic, requiredAspects(row)));

/** The coverage table as text: a line for each row. */
export const coverageTable = (coverage: Coverage): string => coverage.table('row          ', (row) => row.padEnd(13));
