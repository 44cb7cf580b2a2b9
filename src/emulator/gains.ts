/** Whether making regions has paid so far. */

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
