/**
 * A made-up machine with conventions of its own: everything that the tool knows about a convention
 * comes from its row, so the folder of a machine is all that a new one touches.
 */
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { FtraceCore, GraphUser, type Outcome } from '../src/ftrace/index.js';
import { conventionMark } from '../src/machine/conventions.js';
import { chosen, laidPolicy } from '../src/machine/options.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { checkAcceptance } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import { load } from '../src/program/program.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { conventionFor } from '../src/tracing/inject.js';
import { capabilitiesOf } from '../src/tracing/offers.js';
import { entriesOf, graphOff } from '../src/tracing/entries.js';
import { initialState } from '../src/tracing/site-state.js';
import { planTracing } from '../src/tracing/tracing.js';
import { buildElf, stringTable, symbolRows, words } from './support/elf-builder.js';
import { FakeMachine } from './support/fake-ftrace.js';
import { errorOf } from './support/pipeline.js';
import { textOf, toyConventions, toyMachine, toyOptions } from './support/toy-machine/index.js';

const TEXT = 0x1_0000n;
const shape = { is64: true, endian: 'big' } as const;
const BODY = 0x0bad_c0de;

/** Three functions of two words each, then the symbols of a tracer, a word each. */
function image(entries: readonly string[], first = 0): Uint8Array {
  const functions = ['f', 'g', 'h'];
  const names = [...functions, ...entries];
  const table = stringTable(names);
  const code = [first, BODY, 0, BODY, 0, BODY, ...entries.map(() => BODY)];
  const symbols = names.map((_, i) => ({
    name: table.offsets[i]!,
    info: 0x12,
    section: 1,
    value: TEXT + BigInt(i < 3 ? 8 * i : 24 + 4 * (i - 3)),
    size: i < 3 ? 8n : 4n,
  }));
  return buildElf({
    ...shape,
    type: 2,
    machine: toyMachine.target.elfMachine,
    sections: [
      { name: '.text', type: 1, flags: 6, address: TEXT, contents: textOf(code), align: 8 },
      {
        name: '__patchable_function_entries',
        type: 1,
        flags: 2,
        address: 0x2_0000n,
        contents: words(shape, [TEXT, TEXT + 8n, TEXT + 16n].map(Number), 8),
        align: 8,
      },
      { name: '.symtab', type: 2, link: 4, info: 1, entrySize: 24, contents: symbolRows(shape, symbols), align: 8 },
      { name: '.strtab', type: 3, contents: table.bytes },
    ],
    segments: [
      { type: 1, flags: 5, section: 1, address: TEXT },
      { type: 1, flags: 4, section: 2, address: 0x2_0000n },
    ],
  });
}

const sitesOf = (bytes: Uint8Array): Sites => findSites(load(readElf(bytes), toyMachine));
const states = (sites: Sites): string[] => Array.from({ length: sites.count }, (_, i) => sites.state(i));
const bothEntries = ['ftrace_caller', 'ftrace_regs_caller'];

describe('a made-up machine: which convention it is', () => {
  test.each([
    ['two entries', bothEntries, 'wide'],
    ['one entry', ['ftrace_caller'], 'narrow'],
    ['the mark', [...bothEntries, conventionMark('pinned')], 'pinned'],
  ])('%s: told by the row', (_, symbols, name) => {
    expect(entriesOf(sitesOf(image(symbols)).program).kind).toBe(name);
  });

  test('capabilities are those of the row, less what the image lacks', () => {
    const rowOf = (name: string) => toyConventions.find((each) => each.name === name)!;
    const found = (symbols: readonly string[]) => capabilitiesOf(sitesOf(image(symbols)));
    expect(found(bothEntries)).toEqual(rowOf('wide').capabilities);
    expect(found(['ftrace_caller'])).toEqual(rowOf('narrow').capabilities);
    expect(found(['ftrace_caller', conventionMark('pinned')])).toMatchObject({ regs: 'none', direct: 'none' });
  });

  test('the branch of the graph tracer leads behind itself, or does not exist', () => {
    const at = 0x1_0018n;
    expect(graphOff(sitesOf(image(['ftrace_caller'])).program, at)).toBe(at + 4n);
    expect(errorOf(() => graphOff(sitesOf(image(bothEntries)).program, at)).message).toMatch(/wide have no branch/);
  });

  test('what a name from outside may be: a row, or an error that names the rows', () => {
    const sites = sitesOf(image([]));
    expect(conventionFor(sites).name).toBe('wide');
    expect(conventionFor(sites, undefined, 'narrow').name).toBe('narrow');
    const unknown = errorOf(() => conventionFor(sites, undefined, 'callops'));
    expect([unknown.code, unknown.message]).toEqual(['usage', expect.stringMatching(/only wide, narrow, pinned/)]);
  });

  test('options: what they decide and mean stands in their rows', () => {
    expect(chosen(toyOptions, 'nop-form', { 'toy-nop': 'second' })).toBe('second');
    expect(chosen(toyOptions, 'idle-ops', { 'toy-nop': 'second' })).toBeUndefined();
    expect(laidPolicy(toyOptions, { 'toy-graph': '2014' })).toEqual({ graph: '2014' });
    expect(laidPolicy(toyOptions, {})).toEqual({});
  });
});

