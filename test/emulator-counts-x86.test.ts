/**
 * Numbers of instructions of x86-64 programs, and every program counter on the way, against the log
 * of qemu-user in single-step mode: one line before each instruction, and before each iteration of
 * a repeated string instruction.
 */
import { test } from '@jest/globals';
import { buildProgram, X86_TARGETS } from './support/c-programs.js';
import type { Level } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { buildNamed, COUNTED, expectSameAddresses, expectSameCount, FOLLOWED } from './support/program-tests.js';
import { describeWith } from './support/tools.js';
import { repeats } from './support/long.js';

/** String instructions with counts of 0, 1 and more, and a comparison that ends early. */
const STRINGS = `
#include "lib.h"
static u8 a[300], b[300];
static void many(word n) {
  void *to = b, *from = a;
  word left = n;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
  to = a; left = n / 8;
  __asm__ volatile("rep stosq" : "+D"(to), "+c"(left) : "a"(n) : "memory");
  to = b; from = a; left = n;
  __asm__ volatile("repe cmpsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory", "cc");
  line("left", left);
  to = b; left = n;
  __asm__ volatile("repne scasb" : "+D"(to), "+c"(left) : "a"(3) : "memory", "cc");
  line("left", left);
}
int main(void) {
  for (int i = 0; i < 300; i++) a[i] = (u8)(i * 5);
  many(0);
  many(1);
  many(3);
  many(250);
  flush();
  return 0;
}
`;

for (const target of X86_TARGETS.slice(0, 2)) {
  describeWith([target.gcc, target.qemu], `instruction counts on ${target.name}`, () => {
    test.each(repeats<Level>(['2', 's']))('-O%s: as many as under qemu', (level) => {
      const counted = expectSameCount(target, buildNamed(target, level, COUNTED));
      process.stderr.write(`${target.name} -O${level}: ${counted} instructions counted\n`);
    });

    test.each(['programs', 'string instructions'])(
      'each instruction of %s has the address that it has under qemu',
      (what) => {
        if (what === 'programs') expectSameAddresses(target, buildNamed(target, '2', FOLLOWED), 30_000);
        else expectSameAddresses(target, buildProgram(target, '2', [writeSource('strings.c', STRINGS)]), 1000);
      },
    );
  });
}
