/**
 * What programs under qemu-user cannot show of the RISC-V rows: faults and misalignment of each
 * access, accesses that cross from one window into the next, addresses near 0, traps, and Zicond,
 * which qemu 7.2 has not. Expectations: a fault leaves the state before the instruction; everything
 * else is compared with a form of the same instruction that the batches compare with qemu, or with
 * the manual's words.
 */
import { riscv64 } from '../../src/arch-riscv/index.js';
import { REGISTER_NAMES, riscvTable } from '../../src/arch-riscv/isa.js';
import { Machine } from '../../src/emulator/index.js';
import type { MachineOptions, StopReason } from '../../src/emulator/index.js';
import type { Operands, Row } from '../../src/isa/table.js';
import { CORNERS_64 } from './batch.js';
import { A0, A1, A2, A4, accessBytes, displacementOf, executableRows, riscvCode, T5, T6, ZERO } from './riscv-batch.js';
import type { Coverage, RiscvLine } from './riscv-batch.js';

export const CODE = 0x1_0000n;
export const DATA = 0x2_0000n;

/** A bare machine with code at `code`, different values in all registers, and pc there. */
export function riscvMachine(
  lines: readonly RiscvLine[] | Uint8Array,
  code = CODE,
  options: Omit<MachineOptions, 'lifter'> = {},
): Machine {
  const { emulation } = riscv64;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const machine = new Machine({ lifter: emulation.lifter, ...options });
  const bytes = lines instanceof Uint8Array ? lines : riscvCode(lines);
  machine.load(code, bytes, { permission: 'rx', size: 0x1000 });
  machine.setRegister('pc', code);
  REGISTER_NAMES.forEach((name, i) => {
    if (i !== ZERO) machine.setRegister(name, BigInt(i) * 0x0123_4567_89abn);
  });
  for (let i = 0; i < 8; i++) machine.setRegister(`fa${i}`, 0x3ff0_0000_0000_0000n + BigInt(i) * 0x0012_3456_789an);
  return machine;
}

/** All registers but the names left out, as text. */
export function stateOf(machine: Machine, without: readonly string[] = []): string {
  return machine.registerNames
    .filter((name) => !without.includes(name))
    .map((name) => `${name}=${machine.register(name).toString(16)}`)
    .join(' ');
}

const show = (stop: StopReason): string =>
  JSON.stringify(stop, (_, value: unknown) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value));

interface MemoryForm {
  readonly row: Row;
  readonly bytes: number;
  readonly operands: Operands;
  /** Register that holds the base, by name. */
  readonly base: 'a4' | 'sp';
  readonly displacement: number;
  readonly atomic: boolean;
  /** Which access a fault of the whole is. */
  readonly access: 'read' | 'write';
}

/** The row with base a4 (or sp) and displacement 16, where it has one. */
function formOf(row: Row): MemoryForm {
  const operands: Record<string, number> = {};
  const field = displacementOf(row);
  for (const { name } of row.fields) {
    if (/^rs1/.test(name)) operands[name] = A4;
    else if (/^f?rd/.test(name)) operands[name] = A0;
    else if (/^f?rs2/.test(name)) operands[name] = A1;
    else operands[name] = name === field ? 16 : 0;
  }
  const { mnemonic } = row;
  const atomic = /^(lr|sc|amo)/.test(mnemonic);
  return {
    row,
    bytes: accessBytes(row),
    operands,
    base: row.syntax.includes("'sp'") ? 'sp' : 'a4',
    displacement: field === null ? 0 : 16,
    atomic,
    access: /^(c\.)?f?l/.test(mnemonic) ? 'read' : 'write',
  };
}

const memoryForms = (): MemoryForm[] =>
  executableRows()
    .filter((row) => accessBytes(row) > 0)
    .map(formOf);

/**
 * The beginning once more, with a base so that the access goes to `address`. A machine serves all
 * places of a form: making one costs a thousand times what the form does.
 */
const aim = (machine: Machine, form: MemoryForm, address: bigint): void => {
  machine.setRegister('pc', CODE);
  machine.setRegister(form.base, BigInt.asUintN(64, address - BigInt(form.displacement)));
};

/**
 * Faults: past the end, below the start, across the end, without permission. The block has begun
 * and goes on.
 */
