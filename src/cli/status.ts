/**
 * `elftrace status FILE`: what is enabled now, read from the bytes, in the columns of `enabled_functions`; what the record says
 * was asked; and where the two disagree.
 */
import { readElf } from '../elf/read.js';
import { hex, hexBytes } from '../errors.js';
import { unpatched } from '../ftrace/apply.js';
import { formatFunctions } from '../ftrace/core/index.js';
import { disagreements } from '../ftrace/journal.js';
import { planSession } from '../ftrace/session-plan.js';
import { isAllocated, opsObjects } from '../ftrace/trampolines.js';
import { functionJson, type Json, jsonSchema, recordJson } from '../report/json.js';
import { exitCodes } from './exit.js';
import { readInputs } from './files.js';
import { hash, open, type Opened, type OpenOptions } from './open.js';
import { selectSites, type SelectionOptions } from './selection.js';
import { out } from './terminal.js';

export interface StatusArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  readonly json: boolean;
}

export async function runStatus(args: StatusArguments): Promise<number> {
  let exit: number = exitCodes.ok;
  for await (const input of readInputs(args.path)) {
    const opened = await open(input, args);
    const { sites, program, record, module, image } = opened;
    const selection = selectSites(sites, module, args);
    const { byState } = sites.totals();
    const objects = opsObjects(program);
    /** A trampoline is known by the ops that has it, and by what that calls. */
    const owner = (address: bigint): string | null => {
      const ops = objects.find((each) => isAllocated(each) && each.trampoline === address);
      const code = ops && program.codeAt(ops.func);
      if (!ops) return null;
      return `trampoline of ops ${ops.index} (${(code && program.describe(code, ops.func)) || hex(ops.func)})`;
    };
    const enabled: Json[] = [];
    const lines: string[] = [];
    for (let i = 0; i < sites.count; i++) {
      if (sites.state(i) !== 'call' || (selection && !selection[i])) continue;
      const target = sites.reading(i)?.target ?? null;
      const final = target === null ? null : program.finalTarget(target);
      const range = final === null ? undefined : program.codeAt(final);
      const named = final === null ? '' : (owner(final) ?? ((range && program.describe(range, final)) || hex(final)));
      const callee = final === target ? named : `${named} through ${hex(target ?? 0n)}`;
      if (args.json)
        enabled.push({ function: functionJson(sites, i, module), calls: target === null ? null : hex(target), callee });
      // name, attached ops, the columns R I D O M (none of them is known from bytes alone), callee
      else lines.push(`${program.symbolName(sites.functionSymbol(i)) || hex(sites.ip(i))} (1)             ->${callee}`);
    }
    const wrong = record ? disagreements(record, image.bytes) : [];
    if (wrong.length > 0) exit = exitCodes.failed;
    if (args.json) {
      out(
        JSON.stringify({
          schema: jsonSchema,
          file: input.name,
          states: byState,
          enabled,
          record: recordJson(record),
          disagreements: wrong.map((each) => ({
            fileOffset: each.offset,
            recorded: hexBytes(each.recorded),
            actual: hexBytes(each.actual),
          })),
        }),
      );
      continue;
    }
    const states = Object.entries(byState).map(([state, count]) => `${count} ${state}`);
    out(`# ${input.name}: ${states.length === 0 ? 'no sites' : states.join(', ')}`);
    out(
      record
        ? `# record: ${record.requests.join(', ')} by elftrace ${record.tool}, ${record.edits.length} places, original sha256 ${record.sha256}`
        : '# no record: nothing in this file was changed by elftrace',
    );
    for (const each of wrong) {
      out(
        `# state-mismatch at file offset ${hex(each.offset)}: recorded ${hexBytes(each.recorded)}, actual ${hexBytes(each.actual)}`,
      );
    }
    // What sessions want is known to the core only: who is attached, and how often.
    if (record && record.session.length > 0 && wrong.length === 0) out(sessionListing(opened).trimEnd());
    else for (const line of lines) out(line);
  }
  return exit;
}

/** `enabled_functions` of the sessions that the record keeps. */
function sessionListing({ image, arch, record }: Opened): string {
  const { session } = planSession(
    readElf(unpatched(image, null, hash)),
    arch,
    (record?.session ?? []).map((text, i) => ({ name: `recorded session ${i + 1}`, text })),
  );
  return formatFunctions(session.core.enabledFunctions());
}
