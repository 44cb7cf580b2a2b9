/**
 * Numbers that look random and follow from a seed alone: the same inputs give the same proof. Words
 * of 32 bits by xorshift, seeded by a mix of whatever tells one use from another.
 */

/** Mixes numbers into one of 32 bits (murmur3's finaliser after each). */
export function mix(...parts: readonly number[]): number {
  let value = 0x9e37_79b9;
  for (const part of parts) {
    value = Math.imul(value ^ part, 0x85eb_ca6b);
    value = Math.imul(value ^ (value >>> 13), 0xc2b2_ae35);
    value ^= value >>> 16;
  }
  return value >>> 0;
}

/** The state behind another one, as a signed word; it is the number that is drawn, too. */
export function following(state: number): number {
  let next = state ^ (state << 13);
  next ^= next >>> 17;
  return next ^ (next << 5);
}

export class Random {
  state: number;

  constructor(seed: number) {
    this.state = seed === 0 ? 1 : seed;
  }

  /** 0 to 2^32 - 1. */
  word(): number {
    this.state = following(this.state);
    return this.state >>> 0;
  }

  below(limit: number): number {
    return this.word() % limit;
  }

  double(): bigint {
    return (BigInt(this.word()) << 32n) | BigInt(this.word());
  }

  /** What code leaves in a register that it may change: anything, now and then a small number. */
  leftover(): bigint {
    const kind = this.below(4);
    return kind < 2 ? BigInt(kind) : this.double();
  }
}
