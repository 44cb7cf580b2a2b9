/**
 * Numbers of instructions, and every program counter on the way: qemu-user in single-step mode writes one log line before each
 * instruction. (Under qemu 7.2 that holds for the PowerPC targets: no line is lost or doubled.)
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import {
  buildCombined,
  programName,
  programPaths,
  runHere,
  runQemu,
  scratch,
  startHere,
  TARGETS,
} from './support/c-programs.js';
import type { Level, PpcTarget } from './support/c-programs.js';
import { describeWith } from './support/tools.js';

const COUNTED = [
  'recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'printf', 'setjmp', 'structs',
  'unaligned', 'varargs-types',
]; // prettier-ignore
const FOLLOWED = ['bits', 'setjmp', 'structs', 'varargs-types'];

function paths(names: readonly string[]): readonly string[] {
  return programPaths().filter((path) => names.includes(programName(path)));
}

/** The log of qemu: addresses of the instructions in order. */
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

let counted = 0;
for (const target of TARGETS) {
  describeWith([target.gcc, target.qemu], `instruction counts on ${target.name}`, () => {
    test.each<Level>(['2', 's'])('-O%s: as many as under qemu', (level) => {
      const program = buildCombined(target, level, paths(COUNTED));
      const { lines, end } = qemuLog(target, program);
      const here = runHere(target, program);
      expect(here.end).toBe(end);
      expect(here.instructions).toBeGreaterThan(100_000);
      expect(here.instructions).toBe(countTraces(lines));
      counted += here.instructions;
    });

    test('each instruction has the address that it has under qemu', () => {
      const program = buildCombined(target, '2', paths(FOLLOWED));
      const { lines } = qemuLog(target, program);
      const expected = [...lines.toString('latin1').matchAll(/^Trace .*?\/([0-9a-f]{8,16})\//gm)].map((match) =>
        parseInt(match[1]!, 16),
      );
      const { process: here } = startHere(target, program);
      const pc = (): number => Number(here.machine.register('pc'));
      for (let i = 0; i < expected.length; i++) {
        if (pc() !== expected[i]) {
          const text = `instruction ${i} on ${target.name} is at ${pc().toString(16)}, under qemu at ${expected[i]!.toString(16)}`;
          throw new Error(text);
        }
        const stop = here.machine.step();
        if (stop.kind !== 'step-limit') expect([stop.kind, i]).toEqual(['exit', expected.length - 1]);
      }
      expect(here.machine.instructions).toBe(expected.length);
      expect(expected.length).toBeGreaterThan(50_000);
      process.stderr.write(`${target.name}: ${expected.length} addresses, ${counted} instructions counted so far\n`);
    });
  });
}
