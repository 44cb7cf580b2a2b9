/**
 * Instructions of dynamic programs, loader and C library included, against the log that qemu-user
 * writes of each: under the same announced processor, tree and environment, from `main` on every
 * instruction is the same, lazy binding too. Before that a few loops of the loader depend on what
 * is not the program's: how many entries the auxiliary vector has, and where on the stack texts
 * begin, which the C library looks at in pieces of a word or a vector. On x86-64 the loader also
 * reads more of `cpuid` than there are options of qemu for.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { interpreterPath, startProcess } from '../src/guest/index.js';
import { filesBelow } from '../src/output/guest-files.js';
import { load } from '../src/program/program.js';
import { DYNAMIC_TARGETS, type DynamicTarget } from './support/dynamic-targets.js';
import { writeSource } from './support/emulator.js';
import { firstOf, isWhole } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'dynamic-counts-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Prints what the C library computes, then its mappings on standard error. */
const SOURCE = String.raw`
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static char text[65536];
int main(int count, char **arguments) {
  int numbers[64];
  for (int i = 0; i < 64; i++) numbers[i] = (i * 37) % 64;
  qsort(numbers, 64, sizeof *numbers, order);
  for (int i = 0; i < 64; i++) printf("%d%c", numbers[i], i == 63 ? '\n' : ' ');
  printf("%.6f %g %s\n", 3.14159 * count, 1.0 / 3, strrchr("/a/world", '/') + 1);
  char *copy = strdup("to the end");
  printf("%zu %s %ld\n", strlen(copy), strstr(copy, "the"), strtol("77", 0, 8));
  fflush(stdout);
  int maps = open("/proc/self/maps", O_RDONLY), size, all = 0;
  while ((size = read(maps, text + all, sizeof text - all)) > 0) all += size;
  all += sprintf(text + all, "hwcap %lx %lx\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
  write(2, text, all);
  _exit(3);
}
`;
const source = writeSource('dynamic-counts.c', SOURCE);

/** What qemu has to be for the processor that is announced here. */
const CPUS: Readonly<Record<string, string>> = {
  riscv64: 'rv64',
  arm64: 'cortex-a57',
  ppc64le: 'power8',
  'x86-64': 'qemu64,vendor=GenuineIntel',
  ppc32: '750',
  'ppc64-elfv1': '970',
};

/** A tree with the loader and the C library alone, so that both find the same. */
function treeOf({ name, root }: DynamicTarget, loader: string): string {
  const tree = join(folder, `tree-${name}`);
  for (const each of ['lib', 'lib64', 'etc']) mkdirSync(join(tree, each), { recursive: true });
  const from = name === 'x86-64' ? '/lib/x86_64-linux-gnu' : join(root, 'lib');
  copyFileSync(join(from, basename(loader)), join(tree, loader));
  copyFileSync(join(from, 'libc.so.6'), join(tree, 'lib', 'libc.so.6'));
  // In place of that of the host.
  writeFileSync(join(tree, 'etc', 'ld.so.cache'), '');
  return tree;
}

interface Followed {
  /** `file+offset` of each instruction. */
  readonly places: readonly string[];
  readonly hwcap: readonly bigint[];
}

/** Addresses as places in files, by the mappings that the program printed. */
function followed(addresses: readonly number[], said: string): Followed {
  const lines = said.matchAll(/^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s+\S*\/(\S+)$/gm);
  const parts = [...lines].map(([, from, to, offset, file]) => ({
    from: parseInt(from!, 16),
    to: parseInt(to!, 16),
    offset: parseInt(offset!, 16),
    file: basename(file!),
  }));
  const known = new Map<number, string>();
  const placeOf = (address: number): string => {
    const part = parts.find(({ from, to }) => address >= from && address < to);
    if (!part) throw new Error(`${address.toString(16)} is in no file`);
    return `${part.file}+${(address - part.from + part.offset).toString(16)}`;
  };
  const places = addresses.map((address) => {
    const place = known.get(address) ?? placeOf(address);
    known.set(address, place);
    return place;
  });
  const words = /^hwcap (\S+) (\S+)$/m.exec(said)!.slice(1);
  return { places, hwcap: words.map((each) => BigInt(`0x${each}`)) };
}

/** Without restartable sequences, which qemu does not have. */
const ENVIRONMENT = ['GLIBC_TUNABLES=glibc.pthread.rseq=0', 'LD_LIBRARY_PATH=/lib'];

