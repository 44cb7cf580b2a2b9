/**
 * The outcome table C-OUT-1 on arm64, executed: every row on every kind of entry, on sample
 * programs that run after each. What a site calls, what the word in front of the function names,
 * who is called how often; and for rows that do not occur the error that says why.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { startProcess } from '../src/guest/index.js';
import type { Ops, Outcome } from '../src/ftrace/index.js';
import { withRuntime } from '../src/tracing/inject.js';
import { entryPoint } from '../src/program/entry-points.js';
import { Session } from '../src/tracing/session.js';
import { OPS_WORDS } from '../src/runtime/index.js';
import { openBytes, readSample } from './support/pipeline.js';

/**
 * S: plain, R: with SAVE_REGS, D: a direct caller, T: one that would like a private trampoline,
 * which no arm64 has.
 */
type Kind = 'S' | "S'" | 'R' | 'D' | 'T' | "T'";

interface Row {
  readonly row: number;
  readonly attached: readonly Kind[];
  readonly action: `+${Kind}` | `-${Kind}` | 'modify';
  /** What the site calls, from before the action on. */
  readonly text: readonly string[];
  /** The word in front of the function afterwards. */
  readonly word: string;
}

const rows: readonly Row[] = [
  { row: 1, attached: [], action: '+S', text: ['nop', 'caller'], word: 'S' },
  { row: 2, attached: [], action: '+R', text: ['nop', 'regs'], word: 'R' },
  { row: 5, attached: [], action: '+D', text: ['nop', 'direct'], word: 'D' },
  { row: 6, attached: ['S'], action: "+S'", text: ['caller'], word: 'list' },
  { row: 7, attached: ['S'], action: '+R', text: ['caller', 'regs'], word: 'list' },
  { row: 11, attached: ['D'], action: '+S', text: ['direct', 'regs'], word: 'list' },
  { row: 11, attached: ['D'], action: '+R', text: ['direct', 'regs'], word: 'list' },
  { row: 12, attached: ['S'], action: '+D', text: ['caller', 'regs'], word: 'list' },
  { row: 12, attached: ['R'], action: '+D', text: ['regs'], word: 'list' },
  { row: 13, attached: ['S', 'R'], action: '-R', text: ['regs', 'caller'], word: 'S' },
  { row: 14, attached: ['S', 'R'], action: '-S', text: ['regs'], word: 'R' },
  { row: 18, attached: ['D', 'S'], action: '-S', text: ['regs', 'direct'], word: 'D' },
  { row: 19, attached: ['D', 'S'], action: '-D', text: ['regs', 'caller'], word: 'S' },
  { row: 20, attached: ['S'], action: '-S', text: ['caller', 'nop'], word: 'nop' },
  { row: 20, attached: ['R'], action: '-R', text: ['regs', 'nop'], word: 'nop' },
  { row: 20, attached: ['D'], action: '-D', text: ['direct', 'nop'], word: 'nop' },
  { row: 21, attached: ['D'], action: 'modify', text: ['direct', 'regs', 'new'], word: 'D' },
  { row: 22, attached: ['D', 'S'], action: 'modify', text: ['regs'], word: 'list' },
];
/**
 * Rows about private trampolines: the ops gets none and says so; then the rows of plain ops hold.
 */
const trampolineRows = [3, 4, 8, 9, 10, 15, 16, 17];

type Flavour = 'callops' | 'args' | 'regs' | 'pg';
const samples: readonly (readonly [Flavour, string])[] = [
  ['callops', 'arm64/program-patchable-4-2'],
  ['callops', 'arm64/program-patchable-4-2-bti'],
  ['args', 'arm64/program-patchable-2'],
  ['args', 'arm64/program-patchable-2-bti'],
  ['regs', 'arm64/program-patchable-2'],
  ['pg', 'arm64/program-mcount'],
];

