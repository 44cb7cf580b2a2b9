/**
 * Programs whose return addresses may not be replaced: function_graph, graphs of sessions and
 * return probes refuse them with every reason, and nothing else. The programs are what compilers
 * and the C library make of a few lines; that they die of it is seen on the processor.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { graphHazards, type GraphHazard, isUserProgram } from '../src/tracing/graph-safety.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { loadedCases, loadSamples } from './support/loaded.js';
import { few, isLong, isWhole, repeats } from './support/long.js';
import { openBytes, readSample, root, sampleNames } from './support/pipeline.js';
import { describeWith, run, runProgramFile } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-graph-safety-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** What is wrong with a JSON text by one of the schemas. */
function matches(name: string, text: string): unknown[] {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false, allErrors: true });
  const validate = ajv.compile(
    JSON.parse(readFileSync(join(root, 'schemas', `${name}.schema.json`), 'utf8')) as object,
  );
  validate(JSON.parse(text));
  return validate.errors ?? [];
}

const NOINLINE = '__attribute__((noinline))';
const SOURCES = {
  hello: `#include <stdio.h>
    ${NOINLINE} int leaf(int x) { return x * 3; }
    int main(void) { printf("hello %d\\n", leaf(7)); return 0; }`,
  throws: `#include <cstdio>
    ${NOINLINE} int inner(int x) { if (x > 2) throw x; return x + 1; }
    int main() { int s = 0; for (int i = 0; i < 5; i++) { try { s += inner(i); } catch (int e) { s += 100 * e; } } std::printf("%d\\n", s); }`,
  jump: `#include <setjmp.h>
    #include <stdio.h>
    static jmp_buf env;
    ${NOINLINE} void deep(int x) { if (x == 0) longjmp(env, 3); deep(x - 1); puts("no"); }
    int main(void) { if (setjmp(env) == 0) deep(5); puts("back"); return 0; }`,
  signal: `#include <signal.h>
    #include <stdio.h>
    volatile int n;
    ${NOINLINE} void work(int x) { n += x; }
    ${NOINLINE} void handler(int s) { work(s); }
    ${NOINLINE} int outer(int x) { raise(SIGUSR1); return x + 1; }
    int main(void) {
      static char far_below[64];
      char stack[65536];
      stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
      struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
      sigaltstack(&alternate, 0);
      sigaction(SIGUSR1, &action, 0);
      printf("%d %d\\n", outer(1), n + far_below[0]);
      return 0;
    }`,
  context: `#include <ucontext.h>
    #include <stdio.h>
    static ucontext_t outside, inside;
    static char stack[65536];
    ${NOINLINE} void step(int i) { printf("step %d\\n", i); swapcontext(&inside, &outside); }
    void routine(void) { for (int i = 0; i < 3; i++) step(i); }
    ${NOINLINE} void resume(void) { swapcontext(&outside, &inside); }
    int main(void) {
      getcontext(&inside);
      inside.uc_stack.ss_sp = stack;
      inside.uc_stack.ss_size = sizeof stack;
      inside.uc_link = &outside;
      makecontext(&inside, routine, 0);
      for (int i = 0; i < 4; i++) resume();
      return 0;
    }`,
  table: `#include <setjmp.h>
    #include <signal.h>
    typedef void (*any)(void);
    struct { const char *name; any function; } table[] = { { "longjmp", (any)longjmp }, { "signal", (any)signal } };
    int main(int n, char **v) { (void)v; return table[n].function == 0; }`,
  pointer: `#include <signal.h>
    void *volatile kept;
    int main(void) { kept = (void *)sigaction; return 0; }`,
  syscall: `#include <sys/syscall.h>
    #include <unistd.h>
    int main(void) { return (int)syscall(SYS_rt_sigaction, 10, 0, 0, 8); }`,
  gettid: `#include <sys/syscall.h>
    #include <unistd.h>
    int main(void) { return syscall(SYS_gettid) == 0; }`,
  cleanup: `#include <stdio.h>
    static void done(int *x) { printf("%d\\n", *x); }
    ${NOINLINE} int leaf(int x) { return x * 3; }
    int main(int n, char **v) { __attribute__((cleanup(done))) int x = n; (void)v; printf("%d\\n", leaf(x)); return 0; }`,
  exit: `#include <pthread.h>
    int main(void) { pthread_exit(0); }`,
  fork: `#include <unistd.h>
    int main(void) { if (vfork() == 0) _exit(0); return 0; }`,
} as const;
type Name = keyof typeof SOURCES;

