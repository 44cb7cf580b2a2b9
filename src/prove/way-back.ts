/**
 * The way back (PV-2), where a tracer took the return address. Both run on from the site through
 * the body of the function; what returns in the original comes back through the tracer in the
 * patched. Bodies that go elsewhere first are left, and both functions return at once.
 */
import type { Instruction } from '../isa/instruction.js';
import type { Address, RegisterName } from '../units.js';
import {
  BELOW_STACK,
  changedPages,
  type Difference,
  copiedWords,
  firstRegister,
  neverEnds,
  memory,
  openReason,
  type Outcome,
  type Pair,
  type RegisterDifference,
  type Phase,
  stopText,
  type Straight,
  type Trial,
} from './compare.js';
import { PAGE_BYTES } from './layout.js';
import { mix, Random } from './random.js';
import type { Begun } from './state.js';
import type { StateCall } from './state-writer.js';
import { ProofWorld } from './world.js';

type OwnFrames = Omit<StateCall, 'owner'>;

/** Instructions of a body that are executed. */
const BODY_INSTRUCTIONS = 1000;

const different = (difference: Difference, differing: readonly RegisterDifference[] = []): Outcome => ({
  kind: 'different',
  phase: 'return',
  difference,
  registers: differing,
});

const NO_RETURN: Difference = { what: 'event', name: 'return_to_handler', reason: 'does not have the return' };

/**
 * Goes on from the place behind the site, in both worlds, until the function is back.
 * @param handler  where the replaced return address leads
 * @param words    that hold it
 * @param own      the tracer's data on the way
 * Source: PV-2
 */
export function comeBack(
  pair: Pair,
  trial: Trial,
  begun: Begun,
  handler: Address,
  words: readonly Address[],
  own: OwnCheck = ofSite(pair, trial, begun, handler),
): Outcome {
  const { original, patched, abi } = pair;
  for (const world of [original, patched]) world.recorder?.turn();
  const link = abi.linkRegister;
  const inRegister = link !== null && patched.machine.register(link) === handler;
  if (!inRegister && words.length === 0) {
    return different(NO_RETURN);
  }
  // Callees may write there. A body that moves its stack has those words in the midst of it.
  const given = calleeWords(pair, original.machine.register(abi.stackPointer));
  let isTaken: Taken = (a, b) => a === begun.returnAddress && b === handler;
  const isMadeOf: Taken = (a, b) => {
    for (let at = 0n; at < 64n; at += 8n) {
      const [x, y] = [(a >> at) & 0xffn, (b >> at) & 0xffn];
      const isByte = x === ((begun.returnAddress >> at) & 0xffn) && y === ((handler >> at) & 0xffn);
      if (x !== y && !isByte) return false;
    }
    return a >> 64n === b >> 64n;
  };
  const hasBody = begun.isPlain && trial.body !== null && (trial.wanted?.replacement ?? null) === null;
  if (hasBody) {
    forgetDead(pair, isTaken);
    ProofWorld.sameTime([original, patched]);
  }
  if (hasBody && trial.isCalledAlike === true) {
    callAlike(pair, begun, words, isTaken);
    isTaken = (a, b) => a === handler && b === handler;
  }
  const end = hasBody ? runBody(pair, trial, begun, isTaken, isMadeOf) : 'elsewhere';
  if (typeof end !== 'string') return end;
  const stale = [...words, ...copiedWords(pair, begun, handler)];
  if (end === 'elsewhere') {
    const difference = hasBody ? memory(pair, trial, begun, [...stale, ...given]) : null;
    if (difference !== null) return different(difference);
    returnBoth(pair, begun, handler);
  }
  return throughHandler(pair, trial, begun, stale, isMadeOf, own);
}

/** What happens to the tracer's data while a function is on its way back. */
export interface OwnCheck {
  /** In front of the tracer's handler: a state of the data that is of that moment (PV-3). */
  begin(): void;
  /** Behind it. */
  wrong(): Difference | null;
}

/** @param last  who took the return last */
export const ofSite = (pair: Pair, trial: Trial, begun: Begun, last: Address): OwnCheck => ({
  begin: () => pair.data?.comeBack(pair.patched),
  wrong: () => ownData(pair, trial, begun, 'return', last),
});

/**
 * Whether a value is the return address in the original and the handler in the patched; or, as
 * `isMadeOf`, whether each byte in which two values differ is that byte of them.
 */
type Taken = (original: bigint, patched: bigint) => boolean;

/**
 * Gives what is dead behind the site the same contents in both: registers that were let pass there,
 * and the bytes below the stack pointer, which the body makes its frame of.
 */
