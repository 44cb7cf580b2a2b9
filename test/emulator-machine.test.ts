/** Budgets, hooks, helpers, CPUs, terminators, determinism, many translations. */
import { describe, expect, test } from '@jest/globals';
import { Machine } from '../src/emulator/index.js';
import type { StopReason } from '../src/emulator/index.js';
import { ElftraceError } from '../src/errors.js';
import {
  CODE,
  handLifter,
  handMachine,
  ppcEmulation,
  ppcMachine,
  ppcWords,
  registersOf,
  s,
} from './support/emulator.js';
import type { HandInstruction, PpcLine } from './support/emulator.js';

/** Collatz-like loop with branches, a call and loads: blocks of different lengths. */
const LOOP: readonly PpcLine[] = [
  ['addi', { rt: 3, ra0: 0, si: 27 }], // 0
  ['addi', { rt: 9, ra0: 0, si: 0 }], // 4
  ['andi.', { rs: 3, ra: 4, ui: 1 }], // 8 again:
  ['bc', { bo: 4, bi: 2, bd: 16 }], // c odd -> 1c
  ['srawi', { rs: 3, ra: 3, sh: 1 }], // 10
  ['bl', { li: 0x1c }], // 14 -> 30
  ['b', { li: -16 }], // 18 -> 8
  ['mulli', { rt: 3, ra: 3, si: 3 }], // 1c
  ['addi', { rt: 3, ra0: 3, si: 1 }], // 20
  ['bl', { li: 0xc }], // 24 -> 30
  ['b', { li: -32 }], // 28 -> 8
  ['tw', { to: 31, ra: 0, rb: 0 }], // 2c
  ['addi', { rt: 9, ra0: 9, si: 1 }], // 30
  ['cmpi', { bf: 1, l: 0, ra: 3, si: 1 }], // 34
  ['bclr', { bo: 4, bi: 6, bh: 0 }], // 38 return unless 1
  ['b', { li: -16 }], // 3c -> 2c
];

describe('budgets', () => {
  test('a run in slices of any size equals a run at once and single steps', () => {
    const whole = ppcMachine('le', LOOP);
    const end: StopReason = { kind: 'trap', trap: 'trap-instruction', instruction: 0x1_002cn };
    expect(whole.run()).toEqual(end);
    expect(whole.register('r9')).toBe(111n);
    const total = whole.instructions;
    const states: string[] = [];
    const single = ppcMachine('le', LOOP);
    for (let k = 0; k < total; k++) {
      states.push(registersOf(single));
      expect(single.instructions).toBe(k);
      expect(single.step()).toEqual({ kind: 'step-limit' });
    }
    states.push(registersOf(single));
    expect(single.step()).toEqual(end);
    expect(single.instructions).toBe(total);
    for (const budget of [1, 2, 3, 5, 7, 11, 64, 100]) {
      const sliced = ppcMachine('le', LOOP);
      for (;;) {
        expect(registersOf(sliced)).toBe(states[sliced.instructions]);
        const before = sliced.instructions;
        const stop = sliced.run({ budget });
        if (stop.kind !== 'step-limit') {
          expect(stop).toEqual(end);
          break;
        }
        expect(sliced.instructions).toBe(before + budget);
      }
      expect(registersOf(sliced)).toBe(states[total]);
    }
  });

  test('no budget, nothing happens', () => {
    const machine = ppcMachine('le', LOOP);
    expect(machine.run({ budget: 0 })).toEqual({ kind: 'step-limit' });
    expect(machine.instructions).toBe(0);
  });

  test('a budget larger than a slice is exact', () => {
    const machine = ppcMachine('le', [
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['b', { li: -4 }],
    ]);
    expect(machine.run({ budget: 5_000_001 })).toEqual({ kind: 'step-limit' });
    expect(machine.instructions).toBe(5_000_001);
    expect(machine.register('r3')).toBe(2_500_001n);
    expect(machine.register('pc')).toBe(0x1_0004n);
  });

  test('a fault after slices counts what was completed', () => {
    const machine = ppcMachine('le', [
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['lwz', { rt: 4, ra0: 0, d: 64 }],
      ['addi', { rt: 3, ra0: 3, si: 1 }],
    ]);
    expect(machine.run()).toEqual({ kind: 'fault', address: 64n, access: 'read', instruction: 0x1_0008n });
    expect(machine.instructions).toBe(2);
    expect(machine.run({ budget: 1 }).kind).toBe('fault');
    expect(machine.instructions).toBe(2);
  });
});

