/**
 * What programs under qemu-user cannot show of the PowerPC rows: faults of each access, accesses
 * that cross from one window into the next, displacements from address 0, absolute conditional
 * branches, time and random numbers. Expectations: a fault leaves the state before the instruction;
 * everything else is compared with a form of the same instruction that the batches compare with
 * qemu.
 */
import { ppc32, ppc64ElfV2Be, ppc64ElfV2Le } from '../../src/arch-ppc/index.js';
import { Machine } from '../../src/emulator/index.js';
import type { StopReason } from '../../src/emulator/index.js';
import type { Operands, Row } from '../../src/isa/table.js';
import { accessBytes, executableRows, isMemoryRow, ppcWords, rowOf, tableOf } from './ppc-batch.js';
import type { Coverage } from './ppc-batch.js';
import type { PpcKind, PpcLine } from './emulator.js';

const CODE = 0x1_0000n;
const DATA = 0x2_0000n;
const ARCHES = { 32: ppc32, be: ppc64ElfV2Be, le: ppc64ElfV2Le } as const;

function machineOf(kind: PpcKind, lines: readonly PpcLine[], code = CODE): Machine {
  const { emulation } = ARCHES[kind];
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const machine = new Machine({ lifter: emulation.lifter });
  machine.load(code, ppcWords(kind, lines), { permission: 'rx', size: 0x1000 });
  machine.setRegister('pc', code);
  for (let i = 0; i < 32; i++) {
    machine.setRegister(`r${i}`, BigInt(i) * 0x0123_4567_89abn);
    machine.setRegister(`f${i}`, 0x3ff0_0000_0000_0000n + BigInt(i) * 0x0012_3456_789an);
  }
  return machine;
}

/** All registers but the names left out, as text. */
function state(machine: Machine, without: readonly string[] = []): string {
  return machine.registerNames
    .filter((name) => !without.includes(name))
    .map((name) => `${name}=${machine.register(name).toString(16)}`)
    .join(' ');
}

const show = (stop: StopReason): string =>
  JSON.stringify(stop, (_, value: unknown) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value));

/**
 * Rows whose access is not one piece: a fault in its middle may leave bytes stored, as on hardware.
 */
const inPieces = (mnemonic: string): boolean => /^(stmw|stsw|stq)/.test(mnemonic);

/** Multiple and string moves are no instructions of little-endian mode. */
const raisesAlignment = (kind: PpcKind, mnemonic: string): boolean =>
  kind === 'le' && /^(lmw|stmw|lsw|stsw)/.test(mnemonic);

/** Load-and-reserve, store-conditional: their address must be aligned. */
const isReservation = (mnemonic: string): boolean => /^(l[bhwdq]arx|st[bhwdq]cx\.)$/.test(mnemonic);

interface MemoryForm {
  readonly row: Row;
  readonly bytes: number;
  readonly operands: Operands;
  /** Displacement field, or null for an index. */
  readonly displacement: string | null;
}

/** The row with base r9 and displacement 16 or index r10 = 16. */
function formOf(row: Row): MemoryForm {
  const names = row.fields.map((field) => field.name);
  const operands: Record<string, number> = {};
  const multiple = /^(l|st)mw/.test(row.mnemonic);
  for (const name of names) {
    if (name === 'rt' || name === 'rs') operands[name] = multiple ? 28 : /^(l|st)sw/.test(row.mnemonic) ? 24 : 4;
    else if (name === 'frt' || name === 'frs') operands[name] = 4;
    else if (name === 'ra' || name === 'ra0') operands[name] = 9;
    else if (name === 'rb') operands[name] = 10;
    else if (['d', 'ds', 'dq'].includes(name)) operands[name] = 16;
    else if (name === 'nb') operands[name] = 7;
    else if (name !== 'oe' && name !== 'rc') operands[name] = 0;
  }
  const displacement = names.find((name) => ['d', 'ds', 'dq'].includes(name)) ?? null;
  const bytes = { lmw: 16, stmw: 16, lswi: 7, stswi: 7, lswx: 9, stswx: 9 }[row.mnemonic] ?? accessBytes(row.mnemonic);
  return { row, bytes, operands, displacement };
}

