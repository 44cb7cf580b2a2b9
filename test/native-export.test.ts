/**
 * Traces that programs wrote themselves, in the forms of others: each is read by a reader of its
 * own, and has the calls that the trace has.
 */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { PERFETTO_PROTO } from '../src/native/perfetto-proto.js';
import { scratch } from './support/c-programs.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { compile, countsOf, describeNatively, NOPS, patched, report, traced } from './support/native-run.js';
import { describeWith, run, runProgramFile } from './support/tools.js';

/** Threads, processes, an executed program, names of C++ with what JSON and TSDL escape. */
const SOURCE = `#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int sink;
namespace shapes { template <typename T> struct box { T value; __attribute__((noinline)) T get(T n) { sink = sink + 1; return value + n; } }; }
static void *work(void *n) { shapes::box<int> b{1};
  for (int i = 0; i < 40; i++) b.get(i); return n; }
int main(int count, char **words) { pthread_t ids[3]; prctl(PR_SET_NAME, "wor\\"ker", 0, 0, 0); for (int i = 0; i < 3; i++) pthread_create(&ids[i], 0, work, 0);
  for (int i = 0; i < 3; i++) pthread_join(ids[i], 0); if (fork() == 0) { work(0); _exit(0); } wait(0);
  if (count == 1) execl("/proc/self/exe", words[0], "again", (char *)0); return 0; }`;
const GET = 'shapes::box<int>::get(int)';
const CALLS = { [GET]: 320, main: 2, 'work(void*)': 8 };

let made: string | null = null;
function trace(): string {
  if (made !== null) return made;
  const flags = ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', '-pthread', NOPS];
  const ran = traced(patched(compile(SOURCE, flags, 'c++')));
  expect(ran.status).toBe(0);
  const symbols = Object.entries(countsOf(report(ran.dir)));
  const names = run('c++filt', [], symbols.map(([name]) => `${name}\n`).join(''))
    .toString()
    .split('\n');
  expect(Object.fromEntries(symbols.map(([, calls], i) => [names[i], calls] as const).sort())).toEqual(CALLS);
  made = ran.dir;
  return made;
}

function exported(format: string): string {
  const output = scratch(format);
  expect(elftrace(['export', trace(), '--format', format, '-o', output])).toMatchObject({ status: 0, stderr: '' });
  return output;
}

/** How often each value is there. */
const tally = (values: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return Object.fromEntries(Object.entries(counts).sort());
};

/** Ends of calls as they nest: names, each with the names around it. */
function nested(events: readonly (readonly [name: string | null, thread: string])[]): string[] {
  const open = new Map<string, string[]>();
  const paths = events.flatMap(([name, thread]) => {
    const path = open.get(thread) ?? [];
    open.set(thread, path);
    if (name === null) {
      expect(path.pop()).toBeDefined();
      return [];
    }
    path.push(name);
    return [path.join(';')];
  });
  expect([...open.values()].flat()).toEqual([]);
  return paths;
}

// A child after a fork begins anew.
const PATHS = { main: 2, 'work(void*)': 8, [`work(void*);${GET}`]: 320 };

