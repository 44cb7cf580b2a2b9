/**
 * What a process finds and may ask for: held against qemu-user, and against the numbers and
 * structures of the C headers.
 */
import { spawnSync } from './support/spawn.js';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { filesBelow } from '../src/output/guest-files.js';
import { readElf } from '../src/elf/read.js';
import { archOf } from '../src/arches.js';
import { startProcess } from '../src/guest/index.js';
import type { StopReason } from '../src/emulator/index.js';
import type { FileSystem, ProcessOptions } from '../src/guest/index.js';
import { ElftraceError } from '../src/errors.js';
import { buildPpc, ppcGcc, ppcQemu, PROGRAMS, writeSource } from './support/emulator.js';
import type { PpcKind } from './support/emulator.js';
import { readSample } from './support/pipeline.js';
import { describeWith } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'process-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface Ended {
  readonly stop: StopReason;
  readonly output: string;
}

type Options = Partial<Pick<ProcessOptions, 'args' | 'env' | 'files' | 'onInput'>>;

function start(bytes: Uint8Array, options: Options = {}): Ended {
  const image = readElf(bytes);
  const arch = archOf(image.header);
  if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
  let output = '';
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    ...options,
    onOutput: (_, data) => {
      output += Buffer.from(data).toString('latin1');
    },
  });
  return { stop: guest.run({ budget: 50_000_000 }), output };
}

const startFile = (path: string, options: Options = {}): Ended => start(new Uint8Array(readFileSync(path)), options);

function build(kind: PpcKind, name: string, source: string, flags: readonly string[] = []): string {
  const numbers = kind === '32' ? ['-DSTAT64', '-DBITS=32'] : ['-DBITS=64'];
  const file = writeSource(`${name}.c`, `#include "lib.h"\n${source}`);
  return buildPpc(kind, '1', [join(PROGRAMS, 'start.S'), file], ['-I', PROGRAMS, ...numbers, ...flags]);
}

/** Prints what the kernel left on the stack; addresses only as far as they are facts. */
const ECHO = `
static void text(const char *name, const char *s) {
  word n = 0;
  while (s[n]) n++;
  sys(4, 1L, name, 4L);
  sys(4, 1L, s, n);
  sys(4, 1L, "\\n", 1L);
}
int main(int argc, char **argv, char **envp) {
  for (int i = 0; i < argc; i++) text("arg ", argv[i]);
  line("end", argv[argc] == 0);
  flush();
  char **e = envp;
  for (; *e; e++) text("env ", *e);
  line("after argv", e >= argv + argc + 1);
  line("sp", (word)(argv - 1) % 16);
  for (word *a = (word *)(e + 1); a[0]; a += 2) {
    if (a[0] == 4) line("phent", a[1]);
    if (a[0] == 6) line("pagesz", a[1]);
    if (a[0] == 7) line("base", a[1]);
    if (a[0] == 8) line("flags", a[1]);
    if (a[0] == 17) line("clktck", a[1]);
    if (a[0] == 19) line("dcache", a[1]);
    if (a[0] == 23) line("secure", a[1]);
    if (a[0] == 25) line("random", *(u8 *)a[1] >= 0);
    if (a[0] == 31) text("exe ", (char *)a[1]);
    if (a[0] == 3) line("elf", *(u32 *)(a[1] - a[1] % 4096));
  }
  flush();
  return argc;
}
`;

for (const kind of ['32', 'be', 'le'] as const) {
  describeWith([ppcGcc(kind), ppcQemu(kind)], `start on ${kind}`, () => {
    test('argv, envp and the auxiliary vector are those of qemu-user', () => {
      const path = build(kind, 'echo', ECHO);
      const args = ['one', '', 'three words are here'];
      const there = spawnSync(ppcQemu(kind), [path, ...args], { env: { NAME: 'value', EMPTY: '' } });
      const here = startFile(path, { args: [path, ...args], env: ['NAME=value', 'EMPTY='] });
      // The order of the environment is the starter's business.
      const sorted = (text: string): string[] => text.split('\n').sort();
      expect(sorted(here.output)).toEqual(sorted(there.stdout.toString('latin1')));
      expect(here.stop).toEqual({ kind: 'exit', code: there.status });
      expect(startFile(path).output).not.toContain('env');
    });
  });
}

