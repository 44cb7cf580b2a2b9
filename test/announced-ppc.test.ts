/**
 * What PowerPC processes are told that the processor has (AT_HWCAP, AT_HWCAP2) is executed: every
 * word that binutils takes for an instruction of the processor, but for those of features that are
 * not announced, and of supervisors.
 */
import { expect, test } from '@jest/globals';
import { Machine } from '../src/emulator/index.js';
import type { IrEmulation } from '../src/emulator/index.js';
import { ppcEmulation, processorOf } from './support/emulator.js';
import { objdump, PPC_OBJDUMP } from './support/ppc-objdump.js';
import { describeWith } from './support/tools.js';

/** Names that binutils knows too, and why a process does not execute them. */
const NOT_ANNOUNCED: readonly (readonly [why: string, names: RegExp])[] = [
  [
    'decimal floating point',
    /^d(add|sub|mul|div|cmp[ou]|tst\w+|quai?|rrnd|rint[nx]|ctdp|ctqpq|rsp|rdpq|cffix|ctfix|[de]+pd|xex|iex|scli|scri)q?\.?$/,
  ],
  ['decimal floating point', /^d(dedpd|enbcd)q?\.?$/],
  ['transactions', /^t(begin|end|abort\w*|check|sr|resume|suspend|reclaim|rechkpt)(all)?\.?$/],
  ['event-based branches', /^(rfebb|clrbhrb|mfbhrbe)/],
  ['coprocessors', /^(icswx\.?|pbt\.|e[ci]owx|eciwx)$/],
  [
    'supervisors',
    /^(m[ft]sr(in|d|din)?|m[ft]msrd?|tlb\w+|slb\w+\.?|dcbi|(l|st)[bhwd]z?cix|m[ft]spr|h?rfid|rfscv|stop|msg\w+|urfid|nap|doze)$/,
  ],
  ['of later processors: Power ISA 3.1B', /^hash(st|chk)p?$/],
  ['accelerators that are written to', /^(copy|paste\.|cpabort)$/],
  ['a reserved bit is set', /^(isel|lswi|dst|dstst|dss|xsrqpix?|xsrqpxp)$/],
  // Of POWER8 the table has a row that POWER9 has.
  ['of later processors: Power ISA 3.0', /^vabsdu[bhw]$/],
];

/** Ends of words in which the second register is a part of the opcode. */
const PLACED = new Set([0x581, 0x602, 0x56c, 0x56d, 0x56e, 0x76c, 0x76e, 0x648, 0x649, 0x688, 0x689, 0x48e]);

/** The primary opcodes of floating point, vectors, their accesses, and all below that selects. */
function words(isPower9 = false): number[] {
  const out: number[] = [];
  for (const primary of [4, 31, 57, 58, 59, 60, 61, 62, 63]) {
    for (let low = 0; low < 2048; low++) {
      // Registers 3, 4 and 5, or one alone: other fields are to be 0 then.
      const usual = [[3, 4, 5], [4, 0, 0], [4, 0, 5], [4, 6, 0], [0, 4, 5]];
      // Numbers in place of the second register, which POWER9 tells instructions by.
      const numbered = isPower9 && PLACED.has(low) ? Array.from({ length: 32 }, (_, i) => [3, i, 5]) : [];
      for (const registers of [...usual, ...numbered]) {
        const [t, a, b] = registers as [number, number, number];
        out.push(((primary << 26) | (t << 21) | (a << 16) | (b << 11) | low) >>> 0);
      }
    }
  }
  return out;
} // prettier-ignore

function unexecuted(
  kind: 'be' | '32',
  dialect: string,
  emulation: IrEmulation = ppcEmulation(kind),
): { readonly known: number; readonly missing: string[] } {
  const isPower9 = dialect === 'power9';
  const all = words(isPower9);
  const machineName = kind === '32' ? 'powerpc:common' : 'powerpc:common64';
  const texts = objdump(all, machineName, `${dialect},raw`);
  const machine = new Machine({ lifter: emulation.lifter });
  machine.map({ address: 0x2_0000n, size: 0x1000, permission: 'rw', name: 'data' });
  machine.map({ address: 0x1_0000n, size: 0x1000, permission: 'rwx', name: 'code' });
  const missing = new Map<string, string>();
  let known = 0;
  all.forEach((word, i) => {
    const text = texts[i]!;
    const name = text.split(' ')[0]!;
    if (text === '' || name.startsWith('.long') || missing.has(name)) return;
    known++;
    machine.writeWord(0x1_0000n, 4, BigInt(word));
    machine.setRegister('pc', 0x1_0000n);
    for (const r of [0, 3, 4, 5, 6]) machine.setRegister(`r${r}`, 0x2_0000n);
    const stop = machine.run({ budget: 1 });
    if (stop.kind === 'unknown-instruction') missing.set(name, text);
  });
  const isNamed = (name: string): boolean =>
    NOT_ANNOUNCED.some(([why, names]) => names.test(name) && !(isPower9 && why.endsWith('ISA 3.0')));
  return { known, missing: [...missing].filter(([name]) => !isNamed(name)).map(([, text]) => text) };
}

describeWith([PPC_OBJDUMP], 'PowerPC', () => {
  test('64 bits: POWER8', () => {
    const { hwcap, hwcap2 } = ppcEmulation('be').process;
    // Linux's names: 64, FPU, ALTIVEC, VSX, ARCH_2_06; ARCH_2_07, VEC_CRYPTO.
    expect(hwcap & 0x5800_0180n).toBe(0x5800_0180n);
    expect(hwcap2 & 0x8200_0000n).toBe(0x8200_0000n);
    const { known, missing } = unexecuted('be', 'power8');
    expect(known).toBeGreaterThan(8000);
    expect(missing).toEqual([]);
  });

  test('64 bits: POWER9', () => {
    const power9 = processorOf(ppcEmulation('be'), 'power9');
    // ARCH_3_00, HAS_IEEE128; without SCV and DARN.
    expect(power9.process.hwcap2 & 0x00f0_0000n).toBe(0x00c0_0000n);
    expect(ppcEmulation('be').process.hwcap2 & 0x00f0_0000n).toBe(0n);
    const { known, missing } = unexecuted('be', 'power9', power9);
    expect(known).toBeGreaterThan(9000);
    expect(missing).toEqual([]);
  });

  test('32 bits: a 7450 with VMX', () => {
    expect(ppcEmulation('32').process.hwcap).toBe(0x9800_0000n);
    const { known, missing } = unexecuted('32', '7450');
    expect(known).toBeGreaterThan(2000);
    expect(missing).toEqual([]);
  });
});
