/**
 * Random sequences of operations on images that run. After each operation the callbacks that the
 * machine sees entered, in their order and with ip, parent and ops, equal a model: for each call of
 * the program, the registered ops that want the function, the latest registration first. And every
 * prefix of an operation's stores is an image that does what the program does (C-UPD-1, C-UPD-3).
 */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { startProcess } from '../src/guest/index.js';
import { readElf } from '../src/elf/read.js';
import type { Ops, Outcome } from '../src/ftrace/index.js';
import type { Arch } from '../src/machine/arch.js';
import { entryPoint } from '../src/program/entry-points.js';
import { Session } from '../src/tracing/session.js';
import { runWithBoth } from './support/compare-traces.js';
import { arm64Cases, loadedCases, outOfLineCases, loadSamples, type LoadedCase, runImage } from './support/loaded.js';
import { differences, openBytes } from './support/pipeline.js';
import { firstOf, isLong, isWhole, times } from './support/long.js';

const SEQUENCES = Number(process.env['ELFTRACE_IMAGE_SEQUENCES'] ?? times(20, 6));
let events = 0;
let operations = 0;
let prefixes = 0;

interface Call {
  readonly name: string;
  readonly ip: bigint;
}

interface Hit extends Call {
  readonly ops: string;
}

interface Subject {
  readonly bytes: Uint8Array;
  readonly output: string;
  /** Every call of a function with a site, in order, from the machine. */
  readonly calls: readonly Call[];
}

const subjects = new Map<string, Subject>();
function subjectOf(each: LoadedCase): Subject {
  const known = subjects.get(each.name);
  if (known) return known;
  const { bytes } = loadSamples(each);
  const session = Session.open(bytes, archOf(readElf(bytes).header));
  const ops = session.core.createOps({ name: 'all', func: session.functionAddress('elftrace_function_tracer')! });
  session.core.register(ops);
  const both = runWithBoth(session.bytes());
  const { sites } = session;
  const { program } = sites;
  const ips = new Map<string, bigint>();
  for (let i = 0; i < sites.count; i++) ips.set(program.symbolName(sites.functionSymbol(i)), sites.ip(i));
  const calls = both.oracle.map(({ name }) => ({ name, ip: ips.get(name)! }));
  const subject = { bytes, output: both.output, calls };
  subjects.set(each.name, subject);
  return subject;
}

/** Runs an image and watches the callback: which ops it was called for, with which ip. */
function watch(session: Session, all: readonly Ops[]): { readonly hits: Hit[]; readonly output: string } {
  const { image, arch, program } = openBytes(session.bytes());
  const { emulation } = arch;
  if (emulation.kind !== 'ir') throw new Error('not executed');
  let output = '';
  const { machine } = startProcess({
    image,
    abi: arch.abi,
    emulation,
    onOutput: (_fd, chunk) => {
      output += new TextDecoder().decode(chunk);
    },
  });
  const names = new Map(all.map((each) => [session.backend.addressOf(each), each.name]));
  const functions = new Map(session.core.records.map((site) => [site.ip, site.name]));
  const hits: Hit[] = [];
  const callback = entryPoint(program, 'elftrace_counter')!;
  const [first, , third] = arch.abi.argumentRegisters;
  const seen = (): 'continue' => {
    const ip = machine.register(first!);
    const ops = names.get(machine.register(third!)) ?? 'unknown';
    hits.push({ name: functions.get(ip) ?? 'unknown', ip, ops });
    return 'continue';
  };
  // Behind the set-up of the TOC both ways into the function meet.
  machine.hook(callback.address, seen);
  const reason = machine.run({ budget: 20_000_000 });
  if (reason.kind !== 'exit') throw new Error(`stopped: ${reason.kind}`);
  return { hits, output };
}

type Action =
  | { readonly kind: 'toggle'; readonly ops: number }
  | { readonly kind: 'filter'; readonly ops: number; readonly which: 'filter' | 'notrace'; readonly words: string }
  | { readonly kind: 'switch' };

const WORDS = [
  '',
  'core_*',
  '*_leaf',
  'far_one_*',
  '*:mod:far_two',
  '*run',
  'one_* !one_leaf',
  'program',
  'core_round two_peer',
];

const actions: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('toggle' as const), ops: fc.nat(2) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('filter' as const),
      ops: fc.nat(2),
      which: fc.constantFrom('filter' as const, 'notrace' as const),
      words: fc.constantFrom(...WORDS),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'switch' as const }) },
);

