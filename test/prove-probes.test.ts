/**
 * What probes record is part of the proof (PV-1, 4): the values that their arguments fetch, the
 * records, the counts. What is wrong here is a word of a probe's program.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { bytesOfWord, wordOf } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { Prover } from '../src/prove/prover.js';
import {
  PROBE_EVENT_FLAGS,
  PROBE_OPERATIONS,
  RING_HEADER,
  RING_HEADER_BYTES,
  RING_RECORD,
  RING_RECORD_BYTES,
} from '../src/runtime/abi.js';
import { isLong, repeats } from './support/long.js';
import { makeImage, mutantImages } from './support/mutant-images.js';
import { proof } from './support/proof.js';

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
  // Here the code that reads lies on a page that no other code of the way has.
  'ppc32/ool-ops+probes probe-arguments',
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

test.each(repeats(['arm64/regs+probes inside-function', 'ppc32/regs+probes inside-graph']))(
  'PV-1: %s: a probe is proved in a function whose site calls a tracer, which leaves words below the stack',
  (name) => {
    const prover = proverOf(name);
    expect(prover.probes!.subjects.map(({ kind }) => kind)).toEqual(['jump']);
    expect(new Set(verdicts(prover))).toEqual(new Set(['proved']));
    // The way from the site to the probe is a part of it: nops there are found.
    const [probe] = prover.probes!.subjects;
    const { isa } = prover.arch;
    const word = prover.patched.world.read(probe!.address - 4n, 4);
    expect(isa.decode(word, 0, 0n).flow.kind).toBe('next');
    const nop = Buffer.from(name.startsWith('arm64') ? '1f2003d5' : '60000000', 'hex');
    prover.patched.world.rewrite(probe!.address - 4n, nop);
    expect(prover.proveProbe(probe!).verdict).toBe('different');
  },
);

/** Return probes on ftrace sites, on breakpoints, beside the graph tracer. */
const returns = [
  'arm64/regs+probes return-two',
  'riscv64/g0+probes return-two',
  'x86-64/modern+probes return-graph',
  'ppc64-elfv1/regs+probes return-two',
  'ppc32/regs+probes return-graph',
];

/** The objects of return events in an image, by what their definitions allow to be under way. */
function eventsOfReturns(prover: Prover): ReadonlyMap<number, bigint> {
  const { image } = prover.patched.sites.program;
  const section = image.section('.elftrace.probes')!;
  const word = image.wordBytes;
  const found = new Map<number, bigint>();
  for (let at = 0; at + 4 * word <= section.size; at += word) {
    const bytes = image.bytes.subarray(section.offset + at, section.offset + section.size);
    const [, id, flags, hits] = [0, 1, 2, 3].map((i) => wordOf(bytes.subarray(i * word), image.header.endian, word));
    if ((flags! & 0xffn) !== BigInt(PROBE_EVENT_FLAGS.return) || hits !== 0n || id! === 0n || id! > 8n) continue;
    found.set(Number(flags! >> BigInt(PROBE_EVENT_FLAGS.activeShift)), section.address + BigInt(at));
  }
  return found;
}

describe.each(isLong ? returns : returns.slice(0, 1))('%s', (name) => {
  test('PV-1: what return probes keep and record is proved, and a call too many under way is found', () => {
    const prover = proverOf(name);
    expect(new Set(verdicts(prover))).toEqual(new Set(['proved']));
    // An event that may be under way twice may be as often as there is room for.
    const limited = eventsOfReturns(prover).get(2);
    if (!name.endsWith('return-two')) return;
    const { image } = prover.patched.sites.program;
    const flags = bytesOfWord(BigInt(PROBE_EVENT_FLAGS.return), image.header.endian, image.wordBytes);
    prover.patched.world.rewrite(limited! + BigInt(2 * image.wordBytes), flags);
    const isServed = verdicts(prover).some((each) => /^the (?:hits it missed|number of calls)/.test(each));
    // What a breakpoint counts is not read from the image, but known to its handler.
    expect(isServed).toBe(prover.probes!.subjects.length === 0);
  });
});

