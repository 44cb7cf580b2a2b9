/**
 * Session files: what they say, where their errors are, that the schema says the same, and that a
 * core performs them.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { ElftraceError } from '../src/errors.js';
import { FtraceCore, type SavedCore } from '../src/ftrace/index.js';
import { profiles } from './support/profiles.js';
import { CoreSession } from '../src/tracing/operations.js';
import { parseSession, sessionForms, sessionNames } from '../src/tracing/session-file.js';
import { formatSession } from '../src/tracing/session-text.js';
import { FakeMachine } from './support/fake-ftrace.js';
import { root } from './support/pipeline.js';

const whole = `
version: 1
steps:
  # One of each.
  - filter: { words: 'f* !f1' }
  - ops: { name: mine, call: my_callback, regs: if-supported, recursion: true, notrace: f2 }
  - ops: { name: tracer, call: my_tracer, shared: true }
  - register: mine
  - register: tracer
  - filter: { ops: mine, words: 0x2, append: true }
  - notrace: { ops: mine, words: '' }
  - function: { ops: mine, call: other }
  - direct: { function: f2, caller: caller_a }
  - modify-direct: { function: f2, caller: caller_b }
  - livepatch: { function: f1, new: f1_new }
  - graph: { name: g, entry: on_entry, return: on_return, filter: f1 }
  - graph: { name: recorded, filter: f1 }
  - no-graph: recorded
  - load: { module: m, file: m.ko }
  - tracing: off
  - tracing: on
  - unload: m
  - load: m
  - unload: m
  - no-graph: g
  - no-livepatch: f1
  - no-direct: f2
  - unregister: tracer
  - unregister: mine
`;

const schema = JSON.parse(readFileSync(join(root, 'schemas', 'session.schema.json'), 'utf8')) as {
  properties: { steps: { items: { properties: Record<string, { properties?: object; required?: string[] }> } } };
};
const validate = new Ajv2020({ strict: true, strictTypes: false, allErrors: true }).compile(schema);

/** The message of a refused text, null for one that is read. */
function refused(text: string): string | null {
  try {
    parseSession(text, 's.yaml');
    return null;
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    expect(error.code).toBe('usage');
    return error.message;
  }
}

const step = (text: string): string => `version: 1\nsteps:\n  - ${text}\n`;

/** Probes, which the core alone does not serve. */
const probes = step(
  "probe: { define: 'p:e f+4 %ax', optimize: true, version: 2009, preempt: none }\n  - probe: { define: r f }\n  - disable-probe: e\n  - enable-probe: g/e\n  - probes: off\n  - probes: on\n  - no-probe: e",
);

/**
 * Texts and the place where each goes wrong; '-' in front: only the parser can know, the schema
 * accepts it.
 */
const wrong: readonly (readonly [text: string, place: string, reason: RegExp])[] = [
  ['', '1:1', /mapping/],
  ['[]', '1:1', /mapping/],
  ['version: 2\nsteps: []', '1:10', /version 1/],
  ['steps: []', '1:1', /'version: 1' is missing/],
  ['version: 1', '1:1', /'steps' is missing/],
  ['version: 1\nsteps: {}', '2:8', /a list/],
  ['version: 1\nsteps: []\nmore: 1', '3:1', /unknown key 'more'/],
  [step('jump: f'), '3:5', /unknown step 'jump'/],
  [step('register'), '3:5', /one key/],
  [step('{ register: a, unregister: a }'), '3:5', /one key/],
  [step('ops: { name: a }'), '3:10', /needs 'call'/],
  [step('ops: { name: a, call: c, color: red }'), '3:30', /no 'color'/],
  [step('ops: { name: a, call: c, rcu: maybe }'), '3:35', /true or false/],
  [step('ops: { name: a, call: c, regs: some }'), '3:36', /if-supported/],
  [step("ops: { name: '', call: c }"), '3:18', /empty/],
  [step("ops: { name: 'a b', call: c }"), '3:18', /no blanks/],
  [step('ops: { name: [a], call: c }'), '3:18', /one value/],
  [step('ops: a'), '3:10', /mapping/],
  [step('tracing: maybe'), '3:14', /on or off/],
  [step('probes: maybe'), '3:13', /probes is on or off/],
  [step("disable-probe: ''"), '3:20', /empty/],
  [step('direct: { function: f, caller: 1.5 }'), '3:36', /quote it/],
  [step('direct: { function: f }'), '3:13', /needs 'caller'/],
  [step('load: { module: }'), '3:21', /one value/],
  [step('probe: { optimize: true }'), '3:12', /needs 'define'/],
  [step('probe: { define: p f, version: 2008 }'), '3:12', /version is 2009 or modern/],
];

