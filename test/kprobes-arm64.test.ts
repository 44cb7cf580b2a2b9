/**
 * Probes of arm64: what can be probed, copies, simulation, the b form and its buffer. Expectations:
 * binutils, the rules, and the same instruction executed at its own place.
 */
import { describe, expect, test } from '@jest/globals';
import { arm64 as arch } from '../src/arch-arm64/index.js';
import { arm64Probes as support } from '../src/arch-arm64/kprobes.js';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { wordBytes } from '../src/bytes.js';
import { Machine, type StopReason } from '../src/emulator/index.js';
import type { ProbeCode, ProbeInstruction } from '../src/machine/probes.js';
import { FLAGS_2009, Kprobe } from '../src/kprobes/objects.js';
import { SlotPool } from '../src/kprobes/slots.js';
import { Kprobes2009 } from '../src/kprobes/state-2009.js';
import { TextMachine } from '../src/kprobes/text-machine.js';
import { ARM64_TOOLS, assembleArm64, disassembleArm64 } from './support/arm64-probes.js';
import { codeOf, compact, decodedBy, digest, given, jumpsOf, verdictOf } from './support/probe-code.js';
import { Random } from './support/random.js';
import { cpuOf } from './support/probe-everywhere.js';
import { describeWith } from './support/tools.js';

const AT = 0x1_0000n;

const jump = jumpsOf(support);
const verdict = (code: ProbeCode, offset?: number): string => verdictOf(support, code, offset);
const decoded = (code: ProbeCode, offset?: number): ProbeInstruction => decodedBy(support, code, offset);

const CLASSES: readonly (readonly [source: string, verdict: string])[] = [
  ['add x0,x1,#1', 'copy'],
  ['ldr x0,[x1,#8]', 'copy'],
  ['stp x29,x30,[sp,#-16]!', 'copy'],
  ['fadd d0,d1,d2', 'copy'],
  ['ldadd x0,x1,[x2]', 'copy'],
  ['mrs x0,tpidr_el0', 'copy'],
  ['dmb ish', 'copy'],
  ['isb', 'copy'],
  ['nop', 'copy'],
  ['bti c', 'copy'],
  ['paciasp', 'copy'],
  ['autiasp', 'copy'],
  ['b .+64', 'simulate'],
  ['bl .+64', 'simulate'],
  ['b.ne .+64', 'simulate'],
  ['cbz x0,.+64', 'simulate'],
  ['cbnz w0,.+64', 'simulate'],
  ['tbz x0,#33,.+64', 'simulate'],
  ['tbnz x0,#3,.+64', 'simulate'],
  ['br x0', 'simulate'],
  ['blr x0', 'simulate'],
  ['ret', 'simulate'],
  ['adr x0,.+64', 'simulate'],
  ['adrp x0,.+4096', 'simulate'],
  ['ldr x0,.+64', 'simulate'],
  ['ldr w0,.+64', 'simulate'],
  ['ldrsw x0,.+64', 'simulate'],
  ['prfm pldl1keep,.+64', 'simulate'],
  ['svc #0', 'EINVAL system'],
  ['hvc #0', 'EINVAL system'],
  ['smc #0', 'EINVAL system'],
  ['wfi', 'EINVAL system'],
  ['brk #4', 'EINVAL trap'],
  ['hlt #0', 'EINVAL trap'],
  ['udf #0', 'EINVAL trap'],
  ['eret', 'EINVAL privileged'],
  ['msr tpidr_el0,x0', 'EINVAL privileged'],
  ['msr daifset,#2', 'EINVAL privileged'],
  ['retaa', 'EINVAL unsupported-instruction'],
  ['braa x0,x1', 'EINVAL unsupported-instruction'],
  ['ldr d0,.+64', 'EINVAL unsupported-instruction'],
  ['ldxr x0,[x1]', 'EINVAL exclusive-sequence'],
  ['stlxr w0,x1,[x2]', 'EINVAL exclusive-sequence'],
  ['ldaxp x0,x1,[x2]', 'EINVAL exclusive-sequence'],
  ['.inst 0xffffffff', 'EINVAL undecodable'],
];