test.each(repeats(['arm64/pg+probes probe-arguments', 'ppc32/ool+probes probe-two', 'ppc32/pg+probes return-graph']))(
  'PV-1: %s: an argument that reads changed text or what is not mapped, and a return that two took',
  (name) => {
    expect(new Set(verdicts(proverOf(name)))).toEqual(new Set(['proved']));
  },
);

// The event may wait for one call, which is under way; others above it were left.
test.each(repeats(['ppc64-elfv2-le/pg+probes return-once', 'ppc64-elfv2-be/pg+probes return-once']))(
  'PV-1: %s: a hit that waits for no return takes off the calls that were left',
  async (name) => {
    const pair = makeImage(mutantImages.find((each) => each.name === name)!);
    if (typeof pair === 'string') throw new Error(pair);
    const { sites } = await proof(pair.original, pair.patched);
    expect(sites.filter(({ shape }) => shape === 'probe.breakpoint').map(({ verdict }) => verdict)).toEqual(['proved']);
  },
);

test('PV-1: an instruction under a jump that reads changed text says nothing, and is proved by other trials', () => {
  const prover = proverOf('x86-64/modern+probes kernel-jump-return');
  expect(new Set(verdicts(prover))).toEqual(new Set(['proved']));
  // sub $0x48,%rsp; movzbl (%rdi),%edx: the copy reads through %rsi then.
  const copied = Buffer.from('4883ec480fb617', 'hex');
  const { image } = prover.patched.sites.program;
  const { address, offset, size } = image.section('.elftrace.slots')!;
  const at = Buffer.from(image.bytes.subarray(offset, offset + size)).indexOf(copied);
  expect(at).toBeGreaterThan(0);
  prover.patched.world.rewrite(address + BigInt(at + 6), Uint8Array.of(0x16));
  expect(verdicts(prover)).toContainEqual(expect.not.stringMatching(/^proved$/));
});

test('PV-3: a site has all states where no other one of its shape calls the same', () => {
  const prover = proverOf('x86-64/modern+probes return-graph');
  const proofs = prover.subjects.map((subject) => prover.prove(subject));
  const leaf = proofs.find(({ function: name }) => name === 'leaf')!;
  const sameShape = proofs.filter(({ shape, trials }) => shape === leaf.shape && trials > 0);
  expect(sameShape.indexOf(leaf)).toBeGreaterThan(2);
  expect(leaf.trials).toBe(Math.max(...proofs.map(({ trials }) => trials)));
});

test('PV-2: a handler that records another result of a function is found', () => {
  const prover = proverOf('arm64/regs+probes return-two');
  const { world, sites } = prover.patched;
  const { program } = sites;
  const at = (name: string): bigint => program.definedAt(program.symbols.find(name))!;
  const ring = wordOf(world.read(at('elftrace_ring'), 8), 'little', 8);
  const trap = wordOf(world.read(at('elftrace_probe_trampoline'), 8), 'little', 8);
  const { serve } = world;
  world.serve = (stop) => {
    const isServed = serve!(stop);
    if (stop.kind !== 'trap' || stop.instruction !== trap) return isServed;
    // Of the last event: the caller, no fault, the result.
    const head = wordOf(world.read(ring + BigInt(RING_HEADER.head), 8), 'little', 8);
    const record = ring + BigInt(RING_HEADER_BYTES) + ((head - 3n) & 0xffffn) * BigInt(RING_RECORD_BYTES);
    const place = record + BigInt(RING_RECORD.parentIp);
    world.write(place, Uint8Array.of(world.read(place, 1)[0]! ^ 1));
    return isServed;
  };
  expect(verdicts(prover)).toContainEqual(expect.stringMatching(/^what a probe fetched is /));
});
