/** A plan that another process made, carried out on exactly the file that it was made for. */
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { type Applied, applyPlan, keepsEmptyRecord } from '../patch/apply.js';
import { unpatched } from '../patch/undo.js';
import { type Acceptance, checkAcceptance } from '../patch/plan.js';
import { inject, type PlanFile } from '../patch/plan-file.js';
import { readRecord } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';

/**
 * The patched bytes.
 * @param name  of the plan, for messages
 * @throws ElftraceError 'plan-stale' for another file; 'plan-refused' for more refusals than are
 *   accepted; and as `applyPlan`
 */
export function applyPlanFile(
  bytes: Uint8Array,
  file: PlanFile,
  name: string,
  acceptance: Acceptance,
  hash: Sha256,
): Applied {
  const actual = hash(bytes);
  if (actual !== file.sha256) {
    throw new ElftraceError(
      'plan-stale',
      `${name} was made for another file: SHA-256 ${file.sha256}, this one has ${actual}`,
      { expected: file.sha256, actual },
    );
  }
  checkAcceptance(file.plan, acceptance);
  const base = file.unpatched ? unpatched(readElf(bytes), null, hash) : bytes;
  const image = readElf(file.injection === null ? base : inject(base, file.injection));
  return applyPlan(image, file.plan, {
    hash,
    injected: file.injection !== null,
    keep: file.injection === null && keepsEmptyRecord(file.plan, image, readRecord(image), false),
    ...(file.session ?? {}),
  });
}
