/** Floating point arithmetic of IEEE 754 on bits, for any machine. */
export {
  add,
  classify,
  compare,
  convert,
  divide,
  extremeNumber,
  fromInteger,
  multiply,
  multiplyAdd,
  roundToIntegral,
  squareRoot,
  subtract,
  toInteger,
} from './arithmetic.js';
export type { NumberClass } from './arithmetic.js';
export { BINARY32, BINARY64, EXCEPTION } from './format.js';
export type { Environment, Format, Result, Rounding } from './format.js';
