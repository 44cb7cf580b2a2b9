/**
 * Floating point of VMX, and VMX of 32-bit programs, against qemu-user: each instruction with pairs
 * of special and random operands, subnormal numbers kept and not (VSCR.NJ), in both tiers and byte
 * orders: results, VSCR and CR6.
 */
import { C_RANDOM } from './support/c-random.js';
import { describe, expect, test } from '@jest/globals';
import { isWhole, sampled, times } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { buildProgram, runHere, runQemu, TARGETS } from './support/c-programs.js';
import { ppcMachine, writeSource } from './support/emulator.js';
import { CASES, VMX_DECIMALS, VMX_FLOATS } from './support/ppc-vectors.js';
import { describeWith } from './support/tools.js';

const escaped = (text: string): string => text.replaceAll(';', '\\n');

/** Vectors in v3, v4 and v5, the result in v2. */
const source = (texts: readonly string[], machine: string): string => `
#include "lib.h"
typedef u32 vector[4] __attribute__((aligned(16)));
static vector in[COUNT + 2];
static vector out[2];
static vector status;
static u64 sum;
${C_RANDOM}
static void digest(u32 value) {
  sum = (sum ^ value) * 1099511628211ULL;
  sum ^= sum >> 29;
}
static const u32 special[] = {
  0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00011, 0xffc00022, 0x7f800033, 0xffa00044, 1, 0x807fffff,
  0x00800000, 0x7f7fffff, 0x3fc00000, 0xc0400001, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x4f800000, 0x3effffff,
  0x00800001, 0x80ffffff, 0xc0200000, 0x40600000, 0x5f000000, 0x1f800000,
};
static u32 operand(int i) {
  u32 bits = (u32)next64();
  if (i < 28) return special[i];
  switch (i & 3) {
  case 0: return (bits & 0x807fffff) | (120 + ((bits >> 23) & 15)) << 23;
  case 1: return (bits & 0x807fffff) | (60 + ((bits >> 23) & 15)) << 23;
  case 2: return (bits & 0x80700000) | (125 + ((bits >> 23) & 7)) << 23;
  default: return bits;
  }
}
#define CASE(text) do { \\
  sum = 14695981039346656037ULL; \\
  for (int nj = 0; nj < 2; nj++) for (int i = 0; i < COUNT; i++) for (int j = 0; j < COUNT; j += ${times(1, 3, 9)}) { \\
    word cr; \\
    status[LOW] = (u32)nj << 16; \\
    __asm__ volatile(".machine push\\n.machine ${machine}\\n lvx 6,0,%1\\n mtvscr 6\\n vxor 2,2,2\\n lvx 3,0,%2\\n lvx 4,0,%3\\n lvx 5,0,%4\\n" text "\\n stvx 2,0,%5\\n mfvscr 6\\n stvx 6,0,%1\\n mfcr %0\\n.machine pop" \\
      : "=&r"(cr) : "b"(status), "b"(in[i]), "b"(in[j]), "b"(in[(i + j) % COUNT]), "b"(out) : "v2", "v3", "v4", "v5", "v6", "cr6", "memory"); \\
    for (int k = 0; k < 4; k++) digest(out[0][k]); \\
    digest(status[LOW]); \\
    digest((u32)cr & 0xf0); \\
  } \\
  line(text, sum); \\
} while (0)
#ifdef __LITTLE_ENDIAN__
#define LOW 0
#else
#define LOW 3
#endif
int main(int argc, char **argv) {
  for (int i = 0; i < COUNT; i++)
    for (int j = 0; j < 4; j++) in[i][j] = FILL;
${texts.map((text) => `  CASE("${escaped(text)}");`).join('\n')}
  flush();
  return 0;
}
`;

function compare(
  target: (typeof TARGETS)[number],
  texts: readonly string[],
  options: { readonly fill: string; readonly count: number; readonly machine: string; readonly cpu: string },
): void {
  const { fill, count, machine, cpu } = options;
  const text = `#define COUNT ${count}\n#define FILL ${fill}\n${source(texts, machine)}`;
  const altivec = { ...target, flags: [...target.flags, '-maltivec', '-mno-vsx'] };
  const program = buildProgram(altivec, '1', [writeSource(`vmx-${target.name}.c`, text)]);
  const expected = runQemu(target, program, { flags: ['-cpu', cpu] });
  expect(expected.end).toBe(0);
  expect(expected.output.split('\n').length).toBeGreaterThan(texts.length);
  // What a lifter makes of an instruction is the same for all targets: both tiers on one of them.
  for (const tier of isWhole || target === TARGETS.at(-1) ? ([0, 1] as const) : ([1] as const)) {
    const here = runHere(target, program, { tier });
    expect(here.end).toBe(0);
    expect(here.output.split('\n')).toEqual(expected.output.split('\n'));
  }
}

/** Those that an assembler takes for a processor of 32 bits, and that have no registers of VSX. */
function classic(gcc: string): string[] {
  const path = writeSource('classic.s', `${CASES.join('\n')}\n`);
  const as = gcc.replace(/gcc$/, 'as');
  const { stderr } = spawnSync(as, ['-m7450', '-mregnames', '-o', '/dev/null', path]);
  const refused = new Set([...stderr.toString().matchAll(/:(\d+): Error/g)].map(([, line]) => Number(line)));
  return CASES.filter((text, i) => !refused.has(i + 1) && !/\bxx|[lm][fx]|mtvscr|mfvscr/.test(text));
}

