/**
 * VMX as POWER8 has it, and the moves, permutations and logic of VSX, which 64-bit programs have.
 * What ops can do is here; `vector-rows.ts` and `vmx-floats.ts` compute the rest.
 *
 * A vector register is a number of 128 bits in a v128 slot, so element 0, the most significant, is
 * the last lane, and a little-endian quadword in memory is the slot as it stands. VSR 32 to 63 are
 * VR 0 to 31. Of VSR 0 to 31 the upper doubleword is a floating point register; the lower one has a
 * slot of its own.
 *
 * Source: Power ISA 2.07B, Book I, chapters 6 and 7.
 */
import type { BlockBuilder, Helper, HelperState, Operand, Slot, Terminator } from '../machine/ir.js';
import type { Operands } from '../isa/table.js';
import type { Endian } from '../units.js';
import { INTEGER_ROWS, VectorUnit } from './vector-rows.js';
import type { VmxRow } from './vector-rows.js';
import { FLOAT_ROWS } from './vmx-floats.js';

/** What the semantics need of the instruction being lifted. */
interface Place {
  readonly b: BlockBuilder;
  readonly word: number;
  readonly next: bigint;
  readonly width: { readonly endian: Endian };
  sized(name: 'add'): PureName;
  setBits(field: number, bits: Operand): void;
}
interface Fields {
  n(name: string): number;
  r(name: string): Slot;
  base(): Operand;
  flag(name: string): boolean;
  has(name: string): boolean;
}
type VectorLift = (x: Place, f: Fields) => Terminator | undefined;
type PureName = Parameters<BlockBuilder['to']>[1];

/** Slots that the semantics use. */
export interface VectorSlots {
  /** VR 0 to 31. */
  readonly vectors: readonly Slot[];
  /** Floating point registers, and the lower doublewords of the VSR that they are in. */
  readonly floats: readonly Slot[];
  readonly lower: readonly Slot[];
  /** VSCR as it differs from that of a process that starts (`startingVscr`). */
  readonly vscr: Slot;
  /** For values on their way. */
  readonly scratch: readonly [Slot, Slot, Slot, Slot, Slot, Slot];
}

const ONES = 0xffff_ffff_ffff_ffffn;
/** Index of no byte: a swizzle gives 0 there. */
const NONE = 0xff;
const BYTES = 0x0101_0101_0101_0101n;

function replicated(value: bigint, bits: number): bigint {
  let out = 0n;
  for (let at = 0; at < 64; at += bits) out |= BigInt.asUintN(bits, value) << BigInt(at);
  return out;
}

/** A number of 16 bytes, the first the least significant, as its halves. */
function halvesOf(bytes: readonly number[]): readonly [low: bigint, high: bigint] {
  const half = (from: number): bigint => {
    let out = 0n;
    for (let i = 0; i < 8; i++) out |= BigInt(bytes[from + i] ?? NONE) << BigInt(8 * i);
    return out;
  };
  return [half(0), half(8)];
}

/** One instruction's ops. Slots named `d` may be those of operands: they are written last. */
class Vectors {
  private readonly one: Slot;
  private readonly two: Slot;
  private readonly indices: Slot;
  readonly first: Slot;
  readonly second: Slot;
  readonly third: Slot;

  constructor(
    readonly b: BlockBuilder,
    private readonly slots: VectorSlots,
  ) {
    [this.one, this.two, this.indices, this.first, this.second, this.third] = slots.scratch;
  }

  /** A vector of two numbers, in a slot that the next call takes again. */
  constant(low: bigint, high = low): Slot {
    this.b.to(this.indices, 'join64', low, high);
    return this.indices;
  }

  /** VSR `number`; of the first 32 a copy in `into`. */
  read(number: number, into: Slot): Slot {
    if (number >= 32) return this.slots.vectors[number - 32]!;
    this.b.to(into, 'join64', this.slots.lower[number]!, this.upper(number));
    return into;
  }

  /** Doublewords of VSR `number`: element 0, and element 1. */
  upper(number: number): Slot {
    const { vectors, floats } = this.slots;
    return number < 32 ? this.b.make('f64bits', floats[number]!) : this.b.make('high64', vectors[number - 32]!);
  }

  low(number: number): Slot {
    const { vectors, lower } = this.slots;
    return number < 32 ? lower[number]! : this.b.make('low64', vectors[number - 32]!);
  }