function forgetDead({ original, patched, abi }: Pair, isTaken: Taken): void {
  for (const name of original.differingRegisters(patched)) {
    const [a, b] = [original.machine.register(name), patched.machine.register(name)];
    if (name !== 'pc' && !isTaken(a, b)) patched.machine.setRegister(name, a);
  }
  const stack = original.machine.register(abi.stackPointer);
  const lowest = stack - BELOW_STACK;
  for (const page of changedPages({ original, patched })) {
    if (page >= stack || page + BigInt(PAGE_BYTES) <= lowest || patched.layout.owns(page)) continue;
    const size = stack - page < BigInt(PAGE_BYTES) ? Number(stack - page) : PAGE_BYTES;
    patched.write(page, original.read(page, size));
  }
}

/**
 * The original gets the return address that the tracer gave the patched, wherever that has it, and
 * of the words that the ABI gives to callees those that only one of the two wrote: no body can need
 * one, and one that walks over its whole stack reads them.
 */
function callAlike(pair: Pair, begun: Begun, words: readonly Address[], isTaken: Taken): void {
  const { original, patched } = pair;
  for (const name of original.differingRegisters(patched)) {
    const [a, b] = [original.machine.register(name), patched.machine.register(name)];
    if (isTaken(a, b)) original.machine.setRegister(name, b);
  }
  const free = calleeWords(pair, begun.stackPointer);
  const isFree = (address: Address): boolean => isUntouched(original, address) || isUntouched(patched, address);
  for (const address of [...words, ...free.filter(isFree)]) original.writeWord(address, patched.word(address));
}

/** Words of a frame that the ABI gives to callees. */
const calleeWords = ({ proof }: Pair, stackPointer: bigint): Address[] =>
  proof.calleeWords.map((offset) => stackPointer + BigInt(offset));

function isUntouched(world: ProofWorld, address: Address): boolean {
  const skip = Number(address % BigInt(PAGE_BYTES));
  const { before, now } = world.page(address - BigInt(skip));
  const size = world.machine.lifter.addressBits / 8;
  return Buffer.compare(before.subarray(skip, skip + size), now.subarray(skip, skip + size)) === 0;
}

/** Runs the patched from the tracer's handler to the caller, where the original is already. */
function throughHandler(
  pair: Pair,
  trial: Trial,
  begun: Begun,
  stale: readonly Address[],
  isMadeOf: Taken,
  own: OwnCheck,
): Outcome {
  const { patched } = pair;
  own.begin();
  const stop = patched.run(pair.budget);
  const isBack = stop.kind === 'fault' && stop.access === 'execute' && stop.address === begun.returnAddress;
  if (!isBack) {
    const why = stop.kind === 'step-limit' ? neverEnds(pair, begun.returnAddress) : null;
    if (why !== null) return different({ what: 'stop', original: 'the caller', patched: why });
    const reason = openReason(stop);
    if (reason !== null) return { kind: 'open', reason, detail: stopText(stop), doubt: true };
    return different({ what: 'stop', original: 'the caller', patched: stopText(stop) });
  }
  const differing = returnedRegisters(pair, isMadeOf);
  const difference = firstRegister(differing) ?? own.wrong() ?? memory(pair, trial, begun, stale);
  return difference === null ? { kind: 'equal' } : different(difference, differing);
}

/**
 * Registers as the caller finds them: all but those that calls may change, results included. A
 * function that read its own return address has found the handler's in the patched.
 */
function returnedRegisters({ original, patched, abi, proof }: Pair, isMadeOf: Taken): RegisterDifference[] {
  const found: RegisterDifference[] = [];
  for (const name of original.differingRegisters(patched)) {
    if (name === abi.linkRegister || name === 'pc') continue;
    if (proof.volatile.includes(name) && !proof.results.includes(name)) continue;
    const [a, b] = [original.machine.register(name), patched.machine.register(name)];
    if (isMadeOf(a, b)) continue;
    const mask = proof.results.includes(name) ? undefined : proof.compared[name];
    if (mask !== undefined && ((a ^ b) & mask) === 0n) continue;
    found.push({ name, original: a, patched: b });
  }
  return found;
}

/** What tells the call of a function from others on stacks of calls under way. */
export function callOf(
  { patched, abi, frames }: Pair,
  { ordinaryCall, trap, handled, ip, wanted }: Trial,
  begun: Begun,
): OwnFrames {
  const { stackPointer, registers } = begun;
  const stack = stackPointer + (abi.linkRegister === null ? BigInt(patched.machine.lifter.addressBits / 8) : 0n);
  // An entry behind a prologue that makes a frame record knows the caller's record, not its stack.
  const record = ordinaryCall && frames.kind === 'frame-record' ? registers.get(frames.register) : undefined;
  return { frame: record ?? stack, stack, event: trap?.event ?? 0n, probe: handled, ip, wanted };
}

