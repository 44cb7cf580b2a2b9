/** Sites that are told to be fine without a closer look, against the closer look. */
import { describe, expect, test } from '@jest/globals';
import type { Sites } from '../src/sites/sites.js';
import { plainSites } from '../src/sites/plain.js';
import { judge, verify, type Verdict } from '../src/sites/verdicts.js';
import { openBytes, readSample, sampleNames } from './support/pipeline.js';

const samples = sampleNames().filter((name) => !/\.(a|gz|xz|zst)$/.test(name));

/** Verdicts of all sites, each judged by itself, as `verify` counts them. */
function oneByOne(sites: Sites): Partial<Record<Verdict, number>> {
  const verdicts: Partial<Record<Verdict, number>> = {};
  for (let i = 0; i < sites.count; i++) {
    const { verdict } = judge(sites, i);
    verdicts[verdict] = (verdicts[verdict] ?? 0) + 1;
  }
  return verdicts;
}

/** The counts of `verify`, which also knows functions without a site. */
function ofSites(sites: Sites): Partial<Record<Verdict, number>> {
  const { 'pad-without-slot': _, ...verdicts } = verify(sites).verdicts;
  return verdicts;
}

function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 4_294_967_296) * below);
  };
}

describe('M-VAL-1 sites of which nothing is said', () => {
  test.each(samples)('%s', (name) => {
    const { sites } = openBytes(readSample(name));
    const plain = plainSites(sites) ?? [];
    const wrong = plain.map((each, i) => (each !== 0 && judge(sites, i).verdict !== 'ok' ? 1 : 0)).indexOf(1);
    expect(wrong).toBe(-1);
    expect(ofSites(sites)).toEqual(oneByOne(sites));
  });

  test('are nearly all of an object', () => {
    const { sites } = openBytes(readSample('x86-64/module-fentry.ko'));
    expect(plainSites(sites)?.filter((each) => each !== 0)).toHaveLength(sites.count);
  });

  test('are fine in files with any byte of code, tables, symbols and relocations changed', () => {
    const random = seeded(7);
    let changed = 0;
    for (const name of samples) {
      const original = readSample(name);
      const { image } = openBytes(original);
      const wanted = image.sections.filter(
        ({ name, fileSize }) => fileSize > 0 && /^\.text|^__mcount_loc|^__patchable|^\.symtab|^\.rela?/.test(name),
      );
      for (let round = 0; round < 12 && wanted.length > 0; round++) {
        const bytes = original.slice();
        const { offset, fileSize } = wanted[random(wanted.length)]!;
        bytes[offset + random(fileSize)]! ^= 1 << random(8);
        const sites = openedOrNull(bytes);
        if (sites === null) continue;
        const place = `${name}, round ${String(round)}`;
        expect([place, outcome(ofSites, sites)]).toEqual([place, outcome(oneByOne, sites)]);
        changed++;
      }
    }
    expect(changed).toBeGreaterThan(300);
  });
});

/** What comes out, or why nothing does: a table that is read late may be damaged. */
function outcome<T>(count: (sites: Sites) => T, sites: Sites): T | string {
  try {
    return count(sites);
  } catch (error) {
    return String(error);
  }
}

/** Null: the changed file is none that can be read. */
function openedOrNull(bytes: Uint8Array): Sites | null {
  try {
    return openBytes(bytes).sites;
  } catch {
    return null;
  }
}
