/**
 * Makers of processors: the rows in which they differ are what this one does, and the emulator does
 * consistently what the maker does that its `cpuid` names.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { x86Lifter } from '../src/arch-x86/lift.js';
import { Machine } from '../src/emulator/index.js';
import { X86_TARGETS, runHere, scratch } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { ask, isX86Linux, maker, type Maker, MAKER_ROWS, MAKERS, type Reaction } from './support/processor.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, runProgramFile } from './support/tools.js';

const START = 0x1_0000n;

function machineOf(code: readonly number[]): Machine {
  const machine = new Machine({ lifter: x86Lifter });
  machine.load(START, Uint8Array.from(code), { permission: 'rx', size: 0x1000 });
  machine.setRegister('pc', START);
  return machine;
}

/** eax, ebx, ecx, edx of a leaf. */
function cpuid(leaf: number, subleaf = 0): readonly number[] {
  const machine = machineOf([0x0f, 0xa2]);
  machine.setRegister('rax', BigInt(leaf));
  machine.setRegister('rcx', BigInt(subleaf));
  machine.run({ budget: 1 });
  return ['rax', 'rbx', 'rcx', 'rdx'].map((name) => Number(machine.register(name)));
}

const text = (words: readonly number[]): string =>
  Buffer.from(Uint32Array.from(words).buffer).toString('latin1').replace(/\0.*$/, '');

describe('the processor that the emulator is', () => {
  const [most, b, c, d] = cpuid(0) as [number, number, number, number];
  const vendor = text([b, d, c]) as Maker;

  test('names its maker and its model', () => {
    expect(MAKERS).toContain(vendor);
    expect(text([cpuid(0x8000_0000)[1]!, cpuid(0x8000_0000)[3]!, cpuid(0x8000_0000)[2]!])).toBe(vendor);
    const brand = [0x8000_0002, 0x8000_0003, 0x8000_0004].flatMap((leaf) => cpuid(leaf));
    expect(text(brand)).toBe('elftrace x86-64 emulator');
    expect(most).toBe(7);
  });

  test.each(MAKER_ROWS)('does what that maker does: $what', ({ bytes, makers }) => {
    // inc ebx behind it, which is reached by all that is executed.
    const machine = machineOf([...bytes, 0xff, 0xc3]);
    const stop = machine.run({ budget: 2 });
    const reaction: Reaction =
      stop.kind === 'trap' && stop.trap === 'undefined-instruction'
        ? 'invalid-opcode'
        : machine.register('rbx') === 1n
          ? 'executed'
          : 'fault';
    expect(reaction).toBe(makers[vendor]);
  });

  test('describes caches: 32 KiB of data, 512 KiB and 8 MiB of both, then no more', () => {
    const sizes = [0, 1, 2, 3, 4].map((subleaf) => {
      const [type = 0, ways = 0, sets = 0] = cpuid(4, subleaf);
      return [type & 31, (type >> 5) & 7, (((ways >>> 22) & 0x3ff) + 1) * ((ways & 0xfff) + 1) * (sets + 1)];
    });
    expect(sizes.slice(0, 4)).toEqual([[1, 1, 0x8000], [2, 1, 0x8000], [3, 2, 0x8_0000], [3, 3, 0x80_0000]]); // prettier-ignore
    expect(sizes[4]!.slice(0, 2)).toEqual([0, 0]);
  });
});

describeWith(['gcc'], 'this processor', () => {
  test.each(MAKER_ROWS)('does what its maker says: $what', ({ bytes, makers }) => {
    const own = maker();
    if (own === null) {
      process.stderr.write('rows of makers: not asked of this processor, which is of none of them\n');
      return;
    }
    expect([own, ask(bytes)]).toEqual([own, makers[own]]);
  });

  test('rdpid is there when its feature is, and the emulator has neither', () => {
    const rdpid = [0xf3, 0x0f, 0xc7, 0xf8];
    if (isX86Linux) {
      const isAnnounced = /^flags\s*:.*\brdpid\b/m.test(readFileSync('/proc/cpuinfo', 'latin1'));
      expect(ask(rdpid)).toBe(isAnnounced ? 'executed' : 'invalid-opcode');
    }
    expect((cpuid(7)[2]! >>> 22) & 1).toBe(0);
    expect(machineOf(rdpid).run()).toMatchObject({ kind: 'unknown-instruction', mnemonic: 'rdpid' });
  });

  test('the C library that looks at cpuid copies the same bytes here, large ones too', () => {
    const source = writeSource(
      'copies.c',
      `#include <stdio.h>
       #include <stdlib.h>
       #include <string.h>
       int main(void) {
         static unsigned char a[1 << 22], b[(1 << 22) + 64];
         for (unsigned i = 0; i < sizeof a; i++) a[i] = (unsigned char)(i * 7 + (i >> 8));
         for (unsigned n = 1; n <= sizeof a; n = n * 3 + 1) {
           memset(b, n, sizeof b);
           memcpy(b + n % 61, a, n);
           memmove(b + 3, b + n % 61, n);
           unsigned sum = 1;
           for (unsigned i = 0; i < sizeof b; i += 13) sum = sum * 31 + b[i];
           printf("%u %u %zu %d\\n", n, sum, strnlen((char *)b, sizeof b), memcmp(a, b + 3, n));
         }
         return 0;
       }`,
    );
    const path = scratch('copies');
    const made = spawnSync('gcc', ['-O2', '-static', '-w', source, '-o', path], { encoding: 'utf8' });
    if (made.status !== 0) {
      process.stderr.write('no static C library for gcc: copies not made\n');
      return;
    }
    const here = runHere(X86_TARGETS[0]!, path);
    expect(here.end).toBe(0);
    const outside = isX86Linux ? runProgramFile(path) : runProgramFile('qemu-x86_64', [path]);
    expect(here.output).toBe(outside.stdout);
  });
});
