/**
 * Programs of RISC-V with a probe on every instruction that can have one: as breakpoints, as breakpoints with a second trap behind each copy, as jumps
 * of four and of eight bytes over windows that do not overlap. What the programs do is what they did without (the samples' outputs were made by
 * qemu-user), and handlers see the same. And dead registers: programs in which each is spoiled wherever it is said to be dead.
 */
import { describe, expect, test } from '@jest/globals';
import { deadRegister } from '../src/arch-riscv/kprobes.js';
import { REGISTER_NAMES, riscvTable } from '../src/arch-riscv/isa.js';
import { riscv64 as arch } from '../src/arch-riscv/index.js';
import { wordBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/emulator/index.js';
import { runImage } from './support/loaded.js';
import { readSample, sampleNames } from './support/pipeline.js';
import { type EverywhereOptions, type EverywhereResult, placesOf, runEverywhere } from './support/probe-everywhere.js';

const NAMES = sampleNames().filter((name) => /^riscv64\/(program-|direct$)/.test(name));
/** The same code with other sites around it is not run with every form once more. */
const REPEATED = /program-(patchable-8-4|patchable-8|rv64g-patchable-4-2|mcount-relaxed|clang-patchable-8)$/;

/** Spoils what a callee may: temporaries and arguments; then returns. */
function spoiler(): Uint8Array {
  const registers = [5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31];
  const words = [
    ...registers.map((rd) => riscvTable.encode('addi', { rd, rs1: 0, imm: -1 - rd })),
    riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 }),
  ];
  const out = new Uint8Array(4 * words.length);
  words.forEach((word, i) => {
    out.set(wordBytes(word, 'little'), 4 * i);
  });
  return out;
}

const show = (map: ReadonlyMap<string, number>): string => [...map].map(([key, n]) => `${key} ${n}`).join(', ');

describe('programs with probes everywhere', () => {
  test.each(NAMES.filter((name) => !REPEATED.test(name)))(
    'T-KP-1 %s: breakpoints, stepped copies, short and long jumps do what the program does',
    (name) => {
      const image = readElf(readSample(name));
      const run = (mode: EverywhereOptions['mode'], windows?: 'first' | 'last'): EverywhereResult =>
        runEverywhere({
          arch,
          image,
          mode,
          area: { address: windows === 'last' ? 0x4000_0000n : 0x4_0000n, size: 0xa_0000 },
          callee: spoiler(),
          calleeArguments: ['a0', 'a1'],
          // A call through ra that ends a window is made through t1.
          unseen: ['t1'],
          ...(windows === undefined ? {} : { windows }),
        });
      const plain = run('none');
      const breakpoints = run('breakpoint');
      const stepped = run('stepped');
      for (const each of [breakpoints, stepped]) {
        expect({ end: each.end, output: each.output }).toEqual({ end: plain.end, output: plain.output });
        expect([each.hits, each.seen]).toEqual([breakpoints.hits, breakpoints.seen]);
      }
      expect(breakpoints.hits).toBeGreaterThan(100);
      expect(breakpoints.traps).toBe(breakpoints.hits);
      // Windows of one instruction first, then of several, then the long form where there is one.
      for (const windows of [undefined, 'first', 'last'] as const) {
        const reference = run('breakpoint', windows);
        const jumps = run('jump', windows);
        expect({ end: jumps.end, output: jumps.output }).toEqual({ end: plain.end, output: plain.output });
        expect(jumps.hits).toBe(reference.hits);
        // The long form spends a register, which handlers see.
        if (windows !== 'last') expect(jumps.seen).toBe(reference.seen);
        expect(jumps.jumps).toBeGreaterThan(0);
        expect(jumps.traps).toBeLessThan(jumps.hits);
        process.stdout.write(
          `${name}, ${windows ?? 'single'}: ${jumps.probes} probes, ${jumps.jumps} jumps, ${reference.simulated} simulated, ${jumps.hits} hits, ` +
            `${jumps.traps} traps; refused ${show(jumps.refused)}; not optimised ${show(jumps.notOptimised)}\n`,
        );
      }
    },
  );
});

describe('dead registers', () => {
  test.each(NAMES)('section 10 (b) %s: spoiled wherever it is said to be dead, the program does not notice', (name) => {
    const bytes = readSample(name);
    const image = readElf(bytes);
    const expected = runImage(bytes);
    if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
    let output = '';
    const guest = startProcess({
      image,
      abi: arch.abi,
      emulation: arch.emulation,
      args: ['image'],
      onOutput: (_descriptor, data) => {
        output += Buffer.from(data).toString('latin1');
      },
    });
    const { machine } = guest;
    let places = 0;
    let spoiled = 0;
    const used = new Set<string>();
    for (const { code, address } of placesOf(arch, image).valid) {
      const dead = deadRegister(code, Number(address - code.start));
      if (dead === null) continue;
      places++;
      const register = REGISTER_NAMES[dead]!;
      used.add(register);
      machine.hook(address, () => {
        spoiled++;
        machine.setRegister(register, 0xdead_dead_dead_0000n + BigInt(dead));
        return 'continue';
      });
    }
    const stop = guest.run({ budget: 20_000_000 });
    expect([stop.kind, output]).toEqual(['exit', expected.output]);
    expect([places > 100, spoiled > 100]).toEqual([true, true]);
    expect(used.has('t1')).toBe(true);
  });

  test('the twin: a register that is not dead, spoiled, is noticed', () => {
    const bytes = readSample('riscv64/program-patchable-4');
    const image = readElf(bytes);
    if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
    const guest = startProcess({
      image,
      abi: arch.abi,
      emulation: arch.emulation,
      args: ['image'],
      onOutput: () => undefined,
    });
    for (const { address } of placesOf(arch, image).valid) {
      guest.machine.hook(address, () => {
        guest.machine.setRegister('a5', 0xdeadn);
        return 'continue';
      });
    }
    const stop = guest.run({ budget: 20_000_000 });
    expect(stop.kind === 'exit' && stop.code === 0).toBe(false);
  });
});
