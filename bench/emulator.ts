/**
 * The emulator's part of `npm run bench`: both tiers in guest instructions per CPU second,
 * translation included and Node's start excluded, and as ratios to qemu-user on the same program,
 * pair by pair; what hooks and patches of hot code cost with the compiled tier, and the memory of
 * translated functions; time from import to a ready machine.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import type { Process } from '../src/guest/index.js';
import { childSeconds } from './cpu.js';
import { type BenchMachine, compileFor, MACHINES } from './machines.js';

export interface EmulatorBench {
  readonly root: string;
  readonly folder: string;
  readonly runs: number;
  /**
   * Machines, programs and tiers (`0`, `auto`) that are measured; those not named are left out.
   * Empty: everything.
   */
  readonly only: readonly string[];
  readonly hasTool: (name: string) => boolean;
  readonly spread: (values: readonly number[], digits?: number) => string;
}

/** CPU seconds, user and system, of this process so far. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function start(path: string, tier: 0 | 'auto', onOutput: (bytes: Uint8Array) => void): Process {
  const image = readElf(new Uint8Array(readFileSync(path)));
  const { abi, emulation } = archOf(image.header);
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  return startProcess({
    image,
    abi,
    emulation,
    tier,
    onOutput: (_descriptor, bytes) => {
      onOutput(bytes);
    },
  });
}

function runHere(path: string, tier: 0 | 'auto'): { seconds: number; instructions: number; output: string } {
  let output = '';
  const begin = cpuSeconds();
  const guest = start(path, tier, (bytes) => {
    output += new TextDecoder().decode(bytes);
  });
  const stop = guest.run();
  const seconds = cpuSeconds() - begin;
  if (stop.kind !== 'exit') throw new Error(`${path} stopped: ${stop.kind}`);
  return { seconds, instructions: guest.machine.instructions, output };
}

/**
 * The programs of loops.c, with how much longer than the shortest useful run the compiled tier runs
 * them; tier 0 a third of that.
 */
const PROGRAMS = { SIEVE: 6, CRC: 6, SHA256: 18, CALLS: 6, QUICKSORT: 6, SWITCH: 6, MIXED: 6 } as const;

/** A program of integers only, for one machine. */
function build(machine: BenchMachine, options: EmulatorBench, flags: readonly string[], source: string): string {
  const output = join(options.folder, [machine.name, ...flags].join('').replace(/\W/g, '-'));
  compileFor(machine, {
    programs: join(options.root, 'test', 'programs'),
    source,
    output,
    flags: ['-O2', ...machine.integers, ...flags],
  });
  return output;
}

/** True when `name` is one of those wanted, or none of its kind is. */
function isWanted(name: string, kind: readonly string[], { only }: EmulatorBench): boolean {
  return only.includes(name) || !only.some((each) => kind.includes(each));
}

function benchMachine(machine: BenchMachine, options: EmulatorBench): void {
  const { root, runs, hasTool, spread } = options;
  const { name, compiler } = machine;
  if (!hasTool(compiler)) {
    console.log(`emulator loops on ${name}: not measured, ${compiler} is absent`);
    return;
  }
  const qemu = hasTool(machine.qemu);
  const loops = join(root, 'bench', 'loops.c');
  for (const [program, scale] of Object.entries(PROGRAMS)) {
    if (!isWanted(program, Object.keys(PROGRAMS), options)) continue;
    for (const tier of [0, 'auto'] as const) {
      if (!isWanted(String(tier), ['0', 'auto'], options)) continue;
      const path = build(machine, options, [`-D${program}`, `-DSCALE=${tier === 0 ? scale / 3 : scale}`], loops);
      const rates: number[] = [];
      const ratios: number[] = [];
      const [least, leastThere]: [number[], number[]] = [[], []];
      let instructions = 0;
      for (let i = 0; i < runs; i++) {
        const here = runHere(path, tier);
        instructions = here.instructions;
        rates.push(here.instructions / here.seconds / 1e9);
        least.push(here.seconds);
        if (!qemu) continue;
        const there = childSeconds(machine.qemu, [path]);
        if (there.output !== here.output)
          throw new Error(`${program}: ${here.output} here, ${there.output} under qemu`);
        ratios.push(there.seconds / here.seconds);
        leastThere.push(there.seconds);
      }
      // Who else runs on the processor makes both slower, not always alike: the least times of both
      // are compared too.
      const best = (Math.min(...leastThere) / Math.min(...least)).toFixed(2);
      const ratio = qemu ? `; ${spread(ratios, 2)} times the speed of ${machine.qemu}, least times ${best}` : '';
      const count = `${(instructions / 1e6).toFixed(0)} M instructions`;
      const which = tier === 0 ? 'tier 0' : 'tiers 0 and 1';
      console.log(`${which}, ${name}, ${program}, ${count}: ${spread(rates, 2)} G/s${ratio}`);
    }
  }
}

