/**
 * Modules coming and going (C-MOD-1): their records, what the ops that are there mean for them, and
 * the words of filters that waited for them. Does not own the module's code: its sites are nops
 * when they come (C-INIT-2), and disappear without being written when they go.
 */
import { type FilterNames, type QueuedWord, WorkingFilter } from '../sites/filter.js';
import { type HashPair, neutralise, type SiteHash } from './hash.js';
import { type CallSite, REC, type Records, type SiteInput } from './records.js';
import { watchUsers } from './graph.js';
import { refuseDead } from './register.js';
import { type CoreState, type Refusal, refuse } from './state.js';
import type { Transaction } from './transaction.js';
import { attachedTo, offLiteral, refreshWanted } from './targets.js';
import { updateRun } from './update.js';

/** Every pair of hashes that the core knows, each once. */
function allPairs(state: CoreState): HashPair[] {
  const users = state.graph.known.map((user) => user.pair);
  return [...new Set([...state.sharedPairs, ...state.known.map((ops) => ops.pair), ...users])];
}

/**
 * Puts the records of an image into the table; weak leftovers, and those of a module that is not
 * live yet, are DISABLED (C-MOD-1).
 */
export function addRecords(
  state: CoreState,
  sites: readonly SiteInput[],
  module: string | null,
): { readonly added: readonly CallSite[]; readonly dropped: number } {
  const { added, dropped } = state.records.add(sites, module);
  for (const site of added) {
    if (state.backend.capabilities.callOps) site.literal = offLiteral(state);
    if (module !== null || site.weak) site.set(REC.DISABLED);
  }
  return { added, dropped };
}

/**
 * C-MOD-1: a module comes and goes live. Its queued filters are the next operations (`replayFor`).
 */
export function moduleComing(tx: Transaction, name: string, sites: readonly SiteInput[]): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  if (state.records.modules.includes(name)) return refuse('EBUSY', `module ${name} is loaded already`);
  const { added, dropped } = addRecords(state, sites, name);
  if (dropped > 0) tx.warnings.push(`${name}: ${dropped} sites at address 0 were dropped`);
  for (const site of added) {
    if (site.weak) continue;
    site.clear(REC.DISABLED);
    // A direct or IPMODIFY ops has a filter, and a filter has no site that was not there: it can
    // match none of these.
    if (attachedTo(state, site).some((ops) => ops.has('DIRECT') || ops.has('IPMODIFY'))) {
      tx.warnings.push(`${site.name}: an ops that needs a loaded function matches it`);
    }
    if (!refreshWanted(state, site, null)) return refuse('EINVAL', `${site.name} has too many users`);
    if (state.policy.quirks.moduleCallOps === 'kernel') site.clear(REC.CALL_OPS);
  }
  updateRun(tx, { sites: [...added].sort((a, b) => (a.ip < b.ip ? -1 : 1)) });
  return null;
}

/**
 * C-MOD-2, C-HASH-4: records go without being patched, hashes forget their places and keep their
 * counts.
 */
export function moduleGoing(tx: Transaction, name: string): Refusal | null {
  const { state } = tx;
  const refreshUsers = watchUsers(state);
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  if (!state.records.modules.includes(name)) return refuse('ENOENT', `module ${name} is not loaded`);
  const gone = new Set(state.records.remove(name));
  let changed = false;
  for (const pair of allPairs(state)) {
    const filter = neutralise(pair.filter, gone);
    const notrace = neutralise(pair.notrace, gone);
    changed ||= filter !== pair.filter || notrace !== pair.notrace;
    pair.filter = filter;
    pair.notrace = notrace;
  }
  for (const ops of state.known) if (state.objects.has(ops)) tx.object(ops);
  refreshUsers(tx);
  if (changed) tx.free('read', 'hash', name);
  // An entry that stays would make a direct caller of whatever lies there next.
  const entries = [...state.direct.keys()].filter((site) => gone.has(site));
  if (entries.length > 0) {
    tx.direct(entries.map((site) => [site, null] as const));
    tx.free('tasks', 'direct-table', name);
  }
  return null;
}

/** A hash as the filter grammar edits it. */
export function editHash(records: Records, hash: SiteHash | null): WorkingFilter {
  const list = records.list;
  const names: FilterNames = records.names();
  if (hash === null) return new WorkingFilter(names);
  const append = new Uint8Array(list.length);
  for (let i = 0; i < list.length; i++) if (hash.sites.has(list[i]!)) append[i] = 1;
  return new WorkingFilter(names, { append, queued: hash.queued });
}

/** The hash that an edited set makes; `from` is what the edit began with. */
export function hashFrom(records: Records, working: WorkingFilter, from: SiteHash | null): SiteHash {
  const { selection, queued } = working.result();
  const sites = new Set<CallSite>();
  records.list.forEach((site, index) => {
    if (selection[index] === 1) sites.add(site);
  });
  return { sites, neutral: from?.neutral ?? 0, queued };
}

/** C-FILT-6: the hash after the words that waited for a module; null when none did. */
export function replayFor(records: Records, hash: SiteHash | null, module: string): SiteHash | null {
  const waits = (word: QueuedWord): boolean => word.module === module;
  if (hash === null || !hash.queued.some(waits)) return null;
  const working = editHash(records, hash);
  working.replay(module);
  return hashFrom(records, working, hash);
}
