/**
 * The programs of the census: what people run, with command lines that compute something, and
 * programs of our own for the parts of the C library that those leave out.
 */

/** A program of a distribution, in its tree. */
export interface TreeProgram {
  readonly name: string;
  readonly command: readonly string[];
  readonly input?: string;
  /** It makes others, which qemu-user cannot execute by itself. */
  readonly forks?: boolean;
  /** It prints owners and blocks of files, which in trees are those that the emulator tells. */
  readonly showsOwners?: boolean;
  /** Its lines come in the order in which a file system keeps names. */
  readonly isUnordered?: boolean;
  /** It is quick, and Debian's base or a package of `.ci/run` has it: tests run it here. */
  readonly isCommon?: boolean;
}

/** Where files of the census are in each tree. */
export const TREE_FILES = '/tmp/census';

/** These files. */
export const FILES: Readonly<Record<string, string>> = {
  'numbers.txt': Array.from({ length: 300 }, (_, i) => `${(i * 7919) % 1009} line ${i}\n`).join(''),
  'words.txt': 'the quick brown fox jumps over the lazy dog\n'.repeat(200),
  'script.lua': `
local t = {} for i = 1, 2000 do t[i] = math.sin(i) * i end table.sort(t)
print(t[1], t[2000], string.format("%.10f", math.pi), 7 // 2, 2^53, #t)
print(select('#', pcall(function() error({code = 3}) end)))`,
  'script.pl': `
my %h; $h{$_ % 17} += sqrt($_) for 1..2000; printf "%s %.6f\\n", $_, $h{$_} for sort { $a <=> $b } keys %h;
print join(",", map { sprintf "%g", $_ / 3 } 1..5), "\\n"; print "ok\\n" if "2026-11-26" =~ /^(\\d+)-(\\d+)-(\\d+)$/ && $2 == 11;`,
  'script.py': `
import math, sys
print(sum(math.sin(i) for i in range(2000)), 1/3, 10**30 // 7, round(2.675, 2), [x * x for x in range(5)])
d = {str(i): i / 7 for i in range(50)}; print(sorted(d.items())[:3], "%.3e" % 1234.5)
try:
    {}['x']
except KeyError as e:
    print('caught', e, sys.byteorder)`,
  'script.sql': `
create table t(a integer, b real, c text); with recursive n(i) as (select 1 union all select i + 1 from n where i < 200)
insert into t select i, i / 7.0, 'row ' || i from n; select count(*), sum(b), avg(b), max(c) from t where a % 3 = 0;
select round(sum(a * b), 4), total(b) from t; select printf('%.8f', sqrt(2)), abs(-3.5), 1e300 * 10;`,
};

export const at = (name: string): string => `${TREE_FILES}/${name}`;

/** Those of coreutils and the like, then those that need most. */
export const TREE_PROGRAMS: readonly TreeProgram[] = [
  { name: 'true', isCommon: true, command: ['/bin/true'] },
  { name: 'ls', command: ['/bin/ls', '-la', '--time-style=full-iso', '/usr/share/doc/dash'], showsOwners: true },
  { name: 'cat', isCommon: true, command: ['/bin/cat', at('words.txt')] },
  { name: 'sort', isCommon: true, command: ['/bin/sort', '-n', at('numbers.txt')] },
  { name: 'date', isCommon: true, command: ['/bin/date', '-u', '-d', '@1700000000', '+%s %F %T %A'] },
  { name: 'wc', isCommon: true, command: ['/bin/wc', at('words.txt'), at('numbers.txt')] },
  { name: 'seq', isCommon: true, command: ['/bin/seq', '0', '0.1', '1'] },
  { name: 'sha256sum', isCommon: true, command: ['/bin/sha256sum', at('words.txt')] },
  { name: 'printf', isCommon: true, command: ['/usr/bin/printf', '%.3f %s %e\\n', '2.5', 'x', '1.5'] },
  { name: 'od', isCommon: true, command: ['/bin/od', '-t', 'fD', '-N', '64', at('words.txt')] },
  { name: 'factor', isCommon: true, command: ['/bin/factor', '1234567890123', '18446744073709551557'] },
  { name: 'gzip', isCommon: true, command: ['/bin/gzip', '-c', '-n', at('words.txt')] },
  { name: 'xz', isCommon: true, command: ['/usr/bin/xz', '-c', '-T1', at('words.txt')] },
  { name: 'bc', command: ['/usr/bin/bc', '-l'], input: 'scale=30; e(1); 4*a(1); sqrt(2)\n2^200\n' },
  { name: 'lua', command: ['/usr/bin/lua5.4', at('script.lua')] },
  { name: 'sqlite3', command: ['/usr/bin/sqlite3', ':memory:', `.read ${at('script.sql')}`] },
  { name: 'perl', isCommon: true, command: ['/usr/bin/perl', at('script.pl')] },
  { name: 'python3', isCommon: true, command: ['/usr/bin/python3', '-S', at('script.py')] },
  {
    name: 'openssl aes',
    isCommon: true,
    command: [
      '/usr/bin/openssl',
      'enc',
      '-aes-256-cbc',
      '-K',
      '0123456789abcdef',
      '-iv',
      '0f',
      '-in',
      at('words.txt'),
      '-a',
    ],
  },
  { name: 'openssl digest', command: ['/usr/bin/openssl', 'dgst', '-sha3-256', at('words.txt')] },
  {
    name: 'openssl prime',
    command: ['/usr/bin/openssl', 'prime', '340282366920938463463374607431768211507'],
  },
  // Written in Rust.
  {
    name: 'ripgrep',
    command: ['/usr/bin/rg', '--no-config', '-n', '--sort', 'path', 'line [0-9]*7$|lazy d.g', '/tmp/census'],
  },
  { name: 'hexyl', command: ['/usr/bin/hexyl', '--color=never', '-n', '300', at('numbers.txt')] },
  { name: 'busybox ls', command: ['/bin/busybox', 'ls', '-l', '/usr/share/doc/dash'], showsOwners: true },
  { name: 'busybox sort', isCommon: true, command: ['/bin/busybox', 'sort', '-n', at('numbers.txt')] },
  { name: 'busybox awk', isCommon: true, command: ['/bin/busybox', 'awk', 'BEGIN{print 1/3,sin(1),exp(2),int(7.9)}'] },
  { name: 'busybox sha256', isCommon: true, command: ['/bin/busybox', 'sha256sum', at('words.txt')] },
  { name: 'busybox dc', isCommon: true, command: ['/bin/busybox', 'dc', '-e', '2 3 / p 9 v p'] },
];

