/**
 * The compiled tier: the tests of machines once more with everything compiled as soon as it is
 * reached, and both tiers in step on random programs to which everything happens that can happen to
 * a program.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { defaults } from '../src/emulator/machine.js';
import type { Machine } from '../src/emulator/machine.js';
import { COST } from '../src/emulator/compiled.js';
import type { Terminator } from '../src/machine/ir.js';
import { CODE, handMachine, s } from './support/emulator.js';
import type { HandInstruction } from './support/emulator.js';
import { differences, randomProgram } from './support/tiers.js';
import { isLong, isWhole, repeats } from './support/long.js';

/** Seeds of random programs, and slices of each. `scripts/soak-tiers.ts` runs more. */
const SEEDS = repeats([2, 1]);
const SLICES = 120;

beforeAll(() => {
  defaults.tier = 1;
});
afterAll(() => {
  defaults.tier = 'auto';
});

/** Models of pages and slices do not depend on the tier of the code, and have half of the time. */
const AGAIN = ['emulator-ir', 'emulator-machine', 'emulator-cpus', ...(isWhole ? ['emulator-memory', 'emulator-snapshot'] : [])]; // prettier-ignore
// Another query is another instance of the module, which registers its tests here.
if (isLong) for (const name of AGAIN) await import(new URL(`./${name}.test.js?tier=1`, import.meta.url).href);

test('accesses that share a check: at both ends of a window, all or the right one is refused, as in tier 0', () => {
  const START = 0x2_0000n;
  const SIZE = 0x1000;
  const shapes: readonly (readonly HandInstruction[])[] = [
    [
      (b) => void b.load('ld64', s(1), s(0), 0n),
      (b) => void b.load('ld32u', s(2), s(0), 40n),
      (b) => void b.to(s(3), 'add', s(1), s(2)),
      (b) => void b.store('st64', s(3), s(0), -24n),
      (b) => void b.load('ld8s', s(4), s(0), 48n),
    ],
    [
      (b) => void b.store('st16', s(5), s(0), 8n),
      (b) => void b.to(s(0), 'add', s(0), 16n),
      (b) => void b.load('ld64', s(1), s(0), -32n),
      (b) => void b.load('ld64', s(6), s(0), 4n),
    ],
  ];
  for (const permission of ['rw', 'r'] as const) {
    for (const shape of shapes) {
      const pair = (): readonly Machine[] =>
        ([0, 1] as const).map((tier) => {
          defaults.tier = tier;
          const machine = handMachine(shape);
          machine.map({ address: START, size: SIZE, permission: 'rw' });
          machine.memory.write(
            START,
            Uint8Array.from({ length: SIZE }, (_, i) => i * 7),
          );
          machine.setRegister('s0', START + 0x800n);
          machine.run();
          machine.memory.protect(START, SIZE, permission);
          return machine;
        });
      let faults = 0;
      for (const end of [START, START + BigInt(SIZE)]) {
        let machines = pair();
        for (let near = -64n; near <= 64n; near += 2n) {
          // Accesses that miss often are no longer expected in one window.
          if (near % 16n === 0n) machines = pair();
          const stops = machines.map((machine) => {
            machine.setRegister('pc', CODE);
            machine.setRegister('s0', end + near);
            machine.setRegister('s5', 0x1234_5678n + near);
            return machine.run();
          });
          expect([near, stops[1]]).toEqual([near, stops[0]]);
          expect([near, differences(machines[0]!, machines[1]!)]).toEqual([near, []]);
          if (stops[0]!.kind === 'fault') faults++;
          expect(machines[1]!.compiledCounts?.compiled).toBe(1);
        }
        expect(differences(machines[0]!, machines[1]!, true)).toEqual([]);
      }
      expect(faults).toBeGreaterThan(25 * SEEDS.length);
    }
  }
});

