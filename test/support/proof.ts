/** The proof of an image by the library, all of its answers at once. */
import { archOf } from '../../src/arches.js';
import { readElf } from '../../src/elf/read.js';
import { prove, type ProofSummary, type SiteProof } from '../../src/prove/index.js';

/** A proof in which no record says which file was the original. */
export async function proof(
  original: Uint8Array,
  image: Uint8Array,
): Promise<{ sites: SiteProof[]; summary: ProofSummary }> {
  const before = readElf(original);
  const results = prove(before, readElf(image), archOf(before.header));
  const sites: SiteProof[] = [];
  for (;;) {
    const { done, value } = await results.next();
    if (done === true) return { sites, summary: value };
    sites.push(value);
  }
}
