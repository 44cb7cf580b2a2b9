/**
 * `elftrace apply FILE PLAN -o OUT`: carries out a plan that another process made, on exactly the
 * file that it was made for.
 */
import { decodePlanFile } from '../patch/plan-file.js';
import { applyPlanFile } from '../pipeline/apply.js';
import { hazardNotices, jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { outputPath, readBytes, readInput, writeOutput } from './files.js';
import { hash } from './hash.js';
import { err, out } from './terminal.js';

export interface ApplyArguments {
  readonly path: string;
  readonly plan: string;
  readonly output?: string | undefined;
  readonly inPlace: boolean;
  readonly partial: boolean;
  readonly compress: boolean;
  readonly json: boolean;
}

export async function runApply(args: ApplyArguments): Promise<number> {
  const output = outputPath(args.path, args.output, args.inPlace);
  const input = await readInput(args.path);
  const file = decodePlanFile(new TextDecoder().decode(readBytes(args.plan)));
  const applied = applyPlanFile(input.bytes, file, args.plan, { partial: args.partial }, hash);
  const written = await writeOutput(
    { output, like: args.path, form: args.compress ? input.form : 'none' },
    applied.bytes,
  );
  for (const notice of [...applied.notices, ...written, ...(file.plan.notices ?? []), ...hazardNotices(file.plan)])
    err(`${input.name}: notice: ${notice}`);
  if (args.json) out(JSON.stringify({ schema: jsonSchema, file: input.name, output, sha256: hash(applied.bytes) }));
  else out(`${output}: ${file.plan.request}: ${file.plan.changed} of ${file.plan.selected} sites changed`);
  return exitCodes.ok;
}
