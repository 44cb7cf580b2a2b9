/**
 * Condition records that are written in one block and asked in another, in compiled code: on the
 * ways that meet there the same kind of comparison, or another one.
 */
import { expect, test } from '@jest/globals';
import { defaults } from '../src/emulator/machine.js';
import type { RecordKind } from '../src/machine/ir.js';
import { CODE, HAND_SLOTS, handMachine, s } from './support/emulator.js';
import type { HandInstruction } from './support/emulator.js';

const KINDS = ['bits', 'cmps64', 'cmpu64', 'cmps32', 'cmpu32'] as const satisfies readonly RecordKind[];
type Kind = (typeof KINDS)[number];
const K = HAND_SLOTS.slot('k');
const lineAt = (line: number): bigint => CODE + BigInt(4 * line);

/** Less, greater, equal as bits 8, 4, 2. */
function answer(kind: Kind, a: bigint, b: bigint): bigint {
  if (kind === 'bits') return a & 14n;
  const width = kind.endsWith('32') ? 32 : 64;
  const [x, y] = [a, b].map((each) => (kind.startsWith('cmps') ? BigInt.asIntN : BigInt.asUintN)(width, each));
  return x! < y! ? 8n : x! > y! ? 4n : 2n;
}

const branchOn =
  (
    ask: (b: Parameters<HandInstruction>[0]) => number,
    condition: 'eq' | 'ne',
    to: number,
    next: number,
  ): HandInstruction =>
  (b) => ({ kind: 'br', condition, width: 64, a: ask(b), b: 0n, pc: lineAt(to), next: lineAt(next) });

const jump =
  (to: number, body: HandInstruction): HandInstruction =>
  (b) => {
    body(b);
    return { kind: 'jmp', pc: lineAt(to) };
  };

/** s0 chooses the way, s1 and s2 are compared on it, and s8 says whether the second way does so. */
const program = (first: Kind, second: Kind): readonly HandInstruction[] => [
  (b) => void b.record(K, 'cmpu32', s(13), s(14)),
  branchOn(() => s(0), 'eq', 3, 2),
  jump(4, (b) => void b.record(K, first, s(1), s(2))),
  jump(4, (b) => void b.recordIf(s(8), K, second, s(1), s(2))),
  (b) => void b.mov(s(3), b.test('testlt', K)),
  (b) => void b.select(s(4), b.test('testgt', K), 77n, 5n),
  (b) => {
    b.mov(s(7), b.test('testcr', K));
    for (let i = 0; i < 3; i++) b.mov(s(10 + i), K + i);
    return undefined;
  },
  branchOn((b) => b.test('testeq', s(10)), 'ne', 9, 8),
  jump(10, (b) => void b.mov(s(6), 1n)),
  jump(10, (b) => void b.mov(s(6), 2n)),
  branchOn((b) => b.test('testlt', s(10)), 'eq', 12, 11),
  jump(13, (b) => void b.mov(s(5), 1n)),
  jump(13, (b) => void b.mov(s(5), 2n)),
];

const VALUES: readonly (readonly [bigint, bigint])[] = [
  [1n, 2n],
  [2n, 1n],
  [4n, 4n],
  [0xffff_ffffn, 1n],
  [0x1_0000_0002n, 3n],
  [0xffff_ffff_ffff_fff8n, 8n],
  [8n, 0x8000_0000_0000_0008n],
];

test.each(KINDS)('%s on one way, any kind or what was there before on the other', (first) => {
  defaults.tier = 1;
  try {
    for (const second of KINDS) {
      const machine = handMachine(program(first, second));
      for (const [a, b] of VALUES) {
        for (const way of ['first', 'second', 'before'] as const) {
          const set = { s0: way === 'first' ? 1n : 0n, s1: a, s2: b, s8: way === 'second' ? 1n : 0n, s13: b, s14: a };
          for (const [name, value] of Object.entries(set)) machine.setRegister(name, value);
          machine.setRegister('pc', CODE);
          expect(machine.run().kind).toBe('unknown-instruction');
          const bits = way === 'before' ? answer('cmpu32', b, a) : answer(way === 'first' ? first : second, a, b);
          const found = ['s3', 's4', 's7', 's6', 's5'].map((name) => machine.register(name));
          const [less, greater, equal] = [8n, 4n, 2n].map((each) => (bits & each) !== 0n);
          const [cr] = [found[2]! & 14n];
          expect([second, a, b, way, found[0], found[1], cr, found[3], found[4]]).toEqual([
            second,
            a,
            b,
            way,
            less ? 1n : 0n,
            greater ? 77n : 5n,
            bits,
            equal ? 2n : 1n,
            less ? 1n : 2n,
          ]);
        }
      }
      expect(machine.compiledCounts?.compiled).toBeGreaterThan(0);
    }
  } finally {
    defaults.tier = 'auto';
  }
});

test('where code leaves in the middle of a block the kind is that of what was done in front', () => {
  // Compared with its sign; on the way that leaves at once it is asked so, behind it without.
  const lines: readonly HandInstruction[] = [
    jump(1, (b) => void b.mov(s(9), 0n)),
    (b) => {
      b.record(K, 'cmps64', s(1), s(2));
      b.leaveIfZero(s(0), lineAt(3));
      b.record(K, 'cmpu64', s(1), s(2));
      return { kind: 'jmp', pc: lineAt(2) };
    },
    jump(4, (b) => void b.mov(s(3), b.test('testlt', K))),
    jump(4, (b) => void b.mov(s(3), b.test('testlt', K))),
    (b) => {
      b.to(s(0), 'sub', 1n, s(0));
      b.to(s(9), 'add', s(9), 1n);
      b.to(s(4), 'add', s(4), s(4));
      b.to(s(4), 'add', s(4), s(3));
      return { kind: 'br', condition: 'ltu', width: 64, a: s(9), b: 4n, pc: lineAt(1), next: lineAt(5) };
    },
  ];
  for (const tier of [0, 1] as const) {
    defaults.tier = tier;
    try {
      const machine = handMachine(lines);
      for (const [name, value] of Object.entries({ s0: 1n, s1: -1n, s2: 1n })) machine.setRegister(name, value);
      machine.run();
      // -1 is less than 1 with its sign alone: on every second way.
      expect([tier, machine.register('s4')]).toEqual([tier, 0b0101n]);
    } finally {
      defaults.tier = 'auto';
    }
  }
});
