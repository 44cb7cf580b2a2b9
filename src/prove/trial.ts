/**
 * One trial (PV-1): original and patched run from the same state to the first instruction behind
 * the site; what they left is compared, and what had to happen on the way is counted. Where a
 * tracer took the return address, both then return (PV-2).
 */
import type { StopReason } from '../emulator/index.js';
import type { Address, RegisterName } from '../units.js';
import {
  type Difference,
  firstRegister,
  hijackedWords,
  neverEnds,
  memory,
  openReason,
  type Outcome,
  type Pair,
  registers,
  stopText,
  type Trial,
  wordAt,
} from './compare.js';
import { wrongFrame } from './frames.js';
import { mix, Random } from './random.js';
import { type Begun, isAligned } from './state.js';
import { REDIRECTS, REWRITES, TAILS, type TracerState } from './tracer-states.js';
import { leadsUp } from './unwinding.js';
import type { Wanted, WantedCall } from './wanted.js';
import { callOf, comeBack, ofSite, ownData } from './way-back.js';
import type { ProofWorld, Registers } from './world.js';

/** Instructions from a function's entry to the place behind its site. */
const ORIGINAL_BUDGET = 10_000;

interface Seen {
  readonly stop: StopReason;
  /** The site was executed. */
  readonly site: boolean;
  readonly events: readonly Difference[];
  /** Calls of each wanted callback. */
  readonly calls: ReadonlyMap<WantedCall, number>;
  /** The direct caller or the replaced function was entered with the arguments as they were. */
  readonly arrived: number;
  readonly spoiled: string | null;
  /** Registers where the site begins; null: it was not executed. */
  readonly before: Registers | null;
  /** Code that asks callbacks under a guard against recursion asked them; null: entries did. */
  readonly guard: Address | null;
  /** A callback named another place, and the site went on there (PV-3). */
  readonly isRedirected: boolean;
  /** What a callback wrote into its frame, by register. */
  readonly rewritten: ReadonlyMap<RegisterName, bigint>;
}

/** Of ways on which nothing is called. */
const NO_CALLS = new Map<WantedCall, number>();
const NOTHING_REWRITTEN = new Map<RegisterName, bigint>();

/** From a trial's return address to a place that nothing else has. */
const OTHER_PLACE = 0x20_0000n;

const AT_SITE: StopReason = { kind: 'hook', address: 0n };

const hex = (value: bigint): string => `0x${value.toString(16)}`;

/**
 * One side of a site's trials: runs to the place behind the site, or where the site goes on to
 * instead. Its hooks stay from one trial to the next, so that code is translated once.
 */
class Way {
  private readonly off: (() => void)[] = [];
  /** Hooks see nothing: what runs is not the way to the place behind the site. */
  isQuiet = true;
  private begun: Begun | null = null;
  private events: Difference[] = [];
  private calls = NO_CALLS;
  private arrived = 0;
  private spoiled: string | null = null;
  private before: Registers | null = null;
  private guard: Address | null = null;
  /** Where callbacks make the site go on; null: where it does. */
  private other: Address | null = null;
  private isRedirected = false;
  private rewritten = NOTHING_REWRITTEN;
  /** A profiling entry of the original is one that does nothing. */
  private readonly profiles: boolean;
  /** Where that entry is, for a site that is nothing but instructions in order and its call. */
  private readonly profiling: Address | null;
  /** The site was executed, its call was not yet. */
  private isProfiled = false;
  /** Instructions of a site up to its call, where they are counted. */
  private first: number | null = null;

