/**
 * The file to read first: the whole way of a file through `patch`, as a list of calls, each with
 * what is true behind it. `open.ts` is the first half of it, which every verb goes.
 *
 *   bytes -openImage-> image, machine, program, sites        what is there
 *         -planRequest-> plan: steps and refusals            what is to become of it
 *         -applyPlan-> bytes with a record                   all or nothing
 *         -unproved-> sites that do not do the same          only where a proof was asked for
 */
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { type Applied, applyPlan, keepsEmptyRecord } from '../patch/apply.js';
import { unpatched } from '../patch/undo.js';
import { checkAcceptance, type Refusal } from '../patch/plan.js';
import { encodePlanFile, injectionOf } from '../patch/plan-file.js';
import { stepCount } from '../patch/step-columns.js';
import type { Address } from '../units.js';
import { planNotices } from './notices.js';
import type { OpenedImage } from './open.js';
import { planRequest } from './plan.js';
import type { Planned } from './planned.js';
import type { PatchHost, PatchRequest } from './request.js';

/** How far a request is carried out, and what is heard of it. */
export interface PatchOptions {
  readonly until: 'planned' | 'written';
  /** The file's name for errors; null: nothing is proved. */
  readonly prove: string | null;
  /** Where the record goes: into the file, or beside it. */
  readonly record: 'note' | 'beside';
  /** Sites that stay as they are, before it is said whether that is accepted. */
  readonly refused: (refusals: readonly Refusal[]) => void;
  readonly progress: (step: string) => void;
}

/** What became of a request. */
export interface Patched {
  readonly request: PatchRequest;
  readonly planned: Planned;
  /** null: the request was only planned. */
  readonly applied: Applied | null;
}

/**
 * Carries out a request on an opened file. Nothing is written: the bytes are the result.
 * @throws ElftraceError 'plan-refused' where more sites are refused, or not proved, than the
 *   request accepts; and as the planners do
 */
export async function patchImage(
  opened: OpenedImage,
  request: PatchRequest,
  host: PatchHost,
  options: PatchOptions,
): Promise<Patched> {
  // The file was read and checked, and its sites are known (`open.ts`).

  options.progress('deciding');
  const planned = await planRequest(opened, request, host);
  // Every selected site is changed by steps with the bytes before and after, is as asked already,
  // or is refused with a reason. Nothing is written.

  if (options.until === 'planned') return { request, planned, applied: null };
  options.refused(planned.plan.refusals);
  checkAcceptance(planned.plan, request.acceptance);
  // No more sites stay as they are than the request accepts.

  const applied = applyPlanned(planned, host, options);
  // The new bytes are in memory, each `before` was compared, and the record leads back.

  if (options.prove === null) return { request, planned, applied };
  return provedOnly(opened, { request, planned, applied }, host, { ...options, prove: options.prove });
  // Each site that changed does what it did, or stays as it was.
}

/** The bytes that a plan makes. */
function applyPlanned({ plan, on, kept }: Planned, { hash }: PatchHost, { record, progress }: PatchOptions): Applied {
  progress(`writing ${stepCount(plan)} places`);
  return applyPlan(on.image, plan, {
    hash,
    record,
    earlier: on.recordBeside ? on.record : null,
    injected: on.injected,
    keep: keepsEmptyRecord(plan, on.image, on.record, record === 'beside'),
    ...(kept ?? {}),
  });
}

/**
 * What may be written because it is proved. Where a part is accepted, sites that are not proved
 * stay as they are: the plan is made again without them, and proved again.
 */
async function provedOnly(
  opened: OpenedImage,
  first: Patched & { readonly applied: Applied },
  host: PatchHost,
  options: PatchOptions & { readonly prove: string },
): Promise<Patched> {
  // Proofs bring the emulator along, which other requests do without.
  const { unproved } = await import('../prove/refusals.js');
  const { request } = first;
  const partial = request.acceptance.partial === true;
  const original = opened.record === null ? opened.image : readElf(unpatched(opened.image, null, host.hash));
  const left = new Map<Address, Refusal>();
  let { planned, applied } = first;
  for (;;) {
    options.progress('proving');
    const found = await unproved(options.prove, original, applied.bytes, planned.on.arch, partial);
    if (found.length === 0) {
      const all = withRefusals(planned, [...left.values()]);
      checkAcceptance(all.plan, request.acceptance);
      return { request, planned: all, applied };
    }
    const known = left.size;
    for (const each of found) left.set(each.address, each);
    if (left.size === known) {
      throw new ElftraceError('plan-refused', `${found[0]!.function} is not proved even where its site stays [PV-4]`, {
        reason: 'not-proved',
      });
    }
    options.refused(found);
    planned = await planRequest(opened, { ...request, without: new Set(left.keys()) }, host);
    applied = applyPlanned(planned, host, options);
  }
}

/** A plan that lists sites which were left as they are. */
function withRefusals(planned: Planned, left: readonly Refusal[]): Planned {
  const { plan } = planned;
  const selected = plan.selected + left.length;
  return { ...planned, plan: { ...plan, selected, refusals: [...plan.refusals, ...left] } };
}

/**
 * A plan as a file, for another process to carry out.
 * @param how.beside  the record is to be kept beside the file
 * @throws ElftraceError 'usage', 'unsupported-form' for plans that a file cannot hold
 */
export function planFileText(
  opened: OpenedImage,
  { plan, kept, on }: Planned,
  request: PatchRequest,
  { hash, beside }: { readonly hash: PatchHost['hash']; readonly beside: boolean },
): string {
  if (on.recordBeside || beside) throw new ElftraceError('usage', 'plan works on files that carry their record');
  if (plan.additions) {
    throw new ElftraceError('unsupported-form', 'a plan file has no room for new relocations: patch carries them out');
  }
  const { image, record } = opened;
  // Sessions start from the image as it was before them.
  const unpatchedFirst = kept !== null && record !== null;
  const base = unpatchedFirst ? unpatched(image, null, hash) : image.bytes;
  return encodePlanFile({
    sha256: hash(image.bytes),
    plan: { ...plan, notices: planNotices(plan, on, request) },
    session: kept === null ? null : { ...kept, injected: on.injected },
    unpatched: unpatchedFirst,
    injection: injectionOf(base, on.image.bytes),
  });
}
