/**
 * A64 instructions in batches, as `ppc-batch.ts` has it: programs made from the instruction rows, run here and under qemu-aarch64, their
 * results compared byte by byte; and the record of what was executed, from which the coverage table is checked.
 *
 * For each **variant** (a row with chosen operands, in a short routine) and input the driver sets x3 to x6, x9 (an address), x10 and
 * NZCV, calls the routine and appends x3 to x7, x9, x10 and NZCV to a buffer; where the routine uses memory it gets 256 fresh
 * bytes around the end of a page and appends them too. Vector registers q3 to q5 are set from the input and stored into that memory.
 *
 * Words come from the rows' encoder, which other tests compare with objdump and Keystone.
 */
import { spawnSync } from './spawn.js';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { arm64 } from '../../src/arch-arm64/index.js';
import { arm64Table, encodeBitmask } from '../../src/arch-arm64/isa.js';
import { readElf } from '../../src/elf/read.js';
import { startProcess } from '../../src/emulator/index.js';
import type { Operands, Row } from '../../src/isa/table.js';

export const ARM64_QEMU = 'qemu-aarch64';

/** One instruction of the rows: mnemonic and operands by field name. */
export type A64Line = readonly [mnemonic: string, operands?: Readonly<Record<string, number>>];

export function a64Words(lines: readonly A64Line[]): Uint8Array {
  const out = new Uint8Array(lines.length * 4);
  const view = new DataView(out.buffer);
  lines.forEach(([mnemonic, operands], i) => {
    view.setUint32(4 * i, arm64Table.encode(mnemonic, operands ?? {}), true);
  });
  return out;
}

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

// ------------------------------------------------------------------------------------------------------------- inputs

export interface Input {
  /** x3 to x6; q3 is x3 and x4, q4 is x5 and x6. */
  readonly x: readonly [bigint, bigint, bigint, bigint];
  readonly nzcv: bigint;
  /** x9 minus the middle of the memory. */
  readonly offset: bigint;
  readonly x10: bigint;
}

class Random {
  constructor(private state: number) {}
  below(limit: number): number {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state = (this.state ^ (this.state << 5)) >>> 0;
    return this.state % limit;
  }
  wide(): bigint {
    const value = (BigInt(this.below(0xffff_fffb)) << 32n) | BigInt(this.below(0xffff_fffb));
    const kept = value >> BigInt(this.below(64));
    return this.below(3) === 0 ? BigInt.asUintN(64, -kept) : kept;
  }
}

/** Corner values of both widths: carries, signs, shift counts around the widths. */
const CORNERS = [
  0n, 1n, -1n, 1n << 63n, (1n << 63n) - 1n, 0x8000_0000n, 0x7fff_ffffn, -0x8000_0000n, 0xffff_ffffn, 1n << 32n, 31n, 32n, 63n, 64n,
  0x80n, 0x7fn,
]; // prettier-ignore

interface Inputs {
  readonly all: readonly Input[];
  /** Every corner with every corner, then random ones. */
  readonly pairs: number;
}

function makeInputs(): Inputs {
  const random = new Random(0x2545_f491);
  const all: Input[] = [];
  const add = (a: bigint, b: bigint): void => {
    all.push({
      x: [random.wide(), BigInt.asUintN(64, a), BigInt.asUintN(64, b), random.wide()],
      nzcv: BigInt(random.below(16)) << 28n,
      offset: BigInt(random.below(49) - 24),
      x10: BigInt(random.below(17) - 8),
    });
  };
  for (const a of CORNERS) for (const b of CORNERS) add(a, b);
  for (let i = 0; i < 80; i++) add(random.wide(), random.wide());
  return { all, pairs: all.length };
}

// ------------------------------------------------------------------------------------------------------------ variants

/** What of a row a variant shows. */
export type Aspect =
  'distinct' | 'equal' | 'zero' | 'stack' | 'corners' | 'sf=0' | 'sf=1' | 'page-crossing' | 'window-crossing' | 'fault';

