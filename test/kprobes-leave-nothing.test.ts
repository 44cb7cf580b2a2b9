/**
 * F-3 for probes: a session that sets probes and takes them away again leaves the bytes of one that
 * never had them, whatever stays beside them; and what was taken can be taken again, so that there
 * is no end to it.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { withRuntime } from '../src/tracing/inject.js';
import { findSites } from '../src/sites/sites.js';
import { planProbes, probeRoomFor } from '../src/kprobes/index.js';
import { load, probeSections } from '../src/program/program.js';
import { readSample } from './support/pipeline.js';

/** Instructions behind the sites of two functions. */
const SAMPLES: readonly (readonly [name: string, inside: string, elsewhere: string])[] = [
  ['x86-64/program-fentry', 'leaf+5', 'mix64+15'],
  ['ppc32/program-mcount', 'leaf+16', 'mix64+16'],
  ['ppc64-elfv2-le/program-mprofile', 'leaf+12', 'mix64+12'],
  ['riscv64/program-patchable-4', 'leaf+12', 'mix64+12'],
  ['arm64/program-patchable-2', 'leaf+12', 'mix64+12'],
];

describe.each(SAMPLES)('%s', (name, inside, elsewhere) => {
  const original = readElf(readSample(name));
  const arch = archOf(original.header);
  const program = load(original, arch);
  const image = withRuntime(findSites(program), undefined, undefined, undefined, {}, probeRoomFor(2));

  /** Bytes after a session; what changed of the sections of probes. */
  const after = (steps: readonly string[]): { readonly bytes: Uint8Array; readonly probes: string } => {
    const text = `version: 1\nsteps:\n${steps.map((each) => `  - ${each}\n`).join('')}`;
    const { plan } = planProbes(readElf(image.bytes.slice()), arch, steps.length === 0 ? [] : [{ name: 'steps', text }]);
    const bytes = image.bytes.slice();
    for (const { after: now, fileOffset } of plan.steps) bytes.set(now, fileOffset);
    const done = readElf(bytes);
    const used = Object.values(probeSections).map((section) => {
      const found = done.section(section)!;
      return Buffer.from(done.contents(found)).toString('hex').replace(/(00)*$/, '');
    });
    return { bytes, probes: used.join('|') };
  };
  const set = (event: string, where: string, optimize: boolean): string =>
    `probe: {define: 'p:${event} ${where}', optimize: ${String(optimize)}}`;
  const gone = (event: string): string => `no-probe: ${event}`;
  const same = (one: readonly string[], other: readonly string[]): void => {
    const [a, b] = [after(one), after(other)];
    expect(a.probes).toBe(b.probes);
    expect(Buffer.from(a.bytes).equals(Buffer.from(b.bytes))).toBe(true);
  };

  test('F-3 T-KP-27 T-KP-28: set and taken away, as breakpoint, jump, on a site and as a return probe: nothing is left', () => {
    for (const optimize of [false, true]) {
      same([set('a', inside, optimize), gone('a')], []);
      // A symbol alone means the site where there is one.
      same([set('a', 'leaf', optimize), gone('a')], []);
      same([set('a', inside, optimize), set('b', inside, false), gone('a'), gone('b')], []);
    }
    same(["probe: {define: 'r:back leaf'}", gone('back')], []);
  });

  test('F-3: beside a probe that stays, one that came and went leaves no trace', () => {
    const stays = set('stays', elsewhere, true);
    for (const [first, then] of [[set('x', inside, true), gone('x')], [set('x', inside, false), gone('x')], [set('x', 'leaf', true), gone('x')]] as const) {
      same([stays, first, then], [stays]);
    }
  });

  test('F-3: there is no end to coming and going: room that was taken is given back', () => {
    const many = Array.from({ length: 300 }, (_, i) => [set(`e${i}`, inside, true), gone(`e${i}`)]).flat();
    same(many, []);
  });
}); // prettier-ignore
