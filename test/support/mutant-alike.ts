/**
 * Whether a mutant does alone what it stands for (PV-5), from each state tried: random ones, all
 * registers equal, numbers of the instruction and their neighbours.
 */
import type { Isa } from '../../src/isa/instruction.js';
import type { Arch } from '../../src/machine/arch.js';
import { mix, Random } from '../../src/prove/random.js';
import type { ProofWorld } from '../../src/prove/world.js';
import type { Address } from '../../src/units.js';
import type { Mutant } from './mutants.js';

/** Random states in which an instruction and its mutant are compared. */
const STATES = 7;
/** States in which all registers hold one small number. */
const SMALL = [0n, 1n, 4n];
/** States with numbers of the instruction itself. */
const CONSTANTS = 6;
/** Instructions after which both must be in one state, and places at which that is looked for. */
const SOON = 8;
const JOINS = 3;
const RESERVATION = /^(?:ld|st|lr|sc|clr)\w*(?:x[rp]|ex|arx|cx|\.[wd])/;

/** What is executed, and after how many instructions it may be in the state of the other. */
interface Run {
  readonly bytes: Uint8Array;
  readonly least: number;
}

/** Executes instructions alone, in the patched image. */
export class Alone {
  constructor(
    private readonly arch: Arch,
    private readonly world: ProofWorld,
  ) {}

  /**
   * Whether bytes do what the bytes do that they stand for: from each state tried, the machine soon
   * is at the same place in the same state. What a branch decides must have been seen both ways.
   */
  isAlike(address: Address, { kind, before, after }: Mutant): boolean {
    const { isa } = this.arch;
    const { mnemonic, flow, sizeBytes } = isa.decode(before, 0, address);
    // Reservations are in no register.
    if (RESERVATION.test(mnemonic)) return false;
    const { world } = this;
    const count = kind === 'swap' ? 2 : 1;
    const skip = kind === 'nop' ? nopsIn(this.arch.target.id, before) : count;
    const ways = new Set<boolean>();
    let compared = 0;
    const constants = kind === 'immediate' ? constantsIn(isa, before, after, address) : [];
    const values = [...Array.from({ length: STATES }, () => null), ...SMALL, ...constants];
    for (const [n, value] of values.entries()) {
      const runs = [before, after].map((bytes, i) => ({ bytes, least: i === 0 ? count : skip })) as [Run, Run];
      const joined = this.join(address, runs, n, value);
      if (joined === true) compared++;
      if (joined !== false && flow.kind === 'branch') {
        ways.add(this.walk(address, runs[0], n, value)[0] === address + BigInt(sizeBytes));
      }
      world.rewrite(address, before);
      if (joined === false) return false;
    }
    return compared > 1 && (flow.kind !== 'branch' || ways.size === 2);
  }

  /** Places behind each of some instructions; as many as there are until something stops them. */
  private walk(address: Address, { bytes }: Run, n: number, value: bigint | null): readonly Address[] {
    const { world } = this;
    world.rewrite(address, bytes);
    enter(world, address, n, value);
    const pcs: Address[] = [];
    while (pcs.length < SOON && world.run(1).kind === 'step-limit') pcs.push(world.machine.register('pc'));
    world.reset();
    return pcs;
  }

  /** Whether both come to one place in one state; null: neither comes to an end of its own. */
  private join(address: Address, [a, b]: readonly [Run, Run], n: number, value: bigint | null): boolean | null {
    const { world } = this;
    const stateOf = ({ bytes }: Run, count: number): string | null => {
      world.rewrite(address, bytes);
      return stateAfter(world, address, count, n, value);
    };
    const [first, second] = [stateOf(a, a.least), stateOf(b, b.least)];
    if (first === second) return first === null ? null : true;
    if (first === null || second === null) return false;
    const [ways, others] = [this.walk(address, a, n, value), this.walk(address, b, n, value)];
    let tried = 0;
    for (let i = a.least; i <= ways.length && tried < JOINS; i++) {
      const j = others.indexOf(ways[i - 1]!, b.least - 1) + 1;
      if (j === 0 || (i === a.least && j === b.least)) continue;
      tried++;
      const state = stateOf(a, i);
      if (state !== null && state === stateOf(b, j)) return true;
    }
    return false;
  }
}

/** One-byte nops stand for longer instructions of x86-64. */
const nopsIn = (target: string, bytes: Uint8Array): number => (target === 'x86-64' ? bytes.length : 1);

/** Numbers of two forms of an instruction, and their neighbours: what comparisons tell apart. */
function constantsIn(isa: Isa, before: Uint8Array, after: Uint8Array, address: Address): bigint[] {
  const found = new Set<bigint>();
  for (const bytes of [before, after]) {
    const text = isa.format(isa.decode(bytes, 0, address));
    for (const [number] of text.matchAll(/-?\b(?:0x[0-9a-f]+|\d+)\b/g)) {
      const value = number.startsWith('-') ? -BigInt(number.slice(1)) : BigInt(number);
      for (const near of [-1n, 0n, 1n]) found.add(value + near);
    }
  }
  // Of x86-64 the text has no operands: a constant is what differs.
  for (const [i, byte] of before.entries()) {
    if (byte === after[i]) continue;
    for (const each of [byte, after[i]!]) found.add(BigInt.asIntN(8, BigInt(each)));
  }
  return [...found].slice(0, CONSTANTS);
}

/**
 * Brings a world into a state.
 * @param value  of all registers; null: random ones
 */
function enter(world: ProofWorld, address: Address, n: number, value: bigint | null): void {
  const { machine } = world;
  const random = new Random(mix(n + 1, 0x5eed));
  world.refresh();
  const same = value ?? random.double() & 0x7fff_fff0n;
  for (const { name, widthBits } of machine.lifter.registers) {
    if (name === 'pc') continue;
    const low = random.double();
    // Every other time all registers hold the same address, so that accesses meet.
    const isSame = value !== null || n % 2 === 1;
    const each = isSame ? same : widthBits === 128 ? (random.double() << 64n) | low : low & 0xffff_fffff0n;
    machine.setRegister(name, BigInt.asUintN(widthBits, each));
  }
  machine.setRegister('pc', address);
  world.prepare(address);
}

/** Registers and memory behind some instructions, as text; null: they do not come to an end. */
function stateAfter(
  world: ProofWorld,
  address: Address,
  count: number,
  n: number,
  value: bigint | null,
): string | null {
  const { machine } = world;
  enter(world, address, n, value);
  const stop = world.run(count);
  let text: string | null = null;
  if (stop.kind === 'step-limit') {
    text = machine.registerNames.map((name) => machine.register(name).toString(16)).join();
    for (const page of world.changed().sort((a, b) => (a < b ? -1 : 1))) {
      text += `;${page.toString(16)}:${Buffer.from(world.page(page).now).toString('latin1')}`;
    }
  }
  world.reset();
  return text;
}
