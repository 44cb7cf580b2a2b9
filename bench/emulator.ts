/**
 * The emulator's part of `npm run bench`: tier 0 in guest instructions per CPU second, translation included and Node's start
 * excluded, and as a ratio to qemu-user on the same program, pair by pair; time from import to a ready machine.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/emulator/index.js';

export interface EmulatorBench {
  readonly root: string;
  readonly folder: string;
  readonly runs: number;
  readonly hasTool: (name: string) => boolean;
  readonly spread: (values: readonly number[], digits?: number) => string;
}

/** CPU seconds, user and system, of this process so far. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** CPU seconds of a child, from the difference in what the kernel charges for waited-for children (`times` of the shell). */
function childSeconds(command: string, args: readonly string[]): { seconds: number; output: string } {
  const script = '"$@"; times >&2';
  const result = spawnSync('sh', ['-c', script, 'sh', command, ...args], { encoding: 'utf8' });
  const match = /(\d+)m([\d.]+)s (\d+)m([\d.]+)s\s*$/.exec(result.stderr);
  if (result.status !== 0 || !match) throw new Error(`${command}: ${result.stderr}`);
  const [, um, us, sm, ss] = match.map(Number) as [number, number, number, number, number];
  return { seconds: um * 60 + us + sm * 60 + ss, output: result.stdout };
}

function runHere(path: string): { seconds: number; instructions: number; output: string } {
  const image = readElf(new Uint8Array(readFileSync(path)));
  const arch = archOf(image.header);
  if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
  let output = '';
  const begin = cpuSeconds();
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    onOutput: (_descriptor, bytes) => {
      output += new TextDecoder().decode(bytes);
    },
  });
  const stop = guest.run();
  const seconds = cpuSeconds() - begin;
  if (stop.kind !== 'exit') throw new Error(`${path} stopped: ${stop.kind}`);
  return { seconds, instructions: guest.machine.instructions, output };
}

interface BenchMachine {
  readonly name: string;
  readonly compiler: string;
  readonly qemu: string;
  readonly flags: readonly string[];
  /** Start-up code in test/programs. */
  readonly start: readonly string[];
}

const MACHINES: readonly BenchMachine[] = [
  {
    name: 'ppc64le',
    compiler: 'powerpc64le-linux-gnu-gcc',
    qemu: 'qemu-ppc64le',
    flags: ['-mno-vsx', '-mno-altivec'],
    start: ['start.S'],
  },
  {
    name: 'riscv64',
    compiler: 'riscv64-linux-gnu-gcc',
    qemu: 'qemu-riscv64',
    flags: ['-march=rv64gc', '-mabi=lp64d', '-DSYS_WRITE=64'],
    start: ['start-riscv64.S'],
  },
  {
    name: 'arm64',
    compiler: 'aarch64-linux-gnu-gcc',
    qemu: 'qemu-aarch64',
    flags: ['-mgeneral-regs-only', '-DSYS_WRITE=64'],
    start: ['start-arm64.S'],
  },
  {
    name: 'x86-64',
    compiler: 'x86_64-linux-gnu-gcc',
    qemu: 'qemu-x86_64',
    flags: ['-mgeneral-regs-only', '-fcf-protection=none'],
    start: ['start.S'],
  },
];

function benchMachine(machine: BenchMachine, { root, folder, runs, hasTool, spread }: EmulatorBench): void {
  const { compiler } = machine;
  if (!hasTool(compiler)) {
    console.log(`emulator loops on ${machine.name}: not measured, ${compiler} is absent`);
    return;
  }
  const qemu = hasTool(machine.qemu);
  for (const name of ['SIEVE', 'CRC', 'QUICKSORT']) {
    const path = join(folder, `${machine.name}-${name.toLowerCase()}`);
    const flags = ['-O2', '-ffreestanding', '-fno-builtin', '-fno-stack-protector', '-fno-pie', ...machine.flags];
    const programs = join(root, 'test', 'programs');
    const sources = [join(root, 'bench', 'loops.c'), ...machine.start.map((each) => join(programs, each))];
    const built = spawnSync(
      compiler,
      [...flags, `-D${name}`, '-w', '-nostdlib', '-static', '-no-pie', ...sources, '-o', path, '-lgcc'],
      { encoding: 'utf8' },
    );
    if (built.status !== 0) throw new Error(built.stderr);
    runHere(path);
    const rates: number[] = [];
    const ratios: number[] = [];
    let instructions = 0;
    for (let i = 0; i < runs; i++) {
      const here = runHere(path);
      instructions = here.instructions;
      rates.push(here.instructions / here.seconds / 1e9);
      if (!qemu) continue;
      const there = childSeconds(machine.qemu, [path]);
      if (there.output !== here.output) throw new Error(`${name}: ${here.output} here, ${there.output} under qemu`);
      ratios.push(there.seconds / here.seconds);
    }
    const ratio = qemu ? `; ${spread(ratios, 2)} times the speed of ${machine.qemu}` : '';
    const count = `${(instructions / 1e6).toFixed(0)} M instructions`;
    console.log(`tier 0, ${machine.name}, ${name}, ${count}: ${spread(rates, 2)} G/s${ratio}`);
  }
}

export function benchEmulator(options: EmulatorBench): void {
  for (const machine of MACHINES) benchMachine(machine, options);
  const { root, runs, spread } = options;
  const ready: number[] = [];
  const first: number[] = [];
  const script =
    "const { Machine, arches } = await import(process.argv[1]); const arch = arches.find((each) => each.target.id === 'ppc64-elfv2-be');" +
    'const begin = process.hrtime.bigint(); const machine = new Machine({ lifter: arch.emulation.lifter });' +
    'const made = process.hrtime.bigint(); machine.load(0x10000n, new Uint8Array([0x38, 0x63, 0, 1]), { permission: "rx" });' +
    'machine.setRegister("pc", 0x10000n); machine.step();' +
    'console.log([made, process.hrtime.bigint()].map((end) => Number(end - begin) / 1e6).join(" "));';
  for (let i = 0; i < runs; i++) {
    const result = spawnSync(process.execPath, ['--input-type=module', '-e', script, join(root, 'dist', 'index.js')], {
      encoding: 'utf8',
    });
    const [made, stepped] = result.stdout.trim().split(' ').map(Number);
    ready.push(made!);
    first.push(stepped!);
  }
  console.log(
    `first machine ready after import: ${spread(ready, 1)} ms, its first instruction done: ${spread(first, 1)} ms`,
  );
}