describeWith(ARM64_TOOLS, 'arm64: what can be probed', () => {
  test('K-ADDR-5: exclusives, msr, eret and exceptions are refused; branches, adr, adrp and literals simulated', () => {
    const bytes = assembleArm64(CLASSES.map(([source]) => source).join('\n'));
    // Each alone: exclusives would tell on those behind them.
    const found = CLASSES.map(([source], i) => [source, verdict(codeOf(bytes.slice(4 * i, 4 * i + 4), AT))]);
    expect(found).toEqual(CLASSES.map(([source, expected]) => [source, expected]));
  });

  test('K-ADDR-5: a load-exclusive that is not closed within 16 instructions back; exception tables', () => {
    const code = codeOf(
      assembleArm64(`ldxr x0,[x1]\nadd x0,x0,#1\nstxr w2,x0,[x1]\ncbnz w2,.-12\nldaxr x0,[x1]\n${'nop\n'.repeat(17)}`),
      AT,
    );
    const no = 'EINVAL exclusive-sequence';
    expect(Array.from({ length: 22 }, (_, i) => verdict(code, 4 * i))).toEqual([
      no, no, no, 'simulate', no, ...Array.from({ length: 16 }, () => no), 'copy',
    ]); // prettier-ignore
    expect(verdict(codeOf(assembleArm64('nop'), AT, { hasException: () => true }))).toBe('EINVAL exception-table');
  });

  test('K-ADDR-4: misaligned addresses are refused', () => {
    const code = codeOf(assembleArm64('nop\nnop'), AT);
    for (const offset of [1, 2, 3, 6]) expect(verdict(code, offset)).toBe('EINVAL misaligned');
    expect(verdict(code, 8)).toBe('EINVAL not-a-boundary');
  });

  test('K-ADDR-1, K-ADDR-7: the symbol of a function that begins with a site means the site; behind a landing pad and elsewhere nothing moves', () => {
    const bytes = assembleArm64('nop\n'.repeat(8));
    const site = (start: bigint, ip: bigint): Parameters<typeof codeOf>[2] => ({
      siteAt: (address) =>
        address >= AT + start && address < AT + ip + 4n
          ? { ip: AT + ip, start: AT + start, sizeBytes: Number(ip - start) + 4 }
          : null,
    });
    const meant = (more: Parameters<typeof codeOf>[2], address = AT): bigint =>
      support.adjust(codeOf(bytes, AT, more), address) - AT;
    expect(meant({})).toBe(0n);
    expect(meant(site(0n, 4n))).toBe(4n);
    // =4,2 with a landing pad: the site begins in front of the function.
    expect(meant(site(-8n, 8n))).toBe(8n);
    // =2 with a landing pad: bti is no part of it.
    expect(meant(site(4n, 8n))).toBe(0n);
    expect(meant(site(0n, 4n), AT + 8n)).toBe(8n);
  });

  test('K-BP-1: brk #4, behind copies brk #6', () => {
    expect(compact(support.breakpoint(new Uint8Array(4)))).toBe('800020d4');
    const slot = (source: string, at: bigint, boost: boolean): string[] =>
      disassembleArm64(given(support.slots.write(decoded(codeOf(assembleArm64(source), AT)), at, boost)).bytes, at);
    expect(slot('ldr x1,[x1,#8]', AT + 0x1000n, true)).toEqual(['ldr x1, [x1, #8]', 'b 0x10004']);
    expect(slot('ldr x1,[x1,#8]', AT + 0x1000n, false)).toEqual(['ldr x1, [x1, #8]', 'brk #0x6']);
    expect(slot('ldr x1,[x1,#8]', AT + 0x1000_0000n, true)).toEqual(['ldr x1, [x1, #8]', 'brk #0x6']);
  });

  test('the frame is struct pt_regs: x0 to x30, sp, pc, pstate', () => {
    for (const [name, at] of Object.entries({ x0: 0, x30: 240, lr: 240, sp: 248, pc: 256, pstate: 264 })) {
      expect(support.abi.registers.get(name)?.frameOffset).toBe(at);
    }
    expect(support.abi.frameBytes).toBe(336);
  });
});

// ----------------------------------------------------------------------------------------- buffers

function bufferOf(source: string, address = AT + 0x1000n): { lines: string[]; tail: string[]; bytes: Uint8Array } {
  const [window] = given(jump.windows(codeOf(assembleArm64(source), AT), AT));
  const buffer = given(
    jump.build(window!, { address, op: 0x1122_3344_5566_7788n, callees: [0x5_0000_0000n], toc: null, redZone: false }),
  );
  expect(buffer.bytes.length).toBeLessThanOrEqual(window!.bufferBytes);
  const lines = disassembleArm64(buffer.bytes, address);
  return { lines, tail: lines.slice(buffer.copiedOffset / 4), bytes: buffer.bytes };
}

