/**
 * The state of a machine as words, by which proofs set it up and compare it: for every machine that
 * is emulated, what registers say of their places is true of reading and writing them.
 */
import { describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { Machine } from '../src/emulator/index.js';
import { ImageLayout } from '../src/prove/layout.js';
import { Random } from '../src/prove/random.js';
import { begin } from '../src/prove/state.js';
import { ProofWorld } from '../src/prove/world.js';
import type { Program } from '../src/program/program.js';

const machines = arches.flatMap(({ target, emulation }) =>
  emulation.kind === 'ir' ? [[target.id, new Machine({ lifter: emulation.lifter, tier: 0 })] as const] : [],
);

test('PV-7: machines of all emulated targets are looked at', () => {
  expect(machines.length).toBeGreaterThanOrEqual(7);
});

describe.each(machines)('%s', (_name, machine) => {
  const names = machine.registerNames.filter((name) => name !== 'pc');
  const random = new Random(27);
  const fill = (places: Iterable<number>): void => {
    for (const at of places) machine.stateWords[at] = random.word();
  };
  const placed = names.flatMap((name) => {
    const places = machine.statePlaces(name);
    return places === null
      ? []
      : [[name, places, machine.lifter.registers.find((each) => each.name === name)!] as const];
  });

  test('PV-7: a register with places is its words, written and read', () => {
    expect(placed.length).toBeGreaterThan(16);
    for (const [name, places, { widthBits }] of placed) {
      const value = BigInt.asUintN(widthBits, (random.double() << 64n) | random.double());
      machine.setRegister(name, value);
      const words = places.flatMap((at) => [machine.stateWords[at]!, machine.stateWords[at + 1]!]);
      expect(words.reduceRight((sum, word) => (sum << 32n) | BigInt(word), 0n)).toBe(value);
      if (widthBits === 32) continue;
      fill(places.flatMap((at) => [at, at + 1]));
      const now = places.flatMap((at) => [machine.stateWords[at]!, machine.stateWords[at + 1]!]);
      expect(machine.register(name)).toBe(now.reduceRight((sum, word) => (sum << 32n) | BigInt(word), 0n));
    }
  });

  test('PV-7: a register that is put together is read from words that no other has, and writes no others', () => {
    const taken = new Set(placed.flatMap(([, places]) => places.flatMap((at) => [at, at + 1])));
    const others = names.filter((name) => machine.statePlaces(name) === null);
    for (const name of others) {
      const before = machine.stateWords.slice();
      machine.setRegister(name, BigInt.asUintN(32, random.double()));
      const changed = [...before.keys()].filter((at) => before[at] !== machine.stateWords[at]);
      expect([name, changed.filter((at) => taken.has(at))]).toEqual([name, []]);
    }
    const values = others.map((name) => machine.register(name));
    fill(taken);
    expect(others.map((name) => machine.register(name))).toEqual(values);
  });
});

/** Registers of many states in which trials begin, by name; both worlds have the same. */
function manyStates(arch: (typeof arches)[number], addresses: BigUint64Array): Map<string, Set<bigint>> {
  const { emulation } = arch;
  if (emulation.kind !== 'ir') throw new Error('no emulator');
  const nothing = {
    arch,
    image: { segments: [] },
    symbols: { find: () => -1 },
    definedAt: () => null,
    tocAt: () => null,
  };
  const program = nothing as unknown as Program;
  const worlds = [1, 2].map(() => new ProofWorld(new ImageLayout(program), emulation, 1)) as [ProofWorld, ProofWorld];
  const found = new Map<string, Set<bigint>>();
  for (let seed = 1; seed <= 600; seed++) {
    begin(worlds, program, emulation, { address: 0x1000n, global: null }, new Random(seed * 77), addresses);
    expect(worlds[0].differingRegisters(worlds[1])).toEqual([]);
    for (const { name } of emulation.lifter.registers) {
      const values = found.get(name) ?? new Set();
      found.set(name, values.add(worlds[0].machine.register(name)));
    }
    for (const world of worlds) world.reset();
  }
  return found;
}

const emulated = arches.filter(({ emulation }) => emulation.kind === 'ir');

test.each(emulated.map((arch) => [arch.target.id, arch] as const))(
  'PV-1: states of %s have random and special values in all registers, and flags that any code may leave',
  (_name, arch) => {
    const { emulation, abi } = arch;
    if (emulation.kind !== 'ir') throw new Error('no emulator');
    const { proof, lifter } = emulation;
    const addresses = BigUint64Array.of(0x1234_5678n, 0x2345_6789n);
    const pointers = Object.values(proof.threadKey?.at ?? {});
    const states = manyStates(arch, addresses);
    const machine = new Machine({ lifter, tier: 0 });
    for (const { name, widthBits } of lifter.registers) {
      const values = states.get(name)!;
      const mask = proof.random[name];
      if (proof.fixed.includes(name)) expect([name, ...values]).toEqual([name, machine.register(name)]);
      else if (mask !== undefined) {
        const fresh = machine.register(name) & ~mask;
        expect([name, [...values].filter((each) => (each & ~mask) !== fresh)]).toEqual([name, []]);
        const all = [...values];
        expect([name, all.reduce((x, y) => x | y) & mask]).toEqual([name, mask]);
        expect([name, all.reduce((x, y) => x & y) & mask]).toEqual([name, 0n]);
      } else if (machine.statePlaces(name) !== null && name !== abi.stackPointer && name !== abi.linkRegister) {
        const special = [0n, (1n << BigInt(widthBits)) - 1n, 1n << BigInt(widthBits - 1)];
        // What a thread pointer leads to is a block of its own.
        const isThread = pointers.includes(name);
        expect([name, special.filter((each) => values.has(each))]).toEqual([name, isThread ? [] : special]);
        expect([name, [...addresses].filter((each) => !values.has(each))]).toEqual([name, []]);
        expect([name, values.size > 100]).toEqual([name, true]);
      }
    }
  },
);
