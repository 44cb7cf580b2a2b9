/**
 * The function graph tracer (C-FG-1 to C-FG-8): who may use it, and the ops that stands for all of
 * its users. Owns the three arrangements: the borrowed ops of 2014 (C-FG-4), one user with an ops
 * of its own, and up to 16 users behind a manager (C-FG-5). The shadow stacks belong to the
 * runtime.
 */
import { OPS_FLAGS } from '../runtime/abi.js';
import {
  type HashPair,
  type HashSnapshot,
  hashCount,
  hashesMatch,
  intersectionOf,
  type SiteHash,
  snapshot,
  unionOf,
} from './hash.js';
import type { GraphUser } from './graph-user.js';
import { type GraphUserImage } from './graph-user.js';
import { Ops } from './ops.js';
import { GRAPH_USERS } from './policy.js';
import { modifyIn, refuseDead, registerIn, unregisterIn } from './register.js';
import { type CoreState, type Refusal, refuse } from './state.js';
import type { Transaction } from './transaction.js';

function imagesOf({ graph }: CoreState): readonly (GraphUserImage | null)[] {
  return graph.users.map((user) => (user === null ? null : { user, hashes: snapshot(user.pair) }));
}

/** Changes the users, or the hashes of one, and lists the step. */
function changeUsers(tx: Transaction, change: () => void): void {
  const before = imagesOf(tx.state);
  change();
  tx.step({ kind: 'graph-users', before, after: imagesOf(tx.state) });
}

/**
 * For changes of users' hashes that happen elsewhere: the result lists the step if there were any.
 */
export function watchUsers(state: CoreState): (tx: Transaction) => void {
  const before = imagesOf(state);
  return (tx) => {
    const after = imagesOf(tx.state);
    const changed = after.some((image, index) => {
      const old = before[index]?.hashes;
      return image !== null && (image.hashes.filter !== old?.filter || image.hashes.notrace !== old?.notrace);
    });
    if (changed) tx.step({ kind: 'graph-users', before, after });
  };
}

/** The ops that borrows (2014) or shares (later) the hashes of the function tracer. */
export interface GlobalTracer {
  readonly ops: Ops | null;
  readonly pair: HashPair;
}

/** What the user wants and does not get: functions whose returns cannot be had. */
function warnOfUnhooked({ state, warnings }: Transaction, user: GraphUser): void {
  // Before several users the graph tracer had the filter of the function tracer.
  const pair = state.policy.graph === 'multi' ? user.pair : (state.graph.manager?.pair ?? user.pair);
  for (const site of state.records.list) {
    if (site.noGraph === null || site.skipped || !hashesMatch(pair, site)) continue;
    warnings.push(`${user.name}: signed-return: ${site.name} is not hooked: ${site.noGraph}`);
  }
}

/** Adds a user. */
export function registerGraphIn(tx: Transaction, user: GraphUser, global: GlobalTracer): Refusal | null {
  const refused = addUser(tx, user, global);
  if (refused === null) warnOfUnhooked(tx, user);
  return refused;
}

function addUser(tx: Transaction, user: GraphUser, global: GlobalTracer): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  const { graph, backend, policy } = state;
  if (backend.capabilities.graph === 'none') return refuse('ENODEV', 'the target has no graph tracer');
  if (graph.users.includes(user)) return refuse('EBUSY', `${user.name} is registered already`);
  const free = graph.users.indexOf(null);
  const first = graph.users.every((each) => each === null);
  if (policy.graph === 'multi') {
    if (free < 0 && graph.users.length >= GRAPH_USERS) {
      return refuse('ENOSPC', `the graph tracer has ${GRAPH_USERS} users already`);
    }
  } else if (!first) return refuse('EBUSY', 'the graph tracer has a user already');
  const index = free < 0 ? graph.users.length : free;
  const join = (): void => {
    changeUsers(tx, () => {
      const users = [...graph.users];
      users[index] = user;
      graph.users = users;
    });
  };
  if (policy.graph === '2014') return borrow(tx, global, join);
  if (!first && graph.manager !== null) {
    join();
    return modifyIn(tx, graph.manager.pair, managerHashes(state, graph.manager.pair), 'core');
  }
  join();
  const manager = (graph.manager ??= makeManager(state, policy.graph === 'single' ? global.pair : null));
  if (!state.known.includes(manager)) state.known = [...state.known, manager];
  if (policy.graph === 'multi') Object.assign(manager.pair, managerHashes(state, manager.pair));
  return registerIn(tx, manager);
}

