/**
 * What two ways left is compared (PV-1, 3): registers, memory, how they ended. What a trial is and
 * what comes of it.
 */
import { bytesOfWord } from '../bytes.js';
import type { Abi } from '../machine/abi.js';
import type { ProcessModel } from '../machine/emulation.js';
import type { ProofModel } from '../machine/proof.js';
import type { StopReason } from '../emulator/index.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import { differing, PAGE_BYTES } from './layout.js';
import type { OwnData } from './own-data.js';
import type { Begun } from './state.js';
import type { Wanted } from './wanted.js';
import type { ProofWorld, Registers } from './world.js';
import type { ProbeHit } from './writes.js';

/** The first thing in which the two ways differ. */
export type Difference =
  | { readonly what: 'register'; readonly name: string; readonly original: bigint; readonly patched: bigint }
  | { readonly what: 'memory'; readonly address: Address; readonly original: number; readonly patched: number }
  /** They ended otherwise: one came to the place behind the site, the other did not. */
  | { readonly what: 'stop'; readonly original: string; readonly patched: string }
  /** A callback that was called too often, too rarely, or with other arguments. */
  | {
      readonly what: 'event';
      readonly name: string;
      readonly reason: string;
      /** The callback that saw it; absent: it shows in the end. */
      readonly place?: Address;
    };

/** A register that must hold the same, and does not. */
export type RegisterDifference = Omit<Extract<Difference, { what: 'register' }>, 'what'>;

export type Outcome =
  | { readonly kind: 'equal' }
  | {
      readonly kind: 'different';
      readonly difference: Difference;
      readonly phase: Phase;
      /** All registers that must be equal there, and are not; absent: not looked at. */
      readonly registers?: readonly RegisterDifference[];
    }
  /** Nothing follows from it. */
  | {
      readonly kind: 'open';
      readonly reason: OpenReason;
      readonly detail: string;
      /** The original came to its end, and the patched did not: no other trial makes up for it. */
      readonly doubt: boolean;
    };

/** On the way to the place behind the site, or back from the function. */
export type Phase = 'enter' | 'return';

/** Why a trial says nothing, as JSON has it. */
export type OpenReason = 'not-reached' | 'unknown-instruction' | 'budget' | 'waits-for-system' | 'uses-return-address';

/** A return probe. */
export interface ReturnTrap {
  /** Where it sends returns. */
  readonly address: Address;
  /** The object of an event, of one with a limit if there is one; 0n: unknown. */
  readonly event: Address;
}

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
  /**
   * The function has pushed something in front of its site, and how the tracer finds where it
   * returns to: by its frame, or by what it is handed, of which a callback needs a frame; null: it
   * is told what is at the top of the stack.
   */
  readonly callerBy: 'frame' | 'callback' | null;
  /** The original's site calls a profiling entry, wherever that is. */
  readonly profiles: boolean;
  /** Where replaced return addresses lead; null: the image has no graph tracer. */
  readonly handler: Address | null;
  /** A return probe on the site, or on the way to it; null: there is none. */
  readonly trap: ReturnTrap | null;
  /** The object of the probe that the tracer handles at the site, or there; 0n: there is none. */
  readonly handled: Address;
  /** A probe beside the site is on the way, and records something of its own. */
  readonly probed: boolean;
  /** The function from its first instruction on: [start, end); null: its size is not known. */
  readonly body: { readonly start: Address; readonly end: Address } | null;
  /**
   * The original goes through the body with the return address that the patched has: what a body
   * makes of it is the same in both then.
   */
  readonly isCalledAlike?: boolean;
  /** What is known of the body's instructions, by the address at which they begin. */
  readonly steps: Map<Address, Straight>;
}

/** Instructions that follow each other, or a call that leaves the body. */
export interface Straight {
  readonly count: number;
  /** Bytes. */
  readonly size: number;
  readonly leaves: boolean;
}

export interface Pair {
  readonly original: ProofWorld;
  readonly patched: ProofWorld;
  readonly program: Program;
  readonly abi: Abi;
  readonly proof: ProofModel;
  /** How functions of the machine know their callers. */
  readonly frames: ProcessModel['frames'];
  /** What the patched image's tracer writes; null: it has none whose data is known. */
  readonly data: OwnData | null;
  /** What the probe of a site records; null: there are no probes. */
  readonly hits: ((ip: Address, before: Registers) => ProbeHit | null) | null;
  /** Instructions of the patched side on each way; the tracer's are among them. */
  readonly budget: number;
}

