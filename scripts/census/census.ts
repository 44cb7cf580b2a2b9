/**
 * `node build/scripts/census/census.js [--more] [MACHINE…] [--only WORDS]`: the programs of the
 * census on each machine, in the emulator and under qemu-user of the same tree: output and exit
 * status must be the same. Prints a table; the exit status says whether all were equal. `--more`:
 * other programs, in larger trees (`more-programs.ts`); `--host`: of both those that this machine
 * has, under its own `/`.
 */
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CensusMachine, environment, execute, home, inEmulator, MACHINES, type Ran } from './machines.js';
import { MORE_FILES, MORE_PACKAGES, MORE_PROGRAMS } from './more-programs.js';
import { FILES, OWN_PROGRAMS, type OwnProgram, PROCESS_PROGRAMS, TREE_PROGRAMS, type TreeProgram } from './programs.js';
import { censusFolder, rootOf } from './roots.js';

/**
 * In the tree as `/`; natively where the machine can, for qemu-user does not execute others itself.
 */
function inTree(machine: CensusMachine, root: string, { command, input }: TreeProgram, native: boolean): Ran {
  if (root === '/') return execute(command[0]!, command.slice(1), input, environment);
  const qemu = `/tmp/census/${machine.qemu}`;
  copyFileSync(`/usr/bin/${machine.qemu}-static`, join(root, qemu));
  // Natively programs open it; the emulator has its own.
  writeFileSync(join(root, 'dev', 'null'), '');
  const shell = process.getuid?.() === 0 ? ['chroot'] : ['unshare', '-r', 'chroot'];
  const emulated = native ? [] : [qemu, '-cpu', machine.cpu];
  const [tool = '', ...args] = [...shell, root, ...emulated, ...command];
  return execute(tool, args, input, { ...environment, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' });
}

/** The first line that says why a run stopped, or where the outputs differ. */
function judge(here: Ran, there: Ran): string {
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
  mkdirSync(join(root, 'tmp', 'census'), { recursive: true });
  for (const [name, text] of Object.entries({ ...FILES, ...((isMore || isHost) && MORE_FILES) }))
    writeFileSync(join(root, 'tmp', 'census', name), text);
  const isNative = machine.name === 'x86-64' && process.arch === 'x64';
  for (const program of programs) {
    if (!only.test(program.name) || (isHost && (program.showsOwners || !existsSync(program.command[0]!)))) continue;
    const { forks = false, isUnordered = false } = program;
    const there = forks && !isNative ? expected.get(program.name) : inTree(machine, root, program, forks);
    if (!there) continue;
    if (forks) expected.set(program.name, there);
    const begin = performance.now();
    const [path = '', ...args] = program.command;
    const here = inEmulator(join(root, path), args, root, program.input);
    yield {
      machine: machine.name,
      program: program.name,
      result: isUnordered ? judge(inOrder(here), inOrder(there)) : judge(here, there),
      seconds: (performance.now() - begin) / 1000,
    };
  }
}

const inOrder = (ran: Ran): Ran => ({ ...ran, stdout: ran.stdout.split('\n').sort().join('\n') });

/** What programs that make others did on the machine that can execute them. */
const expected = new Map<string, Ran>();

function build(machine: CensusMachine, program: OwnProgram, libc: 'glibc' | 'musl'): string | null {
  const folder = join(censusFolder(), 'own', machine.name);
  mkdirSync(folder, { recursive: true });
  const out = join(folder, `${program.name}-${libc}`);
  const source = join(home, 'test', 'programs', 'census', program.source);
  const compiler = `${machine.tools}${source.endsWith('.cc') ? 'g++' : 'gcc'}`;
  const flags = libc === 'glibc' ? ['-static'] : muslFlags(machine);
  if (!flags) return null;
  const libraries = program.flags.filter((each) => each.startsWith('-l'));
  const rest = program.flags.filter((each) => !each.startsWith('-l'));
  rmSync(out, { force: true });
  const { status, stderr } = execute(compiler, ['-w', ...rest, '-o', out, source, ...flags, ...libraries]);
  if (status !== 0) process.stderr.write(stderr);
  return status === 0 ? out : null;
}

const stripped = new Set<string>();

/** GNU ld of bookworm fails on the debugging information of trixie's compilers. */
function withoutDebugging(machine: CensusMachine, library: string): void {
  if (stripped.has(library)) return;
  for (const name of ['crt1.o', 'crti.o', 'crtn.o', 'libc.a']) {
    execute(`${machine.tools}objcopy`, ['-g', join(library, name)]);
  }
  stripped.add(library);
}

/** As `musl-gcc` calls a compiler, for the files of the tree. */
function muslFlags(machine: CensusMachine): readonly string[] | null {
  if (!machine.tree || machine.musl === null) return null;
  const root = rootOf(machine.tree);
  const library = join(root, 'usr', 'lib', machine.musl);
  if (!existsSync(join(library, 'libc.a'))) return null;
  const at = (name: string): string => join(library, name);
  const long = machine.name === 'ppc64le' ? ['-mlong-double-64'] : [];
  if (machine.tree.suite === 'trixie') withoutDebugging(machine, library);
  return [
    ...long, '-nostdinc', '-isystem', join(root, 'usr', 'include', machine.musl), '-static', '-nostartfiles', '-nodefaultlibs', at('crt1.o'), at('crti.o'), `-L${library}`,
    '-lc', '-lgcc', '-lgcc_eh', '-lc', at('crtn.o'),
  ]; // prettier-ignore
}

function* ownRows(machine: CensusMachine, only: RegExp): Generator<Row> {
  for (const program of OWN_PROGRAMS) {
    for (const libc of ['glibc', 'musl'] as const) {
      const name = `${program.name} ${libc}`;
      if (!only.test(name) || (libc === 'musl' && (!program.musl || machine.musl === null))) continue;
      const path = build(machine, program, libc);
      if (path === null) {
        yield { machine: machine.name, program: name, result: 'not built', seconds: 0 };
        continue;
      }
      const there = execute(machine.qemu, ['-cpu', machine.cpu, path], '', environment);
      const begin = performance.now();
      const here = inEmulator(path, [], null);
      yield {
        machine: machine.name,
        program: name,
        result: judge(here, there),
        seconds: (performance.now() - begin) / 1000,
      };
    }
  }
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
  if (isHost && !(machine.name === 'x86-64' && process.arch === 'x64')) continue;
  for (const rows of isMore || isHost ? [treeRows(machine, only)] : [treeRows(machine, only), ownRows(machine, only)]) {
    for (const { program, result, seconds } of rows) {
      count++;
      if (!result.startsWith('equal')) differing++;
      process.stdout.write(
        `${machine.name.padEnd(8)} ${program.padEnd(18)} ${seconds.toFixed(1).padStart(6)} s  ${result}\n`,
      );
    }
  }
}
process.stdout.write(`${count - differing} of ${count} equal\n`);
process.exitCode = differing === 0 && count > 0 ? 0 : 1;
