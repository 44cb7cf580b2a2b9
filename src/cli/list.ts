/** `elftrace list FILE`: one traceable function per line, in the order of the sites. */
import { isCovered } from '../sites/verdicts.js';
import { functionJson, type Json, jsonSchema } from '../report/json.js';
import { readInputs } from './files.js';
import { open, type OpenOptions } from './open.js';
import { selectSites, type SelectionOptions } from './selection.js';
import { err, out } from './terminal.js';

export interface ListArguments extends OpenOptions, SelectionOptions {
  readonly path: string;
  readonly json: boolean;
}

export async function runList(args: ListArguments): Promise<number> {
  for await (const input of readInputs(args.path)) {
    const { sites, program, module } = await open(input, args, 'read');
    // Names alone do not say whose they are.
    if (input.wrapped.length > 0) err(`${input.name}: notice: functions of the ELF file inside`);
    const selection = selectSites(sites, module, args);
    const known = program.namesFunctions;
    const functions: Json[] = [];
    for (let i = 0; i < sites.count; i++) {
      const state = sites.state(i);
      if (state === 'zero' || state === 'outside' || (selection && !selection[i])) continue;
      const symbol = sites.functionSymbol(i);
      // Bodies of overridden weak functions have no name to list.
      if (known && !isCovered(sites, i)) continue;
      if (args.json) functions.push(functionJson(sites, i, module));
      else out(symbol < 0 ? `0x${sites.ip(i).toString(16)}` : program.symbolName(symbol));
    }
    if (args.json) out(JSON.stringify({ schema: jsonSchema, file: input.name, functions }));
  }
  return 0;
}
