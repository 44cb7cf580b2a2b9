/**
 * One trial (PV-1): original and patched run from the same state to the first instruction behind
 * the site; what they left is compared, and what had to happen on the way is counted. Where a
 * tracer took the return address, both then return (PV-2).
 */
import type { Abi } from '../machine/abi.js';
import type { ProofModel } from '../machine/proof.js';
import type { StopReason } from '../emulator/index.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import { PAGE_BYTES } from './layout.js';
import type { Begun } from './state.js';
import type { Wanted, WantedCall } from './wanted.js';
import type { ProofWorld } from './world.js';

/** The first thing in which the two ways differ. */
export type Difference =
  | { readonly what: 'register'; readonly name: string; readonly original: bigint; readonly patched: bigint }
  | { readonly what: 'memory'; readonly address: Address; readonly original: number; readonly patched: number }
  /** They ended otherwise: one came to the place behind the site, the other did not. */
  | { readonly what: 'stop'; readonly original: string; readonly patched: string }
  /** A callback that was called too often, too rarely, or with other arguments. */
  | { readonly what: 'event'; readonly name: string; readonly reason: string };

export type Outcome =
  | { readonly kind: 'equal' }
  | { readonly kind: 'different'; readonly difference: Difference; readonly phase: Phase }
  /** Nothing follows from it. */
  | { readonly kind: 'open'; readonly reason: OpenReason; readonly detail: string };

/** On the way to the place behind the site, or back from the function. */
export type Phase = 'enter' | 'return';

/** Why a trial says nothing, as JSON has it. */
export type OpenReason = 'not-reached' | 'unknown-instruction' | 'budget' | 'waits-for-system';

/** What a site needs to be tried. */
export interface Trial {
  /** First byte of the site, the first instruction behind it. */
  readonly start: Address;
  readonly end: Address;
  readonly ip: Address;
  readonly wanted: Wanted | null;
  /** Ranges that belong to the tracer: [start, end). */
  readonly own: readonly { readonly start: Address; readonly end: Address }[];
  /** Behind it is dead what an ordinary call may change. */
  readonly ordinaryCall: boolean;
  /** The original's site calls a profiling entry, wherever that is. */
  readonly profiles: boolean;
  /** Where replaced return addresses lead; null: the image has no graph tracer. */
  readonly handler: Address | null;
}

/** Instructions from a function's entry to the place behind its site. */
const ORIGINAL_BUDGET = 10_000;
/** The tracer's are among them. */
const PATCHED_BUDGET = 400_000;

/** Bytes below the stack pointer that a callee finds and may overwrite: dead at a site. */
const BELOW_STACK = 0x10_0000n;

export interface Pair {
  readonly original: ProofWorld;
  readonly patched: ProofWorld;
  readonly program: Program;
  readonly abi: Abi;
  readonly proof: ProofModel;
}

/** A stop in words, the same for the same. */
function stopText(stop: StopReason): string {
  switch (stop.kind) {
    case 'fault':
      return `fault: ${stop.access} at 0x${stop.address.toString(16)}`;
    case 'trap':
      return `trap: ${stop.trap} at 0x${stop.instruction.toString(16)}`;
    case 'unknown-instruction':
      return `unknown instruction ${stop.mnemonic ?? ''} at 0x${stop.instruction.toString(16)}`;
    case 'hook':
      return 'behind the site';
    case 'step-limit':
      return 'does not come to the place behind the site';
    default:
      return stop.kind;
  }
}

interface Seen {
  readonly stop: StopReason;
  /** The site was executed. */
  readonly site: boolean;
  readonly events: readonly string[];
  /** Calls of each wanted callback. */
  readonly calls: ReadonlyMap<WantedCall, number>;
  /** The direct caller or the replaced function was entered with the arguments as they were. */
  readonly arrived: number;
  readonly spoiled: string | null;
  /** Registers where the site begins; null: it was not executed. */
  readonly before: ReadonlyMap<string, bigint> | null;
}

const AT_SITE: StopReason = { kind: 'hook', address: 0n };

const hex = (value: bigint): string => `0x${value.toString(16)}`;

