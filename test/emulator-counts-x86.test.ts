/**
 * Numbers of instructions of x86-64 programs, and every program counter on the way, against the log of qemu-user in single-step mode: one
 * line before each instruction, and before each iteration of a repeated string instruction.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import {
  buildCombined,
  buildProgram,
  programName,
  programPaths,
  runHere,
  runQemu,
  scratch,
  startHere,
  X86_TARGETS,
} from './support/c-programs.js';
import type { Level, PpcTarget } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { describeWith } from './support/tools.js';

const COUNTED = [
  'recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'printf', 'setjmp', 'structs',
  'unaligned', 'varargs-types',
]; // prettier-ignore
const FOLLOWED = ['bits', 'setjmp', 'structs', 'varargs-types'];
const paths = (names: readonly string[]): readonly string[] =>
  programPaths().filter((path) => names.includes(programName(path)));

function qemuLog(target: PpcTarget, program: string): { readonly lines: Buffer; readonly end: number | string } {
  const log = scratch('log');
  const { end } = runQemu(target, program, { flags: ['-singlestep', '-d', 'exec,nochain', '-D', log] });
  return { lines: readFileSync(log), end };
}

function countTraces(lines: Buffer): number {
  let count = 0;
  for (let at = lines.indexOf('Trace '); at >= 0; at = lines.indexOf('Trace ', at + 60)) count++;
  return count;
}

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
    test.each<Level>(['2', 's'])('-O%s: as many as under qemu', (level) => {
      const program = buildCombined(target, level, paths(COUNTED));
      const { lines, end } = qemuLog(target, program);
      const here = runHere(target, program);
      expect(here.end).toBe(end);
      expect(here.instructions).toBeGreaterThan(100_000);
      expect(here.instructions).toBe(countTraces(lines));
      process.stderr.write(`${target.name} -O${level}: ${here.instructions} instructions counted\n`);
    });

    test.each(['programs', 'string instructions'])(
      'each instruction of %s has the address that it has under qemu',
      (what) => {
        const program =
          what === 'programs'
            ? buildCombined(target, '2', paths(FOLLOWED))
            : buildProgram(target, '2', [writeSource('strings.c', STRINGS)]);
        const { lines } = qemuLog(target, program);
        const expected = [...lines.toString('latin1').matchAll(/^Trace .*?\/([0-9a-f]{8,16})\//gm)].map((match) =>
          parseInt(match[1]!, 16),
        );
        const { process: here } = startHere(target, program);
        const pc = (): number => Number(here.machine.register('pc'));
        for (let i = 0; i < expected.length; i++) {
          if (pc() !== expected[i]) {
            throw new Error(`instruction ${i} is at ${pc().toString(16)}, under qemu at ${expected[i]!.toString(16)}`);
          }
          const stop = here.machine.step();
          if (stop.kind !== 'step-limit') expect([stop.kind, i]).toEqual(['exit', expected.length - 1]);
        }
        expect(here.machine.instructions).toBe(expected.length);
        expect(expected.length).toBeGreaterThan(what === 'programs' ? 30_000 : 1000);
      },
    );
  });
}
