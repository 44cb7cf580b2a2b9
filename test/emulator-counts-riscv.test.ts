/**
 * Numbers of instructions on RISC-V 64, and every program counter on the way: qemu-user in single-step mode writes one log line before
 * each instruction.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import {
  buildCombined,
  programName,
  programPaths,
  RISCV_TARGETS,
  runHere,
  runQemu,
  scratch,
  startHere,
} from './support/c-programs.js';
import { describeWith } from './support/tools.js';

const COUNTED = [
  'recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'printf', 'setjmp', 'structs',
  'unaligned', 'varargs-types',
]; // prettier-ignore
const FOLLOWED = ['bits', 'setjmp', 'structs', 'varargs-types'];

const paths = (names: readonly string[]): readonly string[] =>
  programPaths().filter((path) => names.includes(programName(path)));

let counted = 0;
for (const target of RISCV_TARGETS) {
  /** The log of qemu: one line for each instruction, with its address. */
  const qemuLog = (program: string): { readonly lines: Buffer; readonly end: number | string } => {
    const log = scratch('log');
    const flags = ['-singlestep', '-d', 'exec,nochain', '-D', log];
    const { end } = runQemu(target, program, { flags });
    return { lines: readFileSync(log), end };
  };

  describeWith([target.gcc, target.qemu], `instruction counts on ${target.name}`, () => {
    test('-O2: as many as under qemu', () => {
      const program = buildCombined(target, '2', paths(COUNTED));
      const { lines, end } = qemuLog(program);
      const here = runHere(target, program);
      expect(here.end).toBe(end);
      expect(here.instructions).toBeGreaterThan(100_000);
      let count = 0;
      for (let at = lines.indexOf('Trace '); at >= 0; at = lines.indexOf('Trace ', at + 60)) count++;
      expect(here.instructions).toBe(count);
      counted += here.instructions;
    });

    test('each instruction has the address that it has under qemu', () => {
      const program = buildCombined(target, 's', paths(FOLLOWED));
      const { lines } = qemuLog(program);
      const expected = [...lines.toString('latin1').matchAll(/^Trace .*?\/([0-9a-f]{8,16})\//gm)].map((match) =>
        parseInt(match[1]!, 16),
      );
      const { process: here } = startHere(target, program);
      for (let i = 0; i < expected.length; i++) {
        const pc = Number(here.machine.pc);
        if (pc !== expected[i]) {
          throw new Error(
            `instruction ${i} on ${target.name} is at ${pc.toString(16)}, under qemu at ${expected[i]!.toString(16)}`,
          );
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
