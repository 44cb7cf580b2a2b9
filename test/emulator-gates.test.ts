/**
 * Host gates (RT-12): TypeScript functions behind guest addresses, called by
 * compiled code.
 */
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ppc32, ppc64ElfV1, ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import { x86_64 } from '../src/arch-x86/index.js';
import { Gates, Machine } from '../src/emulator/index.js';
import type { CallConvention, GateCall } from '../src/emulator/index.js';
import { exitCodeOf } from '../src/cli/exit.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { checkAcceptance } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import {
  buildPpc,
  CODE,
  handLifter,
  handMachine,
  ppcGcc,
  ppcMachine,
  PROGRAMS,
  s,
  startPpc,
  writeSource,
} from './support/emulator.js';
import type { PpcKind, PpcLine } from './support/emulator.js';
import { errorOf, openBytes, readSample } from './support/pipeline.js';
import { describeWith } from './support/tools.js';

const ABI = { le: ppc64ElfV2Le.abi, be: ppc64ElfV1.abi, 32: ppc32.abi } as const;
const WINDOW = 0x3_f000n;
const START = 0x1_0000n;

const bctrl: PpcLine = ['bcctrl', { bo: 20, bi: 0, bh: 0 }];
const bctr: PpcLine = ['bcctr', { bo: 20, bi: 0, bh: 0 }];
const blr: PpcLine = ['bclr', { bo: 20, bi: 0, bh: 0 }];
const STOP: PpcLine = ['tw', { to: 31, ra: 0, rb: 0 }];
const add = (rt: number, si: number): PpcLine => ['addi', { rt, ra0: rt, si }];

function gatesOf(kind: PpcKind, machine: Machine): Gates {
  const functionPointers = kind === 'be' ? 'descriptor' : 'code';
  return new Gates({ machine, abi: ABI[kind], address: WINDOW, functionPointers });
}

