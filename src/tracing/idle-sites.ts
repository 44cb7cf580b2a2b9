/**
 * Sites that a session has found and no ops has taken: what becomes of them in a file, and how
 * plans name them.
 */
import { hex } from '../errors.js';
import type { Session } from './session.js';
import type { Sites } from '../sites/sites.js';

/**
 * Sites that no ops has taken, in the bytes that a file gets. Those of a linked program are what
 * they were: it calls its own profiling entry there as before. Images of `load` are as a kernel is
 * behind its start, where every site is a nop (C-INIT-2); so are parts that come into a program.
 * @param after  changed in place
 * @returns the sites that stay nops
 */
export function settleIdleSites(session: Session, after: Uint8Array): number[] {
  const { sites } = session;
  const { loadMap } = sites.program;
  const isProgram = loadMap === null || loadMap.original !== null;
  const nops: number[] = [];
  for (const { site, fileOffset, before } of session.idleSites(after)) {
    if (isProgram && sites.module(site) === null) after.set(before, fileOffset);
    else nops.push(site);
  }
  return nops;
}

/** Names of functions with sites, their addresses where they have none. */
export function siteNames(sites: Sites, indices: readonly number[]): string[] {
  return indices.map((site) => sites.program.symbolName(sites.functionSymbol(site)) || hex(sites.ip(site)));
}
