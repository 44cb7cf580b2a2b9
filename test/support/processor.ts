/**
 * What makers and models of x86-64 processors do differently, as far as programs of the tests could
 * meet it, and how the processor at hand is asked. A test that runs something natively expects of a
 * row what the processor answered, never what the one did on which the test was written.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from './spawn.js';
import { runProgramFile, tool } from './tools.js';

/**
 * What an instruction does: it is executed, or raises the exception of an invalid opcode, or leads
 * to a place where nothing is.
 */
export type Reaction = 'executed' | 'invalid-opcode' | 'fault';

export const MAKERS = ['GenuineIntel', 'AuthenticAMD'] as const;
export type Maker = (typeof MAKERS)[number];

export interface ProcessorRow {
  readonly what: string;
  readonly bytes: readonly number[];
  /** Intel SDM volumes 2 and 3A, AMD APM volumes 2 and 3. */
  readonly makers: Readonly<Record<Maker, Reaction>>;
}

/**
 * Encodings with which makers do different things, whatever features a model has; what is there by
 * a feature is asked by its flag.
 */
export const MAKER_ROWS: readonly ProcessorRow[] = [
  {
    what: '0f 0d with a register operand (prefetchw)',
    bytes: [0x0f, 0x0d, 0xc0],
    makers: { GenuineIntel: 'executed', AuthenticAMD: 'invalid-opcode' },
  },
  {
    what: '66 e9: a near jump with an operand size prefix, which AMD ends behind 16 bits and cuts to 16 bits',
    bytes: [0x66, 0xe9, 0, 0, 0, 0],
    makers: { GenuineIntel: 'executed', AuthenticAMD: 'fault' },
  },
  {
    what: '0f 18 /4 with a register operand (a reserved nop)',
    bytes: [0x0f, 0x18, 0xe0],
    makers: { GenuineIntel: 'executed', AuthenticAMD: 'executed' },
  },
  {
    what: '0f 1f with a register operand (the nop that both describe)',
    bytes: [0x0f, 0x1f, 0xc0],
    makers: { GenuineIntel: 'executed', AuthenticAMD: 'executed' },
  },
  { what: 'ud2', bytes: [0x0f, 0x0b], makers: { GenuineIntel: 'invalid-opcode', AuthenticAMD: 'invalid-opcode' } },
];

/**
 * What else differs and is not compared at all: flags and results that the manuals leave undefined
 * (`undefinedFlags` of x86-batch.ts masks them), what `cpuid`, `rdtsc`, `rdpid` and other
 * instructions about the machine return (`isUnitOnly`), approximations (`rcpps`, `rsqrtps`), time,
 * and the number of CPUs.
 */
export const isX86Linux = process.arch === 'x64' && process.platform === 'linux';

const ASKER = `
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void ended(int signal) { _exit(signal); }
int main(int argc, char **argv) {
  unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int n = 0;
  for (int i = 1; i < argc; i++) page[n++] = (unsigned char)strtol(argv[i], 0, 16);
  page[n] = 0xc3;
  if (mprotect(page, 4096, PROT_READ | PROT_EXEC)) return 99;
  signal(SIGILL, ended);
  signal(SIGSEGV, ended);
  ((void (*)(void))page)();
  return 0;
}
`;

let asker: string | null | undefined;

function askingProgram(): string | null {
  if (asker !== undefined) return asker;
  asker = null;
  if (!isX86Linux || tool('gcc') === null) return asker;
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-processor-'));
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true });
  });
  const path = join(folder, 'ask');
  writeFileSync(`${path}.c`, ASKER);
  const made = spawnSync('gcc', ['-O1', '-w', `${path}.c`, '-o', path]);
  if (made.status === 0) asker = path;
  return asker;
}

const answers = new Map<string, Reaction | null>();

/** What this processor, under this kernel, does with an instruction; null: it cannot be asked. */
export function ask(bytes: readonly number[]): Reaction | null {
  const key = bytes.map((each) => each.toString(16)).join(' ');
  const known = answers.get(key);
  if (known !== undefined) return known;
  const path = askingProgram();
  const status = path === null ? null : runProgramFile(path, key.split(' ')).status;
  const reactions: Readonly<Record<number, Reaction>> = { 0: 'executed', 4: 'invalid-opcode', 11: 'fault' };
  const answer = status === null ? null : (reactions[status] ?? null);
  answers.set(key, answer);
  return answer;
}

const field = (name: string): string =>
  isX86Linux
    ? (new RegExp(`^${name}\\s*:(.*)$`, 'm').exec(readFileSync('/proc/cpuinfo', 'latin1'))?.[1]?.trim() ?? '')
    : '';

/** The maker of this processor as it says itself; null: another one, or no x86-64. */
export const maker = (): Maker | null => MAKERS.find((each) => each === field('vendor_id')) ?? null;

/** True when the processor has all these features, by the names of /proc/cpuinfo. */
export function hasFeatures(names: readonly string[]): boolean {
  const flags = new Set(field('flags').split(' '));
  return names.every((each) => flags.has(each));
}
