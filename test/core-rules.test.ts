/**
 * Rules of the ftrace core one by one, on the made-up machine: checks and their order, lists,
 * trampolines, direct calls, graph, modules, update order, failures, listings. The expectations are
 * the specification's.
 */
import { describe, expect, test } from '@jest/globals';
import {
  type Capabilities,
  FtraceCore,
  formatFunctions,
  formatReport,
  GraphUser,
  hashesMatch,
  initReport,
  isEmpty,
  type Negotiation,
  type Ops,
  type OpsInput,
  type Outcome,
  type Policy,
  rawFlags,
  REC,
  type SavedCore,
  type Step,
} from '../src/ftrace/index.js';
import { type ProfileName, profiles } from './support/profiles.js';
import { OPS_FLAGS } from '../src/runtime/abi.js';
import { FakeMachine, SYMBOLS } from './support/fake-ftrace.js';

interface Bench {
  readonly core: FtraceCore;
  readonly machine: FakeMachine;
  ops(name: string, filter: string | null, input?: Partial<OpsInput>): Ops;
}

function bench(name: ProfileName = 'x86-64', policy: Partial<Policy> = {}, caps: Partial<Capabilities> = {}): Bench {
  const machine = new FakeMachine({ ...profiles[name], ...caps });
  const core = new FtraceCore({
    backend: machine,
    sites: ['f', 'g', 'h'].map((each, index) => ({
      name: each,
      ip: 0x1004n + 0x1000n * BigInt(index),
      siteOffset: 4n,
      symbolSize: 0x40n,
    })),
    records: { siteBytes: 5 },
    policy,
  });
  let funcs = 0x100n;
  return {
    core,
    machine,
    ops: (each, filter, input = {}) => {
      funcs += 0x10n;
      const made = core.createOps({ name: each, func: funcs, ...input });
      if (filter !== null) expect(done(core.setFilter(made, 'filter', filter))).toBeDefined();
      return made;
    },
  };
}

function done(outcome: Outcome): readonly Step[] {
  if (outcome.kind !== 'done') throw new Error(`${outcome.errno}: ${outcome.reason}`);
  return outcome.steps;
}

function errno(outcome: Outcome): string {
  return outcome.kind === 'done' ? 'done' : outcome.errno;
}

/** Names of what a function's call runs. */
function runs({ core, machine }: Bench, name: string): string[] {
  const site = core.records.find((each) => each.name === name)!;
  return machine.run(site).map((event) => {
    if (event.kind === 'callback') return event.ops ?? '?';
    if (event.kind === 'graph') return event.user;
    return event.kind === 'direct' ? `direct ${event.address.toString(16)}` : event.kind;
  });
}

function kinds(steps: readonly Step[]): string[] {
  return steps.map((step) => (step.kind === 'callee' ? `${step.kind} ${step.after.kind}` : step.kind));
}

/** The end of an operation's steps that are no book-keeping. */
const code = (steps: readonly Step[]): string[] =>
  kinds(steps).filter((kind) => !['object', 'list', 'quiesce', 'free', 'direct-entry', 'graph-users'].includes(kind));