describe('a made-up machine: sites, plan, apply, revert', () => {
  test.each([
    [undefined, [1, 1, 1]],
    ['second', [2, 2, 2]],
  ])('sites before a session, form %s', (form, expected) => {
    const original = image(bothEntries);
    const sites = sitesOf(original);
    const { bytes } = applyPlan(sites.program.image, planSites(sites, { to: initialState(sites.program, form) }));
    const text = readElf(bytes).section('.text')!;
    expect([0, 8, 16].map((at) => bytes[text.offset + at + 3])).toEqual(expected);
    expect(revert(readElf(bytes))).toEqual(original);
  });

  test('a tracer on one function: its word calls the entry, and everything comes back', () => {
    const original = image(bothEntries);
    const sites = sitesOf(original);
    const plan = planTracing(sites, {
      tracer: { kind: 'function' },
      others: 'untouched',
      selection: Uint8Array.of(0, 1, 0),
    });
    expect(plan.steps.map(({ address, after }) => [address, Buffer.from(after).toString('hex')])).toEqual([
      // Four words on: (0x18 - 0x08) / 4.
      [TEXT + 8n, 'ca000004'],
    ]);
    const { bytes } = applyPlan(sites.program.image, plan);
    expect(states(sitesOf(bytes))).toEqual(['compiled', 'call', 'compiled']);
    expect(revert(readElf(bytes))).toEqual(original);
  });

  test('bytes that are no site are refused, and nothing is written', () => {
    const sites = sitesOf(image(bothEntries, 0x1234_5678));
    const plan = planTracing(sites, { tracer: { kind: 'function' }, others: 'nop' });
    expect(plan.refusals.map(({ site }) => site)).toEqual([0]);
    expect(errorOf(() => checkAcceptance(plan, {})).code).toBe('plan-refused');
  });
});

describe('a made-up machine drives the core', () => {
  const done = (outcome: Outcome): void => {
    expect(outcome.kind === 'done' ? 'done' : outcome.reason).toBe('done');
  };
  const runs = (core: FtraceCore, machine: FakeMachine): string[][] =>
    core.records.map((record) =>
      machine.run(record).map((event) => (event.kind === 'callback' ? (event.ops ?? '?') : event.kind)),
    );

  test.each(toyConventions.map((row) => [row.name, row] as const))('%s: register, update, graph', (_, row) => {
    const machine = new FakeMachine(row.capabilities);
    const sites = sitesOf(image(bothEntries));
    const core = new FtraceCore({
      backend: machine,
      sites: ['f', 'g', 'h'].map((name, i) => ({ name, ip: sites.ip(i), siteOffset: 0n, symbolSize: 8n })),
      records: { siteBytes: 4 },
    });
    const ops = core.createOps({ name: 'first', func: 0x100n });
    done(core.setFilter(ops, 'filter', 'f'));
    done(core.register(ops));
    expect(runs(core, machine)).toEqual([['first'], [], []]);
    done(core.setFilter(ops, 'filter', 'g'));
    expect(runs(core, machine)).toEqual([[], ['first'], []]);
    const graph = new GraphUser('graph', { entry: 1n, return: 2n });
    done(core.registerGraph(graph));
    expect(runs(core, machine)[2]).toEqual(['graph']);
    done(core.unregisterGraph(graph));
    done(core.unregister(ops));
    expect(runs(core, machine)).toEqual([[], [], []]);
    const registers = core.createOps({ name: 'registers', func: 0x110n, flags: ['SAVE_REGS'] });
    expect(core.register(registers).kind).toBe(row.capabilities.regs === 'none' ? 'refused' : 'done');
  });
});
