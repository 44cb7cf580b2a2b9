/**
 * Programs with a probe on every instruction that can have one, on the four PowerPC targets: as
 * breakpoints, as breakpoints with a second trap behind each copy, and as jumps. What the programs
 * do is what they did without (the samples' outputs were made by qemu-user), and handlers see the
 * same registers in all three.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import { wordBytes } from '../src/bytes.js';
import type { Arch } from '../src/machine/arch.js';
import { builtFolder as built } from '../scripts/build-samples.js';
import { covering, sampled } from './support/long.js';
import { type EverywhereResult, runEverywhere } from './support/probe-everywhere.js';

const TARGETS = ['ppc32', 'ppc64-elfv1', 'ppc64-elfv2-be', 'ppc64-elfv2-le'] as const;

/** Spoils what a callee may: r0, r3 to r12, CTR, XER, CR; then returns. */
function spoiler(arch: Arch): Uint8Array {
  const table = arch.target.wordBytes === 8 ? ppc64Table : ppc32Table;
  const words = [
    ...[0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map((rt) => table.encode('addi', { rt, ra0: 0, si: -1 - rt })),
    table.encode('mtspr', { spr: 9, rs: 5 }),
    table.encode('mtspr', { spr: 1, rs: 6 }),
    table.encode('mtcrf', { fxm: 0xff, rs: 7 }),
    table.encode('bclr', { bo: 20, bi: 0, bh: 0 }),
  ];
  const out = new Uint8Array(4 * words.length);
  words.forEach((word, i) => {
    out.set(wordBytes(word, arch.target.codeEndian), 4 * i);
  });
  return out;
}

/** The same code with other sites around it is not run once more. */
const REPEATED = /^program-(clang-mcount|patchable.*|power10-mcount|power10-patchable-2)$/;

const show = (map: ReadonlyMap<string, number>): string => [...map].map(([key, n]) => `${key} ${n}`).join(', ');

const namesOf = (target: string): string[] =>
  readdirSync(join(built, target)).filter((name) => name.startsWith('program-') && !REPEATED.test(name));
/** Each target, and each kind of site. */
const taken = new Set(
  covering(
    TARGETS.flatMap((target) => namesOf(target).map((name) => `${target}/${name}`)),
    (path) => path.replace(/\/.*/, ''),
    (path) => path.replace(/.*\//, ''),
  ),
);

for (const target of sampled(TARGETS, 2)) {
  describe(target, () => {
    const names = namesOf(target);
    test.each(names.filter((name) => taken.has(`${target}/${name}`)))(
      'T-KP-1 %s: breakpoints, stepped copies and jumps do what the program does',
      (name) => {
        const bytes = new Uint8Array(readFileSync(join(built, target, name)));
        const image = readElf(bytes);
        const arch = archOf(image.header);
        const run = (mode: 'none' | 'breakpoint' | 'stepped' | 'jump'): EverywhereResult =>
          runEverywhere({
            arch,
            image,
            mode,
            area: { address: 0x0f00_0000n, size: 0x40_0000 },
            callee: spoiler(arch),
            calleeArguments: ['r3', 'r4'],
          });
        const plain = run('none');
        const breakpoints = run('breakpoint');
        const stepped = run('stepped');
        const jumps = run('jump');
        for (const each of [breakpoints, stepped, jumps]) {
          expect({ end: each.end, output: each.output }).toEqual({ end: plain.end, output: plain.output });
          expect(each.hits).toBe(breakpoints.hits);
          expect(each.seen).toBe(breakpoints.seen);
        }
        process.stdout.write(
          `${target}/${name}: ${jumps.probes} probes, ${jumps.jumps} jumps, ${breakpoints.simulated} simulated, ${jumps.hits} hits; traps ` +
            `${stepped.traps} stepped, ${breakpoints.traps}, ${jumps.traps} with jumps; refused ${show(jumps.refused)}; not optimised ${show(jumps.notOptimised)}\n`,
        );
        expect(breakpoints.hits).toBeGreaterThan(100);
        expect(breakpoints.traps).toBe(breakpoints.hits);
        expect(jumps.traps).toBeLessThan(jumps.hits);
      },
    );
  });
}
