/**
 * Sessions on every linked sample program, with and without a table of sites: the sites become
 * nops, two ops come one after the other, the program runs, and when both are gone its code is what
 * it was before them.
 */
import { expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import type { Ops, Outcome } from '../src/ftrace/index.js';
import { withRuntime } from '../src/tracing/inject.js';
import { Session } from '../src/tracing/session.js';
import { runImage } from './support/loaded.js';
import { isLong, sampled } from './support/long.js';
import { codeOf, openBytes, readSample, sampleNames } from './support/pipeline.js';

const done = (outcome: Outcome): void => {
  expect(outcome.kind === 'done' ? 'done' : outcome.reason).toBe('done');
};
const code = (bytes: Uint8Array): Uint8Array =>
  Buffer.concat(
    readElf(bytes)
      // Trampolines are kept for the next registration.
      .sections.filter(({ flags, name }) => (flags & 4n) !== 0n && name !== '.elftrace.text')
      .map(({ offset, fileSize }) => bytes.subarray(offset, offset + fileSize)),
  );
/** The program's own count of calls of the profiling entry changes, of course. */
const lines = (output: string): string => output.replace(/^trace=.*\n/gm, '');

let programs = 0;
test.each(
  sampled(
    sampleNames().filter((name) => /\/program-[^/]*$/.test(name)),
    3,
  ),
)('C-INIT-2 C-UPD-1 %s', (name) => {
  const original = readSample(name);
  const { sites, arch } = openBytes(original);
  let bytes: Uint8Array;
  try {
    ({ bytes } = withRuntime(sites, undefined));
  } catch {
    // Nothing in it can call a tracer.
    expect(codeOf(() => withRuntime(sites, undefined))).toBe('no-runtime');
    return;
  }
  let session: Session;
  try {
    session = Session.open(bytes, archOf(readElf(bytes).header));
  } catch {
    // A site that calls never pass refuses the session as a whole.
    expect(codeOf(() => Session.open(bytes, archOf(readElf(bytes).header)))).toBe('plan-refused');
    return;
  }
  programs++;
  const counter = session.functionAddress('elftrace_counter')!;
  const [a, b] = ['a', 'b'].map((each) => session.core.createOps({ name: each, func: counter })) as [Ops, Ops];
  // Once on and off: pads of nops may have another form then than the compiler's.
  done(session.core.register(a));
  done(session.core.unregister(a));
  const off = session.bytes();
  done(session.core.register(a));
  const leaf = session.core.records.some((each) => each.name === 'leaf' && !each.skipped);
  done(session.core.setFilter(b, 'filter', leaf ? 'leaf' : session.core.records.find((each) => !each.skipped)!.name));
  done(session.core.register(b));
  const run = runImage(session.bytes());
  const word = BigInt(3 * arch.target.wordBytes);
  const [ofA, ofB] = [a, b].map((ops) => Number(run.at(session.backend.addressOf(ops) + word))) as [number, number];
  // Functions of a stripped program share one name, that of none.
  const names = new Set(session.core.records.filter((each) => !each.skipped).map((each) => each.name));
  expect([ofA > (leaf ? 40 : 5), ofB > 0, names.size === 1 ? ofB === ofA : ofB < ofA]).toEqual([true, true, true]);
  expect(lines(run.output)).toBe(lines(runImage(original).output));
  done(session.core.unregister(a));
  done(session.core.unregister(b));
  expect(Buffer.compare(code(session.bytes()), code(off))).toBe(0);
});

test('the programs were there', () => {
  expect(programs).toBeGreaterThan(isLong ? 45 : 15);
});
