/**
 * What POWER9 added for programs, in ops: accesses to vectors without alignment, moves, elements
 * taken out and put in, parts of floating point numbers. `power9-rows.ts` computes the rest.
 *
 * Source: Power ISA 3.0B, Book I, chapters 6 and 7.
 */
import type { PureName, Slot } from '../machine/ir.js';
import { BYTES, EQUAL, recordAll, Vectors } from './vector-builder.js';
import type { VectorSlots } from './vector-builder.js';
import { byHalves, byWords, ones, shifted, SHIFTS } from './vector-elements.js';
import { computed, from, indexed, load128, load32, load64, ordered, store128, store64, vr } from './vectors.js';
import type { Fields, Place, VectorLift } from './vectors.js';
import { POWER9_VECTORS } from './power9-rows.js';

type Emit = (v: Vectors, x: Place, f: Fields) => void;
const ROWS = new Map<string, Emit>();
const ZERO = 32;

// --------------------------------------------------------------------------------------- accesses

ROWS.set('lxv', (v, x, f) => {
  v.writeVector(f.n('xt'), load128(x, f.base(), f.big('dq')));
});
ROWS.set('stxv', (v, x, f) => {
  store128(x, v.read(f.n('xs')), f.base(), f.big('dq'));
});
ROWS.set('lxvx', (v, x, f) => {
  v.writeVector(f.n('xt'), load128(x, indexed(x, f)));
});
ROWS.set('stxvx', (v, x, f) => {
  store128(x, v.read(f.n('xs')), indexed(x, f));
});
for (const [name, bytes] of [['h8', 2], ['b16', 1]] as const) {
  ROWS.set(`lxv${name}x`, (v, x, f) => {
    v.writeVector(f.n('xt'), ordered(v, x, load128(x, indexed(x, f)), bytes));
  });
  ROWS.set(`stxv${name}x`, (v, x, f) => {
    store128(x, ordered(v, x, v.read(f.n('xs')), bytes), indexed(x, f));
  });
} // prettier-ignore
ROWS.set('lxvwsx', (v, x, f) => {
  const word = load32(x, indexed(x, f));
  const twice = x.b.make('or', word, x.b.make('shl', word, 32n));
  v.write(f.n('xt'), twice, twice);
});
ROWS.set('lxsd', (v, x, f) => {
  v.write(vr(f, 'vrt'), load64(x, f.base(), f.big('ds')), 0n);
});
ROWS.set('stxsd', (v, x, f) => {
  store64(x, v.upper(vr(f, 'vrs')), f.base(), f.big('ds'));
});
for (const [letter, load, loadBig, store, storeBig] of [
  ['b', 'ld8u', 'ld8u', 'st8', 'st8'],
  ['h', 'ld16u', 'ld16ube', 'st16', 'st16be'],
] as const) {
  ROWS.set(`lxsi${letter}zx`, (v, x, f) => {
    const value = x.b.temp();
    x.b.load(x.width.endian === 'little' ? load : loadBig, value, indexed(x, f), 0n);
    v.write(f.n('xt'), value, 0n);
  });
  ROWS.set(`stxsi${letter}x`, (v, x, f) => {
    x.b.store(x.width.endian === 'little' ? store : storeBig, v.upper(f.n('xs')), indexed(x, f), 0n);
  });
}

// ------------------------------------------------------------------------------------------ moves

ROWS.set('mfvsrld', (v, x, f) => {
  x.b.mov(f.r('ra'), v.low(f.n('xs')));
});
ROWS.set('mtvsrdd', (v, _x, f) => {
  v.write(f.n('xt'), f.base(), f.r('rb'));
});
ROWS.set('mtvsrws', (v, x, f) => {
  const twice = x.b.make('or', x.b.make('shl', f.r('ra'), 32n), x.b.make('zx32', f.r('ra')));
  v.write(f.n('xt'), twice, twice);
});
ROWS.set('xxspltib', (v, _x, f) => {
  const value = f.big('imm8') * BYTES;
  v.write(f.n('xt'), value, value);
});

/** The target from one vector. */
function unary(name: string, [target, source]: readonly ['vrt' | 'xt', 'vrb' | 'xb'], emit: (v: Vectors, b: Slot, f: Fields) => Slot): void {
  ROWS.set(name, (v, _x, f) => {
    v.writeVector(numberOf(f, target), emit(v, v.read(numberOf(f, source)), f));
  });
} // prettier-ignore
const numberOf = (f: Fields, field: string): number => (field.startsWith('v') ? vr(f, field) : f.n(field));
const VMX = ['vrt', 'vrb'] as const;
const VSX = ['xt', 'xb'] as const;

