/**
 * RISC-V semantics that no program under qemu-user shows: what is only named, counters, folded
 * pairs against single steps, code at borders of windows and fetch lines, `fence.i`, and
 * reservations of several CPUs.
 */
import { spawnSync } from './support/spawn.js';
import { describe, expect, test } from '@jest/globals';
import { riscv64 } from '../src/arch-riscv/index.js';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { frameRule } from '../src/arch-riscv/unwind.js';
import { Gates, runSchedule } from '../src/emulator/index.js';
import type { Lifter } from '../src/emulator/index.js';
import { buildProgram, RISCV_TARGETS, runHere, runQemu, scratch } from './support/c-programs.js';
import { PROGRAMS, writeSource } from './support/emulator.js';
import {
  A0,
  A1,
  A2,
  A4,
  accessBytes,
  encodes,
  executableRows,
  RA,
  riscvCode,
  T0,
  T1,
  ZERO,
} from './support/riscv-batch.js';
import type { RiscvLine } from './support/riscv-batch.js';
import { CODE, DATA, namedOnly, riscvMachine, stateOf } from './support/riscv-local.js';
import { random } from './support/riscv-tools.js';
import { describeWith } from './support/tools.js';
import { times } from './support/long.js';

const { emulation } = riscv64;
if (emulation.kind === 'none') throw new Error(emulation.reason);
const { lifter }: { lifter: Lifter } = emulation;

const nop: RiscvLine = ['addi', { rd: ZERO, rs1: ZERO, imm: 0 }];
const add1: RiscvLine = ['c.addi', { rd: A0, imm: 1 }];
const bytesOf = (word: number, size = 4): Uint8Array =>
  Uint8Array.from({ length: size }, (_, i) => (word >>> (8 * i)) & 255);

describe('what is not executed', () => {
  test('rows that are only named are those of supervisors, which stop as privileged', () => {
    for (const { word } of namedOnly()) {
      const machine = riscvMachine(bytesOf(word));
      const before = stateOf(machine);
      expect(machine.run()).toEqual({ kind: 'trap', trap: 'privileged', instruction: CODE });
      expect(stateOf(machine)).toBe(before);
      expect(machine.instructions).toBe(0);
    }
    expect(
      namedOnly()
        .map(({ mnemonic }) => mnemonic)
        .sort(),
    ).toEqual(['mret', 'sfence.vma', 'sret', 'wfi']);
  });

  test.each([
    ['a vector instruction', 0x0200_0057, 4],
    ['a reserved compressed one', 0x6001 | (0 << 7), 2],
    ['48 bits', 0x0000_001f, 6],
    ['64 bits', 0x0000_003f, 8],
    ['a length without meaning', 0xffff, 2],
  ])('%s is unknown, with all its bytes', (_name, word, size) => {
    const machine = riscvMachine(Uint8Array.of(...bytesOf(word), 0, 0, 0, 0, 0, 0));
    const stop = machine.run();
    expect(stop).toMatchObject({ kind: 'unknown-instruction', mnemonic: null, instruction: CODE });
    expect(stop.kind === 'unknown-instruction' && stop.bytes.length).toBe(size);
  });

  test('CSRs: of supervisors, read-only ones, those nobody knows', () => {
    const csr = (mnemonic: string, number: number, source: number, rd = A0): unknown => {
      const field = mnemonic.endsWith('i') ? 'zimm' : 'rs1';
      return riscvMachine([[mnemonic, { rd, csr: number, [field]: source }]]).run({ budget: 1 });
    };
    const sstatus = 0x100;
    const mhartid = 0xf14;
    for (const number of [sstatus, mhartid, 0x680]) {
      expect(csr('csrrs', number, ZERO)).toMatchObject({ kind: 'trap', trap: 'privileged' });
      expect(csr('csrrwi', number, 1)).toMatchObject({ kind: 'trap', trap: 'privileged' });
    }
    for (const number of [0xc00, 0xc01, 0xc02]) {
      for (const name of ['csrrw', 'csrrs', 'csrrc', 'csrrsi', 'csrrci']) {
        expect(csr(name, number, 1)).toMatchObject({ kind: 'trap', trap: 'invalid-form' });
      }
      expect(csr('csrrw', number, ZERO)).toMatchObject({ kind: 'trap', trap: 'invalid-form' });
      for (const name of ['csrrs', 'csrrc', 'csrrsi', 'csrrci']) {
        expect(csr(name, number, ZERO)).toEqual({ kind: 'step-limit' });
      }
    }
    // hpmcounter3, vl
    for (const number of [0xc03, 0xc20]) {
      expect(csr('csrrs', number, ZERO)).toMatchObject({ kind: 'unknown-instruction', mnemonic: 'csrrs' });
    }
  });
});