  /** Writes both doublewords. */
  write(number: number, upper: Operand, lower: Operand): void {
    const { b, slots } = this;
    if (number >= 32) {
      b.to(slots.vectors[number - 32]!, 'join64', lower, upper);
      return;
    }
    const value = b.temp();
    b.mov(value, upper);
    b.mov(slots.lower[number]!, lower);
    b.to(slots.floats[number]!, 'bitsf64', value);
  }

  writeVector(number: number, value: Slot): void {
    if (number >= 32) this.b.to(this.slots.vectors[number - 32]!, 'mov128', value);
    else this.write(number, this.b.make('high64', value), this.b.make('low64', value));
  }

  /** d := bytes of `a`, and of `c` as 16 to 31, by their numbers in storage order of element 0. */
  pick(d: Slot, a: Slot, c: Slot, bytes: readonly number[]): void {
    // Byte i of the elements is byte 15 - i of the number.
    const ofNumber = [...bytes].reverse();
    const [low, high] = halvesOf(ofNumber.map((each) => (each < 16 ? 15 - each : NONE)));
    this.b.to(this.one, 'vswizzle', a, this.constant(low, high));
    const [lowOther, highOther] = halvesOf(ofNumber.map((each) => (each < 16 ? NONE : 31 - each)));
    this.b.to(this.two, 'vswizzle', c, this.constant(lowOther, highOther));
    this.b.to(d, 'or128', this.one, this.two);
  }

  /** The same where the numbers are in a vector. */
  permute(d: Slot, a: Slot, c: Slot, by: Slot): void {
    const { b, one, two, third } = this;
    b.to(third, 'and128', by, this.constant(31n * BYTES));
    b.to(two, 'vsub8', this.constant(15n * BYTES), third);
    // Numbers of the other operand are negative here, and above 15 there: nothing is there.
    b.to(one, 'vswizzle', a, two);
    b.to(two, 'vsub8', this.constant(31n * BYTES), third);
    b.to(two, 'vswizzle', c, two);
    b.to(d, 'or128', one, two);
  }

  not(d: Slot, a: Slot): void {
    this.b.to(d, 'xor128', a, this.constant(ONES));
  }

  /** Unsigned a > c, of elements up to 4 bytes: not a <= c. */
  above(d: Slot, a: Slot, c: Slot, log2: number): void {
    const { b, one, two } = this;
    if (log2 === 3) {
      const sign = this.constant(1n << 63n);
      b.to(one, 'xor128', a, sign);
      b.to(two, 'xor128', c, sign);
      b.to(d, 'vgt64', one, two);
      return;
    }
    b.to(one, (['vmaxu8', 'vmaxu16', 'vmaxu32'] as const)[log2]!, a, c);
    b.to(one, EQUAL[log2]!, one, c);
    this.not(d, one);
  }
}

const EQUAL = ['veq8', 'veq16', 'veq32', 'veq64'] as const;
const GREATER = ['vgt8', 'vgt16', 'vgt32', 'vgt64'] as const;

type Binary = (v: Vectors, d: Slot, a: Slot, c: Slot) => void;
const op =
  (name: PureName): Binary =>
  ({ b }, d, a, c) => {
    b.to(d, name, a, c);
  };

/** Operations on all 128 bits. */
const LOGICAL: Readonly<Record<string, Binary>> = {
  and: op('and128'),
  andc: op('andnot128'),
  or: op('or128'),
  xor: op('xor128'),
  nor: (v, d, a, c) => {
    v.b.to(d, 'or128', a, c);
    v.not(d, d);
  },
  nand: (v, d, a, c) => {
    v.b.to(d, 'and128', a, c);
    v.not(d, d);
  },
  eqv: (v, d, a, c) => {
    v.b.to(d, 'xor128', a, c);
    v.not(d, d);
  },
  orc: (v, d, a, c) => {
    v.b.to(d, 'andnot128', c, a);
    v.not(d, d);
  },
};

/** Elements of `bytes` bytes, a and c in turn, of the first or second halves. */
function merged(bytes: number, half: 0 | 1): number[] {
  return Array.from({ length: 16 }, (_, i) => {
    const element = Math.floor(i / (2 * bytes));
    const other = Math.floor(i / bytes) % 2;
    return 16 * other + 8 * half + element * bytes + (i % bytes);
  });
}

const vr = (f: Fields, name: string): number => 32 + f.n(name);