describe('stops', () => {
  test('a budget that ends before an unknown instruction or the end of code ends there, linked or not', () => {
    for (const bytes of [Uint8Array.of(0, 0, 0, 0), null]) {
      const machine = new Machine({ lifter: ppcEmulation('le').lifter });
      const lines: PpcLine[] = [
        ['addi', { rt: 3, ra0: 3, si: 1 }],
        ['b', { li: 4 }],
      ];
      machine.load(0x1_0000n, ppcWords('le', lines), { permission: 'rx', size: bytes ? 12 : 8 });
      let calls = 0;
      if (bytes) {
        machine.hook(0x1_0008n, () => {
          calls++;
          return 'continue';
        });
      }
      for (let k = 1; k <= 4; k++) {
        machine.setRegister('pc', 0x1_0000n);
        expect(machine.run({ budget: 2 })).toEqual({ kind: 'step-limit' });
        expect(calls).toBe(bytes ? k - 1 : 0);
        expect(machine.register('pc')).toBe(0x1_0008n);
        expect(machine.run({ budget: 1 }).kind).toBe(bytes ? 'unknown-instruction' : 'fault');
        expect(calls).toBe(bytes ? k : 0);
      }
    }
  });

  test('unknown bytes and known instructions without semantics', () => {
    const machine = ppcMachine('be', [['addi', { rt: 3, ra0: 0, si: 1 }]]);
    machine.memory.write(0x1_0004n, Uint8Array.of(0, 0, 0, 0));
    expect(machine.run()).toEqual({
      kind: 'unknown-instruction', instruction: 0x1_0004n, bytes: Uint8Array.of(0, 0, 0, 0), mnemonic: null,
    }); // prettier-ignore
    expect(machine.register('r3')).toBe(1n);
    expect(machine.instructions).toBe(1);
    // mfmsr r3
    machine.memory.write(0x1_0004n, Uint8Array.of(0x7c, 0x60, 0x00, 0xa6));
    expect(machine.run()).toMatchObject({ kind: 'unknown-instruction', mnemonic: 'mfmsr', instruction: 0x1_0004n });
    const mfmsr = ppcMachine('be', [['mfmsr', { rt: 3 }]]);
    expect(mfmsr.run()).toMatchObject({ kind: 'unknown-instruction', mnemonic: 'mfmsr' });
  });

  test('a system call without a handler', () => {
    const machine = ppcMachine('le', [['sc', { lev: 0 }]]);
    expect(machine.run()).toEqual({ kind: 'syscall', instruction: 0x1_0000n });
    expect(machine.instructions).toBe(0);
  });

  test('the end of the executable bytes', () => {
    const machine = new Machine({ lifter: ppcEmulation('le').lifter });
    machine.load(0x1000n, ppcWords('le', [['addi', { rt: 3, ra0: 0, si: 1 }]]), { permission: 'rx' });
    expect(machine.memory.windows[0]!.size).toBe(4);
    machine.setRegister('pc', 0x1000n);
    expect(machine.run()).toEqual({ kind: 'fault', address: 0x1004n, access: 'execute', instruction: 0x1004n });
    machine.memory.resize(0x1000n, 6);
    expect(machine.run()).toEqual({ kind: 'fault', address: 0x1006n, access: 'execute', instruction: 0x1004n });
  });

  test('names of registers are checked', () => {
    const machine = ppcMachine('le', []);
    expect(() => machine.register('rax')).toThrow(ElftraceError);
  });
});

