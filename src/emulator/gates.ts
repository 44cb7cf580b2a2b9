/**
 * Gates: addresses behind which there is a TypeScript function (RT-12). Guest
 * code calls, jumps or returns to a gate like to any code; reaching it ends the block, calls the
 * function with the arguments of the target's calling convention, and goes on at the return
 * address.
 *
 *   window   +0    trap word         gate 0        never executed: the machine stops in front of it
 *            +16   trap word         gate 1
 *            ...
 *   ELFv1    +8    code, TOC 0, 0    descriptor of gate 0: what a function pointer holds there (32
 *                                    bytes a gate)
 *
 * A gate that was reached by a jump (a tail call) returns to the caller of the function that
 * jumped, as a function would: nothing is special about it. A gate counts as one instruction, so
 * budgets end loops through gates too.
 *
 * Gates live as long as the machine does. What refers to one must not get into a file:
 * `referencesIn` and `refuseReferences` look for words and branches that name an address of the
 * window, and `planSites` takes `range` among its `hostRanges`.
 */
import type { Abi } from '../machine/abi.js';
import type { Isa } from '../isa/instruction.js';
import type { Permission } from './windows.js';
import { ElftraceError, hex } from '../errors.js';
import type { Machine } from './machine.js';
import type { StopReason } from './stops.js';
import type { Address, RegisterName } from '../units.js';

/** The parts of an `Abi` that calls need. */
export type CallConvention = Pick<Abi, 'argumentRegisters' | 'resultRegister' | 'linkRegister' | 'stackPointer'>;

export interface GateOptions {
  readonly machine: Machine;
  readonly abi: CallConvention;
  /** Start of the reserved window, a multiple of 4096; nothing may be mapped there. */
  readonly address: Address;
  /** Bytes of the window. Default 4096. */
  readonly size?: number;
  /** ELFv1: function pointers hold addresses of descriptors. Default `code`. */
  readonly functionPointers?: 'code' | 'descriptor';
  /** The byte that fills the window; a word of it must be no instruction. Default 0; x86: 0xcc. */
  readonly fill?: number;
}

/** One call of a gate. */
export interface GateCall {
  readonly machine: Machine;
  /** Where the function goes on when it returns. */
  readonly returnAddress: Address;
  /**
   * Argument by index, as its register holds it (unsigned).
   * @throws ElftraceError 'usage' beyond the last argument register
   */
  argument(index: number): bigint;
  register(name: RegisterName): bigint;
  /**
   * Registers stay as the function leaves them; writing `pc` makes it go on there instead of
   * returning.
   */
  setRegister(name: RegisterName, value: bigint): void;
  /** Ends the run when the function has returned; the stop is `hook` with the gate's address. */
  stop(): void;
}

/** A callback. A returned number goes to the result register; undefined leaves it alone. */
export type GateFunction = (call: GateCall) => bigint | undefined;

export interface Gate {
  /** Address of the code: what a branch names. */
  readonly address: Address;
  /** What a function pointer of the target holds: `address`, or that of a descriptor. */
  readonly pointer: Address;
  /** Takes the gate away; reaching its address is an ordinary stop afterwards. */
  remove(): void;
}

/** Result of a call of guest code. */
export type CallResult = { readonly kind: 'returned'; readonly value: bigint } | StopReason;

/**
 * Bytes that are meant for a file, with the address at which they lie when it is loaded. A saved
 * window is one.
 */
export interface GateSearch {
  readonly address: Address;
  readonly bytes: Uint8Array;
  /** With `x`, instructions are looked at too. Default `rw`: data. */
  readonly permission?: Permission;
}

/** A place that names an address of the window: a word that holds it, or a branch to it. */
export interface GateReference {
  readonly kind: 'word' | 'branch';
  readonly address: Address;
  readonly gate: Address;
}

/** The reserved window of a machine. */
export class Gates {
  private readonly machine: Machine;
  private readonly abi: CallConvention;
  private readonly start: Address;
  private readonly end: Address;
  private readonly descriptors: boolean;
  private next: Address;
  /** Where functions return to that the host called. */
  private home: Address | null = null;

  /** @throws ElftraceError 'usage' when the window overlaps another */
  constructor(options: GateOptions) {
    const { machine, abi, address, size = 4096 } = options;
    this.machine = machine;
    this.abi = abi;
    this.start = address;
    this.next = address;
    this.end = address + BigInt(size);
    this.descriptors = options.functionPointers === 'descriptor';
    machine.map({ address, size, permission: 'rx', name: 'gates' });
    const fill = options.fill ?? 0;
    if (fill !== 0) machine.memory.write(address, new Uint8Array(size).fill(fill));
  }

  /** True for addresses of the window: an image that refers to one cannot be written to a file. */
  contains(address: Address): boolean {
    return address >= this.start && address < this.end;
  }

  /** The window as `planSites` takes it among its `hostRanges`. */
  get range(): { readonly start: Address; readonly end: Address } {
    return { start: this.start, end: this.end };
  }