/** Every call of which the answer is a fact, printed as numbers. */
const CALLS = `
#define ANSWER(name, ...) line(name, (u32)sys(__VA_ARGS__))
static const char hello[] = "/dir/hello.txt";
static u8 space[4096];
int main(int argc, char **argv) {
  (void)argc; (void)argv;
  ANSWER("missing", 5, "/dir/none", 0L);
  ANSWER("through a file", 5, "/dir/hello.txt/none", 0L);
  long fd = sys(5, hello, 0L);
  line("open", (u32)fd);
  ANSWER("read", 3, fd, space, 5L);
  line("H", space[0]);
  ANSWER("seek", 19, fd, 7L, 0L);
  ANSWER("seek back", 19, fd, -2L, 1L);
  ANSWER("read on", 3, fd, space, 100L);
  line("byte", space[0]);
  ANSWER("end", 3, fd, space, 100L);
  ANSWER("seek end", 19, fd, 0L, 2L);
  ANSWER("seek bad", 19, fd, 0L, 9L);
  ANSWER("whence of a stream", 19, 77L, 0L, 0L);
  if (BITS == 32) ANSWER("pread", 179, fd, space, 4L, 0L, 0L, 3L);
  else ANSWER("pread", 179, fd, space, 4L, 3L);
  line("pread byte", space[0]);
#ifdef STAT64
  ANSWER("fstat", 197, fd, space);
#else
  ANSWER("fstat", 108, fd, space);
#endif
  line("size", *(u64 *)(space + 48));
  line("mode", *(u32 *)(space + (BITS == 32 ? 16 : 24)));
  ANSWER("statx", 383, fd, "", 0x1000L, 0x7ffL, space);
  line("statx size", *(u64 *)(space + 40));
  line("statx mode", *(u16 *)(space + 28));
  ANSWER("close", 6, fd);
  ANSWER("closed", 6, fd);
  ANSWER("readlink", 85, "/link", space, 100L);
  line("text", space[0]);
  ANSWER("no link", 85, hello, space, 100L);
  fd = sys(5, "/link", 0L);
  line("by link", (u32)fd);
  ANSWER("close", 6, fd);
  fd = sys(286, -100L, "dir", 040000L);
  line("dir", (u32)fd);
  ANSWER("read dir", 3, fd, space, 10L);
  long file = sys(286, fd, "hello.txt", 0L);
  line("openat", (u32)file);
  ANSWER("not a directory", 286, file, "x", 0L);
  ANSWER("O_DIRECTORY", 5, hello, 040000L);
  ANSWER("O_NOFOLLOW", 5, "/link", 0100000L);
  ANSWER("access", 33, hello, 4L);
  ANSWER("access none", 33, "/none", 0L);
  ANSWER("getcwd short", 182, space, 1L);
  ANSWER("fcntl", 55, 99L, 3L);
  ANSWER("ioctl", 54, 99L, 0x402c7413L, space);
  ANSWER("kill nobody", 37, 4242424L, 0L);
  ANSWER("kill 0", 37, sys(20), 0L);
  ANSWER("bad signal", 37, sys(20), 99L);
  ANSWER("gettid", 207) ;
  ANSWER("yield", 158);
  ANSWER("wake", 221, space, 1L, 1L, 0L);
  ANSWER("again", 221, space, 0L, 12345L, 0L);
  ANSWER("writev", 146, 1L, space, 2000L);
  ANSWER("sigprocmask", 174, 9L, space, 0L, 8L);
  ANSWER("sigprocmask size", 174, 0L, 0L, 0L, 3L);
  ANSWER("sigaction", 173, 9L, space, 0L, 8L);
  ANSWER("sigaction 0", 173, 0L, space, 0L, 8L);
  ANSWER("uname", 122, space);
  line("Linux", *(u32 *)space);
  flush();
  return 0;
}
`;

