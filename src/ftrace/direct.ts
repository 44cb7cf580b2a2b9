/**
 * Direct calls, in the ops form and in the older form by address (C-DIR-3 to C-DIR-7). Owns the
 * table of direct callers and the order of errors. The form by address is a thin layer: one
 * internal ops whose filter grows and shrinks by one site.
 */
import { hex } from '../errors.js';
import type { Address } from '../units.js';
import { isEmpty, makeHash, type SiteHash } from './hash.js';
import { Ops } from './ops.js';
import { type CallSite, REC } from './records.js';
import { modifyIn, refuseDead, registerIn, sitesAlone, unregisterIn } from './register.js';
import { type CoreState, type Refusal, refuse } from './state.js';
import type { Transaction } from './transaction.js';

/** ENODEV of C-DIR-3: no entry can go on to a direct caller, or nothing works any more. */
function refuseUnsupported(state: CoreState): Refusal | null {
  const { direct, regs } = state.backend.capabilities;
  if (direct === 'none' || (direct === 'regs' && regs === 'none')) {
    return refuse('ENODEV', 'the target has no direct calls');
  }
  return refuseDead(state);
}

/** Registers an ops whose functions call `address` themselves. */
export function registerDirectIn(tx: Transaction, ops: Ops, address: Address): Refusal | null {
  const { state } = tx;
  const unsupported = refuseUnsupported(state);
  if (unsupported !== null) return unsupported;
  const { filter } = ops.pair;
  if (ops.func !== 0n || ops.trampoline !== null) {
    return refuse('EINVAL', `${ops.name} has a function or a trampoline of its own`);
  }
  if (!ops.has('INITIALIZED')) return refuse('EINVAL', `${ops.name} never got a filter`);
  if (ops.has('ENABLED')) return refuse('EINVAL', `${ops.name} is registered already`);
  if (filter === null || isEmpty(filter)) return refuse('EINVAL', `${ops.name} has an empty filter`);
  for (const site of filter.sites) {
    if (state.direct.has(site)) return refuse('EBUSY', `${site.name} has a direct caller already`);
  }
  const hashes = [filter, ops.pair.notrace].filter((hash): hash is SiteHash => !isEmpty(hash));
  if (!state.backend.reserveDirect(filter.sites.size, hashes)) {
    return refuse('ENOMEM', `no room for ${filter.sites.size} direct callers`);
  }
  tx.direct([...filter.sites].map((site) => [site, address] as const));
  makeDirect(state, ops, address);
  return registerIn(tx, ops);
}

function makeDirect({ backend }: CoreState, ops: Ops, address: Address): void {
  ops.func = backend.symbols.directHelper;
  ops.directCall = address;
  ops.trampoline = { kind: 'entry' };
  ops.set('DIRECT');
  if (backend.capabilities.regs === 'separate') ops.set('SAVE_REGS');
}

function unmakeDirect(ops: Ops): void {
  ops.func = 0n;
  ops.savedFunc = 0n;
  ops.directCall = 0n;
  ops.trampoline = null;
  ops.clear('DIRECT', 'SAVE_REGS');
}

/**
 * The EINVAL of unregister and modify. Where only the register entry goes on to a direct caller,
 * its ops must still ask for that entry (T-RV-28).
 */
function refuseNotDirect({ backend }: CoreState, ops: Ops): Refusal | null {
  if (!ops.has('INITIALIZED') || !ops.has('DIRECT')) return refuse('EINVAL', `${ops.name} is no direct caller`);
  if (backend.capabilities.regs === 'separate' && !ops.has('SAVE_REGS')) {
    return refuse('EINVAL', `${ops.name} lost SAVE_REGS: only the register entry goes on to a direct caller`);
  }
  return ops.has('ENABLED') ? null : refuse('EINVAL', `${ops.name} is not registered`);
}

/** Unregisters; of the table, the entries of its functions whose value is `address` go. */
export function unregisterDirectIn(tx: Transaction, ops: Ops, address: Address): Refusal | null {
  const { state } = tx;
  const refused = refuseUnsupported(state) ?? refuseNotDirect(state, ops);
  if (refused !== null) return refused;
  const sites = [...(ops.pair.filter?.sites ?? [])].filter((site) => state.direct.get(site) === address);
  const failed = unregisterIn(tx, ops);
  if (failed !== null) return failed;
  tx.direct(sites.map((site) => [site, null] as const));
  tx.free('tasks', 'direct-table', ops.name);
  unmakeDirect(ops);
  tx.object(ops);
  return null;
}

/** Gives all functions of a registered ops another direct caller, without a gap (C-DIR-6). */
export function modifyDirectIn(tx: Transaction, ops: Ops, address: Address): Refusal | null {
  const refused = refuseUnsupported(tx.state) ?? refuseNotDirect(tx.state, ops);
  if (refused !== null) return refused;
  return changeTargets(tx, ops, [...(ops.pair.filter?.sites ?? [])], address, true);
}