test('accesses that share a search for their window: in either of two, at the ends of both, as in tier 0', () => {
  const WINDOWS = [0x2_0000n, 0x9_0000n] as const;
  const SIZE = 0x1000;
  const shape: readonly HandInstruction[] = [
    (b) => void b.load('ld32u', s(1), s(0), 4n),
    (b) => void b.load('ld32u', s(2), s(0), 0n),
    (b) => void b.load('ld16s', s(3), s(0), 9n),
    (b) => void b.store('st16', s(5), s(0), 12n),
    (b) => void b.store('st64', s(5), s(0), 2n),
    (b) => void b.load('ld64', s(4), s(0), 8n),
    (b) => void b.load('ld8u', s(6), s(0), 40n),
  ];
  const machines = ([0, 1] as const).map((tier) => {
    defaults.tier = tier;
    const machine = handMachine(shape);
    for (const address of WINDOWS) {
      machine.map({ address, size: SIZE, permission: 'rw' });
      const bytes = Uint8Array.from({ length: SIZE }, (_, i) => i * 7 + Number(address >> 16n));
      machine.memory.write(address, bytes);
    }
    return machine;
  });
  const runs = (address: bigint): ReturnType<Machine['run']> => {
    const stops = machines.map((machine) => {
      machine.setRegister('pc', CODE);
      machine.setRegister('s0', address);
      machine.setRegister('s5', 0x1234_5678_9abc_def0n + address);
      return machine.run();
    });
    expect([address, stops[1]]).toEqual([address, stops[0]]);
    expect([address, differences(machines[0]!, machines[1]!)]).toEqual([address, []]);
    return stops[1]!;
  };
  // Both windows in turn, until the accesses are compiled as ones that may go to any.
  for (let i = 0n; i < 4000n; i++) runs(WINDOWS[Number(i % 2n)]! + 8n * (i % 100n));
  let faults = 0;
  for (let near = -64n; near <= 64n; near++) {
    for (const start of WINDOWS) {
      for (const end of [start, start + BigInt(SIZE)]) if (runs(end + near).kind === 'fault') faults++;
    }
  }
  expect(faults).toBeGreaterThan(200);
  expect(machines[1]!.compiledCounts?.compiled).toBeGreaterThan(0);
  expect(differences(machines[0]!, machines[1]!, true)).toEqual([]);
});

const MASK = ~1n;
const LINK = s(15);
const lineAt = (line: number): bigint => CODE + BigInt(4 * line);
const call =
  (line: number, to: number, ret = line + 1): HandInstruction =>
  (b) => {
    b.mov(LINK, lineAt(ret));
    return { kind: 'call', pc: lineAt(to), ret: lineAt(line + 1) };
  };
const ret: HandInstruction = () => ({ kind: 'ret', s: LINK, mask: MASK });
const branch = (a: number, b: bigint, to: number, next: number): HandInstruction => () => ({
  kind: 'br', condition: 'eq', width: 64, a: s(a), b, pc: lineAt(to), next: lineAt(next),
}); // prettier-ignore
const DATA = 0x2_0000n;