/** Address of an access by register and index. */
function indexed(x: Place, f: Fields): Slot {
  const base = f.base();
  return typeof base === 'bigint' ? f.r('rb') : x.b.make(x.sized('add'), base, f.r('rb'));
}

const load64 = (x: Place, at: Slot, offset: bigint): Slot => {
  const d = x.b.temp();
  x.b.load(x.width.endian === 'little' ? 'ld64' : 'ld64be', d, at, offset);
  return d;
};
const store64 = (x: Place, value: Operand, at: Slot, offset: bigint): void => {
  x.b.store(x.width.endian === 'little' ? 'st64' : 'st64be', value, at, offset);
};
const load32 = (x: Place, at: Slot, offset: bigint, signed = false): Slot => {
  const d = x.b.temp();
  const little = signed ? 'ld32s' : 'ld32u';
  const big = signed ? 'ld32sbe' : 'ld32ube';
  x.b.load(x.width.endian === 'little' ? little : big, d, at, offset);
  return d;
};

const from = (start: number) => Array.from({ length: 16 }, (_, i) => start + i);
const splat = (bytes: number, element: number): number[] =>
  Array.from({ length: 16 }, (_, i) => element * bytes + (i % bytes));

/** Bits of a doubleword as a matrix of 8 by 8, transposed. */
function transposed(b: Place['b'], value: Slot): Slot {
  let bits = value;
  for (const [shift, mask] of [
    [7n, 0x00aa_00aa_00aa_00aan],
    [14n, 0x0000_cccc_0000_ccccn],
    [28n, 0x0000_0000_f0f0_f0f0n],
  ] as const) {
    const moved = b.make('and', b.make('xor', bits, b.make('shr', bits, shift)), mask);
    bits = b.make('xor', b.make('xor', bits, moved), b.make('shl', moved, shift));
  }
  return bits;
}

/** Semantics of the rows, by name. */
export function vectorSemantics(slots: VectorSlots): readonly (readonly [string, VectorLift])[] {
  return new VectorSemantics(slots).all();
}

class VectorSemantics {
  private readonly out: [string, VectorLift][] = [];

  constructor(private readonly slots: VectorSlots) {}

  all(): readonly (readonly [string, VectorLift])[] {
    const add: Add = (name, emit) => {
      this.add(name, emit);
    };
    this.vmxAccesses();
    this.vsxAccesses();
    this.moves();
    this.permutations();
    this.packing();
    this.logical();
    this.sums();
    this.gathering();
    shiftSemantics(add);
    doublewordSemantics(add);
    saturatingSemantics(add, this.slots.vscr);
    for (const name of ROWS.keys()) this.out.push([name, computed]);
    return this.out;
  }

  private add(name: string, emit: (v: Vectors, x: Place, f: Fields) => void): void {
    this.out.push([
      name,
      (x, f): undefined => {
        emit(new Vectors(x.b, this.slots), x, f);
      },
    ]);
  }

  /** Loads and stores of VMX, and the shifts for those that are not aligned. */
  private vmxAccesses(): void {
    for (const name of ['lvx', 'lvxl']) {
      this.add(name, (v, x, f) => {
        const at = x.b.make('and', indexed(x, f), -16n & ONES);
        // The doubleword at the lower address is the lower one in little-endian order only.
        const [near, far] = [load64(x, at, 0n), load64(x, at, 8n)];
        const isLittle = x.width.endian === 'little';
        v.write(vr(f, 'vrt'), isLittle ? far : near, isLittle ? near : far);
      });
    }
    for (const name of ['stvx', 'stvxl']) {
      this.add(name, (v, x, f) => {
        const at = x.b.make('and', indexed(x, f), -16n & ONES);
        const halves = [v.low(vr(f, 'vrs')), v.upper(vr(f, 'vrs'))] as const;
        const isLittle = x.width.endian === 'little';
        store64(x, halves[isLittle ? 0 : 1], at, 0n);
        store64(x, halves[isLittle ? 1 : 0], at, 8n);
      });
    }
    for (const [name, left] of [
      ['lvsl', true],
      ['lvsr', false],
    ] as const) {
      this.add(name, (v, x, f) => {
        const shift = x.b.make('mul', x.b.make('and', indexed(x, f), 15n), BYTES);
        const numbers = halvesOf(Array.from({ length: 16 }, (_, j) => (left ? 15 - j : 31 - j)));
        x.b.to(v.first, 'join64', numbers[0], numbers[1]);
        x.b.to(v.second, 'join64', shift, shift);
        x.b.to(v.first, left ? 'vadd8' : 'vsub8', v.first, v.second);
        v.writeVector(vr(f, 'vrt'), v.first);
      }); // prettier-ignore
    }
  }