test('counters: instructions of the CPU, time of the machine', () => {
  const read = (csr: number, rd: number): RiscvLine => ['csrrs', { rd, csr, rs1: ZERO }];
  const lines: RiscvLine[] = [
    nop,
    nop,
    read(0xc02, A0),
    read(0xc00, A1),
    read(0xc01, A2),
    read(0xc02, ZERO),
    ['ebreak'],
  ];
  const machine = riscvMachine(lines);
  machine.addCpu();
  machine.switchTo(1);
  machine.setRegister('pc', CODE);
  machine.run({ budget: 2 });
  machine.switchTo(0);
  expect(machine.run()).toMatchObject({ kind: 'trap', trap: 'breakpoint' });
  expect([machine.register('a0'), machine.register('a1'), machine.register('a2')]).toEqual([2n, 3n, 6n]);
  expect(machine.register('fcsr')).toBe(0n);
});

// ----------------------------------------------------------------------------------------- folding

const terminatorOf = (lines: readonly RiscvLine[], address = CODE): unknown =>
  lifter.lift(riscvCode(lines), address, { maxInstructions: 64, startsAt: () => false }).terminator;

describe('address pairs', () => {
  const pair = (upper: number, rd: number, base: number, imm: number): RiscvLine[] => [
    ['auipc', { rd: base, upper }],
    ['jalr', { rd, rs1: base, imm }],
  ];

  test.each([
    [0x1000, 0, 0x1000n],
    [0x1000, -2048, 0x800n],
    [0, 0x7fe, 0x7fen],
    [-0x1000, 0x7fe, -0x802n],
    [0x7fff_f000, 0x7fe, 0x7fff_f7fen],
    [-0x8000_0000, -2048, -0x8000_0800n],
    [0x1234_5000, 0x679, 0x1234_5678n],
  ])('R-ENC-1: auipc %i, jalr %i is a direct call of +%s', (upper, imm, off) => {
    const at = 0x40_0000_0000n;
    const pc = BigInt.asUintN(64, at + off);
    expect(terminatorOf(pair(upper, RA, RA, imm), at)).toEqual({ kind: 'call', pc, ret: at + 8n });
    expect(terminatorOf(pair(upper, T0, T0, imm), at)).toEqual({ kind: 'call', pc, ret: at + 8n });
    expect(terminatorOf(pair(upper, ZERO, T1, imm), at)).toEqual({ kind: 'jmp', pc });
    const machine = riscvMachine(pair(upper, RA, T1, imm), at);
    machine.run({ budget: 2 });
    expect([machine.pc, machine.register('ra'), machine.register('t1')]).toEqual([
      pc, at + 8n, BigInt.asUintN(64, at + BigInt(upper)),
    ]); // prettier-ignore
  });

  test('lui with jalr, a sum of constants, and what is in between', () => {
    const lui: RiscvLine = ['lui', { rd: T1, upper: 0x12000 }];
    expect(terminatorOf([lui, ['jalr', { rd: ZERO, rs1: T1, imm: 4 }]])).toEqual({ kind: 'jmp', pc: 0x1_2004n });
    const sum: RiscvLine[] = [lui, ['addiw', { rd: T1, rs1: T1, imm: -16 }], ['slli', { rd: T0, rs1: T1, shamt: 4 }]];
    expect(terminatorOf([...sum, ['c.jr', { rs1: T0 }]])).toEqual({ kind: 'jmp', pc: 0x11_ff00n });
    // The register is written by something else: not known any more.
    for (const other of [
      ['ld', { rd: T1, rs1: A4, imm: 0 }],
      ['sub', { rd: T1, rs1: T1, rs2: A0 }],
      ['lr.d', { rd: T1, rs1: A4, aq: 0, rl: 0 }],
    ] as const) {
      expect(terminatorOf([lui, other, ['jalr', { rd: ZERO, rs1: T1, imm: 4 }]])).toMatchObject({ kind: 'ind' });
    }
    expect(terminatorOf([['jalr', { rd: RA, rs1: RA, imm: 0 }]])).toMatchObject({ kind: 'calli' });
    expect(terminatorOf([['c.jr', { rs1: RA }]])).toMatchObject({ kind: 'ret' });
    expect(terminatorOf([['c.jr', { rs1: T0 }]])).toMatchObject({ kind: 'ret' });
    expect(terminatorOf([['c.jr', { rs1: T1 }]])).toMatchObject({ kind: 'ind' });
  });
});