export interface Variant {
  readonly row: string;
  readonly lines: readonly A64Line[] | ((address: number) => readonly A64Line[]);
  readonly memory: boolean;
  readonly aspects: readonly Aspect[];
  /** Indices of inputs. */
  readonly inputs: readonly number[];
  /** Bytes accessed, and where from the middle of the memory. */
  readonly access?: { readonly bytes: number; readonly place: (input: Input) => bigint };
}

const has = (row: Row, name: string): boolean => row.fields.some((field) => field.name === name);

export const isVectorRow = (row: Row): boolean =>
  row.fields.some((field) =>
    /^([fv][dnmat]|[bhsdq]t2?|b[dnm]|[hsd]d|v2d|v4s|v8h|e[dn]2?|high|ad|vt_\d)$/.test(field.name),
  );
/** Loads, stores and atomics; not prefetches. */
export const isMemoryRow = (row: Row): boolean =>
  (has(row, 'base') && !row.mnemonic.startsWith('prf')) || /^ldr.*-lit$/.test(row.mnemonic);
/** Accesses that must be aligned. */
export const isAlignedRow = (row: Row): boolean =>
  /^(st|ld)(l?x|ax|l?lr|lar|ar|apr)|^cas|^swp|^ld(add|clr|eor|set|[su]max|[su]min)/.test(row.mnemonic);

