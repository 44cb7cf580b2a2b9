/**
 * What the callbacks of a site leave in the tracer's own data (PV-1, 4): records, counts, calls
 * under way, functions in the place of others. Written down from `runtime/abi.ts`, not from the
 * code that is proved.
 */
import {
  GRAPH_ENTRY_COUNT,
  GRAPH_ENTRY_WORDS,
  ONE_STACK,
  OPS_WORDS,
  PROBE_EVENT_WORDS,
  PROBE_OP_WORDS,
  RING_FLAGS,
  RING_HEADER,
  RING_HEADER_BYTES,
  RING_KINDS,
  RING_RECORD,
  RING_SHORT,
  RING_SHORT_BYTES,
  RING_SHORT_EVENT,
  SIDE_ENTRY_COUNT,
  SIDE_ENTRY_WORD_COUNT,
  SIDE_ENTRY_WORDS,
} from '../runtime/abi.js';
import type { Address } from '../units.js';
import { type ChangedUsers, type GraphUser, wantsCall } from './graph-users.js';
import type { OwnMemory } from './own-memory.js';
import type { StateCall } from './state-writer.js';
import type { OnWayBack, TracerState } from './tracer-states.js';
import { dataRecords, type ReturnPlaces, type WaitingCalls, type WaitingPlan } from './waiting-calls.js';
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

const NO_TIMES = BigInt(RING_FLAGS.noTimes);

/** Words that a graph entry has between those that are compared. */
const SPARE_WORD = 3;

/** What a state adds to what callbacks do, or takes from it. */
export interface Effects {
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

/** What is known of the trial that runs. */
export interface TrialFacts {
  /** The block of the thread that runs; null: all belong to others. */
  thread: Address | null;
  /** What the block of the thread has as its owner. */
  owner: bigint;
  state: TracerState;
  call: StateCall;
  effects: Effects | null;
  /** What happened to the thread on the way back. */
  back: OnWayBack;
  /** Users of the graph tracer. */
  asked: readonly GraphUser[];
  /** Those that came and went since the function was called. */
  changed: ChangedUsers;
  /** When the trial began, in ticks of the machine. */
  since: bigint;
  /** What the hit adds to the calls that return probes wait for; null: there was none yet. */
  plan: WaitingPlan | null;
  /** What probes record. */
  hits: ProbeHits | null;
  /** As `leftSide` says, before more is left on the way back; null: nothing asked. */
  sideLeft: bigint | null;
  /** The probe has no event: its hits are counted, and nothing is recorded. */
  isEventless: boolean;
}

/** Callbacks of the runtime, what they count, whether functions in the place of others are kept. */
export interface OwnCallbacks {
  readonly tracer: Address | null;
  readonly counter: Address | null;
  readonly graph: Address | null;
  readonly probe: Address | null;
  readonly count: Address | null;
  readonly hasSide: boolean;
}

export class ExpectedWrites {
  /** @param waiting  calls that return probes wait for; null: there is no room for any */
  constructor(
    private readonly data: OwnMemory,
    private readonly own: OwnCallbacks,
    private readonly waiting: WaitingCalls | null,
    private readonly now: TrialFacts,
  ) {}