const memoryForms = (kind: PpcKind): MemoryForm[] =>
  executableRows(kind)
    .filter((row) => isMemoryRow(row) && accessBytes(row.mnemonic) > 0 && !raisesAlignment(kind, row.mnemonic))
    .map(formOf);

/**
 * The beginning once more, with r9 so that the access goes to `address`. A machine serves all
 * places of a form: making one costs a thousand times what the form does.
 */
function aim(machine: Machine, { displacement, operands }: MemoryForm, address: bigint): void {
  machine.setRegister('pc', CODE);
  machine.setRegister('r9', operands['nb'] === undefined ? address - 16n : address);
  if (displacement === null) machine.setRegister('r10', 16n);
  machine.setRegister('xer', 0x2000_0009n);
}

/** Faults: past the end, below the start, across the end, without permission. */
function runFaults(kind: PpcKind, coverage: Coverage): string[] {
  const out: string[] = [];
  for (const form of memoryForms(kind)) {
    const { mnemonic } = form.row;
    const stores = /^(st|dcbz)/.test(mnemonic);
    const conditional = mnemonic.endsWith('cx.');
    const reserves = isReservation(mnemonic);
    const below = DATA - (reserves ? BigInt(form.bytes) : 1n);
    const places = [DATA + 0x1000n, below, DATA + 0x2000n, stores ? DATA + 0x3000n : DATA + 0x4000n];
    if (form.bytes > 1 && !reserves) places.push(DATA + 0x1000n - BigInt(form.bytes >> 1));
    const lines: PpcLine[] = [
      ['addic', { rt: 20, ra: 20, si: -1 }],
      ['cmp', { bf: 3, l: 0, ra: 20, rb: 21 }],
      [mnemonic, form.operands],
      ['addi', { rt: 20, ra0: 20, si: 5 }],
    ];
    const make = (): Machine => {
      const machine = machineOf(kind, lines);
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
      const access = stores && !(conditional && place !== DATA + 0x3000n) ? 'write' : 'read';
      const name = `${kind} ${mnemonic} at 0x${place.toString(16)}`;
      if (stop.kind !== 'fault' || stop.access !== access || stop.instruction !== CODE + 8n) {
        out.push(`${name}: ${show(stop)}`);
        continue;
      }
      // The first byte that may not be accessed; dcbz begins at its line.
      const bad = place < DATA || place > DATA + 0x1000n ? place : DATA + 0x1000n;
      if (stop.address !== bad && !mnemonic.startsWith('dcbz')) out.push(`${name}: ${show(stop)}`);
      if (state(here) !== state(before)) out.push(`${name}: ${state(here)} instead of ${state(before)}`);
      const done = here.instructions - instructions;
      if (done !== 2) out.push(`${name}: ${done} instructions`);
      const memory = Buffer.compare(here.memory.read(DATA, 0x1000)!, before.memory.read(DATA, 0x1000)!);
      if (memory !== 0 && !inPieces(mnemonic)) out.push(`${name}: memory changed`);
    }
    coverage.add(rowOf(kind, mnemonic), places.length, ['fault'], 'state before');
  }
  return out;
}

/** Runs the same lines in two machines and compares registers and memory. */
function same(a: Machine, b: Machine, name: string, out: string[], without: readonly string[] = []): void {
  const stops = [a.run(), b.run()].map((stop) => stop.kind);
  if (stops[0] !== stops[1]) out.push(`${name}: ${stops.join(', ')}`);
  const [x, y] = [state(a, without), state(b, without)];
  if (x !== y) out.push(`${name}: ${x} instead of ${y}`);
}

