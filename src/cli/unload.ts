/**
 * `elftrace unload IMAGE PART -o OUT`: the image without a module; of a linked core its name gives
 * back the file that it was.
 */
import { unloadPart } from '../pipeline/unload.js';
import { jsonSchema, loadJson } from '../report/json.js';
import { exitCodes } from './exit.js';
import { outputPath, readInput, writeOutput } from './files.js';
import { hash } from './hash.js';
import { err, out } from './terminal.js';

export interface UnloadArguments {
  readonly path: string;
  readonly part: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly json: boolean;
}

export async function runUnload(args: UnloadArguments): Promise<number> {
  const output = outputPath(args.path, args.output, args.inPlace);
  const { bytes: input } = await readInput(args.path);
  const unloaded = await unloadPart(input, args.part, args.path, hash);
  const target = { output, like: args.path, form: 'none' } as const;
  if (unloaded.kind === 'core') {
    for (const notice of await writeOutput(target, unloaded.bytes, true)) err(`${args.path}: notice: ${notice}`);
    if (args.json) out(JSON.stringify({ schema: jsonSchema, file: args.path, output, parts: [], notices: [] }));
    else out(`${output}: ${args.part} as it was before it was loaded`);
    return exitCodes.ok;
  }
  const { result } = unloaded;
  for (const notice of await writeOutput(target, result.bytes, true)) err(`${args.path}: notice: ${notice}`);
  if (args.json) out(JSON.stringify(loadJson(args.path, output, result)));
  else out(`${output}: without ${args.part}`);
  return exitCodes.ok;
}
