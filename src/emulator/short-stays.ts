/**
 * What stays in compiled code lose that are too short, and how much of it is borne; and whether
 * making regions has paid so far.
 */

/**
 * A stay in compiled code of fewer instructions is lost, if it ends because what follows is not
 * compiled: tier 0 would have been as far in the time that leaving and coming back take.
 */
const SHORT_STAY = 250;
/**
 * What a region may lose so, in instructions of tier 0, while none is made that it leads to. Code
 * that jumps about in more of it than is worth compiling (a state machine of thousands of blocks)
 * is left to tier 0 then.
 */
export const MOST_LOST = 2_000_000;
/** The same for all regions together: many small ones lose little each. */
export const MOST_LOST_BY_ALL = 8_000_000;

/**
 * What ends in another function counts for so much less: of an interpreter and what it calls each
 * function alone is a loss, until the others have paid for themselves; within one function most of
 * what stays lack is as hot as they are, or will never be worth it.
 */
const IN_OTHERS = 3;

/** What a stay of so many instructions loses; less than 0: it gains that. */
export function lostIn(instructions: number, isWithin: () => boolean): number {
  const lost = SHORT_STAY - instructions;
  return lost > 0 && !isWithin() ? lost / IN_OTHERS : lost;
}

/** Stays that ended because what follows is not compiled, as far as no region was made since. */
export class Balance {
  /** Instructions of tier 0. */
  private lost = 0;
  /** Regions that had been made by then. */
  private since = 0;

  /**
   * What a stay has lost (`lostIn`), when `made` regions had been made.
   * @returns what is lost by now
   */
  add(lost: number, made: number): number {
    if (this.since !== made) this.lost = 0;
    this.since = made;
    this.lost = Math.max(-MOST_LOST, this.lost + lost);
    return this.lost;
  }

  isLoss(made: number): boolean {
    return this.since === made && this.lost > 0;
  }

  clear(): void {
    this.lost = 0;
  }
}

/** Of an instruction in compiled code, the share that tier 0 would have taken more. */
const SAVED = 0.7;
/** What may be spent before anything has to come back, in instructions of tier 0. */
const ALLOWANCE = 30_000_000;
/** Regions have to be worth at most so many times as much as usual. */
const MOST_CAUTIOUS = 4;

/**
 * What making regions has cost in a run, and what they have saved. Who goes through much code a few
 * times (a command of a distribution) makes regions whose code is not executed much more; that is
 * seen by the first ones, and the others have to be hotter.
 */
export class Gains {
  /** Instructions of tier 0. */
  private spent = 0;
  private saved = 0;

  /** A region was made, which costs so much. */
  made(cost: number): void {
    this.spent += cost;
  }

  /** Compiled code has executed so many. */
  executed(instructions: number): void {
    this.saved += SAVED * instructions;
  }

  /** How many times as much as usual a region has to be worth. */
  get caution(): number {
    return Math.min(MOST_CAUTIOUS, Math.max(1, this.spent / (this.saved + ALLOWANCE)));
  }
}
