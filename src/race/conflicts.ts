/**
 * Which steps of patchers an event conflicts with, as bits: the first patcher's first step is bit
 * 0. Steps are known beforehand, so that the question costs little: by the lines of 64 bytes that
 * an event touches.
 */
import { type Footprint, independent, type Range } from './footprints.js';

const LINE_BITS = 6n;

export class Conflicts {
  /** Steps that touch a line, by its number. */
  private readonly byLine = new Map<bigint, number[]>();
  /** Steps that depend on more than memory. */
  private readonly named: number[] = [];
  private readonly steps: readonly Footprint[];
  /** Bit of the first step of each patcher. */
  private readonly firsts: readonly number[];

  constructor(private readonly patchers: readonly (readonly Footprint[])[]) {
    this.steps = patchers.flat();
    let first = 0;
    this.firsts = patchers.map(({ length }) => (first += length) - length);
    this.steps.forEach(({ reads, writes, readNames, writtenNames }, step) => {
      if (readNames.length + writtenNames.length > 0) this.named.push(step);
      for (const line of new Set([...linesOf(reads), ...linesOf(writes)])) {
        const known = this.byLine.get(line);
        if (known === undefined) this.byLine.set(line, [step]);
        else known.push(step);
      }
    });
  }

  /** The steps that could be told from the event if they changed places with it. */
  of(footprint: Footprint): bigint {
    const { reads, writes, readNames, writtenNames } = footprint;
    let candidates: Set<number> | null = null;
    if (readNames.length + writtenNames.length > 0) candidates = new Set(this.named);
    for (const ranges of [reads, writes]) {
      for (const line of linesOf(ranges)) {
        const known = this.byLine.get(line);
        if (known === undefined) continue;
        candidates ??= new Set();
        for (const step of known) candidates.add(step);
      }
    }
    let found = 0n;
    for (const step of candidates ?? []) if (!independent(footprint, this.steps[step]!)) found |= this.bit(step);
    return found;
  }

  private bit(step: number): bigint {
    return 1n << BigInt(step);
  }

  /** The bit of a step. */
  bitOf(patcher: number, at: number): bigint {
    return this.bit(this.firsts[patcher]! + at);
  }

  /** The bits of what patchers have left that have done so many steps. */
  remaining(done: readonly number[]): bigint {
    let found = 0n;
    this.patchers.forEach(({ length }, patcher) => {
      const at = done[patcher]!;
      found |= ((1n << BigInt(length - at)) - 1n) << BigInt(this.firsts[patcher]! + at);
    });
    return found;
  }
}

function* linesOf(ranges: readonly Range[]): Generator<bigint> {
  for (const [start, end] of ranges) for (let line = start >> LINE_BITS; line << LINE_BITS < end; line++) yield line;
}