describe('terminators', () => {
  const program = (terminators: readonly HandInstruction[]): Machine => handMachine(terminators);

  test('call, calli, ret, ind go where they say, with the bits of the mask', () => {
    const machine = program([
      () => ({ kind: 'call', pc: CODE + 16n, ret: CODE + 4n }), // 0
      (b) => {
        b.mov(s(2), CODE + 20n + 3n);
        return { kind: 'calli', s: s(2), mask: ~3n, ret: CODE + 8n };
      }, // 4
      (b) => {
        b.mov(s(3), CODE + 24n);
        return { kind: 'ind', s: s(3), mask: -1n };
      }, // 8
      () => undefined, // c
      (b) => {
        b.to(s(0), 'add', s(0), 1n);
        b.mov(s(1), CODE + 5n);
        return { kind: 'ret', s: s(1), mask: ~3n };
      }, // 10
      (b) => {
        b.to(s(0), 'add', s(0), 16n);
        b.mov(s(1), CODE + 8n);
        return { kind: 'ret', s: s(1), mask: ~3n };
      }, // 14
    ]);
    expect(machine.run()).toMatchObject({ kind: 'unknown-instruction', instruction: CODE + 24n });
    expect(machine.register('s0')).toBe(17n);
    expect(machine.instructions).toBe(5);
  });

  test('trap and helpers', () => {
    const instructions = new Map<bigint, HandInstruction>([
      [CODE, () => ({ kind: 'helper', name: 'set', argument: 9, next: CODE + 4n })],
      [CODE + 4n, () => ({ kind: 'helper', name: 'jump', argument: 0, next: 0n })],
      [CODE + 16n, () => ({ kind: 'helper', name: 'raise', argument: 0, next: 0n })],
    ]);
    const lifter = handLifter(instructions, {
      helpers: {
        set: (state, argument) => {
          state.set(s(0), BigInt(argument) + state.pc + BigInt(state.instructions));
          return { kind: 'next' };
        },
        jump: () => ({ kind: 'goto', pc: CODE + 16n }),
        raise: () => ({ kind: 'trap', trap: 'privileged' }),
      },
    });
    const machine = new Machine({ lifter });
    machine.map({ address: CODE, size: 0x100, permission: 'rx' });
    machine.setRegister('pc', CODE);
    expect(machine.run()).toEqual({ kind: 'trap', trap: 'privileged', instruction: CODE + 16n });
    expect(machine.instructions).toBe(2);
    expect(machine.register('s0')).toBe(9n + CODE + 0n);
  });
});

test('code that nothing calls is compiled when it is worth its own size, not that of the function in front of it', () => {
  const loop: readonly PpcLine[] = [
    ['addi', { rt: 3, ra0: 3, si: 1 }],
    ['cmp', { bf: 0, l: 0, ra: 3, rb: 7 }],
    ['bc', { bo: 12, bi: 0, bd: -8 }],
    ['mtspr', { rs: 4, spr: 8 }],
    ['bclr', { bo: 20, bi: 0, bh: 0 }],
  ];
  const large: readonly PpcLine[] = [
    ...Array.from({ length: 600 }, (): PpcLine => ['addi', { rt: 5, ra0: 5, si: 1 }]),
    ['addi', { rt: 6, ra0: 6, si: 1 }],
    ['cmp', { bf: 0, l: 0, ra: 6, rb: 8 }],
    ['bc', { bo: 12, bi: 0, bd: -4 * 602 }],
    ['tw', { to: 31, ra: 0, rb: 0 }],
  ];
  const machine = ppcMachine('le', [...loop, ...large], { tier: 'auto' });
  const values = { r4: 0x1_0014n, r7: 600_000n, r8: 3000n };
  for (const [name, value] of Object.entries(values)) machine.setRegister(name, value);
  expect(machine.run()).toMatchObject({ kind: 'trap', trap: 'trap-instruction' });
  expect(machine.register('r5')).toBe(1_800_000n);
  // The loop is; what the rest would save is a tenth of what making it costs.
  expect(machine.compiledCounts?.instructions).toBeGreaterThan(0);
  expect(machine.compiledCounts?.instructions).toBeLessThan(100);
});