  /** What the callbacks of a site write that calls what is wanted. */
  of(world: ProofWorld, wanted: Wanted, call: OwnCall, phase: 'enter' | 'return'): Write[] {
    const { effects, thread } = this.now;
    const { word } = this.data;
    const { lost, overrun, abandoned } = effects!;
    const writes = this.owners(world);
    const records: Records[] = [];
    let counted = 0n;
    const recordOf = (kind: number): Records => [{ kind, time: 'clock', ip: call.ip, parents: call.parents }];
    const recorders = this.now.asked.filter((each) => each.isRecorded && wantsCall(each, call.ip));
    const ofGraph = (kind: number, by: readonly GraphUser[]): Records[] =>
      this.now.asked.length === 0 || by.length > 0
        ? [[{ kind, time: 'clock', ip: call.ip, parents: call.graphParents }]]
        : [];
    const entered = ofGraph(RING_KINDS.entry, recorders);
    const isCallback = wanted.calls.some(({ place }) => place === this.own.graph);
    for (const { place, self } of wanted.calls) {
      if (place === this.own.tracer) records.push(recordOf(RING_KINDS.call));
      else if (place === this.own.counter) {
        counted++;
        const at = self + BigInt(OPS_WORDS.private * word);
        writes.push(this.data.grown(world, at, 1n, 'the count of the ops'));
      } else if (place === this.own.graph && wanted.hijack) records.push(...entered);
      else if (place === this.own.probe && thread !== null) {
        this.hit(world, this.now.hits?.(call.ip) ?? null, this.isFree(world), writes, records);
      }
    }
    if (wanted.hijack && !isCallback) records.push(...entered);
    if (wanted.hijack) writes.push(...this.pushed(world, call, phase));
    else if (effects!.isAsked) writes.push(...this.pushed(world, call, 'return'));
    if (thread !== null && overrun) {
      writes.push(this.data.grown(world, this.data.headOf(thread, 'overrun'), 1n, 'the number of calls not taken'));
    }
    const gone = BigInt(abandoned + (phase === 'return' ? this.now.back.left : 0));
    if (thread !== null && gone > 0n) {
      writes.push(this.data.grown(world, this.data.headOf(thread, 'abandoned'), gone, 'the number of calls left'));
      if (!wanted.hijack) {
        const depth = this.data.was(world, this.data.headOf(thread, 'depth')) - BigInt(abandoned);
        writes.push({
          address: this.data.headOf(thread, 'depth'),
          size: word,
          holds: [depth],
          what: 'the calls under way',
        });
      }
    }
    const left = recorders.filter((each) => !this.now.changed.gone.has(each));
    const returned = wanted.hijack && phase === 'return' ? ofGraph(RING_KINDS.return, left) : [];
    const waited = this.waited(call.probed, phase, writes);
    // Who took the return last has it first.
    records.push(...(call.probed?.isLast === true ? [...waited, ...returned] : [...returned, ...waited]));
    if (counted > 0n && this.own.count !== null)
      writes.push(this.data.grown(world, this.own.count, counted, 'the count of calls'));
    if (wanted.replacement !== null) writes.push(...this.kept(world, call, wanted.hijack || wanted.trap, phase));
    return [...writes, ...this.recorded(world, thread === null ? [] : records, lost)];
  }

  /** The blocks of the thread: that which it had, and that which it has on the way back. */
  private owners(world: ProofWorld): Write[] {
    const { effects, thread, back, owner } = this.now;
    const { word } = this.data;
    const asked = effects!.asked;
    const writes: Write[] = [];
    const moved = back.block === null ? null : this.data.blockAt(back.block);
    for (const block of [thread, moved]) {
      if (block === null) continue;
      const holds = asked || block === moved ? [owner] : [this.data.was(world, block), owner];
      // While a function is on its way back another thread took its block.
      const isGone = block === thread && back.isGone;
      writes.push({ address: block, size: word, holds: isGone ? null : holds, what: 'the owner of a thread' });
    }
    return writes;
  }

  /** Whether a hit is none inside another one; a callback of the list that hits a probe is one. */
  isFree(world: ProofWorld): boolean {
    const { thread } = this.now;
    if (thread === null) return false;
    const active = this.data.was(world, this.data.headOf(thread, 'active'));
    return active === 0n || (active & LIST_RUNS) !== 0n;
  }

