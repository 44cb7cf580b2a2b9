/**
 * `elftrace revert FILE -o OUT`: the original of a patched file, byte for byte, as its record has
 * it. The record is a part of the file, or a file beside it: a user who could write there could
 * write another one, and its sum too.
 */
import { loadArch } from '../targets.js';
import { revert } from '../patch/revert.js';
import { recordBeside } from '../patch/undo.js';
import { readRecord } from '../record/journal.js';
import { readElf } from '../elf/read.js';
import { readModuleSignature } from '../elf/signature.js';
import { jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { outputPath, readBytes, readInput, writeOutput } from './files.js';
import { hash } from './hash.js';
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
  const journal = args.journal === undefined ? null : readBytes(args.journal);
  const bytes = revert(image, journal, hash, await loadArch(image.header));
  const written = await writeOutput({ output, like: args.path, form: args.compress ? input.form : 'none' }, bytes);
  for (const notice of written) err(`${input.name}: notice: ${notice}`);
  const signature = readModuleSignature(bytes);
  const record = readRecord(image) ?? (journal === null ? null : recordBeside(image, journal));
  const wasChanged = record === null || record.edits.length > 0 || record.injected || record.brought.length > 0;
  const sum = { sha256: hash(bytes), size: bytes.length };
  if (args.json) {
    const checked = { against: 'record', changed: wasChanged, moduleSignatureBytes: signature?.size ?? 0 };
    out(JSON.stringify({ schema: jsonSchema, file: input.name, output, ...sum, checked }));
  } else {
    const packed = args.compress && input.form !== 'none' ? ` before it was compressed (${input.form})` : '';
    const vouches = signature
      ? `; the module signature (${signature.size} bytes) is back, a kernel checks it`
      : ', which is all that vouches for it';
    out(
      `${output}: ${wasChanged ? '' : 'the patch had changed nothing; '}equal to the record${vouches}: ${sum.size} bytes, sha256 ${sum.sha256}${packed}`,
    );
  }
  return exitCodes.ok;
}
