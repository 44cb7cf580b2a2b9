/**
 * Per-callsite ops of arm64 with one entry and with two (A-CO-4, A-CO-5): what the core
 * stores when a word in front of a function changes, raced in every order with a thread of a sample
 * program; and the images that come out of it, in the emulator and under qemu. Each form that is
 * right has a twin in which what makes it right is taken away.
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import type { Machine } from '../src/emulator/index.js';
import { startProcess } from '../src/guest/index.js';
import type { Ops, Outcome } from '../src/ftrace/index.js';
import { entryPoint } from '../src/program/entry-points.js';
import { Session } from '../src/tracing/session.js';
import {
  type ImageRace,
  imageRace,
  type ImageRaceRequest,
  parseRaceState,
  race,
  type RaceStep,
  type Sequence,
  wordBytes,
} from '../src/race/index.js';
import { OPS_WORDS } from '../src/runtime/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { loadSamples, siteOf } from './support/loaded.js';
import { builtSamples, openBytes, readSample, root } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { tool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-two-entries-'));
let orders = 0n;
afterAll(() => {
  rmSync(folder, { recursive: true });
  process.stdout.write(`${orders} orders of two entries and one\n`);
});

type Entries = 'one' | 'two';
type Change = readonly [from: string, to: string];

/** `edit`: the sequence with something left out. */
function raced(
  entries: Entries,
  [from, to]: Change,
  more: Partial<Omit<ImageRaceRequest, 'from' | 'to'>> = {},
  edit: (steps: readonly RaceStep[], race: ImageRace) => readonly RaceStep[] = (steps) => steps,
) {
  const each = imageRace({
    image: readSample('arm64/program-patchable-4-2'),
    site: 'leaf',
    from: parseRaceState(from),
    to: parseRaceState(to),
    machine: { 'a64-entries': entries },
    staleFetch: false,
    ...more,
  });
  const patchers = each.sequence.patchers.map(({ name, steps }) => ({ name, steps: edit(steps, each) }));
  const sequence: Sequence = { ...each.sequence, patchers };
  const result = race(each.scene, sequence, { ...each.options, shortest: false });
  orders += result.counts.explored;
  const rules = [...new Set(result.violations.map(({ rule }) => rule))].sort();
  return { ...each, sequence, result, rules, outcomes: [...result.counts.outcomes.keys()].sort() };
} // prettier-ignore

/**
 * What the steps store in the site and in the word in front of the function, by names; waits;
 * frees.
 */
function log({ sequence, site, program }: ReturnType<typeof raced>): string[] {
  const word = (site.address - 12n) & ~7n;
  return sequence.patchers[0]!.steps.flatMap((step): string[] => {
    if (step.kind === 'wait' || step.kind === 'free') return [step.kind];
    if (step.kind !== 'store') return [];
    if (step.address >= word && step.address < word + 8n) return ['word'];
    if (step.address !== site.address) return [];
    const target = program.arch.branches.call.target(step.bytes, step.address);
    if (target === null) return ['nop'];
    return [program.symbolName(program.functionAt(program.codeAt(target)!, target))];
  });
}

/** Without the waits before a step, of which the last word is `until`: those before frees stay. */
const withoutFirstWait = (steps: readonly RaceStep[]): readonly RaceStep[] => {
  const first = steps.findIndex(({ kind }) => kind === 'wait');
  return steps.filter((_, i) => i !== first);
};

const torn = { variants: ['torn'] } as const;
/** The one that was there ran: it is in the list as well. */
const traced = (outcome: string): boolean => outcome.includes('elftrace_counter');

