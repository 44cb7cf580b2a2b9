/**
 * The core on images that run: what guest callbacks count after each operation is what the attached
 * ops say, on every convention of the PowerPC targets. The counts of calls come from the untraced
 * program's calls, seen by the machine.
 */
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { archOf } from '../src/arches.js';
import { GraphUser, type Ops, type Outcome } from '../src/ftrace/index.js';
import { Session } from '../src/tracing/session.js';
import { arm64Cases, loadedCases, outOfLineCases, loadSamples, type LoadedCase, runImage } from './support/loaded.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { differences, openBytes } from './support/pipeline.js';
import { sampled } from './support/long.js';

const images = new Map<string, Uint8Array>();
function imageOf(each: LoadedCase): Uint8Array {
  let bytes = images.get(each.name);
  if (!bytes) images.set(each.name, (bytes = loadSamples(each).bytes));
  return bytes;
}

function open(each: LoadedCase): Session {
  const bytes = imageOf(each);
  return Session.open(bytes, archOf(readElf(bytes).header));
}

function done(outcome: Outcome): void {
  expect(outcome).toMatchObject({ kind: 'done' });
}

/**
 * How often each function is called, by the oracle: the machine's own count of a run with
 * everything traced.
 */
const calls = new Map<string, Map<string, number>>();
function callsOf(each: LoadedCase): Map<string, number> {
  let found = calls.get(each.name);
  if (!found) {
    const session = open(each);
    const ops = session.core.createOps({ name: 'all', func: session.functionAddress('elftrace_function_tracer')! });
    done(session.core.register(ops));
    const both = runWithBoth(session.bytes());
    expect(traceDifferences(both)).toEqual([]);
    found = new Map();
    for (const { name } of both.oracle) found.set(name, (found.get(name) ?? 0) + 1);
    calls.set(each.name, found);
  }
  return found;
}

/** Runs the image and gives the hits of ops that count. */
function hits(session: Session, ops: readonly Ops[]): number[] {
  const bytes = session.bytes();
  const opened = openBytes(bytes);
  const { output, at } = runImage(bytes);
  expect(output).toMatch(/checksum/);
  const word = opened.image.wordBytes;
  return ops.map((each) => Number(at(session.backend.addressOf(each) + BigInt(3 * word))));
}

function sum(each: LoadedCase, names: (name: string) => boolean): number {
  let total = 0;
  for (const [name, count] of callsOf(each)) if (names(name)) total += count;
  return total;
}

describe.each(sampled([...loadedCases, ...outOfLineCases, ...arm64Cases], 2))('$name', (each) => {
  test('C-REG-1 C-TGT-4 C-TGT-5: two ops on overlapping filters count their own functions; the text is the nops again at the end', () => {
    const session = open(each);
    const { core } = session;
    const nops = session.bytes();
    const counter = session.functionAddress('elftrace_counter')!;
    const first = core.createOps({ name: 'first', func: counter });
    const second = core.createOps({ name: 'second', func: counter });
    done(core.setFilter(first, 'filter', 'core_*'));
    done(core.setFilter(second, 'filter', '*leaf far_one_*'));
    done(core.register(first));
    const isCore = (name: string): boolean => name.startsWith('core_');
    const isOther = (name: string): boolean => name.endsWith('leaf') || name.startsWith('far_one_');
    expect(hits(session, [first])).toEqual([sum(each, isCore)]);
    done(core.register(second));
    expect(hits(session, [first, second])).toEqual([sum(each, isCore), sum(each, isOther)]);
    // C-REG-2: a filter is changed while it is enabled.
    done(core.setFilter(second, 'filter', '*_run'));
    expect(hits(session, [first, second])).toEqual([sum(each, isCore), sum(each, (name) => name.endsWith('_run'))]);
    done(core.setFilter(first, 'notrace', 'core_leaf'));
    expect(hits(session, [first])).toEqual([sum(each, (name) => isCore(name) && name !== 'core_leaf')]);
    // C-REG-3
    done(core.setEnabled(false));
    expect(hits(session, [first, second])).toEqual([0, 0]);
    done(core.setEnabled(true));
    expect(hits(session, [second])).toEqual([sum(each, (name) => name.endsWith('_run'))]);
    done(core.unregister(first));
    expect(hits(session, [second])).toEqual([sum(each, (name) => name.endsWith('_run'))]);
    done(core.unregister(second));
    done(core.destroy(first));
    done(core.destroy(second));
    // Nothing remains but what hashes left in the tool's room.
    const text = openBytes(nops).image;
    const data = text.section('.elftrace.data')!;
    const now = session.bytes();
    const outside = differences(now, nops).filter((at) => at < data.offset || at >= data.offset + data.fileSize);
    expect(outside).toEqual([]);
  });

  test('C-FG-1 C-FG-5: the graph tracer beside an ops', () => {
    const session = open(each);
    const { core } = session;
    const ops = core.createOps({ name: 'counts', func: session.functionAddress('elftrace_counter')! });
    done(core.setFilter(ops, 'filter', 'core_*'));
    done(core.register(ops));
    const user = new GraphUser('graph', { entry: 0n, return: 0n });
    done(core.setGraphFilter(user, 'filter', '*_run core_round'));
    done(core.registerGraph(user));
    const isCore = (name: string): boolean => name.startsWith('core_');
    expect(hits(session, [ops])).toEqual([sum(each, isCore)]);
    const both = runWithBoth(session.bytes());
    const wanted = sum(each, (name) => name.endsWith('_run') || name === 'core_round');
    expect(both.guest.filter(({ kind }) => kind === 'entry')).toHaveLength(wanted);
    expect(both.guest.filter(({ kind }) => kind === 'return')).toHaveLength(wanted);
    done(core.unregisterGraph(user));
    expect(runWithBoth(session.bytes()).guest).toEqual([]);
    expect(hits(session, [ops])).toEqual([sum(each, isCore)]);
  });
});

