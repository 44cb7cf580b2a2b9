/**
 * Two machines in step, one for each tier: after every slice registers, counts and the ways they stopped must be the same, at the end
 * memory too. Nothing here imports jest, so that scripts can use it.
 */
import { compareStates } from '../../src/emulator/index.js';
import type { Machine, StopReason } from '../../src/emulator/index.js';
import type { Process } from '../../src/emulator/index.js';

/** Numbers of a linear congruential generator, 0 to `below` - 1. */
export function randomNumbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 0x1_0000_0000) * below);
  };
}

const text = (value: unknown): string =>
  JSON.stringify(value, (_key, each: unknown) => (typeof each === 'bigint' ? `0x${each.toString(16)}` : each));

/** What differs between two machines, as words; empty when nothing does. Memory only when asked for: it takes long. */
export function differences(a: Machine, b: Machine, memory = false): string[] {
  if (memory) return compareStates(a.snapshot(), b.snapshot()).map(text);
  const out: string[] = [];
  for (const name of a.registerNames) {
    const [x, y] = [a.register(name), b.register(name)];
    if (x !== y) out.push(`${name}: 0x${x.toString(16)} and 0x${y.toString(16)}`);
  }
  if (a.instructions !== b.instructions) out.push(`${a.instructions} and ${b.instructions} instructions`);
  return out;
}

export interface InStep {
  readonly stop: StopReason;
  readonly slices: number;
  /** The first slice after which the machines differ; empty: none. */
  readonly differing: readonly string[];
}

/** Runs both by slices whose sizes `size` chooses, until both stop or differ. */
export function inStep(
  a: Pick<Process, 'machine' | 'run'>,
  b: Pick<Process, 'machine' | 'run'>,
  size: () => number,
  maxSlices = Number.MAX_SAFE_INTEGER,
): InStep {
  for (let slices = 1; ; slices++) {
    const budget = size();
    const pc = a.machine.register('pc');
    const [x, y] = [a.run({ budget }), b.run({ budget })];
    const differing = differences(a.machine, b.machine);
    if (text(x) !== text(y)) differing.push(`${text(x)} and ${text(y)}`);
    const ended = x.kind !== 'step-limit' || slices >= maxSlices;
    if (differing.length === 0 && ended) differing.push(...differences(a.machine, b.machine, true));
    if (differing.length > 0) differing.push(`in slice ${slices} of ${budget} from 0x${pc.toString(16)}`);
    if (ended || differing.length > 0) return { stop: x, slices, differing };
  }
}
