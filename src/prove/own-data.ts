/**
 * What the tracer's own data holds behind a site (PV-1, 4): the records, counts and calls under way
 * that the callbacks of the site leave, and nothing else. Written down from `runtime/abi.ts`, not
 * from the code that is proved.
 */
import type { IrEmulation } from '../machine/emulation.js';
import { entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import {
  GRAPH_ENTRY_COUNT,
  GRAPH_ENTRY_WORDS,
  graphEntryBytes,
  ONE_STACK,
  OPS_FLAGS,
  OPS_WORDS,
  PROBE_EVENT_WORDS,
  PROBE_OP_FLAGS,
  PROBE_OP_WORDS,
  RING_FLAGS,
  RING_HEADER,
  RING_HEADER_BYTES,
  RING_KINDS,
  RING_RECORD,
  RING_RECORD_BYTES,
  SIDE_ENTRY_COUNT,
  SIDE_ENTRY_WORD_COUNT,
  SIDE_ENTRY_WORDS,
  THREAD_COUNT,
  THREAD_HEAD_WORDS,
  THREAD_WORDS,
  threadBytes,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import { changeUsers, NO_CHANGE } from './changed-users.js';
import { Contention } from './contention.js';
import { type FilledTables, fillTables, takeRowsOff } from './filled-tables.js';
import { type ChangedUsers, type GraphUser, graphUsers, UserCalls, wantsCall, wordReader } from './graph-users.js';
import { HandledHits } from './handled-hits.js';
import { differing, PAGE_BYTES } from './layout.js';
import { PreservedRegisters } from './preserved.js';
import { mix, Random } from './random.js';
import type { Begun } from './state.js';
import { ThreadKey } from './thread-key.js';
import {
  enterState,
  leaveSide,
  leaveWaiting,
  LIST_ACTIVE,
  MOVES,
  NOTHING_NEW,
  type OnWayBack,
  returnState,
  REWRITES,
  type StateCall,
  TAILS,
  type TracerMemory,
  type TracerState,
} from './tracer-states.js';
import { dataRecords, type ReturnPlaces, WaitingCalls, type WaitingPlan } from './waiting-calls.js';
import { leadsUp } from './unwinding.js';
import type { Wanted, WantedCall } from './wanted.js';
import type { ProofWorld } from './world.js';
import type { ProbeHit, Records, Time, Write } from './writes.js';

/** What is known of a call for which the tracer writes something down. */
export interface OwnCall {
  readonly ip: Address;
  /** Where the function returns to, as callbacks may be told. */
  readonly parents: readonly Address[];
  /** Where it does where the graph tracer takes the return. */
  readonly graphParents: readonly Address[];
  /** Where return probes have it from and send it; null: none takes it. */
  readonly probed: ReturnPlaces | null;
  /** What tells the function's frame from others: as a rule the stack pointer behind the return. */
  readonly frame: bigint;
}

/** What is hit at a site or a probed address; null: not all of that is known. */
export type ProbeHits = (ip: Address) => ProbeHit | null;

/** Bit of `active`: callbacks of the list run. */
const LIST_RUNS = 4n;

/** Ticks that need more than 32 bits. */
const LATE = 0x2_1234_5678n;

/** Words that a graph entry has between those that are compared. */
const SPARE_WORD = 3;

/** States in which users of the graph tracer come and go while a function is on its way back. */
const CHANGES_USERS: readonly TracerState[] = ['filled', 'ring-wrapped'];

/** What a thread has under way beside tables that are filled. */
const BESIDE_FILLED: readonly TracerState[] = ['fresh', 'left', 'gone', 'other-stack', 'deep', 'side-left', 'others'];
/** The same where the graph tracer has no filter of its own. */
const BESIDE_UNFILTERED: readonly TracerState[] = ['fresh', 'no-block', 'graph-runs', 'stopped', 'left', 'others'];

/** What a state adds to what callbacks do, or takes from it. */
interface Effects {
  /** Callbacks are asked by code that guards against recursion. */
  readonly isGuarded: boolean;
  readonly calls: readonly WantedCall[];
  /** The graph tracer takes the return. */
  readonly hijack: boolean;
  /** It asks its users, and none wants the call. */
  readonly isAsked: boolean;
  /** Where on its stack the call is. */
  readonly depth: bigint;
  /** Its stack has no room. */
  readonly overrun: boolean;
  /** Calls on its stack that are found to have been left. */
  readonly abandoned: number;
  /** Events that are counted as lost. */
  readonly lost: number;
  /** Something asked which thread this is. */
  readonly asked: boolean;
}

export class OwnData {
  private readonly word: 4 | 8;
  private readonly ring: Address;
  private readonly threads: Address;
  private readonly count: Address | null;
  private readonly tracer: Address | null;
  private readonly counter: Address | null;
  private readonly livepatch: Address | null;
  private readonly direct: Address | null;
  private readonly graph: Address | null;
  private readonly probe: Address | null;
  /** Null: nothing reads memory for probes. */
  private readonly handled: HandledHits | null;
  private readonly stopped: Address | null;
  private readonly watching: Address | null;
  private readonly graphOps: Address | null;
  /** Functions in the place of others are kept on a stack. */
  private readonly hasSide: boolean;
  /** Code that asks callbacks under a guard against recursion. */
  readonly guards: readonly Address[];
  /** The one that asks those of the list. */
  private readonly list: Address | null;
  /** The list is empty: the site still calls it, while its callbacks are taken off. */
  private isUnlisted = false;
  /** Pages as they were when the trial began, where that is not as they are in the image. */
  private readonly before = new Map<Address, Uint8Array>();
  /** The block of the thread that runs; null: all belong to others. */
  private thread: Address | null = null;
  /** What the block of the thread has as its owner. */
  private owner = 0n;
  private state: TracerState = 'fresh';
  private call: StateCall = { owner: 0n, frame: 0n, stack: 0n, event: 0n, probe: 0n, ip: 0n, wanted: null };
  private effects: Effects | null = null;
  /** What happened to the thread on the way back. */
  private back: OnWayBack = NOTHING_NEW;
  private random = new Random(1);
  /** As `leftSide` says, before more is left on the way back; null: nothing asked. */
  private sideLeft: bigint | null = null;
  /** Users of the graph tracer in the trial that runs. */
  private asked: readonly GraphUser[];
  private readonly userCalls: UserCalls | null;
  /** Those that came and went since the function was called. */
  private changed: ChangedUsers = NO_CHANGE;
  private readonly key: ThreadKey;
  private readonly contention: Contention;
  /** Ends what is watched in one trial alone. */
  private readonly off: (() => void)[] = [];
  /** The table of direct callers, which has no row of the site, was asked for one. */
  private isLookedUp = false;
  /** Null: the tracer's functions were not watched yet. */
  private preserved: PreservedRegisters | null = null;
  /** When the trial began, in ticks of the machine. */
  private since = 0n;
  /** What probes record in the trial that runs. */
  hits: ProbeHits | null = null;
  /** Calls that return probes wait for; null: there is no room for any. */
  private readonly waiting: WaitingCalls | null;
  /** Where functions return to that the graph tracer took, or a return probe; null: none does. */
  private readonly handler: Address | null;
  readonly trap: Address | null;
  /** What the hit of the trial that runs adds to them; null: there was none yet. */
  private plan: WaitingPlan | null = null;

  private constructor(
    private readonly program: Program,
    private readonly own: readonly { readonly start: Address; readonly end: Address }[],
    private readonly users: readonly GraphUser[],
    private readonly emulation: IrEmulation,
    { ring, threads }: { ring: Address; threads: Address },
  ) {
    this.key = new ThreadKey(program, emulation, (world, address) => this.number(world, address, this.word));
    this.contention = new Contention(program, own, emulation);
    this.word = program.image.wordBytes;
    this.ring = ring;
    this.threads = threads;
    const at = (name: string): Address | null => program.definedAt(program.symbols.find(name));
    this.count = at('elftrace_count');
    this.stopped = at('elftrace_graph_stopped');
    this.watching = at('elftrace_rcu_watching');
    this.graphOps = at('elftrace_graph_ops');
    this.hasSide = at('elftrace_side_push') !== null;
    const place = (name: string): Address | null => entryPoint(program, name)?.address ?? null;
    this.tracer = place('elftrace_function_tracer');
    this.counter = place('elftrace_counter');
    this.graph = place('ftrace_graph_func');
    this.direct = place('ftrace_direct_func');
    this.probe = place('elftrace_probe_ftrace');
    const peek = place('elftrace_probe_peek');
    this.handled = peek === null ? null : new HandledHits(peek);
    this.livepatch = place('elftrace_livepatch');
    this.waiting = WaitingCalls.of(program);
    this.handler = entryPoint(program, 'return_to_handler')?.identity ?? null;
    const trampoline = this.waiting === null || this.handler === null ? null : at('elftrace_probe_trampoline');
    // Functions of an image without return probes return to none.
    this.trap = trampoline === null ? null : wordReader(program)(trampoline) || null;
    this.asked = users;
    const stub = at('elftrace_stub_text');
    this.userCalls = stub === null ? null : new UserCalls(stub, program.arch.abi, emulation.proof);
    this.list = place('ftrace_ops_list_func');
    this.guards = [this.list, place('ftrace_ops_assist_func')].filter((each) => each !== null);
  }

  /** @param own  ranges of the tracer; null where the image has no ring and no threads */
  static of(
    program: Program,
    own: readonly { readonly start: Address; readonly end: Address }[],
    emulation: IrEmulation,
  ): OwnData | null {
    const at = (name: string): Address | null => program.definedAt(program.symbols.find(name));
    const [pointer, threads, users] = ['elftrace_ring', 'elftrace_graph_stack', 'elftrace_graph_users'].map(at);
    const word = wordReader(program);
    const ring = (pointer ?? null) === null ? 0n : word(pointer!);
    if (ring === 0n || (threads ?? null) === null) return null;
    const graph = (users ?? null) === null ? [] : graphUsers(program, users!);
    return new OwnData(program, own, graph, emulation, { ring, threads: threads! });
  }

  /** Whether callbacks may name another place to go on at. */
  get takesOtherPlaces(): boolean {
    return this.livepatch !== null;
  }

  /** Whether a callback is the graph tracer. */
  isGraph(place: Address): boolean {
    return place === this.graph;
  }

  /** Whether a callback is that of probes of sites. */
  isProbe(place: Address): boolean {
    return place === this.probe;
  }

  private memory(world: ProofWorld): TracerMemory {
    const { word, ring, threads, stopped, watching, graphOps, waiting, program, handler, trap } = this;
    return {
      ...{ word, ring, threads, stopped, watching, graphOps, waiting, handler, trap },
      capacity: this.number(world, ring + BigInt(RING_HEADER.capacity), 4),
      store: (at, value, size) => {
        const bytes = Uint8Array.from({ length: size }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
        if (program.image.header.endian === 'big') bytes.reverse();
        for (const [i, byte] of bytes.entries()) this.pageAt(world, at + BigInt(i))[pageOffset(at + BigInt(i))] = byte;
        world.write(at, bytes);
      },
    };
  }

  /**
   * Brings the data into the state of a trial (PV-3), and notes what is there then.
   * @param state  null: as it is
   * @param call   what tells the function's call from others on stacks of calls under way
   */
  begin(world: ProofWorld, state: TracerState | null, begun: Begun, call: Omit<StateCall, 'owner'>): void {
    const { registers, returnAddress } = begun;
    this.before.clear();
    this.back = NOTHING_NEW;
    this.effects = this.plan = this.sideLeft = null;
    this.changed = NO_CHANGE;
    this.state = state ?? 'again';
    this.random = new Random(mix(1, Number(returnAddress & 0xffff_ffffn)));
    // A body may store to the word that tells threads apart, where that is in any memory.
    if (state === 'filled' && call.wanted?.hijack !== true) {
      const { store } = this.memory(world);
      this.key.vary(this.random, (address, value) => {
        store(address, value, this.word);
      });
    }
    this.owner = BigInt.asUintN(8 * this.word, this.key.of(world, registers) + 1n);
    this.call = { owner: this.owner, ...call };
    if (state !== null && !enterState(state, this.memory(world), this.call, this.random)) this.state = 'fresh';
    // Calls of others, none left, or a thread without a block: no filter of its own changes that.
    if (this.state === 'filled' || this.state === 'unfiltered') {
      const more = this.state === 'filled' ? BESIDE_FILLED : BESIDE_UNFILTERED;
      const beside = more[this.random.below(more.length)]!;
      enterState(beside, this.memory(world), this.call, this.random);
    }
    for (const each of this.off.splice(0)) each();
    this.isLookedUp = false;
    this.takeAway(world);
    const filled = this.state === 'filled' ? this.fill(world) : null;
    this.asked = filled?.users ?? this.users;
    this.isUnlisted = filled?.isUnlisted === true;
    for (const page of world.changed()) this.before.set(page, world.read(page, PAGE_BYTES));
    this.thread = this.threadOf(world);
    this.contention.end();
    if (this.state === 'retried' || this.state === 'overtaken') this.contend(world, this.state === 'overtaken');
    this.handled?.begin(world, () => this.activeNow(world) !== 0n);
    this.userCalls?.begin(world, this.asked, {
      active: () => this.activeNow(world),
      leadsUp: () => leadsUp(world, this.emulation.process.frames, this.program.arch.abi, begun),
      seed: Number(returnAddress & 0xffff_ffffn),
    });
    this.preserved?.begin();
    // Both halves of what the clock says are numbers that tell it from others.
    if (world.machine.time <= LATE) world.machine.skipTime(LATE);
    this.since = world.machine.time;
  }

  /** The probe is off, or tables have no row of the site. */
  private takeAway(world: ProofWorld): void {
    const { program, probe, random, call, word } = this;
    const memory = this.memory(world);
    if (this.state === 'off') {
      const flags = call.probe + BigInt(PROBE_OP_WORDS.flags * word);
      memory.store(flags, this.number(world, flags, word) | BigInt(PROBE_OP_FLAGS.off), word);
    } else if (this.state === 'rowless') {
      const { ip, wanted } = call;
      const hasRow = wanted !== null && (wanted.direct !== null || wanted.calls.some(({ place }) => place === probe));
      const isOff = hasRow && takeRowsOff(program, memory, { ip, wanted, probe }, random);
      if (!isOff) this.state = 'fresh';
      else if (this.direct !== null) this.watchLookup(world, this.direct);
    }
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
    const { store } = this.memory(world);
    const other = BigInt(0x1000 + this.random.below(0x1000));
    const isOwn = this.thread !== null && this.number(world, this.thread, this.word) !== 0n;
    // What is done at once before it is something else.
    let before = this.random.below(3) === 0 ? this.random.below(4) : 0;
    this.contention.begin(world, {
      takes: () => {
        const { thread, word, back } = this;
        if (isOwn && takes && back.block === null) {
          if (before-- > 0) return false;
          this.overtake(world);
          return true;
        }
        const block = back.block === null ? thread : this.blockAt(back.block);
        const isFree = takes && block !== null && this.number(world, block, word) === 0n;
        if (!isFree) return false;
        store(block, other, word);
        if (back.block === null) this.thread = this.threadOf(world);
        else this.back = { ...back, block: back.block + 1 < THREAD_COUNT ? back.block + 1 : null };
        return true;
      },
      fails: () => !takes,
    });
  }

  /** Another thread takes the number of the next record, where this one has none yet. */
  private overtake(world: ProofWorld): void {
    const head = this.ring + BigInt(RING_HEADER.head);
    const [was, now] = [this.was(world, head, 8), this.number(world, head, 8)];
    if (was === now && now < this.memory(world).capacity) this.memory(world).store(head, now + 1n, 8);
  }

  /** Tables hold what other requests left in them. */
  private fill(world: ProofWorld): FilledTables | null {
    const { ip, wanted } = this.call;
    const { program, probe, random } = this;
    return wanted === null ? null : fillTables(program, this.memory(world), { ip, wanted, probe }, random);
  }

  /** What the thread's block says of callbacks that run; 0: there is no block. */
  private activeNow(world: ProofWorld): bigint {
    return this.thread === null ? 0n : this.number(world, this.headOf(this.thread, 'active'), this.word);
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

  /** A page as it was when the trial began, for changes that belong to the state. */
  private pageAt(world: ProofWorld, address: Address): Uint8Array {
    const page = address & ~BigInt(PAGE_BYTES - 1);
    let bytes = this.before.get(page);
    if (bytes === undefined) this.before.set(page, (bytes = world.page(page).before.slice()));
    return bytes;
  }

  private isOwn(page: Address): boolean {
    return this.own.some(({ start, end }) => start < page + BigInt(PAGE_BYTES) && end > page);
  }

  private number(world: ProofWorld, address: Address, size: number): bigint {
    return numberOf(world.read(address, size), this.program.image.header.endian);
  }

  /** As it was when the trial began. */
  private was(world: ProofWorld, address: Address, size = this.word as number): bigint {
    const page = address & ~BigInt(PAGE_BYTES - 1);
    const skip = pageOffset(address);
    if (skip + size > PAGE_BYTES) {
      const bytes = Array.from({ length: size }, (_, i) => this.was(world, address + BigInt(i), 1));
      if (this.program.image.header.endian === 'little') bytes.reverse();
      return bytes.reduce((sum, byte) => (sum << 8n) | byte, 0n);
    }
    const bytes = this.before.get(page) ?? world.page(page).before;
    return numberOf(bytes.slice(skip, skip + size), this.program.image.header.endian);
  }

  private blockAt(number: number): Address {
    return this.threads + BigInt(number * threadBytes(this.word));
  }

  private headOf(block: Address, name: keyof typeof THREAD_WORDS): Address {
    return block + BigInt(THREAD_WORDS[name] * this.word);
  }

  private entryAt(block: Address, index: bigint): Address {
    return block + BigInt(THREAD_HEAD_WORDS * this.word) + index * BigInt(graphEntryBytes(this.word));
  }

  private numberOf(block: Address): bigint {
    return (block - this.threads) / BigInt(threadBytes(this.word));
  }

  /** Whether the callbacks of a site are those that the runtime has, so that all is known. */
  private isKnown({ calls, hijack }: Wanted): boolean {
    const known = [this.tracer, this.counter, this.graph, this.direct, this.livepatch];
    if (this.hits !== null) known.push(this.probe);
    return calls.every(({ place }) => known.includes(place)) && (!hijack || this.knowsUsers);
  }

  /** Whether all is known of the users of the graph tracer. */
  private get knowsUsers(): boolean {
    return this.asked.every(({ isRecorded, answer }) => isRecorded || answer !== null);
  }

  /**
   * What a site calls in the state that the trial began with.
   * @param wanted  what it calls as a rule
   * @param guard   what asks its callbacks under a guard against recursion; null: nothing does
   * @param ip      of the site
   * Source: C-TGT-5, C-TGT-6, C-FG-1
   */
  happens(world: ProofWorld, wanted: Wanted, guard: Address | null, ip: Address): Wanted {
    const { thread } = this;
    const isGuarded = guard !== null;
    const active = thread === null ? 0n : this.was(world, this.headOf(thread, 'active'));
    const isGone = this.isUnlisted && guard === this.list;
    const isSkipped = isGone || (isGuarded && (thread === null || active !== 0n));
    const isBlind = isGuarded && this.watching !== null && this.was(world, this.watching) === 0n;
    const calls = isSkipped ? [] : wanted.calls.filter((each) => !(isBlind && this.needsRcu(world, each)));
    const isCallback = wanted.calls.some(({ place }) => place === this.graph);
    const asksGraph = isCallback ? calls.some(({ place }) => place === this.graph) : wanted.hijack;
    const isStopped = this.stopped !== null && this.was(world, this.stopped) !== 0n;
    const isQuiet = isCallback ? (active & 2n) !== 0n : active !== 0n;
    const pushes = asksGraph && !isStopped && thread !== null && !isQuiet;
    const left = pushes ? this.leftCalls(world, thread) : 0;
    const depth = pushes ? this.was(world, this.headOf(thread, 'depth')) - BigInt(left) : 0n;
    const overrun = pushes && depth >= BigInt(GRAPH_ENTRY_COUNT);
    const isUnwanted = this.asked.length > 0 && !this.asked.some((each) => wantsCall(each, ip));
    const isRecorded = calls.filter(({ place }) => place === this.tracer).length;
    const isHit = this.state !== 'off' && this.state !== 'rowless';
    const probed = isHit ? calls.filter(({ place }) => place === this.probe).length : 0;
    const lost = thread !== null ? 0 : Number(isGuarded) + isRecorded + probed + Number(asksGraph && !isStopped);
    this.effects = {
      ...{ isGuarded, calls, depth, overrun, lost },
      // Where no user wants the return, the call is taken off the stack again.
      hijack: pushes && !overrun && !isUnwanted,
      isAsked: pushes && !overrun && isUnwanted,
      abandoned: left,
      // A probe that is off asks, too.
      asked: isGuarded || isRecorded + probed > 0 || asksGraph || (this.state === 'off' && calls.length > 0),
    };
    const hit = probed === 0 ? null : (this.hits?.(ip) ?? null);
    if (hit !== null && this.isFree(world)) this.planCalls(world, hit);
    return {
      ...wanted,
      calls,
      trap: (this.plan?.events.length ?? 0) > 0,
      hijack: this.effects.hijack,
      direct: isSkipped || this.isLookedUp ? null : wanted.direct,
      replacement: calls.some(({ place }) => place === this.livepatch) ? wanted.replacement : null,
    };
  }

  /** Whether a callback is left out while RCU does not watch. */
  private needsRcu(world: ProofWorld, { self, needsRcu }: WantedCall): boolean {
    if (self === 0n) return needsRcu;
    const flags = this.was(world, self + BigInt(OPS_WORDS.flags * this.word));
    return (flags & BigInt(OPS_FLAGS.RCU)) !== 0n;
  }

  /** Whether a hit is none inside another one; a callback of the list that hits a probe is one. */
  private isFree(world: ProofWorld): boolean {
    const { thread } = this;
    if (thread === null) return false;
    const active = this.was(world, this.headOf(thread, 'active'));
    return active === 0n || (active & LIST_RUNS) !== 0n;
  }

  /** Decides which return events of a hit wait for the return. */
  private planCalls(world: ProofWorld, hit: ProbeHit): void {
    const { waiting, thread, call } = this;
    if (waiting === null || thread === null || hit.events.every(({ atReturn }) => atReturn === null)) return;
    this.plan = waiting.plan(hit, Number(this.numberOf(thread)), call.stack, (at) => this.was(world, at));
  }

  /** Calls on top of the graph tracer's stack whose functions are gone. */
  private leftCalls(world: ProofWorld, thread: Address): number {
    const { frame } = this.call;
    const isTail = TAILS.has(this.state) && this.state !== 'lost-tail';
    let depth = this.was(world, this.headOf(thread, 'depth'));
    let count = 0;
    for (; depth > 0n; depth--, count++) {
      const at = this.entryAt(thread, depth - 1n) + BigInt(GRAPH_ENTRY_WORDS.frame * this.word);
      const below = this.was(world, at);
      const isGone = below < frame && frame - below < ONE_STACK;
      if (!isGone && (below !== frame || isTail)) break;
    }
    return count;
  }

  /** Changes the data while the function is on its way back (PV-3). */
  comeBack(world: ProofWorld): void {
    const { thread, effects, state, plan } = this;
    if (CHANGES_USERS.includes(state) && effects?.hijack === true && this.knowsUsers) {
      this.changed = changeUsers(this.program, this.memory(world), this.asked, this.random);
      this.userCalls?.change(world, this.changed);
    }
    const isMoved = MOVES.has(state);
    if (thread === null || (!isMoved && state !== 'left')) return;
    const number = Number(this.numberOf(thread));
    const waits = (plan?.events.length ?? 0) > 0;
    if (waits && state === 'left') leaveWaiting(this.memory(world), this.call, number, plan!, this.random);
    if (state === 'left' && this.hasSide && this.call.wanted?.replacement) {
      const depth = Number(this.number(world, this.headOf(thread, 'sideDepth'), this.word));
      leaveSide(this.memory(world), this.call, { number, depth }, this.random);
    }
    // Return probes know their calls by the thread.
    if (effects?.hijack !== true || (waits && isMoved)) return;
    const depth = Number(this.number(world, this.headOf(thread, 'depth'), this.word));
    if (depth === 0) return;
    this.back = returnState(state, this.memory(world), this.call, { number, depth }, this.random);
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
    const { thread, effects, asked } = this;
    const isAsked = wanted !== null && (effects!.hijack || effects!.isAsked);
    if (isAsked && (this.changed.came.length > 0 || asked.some(({ answer }) => answer !== null))) {
      const was = this.was(world, this.headOf(thread!, 'active'));
      const isInList = effects!.isGuarded && effects!.calls.some(({ place }) => place === this.graph);
      const active = { enter: isInList ? LIST_ACTIVE : was, return: was };
      const entry = this.entryAt(thread!, effects!.depth);
      const reason = this.userCalls!.wrong({ ip: call.ip, parents: call.graphParents, entry, active, isAsked }, phase);
      if (reason !== null) return reason;
    }
    return this.firstWrong(world, wanted === null ? [] : this.writes(world, wanted, call, phase));
  }

  private firstWrong(world: ProofWorld, writes: readonly Write[]): string | null {
    // A callback that has all registers may change those, too.
    const lost = REWRITES.has(this.state) ? null : (this.preserved?.wrong ?? null);
    if (lost !== null) return lost;
    if (this.handled?.isUnsaid === true) return 'a hit is handled, and its thread does not say so';
    for (const { address, size, holds, least, what } of writes) {
      const found = this.number(world, address, size);
      if (least !== undefined && (found < least || found > world.machine.time))
        return `${what} is ${hex(found)}, not between ${hex(least)} and ${hex(world.machine.time)}`;
      if (holds !== null && !holds.includes(found)) return `${what} is ${hex(found)}, not ${hex(holds[0]!)}`;
    }
    const stray = this.strayWrite(world, writes);
    return stray === null ? null : `data of the tracer at ${hex(stray)} changed`;
  }

  /** The first block that belongs to no other thread: the one that runs takes it. */
  private threadOf(world: ProofWorld): Address | null {
    for (let i = 0; i < THREAD_COUNT; i++) {
      const at = this.blockAt(i);
      const owner = this.was(world, at);
      if (owner === 0n || owner === this.owner) return at;
    }
    return null;
  }

  private writes(world: ProofWorld, wanted: Wanted, call: OwnCall, phase: 'enter' | 'return'): Write[] {
    const { effects, thread, word } = this;
    const { lost, overrun, abandoned, asked } = effects!;
    const writes: Write[] = [];
    const moved = this.back.block === null ? null : this.blockAt(this.back.block);
    for (const block of [thread, moved]) {
      if (block === null) continue;
      const holds = asked || block === moved ? [this.owner] : [this.was(world, block), this.owner];
      // While a function is on its way back another thread took its block.
      const isGone = block === thread && this.back.isGone;
      writes.push({ address: block, size: word, holds: isGone ? null : holds, what: 'the owner of a thread' });
    }
    const records: Records[] = [];
    let counted = 0n;
    const recordOf = (kind: number): Records => [{ kind, time: 'clock', ip: call.ip, parents: call.parents }];
    const recorders = this.asked.filter((each) => each.isRecorded && wantsCall(each, call.ip));
    const ofGraph = (kind: number, by: readonly GraphUser[]): Records[] =>
      this.asked.length === 0 || by.length > 0
        ? [[{ kind, time: 'clock', ip: call.ip, parents: call.graphParents }]]
        : [];
    const entered = ofGraph(RING_KINDS.entry, recorders);
    const isCallback = wanted.calls.some(({ place }) => place === this.graph);
    for (const { place, self } of wanted.calls) {
      if (place === this.tracer) records.push(recordOf(RING_KINDS.call));
      else if (place === this.counter) {
        counted++;
        const at = self + BigInt(OPS_WORDS.private * word);
        writes.push(this.grown(world, at, 1n, 'the count of the ops'));
      } else if (place === this.graph && wanted.hijack) records.push(...entered);
      else if (place === this.probe && thread !== null) {
        this.hit(world, this.hits?.(call.ip) ?? null, this.isFree(world), writes, records);
      }
    }
    if (wanted.hijack && !isCallback) records.push(...entered);
    if (wanted.hijack) writes.push(...this.pushed(call, phase));
    else if (effects!.isAsked) writes.push(...this.pushed(call, 'return'));
    if (thread !== null && overrun) {
      writes.push(this.grown(world, this.headOf(thread, 'overrun'), 1n, 'the number of calls not taken'));
    }
    const gone = BigInt(abandoned + (phase === 'return' ? this.back.left : 0));
    if (thread !== null && gone > 0n) {
      writes.push(this.grown(world, this.headOf(thread, 'abandoned'), gone, 'the number of calls left'));
      if (!wanted.hijack) {
        const depth = this.was(world, this.headOf(thread, 'depth')) - BigInt(abandoned);
        writes.push({ address: this.headOf(thread, 'depth'), size: word, holds: [depth], what: 'the calls under way' });
      }
    }
    const left = recorders.filter((each) => !this.changed.gone.has(each));
    const returned = wanted.hijack && phase === 'return' ? ofGraph(RING_KINDS.return, left) : [];
    const waited = this.waited(call.probed, phase, writes);
    // Who took the return last has it first.
    records.push(...(call.probed?.isLast === true ? [...waited, ...returned] : [...returned, ...waited]));
    if (counted > 0n && this.count !== null) writes.push(this.grown(world, this.count, counted, 'the count of calls'));
    if (wanted.replacement !== null) writes.push(...this.kept(world, call, wanted.hijack || wanted.trap, phase));
    return [...writes, ...this.recorded(world, thread === null ? [] : records, lost)];
  }

  /** What a hit leaves: counts, records of its events. A hit inside another one is missed. */
  private hit(world: ProofWorld, hit: ProbeHit | null, isFree: boolean, writes: Write[], records: Records[]): void {
    if (hit === null || this.state === 'off' || this.state === 'rowless') return;
    const word = (at: Address, index: number): Address => at + BigInt(index * this.word);
    const counter = isFree ? PROBE_OP_WORDS.hits : PROBE_OP_WORDS.missed;
    const other = isFree ? PROBE_OP_WORDS.missed : PROBE_OP_WORDS.hits;
    // A return event for which there is no room counts as one more.
    const more = isFree ? BigInt(this.plan?.missed ?? 0) : 0n;
    writes.push(this.grown(world, word(hit.op, counter), 1n, isFree ? 'the hits of a probe' : 'the hits it missed'));
    writes.push(this.grown(world, word(hit.op, other), more, isFree ? 'the hits it missed' : 'the hits of a probe'));
    for (const { at, id, words, atReturn } of isFree ? hit.events : []) {
      if (atReturn !== null) continue;
      if (hit.isServed) writes.push(this.grown(world, word(at, PROBE_EVENT_WORDS.hits), 1n, 'the hits of an event'));
      const time = hit.isServed ? ('clock' as const) : null;
      const first = { kind: RING_KINDS.probe, time, ip: hit.address, parents: [id] };
      records.push([first, ...dataRecords(words)]);
    }
  }

  /** Calls that return probes wait for, behind the hit; behind the return what they recorded. */
  private waited(places: ReturnPlaces | null, phase: 'enter' | 'return', writes: Write[]): Records[] {
    const { waiting, thread, plan } = this;
    if (waiting === null || thread === null || plan === null || places === null) return [];
    writes.push(...waiting.writes(plan, Number(this.numberOf(thread)), this.call.stack, places, phase));
    return phase === 'enter' ? [] : waiting.records(plan, places);
  }

  /**
   * A probe is hit, by itself: what follows from it.
   * @returns whether one of its return events waits for the return
   */
  hitBy(world: ProofWorld, hit: ProbeHit): boolean {
    const { thread, state } = this;
    const isFree = thread !== null && this.was(world, this.headOf(thread, 'active')) === 0n;
    if (isFree && state !== 'off') this.planCalls(world, hit);
    return (this.plan?.events.length ?? 0) > 0;
  }

  /** What is not as a hit must have left it, in a sentence; null: all is. */
  wrongHit(world: ProofWorld, hit: ProbeHit, places: ReturnPlaces | null, phase: 'enter' | 'return'): string | null {
    const { thread, word } = this;
    const writes: Write[] = [];
    const records: Records[] = [];
    if (thread !== null) {
      writes.push({ address: thread, size: word, holds: [this.owner], what: 'the owner of a thread' });
      this.hit(world, hit, this.was(world, this.headOf(thread, 'active')) === 0n, writes, records);
      records.push(...this.waited(places, phase, writes));
    }
    return this.firstWrong(world, [...writes, ...this.recorded(world, records, thread === null ? 1 : 0)]);
  }

  /** A function in the place of another one: what its caller needs is kept until it comes back. */
  private kept(world: ProofWorld, { parents }: OwnCall, isTaken: boolean, phase: 'enter' | 'return'): Write[] {
    const { thread, word } = this;
    if (!this.hasSide || thread === null) return [];
    const depth = this.headOf(thread, 'sideDepth');
    const begin = this.entryAt(thread, BigInt(GRAPH_ENTRY_COUNT));
    const entry = (index: bigint): Address => begin + index * BigInt(SIDE_ENTRY_WORD_COUNT * word);
    this.sideLeft ??= this.leftSide(world, entry);
    const left = this.sideLeft;
    const isKept = left < BigInt(SIDE_ENTRY_COUNT);
    const now = isKept && phase === 'enter' ? left + 1n : left;
    const words = Object.entries(SIDE_ENTRY_WORDS).map(([name, index]) => ({
      address: entry(left) + BigInt(index * word),
      size: word,
      // The graph tracer, or a return probe, may have the return address already.
      holds: name === 'parentIp' && !isTaken ? parents : name === 'frame' ? [this.call.frame] : null,
      what: `what a function in the place of another one keeps: ${name}`,
    }));
    // A thread that no callback asked for takes its block here.
    return [
      { address: thread, size: word, holds: [this.owner], what: 'the owner of a thread' },
      { address: depth, size: word, holds: [now], what: 'the number of functions in the place of others' },
      ...(isKept ? words : []),
    ];
  }

  /** Functions in the place of others that are under way when one more is called. */
  private leftSide(world: ProofWorld, entry: (index: bigint) => Address): bigint {
    let left = this.was(world, this.headOf(this.thread!, 'sideDepth'));
    for (; left > 0n; left--) {
      const below = this.was(world, entry(left - 1n) + BigInt(SIDE_ENTRY_WORDS.frame * this.word));
      if (!(below < this.call.frame && this.call.frame - below < ONE_STACK)) break;
    }
    return left;
  }

  /** A word that grows. */
  private grown(world: ProofWorld, address: Address, by: bigint, what: string): Write {
    const size = this.word;
    return { address, size, holds: [BigInt.asUintN(8 * size, this.was(world, address) + by)], what };
  }

  /** A call under way; behind its return only what was written for it is left. */
  private pushed({ ip, graphParents: parents, frame }: OwnCall, phase: 'enter' | 'return'): Write[] {
    const size = this.word;
    const thread = this.thread!;
    const { depth } = this.effects!;
    const entry = this.entryAt(thread, depth);
    const at = (index: number): Address => entry + BigInt(index * size);
    const users = this.asked.reduce((sum, each) => (wantsCall(each, ip) ? sum | each.bit : sum), 0n);
    const now = phase === 'enter' ? depth + 1n : depth;
    return [
      { address: this.headOf(thread, 'depth'), size, holds: [now], what: 'the number of calls under way' },
      { address: at(GRAPH_ENTRY_WORDS.parentIp), size, holds: parents, what: 'the return address of a call' },
      { address: at(GRAPH_ENTRY_WORDS.ip), size, holds: [ip], what: 'the ip of a call' },
      { address: at(GRAPH_ENTRY_WORDS.frame), size, holds: [frame], what: 'the frame of a call' },
      { address: at(SPARE_WORD), size, holds: null, what: 'the frame pointer of a call' },
      { address: at(GRAPH_ENTRY_WORDS.users), size, holds: [users], what: 'the users of a call' },
      this.timed(at(6), 'clock', 'the time of a call'),
    ];
  }

  private timed(address: Address, time: Time, what: string): Write {
    if (time !== 'clock') return { address, size: 8, holds: time === null ? null : [time], what };
    return { address, size: 8, holds: null, least: this.since, what: `the time of ${what.replace(/^.* of /, '')}` };
  }

  /** Records in the ring, and the words that count them. */
  private recorded(world: ProofWorld, records: readonly Records[], lost: number): Write[] {
    const { ring, thread } = this;
    const field = (name: keyof typeof RING_HEADER): Address => ring + BigInt(RING_HEADER[name]);
    const capacity = this.was(world, field('capacity'), 4);
    const keepsOldest = (this.was(world, field('flags'), 4) & BigInt(RING_FLAGS.keepOldest)) !== 0n;
    let head = this.was(world, field('head'), 8);
    let dropped = this.was(world, field('dropped'), 8) + BigInt(lost);
    const low = 8 * this.word;
    const number = thread === null ? 0n : this.numberOf(thread);
    const writes: Write[] = [];
    for (const together of records) {
      if (keepsOldest && BigInt.asUintN(low, head) + BigInt(together.length) > capacity) {
        dropped++;
        continue;
      }
      for (const { kind, time, ip, parents } of together) {
        const at = ring + BigInt(RING_HEADER_BYTES) + (head & (capacity - 1n)) * BigInt(RING_RECORD_BYTES);
        const part = (name: keyof typeof RING_RECORD): Address => at + BigInt(RING_RECORD[name]);
        const what = kind === RING_KINDS.data ? 'what a probe fetched' : 'the ip of a record';
        writes.push(
          this.timed(part('time'), time, what),
          { address: part('ip'), size: 8, holds: ip === null ? null : [ip], what },
          {
            address: part('parentIp'),
            size: 8,
            holds: parents,
            what: kind === RING_KINDS.data ? what : 'the parent of a record',
          },
          { address: part('kind'), size: 4, holds: [BigInt(kind)], what: 'the kind of a record' },
          { address: part('thread'), size: 4, holds: [number], what: 'the thread of a record' },
        );
        head = BigInt.asUintN(64, head + 1n);
      }
    }
    return [
      ...writes,
      { address: field('head'), size: 8, holds: [head], what: 'the number of records' },
      { address: field('dropped'), size: 8, holds: [dropped], what: 'the number of records dropped' },
    ];
  }

  /** The first byte that changed and that no callback writes; null: there is none. */
  private strayWrite(world: ProofWorld, writes: readonly Write[]): Address | null {
    for (const page of world.changed()) {
      if (!this.isOwn(page)) continue;
      const { before, now } = world.page(page);
      const was = this.before.get(page) ?? before;
      if (Buffer.compare(was, now) === 0) continue;
      const inside = writes.map(({ address, size }) => ({ from: Number(address - page), size }));
      for (const i of differing(was, now)) {
        if (inside.some(({ from, size }) => i >= from && i < from + size)) continue;
        const address = page + BigInt(i);
        if (this.own.some(({ start, end }) => address >= start && address < end)) return address;
      }
    }
    return null;
  }
}

const pageOffset = (address: Address): number => Number(address & BigInt(PAGE_BYTES - 1));
const hex = (value: bigint): string => `0x${value.toString(16)}`;

function numberOf(bytes: Uint8Array, endian: 'little' | 'big'): bigint {
  const read = endian === 'little' ? bytes.slice().reverse() : bytes;
  return read.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}
