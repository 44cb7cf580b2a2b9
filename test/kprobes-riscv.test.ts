/**
 * Probes of RISC-V: what can be probed, copies, simulation, windows with their conditions,
 * registers that are dead, the buffer, and the order of stores. Expectations: binutils, the rules,
 * and the same instruction executed at its own place.
 */
import { describe, expect, test } from '@jest/globals';
import { riscv64 as arch } from '../src/arch-riscv/index.js';
import { riscvProbes as support } from '../src/arch-riscv/kprobes.js';
import { decodeAt, REGISTER_NAMES, riscvTable } from '../src/arch-riscv/isa.js';
import { concatBytes, equalBytes } from '../src/bytes.js';
import { Machine, type StopReason } from '../src/emulator/index.js';
import type { JumpWindow, ProbeCode, ProbeInstruction, ProbeRefusal } from '../src/machine/probes.js';
import { codeOf, compact, decodedBy, digest, given, jumpsOf, verdictOf } from './support/probe-code.js';
import { Random } from './support/random.js';
import { cpuOf } from './support/probe-everywhere.js';
import { assembleRiscv, disassembleRiscv, RISCV_TOOLS } from './support/riscv-probes.js';
import { describeWith } from './support/tools.js';

const AT = 0x1_0000n;

const jump = jumpsOf(support);
const verdict = (code: ProbeCode, offset?: number): string => verdictOf(support, code, offset);
const decoded = (code: ProbeCode, offset?: number): ProbeInstruction => decodedBy(support, code, offset);

function machineAt(bytes: Uint8Array, address = AT): Machine {
  const { emulation } = arch;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const machine = new Machine({ lifter: emulation.lifter });
  machine.map({ address, size: 0x1000, permission: 'rwx' });
  machine.memory.write(address, bytes);
  return machine;
}

const CLASSES: readonly (readonly [source: string, verdict: string])[] = [
  ['addi a0,a0,100', 'copy'],
  ['c.addi a0,1', 'copy'],
  ['ld a0,8(sp)', 'copy'],
  ['c.ldsp a0,8(sp)', 'copy'],
  ['lui a0,0x12345', 'copy'],
  ['amoadd.w a0,a1,(a2)', 'copy'],
  ['fld fa0,0(a0)', 'copy'],
  ['fadd.d fa0,fa1,fa2', 'copy'],
  ['auipc a0,1', 'simulate'],
  ['jal ra,.+64', 'simulate'],
  ['.option norvc; j .+64; .option rvc', 'simulate'],
  ['jalr ra,8(a0)', 'simulate'],
  ['beq a0,a1,.+64', 'simulate'],
  ['c.j .+64', 'simulate'],
  ['c.jr a0', 'simulate'],
  ['c.jalr a0', 'simulate'],
  ['c.beqz a0,.+64', 'simulate'],
  ['c.bnez a0,.+64', 'simulate'],
  ['ebreak', 'EINVAL trap'],
  ['.option norvc; ebreak; .option rvc', 'EINVAL trap'],
  ['c.unimp', 'EINVAL trap'],
  ['ecall', 'EINVAL system'],
  ['rdcycle a0', 'EINVAL system'],
  ['csrw fcsr,a0', 'EINVAL system'],
  ['sret', 'EINVAL privileged'],
  ['wfi', 'EINVAL privileged'],
  ['sfence.vma', 'EINVAL privileged'],
  ['fence', 'EINVAL unsupported-instruction'],
  ['fence.i', 'EINVAL unsupported-instruction'],
  ['.4byte 0x0100000f', 'EINVAL unsupported-instruction'],
  ['lr.w a0,(a1)', 'EINVAL exclusive-sequence'],
  ['sc.d a0,a1,(a2)', 'EINVAL exclusive-sequence'],
  ['.4byte 0x0000007b', 'EINVAL undecodable'],
];

