/** Every op of the table against plain bigint arithmetic, in every operand form that tier 0 has. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Machine } from '../src/emulator/index.js';
import { CONDITIONS, OPS, OP_NAMES, RECORD_KINDS, recordBits, recordCode } from '../src/machine/ir.js';
import type { Condition, OpName, Operand, RecordKind } from '../src/machine/ir.js';
import { CODE, handLifter, handMachine, HAND_SLOTS, s } from './support/emulator.js';
import type { HandInstruction } from './support/emulator.js';
import { isWhole } from './support/long.js';

const u = (value: bigint, bits = 64): bigint => BigInt.asUintN(bits, value);
const i = (value: bigint, bits = 64): bigint => BigInt.asIntN(bits, value);
const flag = (value: boolean): bigint => (value ? 1n : 0n);

const VALUES = [
  0n, 1n, 2n, 7n, 31n, 32n, 33n, 63n, 64n, 65n, 0x7fn, 0x80n, 0xffn, 0x7fffn, 0x8000n, 0xffffn, 0x7fff_ffffn, 0x8000_0000n,
  0xffff_ffffn, 0x1_0000_0000n, 0x7fff_ffff_ffff_ffffn, 0x8000_0000_0000_0000n, 0x8000_0000_0000_0001n,
  0xffff_ffff_8000_0000n, 0xffff_ffff_ffff_ffffn, 0x0123_4567_89ab_cdefn, 0xfedc_ba98_7654_3210n, 0x5555_aaaa_0f0f_f0f0n,
]; // prettier-ignore

const COMPARE: Readonly<Record<Condition, (a: bigint, b: bigint, bits: number) => boolean>> = {
  eq: (a, b, bits) => u(a, bits) === u(b, bits),
  ne: (a, b, bits) => u(a, bits) !== u(b, bits),
  lt: (a, b, bits) => i(a, bits) < i(b, bits),
  ge: (a, b, bits) => i(a, bits) >= i(b, bits),
  gt: (a, b, bits) => i(a, bits) > i(b, bits),
  le: (a, b, bits) => i(a, bits) <= i(b, bits),
  ltu: (a, b, bits) => u(a, bits) < u(b, bits),
  geu: (a, b, bits) => u(a, bits) >= u(b, bits),
  gtu: (a, b, bits) => u(a, bits) > u(b, bits),
  leu: (a, b, bits) => u(a, bits) <= u(b, bits),
};

function swap(value: bigint, bytes: number): bigint {
  let out = 0n;
  for (let k = 0; k < bytes; k++) out = (out << 8n) | ((value >> BigInt(8 * k)) & 0xffn);
  return out;
}
function leading(value: bigint, bits: number): bigint {
  return BigInt(bits - u(value, bits).toString(2).replace(/^0$/, '').length);
}
function trailing(value: bigint, bits: number): bigint {
  const text = u(value, bits).toString(2).padStart(bits, '0');
  return BigInt(bits - 1 - text.lastIndexOf('1') > bits - 1 ? bits : bits - 1 - text.lastIndexOf('1'));
}
const rotateLeft = (value: bigint, count: bigint, bits: number): bigint => {
  const n = count % BigInt(bits);
  const x = u(value, bits);
  return u((x << n) | (x >> (BigInt(bits) - n)), bits);
};

/** Bits of a at the places that b marks, or the other way. */
function depositOrExtract(a: bigint, b: bigint, deposit: boolean): bigint {
  let out = 0n;
  let place = 0n;
  for (let bit = 0n; bit < 64n; bit++) {
    if (((b >> bit) & 1n) === 0n) continue;
    const [from, to] = deposit ? [place, bit] : [bit, place];
    out |= ((a >> from) & 1n) << to;
    place++;
  }
  return out;
}

/**
 * The CRC as the standards write it, highest bit first: b steps of a long division of the
 * bit-reversed number.
 */
function division(a: bigint, b: bigint, polynomial: bigint): bigint {
  const reversed = (value: bigint, bits: number): bigint =>
    BigInt(`0b${[...value.toString(2).padStart(bits, '0')].reverse().join('')}`);
  let rest = reversed(a, 64);
  for (let step = b & 127n; step > 0n; step--) {
    const top = rest >> 63n;
    rest = u(rest << 1n) ^ (top === 1n ? polynomial << 32n : 0n);
  }
  return reversed(rest, 64);
}

