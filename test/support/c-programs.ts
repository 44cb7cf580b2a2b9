/**
 * C programs on the four PowerPC targets: builds them, runs them here and under qemu-user.
 *
 * Many programs go into one executable, because starting compilers, emulators and qemu would cost
 * more than the programs: each source is put behind `#line` into one translation unit with all its
 * identifiers prefixed (by its text, so that sources stay plain programs with a `main` of their
 * own), and one `main` runs them in turn and prints `== name` before each.
 *
 * Nothing here imports jest, so that scripts can use it too.
 */
import { spawnSync } from './spawn.js';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Arch } from '../../src/machine/arch.js';
import { arm64 } from '../../src/arch-arm64/index.js';
import { ppc32, ppc64ElfV1, ppc64ElfV2Be, ppc64ElfV2Le } from '../../src/arch-ppc/index.js';
import { x86_64 } from '../../src/arch-x86/index.js';
import { riscv64 } from '../../src/arch-riscv/index.js';
import { readElf } from '../../src/elf/read.js';
import { startProcess } from '../../src/guest/index.js';
import type { Process } from '../../src/guest/index.js';

/** The sources lie beside the TypeScript, the tests run from `build/`. */
export const PROGRAMS = join(dirname(fileURLToPath(import.meta.url)), '../../../test/programs');

function run(command: string, args: readonly string[], cwd?: string): void {
  const result = spawnSync(command, [...args], { cwd });
  if (result.error) throw result.error;
  if (result.status !== 0) throw new Error(`${command} ${args.join(' ')}:\n${result.stderr.toString()}`);
}

export interface PpcTarget {
  readonly name: string;
  readonly arch: Arch;
  readonly gcc: string;
  readonly qemu: string;
  readonly flags: readonly string[];
  readonly libraries: readonly string[];
  readonly qemuFlags?: readonly string[];
  /** Start-up code in test/programs; default start.S. */
  readonly start?: readonly string[];
}

const NO_VECTORS = ['-mno-vsx', '-mno-altivec'];

/**
 * Debian's libgcc for big-endian powerpc64 is ELFv1 only, so ELFv2 goes without, and with the
 * instructions of POWER8.
 */
export const TARGETS: readonly PpcTarget[] = [
  {
    name: 'ppc32',
    arch: ppc32,
    gcc: 'powerpc-linux-gnu-gcc',
    qemu: 'qemu-ppc',
    flags: [],
    libraries: ['-lgcc'],
  },
  {
    name: 'ppc64-elfv1',
    arch: ppc64ElfV1,
    gcc: 'powerpc64-linux-gnu-gcc',
    qemu: 'qemu-ppc64',
    flags: NO_VECTORS,
    libraries: ['-lgcc'],
  },
  {
    name: 'ppc64-elfv2-be',
    arch: ppc64ElfV2Be,
    gcc: 'powerpc64-linux-gnu-gcc',
    qemu: 'qemu-ppc64',
    flags: ['-mabi=elfv2', '-mcpu=power8', ...NO_VECTORS],
    libraries: [],
  },
  {
    name: 'ppc64-elfv2-le',
    arch: ppc64ElfV2Le,
    gcc: 'powerpc64le-linux-gnu-gcc',
    qemu: 'qemu-ppc64le',
    flags: NO_VECTORS,
    libraries: ['-lgcc'],
  },
];

/** Only integer code: compilers use vectors even to copy structures. */
const GENERAL = ['-mgeneral-regs-only', '-fcf-protection=none', '-fno-pie', '-no-pie'];

/** x86-64: gcc and clang, and gcc with the integer vectors that it uses by itself. */
export const X86_TARGETS: readonly PpcTarget[] = [
  { name: 'x86-64', arch: x86_64, gcc: 'gcc', qemu: 'qemu-x86_64', flags: GENERAL, libraries: ['-lgcc'] },
  {
    name: 'x86-64-clang',
    arch: x86_64,
    gcc: 'clang',
    qemu: 'qemu-x86_64',
    flags: ['-mgeneral-regs-only', '-fno-pie', '-no-pie', '-fuse-ld=lld'],
    libraries: [],
  },
  {
    name: 'x86-64-v2',
    arch: x86_64,
    gcc: 'gcc',
    qemu: 'qemu-x86_64',
    flags: ['-march=x86-64-v2', '-fcf-protection=none', '-fno-pie', '-no-pie'],
    libraries: [],
  },
];

const RISCV = {
  arch: riscv64,
  gcc: 'riscv64-linux-gnu-gcc',
  qemu: 'qemu-riscv64',
  libraries: ['-lgcc'],
  // With the bit manipulation extensions, whatever the version of qemu takes for granted.
  qemuFlags: ['-cpu', 'rv64,zba=true,zbb=true,zbs=true'],
  start: ['start-riscv64.S', 'library-riscv64.c'],
} as const;
const riscvFlags = (march: string): string[] => [`-march=${march}`, '-mabi=lp64d', '-DSYS_WRITE=64'];

