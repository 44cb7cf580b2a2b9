/** Proofs of a relocatable file under the graph tracer. */
import { archOf } from '../../src/arches.js';
import { type ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { applyPlan } from '../../src/patch/apply.js';
import { load } from '../../src/program/program.js';
import { prove, type ProofSummary, type SiteProof } from '../../src/prove/index.js';
import { layOut } from '../../src/prove/relocatable.js';
import { findSites } from '../../src/sites/sites.js';
import { planTracing } from '../../src/tracing/tracing.js';

/** Lays a file out with a runtime, traces all of its sites, and proves them. */
export async function graphProofs(image: ElfImage, trials: number): Promise<[SiteProof[], ProofSummary]> {
  const arch = archOf(image.header);
  const { original } = layOut(image, image, arch);
  const plan = planTracing(findSites(load(original, arch)), {
    tracer: { kind: 'function_graph' },
    others: 'nop',
    allowUnsafeGraph: true,
  });
  const found: SiteProof[] = [];
  const proofs = prove(original, readElf(applyPlan(original, plan).bytes), arch, { trials });
  for (;;) {
    const { done, value } = await proofs.next();
    if (done === true) return [found, value];
    found.push(value);
  }
}
