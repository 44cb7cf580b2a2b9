/**
 * A trace as text, one JSON object a line: first what the trace is, then the events. Lines are
 * given away in pieces of about 64 KiB; nothing is kept.
 */
import { hex } from '../errors.js';
import {
  type ClockUnit,
  type ProbeData,
  type TracedFunction,
  type TraceLosses,
  traceSchema,
  type TraceSink,
} from './events.js';

/** Receives text; called again and again until the end of the run. */
export type TextSink = (text: string) => void;

const PIECE = 0x1_0000;

export interface NdjsonOptions {
  /** Who recorded: the machine's hooks, or the program itself. */
  readonly source: 'oracle' | 'guest';
  /** Name of the image, for people. */
  readonly image: string;
  /** Default `instructions`. */
  readonly clock?: ClockUnit;
  /** False: entries only. Default true. */
  readonly nested?: boolean;
  readonly losses?: TraceLosses | null;
}

/** `{event: 'GROUP/NAME', return, arguments: {NAME: VALUE}}`. */
function probeJson({ group, event, isReturn, arguments: list }: ProbeData): object {
  return {
    event: `${group}/${event}`,
    return: isReturn,
    arguments: Object.fromEntries(list.map(({ name, value }) => [name, value])),
  };
}

/**
 * Writes `{kind, function, address, site, cpu, depth, time}`, with `parent` for entries, `ip` and
 * `parent` for points.
 */
export function ndjsonWriter(write: TextSink, options: NdjsonOptions): TraceSink {
  const { source, image, clock = 'instructions', nested = true, losses } = options;
  const first = { schema: traceSchema, clock, source, image, ...(nested ? {} : { nested }), ...(losses ?? {}) };
  let text = `${JSON.stringify(first)}\n`;
  const heads: string[] = [];
  const head = (traced: TracedFunction): string => {
    const site = traced.site === null ? 'null' : `"${hex(traced.site)}"`;
    const made = `"function":${JSON.stringify(traced.name)},"address":"${hex(traced.address)}","site":${site}`;
    heads[traced.index] = made;
    return made;
  };
  return {
    event(event) {
      const named = heads[event.function.index] ?? head(event.function);
      const where = `"cpu":${event.cpu},"depth":${event.depth},"time":${event.time}`;
      let rest = '';
      if (event.kind === 'return') rest = event.unwound ? ',"unwound":true' : '';
      else if (event.kind === 'entry') rest = `,"parent":"${hex(event.parent)}"`;
      else {
        rest = `,"ip":"${hex(event.ip)}","parent":"${hex(event.parent)}"`;
        if (event.probe) rest += `,"probe":${JSON.stringify(probeJson(event.probe))}`;
      }
      text += `{"kind":"${event.kind}",${named},${where}${rest}}\n`;
      if (text.length >= PIECE) {
        write(text);
        text = '';
      }
    },
    end() {
      if (text !== '') write(text);
      text = '';
    },
  };
}
