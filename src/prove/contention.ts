/**
 * Another hart that comes first (PV-3): a store under a reservation fails, though nothing was
 * stored, or a free block is taken by another thread between the look at it and the attempt to take
 * it. Both happen in front of an instruction that a hart does at once: a load with a reservation, a
 * store under one, or one that loads and stores.
 */
import type { IrEmulation } from '../machine/emulation.js';
import { type Lifter, OPS } from '../machine/ir.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import { ownCode } from './own-code.js';
import type { ProofWorld } from './world.js';

type Kind = 'load' | 'store' | 'both';

/** What an instruction is for other harts; null: nothing that is done at once. */
function kindOf(lifter: Lifter, code: Uint8Array, address: Address): Kind | null {
  const { ops } = lifter.lift(code, address, { maxInstructions: 1, startsAt: () => false });
  const forms = ops.map(({ op }) => OPS[op].form);
  const [loads, stores] = [forms.includes('load'), forms.includes('store')];
  const { reservation } = lifter;
  const whole = loads && stores ? 'both' : null;
  if (reservation === undefined) return whole;
  // A load keeps its address, a store gives it up.
  const sets = ops.findLast(({ op, d }) => op === 'mov' && d === reservation.address);
  // RISC-V has both.
  if (sets === undefined) return whole;
  return sets.a === reservation.none ? 'store' : 'load';
}

export interface Rival {
  /** In front of a load, until it says that it is done. */
  takes(): boolean;
  /** Whether the store fails; asked once for each such instruction. */
  fails(): boolean;
}

export class Contention {
  private places: ReadonlyMap<Address, Kind> | null = null;
  private readonly off: (() => void)[] = [];

  /** @param own  the tracer's ranges */
  constructor(
    private readonly program: Program,
    private readonly own: readonly { readonly start: Address; readonly end: Address }[],
    private readonly emulation: IrEmulation,
  ) {}

  /** From now on another hart comes first. */
  begin({ machine }: ProofWorld, rival: Rival): void {
    let isDone = false;
    const failed = new Set<Address>();
    for (const [address, kind] of (this.places ??= this.find())) {
      const off = machine.hook(address, () => {
        if (kind !== 'store') isDone ||= rival.takes();
        else if (!failed.has(address)) {
          failed.add(address);
          if (rival.fails()) machine.loseReservation();
        }
        return 'continue';
      });
      this.off.push(off);
    }
  }

  end(): void {
    for (const each of this.off.splice(0)) each();
  }

  private find(): ReadonlyMap<Address, Kind> {
    const { lifter } = this.emulation;
    const found = new Map<Address, Kind>();
    for (const { address, code } of ownCode(this.program, this.own)) {
      const kind = kindOf(lifter, code, address);
      if (kind !== null) found.set(address, kind);
    }
    return found;
  }
}