const FLOATS = 'operand(i < 28 ? (i * (j + 1) + j) % 28 : i)';
for (const target of sampled(TARGETS, 2)) {
  describeWith([target.gcc, target.qemu], `VMX on ${target.name}`, () => {
    const is32 = target.name === 'ppc32';
    test('floating point gives what it gives under qemu', () => {
      const cpu = is32 ? '7448' : 'power8';
      compare(target, VMX_FLOATS, { fill: FLOATS, count: 30, machine: is32 ? 'altivec' : 'power8', cpu });
    });
    if (is32) {
      test('so do integers', () => {
        const all = classic(target.gcc);
        expect(all.length).toBeGreaterThan(150);
        const texts = sampled(all, 4);
        compare(target, texts, { fill: '(u32)(next64() >> 13)', count: 5, machine: 'altivec', cpu: '7448' });
      });
    } else {
      test('so do decimal numbers', () => {
        // Some have no sign. qemu takes digits above 9 where signs differ, and no 0 of two zeros.
        const fill = '(u32)(next64() & 0x79797970) | (j != LOW ? 9 : i % 5 == 4 ? 3 : 10 + i % 6)';
        compare(target, VMX_DECIMALS, { fill, count: 20, machine: 'power8', cpu: 'power8' });
      });
    }
  });
}

test('decimal numbers: zeros, overflow, digits that are none', () => {
  const after = (name: 'bcdadd.' | 'bcdsub.', a: bigint, b: bigint): readonly [bigint, bigint] => {
    const machine = ppcMachine('le', [[name, { vrt: 2, vra: 3, vrb: 4, ps: 0 }]]);
    machine.setRegister('v3', a);
    machine.setRegister('v4', b);
    expect(machine.run({ budget: 1 }).kind).toBe('step-limit');
    return [machine.register('v2'), (machine.register('cr') >> 4n) & 15n];
  };
  expect(after('bcdadd.', 0xcn, 0xcn)).toEqual([0xcn, 2n]);
  expect(after('bcdsub.', 0x12dn, 0x12dn)).toEqual([0xcn, 2n]);
  expect(after('bcdsub.', 0xcn, 0x12cn)).toEqual([0x12dn, 8n]);
  expect(after('bcdadd.', BigInt(`0x${'9'.repeat(31)}c`), 0x2cn)).toEqual([0x1cn, 5n]);
  expect(after('bcdadd.', 0xa0cn, 0x2dn)[1]).toBe(1n);
});

describe('estimates of VMX', () => {
  const numbers = new Float32Array(4);
  const words = new Uint32Array(numbers.buffer);
  function estimated(name: 'vexptefp' | 'vlogefp', operands: readonly number[], nj: bigint): number[] {
    const machine = ppcMachine('be', [[name, { vrt: 2, vrb: 3 }]]);
    numbers.set(operands);
    machine.setRegister('vscr', nj);
    machine.setRegister('v3', words.reduce((all, each) => (all << 32n) | BigInt(each), 0n)); // prettier-ignore
    expect(machine.run({ budget: 1 }).kind).toBe('step-limit');
    const result = machine.register('v2');
    words.forEach((_, i) => {
      words[i] = Number((result >> BigInt(96 - 32 * i)) & 0xffff_ffffn);
    });
    return [...numbers];
  }

  test('powers of 2: within a sixteenth, and exact for integers', () => {
    expect(estimated('vexptefp', [Infinity, -Infinity, NaN, 0], 0n)).toEqual([Infinity, 0, NaN, 1]);
    expect(estimated('vexptefp', [3, -2, 127, -126], 0n)).toEqual([8, 0.25, 2 ** 127, 2 ** -126]);
    expect(estimated('vexptefp', [128, -127, -200, 200], 0n)).toEqual([Infinity, 2 ** -127, 0, Infinity]);
    expect(estimated('vexptefp', [128, -127, -200, 200], 0x1_0000n)[1]).toBe(0);
    for (let i = 0; i < 100; i++) {
      const operand = Math.fround((i - 50) * 1.37);
      const [value] = estimated('vexptefp', [operand, 0, 0, 0], 0n);
      expect(Math.abs(value! / 2 ** operand - 1)).toBeLessThan(1 / 16);
    }
  });

  test('logarithms: within a thirty-second, and exact for powers of 2', () => {
    expect(estimated('vlogefp', [0, -0, Infinity, -1], 0n)).toEqual([-Infinity, -Infinity, Infinity, NaN]);
    expect(estimated('vlogefp', [8, 0.25, 1, 2 ** -126], 0n)).toEqual([3, -2, 0, -126]);
    expect(estimated('vlogefp', [2 ** -140, 0, 0, 0], 0n)[0]).toBe(-140);
    expect(estimated('vlogefp', [2 ** -140, 0, 0, 0], 0x1_0000n)[0]).toBe(-Infinity);
    for (let i = 1; i < 100; i++) {
      const [value] = estimated('vlogefp', [Math.fround(i * 1.37), 0, 0, 0], 0n);
      expect(Math.abs(value! - Math.log2(i * 1.37))).toBeLessThan(1 / 32);
    }
  });
});
