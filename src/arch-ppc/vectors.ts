/**
 * VMX as POWER8 has it, and the moves, permutations and logic of VSX, which 64-bit programs have:
 * accesses, moves, permutations, logic and what is one op; `vector-elements.ts` has what takes more
 * of them, `vector-rows.ts` and `vmx-floats.ts` compute the rest. `vector-builder.ts` says how
 * registers lie in slots.
 *
 * Source: Power ISA 2.07B, Book I, chapters 6 and 7.
 */
import type { BlockBuilder, Helper, HelperState, Operand, PureName, Slot, Terminator } from '../machine/ir.js';
import type { Operands } from '../isa/table.js';
import type { Endian } from '../units.js';
import { INTEGER_ROWS, VectorUnit } from './vector-rows.js';
import type { VmxRow } from './vector-rows.js';
import { FLOAT_ROWS } from './vmx-floats.js';
import { POWER9_VECTORS } from './power9-rows.js';
import { BYTES, EQUAL, halvesOf, ONES, recordAll, replicated, Vectors } from './vector-builder.js';
import type { VectorSlots } from './vector-builder.js';
import { ELEMENT_ROWS } from './vector-elements.js';
import { ciphered, CIPHERS, hashed } from './vector-cryptography.js';
import { vmxFloatSemantics } from './vector-float-lift.js';

/** What the semantics need of the instruction being lifted. */
export interface Place {
  readonly b: BlockBuilder;
  readonly word: number;
  readonly next: bigint;
  readonly slow: boolean;
  readonly width: { readonly endian: Endian };
  sized(name: 'add'): PureName;
  setBits(field: number, bits: Operand): void;
}
export interface Fields {
  n(name: string): number;
  r(name: string): Slot;
  base(): Operand;
  big(name: string): bigint;
  flag(name: string): boolean;
  has(name: string): boolean;
}
export type VectorLift = (x: Place, f: Fields) => Terminator | undefined;

const GREATER = ['vgt8', 'vgt16', 'vgt32', 'vgt64'] as const;

type Binary = (v: Vectors, a: Slot, c: Slot) => Slot;
const op =
  (name: PureName): Binary =>
  (v, a, c) =>
    v.op(name, a, c);
const inverted =
  (name: PureName): Binary =>
  (v, a, c) =>
    v.not(v.op(name, a, c));

/** Operations on all 128 bits. */
const LOGICAL: Readonly<Record<string, Binary>> = {
  and: op('and128'),
  andc: op('andnot128'),
  or: op('or128'),
  xor: op('xor128'),
  nor: inverted('or128'),
  nand: inverted('and128'),
  eqv: inverted('xor128'),
  orc: (v, a, c) => v.not(v.op('andnot128', c, a)),
};

/** Elements in turn, of which the first of `a` comes first, of the first or second halves. */
const merged =
  (name: PureName): Binary =>
  (v, a, c) =>
    v.op(name, c, a);

export const vr = (f: Fields, name: string): number => 32 + f.n(name);

/** Address of an access by register and index. */
export function indexed(x: Place, f: Fields): Slot {
  const base = f.base();
  return typeof base === 'bigint' ? f.r('rb') : x.b.make(x.sized('add'), base, f.r('rb'));
}

/** An op by the byte order of the machine. */
export const load64 = (x: Place, at: Operand, offset = 0n): Slot => {
  const d = x.b.temp();
  x.b.load(x.width.endian === 'little' ? 'ld64' : 'ld64be', d, at, offset);
  return d;
};
export const store64 = (x: Place, value: Operand, at: Operand, offset = 0n): void => {
  x.b.store(x.width.endian === 'little' ? 'st64' : 'st64be', value, at, offset);
};
/** A quadword: in little-endian order the byte at the lowest address is the least significant. */
export const load128 = (x: Place, at: Operand, offset = 0n): Slot => {
  const d = x.b.vectorTemp();
  x.b.load(x.width.endian === 'little' ? 'ldv128' : 'ldv128be', d, at, offset);
  return d;
};
export const store128 = (x: Place, value: Slot, at: Operand, offset = 0n): void => {
  x.b.store(x.width.endian === 'little' ? 'stv128' : 'stv128be', value, at, offset);
};
/** Elements of so many bytes in memory, the first of which is element 0, as a number; and back. */
export const ordered = (v: Vectors, x: Place, value: Slot, bytes: 1 | 2 | 4 | 8): Slot => {
  if (x.width.endian === 'big') return value;
  if (bytes === 8) return v.op('vcross64', value, value);
  return v.pick(value, value, from(0).map((i) => 16 - bytes - (i - (i % bytes)) + (i % bytes)));
}; // prettier-ignore
export const load32 = (x: Place, at: Slot, signed = false): Slot => {
  const d = x.b.temp();
  const little = signed ? 'ld32s' : 'ld32u';
  const big = signed ? 'ld32sbe' : 'ld32ube';
  x.b.load(x.width.endian === 'little' ? little : big, d, at, 0n);
  return d;
};

