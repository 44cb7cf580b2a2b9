/**
 * Programs that write their own trace: what a call costs (CPU time of the loop, less that of the
 * loop without sites), without and with its return, without times, counted alone, bytes of a call,
 * losses; beside -finstrument-functions and uftrace, where it is installed. Then what reading such
 * a trace costs. Directories are on a tmpfs.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

const calls = Number(process.env['BENCH_CALLS'] ?? 50_000_000);

/** So many calls in all, by threads alike; prints nanoseconds of CPU time. */
const SOURCE = `#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long each;
__attribute__((noinline)) void leaf(void) { __asm__ volatile(""); }
__attribute__((no_instrument_function, noinline PLAIN)) static void *loop(void *n) { for (long i = 0; i < each; i++) leaf(); return n; }
__attribute__((no_instrument_function PLAIN)) static long cpu(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }
__attribute__((no_instrument_function PLAIN)) int main(int count, char **words) {
  long threads = atol(words[1]), begin = cpu(); pthread_t ids[64]; each = atol(words[2]) / threads; (void)count;
  if (threads == 1) loop(0);
  else { for (long i = 0; i < threads; i++) pthread_create(&ids[i], 0, loop, 0); for (long i = 0; i < threads; i++) pthread_join(ids[i], 0); }
  printf("%ld\\n", cpu() - begin); return 0; }
`;
/** Hooks that do nothing, and are called all the same. */
const HOOKS = `#define HOOK __attribute__((no_instrument_function, noinline))
HOOK void __cyg_profile_func_enter(void *f, void *s) { __asm__ volatile("" :: "r"(f), "r"(s)); }
HOOK void __cyg_profile_func_exit(void *f, void *s) { __asm__ volatile("" :: "r"(f), "r"(s)); }\n`;

export interface NativeBench {
  readonly folder: string;
  readonly cli: string;
  readonly runs: number;
  readonly hasTool: (name: string) => boolean;
  readonly spread: (values: readonly number[], digits?: number) => string;
  /** CPU seconds and memory of a command of ours. */
  readonly cost: (args: readonly string[]) => { readonly seconds: number; readonly mebibytes: number };
}

type Form = 'plain' | 'nops' | 'traced' | 'graph' | 'no-clock' | 'counter' | 'limited' | 'hooks' | 'uftrace';

