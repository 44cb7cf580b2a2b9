/**
 * `patch --enable` on arm64 programs, beside what `patch-enable` shows on all machines: what the
 * words in front of functions name, and what cannot be enabled, with the reason.
 */
import type { ConventionName } from '../src/machine/conventions.js';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { applyPlan } from '../src/patch/apply.js';
import { conventionFor, withRuntime } from '../src/tracing/inject.js';
import { GraphUser } from '../src/ftrace/index.js';
import { entryPoint } from '../src/program/entry-points.js';
import { Session } from '../src/tracing/session.js';
import { planTracing, type Tracer } from '../src/tracing/tracing.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { loadSamples, runImage, trace } from './support/loaded.js';
import {
  builtSamples,
  codeOf,
  errorOf,
  type Opened,
  openBytes,
  readSample,
  root,
  sampleNames,
} from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-arm64-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const programs = sampleNames().filter((name) => /^arm64\/(program-|core-patchable-4-2$)/.test(name));
/** What a program prints, but for the last line: its own count of calls of the profiling entry. */
const lines = (output: string): string[] => output.split('\n').filter((line) => !line.startsWith('trace='));

/** Entries that serve the sites of a program. */
const eras = (name: string): readonly ConventionName[] =>
  name.includes('mcount') ? ['pg'] : /4-2|mixed/.test(name) ? ['callops', 'regs', 'args'] : ['regs', 'args'];

function enable(opened: Opened, flavour: ConventionName, kind: Exclude<Tracer['kind'], 'symbol'>) {
  const image = withRuntime(opened.sites, undefined, undefined, flavour);
  const { sites } = openBytes(image.bytes);
  const plan = planTracing(sites, { tracer: { kind }, others: 'untouched' });
  return { plan, bytes: applyPlan(image, plan, { injected: true }).bytes };
}

/**
 * Names of the ops that the words in front of functions name, by function; '' before anything was
 * stored there.
 */
function literals({ sites, program }: Opened): Map<string, string> {
  const names = new Map(
    ['ftrace_nop_ops', 'ftrace_list_ops', 'elftrace_data'].map((symbol) => [
      entryPoint(program, symbol)?.identity,
      symbol,
    ]),
  );
  const found = new Map<string, string>();
  for (let i = 0; i < sites.count; i++) {
    const literal = sites.reading(i)?.literal;
    if (literal === undefined) continue;
    const name = literal === null ? '' : (names.get(literal) ?? literal.toString(16));
    found.set(program.symbolName(sites.functionSymbol(i)), name);
  }
  return found;
}

describe.each(programs)('%s', (name) => {
  const bytes = readSample(name);
  const opened = openBytes(bytes);
  const before = runImage(bytes);

  test('off again: A-SITE-3 the mov stays, the words name the ops that do nothing', () => {
    const [flavour] = eras(name);
    const on = openBytes(enable(opened, flavour!, 'function').bytes);
    const plan = planTracing(on.sites, { tracer: null, others: 'nop' });
    const off = openBytes(applyPlan(on.image, plan).bytes);
    expect(lines(runImage(off.image.bytes).output)).toEqual(lines(before.output));
    let left = 0;
    for (let i = 0; i < off.sites.count; i++) {
      const reading = off.sites.reading(i);
      if (reading === null || reading.state === 'foreign') continue;
      // Bodies that the linker left over are never selected.
      if (reading.state === 'compiled') left++;
      else expect(reading.state).toBe('nop');
      if (reading.state === 'nop' && flavour === 'callops')
        expect(reading.literal).toBe(entryPoint(off.program, 'ftrace_nop_ops')!.identity);
    }
    expect(left).toBeLessThan(2);
  });
});

test('T-A64-9, A-CO-8: functions that are not aligned are dropped with a diagnostic, the others are enabled', () => {
  const opened = openBytes(readSample('arm64/program-patchable-4-2'));
  const { plan } = enable(opened, 'callops', 'function');
  expect([plan.enabled, plan.refusals.length]).toEqual([15, 3]);
  for (const { code, errno, reason, address } of plan.refusals) {
    expect([code, errno, address & 7n]).toEqual(['misaligned', 'EINVAL', 4n]);
    expect(reason).toMatch(/A-SITE-1: the slot of =4,2 is not 8-aligned/);
  }
});

