/**
 * What may go wrong where a plan is carried out on a running system: changes of sites that a thread
 * can see half of, although every store of the plan is right. Owns the collecting; which change of
 * which bytes is a hazard is the shape's business (F-7).
 */
import { fitsAll } from '../machine/patterns.js';
import type { HazardId, TornCall } from '../machine/sites.js';
import { ByteView } from '../bytes.js';
import type { Hazard, HazardousSite, Plan, Step } from './plan.js';
import type { Sites } from '../sites/sites.js';

/**
 * Whether tasks of the system can be preempted anywhere (a kernel's PREEMPT), or all stand at known
 * places when code changes.
 */
export type Preemption = 'none' | 'full';

/** Farther than any site's bytes behind its ip. */
const MAX_SITE_BYTES = 16;

/** First step that ends behind an offset; steps are in ascending order. */
function firstBehind(steps: readonly Step[], offset: number): number {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const { fileOffset, after } = steps[middle]!;
    if (fileOffset + after.length > offset) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Whether a change makes a call of several words and changes more than one of them. */
function isTorn({ calls }: TornCall, before: readonly number[], after: readonly number[]): boolean {
  const call = calls.find((row) => fitsAll((i) => after[i] ?? -1, row));
  return call !== undefined && call.filter((_, i) => before[i] !== after[i]).length > 1;
}

/**
 * The hazards of steps in ascending order of their place in the file, for sites as they are now.
 */
function hazardsOf(sites: Sites, steps: readonly Step[], form: string): readonly Hazard[] {
  const { program } = sites;
  const words = (code: Uint8Array): number[] => {
    const view = new ByteView(code, program.arch.target.codeEndian, 'site');
    return Array.from({ length: code.length >> 2 }, (_, i) => view.u32(4 * i));
  };
  const { bytes } = program.image;
  const found = new Map<HazardId, { readonly reason: string; readonly sites: HazardousSite[] }>();
  for (let site = 0; site < sites.count; site++) {
    const reading = sites.reading(site);
    const torn = reading?.shape.torn;
    if (!reading || torn === undefined || torn.unless.includes(form)) continue;
    const start = sites.fileOffset(site) + reading.ipDelta;
    const end = Math.min(start + MAX_SITE_BYTES, bytes.length);
    const after = bytes.slice(start, end);
    let at = firstBehind(steps, start);
    const isTouched = at < steps.length && steps[at]!.fileOffset < end;
    if (!isTouched) continue;
    for (; at < steps.length && steps[at]!.fileOffset < end; at++) {
      const step = steps[at]!;
      const from = Math.max(step.fileOffset, start);
      const to = Math.min(step.fileOffset + step.after.length, end);
      after.set(step.after.subarray(from - step.fileOffset, to - step.fileOffset), from - start);
    }
    if (!isTorn(torn, words(bytes.subarray(start, end)), words(after))) continue;
    const { rule, reason } = torn;
    const range = sites.codeRange(site);
    const known = found.get(rule) ?? { reason, sites: [] };
    found.set(rule, known);
    known.sites.push({
      site,
      section: range?.name ?? '',
      address: sites.anchor[site]!,
      function: range ? program.describe(range, sites.ip(site)) : '',
    });
  }
  return [...found].map(([rule, each]) => ({ rule, ...each }));
}

/**
 * A plan with its hazards, for a system that can be preempted; as it is otherwise.
 * @param sites  as they are before the plan is carried out
 * @param form   kind of the image's entries
 */
export function withHazards<P extends Plan>(plan: P, sites: Sites, form: string, preempt: Preemption | undefined): P {
  if (preempt !== 'full') return plan;
  const hazards = hazardsOf(sites, plan.steps, form);
  return hazards.length === 0 ? plan : { ...plan, hazards };
}
