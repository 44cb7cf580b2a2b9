/**
 * Long work in pieces of some milliseconds. Between two pieces the clock is looked at, signals are
 * served (Ctrl-C ends the command, and nothing half written stays), and waiting for input goes on
 * without holding the process. Owns how large a piece is.
 */
import { guardSignals } from '../output/commit.js';
import type { Deadline } from '../limits/index.js';

/** Milliseconds that a piece should take; limits are looked at as often. */
const PIECE_MS = 20;
/** Milliseconds between two looks at signals, which cost a turn of the event loop. */
const TURN_MS = 50;
const LEAST = 1_000;
const MOST = 20_000_000;

export class Pace {
  /** Units of work (instructions) of the next piece. */
  private size = 200_000;
  private turned = performance.now();
  private readonly guard = guardSignals();

  constructor(private readonly deadline: Deadline) {}

  /** Does a piece of at most `most` units and learns how long such a piece takes. */
  piece<T>(most: number, work: (units: number) => T): T {
    const units = Math.min(most, this.size);
    const begin = performance.now();
    const result = work(units);
    if (units === this.size) {
      const factor = PIECE_MS / Math.max(0.1, performance.now() - begin);
      this.size = Math.round(Math.min(MOST, Math.max(LEAST, this.size * Math.min(4, factor))));
    }
    return result;
  }

  /**
   * True when the time of the command is over. Does not come back when a signal ended the command.
   */
  async isOver(): Promise<boolean> {
    if (performance.now() - this.turned > TURN_MS) {
      await this.guard.check();
      this.turned = performance.now();
    }
    return this.deadline.expired();
  }

  /** Waits a moment; true when the time of the command is over. */
  async wait(): Promise<boolean> {
    await new Promise((resume) => setTimeout(resume, Math.min(PIECE_MS, this.deadline.remaining())));
    await this.guard.check();
    return this.deadline.expired();
  }

  /** Signals are the process's own again. */
  end(): void {
    this.guard.end();
  }
}
