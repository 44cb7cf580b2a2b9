/**
 * Whole programs of the machine's own distribution, `npm run bench -- programs [NAME …]`: what a
 * user of `elftrace run` waits for. CPU time of whole processes, start and translation included, of
 * both tiers together, of tier 0 alone and of qemu-user, in turn; each writes the same bytes.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { childSeconds, geometricMean } from './cpu.js';

export interface ProgramBench {
  readonly folder: string;
  readonly cli: string;
  readonly runs: number;
  /** Programs that are measured; empty: all. */
  readonly only: readonly string[];
  readonly spread: (values: readonly number[], digits?: number) => string;
}

interface Whole {
  readonly name: string;
  readonly command: readonly string[];
}

const QEMU = 'qemu-x86_64';

/** Inputs in a folder, and the programs that read them: some tenths of a second to some seconds. */
function programsIn(folder: string): readonly Whole[] {
  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const numbers = Array.from({ length: 120_000 }, (_, i) => `${(i * 7919) % 100_003}\n`).join('');
  const list = file('numbers.txt', numbers);
  const few = file('few.txt', numbers.slice(0, 60_000));
  const python = `d = {str(i): i % 7 for i in range(2000)}
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(sorted(d.items())[:3], fib(21), sum(i * i for i in range(50000)))\n`;
  const perl = `my %h; $h{$_ % 17} += $_ * $_ for 1..200000; print "$_ $h{$_}\\n" for sort { $a <=> $b } keys %h;\n`;
  const sql = (rows: number): string =>
    `create table t(a integer, b text); with recursive n(i) as (select 1 union all select i + 1 from n where i < ${rows})
insert into t select i, 'row ' || i from n; select count(*), sum(a), max(b) from t where a % 3 = 0;\n`;
  const awk = '{ s += $1; n[$1 % 100]++ } END { print s, n[7]; for (i = 0; i < 300000; i++) t += i % 7; print t }';
  return [
    { name: 'python3 -c 1', command: ['/usr/bin/python3', '-S', '-c', 'print(1)'] },
    { name: 'python3', command: ['/usr/bin/python3', '-S', file('a.py', python)] },
    { name: 'perl', command: ['/usr/bin/perl', file('a.pl', perl)] },
    { name: 'sqlite3 few', command: ['/usr/bin/sqlite3', ':memory:', `.read ${file('few.sql', sql(3000))}`] },
    { name: 'sqlite3', command: ['/usr/bin/sqlite3', ':memory:', `.read ${file('a.sql', sql(60_000))}`] },
    { name: 'bc', command: ['/usr/bin/bc', '-lq', file('a.bc', 'scale=400; e(1); 4*a(1); sqrt(2)\n2^6000\n')] },
    { name: 'xz few', command: ['/usr/bin/xz', '-c', '-T1', few] },
    { name: 'xz', command: ['/usr/bin/xz', '-c', '-T1', list] },
    { name: 'gzip', command: ['/bin/gzip', '-c', '-n', list] },
    { name: 'sort', command: ['/usr/bin/sort', '-n', list] },
    { name: 'mawk', command: ['/usr/bin/mawk', awk, list] },
    { name: 'sha256sum', command: ['/usr/bin/sha256sum', list] },
    { name: 'grep', command: ['/bin/grep', '-cE', '(1|2)[0-9]*3$', list] },
    { name: 'openssl', command: ['/usr/bin/openssl', 'dgst', '-sha512', list] },
  ];
}

/** Each program: ratios of qemu-user's CPU time to ours (more is faster), and of the tiers. */
export function benchPrograms({ folder, cli, runs, only, spread }: ProgramBench): void {
  const all: number[] = [];
  for (const { name, command } of programsIn(folder)) {
    if (!existsSync(command[0]!) || (only.length > 0 && !only.includes(name.split(' ')[0]!))) continue;
    const ours = [cli, 'run', '--root', '/', '--max-instructions', 'none'];
    const ratios: number[] = [];
    const tiers: number[] = [];
    const spent: number[] = [];
    for (let i = 0; i < runs; i++) {
      const both = childSeconds(process.execPath, [...ours, ...command]);
      const qemu = childSeconds(QEMU, command);
      const alone = childSeconds(process.execPath, [...ours, '--tier', '0', ...command]);
      if (both.output !== alone.output || both.output !== qemu.output) throw new Error(`${name}: outputs differ`);
      ratios.push(qemu.seconds / both.seconds);
      tiers.push(both.seconds / alone.seconds);
      spent.push(both.seconds);
    }
    all.push(...ratios);
    console.log(
      `${name}: ${spread(spent, 2)} s CPU; ${spread(ratios, 2)} of qemu-user's speed; ` +
        `both tiers take ${spread(tiers, 2)} times the CPU time of tier 0`,
    );
  }
  if (all.length === 0) return;
  console.log(`programs: geometric mean ${geometricMean(all).toFixed(2)} of qemu-user's speed`);
}