/** Machines with how sites are made, and the number of rt_sigaction. */
const MACHINES = {
  'x86-64': { gcc: 'gcc', flags: ['-pg', '-mfentry', '-mrecord-mcount'], raw: 'asm("syscall" :: "a"(13L), "D"(10L) : "rcx", "r11", "memory")' },
  arm64: { gcc: 'aarch64-linux-gnu-gcc', flags: ['-fpatchable-function-entry=2'], raw: 'asm("mov x8, #134\\n svc #0" ::: "x0", "x8", "memory")' },
  riscv64: { gcc: 'riscv64-linux-gnu-gcc', flags: ['-fpatchable-function-entry=4', '-march=rv64g'], raw: 'asm("li a7, 134\\n ecall" ::: "a0", "a7", "memory")' },
  ppc32: { gcc: 'powerpc-linux-gnu-gcc', flags: ['-pg'], raw: 'asm("li 0, 173\\n sc" ::: "r0", "r3", "memory", "cr0")' },
  'ppc64-elfv1': { gcc: 'powerpc64-linux-gnu-gcc', flags: ['-pg'], raw: 'asm("li 0, 173\\n sc" ::: "r0", "r3", "memory", "cr0")' },
  'ppc64-elfv2-le': { gcc: 'powerpc64le-linux-gnu-gcc', flags: ['-pg', '-mprofile-kernel'], raw: 'asm("li 0, 173\\n sc" ::: "r0", "r3", "memory", "cr0")' },
} as const; // prettier-ignore
type Machine = keyof typeof MACHINES;

interface Build {
  readonly machine?: Machine;
  readonly flags?: readonly string[];
  readonly linked?: 'static' | 'dynamic';
  readonly compiler?: string;
}

/** Compiles and links one of the programs, or a text; yields its path. */
function build(source: Name | { readonly text: string }, request: Build = {}): string {
  const { machine = 'x86-64', flags = [], linked = 'static' } = request;
  const { gcc, flags: own } = MACHINES[machine];
  const text = typeof source === 'string' ? SOURCES[source] : source.text;
  const output = join(
    folder,
    `${typeof source === 'string' ? source : 'text'}-${machine}-${linked}${flags.join('').replace(/\W/g, '')}`,
  );
  const isCpp = source === 'throws';
  const file = `${output}.${isCpp ? 'cc' : 'c'}`;
  writeFileSync(file, text);
  run(request.compiler ?? (isCpp ? 'g++' : gcc), [
    '-O2', '-w', '-fno-pie', '-no-pie', ...own, ...flags, ...(linked === 'static' ? ['-static'] : []), '-o', output, file,
  ]); // prettier-ignore
  return output;
}

const hazardsIn = (path: string): readonly GraphHazard[] =>
  graphHazards(openBytes(new Uint8Array(readFileSync(path))).sites);

/** `function kind reference`, without the offset in the function. */
const lines = (found: readonly GraphHazard[]): string[] =>
  found.map(({ function: name, by, reference }) => `${name.replace(/\+.*/, '')} ${by} ${reference}`).sort();

const EXPECTED = {
  jump: ['deep call longjmp', 'main call _setjmp'],
  signal: ['main call sigaction'],
  context: ['main call getcontext', 'main call makecontext', 'resume call swapcontext', 'step call swapcontext'],
  table: ['table data longjmp', 'table data signal'],
  pointer: ['main address sigaction'],
  syscall: ['main system-call rt_sigaction'],
} as const satisfies Partial<Record<Name, readonly string[]>>;

