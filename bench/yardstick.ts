/**
 * Whole programs that were written to measure with, on every machine:
 * `npm run bench -- yardstick [MACHINE…] [PROGRAM…] [--seconds S]… [--level O1|O2|Os]…
 * [--set tuning|reporting|all] [--runs N]`. CPU time of whole processes, start and translation
 * included, of `elftrace run` and of qemu-user, in turn. `--seconds` is how long a run takes under
 * qemu-user (0.1, 1, 10): the number of turns that take as long is found first.
 */
import { join } from 'node:path';
import { childSeconds, geometricMean } from './cpu.js';
import { type BenchMachine, compileFor, MACHINES } from './machines.js';
import { YARDSTICK, type YardstickProgram } from './yardstick/programs.js';

export interface YardstickOptions {
  readonly root: string;
  readonly folder: string;
  readonly cli: string;
  readonly runs: number;
  /** What follows `yardstick` on the command line. */
  readonly words: readonly string[];
  readonly hasTool: (name: string) => boolean;
  readonly spread: (values: readonly number[], digits?: number) => string;
}

/** Machines that are measured where none is named. */
const USUAL = ['x86-64', 'arm64', 'riscv64', 'ppc64le', 'ppc64-elfv1', 'ppc32'];
const LEVELS = ['O1', 'O2', 'Os'];
const SETS = ['tuning', 'reporting', 'all'];

interface Chosen {
  readonly machines: readonly BenchMachine[];
  readonly programs: readonly YardstickProgram[];
  readonly seconds: readonly number[];
  readonly levels: readonly string[];
  readonly runs: number;
}

/**
 * What the words ask for.
 * @throws where a word is none that is known
 */
function choose({ words, runs }: YardstickOptions): Chosen {
  const given: Record<string, string[]> = { '--seconds': [], '--level': [], '--set': [], '--runs': [] };
  const names: string[] = [];
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (word in given) given[word]!.push(...(words[++i] ?? '').split(','));
    else names.push(word);
  }
  const machines = MACHINES.filter(({ name }) => names.includes(name));
  const programs = YARDSTICK.filter(({ name }) => names.includes(name));
  const set = given['--set']!.at(-1) ?? 'reporting';
  const levels = given['--level']!.map((each) => each.replace(/^-/, ''));
  const seconds = given['--seconds']!.map(Number);
  const known = [...machines, ...programs].map(({ name }) => name);
  const unknown = [
    ...names.filter((each) => !known.includes(each)),
    ...levels.filter((each) => !LEVELS.includes(each)),
    ...(SETS.includes(set) ? [] : [set]),
    ...seconds.filter((each) => !(each > 0)).map(String),
  ];
  if (unknown.length > 0) {
    const all = [...MACHINES, ...YARDSTICK].map(({ name }) => name);
    throw new Error(`yardstick: ${unknown.join(' ')} is none of ${all.join(' ')}`);
  }
  return {
    machines: machines.length > 0 ? machines : MACHINES.filter(({ name }) => USUAL.includes(name)),
    programs: programs.length > 0 ? programs : YARDSTICK.filter((each) => set === 'all' || each.set === set),
    seconds: seconds.length > 0 ? seconds : [1],
    levels: levels.length > 0 ? levels : ['O2'],
    runs: Number(given['--runs']!.at(-1) ?? Math.min(runs, 3)),
  };
}

/** A program of the yardstick for one machine; its path. */
export function compileYardstick(
  machine: BenchMachine,
  program: YardstickProgram,
  { root, folder, level }: { readonly root: string; readonly folder: string; readonly level: string },
): string {
  const output = join(folder, `${program.name}-${machine.name}-${level}`);
  compileFor(machine, {
    programs: join(root, 'test', 'programs'),
    source: join(root, 'bench', 'yardstick', `${program.name}.c`),
    output,
    // Multiplying and adding in one rounding is what some machines have and others have not.
    flags: [`-${level}`, '-ffp-contract=off'],
  });
  return output;
}

/** How many turns take so many seconds under qemu-user. */
function turnsFor(qemu: string, path: string): (seconds: number) => number {
  const none = childSeconds(qemu, [path, '0']).seconds;
  for (let turns = 32; ; turns *= 4) {
    const { seconds } = childSeconds(qemu, [path, String(turns)]);
    if (seconds - none < 0.06) continue;
    const turnsASecond = turns / (seconds - none);
    return (wanted) => Math.max(1, Math.round(Math.max(wanted - none, 0) * turnsASecond));
  }
}

