/**
 * Model test of the ftrace core. Random sequences of registrations, filters, direct calls, graph
 * users, modules and switches; after each event what runs when each function is called must equal a
 * model that is written here from the rules alone and shares nothing with the core but the names of
 * flags. At every prefix of the steps nothing may run that neither the state before nor the state
 * after asks for, and everything that both ask for must. In the end memory is as it was.
 */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import {
  type CallSite,
  type Capabilities,
  FtraceCore,
  GraphUser,
  type Ops,
  type Outcome,
  type Policy,
  type SavedCore,
  type SiteInput,
} from '../src/ftrace/index.js';
import { times } from './support/long.js';
import { type ProfileName, profiles } from './support/profiles.js';
import { type Event, FakeMachine } from './support/fake-ftrace.js';
import { type MFunction, Model } from './support/ftrace-model.js';
import { type Action, ModelDriver, type PoolEntry, tracerOf, userNames } from './support/model-driver.js';

const SEQUENCES = Number(process.env['ELFTRACE_SEQUENCES'] ?? times(1000, 500, 150));
/** Sequences of which the last write fails. */
const FAULTS = Math.max(SEQUENCES, 500);
const SEED = Number(process.env['ELFTRACE_SEED'] ?? '20240601');

// ------------------------------------------------------------------------------------------ driver

const pool: readonly PoolEntry[] = [
  { name: 'static', traits: [], kind: 'plain' },
  { name: 'static2', traits: [], kind: 'plain' },
  { name: 'dynamic', traits: ['dynamic'], kind: 'plain' },
  { name: 'regs', traits: ['regs', 'dynamic'], kind: 'plain' },
  { name: 'regs-static', traits: ['regs'], kind: 'plain' },
  { name: 'regs-if', traits: ['regs-if'], kind: 'plain' },
  { name: 'recursion', traits: ['recursion'], kind: 'plain' },
  { name: 'rcu', traits: ['rcu', 'dynamic'], kind: 'plain' },
  { name: 'rcu-static', traits: ['rcu'], kind: 'plain' },
  { name: 'livepatch', traits: ['ipmodify', 'regs'], kind: 'plain' },
  { name: 'livepatch2', traits: ['ipmodify', 'regs-if', 'dynamic'], kind: 'plain' },
  { name: 'permanent', traits: ['permanent'], kind: 'plain' },
  { name: 'own', traits: ['own-trampoline'], kind: 'plain' },
  { name: 'shared', traits: [], kind: 'plain' },
  { name: 'shared-regs', traits: ['regs-if', 'dynamic'], kind: 'plain' },
  { name: 'direct', traits: [], kind: 'direct' },
  { name: 'direct-shares', traits: ['shares'], kind: 'direct' },
];

const texts = [
  '',
  'f0',
  'f1',
  'f0 f1',
  'f1 f2 f3',
  'f*',
  'f* !f1',
  '!f2',
  'a0',
  'a0:mod:m0',
  '*:mod:m0',
  '*:mod:m1 f3',
  '!*:mod:m0',
  'weak0',
  'f4 f5',
];

const modules: Readonly<Record<string, readonly string[]>> = { m0: ['a0', 'a1'], m1: ['b0', 'weak1'] };

interface Variant {
  readonly name: ProfileName;
  readonly trampolines: Policy['trampolines'];
  readonly graph: Policy['graph'];
  readonly opsEntries?: Policy['opsEntries'];
}

const policyOf = ({ trampolines, graph, opsEntries = 'one' }: Variant): Partial<Policy> => ({
  trampolines,
  graph,
  opsEntries,
});

