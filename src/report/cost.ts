/** What `callCosts` found, as JSON and as a table. */
import type { Cost } from '../cost/index.js';
import { type Json, jsonSchema } from './json.js';

/**
 * The costs of calls as `cost --json` prints them.
 * @param target  of the image: `arch.target.id`
 */
export function costJson(file: string, target: string, { quiet, rows, absent }: Cost): Json {
  return {
    schema: jsonSchema,
    file,
    target,
    callback: 'elftrace_counter',
    others: { ...quiet },
    rows: rows.map(({ others, ways }) => ({ others, ways: ways.map((each) => ({ ...each })) })),
    absent: absent.map((each) => ({ ...each })),
  };
}

/**
 * The costs of calls as a table.
 * @param title  of the machine: `arch.target.title`
 */
export function costLines(title: string, { quiet, rows, absent }: Cost): string[] {
  const calls = rows[0]?.ways[0]?.calls ?? 0;
  const lines = [
    `${title}: instructions per traced call, ${String(calls)} calls of every function but ${quiet.function}, which the others want`,
  ];
  const columns = rows[0]?.ways.map(({ way }) => way) ?? [];
  const width = (column: string): number => Math.max(column.length, ' 1000.0 list'.length) + 2;
  lines.push(['other tracers', ...columns].map((each, i) => (i === 0 ? each : each.padStart(width(each)))).join(''));
  for (const { others, ways } of rows) {
    const texts = ways.map(({ way, instructionsPerCall, listRuns, calls }) =>
      `${instructionsPerCall.toFixed(1)} ${calls > 0 && listRuns >= calls ? 'list' : '    '}`.padStart(width(way)),
    );
    lines.push(`${String(others).padEnd('other tracers'.length)}${texts.join('')}`.trimEnd());
  }
  for (const { way, reason } of absent) lines.push(`no ${way}: ${reason}`);
  const privates = rows.flatMap(({ ways }) => ways.filter(({ way }) => way.startsWith('private')));
  if (privates.some(({ trampoline }) => !trampoline)) {
    lines.push('no private trampoline was made: a site is out of its reach, or there is no room');
  } else if (privates.some(({ listRuns }) => listRuns > quiet.calls)) {
    // Without those of the other function, which several want.
    const most = Math.max(...privates.map(({ listRuns }) => listRuns)) - quiet.calls;
    lines.push(
      `${String(most)} calls went through the list all the same: their sites are out of reach of the trampoline`,
    );
  }
  return lines;
}