function must(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  input = '',
): string {
  const { status, stdout, stderr, error } = spawnSync(command, [...args], {
    input,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr}`);
}

const bytesIn = (dir: string): number =>
  readdirSync(dir).reduce((sum, name) => sum + statSync(join(dir, name)).blocks * 512, 0);

const TRACES: readonly Form[] = ['traced', 'graph', 'no-clock', 'counter', 'limited'];

/** One run of the loop: nanoseconds, bytes written, and where the trace is. */
interface LoopRun {
  readonly time: number;
  readonly bytes: number;
  readonly dir: string;
}

/** The loop in all of its forms, below `folder`. */
function buildForms(folder: string, cli: string): void {
  const at = (name: string): string => join(folder, name);
  const build = (name: string, flags: readonly string[], plain: string, more = ''): void => {
    const source = `${more}${SOURCE.replaceAll(' PLAIN', plain)}`;
    must('gcc', ['-O2', '-pthread', ...flags, '-x', 'c', '-', '-o', at(name)], {}, source);
  };
  const noSite = ', patchable_function_entry(0)';
  build('plain', [], '');
  build('nops', ['-fpatchable-function-entry=5'], noSite);
  build('hooks', ['-finstrument-functions'], '', HOOKS);
  build('uftrace', ['-pg', '-mfentry'], '');
  must(process.execPath, [cli, 'record', '-o', at('traced'), at('nops')]);
  must(process.execPath, [cli, 'record', '--tracer', 'function_graph', '-o', at('graph'), at('nops')]);
  must(process.execPath, [cli, 'record', '--clock', 'none', '-o', at('no-clock'), at('nops')]);
  must(process.execPath, [cli, 'record', '--tracer', 'counter', '-o', at('counter'), at('nops')]);
}

function runForm(form: Form, threads: number, folder: string, shared: string): LoopRun {
  const dir = join(shared, 'trace');
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir);
  const words = [String(threads), String(calls)];
  const env = { ELFTRACE_DIR: dir, ...(form === 'limited' ? { ELFTRACE_SIZE: String(1 << 24) } : {}) };
  const program = join(folder, form === 'limited' ? 'traced' : form);
  const text =
    form === 'uftrace'
      ? must('uftrace', ['record', '--no-libcall', '-F', 'leaf', '-d', dir, program, ...words])
      : must(program, words, env);
  return { time: Number(text), bytes: bytesIn(dir), dir };
}

/** What a call costs in each form, beside a loop without any. */
function benchCalls(
  { cli, runs, hasTool, spread }: NativeBench,
  run: (form: Form, threads: number) => LoopRun,
  threads: number,
): void {
  const forms: Form[] = [
    'nops',
    'traced',
    'graph',
    'no-clock',
    'counter',
    'limited',
    'hooks',
    ...(hasTool('uftrace') ? (['uftrace'] as const) : []),
  ];
  const spent = new Map<Form, number[]>();
  const bytes = new Map<Form, number>();
  // One after the other, so that a slow minute is one for all.
  for (let i = 0; i < runs; i++) {
    const base = run('plain', threads).time;
    for (const form of forms) {
      const found = run(form, threads);
      spent.set(form, [...(spent.get(form) ?? []), (found.time - base) / calls]);
      bytes.set(form, found.bytes / calls);
      if (i === 0 && TRACES.includes(form)) checkLosses(must, cli, found.dir, form);
    }
  }
  for (const form of forms) {
    const size = form === 'nops' || form === 'hooks' ? '' : `, ${bytes.get(form)!.toFixed(2)} bytes`;
    console.log(`${form}, ${threads} threads, ${calls} calls: ${spread(spent.get(form)!, 2)} ns CPU a call${size}`);
  }
}

/** How fast traces are read. */
function benchReaders({ runs, spread, cost }: NativeBench, dir: string): void {
  for (const words of [
    ['report', dir],
    ...formats.map((format) => ['export', dir, '--format', format, '-o', '/dev/null']),
  ]) {
    const all = Array.from({ length: Math.min(runs, 3) }, () => cost(words));
    const rates = all.map(({ seconds }) => calls / seconds / 1e6);
    const memory = Math.max(...all.map(({ mebibytes }) => mebibytes));
    const name = words.length > 2 ? `export ${words[3]!}` : words[0]!;
    console.log(
      `${name} of ${calls} calls: ${spread(rates, 1)} million a second of CPU time, ${memory.toFixed(0)} MiB`,
    );
  }
}

export function benchNative(bench: NativeBench): void {
  const { folder, cli, hasTool } = bench;
  if (process.arch !== 'x64' || !hasTool('gcc') || !existsSync('/dev/shm')) {
    console.log('native traces: skipped (they need x86-64, gcc and /dev/shm)');
    return;
  }
  buildForms(folder, cli);
  const shared = mkdtempSync('/dev/shm/elftrace-bench-');
  const run = (form: Form, threads: number): LoopRun => runForm(form, threads, folder, shared);
  try {
    for (const threads of [1, 2, 8]) benchCalls(bench, run, threads);
    benchReaders(bench, run('traced', 1).dir);
  } finally {
    rmSync(shared, { recursive: true, force: true });
  }
}

const formats = ['chrome', 'perfetto', 'ftrace', 'ndjson', 'folded'] as const;

/** What was not recorded is counted: nothing where files may grow. */
function checkLosses(
  runText: (command: string, args: readonly string[]) => string,
  cli: string,
  dir: string,
  form: Form,
): void {
  const found = JSON.parse(runText(process.execPath, [cli, 'report', '--json', dir])) as {
    calls: number;
    dropped: number;
  };
  const isWhole = found.calls + found.dropped === calls && (form === 'limited' || found.dropped === 0);
  if (!isWhole) throw new Error(`${form}: ${found.calls} calls and ${found.dropped} lost of ${calls}`);
  console.log(`${form}: ${found.calls} calls recorded, ${found.dropped} counted as lost`);
}