describe('functions that are copied to their calls', () => {
  /**
   * A loop that calls a function directly and one indirectly; the first calls a third one, has a
   * loop of its own and an access that faults in the round that s14 says, and comes back somewhere
   * else in the round that s13 says.
   */
  const program: readonly HandInstruction[] = [
    (b) => void b.to(s(0), 'add', s(0), 1n),
    call(1, 9),
    (b) => void b.to(s(1), 'xor', s(1), s(2)),
    (b) => {
      b.mov(LINK, lineAt(4));
      return { kind: 'calli', s: s(12), mask: MASK, ret: lineAt(4) };
    },
    branch(0, 60n, 6, 5),
    () => ({ kind: 'jmp', pc: lineAt(0) }),
    () => ({ kind: 'trap', trap: 'trap-instruction' }),
    // Where the function comes back to when it does not come back.
    (b) => void b.to(s(9), 'add', s(9), 1000n),
    () => ({ kind: 'jmp', pc: lineAt(2) }),
    // 9: the function; keeps its way back, calls 20
    (b) => void b.mov(s(11), LINK),
    (b) => void b.mov(s(5), 3n),
    (b) => void b.to(s(2), 'add', s(2), s(0)),
    (b) => void b.to(s(5), 'sub', s(5), 1n),
    branch(5, 0n, 14, 11),
    call(14, 20),
    (b) => {
      b.to(s(6), 'seteq', s(0), s(14));
      b.select(s(6), s(6), 0x66n, s(10));
    },
    (b) => void b.load('ld64', s(7), s(6), 0n),
    (b) => {
      b.to(s(8), 'seteq', s(0), s(13));
      b.select(LINK, s(8), lineAt(7), s(11));
    },
    (b) => void b.store('st64', s(2), s(10), 8n),
    ret,
    // 20
    (b) => void b.to(s(3), 'addsh1', s(3), s(2)),
    ret,
    // 22: called through s12
    (b) => void b.to(s(4), 'sub', s(4), s(3)),
    ret,
  ];
  const SIZE = 0x1000;
  const start = (tier: 0 | 1, more: readonly HandInstruction[] = program): Machine => {
    defaults.tier = tier;
    const machine = handMachine(more);
    machine.map({ address: DATA, size: SIZE, permission: 'rw' });
    machine.setRegister('s10', DATA);
    machine.setRegister('s12', lineAt(22));
    return machine;
  };
  const both = (): readonly [Machine, Machine] => [start(0), start(1)];

  test('one region holds caller and callees; counts, registers and memory at every budget are those of tier 0', () => {
    for (const [fault, elsewhere] of [
      [-1n, -1n],
      [17n, -1n],
      [-1n, 23n],
      [41n, 12n],
    ] as const) {
      const pair = both();
      for (const each of pair) {
        each.setRegister('s13', BigInt.asUintN(64, elsewhere));
        each.setRegister('s14', BigInt.asUintN(64, fault));
      }
      for (let budget = 1; ; budget = (budget % 37) + 1) {
        const [x, y] = pair.map((each) => each.run({ budget }));
        expect(y).toEqual(x);
        expect(differences(...pair)).toEqual([]);
        if (x!.kind !== 'step-limit') break;
      }
      expect(differences(...pair, true)).toEqual([]);
      expect(pair[0].instructions).toBeGreaterThan(fault < 0n ? 1000 : 300);
      expect(pair[0].register('s9')).toBe(elsewhere < 0n ? 0n : 1000n);
    }
    const [, machine] = both();
    machine.setRegister('s13', 100n);
    machine.setRegister('s14', 100n);
    expect(machine.run()).toMatchObject({ kind: 'trap' });
    // The indirect call became known after the region was made: its callee has one of its own.
    expect(machine.compiledCounts).toMatchObject({ regions: 2, dropped: 0 });
  });

  test('a callee that is overwritten is what the next call executes, and a hook in it is called each time', () => {
    let version = 1n;
    const changing = program.map((each, line): HandInstruction => {
      return line === 20 ? (b) => void b.to(s(3), 'add', s(3), version) : each;
    });
    const pair = ([0, 1] as const).map((tier) => start(tier, changing));
    const events: number[][] = [[], []];
    for (const machine of pair) {
      machine.setRegister('s13', 1000n);
      machine.setRegister('s14', 1000n);
    }
    const both = (act: (machine: Machine, which: number) => void): void => {
      pair.forEach(act);
      expect(differences(pair[0]!, pair[1]!)).toEqual([]);
    };
    both((machine) => machine.run({ budget: 333 }));
    for (let round = 0; round < 6; round++) {
      version *= 10n;
      both((machine) => {
        machine.memory.write(lineAt(20), Uint8Array.of(round));
        machine.run({ budget: 50 });
      });
    }
    expect(pair[1]!.compiledCounts?.dropped).toBeGreaterThan(5);
    both((machine, which) => {
      const off = machine.hook(lineAt(20), (each) => {
        events[which]!.push(each.instructions);
        return 'continue';
      });
      machine.run({ budget: 200 });
      off();
      machine.run({ budget: 200 });
    });
    expect(events[1]).toEqual(events[0]);
    expect(events[0]!.length).toBeGreaterThan(5);
  });
});

/**
 * Two functions that call each other to a depth of s8, so that none is copied: return addresses are
 * in memory, s0 is the stack pointer. Code of one module calls directly.
 */
