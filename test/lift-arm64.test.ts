/**
 * A64 semantics that the batches under qemu do not show: condition records that are only looked at
 * from outside, landing pads, pointer authentication switched off, system registers, cache
 * maintenance, stale code, reservations between CPUs, what is only named.
 */
import { describe, expect, test } from '@jest/globals';
import { arm64 } from '../src/arch-arm64/index.js';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { conditionHolds } from '../src/arch-arm64/conditions.js';
import { Machine, runSchedule, TIME_HZ } from '../src/emulator/index.js';
import type { A64Line } from './support/arm64-batch.js';
import { a64Words, SYSREG } from './support/arm64-batch.js';
import { a64Machine, stateOf } from './support/arm64-local.js';

const START = 0x1_0000n;
const DATA = 0x2_0000n;
const register = (op1: number, n: number, m: number, op2: number): number =>
  (1 << 14) | (op1 << 11) | (n << 7) | (m << 3) | op2;
const withData = (lines: readonly A64Line[]): Machine => {
  const machine = a64Machine(lines);
  machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
  return machine;
};

describe('flags', () => {
  const values = [0n, 1n, -1n, 5n, 0x7fff_ffffn, 0x8000_0000n, 0xffff_ffffn, 1n << 63n, (1n << 63n) - 1n].map((each) =>
    BigInt.asUintN(64, each),
  );

  test('what the view of nzcv says is what mrs reads, for each kind of record', () => {
    const two = { shift: 0, amount: 0, rm: 5, rn: 4, rd: 31 };
    const kinds: A64Line[][] = [0, 1].flatMap((sf): A64Line[][] => [
      [['subs-reg', { sf, ...two }]],
      [['adds-reg', { sf, ...two }]],
      [['ands-reg', { sf, ...two }]],
      [['adcs', { sf, rm: 5, rn: 4, rd: 31 }]],
      [['sbcs', { sf, rm: 5, rn: 4, rd: 31 }]],
      [['ccmp-reg', { sf, rm: 5, rn: 4, cond: 0, nzcv: 9 }]],
      [['ccmn-reg', { sf, rm: 5, rn: 4, cond: 2, nzcv: 6 }]],
    ]);
    let cases = 0;
    for (const lines of kinds) {
      const machine = a64Machine([...lines, ['b', { off: 4 }], ['mrs', { sysreg: SYSREG.nzcv, xt: 6 }]]);
      for (const a of values) {
        for (const b of values) {
          for (const nzcv of [0n, 6n << 28n]) {
            machine.setRegister('pc', START);
            machine.setRegister('x4', a);
            machine.setRegister('x5', b);
            machine.setRegister('nzcv', nzcv);
            machine.run({ budget: 2 });
            const seen = machine.register('nzcv');
            machine.run({ budget: 1 });
            expect(machine.register('x6')).toBe(seen);
            cases++;
          }
        }
      }
    }
    expect(cases).toBe(14 * 81 * 2);
  });

  test('conditions are those of the manual', () => {
    const names = ['eq', 'ne', 'cs', 'cc', 'mi', 'pl', 'vs', 'vc', 'hi', 'ls', 'ge', 'lt', 'gt', 'le', 'al', 'nv'];
    // Flags of the unsigned and signed comparison of two numbers of two bits.
    for (let a = 0; a < 4; a++) {
      for (let b = 0; b < 4; b++) {
        const [x, y] = [a > 1 ? a - 4 : a, b > 1 ? b - 4 : b];
        const result = (a - b) & 3;
        const overflow = x - y > 1 || x - y < -2;
        const nzcv = (result & 2 ? 8 : 0) | (result === 0 ? 4 : 0) | (a >= b ? 2 : 0) | (overflow ? 1 : 0);
        const holds = [
          a === b,
          a !== b,
          a >= b,
          a < b,
          null,
          null,
          null,
          null,
          a > b,
          a <= b,
          x >= y,
          x < y,
          x > y,
          x <= y,
          true,
          true,
        ];
        names.forEach((_, i) => {
          if (holds[i] !== null) expect([a, b, names[i], conditionHolds(i, nzcv)]).toEqual([a, b, names[i], holds[i]]);
        });
      }
    }
  });
});

