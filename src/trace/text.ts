/**
 * Traces as people and scripts of ftrace read them: the lines of the function tracer and of the
 * function graph tracer, as the file `trace` of a kernel shows them.
 *
 *   p-1000    [000] .....       1234: leaf <-program          one line an entry
 *
 *    0)               |  program() {                          indented by depth; the duration
 *                                                             stands where a function ends
 *    0)            12 |    leaf();
 *    0)           340 |  } // program
 *
 * A kernel's clock counts time: it prints seconds and microseconds of those. Counters it prints as
 * plain numbers, and so do we for instructions; the line `# clock:` names the unit. Programs have
 * no interrupt state, so the flags are dots.
 */
import { hex } from '../errors.js';
import { visibleLine } from '../visible.js';
import type { PointEvent, ProbeData, ReturnEvent, TraceEvent, TraceHeader, TraceSink } from './events.js';
import type { TextSink } from './ndjson.js';

const PIECE = 0x1_0000;
/** Names of tasks have at most 15 characters in a kernel. */
const TASK_MAX = 15;
const DURATION_WIDTH = 12;

/** Collects lines and gives them away in pieces. */
function lines(write: TextSink): { readonly add: (line: string) => void; readonly flush: () => void } {
  let text = '';
  return {
    add(line) {
      text += `${visibleLine(line)}\n`;
      if (text.length >= PIECE) {
        write(text);
        text = '';
      }
    },
    flush() {
      if (text !== '') write(text);
      text = '';
    },
  };
}

/** `program` of `/some/where/program`, without what would end the word. */
export function taskName(image: string): string {
  const name = image.slice(image.lastIndexOf('/') + 1).replace(/\s/g, '_');
  return name === '' ? 'elftrace' : name.slice(0, TASK_MAX);
}

function headerLines(tracer: string, header: TraceHeader): string[] {
  const { losses } = header;
  const found = [
    `# tracer: ${tracer}`,
    '#',
    `# clock: ${header.clock}`,
    `# image: ${header.image}, recorded by ${header.source === 'guest' ? 'the program itself' : 'the machine'}`,
  ];
  if (losses) {
    found.push(`# entries-in-buffer/entries-written: ${losses.kept}/${losses.written}   #P:1`);
    if (losses.dropped > 0) found.push(`# dropped: ${losses.dropped}`);
  }
  if (!header.nested) found.push('# entries only: the tracer records no returns');
  found.push('#');
  return found;
}

/**
 * Seconds and microseconds of nanoseconds, as a kernel prints them; a plain number of anything
 * else.
 */
function timestamp(time: number, header: TraceHeader): string {
  if (header.clock !== 'nanoseconds') return String(time);
  const micros = Math.floor(time / 1000);
  return `${Math.floor(micros / 1e6)}.${String(micros % 1e6).padStart(6, '0')}`;
}

/** Name of where a function was called from, for lines that have no room for offsets. */
function callerName(event: TraceEvent, header: TraceHeader): string {
  if (event.kind === 'return') return '';
  return header.nameOf(event.parent) || hex(event.parent);
}

/**
 * An event of a probe, as a kernel prints those of kprobe_events:
 * `event: (function+0x4) a=0x1 b=2`.
 */
function probeText(event: PointEvent, probe: ProbeData, header: TraceHeader): string {
  const { name, address } = event.function;
  const place = `${name}+${hex(event.ip - address)}`;
  const words = probe.arguments.map((each) => ` ${each.name}=${each.value}`).join('');
  return `${probe.event}: (${probe.isReturn ? `${callerName(event, header)} <- ${name}` : place})${words}`;
}

/**
 * The function tracer: entries in order of time; returns are not shown. Other events stand as
 * `kind: function+offset`.
 */
