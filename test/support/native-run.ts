/** Builds, patches and runs programs that write their own trace, and reads what they wrote. */
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect } from '@jest/globals';
import { ByteView } from '../../src/bytes.js';
import { scratch } from './c-programs.js';
import { warmElftrace as elftrace } from './cli.js';
import { LOG_SOURCE, type NativeProgram, SAME_CALLS } from './native-programs.js';
import { root } from './pipeline.js';
import { spawnSync } from './spawn.js';
import { describeWith, run } from './tools.js';

const isHere = process.arch === 'x64' && process.platform === 'linux';
export const COMPILER = 'x86_64-linux-gnu-gcc';
export const NOPS = '-fpatchable-function-entry=5';
const FENTRY = ['-pg', '-mfentry', '-mrecord-mcount'];

/** A machine whose programs write their own trace, here or under an emulator of its user mode. */
export interface NativeMachine {
  readonly name: string;
  /** Prefix of the GNU tools. */
  readonly triple: string;
  /** Options that make sites. */
  readonly sites: readonly string[];
  /** What starts a program. */
  readonly run: readonly string[];
  /** Where headers are, and what is linked at the end, where the compiler does not bring it. */
  readonly flags?: readonly string[];
  readonly libraries?: readonly string[];
  /** Of its words, where those are not of 8 bytes with the lower ones first. */
  readonly words?: { readonly bytes: 4 | 8; readonly endian: 'little' | 'big' };
  /** Makes the sites of an object known where compilers do not. */
  readonly finish?: (object: string) => string;
}

const here: NativeMachine = { name: 'x86-64', triple: 'x86_64-linux-gnu', sites: [NOPS], run: [] };

export function compile(
  source: string,
  own: readonly string[],
  language = 'c',
  more: readonly string[] = [],
  { triple, finish, flags: common = [], libraries = [] }: NativeMachine = here,
): string {
  const output = scratch('program');
  const cxx = language === 'c++' ? ['-lstdc++'] : libraries;
  const flags = [...common, ...own];
  const compiler = `${triple}-gcc`;
  if (finish === undefined || flags.includes('-finstrument-functions')) {
    run(compiler, [...flags, '-x', language, '-', '-x', 'none', ...more, '-o', output, ...cxx], source);
    return output;
  }
  const object = scratch('object.o');
  run(compiler, [...flags, '-c', '-x', language, '-', '-o', object], source);
  run(compiler, [...flags.filter((each) => each !== '-pg'), finish(object), ...more, '-o', output, ...cxx]);
  return output;
}

/** The patched program. */
export function patched(program: string, ...options: readonly string[]): string {
  const output = scratch('patched');
  const { status, stderr } = elftrace(['record', '-o', output, ...options, program]);
  expect([status, stderr]).toEqual([0, '']);
  return output;
}

export interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly dir: string;
}

/** Runs a program with a directory for its trace. */
export function traced(
  program: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  { run: words }: NativeMachine = here,
): Ran {
  const dir = scratch('trace');
  mkdirSync(dir);
  const [command, ...rest] = [...words, program, ...args];
  // Not here: programs of -pg leave a file where they run.
  const { status, stdout, signal } = spawnSync(command!, rest, {
    encoding: 'utf8',
    timeout: 60_000,
    cwd: dirname(dir),
    env: { PATH: process.env['PATH']!, ELFTRACE_DIR: dir, ...env },
  });
  return { status: signal === null ? status : 128, stdout, dir };
}

export interface Report {
  readonly threads: number;
  readonly calls: number;
  readonly dropped: number;
  readonly damaged: number;
  readonly unknown: number;
  readonly functions: readonly { readonly function: string; readonly calls: number; readonly object: string }[];
}

export const schemaOf = (name: string) =>
  JSON.parse(readFileSync(join(root, 'schemas', `${name}.schema.json`), 'utf8')) as object;