/**
 * Compressed code, code of 4-byte instructions only, and code with the bit manipulation extensions.
 */
export const RISCV_TARGETS: readonly PpcTarget[] = [
  { ...RISCV, name: 'rv64gc', flags: riscvFlags('rv64gc') },
  { ...RISCV, name: 'rv64g', flags: riscvFlags('rv64g') },
  { ...RISCV, name: 'rv64gc_zba_zbb_zbs', flags: riscvFlags('rv64gc_zba_zbb_zbs') },
];

const ARM64 = {
  arch: arm64,
  gcc: 'aarch64-linux-gnu-gcc',
  qemu: 'qemu-aarch64',
  libraries: ['-lgcc'],
  start: ['start-arm64.S'],
} as const;
const NO_PIE = ['-fno-pie', '-no-pie', '-DSYS_WRITE=64', '-mno-outline-atomics'];

/**
 * Integer registers only; and with the vector registers that GCC copies and clears with, and LSE
 * atomics in line.
 */
export const ARM64_TARGETS: readonly PpcTarget[] = [
  { ...ARM64, name: 'arm64', flags: [...NO_PIE, '-mgeneral-regs-only'] },
  { ...ARM64, name: 'arm64-lse', flags: [...NO_PIE, '-mgeneral-regs-only', '-march=armv8.2-a'] },
  { ...ARM64, name: 'arm64-plain', flags: [...NO_PIE, '-fno-tree-vectorize'] },
];

/** The same for csmith, whose headers have floating point functions that nobody calls. */
export const ARM64_CSMITH_TARGETS: readonly PpcTarget[] = [
  { ...ARM64, name: 'arm64', flags: [...NO_PIE, '-fno-tree-vectorize'] },
  { ...ARM64, name: 'arm64-lse', flags: [...NO_PIE, '-fno-tree-vectorize', '-march=armv8.2-a'] },
  { ...ARM64, name: 'arm64-signed', flags: [...NO_PIE, '-fno-tree-vectorize', '-mbranch-protection=standard'] },
];

export type Level = '0' | '1' | '2' | 's';
export const LEVELS: readonly Level[] = ['0', '2', 's'];

let folder: string | undefined;
let made = 0;

/** A new path in a folder of this process, which is removed when the process ends. */
export function scratch(name: string): string {
  if (folder === undefined) {
    const fresh = mkdtempSync(join(tmpdir(), 'elftrace-programs-'));
    folder = fresh;
    process.once('exit', () => {
      rmSync(fresh, { recursive: true, force: true });
    });
  }
  return join(folder, `${made++}-${name}`);
}

/** Paths of the programs: those of this folder's own tests and the collection in `c/`. */
export function programPaths(): readonly string[] {
  const sources = (path: string): string[] =>
    readdirSync(path)
      .filter((name) => name.endsWith('.c') && !name.startsWith('library-'))
      .sort()
      .map((name) => join(path, name));
  return [...sources(PROGRAMS), ...sources(join(PROGRAMS, 'c'))];
}

export const programName = (path: string): string => path.replace(/^.*\//, '').replace(/\.c$/, '');

// ---------------------------------------------------------------------------- one translation unit

/**
 * Words that keep their meaning: C's own and what lib.h offers. Names that begin with `__` are kept
 * too.
 */
const KEPT = new Set(
  `auto break case char const continue default do double else enum extern float for goto if inline int long register
  restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool
  _Alignas _Alignof _Static_assert _Generic
  u8 u16 u32 u64 s8 s16 s32 s64 word sys SYS_WRITE flush put puts_ hex line memcpy memmove memset memcmp random_`.split(
    /\s+/,
  ),
);

const TOKEN =
  /\/\*[^]*?\*\/|\/\/.*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|^[ \t]*#[ \t]*\w+|\.?\d[\w.]*|[A-Za-z_]\w*/gm;

/** The source with every identifier of its own renamed `<prefix>_<identifier>`. */
function prefixed(source: string, prefix: string): string {
  return source.replace(/^#include "lib\.h"$/m, '').replace(TOKEN, (token) => {
    const renamed = /^[A-Za-z_]/.test(token) && !token.startsWith('__') && !KEPT.has(token);
    return renamed ? `${prefix}_${token}` : token;
  });
}

