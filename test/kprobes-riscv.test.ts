/**
 * Probes of RISC-V: what can be probed, breakpoints of two lengths, copies, simulation, the jal and the auipc-jalr form with their windows, dead
 * registers and buffers, and the order of stores. Expectations: binutils (words, texts, boundaries), the rules, and the same instruction executed
 * at its own place.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { deadRegister, riscvProbes as support } from '../src/arch-riscv/kprobes.js';
import { FLOAT_REGISTER_NAMES, REGISTER_NAMES, riscvTable } from '../src/arch-riscv/isa.js';
import { riscv64 } from '../src/arch-riscv/index.js';
import { wordBytes } from '../src/bytes.js';
import { Machine, type StopReason } from '../src/emulator/index.js';
import type { JumpWindow, ProbeCode, ProbeInstruction, ProbeRefusal } from '../src/kprobes/model.js';
import { FLAGS_2009, Kprobe } from '../src/kprobes/objects.js';
import { SlotPool } from '../src/kprobes/slots.js';
import { Kprobes2009 } from '../src/kprobes/state-2009.js';
import { KprobesModern } from '../src/kprobes/state-modern.js';
import { TextMachine } from '../src/kprobes/text-machine.js';
import { ProbeText } from '../src/kprobes/validate.js';
import { cpuOf } from './support/probe-everywhere.js';
import { builtSamples, openBytes, readSample } from './support/pipeline.js';
import { assemble, codeOf, disassemble, jumpForm } from './support/riscv-probes.js';
import { accessBytes, executableRows } from './support/riscv-batch.js';
import { describeWith } from './support/tools.js';

const AT = 0x1000_0000n;
const TOOLS = ['riscv64-linux-gnu-as', 'riscv64-linux-gnu-ld', 'riscv64-linux-gnu-objdump'];
const jump = jumpForm();
const hashOf = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function given<T extends object>(value: T | ProbeRefusal): T {
  if ('errno' in value) throw new Error(value.reason);
  return value;
}
const verdict = (code: ProbeCode, offset = 0): string => {
  const found = support.decode(code, code.start + BigInt(offset));
  return found.kind === 'refused' ? `${found.errno} ${found.code}` : found.method;
};
const decoded = (code: ProbeCode, offset = 0): ProbeInstruction =>
  given(support.decode(code, code.start + BigInt(offset)));
const codeFrom = (source: string, more: Partial<ProbeCode> = {}): ProbeCode =>
  codeOf(assemble(source, AT).bytes, AT, more);
function machineOf(): Machine {
  if (riscv64.emulation.kind === 'none') throw new Error(riscv64.emulation.reason);
  return new Machine({ lifter: riscv64.emulation.lifter });
}

// ------------------------------------------------------------------------------------------------------- what can be probed

const CLASSES: readonly (readonly [source: string, verdict: string])[] = [
  ['addi a0,a0,1', 'copy'], ['c.addi a0,1', 'copy'], ['ld a5,8(a1)', 'copy'], ['sd ra,8(sp)', 'copy'], ['c.sdsp ra,8(sp)', 'copy'],
  ['lui a0,5', 'copy'], ['c.lui a0,5', 'copy'], ['mul a0,a1,a2', 'copy'], ['div a0,a1,a2', 'copy'], ['sh1add a0,a1,a2', 'copy'],
  ['rev8 a0,a1', 'copy'], ['amoadd.w a0,a1,(a2)', 'copy'], ['fadd.d fa0,fa1,fa2', 'copy'], ['fld fa0,8(a0)', 'copy'],
  ['c.nop', 'copy'], ['nop', 'copy'], ['c.mv a0,a1', 'copy'], ['c.addi16sp sp,-32', 'copy'], ['c.addi4spn a0,sp,16', 'copy'],
  ['jal zero,.+64', 'simulate'], ['jal ra,.+64', 'simulate'], ['jal t0,.+64', 'simulate'], ['jalr zero,0(ra)', 'simulate'],
  ['jalr ra,16(a5)', 'simulate'], ['auipc a0,5', 'simulate'], ['beq a0,a1,.+16', 'simulate'], ['bgeu a0,a1,.+16', 'simulate'],
  ['c.j .+16', 'simulate'], ['c.jr ra', 'simulate'], ['c.jr a5', 'simulate'], ['c.jalr a5', 'simulate'], ['c.beqz a0,.+16', 'simulate'],
  ['c.bnez a0,.+16', 'simulate'],
  ['ebreak', 'EINVAL trap'], ['c.ebreak', 'EINVAL trap'], ['unimp', 'EINVAL trap'], ['c.unimp', 'EINVAL trap'], ['ecall', 'EINVAL system'],
  ['csrrw a0,fcsr,a1', 'EINVAL system'], ['rdtime a0', 'EINVAL system'], ['csrrsi zero,frm,3', 'EINVAL system'],
  ['fence', 'EINVAL system'], ['fence.i', 'EINVAL system'], ['fence.tso', 'EINVAL system'], ['sret', 'EINVAL privileged'],
  ['mret', 'EINVAL privileged'], ['wfi', 'EINVAL privileged'], ['sfence.vma', 'EINVAL privileged'],
  ['lr.w a0,(a1)', 'EINVAL exclusive-sequence'], ['sc.d a0,a2,(a1)', 'EINVAL exclusive-sequence'],
  ['.4byte 0xffffffff', 'EILSEQ undecodable'], ['.4byte 0x0000007b', 'EILSEQ undecodable'],
]; // prettier-ignore

describeWith(TOOLS, 'what can be probed', () => {
  test('K-ADDR-5: system and fence rejected, traps, privileged and reservations too; jal, jalr, auipc, branches simulated', () => {
    const { bytes } = assemble(CLASSES.map(([source]) => `${source}\n.balign 16, 0`).join('\n'), AT);
    const found = CLASSES.map(([source], i) => [source, verdict(codeOf(bytes.slice(16 * i, 16 * i + 16), AT))]);
    expect(found).toEqual(CLASSES.map(([source, expected]) => [source, expected]));
  });

  test('K-ADDR-5: nothing between lr and sc, up to 16 instructions back', () => {
    const code = codeFrom(`1: lr.w a0,(a1)
      addi a0,a0,1
      c.addi a2,1
      sc.w a3,a0,(a1)
      bnez a3,1b
      nop
      lr.d a0,(a1)
      ${'nop\n'.repeat(17)}`);
    const offsets = [0, 4, 8, 10, 14, 18, 22, ...Array.from({ length: 17 }, (_, i) => 26 + 4 * i)];
    const no = 'EINVAL exclusive-sequence';
    const starts = disassemble(code.bytes, AT).map((line) => (line.split(' ')[0]!.length === 4 ? 2 : 4));
    let at = 0;
    const places = starts.map((size) => {
      const here = at;
      at += size;
      return here;
    });
    expect(places.length).toBe(offsets.length);
    expect(places.map((offset) => verdict(code, offset))).toEqual([
      no, no, no, no, 'simulate', 'copy', no, ...Array.from({ length: 16 }, () => no), 'copy',
    ]); // prettier-ignore
  });

  test("K-ADDR-4: exactly the boundaries of objdump's text are instructions, in all functions of samples", () => {
    let boundaries = 0;
    let between = 0;
    for (const name of ['riscv64/program-patchable-4', 'riscv64/program-rv64g-mcount']) {
      const { program, sites } = openBytes(readSample(name));
      const { stdout } = spawnSync('riscv64-linux-gnu-objdump', ['-d', '-z', join(builtSamples, name)], {
        encoding: 'utf8',
      });
      const starts = new Set([...stdout.matchAll(/^\s*([0-9a-f]+):\t/gm)].map((line) => BigInt(`0x${line[1]!}`)));
      const text = new ProbeText(program, sites);
      for (const range of program.code) {
        for (let at = range.address; at < range.address + BigInt(range.bytes.length); at++) {
          const code = text.code(range, at);
          if (code === null) continue;
          const found = support.decode(code, at);
          const isBoundary = found.kind === 'instruction' || found.code !== 'not-a-boundary';
          expect([at.toString(16), isBoundary]).toEqual([at.toString(16), starts.has(at)]);
          if (starts.has(at)) boundaries++;
          else {
            between++;
            expect(found).toMatchObject({ errno: 'EILSEQ', code: 'not-a-boundary' });
          }
        }
      }
    }
    expect([boundaries > 500, between > 1000]).toEqual([true, true]);
  });

  test('K-BP-1: ebreak over four bytes, c.ebreak over two; the trap leaves its own address', () => {
    expect(disassemble(support.breakpoint(new Uint8Array(4)), AT)).toEqual(['00100073 ebreak']);
    expect(disassemble(support.breakpoint(new Uint8Array(2)), AT)).toEqual(['9002 c.ebreak']);
    const machine = machineOf();
    for (const size of [2, 4]) {
      machine.load(AT, support.breakpoint(new Uint8Array(size)), { permission: 'rx', size: 0x1000 });
      machine.setRegister('pc', AT);
      expect(machine.run({ budget: 1 })).toMatchObject({ kind: 'trap', instruction: AT });
      expect(machine.register('pc') - AT).toBe(BigInt(support.trapDelta));
      machine.memory.unmap(AT, 0x1000);
    }
  });

  test('K-ADDR-7: a site is probed through ftrace; strictly inside its words: EINVAL, between parcels: EILSEQ', () => {
    const { program, sites } = openBytes(readSample('riscv64/program-rv64g-patchable-2'));
    const text = new ProbeText(program, sites);
    const at = sites.ip(0);
    const range = program.codeAt(at)!;
    expect(text.validateAt(range, at)).toMatchObject({ kind: 'valid', site: 0 });
    expect(text.validateAt(range, at + 4n)).toMatchObject({ errno: 'EINVAL', code: 'inside-site' });
    expect(text.validateAt(range, at + 2n)).toMatchObject({ errno: 'EILSEQ', code: 'not-a-boundary' });
    const compressed = openBytes(readSample('riscv64/program-patchable-4'));
    const inner = new ProbeText(compressed.program, compressed.sites);
    const site = compressed.sites.ip(0);
    const home = compressed.program.codeAt(site)!;
    for (const delta of [2n, 4n, 6n]) {
      expect(inner.validateAt(home, site + delta)).toMatchObject({ errno: 'EINVAL', code: 'inside-site' });
    }
    expect(inner.validateAt(home, site + 8n).kind).toBe('valid');
  });

  test('the frame is struct pt_regs; arguments are a0 to a7, the ninth is at sp', () => {
    // Offsets of asm/ptrace.h, as section 4 of 30-riscv has them.
    const places = { epc: 0, ra: 8, sp: 16, gp: 24, tp: 32, t0: 40, t1: 48, t2: 56, s0: 64, s1: 72, a0: 80, a7: 136, s2: 144, s11: 216, t3: 224, t6: 248, status: 256, badaddr: 264, cause: 272, orig_a0: 280 }; // prettier-ignore
    for (const [name, place] of Object.entries(places))
      expect([name, support.abi.registers.get(name)?.frameOffset]).toEqual([name, place]);
    expect([support.abi.registers.size, support.abi.frameBytes]).toEqual([36, 288]);
    expect(support.abi.arguments).toEqual(['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7']);
    expect([support.abi.stackArgumentOffset, support.abi.result]).toEqual([0, 'a0']);
  });
});

// ------------------------------------------------------------------------------------------------------------------ slots

describeWith(TOOLS, 'slots', () => {
  test('a slot has the instruction and a jump behind the original; a breakpoint where no jump is wanted or reaches', () => {
    for (const [source, text, size, stop] of [
      ['ld a5,8(a1)', '0085b783 ld a5,8(a1)', 4, '00100073 ebreak'],
      ['c.mv a0,a1', '852e c.mv a0,a1', 2, '9002 c.ebreak'],
    ] as const) {
      const instruction = decoded(codeFrom(source));
      const slot = AT + 0x8_0000n;
      const boosted = given(support.slots.write(instruction, slot, true));
      expect(boosted.end).toEqual({ kind: 'jump' });
      const back = `jal zero,0x${(AT + BigInt(size)).toString(16)}`;
      expect(disassemble(boosted.bytes, slot).map((line, i) => (i === 0 ? line : line.slice(9)))).toEqual([text, back]);
      const stepped = given(support.slots.write(instruction, slot, false));
      expect(stepped.end).toEqual({ kind: 'breakpoint', offset: size });
      expect(disassemble(stepped.bytes, slot)).toEqual([text, stop]);
      const far = given(support.slots.write(instruction, AT + 0x1_0000_0000n, true));
      expect(disassemble(far.bytes, slot)).toEqual([text, stop]);
      expect(support.slots.finish(instruction, slot, cpuOf(machineOf()))).toBe(AT + BigInt(size));
    }
  });

  test('an instruction that an exception table names is not followed by a jump', () => {
    const instruction = decoded(codeFrom('lw a0,(a1)', { hasException: () => true }));
    expect(instruction.boostable).toBe(false);
    expect(given(support.slots.write(instruction, AT + 64n, true)).end.kind).toBe('breakpoint');
  });
});

// ------------------------------------------------------------------------------------------------------------- simulation

describe('simulation', () => {
  test('every simulated row with values around signs, links and zero registers: as executed at its place', () => {
    const machine = machineOf();
    machine.map({ address: AT, size: 0x1000, permission: 'rwx' });
    const values = [0n, 1n, 2n, (1n << 63n) - 1n, 1n << 63n, (1n << 64n) - 1n, AT + 0x81n];
    const words: number[] = [];
    for (const row of ['beq', 'bne', 'blt', 'bge', 'bltu', 'bgeu']) {
      for (const rs2 of [11, 10, 0])
        for (const off of [-0x40, 0x42, 4]) words.push(riscvTable.encode(row, { rs1: 10, rs2, off }));
    }
    for (const rd of [0, 1, 5, 10, 11]) {
      for (const off of [-0x800, 0x7fe, 0xf_fffe, -0x10_0000]) words.push(riscvTable.encode('jal', { rd, off }));
      for (const imm of [0, 1, -2048, 2047]) words.push(riscvTable.encode('jalr', { rd, rs1: 10, imm }));
      for (const upper of [0, 0x1000, -0x8000_0000, 0x7fff_f000]) words.push(riscvTable.encode('auipc', { rd, upper }));
    }
    for (const off of [-256, 254]) {
      words.push(riscvTable.encode('c.beqz', { rs1c: 10, off }), riscvTable.encode('c.bnez', { rs1c: 10, off }));
    }
    for (const off of [-2048, 2046]) words.push(riscvTable.encode('c.j', { off }));
    words.push(riscvTable.encode('c.jr', { rs1: 10 }), riscvTable.encode('c.jalr', { rs1: 10 }));
    let cases = 0;
    for (const word of words) {
      const size = (word & 3) === 3 ? 4 : 2;
      const code = codeOf(wordBytes(word, 'little').slice(0, size), AT);
      const instruction = decoded(code);
      expect(instruction.method).toBe('simulate');
      machine.memory.write(AT, code.bytes);
      for (const a of values) {
        for (const b of values) {
          const set = (): void => {
            machine.setRegister('pc', AT);
            for (const [name, value] of [['ra', 7n], ['t0', 9n], ['a0', a], ['a1', b]] as const) machine.setRegister(name, value); // prettier-ignore
          };
          const state = (): string =>
            ['pc', 'ra', 't0', 'a0', 'a1'].map((name) => machine.register(name).toString(16)).join(' ');
          set();
          machine.step();
          const expected = state();
          set();
          const result = support.simulate(instruction, cpuOf(machine));
          if (result.kind === 'next') machine.setRegister('pc', result.pc);
          expect([word.toString(16), state()]).toEqual([word.toString(16), expected]);
          cases++;
        }
      }
    }
    expect(cases).toBeGreaterThan(5000);
  });
});

// ------------------------------------------------------------------------------------------------------------------- jumps

const windowsOf = (code: ProbeCode, offset = 0): readonly JumpWindow[] | ProbeRefusal =>
  jump.windows(code, code.start + BigInt(offset));
const forms = (code: ProbeCode, offset = 0): string[] => {
  const found = windowsOf(code, offset);
  return 'kind' in found ? [`${found.errno} ${found.code}`] : found.map(({ form, bytes }) => `${form} ${bytes.length}`);
};

describeWith(TOOLS, 'jump forms', () => {
  test('section 10: windows are whole instructions over four or eight bytes, up to six and ten', () => {
    expect(forms(codeFrom('addi a0,a0,1\naddi a1,a1,1\nret'))).toEqual(['jal 4', 'auipc-jalr t1 8']);
    expect(forms(codeFrom('c.addi a0,1\nc.addi a1,1\naddi a2,a2,100\nret'))).toEqual(['jal 4', 'auipc-jalr t1 8']);
    expect(forms(codeFrom('c.addi a0,1\naddi a1,a1,100\nc.addi a2,1\nc.addi a3,1\nret'))).toEqual([
      'jal 6',
      'auipc-jalr t1 8',
    ]);
    expect(forms(codeFrom('c.addi a0,1\naddi a1,a1,100\naddi a2,a2,100\nret'))).toEqual(['jal 6', 'auipc-jalr t1 10']);
    expect(jump.maxBytes).toBe(10);
    expect(jump.needsQuiescence).toBe(true);
    // The function ends.
    expect(forms(codeFrom('c.addi a0,1\nc.jr ra'))).toEqual(['jal 4']);
    expect(forms(codeFrom('c.addi a0,1\nc.jr ra'), 2)).toEqual(['EILSEQ too-short']);
  });

  test('section 10: what may be in a window: copies, auipc; a branch, jump, call or return only at its end', () => {
    expect(forms(codeFrom('auipc a0,5\naddi a0,a0,1\nret'))).toEqual(['jal 4', 'auipc-jalr t1 8']);
    expect(forms(codeFrom('1: c.addi a0,1\nc.bnez a0,1b\naddi a1,a1,1\nret'))[0]).toBe('jal 4');
    expect(forms(codeFrom('c.bnez a0,1f\nc.addi a1,1\nnop\n1: ret'))).toEqual(['EINVAL not-boostable']);
    expect(forms(codeFrom('c.jr ra\nc.nop\nnop'))).toEqual(['EINVAL not-boostable']);
    expect(forms(codeFrom('jal t0,.+64\nnop\nret'))).toEqual(['EINVAL not-boostable']);
    expect(forms(codeFrom('jal ra,.+64\nnop\nret'))).toEqual(['jal 4']);
    expect(forms(codeFrom('c.addi a0,1\nc.ebreak\nnop\nret'))).toEqual(['EINVAL trap']);
    expect(forms(codeFrom('fence\nret'))).toEqual(['EINVAL system']);
  });

  test('section 10: nobody may jump into a window; its start and its end are free', () => {
    const into = (target: number): string =>
      forms(codeFrom(`c.addi a0,1\nc.addi a1,1\nnop\nbeqz a0,.-${8 - target}\nret`))[0]!;
    expect([0, 2, 4].map(into)).toEqual(['jal 4', 'EILSEQ branch-into-window', 'jal 4']);
    // Eight bytes have more boundaries than four.
    expect(forms(codeFrom('nop\n1: nop\nnop\nbnez a0,1b\nret'))).toEqual(['jal 4']);
  });

  test('section 10, X-2: indirect jumps but ret, unknown size, entry text, exception tables, sites in the window', () => {
    const source = 'addi a0,a0,1\naddi a1,a1,1\n';
    expect(forms(codeFrom(`${source}jr a5`))).toEqual(['EILSEQ indirect-jump']);
    expect(forms(codeFrom(`${source}jr t0`))).toEqual(['EILSEQ indirect-jump']);
    expect(forms(codeFrom(`${source}jr a5`, { noJumpTables: true }))).toEqual(['jal 4']);
    expect(forms(codeFrom(`${source}jalr ra,0(a5)\nret`))).toEqual(['jal 4', 'auipc-jalr t1 8']);
    expect(forms(codeFrom(`${source}ret`, { sizeKnown: false }))).toEqual(['EILSEQ unknown-size']);
    expect(forms(codeFrom(`${source}ret`, { isEntryText: true }))).toEqual(['EILSEQ entry-text']);
    expect(forms(codeFrom(`${source}ret`, { hasException: () => true }))).toEqual(['EILSEQ exception-table']);
    const otherPatch: ProbeCode['otherPatch'] = (start, end) =>
      start < AT + 8n && end > AT + 4n ? 'a jump label' : null;
    expect(forms(codeFrom(`${source}ret`, { otherPatch }))).toEqual(['jal 4']);
    expect(forms(codeFrom(`${source}.4byte 0xffffffff`))).toEqual(['EILSEQ undecodable']);
  });

  test('section 10 (b): a register that is written before it is read on every way; never t0 at the entry', () => {
    const free = (source: string, offset = 0, more: Partial<ProbeCode> = {}): string | null => {
      const found = deadRegister(codeFrom(source, more), offset);
      return found === null ? null : REGISTER_NAMES[found]!;
    };
    expect(free('addi a0,a0,1\nret')).toBe('t1');
    expect(free('addi a0,t1,1\nret')).toBe('t3');
    expect(free('li t1,0\naddi a0,t1,1\nret')).toBe('t1');
    // One of two ways reads it.
    expect(free('beqz a0,1f\nret\n1: mv a0,t1\nret')).toBe('t3');
    expect(free('beqz a0,1f\nli t1,1\n1: mv a0,t1\nret')).toBe('t3');
    // On one way a call reads arguments, on the other temporaries are read.
    const many = 't1 t3 t4 t5 t6 t2'.split(' ').map((name) => `add a0,a0,${name}`).join('\n'); // prettier-ignore
    expect(free(`beqz a0,1f\njal ra,.+0x100\nret\n1: ${many}\nret`)).toBe(null);
    // Read in the next round only; and what the round before wrote.
    expect(free('1: mv a1,t1\nnop\nbnez a0,1b\nret', 4)).toBe('t3');
    expect(free('1: mv a1,t1\naddi t1,a0,1\nbnez a0,1b\nret')).toBe('t3');
    const reads = 't1 t3 t4 t5 t6 t2'.split(' ').map((name) => `add a0,a0,${name}`).join('\n'); // prettier-ignore
    expect(free(`${reads}\nret`)).toBe('a7');
    expect(free(`nop\n${reads}\nret`, 4)).toBe('t0');
    // Where ftrace links through t0: behind its site, too.
    const siteAt: ProbeCode['siteAt'] = (at) => (at < AT + 4n ? { ip: AT, start: AT, sizeBytes: 4 } : null);
    expect(free(`nop\n${reads}\nret`, 4, { siteAt })).toBe('a7');
    const arguments_ = 'a0 a1 a2 a3 a4 a5 a6 a7'.split(' ').map((name) => `add a0,a0,${name}`).join('\n'); // prettier-ignore
    expect(free(`${reads}\n${arguments_}\nret`)).toBe(null);
    expect(forms(codeFrom(`${reads}\n${arguments_}\nret`))).toEqual(['jal 4']);
    // Calls read arguments and t2, and spoil temporaries; jumps elsewhere read everything.
    expect(free(`jal ra,.+0x100\n${reads}\nret`)).toBe('t1');
    expect(free(`jal ra,.+0x100\n${reads}\nret`, 4)).toBe('t0');
    expect(free('jr a5')).toBe(null);
    expect(free('jal t0,.+0x100\nret')).toBe(null);
    expect(free('ebreak')).toBe(null);
    expect(free('nop')).toBe(null);
  });

  test('reach: jal 1 MiB, auipc and jalr 2 GiB, with room for the way back', () => {
    const code = codeFrom('addi a0,a0,1\naddi a1,a1,1\nret');
    const [near, far] = given(windowsOf(code)) as [JumpWindow, JumpWindow];
    const build = (window: JumpWindow, address: bigint): string => {
      const buffer = jump.build(window, { address, op: 1n, callees: [AT], toc: null, redZone: true });
      return buffer.kind === 'buffer' ? 'buffer' : buffer.code;
    };
    for (const window of [near, far]) {
      const [low, high] = [AT + window.reach.min, AT + window.reach.max].map((at) => (at + 7n) & ~7n) as [
        bigint,
        bigint,
      ];
      expect([build(window, low), build(window, high - 8n)]).toEqual(['buffer', 'buffer']);
      expect([build(window, low - 8n), build(window, high + 8n)]).toEqual(['out-of-reach', 'out-of-reach']);
    }
    expect([near.reach.min, far.reach.max > 0x7fff_0000n]).toEqual([-0x10_0000n, true]);
    const buffer = AT + 0x4567_8000n;
    expect(disassemble(jump.jump(far, buffer), AT)).toEqual(['45678317 auipc t1,0x45678', '00030067 jalr zero,0(t1)']);
    expect(disassemble(jump.jump(near, AT + 0x8_0000n), AT)).toEqual([
      '0000006f'.replace('0000006f', hexJal(0x8_0000)) + ` jal zero,0x${(AT + 0x8_0000n).toString(16)}`,
    ]);
    const six = given(windowsOf(codeFrom('c.addi a0,1\naddi a1,a1,100\nret')))[0]!;
    expect(disassemble(jump.jump(six, AT + 0x100n), AT).map((line) => line.split(' ')[1])).toEqual(['jal', 'c.ebreak']);
  });
  const hexJal = (off: number): string => riscvTable.encode('jal', { rd: 0, off }).toString(16).padStart(8, '0');

  test('the buffer: frame of 288 bytes, all registers, object and registers to the callback, copies, the way back', () => {
    const code = codeFrom('c.addi a0,1\nauipc a1,5\naddi a2,a2,1\nret');
    const window = given(windowsOf(code))[0]!;
    const at = AT + 0x1000n;
    const op = 0x1122_3344_5566_7788n;
    const callee = 0xffff_ffff_8000_0000n;
    const buffer = given(jump.build(window, { address: at, op, callees: [callee], toc: null, redZone: true }));
    expect(buffer.bytes.length).toBeLessThanOrEqual(window.bufferBytes);
    const lines = disassemble(buffer.bytes, at).map((line) => line.slice(line.indexOf(' ') + 1));
    const names = REGISTER_NAMES.slice(3);
    const st = (name: string): string => `sd ${name},${support.abi.registers.get(name)!.frameOffset}(sp)`;
    const ld = (name: string): string => st(name).replace('sd', 'ld');
    const literal = expect.stringMatching(/^ld (\w+),\d+\(\1\)$/) as unknown as string;
    expect(lines.slice(0, lines.indexOf('c.addi a0,1'))).toEqual([
      'addi sp,sp,-288', 'sd ra,8(sp)', ...names.map(st),
      'addi t0,sp,288', 'sd t0,16(sp)', 'auipc t0,0x0', literal, 'sd t0,0(sp)',
      'addi t0,zero,32', 'sd t0,256(sp)', 'sd zero,264(sp)', 'addi t0,zero,3', 'sd t0,272(sp)', 'sd zero,280(sp)',
      'auipc a0,0x0', literal, 'addi a1,sp,0', 'auipc t1,0x0', literal, 'jalr ra,0(t1)',
      'ld ra,8(sp)', ...names.map(ld), 'addi sp,sp,288',
    ]); // prettier-ignore
    const first = lines.indexOf('c.addi a0,1');
    expect(lines.slice(first, first + 4)).toEqual([
      'c.addi a0,1',
      'auipc a1,0x0',
      literal,
      `jal zero,0x${(AT + 6n).toString(16)}`,
    ]);
    const view = new DataView(buffer.bytes.buffer, buffer.bytes.byteOffset);
    const literals = [4, 3, 2, 1].map((n) => view.getBigUint64(buffer.bytes.length - 8 * n, true));
    expect(literals).toEqual([AT, op, callee, AT + 2n + 0x5000n]);
  });

  test('R-ENC-3, X-6, X-7: stores, in order: whoever arrives meets the breakpoint or the jump, whatever was stored', () => {
    const sources = [
      ['addi a0,a0,1\naddi a1,a1,1\nret', 0],
      ['c.addi a0,1\nc.addi a1,1\naddi a2,a2,1\nret', 0],
      ['c.addi a0,1\naddi a1,a1,100\naddi a2,a2,1\nret', 0],
      ['c.nop\naddi a0,a0,1\naddi a1,a1,1\nc.nop\nret', 2],
      ['c.nop\naddi a0,a0,1\nc.addi a1,1\naddi a3,a3,1\nret', 2],
    ] as const;
    let prefixes = 0;
    for (const [source, offset] of sources) {
      const code = codeFrom(source);
      for (const window of given(windowsOf(code, offset))) {
        const buffer = AT + 0x1000n;
        const text = code.bytes.slice();
        const own = window.instructions[0]!.bytes;
        text.set(support.breakpoint(own), offset);
        const armed = text.slice();
        const done = text.slice();
        done.set(jump.jump(window, buffer), offset);
        const expected = new Set(['c.ebreak', 'ebreak', window.form === 'jal' ? 'jal' : 'auipc']);
        const walk = (steps: ReturnType<typeof jump.optimize>): string[] => {
          const seen: string[] = [];
          for (const step of steps) {
            if (step.kind === 'sync') continue;
            // A store is seen in part at any parcel: only what no arriving thread reaches may be stored so.
            const atomic = step.bytes.length === 2 || (step.bytes.length === 4 && step.address % 4n === 0n);
            for (let part = atomic ? step.bytes.length : 2; part <= step.bytes.length; part += 2) {
              text.set(step.bytes.subarray(0, part), Number(step.address - AT));
              const [line] = disassemble(text.slice(offset), AT + BigInt(offset));
              const name = line!.split(' ')[1]!;
              // Whoever takes the jump must find all of it.
              if (name === 'jal' || name === 'auipc') expect(hexOf(text)).toBe(hexOf(done));
              seen.push(name);
              prefixes++;
            }
          }
          return seen;
        };
        const on = walk(jump.optimize(window, buffer));
        expect(on.filter((name) => !expected.has(name))).toEqual([]);
        expect(on.at(-1)).toBe(window.form === 'jal' ? 'jal' : 'auipc');
        expect(hexOf(text)).toBe(hexOf(done));
        const off = walk(jump.undo(window, buffer));
        expect(off.filter((name) => name !== 'c.ebreak' && name !== 'ebreak')).toEqual([]);
        expect(hexOf(text)).toBe(hexOf(armed));
      }
    }
    expect(prefixes).toBeGreaterThan(40);
  });
});

// ---------------------------------------------------------------------------------------------------------- three places

const CODE = 0x1_0000n;
const DATA = 0x2_0000n;
const SLOT = 0x3_0000n;
const BUFFER = 0x3_1000n;
const NOP = [0x13, 0, 0, 0] as const;
const C_NOP = [0x01, 0] as const;
const CALLEE = 0x3_2000n;
const STACK = 0x4_0000n;

class Random {
  constructor(private state = 0x2545_f491) {}
  below(limit: number): number {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state = (this.state ^ (this.state << 5)) >>> 0;
    return this.state % limit;
  }
}

describe('one instruction, three places', () => {
  test('T-KP-1: instructions of every row do the same at their place, in a slot and in a buffer near and far', () => {
    const machine = machineOf();
    const far = CODE + 0x4000_0000n;
    for (const address of [CODE, DATA, SLOT, BUFFER, CALLEE, far])
      machine.map({ address, size: 0x1000, permission: 'rwx' });
    machine.map({ address: STACK, size: 0x2000, permission: 'rw' });
    // What a callee may: temporaries, arguments.
    const spoil = [5, 6, 7, ...Array.from({ length: 8 }, (_, i) => 10 + i), 28, 29, 30, 31];
    const callee = [
      ...spoil.map((rd) => riscvTable.encode('addi', { rd, rs1: 0, imm: -1 - rd })),
      riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 }),
    ];
    callee.forEach((word, i) => machine.memory.write(CALLEE + BigInt(4 * i), wordBytes(word, 'little')));
    const random = new Random();
    const data = Uint8Array.from({ length: 0x1000 }, () => random.below(256));
    let cases = 0;
    let faults = 0;
    const jumps = { near: 0, far: 0 };
    const rows = executableRows();
    for (const row of rows) {
      for (let turn = 0; turn < 3; turn++) {
        const operands: Record<string, number> = {};
        for (const field of row.fields) {
          const isAccess = accessBytes(row) > 0 && (field.name === 'imm' || field.name === 'uimm');
          const span = 2 ** Math.min(field.widthBits, field.spec.kind === 'register' ? field.widthBits : 6);
          let value = random.below(span);
          value -= value % 2 ** field.lowBit;
          if (field.spec.kind === 'register') value = (field.spec.bias ?? 0) + random.below(field.spec.bias ? 8 : 32);
          if (isAccess) value &= 0x38;
          operands[field.name] = value;
        }
        let word: number;
        try {
          word = riscvTable.encode(row.mnemonic, operands);
        } catch {
          continue;
        }
        if (riscvTable.decode(word, row.sizeBytes)?.row.mnemonic !== row.mnemonic) continue;
        const own = wordBytes(word, 'little').slice(0, row.sizeBytes);
        // Nops behind it, so that a jump of eight bytes has room; then a return.
        const rest = [...(row.sizeBytes === 2 ? C_NOP : NOP), ...NOP, ...NOP, 0x67, 0x80, 0x00, 0x00];
        const code = codeOf(Uint8Array.from([...own, ...rest]), CODE, { noJumpTables: true });
        const instruction = support.decode(code, CODE);
        if (instruction.kind === 'refused') continue;
        const seed = random.below(0x7fff_ffff);
        const prepare = (): void => {
          const own_ = new Random(seed);
          machine.memory.write(DATA, data);
          machine.memory.write(STACK, new Uint8Array(0x2000));
          for (let i = 1; i < 32; i++) {
            const wide = own_.below(4) === 0;
            const value = wide ? BigInt(own_.below(0x7fff_ffff)) << 20n : DATA + 0x800n + BigInt(16 * own_.below(16));
            machine.setRegister(REGISTER_NAMES[i]!, i === 2 ? STACK + 0x1800n : value);
          }
          for (const name of FLOAT_REGISTER_NAMES) machine.setRegister(name, BigInt(own_.below(0x7fff_ffff)) << 33n);
          machine.memory.write(CODE, code.bytes);
        };
        const names = machine.registerNames.filter((name) => name !== 'pc');
        const state = (stop: StopReason | null, without: readonly string[] = []): string => {
          const end = stop?.kind === 'fault' ? `fault ${stop.access} ${stop.address.toString(16)}` : 'next';
          const registers = names
            .filter((name) => !without.includes(name))
            .map((name) => `${name}=${machine.register(name).toString(16)}`);
          const stack = machine.memory.read(STACK + 0x1800n, 0x800)!;
          return [end, ...registers, hashOf(machine.memory.read(DATA, 0x1000)!), hashOf(stack)].join(' ');
        };
        const size = BigInt(row.sizeBytes);
        const at = (): bigint => machine.register('pc');
        prepare();
        machine.setRegister('pc', CODE);
        const stop = machine.step();
        if (stop.kind !== 'step-limit' && stop.kind !== 'fault') continue;
        const failed = stop.kind === 'fault' ? stop : null;
        const expected = state(failed);
        const end = at();
        if (failed) faults++;
        // As a breakpoint, in a slot or simulated.
        prepare();
        machine.memory.write(CODE, support.breakpoint(own));
        if (instruction.method === 'copy') {
          const slot = given(support.slots.write(instruction, SLOT, true));
          machine.memory.write(SLOT, slot.bytes);
          machine.setRegister('pc', SLOT);
          const there = machine.run({ budget: 2 });
          expect([row.mnemonic, state(there.kind === 'fault' ? there : null)]).toEqual([row.mnemonic, expected]);
          if (!failed) expect([row.mnemonic, at()]).toEqual([row.mnemonic, CODE + size]);
        } else {
          const result = support.simulate(instruction, cpuOf(machine));
          if (result.kind === 'next') machine.setRegister('pc', result.pc);
          expect([row.mnemonic, state(null), at()]).toEqual([row.mnemonic, expected, end]);
        }
        cases++;
        // As a jump, near and far: as the first of a window, where it leads away as the last.
        const leads = instruction.method === 'simulate' && row.mnemonic !== 'auipc';
        const before = row.sizeBytes === 2 ? C_NOP : NOP;
        const programs = leads
          ? [code, codeOf(Uint8Array.from([...before, ...own, ...NOP, 0x67, 0x80, 0, 0]), CODE, { noJumpTables: true })]
          : [code];
        for (const program of programs) {
          const found = windowsOf(program);
          if ('kind' in found) continue;
          for (const window of found) {
            const long = window.form !== 'jal';
            const address = long ? far : BUFFER;
            const buffer = jump.build(window, { address, op: 0x1234n, callees: [CALLEE], toc: null, redZone: true });
            if (buffer.kind === 'refused') continue;
            const spoiled = ['through', 'back', 'branch'].flatMap((name) => {
              const register = Object.entries(window).find(([key]) => key === name)?.[1] as unknown;
              return typeof register === 'number' ? [REGISTER_NAMES[register]!] : [];
            });
            // At its own place.
            prepare();
            machine.memory.write(CODE, program.bytes);
            machine.setRegister('pc', CODE);
            const stopped = machine.run({ budget: window.instructions.length });
            const fault = stopped.kind === 'fault' ? stopped : null;
            const wanted = state(fault, spoiled);
            const goal = at();
            prepare();
            machine.memory.write(CODE, program.bytes);
            machine.memory.write(address, buffer.bytes);
            for (const step of jump.optimize(window, address)) {
              if (step.kind === 'store') machine.memory.write(step.address, step.bytes);
            }
            machine.setRegister('pc', CODE);
            let here: StopReason | null = null;
            for (let i = 0; i < 400 && here === null && !(i > 2 && at() === goal); i++) {
              const one = machine.step();
              if (one.kind !== 'step-limit') here = one;
            }
            const what = [row.mnemonic, window.form];
            expect([...what, state(here?.kind === 'fault' ? here : null, spoiled)]).toEqual([...what, wanted]);
            if (!fault) expect([...what, at()]).toEqual([...what, goal]);
            jumps[long ? 'far' : 'near']++;
          }
        }
      }
    }
    process.stdout.write(
      `riscv64: ${cases} instructions of ${rows.length} rows at three places, ${jumps.near} short and ${jumps.far} long jumps, ${faults} of them faulted, the same everywhere\n`,
    );
    expect(cases).toBeGreaterThan(350);
    expect(jumps.near).toBeGreaterThan(400);
    expect(jumps.far).toBeGreaterThan(300);
  });
});

// ------------------------------------------------------------------------------------------------------------ quiescence

describeWith(TOOLS, 'H4: who stands in a window', () => {
  /** Runs a thread that stands at an instruction of the function when the text changes; a0 at the end, or why there is none. */
  function resume(source: string, offset: number, boundary: number, form: 'jal' | 'auipc', undo: boolean): string {
    const code = codeOf(assemble(source, CODE).bytes, CODE);
    const window = given(windowsOf(code, offset)).find((each) => each.form.startsWith(form))!;
    const address = form === 'jal' ? BUFFER : CODE + 0x4000_0000n;
    const machine = machineOf();
    for (const at of [CODE, BUFFER, CALLEE, CODE + 0x4000_0000n])
      machine.map({ address: at, size: 0x1000, permission: 'rwx' });
    machine.map({ address: STACK, size: 0x1000, permission: 'rw' });
    machine.memory.write(CALLEE, wordBytes(0x0000_8067, 'little'));
    const buffer = given(jump.build(window, { address, op: 0n, callees: [CALLEE], toc: null, redZone: true }));
    machine.memory.write(address, buffer.bytes);
    machine.memory.write(CODE, code.bytes);
    const carryOut = (steps: ReturnType<typeof jump.optimize>): void => {
      for (const step of steps) if (step.kind === 'store') machine.memory.write(step.address, step.bytes);
    };
    machine.setRegister('sp', STACK + 0x800n);
    machine.setRegister('ra', DATA);
    machine.setRegister('a0', 1n);
    machine.setRegister('pc', CODE);
    machine.run({ budget: boundary });
    carryOut(jump.optimize(window, address));
    if (undo) carryOut(jump.undo(window, address));
    const stop = machine.run({ budget: 400 });
    if (stop.kind !== 'fault' || machine.register('pc') !== DATA) return stop.kind;
    return machine.register('a0').toString();
  }
  // 1 + 1 = 2; 2 + 100 = 102; 102 + 1000 = 1102.
  const SOURCE = 'c.addi a0,1\naddi a0,a0,100\naddi a0,a0,1000\nret';

  test('T-KP-31, H4: without quiescence who stands behind the first instruction executes what is left of the others; at the ends all is well', () => {
    const ends = (form: 'jal' | 'auipc'): string[] =>
      [0, 1, 2, 3].map((boundary) => resume(SOURCE, 0, boundary, form, false));
    const good = '1102';
    // The short window holds two instructions, the long one three.
    const short = ends('jal');
    expect([short[0], short[2], short[3]]).toEqual([good, good, good]);
    expect(short[1]).not.toBe(good);
    const long = ends('auipc');
    expect([long[0], long[3]]).toEqual([good, good]);
    expect(long[1]).not.toBe(good);
    expect(long[2]).not.toBe(good);
  });

  test('with quiescence nobody is there; undone again, those behind the breakpoint find what was there', () => {
    for (const form of ['jal', 'auipc'] as const) {
      for (const boundary of [1, 2, 3])
        expect([form, boundary, resume(SOURCE, 0, boundary, form, true)]).toEqual([form, boundary, '1102']);
      expect(resume(SOURCE, 0, 0, form, true)).toBe('trap');
    }
  });
});