const REFERENCE: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  mov: (a) => a,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  mulhu: (a, b) => (a * b) >> 64n,
  mulhs: (a, b) => (i(a) * i(b)) >> 64n,
  divs: (a, b) => (b === 0n ? 0n : i(a) / i(b)),
  divu: (a, b) => (b === 0n ? 0n : a / b),
  rems: (a, b) => (b === 0n ? a : i(a) % i(b)),
  remu: (a, b) => (b === 0n ? a : a % b),
  addsh1: (a, b) => a + 2n * b,
  addsh2: (a, b) => a + 4n * b,
  addsh3: (a, b) => a + 8n * b,
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => a << (b % 64n),
  shr: (a, b) => a >> (b % 64n),
  sar: (a, b) => i(a) >> (b % 64n),
  rotl: (a, b) => rotateLeft(a, b, 64),
  rotr: (a, b) => rotateLeft(a, 64n - (b % 64n), 64),
  clz: (a) => leading(a, 64),
  ctz: (a) => trailing(a, 64),
  popcnt: (a) => BigInt(a.toString(2).replaceAll('0', '').length),
  bswap16: (a) => swap(a, 2),
  bswap32: (a) => swap(a, 4),
  bswap64: (a) => swap(a, 8),
  bitreverse: (a) => BigInt(`0b${[...a.toString(2).padStart(64, '0')].reverse().join('')}`),
  crc32: (a, b) => division(a, b, 0x04c1_1db7n),
  crc32c: (a, b) => division(a, b, 0x1edc_6f41n),
  sarlost: (a, b) => flag(i(a) < 0n && (a & ((1n << (b % 64n)) - 1n)) !== 0n),
  signand: (a, b) => flag((a & b) > 1n << 63n),
  signand32: (a, b) => flag((a & b) > 1n << 31n),
  mulsx32: (a, b) => u(i(a, 32) * i(b, 32)),
  mulzx32: (a, b) => u(u(a, 32) * u(b, 32)),
  add32: (a, b) => u(a + b, 32),
  sub32: (a, b) => u(a - b, 32),
  mul32: (a, b) => u(a * b, 32),
  and32: (a, b) => u(a & b, 32),
  or32: (a, b) => u(a | b, 32),
  xor32: (a, b) => u(a ^ b, 32),
  shl32: (a, b) => u(a << (b % 32n), 32),
  shr32: (a, b) => u(a, 32) >> (b % 32n),
  sar32: (a, b) => u(i(a, 32) >> (b % 32n), 32),
  rotl32: (a, b) => rotateLeft(a, b, 32),
  rotr32: (a, b) => rotateLeft(a, 32n - (b % 32n), 32),
  add32s: (a, b) => i(a + b, 32),
  sub32s: (a, b) => i(a - b, 32),
  mul32s: (a, b) => i(a * b, 32),
  shl32s: (a, b) => i(a << (b % 32n), 32),
  shr32s: (a, b) => i(u(a, 32) >> (b % 32n), 32),
  sar32s: (a, b) => i(a, 32) >> (b % 32n),
  clz32: (a) => leading(a, 32),
  ctz32: (a) => trailing(a, 32),
  sx8: (a) => i(a, 8),
  sx16: (a) => i(a, 16),
  sx32: (a) => i(a, 32),
  zx8: (a) => u(a, 8),
  zx16: (a) => u(a, 16),
  zx32: (a) => u(a, 32),
  pdep: (a, b) => depositOrExtract(a, b, true),
  pext: (a, b) => depositOrExtract(a, b, false),
  ins8: (a, b) => (a & ~0xffn) | (b & 0xffn),
  ins8h: (a, b) => (a & ~0xff00n) | ((b & 0xffn) << 8n),
  ins16: (a, b) => (a & ~0xffffn) | (b & 0xffffn),
};
for (const condition of CONDITIONS) {
  Object.assign(REFERENCE, {
    [`set${condition}`]: (a: bigint, b: bigint) => flag(COMPARE[condition](a, b, 64)),
    [`set${condition}32`]: (a: bigint, b: bigint) => flag(COMPARE[condition](a, b, 32)),
  });
}

