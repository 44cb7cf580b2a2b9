/**
 * Moments while a site is written (PV-3): its text is off, or behind a breakpoint, and all else is
 * as in the patched image. What is wrong there is the protocol, or the text of a site that is off.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import type { Arch } from '../src/machine/arch.js';
import type { BreakpointPatching } from '../src/machine/live-patching.js';
import { momentsOf } from '../src/prove/between.js';
import { Prover } from '../src/prove/prover.js';
import type { SiteProof } from '../src/prove/verdict.js';
import { isLong } from './support/long.js';
import { makeImage, mutantImages } from './support/mutant-images.js';

function proverOf(name: string, change: (arch: Arch) => Arch = (arch) => arch): Prover {
  const pair = makeImage(mutantImages.find((each) => each.name === name)!);
  if (typeof pair === 'string') throw new Error(pair);
  const [before, after] = [pair.original, pair.patched].map((bytes) => readElf(bytes));
  return new Prover(before!, after!, change(archOf(before!.header)), {});
}

const nameOf = (prover: Prover, index: number): string => {
  const { sites } = prover.patched;
  return sites.program.describe(sites.codeRange(index)!, sites.ip(index)).replace(/\+.*/, '');
};

const leafOf = (prover: Prover): Prover['subjects'][number] =>
  prover.subjects.find(({ patched }) => patched >= 0 && nameOf(prover, patched) === 'leaf')!;

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

describe('x86-64: behind a breakpoint', () => {
  const name = 'x86-64/modern function';
  const proofWith = (change: (model: BreakpointPatching) => BreakpointPatching): SiteProof => {
    const prover = proverOf(name, (arch) => {
      const { livePatching } = arch;
      return livePatching.kind === 'breakpoint' ? { ...arch, livePatching: change(livePatching) } : arch;
    });
    return prover.prove(leafOf(prover));
  };

  test('PV-3, X-POKE-4: the first byte is a breakpoint while the others are written', () => {
    const prover = proverOf(name);
    const { sites } = prover.patched;
    const { patched } = leafOf(prover);
    const text = hexOf(sites.program.image.bytes.slice(sites.fileOffset(patched)).subarray(0, 5));
    // nopl 0x0(%rax,%rax,1) as GNU as has it; the call is e8 and a distance.
    const [off, tail] = ['0f1f440000', text.slice(2)];
    expect(text.slice(0, 2)).toBe('e8');
    expect(momentsOf(sites, patched).map(({ bytes, isOn }) => [hexOf(bytes), isOn])).toEqual([
      [off, false],
      [`cc${off.slice(2)}`, true],
      [`cc${tail}`, true],
      [`cc${tail}`, false],
      [`cc${off.slice(2)}`, false],
    ]);
    expect(prover.prove(leafOf(prover)).verdict).toBe('proved');
    expect(hexOf(sites.program.image.bytes.slice(sites.fileOffset(patched)).subarray(0, 5))).toBe(text);
  });

  test('PV-3: a protocol that writes the others in front of the breakpoint is found', () => {
    const { verdict, account } = proofWith((model) => ({
      ...model,
      steps: (patches) => model.steps(patches).filter((step) => step.kind !== 'store' || step.phase !== 'int3'),
    }));
    expect([verdict, account?.during]).toEqual(['different', 'it goes on: all but the first byte is written']);
  });

  test('PV-3, X-POKE-2: a handler that does what the old instruction does is found', () => {
    const { verdict, account } = proofWith((model) => ({
      ...model,
      handle: (entries, at, cpu) => {
        cpu.setIp(at + 5n);
        return entries.length > 0;
      },
    }));
    expect([verdict, account?.during]).toEqual(['different', 'it goes on: a breakpoint is set']);
    expect(account?.difference).toEqual(expect.objectContaining({ what: 'event', reason: 'called 0 times, not once' }));
  });
});

/** One word, or several with the machine stopped: the site is off, whatever names its tracer. */
const others = [
  'arm64/callops function',
  'arm64/regs function',
  'riscv64/g3c function',
  'riscv64/g1 function',
  'ppc32/ool-ops function',
  'ppc64-elfv1/regs function',
  'ppc64-elfv2-be/pg function',
  'ppc64-elfv2-le/ool-ops function',
];

test.each(isLong ? others : others.slice(0, 1))('PV-3: %s: a site that is not written yet is off', (name) => {
  const prover = proverOf(name);
  const leaf = leafOf(prover);
  expect(momentsOf(prover.patched.sites, leaf.patched).map(({ isOn }) => isOn)).toEqual([false]);
  expect(prover.prove(leaf)).toEqual(expect.objectContaining({ verdict: 'proved' }));
});
