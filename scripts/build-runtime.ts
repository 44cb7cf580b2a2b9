/**
 * Builds the guest runtime (src/runtime and the entries in src/arch-…) for every target and entry
 * convention to one relocatable object each, and writes them to src/runtime/objects with their
 * index, src/runtime/objects.ts, or compares them with what is there: byte for byte where the
 * recorded tools are installed, else by sections and symbols.
 *
 *   node build/scripts/build-runtime.js --write        replaces src/runtime/objects and
 *                                                      src/runtime/objects.ts
 *   node build/scripts/build-runtime.js --check        builds and compares
 *   node build/scripts/build-runtime.js --out DIR      writes the objects as files, for people
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { OBJECTS, VERSIONS } from '../src/runtime/objects.js';

/** Root of the package, from build/scripts. */
const root = fileURLToPath(new URL('../..', import.meta.url));
const index = join(root, 'src/runtime/objects.ts');
const folderOfObjects = join(root, 'src/runtime/objects');

interface Recipe {
  /**
   * Target and entry flavour: the key in objects.ts, and the path of the object without its ending.
   */
  readonly name: string;
  /** Prefix of the GNU tools. */
  readonly triple: string;
  readonly flags: readonly string[];
  /** Folder of the entries, below src. */
  readonly folder: string;
  readonly entries: readonly string[];
  /** What every machine compiles, below src; default: the runtime of tracers that images call. */
  readonly common?: string;
}

const COMMON = [
  '-O2', '-ffreestanding', '-fno-builtin', '-fno-stack-protector', '-fno-pie', '-fno-asynchronous-unwind-tables', '-fno-common',
  '-fno-ident', '-fno-tree-loop-distribute-patterns', '-Wall', '-Wextra', '-Werror',
]; // prettier-ignore

/**
 * No floating point, no vectors, no small data areas, no tables between the functions; the object
 * must fit to any other of its ABI, so it says nothing about them.
 */
const PPC = ['-msoft-float', '-mno-gnu-attribute', '-msdata=none'];
const PPC64 = [...PPC, '-mcmodel=medium', '-mno-altivec', '-mno-vsx', '-mtraceback=no'];

function ppc(target: string, triple: string, flags: readonly string[]): readonly Recipe[] {
  const bits = target === 'ppc32' ? '32' : '64';
  return [
    { name: `${target}/pg`, triple, flags, folder: 'arch-ppc', entries: [`entry-pg${bits}.S`, 'entry-common.S'] },
    {
      name: `${target}/regs`,
      triple,
      flags: [...flags, '-DRUNTIME_REGS'],
      folder: 'arch-ppc',
      entries: ['entry-regs.S', 'entry-common.S'],
    },
    ...[
      ['ool', ['-DOUT_OF_LINE']] as const,
      ['ool-ops', ['-DOUT_OF_LINE', '-DCALL_OPS']] as const,
      ...(bits === '32' ? [['callops', ['-DCALL_OPS']] as const] : []),
    ].map(([name, more]) => ({
      name: `${target}/${name}`,
      triple,
      flags: [...flags, '-DRUNTIME_REGS', ...more],
      folder: 'arch-ppc',
      entries: ['entry-regs.S', 'entry-common.S'],
    })),
  ];
}

/**
 * Words of 4 bytes that no linker moves, addresses relative to the program counter, no small data;
 * the ABI of programs with floating point, of which nothing is used. No branch through a table or
 * through t1, as a far tail call is: where the hart looks for landing pads, it would find none.
 */
const RISCV = [
  '-march=rv64g',
  '-mabi=lp64d',
  '-mcmodel=medany',
  '-mno-relax',
  '-msmall-data-limit=0',
  '-fno-jump-tables',
  '-fno-optimize-sibling-calls',
  '-DRUNTIME_REGS',
];

function riscv(flavour: string, entries: readonly string[], flags: readonly string[]): Recipe {
  return {
    name: `riscv64/${flavour}`,
    triple: 'riscv64-linux-gnu',
    // Two stores of 4 bytes are fewer instructions than one of 8 that has to be put together.
    flags: [...RISCV, '-fno-store-merging', ...flags],
    folder: 'arch-riscv',
    entries: [...entries, 'entry-common.S'],
  };
}
const MERGED = ['-DENTRY_DIRECT', '-DENTRY_MERGED'];

