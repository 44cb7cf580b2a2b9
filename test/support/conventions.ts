/** Rows of entry conventions by the names of target and convention. */
import { arches } from '../../src/arches.js';
import { conventionNamed, type EntryConvention } from '../../src/machine/conventions.js';

/** Conventions of a target, in the order of its table. */
function conventionsOfTarget(target: string): readonly EntryConvention[] {
  const arch = arches.find(({ target: { id } }) => id === target);
  if (arch === undefined) throw new Error(`there is no target ${target}`);
  return arch.conventions;
}

export function conventionRow(target: string, name: string): EntryConvention {
  const row = conventionNamed(conventionsOfTarget(target), name);
  if (row === null) throw new Error(`${target} has no convention ${name}`);
  return row;
}

export const conventionNames = (target: string): string[] => conventionsOfTarget(target).map(({ name }) => name);
