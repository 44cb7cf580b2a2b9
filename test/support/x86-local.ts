/**
 * What batches of x86-64 cannot show: faults, which must leave everything as it was before the
 * instruction; accesses that cross windows; exceptions; and instructions whose results depend on
 * the machine.
 */
import { x86Lifter } from '../../src/arch-x86/lift.js';
import { Machine } from '../../src/emulator/index.js';
import type { StopReason } from '../../src/emulator/index.js';
import type { Aspect, Coverage, Form, RowPlace } from './x86-batch.js';
import { encode, executableRows, isRow, isUnitOnly, memorySize, mustAlign, sizesOf } from './x86-batch.js';

const CODE = 0x1_0000n;
/** A page that is mapped; those around it are not. */
const PAGE = 0x3_0000n;
const SIZE = 0x1000n;
const END = PAGE + SIZE;
const POINTERS = ['rsi', 'rdi', 'rbp', 'r12', 'r13', 'rbx'];

interface Setup {
  readonly permission?: 'r' | 'rw';
  /** Another window behind the page. */
  readonly second?: boolean;
  /** The same bytes in one window. */
  readonly joined?: boolean;
  readonly pointer: bigint;
  readonly stack: bigint;
}

const BYTES = Uint8Array.from({ length: 2 * Number(SIZE) }, (_, i) => (i * 37 + 11) & 0xff);

/** Machines by what they have mapped: making one costs a thousand times what a row does. */
const machines = new Map<string, { readonly machine: Machine; readonly registers: ReadonlyMap<string, bigint> }>();

/** A machine with these windows, whatever ran in it before. */
function machineLike({ permission = 'rw', second = false, joined = false }: Setup): Machine {
  const key = `${permission} ${String(second)} ${String(joined)}`;
  let known = machines.get(key);
  if (known === undefined) {
    const machine = new Machine({ lifter: x86Lifter });
    machine.map({ address: CODE, size: 0x1000, permission: 'rx' });
    machine.map({ address: PAGE, size: (joined ? 2 : 1) * Number(SIZE), permission });
    if (second && !joined) machine.map({ address: END, size: Number(SIZE), permission });
    machine.map({ address: 0x5_0000n, size: 0x1000, permission: 'rw' });
    let value = 0x0123_4567_89ab_cdefn;
    for (const name of machine.registerNames) {
      if (name === 'pc' || name.endsWith('_base') || name === 'mxcsr') continue;
      value = BigInt.asUintN(64, value * 6364136223846793005n + 1442695040888963407n);
      machine.setRegister(name, name === 'rflags' ? value & 0x8d5n : value);
    }
    known = { machine, registers: new Map(machine.registerNames.map((name) => [name, machine.register(name)])) };
    machines.set(key, known);
  }
  const { machine, registers } = known;
  for (const [name, value] of registers) if (machine.register(name) !== value) machine.setRegister(name, value);
  return machine;
}

function machineWith(code: readonly number[], setup: Setup): Machine {
  const machine = machineLike(setup);
  const { memory } = machine;
  memory.write(
    CODE,
    Uint8Array.from({ length: 32 }, (_, i) => code[i] ?? 0),
  );
  memory.write(PAGE, setup.joined ? BYTES : BYTES.subarray(0, Number(SIZE)));
  if (setup.second && !setup.joined) memory.write(END, BYTES.subarray(Number(SIZE)));
  memory.write(0x5_0000n, BYTES.subarray(0, 0x1000));
  machine.setRegister('pc', CODE);
  machine.setRegister('rdx', 0n);
  machine.setRegister('rax', 0x1234n);
  machine.setRegister('r10', 0n);
  for (const name of POINTERS) machine.setRegister(name, setup.pointer);
  machine.setRegister('rsp', setup.stack);
  return machine;
}

/** Registers and memory as text. */
function stateOf(machine: Machine): string {
  const registers = machine.registerNames.map((name) => `${name}=${machine.register(name).toString(16)}`).join(' ');
  const memory = [PAGE, END, 0x5_0000n].map((at) => {
    const bytes = machine.memory.read(at, Number(SIZE));
    return bytes ? Buffer.from(bytes).toString('latin1') : '-';
  });
  return `${registers} ${memory.join('|')}`;
}

const text = (stop: StopReason): string =>
  JSON.stringify(stop, (_key, value: unknown) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value));

/** Rows that access memory through the stack pointer, rbp or rbx without naming it. */
function implicitAccess(name: string, row: RowPlace['row']): 'push' | 'pop' | 'pointer' | null {
  if (/^(push|pushfq|call|enter)$/.test(name)) return 'push';
  if (/^(pop|popfq|ret)$/.test(name)) return 'pop';
  if (name === 'leave' || name === 'xlatb') return 'pointer';
  return row.operands.some((each) => /^[XY]/.test(each)) ? 'pointer' : null;
}