  /** Loads and stores of VSX. */
  private vsxAccesses(): void {
    this.add('lxvd2x', (v, x, f) => {
      const at = indexed(x, f);
      const [upper, lower] = [load64(x, at, 0n), load64(x, at, 8n)];
      v.write(f.n('xt'), upper, lower);
    });
    this.add('stxvd2x', (v, x, f) => {
      const at = indexed(x, f);
      const [upper, lower] = [v.upper(f.n('xs')), v.low(f.n('xs'))];
      store64(x, upper, at, 0n);
      store64(x, lower, at, 8n);
    });
    this.add('lxvw4x', (v, x, f) => {
      const at = indexed(x, f);
      const words = [0n, 4n, 8n, 12n].map((offset) => load32(x, at, offset));
      const both = (first: Slot, second: Slot): Slot => x.b.make('or', x.b.make('shl', first, 32n), second);
      v.write(f.n('xt'), both(words[0]!, words[1]!), both(words[2]!, words[3]!));
    });
    this.add('stxvw4x', (v, x, f) => {
      const at = indexed(x, f);
      const halves = [v.upper(f.n('xs')), v.low(f.n('xs'))];
      const name = x.width.endian === 'little' ? 'st32' : 'st32be';
      halves.forEach((half, i) => {
        x.b.store(name, x.b.make('shr', half, 32n), at, BigInt(8 * i));
        x.b.store(name, half, at, BigInt(8 * i + 4));
      });
    });
    this.add('lxvdsx', (v, x, f) => {
      const value = load64(x, indexed(x, f), 0n);
      v.write(f.n('xt'), value, value);
    });
    // Of scalars the other doubleword is undefined: it becomes 0.
    this.add('lxsdx', (v, x, f) => {
      v.write(f.n('xt'), load64(x, indexed(x, f), 0n), 0n);
    });
    this.add('lxsiwzx', (v, x, f) => {
      v.write(f.n('xt'), load32(x, indexed(x, f), 0n), 0n);
    });
    this.add('lxsiwax', (v, x, f) => {
      v.write(f.n('xt'), load32(x, indexed(x, f), 0n, true), 0n);
    });
    this.add('stxsdx', (v, x, f) => {
      store64(x, v.upper(f.n('xs')), indexed(x, f), 0n);
    });
    this.add('stxsiwx', (v, x, f) => {
      x.b.store(x.width.endian === 'little' ? 'st32' : 'st32be', v.upper(f.n('xs')), indexed(x, f), 0n);
    });
  }

  /** Single elements of memory, and moves from and to general registers. */
  private moves(): void {
    ELEMENTS.forEach(([letter], log2) => {
      this.add(`lve${letter}x`, (v, x, f) => {
        loadElement(v, x, f, indexed(x, f), log2);
      });
      this.add(`stve${letter}x`, (v, x, f) => {
        storeElement(v, x, f, indexed(x, f), log2);
      });
    });
    this.add('mtvsrd', (v, _x, f) => {
      v.write(f.n('xt'), f.r('ra'), 0n);
    });
    this.add('mtvsrwa', (v, x, f) => {
      v.write(f.n('xt'), x.b.make('sx32', f.r('ra')), 0n);
    });
    this.add('mtvsrwz', (v, x, f) => {
      v.write(f.n('xt'), x.b.make('zx32', f.r('ra')), 0n);
    });
    this.add('mfvsrd', (v, x, f) => {
      x.b.mov(f.r('ra'), v.upper(f.n('xs')));
    });
    this.add('mfvsrwz', (v, x, f) => {
      x.b.to(f.r('ra'), 'zx32', v.upper(f.n('xs')));
    });
    this.add('xxpermdi', (v, _x, f) => {
      const [a, c, mode] = [f.n('xa'), f.n('xb'), f.n('dm')];
      v.write(f.n('xt'), (mode & 2) === 0 ? v.upper(a) : v.low(a), (mode & 1) === 0 ? v.upper(c) : v.low(c));
    });
  }

