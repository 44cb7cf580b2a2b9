/**
 * Probes of arm64: what can be probed, copies, simulation, the `b` form and its buffer, and what of the state machines differs where one word is
 * replaced. Expectations: binutils (words and texts), the rules, and the same instruction executed at its own place.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { arm64 } from '../src/arch-arm64/index.js';
import { arm64Probes as support } from '../src/arch-arm64/kprobes.js';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { ByteView, concatBytes, wordBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { Machine } from '../src/emulator/index.js';
import type { JumpOptimization, JumpWindow, ProbeCode, ProbeInstruction, ProbeRefusal } from '../src/kprobes/model.js';
import { FLAGS_2009, Kprobe } from '../src/kprobes/objects.js';
import { SlotPool } from '../src/kprobes/slots.js';
import { Kprobes2009 } from '../src/kprobes/state-2009.js';
import { KprobesModern } from '../src/kprobes/state-modern.js';
import { TextMachine } from '../src/kprobes/text-machine.js';
import { objdump, OBJDUMP, generator } from './support/arm64-tools.js';
import { scratch } from './support/c-programs.js';
import { cpuOf } from './support/probe-everywhere.js';
import { codeOf } from './support/ppc-probes.js';
import { describeWith, run } from './support/tools.js';

const AT = 0x1000_0000n;
const TOOLS = ['aarch64-linux-gnu-as', OBJDUMP];

function assemble(source: string): Uint8Array {
  const output = scratch('probe.o');
  run('aarch64-linux-gnu-as', ['-march=armv8.5-a', '-o', output, '-'], `${source}\n`);
  const image = readElf(new Uint8Array(readFileSync(output)));
  return image.contents(image.section('.text')!).slice();
}

function disassemble(bytes: Uint8Array, address: bigint): string[] {
  const view = new ByteView(bytes, 'little');
  const words = Array.from({ length: bytes.length / 4 }, (_, i) => view.u32(4 * i));
  return objdump(words, Number(address));
}

const jumpOf = (): JumpOptimization => {
  const { optimization } = support;
  if (optimization.kind === 'none') throw new Error(optimization.reason);
  return optimization;
};
const jump = jumpOf();

function verdict(code: ProbeCode, offset = 0): string {
  const found = support.decode(code, code.start + BigInt(offset));
  return found.kind === 'refused' ? `${found.errno} ${found.code}` : found.method;
}

function given<T extends object>(value: T | ProbeRefusal): T {
  if ('errno' in value) throw new Error(value.reason);
  return value;
}

const decoded = (code: ProbeCode): ProbeInstruction => {
  const found = support.decode(code, code.start);
  if (found.kind === 'refused') throw new Error(found.reason);
  return found;
};
const word = (value: number): Uint8Array => wordBytes(value, 'little');

const CLASSES: readonly (readonly [source: string, verdict: string])[] = [
  ['add x0, x0, #1', 'copy'],
  ['ldr x0, [x15, #16]', 'copy'],
  ['stp x29, x30, [sp, #-32]!', 'copy'],
  ['ldp x29, x30, [sp], #32', 'copy'],
  ['mov x9, x30', 'copy'],
  ['paciasp', 'copy'],
  ['autiasp', 'copy'],
  ['xpaclri', 'copy'],
  ['bti c', 'copy'],
  ['nop', 'copy'],
  ['csel x0, x1, x2, eq', 'copy'],
  ['ldar x0, [x1]', 'copy'],
  ['stlr x0, [x1]', 'copy'],
  ['ldadd x0, x1, [x2]', 'copy'],
  ['casal x0, x1, [x2]', 'copy'],
  ['clrex', 'copy'],
  ['dsb sy', 'copy'],
  ['isb', 'copy'],
  ['dc zva, x0', 'copy'],
  ['mrs x0, tpidr_el0', 'copy'],
  ['mrs x0, nzcv', 'copy'],
  ['ldr q0, [x0]', 'copy'],
  ['fmov d0, x1', 'copy'],
  ['prfm pldl1keep, [x0]', 'copy'],
  ['b .+64', 'simulate'],
  ['bl .+64', 'simulate'],
  ['b.ne .+16', 'simulate'],
  ['cbz x3, .+16', 'simulate'],
  ['cbnz w3, .+16', 'simulate'],
  ['tbz x3, #33, .+16', 'simulate'],
  ['tbnz w3, #3, .+16', 'simulate'],
  ['br x3', 'simulate'],
  ['blr x3', 'simulate'],
  ['ret', 'simulate'],
  ['ret x9', 'simulate'],
  ['adr x0, .+5', 'simulate'],
  ['adrp x0, .+4096', 'simulate'],
  ['ldr x0, .+64', 'simulate'],
  ['ldr w0, .+64', 'simulate'],
  ['ldrsw x0, .+64', 'simulate'],
  ['ldr q0, .+64', 'simulate'],
  ['prfm pldl1keep, .+64', 'simulate'],
  ['brk #4', 'EINVAL trap'],
  ['hlt #0', 'EINVAL trap'],
  ['udf #0', 'EINVAL trap'],
  ['dcps1', 'EINVAL trap'],
  ['svc #0', 'EINVAL system'],
  ['hvc #0', 'EINVAL virtualisation'],
  ['smc #0', 'EINVAL virtualisation'],
  ['eret', 'EINVAL privileged'],
  ['eretaa', 'EINVAL privileged'],
  ['drps', 'EINVAL privileged'],
  ['msr nzcv, x0', 'EINVAL privileged'],
  ['msr tpidr_el0, x0', 'EINVAL privileged'],
  ['msr daifset, #2', 'EINVAL privileged'],
  ['msr spsel, #1', 'EINVAL privileged'],
  ['mrs x0, daif', 'EINVAL masks-interrupts'],
  ['wfe', 'EINVAL system'],
  ['wfi', 'EINVAL system'],
  ['yield', 'EINVAL system'],
  ['sev', 'EINVAL system'],
  ['retaa', 'EINVAL unsupported-instruction'],
  ['braa x0, x1', 'EINVAL unsupported-instruction'],
  ['blraaz x0', 'EINVAL unsupported-instruction'],
  ['ldxr x0, [x1]', 'EINVAL exclusive-sequence'],
  ['ldaxrb w0, [x1]', 'EINVAL exclusive-sequence'],
  ['ldxp x0, x2, [x1]', 'EINVAL exclusive-sequence'],
  ['stxr w2, x0, [x1]', 'EINVAL exclusive-sequence'],
  ['stlxp w2, x0, x3, [x1]', 'EINVAL exclusive-sequence'],
  ['.inst 0xffffffff', 'EINVAL undecodable'],
];

describeWith(TOOLS, 'what can be probed', () => {
  test('K-ADDR-5: msr, eret, exceptions, waits and exclusives are refused; branches, adr and literals simulated; the rest is copied', () => {
    // Apart, so that no load-exclusive is near.
    const each = 4 * 32;
    const all = assemble(CLASSES.map(([source]) => `${source}\n.balign ${each}`).join('\n'));
    const found = CLASSES.map(([source], i) => [source, verdict(codeOf(all.slice(each * i, each * (i + 1)), AT))]);
    expect(found).toEqual(CLASSES);
  });

  test('K-ADDR-5: nothing between a load-exclusive and its store-exclusive, up to 16 instructions back', () => {
    const code = codeOf(
      assemble(`ldaxr x0, [x1]
        add x0, x0, #1
        stlxr w2, x0, [x1]
        cbnz w2, .-12
        nop
        ldxr w3, [x1]
        ${'nop\n'.repeat(17)}`),
      AT,
    );
    const no = 'EINVAL exclusive-sequence';
    const verdicts = Array.from({ length: 23 }, (_, i) => verdict(code, 4 * i));
    expect(verdicts).toEqual([no, no, no, 'simulate', 'copy', no, ...Array.from({ length: 16 }, () => no), 'copy']);
  });

  test('K-ADDR-4, K-ADDR-5: misaligned addresses, outside the function, named by an exception table', () => {
    const bytes = assemble('nop\nnop');
    for (const offset of [1, 2, 3, 5]) expect(verdict(codeOf(bytes, AT), offset)).toBe('EINVAL misaligned');
    for (const offset of [-4, 8]) expect(verdict(codeOf(bytes, AT), offset)).toBe('EINVAL not-a-boundary');
    const named = codeOf(bytes, AT, { hasException: (start) => start === AT });
    expect([verdict(named, 0), verdict(named, 4)]).toEqual(['EINVAL exception-table', 'copy']);
  });

  test('K-BP-1: brk #4, one word that leaves its own address; brk #6 behind copies', () => {
    expect(disassemble(support.breakpoint(assemble('nop')), AT)).toEqual(['brk #0x4']);
    expect(Buffer.from(support.breakpoint(new Uint8Array(4))).toString('hex')).toBe('800020d4');
    expect(support.trapDelta).toBe(0);
  });

  test('K-ADDR-1, K-ADDR-7: the symbol of a function that begins with a site means the site; behind a landing pad and elsewhere nothing moves', () => {
    const bytes = assemble('nop\n'.repeat(8));
    const site = (start: bigint, ip: bigint): Partial<ProbeCode> => ({
      siteAt: (address) =>
        address >= AT + start && address < AT + ip + 4n
          ? { ip: AT + ip, start: AT + start, sizeBytes: Number(ip - start) + 4 }
          : null,
    });
    const meant = (more: Partial<ProbeCode>, address = AT): bigint =>
      support.adjust(codeOf(bytes, AT, more), address) - AT;
    expect(meant({})).toBe(0n);
    expect(meant(site(0n, 4n))).toBe(4n);
    // =4,2 with a landing pad: the site begins in front of the function.
    expect(meant(site(-8n, 8n))).toBe(8n);
    // =2 with a landing pad: bti is no part of it.
    expect(meant(site(4n, 8n))).toBe(0n);
    expect(meant(site(0n, 4n), AT + 8n)).toBe(8n);
  });

  test('the frame is struct pt_regs, arguments are x0 to x7, the ninth is on the stack', () => {
    const { abi } = support;
    // 40-arm64 section 6.1.
    const places = Object.entries({ x0: 0, x1: 8, x29: 232, x30: 240, lr: 240, sp: 248, pc: 256, pstate: 264 });
    for (const [register, at] of places) expect(abi.registers.get(register)?.frameOffset).toBe(at);
    expect([abi.frameBytes, abi.result, abi.stackPointer, abi.stackArgumentOffset]).toEqual([336, 'x0', 'sp', 0]);
    expect(abi.arguments).toEqual(['x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7']);
  });
});

describeWith(TOOLS, 'slots', () => {
  test('a slot has the instruction and a branch behind the original; brk #6 where no branch is wanted or reaches', () => {
    const instruction = decoded(codeOf(assemble('ldr x0, [x15, #16]'), AT));
    const written = (slot: bigint, boost: boolean): unknown[] => {
      const image = given(support.slots.write(instruction, slot, boost));
      expect(image.bytes).toHaveLength(support.slots.sizeBytes);
      return [image.end, ...disassemble(image.bytes, slot)];
    };
    const back = ['ldr x0, [x15, #16]', 'b 10000004 <.data-0xffffffc>'].map((line) => line.replace(/ <.*/, ''));
    const plain = (list: unknown[]): unknown[] =>
      list.map((each) => (typeof each === 'string' ? each.replace(/^(b )0x/, '$1').replace(/ <.*/, '') : each));
    expect(plain(written(AT + 0x10_0000n, true))).toEqual([{ kind: 'jump' }, ...back]);
    const stepped = [{ kind: 'breakpoint', offset: 4 }, 'ldr x0, [x15, #16]', 'brk #0x6'];
    expect(written(AT + 0x10_0000n, false)).toEqual(stepped);
    // The branch back stands 4 bytes behind, and leads 4 bytes behind: the last slot in reach of it, and the next.
    expect(plain(written(AT + 0x800_0000n, true))[0]).toEqual({ kind: 'jump' });
    expect(written(AT + 0x800_0008n, true)).toEqual(stepped);
    expect(written(AT - 0x7ff_fff8n, true)[0]).toEqual({ kind: 'jump' });
    expect(written(AT - 0x800_0000n, true)).toEqual(stepped);
    expect(support.slots.finish(instruction, AT, cpuOf(machineWith(new Uint8Array(4))))).toBe(AT + 4n);
  });
});