/** Accesses that begin in one window and end in the next. */
function runWindowCrossings(kind: PpcKind, coverage: Coverage): string[] {
  const out: string[] = [];
  const pattern = Uint8Array.from({ length: 0x2000 }, (_, i) => (i * 73 + 11) & 255);
  for (const form of memoryForms(kind)) {
    const { mnemonic } = form.row;
    if (form.bytes < 2 || isReservation(mnemonic)) continue;
    const lines: PpcLine[] = [[mnemonic, form.operands]];
    let cases = 0;
    const machines = [true, false].map((apart) => {
      const machine = machineOf(kind, lines);
      machine.map({ address: DATA, size: apart ? 0x1000 : 0x2000, permission: 'rw' });
      if (apart) machine.map({ address: DATA + 0x1000n, size: 0x1000, permission: 'rwx' });
      return machine;
    });
    for (let first = 1; first < form.bytes; first++) {
      for (const machine of machines) {
        machine.memory.write(DATA, pattern);
        aim(machine, form, DATA + 0x1000n - BigInt(first));
      }
      const name = `${kind} ${mnemonic} with ${first} bytes before the border`;
      same(machines[0]!, machines[1]!, name, out);
      const [x, y] = machines.map((each) => each.memory.read(DATA, 0x2000)!);
      if (Buffer.compare(x!, y!) !== 0) out.push(`${name}: memory differs`);
      const unchanged = Buffer.compare(x!, pattern) === 0;
      if (unchanged === mnemonic.startsWith('st')) out.push(`${name}: memory ${unchanged ? 'un' : ''}changed`);
      cases++;
    }
    coverage.add(rowOf(kind, mnemonic), cases, ['window-crossing'], 'the same in one window');
  }
  return out;
}

/** D-forms without a base: displacements from address 0, to either side. */
function runZeroBases(kind: PpcKind, coverage: Coverage): string[] {
  const out: string[] = [];
  const bits = kind === '32' ? 32 : 64;
  for (const form of memoryForms(kind)) {
    const { mnemonic } = form.row;
    if (form.displacement === null || form.operands['ra0'] === undefined) continue;
    const displacements = [0x1000, 0x1238, 0x7ff0, -0x8000, -0x7000];
    for (const displacement of displacements.map((each) => each & ~15)) {
      const page = BigInt.asUintN(bits, BigInt(displacement)) & ~0xfffn;
      const machines = [0, 9].map((base) => {
        const operands = { ...form.operands, ra0: base, [form.displacement!]: displacement };
        const machine = machineOf(kind, [[mnemonic, operands]]);
        machine.map({ address: page, size: 0x1000, permission: 'rw' });
        machine.memory.write(
          page,
          Uint8Array.from({ length: 0x1000 }, (_, i) => (i * 29 + 5) & 255),
        );
        machine.setRegister('r9', 0n);
        machine.setRegister('r0', 0x7777n);
        return machine;
      });
      const name = `${kind} ${mnemonic} ${displacement}(0)`;
      same(machines[0]!, machines[1]!, name, out);
      const [x, y] = machines.map((each) => each.memory.read(page, 0x1000)!);
      if (Buffer.compare(x!, y!) !== 0) out.push(`${name}: memory differs`);
    }
    coverage.add(rowOf(kind, mnemonic), displacements.length, ['zero'], 'base register of value 0');
  }
  return out;
}

/** `bca` and `bcla` against `bc` and `bcl` to the same place. */
function runAbsoluteBranches(kind: PpcKind, coverage: Coverage): string[] {
  const out: string[] = [];
  for (const [absolute, relative] of [
    ['bca', 'bc'],
    ['bcla', 'bcl'],
  ] as const) {
    let cases = 0;
    for (const code of [0x4000n, BigInt.asUintN(kind === '32' ? 32 : 64, -0x6000n)]) {
      for (let bo = 0; bo < 32; bo++) {
        const forms: PpcLine[] = [
          [absolute, { bo, bi: 2, bda: Number(BigInt.asIntN(kind === '32' ? 32 : 64, code)) + 0x20 }],
          [relative, { bo, bi: 2, bd: 0x20 }],
        ];
        const [a, b] = forms.map((line) => machineOf(kind, [line], code));
        for (const counter of [0n, 1n, 2n]) {
          for (const cr of [0n, 0x2000_0000n]) {
            for (const machine of [a!, b!]) {
              machine.setRegister('pc', code);
              machine.setRegister('lr', 0x7777n);
              machine.setRegister('ctr', counter);
              machine.setRegister('cr', cr);
            }
            a!.step();
            b!.step();
            if (state(a!) !== state(b!)) out.push(`${kind} ${absolute} ${bo} at 0x${code.toString(16)}`);
            cases++;
          }
        }
      }
    }
    coverage.add(rowOf(kind, absolute), cases, ['distinct', 'corners'], relative);
  }
  return out;
}

