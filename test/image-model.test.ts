/**
 * The model test on images that run: random sequences of registrations, filters, direct calls,
 * graph users, modules, functions and switches on images compiled for every convention of every
 * target, on a machine that goes on; after each event every function is called, and the callbacks
 * that ran, their order and arguments, the direct callers, the returns and the result must be those
 * of the model. In the end the image is as it was, byte for byte.
 */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { GraphUser, type Ops } from '../src/ftrace/index.js';
import { times } from './support/long.js';
import { profiles } from './support/profiles.js';
import { PARENT } from './support/fake-ftrace.js';
import { emptyHash, type MFunction, Model } from './support/ftrace-model.js';
import {
  type CallLog,
  type GeneratedCase,
  generatedCases,
  type GeneratedFunction,
  generatedImage,
  GeneratedMachine,
  generatedTools,
  generateFunctions,
  REPLACEMENT,
} from './support/generated-image.js';
import { type Action, ModelDriver, type PoolEntry, tracerOf, userNames } from './support/model-driver.js';
import { describeWith } from './support/tools.js';

const SEQUENCES = Number(process.env['ELFTRACE_IMAGE_MODEL'] ?? times(1000, 400, 40));
const SEED = Number(process.env['ELFTRACE_SEED'] ?? '20240601');
/** Images of each case: other numbers, other calls. */
const IMAGES = Number(process.env['ELFTRACE_IMAGES'] ?? '1');

const pool: readonly PoolEntry[] = [
  { name: 'static', traits: [], kind: 'plain' },
  { name: 'dynamic', traits: ['dynamic'], kind: 'plain' },
  { name: 'regs', traits: ['regs', 'dynamic'], kind: 'plain' },
  { name: 'regs-if', traits: ['regs-if'], kind: 'plain' },
  { name: 'recursion', traits: ['recursion'], kind: 'plain' },
  { name: 'rcu', traits: ['rcu'], kind: 'plain' },
  { name: 'livepatch', traits: ['ipmodify', 'regs-if'], kind: 'plain' },
  { name: 'livepatch2', traits: ['ipmodify', 'regs-if', 'dynamic'], kind: 'plain' },
  { name: 'permanent', traits: ['permanent'], kind: 'plain' },
  { name: 'shared', traits: [], kind: 'plain' },
  { name: 'direct', traits: [], kind: 'direct' },
  { name: 'direct-shares', traits: ['shares'], kind: 'direct' },
];

const texts = [
  '', 'f0', 'f1', 'f0 f1', 'f1 f2 f3', 'f*', 'f* !f1', '!f2', 'a0', 'a0:mod:m0', '*:mod:m0', '*:mod:m1 f3', '!*:mod:m0', 'b0', 'f4 f3',
]; // prettier-ignore
/**
 * The first user is one that records; the others have callbacks, and the last wants only some
 * functions.
 */
const wanted = (user: string, name: string): boolean => user !== 'g2' || name !== 'f1';
const counts = { events: 0, done: 0, refused: 0, calls: 0, callbacks: 0, machines: 0 };
const byKind = new Map<string, number>();

const started = new Map<string, GeneratedMachine>();
function machineOf(each: GeneratedCase, seed: number): GeneratedMachine {
  const key = `${each.name} ${seed}`;
  const known = started.get(key);
  if (known) return known;
  counts.machines++;
  const made = new GeneratedMachine(each, generateFunctions(seed), generatedImage(each, seed));
  if (each.graph === '2014') made.session.core.createTracer({ name: 'tracer', func: made.callbacks[7]! });
  started.set(key, made);
  return made;
}

const json = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? each.toString(16) : each));

class Driver extends ModelDriver {
  readonly made: GeneratedMachine;
  readonly model: Model;
  readonly #byName: ReadonlyMap<string, GeneratedFunction>;
  readonly #livepatch: bigint;
  #generation = 0;
  #tracer: Ops | null = null;