/** One source out of many programs. */
export function combined(paths: readonly string[]): string {
  const parts = paths.map((path) => {
    const source = readFileSync(path, 'latin1');
    const name = programName(path);
    const prefix = name.replace(/\W/g, '_');
    const parameters = ['', ', argv', ', argv, envp'][/\bint main\(([^)]*)\)/.exec(source)![1]!.split(',').length - 1]!;
    const takesNone = source.includes('int main(void)');
    // Not inlined, else one huge function is compiled instead of many.
    const declared = prefixed(source, prefix).replace(
      new RegExp(`^int ${prefix}_main\\(`, 'm'),
      `static __attribute__((noinline)) int ${prefix}_main(`,
    );
    return {
      text: `#line 1 "${path}"\n${declared}`,
      call: `  begin("${name}");\n  end(${prefix}_main(${takesNone ? '' : `argc${parameters}`}));\n`,
    };
  });
  return `#include "lib.h"
static u32 codes;
static void begin(const char *name) {
  puts_("== ");
  puts_(name);
  put('\\n');
  flush();
  random_state = 12345;
}
static void end(int code) {
  line("exit", (u32)code);
  codes = codes * 31 + (u32)code;
}
${parts.map((part) => part.text).join('')}
#line 1 "all"
int main(int argc, char **argv, char **envp) {
  (void)envp;
  (void)argv;
  (void)argc;
${parts.map((part) => part.call).join('')}  flush();
  return codes & 127;
}
`;
}

// ------------------------------------------------------------------------------- building, running

const assembled = new Map<string, string>();

/**
 * Start-up code in assembly language as an object, which is the same in each program of a target;
 * other sources as they are.
 */
function startUp(target: PpcTarget, name: string): string {
  const source = join(PROGRAMS, name);
  if (!name.endsWith('.S')) return source;
  const key = JSON.stringify([target.gcc, target.flags, name]);
  let object = assembled.get(key);
  if (object === undefined) {
    object = scratch('start.o');
    run(target.gcc, ['-I', PROGRAMS, ...target.flags, '-c', source, '-o', object]);
    assembled.set(key, object);
  }
  return object;
}

/** Compiles and links a freestanding static program; the path of the executable. */
export function buildProgram(
  target: PpcTarget,
  level: Level,
  sources: readonly string[],
  flags: readonly string[] = [],
): string {
  const output = scratch('program');
  run(target.gcc, [
    `-O${level}`, '-w', '-ffreestanding', '-nostdlib', '-static', '-fno-stack-protector', '-I', PROGRAMS, ...target.flags,
    ...flags, '-o', output, ...(target.start ?? ['start.S']).map((name) => startUp(target, name)), ...sources, ...target.libraries,
  ]); // prettier-ignore
  return output;
}

/** Builds the programs of `paths` into one executable. */
export function buildCombined(target: PpcTarget, level: Level, paths: readonly string[]): string {
  const source = scratch('all.c');
  writeFileSync(source, combined(paths), 'latin1');
  return buildProgram(target, level, [source], ['-std=gnu11']);
}

/** What a run printed and how it ended: an exit code, or words about another end. */
export interface Outcome {
  readonly output: string;
  readonly end: number | string;
}

/** The environment that both emulators give the program. */
const ENVIRONMENT = { A: 'B' };

export function runQemu(
  target: PpcTarget,
  path: string,
  options: { readonly args?: readonly string[]; readonly flags?: readonly string[]; readonly timeoutMs?: number } = {},
): Outcome {
  const result = spawnSync(
    target.qemu,
    [...(target.qemuFlags ?? []), ...(options.flags ?? []), path, ...(options.args ?? [])],
    {
      env: { PATH: process.env['PATH'], ...ENVIRONMENT },
      maxBuffer: 1 << 28,
      timeout: options.timeoutMs,
      killSignal: 'SIGKILL',
    },
  );
  return { output: result.stdout.toString('latin1'), end: result.status ?? `signal ${String(result.signal)}` };
}

/** Starts a program here; `output` grows as it runs. */
export function startHere(
  target: PpcTarget,
  path: string,
  args: readonly string[] = [],
  options: { readonly tier?: 'auto' | 0 | 1; readonly tierUpAfter?: number } = {},
): { process: Process; output: () => string } {
  const { emulation, abi } = target.arch;
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  let output = '';
  const started = startProcess({
    image: readElf(new Uint8Array(readFileSync(path))),
    emulation,
    abi,
    args: [path, ...args],
    env: ['A=B'],
    ...options,
    onOutput: (_descriptor, bytes) => {
      output += Buffer.from(bytes).toString('latin1');
    },
  });
  return { process: started, output: () => output };
}