/** Bytes of the access in a form with these operands. */
export function accessBytes(row: Row, operands: Operands): number {
  const { mnemonic } = row;
  const q = operands['q'] === 1 ? 16 : 8;
  const structure = /^(?:ld|st)1-(\d)$/.exec(mnemonic);
  if (structure) return q * Number(structure[1]);
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

/** Vector registers out of and into memory around an instruction. */
const withVectors = (lines: readonly A64Line[]): A64Line[] => [
  loadQ(3, 28, 0),
  loadQ(4, 28, 16),
  loadQ(5, 22, 0),
  ...lines,
  storeQ(3, 21, 80),
  storeQ(4, 21, 96),
  storeQ(5, 21, 112),
];

const TARGETS = ['rd', 'xd', 'wd', 'rdsp', 'fd', 'vd', 'bd', 'hd', 'sd', 'dd', 'v2d', 'v4s', 'v8h', 'ed', 'rdq', 'ad'];
const SOURCES = [
  'rn', 'xn', 'wn', 'rnsp', 'xnsp', 'fn', 'vn', 'bn', 'en', 'en2', 'vw', 'rm', 'xm', 'wm', 'rmx', 'xmsp', 'fm', 'bm', 'ra', 'xa', 'high',
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

class Planner {
  readonly variants: Variant[] = [];
  readonly inputs = makeInputs();
  private readonly random = new Random(0x1234_5677);
  private turn = 0;

  constructor() {
    for (const row of executableRows()) this.plan(row);
  }

  private range(limit: number): number[] {
    const count = this.inputs.pairs;
    const start = limit >= count ? 0 : (this.turn += 7);
    return Array.from({ length: Math.min(limit, count) }, (_, i) => (start + 11 * i) % count);
  }

  private add(row: string, lines: Variant['lines'], count: number, rest: Partial<Variant> = {}): void {
    this.variants.push({ row, lines, inputs: this.range(count), memory: false, aspects: [], ...rest });
  }

  private encodes(row: Row, operands: Operands): boolean {
    try {
      return arm64Table.decode(arm64Table.encode(row.mnemonic, operands))?.row.mnemonic === row.mnemonic;
    } catch {
      return false;
    }
  }

  private plan(row: Row): void {
    const { mnemonic } = row;
    if (UNIT_ONLY.has(mnemonic)) return;
    if (row.flow !== 'next' && row.flow !== 'syscall') this.branch(row);
    else if (/^(pac|aut|xpac)/.test(mnemonic)) this.authentication(row);
    else if (['mrs', 'msr-reg', 'msr-dit', 'msr-ssbs', 'sys', 'svc'].includes(mnemonic)) this.system(row);
    else if (isMemoryRow(row)) this.memory(row);
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

  // ------------------------------------------------------------------------------------------- registers only

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
            valid = this.encodes(row, operands);
          }
          if (!valid) continue;
          const line: A64Line = [row.mnemonic, { ...operands }];
          const head = asksFlags ? FLAG_HEADS[(turn + p) % FLAG_HEADS.length]! : [];
          const stack = ['rdsp', 'rnsp'].some((name) => operands[name] === 31);
          let lines: A64Line[] = [...head, line];
          // The stack pointer is set and read; nothing goes through it.
          if (stack) lines = [addi(31, 4, 0), ...lines, addi(7, 31, 0), addi(31, 21, 0)];
          if (vector) lines = withVectors(lines);
          const aspects: Aspect[] = [
            ...(aspect && !(aspect === 'zero' && stack) ? [aspect] : []),
            ...(stack ? (['stack'] as const) : []),
            ...(p === 0 ? (['corners'] as const) : []),
            ...(sf === null ? [] : [sf === 1 ? ('sf=1' as const) : ('sf=0' as const)]),
          ];
          const count = p === 0 && others.length === 0 ? this.inputs.pairs : p === 0 ? 40 : 24;
          this.add(row.mnemonic, lines, vector ? Math.min(count, 100) : count, { aspects, memory: vector });
        }
      }
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
      for (const xd of [3, 4, 5, 31]) this.add(mnemonic, [[mnemonic, { xd }]], 200, { aspects });
    } else if (mnemonic === 'xpaclri') {
      const lines = [move(11, 30), move(30, 4), [mnemonic, {}], move(3, 30), move(30, 11)] as const;
      this.add(mnemonic, lines, 336, { aspects });
    } else if (has(row, 'xnsp')) {
      for (const xnsp of [5, 31, 3]) this.add(mnemonic, [user, ...both({ xd: 4, xnsp })], 100, { aspects });
      this.add(mnemonic, [user, ...both({ xd: 31, xnsp: 5 })], 20, { aspects });
    } else if (has(row, 'xd')) {
      this.add(mnemonic, [user, ...both({ xd: 4 })], 336, { aspects });
    } else {
      const target = mnemonic.endsWith('1716') ? 17 : 30;
      const lines = [move(11, 30), user, move(16, 5), move(target, 4), ...both({}), move(3, target), move(30, 11)];
      this.add(mnemonic, lines, 336, { aspects });
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
      this.add(mnemonic, [...number, ['svc', { imm16: 0 }], move(3, 0)], 336, { aspects });
    } else if (mnemonic === 'sys') {
      // The block of dc zva differs under qemu, and it refuses dc cvap: tests of their own. The others do nothing that is seen.
      for (const crm of [5, 10, 11, 14]) {
        this.add(mnemonic, [[mnemonic, { op1: 3, crn: 7, crm, op2: 1, optional_xt: 9 }]], 60, {
          aspects,
          memory: true,
        });
      }
    } else if (mnemonic === 'msr-dit' || mnemonic === 'msr-ssbs') {
      for (const crm of [1, 0]) {
        const name = mnemonic === 'msr-dit' ? SYSREG.dit : SYSREG.ssbs;
        this.add(mnemonic, [[mnemonic, { crm }], read(name, 3)], 120, { aspects });
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
          this.add(mnemonic, lines, 60, { aspects });
        } // prettier-ignore
      }
    }
  }

  // ------------------------------------------------------------------------------------------------------ branches

  private branch(row: Row): void {
    const { mnemonic } = row;
    const skip = addi(3, 3, 1);
    const save = move(11, 30);
    const restore: A64Line[] = [move(6, 30), move(30, 11)];
    const aspects: Aspect[] = ['distinct', 'zero', 'equal', 'corners', 'sf=0', 'sf=1'];
    if (mnemonic === 'b' || mnemonic === 'bl') {
      this.add(mnemonic, [save, [mnemonic, { off: 8 }], skip, ...restore], 336, { aspects });
    } else if (mnemonic === 'b-cond') {
      for (let cond = 0; cond < 16; cond++) {
        for (const head of FLAG_HEADS)
          this.add(mnemonic, [...head, [mnemonic, { cond, off: 8 }], skip], 24, { aspects });
      }
    } else if (/^cbn?z$/.test(mnemonic)) {
      for (const sf of [0, 1]) {
        for (const rt of [4, 5, 31]) this.add(mnemonic, [[mnemonic, { sf, rt, off: 8 }], skip], 336, { aspects });
        // Backwards, after a loop of one round.
        const loop: A64Line[] = [['movz', { sf: 1, hw: 0, imm16: 3, rd: 7 }], ['sub-imm', { sf, sh: 0, imm12: 1, rnsp: 7, rdsp: 7 }], skip]; // prettier-ignore
        if (mnemonic === 'cbnz') this.add(mnemonic, [...loop, [mnemonic, { sf, rt: 7, off: -8 }]], 20, { aspects });
      }
    } else if (/^tbn?z$/.test(mnemonic)) {
      for (let bit = 0; bit < 64; bit++) {
        this.add(mnemonic, [[mnemonic, { bit, rt: bit % 5 === 0 ? 31 : 4, off: 8 }], skip], 24, { aspects });
      }
    } else {
      // Through x6; the authenticated forms after signing it, which does nothing here. x30 for those that return.
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
        this.add(mnemonic, lines, mnemonic.startsWith('reta') ? 336 : 112, { aspects });
      }
    }
  }

  // -------------------------------------------------------------------------------------------------------- memory

  private memory(row: Row): void {
    const { mnemonic } = row;
    const names = row.fields.map((field) => field.name);
    const aligned = isAlignedRow(row);
    const vector = isVectorRow(row);
    const value = names.find((name) => /^([wxbhsdq]t|rt|rt_pair|vt(_\d)?)$/.test(name))!;
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
          valid = this.encodes(row, operands);
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
          this.add(mnemonic, vector ? withVectors(lines) : lines, 200, {
            memory: vector,
            aspects: ['distinct', 'corners', 'zero', 'equal', 'page-crossing'],
          });
          continue;
        }
        // A large displacement is taken off the base; an index stays small, and a 32-bit one is extended.
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
        lines.push(...(vector ? withVectors(body) : body));
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
        const inputs = this.range(p === 0 ? 40 : 24).filter((at) => {
          const where = place(this.inputs.all[at]!);
          return where >= -120n && where + BigInt(bytes) <= (vector ? 80n : 120n);
        });
        const aspects: Aspect[] = [
          ...(aspect ? [aspect] : []),
          ...(p === 0 ? (['corners'] as const) : []),
          ...(names.includes('sf') ? [operands['sf'] === 1 ? ('sf=1' as const) : ('sf=0' as const)] : []),
        ];
        this.variants.push({ row: mnemonic, lines, memory: true, aspects, inputs, access: { bytes, place } });
      }
    }
  }

  /** Stores with a reservation need one first, which may be lost; compares need something that is equal. */
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
export function planOf(): { readonly inputs: readonly Input[]; readonly variants: readonly Variant[] } {
  const planner = new Planner();
  return { inputs: planner.inputs.all, variants: planner.variants };
}