describe('functions that call each other', () => {
  const SIZE = 0x10_0000;
  const push: HandInstruction = (b) => {
    b.store('st64', LINK, s(0), 0n);
    b.to(s(0), 'add', s(0), 8n);
  };
  const pop: HandInstruction = (b) => {
    b.to(s(0), 'sub', s(0), 8n);
    b.load('ld64', LINK, s(0), 0n);
  };
  let step = 1n;
  const program: readonly HandInstruction[] = [
    (b) => void b.mov(s(1), s(8)),
    call(1, 5),
    (b) => void b.to(s(9), 'add', s(9), 1n),
    branch(9, 1_000_000n, 4, 0),
    () => ({ kind: 'trap', trap: 'trap-instruction' }),
    // 5
    push,
    (b) => void b.to(s(2), 'add', s(2), s(1)),
    (b) => void b.to(s(1), 'sub', s(1), 1n),
    branch(1, 0n, 11, 9),
    call(9, 24),
    (b) => void b.to(s(3), 'xor', s(3), s(2)),
    pop,
    ret,
    // Not so near that what is written there is a part of the other.
    ...Array.from({ length: 11 }, () => ret),
    // 24
    push,
    (b) => void b.to(s(4), 'add', s(4), step),
    call(26, 5),
    pop,
    ret,
  ];
  const machines = (depth: bigint): readonly [Machine, Machine] => {
    const [interpreted, compiled] = ([0, 1] as const).map((tier) => {
      defaults.tier = tier;
      const machine = handMachine(program);
      machine.map({ address: DATA, size: SIZE, permission: 'rw' });
      machine.setRegister('s0', DATA);
      machine.setRegister('s8', depth);
      return machine;
    });
    return [interpreted!, compiled!];
  };
  const inStep = (pair: readonly Machine[], act: (machine: Machine) => void): void => {
    pair.forEach(act);
    expect(differences(pair[0]!, pair[1]!)).toEqual([]);
  };

  test('one that is overwritten, or hooked, is not executed by callers that stay', () => {
    step = 1n;
    const pair = machines(20n);
    inStep(pair, (machine) => machine.run({ budget: 5000 }));
    expect(pair[1].compiledCounts).toMatchObject({ modules: 1, dropped: 0 });
    for (const line of [24, 5, 24, 24]) {
      step *= 10n;
      const { dropped } = pair[1].compiledCounts!;
      inStep(pair, (machine) => {
        machine.memory.write(lineAt(line), Uint8Array.of(0));
        machine.run({ budget: 777 });
      });
      expect(pair[1].compiledCounts!.dropped).toBeGreaterThan(dropped);
    }
    const events: bigint[][] = [];
    inStep(pair, (machine) => {
      const seen: bigint[] = [];
      events.push(seen);
      const off = machine.hook(lineAt(25), (each) => {
        seen.push(each.register('s4'));
        return 'continue';
      });
      machine.run({ budget: 777 });
      off();
      machine.run({ budget: 777 });
    });
    expect(events[0]!.length).toBeGreaterThan(10);
    expect(events[1]).toEqual(events[0]);
  });

  test('deeper than the stack of compiled code', () => {
    step = 3n;
    const pair = machines(50_000n);
    for (const budget of [9973, 300_000, 450_001, 777, 1_000_003]) inStep(pair, (machine) => machine.run({ budget }));
    expect(pair[0].register('s9')).toBe(2n);
  });

  test('one that comes back with another stack pointer', () => {
    const changing: readonly HandInstruction[] = [
      (b) => void b.to(s(9), 'add', s(9), 1n),
      call(1, 6),
      (b) => void b.to(s(3), 'xor', s(3), s(0)),
      (b) => void b.to(s(0), 'and', s(0), 0xffn),
      branch(9, 300n, 5, 0),
      () => ({ kind: 'trap', trap: 'trap-instruction' }),
      // 6: an indirect jump, so that it is not copied
      (b) => void b.to(s(7), 'and', s(9), 8n),
      (b) => {
        b.mov(s(6), lineAt(8));
        return { kind: 'ind', s: s(6), mask: MASK };
      },
      (b) => void b.to(s(0), 'add', s(0), s(7)),
      ret,
    ];
    const pair = ([0, 1] as const).map((tier) => {
      defaults.tier = tier;
      return handMachine(changing);
    });
    for (let budget = 1; budget < 90; budget++) inStep(pair, (machine) => machine.run({ budget }));
    expect(pair[0]!.register('s9')).toBe(300n);
  });
});

test('much code that is executed a little is not compiled for more than it could win', () => {
  const FUNCTIONS = 600;
  const LENGTH = 12;
  const MAIN = 2 * FUNCTIONS;
  const at = (line: number): bigint => CODE + BigInt(4 * line);
  // Each function is called in turn, through two branches of which one is never taken.
  const calls = Array.from({ length: FUNCTIONS }, (_, i): readonly HandInstruction[] => [
    (b) => void b.mov(s(15), at(2 * i + 2)),
    () => ({ kind: 'call', pc: at(MAIN + 1 + i * LENGTH), ret: at(2 * i + 2) }),
  ]);
  const bodies = Array.from({ length: FUNCTIONS }, (_, i): readonly HandInstruction[] => {
    const begin = MAIN + 1 + i * LENGTH;
    const never: HandInstruction = () => ({
      kind: 'br', condition: 'eq', width: 64, a: s(0), b: 0n, pc: at(begin + LENGTH - 2), next: at(begin + 2),
    }); // prettier-ignore
    const fill = Array.from({ length: LENGTH - 3 }, (): HandInstruction => (b) => void b.to(s(0), 'add', s(0), 1n));
    return [fill[0]!, never, ...fill.slice(1), () => ({ kind: 'ret', s: s(15), mask: ~0n }), fill[0]!];
  });
  const program = [...calls.flat(), (): Terminator => ({ kind: 'jmp', pc: CODE }), ...bodies.flat()];
  const run = (tier: 0 | 'auto', budget: number): Machine => {
    defaults.tier = tier;
    const machine = handMachine(program);
    machine.run({ budget });
    return machine;
  };
  const budget = 4_000_000;
  const machine = run('auto', budget);
  expect(differences(run(0, budget), machine)).toEqual([]);
  const { instructions } = machine.compiledCounts!;
  expect(instructions).toBeLessThan((2 * budget) / COST);
  defaults.tier = 1;
});

