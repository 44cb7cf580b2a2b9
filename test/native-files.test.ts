/**
 * Files that are patched once to write their own trace: the system's tools take them, they come
 * back byte for byte, what cannot be served is refused; and what their traces say.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from '@jest/globals';
import { HEADER, HEADER_BYTES, RECORD } from '../src/native/layout.js';
import { scratch } from './support/c-programs.js';
import { elftrace as cold, warmElftrace as elftrace } from './support/cli.js';
import {
  compile, countsOf, describeNatively, FORMS, NOPS, patched, type Ran, report, schemaOf, traced,
} from './support/native-run.js'; // prettier-ignore
import { isWhole } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { run, runProgramFile } from './support/tools.js';

const FIB = `#include <stdio.h>\n#include <stdlib.h>
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int count, char **words) { printf("%d\\n", fib(count > 1 ? atoi(words[1]) : 12)); return 3; }`;
const OWN_CALLS = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls'];
const PLAIN = [...OWN_CALLS, NOPS];
const FIB12 = { fib: 465, main: 1 };
const made = new Map<string, string>();
const program = (): string => {
  const path = made.get('fib') ?? compile(FIB, PLAIN);
  made.set('fib', path);
  return path;
};

describeNatively('files', () => {
  const some = FORMS.filter((_, i) => isWhole || i % 3 === 1);
  test.each(some.map((form) => [form.join(' '), form] as const))(
    'RT-25, RT-27, RT-32: strip, readelf and revert take it: %s',
    (_, form) => {
      const plain = compile(FIB, [...OWN_CALLS, ...form]);
      const output = patched(plain);
      const stripped = scratch('stripped');
      run('strip', ['-o', stripped, output]);
      for (const each of [output, stripped]) {
        const ran = traced(each);
        expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
        // Names come from the patched file as well as from the original.
        for (const objects of [[], [output]]) expect(countsOf(report(ran.dir, ...objects))).toEqual(FIB12);
      }
      for (const options of ['-lW', '-SW', '-dW', '-nW', '-rW']) {
        const { status, stderr } = runProgramFile('readelf', [options, output]);
        expect([options, status, stderr]).toEqual([options, 0, '']);
      }
      // Off without a directory, and where it is said.
      expect(spawnSync(output, [], { cwd: dirname(output), env: {} }).status).toBe(3);
      const off = traced(output, [], { ELFTRACE_OFF: '1' });
      expect([off.status, readdirSync(off.dir)]).toEqual([3, []]);
      const back = scratch('back');
      expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
      expect(readFileSync(back).equals(readFileSync(plain))).toBe(true);
      // Loads are in order of their addresses, one more than before, which nobody writes to.
      const loads = (file: string): string[] =>
        [
          ...run('readelf', ['-lW', file])
            .toString()
            .matchAll(/^ +LOAD +(.*)$/gm),
        ].map(([, row]) => row!);
      const [before, after] = [loads(plain), loads(output)];
      expect(after.length).toBe(before.length + 1);
      const addresses = after.map((row) => BigInt(row.split(/ +/)[1]!));
      expect([...addresses].sort((a, b) => (a < b ? -1 : 1))).toEqual(addresses);
      expect(after.at(-1)).toMatch(/ R E 0x1000$/);
    },
  );

  test.each([[[NOPS]], [['-pg', '-mfentry', '-mrecord-mcount']]])(
    'RT-56: functions of a stripped program are addresses: %j',
    (form) => {
      const names = compile(FIB, [...OWN_CALLS, ...form]);
      const bare = scratch('bare');
      run('strip', ['-o', bare, names]);
      const ran = traced(patched(bare));
      const counts = countsOf(report(ran.dir));
      expect([ran.status, ran.stdout]).toEqual([3, '144\n']);
      expect([Object.values(counts).sort(), Object.keys(counts).every((name) => /^0x[0-9a-f]+$/.test(name))]).toEqual([
        [1, 465],
        true,
      ]);
    },
  );

  test('a name without a slash is a program in PATH where it is run, and a file where one is written', () => {
    const folder = scratch('folder');
    mkdirSync(folder);
    writeFileSync(join(folder, 'true'), readFileSync(program()), { mode: 0o755 });
    const ran = elftrace(['record', 'true'], { cwd: folder });
    expect([ran.status, ran.stderr]).toEqual([
      125,
      expect.stringMatching(/^\/\S*bin\/true: error: the file has no sites/),
    ]);
    expect(elftrace(['record', '-o', 'out', 'true'], { cwd: folder }).stdout).toContain(
      '2 functions write their calls',
    );
  });

  test('RT-27: a site of it alone cannot be changed: the runtime would go, and the others call it', () => {
    const output = patched(program());
    const never = scratch('never');
    const { status, stderr } = elftrace(['patch', output, '--nop', '-l', 'fib', '-o', never]);
    expect([status, existsSync(never)]).toEqual([4, false]);
    expect(stderr).toMatch(/code by an earlier patch: revert it first/);
    expect(elftrace(['verify', output]).stdout).toContain('2 sites: 2 ok');
    expect(elftrace(['status', output]).stdout).toContain('record function');
  });

  test('RT-27: only sites, headers and what lies behind the old end differ', () => {
    const [before, after] = [readFileSync(program()), readFileSync(patched(program()))];
    const changed = [...before.keys()].filter((at) => before[at] !== after[at]);
    const symbols = run('nm', [program()]).toString();
    const sites = [...symbols.matchAll(/^([0-9a-f]+) T (?:fib|main)$/gm)].map(([, at]) => Number.parseInt(at!, 16));
    const table = before.readUInt16LE(56) * 56 + Number(before.readBigUInt64LE(32));
    const isInSite = (at: number): boolean => sites.some((site) => at >= site && at < site + 5);
    expect(changed.filter((at) => at >= table && !isInSite(at))).toEqual([]);
    expect(changed.filter(isInSite).length).toBeGreaterThan(4);
  });

  test('RT-24: shared objects, linked and opened, under a program that is patched or not', () => {
    const flags = ['-O1', '-fno-inline', NOPS];
    const folder = scratch('libraries');
    mkdirSync(folder);
    const library = (name: string, text: string): string => {
      const built = compile(text, [...flags, '-fPIC', '-shared', `-Wl,-soname,${name}`]);
      writeFileSync(join(folder, name), readFileSync(built), { mode: 0o755 });
      return built;
    };
    const first = library('libfirst.so', 'int getppid(void), g; int first(int n) { return g += getppid() ? n : 0; }');
    const second = library(
      'libsecond.so',
      'int getppid(void), h; int below(int n) { return h += getppid() ? n : 0; } int second(int n) { return below(n) + below(1); }',
    );
    const main = `#include <dlfcn.h>\n#include <stdio.h>\nint first(int); int main(void) { int sum = 0;
void *file = dlopen("libsecond.so", RTLD_NOW); int (*second)(int) = (int (*)(int))dlsym(file, "second");
for (int i = 0; i < 100; i++) sum += first(i) + second(i); printf("%d\\n", sum); return 0; }`;
    const plain = compile(main, flags, 'c', [join(folder, 'libfirst.so')]);
    const env = { LD_LIBRARY_PATH: folder };
    const expected = spawnSync(plain, [], { encoding: 'utf8', env }).stdout;
    writeFileSync(join(folder, 'libfirst.so'), readFileSync(patched(first)), { mode: 0o755 });
    writeFileSync(join(folder, 'libsecond.so'), readFileSync(patched(second)), { mode: 0o755 });
    const both = { below: 200, first: 100, second: 100 };
    const ran = traced(plain, [], env);
    expect([ran.status, ran.stdout, countsOf(report(ran.dir))]).toEqual([0, expected, both]);
    const all = traced(patched(plain), [], env);
    expect([all.status, all.stdout, countsOf(report(all.dir))]).toEqual([
      0,
      expected,
      { below: 200, first: 100, main: 1, second: 100 },
    ]);
  });

  describe('RT-28: refused with a word for programs, and nothing written', () => {
    const changed = (change: (bytes: Buffer) => Buffer): string => {
      const path = scratch('changed');
      writeFileSync(path, change(Buffer.from(readFileSync(program()))), { mode: 0o755 });
      return path;
    };
    const forMusl = (bytes: Buffer): Buffer => {
      bytes.write('/lib/ld-musl-x86_64.so\0', bytes.indexOf('/lib64/ld-linux'));
      return bytes;
    };
    const withValue = (where: string): string => {
      const path = changed((bytes) => bytes);
      const value = join(dirname(path), where.replace('NAME', basename(path)));
      mkdirSync(dirname(value), { recursive: true });
      writeFileSync(value, '00'.repeat(32));
      return path;
    };
    const asOwner = (): string => {
      const path = changed((bytes) => bytes);
      chmodSync(path, 0o4755);
      return path;
    };
    const behindPrologue = ['-O1', '-pg', '-no-pie', '-fno-pie', '-mrecord-mcount'];
    test.each<readonly [string, () => string, number, RegExp]>([
      ['an object', () => compile(FIB, [...PLAIN, '-c']), 4, /linked first.*\[relocatable\]/],
      ['no sites', () => compile(FIB, ['-O1']), 4, /compile with -fpatchable-function-entry=5.*\[no-sites\]/],
      [
        'behind prologues',
        () => compile(FIB, behindPrologue),
        2,
        /functions must begin with their sites.*\[no-sites\]/,
      ],
      [
        'too small',
        () => compile(FIB, ['-O1', '-fpatchable-function-entry=2']),
        4,
        /cannot hold a 5-byte call.*compile with -fpatchable-function-entry=5.*\[too-small\]/,
      ],
      ['patched before', () => patched(program()), 4, /revert it first.*\[already-patched\]/],
      ['data behind it', () => changed((bytes) => Buffer.concat([bytes, Buffer.from('PK')])), 4, /\[trailing-data\]/],
      [
        'the mark of UPX',
        () =>
          changed((bytes) => {
            // Behind the program headers: sum, mark, version, as UPX lays out its l_info.
            bytes.write('UPX!', Number(bytes.readBigUInt64LE(32)) + 56 * bytes.readUInt16LE(56) + 4, 'latin1');
            return bytes;
          }),
        4,
        /packed by UPX.*\[packed\]/,
      ],
      [
        'an AppImage',
        () => changed((bytes) => Buffer.concat([bytes.fill('AI\x02', 8, 11, 'latin1'), Buffer.from('hsqs')])),
        4,
        /AppImage.*\[packed\]/,
      ],
      [
        'a signature behind it',
        () =>
          changed((bytes) => {
            // No key, a message of one byte (PKCS#7), as the kernel's sign-file puts them.
            const info = Buffer.from([0x30, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            return Buffer.concat([bytes, info, Buffer.from('~Module signature appended~\n')]);
          }),
        4,
        /a signature of the file lies behind it.*\[signed\]/,
      ],
      ...['.NAME.hmac', 'NAME.hmac', 'fipscheck/NAME.hmac'].map(
        (where) => [where, () => withValue(where), 4, /\.hmac is for checks.*\[self-checking\]/] as const,
      ),
      ['another C library', () => changed(forMusl), 4, /\[no-thread-slot\]/],
      [
        'no C library',
        () => compile('void _start(void) { for (;;); }', [NOPS, '-nostdlib', '-static']),
        4,
        /\[no-thread-slot\]/,
      ],
      ['rights of its owner', asOwner, 4, /\[set-id\]/],
    ])('%s', (_, make, code, text) => {
      const output = scratch('never');
      const { status, stdout, stderr } = elftrace(['record', '-o', output, '--json', make()]);
      expect([status, existsSync(output)]).toEqual([code, false]);
      const { refused } = JSON.parse(stdout) as { refused: { reason: string; message: string } };
      expect(`${refused.message} [${refused.reason}]`).toMatch(text);
      expect(stderr).toContain(refused.message);
    });

    test('an attribute of the kernel that checks files', () => {
      const path = changed((bytes) => bytes);
      const said = (): string => elftrace(['record', '-o', scratch('never'), '--json', path]).stdout;
      expect(JSON.parse(said())).toMatchObject({ traced: 2 });
      // Others than root may not give it.
      if (spawnSync('setfattr', ['-n', 'security.ima', '-v', '0x0101', path]).status !== 0) return;
      expect(JSON.parse(said())).toMatchObject({ refused: { code: 'unsupported-form', reason: 'signed' } });
    });
  });
});

describeNatively('what befalls a program', () => {
  test('RT-22: a killed program leaves every call that it made', () => {
    const source = `#include <signal.h>\n#include <stdlib.h>\nvolatile int sink; void work(void) { sink++; }
int main(int count, char **words) { int n = atoi(words[1]); for (int i = 0; i < n; i++) work(); raise(SIGKILL); return count; }`;
    const output = patched(compile(source, PLAIN));
    for (const calls of [1, 32_000, 100_000]) {
      const ran = traced(output, [String(calls)]);
      expect(ran.status).toBe(128);
      expect(countsOf(report(ran.dir))).toEqual({ main: 1, work: calls });
    }
  });

  test.each([[[]], [['--clock', 'none']], [['--tracer', 'counter']]])(
    'RT-21: a signal behind each instruction of the entry, whose handler is traced itself: %j',
    (options) => {
      // The trap flag: the handler runs behind each instruction, those of the runtime too.
      const source = `#define _GNU_SOURCE\n#include <signal.h>\n#include <stdio.h>
volatile long sink, handled; __attribute__((noinline)) void inner(void) { sink++; }
static void on_trap(int n) { handled++; inner(); (void)n; }
__attribute__((noinline)) long work(long a, long b, long c, long d, long e, long f) { return a ^ b ^ c ^ d ^ e ^ f; }
#define FLAG(how) __asm__ volatile("sub $128,%%rsp; pushf; " how ",(%%rsp); popf; add $128,%%rsp" ::: "memory", "cc")
int main(void) { struct sigaction action = { .sa_handler = on_trap }; sigaction(SIGTRAP, &action, 0); long sum = 0;
  for (int i = 0; i < 400; i++) {
    if (i % 2) FLAG("orl $0x100");
    sum += work(i, 2, 3, 4, 5, 6);
    FLAG("andl $~0x100");
  }
  printf("%ld %ld\\n", sum, handled); return 0; }`;
      const plain = compile(source, PLAIN);
      const expected = spawnSync(plain, [], { encoding: 'utf8' }).stdout.split(' ')[0];
      const ran = traced(patched(plain, ...options));
      const [sum, handled] = ran.stdout.trim().split(' ');
      expect([ran.status, sum, Number(handled) > 8000]).toEqual([0, expected, true]);
      const found = report(ran.dir);
      // Nothing twice, nothing invented; what the slow way could not take is counted.
      expect(found.calls + found.dropped).toBe(1 + 400 + 2 * Number(handled));
      // The slow way is long where a clock is written down, and each of its instructions a signal:
      // how many were dropped then is the machine's affair. Elsewhere none is.
      if (options.length > 0) expect(found.dropped).toBe(0);
      expect(found.calls).toBeGreaterThan(2 * 8000);
      const { main, work = 0, inner = 0, on_trap: traps = 0 } = countsOf(found);
      expect([main, work <= 400, inner <= Number(handled), traps <= Number(handled)]).toEqual([1, true, true, true]);
    },
  );

  test('RT-20: the emulator executes the same file, whose trace says the same', () => {
    const output = patched(compile(FIB, [...PLAIN, '-static']));
    const root = scratch('root');
    mkdirSync(join(root, 'trace'), { recursive: true });
    const ran = elftrace(['run', '--root', root, '--write', root, '--env', 'ELFTRACE_DIR=/trace', output]);
    const natively = traced(output);
    expect([ran.status, ran.stdout]).toEqual([natively.status, natively.stdout]);
    expect(countsOf(report(join(root, 'trace'), output))).toEqual(countsOf(report(natively.dir)));
  });

  describe('RT-23: what cannot be recorded is dropped and counted, and the program goes on', () => {
    const CALLS = 92_735 + 1;
    const limited = (limit: string, env: Readonly<Record<string, string>> = {}, file = program()): Ran => {
      const dir = scratch('trace');
      mkdirSync(dir);
      const command = `${limit}; exec ${patched(file)} 23`;
      const { status, stdout } = spawnSync('bash', ['-c', command], {
        encoding: 'utf8',
        env: { ELFTRACE_DIR: dir, ...env },
      });
      return { status, stdout, dir };
    };

    test.each<readonly [string, string, Readonly<Record<string, string>>]>([
      ['files may not grow (RLIMIT_FSIZE)', 'ulimit -f 512', {}],
      ['ELFTRACE_SIZE', 'true', { ELFTRACE_SIZE: '600000' }],
      ['not even the first records (RLIMIT_FSIZE)', 'ulimit -f 8', {}],
      ['not even the first records', 'true', { ELFTRACE_SIZE: '8000' }],
    ])('%s', (_, limit, env) => {
      const ran = limited(limit, env);
      expect([ran.status, ran.stdout]).toEqual([3, '28657\n']);
      const found = report(ran.dir);
      expect(found.dropped).toBeGreaterThan(10_000);
      expect(found.calls + found.dropped).toBe(CALLS);
    });

    test.each([
      ['a small address space', 'ulimit -v 20000'],
      ['a smaller one', 'ulimit -v 6000'],
    ])('%s', (_, limit) => {
      const ran = limited(limit);
      expect([ran.status, ran.stdout]).toEqual([3, '28657\n']);
      const found = report(ran.dir);
      expect(found.calls + found.dropped).toBe(CALLS);
    });

    test.each<readonly [string, string, Readonly<Record<string, string>>]>([
      ['no descriptor is free', 'ulimit -n 3', {}],
      ['no such directory', 'true', { ELFTRACE_DIR: '/nowhere/at/all' }],
    ])('%s', (_, limit, env) => {
      // A static program, which opens nothing itself.
      const ran = limited(limit, env, compile(FIB, [...PLAIN, '-static']));
      expect([ran.status, ran.stdout, readdirSync(ran.dir)]).toEqual([3, '28657\n', []]);
    });
  });
});

describeNatively('what traces say', () => {
  const source = `#include <unistd.h>\nvolatile int sink; void leaf(void) { sink++; } void middle(void) { leaf(); leaf(); sink++; }
int main(int count, char **words) { middle(); leaf(); middle(); sink++; return count == 3 && words[2][0] == 'x' ? 9 : 0; }`;

  test('RT-30, RT-31: replay, report, graph and export of a recorded run', () => {
    const [cache, data] = [scratch('cache'), scratch('data')];
    const plain = compile(source, PLAIN);
    const env = { XDG_CACHE_HOME: cache };
    const ran = cold(['record', '-d', data, plain, '-o', 'x'], { env });
    expect([ran.status, ran.stderr]).toEqual([9, '']);
    const verb = (...words: string[]): string => {
      const { status, stdout, stderr } = elftrace(words);
      expect([status, stderr]).toEqual([0, '']);
      return stdout;
    };
    const rowsOf = (text: string): string[] => text.split('\n').slice(1, -1);
    const once = ['middle() {', '  leaf();', '  leaf();', '} /* middle */'];
    const replayed = rowsOf(verb('replay', data)).filter((row) => !row.startsWith('#'));
    expect(replayed.map((row) => row.replace(/^(?: {10}| *[\d.]+ [um]?s *) \[ *\d+\] \| /, ''))).toEqual([
      'main() {',
      ...[...once, 'leaf();', ...once].map((line) => `  ${line}`),
      '} /* main */',
    ]);
    const reported = rowsOf(verb('report', data, '-s', 'call', '-f', 'call,threads')).slice(1);
    expect(reported.map((row) => row.trim().split(/ +/).join(' ')).slice(0, 4)).toEqual([
      '5 1 leaf',
      '2 1 middle',
      '1 1 main',
      '# 8 calls of 3 functions in 1 threads',
    ]);
    expect(
      rowsOf(verb('graph', data))
        .slice(0, 4)
        .map((row) => row.slice(16)),
    ).toEqual(['(1) main', '  (2) middle', '    (4) leaf', '  (1) leaf']);
    const graph = JSON.parse(verb('graph', data, '--json')) as object;
    expect(new Ajv2020().compile(schemaOf('graph'))(graph)).toBe(true);
    const folded = verb('export', data, '--format', 'folded');
    expect(folded).toBe('main 1\nmain;middle 2\nmain;middle;leaf 4\nmain;leaf 1\n');
    checkNdjson(verb('export', data, '--format', 'ndjson'));
    const file = scratch('chrome.json');
    verb('export', data, '--format', 'chrome', '-o', file);
    checkChrome(readFileSync(file, 'utf8'));

    // The run before is kept, once; a directory of something else is not touched.
    expect(cold(['record', '-d', data, plain], { env }).status).toBe(0);
    expect([readdirSync(data).length, readdirSync(`${data}.old`).length]).toEqual([2, 2]);
    const other = scratch('other');
    mkdirSync(other);
    writeFileSync(join(other, 'mine'), 'mine');
    expect([cold(['record', '-d', other, plain], { env }).status, readdirSync(other)]).toEqual([125, ['mine']]);
  });

  function checkNdjson(text: string): void {
    const [head, ...rows] = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(head).toMatchObject({ schema: 1, source: 'native', clock: 'nanoseconds', returns: false, dropped: 0 });
    const names = ['main', 'middle', 'leaf', 'leaf', 'leaf', 'middle', 'leaf', 'leaf'];
    expect(rows.map(({ function: name }) => name)).toEqual(names);
    expect(rows.map(({ depth }) => depth)).toEqual([0, 1, 2, 2, 1, 1, 2, 2]);
    const times = rows.map(({ time }) => time as number);
    expect([...times].sort((a, b) => a - b)).toEqual(times);
    expect(times.at(-1)! - times[0]!).toBeGreaterThan(0);
    expect(times.at(-1)).toBeLessThan(1e9);
  }

  function checkChrome(text: string): void {
    const { traceEvents } = JSON.parse(text) as { traceEvents: { ph: string; name: string }[] };
    const open: string[] = [];
    let depth = 0;
    for (const { ph, name } of traceEvents) {
      if (ph === 'B') depth = Math.max(depth, open.push(name));
      else if (ph === 'E') expect(open.pop()).toBe(name);
    }
    expect([open, depth, traceEvents.filter(({ ph }) => ph === 'B').length]).toEqual([[], 3, 8]);
  }

  test('RT-30: uftrace itself reads what export writes: threads, processes, programs that were executed', () => {
    const more = `#include <pthread.h>\n#include <sys/wait.h>\n#include <unistd.h>\nvolatile int sink; void leaf(void) { sink++; }
void *work(void *n) { for (int i = 0; i < 500; i++) leaf(); return n; }
int main(int count, char **words) { pthread_t ids[3]; for (int i = 0; i < 3; i++) pthread_create(&ids[i], 0, work, 0);
  for (int i = 0; i < 3; i++) pthread_join(ids[i], 0); if (fork() == 0) { work(0); _exit(0); } wait(0);
  if (count == 1) execl("/proc/self/exe", words[0], "again", (char *)0); return 0; }`;
    const calls = { leaf: 4000, main: 2, work: 8 };
    for (const form of [[NOPS], [NOPS, '-no-pie', '-fno-pie'], [NOPS, '-static-pie', '-fPIE']]) {
      const ran = traced(patched(compile(more, [...OWN_CALLS, ...form, '-pthread'])));
      expect([ran.status, countsOf(report(ran.dir))]).toEqual([0, calls]);
      // As of a thread that waited for the processor between its counter and its clock.
      const late = join(ran.dir, readdirSync(ran.dir).sort().at(-1)!);
      const bytes = readFileSync(late);
      const at = HEADER.pairs + 8;
      bytes.writeBigUInt64LE(bytes.readBigUInt64LE(at) + 50_000_000n, at);
      writeFileSync(late, bytes);
      const data = scratch('uftrace');
      expect(elftrace(['export', ran.dir, '--format', 'uftrace', '-o', data])).toMatchObject({ status: 0, stderr: '' });
      const rows = run('uftrace', ['report', '--no-pager', '-d', data, '-f', 'call']).toString();
      const found = [...rows.matchAll(/^ +(\d+) +(\w+)$/gm)].map(([, count, name]) => [name, Number(count)] as const);
      expect(Object.fromEntries(found.sort())).toEqual(calls);
      const replay = run('uftrace', ['replay', '--no-pager', '-d', data]).toString();
      // A call within which another thread has a record is shown with braces.
      expect([...replay.matchAll(/\bleaf\(\)(?:;| \{)/g)].length).toBe(4000);
      expect(elftrace(['export', ran.dir, '--format', 'uftrace', '-o', data]).stderr).toMatch(/is there and not empty/);
    }
  });

  test('RT-23: resolvers of a static program run before there are threads: their calls are counted', () => {
    const early = `#include <stdio.h>\n__attribute__((noinline)) static int pick(int n) { return n + 1; }
static int real(int n) { return n * 2; } static int (*resolve(void))(int) { return pick(1) == 2 ? real : 0; }
int chosen(int n) __attribute__((ifunc("resolve")));
int main(void) { int sum = 0; for (int i = 0; i < 5; i++) sum += chosen(i); printf("%d\\n", sum); return 4; }`;
    const counts = (form: readonly string[]): readonly [Record<string, number>, number] => {
      const ran = traced(patched(compile(early, [...OWN_CALLS, NOPS, ...form])));
      expect([ran.status, ran.stdout]).toEqual([4, '20\n']);
      const found = report(ran.dir);
      const { stderr } = elftrace(['report', ran.dir]);
      expect(stderr).toEqual(found.dropped === 0 ? '' : expect.stringMatching(/^\S+ notice: 2 calls .*IFUNC.*\n$/));
      return [countsOf(found), found.dropped];
    };
    expect(counts(['-static'])).toEqual([{ main: 1, real: 5 }, 2]);
    const [dynamic, dropped] = counts([]);
    expect([dynamic['pick'], dynamic['real'], dynamic['main'], dropped]).toEqual([1, 5, 1, 0]);
  });

  test('RT-22, RT-31: a thousand threads one after the other, and hundreds of processes, are read with few open files', () => {
    const many = `#include <pthread.h>\n#include <sys/wait.h>\n#include <unistd.h>\nvolatile int sink; void leaf(void) { sink++; }
static void *work(void *n) { leaf(); return n; }
int main(void) { pthread_t id; for (int i = 0; i < 1000; i++) { pthread_create(&id, 0, work, 0); pthread_join(id, 0); }
  for (int i = 0; i < 200; i++) { if (fork() == 0) { leaf(); _exit(0); } wait(0); } return 0; }`;
    const ran = traced(patched(compile(many, [...PLAIN, '-pthread'])));
    const found = report(ran.dir);
    expect([ran.status, found.threads, countsOf(found)]).toEqual([0, 1201, { leaf: 1200, main: 1, work: 1000 }]);
    const lines = elftrace(['export', ran.dir, '--format', 'ndjson']).stdout.trim().split('\n');
    expect(lines.length).toBe(1 + found.calls);
  });

  test('RT-31: damage, an object that is gone, and another one in its place are no yes', () => {
    const copy = scratch('copy');
    writeFileSync(copy, readFileSync(program()), { mode: 0o755 });
    const ran = traced(patched(copy));
    const [name] = readdirSync(ran.dir);
    const file = join(ran.dir, name!);
    const good = readFileSync(file);
    const after = (change: (bytes: Buffer) => void): readonly [number | null, string] => {
      const bytes = Buffer.from(good);
      change(bytes);
      writeFileSync(file, bytes);
      const { status, stderr } = elftrace(['report', ran.dir]);
      return [status, stderr];
    };
    expect(after(() => undefined)).toEqual([0, '']);
    // Where the clock's upper bits change there are zeros and a control record in front of it.
    const isCall = (at: number): boolean => (good.readUInt32LE(at) & 3) === RECORD.tagCall;
    const second = Array.from({ length: 16 }, (_, i) => HEADER_BYTES + 8 * i).filter(isCall)[1]!;
    const noRecord = after((bytes) => bytes.writeUInt32LE(2, second));
    expect(noRecord).toEqual([1, expect.stringContaining('1 words are no records')]);
    const noSite = after((bytes) =>
      bytes.writeUInt32LE((bytes.readUInt32LE(second + 4) ^ 0x8000_0000) >>> 0, second + 4),
    );
    expect(noSite).toEqual([1, expect.stringContaining('1 records name no site')]);
    expect(after((bytes) => bytes.writeUInt32LE(7, HEADER.version))[0]).toBe(2);
    expect(after((bytes) => bytes.write('nonsense', 0))[0]).toBe(2);
    expect(after(() => undefined)[0]).toBe(0);
    writeFileSync(copy, readFileSync(compile(FIB, ['-O2', NOPS])));
    expect(elftrace(['report', ran.dir]).stderr).toMatch(/name it with --object FILE/);
    expect(countsOf(report(ran.dir, program()))).toEqual(FIB12);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});
