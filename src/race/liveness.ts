/**
 * What threads may still read of their registers, by where they are. What a thread writes before it
 * reads it is dead: states that differ in nothing else are one. Which slots are dead at a place is
 * taken from the runs from there that were executed so far, backwards over all of them, and no
 * instruction executes that reads what was taken for dead: the search knows better then and begins
 * anew.
 */
import type { Slot, SlotLayout } from '../machine/ir.js';
import type { Address } from '../units.js';

/** Slots as bits. */
export type SlotBits = bigint;

/** A run from one place to another. */
interface Edge {
  readonly from: Address;
  readonly to: Address;
  readonly reads: SlotBits;
  readonly writes: SlotBits;
}

export function bitsOf(slots: Iterable<Slot>): SlotBits {
  let bits = 0n;
  for (const slot of slots) bits |= 1n << BigInt(slot);
  return bits;
}

export class Liveness {
  /** Something was taken for dead that is not. */
  grew = false;
  /** What a state of registers consists of that may be dead. */
  readonly all: SlotBits;
  private readonly live = new Map<Address, SlotBits>();
  private readonly into = new Map<Address, Edge[]>();
  private readonly known = new Set<string>();
  /** What was taken for dead so far. */
  private readonly used = new Map<Address, SlotBits>();

  /** @param kept  a slot that is never dead */
  constructor(slots: SlotLayout, kept: Slot | null) {
    let all = 0n;
    for (let slot = 0; slot < slots.count; slot++) {
      if (!slots.isTemporary(slot) && slot !== kept) all |= 1n << BigInt(slot);
    }
    this.all = all;
  }

  /** Nothing is read from there on but this. */
  ends(at: Address, live: SlotBits): void {
    this.raise(at, live);
  }

  /** A run was executed. What comes behind a place is not known before a run from there was. */
  note(edge: Edge): void {
    const { from, to, reads, writes } = edge;
    const name = `${from} ${to} ${reads} ${writes}`;
    if (this.known.has(name)) return;
    this.known.add(name);
    const list = this.into.get(to);
    if (list === undefined) this.into.set(to, [edge]);
    else list.push(edge);
    this.raise(from, before(edge, this.live.get(to) ?? 0n));
  }

  private raise(at: Address, bits: SlotBits): void {
    const work: { readonly at: Address; readonly bits: SlotBits }[] = [{ at, bits }];
    for (let each = work.pop(); each !== undefined; each = work.pop()) {
      const was = this.live.get(each.at);
      const is = (was ?? 0n) | each.bits;
      this.live.set(each.at, is);
      if (is === was) continue;
      if (((this.used.get(each.at) ?? 0n) & is) !== 0n) this.grew = true;
      for (const edge of this.into.get(each.at) ?? []) work.push({ at: edge.from, bits: before(edge, is) });
    }
  }

  /** Slots that no run from a place reads before it writes them. */
  deadAt(at: Address): SlotBits {
    const live = this.live.get(at);
    if (live === undefined) return 0n;
    const dead = this.all & ~live;
    this.used.set(at, (this.used.get(at) ?? 0n) | dead);
    return dead;
  }

  /** A search begins anew. */
  restart(): void {
    this.grew = false;
    this.used.clear();
  }
}

const before = ({ reads, writes }: Edge, behind: SlotBits): SlotBits => reads | (behind & ~writes);
