/**
 * States in which trials begin (PV-1, 1): every register random or special, the stack somewhere in
 * its page, the return address a place without an owner.
 */
import type { IrEmulation } from '../machine/emulation.js';
import type { RegisterView } from '../machine/ir.js';
import type { Program } from '../program/program.js';
import type { Address, RegisterName } from '../units.js';
import { PAGE_BYTES } from './layout.js';
import { following, type Random } from './random.js';
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

/** Pages that stacks begin in: few, since each stays mapped. */
const STACKS = 8;

function value(random: Random, { widthBits }: RegisterView, addresses: readonly Address[]): bigint {
  const all = (1n << BigInt(widthBits)) - 1n;
  switch (random.below(KINDS)) {
    case 0:
      return 0n;
    case 1:
      return all;
    case 2:
      return 1n << BigInt(widthBits - 1);
    case 3:
      return addresses.length > 0 ? addresses[random.below(addresses.length)]! & all : 1n;
    default: {
      const low = random.double();
      return widthBits === 128 ? (random.double() << 64n) | low : low & all;
    }
  }
}

/** Kinds of values: four are special, in the others every bit is random. */
const KINDS = 8;

/**
 * The same values, written to the places of registers in the state: most of a state is set up so.
 * The numbers are drawn here, not by `random`: there are hundreds in each state.
 */
function place(random: Random, words: Uint32Array, registers: readonly Placed[], addresses: readonly Address[]): void {
  let { state } = random;
  for (const { widthBits, places } of registers) {
    state = following(state);
    const kind = (state >>> 0) % KINDS;
    let low = kind === 1 ? ONES : kind === 3 ? 1 : 0;
    let high = kind === 1 ? ONES : 0;
    if (kind === 3 && addresses.length > 0) {
      state = following(state);
      const address = addresses[(state >>> 0) % addresses.length]!;
      low = Number(address & 0xffff_ffffn);
      high = Number(address >> 32n);
    }
    for (let i = 0; i < places.length; i++) {
      const at = places[i]!;
      if (kind > 3) {
        high = state = following(state);
        low = state = following(state);
      } else if (kind === 2) {
        low = widthBits === 32 ? SIGN : 0;
        high = widthBits !== 32 && i === places.length - 1 ? SIGN : 0;
      } else if (kind === 3 && i > 0) low = high = 0;
      words[at] = low;
      words[at + 1] = widthBits === 32 ? 0 : high;
    }
  }
  random.state = state;
}

const ONES = 0xffff_ffff;
const SIGN = 0x8000_0000;

/** A register that is nothing but words of the state. */
interface Placed {
  readonly widthBits: number;
  readonly places: readonly number[];
}

/** How a register gets its value that is put together, or of which only some bits may have any. */
interface StateRegister {
  readonly view: RegisterView;
  /** It keeps what a processor starts with. */
  readonly isFixed: boolean;
  /** Bits that may have any value, and those that all others have; null: all may. */
  readonly mask: bigint | null;
  readonly rest: bigint;
}

/** What is the same in all states of an image. */
interface Constants {
  /** Registers in order. */
  readonly registers: readonly (StateRegister | readonly Placed[])[];
  /** Registers that hold the address of a symbol everywhere. */
  readonly anchors: readonly (readonly [RegisterName, Address])[];
}

const constants = new WeakMap<Program, Constants>();

/** The world is as it was made. */
function constantsOf(
  program: Program,
  { machine }: ProofWorld,
  { proof, process: { anchors } }: IrEmulation,
): Constants {
  let found = constants.get(program);
  if (found === undefined) {
    const placed = [...anchors].flatMap(([register, symbol]) => {
      const address = program.definedAt(program.symbols.find(symbol));
      return address === null ? [] : [[register, address] as const];
    });
    const registers: (StateRegister | Placed[])[] = [];
    for (const view of machine.lifter.registers) {
      const isFixed = proof.fixed.includes(view.name);
      const mask = proof.random[view.name] ?? null;
      const places = isFixed || mask !== null ? null : machine.statePlaces(view.name);
      if (places === null) {
        registers.push({ view, isFixed, mask, rest: mask === null ? 0n : machine.register(view.name) & ~mask });
        continue;
      }
      const last = registers.at(-1);
      const run = Array.isArray(last) ? last : [];
      if (run.length === 0) registers.push(run);
      run.push({ widthBits: view.widthBits, places });
    }
    constants.set(program, (found = { registers, anchors: placed }));
  }
  return found;
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
  addresses: readonly Address[],
  before: Begun | null = null,
  tracer: TracerState | null = null,
  back: Address | null = null,
): Begun {
  const { machine, layout } = world;
  const { abi } = program.arch;
  const { proof } = emulation;
  world.refresh();
  const { registers, anchors } = constantsOf(program, world, emulation);
  const words = machine.stateWords;
  for (const each of registers) {
    if (!('view' in each)) {
      place(random, words, each, addresses);
      continue;
    }
    const { view, isFixed, mask, rest } = each;
    const wanted = value(random, view, addresses);
    if (!isFixed) machine.setRegister(view.name, mask === null ? wanted : (wanted & mask) | rest);
  }
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
  machine.setRegister(abi.stackPointer, stackPointer);
  let returnAddress = free.back + BigInt(random.below(0x10000)) * 16n;
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
