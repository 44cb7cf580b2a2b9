/**
 * When V8 compiles what runs. Owns the one setting of the engine that the command line changes.
 *
 * V8 compiles a function with optimisation when it has executed some bytes of bytecode, in a thread
 * beside. Where many small files take a few hundred milliseconds as a whole, that costs a fifth of
 * the CPU time and comes too late to win it back; one large file is loops that win at once.
 */
import { setFlagsFromString } from 'node:v8';

/** V8's own number of Node 20 to 24, bytes of bytecode between two looks at a function. */
const USUAL = 67_584;
/** Thirty times that: loops of a whole second are still compiled. */
const LATE = 2_000_000;

/** Nothing is changed where the start of Node says something else. */
const isOurs = !process.execArgv.some((argument) => argument.startsWith('--interrupt-budget'));

/** Compiles what runs later than usual, until `compileAsUsual`. */
export function compileLate(): void {
  if (isOurs) setFlagsFromString(`--interrupt-budget=${LATE}`);
}

export function compileAsUsual(): void {
  if (isOurs) setFlagsFromString(`--interrupt-budget=${USUAL}`);
}
