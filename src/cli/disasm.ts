/** `elftrace disasm FILE FUNCTION…`: code with its sites, calls and relocations named. */
import { hex, hexBytes } from '../errors.js';
import { jsonSchema, listingJson } from '../report/json.js';
import { functionListings } from '../sites/listing.js';
import { disassemblerOf } from './disassembly.js';
import { readInput } from './files.js';
import { open, type OpenOptions } from './open.js';
import { out, paint } from './terminal.js';

export interface DisasmArguments extends OpenOptions {
  readonly path: string;
  readonly functions: readonly string[];
  readonly json: boolean;
}

export async function runDisasm(args: DisasmArguments): Promise<number> {
  const { sites, arch } = await open(await readInput(args.path, 'read'), args);
  const listings = functionListings(sites, await disassemblerOf(arch), args.functions);
  if (args.json) {
    out(JSON.stringify({ schema: jsonSchema, file: args.path, functions: listings.map(listingJson) }));
    return 0;
  }
  for (const { name, section, offset, lines } of listings) {
    out(`${paint('bold', name)}  ${section}+${hex(offset)}`);
    for (const { address, bytes, text, site, notes } of lines) {
      const note = notes.length === 0 ? '' : `  ${paint(site === null ? 'dim' : 'yellow', `; ${notes.join(', ')}`)}`;
      out(`  ${hex(address).padStart(10)}  ${hexBytes(bytes).padEnd(24)}  ${text}${note}`);
    }
  }
  return 0;
}