describe('hooks', () => {
  test('are called before each execution, see exact state, and can be taken off', () => {
    const machine = ppcMachine('le', LOOP);
    const seen: string[] = [];
    const counts: number[] = [];
    const off = machine.hook(0x1_0030n, (each) => {
      seen.push(`${each.register('r3')}`);
      counts.push(each.instructions);
      expect(each.register('pc')).toBe(0x1_0030n);
      return 'continue';
    });
    expect(machine.run({ budget: 100 })).toEqual({ kind: 'step-limit' });
    expect(seen.slice(0, 4)).toEqual(['82', '41', '124', '62']);
    expect(counts.slice(0, 3)).toEqual([7, 15, 24]);
    const before = seen.length;
    off();
    machine.run();
    expect(seen.length).toBe(before);
    expect(machine.register('r9')).toBe(111n);
    const plain = ppcMachine('le', LOOP);
    plain.run();
    expect(registersOf(machine)).toBe(registersOf(plain));
    expect(machine.instructions).toBe(plain.instructions);
  });

  test('in the middle of a block that was translated before', () => {
    const machine = ppcMachine('le', LOOP);
    machine.run({ budget: 60 });
    let calls = 0;
    machine.hook(0x1_0034n, () => {
      calls++;
      return 'continue';
    });
    machine.run();
    const rest = machine.register('r9');
    expect(rest).toBe(111n);
    expect(calls).toBeGreaterThan(95);
  });

  test('that were taken off: faults of the block that ended in front of them are exact', () => {
    const lines: readonly PpcLine[] = [
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['lwz', { rt: 4, ra0: 5, d: 0 }],
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['lwz', { rt: 6, ra0: 5, d: 8 }],
      ['tw', { to: 31, ra: 0, rb: 0 }],
    ];
    const machine = ppcMachine('le', lines, { tier: 0 });
    const from = (address: bigint, r5: bigint): StopReason => {
      machine.setRegister('pc', address);
      machine.setRegister('r5', r5);
      return machine.run();
    };
    const offs = [0x1_0008n, 0x1_0010n].map((address) => machine.hook(address, () => 'continue'));
    expect(from(0x1_0000n, 0x2_0000n)).toEqual({ kind: 'trap', trap: 'trap-instruction', instruction: 0x1_0014n });
    for (const off of offs) off();
    const fault = { kind: 'fault', access: 'read' };
    expect(from(0x1_0000n, 0x3_0000n)).toEqual({ ...fault, address: 0x3_0000n, instruction: 0x1_0004n });
    expect(machine.instructions).toBe(6);
    expect(from(0x1_0008n, 0x3_0000n)).toEqual({ ...fault, address: 0x3_0008n, instruction: 0x1_0010n });
    expect(machine.instructions).toBe(8);
    expect(machine.register('r3')).toBe(6n);
  });

  test('stop, then go on past the hook; several hooks at one place', () => {
    const machine = ppcMachine('le', LOOP);
    let other = 0;
    machine.hook(0x1_0008n, () => 'stop');
    machine.hook(0x1_0008n, () => {
      other++;
      return 'continue';
    });
    let stops = 0;
    for (;;) {
      const stop = machine.run();
      if (stop.kind !== 'hook') break;
      expect(stop.address).toBe(0x1_0008n);
      expect(machine.register('pc')).toBe(0x1_0008n);
      stops++;
    }
    expect(stops).toBe(111);
    expect(other).toBe(111);
    expect(machine.register('r9')).toBe(111n);
  });

  test('may write registers, pc and code', () => {
    const machine = ppcMachine('le', [
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['addi', { rt: 4, ra0: 4, si: 1 }],
      ['b', { li: 0 }],
    ]);
    machine.hook(0x1_0000n, (each) => {
      each.memory.write(0x1_0004n, ppcWords('le', [['addi', { rt: 4, ra0: 4, si: 7 }]]));
      each.setRegister('r3', 100n);
      return 'continue';
    });
    machine.run({ budget: 2 });
    expect([machine.register('r3'), machine.register('r4')]).toEqual([101n, 7n]);
    const jumping = ppcMachine('le', LOOP);
    jumping.hook(0x1_0004n, (each) => {
      each.setRegister('pc', 0x1_002cn);
      return 'continue';
    });
    expect(jumping.run()).toEqual({ kind: 'trap', trap: 'trap-instruction', instruction: 0x1_002cn });
    expect(jumping.instructions).toBe(1);
  });

  test.each([0, 1] as const)('may take hooks off, set others and change their own instruction (tier %d)', (tier) => {
    const machine = ppcMachine(
      'le',
      [
        ['addi', { rt: 3, ra0: 3, si: 1 }],
        ['b', { li: 4 }],
        ['addi', { rt: 4, ra0: 4, si: 1 }],
        ['b', { li: -12 }],
      ],
      { tier },
    );
    machine.run({ budget: 400 });
    const calls: string[] = [];
    const note =
      (name: string, more?: () => void): (() => 'continue') =>
      () => {
        calls.push(name);
        more?.();
        return 'continue';
      };
    const offThird: (() => void)[] = [];
    const offFirst = machine.hook(
      0x1_0008n,
      note('first', () => {
        offFirst();
        // The instruction that is about to be executed, with the block that it is in.
        machine.memory.write(0x1_0008n, ppcWords('le', [['addi', { rt: 4, ra0: 4, si: 1000 }]]));
        offThird.push(machine.hook(0x1_0008n, note('third')));
      }),
    );
    const offSecond = machine.hook(
      0x1_0008n,
      note('second', () => {
        if (calls.length > 4) {
          offSecond();
          for (const off of offThird) off();
        }
      }),
    );
    machine.run({ budget: 400 });
    // Who is set by a hook is called from the next time on; who is taken off while hooks are called
    // is called this once more.
    expect(calls).toEqual(['first', 'second', 'second', 'third', 'second', 'third']);
    expect([machine.register('r3'), machine.register('r4')]).toEqual([200n, 100n + 100n * 1000n]);
    expect(machine.instructions).toBe(800);
  });

  test('single steps over a hooked instruction call it once', () => {
    const machine = ppcMachine('le', [
      ['addi', { rt: 3, ra0: 3, si: 1 }],
      ['b', { li: -4 }],
    ]);
    let calls = 0;
    machine.hook(0x1_0000n, () => {
      calls++;
      return 'continue';
    });
    for (let k = 0; k < 10; k++) machine.step();
    expect(calls).toBe(5);
    expect(machine.register('r3')).toBe(5n);
  });
});