  constructor(
    private readonly world: ProofWorld,
    private readonly pair: Pair,
    private readonly trial: Trial,
    private readonly watches: Wanted | null,
  ) {
    // Behind a window of nops both come to the end; a replaced function is another one.
    this.hook(trial.end, () => 'stop');
    this.profiles = trial.profiles && pair.original === world;
    this.profiling = this.profiles ? profilingEntry(world, trial) : null;
    this.hook(trial.start, () => {
      this.before ??= world.registers();
      this.isProfiled = this.profiling !== null;
      return this.profiles && this.profiling === null ? 'stop' : 'continue';
    });
    if (this.profiling !== null) {
      this.hook(this.profiling, () => {
        if (this.isProfiled) comeFromProfiling(world, pair);
        this.isProfiled = false;
        return 'continue';
      });
    }
    // Several ops may have one callback.
    const calls = watches?.calls ?? [];
    for (const place of new Set(calls.map((each) => each.place))) {
      const same = calls.filter((each) => each.place === place);
      this.hook(place, () => this.called(same));
    }
    for (const place of watches === null ? [] : (pair.data?.guards ?? [])) {
      this.hook(place, () => {
        this.guard = place;
        return 'continue';
      });
    }
    const goal = watches?.replacement ?? watches?.direct ?? null;
    if (goal !== null) {
      this.hook(goal.place, () => {
        const isReplacement = (watches?.replacement ?? null) !== null;
        this.arrive(isReplacement ? goal.entry : null);
        return isReplacement ? 'stop' : 'continue';
      });
    }
  }

  private hook(address: Address, seen: () => 'stop' | 'continue'): void {
    this.off.push(this.world.machine.hook(address, () => (this.isQuiet ? 'continue' : seen())));
  }

  private called(same: readonly WantedCall[]): 'continue' {
    const { world, trial, pair, events, calls, before } = this;
    const { returnAddress } = this.begun!;
    const [ip, parent, ops] = pair.abi.argumentRegisters.slice(0, 3).map((name) => world.machine.register(name));
    const left = same.filter((each) => !calls.has(each));
    // The list hands the ops on, whether or not entries do.
    const call = left.find((each) => each.self === ops) ?? left[0] ?? same[0]!;
    calls.set(call, (calls.get(call) ?? 0) + 1);
    const saw = (reason: string): void => {
      events.push({ what: 'event', name: call.name, reason, place: call.place });
    };
    if (ip !== trial.ip) saw(`was told ip ${hex(ip!)}, not ${hex(trial.ip)}`);
    if (call.ops !== null && ops !== call.ops) saw(`was told ops ${hex(ops!)}, not ${hex(call.ops)}`);
    // A function may have pushed something else in front of its site: entries read the top. A
    // return probe in front of the site has the return address already.
    const isTrap = parent === trial.trap?.address;
    if (parent !== returnAddress && parent !== topOfStack(world, pair, before) && !isTrap)
      saw(`was told parent ${hex(parent!)}, not ${hex(returnAddress)}`);
    const unguarded = this.guard !== null && pair.data !== null ? pair.data.unguarded(world) : null;
    const frame = this.rewritten.size > 0 ? null : this.wrongFrame(ip!, isTrap ? parent! : null);
    const isLinked = leadsUp(world, pair.frames, pair.abi, this.begun!);
    const unlinked = isLinked ? null : "was called with frames that do not lead to the function's caller";
    const wrong = unguarded ?? frame ?? this.wrongStack() ?? unlinked;
    if (wrong !== null) saw(wrong);
    this.spend(call);
    this.redirect();
    this.rewrite(call);
    return 'continue';
  }

  /**
   * What is wrong with the stack pointer that a callback finds, in a sentence; null: nothing. Code
   * that asks callbacks one by one may call any C; entries call what needs no alignment.
   */
  private wrongStack(): string | null {
    if (this.guard === null) return null;
    const { abi, proof } = this.pair;
    const stack = this.world.machine.register(abi.stackPointer);
    if (isAligned(stack, proof)) return null;
    return `finds the stack pointer ${hex(stack)}, which is not aligned to ${proof.stackAlign} bytes`;
  }