describeWith(TOOLS, 'state machines', () => {
  const SOURCE = 'c.addi a0,1\naddi a1,a1,100\nld a2,0(a3)\naddi a4,a4,1\nbeq a0,a1,.+8\nfence\njal ra,.+64\nret';
  function text(): { core: TextMachine; bytes: Uint8Array; original: Uint8Array; slots: SlotPool } {
    const original = assemble(SOURCE, AT).bytes;
    const bytes = original.slice();
    const code = codeOf(original, AT);
    const slots = new SlotPool([{ start: AT + 0x1_0000n, end: AT + 0x1_8000n }]);
    const core = new TextMachine({
      support,
      slots,
      redZone: true,
      callees: [AT + 0x2_0000n],
      toc: null,
      store: {
        isFile: false,
        read: (address, size) => bytes.slice(Number(address - AT), Number(address - AT) + size),
        store(address, data) {
          if (address < AT + BigInt(bytes.length)) bytes.set(data, Number(address - AT));
        },
        sync: () => undefined,
      },
      check(address) {
        const instruction = support.decode(code, address);
        if (instruction.kind === 'refused') return instruction;
        return { kind: 'valid', address, code, instruction, ftrace: false };
      },
    });
    return { core, bytes, original, slots };
  }
  const shown = (bytes: Uint8Array): string[] => disassemble(bytes, AT).map((line) => line.split(' ')[1]!);

  test('T-KP-21, T-KP-27, T-KP-28: a probe in a window undoes its jump first; all removed, every byte and slot is back', () => {
    const { core, bytes, original, slots } = text();
    const probes = new KprobesModern(core, { optimization: true });
    const settle = (): void => {
      for (let i = 0; i < 4; i++) {
        probes.tick(10);
        probes.quiescence();
      }
    };
    const first = new Kprobe(AT);
    expect(probes.register(first)).toBe('done');
    expect(shown(bytes)[0]).toBe('c.ebreak');
    settle();
    // A window of six bytes: the jump, and what nobody reaches.
    expect(shown(bytes).slice(0, 3)).toEqual(['jal', 'c.ebreak', 'ld']);
    // One with a handler behind the instruction stays a breakpoint (K-OPT-2).
    const second = new Kprobe(AT + 2n, { post: () => undefined });
    expect(probes.register(second)).toBe('done');
    expect(shown(bytes).slice(0, 2)).toEqual(['c.ebreak', 'ebreak']);
    settle();
    // The first cannot have a window that holds the second.
    expect(shown(bytes).slice(0, 2)).toEqual(['c.ebreak', 'ebreak']);
    expect(probes.unregister(second)).toBe('done');
    settle();
    expect(shown(bytes).slice(0, 2)).toEqual(['jal', 'c.ebreak']);
    expect(probes.unregister(first)).toBe('done');
    settle();
    expect(hexOf(bytes)).toBe(hexOf(original));
    expect(slots.count).toBe(0);
  });

  test('T-KP-24: what cannot be optimised stays a breakpoint; what cannot be probed is refused', () => {
    const { core, bytes } = text();
    const probes = new Kprobes2009(core, { optimization: true });
    const at = shown(bytes).reduce<number[]>((all, _name, i) => [...all, i === 0 ? 0 : all[i - 1]! + (shown(bytes)[i - 1]!.startsWith('c.') ? 2 : 4)], []); // prettier-ignore
    const place = (name: string): bigint => AT + BigInt(at[shown(bytes).indexOf(name)]!);
    const [fence, ret] = [place('fence'), place('jalr')];
    expect(probes.register(new Kprobe(fence, {}, FLAGS_2009.OPTIMIZE))).not.toBe('done');
    const probe = new Kprobe(ret, {}, FLAGS_2009.OPTIMIZE);
    expect(probes.register(probe)).toBe('done');
    probes.tick(20);
    probes.quiescence();
    expect(hexOf(bytes.slice(-4))).not.toBe('67800000');
    expect(probes.unregister(probe)).toBe('done');
    expect(hexOf(bytes.slice(-4))).toBe('67800000');
  });
});
