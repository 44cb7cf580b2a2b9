/**
 * `node build/scripts/census/census.js [--more] [MACHINE…] [--only WORDS]`: the programs of the
 * census on each machine, in the emulator and under qemu-user of the same tree: output and exit
 * status must be the same. Prints a table; the exit status says whether all were equal. `--more`:
 * other programs, in larger trees (`more-programs.ts`); `--host`: of both those that this machine
 * has, under its own `/`.
 */
import { existsSync } from 'node:fs';
import { type CensusMachine, MACHINES } from './machines.js';
import { MORE_FILES, MORE_PACKAGES, MORE_PROGRAMS } from './more-programs.js';
import { FILES, LUA, OWN_PROGRAMS, PROCESS_PROGRAMS, TREE_PROGRAMS } from './programs.js';
import { rootOf } from './roots.js';
import { hasMusl, isNative, type Pair, runInTree, runLua, runOwn, writeFiles } from './running.js';

/** The first line that says why a run stopped, or where the outputs differ. */
function judge({ here, there }: Pair): string {
  if (here.status === there.status && here.stdout === there.stdout) {
    const warnings = here.stderr.split('\n').filter((line) => line.includes(': warning: '));
    const [first = ''] = warnings;
    return `equal${first && `, ${warnings.length} warnings, first: ${first.replace(/^.*?: warning: /, '')}`}`.slice(
      0,
      110,
    );
  }
  const said = here.stderr
    .split('\n')
    .find((line) => /executed|cannot be|not served|stopped|deadlock|process \d|\[/.test(line));
  if (here.status === 125 && said !== undefined) return said.replace(/^[^:]*: /, '').slice(0, 110);
  if (here.status !== there.status)
    return `exit ${here.status}, not ${there.status}: ${said ?? here.stderr.split('\n')[0] ?? ''}`.slice(0, 110);
  const [a, b] = [here.stdout.split('\n'), there.stdout.split('\n')];
  const line = a.findIndex((each, i) => each !== b[i]);
  return `line ${line + 1}: ${a[line] ?? ''} | ${b[line] ?? ''}`.slice(0, 110);
}

interface Row {
  readonly machine: string;
  readonly program: string;
  readonly result: string;
  readonly seconds: number;
}

function* treeRows(machine: CensusMachine, only: RegExp): Generator<Row> {
  if (!machine.tree) return;
  const root = isHost ? '/' : isMore ? rootOf(machine.tree, MORE_PACKAGES) : rootOf(machine.tree);
  writeFiles(root, { ...FILES, ...((isMore || isHost) && MORE_FILES) });
  for (const program of programs) {
    if (!only.test(program.name) || (isHost && (program.showsOwners || !existsSync(program.command[0]!)))) continue;
    const pair = runInTree(machine, root, program);
    if (pair) yield { machine: machine.name, program: program.name, result: judge(pair), seconds: pair.seconds };
  }
}

function* ownRows(machine: CensusMachine, only: RegExp): Generator<Row> {
  for (const program of OWN_PROGRAMS) {
    for (const libc of ['glibc', 'musl'] as const) {
      const name = `${program.name} ${libc}`;
      if (!only.test(name) || (libc === 'musl' && (!program.musl || !hasMusl(machine)))) continue;
      const pair = runOwn(machine, program, libc);
      yield pair
        ? { machine: machine.name, program: name, result: judge(pair), seconds: pair.seconds }
        : { machine: machine.name, program: name, result: 'not built', seconds: 0 };
    }
  }
}

async function* rowsOf(machine: CensusMachine, only: RegExp): AsyncGenerator<Row> {
  yield* treeRows(machine, only);
  if (isMore || isHost) return;
  yield* ownRows(machine, only);
  if (!only.test(LUA.name)) return;
  const pair = await runLua(machine);
  yield { machine: machine.name, program: `${LUA.name} glibc`, result: judge(pair), seconds: pair.seconds };
}

const given = process.argv.slice(2);
const isMore = given.includes('--more');
const isHost = given.includes('--host');
const words = given.filter((each) => each !== '--more' && each !== '--host');
const census = [...TREE_PROGRAMS, ...PROCESS_PROGRAMS];
const programs = isHost ? [...census, ...MORE_PROGRAMS] : isMore ? MORE_PROGRAMS : census;
const filter = words.indexOf('--only');
const only = new RegExp(filter >= 0 ? (words[filter + 1] ?? '') : '');
const names = filter >= 0 ? words.slice(0, filter) : words;
let differing = 0;
let count = 0;
for (const machine of MACHINES) {
  if (names.length > 0 && !names.includes(machine.name)) continue;
  if (isHost && !isNative(machine)) continue;
  for await (const { program, result, seconds } of rowsOf(machine, only)) {
    count++;
    if (!result.startsWith('equal')) differing++;
    process.stdout.write(
      `${machine.name.padEnd(8)} ${program.padEnd(18)} ${seconds.toFixed(1).padStart(6)} s  ${result}\n`,
    );
  }
}
process.stdout.write(`${count - differing} of ${count} equal\n`);
process.exitCode = differing === 0 && count > 0 ? 0 : 1;
