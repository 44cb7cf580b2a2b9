/**
 * Semantics of floating point for the lifter: by ops of both tiers where those decide, by the
 * helpers of `float-state.ts` otherwise. An op leaves its instruction and operands in slots, from
 * which FPSCR is put together when it is read.
 *
 * Source: Power ISA 2.07B, Book I, chapters 4 and 7.
 */
import type { BlockBuilder, Operand, Slot, Terminator } from '../machine/ir.js';
import { TOLD } from '../machine/float-ops.js';
import type { FloatName, ToldKind } from '../machine/float-ops.js';
import { SCALAR_ROWS, SIGN_ROWS, TEST_ROWS, VECTOR_ROWS, VECTOR_TESTS } from './float-rows.js';
import type { ScalarRow } from './float-rows.js';
import { LAST } from './float-state.js';
import type { FloatSlots } from './float-state.js';
import { POWER9_FLOATS, POWER9_TESTS } from './power9-floats.js';
import { statusSemantics } from './status-lift.js';
import { INTEGRAL, Numbers, vsxFloatSemantics } from './vector-float-lift.js';

/** What the semantics need of the instruction being lifted. */
interface Place {
  readonly b: BlockBuilder;
  readonly word: number;
  readonly next: bigint;
  readonly slow: boolean;
  readonly is64: boolean;
  setBits(field: number, bits: Operand): void;
}
interface Fields {
  n(name: string): number;
  has(name: string): boolean;
  flag(name: string): boolean;
}
type FloatLift = (x: Place, f: Fields) => Terminator | undefined;

const SIGN = 0x8000_0000_0000_0000n;
// --------------------------------------------------------------------------------------- semantics

const slowly: FloatLift = (x) => ({ kind: 'helper', name: 'float', argument: x.word, next: x.next });

/** What an instruction does in ops. */
type Fast = FastOp | FastOps;

/** Several ops, from and to bits of registers. */
interface FastOps {
  readonly compute: (numbers: Numbers, x: readonly Slot[]) => Slot;
  /** It leaves FR, FI and FPRF as they are. */
  readonly isSilent?: true;
}

/** An op, and what is negated on the way. */
interface FastOp {
  readonly op: FloatName;
  readonly negatesAddend?: boolean;
  readonly negates?: boolean;
  /** The result is an integer of the op; `zx32`: without a sign. */
  readonly integer?: 'plain' | 'zx32' | 'twice';
  /** The operand is an integer. */
  readonly fromInteger?: boolean;
}

/** What is told of the result later (`TOLD`), by the name of the instruction. */
function toldOf(name: string): number {
  const { kinds, single, negatesAddend, negates, unknown } = TOLD;
  const precision = (suffix: string): number => (suffix.startsWith('s') ? single : 0);
  const plain = /^(?:f|xs)(add|sub|mul|div|sqrt)(s|dp|sp|)$/.exec(name);
  if (plain) return kinds[plain[1] as ToldKind] | precision(plain[2]!);
  const fused = /^(?:f|xs)(n?)m(add|sub)[am]?(s|dp|sp|)$/.exec(name);
  if (fused) {
    const signs = (fused[1] === 'n' ? negates : 0) | (fused[2] === 'sub' ? negatesAddend : 0);
    return kinds.fma | signs | precision(fused[3]!);
  }
  if (/^(?:frsp|xsrsp)$/.test(name)) return kinds.round | single;
  if (/^(?:fri[nzpm]|xsrdpi[zpm]?)$/.test(name)) return kinds.value;
  if (/^(?:fcti[wd]u?z|xscvdp[su]x[wd]s)$/.test(name)) return kinds.cut;
  if (/^fcti[wd]$/.test(name)) return kinds.nearest;
  const integer = /^(?:fcfid(s|)|xscvsxd([ds])p)$/.exec(name);
  return integer ? kinds.integer | (integer[1] === 's' || integer[2] === 's' ? single : 0) : unknown;
}

