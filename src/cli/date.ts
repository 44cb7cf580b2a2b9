/**
 * Dates as users write them: ISO 8601, seconds since 1970 as `date` of coreutils takes them, or the
 * present one.
 */
import { ElftraceError } from '../errors.js';

const SECOND = 1_000_000_000n;
/** The last second that Linux's clock, 64 bits of nanoseconds, shows: in April 2262. */
const LAST_SECOND = 9_223_372_035n;

const ISO = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?$/;
const SECONDS = /^@(\d{1,10})$/;

/**
 * Nanoseconds since 1970 of `2026-01-31`, `2026-01-31T12:00:00Z` (or `+01:00`; UTC without a zone),
 * `@1769860800` or `now`.
 * @param now  milliseconds since 1970, which `now` stands for
 * @throws ElftraceError 'usage' for other text, days that no calendar has, dates out of range
 */
export function dateOf(text: string, now: () => number = Date.now): bigint {
  const seconds = secondsOf(text, now);
  if (seconds === null || seconds < 0n || seconds > LAST_SECOND) {
    throw new ElftraceError(
      'usage',
      `--date ${text}: a date from 1970 to 2262, as 2026-01-31T12:00:00Z, @SECONDS since 1970, or now`,
      { value: text },
    );
  }
  return seconds * SECOND;
}

function secondsOf(text: string, now: () => number): bigint | null {
  if (text === 'now') return BigInt(Math.floor(now() / 1000));
  const whole = SECONDS.exec(text);
  if (whole) return BigInt(whole[1]!);
  if (!ISO.test(text)) return null;
  const hasZone = /(?:Z|[+-]\d\d:\d\d)$/.test(text.slice(10));
  const value = Date.parse(hasZone || !text.includes('T') ? text : `${text}Z`);
  // February has no day 30: such dates would become others.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  const isDay = !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text.slice(0, 10));
  return Number.isNaN(value) || !isDay ? null : BigInt(value / 1000);
}

/** The date as `--date` takes it. */
export const dateText = (date: bigint): string => new Date(Number(date / 1_000_000n)).toISOString().replace('.000', '');
