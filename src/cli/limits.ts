/**
 * The limits of the command that runs: its options, read once, and the clock that began with it.
 */
import {
  Deadline,
  defaultLimits,
  type LimitName,
  limitNames,
  type Limits,
  limits,
  limitText,
  parseLimit,
} from '../limits/index.js';
import type { OptionRow } from './declared.js';

/**
 * Options of yargs for some limits, made from their rows. Verbs do not see them: `commandLimits`
 * has their values.
 */
export function limitOptions(names: readonly LimitName[], hidden = false): Readonly<Record<never, OptionRow>> {
  return Object.fromEntries(
    names.map((name) => {
      const { option, what } = limits[name];
      const describe = `${what} (${limitText(name, limits[name].default)})`;
      return [option, { type: 'string', group: 'Limits (none: no limit):', describe, hidden }];
    }),
  );
}

let current: Limits = defaultLimits;
let deadline = Deadline.never;

/**
 * A command begins: the clock, too.
 * @throws ElftraceError 'usage' for a value that is none
 */
export function beginLimits(args: Readonly<Record<string, unknown>>): void {
  const given = limitNames.filter((name) => args[limits[name].option] !== undefined);
  const values = given.map((name) => [name, parseLimit(name, String(args[limits[name].option]))]);
  adoptLimits({ ...defaultLimits, ...Object.fromEntries(values) });
}

/** The limits of a command that another thread began, `seconds` being what is left of its time. */
export function adoptLimits(values: Limits): void {
  current = values;
  deadline = new Deadline(values.time);
}

export function commandLimits(): Limits {
  return current;
}

export function commandDeadline(): Deadline {
  return deadline;
}

/** For another thread, now. */
export function limitsLeft(): Limits {
  return { ...current, time: deadline.remaining() / 1000 };
}
