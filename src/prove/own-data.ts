/**
 * Whether the tracer's own data holds behind a site what its callbacks leave, and nothing else
 * (PV-1, 4): in the state that the trial began with, with what happens on the way back.
 */
import type { IrEmulation } from '../machine/emulation.js';
import { entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import {
  GRAPH_ENTRY_COUNT,
  GRAPH_ENTRY_WORDS,
  ONE_STACK,
  OPS_FLAGS,
  OPS_WORDS,
  PROBE_OP_FLAGS,
  PROBE_OP_WORDS,
  PROBE_PEEK,
  RING_HEADER,
  RING_HEADER_BYTES,
  THREAD_COUNT,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import { changeUsers, NO_CHANGE } from './changed-users.js';
import { Contention } from './contention.js';
import {
  anyProbeFlags,
  type FilledTables,
  fillTables,
  leaveOutOfGraph,
  otherUsers,
  takeRowsOff,
} from './filled-tables.js';
import { type GraphUser, graphUsers, UserCalls, wantsCall, wordReader } from './graph-users.js';
import { HandledHits } from './handled-hits.js';
import { OwnMemory } from './own-memory.js';
import { ExpectedWrites, type OwnCall, type OwnCallbacks, type ProbeHits, type TrialFacts } from './own-writes.js';
import { PreservedRegisters } from './preserved.js';
import { mix, Random } from './random.js';
import type { Begun } from './state.js';
import { ThreadKey } from './thread-key.js';
import { type StateCall, StateWriter } from './state-writer.js';
import { TurningClock } from './turning-clock.js';
import {
  enterState,
  HIT_ACTIVE,
  leaveSide,
  LEAVES,
  leaveWaiting,
  LIST_ACTIVE,
  MOVES,
  NOTHING_NEW,
  returnState,
  REWRITES,
  TAILS,
  type TracerState,
  UNDISTURBED,
} from './tracer-states.js';
import { type ReturnPlaces, WaitingCalls } from './waiting-calls.js';
import { leadsUp } from './unwinding.js';
import type { Wanted, WantedCall } from './wanted.js';
import type { ProofWorld } from './world.js';
import type { ProbeHit, Records, Write } from './writes.js';

/** Ticks that need more than 32 bits; the lower half has its first bit. */
const LATE = 0x2_d234_5678n;

/** What the hit of a probe counts before it takes numbers of records. */
const COUNTED = 2;
/** Looks at halves of a clock, before one of which it turns over: those of two records. */
const LOOKS = 6;

/** Records, from the next one on, that hold what was recorded before. */
const OLDER = 4n;

/** States in which a free block, or what takes it, is what is tried. */
const TAKES_BLOCK: ReadonlySet<TracerState> = new Set(['retried', 'overtaken']);

/** States in which users of the graph tracer come and go while a function is on its way back. */
const CHANGES_USERS: readonly TracerState[] = ['filled', 'ring-wrapped'];

/** States in which a call under way may have the frame of the one that comes. */
const SAME_FRAMES: ReadonlySet<TracerState> = new Set<TracerState>(['tail', 'other-stack']);

/**
 * States with objects of their own where that of a user would be, and those in which the tables are
 * as the image has them.
 */
const HAS_ITS_USERS: ReadonlySet<TracerState> = new Set<TracerState>([
  'filled',
  'unfiltered',
  'rowless',
  ...UNDISTURBED,
]);
/** What a thread has under way beside tables that are filled. */
const BESIDE_FILLED: readonly TracerState[] = [
  'fresh',
  'left',
  'gone',
  'other-stack',
  'deep',
  'side-left',
  'others',
  'no-block',
];
/** The same where the graph tracer has no filter of its own. */
const BESIDE_UNFILTERED: readonly TracerState[] = ['fresh', 'no-block', 'graph-runs', 'stopped', 'left', 'others'];

export class OwnData {
  private readonly data: OwnMemory;
  private readonly expected: ExpectedWrites;
  private readonly callbacks: OwnCallbacks;
  private readonly livepatch: Address | null;
  private readonly direct: Address | null;
  /** Null: nothing reads memory for probes. */
  private readonly handled: HandledHits | null;
  private readonly stopped: Address | null;
  private readonly watching: Address | null;
  /** Code that asks callbacks under a guard against recursion. */
  readonly guards: readonly Address[];
  /** The one that asks those of the list. */
  private readonly list: Address | null;
  /** The list is empty: the site still calls it, while its callbacks are taken off. */
  private isUnlisted = false;
  private readonly now: TrialFacts;
  private random = new Random(1);
  private readonly userCalls: UserCalls | null;
  private readonly key: ThreadKey;
  private readonly contention: Contention;
  private readonly clock: TurningClock;
  /** Ends what is watched in one trial alone. */
  private readonly off: (() => void)[] = [];
  /** Blocks in front of the thread's own belong to others. */
  private isCrowded = false;
  /** The filter of the graph tracer, which asks it itself, does not take the site. */
  private isLeftOut = false;
  /** The table of direct callers, which has no row of the site, was asked for one. */
  private isLookedUp = false;
  /** Null: the tracer's functions were not watched yet. */
  private preserved: PreservedRegisters | null = null;
  /** Calls that return probes wait for; null: there is no room for any. */
  private readonly waiting: WaitingCalls | null;
  /** Where functions return to that a return probe took the return of; null: none does. */
  readonly trap: Address | null;
  /** The word that says so. */
  private readonly trampoline: Address | null;

  private constructor(
    private readonly program: Program,
    private readonly own: readonly { readonly start: Address; readonly end: Address }[],
    private readonly users: readonly GraphUser[],
    private readonly emulation: IrEmulation,
    { ring, threads }: { ring: Address; threads: Address },
    original: ProofWorld,
  ) {
    const at = (name: string): Address | null => program.definedAt(program.symbols.find(name));
    const place = (name: string): Address | null => entryPoint(program, name)?.address ?? null;
    this.stopped = at('elftrace_graph_stopped');
    this.watching = at('elftrace_rcu_watching');
    this.waiting = WaitingCalls.of(program);
    const handler = entryPoint(program, 'return_to_handler')?.identity ?? null;
    const trampoline = this.waiting === null || handler === null ? null : at('elftrace_probe_trampoline');
    this.trampoline = trampoline;
    // Functions of an image without return probes return to none.
    this.trap = trampoline === null ? null : wordReader(program)(trampoline) || null;
    const { stopped, watching, waiting, trap } = this;
    const graphOps = at('elftrace_graph_ops');
    const places = { ring, threads, stopped, watching, graphOps, waiting, handler, trap };
    this.data = new OwnMemory(program, own, places, original);
    this.key = new ThreadKey(program, emulation, (world, address) => this.data.number(world, address, this.data.word));
    this.contention = new Contention(program, own, emulation);
    this.clock = new TurningClock(program, own, emulation);
    this.callbacks = {
      tracer: place('elftrace_function_tracer'),
      counter: place('elftrace_counter'),
      graph: place('ftrace_graph_func'),
      probe: place('elftrace_probe_ftrace'),
      count: at('elftrace_count'),
      hasSide: at('elftrace_side_push') !== null,
    };
    this.direct = place('ftrace_direct_func');
    this.livepatch = place('elftrace_livepatch');
    const peek = place(PROBE_PEEK);
    this.handled = peek === null ? null : new HandledHits(peek);
    const call = { owner: 0n, frame: 0n, stack: 0n, event: 0n, probe: 0n, ip: 0n, wanted: null };
    this.now = {
      ...{ thread: null, owner: 0n, state: 'fresh', call, effects: null, back: NOTHING_NEW, asked: users },
      ...{ changed: NO_CHANGE, since: 0n, plan: null, hits: null, sideLeft: null, isEventless: false },
    };
    this.expected = new ExpectedWrites(this.data, this.callbacks, waiting, this.now);
    const stub = at('elftrace_stub_text');
    this.userCalls = stub === null ? null : new UserCalls(stub, program.arch.abi, emulation.proof);
    this.list = place('ftrace_ops_list_func');
    this.guards = [this.list, place('ftrace_ops_assist_func')].filter((each) => each !== null);
  }

  /**
   * @param own       ranges of the tracer; null where the image has no ring and no threads
   * @param original  the world of the image as it was
   */
  static of(
    program: Program,
    own: readonly { readonly start: Address; readonly end: Address }[],
    emulation: IrEmulation,
    original: ProofWorld,
  ): OwnData | null {
    const at = (name: string): Address | null => program.definedAt(program.symbols.find(name));
    const [pointer, threads, users] = ['elftrace_ring', 'elftrace_graph_stack', 'elftrace_graph_users'].map(at);
    const word = wordReader(program);
    const ring = (pointer ?? null) === null ? 0n : word(pointer!);
    if (ring === 0n || (threads ?? null) === null) return null;
    const graph = (users ?? null) === null ? [] : graphUsers(program, users!);
    return new OwnData(program, own, graph, emulation, { ring, threads: threads! }, original);
  }

  /** What probes record in the trial that runs; null: nothing is known of it. */
  set hits(hits: ProbeHits | null) {
    this.now.hits = hits;
  }

  /** Whether callbacks may name another place to go on at. */
  get takesOtherPlaces(): boolean {
    return this.livepatch !== null;
  }

  /** Whether a callback is the graph tracer. */
  isGraph(place: Address): boolean {
    return place === this.callbacks.graph;
  }

  /** Whether a callback is that of probes of sites. */
  isProbe(place: Address): boolean {
    return place === this.callbacks.probe;
  }

  /**
   * Brings the data into the state of a trial (PV-3), and notes what is there then.
   * @param state  null: as it is
   * @param call   what tells the function's call from others on stacks of calls under way
   */
  begin(world: ProofWorld, state: TracerState | null, begun: Begun, call: Omit<StateCall, 'owner'>): void {
    const { registers } = begun;
    this.data.forget();
    this.now.back = NOTHING_NEW;
    this.now.effects = this.now.plan = this.now.sideLeft = null;
    this.now.changed = NO_CHANGE;
    this.now.isEventless = false;
    this.now.state = state ?? 'again';
    this.isCrowded = false;
    const seed = this.seedOf(begun, state);
    this.random = new Random(mix(1, seed));
    // A body may store to the word that tells threads apart, where that is in any memory.
    if (state === 'filled' && call.wanted?.hijack !== true) {
      const { store } = this.data.memory(world);
      this.key.vary(this.random, (address, value) => {
        store(address, value, this.data.word);
      });
    }
    this.now.owner = BigInt.asUintN(8 * this.data.word, this.key.of(world, registers) + 1n);
    this.now.call = { owner: this.now.owner, ...call };
    if (state !== null && !enterState(state, this.data.memory(world), this.now.call, this.random))
      this.now.state = 'fresh';
    if ((seed & 0xc0) !== 0) this.ownFirst(world);
    if (!UNDISTURBED.has(this.now.state)) this.olderRecords(world);
    // Calls of others, none left, or a thread without a block: no filter of its own changes that.
    if (this.now.state === 'filled' || this.now.state === 'unfiltered') {
      const more = this.now.state === 'filled' ? BESIDE_FILLED : BESIDE_UNFILTERED;
      const beside = more[this.random.below(more.length)]!;
      this.isCrowded = beside === 'others';
      enterState(beside, this.data.memory(world), this.now.call, this.random);
    }
    for (const each of this.off.splice(0)) each();
    this.isLookedUp = this.isLeftOut = false;
    this.takeAway(world);
    const filled = this.now.state === 'filled' ? this.fill(world) : null;
    if (this.now.state === 'filled' && call.probe !== 0n) {
      const { word } = this.data;
      anyProbeFlags(this.data.memory(world), call.probe, (at) => this.data.number(world, at, word), this.random);
    }
    this.now.asked = filled?.users ?? this.otherUsers(world, state, seed) ?? this.users;
    this.isUnlisted = filled?.isUnlisted === true;
    this.data.keep(world);
    this.now.thread = this.threadOf(world);
    this.contention.end();
    if (this.now.state === 'retried' || this.now.state === 'overtaken')
      this.contend(world, this.now.state === 'overtaken');
    else if (!UNDISTURBED.has(this.now.state)) this.contention.begin(world, { takes: () => false, fails: () => true });
    this.handled?.begin(world, () => this.activeNow(world) === HIT_ACTIVE);
    this.userCalls?.begin(world, this.now.asked, {
      active: () => this.activeNow(world),
      leadsUp: () => leadsUp(world, this.emulation.process.frames, this.program.arch.abi, begun),
      seed,
    });
    this.preserved?.begin();
    // Both halves of what the clock says are numbers that tell it from others.
    if (world.machine.time <= LATE) world.machine.skipTime(LATE);
    this.now.since = world.machine.time;
    this.clock.end();
    if (!UNDISTURBED.has(this.now.state)) this.clock.begin(world, new Random(mix(2, seed)).below(LOOKS));
  }

  /** The first block is the thread's where it is free, as in programs: it is asked first. */
  private ownFirst(world: ProofWorld): void {
    if (TAKES_BLOCK.has(this.now.state)) return;
    const first = this.data.blockAt(0);
    const isFree = this.data.number(world, first, this.data.word) === 0n;
    if (isFree) new StateWriter(this.data.memory(world), this.now.call, 0).own();
  }

  /** The next records are written over such of before, of which no byte is 0. */
  private olderRecords(world: ProofWorld): void {
    const { ring } = this.data;
    const { capacity, recordBytes, store } = this.data.memory(world);
    const head = this.data.number(world, ring + BigInt(RING_HEADER.head), 8);
    for (let i = 0n; i < OLDER; i++) {
      const at = ring + BigInt(RING_HEADER_BYTES) + ((head + i) % capacity) * recordBytes;
      for (let byte = 0n; byte < recordBytes; byte += 4n) store(at + byte, 0xffff_ffffn, 4);
    }
  }

  /** What a state is drawn from: another number where the return address is always the same. */
  private seedOf({ registers, returnAddress }: Begun, state: TracerState | null): number {
    const { argumentRegisters } = this.program.arch.abi;
    const from = TAILS.has(state) ? registers.get(argumentRegisters.at(-1)!) : returnAddress;
    return Number(BigInt.asUintN(32, from));
  }

  /** The probe is off, tables have no row of the site, or no return probe was ever there. */
  private takeAway(world: ProofWorld): void {
    const { program, random } = this;
    const { probe } = this.callbacks;
    const { call } = this.now;
    const { word } = this.data;
    const memory = this.data.memory(world);
    if (this.now.state === 'off' && random.below(2) === 0) {
      // It is on, and none of its events is there any more.
      memory.store(call.probe + BigInt(PROBE_OP_WORDS.events * word), 0n, word);
      this.now.state = 'fresh';
      this.now.isEventless = true;
    } else if (this.now.state === 'off') {
      const flags = call.probe + BigInt(PROBE_OP_WORDS.flags * word);
      memory.store(flags, this.data.number(world, flags, word) | BigInt(PROBE_OP_FLAGS.off), word);
    } else if (this.isUnprobed() && this.trampoline !== null && call.event === 0n) {
      memory.store(this.trampoline, 0n, word);
    } else if (this.now.state === 'unfiltered') {
      const { ip, wanted } = call;
      const isBranch = wanted?.hijack === true && !wanted.calls.some(({ place }) => this.isGraph(place));
      this.isLeftOut = isBranch && random.below(3) === 0 && leaveOutOfGraph(program, memory, ip, random);
    } else if (this.now.state === 'rowless') {
      const { ip, wanted } = call;
      const hasRow = wanted !== null && (wanted.direct !== null || wanted.calls.some(({ place }) => place === probe));
      const isOff = hasRow && takeRowsOff(program, memory, { ip, wanted, probe }, random);
      if (!isOff) this.now.state = 'fresh';
      else if (this.direct !== null) this.watchLookup(world, this.direct);
    }
  }

  /** Whether no return was ever probed. */
  private isUnprobed(): boolean {
    const { state } = this.now;
    return state === 'ring-end' || (SAME_FRAMES.has(state) && this.random.below(2) === 0);
  }

  /** Whether the direct caller of the site is looked up: others need no table. */
  private watchLookup({ machine }: ProofWorld, place: Address): void {
    this.off.push(
      machine.hook(place, () => {
        this.isLookedUp = true;
        return 'continue';
      }),
    );
  }

  /** Another hart takes a free block or a record first, or a store under a reservation fails. */
  private contend(world: ProofWorld, takes: boolean): void {
    const { store } = this.data.memory(world);
    const other = BigInt(0x1000 + this.random.below(0x1000));
    const isHandler = other % 3n === 0n;
    const isOwn = this.now.thread !== null && this.data.number(world, this.now.thread, this.data.word) !== 0n;
    // What is done at once before it is something else: a hit and its event are counted.
    const counted = this.now.call.probe === 0n ? 0 : COUNTED;
    let before = this.random.below(3) === 0 ? this.random.below(4) : counted;
    this.contention.begin(world, {
      takes: () => {
        const { thread, back } = this.now;
        const { word } = this.data;
        if (isOwn && takes && back.block === null) {
          if (before-- > 0) return false;
          this.overtake(world);
          return true;
        }
        const block = back.block === null ? thread : this.data.blockAt(back.block);
        // Where a thread's key is all ones the owner is 0, too: its block is as a free one.
        const isTold = this.now.owner !== 0n;
        const isFree = takes && isTold && block !== null && this.data.number(world, block, word) === 0n;
        if (!isFree) return false;
        // A handler of the running thread, which is traced itself, may have taken it, too.
        store(block, back.block === null && isHandler ? this.now.owner : other, word);
        if (back.block === null) this.now.thread = this.threadOf(world);
        else this.now.back = { ...back, block: back.block + 1 < THREAD_COUNT ? back.block + 1 : null };
        return true;
      },
      fails: () => !takes,
    });
  }

  /** Another thread takes the number of the next record, where this one has none yet. */
  private overtake(world: ProofWorld): void {
    const head = this.data.ring + BigInt(RING_HEADER.head);
    const [was, now] = [this.data.was(world, head, 8), this.data.number(world, head, 8)];
    if (was === now && now < this.data.memory(world).capacity) this.data.memory(world).store(head, now + 1n, 8);
  }

  /** Tables hold what other requests left in them. */
  private fill(world: ProofWorld): FilledTables | null {
    const { ip, wanted } = this.now.call;
    const { program, random } = this;
    const { probe } = this.callbacks;
    return wanted === null ? null : fillTables(program, this.data.memory(world), { ip, wanted, probe }, random);
  }

  /** In a third of the other states a graph tracer without users has one, and others have none. */
  private otherUsers(world: ProofWorld, state: TracerState | null, seed: number): readonly GraphUser[] | null {
    const { ip, wanted } = this.now.call;
    if (wanted?.hijack !== true || HAS_ITS_USERS.has(state ?? 'again')) return null;
    const random = new Random(mix(5, seed));
    const hasUsers = this.users.length > 0;
    return random.below(3) === 0 ? otherUsers(this.program, this.data.memory(world), { ip, hasUsers }, random) : null;
  }

  /** What the thread's block says of callbacks that run; 0: there is no block. */
  private activeNow(world: ProofWorld): bigint {
    return this.now.thread === null
      ? 0n
      : this.data.number(world, this.data.headOf(this.now.thread, 'active'), this.data.word);
  }

  /** What is wrong while a callback runs that a guard calls; null: nothing is. */
  unguarded(world: ProofWorld): string | null {
    return this.activeNow(world) === LIST_ACTIVE ? null : 'is called, and its thread does not say that it runs';
  }

  /**
   * Watches that the tracer's functions give back what the ABI wants preserved.
   * @returns what ends that
   */
  watchCalls(world: ProofWorld): () => void {
    return (this.preserved ??= new PreservedRegisters(this.program, this.own, this.emulation.proof)).watch(world);
  }

  /** Whether the callbacks of a site are those that the runtime has, so that all is known. */
  private isKnown({ calls, hijack }: Wanted): boolean {
    const known = [this.callbacks.tracer, this.callbacks.counter, this.callbacks.graph, this.direct, this.livepatch];
    if (this.now.hits !== null) known.push(this.callbacks.probe);
    return calls.every(({ place }) => known.includes(place)) && (!hijack || this.knowsUsers);
  }

  /** Whether all is known of the users of the graph tracer. */
  private get knowsUsers(): boolean {
    return this.now.asked.every(({ isRecorded, answer }) => isRecorded || answer !== null);
  }

  /**
   * What a site calls in the state that the trial began with.
   * @param wanted  what it calls as a rule
   * @param guard   what asks its callbacks under a guard against recursion; null: nothing does
   * @param ip      of the site
   * Source: C-TGT-5, C-TGT-6, C-FG-1
   */
  happens(world: ProofWorld, wanted: Wanted, guard: Address | null, ip: Address): Wanted {
    const { thread } = this.now;
    const isGuarded = guard !== null;
    const active = thread === null ? 0n : this.data.was(world, this.data.headOf(thread, 'active'));
    const isGone = this.isUnlisted && guard === this.list;
    const isSkipped = isGone || (isGuarded && (thread === null || active !== 0n));
    const isBlind = isGuarded && this.watching !== null && this.data.was(world, this.watching) === 0n;
    const calls = isSkipped ? [] : wanted.calls.filter((each) => !(isBlind && this.needsRcu(world, each)));
    const isCallback = wanted.calls.some(({ place }) => place === this.callbacks.graph);
    const asksGraph = isCallback ? calls.some(({ place }) => place === this.callbacks.graph) : wanted.hijack;
    const isStopped = this.stopped !== null && this.data.was(world, this.stopped) !== 0n;
    const isQuiet = isCallback ? (active & 2n) !== 0n : active !== 0n;
    const takesGraph = asksGraph && !this.isLeftOut && !isStopped;
    const pushes = takesGraph && thread !== null && !isQuiet;
    const left = pushes ? this.leftCalls(world, thread) : 0;
    const depth = pushes ? this.data.was(world, this.data.headOf(thread, 'depth')) - BigInt(left) : 0n;
    const overrun = pushes && depth >= BigInt(GRAPH_ENTRY_COUNT);
    const isUnwanted = this.now.asked.length > 0 && !this.now.asked.some((each) => wantsCall(each, ip));
    const isRecorded = calls.filter(({ place }) => place === this.callbacks.tracer).length;
    const isHit = this.now.state !== 'off' && this.now.state !== 'rowless';
    const probed = isHit ? calls.filter(({ place }) => place === this.callbacks.probe).length : 0;
    const lost = thread !== null ? 0 : Number(isGuarded) + isRecorded + probed + Number(takesGraph);
    this.now.effects = {
      ...{ isGuarded, calls, depth, overrun, lost },
      // Where no user wants the return, the call is taken off the stack again.
      hijack: pushes && !overrun && !isUnwanted,
      isAsked: pushes && !overrun && isUnwanted,
      abandoned: left,
      // A probe that is off asks, too.
      asked: isGuarded || isRecorded + probed > 0 || asksGraph || (this.now.state === 'off' && calls.length > 0),
    };
    const hit = probed === 0 ? null : (this.now.hits?.(ip) ?? null);
    if (hit !== null && this.expected.isFree(world)) this.planCalls(world, hit);
    return {
      ...wanted,
      calls,
      trap: (this.now.plan?.events.length ?? 0) > 0,
      hijack: this.now.effects.hijack,
      direct: isSkipped || this.isLookedUp ? null : wanted.direct,
      replacement: calls.some(({ place }) => place === this.livepatch) ? wanted.replacement : null,
    };
  }

  /** Whether a callback is left out while RCU does not watch. */
  private needsRcu(world: ProofWorld, { self, needsRcu }: WantedCall): boolean {
    if (self === 0n) return needsRcu;
    const flags = this.data.was(world, self + BigInt(OPS_WORDS.flags * this.data.word));
    return (flags & BigInt(OPS_FLAGS.RCU)) !== 0n;
  }

  /** Decides which return events of a hit wait for the return. */
  private planCalls(world: ProofWorld, hit: ProbeHit): void {
    const { waiting } = this;
    const { thread, call } = this.now;
    const waits = !this.now.isEventless && hit.events.some(({ atReturn }) => atReturn !== null);
    if (waiting === null || thread === null || !waits) return;
    this.now.plan = waiting.plan(hit, Number(this.data.numberOf(thread)), call.stack, (at) => this.data.was(world, at));
  }

  /** Calls on top of the graph tracer's stack whose functions are gone. */
  private leftCalls(world: ProofWorld, thread: Address): number {
    const { frame } = this.now.call;
    const isTail = TAILS.has(this.now.state) && this.now.state !== 'lost-tail';
    let depth = this.data.was(world, this.data.headOf(thread, 'depth'));
    let count = 0;
    for (; depth > 0n; depth--, count++) {
      const at = this.data.entryAt(thread, depth - 1n) + BigInt(GRAPH_ENTRY_WORDS.frame * this.data.word);
      const below = this.data.was(world, at);
      const isGone = below < frame && frame - below < ONE_STACK;
      if (!isGone && (below !== frame || isTail)) break;
    }
    return count;
  }

  /** Changes the data while the function is on its way back (PV-3). */
  comeBack(world: ProofWorld): void {
    const { thread, effects, state, plan } = this.now;
    if (CHANGES_USERS.includes(state) && effects?.hijack === true && this.knowsUsers) {
      this.now.changed = changeUsers(this.program, this.data.memory(world), this.now.asked, this.random);
      this.userCalls?.change(world, this.now.changed);
    }
    // Users may hear of a return in another thread, too.
    const now = state === 'filled' && this.isCrowded ? 'others' : state;
    const isMoved = MOVES.has(now);
    if (thread === null || (!isMoved && !LEAVES.has(now))) return;
    const number = Number(this.data.numberOf(thread));
    const waits = (plan?.events.length ?? 0) > 0;
    if (waits && state === 'left') leaveWaiting(this.data.memory(world), this.now.call, number, plan!, this.random);
    if (state === 'left' && this.callbacks.hasSide && this.now.call.wanted?.replacement) {
      const depth = Number(this.data.number(world, this.data.headOf(thread, 'sideDepth'), this.data.word));
      leaveSide(this.data.memory(world), this.now.call, { number, depth }, this.random);
    }
    // Return probes know their calls by the thread.
    if (effects?.hijack !== true || (waits && isMoved)) return;
    const depth = Number(this.data.number(world, this.data.headOf(thread, 'depth'), this.data.word));
    if (depth === 0) return;
    this.now.back = returnState(now, this.data.memory(world), this.now.call, { number, depth }, this.random);
    if (state !== 'overtaken') return;
    this.contention.end();
    this.contend(world, true);
  }

  /**
   * What is not as the callbacks of a site must have left it, in a sentence; null: all is.
   * @param wanted  null: the site calls nothing
   * @param phase   `return`: the function has come back, too
   */
  wrong(world: ProofWorld, wanted: Wanted | null, call: OwnCall, phase: 'enter' | 'return'): string | null {
    if (wanted !== null && !this.isKnown(wanted)) return null;
    const { thread, effects, asked } = this.now;
    const isAsked = wanted !== null && (effects!.hijack || effects!.isAsked);
    if (isAsked && (this.now.changed.came.length > 0 || asked.some(({ answer }) => answer !== null))) {
      const was = this.data.was(world, this.data.headOf(thread!, 'active'));
      const isInList = effects!.isGuarded && effects!.calls.some(({ place }) => place === this.callbacks.graph);
      const active = { enter: isInList ? LIST_ACTIVE : was, return: was };
      const entry = this.data.entryAt(thread!, effects!.depth);
      const reason = this.userCalls!.wrong({ ip: call.ip, parents: call.graphParents, entry, active, isAsked }, phase);
      if (reason !== null) return reason;
    }
    return this.firstWrong(world, wanted === null ? [] : this.expected.of(world, wanted, call, phase));
  }

  private firstWrong(world: ProofWorld, writes: readonly Write[]): string | null {
    // A callback that has all registers may change those, too.
    const lost = REWRITES.has(this.now.state) ? null : (this.preserved?.wrong ?? null);
    if (lost !== null) return lost;
    if (this.handled?.isUnsaid === true) return 'a hit is handled, and its thread does not say so';
    for (const { address, size, holds, least, what } of writes) {
      const found = this.data.number(world, address, size);
      if (least !== undefined && (found < least || found > world.machine.time))
        return `${what} is ${hex(found)}, not between ${hex(least)} and ${hex(world.machine.time)}`;
      if (holds !== null && !holds.includes(found)) return `${what} is ${hex(found)}, not ${hex(holds[0]!)}`;
    }
    const stray = this.data.strayWrite(world, writes);
    return stray === null ? null : `data of the tracer at ${hex(stray)} changed`;
  }

  /** The first block that belongs to no other thread: the one that runs takes it. */
  private threadOf(world: ProofWorld): Address | null {
    for (let i = 0; i < THREAD_COUNT; i++) {
      const at = this.data.blockAt(i);
      const owner = this.data.was(world, at);
      if (owner === 0n || owner === this.now.owner) return at;
    }
    return null;
  }

  /**
   * A probe is hit, by itself: what follows from it.
   * @returns whether one of its return events waits for the return
   */
  hitBy(world: ProofWorld, hit: ProbeHit): boolean {
    const { thread, state } = this.now;
    const isFree = thread !== null && this.data.was(world, this.data.headOf(thread, 'active')) === 0n;
    if (isFree && state !== 'off') this.planCalls(world, hit);
    return (this.now.plan?.events.length ?? 0) > 0;
  }

  /** What is not as a hit must have left it, in a sentence; null: all is. */
  wrongHit(world: ProofWorld, hit: ProbeHit, places: ReturnPlaces | null, phase: 'enter' | 'return'): string | null {
    const { thread, state } = this.now;
    const { word } = this.data;
    const writes: Write[] = [];
    const records: Records[] = [];
    if (thread !== null) {
      writes.push({ address: thread, size: word, holds: [this.now.owner], what: 'the owner of a thread' });
      this.expected.hit(world, hit, this.data.was(world, this.data.headOf(thread, 'active')) === 0n, writes, records);
      records.push(...this.expected.waited(places, phase, writes));
    }
    // A probe that is off drops nothing.
    const lost = Number(thread === null && state !== 'off');
    return this.firstWrong(world, [...writes, ...this.expected.recorded(world, records, lost)]);
  }
}

const hex = (value: bigint): string => `0x${value.toString(16)}`;
