/**
 * What soaks of programs from Debian's sources share: the programs, how they are fetched, built and
 * run, and how two counts of calls are compared.
 */
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const cli = `'${process.execPath}' '${join(root, 'dist', 'cli.cjs')}'`;
/** Where all of it lies. */
export const folder = process.env['ELFTRACE_SOAK'] ?? mkdtempSync(join(tmpdir(), 'elftrace-soak-'));

interface Program {
  /** Source package. */
  readonly source: string;
  /** In the folder of the source, with CC, CXX, CFLAGS, CXXFLAGS and LDFLAGS in the environment. */
  readonly build: string;
  /** The same for another machine; CROSS is the prefix of its tools, EMULATOR what runs them. */
  readonly cross?: string;
  /** The program, in that folder. */
  readonly program: string;
  /** What it is run with, in a folder of its own: `$P` is the program, `$S` a file of text. */
  readonly runs: readonly string[];
}

export const programs: Readonly<Record<string, Program>> = {
  gzip: {
    source: 'gzip',
    build: './configure --quiet && make -s',
    program: 'gzip',
    runs: ['$P -9 -c $S', '$P -1 -c $S | $P -d -c', '$P -l nothing', '$P --version'],
  },
  bc: {
    source: 'bc',
    build: './configure --quiet && make -s MAKEINFO=true',
    // The functions of `-l` are made by a program of the machine.
    cross:
      './configure --quiet --host=${CROSS%-} && sed -i "s#[.]/fbc -c#$EMULATOR ./fbc -c#" bc/Makefile && make -s MAKEINFO=true',
    program: 'bc/bc',
    runs: [
      `echo 'scale=40; 4*a(1); e(1); sqrt(2)' | $P -l`,
      `printf 'define f(n) { if (n < 2) return n; return f(n-1) + f(n-2); }\\nf(15)\\n2^500 %% 997\\n' | $P`,
      'echo "1/0" | $P',
    ],
  },
  lua: {
    source: 'lua5.4',
    build: 'cd src && make -s linux CC="$CC" MYCFLAGS="$CFLAGS" MYLDFLAGS="$LDFLAGS"',
    program: 'src/lua',
    runs: [
      `$P -e 'local function f(n) return n < 2 and n or f(n-1) + f(n-2) end print(f(18))'`,
      `$P -e 'local t = {} for i = 1, 3000 do t[i] = tostring(i * 7919 % 3001) end table.sort(t) print(#table.concat(t), pcall(error, "x"))'`,
      `$P -e 'local c = coroutine.wrap(function() for i = 1, 99 do coroutine.yield(i) end end) for i = 1, 99 do io.write(c(), " ") end'`,
      `$P -e 'error("wrong")'`,
    ],
  },
  sqlite3: {
    source: 'sqlite3',
    build:
      './configure --quiet --disable-tcl --disable-readline && make -s sqlite3.c shell.c && $CC $CFLAGS -DSQLITE_THREADSAFE=1 -I. -c shell.c && $CC $CFLAGS -DSQLITE_THREADSAFE=1 -I. -c sqlite3.c && $CC shell.o sqlite3.o -o sqlite3 $LDFLAGS -lm -ldl -lpthread',
    program: 'sqlite3',
    runs: [
      `$P :memory: 'create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i+1 from n where i < 900) insert into t select i, hex(i * 7919 % 907) from n; create index x on t(b); select count(*), min(b), max(b), sum(a) from t where b > "3"; select b, count(*) from t group by b having a < 40 order by 1;'`,
      `$P file.db 'create table t(a, b); insert into t values (1, 2), (3, 4); select * from t;' && $P file.db 'pragma integrity_check; delete from t; vacuum;'`,
      `$P :memory: 'select wrong'`,
    ],
  },
  ninja: {
    source: 'ninja-build',
    build: 'python3 configure.py --bootstrap > /dev/null',
    // It is built by itself otherwise.
    cross:
      'objects=; for file in $(ls src/*.cc | grep -Ev "_test|_perftest|win32|msvc|test|hash_collision|canon_perf|browse|[.]in[.]cc"); do $CXX $CXXFLAGS -c "$file" -o "${file%.cc}.o" || exit 1; objects="$objects ${file%.cc}.o"; done; $CXX $objects -o ninja $LDFLAGS -lpthread',
    program: 'ninja',
    runs: [
      `printf 'rule c\\n  command = cat $in > $out\\nbuild a: c in\\nbuild b: c a\\n' > build.ninja && echo x > in && $P -j1 && $P -j1 && $P -t graph | sed "s/0x[0-9a-f]*/N/g" && $P -t clean`,
      '$P --version',
      '$P missing',
    ],
  },
  busybox: {
    source: 'busybox',
    // The log's -pg does not go with it.
    build:
      'sed -i s/-fomit-frame-pointer// Makefile.flags && make -s defconfig > /dev/null && make -s CC="$CC" EXTRA_CFLAGS="$CFLAGS" EXTRA_LDFLAGS="$LDFLAGS" SKIP_STRIP=y',
    cross:
      'make -s defconfig > /dev/null && make -s CROSS_COMPILE="$CROSS" CC="$CC" EXTRA_CFLAGS="$CFLAGS" EXTRA_LDFLAGS="$LDFLAGS" SKIP_STRIP=y',
    program: 'busybox_unstripped',
    runs: [
      '$P sha256sum < $S',
      '$P awk "{ n += NF } END { print n }" < $S',
      '$P sed -n "s/a/b/gp" < $S',
      '$P bzip2 -c < $S | $P bunzip2 -c',
      `$P sh -c 'i=0; while [ $i -lt 50 ]; do i=$((i+1)); done; echo $i | $P cat'`,
    ],
  },
};

