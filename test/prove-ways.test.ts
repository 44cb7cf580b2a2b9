/**
 * Proofs of everything that the tool writes: targets by ways, and what each says. A cell that is
 * not proved has the code of its refusal here.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { everyNth, isLong, isWhole } from './support/long.js';
import { builtSamples } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-prove-ways-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);
const sample = (name: string): string => join(builtSamples, name);

function session(name: string, ...steps: readonly string[]): readonly string[] {
  writeFileSync(at(name), `version: 1\nsteps:\n${steps.map((each) => `  - ${each}\n`).join('')}`);
  return ['--session', at(name)];
}

/**
 * `proved`: sites changed, and all of them are proved. `unchanged`: no byte of a site changed, and
 * their bytes are the proof. Else the code with which `patch` refuses.
 */
type Answer = 'proved' | 'unchanged' | 'plan-refused' | 'no-runtime' | 'unsupported-form' | 'no-match';

const ways: Readonly<Record<string, (caller: string) => readonly string[]>> = {
  nop: () => ['--nop'],
  init: () => ['--init'],
  untrace: () => ['--untrace'],
  function: () => ['--enable'],
  function_graph: () => ['--enable', '--tracer', 'function_graph'],
  'counter with registers': () => ['--enable', '--tracer', 'counter', '--save-regs'],
  'several ops': () =>
    session(
      'list',
      'ops: { name: one, call: elftrace_counter, filter: "leaf sum" }',
      'ops: { name: two, call: elftrace_function_tracer, notrace: "many" }',
      'register: one',
      'register: two',
    ),
  // One site, one ops: a trampoline of its own, or per-callsite ops.
  'ops of their own': () =>
    session(
      'own',
      'ops: { name: one, call: elftrace_counter, dynamic: true, filter: "leaf" }',
      'ops: { name: two, call: elftrace_function_tracer, filter: "sum" }',
      'register: one',
      'register: two',
    ),
  'registered and gone': () =>
    session('gone', 'ops: { name: one, call: elftrace_counter }', 'register: one', 'unregister: one'),
  'a direct caller': (caller) => ['--direct', `leaf=${caller}`],
  'a function in the place of another one': () => ['--livepatch', 'leaf=bump'],
  'a breakpoint': () => ['--probe', 'p:x outer'],
  'a jump': () => ['--probe', 'p:x outer', '--optimize'],
  'a return probe': () => ['--probe', 'r:x leaf'],
};

/** Sample, direct caller, and the ways that are not proved there. */
const targets: readonly (readonly [string, string, Readonly<Record<string, Answer>>])[] = [
  ['x86-64/program-fentry', 'ftrace_stub', {}],
  [
    'arm64/program-patchable-2',
    'elftrace_direct_stub',
    { nop: 'unchanged', untrace: 'unchanged', 'a direct caller': 'no-match' },
  ],
  ['riscv64/program-patchable-8', 'ftrace_stub_direct_tramp', { nop: 'unchanged', untrace: 'unchanged' }],
  ['ppc32/program-patchable-1', 'ftrace_stub', { nop: 'unchanged', init: 'unchanged', untrace: 'unchanged' }],
  ['ppc64-elfv1/program-mprofile', 'ftrace_stub', { 'a direct caller': 'plan-refused' }],
  ['ppc64-elfv2-be/program-mprofile', 'ftrace_stub', { 'a direct caller': 'plan-refused' }],
  [
    'ppc64-elfv2-le/program-power10-patchable-1',
    'ftrace_stub',
    { nop: 'unchanged', init: 'unchanged', untrace: 'unchanged' },
  ],
];

/** Patches a file, proves what comes out, takes the patch back. */
function answerOf(file: string, options: readonly string[]): Answer {
  const output = at('out');
  const { status, stderr } = elftrace(['patch', file, ...options, '-o', output]);
  if (status !== 0) return /\[([a-z-]+)\]$/.exec(stderr.trim())?.[1] as Answer;
  const said = elftrace(['prove', output, file]);
  expect([options, said.stdout, said.stderr]).toEqual([
    options,
    expect.stringMatching(/ 0 different, 0 inconclusive\n$/),
    '',
  ]);
  expect(elftrace(['revert', output, '-o', at('back')]).status).toBe(0);
  expect(readFileSync(at('back')).equals(readFileSync(file))).toBe(true);
  const proved = Number(/(\d+) proved/.exec(said.stdout)![1]);
  expect([options, said.status]).toEqual([options, 0]);
  return proved > 0 ? 'proved' : 'unchanged';
}