  /**
   * A callback may leave anything in the registers that entries save for it: ours changes few. Not
   * all save the static chain, which those of the runtime leave alone.
   */
  private spend({ place }: WantedCall): void {
    const { world, pair } = this;
    const { abi, proof } = pair;
    const kept = new Set([...abi.argumentRegisters.slice(0, 4), abi.linkRegister, proof.entryAddress]);
    const saved = new Set(abi.argumentRegisters);
    for (const { holds } of this.trial.wanted?.frame?.row.plain ?? [])
      if (holds.is === 'register') saved.add(holds.name);
    const random = new Random(mix(Number(this.begun!.returnAddress & 0xffff_ffffn), Number(place & 0xffff_ffffn)));
    for (const { name, widthBits } of world.machine.lifter.registers) {
      const isFlag = proof.random[name] !== undefined || proof.fixed.includes(name);
      const isFree = !isFlag && ((saved.has(name) && proof.volatile.includes(name)) || proof.compared[name] === 0n);
      if (isFree && !kept.has(name)) {
        world.machine.setRegister(name, BigInt.asUintN(widthBits, random.leftover()));
      }
    }
  }

  /** The callback changes the registers of its frame: the site goes on with those. */
  private rewrite(call: WantedCall): void {
    const { world, pair, trial, begun } = this;
    const { abi, proof } = pair;
    const { wanted } = trial;
    const frame = world.machine.register(abi.argumentRegisters[3] ?? '');
    const row = wanted?.frame?.full === true ? wanted.frame.row : null;
    // A probe behind it would record what it wrote.
    if (!REWRITES.has(begun!.tracer) || row === null || frame === 0n || !this.isProbed(call)) return;
    // Another frame pointer would stop the graph tracer (C-FG-2).
    const { frames } = pair;
    const pointer = 'register' in frames ? frames.register : null;
    const graphed = 'framePointer' in frames && wanted?.hijack === true ? frames.framePointer : null;
    const own = [...proof.platform, abi.stackPointer, abi.linkRegister, pointer, graphed, proof.toc];
    const random = new Random(mix(2, Number(begun!.returnAddress & 0xffff_ffffn)));
    for (const { at, holds, writer } of (row.restoresPlain === true ? row.plain : row.full) ?? []) {
      if (holds.is !== 'register' || writer !== undefined || own.includes(holds.name)) continue;
      // Behind an ordinary call nothing asks what others held.
      if (proof.fixed.includes(holds.name) || (trial.ordinaryCall && !abi.preservedRegisters.includes(holds.name)))
        continue;
      const drawn = BigInt.asUintN(world.machine.lifter.addressBits, random.double());
      // Flags have bits that no program sets.
      const free = proof.random[holds.name] ?? -1n;
      const value = (world.word(frame + BigInt(at)) & ~free) | (drawn & free);
      world.writeWord(frame + BigInt(at), value);
      if (proof.compared[holds.name] !== 0n) this.rewritten.set(holds.name, value);
    }
  }

  /** Whether the probe of the site was hit, where there is one, before a callback is called. */
  private isProbed(call: WantedCall): boolean {
    const { data } = this.pair;
    const probes = this.trial.wanted!.calls.filter(({ place }) => data?.isProbe(place) === true);
    return probes.every((each) => each !== call && this.calls.has(each));
  }

  /** The callback names another place to go on at: the word of the frame that the entry reads. */
  private redirect(): void {
    const { world, pair, trial, other } = this;
    const frame = world.machine.register(pair.abi.argumentRegisters[3] ?? '');
    const row = trial.wanted?.frame?.row;
    if (other === null || row === undefined || frame === 0n) return;
    const at = (row.plain ?? row.full)!.find(({ writer }) => writer === 'replacement')?.at;
    if (at === undefined) return;
    world.writeWord(frame + BigInt(at), other);
    this.isRedirected = true;
  }

  /**
   * A place that callbacks may name in a trial; null: they name none. Not where something else
   * does, nor where what is above the site's stack pointer is not the function's return address. A
   * graph tracer that is a branch behind the callbacks may take the other place for the site's ip.
   */
  private otherPlace(begun: Begun): Address | null {
    const { world, pair, trial } = this;
    const { wanted } = trial;
    if (!REDIRECTS.has(begun.tracer) || world !== pair.patched || wanted === null) return null;
    const isBranch = wanted.hijack && !wanted.calls.some(({ place }) => pair.data?.isGraph(place) === true);
    const isTaken = wanted.direct !== null || wanted.replacement !== null || trial.ordinaryCall || isBranch;
    const other = begun.returnAddress + OTHER_PLACE;
    if (isTaken || pair.data?.takesOtherPlaces !== true || world.layout.owns(other)) return null;
    return other;
  }