  /** Two VSR, bytes by their numbers. */
  private picked(name: string, of: 'v' | 'x', bytes: (f: Fields) => readonly number[]): void {
    this.add(name, (v, _x, f) => {
      const number = (field: string): number => (of === 'v' ? vr(f, `vr${field}`) : f.n(`x${field}`));
      const second = v.read(number('b'), v.second);
      const first = f.has(of === 'v' ? 'vra' : 'xa') ? v.read(number('a'), v.first) : second;
      v.pick(v.first, first, second, bytes(f));
      v.writeVector(number('t'), v.first);
    });
  }

  private permutations(): void {
    this.picked('vsldoi', 'v', (f) => from(f.n('shb')));
    this.picked('xxsldwi', 'x', (f) => from(4 * f.n('shw')));
    this.picked('vspltb', 'v', (f) => splat(1, f.n('uim4')));
    this.picked('vsplth', 'v', (f) => splat(2, f.n('uim3')));
    this.picked('vspltw', 'v', (f) => splat(4, f.n('uim2')));
    this.picked('xxspltw', 'x', (f) => splat(4, f.n('uim2')));
    for (const [letter, bytes] of [['b', 1], ['h', 2], ['w', 4]] as const) {
      this.picked(`vmrgh${letter}`, 'v', () => merged(bytes, 0));
      this.picked(`vmrgl${letter}`, 'v', () => merged(bytes, 1));
      const bits = 8 * bytes;
      this.add(`vspltis${letter}`, (v, _x, f) => {
        const value = replicated(BigInt(f.n('sim')), bits);
        v.write(vr(f, 'vrt'), value, value);
      });
    } // prettier-ignore
    this.picked('xxmrghw', 'x', () => merged(4, 0));
    this.picked('xxmrglw', 'x', () => merged(4, 1));
    this.add('vperm', (v, _x, f) => {
      v.permute(v.first, v.read(vr(f, 'vra'), v.first), v.read(vr(f, 'vrb'), v.second), v.read(vr(f, 'vrc'), v.third));
      v.writeVector(vr(f, 'vrt'), v.first);
    });
  }

  private packing(): void {
    ELEMENTS.forEach(([letter, bytes], log2) => {
      const element = ['h', 'w', 'd'][log2]!;
      this.picked(`vpku${element}um`, 'v', () => from(0).map((i) => i + bytes * (1 + Math.floor(i / bytes))));
      const widen = (['vsx8', 'vsx16', 'vsx32'] as const)[log2]!;
      this.add(`vupkls${letter}`, (v, { b }, f) => {
        b.to(v.first, widen, v.read(vr(f, 'vrb'), v.first));
        v.writeVector(vr(f, 'vrt'), v.first);
      });
      this.add(`vupkhs${letter}`, (v, { b }, f) => {
        b.to(v.second, 'join64', v.upper(vr(f, 'vrb')), 0n);
        b.to(v.first, widen, v.second);
        v.writeVector(vr(f, 'vrt'), v.first);
      });
    });
    for (const [name, first] of [['vmrgew', 0], ['vmrgow', 4]] as const) {
      this.picked(name, 'v', () => from(0).map((at) => 8 * Math.floor(at / 8) + first + (at % 4) + (at % 8 < 4 ? 0 : 16)));
    } // prettier-ignore
  }

  private binary(name: string, of: 'v' | 'x', compute: Binary): void {
    this.add(name, (v, _x, f) => {
      const number = (field: string): number => (of === 'v' ? vr(f, `vr${field}`) : f.n(`x${field}`));
      compute(v, v.first, v.read(number('a'), v.first), v.read(number('b'), v.second));
      v.writeVector(number('t'), v.first);
    });
  }

  private logical(): void {
    for (const [name, compute] of Object.entries(LOGICAL)) {
      this.binary(name === 'eqv' ? 'veqv' : `v${name}`, 'v', compute);
      this.binary(`xxl${name}`, 'x', compute);
    }
    for (const of of ['v', 'x'] as const) {
      this.add(of === 'v' ? 'vsel' : 'xxsel', (v, { b }, f) => {
        const number = (field: string): number => (of === 'v' ? vr(f, `vr${field}`) : f.n(`x${field}`));
        const by = v.read(number('c'), v.third);
        b.to(v.second, 'and128', v.read(number('b'), v.second), by);
        b.to(v.first, 'andnot128', v.read(number('a'), v.first), by);
        b.to(v.first, 'or128', v.first, v.second);
        v.writeVector(number('t'), v.first);
      });
    }
  }