/**
 * Forms of references that are followed alike on all machines, by what lifters say: tried on these.
 * Each form is a static program with the C library to link and to read.
 */
const FOLLOWED: readonly Machine[] = isLong ? ['x86-64', 'arm64'] : ['x86-64'];

describe.each(repeats(Object.keys(MACHINES) as Machine[]))('%s', (machine) => {
  describeWith([MACHINES[machine].gcc], 'static programs of glibc', () => {
    test('one without such references is accepted: what the C library does inside is its own', () => {
      expect(hazardsIn(build('hello', { machine }))).toEqual([]);
    });

    test('every reference of its own is named with its function', () => {
      const names = ['jump', 'signal', 'context'] as const;
      const at = Object.keys(MACHINES).indexOf(machine);
      // All on one machine; on the others one, in turn.
      for (const name of isWhole || at === 0 ? names : [names[at % names.length]!])
        expect([name, lines(hazardsIn(build(name, { machine })))]).toEqual([name, EXPECTED[name]]);
    });

    if (isWhole || FOLLOWED.includes(machine))
      test('addresses in data and in code; system calls by number, which others do not look like', () => {
        const names = ['table', 'pointer', 'syscall'] as const;
        const found = names.map((name) => [name, lines(hazardsIn(build(name, { machine })))]);
        expect(Object.fromEntries(found)).toEqual({
          table: EXPECTED.table,
          pointer: EXPECTED.pointer,
          syscall: EXPECTED.syscall,
        });
        expect(hazardsIn(build('gettid', { machine }))).toEqual([]);
        const raw = { text: `int main(void) { __asm__ volatile${MACHINES[machine].raw.slice(3)}; return 0; }` };
        expect(lines(hazardsIn(build(raw, { machine })))).toEqual(['main system-call rt_sigaction']);
      });
  });
});

describeWith(['gcc', 'g++'], 'x86-64, in other forms', () => {
  test.each(['-fplt', '-fno-plt'])('imports of a dynamic program with %s, stripped or not', (flag) => {
    const path = build('jump', { linked: 'dynamic', flags: [flag] });
    const found = hazardsIn(path);
    expect(found.map(({ function: name, reference }) => `${name.replace(/\+.*/, '')} ${reference}`).sort()).toEqual(
      expect.arrayContaining(['deep longjmp', 'main _setjmp']),
    );
    run('strip', ['-o', `${path}.stripped`, path]);
    expect(new Set(hazardsIn(`${path}.stripped`).map(({ reference }) => reference))).toEqual(
      new Set(['longjmp', '_setjmp']),
    );
    expect(hazardsIn(build('hello', { linked: 'dynamic', flags: [flag] }))).toEqual([]);
  });

  test('an import that nothing is seen to use is one all the same', () => {
    expect(lines(hazardsIn(build('pointer', { linked: 'dynamic' })))).toEqual([' import sigaction']);
  });

  test('threads that are unwound, functions that return twice', () => {
    expect(hazardsIn(build('exit')).map(({ kind, function: name }) => [kind, name.replace(/\+.*/, '')])).toEqual([
      ['thread-exit', 'main'],
    ]);
    expect(lines(hazardsIn(build('fork')))).toEqual(['main call vfork']);
  });

  test('exception tables of its own are told from those of the C library', () => {
    expect(hazardsIn(build('cleanup'))).toEqual([]);
    expect(lines(hazardsIn(build('cleanup', { flags: ['-fexceptions'] })))).toEqual(['main table a landing pad']);
    const thrown = lines(hazardsIn(build('throws')));
    expect(thrown).toContain('main table a landing pad');
    expect(thrown.some((line) => /inner.* call __cxa_throw$/.test(line))).toBe(true);
  });

  test('a function of the program with the name of one of the library is not the library, if it has a site', () => {
    const text = `#include <signal.h>
      ${NOINLINE} void do_system(void (*f)(int)) { signal(10, f); }
      int main(void) { do_system(0); return 0; }`;
    expect(lines(hazardsIn(build({ text })))).toEqual(['do_system call signal']);
  });

  test('of a static program without symbols nothing is known, until somebody names its functions', () => {
    const path = build('hello', { flags: ['-fpatchable-function-entry=5', '-fno-pie'] });
    const stripped = `${path}.stripped`;
    run('strip', ['-o', stripped, path]);
    expect(hazardsIn(stripped).some(({ kind }) => kind === 'unknown')).toBe(true);
    const symbols = openBytes(new Uint8Array(readFileSync(path))).image.symbols;
    expect(graphHazards(openBytes(new Uint8Array(readFileSync(stripped)), { symbols }).sites)).toEqual([]);
  });
});