  /** What a hit leaves: counts, records of its events. A hit inside another one is missed. */
  hit(world: ProofWorld, hit: ProbeHit | null, isFree: boolean, writes: Write[], records: Records[]): void {
    if (hit === null || this.now.state === 'off' || this.now.state === 'rowless') return;
    const word = (at: Address, index: number): Address => at + BigInt(index * this.data.word);
    const counter = isFree ? PROBE_OP_WORDS.hits : PROBE_OP_WORDS.missed;
    const other = isFree ? PROBE_OP_WORDS.missed : PROBE_OP_WORDS.hits;
    // A return event for which there is no room counts as one more.
    const more = isFree ? BigInt(this.now.plan?.missed ?? 0) : 0n;
    writes.push(
      this.data.grown(world, word(hit.op, counter), 1n, isFree ? 'the hits of a probe' : 'the hits it missed'),
    );
    writes.push(
      this.data.grown(world, word(hit.op, other), more, isFree ? 'the hits it missed' : 'the hits of a probe'),
    );
    for (const { at, id, words, atReturn } of isFree && !this.now.isEventless ? hit.events : []) {
      if (atReturn !== null) continue;
      if (hit.isServed)
        writes.push(this.data.grown(world, word(at, PROBE_EVENT_WORDS.hits), 1n, 'the hits of an event'));
      const time = hit.isServed ? ('clock' as const) : null;
      const first = { kind: RING_KINDS.probe, time, ip: hit.address, parents: [id] };
      records.push([first, ...dataRecords(words)]);
    }
  }

  /** Calls that return probes wait for, behind the hit; behind the return what they recorded. */
  waited(places: ReturnPlaces | null, phase: 'enter' | 'return', writes: Write[]): Records[] {
    const { waiting } = this;
    const { thread, plan } = this.now;
    if (waiting === null || thread === null || plan === null || places === null) return [];
    writes.push(...waiting.writes(plan, Number(this.data.numberOf(thread)), this.now.call.stack, places, phase));
    return phase === 'enter' ? [] : waiting.records(plan, places);
  }

  /** A function in the place of another one: what its caller needs is kept until it comes back. */
  private kept(world: ProofWorld, { parents }: OwnCall, isTaken: boolean, phase: 'enter' | 'return'): Write[] {
    const { thread } = this.now;
    const { word } = this.data;
    if (!this.own.hasSide || thread === null) return [];
    const depth = this.data.headOf(thread, 'sideDepth');
    const begin = this.data.entryAt(thread, BigInt(GRAPH_ENTRY_COUNT));
    const entry = (index: bigint): Address => begin + index * BigInt(SIDE_ENTRY_WORD_COUNT * word);
    this.now.sideLeft ??= this.leftSide(world, entry);
    const left = this.now.sideLeft;
    const isKept = left < BigInt(SIDE_ENTRY_COUNT);
    const now = isKept && phase === 'enter' ? left + 1n : left;
    const words = Object.entries(SIDE_ENTRY_WORDS).map(([name, index]) => ({
      address: entry(left) + BigInt(index * word),
      size: word,
      // The graph tracer, or a return probe, may have the return address already.
      holds: name === 'parentIp' && !isTaken ? parents : name === 'frame' ? [this.now.call.frame] : null,
      what: `what a function in the place of another one keeps: ${name}`,
    }));
    // A thread that no callback asked for takes its block here.
    return [
      { address: thread, size: word, holds: [this.now.owner], what: 'the owner of a thread' },
      { address: depth, size: word, holds: [now], what: 'the number of functions in the place of others' },
      ...(isKept ? words : []),
    ];
  }

  /** Functions in the place of others that are under way when one more is called. */
  private leftSide(world: ProofWorld, entry: (index: bigint) => Address): bigint {
    let left = this.data.was(world, this.data.headOf(this.now.thread!, 'sideDepth'));
    for (; left > 0n; left--) {
      const below = this.data.was(world, entry(left - 1n) + BigInt(SIDE_ENTRY_WORDS.frame * this.data.word));
      if (!(below < this.now.call.frame && this.now.call.frame - below < ONE_STACK)) break;
    }
    return left;
  }