/**
 * Time counts completed instructions; random numbers repeat and have the size that was asked for.
 */
function runTimeAndRandom(kind: PpcKind, coverage: Coverage): string[] {
  const out: string[] = [];
  let cases = 0;
  for (const line of [
    (rt: number): PpcLine => ['mftb', { rt, spr: 268 }],
    (rt: number): PpcLine => ['mfspr', { rt, spr: 268 }],
    (rt: number): PpcLine => ['mftb', { rt, spr: 269 }],
  ]) {
    for (let rt = 0; rt < 32; rt++) {
      const machine = machineOf(kind, [['ori', { rs: 0, ra: 0, ui: 0 }], line(rt), line(rt), line(rt)]);
      machine.run({ budget: 1 });
      for (let done = 1; done < 4; done++) {
        machine.step();
        const expected = line(rt)[1]!['spr'] === 269 ? 0n : BigInt(done);
        if (machine.register(`r${rt}`) !== expected) out.push(`${kind} mftb r${rt}: ${machine.register(`r${rt}`)}`);
        cases++;
      }
    }
  }
  coverage.add(rowOf(kind, 'mftb'), cases, ['corners'], 'count of instructions');
  if (kind === '32') return out;
  cases = 0;
  const seen = new Set<bigint>();
  for (let l2 = 0; l2 < 4; l2++) {
    for (let rt = 0; rt < 32; rt++) {
      const program: PpcLine[] = [
        ['darn', { rt, l2 }],
        ['darn', { rt, l2 }],
      ];
      const [a, b] = [machineOf(kind, program), machineOf(kind, program)];
      for (let i = 0; i < 2; i++) {
        a.step();
        b.step();
        const value = a.register(`r${rt}`);
        if (value !== b.register(`r${rt}`)) out.push(`${kind} darn: not the same twice`);
        if (l2 === 0 && value >> 32n !== 0n) out.push(`${kind} darn 0: ${value.toString(16)}`);
        if (l2 === 3 && value !== 0xffff_ffff_ffff_ffffn) out.push(`${kind} darn 3: ${value.toString(16)}`);
        if (l2 === 1) seen.add(value);
        cases++;
      }
    }
  }
  // Two counts of instructions, so two numbers.
  if (seen.size !== 2) out.push(`${kind} darn: ${seen.size} numbers`);
  coverage.add(rowOf(kind, 'darn'), cases, ['corners'], 'itself');
  return out;
}

/** In little-endian mode multiple and string moves trap before they do anything. */
function runAlignmentTraps(kind: PpcKind, coverage: Coverage): string[] {
  const out: string[] = [];
  for (const row of executableRows(kind)) {
    if (!raisesAlignment(kind, row.mnemonic)) continue;
    const machine = machineOf(kind, [[row.mnemonic, formOf(row).operands]]);
    for (let i = 0; i < 200; i++) {
      machine.setRegister('xer', BigInt(i & 127));
      const before = state(machine);
      const stop = machine.run();
      if (stop.kind !== 'trap' || stop.trap !== 'alignment') out.push(`${row.mnemonic}: ${show(stop)}`);
      if (state(machine) !== before) out.push(`${row.mnemonic}: the state changed`);
    }
    const aspects = ['distinct', 'equal', 'zero', 'corners', 'page-crossing', 'window-crossing', 'fault'] as const;
    coverage.add(rowOf(kind, row.mnemonic), 200, aspects, 'the alignment interrupt');
  }
  return out;
}

