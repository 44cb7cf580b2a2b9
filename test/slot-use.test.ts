/**
 * Which slots an instruction reads and writes (`Machine.slotUse`), for every instruction of the
 * sample programs: other contents of what it does not read change nothing of what it does, and what
 * it does not write stays.
 */
import { describe, expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { Machine } from '../src/emulator/index.js';
import type { Slot } from '../src/machine/ir.js';
import { readSample } from './support/pipeline.js';
import { times } from './support/long.js';

const CODE = 0x10_0000n;
const DATA = 0x20_0000n;
const DATA_BYTES = 0x4000;

const programs = {
  'x86-64': 'program-fentry',
  ppc32: 'program-mcount',
  'ppc64-elfv1': 'program-mprofile',
  'ppc64-elfv2-le': 'program-mprofile',
  riscv64: 'program-patchable-4',
  arm64: 'program-patchable-4-2',
};

/** A small generator of numbers, the same each time. */
function numbers(seed: number): () => bigint {
  let state = BigInt(seed) | 1n;
  return () => {
    state = (state * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n) & 0xffff_ffff_ffff_ffffn;
    return state >> 16n;
  };
}

describe.each(Object.entries(programs))('%s', (id, program) => {
  const arch = arches.find(({ target }) => target.id === id)!;
  if (arch.emulation.kind !== 'ir') throw new Error('not executed');
  const { lifter } = arch.emulation;
  const { slots } = lifter;
  const all = Array.from({ length: slots.count }, (_, slot) => slot).filter((slot) => !slots.isTemporary(slot));
  const file = readSample(`${id}/${program}`);
  const { offset, fileSize } = readElf(file).sections.find(({ name }) => name === '.text')!;
  const text = file.subarray(offset, offset + fileSize);

  const filled = all.filter((slot) => slots.type(slot) === 'i64' && slot !== lifter.reservation?.address);

  const machine = new Machine({ lifter, blockInstructions: 1 });
  machine.map({ address: CODE, size: text.length + 0x1000, permission: 'rx' });
  machine.map({ address: DATA, size: DATA_BYTES, permission: 'rw' });
  machine.memory.write(CODE, text);
  const zeros = new Uint8Array(DATA_BYTES);

  /** Registers that hold places of data, or small numbers; the same for a seed. */
  const fill = (seed: number, which: readonly Slot[]): void => {
    const next = numbers(seed);
    for (const slot of all) {
      const number = next();
      const value = (number & 3n) === 0n ? number & 0xffn : DATA + 0x2000n + (number & 0xff0n);
      if (which.includes(slot)) machine.setSlot(slot, value);
    }
  };
  const values = (): bigint[] => all.map((slot) => machine.slot(slot));
  const performed = (pc: bigint) => {
    machine.setRegister('pc', pc);
    machine.forgetInstructions();
    const stop = machine.step();
    const bytes = Buffer.from(machine.memory.read(DATA, DATA_BYTES)!).toString('latin1');
    return { stop, pc: machine.register('pc'), bytes, after: values() };
  };

  test('F-8: nothing else is read, nothing else is written', () => {
    let looked = 0;
    let unknown = 0;
    const step = times(1, 1, 4) * Number(lifter.codeAlignBytes);
    for (let at = 0; at < text.length; at += step) {
      const pc = CODE + BigInt(at);
      machine.setRegister('pc', pc);
      const use = machine.slotUse();
      if (use === null) {
        unknown++;
        continue;
      }
      const others = filled.filter((slot) => !use.reads.includes(slot));
      // What the host writes takes a reservation.
      machine.memory.write(DATA, zeros);
      fill(at, filled);
      const before = values();
      const one = performed(pc);
      if (one.stop.kind !== 'step-limit') continue;
      all.forEach((slot, i) => {
        if (!use.writes.includes(slot)) expect([at, slot, one.after[i]]).toEqual([at, slot, before[i]]);
      });
      machine.memory.write(DATA, zeros);
      fill(at, filled);
      fill(at + 7, others);
      const two = performed(pc);
      expect([at, two.stop.kind, two.pc, two.bytes === one.bytes]).toEqual([at, 'step-limit', one.pc, true]);
      all.forEach((slot, i) => {
        if (use.writes.includes(slot)) expect([at, slot, two.after[i]]).toEqual([at, slot, one.after[i]]);
      });
      looked++;
    }
    expect(looked).toBeGreaterThan(100);
    expect(unknown).toBeLessThan(looked);
  });
});
