/**
 * Probes in images of PowerPC, RISC-V and arm64, from the command line: entry, middle and return of
 * a function, as breakpoints that the emulator serves and as jumps whose callback runs in the
 * guest, with and without ftrace sites. What is expected of `recurse` is computed from its source.
 */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { builtFolder as built } from '../scripts/build-samples.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { sampled } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'kprobes-images-'));

/** samples/src/program.c: u32 recurse(u32 n) { return n == 0 ? 1 : (recurse(n - 1) * 31) ^ n; } */
const recurse = (n: number): number => (n === 0 ? 1 : (Math.imul(recurse(n - 1), 31) ^ n) >>> 0);
const down = Array.from({ length: 10 }, (_, i) => 9 - i);

interface Sample {
  readonly name: string;
  /** It is an ftrace site. */
  readonly site?: true;
  /** An instruction behind the prologue of mix64, its stack pointer by name. */
  readonly middle: string;
}

const SAMPLES: readonly Sample[] = [
  { name: 'ppc32/program-mcount', middle: 'mix64+12 sp=%gpr1' },
  { name: 'ppc32/program-patchable-2', site: true, middle: 'mix64+12 sp=%gpr1' },
  { name: 'ppc64-elfv1/program-mprofile', middle: 'mix64+8 sp=%gpr1' },
  { name: 'ppc64-elfv2-le/program-mprofile', site: true, middle: 'mix64+20 sp=%gpr1' },
  { name: 'ppc64-elfv2-le/program-power10-mcount', middle: 'mix64+36 sp=%gpr1' },
  { name: 'riscv64/program-mcount', middle: 'mix64+18 sp=%sp' },
  { name: 'riscv64/program-patchable-4', site: true, middle: 'mix64+8 sp=%sp' },
  { name: 'riscv64/program-rv64g-patchable-2', site: true, middle: 'mix64+8 sp=%sp' },
  { name: 'arm64/program-mcount', middle: 'mix64+8 sp=%sp' },
  { name: 'arm64/program-patchable-2', site: true, middle: 'mix64+8 sp=%sp' },
];

interface Outcome {
  /** `in 0x9`, `out 0x1`, `mid 0x…`, in the order of the ring. */
  readonly events: readonly string[];
  readonly output: string;
  readonly patched: string;
}

function probed({ name, middle }: Sample, flags: readonly string[]): Outcome {
  // Names of one length: they lie on the stack.
  const out = join(folder, `${name.replace('/', '-')}-${flags.length}`);
  const probes = [`p:in recurse n=$arg1:u32`, `p:mid ${middle}`, `r:out recurse r=$retval:u32`];
  const patched = elftrace([
    'patch',
    join(built, name),
    '-o',
    out,
    ...probes.flatMap((each) => ['--probe', each]),
    ...flags,
  ]);
  expect([patched.status, patched.stderr.replaceAll(/^.*notice: .*\n/gm, '')]).toEqual([0, '']);
  const ran = elftrace(['run', '--trace', `${out}.txt`, '--format', 'ftrace', out]);
  expect([ran.status, ran.stderr]).toEqual([0, '']);
  const events = [...readFileSync(`${out}.txt`, 'utf8').matchAll(/: (in|mid|out): \(.*\) \w+=(\S+)$/gm)].map(
    ([, event, value]) => `${event!} ${value!}`,
  );
  return { events, output: ran.stdout, patched: patched.stdout + patched.stderr };
}

describe.each(sampled(SAMPLES, 2))('$name', (sample) => {
  test('T-KP-1, T-KP-6: entry, middle and return of functions, as breakpoints and as jumps', () => {
    const breakpoints = probed(sample, []);
    const jumps = probed(sample, ['--optimize']);
    // recurse(9) is called first: ten entries, then ten returns; what mix64 sees comes later.
    expect(breakpoints.events.filter((each) => each.startsWith('in')).slice(0, 10)).toEqual(down.map((n) => `in ${n}`));
    const returns = breakpoints.events.filter((each) => each.startsWith('out')).slice(0, 10);
    expect(returns).toEqual(down.map((n) => `out ${recurse(n)}`).reverse());
    expect(breakpoints.events.filter((each) => each.startsWith('mid')).length).toBeGreaterThan(0);
    expect(jumps.events).toEqual(breakpoints.events);
    expect(jumps.output).toBe(breakpoints.output);
    // K-ADDR-7: sites are served by ftrace, and are no jumps.
    if (sample.site) expect(jumps.patched).toContain('K-ADDR-7');
    else expect(jumps.patched).not.toContain('notice');
  });
});
