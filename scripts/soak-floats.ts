/**
 * Random C programs of csmith with floating point and the C library, on every machine at three
 * levels, in both tiers: `node build/scripts/soak-floats.js [COUNT] [FIRST SEED] [MACHINE …]`,
 * COUNT programs of each machine. Output and exit status must be those under qemu-user, on x86-64
 * those of the processor, whose NaNs qemu does not know. Programs that run too long are left out.
 *
 * Where qemu has the processor that is announced, the addresses of the instructions are compared,
 * too: those of the program's own functions, for what the library does depends on the auxiliary
 * vector, on lengths of paths and on what its output is.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import { load } from '../src/program/program.js';
import { loadArch } from '../src/targets.js';
import type { SectionIndex } from '../src/units.js';
import { environment, execute, inEmulator, MACHINES } from './census/machines.js';

const HEADERS = '/usr/include/csmith';
const LEVELS = ['0', '2', '3'] as const;
const TIERS = ['0', 'auto'] as const;
/** Random programs may loop for ever; most end at once. */
const OUTSIDE_MS = 3000;
const count = Number(process.argv[2] ?? 200);
const first = Number(process.argv[3] ?? 1);
const names = process.argv.slice(4);
const folder = mkdtempSync(join(tmpdir(), 'soak-floats-'));
/** Processors of qemu that are what the emulator announces. */
const ANNOUNCED: Readonly<Record<string, string>> = {
  arm64: 'cortex-a57',
  riscv64: 'rv64',
  ppc64le: 'power8',
  ppc64: '970',
  ppc32: '750',
};
/** qemu writes a line for each instruction. */
const FOLLOWED_MOST = 300_000;

/** Which addresses of a program are those of functions that its source has. */
async function ownCode(program: string, nm: string, object: string): Promise<(pc: number) => boolean> {
  const lines = execute(nm, ['--defined-only', '-f', 'posix', object]).stdout.split('\n');
  const own = new Set(lines.map((line) => line.split(' ')[0]));
  const image = readElf(new Uint8Array(readFileSync(program)));
  const { functions } = load(image, await loadArch(image.header));
  const known = new Map<number, boolean>();
  return (pc) => {
    const before = known.get(pc);
    if (before !== undefined) return before;
    const symbol = functions.at(0 as SectionIndex, BigInt(pc));
    const is = symbol >= 0 && own.has(functions.symbols.name(symbol));
    known.set(pc, is);
    return is;
  };
}

/** The addresses of a run under qemu that are the program's own. */
function followOutside(qemu: string, cpu: string, program: string, isOwn: (pc: number) => boolean): number[] {
  const log = join(folder, 'log');
  execute(qemu, ['-cpu', cpu, '-singlestep', '-d', 'exec,nochain', '-D', log, program], '', environment, folder);
  const lines = readFileSync(log, 'latin1').matchAll(/^Trace .*?\/([0-9a-f]{8,16})\//gm);
  return [...lines].map((match) => parseInt(match[1]!, 16)).filter(isOwn);
}

/** The same in the emulator; null: the run is too long. */
async function followHere(program: string, isOwn: (pc: number) => boolean): Promise<number[] | null> {
  const image = readElf(new Uint8Array(readFileSync(program)));
  const { emulation, abi } = await loadArch(image.header);
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const env = Object.entries(environment).map((each) => each.join('='));
  const { machine } = startProcess({ image, emulation, abi, args: [program], env });
  const found: number[] = [];
  for (let i = 0; i < FOLLOWED_MOST; i++) {
    const pc = Number(machine.pc);
    if (isOwn(pc)) found.push(pc);
    if (machine.step().kind !== 'step-limit') return found;
  }
  return null;
}

let different = 0;
for (const { name, tools, qemu, cpu } of MACHINES) {
  if (names.length > 0 && !names.includes(name)) continue;
  const announced = ANNOUNCED[name];
  let compared = 0;
  let followed = 0;
  let long = 0;
  for (let seed = first; compared < count; seed++) {
    const [source, object, program] = ['program.c', 'program.o', 'program'].map((each) => join(folder, each)) as [
      string,
      string,
      string,
    ];
    const level = LEVELS[seed % LEVELS.length]!;
    const made = execute(
      'csmith',
      ['--seed', String(seed), '--concise', '--float', '-o', source],
      '',
      undefined,
      folder,
    );
    const flags = ['-w', `-O${level}`, '-I', HEADERS, '-c', '-o', object, source];
    const compiled = made.status === 0 ? execute(`${tools}gcc`, flags) : made;
    const built = compiled.status === 0 ? execute(`${tools}gcc`, ['-static', '-o', program, object, '-lm']) : compiled;
    if (built.status !== 0) throw new Error(`seed ${seed}, ${name}: ${built.stderr}`);
    const way = name === 'x86-64' && process.arch === 'x64' ? [] : [qemu, '-cpu', cpu];
    const [command = '', ...args] = [...way, program];
    const there = execute(command, args, '', environment, folder, OUTSIDE_MS);
    if (there.status === null) {
      long++;
      continue;
    }
    compared++;
    for (const tier of TIERS) {
      const here = inEmulator(program, [], null, '', ['--tier', tier]);
      if (here.status === there.status && here.stdout === there.stdout) continue;
      different++;
      process.stdout.write(
        `${name}, seed ${seed}, -O${level}, tier ${tier}: exit ${here.status}, not ${there.status}\n`,
      );
    }
    if (announced === undefined) continue;
    const isOwn = await ownCode(program, `${tools}nm`, object);
    const here = await followHere(program, isOwn);
    if (here === null) continue;
    followed++;
    const outside = followOutside(qemu, announced, program, isOwn);
    const at = here.findIndex((pc, i) => pc !== outside[i]);
    if (at < 0 && here.length === outside.length) continue;
    different++;
    process.stdout.write(`${name}, seed ${seed}, -O${level}: instruction ${at} of ${here.length}, ${outside.length}\n`);
  }
  process.stdout.write(`${name}: ${compared} programs compared, ${followed} followed, ${long} left out\n`);
}
rmSync(folder, { recursive: true });
process.stdout.write(`${different} different\n`);
process.exitCode = different === 0 ? 0 : 1;