describeWith(RISCV_TOOLS, 'riscv64: what can be probed', () => {
  test('K-ADDR-5: system and fence are refused, what knows its place is simulated', () => {
    const bytes = assembleRiscv(CLASSES.map(([source]) => `${source}\n.balign 16`).join('\n'));
    const found = CLASSES.map(([source], i) => [source, verdict(codeOf(bytes.slice(16 * i, 16 * i + 16), AT))]);
    expect(found).toEqual(CLASSES.map(([source, expected]) => [source, expected]));
  });

  test('K-ADDR-4: boundaries are found from the start of the function; the middle of an instruction is EILSEQ', () => {
    const code = codeOf(assembleRiscv('c.addi a0,1\naddi a0,a0,100\nc.nop\nlui a0,0x12345'), AT);
    const verdicts = [0, 1, 2, 4, 6, 8, 10, 12].map((offset) => verdict(code, offset));
    const no = 'EILSEQ not-a-boundary';
    expect(verdicts).toEqual(['copy', no, 'copy', no, 'copy', 'copy', no, no]);
  });

  test('K-ADDR-5: nothing between a load-reserved and its store-conditional, up to 16 instructions back', () => {
    const code = codeOf(
      assembleRiscv(
        `1: lr.w a0,(a1)\naddi a0,a0,100\nsc.w a2,a0,(a1)\nbnez a2,1b\nlr.w a0,(a1)\n${'c.nop\n'.repeat(17)}`,
      ),
      AT,
    );
    const offsets = [0, 4, 8, 12, 14, ...Array.from({ length: 17 }, (_, i) => 18 + 2 * i)];
    const no = 'EINVAL exclusive-sequence';
    expect(offsets.map((offset) => verdict(code, offset))).toEqual([
      no, no, no, 'simulate', no, ...Array.from({ length: 16 }, () => no), 'copy',
    ]); // prettier-ignore
  });

  test('K-BP-1: the breakpoint is as long as the instruction, and leaves its own address', () => {
    expect(compact(support.breakpoint(assembleRiscv('addi a0,a0,100')))).toBe('73001000');
    expect(compact(support.breakpoint(assembleRiscv('c.addi a0,1')))).toBe('0290');
    expect(support.trapDelta).toBe(0);
  });

  test('the frame is struct pt_regs: epc, x1 to x31, status, badaddr, cause, orig_a0', () => {
    const places = { epc: 0, ra: 8, sp: 16, gp: 24, tp: 32, t0: 40, t1: 48, t2: 56, s0: 64, a0: 80, a7: 136, s2: 144, t3: 224, t6: 248, status: 256, badaddr: 264, cause: 272, orig_a0: 280 }; // prettier-ignore
    for (const [name, at] of Object.entries(places)) expect(support.abi.registers.get(name)?.frameOffset).toBe(at);
    expect(support.abi.frameBytes).toBe(288);
    expect(support.abi.arguments).toEqual(['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7']);
  });

  test('a slot has the instruction and jal x0 behind the original; a breakpoint of its length where none is wanted or reaches', () => {
    const slotOf = (source: string, slot: bigint, boost: boolean): string[] =>
      disassembleRiscv(given(support.slots.write(decoded(codeOf(assembleRiscv(source), AT)), slot, boost)).bytes, slot);
    expect(slotOf('addi a0,a0,100', AT + 0x8_0000n, true)).toEqual(['addi a0,a0,100', 'jal zero,0x10004']);
    expect(slotOf('c.addi a0,1', AT + 0x8_0000n, true)).toEqual(['c.addi a0,1', 'jal zero,0x10002']);
    expect(slotOf('addi a0,a0,100', AT + 0x20_0000n, true)).toEqual(['addi a0,a0,100', 'ebreak']);
    expect(slotOf('c.addi a0,1', AT, false)).toEqual(['c.addi a0,1', 'c.ebreak']);
  });
});

// ----------------------------------------------------------------------------------------- windows

const windowsOf = (source: string, offset = 0, more: Partial<ProbeCode> = {}): readonly JumpWindow[] | ProbeRefusal =>
  jump.windows(codeOf(assembleRiscv(source), AT, more), AT + BigInt(offset));
const formsOf = (source: string, offset = 0): string => {
  const found = windowsOf(source, offset);
  return 'kind' in found
    ? `${found.errno} ${found.code}`
    : found.map(({ form, bytes }) => `${form} ${bytes.length}`).join(', ');
};
const RVC4 = 'c.addi a0,1\n'.repeat(4);