export function ftraceWriter(write: TextSink, header: TraceHeader): TraceSink {
  const { add, flush } = lines(write);
  const task = `${taskName(header.image)}-${header.process}`.padStart(TASK_MAX + 8);
  for (const line of headerLines('function', header)) add(line);
  add(`#${'TASK-PID'.padStart(TASK_MAX + 7)} [CPU] FLAGS    TIMESTAMP: FUNCTION <-CALLER`);
  return {
    event(event) {
      if (event.kind === 'return') return;
      const cpu = String(event.cpu).padStart(3, '0');
      const { name, address } = event.function;
      if (event.kind !== 'entry' && event.probe) {
        const at = timestamp(event.time, header).padStart(DURATION_WIDTH);
        add(`${task} [${cpu}] ..... ${at}: ${probeText(event, event.probe, header)}`);
        return;
      }
      const what = event.kind === 'entry' ? name : `${event.kind}: ${name}+${hex(event.ip - address)}`;
      const at = timestamp(event.time, header).padStart(DURATION_WIDTH);
      add(`${task} [${cpu}] ..... ${at}: ${what} <-${callerName(event, header)}`);
    },
    end: flush,
  };
}

/**
 * Durations are in the unit of the clock; of nanoseconds they are microseconds with three digits,
 * as a kernel has them.
 */
function duration(time: number, header: TraceHeader): string {
  if (header.clock !== 'nanoseconds') return String(time);
  return `${Math.floor(time / 1000)}.${String(time % 1000).padStart(3, '0')} us`;
}

/**
 * The function graph tracer. A function that calls nothing that is traced is one line; the closing
 * line of others names them. What was left without a return says so. Events of other kinds are
 * comments at their depth, calls among them in front of their function.
 */
export function graphWriter(write: TextSink, header: TraceHeader): TraceSink {
  const { add, flush } = lines(write);
  /** Times of the open entries by CPU. */
  const began: number[][] = [];
  /**
   * The last entry, until it is known whether it is a leaf. The senders reuse nothing, but the
   * contract is to copy.
   */
  let pending: { readonly cpu: number; readonly depth: number; readonly name: string } | null = null;
  for (const line of headerLines('function_graph', header)) add(line);
  const unit = header.clock === 'nanoseconds' ? 'us' : header.clock;
  add(`# CPU  DURATION (${unit})  FUNCTION CALLS`);
  const line = (cpu: number, time: string, depth: number, text: string): void => {
    add(`${String(cpu).padStart(3)}) ${time.padStart(DURATION_WIDTH)}  |  ${'  '.repeat(depth)}${text}`);
  };
  const settle = (): void => {
    if (pending) line(pending.cpu, '', pending.depth, `${pending.name}() {`);
    pending = null;
  };
  const leave = (event: ReturnEvent): void => {
    const since = began[event.cpu]?.pop();
    const time = since === undefined ? '' : duration(event.time - since, header);
    const { name } = event.function;
    const leaf = pending?.cpu === event.cpu && pending.depth === event.depth;
    if (leaf) {
      pending = null;
      line(event.cpu, time, event.depth, event.unwound ? `${name}(); /* did not return */` : `${name}();`);
    } else {
      settle();
      line(event.cpu, time, event.depth, `} /* ${name}${event.unwound ? ', did not return' : ''} */`);
    }
  };
  return {
    event(event) {
      if (event.kind === 'return') {
        leave(event);
        return;
      }
      const { name, address } = event.function;
      // What stands beside the entry of a call stands in front of it, so that a leaf stays one
      // line.
      const isBeside = event.kind === 'call' && pending?.cpu === event.cpu && pending.depth === event.depth;
      if (!isBeside) settle();
      if (event.kind !== 'entry') {
        const plain = `${event.kind}: ${name}+${hex(event.ip - address)}`;
        line(event.cpu, '', event.depth, `/* ${event.probe ? probeText(event, event.probe, header) : plain} */`);
      } else if (!header.nested) line(event.cpu, '', 0, `${name}();`);
      else {
        for (let i = began.length; i <= event.cpu; i++) began.push([]);
        began[event.cpu]!.push(event.time);
        pending = { cpu: event.cpu, depth: event.depth, name };
      }
    },
    end() {
      settle();
      flush();
    },
  };
}