// -------------------------------------------------------------------------------------------------- three ways of execution

const DATA = 0x2000_0000n;
const CALLEE = AT + 0x8000n;

function machineWith(bytes: Uint8Array): Machine {
  const { emulation } = arm64;
  if (emulation.kind !== 'ir') throw new Error('arm64 is executed');
  const machine = new Machine({ lifter: emulation.lifter });
  machine.map({ address: AT - 0x1000n, size: 0xa000, permission: 'rwx' });
  machine.map({ address: DATA, size: 0xa000, permission: 'rw' });
  machine.memory.write(AT, bytes);
  return machine;
}

const REGISTERS = [
  ...Array.from({ length: 31 }, (_, i) => `x${i}`),
  ...Array.from({ length: 32 }, (_, i) => `v${i}`),
  'sp', 'nzcv', 'pc',
]; // prettier-ignore
const stateOf = (machine: Machine): string =>
  REGISTERS.map((name) => `${name}=${machine.register(name).toString(16)}`).join(' ');

/** Random registers; those that lead somewhere lead to mapped memory. */
function seed(machine: Machine, next: () => number): void {
  const wide = (): bigint => (BigInt(next()) << 32n) | BigInt(next());
  for (let i = 0; i <= 30; i++) {
    const kind = next() % 4;
    machine.setRegister(
      `x${i}`,
      kind === 0 ? DATA + BigInt((next() & 0xff8) + 0x4000) : kind === 1 ? BigInt(next() & 3) : wide(),
    );
  }
  for (let i = 0; i < 32; i++) machine.setRegister(`v${i}`, (wide() << 64n) | wide());
  machine.setRegister('sp', DATA + 0x8000n);
  machine.setRegister('nzcv', BigInt((next() & 0xf0000000) >>> 0));
  machine.setRegister('pc', AT);
}

