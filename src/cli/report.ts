/** `elftrace report [DIR]`: calls and times of each function of a trace, as uftrace prints them. */
import { ElftraceError } from '../errors.js';
import { durationText } from '../native/replay.js';
import { type FunctionTotal, functionTotals } from '../native/totals.js';
import { jsonSchema } from '../report/json.js';
import { openTrace, sayDoubts, tracerOf, type TraceArguments } from './native-trace.js';
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

export interface ReportArguments extends TraceArguments, TraceSelectionOptions {
  readonly json: boolean;
  readonly sort: string;
  readonly fields: string;
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
  const values = by.length === 0 ? [] : columns(by.join(','), 'sort');
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

export async function runReport(args: ReportArguments): Promise<number> {
  columns(args.fields, 'fields');
  sorted([], args.sort);
  const trace = await openTrace({ ...args, sources: args.json });
  const totals = sorted(functionTotals(trace, selectionOf(trace, args)), args.sort);
  const calls = totals.reduce((sum, each) => sum + each.calls, 0);
  if (args.json) {
    const functions = totals.map(({ called, calls: count, threads, total, self, least, most }) => ({
      function: called.name,
      object: called.object,
      ...(called.source === null ? {} : { source: `${called.source.file}:${called.source.line}` }),
      calls: count,
      threads: threads.size,
      total,
      self,
      min: least,
      max: most,
    }));
    const { doubts, returns } = trace;
    const sums = { threads: trace.tasks.length, calls, ...doubts, returns };
    out(JSON.stringify({ schema: jsonSchema, dir: args.dir, tracer: tracerOf(trace), ...sums, functions }));
  } else {
    print(totals, args.fields);
    out(`# ${calls} calls of ${totals.length} functions in ${trace.tasks.length} threads`);
    if (!trace.returns) out('# returns are not recorded: a call lasts until what shows that it is over');
  }
  return sayDoubts(args.dir, trace.doubts);
}
