/**
 * Reads the text form of traces back (`ndjson.ts` writes it). What is no such text is an error with
 * its line; keys that are not known are passed over, as later versions may have more.
 */
import { ElftraceError } from '../errors.js';
import { type ClockUnit, traceSchema, type TraceEvent, type TraceLosses } from './events.js';

/** The first line. */
export interface ReadHeader {
  readonly source: 'oracle' | 'guest';
  readonly image: string;
  readonly clock: ClockUnit;
  readonly nested: boolean;
  /** null: nothing was said of losses. */
  readonly losses: TraceLosses | null;
}

/** An event with what every line has. */
export interface ReadEvent {
  readonly kind: TraceEvent['kind'];
  readonly function: string;
  readonly cpu: number;
  readonly depth: number;
  readonly time: number;
}

const kinds: ReadonlySet<string> = new Set<TraceEvent['kind']>(['entry', 'return', 'direct', 'probe', 'user', 'call']);
const clocks: ReadonlySet<string> = new Set<ClockUnit>(['instructions', 'nanoseconds', 'ticks', 'events']);

function bad(line: number, why: string): ElftraceError {
  return new ElftraceError('bad-record', `line ${line} of the trace: ${why}`, { value: line });
}

function objectOf(text: string, line: number): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw bad(line, 'no JSON; traces of run --trace are read in the form ndjson');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad(line, 'no JSON object');
  return value as Record<string, unknown>;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function headerOf(text: string): ReadHeader {
  const { schema, clock, source, image, nested, written, kept, dropped } = objectOf(text, 1);
  if (schema !== traceSchema) throw bad(1, `it does not begin with "schema":${traceSchema}, as run --trace writes`);
  if (typeof clock !== 'string' || !clocks.has(clock)) throw bad(1, 'no clock that is known');
  if (source !== 'oracle' && source !== 'guest') throw bad(1, 'no source that is known');
  return {
    source,
    image: typeof image === 'string' ? image : '',
    clock: clock as ClockUnit,
    nested: nested !== false,
    losses: isCount(written) && isCount(kept) && isCount(dropped) ? { written, kept, dropped } : null,
  };
}

function eventOf(text: string, line: number): ReadEvent {
  const { kind, function: name, cpu, depth, time } = objectOf(text, line);
  if (typeof kind !== 'string' || !kinds.has(kind)) throw bad(line, 'an event of no kind that is known');
  if (typeof name !== 'string') throw bad(line, 'an event without a function');
  if (!isCount(cpu) || !isCount(depth) || !isCount(time)) throw bad(line, 'cpu, depth and time are whole numbers');
  return { kind: kind as ReadEvent['kind'], function: name, cpu, depth, time };
}

/**
 * A trace that `run --trace` has written as ndjson.
 * @returns what it is, and its events in the order of the file, read as they are asked for
 * @throws ElftraceError 'bad-record', of events when they are asked for
 */
export function readTrace(text: string): { readonly header: ReadHeader; readonly events: Generator<ReadEvent> } {
  const first = text.indexOf('\n');
  const header = headerOf(first < 0 ? text : text.slice(0, first));
  return { header, events: first < 0 ? eventsFrom(text, text.length) : eventsFrom(text, first + 1) };
}

function* eventsFrom(text: string, start: number): Generator<ReadEvent> {
  let line = 2;
  for (let at = start; at < text.length; line++) {
    const end = text.indexOf('\n', at);
    const stop = end < 0 ? text.length : end;
    if (stop > at) yield eventOf(text.slice(at, stop), line);
    at = stop + 1;
  }
}
