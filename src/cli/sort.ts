/**
 * `elftrace mcount` on a linked file: sorts the table it has, and on request empties slots of
 * overridden weak functions.
 */
import { hex } from '../errors.js';
import { type SortRequest, sortTable } from '../pipeline/sort.js';
import type { SortedTable } from '../sites/table-sort.js';
import { jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { writeOutput } from './files.js';
import type { Opened } from './open.js';
import { err, out } from './terminal.js';

export interface SortArguments extends SortRequest {
  readonly compress: boolean;
  readonly json: boolean;
}

export async function runSort(opened: Opened, output: string, args: SortArguments): Promise<number> {
  const { input } = opened;
  const { bytes, plan, isChanged, notices } = sortTable(opened, args);
  const written = await writeOutput({ output, like: args.path, form: args.compress ? input.form : 'none' }, bytes);
  for (const notice of [...written, ...notices]) err(`${input.name}: notice: ${notice}`);
  printSorted(input.name, output, plan, isChanged, args.json);
  return exitCodes.ok;
}

function printSorted(file: string, output: string, plan: SortedTable, changed: boolean, json: boolean): void {
  if (json) {
    out(
      JSON.stringify({
        schema: jsonSchema,
        file,
        output,
        entries: plan.slots,
        skipped: changed ? null : 'sorted',
        untraced: 0,
        zeros: plan.zeros,
        dropped: plan.dropped.map(hex),
        refusals: [],
        remarks: [],
      }),
    );
  } else {
    const dropped = plan.dropped.length > 0 ? `, ${plan.dropped.length} of overridden weak functions emptied` : '';
    out(`${output}: ${plan.slots} slots ${changed ? 'sorted' : 'were in order'}, ${plan.zeros} empty${dropped}`);
  }
}