describe('branch target identification', () => {
  const TARGET = START + 0x40n;
  const branches: readonly (readonly [name: string, line: A64Line, type: 1 | 2 | 3 | 0])[] = [
    ['br x16', ['br', { xn: 16 }], 1],
    ['br x17', ['br', { xn: 17 }], 1],
    ['br x3', ['br', { xn: 3 }], 3],
    ['blr x3', ['blr', { xn: 3 }], 2],
    ['braaz x16', ['braaz', { xn: 16 }], 1],
    ['blraaz x3', ['blraaz', { xn: 3 }], 2],
    ['ret x3', ['ret', { xn: 3 }], 0],
    ['b', ['b', { off: 0x40 }], 0],
  ];
  const pads: readonly (readonly [name: string, line: A64Line, types: readonly number[]])[] = [
    ['bti c', ['bti', { targets: 1 }], [1, 2]],
    ['bti j', ['bti', { targets: 2 }], [1, 3]],
    ['bti jc', ['bti', { targets: 3 }], [1, 2, 3]],
    ['bti', ['bti', { targets: 0 }], []],
    ['paciasp', ['paciasp', {}], [1, 2]],
    ['pacibsp', ['pacibsp', {}], [1, 2]],
    ['nop', ['nop', {}], []],
    ['add', ['add-imm', { sf: 1, sh: 0, imm12: 1, rnsp: 4, rdsp: 4 }], []],
  ];

  test.each(branches)('%s lands where it may', (name, line, type) => {
    for (const [padName, pad, types] of pads) {
      for (const guarded of [true, false]) {
        const machine = a64Machine([line], { guarded });
        machine.memory.write(TARGET, a64Words([pad, ['b', { off: 4 }], ['brk', { imm16: 0 }]]));
        for (const number of [3, 16, 17]) machine.setRegister(`x${number}`, TARGET);
        const stop = machine.run();
        const allowed = !guarded || type === 0 || types.includes(type);
        const expected = allowed
          ? { kind: 'trap', trap: 'breakpoint', instruction: TARGET + 8n }
          : { kind: 'trap', trap: 'branch-target', instruction: TARGET };
        expect([name, padName, guarded, stop]).toEqual([name, padName, guarded, expected]);
        if (!allowed) expect([machine.register('btype'), machine.instructions]).toEqual([BigInt(type), 1]);
        else expect(machine.register('btype')).toBe(0n);
      }
    }
  });

  test('brk raises its own exception; code that is not guarded is entered anywhere and lets nothing through', () => {
    const machine = a64Machine([['br', { xn: 3 }]], { guarded: true });
    machine.memory.write(TARGET, a64Words([['brk', { imm16: 1 }]]));
    machine.setRegister('x3', TARGET);
    expect(machine.run()).toMatchObject({ trap: 'breakpoint' });
    // From guarded code to plain code and back by a direct branch.
    const plain = 0x3_0000n;
    const mixed = a64Machine(
      [
        ['br', { xn: 3 }],
        ['nop', {}],
        ['brk', { imm16: 0 }],
      ],
      { guarded: true },
    );
    mixed.load(plain, a64Words([['b', { off: -0x2_0000 + 4 }]]), { permission: 'rx' });
    mixed.setRegister('x3', plain);
    expect(mixed.run()).toEqual({ kind: 'trap', trap: 'breakpoint', instruction: START + 8n });
    // From plain code a jump may land on what takes calls.
    const outside = a64Machine(
      [
        ['bti', { targets: 1 }],
        ['brk', { imm16: 0 }],
      ],
      { guarded: true },
    );
    outside.load(plain, a64Words([['br', { xn: 3 }]]), { permission: 'rx' });
    outside.setRegister('x3', START);
    outside.setRegister('pc', plain);
    expect(outside.run()).toMatchObject({ trap: 'breakpoint' });
  });

  test('memory can be guarded after it was executed', () => {
    const machine = a64Machine([
      ['br', { xn: 3 }],
      ['nop', {}],
      ['br', { xn: 4 }],
    ]);
    machine.setRegister('x3', START + 4n);
    machine.setRegister('x4', START);
    machine.run({ budget: 30 });
    machine.memory.protect(START, 0x1000, 'rx', true);
    expect(machine.run({ budget: 10 })).toMatchObject({ trap: 'branch-target' });
    machine.memory.protect(START, 0x1000, 'rx');
    expect(machine.run({ budget: 10 }).kind).toBe('step-limit');
  });

  test('snapshots keep what is guarded', () => {
    const machine = a64Machine(
      [
        ['br', { xn: 3 }],
        ['nop', {}],
      ],
      { guarded: true },
    );
    machine.setRegister('x3', START + 4n);
    const saved = machine.snapshot();
    machine.memory.protect(START, 0x1000, 'rx');
    machine.restore(saved);
    expect(machine.run()).toMatchObject({ trap: 'branch-target' });
  });
});