  /** Sums, extremes and comparisons of elements. */
  private sums(): void {
    const LETTERS = ['b', 'h', 'w', 'd'] as const;
    for (const [log2, letter] of LETTERS.entries()) {
      const bits = (8 << log2) as 8 | 16 | 32 | 64;
      this.binary(`vaddu${letter}m`, 'v', op(`vadd${bits}`));
      this.binary(`vsubu${letter}m`, 'v', op(`vsub${bits}`));
      if (bits !== 64) {
        for (const which of ['max', 'min'] as const) {
          this.binary(`v${which}s${letter}`, 'v', op(`v${which}s${bits}`));
          this.binary(`v${which}u${letter}`, 'v', op(`v${which}u${bits}`));
        }
      }
      this.compared(`vcmpequ${letter}`, op(EQUAL[log2]!));
      this.compared(`vcmpgts${letter}`, op(GREATER[log2]!));
      this.compared(`vcmpgtu${letter}`, (v, d, a, c) => {
        v.above(d, a, c, log2);
      });
    }
  }

  /** A comparison of elements, which may write CR6. */
  private compared(name: string, compute: Binary): void {
    this.add(name, (v, x, f) => {
      compute(v, v.first, v.read(vr(f, 'vra'), v.first), v.read(vr(f, 'vrb'), v.second));
      v.writeVector(vr(f, 'vrt'), v.first);
      if (!f.flag('rc')) return;
      const [low, high] = [x.b.make('low64', v.first), x.b.make('high64', v.first)];
      const all = x.b.make('seteq', x.b.make('and', low, high), ONES);
      const none = x.b.make('seteq', x.b.make('or', low, high), 0n);
      x.setBits(6, x.b.make('or', x.b.make('shl', all, 3n), x.b.make('shl', none, 1n)));
    });
  }

  private gathering(): void {
    this.add('vgbbd', (v, { b }, f) => {
      const number = vr(f, 'vrb');
      const [upper, lower] = [transposed(b, v.upper(number)), transposed(b, v.low(number))];
      v.write(vr(f, 'vrt'), upper, lower);
    });
  }
}

// ---------------------------------------------------------------------------- elements in memory

/** Letters of the elements that single accesses have, and their bytes. */
const ELEMENTS = [['b', 1], ['h', 2], ['w', 4]] as const; // prettier-ignore

/** Where an element is: its address, the half of the register, and the bits below it there. */
function elementPlace(x: Place, address: Slot, bytes: number): { at: Slot; isUpper: Slot; shift: Slot } {
  const { b } = x;
  const at = b.make('and', address, BigInt.asUintN(64, -BigInt(bytes)));
  const offset = b.make('and', at, 15n);
  // Of the number: in big-endian order the first element is the most significant one.
  const byte = x.width.endian === 'little' ? offset : b.make('sub', BigInt(16 - bytes), offset);
  return { at, isUpper: b.make('shr', byte, 3n), shift: b.make('shl', b.make('and', byte, 7n), 3n) };
}

/** The other elements, which the manual leaves open, stay. */
function loadElement(v: Vectors, x: Place, f: Fields, address: Slot, log2: number): void {
  const { b } = x;
  const bytes = 1 << log2;
  const { at, isUpper, shift } = elementPlace(x, address, bytes);
  const value = b.temp();
  const isLittle = x.width.endian === 'little';
  const names = isLittle ? (['ld8u', 'ld16u', 'ld32u'] as const) : (['ld8u', 'ld16ube', 'ld32ube'] as const);
  b.load(names[log2]!, value, at, 0n);
  const mask = b.make('shl', (1n << BigInt(8 * bytes)) - 1n, shift);
  const moved = b.make('shl', value, shift);
  const number = vr(f, 'vrt');
  const [lower, upper] = [v.low(number), v.upper(number)].map((half, i) => {
    const changed = b.make('or', b.make('and', half, b.make('xor', mask, ONES)), moved);
    const d = b.temp();
    b.select(d, isUpper, i === 0 ? half : changed, i === 0 ? changed : half);
    return d;
  });
  v.write(number, upper!, lower!);
}