/** Beyond the census: programs that make others. qemu-user cannot execute them by itself. */
export const PROCESS_PROGRAMS: readonly TreeProgram[] = [
  { name: 'dash', isCommon: true, command: ['/bin/dash', '-c', 'for i in 1 2 3; do echo $i; done | sort -r; (exit 5); echo $? $(echo sub)'], forks: true },
  { name: 'dash pipeline', isCommon: true, command: ['/bin/dash', '-c', `cat ${at('words.txt')} | tr ' ' '\\n' | sort | uniq -c | sort -rn | head -n 3`], forks: true },
  { name: 'env', isCommon: true, command: ['/usr/bin/env', '-i', 'A=b', '/bin/printenv'], forks: true },
  { name: 'timeout', command: ['/usr/bin/timeout', '5', '/bin/echo', 'in time'], forks: true },
  { name: 'busybox sh', isCommon: true, command: ['/bin/busybox', 'sh', '-c', 'x=$(busybox seq 1 5 | busybox wc -l); echo $x; busybox false || echo no'], forks: true },
  { name: 'perl fork', command: ['/usr/bin/perl', '-e', 'if (my $p = fork) { waitpid $p, 0; print $? >> 8, "\\n" } else { exit 3 } print `echo back`;'], forks: true },
  { name: 'python subprocess', command: ['/usr/bin/python3', '-S', '-c', 'import os; r, w = os.pipe(); p = os.fork()\nif p == 0: os.write(w, b"child"); os._exit(4)\nprint(os.read(r, 9), os.waitpid(p, 0)[1] >> 8); print(os.popen("echo hi").read())'], forks: true },
]; // prettier-ignore

/** A program of our own: a source in `test/programs/census`. */
export interface OwnProgram {
  readonly name: string;
  readonly source: string;
  readonly flags: readonly string[];
  /** It has one thread, and does the same under any clock. */
  readonly counts: boolean;
  /** With this C library too. */
  readonly musl: boolean;
  /** For machines whose qemu-user stops: the one under whose qemu-user it prints the same. */
  readonly likeOn?: Readonly<Record<string, string>>;
}

const own = (name: string, more: Partial<OwnProgram> = {}): OwnProgram => ({
  name, source: `${name}.c`, flags: ['-O2'], counts: true, musl: true, ...more,
}); // prettier-ignore

/** libm executes `mffscrni` as `mffs` before it asks for the processor; qemu-ppc refuses it. */
const MFFSCRNI = { ppc32: 'ppc64' } as const;

export const OWN_PROGRAMS: readonly OwnProgram[] = [
  own('hello'),
  own('printf'),
  own('qsort'),
  own('str'),
  own('math', { flags: ['-O2', '-lm'], likeOn: MFFSCRNI }),
  own('thr', { flags: ['-O2', '-pthread'], counts: false }),
  own('sig', { counts: false }),
  own('cxx', { source: 'cxx.cc', flags: ['-O2', '-pthread'], counts: false, musl: false }),
  own('loops', { flags: ['-O3', '-lm'], musl: false }),
];

/** The tenth of these is of Debian's sources, without a tree. */
export const LUA = { name: 'lua', args: ['-e', FILES['script.lua']!], likeOn: MFFSCRNI } as const;