describe('in every order', () => {
  test('T-A64-5: a first enable: listing entry, word, reading entry; every prefix is right, whatever becomes of the word meanwhile', () => {
    const two = raced('two', ['nop', 'call']);
    expect(log(two)).toEqual(['ftrace_list_caller', 'word', 'ftrace_caller']);
    expect([two.rules, two.outcomes]).toEqual([[], ['-', 'elftrace_counter']]);
    const pieces = raced('two', ['nop', 'call'], torn);
    expect(log(pieces).filter((each) => each === 'word').length).toBeGreaterThan(1);
    expect([pieces.rules, pieces.outcomes]).toEqual([[], ['-', 'elftrace_counter']]);
    // The twin: the reading entry in front of the word, and no list.
    const early = (steps: readonly RaceStep[]): readonly RaceStep[] => {
      const site = steps.filter((step) => step.kind === 'store' && step.address === two.site.address);
      const others = steps.filter((step) => !site.includes(step));
      const at = others.findIndex(
        (step) => step.kind === 'store' && step.address >> 4n === (two.site.address - 12n) >> 4n,
      );
      return [...others.slice(0, at), site[1]!, ...others.slice(at)];
    };
    expect(raced('two', ['nop', 'call'], torn, early).rules).not.toEqual([]);
  });

  test('T-A64-7: one store of the word below the one entry: the old ops, the list or the new one, never nothing while the function stays traced', () => {
    for (const change of [['call', 'list'], ['list', 'call']] as const) {
      const one = raced('one', change);
      expect([one.rules, one.outcomes.includes('-'), log(one).filter((each) => each.startsWith('ftrace'))]).toEqual([[], false, []]);
    }
    // The twin: by way of ops that do nothing.
    const nothing = raced('one', ['call', 'list'], {}, (steps, { site, program }) => {
      const address = (site.address - 12n) & ~7n;
      const at = steps.findIndex((step) => step.kind === 'store' && step.address === address);
      const bytes = wordBytes(entryPoint(program, 'ftrace_nop_ops')!.identity, 8, 'little');
      return [...steps.slice(0, at), { kind: 'store', address, bytes }, ...steps.slice(at)];
    });
    expect([nothing.rules, nothing.outcomes.includes('-')]).toEqual([[], true]);
  }); // prettier-ignore

  test('T-A64-14: the word in pieces: by the one entry wild; by two right, if threads inside the reading one are waited for', () => {
    const change = ['call', 'list'] as const;
    const one = raced('one', change, torn);
    expect(one.rules.some((rule) => rule === 'wrong-function' || rule === 'stopped')).toBe(true);
    const two = raced('two', change, torn);
    expect(log(two).slice(0, 2)).toEqual(['ftrace_list_caller', 'wait']);
    expect([two.rules, two.outcomes.every(traced)]).toEqual([[], true]);
    // A second change that does not wait in between.
    const early = raced('two', change, torn, withoutFirstWait);
    expect(log(early)[1]).toBe('word');
    expect(early.rules.some((rule) => rule === 'wrong-function' || rule === 'stopped')).toBe(true);
    // Where the word is one store the wait is not what makes it right.
    expect(raced('two', change, {}, withoutFirstWait).rules).toEqual([]);
  });

  test.each([
    ['A: listing entry, word, nop', 'two', ['ftrace_list_caller', 'wait', 'word', 'nop', 'wait']],
    ['B: word, nop', 'one', ['word', 'nop', 'wait']],
  ] as const)('T-A64-8: teardown %s: right at every prefix as long as nothing is freed', (_, entries, expected) => {
    const change = ['call', 'nop'] as const;
    const down = raced(entries, change, { literalOff: 'list' });
    expect(log(down).filter((each, i, all) => each !== 'free' && all[i - 1] !== each)).toEqual(expected);
    expect([down.rules, down.outcomes]).toEqual([[], ['-', 'elftrace_counter']]);
    // The twin: freed as soon as the site is a nop.
    const bare = raced(entries, change, { literalOff: 'list', variants: ['no-wait'] });
    expect(bare.rules).toContain('freed-memory');
  });

  test('T-A64-11, T-A64-12: ops freed behind the nop: lost without quiescence, and with an interrupt of all CPUs alone; trampolines of x86-64 too', () => {
    const change = ['call', 'nop'] as const;
    expect(raced('one', change).rules).toEqual([]);
    expect(raced('one', change, { variants: ['no-wait'] }).rules).toContain('freed-memory');
    const interrupted = raced('one', change, {}, (steps) =>
      steps.map((step): RaceStep => (step.kind === 'wait' ? { kind: 'synchronise', thread: 'all' } : step)),
    );
    expect(interrupted.sequence.patchers[0]!.steps.some(({ kind }) => kind === 'wait')).toBe(false);
    expect(interrupted.rules).toContain('freed-memory');
    const image = readSample('x86-64/program-fentry');
    const trampoline = raced('one', change, { image, machine: {}, variants: ['no-wait'] });
    expect(trampoline.result.violations.map(({ message }) => message).join()).toMatch(/the trampoline of .*freed/);
    expect(raced('one', change, { image, machine: {} }).rules).toEqual([]);
  });
});