/** A tree that both see: here as --root, for qemu-user in chroot-like paths below the folder. */
function tree(): string {
  const root = mkdtempSync(join(folder, 'root-'));
  mkdirSync(join(root, 'dir'));
  writeFileSync(join(root, 'dir', 'hello.txt'), 'Hello, world\n');
  symlinkSync('dir/hello.txt', join(root, 'link'));
  return root;
}

for (const kind of ['32', 'be', 'le'] as const) {
  describeWith([ppcGcc(kind), ppcQemu(kind)], `calls on ${kind}`, () => {
    test('answers are those of qemu-user', () => {
      const root = tree();
      // qemu-user has no root of its own: the same program with the paths of the host.
      const source = CALLS.replaceAll('"/', `"${root}/`);
      const there = spawnSync(ppcQemu(kind), [build(kind, 'calls', source)], { cwd: root, env: {} });
      const here = startFile(build(kind, 'calls', CALLS), { files: filesBelow(root) });
      const lines = (text: string): string[] => text.split('\n').filter((each) => !/^gettid/.test(each));
      expect(here.stop).toEqual({ kind: 'exit', code: 0 });
      expect(lines(here.output)).toEqual(lines(there.stdout.toString('latin1')));
      expect(lines(here.output).length).toBeGreaterThan(45);
    });
  });
}

const OTHER = `
int main(int argc, char **argv) {
  if (argc < 2) return 1;
  long pid = sys(20);
  word old[2] = {0, 0}, set[2] = {~0UL, ~0UL};
  word action[5] = {1, 0, 0, 0, 0};
  switch (argv[1][0]) {
  case 'a': sys(250, pid, sys(207), 6L); return 2;
  case 'k': sys(37, pid, 9L); return 2;
  case 'c': sys(37, pid, 17L); return 3;
  case 'i': sys(173, 15L, action, 0L, 8L); sys(37, pid, 15L); return 4;
  case 'h': action[0] = 0x1234; sys(173, 15L, action, 0L, 8L); sys(37, pid, 15L); return 5;
  case 'b':
    sys(174, 0L, set, 0L, 8L); sys(37, pid, 15L); line("pending", 1); flush();
    sys(174, 2L, old, 0L, 8L); return 6;
  case 'f': sys(221, old, 0L, 0L, 0L); return 7;
  case 'd': { word t[2] = {5, 7}; sys(162, t, 0L); sys(246, 1L, t); line("slept", t[0]); flush(); return 8; }
  case 'r': {
    u8 bytes[20]; long n;
    while ((n = sys(3, 0L, bytes, 20L)) > 0) sys(4, 1L, bytes, n);
    return 9;
  }
  case 'w':
    line("creat", (u32)sys(5, "/new", 0101L, 0644L));
    line("write", (u32)sys(5, "/dir/hello.txt", 1L));
    line("unlink", (u32)sys(10, "/dir/hello.txt"));
    flush();
    return 10;
  case 'l': {
    static u8 list[2000];
    long fd = sys(5, "/", 0L), n = sys(202, fd, list, 2000L);
    for (long at = 0; at < n; at += *(u16 *)(list + at + 16)) {
      long size = 0;
      while (list[at + 19 + size]) size++;
      sys(4, 1L, list + at + 19, size);
      sys(4, 1L, " ", 1L);
    }
    line("more", (u32)sys(202, fd, list, 2000L));
    flush();
    return 11;
  }
  case 'm': {
    long fd = sys(5, "/dir/hello.txt", 0L);
    u8 *p = (u8 *)sys(BITS == 32 ? 192 : 90, 0L, 100L, 1L, 2L, fd, 0L);
    sys(4, 1L, p, 12L);
    return p[50];
  }
  }
  return 12;
}
`;

