/**
 * The ftrace core: registered ops, records and what follows from them, for any image and any
 * machine. Callers make ops and filters and ask for operations; each operation is one transaction
 * that decides an ordered list of steps, verifies all of them against the backend and then writes
 * them. Knows no file, no machine and no bytes; the border is `backend.ts`.
 *
 *   hash         sets of sites, matching                  C-HASH
 *   records      one per patchable function entry         C-REC
 *   ops          a callback and its registration          C-OPS
 *   targets      what a record and an entry must call     C-TGT
 *   register     register, unregister, modify, on, off    C-REG, C-IPM
 *   direct       direct callers                           C-DIR
 *   update       the order of one run                     C-UPD
 *   state        what an operation may change
 *   transaction  verify, write, undo, dead                C-UPD
 *   report       failure report, listings                 C-REP
 *   graph        the graph tracer                         C-FG
 *   modules      coming and going                         C-MOD
 *   save         the state as data, between processes     RT-7
 *   session      the operations of a session file
 */
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';
import { splitWords } from '../sites/filter.js';
import type { Backend } from './backend.js';
import {
  modifyDirectAt,
  modifyDirectIn,
  registerDirectAt,
  registerDirectIn,
  unregisterDirectAt,
  unregisterDirectIn,
} from './direct.js';
import { registerGraphIn, setGraphFilterIn, unregisterGraphIn } from './graph.js';
import type { GraphUser } from './graph-user.js';
import { type HashPair, makeHash, type SiteHash } from './hash.js';
import { addRecords, editHash, hashFrom, moduleComing, moduleGoing, replayFor } from './modules.js';
import { type Errno, type Negotiation, Ops, type OpsInput } from './ops.js';
import { defaultPolicy, type Policy } from './policy.js';
import { type CallSite, type RecordOptions, Records, type SiteInput } from './records.js';
import {
  destroyIn,
  modifyIn,
  reclaimIn,
  refuseDead,
  registerIn,
  setFunctionIn,
  switchIn,
  unregisterIn,
} from './register.js';
import { restoreState, type SavedCore, saveState } from './save.js';
import { enabledFunctions, type ListedFunction, touchedFunctions } from './report.js';
import { type CoreState, type Outcome, refuse } from './state.js';
import { transact } from './transaction.js';

export type { Backend, CodePlace, Reading, Step, StepProblem, TrampolineImage, TrampolineRequest } from './backend.js';
export type { Capabilities } from '../machine/conventions.js';
export { describeStep } from './describe.js';
export { GraphUser, type GraphUserImage } from './graph-user.js';
export { hashesMatch, isEmpty, type SiteHash } from './hash.js';
export {
  type Callee,
  type Content,
  equalContents,
  type Errno,
  flagNames,
  type Negotiation,
  Ops,
  type OpsImage,
  type OpsInput,
  rawFlags,
  type TrampolineBlock,
} from './ops.js';
export { type Policy } from './policy.js';
export { CallSite, type Literal, type NamedOps, REC, type SiteInput } from './records.js';
export { formatFunctions, formatReport, initReport, type ListedFunction } from './report.js';
export type { FailureReport } from './failure.js';
export type { SavedCore } from './save.js';
export type { Outcome } from './state.js';

export interface CoreOptions {
  readonly backend: Backend;
  /** Records of the core image, in any order; sites are nops (C-INIT-2). */
  readonly sites: readonly SiteInput[];
  readonly records: RecordOptions;
  /** Variants that differ from the defaults. */
  readonly policy?: Partial<Policy>;
  /** Goes on from a state that was saved, with the sites of the modules that were loaded then. */
  readonly saved?: {
    readonly state: SavedCore;
    readonly modules: ReadonlyMap<string, readonly SiteInput[]>;
    /** What the ops of a name shares (C-IPM-4); nothing when absent. */
    readonly negotiate?: (name: string) => Negotiation | null;
  };
}

/**
 * The ftrace core over any image: ops are registered, filters changed, functions called directly;
 * each operation decides all of its steps, verifies them and writes them, or fails with an errno.
 */