function makeManager({ backend }: CoreState, pair: HashPair | null): Ops {
  const callback = backend.capabilities.graph === 'callback';
  // A callback that replaces the return address finds it in the frame that it may change.
  const needsFrame = backend.capabilities.resume === 'regs';
  const manager = new Ops({
    name: 'graph',
    func: callback ? backend.symbols.graphFunction : 0n,
    flags: callback ? ['INITIALIZED', ...(needsFrame ? (['SAVE_REGS'] as const) : [])] : ['INITIALIZED', 'STUB'],
    ...(pair === null ? {} : { pair }),
  });
  if (backend.capabilities.graph === 'trampoline') {
    manager.trampoline = { kind: 'graph', address: backend.symbols.graphEntry };
  }
  return manager;
}

/**
 * T-X86-33, T-X86-34: the ops of the function tracer becomes that of the graph tracer. Its
 * trampoline and flags are put away after STUB was set; the static graph entry takes the
 * trampoline's place and is not ours to change.
 */
function borrow(tx: Transaction, { ops }: GlobalTracer, join: () => void): Refusal | null {
  const { graph, backend } = tx.state;
  if (ops === null) return refuse('EINVAL', 'there is no function tracer whose ops the graph tracer could borrow');
  if (ops.has('ENABLED')) return refuse('EBUSY', `${ops.name} is in use by the function tracer`);
  if (backend.capabilities.graph === 'callback') {
    return refuse('EINVAL', 'the graph tracer of the target is a callback, which borrows nothing');
  }
  join();
  ops.set('STUB');
  if (backend.capabilities.graph === 'trampoline') {
    graph.saved = { trampoline: ops.trampoline, flags: ops.flags };
    ops.clear('ALLOC_TRAMP');
    ops.trampoline = { kind: 'graph', address: backend.symbols.graphEntry };
  }
  graph.manager = ops;
  return registerIn(tx, ops);
}

/** Removes a user. */
export function unregisterGraphIn(tx: Transaction, user: GraphUser): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  const { graph, policy } = state;
  const { manager } = graph;
  const index = graph.users.indexOf(user);
  if (index < 0 || manager === null) return refuse('EINVAL', `${user.name} is not registered`);
  const leave = (): void => {
    changeUsers(tx, () => {
      const users = [...graph.users];
      users[index] = null;
      while (users.length > 0 && users[users.length - 1] === null) users.pop();
      graph.users = users;
    });
  };
  if (graph.users.some((each) => each !== null && each !== user)) {
    leave();
    return modifyIn(tx, manager.pair, managerHashes(state, manager.pair), 'core');
  }
  const refused = unregisterIn(tx, manager);
  if (refused !== null) return refused;
  leave();
  if (policy.graph === '2014') giveBack(tx, manager);
  return null;
}

/**
 * T-X86-35, T-X86-36, T-X86-37: after the shutdown, STUB first, then the trampoline and of the
 * flags only ALLOC_TRAMP.
 */
function giveBack(tx: Transaction, ops: Ops): void {
  const { graph } = tx.state;
  graph.manager = null;
  ops.clear('STUB');
  tx.object(ops);
  const { saved } = graph;
  if (saved === null) return;
  ops.trampoline = saved.trampoline;
  if ((saved.flags & OPS_FLAGS.ALLOC_TRAMP) !== 0) ops.set('ALLOC_TRAMP');
  graph.saved = null;
  tx.object(ops);
}

/** Changes one of the hashes of a user, registered or not. */
export function setGraphFilterIn(
  tx: Transaction,
  user: GraphUser,
  which: 'filter' | 'notrace',
  hash: SiteHash | null,
): Refusal | null {
  const { state } = tx;
  const dead = refuseDead(state);
  if (dead !== null) return dead;
  const { graph, policy } = state;
  if (policy.graph !== 'multi') return refuse('EINVAL', 'the graph tracer uses the filter of the function tracer');
  if (!graph.users.includes(user) || graph.manager === null) {
    user.pair[which] = hash;
    return null;
  }
  changeUsers(tx, () => {
    user.pair[which] = hash;
  });
  const refused = modifyIn(tx, graph.manager.pair, managerHashes(state, graph.manager.pair), 'core');
  if (refused === null) warnOfUnhooked(tx, user);
  return refused;
}

/**
 * C-FG-5. A hash that would hold the same stays the value that it is, so that nothing is written
 * for it.
 */
function managerHashes({ graph }: CoreState, now: HashSnapshot): HashSnapshot {
  const pairs = graph.users.flatMap((user) => (user === null ? [] : [user.pair]));
  return {
    filter: keepEqual(now.filter, unionOf(pairs.map((pair) => pair.filter))),
    notrace: keepEqual(now.notrace, intersectionOf(pairs.map((pair) => pair.notrace))),
  };
}

function keepEqual(now: SiteHash | null, next: SiteHash | null): SiteHash | null {
  if (now === null || next === null) return next;
  const same =
    hashCount(now) === hashCount(next) &&
    now.neutral === next.neutral &&
    now.queued.length > 0 === next.queued.length > 0 &&
    [...next.sites].every((site) => now.sites.has(site));
  return same ? now : next;
}
