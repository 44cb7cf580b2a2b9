/**
 * A core and two modules far away, loaded, traced by their own runtime and run: the trace is that
 * of the machine, and the same on all PowerPC targets; `explain` draws the way of a far site.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { findNamedSites } from '../src/sites/named.js';
import { siteChain } from '../src/sites/chain.js';
import { verify } from '../src/sites/verdicts.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { runWithBoth, traceDifferences, type BothTraces } from './support/compare-traces.js';
import { loadedSamples, loadSample, sitesOf, traced } from './support/loaded-samples.js';
import { sampled } from './support/long.js';
import { root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'loaded-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const expected = readFileSync(join(root, 'samples', 'expected', 'loaded.txt'), 'utf8');

/**
 * What must be the same everywhere: entries and returns by name in their order. Not the parents:
 * 32-bit code calls over module boundaries by jumps, where 64-bit code needs the word behind the
 * call.
 */
function shape(both: BothTraces): string[] {
  return both.guest.map(({ kind, name }) => `${kind} ${name}`);
}

const shapes = new Map<string, string[]>();

describe.each(sampled(loadedSamples, 3))('$target, runtime $flavour', (sample) => {
  const image = loadSample(sample);

  test('every site is fine as loaded, off and on', () => {
    for (const bytes of [image, traced(image, null), traced(image, 'function')]) {
      const { verdicts, findings } = verify(sitesOf(bytes));
      expect([findings.map(({ message }) => message), Object.keys(verdicts)]).toEqual([[], ['ok']]);
    }
  });

  test.each(['function', 'function_graph'] as const)(
    '%s: the trace of the program is that of the machine',
    (tracer) => {
      const both = runWithBoth(traced(image, tracer));
      expect([both.stop.kind, both.output]).toEqual(['exit', expected]);
      expect(traceDifferences(both)).toEqual([]);
      expect(both.replay).toMatchObject({ orphans: 0, open: 0 });
      expect(both.guest.some(({ kind }) => kind === 'return')).toBe(tracer === 'function_graph');
      const key = tracer;
      const found = shape(both);
      if (!shapes.has(key)) shapes.set(key, found);
      // One sequence on every target.
      expect(found).toEqual(shapes.get(key));
    },
  );

  test('T-PPC-22: what is left out keeps its nop, and exactly its events are missing', () => {
    const all = runWithBoth(traced(image, 'function_graph'));
    const some = runWithBoth(
      traced(image, 'function_graph', (name) => name !== 'core_idle' && !name.startsWith('far_two')),
    );
    expect(some.output).toBe(expected);
    expect(traceDifferences(some)).toEqual([]);
    const left = all.guest.filter(({ name }) => name !== 'core_idle' && !name.startsWith('far_two'));
    expect(left.length).toBeLessThan(all.guest.length);
    expect(some.guest.map(({ kind, name }) => `${kind} ${name}`)).toEqual(
      left.map(({ kind, name }) => `${kind} ${name}`),
    );
  });

  test('explain: the chain of a far site ends at the entry, with the TOC of the module and that of the core', () => {
    const bytes = traced(image, 'function');
    const sites = sitesOf(bytes);
    const { loadMap } = sites.program;
    const [site] = findNamedSites(sites, 'far_one_init');
    const { toc, hops } = siteChain(sites, site!);
    const stub = hops.find((hop) => hop.kind === 'stub')!;
    const target = hops.at(-1)!;
    expect([target.kind, target.kind === 'target' && target.is, target.part]).toEqual([
      'target',
      'tracer',
      loadMap!.parts[1]!.name,
    ]);
    expect(hops[0]!.part).toBe('far_one');
    expect(stub.part).toBe('far_one');
    // The load map knows the stub, and what it leads to.
    const module = loadMap!.parts.find(({ name }) => name === 'far_one')!;
    expect(module.entryStubs.map(({ address }) => address)).toContain(stub.address);
    if (stub.kind === 'stub' && stub.savesToc) {
      expect(toc).toBe(module.toc);
      expect(hops.some((hop) => hop.kind === 'restore')).toBe(true);
      if (stub.targetToc !== null) expect(stub.targetToc).toBe(loadMap!.parts[0]!.toc);
    }
    const path = join(folder, `${sample.target}-${sample.flavour}`);
    writeFileSync(path, bytes, { mode: 0o755 });
    const text = elftrace(['explain', path, 'far_one_init']).stdout;
    expect(text).toMatch(/^far_one_init\+?.* {2}part far_one$/m);
    expect(text).toMatch(/^ {2}stub .* leads to 0x/m);
    expect(text).toMatch(/^ {2}target .*ftrace_(regs_)?caller .*an entry of the tracer$/m);
    const traceFile = join(folder, 'trace');
    const run = elftrace(['run', '--trace', traceFile, '--format', 'ftrace', path]);
    expect([run.stdout, run.stderr]).toEqual([expected, '']);
    expect(readFileSync(traceFile, 'utf8')).toMatch(/: far_one_init <-program$/m);
  });

  test('a loaded image without an enabled site gives no events and a notice (RT-15)', () => {
    const path = join(folder, 'off');
    writeFileSync(path, traced(image, null), { mode: 0o755 });
    const run = elftrace(['run', '--trace', join(folder, 'trace'), path]);
    expect(run.stdout).toBe(expected);
    expect(run.stderr).toMatch(/notice: no events: no site of the image is enabled \(patch --enable\)\n$/);
  });
});

test('the traces compared', () => {
  process.stdout.write(
    `${[...shapes].map(([tracer, rows]) => `${tracer}: ${rows.length} events on each of ${loadedSamples.length} images`).join(', ')}\n`,
  );
  expect([...shapes.keys()]).toEqual(['function', 'function_graph']);
});
