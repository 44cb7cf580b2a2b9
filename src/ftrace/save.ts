/**
 * The state of a core as plain data, and back: what a record keeps beside an image between two
 * processes (RT-7). Owns the form, which is JSON with hexadecimal strings for addresses. What the
 * text of the sites is does not come from here: the backend reads it, and every operation compares
 * (RT-6).
 */
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';
import type { QueuedWord } from '../sites/filter.js';
import { type CallSite, type Literal, type NamedOps, REC } from './records.js';
import { type Callee, imageOf, type Negotiation, Ops, type OpsTrampoline } from './ops.js';
import { GraphUser } from './graph-user.js';
import { type HashPair, makeHash, type SiteHash } from './hash.js';
import type { CoreState } from './state.js';

const savedVersion = 1;

type Hex = string;

export interface SavedHash {
  readonly sites: readonly Hex[];
  readonly neutral: number;
  readonly queued: readonly QueuedWord[];
}

export interface SavedPair {
  readonly filter: SavedHash | null;
  readonly notrace: SavedHash | null;
}

type SavedCallee =
  | { readonly kind: 'stub' | 'list' }
  | { readonly kind: 'function'; readonly address: Hex }
  | { readonly kind: 'assist'; readonly ops: number };

export type SavedTrampoline =
  | {
      readonly kind: 'private';
      readonly address: Hex;
      readonly sizeBytes: number;
      readonly template: 'plain' | 'regs';
      readonly callee: SavedCallee;
    }
  | { readonly kind: 'user' | 'graph'; readonly address: Hex }
  | { readonly kind: 'entry' };

export interface SavedOps {
  readonly name: string;
  readonly func: Hex;
  readonly savedFunc: Hex;
  readonly flags: number;
  readonly pair: number;
  readonly trampoline: SavedTrampoline | null;
  readonly directCall: Hex;
  readonly data: Hex;
  /** Guest memory has an object for it. */
  readonly object: boolean;
}

/** Indices are positions in `ops`, `pairs` and `graph.known`. */
export interface SavedCore {
  readonly version: typeof savedVersion;
  readonly enabled: boolean;
  readonly dead: string | null;
  readonly modules: readonly string[];
  /** The first is the global filter. */
  readonly pairs: readonly SavedPair[];
  readonly sharedPairs: readonly number[];
  readonly ops: readonly SavedOps[];
  readonly list: readonly number[];
  readonly callee: SavedCallee;
  readonly traceOp: number | null;
  readonly direct: readonly { readonly site: Hex; readonly address: Hex }[];
  /** Records with anything to say. */
  readonly records: readonly {
    readonly site: Hex;
    readonly flags: Hex;
    readonly literal: { readonly kind: 'nop-ops' | 'list-ops' } | { readonly kind: 'ops'; readonly ops: number } | null;
  }[];
  readonly graph: {
    readonly known: readonly {
      readonly name: string;
      readonly entry: Hex;
      readonly return: Hex;
      readonly pair: number;
    }[];
    readonly users: readonly (number | null)[];
    readonly manager: number | null;
    readonly saved: { readonly trampoline: SavedTrampoline | null; readonly flags: number } | null;
    readonly on: boolean;
  };
  /** The ops of the function tracer, and that of direct callers by address. */
  readonly tracer: number | null;
  readonly byAddress: number;
}

/** Ops that have a role of their own. */
export interface Roles {
  readonly tracer: Ops | null;
  readonly byAddress: Ops;
  readonly globalPair: HashPair;
}

/** Writes single things of a state down; ops are their numbers. */
class Saver {
  constructor(private readonly ops: readonly NamedOps[]) {}

  indexOf(one: NamedOps): number {
    const index = this.ops.findIndex((each) => each === one);
    if (index < 0) throw new ElftraceError('internal', `${one.name} is used and not known`);
    return index;
  }

  callee(one: Callee): SavedCallee {
    if (one.kind === 'function') return { kind: one.kind, address: hex(one.address) };
    return one.kind === 'assist' ? { kind: one.kind, ops: this.indexOf(one.ops) } : one;
  }

