/**
 * The x86-64 machine: status flags, instruction fetch (own stores at once, those of others after
 * serialising; F-7), torn instructions, repeated strings, helpers, static programs of
 * glibc, and what `run` offers on the samples.
 */
import { repeats, times } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { x86_64 } from '../src/arch-x86/index.js';
import { x86Lifter } from '../src/arch-x86/lift.js';
import { recordCode } from '../src/machine/ir.js';
import { FLAG_FAMILIES, FLAG_ROTATED, flagBits, type FlagKind } from '../src/machine/status-flags.js';
import { Gates, Machine, runSchedule } from '../src/emulator/index.js';
import { backtrace } from '../src/guest/index.js';
import type { FetchMode, PatcherStep, ScheduleStep } from '../src/emulator/index.js';
import { readElf } from '../src/elf/read.js';
import { PROGRAMS, writeSource } from './support/emulator.js';
import { runHere, runQemu, scratch, startHere, X86_TARGETS } from './support/c-programs.js';
import { builtSamples } from './support/pipeline.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { describeWith, runProgramFile } from './support/tools.js';
import { interleavings } from './support/interleavings.js';

const START = 0x1_0000n;
const DATA = 0x2_0000n;

function machineOf(
  code: readonly number[],
  options: { fetch?: FetchMode; cpus?: number; permission?: 'rx' | 'rwx' } = {},
): Machine {
  const machine = new Machine({ lifter: x86Lifter, fetch: options.fetch ?? 'coherent' });
  machine.load(START, Uint8Array.from(code), { permission: options.permission ?? 'rx', size: 0x2000 });
  machine.map({ address: DATA, size: 0x1000, permission: 'rw' });
  while (machine.cpuCount < (options.cpus ?? 1)) machine.addCpu();
  for (let cpu = machine.cpuCount - 1; cpu >= 0; cpu--) {
    machine.switchTo(cpu);
    machine.setRegister('pc', START);
    machine.setRegister('rsp', DATA + 0x1000n);
  }
  return machine;
}

describe('status flags', () => {
  const K = x86Lifter.slots.slot('k');
  const kinds = FLAG_FAMILIES.flatMap((family) =>
    ([8, 16, 32, 64] as const).map((width): FlagKind => `${family}${width}`),
  );
  const value = fc.oneof(
    fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
    fc.constantFrom(
      0n,
      1n,
      0x7fn,
      0x80n,
      0xffn,
      0x7fffn,
      0x8000n,
      0x7fff_ffffn,
      0x8000_0000n,
      1n << 63n,
      (1n << 63n) - 1n,
      (1n << 64n) - 1n,
    ),
  );

  test('the generated function, TypeScript and the conditions agree for every kind', () => {
    // pushfq; pop rax; then seto, setb, sete, setbe, sets, setp, setl, setle into the bytes at
    // (rdi)
    const set = [0, 2, 4, 6, 8, 10, 12, 14].flatMap((cc, i) => [0x0f, 0x90 + cc, 0x47, i]);
    const machine = machineOf([0x9c, 0x58, ...set, 0x0f, 0x0b]);
    fc.assert(
      fc.property(
        fc.constantFrom<FlagKind | 'bits'>(...kinds, 'bits'),
        fc.boolean(),
        value,
        value,
        value,
        (kind, rotated, a, b, c) => {
          const code = BigInt(recordCode(kind) | (rotated ? FLAG_ROTATED : 0));
          machine.setRegister('pc', START);
          machine.setRegister('rdi', DATA);
          [code, a, b, c].forEach((each, i) => {
            machine.setSlot(K + i, each);
          });
          const flags = flagBits(code, a, b, c);
          expect(machine.register('rflags')).toBe(flags | 0x202n);
          expect(machine.run()).toMatchObject({ kind: 'trap', trap: 'undefined-instruction' });
          expect(machine.register('rax')).toBe(flags | 0x202n);
          const bit = (place: bigint): number => Number((flags >> place) & 1n);
          const [cf, pf, zf, sf, of] = [bit(0n), bit(2n), bit(6n), bit(7n), bit(11n)];
          expect([...machine.memory.read(DATA, 8)!]).toEqual([of, cf, zf, cf | zf, sf, pf, sf ^ of, (sf ^ of) | zf]);
        },
      ),
      { seed: 5, numRuns: times(3000, 1000) },
    );
  });

  test('rflags is what was written, as far as a program can set it', () => {
    const machine = machineOf([0x90]);
    machine.setRegister('rflags', 0xffff_ffffn);
    expect(machine.register('rflags')).toBe(0x24_4ed7n);
    machine.setRegister('rflags', 0n);
    expect(machine.register('rflags')).toBe(0x202n);
  });

  test('flags are exact at a fault in the middle of a block', () => {
    // cmp eax,ebx; mov ecx,(rsi) faults
    const machine = machineOf([0x39, 0xd8, 0x8b, 0x0e, 0x31, 0xc0]);
    machine.setRegister('rax', 1n);
    machine.setRegister('rbx', 2n);
    expect(machine.run()).toMatchObject({ kind: 'fault', address: 0n });
    expect(machine.register('rflags')).toBe(0x297n);
    expect(machine.instructions).toBe(1);
  });
});