const variants: readonly Variant[] = [
  { name: 'x86-64', trampolines: 'modern', graph: 'multi' },
  { name: 'x86-64', trampolines: 'none', graph: 'single' },
  { name: 'x86-64 2014', trampolines: '2014', graph: '2014' },
  { name: 'ppc32 2008', trampolines: 'modern', graph: '2014' },
  { name: 'ppc32', trampolines: 'modern', graph: 'single' },
  { name: 'ppc64-elfv1', trampolines: 'modern', graph: 'multi' },
  { name: 'ppc64-elfv2-le', trampolines: 'modern', graph: 'multi' },
  { name: 'ppc ool-ops', trampolines: 'modern', graph: 'multi' },
  { name: 'riscv64', trampolines: 'modern', graph: 'multi' },
  { name: 'riscv64 merged', trampolines: 'modern', graph: 'single' },
  { name: 'arm64', trampolines: 'modern', graph: 'multi' },
  { name: 'arm64', trampolines: 'modern', graph: 'multi', opsEntries: 'two' },
  { name: 'arm64 regs', trampolines: 'modern', graph: 'multi' },
];

const counts = { events: 0, done: 0, refused: 0, steps: 0, prefixes: 0, calls: 0, restored: 0 };

const faults = { failed: 0, writtenBack: 0 };

/** Who runs, without order and arguments: what can be said in the middle of a change. */
function keys(events: readonly Event[]): Set<string> {
  const found = new Set<string>();
  for (const event of events) {
    if (event.kind === 'callback') found.add(event.ops ?? 'nobody');
    else if (event.kind === 'user-trampoline') found.add('own');
    else if (event.kind === 'direct') found.add('direct');
    else if (event.kind === 'graph') found.add(event.user);
    else found.add(`trap: ${event.reason}`);
  }
  return found;
}

class Driver extends ModelDriver {
  readonly machine: FakeMachine;
  core: FtraceCore;
  readonly model: Model;
  #generation = 0;
  #funcs = 0x100n;

  constructor(readonly variant: Variant) {
    super();
    const caps: Capabilities = profiles[variant.name];
    this.machine = new FakeMachine(caps);
    const names = ['f0', 'f1', 'f2', 'f3', 'f4', 'f5', 'weak0'];
    const functions = names.map((name, index) => ({
      id: name,
      name,
      module: null,
      ip: 0x1000n + 0x100n * BigInt(index),
      weak: name.startsWith('weak'),
    }));
    this.core = new FtraceCore({
      backend: this.machine,
      sites: functions.map(({ name, ip, weak }) => ({ name, ip, weak })),
      records: { siteBytes: 4 },
      policy: policyOf(variant),
    });
    const tracer = this.core.createTracer({ name: 'tracer', func: 0xfffn });
    const mtracer = tracerOf(0xfffn);
    const all = this.createPool(this.core, pool, ({ traits, kind }) => ({
      func: kind === 'direct' ? 0n : this.nextFunction(),
      ...(traits.includes('own-trampoline') ? { trampoline: 0xeeen } : {}),
    }));
    this.ops.push(tracer);
    all.push(mtracer);
    this.model = new Model(caps, variant.graph, variant.trampolines, all, mtracer.pair, mtracer);
    this.populate(this.model, functions);
    this.users = userNames.map((name) => new GraphUser(name, { entry: 1n, return: 2n }));
  }

  nextFunction(): bigint {
    this.#funcs += 0x10n;
    return this.#funcs;
  }

  site(fn: MFunction): CallSite | null {
    return this.core.records.find((site) => site.ip === fn.ip && site.module === fn.module) ?? null;
  }