  trampoline(one: OpsTrampoline | null): SavedTrampoline | null {
    if (one === null) return null;
    switch (one.kind) {
      case 'private': {
        const { block, template } = one;
        const { sizeBytes } = block;
        return { kind: one.kind, address: hex(block.address), sizeBytes, template, callee: this.callee(one.callee) };
      }
      case 'user':
      case 'graph':
        return { kind: one.kind, address: hex(one.address) };
      case 'entry':
        return one;
      default:
        return one satisfies never;
    }
  }

  literal(one: Literal | null): SavedCore['records'][number]['literal'] {
    return one?.kind === 'ops' ? { kind: one.kind, ops: this.indexOf(one.ops) } : one;
  }
}

const savedHash = (one: SiteHash | null): SavedHash | null =>
  one && { sites: [...one.sites].map((site) => hex(site.ip)), neutral: one.neutral, queued: one.queued };

/** Writes the state down. No operation may be under way. */
export function saveState(state: CoreState, roles: Roles): SavedCore {
  const ops = [...state.known];
  const { graph } = state;
  const pairs = [
    ...new Set([
      roles.globalPair,
      ...state.sharedPairs,
      ...ops.map((each) => each.pair),
      ...graph.known.map((user) => user.pair),
    ]),
  ];
  const saver = new Saver(ops);
  const indexOf = (one: NamedOps): number => saver.indexOf(one);
  return {
    version: savedVersion,
    enabled: state.enabled,
    dead: state.dead,
    modules: state.records.modules,
    pairs: pairs.map(({ filter, notrace }) => ({ filter: savedHash(filter), notrace: savedHash(notrace) })),
    sharedPairs: state.sharedPairs.map((pair) => pairs.indexOf(pair)),
    ops: ops.map((one) => ({
      name: one.name,
      func: hex(one.func),
      savedFunc: hex(one.savedFunc),
      flags: one.flags,
      pair: pairs.indexOf(one.pair),
      trampoline: saver.trampoline(one.trampoline),
      directCall: hex(one.directCall),
      data: hex(one.data),
      object: state.objects.has(one),
    })),
    list: state.list.map(indexOf),
    callee: saver.callee(state.callee),
    traceOp: state.traceOp && indexOf(state.traceOp),
    direct: [...state.direct].map(([site, address]) => ({ site: hex(site.ip), address: hex(address) })),
    records: state.records.list
      .filter((site) => site.flags !== 0)
      .map((site) => ({ site: hex(site.ip), flags: hex(site.flags), literal: saver.literal(site.literal) })),
    graph: {
      known: graph.known.map(({ name, callbacks, pair }) => ({
        name,
        entry: hex(callbacks.entry),
        return: hex(callbacks.return),
        pair: pairs.indexOf(pair),
      })),
      users: graph.users.map((user) => user && graph.known.indexOf(user)),
      manager: graph.manager && indexOf(graph.manager),
      saved: graph.saved && { trampoline: saver.trampoline(graph.saved.trampoline), flags: graph.saved.flags },
      on: graph.on,
    },
    tracer: roles.tracer && indexOf(roles.tracer),
    byAddress: indexOf(roles.byAddress),
  };
}

/** Makes the ops of a saved state, with their trampolines. */
function restoreOps(
  saved: SavedCore,
  pairs: readonly HashPair[],
  negotiate: (name: string) => Negotiation | null,
): readonly Ops[] {
  const ops = saved.ops.map((one) => {
    const share = negotiate(one.name);
    const made = new Ops({
      name: one.name,
      func: BigInt(one.func),
      pair: at(pairs, one.pair),
      ...(share === null ? {} : { negotiate: share }),
      data: BigInt(one.data),
    });
    made.savedFunc = BigInt(one.savedFunc);
    made.flags = one.flags;
    made.directCall = BigInt(one.directCall);
    return made;
  });
  saved.ops.forEach((one, index) => {
    ops[index]!.trampoline = restoredTrampoline(one.trampoline, ops);
  });
  for (const one of ops) {
    if (one.has('ALLOC_TRAMP') !== (one.trampoline?.kind === 'private')) throw bad(`${one.name}: ALLOC_TRAMP is wrong`);
  }
  return ops;
}