/** Each way on one target, each target in some ways; all of them where long proofs run. */
const isTried = (target: number, way: number): boolean =>
  isWhole || (isLong ? (way + 2 * target) % 5 === 0 : way % targets.length === target);

describe.each(targets.map((each, i) => [...each, i] as const))('%s', (name, caller, others, target) => {
  test.each(Object.keys(ways).filter((_, way) => isTried(target, way)))(
    'PV-1: %s is proved, or refused with its code, and can be taken back',
    (way) => {
      expect([way, answerOf(sample(name), ways[way]!(caller))]).toEqual([
        way,
        others[way] ?? (way === 'registered and gone' ? 'unchanged' : 'proved'),
      ]);
    },
  );
});

test('PV-1: an ops that waits for a module takes no site, and is not asked for one', () => {
  const waiting = 'ops: { name: one, call: elftrace_counter, filter: ":mod:other" }';
  const other = 'ops: { name: two, call: elftrace_function_tracer, filter: "leaf sum" }';
  const options = session('waiting', waiting, other, 'register: one', 'register: two');
  expect(answerOf(sample('riscv64/program-patchable-8'), options)).toBe('proved');
});

/** A session that makes each kind of target one from the other: list, trampolines, graph, none. */
const steps = [
  'ops: { name: one, call: elftrace_counter, filter: "leaf sum" }',
  'register: one',
  'ops: { name: two, call: elftrace_function_tracer }',
  'register: two',
  'graph: { name: three, filter: "sum" }',
  'notrace: { ops: two, words: "leaf" }',
  'unregister: one',
  'no-graph: three',
  'unregister: two',
];
/** As many steps are done; the first one alone changes no site. */
const prefixes = [5, 2, 4, 6, 7, 8];

test.each(everyNth(targets.slice(1), 3))('PV-3: %s: the states between the steps of a session are proved', (name) => {
  for (const count of everyNth(prefixes, 2)) {
    const options = session(`steps-${count}`, ...steps.slice(0, count));
    expect([count, answerOf(sample(name), options)]).toEqual([count, 'proved']);
  }
});

/** Other files: where the runtime does not come in, its ways are refused. */
const files: readonly (readonly [string, Readonly<Record<string, Answer>>])[] = [
  ['arm64/pie-patchable-2', { init: 'proved', untrace: 'unsupported-form', function: 'no-runtime' }],
  ['riscv64/pie-patchable-4', { init: 'proved', untrace: 'unsupported-form', function: 'no-runtime' }],
  ['ppc64-elfv2-le/pie-mprofile', { nop: 'proved', untrace: 'proved', function: 'no-runtime' }],
  ['x86-64/pie-patchable-5-relr', { init: 'proved', untrace: 'plan-refused', 'a return probe': 'no-runtime' }],
  ['arm64/shared-patchable-2.so', { init: 'proved' }],
  ['x86-64/shared-fentry.so', { nop: 'proved', untrace: 'proved' }],
  ['x86-64/program-fentry-relocations', { untrace: 'proved', function: 'proved' }],
];

test.each(isLong ? files : files.slice(0, 3))(
  'PV-1: %s: position-independent files, and linked ones with relocations',
  (name, answers) => {
    for (const [way, answer] of Object.entries(answers)) {
      expect([way, answerOf(sample(name), ways[way]!(''))]).toEqual([way, answer]);
    }
  },
);