function storeElement(v: Vectors, x: Place, f: Fields, address: Slot, log2: number): void {
  const { b } = x;
  const { at, isUpper, shift } = elementPlace(x, address, 1 << log2);
  const half = b.temp();
  b.select(half, isUpper, v.upper(vr(f, 'vrs')), v.low(vr(f, 'vrs')));
  const isLittle = x.width.endian === 'little';
  const names = isLittle ? (['st8', 'st16', 'st32'] as const) : (['st8', 'st16be', 'st32be'] as const);
  b.store(names[log2]!, b.make('shr', half, shift), at, 0n);
}

// ------------------------------------------------------------------------- by halves, and by lanes

type Add = (name: string, emit: (v: Vectors, x: Place, f: Fields) => void) => void;

/** Shifts of the whole register: the count is in its last byte. */
function shiftSemantics(add: Add): void {
  for (const [name, isLeft] of [['vslo', true], ['vsro', false]] as const) {
    add(name, (v, { b }, f) => {
      const count = b.make('and', b.make('shr', v.low(vr(f, 'vrb')), 3n), 15n);
      const bytes = b.make('mul', count, BYTES);
      const numbers = halvesOf(Array.from({ length: 16 }, (_, i) => i));
      b.to(v.first, 'join64', bytes, bytes);
      // Numbers below 0 and above 15 are nothing.
      b.to(v.first, isLeft ? 'vsub8' : 'vadd8', v.constant(numbers[0], numbers[1]), v.first);
      b.to(v.first, 'vswizzle', v.read(vr(f, 'vra'), v.second), v.first);
      v.writeVector(vr(f, 'vrt'), v.first);
    });
  } // prettier-ignore
  for (const [name, isLeft] of [['vsl', true], ['vsr', false]] as const) {
    add(name, (v, { b }, f) => {
      const count = b.make('and', v.low(vr(f, 'vrb')), 7n);
      const rest = b.make('sub', 63n, count);
      const [upper, lower] = [v.upper(vr(f, 'vra')), v.low(vr(f, 'vra'))];
      const [there, back] = isLeft ? (['shl', 'shr'] as const) : (['shr', 'shl'] as const);
      // Two steps: the other half goes by 64 where the count is 0.
      const crossed = b.make(back, b.make(back, isLeft ? lower : upper, 1n), rest);
      const moved = [upper, lower].map((half) => b.make(there, half, count));
      if (isLeft) v.write(vr(f, 'vrt'), b.make('or', moved[0]!, crossed), moved[1]!);
      else v.write(vr(f, 'vrt'), moved[0]!, b.make('or', moved[1]!, crossed));
    });
  } // prettier-ignore
}

/** What ops on doublewords give: counts, extremes, sums of the whole. */
function doublewordSemantics(add: Add): void {
  for (const [name, count] of [['vclzd', 'clz'], ['vpopcntd', 'popcnt']] as const) {
    add(name, (v, { b }, f) => {
      const number = vr(f, 'vrb');
      v.write(vr(f, 'vrt'), b.make(count, v.upper(number)), b.make(count, v.low(number)));
    });
  } // prettier-ignore
  add('vpopcntb', (v, { b }, f) => {
    b.to(v.first, 'popcnt8x16', v.read(vr(f, 'vrb'), v.first));
    v.writeVector(vr(f, 'vrt'), v.first);
  });
  for (const [name, isMaximum, isSigned] of [
    ['vmaxsd', true, true], ['vminsd', false, true], ['vmaxud', true, false], ['vminud', false, false],
  ] as const) {
    add(name, (v, { b }, f) => {
      const [a, c] = [v.read(vr(f, 'vra'), v.first), v.read(vr(f, 'vrb'), v.second)];
      if (isSigned) b.to(v.third, 'vgt64', a, c);
      else v.above(v.third, a, c, 3);
      b.to(v.first, 'and128', isMaximum ? a : c, v.third);
      b.to(v.second, 'andnot128', isMaximum ? c : a, v.third);
      b.to(v.first, 'or128', v.first, v.second);
      v.writeVector(vr(f, 'vrt'), v.first);
    });
  } // prettier-ignore
  for (const [name, sum] of [['vadduqm', 'add'], ['vsubuqm', 'sub']] as const) {
    add(name, (v, { b }, f) => {
      const [a, c] = [vr(f, 'vra'), vr(f, 'vrb')];
      const [first, second] = [v.low(a), v.low(c)];
      const lower = b.make(sum, first, second);
      const carry = sum === 'add' ? b.make('setltu', lower, first) : b.make('setltu', first, second);
      v.write(vr(f, 'vrt'), b.make(sum, b.make(sum, v.upper(a), v.upper(c)), carry), lower);
    });
  } // prettier-ignore
}

