/**
 * Compiles small programs for the PowerPC targets, in a folder that is removed, and reads them as
 * programs.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ppc32, ppc64ElfV1, ppc64ElfV2Be, ppc64ElfV2Le } from '../../src/arch-ppc/index.js';
import type { Arch } from '../../src/machine/arch.js';
import { run } from './tools.js';

export interface PpcTarget {
  readonly arch: Arch;
  /** Prefix of binutils and gcc. */
  readonly prefix: string;
  readonly gccFlags: readonly string[];
  readonly clangTriple: string;
  readonly clangFlags: readonly string[];
}

export const ppcTargets = {
  ppc32: { arch: ppc32, prefix: 'powerpc-linux-gnu-', gccFlags: [], clangTriple: 'powerpc-linux-gnu', clangFlags: [] },
  v1: {
    arch: ppc64ElfV1,
    prefix: 'powerpc64-linux-gnu-',
    gccFlags: [],
    clangTriple: 'powerpc64-linux-gnu',
    clangFlags: [],
  },
  v2be: {
    arch: ppc64ElfV2Be,
    prefix: 'powerpc64-linux-gnu-',
    gccFlags: ['-mabi=elfv2'],
    clangTriple: 'powerpc64-linux-gnu',
    clangFlags: ['-mabi=elfv2'],
  },
  v2le: {
    arch: ppc64ElfV2Le,
    prefix: 'powerpc64le-linux-gnu-',
    gccFlags: [],
    clangTriple: 'powerpc64le-linux-gnu',
    clangFlags: [],
  },
} as const satisfies Record<string, PpcTarget>;

/** Runs `body` with a fresh folder; `path` joins a name to it. */
export function inFolder<T>(body: (path: (name: string) => string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-'));
  try {
    return body((name) => join(folder, name));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A global, a string, a switch, a nested call, varargs, a static and a weak function. */
export const SAMPLE = `
int shared;
extern int outside(int, ...);
__attribute__((noinline)) static int square(int x) { return x * x; }
int leaf(int x) { return x + 1; }
int counts(int x) { shared += x; return shared; }
int calls(int a, int b) { return square(a) + outside(b) + counts(a); }
__attribute__((weak)) int weakly(int x) { return outside(x, x); }
int choose(int x) { switch (x) { case 1: return outside(4); case 2: return counts(2); case 3: return leaf(3); default: return 0; } }
double mixed(double d, float f, long l) { return d * f + (double)l; }
`;

/** How many functions of SAMPLE get a site. */
export const SAMPLE_FUNCTIONS = 7;

export const NESTED = `
extern int outside(int);
int outer(int x) { int inner(int y) { return outside(x + y); } int (*p)(int) = inner; return outside((int)(long)p) + inner(1); }
`;

const BASE = ['-O2', '-ffreestanding', '-fno-builtin', '-fno-stack-protector', '-w', '-c'];

/** An object file. */
export function compileWith(
  target: PpcTarget,
  compiler: 'gcc' | 'clang',
  flags: readonly string[],
  source: string = SAMPLE,
): Uint8Array {
  return inFolder((path) => {
    writeFileSync(path('a.c'), source);
    const own = compiler === 'gcc' ? [...target.gccFlags] : [`--target=${target.clangTriple}`, ...target.clangFlags];
    const command = compiler === 'gcc' ? `${target.prefix}gcc` : 'clang';
    const pic = flags.some((flag) => /^-f(pic|PIC|PIE|pie)$/.test(flag)) ? [] : ['-fno-pie'];
    run(command, [...own, ...BASE, ...pic, ...flags, path('a.c'), '-o', path('a.o')]);
    return new Uint8Array(readFileSync(path('a.o')));
  });
}

/** An object file from assembly. */
export function assembleWith(target: PpcTarget, source: string, flags: readonly string[] = []): Uint8Array {
  return inFolder((path) => {
    writeFileSync(path('a.s'), source);
    const abi = target.gccFlags.includes('-mabi=elfv2') ? ['-a64'] : [];
    run(`${target.prefix}as`, [...abi, ...flags, path('a.s'), '-o', path('a.o')]);
    return new Uint8Array(readFileSync(path('a.o')));
  });
}

/** Links objects; `flags` are ld's. */
export function linkWith(target: PpcTarget, objects: readonly Uint8Array[], flags: readonly string[]): Uint8Array {
  return inFolder((path) => {
    const names = objects.map((bytes, i) => {
      const name = path(`${i}.o`);
      writeFileSync(name, bytes);
      return name;
    });
    run(`${target.prefix}ld`, [...flags, ...names, '-o', path('out')]);
    return new Uint8Array(readFileSync(path('out')));
  });
}