/** Address of a function of a program. */
function addressOf(path: string, name: string): bigint {
  const line = spawnSync('nm', [path], { encoding: 'utf8' })
    .stdout.split('\n')
    .find((each) => each.endsWith(` ${name}`));
  if (line === undefined) throw new Error(`${path} has no ${name}`);
  return BigInt(`0x${line.split(' ')[0]!}`);
}

/** A hook on a hot function, and patching one: the calls loop of x86-64, compiled. */
function benchHot(options: EmulatorBench): void {
  const { root, hasTool, spread } = options;
  const machine = MACHINES.find((each) => each.name === 'x86-64')!;
  if (!hasTool(machine.compiler) || !hasTool('nm')) return;
  const path = build(machine, options, ['-DCALLS', '-DSCALE=6'], join(root, 'bench', 'loops.c'));
  const guest = start(path, 'auto', () => undefined).machine;
  const traced = addressOf(path, 'traced');
  const timed = (): number => {
    const begin = cpuSeconds();
    guest.run({ budget: 40_000_000 });
    return cpuSeconds() - begin;
  };
  guest.run({ budget: 200_000_000 });
  const plain = timed();
  let events = 0;
  const off = guest.hook(traced, () => {
    events++;
    return 'continue';
  });
  timed();
  events = 0;
  const hooked = timed();
  console.log(`a hook on a hot function: ${(((hooked - plain) / events) * 1e6).toFixed(2)} us an event of ${events}`);
  off();
  const [resumed, again, spent]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i < 31; i++) {
    // At another place of the loop each time.
    guest.run({ budget: 3_000_000 + 7919 * i });
    // Every other byte sequence is new, as when tracing is switched on and off.
    const bytes = guest.memory.read(traced, 1)!;
    const before = guest.compiledCounts?.compiled;
    const cpu = cpuSeconds();
    const begin = performance.now();
    guest.memory.write(traced, bytes);
    guest.run({ budget: 1000 });
    resumed.push(performance.now() - begin);
    while (guest.compiledCounts?.compiled === before) guest.run({ budget: 1000 });
    // The function is executed some 20 times in these.
    guest.run({ budget: 1000 });
    again.push(performance.now() - begin);
    spent.push((cpuSeconds() - cpu) * 1e3);
  }
  const quarter = [...again].sort((a, b) => a - b)[again.length >> 2]!;
  console.log(
    `a store to a hot function: the next 1,000 instructions done after ${spread(resumed, 2)} ms, compiled again and executed after ` +
      `${spread(again, 2)} ms (a quarter of them after ${quarter.toFixed(2)} at most); CPU, with what V8 compiles beside it: ${spread(spent, 2)} ms`,
  );
}

/**
 * A program that writes a function anew before each twenty calls of it: such code stays with tier
 * 0, so both tiers together should take the time of tier 0 alone. Pair by pair.
 */