/** What the samples print when one_leaf runs in place of core_idle: the same on every target. */
const replaced = new Set<string>();

describe.each(loadedCases.filter(({ flavour }) => flavour === 'regs'))('$name, functions replaced', (each) => {
  const idle = 'core_idle';

  test('C-IPM-1 C-IPM-2 P-ENT-4: a function of a module with another TOC runs in place of one of the core', () => {
    const session = open(each);
    const { core, backend } = session;
    const nops = session.bytes();
    const livepatch = (name: string): Ops =>
      core.createOps({
        name,
        func: session.functionAddress('elftrace_livepatch')!,
        data: session.pointerTo('one_leaf')!,
        flags: ['IPMODIFY', 'SAVE_REGS'],
      });
    const ops = livepatch('replaces');
    expect(core.register(ops)).toMatchObject({ kind: 'refused', errno: 'EINVAL' });
    done(core.setFilter(ops, 'filter', idle));
    done(core.register(ops));
    const { output } = runImage(session.bytes());
    expect(output).not.toBe(runImage(imageOf(each)).output);
    replaced.add(output);
    expect(replaced.size).toBe(1);

    // A second one on the same function, and one on another.
    const second = livepatch('second');
    done(core.setFilter(second, 'filter', `${idle} core_leaf`));
    expect(core.register(second)).toMatchObject({ kind: 'refused', errno: 'EBUSY' });
    expect(runImage(session.bytes()).output).toBe(output);

    // A tracer beside it sees the function that was called.
    const counts = core.createOps({ name: 'counts', func: session.functionAddress('elftrace_counter')! });
    done(core.setFilter(counts, 'filter', `${idle} one_leaf`));
    done(core.register(counts));
    const { output: both, at } = runImage(session.bytes());
    expect(both).toBe(output);
    const word = session.sites.program.image.wordBytes;
    const hits = Number(at(backend.addressOf(counts) + BigInt(3 * word)));
    // Each call of the replaced function runs the other one, which has a site too.
    expect(hits).toBe(sum(each, (name) => name === 'one_leaf') + 2 * sum(each, (name) => name === idle));
    expect(core.enabledFunctions().find(({ name }) => name === idle)).toMatchObject({
      count: 2,
      regs: true,
      ipModify: true,
    });
    done(core.unregister(counts));
    done(core.unregister(ops));
    for (const each of [ops, counts, second]) done(core.destroy(each));
    const data = openBytes(nops).image.section('.elftrace.data')!;
    const left = differences(session.bytes(), nops).filter(
      (at) => at < data.offset || at >= data.offset + data.fileSize,
    );
    expect(left).toEqual([]);
  });
});