describeWith(ARM64_TOOLS, 'arm64: buffers', () => {
  test('K-A64-2: x0 to x30, sp, pc and the flags are saved, the callback called through a register, all but x18 restored', () => {
    const { lines } = bufferOf('add x0,x0,#1');
    const pairs = Array.from({ length: 15 }, (_, i) => 2 * i);
    const at = (n: number): string => (n === 0 ? '[sp]' : `[sp, #${8 * n}]`);
    const literal = (register: string): unknown =>
      expect.stringMatching(new RegExp(`^ldr ${register}, 0x11[0-9a-f]{3}$`));
    const expected = [
      'sub sp, sp, #0x160',
      ...pairs.map((n) => `stp x${n}, x${n + 1}, ${at(n)}`),
      'add x0, sp, #0x160',
      'stp x30, x0, [sp, #240]',
      literal('x0'),
      'mrs x1, nzcv',
      'stp x0, x1, [sp, #256]',
      'stp x29, x0, [sp, #336]',
      'add x29, sp, #0x150',
      'mov x0, #0xffffffffffffffff',
      'str x0, [sp, #280]',
      literal('x0'),
      'mov x1, sp',
      literal('x16'),
      'blr x16',
      'ldr x0, [sp, #264]',
      'msr nzcv, x0',
      ...pairs.slice(1).map((n) => (n === 18 ? 'ldr x19, [sp, #152]' : `ldp x${n}, x${n + 1}, ${at(n)}`)),
      'ldr x30, [sp, #240]',
      'ldp x0, x1, [sp]',
      'add sp, sp, #0x160',
      'add x0, x0, #0x1',
      'b 0x10004',
    ];
    expect(lines.slice(0, expected.length)).toEqual(expected);
  });

  test('what knows its place leads where it led', () => {
    const tail = (source: string, count: number): string[] =>
      bufferOf(source)
        .tail.slice(0, count)
        .map((line) => line.replace(/^(ldr x\d+), 0x.*$/, '$1, =').replace(/, 0x110[0-9a-f]{2}$/, ', there'));
    expect(tail('b .+64', 1)).toEqual(['b 0x10040']);
    expect(tail('bl .+64', 2)).toEqual(['ldr x30, =', 'b 0x10040']);
    expect(tail('blr x3', 2)).toEqual(['ldr x30, =', 'ret x3']);
    expect(tail('br x3', 1)).toEqual(['br x3']);
    expect(tail('ret', 1)).toEqual(['ret']);
    expect(tail('adrp x4,.+0x5000', 2)).toEqual(['ldr x4, =', 'b 0x10004']);
    expect(tail('ldrsw x4,.+64', 3)).toEqual(['ldr x4, =', 'ldrsw x4, [x4]', 'b 0x10004']);
    expect(tail('tbnz x4,#40,.+64', 3)).toEqual(['tbnz x4, #40, there', 'b 0x10004', 'b 0x10040']);
    expect(tail('b.hi .+64', 3)).toEqual([expect.stringMatching(/^b\.hi /), 'b 0x10004', 'b 0x10040']);
  });

  test('T-KP-17: landing pads stay breakpoints, and so does a call through the register that it links in', () => {
    for (const source of ['bti c', 'bti j', 'bti jc', 'paciasp', 'pacibsp', 'blr x30']) {
      expect(jump.windows(codeOf(assembleArm64(source), AT), AT)).toMatchObject({
        errno: 'EINVAL',
        code: 'not-boostable',
      });
    }
    for (const source of ['bti', 'autiasp', 'nop'])
      expect(jump.windows(codeOf(assembleArm64(source), AT), AT)).toHaveLength(1);
  });

  test('ERANGE: a buffer or a target beyond 128 MiB', () => {
    const FAR = 0x2000_0000n;
    const build = (source: string, address: bigint): unknown => {
      const [window] = given(jump.windows(codeOf(assembleArm64(source), FAR), FAR));
      return jump.build(window!, { address, op: 0n, callees: [0n], toc: null, redZone: false });
    };
    expect(build('nop', FAR + 0x800_0000n)).toMatchObject({ errno: 'ERANGE', code: 'out-of-reach' });
    expect(build('nop', FAR + 0x7ff_ff80n)).toMatchObject({ errno: 'ERANGE' });
    expect(build('b .-0x4000000', FAR + 0x600_0000n)).toMatchObject({ errno: 'ERANGE' });
    expect(build('b .-0x4000000', FAR + 0x100_0000n)).toMatchObject({ kind: 'buffer' });
  });

  test('T-KP-20, T-KP-21, T-KP-32: neighbours leave each other alone; a refused prepare leaves no slot behind', () => {
    const original = assembleArm64('bti c\nadd x0,x0,#1\nbl .+16\nret');
    const current = original.slice();
    const code = codeOf(original, AT);
    const slots = new SlotPool([{ start: AT + 0x1000n, end: AT + 0x2000n }]);
    const core = new TextMachine({
      support,
      slots,
      redZone: false,
      callees: [AT + 0x3000n],
      store: {
        isFile: false,
        read: (address, size) => current.slice(Number(address - AT), Number(address - AT) + size),
        store(address, bytes) {
          if (address < AT + 16n) current.set(bytes, Number(address - AT));
        },
        sync: () => undefined,
      },
      check(address) {
        const instruction = support.decode(code, address);
        return instruction.kind === 'refused'
          ? instruction
          : { kind: 'valid', address, code, instruction, ftrace: false };
      },
    });
    const probes = new Kprobes2009(core, { optimization: true });
    const all = [0n, 4n, 8n, 12n].map((at) => new Kprobe(AT + at, {}, FLAGS_2009.OPTIMIZE));
    expect(probes.register(all[0]!)).toBe('done');
    // The copy of bti, no buffer.
    expect(slots.count).toBe(1);
    for (const probe of all.slice(1)) expect(probes.register(probe)).toBe('done');
    probes.tick(10);
    probes.quiescence();
    expect(disassembleArm64(current, AT).map((line) => line.split(' ')[0])).toEqual(['brk', 'b', 'b', 'b']);
    for (const probe of all) expect(probes.unregister(probe)).toBe('done');
    probes.quiescence();
    expect(compact(current)).toBe(compact(original));
    expect(slots.count).toBe(0);
  });
});

