/**
 * Rules of the core executed on images of every target and convention: the outcome table C-OUT-1,
 * every prefix of the stores of every kind of operation (C-UPD), the report of a failure (C-REP-1)
 * and what is dead after it (C-UPD-4), and the errors of the direct calls in both generations
 * (C-DIR-4, C-DIR-5).
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { ByteView } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import {
  equalContents,
  formatReport,
  GraphUser,
  type Content,
  type Ops,
  type Outcome,
  REC,
  type Step,
} from '../src/ftrace/index.js';
import { planSites } from '../src/patch/plan-sites.js';
import { planSession } from '../src/tracing/session-plan.js';
import { opsSlots } from '../src/tracing/trampolines.js';
import { OPS_WORD_COUNT } from '../src/runtime/abi.js';
import {
  expectedFlags,
  expectedText,
  inapplicable,
  type Kind,
  type Row,
  rows,
  tableOf,
  titleOf,
} from './support/outcome-rows.js';
import {
  type CallLog,
  type GeneratedCase,
  generatedCases,
  generatedImage,
  GeneratedMachine,
  generatedTools,
  generateFunctions,
  REPLACEMENT,
  TAIL_SEED,
} from './support/generated-image.js';
import { covering, firstOf, isLong, isWhole, sampled } from './support/long.js';
import { describeWith } from './support/tools.js';

const functions = generateFunctions(1);
const machineOf = (each: GeneratedCase, policy = {}): GeneratedMachine =>
  new GeneratedMachine(each, functions, generatedImage(each), policy);
const done = (outcome: Outcome): readonly Step[] => {
  expect(outcome).toMatchObject({ kind: 'done' });
  return outcome.kind === 'done' ? outcome.steps : [];
};
const executed = new Map<string, Set<string>>();
/** Prefixes of one convention of each target; those of the others are left to the whole tables. */
const first = firstOf(generatedCases, ({ target }) => target);
/** Every table of rows is executed; the rest, of conventions that have one in common, on one. */
const some = covering(
  generatedCases,
  ({ target }) => target,
  ({ graph, trampolines }) => `${graph} ${trampolines}`,
);
/** On which the rows themselves are executed. */
const executing = sampled(generatedCases, 2);
const someDirect = isLong ? covering(generatedCases, ({ profile }) => profile) : some;

/** What ran in a call, without order. */
function ran({ events }: CallLog): string[] {
  return events
    .map((event) =>
      event.kind === 'callback'
        ? `${event.ops ?? 'nobody'}@${event.at}`
        : event.kind === 'graph'
          ? `graph@${event.at}`
          : 'direct',
    )
    .sort();
}

/** Ops of the kinds that rows name, on `f0`; direct callers are `old`, or `next` after a change. */
function attachedTo(made: GeneratedMachine, old: bigint, next: bigint) {
  const { core } = made.session;
  const ops = new Map<Kind, Ops>();
  const add = (kind: Kind): readonly Step[] => {
    const one = core.createOps({
      name: kind,
      func: kind === 'D' ? 0n : made.callbacks[ops.size]!,
      flags: [
        ...(kind === 'R' || kind === 'TR' ? (['SAVE_REGS'] as const) : []),
        ...(kind.startsWith('T') || kind === 'D' ? [] : (['DYNAMIC'] as const)),
      ],
    });
    ops.set(kind, one);
    done(core.setFilter(one, 'filter', 'f0'));
    return done(kind === 'D' ? core.registerDirect(one, old) : core.register(one));
  };
  const remove = (kind: Kind): readonly Step[] => {
    const one = ops.get(kind)!;
    const steps = done(kind === 'D' ? core.unregisterDirect(one, one.directCall) : core.unregister(one));
    ops.delete(kind);
    // What is not attached any more does not run, and one of its name may come again.
    done(core.destroy(one));
    return steps;
  };
  const text = (content: Content): string => {
    if (content.kind === 'regs-caller') return 'regs';
    if (content.kind === 'direct') return content.address === next ? 'new' : 'direct';
    if (content.kind === 'trampoline') return [...ops].find(([, one]) => one === content.ops)?.[0] ?? 'other';
    return content.kind;
  };
  return { ops, add, remove, text };
}

/**
 * Runs every function at each prefix of the stores of an operation: those run who ran before or run
 * after it, and those who do both run in between.
 */
function prefixesOf(made: GeneratedMachine, callers: readonly bigint[]) {
  const { core } = made.session;
  const names = (): string[] =>
    core.records.map(({ name }) => name).filter((name) => made.functions.some((one) => one.name === name));
  const observe = (): Map<string, CallLog> => new Map(names().map((name) => [name, made.call(name, 7n)]));
  const counts = { prefixes: 0, operations: 0 };
  // What the last operation left is what the next one finds.
  let before = observe();
  const step = (title: string, act: () => Outcome): void => {
    const between: Map<string, CallLog>[] = [];
    let pending = true;
    made.onStore = () => {
      // Called before each store: what is there now is a prefix.
      if (pending) pending = false;
      else between.push(observe());
      return true;
    };
    const outcome = act();
    made.onStore = null;
    expect([title, outcome]).toEqual([title, expect.objectContaining({ kind: 'done' })]);
    const after = observe();
    counts.operations++;
    for (const now of between) {
      counts.prefixes++;
      for (const [name, log] of now) {
        const [old, next] = [before.get(name), after.get(name)];
        // A module that comes or goes is called by nobody meanwhile.
        if (old === undefined || next === undefined) continue;
        const [keys, oldKeys, nextKeys] = [log, old, next].map((each) => new Set(ran(each)));
        const wrong = [...keys!].filter((key) => !oldKeys!.has(key) && !nextKeys!.has(key));
        const missing = [...oldKeys!].filter((key) => nextKeys!.has(key) && !keys!.has(key));
        expect([title, name, counts.prefixes, wrong, missing]).toEqual([title, name, counts.prefixes, [], []]);
        expect([old.result, next.result]).toContain(log.result);
        expect(log.returns).toHaveLength(log.events.filter(({ kind }) => kind === 'graph').length);
        for (const event of log.events) if (event.kind === 'direct') expect(callers).toContain(event.address);
      }
    }
    before = after;
  };
  return { observe, step, counts };
}