/** Faults and window borders of one row; texts of what is wrong. */
function memoryRow(place: RowPlace, coverage: Coverage): string[] {
  const out: string[] = [];
  const { row } = place;
  const name = row.mnemonics[1];
  const explicit = row.hasModRm && (row.modMask & 1) !== 0 && memorySize(place, 8) > 0;
  const absolute = row.immediates[0] === 'O';
  const implicit = implicitAccess(name, row);
  if (!explicit && !absolute && implicit === null) return out;
  for (const bytes of sizesOf(place)) {
    const size =
      explicit || absolute || (implicit === 'pointer' && name !== 'leave')
        ? name === 'xlatb'
          ? 1
          : memorySize(place, bytes)
        : bytes === 2 && !/^(call|ret)$/.test(name)
          ? 2
          : 8;
    const aligned = size === 16 && mustAlign(place);
    const isString = row.operands.some((each) => /^[XY]/.test(each));
    const vector = row.operands.some((each) => /^[VP]/.test(each));
    const formAt = (address: bigint): Form => ({
      bytes,
      reg: vector ? 1 : 0,
      rm: { address: 'rsi' },
      vvvv: row.usesVvvv ? 2 : 0,
      immediate: absolute ? address : 1n,
      second: 0n,
    });
    const bytesAt = (address: bigint): number[] => encode(place, formAt(address));
    if (!isRow(place, bytesAt(0n))) continue;
    const run = (
      setup: Setup,
      code: readonly number[],
    ): { machine: Machine; before: string; stop: StopReason; done: number } => {
      const machine = machineWith(code, setup);
      if (name === 'xlatb') machine.setRegister('rax', 0n);
      if (name === 'ldmxcsr') machine.writeWord(setup.pointer, 4, 0x1fa0n);
      if (/^bt[src]?$/.test(name)) machine.setRegister('rax', 3n);
      // Not the trap flag.
      if (name === 'popfq') for (const at of [setup.stack, setup.stack + 4n]) machine.writeWord(at, 4, 0n);
      if (/^(div|idiv)$/.test(name)) machine.setRegister('rax', 1n);
      if (name === 'popfq' && setup.second) machine.writeWord(END, 4, 0n);
      const before = stateOf(machine);
      const { instructions } = machine;
      const stop = machine.run({ budget: 1 });
      return { machine, before, stop, done: machine.instructions - instructions };
    };
    /** The access begins at `at` and faults at `bad`, leaving no trace. */
    const faults = (
      what: string,
      at: bigint,
      bad: bigint,
      access: 'read' | 'write' | 'any',
      permission: 'r' | 'rw' = 'rw',
    ): void => {
      const stack =
        implicit === 'push' && !explicit ? at + BigInt(size) : implicit === 'pop' && !explicit ? at : 0x5_0800n;
      const { machine, before, stop, done } = run({ pointer: at, stack, permission }, bytesAt(at));
      const right =
        stop.kind === 'fault' &&
        stop.address === bad &&
        (access === 'any' || stop.access === access) &&
        stop.instruction === CODE;
      if (!right) out.push(`${place.key} (${bytes}, ${what}): ${text(stop)}`);
      else if (stateOf(machine) !== before) out.push(`${place.key} (${bytes}, ${what}): the fault left a trace`);
      else if (done !== 0) out.push(`${place.key} (${bytes}, ${what}): counted`);
      else coverage.add(place.key, 1, ['fault', 'corners'], 'faults here');
    };
    faults('unmapped', END, END, 'any');
    if (size > 1 && !aligned) faults('the end of a page', END - BigInt(size / 2), END, 'any');
    const memoryFirst = /^[EMWQOY]/.test(row.operands[0] ?? '') || implicit === 'push';
    const onlyReads =
      /^(cmp|test|bt|mul|div|idiv|imul|push|call|jmp|ldmxcsr|clflush|clflushopt|prefetch\w*|cmps\w|lods\w|scas\w|pushfq)$/.test(
        name,
      ) ||
      (implicit === 'pop' && !explicit) ||
      name === 'leave' ||
      name === 'xlatb';
    if ((memoryFirst && !onlyReads) || (implicit === 'push' && !explicit) || /^xchg$/.test(name)) {
      faults('read-only', PAGE + 0x800n, PAGE + 0x800n, 'write', 'r');
    }
    if (size > 1 && !aligned && !isString) {
      const at = END - BigInt(size / 2);
      const stack =
        implicit === 'push' && !explicit ? at + BigInt(size) : implicit === 'pop' && !explicit ? at : 0x5_0800n;
      const split = run({ pointer: at, stack, second: true }, bytesAt(at));
      const whole = run({ pointer: at, stack, joined: true }, bytesAt(at));
      if (split.stop.kind !== whole.stop.kind || stateOf(split.machine) !== stateOf(whole.machine)) {
        out.push(`${place.key} (${bytes}): differs across windows, ${text(split.stop)} and ${text(whole.stop)}`);
      } else if (whole.stop.kind === 'step-limit')
        coverage.add(place.key, 1, ['window-crossing', 'corners'], 'one window here');
      else out.push(`${place.key} (${bytes}): ${text(whole.stop)}`);
    }
    if (isString) {
      // Three elements of which the third is beyond the page: two are done.
      const code = encode(place, { ...formAt(0n), repeat: 0xf3 });
      const at = END - 2n * BigInt(size);
      const machine = machineWith(code, { pointer: at, stack: 0x5_0800n, second: false });
      machine.setRegister('rcx', 3n);
      machine.setRegister('rflags', 0n);
      if (/^scas/.test(name)) {
        machine.memory.write(at, new Uint8Array(2 * size));
        machine.setRegister('rax', 0n);
      }
      const { instructions } = machine;
      const stop = machine.run({ budget: 10 });
      const done = machine.instructions - instructions;
      const moved = (name_: string): bigint => machine.register(name_) - at;
      const right =
        stop.kind === 'fault' &&
        stop.address === END &&
        machine.register('pc') === CODE &&
        machine.register('rcx') === 1n &&
        done === 2;
      const uses = (letter: string): boolean => row.operands.some((each) => each.startsWith(letter));
      if (
        !right ||
        (uses('X') && moved('rsi') !== 2n * BigInt(size)) ||
        (uses('Y') && moved('rdi') !== 2n * BigInt(size))
      ) {
        out.push(`${place.key} (${bytes}): rep stops at ${text(stop)}, rcx ${machine.register('rcx')}, ${done} done`);
      } else coverage.add(place.key, 1, ['window-crossing', 'fault'], 'faults here');
    }
    if (aligned) {
      const { machine, before, stop } = run({ pointer: PAGE + 8n, stack: 0x5_0800n }, bytesAt(PAGE));
      if (stop.kind !== 'trap' || stop.trap !== 'protection' || stateOf(machine) !== before)
        out.push(`${place.key}: misaligned ${text(stop)}`);
    }
    if (name === 'ldmxcsr') {
      const machine = machineWith(bytesAt(0n), { pointer: PAGE, stack: 0x5_0800n });
      machine.writeWord(PAGE, 4, 0x1fa0n);
      machine.run({ budget: 1 });
      if (machine.register('mxcsr') !== 0x1fa0n) out.push('ldmxcsr does not load');
      coverage.add(place.key, 1, ['distinct', 'memory', 'page-crossing'], 'faults here');
    }
  }
  return out;
}