/** Runs ops that leave results in memory at 0x8000 + 8 * k; returns the results. */
function evaluate(count: number, emit: (k: number) => HandInstruction[]): bigint[] {
  const results: bigint[] = [];
  const perBatch = 250;
  for (let from = 0; from < count; from += perBatch) {
    const to = Math.min(count, from + perBatch);
    const program: HandInstruction[] = [];
    for (let k = from; k < to; k++) {
      program.push(...emit(k), (b) => {
        b.store('st64', s(2), 0x8000n + BigInt(8 * (k - from)), 0n);
        return undefined;
      });
    }
    const machine = handMachine(program, 0x1_0000n);
    machine.map({ address: 0x8000n, size: 8 * perBatch, permission: 'rw' });
    machine.memory.unmap(0x1_0000n, 0x1000);
    machine.map({ address: 0x1_0000n, size: 4 * program.length + 4, permission: 'rx' });
    expect(machine.run().kind).toBe('unknown-instruction');
    const bytes = machine.memory.read(0x8000n, 8 * (to - from))!;
    results.push(...new BigUint64Array(bytes.buffer, 0, to - from));
  }
  return results;
}

type PureOp = Parameters<Parameters<HandInstruction>[0]['make']>[0];
const isPure = (name: OpName): name is PureOp => {
  const row = OPS[name];
  return (row.form === 'unary' || row.form === 'binary') && row.d === 'i64' && row.type === 'i64';
};

/**
 * Numbers at which branches are tried: corners, of which the rest has others of the same kind; in
 * the compiled tier each case is compiled anew.
 */
const SOME = VALUES.filter((_, i) => isWhole || i % (import.meta.url.endsWith('tier=1') ? 4 : 2) === 0);

describe('pure ops', () => {
  for (const name of OP_NAMES) {
    if (!isPure(name)) continue;
    test(name, () => {
      const reference = REFERENCE[name]!;
      const cases: (readonly [bigint, bigint])[] = [];
      const unary = OPS[name].form === 'unary';
      for (const a of VALUES) for (const b of unary ? [0n] : SOME) cases.push([a, b]);
      const results = evaluate(cases.length, (k) => {
        const [a, b] = cases[k]!;
        // Constants and slots in all four combinations, also with the destination equal to an
        // operand.
        const form = k % 6;
        return [
          (out) => {
            out.mov(s(0), a);
            out.mov(s(1), b);
            out.mov(s(2), form === 4 ? a : b);
            const first: Operand = form === 1 || form === 3 ? a : form === 4 ? s(2) : s(0);
            const second: Operand = unary ? 0n : form === 2 || form === 3 ? b : form === 5 ? s(2) : s(1);
            out.to(s(2), name, first, second);
            return undefined;
          },
        ];
      });
      // One expectation for all: each captures a stack trace.
      const wrong: string[] = [];
      results.forEach((result, k) => {
        const [a, b] = cases[k]!;
        if (result !== u(reference(a, b))) wrong.push(`${a} ${name} ${b} = ${result}, not ${u(reference(a, b))}`);
      });
      expect([results.length, wrong]).toEqual([cases.length, []]);
    });
  }

  test('every pure integer row has a reference', () => {
    expect(OP_NAMES.filter((name) => isPure(name) && !(name in REFERENCE))).toEqual([]);
  });

  test('select takes slots and constants', () => {
    const cases = [0n, 1n, 1n << 32n, u(-1n)];
    const results = evaluate(cases.length * 2, (k) => [
      (b) => {
        const c = cases[k >> 1]!;
        b.mov(s(0), 11n);
        b.mov(s(3), c);
        b.select(s(2), k & 1 ? c : s(3), k & 1 ? 11n : s(0), 22n);
        return undefined;
      },
    ]);
    expect(results).toEqual([22n, 22n, 11n, 11n, 11n, 11n, 11n, 11n]);
  });
});