// ------------------------------------------------------------------------------------------- fetch

/** A nop of five bytes that a call may replace; inc ecx; back to the nop. */
const BODY = [0x0f, 0x1f, 0x44, 0x00, 0x00, 0xff, 0xc1, 0xeb, 0xf7];
const runs = (cpu: number, instructions: number): ScheduleStep => ({ kind: 'run', cpu, instructions });
const store = (address: bigint, width: 1 | 2 | 4 | 8, value: bigint): PatcherStep => ({
  kind: 'store',
  address,
  width,
  value,
});

describe('instruction fetch', () => {
  /**
   * mov byte $0x90,(rdi); then what rdi names: inc eax (2 bytes, ff c0) becomes nop with rax
   * untouched.
   */
  const selfModifying = [0xc6, 0x07, 0x90, 0xc6, 0x47, 0x01, 0x90, 0xff, 0xc0, 0x0f, 0x0b];

  test.each(['coherent', 'buffered'] as const)('a CPU sees its own store at the next instruction (%s)', (fetch) => {
    const machine = machineOf(selfModifying, { fetch, permission: 'rwx' });
    machine.setRegister('rdi', START + 7n);
    expect(machine.run()).toMatchObject({ kind: 'trap', trap: 'undefined-instruction' });
    expect(machine.register('rax')).toBe(0n);
    expect(machine.instructions).toBe(4);
  });

  test('the same when it had executed the line before, and kept old bytes of another CPU there', () => {
    const machine = machineOf([...selfModifying.slice(0, -2), 0xeb, 0xf5], {
      fetch: 'buffered',
      cpus: 2,
      permission: 'rwx',
    });
    for (const cpu of [0, 1]) {
      machine.switchTo(cpu);
      machine.setRegister('rdi', DATA);
    }
    runSchedule(machine, [runs(1, 12)]);
    machine.switchTo(1);
    expect(machine.register('rax')).toBe(3n);
    // dec eax by somebody else: not seen.
    runSchedule(machine, [store(START + 7n, 2, 0xc8ffn), runs(1, 4)]);
    expect(machine.register('rax')).toBe(4n);
    expect(machine.staleLines(1)).toEqual([START]);
    machine.setRegister('rdi', START + 7n);
    machine.run({ budget: 5 });
    expect(machine.register('rax')).toBe(4n);
    expect(machine.staleLines(1)).toEqual([]);
  });

  test('H10: another CPU goes on with the old bytes until it serialises; mfence and syscall do not', () => {
    const patch = store(START, 4, 0xfbe8n); // call START + 0x100
    const tracer = [0x49, 0xff, 0xc1, 0xc3]; // inc r9; ret
    for (const [name, bytes, sees] of [
      ['nop', [0x0f, 0x1f, 0x00], false],
      ['mfence', [0x0f, 0xae, 0xf0], false],
      ['lfence', [0x0f, 0xae, 0xe8], false],
      ['cpuid', [0x0f, 0xa2], true],
      ['serialize', [0x0f, 0x01, 0xe8], true],
    ] as const) {
      // call site; fence; jump back
      const back = 5 + bytes.length + 2;
      const code = [0x0f, 0x1f, 0x44, 0x00, 0x00, ...bytes, 0xeb, 256 - back];
      const machine = machineOf(code, { fetch: 'buffered', cpus: 2 });
      machine.memory.write(START + 0x100n, Uint8Array.from(tracer));
      runSchedule(machine, [runs(1, 9), patch, store(START + 4n, 1, 0n), runs(1, 30)]);
      machine.switchTo(1);
      expect([name, machine.register('r9') > 0n]).toEqual([name, sees]);
      runSchedule(machine, [{ kind: 'synchronise', cpu: 1 }, runs(1, 30)]);
      expect([name, machine.register('r9') > 0n]).toEqual([name, true]);
    }
  });

  test('int3 is an exception: the CPU that took it fetches anew', () => {
    const machine = machineOf([0xcc, 0xff, 0xc0, 0x0f, 0x0b], { fetch: 'buffered', cpus: 2 });
    machine.switchTo(1);
    // Executed once past the breakpoint, so that the line is fetched.
    machine.setRegister('pc', START + 1n);
    machine.run({ budget: 1 });
    runSchedule(machine, [store(START + 2n, 1, 0xc1n)]); // inc ecx
    machine.switchTo(1);
    machine.setRegister('pc', START);
    expect(machine.run()).toMatchObject({ kind: 'trap', trap: 'breakpoint', instruction: START });
    machine.setRegister('pc', START + 1n);
    machine.run({ budget: 1 });
    expect([machine.register('rax'), machine.register('rcx')]).toEqual([1n, 1n]);
  });

  /** The call that replaces the nop of BODY, and what a tracer and the loop count. */
  const target = START + 0x100n;
  const wanted = [0xe8, 0xfb, 0x00, 0x00, 0x00];
  const make = (fetch: FetchMode): Machine => {
    const machine = machineOf(BODY, { fetch, cpus: 2 });
    machine.memory.write(target, Uint8Array.from([0x49, 0xff, 0xc1, 0xc3]));
    return machine;
  };
  const bytewise = wanted.map((byte, i) => store(START + BigInt(i), 1, BigInt(byte)));
  /**
   * What the breakpoint handler of the protocol does: the instruction behind the site goes on as if
   * it were the nop.
   */
  const handled = (machine: Machine, instructions: number): 'fine' | string => {
    const end = machine.instructions + instructions;
    while (machine.instructions < end) {
      const stop = machine.run({ budget: end - machine.instructions });
      if (stop.kind === 'step-limit') break;
      if (stop.kind !== 'trap' || stop.trap !== 'breakpoint') return stop.kind;
      machine.setRegister('pc', START + 5n);
    }
    return 'fine';
  };
  /**
   * All ways in which the patcher's steps fall between the victim's instructions; how many went
   * wrong.
   */
  const wrongSchedules = (steps: readonly PatcherStep[], fetch: FetchMode): { wrong: number; all: number } => {
    let [wrong, all] = [0, 0];
    for (const schedule of interleavings({ cpu: 1, instructions: 4, patcher: steps, after: 0 })) {
      const machine = make(fetch);
      all++;
      let bad = false;
      for (const step of schedule) {
        if (step.kind === 'run') {
          machine.switchTo(1);
          if (handled(machine, step.instructions) !== 'fine') bad = true;
        } else runSchedule(machine, [step]);
        if (bad) break;
      }
      machine.switchTo(1);
      if (!bad && handled(machine, 60) !== 'fine') bad = true;
      // Counted by the loop, and by the tracer no more often; nowhere else.
      const pc = machine.register('pc');
      const inside = (pc >= START && pc < START + 9n) || (pc >= target && pc < target + 4n);
      if (
        !bad &&
        (!inside || machine.register('r9') > machine.register('rcx') + 1n || machine.register('rsp') < DATA + 0xff0n)
      )
        bad = true;
      if (bad) wrong++;
    }
    return { wrong, all };
  };

  test('H1: a call stored byte by byte is executed torn at some interleavings', () => {
    const torn = wrongSchedules(bytewise, 'coherent');
    expect(torn.all).toBeGreaterThan(100);
    expect(torn.wrong).toBeGreaterThan(0);
  });

  test.each(repeats(['buffered', 'coherent'] as const))(
    'H1: the three phases with int3 are right at every interleaving (%s)',
    (fetch) => {
      const sync: PatcherStep = { kind: 'synchronise', cpu: 1 };
      const protocol = [store(START, 1, 0xccn), sync, ...bytewise.slice(1), sync, store(START, 1, 0xe8n), sync];
      const safe = wrongSchedules(protocol, fetch);
      expect(safe.all).toBeGreaterThan(500);
      expect(safe.wrong).toBe(0);
    },
  );
});

