/**
 * `node build/scripts/soak-prove.js FOLDER [MODULES [PART]]`: proofs of kernels that distributions
 * ship. FOLDER holds unpacked packages, of any architectures; each vmlinux in it, and so many of
 * its modules for each architecture (400), are patched in every way that reaches all sites, and
 * each patched site is executed against its original. Then the patch is taken back, and the bytes
 * must be those of the file. Prints counts of what was proved, and why the rest was not; a
 * difference, or more than a hundredth that is inconclusive, is exit 1. PART takes only files
 * whose path has these letters.
 */
import { createHash } from 'node:crypto';
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { archOf } from '../src/arches.js';
import { unpack } from '../src/elf/compressed.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import type { Arch } from '../src/machine/arch.js';
import { applyPlan, revert } from '../src/patch/apply.js';
import { withKeptRelocations } from '../src/patch/kept-relocations.js';
import type { Plan } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import { planUntrace } from '../src/patch/untrace.js';
import { load } from '../src/program/program.js';
import { prove, type ProofSummary, type SiteProof } from '../src/prove/index.js';
import { layOut } from '../src/prove/relocatable.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { planTracing } from '../src/tracing/tracing.js';

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A way to patch a file. */
interface Way {
  readonly name: string;
  /** On an image that is made of the file, with a tracer. */
  readonly isLoaded: boolean;
  plan(sites: Sites): Plan;
}

const traced = (kind: 'function' | 'function_graph'): Way => ({
  name: `loaded, --tracer ${kind}`,
  isLoaded: true,
  plan: (sites) => planTracing(sites, { tracer: { kind }, others: 'nop', allowUnsafeGraph: true }),
});

/** All sites; of a kernel, which cannot do without any, a few are left out. */
function mostOf(sites: Sites): Uint8Array {
  const isKernel = sites.count > 10_000;
  return Uint8Array.from({ length: sites.count }, (_, i) => (isKernel && i % 1000 === 0 ? 0 : 1));
}

const WAYS: readonly Way[] = [
  { name: '--untrace', isLoaded: false, plan: (sites) => planUntrace(sites, { selection: mostOf(sites) }) },
  {
    name: '--init',
    isLoaded: false,
    plan: (sites) => withKeptRelocations(planSites(sites, { to: { kind: 'init' } }), sites.program),
  },
  traced('function'),
  traced('function_graph'),
];

/** What became of the files of one kind. */
class Counts {
  files = 0;
  readonly sums = { sites: 0, proved: 0, unchanged: 0, different: 0, inconclusive: 0 };
  readonly reasons = new Map<string, number>();
  /** Files of which nothing was proved, by why. */
  readonly refused = new Map<string, number>();
  readonly examples: string[] = [];
  seconds = 0;

  add(file: string, summary: ProofSummary, open: readonly SiteProof[]): void {
    this.files++;
    for (const key of Object.keys(this.sums) as (keyof Counts['sums'])[]) this.sums[key] += summary[key];
    for (const [reason, count] of Object.entries(summary.reasons)) this.count(this.reasons, reason, count);
    if (summary.unexplained.length > 0) this.count(this.reasons, 'unexplained', summary.unexplained.length);
    for (const site of open.slice(0, 2)) {
      const what = site.account === undefined ? `${site.reason} ${site.detail}` : say(site.account.difference);
      this.example(`${file}: ${site.function} (${site.shape}): ${site.verdict}: ${what}`);
    }
  }

  example(text: string): void {
    if (this.examples.length < 12) this.examples.push(text);
  }

  count(of: Map<string, number>, key: string, by = 1): void {
    of.set(key, (of.get(key) ?? 0) + by);
  }
}

const say = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `0x${each.toString(16)}` : each));

async function* files(folder: string): AsyncGenerator<string> {
  for (const each of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, each.name);
    if (each.isDirectory()) yield* files(path);
    else if (each.isFile()) yield path;
  }
}

/** First bytes of a file: what it is. */
function firstBytes(path: string): Buffer {
  const descriptor = openSync(path, 'r');
  const bytes = Buffer.alloc(4);
  readSync(descriptor, bytes);
  closeSync(descriptor);
  return bytes;
}

async function imageOf(path: string): Promise<ElfImage> {
  return readElf((await unpack(new Uint8Array(readFileSync(path)))).bytes);
}

