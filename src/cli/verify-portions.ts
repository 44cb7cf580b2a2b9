/**
 * Paths that several threads judge, in portions that each thread takes for itself when it has done
 * what it had: one that had to ask another thread, which judges as well, waited for half of its
 * time. Owns the two numbers that the threads share.
 */

/** Paths that one thread has taken. */
export interface Portion {
  /** Place of the first path among all. */
  readonly index: number;
  readonly paths: readonly string[];
}

/** What is handed to other threads. */
export interface SharedWork {
  readonly work: readonly (readonly string[])[];
  readonly counters: Int32Array<SharedArrayBuffer>;
  /** Results that may wait to be printed. */
  readonly ahead: number;
}

/** Places of the shared numbers: portions that were taken, paths whose results were printed. */
const TAKEN = 0;
const PRINTED = 1;
/** Results for each thread that may wait to be printed. */
const AHEAD = 128;
/** A wait that was not ended looks again. */
const LOOK_MS = 100;

export function sharedWork(work: SharedWork['work'], threads: number): SharedWork {
  return { work, counters: new Int32Array(new SharedArrayBuffer(8)), ahead: AHEAD * threads };
}

/** One thread's view of the work. */
export class Portions {
  /** Place of the first path of each. */
  private readonly begins: readonly number[];

  constructor(private readonly shared: SharedWork) {
    let begin = 0;
    this.begins = shared.work.map(({ length }) => (begin += length) - length);
  }

  /** Portions that no other thread takes, until there are none. */
  *taken(): Generator<Portion, void, undefined> {
    const { work, counters } = this.shared;
    for (;;) {
      const at = Atomics.add(counters, TAKEN, 1);
      if (at >= work.length) return;
      yield { index: this.begins[at]!, paths: work[at]! };
    }
  }

  /** All results in front of path number `index` were printed. */
  printed(index: number): void {
    const { counters } = this.shared;
    Atomics.store(counters, PRINTED, index);
    Atomics.notify(counters, PRINTED);
  }

  /**
   * Whether the result of a path must wait for so many others that its thread should, too: a large
   * file does not make those behind it pile up. Never true of the first path that is not printed.
   */
  isFarAhead(index: number): boolean {
    const { counters, ahead } = this.shared;
    return index - Atomics.load(counters, PRINTED) >= ahead;
  }

  /** Stops this thread, which must not be the one that prints, while `isFarAhead`. */
  waitFor(index: number): void {
    const { counters, ahead } = this.shared;
    for (;;) {
      const printed = Atomics.load(counters, PRINTED);
      if (index - printed < ahead) return;
      Atomics.wait(counters, PRINTED, printed, LOOK_MS);
    }
  }
}