test('T-A64-1, T-A64-2: the word in front of each function holds its ops, and one entry serves all', () => {
  const { bytes } = loadSamples({ target: 'arm64', ending: '', flavour: 'callops' });
  const on = openBytes(trace(bytes));
  const words = literals(on);
  expect(words.size).toBe(26);
  expect(new Set(words.values())).toEqual(new Set(['elftrace_data']));
  const targets = new Set<bigint>();
  for (let i = 0; i < on.sites.count; i++) {
    const reading = on.sites.reading(i)!;
    // The literal, read by hand: 8 bytes at ip - 12 rounded down.
    const at = (on.sites.ip(i) - 12n) & ~7n;
    expect(on.program.reader.u64(at)).toBe(reading.literal);
    targets.add(on.program.finalTarget(reading.target!));
  }
  expect([...targets]).toEqual([entryPoint(on.program, 'ftrace_caller')!.identity]);
});

describe('ops of sites that are off', () => {
  const { bytes } = loadSamples({ target: 'arm64', ending: '', flavour: 'callops' });
  const expected = readFileSync(join(root, 'samples/expected/loaded.txt'), 'utf8');

  test.each([
    ['nop', 'ftrace_nop_ops'],
    ['list', 'ftrace_list_ops'],
  ] as const)('T-A64-3, T-A64-10: --a64-default=%s: every other word names %s', (idleOps, symbol) => {
    const opened = openBytes(bytes);
    const selection = new Uint8Array(opened.sites.count);
    selection[3] = 1;
    const on = openBytes(trace(bytes, { idleOps, selection }));
    const names = [...literals(on).values()];
    expect(names.filter((each) => each === 'elftrace_data').length).toBe(1);
    expect(names.filter((each) => each === symbol).length).toBe(25);
    expect(runImage(on.image.bytes).output).toBe(expected);
  });

  test('A-MOD-1: a word that names nothing of ours is not overwritten', () => {
    const on = trace(bytes);
    const { sites, image } = openBytes(on);
    const at = image.fileOffsetOf((sites.ip(5) - 12n) & ~7n);
    on.set([1, 2, 3, 4, 5, 6, 7, 0], at);
    const broken = openBytes(on);
    const plan = planTracing(broken.sites, { tracer: { kind: 'counter' }, others: 'nop' });
    expect(plan.refusals.map(({ site, code, errno }) => [site, code, errno])).toEqual([[5, 'wrong-ops', 'EINVAL']]);
    expect(plan.refusals[0]!.reason).toMatch(/0x7060504030201/);
  });

  test('A-MOD-2: another tracer: only words of objects change, no text', () => {
    const on = openBytes(trace(bytes));
    const plan = planTracing(on.sites, { tracer: { kind: 'function_graph' }, others: 'nop' });
    expect(plan.steps.map(({ section }) => section)).toEqual(['.elftrace.data']);
  });
});

describe('-pg behind a signed return address', () => {
  const sample = join(builtSamples, 'arm64/program-mcount-bti');

  test('the graph tracer is refused site by site, with code and reason; function tracers are not', () => {
    const refused = elftrace(['patch', sample, '--enable', '--tracer', 'function_graph', '-o', join(folder, 'pac')]);
    expect([refused.status, refused.stderr]).toEqual([1, expect.stringMatching(/error: signed-return: .*paciasp/)]);
    const dry = elftrace(['patch', sample, '--enable', '--tracer', 'function_graph', '--dry-run', '--json']);
    const { refusals } = JSON.parse(dry.stdout) as { refusals: { code: string }[] };
    expect([dry.status, new Set(refusals.map(({ code }) => code))]).toEqual([1, new Set(['signed-return'])]);
    expect(elftrace(['patch', sample, '--enable', '-o', join(folder, 'pac')]).status).toBe(0);
  });

  test('a session says which functions have no returns', () => {
    const image = withRuntime(openBytes(readFileSync(sample)).sites, undefined);
    const session = Session.open(image.bytes, archOf(image.header));
    const user = new GraphUser('graph', { entry: 0n, return: 0n });
    expect(session.core.setGraphFilter(user, 'filter', 'leaf')).toMatchObject({ kind: 'done' });
    expect(session.core.registerGraph(user)).toMatchObject({
      kind: 'done',
      warnings: [expect.stringMatching(/^graph: signed-return: leaf is not hooked: the function has signed/)],
    });
  });
});