/** Every simulated form: fields chosen so that all outcomes are met. */
function simulatedWords(next: () => number): number[] {
  const words: number[] = [];
  const displacements = [8, -8, 0x40, -0x1000, 0x7ffc];
  const literals = [0x40, -0x40, 0xffc];
  for (const off of [...displacements, 0x7ff_fffc, -0x800_0000])
    words.push(arm64Table.encode('b', { off }), arm64Table.encode('bl', { off }));
  for (let cond = 0; cond < 16; cond++)
    words.push(arm64Table.encode('b-cond', { cond, off: displacements[cond % 4]! }));
  for (const name of ['cbz', 'cbnz'] as const) {
    for (const sf of [0, 1])
      for (const rt of [0, 7, 30, 31]) words.push(arm64Table.encode(name, { sf, rt, off: 0x40 }));
  }
  for (const name of ['tbz', 'tbnz'] as const) {
    for (const bit of [0, 1, 31, 32, 63])
      for (const rt of [5, 30, 31]) words.push(arm64Table.encode(name, { bit, rt, off: -0x40 }));
  }
  for (const name of ['br', 'blr', 'ret'] as const)
    for (const xn of [0, 17, 30]) words.push(arm64Table.encode(name, { xn }));
  for (const xd of [0, 18, 30, 31]) {
    words.push(arm64Table.encode('adr', { xd, off: (next() & 0xfffff) - 0x80000 }));
    words.push(arm64Table.encode('adrp', { xd, pages: (next() & 0xfffff) - 0x80000 }));
  }
  for (const off of literals) {
    for (const xt of [0, 29, 31]) {
      words.push(arm64Table.encode('ldr-x-lit', { xt, off }), arm64Table.encode('ldrsw-lit', { xt, off }));
      words.push(arm64Table.encode('ldr-w-lit', { wt: xt, off }));
    }
    words.push(arm64Table.encode('ldr-fs-lit', { st: 3, off }), arm64Table.encode('ldr-fd-lit', { dt: 4, off }));
    words.push(arm64Table.encode('ldr-fq-lit', { qt: 5, off }), arm64Table.encode('prfm-lit', { prfop: 0, off }));
  }
  return words;
}

