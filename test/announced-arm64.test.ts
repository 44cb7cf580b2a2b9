/**
 * What arm64 processes are told that the processor has (AT_HWCAP, AT_HWCAP2) is executed: a word of
 * each form that binutils assembles for it. `scripts/vectors-arm64.ts` found them among all words.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { arm64Emulation } from '../src/arch-arm64/emulation.js';
import { Machine } from '../src/emulator/index.js';

/** Bits of Linux's uapi/asm/hwcap.h under their names in `-march`, and those that have none. */
const HWCAP = { fp: [0], simd: [1], crc: [7], lse: [8], rcpc: [15], flagm: [27], ssbs: [28], sb: [29] } as const;
/** AES, PMULL, SHA1, SHA2: of another processor (`--cpu`). */
const CRYPTO = [3, 4, 5, 6];
/** Of a third, under their names in `-march` where they have one. */
const LATER = { fphp: 9, asimdhp: 10, rdma: 12, sha3: 17, dotprod: 20, sha512: 21, fhm: 23 } as const;
const OTHERS = { cpuid: 11, dcpop: 16, dit: 24 } as const;

/** Undefined at EL0. */
const LEFT_OUT = /^(eret|drps|udf #I)$/;

const FORMS = readFileSync(new URL('../../test/vectors/arm64-forms.txt', import.meta.url), 'utf8').split('\n');

test('each form of what is announced is executed', () => {
  const march = /-march=armv8-a(\S+),/.exec(FORMS[0]!)![1]!.split('+').slice(1);
  expect(march).toEqual([...Object.keys(HWCAP), 'aes', 'sha2', 'rdma', 'fp16fml', 'dotprod', 'sha3']);
  const wordOf = (bits: readonly number[]): bigint => bits.reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n);
  const bits = [...Object.values(HWCAP).flat(), ...Object.values(OTHERS)];
  const told = arm64Emulation.cpus!.map(({ name, emulation }) => [name, emulation().process.hwcap]);
  expect(told).toEqual([
    ['armv8-a', wordOf(bits)],
    ['armv8-a+crypto', wordOf([...bits, ...CRYPTO])],
    ['armv8.2-a+fp16fml+dotprod+sha3', wordOf([...bits, ...CRYPTO, ...Object.values(LATER)])],
  ]);
  // DCPODP and BTI
  expect(arm64Emulation.process.hwcap2).toBe(0x2_0001n);

  const machine = new Machine({ lifter: arm64Emulation.lifter });
  machine.map({ address: 0x1_0000n, size: 0x1000, permission: 'rwx' });
  machine.map({ address: 0x2_0000n, size: 0x2000, permission: 'rw' });
  const stopped: string[] = [];
  const lines = FORMS.filter((line) => line !== '' && !line.startsWith('#'));
  for (const line of lines) {
    const [word, form] = line.split('\t');
    machine.writeWord(0x1_0000n, 4, BigInt(`0x${word!}`));
    machine.setRegister('pc', 0x1_0000n);
    for (let i = 0; i < 31; i++) machine.setRegister(`x${i}`, 0x2_1000n);
    const stop = machine.run({ budget: 1 });
    // A jump or an access far away is executed, too.
    const isExecuted = stop.kind === 'step-limit' || stop.kind === 'fault';
    if (!isExecuted && !LEFT_OUT.test(form!)) stopped.push(`${form!}: ${stop.kind}`);
  }
  expect(lines.length).toBeGreaterThan(3500);
  expect(stopped).toEqual([]);
});
