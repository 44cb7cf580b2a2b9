/**
 * Programs of distributions, with the command lines of the census (`scripts/census`): output and
 * exit status are those that they have without the emulator. CI runs those that this machine has;
 * whole runs all, on every machine, from trees of Debian that are downloaded where the cache has
 * none (100 MB), and from larger ones where they are.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  inEmulator,
  MACHINES,
  environment,
  execute,
  type CensusMachine,
  type Ran,
} from '../scripts/census/machines.js';
import { MORE_FILES, MORE_PACKAGES, MORE_PROGRAMS } from '../scripts/census/more-programs.js';
import {
  FILES,
  LUA,
  OWN_PROGRAMS,
  PROCESS_PROGRAMS,
  TREE_FILES,
  TREE_PROGRAMS,
  type TreeProgram,
} from '../scripts/census/programs.js';
import { hasTree, rootOf } from '../scripts/census/roots.js';
import {
  comparable,
  hasMusl,
  isNative,
  type Pair,
  runInTree,
  runLua,
  runOwn,
  writeFiles,
} from '../scripts/census/running.js';
import { isWhole, repeats } from './support/long.js';
import { isX86Linux } from './support/processor.js';
import { run } from './support/run.js';
import { describeWith } from './support/tools.js';

const CENSUS = [...TREE_PROGRAMS, ...PROCESS_PROGRAMS];
const folder = mkdtempSync(join(tmpdir(), 'census-trees-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** All that a program writes to its standard output, byte by byte, and how it ends. */
function expectSame({ here, there }: Pair): void {
  expect([here.status, here.stdout]).toEqual([there.status, there.stdout]);
  // It could be executed at all.
  expect(there.status).toBeLessThan(126);
}

/** The command line with its files in the folder of this test. */
const placed = (program: TreeProgram): TreeProgram => ({
  ...program,
  command: program.command.map((word) => word.replaceAll(TREE_FILES, join(folder, TREE_FILES))),
});

/** In the process that has run others before; one that reads standard input gets a new process. */
function hereOnThisMachine({ command, input }: TreeProgram): Ran {
  const [path = '', ...args] = command;
  if (input !== undefined) return inEmulator(path, args, '/', input);
  const file = join(folder, 'output');
  const env = Object.entries(environment).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
  const { status, stderr, json } = run(['--root', '/', ...env, '--guest-output', file, '--', path, ...args]);
  expect(json['deviations']).toEqual([]);
  return { status, stdout: readFileSync(file, 'latin1'), stderr };
}

if (!isX86Linux) test.skip('programs of this machine, of Linux on x86-64', () => undefined);
else {
  beforeAll(() => {
    writeFiles(folder, { ...FILES, ...MORE_FILES });
  });
  const common = [...CENSUS, ...MORE_PROGRAMS].filter((each) => each.isCommon === true);
  for (const program of repeats(common, 3)) {
    describeWith([program.command[0]!], `${program.name} of this machine`, () => {
      test('as without the emulator', () => {
        const placedHere = placed(program);
        const [path = '', ...args] = placedHere.command;
        const there = execute(path, args, program.input, environment);
        expectSame(comparable(program, { here: hereOnThisMachine(placedHere), there, seconds: 0 }));
        expect(there.stdout !== '' || program.name === 'true').toBe(true);
      });
    });
  }
}

/** All of it, as the soak of the same name. */
const programsOf = (machine: CensusMachine, root: string, programs: readonly TreeProgram[]): void => {
  test.each(programs.map((each) => [each.name, each] as const))('%s', (_, program) => {
    const pair = runInTree(machine, root, program);
    if (pair) expectSame(pair);
    // What it does is known where its processes can be executed, which is the first machine.
    else expect([program.forks, isNative(MACHINES[0]!)]).toEqual([true, false]);
  });
};

for (const machine of isWhole ? MACHINES : []) {
  const { name, tree } = machine;
  if (tree) {
    describe(`programs of Debian, ${name}`, () => {
      const root = rootOf(tree);
      writeFiles(root);
      programsOf(machine, root, CENSUS);
    });
  }
  if (tree && hasTree(tree, MORE_PACKAGES)) {
    describe(`more programs of Debian, ${name}`, () => {
      const root = rootOf(tree, MORE_PACKAGES);
      writeFiles(root, { ...FILES, ...MORE_FILES });
      programsOf(machine, root, MORE_PROGRAMS);
    });
  }
  const own = OWN_PROGRAMS.flatMap((each) => [
    ['glibc', each] as const,
    ...(each.musl && hasMusl(machine) ? [['musl', each] as const] : []),
  ]);
  test.each(own)(`own programs, ${name}, %s: $name`, (libc, program) => {
    const pair = runOwn(machine, program, libc);
    expect(pair).not.toBe(null);
    expectSame(pair!);
  });
  test(`own programs, ${name}, ${LUA.name}`, async () => {
    expectSame(await runLua(machine));
  });
}