  /** A call under way; behind its return only what was written for it is left. */
  private pushed(world: ProofWorld, { ip, graphParents: parents, frame }: OwnCall, phase: 'enter' | 'return'): Write[] {
    const size = this.data.word;
    const thread = this.now.thread!;
    const { depth } = this.now.effects!;
    const entry = this.data.entryAt(thread, depth);
    const at = (index: number): Address => entry + BigInt(index * size);
    const users = this.now.asked.reduce((sum, each) => (wantsCall(each, ip) ? sum | each.bit : sum), 0n);
    const now = phase === 'enter' ? depth + 1n : depth;
    return [
      { address: this.data.headOf(thread, 'depth'), size, holds: [now], what: 'the number of calls under way' },
      { address: at(GRAPH_ENTRY_WORDS.parentIp), size, holds: parents, what: 'the return address of a call' },
      { address: at(GRAPH_ENTRY_WORDS.ip), size, holds: [ip], what: 'the ip of a call' },
      { address: at(GRAPH_ENTRY_WORDS.frame), size, holds: [frame], what: 'the frame of a call' },
      { address: at(SPARE_WORD), size, holds: null, what: 'the frame pointer of a call' },
      { address: at(GRAPH_ENTRY_WORDS.users), size, holds: [users], what: 'the users of a call' },
      this.timed(at(6), this.hasTimes(world) ? 'clock' : 0n, 'the time of a call'),
    ];
  }

  private timed(address: Address, time: Time, what: string): Write {
    if (time !== 'clock') return { address, size: 8, holds: time === null ? null : [time], what };
    return { address, size: 8, holds: null, least: this.now.since, what: `the time of ${what.replace(/^.* of /, '')}` };
  }

  /** Long records have times whatever the flags say. */
  private hasTimes(world: ProofWorld): boolean {
    const field = (name: keyof typeof RING_HEADER): bigint =>
      this.data.was(world, this.data.ring + BigInt(RING_HEADER[name]), 4);
    return field('recordBytes') !== BigInt(RING_SHORT_BYTES) || (field('flags') & NO_TIMES) === 0n;
  }

  /** A record of the long version. */
  private long(at: Address, { kind, time, ip, parents }: Records[number], thread: bigint): Write[] {
    const part = (name: keyof typeof RING_RECORD): Address => at + BigInt(RING_RECORD[name]);
    const what = kind === RING_KINDS.data ? 'what a probe fetched' : 'the ip of a record';
    return [
      this.timed(part('time'), time, what),
      { address: part('ip'), size: 8, holds: ip === null ? null : [ip], what },
      {
        address: part('parentIp'),
        size: 8,
        holds: parents,
        what: kind === RING_KINDS.data ? what : 'the parent of a record',
      },
      { address: part('kind'), size: 4, holds: [BigInt(kind)], what: 'the kind of a record' },
      { address: part('thread'), size: 4, holds: [thread], what: 'the thread of a record' },
    ];
  }

  /**
   * Where a record of the short version may have its parent when an address of it is far from the
   * ring; null: none is. Of parents near and far the record says which it has, if it is there.
   */
  private farParents(
    world: ProofWorld,
    at: Address,
    { ip, parents }: Records[number],
    isDropped: boolean,
  ): readonly Address[] | null {
    if (this.isFar(ip!)) return parents!;
    const far = parents!.filter((each) => this.isFar(each));
    const saysFar = (this.data.number(world, this.tagOf(at), 1) & BigInt(RING_SHORT_EVENT.far)) !== 0n;
    return far.length === parents!.length || (far.length > 0 && (isDropped || saysFar)) ? far : null;
  }

  /** Whether an address has another upper half than the ring's. */
  private isFar(address: Address): boolean {
    return this.data.word === 8 && address >> 32n !== this.data.ring >> 32n;
  }

