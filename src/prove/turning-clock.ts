/**
 * A clock that code reads in two halves, of which the upper one changes between two looks (PV-3):
 * code must see that, and look again.
 */
import type { IrEmulation } from '../machine/emulation.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import { ownCode } from './own-code.js';
import type { ProofWorld } from './world.js';

/** Ticks of the lower half. */
const HALF = 1n << 32n;

export class TurningClock {
  private places: readonly Address[] | null = null;
  private readonly off: (() => void)[] = [];

  /** @param own  the tracer's ranges */
  constructor(
    private readonly program: Program,
    private readonly own: readonly { readonly start: Address; readonly end: Address }[],
    private readonly emulation: IrEmulation,
  ) {}

  /**
   * From now on the lower half begins anew in front of one look.
   * @param looks  those before it
   */
  begin({ machine }: ProofWorld, looks: number): void {
    let left = looks;
    for (const address of (this.places ??= this.find())) {
      this.off.push(
        machine.hook(address, () => {
          if (left-- === 0) machine.skipTime(HALF - (machine.time % HALF));
          return 'continue';
        }),
      );
    }
  }

  end(): void {
    for (const each of this.off.splice(0)) each();
  }

  private find(): readonly Address[] {
    const { lifter, proof } = this.emulation;
    if (proof.halfClock === null) return [];
    const found: Address[] = [];
    for (const { address, code } of ownCode(this.program, this.own)) {
      const { terminator } = lifter.lift(code, address, { maxInstructions: 1, startsAt: () => false });
      if (terminator.kind === 'helper' && terminator.name === proof.halfClock) found.push(address);
    }
    return found;
  }
}
