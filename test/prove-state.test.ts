/**
 * The state of a machine as words, by which proofs set it up and compare it: for every machine that
 * is emulated, what registers say of their places is true of reading and writing them.
 */
import { describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { Machine } from '../src/emulator/index.js';
import { Random } from '../src/prove/random.js';

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