/**
 * Where records of callbacks may say that a function returns to, and those of the graph tracer.
 * @param told  that, and what is at the top of its stack
 */
function callersOf(
  { callerBy, wanted }: Trial,
  returnAddress: Address,
  told: readonly Address[],
): { readonly parents: readonly Address[]; readonly found: readonly Address[] } {
  const own = [returnAddress];
  if (callerBy === null) return { parents: told, found: told };
  const frame = wanted?.frame ?? null;
  const hasFrame = frame !== null && (frame.full || frame.row.plain !== null);
  return { parents: callerBy === 'frame' || hasFrame ? own : told, found: own };
}

/**
 * What the tracer must have written down, and did not.
 * @param last  where the function returns to now: the last that took the return; null: its caller
 */
export function ownData(
  pair: Pair,
  trial: Trial,
  begun: Begun,
  phase: Phase,
  last: Address | null,
  top: Address | null = null,
): Difference | null {
  const { patched, data } = pair;
  if (data === null) return null;
  const { returnAddress } = begun;
  const { trap, handler, wanted } = trial;
  const told = top === null || top === returnAddress ? [returnAddress] : [returnAddress, top];
  const { parents, found } = callersOf(trial, returnAddress, told);
  const isLast = trap !== null && last === trap.address;
  const between = wanted?.hijack === true && wanted.trap && trap !== null ? (isLast ? handler : trap.address) : null;
  // Where the graph tracer asks and takes nothing, nothing says whether a return probe came first.
  const asked = trap === null || wanted?.hijack === true ? found : [...found, trap.address];
  const call = {
    ...{ ip: trial.ip, parents, frame: callOf(pair, trial, begun).frame },
    graphParents: between === null || isLast ? asked : [between],
    probed:
      trap === null ? null : { parents: between !== null && isLast ? [between] : told, trap: trap.address, isLast },
  };
  const reason = data.wrong(patched, wanted, call, phase);
  return reason === null ? null : { what: 'event', name: 'data of the tracer', reason };
}

/**
 * Both functions return in the same state: the registers that belong to the caller as they were at
 * the entry, results random, all others whatever they are.
 */