/** Images of `load`: modules so far from the core that their sites need stubs. */
const images: readonly (readonly [string, readonly string[]])[] = [
  ['x86-64', ['core.o', 'far-one.ko', 'far-two.ko']],
  ['arm64', ['core-patchable-2.o', 'far-one-patchable-2.ko', 'far-two-patchable-2.ko']],
  ['riscv64', ['core.o', 'far-one.ko', 'far-two.ko']],
  ['ppc32', ['core-patchable-1.o', 'far-one-patchable-1.ko', 'far-two-patchable-1.ko']],
  ['ppc64-elfv1', ['core-mprofile.o', 'far-one-mprofile.ko', 'far-two-mprofile.ko']],
  ['ppc64-elfv2-be', ['core.o', 'far-one.ko', 'far-two.ko']],
  ['ppc64-elfv2-le', ['core.o', 'far-one.ko', 'far-two.ko']],
];

test.each(everyNth(images.slice(1), 3))('PV-1: %s: images of load, with modules behind stubs', (target, parts) => {
  const loaded = elftrace(['load', ...parts.map((part) => sample(`${target}/${part}`)), '-o', at('image')]);
  expect([loaded.status, loaded.stderr]).toEqual([0, '']);
  for (const way of ['function', 'function_graph', ...(isWhole ? ['counter with registers', 'several ops'] : [])]) {
    // Parts have other names: all sites.
    if (way !== 'several ops') expect([way, answerOf(at('image'), ways[way]!(''))]).toEqual([way, 'proved']);
  }
});

describe('names and records from elsewhere reach the prover', () => {
  test('PV-1: --symbols: functions of a stripped file are entered where they begin', () => {
    const [stripped, names] = [sample('x86-64/program-fentry-stripped'), sample('x86-64/program-fentry')];
    const patched = elftrace(['patch', stripped, '--nop', '--symbols', names, '-o', at('stripped')]);
    expect([patched.status, patched.stderr]).toEqual([0, '']);
    const functions = (...options: readonly string[]): string[] =>
      elftrace(['prove', at('stripped'), stripped, '--all', '--json', ...options])
        .stdout.trim()
        .split('\n')
        .flatMap((line) => (JSON.parse(line) as { function?: string }).function ?? []);
    expect(functions('--symbols', names)).toContain('leaf');
    expect(functions()).not.toContain('leaf');
  });

  test('PV-4: --journal: the original is what the record beside the file says', () => {
    const module = sample('x86-64/module-fentry.ko');
    expect(elftrace(['patch', module, '--nop', '-o', at('beside.ko'), '--journal', at('journal')]).status).toBe(0);
    expect(elftrace(['prove', at('beside.ko')]).status).toBe(2);
    const { status, stdout } = elftrace(['prove', at('beside.ko'), '--journal', at('journal')]);
    expect([status, stdout]).toEqual([0, expect.stringMatching(/ [1-9]\d* proved, 0 unchanged, 0 different/)]);
  });

  test('PV-1: --mcount: sites of a profiling entry with another name', () => {
    const renamed = Buffer.from(readFileSync(sample('x86-64/program-mcount')));
    for (let i = renamed.indexOf('mcount\0'); i >= 0; i = renamed.indexOf('mcount\0')) renamed.write('myount', i);
    writeFileSync(at('myount'), renamed);
    const patched = elftrace(['patch', at('myount'), '--nop', '--mcount', 'myount', '-o', at('myount.off')]);
    expect([patched.status, patched.stderr]).toEqual([0, '']);
    const { status, stdout } = elftrace(['prove', at('myount.off'), at('myount'), '--mcount', 'myount']);
    expect([status, stdout]).toEqual([0, expect.stringMatching(/ [1-9]\d* proved, \d unchanged, 0 different/)]);
    // Without the name the record alone tells places; nothing of them may be a yes.
    expect(elftrace(['prove', at('myount.off'), at('myount')]).status).not.toBe(1);
  });

  test('PV-1: --table reaches the search for sites', () => {
    const file = sample('x86-64/module-fentry.ko');
    expect(elftrace(['patch', file, '--nop', '-o', at('nop.ko')]).status).toBe(0);
    const { status, stderr } = elftrace(['prove', at('nop.ko'), file, '--table', 'no_table']);
    expect([status, stderr]).toEqual([2, expect.stringContaining('no_table')]);
  });
});