/** Why a row does not occur; null where it does. */
function absent({ attached, action }: Row, flavour: Flavour): { errno: string; reason: RegExp } | null {
  for (const kind of [...attached, action === 'modify' ? 'D' : action.slice(1)]) {
    if (flavour === 'pg' && kind === 'R') return { errno: 'EINVAL', reason: /no entry of the target saves them/ };
    if (flavour === 'pg' || flavour === 'regs') {
      if (kind === 'D') return { errno: 'ENODEV', reason: /no direct calls/ };
    }
  }
  return null;
}

interface Bench {
  readonly session: Session;
  readonly ops: Map<Kind, Ops>;
  /**
   * Two places that do what a direct caller must: the second behind the landing pad of the first.
   */
  readonly callers: readonly [bigint, bigint];
}

const FUNCTION = 'leaf';

function bench(flavour: Flavour, sample: string): Bench {
  const image = withRuntime(openBytes(readSample(sample)).sites, undefined, undefined, flavour);
  const session = Session.open(image.bytes, archOf(image.header));
  const caller = session.functionAddress('elftrace_direct_stub') ?? 0n;
  return { session, ops: new Map(), callers: [caller, caller + 4n] };
}

function add({ session, ops, callers }: Bench, kind: Kind): Outcome {
  const { core } = session;
  const func = kind === 'D' ? 0n : session.functionAddress('elftrace_counter')!;
  const one = core.createOps({ name: kind, func, flags: kind === 'R' ? ['SAVE_REGS'] : [] });
  expect(core.setFilter(one, 'filter', FUNCTION)).toMatchObject({ kind: 'done' });
  ops.set(kind, one);
  return kind === 'D' ? core.registerDirect(one, callers[0]) : core.register(one);
}

function act(made: Bench, action: Row['action']): Outcome {
  const { session, ops, callers } = made;
  if (action === 'modify') return session.core.modifyDirect(ops.get('D')!, callers[1]);
  const kind = action.slice(1) as Kind;
  if (action.startsWith('+')) return add(made, kind);
  const one = ops.get(kind)!;
  ops.delete(kind);
  return kind === 'D' ? session.core.unregisterDirect(one, callers[0]) : session.core.unregister(one);
}

const siteOf = ({ session }: Bench) => session.core.records.find(({ name }) => name === FUNCTION)!;

function contentName({ callers }: Bench, content: { readonly kind: string; readonly address?: bigint }): string {
  if (content.kind === 'regs-caller') return 'regs';
  return content.kind === 'direct' && content.address === callers[1] ? 'new' : content.kind;
}

/** What really is there: read from the bytes. */
function siteNow(made: Bench): string {
  const read = made.session.backend.read({ kind: 'site', site: siteOf(made) });
  return read.kind === 'site' ? contentName(made, read.content) : read.kind;
}

function wordNow(made: Bench): string {
  const read = made.session.backend.read({ kind: 'literal', site: siteOf(made) });
  if (read.kind !== 'literal') return read.kind;
  const { literal } = read;
  return literal.kind === 'ops' ? literal.ops.name : literal.kind.replace('-ops', '');
}

interface Ran {
  readonly output: string;
  readonly counts: Readonly<Record<string, number>>;
  readonly old: number;
  readonly new: number;
  readonly hits: number;
}

function run({ session, ops, callers }: Bench, end = 'exit'): Ran {
  const { image, arch, program } = openBytes(session.bytes());
  if (arch.emulation.kind !== 'ir') throw new Error('arm64 is not executed');
  let output = '';
  const { machine } = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    onOutput: (_fd, chunk) => (output += new TextDecoder().decode(chunk)),
  });
  const seen = new Map<bigint, number>();
  const count = (address: bigint): void => {
    machine.hook(address, () => {
      seen.set(address, (seen.get(address) ?? 0) + 1);
      return 'continue';
    });
  };
  const at = entryPoint(program, FUNCTION)!.identity;
  for (const address of callers[0] === 0n ? [at] : [at, ...callers]) count(address);
  expect(machine.run({ budget: 20_000_000 })).toMatchObject({ kind: end });
  const counts: Record<string, number> = {};
  for (const [kind, one] of ops) {
    if (kind === 'D') continue;
    const place = session.backend.addressOf(one) + BigInt(8 * OPS_WORDS.private);
    counts[kind] = Number(machine.readWord(place, 8));
  }
  const times = (address: bigint): number => seen.get(address) ?? 0;
  const old = times(callers[0]);
  return {
    output: output.replace(/^trace=.*$/m, ''),
    counts,
    old,
    new: times(callers[1]) - old,
    hits: times(at),
  };
}