describe('code that jumps about in itself', () => {
  const at = (line: number): bigint => CODE + BigInt(4 * line);
  const next: HandInstruction = (b) => void b.to(s(0), 'mul', s(0), 6_364_136_223_846_793_005n);
  const other =
    (i: number): HandInstruction =>
    (b) =>
      void b.to(s(0), 'add', s(0), BigInt(2 * i + 1));
  /** To one of 2 ** bits blocks of `lines` lines each, behind the first `from`. */
  const jump = (bits: number, lines: number, from = 0): readonly HandInstruction[] => [
    (b) => void b.to(s(1), 'shr', s(0), BigInt(64 - bits)),
    (b) => void b.to(s(1), 'mul', s(1), BigInt(4 * lines)),
    (b) => {
      b.to(s(1), 'add', s(1), at(from));
      return { kind: 'ind', s: s(1), mask: ~0n };
    },
  ];
  const run = (tier: 0 | 'auto', program: readonly HandInstruction[], budget = 60_000_000): Machine => {
    defaults.tier = tier;
    const machine = handMachine(program);
    machine.run({ budget });
    defaults.tier = 1;
    return machine;
  };

  test('more of it than a region holds: is made in parts, for no more than it could win', () => {
    // Where each of them goes depends on all that came before.
    const blocks = Array.from({ length: 1024 }, (_, i) => [next, other(i), ...jump(10, 5)]);
    const budget = 45_000_000;
    const machine = run('auto', blocks.flat(), budget);
    expect(differences(run(0, blocks.flat(), budget), machine)).toEqual([]);
    const { regions, instructions } = machine.compiledCounts!;
    expect(regions).toBeGreaterThan(8);
    // Of spread code half the price is paid.
    expect(instructions).toBeLessThan((2 * budget) / COST);
  });

  test('as much of it as a region holds where that is all: is made at once, and stays', () => {
    const dispatch = jump(8, 4, 3);
    const blocks = Array.from({ length: 256 }, (_, i): readonly HandInstruction[] => [
      next,
      other(i),
      other(3 * i),
      () => ({ kind: 'jmp', pc: at(0) }),
    ]);
    const program = [...dispatch, ...blocks.flat()];
    const machine = run('auto', program);
    expect(differences(run(0, program), machine)).toEqual([]);
    expect(machine.compiledCounts).toMatchObject({ regions: 1, dropped: 0 });
  });
});

describe('random programs in step on both tiers', () => {
  for (const { target, emulation } of arches) {
    // The ELFv2 big-endian target has the front end of ELFv1.
    if (emulation.kind !== 'ir' || target.id === 'ppc64-elfv2-be') continue;
    // What PowerPC's targets share is seen on one of them.
    if (!isLong && /^ppc64-elfv1|^ppc32/.test(target.id)) continue;
    test(target.id, () => {
      const runs = SEEDS.map((seed) => randomProgram(target.id, emulation.lifter, seed, SLICES));
      expect(runs.flatMap((each) => each.differing)).toEqual([]);
      const sum = (of: 'instructions' | 'patches' | 'compiled'): number =>
        runs.reduce((all, each) => all + each[of], 0);
      expect(sum('instructions')).toBeGreaterThan(2500 * SEEDS.length);
      // Pages that these programs write again and again stay in tier 0.
      expect(sum('compiled')).toBeGreaterThan(10 * SEEDS.length);
      process.stderr.write(`${target.id}: ${sum('instructions')} instructions, ${sum('patches')} patches in step\n`);
    });
  }
});
