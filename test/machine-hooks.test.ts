/**
 * The contract of machines (`src/machine`): what one machine alone needs is data, no function that
 * the others leave out.
 */
import { expect, test } from '@jest/globals';
import { arches } from '../src/arches.js';

type Machine = (typeof arches)[number];
type Part = Readonly<Record<string, unknown>>;

/** Parts of a machine of which every machine has one or several of the same kind. */
const PARTS: Readonly<Record<string, (machine: Machine) => readonly unknown[]>> = {
  'site shape': ({ siteShapes }) => siteShapes,
  loader: ({ loader }) => [loader],
  'stub form': ({ stubForms }) => stubForms,
  process: ({ emulation }) => (emulation.kind === 'ir' ? [emulation.process] : []),
  abi: ({ abi }) => [abi],
  isa: ({ isa }) => [isa],
};

/** Names of functions that some parts have and others leave out. */
function optionalFunctions(parts: readonly Part[]): string[] {
  const names = new Set(parts.flatMap((part) => Object.keys(part)));
  return [...names].filter((name) => {
    const values = parts.map((part) => part[name]);
    return values.some((value) => typeof value === 'function') && !values.every((value) => typeof value === 'function');
  });
}

test('no function of the contract is there for one machine alone', () => {
  const alone: string[] = [];
  for (const [kind, partsOf] of Object.entries(PARTS)) {
    const rows = arches.flatMap((machine) => partsOf(machine).map((part) => ({ machine, part: part as Part })));
    for (const name of optionalFunctions(rows.map(({ part }) => part))) {
      const serving = rows.filter(({ part }) => typeof part[name] === 'function');
      if (new Set(serving.map(({ machine }) => machine.target.elfMachine)).size === 1) alone.push(`${kind}.${name}`);
    }
  }
  expect(alone).toEqual([]);
});
