/**
 * Functions called from outside: arguments placed by the ABI, a return address that nothing is
 * mapped at, the result read from its register. And the way back from a stop: return addresses on
 * the stack.
 */
import type { Abi } from '../machine/abi.js';
import { ElftraceError } from '../errors.js';
import type { Machine } from '../emulator/machine.js';
import type { StopReason } from '../emulator/stops.js';
import type { IrEmulation } from '../machine/emulation.js';
import { readWord } from './load.js';
import type { Process } from './process.js';
import type { Address, RegisterName } from '../units.js';

export interface CallOptions {
  readonly abi: Pick<Abi, 'stackPointer' | 'linkRegister' | 'argumentRegisters' | 'resultRegister'>;
  readonly emulation: IrEmulation;
  /**
   * The function: its code, or (`descriptor`) where its descriptor lies. Addresses of the running
   * image, bias included.
   */
  readonly target: { readonly kind: 'code' | 'descriptor'; readonly address: Address };
  /**
   * Integers, taken modulo the word, and strings, of which the address of a copy on the stack is
   * passed.
   */
  readonly args: readonly (bigint | string)[];
  /** Registers to set first: TOC pointer, small data anchors. */
  readonly registers?: ReadonlyMap<RegisterName, bigint>;
}

/** A call that returned has a result, unsigned; one that did not has the reason. */
export type CallOutcome =
  { readonly kind: 'returned'; readonly result: bigint } | { readonly kind: 'stopped'; readonly stop: StopReason };

/**
 * Room above the stack pointer of a call: back chain, link word and parameter save area of every
 * ABI that is served.
 */
const CALLER_FRAME_BYTES = 128n;

/**
 * Where called functions return to. Nothing is mapped there, so arriving is a fault that nothing
 * else causes.
 */
export function returnAddress(machine: Machine): Address {
  return (1n << BigInt(machine.lifter.addressBits)) - 0x1000n;
}

/**
 * Calls a function. `run` runs the machine (in slices, with a budget, as the caller likes) until it
 * stops.
 * @throws ElftraceError 'usage' when arguments do not fit the registers, 'bad-reference' when a
 *   descriptor is not mapped
 */
export function callFunction(process: Process, options: CallOptions, run: () => StopReason): CallOutcome {
  return beginCall(process, options)(run());
}

/**
 * As `callFunction`, for callers that run the machine themselves.
 * @returns what says how the call ended, given why the machine stopped
 */
export function beginCall(process: Process, options: CallOptions): (stop: StopReason) => CallOutcome {
  const { machine } = process;
  const { abi, emulation, args } = options;
  const wordBytes = machine.lifter.addressBits === 64 ? 8 : 4;
  if (args.length > abi.argumentRegisters.length) {
    throw new ElftraceError('usage', `at most ${abi.argumentRegisters.length} arguments can be passed in registers`, {
      max: abi.argumentRegisters.length,
    });
  }
  let sp = machine.register(abi.stackPointer);
  const values = args.map((each) => {
    if (typeof each === 'bigint') return BigInt.asUintN(8 * wordBytes, each);
    const bytes = new TextEncoder().encode(`${each}\0`);
    sp -= BigInt(bytes.length);
    if (!machine.memory.write(sp, bytes)) throw new ElftraceError('usage', 'string arguments do not fit the stack');
    return sp;
  });
  // Freshly mapped and zero: the caller's frame ends the back chain.
  sp = (sp - CALLER_FRAME_BYTES) & -16n;
  machine.memory.write(sp, new Uint8Array(Number(CALLER_FRAME_BYTES)));
  const back = returnAddress(machine);
  if (abi.linkRegister === null) {
    sp -= BigInt(wordBytes);
    const word = Uint8Array.from({ length: wordBytes }, (_, i) => Number((back >> BigInt(8 * i)) & 0xffn));
    machine.memory.write(sp, machine.lifter.endian === 'little' ? word : word.reverse());
  } else machine.setRegister(abi.linkRegister, back);
  machine.setRegister(abi.stackPointer, sp);
  for (const [name, value] of options.registers ?? []) machine.setRegister(name, value);
  const { entry } = emulation.process;
  const { kind, address } = options.target;
  let code = address;
  if (kind === 'descriptor') {
    if (entry.kind !== 'descriptor') throw new ElftraceError('internal', 'the target has no descriptors');
    const first = readWord(machine, address, wordBytes);
    const toc = readWord(machine, address + BigInt(wordBytes), wordBytes);
    if (first === null || toc === null) {
      throw new ElftraceError('bad-reference', 'the descriptor of the function is not mapped', { address });
    }
    code = first;
    machine.setRegister(entry.toc, toc);
  } else if (entry.kind === 'code' && entry.register !== null) machine.setRegister(entry.register, code);
  machine.setRegister('pc', code);
  values.forEach((value, i) => {
    machine.setRegister(abi.argumentRegisters[i]!, value);
  });
  return (stop) => {
    const returned = stop.kind === 'fault' && stop.access === 'execute' && stop.instruction === back;
    return returned ? { kind: 'returned', result: machine.register(abi.resultRegister) } : { kind: 'stopped', stop };
  };
}

/** A return address is looked for in so many words above the last one. */
const SCAN_WORDS = 2048;
const LONGEST_CALL = 7;

