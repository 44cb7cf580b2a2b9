/**
 * What must run when a function is called, from the rules alone: the model that tests hold the core
 * against. Shares nothing with the core but the names of capabilities and variants.
 */
import type { Capabilities, Policy } from '../../src/ftrace/index.js';
import { type Event, PARENT } from './fake-ftrace.js';

export interface MFunction {
  /** Name, and for functions of modules which load of the module they belong to. */
  readonly id: string;
  readonly name: string;
  readonly module: string | null;
  readonly ip: bigint;
  readonly weak: boolean;
}

export interface MHash {
  readonly ids: ReadonlySet<string>;
  /** Entries of functions that have gone. */
  readonly lost: number;
  readonly waiting: readonly (readonly [func: string, module: string])[];
}

export interface MPair {
  filter: MHash | null;
  notrace: MHash | null;
}

export type Trait =
  'regs' | 'regs-if' | 'recursion' | 'rcu' | 'ipmodify' | 'permanent' | 'dynamic' | 'own-trampoline' | 'shares';

export interface MOps {
  readonly name: string;
  readonly traits: ReadonlySet<Trait>;
  readonly kind: 'plain' | 'direct' | 'by-address' | 'manager';
  pair: MPair;
  func: bigint;
  address: bigint;
  filtered: boolean;
}

export const emptyHash = (hash: MHash | null): boolean =>
  hash === null || (hash.ids.size + hash.lost === 0 && hash.waiting.length === 0);

function pairMatches({ filter, notrace }: MPair, id: string): boolean {
  if (!emptyHash(filter) && filter?.ids.has(id) !== true) return false;
  return notrace?.ids.has(id) !== true;
}

export class Model {
  functions: MFunction[] = [];
  modules = new Set<string>();
  /** Registered, the latest first. */
  list: MOps[] = [];
  on = true;
  watching = true;
  table = new Map<string, bigint>();
  users: (string | null)[] = [];
  readonly userPairs = new Map<string, MPair>();
  readonly manager: MOps;
  readonly byAddress: MOps;

  constructor(
    readonly caps: Capabilities,
    readonly era: Policy['graph'],
    readonly trampolines: Policy['trampolines'],
    readonly all: MOps[],
    readonly globalPair: MPair,
    readonly tracer: MOps,
  ) {
    const pair = era === 'multi' ? { filter: null, notrace: null } : globalPair;
    const base = { func: 0n, address: 0n, filtered: true, traits: new Set<Trait>() };
    this.manager = era === '2014' ? tracer : { ...base, name: 'graph', kind: 'manager', pair };
    this.byAddress = { ...base, name: 'by-address', kind: 'by-address', pair: { filter: null, notrace: null } };
  }

  get graphOn(): boolean {
    return this.users.some((user) => user !== null);
  }

  wantsRegs(ops: MOps): boolean {
    const { regs } = this.caps;
    if (ops.kind === 'direct' || ops.kind === 'by-address') return regs === 'separate';
    return regs !== 'none' && (ops.traits.has('regs') || ops.traits.has('regs-if'));
  }

  attached({ id, weak }: MFunction): MOps[] {
    return weak ? [] : this.list.filter((ops) => pairMatches(this.hashesOf(ops), id));
  }

  /** The manager takes what any of its users takes. */
  hashesOf(ops: MOps): MPair {
    if (ops !== this.manager || this.era !== 'multi') return ops.pair;
    const pairs = this.userHashes();
    const filter = pairs.some((pair) => emptyHash(pair.filter))
      ? null
      : {
          ids: new Set(pairs.flatMap((pair) => [...(pair.filter?.ids ?? [])])),
          lost: 1,
          waiting: [],
        };
    const common = [...(pairs[0]?.notrace?.ids ?? [])].filter((id) => pairs.every((pair) => pair.notrace?.ids.has(id)));
    return { filter, notrace: { ids: new Set(common), lost: 0, waiting: [] } };
  }

  userHashes(): MPair[] {
    return this.users.flatMap((user) => (user === null ? [] : [this.userPairs.get(user)!]));
  }