const COPIED = [
  'add x0, x0, #1', 'adds x3, x4, x5', 'adc x3, x4, x5', 'csel x0, x1, x2, lt', 'mov x9, x30', 'mov x30, x9', 'mov x18, x1', 'mrs x4, nzcv',
  'sub sp, sp, #32', 'stp x29, x30, [sp, #-32]!', 'ldp x1, x2, [sp], #16', 'str x0, [sp, #8]', 'ldr x30, [sp, #16]', 'ccmp x1, x2, #5, ne', 'movi v0.16b, #7',
  'ldr q3, [sp]', 'umulh x1, x2, x3', 'paciasp', 'extr x0, x1, x2, #7', 'bics x1, x2, x3',
]; // prettier-ignore

/** Spoils what a callee may: x0 to x17 and the flags; then returns. */
const SPOILER = concatBytes(
  [
    ...Array.from({ length: 18 }, (_, rd) => arm64Table.encode('movn', { sf: 1, hw: 0, imm16: rd, rd })),
    arm64Table.encode('msr-reg', { sysreg: 0x5a10, xt: 3 }),
    arm64Table.encode('ret', { xn: 30 }),
  ].map(word),
);

const OP = 0x1122_3344_5566_7788n;

function bufferOf(window: JumpWindow, address: bigint) {
  const buffer = given(jump.build(window, { address, op: OP, callees: [CALLEE], toc: null, redZone: true }));
  expect(buffer.bytes.length).toBeLessThanOrEqual(window.bufferBytes);
  return buffer;
}

