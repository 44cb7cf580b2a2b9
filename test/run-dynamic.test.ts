/**
 * `elftrace run` on programs as compilers link them: PT_INTERP, the C library of a tree, libraries
 * bound lazily and at once. Output and exit status are those of qemu-user.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { interpreterPath, startProcess } from '../src/guest/index.js';
import { readElf } from '../src/elf/read.js';
import { archOf } from '../src/arches.js';
import { writeSource } from './support/emulator.js';
import { isWhole, sampled } from './support/long.js';
import { run } from './support/run.js';
import { DYNAMIC_TARGETS, type DynamicTarget } from './support/dynamic-targets.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'run-dynamic-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** A constructor, globals of the library, calls through the table, a pointer to a function. */
const HELLO = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int ready;
__attribute__((constructor)) static void prepare(void) { ready = 7; }
int main(int argc, char **argv) {
  int numbers[] = {5, 3, 9, 1, 7};
  size_t (*volatile length)(const char *) = strlen;
  qsort(numbers, 5, sizeof *numbers, order);
  printf("hello %s, %d arguments, ready %d\\n", strrchr("/a/world", '/') + 1, argc, ready);
  for (int i = 0; i < 5; i++) printf("%d%c", numbers[i], i == 4 ? '\\n' : ' ');
  char *text = malloc(length(argv[0] + strlen(argv[0])) + 100);
  strcpy(text, "heap");
  fprintf(stdout, "%s %s\\n", text, getenv("WHO") ? getenv("WHO") : "nobody");
  printf("%.6f %g\\n", 3.14159265 * argc, 1.0 / 3 * argc);
  fputs("to the end\\n", stderr);
  return 40 + argc;
}
`;
const source = writeSource('dynamic-hello.c', HELLO);

const LINKS = {
  pie: ['-pie', '-fPIE'],
  'no-pie': ['-no-pie', '-fno-pie'],
  now: ['-pie', '-fPIE', '-Wl,-z,now'],
  static: ['-static'],
} as const;

function build({ name, gcc }: DynamicTarget, link: keyof typeof LINKS): string {
  const path = join(folder, `hello-${name}-${link}`);
  runTool(gcc, ['-O2', ...LINKS[link], '-o', path, source]);
  return path;
}

for (const target of sampled(DYNAMIC_TARGETS, 2)) {
  const { name, gcc, qemu, root } = target;
  describeWith([gcc, qemu], `programs of ${name} with their C library`, () => {
    // How a program is linked is the same on all machines: on the others the usual way.
    const isAll = isWhole || target === DYNAMIC_TARGETS[0];
    const links = (Object.keys(LINKS) as (keyof typeof LINKS)[]).filter((link) => isAll || link === 'pie');
    test.each(links)('%s: as under qemu', (link) => {
      const path = build(target, link);
      const wanted = spawnSync(qemu, ['-L', root, '-E', 'WHO=me', path, 'x', 'y'], { encoding: 'utf8' });
      expect(wanted.status).toBe(43);
      // A loader that is compiled whole takes seconds: on one machine.
      const compiled = name === 'riscv64' ? ['1'] : [];
      for (const tier of link === 'pie' && isAll ? ['auto', '0', ...compiled] : ['auto']) {
        const here = run(['--tier', tier, '--root', root, '--env', 'WHO=me', path, 'x', 'y']);
        expect(here).toMatchObject({ status: 43, stdout: wanted.stdout, stderr: wanted.stderr });
      }
    });
  });
}

describeWith(['riscv64-linux-gnu-gcc', 'powerpc-linux-gnu-gcc'], 'what a dynamic program needs', () => {
  const [riscv] = DYNAMIC_TARGETS;
  const path = build(riscv!, 'pie');
  const loader = interpreterPath(readElf(readFileSync(path)))!;

  test('without a tree it is refused, with the name of its loader', () => {
    const { status, stderr } = run([path]);
    expect(status).toBe(125);
    expect(stderr).toContain(`--root DIR names the tree with its loader ${loader}`);
    expect(stderr).toContain('[unsupported-form]');
  });

  test('a tree without the loader, with one for another machine, with one that is a program', () => {
    const tree = join(folder, 'tree');
    mkdirSync(join(tree, 'lib'), { recursive: true });
    const refusal = (): string => {
      const { status, stdout, stderr } = run(['--root', tree, path]);
      expect({ status, stdout }).toEqual({ status: 125, stdout: '' });
      return stderr;
    };
    expect(refusal()).toContain(`the program's loader ${loader} is not in the tree of --root (ENOENT)`);
    copyFileSync('/usr/powerpc-linux-gnu/lib/ld.so.1', join(tree, 'lib', basename(loader)));
    expect(refusal()).toContain(`the program's loader ${loader} is for another machine`);
    copyFileSync(path, join(tree, 'lib', basename(loader)));
    expect(refusal()).toContain('the dynamic loader is no shared object for the program');
    writeFileSync(join(tree, 'lib', basename(loader)), 'nothing');
    expect(refusal()).toContain('[');
  });

  test('a path without an end is none', () => {
    const image = readElf(readFileSync(path));
    const segment = image.segments.find(({ type }) => type === 3)!;
    image.bytes[segment.offset + segment.fileSize - 1] = 0x41;
    expect(() => interpreterPath(image)).toThrow('PT_INTERP names no dynamic loader');
    const { abi, emulation } = archOf(image.header);
    if (emulation.kind !== 'ir') throw new Error('no emulation');
    expect(() => startProcess({ image, abi, emulation })).toThrow('PT_INTERP names no dynamic loader');
  });
});
