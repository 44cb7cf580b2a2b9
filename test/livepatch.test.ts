/**
 * `patch --livepatch F=NEW --with new.o` on programs of every machine and kind of site: where sites
 * stand at the start of functions the new one runs in place of the old, here and under qemu, and
 * the callers cannot tell; where -pg calls behind the prologue it is refused.
 */
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  ARM64_TARGETS,
  buildProgram,
  type PpcTarget,
  RISCV_TARGETS,
  runHere,
  runQemu,
  scratch,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';
import { sampled } from './support/long.js';

/**
 * Eight arguments, a caller that keeps values in every kind of register, recursion through the old
 * name.
 */
const SOURCE = `#include "lib.h"
void _mcount(void);
u32 state[4] = {1, 2, 3, 4};
__attribute__((noinline)) u32 mix(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h) {
  state[a & 3] += b;
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
__attribute__((noinline)) u32 many(u32 n) {
  u32 x = n, y = n * 3, z = n * 5, w = n * 7;
  for (u32 i = 0; i < n; i++) {
    x += mix(i, x, y, z, w, i + 1, i + 2, i + 3);
    y ^= x; z += y; w ^= z;
  }
  return x ^ y ^ z ^ w;
}
u32 (*volatile pointer)(u32, u32, u32, u32, u32, u32, u32, u32) = mix;
int main(void) {
  line("many", many(9));
  line("state", state[0] ^ state[1] * 3 ^ state[2] * 5 ^ state[3] * 7);
  line("pointer", pointer(1, 2, 3, 4, 5, 6, 7, 8));
  flush();
  return 0;
}
`;
/** The same with another sum; it calls back into the program. */
const NEW = `typedef unsigned int u32;
extern u32 state[4];
static u32 weights[8] = {8, 7, 6, 5, 4, 3, 2, 1};
u32 mix_new(u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 g, u32 h) {
  state[b & 3] ^= a + 1;
  return a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3] + e * weights[4] + f * weights[5] + g * weights[6] + h * weights[7];
}
`;
/** The profiling function that -pg calls, for programs without a C library. */
const MCOUNT: Readonly<Record<string, string>> = {
  'x86-64': '\t.globl mcount, __fentry__\nmcount:\n__fentry__:\tret\n',
  ppc32: '\t.globl _mcount\n_mcount:\tmflr 12\n\tmtctr 12\n\tlwz 0,4(1)\n\tmtlr 0\n\tbctr\n',
  'ppc64-elfv1':
    '\t.section .opd,"aw"\n\t.align 3\n\t.globl _mcount\n\t.type _mcount,@function\n_mcount:\t.quad .Lm,.TOC.@tocbase,0\n\t.text\n.Lm:\tblr\n',
  'ppc64-elfv2': '\t.abiversion 2\n\t.globl _mcount\n\t.type _mcount,@function\n_mcount:\tblr\n',
  mprofile: '\t.globl _mcount\n\t.type _mcount,@function\n_mcount:\tmflr 12\n\tmtctr 12\n\tmtlr 0\n\tbctr\n',
  mprofileV1:
    '\t.section .opd,"aw"\n\t.align 3\n\t.globl _mcount\n\t.type _mcount,@function\n_mcount:\t.quad .Lm,.TOC.@tocbase,0\n\t.text\n.Lm:\tmflr 12\n\tmtctr 12\n\tmtlr 0\n\tbctr\n',
  ret: '\t.globl _mcount\n_mcount:\tret\n',
};

