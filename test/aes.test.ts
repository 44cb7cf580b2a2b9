/**
 * Rounds of AES as instructions of PowerPC and arm64, in both tiers: whole encryptions, one after
 * another, against OpenSSL as Node has it. The key schedule is written here after FIPS 197.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { arm64 } from '../src/arch-arm64/index.js';
import { ppc64ElfV1, ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import type { Arch } from '../src/machine/arch.js';
import { Machine } from '../src/emulator/index.js';

/** S-box: walks the field by the generator 3, and its inverse beside it. */
function substitution(): number[] {
  const box = new Array<number>(256).fill(0x63);
  const times3 = (a: number): number => (a ^ (a << 1) ^ ((a & 0x80) === 0 ? 0 : 0x11b)) & 0xff;
  const powers = Array.from({ length: 255 }, () => 1);
  for (let i = 1; i < 255; i++) powers[i] = times3(powers[i - 1]!);
  powers.forEach((each, i) => {
    const inverse = powers[(255 - i) % 255]!;
    let out = 0x63;
    for (const by of [0, 1, 2, 3, 4]) out ^= (inverse << by) | (inverse >> (8 - by));
    box[each] = out & 0xff;
  });
  return box;
}
const BOX = substitution();

function roundKeys(key: Uint8Array): Uint8Array[] {
  const bytes = [...key];
  let constant = 1;
  for (let i = 16; i < 176; i += 4) {
    let word = bytes.slice(i - 4, i);
    if (i % 16 === 0) {
      word = [...word.slice(1), word[0]!].map((each) => BOX[each]!);
      word[0]! ^= constant;
      constant = (constant << 1) ^ (constant < 0x80 ? 0 : 0x11b);
    }
    word.forEach((each, j) => bytes.push(bytes[i - 16 + j]! ^ each));
  }
  return Array.from({ length: 11 }, (_, i) => Uint8Array.from(bytes.slice(16 * i, 16 * i + 16)));
}

type Way = 'encrypts' | 'decrypts';
/** Words that work on v11 with the keys in v0 to v10, and end in a branch to the first. */
type Words = (way: Way) => number[];

const ppc: Words = (way) => {
  const op = (low: number, key: number): number => (0x1000_0000 | (11 << 21) | (11 << 16) | (key << 11) | low) >>> 0;
  const [xor, round, last] = way === 'encrypts' ? [0x4c4, 0x508, 0x509] : [0x4c4, 0x548, 0x549];
  const keys = Array.from({ length: 11 }, (_, i) => (way === 'encrypts' ? i : 10 - i));
  const words = keys.map((key, i) => op(i === 0 ? xor : i === 10 ? last : round, key));
  return [...words, (0x4800_0000 | ((-4 * words.length) & 0x3ff_fffc)) >>> 0];
};
const a64: Words = (way) => {
  const op = (base: number, n: number, d = 11): number => (base | (n << 5) | d) >>> 0;
  const [add, mix] = way === 'encrypts' ? [0x4e28_4800, 0x4e28_6800] : [0x4e28_5800, 0x4e28_7800];
  const words: number[] = [];
  const keys = Array.from({ length: 10 }, (_, i) => (way === 'encrypts' ? i : 10 - i));
  keys.forEach((key, i) => {
    const isInner = way === 'decrypts' && i > 0;
    // The inverse mixes the key as well as the state.
    if (isInner) words.push(op(0x4e28_7800, key, 12));
    words.push(op(add, isInner ? 12 : key));
    if (i < 9) words.push(op(mix, 11));
  });
  words.push(op(0x6e20_1c00 | ((way === 'encrypts' ? 10 : 0) << 16), 11));
  return [...words, (0x1400_0000 | (-words.length & 0x3ff_ffff)) >>> 0];
};

const MACHINES: readonly {
  name: string;
  arch: Arch;
  words: Words;
  endian: 'little' | 'big';
  state: 'little' | 'big';
}[] = [
  { name: 'ppc64-elfv2-le', arch: ppc64ElfV2Le, words: ppc, endian: 'little', state: 'big' },
  { name: 'ppc64-elfv1', arch: ppc64ElfV1, words: ppc, endian: 'big', state: 'big' },
  { name: 'arm64', arch: arm64, words: a64, endian: 'little', state: 'little' },
];

const numberOf = (bytes: Uint8Array, order: 'little' | 'big'): bigint =>
  BigInt(`0x${Buffer.from(order === 'big' ? bytes : [...bytes].reverse()).toString('hex')}`);

const AT = 0x1_0000n;
function machineOf({ arch, endian }: (typeof MACHINES)[number], tier: 0 | 1, words: readonly number[]): Machine {
  if (arch.emulation.kind !== 'ir') throw new Error('no emulation');
  const machine = new Machine({ lifter: arch.emulation.lifter, tier });
  const code = new DataView(new ArrayBuffer(4 * words.length));
  words.forEach((each, i) => {
    code.setUint32(4 * i, each, endian === 'little');
  });
  machine.load(AT, new Uint8Array(code.buffer), { permission: 'rx' });
  machine.setRegister('pc', AT);
  return machine;
}

const TIMES = 120;
describe.each(MACHINES)('AES on $name', (each) => {
  test.each(['encrypts', 'decrypts'] as const)('%s as OpenSSL does', (way) => {
    for (const tier of [0, 1] as const) {
      const [key, block] = [randomBytes(16), randomBytes(16)];
      const cipher = (way === 'encrypts' ? createCipheriv : createDecipheriv)('aes-128-ecb', key, null);
      cipher.setAutoPadding(false);
      let expected: Buffer = block;
      for (let i = 0; i < TIMES; i++) expected = cipher.update(expected);
      const words = each.words(way);
      const machine = machineOf(each, tier, words);
      roundKeys(key).forEach((bytes, i) => {
        machine.setRegister(`v${i}`, numberOf(bytes, each.state));
      });
      machine.setRegister('v11', numberOf(block, each.state));
      expect(machine.run({ budget: TIMES * words.length })).toEqual({ kind: 'step-limit' });
      expect([key, block, machine.register('v11')]).toEqual([key, block, numberOf(expected, each.state)]);
      expect((machine.compiledCounts?.regions ?? 0) > 0).toBe(tier === 1);
    }
  });
});

test('vsbox replaces each byte as FIPS 197 says', () => {
  const machine = machineOf(MACHINES[0]!, 0, [0x1040_05c8]);
  for (let first = 0; first < 256; first += 16) {
    const bytes = Array.from({ length: 16 }, (_, i) => first + i);
    machine.setRegister('pc', AT);
    machine.setRegister('v0', numberOf(Uint8Array.from(bytes), 'big'));
    machine.run({ budget: 1 });
    expect(machine.register('v2')).toBe(numberOf(Uint8Array.from(bytes.map((byte) => BOX[byte]!)), 'big'));
  }
});