/** What a filter means, written down by hand: the names of the samples are few. */
function means(words: string, name: string): boolean {
  switch (words) {
    case 'core_*':
      return name.startsWith('core_');
    case '*_leaf':
      return name.endsWith('_leaf');
    case 'far_one_*':
      return name.startsWith('far_one_');
    case '*:mod:far_two':
      return name.startsWith('two_') || name.startsWith('far_two_');
    case '*run':
      return name.endsWith('run');
    case 'one_* !one_leaf':
      return name.startsWith('one_') && name !== 'one_leaf';
    case 'program':
      return name === 'program';
    case 'core_round two_peer':
      return name === 'core_round' || name === 'two_peer';
    default:
      throw new Error(words);
  }
}

interface Model {
  readonly name: string;
  filter: string;
  notrace: string;
}

const wants = ({ filter, notrace }: Model, name: string): boolean =>
  (filter === '' || means(filter, name)) && (notrace === '' || !means(notrace, name));

/** One convention of each machine shows it; the others are long proofs. */
const first = firstOf([...loadedCases, ...outOfLineCases, ...arm64Cases], ({ target }) =>
  isLong ? target : target.replace(/[-\d].*/, ''),
);

/** A session, and its bytes before each store of what is recorded: a prefix of the operation. */
function snapshotting(bytes: Uint8Array, arch: Arch) {
  const snapshots: Uint8Array[] = [];
  let recording = false;
  const session: Session = Session.open(bytes, arch, {
    text: () => ({
      refresh: () => undefined,
      store: () => {
        if (recording) snapshots.push(session.bytes());
        return true;
      },
      event: () => undefined,
    }),
  });
  const record = (is: boolean): void => {
    recording = is;
  };
  return { session, snapshots, record };
}

describe.each([...loadedCases, ...outOfLineCases, ...arm64Cases])('$name', (each) => {
  if (isWhole || first.has(each))
    test('C-REG-1 C-TGT-4 C-TGT-5 C-TGT-7: callbacks, their order and arguments equal the model after every operation', () => {
      const { bytes, output, calls } = subjectOf(each);
      const arch = archOf(readElf(bytes).header);
      fc.assert(
        fc.property(fc.array(actions, { minLength: 3, maxLength: 7 }), (sequence) => {
          const { session, snapshots, record } = snapshotting(bytes, arch);
          const nops = session.bytes();
          const { core } = session;
          const func = session.functionAddress('elftrace_counter')!;
          const all = ['a', 'b', 'c'].map((name) => core.createOps({ name, func }));
          const models: Model[] = all.map(({ name }) => ({ name, filter: '', notrace: '' }));
          let list: number[] = [];
          let on = true;
          const done = (outcome: Outcome): void => {
            expect(outcome).toMatchObject({ kind: 'done' });
            operations++;
          };
          for (const action of sequence) {
            record(true);
            if (action.kind === 'toggle') {
              const { ops } = action;
              if (list.includes(ops)) {
                done(core.unregister(all[ops]!));
                list = list.filter((each) => each !== ops);
              } else {
                done(core.register(all[ops]!));
                list = [ops, ...list];
              }
            } else if (action.kind === 'filter') {
              done(core.setFilter(all[action.ops]!, action.which, action.words));
              models[action.ops]![action.which] = action.words;
            } else {
              on = !on;
              done(core.setEnabled(on));
            }
            record(false);
            const seen = watch(session, all);
            const wanted = calls.flatMap(({ name, ip }) =>
              on ? list.filter((i) => wants(models[i]!, name)).map((i) => ({ name, ip, ops: models[i]!.name })) : [],
            );
            expect(seen.hits).toEqual(wanted);
            expect(seen.output).toBe(output);
            events += wanted.length;
          }
          // A few prefixes of each sequence run: all of them would take minutes.
          for (let i = 0; i < snapshots.length; i += Math.max(1, Math.floor(snapshots.length / 6))) {
            expect(runImage(snapshots[i]!).output).toBe(output);
            prefixes++;
          }
          if (!on) done(core.setEnabled(true));
          for (const i of list) done(core.unregister(all[i]!));
          for (const ops of all) done(core.destroy(ops));
          const { offset, fileSize } = openBytes(nops).image.section('.elftrace.data')!;
          const left = differences(session.bytes(), nops);
          expect(left.filter((at) => at < offset || at >= offset + fileSize)).toEqual([]);
        }),
        { seed: 7, numRuns: SEQUENCES },
      );
    });
});

test('counts', () => {
  process.stdout.write(`${operations} operations, ${events} callbacks compared, ${prefixes} prefixes run\n`);
  expect(events).toBeGreaterThan(1000);
});