function benchRewritten(options: EmulatorBench): void {
  const { folder, runs, hasTool, spread } = options;
  const machine = MACHINES.find((each) => each.name === 'x86-64')!;
  if (!hasTool(machine.compiler)) return;
  const source = join(folder, 'rewritten.c');
  writeFileSync(
    source,
    `#include "lib.h"
static unsigned char code[4096] __attribute__((aligned(4096)));
int main(void) {
  register long number __asm__("rax") = 10;
  __asm__ volatile("syscall" : "+r"(number) : "D"(code), "S"(4096), "d"(7) : "rcx", "r11", "memory");
  u32 sum = 0;
  for (u32 i = 0; i < 300000; i++) {
    code[0] = 0xb8; *(u32 *)(code + 1) = i; code[5] = 0xc3;
    for (int k = 0; k < 20; k++) sum += ((u32 (*)(void))code)();
  }
  line("sum", sum);
  flush();
  return 0;
}\n`,
  );
  const path = build(machine, options, ['-DREWRITTEN'], source);
  const ratios: number[] = [];
  for (let i = 0; i < runs; i++) {
    const alone = runHere(path, 0);
    const both = runHere(path, 'auto');
    if (alone.output !== both.output) throw new Error(`${alone.output} with tier 0, ${both.output} with both`);
    ratios.push(both.seconds / alone.seconds);
  }
  console.log(
    `code that is rewritten 300,000 times: both tiers take ${spread(ratios, 2)} times the CPU time of tier 0`,
  );
}

/** What 1,000 functions take in the compiled tier. */
function benchMemory(options: EmulatorBench): void {
  const { folder, hasTool } = options;
  const machine = MACHINES.find((each) => each.name === 'x86-64')!;
  if (!hasTool(machine.compiler)) return;
  const source = join(folder, 'thousand.c');
  const functions = Array.from(
    { length: 1000 },
    (_, i) => `static __attribute__((noinline)) u32 f${i}(u32 n, u32 *a) {
  u32 sum = ${i};
  for (u32 i = 0; i < n; i++) { if (a[i & 15] & 1) sum += a[i & 15] * ${i + 3}; else sum ^= a[(i + ${i}) & 15] >> ${i % 13}; }
  a[${i % 16}] = sum;
  return sum;
}`,
  );
  writeFileSync(
    source,
    `#include "lib.h"\n${functions.join('\n')}
static u32 (*const all[])(u32, u32 *) = {${functions.map((_, i) => `f${i}`).join()}};
int main(void) {
  u32 a[16] = {1, 2, 3, 5, 8}, sum = 0;
  for (int round = 0; round < 60; round++) for (int i = 0; i < 1000; i++) sum += all[i](100, a);
  line("sum", sum);
  flush();
  return 0;
}\n`,
  );
  const path = build(machine, options, ['-DTHOUSAND'], source);
  const before = process.memoryUsage();
  const begin = cpuSeconds();
  const guest = start(path, 'auto', () => undefined);
  guest.run();
  const seconds = cpuSeconds() - begin;
  const after = process.memoryUsage();
  const counts = guest.machine.compiledCounts;
  if (!counts) return;
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);
  console.log(
    `1,000 functions: ${counts.regions} regions in ${counts.modules} modules of ${megabytes(counts.moduleBytes)} MB; the process has grown by ` +
      `${megabytes(after.rss - before.rss)} MB; ${seconds.toFixed(2)} CPU seconds for ${(guest.machine.instructions / 1e6).toFixed(0)} M instructions`,
  );
}

/** For scripts: milliseconds of CPU time of all threads. */
const CPU_CLOCK =
  'const now = () => { const { user, system } = process.cpuUsage(); ' + 'return (user + system) / 1000; };';

/**
 * A new process from the import of the library to the end of a program of 300,000 instructions in
 * some 800 places: the machine, the program, and the same program again; and the program in a
 * process that has run another one before. CPU time: the first time V8 compiles our own code as it
 * meets it, and goes on compiling what has become hot in threads of its own, which count.
 */