/**
 * Addresses are relative to rip, so that the object can lie anywhere (within ±2 GiB of its data),
 * and nothing is looked up in a GOT. No vectors; nothing below rsp, where a signal of the traced
 * program may write; nobody aligned the stack. r10 is left alone: it is the static chain of nested
 * functions, which the plain entries do not save and the code around sites of
 * -fpatchable-function-entry does not either. No branch through a table: where the
 * processor looks for landing pads, it would find none.
 */
const X86 = [
  '-m64', '-mgeneral-regs-only', '-mno-red-zone', '-mpreferred-stack-boundary=3', '-fcf-protection=none', '-mtune=generic',
  '-march=x86-64', '-fpie', '-mcmodel=small', '-ffixed-r10', '-fno-jump-tables',
]; // prettier-ignore

function x86(flavour: string, entries: string, flags: readonly string[]): Recipe {
  return {
    name: `x86-64/${flavour}`,
    triple: 'x86_64-linux-gnu',
    flags: [...X86, '-DRUNTIME_REGS', ...flags],
    folder: 'arch-x86',
    entries: [entries, 'entry-common.S', 'entry-graph.c'],
  };
}

/**
 * General registers only; atomics in line and of the first processors; x18 belongs to the traced
 * function (static chain) or to the platform; landing pads, which are no-ops where nobody asks for
 * them.
 */
const ARM64 = [
  '-mgeneral-regs-only', '-march=armv8-a', '-mno-outline-atomics', '-ffixed-x18', '-mbranch-protection=bti', '-fno-unwind-tables',
]; // prettier-ignore

function arm64(flavour: string, entries: string, flags: readonly string[]): Recipe {
  return {
    name: `arm64/${flavour}`,
    triple: 'aarch64-linux-gnu',
    flags: [...ARM64, ...flags],
    folder: 'arch-arm64',
    entries: [entries, 'entry-common.S'],
  };
}

/**
 * The runtime of a recipe, and one with what probes call besides; images without probes need not
 * have that.
 */
function withProbes(recipe: Recipe): readonly Recipe[] {
  return [recipe, { ...recipe, name: `${recipe.name}+probes`, flags: [...recipe.flags, '-DPROBES'] }];
}

const RECIPES: readonly Recipe[] = [
  riscv('g2', ['entry-g2.S'], ['-DENTRY_DIRECT', '-DGRAPH_CALL']),
  riscv('g2-plain', ['entry-g2.S'], ['-DENTRY_PLAIN', '-DGRAPH_CALL', '-ffixed-t2']),
  riscv('g2-merged', ['entry-merged.S'], MERGED),
  riscv('g3', ['entry-merged.S'], [...MERGED, '-DENTRY_G3']),
  riscv('g3c', ['entry-merged.S'], [...MERGED, '-DENTRY_G3', '-DENTRY_G3C', '-DCALL_OPS']),
  riscv('g1', ['entry-g1.S'], ['-DENTRY_G1']),
  riscv('g0', ['entry-g0.S', 'entry-g0.c'], ['-DENTRY_G0']),
  x86('modern', 'entry-modern.S', ['-DRUNTIME_MODERN']),
  x86('y2014', 'entry-2014.S', []),
  x86('mcount', 'entry-2014.S', ['-DENTRY_MCOUNT']),
  ...ppc('ppc32', 'powerpc-linux-gnu', PPC),
  ...ppc('ppc64-elfv1', 'powerpc64-linux-gnu', PPC64),
  ...ppc('ppc64-elfv2-be', 'powerpc64-linux-gnu', [...PPC64, '-mabi=elfv2']),
  ...ppc('ppc64-elfv2-le', 'powerpc64le-linux-gnu', PPC64),
  arm64('callops', 'entry-args.S', ['-DRUNTIME_REGS', '-DARGS_FRAME', '-DCALL_OPS']),
  arm64('args', 'entry-args.S', ['-DRUNTIME_REGS', '-DARGS_FRAME']),
  arm64('regs', 'entry-regs.S', ['-DRUNTIME_REGS']),
  arm64('pg', 'entry-pg.S', []),
].flatMap(withProbes);

