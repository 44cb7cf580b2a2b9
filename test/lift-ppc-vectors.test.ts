/**
 * VMX and VSX of PowerPC against qemu-user: each instruction with all pairs of corner values and
 * random ones, in registers of both halves of the file, in both tiers and both byte orders.
 */
import { expect, test } from '@jest/globals';
import { ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import { Machine } from '../src/emulator/index.js';
import { buildProgram, runHere, runQemu, TARGETS } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { isWhole, repeats, sampled, times } from './support/long.js';
import { ACCESSES, CASES } from './support/ppc-vectors.js';
import { describeWith } from './support/tools.js';

const escaped = (text: string): string => text.replaceAll(';', '\\n');

const TRIED = sampled(CASES, 2);
const TRIED_ACCESSES = sampled(ACCESSES, 2);
const SOURCE = `
#include "lib.h"
static u8 in[20][16] __attribute__((aligned(16)));
static u8 out[16] __attribute__((aligned(16)));
static u8 area[64] __attribute__((aligned(64)));
static u64 sum;
static u64 vector_state = 88172645463325252ULL;
static u64 next64(void) {
  vector_state ^= vector_state << 13;
  vector_state ^= vector_state >> 7;
  vector_state ^= vector_state << 17;
  return vector_state;
}
static void digest(const u8 *bytes, int count) {
  const u64 *words = (const u64 *)bytes;
  for (int i = 0; i < count / 8; i++) {
    sum = (sum ^ words[i]) * 1099511628211ULL;
    sum ^= sum >> 29;
  }
}
#define LOAD "lxvd2x 34,0,%1\\n lxvd2x 35,0,%1\\n lxvd2x 36,0,%2\\n lxvd2x 37,0,%3\\n lxvd2x 3,0,%1\\n lxvd2x 4,0,%2\\n lxvd2x 5,0,%3\\n"
#define CASE(text) do { \\
  sum = 14695981039346656037ULL; \\
  for (int i = 0; i < 20; i++) for (int j = 0; j < 20; j += ${times(1, 3, 9)}) { \\
    u64 cr; \\
    __asm__ volatile(".machine push\\n.machine power8\\n" LOAD "mr 9,%5\\n mr 8,%6\\n" text "\\n stxvd2x 34,0,%4\\n mfcr %0\\n.machine pop" \\
      : "=&r"(cr) : "b"(in[i]), "b"(in[j]), "b"(in[(i + j) % 20]), "b"(out), "b"(next64()), "b"(area) : "r8", "r9", "r10", "cr6", "memory"); \\
    digest(out, 16); \\
    sum = (sum ^ (cr & 0xf0)) * 1099511628211ULL; \\
  } \\
  line(text, sum); \\
} while (0)
#define ACCESS(text) do { \\
  sum = 14695981039346656037ULL; \\
  for (u64 at = 0; at < 32; at++) { \\
    for (int i = 0; i < 64; i++) area[i] = (u8)(i * 37 + 1); \\
    __asm__ volatile(".machine push\\n.machine power8\\n lxvd2x 34,0,%0\\n lxvd2x 35,0,%0\\n lxvd2x 3,0,%1\\n mr 9,%3\\n mr 8,%4\\n" text "\\n stxvd2x 34,0,%2\\n.machine pop" \\
      :: "b"(in[at % 20]), "b"(in[(at * 7) % 20]), "b"(out), "b"(at), "b"(area) : "r8", "r9", "r10", "memory"); \\
    digest(out, 16); \\
    digest(area, 64); \\
  } \\
  line(text, sum); \\
} while (0)
int main(int argc, char **argv) {
  static const u8 corners[8] = {0, 0xff, 0x80, 0x7f, 1, 0xfe, 0x0f, 0x55};
  for (int i = 0; i < 20; i++)
    for (int j = 0; j < 16; j++) in[i][j] = i < 8 ? corners[i] : i < 12 ? corners[next64() & 7] : (u8)(next64() >> 20);
  // Limits of elements of 2, 4 and 8 bytes, and what two products of halfwords do not fit into.
  for (int i = 12; i < 15; i++) {
    int bytes = 2 << (i - 12);
    for (int j = 0; j < 16; j += bytes) {
      u64 top = (u64)1 << (8 * bytes - 1);
      u64 value = (u64[]){top, top - 1, -(u64)1, 1}[next64() >> 20 & 3];
      for (int k = 0; k < bytes; k++) in[i][j + k] = value >> (8 * (bytes - 1 - k));
    }
  }
  for (int j = 0; j < 16; j++) in[15][j] = j & 1 ? 0 : 0x80;
  for (int j = 0; j < 16; j++) in[19][j] = in[18][j];
  in[19][5] ^= 1;
${TRIED.map((text) => `  CASE("${escaped(text)}");`).join('\n')}
${TRIED_ACCESSES.map((text) => `  ACCESS("${escaped(text)}");`).join('\n')}
  flush();
  return 0;
}
`;

const targets = TARGETS.filter(({ name }) => name.startsWith('ppc64-elfv2'));
for (const target of repeats(targets)) {
  describeWith([target.gcc, target.qemu], `VMX and VSX on ${target.name}`, () => {
    const path = (): string => buildProgram(target, '1', [writeSource('vectors.c', SOURCE)]);

    test('every instruction gives what it gives under qemu', () => {
      const program = path();
      const expected = runQemu(target, program);
      expect(expected.end).toBe(0);
      expect(expected.output.split('\n').length).toBeGreaterThan(TRIED.length + TRIED_ACCESSES.length);
      for (const tier of target === targets[0] || isWhole ? ([0, 1] as const) : ([1] as const)) {
        const here = runHere(target, program, { tier });
        expect(here.end).toBe(0);
        expect(here.output.split('\n')).toEqual(expected.output.split('\n'));
      }
    });
  });
}

test('an access that ends in what is not mapped changes no register', () => {
  const { emulation } = ppc64ElfV2Le;
  if (emulation.kind !== 'ir') throw new Error('no emulation');
  // lxvd2x 34,0,3; lxvw4x 3,0,3; lvx 2,0,3 is aligned and cannot.
  for (const word of [0x7c40_1e99, 0x7c60_1e18]) {
    const machine = new Machine({ lifter: emulation.lifter });
    machine.load(0x1_0000n, new Uint8Array(Uint32Array.of(word).buffer), { permission: 'rx' });
    machine.map({ address: 0x2_0000n, size: 0x1000, permission: 'rw' });
    machine.setRegister('pc', 0x1_0000n);
    machine.setRegister('r3', 0x2_0ff8n);
    machine.setRegister('v2', 0x1234_5678_9abc_def0_0fed_cba9_8765_4321n);
    machine.setRegister('vs3', 0x1111_2222_3333_4444_5555_6666_7777_8888n);
    expect(machine.run()).toMatchObject({ kind: 'fault', address: 0x2_1000n, access: 'read', instruction: 0x1_0000n });
    expect(machine.register('v2')).toBe(0x1234_5678_9abc_def0_0fed_cba9_8765_4321n);
    expect(machine.register('vs3')).toBe(0x1111_2222_3333_4444_5555_6666_7777_8888n);
    expect(machine.register('f3')).toBe(0x1111_2222_3333_4444n);
  }
});