const failures = new Set<string>();

/** Proves one patch of one file; whatever is wrong is counted and told. */
async function proveOne(file: string, original: ElfImage, arch: Arch, way: Way, counts: Counts): Promise<void> {
  const from = process.cpuUsage();
  process.stderr.write(`${way.name}: ${file}\n`);
  try {
    const before = way.isLoaded ? layOut(original, original, arch).original : original;
    const sites = findSites(load(before, arch));
    if (sites.count === 0) {
      counts.count(counts.refused, 'no sites');
      return;
    }
    const plan = way.plan(sites);
    for (const { code } of plan.refusals) counts.count(counts.refused, `site: ${code}`);
    const after = readElf(applyPlan(before, plan, { hash }).bytes);
    const results = prove(before, after, arch);
    const open: SiteProof[] = [];
    for (;;) {
      const { done, value } = await results.next();
      if (done === true) {
        counts.add(file, value, open);
        if (value.different > 0 || value.unexplained.length > 0) failures.add(`${way.name}: ${file}`);
        break;
      }
      if (value.verdict !== 'proved') open.push(value);
    }
    if (hash(revert(after, null, hash, arch)) !== hash(before.bytes)) failures.add(`revert, ${way.name}: ${file}`);
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    counts.count(
      counts.refused,
      `${error.code}${error.context.reason === undefined ? '' : ` ${error.context.reason}`}`,
    );
    counts.example(`${file}: ${error.message}`);
  } finally {
    const { user, system } = process.cpuUsage(from);
    counts.seconds += (user + system) / 1e6;
  }
}

function report(name: string, counts: Counts): void {
  const { proved, unchanged, different, inconclusive } = counts.sums;
  console.log(
    `${name}: ${counts.files} files, ${proved} proved, ${unchanged} unchanged, ${different} different, ${inconclusive} inconclusive, ${counts.seconds.toFixed(0)} s CPU`,
  );
  for (const [what, of] of [
    ['because', counts.reasons],
    ['refused', counts.refused],
  ] as const) {
    for (const [reason, count] of of) console.log(`  ${what} ${reason}: ${count}`);
  }
  for (const each of counts.examples) console.log(`  ${each}`);
  if (inconclusive > (proved + different + inconclusive) / 100) failures.add(`${name}: too many are inconclusive`);
}

const [folder, most = '400', part = ''] = process.argv.slice(2);
if (folder === undefined || !statSync(folder).isDirectory()) throw new Error('name a folder of unpacked packages');
const modules = new Map<string, string[]>();
const kernels: string[] = [];
for await (const path of files(folder)) {
  if (!path.includes(part)) continue;
  if (/\.ko(\.(xz|zst|gz))?$/.test(path)) {
    // Modules of one package are below one folder of their release.
    const release = /^(.*\/modules\/[^/]+)\//.exec(path)?.[1] ?? folder;
    modules.set(release, [...(modules.get(release) ?? []), path]);
  } else if (/\/vmlinux-[^/]*$/.test(path) && firstBytes(path).equals(Buffer.from('\x7fELF'))) kernels.push(path);
}
for (const path of kernels) {
  for (const way of WAYS.filter(({ isLoaded }) => !isLoaded)) {
    const counts = new Counts();
    const original = await imageOf(path);
    await proveOne(path, original, archOf(original.header), way, counts);
    report(`${path} ${way.name}`, counts);
  }
}
for (const [release, all] of modules) {
  const step = Math.max(1, Math.floor(all.length / Number(most)));
  const chosen = all.filter((_, i) => i % step === 0).slice(0, Number(most));
  const byWay = WAYS.map((way) => ({ way, counts: new Counts() }));
  for (const [i, path] of chosen.entries()) {
    const original = await imageOf(path);
    const arch = archOf(original.header);
    for (const { way, counts } of byWay) await proveOne(path, original, arch, way, counts);
    // Hours of work: what stops it in between leaves what was counted.
    if ((i + 1) % 20 === 0) for (const { way, counts } of byWay) report(`so far ${release} ${way.name}`, counts);
  }
  for (const { way, counts } of byWay) report(`${release} ${way.name}`, counts);
}
for (const each of failures) console.log(`failed: ${each}`);
process.exitCode = failures.size > 0 ? 1 : 0;
