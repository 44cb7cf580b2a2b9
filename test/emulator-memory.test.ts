/** Windows, permissions, faults of every access, accesses across windows, stores to code. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { OPS, OP_NAMES } from '../src/machine/ir.js';
import type { AccessRow, LoadName, OpName, StoreName } from '../src/machine/ir.js';
import { ElftraceError } from '../src/errors.js';
import { handMachine, HAND_SLOTS, ppcMachine, ppcWords, registersOf, s } from './support/emulator.js';
import type { HandInstruction } from './support/emulator.js';
import { isWhole, sampled, times } from './support/long.js';

const isLoad = (name: OpName): name is LoadName => OPS[name].form === 'load';
const isStore = (name: OpName): name is StoreName => OPS[name].form === 'store';
const accesses = OP_NAMES.flatMap((name): { name: OpName; row: AccessRow }[] => {
  const row = OPS[name];
  return row.form === 'load' || row.form === 'store' ? [{ name, row }] : [];
});

/**
 * How an access makes its address: s0 + displacement, s0 + s2, or s0 + displacement that is s0
 * afterwards.
 */
const WAYS = ['displaced', 'indexed', 'updating'] as const;
type Way = (typeof WAYS)[number];

/** One access of `name`, then 77 into s3, so that a fault shows what was done. */
function access(name: OpName, way: Way, displacement: bigint, addition: 'add' | 'add32' = 'add'): HandInstruction {
  return (b) => {
    const type = OPS[name].form === 'load' || OPS[name].form === 'store' ? OPS[name] : null;
    const slotType = type && 'type' in type ? type.type : 'i64';
    const value = slotType === 'i64' ? s(1) : HAND_SLOTS.slot(slotType === 'f64' ? 'f0' : 'v0');
    const second = way === 'indexed' ? s(2) : displacement;
    if (isLoad(name)) b.load(name, value, s(0), second);
    else if (isStore(name)) b.store(name, value, s(0), second);
    if (way === 'updating') b.to(s(0), addition, s(0), displacement);
    b.mov(s(3), 77n);
    return undefined;
  };
}

function bytesOf(value: bigint, size: number): Uint8Array {
  return Uint8Array.from({ length: size }, (_, k) => Number((value >> BigInt(8 * k)) & 0xffn));
}

const DATA = Uint8Array.from({ length: 64 }, (_, k) => (k * 37 + 0x85) & 0xff);

function expectedLoad(row: AccessRow, at: number): bigint {
  // Of a vector the low doubleword, which is the last one in memory where the order is big.
  const size = Math.min(8, row.bytes);
  const first = row.endian === 'big' ? at + row.bytes - size : at;
  const bytes = [...DATA.slice(first, first + size)];
  if (row.endian === 'little') bytes.reverse();
  const value = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return BigInt.asUintN(64, row.signed ? BigInt.asIntN(8 * row.bytes, value) : value);
}

const WINDOWS = [
  ['user', 0x2000_0000n],
  ['kernel', 0xffff_ffff_8100_0000n],
  ['top of the address space', 0xffff_ffff_ffff_f000n],
  ['zero page', 0n],
] as const;