/** Those that are folded or joined come more often. */
const FREQUENT = [
  'lui',
  'auipc',
  'addi',
  'addiw',
  'slli',
  'c.slli',
  'srli',
  'c.srli',
  'srai',
  'add',
  'c.add',
  'c.li',
  'c.mv',
  'add.uw',
  'addiw',
  'addw',
  'xor',
  'or',
  'and',
];
const LOADS = ['lb', 'lbu', 'lh', 'lhu', 'lw', 'lwu', 'ld'];
const REGISTERS = [ZERO, A0, A1, A2, T0];
const SHIFTS = [1, 2, 3, 4, 30, 31, 32, 33, 48, 56, 61, 62, 63];

/** One of the rows, with operands that meet: few registers, shifts at borders. */
function randomLine(next: () => number, rows: readonly ReturnType<typeof riscvTable.row>[]): RiscvLine {
  for (;;) {
    // Words that are extended again, and what is no word.
    const rd = REGISTERS[next() % REGISTERS.length]!;
    const kind = next() % 8;
    if (kind === 0) return [LOADS[next() % LOADS.length]!, { rd, rs1: A4, imm: 8 * (next() % 8) }];
    if (kind === 1) return ['addiw', { rd, rs1: REGISTERS[next() % REGISTERS.length]!, imm: 0 }];
    const row = next() % 3 === 0 ? rows[next() % rows.length]! : riscvTable.row(FREQUENT[next() % FREQUENT.length]!);
    const operands: Record<string, number> = {};
    for (const field of row.fields) {
      const step = 2 ** field.lowBit;
      const span = 2 ** field.widthBits;
      if (field.spec.kind === 'register') operands[field.name] = REGISTERS[next() % REGISTERS.length]!;
      else if (field.name === 'shamt') operands['shamt'] = SHIFTS[next() % SHIFTS.length]! % span;
      else operands[field.name] = (next() % (span / step)) * step - (field.signed ? span / 2 : 0);
    }
    if (encodes(row, operands)) return [row.mnemonic, operands];
  }
}

test('random straight-line code: a run gives what single steps give, with the same values at every instruction', () => {
  const next = random(20261121);
  const rows = executableRows().filter(
    (row) => accessBytes(row) === 0 && row.flow === 'next' && !/^(csr|fence|pause|f)/.test(row.mnemonic),
  );
  const data = Uint8Array.from({ length: 64 }, () => next() & 255);
  let instructions = 0;
  const programs = times(250, 250, 30);
  for (let i = 0; i < programs; i++) {
    const lines = Array.from({ length: 30 }, () => randomLine(next, rows));
    const [whole, stepped] = [riscvMachine([...lines, ['ebreak']]), riscvMachine([...lines, ['ebreak']])];
    const cut = riscvMachine([...lines, ['ebreak']]);
    const value = BigInt(next()) << BigInt(next() % 33);
    for (const machine of [whole, stepped, cut]) {
      machine.setRegister('a2', value);
      machine.setRegister('a4', DATA);
      machine.load(DATA, data, { permission: 'r', size: 0x1000 });
    }
    expect(whole.run().kind).toBe('trap');
    while (stepped.step().kind === 'step-limit');
    cut.run({ budget: next() % 30 });
    cut.run();
    expect(`${i} ${stateOf(whole)}`).toBe(`${i} ${stateOf(stepped)}`);
    expect(stateOf(cut)).toBe(stateOf(whole));
    instructions += lines.length;
  }
  expect(instructions).toBe(30 * programs);
});

// --------------------------------------------------------------------------------- borders of code

