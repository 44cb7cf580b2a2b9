/**
 * What PowerPC processes are told that the processor has (AT_HWCAP, AT_HWCAP2) is executed: every
 * word that binutils takes for an instruction of the processor, but for those of features that are
 * not announced, and of supervisors.
 */
import { expect, test } from '@jest/globals';
import { Machine } from '../src/emulator/index.js';
import { ppcEmulation } from './support/emulator.js';
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
  ['supervisors', /^(m[ft]sr(in|d|din)?|m[ft]msrd?|tlb\w+|slb\w+\.?|dcbi|(l|st)[bhwd]z?cix|m[ft]spr)$/],
  ['of later processors: Power ISA 3.0 and 3.1B', /^(vabsdu[bhw]|hash(st|chk)p?)$/],
  ['a reserved bit is set', /^(isel|lswi|dst|dstst|dss)$/],
];

/** The primary opcodes of floating point, vectors, their accesses, and all below that selects. */
function words(): number[] {
  const out: number[] = [];
  for (const primary of [4, 31, 57, 58, 59, 60, 61, 62, 63]) {
    for (let low = 0; low < 2048; low++) {
      // Registers 3, 4 and 5, or one alone: other fields are to be 0 then.
      for (const registers of [[3, 4, 5], [4, 0, 0], [4, 0, 5], [4, 6, 0], [0, 4, 5]]) {
        const [t, a, b] = registers as [number, number, number];
        out.push(((primary << 26) | (t << 21) | (a << 16) | (b << 11) | low) >>> 0);
      }
    }
  }
  return out;
} // prettier-ignore

function unexecuted(kind: 'be' | '32', dialect: string): { readonly known: number; readonly missing: string[] } {
  const all = words();
  const machineName = kind === '32' ? 'powerpc:common' : 'powerpc:common64';
  const texts = objdump(all, machineName, `${dialect},raw`);
  const machine = new Machine({ lifter: ppcEmulation(kind).lifter });
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
  const isNamed = (name: string): boolean => NOT_ANNOUNCED.some(([, names]) => names.test(name));
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

  test('32 bits: a 7450 with VMX', () => {
    expect(ppcEmulation('32').process.hwcap).toBe(0x9800_0000n);
    const { known, missing } = unexecuted('32', '7450');
    expect(known).toBeGreaterThan(2000);
    expect(missing).toEqual([]);
  });
});