function binary(name: string, fields: readonly string[], emit: (v: Vectors, x: readonly Slot[]) => Slot): void {
  ROWS.set(name, (v, _x, f) => {
    const sources = fields.slice(1).map((field) => v.read(numberOf(f, field)));
    v.writeVector(numberOf(f, fields[0]!), emit(v, sources));
  });
}

const reversed = (v: Vectors, numbers: Slot): Slot => v.op('vsub8', v.each(31n, 8), v.op('and128', numbers, v.each(31n, 8))); // prettier-ignore
binary('vpermr', ['vrt', 'vra', 'vrb', 'vrc'], (v, [a, c, by]) => v.permute(a!, c!, reversed(v, by!)));
binary('xxperm', ['xt', 'xa', 'xt', 'xb'], (v, [a, c, by]) => v.permute(a!, c!, by!));
binary('xxpermr', ['xt', 'xa', 'xt', 'xb'], (v, [a, c, by]) => v.permute(a!, c!, reversed(v, by!)));
for (const [letter, bytes] of [['h', 2], ['w', 4], ['d', 8], ['q', 16]] as const)
  unary(`xxbr${letter}`, VSX, (v, b) => v.pick(b, b, from(0).map((i) => i ^ (bytes - 1)))); // prettier-ignore

// --------------------------------------------------------------------------------------- elements

/** Bytes from a place on at the end of the first doubleword; it is the manual's to say which. */
const extracted = (v: Vectors, b: Slot, place: number, bytes: number): Slot =>
  v.pick(b, b, from(0).map((i) => (i < 8 && i >= 8 - bytes ? place + i - (8 - bytes) : ZERO))); // prettier-ignore
const inserted = (v: Vectors, t: Slot, b: Slot, place: number, bytes: number): Slot =>
  v.pick(t, b, from(0).map((i) => (i >= place && i < place + bytes ? 16 + 8 - bytes + i - place : i))); // prettier-ignore
for (const [letters, bytes] of [['b', 1], ['h', 2], ['w', 4], ['d', 8]] as const) {
  unary(`vextract${bytes < 8 ? 'u' : ''}${letters}`, VMX, (v, b, f) => extracted(v, b, f.n('uim4') % (17 - bytes), bytes));
  ROWS.set(`vinsert${letters}`, (v, _x, f) => {
    const [t, place] = [vr(f, 'vrt'), f.n('uim4') % (17 - bytes)];
    v.writeVector(t, inserted(v, v.read(t), v.read(vr(f, 'vrb')), place, bytes));
  });
} // prettier-ignore
unary('xxextractuw', VSX, (v, b, f) => extracted(v, b, f.n('uim4') % 13, 4));
ROWS.set('xxinsertw', (v, _x, f) => {
  v.writeVector(f.n('xt'), inserted(v, v.read(f.n('xt')), v.read(f.n('xb')), f.n('uim4') % 13, 4));
});

/** The element that begins at the byte that a register names, from the left or from the right. */
for (const [letter, bytes] of [['b', 1], ['h', 2], ['w', 4]] as const) {
  for (const side of ['l', 'r'] as const) {
    ROWS.set(`vextu${letter}${side}x`, (v, { b }, f) => {
      const index = b.make('and', f.r('ra'), 15n);
      const first = side === 'r' ? index : b.make('and', b.make('sub', BigInt(16 - bytes), index), 0xffn);
      const start = b.make('mul', first, BYTES);
      const numbers = v.op('vadd8', v.constant(0x0706_0504_0302_0100n, 0n), v.joined(start, start));
      const value = b.make('low64', v.op('vswizzle', v.read(vr(f, 'vrb')), numbers));
      b.to(f.r('rt'), 'and', value, (1n << BigInt(8 * bytes)) - 1n);
    });
  }
} // prettier-ignore

/** Bytes whose last bit is 0, from the first or the last one on. */
const lastBits = (v: Vectors, f: Fields): Slot => v.b.make('vmask8', v.op('vshl16', v.read(vr(f, 'vrb')), 7n));
ROWS.set('vclzlsbb', (v, { b }, f) => {
  const bits = b.make('or', b.make('shl', lastBits(v, f), 48n), 1n << 47n);
  b.to(f.r('rt'), 'clz', bits);
});
ROWS.set('vctzlsbb', (v, { b }, f) => {
  b.to(f.r('rt'), 'ctz', b.make('or', lastBits(v, f), 1n << 16n));
});

