/** `elftrace report [DIR]`: calls and times of each function of a trace, as uftrace prints them. */
import { ElftraceError } from '../errors.js';
import { durationText } from '../native/replay.js';
import { type FunctionTotal, functionTotals } from '../native/totals.js';
import type { NativeTrace } from '../native/trace.js';
import { type Json, jsonSchema } from '../report/json.js';
import { needTimes, openTrace, sayDoubts, tracerOf, type TraceArguments } from './native-trace.js';
import { out } from './terminal.js';
import { selectionOf, type TraceSelectionOptions } from './trace-selection.js';

/** Columns, by the names that `--fields` and `--sort` take: those of uftrace, and `threads`. */
const COLUMNS: Readonly<
  Record<string, { readonly title: string; readonly value: (total: FunctionTotal) => number; readonly isTime: boolean }>
> = {
  total: { title: 'Total time', value: ({ total }) => total, isTime: true },
  self: { title: 'Self time', value: ({ self }) => self, isTime: true },
  call: { title: 'Calls', value: ({ calls }) => calls, isTime: false },
  'total-avg': { title: 'Total avg', value: ({ total, calls }) => total / calls, isTime: true },
  'total-min': { title: 'Total min', value: ({ least }) => least, isTime: true },
  'total-max': { title: 'Total max', value: ({ most }) => most, isTime: true },
  'self-avg': { title: 'Self avg', value: ({ self, calls }) => self / calls, isTime: true },
  threads: { title: 'Threads', value: ({ threads }) => threads.size, isTime: false },
};

const WIDTH = 10;
/** Columns where none are asked for. */
const TIMED = 'total,self,call';
const UNTIMED = 'call,threads';

export interface ReportArguments extends TraceArguments, TraceSelectionOptions {
  readonly json: boolean;
  /** Names of columns with commas; where there are none, those of which there is something. */
  readonly sort?: string | undefined;
  readonly fields?: string | undefined;
}

const cell = (text: string): string => text.padStart(WIDTH);

/** @throws ElftraceError 'usage' for a column that there is none of */
function columns(names: string, option: string): (typeof COLUMNS)[string][] {
  return names.split(',').map((name) => {
    const column = Object.hasOwn(COLUMNS, name) ? COLUMNS[name] : undefined;
    if (column !== undefined) return column;
    throw new ElftraceError('usage', `--${option} ${name} is not known: ${Object.keys(COLUMNS).join(', ')}`);
  });
}

/** Most first, by one column after the other; then by name. */
function sorted(totals: readonly FunctionTotal[], keys: string): FunctionTotal[] {
  const by = keys.split(',').filter((name) => name !== 'func');
  const values = by.join('') === '' ? [] : columns(by.join(','), 'sort');
  return [...totals].sort((a, b) => {
    const difference = values.map(({ value }) => value(b) - value(a)).find((each) => each !== 0);
    return difference ?? (a.called.name < b.called.name ? -1 : 1);
  });
}

function print(totals: readonly FunctionTotal[], fields: string): void {
  const shown = columns(fields, 'fields');
  out(`  ${shown.map(({ title }) => cell(title)).join('  ')}  Function`);
  out(`  ${shown.map(() => '='.repeat(WIDTH)).join('  ')}  ${'='.repeat(20)}`);
  for (const total of totals) {
    const values = shown.map(({ value, isTime }) =>
      cell(isTime ? durationText(value(total)).trimEnd() : String(value(total))),
    );
    out(`  ${values.join('  ')}  ${total.called.name}`);
  }
}

/** What is asked for, of what the trace has. */
function asked(
  { sort, fields }: ReportArguments,
  trace: NativeTrace,
): { readonly sort: string; readonly fields: string } {
  const all = { sort: sort ?? (trace.isTimed ? 'total' : 'call'), fields: fields ?? (trace.isTimed ? TIMED : UNTIMED) };
  for (const name of [...all.fields.split(','), ...all.sort.split(',')]) {
    if (COLUMNS[name]?.isTime === true) needTimes(trace, name);
  }
  return all;
}

/** What nothing is known of is left out. */
function functionJson({ called, calls, threads, total, self, least, most }: FunctionTotal, isTimed: boolean): Json {
  return {
    function: called.name,
    object: called.object,
    ...(called.source === null ? {} : { source: `${called.source.file}:${called.source.line}` }),
    calls,
    threads: threads.size,
    ...(isTimed ? { total, self, min: least, max: most } : {}),
  };
}

export async function runReport(args: ReportArguments): Promise<number> {
  columns(args.fields ?? TIMED, 'fields');
  sorted([], args.sort ?? '');
  const trace = await openTrace({ ...args, sources: args.json });
  const { sort, fields } = asked(args, trace);
  const totals = sorted(functionTotals(trace, selectionOf(trace, args)), sort);
  const calls = totals.reduce((sum, each) => sum + each.calls, 0);
  const { doubts, returns, isTimed, threadCount } = trace;
  if (args.json) {
    const functions = totals.map((each) => functionJson(each, isTimed));
    const sums = { threads: threadCount, calls, ...doubts, returns, clock: isTimed ? 'mono' : 'none' };
    out(JSON.stringify({ schema: jsonSchema, dir: args.dir, tracer: tracerOf(trace), ...sums, functions }));
  } else {
    print(totals, fields);
    out(`# ${calls} calls of ${totals.length} functions in ${threadCount} threads`);
    if (!isTimed) out(trace.counts ? '# calls are counted: there are no times' : '# times are not recorded');
    else if (!returns) out('# returns are not recorded: a call lasts until what shows that it is over');
  }
  return sayDoubts(args.dir, doubts);
}
