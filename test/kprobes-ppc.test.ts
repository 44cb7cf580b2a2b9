/**
 * Probes of PowerPC: what can be probed, copies and their corrections, simulation, the `b` form and
 * its buffer, and what of the state machines differs where one word is replaced. Expectations:
 * binutils (words and texts), the rules, and the same instruction executed at its own place.
 */
import { describe, expect, test } from '@jest/globals';
import { equalBytes, wordBytes } from '../src/bytes.js';
import { Machine, type StopReason } from '../src/emulator/index.js';
import type { JumpOptimization, ProbeCode, ProbeInstruction } from '../src/machine/probes.js';
import { FLAGS_2009, Kprobe } from '../src/kprobes/objects.js';
import { SlotPool } from '../src/kprobes/slots.js';
import { Kprobes2009 } from '../src/kprobes/state-2009.js';
import { KprobesModern } from '../src/kprobes/state-modern.js';
import { TextMachine } from '../src/kprobes/text-machine.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { sampled } from './support/long.js';
import { codeOf, compact, decodedBy, digest, given, jumpsOf, verdictOf } from './support/probe-code.js';
import { Random } from './support/random.js';
import { cpuOf } from './support/probe-everywhere.js';
import { assemble, disassemble, PPC_TARGETS, type PpcTargetName, probesOf } from './support/ppc-probes.js';
import { ppcTargets } from './support/ppc-build.js';
import { wordsOfRows } from './support/ppc-objdump.js';
import { describeWith } from './support/tools.js';

const AT = 0x1000_0000n;
const TOOLS = ['powerpc-linux-gnu-as', 'powerpc64-linux-gnu-as', 'powerpc64le-linux-gnu-as'];
const endianOf = (name: PpcTargetName): 'big' | 'little' => ppcTargets[name].arch.target.codeEndian;

const jumpOf = (name: PpcTargetName): JumpOptimization => jumpsOf(probesOf(name));
const verdict = (name: PpcTargetName, code: ProbeCode, offset?: number): string =>
  verdictOf(probesOf(name), code, offset);
const decoded = (name: PpcTargetName, code: ProbeCode, offset?: number): ProbeInstruction =>
  decodedBy(probesOf(name), code, offset);

// ------------------------------------------------------------------------------ what can be probed

/** [source, verdict, only 64 bits] */
const CLASSES: readonly (readonly [source: string, verdict: string, only64?: true])[] = [
  ['addi 3,3,1', 'copy'],
  ['lwz 3,16(9)', 'copy'],
  ['stwu 1,-32(1)', 'copy'],
  ['stmw 29,20(1)', 'copy'],
  ['mflr 0', 'copy'],
  ['mtlr 0', 'copy'],
  ['mfctr 9', 'copy'],
  ['mtcrf 0x38,12', 'copy'],
  ['fadd 1,2,3', 'copy'],
  ['lfd 1,8(1)', 'copy'],
  ['vaddubm 2,3,4', 'copy'],
  ['sync', 'copy'],
  ['isync', 'copy'],
  ['dcbz 0,9', 'copy'],
  ['nop', 'copy'],
  ['mfmsr 3', 'copy'],
  ['b .+64', 'simulate'],
  ['ba 0x100', 'simulate'],
  ['bl .+64', 'simulate'],
  ['bla 0x100', 'simulate'],
  ['beq .+16', 'simulate'],
  ['bdnz .+16', 'simulate'],
  ['bcl 20,31,.+4', 'simulate'],
  ['beqa 0x100', 'simulate'],
  ['blr', 'simulate'],
  ['blrl', 'simulate'],
  ['beqlr', 'simulate'],
  ['bctr', 'simulate'],
  ['bctrl', 'simulate'],
  ['trap', 'EINVAL trap'],
  ['twi 31,0,22', 'EINVAL trap'],
  ['tweqi 3,0', 'EINVAL trap'],
  ['tw 4,3,4', 'EINVAL trap'],
  ['sc', 'EINVAL system'],
  ['mtmsr 3', 'EINVAL privileged'],
  ['rfi', 'EINVAL privileged'],
  ['wrteei 1', 'EINVAL privileged'],
  ['wrtee 3', 'EINVAL privileged'],
  ['rfci', 'EINVAL privileged'],
  ['lwarx 3,0,9', 'EINVAL exclusive-sequence'],
  ['stwcx. 3,0,9', 'EINVAL exclusive-sequence'],
  ['.long 0', 'EINVAL undecodable'],
  ['.long 0x4c000420', 'EINVAL undecodable'],
  ['ld 3,16(9)', 'copy', true],
  ['mtmsrd 3', 'EINVAL privileged', true],
  ['rfid', 'EINVAL privileged', true],
  ['hrfid', 'EINVAL privileged', true],
  ['scv 0', 'EINVAL system', true],
  ['tdnei 3,0', 'EINVAL trap', true],
  ['tbegin. 0', 'EINVAL unsupported-instruction', true],
  ['ldarx 3,0,9', 'EINVAL exclusive-sequence', true],
  ['stdcx. 3,0,9', 'EINVAL exclusive-sequence', true],
  ['addpcis 3,4', 'simulate', true],
  ['bctar 20,0,0', 'simulate', true],
  ['bctarl 20,0,0', 'simulate', true],
  ['paddi 3,4,0x12345,0', 'copy', true],
  ['paddi 3,0,0x12345,1', 'copy', true],
  ['pld 3,0x12345(4),0', 'copy', true],
  ['pld 3,0x12345(0),1', 'copy', true],
  ['xxspltiw 3,7', 'copy', true],
  ['pnop', 'copy', true],
];

