/**
 * Objects, executables and shared objects of many machines, made by the compilers that are
 * installed and kept in the temporary folder under a hash of their recipe. Only for tests that
 * compare readers: what the code does is not of interest.
 */
import { createHash } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { spawnSync } from './spawn.js';
import { ALL_SHAPES, shapeName, smallObject } from './elf-builder.js';
import { tool } from './tools.js';

const SOURCE = `
__attribute__((weak)) int shared_value = 3;
static int table[4] = {1, 2, 3, 4};
int *pointer = &table[2];
int big_bss[1000];
extern int elsewhere(int) __attribute__((weak));
static int helper(int x) { return table[x & 3] + shared_value; }
int first(int x) { return helper(x) + (elsewhere ? elsewhere(x) : 0); }
__attribute__((section(".text.cold_part"))) int second(int x) { return first(x) * 7 + *pointer; }
int (*handlers[2])(int) = {first, second};
void _mcount(void) {}
void mcount(void) {}
void __fentry__(void) {}
void __gnu_mcount_nc(void) {}
void _start(void) { big_bss[1] = second(big_bss[0]); for (;;) ; }
`;
/** Vague linkage: makes SHT_GROUP sections. */
const CXX_SOURCE = `
template <class T> struct Box { T value; T twice() { return value + value; } };
inline int inlined(int x) { return x * 3; }
int use(int x) { Box<int> box{x}; Box<long> other{x}; return box.twice() + (int)other.twice() + inlined(x); }
int (*keep)(int) = inlined;
`;

interface Toolchain {
  readonly id: string;
  readonly compiler: string;
  readonly flags: readonly string[];
  /** False: only objects can be made. */
  readonly links: boolean;
  readonly relr?: boolean;
}

const TOOLCHAINS: readonly Toolchain[] = [
  {
    id: 'x86-64',
    compiler: 'x86_64-linux-gnu-gcc',
    flags: ['-pg', '-mfentry', '-mrecord-mcount'],
    links: true,
    relr: true,
  },
  { id: 'i386', compiler: 'x86_64-linux-gnu-gcc', flags: ['-m32', '-pg'], links: true },
  { id: 'ppc32', compiler: 'powerpc-linux-gnu-gcc', flags: ['-pg'], links: true },
  { id: 'ppc64-elfv1', compiler: 'powerpc64-linux-gnu-gcc', flags: ['-pg'], links: true, relr: true },
  {
    id: 'ppc64-elfv2-be',
    compiler: 'powerpc64-linux-gnu-gcc',
    flags: ['-mabi=elfv2', '-pg', '-mprofile-kernel'],
    links: true,
  },
  {
    id: 'ppc64-elfv2-le',
    compiler: 'powerpc64le-linux-gnu-gcc',
    flags: ['-pg', '-mprofile-kernel'],
    links: true,
    relr: true,
  },
  { id: 'riscv64', compiler: 'riscv64-linux-gnu-gcc', flags: ['-fpatchable-function-entry=4'], links: true },
  { id: 'arm64', compiler: 'aarch64-linux-gnu-gcc', flags: ['-fpatchable-function-entry=2'], links: true },
  { id: 'arm', compiler: 'clang-14', flags: ['--target=armv7-linux-gnueabi'], links: false },
  { id: 'armeb', compiler: 'clang-14', flags: ['--target=armebv7-linux-gnueabi'], links: false },
  { id: 's390x', compiler: 'clang-14', flags: ['--target=s390x-linux-gnu'], links: false },
  { id: 'mips', compiler: 'clang-14', flags: ['--target=mips-linux-gnu'], links: false },
  { id: 'riscv32', compiler: 'clang-14', flags: ['--target=riscv32-linux-gnu'], links: false },
];

export interface CompiledFile {
  readonly name: string;
  readonly path: string;
  readonly bytes: Uint8Array;
}

const folder = join(tmpdir(), `elftrace-test-${userInfo().uid}`);

/**
 * What `write` makes in a folder that no other test writes to is at `path` from then on, unless
 * another one was faster: test files are threads of one process. What was there is never replaced,
 * since compilers write names of folders into objects.
 */