describeWith(TOOLS, 'one instruction, three places', () => {
  test('T-KP-1: simulated as executed; in a buffer as executed, whatever the callback spoils; the callback sees the registers', () => {
    const next = generator(50);
    const words = [...simulatedWords(next), ...COPIED.map((source) => new ByteView(assemble(source), 'little').u32(0))];
    let [simulated, jumped, taken] = [0, 0, 0];
    const kept: string[] = [];
    // Literals all around.
    const around = new Uint8Array(0x2000).map(() => next() & 0xff);
    const machine = machineWith(new Uint8Array(0));
    for (const value of words) {
      const code = codeOf(word(value), AT);
      const instruction = decoded(code);
      machine.memory.write(AT - 0x1000n, around);
      const rounds = instruction.method === 'copy' ? 2 : 8;
      const windows = jump.windows(code, AT);
      if ('kind' in windows) kept.push(`${instruction.mnemonic} ${windows.code}`);
      for (let round = 0; round < rounds; round++) {
        machine.memory.write(AT, code.bytes);
        seed(machine, next);
        const start = machine.snapshot();
        machine.run({ budget: 1 });
        const executed = stateOf(machine);
        if (machine.register('pc') !== AT + 4n) taken++;
        if (instruction.method === 'simulate') {
          machine.restore(start);
          const result = support.simulate(instruction, cpuOf(machine));
          if (result.kind === 'fault') throw new Error(`${instruction.mnemonic} faulted`);
          machine.setRegister('pc', result.pc);
          expect(`${instruction.mnemonic}: ${stateOf(machine)}`).toBe(`${instruction.mnemonic}: ${executed}`);
          simulated++;
        }
        if ('kind' in windows) continue;
        machine.restore(start);
        const [window] = windows;
        const buffer = AT + 0x4000n;
        const reached = jump.build(window!, { address: buffer, op: OP, callees: [CALLEE], toc: null, redZone: true });
        if (reached.kind === 'refused') {
          // Only b and bl at the ends of their reach.
          expect([reached.errno, /^bl?$/.test(instruction.mnemonic)]).toEqual(['ERANGE', true]);
          continue;
        }
        machine.memory.write(buffer, reached.bytes);
        machine.memory.write(CALLEE, SPOILER);
        machine.memory.write(AT, jump.jump(window!, buffer));
        const before = new Map(REGISTERS.map((name) => [name, machine.register(name)]));
        const wanted = BigInt(/pc=([0-9a-f]+)/.exec(executed)![1]!.replace(/^/, '0x'));
        let seen = 0;
        const unhook = machine.hook(CALLEE, () => {
          const [op, frame] = [machine.register('x0'), machine.register('x1')];
          expect([op, frame % 16n, frame === machine.register('sp')]).toEqual([OP, 0n, true]);
          const wrong = [...support.abi.registers].filter(
            ([, { machine: own, frameOffset, bytes }]) =>
              machine.readWord(frame + BigInt(frameOffset), bytes) !== before.get(own!),
          );
          expect(wrong).toEqual([]);
          seen++;
          return 'continue';
        });
        // Everything up to where the instruction itself would have led.
        const unhookEnd = machine.hook(wanted, () => 'stop');
        machine.run({ budget: 200 });
        unhookEnd();
        unhook();
        expect([seen, `${instruction.mnemonic}: ${stateOf(machine)}`]).toEqual([
          1,
          `${instruction.mnemonic}: ${executed}`,
        ]);
        jumped++;
      }
    }
    process.stdout.write(`arm64: ${simulated} simulated, ${jumped} through buffers, ${taken} led elsewhere\n`);
    // What has no way on without a register: counted by name.
    expect(new Set(kept)).toEqual(
      new Set([
        'blr no-free-register',
        'ldr-x-lit no-free-register',
        'ldrsw-lit no-free-register',
        'ldr-w-lit no-free-register',
        'ldr-fs-lit no-free-register',
        'ldr-fd-lit no-free-register',
        'ldr-fq-lit no-free-register',
        'paciasp arch-refused',
      ]),
    );
    expect(simulated).toBeGreaterThan(700);
    expect(jumped).toBeGreaterThan(600);
  });

  test('a literal that is not mapped faults and changes nothing', () => {
    const machine = machineWith(word(arm64Table.encode('ldr-x-lit', { xt: 4, off: 0xf_fffc })));
    const far = { ...decoded(codeOf(word(arm64Table.encode('ldr-x-lit', { xt: 4, off: -0x10_0000 })), AT)) };
    const before = stateOf(machine);
    const elsewhere = { ...far, address: AT - 0x10_0000n };
    expect(support.simulate(elsewhere, cpuOf(machine))).toEqual({
      kind: 'fault',
      address: AT - 0x20_0000n,
      access: 'read',
    });
    expect(stateOf(machine)).toBe(before);
  });
});