  /** One event: the model says what comes of it, then the core does it. */
  event([kind, a, b, c]: readonly [number, number, number, number]): void {
    const { model, core } = this;
    const { ops, mops, text, append, fn, user, module } = this.chosen(a, b, c, texts);
    const address = 0x7000n + BigInt(c % 3) * 0x100n;
    const before = new Map(model.functions.map((each) => [each.id, model.expected(each)]));
    let action: Action;
    if (kind < 24) {
      action = this.register(ops, mops, address);
    } else if (kind < 40) {
      action = this.unregister(ops, mops);
    } else if (kind < 62) {
      action = this.setFilter(ops, mops, kind < 56 ? 'filter' : 'notrace', text, append);
    } else if (kind < 66) {
      action = this.modifyDirect(pool.length - 2 + (a % 2), address);
    } else if (kind < 70) {
      action = this.registerAt(fn, address);
    } else if (kind < 72) {
      action = this.unregisterAt(fn);
    } else if (kind < 74) {
      action = this.modifyAt(fn, c % 2 === 0 ? (model.table.get(fn.id) ?? 0n) : 0x7000n, address);
    } else if (kind < 79) {
      action = this.registerGraph(user);
    } else if (kind < 82) {
      action = this.unregisterGraph(user);
    } else if (kind < 86) {
      action = this.setGraphFilter(user, c % 3 === 0 ? 'notrace' : 'filter', text);
    } else if (kind < 90) {
      const names = modules[module]!;
      const load = ++this.#generation;
      const functions = names.map((name, at) => ({
        id: `${name}#${load}`,
        name,
        module,
        ip: BigInt(0x9000 + 0x1000 * (a % 2) + 0x100 * at),
        weak: name.startsWith('weak'),
      }));
      action = {
        tell: `load ${module}`,
        predicted: model.load(module, functions),
        act: () =>
          core.loadModule(
            module,
            functions.map(({ name, ip, weak }) => ({ name, ip, weak })),
          ),
      };
    } else if (kind < 93) {
      action = {
        tell: `unload ${module}`,
        predicted: model.unload(module),
        act: () => {
          const outcome = core.unloadModule(module);
          // Its text has gone, whatever was in it.
          for (const site of [...this.machine.sites.keys()])
            if (!core.records.includes(site)) this.machine.sites.delete(site);
          for (const site of [...this.machine.literals.keys()]) {
            if (!core.records.includes(site)) this.machine.literals.delete(site);
          }
          return outcome;
        },
      };
    } else if (kind < 95) {
      action = this.switch(false);
    } else if (kind < 97) {
      action = this.switch(true);
    } else if (kind < 98 && mops.kind === 'plain') {
      action = this.setFunction(ops, mops, this.nextFunction());
    } else if (c % 2 === 0) {
      this.trail.push('save and restore');
      this.saveAndRestore();
      this.compare();
      return;
    } else {
      model.watching = !model.watching;
      this.machine.watching = model.watching;
      this.trail.push(`watching ${model.watching}`);
      this.compare();
      return;
    }
    this.trail.push(action.tell);
    counts.events++;
    this.perform(action, before);
    this.compare();
  }

  /** Another process goes on: everything that the core knows passes through text. */
  saveAndRestore(): void {
    const old = this.core;
    const text = JSON.stringify(old.save());
    const inputs = (module: string | null): SiteInput[] =>
      old.records.filter((site) => site.module === module).map(({ ip, name, weak }) => ({ ip, name, weak }));
    const state = JSON.parse(text) as SavedCore;
    this.core = new FtraceCore({
      backend: this.machine,
      sites: inputs(null),
      records: { siteBytes: 4 },
      policy: policyOf(this.variant),
      saved: {
        state,
        modules: new Map(old.state.records.modules.map((name) => [name, inputs(name)])),
        negotiate: (name) => (name === 'direct-shares' ? () => 0 : null),
      },
    });
    if (JSON.stringify(this.core.save()) !== text) this.fail('what is saved again is something else');
    const renewed = (one: Ops): Ops => this.core.state.known[old.state.known.indexOf(one)]!;
    const wrong = this.machine.adopt(this.core, renewed, (site) => this.core.location(site.ip)!);
    if (wrong.length > 0) this.fail(`restored: ${wrong.join('; ')}`);
    this.ops = this.ops.map(renewed);
    this.users = this.users.map((user) => {
      const index = old.state.graph.known.indexOf(user);
      return index < 0 ? user : this.core.state.graph.known[index]!;
    });
    counts.restored++;
  }