/** Runs one side to the place behind the site, or where the site goes on to instead. */
function side(world: ProofWorld, pair: Pair, trial: Trial, begun: Begun, budget: number, watches: Wanted | null): Seen {
  const { machine } = world;
  const { argumentRegisters } = pair.abi;
  const off: (() => void)[] = [];
  const calls = new Map<WantedCall, number>();
  const events: string[] = [];
  let before = begun.registers.get('pc') === trial.start ? begun.registers : null;
  let arrived = 0;
  let spoiled: string | null = null;
  world.prepare(trial.end);
  const stopAt = (address: Address): void => {
    off.push(machine.hook(address, () => 'stop'));
  };
  // Behind a window of nops both come to the end; a replaced function is another one.
  stopAt(trial.end);
  if (before === null) {
    off.push(
      machine.hook(trial.start, () => {
        before ??= new Map(machine.registerNames.map((name) => [name, machine.register(name)]));
        return 'continue';
      }),
    );
  }
  for (const call of watches?.calls ?? []) {
    off.push(
      machine.hook(call.place, () => {
        calls.set(call, (calls.get(call) ?? 0) + 1);
        const [ip, parent, ops] = argumentRegisters.slice(0, 3).map((name) => machine.register(name));
        if (ip !== trial.ip) events.push(`${call.name} was told ip ${hex(ip!)}, not ${hex(trial.ip)}`);
        if (call.ops !== null && ops !== call.ops)
          events.push(`${call.name} was told ops ${hex(ops!)}, not ${hex(call.ops)}`);
        // A function may have pushed something else in front of its site: entries read the top.
        if (parent !== begun.returnAddress && parent !== topOfStack(world, pair, before))
          events.push(`${call.name} was told parent ${hex(parent!)}, not ${hex(begun.returnAddress)}`);
        return 'continue';
      }),
    );
  }
  const goal = watches?.replacement ?? watches?.direct ?? null;
  if (goal !== null) {
    off.push(
      machine.hook(goal.place, () => {
        arrived++;
        for (const name of argumentRegisters) {
          const was = begun.registers.get(name)!;
          const now = machine.register(name);
          if (now !== was) spoiled ??= `${name} is ${hex(now)} there, and was ${hex(was)}`;
        }
        return (watches?.replacement ?? null) === null ? 'continue' : 'stop';
      }),
    );
  }
  const profiles = watches === null && trial.profiles && pair.original === world;
  if (profiles && before === null) stopAt(trial.start);
  let stop: StopReason = profiles && before !== null ? AT_SITE : world.run(budget);
  if (profiles && machine.register('pc') === trial.start && stop.kind === 'hook') {
    for (const each of off.splice(0)) each();
    stop = pastProfiling(world, pair, trial);
  }
  for (const each of off) each();
  return { stop, site: before !== null, events, calls, arrived, spoiled, before };
}

/** The word at the stack pointer where calls leave their return addresses there; null elsewhere. */
function topOfStack(world: ProofWorld, { abi }: Pair, before: ReadonlyMap<string, bigint> | null): bigint | null {
  if (abi.linkRegister !== null || before === null) return null;
  return wordAt(world, before.get(abi.stackPointer)!);
}

/**
 * Runs the original to the place behind a site that calls a profiling entry. PV-1, 3: the entry is
 * one that does nothing; what it counts, or whether it is there at all, is no part of the function.
 */