/** Runtimes of programs that write their own trace: of calls, and of calls and returns. */
const NATIVE: readonly Recipe[] = [
  ...native(
    'x86-64',
    'x86_64',
    'arch-x86',
    X86.filter((flag) => flag !== '-ffixed-r10'),
    true,
  ),
  ...native('x86-64', 'x86_64', 'arch-x86', [...X86.filter((flag) => flag !== '-ffixed-r10'), '-DMUSL'], true).map(
    (recipe) => ({ ...recipe, name: `${recipe.name}-musl` }),
  ),
  ...native('arm64', 'aarch64', 'arch-arm64', ARM64, true),
  ...native('riscv64', 'riscv64', 'arch-riscv', RISCV, true),
  ...native('ppc64-elfv2-le', 'powerpc64le', 'arch-ppc', PPC64, true),
  // Its functions are called by their addresses alone, whatever those of the program are called by.
  ...native('ppc64-elfv1', 'powerpc64', 'arch-ppc', [...PPC64, '-mabi=elfv2', '-DTOC_SAVE=40'], true),
  ...native('ppc64-elfv2-be', 'powerpc64', 'arch-ppc', [...PPC64, '-mabi=elfv2'], true),
  ...native('ppc32', 'powerpc', 'arch-ppc', PPC, true).map((recipe) => ({
    ...recipe,
    entries: recipe.entries.map((entry) => entry.replace('native', 'native32')),
  })),
];

function native(
  target: string,
  triple: string,
  folder: string,
  flags: readonly string[],
  hasGraph = false,
): readonly Recipe[] {
  return ['native', ...(hasGraph ? ['native-graph'] : [])].map((name) => ({
    name: `${target}/${name}`,
    triple: `${triple}-linux-gnu`,
    // Such tables may hold addresses, which no loader relocates there.
    flags: [...flags, '-fno-jump-tables'],
    folder,
    entries: [`${name}.S`],
    common: `runtime/${name}.c`,
  }));
}
const ALL: readonly Recipe[] = [...RECIPES, ...NATIVE];

/** Runs a tool in src, so that no path of this place gets into an object. */
function run(tool: string, args: readonly string[]): string {
  return execFileSync(tool, [...args], {
    cwd: join(root, 'src'),
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
  });
}

const toolsOf = ({ triple }: Recipe): readonly string[] => [`${triple}-gcc`, `${triple}-as`, `${triple}-ld`];

/** First line of `tool --version`, or null where it is not installed. */
function versionOf(tool: string): string | null {
  try {
    return run(tool, ['--version']).split('\n')[0]!.trim();
  } catch {
    return null;
  }
}

function build(recipe: Recipe, folder: string): Uint8Array {
  const sources = [recipe.common ?? 'runtime/runtime.c', ...recipe.entries.map((each) => `${recipe.folder}/${each}`)];
  const objects = sources.map((source, at) => {
    const object = join(folder, `${String(at)}.o`);
    const flags = [...COMMON, ...recipe.flags, '-Iruntime', `-I${recipe.folder}`];
    run(`${recipe.triple}-gcc`, [...flags, '-c', source, '-o', object]);
    return object;
  });
  const out = join(folder, 'runtime.o');
  run(`${recipe.triple}-ld`, ['-r', ...objects, '-o', out]);
  return new Uint8Array(readFileSync(out));
}