describe.each(['le', 'be', '32'] as const)('gates on %s', (kind) => {
  test('a call gets its arguments, returns its result, and counts as one instruction', () => {
    const machine = ppcMachine(kind, [bctrl, STOP]);
    const gates = gatesOf(kind, machine);
    const seen: unknown[] = [];
    const gate = gates.add((call) => {
      seen.push(call.argument(0), call.argument(7), call.returnAddress, call.register('r20'), call.machine.pc);
      call.setRegister('r21', 5n);
      return call.argument(0) - 10n;
    });
    expect(gates.contains(gate.address)).toBe(true);
    expect(gates.contains(START)).toBe(false);
    machine.setRegister('ctr', gate.address);
    [
      ['r3', 7n],
      ['r10', 77n],
      ['r20', 20n],
    ].forEach(([name, value]) => {
      machine.setRegister(String(name), BigInt(value!));
    });
    expect(machine.run()).toMatchObject({ kind: 'trap', instruction: START + 4n });
    expect(seen).toEqual([7n, 77n, START + 4n, 20n, gate.address]);
    expect(machine.register('r3')).toBe(BigInt.asUintN(kind === '32' ? 32 : 64, -3n));
    expect(machine.register('r21')).toBe(5n);
    expect(machine.instructions).toBe(2);
  });

  test('a jump to a gate (tail call) returns to the caller', () => {
    // 0: bl 8; 4: trap; 8: r5 += 1; bctr
    const machine = ppcMachine(kind, [['bl', { li: 8 }], STOP, add(5, 1), bctr]);
    const gate = gatesOf(kind, machine).add((call) => call.argument(2));
    machine.setRegister('ctr', gate.address);
    expect(machine.run()).toMatchObject({ kind: 'trap', instruction: START + 4n });
    expect(machine.register('r3')).toBe(1n);
    expect(machine.instructions).toBe(4);
  });

  test('a return to a gate, no result, a redirected return', () => {
    const machine = ppcMachine(kind, [blr, STOP, STOP]);
    const gate = gatesOf(kind, machine).add((call) => {
      call.setRegister('pc', START + 8n);
      return undefined;
    });
    machine.setRegister('lr', gate.address);
    machine.setRegister('r3', 9n);
    expect(machine.run()).toMatchObject({ kind: 'trap', instruction: START + 8n });
    expect(machine.register('r3')).toBe(9n);
  });

  test('budgets and single steps are exact through gates, hooks come first, stop ends the run behind the gate', () => {
    const order: string[] = [];
    const make = (): Machine => {
      const machine = ppcMachine(kind, [bctrl, add(5, 1), ['b', { li: -8 }]]);
      const gate = gatesOf(kind, machine).add((call) => {
        order.push('gate');
        if (call.register('r5') === 3n) call.stop();
        return call.argument(0) + 1n;
      });
      machine.setRegister('ctr', gate.address);
      machine.hook(gate.address, () => {
        order.push('hook');
        return 'continue';
      });
      return machine;
    };
    const whole = make();
    expect(whole.run()).toEqual({ kind: 'hook', address: WINDOW });
    expect(whole.register('pc')).toBe(START + 4n);
    expect(whole.instructions).toBe(14);
    expect(order).toEqual(['hook', 'gate', 'hook', 'gate', 'hook', 'gate', 'hook', 'gate']);
    for (const budget of [1, 2, 3, 5]) {
      const machine = make();
      for (let done = 0; done + budget < 14; done += budget) {
        expect(machine.run({ budget })).toEqual({ kind: 'step-limit' });
        expect(machine.instructions).toBe(done + budget);
      }
      expect(machine.run({ budget: 14 }).kind).toBe('hook');
      expect(machine.instructions).toBe(14);
    }
    // A loop through nothing but a gate ends with its budget.
    const endless = ppcMachine(kind, [bctr]);
    const gate = gatesOf(kind, endless).add(() => undefined);
    endless.setRegister('ctr', gate.address);
    endless.setRegister('lr', gate.address);
    expect(endless.run({ budget: 1000 })).toEqual({ kind: 'step-limit' });
    expect(endless.instructions).toBe(1000);
  });

  test('a hook that stops at a gate: the next run goes through it', () => {
    const machine = ppcMachine(kind, [bctrl, STOP]);
    const gate = gatesOf(kind, machine).add(() => 42n);
    machine.setRegister('ctr', gate.address);
    machine.hook(gate.address, () => 'stop');
    expect(machine.run()).toEqual({ kind: 'hook', address: gate.address });
    expect(machine.register('pc')).toBe(gate.address);
    expect(machine.run().kind).toBe('trap');
    expect(machine.register('r3')).toBe(42n);
  });

  test('removed gates are ordinary addresses, full windows and bad arguments are refused', () => {
    const machine = ppcMachine(kind, [bctr]);
    const gates = gatesOf(kind, machine);
    const gate = gates.add((call) => call.argument(8));
    machine.setRegister('ctr', gate.address);
    expect(() => machine.run()).toThrow(ElftraceError);
    machine.setRegister('pc', START);
    gate.remove();
    expect(machine.run()).toMatchObject({ kind: 'unknown-instruction', instruction: gate.address });
    expect(() => {
      for (;;) gates.add(() => undefined);
    }).toThrow(ElftraceError);
    expect(() => gatesOf(kind, machine)).toThrow(ElftraceError);
  });

  test('the host calls guest code, also from within a gate', () => {
    // f(x) = gate(x) + 1, without a frame: r20 keeps the return address.
    const lines: PpcLine[] = [['mfspr', { rt: 20, spr: 8 }], bctrl, add(3, 1), ['mtspr', { rs: 20, spr: 8 }], blr];
    const machine = ppcMachine(kind, [...lines, add(3, 100), blr]);
    const gates = gatesOf(kind, machine);
    const inner: bigint[] = [];
    const gate = gates.add((call) => {
      const result = gates.call(START + 20n, [call.argument(0)]);
      if (result.kind === 'returned') inner.push(result.value);
      return call.argument(0) * 2n;
    });
    machine.setRegister('ctr', gate.address);
    expect(gates.call(START, [21n])).toEqual({ kind: 'returned', value: 242n + 1n });
    expect(inner).toEqual([121n]);
    expect(machine.register('pc')).toBe(START);
    expect(gates.call(START, [21n], { budget: 2 })).toEqual({ kind: 'step-limit' });
    expect(gates.call(0x10n, [])).toMatchObject({ kind: 'fault', access: 'execute' });
    expect(() => gates.call(START, new Array<bigint>(9).fill(0n))).toThrow(ElftraceError);
  });
});

test('where the return address is on the stack', () => {
  const abi: CallConvention = {
    argumentRegisters: ['s1', 's2'], resultRegister: 's0', linkRegister: null, stackPointer: 's7',
  }; // prettier-ignore
  const machine = handMachine([
    (b) => {
      b.to(s(7), 'sub', s(7), 8n);
      b.store('st64', CODE + 4n, s(7), 0n);
      return { kind: 'calli', s: s(5), mask: -1n, ret: CODE + 4n };
    },
  ]);
  machine.map({ address: 0x8000n, size: 0x1000, permission: 'rw' });
  machine.setRegister('s7', 0x8800n);
  const gates = new Gates({ machine, abi, address: 0xf000n, fill: 0xcc });
  expect(machine.memory.read(0xf000n, 2)).toEqual(Uint8Array.of(0xcc, 0xcc));
  const calls: GateCall[] = [];
  const gate = gates.add((call) => {
    calls.push(call);
    return call.argument(1);
  });
  machine.setRegister('s5', gate.address);
  machine.setRegister('s2', 6n);
  expect(machine.run()).toMatchObject({ kind: 'unknown-instruction', instruction: CODE + 4n });
  expect(machine.register('s0')).toBe(6n);
  expect(machine.register('s7')).toBe(0x8800n);
  expect(calls[0]!.returnAddress).toBe(CODE + 4n);
  expect(machine.instructions).toBe(2);
});