/** Return addresses by what stands on the stack; see `ProcessModel.frames`. */
function scanStack(
  machine: Machine,
  stackPointer: string,
  callBefore: (before: Uint8Array, address: Address) => Address | 'indirect' | null,
  functionOf: (address: Address) => number,
): Address[] {
  const wordBytes = machine.lifter.addressBits === 64 ? 8 : 4;
  const found: Address[] = [];
  let inner = functionOf(machine.pc);
  let from = machine.register(stackPointer);
  while (found.length < FRAMES_MAX) {
    let next: Address | null = null;
    // The first call that leads here; else, because of tail calls, the first call at all.
    let any: Address | null = null;
    let back = 0n;
    for (let i = 0; i < SCAN_WORDS && next === null; i++) {
      const place = from + BigInt(i * wordBytes);
      const word = readWord(machine, place, wordBytes);
      if (word === null) break;
      if (functionOf(word) === -1) continue;
      let before: Uint8Array | null = null;
      for (let size = LONGEST_CALL; size > 1; size--) before ??= machine.memory.read(word - BigInt(size), size);
      const target = before && callBefore(before, word);
      if (target === null) continue;
      if (target === 'indirect' || functionOf(target) === inner) {
        next = place;
        back = word;
      } else any ??= place;
    }
    if (next === null && any !== null) {
      next = any;
      back = readWord(machine, any, wordBytes)!;
    }
    if (next === null) break;
    found.push(back);
    inner = functionOf(back);
    from = next + BigInt(wordBytes);
  }
  return found;
}

/**
 * Return addresses by the rules that code gives. `startOf` names the entry of the function that
 * holds an address, or null.
 */
function unwind(
  machine: Machine,
  { abi, emulation }: Pick<CallOptions, 'abi' | 'emulation'>,
  startOf: (address: Address) => Address | null,
): Address[] {
  const { frames } = emulation.process;
  if (frames.kind !== 'code') return [];
  const wordBytes = machine.lifter.addressBits === 64 ? 8 : 4;
  const word = (address: bigint): bigint | null => readWord(machine, address, wordBytes);
  const found: Address[] = [];
  let place = machine.pc;
  let stack = machine.register(abi.stackPointer);
  let frame = machine.register(frames.framePointer);
  while (found.length < FRAMES_MAX) {
    // A return address may lie behind the last instruction of its function.
    const start = startOf(found.length === 0 ? place : place - 1n);
    const code = start === null ? null : machine.memory.read(start, Number(place - start));
    const rule = code && frames.rule(code);
    const link = abi.linkRegister !== null && found.length === 0 ? machine.register(abi.linkRegister) : null;
    // Outside all functions only the link register says something.
    const cfa = rule ? (rule.cfa.register === 'stack' ? stack : frame) + BigInt(rule.cfa.offset) : stack;
    const back = rule && rule.link !== null ? word(cfa + BigInt(rule.link)) : link;
    if (back === null || back === 0n || machine.memory.check(back, 1, 'execute') !== null) break;
    found.push(back);
    if (!rule || cfa < stack) break;
    if (rule.framePointer !== null) frame = word(cfa + BigInt(rule.framePointer)) ?? 0n;
    stack = cfa;
    place = back;
  }
  return found;
}

/** More frames than these are left out. */
const FRAMES_MAX = 64;

/**
 * Return addresses of the running CPU, the innermost first; the pc is not among them. The link
 * register counts where it leads out of the function that is running: a function that has not saved
 * it yet, or never will. `functionOf` tells functions apart (any number; -1 for none), `startOf`
 * finds their entries: needed where the code must say what frames look like.
 */
export function backtrace(
  machine: Machine,
  options: Pick<CallOptions, 'abi' | 'emulation'>,
  functionOf: (address: Address) => number,
  startOf: (address: Address) => Address | null = () => null,
): Address[] {
  const { frames } = options.emulation.process;
  if (frames.kind === 'none') return [];
  if (frames.kind === 'scan') return scanStack(machine, options.abi.stackPointer, frames.callBefore, functionOf);
  if (frames.kind === 'code') return unwind(machine, options, startOf);
  const { abi } = options;
  const wordBytes = machine.lifter.addressBits === 64 ? 8 : 4;
  const found: Address[] = [];
  if (frames.kind === 'frame-record') {
    let record = machine.register(frames.register);
    while (record !== 0n && found.length < FRAMES_MAX) {
      const next = readWord(machine, record, wordBytes);
      const back = readWord(machine, record + BigInt(wordBytes), wordBytes);
      if (next === null || back === null || back === 0n) break;
      found.push(back);
      if (next <= record) break;
      record = next;
    }
  }
  let frame = machine.register(abi.stackPointer);
  while (frames.kind === 'back-chain' && found.length < FRAMES_MAX) {
    const next = readWord(machine, frame, wordBytes);
    if (next === null || next <= frame) break;
    const back = readWord(machine, next + BigInt(frames.linkOffset), wordBytes);
    // The innermost function may not have written its link word yet, or never will.
    if (back === null || (back === 0n && found.length > 0)) break;
    found.push(back);
    frame = next;
  }
  if (abi.linkRegister !== null) {
    const link = machine.register(abi.linkRegister);
    const home = functionOf(link);
    if (home !== -1 && home !== functionOf(machine.pc) && link !== found[0]) {
      // A leaf with a frame of its own has not written its link word: what stands there is nothing,
      // or of an earlier callee.
      if (found.length > 0 && (found[0] === 0n || functionOf(found[0]!) === home)) found[0] = link;
      else found.unshift(link);
    }
  }
  if (found[0] === 0n) found.shift();
  return found;
}
