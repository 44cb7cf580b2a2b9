/** Runs of the tracer from drawn states (PV-5): what they tell apart, and what they do not. */
import { expect, test } from '@jest/globals';
import { isLong } from './support/long.js';
import { mutantImages } from './support/mutant-images.js';
import { MutantTable } from './support/mutant-table.js';

/** Images, and runs of each. */
const images = [
  ['riscv64/g3c graph', 300],
  ['arm64/callops+probes return-beside-graph', 300],
  ['x86-64/modern graph', 300],
  ['ppc64-elfv1/pg graph', 300],
  ['ppc32/ool function', 300],
] as const;

test.each(isLong ? images : images.slice(0, 1))(
  'PV-5: %s: runs from drawn states see most mutants that trials find, and none that is alike',
  (name, count) => {
    const image = mutantImages.find((each) => each.name === name)!;
    const table = new MutantTable({ index: 1, of: 40 });
    table.add(image);
    const states = [...table.states.values()];
    const found = states.filter(({ standing }) => standing === 'found');
    const alike = states.filter(({ standing, sameIn = [] }) => standing === 'alike' || sameIn.length > 0);
    table.draw(image, (state) => found.includes(state) || alike.includes(state), count);
    const asked = found.filter(({ drawn }) => drawn !== undefined);
    expect(asked.length).toBeGreaterThan(found.length / 2);
    const apart = asked.filter(({ drawn }) => drawn!.difference !== null);
    expect(apart.length).toBeGreaterThan(asked.length * 0.75);
    expect(alike.length).toBeGreaterThan(0);
    expect(alike.flatMap(({ drawn, tested, text }) => (drawn?.difference ? [[tested, text, drawn]] : []))).toEqual([]);
  },
);