const onlyParser: typeof wrong = [
  [step('register: nobody'), '3:15', /no step before this one makes the ops 'nobody'/],
  [step('no-graph: g'), '3:15', /graph 'g'/],
  [step('filter: { ops: a, words: f }'), '3:13', /ops 'a'/],
  [step('ops: { name: a, call: c }\n  - ops: { name: a, call: d }'), '4:10', /already/],
  [step('ops: { name: a, call: c, shared: true, filter: f }'), '3:10', /none of its own/],
  ['version: 1\nversion: 1\nsteps: []', '2:1', /unique/],
  ['version: 1\nsteps: [\n', '3:1', /sequence|flow/i],
  ['a: &x 1\nversion: 1\nsteps: *x', '1:1', /unknown key/],
  ['version: 1\nsteps: &x []\nmore: *x', '3:1', /reference/],
];

describe('session files', () => {
  test('every kind of step is read, with its place', () => {
    const { operations } = parseSession(whole);
    const more = parseSession(probes).operations;
    expect(more[0]).toMatchObject({ define: 'p:e f+4 %ax', optimize: true, version: '2009', preempt: 'none' });
    expect(more[1]).toMatchObject({ define: 'r f', optimize: false, version: null, preempt: null });
    const kinds = [...operations, ...more].map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set([...Object.keys(sessionForms), ...sessionNames, 'tracing', 'probes']));
    expect(operations[0]).toEqual({
      kind: 'filter',
      ops: null,
      words: 'f* !f1',
      append: false,
      at: { line: 5, column: 5 },
    });
    expect(operations[1]).toEqual({
      kind: 'ops',
      name: 'mine',
      call: 'my_callback',
      regs: 'if-supported',
      traits: ['recursion'],
      shared: false,
      filter: null,
      notrace: 'f2',
      trampoline: null,
      at: { line: 6, column: 5 },
    });
    // A number is a filter as well, and stays what was written.
    expect(operations[5]).toMatchObject({ kind: 'filter', words: '0x2', append: true });
    expect(operations.at(-1)).toEqual({ kind: 'unregister', ops: 'mine', at: { line: 29, column: 5 } });
  });

  test('JSON gives the same operations', () => {
    const strip = (text: string): unknown[] => parseSession(text).operations.map(({ at: _at, ...rest }) => rest);
    const json = JSON.stringify(parse(whole.replace('0x2', "'0x2'")), null, 2);
    expect(strip(json)).toEqual(strip(whole));
  });

  test('every kind of operation is written as text that is read as the same operation', () => {
    for (const text of [whole, probes]) {
      const { operations } = parseSession(text);
      const again = parseSession(formatSession(operations)).operations;
      const strip = (list: typeof operations): unknown[] => list.map(({ at: _at, ...rest }) => rest);
      expect(strip(again)).toEqual(strip(operations));
    }
  });

  test('errors name line and column', () => {
    for (const [text, place, reason] of [...wrong, ...onlyParser]) {
      const message = refused(text);
      expect([text, message?.split(' ')[0]]).toEqual([text, `s.yaml:${place}:`]);
      expect(message).toMatch(reason);
    }
  });

  test('no text makes the reader fail otherwise than by an error with a place', () => {
    const piece = fc.constantFrom(
      ...whole.split(/(\s+|[{},:&*'"-])/),
      '&a',
      '*a',
      '!!map',
      '? ',
      '|',
      '>-',
      '<<',
      '---',
      '%',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), fc.nat(whole.length), (pieces, at) => {
        const message = refused(whole.slice(0, at) + pieces.join(''));
        if (message !== null) expect(message).toMatch(/^s\.yaml:[1-9]\d*:[1-9]\d*: ./);
      }),
      { numRuns: 2000, seed: 11 },
    );
  });

  test('the schema accepts and refuses the same, but for names that earlier steps make', () => {
    expect([validate(parse(whole)), validate.errors]).toEqual([true, null]);
    for (const [text] of wrong) expect([text, validate(parse(text))]).toEqual([text, false]);
    const steps = schema.properties.steps.items.properties;
    expect(Object.keys(steps).sort()).toEqual(
      [...Object.keys(sessionForms), ...sessionNames, 'tracing', 'probes'].sort(),
    );
    for (const [name, form] of Object.entries(sessionForms)) {
      expect(Object.keys(steps[name]!.properties!)).toEqual(Object.keys(form.fields));
      expect(steps[name]!.required).toEqual(form.required);
    }
  });

  test('a core performs it, and ends as it began', () => {
    const machine = new FakeMachine(profiles['x86-64']);
    const core = new FtraceCore({
      backend: machine,
      sites: ['f1', 'f2', 'f3'].map((name, index) => ({ name, ip: 0x1000n * BigInt(index + 1) })),
      records: { siteBytes: 5 },
    });
    const symbols = new Map<string, bigint>();
    const address = (symbol: string): bigint => {
      const known = symbols.get(symbol) ?? 0x100n + 0x10n * BigInt(symbols.size);
      symbols.set(symbol, known);
      return known;
    };
    const session = new CoreSession(core, {
      address,
      replacer: (replacement) => ({ func: address(`replace by ${replacement}`), data: 5n }),
      enableJumps: () => undefined,
      loadModule: (name) => core.loadModule(name, [{ name: 'x', ip: 0x9000n }]),
      unloadModule: (name) => core.unloadModule(name),
    });
    const { operations } = parseSession(whole);
    const half = operations.findIndex(({ kind }) => kind === 'tracing');
    const first = session.run(operations.slice(0, half));
    expect(first.map(({ outcome }) => outcome.kind)).toEqual(Array(half).fill('done'));
    const site = core.records.find(({ name }) => name === 'f1')!;
    expect(machine.run(site).map((event) => (event.kind === 'callback' ? event.ops : event.kind))).toEqual([
      'graph',
      'livepatch f1',
    ]);
    const f2 = core.records.find(({ name }) => name === 'f2')!;
    expect(machine.run(f2).at(-1)).toEqual({ kind: 'direct', address: address('caller_b') });
    const rest = session.run(operations.slice(half));
    expect(rest.map(({ outcome }) => outcome.kind)).toEqual(Array(operations.length - half).fill('done'));
    expect(core.reclaim().kind).toBe('done');
    expect(machine.untouched).toBe(true);
  });

  test('a session stops behind the first operation that is not done', () => {
    const core = new FtraceCore({
      backend: new FakeMachine(profiles.ppc32),
      sites: [{ name: 'f', ip: 0x1000n }],
      records: { siteBytes: 4 },
    });
    const session = new CoreSession(core, {
      address: () => 1n,
      replacer: () => ({ func: 2n, data: 3n }),
      enableJumps: () => undefined,
      loadModule: (name) => core.loadModule(name, []),
      unloadModule: (name) => core.unloadModule(name),
    });
    const { operations } = parseSession(
      'version: 1\nsteps: [{ direct: { function: f, caller: c } }, { tracing: off }, { no-direct: f }]',
    );
    const steps = session.run(operations);
    expect(steps.map(({ outcome }) => outcome.kind === 'refused' && outcome.errno)).toEqual(['ENODEV']);
    expect(session.run(operations.slice(2)).map(({ outcome }) => outcome.kind === 'refused' && outcome.errno)).toEqual([
      'ENOENT',
    ]);
  });

  test('RT-7: a second session goes on with what the first one left, in another process', () => {
    const machine = new FakeMachine(profiles['x86-64']);
    const options = {
      backend: machine,
      sites: ['f1', 'f2'].map((name, index) => ({ name, ip: 0x1000n * BigInt(index + 1) })),
      records: { siteBytes: 5 },
    };
    const never = (): never => {
      throw new Error('no step of these');
    };
    const resolver = {
      address: () => 0x77n,
      replacer: () => ({ func: 0x88n, data: 0n }),
      enableJumps: () => undefined,
      loadModule: never,
      unloadModule: never,
    };
    const first = new CoreSession(new FtraceCore(options), resolver);
    const made = [
      '- ops: { name: mine, call: c, filter: f1 }',
      '- register: mine',
      '- direct: { function: f2, caller: d }',
      '- livepatch: { function: f1, new: n }',
      '- graph: { name: g, entry: e, return: r }',
    ];
    const done = (steps: readonly { outcome: { kind: string } }[]): boolean =>
      steps.every(({ outcome }) => outcome.kind === 'done');
    expect(done(first.run(parseSession(`version: 1\nsteps:\n${made.join('\n')}`).operations))).toBe(true);
    const state = JSON.parse(JSON.stringify(first.core.save())) as SavedCore;
    const core = new FtraceCore({ ...options, saved: { state, modules: new Map() } });
    const old = first.core.state.known;
    expect(
      machine.adopt(
        core,
        (ops) => core.state.known[old.indexOf(ops)]!,
        (site) => core.location(site.ip)!,
      ),
    ).toEqual([]);
    const second = new CoreSession(core, resolver);
    expect(second.names).toEqual({ ops: expect.arrayContaining(['mine']) as unknown, graphs: ['g'] });
    const undone = ['- unregister: mine', '- no-direct: f2', '- no-livepatch: f1', '- no-graph: g'];
    const text = `version: 1\nsteps:\n${undone.join('\n')}`;
    expect(refused(text)).toMatch(/3?:\d+: no step before this one/);
    expect(done(second.run(parseSession(text, 's', second.names).operations))).toBe(true);
    expect(core.reclaim().kind).toBe('done');
    expect(machine.untouched).toBe(true);
  });
});
