/**
 * Runs `elftrace run` with its status checked against the schema, and programs that end in every
 * way.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect } from '@jest/globals';
import { type CliResult, warmElftrace as elftrace } from './cli.js';
import { buildPpc, PROGRAMS, writeSource } from './emulator.js';
import type { PpcKind } from './emulator.js';
import { root } from './pipeline.js';

const schema = JSON.parse(readFileSync(join(root, 'schemas', 'run-status.schema.json'), 'utf8')) as object;
const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(schema);
const folder = mkdtempSync(join(tmpdir(), 'run-status-'));

/** Machines with a C library, their compilers, and what their numbers are like. */
export const LINUX_TARGETS = [
  ['x86-64', 'gcc', 'little, 64'],
  ['ppc32', 'powerpc-linux-gnu-gcc', 'big, 32'],
  ['arm64', 'aarch64-linux-gnu-gcc', 'little, 64'],
  ['riscv64', 'riscv64-linux-gnu-gcc', 'little, 64'],
  ['ppc64-elfv1', 'powerpc64-linux-gnu-gcc', 'big, 64'],
  ['ppc64le', 'powerpc64le-linux-gnu-gcc', 'little, 64'],
] as const;

export interface RunResult extends CliResult {
  /** What --json-status wrote; empty when it wrote nothing. */
  readonly json: Readonly<Record<string, unknown>>;
}

export function run(args: readonly string[]): RunResult {
  const file = join(folder, 'status.json');
  rmSync(file, { force: true });
  const result = elftrace(['run', '--json-status', file, ...args]);
  const json = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>) : {};
  if (existsSync(file)) expect(validate(json) ? [] : validate.errors).toEqual([]);
  return { ...result, json };
}

const ENDS = `
#include "lib.h"
__attribute__((noinline)) static int inner(char how, char **argv) {
  switch (how) {
  case 'e': return 42;
  case 's': *(volatile int *)16 = 1; return 0;
  case 't': __asm__ volatile("trap"); return 0;
  case 'i': __asm__ volatile(".long 0"); return 0;
  case 'u': __asm__ volatile(".long 0x5bfffffe"); return 0;
  case 'a': sys(37, sys(20), 6L); return 0;
  case 'f': { u32 word = 0; sys(221, &word, 0L, 0L, 0L); return 0; }
  case 'l': for (;;) __asm__ volatile("");
  case 'o': puts_(argv[2]); flush(); return 0;
  case 'p': puts_("same\\n"); puts_(argv[2]); puts_("\\n"); flush(); return argv[2][0] == 'z';
  case 'r': {
    char text[64];
    long fd = sys(5, argv[2], 0L);
    if (fd < 0) return (int)-fd;
    sys(4, 1L, text, sys(3, fd, text, 64L));
    return 0;
  }
  }
  return 1;
}
__attribute__((noinline)) int outer(char how, char **argv) { return inner(how, argv) + (how == 0); }
__attribute__((used, noinline)) int add(int a, int b) { return a + b; }
__attribute__((used, noinline)) word eight(word a, word b, word c, word d, word e, word f, word g, word h) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
static const char *volatile greeting = "hi ";
__attribute__((used, noinline)) int greet(const char *name) {
  int n = 0;
  puts_(greeting);
  puts_(name);
  put('\\n');
  flush();
  while (name[n]) n++;
  return n;
}
__attribute__((used, noinline)) int crash(int *p) { return *p; }
int main(int argc, char **argv, char **envp) {
  (void)argc;
  if (argv[1][0] == 'v') {
    for (; *envp; envp++) { puts_(*envp); put('\\n'); }
    flush();
    return 0;
  }
  return outer(argv[1][0], argv);
}
`;

export const kinds: readonly PpcKind[] = ['32', 'be', 'le'];
const built = new Map<PpcKind, string>();
/** The program, built once for each target. */
export function ends(kind: PpcKind): string {
  let path = built.get(kind);
  if (path === undefined) {
    path = buildPpc(kind, '1', [join(PROGRAMS, 'start.S'), writeSource('ends.c', ENDS)], [
      '-I', PROGRAMS, '-fno-optimize-sibling-calls',
    ]); // prettier-ignore
    built.set(kind, path);
  }
  return path;
}