function benchSmall(options: EmulatorBench): void {
  const { root, runs, hasTool, spread } = options;
  const script =
    "import { readFileSync } from 'node:fs'; const [, library, ...paths] = process.argv; const files = paths.map((path) => new Uint8Array(readFileSync(path)));" +
    'const { archOf, readElf, startProcess } = await import(library); const times = [];' +
    CPU_CLOCK +
    'for (const bytes of files) { const image = readElf(bytes); ' +
    'const { abi, emulation } = archOf(image.header); const begin = now();' +
    'const guest = startProcess({ image, abi, emulation, onOutput: () => undefined }); ' +
    'const made = now(); guest.run();' +
    'times.push(made - begin, now() - made); globalThis.guest = guest; }' +
    "console.log(times.join(' '), guest.machine.instructions);";
  for (const machine of MACHINES) {
    if (!hasTool(machine.compiler)) continue;
    const loops = join(root, 'bench', 'loops.c');
    const path = build(machine, options, ['-DMIXED', '-DROUNDS=1'], loops);
    const other = build(machine, options, ['-DCALLS', '-DSCALE=1/400'], loops);
    const measure = (...paths: readonly string[]): readonly number[] => {
      const args = ['--input-type=module', '-e', script, join(root, 'dist', 'index.js'), ...paths];
      return spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout.trim().split(' ').map(Number);
    };
    const [ready, first, all, again, behind]: [number[], number[], number[], number[], number[]] = [[], [], [], [], []];
    let instructions = 0;
    for (let i = 0; i < 3 * runs; i++) {
      const [made, ran, madeAgain, ranAgain, count] = measure(path, path);
      ready.push(made!);
      first.push(ran!);
      all.push(made! + ran!);
      again.push(madeAgain! + ranAgain!);
      instructions = count!;
      const [, , madeBehind, ranBehind] = measure(other, path);
      behind.push(madeBehind! + ranBehind!);
    }
    console.log(
      `a new process on ${machine.name}: a program is ready to run after ${spread(ready, 1)} ms ` +
        `of CPU time, its ${instructions} instructions done ` +
        `${spread(first, 1)} ms later (the aim: 15): ${spread(all, 1)} ms; with its start, ` +
        `the same again ${spread(again, 1)} ms, ` +
        `and behind another program ${spread(behind, 1)} ms`,
    );
  }
}

export function benchEmulator(options: EmulatorBench): void {
  const names = MACHINES.map((each) => each.name);
  if (options.only.length === 0 || options.only.includes('latency')) {
    benchReady(options);
    benchSmall(options);
    benchHot(options);
    benchMemory(options);
  }
  if (options.only.length === 0 || options.only.includes('rewritten')) benchRewritten(options);
  if (options.only.includes('latency') || options.only.includes('rewritten')) return;
  for (const machine of MACHINES) if (isWanted(machine.name, names, options)) benchMachine(machine, options);
}

/** The first machine of a process. */
function benchReady({ root, runs, spread }: EmulatorBench): void {
  const ready: number[] = [];
  const first: number[] = [];
  const script =
    "const { Machine, arches } = await import(process.argv[1]); const arch = arches.find((each) => each.target.id === 'ppc64-elfv2-be');" +
    CPU_CLOCK +
    'const begin = now(); const machine = new Machine({ lifter: arch.emulation.lifter });' +
    'const made = now(); machine.load(0x10000n, new Uint8Array([0x38, 0x63, 0, 1]), { permission: "rx" });' +
    'machine.setRegister("pc", 0x10000n); machine.step();' +
    'console.log([made, now()].map((end) => end - begin).join(" "));';
  for (let i = 0; i < runs; i++) {
    const result = spawnSync(process.execPath, ['--input-type=module', '-e', script, join(root, 'dist', 'index.js')], {
      encoding: 'utf8',
    });
    const [made, stepped] = result.stdout.trim().split(' ').map(Number);
    ready.push(made!);
    first.push(stepped!);
  }
  console.log(
    `first machine ready after import: ${spread(ready, 1)} ms of CPU time, ` +
      `its first instruction done: ${spread(first, 1)} ms (the aim: 8)`,
  );
}
