/**
 * Runs that would not end by themselves: by the clock, whatever the program does, and by Ctrl-C,
 * which leaves nothing behind. And code that writes code, which the compiled tier leaves alone.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { x86_64 } from '../src/arch-x86/index.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import { cliPath } from './support/cli.js';
import { isLong, isWhole } from './support/long.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-ends-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

let serial = 0;
function build(source: string): string {
  const file = join(folder, `program${serial++}`);
  writeFileSync(`${file}.c`, source);
  run('gcc', ['-O1', '-static', '-nostdlib', '-fno-pie', '-no-pie', '-fno-stack-protector', '-o', file, `${file}.c`]);
  return file;
}

const START = `
static long call(long n, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f; long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return r;
}
__asm__(".globl _start\\n_start: and $-16, %rsp\\ncall program\\nhlt\\n");
`;

/** Programs without an end, each in its own way. */
const ENDLESS: readonly (readonly [string, string])[] = [
  ['one instruction', 'void program(void) { __asm__ volatile("1: jmp 1b"); }'],
  [
    'calls',
    'static __attribute__((noinline)) long f(long x) { __asm__ volatile(""); return x + 1; }\nvoid program(void) { for (long x = 0;;) x = f(x); }',
  ],
  [
    'copies of half a gigabyte',
    `void program(void) {
    char *p = (char *)call(9, 0, 0x20000000, 3, 0x22, -1, 0);
    for (;;) { void *d = p + 0x10000000, *s = p; long n = 0x10000000; __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory"); }
  }`,
  ],
  ['system calls', 'void program(void) { for (;;) call(39, 0, 0, 0, 0, 0, 0); }'],
  ['sleep', 'void program(void) { long t[2] = { 1000, 0 }; for (;;) call(35, (long)t, 0, 0, 0, 0, 0); }'],
  ['standard input', 'void program(void) { char c; for (;;) call(0, 0, (long)&c, 1, 0, 0, 0); }'],
];

interface Ended {
  readonly status: number | null;
  readonly signal: string | null;
  readonly stderr: string;
  readonly seconds: number;
}

/**
 * A run whose standard input stays open and gives nothing. `started` is called when it has said
 * something or made a file.
 */
function execute(args: readonly string[], started?: (kill: (signal: NodeJS.Signals) => void) => void): Promise<Ended> {
  return new Promise((resolve) => {
    const begin = performance.now();
    const child = spawn(process.execPath, [cliPath, 'run', ...args], { stdio: ['pipe', 'ignore', 'pipe'] });
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    started?.((signal) => child.kill(signal));
    child.on('close', (status, signal) => {
      resolve({ status, signal, stderr, seconds: (performance.now() - begin) / 1000 });
    });
  });
}

describeWith(['gcc'], 'the clock', () => {
  test.each(ENDLESS)(
    '--timeout ends a program of %s',
    async (name, source) => {
      const file = build(`${START}${source}`);
      // What waits does so in one place.
      const tiers = isWhole || (isLong && !/sleep|input|system/.test(name)) ? ['0', 'auto'] : ['auto'];
      for (const tier of tiers) {
        const { status, stderr, seconds } = await execute([
          '--timeout',
          isLong ? '0.8' : '0.3',
          '--max-instructions',
          'none',
          '--tier',
          tier,
          file,
        ]);
        expect([tier, status]).toEqual([tier, 125]);
        expect(stderr).toContain('stopped by --timeout');
        // Seconds on a busy machine; without the limit it would be for ever.
        expect(seconds).toBeLessThan(15);
      }
    },
    60_000,
  );
});

/** Files beside the outputs of a run: what a run in progress keeps its output in. */
const others = (directory: string): string[] => readdirSync(directory).filter((name) => name.startsWith('.'));

describeWith(['gcc'], 'signals', () => {
  test.each([
    ['SIGINT', 'calls'],
    ['SIGTERM', 'calls'],
    ['SIGINT', 'standard input'],
  ] as const)(
    '%s in a program of %s ends the run, and leaves no file',
    async (signal, name) => {
      const file = build(`${START}${ENDLESS.find(([each]) => each === name)![1]}`);
      const directory = mkdtempSync(join(folder, 'out-'));
      const outputs = ['--trace', join(directory, 'trace'), '--guest-output', join(directory, 'output')];
      let seen = false;
      const ended = await execute(['--max-instructions', 'none', ...outputs, file], (kill) => {
        const timer = setInterval(() => {
          if (others(directory).length < 2) return;
          seen = true;
          clearInterval(timer);
          setTimeout(() => {
            kill(signal);
          }, 300);
        }, 20);
      });
      expect(seen).toBe(true);
      expect([ended.status, ended.signal]).toEqual([null, signal]);
      expect(readdirSync(directory)).toEqual([]);
      expect(existsSync(join(directory, 'trace'))).toBe(false);
    },
    60_000,
  );
});

/** Writes a function again and again and calls it, beside a loop that is worth compiling. */
const WRITER = `${START}
void program(void) {
  unsigned char *code = (unsigned char *)call(9, 0, 4096, 7, 0x22, -1, 0);
  long sum = 0;
  for (int i = 0; i < 10000; i++) {
    code[0] = 0xb8; *(int *)(code + 1) = i; code[5] = 0xc3;
    for (int k = 0; k < 20; k++) sum += ((int (*)(void))code)();
  }
  call(60, sum & 0x7f, 0, 0, 0, 0, 0);
}
`;

describeWith(['gcc'], 'code that writes code', () => {
  test('a page that is written again and again is not compiled again and again', () => {
    const { emulation, abi } = x86_64;
    if (emulation.kind !== 'ir') throw new Error('not executed');
    const image = readElf(new Uint8Array(readFileSync(build(WRITER))));
    const ends = ([0, 'auto', 1] as const).map((tier) => {
      const { machine } = startProcess({ image, abi, emulation, tier, tierUpAfter: 10_000 });
      return { stop: machine.run(), instructions: machine.instructions, counts: machine.compiledCounts };
    });
    for (const each of ends) expect(each).toMatchObject({ stop: ends[0]!.stop, instructions: ends[0]!.instructions });
    for (const { counts } of ends.slice(1)) expect(counts!.compiled).toBeLessThan(40);
  });
});
