/**
 * Programs with a probe on every instruction that can have one: as breakpoints, as breakpoints with a second trap behind each copy, and as branches.
 * What the programs do is what they did without (the samples' outputs were made by qemu-user), and handlers see the same registers in all three.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { arm64 } from '../src/arch-arm64/index.js';
import { arm64Table } from '../src/arch-arm64/isa.js';
import { readElf } from '../src/elf/read.js';
import { wordBytes } from '../src/bytes.js';
import { builtFolder as built } from '../scripts/build-samples.js';
import { type EverywhereResult, runEverywhere } from './support/probe-everywhere.js';

/** Spoils what a callee may: x0 to x17 and the flags; then returns. */
const SPOILER = ((): Uint8Array => {
  const words = [
    ...Array.from({ length: 18 }, (_, rd) => arm64Table.encode('movn', { sf: 1, hw: 0, imm16: rd, rd })),
    arm64Table.encode('msr-reg', { sysreg: 0x5a10, xt: 3 }),
    arm64Table.encode('ret', { xn: 30 }),
  ];
  const out = new Uint8Array(4 * words.length);
  words.forEach((word, i) => {
    out.set(wordBytes(word, 'little'), 4 * i);
  });
  return out;
})();

const show = (map: ReadonlyMap<string, number>): string => [...map].map(([key, n]) => `${key} ${n}`).join(', ');
const names = readdirSync(join(built, 'arm64')).filter((name) => name.startsWith('program-'));

test.each(names)('T-KP-1 arm64/%s: breakpoints, stepped copies and branches do what the program does', (name) => {
  const image = readElf(new Uint8Array(readFileSync(join(built, 'arm64', name))));
  const run = (mode: 'none' | 'breakpoint' | 'stepped' | 'jump'): EverywhereResult =>
    runEverywhere({
      arch: arm64,
      image,
      mode,
      area: { address: 0x200_0000n, size: 0x40_0000 },
      callee: SPOILER,
      calleeArguments: ['x0', 'x1'],
    });
  const plain = run('none');
  const breakpoints = run('breakpoint');
  const stepped = run('stepped');
  const jumps = run('jump');
  expect(plain.end.kind).toBe('exit');
  for (const each of [breakpoints, stepped, jumps]) {
    expect({ end: each.end, output: each.output }).toEqual({ end: plain.end, output: plain.output });
    expect([each.hits, each.seen]).toEqual([breakpoints.hits, breakpoints.seen]);
  }
  process.stdout.write(
    `arm64/${name}: ${jumps.probes} probes, ${jumps.jumps} jumps, ${breakpoints.simulated} simulated, ${jumps.hits} hits; traps ` +
      `${stepped.traps} stepped, ${breakpoints.traps}, ${jumps.traps} with jumps; refused ${show(jumps.refused)}; not optimised ${show(jumps.notOptimised)}\n`,
  );
  expect(breakpoints.hits).toBeGreaterThan(100);
  expect(breakpoints.traps).toBe(breakpoints.hits);
  expect(stepped.traps).toBeGreaterThan(stepped.hits);
  expect(jumps.traps).toBeLessThan(jumps.hits / 10);
});