  /** What is wrong with the register frame of the callback that is called now; null: nothing. */
  private wrongFrame(ip: Address, trap: Address | null): string | null {
    const { world, pair, trial, before } = this;
    const { wanted } = trial;
    const argument = pair.abi.argumentRegisters[3];
    if ((wanted?.frame ?? null) === null || before === null || argument === undefined) return null;
    return wrongFrame(wanted!.frame!, world.machine.register(argument), {
      before,
      ip,
      behind: trial.end,
      returnAddress: trap ?? topOfStack(world, pair, before) ?? this.begun!.returnAddress,
      handlers: [trial.handler, trial.trap?.address ?? null],
      writers: new Set([
        ...(wanted!.replacement === null && !this.isRedirected ? [] : (['replacement'] as const)),
        ...(wanted!.direct === null ? [] : (['direct'] as const)),
      ]),
      wordBytes: (world.machine.lifter.addressBits / 8) as 4 | 8,
      overwritten: (name) => pair.original.machine.register(name) !== before.get(name),
      register: (name) => world.machine.register(name),
      word: (address) => wordAt(world, address),
    });
  }

  /**
   * Where another function runs instead, or behind the site's call.
   * @param entry  its global entry, where it runs instead: it finds itself there (P-ENT-4)
   */
  private arrive(entry: Address | null): void {
    this.arrived++;
    const { proof, program } = this.pair;
    // Functions that have descriptors find the second word of theirs.
    const [name, wants] =
      proof.entryAddress !== null
        ? [proof.entryAddress, entry]
        : [proof.toc, entry === null || proof.toc === null ? null : program.tocAt(entry)];
    if (name !== null && wants !== null) {
      const now = this.world.machine.register(name);
      if (now !== wants) this.spoiled ??= `${name} is ${hex(now)} there, not ${hex(wants)}`;
    }
    for (const name of this.pair.abi.argumentRegisters) {
      const was = this.rewritten.get(name) ?? this.begun!.registers.get(name);
      const now = this.world.machine.register(name);
      if (now !== was) this.spoiled ??= `${name} is ${hex(now)} there, and was ${hex(was)}`;
    }
  }

  /** Runs once. */
  run(begun: Begun, budget: number): Seen {
    const { world, trial, pair } = this;
    this.begun = begun;
    if (this.events.length > 0) this.events = [];
    this.arrived = 0;
    this.spoiled = null;
    this.guard = null;
    this.isRedirected = this.isProfiled = false;
    if (this.watches !== null) {
      this.calls = new Map();
      this.rewritten = new Map();
    }
    this.other = this.otherPlace(begun);
    this.before = begun.entry === trial.start ? begun.registers : null;
    world.prepare(trial.end);
    const isStepped = this.profiles && this.profiling === null;
    const isThere = isStepped && this.before !== null;
    let stop: StopReason = isThere ? AT_SITE : world.run(budget);
    if (isStepped && world.machine.register('pc') === trial.start && stop.kind === 'hook') {
      this.isQuiet = true;
      this.first ??= untilCall(world, this.pair, trial.start, trial.end);
      stop = pastProfiling(world, this.pair, trial, this.first);
      this.isQuiet = false;
    }
    if (this.isRedirected && stop.kind === 'fault' && stop.access === 'execute' && stop.address === this.other) {
      this.arrive(pair.proof.entryAddress === null ? null : this.other);
      stop = AT_SITE;
    }
    const { events, calls, arrived, spoiled, before, guard, isRedirected, rewritten } = this;
    const said = { events, calls, arrived, spoiled, guard, isRedirected, rewritten };
    return { stop, site: before !== null, before, ...said };
  }

  /** Takes the hooks off. Code that only this site has is forgotten: the next has other code. */
  end(): void {
    if (this.trial.wanted === null || this.world !== this.pair.patched) this.world.machine.dropAll();
    for (const each of this.off.splice(0)) each();
  }
}

