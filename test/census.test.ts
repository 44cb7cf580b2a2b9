/**
 * Programs of the census (`scripts/census`) that need nothing but the cross compilers, each on one
 * machine: output and exit status are those of qemu-user. `npm run soak` runs all programs on all
 * machines, and those of a distribution.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { OWN_PROGRAMS, type OwnProgram } from '../scripts/census/programs.js';
import { elftrace } from './support/cli.js';
import { PROGRAMS } from './support/emulator.js';
import { run } from './support/run.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run as runTool, tool } from './support/tools.js';
import { few, isLong, isWhole } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'census-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** C++ is there for the machine that runs the tests. */
const MACHINES = [
  ['x86-64', 'gcc', 'qemu-x86_64', 'qemu64'],
  ['arm64', 'aarch64-linux-gnu-gcc', 'qemu-aarch64', 'cortex-a57'],
  ['riscv64', 'riscv64-linux-gnu-gcc', 'qemu-riscv64', 'rv64'],
  ['ppc64le', 'powerpc64le-linux-gnu-gcc', 'qemu-ppc64le', 'power9'],
  ['ppc64', 'powerpc64-linux-gnu-gcc', 'qemu-ppc64', 'power9'],
  ['ppc32', 'powerpc-linux-gnu-gcc', 'qemu-ppc', '750'],
] as const;

function build(gcc: string, { name, source, flags }: OwnProgram): string {
  const path = join(folder, name);
  const compiler = source.endsWith('.cc') ? 'g++' : gcc;
  const libraries = flags.filter((each) => each.startsWith('-l'));
  const others = flags.filter((each) => !each.startsWith('-l'));
  runTool(compiler, ['-w', '-static', ...others, '-o', path, join(PROGRAMS, 'census', source), ...libraries]);
  return path;
}

OWN_PROGRAMS.forEach((program, i) => {
  if (!isLong && i % 2 > 0) return;
  const [name, gcc, qemu, cpu] = MACHINES[program.source.endsWith('.cc') ? 0 : i % MACHINES.length]!;
  describeWith([gcc, qemu, 'g++'], `${program.name} on ${name}`, () => {
    test('as under qemu-user', () => {
      const path = build(gcc, program);
      const there = spawnSync(qemu, ['-cpu', cpu, path], { encoding: 'latin1' });
      const here = run([path]);
      expect([here.status, here.stdout]).toEqual([there.status, there.stdout]);
      expect(here.json['deviations']).toEqual([]);
      expect(there.stdout).not.toBe('');
    });
  });
});

/** Of the programs each so-many-th, on one machine; whole runs try all on all. */
const PATCHED = isWhole ? 1 : 3;
const SITES = {
  gcc: ['-mfentry', '-fno-pie'],
} as Readonly<Record<string, readonly string[]>>;

/** The program with sites in its own code: a table is made for its object before it is linked. */
function buildWithSites(name: string, gcc: string, { source, flags }: OwnProgram): string {
  const [object, table, path] = ['o', 'table.o', 'sites'].map((each) => join(folder, `${name}.${each}`)) as [
    string,
    string,
    string,
  ];
  const compiler = source.endsWith('.cc') ? 'g++' : gcc;
  const libraries = flags.filter((each) => each.startsWith('-l'));
  const others = flags.filter((each) => !each.startsWith('-l'));
  runTool(compiler, [
    '-w',
    ...others,
    '-pg',
    ...(SITES[gcc] ?? []),
    '-c',
    '-o',
    object,
    join(PROGRAMS, 'census', source),
  ]);
  expect(elftrace(['mcount', '-o', table, object]).status).toBe(0);
  runTool(compiler, ['-w', '-static', '-no-pie', ...others, '-o', path, table, ...libraries]);
  return path;
}

OWN_PROGRAMS.forEach((program, i) => {
  if (!isLong || i % PATCHED > 0) return;
  for (const [name, gcc, qemu] of MACHINES) {
    const isOther = program.source.endsWith('.cc')
      ? gcc !== 'gcc'
      : !isWhole && name !== MACHINES[(i / 3) % MACHINES.length]![0];
    if (isOther) continue;
    describeWith([gcc, qemu, 'g++'], `${program.name} with sites on ${name}`, () => {
      test('with its calls patched away it does the same; it is traced', () => {
        const path = buildWithSites(`${program.name}-${name}`, gcc, program);
        const patched = `${path}.nop`;
        expect(elftrace(['patch', '--nop', '-o', patched, path]).status).toBe(0);
        const compared = run(['--compare', path, patched]);
        expect([compared.status, compared.json['compare']]).toMatchObject([0, { equal: true }]);
        const trace = `${path}.folded`;
        const traced = run(['--trace', trace, '--trace-source', 'oracle', '--format', 'folded', path]);
        expect(traced.stdout).toBe(run([patched]).stdout);
        expect(readFileSync(trace, 'utf8')).toMatch(/;?main(;\S+)* \d+$/m);
      });
    });
  }
});

/** Room in front of functions, of which `patch --enable` makes calls of the tracer. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  'x86-64': ['-fpatchable-function-entry=5', '-fno-pie'],
  arm64: ['-fpatchable-function-entry=2'],
  riscv64: ['-fpatchable-function-entry=4'],
  ppc64: ['-fpatchable-function-entry=2'],
  ppc32: ['-fpatchable-function-entry=2'],
};

/** `npm run soak -- traced` does the same to programs of Debian. */
for (const [name, gcc] of few(
  MACHINES.filter((each) => each[0] in ENTRIES),
  2,
)) {
  if (!isLong) continue;
  describeWith([gcc], `a program whose sites call the tracer, on ${name}`, () => {
    test('prints and ends as it did before, and records its calls', () => {
      const path = join(folder, `enabled-${name}`);
      const source = join(PROGRAMS, 'census', 'qsort.c');
      runTool(gcc, ['-w', '-O2', '-static', '-no-pie', ...ENTRIES[name]!, '-o', path, source]);
      const patched = `${path}.traced`;
      expect(elftrace(['patch', '--enable', '-o', patched, path]).status).toBe(0);
      const trace = `${path}.folded`;
      const [before, after] = [run([path]), run(['--trace', trace, '--format', 'folded', patched])];
      expect([after.status, after.stdout]).toEqual([before.status, before.stdout]);
      expect(before.stdout).not.toBe('');
      expect(readFileSync(trace, 'utf8')).toMatch(/;by_name \d+$/m);
    });
  });
}

/** Shells make processes: what busybox of this machine prints is what Linux does. */
const SCRIPT =
  'x=$(busybox seq 1 5 | busybox wc -l); echo $x; busybox false || echo no; (exit 7); echo $?; echo a >/dev/null; ' +
  'for i in 1 2 3; do echo $i; done | busybox sort -r; kill -9 $$';
describeWith(['busybox'], 'a shell', () => {
  test('pipelines, substitutions, statuses, signals', () => {
    const busybox = tool('busybox')!;
    const there = spawnSync(busybox, ['sh', '-c', SCRIPT], { encoding: 'utf8' });
    const here = run(['--root', '/', '--env', `PATH=${busybox.replace(/\/[^/]*$/, '')}`, '--', busybox, 'sh', '-c', SCRIPT]); // prettier-ignore
    expect(here.stdout).toBe(there.stdout);
    expect([there.signal, here.status]).toEqual(['SIGKILL', 137]);
  });
});