interface Timed {
  /** qemu-user's CPU seconds, ours, and those without an emulator, run by run. */
  readonly theirs: readonly number[];
  readonly ours: readonly number[];
  readonly native: readonly number[];
}

/** Runs in turn; each writes the same. */
function timed(path: string, turns: number, qemu: string, runs: number, cli: string, isNative: boolean): Timed {
  const [theirs, ours, native]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i < runs; i++) {
    const there = childSeconds(qemu, [path, String(turns)]);
    const here = childSeconds(process.execPath, [cli, 'run', '--max-instructions', 'none', path, String(turns)]);
    if (there.output !== here.output) {
      throw new Error(`${path} ${turns}: ${here.output} here, ${there.output} under qemu-user`);
    }
    theirs.push(there.seconds);
    ours.push(here.seconds);
    if (isNative) native.push(childSeconds(path, [String(turns)]).seconds);
  }
  return { theirs, ours, native };
}

const middle = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/**
 * `ours = fixed + slope * theirs`, by least squares of relative differences, so that long runs do
 * not outweigh short ones.
 */
export function fixedAndSlope(points: readonly (readonly [theirs: number, ours: number])[]): {
  readonly fixed: number;
  readonly slope: number;
} {
  let [w, wx, wy, wxx, wxy] = [0, 0, 0, 0, 0];
  for (const [x, y] of points) {
    const weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  const slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return { fixed: (wy - slope * wx) / w, slope };
}

/** What the programs of one machine, at one level, in runs of one length, come to. */
function summary(where: string, ratios: ReadonlyMap<string, number>, natives: readonly number[]): string {
  const worst = [...ratios].sort((a, b) => a[1] - b[1]).slice(0, 5);
  const worstText = worst.map(([name, ratio]) => `${name} ${ratio.toFixed(2)}`).join(', ');
  const native = natives.length > 0 ? `; ${(100 * geometricMean(natives)).toFixed(1)} % of native` : '';
  const mean = geometricMean([...ratios.values()]).toFixed(2);
  return `${where}: geometric mean ${mean} of qemu-user's speed, ${ratios.size} programs${native}; worst: ${worstText}`;
}

function benchMachine(machine: BenchMachine, level: string, chosen: Chosen, options: YardstickOptions): void {
  const { programs, seconds, runs } = chosen;
  const { root, folder, cli, hasTool, spread } = options;
  const { name, compiler, qemu } = machine;
  const missing = [compiler, qemu].filter((each) => !hasTool(each));
  if (missing.length > 0) {
    console.log(`yardstick on ${name}: not measured, ${missing.join(' and ')} absent`);
    return;
  }
  const isNative = name === 'x86-64' && process.arch === 'x64' && process.platform === 'linux';
  const ratios = seconds.map(() => new Map<string, number>());
  const natives: number[][] = seconds.map(() => []);
  const lines: { readonly fixed: number; readonly slope: number }[] = [];
  for (const program of programs) {
    const path = compileYardstick(machine, program, { root, folder, level });
    const turns = turnsFor(qemu, path);
    const points: [number, number][] = [];
    seconds.forEach((length, at) => {
      const { theirs, ours, native } = timed(path, turns(length), qemu, runs, cli, isNative);
      const pairs = theirs.map((each, i) => each / ours[i]!);
      ratios[at]!.set(program.name, middle(pairs));
      points.push([middle(theirs), middle(ours)]);
      if (isNative) natives[at]!.push(middle(native.map((each, i) => Math.max(each, 0.001) / ours[i]!)));
      console.log(`${name} -${level} ${program.name} ${length} s: ${spread(pairs, 2)}; ${spread(ours, 2)} s CPU`);
    });
    if (points.length < 2) continue;
    const line = fixedAndSlope(points);
    lines.push(line);
    console.log(
      `${name} -${level} ${program.name}: ${line.fixed.toFixed(2)} s, and ${line.slope.toFixed(2)} s for each of qemu-user's`,
    );
  }
  seconds.forEach((length, at) => {
    console.log(summary(`${name} -${level}, runs of ${length} s`, ratios[at]!, natives[at]!));
  });
  if (lines.length === 0) return;
  const fixed = middle(lines.map((each) => each.fixed));
  const slope = middle(lines.map((each) => each.slope));
  console.log(`${name} -${level}: medians: fixed cost ${fixed.toFixed(2)} s, slope ${slope.toFixed(2)}`);
}

export function benchYardstick(options: YardstickOptions): void {
  const chosen = choose(options);
  for (const machine of chosen.machines)
    for (const level of chosen.levels) benchMachine(machine, level, chosen, options);
}
