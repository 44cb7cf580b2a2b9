/** Floating point arithmetic of IEEE 754 on bits, for any machine. */
export { bitLength, EXTENDED, format, pack, unpack } from './format.js';
export type { Unpacked } from './format.js';
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
export type { Comparison, NumberClass } from './arithmetic.js';
export { BINARY128, BINARY16, BINARY32, BINARY64, EXCEPTION, isNan, isSignalling, quieted } from './format.js';
export type { Environment, Format, Result, Rounding } from './format.js';