// ---------------------------------------------------------------------------------------------------------------- jump

describeWith(TOOLS, 'the b form', () => {
  const windowOf = (source: string): JumpWindow => given(jump.windows(codeOf(assemble(source), AT), AT))[0]!;

  test('section 10: the buffer saves x0 to x30, sp, pc and nzcv, calls with object and registers, restores all but x18', () => {
    const address = AT + 0x1_0000n;
    const { bytes, copiedOffset } = bufferOf(windowOf('add x0, x0, #1'), address);
    const lines = disassemble(bytes.slice(0, copiedOffset + 8), address).map((line) => line.replace(/ <.*/, ''));
    const pairs = (name: string, from: number, to: number): string[] =>
      Array.from({ length: (to - from) / 2 + 1 }, (_, i) => from + 2 * i).map(
        (n) => `${name} x${n}, x${n + 1}, [sp${n === 0 ? '' : `, #${8 * n}`}]`,
      );
    const literals = bytes.length - 24;
    const literal = (register: number, index: number): unknown =>
      expect.stringMatching(
        new RegExp(`^ldr x${register}, (0x)?${(Number(address) + literals + 8 * index).toString(16)}$`),
      );
    expect(lines).toEqual([
      'sub sp, sp, #0x150',
      ...pairs('stp', 0, 28),
      'str x30, [sp, #240]',
      'add x0, sp, #0x150',
      'str x0, [sp, #248]',
      literal(0, 2),
      'str x0, [sp, #256]',
      'mrs x0, nzcv',
      'str x0, [sp, #264]',
      literal(0, 0),
      'add x1, sp, #0x0',
      literal(9, 1),
      'blr x9',
      'ldr x0, [sp, #264]',
      'msr nzcv, x0',
      ...pairs('ldp', 0, 16),
      'ldr x19, [sp, #152]',
      ...pairs('ldp', 20, 28),
      'ldr x30, [sp, #240]',
      'add sp, sp, #0x150',
      'add x0, x0, #0x1',
      expect.stringMatching(/^b (0x)?10000004$/),
    ]);
    const view = new ByteView(bytes, 'little');
    expect([0, 1, 2].map((i) => view.u64(literals + 8 * i))).toEqual([OP, CALLEE, AT]);
    expect((address + BigInt(literals)) % 8n).toBe(0n);
  });

  test('instructions that know their place, written for the buffer', () => {
    const tail = (source: string): string[] => {
      const address = AT + 0x1_0000n;
      const { bytes, copiedOffset } = bufferOf(windowOf(source), address);
      // Zeros in front of the literals are no code.
      const end = bytes.length - 24;
      const padded = end >= copiedOffset + 8 && new ByteView(bytes, 'little').u32(end - 4) === 0;
      const code = bytes.slice(copiedOffset, padded ? end - 4 : end);
      return disassemble(code, address + BigInt(copiedOffset)).map((line) =>
        line.replace(/ <.*/, '').replace(/^(b .*|cbz .*)0x(?=1000)/, '$1'),
      );
    };
    expect(tail('b .+64')).toEqual(['b 10000040']);
    const moves = (register: string, value: readonly string[]): string[] => [
      `movz ${register}, #${value[0]}`,
      ...[1, 2, 3].map((i) => `movk ${register}, #${value[i]}, lsl #${16 * i}`),
    ];
    const next = moves('x30', ['0x4', '0x1000', '0x0', '0x0']);
    expect(tail('bl .+64')).toEqual([...next, 'b 10000040']);
    expect(tail('blr x5')).toEqual([...next, 'br x5']);
    expect(tail('ret')).toEqual(['ret']);
    const [branch, fall, there] = tail('cbz x3, .+64');
    expect([branch!.replace(/, .*/, ''), fall, there]).toEqual(['cbz x3', 'b 10000004', 'b 10000040']);
    expect(tail('adr x7, .+5')).toEqual([...moves('x7', ['0x5', '0x1000', '0x0', '0x0']), 'b 10000004']);
    expect(tail('ldrsw x7, .+64')).toEqual([
      ...moves('x7', ['0x40', '0x1000', '0x0', '0x0']),
      'ldrsw x7, [x7]',
      'b 10000004',
    ]);
  });

  test('T-KP-17: a landing pad, entry code, and what needs a register stay breakpoints, with the reason', () => {
    const refused = (source: string, more: Partial<ProbeCode> = {}): unknown =>
      jump.windows(codeOf(assemble(source), AT, more), AT);
    for (const source of ['bti c', 'bti jc', 'paciasp', 'pacibsp']) {
      expect(refused(source)).toMatchObject({
        errno: 'EILSEQ',
        code: 'arch-refused',
        reason: expect.stringMatching(/landing pad/),
      });
    }
    expect(refused('nop', { isEntryText: true })).toMatchObject({ errno: 'EILSEQ', code: 'entry-text' });
    expect(refused('blr x30')).toMatchObject({ errno: 'EILSEQ', code: 'no-free-register' });
    expect(refused('ldr q0, .+64')).toMatchObject({ errno: 'EILSEQ', code: 'no-free-register' });
    expect(refused('ldr xzr, .+64')).toMatchObject({ errno: 'EILSEQ', code: 'no-free-register' });
    expect(refused('svc #0')).toMatchObject({ errno: 'EINVAL', code: 'system' });
    // The twins.
    expect(refused('nop')).toHaveLength(1);
    expect(refused('autiasp')).toHaveLength(1);
    expect(refused('blr x29')).toHaveLength(1);
  });

  test('ERANGE: a buffer and a way on beyond 128 MiB, the last place of each in reach', () => {
    const build = (source: string, address: bigint): unknown =>
      jump.build(windowOf(source), { address, op: 0n, callees: [CALLEE], toc: null, redZone: false });
    const far = { kind: 'refused', errno: 'ERANGE', code: 'out-of-reach' };
    expect(build('ret', AT + 0x7ff_fff0n)).toMatchObject({ kind: 'buffer' });
    expect(build('ret', AT + 0x800_0000n)).toMatchObject(far);
    expect(build('ret', AT - 0x800_0000n)).toMatchObject({ kind: 'buffer' });
    expect(build('ret', AT - 0x800_0010n)).toMatchObject(far);
    // The branch back stands behind what was saved.
    expect(build('nop', AT + 0x7ff_fff0n)).toMatchObject(far);
    expect(build('b .-0x4000000', AT + 0x400_0000n)).toMatchObject(far);
    expect(build('b .-0x4000000', AT + 0x3f0_0000n)).toMatchObject({ kind: 'buffer' });
    // The callback may be anywhere: its address is a literal.
    expect(
      given(
        jump.build(windowOf('nop'), {
          address: AT + 16n,
          op: 0n,
          callees: [0xffff_8000_0000_0000n],
          toc: null,
          redZone: false,
        }),
      ).kind,
    ).toBe('buffer');
  });

  test('T-KP-20, section 10: one word each way, in the class of words that may be exchanged under a running processor', () => {
    expect([jump.maxBytes, jump.needsQuiescence]).toEqual([4, false]);
    const window = windowOf('add x0, x0, #1');
    expect(window).toMatchObject({ form: 'b', address: AT, jumpBytes: 4, bytes: assemble('add x0, x0, #1') });
    const buffer = AT + 0x7ff_fff0n;
    expect(disassemble(jump.jump(window, buffer), AT)[0]).toMatch(/^b (0x)?17fffff0/);
    const stored = (bytes: Uint8Array): unknown => [{ kind: 'store', address: AT, bytes }, { kind: 'sync' }];
    expect(jump.optimize(window, buffer)).toEqual(stored(jump.jump(window, buffer)));
    expect(jump.undo(window, buffer)).toEqual(stored(support.breakpoint(new Uint8Array(4))));
  });
});

