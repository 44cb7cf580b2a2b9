/**
 * A trace as the file `trace` of a kernel's function tracer prints it: one line a call, with the
 * function that called it. Times are those of CLOCK_MONOTONIC, the kernel's trace clock `mono`.
 * Which processor a thread ran on is not recorded, and programs have no interrupt state.
 */
import { visibleLine } from '../visible.js';
import { blockOf, ByteWriter, type ByteSink } from './byte-writer.js';
import { perFunction, titleInObject } from './names.js';
import type { NativeFunction } from './objects.js';
import type { NativeTrace, TraceThread } from './trace.js';

const HEAD = `# tracer: function
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
`;

/** Names of tasks have at most 15 characters; `<...>` where a kernel does not know one. */
function taskOf({ header }: TraceThread): string {
  const name = visibleLine(header.threadName).replaceAll(' ', '_');
  return `${(name === '' ? '<...>' : name).slice(0, 15).padStart(16)}-${String(header.thread).padEnd(7)}`;
}

export function writeFtrace(trace: NativeTrace, sink: ByteSink): void {
  const out = new ByteWriter(sink);
  const { dropped } = trace.doubts;
  out.text(HEAD);
  if (dropped > 0) out.text(`# dropped: ${dropped}\n`);
  const shown = (called: NativeFunction): string => visibleLine(titleInObject(called));
  const callee = perFunction((called) => blockOf(`: ${shown(called)} <-`));
  const caller = perFunction((called) => blockOf(`${shown(called)}\n`));
  const none = blockOf('0x0\n');
  const origin = Number(trace.clock.origin.nanoseconds);
  trace.inOrder((thread) => {
    const task = blockOf(`${taskOf(thread)} [000] ..... `);
    const path: NativeFunction[] = [];
    return {
      enter: (called, depth, time) => {
        const above = depth === 0 ? undefined : path[depth - 1];
        path[depth] = called;
        const microseconds = Math.floor((origin + time) / 1000);
        const seconds = Math.floor(microseconds / 1e6);
        const rest = microseconds - seconds * 1e6;
        out.block(task);
        out.number(seconds);
        out.u8(0x2e);
        out.padded(Math.floor(rest / 1000), 3);
        out.padded(rest % 1000, 3);
        out.block(callee(called));
        out.block(above === undefined ? none : caller(above));
      },
      leave: () => undefined,
    };
  });
  out.flush();
}