function fastOf(name: string): Fast | null {
  const wide = /^(?:f|xs)(add|sub|mul|div|sqrt)(s|dp|sp|)$/.exec(name);
  const width = (suffix: string): '64' | '32w' => (suffix.startsWith('s') ? '32w' : '64');
  if (wide) return { op: `f${wide[1]!}${width(wide[2]!)}` as FloatName };
  const fused = /^(?:f|xs)(n?)m(add|sub)[am]?(s|dp|sp|)$/.exec(name);
  if (fused) {
    return {
      op: `fma${width(fused[3]!)}` as FloatName,
      negatesAddend: fused[2] === 'sub',
      negates: fused[1] === 'n',
    };
  }
  const integral = /^(?:fr|xsrdp)(in|i[cmpz]?)$/.exec(name);
  if (integral) {
    const how = INTEGRAL[integral[1] === 'in' ? 'i' : (integral[1] as keyof typeof INTEGRAL)];
    return { compute: (numbers, [b]) => numbers.integral(64, b!, how) };
  }
  return CONVERSIONS[name] ?? SEVERAL[name] ?? null;
}

/** The same bits in both words. */
const twice = (b: BlockBuilder, word: Slot): Slot => b.make('or', b.make('shl', word, 32n), b.make('zx32', word));
const reciprocal: FastOps = { compute: (numbers, [b]) => numbers.op('fdiv', 64, [numbers.one(64), b!]) };
const reciprocalRoot: FastOps = {
  compute: (numbers, [b]) => numbers.op('fdiv', 64, [numbers.one(64), numbers.op('fsqrt', 64, [b!])]),
};
const SEVERAL: Readonly<Record<string, FastOps>> = {
  xsmaxdp: { compute: (numbers, x) => numbers.op('fmax', 64, x), isSilent: true },
  xsmindp: { compute: (numbers, x) => numbers.op('fmin', 64, x), isSilent: true },
  xscvdpsp: { compute: (numbers, [b]) => twice(numbers.b, numbers.convert('fnarrow', b!)) },
  xscvspdp: {
    compute: (numbers, [x]) =>
      numbers.convert('fwiden', numbers.b.make('or', numbers.b.make('shr', x!, 32n), 0xffff_ffff_0000_0000n)),
  },
  fre: reciprocal,
  xsredp: reciprocal,
  frsqrte: reciprocalRoot,
  xsrsqrtedp: reciprocalRoot,
};

const CONVERSIONS: Readonly<Record<string, Fast>> = {
  frsp: { op: 'fnarroww' },
  xsrsp: { op: 'fnarroww' },
  fctiw: { op: 'fnearest64_s32', integer: 'plain' },
  fctiwz: { op: 'fzero64_s32', integer: 'plain' },
  fctiwuz: { op: 'fzero64_u32', integer: 'zx32' },
  fctid: { op: 'fnearest64_s64', integer: 'plain' },
  fctidz: { op: 'fzero64_s64', integer: 'plain' },
  fctiduz: { op: 'fzero64_u64', integer: 'plain' },
  xscvdpsxds: { op: 'fzero64_s64', integer: 'plain' },
  xscvdpuxds: { op: 'fzero64_u64', integer: 'plain' },
  xscvdpsxws: { op: 'fzero64_s32', integer: 'twice' },
  xscvdpuxws: { op: 'fzero64_u32', integer: 'twice' },
  fcfid: { op: 'fdouble_s64', fromInteger: true },
  fcfidu: { op: 'fdouble_u64', fromInteger: true },
  fcfids: { op: 'fsingle_s64w', fromInteger: true },
  fcfidus: { op: 'fsingle_u64w', fromInteger: true },
  xscvsxddp: { op: 'fdouble_s64', fromInteger: true },
  xscvuxddp: { op: 'fdouble_u64', fromInteger: true },
  xscvsxdsp: { op: 'fsingle_s64w', fromInteger: true },
  xscvuxdsp: { op: 'fsingle_u64w', fromInteger: true },
};

/** A comparison that leaves ones or zeros; one that chooses an operand. */
const mask = (numbers: Numbers, relation: Slot): Slot => numbers.b.make('sub', 0n, relation);
function chosen({ b }: Numbers, holds: Slot, [first, second]: readonly Slot[]): Slot {
  const d = b.temp();
  b.select(d, holds, first!, second!);
  return d;
}
const POWER9_SEVERAL: Readonly<Record<string, FastOps['compute']>> = {
  xscmpeqdp: (numbers, x) => mask(numbers, numbers.op('feq', 64, x)),
  xscmpgtdp: (numbers, [a, b]) => mask(numbers, numbers.op('flt', 64, [b!, a!])),
  xscmpgedp: (numbers, [a, b]) => mask(numbers, numbers.op('fle', 64, [b!, a!])),
  xsmaxcdp: (numbers, x) => chosen(numbers, numbers.op('fle', 64, [x[1]!, x[0]!]), x),
  xsmincdp: (numbers, x) => chosen(numbers, numbers.op('flt', 64, x), x),
  xsmaxjdp: (numbers, x) => numbers.op('fmax', 64, x),
  xsminjdp: (numbers, x) => numbers.op('fmin', 64, x),
};

