/**
 * What programs under qemu-user cannot show of the A64 rows: faults of each access and accesses
 * that cross from one window into the next. Expectations: a fault leaves the state before the
 * instruction; two windows are as one.
 */
import { arm64 } from '../../src/arch-arm64/index.js';
import { Machine } from '../../src/emulator/index.js';
import type { StopReason } from '../../src/emulator/index.js';
import type { Operands, Row } from '../../src/isa/table.js';
import { a64Words, accessBytes, executableRows, isAlignedRow, isMemoryRow } from './arm64-batch.js';
import type { A64Line, Coverage } from './arm64-batch.js';

const CODE = 0x1_0000n;
const DATA = 0x2_0000n;

/** A bare machine with code; registers hold values that differ. */
export function a64Machine(
  lines: readonly A64Line[],
  options: { readonly guarded?: boolean; readonly tier?: 0 | 1 } = {},
): Machine {
  const { emulation } = arm64;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const { tier = 'auto' } = options;
  const machine = new Machine({ lifter: emulation.lifter, tier });
  const code = a64Words(lines);
  machine.load(CODE, code, {
    permission: 'rx',
    size: Math.max(0x1000, code.length),
    guarded: options.guarded ?? false,
  });
  machine.setRegister('pc', CODE);
  for (let i = 0; i < 31; i++) machine.setRegister(`x${i}`, BigInt(i) * 0x0123_4567_89abn);
  for (let i = 0; i < 32; i++) machine.setRegister(`v${i}`, (BigInt(i) << 120n) | (BigInt(i) * 0x0102_0304_0506n));
  return machine;
}

/** All registers as text. */
export function stateOf(machine: Machine): string {
  return machine.registerNames.map((name) => `${name}=${machine.register(name).toString(16)}`).join(' ');
}

const show = (stop: StopReason): string =>
  JSON.stringify(stop, (_, value: unknown) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value));

/** Several accesses: a fault of a later one may leave bytes of the first stored, as on hardware. */
const inPieces = (mnemonic: string): boolean => /^(stp|stnp|st\d-)/.test(mnemonic);

/** Stores, and reads that go on to write. */
const writes = (mnemonic: string): boolean => /^(st|cas|swp|ld(add|clr|eor|set|[su]max|[su]min))/.test(mnemonic);
/** They load first: without permission to read it is the read that faults. */
const readsFirst = (mnemonic: string): boolean => /^(stl?x|cas|swp|ld)/.test(mnemonic);

interface MemoryForm {
  readonly row: Row;
  readonly bytes: number;
  readonly operands: Operands;
  readonly displacement: bigint;
}

/** The row with base x9 and a small displacement or index x10 = 16, for each width. */
function formsOf(row: Row): MemoryForm[] {
  const has = (name: string): boolean => row.fields.some((field) => field.name === name);
  const widths: Record<string, number>[] = has('sf') ? [{ sf: 0 }, { sf: 1 }] : has('q') ? [{ q: 0 }, { q: 1 }] : [{}];
  return widths.map((width) => {
    const operands: Record<string, number> = { ...width };
    for (const { name } of row.fields) {
      if (name === 'base') operands[name] = 9;
      else if (name === 'rmx') operands[name] = 10;
      else if (/^([wxbhsdq]t|rt|rt_pair|v[te](_\d)?)$/.test(name)) operands[name] = 4;
      else if (/^[wxsdq]t2$/.test(name)) operands[name] = 5;
      else if (/^(ws|rs|rs_pair)$/.test(name)) operands[name] = 6;
      else if (['pimm', 'simm', 'pairimm'].includes(name)) operands[name] = 16;
      else if (name === 'option') operands[name] = 3;
      // Loads that fill registers have elements of any size.
      else operands[name] ??= name === 'size' && /^ld\dr\b/.test(row.mnemonic) ? 3 : 0;
    }
    const bytes = accessBytes(row, operands);
    // A scaled displacement must be a multiple.
    if (operands['pairimm'] !== undefined) operands['pairimm'] = Math.max(16, bytes / 2);
    const post = row.mnemonic.endsWith('-post');
    const constant = operands['pimm'] ?? operands['simm'] ?? operands['pairimm'] ?? 0;
    const displacement = has('rmx') ? 16n : post ? 0n : BigInt(constant);
    return { row, bytes, operands, displacement };
  });
}

