/** What machines have translated and compiled, taken by others that come later. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { arches, archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { KeptTranslations, Machine } from '../src/emulator/index.js';
import { startProcess } from '../src/guest/index.js';
import type { Lifter } from '../src/machine/ir.js';
import { ppcEmulation } from './support/emulator.js';
import { isLong, repeats } from './support/long.js';
import { builtSamples } from './support/pipeline.js';
import { differences, randomProgram } from './support/tiers.js';

/** As the file of a later run has it. */
const later = (kept: KeptTranslations): KeptTranslations => KeptTranslations.from(Buffer.from(kept.bytes()));
const nothing = (): KeptTranslations => KeptTranslations.from(null);

const CODE = 0x1_0000n;
const DATA = 0x2_0000n;
/** A loop that calls a function, which adds and stores. */
const WORDS = [
  0x4800_0011, // bl +16
  0x3884_0001, // addi r4, r4, 1
  0x4200_fff8, // bdnz -8
  0x0000_0000,
  0x7c63_2214, // add r3, r3, r4
  0xf865_0000, // std r3, 0(r5)
  0x4e80_0020, // blr
];
/** addi r4, r4, 2; subf r3, r3, r4. */
const OTHERS: Readonly<Record<number, number>> = { 1: 0x3884_0002, 4: 0x7c63_2050 };

interface Made {
  readonly kept?: KeptTranslations;
  /** Number of a word that is another one. */
  readonly changed?: number;
  /** Something is mapped in front of everything else, so that the host has all of it elsewhere. */
  readonly shifted?: boolean;
  readonly guarded?: boolean;
  readonly tier?: 0 | 'auto';
}

function machineOf({ kept, changed, shifted, guarded, tier = 'auto' }: Made): Machine {
  const { lifter } = ppcEmulation('le');
  const machine = new Machine({ lifter, tier, tierUpAfter: 1000, ...(kept && { kept }) });
  if (shifted) machine.map({ address: 0x8_0000n, size: 0x3000, permission: 'rw' });
  const words = WORDS.map((word, i) => (i === changed ? OTHERS[i]! : word));
  machine.load(CODE, new Uint8Array(Uint32Array.from(words).buffer), {
    permission: 'rx',
    size: 0x1000,
    ...(guarded && { guarded }),
  });
  machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
  return machine;
}

function begun(made: Made, rounds: number): Machine {
  const machine = machineOf(made);
  machine.setRegister('pc', CODE);
  machine.setRegister('ctr', BigInt(rounds));
  machine.setRegister('r5', DATA);
  return machine;
}

/** More than it takes until the loop is compiled. */
const MANY = 400_000;

/** After a run in which the loop was compiled. */
function filled(): KeptTranslations {
  const kept = nothing();
  const machine = begun({ kept }, MANY);
  expect(machine.run()).toMatchObject({ kind: 'unknown-instruction' });
  expect(machine.compiledCounts?.compiled).toBeGreaterThan(0);
  return later(kept);
}

/** The same in tier 0, with nothing kept. */
function expectSame(machine: Machine, made: Made, rounds: number): void {
  const other = begun({ ...made, tier: 0 }, rounds);
  expect(machine.run()).toEqual(other.run());
  expect(differences(other, machine, true)).toEqual([]);
}