function runFaults(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const form of memoryForms()) {
    const { mnemonic } = form.row;
    const READ_ONLY = DATA + 0x3000n;
    const NONE = DATA + 0x4000n;
    const places = [DATA + 0x1000n, DATA + 0x2000n, form.access === 'write' ? READ_ONLY : NONE, NONE];
    if (form.atomic) places.push(DATA - BigInt(form.bytes));
    else {
      places.push(DATA - 1n);
      if (form.bytes > 1) places.push(DATA + 0x1000n - BigInt(form.bytes >> 1));
    }
    const lines: RiscvLine[] = [
      ['c.addi', { rd: T5, imm: -1 }],
      ['sltu', { rd: T6, rs1: T5, rs2: A2 }],
      [mnemonic, form.operands],
      ['addi', { rd: T5, rs1: T5, imm: 5 }],
      ['sub', { rd: T6, rs1: T5, rs2: A2 }],
    ];
    const make = (): Machine => {
      const machine = riscvMachine(lines);
      machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
      machine.map({ address: READ_ONLY, size: 0x1000, permission: 'r' });
      machine.map({ address: NONE, size: 0x1000, permission: 'none' });
      return machine;
    };
    const [before, here] = [make(), make()];
    for (const place of places) {
      aim(before, form, place);
      aim(here, form, place);
      const { instructions } = here;
      before.run({ budget: 2 });
      const stop = here.run();
      const name = `${mnemonic} at 0x${place.toString(16)}`;
      if (stop.kind !== 'fault' || stop.access !== form.access || stop.instruction !== CODE + 6n) {
        out.push(`${name}: ${show(stop)}`);
        continue;
      }
      const bad = place < DATA || place > DATA + 0x1000n ? place : DATA + 0x1000n;
      if (stop.address !== bad) out.push(`${name}: ${show(stop)}`);
      if (stateOf(here) !== stateOf(before)) out.push(`${name}: ${stateOf(here)} instead of ${stateOf(before)}`);
      const done = here.instructions - instructions;
      if (done !== 2) out.push(`${name}: ${done} instructions`);
      if (Buffer.compare(here.memory.read(DATA, 0x1000)!, before.memory.read(DATA, 0x1000)!) !== 0) {
        out.push(`${name}: memory changed`);
      }
    }
    coverage.add(mnemonic, places.length, ['fault'], 'state before');
  }
  return out;
}

/** Atomic accesses that are not aligned trap, wherever they lie, before anything else. */
function runMisaligned(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const form of memoryForms()) {
    if (!form.atomic) continue;
    const { mnemonic } = form.row;
    let cases = 0;
    const machine = riscvMachine([
      ['c.addi', { rd: T5, imm: -1 }],
      [mnemonic, form.operands],
    ]);
    machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
    for (let offset = 0; offset < 2 * form.bytes; offset++) {
      for (const page of [DATA, DATA + 0x0ff8n, DATA + 0x8000n]) {
        if (offset % form.bytes === 0) continue;
        aim(machine, form, page + BigInt(offset));
        machine.run({ budget: 1 });
        const before = stateOf(machine);
        machine.setRegister('pc', CODE);
        const stop = machine.run();
        machine.setRegister('t5', machine.register('t5') + 1n);
        if (stop.kind !== 'trap' || stop.trap !== 'alignment' || stop.instruction !== CODE + 2n) {
          out.push(`${mnemonic} at +${offset}: ${show(stop)}`);
        }
        if (stateOf(machine) !== before) out.push(`${mnemonic} at +${offset}: the state changed`);
        cases++;
      }
    }
    coverage.add(mnemonic, cases, ['fault'], 'the alignment trap');
  }
  return out;
}

/** Runs the same lines in two machines and compares registers and memory. */
function same(a: Machine, b: Machine, name: string, out: string[], without: readonly string[] = []): void {
  const stops = [a.run(), b.run()].map((stop) => stop.kind);
  if (stops[0] !== stops[1]) out.push(`${name}: ${stops.join(', ')}`);
  const [x, y] = [stateOf(a, without), stateOf(b, without)];
  if (x !== y) out.push(`${name}: ${x} instead of ${y}`);
}

const PATTERN = Uint8Array.from({ length: 0x2000 }, (_, i) => (i * 73 + 11) & 255);