describe.each(sampled(WINDOWS, 2))('every access in a window at %s', (_name, base) => {
  for (const { name, row } of accesses) {
    test(name, () => {
      // How an address is made does not depend on the window.
      for (const way of isWhole || base === WINDOWS[1][1] ? WAYS : WAYS.slice(0, 1)) {
        for (const offset of [0, 1, 3, 0xfff - row.bytes, 0x1000 - row.bytes]) {
          const machine = handMachine([access(name, way, -8n)], 0x10_0000n);
          machine.map({ address: base, size: 0x1000, permission: 'rw' });
          const address = base + BigInt(offset);
          const before = BigInt.asUintN(64, address + (way === 'indexed' ? -0x1234n : 8n));
          machine.setRegister('s0', before);
          machine.setRegister('s2', 0x1234n);
          if (row.form === 'load') {
            machine.memory.write(address, DATA.slice(7, 7 + row.bytes));
            machine.run();
            if (row.type === 'i64') expect(machine.register('s1')).toBe(expectedLoad(row, 7));
            else {
              const slot = HAND_SLOTS.slot(row.type === 'f64' ? 'f0' : 'v0');
              expect(machine.slot(slot)).toBe(expectedLoad(row, 7));
            }
          } else {
            machine.memory.write(base, new Uint8Array(0x1000).fill(0xee));
            const value = 0x8182_8384_8586_8788n;
            machine.setRegister('s1', value);
            machine.setSlot(HAND_SLOTS.slot('f0'), value);
            machine.setSlot(HAND_SLOTS.slot('v0'), value);
            machine.run();
            const stored = machine.memory.read(address, row.bytes)!;
            const expected = bytesOf(value, row.bytes);
            if (row.endian === 'big') expected.reverse();
            expect([...stored]).toEqual([...expected]);
            // Nothing else was touched.
            const all = machine.memory.read(base, 0x1000)!;
            expect(all.filter((byte) => byte !== 0xee).length).toBe(expected.filter((byte) => byte !== 0xee).length);
          }
          expect(machine.register('s3')).toBe(77n);
          expect(machine.register('s0')).toBe(way === 'updating' ? address : before);
        }
      }
    });
  }
});

describe('faults', () => {
  for (const { name, row } of accesses) {
    const kind = row.form === 'load' && row.update !== true ? 'read' : 'write';
    test(`${name}: not mapped, wrong permission, across the end`, () => {
      const base = 0xffff_ffff_8100_0000n;
      const wrong = row.form === 'load' ? 'none' : 'r';
      const cases: (readonly [address: bigint, bad: bigint])[] = [
        [0x5000n, 0x5000n],
        [base - 1n, base - 1n],
        [base + 0x1000n, base + 0x1000n],
        [base + 0x4000n, base + 0x4000n],
      ];
      for (let over = 1; over < row.bytes; over++) cases.push([base + 0x1000n - BigInt(over), base + 0x1000n]);
      for (let under = 1; under < row.bytes; under++) cases.push([base - BigInt(under), base - BigInt(under)]);
      for (const [at, way] of WAYS.entries()) {
        // Each distance in one way, where not all are tried.
        const own = cases.filter((_, i) => isWhole || i < 4 || i % WAYS.length === at);
        for (const [address, bad] of own) {
          const machine = handMachine([
            (b) => {
              b.mov(s(4), 5n);
              return undefined;
            },
            access(name, way, 16n),
          ]);
          machine.map({ address: base, size: 0x1000, permission: 'rw' });
          machine.map({ address: base + 0x4000n, size: 0x1000, permission: wrong });
          machine.memory.write(base, new Uint8Array(0x1000).fill(0xee));
          machine.setRegister('s0', address - 16n);
          machine.setRegister('s2', 16n);
          machine.setRegister('s1', 0x1111n);
          expect(machine.run()).toEqual({ kind: 'fault', address: bad, access: kind, instruction: 0x1004n });
          expect(machine.register('pc')).toBe(0x1004n);
          expect(machine.instructions).toBe(1);
          expect(['s0', 's1', 's3', 's4'].map((each) => machine.register(each))).toEqual([
            address - 16n,
            0x1111n,
            0n,
            5n,
          ]);
          expect(machine.memory.read(base, 0x1000)!.every((byte) => byte === 0xee)).toBe(true);
          // The instruction works once the memory is there.
          machine.memory.unmap(bad & ~0xfffn, 0x1000);
          machine.map({ address: bad & ~0xfffn, size: 0x1000, permission: 'rw' });
          expect(machine.run().kind).toBe('unknown-instruction');
          expect(machine.instructions).toBe(2);
          expect(machine.register('s3')).toBe(77n);
          expect(machine.register('s0')).toBe(way === 'updating' ? address : address - 16n);
        }
      }
    });

    test(`${name}: across two windows`, () => {
      for (let head = 1; head < row.bytes; head++) {
        const machine = handMachine([access(name, 'displaced', 0n), access(name, 'updating', 8n)]);
        machine.map({ address: 0x7000n, size: 0x1000, permission: row.form === 'load' ? 'r' : 'rw' });
        machine.map({ address: 0x8000n, size: 0x1000, permission: 'rwx' });
        const address = 0x8000n - BigInt(head);
        machine.setRegister('s0', address);
        if (row.form === 'load') {
          machine.memory.write(address, DATA.slice(0, row.bytes));
          machine.step();
          machine.setRegister('s0', address - 8n);
          machine.run();
          const slot = row.type === 'i64' ? s(1) : HAND_SLOTS.slot(row.type === 'f64' ? 'f0' : 'v0');
          expect(machine.slot(slot)).toBe(expectedLoad(row, 0));
        } else {
          const value = 0x0102_0304_0506_0708n;
          machine.setRegister('s1', value);
          machine.setSlot(HAND_SLOTS.slot('f0'), value);
          machine.setSlot(HAND_SLOTS.slot('v0'), value);
          machine.step();
          machine.setRegister('s0', address - 8n);
          machine.run();
          const expected = bytesOf(value, row.bytes);
          if (row.endian === 'big') expected.reverse();
          expect([...machine.memory.read(address, row.bytes)!]).toEqual([...expected]);
        }
        expect(machine.instructions).toBe(2);
        expect(machine.register('s0')).toBe(address);
      }
    });
  }

  test('fetching where nothing may be executed', () => {
    const machine = handMachine([
      (b) => {
        b.mov(s(0), 0x7000n);
        return { kind: 'ind', s: s(0), mask: -1n };
      },
    ]);
    machine.map({ address: 0x7000n, size: 0x1000, permission: 'rw' });
    expect(machine.run()).toEqual({ kind: 'fault', address: 0x7000n, access: 'execute', instruction: 0x7000n });
    expect(machine.instructions).toBe(1);
  });

  test('in 32-bit machines addresses wrap at 4 GiB', () => {
    const machine = handMachine([access('ld32u', 'displaced', 0x10n)], 0x1000n, 32);
    machine.map({ address: 0n, size: 0x1000, permission: 'r' });
    machine.memory.write(8n, Uint8Array.of(1, 2, 3, 4));
    machine.setRegister('s0', 0xffff_fff8n);
    machine.run();
    expect(machine.register('s1')).toBe(0x0403_0201n);
    for (const [addition, after] of [
      ['add32', 8n],
      ['add', 0x1_0000_0008n],
    ] as const) {
      const updating = handMachine([access('ld32u', 'updating', 0x10n, addition)], 0x1000n, 32);
      updating.map({ address: 0n, size: 0x1000, permission: 'r' });
      updating.setRegister('s0', 0xffff_fff8n);
      updating.run();
      expect(updating.register('s0')).toBe(after);
    }
  });
});

