/** Builds, patches and runs programs that write their own trace, and reads what they wrote. */
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect } from '@jest/globals';
import { scratch } from './c-programs.js';
import { warmElftrace as elftrace } from './cli.js';
import { root } from './pipeline.js';
import { spawnSync } from './spawn.js';
import { describeWith, run } from './tools.js';

const isHere = process.arch === 'x64' && process.platform === 'linux';
export const COMPILER = 'x86_64-linux-gnu-gcc';
export const NOPS = '-fpatchable-function-entry=5';
const FENTRY = ['-pg', '-mfentry', '-mrecord-mcount'];

export function compile(
  source: string,
  flags: readonly string[],
  language = 'c',
  more: readonly string[] = [],
): string {
  const output = scratch('program');
  const cxx = language === 'c++' ? ['-lstdc++'] : [];
  run(COMPILER, [...flags, '-x', language, '-', '-x', 'none', ...more, '-o', output, ...cxx], source);
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
export function traced(program: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Ran {
  const dir = scratch('trace');
  mkdirSync(dir);
  // Not here: programs of -pg leave a file where they run.
  const { status, stdout, signal } = spawnSync(program, args, {
    encoding: 'utf8',
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
  expect([status, stderr.replace(/.*notice: \d+ calls were not recorded.*\n/, '')]).toEqual([0, '']);
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