/** Bytes below the stack pointer that a callee finds and may overwrite: dead at a site. */
export const BELOW_STACK = 0x10_0000n;

/** A stop in words, the same for the same. */
export function stopText(stop: StopReason): string {
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

/**
 * Registers of both sides that differ. What is dead is not looked at, nor what the original's own
 * site overwrote: nothing can need it.
 */
export function registers(
  pair: Pair,
  before: Registers | null,
  ordinaryCall: boolean,
  hijacked: (original: bigint, patched: bigint) => boolean,
): RegisterDifference[] {
  const { original, patched, proof } = pair;
  const found: RegisterDifference[] = [];
  for (const name of original.differingRegisters(patched)) {
    const [a, b] = [original.machine.register(name), patched.machine.register(name)];
    if (hijacked(a, b)) continue;
    if (name !== 'pc' && before !== null && before.get(name) !== a) continue;
    if (ordinaryCall && (name === pair.abi.linkRegister || proof.volatile.includes(name))) continue;
    const mask = proof.compared[name];
    if (mask !== undefined && ((a ^ b) & mask) === 0n) continue;
    found.push({ name, original: a, patched: b });
  }
  return found;
}

/** The first of the registers that differ; null: none does. */
export const firstRegister = ([first]: readonly RegisterDifference[]): Difference | null =>
  first === undefined ? null : { what: 'register', ...first };

/**
 * What stands in memory on both sides.
 * @param live  lowest byte of the stack that held anything in the middle of a function; what lies
 *   below it matters only where the original wrote it; null: the site is at an entry
 */
export function memory(
  pair: Pair,
  trial: Trial,
  begun: Begun,
  hijacked: readonly Address[],
  live: Address | null = null,
): Difference | null {
  const { original, patched } = pair;
  for (const { address } of original.stored) {
    const found = memoryOf(address, pair, trial, begun, hijacked, live);
    if (found !== null) return found;
  }
  for (const { address } of patched.stored) {
    if (original.hasStored(address)) continue;
    const found = memoryOf(address, pair, trial, begun, hijacked, live);
    if (found !== null) return found;
  }
  return null;
}

/** What of a page stands on both sides, as `memory` has it. */
function memoryOf(
  page: Address,
  pair: Pair,
  trial: Trial,
  begun: Begun,
  hijacked: readonly Address[],
  live: Address | null,
): Difference | null {
  const { original, patched } = pair;
  const [a, b] = [original.page(page), patched.page(page)];
  const positions = differing(a.now, b.now);
  if (positions.length === 0) return null;
  const ranges = deadRanges(page, pair, trial, begun, hijacked, live);
  const free = live === null ? [0, 0] : [Number(live - BELOW_STACK - page), Number(live - page)];
  for (const i of positions) {
    if (a.now[i] === a.before[i] && (b.now[i] === b.before[i] || (i >= free[0]! && i < free[1]!))) continue;
    if (isIn(ranges, i)) continue;
    const address = page + BigInt(i);
    if (original.layout.owns(address) !== patched.layout.owns(address)) continue;
    return { what: 'memory', address, original: a.now[i]!, patched: b.now[i]! };
  }
  return null;
}

/** Pages of either side that are not as they were at first. */
export function changedPages({ original, patched }: Pick<Pair, 'original' | 'patched'>): Iterable<Address> {
  return new Set([...original.changed(), ...patched.changed()]);
}

/**
 * What of memory is not compared, as `memory` has it: positions in a page, begins and ends in turn.
 * Numbers, because stacks differ in many bytes; far from the page they need not be exact.
 */
function deadRanges(
  page: Address,
  { original, proof, abi }: Pair,
  trial: Trial,
  begun: Begun,
  hijacked: readonly Address[],
  live: Address | null,
): number[] {
  const word = original.machine.lifter.addressBits / 8;
  // Of the frame that is the innermost now, and of the caller's.
  const stack = original.machine.register(abi.stackPointer);
  const [inner, outer] = [Number(stack - page), Number(begun.stackPointer - page)];
  const ranges: number[] = [];
  const add = (start: number, end: number): void => {
    if (start < PAGE_BYTES && end > 0) ranges.push(start, end);
  };
  add(inner - Number(BELOW_STACK), live === null || live > stack ? inner : Number(live - page));
  for (const offset of proof.calleeWords) {
    add(inner + offset, inner + offset + word);
    if (outer !== inner) add(outer + offset, outer + offset + word);
  }
  for (const start of hijacked) add(Number(start - page), Number(start - page) + word);
  for (const { start, end } of trial.own) add(Number(start - page), Number(end - page));
  return ranges;
}

function isIn(ranges: readonly number[], i: number): boolean {
  for (let k = 0; k < ranges.length; k += 2) if (i >= ranges[k]! && i < ranges[k + 1]!) return true;
  return false;
}

/** Words that hold the return address in the original and the tracer's handler in the patched. */
export function hijackedWords(pair: Pair, begun: Begun, handler: Address): Address[] {
  const { original, patched } = pair;
  const word = original.machine.lifter.addressBits / 8;
  const found: Address[] = [];
  for (const page of patched.changed()) {
    const [a, b] = [original.page(page).now, patched.page(page).now];
    for (const i of new Set(differing(a, b).map((at) => at - (at % word)))) {
      const address = page + BigInt(i);
      if (wordAt(original, address) === begun.returnAddress && wordAt(patched, address) === handler)
        found.push(address);
    }
  }
  return found;
}

/**
 * Places to which a body has copied its return address, or a part of it: each byte in which the
 * sides differ there is one of that address in the original, and the same one of the handler's in
 * the patched. Bytes that are copied one by one may lie anywhere.
 */
export function copiedWords(pair: Pair, begun: Begun, handler: Address): Address[] {
  const { original, patched } = pair;
  const { addressBits, endian } = original.machine.lifter;
  const size = (addressBits / 8) as 4 | 8;
  const [from, to] = [begun.returnAddress, handler].map((word) => bytesOfWord(word, endian, size)) as [
    Uint8Array,
    Uint8Array,
  ];
  const found: Address[] = [];
  const isCopied = (address: Address): boolean => {
    const [a, b] = [original.read(address, size), patched.read(address, size)];
    return a.every((byte, i) => byte === b[i] || (byte === from[i] && b[i] === to[i]));
  };
  for (const page of changedPages(pair)) {
    const [a, b] = [original.page(page).now, patched.page(page).now];
    for (const i of differing(a, b)) {
      const at = page + BigInt(i);
      if (found.some((start) => at >= start && at < start + BigInt(size))) continue;
      for (let k = 0; k < size; k++) {
        // Most bytes differ for another reason: frames of the tracer, its data.
        if (a[i] === from[k] && b[i] === to[k] && isCopied(at - BigInt(k))) found.push(at - BigInt(k));
      }
    }
  }
  return found;
}

export function wordAt(world: ProofWorld, address: Address): bigint {
  return world.word(address);
}

/** Budgets of which the tracer's code needs a small part on any way. */
const FAR_BEYOND = 10;

/**
 * Why a patched way that ran out of its budget never comes to its end; null: it may be a long one.
 * What the tracer brought with it has bounds: of an image's own functions nothing is known.
 * @param end  the place that it was to come to
 */
export function neverEnds({ original, patched, budget }: Pair, end: Address): string | null {
  if (patched.circles(end)) return 'goes in circles: never comes to the place behind the site';
  const { recorder } = patched;
  // The account has seen enough.
  patched.recorder = null;
  // Hooks of the trial see nothing any more.
  const off = patched.machine.hook(end, () => 'stop');
  const stop = patched.run(FAR_BEYOND * budget);
  off();
  patched.recorder = recorder;
  const isTracers = patched.layout.owns(patched.machine.pc) && !original.layout.owns(patched.machine.pc);
  if (stop.kind === 'step-limit') return isTracers ? 'runs on in the tracer: far longer than its code ever does' : null;
  const isThere = 'address' in stop && stop.address === end;
  return isThere || openReason(stop) !== null ? null : stopText(stop);
}

/** Stops that say something about the emulator, and nothing about the code. */
export function openReason(stop: StopReason): OpenReason | null {
  if (stop.kind === 'unknown-instruction') return 'unknown-instruction';
  if (stop.kind === 'step-limit') return 'budget';
  return stop.kind === 'syscall' || stop.kind === 'waiting' || stop.kind === 'signal' ? 'waits-for-system' : null;
}
