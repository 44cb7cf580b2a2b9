/**
 * Traces in the forms of others, in pieces. Where only entries are recorded, ends of calls that a
 * form needs are those of the next event that shows that the call is over (RT-30), and the form
 * says so where it can.
 */
import { visibleLine } from '../visible.js';
import { ByteWriter, type ByteSink } from './byte-writer.js';
import { writeChrome } from './chrome.js';
import { writeFtrace } from './ftrace.js';
import { titleOf } from './names.js';
import { writeNdjson } from './ndjson.js';
import { type StackNode, stackTotals } from './totals.js';
import type { NativeTrace } from './trace.js';

/** The forms that are one file. */
export const nativeFormats = {
  chrome: 'JSON for the trace viewer of Chrome, and for ui.perfetto.dev',
  folded: 'calls by stack, for flame graphs',
  ftrace: "lines of a kernel's function tracer",
  ndjson: 'one JSON object a call, in order of time',
  perfetto: 'packets for ui.perfetto.dev and trace_processor',
} as const satisfies Record<string, string>;

export type NativeFormat = keyof typeof nativeFormats;

/** Writes the whole trace in a form. */
export async function exportTrace(trace: NativeTrace, format: NativeFormat, write: ByteSink): Promise<void> {
  switch (format) {
    case 'chrome':
      writeChrome(trace, write);
      break;
    case 'folded': {
      const out = new ByteWriter(write);
      writeFolded(stackTotals(trace), [], out);
      out.flush();
      break;
    }
    case 'ftrace':
      writeFtrace(trace, write);
      break;
    case 'ndjson':
      writeNdjson(trace, write);
      break;
    case 'perfetto':
      // Its library is loaded by those who ask for it.
      (await import('./perfetto.js')).writePerfetto(trace, write);
      break;
    default:
      format satisfies never;
  }
}

const plain = (name: string): string => visibleLine(name).replace(/[;\s]/g, '_');

function writeFolded(node: StackNode, above: readonly string[], out: ByteWriter): void {
  for (const child of node.children.values()) {
    const path = [...above, plain(titleOf(child.called!))];
    out.text(`${path.join(';')} ${child.calls}\n`);
    writeFolded(child, path, out);
  }
}