  constructor(
    readonly each: GeneratedCase,
    readonly seed: number,
  ) {
    super();
    this.made = machineOf(each, seed);
    const { made } = this;
    const { core, backend } = made.session;
    expect([each.name, backend.capabilities]).toEqual([
      each.name,
      { ...profiles[each.profile], trampolines: each.trampolines !== 'none' },
    ]);
    this.#byName = new Map(made.functions.map((fn) => [fn.name, fn]));
    const functions = core.records
      .filter(({ name }) => this.#byName.has(name))
      .map(({ name, ip }) => ({ id: name, name, module: null, ip, weak: false }));
    this.#livepatch = made.session.functionAddress('elftrace_livepatch') ?? made.callbacks[0]!;
    const data = made.session.pointerTo('replacement')!;
    const all = this.createPool(core, pool, ({ traits, kind }, index) => {
      const modifies = traits.includes('ipmodify');
      const func = kind === 'direct' ? 0n : modifies ? this.#livepatch : made.callbacks[index % 7]!;
      return { func, ...(modifies ? { data } : {}) };
    });
    const mtracer = tracerOf(made.callbacks[7]!);
    if (each.graph === '2014') {
      this.#tracer = core.state.known.find(({ name }) => name === 'tracer')!;
      this.ops.push(this.#tracer);
      all.push(mtracer);
    }
    this.model = new Model(backend.capabilities, each.graph, each.trampolines, all, mtracer.pair, mtracer);
    this.populate(this.model, functions);
    this.users = userNames.map(
      (name, index) => new GraphUser(name, index === 0 ? { entry: 0n, return: 0n } : made.graphCallbacks),
    );
    made.wants = wanted;
  }

  get core() {
    return this.made.session.core;
  }

  /** Code of modules that go stays where it is; what it calls still runs. */
  #moduleFunctions(module: string): MFunction[] {
    const load = ++this.#generation;
    const sites = this.made.session.sitesOfModule(module) ?? [];
    return sites.map(({ ip, name }) => ({ id: `${name}#${load}`, name, module, ip, weak: false }));
  }

  event([kind, a, b, c]: readonly [number, number, number, number]): void {
    const { model, made } = this;
    const { ops, mops, text, append, fn, user, module } = this.chosen(a, b, c, texts);
    const address = made.session.functionAddress(c % 2 === 0 ? 'direct_a' : 'direct_b') ?? 0x7000n;
    // Mostly what can be done now; sometimes the contrary, for the refusals.
    const contrary = c % 8 === 0;
    const takesOut = ops.has('ENABLED') !== contrary;
    const takesDirectOut = (model.byAddress.pair.filter?.ids.has(fn.id) === true) !== contrary;
    let action: Action;
    if (kind < 38 && !takesOut) {
      if (mops.kind === 'direct' && !mops.filtered && !contrary) this.event([40, a, 1 + (b % 14), 1]);
      action = this.register(ops, mops, address);
    } else if (kind < 38) {
      action = this.unregister(ops, mops);
    } else if (kind < 62) {
      action = this.setFilter(ops, mops, kind < 57 ? 'filter' : 'notrace', text, append);
    } else if (kind < 67) {
      const [first, second] = ['direct', 'direct-shares'].map((name) => pool.findIndex((each) => each.name === name));
      const at = this.ops[first!]!.has('ENABLED') !== contrary ? first! : second!;
      action = this.modifyDirect(at, address);
    } else if (kind < 73 && !takesDirectOut) {
      action = this.registerAt(fn, address);
    } else if (kind < 73) {
      action = this.unregisterAt(fn);
    } else if (kind < 74) {
      action = this.modifyAt(fn, c % 4 < 2 ? (model.table.get(fn.id) ?? 0n) : 0x7000n, address);
    } else if (kind < 82 && model.users.includes(user.name) === contrary) {
      action = this.registerGraph(user);
    } else if (kind < 82) {
      action = this.unregisterGraph(user);
    } else if (kind < 85) {
      action = this.setGraphFilter(user, c % 3 === 0 ? 'notrace' : 'filter', text);
    } else if (kind < 92 && model.modules.has(module) === contrary) {
      action = {
        tell: `load ${module}`,
        predicted: model.load(module, this.#moduleFunctions(module)),
        act: () => made.session.loadModule(module),
      };
    } else if (kind < 92) {
      action = {
        tell: `unload ${module}`,
        predicted: model.unload(module),
        act: () => made.session.unloadModule(module),
      };
    } else if (kind < 94) {
      action = this.switch(false);
    } else if (kind < 96) {
      action = this.switch(true);
    } else if (kind < 99 && mops.kind === 'plain' && !mops.traits.has('ipmodify')) {
      action = this.setFunction(ops, mops, made.callbacks[b % 7]!);
    } else {
      model.watching = !model.watching;
      made.watching = model.watching;
      this.trail.push(`watching ${model.watching}`);
      this.compare();
      return;
    }
    this.trail.push(action.tell);
    counts.events++;
    let stores = 0;
    made.onStore = () => ++stores > 0;
    const outcome = action.act();
    made.onStore = null;
    // C-IPM-5, C-REG-1: what is refused has written nothing.
    if (outcome.kind === 'refused' && stores > 0) this.fail('a refusal wrote something');
    this.mustBe(outcome, action.predicted);
    if (outcome.kind === 'done') {
      counts.done++;
      const name = action.tell.split(' ')[0]!;
      byKind.set(name, (byKind.get(name) ?? 0) + 1);
    } else counts.refused++;
    this.compare();
  }

  /** A call of a function by the model: events in order, returns, and the result. */
  #expected(name: string, argument: bigint, from: string): { events: string[]; returns: string[]; result: bigint } {
    const { model } = this;
    const { calls, factor, offset, module } = this.#byName.get(name)!;
    const fn = model.functions.find((each) => each.name === name);
    // A module that went is called by nobody; the test does not either.
    if (fn === undefined) throw new Error(`${name} of ${String(module)} is not there`);
    const replaced = model.on && model.attached(fn).some((ops) => ops.traits.has('ipmodify'));
    // The jump of 2014 comes behind the callbacks and takes the ip from where the entry goes on:
    // with a replaced function nobody knows it.
    const lost = replaced && model.caps.graph === 'trampoline';
    const graphed = lost ? 'unknown' : name;
    const attached = model
      .expected(fn)
      .filter(
        (event) =>
          event.kind !== 'graph' || (wanted(event.user, graphed) && (!lost || emptyHash(model.tracer.pair.filter))),
      );
    const events = attached.map((event): string => {
      if (event.kind === 'callback')
        return `${event.func.toString(16)} ${event.ops ?? '-'} at ${name} from ${from}${event.regs ? ' regs' : ''}`;
      if (event.kind === 'graph') return `graph ${event.user} at ${graphed}`;
      return event.kind === 'direct' ? `direct ${event.address.toString(16)}` : event.kind;
    });
    const back = attached.flatMap((event) => (event.kind === 'graph' ? [`${event.user} ${graphed}`] : []));
    if (replaced) {
      return { events, returns: back, result: argument * BigInt(REPLACEMENT.factor) + BigInt(REPLACEMENT.offset) };
    }
    const inner = calls === null ? null : this.#expected(calls, argument + 1n, name);
    return {
      events: [...events, ...(inner?.events ?? [])],
      returns: [...(inner?.returns ?? []), ...back],
      result: (argument + (inner?.result ?? 0n)) * BigInt(factor) + BigInt(offset),
    };
  }

  #shown({ events }: CallLog, expected: readonly string[]): string[] {
    return events.map((event, index) => {
      if (event.kind === 'graph') return `graph ${event.user} at ${event.at}`;
      if (event.kind === 'direct') return `direct ${event.address.toString(16)}`;
      if (event.kind !== 'callback') return event.kind;
      // Plain entries may pass a frame as well; where registers were asked for there must be one.
      const regs = expected[index]?.endsWith(' regs') === true && event.regs ? ' regs' : '';
      expect(event.parent).toBe(PARENT);
      return `${event.func.toString(16)} ${event.ops ?? '-'} at ${event.at} from ${event.from}${regs}`;
    });
  }

