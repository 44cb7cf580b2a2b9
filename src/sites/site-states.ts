/** What the columns of sites hold: states, shapes, and whether there is more to say of a site. */
import type { SiteStateKind } from '../machine/sites.js';

/** States in the order of the `state` column; `unknown` is bytes that no shape knows. */
export const stateNames = ['compiled', 'nop', 'call', 'foreign', 'unknown', 'zero', 'outside'] as const;
export type SiteState = (typeof stateNames)[number];
export const stateIndex: Readonly<Record<SiteStateKind, number>> = { compiled: 0, nop: 1, call: 2, foreign: 3 };
export const stateUnknown = 4;
export const stateZero = 5;
export const stateOutside = 6;
export const noShape = 255;

/**
 * The bytes were found to be a site that is off, or on as it was compiled, of which there is
 * nothing more to say.
 */
export const QUIET = 1;
/** So, and it reads as the site in front of it, by one object. */
export const LIKE = 2;