/** The row's text where one entry serves both wishes. */
function expectedText({ text }: Row, flavour: Flavour): string[] {
  const here = text.map((each) => (each === 'regs' && flavour !== 'regs' ? 'caller' : each));
  return here.filter((each, i) => i === 0 || each !== here[i - 1]);
}

const table = new Map<string, Map<number, string>>();

describe.each(samples)('C-OUT-1 executed: %s, %s', (flavour, sample) => {
  const plain = run(bench(flavour, sample));
  const cells = new Map<number, string>();
  table.set(`${flavour}${sample.endsWith('-bti') ? '-bti' : ''}`, cells);

  test.each(rows)('row $row: $attached $action', (row) => {
    const why = absent(row, flavour);
    const made = bench(flavour, sample);
    if (why !== null) {
      const outcomes = [...row.attached.map((kind) => add(made, kind)), act(made, row.action)];
      expect(outcomes.find((each) => each.kind !== 'done')).toMatchObject({
        kind: 'refused',
        errno: why.errno,
        reason: expect.stringMatching(why.reason),
      });
      cells.set(row.row, cells.get(row.row) ?? why.errno);
      return;
    }
    for (const kind of row.attached) expect(add(made, kind)).toMatchObject({ kind: 'done', warnings: [] });
    const before = siteNow(made);
    const outcome = act(made, row.action);
    if (outcome.kind !== 'done') throw new Error(`${outcome.kind}: ${outcome.reason}`);
    const site = siteOf(made);
    const stored = outcome.steps.flatMap((step) =>
      step.kind === 'site' && step.site === site ? [contentName(made, step.after)] : [],
    );
    expect([before, ...stored]).toEqual(expectedText(row, flavour));
    expect(siteNow(made)).toBe(expectedText(row, flavour).at(-1));
    if (flavour === 'callops') expect(wordNow(made)).toBe(row.word);
    if (row.row === 22 && sample.endsWith('-bti')) {
      // The entry goes there by br x17, and the second place has no landing pad; in row 21 the site
      // called it by bl.
      run(made, 'trap');
      cells.set(row.row, 'yes');
      return;
    }
    const { output, counts, old, new: fresh, hits } = run(made);
    expect([output, hits]).toEqual([plain.output, plain.hits]);
    expect(counts).toEqual(
      Object.fromEntries([...made.ops.keys()].filter((kind) => kind !== 'D').map((kind) => [kind, hits])),
    );
    const direct = made.ops.has('D') ? hits : 0;
    expect([old, fresh]).toEqual(row.action === 'modify' ? [0, direct] : [direct, 0]);
    cells.set(row.row, 'yes');
  });

  test('rows 3, 4, 8, 9, 10, 15, 16, 17: no private trampolines, the reason names what serves instead', () => {
    const made = bench(flavour, sample);
    expect(add(made, 'T')).toMatchObject({ kind: 'done' });
    expect([siteNow(made), made.ops.get('T')!.trampoline]).toEqual(['caller', null]);
    const { trampolines } = made.session.sites.program.arch;
    expect(trampolines).toMatchObject({ kind: 'none', reason: expect.stringMatching(/per-callsite ops/) });
    for (const row of trampolineRows) cells.set(row, 'no private trampolines');
  });
});

test('C-OUT-1: every row has its answer for every entry of arm64', () => {
  const numbers = Array.from({ length: 22 }, (_, i) => i + 1);
  const names = [...table.keys()];
  const lines = numbers.map((row) =>
    [String(row), ...names.map((name) => table.get(name)!.get(row) ?? '')].join(' | '),
  );
  process.stdout.write(`row | ${names.join(' | ')}\n${lines.join('\n')}\n`);
  expect(lines.filter((line) => line.endsWith('| ') || line.includes('|  |'))).toEqual([]);
});