  compare(): void {
    const { made, model } = this;
    for (const fn of model.functions) {
      counts.calls++;
      const argument = BigInt(counts.calls % 97);
      const expected = this.#expected(fn.name, argument, 'host');
      const log = made.call(fn.name, argument);
      const shown = this.#shown(log, expected.events);
      counts.callbacks += shown.length;
      const got = json([shown, log.returns, log.result]);
      const wanted = json([expected.events, expected.returns, expected.result]);
      if (got !== wanted) this.fail(`${fn.id} does\n${got}\nexpected\n${wanted}`);
    }
  }

  fail(reason: string): never {
    throw new Error(`${reason}\n${this.each.name}: ${this.made.graphState()}\n${this.trail.join('\n')}`);
  }

  /** Takes everything out again; the machine can serve the next sequence. */
  finish(): void {
    const { core, made } = this;
    const stays = this.takeOut();
    this.must(core.setEnabled(true));
    made.watching = true;
    // Text of a module that went is nobody's; when it comes again its sites become nops, as at its
    // first time.
    for (const name of ['m0', 'm1']) {
      if (!core.state.records.modules.includes(name)) this.must(made.session.loadModule(name));
      this.must(made.session.unloadModule(name));
    }
    for (const ops of this.ops) {
      if (ops !== this.#tracer) this.must(core.destroy(ops));
      else for (const which of ['filter', 'notrace'] as const) this.must(core.setFilter(ops, which, ''));
    }
    this.must(core.reclaim());
    if (this.#tracer !== null) this.must(core.setFunction(this.#tracer, made.callbacks[7]!));
    if (stays) {
      // Its functions went with their module; the core keeps it.
      started.delete(`${this.each.name} ${this.seed}`);
      return;
    }
    const left = made.leftovers();
    if (left.length > 0) this.fail(`left over: ${left.slice(0, 5).join(', ')}`);
  }
}

describeWith(generatedTools, 'model of the core, executed', () => {
  const event = fc.tuple(fc.nat(99), fc.nat(255), fc.nat(255), fc.nat(255));
  const sequence = fc.record({
    each: fc.constantFrom(...generatedCases),
    seed: fc.integer({ min: 1, max: IMAGES }),
    events: fc.array(event, { minLength: 1, maxLength: 16, size: 'max' }),
  });

  test(`C-REG-1 C-DIR-4 C-FG-5 C-TGT-1 C-TGT-2 C-TGT-4 C-TGT-5 C-TGT-6 C-TGT-7 C-TGT-9 C-HASH-1 C-HASH-2 C-HASH-4 C-IPM-1 C-IPM-2 C-IPM-4 C-IPM-5 C-DIR-2 C-FILT-6 C-MOD-1 C-MOD-2 C-FG-8: ${SEQUENCES} random sequences on images do what the model does, and leave them as they were`, () => {
    fc.assert(
      fc.property(sequence, ({ each, seed, events }) => {
        const driver = new Driver(each, seed);
        try {
          for (const one of events) driver.event(one);
          driver.finish();
        } catch (error) {
          // What it left is not what the next sequence begins with.
          started.delete(`${each.name} ${seed}`);
          throw error;
        }
      }),
      { numRuns: SEQUENCES, seed: SEED, includeErrorInReport: true },
    );
    process.stdout.write(
      `image-model: ${SEQUENCES} sequences, ${JSON.stringify({ ...counts, ...Object.fromEntries(byKind) })}\n`,
    );
    expect(counts.done).toBeGreaterThan(counts.events / 4);
  }, 7_200_000);
});
