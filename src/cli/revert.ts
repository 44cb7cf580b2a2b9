/** `elftrace revert FILE -o OUT`: the original of a patched file, byte for byte. */
import { archOf } from '../arches.js';
import { revert } from '../ftrace/apply.js';
import { readElf } from '../elf/read.js';
import { jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { outputPath, readBytes, readInput, writeOutput } from './files.js';
import { hash } from './open.js';
import { err, out } from './terminal.js';

export interface RevertArguments {
  readonly path: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly journal?: string | undefined;
  readonly compress: boolean;
  readonly json: boolean;
}

export async function runRevert(args: RevertArguments): Promise<number> {
  const output = outputPath(args.path, args.output, args.inPlace);
  const input = await readInput(args.path);
  const image = readElf(input.bytes);
  const bytes = revert(image, args.journal === undefined ? null : readBytes(args.journal), hash, archOf(image.header));
  const written = await writeOutput({ output, like: args.path, form: args.compress ? input.form : 'none' }, bytes);
  for (const notice of written) err(`${input.name}: notice: ${notice}`);
  if (args.json)
    out(JSON.stringify({ schema: jsonSchema, file: input.name, output, sha256: hash(bytes), size: bytes.length }));
  else out(`${output}: the original, ${bytes.length} bytes, sha256 ${hash(bytes)}`);
  return exitCodes.ok;
}