/** The lift of rows over the slots of a machine. */
class FloatLifts {
  constructor(private readonly slots: FloatSlots) {}

  /** The first doubleword of a register: a slot of the file, or a copy. */
  private source(x: Place, f: Fields, field: string): Slot {
    const number = f.n(field);
    return field.startsWith('f') || number < 32
      ? this.slots.floats[number]!
      : x.b.make('high64', this.slots.vectors[number - 32]!);
  }

  private isFloat(slot: Slot): boolean {
    const [first] = this.slots.floats;
    return slot >= first! && slot < first! + 32;
  }

  private bits(x: Place, slot: Slot): Slot {
    return this.isFloat(slot) ? x.b.make('f64bits', slot) : slot;
  }

  /** Writes bits of a scalar result. */
  private write(x: Place, f: Fields, bits: Slot): void {
    const { b } = x;
    if (f.has('frt')) {
      b.to(this.slots.floats[f.n('frt')]!, 'bitsf64', bits);
      return;
    }
    const number = f.n('xt');
    if (number >= 32) b.to(this.slots.vectors[number - 32]!, 'join64', 0n, bits);
    else {
      b.to(this.slots.floats[number]!, 'bitsf64', bits);
      b.mov(this.slots.lower[number]!, 0n);
    }
  }

  /** The bits of what an op gives, from registers and their bits. */
  private computed(b: BlockBuilder, fast: FastOp, sources: readonly Slot[], bits: readonly Slot[]): Slot {
    const taken = fast.fromInteger === true ? [...bits] : [...sources];
    if (fast.negatesAddend === true) taken[2] = b.make('xor', bits[2]!, SIGN);
    const result = b.temp();
    b.float(result, fast.op, this.slots.mode, [taken[0]!, taken[1], taken[2]]);
    if (fast.negates === true) return b.make('xor', result, SIGN);
    if (fast.integer === 'zx32') return b.make('zx32', result);
    return fast.integer === 'twice' ? twice(b, result) : result;
  }

  /** `told` says what of `TOLD` the result is. */
  arithmetic(row: Pick<ScalarRow, 'sources'>, fast: Fast, told: number): FloatLift {
    const { mode, last, operands } = this.slots;
    return (x, f) => {
      if (x.slow || f.flag('rc')) return slowly(x, f);
      const { b } = x;
      const sources = row.sources.map((name) => this.source(x, f, name));
      const bits = sources.map((slot) => this.bits(x, slot));
      const value = 'op' in fast ? this.computed(b, fast, sources, bits) : fast.compute(new Numbers(b, mode), bits);
      this.write(x, f, value);
      if ('isSilent' in fast) return undefined;
      // A number that was rounded to an integer is rounded to itself.
      (told === TOLD.kinds.value ? [value] : bits).forEach((slot, i) => {
        b.mov(operands[i]!, slot);
      });
      const asked = BigInt(x.word >>> 0) | (BigInt(told) << LAST.kind);
      // Of the lower three bits of the mode the highest is that of `directed`.
      if (told === TOLD.kinds.add || told === TOLD.kinds.sub)
        b.to(last, 'or', b.make('shl', mode, LAST.kind + 5n), asked);
      else b.mov(last, asked);
      return undefined;
    };
  }

  /** Ordered numbers are compared by ops; with a NaN the helper says what is raised. */
  compare(first: string, second: string): FloatLift {
    const { mode, last } = this.slots;
    return (x, f) => {
      if (x.slow) return slowly(x, f);
      const { b } = x;
      const [one, two] = [this.source(x, f, first), this.source(x, f, second)];
      const [less, greater] = [b.temp(), b.temp()];
      b.float(less, 'flt64', mode, [one, two]);
      b.float(greater, 'flt64', mode, [two, one]);
      const either = b.make('or', b.make('shl', less, 3n), b.make('shl', greater, 2n));
      const equal = b.make('shl', b.make('xor', b.make('or', less, greater), 1n), 1n);
      const field = b.make('or', either, equal);
      const result = b.make('and', last, (0xffn << LAST.kind) | LAST.word);
      b.to(last, 'or', result, b.make('shl', field, LAST.relation));
      x.setBits(f.n('bf'), field);
      return undefined;
    };
  }