export function report(dir: string, ...objects: readonly string[]): Report {
  const { status, stdout, stderr } = elftrace([
    'report',
    dir,
    '--json',
    ...objects.flatMap((each) => ['--object', each]),
  ]);
  expect([status, stderr.replace(/.*notice: \d+ (?:calls|returns) were not recorded.*\n/g, '')]).toEqual([0, '']);
  const found = JSON.parse(stdout) as Report;
  const valid = new Ajv2020().compile(schemaOf('report'));
  expect([valid(found), valid.errors]).toEqual([true, null]);
  return found;
}

export const countsOf = ({ functions }: Report): Record<string, number> =>
  Object.fromEntries(functions.map(({ function: name, calls }) => [name, calls] as const).sort());

export const FORMS: readonly (readonly string[])[] = [
  [NOPS],
  [NOPS, '-no-pie', '-fno-pie'],
  FENTRY,
  [NOPS, '-fcf-protection', '-Wl,-z,now'],
  [NOPS, '-static-pie', '-fPIE'],
  [...FENTRY, '-no-pie', '-fno-pie', '-mnop-mcount'],
  [NOPS, '-static'],
  ['-fpatchable-function-entry=9,2', '-fuse-ld=lld'],
  ['-fpatchable-function-entry=16,14'],
  ['-fpatchable-function-entry=9,7', '-fcf-protection', '-static-pie', '-fPIE'],
];

/** Programs run natively: on the machine whose runtime there is. */
export function describeNatively(name: string, body: () => void): void {
  if (!isHere) describe.skip(name, body);
  else describeWith([COMPILER, 'nm', 'strip', 'readelf', 'ld.lld', 'uftrace', 'csmith'], name, body);
}

const logs = new Map<string, string>();

/** Constructors and destructors of complete objects and of bases are one function. */
export const oneName = (name: string): string => name.replace(/([CD])1E/, '$12E');

/** Calls by name as the program's twin logs them. */
export function truth(
  program: NativeProgram,
  common: readonly string[] = SAME_CALLS,
  machine: NativeMachine = here,
): {
  readonly counts: Record<string, number>;
  readonly status: number | null;
  readonly stdout: string;
} {
  let log = logs.get(machine.name);
  if (log === undefined) {
    log = scratch('log.o');
    run(
      `${machine.triple}-gcc`,
      [...(machine.flags ?? []), '-O1', '-fPIE', '-c', '-x', 'c', '-', '-o', log],
      LOG_SOURCE,
    );
    logs.set(machine.name, log);
  }
  const flags = [...common, ...(program.flags ?? []), '-finstrument-functions'];
  const twin = compile(program.source, flags, program.language, [log], machine);
  const file = scratch('truth');
  const [command, ...rest] = [...machine.run, twin];
  const { status, stdout } = spawnSync(command!, rest, {
    encoding: 'utf8',
    env: { PATH: process.env['PATH']!, TRUTH: file },
  });
  const base = /^([0-9a-f]+) \S __executable_start$/m;
  const symbols = run('nm', [twin]).toString();
  const start = Number.parseInt(base.exec(symbols)?.[1] ?? '0', 16);
  const names = new Map(
    // Functions of some machines are told by words in their data.
    [...symbols.matchAll(/^([0-9a-f]+) [tTwWdD] (\S+)$/gm)].map(([, at, name]) => [
      Number.parseInt(at!, 16) - start,
      name!,
    ]),
  );
  const bytes = readFileSync(file);
  const counts: Record<string, number> = {};
  const { words } = machine;
  const view = new ByteView(bytes, words?.endian ?? 'little');
  const wordBytes = words?.bytes ?? 8;
  for (let at = 0; at < bytes.length; at += wordBytes) {
    const name = oneName(names.get(Number(view.word(at, wordBytes)))!);
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return { counts: Object.fromEntries(Object.entries(counts).sort()), status, stdout };
}