for (const [log2, letter] of (['b', 'h', 'w'] as const).entries()) {
  const bits = (8 << log2) as 8 | 16 | 32;
  const compared = (name: string, emit: (v: Vectors, a: Slot, c: Slot) => Slot): void => {
    ROWS.set(name, (v, x, f) => {
      const result = emit(v, v.read(vr(f, 'vra')), v.read(vr(f, 'vrb')));
      v.writeVector(vr(f, 'vrt'), result);
      if (f.flag('rc')) recordAll(v, x, result);
    });
  };
  const equal = (v: Vectors, a: Slot, c: Slot): Slot => v.op(EQUAL[log2]!, a, c);
  compared(`vcmpne${letter}`, (v, a, c) => v.not(equal(v, a, c)));
  compared(`vcmpnez${letter}`, (v, a, c) => {
    const zero = v.constant(0n);
    const isZero = v.op('or128', equal(v, a, zero), equal(v, c, zero));
    return v.op('or128', v.not(equal(v, a, c)), isZero);
  });
  binary(`vabsdu${letter}`, ['vrt', 'vra', 'vrb'], (v, [a, c]) =>
    v.op(`vsub${bits}`, v.op(`vmaxu${bits}`, a!, c!), v.op(`vminu${bits}`, a!, c!)),
  );
  // Ones below the lowest one.
  unary(`vctz${letter}`, VMX, (v, b) => ones(v, v.op('andnot128', v.op(`vsub${bits}`, b, v.each(1n, bits)), b), bits));
}
unary('vctzd', VMX, (v, b) => byHalves(v, [b], ([x]) => v.b.make('ctz', x!)));
unary('vnegw', VMX, (v, b) => v.op('vsub32', v.constant(0n), b));
unary('vnegd', VMX, (v, b) => v.op('vsub64', v.constant(0n), b));
for (const [from8, to, bits] of [['b', 'w', 24n], ['h', 'w', 16n]] as const)
  unary(`vexts${from8}2${to}`, VMX, (v, b) => v.op('vsar32', v.op('vshl32', b, bits), bits)); // prettier-ignore
for (const [letter, op] of [['b', 'sx8'], ['h', 'sx16'], ['w', 'sx32']] as const)
  unary(`vexts${letter}2d`, VMX, (v, b) => byHalves(v, [b], ([x]) => v.b.make(op, x!))); // prettier-ignore
/** The last bits of bytes, summed modulo 2. */
const parity = ({ b }: Vectors, x: Slot, mask: bigint): Slot =>
  b.make('and', b.make('popcnt', b.make('and', x, mask)), 1n);
unary('vprtybw', VMX, (v, b) => byWords(v, [b], ([x]) => parity(v, x!, 0x0101_0101n)));
unary('vprtybd', VMX, (v, b) => byHalves(v, [b], ([x]) => parity(v, x!, BYTES)));
unary('vprtybq', VMX, (v, b) => {
  const [upper, lower] = v.halves(b);
  return v.joined(0n, parity(v, v.b.make('xor', upper, lower), BYTES));
});

/** Each byte and its neighbour, shifted by the count of its place. */
binary('vslv', ['vrt', 'vra', 'vrb'], (v, [a, c]) => {
  const next = v.pick(a!, a!, from(1).map((i) => (i < 16 ? i : ZERO))); // prettier-ignore
  return v.op('or128', shifted(v, 'l', 8, a!, c!), shifted(v, 'r', 8, SHIFTS.r(v, 8, next, 1), v.not(c!)));
});
binary('vsrv', ['vrt', 'vra', 'vrb'], (v, [a, c]) => {
  const before = v.pick(a!, a!, from(0).map((i) => (i > 0 ? i - 1 : ZERO))); // prettier-ignore
  return v.op('or128', shifted(v, 'r', 8, a!, c!), shifted(v, 'l', 8, SHIFTS.l(v, 8, before, 1), v.not(c!)));
});

// ---------------------------------------------------------------------- parts of floating point

/** Sign and fraction, and the place of the exponent, in a doubleword of numbers. */
const PARTS = {
  dp: { kept: 0x800f_ffff_ffff_ffffn, shift: 52n, exponent: 0x7ffn },
  sp: { kept: 0x807f_ffff_807f_ffffn, shift: 23n, exponent: 0xff_0000_00ffn },
  qp: { kept: 0x8000_ffff_ffff_ffffn, shift: 48n, exponent: 0x7fffn },
} as const;