test('lifters of any kind: a gate where no code is lifted', () => {
  const machine = new Machine({ lifter: handLifter(new Map()) });
  machine.map({ address: CODE, size: 0x100, permission: 'rx' });
  machine.setRegister('pc', CODE);
  machine.setGate(CODE, (each) => {
    each.setRegister('pc', CODE + 8n);
    return 'continue';
  });
  expect(machine.run()).toMatchObject({ kind: 'unknown-instruction', instruction: CODE + 8n });
  expect(() => machine.setGate(CODE, () => 'stop')).toThrow(ElftraceError);
});

const SOURCE = `
#include "lib.h"
typedef long (*callback)(long a, const char *b, long c, long d, long e, long f, long g, long h);
static callback volatile passed;
static __attribute__((noinline)) long apply(callback f, long n) {
  long sum = 0;
  for (long i = 0; i < n; i++) sum += f(i, "text", n, 4, 5, 6, 7, -8);
  return sum;
}
static __attribute__((noinline)) long tail(long a) { return passed(a, "tail", 0, 0, 0, 0, 0, 0); }
int main(int argc, char **argv) {
  (void)argc;
  /* The pointer comes as hexadecimal text. */
  word pointer = 0;
  for (const char *s = argv[1]; *s; s++) pointer = pointer * 16 + (word)(*s <= '9' ? *s - '0' : *s - 'a' + 10);
  passed = (callback)pointer;
  line("sum", (u64)apply(passed, 10));
  line("tail", (u64)tail(5));
  flush();
  return 0;
}
`;

for (const kind of ['le', 'be', '32'] as const) {
  describeWith([ppcGcc(kind)], `a C program on ${kind}`, () => {
    test.each(['0', '2'])('calls a function pointer that is a gate, at -O%s', (level) => {
      const source = writeSource('gate.c', SOURCE);
      const path = buildPpc(kind, level, [join(PROGRAMS, 'start.S'), source], ['-I', PROGRAMS]);
      // Gates are given addresses in order: the first function pointer is known before the program
      // starts.
      const pointer = kind === 'be' ? WINDOW + 8n : WINDOW;
      const here = startPpc(kind, path, [pointer.toString(16)]);
      const { machine } = here.process;
      const texts = new Set<string>();
      const negative = kind === '32' ? 0xffff_fff8n : 0xffff_ffff_ffff_fff8n;
      const gate = gatesOf(kind, machine).add((call) => {
        const text = new TextDecoder().decode(machine.memory.readCString(call.argument(1)) ?? undefined);
        texts.add(text);
        if (text === 'text') expect(call.argument(7)).toBe(negative);
        // Registers that a call may change are changed, others must survive.
        for (const name of ['r0', 'r4', 'r5', 'r6', 'r7', 'r8', 'r9', 'r10', 'r11', 'r12', 'ctr']) {
          call.setRegister(name, 0xdead_beefn);
        }
        return call.argument(0) * 3n;
      });
      expect(gate.pointer).toBe(pointer);
      expect(here.process.run()).toEqual({ kind: 'exit', code: 0 });
      expect(here.output()).toBe('sum 87\ntail f\n');
      expect([...texts]).toEqual(['text', 'tail']);
    });
  });
}