// ------------------------------------------------------------------------------------ three places

const DATA = 0x2_0000n;
const SLOT = 0x3_0000n;
const BUFFER = 0x3_1000n;
const CALLEE = 0x3_2000n;
const STACK = 0x4_0000n;
/** Registers of the system that differ from one execution to the next. */
const NEVER_SAME = /^mrs$/;

/** Registers and memory that are the same for the same seed. */
function prepareState(machine: Machine, data: Uint8Array, seed: number, pc: bigint): void {
  const own = new Random(seed);
  machine.memory.write(DATA, data);
  machine.memory.write(STACK, new Uint8Array(0x2000));
  for (let i = 0; i < 31; i++) {
    const value = own.below(4) === 0 ? BigInt(own.below(3)) : DATA + 0x800n + BigInt(8 * own.below(16));
    machine.setRegister(`x${i}`, value);
  }
  for (let i = 0; i < 32; i++) machine.setRegister(`v${i}`, BigInt(own.below(0x7fff_ffff)) << BigInt(own.below(96)));
  machine.setRegister('sp', STACK + 0x1000n);
  machine.setRegister('nzcv', BigInt(own.below(16)) << 28n);
  machine.setRegister('btype', 0n);
  machine.setRegister('pc', pc);
}

/** What an execution left behind, and how it ended; null: it went on. */
function stateOf(machine: Machine, stop: StopReason | null): string {
  const end = stop?.kind === 'fault' ? `fault ${stop.access} ${stop.address.toString(16)}` : (stop?.kind ?? 'next');
  const names = machine.registerNames.filter((each) => each !== 'btype' && (each !== 'pc' || stop === null));
  const shown = names.map((each) => `${each}=${machine.register(each).toString(16)}`);
  const memory = [machine.memory.read(DATA, 0x1000)!, machine.memory.read(STACK + 0x1000n, 0x1000)!];
  return [end, ...shown, ...memory.map((each) => digest(each))].join(' ');
}

interface OneRow {
  readonly machine: Machine;
  readonly code: ReturnType<typeof codeOf>;
  readonly row: { readonly mnemonic: string };
  readonly stop: StopReason;
  readonly prepare: (pc: bigint) => void;
  readonly calleeWords: number;
}

/** Whether the instruction can be in a buffer; there it must leave the same behind. */
function throughBuffer({ machine, code, row, stop, prepare, calleeWords }: OneRow, expected: string): boolean {
  const windows = jump.windows(code, AT);
  if ('kind' in windows) return false;
  // The register of a literal that cannot be loaded holds its address then.
  if (stop.kind === 'fault' && row.mnemonic.endsWith('-lit')) return false;
  const buffer = jump.build(windows[0]!, {
    address: BUFFER,
    op: 5n,
    callees: [CALLEE],
    toc: null,
    redZone: false,
  });
  if (buffer.kind === 'refused') return false;
  machine.memory.write(BUFFER, buffer.bytes);
  machine.memory.write(AT, jump.jump(windows[0]!, BUFFER));
  prepare(AT);
  let result = machine.run({ budget: 1 + buffer.copiedOffset / 4 + calleeWords });
  const isOurs = (pc: bigint): boolean => pc >= BUFFER && pc < BUFFER + 0x1000n;
  for (let step = 0; step < 6 && result.kind === 'step-limit' && isOurs(machine.register('pc')); step++) {
    result = machine.step();
  }
  expect([row.mnemonic, stateOf(machine, result.kind === 'step-limit' ? null : result)]).toEqual([
    row.mnemonic,
    expected,
  ]);
  return true;
}