  /** What runs when a function is called. */
  expected(fn: MFunction): Event[] {
    const attached = this.attached(fn);
    if (!this.on || attached.length === 0) return [];
    const alone = attached.length === 1;
    const [first] = attached;
    if (alone && first!.traits.has('own-trampoline')) return [{ kind: 'user-trampoline', address: 0xeeen }];
    const regs = this.caps.regs === 'same' || attached.some((ops) => this.wantsRegs(ops));
    const events: Event[] = [];
    let direct: bigint | null = null;
    let graph = false;
    const graphEvents = (): Event[] =>
      this.users.flatMap((user): Event[] => {
        if (user === null) return [];
        if (this.era === 'multi' && !pairMatches(this.userPairs.get(user)!, fn.id)) return [];
        return [{ kind: 'graph', user }];
      });
    for (const ops of attached) {
      if (ops.kind === 'direct' || ops.kind === 'by-address') direct = this.table.get(fn.id) ?? null;
      else if (ops === this.manager && this.graphOn) {
        if (this.caps.graph === 'callback') events.push(...graphEvents());
        else graph = true;
      } else {
        // 2014: a private trampoline calls the function itself, whatever guard it asked for.
        const unguarded = alone && this.trampolines === '2014' && this.caps.trampolines && !ops.traits.has('dynamic');
        if (ops.traits.has('rcu') && !this.watching && !unguarded) continue;
        events.push({ kind: 'callback', func: ops.func, ip: fn.ip, parent: PARENT, ops: ops.name, regs });
      }
    }
    if (graph) events.push(...graphEvents());
    if (direct !== null) events.push({ kind: 'direct', address: direct });
    return events;
  }

  // --------------------------------------------------------------------------------------- filters

  /** The hash that words make, or null where one is refused. */
  words(text: string, from: MHash | null): MHash | null {
    const ids = new Set(from?.ids ?? []);
    let waiting = [...(from?.waiting ?? [])];
    for (const word of text.split(' ').filter((each) => each !== '')) {
      const remove = word.startsWith('!');
      const [pattern, mod, module] = word.replace('!', '').split(':') as [string, string?, string?];
      const wanted = this.functions.filter((fn) => {
        if (fn.weak || (mod !== undefined && fn.module !== module)) return false;
        return pattern.endsWith('*') ? fn.name.startsWith(pattern.slice(0, -1)) : fn.name === pattern;
      });
      for (const { id } of wanted) {
        if (remove) ids.delete(id);
        else ids.add(id);
      }
      if (wanted.length > 0) continue;
      if (module === undefined) return null;
      if (remove) {
        const kept = waiting.filter(([func, where]) => where !== module || (pattern !== '*' && func !== pattern));
        if (kept.length === waiting.length) return null;
        waiting = kept;
      } else if (this.modules.has(module)) return null;
      else waiting.push([pattern, module]);
    }
    return { ids, lost: from?.lost ?? 0, waiting };
  }

  /** Why a pair cannot get another hash; null when it can, and has it. */
  modify(pair: MPair, which: 'filter' | 'notrace', next: MHash, byUser = true): string | null {
    const users = [...this.all, this.byAddress].filter((ops) => ops.pair === pair);
    if (which === 'notrace' && users.some((ops) => ops.traits.has('ipmodify'))) return 'EINVAL';
    for (const ops of this.list.filter((each) => each.pair === pair)) {
      if (ops.kind === 'direct' && byUser) return 'EINVAL';
      if (which === 'notrace') continue;
      const added = [...next.ids].filter((id) => pair.filter?.ids.has(id) !== true);
      const error = this.conflict(ops, emptyHash(next) ? [] : added, emptyHash(next));
      if (error !== null) return error;
    }
    pair[which] = next;
    return null;
  }

  /** C-IPM-4: a direct caller whose sites another ops may change the resume address of. */
  private mayShare(direct: MOps): boolean {
    return this.caps.directShares && direct.traits.has('shares');
  }