describeWith(RISCV_TOOLS, 'riscv64: windows', () => {
  test('T-KP-32, K-RV-1: whole instructions that cover 4 bytes, or 8 where registers are dead', () => {
    expect(formsOf('addi a0,a0,100\nret')).toBe('jal 4');
    expect(formsOf('c.addi a0,1\naddi a0,a0,100\nret')).toBe('jal 6');
    expect(formsOf('c.addi a0,1\nc.addi a0,2\nret')).toBe('jal 4');
    // t1 is written before it is read, in the window and behind it.
    expect(formsOf('addi a0,a0,100\nlui t1,0x12341\nlui t1,0x12342\nret')).toBe('jal 4, auipc-jalr t1 8');
    expect(formsOf('c.addi a0,1\nc.li t1,1\nc.addi a0,1\nlui t2,0x12341\nlui t1,0x12342\nadd a0,a0,t1\nret')).toBe(
      'jal 4, auipc-jalr t1 10',
    );
    expect(jump.maxBytes).toBe(10);
    expect(jump.needsQuiescence).toBe(true);
  });

  test('T-KP-17: no window where a branch leads into its middle, or a jump through a register might', () => {
    expect(formsOf(`1: c.addi a0,1\n2: c.addi a0,2\nbnez a0,2b\nret`)).toBe('EILSEQ branch-into-window');
    // To the probe itself, and to what is behind the window.
    expect(formsOf(`1: c.addi a0,1\nc.addi a0,2\n2: bnez a0,1b\nbnez a0,2b\nret`)).toBe('jal 4');
    expect(formsOf('c.addi a0,1\nc.addi a0,2\nc.nop\njr a5')).toBe('EILSEQ indirect-jump');
    // One instruction has no middle.
    expect(formsOf('addi a0,a0,100\njr a5')).toBe('jal 4');
    // A tail call through a pair leads where the pair says.
    expect(formsOf('c.addi a0,1\nc.addi a0,2\nc.nop\nauipc t1,16\njr 8(t1)')).toBe('jal 4');
    expect(formsOf('c.addi a0,1\nc.addi a0,2\nc.nop\nauipc t1,0\njr -4(t1)')).toBe('EILSEQ branch-into-window');
    expect(windowsOf('c.addi a0,1\nc.addi a0,2\nc.nop\njr a5', 0, { noJumpTables: true })).toHaveLength(1);
  });

  test('T-KP-17: branches only at the end, nothing that is refused, nothing of others, no exception, a size that is known', () => {
    expect(formsOf('c.beqz a0,.+8\nc.addi a0,1\nc.nop\nc.nop\nret')).toBe('EINVAL not-boostable');
    expect(formsOf('c.addi a0,1\nc.beqz a0,.+8\nc.nop\nc.nop\nc.nop\nret')).toBe('jal 4');
    expect(formsOf('c.addi a0,1\nfence\nret')).toBe('EINVAL unsupported-instruction');
    expect(formsOf('c.addi a0,1\nlr.w a0,(a1)\nsc.w a0,a0,(a1)\nret')).toBe('EINVAL exclusive-sequence');
    expect(formsOf('jalr ra,8(ra)\nret')).toBe('EINVAL not-boostable');
    expect(formsOf('c.nop\nret', 2)).toBe('EILSEQ too-short');
    const refused = (more: Partial<ProbeCode>): unknown => windowsOf(`${RVC4}ret`, 0, more);
    expect(refused({ hasException: (from, to) => from <= AT + 2n && to > AT + 2n })).toMatchObject({
      code: 'exception-table',
    });
    expect(
      refused({ otherPatch: (from, to) => (from <= AT + 2n && to > AT + 2n ? 'a jump label' : null) }),
    ).toMatchObject({
      errno: 'EBUSY',
      code: 'site-in-window',
    });
    expect(refused({ sizeKnown: false })).toMatchObject({ code: 'unknown-size' });
  });

  test('K-RV-2: a register is dead where every way on writes it before a read, a call, a return or the end', () => {
    const far = (source: string, offset = 4): string => {
      const found = windowsOf(`c.nop\nc.nop\n${source}`, offset);
      return 'kind' in found
        ? found.code
        : (found.find(({ form }) => form.startsWith('auipc'))?.scratch?.join(' ') ?? 'none');
    };
    const window = 'addi a0,a0,100\naddi a0,a0,100\n';
    expect(far(`${window}lui t1,0x12341\nret`)).toBe('t1 t1');
    expect(far(`${window}add a0,a0,t1\nlui t1,0x12341\nret`)).toBe('none');
    expect(far(`${window}call .+64\nlui t1,0x12341\nret`)).toBe('none');
    expect(far(`${window}ecall\nlui t1,0x12341\nret`)).toBe('none');
    // Both ways of a branch.
    expect(far(`${window}beqz a0,1f\nlui t1,0x12341\nret\n1: lui t1,0x12342\nret`)).toBe('t1 t1');
    expect(far(`${window}beqz a0,1f\nlui t1,0x12341\nret\n1: ret`)).toBe('none');
    // The window itself writes it: dead in front of it, alive behind it.
    expect(far('lui t1,0x12341\nxori a0,t1,100\nlui t2,0x12341\nadd a0,a0,t1\nret')).toBe('t1 t2');
    // At the entry t0 is the link of hooks, and a0 to a7 are arguments.
    expect(far(`c.nop\nc.nop\nlui t0,0x12341\nlui a5,0x12341\nret`, 0)).toBe('none');
    expect(far(`c.nop\nc.nop\nlui t0,0x12341\nlui a5,0x12341\nlui t1,0x12341\nret`, 0)).toBe('t1 t1');
    expect(far(`${window}lui t0,0x12341\nret`)).toBe('t0 t0');
    // ra, sp, gp and tp never.
    expect(far(`${window}lui ra,0x12341\nlui gp,0x12341\nlui tp,0x12341\nlui sp,0x12341\nret`)).toBe('none');
  });
});