// --------------------------------------------------------------------------------- single features

describe('instructions', () => {
  test('a repeated move is one instruction an iteration, can be interrupted anywhere, and hooks see each', () => {
    // rep movsb; ud2
    const machine = machineOf([0xf3, 0xa4, 0x0f, 0x0b]);
    machine.memory.write(DATA, Uint8Array.from([1, 2, 3, 4, 5]));
    machine.setRegister('rsi', DATA);
    machine.setRegister('rdi', DATA + 0x100n);
    machine.setRegister('rcx', 5n);
    let hits = 0;
    machine.hook(START, () => {
      hits++;
      return 'continue';
    });
    machine.run({ budget: 2 });
    expect([machine.register('rcx'), machine.register('pc'), machine.instructions]).toEqual([3n, START, 2]);
    expect(machine.run()).toMatchObject({ kind: 'trap' });
    expect([machine.register('rcx'), machine.instructions, hits]).toEqual([0n, 5, 5]);
    expect(machine.memory.read(DATA + 0x100n, 5)).toEqual(Uint8Array.from([1, 2, 3, 4, 5]));
    // Nothing to do: one instruction.
    machine.setRegister('pc', START);
    machine.run();
    expect(machine.instructions).toBe(6);
  });

  test.each([
    ['div of zero', [0xf7, 0xf1], { rax: 5n, rcx: 0n }],
    ['div that overflows', [0xf7, 0xf1], { rdx: 1n, rcx: 1n }],
    ['div of 128 bits that overflows', [0x48, 0xf7, 0xf1], { rdx: 2n, rcx: 2n }],
    ['idiv of the minimum by -1', [0x48, 0xf7, 0xf9], { rax: 1n << 63n, rdx: (1n << 64n) - 1n, rcx: (1n << 64n) - 1n }],
    ['idiv of 32 bits', [0xf7, 0xf9], { rax: 0x8000_0000n, rdx: 0xffff_ffffn, rcx: 0xffff_ffffn }],
    ['div of 8 bits', [0xf6, 0xf1], { rax: 0x200n, rcx: 2n }],
  ] as const)('%s raises the divide exception and changes nothing', (_name, code, registers) => {
    // mov ebx,7; then the division: not the first of its block
    const machine = machineOf([0xbb, 7, 0, 0, 0, ...code]);
    for (const [name, value] of Object.entries(registers)) machine.setRegister(name, value as bigint);
    expect(machine.run()).toEqual({ kind: 'trap', trap: 'divide', instruction: START + 5n });
    expect(machine.register('rbx')).toBe(7n);
    expect(machine.instructions).toBe(1);
    for (const [name, value] of Object.entries(registers)) expect(machine.register(name)).toBe(value);
  });

  test.each([
    // div; idiv, by the helper; the same of a negative number
    [0xf1, 0x1234n],
    [0xf9, 0x1234n],
    [0xf9, -0x1234n],
  ])('division of 128 bits: 48 f7 %s, upper half %s', (code, high) => {
    const machine = machineOf([0x48, 0xf7, code, 0x0f, 0x0b]);
    const low = 0x5678_9abc_def0_1234n;
    const divisor = code === 0xf1 ? 0xffff_ffff_ffff_0001n : 0x7fff_ffff_ffff_0001n;
    machine.setRegister('rdx', BigInt.asUintN(64, high));
    machine.setRegister('rax', low);
    machine.setRegister('rcx', divisor);
    machine.run();
    const dividend = (high << 64n) | low;
    expect([machine.register('rax'), machine.register('rdx')]).toEqual([
      BigInt.asUintN(64, dividend / divisor),
      BigInt.asUintN(64, dividend % divisor),
    ]);
    expect(machine.instructions).toBe(1);
  });

  test.each(['popf', 'sahf'] as const)('each condition as a byte, behind %s in the same block', (name) => {
    const wrong: string[] = [];
    // CF PF ZF SF, and OF, which sahf leaves as it is.
    for (const flags of [0, 1, 4, 0x40, 0x41, 0x80, 0xc5].flatMap((each) => [each, each | 0x800])) {
      const [c, p, z, s, o] = [0, 2, 6, 7, 11].map((bit) => ((flags >> bit) & 1) === 1);
      const truths = [o, c, z, c || z, s, p, s !== o, z || s !== o];
      for (let cc = 0; cc < 16; cc++) {
        const set = [0x0f, 0x90 | cc, 0xc3, 0x0f, 0x0b];
        const code = name === 'popf' ? [0x9d, ...set] : [0x9d, 0x9e, ...set];
        const machine = machineOf(code);
        const stack = machine.register('rsp') - 8n;
        machine.setRegister('rsp', stack);
        machine.memory.write(stack, Uint8Array.of(name === 'popf' ? flags & 0xff : 0, flags >> 8, 0, 0, 0, 0, 0, 0));
        machine.setRegister('rax', BigInt(flags & 0xff) << 8n);
        machine.setRegister('rbx', 0x1234n);
        machine.run();
        const expected = 0x1200n | (truths[cc >> 1] !== ((cc & 1) === 1) ? 1n : 0n);
        if (machine.register('rbx') !== expected)
          wrong.push(`${flags.toString(16)}, condition ${cc}: ${machine.register('rbx').toString(16)}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test.each([
    ['add rax, rcx', [0x48, 0x01, 0xc8]],
    ['adc al, cl', [0x10, 0xc8]],
    ['sub eax, ecx', [0x29, 0xc8]],
    ['sbb rax, rcx', [0x48, 0x19, 0xc8]],
    ['cmp ax, cx', [0x66, 0x39, 0xc8]],
    ['cmp rax, 0', [0x48, 0x83, 0xf8, 0]],
    ['test al, cl', [0x84, 0xc8]],
    ['xor eax, ecx', [0x31, 0xc8]],
    ['inc rax', [0x48, 0xff, 0xc0]],
    ['dec al', [0xfe, 0xc8]],
    ['neg ax', [0x66, 0xf7, 0xd8]],
    ['shl eax, 3', [0xc1, 0xe0, 3]],
    ['shr rax, cl', [0x48, 0xd3, 0xe8]],
    ['sar al, 1', [0xd0, 0xf8]],
    ['rol eax, 5', [0xc1, 0xc0, 5]],
    ['rcr rax, cl', [0x48, 0xd3, 0xd8]],
    ['shld rax, rcx, 7', [0x48, 0x0f, 0xa4, 0xc8, 7]],
    ['bt rax, rcx', [0x48, 0x0f, 0xa3, 0xc8]],
    ['bsf rax, rcx', [0x48, 0x0f, 0xbc, 0xc1]],
    ['tzcnt rax, rcx', [0xf3, 0x48, 0x0f, 0xbc, 0xc1]],
    ['popcnt eax, ecx', [0xf3, 0x0f, 0xb8, 0xc1]],
    ['imul rax, rcx', [0x48, 0x0f, 0xaf, 0xc1]],
    ['mul ecx', [0xf7, 0xe1]],
    ['xadd rcx, rax', [0x48, 0x0f, 0xc1, 0xc1]],
    ['cmpxchg rcx, rdx', [0x48, 0x0f, 0xb1, 0xd1]],
    ['popf; stc', [0x9d, 0xf9]],
    ['popf; cmc', [0x9d, 0xf5]],
    ['popf; inc eax', [0x9d, 0xff, 0xc0]],
    ['sahf', [0x9e]],
  ])('each condition behind %s is the same in its block and in the next', (_name, code) => {
    const numbers = [0n, 1n, 0x7fn, 0x80n, 0x4141n, 0xffffn, 0x8000_0000n, 0xffff_ffffn, 1n << 63n, (1n << 64n) - 1n];
    const wrong: string[] = [];
    for (let cc = 0; cc < 16; cc++) {
      const set = [0x0f, 0x90 | cc, 0xc3, 0x0f, 0x0b];
      const machines = [[], [0xeb, 0]].map((between) => machineOf([...code, ...between, ...set]));
      for (const a of numbers) {
        for (const b of numbers) {
          const answers = machines.map((machine) => {
            machine.memory.write(DATA, Uint8Array.of(Number(b & 0xc5n), 8 * Number(a & 1n), 0, 0, 0, 0, 0, 0));
            const registers = { pc: START, rsp: DATA, rflags: 0x202n | (a & 1n), rax: a, rcx: b, rbx: 0n, rdx: 0n };
            for (const [name, value] of Object.entries(registers)) machine.setRegister(name, value);
            machine.run();
            return machine.register('rbx');
          });
          if (answers[0] !== answers[1] || answers[0]! > 1n) wrong.push(`${a} ${b} ${cc}: ${answers.join(' ')}`);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  test('cpuid announces only what is executed; rdtsc is virtual time; the brand is text', () => {
    const machine = machineOf([0x0f, 0xa2, 0x0f, 0x31, 0x0f, 0x0b]);
    const leaf = (number: bigint): readonly bigint[] => {
      machine.setRegister('pc', START);
      machine.setRegister('rax', number);
      machine.setRegister('rcx', 0n);
      machine.run({ budget: 1 });
      return ['rax', 'rbx', 'rcx', 'rdx'].map((name) => machine.register(name));
    };
    expect(leaf(0n)[0]).toBe(7n);
    const [, , ecx, edx] = leaf(1n);
    // Not RDRAND, AVX, XSAVE, OSXSAVE, SSE4.
    for (const bit of [0n, 9n, 19n, 20n, 26n, 27n, 28n, 30n]) expect([bit, (ecx! >> bit) & 1n]).toEqual([bit, 0n]);
    expect((edx! >> 26n) & 1n).toBe(1n);
    machine.run({ budget: 1 });
    expect(machine.register('rax')).toBe(machine.time - 1n);
  });

  test('unknown instructions name themselves; an instruction across the end of the code is a fault there', () => {
    expect(machineOf([0x66, 0x0f, 0x38, 0xdc, 0xc1]).run()).toMatchObject({
      kind: 'unknown-instruction',
      mnemonic: 'aesenc',
    });
    expect(machineOf([0xc5, 0xf8, 0x77]).run()).toMatchObject({
      kind: 'unknown-instruction',
      mnemonic: 'vzeroupper',
    });
    const machine = machineOf([]);
    machine.memory.write(START + 0x1ffen, Uint8Array.from([0x81, 0xc0]));
    machine.setRegister('pc', START + 0x1ffen);
    expect(machine.run()).toEqual({
      kind: 'fault',
      address: START + 0x2000n,
      access: 'execute',
      instruction: START + 0x1ffen,
    });
    machine.memory.write(START + 0x1ffdn, Uint8Array.from([0x90, 0xff, 0xc0]));
    machine.setRegister('pc', START + 0x1ffdn);
    expect(machine.run()).toMatchObject({ kind: 'fault', address: START + 0x2000n, instruction: START + 0x2000n });
  });

  test('gates: called with the return address on the stack, and calling back', () => {
    const machine = machineOf([0xff, 0xd0, 0x48, 0xff, 0xc0, 0xc3]); // call *rax; inc rax; ret
    const gates = new Gates({ machine, abi: x86_64.abi, address: 0x3_f000n });
    const gate = gates.add((call) => call.argument(0) * call.argument(1));
    machine.setRegister('rax', gate.pointer);
    expect(gates.call(START, [6n, 7n])).toEqual({ kind: 'returned', value: 43n });
  });
});

// ---------------------------------------------------------------------------------------- programs

const GLIBC = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ctype.h>
#include <errno.h>
#include <time.h>
static __thread int counter = 5;
static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
int main(int argc, char **argv) {
  char *names[] = {"pear", "apple", "fig", "quince", "banana", "cherry"};
  qsort(names, 6, sizeof *names, compare);
  for (int i = 0; i < 6; i++) printf("%s%c", names[i], i == 5 ? '\\n' : ' ');
  printf("%d %5ld %-6x| %08llx %c %p %s\\n", argc, -12345L, 0xbeef, 0x123456789abcdefULL, 'q', (void *)0x1000, argv[1]);
  counter += argc;
  char *copy = strdup("some text that is longer than a vector register, to be searched");
  printf("%d %zu %s %ld\\n", counter, strlen(copy), strstr(copy, "longer"), strtol("-0x7f", 0, 16));
  for (char *p = copy; *p; p++) *p = (char)toupper(*p);
  puts(copy);
  int *grown = NULL;
  for (int n = 1; n < 5000; n *= 3) { grown = realloc(grown, n * sizeof(int)); grown[n - 1] = n; }
  printf("%d %d\\n", grown[0], memcmp(copy, "SOME", 4));
  char buffer[40];
  snprintf(buffer, sizeof buffer, "%.*s|%03d", 4, "abcdefgh", 7);
  printf("%s %d %s\\n", buffer, fopen("/nowhere", "r") == NULL, strerror(errno));
  unsigned long long big = strtoull("18446744073709551615", 0, 10);
  printf("%llu %llu\\n", big / 10, big % 1000);
  free(copy);
  exit(argc + 5);
}
`;

describeWith(['gcc', 'qemu-x86_64'], 'static programs of glibc', () => {
  const build = (level: string): string => {
    const output = scratch('glibc');
    const result = spawnSync('gcc', [`-O${level}`, '-static', '-w', writeSource('glibc.c', GLIBC), '-o', output]);
    if (result.status !== 0) throw new Error(result.stderr.toString());
    return output;
  };

  test.each(['0', '2'])('printf, qsort, malloc, strings, thread-local storage, at -O%s', (level) => {
    const path = build(level);
    const target = X86_TARGETS[0]!;
    const here = runHere(target, path, { args: ['one'] });
    const expected = runQemu(target, path, { args: ['one'] });
    expect([here.end, here.output]).toEqual([expected.end, expected.output]);
    expect(here.end).toBe(7);
    process.stderr.write(`glibc -O${level}: ${here.instructions} instructions\n`);
  });
});

describe('floating point that cannot go on', () => {
  test('an exception that is not masked raises signal 8, is noted, and changes nothing else', () => {
    // divsd xmm0, xmm1: with 0 in xmm1
    const machine = machineOf([0xf2, 0x0f, 0x5e, 0xc1]);
    machine.setRegister('xmm0', 0x3ff0_0000_0000_0000n);
    machine.setRegister('xmm1', 0n);
    machine.setRegister('mxcsr', 0x1f80n & ~0x200n);
    expect(machine.run()).toEqual({ kind: 'trap', trap: 'divide', instruction: START });
    expect([machine.register('xmm0'), machine.register('mxcsr')]).toEqual([0x3ff0_0000_0000_0000n, 0x1d84n]);
    machine.setRegister('mxcsr', 0x1f80n);
    machine.run({ budget: 1 });
    expect([machine.register('xmm0'), machine.register('mxcsr')]).toEqual([0x7ff0_0000_0000_0000n, 0x1f84n]);
  });
});

/** The state that `fxsave` stores, but for the addresses of the last instruction of x87. */
const STATE = `
#include <stdio.h>
#include <string.h>
static unsigned char image[512] __attribute__((aligned(16))), narrow[512] __attribute__((aligned(16)));
static void show(const char *what) {
  /* No call changes a register meanwhile. */
  for (int i = 0; i < 512; i++) ((volatile unsigned char *)image)[i] = ((volatile unsigned char *)narrow)[i] = 0xa5;
  __asm__ volatile("fxsave64 %0; fxsave %1" : "+m"(image), "+m"(narrow));
  memset(image + 6, 0, 18);
  /* Makers differ in what MXCSR can hold. */
  image[30] = 0;
  printf("%s", what);
  for (int i = 0; i < 512; i++) printf("%02x", image[i]);
  unsigned sum = 0;
  for (int i = 32; i < 512; i++) sum = sum * 31 + narrow[i];
  printf(" %08x\\n", sum);
}
int main(void) {
  unsigned short word, status;
  unsigned csr;
  __asm__ volatile("fninit; fnstcw %0; fnstsw %%ax; mov %%ax, %1" : "=m"(word), "=m"(status) :: "rax");
  printf("%x %x\\n", word, status);
  static const unsigned short words[] = {0x37f, 0x27f, 0, 0xffff, 0x1f80, 0xe0c0};
  for (int i = 0; i < 6; i++) {
    __asm__ volatile("fldcw %1; fnstcw %0" : "=m"(word) : "m"(words[i]));
    printf("%x ", word);
  }
  unsigned char other[512] __attribute__((aligned(16)));
  __asm__ volatile("fninit; fxsave64 %0" : "=m"(other));
  for (int round = 0; round < 4; round++) {
    for (int i = 32; i < 416; i++) other[i] = (unsigned char)(i * 7 + round * 13);
    memcpy(other, &words[round], 2);
    status = (unsigned short[]){0, 0x3841, 0x0004, 0x8085}[round];
    memcpy(other + 2, &status, 2);
    other[4] = (unsigned char)(0x5a * round);
    csr = 0x1f80 | round << 13 | round;
    memcpy(other + 24, &csr, 4);
    __asm__ volatile("fxrstor64 %0" :: "m"(other));
    show("restored ");
    __asm__ volatile("fxrstor64 %1; stmxcsr %0" : "=m"(csr) : "m"(other));
    /* With an exception pending it would raise it. */
    if (round != 2) __asm__ volatile("fldcw %0; fwait" :: "m"(words[0]));
    __asm__ volatile("fnstsw %0" : "=m"(status));
    printf("%x %x ", csr, status);
    __asm__ volatile("fnclex; fnstsw %0; fninit" : "=m"(status));
    printf("%x\\n", status);
    csr = 0x1f80;
    __asm__ volatile("ldmxcsr %0" :: "m"(csr));
  }
  return 5;
}
`;

describeWith(['gcc'], 'the state of x87 and SSE', () => {
  test('fxsave, fxrstor, fldcw, fnstcw, fnstsw, fnclex, fninit as on this processor', () => {
    const output = scratch('state');
    const result = spawnSync('gcc', ['-O1', '-static', '-w', writeSource('state.c', STATE), '-o', output]);
    if (result.status !== 0) throw new Error(result.stderr.toString());
    const expected = runProgramFile(output);
    expect(expected.status).toBe(5);
    const here = runHere(X86_TARGETS[0]!, output);
    expect(here.output.split('\n')).toEqual(expected.stdout.split('\n'));
    expect(here.end).toBe(5);
  });

  test('a misaligned address, reserved bits of MXCSR, and no memory: nothing is changed', () => {
    // fxsave64 [rdi]; fxrstor64 [rdi]
    for (const [code, access] of [
      [0x07, 'write'],
      [0x0f, 'read'],
    ] as const) {
      const machine = machineOf([0x48, 0x0f, 0xae, code]);
      const stopAt = (address: bigint): unknown => {
        machine.setRegister('pc', START);
        machine.setRegister('rdi', address);
        return machine.run();
      };
      const before = machine.register('xmm3');
      expect(stopAt(DATA + 8n)).toMatchObject({ kind: 'trap', trap: 'protection' });
      const end = DATA + 0x1000n;
      expect(stopAt(end - 256n)).toMatchObject({ kind: 'fault', address: end, access, instruction: START });
      if (access === 'read') {
        machine.memory.write(DATA, new Uint8Array(512).fill(0xff));
        expect(stopAt(DATA)).toMatchObject({ kind: 'trap', trap: 'protection' });
      }
      expect(machine.register('xmm3')).toBe(before);
    }
  });
});

const DEEP = `
#include "lib.h"
__attribute__((noinline)) int inner(volatile int *p) { return *p + 1; }
__attribute__((noinline)) int middle(volatile int *p) { return inner(p) * 2 + 1; }
__attribute__((noinline)) int outer(int n, volatile int *p) { return n ? outer(n - 1, p) + 1 : middle(p) + 3; }
__attribute__((used, noinline)) word six(word a, word b, word c, word d, word e, word f) { return a + 2*b + 3*c + 4*d + 5*e + 6*f; }
__attribute__((used, noinline)) int length(const char *s) { int n = 0; while (s[n]) n++; return n; }
static __attribute__((noinline)) u32 deep(u32 n, volatile u8 *above) {
  volatile u8 frame[5000];
  for (int i = 0; i < 5000; i += 999) frame[i] = (u8)(n + i + above[0]);
  return n == 0 ? frame[999] : deep(n - 1, frame) + frame[0];
}
int main(int argc, char **argv) {
  volatile u8 first = 1;
  if (argc > 1) return outer(3, (int *)16);
  line("deep", deep(1200, &first));
  line("badfd", (u64)sys(1, 17L, argv, 1L));
  line("badptr", (u64)sys(1, 1L, 16L, 1L));
  line("enosys", (u64)sys(9999));
  line("aligned", ((word)argv - sizeof(word)) % 16);
  flush();
  return 3;
}
`;

describeWith(['gcc', 'qemu-x86_64'], 'run on x86-64', () => {
  const folder = mkdtempSync(join(tmpdir(), 'run-x86-'));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  let built: string | undefined;
  const program = (): string => {
    if (built === undefined) {
      built = scratch('deep');
      const result = spawnSync('gcc', [
        '-O2', '-fno-optimize-sibling-calls', '-ffreestanding', '-fno-builtin', '-nostdlib', '-static', '-no-pie', '-w', '-I', PROGRAMS,
        join(PROGRAMS, 'start.S'), writeSource('deep.c', DEEP), '-o', built,
      ]); // prettier-ignore
      if (result.status !== 0) throw new Error(result.stderr.toString());
    }
    return built;
  };
  const sample = (name: string): string => join(builtSamples, 'x86-64', name);

  test('the stack grows, system calls fail as they do under qemu', () => {
    const here = runHere(X86_TARGETS[0]!, program());
    const expected = runQemu(X86_TARGETS[0]!, program());
    expect([here.end, here.output]).toEqual([expected.end, expected.output]);
  });

  test('slices of any size give the same', () => {
    const whole = runHere(X86_TARGETS[0]!, program());
    const { process: sliced, output } = startHere(X86_TARGETS[0]!, program());
    while (sliced.run({ budget: 97 }).kind === 'step-limit');
    expect([output(), sliced.machine.instructions]).toEqual([whole.output, whole.instructions]);
  });

  test('a fault names instruction, text and callers, without frame pointers', () => {
    const result = run([program(), 'x']);
    expect(result.status).toBe(139);
    const lines = result.stderr.trimEnd().split('\n');
    expect(lines[0]).toMatch(/read fault at 0x10, instruction 0x[0-9a-f]+ \(inner/);
    const callers = lines
      .map((each) => /called from 0x[0-9a-f]+ \((\w+)/.exec(each)?.[1])
      .filter((each) => each !== undefined);
    expect(callers.slice(0, 6)).toEqual(['middle', 'outer', 'outer', 'outer', 'outer', 'main']);
  });

  test('backtrace at the first instruction of a function, and behind its return', () => {
    const { process: here } = startHere(X86_TARGETS[0]!, program(), ['x']);
    const image = readElf(new Uint8Array(readFileSync(program())));
    expect(image.header.is64).toBe(true);
    const { emulation } = x86_64;
    if (emulation.kind !== 'ir') throw new Error('no emulation');
    here.run({ budget: 60 });
    const frames = backtrace(here.machine, { abi: x86_64.abi, emulation }, (address) =>
      address >= 0x40_1000n && address < 0x40_4000n ? 1 : -1,
    );
    expect(frames.length).toBeGreaterThan(0);
  });

  test('--call: six integers, a string, and a function that faults', () => {
    expect(run(['--call', 'six(1,2,3,4,5,6)', program()])).toMatchObject({
      status: 0,
      stdout: 'six(1,2,3,4,5,6) = 91 (0x5b)\n',
    });
    expect(run(['--call', 'length("four")', program()]).stdout).toBe('length("four") = 4 (0x4)\n');
    expect(run(['--call', 'inner(16)', program()]).status).toBe(139);
  });

  test('samples do what they do on this processor: output, calls by the oracle, profile', () => {
    const names = [
      'program-fentry',
      'program-mcount',
      'program-fentry-large',
      'program-patchable-16-16',
      'program-clang-patchable-5',
      'pie-patchable-5',
      'core-fentry',
    ];
    for (const name of names) {
      const here = run([sample(name)]);
      expect([name, here.status]).toEqual([name, 0]);
      const outside = isX86Linux ? spawnSync(sample(name)) : spawnSync('qemu-x86_64', [sample(name)]);
      expect([name, here.stdout]).toEqual([name, outside.stdout.toString('latin1')]);
    }
    const file = join(folder, 'trace');
    const traced = run(['--trace', file, '--trace-source=oracle', '--format', 'ndjson', sample('program-fentry')]);
    expect([traced.status, traced.stderr]).toEqual([0, '']);
    const events = readFileSync(file, 'utf8').trimEnd().split('\n').slice(1);
    const sites = events.filter((line) => line.includes('"kind":"entry"') && !line.includes('"site":null'));
    // As many as the sample's own tracer counts.
    expect(traced.stdout).toMatch(/\ntrace=49\n$/);
    expect(sites.filter((line) => !line.includes('"function":"quiet"')).length).toBe(49);
    const folded = run(['--trace', file, '--trace-source=oracle', '--format', 'folded', sample('program-fentry')]);
    const sum = readFileSync(file, 'utf8')
      .trimEnd()
      .split('\n')
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0);
    expect(sum).toBe(folded.json['instructions']);
    const profile = run(['--profile', sample('program-fentry')]);
    expect(profile.stderr).toMatch(/^ +\d+ +\d+\.\d +\d+ +\d+\.\d +14 {2}recurse$/m);
  });
});