describe('records and hashes', () => {
  test('C-REC-1: an address of the site, the symbol of the function, and neither', () => {
    const { core } = bench();
    const at = (address: bigint): string | undefined => core.location(address)?.name;
    expect([at(0x1004n), at(0x1008n), at(0x1009n), at(0x1000n), at(0x1001n), at(0x2000n)]).toEqual([
      'f',
      'f',
      undefined,
      'f',
      undefined,
      'g',
    ]);
  });

  test('C-REC-2, C-FILT-4: a weak leftover is disabled: it matches nothing and is never written', () => {
    const machine = new FakeMachine(profiles['x86-64']);
    const core = new FtraceCore({
      backend: machine,
      sites: [
        { ip: 0x1000n, name: 'f' },
        { ip: 0x2000n, name: 'weak', weak: true },
      ],
      records: { siteBytes: 5 },
    });
    const all = core.createOps({ name: 'all', func: 1n });
    expect(done(core.register(all)).filter((step) => step.kind === 'site')).toHaveLength(1);
    expect(core.records[1]!.flags >>> 0).toBe(REC.DISABLED);
    expect(errno(core.setFilter(all, 'filter', 'weak'))).toBe('EINVAL');
    expect(errno(core.setFilterAddresses(all, 'filter', [0x2000n]))).toBe('EINVAL');
    expect(errno(core.registerDirectAt(0x2000n, 9n))).toBe('ENODEV');
  });

  test('C-REC-2: a record that became disabled while it was enabled is still unwound', () => {
    const made = bench('ppc32');
    const a = made.ops('a', null);
    done(made.core.register(a));
    made.core.records[0]!.set(REC.DISABLED);
    done(made.core.unregister(a));
    expect(made.machine.sites.size).toBe(0);
    expect(made.core.records[0]!.flags).toBe((REC.DISABLED | REC.TOUCHED) >>> 0);
    done(made.core.register(a));
    expect([runs(made, 'f'), runs(made, 'g')]).toEqual([[], ['a']]);
  });

  test('RT-6, RT-7: a saved state for other sites, of another version or with a wrong index is bad-record', () => {
    const made = bench();
    done(made.core.register(made.ops('a', 'f')));
    const state = made.core.save();
    const restore = (saved: SavedCore, sites = [{ name: 'f', ip: 0x1004n }]): (() => FtraceCore) => {
      return () =>
        new FtraceCore({
          backend: made.machine,
          sites,
          records: { siteBytes: 5 },
          saved: { state: saved, modules: new Map() },
        });
    };
    expect(restore(state)).not.toThrow();
    expect(restore(state, [{ name: 'f', ip: 0x5000n }])).toThrow('there is no site at 0x1004');
    expect(restore({ ...state, list: [9] })).toThrow('there is no number 9');
    expect(restore({ ...state, ops: state.ops.map((ops) => ({ ...ops, trampoline: null })) })).toThrow('ALLOC_TRAMP');
    // The text says something else than the record: nothing is written over it.
    const core = restore(state)();
    made.machine.sites.clear();
    const outcome = core.unregister(core.state.list[0]!);
    expect(outcome.kind === 'failed' && outcome.report.kind).toBe('mismatch');
  });

  test('C-INIT-1, C-INIT-3: sites at 0 are dropped; an image without sites is dead', () => {
    const options = { backend: new FakeMachine(profiles['x86-64']), records: { siteBytes: 5 } };
    const core = new FtraceCore({ ...options, sites: [{ ip: 0n, name: 'f' }] });
    expect([core.warnings.length, core.dead]).toEqual([1, 'the image has nothing to trace']);
    expect(errno(core.register(core.createOps({ name: 'a', func: 1n })))).toBe('ENODEV');
  });

  test.each([
    // Words of the filter and of notrace; whether f and g are traced.
    ['absent, absent', null, null, ['f', 'g']],
    ['empty, empty', '', '', ['f', 'g']],
    ['f, absent', 'f', null, ['f']],
    ['absent, f', null, 'f', ['g']],
    ['f and g, f', 'f g', 'f', ['g']],
    ['f, f', 'f', 'f', []],
    ['waiting, absent', 'x:mod:m', null, []],
    ['absent, waiting', null, 'x:mod:m', ['f', 'g']],
  ] as const)('C-HASH-1, C-HASH-2: filter and notrace: %s', (_, filter, notrace, traced) => {
    const made = bench();
    const { core } = made;
    const [f, g] = core.records as [(typeof core.records)[0], (typeof core.records)[0]];
    const hashOf = (words: string | null) => (words === null ? null : core.hash(words));
    const pair = { filter: hashOf(filter), notrace: hashOf(notrace) };
    expect([isEmpty(pair.filter), isEmpty(pair.notrace)]).toEqual([!filter, !notrace]);
    expect([f, g].filter((site) => hashesMatch(pair, site)).map(({ name }) => name)).toEqual(traced);
    const a = made.ops('a', null);
    done(core.setHash(a, 'filter', pair.filter));
    done(core.setHash(a, 'notrace', pair.notrace));
    done(core.register(a));
    expect(['f', 'g'].filter((name) => runs(made, name).length > 0)).toEqual(traced);
  });

  test('C-HASH-2: a filter of waiting words only is empty again, and so everything, when the last one found nothing', () => {
    const made = bench();
    const { core } = made;
    const a = made.ops('a', 'x:mod:m');
    done(core.register(a));
    expect([isEmpty(a.pair.filter), runs(made, 'f')]).toEqual([false, []]);
    done(core.loadModule('m', [{ ip: 0x9000n, name: 'other' }]));
    expect([isEmpty(a.pair.filter), runs(made, 'f'), runs(made, 'other')]).toEqual([true, ['a'], ['a']]);
  });

  test('C-FILT-9: a changed filter updates the sites of an enabled ops, and is only swapped on another', () => {
    const made = bench('ppc32');
    const { core, machine } = made;
    const a = made.ops('a', 'f');
    const swapped = done(core.setFilter(a, 'filter', 'g'));
    expect([kinds(swapped), machine.sites.size]).toEqual([[], 0]);
    done(core.register(a));
    const modified = done(core.setFilter(a, 'filter', 'h'));
    expect(modified.flatMap((step) => (step.kind === 'site' ? [`${step.site.name} ${step.update}`] : []))).toEqual([
      'g make-nop',
      'h make-call',
    ]);
    expect(['f', 'g', 'h'].map((name) => runs(made, name))).toEqual([[], [], ['a']]);
  });

  test('C-HASH-2, C-FILT-6: a filter for a module that is not there traces nothing until it comes, then its function', () => {
    const made = bench();
    const { core, machine } = made;
    const a = made.ops('a', 'x:mod:m');
    done(core.register(a));
    expect([machine.sites.size, runs(made, 'f')]).toEqual([0, []]);
    done(
      core.loadModule('m', [
        { ip: 0x9000n, name: 'x' },
        { ip: 0xa000n, name: 'y' },
      ]),
    );
    expect([runs(made, 'x'), runs(made, 'y')]).toEqual([['a'], []]);
    expect(a.pair.filter?.queued).toEqual([]);
  });

  test('C-HASH-4, C-MOD-2: what a module leaves in a filter is counted and names nothing, not even its next load', () => {
    const made = bench();
    const { core, machine } = made;
    const sites = [{ ip: 0x9000n, name: 'x' }];
    done(core.loadModule('m', sites));
    const a = made.ops('a', 'x');
    done(core.register(a));
    const steps = done(core.unloadModule('m'));
    expect(steps.some((step) => step.kind === 'site')).toBe(false);
    machine.sites.clear();
    expect([a.pair.filter?.neutral, isEmpty(a.pair.filter)]).toEqual([1, false]);
    done(core.loadModule('m', sites));
    expect([runs(made, 'x'), runs(made, 'f')]).toEqual([[], []]);
    expect([errno(core.loadModule('m', sites)), errno(core.unloadModule('n'))]).toEqual(['EBUSY', 'ENOENT']);
  });

  test('C-MOD-1: a module that comes is traced by what traces everything, CALL_OPS included, which the kernel leaves out', () => {
    for (const quirk of ['ours', 'kernel'] as const) {
      const quirks = { callOps: 'ours', moduleCallOps: quirk, template: 'ours' } as const;
      const made = bench('arm64', { quirks });
      done(made.core.register(made.ops('a', null)));
      done(made.core.loadModule('m', [{ ip: 0x9000n, name: 'x' }]));
      const site = made.core.records.find((each) => each.name === 'x')!;
      expect([site.count, made.machine.literals.get(site)?.kind]).toEqual([1, quirk === 'ours' ? 'ops' : 'list-ops']);
      expect(runs(made, 'x')).toEqual(['a']);
    }
  });

  test('C-FILT-9: addresses: unknown EINVAL, removing what is not there ENOENT, one failure discards all', () => {
    const { core, ops } = bench();
    const a = ops('a', 'f');
    expect(errno(core.setFilterAddresses(a, 'filter', [0x2004n, 0x7777n]))).toBe('EINVAL');
    expect(errno(core.setFilterAddresses(a, 'filter', [0x1004n, 0x2004n], { remove: true }))).toBe('ENOENT');
    expect([...a.pair.filter!.sites].map((site) => site.name)).toEqual(['f']);
    expect(errno(core.setFilterAddresses(a, 'filter', [0x2000n]))).toBe('done');
    expect([...a.pair.filter!.sites].map((site) => site.name)).toEqual(['f', 'g']);
    expect(errno(core.setFilter(a, 'filter', 'nothing-like-it'))).toBe('EINVAL');
  });

  test('C-FILT-9: notrace on an ops that may change the resume address is EINVAL', () => {
    const { core, ops } = bench();
    expect(errno(core.setFilter(ops('a', 'f', { flags: ['IPMODIFY'] }), 'notrace', 'f'))).toBe('EINVAL');
  });
});