/** The word at the stack pointer where calls leave their return addresses there; null elsewhere. */
function topOfStack(world: ProofWorld, { abi }: Pair, before: Registers | null): bigint | null {
  if (abi.linkRegister !== null || before === null) return null;
  return wordAt(world, before.get(abi.stackPointer));
}

/**
 * The profiling entry that a site calls, where no more than a look at its code is needed to know
 * it; null: the site is executed step by step.
 */
function profilingEntry({ layout }: ProofWorld, { start, end }: Trial): Address | null {
  const { arch, image } = layout.program;
  const first = image.fileOffsetOf(start);
  if (first < 0) return null;
  // The whole file: front ends keep their view of the bytes that they had last.
  for (let at = start; at < end;) {
    const { sizeBytes, flow } = arch.isa.decode(image.bytes, first + Number(at - start), at);
    at += BigInt(sizeBytes);
    if (at > end) return null;
    if (flow.kind === 'call') {
      const { target } = flow;
      return (target < start || target > end) && layout.executes(target) ? target : null;
    }
    if (flow.kind !== 'next') return null;
  }
  return null;
}

/**
 * Runs the original to the place behind a site that calls a profiling entry. PV-1, 3: the entry is
 * one that does nothing; what it counts, or whether it is there at all, is no part of the function.
 */
function pastProfiling(world: ProofWorld, pair: Pair, { start, end }: Trial, first: number): StopReason {
  const { machine } = world;
  for (let n = 0; n < SITE_INSTRUCTIONS; n++) {
    const stop = world.run(n === 0 ? first : 1);
    if (stop.kind !== 'step-limit') return stop;
    const at = machine.register('pc');
    if (at < start || at > end) comeFromProfiling(world, pair);
    if (machine.register('pc') === end) return { kind: 'hook', address: end };
  }
  return { kind: 'step-limit' };
}

/** Instructions of a site up to its first branch, which are executed at once; at least one. */
function untilCall(world: ProofWorld, { program }: Pair, start: Address, end: Address): number {
  const code = world.read(start, Number(end - start));
  let count = 0;
  for (let at = 0; at < code.length;) {
    const { sizeBytes, flow } = program.arch.isa.decode(code, at, start + BigInt(at));
    count++;
    if (flow.kind !== 'next') break;
    at += sizeBytes;
  }
  return Math.max(1, count);
}

/** More than any site has. */
const SITE_INSTRUCTIONS = 32;

/** Returns from a profiling entry as one that does nothing returns. */
function comeFromProfiling(world: ProofWorld, { abi, proof }: Pair): void {
  const { machine } = world;
  const stack = machine.register(abi.stackPointer);
  if (abi.linkRegister === null) {
    machine.setRegister('pc', wordAt(world, stack));
    machine.setRegister(abi.stackPointer, stack + BigInt(machine.lifter.addressBits / 8));
    return;
  }
  machine.setRegister('pc', machine.register(abi.linkRegister));
  if (proof.savedLink !== null) machine.setRegister(abi.linkRegister, machine.register(proof.savedLink));
  if (proof.toc !== null && proof.tocSlot !== null) {
    world.writeWord(stack + BigInt(proof.tocSlot), machine.register(proof.toc));
  }
}

/**
 * What the way of the patched image had to do, and did not.
 * @param rule  what the site wants as a rule, whatever state the tracer is in
 */
function missing(wanted: Wanted, rule: Wanted, seen: Seen): Difference | null {
  const [event] = seen.events;
  if (event !== undefined) return event;
  for (const call of rule.calls) {
    const count = seen.calls.get(call) ?? 0;
    const times = wanted.calls.includes(call) ? 1 : 0;
    if (count !== times) {
      const reason = `called ${count} times, not ${times === 1 ? 'once' : 'at all'}`;
      return { what: 'event', name: call.name, reason };
    }
  }
  const goal = wanted.replacement ?? wanted.direct;
  if (goal === null) return null;
  if (seen.arrived === 0) return { what: 'event', name: goal.name, reason: 'was not reached' };
  return seen.spoiled === null ? null : { what: 'event', name: goal.name, reason: seen.spoiled };
}