describeWith([ppcGcc('le'), ppcGcc('32')], 'signals, files, time', () => {
  for (const kind of ['le', '32'] as const) {
    test(`on ${kind}`, () => {
      const path = build(kind, 'other', OTHER);
      const of = (letter: string, options: Options = {}): Ended => startFile(path, { args: ['p', letter], ...options });
      expect(of('a').stop).toMatchObject({ kind: 'signal', signal: 6 });
      expect(of('k').stop).toMatchObject({ kind: 'signal', signal: 9 });
      expect(of('c').stop).toEqual({ kind: 'exit', code: 3 });
      expect(of('i').stop).toEqual({ kind: 'exit', code: 4 });
      // Its handler is nowhere.
      expect(of('h').stop).toMatchObject({ kind: 'fault', address: 0x1234n, access: 'execute' });
      const blocked = of('b');
      expect(blocked.stop).toMatchObject({ kind: 'signal', signal: 15 });
      expect(blocked.output).toContain('pending');
      // Nobody can wake the only thread.
      expect(of('f').stop).toMatchObject({ kind: 'deadlock', threads: [{ thread: 1000 }] });
      expect(of('d').output).toMatch(/^slept\s+5/);
      const pieces = ['first ', 'second'];
      const input = (): Uint8Array => new TextEncoder().encode(pieces.shift() ?? '');
      expect(of('r', { onInput: input })).toEqual({ stop: { kind: 'exit', code: 9 }, output: 'first second' });
      expect(of('r').output).toBe('');
      const files = filesBelow(tree());
      const refused = of('w', { files }).output;
      for (const word of ['creat', 'write', 'unlink']) expect(refused).toContain(`${word} ffffffe2`);
      expect(of('l', { files })).toMatchObject({
        stop: { code: 11 },
        output: expect.stringMatching(/^\. \.\. dir link more/),
      });
      expect(of('m', { files })).toEqual({ stop: { kind: 'exit', code: 0 }, output: 'Hello, world' });
    });
  }
});

describe('--root', () => {
  const base = mkdtempSync(join(folder, 'jail-'));
  const root = join(base, 'root');
  mkdirSync(join(root, 'a', 'b'), { recursive: true });
  mkdirSync(join(base, 'root-beside'));
  writeFileSync(join(base, 'secret'), 'secret');
  writeFileSync(join(base, 'root-beside', 'secret'), 'secret');
  writeFileSync(join(root, 'secret'), 'inside');
  writeFileSync(join(root, 'a', 'file'), 'file');
  symlinkSync('../secret', join(root, 'out'));
  symlinkSync('../../../../../../../../../../etc/passwd', join(root, 'a', 'far'));
  symlinkSync(join(base, 'secret'), join(root, 'absolute'));
  symlinkSync('..', join(root, 'up'));
  symlinkSync('../..', join(root, 'a', 'b', 'up'));
  symlinkSync('/a/file', join(root, 'rooted'));
  symlinkSync('loop', join(root, 'loop'));
  symlinkSync('/proc/self/root', join(root, 'host'));
  const files: FileSystem = filesBelow(root);
  const contents = (path: string): string => {
    const file = files.open(path);
    return typeof file === 'string' ? file : new TextDecoder().decode(file.read(0, 100));
  };

  test.each([
    ['/secret', 'inside'],
    ['/../secret', 'inside'],
    ['/../../../../secret', 'inside'],
    ['/a/../../secret', 'inside'],
    ['/a/b/../../../secret', 'inside'],
    ['/out', 'inside'],
    ['/up/secret', 'inside'],
    ['/up/up/up/secret', 'inside'],
    ['/a/b/up/secret', 'inside'],
    ['/../root-beside/secret', 'ENOENT'],
    ['/up/root-beside/secret', 'ENOENT'],
    ['/a/far', 'ENOENT'],
    ['/absolute', 'ENOENT'],
    ['/host/etc/passwd', 'ENOENT'],
    ['/rooted', 'file'],
    ['/loop', 'ELOOP'],
    ['/loop/x', 'ELOOP'],
    ['/a/file/..', 'ENOTDIR'],
    ['/a/file/../file', 'ENOTDIR'],
    ['/a', 'EISDIR'],
    ['/', 'EISDIR'],
    ['/..', 'EISDIR'],
    [`/${'x'.repeat(5000)}`, 'ENAMETOOLONG'],
    ['/a\0b', 'ENOENT'],
  ])('%s is %s', (path, expected) => {
    expect(contents(path)).toBe(expected);
  });

  test('links are read and not followed; directories are listed', () => {
    expect(files.readLink('/out')).toEqual({ text: '../secret' });
    expect(files.readLink('/secret')).toBe('EINVAL');
    expect(files.status('/out', false)).toMatchObject({ kind: 'link' });
    expect(files.status('/out', true)).toMatchObject({ kind: 'file', sizeBytes: 6 });
    expect(files.list('/a')).toEqual(['b', 'far', 'file']);
    expect(files.list('/../..')).toEqual(files.list('/'));
    expect(files.list('/secret')).toBe('ENOTDIR');
  });

  test('what is neither file nor directory is not served', async () => {
    const server = createServer();
    await new Promise<void>((done) => server.listen(join(root, 'socket'), done));
    expect(contents('/socket')).toBe('EACCES');
    expect(files.status('/socket', true)).toBe('EACCES');
    await new Promise((done) => server.close(done));
  });

  test('a root that is no directory is refused', () => {
    expect(() => filesBelow(join(root, 'none'))).toThrow(ElftraceError);
    expect(() => filesBelow(join(root, 'secret'))).toThrow(ElftraceError);
  });
});

