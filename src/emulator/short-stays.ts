/** What stays in compiled code lose that are too short, and how much of it is borne. */

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

/** Stays that ended because what follows is not compiled, as far as no region was made since. */
export class Balance {
  /** Instructions of tier 0. */
  private lost = 0;
  /** Regions that had been made by then. */
  private since = 0;

  /**
   * A stay of so many instructions, when `made` regions had been made.
   * @returns what is lost by now
   */
  add(instructions: number, made: number): number {
    if (this.since !== made) this.lost = 0;
    this.since = made;
    this.lost = Math.max(-MOST_LOST, this.lost + SHORT_STAY - instructions);
    return this.lost;
  }

  isLoss(made: number): boolean {
    return this.since === made && this.lost > 0;
  }

  clear(): void {
    this.lost = 0;
  }
}