describe('lists and callees', () => {
  test('T-X86-1, C-TGT-5: two ops: each hit tests both and runs those that match, the latest first', () => {
    const made = bench('x86-64', { trampolines: 'none' });
    done(made.core.register(made.ops('a', 'f g')));
    done(made.core.register(made.ops('b', 'g h')));
    expect(['f', 'g', 'h'].map((name) => runs(made, name))).toEqual([['a'], ['b', 'a'], ['b']]);
    expect(made.machine.callees.plain.kind).toBe('list');
  });

  test('T-X86-2, T-X86-3: one more ops makes every function run the list; with trampolines only its own', () => {
    for (const trampolines of ['none', '2014', 'modern'] as const) {
      const made = bench('x86-64', { trampolines });
      done(made.core.register(made.ops('all', null)));
      done(made.core.register(made.ops('one', 'g')));
      const contents = made.core.records.map((site) => made.machine.content(site).kind);
      expect(contents).toEqual(
        trampolines === 'none' ? ['caller', 'caller', 'caller'] : ['trampoline', 'caller', 'trampoline'],
      );
      expect(['f', 'g'].map((name) => runs(made, name))).toEqual([['all'], ['one', 'all']]);
    }
  });

  test('C-TGT-4: the callee of the entries by the number and kind of registered ops', () => {
    const cases: readonly (readonly [OpsInput['flags'] & object, string])[] = [
      [[], 'function'],
      [['RECURSION'], 'assist'],
      [['DYNAMIC'], 'list'],
      [['RCU'], 'list'],
      [['STUB'], 'stub'],
    ];
    for (const [flags, callee] of cases) {
      const made = bench('ppc32');
      expect(made.machine.callees.plain.kind).toBe('stub');
      const a = made.ops('a', 'f', { flags });
      done(made.core.register(a));
      expect([flags, made.machine.callees.plain.kind, made.machine.callees.regs.kind]).toEqual([flags, callee, callee]);
      done(made.core.unregister(a));
      expect(made.machine.callees.plain.kind).toBe('stub');
    }
  });

  test('C-TGT-4: a lone callback that the entries cannot reach is called by the list function', () => {
    const made = bench('ppc64-elfv2-le');
    made.machine.farthest = 0x1000n;
    const a = made.ops('a', 'f', { func: 0x9_0000_0000n });
    done(made.core.register(a));
    expect([made.machine.callees.plain.kind, runs(made, 'f')]).toEqual(['list', ['a']]);
    done(made.core.setFunction(a, 0x100n));
    expect([made.machine.callees.plain.kind, runs(made, 'f')]).toEqual(['function', ['a']]);
  });

  test('C-TGT-8: the third argument is that of the lone ops', () => {
    const made = bench('ppc32');
    const a = made.ops('a', 'f');
    done(made.core.register(a));
    expect(made.machine.traceOp).toBe(a);
    done(made.core.unregister(a));
    expect(made.machine.traceOp).toBeNull();
  });

  test('C-TGT-9: an entry that passes two arguments always calls the list; registers, IPMODIFY and direct calls do not exist', () => {
    const made = bench('ppc64-elfv1');
    const a = made.ops('a', 'f');
    done(made.core.register(a));
    expect([made.machine.callees.plain.kind, runs(made, 'f')]).toEqual(['list', ['a']]);
    const { core, ops } = made;
    expect(errno(core.register(ops('r', 'f', { flags: ['SAVE_REGS'] })))).toBe('EINVAL');
    expect(errno(core.register(ops('i', 'f', { flags: ['IPMODIFY'] })))).toBe('EINVAL');
    expect(errno(core.registerDirect(ops('d', 'f', { func: 0n }), 9n))).toBe('ENODEV');
    expect(errno(core.register(ops('r', 'f', { flags: ['SAVE_REGS_IF_SUPPORTED'] })))).toBe('done');
    expect(runs(made, 'f')).toEqual(['r', 'a']);
  });

  test('C-TGT-1: CALL_OPS is that of the ops that remains; the kernel asks the one that goes', () => {
    for (const quirk of ['ours', 'kernel'] as const) {
      const made = bench('arm64', { quirks: { callOps: quirk, moduleCallOps: 'ours', template: 'ours' } });
      const plain = made.ops('plain', 'f');
      const guarded = made.ops('guarded', 'f', { flags: ['RECURSION'] });
      done(made.core.register(plain));
      done(made.core.register(guarded));
      done(made.core.unregister(guarded));
      const site = made.core.records[0]!;
      expect([quirk, site.has(REC.CALL_OPS)]).toEqual([quirk, quirk === 'ours']);
      expect(runs(made, 'f')).toEqual(['plain']);
    }
  });

  test('T-A64-1, T-A64-2: two functions, two ops, one entry and no list', () => {
    const made = bench('arm64');
    const [a, b] = [made.ops('a', 'f'), made.ops('b', 'g')];
    done(made.core.register(a));
    const steps = done(made.core.register(b));
    expect(code(steps)).toEqual(['literal', 'site']);
    expect([...made.machine.literals.values()]).toEqual([
      { kind: 'ops', ops: a },
      { kind: 'ops', ops: b },
    ]);
    expect([runs(made, 'f'), runs(made, 'g')]).toEqual([['a'], ['b']]);
  });

  test('T-A64-3, T-A64-6, T-A64-10: with the list as default every literal is the list when off', () => {
    const made = bench('arm64', { literalOff: 'list' });
    const machine = new FakeMachine(profiles.arm64, { kind: 'list-ops' });
    const core = new FtraceCore({
      backend: machine,
      sites: [{ ip: 0x1000n, name: 'f' }],
      records: { siteBytes: 4 },
      policy: { literalOff: 'list' },
    });
    const a = core.createOps({ name: 'a', func: 1n });
    done(core.register(a));
    expect(machine.literals.get(core.records[0]!)).toEqual({ kind: 'ops', ops: a });
    done(core.unregister(a));
    expect(machine.literals.get(core.records[0]!)).toEqual({ kind: 'list-ops' });
    expect(made.core.records[0]!.literal).toEqual({ kind: 'list-ops' });
  });

  test('C-Q-4: turning off: the literal names the nop ops before the call goes', () => {
    const made = bench('arm64');
    const a = made.ops('a', 'f');
    done(made.core.register(a));
    const steps = done(made.core.unregister(a));
    expect(code(steps)).toEqual(['literal', 'site']);
    expect(steps.find((step) => step.kind === 'literal')?.after).toEqual({ kind: 'nop-ops' });
  });
});

