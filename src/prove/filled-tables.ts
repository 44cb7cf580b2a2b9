/**
 * Tables of the tracer filled with what other requests leave in them (PV-3): ops that do not take
 * the site, before and behind those that do; filters of many sites; users of the graph tracer up to
 * the last place of their table; rows of other sites in those of direct callers and probes. What
 * the site wants stays what it is, but for the users of the graph tracer.
 */
import { entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import {
  DIRECT_WORDS,
  GRAPH_USER_COUNT,
  OPS_FLAGS,
  OPS_WORDS,
  PROBE_EVENT_FLAGS,
  PROBE_EVENT_WORDS,
  PROBE_OP_FLAGS,
  PROBE_OP_WORDS,
  RING_HEADER_BYTES,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import { type GraphUser, wordReader } from './graph-users.js';
import { mix, Random } from './random.js';
import { type TracerMemory, UPPER } from './state-writer.js';
import type { Wanted } from './wanted.js';

/** Records of a ring that has room behind those that a trial writes. */
const LEAST_CAPACITY = 4096n;
/** Most sites of a filter, rows of a table, and ops in front of one. */
const SITES = 12;
const OPS = 3;
/** Of so many lists one is empty. */
const EMPTY = 6;
/** Of so many tables of users of the graph tracer. */
const USERLESS = 5;
const NO_PLACE = 0x10n;
/** From here on objects lie that have the lower half of another one's address, or 0. */
const FAR = 0x100n * UPPER;
/** Flags of an ops that decide whether it is called, and how. */
const ASKED_FLAGS = BigInt(OPS_FLAGS.SAVE_REGS | OPS_FLAGS.STUB | OPS_FLAGS.RCU);
const ALL_FLAGS = 0x7_ffffn;
/** Words of an ops object, as `OPS_WORDS` has them, up to its trampoline. */
const OPS_WORD_COUNT = 8;

/** From one address to the next of which no byte but the highest is not 0, where they have four. */
const HIGHEST = 1n << 24n;

interface UserKind {
  readonly isUser: boolean;
  readonly isRecorded: boolean;
  readonly takes: boolean;
  /** Its callback may answer that it wants the call. */
  readonly mayWant: boolean;
  /** Its object lies where as few bytes of an address as can be are not 0. */
  readonly isLone?: boolean | undefined;
}

interface Ops {
  readonly func: Address;
  readonly flags?: number;
  readonly directCall?: Address;
  readonly filter: Address;
  readonly notrace: Address;
  readonly isLone?: boolean | undefined;
}

class Filler {
  /** Where the next object goes: records far behind the first. */
  private room: Address;
  private readonly word: (address: Address) => bigint;
  private readonly size: bigint;
  /** What is drawn beside the rest. */
  private readonly beside: Random;
  /** Upper half of the address of the next object that lies far from all others. */
  private upper = FAR / UPPER;

  constructor(
    private readonly program: Program,
    private readonly memory: TracerMemory,
    private readonly ip: Address,
    private readonly random: Random,
  ) {
    const first = (memory.capacity * 3n) / 4n;
    this.room = memory.ring + BigInt(RING_HEADER_BYTES) + first * memory.recordBytes;
    this.word = wordReader(program);
    this.size = BigInt(memory.word);
    this.beside = new Random(mix(4, random.state));
  }

  private at(name: string): Address | null {
    return this.program.definedAt(this.program.symbols.find(name));
  }

  private store(at: Address, value: bigint): void {
    if (at >= FAR && at < this.upper * UPPER) this.memory.aside(at, value);
    else this.memory.store(at, BigInt.asUintN(8 * this.memory.word, value), this.memory.word);
  }

  private put(words: readonly bigint[]): Address {
    const at = this.room;
    for (const [i, each] of words.entries()) this.store(at + BigInt(i) * this.size, each);
    this.room += BigInt(words.length) * this.size;
    return at;
  }

  /**
   * The same far from all else, in memory of no image: the lower half of the address is that of
   * another one, or 0.
   * @param low  null: there is none that matters
   */
  private far(words: readonly bigint[], low: Address | null): Address {
    const isFar = this.memory.word === 8 && this.beside.below(3) === 0;
    const at = this.upper++ * UPPER + (low === null || this.beside.below(2) === 0 ? 0n : low % UPPER);
    const isThere = isFar && words.every((each, i) => this.memory.aside(at + BigInt(i) * this.size, each));
    return isThere ? at : this.put(words);
  }

  /** The same where no lower byte of the address is set: who asks for some of them finds 0. */
  private lone(words: readonly bigint[]): Address {
    const { beside, memory } = this;
    const at = memory.word === 8 ? this.upper++ * UPPER : HIGHEST * BigInt(0x60 + beside.below(0x40));
    const isThere = words.every((each, i) => memory.aside(at + BigInt(i) * this.size, each));
    return isThere ? at : this.put(words);
  }

  /** Addresses that are not the site's: near it, or anywhere, or with the same lower half. */
  private others(): bigint[] {
    const { random, ip, memory, beside } = this;
    const isTwin = memory.word === 8 && beside.below(2) === 0;
    const twin = isTwin ? [BigInt.asUintN(64, ip + UPPER * BigInt(1 + beside.below(8)))] : [];
    const others = Array.from({ length: random.below(SITES) }, () =>
      BigInt.asUintN(
        8 * memory.word,
        random.below(3) === 0 ? random.double() : ip + BigInt(random.below(64) - 32) * 4n,
      ),
    );
    return [...twin, ...others].filter((each) => each !== ip);
  }

  private sorted(sites: readonly bigint[]): bigint[] {
    return [...new Set(sites)].sort((a, b) => (a < b ? -1 : 1));
  }

  private hash(takes: boolean): Address {
    const sites = this.sorted([...this.others(), ...(takes ? [this.ip] : [])]);
    return this.far([BigInt(sites.length), ...sites], null);
  }

  /** Hashes that take the site, or do not. */
  private filters(takes: boolean): { readonly filter: Address; readonly notrace: Address } {
    const isSet = (): boolean => this.random.below(2) === 0;
    if (takes) return { filter: isSet() ? this.hash(true) : 0n, notrace: isSet() ? this.hash(false) : 0n };
    if (isSet()) return { filter: this.hash(false), notrace: isSet() ? this.hash(isSet()) : 0n };
    return { filter: isSet() ? this.hash(true) : 0n, notrace: this.hash(true) };
  }

  private ops({ func, flags = 0, directCall = 0n, filter, notrace, isLone = false }: Ops): Address {
    const words = new Array<bigint>(OPS_WORD_COUNT).fill(0n);
    words[OPS_WORDS.func] = func;
    words[OPS_WORDS.flags] = BigInt(flags);
    words[OPS_WORDS.directCall] = directCall;
    words[OPS_WORDS.filter] = filter;
    words[OPS_WORDS.notrace] = notrace;
    if (isLone) return this.lone(words);
    return this.far(words, entryPoint(this.program, 'ftrace_list_end')?.identity ?? null);
  }

  /** Ops that the list passes over, for what it is whatever else their flags say. */
  private passedOver(isTold: boolean): Address {
    const func = entryPoint(this.program, 'elftrace_counter')?.identity ?? NO_PLACE;
    const { SAVE_REGS, STUB, RCU } = OPS_FLAGS;
    const some = (...all: readonly number[]): number =>
      all.reduce((sum, each) => sum | (this.beside.below(2) === 0 ? each : 0), 0);
    switch (this.random.below(isTold ? 3 : 2)) {
      case 0:
        return this.ops({ func, flags: some(SAVE_REGS, STUB, RCU), ...this.filters(false) });
      case 1:
        return this.ops({ func, flags: STUB | some(SAVE_REGS, RCU), ...this.filters(true) });
      default:
        return this.ops({ func, flags: SAVE_REGS | some(RCU), ...this.filters(true) });
    }
  }

  private field(ops: Address, name: keyof typeof OPS_WORDS): Address {
    return ops + BigInt(OPS_WORDS[name]) * this.size;
  }

  /** Flags that nothing asks are any; now and then an ops needs RCU. */
  private anyFlags(ops: Address): void {
    const at = this.field(ops, 'flags');
    const rcu = this.random.below(2) === 0 ? BigInt(OPS_FLAGS.RCU) : 0n;
    this.store(at, this.word(at) | rcu | (this.random.double() & ALL_FLAGS & ~ASKED_FLAGS));
  }

  /** Calls are counted from any number on; RCU watches or does not. */
  words(): void {
    const { random, memory } = this;
    const count = this.at('elftrace_count');
    if (count !== null) this.store(count, random.double());
    const isWatching = random.below(2) !== 0;
    // No bit of it alone says that it watches.
    const watches = this.beside.below(2) === 0 ? 1n : 1n << BigInt(8 * memory.word - 1);
    if (memory.watching !== null) this.store(memory.watching, isWatching ? watches : 0n);
  }

  /** @returns whether the list is empty */
  list({ calls, frame }: Wanted): boolean {
    const [head, end] = ['ftrace_ops_list', 'ftrace_list_end'].map(
      (name) => entryPoint(this.program, name)?.identity ?? null,
    );
    if ((head ?? null) === null || (end ?? null) === null) return false;
    // The list ends there, whatever is behind.
    const behind = this.ops({
      func: entryPoint(this.program, 'elftrace_counter')?.identity ?? NO_PLACE,
      ...this.filters(true),
    });
    this.store(this.field(end!, 'next'), this.beside.below(2) === 0 ? behind : 0n);
    if (this.random.below(EMPTY) === 0) {
      // The end, or nothing: the code takes both.
      this.store(head!, this.random.below(2) === 0 ? end! : 0n);
      return true;
    }
    const all: Address[] = [];
    // Whether the list can tell that not all registers are there.
    const isTold = frame === null || (!frame.full && frame.row.mark !== null);
    const more = (): void => {
      for (let n = this.random.below(OPS); n > 0; n--) all.push(this.passedOver(isTold));
    };
    more();
    for (let at = this.word(head!); at !== 0n && at !== end; at = this.word(this.field(at, 'next'))) {
      all.push(at);
      const isCalled = calls.some(({ self }) => self === at);
      const { filter, notrace } = this.filters(isCalled);
      if (isCalled) {
        this.store(this.field(at, 'filter'), filter);
        this.store(this.field(at, 'notrace'), notrace);
        this.anyFlags(at);
      }
      more();
    }
    this.store(head!, all[0] ?? end!);
    const last = this.random.below(2) === 0 ? end! : 0n;
    for (const [i, each] of all.entries()) this.store(this.field(each, 'next'), all[i + 1] ?? last);
    return false;
  }

  /** Users of the graph tracer in any place of the table, the first and the last among them. */
  users(): GraphUser[] {
    const [table, stub] = ['elftrace_graph_users', 'elftrace_stub_text'].map((name) => this.at(name));
    if ((table ?? null) === null || (stub ?? null) === null) return [];
    const { random } = this;
    // Now and then none wants the call, or none that wants it is recorded.
    const mayWant = random.below(3) > 0;
    const mayRecord = random.below(2) > 0;
    const drawn = [0, GRAPH_USER_COUNT - 1, random.below(GRAPH_USER_COUNT)][random.below(3)]!;
    // All places are asked at once whether there is a user: one alone may be in any of them.
    const isAlone = this.beside.below(2) === 0;
    const last = isAlone ? this.beside.below(GRAPH_USER_COUNT) : drawn;
    const users: GraphUser[] = [];
    if (random.below(USERLESS) === 0) return this.noUsers(table!);
    for (let i = 0; i < GRAPH_USER_COUNT; i++) {
      const kind = random.below(5);
      const isUser = i === last || (!isAlone && kind < 3);
      const isRecorded = mayRecord && (kind === 0 || (i === last && mayWant && random.below(2) > 0));
      const takes = (mayWant || !isRecorded) && (i === last ? random.below(4) > 0 : random.below(2) > 0);
      const user = this.user(i, stub!, { isUser, isRecorded, takes, mayWant });
      this.store(table! + BigInt(i) * this.size, user.ops);
      if (isUser) users.push(user);
    }
    return users;
  }

  private user(i: number, stub: Address, { isUser, isRecorded, takes, mayWant, isLone }: UserKind): GraphUser {
    const { random, memory } = this;
    const hearsReturns = !isRecorded && random.below(3) > 0;
    // No bit of an answer alone says yes.
    const answer = [0n, 1n, 1n << BigInt(8 * memory.word - 1), random.double() | 1n][mayWant ? random.below(4) : 0]!;
    const directCall = hearsReturns ? stub : 0n;
    const func = isRecorded ? 0n : stub;
    const ops = isUser ? this.ops({ func, directCall, ...this.filters(takes), isLone }) : 0n;
    const user = { bit: 1n << BigInt(i), ops, isRecorded, hearsReturns, takes: () => takes };
    return { ...user, answer: isRecorded ? null : answer };
  }

  /** A graph tracer that has none at all records what it takes. */
  private noUsers(table: Address): GraphUser[] {
    for (let i = 0; i < GRAPH_USER_COUNT; i++) this.store(table + BigInt(i) * this.size, 0n);
    return [];
  }

  /** One user of the graph tracer, in any place of a table that has none; else none. */
  otherUsers(hasUsers: boolean): GraphUser[] | null {
    const [table, stub] = ['elftrace_graph_users', 'elftrace_stub_text'].map((name) => this.at(name));
    if ((table ?? null) === null || (stub ?? null) === null) return null;
    if (hasUsers) return this.noUsers(table!);
    const { random } = this;
    const i = random.below(GRAPH_USER_COUNT);
    const [isRecorded, takes] = [random.below(3) === 0, random.below(4) > 0];
    const isLone = this.beside.below(2) === 0;
    const user = this.user(i, stub!, { isUser: true, isRecorded, takes, mayWant: true, isLone });
    this.store(table! + BigInt(i) * this.size, user.ops);
    return [user];
  }

  /**
   * The filter of a graph tracer that is a branch of the entry.
   * @param isNew  where it has none, too
   */
  graphFilter(takes: boolean, isNew = false): void {
    const { graphOps } = this.memory;
    if (graphOps === null || (!isNew && this.word(graphOps) === 0n)) return;
    this.store(graphOps, this.ops({ func: 0n, ...this.filters(takes) }));
  }

  /**
   * A table of pairs of a site and what belongs to it, among rows of other sites.
   * @param pointer  to the table
   * @param takes    the site has its row; else there may be no table either
   */
  pairs(pointer: Address, takes = true): void {
    const table = this.word(pointer);
    if (table === 0n) return;
    if (!takes && this.random.below(3) === 0) {
      this.store(pointer, 0n);
      return;
    }
    const at = (i: number): Address => table + BigInt(i) * this.size;
    const rows = new Map(this.others().map((site) => [site, NO_PLACE]));
    for (let i = 0; takes && i < Number(this.word(table)); i++) {
      const [site, value] = [at(DIRECT_WORDS.pairs + 2 * i), at(DIRECT_WORDS.pairs + 2 * i + 1)].map(this.word);
      if (site === this.ip) rows.set(site, value!);
    }
    const sites = this.sorted([...rows.keys()]);
    this.store(pointer, this.put([BigInt(sites.length), ...sites.flatMap((site) => [site, rows.get(site)!])]));
  }

  direct(takes = true): void {
    const pointer = this.at('ftrace_direct_table');
    if (pointer !== null) this.pairs(pointer, takes);
  }

  /** The table of probes of sites, which the ops has a pointer to the pointer of. */
  probes(place: Address | null, { calls }: Wanted, takes = true): void {
    const ops = calls.find((each) => each.place === place && each.self !== 0n);
    if (ops !== undefined) this.pairs(this.word(this.field(ops.self, 'private')), takes);
  }
}

export interface FilledTables {
  /** The users of the graph tracer now; null: those of the image. */
  readonly users: readonly GraphUser[] | null;
  readonly isUnlisted: boolean;
}

/**
 * Fills the tables.
 * @param probe  the callback of probes of sites
 * @returns null: there is no room
 */
export function fillTables(
  program: Program,
  memory: TracerMemory,
  { ip, wanted, probe }: { readonly ip: Address; readonly wanted: Wanted; readonly probe: Address | null },
  random: Random,
): FilledTables | null {
  if (memory.capacity < LEAST_CAPACITY) return null;
  const filler = new Filler(program, memory, ip, random);
  filler.words();
  const isUnlisted = filler.list(wanted);
  filler.graphFilter(wanted.hijack);
  filler.direct();
  filler.probes(probe, wanted);
  return { users: wanted.hijack ? filler.users() : null, isUnlisted };
}

/**
 * Gives a graph tracer that has no users one of them, and takes them off another one.
 * @returns null: there is no room
 */
export function otherUsers(
  program: Program,
  memory: TracerMemory,
  { ip, hasUsers }: { readonly ip: Address; readonly hasUsers: boolean },
  random: Random,
): readonly GraphUser[] | null {
  if (memory.capacity < LEAST_CAPACITY) return null;
  return new Filler(program, memory, ip, random).otherUsers(hasUsers);
}

/**
 * Takes the rows of the site off the tables of direct callers and probes, whose callbacks still ask
 * them.
 * @returns whether there is room for that
 */
export function takeRowsOff(
  program: Program,
  memory: TracerMemory,
  { ip, wanted, probe }: { readonly ip: Address; readonly wanted: Wanted; readonly probe: Address | null },
  random: Random,
): boolean {
  if (memory.capacity < LEAST_CAPACITY) return false;
  const filler = new Filler(program, memory, ip, random);
  filler.direct(false);
  filler.probes(probe, wanted, false);
  return true;
}

/**
 * The filter of a graph tracer that is a branch of the entry does not take the site.
 * @returns whether there is room for that
 */
export function leaveOutOfGraph(program: Program, memory: TracerMemory, ip: Address, random: Random): boolean {
  if (memory.capacity < LEAST_CAPACITY) return false;
  new Filler(program, memory, ip, random).graphFilter(false, true);
  return true;
}

/**
 * Flags of a probe and its events that nothing asks are any: of those of calls how many may be
 * under way, of which none waits.
 * @param op    of the probe
 * @param read  a word of the trial
 */
export function anyProbeFlags(
  { word, store }: TracerMemory,
  op: Address,
  read: (address: Address) => bigint,
  random: Random,
): void {
  const field = (at: Address, index: number): Address => at + BigInt(index * word);
  const set = (at: Address, free: bigint): void => {
    store(at, read(at) | (random.double() & free), word);
  };
  const all = 0xffff_ffffn;
  set(field(op, PROBE_OP_WORDS.flags), all ^ BigInt(PROBE_OP_FLAGS.off));
  const ofReturns = BigInt(PROBE_EVENT_FLAGS.return);
  const limits = (all >> BigInt(PROBE_EVENT_FLAGS.activeShift)) << BigInt(PROBE_EVENT_FLAGS.activeShift);
  for (let at = read(field(op, PROBE_OP_WORDS.events)); at !== 0n; at = read(field(at, PROBE_EVENT_WORDS.next))) {
    const flags = field(at, PROBE_EVENT_WORDS.flags);
    const isOfReturns = (read(flags) & ofReturns) !== 0n;
    set(flags, all ^ ofReturns ^ (isOfReturns ? limits : 0n));
  }
}