describe('kept blocks and regions', () => {
  test('are taken, and do the same', () => {
    const kept = filled();
    const machine = begun({ kept }, 30_000);
    expectSame(machine, {}, 30_000);
    // Without them a loop of 30,000 rounds is not compiled.
    expect(machine.compiledCounts?.compiled).toBeGreaterThan(0);
    expect(kept.counts).toMatchObject({ added: 0, modules: 1 });
    expect(kept.isWorthKeeping).toBe(false);
  });

  test('are kept again, those too that a run did not come to', () => {
    const kept = filled();
    const idle = machineOf({ kept });
    idle.setRegister('pc', CODE + 8n);
    idle.setRegister('ctr', 1n);
    idle.run();
    const again = later(kept);
    expectSame(begun({ kept: again }, 30_000), {}, 30_000);
    expect(again.counts).toMatchObject({ added: 0, modules: 1 });
    expect(later(again).bytes()).toEqual(again.bytes());
  });

  test.each([1, 4])('are not taken where word %i of the code is another one', (changed) => {
    const kept = filled();
    const machine = begun({ kept, changed }, 30_000);
    expectSame(machine, { changed }, 30_000);
    expect(kept.counts.added).toBeGreaterThan(0);
    // What is no longer so goes, and both are there where both come.
    const next = later(kept);
    expectSame(begun({ kept: next, changed }, 30_000), { changed }, 30_000);
    expect(next.counts.added).toBe(0);
    expectSame(begun({ kept: next }, 30_000), {}, 30_000);
    const both = later(next);
    for (const made of [{}, { changed }]) expectSame(begun({ kept: both, ...made }, 30_000), made, 30_000);
    expect(both.counts.added).toBe(0);
  });

  test('serve code that changes while it runs', () => {
    const kept = filled();
    const machines = [begun({ kept }, 60_000), begun({ tier: 0 }, 60_000)] as const;
    for (const [number, word] of Object.entries(OTHERS)) {
      for (const machine of machines) {
        expect(machine.run({ budget: 100_000 })).toEqual({ kind: 'step-limit' });
        expect(machine.writeWord(CODE + BigInt(4 * Number(number)), 4, BigInt(word))).toBe(true);
      }
      expect(differences(...machines)).toEqual([]);
    }
    const [stop, other] = machines.map((machine) => machine.run());
    expect(stop).toEqual(other);
    expect(differences(...machines, true)).toEqual([]);
    expect(kept.counts.modules).toBe(1);
  });

  test('do the same where the host has the memory elsewhere', () => {
    const kept = filled();
    expectSame(begun({ kept, shifted: true }, 30_000), { shifted: true }, 30_000);
    expect(kept.counts.modules).toBe(1);
  });

  test('are not taken where hooks are, which see everything', () => {
    const kept = filled();
    const machine = begun({ kept }, 5000);
    let seen = 0;
    const off = machine.hook(CODE + 20n, () => {
      seen++;
      return 'continue';
    });
    machine.run({ budget: 6 * 4000 });
    expect([seen, kept.counts.taken, kept.counts.modules]).toEqual([4000, 0, 0]);
    off();
    expectSame(machine, {}, 5000);
  });

  test('a hook that comes later is served in regions that were taken', () => {
    const kept = filled();
    const machine = begun({ kept }, 30_000);
    machine.run({ budget: 6 * 20_000 });
    expect(kept.counts.modules).toBe(1);
    let seen = 0;
    machine.hook(CODE + 20n, () => {
      seen++;
      return 'continue';
    });
    expectSame(machine, {}, 30_000);
    expect(seen).toBe(10_000);
  });

  test('are not taken where branches into them are guarded, and the other way round', () => {
    const kept = filled();
    const machine = begun({ kept, guarded: true }, 30_000);
    machine.run();
    expect([kept.counts.taken, kept.counts.modules]).toEqual([0, 0]);
    const guarded = later(kept);
    begun({ kept: guarded, guarded: true }, 30_000).run();
    expect(guarded.counts).toMatchObject({ added: 0 });
  });

  test('machines share them while they run', () => {
    const kept = nothing();
    const machines = [begun({ kept }, 1000), begun({ kept }, 1000)];
    for (const machine of machines) expect(machine.run()).toMatchObject({ kind: 'unknown-instruction' });
    const { added, taken } = kept.counts;
    expect([added > 0, taken >= added]).toEqual([true, true]);
    expect(differences(machines[0]!, machines[1]!, true)).toEqual([]);
  });

  test('what another machine of the run takes stays for later', () => {
    const kept = filled();
    // It is the first that has a compiled tier, and ends before it is found in the loop.
    const short = begun({ kept }, 400);
    short.run();
    expect([kept.counts.modules, short.compiledCounts?.compiled]).toEqual([0, 0]);
    const machine = begun({ kept }, 30_000);
    expectSame(machine, {}, 30_000);
    expect(machine.compiledCounts?.compiled).toBeGreaterThan(0);
    const again = later(kept);
    begun({ kept: again }, 30_000).run();
    expect(again.counts.modules).toBe(1);
  });

  const none = { indices: [], frames: 0, searches: 0, cells: [], fuses: null };
  test.each([
    ['entries of the table', { indices: Array.from({ length: 2001 }, (_, i) => BigInt(i)) }],
    ['frames', { frames: 2001 }],
    ['window cells', { cells: Array.from({ length: 33 }, (_, i) => ({ base: BigInt(i), host: i })) }],
  ])('modules with too many %s are not kept: the next run begins anew', (_, some) => {
    const made = (numbers: object): KeptTranslations => {
      const kept = nothing();
      kept.regions.claim(() => ({
        numbers: { ...none, ...numbers },
        size: 1,
        modules: () => [],
        isThere: () => true,
      }));
      return later(kept);
    };
    expect(made({ frames: 3 }).regions.numbers).toEqual({ ...none, frames: 3 });
    expect(made(some).regions.numbers).toEqual(none);
  });

  test('bytes of another form, or not of their size, are nothing', () => {
    const bytes = filled().bytes();
    for (const each of [
      new Uint8Array(),
      new Uint8Array(100),
      bytes.subarray(0, -1),
      Uint8Array.of(...bytes, 0),
      bytes.with(0, bytes[0]! ^ 1),
    ]) {
      const kept = KeptTranslations.from(each);
      expectSame(begun({ kept }, 1000), {}, 1000);
      expect([kept.counts.taken, kept.regions.isEmpty]).toEqual([0, true]);
    }
  });
});