// -------------------------------------------------------------------------------------------------------- the program

const TEXT = 0x100_0000;
const DATA = 0x200_0000;
const RESULTS = 0x400_0000;
/** Middle of the memory of the routines: the end of a page. */
const MIDDLE = 0x300_1000;
const HALF = 128;
const INPUT_WORDS = 8;
const RESULT_REGISTERS = [3, 4, 5, 6, 7, 9, 10];
const RESULT_WORDS = RESULT_REGISTERS.length + 1;
const HEADER_BYTES = 0x200;

const recordBytes = (variant: Variant): number => 8 * RESULT_WORDS + (variant.memory ? 2 * HALF : 0);

/** Lines with labels: a branch names one in place of its displacement. */
type Item =
  A64Line | { readonly label: string } | { readonly branch: string; readonly with: Operands; readonly to: string };

function assemble(items: readonly Item[]): Uint8Array {
  const labels = new Map<string, number>();
  let at = 0;
  for (const item of items) {
    if ('label' in item) labels.set(item.label, at);
    else at += 4;
  }
  const lines: A64Line[] = [];
  for (const item of items) {
    if ('label' in item) continue;
    if ('branch' in item) lines.push([item.branch, { ...item.with, off: labels.get(item.to)! - 4 * lines.length }]);
    else lines.push(item);
  }
  return a64Words(lines);
}

