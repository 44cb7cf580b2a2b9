/**
 * The programs that `npm run bench -- yardstick` measures with: each prints the same under
 * qemu-user, in the emulator and without one, on every machine, whatever its order of bytes and
 * its words.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';
import { type BenchMachine, MACHINES } from '../bench/machines.js';
import { canMeasure, compileYardstick, fixedAndSlope, isBuilt } from '../bench/yardstick.js';
import { CLASSIC, YARDSTICK } from '../bench/yardstick/programs.js';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { type PpcTarget, runHere, runQemu } from './support/c-programs.js';
import { isLong, isWhole } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { describeWith, runProgramFile } from './support/tools.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const folder = mkdtempSync(join(tmpdir(), 'yardstick-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

test('the table names every program once, some thirty to report and half as many to tune with', () => {
  const sources = readdirSync(join(root, 'bench', 'yardstick')).filter((name) => name.endsWith('.c'));
  expect(YARDSTICK.map(({ name }) => `${name}.c`).sort()).toEqual(sources.sort());
  const [reporting, tuning, floats] = (['reporting', 'tuning', 'floats'] as const).map(
    (set) => YARDSTICK.filter((each) => each.set === set).length,
  );
  expect(reporting).toBeGreaterThanOrEqual(25);
  expect(reporting! / (reporting! + tuning!)).toBeCloseTo(2 / 3, 1);
  expect(floats).toBe(5);
});

test('the classic programs are in the table, and none of them is one to tune with', () => {
  const found = YARDSTICK.filter(({ name, set }) => CLASSIC.has(name) && set !== 'tuning');
  expect(found).toHaveLength(CLASSIC.size);
});

test('fixed cost and slope are those of a line, long runs or short', () => {
  const { fixed, slope } = fixedAndSlope([0.1, 1, 10].map((theirs) => [theirs, 0.25 + 1.5 * theirs]));
  expect([fixed.toFixed(6), slope.toFixed(6)]).toEqual(['0.250000', '1.500000']);
});

const TURNS = ['4'];

/** What a program prints under qemu-user and here, and whether it is what it printed natively. */
function expectSame(machine: BenchMachine, level: string, at: number): void {
  const program = YARDSTICK[at]!;
  const path = compileYardstick(machine, program, { root, folder, level });
  const arch = archOf(readElf(new Uint8Array(readFileSync(path))).header);
  const target: PpcTarget = { ...machine, arch, gcc: machine.compiler, libraries: [] };
  const where = `${program.name} -${level}`;
  const here = runHere(target, path, { args: TURNS });
  const expected = canMeasure(machine, program)
    ? runQemu(target, path, { args: TURNS })
    : { end: 0, output: `sum ${program.sum}\n` };
  expect([where, here.end, here.output]).toEqual([where, expected.end, expected.output]);
  // No other line than known answers: such a line says that a program found itself wrong.
  expect([where, ...expected.output.split('\n').filter((line) => !KNOWN.has(line))]).toEqual([
    where,
    `sum ${program.sum}`,
  ]);
  if (machine.name !== 'x86-64' || !isX86Linux) return;
  expect([where, runProgramFile(path, TURNS).stdout]).toEqual([where, expected.output]);
}

/**
 * Of the words `abc`: SHA-1, SHA-512 (FIPS 180), MD5 (RFC 1321), CRC-32, Adler-32; AES (FIPS 197);
 * moves from the first position of chess, two and three deep; the twister's first number.
 */
const KNOWN = new Set([
  'sha1 a9993e36',
  'sha512 ddaf35a193617aba',
  'md5 98500190',
  'crc 352441c2',
  'adler 24d0127',
  'aes 69c4e0d8',
  'two 190',
  'three 22c6',
  'twister d091bb5c',
  '',
]);

/** Each program on one machine, the machines in turn; of few runs the first of each machine. */
const placesFor = (machine: number): number[] =>
  [...YARDSTICK.keys()]
    .filter((at) => isWhole || at % MACHINES.length === machine)
    .filter((at) => isBuilt(MACHINES[machine]!, YARDSTICK[at]!))
    .slice(0, isLong ? undefined : 1);

MACHINES.forEach((machine, index) => {
  describeWith([machine.compiler, machine.qemu], `the yardstick on ${machine.name}`, () => {
    test.each(isWhole ? ['O1', 'O2', 'Os'] : ['O1'])('-%s', (level) => {
      for (const at of placesFor(index)) expectSame(machine, level, at);
    });
  });
});
