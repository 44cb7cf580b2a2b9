/**
 * `elftrace apply FILE PLAN -o OUT`: carries out a plan that another process made, on exactly the
 * file that it was made for.
 */
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { applyPlan, keepsEmptyRecord, unpatched } from '../patch/apply.js';
import { readRecord } from '../record/journal.js';
import { type Acceptance, checkAcceptance } from '../patch/plan.js';
import { decodePlanFile, inject } from '../patch/plan-file.js';
import { hazardNotices, jsonSchema } from '../report/json.js';
import { exitCodes } from './exit.js';
import { outputPath, readBytes, readInput, writeOutput } from './files.js';
import { hash } from './open.js';
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
  const actual = hash(input.bytes);
  if (actual !== file.sha256) {
    throw new ElftraceError(
      'plan-stale',
      `${args.plan} was made for another file: SHA-256 ${file.sha256}, this one has ${actual}`,
      {
        expected: file.sha256,
        actual,
      },
    );
  }
  const acceptance: Acceptance = { partial: args.partial };
  checkAcceptance(file.plan, acceptance);
  const base = file.unpatched ? unpatched(readElf(input.bytes), null, hash) : input.bytes;
  const image = readElf(file.injection === null ? base : inject(base, file.injection));
  const applied = applyPlan(image, file.plan, {
    hash,
    injected: file.injection !== null,
    keep: file.injection === null && keepsEmptyRecord(file.plan, image, readRecord(image), false),
    ...(file.session ?? {}),
  });
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
