/**
 * `elftrace unwrap FILE -o OUT`: the ELF file inside of a kernel as it is booted, or of a
 * compressed file.
 */
import { ElftraceError } from '../errors.js';
import { jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { looksLikeElf, outputPath, readInput, writeOutput } from './files.js';
import { err, out } from './terminal.js';

export interface UnwrapArguments {
  readonly path: string;
  readonly output?: string | undefined;
  readonly json: boolean;
}

export async function runUnwrap(args: UnwrapArguments): Promise<number> {
  const output = outputPath(args.path, args.output, false);
  const input = await readInput(args.path, 'read');
  if (!looksLikeElf(input.bytes)) throw new ElftraceError('not-elf', 'no ELF file is inside', { file: args.path });
  const layers = input.wrapped.length > 0 ? input.wrapped : input.form === 'none' ? [] : [input.form];
  for (const notice of await writeOutput({ output, like: args.path, form: 'none' }, input.bytes)) {
    err(`${output}: notice: ${notice}`);
  }
  if (args.json)
    out(JSON.stringify({ schema: jsonSchema, file: args.path, output, layers, bytes: input.bytes.length }));
  else {
    out(
      `${output}: ${input.bytes.length} bytes of ELF, from ${layers.length > 0 ? layers.join(', ') : 'the same file'}`,
    );
  }
  return exitCodes.ok;
}