describe('the map', () => {
  test('several windows in turn: prediction changes and stays right', () => {
    const bases = [0x7000n, 0x1_0000_0000n, 0xffff_ffff_8100_0000n, 0x3fff_ffff_0000n];
    const machine = handMachine([
      (b) => {
        b.load('ld64', s(1), s(0), 0n);
        return { kind: 'jmp', pc: 0x1000n };
      },
    ]);
    for (const [k, address] of bases.entries()) {
      machine.map({ address, size: 0x2000, permission: 'rw' });
      machine.memory.write(address, bytesOf(BigInt(k + 1), 8));
    }
    for (let round = 0; round < 20; round++) {
      machine.setRegister('s0', bases[(round * 7) % 4]!);
      expect(machine.run({ budget: 1 })).toEqual({ kind: 'step-limit' });
      expect(machine.register('s1')).toBe(BigInt(((round * 7) % 4) + 1));
    }
  });

  test('overlaps, wraps and empty ranges are refused', () => {
    const machine = handMachine([]);
    for (const request of [
      { address: 0x1800n, size: 0x1000 },
      { address: 0x5000n, size: 0 },
      { address: 0xffff_ffff_ffff_f000n, size: 0x2000 },
      { address: -1n, size: 1 },
    ]) {
      expect(() => {
        machine.map({ ...request, permission: 'rw' });
      }).toThrow(ElftraceError);
    }
  });

  test('protect and unmap cut windows, neighbours join again, contents stay', () => {
    const { memory } = handMachine([]);
    memory.map({ address: 0x10000n, size: 0x4000, permission: 'rw' });
    memory.write(0x10000n, new Uint8Array(0x4000).fill(9));
    expect(memory.protect(0x11000n, 0x1000, 'r')).toBe(true);
    expect(memory.windows.length).toBe(4);
    expect(memory.check(0x10ff0n, 32, 'write')).toBe(0x11000n);
    expect(memory.check(0x10ff0n, 32, 'read')).toBe(null);
    expect(memory.protect(0x11000n, 0x1000, 'rw')).toBe(true);
    expect(memory.windows.length).toBe(2);
    memory.unmap(0x12000n, 0x1000);
    expect(memory.windows.map((each) => [each.address, each.size])).toEqual([
      [0x1000n, 0x1000],
      [0x10000n, 0x2000],
      [0x13000n, 0x1000],
    ]);
    expect(memory.read(0x11fffn, 2)).toBe(null);
    expect(memory.read(0x13000n, 1)).toEqual(Uint8Array.of(9));
    expect(memory.protect(0x11000n, 0x3000, 'r')).toBe(false);
  });

  test('more areas than Linux allows are refused, by host and guest calls alike', () => {
    const { memory } = handMachine([]);
    const areas = memory.windows.length;
    let made = 1;
    for (; made < 70_000; made++) {
      if (memory.tryMap({ address: BigInt(made) * 0x10000n, size: 0x1000, permission: 'rw' }) !== null) break;
    }
    // vm.max_map_count is the last count with which one more can be made.
    expect(made - 1 + areas).toBe(65_531);
    expect(memory.protect(0x10100n, 0x100, 'r')).toBe(false);
    expect(memory.unmap(0x10100n, 0x100)).toBe(false);
    expect(memory.read(0x10100n, 1)).not.toBe(null);
    expect(memory.check(60_000n * 0x10000n, 0x1000, 'write')).toBe(null);
    expect(memory.unmap(0x10000n, 0x1000)).toBe(true);
    expect(memory.tryMap({ address: 0x10000n, size: 0x1000, permission: 'rw' })).toBe(null);
  });

  test('any maps, unmaps, protections and accesses: as a model of pages, with more windows than descriptors', () => {
    const PAGES = 600;
    const permissions = ['none', 'r', 'rw'] as const;
    const action = fc.record({
      kind: fc.constantFrom('map', 'unmap', 'protect', 'store', 'look'),
      page: fc.nat(PAGES - 1),
      count: fc.integer({ min: 1, max: 9 }),
      permission: fc.constantFrom(...permissions),
      value: fc.integer({ min: 1, max: 255 }),
    });
    fc.assert(
      fc.property(fc.array(action, { maxLength: 120 }), (actions) => {
        const { memory } = handMachine([]);
        for (const { address, size } of [...memory.windows]) memory.unmap(address, size);
        const model = new Map<number, { permission: string; value: number }>();
        const at = (page: number): bigint => 0x100_0000n + BigInt(page) * 0x1000n;
        // Every second page, so that there are more windows than descriptors from the beginning.
        for (let page = 0; page < PAGES; page += 2) {
          memory.map({ address: at(page), size: 0x1000, permission: 'rw' });
          model.set(page, { permission: 'rw', value: 0 });
        }
        for (const { kind, page, count, permission, value } of actions) {
          const pages = Array.from({ length: count }, (_, i) => page + i);
          const size = count * 0x1000;
          if (kind === 'map') {
            const free = pages.every((each) => !model.has(each));
            expect(memory.tryMap({ address: at(page), size, permission }) === null).toBe(free);
            if (free) for (const each of pages) model.set(each, { permission, value: 0 });
          } else if (kind === 'unmap') {
            expect(memory.unmap(at(page), size)).toBe(true);
            for (const each of pages) model.delete(each);
          } else if (kind === 'protect') {
            const all = pages.every((each) => model.has(each));
            expect(memory.protect(at(page), size, permission)).toBe(all);
            if (all) for (const each of pages) model.get(each)!.permission = permission;
          } else if (kind === 'store') {
            const known = model.get(page);
            if (known?.permission !== 'rw') continue;
            expect(memory.write(at(page) + 7n, Uint8Array.of(value))).toBe(true);
            known.value = value;
          } else memory.touch(at(page));
        }
        for (let page = 0; page < PAGES + 9; page++) {
          const known = model.get(page);
          const may = (access: 'read' | 'write'): boolean => memory.check(at(page), 0x1000, access) === null;
          expect([page, may('read'), may('write')]).toEqual([
            page,
            known !== undefined && known.permission !== 'none',
            known?.permission === 'rw',
          ]);
          if (known && known.permission !== 'none') {
            expect([page, memory.read(at(page) + 7n, 1)]).toEqual([page, Uint8Array.of(known.value)]);
          }
        }
      }),
      { numRuns: times(60, 15) },
    );
  });

  test('no more than 4 GiB of backing', () => {
    const { memory } = handMachine([]);
    expect(memory.tryMap({ address: 0x10000n, size: 0x1_0000_0000, permission: 'rw' })).toMatchObject({
      code: 'backing',
    });
    expect(memory.tryMap({ address: 0x10000n, size: 0x1000, permission: 'rw' })).toBe(null);
  });

  test('resize keeps contents and zeroes what is new, in place and moved', () => {
    const { memory } = handMachine([]);
    memory.map({ address: 0x10000n, size: 0x1000, permission: 'rw' });
    memory.write(0x10000n, new Uint8Array(0x1000).fill(9));
    for (const size of [0x2000, 0x100000, 0x800000, 0x3000, 0x400000]) {
      expect(memory.resize(0x10000n, size)).toBe(true);
      expect(memory.read(0x10000n, 0x1000)!.every((byte) => byte === 9)).toBe(true);
      expect(memory.read(0x11000n, size - 0x1000)!.every((byte) => byte === 0)).toBe(true);
      memory.write(0x10000n + BigInt(size - 1), Uint8Array.of(0));
    }
    memory.map({ address: 0x1000_0000n, size: 0x1000, permission: 'r' });
    expect(memory.resize(0x10000n, 0x1000_0000)).toBe(false);
  });
});

