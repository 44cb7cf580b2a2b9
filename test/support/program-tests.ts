/**
 * What the tests of compiled programs do on every machine: the collection of C programs, its output
 * against that of qemu-user; and numbers and addresses of instructions, against the log that
 * qemu-user writes in single-step mode.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import {
  buildCombined,
  type Level,
  LEVELS,
  type Outcome,
  type PpcTarget,
  programName,
  programPaths,
  runHere,
  runQemu,
  scratch,
  sections,
  startHere,
} from './c-programs.js';
import { tiersInStep } from './tiers.js';
import { describeWith } from './tools.js';

const PATHS = programPaths();
export const NAMES: readonly string[] = PATHS.map(programName);

export interface CollectionOptions {
  /** The target whose program both tiers execute in step as well. */
  readonly inStep: string;
  /** Default: all. */
  readonly levels?: (target: PpcTarget) => readonly Level[];
  /** More to check of a program, by what it did under qemu. */
  readonly also?: (path: string, expected: Outcome, target: PpcTarget) => void;
}

/**
 * The collection on each target, one executable for each level: what it prints here must be what it
 * prints under qemu.
 */
export function describeCollection(
  targets: readonly PpcTarget[],
  { inStep, levels: levelsOf = () => LEVELS, also }: CollectionOptions,
): void {
  let compared = 0;
  for (const target of targets) {
    describeWith([target.gcc, target.qemu], `C programs on ${target.name}`, () => {
      let first: ReadonlyMap<string, string> | undefined;
      const levels = levelsOf(target);
      test.each(levels)(`-O%s`, (level) => {
        const path = buildCombined(target, level, PATHS);
        const expected = runQemu(target, path);
        also?.(path, expected, target);
        const here = runHere(target, path);
        const theirs = sections(expected.output);
        const ours = sections(here.output);
        const differing = NAMES.filter((name) => ours.get(name) !== theirs.get(name)).map((name) => {
          const lines = theirs.get(name)?.split('\n') ?? [];
          const got = ours.get(name)?.split('\n') ?? [];
          const at = lines.findIndex((each, i) => each !== got[i]);
          const where = `${name} on ${target.name} at -O${level}`;
          return `${where}: qemu printed '${lines[at] ?? ''}', the emulator '${got[at] ?? 'nothing'}'`;
        });
        expect(differing).toEqual([]);
        expect(here.end).toBe(expected.end);
        if (level === '2' && target.name === inStep) expect(tiersInStep(target, path)).toEqual([]);
        expect(typeof expected.end).toBe('number');
        // Each program of the collection ran to its end and said something.
        expect([...theirs.keys()]).toEqual(NAMES);
        for (const [name, text] of theirs)
          expect([name, /^exit /m.test(text) && text.length > 12]).toEqual([name, true]);
        // A program whose output depends on the level leans on what C leaves open, and would prove
        // nothing.
        const reference = (first ??= theirs);
        expect(NAMES.filter((name) => theirs.get(name) !== reference.get(name))).toEqual([]);
        compared += NAMES.length;
        if (level === levels.at(-1)) {
          process.stderr.write(
            `${NAMES.length} programs, levels ${levels.join(' ')}, ${target.name}: ${compared} runs compared so far\n`,
          );
        }
      });
    });
  }
}

// ------------------------------------------------------------------------------- counts, addresses

/** Programs whose instructions are counted. */
export const COUNTED: readonly string[] = [
  'recursion', 'varargs', 'atomics', 'bitfields', 'builtins', 'endian', 'jump-tables', 'printf', 'setjmp', 'structs',
  'unaligned', 'varargs-types',
]; // prettier-ignore
/** Programs that are followed from instruction to instruction. */
export const FOLLOWED: readonly string[] = ['bits', 'setjmp', 'structs', 'varargs-types'];

/** Programs of the collection in one executable. */
export const buildNamed = (target: PpcTarget, level: Level, names: readonly string[]): string =>
  buildCombined(
    target,
    level,
    PATHS.filter((path) => names.includes(programName(path))),
  );

/** The log of qemu: one line for each instruction, with its address. */
function qemuLog(target: PpcTarget, program: string): { readonly lines: Buffer; readonly end: number | string } {
  const log = scratch('log');
  const { end } = runQemu(target, program, { flags: ['-singlestep', '-d', 'exec,nochain', '-D', log] });
  return { lines: readFileSync(log), end };
}

/** A program executes as many instructions here as under qemu; how many. */
export function expectSameCount(target: PpcTarget, program: string): number {
  const { lines, end } = qemuLog(target, program);
  const here = runHere(target, program);
  expect(here.end).toBe(end);
  expect(here.instructions).toBeGreaterThan(100_000);
  let count = 0;
  for (let at = lines.indexOf('Trace '); at >= 0; at = lines.indexOf('Trace ', at + 60)) count++;
  expect(here.instructions).toBe(count);
  return count;
}

/**
 * Each instruction of a program has the address that it has under qemu, and there are more than
 * `above`; how many.
 */
export function expectSameAddresses(target: PpcTarget, program: string, above: number): number {
  const { lines } = qemuLog(target, program);
  const expected = [...lines.toString('latin1').matchAll(/^Trace .*?\/([0-9a-f]{8,16})\//gm)].map((match) =>
    parseInt(match[1]!, 16),
  );
  const { machine } = startHere(target, program).process;
  for (let i = 0; i < expected.length; i++) {
    const pc = Number(machine.pc);
    if (pc !== expected[i]) {
      throw new Error(
        `instruction ${i} on ${target.name} is at ${pc.toString(16)}, under qemu at ${expected[i]!.toString(16)}`,
      );
    }
    const stop = machine.step();
    if (stop.kind !== 'step-limit') expect([stop.kind, i]).toEqual(['exit', expected.length - 1]);
  }
  expect(machine.instructions).toBe(expected.length);
  expect(expected.length).toBeGreaterThan(above);
  return expected.length;
}