  /** The byte of a short record with its kind and thread. */
  private tagOf(record: Address): Address {
    return record + BigInt(RING_SHORT.event + (this.data.isLittle ? 0 : 7));
  }

  /** A record of the short version, and the one behind it with the upper halves. */
  private short(
    world: ProofWorld,
    at: Address,
    { kind, time, ip, parents }: Records[number],
    { number, far, next }: { readonly number: bigint; readonly far: readonly Address[] | null; readonly next: Address },
  ): Write[] {
    const half = (values: readonly Address[], shift: bigint): bigint[] =>
      values.map((each) => (each >> shift) & 0xffff_ffffn);
    const one = (record: Address, tag: bigint, shift: bigint): Write[] => [
      { address: this.tagOf(record), size: 1, holds: [tag | (number << 4n)], what: 'the kind of a record' },
      {
        address: record + BigInt(RING_SHORT.ip),
        size: 4,
        holds: half([ip!], shift),
        what: 'the ip of a record',
      },
      {
        address: record + BigInt(RING_SHORT.parentIp),
        size: 4,
        holds: half(far ?? parents!.filter((each) => !this.isFar(each)), shift),
        what: 'the parent of a record',
      },
    ];
    const timeAt = (record: Address): Address => record + BigInt(RING_SHORT.event + (this.data.isLittle ? 1 : 0));
    const timed = { ...this.timed(timeAt(at), this.hasTimes(world) ? time : 0n, 'the time of a record'), size: 7 };
    if (far === null) return [...one(at, BigInt(kind), 0n), timed];
    const upper = { ...this.timed(timeAt(next), 0n, 'the time of a record'), size: 7 };
    return [
      ...one(at, BigInt(kind | RING_SHORT_EVENT.far), 0n),
      timed,
      ...one(next, BigInt(RING_KINDS.data), 32n),
      upper,
    ];
  }

  /** Records in the ring, and the words that count them. */
  recorded(world: ProofWorld, records: readonly Records[], lost: number): Write[] {
    const { ring } = this.data;
    const { thread } = this.now;
    const field = (name: keyof typeof RING_HEADER): Address => ring + BigInt(RING_HEADER[name]);
    const capacity = this.data.was(world, field('capacity'), 4);
    const keepsOldest = (this.data.was(world, field('flags'), 4) & BigInt(RING_FLAGS.keepOldest)) !== 0n;
    let head = this.data.was(world, field('head'), 8);
    let dropped = this.data.was(world, field('dropped'), 8) + BigInt(lost);
    const low = 8 * this.data.word;
    const number = thread === null ? 0n : this.data.numberOf(thread);
    const writes: Write[] = [];
    const bytes = this.data.was(world, field('recordBytes'), 4);
    const at = (record: bigint): Address => ring + BigInt(RING_HEADER_BYTES) + (record & (capacity - 1n)) * bytes;
    const isShort = bytes === BigInt(RING_SHORT_BYTES);
    for (const together of records) {
      // A far record, which is two, may have no room where a near one had it.
      const isDropped =
        keepsOldest && BigInt.asUintN(low, head) + 2n > capacity && this.data.number(world, field('head'), 8) <= head;
      const far = isShort ? this.farParents(world, at(head), together[0]!, isDropped) : null;
      const count = far === null ? together.length : 2;
      if (keepsOldest && BigInt.asUintN(low, head) + BigInt(count) > capacity) {
        dropped++;
        continue;
      }
      const next = at(head + 1n);
      if (isShort) writes.push(...this.short(world, at(head), together[0]!, { number, far, next }));
      else writes.push(...together.flatMap((each, i) => this.long(at(head + BigInt(i)), each, number)));
      head = BigInt.asUintN(64, head + BigInt(count));
    }
    return [
      ...writes,
      { address: field('head'), size: 8, holds: [head], what: 'the number of records' },
      { address: field('dropped'), size: 8, holds: [dropped], what: 'the number of records dropped' },
    ];
  }
}
