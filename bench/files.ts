/**
 * Whole processes of the command line beside Node alone: what a start costs, and files with many
 * sites. CPU time and resident memory, each as a ratio to what Node has in the same turn, since
 * machines differ. The aims stand beside the figures.
 */
import { spawnSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { childSeconds } from './cpu.js';
import { x86Image, x86Object } from './inputs.js';

export interface FilesBench {
  readonly folder: string;
  readonly cli: string;
  readonly runs: number;
  readonly spread: (values: readonly number[], digits?: number) => string;
}

interface Cost {
  readonly ms: number;
  readonly mebibytes: number;
}

interface Row {
  readonly name: string;
  readonly args: readonly string[];
  readonly aim: string;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** What processes cost until they end; the code that they keep is the bench's. */
class Processes {
  private readonly hook: string;
  private readonly cache: string;

  constructor(private readonly bench: FilesBench) {
    this.cache = join(bench.folder, 'cache');
    this.hook = join(bench.folder, 'memory.cjs');
    const said = "'\\nPEAK ' + process.resourceUsage().maxRSS + '\\n'";
    writeFileSync(this.hook, `process.on('exit', () => require('node:fs').writeSync(2, ${said}));`);
  }

  /** CPU time of Node with `args`, of the whole process. */
  private milliseconds(args: readonly string[]): number {
    return 1000 * childSeconds(process.execPath, args, { XDG_CACHE_HOME: this.cache }).seconds;
  }

  /** The most resident memory, by its own account at the end. */
  private mebibytes(args: readonly string[]): number {
    const result = spawnSync(process.execPath, ['-r', this.hook, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, XDG_CACHE_HOME: this.cache },
    });
    const [, peak] = /PEAK (\d+)/.exec(result.stderr) ?? [];
    if (result.status !== 0 || peak === undefined) throw new Error(`${args.join(' ')}: ${result.stderr}`);
    return Number(peak) / 1024;
  }

  once(args: readonly string[], withMemory: boolean): Cost {
    return { ms: this.milliseconds(args), mebibytes: withMemory ? this.mebibytes(args) : 0 };
  }

  /** All in turn, beside Node alone; the first three of each count nothing. */
  inTurn(
    rows: readonly Row[],
    withMemory: boolean,
  ): { readonly bare: readonly Cost[]; readonly all: readonly (readonly Cost[])[] } {
    const { cli, runs } = this.bench;
    const bare: Cost[] = [];
    const all = rows.map((): Cost[] => []);
    for (const { args } of rows) for (let i = 0; i < 3; i++) this.once([cli, ...args], withMemory);
    for (let i = 0; i < runs; i++) {
      bare.push(this.once(['-e', '0'], withMemory));
      rows.forEach(({ args }, row) => all[row]!.push(this.once([cli, ...args], withMemory)));
    }
    return { bare, all };
  }
}

/** Small files: what a start costs, which pipelines pay for each object. */
export function benchStart(bench: FilesBench): void {
  const { folder, spread } = bench;
  const [small, out] = [join(folder, 'small.ko'), join(folder, 'small-out.ko')];
  writeFileSync(small, x86Object(20));
  const rows: readonly Row[] = [
    { name: '--version', args: ['--version'], aim: '1.3' },
    { name: 'verify of 20 sites', args: ['verify', small], aim: '1.6' },
    { name: 'patch --nop of 20 sites', args: ['patch', '--nop', small, '-o', out], aim: 'none' },
  ];
  const { bare, all } = new Processes({ ...bench, runs: Math.max(9, bench.runs) }).inTurn(rows, false);
  console.log(
    `Node alone: ${spread(
      bare.map(({ ms }) => ms),
      1,
    )} ms of CPU time`,
  );
  rows.forEach(({ name, aim }, row) => {
    const costs = all[row]!;
    const ratio = median(costs.map(({ ms }) => ms)) / median(bare.map(({ ms }) => ms));
    console.log(
      `${name}: ${spread(
        costs.map(({ ms }) => ms),
        1,
      )} ms, ${ratio.toFixed(2)} times Node (the aim: ${aim})`,
    );
  });
}

/** Objects of 60,000 and of a million sites, and a large image. */
export function benchSites(bench: FilesBench): void {
  const { folder } = bench;
  const out = join(folder, 'sites-out');
  const sixty = join(folder, 'sixty-thousand.o');
  const million = join(folder, 'million.o');
  const image = join(folder, 'half-gigabyte');
  writeFileSync(sixty, x86Object(60_000));
  writeFileSync(million, x86Object(1_000_000));
  writeFileSync(image, x86Image(500 << 20, 40_000));
  const rows = (file: string, verbs: readonly (readonly [verb: string, aim: string])[]): readonly Row[] =>
    verbs.map(([verb, aim]) => {
      const args = [...verb.split(' '), file, ...(verb === 'verify' ? [] : ['-o', out])];
      return { name: `${verb} of ${file.slice(folder.length + 1)}`, args, aim };
    });
  const sixtyRows = [
    ['patch --nop', '300 ms'],
    ['patch --untrace', '300 ms'],
    ['mcount', '300 ms'],
    ['verify', '200 ms'],
  ] as const;
  const millionAim = '2,000 ms, 381 MiB, 2.2 times the file';
  const millionRows = [
    ['patch --nop', millionAim],
    ['patch --untrace', millionAim],
  ] as const;
  told(bench, sixty, rows(sixty, sixtyRows));
  told(bench, million, rows(million, millionRows));
  told({ ...bench, runs: 1 }, image, rows(image, [['patch --init', '1,144 MiB']]));
}

function told(bench: FilesBench, file: string, rows: readonly Row[]): void {
  const { spread } = bench;
  const { bare, all } = new Processes(bench).inTurn(rows, true);
  const size = statSync(file).size / (1 << 20);
  const memoryOfNode = median(bare.map(({ mebibytes }) => mebibytes));
  rows.forEach(({ name, aim }, row) => {
    const times = all[row]!.map(({ ms }) => ms);
    const memory = median(all[row]!.map(({ mebibytes }) => mebibytes));
    const ratio = (memory - memoryOfNode) / size;
    console.log(
      `${name}: ${spread(times, 0)} ms of CPU time, ${memory.toFixed(0)} MiB, ` +
        `beside Node's ${ratio.toFixed(2)} times the file (the aim: ${aim})`,
    );
  });
}