export class FtraceCore {
  readonly #state: CoreState;
  /** The hashes that ops share unless they have their own: the global filter. */
  readonly globalPair: HashPair;
  /** The ops of the function tracer, which the graph tracer of 2014 borrows. */
  #tracer: Ops | null = null;
  /** Stands for all direct callers that were registered by address. */
  readonly #byAddress: Ops;
  /** What was said about the image when the core was made. */
  readonly warnings: readonly string[];

  /** @throws ElftraceError 'bad-record' for a saved state that does not fit the sites */
  constructor({ backend, sites, records, policy, saved }: CoreOptions) {
    const globalPair: HashPair = { filter: null, notrace: null };
    this.#state = {
      backend,
      policy: { ...defaultPolicy, ...policy },
      records: new Records(records),
      list: [],
      known: [],
      sharedPairs: [globalPair],
      enabled: true,
      dead: null,
      callee: { kind: 'stub' },
      traceOp: null,
      direct: new Map(),
      graph: { users: [], known: [], manager: null, saved: null, on: false },
      objects: new Map(),
    };
    const { added, dropped } = addRecords(this.#state, sites, null);
    this.warnings = dropped > 0 ? [`${dropped} sites at address 0 were dropped`] : [];
    // C-INIT-3
    if (added.length === 0) this.#state.dead = 'the image has nothing to trace';
    if (saved === undefined) {
      this.globalPair = globalPair;
      this.#byAddress = this.createOps({ name: 'direct callers by address', func: 0n });
      return;
    }
    for (const name of saved.state.modules) addRecords(this.#state, saved.modules.get(name) ?? [], name);
    const roles = restoreState(this.#state, saved.state, saved.negotiate ?? (() => null));
    this.globalPair = roles.globalPair;
    this.#tracer = roles.tracer;
    this.#byAddress = roles.byAddress;
  }

  /** The state as plain data, for a record beside the image. */
  save(): SavedCore {
    return saveState(this.#state, {
      tracer: this.#tracer,
      byAddress: this.#byAddress,
      globalPair: this.globalPair,
    });
  }

  /** Everything that the core knows, to read. */
  get state(): Readonly<CoreState> {
    return this.#state;
  }

  get records(): readonly CallSite[] {
    return this.#state.records.list;
  }

  /** Why nothing works any more; null while it does. */
  get dead(): string | null {
    return this.#state.dead;
  }

  /** A new ops, not registered. */
  createOps(input: OpsInput): Ops {
    const ops = new Ops(input);
    this.#state.known = [...this.#state.known, ops];
    return ops;
  }

  /**
   * The ops of the function tracer: shares the global filter, and is what the graph tracer of 2014
   * borrows.
   */
  createTracer(input: Omit<OpsInput, 'pair'>): Ops {
    if (this.#tracer !== null) throw new ElftraceError('usage', 'there is a function tracer already', {});
    this.#tracer = this.createOps({ ...input, pair: this.globalPair });
    return this.#tracer;
  }

  /** The ops of the function tracer, where there is one. */
  get tracer(): Ops | null {
    return this.#tracer;
  }

  /** A pair of hashes that several ops may share. */
  createPair(): HashPair {
    const pair: HashPair = { filter: null, notrace: null };
    this.#state.sharedPairs = [...this.#state.sharedPairs, pair];
    return pair;
  }

  /** C-REC-1. */
  location(address: Address): CallSite | null {
    return this.#state.records.location(address);
  }

  /**
   * The hash that words of the filter grammar make, starting from nothing or from another hash.
   * @throws ElftraceError 'bad-pattern' or 'no-match' for the first word that is refused
   */
  hash(words: string, from: SiteHash | null = null): SiteHash {
    const working = editHash(this.#state.records, from);
    for (const word of splitWords(words)) working.process(word);
    return hashFrom(this.#state.records, working, from);
  }

  /** C-REG-1. */
  register(ops: Ops): Outcome {
    return transact(this.#state, (tx) =>
      ops.has('DIRECT')
        ? refuse('EINVAL', `${ops.name} is a direct caller: only the direct calls register those`)
        : registerIn(tx, ops),
    );
  }

  unregister(ops: Ops): Outcome {
    return transact(this.#state, (tx) =>
      ops.has('DIRECT') || ops === this.#state.graph.manager
        ? refuse('EINVAL', `${ops.name} belongs to the core`)
        : unregisterIn(tx, ops),
    );
  }

  /** Gives the trampoline and the object of an ops back; it cannot be registered again. */
  destroy(ops: Ops): Outcome {
    return transact(this.#state, (tx) => destroyIn(tx, ops));
  }

  /**
   * Gives the objects and trampolines of all ops back that are not registered, as no thread runs in
   * them: what remains is what is in use.
   */
  reclaim(): Outcome {
    return transact(this.#state, (tx) => reclaimIn(tx));
  }

  /**
   * Makes a hash the filter or notrace of a pair: swapped, or an update of enabled ops (C-FILT-9,
   * C-REG-2).
   */
  setHash(target: Ops | HashPair, which: 'filter' | 'notrace', hash: SiteHash | null): Outcome {
    const pair = target instanceof Ops ? target.pair : target;
    const outcome = transact(this.#state, (tx) => modifyIn(tx, pair, { ...pair, [which]: hash }, 'user'));
    if (target instanceof Ops && outcome.kind === 'done') target.set('INITIALIZED');
    return outcome;
  }

  /**
   * The same with words; those of the filter grammar that are refused leave everything as it was.
   */
  setFilter(
    target: Ops | HashPair,
    which: 'filter' | 'notrace',
    words: string,
    mode: 'replace' | 'append' = 'replace',
  ): Outcome {
    const dead = refuseDead(this.#state);
    if (dead !== null) return { kind: 'refused', ...dead };
    const pair = target instanceof Ops ? target.pair : target;
    const made = this.#words(words, mode === 'append' ? pair[which] : null);
    return 'kind' in made ? made : this.setHash(target, which, made);
  }

  #words(words: string, from: SiteHash | null): SiteHash | Extract<Outcome, { kind: 'refused' }> {
    try {
      return this.hash(words, from);
    } catch (error) {
      if (!(error instanceof ElftraceError)) throw error;
      return { kind: 'refused', errno: 'EINVAL', reason: error.message };
    }
  }

  /** The same with addresses (C-FILT-9): one that is refused discards all. */
  setFilterAddresses(
    target: Ops | HashPair,
    which: 'filter' | 'notrace',
    addresses: readonly Address[],
    options: { readonly remove?: boolean; readonly reset?: boolean } = {},
  ): Outcome {
    const dead = refuseDead(this.#state);
    if (dead !== null) return { kind: 'refused', ...dead };
    const pair = target instanceof Ops ? target.pair : target;
    const from = options.reset === true ? null : pair[which];
    const sites = new Set(from?.sites ?? []);
    const refused = (errno: Errno, reason: string): Outcome => ({ kind: 'refused', errno, reason });
    for (const address of addresses) {
      const site = this.location(address);
      if (site === null || site.skipped) return refused('EINVAL', `no traceable function at ${hex(address)}`);
      if (options.remove !== true) sites.add(site);
      else if (!sites.delete(site)) return refused('ENOENT', `${site.name} is not in the filter`);
    }
    return this.setHash(target, which, makeHash(sites, from ?? {}));
  }

  /** C-REG-3. */
  setEnabled(on: boolean): Outcome {
    return transact(this.#state, (tx) => switchIn(tx, on));
  }

  /** Puts another function into an ops. */
  setFunction(ops: Ops, func: Address): Outcome {
    return transact(this.#state, (tx) => setFunctionIn(tx, ops, func));
  }

  registerDirect(ops: Ops, address: Address): Outcome {
    return transact(this.#state, (tx) => registerDirectIn(tx, ops, address));
  }

  unregisterDirect(ops: Ops, address: Address): Outcome {
    return transact(this.#state, (tx) => unregisterDirectIn(tx, ops, address));
  }

  modifyDirect(ops: Ops, address: Address): Outcome {
    return transact(this.#state, (tx) => modifyDirectIn(tx, ops, address));
  }

  /** The older form (C-DIR-5): `ip` is any address that means a function. */
  registerDirectAt(ip: Address, address: Address): Outcome {
    return transact(this.#state, (tx) => registerDirectAt(tx, this.#byAddress, ip, address));
  }

  unregisterDirectAt(ip: Address): Outcome {
    return transact(this.#state, (tx) => unregisterDirectAt(tx, this.#byAddress, ip));
  }

  modifyDirectAt(ip: Address, from: Address, to: Address): Outcome {
    return transact(this.#state, (tx) => modifyDirectAt(tx, this.#byAddress, ip, from, to));
  }

  registerGraph(user: GraphUser): Outcome {
    this.#meet(user);
    // C-FG-4: the ops to borrow is there from the start, whether or not there is a function tracer.
    if (this.#state.policy.graph === '2014' && this.#tracer === null)
      this.createTracer({ name: 'global ops', func: 0n });
    return transact(this.#state, (tx) => registerGraphIn(tx, user, { ops: this.#tracer, pair: this.globalPair }));
  }

  unregisterGraph(user: GraphUser): Outcome {
    return transact(this.#state, (tx) => unregisterGraphIn(tx, user));
  }

  #meet(user: GraphUser): void {
    const { graph } = this.#state;
    if (!graph.known.includes(user)) graph.known = [...graph.known, user];
  }

  setGraphHash(user: GraphUser, which: 'filter' | 'notrace', hash: SiteHash | null): Outcome {
    this.#meet(user);
    return transact(this.#state, (tx) => setGraphFilterIn(tx, user, which, hash));
  }

  setGraphFilter(user: GraphUser, which: 'filter' | 'notrace', words: string): Outcome {
    const dead = refuseDead(this.#state);
    if (dead !== null) return { kind: 'refused', ...dead };
    const made = this.#words(words, null);
    return 'kind' in made ? made : this.setGraphHash(user, which, made);
  }

  /**
   * A module comes (C-MOD-1): its records, then the words of filters that waited for it, each pair
   * in an operation of its own. A filter that cannot be extended keeps its words' failure as a
   * warning.
   */
  loadModule(name: string, sites: readonly SiteInput[]): Outcome {
    const outcome = transact(this.#state, (tx) => moduleComing(tx, name, sites));
    if (outcome.kind !== 'done') return outcome;
    const steps = [...outcome.steps];
    const warnings = [...outcome.warnings];
    for (const replay of this.#replays(name)) {
      const each = replay();
      if (each.kind === 'failed') return each;
      if (each.kind === 'refused') warnings.push(`filter for ${name}: ${each.reason}`);
      else {
        steps.push(...each.steps);
        warnings.push(...each.warnings);
      }
    }
    return { kind: 'done', steps, warnings };
  }

  #replays(module: string): (() => Outcome)[] {
    const { records, sharedPairs, known, graph } = this.#state;
    const found: (() => Outcome)[] = [];
    const manager = graph.manager?.pair;
    for (const which of ['filter', 'notrace'] as const) {
      for (const pair of new Set([...sharedPairs, ...known.map((ops) => ops.pair)])) {
        // The manager of the graph tracer follows its users.
        if (pair === manager && this.#state.policy.graph === 'multi') continue;
        const next = replayFor(records, pair[which], module);
        if (next === null) continue;
        found.push(() => transact(this.#state, (tx) => modifyIn(tx, pair, { ...pair, [which]: next }, 'user')));
      }
      for (const user of graph.known) {
        const next = replayFor(records, user.pair[which], module);
        if (next !== null) found.push(() => this.setGraphHash(user, which, next));
      }
    }
    return found;
  }

  /** A module goes (C-MOD-2). */
  unloadModule(name: string): Outcome {
    return transact(this.#state, (tx) => moduleGoing(tx, name));
  }

  /** `enabled_functions`. */
  enabledFunctions(): ListedFunction[] {
    return enabledFunctions(this.#state);
  }

  /** `touched_functions`. */
  touchedFunctions(): ListedFunction[] {
    return touchedFunctions(this.#state);
  }
}
