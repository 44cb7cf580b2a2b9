/** Random numbers for tests: the same in each run, so that a difference can be looked at again. */

/** The seed where nobody gives another. */
const SEED = 0x2545_f491;

export class Random {
  constructor(private state = SEED) {}

  below(limit: number): number {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state = (this.state ^ (this.state << 5)) >>> 0;
    return this.state % limit;
  }

  /** 64 bits, as often short as long, some of them negative. */
  wide(): bigint {
    const value = (BigInt(this.below(0xffff_fffb)) << 32n) | BigInt(this.below(0xffff_fffb));
    const kept = value >> BigInt(this.below(64));
    return this.below(3) === 0 ? BigInt.asUintN(64, -kept) : kept;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!;
  }
}