function returnBoth({ original, patched, abi }: Pair, begun: Begun, handler: Address): void {
  const link = abi.linkRegister;
  for (const { machine } of [original, patched]) {
    for (const name of machine.registerNames) {
      if (name !== 'pc' && name !== link) machine.setRegister(name, begun.registers.get(name));
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
}

/** Calls leave the body; what a body calls in itself, to learn where it is, does not. */
function callsOut({ flow, address, sizeBytes }: Instruction, trial: Trial): boolean {
  if (flow.kind === 'indirect-call') return true;
  if (flow.kind !== 'call') return false;
  const { start, end } = trial.body!;
  const { target } = flow;
  return target !== address + BigInt(sizeBytes) && (target <= trial.start || target < start || target >= end);
}

/**
 * Instructions of a body that are executed one after the other, as the emulator knows them: up to
 * one that may go elsewhere, or to the call in front of which they end. A call that leaves the body
 * is alone.
 */
function straightOn({ original, program }: Pair, trial: Trial, from: Address): Straight {
  const { lifter } = original.machine;
  const code = original.read(from, STRAIGHT_BYTES);
  const lifted = lifter.lift(code, from, { maxInstructions: STRAIGHT_INSTRUCTIONS, startsAt: () => false });
  // Behind a last call that does not return stands another function.
  const instructions = lifted.instructions.filter((at) => at < trial.body!.end);
  const last = instructions.at(-1) ?? from;
  const instruction = program.arch.isa.decode(code, Number(last - from), last);
  const leaves = callsOut(instruction, trial);
  if (leaves && last !== from) return { count: instructions.length - 1, leaves: false, size: Number(last - from) };
  return { count: Math.max(1, instructions.length), leaves, size: Number(last - from) + instruction.sizeBytes };
}

/** Instructions of a body that are executed at once, and more bytes than they have. */
const STRAIGHT_INSTRUCTIONS = 32;
const STRAIGHT_BYTES = 1024;

/**
 * Runs both through the body, from one branch to the next: the same instructions in the same order.
 * @returns 'returned': the original is at the return address, the patched at the handler;
 *   'elsewhere': both are in the same state at another place, or in front of an access that the
 *   original's watch ends; or what is wrong
 */
function runBody(
  pair: Pair,
  trial: Trial,
  begun: Begun,
  isTaken: Taken,
  isMadeOf: Taken,
): Outcome | 'returned' | 'elsewhere' {
  const { original, patched } = pair;
  const { start, end } = trial.body!;
  for (let n = 0; n < BODY_INSTRUCTIONS;) {
    const [at, other] = [original.machine.register('pc'), patched.machine.register('pc')];
    if (isTaken(at, other)) return 'returned';
    if (at !== other) return different({ what: 'register', name: 'pc', original: at, patched: other });
    // Past the tracer, which would keep the call for ever.
    if (at === begun.returnAddress) return different(NO_RETURN);
    if (at < start || at >= end) break;
    let step = trial.steps.get(at);
    if (step === undefined) trial.steps.set(at, (step = straightOn(pair, trial, at)));
    if (step.leaves) {
      // A stub that stores where nothing is stops there.
      if (![original, patched].every((world) => mayCall(world, pair))) break;
      n++;
      for (const world of [original, patched]) {
        world.recorder?.step(world);
        replaceCallee(world, pair, begun, at + BigInt(step.size));
      }
      continue;
    }
    const count = Math.min(step.count, BODY_INSTRUCTIONS - n);
    n += count;
    const before = original.machine.instructions;
    const a = original.run(count);
    const isEnded = a.kind === 'hook' && a.watch !== undefined;
    const b = patched.run(isEnded ? original.machine.instructions - before : count);
    if (isEnded && b.kind === 'step-limit') break;
    if (a.kind === 'step-limit' && b.kind === 'step-limit') continue;
    if (isTaken(original.machine.register('pc'), patched.machine.register('pc'))) return 'returned';
    const isSamePlace = original.machine.register('pc') === patched.machine.register('pc');
    if (isSamePlace && original.machine.register('pc') === begun.returnAddress) return different(NO_RETURN);
    if (stopText(a) === stopText(b) && isSamePlace) break;
    const reason = openReason(b);
    if (reason !== null && reason !== 'budget')
      return { kind: 'open', reason, detail: stopText(b), doubt: a.kind === 'step-limit' };
    return different({ what: 'stop', original: stopText(a), patched: stopText(b) });
  }
  const differing = bodyRegisters(pair, isMadeOf);
  const difference = firstRegister(differing);
  return difference === null ? 'elsewhere' : different(difference, differing);
}

/** Registers in the middle of a body. */
function bodyRegisters({ original, patched }: Pair, isMadeOf: Taken): RegisterDifference[] {
  const found: RegisterDifference[] = [];
  for (const name of original.differingRegisters(patched)) {
    const [a, b] = [original.machine.register(name), patched.machine.register(name)];
    if (name === 'pc' || !isMadeOf(a, b)) found.push({ name, original: a, patched: b });
  }
  return found;
}

/** Where the stub of a call to another module saves the table of contents; null: it saves none. */
function tocPlace({ machine }: ProofWorld, { abi, proof }: Pair): Address | null {
  if (proof.toc === null || proof.tocSlot === null) return null;
  return machine.register(abi.stackPointer) + BigInt(proof.tocSlot);
}

/** Whether a stub can store what it saves: a body may have made its stack pointer of anything. */
function mayCall(world: ProofWorld, pair: Pair): boolean {
  const place = tocPlace(world, pair);
  return place === null || world.readable(place, world.machine.lifter.addressBits / 8) !== null;
}

/**
 * A callee that changes whatever the ABI lets it, to values that follow from the trial and the
 * place, and comes back.
 */
function replaceCallee(world: ProofWorld, pair: Pair, begun: Begun, next: Address): void {
  const { machine } = world;
  const { abi, proof } = pair;
  const random = new Random(mix(Number(begun.returnAddress & 0xffff_ffffn), Number(next & 0xffff_ffffn)));
  const changed: RegisterName[] = [...new Set([...proof.volatile, ...proof.results])];
  for (const [name, mask] of Object.entries(proof.compared)) if (mask === 0n) changed.push(name);
  for (const name of changed) {
    const value = random.double();
    const width = machine.lifter.registers.find((each) => each.name === name)?.widthBits ?? 64;
    machine.setRegister(name, width === 128 ? (value << 64n) | value : BigInt.asUintN(width, value));
  }
  if (abi.linkRegister !== null) machine.setRegister(abi.linkRegister, next);
  machine.setRegister('pc', next);
  // A stub to another module saves it, and the word behind the call brings it back.
  const place = tocPlace(world, pair);
  if (place !== null) world.writeWord(place, machine.register(proof.toc!));
}
