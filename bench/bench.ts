/**
 * `npm run bench`: ratios measured in one run, interleaved, each with its spread. Absolute times
 * are printed for orientation only; machines differ and are noisy. Inputs are made here
 * (inputs.ts). `npm run bench -- emulator [NAME …]` measures the emulator alone: all of it, or the
 * loops of the machines, programs (`CRC` …) and tiers (`0`, `auto`) that are named, `latency`, or
 * `rewritten` (code that writes code); `npm run bench -- yardstick` whole programs that were
 * written to measure with, on every machine (yardstick.ts has its options); `npm run bench --
 * programs [NAME …]` whole programs of the distribution. `npm run bench -- prove` measures proofs
 * alone, `npm run bench -- race` races, `npm run bench -- native` programs that write their own
 * trace, `npm run bench -- traced` calls of entries as kernels have them, `npm run bench -- tree
 * [FOLDER]` trees of modules, `npm run bench -- start` what small files cost, `npm run bench --
 * sites` files with many sites, both beside Node alone.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { FtraceCore } from '../src/ftrace/index.js';
import { profiles } from '../test/support/profiles.js';
import { applyFilter } from '../src/sites/filter.js';
import { findSites } from '../src/sites/sites.js';
import { verify } from '../src/sites/verdicts.js';
import { load } from '../src/program/program.js';
import { FakeMachine } from '../test/support/fake-ftrace.js';
import { filterTable, kernelNames } from '../test/support/kernel-names.js';
import { benchEmulator } from './emulator.js';
import { benchSites, benchStart } from './files.js';
import { benchNative } from './native.js';
import { benchPrograms } from './programs.js';
import { benchTracedCalls } from './traced-call.js';
import { benchYardstick } from './yardstick.js';
import { arm64Image, ppc64LoadedImage, ppc64StubImage, x86Image, x86Object } from './inputs.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const cli = join(root, 'dist', 'cli.cjs');
const folder = mkdtempSync(join(tmpdir(), 'elftrace-bench-'));
const runs = Number(process.env['BENCH_RUNS'] ?? 7);

function hasTool(name: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((each) => {
    try {
      accessSync(join(each, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Wall seconds of a whole process. */
function time(command: string, args: readonly string[]): number {
  const start = process.hrtime.bigint();
  const result = spawnSync(command, [...args], { stdio: ['ignore', 'ignore', 'pipe'], maxBuffer: 1 << 28 });
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  if (result.error || result.status !== 0) {
    throw new Error(`${command} ${args.join(' ')}: ${result.error?.message ?? result.stderr.toString()}`);
  }
  return seconds;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}

function spread(values: readonly number[], digits = 3): string {
  return `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)})`;
}

/** A and B in turn, pair by pair. */
function pair(name: string, a: () => number, b: () => number, other: string): void {
  a();
  b();
  const as: number[] = [];
  const bs: number[] = [];
  const ratios: number[] = [];
  for (let i = 0; i < runs; i++) {
    as.push(a());
    bs.push(b());
    ratios.push(as[i]! / bs[i]!);
  }
  console.log(`${name}: ${spread(as)} s; ${other}: ${spread(bs)} s; ratio ${spread(ratios, 2)}`);
}

/** Peak resident memory of a Node process, MiB, by its own account. */
function peak(args: readonly string[]): number {
  const script = `process.on('exit',()=>{process.stderr.write('\\nRSS '+process.resourceUsage().maxRSS+'\\n')});process.argv=['node','elftrace',...${JSON.stringify(args)}];await import(${JSON.stringify(cli)});`;
  const result = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', args.length === 0 ? script.replace(/process\.argv=.*$/, '') : script],
    {
      maxBuffer: 1 << 28,
    },
  );
  return Number(/RSS (\d+)/.exec(result.stderr.toString())?.[1] ?? Number.NaN) / 1024;
}

