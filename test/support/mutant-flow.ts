/**
 * Ways through the code of the runtime's object (PV-5): which instructions anything can come to,
 * and which ones only by way of others. Where that is not known, as behind a table of jumps, it
 * counts as one that something comes to.
 */
import type { Isa } from '../../src/isa/instruction.js';
import type { Address } from '../../src/units.js';

interface Step {
  readonly address: Address;
  readonly end: Address;
  /** Where it may go on, in this code. */
  readonly next: readonly Address[];
  /** It may leave the function. */
  readonly leaves: boolean;
  /** It goes where a register says. */
  readonly isOpen: boolean;
}

export interface CodeRange {
  readonly start: Address;
  readonly end: Address;
  readonly bytes: Uint8Array;
}

/** Returns of which none is taken under a condition. */
const PLAIN_RETURN = /^(?:ret|retq|blr|jr ra|c\.jr ra|ret x30)$/;

/** Of x86-64 the text has no operands. */
const endsWay = (isa: Isa, step: Parameters<Isa['format']>[0]): boolean => PLAIN_RETURN.test(isa.format(step).trim());

export class CodeFlow {
  private readonly steps = new Map<Address, Step>();
  private readonly reached: ReadonlySet<Address>;

  /**
   * @param names  of functions and labels that anything may come to
   * @param jumps  where tables of jumps lead, by the function that has them
   */
  constructor(
    isa: Isa,
    ranges: readonly CodeRange[],
    private readonly names: readonly Address[],
    private readonly jumps: ReadonlyMap<Address, readonly Address[]> = new Map(),
  ) {
    for (const { start, end, bytes } of ranges) {
      for (let at = start; at < end;) {
        const step = isa.decode(bytes, Number(at - start), at);
        const behind = at + BigInt(step.sizeBytes);
        const { flow } = step;
        const goesOn =
          flow.kind !== 'jump' && flow.kind !== 'indirect-jump' && !(flow.kind === 'return' && endsWay(isa, step));
        const next = [
          ...(goesOn ? [behind] : []),
          ...(flow.kind === 'jump' || flow.kind === 'branch' ? [flow.target] : []),
        ];
        const leaves = flow.kind === 'return' || flow.kind === 'indirect-jump';
        this.steps.set(at, { address: at, end: behind, next, leaves, isOpen: flow.kind === 'indirect-jump' });
        at = behind;
      }
    }
    this.reached = this.from(names, new Set(), true);
  }

  /** Where a register may lead: in a function or label, anywhere, or where its tables say. */
  private around(address: Address): readonly Pick<Step, 'address'>[] {
    let [start, end] = [-1n, -1n];
    for (const each of this.names) {
      if (each <= address && each > start) start = each;
      if (each > address && (end < 0n || each < end)) end = each;
    }
    const goals = this.jumps.get(start);
    if (goals !== undefined) return goals.map((each) => ({ address: each }));
    return [...this.steps.values()].filter((step) => step.address >= start && (end < 0n || step.address < end));
  }

  /** What is come to from some places, not by way of those of `cuts`. */
  private from(starts: readonly Address[], cuts: ReadonlySet<Address>, isWhole: boolean): Set<Address> {
    const seen = new Set<Address>();
    const left = [...starts];
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      const step = this.steps.get(at);
      if (step === undefined || seen.has(at) || cuts.has(at)) continue;
      seen.add(at);
      left.push(...step.next);
      if (step.isOpen && isWhole) left.push(...this.around(at).map(({ address }) => address));
    }
    return seen;
  }

  /** The instruction that has a byte; undefined: none has. */
  at(address: Address): Address | undefined {
    for (const each of this.steps.values()) if (each.address <= address && address < each.end) return each.address;
    return undefined;
  }

  /** Whether no way leads to an instruction. */
  isNever(address: Address): boolean {
    return this.steps.has(address) && !this.reached.has(address);
  }

  /**
   * Instructions of a function that are executed only on ways that come to one of `cuts`, too.
   * @param entry  of the function
   */
  onlyWith(entry: Address, cuts: ReadonlySet<Address>): ReadonlySet<Address> {
    const inside = this.from([entry], new Set(), false);
    const free = this.from([entry], cuts, false);
    const steps = [...inside].map((at) => this.steps.get(at)!);
    if (cuts.size === 0 || steps.some(({ isOpen }) => isOpen)) return new Set();
    // Backwards: from where the function is left, not by way of them.
    const before = new Map<Address, Address[]>();
    for (const { address, next } of steps) {
      for (const each of next) before.set(each, [...(before.get(each) ?? []), address]);
    }
    const out = new Set<Address>();
    const isEnd = ({ leaves, next }: Step): boolean => leaves || next.some((each) => !inside.has(each));
    const left = steps.filter(isEnd).map(({ address }) => address);
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      if (out.has(at) || cuts.has(at)) continue;
      out.add(at);
      left.push(...(before.get(at) ?? []));
    }
    return new Set([...inside].filter((at) => !(free.has(at) && out.has(at))));
  }
}