/** A machine with room for the three places, and what a buffer calls: it changes what it may. */
function machineWithCallee(): { readonly machine: Machine; readonly calleeWords: number } {
  const { emulation } = arch;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const machine = new Machine({ lifter: emulation.lifter });
  for (const address of [AT, DATA, SLOT, BUFFER, CALLEE]) machine.map({ address, size: 0x1000, permission: 'rwx' });
  machine.map({ address: STACK, size: 0x2000, permission: 'rw' });
  const callee = [
    ...Array.from({ length: 18 }, (_, rd) => arm64Table.encode('movz', { sf: 1, hw: 3, imm16: 0xfe00 + rd, rd })),
    arm64Table.encode('msr-reg', { sysreg: 0x5a10, xt: 1 }),
    arm64Table.encode('ret', { xn: 30 }),
  ];
  callee.forEach((word, i) => {
    machine.memory.write(CALLEE + BigInt(4 * i), wordBytes(word, 'little'));
  });
  return { machine, calleeWords: callee.length };
}

describe('arm64: one instruction, three places', () => {
  test('T-KP-1: instructions of every row do the same at their place, in a slot or simulated, and in a buffer', () => {
    const { machine, calleeWords } = machineWithCallee();
    const random = new Random();
    const data = Uint8Array.from({ length: 0x1000 }, () => random.below(256));
    const counts = { cases: 0, simulated: 0, jumps: 0, faults: 0 };
    for (const row of arm64Table.rows) {
      if (row.attributes.decodeOnly === true || NEVER_SAME.test(row.mnemonic)) continue;
      const perRow = row.flow === 'branch' || row.flow === 'jump' ? 24 : 3;
      for (let n = 0, tries = 0; n < perRow && tries < 400; tries++) {
        const bits = (random.below(0x1_0000) << 16) | random.below(0x1_0000);
        const word = ((bits & ~row.mask) | row.match) >>> 0;
        if (arm64Table.decode(word)?.row !== row) continue;
        n++;
        const code = codeOf(wordBytes(word, 'little'), AT);
        const instruction = support.decode(code, AT);
        if (instruction.kind === 'refused') continue;
        const seed = random.below(0x7fff_ffff);
        const prepare = (pc: bigint): void => prepareState(machine, data, seed, pc);
        const state = (stop: StopReason | null): string => stateOf(machine, stop);
        const done = (stop: StopReason): StopReason | null => (stop.kind === 'step-limit' ? null : stop);
        machine.memory.write(AT, code.bytes);
        prepare(AT);
        const stop = machine.step();
        if (stop.kind !== 'step-limit' && stop.kind !== 'fault') continue;
        const expected = state(done(stop));
        counts.cases++;
        if (stop.kind === 'fault') counts.faults++;
        if (instruction.method === 'copy') {
          machine.memory.write(SLOT, given(support.slots.write(instruction, SLOT, true)).bytes);
          prepare(SLOT);
          expect([row.mnemonic, state(done(machine.run({ budget: 2 })))]).toEqual([row.mnemonic, expected]);
        } else {
          prepare(AT);
          const result = support.simulate(instruction, cpuOf(machine));
          if (result.kind === 'next') machine.setRegister('pc', result.pc);
          const shown =
            result.kind === 'next'
              ? state(null)
              : state({ kind: 'fault', access: result.access, address: result.address, instruction: AT });
          expect([row.mnemonic, shown]).toEqual([row.mnemonic, expected]);
          counts.simulated++;
        }
        if (!throughBuffer({ machine, code, row, stop, prepare, calleeWords }, expected)) continue;
        counts.jumps++;
      }
    }
    process.stdout.write(`arm64: ${JSON.stringify(counts)}\n`);
    expect(counts.cases).toBeGreaterThan(600);
    expect(counts.simulated).toBeGreaterThan(100);
    expect(counts.jumps).toBeGreaterThan(600);
  });
});
