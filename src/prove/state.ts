/**
 * States in which trials begin (PV-1, 1): every register random or special, the stack somewhere in
 * its page, the return address a place without an owner.
 */
import type { IrEmulation } from '../machine/emulation.js';
import type { RegisterView } from '../machine/ir.js';
import type { Program } from '../program/program.js';
import type { Address, RegisterName } from '../units.js';
import { PAGE_BYTES } from './layout.js';
import type { Random } from './random.js';
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

/** The same value, written to a register's places in the state: most of a state is set up so. */
function place(random: Random, words: Uint32Array, { widthBits, places }: Placed, addresses: readonly Address[]): void {
  const kind = random.below(KINDS);
  for (let i = 0; i < places.length; i++) {
    const at = places[i]!;
    let low = 0;
    let high = 0;
    switch (kind) {
      case 0:
        break;
      case 1:
        low = high = 0xffff_ffff;
        break;
      case 2:
        if (widthBits === 32) low = 0x8000_0000;
        else if (i === places.length - 1) high = 0x8000_0000;
        break;
      case 3:
        if (i > 0) break;
        low = 1;
        if (addresses.length > 0) {
          const address = addresses[random.below(addresses.length)]!;
          low = Number(address & 0xffff_ffffn);
          high = Number(address >> 32n);
        }
        break;
      default:
        high = random.word();
        low = random.word();
    }
    words[at] = low;
    words[at + 1] = widthBits === 32 ? 0 : high;
  }
}

/** A register that is nothing but words of the state. */
interface Placed {
  readonly widthBits: number;
  readonly places: readonly number[];
}

/** How a register gets its value. */
interface StateRegister {
  readonly view: RegisterView;
  readonly placed: Placed | null;
  /** It keeps what a processor starts with. */
  readonly isFixed: boolean;
  /** Bits that may have any value, and those that all others have; null: all may. */
  readonly mask: bigint | null;
  readonly rest: bigint;
}

/** What is the same in all states of an image. */
interface Constants {
  /** Registers in order; without places: put together, or only some bits may have any value. */
  readonly registers: readonly StateRegister[];
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
    const registers = machine.lifter.registers.map((view): StateRegister => {
      const isFixed = proof.fixed.includes(view.name);
      const mask = proof.random[view.name] ?? null;
      const places = isFixed || mask !== null ? null : machine.statePlaces(view.name);
      const placed = places === null ? null : { widthBits: view.widthBits, places };
      return { view, placed, isFixed, mask, rest: mask === null ? 0n : machine.register(view.name) & ~mask };
    });
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
  for (const { view, placed, isFixed, mask, rest } of registers) {
    if (placed !== null) {
      place(random, words, placed, addresses);
      continue;
    }
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
