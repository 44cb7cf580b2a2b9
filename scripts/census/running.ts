/**
 * How a program of the census is executed twice: in the emulator, and outside, under qemu-user of
 * the same tree or natively. `census.ts` prints what differs, `test/census.test.ts` asks for it.
 */
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CensusMachine, environment, execute, home, inEmulator, MACHINES, type Ran } from './machines.js';
import { FILES, LUA, type OwnProgram, TREE_FILES, type TreeProgram } from './programs.js';
import { censusFolder, rootOf } from './roots.js';

/** Writes files of the census to where its command lines have them. */
export function writeFiles(root: string, files: Readonly<Record<string, string>> = FILES): void {
  const folder = join(root, TREE_FILES);
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
}

/**
 * In the tree as `/`; natively where the machine can, for qemu-user does not execute others itself.
 */
function inTree(machine: CensusMachine, root: string, { command, input }: TreeProgram, native: boolean): Ran {
  if (root === '/') return execute(command[0]!, command.slice(1), input, environment);
  const qemu = join(TREE_FILES, machine.qemu);
  copyFileSync(`/usr/bin/${machine.qemu}-static`, join(root, qemu));
  // Natively programs open it; the emulator has its own.
  writeFileSync(join(root, 'dev', 'null'), '');
  const shell = process.getuid?.() === 0 ? ['chroot'] : ['unshare', '-r', 'chroot'];
  const emulated = native ? [] : [qemu, '-cpu', machine.cpu];
  const [tool = '', ...args] = [...shell, root, ...emulated, ...command];
  return execute(tool, args, input, { ...environment, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' });
}

/** What a program did in the emulator and outside, and how long the emulator took. */
export interface Pair {
  readonly here: Ran;
  readonly there: Ran;
  readonly seconds: number;
}

const inOrder = (ran: Ran): Ran => ({ ...ran, stdout: ran.stdout.split('\n').sort().join('\n') });

/** Of a pair, what must be the same: where the order of lines is open, they are sorted. */
export function comparable({ isUnordered = false }: TreeProgram, { here, there, seconds }: Pair): Pair {
  return isUnordered ? { here: inOrder(here), there: inOrder(there), seconds } : { here, there, seconds };
}

/** What programs that make others did on the machine that can execute them. */
const expected = new Map<string, Ran>();

/** Whether programs of the machine are executed without an emulator here. */
export const isNative = (machine: CensusMachine): boolean => machine.name === 'x86-64' && process.arch === 'x64';

/**
 * Executes a program of a tree.
 * @param root  the tree; `/` is this machine's own
 * @returns null: it makes others, and no machine that can execute these did so before
 */
export function runInTree(machine: CensusMachine, root: string, program: TreeProgram): Pair | null {
  const { forks = false } = program;
  const there = forks && !isNative(machine) ? expected.get(program.name) : inTree(machine, root, program, forks);
  if (!there) return null;
  if (forks) expected.set(program.name, there);
  const begin = performance.now();
  const [path = '', ...args] = program.command;
  const here = inEmulator(join(root, path), args, root, program.input);
  return comparable(program, { here, there, seconds: (performance.now() - begin) / 1000 });
}

const ownPath = (machine: CensusMachine, name: string): string => {
  const folder = join(censusFolder(), 'own', machine.name);
  mkdirSync(folder, { recursive: true });
  return join(folder, name);
};

function runBoth(machine: CensusMachine, path: string, args: readonly string[], on = machine, file = path): Pair {
  const there = execute(on.qemu, ['-cpu', on.cpu, file, ...args], '', environment);
  const begin = performance.now();
  const here = inEmulator(path, args, null);
  return { here, there, seconds: (performance.now() - begin) / 1000 };
}

/** The machine under whose qemu-user a program is executed. */
const outside = (machine: CensusMachine, likeOn: OwnProgram['likeOn']): CensusMachine =>
  MACHINES.find(({ name }) => name === likeOn?.[machine.name]) ?? machine;

/** Executes a program of our own, statically linked; null: it is not built, and why was said. */
export function runOwn(machine: CensusMachine, program: OwnProgram, libc: 'glibc' | 'musl'): Pair | null {
  const on = libc === 'glibc' ? outside(machine, program.likeOn) : machine;
  const path = buildOwn(machine, program, libc);
  const file = on === machine ? path : buildOwn(on, program, libc);
  return path === null || file === null ? null : runBoth(machine, path, [], on, file);
}

async function builtLua(machine: CensusMachine): Promise<string> {
  const path = ownPath(machine, LUA.name);
  if (existsSync(path)) return path;
  const folder = join(censusFolder(), 'sources');
  mkdirSync(folder, { recursive: true });
  process.env['ELFTRACE_SOAK'] ??= folder;
  const { buildCross } = await import('../soak-cross.js');
  copyFileSync(buildCross('lua', machine.name, { compile: '-fno-pie', link: '-static -no-pie' }), path);
  return path;
}

/**
 * Executes Lua, built from Debian's sources, which stays in the cache.
 * @throws Error when its sources cannot be had or built
 */
export async function runLua(machine: CensusMachine): Promise<Pair> {
  const on = outside(machine, LUA.likeOn);
  return runBoth(machine, await builtLua(machine), LUA.args, on, await builtLua(on));
}

/**
 * Builds a program of our own, statically.
 * @returns its path; null: there is no such library, or the compiler failed, and said why
 */
function buildOwn(machine: CensusMachine, program: OwnProgram, libc: 'glibc' | 'musl'): string | null {
  const out = ownPath(machine, `${program.name}-${libc}`);
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

/** Where musl of a machine is: in its tree, or as `scripts/musl.sh` built it in ELFTRACE_MUSL. */
function muslOf(machine: CensusMachine): { readonly library: string; readonly headers: string } | null {
  if (machine.tree && machine.musl !== null) {
    const root = rootOf(machine.tree);
    const library = join(root, 'usr', 'lib', machine.musl);
    if (machine.tree.suite === 'trixie') withoutDebugging(machine, library);
    return { library, headers: join(root, 'usr', 'include', machine.musl) };
  }
  const folder = process.env['ELFTRACE_MUSL'];
  if (folder === undefined) return null;
  return { library: join(folder, machine.name, 'lib'), headers: join(folder, machine.name, 'include') };
}

export const hasMusl = (machine: CensusMachine): boolean =>
  machine.musl !== null || process.env['ELFTRACE_MUSL'] !== undefined;

/** As `musl-gcc` calls a compiler. */
function muslFlags(machine: CensusMachine): readonly string[] | null {
  const musl = muslOf(machine);
  if (!musl || !existsSync(join(musl.library, 'libc.a'))) return null;
  const at = (name: string): string => join(musl.library, name);
  // What the compiler of ppc64 brings is for another ABI.
  const helpers = machine.name === 'ppc64' ? [] : ['-lgcc', '-lgcc_eh'];
  return [
    ...machine.muslFlags, '-nostdinc', '-isystem', musl.headers, '-static', '-nostartfiles', '-nodefaultlibs', at('crt1.o'), at('crti.o'), `-L${musl.library}`,
    '-lc', ...helpers, '-lc', at('crtn.o'),
  ]; // prettier-ignore
}