describe('divwide', () => {
  const check = (cases: readonly (readonly [bigint, bigint, bigint])[]): void => {
    const results = evaluate(cases.length, (k) => [
      (b) => {
        const [high, low, divisor] = cases[k]!;
        b.mov(s(2), b.divideWide(high, low, divisor));
        return undefined;
      },
    ]);
    const expected = cases.map(([high, low, divisor]) =>
      high >= divisor ? 0n : ((high << 64n) | low) / (divisor === 0n ? 1n : divisor),
    );
    expect(results).toEqual(expected);
  };

  test('128 bits by 64 at every corner, digits that are guessed one and two too large among them', () => {
    const numbers = [0n, 1n, 2n, 3n, 0xffff_fffen, 0xffff_ffffn, 1n << 32n, (1n << 32n) + 1n, (1n << 63n) - 1n, 1n << 63n].concat(
      [(1n << 63n) + 1n, 0x8000_0000_ffff_ffffn, 0xffff_ffff_0000_0000n, u(-2n), u(-1n)],
    ); // prettier-ignore
    check(numbers.flatMap((high) => numbers.flatMap((low) => numbers.map((by) => [high, low, by] as const))));
  });

  test('any numbers', () => {
    const word = fc.bigInt({ min: 0n, max: u(-1n) }).chain((value) => fc.nat(63).map((bits) => value >> BigInt(bits)));
    fc.assert(
      fc.property(fc.array(fc.tuple(word, word, word), { minLength: 200, maxLength: 200 }), (cases) => {
        check(cases);
      }),
      { numRuns: 20 },
    );
  });
});

describe('branches', () => {
  for (const width of [64, 32] as const) {
    for (const condition of CONDITIONS) {
      test(`br ${condition} ${width}`, () => {
        for (const constant of [false, true]) {
          for (const a of SOME) {
            const program: HandInstruction[] = [];
            const asked = VALUES.filter((_, k) => k % 3 === 0);
            for (const b of asked) {
              const at = 0x1000n + BigInt(4 * program.length);
              program.push((out) => {
                out.mov(s(0), a);
                out.mov(s(1), b);
                return { kind: 'br', condition, width, a: s(0), b: constant ? b : s(1), pc: at + 8n, next: at + 4n };
              });
              program.push((out) => {
                out.to(s(2), 'shl', s(2), 1n);
                return { kind: 'jmp', pc: at + 12n };
              });
              program.push((out) => {
                out.to(s(2), 'or', out.make('shl', s(2), 1n), 1n);
                return undefined;
              });
            }
            const machine = handMachine(program);
            machine.run();
            let expected = 0n;
            // One bit per branch: 1 where it was taken.
            for (const b of asked) expected = (expected << 1n) | flag(COMPARE[condition](a, b, width));
            const got = machine.register('s2');
            expect(program.length).toBe(3 * asked.length);
            expect(got).toBe(expected);
          }
        }
      });
    }
  }
});

/** Executes the program of a machine once more from its beginning. */
function rerun(machine: Machine, registers: Readonly<Record<string, bigint>>): void {
  machine.setRegister('pc', CODE);
  for (const [name, value] of Object.entries(registers)) machine.setRegister(name, value);
  machine.run();
}