function outside({ name, qemu }: DynamicTarget, tree: string, program: string): Followed {
  const log = join(folder, 'log');
  const command = [qemu, '-L', tree, '-cpu', CPUS[name]!, '-singlestep', '-d', 'exec,nochain', '-D', log, program];
  // Standard output is no pipe, as here; a shell would add to the environment.
  const words = ['-c', 'exec env -i "$@" > /dev/null', 'sh', ...ENVIRONMENT, ...command];
  const { status, stderr } = spawnSync('sh', words, { encoding: 'latin1' });
  expect([status, stderr]).toEqual([3, expect.stringContaining('hwcap')]);
  const lines = readFileSync(log, 'latin1').matchAll(/^Trace .*?\/([0-9a-f]{8,16})\//gm);
  return followed(
    [...lines].map((match) => parseInt(match[1]!, 16)),
    stderr,
  );
}

function inEmulator(tree: string, program: string, [hwcap = 0n, hwcap2 = 0n]: readonly bigint[]): Followed {
  const image = readElf(new Uint8Array(readFileSync(program)));
  const { emulation, abi } = archOf(image.header);
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const files = filesBelow(tree);
  const interpreter = readElf(new Uint8Array(readFileSync(join(tree, interpreterPath(image)!))));
  // qemu announces the platform of these two alone.
  const platform = /^(x86_64|aarch64)$/.exec(emulation.process.platform ?? '')?.[0];
  const told = { ...emulation, process: { ...emulation.process, hwcap, hwcap2, platform } };
  let said = '';
  const onOutput = (descriptor: number, bytes: Uint8Array): void => {
    if (descriptor === 2) said += Buffer.from(bytes).toString('latin1');
  };
  const { machine } = startProcess({
    image,
    emulation: told,
    abi,
    args: [program],
    env: ENVIRONMENT,
    files,
    interpreter,
    onOutput,
  });
  const addresses: number[] = [];
  let isOver = false;
  while (!isOver) {
    addresses.push(Number(machine.pc));
    const { kind } = machine.step();
    isOver = kind !== 'step-limit';
    if (isOver) expect(kind).toBe('exit');
  }
  return followed(addresses, said);
}

/** Where `main` is in the file. */
function mainOf(program: string): string {
  const image = readElf(new Uint8Array(readFileSync(program)));
  const { symbols, functions } = load(image, archOf(image.header));
  const main = Array.from({ length: symbols.count }, (_, i) => i).find((i) => symbols.name(i) === 'main');
  const address = functions.placeOf(main!)!.value;
  const segment = image.segments.find(
    (each) => each.type === 1 && address >= each.address && address < each.address + each.memorySize,
  )!;
  return `${basename(program)}+${(address - segment.address + BigInt(segment.offset)).toString(16)}`;
}

/** How often places were executed on one side only. */
function differing(some: readonly string[], others: readonly string[]): number {
  const counts = new Map<string, number>();
  for (const place of some) counts.set(place, (counts.get(place) ?? 0) + 1);
  for (const place of others) counts.set(place, (counts.get(place) ?? 0) - 1);
  return [...counts.values()].reduce((sum, count) => sum + Math.abs(count), 0);
}

const first = firstOf(DYNAMIC_TARGETS, () => 'all');
for (const target of DYNAMIC_TARGETS) {
  if (!isWhole && !first.has(target)) continue;
  const { gcc } = target;
  describeWith([gcc, target.qemu], `instructions of a dynamic program on ${target.name}`, () => {
    test('are those under qemu, with loader and C library', () => {
      const program = join(folder, `program-${target.name}`);
      runTool(gcc, ['-O2', '-w', '-Wl,-z,lazy', '-o', program, source]);
      const tree = treeOf(target, interpreterPath(readElf(new Uint8Array(readFileSync(program))))!);
      const there = outside(target, tree, program);
      const here = inEmulator(tree, program, there.hwcap);
      const main = mainOf(program);
      const [ours, theirs] = [here, there].map(({ places }) => places.slice(places.indexOf(main)));
      expect(ours!.length).toBeGreaterThan(50_000);
      expect(ours!.findIndex((place, i) => place !== theirs![i])).toBe(-1);
      expect(ours!.length).toBe(theirs!.length);
      // Of 130,000 to 260,000 in all.
      const others = differing(here.places, there.places);
      // Elsewhere the loader has the same work.
      if (target.name !== 'x86-64') expect(others).toBeLessThan(150);
      process.stderr.write(
        `${target.name}: ${here.places.length} and ${there.places.length} instructions, ${others} of them elsewhere\n`,
      );
    });
  });
}