/** The lifter, and how many blocks it was asked for. */
function counting(lifter: Lifter): { readonly lifter: Lifter; readonly count: () => number } {
  let count = 0;
  const lift: Lifter['lift'] = (...args) => {
    count++;
    return lifter.lift(...args);
  };
  // Members that are not its own stay its own.
  return { lifter: Object.assign(Object.create(lifter) as Lifter, { lift }), count: () => count };
}

describe('programs', () => {
  test.each([
    'x86-64/program-patchable-5',
    'x86-64/core-fentry',
    'arm64/program-patchable-2-bti',
    'riscv64/program-patchable-8',
    'ppc32/program-mcount',
    'ppc64-elfv1/program-clang-mcount',
    'ppc64-elfv2-le/program-patchable',
  ])('%s: a second run lifts nothing that the first has lifted', (name) => {
    const image = readElf(new Uint8Array(readFileSync(join(builtSamples, name))));
    const { emulation, abi } = archOf(image.header);
    if (emulation.kind === 'none') throw new Error(emulation.reason);
    const run = (kept?: KeptTranslations) => {
      const { lifter, count } = counting(emulation.lifter);
      let output = '';
      const process = startProcess({
        ...{ image, abi, emulation: { ...emulation, lifter } },
        ...(kept && { kept }),
        onOutput: (_, bytes) => (output += Buffer.from(bytes).toString('latin1')),
      });
      const stop = process.run();
      return { lifted: count(), result: { stop, output, instructions: process.instructions } };
    };
    const kept = nothing();
    const [without, first] = [run(), run(kept)];
    const second = run(later(kept));
    expect(first).toEqual(without);
    expect(second.result).toEqual(without.result);
    expect(first.lifted).toBeGreaterThan(20);
    // What ends with an instruction that is not known, and what a budget cuts.
    expect(second.lifted).toBeLessThan(3);
  });
});

describe('random programs in step with tier 0, to which everything happens', () => {
  const seeds = repeats([2, 1]);
  for (const { target, emulation } of arches) {
    // The ELFv2 big-endian target has the front end of ELFv1.
    if (emulation.kind !== 'ir' || target.id === 'ppc64-elfv2-be') continue;
    if (!isLong && /^ppc/.test(target.id)) continue;
    test(target.id, () => {
      let taken = 0;
      for (const seed of seeds) {
        const run = (which: number, kept: KeptTranslations): KeptTranslations => {
          const { differing } = randomProgram(target.id, emulation.lifter, which, 100, kept);
          expect([which, differing]).toEqual([which, []]);
          taken += kept.counts.taken;
          return later(kept);
        };
        // The same program, another one at the same addresses, the first again.
        const kept = run(seed, run(seed, nothing()));
        run(seed, run(seed + 1, kept));
      }
      expect(taken).toBeGreaterThan(20 * seeds.length);
    });
  }
});