// ----------------------------------------------------------------------------------------- buffers

function bufferOf(
  source: string,
  address: bigint,
  form: 'jal' | 'auipc-jalr' = 'jal',
  offset = 0,
): { window: JumpWindow; bytes: Uint8Array; tail: string[]; lines: string[] } {
  const found = windowsOf(source, offset);
  if ('kind' in found) throw new Error(found.reason);
  const window = found.find((each) => each.form.startsWith(form))!;
  const buffer = given(
    jump.build(window, { address, op: 0x1122_3344_5566_7788n, callees: [0x5_0000_0000n], toc: null, redZone: true }),
  );
  expect(buffer.bytes.length).toBeLessThanOrEqual(window.bufferBytes);
  const lines = disassembleRiscv(buffer.bytes, address);
  return { window, bytes: buffer.bytes, lines, tail: lines.slice(buffer.copiedOffset / 4) };
}

describeWith(RISCV_TOOLS, 'riscv64: buffers', () => {
  test('the template saves x1, x3 to x31, sp as it was, epc, status, cause; calls with object and frame; restores', () => {
    const { lines, bytes } = bufferOf('addi a0,a0,100\nret', AT + 0x1000n);
    const saved = REGISTER_NAMES.slice(1).filter((name) => name !== 'sp');
    const at = (name: string): number => 8 * REGISTER_NAMES.findIndex((each) => each === name);
    // Numbers lie behind the code, at a multiple of 8.
    const start = (4 * 82 + 7) & ~7;
    const literal = (register: string, word: number, index: number): string[] => [
      `auipc ${register},0x0`,
      `ld ${register},${start + 8 * index - 4 * word}(${register})`,
    ];
    const expected = [
      'addi sp,sp,-288',
      ...saved.map((name) => `sd ${name},${at(name)}(sp)`),
      'addi t0,sp,288',
      'sd t0,16(sp)',
      ...literal('t0', 33, 0),
      'sd t0,0(sp)',
      'addi t0,zero,32',
      'sd t0,256(sp)',
      'sd zero,264(sp)',
      'addi t0,zero,3',
      'sd t0,272(sp)',
      'addi t0,zero,-1',
      'sd t0,280(sp)',
      ...literal('a0', 43, 1),
      'addi a1,sp,0',
      ...literal('t0', 46, 2),
      'jalr ra,0(t0)',
      ...saved.map((name) => `ld ${name},${at(name)}(sp)`),
      'addi sp,sp,288',
      'addi a0,a0,100',
      'jal zero,0x10004',
    ];
    expect(lines.slice(0, expected.length)).toEqual(expected);
    const numbers = new DataView(bytes.buffer, bytes.byteOffset + start);
    expect([0, 8, 16].map((place) => numbers.getBigUint64(place, true))).toEqual([
      AT,
      0x1122_3344_5566_7788n,
      0x5_0000_0000n,
    ]);
  });

  test('auipc becomes its result, calls link where they stood, branches at the end lead where they led', () => {
    const near = AT + 0x1000n;
    expect(bufferOf('auipc a3,5\nret', near).tail.slice(0, 3)).toEqual([
      'auipc a3,0x0',
      expect.stringMatching(/^ld a3,\d+\(a3\)$/),
      'jal zero,0x10004',
    ]);
    expect(bufferOf('jal ra,.+64\nret', near).tail.slice(0, 3)).toEqual([
      'auipc ra,0x0',
      expect.stringMatching(/^ld ra,/),
      'jal zero,0x10040',
    ]);
    expect(bufferOf('c.nop\nc.jalr a5\nret', near).tail.slice(0, 4)).toEqual([
      'c.addi zero,0',
      'auipc ra,0x0',
      expect.stringMatching(/^ld ra,/),
      'jalr zero,0(a5)',
    ]);
    expect(bufferOf('c.nop\nc.jr ra', near).tail.slice(0, 2)).toEqual(['c.addi zero,0', 'jalr zero,0(ra)']);
    expect(bufferOf('c.nop\nc.bnez a4,.+32\nret', near).tail.slice(0, 4)).toEqual(
      ['c.addi zero,0', 'bne a4,zero,0x11150', 'jal zero,0x10004', 'jal zero,0x10022'].map((line) =>
        line.startsWith('bne') ? (expect.stringMatching(/^bne a4,zero,0x11[0-9a-f]+$/) as unknown as string) : line,
      ),
    );
    expect(bufferOf('bltu a0,a1,.+32\nret', near).tail.slice(0, 3)).toEqual([
      expect.stringMatching(/^bltu a0,a1,/),
      'jal zero,0x10004',
      'jal zero,0x10020',
    ]);
  });

  test('the jump: jal, or a pair through a dead register with another for the way back; c.ebreak in the rest', () => {
    const source = 'c.addi a0,1\nc.li t1,1\nc.addi a0,1\nlui t2,0x12341\nlui t1,0x12342\nadd a0,a0,t1\nret';
    const near = windowsOf(`c.addi a0,1\naddi a0,a0,100\nret`);
    expect(disassembleRiscv(jump.jump(given(near)[0]!, AT + 0x800n), AT)).toEqual(['jal zero,0x10800', 'c.ebreak']);
    const address = AT + 0x1234_5800n;
    const { window, tail } = bufferOf(source, address, 'auipc-jalr');
    expect(disassembleRiscv(jump.jump(window, address), AT)).toEqual([
      'auipc t1,0x12346',
      'jalr zero,-2048(t1)',
      'c.ebreak',
    ]);
    expect(tail.slice(0, 4)).toEqual(['c.addi a0,1', 'c.li t1,1', 'c.addi a0,1', 'lui t2,0x12341']);
    expect(tail[4]).toMatch(/^auipc t1,/);
    expect(tail[5]).toMatch(/^jalr zero,-?\d+\(t1\)$/);
  });

  test('ERANGE: a buffer out of reach, a way back or a target out of reach of jal', () => {
    const [window] = given(windowsOf('addi a0,a0,100\nret'));
    const build = (each: JumpWindow, address: bigint): unknown =>
      jump.build(each, { address, op: 0n, callees: [0n], toc: null, redZone: false });
    expect(build(window!, AT + 0x10_0000n)).toMatchObject({ errno: 'ERANGE', code: 'out-of-reach' });
    // The buffer is reached, its end does not reach back.
    expect(build(window!, AT + 0xf_fff0n)).toMatchObject({ errno: 'ERANGE' });
    const [branch] = given(windowsOf('beq a0,a1,.-0x800\nret'));
    expect(build(branch!, AT + 0xf_f000n + 0x700n)).toMatchObject({ errno: 'ERANGE' });
  });
});