function pastProfiling(world: ProofWorld, pair: Pair, { start, end }: Trial): StopReason {
  const { machine } = world;
  for (let n = 0; n < SITE_INSTRUCTIONS; n++) {
    const stop = world.run(1);
    if (stop.kind !== 'step-limit') return stop;
    const at = machine.register('pc');
    if (at < start || at > end) comeFromProfiling(world, pair);
    if (machine.register('pc') === end) return { kind: 'hook', address: end };
  }
  return { kind: 'step-limit' };
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

/** What the way of the patched image had to do, and did not. */
function missing(wanted: Wanted, seen: Seen): Difference | null {
  const [event] = seen.events;
  if (event !== undefined) return { what: 'event', name: 'arguments', reason: event };
  for (const call of wanted.calls) {
    const count = seen.calls.get(call) ?? 0;
    if (count !== 1) return { what: 'event', name: call.name, reason: `called ${count} times, not once` };
  }
  const goal = wanted.replacement ?? wanted.direct;
  if (goal === null) return null;
  if (seen.arrived === 0) return { what: 'event', name: goal.name, reason: 'was not reached' };
  return seen.spoiled === null ? null : { what: 'event', name: goal.name, reason: seen.spoiled };
}

/**
 * Registers of both sides. What is dead is not looked at, nor what the original's own site
 * overwrote: nothing can need it.
 */
function registers(
  pair: Pair,
  before: ReadonlyMap<string, bigint> | null,
  ordinaryCall: boolean,
  hijacked: (original: bigint, patched: bigint) => boolean,
): Difference | null {
  const { original, patched, proof } = pair;
  for (const name of original.machine.registerNames) {
    const [a, b] = [original.machine.register(name), patched.machine.register(name)];
    if (a === b || hijacked(a, b)) continue;
    if (name !== 'pc' && before !== null && before.get(name) !== a) continue;
    if (ordinaryCall && (name === pair.abi.linkRegister || proof.volatile.includes(name))) continue;
    const mask = proof.compared[name];
    if (mask !== undefined && ((a ^ b) & mask) === 0n) continue;
    return { what: 'register', name, original: a, patched: b };
  }
  return null;
}

/** What stands in memory on both sides. */
function memory(pair: Pair, trial: Trial, begun: Begun, hijacked: readonly Address[]): Difference | null {
  const { original, patched, proof } = pair;
  const word = original.machine.lifter.addressBits / 8;
  // Of the frame that is the innermost now, and of the caller's.
  const stack = original.machine.register(pair.abi.stackPointer);
  const frames = [...new Set([stack, begun.stackPointer])];
  const words = frames.flatMap((frame) => proof.calleeWords.map((offset) => frame + BigInt(offset)));
  const skipped = [
    ...trial.own,
    { start: stack - BELOW_STACK, end: stack },
    ...[...hijacked, ...words].map((start) => ({ start, end: start + BigInt(word) })),
  ];
  const isSkipped = (address: Address): boolean =>
    skipped.some(({ start, end }) => address >= start && address < end) ||
    original.layout.owns(address) !== patched.layout.owns(address);
  for (const page of new Set([...original.changed(), ...patched.changed()])) {
    const [a, b] = [original.page(page), patched.page(page)];
    for (let i = 0; i < PAGE_BYTES; i++) {
      if (a.now[i] === b.now[i]) continue;
      if (a.now[i] === a.before[i] && b.now[i] === b.before[i]) continue;
      const address = page + BigInt(i);
      if (!isSkipped(address)) return { what: 'memory', address, original: a.now[i]!, patched: b.now[i]! };
    }
  }
  return null;
}

/** Words that hold the return address in the original and the tracer's handler in the patched. */
function hijackedWords(pair: Pair, begun: Begun, handler: Address): Address[] {
  const { original, patched } = pair;
  const word = original.machine.lifter.addressBits / 8;
  const found: Address[] = [];
  for (const page of patched.changed()) {
    const [a, b] = [original.page(page).now, patched.page(page).now];
    for (let i = 0; i + word <= PAGE_BYTES; i += word) {
      let same = true;
      for (let k = 0; k < word && same; k++) same = a[i + k] === b[i + k];
      if (same) continue;
      const address = page + BigInt(i);
      if (wordAt(original, address) === begun.returnAddress && wordAt(patched, address) === handler)
        found.push(address);
    }
  }
  return found;
}

function wordAt(world: ProofWorld, address: Address): bigint {
  const { addressBits, endian } = world.machine.lifter;
  const bytes = world.read(address, addressBits / 8);
  if (endian === 'little') bytes.reverse();
  return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** Stops that say something about the emulator, and nothing about the code. */
function openReason(stop: StopReason): OpenReason | null {
  if (stop.kind === 'unknown-instruction') return 'unknown-instruction';
  if (stop.kind === 'step-limit') return 'budget';
  return stop.kind === 'syscall' || stop.kind === 'waiting' || stop.kind === 'signal' ? 'waits-for-system' : null;
}

/**
 * Runs a trial. Both worlds are in the state that it begins with; afterwards they are as it left
 * them.
 */
export function tryOnce(pair: Pair, trial: Trial, begun: Begun): Outcome {
  const { wanted } = trial;
  const a = side(pair.original, pair, trial, begun, ORIGINAL_BUDGET, null);
  const b = side(pair.patched, pair, trial, begun, PATCHED_BUDGET, wanted);
  const replaced = (wanted?.replacement ?? null) !== null && b.arrived > 0;
  if (!(replaced && a.stop.kind === 'hook') && stopText(a.stop) !== stopText(b.stop)) {
    const reason = openReason(b.stop) ?? openReason(a.stop);
    if (reason !== null)
      return { kind: 'open', reason, detail: stopText(openReason(b.stop) === null ? a.stop : b.stop) };
    const difference: Difference = { what: 'stop', original: stopText(a.stop), patched: stopText(b.stop) };
    return { kind: 'different', phase: 'enter', difference };
  }
  if (!a.site || !b.site || a.stop.kind !== 'hook') {
    const reason = openReason(a.stop) ?? 'not-reached';
    return { kind: 'open', reason, detail: stopText(a.stop) };
  }
  const handler = wanted?.hijack === true ? trial.handler : replaced ? wayBackOf(pair, trial, begun) : null;
  const isHijacked = (original: bigint, patched: bigint): boolean =>
    handler !== null && original === begun.returnAddress && patched === handler;
  const words = handler === null ? [] : hijackedWords(pair, begun, handler);
  const difference =
    (wanted === null ? null : missing(wanted, b)) ??
    registers(pair, a.before, trial.ordinaryCall, (x, y) => isHijacked(x, y) || (replaced && x === trial.end)) ??
    memory(pair, trial, begun, words);
  if (difference !== null) return { kind: 'different', phase: 'enter', difference };
  return handler === null ? { kind: 'equal' } : comeBack(pair, trial, begun, handler, words);
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

/**
 * PV-2. Both functions return in the same state: the registers that belong to the caller as they
 * were at the entry, results random, all others whatever they are. The original is then at the
 * return address; the patched comes there through the tracer's handler.
 */
function comeBack(pair: Pair, trial: Trial, begun: Begun, handler: Address, words: readonly Address[]): Outcome {
  const { original, patched, abi, proof } = pair;
  const link = abi.linkRegister;
  const inRegister = link !== null && patched.machine.register(link) === handler;
  if (!inRegister && words.length === 0) {
    const difference: Difference = { what: 'event', name: 'return_to_handler', reason: 'does not have the return' };
    return { kind: 'different', phase: 'return', difference };
  }
  const kept = [abi.stackPointer, ...abi.preservedRegisters];
  for (const { machine } of [original, patched]) {
    for (const name of kept) machine.setRegister(name, begun.registers.get(name)!);
    // What is left in registers by the function is the same on both sides, results included.
    for (const name of machine.registerNames) {
      if (name !== 'pc' && !kept.includes(name) && name !== link) machine.setRegister(name, begun.registers.get(name)!);
    }
    if (link === null) {
      machine.setRegister(abi.stackPointer, begun.stackPointer + BigInt(machine.lifter.addressBits / 8));
    }
  }
  original.machine.setRegister('pc', begun.returnAddress);
  patched.machine.setRegister('pc', handler);
  if (link !== null) {
    original.machine.setRegister(link, begun.returnAddress);
    patched.machine.setRegister(link, handler);
  }
  const stop = patched.run(PATCHED_BUDGET);
  const isBack = stop.kind === 'fault' && stop.access === 'execute' && stop.address === begun.returnAddress;
  if (!isBack) {
    const reason = openReason(stop);
    if (reason !== null) return { kind: 'open', reason, detail: stopText(stop) };
    const difference: Difference = { what: 'stop', original: 'the caller', patched: stopText(stop) };
    return { kind: 'different', phase: 'return', difference };
  }
  const live = new Set([...kept, ...proof.results]);
  for (const name of live) {
    const [x, y] = [original.machine.register(name), patched.machine.register(name)];
    if (x !== y) {
      return { kind: 'different', phase: 'return', difference: { what: 'register', name, original: x, patched: y } };
    }
  }
  const difference = memory(pair, trial, begun, words);
  return difference === null ? { kind: 'equal' } : { kind: 'different', phase: 'return', difference };
}