/** Accesses that begin in one window and end in the next. */
function runWindowCrossings(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const form of memoryForms()) {
    const { mnemonic } = form.row;
    if (form.bytes < 2 || form.atomic) continue;
    let cases = 0;
    const machines = [true, false].map((apart) => {
      const machine = riscvMachine([[mnemonic, form.operands]]);
      machine.map({ address: DATA, size: apart ? 0x1000 : 0x2000, permission: 'rw' });
      if (apart) machine.map({ address: DATA + 0x1000n, size: 0x1000, permission: 'rwx' });
      return machine;
    });
    for (let first = 1; first < form.bytes; first++) {
      for (const machine of machines) {
        machine.memory.write(DATA, PATTERN);
        aim(machine, form, DATA + 0x1000n - BigInt(first));
      }
      const name = `${mnemonic} with ${first} bytes before the border`;
      same(machines[0]!, machines[1]!, name, out);
      const [x, y] = machines.map((each) => each.memory.read(DATA, 0x2000)!);
      if (Buffer.compare(x!, y!) !== 0) out.push(`${name}: memory differs`);
      const unchanged = Buffer.compare(x!, PATTERN) === 0;
      if (unchanged === (form.access === 'write')) out.push(`${name}: memory ${unchanged ? 'un' : ''}changed`);
      cases++;
    }
    coverage.add(mnemonic, cases, ['window-crossing'], 'the same in one window');
  }
  return out;
}

/** `zero` as a base: displacements to either side of address 0. */
function runZeroBases(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const form of memoryForms()) {
    const { mnemonic } = form.row;
    if (form.operands['rs1'] === undefined) continue;
    const displacements = form.displacement === 0 ? [0] : [0, 8, 0x7f8, -8, -0x800, 0x7ff - form.bytes];
    for (const displacement of displacements) {
      const page = BigInt.asUintN(64, BigInt(displacement)) & ~0xfffn;
      const machines = [ZERO, A4].map((rs1) => {
        const operands =
          form.displacement === 0 ? { ...form.operands, rs1 } : { ...form.operands, rs1, imm: displacement };
        const machine = riscvMachine([[mnemonic, operands]]);
        machine.map({ address: page, size: 0x1000, permission: 'rw' });
        machine.memory.write(page, PATTERN.subarray(0, 0x1000));
        machine.setRegister('a4', 0n);
        return machine;
      });
      const name = `${mnemonic} ${displacement}(zero)`;
      same(machines[0]!, machines[1]!, name, out);
      const [x, y] = machines.map((each) => each.memory.read(page, 0x1000)!);
      if (Buffer.compare(x!, y!) !== 0) out.push(`${name}: memory differs`);
    }
    coverage.add(mnemonic, displacements.length, ['zero'], 'base register of value 0');
  }
  return out;
}

/** `jalr` from `zero`: targets in the first and last 2 KiB of the address space. */
function runZeroJumps(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const imm of [0x100, 0x101, 0x7fe, -0x800, -0x7ff, -8]) {
    for (const rd of [ZERO, 1, 5, A0]) {
      const machine = riscvMachine([['jalr', { rd, rs1: ZERO, imm }]]);
      const target = BigInt.asUintN(64, BigInt(imm)) & ~1n;
      const before = stateOf(machine, ['pc', REGISTER_NAMES[rd]!]);
      const stop = machine.step();
      if (stop.kind !== 'step-limit' || machine.pc !== target)
        out.push(`jalr ${imm}(zero): ${machine.pc.toString(16)}`);
      if (rd !== ZERO && machine.register(REGISTER_NAMES[rd]!) !== CODE + 4n) out.push(`jalr ${imm}(zero): the link`);
      if (stateOf(machine, ['pc', REGISTER_NAMES[rd]!]) !== before) out.push(`jalr ${imm}(zero): the state changed`);
    }
  }
  coverage.add('jalr', 24, ['zero', 'corners'], 'the address');
  return out;
}

