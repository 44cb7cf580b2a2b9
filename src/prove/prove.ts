/**
 * The proof of an image: the sites that changed, one by one (`prover.ts`), and what else of the
 * image changed.
 */
import type { Arch } from '../machine/arch.js';
import { ElftraceError } from '../errors.js';
import { SHF_ALLOC, SHF_EXECINSTR } from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { unexplainedChanges } from './changes.js';
import type { ProveOptions } from './options.js';
import { Prover } from './prover.js';
import { isRelocatable, layOut, placeInFile } from './relocatable.js';
import { sitesOf } from './subjects.js';
import type { ProofSummary, SiteProof } from './verdict.js';

/** Milliseconds between two turns of the event loop, where timers abort signals. */
const PIECE_MS = 20;

/** Whether one of `count` sites is among `sample` of them, which are spread evenly. */
function isInSample(index: number, count: number, sample = count): boolean {
  const step = Math.min(sample, count);
  return Math.floor(((index + 1) * step) / count) > Math.floor((index * step) / count);
}

/** What is executed, and what the answers are about. */
interface Subjects {
  readonly prover: Prover;
  /** A verdict as the file has it: places of relocatable files are in sections. */
  readonly inFile: (site: SiteProof) => SiteProof;
  readonly unexplained: () => ProofSummary['unexplained'];
}

/** @throws ElftraceError 'usage' where the code of linked files is not at the same places */
function checkLayout(original: ElfImage, patched: ElfImage): void {
  const code = (image: ElfImage): string[] =>
    image.sections
      .filter(({ flags, size }) => (flags & SHF_EXECINSTR) !== 0n && (flags & SHF_ALLOC) !== 0n && size > 0)
      .map(({ address, size }) => `${address}+${size}`);
  const there = new Set(code(patched));
  // Patches add code of their own; what was there stays where it was.
  if (original.header.machine === patched.header.machine && code(original).every((each) => there.has(each))) return;
  throw new ElftraceError('usage', 'the two files do not have their code at the same places: they do not fit', {
    reason: 'other-layout',
  });
}

function subjectsOf(original: ElfImage, patched: ElfImage, arch: Arch, options: ProveOptions): Subjects {
  if (!isRelocatable(original) && !isRelocatable(patched)) {
    checkLayout(original, patched);
    const prover = new Prover(original, patched, arch, options);
    const unexplained = (): ProofSummary['unexplained'] =>
      unexplainedChanges(prover.original.sites, prover.patched.sites, prover.probes?.subjects);
    return { prover, inFile: (site) => site, unexplained };
  }
  if (!isRelocatable(original) || !isRelocatable(patched)) {
    throw new ElftraceError('usage', 'one of the two files is relocatable, the other one is linked: they do not fit', {
      reason: 'other-layout',
    });
  }
  const laid = layOut(original, patched, arch);
  const inFile = (site: SiteProof): SiteProof => {
    const { section, offset } = placeInFile(laid.patched, site.address);
    return { ...site, section, address: offset };
  };
  const { sites, ...others } = options;
  const unexplained = (): ProofSummary['unexplained'] =>
    unexplainedChanges(sitesOf(original, arch, others), sites ?? sitesOf(patched, arch, others));
  // Names from elsewhere are about places of the file.
  const { mcountNames } = options.load ?? {};
  const laidOptions = { ...others, load: mcountNames === undefined ? {} : { mcountNames } };
  return { prover: new Prover(laid.original, laid.patched, arch, laidOptions), inFile, unexplained };
}

/**
 * Proves the sites of a patched image against the original. Yields a verdict for each site, by
 * address; returns the summary.
 * @param original  as it was before the patch
 * @param patched   a linked file, an image of `load`, or a relocatable file, of the same machine;
 *   relocatable files are laid out as `load` would, addresses of answers are offsets in sections
 * @throws ElftraceError 'unsupported-form' for machines without an emulator and for relocatable
 *   files that cannot be laid out alike, 'usage' for files that do not fit each other; as
 *   `loadImages`; what `signal` was aborted with
 * Source: PV-1 to PV-4
 */
export async function* prove(
  original: ElfImage,
  patched: ElfImage,
  arch: Arch,
  options: ProveOptions = {},
): AsyncGenerator<SiteProof, ProofSummary> {
  const { prover, inFile, unexplained } = subjectsOf(original, patched, arch, options);
  const counts = { unchanged: 0, proved: 0, different: 0, inconclusive: 0, skipped: 0 };
  const reasons: Record<string, number> = {};
  const counted = (site: SiteProof): SiteProof => {
    if (site.reason === 'unchanged') counts.unchanged++;
    else counts[site.verdict]++;
    if (site.verdict === 'inconclusive' && site.reason !== undefined) {
      reasons[site.reason] = (reasons[site.reason] ?? 0) + 1;
    }
    return site;
  };
  const { subjects } = prover;
  const tries = (i: number): boolean => isInSample(i, subjects.length, options.sample);
  const { index, of } = options.part ?? { index: 0, of: 1 };
  const [first, end] = [index, index + 1].map((each) => Math.floor((each * subjects.length) / of)) as [number, number];
  let turn = 0;
  for (const [i, subject] of subjects.entries()) {
    if (performance.now() >= turn) {
      await new Promise((resolve) => setImmediate(resolve));
      options.signal?.throwIfAborted();
      turn = performance.now() + PIECE_MS;
    }
    if (i >= end) break;
    if (i < first) {
      if (tries(i)) prover.pass(subject);
      continue;
    }
    if (!tries(i)) {
      counts.skipped++;
      continue;
    }
    yield counted(inFile(prover.prove(subject)));
  }
  const probes = index === of - 1 ? (prover.probes?.subjects ?? []) : [];
  for (const probe of probes) yield counted(prover.proveProbe(probe));
  return {
    target: arch.target.id,
    seed: prover.seed,
    sites: end - first + probes.length,
    ...counts,
    reasons,
    unexplained: unexplained(),
  };
}