  /** C-IPM-5 for functions that an ops is to get. */
  conflict(ops: MOps, added: readonly string[], everything: boolean): string | null {
    const modifies = ops.traits.has('ipmodify');
    const direct = ops.kind === 'direct' || ops.kind === 'by-address';
    if (!modifies && !direct) return null;
    if (modifies) {
      for (const id of added) {
        const owner = this.list.find(
          (each) => each !== ops && isDirect(each) && each.pair.filter?.ids.has(id) === true,
        );
        if (owner !== undefined && !this.mayShare(owner)) return 'EBUSY';
      }
    }
    if (everything) return 'EINVAL';
    for (const id of added) {
      const other = this.list.some(
        (each) => each !== ops && each.traits.has('ipmodify') && each.pair.filter?.ids.has(id) === true,
      );
      if (other && (modifies || !this.mayShare(ops))) return 'EBUSY';
    }
    return null;
  }

  register(ops: MOps): string | null {
    if (this.list.includes(ops)) return 'EBUSY';
    const { regs, resume } = this.caps;
    if (ops.traits.has('regs') && regs === 'none') return 'EINVAL';
    if (ops.traits.has('ipmodify')) {
      if (resume === 'none' || (resume === 'regs' && !this.wantsRegs(ops))) return 'EINVAL';
    }
    if (ops.traits.has('permanent') && !this.on) return 'EBUSY';
    const { filter } = ops.pair;
    const error = this.conflict(ops, [...(filter?.ids ?? [])], emptyHash(filter));
    if (error !== null) return error;
    this.list.unshift(ops);
    return null;
  }

  unregister(ops: MOps): string | null {
    if (ops === this.manager && this.graphOn) return 'EINVAL';
    if (!this.list.includes(ops)) return 'EBUSY';
    this.list = this.list.filter((each) => each !== ops);
    return null;
  }

  get directs(): boolean {
    return this.caps.direct !== 'none';
  }

  registerDirect(ops: MOps, address: bigint): string | null {
    if (!this.directs) return 'ENODEV';
    const { filter } = ops.pair;
    if (this.list.includes(ops) || !ops.filtered || filter === null || emptyHash(filter)) return 'EINVAL';
    if ([...filter.ids].some((id) => this.table.has(id))) return 'EBUSY';
    const error = this.conflict(ops, [...filter.ids], false);
    if (error !== null) return error;
    this.list.unshift(ops);
    ops.address = address;
    for (const id of filter.ids) this.table.set(id, address);
    return null;
  }

  unregisterDirect(ops: MOps): string | null {
    if (!this.directs) return 'ENODEV';
    if (!this.list.includes(ops)) return 'EINVAL';
    this.list = this.list.filter((each) => each !== ops);
    for (const id of ops.pair.filter?.ids ?? []) this.table.delete(id);
    return null;
  }

  modifyDirect(ops: MOps, address: bigint): string | null {
    if (!this.directs) return 'ENODEV';
    if (!this.list.includes(ops)) return 'EINVAL';
    for (const id of ops.pair.filter?.ids ?? []) this.table.set(id, address);
    ops.address = address;
    return null;
  }

  get byAddressWorks(): boolean {
    return this.directs && !this.caps.callOps;
  }

  registerAt(fn: MFunction, address: bigint): string | null {
    if (!this.byAddressWorks || fn.weak) return 'ENODEV';
    if (this.table.has(fn.id)) return 'EBUSY';
    const error = this.conflict(this.byAddress, [fn.id], false);
    if (error !== null) return error;
    const { filter } = this.byAddress.pair;
    if (!this.list.includes(this.byAddress)) this.list.unshift(this.byAddress);
    this.byAddress.pair.filter = { ids: new Set([...(filter?.ids ?? []), fn.id]), lost: 0, waiting: [] };
    this.table.set(fn.id, address);
    return null;
  }