  /** Set: the write of this number fails in the next event. */
  faultAt: number | null = null;
  #broken = false;

  /**
   * C-UPD-3: an operation that fails in the middle of its writes leaves memory and books as they
   * were, and the core dead (C-UPD-4).
   */
  performBroken(act: () => Outcome, faultAt: number): void {
    const { machine, core } = this;
    this.#broken = true;
    const memory = this.#memory();
    const flags = new Map(core.records.map((site) => [site, site.flags]));
    let writes = 0;
    machine.onWrite = () =>
      writes++ === faultAt ? { kind: 'failed', errno: 'EPERM', reason: 'the store was refused' } : null;
    const outcome = act();
    machine.onWrite = () => null;
    // A module that comes is several operations, of which the first may have been done.
    if (outcome.kind !== 'failed' || this.trail.at(-1)?.startsWith('load') === true) return;
    faults.failed++;
    faults.writtenBack += faultAt;
    if (this.#memory() !== memory) this.fail(`memory differs after a failed write:\n${memory}\n${this.#memory()}`);
    for (const site of core.records) {
      if (site.flags !== flags.get(site)) this.fail(`${site.name} has other flags after a failed write`);
    }
    if (core.dead === null || core.setEnabled(true).kind !== 'refused')
      this.fail('the core lives after a failed write');
  }

  /** All that is in memory, as text. Values that are compared by identity get numbers. */
  #memory(): string {
    const { machine } = this;
    const number = (value: object | null): number => {
      if (value === null) return 0;
      const known = this.#numbers.get(value) ?? this.#numbers.size + 1;
      this.#numbers.set(value, known);
      return known;
    };
    const lines: string[] = [];
    for (const [site, content] of machine.sites) {
      lines.push(`${site.ip} ${content.kind} ${'address' in content ? content.address : ''}`);
    }
    for (const [site, literal] of machine.literals) {
      if (literal.kind !== machine.literalOff.kind)
        lines.push(`${site.ip} ${literal.kind === 'ops' ? literal.ops.name : literal.kind}`);
    }
    for (const [entry, callee] of Object.entries(machine.callees)) {
      lines.push(`${entry} ${callee.kind} ${callee.kind === 'function' ? callee.address : ''}`);
    }
    for (const [at, { ops, image }] of machine.trampolines) {
      const { callee } = image;
      lines.push(
        `${at} ${ops.name} ${image.template} ${callee.kind} ${callee.kind === 'function' ? callee.address : ''}`,
      );
    }
    for (const [ops, image] of machine.objects) {
      const { func, flags, directCall, filter, notrace, trampoline } = image;
      lines.push(`${ops.name} ${func} ${flags} ${directCall} ${number(filter)} ${number(notrace)} ${trampoline}`);
    }
    for (const [site, address] of machine.direct) lines.push(`direct ${site.ip} ${address}`);
    lines.sort();
    lines.push(machine.list.map((ops) => ops.name).join());
    lines.push(`${machine.traceOp?.name ?? '-'} ${machine.graph?.name ?? '-'}`);
    for (const image of machine.graphUsers) {
      lines.push(
        image === null ? '-' : `${image.user.name} ${number(image.hashes.filter)} ${number(image.hashes.notrace)}`,
      );
    }
    return lines.join('\n');
  }

  readonly #numbers = new Map<object, number>();