describe('code at borders', () => {
  /** 4-byte instruction at 2 bytes before the border. */
  const straddling = [nop, ['addi', { rd: A0, rs1: ZERO, imm: 0x155 }], ['ebreak']] as const;
  const code = riscvCode(straddling);

  test('an instruction across two windows', () => {
    const start = CODE + 0x1000n - 6n;
    const machine = riscvMachine([nop], 0x8_0000n);
    machine.map({ address: CODE, size: 0x1000, permission: 'rx' });
    machine.memory.write(start, code.subarray(0, 6));
    machine.setRegister('pc', start);
    const before = machine.register('a0');
    // The second half is not there, or not executable.
    for (const permission of ['none', 'rw'] as const) {
      if (permission === 'rw') machine.map({ address: CODE + 0x1000n, size: 0x1000, permission });
      expect(machine.run()).toEqual({
        kind: 'fault', access: 'execute', address: CODE + 0x1000n, instruction: CODE + 0xffen,
      }); // prettier-ignore
      expect([machine.register('a0'), machine.instructions]).toEqual([before, 1]);
    }
    machine.memory.unmap(CODE + 0x1000n, 0x1000);
    machine.map({ address: CODE + 0x1000n, size: 0x1000, permission: 'rwx' });
    machine.memory.write(CODE + 0x1000n, code.subarray(6));
    expect(machine.run()).toMatchObject({ kind: 'trap', trap: 'breakpoint', instruction: CODE + 0x1002n });
    expect(machine.register('a0')).toBe(0x155n);
    // A change of either half is seen.
    // bits 3..0 of the immediate
    machine.memory.write(CODE + 0x1000n, Uint8Array.of(0x60));
    machine.setRegister('pc', start);
    machine.run();
    expect(machine.register('a0')).toBe(0x156n);
  });

  test('hooks at 2-byte boundaries, and budgets that end there', () => {
    const lines: RiscvLine[] = [add1, ['addi', { rd: A0, rs1: A0, imm: 16 }], add1, add1, ['ebreak']];
    const machine = riscvMachine(lines);
    machine.setRegister('a0', 0n);
    const seen: string[] = [];
    for (const at of [2n, 6n, 8n]) {
      machine.hook(CODE + at, (each) => {
        seen.push(`${at}:${each.register('a0')}`);
        return 'continue';
      });
    }
    machine.run();
    expect(seen).toEqual(['2:1', '6:17', '8:18']);
    for (let budget = 0; budget < 4; budget++) {
      machine.setRegister('pc', CODE);
      machine.run({ budget });
      expect(machine.pc).toBe(CODE + [0n, 2n, 6n, 8n][budget]!);
    }
  });

  test('a jump into the middle of an instruction executes what stands there', () => {
    // addi a0,a0,imm whose upper half is c.addi a0,1
    const word = ((0x0505 << 16) | riscvTable.encode('addi', { rd: A0, rs1: A0, imm: 0 })) >>> 0;
    const machine = riscvMachine(Uint8Array.of(...bytesOf(word), ...riscvCode([['ebreak']])));
    machine.setRegister('a0', 5n);
    machine.setRegister('pc', CODE + 2n);
    expect(machine.run()).toMatchObject({ kind: 'trap', instruction: CODE + 4n });
    expect(machine.register('a0')).toBe(6n);
  });
});

