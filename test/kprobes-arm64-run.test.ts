/**
 * arm64 programs with a probe on every instruction that can have one: as breakpoints, as
 * breakpoints with a second trap behind each copy, and as jumps. What the programs do is what they
 * did without, and handlers see the same registers.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { arm64 as arch } from '../src/arch-arm64/index.js';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { wordBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { builtFolder as built } from '../scripts/build-samples.js';
import { type EverywhereOptions, type EverywhereResult, runEverywhere } from './support/probe-everywhere.js';

/** Spoils what a callee may: x0 to x17, the flags; then returns. */
const SPOILER = ((): Uint8Array => {
  const words = [
    ...Array.from({ length: 18 }, (_, rd) => arm64Table.encode('movz', { sf: 1, hw: 3, imm16: 0xfe00 + rd, rd })),
    arm64Table.encode('msr-reg', { sysreg: 0x5a10, xt: 1 }),
    arm64Table.encode('ret', { xn: 30 }),
  ];
  const out = new Uint8Array(4 * words.length);
  words.forEach((word, i) => {
    out.set(wordBytes(word, 'little'), 4 * i);
  });
  return out;
})();

const show = (map: ReadonlyMap<string, number>): string => [...map].map(([key, n]) => `${key} ${n}`).join(', ');

describe('arm64', () => {
  const names = readdirSync(join(built, 'arm64')).filter((name) => name.startsWith('program-'));
  test.each(names)('T-KP-1 %s: breakpoints, stepped copies and jumps do what the program does', (name) => {
    const image = readElf(new Uint8Array(readFileSync(join(built, 'arm64', name))));
    const run = (mode: EverywhereOptions['mode'], more: Partial<EverywhereOptions> = {}): EverywhereResult =>
      runEverywhere({
        arch,
        image,
        mode,
        area: { address: 0x100_0000n, size: 0x10_0000 },
        callee: SPOILER,
        calleeArguments: ['x0', 'x1'],
        ...more,
      });
    const plain = run('none');
    const same = (each: EverywhereResult): void => {
      expect({ end: each.end, output: each.output }).toEqual({ end: plain.end, output: plain.output });
    };
    const breakpoints = run('breakpoint');
    same(breakpoints);
    const stepped = run('stepped');
    same(stepped);
    expect([stepped.hits, stepped.seen]).toEqual([breakpoints.hits, breakpoints.seen]);
    process.stdout.write(
      `arm64/${name}: ${breakpoints.probes} probes, ${breakpoints.simulated} simulated, ${breakpoints.hits} hits; ` +
        `traps ${stepped.traps} stepped, ${breakpoints.traps}; refused ${show(breakpoints.refused)}\n`,
    );
    const jumps = run('jump');
    same(jumps);
    expect([jumps.hits, jumps.seen]).toEqual([breakpoints.hits, breakpoints.seen]);
    expect(jumps.jumps).toBeGreaterThan(0);
    expect(jumps.traps).toBeLessThan(breakpoints.traps);
    process.stdout.write(
      `  jumps ${show(jumps.forms)}; ${jumps.hits} hits, ${jumps.traps} traps; not optimised ${show(jumps.notOptimised)}\n`,
    );
  });
});