  perform({ act, predicted }: Action, before: ReadonlyMap<string, Event[]>): void {
    if (this.faultAt !== null) {
      this.performBroken(act, this.faultAt);
      return;
    }
    const { machine, model } = this;
    const watched = model.functions.flatMap((fn) => {
      const site = this.site(fn);
      const old = before.get(fn.id);
      return site === null || old === undefined ? [] : [{ site, old: keys(old), next: keys(model.expected(fn)) }];
    });
    machine.written = () => {
      counts.prefixes++;
      for (const { site, old, next } of watched) {
        const events = machine.run(site);
        const now = keys(events);
        for (const key of now) if (!old.has(key) && !next.has(key)) this.fail(`${site.name} runs ${key} in between`);
        for (const key of old) if (next.has(key) && !now.has(key)) this.fail(`${site.name} misses ${key} in between`);
        for (const event of events) {
          // Each callback gets its own ops, whatever the callee of the entries was a moment ago.
          if (event.kind !== 'callback') continue;
          const owner = model.all.find((ops) => ops.name === event.ops);
          if (owner === undefined || event.ip !== site.ip) this.fail(`${site.name}: wrong arguments in between`);
        }
      }
    };
    const written = machine.log.length;
    const outcome = act();
    machine.written = () => undefined;
    if (outcome.kind === 'done') {
      counts.done++;
      counts.steps += outcome.steps.length;
    } else counts.refused++;
    this.mustBe(outcome, predicted);
    if (outcome.kind === 'refused' && machine.log.length !== written) this.fail('a refusal wrote something');
  }

  /** What runs in every function, with order and arguments; and the counts. */
  compare(): void {
    if (this.#broken) return;
    for (const fn of this.model.functions) {
      counts.calls++;
      const site = this.site(fn);
      if (site === null) {
        this.fail(`${fn.id} has no record`);
        continue;
      }
      const expected = this.model.expected(fn);
      const actual = this.machine.run(site);
      const show = (events: readonly Event[]): string =>
        JSON.stringify(events, (_, value: unknown) => (typeof value === 'bigint' ? value.toString(16) : value));
      if (show(actual) !== show(expected)) this.fail(`${fn.id} runs ${show(actual)}, expected ${show(expected)}`);
      const count = this.model.attached(fn).length;
      if (site.count !== count) this.fail(`${fn.id} counts ${site.count}, expected ${count}`);
    }
  }

  fail(reason: string): never {
    throw new Error(`${reason}\n${JSON.stringify(this.variant)}\n${this.trail.join('\n')}`);
  }

  /** Takes everything out again. */
  finish(): void {
    if (this.takeOut()) return;
    this.must(this.core.reclaim());
    if (!this.machine.untouched) this.fail('memory is not as it was');
  }
}

describe('model of the ftrace core', () => {
  const event = fc.tuple(fc.nat(99), fc.nat(255), fc.nat(255), fc.nat(255));
  const sequence = fc.record({
    variant: fc.constantFrom(...variants),
    events: fc.array(event, { minLength: 1, maxLength: 40, size: 'max' }),
  });

  test(`C-TGT, C-HASH, C-MOD, C-UPD-1: ${SEQUENCES} random sequences run what the model runs, at every prefix too, and end as they began`, () => {
    fc.assert(
      fc.property(sequence, ({ variant, events }) => {
        const driver = new Driver(variant);
        for (const each of events) driver.event(each);
        driver.finish();
      }),
      { numRuns: SEQUENCES, seed: SEED, includeErrorInReport: true },
    );
    process.stdout.write(`core-model: ${SEQUENCES} sequences, ${JSON.stringify(counts)}\n`);
    expect(counts.done).toBeGreaterThan(counts.events / 4);
  }, 3_600_000);

  test('C-UPD-3, C-UPD-4: a write that fails anywhere in any operation leaves everything as it was', () => {
    const broken = fc.record({ sequence, last: event, at: fc.nat(12) });
    fc.assert(
      fc.property(broken, ({ sequence: { variant, events }, last, at }) => {
        const driver = new Driver(variant);
        for (const each of events) driver.event(each);
        driver.faultAt = at;
        driver.event(last);
      }),
      { numRuns: FAULTS, seed: SEED, includeErrorInReport: true },
    );
    process.stdout.write(`core-model: failed writes, ${JSON.stringify(faults)}\n`);
    expect(faults.failed).toBeGreaterThan(FAULTS / 10);
  }, 3_600_000);
});
