/**
 * `npm run soak -- native [PROGRAM …]`: programs of Debian, from its sources and with its flags
 * and one option more, record their own calls. What they print and how they end is what they did
 * before, and each function was called as often as in a log that is none of ours: the same sources
 * with `-pg -mfentry` in place of the nops, and a `__fentry__` that appends the address of each
 * function to a file. Both have the same code but for the sites: nothing is inlined in one of them.
 *
 * Sources come from the mirror by `apt-get source`, with lists of their own, without Debian's
 * patches, which change how some of them are built.
 */
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import {
  closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, readSync, rmSync, writeFileSync,
} from 'node:fs'; // prettier-ignore
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const cli = join(root, 'dist', 'cli.js');
const folder = process.env['ELFTRACE_SOAK'] ?? mkdtempSync(join(tmpdir(), 'elftrace-soak-'));

interface Program {
  /** Source package. */
  readonly source: string;
  /** In the folder of the source, with CC, CXX, CFLAGS, CXXFLAGS and LDFLAGS in the environment. */
  readonly build: string;
  /** The program, in that folder. */
  readonly program: string;
  /** What it is run with, in a folder of its own: `$P` is the program, `$S` a file of text. */
  readonly runs: readonly string[];
}

const programs: Readonly<Record<string, Program>> = {
  gzip: {
    source: 'gzip',
    build: './configure --quiet && make -s',
    program: 'gzip',
    runs: ['$P -9 -c $S', '$P -1 -c $S | $P -d -c', '$P -l nothing', '$P --version'],
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
      './configure --quiet --disable-tcl --disable-readline && make -s sqlite3.c shell.c && $CC $CFLAGS -DSQLITE_THREADSAFE=1 -I. shell.c sqlite3.c -o sqlite3 $LDFLAGS -lm -ldl -lpthread',
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
    program: 'ninja',
    runs: [
      `printf 'rule c\\n  command = cat $in > $out\\nbuild a: c in\\nbuild b: c a\\n' > build.ninja && echo x > in && $P -j1 && $P -j1 && $P -t graph && $P -t clean`,
      '$P --version',
      '$P missing',
    ],
  },
  busybox: {
    source: 'busybox',
    build:
      'make -s defconfig > /dev/null && make -s CC="$CC" EXTRA_CFLAGS="$CFLAGS" EXTRA_LDFLAGS="$LDFLAGS" SKIP_STRIP=y > /dev/null 2>&1',
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

/** The log of calls: the address behind each call of the hook, less where the program lies. */
const LOG = `
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
extern const char __executable_start[];
static unsigned long *log_words;
#define PLAIN __attribute__((no_instrument_function))
#define WORDS (1ul << 28)
PLAIN static unsigned long *open_log(void) {
  int file = open(getenv("TRUTH"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, WORDS * 8)) abort();
  unsigned long *at = mmap(0, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  return at == MAP_FAILED ? (abort(), (void *)0) : at;
}
PLAIN void log_call(unsigned long place) {
  if (!log_words) {
    // Programs of configure are run, too.
    if (!getenv("TRUTH")) return;
    log_words = open_log();
  }
  unsigned long at = __atomic_add_fetch(log_words, 1, __ATOMIC_RELAXED);
  if (at >= WORDS) abort();
  log_words[at] = place - (unsigned long)__executable_start;
}
__asm__(".globl __fentry__\\n.type __fentry__, @function\\n__fentry__:\\n"
  "push %rax\\npush %rdi\\npush %rsi\\npush %rdx\\npush %rcx\\npush %r8\\npush %r9\\npush %r10\\npush %r11\\n"
  "mov 72(%rsp), %rdi\\nmov %rsp, %r11\\nsub $560, %rsp\\nand $-64, %rsp\\nfxsave (%rsp)\\nmov %r11, 520(%rsp)\\n"
  "call log_call\\nmov 520(%rsp), %r11\\nfxrstor (%rsp)\\nmov %r11, %rsp\\n"
  "pop %r11\\npop %r10\\npop %r9\\npop %r8\\npop %rcx\\npop %rdx\\npop %rsi\\npop %rdi\\npop %rax\\nret\\n"
  ".size __fentry__, . - __fentry__");
`;

function shell(command: string, cwd: string, env: Readonly<Record<string, string>> = {}): SpawnSyncReturns<Buffer> {
  return spawnSync('bash', ['-c', command], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, LC_ALL: 'C', ...env },
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

function must(what: string, { status, stdout, stderr }: SpawnSyncReturns<Buffer>): Buffer {
  if (status === 0) return stdout;
  throw new Error(`${what}: status ${status}: ${stderr.toString().slice(-2000)}`);
}

const flag = (name: string): string =>
  must(name, shell(`dpkg-buildflags --get ${name}`, folder))
    .toString()
    .trim();

/** Unpacks a source package, anew. */
function unpack(source: string, into: string): string {
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

function build(name: string, variant: string, option: string, more: string): string {
  const { source, build: steps, program } = programs[name]!;
  const place = unpack(source, join(folder, `${name}-${variant}`));
  const env = {
    CC: 'gcc',
    CXX: 'g++',
    CFLAGS: `${flag('CFLAGS')} ${flag('CPPFLAGS')} ${option}`,
    CXXFLAGS: `${flag('CXXFLAGS')} ${flag('CPPFLAGS')} ${option}`,
    LDFLAGS: `${flag('LDFLAGS')} ${more}`,
  };
  must(`building ${name} (${variant})`, shell(steps, place, env));
  return join(place, program);
}

interface Ran {
  readonly status: number | null;
  readonly text: string;
}

function runs(name: string, program: string, env: Readonly<Record<string, string>>): Ran[] {
  const text = join(folder, 'text');
  if (!existsSync(text)) writeFileSync(text, readFileSync(join(root, 'docs', 'guide.md')));
  return programs[name]!.runs.map((command) => {
    const place = mkdtempSync(join(folder, 'run-'));
    const { status, stdout, stderr } = shell(command, place, { P: program, S: text, ...env });
    rmSync(place, { recursive: true });
    return { status, text: `${stdout.toString('latin1')}\n${stderr.toString('latin1').replaceAll(program, 'P')}` };
  });
}

/** Addresses of functions, ascending, with a name for each. */
function functionsOf(program: string): { readonly at: number; readonly name: string }[] {
  const text = must('nm', shell(`nm -n --defined-only '${program}'`, folder)).toString();
  const start = Number.parseInt(/^([0-9a-f]+) \S __executable_start$/m.exec(text)?.[1] ?? '0', 16);
  return [...text.matchAll(/^([0-9a-f]+) [tTwWi] (\S+)$/gm)].map(([, at, name]) => ({
    at: Number.parseInt(at!, 16) - start,
    name: name!,
  }));
}

/** Calls by function of a log: static functions of one name count together. */
function logged(program: string, log: string): Map<string, number> {
  const functions = functionsOf(program);
  const byPlace = new Map<number, number>();
  // The file is longer than an array may be; its first word says how much of it is used.
  const file = openSync(log, 'r');
  const piece = Buffer.alloc(1 << 20);
  let end = Infinity;
  for (let from = 0; from < end; from += piece.length) {
    const size = readSync(file, piece, 0, piece.length, from);
    if (from === 0) end = 8 + 8 * Number(piece.readBigUInt64LE(0));
    for (let at = from === 0 ? 8 : 0; at < Math.min(size, end - from); at += 8) {
      const place = Number(piece.readBigUInt64LE(at));
      byPlace.set(place, (byPlace.get(place) ?? 0) + 1);
    }
  }
  closeSync(file);
  const counts = new Map<string, number>();
  for (const [place, calls] of byPlace) {
    // The call ends in its function.
    const index = functions.findLastIndex(({ at }) => at < place);
    const name = functions[index]?.name ?? '?';
    counts.set(name, (counts.get(name) ?? 0) + calls);
  }
  return counts;
}

function recorded(dir: string): { readonly counts: Map<string, number>; readonly dropped: number } {
  const report = shell(`'${process.execPath}' '${cli}' report --json '${dir}'`, folder);
  const { functions, dropped } = JSON.parse(must('report', report).toString()) as {
    functions: { function: string; calls: number }[];
    dropped: number;
  };
  const counts = new Map<string, number>();
  for (const { function: name, calls } of functions) counts.set(name, (counts.get(name) ?? 0) + calls);
  return { counts, dropped };
}

function differences(expected: ReadonlyMap<string, number>, found: ReadonlyMap<string, number>): string[] {
  const names = [...new Set([...expected.keys(), ...found.keys()])].sort();
  return names.flatMap((name) => {
    const [before, after] = [expected.get(name) ?? 0, found.get(name) ?? 0];
    return before === after ? [] : [`${name}: log ${before}, trace ${after}`];
  });
}

function soak(name: string): boolean {
  const plain = build(name, 'plain', '-fpatchable-function-entry=5', '');
  const patched = `${plain}.traced`;
  must('record', shell(`'${process.execPath}' '${cli}' record -o '${patched}' '${plain}'`, folder));
  const log = join(folder, 'log.o');
  writeFileSync(join(folder, 'log.c'), LOG);
  must('log', shell(`gcc -O1 -fPIE -c log.c -o log.o`, folder));
  const twin = build(name, 'twin', '-pg -mfentry', log);
  const dir = mkdtempSync(join(folder, `trace-${name}-`));
  const truth = join(folder, `truth-${name}`);
  rmSync(truth, { force: true });
  const before = runs(name, plain, {});
  const traced = runs(name, patched, { ELFTRACE_DIR: dir });
  runs(name, twin, { TRUTH: truth });
  const isSame = before.every(
    ({ status, text }, i) => status === traced[i]!.status && text === traced[i]!.text.replaceAll(patched, 'P'),
  );
  const { counts, dropped } = recorded(dir);
  const wrong = differences(logged(twin, truth), counts);
  const calls = [...counts.values()].reduce((sum, each) => sum + each, 0);
  console.log(
    `${name}: ${before.length} runs, ${isSame ? 'output and status as before' : 'OUTPUT OR STATUS DIFFERS'}; ` +
      `${counts.size} functions, ${calls} calls, ${dropped} dropped, ${wrong.length} functions differ from the log; ` +
      `${readdirSync(dir).length} files`,
  );
  for (const line of wrong.slice(0, 20)) console.log(`  ${line}`);
  rmSync(dir, { recursive: true });
  rmSync(truth, { force: true });
  return isSame && dropped === 0 && wrong.length === 0;
}

const wanted = process.argv.slice(2);
const results = (wanted.length > 0 ? wanted : Object.keys(programs)).map((name) => {
  try {
    return soak(name);
  } catch (error) {
    console.log(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    return false;
  }
});
if (process.env['ELFTRACE_SOAK'] === undefined) rmSync(folder, { recursive: true, force: true });
process.exitCode = results.every(Boolean) ? 0 : 1;
