/**
 * The outcome table A6.3: every row on every capability profile that it can occur on, and a printed table of row x profile with the reason where it
 * cannot. Expectations are the specification's, written down here by hand.
 */
import { describe, expect, test } from '@jest/globals';
import {
  type Content,
  FtraceCore,
  type Ops,
  type ProfileName,
  profiles,
  REC,
  type Step,
} from '../src/ftrace/core/index.js';
import { FakeMachine } from './support/fake-ftrace.js';

/** Kinds of ops of the table; R with T is a trampoline of an ops that saves registers. */
type Kind = 'S' | "S'" | 'R' | 'T' | "T'" | 'TR' | 'D';

interface Row {
  readonly row: number;
  readonly attached: readonly Kind[];
  readonly action: `+${Kind}` | `-${Kind}` | 'modify';
  readonly count: number;
  readonly flags: readonly ('REGS' | 'TRAMP' | 'DIRECT')[];
  /** What the site's text becomes, one after the other, the first being what it is before. */
  readonly text: readonly string[];
}

const DIRECT = ['DIRECT', 'TRAMP', 'REGS'] as const;

const rows: readonly Row[] = [
  { row: 1, attached: [], action: '+S', count: 1, flags: [], text: ['nop', 'caller'] },
  { row: 2, attached: [], action: '+R', count: 1, flags: ['REGS'], text: ['nop', 'regs'] },
  { row: 3, attached: [], action: '+T', count: 1, flags: ['TRAMP'], text: ['nop', 'T'] },
  { row: 4, attached: [], action: '+TR', count: 1, flags: ['TRAMP', 'REGS'], text: ['nop', 'TR'] },
  { row: 5, attached: [], action: '+D', count: 1, flags: DIRECT, text: ['nop', 'direct'] },
  { row: 6, attached: ['S'], action: "+S'", count: 2, flags: [], text: ['caller'] },
  { row: 7, attached: ['S'], action: '+R', count: 2, flags: ['REGS'], text: ['caller', 'regs'] },
  { row: 8, attached: ['T'], action: '+S', count: 2, flags: [], text: ['T', 'caller'] },
  { row: 9, attached: ['T'], action: '+R', count: 2, flags: ['REGS'], text: ['T', 'regs'] },
  { row: 10, attached: ['T'], action: "+T'", count: 2, flags: [], text: ['T', 'caller'] },
  { row: 11, attached: ['D'], action: '+S', count: 2, flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
  { row: 11, attached: ['D'], action: '+R', count: 2, flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
  { row: 11, attached: ['D'], action: '+T', count: 2, flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
  { row: 12, attached: ['S'], action: '+D', count: 2, flags: ['DIRECT', 'REGS'], text: ['caller', 'regs'] },
  { row: 12, attached: ['R'], action: '+D', count: 2, flags: ['DIRECT', 'REGS'], text: ['regs'] },
  { row: 12, attached: ['T'], action: '+D', count: 2, flags: ['DIRECT', 'REGS'], text: ['T', 'regs'] },
  { row: 13, attached: ['S', 'R'], action: '-R', count: 1, flags: [], text: ['regs', 'caller'] },
  { row: 14, attached: ['S', 'R'], action: '-S', count: 1, flags: ['REGS'], text: ['regs'] },
  { row: 15, attached: ['T', 'S'], action: '-S', count: 1, flags: ['TRAMP'], text: ['caller', 'T'] },
  { row: 16, attached: ['T', 'S'], action: '-T', count: 1, flags: [], text: ['caller'] },
  { row: 17, attached: ['T', "T'"], action: "-T'", count: 1, flags: ['TRAMP'], text: ['caller', 'T'] },
  { row: 18, attached: ['D', 'S'], action: '-S', count: 1, flags: DIRECT, text: ['regs', 'direct'] },
  { row: 19, attached: ['D', 'S'], action: '-D', count: 1, flags: [], text: ['regs', 'caller'] },
  { row: 20, attached: ['S'], action: '-S', count: 0, flags: [], text: ['caller', 'nop'] },
  { row: 20, attached: ['R'], action: '-R', count: 0, flags: [], text: ['regs', 'nop'] },
  { row: 20, attached: ['T'], action: '-T', count: 0, flags: [], text: ['T', 'nop'] },
  { row: 20, attached: ['D'], action: '-D', count: 0, flags: [], text: ['direct', 'nop'] },
  { row: 21, attached: ['D'], action: 'modify', count: 1, flags: DIRECT, text: ['direct', 'regs', 'new'] },
  { row: 22, attached: ['D', 'S'], action: 'modify', count: 2, flags: ['DIRECT', 'REGS'], text: ['regs'] },
];

const OLD = 0x7000n;
const NEW = 0x8000n;

/** Why a row cannot occur with a profile; null when it can. */
function inapplicable({ attached, action }: Row, name: ProfileName): string | null {
  const profile = profiles[name];
  const kinds = [...attached, action.slice(1)];
  if (kinds.some((kind) => kind === 'R' || kind === 'TR') && profile.regs === 'none') {
    return 'EINVAL: no entry saves registers';
  }
  if ((attached.includes('D') || action === '+D') && profile.direct === 'none')
    return 'ENODEV: no slot for a direct caller';
  if (kinds.some((kind) => kind.startsWith('T')) && !profile.trampolines) {
    return profile.callOps ? 'per-callsite ops instead of trampolines' : 'no private trampolines on this machine';
  }
  return null;
}

interface Bench {
  readonly core: FtraceCore;
  readonly machine: FakeMachine;
  readonly ops: Map<Kind, Ops>;
  readonly names: Map<Ops, Kind>;
}

/** Kinds without a trampoline are ops that may not have one: here by a policy that gives none to dynamic ones (2014). */
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

/** The row's text where there is no entry for registers, or only one entry. */
function expectedText({ text: texts }: Row, name: ProfileName): string[] {
  const here = texts.map((each) => (each === 'regs' && profiles[name].regs !== 'separate' ? 'caller' : each));
  return here.filter((each, index) => index === 0 || each !== here[index - 1]);
}

function expectedFlags({ flags, attached, action }: Row, name: ProfileName): string[] {
  const { regs } = profiles[name];
  // Where direct ops need no register entry they do not ask for registers either.
  const asks = [...attached, action.slice(1)].includes('R');
  return flags.filter((flag) => flag !== 'REGS' || regs === 'separate' || (regs === 'same' && asks)).sort();
}

const names = Object.keys(profiles) as ProfileName[];

describe('A6.3 outcome table', () => {
  for (const each of rows) {
    const what = `${each.attached.join(',') || '-'} ${each.action}`;
    test(`A6.3 row ${each.row}: ${what}`, () => {
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

  test('A6.3 row 4: REGS_EN is set although the text calls the trampoline', () => {
    const made = bench('x86-64');
    add(made, 'TR');
    const site = made.core.records[0]!;
    expect([site.has(REC.REGS_EN), site.has(REC.TRAMP_EN), made.machine.content(site).kind]).toEqual([
      true,
      true,
      'trampoline',
    ]);
  });

  test('A6.3 every row has a target, and the table of rows and targets is complete', () => {
    const lines = [`row | ${names.join(' | ')}`];
    const reasons = new Map<string, number>();
    const numbers = [...new Set(rows.map((each) => each.row))];
    expect(numbers).toEqual(Array.from({ length: 22 }, (_, index) => index + 1));
    for (const number of numbers) {
      const variants = rows.filter((each) => each.row === number);
      const cells = names.map((name) => {
        const whys = variants.map((each) => inapplicable(each, name));
        if (whys.includes(null)) return whys.every((why) => why === null) ? 'yes' : 'partly';
        const why = whys[0]!;
        if (!reasons.has(why)) reasons.set(why, reasons.size + 1);
        return `no (${String(reasons.get(why))})`;
      });
      expect(cells.some((cell) => cell === 'yes')).toBe(true);
      lines.push(`${String(number).padStart(3)} | ${cells.join(' | ')}`);
    }
    for (const [why, index] of reasons) lines.push(`(${index}) ${why}`);
    process.stdout.write(`\nA6.3, rows and where they occur\n${lines.join('\n')}\n`);
    expect(reasons.size).toBe(4);
  });
});