interface Case {
  readonly target: PpcTarget;
  readonly flags: readonly string[];
  /** Key of MCOUNT; null where nothing is called. */
  readonly mcount: string | null;
  readonly works: boolean;
}
const [ppc32, v1, v2be, v2le] = TARGETS as [PpcTarget, PpcTarget, PpcTarget, PpcTarget];
const [x86] = X86_TARGETS as [PpcTarget];
const [riscv] = RISCV_TARGETS as [PpcTarget];
const [arm64] = ARM64_TARGETS as [PpcTarget];
const profile = ['-pg', '-mprofile-kernel'];
const cases: readonly Case[] = [
  { target: x86, flags: ['-pg', '-mfentry'], mcount: 'x86-64', works: true },
  { target: x86, flags: ['-fpatchable-function-entry=5'], mcount: null, works: true },
  { target: x86, flags: ['-pg'], mcount: 'x86-64', works: false },
  { target: ppc32, flags: ['-pg'], mcount: 'ppc32', works: true },
  { target: ppc32, flags: ['-fpatchable-function-entry=2'], mcount: null, works: true },
  { target: v1, flags: profile, mcount: 'mprofileV1', works: true },
  { target: v1, flags: ['-pg'], mcount: 'ppc64-elfv1', works: false },
  { target: v2be, flags: profile, mcount: 'mprofile', works: true },
  { target: v2be, flags: ['-pg'], mcount: 'ppc64-elfv2', works: false },
  { target: v2le, flags: profile, mcount: 'mprofile', works: true },
  { target: v2le, flags: ['-pg'], mcount: 'ppc64-elfv2', works: false },
  { target: riscv, flags: ['-fpatchable-function-entry=8'], mcount: null, works: true },
  { target: riscv, flags: ['-pg'], mcount: 'ret', works: false },
  { target: arm64, flags: ['-fpatchable-function-entry=2'], mcount: null, works: true },
  { target: arm64, flags: ['-fpatchable-function-entry=4,2', '-falign-functions=8'], mcount: null, works: true },
  { target: arm64, flags: ['-pg'], mcount: 'ret', works: false },
];

const tools = [...new Set(cases.flatMap(({ target }) => [target.gcc, target.qemu]))];
describeWith(tools, 'livepatch', () => {
  describe.each(sampled(cases, 2).map((each) => [each.target.name, each.flags.join(' '), each] as const))(
    '%s %s',
    (_name, _flags, { target, flags, mcount, works }) => {
      const object = (text: string, language: string, more: readonly string[] = []): string => {
        const output = scratch('part.o');
        const common = ['-O2', '-w', '-ffreestanding', '-fno-stack-protector', ...target.flags, ...more];
        run(target.gcc, [...common, '-c', '-x', language, '-', '-o', output], text);
        return output;
      };
      const build = (source: string, ...more: string[]): string => {
        const path = scratch('main.c');
        writeFileSync(path, source);
        const entry = mcount === null ? [] : [object(MCOUNT[mcount]!, 'assembler')];
        return buildProgram(target, '2', [path, ...entry, ...more], flags);
      };

      test(works ? 'the new function runs in place of the old' : 'refused, with the reason', () => {
        const program = build(SOURCE);
        const replacement = object(NEW, 'c');
        const output = scratch('patched');
        const args = ['patch', program, '--livepatch', 'mix=mix_new', '--with', replacement, '-o', output];
        const { status, stderr } = elftrace(args);
        if (!works) {
          expect([status, stderr]).toEqual([4, expect.stringContaining('its sites call it behind the prologue (-pg)')]);
          expect(existsSync(output)).toBe(false);
          return;
        }
        expect([status, stderr.replaceAll(/^.*notice: .*\n/gm, '')]).toEqual([0, '']);
        // What a program prints whose source has the new function.
        const wanted = runQemu(
          target,
          build(
            SOURCE.replace(
              /u32 mix\([^]*?\n}\n/,
              NEW.replace(/^typedef.*\n|^extern.*\n/gm, '').replace('mix_new', '__attribute__((noinline)) mix'),
            ),
          ),
        );
        expect(wanted.output).not.toBe(runQemu(target, program).output);
        chmodSync(output, 0o755);
        expect(runQemu(target, output)).toEqual(wanted);
        const { output: here, end } = runHere(target, output);
        expect({ output: here, end }).toEqual(wanted);
      });
    },
  );
});

test('X-ENT-7: a nested function has begun where its site is: none takes its place', () => {
  const output = scratch('nested-replaced');
  const program = join(builtSamples, 'x86-64', 'program-fentry');
  const { status, stderr } = elftrace(['patch', program, '--livepatch', 'inner.0=bump', '-o', output]);
  expect([status, stderr]).toEqual([1, expect.stringContaining('inner.0 is a nested function')]);
  expect(existsSync(output)).toBe(false);
});
