/**
 * What is known of registers wherever code of the runtime's object comes from (PV-5): numbers that
 * they hold, registers that hold the same, and those that do not hold 0. Forwards over all ways
 * through functions that were compiled, and into those that only calls at hand lead to; where a
 * function begins that anything may call, and behind whatever is not followed, nothing is known. A
 * callee gives back what the ABI says it keeps.
 */
import type { Slot } from '../../src/machine/ir.js';
import type { Address } from '../../src/units.js';
import type { Liveness } from './mutant-liveness.js';
import { bit } from './mutant-reads.js';
import type { Facts, Term, Terms } from './mutant-terms.js';

/** For each slot the first one that holds the same, and the number that it holds. */
interface Classes {
  readonly first: readonly Slot[];
  readonly numbers: ReadonlyMap<Slot, bigint>;
  /** Slots that do not hold 0. */
  readonly set: bigint;
}

/** Where a machine goes from a place, and what its slots hold then, in terms of before. */
export interface Onward {
  readonly at: Address | null;
  readonly slots: ReadonlyMap<Slot, Term>;
  readonly facts: Facts;
}

export type Follow = (at: Address, slots: ReadonlyMap<Slot, Term>, facts: Facts) => readonly Onward[] | null;

export class Known {
  private readonly classes = new Map<Address, Classes>();
  private readonly nothing: Classes;
  private readonly left = new Set<Address>();
  /** Where anything may come from. */
  private readonly open = new Set<Address>();

  /**
   * @param follow   executes one instruction
   * @param initial  the term of a slot of which nothing is known
   * @param bits     of a register
   * @param changes  slots that the callee of an instruction changes; null: not known
   */
  constructor(
    private readonly liveness: Liveness,
    private readonly terms: Terms,
    private readonly count: number,
    private readonly initial: (slot: Slot) => Term,
    private readonly follow: Follow,
    private readonly bits: number,
    private readonly changes: (at: Address) => bigint | null,
  ) {
    this.nothing = { first: Array.from({ length: count }, (_, slot) => slot), numbers: new Map(), set: 0n };
    for (const at of liveness.addresses()) {
      if (liveness.isFollowed(at)) continue;
      this.classes.set(at, { ...this.nothing, set: liveness.setAt(at) });
      this.open.add(at);
      this.left.add(at);
    }
    for (const at of this.left) {
      this.left.delete(at);
      this.goOn(at);
    }
  }

  /** What slots hold in front of an instruction, as far as that is known: terms of other slots. */
  slots(at: Address, terms: Terms, initial: (slot: Slot) => Term): Map<Slot, Term> {
    const { first, numbers } = this.classes.get(at) ?? this.nothing;
    const found = new Map<Slot, Term>();
    for (const [slot, number] of numbers) found.set(slot, terms.number(number));
    for (const [slot, other] of first.entries()) {
      if (slot !== other && !numbers.has(slot)) found.set(slot, initial(other));
    }
    return found;
  }

  /** What is said of these slots beside what they hold. */
  facts(at: Address, terms: Terms, initial: (slot: Slot) => Term): Facts {
    const { first, numbers, set } = this.classes.get(at) ?? this.nothing;
    let facts = terms.facts();
    for (let slot = 0; slot < this.count; slot++) {
      if ((set & bit(slot)) === 0n || first[slot] !== slot || numbers.has(slot)) continue;
      const [atom, holds] = terms.condition('ne', this.bits, initial(slot), terms.number(0n));
      facts = terms.with(facts, atom, holds, this.bits === 32);
    }
    return facts;
  }

  /** Slots of which anything is said in front of an instruction. */
  said(at: Address): bigint {
    const { first, numbers, set } = this.classes.get(at) ?? this.nothing;
    let said = set;
    for (const slot of numbers.keys()) said |= bit(slot);
    for (const [slot, other] of first.entries()) if (slot !== other) said |= bit(slot) | bit(other);
    return said;
  }

  private goOn(at: Address): void {
    const before = this.slots(at, this.terms, this.initial);
    const facts = this.facts(at, this.terms, this.initial);
    const next = this.follow(at, before, facts);
    const { liveness } = this;
    const behind = liveness.returnOf(at);
    if (behind !== null) this.join(behind, this.kept(at, before), facts);
    for (const each of next ?? [])
      if (each.at !== null && liveness.at(each.at) !== undefined) this.join(each.at, each.slots, each.facts);
    // What is not followed leaves anything.
    if (next === null) for (const each of liveness.goals(at)) this.join(each, null, facts);
  }

  /** What a callee gives back. */
  private kept(at: Address, before: ReadonlyMap<Slot, Term>): ReadonlyMap<Slot, Term> {
    const { liveness, terms } = this;
    const slots = new Map<Slot, Term>();
    const changed = (this.changes(at) ?? -1n) & ~liveness.kept;
    for (let slot = 0; slot < this.count; slot++) {
      const isKept = (changed & bit(slot)) === 0n;
      slots.set(slot, isKept ? (before.get(slot) ?? this.initial(slot)) : terms.symbol(`lost ${slot}`));
    }
    return slots;
  }

  /** @param slots  null: anything */
  private join(at: Address, slots: ReadonlyMap<Slot, Term> | null, facts: Facts): void {
    const old = this.classes.get(at);
    if (old === this.nothing || this.open.has(at) || facts.isContradiction) return;
    if (slots === null) {
      this.classes.set(at, this.nothing);
      this.left.add(at);
      return;
    }
    const firsts = new Map<string, Slot>();
    const numbers = new Map<Slot, bigint>();
    const first: Slot[] = [];
    let set = 0n;
    for (let slot = 0; slot < this.count; slot++) {
      const term = slots.get(slot) ?? this.initial(slot);
      const key = `${old === undefined ? '' : old.first[slot]!} ${term}`;
      const other = firsts.get(key) ?? slot;
      if (other === slot) firsts.set(key, slot);
      first.push(other);
      const number = this.terms.value(term);
      if (number !== null && (old === undefined || old.numbers.get(slot) === number)) numbers.set(slot, number);
      const wasSet = old === undefined || (old.set & bit(slot)) !== 0n;
      if (wasSet && this.terms.isNotZero(term, facts, this.bits)) set |= bit(slot);
    }
    const isSame =
      old?.set === set && numbers.size === old.numbers.size && first.every((each, slot) => each === old.first[slot]);
    if (isSame) return;
    this.classes.set(at, { first, numbers, set });
    this.left.add(at);
  }
}
