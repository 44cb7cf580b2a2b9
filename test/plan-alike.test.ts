/** Sites that are planned together are planned as each is by itself. */
import { describe, expect, test } from '@jest/globals';
import { x86Object } from '../bench/inputs.js';
import type { Plan, PlanRequest, Step } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import { editsOf, planWith } from '../src/patch/step-columns.js';
import { planUntrace } from '../src/patch/untrace.js';
import type { Sites } from '../src/sites/sites.js';
import { openBytes } from './support/pipeline.js';

const SITES = 120;

function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 4_294_967_296) * below);
  };
}

/** An object of many sites, in which some bytes of code and of relocations are others. */
function changedObject(random: (below: number) => number): Uint8Array {
  const bytes = x86Object(SITES);
  const { image } = openBytes(bytes);
  const [text, rela] = [image.section('.text')!, image.section('.rela.text')!];
  for (let left = random(12); left > 0; left--) {
    const row = rela.offset + 24 * random(SITES);
    const kind = random(4);
    // An address nearby or next to the site before it, a type (2 is PC32, 4 PLT32), an addend.
    if (kind === 0) bytes[row] = bytes[row]! + random(3);
    if (kind === 1) bytes[row + 8] = [0, 2, 4, 42][random(4)]!;
    if (kind === 2) bytes[row + 16] = 0xfc - random(2);
    if (kind === 3)
      bytes[text.offset + Number(openBytes(bytes).sites.offset[random(SITES)]!) + random(6)] = random(256);
  }
  return bytes;
}

/** Steps and refusals of a plan, and its counts. */
const told = ({ steps, refusals, selected, changed, unchanged }: Plan) => ({
  steps,
  refusals,
  counts: [selected, changed, unchanged],
});

/** The plans of single sites as one. */
function oneByOne(sites: Sites, request: PlanRequest): ReturnType<typeof told> {
  const plans = Array.from({ length: sites.count }, (_, i) => {
    const selection = new Uint8Array(sites.count);
    if (request.selection?.[i] !== 0) selection[i] = 1;
    return planSites(sites, { ...request, selection });
  });
  const sum = (key: 'selected' | 'changed' | 'unchanged') => plans.reduce((total, plan) => total + plan[key], 0);
  return {
    steps: plans.flatMap((plan) => plan.steps).sort((a, b) => a.fileOffset - b.fileOffset),
    refusals: plans.flatMap((plan) => plan.refusals),
    counts: [sum('selected'), sum('changed'), sum('unchanged')],
  };
}

describe('sites of one object', () => {
  test('F-2 whatever some of them hold', () => {
    const random = seeded(3);
    let refused = 0;
    for (let round = 0; round < 60; round++) {
      const { sites } = openBytes(changedObject(random));
      const plan = planSites(sites, { to: { kind: 'nop' } });
      refused += plan.refusals.length;
      // Two sites that claim the same bytes are the business of the plan as a whole.
      if (plan.refusals.some(({ code }) => code === 'overlap')) continue;
      expect(told(plan)).toEqual(oneByOne(sites, { to: { kind: 'nop' } }));
    }
    expect(refused).toBeGreaterThan(30);
  });

  test('whichever are selected', () => {
    const random = seeded(4);
    const { sites } = openBytes(x86Object(SITES));
    for (let round = 0; round < 20; round++) {
      const selection = Uint8Array.from({ length: SITES }, () => (random(4) === 0 ? 0 : 1));
      const request: PlanRequest = { to: { kind: 'nop' }, selection };
      expect(told(planSites(sites, request))).toEqual(oneByOne(sites, request));
    }
  });

  test('wherever they may not be written', () => {
    const { image, sites } = openBytes(x86Object(SITES));
    for (const name of ['.text', '.rela.text']) {
      const { offset, size } = image.section(name)!;
      const readonlyRanges = [{ start: offset + (size >> 1), end: offset + (size >> 1) + 40 }];
      const plan = planSites(sites, { to: { kind: 'nop' }, readonlyRanges });
      expect(plan.refusals.length).toBeGreaterThan(0);
      expect(told(plan)).toEqual(oneByOne(sites, { to: { kind: 'nop' }, readonlyRanges }));
    }
  });

  test('are steps of two plans that add others to them', () => {
    const { image, sites } = openBytes(x86Object(SITES));
    const plan = planSites(sites, { to: { kind: 'nop' } });
    const ends = [2, 1].map((left) => image.bytes.length - left);
    const more = ends.map((fileOffset): Step => {
      const about = { part: 'header', site: -1, section: '', address: 0n, rule: 'C-INIT-1' } as const;
      return { kind: 'table', ...about, fileOffset, before: Uint8Array.of(0), after: Uint8Array.of(1) };
    });
    const all = more.map((step) => planWith(plan, [step], plan));
    expect(all.map((each) => editsOf(each).offset.at(-1))).toEqual(ends);
    expect(all.map(({ steps }) => steps)).toEqual(more.map((step) => [...plan.steps, step]));
    expect(editsOf(plan).count).toBe(plan.steps.length);
  });

  test('are as asked together, too', () => {
    const object = x86Object(SITES);
    const { image, sites } = openBytes(object);
    for (const { fileOffset, after } of planSites(sites, { to: { kind: 'nop' } }).steps) object.set(after, fileOffset);
    expect(image.section('.text')).toBeDefined();
    const plan = planSites(openBytes(object).sites, { to: { kind: 'nop' } });
    expect(told(plan)).toEqual({ steps: [], refusals: [], counts: [SITES, 0, SITES] });
    expect(planUntrace(openBytes(object).sites).untraced).toHaveLength(SITES);
  });
});
