/**
 * The model test on images that run: random sequences of registrations, filters, direct calls, graph users, modules, functions and switches on images compiled
 * for every convention of every target, on a machine that goes on; after each event every function is called, and the callbacks that ran, their order and
 * arguments, the direct callers, the returns and the result must be those of the model. In the end the image is as it was, byte for byte.
 */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { GraphUser, type Ops, type Outcome, profiles } from '../src/ftrace/core/index.js';
import { PARENT } from './support/fake-ftrace.js';
import { emptyHash, type MFunction, type MOps, type MPair, Model, type Trait } from './support/ftrace-model.js';
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
import { describeWith } from './support/tools.js';

const SEQUENCES = Number(process.env['ELFTRACE_IMAGE_MODEL'] ?? '1000');
const SEED = Number(process.env['ELFTRACE_SEED'] ?? '20240601');
/** Images of each case: other numbers, other calls. */
const IMAGES = Number(process.env['ELFTRACE_IMAGES'] ?? '1');

const pool: readonly { readonly name: string; readonly traits: readonly Trait[]; readonly kind: 'plain' | 'direct' }[] =
  [
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

const FLAGS = {
  regs: 'SAVE_REGS',
  'regs-if': 'SAVE_REGS_IF_SUPPORTED',
  recursion: 'RECURSION',
  rcu: 'RCU',
  ipmodify: 'IPMODIFY',
  permanent: 'PERMANENT',
  dynamic: 'DYNAMIC',
} as const;

const texts = [
  '', 'f0', 'f1', 'f0 f1', 'f1 f2 f3', 'f*', 'f* !f1', '!f2', 'a0', 'a0:mod:m0', '*:mod:m0', '*:mod:m1 f3', '!*:mod:m0', 'b0', 'f4 f3',
]; // prettier-ignore
/** The first is one that records; the others have callbacks, and the last wants only some functions. */
const userNames = ['g0', 'g1', 'g2'];
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

class Driver {
  readonly made: GeneratedMachine;
  readonly model: Model;
  readonly ops: Ops[] = [];
  readonly users: GraphUser[];
  readonly trail: string[] = [];
  readonly #byName: ReadonlyMap<string, GeneratedFunction>;
  readonly #livepatch: bigint;
  #generation = 0;
  #tracer: Ops | null = null;

  constructor(
    readonly each: GeneratedCase,
    readonly seed: number,
  ) {
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
    const all: MOps[] = [];
    const globalPair: MPair = { filter: null, notrace: null };
    const shared: MPair = { filter: null, notrace: null };
    const sharedPair = core.createPair();
    this.#livepatch = made.session.functionAddress('elftrace_livepatch') ?? made.callbacks[0]!;
    const data = made.session.pointerTo('replacement')!;
    pool.forEach(({ name, traits, kind }, index) => {
      const isShared = name === 'shared';
      const modifies = traits.includes('ipmodify');
      const func = kind === 'direct' ? 0n : modifies ? this.#livepatch : made.callbacks[index % 7]!;
      this.ops.push(
        core.createOps({
          name,
          func,
          ...(modifies ? { data } : {}),
          flags: traits.flatMap((trait) => (trait in FLAGS ? [FLAGS[trait as keyof typeof FLAGS]] : [])),
          ...(isShared ? { pair: sharedPair } : {}),
          ...(traits.includes('shares') ? { negotiate: () => 0 as const } : {}),
        }),
      );
      const pair = isShared ? shared : { filter: null, notrace: null };
      all.push({ name, traits: new Set(traits), kind, pair, func, address: 0n, filtered: false });
    });
    const mtracer: MOps = {
      name: 'tracer', traits: new Set(), kind: 'plain', pair: globalPair, func: made.callbacks[7]!, address: 0n, filtered: true,
    }; // prettier-ignore
    if (each.graph === '2014') {
      this.#tracer = core.state.known.find(({ name }) => name === 'tracer')!;
      this.ops.push(this.#tracer);
      all.push(mtracer);
    }
    this.model = new Model(backend.capabilities, each.graph, each.trampolines, all, globalPair, mtracer);
    this.model.functions.push(...functions);
    this.users = userNames.map(
      (name, index) => new GraphUser(name, index === 0 ? { entry: 0n, return: 0n } : made.graphCallbacks),
    );
    made.wants = wanted;
    for (const name of userNames) this.model.userPairs.set(name, { filter: null, notrace: null });
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
    const { model, core, made } = this;
    const index = a % this.ops.length;
    const ops = this.ops[index]!;
    const mops = model.all[index]!;
    const text = texts[b % texts.length]!;
    const append = c % 4 === 0;
    const fn = model.functions[b % model.functions.length]!;
    const user = this.users[a % this.users.length]!;
    const address = made.session.functionAddress(c % 2 === 0 ? 'direct_a' : 'direct_b') ?? 0x7000n;
    const module = `m${String(a % 2)}`;
    // Mostly what can be done now; sometimes the contrary, for the refusals.
    const contrary = c % 8 === 0;
    const takesOut = ops.has('ENABLED') !== contrary;
    const takesDirectOut = (model.byAddress.pair.filter?.ids.has(fn.id) === true) !== contrary;
    let tell: string;
    let predicted: string | null;
    let act: () => Outcome;
    if (kind < 38 && !takesOut) {
      if (mops.kind === 'direct') {
        if (!mops.filtered && !contrary) this.event([40, a, 1 + (b % 14), 1]);
        tell = `register-direct ${ops.name}`;
        predicted = model.registerDirect(mops, address);
        act = () => core.registerDirect(ops, address);
      } else {
        tell = `register ${ops.name}`;
        predicted = model.register(mops);
        act = () => core.register(ops);
      }
    } else if (kind < 38) {
      if (mops.kind === 'direct') {
        const now = mops.address;
        tell = `unregister-direct ${ops.name}`;
        predicted = model.unregisterDirect(mops);
        act = () => core.unregisterDirect(ops, now);
      } else {
        tell = `unregister ${ops.name}`;
        predicted = model.unregister(mops);
        act = () => core.unregister(ops);
      }
    } else if (kind < 62) {
      const which = kind < 57 ? 'filter' : 'notrace';
      tell = `${which} ${ops.name} '${text}'${append ? ' append' : ''}`;
      const next = model.words(text, append ? mops.pair[which] : null);
      predicted = next === null ? 'EINVAL' : model.modify(mops.pair, which, next);
      if (predicted === null) mops.filtered = true;
      act = () => core.setFilter(ops, which, text, append ? 'append' : 'replace');
    } else if (kind < 67) {
      const [first, second] = ['direct', 'direct-shares'].map((name) => pool.findIndex((each) => each.name === name));
      const at = this.ops[first!]!.has('ENABLED') !== contrary ? first! : second!;
      tell = `modify-direct ${pool[at]!.name}`;
      predicted = model.modifyDirect(model.all[at]!, address);
      act = () => core.modifyDirect(this.ops[at]!, address);
    } else if (kind < 73 && !takesDirectOut) {
      tell = `direct-at ${fn.id}`;
      predicted = model.registerAt(fn, address);
      act = () => core.registerDirectAt(fn.ip, address);
    } else if (kind < 73) {
      tell = `no-direct-at ${fn.id}`;
      predicted = model.unregisterAt(fn);
      act = () => core.unregisterDirectAt(fn.ip);
    } else if (kind < 74) {
      const from = c % 4 < 2 ? (model.table.get(fn.id) ?? 0n) : 0x7000n;
      tell = `modify-direct-at ${fn.id}`;
      predicted = model.modifyAt(fn, from, address);
      act = () => core.modifyDirectAt(fn.ip, from, address);
    } else if (kind < 82 && model.users.includes(user.name) === contrary) {
      tell = `graph ${user.name}`;
      predicted = model.registerGraph(user.name);
      act = () => core.registerGraph(user);
    } else if (kind < 82) {
      tell = `no-graph ${user.name}`;
      predicted = model.unregisterGraph(user.name);
      act = () => core.unregisterGraph(user);
    } else if (kind < 85) {
      const which = c % 3 === 0 ? 'notrace' : 'filter';
      tell = `graph-${which} ${user.name} '${text}'`;
      const next = model.words(text, null);
      predicted = next === null || model.era !== 'multi' ? 'EINVAL' : null;
      if (predicted === null) model.userPairs.get(user.name)![which] = next;
      act = () => core.setGraphFilter(user, which, text);
    } else if (kind < 92 && model.modules.has(module) === contrary) {
      tell = `load ${module}`;
      predicted = model.load(module, this.#moduleFunctions(module));
      act = () => made.session.loadModule(module);
    } else if (kind < 92) {
      tell = `unload ${module}`;
      predicted = model.unload(module);
      act = () => made.session.unloadModule(module);
    } else if (kind < 94) {
      tell = 'off';
      predicted = model.switch(false);
      act = () => core.setEnabled(false);
    } else if (kind < 96) {
      tell = 'on';
      predicted = model.switch(true);
      act = () => core.setEnabled(true);
    } else if (kind < 99 && mops.kind === 'plain' && !mops.traits.has('ipmodify')) {
      const func = made.callbacks[b % 7]!;
      tell = `function ${ops.name}`;
      predicted = null;
      mops.func = func;
      act = () => core.setFunction(ops, func);
    } else {
      model.watching = !model.watching;
      made.watching = model.watching;
      this.trail.push(`watching ${model.watching}`);
      this.compare();
      return;
    }
    this.trail.push(tell);
    counts.events++;
    let stores = 0;
    made.onStore = () => ++stores > 0;
    const outcome = act();
    made.onStore = null;
    // C-IPM-5, A6.4: what is refused has written nothing.
    if (outcome.kind === 'refused' && stores > 0) this.fail('a refusal wrote something');
    const got = outcome.kind === 'done' ? null : outcome.errno;
    if (got !== predicted) {
      this.fail(
        `outcome ${String(got)}${outcome.kind === 'done' ? '' : ` (${outcome.reason})`}, expected ${String(predicted)}`,
      );
    }
    if (outcome.kind === 'done') {
      counts.done++;
      const name = tell.split(' ')[0]!;
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
    // The jump of 2014 comes behind the callbacks and takes the ip from where the entry goes on: with a replaced function nobody knows it.
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
    const { core, model, made } = this;
    const must = (outcome: Outcome): void => {
      if (outcome.kind !== 'done') this.fail(`at the end: ${outcome.reason}`);
    };
    for (const user of this.users) if (model.users.includes(user.name)) must(core.unregisterGraph(user));
    this.ops.forEach((ops, index) => {
      if (!ops.has('ENABLED')) return;
      const mops = model.all[index]!;
      must(mops.kind === 'direct' ? core.unregisterDirect(ops, mops.address) : core.unregister(ops));
    });
    for (const fn of model.functions) if (model.unregisterAt(fn) === null) must(core.unregisterDirectAt(fn.ip));
    const stays = core.state.list.length > 0;
    if (stays) expect(core.state.list.map((ops) => ops.name)).toEqual(['direct callers by address']);
    must(core.setEnabled(true));
    made.watching = true;
    // Text of a module that went is nobody's; when it comes again its sites become nops, as at its first time.
    for (const name of ['m0', 'm1']) {
      if (!core.state.records.modules.includes(name)) must(made.session.loadModule(name));
      must(made.session.unloadModule(name));
    }
    for (const ops of this.ops) {
      if (ops !== this.#tracer) must(core.destroy(ops));
      else for (const which of ['filter', 'notrace'] as const) must(core.setFilter(ops, which, ''));
    }
    must(core.reclaim());
    if (this.#tracer !== null) must(core.setFunction(this.#tracer, made.callbacks[7]!));
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

  test(`A6 A5 A10 C-TGT-1 C-TGT-2 C-TGT-4 C-TGT-5 C-TGT-6 C-TGT-7 C-TGT-9 C-HASH-1 C-HASH-2 C-HASH-4 C-IPM-1 C-IPM-2 C-IPM-4 C-IPM-5 C-DIR-2 C-FILT-6 C-MOD-1 C-MOD-2 C-FG-8: ${SEQUENCES} random sequences on images do what the model does, and leave them as they were`, () => {
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
