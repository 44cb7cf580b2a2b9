/**
 * Sites that are told to read as one in front of them, against what shapes say of each by itself.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { arm64Image, seeded, x86Object } from '../bench/inputs.js';
import { LIKE } from '../src/sites/site-states.js';
import type { Sites } from '../src/sites/sites.js';
import { describeWith, run } from './support/tools.js';
import { openBytes } from './support/pipeline.js';

const SITES = 200;
const folder = mkdtempSync(join(tmpdir(), 'repeated-readings-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** State, shape and place of each site, as the columns have them. */
function ofColumns(sites: Sites): unknown[] {
  return Array.from({ length: sites.count }, (_, i) => [
    sites.anchor[i],
    sites.state(i),
    sites.shape(i),
    sites.ipDelta[i],
    sites.startDelta[i],
  ]);
}

/** The same, from shapes that are asked about one site after the other. */
function oneByOne(sites: Sites): unknown[] {
  return Array.from({ length: sites.count }, (_, i) => {
    const range = sites.codeRange(i);
    if (range === undefined) return [sites.anchor[i], sites.state(i), '', 0, 0];
    const reading = sites.readingAt(range, sites.offset[i]!, sites.tablePosition(i));
    if (reading === null) return [sites.anchor[i], 'unknown', '', 0, 0];
    const { state, shape, ipDelta, startDelta } = reading;
    return [sites.anchor[i], state, shape.name, ipDelta, startDelta];
  });
}

/** How many are told by the one in front. */
const repeated = (sites: Sites): number => sites.quiet.filter((each) => each === LIKE).length;

/** The file with bytes changed in each of some sections. */
function damaged(file: Uint8Array, sections: readonly string[], random: () => number): Uint8Array {
  const bytes = file.slice();
  const { image } = openBytes(file);
  const below = (limit: number): number => Math.floor(random() * limit);
  for (let left = 1 + below(8); left > 0; left--) {
    const { offset, size } = image.section(sections[below(sections.length)]!)!;
    const at = offset + below(size);
    bytes[at] = random() < 0.5 ? bytes[at]! ^ (1 << below(8)) : below(256);
  }
  return bytes;
}

/** Whatever is damaged, in as many files of a kind as could be read. */
function compareDamaged(file: Uint8Array, sections: readonly string[]): number {
  const random = seeded(11);
  let compared = 0;
  for (let round = 0; round < 150; round++) {
    let sites: Sites;
    try {
      ({ sites } = openBytes(damaged(file, sections, random)));
    } catch {
      continue; // a table that cannot be read
    }
    expect([round, ofColumns(sites)]).toEqual([round, oneByOne(sites)]);
    compared++;
  }
  return compared;
}

describe('M-VAL-1 sites that read as the one in front of them', () => {
  test('are nearly all of a file', () => {
    expect(repeated(openBytes(x86Object(SITES)).sites)).toBe(SITES - 1);
    // In front of the first one there is no code in which a function could begin.
    expect(repeated(openBytes(arm64Image(SITES)).sites)).toBe(SITES - 2);
  });

  test('x86-64: whatever bytes, relocations and symbols of some are', () => {
    const sections = ['.text', '.rela.text', '.rela__mcount_loc', '.symtab'];
    expect(compareDamaged(x86Object(SITES), sections)).toBeGreaterThan(40);
  });

  test('arm64: whatever bytes, slots and functions of some are', () => {
    const sections = ['.text', '__patchable_function_entries', '.symtab'];
    expect(compareDamaged(arm64Image(SITES), sections)).toBeGreaterThan(80);
  });
});

describeWith(['aarch64-linux-gnu-as'], 'A-SITE-1 sites that differ in their address alone', () => {
  /** A function with an ops pointer in front of it; one word more behind it moves the next ones. */
  const site = (i: number): string => `
    1: nop
    nop
    .type f${i}, %function
    f${i}: nop
    nop
    ret
    ret
    .size f${i}, . - f${i}
    ${i === 49 ? 'ret' : ''}
    .pushsection __patchable_function_entries,"aw"
    .quad 1b
    .popsection`;

  test('are asked for it', () => {
    const object = join(folder, 'pointers.o');
    writeFileSync(join(folder, 'pointers.s'), `.text\n${Array.from({ length: 80 }, (_, i) => site(i)).join('\n')}\n`);
    run('aarch64-linux-gnu-as', ['-o', object, join(folder, 'pointers.s')]);
    const found = openBytes(readFileSync(object)).sites;
    expect(found.totals().byState).toEqual({ compiled: 50, foreign: 30 });
    expect(ofColumns(found)).toEqual(oneByOne(found));
  });
});

describeWith(['x86_64-linux-gnu-as'], 'M-VAL-1 sites of two sections', () => {
  const sites = (section: string, type: string): string => `
    .section ${section},"ax"
    .rept 60
    1: .byte 0xe8
    .reloc ., ${type}, __fentry__ - 4
    .long 0
    .byte 0xc3
    .pushsection __mcount_loc,"a"
    .quad 1b
    .popsection
    .endr`;

  test('have relocations of their own', () => {
    const object = join(folder, 'two.o');
    writeFileSync(join(folder, 'two.s'), sites('.text', 'R_X86_64_PLT32') + sites('.text.b', 'R_X86_64_64'));
    run('x86_64-linux-gnu-as', ['-o', object, join(folder, 'two.s')]);
    const found = openBytes(readFileSync(object)).sites;
    expect(found.totals().byState).toEqual({ compiled: 60, foreign: 60 });
    expect(ofColumns(found)).toEqual(oneByOne(found));
  });
});
