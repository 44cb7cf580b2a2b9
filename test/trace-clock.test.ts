/**
 * Programs whose tracers record no times (`patch --clock none`), and the size of their records: on
 * every machine the same events as with times, numbered.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { builtSamples, root } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-clock-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const at = (name: string): string => join(folder, name);

const programs = [
  'x86-64/program-fentry',
  'arm64/program-patchable-2',
  'riscv64/program-patchable-8',
  'ppc32/program-patchable-2',
  'ppc64-elfv1/program-mprofile',
  'ppc64-elfv2-be/program-mprofile',
  'ppc64-elfv2-le/program-mprofile',
];

interface Traced {
  readonly head: Readonly<Record<string, unknown>>;
  readonly events: readonly (readonly [kind: string, name: string])[];
  readonly times: readonly number[];
}

function traceOf(program: string): Traced {
  const file = at('trace');
  elftrace(['run', '--trace', file, '--format', 'ndjson', program]);
  const [head, ...events] = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  return {
    head: head!,
    events: events.map(({ kind, function: name }) => [String(kind), String(name)] as const),
    times: events.map(({ time }) => Number(time)),
  };
}

describe.each(sampled(programs, 2))('%s', (name) => {
  const original = join(builtSamples, name);

  test.each(['function', 'function_graph'])('RT-11: %s records the same events without times', (tracer) => {
    const [timed, bare, again, back] = ['timed', 'bare', 'again', 'back'].map(at) as [string, string, string, string];
    const enable = (input: string, output: string, ...more: readonly string[]): number | null =>
      elftrace(['patch', '--enable', '--tracer', tracer, ...more, input, '-o', output]).status;
    expect([enable(original, timed), enable(original, bare, '--clock', 'none')]).toEqual([0, 0]);
    const [with_, without] = [traceOf(timed), traceOf(bare)];
    expect([with_.head['clock'], without.head['clock']]).toEqual(['instructions', 'events']);
    expect(with_.events.length).toBeGreaterThan(10);
    expect(without.events).toEqual(with_.events);
    expect(without.times).toEqual([...without.times].sort((a, b) => a - b));
    expect(Math.max(...without.times)).toBeLessThanOrEqual(without.times.length);
    // Asked for anew it has times; and nothing of either is left behind.
    expect(enable(bare, again)).toBe(0);
    const { events, times } = traceOf(again);
    expect([events, times]).toEqual([with_.events, with_.times]);
    expect(elftrace(['revert', again, '-o', back]).status).toBe(0);
    expect(readFileSync(back).equals(readFileSync(original))).toBe(true);
  });

  test('RT-11: a record has 16 bytes, where probes are 32', () => {
    const recordBytes = (path: string): readonly number[] => {
      const image = readElf(new Uint8Array(readFileSync(path)));
      const ring = image.fileOffsetOf(image.symbols.value[image.symbols.find('elftrace_ring_memory')]!);
      const view = new DataView(image.bytes.buffer, image.bytes.byteOffset + ring);
      return [
        view.getUint32(8, image.header.endian === 'little'),
        view.getUint32(12, image.header.endian === 'little'),
      ];
    };
    const [plain, probed] = [at('plain'), at('probed')];
    expect(elftrace(['patch', '--enable', original, '-o', plain]).status).toBe(0);
    expect(elftrace(['patch', '--probe', 'p:one leaf', original, '-o', probed]).status).toBe(0);
    expect([recordBytes(plain), recordBytes(probed)]).toEqual([
      [2, 16],
      [1, 32],
    ]);
  });
});

test('RT-11: a clock that the request or the runtime of the file does not have is refused', () => {
  const original = join(builtSamples, programs[0]!);
  for (const words of [['--nop'], ['--enable', '--tracer', 'counter'], ['--enable', '--probe', 'p:one main']]) {
    const { status, stderr } = elftrace(['patch', ...words, '--clock', 'none', original, '-o', at('refused')]);
    expect([status, stderr]).toEqual([2, expect.stringMatching(/--clock none goes with --enable.*\[usage\]/)]);
  }
  // Patched by a version whose runtime records 32 bytes and knows no flag for it.
  const old = at('old');
  copyFileSync(join(root, 'test', 'fixtures', '0.1.0', 'riscv64-record'), old);
  const { status, stderr } = elftrace(['patch', '--enable', '--clock', 'none', old, '-o', at('refused')]);
  expect([status, stderr]).toEqual([4, expect.stringMatching(/records without times.*\[unsupported-form\]/)]);
});