/** What direct callers do, alone and beside `other`, which is out for a while. */
function directSteps(
  { session: { core } }: GeneratedMachine,
  step: ReturnType<typeof prefixesOf>['step'],
  other: Ops,
  [a, b]: readonly [bigint, bigint],
): void {
  const one = core.createOps({ name: 'd', func: 0n });
  done(core.setFilter(one, 'filter', 'f4 f0'));
  step('a direct caller, alone and beside another', () => core.registerDirect(one, a));
  step('another direct caller', () => core.modifyDirect(one, b));
  step('without the other', () => core.unregister(other));
  step('another direct caller, alone', () => core.modifyDirect(one, a));
  step('no direct caller', () => core.unregisterDirect(one, a));
  step('again', () => core.register(other));
}

/** Users of the graph tracer: 16 that are registered, and one more. */
function sixteenUsers(made: GeneratedMachine): readonly GraphUser[] {
  const { core } = made.session;
  const users = Array.from(
    { length: 17 },
    (_, index) => new GraphUser(`g${index}`, index === 0 ? { entry: 0n, return: 0n } : made.graphCallbacks),
  );
  users.slice(0, 16).forEach((user, index) => {
    // f3 calls one of f0 to f2: an odd user takes the outer function, the third ones leave it
    // out.
    if (index % 2 === 1) done(core.setGraphFilter(user, 'filter', 'f3 f4'));
    if (index % 3 === 0) done(core.setGraphFilter(user, 'notrace', 'f3'));
    done(core.registerGraph(user));
  });
  return users;
}

/** Who hears of a call of `f3` and of what it calls: users but those that are gone or refuse. */
function heardBy(
  users: readonly GraphUser[],
  called: string,
  refused: readonly string[],
  gone: readonly number[],
): { events: string[]; returns: string[] } {
  const takes = (index: number, name: string): boolean => (name === 'f3' ? index % 3 !== 0 : index % 2 === 0);
  const of = (name: string): string[] =>
    users.flatMap((user, index) =>
      takes(index, name) && !gone.includes(index) && !refused.includes(`${user.name} ${name}`)
        ? [`${user.name} ${name}`]
        : [],
    );
  return { events: [...of('f3'), ...of(called)], returns: [...of(called), ...of('f3')] };
}

function refused(outcome: Outcome, errno: string): void {
  expect([outcome.kind, outcome.kind === 'refused' && outcome.errno]).toEqual(['refused', errno]);
}

/** Ops that put another function in the place of one. */
function livepatchOf({ session }: GeneratedMachine, filter: string): Ops {
  const func = session.functionAddress('elftrace_livepatch')!;
  const flags = ['IPMODIFY', 'SAVE_REGS_IF_SUPPORTED'] as const;
  const ops = session.core.createOps({ name: 'livepatch', func, flags });
  done(session.core.setFilter(ops, 'filter', filter));
  return ops;
}

/** Where a convention has no direct calls each of them is ENODEV, and nothing is written. */
function noDirectCalls(made: GeneratedMachine, ops: Ops, ip: bigint, [a, b]: readonly [bigint, bigint]): void {
  const { core } = made.session;
  let stored = 0;
  made.onStore = () => ++stored > 0;
  refused(core.registerDirect(ops, a), 'ENODEV');
  refused(core.unregisterDirect(ops, a), 'ENODEV');
  refused(core.modifyDirect(ops, b), 'ENODEV');
  refused(core.registerDirectAt(ip, a), 'ENODEV');
  refused(core.unregisterDirectAt(ip), 'ENODEV');
  refused(core.modifyDirectAt(ip, a, b), 'ENODEV');
  expect(stored).toBe(0);
}

