/**
 * States in which trials begin (PV-1, 1): every register random or special, the stack somewhere in
 * its page, the return address a place without an owner.
 */
import type { IrEmulation } from '../machine/emulation.js';
import type { RegisterView } from '../machine/ir.js';
import type { ProofModel } from '../machine/proof.js';
import { entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import type { Address, RegisterName } from '../units.js';
import { PAGE_BYTES } from './layout.js';
import { following, mix, Random } from './random.js';
import type { TracerState } from './tracer-states.js';
import type { ProofWorld, Registers } from './world.js';

export interface Entry {
  /** Where the trial begins. */
  readonly address: Address;
  /** The function's global entry, where its address is in a register; null at a local entry. */
  readonly global: Address | null;
}

/** What a trial began with, for what is compared behind it. */
export interface Begun {
  /** Address of the first instruction. */
  readonly entry: Address;
  readonly stackPointer: bigint;
  readonly returnAddress: Address;
  readonly registers: Registers;
  /** No register had an address of the image, through which a body reads code that was patched. */
  readonly isPlain: boolean;
  /** State of the tracer's data that the trial begins with; null: what a call before it left. */
  readonly tracer: TracerState | null;
}

/** Addresses without an owner, for stacks and return addresses: words of 64 bits, of 32. */
const FREE = {
  64: { stack: 0x5e5e_0000_0000n, back: 0x6d6d_0000_0000n },
  32: { stack: 0x5e5e_0000n, back: 0x6d6d_0000n },
};

/** Of such return addresses the lower half, where the upper one is the image's. */
const NEAR_BACK = 0x6d6d_0000n;
const LOW_HALF = 0xffff_ffffn;

/**
 * Where a thread pointer leads that would be a special number: to a block of its own, as the ABI
 * says. What a body stores through another register of the same number is none of it.
 */
const THREAD_BLOCK = 0x7c7c_0000_0000n;
const isSpecial = (value: bigint): boolean => BigInt.asUintN(63, value + 0x1000n) < 0x2000n;

/** Whether a stack pointer is one that the ABI lets a function be called with. */
export const isAligned = (stackPointer: bigint, { stackAlign, stackSkew }: ProofModel): boolean =>
  (stackPointer + stackSkew) % stackAlign === 0n;

/** From the stack pointer to a place of the same stack that no call comes to. */
const BELOW_STACK = 0x4_0000n;

/** Pages that stacks begin in: few, since each stays mapped. */
const STACKS = 8;

/** A value of a register that is put together. */
function value(random: Random, { widthBits }: RegisterView): bigint {
  const all = (1n << BigInt(widthBits)) - 1n;
  switch (random.below(KINDS)) {
    case 0:
      return 0n;
    case 1:
      return all;
    case 2:
      return 1n << BigInt(widthBits - 1);
    default: {
      const low = random.double();
      return widthBits === 128 ? (random.double() << 64n) | low : low & all;
    }
  }
}

/** Registers that are nothing but words of the state. */
interface Placed {
  /** Positions of all their words that may have any value. */
  readonly words: Int32Array;
  /** Those of one register after the other, low first, and where each begins; then the end. */
  readonly own: Int32Array;
  readonly from: Int32Array;
}

/**
 * Random values and special ones, written to the places of registers in the state: most of a state
 * is set up so. The numbers are drawn here, not by `random`: there are hundreds in each state.
 */
function place(random: Random, state: Uint32Array, placed: Placed, addresses: BigUint64Array): void {
  const { words, own, from } = placed;
  let drawn = random.state;
  for (let i = 0; i < words.length; i++) {
    drawn = following(drawn);
    state[words[i]!] = drawn;
  }
  const halves = new Uint32Array(addresses.buffer, addresses.byteOffset, 2 * addresses.length);
  let [kinds, left] = [0, 0];
  for (let i = 0; i < from.length - 1; i++, kinds >>>= KIND_BITS, left--) {
    if (left === 0) {
      kinds = drawn = following(drawn);
      left = KINDS_DRAWN;
    }
    const kind = kinds & (KINDS - 1);
    if (kind > 3) continue;
    const [begin, end] = [from[i]!, from[i + 1]!];
    for (let k = begin; k < end; k++) state[own[k]!] = kind === 1 ? -1 : 0;
    if (kind === 2) state[own[end - 1]!] = SIGN;
    if (kind !== 3) continue;
    drawn = following(drawn);
    const at = 2 * ((drawn >>> 0) % Math.max(1, addresses.length));
    state[own[begin]!] = addresses.length > 0 ? halves[at]! : 1;
    if (addresses.length > 0 && end > begin + 1) state[own[begin + 1]!] = halves[at + 1]!;
  }
  random.state = drawn;
}

/** Kinds of values: four are special, in the others every bit is random. */
const KINDS = 8;
const KIND_BITS = 3;
/** Kinds that one word says. */
const KINDS_DRAWN = 10;
const SIGN = 0x8000_0000;

/**
 * Registers that are put together from words, or of which only some bits may have any value: sets
 * of values of all of them, as what they make of the state of a processor as it starts.
 */
interface Composed {
  /** Positions in the state. */
  readonly at: Int32Array;
  /** What stands there, for each set. */
  readonly sets: readonly Uint32Array[];
}

/** Sets of values: more than there are states of most flags. */
const SETS = 256;

/** What is the same in all states of an image. */
interface Constants {
  readonly placed: Placed;
  readonly composed: Composed;
  /** Registers that hold the address of a symbol, or of a block of the kernel, everywhere. */
  readonly anchors: readonly (readonly [RegisterName, Address])[];
  /** It is a kernel with entries of its own. */
  readonly isKernel: boolean;
}

const constants = new WeakMap<Program, Constants>();

/** Sets of values of registers. The world is as it was made, and is left so. */
function compose(world: ProofWorld, views: readonly RegisterView[], { random }: ProofModel): Composed {
  const { machine } = world;
  const fresh = machine.stateWords.slice();
  const numbers = new Random(mix(views.length));
  const all = Array.from({ length: views.length === 0 ? 1 : SETS }, () => {
    for (const view of views) {
      const mask = random[view.name] ?? null;
      const wanted = value(numbers, view);
      machine.setRegister(view.name, mask === null ? wanted : (wanted & mask) | (machine.register(view.name) & ~mask));
    }
    const state = machine.stateWords.slice();
    world.refresh();
    return state;
  });
  const at = [...fresh.keys()].filter((i) => all.some((each) => each[i] !== fresh[i]));
  return { at: Int32Array.from(at), sets: all.map((each) => Uint32Array.from(at, (i) => each[i]!)) };
}

/** The world is as it was made. */
function constantsOf(program: Program, world: ProofWorld, { proof, process: { anchors } }: IrEmulation): Constants {
  let found = constants.get(program);
  if (found === undefined) {
    const { machine } = world;
    const placed: (readonly [RegisterName, Address])[] = [...anchors].flatMap(([register, symbol]) => {
      const address = program.definedAt(program.symbols.find(symbol));
      return address === null ? [] : [[register, address] as const];
    });
    // What kernel code finds through a register is where the image has it (P-STUB-5).
    placed.push(...Object.entries(program.loadMap?.registers ?? {}));
    const registers: number[][] = [];
    const views: RegisterView[] = [];
    for (const view of machine.lifter.registers) {
      // Those keep what a processor starts with.
      if (proof.fixed.includes(view.name)) continue;
      const places = proof.random[view.name] === undefined ? machine.statePlaces(view.name) : null;
      if (places === null) views.push(view);
      // Of a register of 32 bits the other half is zero.
      else registers.push(places.flatMap((at) => (view.widthBits === 32 ? [at] : [at, at + 1])));
    }
    const own = Int32Array.from(registers.flat());
    const from = Int32Array.from({ length: registers.length + 1 }, (_, i) => registers.slice(0, i).flat().length);
    const composed = compose(world, views, proof);
    const isKernel = program.loadMap === null && entryPoint(program, 'ftrace_caller') !== null;
    found = { placed: { words: Int32Array.from(new Set(own)), own, from }, composed, anchors: placed, isKernel };
    constants.set(program, found);
  }
  return found;
}

/**
 * Pointers that a function is handed lead to the last bytes of pages, behind which another page is
 * mapped or not.
 */
function leadToEdges({ machine }: ProofWorld, names: readonly RegisterName[], random: Random): void {
  for (const name of names) {
    if (random.below(4) === 0) continue;
    const left = 1 + random.below(random.below(2) === 0 ? 16 : 96);
    machine.setRegister(name, (machine.register(name) | BigInt(PAGE_BYTES - 1)) + 1n - BigInt(left));
  }
}

/** Registers of a thread or a processor lead to memory. */
function leadToBlocks({ machine }: ProofWorld, names: readonly RegisterName[]): void {
  for (const [i, name] of names.entries()) {
    if (isSpecial(machine.register(name))) machine.setRegister(name, THREAD_BLOCK + BigInt(i * PAGE_BYTES));
  }
}

/**
 * Brings two worlds into the first state of a trial.
 * @param addresses  of the image, some of which registers hold
 * @param before     a call of the same thread that is over: stack and thread are its
 * @param tracer     state of the tracer's data, for who knows what a site wants of it
 * @param back       the return address; null: a place without an owner
 */
export function begin(
  [world, other]: readonly [ProofWorld, ProofWorld],
  program: Program,
  emulation: IrEmulation,
  entry: Entry,
  random: Random,
  addresses: BigUint64Array,
  before: Begun | null = null,
  tracer: TracerState | null = null,
  back: Address | null = null,
): Begun {
  const { machine, layout } = world;
  const { abi } = program.arch;
  const { proof } = emulation;
  world.refresh();
  const { placed, composed, anchors, isKernel } = constantsOf(program, world, emulation);
  const words = machine.stateWords;
  const set = composed.sets[random.below(composed.sets.length)]!;
  for (let i = 0; i < set.length; i++) words[composed.at[i]!] = set[i]!;
  place(random, words, placed, addresses);
  for (const [register, address] of anchors) machine.setRegister(register, address);
  const free = FREE[machine.lifter.addressBits];
  let page = free.stack + BigInt(random.below(STACKS)) * BigInt(PAGE_BYTES);
  while (layout.owns(page)) page += BigInt(PAGE_BYTES);
  // PV-3: the first and the last bytes of a page, and any other.
  const slots = PAGE_BYTES / Number(proof.stackAlign);
  const slot = [0, slots - 1, random.below(slots)][random.below(3)]!;
  const stackPointer = before?.stackPointer ?? page + BigInt(slot) * proof.stackAlign - proof.stackSkew;
  const thread = emulation.process.threads.pointer;
  if (before !== null) machine.setRegister(thread, before.registers.get(thread));
  // Entries of a kernel's own read the block of the processor.
  const isRead = isKernel && tracer === null && before === null;
  leadToBlocks(world, [...Object.values(proof.threadKey?.at ?? {}), ...(isRead ? [thread] : [])]);
  if (tracer === 'unmapped') leadToEdges(world, abi.argumentRegisters, random);
  machine.setRegister(abi.stackPointer, stackPointer);
  // What tells a thread from others is a number, and may be near the stack.
  const isAnchored = anchors.some(([register]) => register === thread);
  if (tracer === 'gone' && !isAnchored)
    machine.setRegister(thread, stackPointer - BELOW_STACK - BigInt(random.below(PAGE_BYTES)));
  const drawn = random.below(0x10000);
  // Records have room for the lower half of an address that is near the image; the upper one of
  // another may differ in a single bit.
  const isNear = machine.lifter.addressBits === 64 && drawn % 8 !== 0;
  const upper = (entry.address & ~LOW_HALF) ^ (drawn % 8 === 4 ? LOW_HALF + 1n : 0n);
  let returnAddress = (isNear ? upper + NEAR_BACK : free.back) + BigInt(drawn) * 16n;
  while (layout.owns(returnAddress)) returnAddress += BigInt(PAGE_BYTES);
  returnAddress = back ?? returnAddress;
  if (abi.linkRegister === null) for (const each of [world, other]) each.writeWord(stackPointer, returnAddress);
  else machine.setRegister(abi.linkRegister, returnAddress);
  const toc = proof.toc === null ? null : program.tocAt(entry.address);
  if (toc !== null) machine.setRegister(proof.toc!, toc);
  if (proof.entryAddress !== null && entry.global !== null) machine.setRegister(proof.entryAddress, entry.global);
  machine.setRegister('pc', entry.address);
  other.takeCpu(world);
  return {
    entry: entry.address,
    stackPointer,
    returnAddress,
    registers: world.registers(),
    isPlain: addresses.length === 0,
    tracer,
  };
}