describe('fused pairs', () => {
  const record = HAND_SLOTS.slot('k');
  const go = (next: bigint) => ({ kind: 'jmp', pc: next }) as const;

  test.each(CONDITIONS)('a record and a branch on it: %s', (condition) => {
    for (const width of [64, 32] as const) {
      const kind = width === 64 ? 'cmps64' : 'cmpu32';
      const machineOf = (constant: bigint | null): Machine =>
        handMachine([
          (out) => {
            out.record(record, kind, s(0), constant ?? s(1));
            return {
              kind: 'br',
              condition,
              width,
              a: record + 1,
              b: constant ?? record + 2,
              pc: 0x1008n,
              next: 0x1004n,
            };
          },
          () => go(0x2000n),
          () => go(0x3000n),
        ]);
      const slots = machineOf(null);
      for (const constant of [false, true]) {
        for (const a of SOME) {
          for (const other of [VALUES[(VALUES.indexOf(a) * 5 + 3) % VALUES.length]!, a]) {
            const machine = constant ? machineOf(other) : slots;
            rerun(machine, { s0: a, s1: other });
            expect(machine.register('pc')).toBe(COMPARE[condition](a, other, width) ? 0x3000n : 0x2000n);
            const { code } = RECORD_KINDS[kind];
            expect([0, 1, 2].map((k) => machine.slot(record + k))).toEqual([BigInt(code), a, other]);
          }
        }
      }
    }
  });

  test.each(['rotl', 'rotl32', 'shr', 'shr32'] as const)(
    'a field taken out: %s and a mask, read again or not',
    (name) => {
      const mask = 0x00ff_00ff_f0f0_7fffn;
      for (const count of [0n, 1n, 17n, 31n, 63n]) {
        /** Who reads the temporary behind the mask: nobody, the mask itself, an op, a branch. */
        for (const reader of ['none', 'same', 'op', 'branch'] as const) {
          const machine = handMachine([
            (out) => {
              const middle = out.make(name, s(0), count);
              const d = reader === 'same' ? middle : s(1);
              out.to(d, 'and', middle, mask);
              if (reader === 'same' || reader === 'op') out.mov(s(2), middle);
              if (reader !== 'branch') return go(0x2000n);
              return { kind: 'br', condition: 'eq', width: 64, a: middle, b: s(3), pc: 0x1008n, next: 0x1004n };
            },
            () => go(0x3000n),
            () => go(0x4000n),
          ]);
          for (const a of VALUES.filter((_, k) => k % 3 === 0)) {
            const shifted = u(REFERENCE[name]!(a, count));
            const masked = shifted & mask;
            rerun(machine, { s0: a, s1: 0n, s2: 0n, s3: shifted });
            expect(machine.register('pc')).toBe(reader === 'branch' ? 0x4000n : 0x2000n);
            const seen = reader === 'same' ? [0n, masked] : [masked, reader === 'op' ? shifted : 0n];
            expect([machine.register('s1'), machine.register('s2')]).toEqual(seen);
          }
        }
      }
    },
  );

  test.each(['testlt', 'testgt', 'testeq'] as const)(
    'a test of a record of an earlier block and the branch on it: %s',
    (name) => {
      const kinds = ['bits', 'cmps64', 'cmpu64', 'cmps32', 'cmpu32'] as const;
      for (const kind of kinds) {
        for (const condition of ['ne', 'eq', 'lt'] as const) {
          const machine = handMachine([
            (out) => {
              out.record(record, kind, s(0), s(1));
              return go(0x1004n);
            },
            (out) => {
              const answer = out.test(name, record);
              return { kind: 'br', condition, width: 64, a: answer, b: 0n, pc: 0x100cn, next: 0x1008n };
            },
            () => go(0x2000n),
            () => go(0x3000n),
          ]);
          for (const a of SOME) {
            for (const b of [a, u(a + 1n), u(a ^ (1n << 31n)), VALUES[(VALUES.indexOf(a) * 5 + 3) % VALUES.length]!]) {
              const first = kind === 'bits' ? a & 15n : a;
              rerun(machine, { s0: first, s1: b });
              const width = kind.endsWith('64') ? 64 : 32;
              const signs = kind.startsWith('cmps') ? '' : 'u';
              const asked = { testlt: `lt${signs}`, testgt: `gt${signs}`, testeq: 'eq' } as const;
              const holds =
                kind === 'bits'
                  ? ((first >> { testlt: 3n, testgt: 2n, testeq: 1n }[name]) & 1n) === 1n
                  : COMPARE[asked[name] as Condition](first, b, width);
              // The answer is 0 or 1, which is never less than 0.
              const taken = condition !== 'lt' && holds === (condition === 'ne');
              expect(machine.register('pc')).toBe(taken ? 0x3000n : 0x2000n);
            }
          }
        }
      }
    },
  );

  test('a move and an indirect branch, to what was moved or elsewhere, known and not yet known', () => {
    for (const kind of ['calli', 'ret', 'ind'] as const) {
      for (const [from, through] of [
        ['constant', 'moved'],
        ['constant', 'other'],
        ['slot', 'moved'],
        ['slot', 'other'],
      ] as const) {
        const machine = handMachine([
          (out) => {
            out.mov(s(1), from === 'slot' ? s(0) : 0x100bn);
            const place = { s: through === 'moved' ? s(1) : s(2), mask: u(~3n) };
            return kind === 'calli' ? { kind, ...place, ret: 0x1004n } : { kind, ...place };
          },
          () => go(0x2000n),
          (out) => {
            out.to(s(3), 'add', s(3), 1n);
            return { kind: 'br', condition: 'ne', width: 64, a: s(3), b: 3n, pc: 0x1000n, next: 0x100cn };
          },
          () => go(0x3000n),
        ]);
        machine.setRegister('s0', 0x100bn);
        machine.setRegister('s2', 0x1009n);
        machine.run();
        expect(['s1', 's3', 'pc'].map((name) => machine.register(name))).toEqual([0x100bn, 3n, 0x3000n]);
        expect(machine.instructions).toBe(7);
      }
    }
  });

  test('a constant and a jump or call, into another slot or none that is read', () => {
    for (const kind of ['jmp', 'call'] as const) {
      for (const value of VALUES) {
        const machine = handMachine([
          (out) => {
            out.mov(s(1), value);
            return kind === 'jmp' ? { kind, pc: 0x1008n } : { kind, pc: 0x1008n, ret: 0x1004n };
          },
          () => go(0x2000n),
          (out) => {
            out.mov(s(2), s(1));
            return go(0x3000n);
          },
        ]);
        machine.run();
        expect([machine.register('pc'), machine.register('s1'), machine.register('s2')]).toEqual([
          0x3000n,
          value,
          value,
        ]);
        expect(machine.instructions).toBe(2);
      }
    }
  });

  test.each(CONDITIONS)('an addition and a branch that compares the sum with a slot: %s', (condition) => {
    for (const [a, b] of [
      [s(2), s(1)],
      [s(1), s(2)],
      [s(0), s(1)],
      [s(2), s(2)],
    ] as const) {
      // prettier-ignore
      for (const from of [s(0), s(2), s(1)]) {
        const machine = handMachine([
          (out) => {
            out.to(s(2), 'add', from, 7n);
            return { kind: 'br', condition, width: 64, a, b, pc: 0x1008n, next: 0x1004n };
          },
          () => go(0x2000n),
          () => go(0x3000n),
        ]);
        for (const value of VALUES.filter((_, k) => k % 5 === 0)) {
          for (const other of [value, u(value + 7n), VALUES[(VALUES.indexOf(value) * 5 + 3) % VALUES.length]!]) {
            rerun(machine, { s0: value, s1: other, s2: 0x1234n });
            const sum = u((from === s(0) ? value : from === s(1) ? other : 0x1234n) + 7n);
            const of = (slot: number): bigint => (slot === s(0) ? value : slot === s(1) ? other : sum);
            expect(machine.register('s2')).toBe(sum);
            expect(machine.register('pc')).toBe(COMPARE[condition](of(a), of(b), 64) ? 0x3000n : 0x2000n);
          }
        }
      }
    }
  });

  test.each(['add', 'sub', 'sub32'] as const)('%s and a branch on its result', (op) => {
    for (const condition of CONDITIONS) {
      for (const [from, by] of [[3n, 1n], [1n, 1n], [0n, 1n], [u(-1n), 1n], [1n, u(-1n)], [1n << 32n, 1n << 32n]] as const) {
        const machine = handMachine([
          (out) => {
            out.to(s(0), op, s(1), by);
            return { kind: 'br', condition, width: 64, a: s(0), b: 0n, pc: 0x1008n, next: 0x1004n };
          },
          () => go(0x2000n),
          () => go(0x3000n),
        ]);
        machine.setRegister('s1', from);
        machine.run();
        const result = u(REFERENCE[op]!(from, by));
        expect(machine.register('s0')).toBe(result);
        expect(machine.register('pc')).toBe(COMPARE[condition](result, 0n, 64) ? 0x3000n : 0x2000n);
      }
    } // prettier-ignore
  });
});

