/** A livepatch module judged as what it is, against the kernel and modules that it patches. */
import type { Verification } from '../sites/verdicts.js';
import type { ObjectSource, OpenedSites } from './judge.js';
import { isLivepatch } from './recognise.js';

/**
 * The verification of a file with what its being a livepatch module adds; of others the same.
 * @param source  null: no kernel or module was given
 */
export async function withLivepatch(
  opened: OpenedSites,
  result: Verification,
  source: ObjectSource | null,
): Promise<Verification> {
  if (isLivepatch(opened.image)) return (await import('./judge.js')).judgeLivepatch(opened, result, source);
  if (source === null) return result;
  // Who expects a livepatch to be judged must not read silence as a yes.
  return { ...result, remarks: [...result.remarks, 'no livepatch module: --against says nothing of it'] };
}