/**
 * Reservations of misaligned addresses trap before they do anything (Power ISA 3.1B, book II 4.6.2,
 * 4.6.3), wherever the address leads, and whether or not there is a reservation; one that there was
 * stays. qemu 7.2 lets a store-conditional without a reservation fail instead.
 */
function runMisalignedReservations(kind: PpcKind, coverage: Coverage): string[] {
  const out: string[] = [];
  for (const row of executableRows(kind)) {
    const { mnemonic } = row;
    const form = formOf(row);
    if (!isReservation(mnemonic) || form.bytes === 1) continue;
    const size = { 2: 'h', 4: 'w', 8: 'd', 16: 'q' }[form.bytes]!;
    let cases = 0;
    for (let offset = 1; offset < form.bytes; offset++) {
      for (const place of [DATA, DATA + 0x1000n - BigInt(form.bytes), DATA + 0x8000n, DATA + 0x1000n]) {
        // A machine each: what is kept in it is the reservation.
        const lines: PpcLine[] = [
          [`l${size}arx`, { rt: 6, ra0: 0, rb: 21, eh: 0 }],
          ['cmp', { bf: 3, l: 0, ra: 20, rb: 22 }],
          [mnemonic, form.operands],
          [`st${size}cx.`, { rs: 6, ra0: 0, rb: 21 }],
        ];
        const machine = machineOf(kind, lines);
        machine.map({ address: DATA, size: 0x2000, permission: 'rw' });
        machine.memory.write(
          DATA,
          Uint8Array.from({ length: 0x2000 }, (_, i) => i * 31 + 7),
        );
        const memory = machine.memory.read(DATA, 0x2000)!;
        machine.setRegister('r21', DATA + 0x100n);
        aim(machine, form, place + BigInt(offset));
        machine.run({ budget: 2 });
        const before = state(machine);
        const stop = machine.run();
        const name = `${kind} ${mnemonic} at 0x${(place + BigInt(offset)).toString(16)}`;
        if (stop.kind !== 'trap' || stop.trap !== 'alignment' || stop.instruction !== CODE + 8n) {
          out.push(`${name}: ${show(stop)}`);
          continue;
        }
        if (state(machine) !== before) out.push(`${name}: ${state(machine)} instead of ${before}`);
        if (machine.instructions !== 2) out.push(`${name}: ${machine.instructions} instructions`);
        if (Buffer.compare(machine.memory.read(DATA, 0x2000)!, memory) !== 0) out.push(`${name}: memory changed`);
        machine.setRegister('pc', CODE + 12n);
        machine.step();
        if (machine.register('cr') >> 28n !== 2n) out.push(`${name}: the reservation is lost`);
        cases++;
      }
    }
    coverage.add(rowOf(kind, mnemonic), cases, ['misaligned'], 'the alignment interrupt');
  }
  return out;
}

/** Everything in this file. */
export function runLocal(kind: PpcKind, coverage: Coverage): string[] {
  const parts = [runFaults, runWindowCrossings, runZeroBases, runAbsoluteBranches, runTimeAndRandom, runAlignmentTraps, runMisalignedReservations]; // prettier-ignore
  return parts.flatMap((part) => part(kind, coverage));
}

/** Names of rows that are decoded only, with a word of each. */
export function namedOnly(kind: PpcKind): { readonly mnemonic: string; readonly word: number }[] {
  const table = tableOf(kind);
  const out: { mnemonic: string; word: number }[] = [];
  for (const row of table.rows) {
    if (row.attributes.decodeOnly !== true) continue;
    for (const word of [
      row.match,
      (row.match | (~row.mask & 0x0021_0000)) >>> 0,
      (row.match | (~row.mask & 0x0210_8000)) >>> 0,
    ]) {
      if (table.decode(word)?.row.mnemonic !== row.mnemonic) continue;
      out.push({ mnemonic: row.mnemonic, word });
      break;
    }
  }
  return out;
}