function restoredCallee(one: SavedCallee, ops: readonly Ops[]): Callee {
  if (one.kind === 'function') return { kind: one.kind, address: BigInt(one.address) };
  return one.kind === 'assist' ? { kind: one.kind, ops: at(ops, one.ops) } : { kind: one.kind };
}

function restoredTrampoline(one: SavedTrampoline | null, ops: readonly Ops[]): OpsTrampoline | null {
  if (one === null || one.kind === 'entry') return one;
  const address: Address = BigInt(one.address);
  if (one.kind !== 'private') return { kind: one.kind, address };
  const { sizeBytes, template } = one;
  return { kind: one.kind, block: { address, sizeBytes }, template, callee: restoredCallee(one.callee, ops) };
}

/** Flags and words of the records. */
function restoreRecords(state: CoreState, saved: SavedCore, ops: readonly Ops[], siteAt: (at: Hex) => CallSite): void {
  // What is loaded is live; only weak leftovers are disabled.
  for (const site of state.records.list) site.flags = site.weak ? REC.DISABLED : 0;
  for (const { site, flags, literal } of saved.records) {
    const record = siteAt(site);
    record.flags = Number(BigInt.asUintN(32, BigInt(flags)));
    if (literal !== null)
      record.literal = literal.kind === 'ops' ? { kind: 'ops', ops: at(ops, literal.ops) } : literal;
  }
}

/**
 * Puts a saved state into a core whose records, those of the modules included, are there.
 * @param negotiate  what an ops of this name shares (C-IPM-4): a function, so it cannot be saved
 * @throws ElftraceError 'bad-record' for another version, and for sites and indices that name
 *   nothing
 */
export function restoreState(
  state: CoreState,
  saved: SavedCore,
  negotiate: (name: string) => Negotiation | null,
): Roles {
  if (saved.version !== savedVersion) throw bad(`version ${String(saved.version)} is not known`);
  const sites = new Map(state.records.list.map((site) => [site.ip, site]));
  const siteAt = (at: Hex): CallSite => {
    const site = sites.get(BigInt(at));
    if (site === undefined) throw bad(`there is no site at ${at}`);
    return site;
  };
  const hash = (one: SavedHash | null): SiteHash | null => one && makeHash(one.sites.map(siteAt), one);
  const pairs: HashPair[] = saved.pairs.map(({ filter, notrace }) => ({
    filter: hash(filter),
    notrace: hash(notrace),
  }));
  const ops = restoreOps(saved, pairs, negotiate);
  restoreRecords(state, saved, ops, siteAt);
  const known = saved.graph.known.map((user) => {
    const callbacks = { entry: BigInt(user.entry), return: BigInt(user.return) };
    return new GraphUser(user.name, callbacks, at(pairs, user.pair));
  });
  const { backend } = state;
  state.known = ops;
  state.sharedPairs = saved.sharedPairs.map((index) => at(pairs, index));
  state.list = saved.list.map((index) => at(ops, index));
  state.enabled = saved.enabled;
  state.dead = saved.dead;
  state.callee = restoredCallee(saved.callee, ops);
  state.traceOp = saved.traceOp === null ? null : at(ops, saved.traceOp);
  state.direct = new Map(saved.direct.map(({ site, address }) => [siteAt(site), BigInt(address)]));
  state.objects = new Map(
    ops
      .filter((_, index) => saved.ops[index]!.object)
      .map((one) => [one, imageOf(one, backend.capabilities, backend.symbols.registerEntry)]),
  );
  const { users, manager, saved: put } = saved.graph;
  state.graph = {
    known,
    users: users.map((index) => (index === null ? null : at(known, index))),
    manager: manager === null ? null : at(ops, manager),
    saved: put && { trampoline: restoredTrampoline(put.trampoline, ops), flags: put.flags },
    on: saved.graph.on,
  };
  return {
    tracer: saved.tracer === null ? null : at(ops, saved.tracer),
    byAddress: at(ops, saved.byAddress),
    globalPair: at(pairs, 0),
  };
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw bad(`there is no number ${index}`);
  return found;
}

function bad(reason: string): ElftraceError {
  return new ElftraceError('bad-record', `saved session: ${reason}`, { what: 'session' });
}