describeWith(['csmith', 'gcc'], 'random programs', () => {
  const include = ['/usr/include/csmith', '/usr/include/csmith-2.3.0', '/usr/include'].find((each) =>
    existsSync(join(each, 'csmith.h')),
  );
  test.each(few([1, 2, 3]))('of csmith, seed %i, are accepted', (seed) => {
    const text = run('csmith', ['--seed', String(seed)]).toString();
    expect(hazardsIn(build({ text }, { flags: [`-I${include ?? '/usr/include'}`] }))).toEqual([]);
  });
});

test('no sample with symbols is refused, and images of load are not asked', () => {
  // Without front end their references cannot be followed: the graph tracer is refused there.
  const isExecuted = (name: string): boolean => !/^(s390x|loongarch64)\//.test(name);
  const programs = sampleNames().filter((name) => /\/program-/.test(name) && isExecuted(name));
  expect(programs.length).toBeGreaterThan(30);
  const refused = programs.filter((name) => graphHazards(openBytes(readSample(name)).sites).length > 0);
  // Of a stripped one nothing is known.
  expect(refused).toEqual(programs.filter((name) => name.endsWith('-stripped')));
  const { bytes } = loadSamples(loadedCases[0]!);
  expect(isUserProgram(openBytes(bytes).sites)).toBe(false);
});