/** What ends a program: the state before, in the middle of a block and at its start. */
function runTraps(coverage: Coverage): string[] {
  const out: string[] = [];
  const expected: Readonly<Record<string, string>> = {
    'ebreak': 'trap breakpoint',
    'c.ebreak': 'trap breakpoint',
    'unimp': 'trap invalid-form',
    'c.unimp': 'unknown-instruction null',
  }; // prettier-ignore
  for (const [mnemonic, wanted] of Object.entries(expected)) {
    const machines = Array.from({ length: 7 }, (_, length) => {
      const before: RiscvLine[] = Array.from({ length }, () => ['addi', { rd: A0, rs1: A0, imm: 1 }]);
      return riscvMachine([...before, [mnemonic], ['addi', { rd: A1, rs1: A1, imm: 1 }]]);
    });
    for (let i = 0; i < 200; i++) {
      const before = i % 7;
      const machine = machines[before]!;
      machine.setRegister('pc', CODE);
      const { instructions } = machine;
      const value = BigInt(i) << BigInt(i % 64);
      machine.setRegister('a1', value);
      const stop = machine.run();
      const text =
        stop.kind === 'trap'
          ? `trap ${stop.trap}`
          : stop.kind === 'unknown-instruction'
            ? `${stop.kind} ${stop.mnemonic ?? 'null'}`
            : stop.kind;
      const at = CODE + BigInt(4 * before);
      const place = 'instruction' in stop ? stop.instruction : null;
      if (text !== wanted || place !== at || machine.pc !== at || machine.instructions - instructions !== before) {
        out.push(`${mnemonic} after ${before}: ${show(stop)}`);
      }
      if (machine.register('a1') !== BigInt.asUintN(64, value)) out.push(`${mnemonic}: went on`);
    }
    coverage.add(mnemonic, 200, ['corners'], 'state before');
  }
  return out;
}

/** Zicond, by the manual: rd = (rs2 == 0) ? 0 : rs1, and the other way round. */
function runConditional(coverage: Coverage): string[] {
  const out: string[] = [];
  const patterns: (readonly [rd: number, rs1: number, rs2: number, aspect: 'distinct' | 'equal' | 'zero'])[] = [
    [A0, A1, A2, 'distinct'], [A1, A1, A2, 'equal'], [A2, A1, A2, 'equal'], [A0, A1, A1, 'equal'], [A1, A1, A1, 'equal'], [ZERO, A1, A2, 'zero'],
    [A0, ZERO, A2, 'zero'], [A0, A1, ZERO, 'zero'], [A0, ZERO, ZERO, 'zero'],
  ]; // prettier-ignore
  for (const mnemonic of ['czero.eqz', 'czero.nez'] as const) {
    for (const [rd, rs1, rs2, aspect] of patterns) {
      const machine = riscvMachine([[mnemonic, { rd, rs1, rs2 }]]);
      let cases = 0;
      for (const a of CORNERS_64) {
        for (const b of CORNERS_64) {
          machine.setRegister('pc', CODE);
          machine.setRegister('a0', 0x55n);
          machine.setRegister('a1', a);
          machine.setRegister('a2', b);
          const value = (register: number): bigint =>
            register === ZERO ? 0n : machine.register(REGISTER_NAMES[register]!);
          const kept = (value(rs2) === 0n) === (mnemonic === 'czero.nez') ? value(rs1) : 0n;
          const wanted = [A0, A1, A2].map((register) => (register === rd ? kept : value(register)));
          machine.step();
          if ([A0, A1, A2].some((register, i) => value(register) !== wanted[i])) {
            out.push(`${mnemonic} ${rd},${rs1},${rs2} of ${a}, ${b}`);
          }
          cases++;
        }
      }
      coverage.add(mnemonic, cases, [aspect, 'corners'], 'the manual');
    }
  }
  return out;
}

/** `ctzw` of words that are 0, where qemu is wrong. */
function runZeroWords(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const value of [0n, 1n << 32n, 1n << 63n, 0x1234_5678_0000_0000n]) {
    const machine = riscvMachine([['ctzw', { rd: A0, rs1: A1 }]]);
    machine.setRegister('a1', value);
    machine.step();
    if (machine.register('a0') !== 32n) out.push(`ctzw of ${value}: ${machine.register('a0')}`);
  }
  coverage.add('ctzw', 4, ['corners'], 'the manual');
  return out;
}

/** Everything in this file. */
export function runLocal(coverage: Coverage): string[] {
  const parts = [
    runFaults,
    runMisaligned,
    runWindowCrossings,
    runZeroBases,
    runZeroJumps,
    runTraps,
    runConditional,
    runZeroWords,
  ];
  return parts.flatMap((part) => part(coverage));
}

/** Names of rows that are decoded only, with a word of each. */
export function namedOnly(): { readonly mnemonic: string; readonly word: number }[] {
  return riscvTable.rows
    .filter((row) => row.attributes.decodeOnly === true)
    .map(({ mnemonic, match }) => ({ mnemonic, word: match }));
}