/** A callback that was called more than once, wherever the way ends. */
function tooOften({ calls }: Wanted, seen: Seen): Difference | null {
  for (const call of calls) {
    const count = seen.calls.get(call) ?? 0;
    if (count > 1) return { what: 'event', name: call.name, reason: `called ${count} times, not once` };
  }
  return null;
}

/** The trials of one site. */
export class Trials {
  private readonly original: Way;
  private readonly patched: Way;

  constructor(
    private readonly pair: Pair,
    private readonly trial: Trial,
  ) {
    this.original = new Way(pair.original, pair, trial, null);
    this.patched = new Way(pair.patched, pair, trial, trial.wanted);
  }

  /**
   * Runs a trial. Both worlds are in the state that it begins with; afterwards they are as it left
   * them.
   * @param isCalledAlike  a body that makes something of its return address finds the tracer's in
   *   the original, too
   */
  once(begun: Begun, isCalledAlike = false): Outcome {
    const { data, patched } = this.pair;
    if (data !== null) data.begin(patched, this.stateOf(begun), begun, callOf(this.pair, this.trial, begun));
    this.original.isQuiet = this.patched.isQuiet = false;
    const a = this.original.run(begun, ORIGINAL_BUDGET);
    const b = this.patched.run(begun, this.pair.budget);
    this.original.isQuiet = this.patched.isQuiet = true;
    return judge(this.pair, isCalledAlike ? { ...this.trial, isCalledAlike } : this.trial, begun, a, b);
  }

  /** Whether a return probe takes the return of the function. */
  get hasTrap(): boolean {
    return this.trial.trap !== null;
  }

  /** Whether it is known what the tracer's data holds behind the site. */
  get hasData(): boolean {
    return this.pair.data !== null;
  }

  /**
   * Where a site calls nothing, the state of the tracer's data says nothing; without a filter the
   * graph tracer takes what it does not want, but for functions that it leaves alone.
   */
  private stateOf({ tracer }: Begun): TracerState | null {
    const { wanted } = this.trial;
    const isOther = tracer === 'unfiltered' && wanted?.hijack !== true && wanted?.isBound !== true;
    return (wanted === null || isOther) && tracer !== null ? 'fresh' : tracer;
  }

  /** Nothing of the site is watched any more. */
  end(): void {
    this.original.end();
    this.patched.end();
  }
}

/** What a site calls in the state of a trial; null: nothing. */
function happening({ data, patched }: Pair, { wanted, ip }: Trial, begun: Begun, b: Seen): Wanted | null {
  if (wanted === null || data === null) return wanted;
  const now = data.happens(patched, wanted, b.guard, ip);
  if (!b.isRedirected) return now;
  const place = begun.returnAddress + OTHER_PLACE;
  const other = { name: 'the place that a callback named', place, entry: place, ops: null, self: 0n, needsRcu: false };
  return { ...now, replacement: other };
}