function placed(path: string, write: (own: string) => boolean): boolean {
  const own = mkdtempSync(join(folder, 'own-'));
  const made = join(own, basename(path));
  const isMade = write(made);
  try {
    if (isMade) linkSync(made, path);
  } catch (error) {
    if (!existsSync(path)) throw error;
  }
  rmSync(own, { recursive: true });
  return isMade;
}

/**
 * Runs `command` with `{in}` and `{out}` replaced, unless its result is already there. Null when
 * the tool is missing or refuses (an option that this version does not have).
 */
export function make(
  name: string,
  command: readonly string[],
  input: string | Uint8Array,
  extension: string,
): string | null {
  if (tool(command[0]!) === null) return null;
  mkdirSync(folder, { recursive: true });
  const key = createHash('sha256').update(JSON.stringify(command)).update(input).digest('hex').slice(0, 20);
  const out = join(folder, `${name}-${key}`);
  if (existsSync(out)) return out;
  const isMade = placed(out, (own) => {
    const source = `${own}${extension}`;
    writeFileSync(source, input);
    const words = command.slice(1).map((word) => word.replace('{in}', source).replace('{out}', own));
    return spawnSync(command[0]!, words).status === 0 && existsSync(own);
  });
  return isMade ? out : null;
}

/** Puts bytes into a file of the temporary folder, for tools that want a path. */
export function keep(name: string, bytes: Uint8Array): string {
  mkdirSync(folder, { recursive: true });
  const key = createHash('sha256').update(bytes).digest('hex').slice(0, 20);
  const path = join(folder, `${name.replace(/\W+/g, '-')}-${key}`);
  if (existsSync(path)) return path;
  placed(path, (own) => {
    writeFileSync(own, bytes);
    return true;
  });
  return path;
}

/**
 * One built object of each class and byte order, and every file that the installed toolchains make
 * of the sources.
 */
export function compiledFiles(): readonly CompiledFile[] {
  const files: CompiledFile[] = ALL_SHAPES.map((shape) => {
    const name = `built ${shapeName(shape)}`;
    const bytes = smallObject(shape, shape.is64 ? 62 : 3);
    return { name, bytes, path: keep(name, bytes) };
  });
  const take = (name: string, path: string | null): Uint8Array | null => {
    if (path === null) return null;
    const bytes = new Uint8Array(readFileSync(path));
    files.push({ name, path, bytes });
    return bytes;
  };
  for (const { id, compiler, flags, links, relr } of TOOLCHAINS) {
    const common = [...flags, '-O1', '-ffreestanding', '-fno-stack-protector', '-w'];
    const compile = (form: string, extra: readonly string[]): Uint8Array | null =>
      take(
        `${id} ${form}`,
        make(`${id}-${form}`, [compiler, ...common, ...extra, '{in}', '-o', '{out}'], SOURCE, '.c'),
      );
    compile('object', ['-c', '-g']);
    if (!links) continue;
    const bare = ['-nostdlib', '-Wl,--build-id=sha1'];
    compile('static', [...bare, '-static', '-no-pie']);
    compile('emit-relocs', [...bare, '-static', '-no-pie', '-Wl,-q']);
    const pie = compile('pie', [...bare, '-fPIE', '-pie']);
    const shared = compile('shared', [...bare, '-fPIC', '-shared']);
    compile('gnu-hash', [...bare, '-fPIC', '-shared', '-Wl,--hash-style=gnu']);
    compile('partial', ['-nostdlib', '-r']);
    const packed = relr === true ? compile('relr', [...bare, '-fPIE', '-pie', '-Wl,-z,pack-relative-relocs']) : null;
    for (const [form, bytes] of [
      ['pie', pie],
      ['shared', shared],
      ['relr', packed],
    ] as const) {
      if (bytes === null) continue;
      const strip = ['llvm-strip-14', '--strip-sections', '{in}', '-o', '{out}'];
      take(`${id} ${form} without sections`, make(`${id}-${form}-nosections`, strip, bytes, '.elf'));
    }
  }
  for (const compiler of ['x86_64-linux-gnu-g++', 'clang++-14']) {
    const command = [compiler, '-O0', '-c', '-ffunction-sections', '{in}', '-o', '{out}'];
    take(`${compiler} groups`, make(`${compiler}-groups`, command, CXX_SOURCE, '.cc'));
  }
  return files;
}