function buildProgram(inputs: readonly Input[], variants: readonly Variant[]): Uint8Array {
  const load = (xt: number, base: number, pimm: number): A64Line => ['ldr-x-imm', { xt, base, pimm }];
  const store = (xt: number, base: number, pimm: number): A64Line => ['str-x-imm', { xt, base, pimm }];
  const copies = (from: number, fromAt: number, to: number, toAt: number): A64Line[] => {
    const out: A64Line[] = [];
    for (let i = 0; i < 2 * HALF; i += 8) out.push(load(12, from, fromAt + i), store(12, to, toAt + i));
    return out;
  };
  const resultBytes = variants.reduce((sum, each) => sum + each.inputs.length * recordBytes(each), 0);
  const pointers = variants.flatMap((each) => each.inputs);
  const patternAt = DATA + inputs.length * INPUT_WORDS * 8;
  const pointersAt = patternAt + 2 * HALF;
  const variantsAt = pointersAt + 8 * pointers.length;
  const dataBytes = variantsAt + 24 * variants.length - DATA;
  const eq = (rt: number): Operands => ({ sf: 1, rt });
  const base = 8 * RESULT_WORDS;
  const driver: Item[] = [
    ...constant(19, RESULTS), ...constant(20, variantsAt), ...constant(24, variantsAt + 24 * variants.length),
    ...constant(21, MIDDLE), ...constant(22, patternAt), ...constant(23, pointersAt), addi(31, 21, 0),
    // The memory begins below the middle.
    ['sub-imm', { sf: 1, sh: 0, imm12: HALF, rnsp: 21, rdsp: 18 }],
    ...[0, 1, 2, 7, 8, 11, 12, 13, 14, 15, 16, 17, 29].flatMap((register) => constant(register, register * 0x10101)),
    { label: 'variant' },
    load(26, 20, 0), load(25, 20, 8), load(27, 20, 16), addi(20, 20, 24),
    { label: 'case' },
    load(28, 23, 0), addi(23, 23, 8),
    { branch: 'cbz', with: eq(27), to: 'set' },
    ...copies(22, 0, 18, 0),
    { label: 'set' },
    load(7, 28, 32), writeFlags(7), load(9, 28, 40),
    ['add-reg', { sf: 1, shift: 0, rm: 21, amount: 0, rn: 9, rd: 9 }],
    load(10, 28, 48), load(3, 28, 0), load(4, 28, 8), load(5, 28, 16), load(6, 28, 24),
    ['blr', { xn: 26 }],
    ...RESULT_REGISTERS.map((register, i) => store(register, 19, 8 * i)),
    readFlags(12), store(12, 19, 8 * RESULT_REGISTERS.length),
    addi(19, 19, base),
    { branch: 'cbz', with: eq(27), to: 'next' },
    ...copies(18, 0, 19, 0),
    addi(19, 19, 2 * HALF),
    { label: 'next' },
    ['sub-imm', { sf: 1, sh: 0, imm12: 1, rnsp: 25, rdsp: 25 }],
    { branch: 'cbnz', with: eq(25), to: 'case' },
    ['sub-reg', { sf: 1, shift: 0, rm: 24, amount: 0, rn: 20, rd: 12 }],
    { branch: 'cbnz', with: eq(12), to: 'variant' },
    ...constant(8, 64), ...constant(0, 1), ...constant(1, RESULTS), ...constant(2, resultBytes), ['svc', { imm16: 0 }],
    ...constant(8, 94), ...constant(0, 5), ['svc', { imm16: 0 }],
  ]; // prettier-ignore
  const parts: Uint8Array[] = [assemble(driver)];
  let at = TEXT + HEADER_BYTES + parts[0]!.length;
  const addresses = variants.map((variant) => {
    const address = at;
    const lines = typeof variant.lines === 'function' ? variant.lines(address) : variant.lines;
    const words = a64Words([...lines, ['ret', { xn: 30 }]]);
    parts.push(words);
    at += words.length;
    return address;
  });
  const textBytes = at - TEXT;
  const dataOffset = Math.ceil(textBytes / 0x1000) * 0x1000;
  const bytes = new Uint8Array(dataOffset + dataBytes);
  const view = new DataView(bytes.buffer);
  let place = HEADER_BYTES;
  for (const part of parts) {
    bytes.set(part, place);
    place += part.length;
  }
  const word = (where: number, value: bigint): void => {
    view.setBigUint64(where, BigInt.asUintN(64, value), true);
  };
  inputs.forEach(({ x, nzcv, offset, x10 }, i) => {
    [...x, nzcv, offset, x10].forEach((value, k) => {
      word(dataOffset + (i * INPUT_WORDS + k) * 8, value);
    });
  });
  for (let i = 0; i < 2 * HALF; i++) bytes[dataOffset + patternAt - DATA + i] = (i * 73 + 11) & 255;
  pointers.forEach((each, i) => {
    word(dataOffset + pointersAt - DATA + 8 * i, BigInt(DATA + each * INPUT_WORDS * 8));
  });
  variants.forEach((each, i) => {
    const where = dataOffset + variantsAt - DATA + 24 * i;
    word(where, BigInt(addresses[i]!));
    word(where + 8, BigInt(each.inputs.length));
    word(where + 16, each.memory ? 1n : 0n);
  });
  // ELF header and four segments: text, data, the memory of the routines, results.
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  view.setUint16(16, 2, true);
  view.setUint16(18, 183, true);
  view.setUint32(20, 1, true);
  word(24, BigInt(TEXT + HEADER_BYTES));
  word(32, 64n);
  for (const [where, value] of [[52, 64], [54, 56], [56, 4], [58, 64]] as const) view.setUint16(where, value, true); // prettier-ignore
  const segments = [
    [5, 0, TEXT, textBytes, textBytes],
    [6, dataOffset, DATA, dataBytes, dataBytes],
    [6, 0, MIDDLE - 0x1000, 0, 0x2000],
    [6, 0, RESULTS, 0, resultBytes],
  ] as const;
  segments.forEach(([flags, from, address, file, memory], i) => {
    const where = 64 + i * 56;
    view.setUint32(where, 1, true);
    view.setUint32(where + 4, flags, true);
    [from, address, address, file, memory, 0x1000].forEach((each, k) => {
      word(where + 8 + 8 * k, BigInt(each));
    });
  });
  return bytes;
}