// -------------------------------------------------------------------------------------- simulation

describe('riscv64: simulation', () => {
  test('branches, jumps and auipc of both lengths, executed and simulated', () => {
    const random = new Random();
    const values = [0n, 1n, -1n, 2n, 0x8000_0000_0000_0000n, 0x7fff_ffff_ffff_ffffn, AT, AT + 0x40n].map((value) =>
      BigInt.asUintN(64, value),
    );
    let cases = 0;
    for (const word of wordsOf(/^(auipc|jalr?|b(eq|ne|lt|ge)u?|c\.(j|jr|jalr|beqz|bnez))$/, 40)) {
      const instruction = decoded(codeOf(word, AT));
      expect(instruction.method).toBe('simulate');
      const machine = machineAt(word);
      const seed = random.below(0x7fff_ffff);
      const run = (body: () => void): string => {
        const own = new Random(seed);
        for (const name of REGISTER_NAMES.slice(1)) machine.setRegister(name, values[own.below(values.length)]!);
        machine.setRegister('pc', AT);
        body();
        return ['pc', ...REGISTER_NAMES.slice(1)]
          .map((name) => `${name}=${machine.register(name).toString(16)}`)
          .join(' ');
      };
      const executed = run(() => machine.step());
      const simulated = run(() => {
        const result = support.simulate(instruction, cpuOf(machine));
        if (result.kind === 'next') machine.setRegister('pc', result.pc);
      });
      expect([instruction.mnemonic, simulated]).toEqual([instruction.mnemonic, executed]);
      cases++;
    }
    expect(cases).toBeGreaterThan(500);
  });

  test('T-KP-1: instructions of every row do the same at their place, in a slot and in a buffer', () => {
    const { cases, faults, jumps } = threePlaces();
    process.stdout.write(
      `riscv64: ${cases} instructions at three places, ${jumps} in buffers, ${faults} faulted, the same everywhere\n`,
    );
    expect(cases).toBeGreaterThan(500);
    expect(jumps).toBeGreaterThan(400);
  });
});