describe('trampolines', () => {
  test('T-X86-5, T-X86-6: 2014: none for dynamic ops, unless the tracer cannot be preempted; then freed after one schedule point of all', () => {
    for (const [preempt, dynamic, expected] of [
      ['full', false, true],
      ['full', true, false],
      ['none', true, true],
    ] as const) {
      const made = bench('x86-64 2014', { trampolines: '2014', graph: '2014', preempt });
      const a = made.ops('a', 'f', { flags: dynamic ? ['DYNAMIC'] : [] });
      done(made.core.register(a));
      expect([preempt, dynamic, made.machine.trampolines.size === 1]).toEqual([preempt, dynamic, expected]);
      expect(runs(made, 'f')).toEqual(['a']);
      const steps = done(made.core.unregister(a));
      const waits = steps.flatMap((step) => (step.kind === 'quiesce' ? [step.grace] : []));
      expect(waits).toEqual(dynamic ? ['rude'] : []);
      // That of a static ops is kept for the next time.
      expect(made.machine.trampolines.size).toBe(dynamic ? 0 : 1);
    }
  });

  test('C-Q-2, C-Q-5: today dynamic ops have one; it is freed after the sites are switched and both waits are over', () => {
    const made = bench();
    const a = made.ops('a', 'f', { flags: ['DYNAMIC'] });
    done(made.core.register(a));
    expect(made.machine.trampolines.size).toBe(1);
    const order = kinds(done(made.core.unregister(a)));
    expect(order.filter((kind) => ['site', 'quiesce', 'trampoline', 'free', 'object'].includes(kind))).toEqual([
      'site',
      'quiesce',
      'quiesce',
      'trampoline',
      'free',
      'object',
      'free',
    ]);
    expect(order.indexOf('list')).toBe(0);
    expect(made.machine.untouched).toBe(true);
  });

  test('T-X86-7, T-X86-20: the template by SAVE_REGS; the call goes to the function, today to the wrapper where one is needed', () => {
    for (const trampolines of ['2014', 'modern'] as const) {
      const made = bench('x86-64', { trampolines });
      const images = (flags: OpsInput['flags'] & object): unknown => {
        const a = made.ops('a', 'f', { flags });
        done(made.core.register(a));
        const [image] = [...made.machine.trampolines.values()].slice(-1);
        done(made.core.unregister(a));
        return [image!.image.template, image!.image.callee.kind];
      };
      expect(images([])).toEqual(['plain', 'function']);
      expect(images(['SAVE_REGS'])).toEqual(['regs', 'function']);
      expect(images(['RECURSION'])).toEqual(['plain', trampolines === '2014' ? 'function' : 'assist']);
    }
  });

  test('T-X86-9, C-TRAMP-4: no memory for a trampoline is no error: the shared entry serves', () => {
    const made = bench();
    made.machine.allocations = 0;
    const outcome = made.core.register(made.ops('a', 'f'));
    expect(outcome.kind === 'done' && outcome.warnings).toEqual(['a gets no trampoline: no memory']);
    expect(made.machine.content(made.core.records[0]!).kind).toBe('caller');
    expect(runs(made, 'f')).toEqual(['a']);
  });

  test('T-X86-16, T-X86-42: ALLOC_TRAMP is set by the core; its number depends on the era', () => {
    const made = bench();
    const a = made.ops('a', 'f', { flags: ['STUB', 'INITIALIZED'] });
    a.set('ENABLED', 'DELETED', 'ALLOC_TRAMP');
    expect(rawFlags(a, '2014')).toBe((1 << 0) | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9));
    expect(rawFlags(a, 'modern')).toBe((1 << 0) | (1 << 5) | (1 << 6) | (1 << 7) | (1 << 11));
    const b = made.ops('b', 'f');
    done(made.core.register(b));
    expect(b.has('ALLOC_TRAMP')).toBe(true);
  });

  test('T-X86-17: a trampoline of the user is called and never changed', () => {
    const made = bench();
    const a = made.ops('a', 'f', { trampoline: 0xeeen });
    done(made.core.register(a));
    expect(runs(made, 'f')).toEqual(['user-trampoline']);
    const steps = done(made.core.setFunction(a, 0x999n));
    expect(kinds(steps)).not.toContain('inner-call');
    expect(a.has('ALLOC_TRAMP')).toBe(false);
    // The twin: one of ours.
    const b = made.ops('b', 'g');
    done(made.core.register(b));
    expect(kinds(done(made.core.setFunction(b, 0x998n)))).toContain('inner-call');
  });

  test('T-X86-18, C-OUT-1: another function: same trampoline, its call is re-pointed, no site is written', () => {
    const made = bench();
    const a = made.ops('a', 'f');
    done(made.core.register(a));
    const [address] = made.machine.trampolines.keys();
    const steps = done(made.core.setFunction(a, 0x999n));
    expect(kinds(steps)).toContain('inner-call');
    expect(kinds(steps)).not.toContain('site');
    expect(made.machine.run(made.core.records[0]!)).toMatchObject([{ func: 0x999n, ops: 'a' }]);
    done(made.core.unregister(a));
    done(made.core.setFunction(a, 0x998n));
    const again = done(made.core.register(a));
    expect(kinds(again)).toContain('inner-call');
    expect([...made.machine.trampolines.keys()]).toEqual([address]);
    expect(made.machine.run(made.core.records[0]!)).toMatchObject([{ func: 0x998n }]);
  });

  test('T-X86-23, T-X86-31, T-A64-13: other machines get none, and two ops on disjoint functions go through the list', () => {
    for (const name of ['ppc32', 'ppc64-elfv1', 'ppc64-elfv2-be', 'riscv64', 'arm64 regs'] as const) {
      const made = bench(name);
      const [a, b] = [made.ops('a', 'f'), made.ops('b', 'g')];
      done(made.core.register(a));
      done(made.core.register(b));
      expect([a.trampoline, b.trampoline, made.machine.callees.plain.kind]).toEqual([null, null, 'list']);
      expect([runs(made, 'f'), runs(made, 'g')]).toEqual([['a'], ['b']]);
    }
  });

  test('T-X86-29: ALLOC_TRAMP given by the user is EINVAL', () => {
    const made = bench();
    const a = made.ops('a', 'f', { flags: ['ALLOC_TRAMP'], trampoline: 0xeeen });
    expect(errno(made.core.register(a))).toBe('EINVAL');
  });

  test('T-X86-30: after linking, before the callee is chosen, and with tracing off too', () => {
    const made = bench('x86-64', { preempt: 'none' });
    const order = kinds(done(made.core.register(made.ops('a', 'f'))));
    expect(order.slice(0, 4)).toEqual(['object', 'list', 'trampoline', 'callee list']);
    const off = bench();
    done(off.core.setEnabled(false));
    expect(kinds(done(off.core.register(off.ops('a', 'f'))))).toEqual(['object', 'list', 'trampoline']);
    expect([off.machine.trampolines.size, off.machine.sites.size]).toEqual([1, 0]);
  });

  test('T-X86-32: where sites stay compiled calls nothing is built, allocated or written', () => {
    const results = [false, true].map((patchable) => {
      const made = bench('x86-64', {}, { patchable });
      const steps = code(done(made.core.register(made.ops('a', 'f'))));
      return [steps.includes('site'), steps.includes('trampoline'), made.machine.planned.size];
    });
    expect(results).toEqual([
      [false, false, 0],
      [true, true, 1],
    ]);
  });

  test('T-X86-40: the second ops on a function expects the first one’s trampoline; the ops being added is not it', () => {
    const made = bench();
    const [a, b] = [made.ops('a', 'f'), made.ops('b', 'f')];
    done(made.core.register(a));
    const site = done(made.core.register(b)).find((step) => step.kind === 'site');
    expect(site?.kind === 'site' && [site.before, site.after.kind]).toMatchObject([
      { kind: 'trampoline', ops: a },
      'caller',
    ]);
    done(made.core.unregister(b));
    expect(made.machine.content(made.core.records[0]!)).toMatchObject({ kind: 'trampoline', ops: a });
    // By its old hashes while it is modified.
    done(made.core.setFilter(a, 'filter', 'g'));
    expect([runs(made, 'f'), runs(made, 'g')]).toEqual([[], ['a']]);
  });

  test('T-X86-43: DELETED: EINVAL, nothing is built, the list is as it was', () => {
    const made = bench();
    const a = made.ops('a', 'f');
    done(made.core.destroy(a));
    expect(errno(made.core.register(a))).toBe('EINVAL');
    expect([made.machine.planned.size, made.machine.log.length, made.core.state.list.length]).toEqual([0, 0, 0]);
  });

  test('T-X86-44: SAVE_REGS changed between registrations: rebuilt; the code of 2014 corrupts the copy', () => {
    for (const template of ['ours', '2014'] as const) {
      const quirks = { callOps: 'ours', moduleCallOps: 'ours', template } as const;
      const made = bench('x86-64', { quirks });
      const a = made.ops('a', 'f');
      done(made.core.register(a));
      const old = [...made.machine.trampolines.keys()];
      done(made.core.unregister(a));
      a.set('SAVE_REGS');
      done(made.core.register(a));
      const events = made.machine.run(made.core.records[0]!);
      const same = [...made.machine.trampolines.keys()][0] === old[0];
      expect([template, same, events.some((event) => event.kind === 'trap')]).toEqual([
        template,
        template === '2014',
        template === '2014',
      ]);
      if (template === 'ours') expect(events).toMatchObject([{ ops: 'a', regs: true }]);
    }
  });
});

