/** Options of verbs that read traces, which say what of a trace is shown (RT-40). */
import { ElftraceError } from '../errors.js';
import type { CallSelection, FunctionDepth, PatternMatch } from '../native/select.js';
import type { NativeTrace } from '../native/trace.js';
import { needRecords, needTimes } from './native-trace.js';

export interface TraceSelectionOptions {
  readonly filter?: readonly string[] | undefined;
  readonly notrace?: readonly string[] | undefined;
  readonly hide?: readonly string[] | undefined;
  readonly match: PatternMatch;
  readonly depth?: number | undefined;
  readonly timeRange?: string | undefined;
}

/** A number of options and triggers. @throws ElftraceError 'usage' */
export function levels(text: string | number, option: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 0xffff_ffff) {
    throw new ElftraceError('usage', `${option} takes a number of at least 1`);
  }
  return value;
}

/** `name=value` of a trigger; without a value it is undefined. */
interface TriggerWord {
  readonly word: string;
  readonly name: string;
  readonly value: string | undefined;
}

/** The parts of `F@depth=2,hide`. @throws ElftraceError 'usage' */
export function triggerParts(text: string): { readonly pattern: string; readonly actions: readonly TriggerWord[] } {
  const at = text.lastIndexOf('@');
  if (at < 1) throw new ElftraceError('usage', `-T ${text} is not of the form FUNCTION@ACTION`);
  const actions = text
    .slice(at + 1)
    .split(',')
    .map((word) => {
      const [name = '', value] = word.split('=');
      return { word, name, value };
    });
  return { pattern: text.slice(0, at), actions };
}

const UNITS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9 };

/**
 * A time of `--time-range`: with a unit since the beginning of the trace, without one in seconds of
 * CLOCK_MONOTONIC. @returns nanoseconds since the beginning; undefined: not given
 */
export function timeOf(text: string, origin: bigint, option: string): number | undefined {
  if (text === '') return undefined;
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ns|us|ms|s|m)?$/.exec(text) ?? [];
  if (number === undefined) {
    throw new ElftraceError('usage', `${option}: ${text} is no time, such as 100us, 1.5ms, 2s or 1234.567`);
  }
  if (unit !== undefined) return Number(number) * UNITS[unit]!;
  const [seconds, part = ''] = number.split('.');
  return Number(BigInt(seconds!) * 1_000_000_000n + BigInt(part.padEnd(9, '0').slice(0, 9)) - origin);
}

/** @throws ElftraceError 'usage' */
export function selectionOf(
  trace: NativeTrace,
  args: TraceSelectionOptions & { readonly depths?: readonly FunctionDepth[] | undefined },
): CallSelection {
  const { filter, notrace, hide, match, depth, depths, timeRange } = args;
  if (depth !== undefined && !(Number.isInteger(depth) && depth > 0)) {
    throw new ElftraceError('usage', '--depth takes a number of at least 1');
  }
  if (timeRange !== undefined) needTimes(trace, '--time-range');
  if (trace.counts && depth !== undefined) needRecords(trace, '--depth');
  const parts = timeRange?.split('~');
  if (parts !== undefined && parts.length !== 2) {
    throw new ElftraceError('usage', `--time-range ${timeRange} is not of the form FROM~TO; either may be left out`);
  }
  const [from, to] = (parts ?? []).map((each) =>
    timeOf(each, trace.clock.origin.nanoseconds, `--time-range ${timeRange!}`),
  );
  return { only: filter, not: notrace, hide, match, depth, depths, from, to };
}