describe('position-independent programs', () => {
  test('a static PIE relocates itself at its bias; a shared object without a start is refused', () => {
    const bytes = readSample('ppc64-elfv2-le/pie-mprofile');
    const here = start(bytes);
    expect(here.stop).toEqual({ kind: 'exit', code: 0 });
    expect(here.output).toContain('trace=49\n');
    const entry = 0x18;
    const without = bytes.slice();
    without.fill(0, entry, entry + 8);
    expect(() => start(without)).toThrow(/shared object has no start/);
  });
});

describeWith([ppcGcc('be'), ppcGcc('32')], 'a C library', () => {
  test.each(['be', '32'] as const)('a static hello of glibc runs on %s, where it needs no floating point', (kind) => {
    const source = writeSource(
      'hello.c',
      `#include <stdio.h>
       #include <stdlib.h>
       #include <string.h>
       static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
       int main(int argc, char **argv, char **envp) {
         int v[] = {5, 3, 9, 1, 7};
         qsort(v, 5, sizeof v[0], order);
         for (int i = 0; i < 5; i++) printf("%d ", v[i]);
         char *p = malloc(100000);
         memset(p, 'x', 99999);
         p[99999] = 0;
         printf("%zu %s %s\\n", strlen(p), argv[argc - 1], *envp);
         char text[20] = "";
         FILE *f = fopen("/dir/hello.txt", "r");
         if (f && fgets(text, sizeof text, f)) fputs(text, stdout);
         fflush(stdout);
         if (argc > 2) abort();
         return 7;
       }`,
    );
    const path = join(folder, `hello-${kind}`);
    const made = spawnSync(ppcGcc(kind), ['-O2', '-static', '-o', path, source], { encoding: 'utf8' });
    if (made.status !== 0) {
      process.stderr.write(`no static C library for ${ppcGcc(kind)}: hello not run\n`);
      return;
    }
    const files = filesBelow(tree());
    const here = startFile(path, { args: ['hello', 'last'], env: ['A=B'], files });
    expect(here).toEqual({ stop: { kind: 'exit', code: 7 }, output: '1 3 5 7 9 99999 last A=B\nHello, world\n' });
    expect(startFile(path, { args: ['hello', 'x', 'y'], env: ['A=B'] }).stop).toMatchObject({
      kind: 'signal',
      signal: 6,
    });
  });
});
