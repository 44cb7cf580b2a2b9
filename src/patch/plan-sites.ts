/**
 * From sites to a plan. For each selected site: is it as the file should have it, does anything
 * stand against the change (`objections.ts`), which bytes and relocations change
 * (`site-steps.ts`). Then over all sites: order, and bytes that two of them claim.
 */
import type { Sites } from '../sites/sites.js';
import { hex } from '../errors.js';
import { AlikeSites } from './alike.js';
import { type Objection, SiteDecisions } from './objections.js';
import type { Additions, Plan, PlanRequest, Refusal } from './plan.js';
import { StepMaker } from './site-steps.js';
import { planOf, type StepColumns } from './step-columns.js';
import type { Address, SiteIndex } from '../units.js';

/** So many sites are planned before it is asked whether to go on. */
const STEP = 0x1000;

/**
 * Decides the changes that bring the selected sites to a state.
 * @returns steps sorted by file position; refusals in site order. Writes nothing.
 */
export function planSites(sites: Sites, request: PlanRequest): Plan {
  const decisions = new SiteDecisions(sites, request);
  const maker = new StepMaker(sites, request.readonlyRanges ?? []);
  const refusals: Refusal[] = [];
  const counts = { selected: 0, changed: 0, unchanged: 0 };
  const alike = new AlikeSites(sites, request, maker);
  let look = 0;
  for (let i = 0; i < sites.count; i++) {
    if (i >= look) {
      request.signal?.throwIfAborted();
      look = i + STEP;
    }
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
    const { change, view, range } = outcome;
    const own = maker.of(i, change, view, range);
    if (typeof own === 'string') {
      refusals.push(refusalOf(sites, i, { code: 'not-writable', errno: 'EPERM', reason: own }));
      continue;
    }
    // Those behind it that are decided about alike, as far as they also have its bytes.
    const behind = alike.planBehind(i, change, range, STEP);
    if (own) counts.changed += behind - i;
    else counts.unchanged += behind - i;
    counts.selected += behind - i - 1;
    i = behind - 1;
  }
  const steps = maker.finish();
  const doubled = overlappingSites(steps);
  for (const [site, address] of doubled) {
    const reason = `its bytes are also those of the site at ${hex(address)}`;
    refusals.push(refusalOf(sites, site, { code: 'overlap', errno: 'EINVAL', reason }));
    counts.changed--;
  }
  if (doubled.size > 0) refusals.sort((a, b) => a.site - b.site);
  const { added } = maker;
  const additions: Additions = {
    relocations: doubled.size === 0 ? added : added.filter(({ site }) => !doubled.has(site)),
    symbols: maker.numbers.added,
  };
  return planOf(steps.without(doubled), {
    target: sites.program.arch.target.id,
    request: request.name ?? (typeof request.to === 'function' ? 'sites' : request.to.kind),
    refusals,
    ...counts,
    ...(added.length + additions.symbols.length > 0 ? { additions } : {}),
  });
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

/**
 * Sites that claim bytes which a step before them claims (of another site, or, where section
 * headers overlap, their own), with the address of that step: written twice, one of the two would
 * be lost. Never guessed, refused.
 */
function overlappingSites(steps: StepColumns): Map<SiteIndex, Address> {
  const found = new Map<SiteIndex, Address>();
  let last = -1;
  let end = 0;
  for (let i = 0; i < steps.count; i++) {
    const offset = steps.edits.offset[i]!;
    if (offset < end) found.set(steps.siteOf(i), steps.at(last).address);
    else {
      last = i;
      end = offset + steps.edits.size(i);
    }
  }
  return found;
}