  /**
   * Places in bytes for a file that name an address of the window, ascending in each piece; the
   * window itself is left out. Words are looked at where data is aligned to them, and in executable
   * pieces at each place where an instruction may begin; branches in executable pieces, decoded by
   * `isa`. A number that equals an address of the window counts as one. Addresses that several
   * instructions put together are not seen.
   */
  referencesIn(pieces: Iterable<GateSearch>, isa: Isa): GateReference[] {
    const found: GateReference[] = [];
    const { wordBytes } = this;
    const { endian, codeAlignBytes } = this.machine.lifter;
    for (const { address, bytes, permission = 'rw' } of pieces) {
      if (this.contains(address)) continue;
      const code = permission.includes('x');
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const step = code ? Math.min(codeAlignBytes, wordBytes) : wordBytes;
      // The next place that is looked at, and the next instruction.
      const lead = Number(BigInt.asUintN(4, -address)) % step;
      let next = 0;
      for (let at = lead; at + Math.min(wordBytes, step) <= bytes.length; at += step) {
        if (at + wordBytes <= bytes.length) {
          const little = endian === 'little';
          const word = wordBytes === 8 ? view.getBigUint64(at, little) : BigInt(view.getUint32(at, little));
          if (this.contains(word)) found.push({ kind: 'word', address: address + BigInt(at), gate: word });
        }
        if (!code || at < next) continue;
        const instruction = isa.decode(bytes, at, address + BigInt(at));
        next = at + Math.max(step, instruction.sizeBytes);
        const { flow } = instruction;
        if ('target' in flow && this.contains(flow.target)) {
          found.push({ kind: 'branch', address: address + BigInt(at), gate: flow.target });
        }
      }
    }
    return found;
  }

  /**
   * The check before bytes go into a file: a saved memory, appended sections, ops objects.
   * @throws ElftraceError 'host-callback-in-file' at the first place that names an address of the
   *   window
   */
  refuseReferences(pieces: Iterable<GateSearch>, isa: Isa): void {
    const found = this.referencesIn(pieces, isa);
    const [first] = found;
    if (!first) return;
    const what = first.kind === 'word' ? 'the word' : 'the branch';
    const more = found.length > 1 ? `, and ${found.length - 1} places more` : '';
    throw new ElftraceError(
      'host-callback-in-file',
      `${what} at ${hex(first.address)} refers to a function of the host (${hex(first.gate)})${more}: no file can hold it`,
      { address: first.address, value: first.gate },
    );
  }

  private get wordBytes(): 4 | 8 {
    return this.machine.lifter.addressBits === 64 ? 8 : 4;
  }

  /**
   * Gives a function an address.
   * @throws ElftraceError 'usage' when the window is full
   */
  add(callback: GateFunction): Gate {
    const { machine, wordBytes } = this;
    const address = this.reserve();
    let pointer = address;
    if (this.descriptors) {
      pointer = address + 8n;
      [address, 0n, 0n].forEach((word, i) => machine.writeWord(pointer + BigInt(i * wordBytes), wordBytes, word));
    }
    const remove = machine.setGate(address, () => this.enter(callback));
    return { address, pointer, remove };
  }

  private reserve(): Address {
    const address = this.next;
    const size = this.descriptors ? 32n : 16n;
    if (address + size > this.end) throw new ElftraceError('usage', 'the window of gates is full', { address });
    this.next += size;
    return address;
  }

  private enter(callback: GateFunction): 'continue' | 'stop' {
    const { machine, abi } = this;
    const gate = machine.pc;
    const stack = machine.register(abi.stackPointer);
    const word =
      abi.linkRegister === null ? machine.readWord(stack, this.wordBytes) : machine.register(abi.linkRegister);
    if (word === null) {
      throw new ElftraceError('usage', `gate ${hex(gate)}: the stack holds no return address`, { address: stack });
    }
    // Machines ignore the low bits of a link register that no instruction address can have.
    const returnAddress = word & -BigInt(machine.lifter.codeAlignBytes);
    let goesTo: Address | null = null;
    let stops = false;
    const result = callback({
      machine,
      returnAddress,
      argument: (index) => {
        const name = abi.argumentRegisters[index];
        if (name === undefined) {
          throw new ElftraceError('usage', `arguments from ${abi.argumentRegisters.length} on are on the stack`, {
            value: index,
          });
        }
        return machine.register(name);
      },
      register: (name) => machine.register(name),
      setRegister: (name, value) => {
        if (name === 'pc') goesTo = value;
        else machine.setRegister(name, value);
      },
      stop: () => {
        stops = true;
      },
    });
    if (result !== undefined) {
      machine.setRegister(abi.resultRegister, BigInt.asUintN(machine.lifter.addressBits, result));
    }
    if (goesTo === null && abi.linkRegister === null) {
      machine.setRegister(abi.stackPointer, stack + BigInt(this.wordBytes));
    }
    machine.setRegister('pc', goesTo ?? returnAddress);
    return stops ? 'stop' : 'continue';
  }

  /**
   * Calls guest code on the running CPU with arguments in registers; the stack pointer and what
   * else the convention wants (TOC) must be set. Afterwards all registers are as the function left
   * them, and `pc` is what it was.
   * @throws ElftraceError 'usage' when there are more arguments than registers
   */
  call(address: Address, args: readonly bigint[], options: { readonly budget?: number } = {}): CallResult {
    const { machine, abi } = this;
    if (args.length > abi.argumentRegisters.length) {
      throw new ElftraceError('usage', `at most ${abi.argumentRegisters.length} arguments are in registers`, {
        value: args.length,
      });
    }
    if (this.home === null) {
      this.home = this.reserve();
      machine.setGate(this.home, () => 'stop');
    }
    const { home } = this;
    const back = machine.pc;
    args.forEach((value, index) => {
      machine.setRegister(abi.argumentRegisters[index]!, BigInt.asUintN(machine.lifter.addressBits, value));
    });
    const stack = machine.register(abi.stackPointer);
    if (abi.linkRegister !== null) machine.setRegister(abi.linkRegister, home);
    else {
      machine.setRegister(abi.stackPointer, stack - BigInt(this.wordBytes));
      machine.writeWord(stack - BigInt(this.wordBytes), this.wordBytes, home);
    }
    machine.setRegister('pc', address);
    const stop = machine.run(options);
    if (stop.kind !== 'hook' || stop.address !== home) return stop;
    machine.setRegister('pc', back);
    return { kind: 'returned', value: machine.register(abi.resultRegister) };
  }
}