/** Compares what two ways left; where a tracer has the return, both then return. */
function judge(pair: Pair, site: Trial, begun: Begun, a: Seen, b: Seen): Outcome {
  const { data, hits } = pair;
  if (data !== null) data.hits = hits === null || a.before === null ? null : (ip) => hits(ip, a.before!);
  const wanted = happening(pair, site, begun, b);
  const trial = wanted === site.wanted ? site : { ...site, wanted };
  const replaced = (wanted?.replacement ?? null) !== null && b.arrived > 0;
  if (!(replaced && a.stop.kind === 'hook') && stopText(a.stop) !== stopText(b.stop)) {
    const doubt = a.stop.kind === 'hook';
    // No instruction more would bring it to the end: that is a difference, and no doubt.
    const why = b.stop.kind === 'step-limit' && doubt ? neverEnds(pair, trial.end) : null;
    if (why !== null) {
      const difference: Difference = { what: 'stop', original: stopText(a.stop), patched: why };
      return { kind: 'different', phase: 'enter', difference };
    }
    const often = b.stop.kind === 'step-limit' && doubt && wanted !== null ? tooOften(site.wanted!, b) : null;
    if (often !== null) return { kind: 'different', phase: 'enter', difference: often };
    const reason = openReason(b.stop) ?? openReason(a.stop);
    if (reason !== null)
      return { kind: 'open', reason, detail: stopText(openReason(b.stop) === null ? a.stop : b.stop), doubt };
    const difference: Difference = { what: 'stop', original: stopText(a.stop), patched: stopText(b.stop) };
    return { kind: 'different', phase: 'enter', difference };
  }
  if (!a.site || !b.site || a.stop.kind !== 'hook') {
    const reason = openReason(a.stop) ?? 'not-reached';
    return { kind: 'open', reason, detail: stopText(a.stop), doubt: false };
  }
  const taken = handlerOf(pair, trial, begun);
  const handler = (replaced ? wayBackOf(pair, trial, begun) : null) ?? taken;
  // Of two that took the return, the first may be left in a register.
  const takers = [
    handler,
    wanted?.hijack === true ? trial.handler : null,
    wanted?.trap === true ? trial.trap?.address : null,
  ];
  const isHijacked = (original: bigint, patched: bigint): boolean =>
    handler !== null && original === begun.returnAddress && takers.includes(patched);
  const words = handler === null ? [] : hijackedWords(pair, begun, handler);
  const differing = registers(
    pair,
    a.before,
    trial.ordinaryCall,
    (x, y) => isHijacked(x, y) || (replaced && x === trial.end),
  ).filter(({ name }) => !b.rewritten.has(name));
  const difference =
    (wanted === null ? null : missing(wanted, site.wanted!, b)) ??
    ownData(pair, trial, begun, 'enter', taken, topOfStack(pair.patched, pair, b.before)) ??
    takeOver(pair, b.rewritten) ??
    firstRegister(differing) ??
    memory(pair, trial, begun, words);
  if (difference !== null) return { kind: 'different', phase: 'enter', difference, registers: differing };
  // The caller of a tail call is the tracer: where that returns to says the trial of its function.
  return handler === null || TAILS.has(begun.tracer)
    ? { kind: 'equal' }
    : comeBack(pair, trial, begun, handler, words, ofSite(pair, trial, begun, taken ?? handler));
}

/**
 * Registers that a callback wrote into its frame must be those of the patched behind the site; the
 * original goes on with them, too.
 */
function takeOver({ original, patched, proof }: Pair, rewritten: ReadonlyMap<RegisterName, bigint>): Difference | null {
  let found: Difference | null = null;
  for (const [name, value] of rewritten) {
    const now = patched.machine.register(name);
    if (((now ^ value) & (proof.compared[name] ?? -1n)) !== 0n)
      found ??= { what: 'register', name, original: value, patched: now };
    original.machine.setRegister(name, value);
  }
  return found;
}

/** Who has the return address: the graph tracer or a return probe, the last that took it. */
function handlerOf(pair: Pair, trial: Trial, begun: Begun): Address | null {
  const { handler, trap, wanted } = trial;
  const graph = wanted?.hijack === true ? handler : null;
  const probe = wanted?.trap === true && trap !== null ? trap.address : null;
  if (graph === null || probe === null) return graph ?? probe;
  const { patched, abi, data } = pair;
  const link = abi.linkRegister === null ? null : patched.machine.register(abi.linkRegister);
  if (link === probe || hijackedWords(pair, begun, probe).length > 0) return probe;
  if (link === graph || wayBackOf(pair, trial, begun) === null) return graph;
  // What the two left is kept until the function that runs in the place is back.
  const last = wanted!.calls.findLast(({ place }) => data!.isGraph(place) || data!.isProbe(place));
  return last !== undefined && data!.isProbe(last.place) ? probe : graph;
}

/**
 * Where a replaced function returns to: into the tracer, which restores the caller's table of
 * contents; null: to its caller.
 */
function wayBackOf({ patched, abi }: Pair, { own }: Trial, { returnAddress }: Begun): Address | null {
  if (abi.linkRegister === null) return null;
  const link = patched.machine.register(abi.linkRegister);
  const isOwn = own.some(({ start, end }) => link >= start && link < end);
  return link !== returnAddress && isOwn ? link : null;
}