export const from = (start: number) => Array.from({ length: 16 }, (_, i) => start + i);
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
    statusSemantics(add, this.slots.vscr);
    for (const [name, { sources, emit }] of ELEMENT_ROWS) {
      add(name, (v, _x, f) => {
        v.writeVector(vr(f, 'vrt'), emit(v, sources.map((field) => v.read(vr(f, field))))); // prettier-ignore
      });
    }
    for (const letter of ['w', 'd'] as const) {
      add(`vshasigma${letter}`, (v, _x, f) => {
        v.writeVector(vr(f, 'vrt'), hashed(v, v.read(vr(f, 'vra')), letter, f.n('st'), f.n('six')));
      });
    }
    for (const name of CIPHERS) {
      add(name, (v, _x, f) => {
        v.writeVector(vr(f, 'vrt'), ciphered(v, name, v.read(vr(f, 'vra')), f.has('vrb') ? v.read(vr(f, 'vrb')) : 0n));
      });
    }
    const fast = vmxFloatSemantics(this.slots, (endian) => startingVscr(endian) !== 0n);
    for (const name of ROWS.keys()) {
      const lift = fast.get(name);
      this.out.push([name, lift ? (x, f) => (lift(x, f) ? undefined : computed(x, f)) : computed]);
    }
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
        v.writeVector(vr(f, 'vrt'), load128(x, x.b.make('and', indexed(x, f), -16n & ONES)));
      });
    }
    for (const name of ['stvx', 'stvxl']) {
      this.add(name, (v, x, f) => {
        store128(x, v.read(vr(f, 'vrs')), x.b.make('and', indexed(x, f), -16n & ONES));
      });
    }
    for (const [name, left] of [
      ['lvsl', true],
      ['lvsr', false],
    ] as const) {
      this.add(name, (v, x, f) => {
        const shift = x.b.make('mul', x.b.make('and', indexed(x, f), 15n), BYTES);
        const numbers = halvesOf(Array.from({ length: 16 }, (_, j) => (left ? 15 - j : 31 - j)));
        v.writeVector(vr(f, 'vrt'), v.op(left ? 'vadd8' : 'vsub8', v.constant(...numbers), v.joined(shift, shift)));
      }); // prettier-ignore
    }
  }

  /** Loads and stores of VSX. */
  private vsxAccesses(): void {
    for (const [name, bytes] of [['d2', 8], ['w4', 4]] as const) {
      this.add(`lxv${name}x`, (v, x, f) => {
        v.writeVector(f.n('xt'), ordered(v, x, load128(x, indexed(x, f)), bytes));
      });
      this.add(`stxv${name}x`, (v, x, f) => {
        store128(x, ordered(v, x, v.read(f.n('xs')), bytes), indexed(x, f));
      });
    } // prettier-ignore
    this.add('lxvdsx', (v, x, f) => {
      const value = load64(x, indexed(x, f));
      v.write(f.n('xt'), value, value);
    });
    // Of scalars the other doubleword is undefined: it becomes 0.
    this.add('lxsdx', (v, x, f) => {
      v.write(f.n('xt'), load64(x, indexed(x, f)), 0n);
    });
    this.add('lxsiwzx', (v, x, f) => {
      v.write(f.n('xt'), load32(x, indexed(x, f)), 0n);
    });
    this.add('lxsiwax', (v, x, f) => {
      v.write(f.n('xt'), load32(x, indexed(x, f), true), 0n);
    });
    this.add('stxsdx', (v, x, f) => {
      store64(x, v.upper(f.n('xs')), indexed(x, f));
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
      if (a >= 32 && c >= 32 && f.n('xt') >= 32) {
        const name = (['vhigh64', 'vouter64', 'vcross64', 'vlow64'] as const)[mode]!;
        v.writeVector(f.n('xt'), v.op(name, v.read(c), v.read(a)));
        return;
      }
      v.write(f.n('xt'), (mode & 2) === 0 ? v.upper(a) : v.low(a), (mode & 1) === 0 ? v.upper(c) : v.low(c));
    });
  }

  /** Two VSR, bytes by their numbers. */
  private picked(name: string, of: 'v' | 'x', bytes: (f: Fields) => readonly number[]): void {
    this.add(name, (v, _x, f) => {
      const number = (field: string): number => (of === 'v' ? vr(f, `vr${field}`) : f.n(`x${field}`));
      const second = v.read(number('b'));
      const isOne = !f.has(of === 'v' ? 'vra' : 'xa') || number('a') === number('b');
      v.writeVector(number('t'), v.pick(isOne ? second : v.read(number('a')), second, bytes(f)));
    });
  }

  private permutations(): void {
    this.picked('vsldoi', 'v', (f) => from(f.n('shb')));
    this.picked('xxsldwi', 'x', (f) => from(4 * f.n('shw')));
    this.picked('vspltb', 'v', (f) => splat(1, f.n('uim4')));
    this.picked('vsplth', 'v', (f) => splat(2, f.n('uim3')));
    this.picked('vspltw', 'v', (f) => splat(4, f.n('uim2')));
    this.picked('xxspltw', 'x', (f) => splat(4, f.n('uim2')));
    for (const [letter, bits] of [['b', 8], ['h', 16], ['w', 32]] as const) {
      this.binary(`vmrgh${letter}`, 'v', merged(`vhigh${bits}`));
      this.binary(`vmrgl${letter}`, 'v', merged(`vlow${bits}`));
      this.add(`vspltis${letter}`, (v, _x, f) => {
        const value = replicated(BigInt(f.n('sim')), bits);
        v.write(vr(f, 'vrt'), value, value);
      });
    } // prettier-ignore
    this.binary('xxmrghw', 'x', merged('vhigh32'));
    this.binary('xxmrglw', 'x', merged('vlow32'));
    this.add('vperm', (v, _x, f) => {
      v.writeVector(vr(f, 'vrt'), v.permute(v.read(vr(f, 'vra')), v.read(vr(f, 'vrb')), v.read(vr(f, 'vrc'))));
    });
  }

  private packing(): void {
    ELEMENTS.forEach(([letter], log2) => {
      const bits = (8 << log2) as 8 | 16 | 32;
      const widen = (['vsx8', 'vsx16', 'vsx32'] as const)[log2]!;
      this.add(`vupkls${letter}`, (v, _x, f) => {
        v.writeVector(vr(f, 'vrt'), v.op(widen, v.read(vr(f, 'vrb'))));
      });
      this.add(`vupkhs${letter}`, (v, _x, f) => {
        const value = v.read(vr(f, 'vrb'));
        v.writeVector(vr(f, 'vrt'), v.op(widen, v.op('vcross64', value, value)));
      });
      const name = `vpku${['h', 'w', 'd'][log2]!}um`;
      if (bits === 32) this.picked(name, 'v', () => from(0).map((i) => i + 4 * (1 + Math.floor(i / 4))));
      else {
        this.binary(name, 'v', (v, a, c) => {
          const low = v.each((1n << BigInt(bits)) - 1n, 2 * bits);
          return v.op(`vnarrowu${(2 * bits) as 16 | 32}`, v.op('and128', c, low), v.op('and128', a, low));
        });
      }
    });
    for (const [name, first] of [['vmrgew', 0], ['vmrgow', 4]] as const) {
      this.picked(name, 'v', () => from(0).map((at) => 8 * Math.floor(at / 8) + first + (at % 4) + (at % 8 < 4 ? 0 : 16)));
    } // prettier-ignore
  }

  private binary(name: string, of: 'v' | 'x', compute: Binary): void {
    this.add(name, (v, _x, f) => {
      const number = (field: string): number => (of === 'v' ? vr(f, `vr${field}`) : f.n(`x${field}`));
      v.writeVector(number('t'), compute(v, v.read(number('a')), v.read(number('b'))));
    });
  }

  private logical(): void {
    for (const [name, compute] of Object.entries(LOGICAL)) {
      this.binary(name === 'eqv' ? 'veqv' : `v${name}`, 'v', compute);
      this.binary(`xxl${name}`, 'x', compute);
    }
    for (const of of ['v', 'x'] as const) {
      this.add(of === 'v' ? 'vsel' : 'xxsel', (v, _x, f) => {
        const number = (field: string): number => (of === 'v' ? vr(f, `vr${field}`) : f.n(`x${field}`));
        v.writeVector(number('t'), v.choose(v.read(number('c')), v.read(number('b')), v.read(number('a'))));
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
      this.compared(`vcmpgtu${letter}`, (v, a, c) => v.above(a, c, log2));
    }
  }

  /** A comparison of elements, which may write CR6. */
  private compared(name: string, compute: Binary): void {
    this.add(name, (v, x, f) => {
      const result = compute(v, v.read(vr(f, 'vra')), v.read(vr(f, 'vrb')));
      v.writeVector(vr(f, 'vrt'), result);
      if (f.flag('rc')) recordAll(v, x, result);
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
      // Numbers below 0 and above 15 are nothing.
      const from = v.op(isLeft ? 'vsub8' : 'vadd8', v.constant(...numbers), v.joined(bytes, bytes));
      v.writeVector(vr(f, 'vrt'), v.op('vswizzle', v.read(vr(f, 'vra')), from));
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

/** VSCR.NJ, and with VSCR.SAT all of its bits. */
const NON_JAVA = 0x1_0000n;
const VSCR_BITS = 0x1_0001n;
/**
 * Linux means to set NJ and writes the last word of a quadword, which is VSCR in big-endian order
 * alone. States begin with 0.
 */
const startingVscr = (endian: Endian): bigint => (endian === 'big' ? NON_JAVA : 0n);

/** VSCR from and to registers. */
function statusSemantics(add: Add, vscr: Slot): void {
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

export const computed: VectorLift = (x) => ({ kind: 'helper', name: 'vector', argument: x.word, next: x.next });

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
    const row = ROWS.get(mnemonic) ?? POWER9_VECTORS.get(mnemonic)!;
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