describe('register and its errors', () => {
  test('C-REG-1: order: dead, DELETED, ENABLED, SAVE_REGS, PERMANENT', () => {
    const made = bench('ppc64-elfv1');
    const { core, ops } = made;
    const all = ops('a', 'f', { flags: ['SAVE_REGS', 'PERMANENT'] });
    done(core.setEnabled(false));
    expect(errno(core.register(all))).toBe('EINVAL');
    all.clear('SAVE_REGS');
    expect(errno(core.register(all))).toBe('EBUSY');
    done(core.setEnabled(true));
    done(core.register(all));
    expect(errno(core.register(all))).toBe('EBUSY');
    all.set('DELETED');
    expect(errno(core.register(all))).toBe('EINVAL');
    expect(errno(core.unregister(ops('b', 'f')))).toBe('EBUSY');
    made.machine.onCheck = () => ({ kind: 'failed', errno: 'EPERM', reason: 'no' });
    expect(core.register(ops('c', 'f')).kind).toBe('failed');
    expect(errno(core.register(all))).toBe('ENODEV');
  });

  test('C-REG-3: off writes nops and keeps what is wanted, on brings it back; not while something is permanent', () => {
    const made = bench();
    const { core, machine } = made;
    done(core.register(made.ops('a', 'f', { flags: ['SAVE_REGS'] })));
    done(core.setEnabled(false));
    const site = core.records[0]!;
    expect([machine.sites.size, machine.callees.plain.kind, site.count]).toEqual([0, 'stub', 1]);
    expect([site.has(REC.REGS), site.has(REC.REGS_EN), site.has(REC.ENABLED)]).toEqual([true, false, false]);
    done(core.setEnabled(true));
    expect(runs(made, 'f')).toEqual(['a']);
    done(core.register(made.ops('p', 'g', { flags: ['PERMANENT'] })));
    expect(errno(core.setEnabled(false))).toBe('EBUSY');
    expect([core.state.enabled, runs(made, 'g')]).toEqual([true, ['p']]);
  });

  test('C-REG-2: a function in both filters is not written; ops that share a filter move together', () => {
    const made = bench('ppc32');
    const { core } = made;
    const pair = core.createPair();
    const a = made.ops('a', null, { pair });
    const b = made.ops('b', null, { pair });
    done(core.setFilter(pair, 'filter', 'f g'));
    done(core.register(a));
    done(core.register(b));
    const steps = done(core.setFilter(pair, 'filter', 'g h'));
    expect(steps.flatMap((step) => (step.kind === 'site' ? [step.site.name] : []))).toEqual(['f', 'h']);
    expect(['f', 'g', 'h'].map((name) => runs(made, name))).toEqual([[], ['b', 'a'], ['b', 'a']]);
  });
});

describe('IPMODIFY', () => {
  const modify = { flags: ['IPMODIFY', 'SAVE_REGS'] } as const;

  test('C-IPM-1, C-IPM-5: a second one on a function is EBUSY, the flags of the walk are undone, no text changes', () => {
    const made = bench();
    const { core } = made;
    done(core.register(made.ops('a', 'g', modify)));
    const written = made.machine.log.length;
    expect(errno(core.register(made.ops('b', 'f g', modify)))).toBe('EBUSY');
    expect(core.records.map((site) => site.has(REC.IPMODIFY))).toEqual([false, true, false]);
    expect([made.machine.log.length, core.state.list.length]).toEqual([written, 1]);
    expect(made.machine.planned.size).toBe(1);
  });

  test('C-IPM-2: everything is EINVAL, at registration and later', () => {
    const { core, ops } = bench();
    expect(errno(core.register(ops('a', null, modify)))).toBe('EINVAL');
    const b = ops('b', 'f', modify);
    done(core.register(b));
    expect(errno(core.setHash(b, 'filter', null))).toBe('EINVAL');
    done(core.setFilter(b, 'filter', 'g'));
    expect(core.records.map((site) => site.has(REC.IPMODIFY))).toEqual([false, true, false]);
    done(core.unregister(b));
    expect(core.records[1]!.flags >>> 0).toBe((REC.TOUCHED | REC.MODIFIED) >>> 0);
  });

  test('C-IPM-3: with DIRECT on one ops it is EINVAL', () => {
    const { core, ops } = bench();
    expect(errno(core.registerDirect(ops('a', 'f', { func: 0n, flags: ['IPMODIFY'] }), 9n))).toBe('EINVAL');
    expect(errno(core.register(ops('b', 'f', { flags: ['DIRECT'] })))).toBe('EINVAL');
  });

  test('C-IPM-4: without a word between them direct and IPMODIFY exclude each other in both orders', () => {
    const { core, ops } = bench();
    const [d, i] = [ops('d', 'f', { func: 0n }), ops('i', 'f', modify)];
    done(core.registerDirect(d, 9n));
    expect(errno(core.register(i))).toBe('EBUSY');
    done(core.unregisterDirect(d, 9n));
    done(core.register(i));
    expect(errno(core.registerDirect(d, 9n))).toBe('EBUSY');
    expect(errno(core.registerDirectAt(0x1004n, 9n))).toBe('EBUSY');
    expect(core.state.direct.size).toBe(0);
  });

  test('C-IPM-4: with negotiation: SELF, PEER, and the peer hears of the end; a refusal is the result, and peers that agreed hear of it', () => {
    const heard: string[] = [];
    let answer: ReturnType<Negotiation> = 0;
    const made = bench();
    const { core, ops } = made;
    const negotiate: Negotiation = (command, site) => {
      heard.push(`${command} ${site.name}`);
      return site.name === 'g' ? answer : 0;
    };
    const d = ops('d', 'f g', { func: 0n, negotiate });
    const i = ops('i', 'f g', modify);
    done(core.registerDirect(d, 9n));
    answer = 'EPERM';
    expect(errno(core.register(i))).toBe('EPERM');
    expect(heard.splice(0)).toEqual(['enable-share-peer f', 'enable-share-peer g', 'disable-share-peer f']);
    answer = 0;
    done(core.register(i));
    expect(heard.splice(0)).toEqual(['enable-share-peer f', 'enable-share-peer g']);
    expect(runs(made, 'f')).toEqual(['i', 'direct 9']);
    done(core.setFilter(i, 'filter', 'f'));
    done(core.unregister(i));
    expect(heard.splice(0)).toEqual(['disable-share-peer g', 'disable-share-peer f']);
    done(core.unregisterDirect(d, 9n));
    done(core.register(i));
    done(core.registerDirect(d, 9n));
    expect(heard).toEqual(['enable-share-self f']);
  });

  test('T-RV-15, T-RV-16, T-RV-13: shared on RISC-V: both run, in both orders of the list, the direct caller last', () => {
    for (const first of ['d', 'i'] as const) {
      const made = bench('riscv64');
      const d = made.ops('d', 'f', { func: 0n, negotiate: () => 0 });
      const i = made.ops('i', 'f', modify);
      const steps = [() => made.core.registerDirect(d, 9n), () => made.core.register(i)];
      for (const step of first === 'd' ? steps : steps.reverse()) done(step());
      expect(runs(made, 'f')).toEqual(['i', 'direct 9']);
    }
  });
});