function done(outcome: Outcome): void {
  expect(outcome).toMatchObject({ kind: 'done' });
}

/** What the site of a function calls, by way of stubs. */
function called(image: Uint8Array, name: string): string {
  const opened = openBytes(image);
  const { target } = opened.sites.reading(siteOf(opened, name))!;
  if (target === null) return 'nop';
  const final = opened.program.finalTarget(target);
  return opened.program.symbolName(opened.program.functionAt(opened.program.codeAt(final)!, final));
}

const expected = readFileSync(join(root, 'samples/expected/loaded.txt'), 'utf8');

describe('images', () => {
  const { bytes } = loadSamples(
    { target: 'arm64', ending: '', flavour: 'callops' },
    { options: { machine: { 'a64-entries': 'two' } } },
  );
  const arch = archOf(readElf(bytes).header);

  interface Made {
    readonly session: Session;
    readonly ops: readonly Ops[];
  }
  function made(image: Uint8Array, filters: readonly string[]): Made {
    const session = Session.open(image, arch);
    const ops = filters.map((filter, i) => {
      const each = session.core.createOps({ name: `ops${i}`, func: session.functionAddress('elftrace_counter')! });
      done(session.core.setFilter(each, 'filter', filter));
      done(session.core.register(each));
      return each;
    });
    return { session, ops };
  }
  function ran({ session, ops }: Made, image = session.bytes()) {
    if (arch.emulation.kind !== 'ir') throw new Error('arm64 is not executed');
    let output = '';
    const { machine } = startProcess({
      image: readElf(image),
      abi: arch.abi,
      emulation: arch.emulation,
      onOutput: (_fd, chunk) => (output += new TextDecoder().decode(chunk)),
    });
    const stop = machine.run({ budget: 20_000_000 });
    const count = (each: Ops): number =>
      Number(machine.readWord(session.backend.addressOf(each) + BigInt(8 * OPS_WORDS.private), 8));
    return { stop: stop.kind, output, counts: ops.map(count) };
  }
  function underQemu(image: Uint8Array): string {
    const path = join(folder, 'image');
    writeFileSync(path, image);
    chmodSync(path, 0o755);
    const { stdout, status } = spawnSync('qemu-aarch64', [path], { encoding: 'utf8', timeout: 20_000 });
    return `${String(status)} ${stdout}`;
  }
  /** With another word in front of a function. */
  function withWord(image: Uint8Array, name: string, word: bigint): Uint8Array {
    const copy = image.slice();
    const opened = openBytes(copy);
    const at = opened.image.fileOffsetOf((opened.sites.ip(siteOf(opened, name)) - 12n) & ~7n);
    new DataView(copy.buffer).setBigUint64(at, word, true);
    return copy;
  }

  const filters = ['core_* far_one_sum', '*leaf far_one_*'];
  const alone = ['core_sum', 'two_leaf'];
  const shared = ['core_leaf', 'far_one_sum'];
  const kinds = [
    ['one', loadSamples({ target: 'arm64', ending: '', flavour: 'callops' }).bytes],
    ['two', bytes],
  ] as const;

  test('T-A64-5: functions of one ops call the reading entry, those that ops share the listing one, far modules by stubs of their own', () => {
    const results = kinds.map(([entries, image]) => {
      const each = made(image, filters);
      const now = each.session.bytes();
      expect(alone.map((name) => called(now, name))).toEqual(['ftrace_caller', 'ftrace_caller']);
      const lists = entries === 'two' ? 'ftrace_list_caller' : 'ftrace_caller';
      expect(shared.map((name) => called(now, name))).toEqual([lists, lists]);
      const stubs = openBytes(now).program.loadMap!.parts.flatMap(({ entryStubs }) => entryStubs.map(({ symbol }) => symbol));
      expect(stubs.includes('ftrace_list_caller')).toBe(entries === 'two');
      const result = ran(each);
      expect(result).toMatchObject({ stop: 'exit', output: expected });
      if (tool('qemu-aarch64') !== null) expect(underQemu(now)).toBe(`51 ${expected}`);
      // One of them goes: the others read their own word again; then all, and the image is as it
      // was.
      done(each.session.core.unregister(each.ops[1]!));
      expect(shared.map((name) => called(each.session.bytes(), name))).toEqual(['ftrace_caller', 'ftrace_caller']);
      done(each.session.core.unregister(each.ops[0]!));
      expect(shared.map((name) => called(each.session.bytes(), name))).toEqual(['nop', 'nop']);
      return result.counts;
    });
    expect(results[0]).toEqual(results[1]);
    expect(results[0]!.every((count) => count > 0)).toBe(true);
  }); // prettier-ignore

  test('T-A64-5: the listing entry does not read the word: what names nothing does no harm there, and does where the entry reads it', () => {
    const [one, two] = kinds.map(([, image]) => {
      const each = made(image, filters);
      const bad = withWord(each.session.bytes(), 'core_leaf', 0xdead_beef_dead_beecn);
      return { good: ran(each), bad: ran(each, bad), qemu: tool('qemu-aarch64') === null ? null : underQemu(bad) };
    });
    expect(two!.bad).toEqual(two!.good);
    expect(one!.bad.stop).not.toBe('exit');
    if (one!.qemu !== null) expect([one!.qemu.startsWith('51 '), two!.qemu]).toEqual([false, `51 ${expected}`]);
  });

  test('direct callers and the graph tracer are served by the listing entry, too', () => {
    const session = Session.open(bytes, arch);
    const direct = session.core.createOps({ name: 'direct', func: 0n });
    done(session.core.setFilter(direct, 'filter', 'core_leaf'));
    const stub = session.functionAddress('elftrace_direct_stub')!;
    done(session.core.registerDirect(direct, stub));
    expect(called(session.bytes(), 'core_leaf')).toBe('elftrace_direct_stub');
    const counter = session.core.createOps({ name: 'all', func: session.functionAddress('elftrace_counter')! });
    done(session.core.register(counter));
    const now = session.bytes();
    expect([called(now, 'core_leaf'), called(now, 'core_sum')]).toEqual(['ftrace_list_caller', 'ftrace_caller']);
    // How often the direct caller is entered, from the list and from nowhere else.
    const opened = openBytes(now);
    if (arch.emulation.kind !== 'ir') throw new Error('arm64 is not executed');
    const { machine }: { machine: Machine } = startProcess({ image: opened.image, abi: arch.abi, emulation: arch.emulation });
    const times = (symbol: string): (() => number) => {
      let count = 0;
      machine.hook(entryPoint(opened.program, symbol)!.address, () => {
        count++;
        return 'continue';
      });
      return () => count;
    };
    const [hits, lists, leaf] = ['elftrace_direct_stub', 'ftrace_list_caller', 'core_leaf'].map(times);
    expect(machine.run({ budget: 20_000_000 })).toMatchObject({ kind: 'exit', code: 51 });
    expect([hits!(), lists!()]).toEqual([leaf!(), leaf!()]);
    expect(leaf!()).toBeGreaterThan(0);
  }); // prettier-ignore
});

