/** `elftrace mcount FILE.o -o OUT`: makes, sorts and checks `__mcount_loc`. */
import * as elf from '../elf/constants.js';
import { hex } from '../errors.js';
import { recordTable } from '../patch/record-table.js';
import { repairTables } from '../patch/repair-table.js';
import { jsonSchema } from '../report/json.js';
import type { Program } from '../program/program.js';
import { mayHaveTable } from '../sites/tables.js';
import { exitCodes } from './exit.js';
import { type InputFile, outputPath, readInput, writeOutput } from './files.js';
import { type OpenOptions, openToRead } from './open.js';
import { runSort } from './sort.js';
import { err, out } from './terminal.js';

export interface McountArguments extends OpenOptions {
  readonly path: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly compress: boolean;
  readonly sort: boolean;
  readonly nopUntraced: boolean;
  readonly zeroWeak: boolean;
  readonly repair: boolean;
  readonly json: boolean;
}

const skipped: Readonly<Record<string, string>> = {
  'has-table': 'it has a table already: copied unchanged',
  'no-calls': 'it makes no call of the profiling entry: copied unchanged',
  tracer: 'it is the tracer itself: copied unchanged',
};

export async function runMcount(args: McountArguments): Promise<number> {
  const output = outputPath(args.path, args.output, args.inPlace);
  const input = await readInput(args.path);
  const { findSites, ...opened } = await openToRead(input, args);
  const { image, program } = opened;
  const isRelocatable = image.header.type === elf.ET_REL;
  // Of an object without a table they are the calls, which are looked for to make one.
  if (args.repair || !isRelocatable || args.table !== undefined || mayHaveTable(image)) {
    const sites = findSites();
    if (args.repair) return repair(input, program, output, args);
    if (!isRelocatable) return runSort({ input, ...opened, sites }, output, args);
  }
  const result = recordTable(program, {
    path: args.path,
    sort: args.sort,
    nopUntraced: args.nopUntraced,
  });
  const written = await writeOutput(
    { output, like: args.path, form: args.compress ? input.form : 'none' },
    result.bytes,
  );
  const { plan } = result;
  for (const notice of [...result.notices, ...written]) err(`${input.name}: notice: ${notice}`);
  if (args.json) {
    out(
      JSON.stringify({
        schema: jsonSchema,
        file: input.name,
        output,
        entries: plan.slots.count,
        skipped: plan.skipped,
        untraced: plan.untraced.length,
        nopped: result.nopped,
        refusals: plan.refusals.map((each) => ({
          section: each.section.name,
          offset: hex(each.offset),
          reason: each.reason,
        })),
        remarks: plan.remarks,
      }),
    );
    return exitCodes.ok;
  }
  if (plan.skipped !== null) out(`${output}: ${skipped[plan.skipped] ?? plan.skipped}`);
  else {
    const nops = result.nopped > 0 ? ` (${result.nopped} turned into nops)` : '';
    const untraced =
      plan.untraced.length > 0 ? `, ${plan.untraced.length} calls in sections that are not traced${nops}` : '';
    out(`${output}: __mcount_loc with ${plan.slots.count} entries${untraced}`);
  }
  for (const remark of plan.remarks) out(`  note: ${remark}`);
  return exitCodes.ok;
}

/** `--repair`: for each section of code a table that goes with it. */
async function repair(input: InputFile, program: Program, output: string, args: McountArguments): Promise<number> {
  const { bytes, slots, moved, added, sections } = repairTables(program);
  const written = await writeOutput({ output, like: args.path, form: args.compress ? input.form : 'none' }, bytes);
  for (const notice of written) err(`${input.name}: notice: ${notice}`);
  const isWhole = moved === 0 && added === 0;
  if (args.json) {
    out(
      JSON.stringify({
        ...{ schema: jsonSchema, file: input.name, output, entries: slots, skipped: isWhole ? 'whole' : null },
        ...{ untraced: 0, refusals: [], remarks: [], repaired: { moved, added, sections } },
      }),
    );
  } else if (isWhole) out(`${output}: ${slots} slots, each in a table that goes with its function: copied unchanged`);
  else out(`${output}: ${slots} slots, ${added} of them new, ${moved} moved to tables that go with their functions`);
  return exitCodes.ok;
}