describe('direct calls', () => {
  test('C-DIR-4: errors of register in their order', () => {
    const made = bench();
    const { core, ops, machine } = made;
    const direct = (ops: Ops): string => errno(core.registerDirect(ops, 9n));
    expect(direct(ops('with function', 'f'))).toBe('EINVAL');
    expect(direct(ops('with trampoline', 'f', { func: 0n, trampoline: 0xeeen }))).toBe('EINVAL');
    expect(direct(ops('without filter', null, { func: 0n }))).toBe('EINVAL');
    const empty = ops('empty', 'f', { func: 0n });
    done(core.setHash(empty, 'filter', null));
    expect(direct(empty)).toBe('EINVAL');
    const d = ops('d', 'f', { func: 0n });
    expect(direct(d)).toBe('done');
    expect(direct(d)).toBe('EINVAL');
    expect(direct(ops('second', 'f g', { func: 0n }))).toBe('EBUSY');
    expect([...core.state.direct.keys()].map((site) => site.name)).toEqual(['f']);
    machine.directRoom = 0;
    expect(direct(ops('third', 'g', { func: 0n }))).toBe('ENOMEM');
    expect(errno(core.setFilter(d, 'filter', 'g'))).toBe('EINVAL');
    expect(errno(core.unregister(d))).toBe('EINVAL');
  });

  test('C-DIR-4: unregister and modify: no direct caller EINVAL, not registered EINVAL; only entries of that value go', () => {
    const { core, ops } = bench();
    const plain = ops('plain', 'f');
    done(core.register(plain));
    const d = ops('d', 'g', { func: 0n });
    expect([errno(core.unregisterDirect(plain, 9n)), errno(core.modifyDirect(plain, 9n))]).toEqual([
      'EINVAL',
      'EINVAL',
    ]);
    expect([errno(core.unregisterDirect(d, 9n)), errno(core.modifyDirect(d, 9n))]).toEqual(['EINVAL', 'EINVAL']);
    done(core.registerDirect(d, 9n));
    done(core.unregisterDirect(d, 8n));
    expect(core.state.direct.size).toBe(1);
    expect([d.func, d.trampoline, d.has('DIRECT')]).toEqual([0n, null, false]);
    // What stays in the table keeps its place taken.
    expect(errno(core.registerDirect(d, 9n))).toBe('EBUSY');
  });

  test('C-DIR-3, T-RV-1: ENODEV without a register entry where one is needed, and where nothing can', () => {
    const without = bench('riscv64', {}, { regs: 'none' });
    expect(errno(without.core.registerDirect(without.ops('d', 'f', { func: 0n }), 9n))).toBe('ENODEV');
    const none = bench('arm64 regs');
    expect(errno(none.core.registerDirectAt(0x1004n, 9n))).toBe('ENODEV');
  });

  test('C-DIR-5: by address: errors, one ops for all, registered with the first and gone with the last', () => {
    const made = bench();
    const { core } = made;
    expect(errno(core.registerDirectAt(0x7777n, 9n))).toBe('ENODEV');
    done(core.registerDirectAt(0x1000n, 9n));
    done(core.registerDirectAt(0x2004n, 8n));
    expect(errno(core.registerDirectAt(0x1004n, 7n))).toBe('EBUSY');
    expect(core.state.list).toHaveLength(1);
    expect([runs(made, 'f'), runs(made, 'g')]).toEqual([['direct 9'], ['direct 8']]);
    expect(errno(core.modifyDirectAt(0x3004n, 9n, 7n))).toBe('ENODEV');
    expect(errno(core.modifyDirectAt(0x1004n, 8n, 7n))).toBe('EINVAL');
    done(core.modifyDirectAt(0x1004n, 9n, 7n));
    expect(runs(made, 'f')).toEqual(['direct 7']);
    expect(errno(core.unregisterDirectAt(0x3004n))).toBe('ENODEV');
    done(core.unregisterDirectAt(0x1004n));
    done(core.unregisterDirectAt(0x2004n));
    expect([core.state.list.length, core.state.direct.size]).toEqual([0, 0]);
    expect(made.machine.sites.size).toBe(0);
    done(core.registerDirectAt(0x1004n, 9n));
    expect(runs(made, 'f')).toEqual(['direct 9']);
  });

  test('C-DIR-6, T-RV-3: every store to the site: call old, the register entry, call new; never a nop', () => {
    for (const name of ['x86-64', 'riscv64', 'riscv64 merged', 'arm64'] as const) {
      const made = bench(name);
      const d = made.ops('d', 'f g h', { func: 0n });
      done(made.core.registerDirect(d, 9n));
      const steps = done(made.core.modifyDirect(d, 8n));
      const entry = profiles[name].regs === 'separate' ? 'regs-caller' : 'caller';
      for (const site of made.core.records) {
        const stores = steps.flatMap((step) => (step.kind === 'site' && step.site === site ? [step.after] : []));
        expect(stores).toMatchObject([{ kind: entry }, { kind: 'direct', address: 8n }]);
      }
      expect(made.core.state.list.map((ops) => ops.name)).toEqual(['d']);
      expect(runs(made, 'g')).toEqual(['direct 8']);
      // The twin: taken out and put in again, there is a moment without.
      const gone = [done(made.core.unregisterDirect(d, 8n)), done(made.core.registerDirect(d, 7n))].flat();
      const [first] = made.core.records;
      const after = gone.flatMap((step) => (step.kind === 'site' && step.site === first ? [step.after.kind] : []));
      expect(after).toEqual(['nop', 'direct']);
    }
  });

  test('C-DIR-7, T-RV-2, T-RV-4: alone it is called straight; with others after the list', () => {
    const made = bench('riscv64');
    const d = made.ops('d', 'f g h', { func: 0n });
    done(made.core.registerDirect(d, 9n));
    expect(made.core.records.map((site) => made.machine.content(site).kind)).toEqual(['direct', 'direct', 'direct']);
    const s = made.ops('s', 'g');
    done(made.core.register(s));
    expect([runs(made, 'f'), runs(made, 'g')]).toEqual([['direct 9'], ['s', 'direct 9']]);
    done(made.core.unregister(s));
    expect(made.machine.content(made.core.records[1]!)).toMatchObject({ kind: 'direct', address: 9n });
  });

  test('C-Q-3: the table is freed after a wait for tasks, hashes after one for readers', () => {
    const { core, ops } = bench();
    const d = ops('d', 'f', { func: 0n });
    done(core.registerDirect(d, 9n));
    const waits = (steps: readonly Step[]): string[] =>
      steps.flatMap((step) => (step.kind === 'quiesce' ? [step.grace] : []));
    expect(waits(done(core.unregisterDirect(d, 9n)))).toEqual(['tasks']);
    const s = ops('s', 'f');
    done(core.register(s));
    expect(waits(done(core.setFilter(s, 'filter', 'g')))).toEqual(['read']);
  });
});