  unregisterAt(fn: MFunction): string | null {
    const ids = this.byAddress.pair.filter?.ids;
    if (!this.byAddressWorks || ids?.has(fn.id) !== true) return 'ENODEV';
    const rest = new Set([...ids].filter((id) => id !== fn.id));
    this.byAddress.pair.filter = rest.size === 0 ? null : { ids: rest, lost: 0, waiting: [] };
    if (rest.size === 0) this.list = this.list.filter((each) => each !== this.byAddress);
    this.table.delete(fn.id);
    return null;
  }

  modifyAt(fn: MFunction, from: bigint, to: bigint): string | null {
    if (!this.byAddressWorks || this.byAddress.pair.filter?.ids.has(fn.id) !== true) return 'ENODEV';
    if (this.table.get(fn.id) !== from) return 'EINVAL';
    this.table.set(fn.id, to);
    return null;
  }

  registerGraph(user: string): string | null {
    if (this.users.includes(user)) return 'EBUSY';
    if (this.era !== 'multi' && this.graphOn) return 'EBUSY';
    if (this.era === '2014' && this.list.includes(this.tracer)) return 'EBUSY';
    const first = !this.graphOn;
    const free = this.users.indexOf(null);
    if (free < 0) this.users.push(user);
    else this.users[free] = user;
    if (first) this.list.unshift(this.manager);
    return null;
  }

  unregisterGraph(user: string): string | null {
    const index = this.users.indexOf(user);
    if (index < 0) return 'EINVAL';
    this.users[index] = null;
    if (!this.graphOn) {
      this.users = [];
      this.list = this.list.filter((each) => each !== this.manager);
    }
    while (this.users.length > 0 && this.users.at(-1) === null) this.users.pop();
    return null;
  }

  load(name: string, functions: readonly MFunction[]): string | null {
    if (this.modules.has(name)) return 'EBUSY';
    this.modules.add(name);
    this.functions.push(...functions);
    const pairs = new Set([this.globalPair, ...this.all.map((ops) => ops.pair)]);
    for (const which of ['filter', 'notrace'] as const) {
      for (const pair of pairs) {
        const next = this.replayed(pair[which], name);
        if (next !== null) this.modify(pair, which, next);
      }
      for (const pair of this.userPairs.values()) {
        const next = this.replayed(pair[which], name);
        if (next !== null && this.era === 'multi') pair[which] = next;
      }
    }
    return null;
  }

  replayed(hash: MHash | null, module: string): MHash | null {
    const mine = hash?.waiting.filter(([, where]) => where === module) ?? [];
    if (hash === null || mine.length === 0) return null;
    const ids = new Set(hash.ids);
    for (const [func] of mine) {
      for (const fn of this.functions) {
        const fits = func.endsWith('*') ? fn.name.startsWith(func.slice(0, -1)) : fn.name === func;
        if (fn.module === module && !fn.weak && fits) ids.add(fn.id);
      }
    }
    return { ids, lost: hash.lost, waiting: hash.waiting.filter(([, where]) => where !== module) };
  }

  unload(name: string): string | null {
    if (!this.modules.delete(name)) return 'ENOENT';
    const gone = this.functions.filter((fn) => fn.module === name).map((fn) => fn.id);
    this.functions = this.functions.filter((fn) => fn.module !== name);
    const lose = (hash: MHash | null): MHash | null => {
      if (hash === null) return null;
      const ids = new Set([...hash.ids].filter((id) => !gone.includes(id)));
      return { ids, lost: hash.lost + hash.ids.size - ids.size, waiting: hash.waiting };
    };
    const pairs = [
      ...[...this.all, this.byAddress].map((ops) => ops.pair),
      this.globalPair,
      ...this.userPairs.values(),
    ];
    for (const pair of new Set(pairs)) {
      pair.filter = lose(pair.filter);
      pair.notrace = lose(pair.notrace);
    }
    for (const id of gone) this.table.delete(id);
    return null;
  }

  switch(on: boolean): string | null {
    if (!on && this.list.some((ops) => ops.traits.has('permanent'))) return 'EBUSY';
    this.on = on;
    return null;
  }
}

function isDirect(ops: MOps): boolean {
  return ops.kind === 'direct' || ops.kind === 'by-address';
}