/** Runs a program here to its end, or until `budget` instructions are done. */
export function runHere(
  target: PpcTarget,
  path: string,
  options: {
    readonly args?: readonly string[];
    readonly budget?: number;
    readonly tier?: 'auto' | 0 | 1;
    readonly tierUpAfter?: number;
  } = {},
): Outcome & { readonly instructions: number } {
  const { budget = 2_000_000_000, args, ...tiers } = options;
  const { process: here, output } = startHere(target, path, args, tiers);
  const stop = here.run({ budget });
  const { instructions } = here.machine;
  const end =
    stop.kind === 'exit'
      ? stop.code
      : `${JSON.stringify(stop, (_key, value: unknown) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value))} at 0x${here.machine.register('pc').toString(16)}`;
  return { output: output(), end, instructions };
}

/** Output of a combined program by program name. */
export function sections(output: string): ReadonlyMap<string, string> {
  const parts = output.split(/^== (.*)\n/m).slice(1);
  const result = new Map<string, string>();
  for (let i = 0; i < parts.length; i += 2) result.set(parts[i]!, parts[i + 1]!);
  return result;
}

// ------------------------------------------------------------------------------------------ csmith

/** The headers of csmith's runtime (package libcsmith-dev). */
export const CSMITH_HEADERS = '/usr/include/csmith';

/**
 * Of programs of a few hundred instructions that end soon; without optimisation the same source has
 * several times as many.
 */
const small = (level: Level): string[] =>
  Object.entries({
    'max-funcs': level === '0' ? 2 : 4,
    'max-block-size': level === '0' ? 2 : 3,
    'max-block-depth': level === '0' ? 2 : 3,
    'max-expr-complexity': level === '0' ? 3 : 8,
    'max-array-len-per-dim': 5,
    'max-struct-fields': 6,
  }).flatMap(([name, value]) => [`--${name}`, String(value)]);

/** Source of a random program of csmith without floating point; and where its headers are. */
function csmithSource(
  seed: number,
  options: readonly string[],
  isSmall: boolean,
): [source: string, includes: string[]] {
  const source = scratch(`csmith-${seed}.c`);
  // csmith leaves a file platform.info where it runs.
  run('csmith', ['--seed', String(seed), '--concise', '--no-float', ...options, '-o', source], dirname(source));
  const headers = [...(isSmall ? [join(PROGRAMS, 'csmith-small')] : []), join(PROGRAMS, 'csmith'), CSMITH_HEADERS];
  return [source, headers.flatMap((each) => ['-I', each])];
}

/**
 * A random program of csmith without floating point, built; it wants the argument 1 to print a
 * checksum after each variable.
 * @param isSmall  a small one, with a checksum that needs no table
 */
export function buildCsmith(target: PpcTarget, level: Level, seed: number, isSmall = false): string {
  const [source, includes] = csmithSource(seed, isSmall ? small(level) : [], isSmall);
  // Without optimisation the compiler emits every function of the checked arithmetic.
  const referenced = isSmall ? ['-ffunction-sections', '-Wl,--gc-sections'] : [];
  return buildProgram(target, level, [source], [...includes, ...referenced]);
}

/**
 * A function that comes back from its cold part behind something that only its hot part does, and
 * then has too much to do for a copy of it.
 */
function partitioned(seed: number, index: number): string {
  const number = (i: number): number => (((seed * 40 + index) * 2_654_435_761 + i * 40_503) >>> 7) % 97;
  const [a, b, c, d, e] = [1, 2, 3, 4, 5].map(number);
  return `__attribute__((used, noinline)) static int elftrace_hot_${index}(int x, int y, int *p) {
  int r = x + ${a};
  if (y == ${b}) { elftrace_cold(); r = y - p[${index % 5}]; }
  else { r = (r * ${2 * c! + 3}) ^ y; ${index % 2 ? `p[${d! % 9}] = r;` : ''} ${index % 3 ? `x += ${e};` : ''} }
  p[1] = r + ${d}; r += p[2] * ${1 + (e! % 4)}; p[4] = r ^ x; r -= p[6]; p[7] = r * 3; p[5] = r + x; r ^= p[8]; p[0] = r;
  return r ^ x;
}`;
}

/**
 * A random program whose conditional blocks call a cold function, with 40 functions of the same
 * kind: the compiler puts such blocks into the cold part of their function, in a section of its
 * own, from where they lead back.
 */
export function buildPartitioned(target: PpcTarget, seed: number): string {
  const [source, includes] = csmithSource(seed, [], false);
  const text = readFileSync(source, 'latin1').replace(/^( +if .*\n +\{)/gm, '$1 elftrace_cold();');
  const cold = 'static __attribute__((cold, noinline)) void elftrace_cold(void) { __asm__ volatile (""); }';
  const more = Array.from({ length: 40 }, (_, i) => partitioned(seed, i));
  writeFileSync(source, [cold, text, ...more].join('\n'), 'latin1');
  return buildProgram(target, '2', [source], [...includes, '-freorder-blocks-and-partition']);
}