// ------------------------------------------------------------------------------------------------------ state machines

describe('state machines', () => {
  const original = concatBytes([0x9100_0400, 0x9100_0421, 0xf940_09e0, 0xd503_245f, 0xd65f_03c0].map(word));
  const text = () => {
    const current = original.slice();
    const slots = new SlotPool([{ start: AT + 0x1_0000n, end: AT + 0x1_4000n }]);
    const code = codeOf(original, AT);
    const stores: string[] = [];
    const core = new TextMachine({
      support,
      slots,
      redZone: true,
      callees: [AT + 0x2_0000n],
      toc: null,
      store: {
        isFile: false,
        read: (address, size) => current.slice(Number(address - AT), Number(address - AT) + size),
        store(address, bytes) {
          if (address >= AT + BigInt(current.length)) return;
          stores.push(`${Number(address - AT)}: ${Buffer.from(bytes).toString('hex')}`);
          current.set(bytes, Number(address - AT));
        },
        sync: () => undefined,
      },
      check(address) {
        const instruction = support.decode(code, address);
        if (instruction.kind === 'refused') return instruction;
        return { kind: 'valid', address, code, instruction, ftrace: false };
      },
    });
    const kind = (at: number): string => {
      const value = new ByteView(current, 'little').u32(at);
      return value >>> 26 === 5 ? 'b' : value === 0xd420_0080 ? 'brk' : 'original';
    };
    return { core, current, stores, kind };
  };

  test('T-KP-20, T-KP-21, T-KP-17: breakpoint first, then the branch; neighbours leave each other alone; a landing pad stays a breakpoint; bytes come back', () => {
    for (const lookup of ['as-written', 'covering'] as const) {
      const { core, kind } = text();
      const probes = new Kprobes2009(core, { optimization: true, lookup });
      for (const at of [0n, 4n, 8n, 12n]) {
        expect(probes.register(new Kprobe(AT + at, {}, FLAGS_2009.OPTIMIZE))).toBe('done');
        expect(kind(Number(at))).toBe('brk');
        probes.tick(10);
        probes.quiescence();
      }
      expect([0, 4, 8, 12, 16].map(kind)).toEqual(['b', 'b', 'b', 'brk', 'original']);
    }
    const { core, kind, current, stores } = text();
    const modern = new KprobesModern(core, { optimization: true });
    const all = [0n, 4n, 12n].map((at) => new Kprobe(AT + at));
    for (const each of all) {
      expect(modern.register(each)).toBe('done');
      modern.tick(10);
      modern.quiescence();
      modern.tick(10);
    }
    expect([0, 4, 8, 12].map(kind)).toEqual(['b', 'b', 'original', 'brk']);
    // No store but of whole words at their places, and the breakpoint always first.
    expect(stores.every((each) => /^\d+: [0-9a-f]{8}$/.test(each))).toBe(true);
    expect(stores.filter((each) => each.startsWith('0: '))[0]).toBe('0: 800020d4');
    for (const each of all) modern.unregister(each);
    for (let i = 0; i < 3; i++) {
      modern.tick(10);
      modern.quiescence();
    }
    expect(current).toEqual(original);
  });
});
