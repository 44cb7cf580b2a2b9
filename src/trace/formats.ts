/** The forms in which a trace is written, by the names that `--format` takes. */
import { visibleJson } from '../visible.js';
import type { TraceHeader, TraceSink } from './events.js';
import { foldedWriter } from './folded.js';
import { ndjsonWriter, type TextSink } from './ndjson.js';
import { ftraceWriter, graphWriter } from './text.js';
import { type ByteSink, chromeWriter, perfettoWriter } from './timeline.js';

/** What each is for. */
export const traceFormats = {
  ndjson: 'one JSON object an event',
  folded: 'sums by stack, for flame graphs',
  ftrace: 'lines of the function tracer',
  graph: 'calls indented by depth, with durations',
  chrome: 'JSON for the trace viewer of Chrome',
  perfetto: 'packets for ui.perfetto.dev',
} as const satisfies Record<string, string>;

export type TraceFormat = keyof typeof traceFormats;

export function isTraceFormat(name: string): name is TraceFormat {
  return Object.hasOwn(traceFormats, name);
}

/** A sink that writes its events in a form. The head is written at the latest with the end. */
export function traceWriter(format: TraceFormat, write: ByteSink, header: TraceHeader): TraceSink {
  const encoder = new TextEncoder();
  const text: TextSink = (piece) => {
    write(encoder.encode(piece));
  };
  const json: TextSink = (piece) => {
    text(visibleJson(piece));
  };
  switch (format) {
    case 'ndjson':
      return ndjsonWriter(json, header);
    case 'folded':
      return foldedWriter(text, {
        start: header.source === 'guest' ? 'first-event' : 'zero',
        nested: header.nested,
        nameOf: header.nameOf,
      });
    case 'ftrace':
      return ftraceWriter(text, header);
    case 'graph':
      return graphWriter(text, header);
    case 'chrome':
      return chromeWriter(json, header);
    case 'perfetto':
      return perfettoWriter(write, header);
    default:
      return format satisfies never;
  }
}
