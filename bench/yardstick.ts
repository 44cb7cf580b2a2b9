/**
 * Whole programs that were written to measure with, on every machine:
 * `npm run bench -- yardstick [MACHINE…] [PROGRAM…] [--seconds S]… [--level O1|O2|Os]…
 * [--set tuning|reporting|floats|classic|all] [--runs N] [--first] [--unicorn]`. CPU time of whole
 * processes, start and translation included, of `elftrace run` and of qemu-user, in turn; with
 * `--unicorn` of libunicorn, too, on the machines that it has, where it is installed (it takes ten
 * to thirty times as long). `--seconds` is how long a run takes under qemu-user (0.1, 1, 10): the
 * number of turns that take as long is found first. Before a program is measured it runs three
 * times, as long, but for a second at most: later runs find what those have kept. `--first` keeps
 * nothing, neither of the program nor of the command: each run is a first one. `--set classic` is
 * n-body, LINPACK, Mandelbrot, FFT, strings and compression.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { childSeconds, geometricMean } from './cpu.js';
import { type BenchMachine, compileFor, compileWithLibrary, MACHINES } from './machines.js';
import { CLASSIC, YARDSTICK, type YardstickProgram } from './yardstick/programs.js';

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
const SETS = ['tuning', 'reporting', 'floats', 'classic', 'all'];

/** Whether a program belongs to a set, by its name on the command line. */
const isIn = (program: YardstickProgram, set: string): boolean =>
  set === 'all' || program.set === set || (set === 'classic' && CLASSIC.has(program.name));

/** Whether a program can be built for a machine. */
export const isBuilt = (machine: BenchMachine, program: YardstickProgram): boolean =>
  program.set !== 'floats' || machine.alone !== true;

/** Whether it can be measured there: it is built, and qemu-user executes it. */
export const canMeasure = (machine: BenchMachine, program: YardstickProgram): boolean =>
  isBuilt(machine, program) && program.stopsQemu?.includes(machine.name) !== true;

interface Chosen {
  readonly machines: readonly BenchMachine[];
  readonly programs: readonly YardstickProgram[];
  readonly seconds: readonly number[];
  readonly levels: readonly string[];
  readonly runs: number;
  readonly unicorn: boolean;
  /** Nothing is kept from one run to the next. */
  readonly first: boolean;
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
    if (word === '--unicorn' || word === '--first') continue;
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
    programs: programs.length > 0 ? programs : YARDSTICK.filter((each) => isIn(each, set)),
    seconds: seconds.length > 0 ? seconds : [1],
    levels: levels.length > 0 ? levels : ['O2'],
    runs: Number(given['--runs']!.at(-1) ?? Math.min(runs, 3)),
    unicorn: words.includes('--unicorn'),
    first: words.includes('--first'),
  };
}