describe('records that keep a result', () => {
  const record = HAND_SLOTS.slot('k');

  test.each(['eq', 'ne', 'lt', 'ge', 'gt', 'ltu'] as const)('a branch that compares it with 0: %s', (condition) => {
    for (const width of [64, 32] as const) {
      for (const constant of [false, true]) {
        for (const a of SOME) {
          const machine = handMachine([
            (out) => {
              out.record(record, width === 64 ? 'add64' : 'inc32', s(0), constant ? 5n : s(1));
              return { kind: 'br', condition, width, a: record + 1, b: 0n, pc: 0x1008n, next: 0x1004n };
            },
            () => ({ kind: 'jmp', pc: 0x2000n }),
            () => ({ kind: 'jmp', pc: 0x3000n }),
          ]);
          machine.setRegister('s0', a);
          machine.setRegister('s1', 7n);
          machine.run();
          expect(machine.register('pc')).toBe(COMPARE[condition](a, 0n, width) ? 0x3000n : 0x2000n);
          const code = recordCode(width === 64 ? 'add64' : 'inc32');
          expect([0, 1, 2].map((k) => machine.slot(record + k))).toEqual([BigInt(code), a, constant ? 5n : 7n]);
        }
      }
    }
  });

  test('a guarded record is written only when the guard is not 0, and is a use of the one before', () => {
    for (const guard of [0n, 1n, 1n << 63n]) {
      for (const constant of [false, true]) {
        const machine = handMachine([
          (b) => {
            b.record(record, 'sub64', 1n, 2n);
            b.recordIf(s(0), record, 'add32', s(1), constant ? 3n : s(2));
            return undefined;
          },
        ]);
        machine.setRegister('s0', guard);
        machine.setRegister('s1', 8n);
        machine.setRegister('s2', 9n);
        machine.run();
        const expected =
          guard === 0n ? [BigInt(recordCode('sub64')), 1n, 2n] : [BigInt(recordCode('add32')), 8n, constant ? 3n : 9n];
        expect([0, 1, 2].map((k) => machine.slot(record + k))).toEqual(expected);
      }
    }
  });
});

