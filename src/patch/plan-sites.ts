/**
 * From sites to a plan. For each selected site: is it as the file should have it, does anything
 * stand against the change (`objections.ts`), which bytes and relocations change
 * (`site-steps.ts`). Then over all sites: order, and bytes that two of them claim.
 */
import type { Sites } from '../sites/sites.js';
import { hex } from '../errors.js';
import { type Objection, SiteDecisions } from './objections.js';
import type { Additions, NewRelocation, Plan, PlanRequest, Refusal, Step } from './plan.js';
import { StepMaker } from './site-steps.js';
import type { SiteIndex } from '../units.js';

/**
 * Decides the changes that bring the selected sites to a state.
 * @returns steps sorted by file position; refusals in site order. Writes nothing.
 */
export function planSites(sites: Sites, request: PlanRequest): Plan {
  const decisions = new SiteDecisions(sites, request);
  const maker = new StepMaker(sites, request.readonlyRanges ?? []);
  // Stores and relocation entries lie in different sections: each list comes out in order, or
  // nearly so.
  const stores: Step[] = [];
  const relocations: Step[] = [];
  const added: NewRelocation[] = [];
  const refusals: Refusal[] = [];
  const counts = { selected: 0, changed: 0, unchanged: 0 };
  for (let i = 0; i < sites.count; i++) {
    if ((i & 0xfff) === 0) request.signal?.throwIfAborted();
    if (request.selection && !request.selection[i]) continue;
    const outcome = decisions.of(i);
    if (outcome.kind === 'ignored') continue;
    counts.selected++;
    if (outcome.kind === 'as-asked') {
      counts.unchanged++;
      continue;
    }
    if (outcome.kind === 'refused') {
      refusals.push(refusalOf(sites, i, outcome.objection));
      continue;
    }
    const own = maker.of(i, outcome.change, outcome.view, outcome.range);
    if (own.blocked !== '') {
      refusals.push(refusalOf(sites, i, { code: 'not-writable', errno: 'EPERM', reason: own.blocked }));
    } else if (own.steps.length + own.added.length === 0) counts.unchanged++;
    else {
      counts.changed++;
      added.push(...own.added);
      for (const step of own.steps) (step.kind === 'store' ? stores : relocations).push(step);
    }
  }
  const steps = inOrder(stores, relocations);
  const doubled = overlappingSites(steps);
  for (const [site, other] of doubled) {
    const reason = `its bytes are also those of the site at ${hex(other.address)}`;
    refusals.push(refusalOf(sites, site, { code: 'overlap', errno: 'EINVAL', reason }));
    counts.changed--;
  }
  if (doubled.size > 0) refusals.sort((a, b) => a.site - b.site);
  const additions: Additions = {
    relocations: doubled.size === 0 ? added : added.filter(({ site }) => !doubled.has(site)),
    symbols: maker.numbers.added,
  };
  return {
    target: sites.program.arch.target.id,
    request: request.name ?? (typeof request.to === 'function' ? 'sites' : request.to.kind),
    steps: doubled.size === 0 ? steps : steps.filter((step) => !doubled.has(step.site)),
    refusals,
    ...counts,
    ...(added.length + additions.symbols.length > 0 ? { additions } : {}),
  };
}

function refusalOf(sites: Sites, site: SiteIndex, objection: Objection): Refusal {
  const range = sites.codeRange(site);
  return {
    site,
    section: range?.name ?? '',
    address: sites.anchor[site]!,
    function: range ? sites.program.describe(range, sites.ip(site)) : '',
    expected: '',
    actual: '',
    ...objection,
  };
}

/** Both lists as one, by file position. */
function inOrder(stores: Step[], relocations: Step[]): Step[] {
  const steps =
    stores.length > 0 && relocations.length > 0 && relocations[0]!.fileOffset < stores[0]!.fileOffset
      ? [...relocations, ...stores]
      : [...stores, ...relocations];
  if (steps.some((step, i) => i > 0 && step.fileOffset < steps[i - 1]!.fileOffset)) {
    steps.sort((a, b) => a.fileOffset - b.fileOffset);
  }
  return steps;
}

/**
 * Sites that claim bytes which a step before them claims (of another site, or, where section
 * headers overlap, their own): written twice, one of the two would be lost. Never guessed, refused.
 */
function overlappingSites(steps: readonly Step[]): Map<number, Step> {
  const found = new Map<number, Step>();
  let last: Step | undefined;
  for (const step of steps) {
    if (last && last.fileOffset + last.before.length > step.fileOffset) found.set(step.site, last);
    else last = step;
  }
  return found;
}
