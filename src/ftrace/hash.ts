/**
 * Hashes: the sets of call sites that an ops traces or leaves alone. Owns their values, which never
 * change once made (a changed filter is a new hash, so a reader of the old one keeps a whole set),
 * and the matching rules C-HASH-1, 2 and 4. Does not own the words that make them (`../filter.ts`),
 * nor what follows from a change (`register.ts`).
 */
import type { QueuedWord } from '../sites/filter.js';
import type { CallSite } from './records.js';

export interface SiteHash {
  readonly sites: ReadonlySet<CallSite>;
  /** Entries of modules that have gone: they name nothing and stay counted (C-HASH-4). */
  readonly neutral: number;
  /** Words that wait for a module; while there is one the hash is not empty (C-HASH-2). */
  readonly queued: readonly QueuedWord[];
}

/** Two hashes that belong together; several ops may share one pair (the global filter). */
export interface HashPair {
  filter: SiteHash | null;
  notrace: SiteHash | null;
}

/** A pair as it was at one moment. */
export type HashSnapshot = Readonly<HashPair>;

/** Makes a hash; the kinds of entries that are absent are none. */
export function makeHash(
  sites: Iterable<CallSite>,
  extra: { readonly neutral?: number; readonly queued?: readonly QueuedWord[] } = {},
): SiteHash {
  return { sites: new Set(sites), neutral: extra.neutral ?? 0, queued: extra.queued ?? [] };
}

/** Entries of a hash, those that name nothing any more included. */
export function hashCount(hash: SiteHash | null): number {
  return hash === null ? 0 : hash.sites.size + hash.neutral;
}

/** C-HASH-1, C-HASH-2: absent, or without entries and without words that wait for a module. */
export function isEmpty(hash: SiteHash | null): boolean {
  return hash === null || (hashCount(hash) === 0 && hash.queued.length === 0);
}

/**
 * C-HASH-1: in the filter (an empty one is everything) and not in notrace (an empty one is
 * nothing).
 */
export function hashesMatch({ filter, notrace }: HashSnapshot, site: CallSite): boolean {
  if (filter !== null && !filter.sites.has(site) && !isEmpty(filter)) return false;
  return notrace === null || !notrace.sites.has(site);
}

/** The same pair at this moment. */
export function snapshot(pair: HashPair): HashSnapshot {
  return { filter: pair.filter, notrace: pair.notrace };
}

/** C-HASH-4: the hash after sites have gone; the same value when none of them was in it. */
export function neutralise(hash: SiteHash | null, gone: ReadonlySet<CallSite>): SiteHash | null {
  if (hash === null) return null;
  const sites = new Set(hash.sites);
  let removed = 0;
  for (const site of gone) if (sites.delete(site)) removed++;
  return removed === 0 ? hash : { sites, neutral: hash.neutral + removed, queued: hash.queued };
}

/**
 * C-FG-5: the filter of a manager: everything that any of its users filters; empty (everything) if
 * one of theirs is.
 */
export function unionOf(hashes: readonly (SiteHash | null)[]): SiteHash | null {
  const sites = new Set<CallSite>();
  const queued: QueuedWord[] = [];
  let neutral = 0;
  for (const hash of hashes) {
    if (hash === null || isEmpty(hash)) return null;
    for (const site of hash.sites) sites.add(site);
    queued.push(...hash.queued);
    neutral += hash.neutral;
  }
  return { sites, neutral, queued };
}

/**
 * C-FG-5: the notrace of a manager: what all of its users leave alone; empty if one of theirs is.
 */
export function intersectionOf(hashes: readonly (SiteHash | null)[]): SiteHash | null {
  const [first, ...others] = hashes;
  if (first === undefined || first === null) return null;
  const sites = new Set<CallSite>();
  for (const site of first.sites) if (others.every((hash) => hash !== null && hash.sites.has(site))) sites.add(site);
  return sites.size === 0 ? null : { sites, neutral: 0, queued: [] };
}