const memoryForms = (): MemoryForm[] =>
  executableRows()
    .filter((row) => isMemoryRow(row) && !row.mnemonic.endsWith('-lit'))
    .flatMap(formsOf);

/**
 * The beginning once more, with x9 so that the access goes to `address`. A machine serves all
 * places of a form: making one costs a thousand times what the form does.
 */
function aim(machine: Machine, form: MemoryForm, address: bigint): void {
  machine.setRegister('pc', CODE);
  machine.setRegister('x9', address - form.displacement);
  machine.setRegister('x10', 16n);
}

/** Faults: past the end, below the start, across the end, without permission. */
export function runFaults(coverage: Coverage): string[] {
  const out: string[] = [];
  for (const form of memoryForms()) {
    const { mnemonic } = form.row;
    const stores = writes(mnemonic);
    const aligned = isAlignedRow(form.row);
    const places = [DATA + 0x1000n, DATA - 16n, DATA + 0x2000n, stores ? DATA + 0x3000n : DATA + 0x4000n];
    if (form.bytes > 1 && !aligned)
      places.push(DATA + 0x1000n - BigInt(form.bytes >> 1), DATA + 0x1001n - BigInt(form.bytes));
    const lines: A64Line[] = [
      ['subs-imm', { sf: 1, sh: 0, imm12: 1, rnsp: 20, rd: 20 }],
      ['ccmp-reg', { sf: 1, rm: 22, cond: 1, rn: 21, nzcv: 5 }],
      [mnemonic, form.operands],
      ['add-imm', { sf: 1, sh: 0, imm12: 5, rnsp: 20, rdsp: 20 }],
    ];
    const make = (): Machine => {
      const machine = a64Machine(lines);
      machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
      machine.map({ address: DATA + 0x3000n, size: 0x1000, permission: 'r' });
      machine.map({ address: DATA + 0x4000n, size: 0x1000, permission: 'none' });
      return machine;
    };
    const [before, here] = [make(), make()];
    for (const place of places) {
      aim(before, form, place);
      aim(here, form, place);
      const { instructions } = here;
      before.run({ budget: 2 });
      const stop = here.run();
      const readable = place === DATA + 0x3000n;
      const access = stores && (!readsFirst(mnemonic) || readable) ? 'write' : 'read';
      const name = `${mnemonic} at 0x${place.toString(16)}`;
      if (stop.kind !== 'fault' || stop.access !== access || stop.instruction !== CODE + 8n) {
        out.push(`${name}: ${show(stop)}`);
        continue;
      }
      // The first byte that may not be accessed, except where the last byte is tried first.
      const bad = place < DATA || place > DATA + 0x1000n ? place : DATA + 0x1000n;
      if (stop.address !== bad && !/^ld\d-[234]/.test(mnemonic)) out.push(`${name}: ${show(stop)}`);
      if (stateOf(here) !== stateOf(before)) out.push(`${name}: ${stateOf(here)} instead of ${stateOf(before)}`);
      const done = here.instructions - instructions;
      if (done !== 2) out.push(`${name}: ${done} instructions`);
      const memory = Buffer.compare(here.memory.read(DATA, 0x1000)!, before.memory.read(DATA, 0x1000)!);
      if (memory !== 0 && !inPieces(mnemonic)) out.push(`${name}: memory changed`);
    }
    coverage.add(mnemonic, places.length, ['fault'], 'state before');
  }
  for (const row of executableRows().filter((each) => each.mnemonic.endsWith('-lit') && isMemoryRow(each))) {
    // A literal behind the last byte of the code.
    const operand = row.fields.find((field) => field.name !== 'off')!.name;
    const [before, here] = [0, 1].map(() => a64Machine([[row.mnemonic, { [operand]: 4, off: 0x1000 }]])) as [
      Machine,
      Machine,
    ];
    const stop = here.run();
    if (stop.kind !== 'fault' || stop.address !== CODE + 0x1000n) out.push(`${row.mnemonic}: ${show(stop)}`);
    if (stateOf(here) !== stateOf(before)) out.push(`${row.mnemonic}: ${stateOf(here)}`);
    coverage.add(row.mnemonic, 1, ['fault'], 'state before');
  }
  return out;
}