describe('the command line', () => {
  const paths = ['core.o', 'far-one.ko', 'far-two.ko'].map((name) => join(builtSamples, 'arm64', name));
  const sample = join(builtSamples, 'arm64/program-patchable-4-2');
  const at = (name: string): string => join(folder, name);
  const session = at('session.yaml');
  writeFileSync(
    session,
    JSON.stringify({
      version: 1,
      steps: [
        { ops: { name: 'a', call: 'elftrace_counter', filter: 'leaf sum' } },
        { register: 'a' },
        { ops: { name: 'b', call: 'elftrace_function_tracer', filter: 'leaf' } },
        { register: 'b' },
      ],
    }),
  );

  test('load, patch --session, patch --enable, race take --a64-entries=two; a second call needs the same image', () => {
    expect(elftrace(['load', ...paths, '--a64-entries=two', '-o', at('loaded')]).status).toBe(0);
    expect(elftrace(['patch', at('loaded'), '--enable', '-o', at('enabled')]).status).toBe(0);
    expect(elftrace(['run', at('enabled')])).toMatchObject({ status: 51, stdout: expected });
    const patched = elftrace(['patch', sample, '--session', session, '--a64-entries=two', '-o', at('two')]);
    expect([patched.stderr, patched.status]).toEqual(['', 0]);
    const of = (name: string, site: string): string => called(new Uint8Array(readFileSync(at(name))), site);
    expect([of('two', 'leaf'), of('two', 'sum')]).toEqual(['ftrace_list_caller', 'ftrace_caller']);
    const [plain, patchedRun] = [sample, at('two')].map((path) => elftrace(['run', path]));
    expect([patchedRun!.status, patchedRun!.stdout.replace(/^trace=.*\n/gm, '')]).toEqual([plain!.status, plain!.stdout.replace(/^trace=.*\n/gm, '')]);
    expect(elftrace(['patch', sample, '--session', session, '-o', at('one')]).status).toBe(0);
    expect([of('one', 'leaf'), of('one', 'sum')]).toEqual(['ftrace_caller', 'ftrace_caller']);
    const other = elftrace(['patch', at('one'), '--enable', '--a64-entries=two', '-o', at('no')]);
    expect([other.status, other.stderr]).toEqual([2, expect.stringMatching(/laid out with --a64-entries=one/)]);
    expect(elftrace(['revert', at('two'), '-o', at('back')]).status).toBe(0);
    expect(readFileSync(at('back')).equals(readFileSync(sample))).toBe(true);
    const good = elftrace(['race', sample, '--site', 'leaf', '--from', 'call', '--to', 'nop', '--a64-entries=two', '--variant', 'torn', '--no-stale-fetch']);
    const bad = elftrace(['race', sample, '--site', 'leaf', '--from', 'call', '--to', 'nop', '--a64-entries=one', '--variant', 'torn', '--no-stale-fetch']);
    expect([good.status, bad.status]).toEqual([0, 1]);
    expect(good.stdout).toMatch(/holds in every order/);
    expect(bad.stdout).toMatch(/VIOLATED/);
  }); // prettier-ignore

  test('images whose entries read no word, and other machines, are told so', () => {
    const era = elftrace(['patch', sample, '--enable', '--a64-era=regs', '--a64-entries=two', '-o', at('no')]);
    expect([era.status, era.stderr]).toEqual([2, expect.stringMatching(/about entries that read an ops pointer .* are regs/)]);
    const load = elftrace(['load', ...paths, '--a64-era=regs', '--a64-entries=two', '-o', at('no')]);
    expect([load.status, load.stderr]).toEqual([2, expect.stringMatching(/about entries that read an ops pointer .* are regs/)]);
    const x86 = elftrace(['patch', join(builtSamples, 'x86-64/program-fentry'), '--session', session, '--a64-entries=two', '-o', at('no')]);
    expect([x86.status, x86.stderr]).toEqual([2, expect.stringMatching(/--a64-entries is about arm64/)]);
  }); // prettier-ignore
});