describe('host-callback-in-file (RT-12)', () => {
  test.each([
    'ppc64-elfv2-le/program-mprofile',
    'ppc32/program-mcount',
    'x86-64/core-fentry',
    'arm64/program-patchable-2',
  ])('%s: a plan that calls a gate is refused, one that calls beside it is not for that reason', (name) => {
    const { sites, image } = openBytes(readSample(name));
    const machine = ppcMachine('le', []);
    const gates = gatesOf('le', machine);
    const target = sites.ip(0) & ~0xfffn;
    const range = { start: target, end: target + 0x1000n };
    const inside = { kind: 'call', target: target + 0x10n } as const;
    const refused = planSites(sites, { to: inside, hostRanges: [gates.range, range] });
    expect(refused.selected).toBeGreaterThan(0);
    expect(refused.steps).toEqual([]);
    expect(refused.refusals).toHaveLength(refused.selected);
    for (const each of refused.refusals) {
      expect(each).toMatchObject({ code: 'host-callback-in-file', errno: 'EINVAL' });
    }
    expect(() => {
      checkAcceptance(refused, {});
    }).toThrow(/host-callback-in-file/);
    expect(applyPlan(image, refused).bytes.length).toBeGreaterThan(0);
    for (const ranges of [[gates.range], [{ start: range.end, end: range.end + 0x1000n }], []]) {
      const plan = planSites(sites, { to: inside, hostRanges: ranges });
      expect(plan.refusals.map((each) => each.code)).not.toContain('host-callback-in-file');
      expect(plan).toEqual(planSites(sites, { to: inside }));
    }
    const nops = planSites(sites, { to: { kind: 'nop' }, hostRanges: [range] });
    expect(nops.refusals.map((each) => each.code)).not.toContain('host-callback-in-file');
  });

  test.each(['le', 'be', '32'] as const)(
    '%s: words and branches that name a gate are found, with their places',
    (kind) => {
      const wordBytes = kind === '32' ? 4 : 8;
      const distance = Number(WINDOW - START);
      const lines: PpcLine[] = [
        add(3, 1),
        ['bl', { li: distance + 16 - 4 }],
        ['b', { li: 8 }],
        ['b', { li: distance - 12 }],
      ];
      const machine = ppcMachine(kind, lines);
      const { isa } = { le: ppc64ElfV2Le, be: ppc64ElfV1, 32: ppc32 }[kind];
      const gates = gatesOf(kind, machine);
      const first = gates.add(() => 0n);
      const second = gates.add(() => 0n);
      const DATA = 0x2_0000n;
      machine.writeWord(DATA + BigInt(3 * wordBytes), wordBytes, second.pointer);
      machine.writeWord(DATA + BigInt(5 * wordBytes), wordBytes, WINDOW - 1n);
      machine.writeWord(DATA + BigInt(6 * wordBytes), wordBytes, WINDOW + 0x1000n);
      const last = DATA + 0x1000n - BigInt(wordBytes);
      machine.writeWord(last, wordBytes, WINDOW + 0xfffn);
      const expected = [
        { kind: 'branch', address: START + 4n, gate: WINDOW + 16n },
        { kind: 'branch', address: START + 12n, gate: WINDOW },
        { kind: 'word', address: DATA + BigInt(3 * wordBytes), gate: second.pointer },
        { kind: 'word', address: last, gate: WINDOW + 0xfffn },
      ];
      expect(gates.referencesIn(machine.memory.save(), isa)).toEqual(expected);
      // Pieces as an edit of a file has them: any start, no permission.
      const piece = (address: bigint, size: number) => ({ address, bytes: machine.memory.read(address, size)! });
      expect(gates.referencesIn([piece(DATA + 3n, 0x100)], isa)).toEqual(expected.slice(2, 3));
      expect(gates.referencesIn([piece(DATA, 3 * wordBytes), piece(DATA + BigInt(4 * wordBytes), 64)], isa)).toEqual(
        [],
      );
      expect(gates.referencesIn([piece(START, 16)], isa)).toEqual([]);
      expect(gates.referencesIn([{ ...piece(START, 15), permission: 'rx' }], isa)).toEqual(expected.slice(0, 1));
      expect(gates.referencesIn([{ address: 0x5_0000n, bytes: new Uint8Array(3), permission: 'rx' }], isa)).toEqual([]);
      const error = errorOf(() => {
        gates.refuseReferences(machine.memory.save(), isa);
      });
      expect(error).toMatchObject({
        code: 'host-callback-in-file',
        context: { address: START + 4n, value: WINDOW + 16n },
      });
      expect(exitCodeOf(error)).toBe(1);
      // A gate that was taken away is as little in a file as one that lives.
      first.remove();
      expect(gates.referencesIn(machine.memory.save(), isa)).toHaveLength(4);
      gates.refuseReferences([piece(DATA, 3 * wordBytes)], isa);
    },
  );

  test('code of any alignment: an address in an instruction, a relative call', () => {
    const machine = new Machine({ lifter: { ...handLifter(new Map()), codeAlignBytes: 1 } });
    const abi: CallConvention = { argumentRegisters: [], resultRegister: 's0', linkRegister: 's1', stackPointer: 's7' };
    const gates = new Gates({ machine, abi, address: 0xf000n });
    // nop; movabs r11, 0xf010; call 0xf020; at 0x8003
    const bytes = Uint8Array.of(0x90, 0x49, 0xbb, 0x10, 0xf0, 0, 0, 0, 0, 0, 0, 0xe8, 0x0d, 0x70, 0, 0, 0x90);
    expect(gates.referencesIn([{ address: 0x8003n, bytes, permission: 'rx' }], x86_64.isa)).toEqual([
      { kind: 'word', address: 0x8006n, gate: 0xf010n },
      { kind: 'branch', address: 0x800en, gate: 0xf020n },
    ]);
  });
});
