/**
 * `elftrace mcount` on a linked file: sorts the table it has, and on request empties slots of
 * overridden weak functions.
 */
import { ElftraceError, hex } from '../errors.js';
import { writeElf } from '../elf/write.js';
import { skippedSlot } from '../patch/empty-slots.js';
import { functionCover, planTableSort, type SortedTable } from '../sites/table-sort.js';
import { findTableRange } from '../sites/tables.js';
import { jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { writeOutput } from './files.js';
import type { Opened } from './open.js';
import { err, out } from './terminal.js';

export interface SortArguments {
  readonly path: string;
  readonly compress: boolean;
  readonly sort: boolean;
  readonly zeroWeak: boolean;
  readonly json: boolean;
}

export async function runSort(opened: Opened, output: string, args: SortArguments): Promise<number> {
  const { image, arch, input, sites } = opened;
  const range = findTableRange(image, opened.program.symbols) ?? sectionRange(opened);
  if (!range) {
    throw new ElftraceError(
      'unsupported-form',
      'the file is linked and has no site table to sort; a table is made for the objects before they are linked',
      { file: args.path },
    );
  }
  // Entries of patchable functions may lie in front of the symbol (M-WEAK-2).
  const before = sites.sources.includes('patchable-table') ? 8n : 0n;
  const plan = planTableSort(
    image,
    arch,
    range,
    args.zeroWeak ? { inFunction: functionCover(image, before, (of, symbol) => arch.abi.codePlace(of, symbol)) } : {},
  );
  if (plan.kind === 'refused') {
    throw new ElftraceError('plan-refused', `the table cannot be sorted: ${plan.reason}; nothing was written`, {
      file: args.path,
    });
  }
  const trailing = image.bytes.length - image.elfSize;
  const changes = args.sort ? plan.patches : [];
  const written = writeElf(image, {
    patches: changes.map(({ offset, after }) => ({ offset, bytes: after })),
    dropTrailing: trailing > 0 && changes.length > 0,
  });
  const notices = await writeOutput(
    { output, like: args.path, form: args.compress ? input.form : 'none' },
    written.bytes,
  );
  for (const notice of notices) err(`${input.name}: notice: ${notice}`);
  if (plan.dropped.length > 0 && sites.tables.some(({ zero }, i) => zero === 0 && skippedSlot(sites, i).value !== 0n)) {
    err(
      `${input.name}: notice: kernels before 6.15 add to slots of such sites before they ask for 0: on one of these function tracing stops`,
    );
  }
  for (const { value, slots } of plan.duplicates) err(`${input.name}: notice: ${hex(value)} stands in ${slots} slots`);
  printSorted(input.name, output, plan, changes.length > 0, args.json);
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

/** A table that is a section of its own. */
function sectionRange(opened: Opened): { start: bigint; stop: bigint } | null {
  for (const table of opened.sites.tables) {
    const section = opened.image.sections[table.container];
    if (table.role === 'sites' && section)
      return { start: section.address, stop: section.address + BigInt(section.size) };
  }
  return null;
}
