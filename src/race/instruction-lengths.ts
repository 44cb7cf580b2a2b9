/** How long instructions are, by the bytes that stand there. */
import type { Lifter } from '../machine/ir.js';
import type { Address } from '../units.js';

const ONE = { maxInstructions: 1, startsAt: () => false } as const;

/** Of one place: bytes of instructions that stood there. */
type Known = Uint8Array[];

export class InstructionLengths {
  private readonly known = new Map<Address, Known>();

  constructor(private readonly lifter: Pick<Lifter, 'lift'>) {}

  /** Bytes of the instruction that `code` begins with; null: it is none, or longer than that. */
  of(code: Uint8Array, address: Address): number | null {
    let known = this.known.get(address);
    if (known === undefined) this.known.set(address, (known = []));
    const same = known.find((each) => each.length <= code.length && each.every((byte, i) => byte === code[i]));
    if (same !== undefined) return same.length;
    const { end, terminator } = this.lifter.lift(code, address, ONE);
    if (terminator.kind === 'unknown' || terminator.kind === 'fetch') return null;
    const length = Number(end - address);
    known.push(code.slice(0, length));
    return length;
  }
}