describe('addresses of instructions', () => {
  test.each([1n, 2n, 3n])('a branch to an address with the lowest bits %i faults there', (low) => {
    const machine = a64Machine([['br', { xn: 3 }]]);
    machine.setRegister('x3', START + 8n + low);
    expect(machine.run()).toEqual({ kind: 'trap', trap: 'misaligned-pc', instruction: START + 8n + low });
    expect(machine.instructions).toBe(1);
  });
});

describe('pointer authentication with all keys off', () => {
  test('signing and authenticating leave any pointer as it is', () => {
    const rows = arm64Table.rows.filter((row) => /^(pac|aut)[id]/.test(row.mnemonic));
    expect(rows.length).toBe(28);
    for (const { mnemonic, fields } of rows) {
      const operands = Object.fromEntries(fields.map(({ name }) => [name, name === 'xd' ? 4 : 5]));
      const machine = a64Machine([[mnemonic, operands]]);
      machine.setRegister('x4', 0xfedc_ba98_7654_3210n);
      const before = stateOf(machine).replace(/ pc=\S+/, '');
      expect(machine.step().kind).toBe('step-limit');
      expect(stateOf(machine).replace(/ pc=\S+/, '')).toBe(before);
    }
  });
});

describe('system registers', () => {
  const read = (sysreg: number): bigint | string => {
    const machine = a64Machine([['mrs', { sysreg, xt: 4 }]]);
    const stop = machine.step();
    return stop.kind === 'step-limit' ? machine.register('x4') : stop.kind === 'trap' ? stop.trap : stop.kind;
  };

  test('the identification registers say what is executed', () => {
    expect(read(register(0, 0, 6, 0))).toBe(0x0010_0000_0021_0000n);
    expect(read(register(0, 0, 4, 0))).toBe(0x0001_0000_0000_0011n);
    // Emulated as zero, and not emulated.
    expect(read(register(0, 0, 7, 2))).toBe(0n);
    expect(read(register(0, 0, 1, 0))).toBe('undefined');
    expect(read(register(0, 1, 0, 0))).toBe('undefined');
    expect(read(register(0, 0, 0, 1))).toBe('undefined');
  });

  test('the counter counts at the frequency that it names', () => {
    expect(read(register(3, 14, 0, 0))).toBe(BigInt(TIME_HZ));
    const machine = a64Machine([
      ['nop', {}],
      ['nop', {}],
      ['mrs', { sysreg: register(3, 14, 0, 2), xt: 4 }],
    ]);
    machine.run({ budget: 3 });
    expect(machine.register('x4')).toBe(2n);
  });

  test('dc zva clears the block that DCZID_EL0 names', () => {
    const bytes = 4 << Number(read(register(3, 0, 0, 7)));
    expect(bytes).toBe(64);
    const zva: A64Line = ['sys', { op1: 3, crn: 7, crm: 4, op2: 1, optional_xt: 9 }];
    for (const offset of [0, 1, 63, 64, 191]) {
      const machine = withData([zva]);
      machine.memory.write(DATA, new Uint8Array(0x400).fill(0xaa));
      machine.setRegister('x9', DATA + BigInt(offset));
      machine.step();
      const first = offset - (offset % bytes);
      expect(machine.memory.read(DATA, 0x400)).toEqual(new Uint8Array(0x400).fill(0xaa).fill(0, first, first + bytes));
    }
    const machine = withData([zva]);
    machine.setRegister('x9', DATA + 0x1001n);
    expect(machine.run()).toMatchObject({ kind: 'fault', access: 'write', address: DATA + 0x1000n });
  });

  test('cache maintenance by address needs a readable one; the rest is undefined', () => {
    for (const crm of [5, 10, 11, 12, 13, 14]) {
      const machine = withData([['sys', { op1: 3, crn: 7, crm, op2: 1, optional_xt: 9 }]]);
      machine.setRegister('x9', DATA + 0x1000n);
      expect(machine.run()).toMatchObject({ kind: 'fault', access: 'read', address: DATA + 0x1000n });
      machine.setRegister('x9', DATA + 0xfffn);
      expect(machine.step().kind).toBe('step-limit');
    }
    const all = withData([['sys', { op1: 0, crn: 7, crm: 5, op2: 0, optional_xt: 31 }]]);
    expect(all.run()).toMatchObject({ trap: 'undefined' });
  });
});