/**
 * C-DIR-6: where the direct caller is alone its sites call it straight; a placeholder ops takes
 * them to the register entry while the table changes, so that each calls the old address, then the
 * entry, then the new one. Where there are other users the helper reads the table at each hit.
 */
function changeTargets(
  tx: Transaction,
  ops: Ops,
  sites: readonly CallSite[],
  address: Address,
  whole: boolean,
): Refusal | null {
  const { state } = tx;
  const chosen = new Set(sites);
  const alone = sitesAlone(state, ops).some((site) => chosen.has(site));
  const placeholder = new Ops({
    name: `${ops.name} (placeholder)`,
    func: 0n,
    flags: ['STUB', 'DYNAMIC', 'INITIALIZED'],
    pair: { filter: makeHash(sites), notrace: null },
  });
  if (alone) {
    state.known = [...state.known, placeholder];
    const refused = registerIn(tx, placeholder);
    if (refused !== null) return refused;
  }
  tx.direct(sites.map((site) => [site, address] as const));
  if (whole) {
    ops.directCall = address;
    tx.object(ops);
  }
  if (alone) {
    const refused = unregisterIn(tx, placeholder);
    if (refused !== null) return refused;
    state.known = state.known.filter((each) => each !== placeholder);
  }
  tx.free('tasks', 'direct-table', ops.name);
  return null;
}

/**
 * By address (until 6.2): one more site with a direct caller. `internal` is the ops that all of
 * these share.
 */
export function registerDirectAt(tx: Transaction, internal: Ops, ip: Address, address: Address): Refusal | null {
  const { state } = tx;
  const refused = refuseByAddress(state);
  if (refused !== null) return refused;
  const site = state.records.location(ip);
  if (site === null || site.skipped) return refuse('ENODEV', `no traceable function at ${hex(ip)}`);
  if (state.direct.has(site)) return refuse('EBUSY', `${site.name} has a direct caller already`);
  if (site.has(REC.DIRECT)) return refuse('ENODEV', `${site.name} counts as having a direct caller, which is unknown`);
  const filter = makeHash([...(internal.pair.filter?.sites ?? []), site]);
  if (!state.backend.reserveDirect(1, [filter])) return refuse('ENOMEM', 'no room for a direct caller');
  tx.direct([[site, address]]);
  if (internal.has('ENABLED')) return modifyIn(tx, internal.pair, { filter, notrace: null }, 'core');
  internal.pair.filter = filter;
  makeDirect(state, internal, 0n);
  return registerIn(tx, internal);
}

/** By address: a site loses its direct caller. */
export function unregisterDirectAt(tx: Transaction, internal: Ops, ip: Address): Refusal | null {
  const { state } = tx;
  const refused = refuseByAddress(state);
  if (refused !== null) return refused;
  const site = ownSite(state, internal, ip);
  if (site === null) return refuse('ENODEV', `no direct caller at ${hex(ip)}`);
  const rest = [...(internal.pair.filter?.sites ?? [])].filter((each) => each !== site);
  const failed =
    rest.length === 0
      ? unregisterIn(tx, internal)
      : modifyIn(tx, internal.pair, { filter: makeHash(rest), notrace: null }, 'core');
  if (failed !== null) return failed;
  tx.direct([[site, null]]);
  tx.free('tasks', 'direct-table', internal.name);
  if (rest.length === 0) {
    unmakeDirect(internal);
    internal.pair.filter = null;
    tx.object(internal);
  }
  return null;
}

/** By address: another direct caller for a site. */
export function modifyDirectAt(
  tx: Transaction,
  internal: Ops,
  ip: Address,
  from: Address,
  to: Address,
): Refusal | null {
  const { state } = tx;
  const refused = refuseByAddress(state);
  if (refused !== null) return refused;
  const site = ownSite(state, internal, ip);
  if (site === null) return refuse('ENODEV', `no direct caller at ${hex(ip)}`);
  const current = state.direct.get(site)!;
  if (current !== from) return refuse('EINVAL', `${site.name} calls ${hex(current)}, not ${hex(from)}`);
  return changeTargets(tx, internal, [site], to, false);
}

/**
 * Entries that find the direct caller through the ops object cannot serve one ops with several
 * addresses.
 */
function refuseByAddress(state: CoreState): Refusal | null {
  if (state.backend.capabilities.callOps) {
    return refuse('ENODEV', 'direct calls by address are older than per-callsite ops: use the ops form');
  }
  return refuseUnsupported(state);
}

function ownSite(state: CoreState, internal: Ops, ip: Address): CallSite | null {
  const site = state.records.location(ip);
  return site !== null && state.direct.has(site) && internal.pair.filter?.sites.has(site) === true ? site : null;
}
