/** What a proof of an image is asked for. */
import type { LoadOptions } from '../program/program.js';
import type { Sites } from '../sites/sites.js';

export interface ProveOptions {
  /** Default 1. The same seed gives the same proof. */
  readonly seed?: number;
  /** Trials of each site, at least. Default 2. */
  readonly trials?: number;
  /** Only so many of the changed sites, spread over the image; the rest is counted as skipped. */
  readonly sample?: number;
  /**
   * One of `of` parts of equal size of the sites, `index` from 0 on; the others are not counted.
   * All parts together say what the whole says.
   */
  readonly part?: { readonly index: number; readonly of: number };
  /** How both files are read: names for stripped ones, further names of the profiling entry. */
  readonly load?: LoadOptions;
  /** Further tables of sites. */
  readonly tableSections?: readonly string[];
  /** The sites of the patched file, where they are known already. */
  readonly sites?: Sites;
  readonly signal?: AbortSignal;
  /** Instructions of the patched side on the way to a place of comparison. Default 400,000. */
  readonly budget?: number;
}
