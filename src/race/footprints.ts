/**
 * What events of a race touch, and whether two of them could change places without anyone being
 * able to tell.
 */
import type { Machine } from '../emulator/index.js';
import type { Address } from '../units.js';
import type { RaceStep, Sequence } from './model.js';

/** Bytes, end exclusive. */
export type Range = readonly [start: Address, end: Address];

/**
 * What an event depended on and changed. Names stand for what is not memory: `points`, `trapped`,
 * `pokes`, locks, variables.
 */
export interface Footprint {
  readonly reads: Range[];
  readonly writes: Range[];
  readonly readNames: string[];
  readonly writtenNames: string[];
}

export const emptyFootprint = (): Footprint => ({ reads: [], writes: [], readNames: [], writtenNames: [] });

export function overlaps(ranges: readonly Range[], start: Address, end: Address): boolean {
  for (const [from, to] of ranges) if (start < to && from < end) return true;
  return false;
}

/** True when neither could be told from the other if they changed places. */
export function independent(a: Footprint, b: Footprint): boolean {
  const meets = (writes: readonly Range[], others: readonly Range[]): boolean =>
    others.some(([start, end]) => overlaps(writes, start, end));
  const shares = (writes: readonly string[], others: readonly string[]): boolean =>
    others.some((each) => writes.includes(each));
  return !(
    meets(a.writes, b.reads) ||
    meets(a.writes, b.writes) ||
    meets(b.writes, a.reads) ||
    shares(a.writtenNames, b.readNames) ||
    shares(a.writtenNames, b.writtenNames) ||
    shares(b.writtenNames, a.readNames)
  );
}

/** Lines of code that a patcher ever stores to, ascending; none where fetching is not modelled. */
export function patchedLines(machine: Machine, { patchers }: Sequence): Address[] {
  const lineBytes = BigInt(machine.fetchLineBytes);
  const lines = new Set<Address>();
  if (lineBytes === 0n) return [];
  for (const step of patchers.flatMap(({ steps }) => steps)) {
    if (step.kind !== 'store' && step.kind !== 'free') continue;
    // Data is not fetched.
    if (machine.memory.windowAt(step.address)?.permission.includes('x') === false) continue;
    const end = step.address + BigInt(step.kind === 'store' ? step.bytes.length : step.size);
    for (let line = step.address & -lineBytes; line < end; line += lineBytes) lines.add(line);
  }
  return [...lines].sort((a, b) => (a < b ? -1 : 1));
}

/**
 * What a step of a patcher touches; never changed.
 * @param beforeWait  a wait is the next step
 * @param patched  lines that CPUs fetch anew when they are made to: code that a patcher stores to
 */
export function stepFootprint(step: RaceStep, beforeWait: boolean, patched: readonly Range[]): Footprint {
  const found = emptyFootprint();
  if (step.when) found.readNames.push(`=${step.when.variable}`);
  // A wait begins when the step before it is done, and asks then who is inside.
  if (beforeWait || step.stopped === true) found.readNames.push('points');
  if (step.synchronises === true) found.writes.push(...patched);
  if (step.serves !== undefined) found.writtenNames.push('pokes');
  switch (step.kind) {
    case 'store':
      found.writes.push([step.address, step.address + BigInt(step.bytes.length)]);
      break;
    case 'free':
    case 'take':
      found.writes.push([step.address, step.address + BigInt(step.size)]);
      break;
    case 'serve':
      break;
    case 'synchronise':
      found.writes.push(...patched);
      found.readNames.push('trapped');
      break;
    case 'wait':
      found.readNames.push(step.until === 'outside' ? 'points' : 'trapped');
      break;
    case 'publish':
    case 'retract':
      found.writtenNames.push('pokes');
      break;
    case 'lock':
    case 'unlock':
      found.writtenNames.push(`!${step.lock}`);
      break;
    case 'set':
      found.writtenNames.push(`=${step.variable}`);
      if (typeof step.to === 'object') found.readNames.push(`=${step.to.variable}`);
      break;
    default:
      step satisfies never;
  }
  return found;
}