describe('leaving in the middle', () => {
  test('leavez goes elsewhere with everything before it done, counts the instruction, and can be linked', () => {
    // s0 := s0 - 1; if s1 = 0 go to 0x1008; s2 := s2 + 1; again
    const machine = handMachine([
      (b) => {
        b.to(s(0), 'sub', s(0), 1n);
        b.leaveIfZero(s(1), 0x1008n);
        b.to(s(2), 'add', s(2), 1n);
        b.to(s(1), 'sub', s(1), 1n);
        return { kind: 'jmp', pc: 0x1000n };
      },
      () => ({ kind: 'jmp', pc: 0x2000n }),
      (b) => {
        b.to(s(3), 'add', s(3), 1n);
        b.mov(s(1), 2n);
        return { kind: 'br', condition: 'ne', width: 64, a: s(0), b: 0n, pc: 0x1000n, next: 0x1004n };
      },
    ]);
    machine.setRegister('s0', 9n);
    machine.setRegister('s1', 2n);
    machine.run();
    // Three rounds of two and a leave.
    expect(['s0', 's2', 's3', 'pc'].map((name) => machine.register(name))).toEqual([0n, 6n, 3n, 0x2000n]);
    expect(machine.instructions).toBe(3 * 4 + 1);
  });

  test('a guard that fails does the instruction again, in the slow way, with what came before it in the block kept', () => {
    const asked: boolean[] = [];
    const program = new Map<bigint, HandInstruction>([
      [
        0x1000n,
        (b): undefined => {
          b.to(s(0), 'add', s(0), 1n);
        },
      ],
    ]);
    const plain = handLifter(program, {
      helpers: {
        slow: (state) => {
          state.set(s(1), 100n);
          return { kind: 'next' };
        },
      },
    });
    const machine = new Machine({
      lifter: {
        ...plain,
        lift: (code, address, limits) => {
          program.set(0x1004n, (b) => {
            asked.push(limits.slow === true);
            if (limits.slow === true) return { kind: 'helper', name: 'slow', argument: 0, next: 0x1008n };
            b.guard(s(2));
            b.to(s(1), 'add', s(1), 1n);
            return undefined;
          });
          return plain.lift(code, address, limits);
        },
      },
    });
    machine.map({ address: 0x1000n, size: 0x1000, permission: 'rx' });
    for (const guard of [1n, 0n, 1n]) {
      machine.setRegister('pc', 0x1000n);
      machine.setRegister('s2', guard);
      expect(machine.run().kind).toBe('unknown-instruction');
    }
    expect([machine.register('s0'), machine.register('s1'), machine.instructions]).toEqual([3n, 101n, 6]);
    expect(asked).toContain(true);
  });
});

