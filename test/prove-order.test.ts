/** Trials of a site do not hang together: what one of them finds is decided by its own state. */
import { createHash } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { type Attempts, Prover, type Tried } from '../src/prove/prover.js';
import { TRACER_STATES } from '../src/prove/tracer-states.js';
import { repeats } from './support/long.js';
import { makeImage, mutantImages } from './support/mutant-images.js';

/** What a trial said, and how it left the original. */
function outcomeOf(prover: Prover, { trial, entries }: Tried, trials: Attempts, n: number): string {
  const { machine } = prover.original.world;
  let left = '';
  const once: Attempts['once'] = (begun, isCalledAlike) => {
    const outcome = trials.once(begun, isCalledAlike);
    const hash = createHash('sha256').update(machine.stateWords).update(String(machine.pc));
    const { world } = prover.original;
    for (const page of world.changed().sort()) hash.update(String(page)).update(world.page(page).now);
    left = hash.digest('hex');
    return outcome;
  };
  const { entry, seed } = prover.turn(trial, entries, n);
  const { hasData, hasTrap } = trials;
  const outcome = prover.attempt({ hasData, hasTrap, once, end: () => undefined }, entry, seed);
  return `${String(n)} ${outcome.kind} ${left}`;
}

const images = [
  'arm64/regs+probes probe-chains',
  'x86-64/modern+probes probe-mixed',
  'ppc32/regs+probes probe-faults',
  'x86-64/y2014+probes probe-chains',
  'x86-64/y2014+probes probe-mixed',
  'x86-64/modern+probes probe-chains',
  'riscv64/g2 graph-calls',
  'ppc64-elfv2-le/regs livepatch-list',
];

test.each(repeats(images, 2))('PV-7: %s: trials in order, the other way round, and alone say the same', (name) => {
  const pair = makeImage(mutantImages.find((each) => each.name === name)!);
  if (typeof pair === 'string') throw new Error(pair);
  const before = readElf(pair.original);
  const siteOf = (): [Prover, Tried, Attempts] => {
    const prover = new Prover(before, readElf(pair.patched), archOf(before.header), {});
    const tried = prover.subjects.flatMap((subject) => prover.trialOf(subject) ?? [])[0]!;
    return [prover, tried, prover.trials(tried.trial)];
  };
  const numbers = TRACER_STATES.map((_, n) => n);
  const [prover, tried, trials] = siteOf();
  const inOrder = numbers.map((n) => outcomeOf(prover, tried, trials, n));
  expect(inOrder.filter((each) => each.includes('different'))).toEqual([]);
  const backwards = numbers.toReversed().map((n) => outcomeOf(prover, tried, trials, n));
  expect(backwards.toReversed()).toEqual(inOrder);
  const some = numbers.filter((n) => n % 6 === 4);
  expect(some.map((n) => outcomeOf(...siteOf(), n))).toEqual(some.map((n) => inOrder[n]));
});
