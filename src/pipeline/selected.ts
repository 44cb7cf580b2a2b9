/** What every plan of sites is told of its request. */
import type { PlanRequest } from '../patch/plan.js';
import type { Sites } from '../sites/sites.js';
import type { Address } from '../units.js';
import type { OpenedImage } from './open.js';
import type { PatchRequest } from './request.js';

/** The sites of a selection that may be changed. */
function selectionWithout(
  sites: Sites,
  selection: Uint8Array | undefined,
  without: ReadonlySet<Address> = new Set(),
): Uint8Array | undefined {
  if (without.size === 0) return selection;
  return Uint8Array.from({ length: sites.count }, (_, i) =>
    without.has(sites.ip(i)) ? 0 : selection === undefined ? 1 : selection[i]!,
  );
}

export function planCommon(
  { recorded, sites }: OpenedImage,
  selected: Uint8Array | undefined,
  { without, readonlyRanges, strictPermissions }: PatchRequest,
): Pick<PlanRequest, 'selection' | 'recorded' | 'readonlyRanges' | 'strictPermissions'> {
  const selection = selectionWithout(sites, selected, without);
  return {
    ...(selection ? { selection } : {}),
    ...(recorded ? { recorded } : {}),
    ...(readonlyRanges ? { readonlyRanges } : {}),
    strictPermissions,
  };
}