/** Names of sections and symbols, for comparing what other versions of the tools built. */
function structureOf(bytes: Uint8Array, folder: string): string {
  const path = join(folder, 'structure.o');
  writeFileSync(path, bytes);
  const text = run('readelf', ['-W', '-S', '-s', path]);
  const sections = [...text.matchAll(/^ *\[ *\d+\] (\.\S+) +(\S+)/gm)].map((each) => `${each[1]!} ${each[2]!}`);
  const symbols = [...text.matchAll(/ (GLOBAL|WEAK) +(\S+) .*?(\S+)$/gm)].map((each) => each.slice(1, 4).join(' '));
  return [...sections.sort(), ...symbols.sort()].join('\n');
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** The index: a module that names the objects. */
function indexOf(objects: ReadonlyMap<string, Uint8Array>, versions: ReadonlyMap<string, string>): string {
  return [
    '/**',
    ' * Made by `npm run build:runtime`: which objects of the guest runtime lie in the folder objects, by',
    ' * target and entry flavour, and the tools that made them.',
    ' */',
    '',
    '/**',
    ' * One object: its file in the folder objects is its key with the ending `.o`; SHA-256 of its bytes',
    ' * in hexadecimal.',
    ' */',
    'export interface PrebuiltObject {',
    '  readonly sha256: string;',
    '}',
    '',
    '/** First line of `--version` by tool. */',
    'export const VERSIONS: Readonly<Record<string, string>> = {',
    ...[...versions].sort().map(([tool, version]) => `  '${tool}': '${version}',`),
    '};',
    '',
    '/** By `TARGET/FLAVOUR`. */',
    'export const OBJECTS: Readonly<Record<string, PrebuiltObject>> = {',
    ...[...objects].map(([name, bytes]) => `  '${name}': { sha256: '${sha256(bytes)}' },`),
    '};',
    '',
  ].join('\n');
}

/** Writes each object to `FOLDER/NAME.o`. */
function writeObjects(folder: string, objects: ReadonlyMap<string, Uint8Array>): void {
  for (const [name, bytes] of objects) {
    const path = join(folder, `${name}.o`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }
}

/**
 * The object that the repository has under a name; null: none, or not the one that the index tells.
 */
function recordedObject(name: string): Uint8Array | null {
  const path = join(folderOfObjects, `${name}.o`);
  if (!existsSync(path)) return null;
  const bytes = new Uint8Array(readFileSync(path));
  return sha256(bytes) === OBJECTS[name]?.sha256 ? bytes : null;
}

/** Names that the folder or the index has and no recipe makes. */
function leftOver(): readonly string[] {
  const files = readdirSync(folderOfObjects, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map((each) =>
      join(each.parentPath, each.name)
        .slice(folderOfObjects.length + 1)
        .replace(/\.o$/, ''),
    );
  const made = new Set(ALL.map(({ name }) => name));
  return [...new Set([...files, ...Object.keys(OBJECTS)])].filter((name) => !made.has(name)).sort();
}

/** How many objects came out as recorded, or why not. */
interface Counts {
  identical: number;
  alike: number;
  leftOut: number;
  different: number;
}

interface Built {
  readonly objects: ReadonlyMap<string, Uint8Array>;
  readonly versions: ReadonlyMap<string, string>;
  readonly counts: Counts;
}

/** Builds every recipe whose tools are here; `isCheck`: compares each with the recorded object. */
function buildAll(folder: string, isCheck: boolean): Built {
  const objects = new Map<string, Uint8Array>();
  const versions = new Map<string, string>();
  const counts: Counts = { identical: 0, alike: 0, leftOut: 0, different: 0 };
  for (const recipe of ALL) {
    const tools = toolsOf(recipe).map((tool) => ({ tool, version: versionOf(tool) }));
    const missing = tools.filter(({ version }) => version === null);
    if (missing.length > 0) {
      counts.leftOut++;
      console.log(`left out: ${recipe.name}: needs ${missing.map(({ tool }) => tool).join(', ')}`);
      continue;
    }
    const bytes = build(recipe, folder);
    objects.set(recipe.name, bytes);
    for (const { tool, version } of tools) versions.set(tool, version ?? '');
    if (!isCheck) continue;
    const recorded = recordedObject(recipe.name);
    const same = recorded !== null && Buffer.compare(bytes, recorded) === 0;
    const other = tools.filter(({ tool, version }) => VERSIONS[tool] !== version);
    const alike = (): boolean =>
      recorded !== null && other.length > 0 && structureOf(bytes, folder) === structureOf(recorded, folder);
    if (same) {
      counts.identical++;
    } else if (alike()) {
      counts.alike++;
      console.log(`alike: ${recipe.name}: built with another ${other.map(({ tool }) => tool).join(', ')}`);
    } else {
      counts.different++;
      console.log(`different: ${recipe.name}`);
    }
  }
  return { objects, versions, counts };
}

/** Says what `--check` found; the exit status. */
function sayChecked(counts: Counts): number {
  for (const name of leftOver()) {
    counts.different++;
    console.log(`left over: ${name}: nothing builds it`);
  }
  console.log(
    `runtime: ${String(counts.identical)} byte for byte, ${String(counts.alike)} alike, ` +
      `${String(counts.leftOut)} left out, ${String(counts.different)} different`,
  );
  const incomplete = process.env['ELFTRACE_REQUIRE_TOOLS'] === '1' && counts.leftOut > 0;
  return counts.different > 0 || incomplete ? 1 : 0;
}

function main(args: readonly string[]): number {
  const mode = args[0];
  const out = args[1];
  if (mode !== '--write' && mode !== '--check' && (mode !== '--out' || out === undefined)) {
    console.error('usage: build-runtime --write | --check | --out DIR');
    return 2;
  }
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-runtime-'));
  try {
    const { objects, versions, counts } = buildAll(folder, mode === '--check');
    if (mode === '--check') return sayChecked(counts);
    if (counts.leftOut > 0) return 1;
    if (mode === '--write') {
      rmSync(folderOfObjects, { recursive: true, force: true });
      writeObjects(folderOfObjects, objects);
      writeFileSync(index, indexOf(objects, versions));
      return 0;
    }
    writeObjects(out ?? '', objects);
    return 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = main(process.argv.slice(2));
}
