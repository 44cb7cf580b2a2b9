/**
 * Pages whose code stays in tier 0, because it is written again and again, or calls what is:
 * compiling it, and going in and out of what is compiled, costs more than it gains.
 */
import { CODE_PAGE_BITS } from './memory.js';
import type { Address } from '../units.js';

/** A page whose compiled code was written so often stays in tier 0. */
const REWRITES = 4;
/** Instructions of a stay in compiled code that was not worth it; so many of them are too many. */
const SHORT_RUN = 32;
const SHORT_RUNS = 2_000;
/** Pages of which that is counted. */
const PAGES_COUNTED = 0x1_0000;

export class RestlessPages {
  /** How often compiled code of a page was written. */
  private readonly rewrites = new Map<number, number>();
  private any = false;
  /** How often compiled code of a page ran for a moment only, by page. */
  private readonly shortRuns = new Map<number, number>();

  has(address: Address): boolean {
    return this.rewrites.size > 0 && (this.rewrites.get(Number(address >> CODE_PAGE_BITS)) ?? 0) >= REWRITES;
  }

  /** Compiled code of the range was written. */
  countRewrite(address: Address, size: number): void {
    const last = Number((address + BigInt(size) - 1n) >> CODE_PAGE_BITS);
    for (let page = Number(address >> CODE_PAGE_BITS); page <= last && this.rewrites.size < PAGES_COUNTED; page++) {
      const count = (this.rewrites.get(page) ?? 0) + 1;
      this.rewrites.set(page, count);
      this.any ||= count >= REWRITES;
    }
  }

  /**
   * Compiled code at `address` was left after `used` instructions, so many times. True: its page,
   * which calls what is written again and again, has become one that stays in tier 0 as well.
   */
  countShortRun(address: Address, used: number, times: number): boolean {
    if (!this.any || used >= SHORT_RUN) return false;
    const page = Number(address >> CODE_PAGE_BITS);
    const before = this.shortRuns.get(page) ?? 0;
    this.shortRuns.set(page, before + times);
    if (before >= SHORT_RUNS || before + times < SHORT_RUNS) return false;
    this.rewrites.set(page, REWRITES);
    return true;
  }
}
