/**
 * Floating point in the manner of level 1 of Berkeley TestFloat: operands of every class crossed,
 * for each operation in each mode, against the processor (x86-64) and qemu-user. What qemu 7.2 is
 * wrong about is left out by its cause (`support/level-one.ts`, `statusMask` of PowerPC).
 */
import { expect, test } from '@jest/globals';
import { buildProgram, runHere, runQemu } from './support/c-programs.js';
import { writeSource } from './support/emulator.js';
import { LEVEL_MACHINES, type LevelMachine, levelProgram, x86Level } from './support/level-one.js';
import { isLong, isWhole } from './support/long.js';
import { hasFeatures, isX86Linux } from './support/processor.js';
import { describeWith, runProgramFile } from './support/tools.js';

/**
 * In CI one PowerPC: what its lifter makes of an instruction is the same for all. In quick runs the
 * machine of the fewest operations.
 */
const CHOSEN = isLong ? /^(x86-64-v3|arm64|rv64gc|ppc64-elfv2-le)$/ : /^rv64gc$/;

/** Output outside, of which a line says operation and mode, and the next one a digest. */
function outside(
  { target, isNative = false, qemuFlags = [] }: LevelMachine,
  program: string,
  args: readonly string[],
): string {
  if (isNative) return runProgramFile(program, args).stdout;
  return runQemu(target, program, { flags: qemuFlags, args }).output;
}

/** The first execution that differs, where an operation does. */
function firstDifference(machine: LevelMachine, program: string, name: string, mode: string): string {
  const operation = machine.operations.findIndex(
    ({ text, bits }) => `${text.replaceAll('%%', '%')} of ${bits}` === name,
  );
  const args = [String(operation), mode];
  const [here, there] = [runHere(machine.target, program, { args }).output, outside(machine, program, args)].map(
    (each) => each.split(/^(?=operand.*\n(?:operand.*\n)*)/m),
  );
  const at = here!.findIndex((each, i) => each !== there![i]);
  return `${name}, mode ${mode}:\n${here!.slice(Math.max(at - 2, 0), at + 3).join('')}outside:\n${there!.slice(Math.max(at - 2, 0), at + 3).join('')}`;
}

const machines = [...(isX86Linux ? [x86Level(hasFeatures(['fma', 'avx2']))] : []), ...LEVEL_MACHINES];
for (const machine of machines) {
  const { target, isNative = false } = machine;
  if (!isWhole && !CHOSEN.test(target.name)) continue;
  describeWith([target.gcc, ...(isNative ? [] : [target.qemu])], `every class of operands, ${target.name}`, () => {
    test('results and flags', () => {
      const program = buildProgram(target, '1', [
        writeSource(`level-${target.name}.c`, levelProgram(machine, isWhole)),
      ]);
      const there = outside(machine, program, []).split('\n');
      for (const tier of isWhole ? ([0, 1] as const) : (['auto'] as const)) {
        const { output, end } = runHere(target, program, { tier, budget: 20_000_000_000 });
        expect(end).toBe(0);
        const here = output.split('\n');
        const wrong = here.flatMap((each, i) => (each === there[i] ? [] : [/^(.*), mode (.*)$/.exec(here[i - 1]!)!]));
        expect(wrong.map(([, name, mode]) => firstDifference(machine, program, name!, mode!))).toEqual([]);
        expect(here).toHaveLength(there.length);
      }
      expect(there.length).toBeGreaterThan(4 * machine.operations.length);
    });
  });
}