describeNatively('forms of others', () => {
  describeWith(['protoc', 'babeltrace2', 'c++filt'], 'with their readers', () => {
    test('RT-36: packets of Perfetto, decoded by protoc', () => {
      const proto = scratch('perfetto.proto');
      writeFileSync(proto, PERFETTO_PROTO);
      const text = run(
        'protoc',
        ['--decode=perfetto.protos.Trace', `--proto_path=${join(proto, '..')}`, proto],
        readFileSync(exported('perfetto')),
      ).toString();
      // No field that the protos do not know.
      expect(text).not.toMatch(/^ *\d+:/m);
      const names = new Map<string, string>();
      const lasts = new Map<string, number>();
      const events: (readonly [string | null, string])[] = [];
      for (const packet of text.split(/^packet \{$/m).slice(1)) {
        const one = (pattern: RegExp): string => pattern.exec(packet)?.[1] ?? '';
        const sequence = one(/trusted_packet_sequence_id: (\d+)/);
        const [, iid, name] = /event_names \{\s+iid: (\d+)\s+name: "(.*)"/.exec(packet) ?? [];
        if (iid !== undefined) names.set(`${sequence}.${iid}`, name!);
        const type = one(/type: TYPE_SLICE_(\w+)/);
        if (type === '') continue;
        lasts.set(sequence, (lasts.get(sequence) ?? 0) + Number(one(/timestamp: (\d+)/)));
        events.push([type === 'END' ? null : names.get(`${sequence}.${one(/name_iid: (\d+)/)}`)!, sequence]);
      }
      expect(tally(nested(events))).toEqual(PATHS);
      // RT-35: `main` lasts while its threads work.
      // Distances add up to less than this test takes.
      expect(Math.max(...lasts.values())).toBeLessThan(60e9);
      const threads = [...text.matchAll(/thread_name: "(.*)"/g)].map(([, name]) => name!);
      expect(threads.filter((name) => name === 'wor\\"ker').length).toBe(8);
      expect([...text.matchAll(/process_name: "[^"]*program"/g)].length).toBe(3);
    });

    test('RT-37: a directory of CTF, read by babeltrace2', () => {
      const { status, stdout, stderr } = runProgramFile('babeltrace2', [
        '--clock-gmt',
        '--clock-date',
        exported('ctf'),
      ]);
      expect([status, stderr]).toEqual([0, '']);
      const rows = stdout.trim().split('\n');
      const pattern =
        /^\[(\S+ \S+)\] \(\S+\) (func_entry|func_exit): \{ vpid = (\d+), vtid = (\d+), procname = "(.*)" \}, \{ function = \( "(.*)" : container = \d+ \) \}$/;
      const events = rows.map((row) => pattern.exec(row)?.slice(1) ?? [row]);
      expect(
        tally(
          nested(
            events.map(([, kind, process, thread, , name]) => [
              kind === 'func_exit' ? null : name!,
              `${process}.${thread}`,
            ]),
          ),
        ),
      ).toEqual(PATHS);
      expect(events.filter(([, , , , name]) => name === 'wor\\"ker' || name === 'wor"ker').length).toBeGreaterThan(400);
      // The program ran a moment ago.
      const times = events.map(([time]) => Date.parse(`${time!.replace(' ', 'T').slice(0, 23)}Z`));
      expect(Math.abs(Date.now() - times[0]!)).toBeLessThan(600_000);
      expect(times).toEqual([...times].sort((a, b) => a - b));
    });
  });

  test('RT-38: lines of a kernel, in order of time, each with the function that called', () => {
    const text = readFileSync(exported('ftrace'), 'utf8');
    const rows = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const pattern = /^ *(\S+)-(\d+) +\[000\] \.{5} +(\d+\.\d{6}): (.+) <-(.+)$/;
    const events = rows.map((row) => pattern.exec(row)?.slice(1) ?? [row]);
    expect(tally(events.map(([, , , name]) => name!))).toEqual(CALLS);
    expect(tally(events.map(([, , , name, caller]) => `${caller} ${name}`))).toEqual({
      '0x0 main': 2,
      '0x0 work(void*)': 8,
      [`work(void*) ${GET}`]: 320,
    });
    const times = events.map(([, , time]) => Number(time));
    expect(times).toEqual([...times].sort((a, b) => a - b));
    // The clock is that of the machine since its start.
    const now = Number(process.hrtime.bigint()) / 1e9;
    expect([times[0]! < now, times[0]! > now - 600]).toEqual([true, true]);
  });

  const reader = join(process.env['ELFTRACE_KUNIT'] ?? '', 'draw_functrace.py');
  (process.env['ELFTRACE_KUNIT'] === undefined ? test.skip : test)(
    'RT-38: the script of Linux that draws such lines',
    () => {
      const source = `volatile int sink; void leaf(void) { sink++; } void middle(void) { leaf(); leaf(); sink++; } int main(void) { middle(); leaf(); return 0; }`;
      const ran = traced(patched(compile(source, ['-O1', '-fno-inline', '-fno-optimize-sibling-calls', NOPS])));
      const lines = elftrace(['export', ran.dir, '--format', 'ftrace']).stdout;
      const drawn = run('python3', [reader], lines).toString();
      const names = [...drawn.matchAll(/----(\S+) \(\d/g)].map(([, name]) => name!);
      expect(tally(names)).toEqual({ leaf: 3, main: 1, middle: 1 });
    },
  );

  describe('RT-39: verbs of uftrace', () => {
    const verb = (name: string, ...options: string[]): string =>
      run('uftrace', [name, '--no-pager', '-d', data(), ...options]).toString();
    let directory: string | null = null;
    const data = (): string => (directory ??= exported('uftrace'));

    test('replay, report and graph', () => {
      const replayed = verb('replay').replace(/\}.*/g, '');
      expect([...replayed.matchAll(/shapes::box::get\(\);|shapes::box<int>::get\(int\)/g)].length).toBe(320);
      const rows = verb('report', '-f', 'call').split('\n');
      const found = rows.flatMap((row) => {
        const [, count, name] = /^ +(\d+) +(.+)$/.exec(row) ?? [];
        return count === undefined ? [] : [[name!, Number(count)] as const];
      });
      expect(Object.values(Object.fromEntries(found)).sort((a, b) => a - b)).toEqual([2, 8, 320]);
      expect([...verb('graph').matchAll(/\((\d+)\) shapes/g)].map(([, n]) => Number(n)).sort()).toEqual([
        120, 120, 40, 40,
      ]);
    });

    test('dump: its own reading of the records, and the same for Chrome', () => {
      const raw = verb('dump');
      expect([...raw.matchAll(/\[entry\]/g)].length).toBe(330);
      expect([...raw.matchAll(/\[exit \]/g)].length).toBe(330);
      const { traceEvents } = JSON.parse(verb('dump', '--chrome')) as { traceEvents: { ph: string }[] };
      expect(tally(traceEvents.map(({ ph }) => ph))).toMatchObject({ B: 330, E: 330 });
    });

    test('tui starts', () => {
      // It needs a terminal, and ends with the key q.
      const command = `(sleep 1; printf q; sleep 1) | TERM=xterm timeout 15 script -qec 'uftrace tui -d ${data()}' /dev/null`;
      const { status, stdout } = runProgramFile('sh', ['-c', command]);
      expect([status, stdout.includes('call Graph for session')]).toEqual([0, true]);
    });
  });

  test('a directory that holds something is not written to', () => {
    const output = exported('ctf');
    const before = readdirSync(output);
    const { status, stderr } = elftrace(['export', trace(), '--format', 'ctf', '-o', output]);
    expect([status, readdirSync(output)]).toEqual([2, before]);
    expect(stderr).toMatch(/is there and not empty/);
    expect(elftrace(['export', trace(), '--format', 'ctf']).stderr).toMatch(/writes a directory: name it with -o DIR/);
  });
});
