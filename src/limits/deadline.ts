/** The clock of a command: when it must have ended. */
import type { ElftraceError, ErrorContext } from '../errors.js';
import { limitExceeded } from './rows.js';

/** Milliseconds of a clock. Node takes more than one to load that of `performance`. */
function now(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}

/**
 * A moment on the wall clock, which steps of the system's time do not move. Work that takes long
 * looks at it: `expired()` where a result of its own says that the time was over, `check()` where
 * an error says it.
 */
export class Deadline {
  /** Never comes. */
  static readonly never = new Deadline(Infinity);

  readonly #end: number;

  /** @param seconds  from now on; Infinity: never */
  constructor(readonly seconds: number) {
    this.#end = now() + seconds * 1000;
  }

  /**
   * True once the time is over, and from then on. A look costs less than a tenth of a microsecond.
   */
  expired(): boolean {
    return now() >= this.#end;
  }

  /** Milliseconds that are left, never negative; Infinity where there is no end. */
  remaining(): number {
    return Math.max(0, this.#end - now());
  }

  /** The error that says it. `what` took too long. */
  error(what: string, context: ErrorContext = {}): ElftraceError {
    return limitExceeded('time', what, this.seconds, context);
  }

  /** @throws ElftraceError 'timeout' once the time is over */
  check(what: string, context: ErrorContext = {}): void {
    if (this.expired()) throw this.error(what, context);
  }
}
