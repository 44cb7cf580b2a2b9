/**
 * `node build/scripts/soak-prove.js FOLDER [MODULES [PART]] [--ways WORDS] [--file FILE] [--write]`
 *
 * Proofs of kernels that distributions ship. FOLDER holds unpacked packages, of any architectures;
 * each vmlinux in it, and so many of its modules for each architecture (400), are patched in every
 * way that reaches all sites, and each patched site is executed against its original. Then the
 * patch is taken back, and the bytes must be those of the file. Prints counts of what was proved,
 * and why the rest was not; a difference, or more than a hundredth that is inconclusive, is exit 1.
 *
 * PART takes only files whose path has these letters, WORDS, between commas, only ways whose names
 * have one of them. FILE keeps what was found of each file: what stands there is not tried again,
 * so that hours of work may be done in parts. `--write` makes docs/proofs.md of all of it.
 */
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { archOf } from '../src/arches.js';
import { equalBytes } from '../src/bytes.js';
import { unpack } from '../src/elf/compressed.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import type { Arch } from '../src/machine/arch.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { withKeptRelocations } from '../src/patch/kept-relocations.js';
import type { Plan } from '../src/patch/plan.js';
import { planSites } from '../src/patch/plan-sites.js';
import { planUntrace } from '../src/patch/untrace.js';
import { load } from '../src/program/program.js';
import { prove, type SiteProof } from '../src/prove/index.js';
import { layOut } from '../src/prove/relocatable.js';
import { findSites, type Sites } from '../src/sites/sites.js';
import { planTracing } from '../src/tracing/tracing.js';
import { version } from '../src/version.js';
import { type ProofRecord, proofRows, readRecords, type Row, writeProofsPage } from '../test/support/proofs-page.js';

const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A way to patch a file. */
interface Way {
  readonly name: string;
  /** On an image that is made of the file, with a tracer. */
  readonly isLoaded: boolean;
  /** Only kernels can be patched so: they have entries of their own. */
  readonly isKernels?: boolean;
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
  {
    name: '--enable, its own entries',
    isLoaded: false,
    isKernels: true,
    plan: (sites) => planTracing(sites, { tracer: { kind: 'function' }, others: 'untouched', allowUnsafeGraph: true }),
  },
  traced('function'),
  traced('function_graph'),
];

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

/** A file, and what records call it. */
interface Tried {
  readonly path: string;
  readonly kind: ProofRecord['kind'];
  readonly release: string;
}

const failures = new Set<string>();

function example(site: SiteProof): string {
  const what = site.account === undefined ? `${site.reason} ${site.detail}` : say(site.account.difference);
  return `${site.function} (${site.shape}): ${site.verdict}: ${what}`;
}

/** What became of one patch of one file. */
type Result = Pick<ProofRecord, 'sites' | 'reasons' | 'left' | 'refused'>;

const NOTHING: Result['sites'] = { proved: 0, unchanged: 0, different: 0, inconclusive: 0 };

/** Proves one patch of one file. */
async function proveOne(path: string, before: ElfImage, arch: Arch, way: Way): Promise<Result> {
  const left: Record<string, number> = {};
  try {
    const sites = findSites(load(before, arch));
    if (sites.count === 0) return { sites: NOTHING, reasons: {}, left, refused: 'no sites' };
    const plan = way.plan(sites);
    for (const { code } of plan.refusals) left[code] = (left[code] ?? 0) + 1;
    const after = readElf(applyPlan(before, plan, { hash }).bytes);
    const results = prove(before, after, arch);
    for (let open = 0; ;) {
      const { done, value } = await results.next();
      if (done !== true) {
        if (value.verdict !== 'proved' && open++ < 2) console.log(`  ${path}: ${example(value)}`);
        continue;
      }
      const { proved, unchanged, different, inconclusive, reasons, unexplained } = value;
      if (different > 0 || unexplained.length > 0) failures.add(`${way.name}: ${path}`);
      // A file of which nothing changed has no record.
      const isCopy = equalBytes(after.bytes, before.bytes);
      const back = isCopy ? before.bytes : revert(after, null, hash, arch);
      if (hash(back) !== hash(before.bytes)) failures.add(`revert, ${way.name}: ${path}`);
      const more = unexplained.length === 0 ? {} : { unexplained: unexplained.length };
      const counts = { proved, unchanged, different, inconclusive };
      return { sites: counts, reasons: { ...reasons, ...more }, left, refused: null };
    }
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    console.log(`  ${path}: ${error.message}`);
    const reason = error.context.reason === undefined ? '' : ` ${error.context.reason}`;
    return { sites: NOTHING, reasons: {}, left, refused: `${error.code}${reason}` };
  }
}

