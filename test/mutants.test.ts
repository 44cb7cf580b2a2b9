/** The proof is itself proved (PV-5): mutants of what is laid in, and what a proof says of them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';
import { breakages } from '../scripts/breakages.js';
import { imagesFor, isKnown, writesFiles } from '../scripts/sabotage-prove.js';
import { TRACER_STATES } from '../src/prove/tracer-states.js';
import { isLong } from './support/long.js';
import { CodeFlow } from './support/mutant-flow.js';
import { mutantArguments } from './support/mutant-arguments.js';
import { makeImage, mutantImages } from './support/mutant-images.js';
import { MutantRun } from './support/mutant-run.js';
import { readRows } from './support/mutant-page.js';
import { root } from './support/pipeline.js';
import { type MutantState, MutantTable } from './support/mutant-table.js';
import { type MutantKind, mutantsOf } from './support/mutants.js';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const archNamed = (target: string) => arches.find(({ target: { id } }) => id === target)!;

// Encodings of GNU as: the instruction, its nop, registers exchanged, immediate changed.
test.each([
  ['arm64', 'add x0,x1,x2', '2000028b', '1f2003d5', '4000018b', null],
  ['arm64', 'ldr x0,[x1,#8]', '200440f9', '1f2003d5', '010440f9', '200840f9'],
  ['arm64', 'ldp x0,x1,[sp,#16]', 'e00741a9', '1f2003d5', '207c41a9', 'e08741a9'],
  ['ppc64-elfv2-le', 'std r4,8(r1)', '080081f8', '00000060', '080024f8', '0c0081f8'],
  ['ppc32', 'stw r4,8(r1)', '90810008', '60000000', '90240008', '90810009'],
  ['riscv64', 'sd a0,8(sp)', '2334a100', '13000000', '23342500', 'a334a100'],
  ['riscv64', 'addi a0,a1,4', '13854500', '13000000', '93054500', '13855500'],
  ['x86-64', 'mov %rdi,8(%rsi)', '48897e08', '90909090', '48897708', '48897e09'],
  ['x86-64', 'mov %r8,%rdi', '4c89c7', '909090', '4989f8', null],
  ['x86-64', 'push %r12', '4154', '9090', '4155', null],
  ['x86-64', 'add $8,%rsp', '4883c408', '90909090', '4883c508', '4883c409'],
] as const)('PV-5: %s: what can be broken in %s', (target, _, code, nop, registers, immediate) => {
  const made = new Map(
    mutantsOf(target, archNamed(target).isa, Buffer.from(code, 'hex')).map(({ kind, after }) => [kind, hex(after)]),
  );
  const wanted: [MutantKind, string | null][] = [
    ['nop', nop],
    ['registers', registers],
    ['immediate', immediate],
  ];
  if (immediate === null) made.delete('immediate');
  expect(made).toEqual(new Map(wanted.filter((each) => each[1] !== null)));
});

test('PV-5: neighbours change places, and a nop is not broken', () => {
  const { isa } = archNamed('x86-64');
  // push %r12; nop
  const [swap] = mutantsOf('x86-64', isa, Buffer.from('415490', 'hex')).filter(({ kind }) => kind === 'swap');
  expect([hex(swap!.before), hex(swap!.after)]).toEqual(['415490', '904154']);
  expect(
    mutantsOf('arm64', archNamed('arm64').isa, Buffer.from('1f2003d5', 'hex')).map(({ kind }) => kind),
  ).not.toContain('nop');
});

// GNU as:
// cbz x0,1f; ret; nop; 1: cbz x1,2f; mov x2,#1; str x2,[x3]; b 3f; nop; 2: mov x2,#2; 3: ret
const ways = '600000b4c0035fd61f2003d5a10000b4220080d2620000f9030000141f2003d5420080d2c0035fd6';

test('PV-5: code that no way leads to, and code of ways that come to one place', () => {
  const bytes = Buffer.from(ways, 'hex');
  const range = { start: 0n, end: BigInt(bytes.length), bytes };
  const flow = new CodeFlow(archNamed('arm64').isa, [range], [0n]);
  const all = Array.from({ length: bytes.length / 4 }, (_, i) => BigInt(4 * i));
  expect(all.filter((at) => flow.isNever(at))).toEqual([8n, 28n]);
  // All ways through `mov x2,#1` come to the store, and the branch behind it comes from there.
  expect([...flow.onlyWith(0n, new Set([20n]))].sort()).toEqual([16n, 20n, 24n].sort());
  expect(flow.onlyWith(0n, new Set())).toEqual(new Set());
});

test('PV-5: no code that does the same is found, most of what is alike is such code', () => {
  const image = mutantImages.find(({ name }) => name === 'riscv64/g3c function')!;
  const table = new MutantTable({ index: 1, of: 20 });
  table.add(image);
  const [found, alike] = (['found', 'alike'] as const).map((wanted) =>
    [...table.states.values()].filter(({ standing }) => standing === wanted),
  ) as [MutantState[], MutantState[]];
  expect(found.length).toBeGreaterThan(10);
  table.ask(image, (state) => found.includes(state) || alike.includes(state));
  expect(table.contradictions()).toEqual([]);
  expect(alike.filter(({ sameIn }) => sameIn !== undefined).length).toBeGreaterThan(alike.length / 2);
});

/** Code that does the same, as registers hold the same, and code that does not. */
const known = [
  // li a3,239, which decides what callers get.
  ['riscv64/g0 graph', 'elftrace_g0_site', 4, 'immediate', false],
  // mr r3,r9, where they hold the same.
  ['ppc64-elfv1/pg+probes beside-graph', 'elftrace_graph_return', 172, 'nop', true],
] as const;
test.each(isLong ? known : known.slice(0, 1))(
  'PV-5: %s: what is known of registers in %s+%d',
  (name, symbol, offset, kind, isSame) => {
    const pair = makeImage(mutantImages.find((each) => each.name === name)!);
    if (typeof pair === 'string') throw new Error(pair);
    const run = new MutantRun(pair.original, pair.patched, []);
    const tested = [...run.unreached()].find(
      (each) => each.symbol === symbol && each.offset === offset && each.kind === kind,
    );
    expect(run.isSame(tested!)).toBe(isSame);
  },
);

