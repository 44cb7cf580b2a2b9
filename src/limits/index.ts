/**
 * Limits: how large, how much, how long. One row for each limit that a user may move, and the
 * clock. Every room may import this one; it enforces nothing itself.
 */
export {
  defaultLimits,
  limitExceeded,
  type LimitName,
  limitNames,
  type Limits,
  limits,
  limitText,
  parseLimit,
  parseSeconds,
  parseSize,
  sizeText,
} from './rows.js';
export { Deadline } from './deadline.js';