export function shell(
  command: string,
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): SpawnSyncReturns<Buffer> {
  return spawnSync('bash', ['-c', command], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, LC_ALL: 'C', ...env },
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

export function must(what: string, { status, stdout, stderr }: SpawnSyncReturns<Buffer>): Buffer {
  if (status === 0) return stdout;
  throw new Error(`${what}: status ${status}: ${stderr.toString().slice(-2000)}`);
}

export const flag = (name: string): string =>
  must(name, shell(`dpkg-buildflags --get ${name}`, folder))
    .toString()
    .trim();

/**
 * A C++ compiler behind which tables of sites are made such that a link of older GNU tools takes
 * them: functions of which it drops all copies but one have tables of their own.
 */
export function repairing(compiler: string): string {
  const script = join(folder, `repairing-${compiler}`);
  const text = `#!/bin/bash
last= out= compiles=
for word in "$@"; do
  case "$last" in -o) out="$word" ;; esac
  [ "$word" = -c ] && compiles=1
  last="$word"
done
${compiler} "$@" || exit $?
[ -n "$compiles" ] && ${cli} mcount --repair "$out" --in-place > /dev/null 2>&1
exit 0
`;
  writeFileSync(script, text, { mode: 0o755 });
  return script;
}

/** Unpacks a source package, anew. */
export function unpack(source: string, into: string): string {
  const lists = join(folder, 'lists');
  const options = [
    `-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=${folder}/parts`,
    `-o Dir::State::lists=${lists} -o APT::Sandbox::User=root`,
  ].join(' ');
  if (!existsSync(lists)) {
    mkdirSync(join(lists, 'partial'), { recursive: true });
    mkdirSync(join(folder, 'parts'));
    const release = must('release', shell('. /etc/os-release; echo $VERSION_CODENAME', folder)).toString().trim();
    const key = '/usr/share/keyrings/debian-archive-keyring.gpg';
    const text = `Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: ${release}\nComponents: main\nSigned-By: ${key}\n`;
    writeFileSync(join(folder, 'parts', 'source.sources'), text);
    must('apt-get update', shell(`apt-get ${options} update -q`, folder));
  }
  const packed = join(folder, 'packed', source);
  if (!existsSync(packed)) {
    mkdirSync(packed, { recursive: true });
    must(`source of ${source}`, shell(`apt-get ${options} source -q --download-only ${source}`, packed));
  }
  rmSync(into, { recursive: true, force: true });
  must(`unpacking ${source}`, shell(`dpkg-source --no-check --skip-patches -x ${packed}/*.dsc ${into}`, folder));
  return into;
}

export interface Ran {
  readonly status: number | null;
  readonly text: string;
}

export function runs(name: string, program: string, env: Readonly<Record<string, string>>): Ran[] {
  const text = join(folder, 'text');
  if (!existsSync(text)) writeFileSync(text, readFileSync(join(root, 'docs', 'guide.md')));
  return programs[name]!.runs.map((command) => {
    const place = mkdtempSync(join(folder, 'run-'));
    const { status, stdout, stderr } = shell(command, place, { P: program, S: text, ...env });
    rmSync(place, { recursive: true });
    return { status, text: `${stdout.toString('latin1')}\n${stderr.toString('latin1').replaceAll(program, 'P')}` };
  });
}

export function recorded(dir: string): { readonly counts: Map<string, number>; readonly dropped: number } {
  const report = shell(`${cli} report --json '${dir}'`, folder);
  const { functions, dropped } = JSON.parse(must('report', report).toString()) as {
    functions: { function: string; calls: number }[];
    dropped: number;
  };
  const counts = new Map<string, number>();
  for (const { function: name, calls } of functions) counts.set(name, (counts.get(name) ?? 0) + calls);
  return { counts, dropped };
}

/** Constructors and destructors of complete objects and of bases may be one function. */
function byFunction(counts: ReadonlyMap<string, number>): Map<string, number> {
  const found = new Map<string, number>();
  for (const [name, calls] of counts) {
    const one = name.replace(/([CD])1(?=[EI])/g, '$12');
    found.set(one, (found.get(one) ?? 0) + calls);
  }
  return found;
}

export function differences(expected: ReadonlyMap<string, number>, found: ReadonlyMap<string, number>): string[] {
  const [log, trace] = [byFunction(expected), byFunction(found)];
  const names = [...new Set([...log.keys(), ...trace.keys()])].sort();
  return names.flatMap((name) => {
    const [before, after] = [log.get(name) ?? 0, trace.get(name) ?? 0];
    return before === after ? [] : [`${name}: log ${before}, trace ${after}`];
  });
}

/** Soaks each, says what fails, and takes everything away unless it was asked to stay. */
export function soakAll(names: readonly string[], soak: (name: string) => boolean): void {
  const results = (names.length > 0 ? names : Object.keys(programs)).map((name) => {
    try {
      return soak(name);
    } catch (error) {
      console.log(`${name}: ${error instanceof Error ? error.message : String(error)}`);
      return false;
    }
  });
  if (process.env['ELFTRACE_SOAK'] === undefined) rmSync(folder, { recursive: true, force: true });
  process.exitCode = results.every(Boolean) ? 0 : 1;
}