describe('graph', () => {
  const user = (name: string): GraphUser => new GraphUser(name, { entry: 1n, return: 2n });

  test('T-X86-4: alone the sites call its static entry, which is not ours to change', () => {
    const made = bench('x86-64 2014', { trampolines: '2014', graph: '2014' });
    const tracer = made.core.createTracer({ name: 'function', func: 0x77n });
    done(made.core.registerGraph(user('graph')));
    expect(made.machine.content(made.core.records[0]!)).toMatchObject({ address: SYMBOLS.graphEntry });
    expect([tracer.has('ALLOC_TRAMP'), runs(made, 'f')]).toEqual([false, ['graph']]);
  });

  test('T-X86-33, T-X86-34, T-X86-35, T-X86-36, T-X86-37, C-FG-4: borrowing: STUB, save, clear, static entry; and back: shutdown, STUB, trampoline, ALLOC_TRAMP', () => {
    for (const withTrampoline of [true, false]) {
      const made = bench('x86-64 2014', { trampolines: withTrampoline ? '2014' : 'none', graph: '2014' });
      const { core } = made;
      const tracer = core.createTracer({ name: 'function', func: 0x77n });
      const graph = user('graph');
      done(core.register(tracer));
      expect(errno(core.registerGraph(graph))).toBe('EBUSY');
      done(core.unregister(tracer));
      const trampoline = tracer.trampoline;
      expect(trampoline !== null).toBe(withTrampoline);
      done(core.registerGraph(graph));
      expect(core.state.graph.saved!.flags & OPS_FLAGS.STUB).toBe(OPS_FLAGS.STUB);
      expect((core.state.graph.saved!.flags & OPS_FLAGS.ALLOC_TRAMP) !== 0).toBe(withTrampoline);
      expect([tracer.has('STUB'), tracer.has('ALLOC_TRAMP'), tracer.trampoline?.kind]).toEqual([true, false, 'graph']);
      expect(errno(core.register(tracer))).toBe('EBUSY');
      expect(errno(core.registerGraph(user('other')))).toBe('EBUSY');
      const steps = done(core.unregisterGraph(graph));
      const images = steps.flatMap((step) => (step.kind === 'object' && step.after !== null ? [step.after] : []));
      const story = images.map(({ flags, trampoline: address }) => [
        (flags & OPS_FLAGS.STUB) !== 0,
        address === SYMBOLS.graphEntry,
        (flags & OPS_FLAGS.ALLOC_TRAMP) !== 0,
      ]);
      expect(story).toEqual([
        [true, true, false],
        [false, true, false],
        [false, false, withTrampoline],
      ]);
      expect(kinds(steps).indexOf('site')).toBeLessThan(kinds(steps).indexOf('object'));
      expect(tracer.trampoline).toBe(trampoline);
      done(core.register(tracer));
      expect([made.machine.trampolines.size, runs(made, 'f')]).toEqual([withTrampoline ? 1 : 0, ['function']]);
    }
  });

  test('T-X86-26, C-FG-8: with another ops on the function both run; a function of the other alone is not graphed', () => {
    const made = bench('x86-64 2014', { trampolines: '2014', graph: '2014' });
    const { core } = made;
    core.createTracer({ name: 'function', func: 0x77n });
    done(core.setFilter(core.globalPair, 'filter', 'f g'));
    done(core.registerGraph(user('graph')));
    done(core.register(made.ops('s', 'g h')));
    expect(['f', 'g', 'h'].map((name) => runs(made, name))).toEqual([['graph'], ['s', 'graph'], ['s']]);
  });

  test('C-FG-6: the jump is switched after the sites; a graph tracer that is a callback has none', () => {
    const jump = bench('ppc32 2008', { graph: 'single' });
    const graph = user('graph');
    expect(code(done(jump.core.registerGraph(graph))).slice(-2)).toEqual(['site', 'graph-call']);
    expect(runs(jump, 'f')).toEqual(['graph']);
    const off = done(jump.core.setEnabled(false));
    expect(code(off).at(-1)).toBe('graph-call');
    done(jump.core.setEnabled(true));
    expect(code(done(jump.core.unregisterGraph(graph))).at(-1)).toBe('graph-call');
    const callback = bench('ppc32');
    expect(code(done(callback.core.registerGraph(user('graph'))))).not.toContain('graph-call');
  });

  test('C-FG-5: one user until 6.10 (EBUSY), then 16 behind one manager, the 17th ENOSPC; filters as union and intersection', () => {
    const single = bench('ppc32', { graph: 'single' });
    done(single.core.registerGraph(user('a')));
    expect(errno(single.core.registerGraph(user('b')))).toBe('EBUSY');
    const made = bench();
    const { core } = made;
    const users = Array.from({ length: 17 }, (_, index) => user(`u${index}`));
    for (const [index, each] of users.entries()) {
      done(core.setGraphFilter(each, 'filter', index % 2 === 0 ? 'f' : 'g'));
      done(core.setGraphFilter(each, 'notrace', index === 0 ? 'f h' : 'f'));
      expect(errno(core.registerGraph(each))).toBe(index < 16 ? 'done' : 'ENOSPC');
    }
    expect(errno(core.registerGraph(users[0]!))).toBe('EBUSY');
    const manager = core.state.graph.manager!;
    const names = (hash: Ops['pair']['filter']): string[] => [...(hash?.sites ?? [])].map((site) => site.name).sort();
    expect([names(manager.pair.filter), names(manager.pair.notrace)]).toEqual([['f', 'g'], ['f']]);
    expect([runs(made, 'f').length, runs(made, 'g').length, runs(made, 'h').length]).toEqual([0, 8, 0]);
    done(core.setGraphFilter(users[1]!, 'filter', ''));
    expect([manager.pair.filter, runs(made, 'h')]).toEqual([null, ['u1']]);
    done(core.unregisterGraph(users[3]!));
    done(core.registerGraph(users[16]!));
    expect(core.state.graph.users.indexOf(users[16]!)).toBe(3);
    for (const each of [...core.state.graph.users]) if (each !== null) done(core.unregisterGraph(each));
    expect([core.state.list.length, made.machine.sites.size]).toEqual([0, 0]);
    expect(errno(core.unregisterGraph(users[0]!))).toBe('EINVAL');
  });
});