describe('F-7: what a CPU has fetched', () => {
  const START = CODE + 0x3en - 4n;
  /** nop; a 4-byte instruction across the line's end; back. The other CPU or a patcher writes. */
  const lines: RiscvLine[] = [nop, ['addi', { rd: A0, rs1: A0, imm: 1 }], ['jal', { rd: ZERO, off: -8 }]];

  const make = (): ReturnType<typeof riscvMachine> => {
    const machine = riscvMachine([nop], 0x8_0000n, { fetch: 'buffered' });
    machine.map({ address: CODE, size: 0x1000, permission: 'rwx' });
    machine.memory.write(START, riscvCode(lines));
    machine.setRegister('pc', START);
    machine.setRegister('a0', 0n);
    return machine;
  };
  /** addi a0,a0,imm: the lower half holds the opcode and rd, the upper one the immediate. */
  const word = (rd: number, imm: number): bigint => BigInt(riscvTable.encode('addi', { rd, rs1: A0, imm }));

  test('a 4-byte instruction across two lines is seen half old, half new', () => {
    const machine = make();
    // Only the first line is fetched: up to the nop.
    machine.run({ budget: 1 });
    machine.memory.write(CODE + 0x3en, bytesOf(Number(word(A1, 0x70))));
    machine.setRegister('a1', 0n);
    machine.run({ budget: 1 });
    // rd of the old half, immediate of the new one
    expect([machine.register('a0'), machine.register('a1')]).toEqual([0x70n, 0n]);
    expect(machine.staleLines()).toEqual([CODE]);
    machine.synchronise();
    machine.run({ budget: 3 });
    expect(machine.register('a1')).toBe(0xe0n);
  });

  test('neither half changes once both lines are fetched, and what follows in the second line is fetched by executing', () => {
    const machine = make();
    machine.run({ budget: 2 });
    machine.memory.write(CODE + 0x3en, bytesOf(Number(word(A1, 0x70))));
    machine.run({ budget: 3 });
    expect(machine.register('a0')).toBe(2n);
    expect(machine.staleLines()).toEqual([CODE, CODE + 0x40n]);
  });

  test('H10: fence.i fetches anew, jumps, fences and atomics do not', () => {
    const body = (extra: RiscvLine[]): RiscvLine[] => [...extra, ['addi', { rd: A0, rs1: A0, imm: 1 }], ['ebreak']];
    for (const [extra, fetches] of [
      [[['fence.i']], true],
      [[nop], false],
      [[['fence', { pred: 15, succ: 15 }]], false],
      [[['fence.tso']], false],
      [[['jal', { rd: ZERO, off: 4 }]], false],
      [[['lr.w', { rd: T0, rs1: A4, aq: 1, rl: 1 }]], false],
    ] as const) {
      const machine = riscvMachine(body([...extra]), CODE, { fetch: 'buffered' });
      machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
      machine.setRegister('a4', DATA);
      // Everything is executed once: the line is fetched. A trap synchronises, so the CPU stops in
      // front of it.
      machine.run({ budget: 2 });
      machine.setRegister('pc', CODE);
      machine.setRegister('a0', 0n);
      machine.memory.write(CODE + 4n, bytesOf(riscvTable.encode('addi', { rd: A0, rs1: A0, imm: 100 })));
      machine.run({ budget: 2 });
      expect([extra[0]![0], machine.register('a0')]).toEqual([extra[0]![0], fetches ? 100n : 1n]);
    }
  });

  test('H2: two stores of a pair against every place of the victim: a wild jump where it stands between them', () => {
    // G2 site: two nops become auipc t0, jalr t0 while a CPU runs through them.
    const site: RiscvLine[] = [nop, nop, add1, ['jal', { rd: ZERO, off: -10 }]];
    const on = [
      riscvTable.encode('auipc', { rd: T0, upper: 0 }),
      riscvTable.encode('jalr', { rd: T0, rs1: T0, imm: 0x100 }),
    ];
    const outcomes = new Map<string, number>();
    for (let before = 0; before < 5; before++) {
      for (let between = 0; between < 5; between++) {
        const machine = riscvMachine(site, CODE);
        machine.memory.write(
          CODE + 0x100n,
          riscvCode([
            ['c.addi', { rd: A1, imm: 1 }],
            ['c.jr', { rs1: T0 }],
          ]),
        );
        machine.addCpu();
        machine.switchTo(1);
        machine.setRegister('pc', CODE);
        machine.setRegister('t0', 0xdead_0000n);
        runSchedule(machine, [
          { kind: 'run', cpu: 1, instructions: before },
          { kind: 'store', address: CODE, width: 4, value: BigInt(on[0]!) },
          { kind: 'run', cpu: 1, instructions: between },
          { kind: 'store', address: CODE + 4n, width: 4, value: BigInt(on[1]!) },
        ]);
        machine.switchTo(1);
        const stop = machine.run({ budget: 20 });
        const what =
          stop.kind === 'fault'
            ? `wild 0x${stop.address.toString(16)}`
            : machine.register('a1') > 0n
              ? 'traced'
              : stop.kind;
        outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
      }
    }
    // Wild exactly where the first word is executed as a nop and the second as the call: 25
    // schedules in all.
    expect([...outcomes.values()].reduce((sum, each) => sum + each, 0)).toBe(25);
    expect([...outcomes.keys()].sort()).toEqual(['traced', 'wild 0xdead0100']);
  });
});

// ------------------------------------------------------------------------------------ reservations