function inProcess(name: string, bytes: Uint8Array, count: number): void {
  const rates: number[] = [];
  for (let i = 0; i < runs; i++) {
    const image = readElf(bytes);
    const program = load(image, archOf(image.header));
    // Tables of the image that any user of it pays once: symbols and functions.
    void program.functions.functions.count;
    const start = process.hrtime.bigint();
    const result = verify(findSites(program));
    const seconds = Number(process.hrtime.bigint() - start) / 1e9;
    if (result.sites !== count || result.verdicts.ok !== count) {
      throw new Error(`${name}: ${JSON.stringify(result.verdicts)}, first ${result.findings[0]?.message ?? ''}`);
    }
    rates.push(count / seconds / 1e6);
  }
  console.log(`${name}: ${spread(rates)} M sites/s in process (found and verified)`);
}

/**
 * Filters as set_ftrace_filter takes them, on names like a kernel's (the aim: 30 ms each), and
 * operations of the core on as many records.
 */
function filters(count: number): void {
  const names = kernelNames(count);
  const table = filterTable(names);
  for (const words of ['sched*', '*lock*', 'sch*lock*9', '[st]*_read_*', '* !mutex_* !*lock*', '*:mod:m1*']) {
    const times: number[] = [];
    for (let i = 0; i < runs; i++) {
      const start = performance.now();
      applyFilter(words, table);
      times.push(performance.now() - start);
    }
    console.log(`filter '${words}' on ${count} names: ${spread(times)} ms`);
  }
  const core = new FtraceCore({
    backend: new FakeMachine(profiles['x86-64']),
    sites: names.map((name, index) => ({ name, ip: table.address(index), siteOffset: 4n, symbolSize: 12n })),
    records: { siteBytes: 5 },
  });
  const all = core.createOps({ name: 'all', func: 1n });
  const one = core.createOps({ name: 'one', func: 2n });
  const operations: [string, () => unknown][] = [
    ['register all', () => core.register(all)],
    ['filter of one', () => core.setFilter(one, 'filter', names[7]!)],
    ['register one', () => core.register(one)],
    ['unregister one', () => core.unregister(one)],
    ['filter of all', () => core.setFilter(all, 'filter', 'sched*')],
    ['off', () => core.setEnabled(false)],
    ['on', () => core.setEnabled(true)],
    ['unregister all', () => core.unregister(all)],
  ];
  const figures = operations.map(([what, perform]) => {
    const start = performance.now();
    perform();
    return `${what} ${(performance.now() - start).toFixed(0)} ms`;
  });
  console.log(`core on ${count} records: ${figures.join(', ')}`);
}

function benchPatching(): void {
  filters(60000);
  const object = join(folder, 'sixty.o');
  const out = join(folder, 'out.o');
  writeFileSync(object, x86Object(60000));
  const like = join(folder, 'recordmcount-like');
  const bare = (): number => time(process.execPath, ['-e', '']);
  if (hasTool('gcc')) {
    spawnSync('gcc', ['-O2', '-o', like, join(root, 'bench', 'recordmcount-like.c')], { stdio: 'inherit' });
    pair(
      '60,000 sites in one x86-64 object, patch --nop, whole process',
      () => time(process.execPath, [cli, 'patch', object, '--nop', '-o', out]),
      () => time(like, [object, join(folder, 'like.o')]),
      'recordmcount-like C program',
    );
  }
  pair(
    '60,000 sites in one x86-64 object, verify, whole process',
    () => time(process.execPath, [cli, 'verify', object]),
    bare,
    'bare node',
  );
  if (hasTool('objdump')) {
    pair(
      '60,000 sites, verify',
      () => time(process.execPath, [cli, 'verify', object]),
      () => time('objdump', ['-dr', object]),
      'objdump -dr',
    );
  }
  inProcess('1,000,000 plain arm64 sites', arm64Image(1000000), 1000000);
  inProcess('60,000 x86-64 sites through relocations', x86Object(60000), 60000);
  inProcess('200,000 PPC64 sites through linker stubs', ppc64StubImage(200000), 200000);
  inProcess(
    '200,000 PPC64 sites of 200 far modules, verified through stubs and TOC',
    ppc64LoadedImage(200, 1000),
    200000,
  );

  const big = join(folder, 'image');
  const bigBytes = x86Image(100 << 20, 40000);
  writeFileSync(big, bigBytes);
  pair(
    '100 MB image with 40,000 sites, verify, whole process',
    () => time(process.execPath, [cli, 'verify', big]),
    bare,
    'bare node',
  );
  const used = peak(['verify', big]);
  const empty = peak([]);
  const size = bigBytes.length / (1 << 20);
  console.log(
    `memory: ${used.toFixed(0)} MiB for a file of ${size.toFixed(0)} MiB, bare node ${empty.toFixed(0)} MiB: bare + ${((used - empty) / size).toFixed(2)} times the file`,
  );
}

