/**
 * Tracing of x86-64 programs (issue: dynamically allocated trampolines): sites of every shape are
 * written, the runtime is laid in, and the program does here, on this processor and under
 * qemu-x86_64 what it did without. Its own trace is what the machine sees. Bytes are compared
 * without the tool's plans.
 */
import { existsSync, chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { covering, isLong, isWhole } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { withRuntime } from '../src/tracing/inject.js';
import { planSites } from '../src/patch/plan-sites.js';
import { planTracing, type Tracer, type TracingRequest } from '../src/tracing/tracing.js';
import { verify } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { traceDifferences, runWithBoth } from './support/compare-traces.js';
import { runImage } from './support/loaded.js';
import { differences, openBytes, readSample, sampleNames } from './support/pipeline.js';
import { tool } from './support/tools.js';
import { isX86Linux } from './support/processor.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-x86-tracing-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/**
 * Programs with sites that a tracer can be called from. Without symbols nothing tells how a
 * function begins, and 16 of 16 nops before it are not executed.
 */
const programs = sampleNames().filter(
  (name) => /^x86-64\/(program|core)-/.test(name) && !/stripped|16-16|\.o$/.test(name),
);
const variants = ['modern', '2014', 'none'] as const;
type Variant = (typeof variants)[number];

/** The program's own count of calls of the profiling entry changes, of course. */
const lines = (output: string): string => output.replace(/^trace=.*\n/gm, '');

const native = isX86Linux;
const qemu = tool('qemu-x86_64');
let runs = 0;

/** The same image on the processor and under qemu, as far as they are there. */
function elsewhere(bytes: Uint8Array): { output: string; status: number | null }[] {
  const path = join(folder, 'program');
  writeFileSync(path, bytes);
  chmodSync(path, 0o755);
  return [...(native ? [[path]] : []), ...(qemu ? [['qemu-x86_64', path]] : [])].map(([command, ...args]) => {
    const { stdout, status } = spawnSync(command!, args, { encoding: 'utf8', timeout: 20_000 });
    runs++;
    return { output: lines(stdout), status };
  });
}

function enabled(name: string, variant: Variant, request: Partial<TracingRequest> & { readonly tracer: Tracer }) {
  const { sites } = openBytes(readSample(name));
  const image = withRuntime(sites, undefined, undefined, undefined, { 'x86-tramp': variant });
  const opened = openBytes(image.bytes);
  const plan = planTracing(opened.sites, { others: 'untouched', ...request });
  return { plan, before: image.bytes, bytes: applyPlan(image, plan, { injected: true }).bytes };
}

/** Sites that call something, by their bytes. */
function callers(bytes: Uint8Array): bigint[] {
  const { sites } = openBytes(bytes);
  return Array.from({ length: sites.count }, (_, i) => i)
    .filter((i) => sites.state(i) === 'call')
    .map((i) => sites.reading(i)!.target!);
}

const symbol = (bytes: Uint8Array, name: string): bigint => {
  const { program } = openBytes(bytes);
  return program.definedAt(program.symbols.find(name))!;
};

test('X-SITE-1: programs of every shape are here', () => {
  const shapes = new Set(programs.flatMap((name) => Object.keys(openBytes(readSample(name)).sites.totals().byShape)));
  expect([...shapes].sort()).toEqual(['x86-64.call-abs64', 'x86-64.call5', 'x86-64.call6', 'x86-64.patchable-5']);
  expect(programs.length).toBeGreaterThanOrEqual(14);
});

const shapesOf = (name: string): string => Object.keys(openBytes(readSample(name)).sites.totals().byShape).join(' ');
/** Each tracer through each kind of trampoline; each shape of sites, and in CI each program. */
const taken = covering(
  programs.flatMap((name, i) =>
    variants.flatMap((_, k) =>
      (['function', 'function_graph'] as const).map((kind) => {
        return { name, variant: variants[(i + k) % variants.length]!, kind };
      }),
    ),
  ),
  ({ variant, kind }) => `${variant} ${kind}`,
  ({ name, kind }) => `${shapesOf(name)} ${isLong ? kind : ''}`,
  ({ name }) => (isLong ? name : ''),
);

describe.each(programs.filter((each) => taken.some(({ name }) => name === each)))('%s', (name) => {
  const original = readSample(name);
  const before = runImage(original);

  test.each(taken.filter((each) => each.name === name).map(({ variant, kind }) => [variant, kind] as const))(
    "RT-2, RT-13: trampolines %s, tracer %s: the program does the same everywhere, and its trace is the machine's",
    (variant, kind) => {
      const { plan, bytes } = enabled(name, variant, { tracer: { kind } });
      expect([plan.refusals.length, plan.enabled]).toEqual([0, plan.selected]);
      const { sites } = openBytes(bytes);
      const callsTracer = new Set(
        Array.from({ length: sites.count }, (_, i) => i)
          .filter((i) => sites.state(i) === 'call')
          .map((i) => sites.functionSymbol(i)),
      );
      const names = new Set([...callsTracer].map((each) => sites.program.symbolName(each)));
      const both = runWithBoth(bytes, { traced: (each) => names.has(each.name) });
      expect(both.stop).toMatchObject({ kind: 'exit', code: before.exit });
      expect(lines(both.output)).toBe(lines(before.output));
      expect(
        elsewhere(bytes).filter((each) => each.output !== lines(before.output) || each.status !== before.exit),
      ).toEqual([]);
      expect(traceDifferences(both)).toEqual([]);
      expect(both.guest.length).toBeGreaterThan(40);
      expect(verify(sites).verdicts['wrong-target'] ?? 0).toBe(0);
      expect(Buffer.compare(revert(readElf(bytes)), original)).toBe(0);
    },
  );

  test('X-ENC-1 X-SITE-1: calls become nops of their own length and back; nothing else changes, endbr64 stays', () => {
    const { bytes } = enabled(name, 'modern', { tracer: { kind: 'function' } });
    const on = openBytes(bytes);
    const plan = planSites(on.sites, { to: { kind: 'nop' } });
    const off = applyPlan(on.image, plan).bytes;
    const after = openBytes(off);
    const total = on.sites.count;
    for (let i = 0; i < total; i++) {
      if (on.sites.state(i) !== 'call') continue;
      const reading = on.sites.reading(i)!;
      const at = on.sites.fileOffset(i) + reading.startDelta;
      const length = on.sites.shape(i) === 'x86-64.patchable-5' ? 5 : reading.sizeBytes;
      const expected = { 5: '0f1f440000', 6: '660f1f440000', 13: '660f1f84000000000' + '00f1f4000' }[length];
      expect(Buffer.from(off.subarray(at, at + length)).toString('hex')).toBe(expected);
      expect(after.sites.state(i)).toBe('nop');
    }
    const changed = new Set(differences(bytes, off, Math.min(bytes.length, off.length)).filter((at) => at >= 64));
    const own = new Set<number>();
    for (let i = 0; i < total; i++) {
      const reading = on.sites.reading(i);
      if (!reading) continue;
      for (let k = 0; k < reading.sizeBytes; k++) own.add(on.sites.fileOffset(i) + reading.startDelta + k);
    }
    const first = on.image.section('.note.elftrace')!.offset;
    expect([...changed].filter((at) => at < first && !own.has(at))).toEqual([]);
    expect(lines(runImage(off).output)).toBe(lines(before.output));
    expect(elsewhere(off).filter((each) => each.output !== lines(before.output))).toEqual([]);
  });
});

describe('one ops, one function called', () => {
  const sample = 'x86-64/program-fentry';
  const before = runImage(readSample(sample));

  test.each(variants)(
    '--tracer counter, trampolines %s: as many calls as the tracer of functions records',
    (variant) => {
      const { bytes } = enabled(sample, variant, { tracer: { kind: 'counter' } });
      const run = runImage(bytes);
      const traced = runWithBoth(enabled(sample, variant, { tracer: { kind: 'function' } }).bytes);
      expect([lines(run.output), Number(run.word('elftrace_count'))]).toEqual([
        lines(before.output),
        traced.guest.length,
      ]);
      expect(elsewhere(bytes).every(({ output }) => output === lines(before.output))).toBe(true);
    },
  );

  test.each(covering(programs, shapesOf))(
    '--tracer SYMBOL: a function of the runtime called by its name, every register saved: %s',
    (name) => {
      const tracer: Tracer = { kind: 'symbol', name: 'elftrace_counter' };
      const plain = openBytes(readSample(name)).sites.reading(0)!.shape.name !== 'x86-64.patchable-5';
      for (const saveRegs of [false, true]) {
        const { bytes } = enabled(name, 'none', { tracer, saveRegs });
        const run = runImage(bytes);
        expect(Number(run.word('elftrace_count'))).toBeGreaterThan(40);
        expect(lines(run.output)).toBe(lines(runImage(readSample(name)).output));
        // At pads the static chain of nested functions would be lost by the plain entry.
        const entry = symbol(bytes, saveRegs || !plain ? 'ftrace_regs_caller' : 'ftrace_caller');
        expect(new Set(callers(bytes))).toEqual(new Set([entry]));
        expect(elsewhere(bytes).every(({ output }) => output === lines(run.output))).toBe(true);
      }
    },
  );
});

describe('stripped programs', () => {
  // `__mcount_loc` says where sites are, and nothing where functions begin: that comes from a list
  // of names without sizes (System.map).
  const path = (name: string, bytes?: Uint8Array | string): string => {
    const file = join(folder, name);
    if (bytes !== undefined) writeFileSync(file, bytes);
    return file;
  };
  const original = readSample('x86-64/program-fentry-stripped');
  const stripped = path('stripped', original);
  const named = openBytes(readSample('x86-64/program-fentry')).program;
  const lists = Array.from({ length: named.symbols.count }, (_, i) => i)
    .filter((i) => (named.symbols.info[i]! & 15) === 2 && named.symbols.sectionIndex[i] !== 0)
    .map((i) => `${named.symbols.value[i]!.toString(16).padStart(16, '0')} T ${named.symbols.name(i)}\n`);
  const map = path('System.map', lists.join(''));
  const before = runImage(original);

  test('without names there is no tracer, and it is said what is missing', () => {
    // Calls tell where some functions begin; what nothing calls is refused, and so is the whole.
    const { status, stderr } = elftrace(['patch', stripped, '--enable', '-o', path('never')]);
    expect([status, stderr]).toEqual([1, expect.stringMatching(/name the functions with --symbols FILE/)]);
    expect(existsSync(path('never'))).toBe(false);
  });

  test.each(variants)(
    'X-SITE-2: with --symbols every function but the leftover of a weak one is traced, trampolines %s',
    (variant) => {
      const on = path(`on-${variant}`);
      const args = ['--symbols', map, `--x86-tramp=${variant}`];
      const done = elftrace(['patch', stripped, '--enable', ...args, '-o', on]);
      expect([done.status, done.stdout]).toEqual([0, expect.stringMatching(/17 of 17 sites changed/)]);
      const bytes = new Uint8Array(readFileSync(on));
      expect(lines(runImage(bytes).output)).toBe(lines(before.output));
      expect(elsewhere(bytes).every(({ output }) => output === lines(before.output))).toBe(true);
      expect(elftrace(['verify', on, '--symbols', map]).stdout).toMatch(/17 ok, 1 weak-leftover/);
      expect(elftrace(['verify', on]).stdout).toMatch(/18 ok/);
      // The functions of the program are not named by what was laid in: a second tracer needs the
      // names again.
      const again = elftrace(['patch', on, '--enable', '--tracer', 'counter', '-o', path('never')]);
      expect([again.status, again.stderr]).toEqual([
        1,
        expect.stringMatching(/name the functions with --symbols FILE/),
      ]);
      const counter = path(`counter-${variant}`);
      const more = ['--symbols', map, '--tracer', 'counter'];
      expect(elftrace(['patch', on, '--enable', ...more, '-o', counter]).status).toBe(0);
      const counted = runImage(new Uint8Array(readFileSync(counter)));
      const whole = runImage(enabled('x86-64/program-fentry', variant, { tracer: { kind: 'counter' } }).bytes);
      expect(counted.word('elftrace_count')).toBe(whole.word('elftrace_count'));
      const back = path(`back-${variant}`);
      expect(elftrace(['revert', counter, '-o', back]).status).toBe(0);
      expect(new Uint8Array(readFileSync(back))).toEqual(original);
    },
  );

  test('sessions, and what status says of them with names and without', () => {
    const file = path(
      'session.yaml',
      "version: 1\nsteps:\n  - ops: { name: a, call: elftrace_counter, filter: 'le*' }\n  - register: a\n",
    );
    const on = path('session');
    expect(elftrace(['patch', stripped, '--session', file, '--symbols', map, '-o', on]).status).toBe(0);
    expect(elftrace(['status', on, '--symbols', map]).stdout).toMatch(/^leaf \(1\)\s/m);
    expect(elftrace(['status', on]).stdout).toMatch(/^0x4001d0 \(1\)\s.*trampoline of ops 0 \(elftrace_counter\)$/m);
    expect(runImage(new Uint8Array(readFileSync(on))).word('elftrace_count')).toBe(4n);
  });
});

test('runs on this processor and under qemu', () => {
  if (native || qemu) expect(runs).toBeGreaterThan(isWhole ? 100 : taken.length);
});