/** Rows that end a program, and those whose results depend on the machine. */
function unitRow(place: RowPlace, coverage: Coverage): string[] {
  const { row } = place;
  const name = row.mnemonics[1];
  const out: string[] = [];
  const expected: Readonly<Record<string, string>> = {
    int3: 'breakpoint',
    int1: 'breakpoint',
    int: 'protection',
    ud0: 'undefined-instruction',
    ud1: 'undefined-instruction',
    ud2: 'undefined-instruction',
  };
  const code = encode(place, { rm: row.modMask === 1 ? { address: 'rsi' } : { register: 3 }, immediate: 0x21n });
  const machine = machineWith(code, { pointer: PAGE, stack: 0x5_0800n });
  const before = stateOf(machine);
  const { instructions } = machine;
  const stop = machine.run({ budget: 1 });
  if (/^(cpuid|rdtscp?|serialize|clflushopt|cldemote|prefetch\w*)$/.test(name)) {
    if (stop.kind !== 'step-limit') out.push(`${place.key}: ${text(stop)}`);
    if (/^(serialize|clflushopt|cldemote|prefetch\w*)$/.test(name)) machine.setRegister('pc', CODE);
    const same = stateOf(machine) === before;
    if (same === /^(cpuid|rdtsc)/.test(name)) out.push(`${place.key}: registers`);
  } else if (/^fxsave$/.test(name)) {
    // What they do is compared with this processor in `emulator-x86.test.ts`.
    if (stop.kind !== 'step-limit') out.push(`${place.key}: ${text(stop)}`);
  } else {
    const trap = expected[name] ?? 'protection';
    if (stop.kind !== 'trap' || stop.trap !== trap) out.push(`${place.key}: ${text(stop)} instead of ${trap}`);
    else if (stateOf(machine) !== before || machine.instructions !== instructions)
      out.push(`${place.key}: left a trace`);
  }
  const aspects: Aspect[] = ['corners'];
  if (out.length === 0) coverage.add(place.key, 1, aspects, 'here');
  return out;
}

/** All rows; texts of what is wrong. */
export function runLocal(coverage: Coverage): string[] {
  return executableRows().flatMap((place) => [
    ...(isUnitOnly(place) ? [] : memoryRow(place, coverage)),
    ...(isUnitOnly(place) ? unitRow(place, coverage) : []),
  ]);
}