// --------------------------------------------------------------------------------- order of stores

describeWith(RISCV_TOOLS, 'riscv64: the change of a window', () => {
  const cases: readonly (readonly [what: string, source: string, form: 'jal' | 'auipc-jalr', at: bigint])[] = [
    ['a word', '.option norvc\naddi a0,a0,100\naddi a0,a0,7\nret', 'jal', 0n],
    ['two parcels', 'c.addi a0,1\nc.addi a0,2\naddi a0,a0,7\nret', 'jal', 0n],
    ['a parcel and a word, at 2 modulo 4', 'c.nop\nc.addi a0,1\naddi a0,a0,100\nret', 'jal', 2n],
    ['a word at 2 modulo 4', 'c.nop\naddi a0,a0,100\nc.addi a0,1\nret', 'jal', 2n],
    ['two words, far', '.option norvc\naddi a0,a0,100\naddi a0,a0,7\nlui t1,0x12341\nret', 'auipc-jalr', 0n],
    [
      'four instructions, far',
      'c.addi a0,1\nc.addi a0,2\nc.addi a0,3\naddi a0,a0,100\nlui t1,0x12341\nret',
      'auipc-jalr',
      0n,
    ],
  ];
  const CALLEE = 0x5000n;

  /** The function with a window, and a buffer whose callback returns. */
  const made = (
    source: string,
    form: string,
    at: bigint,
  ): { window: JumpWindow; buffer: bigint; text: Uint8Array; bytes: Uint8Array } => {
    const text = assembleRiscv(source);
    const found = given(jump.windows(codeOf(text, AT), AT + at));
    const window = found.find((each) => each.form.startsWith(form))!;
    const buffer = AT + (form === 'jal' ? 0x2000n : 0x200_0000n);
    const { bytes } = given(
      jump.build(window, { address: buffer, op: 0n, callees: [CALLEE], toc: null, redZone: false }),
    );
    return { window, buffer, text, bytes };
  };
  /**
   * What a processor comes to that starts at an address with this text: `returns N`, or how it
   * stops.
   */
  const outcome = ({ buffer, bytes }: { buffer: bigint; bytes: Uint8Array }, text: Uint8Array, pc: bigint): string => {
    const machine = machineAt(text);
    machine.load(buffer, bytes, { permission: 'rx', size: 0x1000 });
    machine.load(CALLEE, assembleReturn(), { permission: 'rx', size: 0x1000 });
    machine.map({ address: 0x8000n, size: 0x2000, permission: 'rw' });
    machine.setRegister('sp', 0x9000n);
    machine.setRegister('ra', 0x3000n);
    machine.setRegister('a0', 0n);
    machine.setRegister('pc', pc);
    const stop = machine.run({ budget: 1000 });
    if (stop.kind === 'fault' && stop.address === 0x3000n) return `returns ${machine.register('a0')}`;
    return stop.kind === 'trap' ? `trap at ${(stop.instruction - AT).toString()}` : stop.kind;
  };

  test.each(cases)(
    '%s: whoever comes to the window finds the breakpoint, the jump or the code, never a mixture',
    (_what, source, form, at) => {
      const setup = made(source, form, at);
      const { window, buffer, text } = setup;
      const offset = Number(at);
      const expected = outcome(setup, text, AT);
      expect(expected).toMatch(/^returns /);
      const current = text.slice();
      current.set(support.breakpoint(window.bytes), offset);
      const armed = current.slice();
      const seen = new Set<string>();
      for (const steps of [jump.optimize(window, buffer), jump.undo(window, buffer)]) {
        for (const step of steps) {
          if (step.kind === 'store') {
            const end = Number(step.address - AT) + step.bytes.length;
            current.set(step.bytes, Number(step.address - AT));
            // Behind the first parcel nobody is; what others may fetch meanwhile is stored whole.
            const first = step.address === window.address;
            if (first) expect([2, 4]).toContain(step.bytes.length);
            if (first && step.bytes.length === 4) expect(step.address % 4n).toBe(0n);
            expect(end).toBeLessThanOrEqual(offset + window.bytes.length);
          }
          seen.add(outcome(setup, current, AT));
        }
      }
      expect([...seen].sort()).toEqual([expected, `trap at ${offset}`].sort());
      expect(equalBytes(current, armed)).toBe(true);
    },
  );

  test.each(cases)(
    'T-KP-31 %s: a thread in the window needs quiescence exactly if the window has several instructions',
    (_what, source, form, at) => {
      const setup = made(source, form, at);
      const { window, buffer, text } = setup;
      const jumped = text.slice();
      jumped.set(jump.jump(window, buffer), Number(at));
      let unsafe = 0;
      let inside = 0;
      let offset = Number(at);
      for (const each of window.instructions.slice(0, -1)) {
        offset += each.bytes.length;
        inside++;
        // It has been interrupted there, and goes on after the change.
        if (outcome(setup, jumped, AT + BigInt(offset)) !== outcome(setup, text, AT + BigInt(offset))) unsafe++;
      }
      // With quiescence nobody is inside: they are at the first instruction or behind the last.
      expect(outcome(setup, jumped, window.address)).toBe(outcome(setup, text, window.address));
      const end = window.address + BigInt(window.bytes.length);
      expect(outcome(setup, jumped, end)).toBe(outcome(setup, text, end));
      expect(unsafe).toBe(inside);
    },
  );
});