describe('the command line', () => {
  const sample = join(builtSamples, 'arm64/core-patchable-4-2');

  test('eras and defaults', () => {
    const output = (name: string): string => join(folder, name);
    const run = (...args: string[]) => elftrace(args);
    expect(run('patch', sample, '--enable', '-o', output('callops')).status).toBe(0);
    expect(run('patch', sample, '--enable', '--a64-era', 'regs', '-o', output('regs')).status).toBe(0);
    const words = (name: string): Set<string> =>
      new Set(literals(openBytes(new Uint8Array(readFileSync(output(name))))).values());
    expect(words('callops')).toEqual(new Set(['elftrace_data']));
    // The entries of the years before do not read it.
    expect(words('regs')).toEqual(new Set(['']));
    expect(run('patch', sample, '--enable', '--a64-era', 'args', '-o', output('args')).status).toBe(0);
    expect(words('args')).toEqual(new Set(['']));
    expect(
      entryPoint(openBytes(new Uint8Array(readFileSync(output('args')))).program, 'elftrace_entry_args'),
    ).not.toBeNull();
    expect(run('status', output('callops')).stdout).toMatch(/->ftrace_caller/);
    expect(run('patch', output('callops'), '--nop', '--a64-default', 'list', '-o', output('off')).status).toBe(0);
    expect(words('off')).toEqual(new Set(['ftrace_list_ops']));
    expect(run('patch', output('off'), '--init', '-o', output('init')).status).toBe(0);
    expect(words('init')).toEqual(new Set(['ftrace_nop_ops']));
    expect(run('revert', output('init'), '-o', output('back')).status).toBe(0);
    expect(readFileSync(output('back')).equals(readFileSync(sample))).toBe(true);
    const both = run(
      'patch',
      join(builtSamples, 'arm64/program-patchable-2'),
      '--enable',
      '--a64-era',
      'callops',
      '-o',
      output('no'),
    );
    expect([both.status, both.stderr]).toEqual([2, expect.stringMatching(/'callops' serves/)]);
    const other = run(
      'patch',
      join(builtSamples, 'ppc32/program-mcount'),
      '--nop',
      '--a64-default',
      'list',
      '-o',
      output('no'),
    );
    expect([other.status, other.stderr]).toEqual([2, expect.stringMatching(/--a64-default is about arm64/)]);
  });

  test('load takes the era too', () => {
    const paths = ['core.o', 'far-one.ko', 'far-two.ko'].map((name) => join(builtSamples, 'arm64', name));
    const regs = join(folder, 'loaded-regs');
    expect(elftrace(['load', ...paths, '--a64-era', 'regs', '-o', regs]).status).toBe(0);
    expect(entryPoint(openBytes(new Uint8Array(readFileSync(regs))).program, 'ftrace_regs_caller')).not.toBeNull();
    const args = join(folder, 'loaded-args');
    expect(elftrace(['load', ...paths, '--a64-era', 'args', '-o', args]).status).toBe(0);
    expect(entryPoint(openBytes(new Uint8Array(readFileSync(args))).program, 'elftrace_entry_args')).not.toBeNull();
    const callops = join(folder, 'loaded');
    expect(elftrace(['load', ...paths, '-o', callops]).status).toBe(0);
    expect(entryPoint(openBytes(new Uint8Array(readFileSync(callops))).program, 'ftrace_list_ops')).not.toBeNull();
    const two = ['core-patchable-2.o', 'far-one-patchable-2.ko'].map((name) => join(builtSamples, 'arm64', name));
    expect(elftrace(['load', ...two, '--a64-era', 'callops', '-o', join(folder, 'no')]).status).toBe(2);
    const on = join(folder, 'loaded-on');
    expect(elftrace(['patch', callops, '--enable', '--tracer', 'function_graph', '-o', on]).status).toBe(0);
    const run = elftrace(['run', '--trace', join(folder, 'graph'), '--format', 'graph', on]);
    expect([run.status, readFileSync(join(folder, 'graph'), 'utf8')]).toEqual([
      51,
      expect.stringMatching(/\|\s+\} \/\* /),
    ]);
  });

  test('what has no entry', () => {
    expect(codeOf(() => withRuntime(openBytes(readSample('arm64/module-patchable-2.ko')).sites, undefined))).toBe(
      'no-runtime',
    );
    expect(codeOf(() => withRuntime(openBytes(readSample('arm64/pie-patchable-2')).sites, undefined))).toBe(
      'no-runtime',
    );
    const plain = openBytes(readSample('arm64/program-patchable-2'));
    expect(conventionFor(plain.sites).name).toBe('regs');
    expect(errorOf(() => conventionFor(plain.sites, undefined, 'callops')).message).toMatch(/'callops'/);
  });
});