// Two with tables of jumps: behind the jump, and among constants.
const some = [0, 5, 10, 15];
// What is not mapped is not fetched: its function returns from the middle.
const UNMAPPED = TRACER_STATES.indexOf('unmapped');
const strays: readonly (readonly [string, readonly number[]])[] = [
  ['riscv64/g2 graph-list', some],
  ['ppc64-elfv2-le/regs+probes probe-arguments', some],
  ['ppc32/regs+probes probe-arguments', some],
  ['riscv64/g2+probes probe-faults', [UNMAPPED]],
  ['x86-64/modern+probes probe-chains', [UNMAPPED]],
];
test.each(strays)('PV-5: %s: trials go no way that the ways through the code do not have', (image, numbers) => {
  const pair = makeImage(mutantImages.find(({ name }) => name === image)!);
  if (typeof pair === 'string') throw new Error(pair);
  const { steps, found } = new MutantRun(pair.original, pair.patched, []).strays(numbers);
  expect(steps).toBeGreaterThan(1000);
  expect(found).toEqual([]);
});

/** A tenth of the mutants, the same in each run: that of docs/mutants.md. */
const share = { index: 1, of: 10 };
const OBJECT = 'arm64/regs';
/** Objects, and images besides the first one in which what is left is tried. */
const images = [
  [OBJECT, []],
  ['riscv64/g2', ['counter']],
  ['ppc64-elfv1/regs', ['livepatch', 'graph']],
  ['x86-64/modern', ['nested-list', 'popped', 'kernel-function']],
  ['ppc32/regs', []],
] as const;
/** Mutants of these images that are proved, and have no argument yet. */
const left = readFileSync(join(root, 'test', 'fixtures', 'mutants-left.txt'), 'utf8')
  .trim()
  .split('\n');

test.each(isLong ? images : images.slice(0, 1))(
  'PV-5: mutants of %s are found, as they were; one more without an argument is an error',
  (object, further) => {
    const imageOf = (way: string) => mutantImages.find(({ name }) => name === `${object} ${way}`)!;
    const table = new MutantTable(share);
    table.add(imageOf('function'));
    for (const way of further) table.addBare(imageOf(way));
    expect([...table.left]).toEqual([]);
    expect(table.bare()).toEqual(left.filter((key) => table.states.has(key)));
    expect(table.result().rows[object]!.found).toBeGreaterThan(10);
  },
);

test('PV-5: the page accounts for each mutant', () => {
  const rows = readRows();
  expect(rows[OBJECT]?.found).toBeGreaterThan(10);
  for (const [object, { made, found, open, alike, argued, drawn, bare, idle }] of Object.entries(rows)) {
    const sum = Object.values(argued).reduce((all, count) => all + count, found + open + alike + drawn + bare + idle);
    expect([object, sum]).toEqual([object, made]);
  }
  const names = mutantArguments.map(({ name }) => name).sort();
  const used = new Set(Object.values(rows).flatMap(({ argued }) => Object.keys(argued)));
  expect(names).toEqual(expect.arrayContaining([...used]));
});

test('PV-5: breakages of code that writes files have images to show in', () => {
  const breakage = { name: '', find: '', replace: '', test: '' };
  expect(writesFiles({ ...breakage, file: 'arch-arm64/sites.js' })).toBe(true);
  expect(writesFiles({ ...breakage, file: 'arch-arm64/lift.js' })).toBe(false);
  // What may change a file is asked against `prove`; of each room it is said whether it may.
  expect(breakages.filter((each) => !isKnown(each)).map(({ file }) => file)).toEqual([]);
  const images = imagesFor({ ...breakage, file: 'arch-arm64/sites.js' });
  expect(images.length).toBeGreaterThan(8);
  expect(images.every(({ name }) => name.startsWith('arm64/'))).toBe(true);
  const targets = new Set(imagesFor({ ...breakage, file: 'patch/plan.js' }).map(({ name }) => name.split('/')[0]));
  // Programs of these, and modules of three.
  expect([...targets].sort()).toEqual(['arm64', 'ppc32', 'ppc64-elfv1', 'riscv64', 'x86-64']);
});