describe('reservations', () => {
  const lr: RiscvLine = ['lr.d', { rd: T0, rs1: A4, aq: 0, rl: 0 }];
  const sc: RiscvLine = ['sc.d', { rd: A0, rs2: A1, rs1: A4, aq: 0, rl: 0 }];
  const make = (lines: RiscvLine[]): ReturnType<typeof riscvMachine> => {
    const machine = riscvMachine(lines);
    machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
    machine.setRegister('a4', DATA + 0x80n);
    machine.setRegister('a1', 7n);
    return machine;
  };

  test.each([
    ['nothing', null, 0n],
    ['a store of the host to the same word', 0x80n, 1n],
    ['one to the end of the same 64 bytes', 0xbcn, 1n],
    ['one behind them', 0xc0n, 0n],
    ['one in front of them', 0x78n, 0n],
  ])('between lr and sc: %s', (_name, place, result) => {
    const machine = make([lr, sc]);
    machine.run({ budget: 1 });
    if (place !== null) machine.writeWord(DATA + place, 4, 0x55n);
    machine.run({ budget: 1 });
    expect(machine.register('a0')).toBe(result);
    expect(machine.readWord(DATA + 0x80n, 8)).toBe(result === 0n ? 7n : place === 0x80n ? 0x55n : 0n);
  });

  test('another CPU: a store that changes the granule, or an AMO, breaks it; one that changes nothing does not', () => {
    const other: readonly (readonly [RiscvLine, bigint])[] = [
      [['sb', { rs2: A1, rs1: A4, imm: 32 }], 1n],
      [['amoadd.w', { rd: T0, rs2: A1, rs1: A4, aq: 1, rl: 1 }], 1n],
      [['amoor.d', { rd: T0, rs2: ZERO, rs1: A4, aq: 1, rl: 1 }], 0n],
      [['sd', { rs2: ZERO, rs1: A4, imm: 0 }], 0n],
      [['sb', { rs2: A1, rs1: A4, imm: 64 }], 0n],
    ];
    for (const [line, result] of other) {
      const machine = make([lr, sc, line]);
      machine.addCpu();
      machine.run({ budget: 1 });
      machine.switchTo(1);
      machine.setRegister('pc', CODE + 8n);
      machine.setRegister('a4', DATA + 0x80n);
      machine.setRegister('a1', 7n);
      machine.run({ budget: 1 });
      machine.switchTo(0);
      machine.run({ budget: 1 });
      expect([line[0], machine.register('a0')]).toEqual([line[0], result]);
    }
  });

  test('two CPUs that increment with lr and sc, at every interleaving of two rounds', () => {
    const loop: RiscvLine[] = [
      lr,
      ['addi', { rd: A1, rs1: T0, imm: 1 }],
      sc,
      ['bne', { rs1: A0, rs2: ZERO, off: -12 }],
      ['jal', { rd: ZERO, off: 0 }],
    ];
    let schedules = 0;
    for (let code = 0; code < 1 << 10; code++) {
      const machine = make(loop);
      machine.addCpu();
      machine.switchTo(1);
      machine.setRegister('pc', CODE);
      machine.setRegister('a4', DATA + 0x80n);
      for (let i = 0; i < 10; i++) {
        machine.switchTo((code >> i) & 1);
        machine.step();
      }
      for (const cpu of [0, 1]) {
        machine.switchTo(cpu);
        machine.run({ budget: 30 });
      }
      expect(machine.readWord(DATA + 0x80n, 8)).toBe(2n);
      schedules++;
    }
    expect(schedules).toBe(1024);
  });
});

// ------------------------------------------------------------------------------------------- gates

test('gates: a tail call of a TypeScript function, and calls from outside', () => {
  const lines: RiscvLine[] = [
    ['c.mv', { rd: T1, rs2: A2 }],
    ['c.li', { rd: A0, imm: 20 }],
    ['c.li', { rd: A1, imm: 22 }],
    ['c.jr', { rs1: T1 }],
  ];
  const machine = riscvMachine(lines);
  machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
  machine.setRegister('sp', DATA + 0x1000n);
  const gates = new Gates({ machine, abi: riscv64.abi, address: 0x3_f000n });
  const gate = gates.add((call) => call.argument(0) * 100n + call.argument(1));
  expect(gates.call(CODE, [0n, 0n, gate.pointer])).toEqual({ kind: 'returned', value: 2022n });
});

// ----------------------------------------------------------------------------------------- callers

