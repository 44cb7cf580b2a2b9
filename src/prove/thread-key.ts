/** What tells the running thread from others. */
import type { IrEmulation } from '../machine/emulation.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { Random } from './random.js';
import type { ProofWorld, Registers } from './world.js';

type ReadWord = (world: ProofWorld, address: Address) => bigint;

export class ThreadKey {
  /** The word that says where threads have their numbers; null: all in one register. */
  private readonly mode: Address | null;

  constructor(
    program: Program,
    private readonly emulation: IrEmulation,
    private readonly word: ReadWord,
  ) {
    const { threadKey } = emulation.proof;
    this.mode = threadKey === undefined ? null : program.definedAt(program.symbols.find(threadKey.mode));
  }

  of(world: ProofWorld, registers: Registers): bigint {
    const { proof, process } = this.emulation;
    if (proof.threadKey === undefined) return registers.get(process.threads.pointer);
    const register = this.mode === null ? undefined : proof.threadKey.at[String(this.word(world, this.mode))];
    return register === undefined ? 0n : this.word(world, registers.get(register));
  }

  /** Another kind of image has them elsewhere (PV-3): where that is said, any of those may be. */
  vary(random: Random, store: (address: Address, value: bigint) => void): void {
    const { threadKey } = this.emulation.proof;
    if (this.mode === null || threadKey === undefined) return;
    const modes = [0n, ...Object.keys(threadKey.at).map(BigInt)];
    store(this.mode, modes[random.below(modes.length)]!);
  }
}