// ----------------------------------------------------------------------------------------------------------- execution

function runHere(bytes: Uint8Array): Buffer {
  const { emulation, abi } = arm64;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const chunks: Uint8Array[] = [];
  const onOutput = (_descriptor: number, part: Uint8Array): void => {
    chunks.push(part);
  };
  const stop = startProcess({ image: readElf(bytes), emulation, abi, onOutput }).run();
  if (stop.kind !== 'exit' || stop.code !== 5) {
    const text = JSON.stringify(stop, (_, value: unknown) =>
      typeof value === 'bigint' ? `0x${value.toString(16)}` : value,
    );
    throw new Error(`the program stopped: ${text}`);
  }
  return Buffer.concat(chunks);
}

function runQemu(bytes: Uint8Array): Buffer | null {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-batch-'));
  try {
    const path = join(folder, 'batch');
    writeFileSync(path, bytes, { mode: 0o755 });
    const result = spawnSync(ARM64_QEMU, ['-cpu', 'max', path], { maxBuffer: 1 << 28 });
    if (result.error) throw result.error;
    return result.status === 5 ? result.stdout : null;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What was executed of one row. */
export interface CoverageRecord {
  variants: number;
  cases: number;
  readonly aspects: Set<Aspect>;
}

export class Coverage {
  private readonly rows = new Map<string, CoverageRecord>();

  of(row: string): CoverageRecord {
    let found = this.rows.get(row);
    if (!found) {
      found = { variants: 0, cases: 0, aspects: new Set() };
      this.rows.set(row, found);
    }
    return found;
  }

  add(row: string, cases: number, aspects: Iterable<Aspect>): void {
    const record = this.of(row);
    record.variants++;
    record.cases += cases;
    for (const each of aspects) record.aspects.add(each);
  }
}

function differences(inputs: readonly Input[], variants: readonly Variant[], ours: Buffer, theirs: Buffer): string[] {
  const out: string[] = [];
  if (ours.length !== theirs.length) out.push(`${ours.length} bytes instead of ${theirs.length}`);
  let at = 0;
  const perRow = new Map<string, number>();
  const names = [...RESULT_REGISTERS.map((each) => `x${each}`), 'nzcv'];
  for (const variant of variants) {
    const size = recordBytes(variant);
    for (const index of variant.inputs) {
      const here = at;
      at += size;
      if (ours.compare(theirs, here, here + size, here, here + size) === 0) continue;
      const seen = perRow.get(variant.row) ?? 0;
      perRow.set(variant.row, seen + 1);
      if (seen >= 2 || out.length > 40) continue;
      const parts: string[] = [];
      for (let i = 0; 8 * i < size; i++) {
        const [got, want] = [ours, theirs].map((buffer) => buffer.readBigUInt64LE(here + 8 * i).toString(16));
        if (got !== want) parts.push(`${names[i] ?? `+${8 * (i - RESULT_WORDS)}`}=${got!} instead of ${want!}`);
      }
      const lines = typeof variant.lines === 'function' ? variant.lines(TEXT) : variant.lines;
      const { x, nzcv, offset, x10 } = inputs[index]!;
      const values = `x3..6=${x.map((each) => each.toString(16)).join(',')} nzcv=${nzcv >> 28n} offset=${offset} x10=${x10}`;
      out.push(`${JSON.stringify(lines)} with ${values}: ${parts.slice(0, 4).join(', ')}`);
    }
  }
  for (const [row, count] of perRow) out.push(`${row}: ${count} differences`);
  return out;
}

export interface BatchResult {
  readonly cases: number;
  readonly differences: readonly string[];
}

/** Rows whose variants qemu does not finish: how a bad variant is found. */
export function unfinished(rows: readonly string[]): string[] {
  const { inputs, variants } = planOf();
  return rows.filter(
    (row) =>
      runQemu(
        buildProgram(
          inputs,
          variants.filter((each) => each.row === row),
        ),
      ) === null,
  );
}

/** Runs all rows here and under qemu, and records what was executed. */
export function runBatches(coverage: Coverage, only?: RegExp): BatchResult {
  const { inputs, variants: all } = planOf();
  const variants = all.filter((each) => each.inputs.length > 0 && (only === undefined || only.test(each.row)));
  const program = buildProgram(inputs, variants);
  const theirs = runQemu(program);
  if (!theirs) return { cases: 0, differences: [`${ARM64_QEMU} did not finish`] };
  const out = differences(inputs, variants, runHere(program), theirs);
  let cases = 0;
  for (const each of variants) {
    cases += each.inputs.length;
    const aspects: Aspect[] = [...each.aspects];
    const { access } = each;
    const crosses =
      access &&
      each.inputs.some((index) => {
        const at = access.place(inputs[index]!);
        return at < 0n && at + BigInt(access.bytes) > 0n;
      });
    if (crosses) aspects.push('page-crossing');
    coverage.add(each.row, each.inputs.length, aspects);
  }
  return { cases, differences: out };
}

// ------------------------------------------------------------------------------------------------------------ coverage

/** Least number of cases of a row. */
export const MIN_CASES = 200;

/** Register operands of a row. */
const registersOf = (row: Row): readonly string[] =>
  row.fields.filter((field) => field.spec.kind === 'register').map((field) => field.name);

/** What a row must have shown. */
export function requiredAspects(row: Row): Aspect[] {
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
export function missingCoverage(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const row of executableRows()) {
    const record = coverage.of(row.mnemonic);
    const lacks: string[] = requiredAspects(row).filter((each) => !record.aspects.has(each));
    if (record.variants === 0) lacks.unshift('any test');
    else if (record.cases < MIN_CASES && !UNIT_ONLY.has(row.mnemonic))
      lacks.unshift(`${MIN_CASES - record.cases} cases`);
    if (lacks.length > 0) out.push(`${row.mnemonic}: ${lacks.join(', ')}`);
  }
  return out;
}