/** The exponent of a number put together from two. */
function joinedParts({ b }: Vectors, a: Slot, exponent: Slot, of: keyof typeof PARTS): Slot {
  const { kept, shift, exponent: mask } = PARTS[of];
  return b.make('or', b.make('and', a, kept), b.make('shl', b.make('and', exponent, mask), shift));
}
/** The fraction with the bit that is not written, which numbers have that are normal. */
function significand(v: Vectors, bits: Slot, of: 'dp' | 'qp'): Slot {
  const { b } = v;
  const { kept, shift, exponent } = PARTS[of];
  const found = b.make('and', b.make('shr', bits, shift), exponent);
  const isNormal = b.make('setltu', b.make('sub', found, 1n), exponent - 1n);
  const fraction = b.make('and', bits, kept & ~(1n << 63n));
  return b.make('or', fraction, b.make('shl', isNormal, shift));
}
const exponentOf = ({ b }: Vectors, bits: Slot, of: keyof typeof PARTS): Slot =>
  b.make('and', b.make('shr', bits, PARTS[of].shift), PARTS[of].exponent);

for (const of of ['dp', 'sp'] as const) {
  binary(`xviexp${of}`, ['xt', 'xa', 'xb'], (v, x) => byHalves(v, x, ([a, c]) => joinedParts(v, a!, c!, of)));
  unary(`xvxexp${of}`, VSX, (v, b) => byHalves(v, [b], ([x]) => exponentOf(v, x!, of)));
}
unary('xvxsigdp', VSX, (v, b) => byHalves(v, [b], ([x]) => significand(v, x!, 'dp')));
unary('xvxsigsp', VSX, (v, b) => {
  const exponent = v.op('and128', v.op('vshr32', b, 23n), v.each(0xffn, 32));
  const isSpecial = v.op('or128', v.op('veq32', exponent, v.constant(0n)), v.op('veq32', exponent, v.each(0xffn, 32)));
  const implicit = v.op('andnot128', v.each(1n << 23n, 32), isSpecial);
  return v.op('or128', v.op('and128', b, v.each((1n << 23n) - 1n, 32)), implicit);
});
ROWS.set('xsxexpdp', (v, x, f) => {
  x.b.mov(f.r('rt'), exponentOf(v, v.upper(f.n('xb')), 'dp'));
});
ROWS.set('xsxsigdp', (v, x, f) => {
  x.b.mov(f.r('rt'), significand(v, v.upper(f.n('xb')), 'dp'));
});
ROWS.set('xsiexpdp', (v, _x, f) => {
  v.write(f.n('xt'), joinedParts(v, f.r('ra'), f.r('rb'), 'dp'), 0n);
});
unary('xsxexpqp', VMX, (v, b) => v.joined(exponentOf(v, v.halves(b)[0], 'qp'), 0n));
unary('xsxsigqp', VMX, (v, b) => {
  const [upper, lower] = v.halves(b);
  return v.joined(significand(v, upper, 'qp'), lower);
});
binary('xsiexpqp', ['vrt', 'vra', 'vrb'], (v, [a, c]) => {
  const [upper, lower] = v.halves(a!);
  return v.joined(joinedParts(v, upper, v.halves(c!)[0], 'qp'), lower);
});

/** The sign of a quadword changed, or that of another one. */
const sign = (v: Vectors): Slot => v.constant(0n, 1n << 63n);
for (const [name, op] of [['xsabsqp', 'andnot128'], ['xsnabsqp', 'or128'], ['xsnegqp', 'xor128']] as const satisfies readonly (readonly [string, PureName])[])
  unary(name, VMX, (v, b) => v.op(op, b, sign(v))); // prettier-ignore
binary('xscpsgnqp', ['vrt', 'vra', 'vrb'], (v, [a, c]) => v.choose(sign(v), a!, c!));

// ----------------------------------------------------------------------------------------- helpers

const helper =
  (name: string): VectorLift =>
  (x): ReturnType<VectorLift> => ({ kind: 'helper', name, argument: x.word, next: x.next });

/** Semantics of the rows, by name. */
export function power9Semantics(slots: VectorSlots): readonly (readonly [string, VectorLift])[] {
  const out: [string, VectorLift][] = [];
  for (const [name, emit] of ROWS) {
    out.push([
      name,
      (x, f): undefined => {
        emit(new Vectors(x.b, slots), x, f);
      },
    ]);
  }
  for (const name of POWER9_VECTORS.keys()) out.push([name, computed]);
  for (const name of ['lxvl', 'lxvll', 'stxvl', 'stxvll']) out.push([name, helper('vectorlength')]);
  return out;
}