  /** CR1 where the instruction records. */
  private record(x: Place, f: Fields): void {
    if (f.flag('rc')) x.setBits(1, x.b.make('and', x.b.make('shr', this.slots.fpscr, 28n), 15n));
  }

  /** Signs, and copies. */
  sign(sources: readonly string[], change: (b: BlockBuilder, x: readonly Slot[]) => Slot): FloatLift {
    return (x, f) => {
      const bits = sources.map((name) => this.bits(x, this.source(x, f, name)));
      this.write(x, f, change(x.b, bits));
      this.record(x, f);
      return undefined;
    };
  }

  /** The third register where the first is a number not below zero, else the second. */
  readonly select: FloatLift = (x, f) => {
    const { b } = x;
    const [a, second, third] = ['fra', 'frb', 'frc'].map((name) => this.bits(x, this.source(x, f, name)));
    const isPositive = b.make('setleu', a!, 0x7ff0_0000_0000_0000n);
    const holds = b.make('or', isPositive, b.make('seteq', a!, SIGN));
    const d = b.temp();
    b.select(d, holds, third!, second!);
    this.write(x, f, d);
    this.record(x, f);
    return undefined;
  };

  /** Words of two registers: both first ones, or both second ones. */
  merge(odd: boolean): FloatLift {
    return (x, f) => {
      const { b } = x;
      const [a, c] = ['fra', 'frb'].map((name) => this.bits(x, this.source(x, f, name)));
      const upper = odd ? b.make('shl', a!, 32n) : b.make('and', a!, 0xffff_ffff_0000_0000n);
      this.write(x, f, b.make('or', upper, odd ? b.make('zx32', c!) : b.make('shr', c!, 32n)));
      return undefined;
    };
  }
}

/** Semantics of the rows, by name: those of both sizes, and those of VSX. */
export function floatSemantics(slots: FloatSlots): {
  readonly classic: readonly (readonly [string, FloatLift])[];
  readonly vsx: readonly (readonly [string, FloatLift])[];
  readonly power9: readonly (readonly [string, FloatLift])[];
} {
  const lifts = new FloatLifts(slots);
  const out: [string, FloatLift][] = [];
  for (const [name, row] of SCALAR_ROWS) {
    const fast = fastOf(name);
    out.push([name, fast ? lifts.arithmetic(row, fast, toldOf(name)) : slowly]);
  }
  for (const name of [...TEST_ROWS.keys(), ...VECTOR_ROWS.keys(), ...VECTOR_TESTS.keys()]) out.push([name, slowly]);
  for (const [name, lift] of vsxFloatSemantics(slots))
    out.push([name, (x, f) => (lift(x, f) ? undefined : slowly(x, f))]);
  // Only unordered numbers make a difference between these.
  for (const name of ['fcmpu', 'fcmpo']) out.push([name, lifts.compare('fra', 'frb')]);
  for (const name of ['xscmpudp', 'xscmpodp']) out.push([name, lifts.compare('xa', 'xb')]);
  for (const [name, { sources }] of SIGN_ROWS) {
    const change = (b: BlockBuilder, x: readonly Slot[]): Slot => {
      const value = x[x.length - 1]!;
      if (name.includes('neg')) return b.make('xor', value, SIGN);
      if (name.includes('nabs')) return b.make('or', value, SIGN);
      const magnitude = b.make('and', value, SIGN - 1n);
      return name.includes('abs') ? magnitude : b.make('or', magnitude, b.make('and', x[0]!, SIGN));
    };
    out.push([name, lifts.sign(sources, change)]);
  }
  out.push(['fmr', lifts.sign(['frb'], (_b, [value]) => value!)]);
  out.push(['fsel', lifts.select], ['fmrgew', lifts.merge(false)], ['fmrgow', lifts.merge(true)]);
  const status = statusSemantics(slots);
  for (const [name, lift] of status.classic) out.push([name, lift]);
  const power9: (readonly [string, FloatLift])[] = [
    ...[...POWER9_FLOATS.keys(), ...POWER9_TESTS.keys()].map((name) => [name, slowly] as const),
    ...Object.entries(POWER9_SEVERAL).map(
      ([name, compute]) => [name, lifts.arithmetic({ sources: ['xa', 'xb'] }, { compute, isSilent: true }, 0)] as const,
    ),
    ...status.power9,
  ];
  return {
    power9,
    classic: out.filter(([name]) => !name.startsWith('x')),
    vsx: out.filter(([name]) => name.startsWith('x')),
  };
}
