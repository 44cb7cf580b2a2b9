/**
 * The outcome table C-OUT-1: every row on every capability profile that it can occur on, and a
 * printed table of row x profile with the reason where it cannot. Expectations are the
 * specification's, written down here by hand.
 */
import { describe, expect, test } from '@jest/globals';
import { type Content, FtraceCore, type Ops, REC, type Step } from '../src/ftrace/index.js';
import { type ProfileName, profiles } from './support/profiles.js';
import { FakeMachine } from './support/fake-ftrace.js';
import { expectedFlags, expectedText, inapplicable, type Kind, rows, tableOf } from './support/outcome-rows.js';

const OLD = 0x7000n;
const NEW = 0x8000n;

interface Bench {
  readonly core: FtraceCore;
  readonly machine: FakeMachine;
  readonly ops: Map<Kind, Ops>;
  readonly names: Map<Ops, Kind>;
}

/**
 * Kinds without a trampoline are ops that may not have one: here by a policy that gives none to
 * dynamic ones (2014).
 */
function bench(name: ProfileName): Bench {
  const machine = new FakeMachine(profiles[name]);
  const core = new FtraceCore({
    backend: machine,
    sites: [
      { ip: 0x1000n, name: 'f' },
      { ip: 0x2000n, name: 'g' },
    ],
    records: { siteBytes: 4 },
    policy: { trampolines: '2014', graph: 'multi' },
  });
  return { core, machine, ops: new Map(), names: new Map() };
}

function add({ core, ops, names }: Bench, kind: Kind): void {
  const one = core.createOps({
    name: kind,
    func: kind === 'D' ? 0n : 0x100n + BigInt(ops.size),
    flags: [
      ...(kind === 'R' || kind === 'TR' ? (['SAVE_REGS'] as const) : []),
      ...(kind.startsWith('T') || kind === 'D' ? [] : (['DYNAMIC'] as const)),
    ],
  });
  expect(core.setFilter(one, 'filter', 'f').kind).toBe('done');
  expect(kind === 'D' ? core.registerDirect(one, OLD) : core.register(one)).toMatchObject({ kind: 'done' });
  ops.set(kind, one);
  names.set(one, kind);
}

function text({ names }: Bench, content: Content): string {
  switch (content.kind) {
    case 'regs-caller':
      return 'regs';
    case 'trampoline':
      return names.get(content.ops!)!;
    case 'direct':
      return content.address === NEW ? 'new' : 'direct';
    default:
      return content.kind;
  }
}

const names = Object.keys(profiles) as ProfileName[];

describe('C-OUT-1 outcome table', () => {
  for (const each of rows) {
    const what = `${each.attached.join(',') || '-'} ${each.action}`;
    test(`C-OUT-1 row ${each.row}: ${what}`, () => {
      let ran = 0;
      for (const name of names) {
        if (inapplicable(each, name) !== null) continue;
        ran++;
        const made = bench(name);
        const { core, machine, ops, names: kinds } = made;
        for (const kind of each.attached) add(made, kind);
        const site = core.records[0]!;
        const before = text(made, machine.content(site));
        const start = machine.log.length;
        const kind = each.action.slice(1) as Kind;
        if (each.action === 'modify') expect(core.modifyDirect(ops.get('D')!, NEW).kind).toBe('done');
        else if (each.action.startsWith('+')) add(made, kind);
        else {
          const one = ops.get(kind)!;
          const outcome = kind === 'D' ? core.unregisterDirect(one, OLD) : core.unregister(one);
          expect(outcome).toMatchObject({ kind: 'done' });
        }
        const stores = machine.log
          .slice(start)
          .filter((step): step is Extract<Step, { kind: 'site' }> => step.kind === 'site' && step.site === site);
        const seen = [before, ...stores.map((step) => text(made, step.after))];
        expect([name, seen]).toEqual([name, expectedText(each, name)]);
        const flags = (['REGS', 'TRAMP', 'DIRECT'] as const).filter((flag) => site.has(REC[flag])).sort();
        expect([name, site.count, flags]).toEqual([name, each.count, expectedFlags(each, name)]);
        // Of three kinds of change the right one is told: on, off, other target.
        const kindsOfUpdate = stores.map((step) => step.update);
        expect(kindsOfUpdate).toEqual(
          stores.map((step) =>
            step.before.kind === 'nop' ? 'make-call' : step.after.kind === 'nop' ? 'make-nop' : 'modify-call',
          ),
        );
        if (each.row === 6 && !profiles[name].callOps) expect(machine.callees.plain.kind).toBe('list');
        if (each.row === 22) {
          expect([...machine.direct.values()]).toEqual([NEW]);
          expect(machine.run(site).at(-1)).toEqual({ kind: 'direct', address: NEW });
        }
        expect(kinds.size).toBeGreaterThan(0);
      }
      expect(ran).toBeGreaterThan(0);
    });
  }

  test('C-OUT-1 row 4: REGS_EN is set although the text calls the trampoline', () => {
    const made = bench('x86-64');
    add(made, 'TR');
    const site = made.core.records[0]!;
    expect([site.has(REC.REGS_EN), site.has(REC.TRAMP_EN), made.machine.content(site).kind]).toEqual([
      true,
      true,
      'trampoline',
    ]);
  });

  test('C-OUT-1 every row has a target, and the table of rows and targets is complete', () => {
    expect([...new Set(rows.map((each) => each.row))]).toEqual(Array.from({ length: 22 }, (_, index) => index + 1));
    const missing = new Set<string>();
    const table = tableOf(names, (row, name) => {
      const why = inapplicable(row, name as ProfileName);
      if (why !== null) missing.add(why);
      return why;
    });
    for (const row of rows) expect(names.some((name) => inapplicable(row, name) === null)).toBe(true);
    process.stdout.write(
      `\nC-OUT-1, rows and where they occur\n${table}\ni386, RV32 and arm of 32 bits: recognised, every row refused (ENODEV)\n`,
    );
    expect(missing.size).toBe(4);
  });
});