const SATURATING = {
  addub: ['vaddu8', 'vadd8'], addsb: ['vadds8', 'vadd8'], subub: ['vsubu8', 'vsub8'], subsb: ['vsubs8', 'vsub8'],
  adduh: ['vaddu16', 'vadd16'], addsh: ['vadds16', 'vadd16'], subuh: ['vsubu16', 'vsub16'], subsh: ['vsubs16', 'vsub16'],
} as const; // prettier-ignore

/** VSCR.NJ, and with VSCR.SAT all of its bits. */
const NON_JAVA = 0x1_0000n;
const VSCR_BITS = 0x1_0001n;
/**
 * Linux means to set NJ and writes the last word of a quadword, which is VSCR in big-endian order
 * alone. States begin with 0.
 */
const startingVscr = (endian: Endian): bigint => (endian === 'big' ? NON_JAVA : 0n);

/** Sums that say in VSCR whether an element did not fit: it differs from the one that wraps. */
function saturatingSemantics(add: Add, vscr: Slot): void {
  for (const [name, [saturating, wrapping]] of Object.entries(SATURATING)) {
    add(`v${name}s`, (v, { b }, f) => {
      const [a, c] = [v.read(vr(f, 'vra'), v.first), v.read(vr(f, 'vrb'), v.second)];
      b.to(v.third, wrapping, a, c);
      b.to(v.first, saturating, a, c);
      b.to(v.third, 'xor128', v.first, v.third);
      const differs = b.make('or', b.make('low64', v.third), b.make('high64', v.third));
      b.to(vscr, 'or', vscr, b.make('setne', differs, 0n));
      v.writeVector(vr(f, 'vrt'), v.first);
    });
  }
  add('mfvscr', (v, { b, width }, f) => {
    v.write(vr(f, 'vrt'), 0n, b.make('xor', vscr, startingVscr(width.endian)));
  });
  add('mtvscr', (v, { b, width }, f) => {
    b.to(vscr, 'xor', b.make('and', v.low(vr(f, 'vrb')), VSCR_BITS), startingVscr(width.endian));
  });
}

// ----------------------------------------------------------------------------------------- helpers

export const readVscr = (state: HelperState, slot: Slot, endian: Endian): bigint =>
  state.get(slot) ^ startingVscr(endian);
export function writeVscr(state: HelperState, slot: Slot, endian: Endian, value: bigint): void {
  state.set(slot, (value & VSCR_BITS) ^ startingVscr(endian));
}

const computed: VectorLift = (x) => ({ kind: 'helper', name: 'vector', argument: x.word, next: x.next });

/** Instructions that have no ops. */
const ROWS: ReadonlyMap<string, VmxRow> = new Map([...INTEGER_ROWS, ...FLOAT_ROWS]);

/**
 * Executes an instruction of `ROWS`.
 * @param known     decodes a word
 * @param setField  sets a field of CR
 */
export function vectorHelper(
  slots: Pick<VectorSlots, 'vectors' | 'vscr'>,
  endian: Endian,
  known: (word: number) => { readonly mnemonic: string; readonly operands: Operands },
  setField: (state: HelperState, field: number, bits: number) => void,
): Helper {
  return (state, word) => {
    const { mnemonic, operands } = known(word);
    const row = ROWS.get(mnemonic)!;
    const slotOf = (field: string): Slot => slots.vectors[operands[field]!]!;
    const unit = new VectorUnit(operands, (readVscr(state, slots.vscr, endian) & NON_JAVA) !== 0n);
    const values = row.sources.map((name) => (state.get(slotOf(name), 1) << 64n) | state.get(slotOf(name)));
    const result = row.run(values, unit);
    state.set(slotOf('vrt'), BigInt.asUintN(64, result), 0);
    state.set(slotOf('vrt'), result >> 64n, 1);
    if (unit.saturated) state.set(slots.vscr, state.get(slots.vscr) | 1n);
    if (unit.field !== null) setField(state, 6, unit.field);
    else if (operands['rc'] === 1) {
      const isAll = result === (1n << 128n) - 1n;
      setField(state, 6, (isAll ? 8 : 0) | (result === 0n ? 2 : 0));
    }
    return { kind: 'next' };
  };
}
