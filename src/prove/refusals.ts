/**
 * Sites that are not proved, in words and as refusals of a plan: a file that is only written where
 * it is proved leaves them as they are, or is not written.
 */
import type { Arch } from '../machine/arch.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError, hex } from '../errors.js';
import type { Refusal } from '../patch/plan.js';
import type { Difference } from './compare.js';
import { prove } from './prove.js';
import type { SiteProof } from './verdict.js';

/** How a way ends, as a part of a sentence. */
function endText(end: string): string {
  if (end === 'behind the site') return 'comes to the place behind the site';
  if (end === 'the caller') return 'comes back to its caller';
  return /^(?:goes|runs|does) /.test(end) ? end : `stops: ${end}`;
}

/** What differs, in a sentence. */
export function differenceText(difference: Difference): string {
  switch (difference.what) {
    case 'register':
      return `${difference.name} is ${hex(difference.patched)}, and ${hex(difference.original)} in the original`;
    case 'memory':
      return `the byte at ${hex(difference.address)} is ${hex(difference.patched)}, and ${hex(difference.original)} in the original`;
    case 'stop':
      return `the patched way ${endText(difference.patched)}; the original ${endText(difference.original)}`;
    default:
      return `${difference.name}: ${difference.reason}`;
  }
}

/** Why a site is not proved, in a sentence. */
export function whyOpen({ account, reason, detail }: SiteProof): string {
  if (account !== undefined) return differenceText(account.difference);
  return [reason, detail].filter((each) => each !== undefined).join(': ');
}

function refusalOf(site: SiteProof): Refusal {
  const { address, function: name, verdict } = site;
  const reason = `${verdict}: ${whyOpen(site)} [PV-4]`;
  return {
    ...{ site: -1, section: site.section, address, function: name },
    ...{ code: 'not-proved', errno: 'EINVAL', reason, expected: '', actual: '' },
  };
}

/**
 * Sites of a file to be written that are not proved, as refusals. What concerns no single site, or
 * all of them, cannot be left out.
 * @param what     the file, for the error
 * @param partial  sites may be left out
 * @throws ElftraceError 'plan-refused' where something is not proved that may not be left out; as
 *   `prove`
 */
export async function unproved(
  what: string,
  before: ElfImage,
  after: Uint8Array,
  arch: Arch,
  partial: boolean,
): Promise<Refusal[]> {
  const results = prove(before, readElf(after), arch);
  const open: SiteProof[] = [];
  for (;;) {
    const { done, value } = await results.next();
    if (done !== true) {
      if (value.verdict !== 'proved') open.push(value);
      continue;
    }
    const { different, inconclusive, unexplained } = value;
    const [first] = open;
    if (unexplained.length === 0 && (partial || first === undefined)) return open.map(refusalOf);
    const why =
      first === undefined
        ? `${unexplained.length} places changed that belong to no site, the first at ${hex(unexplained[0]!.address)}`
        : `${different} sites are different, ${inconclusive} inconclusive; the first is ${first.function} at ${hex(first.address)}: ${whyOpen(first)}`;
    throw new ElftraceError('plan-refused', `${what} is not proved, nothing was written: ${why} [PV-4]`, {
      reason: 'not-proved',
      ...(first === undefined ? {} : { symbol: first.function, address: first.address }),
    });
  }
}