for (const name of sampled(PPC_TARGETS, 2)) {
  const support = probesOf(name);
  const is64 = name !== 'ppc32';
  const table = is64 ? ppc64Table : ppc32Table;

  describeWith(TOOLS, `${name}: what can be probed`, () => {
    test('K-ADDR-5: traps, mtmsr and rfi, system calls, transactions and reservations are refused; branches and addpcis simulated', () => {
      const rows = CLASSES.filter(([source, , only64]) =>
        name === 'v2le' && source.startsWith('stmw') ? false : is64 || only64 !== true,
      );
      const all = assemble(name, rows.map(([source]) => `${source}\n.balign 16, 0`).join('\n'));
      const found = rows.map(([source], i) => [source, verdict(name, codeOf(all.slice(16 * i, 16 * i + 16), AT))]);
      expect(found).toEqual(rows.map(([source, expected]) => [source, expected]));
    });

    test('K-ADDR-5: nothing between a load-and-reserve and its store-conditional, up to 16 instructions back', () => {
      const source = `lwarx 3,0,9
        addi 3,3,1
        cmpwi 3,0
        stwcx. 3,0,9
        bne- .-16
        nop
        lwarx 3,0,9
        ${'nop\n'.repeat(17)}`;
      const code = codeOf(assemble(name, source), AT);
      const verdicts = Array.from({ length: 24 }, (_, i) => verdict(name, code, 4 * i));
      const no = 'EINVAL exclusive-sequence';
      expect(verdicts).toEqual([
        no, no, no, no, 'simulate', 'copy', no, ...Array.from({ length: 16 }, () => no), 'copy',
      ]); // prettier-ignore
    });

    test('K-ADDR-4: misaligned addresses and addresses outside the function are refused', () => {
      const code = codeOf(assemble(name, 'nop\nnop'), AT);
      for (const offset of [1, 2, 3, 5]) expect(verdict(name, code, offset)).toBe('EINVAL misaligned');
      for (const offset of [-4, 8]) expect(verdict(name, code, offset)).toBe('EINVAL not-a-boundary');
    });

    test('K-BP-1: the breakpoint is trap, one word in the order of the target, and leaves its own address', () => {
      expect(disassemble(name, support.breakpoint(assemble(name, 'nop')), AT)).toEqual(['trap']);
      expect(support.breakpoint(assemble(name, 'nop'))).toHaveLength(4);
      expect(support.trapDelta).toBe(0);
    });

    if (is64) {
      test('K-ADDR-4: the second word of a prefixed instruction is refused, whatever it looks like', () => {
        // The suffix of pnop may be anything but some branches: here a prefix.
        const code = codeOf(
          assemble(name, 'pld 3,0x12345(4)\n.long 0x07000000,0x06000000\naddi 3,3,1\npaddi 4,4,9'),
          AT,
        );
        const verdicts = [0, 4, 8, 12, 16, 20, 24].map((offset) => verdict(name, code, offset));
        const no = 'EINVAL not-a-boundary';
        expect(verdicts).toEqual(['copy', no, 'copy', no, 'copy', 'copy', no]);
        expect(decoded(name, code).bytes).toHaveLength(8);
      });
    } else {
      test('K-ADDR-5: prefixed instructions are none on 32 bits', () => {
        expect(verdict(name, codeOf(wordBytes(0x0600_0000, 'big'), AT))).toBe('EINVAL undecodable');
      });
    }

    test('K-ADDR-1: the symbol of an ELFv2 function means its site within 16 bytes, else its local entry', () => {
      const bytes = assemble(name, 'nop\n'.repeat(8));
      const site = (at: bigint): Partial<ProbeCode> => ({
        localEntry: 8,
        siteAt: (address) =>
          address >= AT + at - 4n && address < AT + at + 4n ? { ip: AT + at, start: AT + at - 4n, sizeBytes: 8 } : null,
      });
      const meant = (more: Partial<ProbeCode>, address = AT): bigint =>
        support.adjust(codeOf(bytes, AT, more), address) - AT;
      const v2 = name === 'v2be' || name === 'v2le';
      expect(meant({ localEntry: 8 })).toBe(v2 ? 8n : 0n);
      expect(meant(site(12n))).toBe(v2 ? 12n : 0n);
      expect(meant(site(16n))).toBe(v2 ? 16n : 0n);
      expect(meant(site(20n))).toBe(v2 ? 8n : 0n);
      expect(meant(site(12n), AT + 4n)).toBe(4n);
    });

    test('K-ADDR-7: in front of a call a site has code of the compiler, unless patching replaces it', () => {
      const siteAt: ProbeCode['siteAt'] = (address) =>
        address >= AT && address < AT + 12n ? { ip: AT + 4n, start: AT, sizeBytes: 12 } : null;
      const compiled = codeOf(assemble(name, 'mflr 0\nnop\nnop\nnop'), AT, { siteAt });
      const empty = codeOf(assemble(name, 'nop\nnop\nnop\nnop'), AT, { siteAt });
      const answers = (code: ProbeCode): (boolean | undefined)[] =>
        [0n, 4n, 8n, 12n].map((at) => support.isSiteHeadCode?.(code, AT + at));
      expect(answers(compiled)).toEqual([true, false, false, false]);
      expect(answers(empty)).toEqual([false, false, false, false]);
    });

    test('the frame is struct pt_regs, arguments are r3 to r10, the ninth is on the stack', () => {
      const { abi } = support;
      const word = is64 ? 8 : 4;
      // Offsets of asm/ptrace.h: PT_NIP 32, PT_MSR 33, PT_CTR 35, PT_LNK 36, PT_XER 37, PT_CCR 38,
      // PT_TRAP 40, PT_DAR 41, PT_DSISR 42.
      const places = Object.entries({
        gpr0: 0, gpr1: 1, gpr31: 31, nip: 32, msr: 33, ctr: 35, link: 36, xer: 37, ccr: 38, trap: 40, dar: 41, dsisr: 42,
      }); // prettier-ignore
      for (const [register, index] of places) expect(abi.registers.get(register)?.frameOffset).toBe(index * word);
      expect(abi.frameBytes).toBe(44 * word);
      expect(abi.arguments).toEqual(['gpr3', 'gpr4', 'gpr5', 'gpr6', 'gpr7', 'gpr8', 'gpr9', 'gpr10']);
      expect(abi.result).toBe('gpr3');
    });
  });

  // ---------------------------------------------------------------------------------------- copies

  describeWith(TOOLS, `${name}: slots`, () => {
    test('a slot has the instruction and a branch behind the original; trap where no branch is wanted or reaches', () => {
      const code = codeOf(assemble(name, 'lwz 3,16(9)'), AT);
      const instruction = decoded(name, code);
      const slot = AT + 0x10_0000n;
      const boosted = given(support.slots.write(instruction, slot, true));
      expect(boosted.end).toEqual({ kind: 'jump' });
      expect(disassemble(name, boosted.bytes, slot)).toEqual(['lwz r3,16(r9)', 'b 0x10000004']);
      const stepped = given(support.slots.write(instruction, slot, false));
      expect(stepped.end).toEqual({ kind: 'breakpoint', offset: 4 });
      expect(disassemble(name, stepped.bytes, slot)).toEqual(['lwz r3,16(r9)', 'trap']);
      const far = given(support.slots.write(instruction, AT + 0x400_0000n, true));
      expect(disassemble(name, far.bytes, AT + 0x400_0000n)).toEqual(['lwz r3,16(r9)', 'trap']);
      expect(support.slots.finish(instruction, slot, noCpu)).toBe(AT + 4n);
    });

    test('an instruction that an exception table names is not followed by a branch', () => {
      const code = codeOf(assemble(name, 'lwz 3,16(9)'), AT, { hasException: () => true });
      const instruction = decoded(name, code);
      expect(instruction.boostable).toBe(false);
      expect(given(support.slots.write(instruction, AT + 64n, true)).end.kind).toBe('breakpoint');
      const refused = jumpOf(name).windows(code, AT);
      expect(refused).toMatchObject({ errno: 'EILSEQ', code: 'exception-table' });
    });

    if (is64) {
      test('prefixed copies: a displacement from the instruction itself is corrected, others stay', () => {
        const slot = AT + 0x20_0000n;
        const copied = (source: string): string[] => {
          const instruction = decoded(name, codeOf(assemble(name, source), AT));
          const image = given(support.slots.write(instruction, slot, true));
          return disassemble(name, image.bytes, slot);
        };
        // objdump prints where a displacement from the instruction leads.
        const targets = (source: string): string[] => {
          const own = disassemble(name, assemble(name, source), AT);
          const there = copied(source);
          expect(there[1]).toBe('b 0x10000008');
          return [own[0]!.replace(/^.*# /, ''), there[0]!.replace(/^.*# /, '')];
        };
        for (const source of [
          'pld 3,0x12345(0),1',
          'plwz 3,-0x1234567(0),1',
          'pstd 3,0x7fff0000(0),1',
          'paddi 3,0,0x400000,1',
        ]) {
          const [own, there] = targets(source);
          expect(own).toMatch(/^[0-9a-f]+$/);
          expect(there).toBe(own);
        }
        expect(copied('pld 3,0x12345(4),0')).toEqual(['pld r3,74565(r4)', 'b 0x10000008']);
        expect(copied('xxspltiw 3,7')[0]).toBe(disassemble(name, assemble(name, 'xxspltiw 3,7'), AT)[0]);
      });

      test('a displacement of 34 bits has an end: beyond it the slot is refused', () => {
        const instruction = decoded(name, codeOf(assemble(name, 'pld 3,0x1ffffff00(0),1'), AT));
        expect(support.slots.write(instruction, AT - 0x100n, true)).toMatchObject({
          errno: 'ERANGE',
          code: 'out-of-reach',
        });
        expect(support.slots.write(instruction, AT + 0x100n, true)).toMatchObject({ kind: 'slot' });
      });
    }
  });

  // ------------------------------------------------------------------------------------ simulation

  describe(`${name}: simulation`, () => {
    test('every BO with every outcome of condition and counter, taken and not, with and without LK', () => {
      const { emulation, target } = ppcTargets[name].arch;
      if (emulation.kind === 'none') throw new Error(emulation.reason);
      const machine = new Machine({ lifter: emulation.lifter });
      machine.map({ address: AT, size: 0x1000, permission: 'rwx' });
      const rows = ['bc', 'bcl', 'bclr', 'bclrl', 'bcctr', 'bcctrl', ...(is64 ? ['bctar', 'bctarl'] : [])];
      const limit = target.wordBytes === 8 ? 1n << 63n : 0x8000_0000n;
      let cases = 0;
      for (const row of rows) {
        for (let bo = 0; bo < 32; bo++) {
          if (row.startsWith('bcctr') && (bo & 4) === 0) continue;
          const word = table.encode(row, { bo, bi: 6, ...(row === 'bc' || row === 'bcl' ? { bd: -0x40 } : { bh: 0 }) });
          const code = codeOf(wordBytes(word, endianOf(name)), AT);
          const instruction = decoded(name, code);
          machine.memory.write(AT, code.bytes);
          for (const ctr of [0n, 1n, 2n, limit]) {
            for (const cr of [0n, 0x0200_0000n, 0xfdff_ffffn, 0xffff_ffffn]) {
              const set = (): void => {
                machine.setRegister('pc', AT);
                machine.setRegister('ctr', row.startsWith('bcctr') ? AT + 0x80n + ctr * 4n : ctr);
                machine.setRegister('lr', AT + 0x103n);
                machine.setRegister('cr', cr);
                if (is64) machine.setRegister('tar', AT + 0x206n);
              };
              const state = (): string =>
                ['pc', 'ctr', 'lr', 'cr'].map((each) => machine.register(each).toString(16)).join(' ');
              set();
              const stop = machine.step();
              expect(stop.kind).toBe('step-limit');
              const expected = state();
              set();
              const result = support.simulate(instruction, cpuOf(machine));
              if (result.kind === 'fault') throw new Error('a branch does not fault');
              machine.setRegister('pc', result.pc);
              expect(`${row} ${bo} ${ctr} ${cr}: ${state()}`).toBe(`${row} ${bo} ${ctr} ${cr}: ${expected}`);
              cases++;
            }
          }
        }
      }
      expect(cases).toBeGreaterThan(is64 ? 3500 : 2500);
    });

    test('b, bl, ba, bla and addpcis, executed and simulated', () => {
      const { emulation } = ppcTargets[name].arch;
      if (emulation.kind === 'none') throw new Error(emulation.reason);
      const words = [
        ...[0x40, -0x40, 0x1ff_fffc, -0x200_0000].flatMap((li) => [
          table.encode('b', { li }),
          table.encode('bl', { li }),
        ]),
        ...[0x100, -0x100].flatMap((la) => [table.encode('ba', { la }), table.encode('bla', { la })]),
        ...(is64 ? [0, 1, -1, 0x7fff, -0x8000].map((dx) => table.encode('addpcis', { rt: 7, dx })) : []),
      ];
      for (const word of words) {
        const machine = new Machine({ lifter: emulation.lifter });
        const code = codeOf(wordBytes(word, endianOf(name)), AT);
        machine.load(AT, code.bytes, { permission: 'rx', size: 0x1000 });
        const instruction = decoded(name, code);
        const run = (body: () => void): string => {
          machine.setRegister('pc', AT);
          machine.setRegister('lr', 0x77n);
          machine.setRegister('r7', 0x55n);
          body();
          return ['pc', 'lr', 'r7'].map((each) => machine.register(each).toString(16)).join(' ');
        };
        const executed = run(() => machine.step());
        const simulated = run(() => {
          const result = support.simulate(instruction, cpuOf(machine));
          if (result.kind === 'next') machine.setRegister('pc', result.pc);
        });
        expect(simulated).toBe(executed);
      }
    });
  });

  // ------------------------------------------------------------------------------------------ jump

  describeWith(TOOLS, `${name}: the b form`, () => {
    test('T-KP-17, K-PPC-1: conditional branches and branches through registers stay breakpoints', () => {
      const sources = ['beq .+16', 'bdnz .+16', 'bcl 20,31,.+4', 'bc 20,0,.+8', 'blr', 'bctr', 'bctrl', 'beqlr'];
      for (const source of sources) {
        expect(jumpOf(name).windows(codeOf(assemble(name, source), AT), AT)).toMatchObject({
          kind: 'refused',
          errno: 'EILSEQ',
          code: 'conditional-branch',
        });
      }
    });

    test('T-KP-20, T-KP-21: the window is one instruction, the jump one word; the second word of a prefixed one stays', () => {
      const jump = jumpOf(name);
      expect(jump.maxBytes).toBe(4);
      expect(jump.needsQuiescence).toBe(false);
      const [window] = given(jump.windows(codeOf(assemble(name, 'addi 3,3,1\nblr'), AT), AT));
      expect(window).toMatchObject({ form: 'b', address: AT, jumpBytes: 4, bytes: assemble(name, 'addi 3,3,1') });
      const buffer = AT + 0x1ff_ff00n;
      expect(disassemble(name, jump.jump(window!, buffer), AT)).toEqual(['b 0x11ffff00']);
      expect(jump.optimize(window!, buffer)).toEqual([
        { kind: 'store', address: AT, bytes: jump.jump(window!, buffer) },
        { kind: 'sync' },
      ]);
      expect(jump.undo(window!, buffer)).toEqual([
        { kind: 'store', address: AT, bytes: support.breakpoint(new Uint8Array(4)) },
        { kind: 'sync' },
      ]);
      if (!is64) return;
      const [wide] = given(jump.windows(codeOf(assemble(name, 'pld 3,0x12345(4)'), AT), AT));
      expect(wide).toMatchObject({ jumpBytes: 4 });
      expect(wide!.bytes).toHaveLength(8);
    });

    /** The buffer of an instruction, as objdump sees it. */
    const bufferOf = (source: string, at = AT + 0x1_0000n): { lines: string[]; copied: number; bytes: Uint8Array } => {
      const jump = jumpOf(name);
      const [window] = given(jump.windows(codeOf(assemble(name, source), AT), AT));
      const buffer = given(
        jump.build(window!, {
          address: at,
          op: is64 ? 0x1122_3344_8566_f788n : 0x8566_f788n,
          callees: [AT + 0x2_0000n],
          toc: is64 ? 0x0123_4567_89ab_cdefn : null,
          redZone: true,
        }),
      );
      expect(buffer.bytes.length).toBeLessThanOrEqual(window!.bufferBytes);
      return { lines: disassemble(name, buffer.bytes, at), copied: buffer.copiedOffset / 4, bytes: buffer.bytes };
    };

    test('K-PPC-2: the buffer saves r0 to r31, msr, ctr, lr, xer, cr, trap 0x700, calls with object and registers, restores', () => {
      const { lines, copied } = bufferOf('addi 3,3,1');
      const word = is64 ? 8 : 4;
      const [frame, at] = { ppc32: [192, 16], v1: [496 + 288, 112], v2be: [432 + 512, 48], v2le: [432 + 512, 48] }[
        name
      ] as [number, number];
      const st = (register: number, index: number): string =>
        `st${is64 ? 'd' : 'w'} r${register},${at + word * index}(r1)`;
      const ld = (register: number, index: number): string =>
        `l${is64 ? 'd' : 'wz'} r${register},${at + word * index}(r1)`;
      const others = Array.from({ length: 30 }, (_, i) => i + 2);
      const loads = (register: number, halves: readonly [string, number, number, number]): string[] =>
        is64
          ? [
              halves[0],
              `ori r${register},r${register},${halves[1]}`,
              `rldicr r${register},r${register},32,31`,
              `oris r${register},r${register},${halves[2]}`,
              `ori r${register},r${register},${halves[3]}`,
            ]
          : [halves[0], `ori r${register},r${register},${halves[3]}`];
      const expected = [
        `st${is64 ? 'd' : 'w'}u r1,-${frame}(r1)`,
        st(0, 0),
        ...others.map((n) => st(n, n)),
        `addi r3,r1,${frame}`,
        st(3, 1),
        ...loads(3, [is64 ? 'li r3,0' : 'lis r3,4096', 0, 0x1000, 0]),
        st(3, 32),
        'li r3,16384',
        st(3, 33),
        'mfctr r3',
        st(3, 35),
        'mflr r3',
        st(3, 36),
        'mfxer r3',
        st(3, 37),
        'mfcr r3',
        st(3, 38),
        'li r3,1792',
        st(3, 40),
        ...(is64 ? loads(2, ['lis r2,291', 0x4567, 0x89ab, 0xcdef]) : []),
        ...loads(3, is64 ? ['lis r3,4386', 0x3344, 0x8566, 0xf788] : ['lis r3,-31386', 0, 0, 0xf788]),
        `addi r4,r1,${at}`,
        'bl 0x10020000',
        ld(3, 36),
        'mtlr r3',
        ld(3, 35),
        'mtctr r3',
        ld(3, 37),
        'mtxer r3',
        ld(3, 38),
        'mtcr r3',
        ld(0, 0),
        ...others.map((n) => ld(n, n)),
        `addi r1,r1,${frame}`,
        'addi r3,r3,1',
        'b 0x10000004',
      ];
      // lis of 0 is printed as what it is.
      const printed = lines.map((line) =>
        line.replace(/^lis r3,0$/, 'li r3,0').replace(/^sldi (r\d+),(r\d+),32$/, 'rldicr $1,$2,32,31'),
      );
      expect(printed).toEqual(expected);
      expect(copied).toBe(expected.length - 2);
    });

    test('K-PPC-2: an address of 64 bits is loaded by lis, ori, sldi 32, oris, ori into r3: 3c60 6063 786307c6 6463 6063', () => {
      const { bytes } = bufferOf('addi 3,3,1');
      const words = Array.from({ length: bytes.length / 4 }, (_, i) =>
        compact(name === 'v2le' ? bytes.slice(4 * i, 4 * i + 4).reverse() : bytes.slice(4 * i, 4 * i + 4)),
      );
      const load = is64 ? ['3c601122', '60633344', '786307c6', '64638566', '6063f788'] : ['3c608566', '6063f788'];
      const first = words.indexOf(load[0]!);
      expect(words.slice(first, first + load.length)).toEqual(load);
    });

    test('b goes on at its target; bl sets LR on the way and changes nothing else', () => {
      const tail = (source: string): string[] => {
        const { lines, copied } = bufferOf(source);
        return lines.slice(copied);
      };
      expect(tail('b .+64')).toEqual(['b 0x10000040']);
      expect(tail('ba 0x1000100')).toEqual(['ba 0x1000100']);
      expect(tail('bla 0x1000100').at(-1)).toBe('ba 0x1000100');
      const link = tail('bl .+64');
      expect(link.at(0)).toMatch(is64 ? /^stdu r1,-576\(r1\)$/ : /^stwu r1,-32\(r1\)$/);
      expect(link.slice(-4)).toEqual([
        'mtlr r3',
        is64 ? 'ld r3,32(r1)' : 'lwz r3,8(r1)',
        is64 ? 'addi r1,r1,576' : 'addi r1,r1,32',
        'b 0x10000040',
      ]);
    });

    test('ERANGE: a buffer, a callback or a way on beyond 32 MiB', () => {
      const jump = jumpOf(name);
      const build = (source: string, address: bigint, callee: bigint): unknown => {
        const [window] = given(jump.windows(codeOf(assemble(name, source), AT), AT));
        return jump.build(window!, { address, op: 0n, callees: [callee], toc: 0n, redZone: false });
      };
      const far = { kind: 'refused', errno: 'ERANGE', code: 'out-of-reach' };
      expect(build('nop', AT + 0x200_0000n, AT)).toMatchObject(far);
      expect(build('nop', AT + 0x1f0_0000n, AT - 0x100_0000n)).toMatchObject(far);
      expect(build('b .-0x1000000', AT + 0x180_0000n, AT)).toMatchObject(far);
      expect(build('b .-0x1000000', AT + 0x10_0000n, AT)).toMatchObject({ kind: 'buffer' });
    });

    if (is64) {
      test('a prefixed copy in a buffer leads where it led, and does not lie across a boundary of 64 bytes', () => {
        // 104 words come first; the copy of the second place would begin at 60 of 64.
        for (const [address, padded] of [
          [0x1_0000n, false],
          [0x1_0000n + 60n - ((4n * 104n) % 64n), true],
        ] as const) {
          const { lines, copied } = bufferOf('pld 3,0x12345(0),1', AT + address);
          expect(copied).toBe(104);
          const tail = lines.slice(copied);
          expect(tail.slice(0, -2)).toEqual(padded ? ['nop'] : []);
          expect(tail.slice(-2)).toEqual([expect.stringMatching(/# 10012345$/), 'b 0x10000008']);
        }
      });

      test('addpcis becomes its result', () => {
        const { lines, copied } = bufferOf('addpcis 7,2');
        expect(lines.slice(copied)).toEqual(
          ['li r7,0', 'ori r7,r7,0', 'sldi r7,r7,32', 'oris r7,r7,4098', 'ori r7,r7,4', 'b 0x10000004'].map(
            (line, i) => (i === 0 ? (expect.stringMatching(/^lis? r7,0$/) as unknown as string) : line),
          ),
        );
      });
    }
  });

  // ----------------------------------------------------------------------- three ways of execution

  describe(`${name}: one instruction, three places`, () => {
    test('T-KP-1: instructions of every row do the same at their place, in a slot and in a buffer', () => {
      const { cases, faults } = threePlaces(name);
      process.stdout.write(
        `${name}: ${cases} instructions at three places, ${faults} of them faulted, the same everywhere\n`,
      );
      expect(cases).toBeGreaterThan(is64 ? 600 : 350);
    });
  });

  // -------------------------------------------------------------------------------- state machines

  describeWith(TOOLS, `${name}: state machines`, () => {
    const text = (): { core: TextMachine; bytes: () => Uint8Array; slots: SlotPool; original: Uint8Array } => {
      const original = assemble(name, 'addi 3,3,1\naddi 4,4,1\nlwz 5,0(9)\nbeq .+8\nbl .+16\nblr');
      const current = original.slice();
      const slots = new SlotPool([{ start: AT + 0x1_0000n, end: AT + 0x1_4000n }]);
      const code = codeOf(original, AT);
      const core = new TextMachine({
        support,
        slots,
        redZone: true,
        callees: [AT + 0x2_0000n],
        toc: is64 ? 0n : null,
        store: {
          isFile: false,
          read: (address, size) => current.slice(Number(address - AT), Number(address - AT) + size),
          store(address, bytes) {
            if (address < AT + BigInt(current.length)) current.set(bytes, Number(address - AT));
          },
          sync: () => undefined,
        },
        check(address) {
          const instruction = support.decode(code, address);
          if (instruction.kind === 'refused') return instruction;
          return { kind: 'valid', address, code, instruction, ftrace: false };
        },
      });
      return { core, bytes: () => current, slots, original };
    };
    const wordAt = (bytes: Uint8Array, at: number): string => compact(bytes.slice(4 * at, 4 * at + 4));
    const trap = compact(support.breakpoint(new Uint8Array(4)));

    test('T-KP-20, T-KP-21: neighbours leave each other alone, as written in 2009 and today', () => {
      for (const lookup of ['as-written', 'covering'] as const) {
        const { core, bytes } = text();
        const probes = new Kprobes2009(core, { optimization: true, lookup });
        for (const at of [0n, 4n, 8n]) {
          expect(probes.register(new Kprobe(AT + at, {}, FLAGS_2009.OPTIMIZE))).toBe('done');
          probes.tick(10);
          probes.quiescence();
        }
        for (const at of [0, 1, 2]) expect(disassemble(name, bytes().slice(4 * at, 4 * at + 4), AT)[0]).toMatch(/^b /);
      }
      const { core, bytes } = text();
      const modern = new KprobesModern(core, { optimization: true });
      for (const at of [0n, 4n, 8n]) {
        expect(modern.register(new Kprobe(AT + at))).toBe('done');
        modern.tick(10);
        modern.quiescence();
        modern.tick(10);
      }
      for (const at of [0, 1, 2]) expect(disassemble(name, bytes().slice(4 * at, 4 * at + 4), AT)[0]).toMatch(/^b /);
    });

    test('T-KP-17, T-KP-24, T-KP-32: a refused prepare leaves no slot behind, the breakpoint works, OPTIMIZE is cleared', () => {
      const { core, bytes, slots } = text();
      const probes = new Kprobes2009(core, { optimization: true });
      const probe = new Kprobe(AT + 12n, {}, FLAGS_2009.OPTIMIZE);
      expect(probes.register(probe)).toBe('done');
      probes.tick(20);
      probes.quiescence();
      expect(wordAt(bytes(), 3)).toBe(trap);
      expect(probe.flags).toBe(0);
      // beq is simulated: it has no copy either.
      expect(slots.count).toBe(0);
    });

    test('T-KP-27, T-KP-28: unregistering gives the original word and every slot back', () => {
      const { core, bytes, slots, original } = text();
      const probes = new Kprobes2009(core, { optimization: true });
      const all = [0n, 4n, 8n, 12n, 16n, 20n].map((at) => new Kprobe(AT + at, {}, FLAGS_2009.OPTIMIZE));
      for (const probe of all) expect(probes.register(probe)).toBe('done');
      probes.tick(10);
      probes.quiescence();
      expect(all.map((_, i) => (wordAt(bytes(), i) === trap ? 'trap' : 'b'))).toEqual([
        'b',
        'b',
        'b',
        'trap',
        'b',
        'trap',
      ]);
      expect(slots.count).toBeGreaterThan(0);
      for (const probe of all) expect(probes.unregister(probe)).toBe('done');
      probes.tick(10);
      probes.quiescence();
      expect(equalBytes(bytes(), original)).toBe(true);
      expect(slots.count).toBe(0);
    });
  });
}

const noCpu = {
  register: () => 0n,
  setRegister: () => undefined,
  read: () => null,
  write: () => false,
};

// ------------------------------------------------------------------------------------ three places

const CODE = 0x1_0000n;
const DATA = 0x2_0000n;
const SLOT = 0x3_0000n;
const BUFFER = 0x3_1000n;
const CALLEE = 0x3_2000n;
const STACK = 0x4_0000n;
/** Time and random numbers differ from one execution to the next. */
const NEVER_SAME = /^(mftb|darn)$/;

/** A machine with the places, and a callback that spoils registers; with its length in words. */
function machineOfPlaces(name: PpcTargetName): { machine: Machine; calleeWords: number } {
  const { emulation } = ppcTargets[name].arch;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const table = name === 'ppc32' ? ppc32Table : ppc64Table;
  const endian = endianOf(name);
  const machine = new Machine({ lifter: emulation.lifter });
  for (const address of [CODE, DATA, SLOT, BUFFER, CALLEE]) machine.map({ address, size: 0x1000, permission: 'rwx' });
  machine.map({ address: STACK, size: 0x2000, permission: 'rw' });
  const spoil = [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map((rt) => table.encode('addi', { rt, ra0: 0, si: -1 - rt }));
  const callee = [
    ...spoil,
    table.encode('mtspr', { spr: 9, rs: 5 }),
    table.encode('mtspr', { spr: 1, rs: 6 }),
    table.encode('mtcrf', { fxm: 0xff, rs: 7 }),
    table.encode('bclr', { bo: 20, bi: 0, bh: 0 }),
  ];
  callee.forEach((word, i) => {
    machine.memory.write(CALLEE + BigInt(4 * i), wordBytes(word, endian));
  });
  return { machine, calleeWords: callee.length };
}

/** Registers that a seed says, the same data and stack, and the program at `pc`. */
function prepareAt(machine: Machine, name: PpcTargetName, seed: number, data: Uint8Array, pc: bigint): void {
  const own = new Random(seed);
  machine.memory.write(DATA, data);
  machine.memory.write(STACK, new Uint8Array(0x2000));
  for (let i = 0; i < 32; i++) {
    // Most are addresses of the data, so that loads and stores find some.
    const value = own.below(4) === 0 ? BigInt(own.below(0x7fff_ffff)) : DATA + 0x800n + BigInt(8 * own.below(16));
    machine.setRegister(`r${i}`, i === 1 ? STACK + 0x1800n : value);
    machine.setRegister(`f${i}`, BigInt(own.below(0x7fff_ffff)) << 32n);
  }
  machine.setRegister('cr', BigInt(own.below(0xffff_ffff)));
  machine.setRegister('xer', (BigInt(own.below(8)) << 29n) | BigInt(own.below(128)));
  machine.setRegister('ctr', BigInt(own.below(3)) * 4n + DATA);
  machine.setRegister('lr', DATA + 0x40n);
  if (name !== 'ppc32') machine.setRegister('tar', DATA + 0x80n);
  machine.setRegister('pc', pc);
}

/** What an execution came to: where it ended, registers, data and stack; null: at the next one. */
function stateOf(machine: Machine, name: PpcTargetName, stop: StopReason | null): string {
  const below = name === 'ppc32' ? 0n : 288n;
  const end = stop?.kind === 'fault' ? `fault ${stop.access} ${stop.address.toString(16)}` : (stop?.kind ?? 'next');
  const registers = machine.registerNames
    .filter((each) => each !== 'pc' || stop === null)
    .map((each) => `${each}=${machine.register(each).toString(16)}`);
  const stack = machine.memory.read(STACK + 0x1800n - below, 0x800)!;
  return [end, ...registers, digest(machine.memory.read(DATA, 0x1000)!), digest(stack)].join(' ');
}

/**
 * Executes instructions of every row at their place, in a slot and in a buffer with a callback that
 * spoils registers.
 */
function threePlaces(name: PpcTargetName): { cases: number; faults: number } {
  const support = probesOf(name);
  const jump = jumpOf(name);
  const table = name === 'ppc32' ? ppc32Table : ppc64Table;
  const endian = endianOf(name);
  const { machine, calleeWords } = machineOfPlaces(name);
  const random = new Random();
  const data = Uint8Array.from({ length: 0x1000 }, () => random.below(256));
  let cases = 0;
  let faults = 0;
  for (const word of wordsOfRows(table, 3)) {
    const row = table.decode(word)!.row;
    if (row.attributes.decodeOnly === true || NEVER_SAME.test(row.mnemonic)) continue;
    if (row.mnemonic === 'mfspr' && [268, 269].includes(table.decode(word)!.operands['spr']!)) continue;
    const code = codeOf(wordBytes(word, endian), CODE);
    const instruction = support.decode(code, CODE);
    if (instruction.kind === 'refused') continue;
    const seed = random.below(0x7fff_ffff);
    const prepare = (pc: bigint): void => {
      prepareAt(machine, name, seed, data, pc);
    };
    const state = (stop: StopReason | null): string => stateOf(machine, name, stop);
    const done = (stop: StopReason): StopReason | null => (stop.kind === 'step-limit' ? null : stop);
    // At its place.
    prepare(CODE);
    machine.memory.write(CODE, code.bytes);
    const stop = machine.step();
    // Without semantics nothing can be compared; the same would be so everywhere.
    if (stop.kind !== 'step-limit' && stop.kind !== 'fault') continue;
    const expected = state(done(stop));
    if (stop.kind === 'fault') faults++;
    // As a breakpoint, in a slot or simulated.
    prepare(SLOT);
    machine.memory.write(CODE, support.breakpoint(code.bytes));
    if (instruction.method === 'copy') {
      const slot = given(support.slots.write(instruction, SLOT, true));
      machine.memory.write(SLOT, slot.bytes);
      expect([row.mnemonic, state(done(machine.run({ budget: 2 })))]).toEqual([row.mnemonic, expected]);
    } else {
      const result = support.simulate(instruction, cpuOf(machine));
      if (result.kind === 'next') machine.setRegister('pc', result.pc);
      expect([row.mnemonic, state(null)]).toEqual([row.mnemonic, expected]);
    }
    cases++;
    // As a jump.
    const windows = jump.windows(code, CODE);
    if ('kind' in windows) continue;
    const window = windows[0]!;
    const buffer = jump.build(window, { address: BUFFER, op: 0x1234n, callees: [CALLEE], toc: 0x4321n, redZone: true });
    // A random `b` leads out of reach of the buffer now and then.
    if (buffer.kind === 'refused') continue;
    prepare(CODE);
    machine.memory.write(BUFFER, buffer.bytes);
    for (const step of jump.optimize(window, BUFFER)) {
      if (step.kind === 'store') machine.memory.write(step.address, step.bytes);
    }
    const budget = 1 + buffer.bytes.length / 4 + calleeWords;
    expect([row.mnemonic, state(done(machine.run({ budget })))]).toEqual([row.mnemonic, expected]);
  }
  return { cases, faults };
}