describe('CPUs', () => {
  test('have their own registers, pc and counts, and share memory', () => {
    const lines: PpcLine[] = [
      ['lwarx', { rt: 5, ra0: 0, rb: 4, eh: 0 }],
      ['add', { rt: 5, ra: 5, rb: 6, oe: 0, rc: 0 }],
      ['stwcx.', { rs: 5, ra0: 0, rb: 4 }],
      ['bc', { bo: 4, bi: 2, bd: -12 }],
      ['addi', { rt: 7, ra0: 7, si: 1 }],
      ['b', { li: -20 }],
    ];
    const machine = ppcMachine('be', lines);
    const second = machine.addCpu();
    for (const cpu of [0, second]) {
      machine.switchTo(cpu);
      machine.setRegister('pc', 0x1_0000n);
      machine.setRegister('r4', 0x2_0000n);
      machine.setRegister('r6', cpu === 0 ? 1n : 1000n);
    }
    // Switches at every distance, so that reservations are lost in all places.
    let budget = 1;
    for (let k = 0; k < 400; k++) {
      machine.switchTo(k % 2);
      budget = (budget * 5 + 3) % 13;
      machine.run({ budget });
    }
    const done = [0, 1].map((cpu) => {
      machine.switchTo(cpu);
      const [pc, rounds] = [machine.register('pc'), machine.register('r7')];
      // A store that succeeded but was not counted yet.
      const pending = pc === 0x1_000cn && (machine.register('cr') & 0x2000_0000n) !== 0n ? 1n : 0n;
      return rounds + pending + (pc === 0x1_0010n ? 1n : 0n);
    });
    const sum = machine.memory.read(0x2_0000n, 4)!.reduce((value, byte) => value * 256 + byte, 0);
    expect(BigInt(sum)).toBe(done[0]! + 1000n * done[1]!);
    expect(done[0]).toBeGreaterThan(50n);
    expect(machine.cpu).toBe(1);
    expect(() => {
      machine.switchTo(2);
    }).toThrow(ElftraceError);
  });
});

describe('translations', () => {
  test('when the records are full everything is translated anew and the program does not notice', () => {
    // 10,000 instructions need more than the 100 kB of records; every round translates everything
    // again.
    const count = 10_000;
    const words: PpcLine[] = [];
    for (let k = 0; k < count; k++) words.push(['addi', { rt: 3 + (k % 8), ra0: 3 + (k % 8), si: 1 }]);
    const machine = new Machine({ lifter: ppcEmulation('le').lifter, recordBytes: 100_000 });
    machine.load(0x10_0000n, ppcWords('le', [...words, ['b', { li: -4 * count }]]), { permission: 'rx' });
    machine.setRegister('pc', 0x10_0000n);
    machine.run({ budget: 6 * (count + 1) });
    let sum = 0n;
    for (let k = 3; k < 11; k++) sum += machine.register(`r${k}`);
    expect(sum).toBe(BigInt(6 * count));
    // With all the room there is, the same program needs more than one chunk and is translated
    // once.
    const roomy = new Machine({ lifter: ppcEmulation('le').lifter });
    const large = 100_000;
    const line: PpcLine = ['addi', { rt: 3, ra0: 3, si: 1 }];
    const lines = new Array<PpcLine>(large).fill(line);
    roomy.load(0x10_0000n, ppcWords('le', [...lines, ['b', { li: -4 * large }]]), { permission: 'rx' });
    roomy.setRegister('pc', 0x10_0000n);
    roomy.run({ budget: 3 * (large + 1) });
    expect(roomy.register('r3')).toBe(BigInt(3 * large));
    expect(roomy.register('pc')).toBe(0x10_0000n);
    expect(machine.register('pc')).toBe(0x10_0000n);
  });

  test('two runs of one program are equal in every state', () => {
    const record = (): string[] => {
      const machine = ppcMachine('32', LOOP);
      const out: string[] = [];
      for (let k = 0; k < 40; k++) {
        machine.run({ budget: 17 });
        out.push(registersOf(machine));
      }
      return out;
    };
    expect(record()).toEqual(record());
  });
});