describe('update runs and failures', () => {
  test('C-UPD-1: callee to the list, records, third argument, visible to all, callee, graph', () => {
    const made = bench('x86-64 2014', { trampolines: 'none', graph: '2014' });
    expect(code(done(made.core.register(made.ops('a', 'f'))))).toEqual([
      'callee list',
      'callee list',
      'site',
      // R-MOD-4: where the callee is a word of data nothing else orders the two.
      'sync',
      'trace-op',
      'sync',
      'callee function',
      'callee function',
    ]);
    expect(code(done(made.core.register(made.ops('b', 'g'))))).toEqual(['callee list', 'callee list', 'site']);
  });

  test('C-UPD-2, C-UPD-3, C-UPD-4: a mismatch, an unreadable site and a refused store: nothing is written, the core is dead', () => {
    const spoil: readonly ((made: Bench) => void)[] = [
      ({ machine, core }) => machine.foreign.set(core.records[1]!, Uint8Array.of(0xcc, 1, 2, 3, 4)),
      ({ machine, core }) => machine.foreign.set(core.records[1]!, 'fault'),
      ({ machine, core }) => {
        machine.onCheck = (step) =>
          step.kind === 'site' && step.site === core.records[1]
            ? { kind: 'failed', errno: 'EPERM', reason: 'read only' }
            : null;
      },
      ({ machine, core }) => {
        let armed = true;
        machine.onWrite = (step) => {
          if (!armed || step.kind !== 'site' || step.site !== core.records[1]) return null;
          armed = false;
          return { kind: 'failed', errno: 'EPERM', reason: 'the store was refused' };
        };
      },
    ];
    const expected = [
      ['EINVAL', 'mismatch'],
      ['EFAULT', 'read-fault'],
      ['EPERM', 'write-fault'],
      ['EPERM', 'write-fault'],
    ];
    spoil.forEach((each, index) => {
      const made = bench('ppc32');
      const { core, machine } = made;
      each(made);
      const a = made.ops('a', 'f g h');
      const outcome = core.register(a);
      expect(outcome.kind === 'failed' && [outcome.errno, outcome.report.kind]).toEqual(expected[index]);
      expect(machine.untouched).toBe(true);
      expect([core.records.map((site) => site.flags), a.has('ENABLED'), core.state.list.length]).toEqual([
        [0, 0, 0],
        false,
        0,
      ]);
      expect([core.dead !== null, core.state.callee.kind]).toEqual([true, 'stub']);
      const others: readonly (() => Outcome)[] = [
        () => core.register(a),
        () => core.unregister(a),
        () => core.setFilter(a, 'filter', 'f'),
        () => core.setEnabled(false),
        () => core.registerDirectAt(0x1004n, 9n),
        () => core.registerGraph(new GraphUser('g', { entry: 1n, return: 2n })),
        () => core.loadModule('m', []),
      ];
      for (const other of others)
        if (!(profiles.ppc32.direct === 'none' && other === others[4])) expect(errno(other())).toBe('ENODEV');
    });
  });

  test('C-UPD-3: the calls of the entries and the literals are verified before the first store', () => {
    const made = bench('ppc32');
    made.machine.callees.regs = { kind: 'function', address: 0x666n };
    const outcome = made.core.register(made.ops('a', 'f'));
    expect(outcome.kind === 'failed' && outcome.report.detail).toBe('ftrace_regs_call does not hold what is expected');
    expect(made.machine.log).toHaveLength(0);
    const arm = bench('arm64');
    arm.machine.literals.set(arm.core.records[1]!, { kind: 'list-ops' });
    const literal = arm.core.register(arm.ops('a', 'f g'));
    expect(literal.kind === 'failed' && [literal.errno, literal.report.symbol]).toEqual(['EINVAL', 'g+0x4']);
    expect(arm.machine.log).toHaveLength(0);
  });

  test('a step that cannot be expressed (out of reach) is refused, and nothing is dead', () => {
    const made = bench();
    made.machine.onCheck = (step) =>
      step.kind === 'site' && step.after.kind === 'direct'
        ? { kind: 'refused', errno: 'ERANGE', reason: 'too far' }
        : null;
    expect(errno(made.core.registerDirectAt(0x1004n, 9n))).toBe('ERANGE');
    expect([made.core.dead, made.machine.log.length, made.core.state.direct.size]).toEqual([null, 0, 0]);
  });

  test('C-REP-1: the report: kind, place, bytes, action, flags, trampolines, target, in this order', () => {
    const made = bench();
    const { core, machine } = made;
    const a = made.ops('a', 'f', { flags: ['SAVE_REGS'], func: 0x4440n });
    done(core.register(a));
    machine.foreign.set(core.records[0]!, Uint8Array.of(0xcc, 1, 2, 3, 4));
    const outcome = core.unregister(a);
    const report = outcome.kind === 'failed' ? formatReport(outcome.report) : '';
    expect(report.split('\n')).toEqual([
      'ftrace bug: content mismatch',
      ' ip: 0x1004 f+0x4',
      ' actual: cc:01:02:03:04',
      ' expected: e8:00:00:00:00',
      ' action: NOP',
      // ENABLED, REGS_EN, TRAMP_EN and TOUCHED of the text, nothing wanted any more.
      ' record flags: 0xa8100000 (0)',
      ' trampoline: 0x100000 (a) -> 0x4440',
      ' expected target: 0x100000 (trampoline of a)',
      ' cause: the site of f at 0x1004 does not hold what is expected',
    ]);
    const init = initReport({ kind: 'read-fault', ip: 0x9000n, symbol: 'x+0x0', module: 'm' });
    expect(formatReport(init)).toBe('ftrace bug: fault on reading\n ip: 0x9000 x+0x0 [m]\n action: INIT');
    expect(formatReport(initReport({ kind: 'unknown', ip: 0n, symbol: '' }))).toBe(
      'ftrace bug: unknown code\n ip: 0x0\n action: INIT',
    );
  });

  test('C-REP-1: a record without a place has no fields of a record', () => {
    const made = bench('ppc32');
    made.machine.callees.plain = { kind: 'list' };
    const outcome = made.core.register(made.ops('a', 'f'));
    expect(outcome.kind === 'failed' && formatReport(outcome.report)).toBe(
      'ftrace bug: content mismatch\n ip: 0x0\n cause: ftrace_call does not hold what is expected',
    );
  });

  test('C-REP-2: enabled_functions and touched_functions', () => {
    const made = bench();
    const { core } = made;
    const s = made.ops('s', 'g');
    done(core.registerDirectAt(0x1004n, 0x99n));
    done(core.register(s));
    done(core.register(made.ops('i', 'g', { flags: ['IPMODIFY', 'SAVE_REGS'] })));
    done(core.register(made.ops('t', 'h', { func: 0x4440n })));
    done(core.loadModule('mod', [{ ip: 0x9000n, name: 'x' }]));
    done(core.setFilter(s, 'filter', 'x'));
    expect(formatFunctions(core.enabledFunctions())).toBe(
      [
        'f (1) R   D   M\ttramp: 0x4e (direct callers by address) ->directHelper',
        '\tdirect-->0x99',
        `g (1) R I     M\ttramp: 0x100100 (i) ->0x120`,
        'h (1)          \ttramp: 0x100200 (t) ->0x4440',
        'x [mod] (1)          \ttramp: 0x100000 (s) ->0x110',
        '',
      ].join('\n'),
    );
    done(core.unregisterDirectAt(0x1004n));
    expect(core.enabledFunctions().map((each) => each.name)).toEqual(['g', 'h', 'x']);
    expect(core.touchedFunctions().map((each) => [each.name, each.modified])).toEqual([
      ['f', true],
      ['g', true],
      ['h', false],
      ['x', false],
    ]);
    const arm = bench('arm64');
    done(arm.core.register(arm.ops('a', 'f')));
    expect(formatFunctions(arm.core.enabledFunctions())).toContain('f (1)       O  \t->');
    expect(formatFunctions(arm.core.enabledFunctions())).toContain('\tops: a');
  });
});