describe('condition records', () => {
  const record = HAND_SLOTS.slot('k');
  for (const kind of ['bits', 'cmps64', 'cmpu64', 'cmps32', 'cmpu32'] as const satisfies readonly RecordKind[]) {
    test(kind, () => {
      const cases: (readonly [bigint, bigint])[] = [];
      for (const a of VALUES) for (const b of VALUES) cases.push([kind === 'bits' ? a & 15n : a, b]);
      const results = evaluate(cases.length, (k) => [
        (b) => {
          const [x, y] = cases[k]!;
          b.mov(s(0), x);
          b.mov(s(1), y);
          b.record(record, kind, k % 3 === 1 ? x : s(0), k % 2 ? y : s(1));
          const lt = b.make('shl', b.test('testlt', record), 3n);
          const gt = b.make('shl', b.test('testgt', record), 2n);
          const eq = b.make('shl', b.test('testeq', record), 1n);
          b.to(s(2), 'or', b.make('or', lt, gt), eq);
          b.to(s(2), 'or', s(2), b.make('shl', b.test('testcr', record), 4n));
          return undefined;
        },
      ]);
      results.forEach((both, k) => {
        const result = both & 15n;
        expect(both >> 4n).toBe(kind === 'bits' ? cases[k]![0] : result);
        const [a, b] = cases[k]!;
        const { compare } = RECORD_KINDS[kind];
        let expected = a & 14n;
        if (compare) {
          const take = (value: bigint): bigint => (compare.signed ? i(value, compare.width) : u(value, compare.width));
          expected = take(a) < take(b) ? 8n : take(a) > take(b) ? 4n : 2n;
        }
        expect(result).toBe(expected);
        expect(recordBits(BigInt(RECORD_KINDS[kind].code), a, b) & 14).toBe(Number(expected));
      });
    });
  }
});

describe('dead ops', () => {
  test('a value that is overwritten before a stop is not computed, one that a fault can see is', () => {
    const machine = handMachine([
      (b) => {
        b.mov(s(0), 1n);
        b.mov(s(0), 2n);
        return undefined;
      },
      (b) => {
        b.load('ld64', s(1), 0x9999_0000n, 0n);
        b.mov(s(0), 3n);
        return undefined;
      },
    ]);
    expect(machine.run()).toEqual({ kind: 'fault', address: 0x9999_0000n, access: 'read', instruction: 0x1004n });
    expect(machine.register('s0')).toBe(2n);
  });
});

describe('aligned', () => {
  test('stops where a bit of the mask is set, before the instruction, with all that was written before it', () => {
    for (const [address, mask, stops] of [
      [0x8000n, 7n, false],
      [0x8004n, 7n, true],
      [0x8004n, 3n, false],
      [0x8001n, 1n, true],
      [0xffff_ffff_ffff_fff8n, 15n, true],
      [0xffff_ffff_ffff_fff0n, 15n, false],
    ] as const) {
      for (const constant of [false, true]) {
        const machine = handMachine([
          (b) => {
            b.mov(s(0), 1n);
            return undefined;
          },
          (b) => {
            // Dead unless the check may stop; what comes behind it is not done then.
            b.mov(s(1), 2n);
            return undefined;
          },
          (b) => {
            b.aligned(constant ? address : s(5), mask);
            b.mov(s(1), 3n);
            return undefined;
          },
        ]);
        machine.setRegister('s5', address);
        const stop = machine.run();
        if (stops) expect(stop).toEqual({ kind: 'trap', trap: 'alignment', instruction: 0x1008n });
        else expect(stop).toMatchObject({ kind: 'unknown-instruction', instruction: 0x100cn });
        expect(machine.register('s0')).toBe(1n);
        expect(machine.register('s1')).toBe(stops ? 2n : 3n);
        expect(machine.instructions).toBe(stops ? 2 : 3);
      }
    }
  });
});