/** Words of a line that are no options, and those of options. */
function argumentsOf(words: readonly string[]): { readonly plain: string[]; readonly options: Map<string, string> } {
  const plain: string[] = [];
  const options = new Map<string, string>();
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (word === '--write') options.set(word, '');
    else if (word.startsWith('--')) options.set(word, words[++i] ?? '');
    else plain.push(word);
  }
  return { plain, options };
}

const { plain, options } = argumentsOf(process.argv.slice(2));
const [folder, most = '400', part = ''] = plain;
if (folder === undefined || !statSync(folder).isDirectory()) throw new Error('name a folder of unpacked packages');
const words = (options.get('--ways') ?? '').split(',');
const ways = WAYS.filter(({ name }) => words.some((word) => name.includes(word)));
const file = options.get('--file') ?? null;
const records: ProofRecord[] = file !== null && existsSync(file) ? readRecords(readFileSync(file, 'utf8')) : [];
const keyOf = ({ file: name, way, release }: Pick<ProofRecord, 'file' | 'way' | 'release'>): string =>
  `${release} ${name} ${way}`;
const known = new Set(records.map(keyOf));

/** Tries a file in all ways in which it was not tried yet. */
async function tryFile({ path, kind, release }: Tried): Promise<void> {
  const name = basename(path);
  const left = ways.filter(
    ({ name: way, isLoaded, isKernels = false }) =>
      !(kind === 'vmlinux' ? isLoaded : isKernels) && !known.has(keyOf({ file: name, way, release })),
  );
  if (left.length === 0) return;
  const original = await imageOf(path);
  const arch = archOf(original.header);
  let loaded: ElfImage | null = null;
  for (const way of left) {
    process.stderr.write(`${way.name}: ${path}\n`);
    const from = process.cpuUsage();
    const before = way.isLoaded ? (loaded ??= layOut(original, original, arch).original) : original;
    const result = await proveOne(path, before, arch, way);
    const { user, system } = process.cpuUsage(from);
    const seconds = Number(((user + system) / 1e6).toFixed(3));
    const head = { tool: version, target: arch.target.id, release, kind, file: name, way: way.name };
    const record: ProofRecord = { ...head, ...result, seconds };
    records.push(record);
    if (file !== null) appendFileSync(file, `${JSON.stringify(record)}\n`);
  }
}

function print({ target, release, kind, way, files: count, sites, reasons, left, refused, seconds }: Row): void {
  const { proved, unchanged, different, inconclusive } = sites;
  const name = `${target} ${release} ${kind} ${way}`;
  console.log(
    `${name}: ${count} files, ${proved} proved, ${unchanged} unchanged, ${different} different, ${inconclusive} inconclusive, ${seconds.toFixed(0)} s CPU`,
  );
  for (const [what, of] of Object.entries({ because: reasons, 'site refused': left, refused })) {
    for (const [reason, times] of Object.entries(of)) console.log(`  ${what} ${reason}: ${times}`);
  }
  if (inconclusive > (proved + different + inconclusive) / 100) failures.add(`${name}: too many are inconclusive`);
}

/** Files below the folder: kernels, and modules by their release. */
async function found(): Promise<{ readonly kernels: readonly string[]; readonly modules: Map<string, string[]> }> {
  const modules = new Map<string, string[]>();
  const kernels: string[] = [];
  for await (const path of files(folder!)) {
    if (!path.includes(part)) continue;
    if (/\.ko(\.(xz|zst|gz))?$/.test(path)) {
      // Modules of one package are below one folder of their release.
      const release = /^.*\/modules\/([^/]+)\//.exec(path)?.[1] ?? folder!;
      modules.set(release, [...(modules.get(release) ?? []), path]);
    } else if (/\/vmlinux-[^/]*$/.test(path) && firstBytes(path).equals(Buffer.from('\x7fELF'))) kernels.push(path);
  }
  return { kernels, modules };
}

const { kernels, modules } = await found();
for (const path of kernels) await tryFile({ path, kind: 'vmlinux', release: basename(path).replace('vmlinux-', '') });
for (const [release, all] of modules) {
  const count = Math.min(Number(most), all.length);
  for (let i = 0; i < count; i++) {
    const path = all[Math.floor((i * all.length) / count)]!;
    await tryFile({ path, kind: 'modules', release });
    // Hours of work: what stops it in between leaves what was counted.
    if ((i + 1) % 100 === 0) proofRows(records).forEach(print);
  }
}
proofRows(records).forEach(print);
if (options.has('--write')) writeProofsPage(records);
for (const each of failures) console.log(`failed: ${each}`);
process.exitCode = failures.size > 0 ? 1 : 0;
