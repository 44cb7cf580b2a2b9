/** Calls and returns (RT-43): each site gets a stub behind the runtime. */
import { concatBytes } from '../bytes.js';
import type { GraphStubs } from '../machine/native-tracing.js';
import type { Step } from '../patch/plan.js';
import type { Address } from '../units.js';
import { refused } from './refuse.js';

export interface Stubbed {
  /** The steps, each site leading to its stub. */
  readonly steps: readonly Step[];
  readonly stubs: Uint8Array;
  /** The site of each stub, in their order. */
  readonly sites: readonly number[];
}

/**
 * The steps of a plan whose sites call the entry, as they are where each has a stub.
 * @param start  address of the first stub
 * @param named  addresses of the symbols that stubs name
 */
export function withStubs(
  steps: readonly Step[],
  shape: GraphStubs,
  start: Address,
  named: readonly Address[],
): Stubbed {
  const groups = new Map<number, Step[]>();
  for (const step of steps) {
    const group = groups.get(step.site);
    if (group === undefined) groups.set(step.site, [step]);
    else group.push(step);
  }
  const stubs: Uint8Array[] = [];
  const out: Step[] = [];
  for (const group of groups.values()) {
    const stub = start + BigInt(stubs.length * shape.bytes);
    const site = shape.site(group, stub);
    const made = site === null ? null : shape.make(stub, site.body, named);
    if (site === null || made === null) {
      throw refused('text-too-large', 'a site lies too far from its stub, behind the last segment');
    }
    stubs.push(made);
    group.forEach((step, i) => out.push({ ...step, after: site.stores[i]! }));
  }
  return {
    steps: out.sort((a, b) => a.fileOffset - b.fileOffset),
    stubs: concatBytes(stubs),
    sites: [...groups.keys()],
  };
}