describe('frames read from prologues', () => {
  const rule = (lines: RiscvLine[]): unknown => frameRule(riscvCode(lines));
  const SP = 2;
  const S0 = 8;
  const enter: RiscvLine[] = [
    ['c.addi16sp', { imm: -32 }],
    ['c.sdsp', { rs2: RA, uimm: 24 }],
    ['c.sdsp', { rs2: S0, uimm: 16 }],
  ];
  const leave: RiscvLine[] = [
    ['c.ldsp', { rd: RA, uimm: 24 }],
    ['c.ldsp', { rd: S0, uimm: 16 }],
    ['c.addi16sp', { imm: 32 }],
    ['c.jr', { rs1: RA }],
  ];
  const stack = (offset: number): object => ({ register: 'stack', offset });
  const body = { cfa: stack(32), link: -8, framePointer: -16 };

  test('step by step', () => {
    expect(rule([])).toEqual({ cfa: stack(0), link: null, framePointer: null });
    expect(rule(enter.slice(0, 1))).toEqual({ cfa: stack(32), link: null, framePointer: null });
    expect(rule(enter.slice(0, 2))).toEqual({ cfa: stack(32), link: -8, framePointer: null });
    expect(rule(enter)).toEqual(body);
    expect(rule([...enter, ...leave.slice(0, 1)])).toEqual({ ...body, link: null });
    expect(rule([...enter, ...leave.slice(0, 3)])).toEqual({ cfa: stack(0), link: null, framePointer: null });
    // Behind the return comes another part of the body.
    expect(rule([...enter, ...leave, nop])).toEqual(body);
  });

  test('a branch over the frame keeps what held at the branch', () => {
    const all = [...enter, ...leave];
    const size = riscvCode(all).length;
    expect(rule([['beq', { rs1: A0, rs2: ZERO, off: 4 + size }], ...all])).toEqual({
      cfa: stack(0), link: null, framePointer: null,
    }); // prettier-ignore
  });

  test('frame pointers, large frames, stack pointers that move by what nobody knows', () => {
    const pointer: RiscvLine = ['addi', { rd: S0, rs1: SP, imm: 32 }];
    const alloca: RiscvLine = ['sub', { rd: SP, rs1: SP, rs2: A0 }];
    expect(rule([...enter, pointer, alloca])).toEqual({ ...body, cfa: { register: 'frame', offset: 0 } });
    expect(rule([...enter, alloca])).toBeNull();
    const large: RiscvLine[] = [
      ['lui', { rd: T0, upper: -0x10000 }],
      ['addi', { rd: T0, rs1: T0, imm: 16 }],
      ['c.add', { rd: SP, rs2: T0 }],
    ];
    expect(rule([...enter, ...large])).toEqual({ ...body, cfa: stack(32 + 0x10000 - 16) });
    // s0 as an ordinary register
    expect(rule([...enter, ['addi', { rd: S0, rs1: SP, imm: 8 }]])).toEqual(body);
    expect(rule([...enter, pointer, ['c.mv', { rd: S0, rs2: A0 }]])).toEqual(body);
  });
});

// --------------------------------------------------------------------------------------- processes

const [GC] = RISCV_TARGETS;

