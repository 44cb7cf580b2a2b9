/** What runs of events depend on and do, beyond the state that they lead to. */
import type { Slot } from '../machine/ir.js';
import type { LineBytes } from './changed-lines.js';
import type { Range } from './footprints.js';
import type { Search } from './search.js';
import type { Performed } from './world.js';

/**
 * What a run of events depended on and wrote: lines of memory and slots of the thread's CPU, steps
 * of patchers that it conflicts with, and whether it touched what threads share.
 */
export class Touched {
  /** Bytes that were read, and not written by the run before. */
  readonly needed: LineBytes = new Map();
  readonly stored: LineBytes = new Map();
  /** null: all of them. */
  reads: Set<Slot> | null = new Set();
  readonly writes = new Set<Slot>();
  /** As bits (`Conflicts`). */
  conflicts = 0n;
  isShared = false;

  constructor(private readonly search: Search) {}

  ranges(ranges: readonly Range[]): void {
    const { lines } = this.search.world;
    for (const [start, end] of ranges) for (const [line, bytes] of lines.bytesIn(start, end)) this.need(line, bytes);
  }

  private need(line: number, bytes: bigint): void {
    const { needed, stored } = this;
    needed.set(line, (needed.get(line) ?? 0n) | (bytes & ~(stored.get(line) ?? 0n)));
  }

  private store(line: number, bytes: bigint): void {
    this.stored.set(line, (this.stored.get(line) ?? 0n) | bytes);
  }

  event({ footprint, use }: Performed): void {
    const { search } = this;
    const { lines } = search.world;
    this.ranges(footprint.reads);
    // A patcher's step may store nothing, and a helper less than it says.
    if (use === null || use === undefined) this.ranges(footprint.writes);
    for (const [start, end] of footprint.writes)
      for (const [line, bytes] of lines.bytesIn(start, end)) this.store(line, bytes);
    this.slots(use, use?.reads);
    for (const slot of use?.writes ?? []) this.writes.add(slot);
    this.conflicts |= search.world.conflicts.of(footprint);
    this.isShared ||= search.isShared(footprint);
  }

  /**
   * An event was looked at and others may notice it: that depends on where it would access memory,
   * not on what is there. Where an address does come from memory, to go on in front of the event is
   * not wrong either.
   */
  end({ use }: Performed): void {
    this.slots(use, use?.addresses);
  }

  private slots(use: Performed['use'], slots: readonly Slot[] = []): void {
    if (use === null || use === undefined) this.reads = null;
    else for (const slot of slots) if (!this.writes.has(slot)) this.reads?.add(slot);
  }

  /** What comes behind this, as seen from in front of it. */
  before(behind: Touched): Touched {
    const whole = new Touched(this.search);
    for (const part of [this, behind]) {
      for (const [line, bytes] of part.needed) whole.need(line, bytes);
      for (const [line, bytes] of part.stored) whole.store(line, bytes);
    }
    if (this.reads === null || behind.reads === null) whole.reads = null;
    else {
      whole.reads = new Set(this.reads);
      for (const slot of behind.reads) if (!this.writes.has(slot)) whole.reads.add(slot);
    }
    for (const { writes } of [this, behind]) for (const slot of writes) whole.writes.add(slot);
    whole.conflicts = this.conflicts | behind.conflicts;
    whole.isShared = this.isShared || behind.isShared;
    return whole;
  }
}