/** CPU seconds and peak memory (MiB) of a command, by the process's own account. */
function cost(args: readonly string[]): { readonly seconds: number; readonly mebibytes: number } {
  const script =
    `process.on('exit',()=>{const u=process.resourceUsage();process.stderr.write('\\nCOST '+(u.userCPUTime+u.systemCPUTime)+' '+u.maxRSS+'\\n')});` +
    `process.argv=['node','elftrace',...${JSON.stringify(args)}];await import(${JSON.stringify(cli)});`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${args.join(' ')}: ${stderr.toString()}`);
  const [, time, memory] = /COST (\d+) (\d+)/.exec(stderr.toString()) ?? [];
  return { seconds: Number(time) / 1e6, mebibytes: Number(memory) / 1024 };
}

/** Everything that a proof says of each site, as text. */
function proofText(args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, 'prove', ...args, '--all', '--json'], {
    maxBuffer: 1 << 28,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`prove ${args.join(' ')}: ${stderr}`);
  return stdout;
}

/**
 * Proofs of all sites of an image, two trials each, on one core: how their cost grows with the
 * sites (the aim: no faster than their number), and that any number of threads says the same.
 */
function benchProving(): void {
  const counts = [1000, 10_000, 40_000] as const;
  const images = { 'x86-64': (count: number) => x86Image(8 << 20, count), arm64: arm64Image };
  for (const [target, image] of Object.entries(images)) {
    const medians = counts.map((count) => {
      const [before, after] = [join(folder, 'before'), join(folder, 'after')];
      writeFileSync(before, image(count));
      time(process.execPath, [cli, 'patch', before, '--init', '-o', after]);
      const all = Array.from({ length: Math.min(runs, 3) }, () => cost(['prove', after, before, '--jobs', '1']));
      const seconds = all.map((each) => each.seconds);
      const memory = Math.max(...all.map((each) => each.mebibytes));
      const each = (1e6 * median(seconds)) / count;
      console.log(
        `prove ${count} sites of ${target}: ${spread(seconds, 2)} s CPU, ${each.toFixed(0)} us a site, ${memory.toFixed(0)} MiB`,
      );
      if (count === 10_000 && proofText([after, before, '--jobs', '1']) !== proofText([after, before, '--jobs', '2']))
        throw new Error(`prove ${target}: two threads say something else than one`);
      return median(seconds);
    });
    const growth = [1, 2].map(
      (i) =>
        `${counts[i]! / counts[i - 1]!} times the sites: ${(medians[i]! / medians[i - 1]!).toFixed(2)} times the CPU`,
    );
    console.log(`prove, growth of ${target}: ${growth.join('; ')}; two threads say what one says`);
  }
}

/** A tree of as many modules, the larger the rarer: 5 to 320 sites. */
function moduleTree(name: string, count: number): string {
  const tree = join(folder, name);
  const kinds = [5, 10, 10, 20, 20, 20, 40, 40, 80, 320].map((sites, seed) => x86Object(sites, seed + 1));
  for (let at = 0; at < count; at++) {
    const below = join(tree, String(at % 50));
    if (at < 50) mkdirSync(below, { recursive: true });
    writeFileSync(join(below, `module${String(at)}.ko`), kinds[at % kinds.length]!);
  }
  return tree;
}

/**
 * `verify` of 4,000 plain modules (the aim: 400 a second on two cores) against `readelf`, which
 * reads the same tables; and of packed ones against `xz`, which only unpacks.
 * @param given  a tree of plain modules in place of made ones
 */
function benchTree(given?: string): void {
  const tree = given ?? moduleTree('tree', 4000);
  const modules = (below: string): string[] =>
    readdirSync(below, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.ko(\.xz)?$/.test(name))
      .map((name) => join(below, name));
  const all = modules(tree);
  const files = all.length;
  const verified = (): number => time(process.execPath, [cli, 'verify', '--quiet', tree]);
  if (hasTool('readelf')) {
    pair(`${files} modules, verify`, verified, () => time('readelf', ['-SrsW', ...all]), 'readelf -SrsW');
  }
  const once = Math.min(...Array.from({ length: 3 }, verified));
  const { seconds } = cost(['verify', '--quiet', '--jobs', '1', tree]);
  console.log(
    `${(files / once).toFixed(0)} modules/s by the clock on ${availableParallelism()} cores, ` +
      `${(files / seconds).toFixed(0)} per second of CPU on one`,
  );
  benchJobs(all, verified, () => time(process.execPath, [cli, 'verify', '--quiet', '--jobs', '1', tree]));
  if (!hasTool('xz')) return;
  const packed = moduleTree('packed', 400);
  spawnSync('xz', ['--check=crc32', ...modules(packed)], { stdio: 'inherit' });
  const names = modules(packed);
  pair(
    `${names.length} modules in xz, verify`,
    () => time(process.execPath, [cli, 'verify', '--quiet', packed]),
    () => time('xz', ['-dc', ...names]),
    'xz -dc',
  );
}

/** Two threads against one; a process that patches all files of a list (the aim: 300 a second). */
function benchJobs(all: readonly string[], two: () => number, one: () => number): void {
  pair(`${all.length} modules, verify --jobs 1`, one, two, 'as many threads as processors');
  const list = join(folder, 'list');
  writeFileSync(list, all.map((name) => `${name}\n`).join(''));
  const out = join(folder, 'patched');
  mkdirSync(out);
  const seconds = time(process.execPath, [cli, 'patch', '--nop', '--files-from', list, '-o', join(out, '{}')]);
  console.log(`patch --files-from of ${all.length} modules: ${(all.length / seconds).toFixed(0)} files/s by the clock`);
}

/** Two threads in a function whose site changes to a call, CPUs with stale code (the aim: 5 s). */
function benchRaces(): void {
  const samples = {
    'x86-64': ['x86-64/program-fentry'],
    arm64: ['arm64/program-patchable-4-2'],
    riscv64: ['riscv64/program-patchable-8-4-aligned', '--variant', 'stopped', '--preempt', 'none'],
    'ppc64-elfv2-le': ['ppc64-elfv2-le/program-mprofile'],
    ppc32: ['ppc32/program-mcount'],
  };
  for (const [target, [sample, ...options]] of Object.entries(samples)) {
    const args = ['race', join(root, 'samples', 'built', sample!), '--site', 'leaf', '--cpus', '2', ...options];
    const all = Array.from({ length: Math.min(runs, 3) }, () => cost(args));
    const memory = Math.max(...all.map((each) => each.mebibytes));
    const seconds = spread(
      all.map((each) => each.seconds),
      2,
    );
    console.log(`race of two threads on ${target}: ${seconds} s CPU, ${memory.toFixed(0)} MiB`);
  }
}

try {
  const [part, ...only] = process.argv.slice(2);
  if (part === undefined) benchPatching();
  if (part === undefined || part === 'start') benchStart({ folder, cli, runs, spread });
  if (part === undefined || part === 'sites') benchSites({ folder, cli, runs: Math.min(runs, 3), spread });
  if (part === undefined || part === 'prove') benchProving();
  if (part === undefined || part === 'tree') benchTree(only[0]);
  if (part === undefined || part === 'race') benchRaces();
  if (part === undefined || part === 'native') benchNative({ folder, cli, runs, hasTool, spread, cost });
  if (part === undefined || part === 'traced') benchTracedCalls({ root, folder, cli, runs, hasTool, spread });
  if ((part === undefined || part === 'programs') && hasTool('qemu-x86_64')) {
    benchPrograms({ folder, cli, runs: Math.min(runs, 3), only, spread });
  }
  // Hours for everything: by name only.
  if (part === 'yardstick') benchYardstick({ root, folder, cli, runs, words: only, hasTool, spread });
  if (part === undefined || part === 'emulator') benchEmulator({ root, folder, runs, only, hasTool, spread });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
