/**
 * What probes record is part of the proof (PV-1, 4): the values that their arguments fetch, the
 * records, the counts. What is wrong here is a word of a probe's program.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { bytesOfWord } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { Prover } from '../src/prove/prove.js';
import { PROBE_OPERATIONS } from '../src/runtime/abi.js';
import { isLong } from './support/long.js';
import { makeImage, mutantImages } from './support/mutant-images.js';

function proverOf(name: string): Prover {
  const pair = makeImage(mutantImages.find((each) => each.name === name)!);
  if (typeof pair === 'string') throw new Error(pair);
  const [before, after] = [pair.original, pair.patched].map((bytes) => readElf(bytes));
  return new Prover(before!, after!, archOf(before!.header), {});
}

/** Verdicts of the changed sites and of the probes that change bytes, with what differs. */
function verdicts(prover: Prover): readonly string[] {
  return [
    ...prover.subjects.map((each) => prover.prove(each)),
    ...(prover.probes?.subjects ?? []).map((each) => prover.proveProbe(each)),
  ].flatMap(({ verdict, reason, account }) => {
    if (reason === 'unchanged') return [];
    const difference = account?.difference;
    return [difference?.what === 'event' ? difference.reason : verdict];
  });
}

/** Reads 8 bytes further on: the program of `+8($stack):u32` begins with these words. */
function shift(prover: Prover): void {
  const { image } = prover.patched.sites.program;
  const section = image.section('.elftrace.probes')!;
  const words = (...list: readonly number[]): Buffer =>
    Buffer.concat(list.map((word) => bytesOfWord(BigInt(word), image.header.endian, image.wordBytes)));
  const bytes = Buffer.from(image.bytes.subarray(section.offset, section.offset + section.size));
  const at = bytes.indexOf(words(PROBE_OPERATIONS.memory, 8, 4, 1));
  expect(at).toBeGreaterThan(0);
  prover.patched.world.rewrite(section.address + BigInt(at), words(PROBE_OPERATIONS.memory, 16, 4, 1));
}

const images = [
  'arm64/regs+probes jump-arguments',
  'riscv64/g2+probes probe-two',
  'x86-64/modern+probes probe-two',
  'riscv64/g1+probes probe-arguments',
  'ppc32/regs+probes probe-arguments',
];

describe.each(isLong ? images : images.slice(0, 2))('%s', (name) => {
  test('PV-1: what probes record is proved, and an argument from elsewhere is found', () => {
    const prover = proverOf(name);
    expect(new Set(verdicts(prover))).toEqual(new Set(['proved']));
    shift(prover);
    expect(verdicts(prover)).toContainEqual(expect.stringMatching(/^what a probe fetched is /));
  });
});

test('PV-1: a jump whose callback records nothing is found', () => {
  const prover = proverOf('arm64/regs+probes jump-arguments');
  expect(prover.probes!.subjects.map(({ kind }) => kind)).toEqual(['jump']);
  const { program } = prover.patched.sites;
  const handler = program.definedAt(program.symbols.find('elftrace_probe_hit'))!;
  prover.patched.world.rewrite(handler, Uint8Array.from(Buffer.from('c0035fd6', 'hex')));
  const [probe] = prover.probes!.subjects;
  const { account } = prover.proveProbe(probe!);
  expect(account?.difference).toEqual(
    expect.objectContaining({ what: 'event', reason: expect.stringMatching(/^the /) }),
  );
});
