/**
 * What functions of the tracer owe each other (PV-1, 3): each that another one calls gives back the
 * registers that the ABI wants preserved, whether or not its caller has anything in them.
 */
import { SHF_EXECINSTR } from '../elf/constants.js';
import type { ProofModel } from '../machine/proof.js';
import type { Program } from '../program/program.js';
import type { Address, RegisterName } from '../units.js';
import type { ProofWorld } from './world.js';

interface Range {
  readonly start: Address;
  readonly end: Address;
}

interface Call {
  readonly name: string;
  readonly back: Address;
  readonly stack: bigint;
  readonly registers: readonly bigint[];
}

const hex = (value: bigint): string => `0x${value.toString(16)}`;

export class PreservedRegisters {
  /** Names of functions by where they are entered, and places behind calls. */
  private readonly functions = new Map<Address, string>();
  private readonly returns = new Set<Address>();
  private readonly names: readonly RegisterName[];
  /** Bits of each that are given back: fields of a condition register are; null: all. */
  private readonly masks: readonly (bigint | null)[];
  private calls: Call[] = [];
  private found: string | null = null;

  /** @param own  ranges of the tracer */
  constructor(
    private readonly program: Program,
    own: readonly Range[],
    { compared }: ProofModel,
  ) {
    const { symbols, functions, arch } = program;
    const isOwn = (at: Address): boolean => own.some(({ start, end }) => at >= start && at < end);
    const { preservedRegisters } = arch.abi;
    const parts = Object.entries(compared).filter(([, mask]) => mask !== 0n);
    this.names = [...preservedRegisters, ...parts.map(([name]) => name)];
    this.masks = [...preservedRegisters.map(() => null), ...parts.map(([, mask]) => mask)];
    for (let i = 1; i < symbols.count; i++) {
      const place = functions.placeOf(i)?.value;
      if (place === undefined || !isOwn(place)) continue;
      for (const at of [place, place + BigInt(arch.abi.localEntryOffset(symbols.other[i]!))]) {
        this.functions.set(at, symbols.name(i));
      }
    }
    this.findReturns(isOwn);
  }

  private findReturns(isOwn: (at: Address) => boolean): void {
    const { arch, image } = this.program;
    for (const { address, size, offset, flags } of image.sections) {
      if ((flags & SHF_EXECINSTR) === 0n || !isOwn(address)) continue;
      for (let at = 0; at < size;) {
        const { sizeBytes, flow } = arch.isa.decode(image.bytes, offset + at, address + BigInt(at));
        at += sizeBytes;
        if (flow.kind === 'call' || flow.kind === 'indirect-call') this.returns.add(address + BigInt(at));
      }
    }
  }

  /** @returns what takes it off again */
  watch(world: ProofWorld): () => void {
    const { machine } = world;
    const off = [...this.functions].map(([at, name]) =>
      machine.hook(at, () => {
        this.entered(world, name);
        return 'continue';
      }),
    );
    for (const at of this.returns) {
      off.push(
        machine.hook(at, () => {
          this.returned(machine, at);
          return 'continue';
        }),
      );
    }
    return () => {
      for (const each of off) each();
    };
  }

  /** A trial begins. */
  begin(): void {
    this.calls = [];
    this.found = null;
  }

  /** The first register that was not given back, in a sentence; null: all were. */
  get wrong(): string | null {
    return this.found;
  }

  private entered(world: ProofWorld, name: string): void {
    const { machine } = world;
    const { abi } = this.program.arch;
    const stack = machine.register(abi.stackPointer);
    const isPushed = abi.linkRegister === null;
    const back = isPushed ? world.word(stack) : machine.register(abi.linkRegister);
    // Sites call entries, which keep other registers.
    if (!this.returns.has(back)) return;
    const above = isPushed ? BigInt(machine.lifter.addressBits / 8) : 0n;
    const registers = this.names.map((each) => machine.register(each));
    this.calls.push({ name, back, stack: stack + above, registers });
  }

  private returned(machine: ProofWorld['machine'], back: Address): void {
    const stack = machine.register(this.program.arch.abi.stackPointer);
    // One that jumped to another one is back together with it.
    for (let call = this.calls.at(-1); call?.back === back && call.stack === stack; call = this.calls.at(-1)) {
      this.calls.pop();
      for (const [i, name] of this.names.entries()) {
        const [was, now] = [call.registers[i]!, machine.register(name)];
        const mask = this.masks[i]!;
        if (mask === null ? was !== now : ((was ^ now) & mask) !== 0n)
          this.found ??= `${call.name} gives ${hex(now)} back in ${name}, not ${hex(was)}`;
      }
    }
  }
}