const assembleReturn = (): Uint8Array => Uint8Array.of(0x67, 0x80, 0, 0);

// ------------------------------------------------------------------------------------ three places

/** Random instructions of the rows whose name matches, in memory order. */
function wordsOf(names: RegExp, perRow: number): Uint8Array[] {
  const random = new Random(0x1357_9bdf);
  const found: Uint8Array[] = [];
  for (const row of riscvTable.rows) {
    if (!names.test(row.mnemonic)) continue;
    for (let n = 0, tries = 0; n < perRow && tries < 2000; tries++) {
      const bits = (random.below(0x1_0000) << 16) | random.below(0x1_0000);
      const word = ((bits & ~row.mask) | row.match) >>> 0;
      const bytes = Uint8Array.of(word & 0xff, (word >>> 8) & 0xff, (word >>> 16) & 0xff, word >>> 24).slice(
        0,
        row.sizeBytes,
      );
      if (decodeAt(bytes, 0)?.row !== row) continue;
      found.push(bytes);
      n++;
    }
  }
  return found;
}

const DATA = 0x2_0000n;
const BUFFER = 0x3_1000n;
const CALLEE = 0x3_2000n;
const STACK = 0x4_0000n;

/** A machine with the places, and a callback that spoils registers; with its length in words. */
function machineOfPlaces(): { machine: Machine; calleeWords: number } {
  const machine = machineAt(new Uint8Array(0));
  for (const address of [DATA, 0x3_0000n, BUFFER, CALLEE]) machine.map({ address, size: 0x1000, permission: 'rwx' });
  machine.map({ address: STACK, size: 0x2000, permission: 'rw' });
  const spoil = [5, 6, 7, 28, 29, 30, 31, 10, 11, 12, 13, 14, 15, 16, 17].map((rd) =>
    riscvTable.encode('addi', { rd, rs1: 0, imm: -1 - rd }),
  );
  const callee = [...spoil, riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 })];
  callee.forEach((word, i) => {
    machine.memory.write(
      CALLEE + BigInt(4 * i),
      Uint8Array.of(word & 0xff, (word >>> 8) & 0xff, (word >>> 16) & 0xff, word >>> 24),
    );
  });
  return { machine, calleeWords: callee.length };
}