/** A program of the yardstick for one machine; its path. */
export function compileYardstick(
  machine: BenchMachine,
  program: YardstickProgram,
  { root, folder, level }: { readonly root: string; readonly folder: string; readonly level: string },
): string {
  const output = join(folder, `${program.name}-${machine.name}-${level}`);
  const compile = program.set === 'floats' ? compileWithLibrary : compileFor;
  compile(machine, {
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

/** What programs of a machine run on, as commands in front of their own. */
interface Runners {
  readonly theirs: readonly string[];
  readonly ours: readonly string[];
  /** The program itself, and `unicorn-run.c`; null: not here. */
  readonly native: readonly string[] | null;
  readonly unicorn: readonly string[] | null;
  /** For ours: where things are kept, or that none are. */
  readonly environment: Readonly<Record<string, string>>;
}

type Runner = Exclude<keyof Runners, 'environment'>;

/** CPU seconds of each runner, run by run; none where there is no such runner. */
type Timed = Readonly<Record<Runner, readonly number[]>>;

/** Runs in turn; each writes the same. */
function timed(path: string, turns: number, runners: Runners, runs: number): Timed {
  const found = { theirs: [] as number[], ours: [] as number[], native: [] as number[], unicorn: [] as number[] };
  for (let i = 0; i < runs; i++) {
    let expected: string | undefined;
    for (const runner of ['theirs', 'ours', 'native', 'unicorn'] as const) {
      const words = runners[runner];
      if (words === null) continue;
      const [command, ...rest] = [...words, path, String(turns)];
      const { seconds, output } = childSeconds(command!, rest, runner === 'ours' ? runners.environment : {});
      expected ??= output;
      if (output !== expected) throw new Error(`${path} ${turns}: ${output} (${runner}), ${expected} under qemu-user`);
      found[runner].push(seconds);
    }
  }
  return found;
}

const IN_UNICORN = ['x86-64', 'arm64', 'riscv64'];

/** The runner for libunicorn; null where the library or a compiler is absent. */
function unicornRunner(machine: string, { root, folder }: YardstickOptions): string | null {
  if (!IN_UNICORN.includes(machine)) return null;
  const output = join(folder, 'unicorn-run');
  const source = join(root, 'bench', 'unicorn-run.c');
  return spawnSync('gcc', ['-O2', '-o', output, source, '-lunicorn'], { stdio: 'ignore' }).status === 0 ? output : null;
}

function runnersFor(machine: BenchMachine, chosen: Chosen, options: YardstickOptions): Runners {
  const unicorn = chosen.unicorn ? unicornRunner(machine.name, options) : null;
  const isNative = machine.name === 'x86-64' && process.arch === 'x64' && process.platform === 'linux';
  return {
    theirs: [machine.qemu],
    ours: [process.execPath, options.cli, 'run', '--max-instructions', 'none'],
    native: isNative ? [] : null,
    unicorn: unicorn === null ? null : [unicorn],
    environment: chosen.first ? { NODE_DISABLE_COMPILE_CACHE: '1' } : { XDG_CACHE_HOME: join(options.folder, 'cache') },
  };
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
function summary(
  where: string,
  ratios: ReadonlyMap<string, number>,
  natives: readonly number[],
  unicorns: readonly number[],
): string {
  const worst = [...ratios].sort((a, b) => a[1] - b[1]).slice(0, 5);
  const worstText = worst.map(([name, ratio]) => `${name} ${ratio.toFixed(2)}`).join(', ');
  const native =
    (natives.length > 0 ? `; ${(100 * geometricMean(natives)).toFixed(1)} % of native` : '') +
    (unicorns.length > 0 ? `; ${geometricMean(unicorns).toFixed(2)} of libunicorn's` : '');
  const mean = geometricMean([...ratios.values()]).toFixed(2);
  return `${where}: geometric mean ${mean} of qemu-user's speed, ${ratios.size} programs${native}; worst: ${worstText}`;
}

/** Ratios of the programs that were measured with one length of run. */
interface Ratios {
  readonly theirs: Map<string, number>;
  readonly native: number[];
  readonly unicorn: number[];
}

/** Runs so often before it is measured: the third run uses what the second has kept. */
const EARLIER_RUNS = 3;
const LONGEST_EARLIER = 1;

const quotients = (others: readonly number[], ours: readonly number[]): number[] =>
  others.map((each, i) => Math.max(each, 0.001) / ours[i]!);

/** One program, in runs of each length; the points of its line. */
function benchProgram(
  where: string,
  path: string,
  runners: Runners,
  { seconds, runs, first }: Chosen,
  ratios: readonly Ratios[],
  spread: YardstickOptions['spread'],
): [number, number][] {
  const name = where.split(' ').at(-1)!;
  const turns = turnsFor(runners.theirs[0]!, path);
  if (!first) {
    const [command, ...rest] = [...runners.ours, path, String(turns(Math.min(LONGEST_EARLIER, ...seconds)))];
    for (let i = 0; i < EARLIER_RUNS; i++) childSeconds(command!, rest, runners.environment);
  }
  return seconds.map((length, at) => {
    const { theirs, ours, native, unicorn } = timed(path, turns(length), runners, runs);
    const pairs = quotients(theirs, ours);
    ratios[at]!.theirs.set(name, middle(pairs));
    if (native.length > 0) ratios[at]!.native.push(middle(quotients(native, ours)));
    if (unicorn.length > 0) ratios[at]!.unicorn.push(middle(quotients(unicorn, ours)));
    const beside = unicorn.length > 0 ? `; libunicorn ${spread(unicorn, 2)}` : '';
    console.log(`${where} ${length} s: ${spread(pairs, 2)}; ${spread(ours, 2)} s CPU${beside}`);
    return [middle(theirs), middle(ours)];
  });
}

function benchMachine(machine: BenchMachine, level: string, chosen: Chosen, options: YardstickOptions): void {
  const { programs, seconds } = chosen;
  const { root, folder, hasTool, spread } = options;
  const { name, compiler, qemu } = machine;
  const missing = [compiler, qemu].filter((each) => !hasTool(each));
  if (missing.length > 0) {
    console.log(`yardstick on ${name}: not measured, ${missing.join(' and ')} absent`);
    return;
  }
  const runners = runnersFor(machine, chosen, options);
  const ratios = seconds.map((): Ratios => ({ theirs: new Map(), native: [], unicorn: [] }));
  const lines: { readonly fixed: number; readonly slope: number }[] = [];
  for (const program of programs) {
    if (!canMeasure(machine, program)) {
      console.log(`${name} ${program.name}: not measured, qemu-user or a C library does not have it`);
      continue;
    }
    const path = compileYardstick(machine, program, { root, folder, level });
    const where = `${name} -${level} ${program.name}`;
    const points = benchProgram(where, path, runners, chosen, ratios, spread);
    if (points.length < 2) continue;
    const line = fixedAndSlope(points);
    lines.push(line);
    console.log(`${where}: ${line.fixed.toFixed(2)} s, and ${line.slope.toFixed(2)} s for each of qemu-user's`);
  }
  seconds.forEach((length, at) => {
    if (ratios[at]!.theirs.size === 0) return;
    const { theirs, native, unicorn } = ratios[at]!;
    console.log(summary(`${name} -${level}, runs of ${length} s`, theirs, native, unicorn));
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