describe('several CPUs', () => {
  const two = (lines: readonly A64Line[]): Machine => {
    const machine = withData(lines);
    machine.addCpu();
    machine.switchTo(1);
    machine.setRegister('pc', START);
    machine.setRegister('x9', DATA);
    machine.setRegister('x4', 7n);
    machine.switchTo(0);
    machine.setRegister('x9', DATA);
    machine.setRegister('x4', 5n);
    return machine;
  };
  const reserve: A64Line = ['ldaxr-x', { xt: 3, base: 9 }];
  const store: A64Line = ['stlxr-x', { ws: 6, xt: 4, base: 9 }];

  test('a store of another CPU takes the reservation, one into the next granule does not', () => {
    for (const [offset, lost] of [[0, true], [56, true], [64, false]] as const) {
      const machine = two([reserve, store, ['str-x-imm', { xt: 4, base: 9, pimm: offset }]]);
      machine.run({ budget: 1 });
      machine.switchTo(1);
      machine.setRegister('pc', START + 8n);
      machine.run({ budget: 1 });
      machine.switchTo(0);
      machine.run({ budget: 1 });
      expect([offset, machine.register('x6')]).toEqual([offset, lost ? 1n : 0n]);
    } // prettier-ignore
  });

  test('of two CPUs in one exclusive sequence the first to store wins', () => {
    const machine = two([reserve, store]);
    runSchedule(machine, [
      { kind: 'run', cpu: 0, instructions: 1 },
      { kind: 'run', cpu: 1, instructions: 2 },
      { kind: 'run', cpu: 0, instructions: 1 },
    ]);
    machine.switchTo(0);
    expect(machine.register('x6')).toBe(1n);
    machine.switchTo(1);
    expect(machine.register('x6')).toBe(0n);
    expect(machine.readWord(DATA, 8)).toBe(7n);
  });

  test('a system call and clrex clear the reservation', () => {
    for (const between of [
      ['svc', { imm16: 0 }],
      ['clrex', { barrier: 15 }],
    ] as const) {
      const { emulation } = arm64;
      if (emulation.kind === 'none') throw new Error(emulation.reason);
      const machine = new Machine({ lifter: emulation.lifter, syscall: () => ({ kind: 'next' }) });
      machine.load(START, a64Words([reserve, between, store]), { permission: 'rx', size: 0x1000 });
      machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
      machine.setRegister('x9', DATA);
      machine.setRegister('pc', START);
      machine.run({ budget: 3 });
      expect(machine.register('x6')).toBe(1n);
    }
  });

  /** F-7 */
  test('F-7 a CPU executes what it has fetched until isb, a system call or a serialising step', () => {
    const { emulation } = arm64;
    if (emulation.kind === 'none') throw new Error(emulation.reason);
    for (const [last, stale] of [[['nop', {}], true], [['isb', { barrier: 15 }], false]] as const) {
      const machine = new Machine({ lifter: emulation.lifter, fetch: 'buffered' });
      // nop; add x3, x3, #1; nop or isb; b back
      const loop: A64Line[] = [['nop', {}], ['add-imm', { sf: 1, sh: 0, imm12: 1, rnsp: 3, rdsp: 3 }], last, ['b', { off: -12 }]];
      machine.load(START, a64Words(loop), { permission: 'rx', size: 0x1000 });
      machine.memory.write(START + 0x80n, a64Words([['add-imm', { sf: 1, sh: 0, imm12: 1, rnsp: 9, rdsp: 9 }], ['ret', { xn: 30 }]]));
      machine.addCpu();
      machine.switchTo(1);
      machine.setRegister('pc', START);
      const call = arm64Table.encode('bl', { off: 0x80 });
      runSchedule(machine, [
        { kind: 'run', cpu: 1, instructions: 4 },
        { kind: 'store', address: START, width: 4, value: BigInt(call) },
        { kind: 'run', cpu: 1, instructions: 40 },
      ]);
      expect(machine.register('x9') === 0n).toBe(stale);
      expect(machine.staleLines(1)).toEqual(stale ? [START] : []);
      runSchedule(machine, [{ kind: 'synchronise', cpu: 1 }, { kind: 'run', cpu: 1, instructions: 40 }]);
      expect(machine.register('x9')).toBeGreaterThan(0n);
    } // prettier-ignore
  });
});

test('rows that are only named stop with their name and leave the state', () => {
  const rows = arm64Table.rows.filter((row) => row.attributes.decodeOnly === true);
  let seen = 0;
  for (const row of rows) {
    for (const bits of [0, 0x0021_0000, 0x4040_0000, 0x0060_0000, 0x00c0_0000, 0x0008_0000, 0x4020_0400]) {
      const word = (row.match | (bits & ~row.mask)) >>> 0;
      if (arm64Table.decode(word)?.row !== row) continue;
      const machine = a64Machine([
        ['nop', {}],
        ['nop', {}],
      ]);
      machine.memory.write(START + 4n, new Uint8Array(Uint32Array.of(word).buffer));
      machine.step();
      const before = stateOf(machine);
      expect(machine.run()).toMatchObject({
        kind: 'unknown-instruction',
        mnemonic: row.mnemonic,
        instruction: START + 4n,
      });
      expect(stateOf(machine)).toBe(before);
      seen++;
      break;
    }
  }
  expect(seen).toBe(rows.length);
});

