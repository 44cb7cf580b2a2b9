/**
 * The calls of a trace as uftrace's `replay` prints them: in order of their begin, indented, one
 * line for a call that calls nothing, with how long each lasted where it ends.
 *
 *   # DURATION     TID     FUNCTION
 *               [  1044] | main() {
 *      0.040 us [  1044] |   leaf();
 *      1.200 us [  1044] | } (main)
 *
 * The callers of functions that were asked for stand in front of their line, whether those are
 * shown or not.
 *
 * Where there are no times, durations are left out, and threads stand one after the other.
 *
 * Whether a call calls anything is known at the next event of its thread. Lines wait for that, so
 * many of them at most.
 */
import type { NativeFunction } from './objects.js';
import { type CallSelection, selector } from './select.js';
import type { NativeTrace } from './trace.js';
import type { CallListener, Values } from './tree.js';
import { argumentsText, resultText } from './values.js';
import { visibleLine } from '../visible.js';

const WAITING_MAX = 1 << 14;
/** Deeper calls are indented as far as this. */
const INDENT_MAX = 64;

const UNITS = ['us', 'ms', 's', 'm'] as const;

/** A duration in nanoseconds, as uftrace prints it: 10 columns. */
export function durationText(time: number): string {
  let [value, unit] = [time / 1000, 0];
  for (; unit < 2 && value >= 1000; unit++) value /= 1000;
  if (unit === 2 && value >= 60) [value, unit] = [value / 60, 3];
  return `${value.toFixed(3).padStart(7)} ${UNITS[unit]!.padEnd(2)}`;
}

interface Line {
  /** Empty: it is not known yet. */
  text: string;
}

const indent = (depth: number): string => '  '.repeat(Math.min(depth, INDENT_MAX));
const NO_DURATION = ' '.repeat(10);

/** What is special about lines of some functions. */
export interface LineMarks {
  /** In front of whose calls their callers stand; null: of none. */
  readonly hasCallers: ((called: NativeFunction) => boolean) | null;
  /** What functions are called where they are shown. */
  readonly nameOf: (called: NativeFunction) => string;
  /** How what is no call is shown. */
  readonly aside: (text: string) => string;
}

export function replayLines(
  trace: NativeTrace,
  selection: CallSelection,
  marks: LineMarks,
  out: (line: string) => void,
): void {
  const select = selector(selection);
  const waiting: Line[] = [];
  let first = 0;
  const send = (): void => {
    const isLong = waiting.length - first > WAITING_MAX;
    while (first < waiting.length && (waiting[first]!.text !== '' || isLong)) out(waiting[first++]!.text);
    if (first <= WAITING_MAX) return;
    waiting.splice(0, first);
    first = 0;
  };
  const listeners: Reader[] = [];
  trace.inOrder(({ header }) => {
    const title = `[${String(header.thread).padStart(6)}] |`;
    const callers: NativeFunction[] = [];
    const reader = new Reader(title, trace.isTimed, marks, callers, (line) => {
      waiting.push(line);
      // One that waits for too long is a call that calls something, for all that is known.
      if (waiting.length - first > WAITING_MAX) for (const each of listeners) each.settle();
      send();
    });
    listeners.push(reader);
    return marks.hasCallers === null ? select(reader) : withCallers(callers, select(reader));
  });
  for (const each of listeners) each.settle();
  send();
}

/** Keeps what is open of a thread, also what is not shown. */
function withCallers(callers: NativeFunction[], listener: CallListener): CallListener {
  return {
    enter: (called, depth, time, values) => {
      callers.length = depth;
      listener.enter(called, depth, time, values);
      callers.push(called);
    },
    leave: (called, depth, time, isExact, values) => {
      listener.leave(called, depth, time, isExact, values);
    },
    executed: (session) => listener.executed?.(session),
  };
}

/** A call of which nothing is known to be inside. */
interface Pending {
  readonly line: Line;
  readonly called: NativeFunction;
  readonly depth: number;
  readonly values: Values;
}

/** Lines of one thread. */
class Reader implements CallListener {
  private readonly starts: number[] = [];
  private pending: Pending | null = null;

  constructor(
    private readonly thread: string,
    private readonly isTimed: boolean,
    private readonly marks: LineMarks,
    private readonly callers: readonly NativeFunction[],
    private readonly add: (line: Line) => void,
  ) {}

  enter(called: NativeFunction, depth: number, time: number, values: Values = null): void {
    this.settle();
    this.starts[depth] = time;
    if (this.marks.hasCallers?.(called) === true) this.addCallers();
    const line = { text: '' };
    this.pending = { line, called, depth, values };
    this.add(line);
  }

  leave(called: NativeFunction, depth: number, time: number, _isExact: boolean, values: Values = null): void {
    const result = visibleLine(resultText(values));
    const spent = this.isTimed ? durationText(time - this.starts[depth]!) : NO_DURATION;
    const { pending } = this;
    if (pending?.depth === depth) {
      this.pending = null;
      pending.line.text = `${spent} ${this.thread} ${indent(depth)}${this.shown(called, pending.values)}${result};`;
      return;
    }
    this.settle();
    this.add({
      text: `${spent} ${this.thread} ${indent(depth)}}${result}${result === '' ? '' : ';'} /* ${called.name} */`,
    });
  }

  private addCallers(): void {
    this.callers.forEach(({ name }, i) => {
      const text = this.marks.aside(`/* [${String(i).padStart(2)}] ${name} */`);
      this.add({ text: ` backtrace ${this.thread} ${text}` });
    });
  }

  /** The call that waits calls something. */
  settle(): void {
    if (this.pending === null) return;
    const { line, called, depth, values } = this.pending;
    line.text = `${NO_DURATION} ${this.thread} ${indent(depth)}${this.shown(called, values)} {`;
    this.pending = null;
  }

  /** Names of C++ have their arguments with them. */
  private shown(called: NativeFunction, values: Values): string {
    const name = this.marks.nameOf(called);
    if (values !== null) return `${name.replace(/\(.*\)$/, '')}${visibleLine(argumentsText(values))}`;
    return name.endsWith(')') ? name : `${name}()`;
  }
}