/** Registers that a seed says, the same data and stack, and the program at `pc`. */
function prepareAt(machine: Machine, seed: number, data: Uint8Array, pc: bigint): void {
  const own = new Random(seed);
  machine.memory.write(DATA, data);
  machine.memory.write(STACK, new Uint8Array(0x2000));
  REGISTER_NAMES.slice(1).forEach((name) => {
    const value = own.below(4) === 0 ? BigInt(own.below(0x7fff_ffff)) : DATA + 0x800n + BigInt(8 * own.below(16));
    machine.setRegister(name, name === 'sp' ? STACK + 0x1000n : value);
  });
  machine.setRegister('pc', pc);
}

/** What an execution came to: where it ended, registers, data and stack. */
function stateOf(machine: Machine, stop: StopReason): string {
  const done = stop.kind === 'step-limit';
  const end = stop.kind === 'fault' ? `fault ${stop.access} ${stop.address.toString(16)}` : stop.kind;
  const registers = machine.registerNames
    .filter((each) => each !== 'pc' || done)
    .map((each) => `${each}=${machine.register(each).toString(16)}`);
  return [
    end,
    done ? machine.register('pc').toString(16) : '',
    ...registers,
    digest(machine.memory.read(DATA, 0x1000)!),
    digest(machine.memory.read(STACK + 0x1000n, 0x1000)!),
  ].join(' ');
}

function threePlaces(): { cases: number; faults: number; jumps: number } {
  const { machine, calleeWords } = machineOfPlaces();
  const random = new Random();
  const data = Uint8Array.from({ length: 0x1000 }, () => random.below(256));
  let [cases, faults, jumps] = [0, 0, 0];
  // A second instruction follows, so that 2 bytes can be a window: c.nop.
  const after = Uint8Array.of(1, 0, 1, 0);
  for (const word of wordsOf(/./, 3)) {
    const row = decodeAt(word, 0)!.row;
    if (row.attributes.decodeOnly === true) continue;
    const code = codeOf(concatBytes([word, after]), AT);
    const instruction = support.decode(code, AT);
    if (instruction.kind === 'refused') continue;
    const seed = random.below(0x7fff_ffff);
    const prepare = (pc: bigint): void => {
      prepareAt(machine, seed, data, pc);
    };
    const state = (stop: StopReason): string => stateOf(machine, stop);
    machine.memory.write(AT, code.bytes);
    prepare(AT);
    const stop = machine.step();
    if (stop.kind !== 'step-limit' && stop.kind !== 'fault') continue;
    const expected = state(stop);
    if (stop.kind === 'fault') faults++;
    cases++;
    if (instruction.method === 'copy') {
      const slot = given(support.slots.write(instruction, 0x3_0000n, true));
      machine.memory.write(0x3_0000n, slot.bytes);
      prepare(0x3_0000n);
      expect([row.mnemonic, state(machine.run({ budget: 2 }))]).toEqual([row.mnemonic, expected]);
    }
    const windows = jump.windows(code, AT);
    if ('kind' in windows) continue;
    const window = windows[0]!;
    const buffer = jump.build(window, { address: BUFFER, op: 5n, callees: [CALLEE], toc: null, redZone: true });
    if (buffer.kind === 'refused') continue;
    machine.memory.write(BUFFER, buffer.bytes);
    machine.memory.write(AT, jump.jump(window, BUFFER));
    prepare(AT);
    // Until it is out of the buffer and the callback again.
    const isOurs = (pc: bigint): boolean =>
      (pc >= BUFFER && pc < BUFFER + 0x1000n) || (pc >= CALLEE && pc < CALLEE + 0x1000n);
    let result = machine.run({ budget: 1 + buffer.copiedOffset / 4 + calleeWords - 1 });
    for (let n = 0; n < 12 && result.kind === 'step-limit' && isOurs(machine.register('pc')); n++)
      result = machine.step();
    // A window of two has executed c.nop besides.
    const shown = state(result);
    const extra = BigInt(window.bytes.length - word.length);
    const plain =
      extra === 0n || stop.kind === 'fault' || instruction.method === 'simulate'
        ? expected
        : expected.replaceAll((AT + BigInt(word.length)).toString(16), (AT + BigInt(word.length) + extra).toString(16));
    expect([row.mnemonic, shown]).toEqual([row.mnemonic, plain]);
    jumps++;
  }
  return { cases, faults, jumps };
}