describeWith(generatedTools, 'executed on images', () => {
  describe.each(executing)('$name', (each) => {
    test('C-OUT-1, C-TGT-2: every row that occurs: the text goes from what is expected to what is written, and those run who are attached', () => {
      // Kinds without a trampoline are ops that may not have one.
      const made = machineOf(each, each.trampolines === 'none' ? {} : { trampolines: '2014' });
      const { core, backend } = made.session;
      const [old, next] = ['direct_a', 'direct_b'].map((name) => made.session.functionAddress(name) ?? 0n);
      const site = core.records.find(({ name }) => name === 'f0')!;
      const { result } = made.call('f0', 5n);
      const found = new Set<string>();
      for (const row of rows) {
        if (inapplicable(row, each.profile) !== null) continue;
        const { ops, add, remove, text } = attachedTo(made, old!, next!);
        for (const kind of row.attached) add(kind);
        const before = backend.read({ kind: 'site', site });
        const kind = row.action.slice(1) as Kind;
        const first = before.kind === 'site' ? text(before.content) : before.kind;
        const steps =
          row.action === 'modify'
            ? done(core.modifyDirect(ops.get('D')!, next!))
            : row.action.startsWith('+')
              ? add(kind)
              : remove(kind);
        const stores = steps.filter(
          (step): step is Extract<Step, { kind: 'site' }> => step.kind === 'site' && step.site === site,
        );
        expect([titleOf(row), first, ...stores.map(({ after }) => text(after))]).toEqual([
          titleOf(row),
          ...expectedText(row, each.profile),
        ]);
        const flags = (['REGS', 'TRAMP', 'DIRECT'] as const).filter((flag) => site.has(REC[flag])).sort();
        expect([titleOf(row), site.count, flags]).toEqual([titleOf(row), row.count, expectedFlags(row, each.profile)]);
        const now = backend.read({ kind: 'site', site });
        const last = stores.at(-1)?.after;
        if (last !== undefined) expect(now.kind === 'site' && equalContents(now.content, last)).toBe(true);
        const log = made.call('f0', 5n);
        expect([titleOf(row), ran(log), log.result]).toEqual([
          titleOf(row),
          [...ops.keys()].map((one) => (one === 'D' ? 'direct' : `${one}@f0`)).sort(),
          result,
        ]);
        const called = log.events.find((event) => event.kind === 'direct');
        if (called !== undefined) expect(called).toMatchObject({ address: row.action === 'modify' ? next : old });
        for (const event of log.events) {
          // Whoever wants registers gets a frame.
          if (event.kind === 'callback' && (event.ops === 'R' || event.ops === 'TR')) expect(event.regs).toBe(true);
        }
        for (const one of [...ops.keys()]) remove(one);
        expect(made.call('f0', 5n)).toEqual({ events: [], returns: [], result });
        found.add(titleOf(row));
      }
      done(core.reclaim());
      expect(made.leftovers()).toEqual([]);
      executed.set(each.name, found);
    });

    if (isWhole || first.has(each) || each.name === 'x86-64 far')
      test('C-UPD-1 C-UPD-3: at every prefix of the stores of every kind of operation, the image is right', () => {
        const made = machineOf(each);
        const { core } = made.session;
        const [a, b] = ['direct_a', 'direct_b'].map((name) => made.session.functionAddress(name));
        const tracer = each.graph === '2014' ? core.createTracer({ name: 'tracer', func: made.callbacks[7]! }) : null;
        done(made.session.loadModule('m0'));
        const { observe, step, counts } = prefixesOf(made, [a!, b!]);
        const plain = observe();
        const { regs, direct, resume } = core.state.backend.capabilities;
        const make = (name: string, index: number, flags: readonly ('SAVE_REGS' | 'DYNAMIC' | 'RECURSION' | 'RCU' | 'IPMODIFY' | 'SAVE_REGS_IF_SUPPORTED')[], func = made.callbacks[index]!): Ops =>
        core.createOps({ name, func, flags, data: made.session.pointerTo('replacement')! }); // prettier-ignore
        const [s, t, r] = [
          make('s', 0, []),
          make('t', 1, ['DYNAMIC']),
          make('r', 2, regs === 'none' ? ['RECURSION'] : ['SAVE_REGS']),
        ];
        done(core.setFilter(s, 'filter', 'f0 f1 a0'));
        done(core.setFilter(t, 'filter', 'f1 f3'));
        step('register', () => core.register(s));
        step('a second on another function and one in common', () => core.register(t));
        step('one that wants registers, everywhere', () => core.register(r));
        step('its function', () => core.setFunction(r, made.callbacks[3]!));
        step('a filter of an enabled ops', () => core.setFilter(s, 'filter', 'f0 f2 f3'));
        step('notrace', () => core.setFilter(r, 'notrace', 'f4'));
        const user = new GraphUser('g0', { entry: 0n, return: 0n });
        if (tracer !== null) done(core.setFilter(tracer, 'filter', 'f1 f3'));
        step('graph', () => core.registerGraph(user));
        if (each.graph === 'multi') step('filter of the graph', () => core.setGraphFilter(user, 'filter', 'f1 f3'));
        step('off', () => core.setEnabled(false));
        step('on', () => core.setEnabled(true));
        step('a module goes', () => made.session.unloadModule('m0'));
        step('a module comes', () => made.session.loadModule('m0'));
        step('out', () => core.unregister(r));
        const own = make(
          'own',
          0,
          resume === 'none' ? [] : ['IPMODIFY', 'SAVE_REGS_IF_SUPPORTED'],
          made.session.functionAddress('elftrace_livepatch') ?? made.callbacks[4]!,
        );
        done(core.setFilter(own, 'filter', 'f2'));
        step('a function in place of another', () => core.register(own));
        if (resume !== 'none')
          expect(made.call('f2', 7n).result).toBe(7n * BigInt(REPLACEMENT.factor) + BigInt(REPLACEMENT.offset));
        step('and back', () => core.unregister(own));
        expect(made.call('f2', 7n).result).toBe(plain.get('f2')!.result);
        if (direct !== 'none') directSteps(made, step, s, [a!, b!]);
        step('no graph', () => core.unregisterGraph(user));
        step('out, the one that may be freed', () => core.unregister(t));
        step('the last one out', () => core.unregister(s));
        if (tracer !== null) done(core.setFilter(tracer, 'filter', ''));
        done(core.reclaim());
        expect([...observe()]).toEqual([...plain]);
        expect(made.leftovers()).toEqual([]);
        process.stdout.write(
          `image-rules: ${each.name}: ${counts.operations} operations, ${counts.prefixes} prefixes run\n`,
        );
        expect(counts.prefixes).toBeGreaterThan(60);
      });
  });

  describe.each(some)('$name', (each) => {
    test('C-MOD-1 C-MOD-2 C-TGT-2: a module that went with whatever its sites called comes again with nops', () => {
      const made = machineOf(each);
      const { core } = made.session;
      const direct = made.session.functionAddress('direct_b')!;
      const ops = core.createOps({ name: 'one', func: made.callbacks[0]!, flags: ['DYNAMIC'] });
      const ways: readonly (readonly [string, (ip: bigint) => Outcome, () => Outcome])[] = [
        [
          'ops',
          () => {
            done(core.setFilter(ops, 'filter', 'a0'));
            return core.register(ops);
          },
          () => core.unregister(ops),
        ],
        ['direct', (ip) => core.registerDirectAt(ip, direct), () => core.reclaim()],
      ];
      const refused: string[] = [];
      for (const [way, attach, takeOut] of ways) {
        done(made.session.loadModule('m0'));
        const plain = made.call('a0', 3n);
        expect(plain.events).toEqual([]);
        const { ip } = core.records.find(({ name }) => name === 'a0')!;
        const attached = attach(ip);
        if (attached.kind === 'refused') {
          refused.push(`${way}: ${attached.errno}`);
          done(made.session.unloadModule('m0'));
          continue;
        }
        expect(made.call('a0', 3n).events).toHaveLength(1);
        done(made.session.unloadModule('m0'));
        done(takeOut());
        done(made.session.loadModule('m0'));
        expect([way, made.call('a0', 3n)]).toEqual([way, plain]);
        done(made.session.unloadModule('m0'));
      }
      const { direct: served, callOps } = core.state.backend.capabilities;
      expect([each.name, refused]).toEqual([each.name, served === 'none' || callOps ? ['direct: ENODEV'] : []]);
    });
  });

  describe.each(some.filter(({ graph }) => graph === 'multi'))('$name: users of the graph tracer', (each) => {
    test('C-FG-1 C-FG-2 C-FG-5: sixteen users of one tracer, each with hashes of its own; who wants a function hears of its return; the next is ENOSPC', () => {
      const made = machineOf(each);
      const { core } = made.session;
      const users = sixteenUsers(made);
      expect(core.registerGraph(users[16]!)).toMatchObject({ kind: 'refused', errno: 'ENOSPC' });
      const { calls } = made.functions.find(({ name }) => name === 'f3')!;
      const plain = machineOf(each).call('f3', 4n).result;
      const expected = (refused: readonly string[], gone: readonly number[] = []): ReturnType<typeof heardBy> =>
        heardBy(users.slice(0, 16), calls!, refused, gone);
      const seen = (): { events: string[]; returns: readonly string[] } => {
        const log = made.call('f3', 4n);
        expect(log.result).toBe(plain);
        return {
          events: log.events.map((event) => `${event.kind === 'graph' ? event.user : event.kind} ${event.at}`),
          returns: log.returns,
        };
      };
      expect(seen()).toEqual(expected([]));
      // Who does not want an entry does not hear of the return; where nobody does the function is
      // not hooked.
      const refused = ['g1 f3', 'g4 f3', `g2 ${calls!}`];
      made.wants = (user, name) => !refused.includes(`${user} ${name}`);
      expect(seen()).toEqual(expected(refused));
      made.wants = () => false;
      expect(seen()).toEqual({ events: [`g0 ${calls!}`], returns: [`g0 ${calls!}`] });
      made.wants = null;
      // A place in the middle is given to the next one.
      done(core.unregisterGraph(users[5]!));
      expect(seen()).toEqual(expected([], [5]));
      done(core.registerGraph(users[16]!));
      expect(seen().events.filter((event) => event === 'g16 f3')).toHaveLength(1);
      // One goes while functions that it entered are running: they return, and nobody calls it any
      // more (H8).
      let gone = false;
      const off = made.machine.hook(core.records.find(({ name }) => name === calls)!.ip, () => {
        if (!gone) done(core.unregisterGraph(users[16]!));
        gone = true;
        return 'continue';
      });
      const late = made.call('f3', 4n);
      off();
      expect([gone, late.result, late.returns.filter((event) => event.startsWith('g16 '))]).toEqual([true, plain, []]);
      for (const user of users) if (core.state.graph.users.includes(user)) done(core.unregisterGraph(user));
      done(core.reclaim());
      expect(made.call('f3', 4n)).toEqual({ events: [], returns: [], result: plain });
      expect(made.leftovers()).toEqual([]);
    });
  });

  test('C-OUT-1 the table of rows and conventions, executed', () => {
    const byName = new Map(executing.map((each) => [each.name, each]));
    const why = (row: Row, name: string): string | null => inapplicable(row, byName.get(name)!.profile);
    process.stdout.write(`\nC-OUT-1, rows executed\n${tableOf([...byName.keys()], why)}\n`);
    for (const { name } of executing) {
      expect([name, [...executed.get(name)!]]).toEqual([
        name,
        rows.filter((row) => why(row, name) === null).map(titleOf),
      ]);
    }
    // No row is out of reach: x86-64 has them all, and PowerPC those without trampolines and direct
    // callers.
    expect(executed.get('x86-64')!.size).toBe(rows.length);
    if (isLong) expect(executed.get('ppc64-elfv2-le')!.size).toBeGreaterThan(6);
  });

  describe.each(some)('$name: places and ends', (each) => {
    test('C-REC-1 C-FILT-9 C-FILT-3: a filter by addresses: of the site, of the function, of a byte of the site; by index; and what is refused', () => {
      const made = machineOf(each);
      const { core, sites } = made.session;
      const ops = core.createOps({ name: 'mine', func: made.callbacks[0]! });
      done(core.register(ops));
      const site = core.records.find(({ name }) => name === 'f1')!;
      const { program } = sites;
      const start = program.functions.placeOf(program.symbols.find('f1'))!.value;
      const hit = (): string[] => ['f0', 'f1', 'f2'].filter((name) => ran(made.call(name, 2n)).length > 0);
      expect(hit()).toEqual(['f0', 'f1', 'f2']);
      for (const address of [site.ip, start, site.ip + 1n]) {
        done(core.setFilterAddresses(ops, 'filter', [address], { reset: true }));
        expect([address - start, hit()]).toEqual([address - start, ['f1']]);
      }
      done(core.setFilter(ops, 'filter', String(core.records.findIndex(({ name }) => name === 'f2') + 1)));
      expect(hit()).toEqual(['f2']);
      const other = core.records.find(({ name }) => name === 'f0')!.ip;
      const addresses = (list: readonly bigint[], remove: boolean): unknown =>
        core.setFilterAddresses(ops, 'filter', list, { remove });
      expect(addresses([other, 4n], false)).toMatchObject({ kind: 'refused', errno: 'EINVAL' });
      expect(addresses([site.ip], true)).toMatchObject({ kind: 'refused', errno: 'ENOENT' });
      expect(hit()).toEqual(['f2']);
      done(core.unregister(ops));
    });

    test('C-FG-3: a tail call: both functions have the same place of the return address, and both returns are heard of, one right behind the other', () => {
      const made = new GeneratedMachine(each, generateFunctions(TAIL_SEED), generatedImage(each, TAIL_SEED), {});
      const { core } = made.session;
      if (each.graph === '2014') core.createTracer({ name: 'tracer', func: made.callbacks[7]! });
      const [outer, inner] = ['f3', made.functions.find(({ name }) => name === 'f3')!.calls!];
      const { result } = made.call(outer, 4n);
      const user = new GraphUser('g0', { entry: 0n, return: 0n });
      done(core.registerGraph(user));
      const stacks: bigint[] = [];
      const off = made.machine.hook(made.session.functionAddress('return_to_handler')!, () => {
        stacks.push(made.machine.register(made.arch.abi.stackPointer));
        return 'continue';
      });
      const log = made.call(outer, 4n);
      off();
      expect(log.events.map((event) => `${event.kind} ${event.at}`)).toEqual([`graph ${outer}`, `graph ${inner}`]);
      expect([log.returns, log.result]).toEqual([[`g0 ${inner}`, `g0 ${outer}`], result]);
      // The first run of the handler goes to the second: nothing was on the stack in between.
      expect([stacks.length, new Set(stacks).size]).toEqual([2, 1]);
      done(core.unregisterGraph(user));
      expect(made.call(outer, 4n)).toEqual({ events: [], returns: [], result });
    });

    test('C-INIT-3: an image whose table has no site is dead; a module of that kind comes and has no records', () => {
      const { arch, session } = machineOf(each);
      const without = (module: string | null): GeneratedMachine => {
        const bytes = generatedImage(each).slice();
        const { program } = session.sites;
        const { image } = program;
        const view = new ByteView(bytes, image.header.endian);
        for (const { name, offset, fileSize } of image.sections) {
          if (name !== '__mcount_loc' && name !== '__patchable_function_entries') continue;
          for (let at = offset; at < offset + fileSize; at += image.wordBytes) {
            const part = program.partOf(view.word(at, image.wordBytes));
            const own = part?.kind === 'module' ? part.name : null;
            if (own === module) view.insertWord(at, 0n, image.wordBytes);
          }
        }
        return new GeneratedMachine(each, functions, bytes);
      };
      expect(arch.target.id).toBe(each.target);
      const dead = without(null);
      let stores = 0;
      dead.onStore = () => ++stores > 0;
      const { core } = dead.session;
      expect([core.records.length, core.dead]).toEqual([0, 'the image has nothing to trace']);
      const all: Outcome[] = [
        core.register(core.createOps({ name: 'late', func: dead.callbacks[0]! })),
        core.registerGraph(new GraphUser('g', { entry: 0n, return: 0n })),
        core.registerDirectAt(session.core.records[0]!.ip, 1n),
        dead.session.loadModule('m0'),
      ];
      expect(all.map((one) => one.kind === 'refused' && one.errno)).toEqual(all.map(() => 'ENODEV'));
      expect([stores, ran(dead.call('f0', 3n))]).toEqual([0, []]);

      const made = without('m0');
      const ops = made.session.core.createOps({ name: 'mine', func: made.callbacks[0]! });
      done(made.session.core.register(ops));
      for (const module of ['m0', 'm1']) done(made.session.loadModule(module));
      const names = made.session.core.records.map(({ module }) => module);
      expect(['m0', 'm1'].map((module) => names.filter((one) => one === module).length > 0)).toEqual([false, true]);
      expect([ran(made.call('a0', 3n)), ran(made.call('f0', 3n))]).toEqual([[], ['mine@f0']]);
      expect(ran(made.call('b0', 3n))).toContain('mine@b0');
    });

    test('C-REC-2 C-FILT-4: the body of an overridden weak function stays in the table: nobody matches it, and it is never written', () => {
      const bytes = generatedImage(each).slice();
      const { session } = machineOf(each);
      const { program } = session.sites;
      const { image } = program;
      const left = functions.find(({ name }) => name === 'f3')!.calls!;
      const { ip } = session.core.records.find(({ name }) => name === left)!;
      const index = session.core.records.findIndex((one) => one.ip === ip) + 1;
      const symtab = image.section('.symtab')!;
      const view = new ByteView(bytes, image.header.endian);
      // The linker took another definition: the code stays, its name does not.
      for (let symbol = 0; symbol < image.symbols.count; symbol++) {
        if (![left, `.${left}`].includes(image.symbols.name(symbol))) continue;
        const at = symtab.offset + symbol * Number(symtab.entrySize);
        view.insertU16(at + (image.wordBytes === 8 ? 6 : 14), 0);
      }
      const made = new GeneratedMachine(each, functions, bytes);
      const { core } = made.session;
      const site = core.records[index - 1]!;
      expect([site.flags >>> 0, site.count, core.records.length]).toEqual([
        REC.DISABLED,
        0,
        session.core.records.length,
      ]);
      // Which words in front of a function belong to the site, its symbol tells: without one the
      // table's address stands.
      expect(Math.abs(Number(site.ip - ip))).toBeLessThanOrEqual(8);
      const text = (): string => made.machine.memory.read(ip - 8n, 20)!.toString();
      const before = text();
      const { result } = made.call('f3', 4n);
      const ops = core.createOps({ name: 'mine', func: made.callbacks[0]! });
      const refused = (outcome: Outcome, errno: string): void => {
        expect([outcome.kind, outcome.kind === 'refused' && outcome.errno]).toEqual(['refused', errno]);
      };
      for (const words of [left, String(index)]) refused(core.setFilter(ops, 'filter', words), 'EINVAL');
      refused(core.setFilterAddresses(ops, 'filter', [site.ip]), 'EINVAL');
      refused(core.registerDirectAt(site.ip, 1n), 'ENODEV');
      const steps = done(core.register(ops));
      expect(steps.some((step) => step.kind === 'site' && step.site === site)).toBe(false);
      const log = made.call('f3', 4n);
      expect([ran(log), log.result, text()]).toEqual([['mine@f3'], result, before]);
      done(core.unregister(ops));
      expect([site.flags >>> 0, site.count, text()]).toEqual([REC.DISABLED, 0, before]);
    });

    test('C-HASH-3: while a site still calls the entry without a frame, the list skips who wants registers; nobody is called without them', () => {
      const made = machineOf(each);
      const { core, backend } = made.session;
      const { regs } = core.state.backend.capabilities;
      const site = core.records.find(({ name }) => name === 'f0')!;
      const make = (name: string, index: number, flags: readonly ('SAVE_REGS' | 'DYNAMIC')[]): Ops => {
        const one = core.createOps({ name, func: made.callbacks[index]!, flags });
        done(core.setFilter(one, 'filter', 'f0'));
        return one;
      };
      const [plain, wants] = [make('plain', 0, []), make('wants', 1, ['SAVE_REGS', 'DYNAMIC'])];
      done(core.register(plain));
      if (regs === 'none') {
        expect(core.register(wants)).toMatchObject({ kind: 'refused', errno: 'EINVAL' });
        return;
      }
      // An ops of the list whose site is not upgraded yet.
      let skipped = 0;
      const watch = (act: () => Outcome): void => {
        made.onStore = () => {
          const reading = backend.read({ kind: 'site', site });
          const upgraded = reading.kind === 'site' && reading.content.kind === 'regs-caller';
          const { events } = made.call('f0', 3n);
          const names = events.map((event) => (event.kind === 'callback' ? event.ops : event.kind));
          expect(names).toContain('plain');
          for (const event of events) {
            if (event.kind === 'callback' && event.ops === 'wants') expect(event.regs).toBe(true);
          }
          if (!upgraded && regs === 'separate') {
            expect(names).toEqual(['plain']);
            skipped++;
          }
          return true;
        };
        done(act());
        made.onStore = null;
      };
      watch(() => core.register(wants));
      expect(ran(made.call('f0', 3n))).toEqual(['plain@f0', 'wants@f0']);
      watch(() => core.unregister(wants));
      if (regs === 'separate') expect(skipped).toBeGreaterThan(3);
    });

    test('F-3: a session that takes out whom it registered leaves the image with nops, byte for byte', () => {
      const image = readElf(generatedImage(each));
      const arch = archOf(image.header);
      const after = (steps: string): Uint8Array => {
        const text = `version: 1\nsteps: [${steps}]\n`;
        const out = image.bytes.slice();
        for (const step of planSession(image, arch, [{ name: 's', text }]).plan.steps) {
          if (step.kind === 'store') out.set(step.after, step.fileOffset);
        }
        return out;
      };
      const nops = after('');
      const there = `{ ops: { name: a, call: elftrace_counter, filter: 'f*' } }, { register: a },
        { ops: { name: b, call: elftrace_function_tracer, filter: 'f0 f1' } }, { register: b }`;
      const graph = each.graph === '2014' ? '' : '{ graph: { name: g } }, { no-graph: g },';
      expect(after(there)).not.toEqual(nops);
      expect(after(`${there}, ${graph} { unregister: a }`)).not.toEqual(nops);
      const gone = after(`${there}, ${graph} { unregister: a }, { unregister: b }`);
      expect([...gone.keys()].filter((at) => gone[at] !== nops[at])).toEqual([]);
    });

    if (each.target.startsWith('ppc')) {
      test('C-MOD-3: a site is of the module that it came with: for another one EINVAL', () => {
        const { session } = machineOf(each);
        const { sites } = session;
        const attempt = (from: string | null, module: string): unknown => {
          const selection = Uint8Array.from({ length: sites.count }, (_, i) => (sites.module(i) === from ? 1 : 0));
          return planSites(sites, { to: { kind: 'nop' }, selection, module }).refusals;
        };
        const wrong = [expect.objectContaining({ code: 'wrong-module', errno: 'EINVAL' })];
        expect([attempt('m0', 'm0'), attempt('m1', 'm1')]).toEqual([[], []]);
        expect(attempt('m0', 'm1')).toEqual(expect.arrayContaining(wrong));
        expect(attempt('m1', 'm0')).toEqual(expect.arrayContaining(wrong));
        expect(attempt(null, 'm0')).toEqual(expect.arrayContaining(wrong));
      });
    }

    test('C-Q-6 C-FG-2 H8: the graph tracer goes while functions are on the stack: they return to their callers, and nothing is hooked any more', () => {
      const made = machineOf(each);
      const { core } = made.session;
      if (each.graph === '2014') core.createTracer({ name: 'tracer', func: made.callbacks[7]! });
      const { calls } = made.functions.find(({ name }) => name === 'f3')!;
      const { result } = made.call('f3', 4n);
      const user = new GraphUser('g0', { entry: 0n, return: 0n });
      done(core.registerGraph(user));
      expect(made.call('f3', 4n)).toMatchObject({ returns: [`g0 ${calls!}`, 'g0 f3'], result });
      let gone = false;
      // Both functions have their return addresses exchanged when the inner one runs; the site is
      // off before it is executed again.
      const off = made.machine.hook(made.session.functionAddress('return_to_handler')!, () => {
        if (!gone) done(core.unregisterGraph(user));
        gone = true;
        return 'continue';
      });
      expect(made.call('f3', 4n).result).toBe(result);
      off();
      expect(gone).toBe(true);
      expect(made.call('f3', 4n)).toEqual({ events: [], returns: [], result });
    });

    test('C-INIT-2 C-REP-1: a site that is not as it must be when a session begins: a report of type INIT', () => {
      const bytes = generatedImage(each).slice();
      const made = machineOf(each);
      const site = made.session.core.records.find(({ name }) => name === 'f2')!;
      const { image } = made.session.sites.program;
      bytes.fill(0x11, image.fileOffsetOf(site.ip), image.fileOffsetOf(site.ip) + 4);
      const attempt = (): unknown => new GeneratedMachine(each, functions, bytes);
      expect(attempt).toThrow(/sites? refused/);
      expect(attempt).toThrow(
        /\nftrace bug: content mismatch\n ip: 0x[0-9a-f]+ f2\+0x[0-9a-f]+\n actual: [0-9a-f:]+\n(?: expected: [0-9a-f:]+\n)? action: INIT\n cause: /,
      );
    });
  });

  describe.each(some)('$name: failures', (each) => {
    test('C-REP-1 C-UPD-2 C-UPD-3 C-UPD-4 P-NEW-4: the report has its seven parts in order; nothing is written; everything is ENODEV afterwards', () => {
      const made = machineOf(each);
      const { core, backend, sites } = made.session;
      const ops = core.createOps({ name: 'mine', func: made.callbacks[0]! });
      done(core.setFilter(ops, 'filter', 'f0 f1'));
      done(core.register(ops));
      const site = core.records.find(({ name }) => name === 'f1')!;
      const healthy = backend.bytesAt(site)!;
      const foreign = healthy.map(() => 0);
      made.machine.memory.write(site.ip, foreign);
      const text = made.machine.memory.read(site.ip - 64n, 256)!;
      const other = core.records.find(({ name }) => name === 'f0')!;
      const before = backend.bytesAt(other)!;
      const { flags } = site;
      const outcome = core.unregister(ops);
      expect([outcome.kind, outcome.kind === 'failed' && outcome.errno]).toEqual(['failed', 'EINVAL']);
      const report = outcome.kind === 'failed' ? formatReport(outcome.report) : '';
      const colons = (bytes: Uint8Array): string =>
        Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':');
      const hex = (value: bigint | number): string => `0x${value.toString(16)}`;
      const { program } = sites;
      const block = ops.trampoline?.kind === 'private' ? ops.trampoline.block.address : null;
      // Wanted flags are gone, those of the text and the sticky ones stay.
      const shown = (flags & (REC.ENABLED | REC.REGS_EN | REC.TRAMP_EN | REC.CALL_OPS_EN | REC.TOUCHED)) >>> 0;
      const caller = program.definedAt(program.symbols.find('ftrace_caller'))!;
      expect(report.split('\n')).toEqual([
        'ftrace bug: content mismatch',
        ` ip: ${hex(site.ip)} f1+${hex(site.siteOffset)}`,
        ` actual: ${colons(foreign)}`,
        ` expected: ${colons(healthy)}`,
        ' action: NOP',
        ` record flags: ${hex(shown)} (0)`,
        ...(block === null ? [] : [` trampoline: ${hex(block)} (mine) -> ${hex(made.callbacks[0]!)}`]),
        block === null
          ? ` expected target: ${hex(caller)} (ftrace_caller)`
          : ` expected target: ${hex(block)} (trampoline of mine)`,
        expect.stringMatching(/^ cause: the site of f1 at 0x/),
      ]);
      expect(made.machine.memory.read(site.ip - 64n, 256)).toEqual(text);
      expect(backend.bytesAt(other)).toEqual(before);
      expect([core.dead === null, core.state.callee.kind]).toEqual([false, 'stub']);
      const all: Outcome[] = [
        core.register(core.createOps({ name: 'late', func: made.callbacks[1]! })),
        core.unregister(ops),
        core.setFilter(ops, 'filter', 'f2'),
        core.setFilterAddresses(ops, 'filter', [site.ip]),
        core.setEnabled(false),
        core.setFunction(ops, made.callbacks[1]!),
        core.destroy(ops),
        core.registerDirect(ops, 1n),
        core.registerDirectAt(site.ip, 1n),
        core.registerGraph(new GraphUser('g', { entry: 0n, return: 0n })),
        made.session.loadModule('m0'),
      ];
      expect(all.map((one) => one.kind === 'refused' && one.errno)).toEqual(all.map(() => 'ENODEV'));
    });

    test('C-UPD-2 C-UPD-3: EPERM at any store: everything that was written is written back', () => {
      const count = { stores: 0 };
      const attempt = (at: number): boolean => {
        const made = machineOf(each);
        const { core } = made.session;
        const ops = core.createOps({ name: 'mine', func: made.callbacks[0]! });
        const memory = (): string => made.machine.memory.read(core.records[0]!.ip - 64n, 4096)?.toString() ?? '';
        const before = [made.session.bytes(), memory()];
        let stores = 0;
        let undoing = false;
        made.onStore = () => {
          if (!undoing && stores++ === at) {
            undoing = true;
            return false;
          }
          return true;
        };
        const outcome = core.register(ops);
        made.onStore = null;
        if (outcome.kind === 'done') return false;
        expect([outcome.kind, outcome.kind === 'failed' && outcome.errno]).toEqual(['failed', 'EPERM']);
        expect(outcome.kind === 'failed' && outcome.report.kind).toBe('write-fault');
        count.stores++;
        expect(memory()).toBe(before[1]);
        const data = made.session.sites.program.image.section('.elftrace.data')!;
        const now = made.session.bytes();
        const left = [...now.keys()].filter(
          (i) => now[i] !== (before[0] as Uint8Array)[i] && (i < data.offset || i >= data.offset + data.fileSize),
        );
        expect(left).toEqual([]);
        expect(made.call('f0', 5n).events).toEqual([]);
        return true;
      };
      let at = 0;
      while (attempt(at)) at += 3;
      expect(count.stores).toBeGreaterThan(3);
    });
  });

  describe.each(someDirect)('$name: direct calls', (each) => {
    test('C-DIR-4 C-DIR-5: ENOMEM where there is no room for the table or the filter: nothing is written, and nobody is dead', () => {
      const [ENOUGH, attempts] = [32, ['ops', 'address'] as const];
      for (const form of attempts) {
        let refusals = 0;
        for (let words = 0; ; words++) {
          expect(words).toBeLessThan(ENOUGH);
          const bytes = generatedImage(each).slice();
          const image = readElf(bytes);
          const data = image.section('.elftrace.data')!;
          const word = image.wordBytes;
          // The room of objects, and as many words.
          const header = image.header.shoff + data.index * (word === 8 ? 64 : 40) + (word === 8 ? 32 : 20);
          new ByteView(bytes, image.header.endian).insertWord(header, BigInt((opsSlots * OPS_WORD_COUNT + words) * word), word); // prettier-ignore
          const made = new GeneratedMachine(each, functions, bytes);
          const { core } = made.session;
          const { direct, callOps } = core.state.backend.capabilities;
          if (direct === 'none' || (form === 'address' && callOps)) return;
          const site = core.records.find(({ name }) => name === 'f0')!;
          const address = made.session.functionAddress('direct_a')!;
          const ops = core.createOps({ name: 'd', func: 0n });
          done(core.setFilter(ops, 'filter', 'f0 f1 f2'));
          let stores = 0;
          made.onStore = () => ++stores > 0;
          const outcome = form === 'ops' ? core.registerDirect(ops, address) : core.registerDirectAt(site.ip, address);
          made.onStore = null;
          if (outcome.kind === 'done') {
            expect(ran(made.call('f0', 3n))).toEqual(['direct']);
            break;
          }
          refusals++;
          expect([words, outcome.kind, outcome.kind === 'refused' && outcome.errno]).toEqual([
            words,
            'refused',
            'ENOMEM',
          ]);
          expect([stores, core.dead, site.count, ran(made.call('f0', 3n))]).toEqual([0, null, 0, []]);
          // An ops that needs no room comes all the same.
          if (words === 0) done(core.register(core.createOps({ name: 'plain', func: made.callbacks[0]! })));
        }
        expect(refusals).toBeGreaterThan(3);
      }
    });

    test('C-DIR-4 C-DIR-5 C-IPM-4 P-ENT-5: every error of both generations, and nothing is written', () => {
      const made = machineOf(each);
      const { core } = made.session;
      const [a, b] = ['direct_a', 'direct_b'].map((name) => made.session.functionAddress(name) ?? 0x10n);
      const { direct, callOps } = core.state.backend.capabilities;
      const f0 = core.records.find(({ name }) => name === 'f0')!;
      let stored = 0;
      made.onStore = () => ++stored > 0;
      const ops = (name: string, filter: string | null, func = 0n): Ops => {
        const one = core.createOps({ name, func });
        if (filter !== null) done(core.setFilter(one, 'filter', filter));
        return one;
      };
      const fresh = ops('fresh', 'f0');
      if (direct === 'none') {
        noDirectCalls(made, fresh, f0.ip, [a!, b!]);
        return;
      }
      refused(core.registerDirect(ops('function', 'f0', made.callbacks[0]!), a!), 'EINVAL');
      refused(core.registerDirect(ops('unfiltered', null), a!), 'EINVAL');
      refused(core.registerDirect(ops('everything', ''), a!), 'EINVAL');
      refused(core.unregisterDirect(fresh, a!), 'EINVAL');
      refused(core.modifyDirect(fresh, b!), 'EINVAL');
      expect(stored).toBe(0);
      done(core.registerDirect(fresh, a!));
      const there = stored;
      refused(core.registerDirect(fresh, a!), 'EINVAL');
      refused(core.registerDirect(ops('second', 'f1 f0'), b!), 'EBUSY');
      refused(core.setFilter(fresh, 'filter', 'f1'), 'EINVAL');
      const plain = ops('plain', 'f1', made.callbacks[0]!);
      refused(core.unregisterDirect(plain, a!), 'EINVAL');
      refused(core.modifyDirect(plain, a!), 'EINVAL');
      const livepatch = livepatchOf(made, 'f0');
      refused(core.register(livepatch), 'EBUSY');
      if (callOps) refused(core.registerDirectAt(f0.ip, a!), 'ENODEV');
      else {
        refused(core.registerDirectAt(f0.ip, b!), 'EBUSY');
        refused(core.registerDirectAt(4n, b!), 'ENODEV');
        refused(core.unregisterDirectAt(4n), 'ENODEV');
        refused(core.modifyDirectAt(4n, a!, b!), 'ENODEV');
        refused(core.unregisterDirectAt(core.records.find(({ name }) => name === 'f1')!.ip), 'ENODEV');
      }
      expect(stored).toBe(there);
      expect(ran(made.call('f0', 3n))).toEqual(['direct']);
      done(core.unregisterDirect(fresh, a!));
      done(core.register(livepatch));
      const again = stored;
      refused(core.registerDirect(fresh, a!), 'EBUSY');
      if (!callOps) {
        refused(core.registerDirectAt(f0.ip, a!), 'EBUSY');
        expect(stored).toBe(again);
        done(core.unregister(livepatch));
        done(core.registerDirectAt(f0.ip, a!));
        refused(core.modifyDirectAt(f0.ip, b!, a!), 'EINVAL');
        done(core.modifyDirectAt(f0.ip, a!, b!));
        expect(made.call('f0', 3n).events).toEqual([expect.objectContaining({ kind: 'direct', address: b })]);
        done(core.unregisterDirectAt(f0.ip));
      } else done(core.unregister(livepatch));
      expect(ran(made.call('f0', 3n))).toEqual([]);
    });
  });
});