describeWith([GC!.gcc, GC!.qemu], 'processes', () => {
  const SYSTEM = `
#include "lib.h"
struct action { void (*handler)(int); word flags; u64 mask; };
static void handler(int n) { (void)n; }
int main(int argc, char **argv, char **envp) {
  char *heap = (char *)sys(214, 0L);
  line("brk", (char *)sys(214, heap + 300000) == heap + 300000);
  for (int i = 0; i < 300000; i += 1000) heap[i] = (char)i;
  u8 *a = (u8 *)sys(222, 0L, 10000L, 3L, 0x22L, -1L, 0L);
  a[9999] = 1;
  line("mmap", a[9999] == 1 && a[0] == 0);
  line("mprotect", (u64)sys(226, a, 4096L, 1L));
  line("munmap", (u64)sys(215, a, 10000L));
  line("badfd", (u64)sys(64, 17L, heap, 1L));
  line("badptr", (u64)sys(64, 1L, 16L, 1L));
  line("enosys", (u64)sys(2000));
  struct { const void *p; word n; } v[2] = {{"write", 5}, {"v\\n", 2}};
  flush();
  line("writev", (u64)sys(66, 1L, v, 2L));
  /* The kernel's structure has no restorer: what lies behind it stays. */
  struct { struct action action; u64 guard; } now = {{handler, 0x10000000, 5}, 77}, old = {{0, 0, 0}, 99};
  line("set", (u64)sys(134, 10L, &now.action, 0L, 8L));
  line("get", (u64)sys(134, 10L, 0L, &old.action, 8L));
  line("kept", old.action.handler == handler && old.action.flags == 0x10000000 && old.action.mask == 5);
  line("guard", old.guard);
  word *aux = (word *)envp;
  while (*aux) aux++;
  u64 page = 0, entry = 0, random = 0;
  for (aux++; *aux; aux += 2) {
    if (aux[0] == 6) page = aux[1];
    if (aux[0] == 9) entry = aux[1] != 0;
    if (aux[0] == 25) random = aux[1] != 0;
  }
  line("page", page);
  line("entry", entry);
  line("random", random);
  line("aligned", ((word)argv - sizeof(word)) % 16);
  u8 stat[128];
  line("fstat", (u64)sys(80, 99L, stat));
  line("statat", (u64)sys(79, -100L, "/nothing/here", stat, 0L));
  flush();
  return argc;
}
`;

  test('system calls, auxiliary vector, struct sigaction as under qemu', () => {
    const path = buildProgram(GC!, '2', [writeSource('system-riscv.c', SYSTEM)], ['-I', PROGRAMS]);
    const expected = runQemu(GC!, path);
    const here = runHere(GC!, path);
    // qemu 7.2 writes a restorer, which Linux's structure has not on this machine (no SA_RESTORER
    // in asm-generic/signal.h).
    const guard = /^guard .*\n/m;
    expect(here.output.replace(guard, '')).toBe(expected.output.replace(guard, ''));
    expect(here.output).toContain('kept 1\nguard 63\n');
    expect(here.end).toBe(expected.end);
  });

  test('code that the program writes itself: fence.i or the system call, then the call', () => {
    const source = writeSource(
      'patching-riscv.c',
      `#include "lib.h"
       int main(void) {
         u32 *code = (u32 *)sys(222, 0L, 4096L, 7L, 0x22L, -1L, 0L);
         u64 sum = 0;
         for (u32 i = 0; i < 50; i++) {
           code[0] = 0x00000513u | i << 20; /* li a0,i */
           code[1] = 0x00008067u;
           __asm__ volatile("fence.i" ::: "memory");
           sum = sum * 3 + ((u64 (*)(void))code)();
         }
         line("sum", sum);
         flush();
         return 0;
       }`,
    );
    const path = buildProgram(GC!, '2', [source], ['-I', PROGRAMS]);
    const expected = runQemu(GC!, path);
    expect(runHere(GC!, path)).toMatchObject(expected);
    expect(expected.end).toBe(0);
  });

  test('a static program of glibc runs as under qemu', () => {
    const source = writeSource(
      'hello-riscv.c',
      `#include <stdio.h>
       #include <stdlib.h>
       #include <string.h>
       static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
       int main(int argc, char **argv) {
         int v[200];
         unsigned s = 1;
         for (int i = 0; i < 200; i++) v[i] = (s = s * 1103515245u + 12345) >> 16 & 0x7fff;
         qsort(v, 200, sizeof *v, order);
         for (int i = 0; i < 200; i += 20) printf("%d %#x %5u|%-8d|%lld\\n", v[i], v[i], v[i], v[i], 123456789012345LL * v[i]);
         char *p = malloc(100000), text[64];
         memset(p, 'x', 99999);
         p[99999] = 0;
         snprintf(text, sizeof text, "%08lx-%s-%zu", 0xdeadbeefL, "tail", strlen(p));
         puts(text);
         fflush(stdout);
         if (argc > 1) printf("%.3f\\n", argc * 1.5);
         return (int)strtol("42", 0, 10);
       }`,
    );
    const path = scratch('hello-riscv');
    const made = spawnSync(GC!.gcc, ['-O2', '-static', '-o', path, source], { encoding: 'utf8' });
    if (made.status !== 0) {
      process.stderr.write(`no static C library for ${GC!.gcc}: hello not run\n`);
      return;
    }
    for (const args of [[], ['x']]) {
      const expected = runQemu(GC!, path, { args });
      expect(runHere(GC!, path, { args })).toMatchObject(expected);
      expect(expected).toMatchObject({ end: 42 });
    }
  });
});