describe('stores to code', () => {
  const li = (rt: number, si: number): readonly ['addi', Record<string, number>] => ['addi', { rt, ra0: 0, si }];

  test('a store to another page of code takes effect at the next execution', () => {
    // 0x10000: call 0x10100 twice; between the calls store a new instruction there.
    const machine = ppcMachine(
      'le',
      [
        ['bl', { li: 0x100 }],
        ['or', { ra: 10, rs: 3, rb: 3 }],
        ['stw', { rs: 4, ra0: 5, d: 0 }],
        ['bl', { li: 0xf4 }],
        ['b', { li: 0 }],
      ],
      { permission: 'rwx' },
    );
    machine.memory.write(0x1_0100n, ppcWords('le', [li(3, 1), ['bclr', { bo: 20, bi: 0, bh: 0 }]]));
    const [patch] = new Uint32Array(ppcWords('le', [li(3, 2)]).buffer);
    machine.setRegister('r4', BigInt(patch!));
    machine.setRegister('r5', 0x1_0100n);
    machine.run({ budget: 8 });
    expect(machine.register('r10')).toBe(1n);
    expect(machine.register('r3')).toBe(2n);
  });

  test('a block that changes its own next instruction', () => {
    for (const kind of ['le', 'be'] as const) {
      const lines = [
        ['stw', { rs: 4, ra0: 5, d: 0 }],
        li(3, 1),
        ['addi', { rt: 6, ra0: 6, si: 1 }],
        ['b', { li: 0 }],
      ] as const;
      const machine = ppcMachine(kind, lines, { permission: 'rwx' });
      const word = new DataView(ppcWords(kind, [li(3, 42)]).buffer).getUint32(0, kind === 'le');
      machine.setRegister('r4', BigInt(word));
      machine.setRegister('r5', 0x1_0004n);
      expect(machine.run({ budget: 3 })).toEqual({ kind: 'step-limit' });
      expect(machine.register('r3')).toBe(42n);
      expect(machine.register('r6')).toBe(1n);
      expect(machine.instructions).toBe(3);
    }
  });

  test('a loop that rewrites itself for ever, instruction by instruction and at once, gives the same states', () => {
    // addi r3,r3,k where k counts up: the loop increments the immediate of its first instruction.
    const lines = [
      ['addi', { rt: 3, ra0: 3, si: 0 }],
      ['lwz', { rt: 4, ra0: 5, d: 0 }],
      ['addi', { rt: 4, ra0: 4, si: 1 }],
      ['stw', { rs: 4, ra0: 5, d: 0 }],
      ['b', { li: -16 }],
    ] as const;
    const make = () => {
      const machine = ppcMachine('le', lines, { permission: 'rwx' });
      machine.setRegister('r5', 0x1_0000n);
      return machine;
    };
    const whole = make();
    const single = make();
    for (let k = 0; k < 203; k++) expect(single.step()).toEqual({ kind: 'step-limit' });
    whole.run({ budget: 203 });
    expect(registersOf(whole)).toBe(registersOf(single));
    // After n rounds the sum is 0 + 1 + ... + (n - 1).
    expect(whole.register('r3')).toBe((40n * 41n) / 2n);
  });

  test('stores beside code in a writable code window do not cost translations', () => {
    const machine = ppcMachine(
      'le',
      [
        ['stw', { rs: 4, ra0: 5, d: 0 }],
        ['b', { li: -4 }],
      ],
      { permission: 'rwx' },
    );
    machine.memory.resize(0x1_0000n, 0x3000);
    machine.memory.unmap(0x2_0000n, 0x1000);
    machine.setRegister('r5', 0x1_2000n);
    expect(machine.run({ budget: 1_000_000 })).toEqual({ kind: 'step-limit' });
    machine.setRegister('r5', 0x1_2ffdn);
    expect(machine.run({ budget: 10 }).kind).toBe('fault');
  });

  test('the host writes code: loader, debugger, live patching', () => {
    const machine = ppcMachine('le', [li(3, 1), ['b', { li: -4 }]]);
    machine.run({ budget: 100 });
    expect(machine.register('r3')).toBe(1n);
    machine.memory.write(0x1_0000n, ppcWords('le', [li(3, 5)]));
    machine.run({ budget: 2 });
    expect(machine.register('r3')).toBe(5n);
    expect(machine.instructions).toBe(102);
  });

  test('taking away the right to execute stops the loop', () => {
    const machine = ppcMachine('le', [li(3, 1), ['b', { li: -4 }]]);
    machine.run({ budget: 100 });
    machine.memory.protect(0x1_0000n, 0x1000, 'r');
    expect(machine.run()).toEqual({ kind: 'fault', address: 0x1_0000n, access: 'execute', instruction: 0x1_0000n });
  });
});

describe('marked windows', () => {
  test('PV-7: the first store to a marked page is told before it is done, and what is not marked is not', () => {
    const store: HandInstruction = (b) => {
      b.store('st64', s(1), s(0), 0n);
      return undefined;
    };
    const machine = handMachine([store, store, store]);
    const data = 0x20_0000n;
    machine.map({ address: data, size: 0x2000, permission: 'rw', marked: true });
    const page = Number(data / 4096n);
    machine.memory.mark(page, 'write', 1);
    const told: [bigint, bigint][] = [];
    machine.observeStores((address, size) => {
      expect(size).toBe(8);
      told.push([address, machine.readWord(data, 8)!]);
      machine.memory.mark(page, 'write', -1);
    });
    machine.setRegister('s0', data + 8n);
    machine.setRegister('s1', 5n);
    machine.run({ budget: 2 });
    expect(told).toEqual([[data + 8n, 0n]]);
    expect(machine.readWord(data + 8n, 8)).toBe(5n);
    // The other page of the window was never marked.
    machine.setRegister('s0', data + 0x1000n);
    machine.run({ budget: 1 });
    expect(told).toHaveLength(1);
    expect(machine.readWord(data + 0x1000n, 8)).toBe(5n);
  });
});
