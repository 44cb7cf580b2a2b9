/**
 * What programs record themselves equals what the machine sees, in one run: programs linked with
 * the runtime, whose sites call its entries, on the four PowerPC targets.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { scratch, type PpcTarget, TARGETS } from './support/c-programs.js';
import { comparable, runWithBoth, traceDifferences } from './support/compare-traces.js';
import { PROGRAMS } from './support/emulator.js';
import { sampled } from './support/long.js';
import { buildTraced, type Tracer, valueOf } from './support/runtime-harness.js';
import { run } from './support/run.js';
import { describeWith } from './support/tools.js';

const built = new Map<string, string>();

function build(target: PpcTarget, flavour: 'pg' | 'regs', tracer: Tracer, program: string): string {
  const key = [target.name, flavour, tracer, program].join();
  const known = built.get(key);
  if (known !== undefined) return known;
  const path = buildTraced({ target, flavour, tracer, sources: [join(PROGRAMS, program)] });
  built.set(key, path);
  return path;
}

let compared = 0;

describeWith(TARGETS.flatMap(({ gcc }) => [gcc, gcc.replace('gcc', 'objcopy')]), 'programs with the runtime', () => {
  describe.each(sampled(TARGETS, 2))('$name', (target) => {
    const flavours = target.name === 'ppc64-elfv1' || target.name === 'ppc32' ? (['pg', 'regs'] as const) : (['regs'] as const);
    test.each(flavours.flatMap((flavour) => (['function', 'graph'] as const).map((tracer) => [flavour, tracer] as const)))(
      '%s, %s: entries, parents and returns are those of the machine (RT-15)',
      (flavour, tracer) => {
        // recursion.c goes deeper than the 64 activations that the graph tracer of the runtime
        // keeps.
        for (const program of [tracer === 'graph' ? 'sort.c' : 'recursion.c', 'varargs.c']) {
          const both = runWithBoth(new Uint8Array(readFileSync(build(target, flavour, tracer, program))));
          expect(both.stop.kind).toBe('exit');
          expect(both.ring!.overwritten).toBe(0n);
          expect([program, traceDifferences(both)]).toEqual([program, []]);
          expect(both.guest.some(({ kind }) => kind === 'return')).toBe(tracer === 'graph');
          compared += both.guest.length;
        }
      },
    );
  });

  test('what a run leaves out is seen: an event more, less, or another parent', () => {
    const both = runWithBoth(new Uint8Array(readFileSync(build(TARGETS[3]!, 'regs', 'graph', 'sort.c'))));
    expect(traceDifferences({ ...both, guest: both.guest.slice(1) })[0]).toMatch(/^event 0: /);
    expect(traceDifferences({ ...both, oracle: both.oracle.slice(0, -1) })).toEqual([
      `event ${both.guest.length - 1}: program ${comparable(both.guest).at(-1)!}, machine none`,
    ]);
    const [first, ...rest] = both.guest;
    expect(traceDifferences({ ...both, guest: [{ ...first!, parent: '1' }, ...rest] }).length).toBe(1);
    expect(traceDifferences({ ...both, guest: [], oracle: [] })).toEqual(['the program recorded no events']);
    process.stdout.write(`${compared} events compared\n`);
  });

  test('run --trace: graph and function tracer of the same program, every form', () => {
    const file = scratch('trace');
    const graph = run(['--trace', file, '--format', 'graph', build(TARGETS[3]!, 'regs', 'graph', 'sort.c')]);
    expect([graph.status, graph.json['exit']]).toEqual([graph.json['exit'], graph.status]);
    expect(graph.stderr).not.toContain('notice');
    const text = readFileSync(file, 'utf8');
    expect(text).toMatch(/^# tracer: function_graph\n#\n# clock: instructions\n# image: .*recorded by the program itself\n# entries-in-buffer\/entries-written: (\d+)\/\1 /);
    expect(text).toMatch(/^ {2}0\) +\d+ {2}\| {2,}\w+\(\);$/m);
    const functions = run(['--trace', file, '--format', 'ftrace', build(TARGETS[3]!, 'regs', 'function', 'sort.c')]);
    expect(functions.stderr).not.toContain('notice');
    const calls = readFileSync(file, 'utf8').split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    // The same program enters the same functions, whoever records.
    const opened = text.match(/\(\)(;| \{)/g)!.length;
    expect(calls.length).toBe(opened);
  }); // prettier-ignore

  test('a ring that wraps, and a program that crashes: what is there is written, what is not is said', () => {
    const crash = scratch('crash.c');
    writeFileSync(
      crash,
      `__attribute__((noipa)) int leaf(int a) { return a + 1; }
       __attribute__((noipa)) int deep(int a) { *(volatile int *)16 = 1; return a; }
       int main(void) { int sum = 0; for (int i = 0; i < 40000; i++) sum += leaf(i); return deep(sum); }`,
    );
    const path = buildTraced({ target: TARGETS[3]!, flavour: 'regs', tracer: 'graph', sources: [crash], report: true });
    const file = scratch('trace');
    const result = run(['--trace', file, '--format', 'ndjson', path]);
    expect([result.status, result.json['signal']]).toEqual([139, 11]);
    // main, 40,000 times leaf and its return, deep.
    expect(result.stderr).toContain(`notice: the ring holds 65536 events: the oldest ${80_002 - 65_536} of 80002 were overwritten`);
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines[0]).toMatchObject({ source: 'guest', clock: 'instructions', written: 80_002, kept: 65_536, dropped: 0 });
    expect(lines.slice(-2)).toMatchObject([
      { kind: 'entry', function: 'deep' },
      { kind: 'return', function: 'deep', unwound: true },
    ]);
    // The capacity is even: the oldest that is left is an entry of leaf or its return.
    expect(lines.filter(({ kind, function: name }) => kind === 'entry' && name === 'leaf').length).toBe(32_767);
    expect(result.stderr).toContain('notice: 1 returns are left out: their entries were overwritten');
  }); // prettier-ignore

  test.each(TARGETS)('$name: recursion from one place, returning through return_to_handler', (target) => {
    const source = scratch('down.c');
    writeFileSync(
      source,
      `__attribute__((noipa, optimize("no-unroll-loops"))) int down(int n) { int s = n; for (volatile int i = 0; i < 2 && n > 0; i++) s += down(n - 1); return s; }
       int main(void) { return down(4) & 7; }`,
    );
    const path = buildTraced({ target, flavour: 'regs', tracer: 'graph', level: 's', sources: [source] });
    const both = runWithBoth(new Uint8Array(readFileSync(path)));
    expect(traceDifferences(both)).toEqual([]);
    // main, and 1 + 2 + 4 + 8 + 16 activations of down.
    expect(comparable(both.guest).filter((row) => row.startsWith('>')).length).toBe(32);
    expect(both.replay).toMatchObject({ events: 64, orphans: 0, open: 0 });
  });

  test('calls deeper than the stack of the graph tracer are said', () => {
    const result = run(['--trace', scratch('trace'), build(TARGETS[3]!, 'regs', 'graph', 'recursion.c')]);
    expect(result.stderr).toMatch(/notice: \d+ calls deeper than 64 were not recorded by the graph tracer\n/);
  });

  test('a ring of another version is refused with place and cause', () => {
    const path = build(TARGETS[0]!, 'regs', 'function', 'recursion.c');
    const bytes = new Uint8Array(readFileSync(path));
    const image = readElf(bytes);
    bytes[image.fileOffsetOf(valueOf(image, 'elftrace_ring_memory')) + 11] = 9;
    const changed = scratch('changed');
    writeFileSync(changed, bytes, { mode: 0o755 });
    const result = run(['--trace', scratch('trace'), changed]);
    expect(result.status).toBe(125);
    expect(result.stderr).toMatch(/error: trace ring at 0x[0-9a-f]+: version 9 is not known, 1 and 2 are \[bad-record\]/);
  });
}); // prettier-ignore