describeWith(['gcc', 'g++'], 'the command line', () => {
  const output = join(folder, 'output');
  const never = (): void => {
    expect(existsSync(output)).toBe(false);
  };
  const session = join(folder, 'graph.json');
  writeFileSync(session, JSON.stringify({ version: 1, steps: [{ graph: { name: 'mine' } }] }));

  const ways = [
    ['--tracer function_graph', ['--enable', '--tracer', 'function_graph']],
    ['a graph of a session', ['--session', session]],
    ['its callback by name', ['--enable', '--tracer', 'ftrace_graph_func']],
    ['r:', ['--probe', 'r:back work']],
    ['%return', ['--probe', 'p:back work%return']],
  ] as const;
  test.each(repeats(ways, 2))(
    '%s: exit status 1, the function and the reference, no output; allowed: a notice',
    (title, options) => {
      const path = build('signal');
      const { status, stderr } = elftrace(['patch', path, ...options, '-o', output]);
      expect(status).toBe(1);
      expect(stderr).toMatch(
        /^ {2}main\+0x\w+ calls sigaction: .*\n {2}nothing was written; --allow-unsafe-graph .* \[unsafe-graph\]$/m,
      );
      never();
      // What asks is one check; each option that leads to it is shown above.
      if (!isWhole && !/function_graph|r:/.test(title)) return;
      const allowed = elftrace(['patch', path, ...options, '--allow-unsafe-graph', '-o', output]);
      expect([allowed.status, allowed.stderr]).toEqual([
        0,
        expect.stringMatching(/notice: --allow-unsafe-graph: .*main\+0x\w+ calls sigaction/),
      ]);
      expect(existsSync(output)).toBe(true);
      expect(elftrace(['status', output]).status).toBe(0);
      const back = join(folder, 'back');
      expect(elftrace(['revert', output, '-o', back]).status).toBe(0);
      expect(readFileSync(back).equals(readFileSync(path))).toBe(true);
      rmSync(output);
      rmSync(back);
    },
  );

  test('what replaces no return address is not asked', () => {
    const path = build('signal');
    for (const options of [['--enable'], ['--enable', '--tracer', 'counter'], ['--probe', 'p:here work'], ['--nop']]) {
      expect([options, elftrace(['patch', path, ...options, '-o', output]).status]).toEqual([options, 0]);
      rmSync(output);
    }
  });

  test('JSON has a refusal for each finding, with place, reason and reference; so have plans', () => {
    const path = build('jump');
    const graph = [path, '--enable', '--tracer', 'function_graph'];
    const { status, stdout } = elftrace(['patch', ...graph, '-o', output, '--json']);
    expect(status).toBe(1);
    const parsed = JSON.parse(stdout) as { output: null; edits: unknown[]; refusals: Record<string, unknown>[] };
    expect(matches('patch', stdout)).toEqual([]);
    expect([parsed.output, parsed.edits]).toEqual([null, []]);
    expect(parsed.refusals).toEqual([
      expect.objectContaining({ code: 'unsafe-graph', hazard: 'returns-twice', by: 'call', reference: '_setjmp' }),
      expect.objectContaining({
        code: 'unsafe-graph',
        hazard: 'jump',
        by: 'call',
        reference: 'longjmp',
        section: '.text',
      }),
    ]);
    expect(parsed.refusals[1]!['function']).toMatch(/^deep\+0x/);
    const dry = elftrace(['patch', ...graph, '--dry-run', '--json']);
    expect([dry.status, (JSON.parse(dry.stdout) as { steps: unknown[]; refusals: unknown[] }).refusals]).toEqual([
      1,
      parsed.refusals,
    ]);
    expect(matches('plan', dry.stdout)).toEqual([]);
    expect(elftrace(['plan', ...graph, '-o', output]).status).toBe(1);
    never();
  });

  test('an object that a session brings counts too', () => {
    const object = join(folder, 'more.o');
    const source = join(folder, 'more.c');
    writeFileSync(
      source,
      'void raw(void) { __asm__ volatile("syscall" :: "a"(13L), "D"(10L) : "rcx", "r11", "memory"); }',
    );
    run('gcc', ['-O2', '-fno-pie', '-c', '-o', object, source]);
    const path = build('hello');
    expect(elftrace(['patch', path, '--with', object, '--session', session, '-o', output]).stderr).toMatch(
      /raw\+0x\w+ makes the system call rt_sigaction/,
    );
    never();
    expect(elftrace(['patch', path, '--session', session, '-o', output]).status).toBe(0);
    rmSync(output);
  });

  test('a session that was allowed to goes on without the option', () => {
    const path = build('signal');
    expect(elftrace(['patch', path, '--session', session, '--allow-unsafe-graph', '-o', output]).status).toBe(0);
    const more = join(folder, 'more.json');
    writeFileSync(more, JSON.stringify({ version: 1, steps: [{ graph: { name: 'second', filter: 'work' } }] }));
    const second = join(folder, 'second');
    expect([elftrace(['patch', output, '--session', more, '-o', second]).status]).toEqual([0]);
    rmSync(output);
  });

  const native = process.arch === 'x64' && process.platform === 'linux' ? test : test.skip;
  // What the refusals are about: these die, or print something else, with their return addresses
  // replaced.
  native.each([
    ['throws', 134],
    ['signal', 132],
    ['context', 132],
  ] as const)('%s: the program ends by itself, and with function_graph by signal %i - 128', (name, expected) => {
    const path = build(name);
    expect(runProgramFile(path).status).toBe(0);
    const made = elftrace([
      'patch',
      path,
      '--enable',
      '--tracer',
      'function_graph',
      '--allow-unsafe-graph',
      '-o',
      output,
    ]);
    expect(made.status).toBe(0);
    const { status, signal } = runProgramFile(output);
    expect(status ?? { SIGABRT: 134, SIGILL: 132 }[String(signal)]).toBe(expected);
    rmSync(output);
  });
});