/** Accesses that begin in one window and end in the next. */
export function runWindowCrossings(coverage: Coverage): string[] {
  const out: string[] = [];
  const pattern = Uint8Array.from({ length: 0x2000 }, (_, i) => (i * 73 + 11) & 255);
  for (const form of memoryForms()) {
    const { mnemonic } = form.row;
    if (form.bytes < 2 || isAlignedRow(form.row)) continue;
    let cases = 0;
    const machines = [true, false].map((apart) => {
      const machine = a64Machine([[mnemonic, form.operands], ['brk', { imm16: 0 }]]); // prettier-ignore
      machine.map({ address: DATA, size: apart ? 0x1000 : 0x2000, permission: 'rw' });
      if (apart) machine.map({ address: DATA + 0x1000n, size: 0x1000, permission: 'rwx' });
      return machine;
    });
    const [a, b] = machines as [Machine, Machine];
    for (let first = 1; first < form.bytes; first++) {
      for (const machine of machines) {
        machine.memory.write(DATA, pattern);
        aim(machine, form, DATA + 0x1000n - BigInt(first));
      }
      const name = `${mnemonic} with ${first} bytes before the border`;
      const stops = [a.run(), b.run()].map((stop) => stop.kind);
      if (stops.some((kind) => kind !== 'trap')) out.push(`${name}: ${stops.join(', ')}`);
      if (stateOf(a) !== stateOf(b)) out.push(`${name}: ${stateOf(a)} instead of ${stateOf(b)}`);
      const [x, y] = machines.map((each) => each.memory.read(DATA, 0x2000)!);
      if (Buffer.compare(x!, y!) !== 0) out.push(`${name}: memory differs`);
      const unchanged = Buffer.compare(x!, pattern) === 0;
      if (unchanged === mnemonic.startsWith('st')) out.push(`${name}: memory ${unchanged ? 'un' : ''}changed`);
      cases++;
    }
    coverage.add(mnemonic, cases, ['window-crossing'], 'the same in one window');
  }
  return out;
}

/**
 * Addresses that are not aligned, of those accesses that must be, and through the stack pointer.
 */
export function runMisaligned(): string[] {
  const out: string[] = [];
  for (const form of memoryForms()) {
    const { mnemonic } = form.row;
    const [direct, stack] = [9, 31].map((base) => {
      const machine = a64Machine([[mnemonic, { ...form.operands, base }], ['brk', { imm16: 0 }]]); // prettier-ignore
      machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
      return { base, machine };
    });
    const check = ({ base, machine }: { base: number; machine: Machine }, offset: bigint, traps: boolean): void => {
      aim(machine, form, DATA + 0x100n + offset);
      machine.setRegister('sp', DATA + 0x100n + offset);
      const before = stateOf(machine);
      const stop = machine.run();
      const name = `${mnemonic} at ${offset} past a multiple of 16, base ${base}`;
      if (stop.kind !== 'trap' || stop.trap !== (traps ? 'alignment' : 'breakpoint'))
        out.push(`${name}: ${show(stop)}`);
      if (traps && stateOf(machine) !== before) out.push(`${name}: state changed`);
    };
    const aligned = isAlignedRow(form.row);
    for (let offset = 1; offset <= 16; offset++) {
      check(direct!, BigInt(offset), aligned && offset % form.bytes !== 0);
      check(stack!, BigInt(offset), offset % 16 !== 0);
    }
  }
  return out;
}
