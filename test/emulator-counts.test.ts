/**
 * Numbers of instructions, and every program counter on the way, on every target: qemu-user in
 * single-step mode writes one log line before each instruction, and before each iteration of a
 * repeated string instruction. (Under qemu 7.2 no line is lost or doubled.)
 */
import { test } from '@jest/globals';
import {
  ARM64_TARGETS,
  buildProgram,
  type Level,
  type PpcTarget,
  RISCV_TARGETS,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { buildNamed, COUNTED, expectSameAddresses, expectSameCount, FOLLOWED } from './support/program-tests.js';
import { describeWith } from './support/tools.js';
import { few, firstOf, isLong, isWhole } from './support/long.js';

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

interface Row {
  readonly target: PpcTarget;
  /** Levels at which instructions are counted; all but the first are long proofs. */
  readonly levels: readonly Level[];
  readonly counted: readonly string[];
  /** Programs whose addresses are followed, the level, and how many there are at least. */
  readonly followed: readonly [names: readonly string[], level: Level, least: number] | null;
}

const row = (target: PpcTarget, more: Partial<Row> = {}): Row => ({
  target,
  levels: ['2', 's'],
  counted: COUNTED,
  followed: [FOLLOWED, '2', 50_000],
  ...more,
});

const [general, , plain] = ARM64_TARGETS as [PpcTarget, PpcTarget, PpcTarget];
const ARM64_COUNTED = ['recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'structs'];

const rows: readonly Row[] = [
  ...TARGETS.map((target) => row(target)),
  ...RISCV_TARGETS.map((target) => row(target, { levels: ['2'], followed: [FOLLOWED, 's', 50_000] })),
  // Structures are copied by vector registers where the compiler may use them.
  row(general, { counted: ARM64_COUNTED, followed: null }),
  row(plain, { levels: [], followed: [['bits', 'structs', 'varargs-types'], '2', 40_000] }),
  ...X86_TARGETS.slice(0, 2).map((target) => row(target, { followed: [FOLLOWED, '2', 30_000] })),
];

/** One of each front end, whose counts are tried; the others are left to the whole tables. */
const first = firstOf(rows, ({ target }) => target.arch.target.id.replace(/-.*/, ''));
/** Fixed and varying lengths of instructions. */
const quick = new Set([...first].filter(({ target }) => /^(riscv|x86)/.test(target.arch.target.id)));

for (const each of rows) {
  if (!isWhole && !(isLong ? first : quick).has(each) && each.levels.length > 0) continue;
  const { target, levels, counted, followed } = each;
  describeWith([target.gcc, target.qemu], `instruction counts on ${target.name}`, () => {
    if (levels.length > 0) {
      test.each(few(levels))('-O%s: as many as under qemu', (level) => {
        const count = expectSameCount(target, buildNamed(target, level, counted));
        process.stderr.write(`${target.name} -O${level}: ${count} instructions counted\n`);
      });
    }
    if (followed === null || (!isLong && !/^x86/.test(target.name))) return;
    const [names, level, least] = followed;
    test('each instruction has the address that it has under qemu', () => {
      const count = expectSameAddresses(target, buildNamed(target, level, names), least);
      process.stderr.write(`${target.name}: ${count} addresses followed\n`);
    });
  });
}

for (const target of few(X86_TARGETS.slice(0, 2))) {
  describeWith([target.gcc, target.qemu], `string instructions on ${target.name}`, () => {
    test('each iteration has the address that it has under qemu', () => {
      expectSameAddresses(target, buildProgram(target, '2', [writeSource('strings.c', STRINGS)]), 1000);
    });
  });
}