describe('vectors of integers without a helper', () => {
  const sizes = [0, 1, 2];
  const wide = ['saddl', 'uaddl', 'ssubl', 'usubl', 'smull', 'umull', 'smlal', 'umlal', 'smlsl', 'umlsl'];
  const same = ['sabd', 'uaba', 'shadd', 'uhsub', 'srhadd', 'sqadd', 'uqadd', 'sqsub', 'uqsub'];
  const lines: A64Line[] = [
    ...[0, 1].flatMap((two) =>
      sizes.flatMap((size): A64Line[] => [
        ...[...wide, 'sabdl', 'uabal'].map((name): A64Line => [name, { two, size, vm: 2, vn: 1, vld: 3 }]),
        ...['saddw', 'usubw'].map((name): A64Line => [name, { two, size, vm: 2, vln: 1, vld: 3 }]),
        ...same.map((name): A64Line => [name, { q: two, size, vm: 2, vn: 1, vd: 3 }]),
      ]),
    ),
    ...[0, 1].flatMap((size) =>
      ['sqxtn', 'uqxtn', 'sqxtun'].map((name): A64Line => [name, { two: 1, size, vln: 1, vd: 3 }]),
    ),
    ...[2, 3].flatMap((size) => ['sshl', 'ushl'].map((name): A64Line => [name, { q: 1, size, vm: 2, vn: 1, vd: 3 }])),
    ...['urshr', 'srsra', 'sli', 'sri'].map((name): A64Line => [name, { q: 1, shiftimm: 0x1d, vn: 1, vd: 3 }]),
    ...['rshrn', 'sqrshrun', 'uqshrn'].map((name): A64Line => [name, { two: 0, shiftimm: 0x1d, vln: 1, vd: 3 }]),
    ...['add-d', 'cmhi-d', 'sshl-d'].map((name): A64Line => [name, { dm: 2, dn: 1, dd: 3 }]),
  ];

  test('no instruction of them ends its block', () => {
    const { emulation } = arm64;
    if (emulation.kind === 'none') throw new Error(emulation.reason);
    const limits = { maxInstructions: 1, startsAt: (): boolean => false };
    const kinds = lines.map((line) => emulation.lifter.lift(a64Words([line]), START, limits).terminator.kind);
    expect(kinds.filter((kind) => kind !== 'fetch' && kind !== 'jmp')).toEqual([]);
  });

  test('the tiers agree on them, FPSR.QC too', () => {
    const states = ([0, 1] as const).map((tier) => {
      const body: A64Line[] = lines.flatMap((line): A64Line[] => [
        line,
        ['orr-v', { q: 1, bm: 1, bn: 3, bd: 4 }],
        ['mrs', { sysreg: SYSREG.fpsr, xt: 5 }],
        ['eor-reg', { sf: 1, shift: 0, rm: 5, amount: 1, rn: 6, rd: 6 }],
        ['add-v', { q: 1, size: 3, vm: 3, vn: 7, vd: 7 }],
        ['msr-reg', { sysreg: SYSREG.fpsr, xt: 31 }],
      ]);
      const machine = a64Machine([...body, ['b', { off: -4 * body.length }]], { tier });
      const out: string[] = [];
      let seed = 1n;
      for (let round = 0; round < 60; round++) {
        for (const name of ['v1', 'v2', 'v3']) {
          seed = BigInt.asUintN(128, seed * 0x2545_f491_4f6c_dd1d_0123_4567_89ab_cdefn + 0x1234_5678_9abc_def1n);
          // Elements at the ends of their ranges.
          const ends = (seed >> 64n) % 3n === 0n ? 0x7fff_7fff_80ff_8000_ffff_ffff_0000_007fn : 0n;
          machine.setRegister(name, seed ^ (seed >> 61n) ^ ends);
        }
        machine.run({ budget: body.length + 1 });
        out.push(stateOf(machine));
      }
      if (tier === 1) expect(machine.compiledCounts?.regions).toBeGreaterThan(0);
      return out;
    });
    expect(states[1]).toEqual(states[0]);
    expect(states[0]!.length).toBe(60);
  });
});
