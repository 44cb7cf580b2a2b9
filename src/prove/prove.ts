/**
 * The proof of an image: which sites changed, where each is entered, trials of each, what else of
 * the image changed. Sites are proved one by one; nothing of one is left for the next.
 */
import type { Arch } from '../machine/arch.js';
import { conventionNamed } from '../machine/conventions.js';
import type { IrEmulation } from '../machine/emulation.js';
import { ElftraceError } from '../errors.js';
import type { ElfImage } from '../elf/image.js';
import { load } from '../program/program.js';
import { findSites, type Sites } from '../sites/sites.js';
import { recordIp } from '../tracing/tracing.js';
import { entryPoint } from '../patch/routes.js';
import type { Address } from '../units.js';
import { giveAccount } from './account.js';
import { unexplainedChanges } from './changes.js';
import { ImageLayout } from './layout.js';
import { mix, Random } from './random.js';
import { begin, type Entry } from './state.js';
import { type Outcome, type Pair, type Trial, tryOnce } from './trial.js';
import type { ProofSummary, SiteProof } from './verdict.js';
import { WantedCalls } from './wanted.js';
import { ProofWorld } from './world.js';

export interface ProveOptions {
  /** Default 1. The same seed gives the same proof. */
  readonly seed?: number;
  /** Trials of each site, at least. Default 2. */
  readonly trials?: number;
  /** Only so many of the changed sites, spread over the image; the rest is counted as skipped. */
  readonly sample?: number;
  readonly signal?: AbortSignal;
}

/** Trials of the first sites of each shape: the states that are easy to miss (PV-3). */
const FIRST_TRIALS = 12;
const FIRST_SITES = 3;
/** Addresses of the image that registers may hold. */
const ADDRESSES = 64;

/** A site of one of the images, or of both. */
interface Subject {
  readonly anchor: Address;
  /** Number in the patched image and in the original; -1: it is not in the table there. */
  readonly patched: number;
  readonly original: number;
}

function subjects(original: Sites, patched: Sites): Subject[] {
  const found = new Map<Address, Subject>();
  for (let i = 0; i < original.count; i++) {
    if (original.codeRange(i))
      found.set(original.anchor[i]!, { anchor: original.anchor[i]!, original: i, patched: -1 });
  }
  for (let i = 0; i < patched.count; i++) {
    if (!patched.codeRange(i)) continue;
    const anchor = patched.anchor[i]!;
    found.set(anchor, { anchor, original: found.get(anchor)?.original ?? -1, patched: i });
  }
  return [...found.values()].sort((a, b) => (a.anchor < b.anchor ? -1 : 1));
}

/** An image, its sites, a machine for it. */
interface Side {
  readonly sites: Sites;
  readonly world: ProofWorld;
}

class Prover {
  readonly subjects: readonly Subject[];
  readonly original: Side;
  readonly patched: Side;
  readonly emulation: IrEmulation;
  private readonly wanted: WantedCalls;
  /** The original is a traced image, too. */
  private readonly traced: boolean;
  private readonly handler: Address | null;
  private readonly own: readonly { readonly start: Address; readonly end: Address }[];
  private readonly addresses: readonly Address[];
  private readonly shapes = new Map<string, number>();

  constructor(
    original: ElfImage,
    patched: ElfImage,
    readonly arch: Arch,
    private readonly options: ProveOptions,
  ) {
    const { emulation } = arch;
    if (emulation.kind !== 'ir') {
      throw new ElftraceError('unsupported-form', `nothing can be proved: ${emulation.reason}`, {
        what: arch.target.id,
        reason: 'no-emulator',
      });
    }
    this.emulation = emulation;
    const side = (image: ElfImage): Side => {
      const program = load(image, arch);
      if (program.relocatable) {
        throw new ElftraceError(
          'unsupported-form',
          'a relocatable file has no addresses to execute at: load it first (elftrace load), and patch and prove the image',
          { reason: 'relocatable' },
        );
      }
      return { sites: findSites(program), world: new ProofWorld(new ImageLayout(program), emulation, this.seed) };
    };
    this.original = side(original);
    this.patched = side(patched);
    this.subjects = subjects(this.original.sites, this.patched.sites);
    const { program } = this.patched.sites;
    this.wanted = new WantedCalls(program);
    this.traced = entryPoint(this.original.sites.program, 'ftrace_caller') !== null;
    this.handler = entryPoint(program, 'return_to_handler')?.identity ?? null;
    this.own = [this.original, this.patched].flatMap(
      ({ sites }) =>
        sites.program.loadMap?.parts.filter(({ kind }) => kind === 'runtime').flatMap(({ ranges }) => ranges) ?? [],
    );
    const step = Math.max(1, Math.floor(this.subjects.length / ADDRESSES));
    this.addresses = this.subjects.filter((_, i) => i % step === 0).map(({ anchor }) => anchor);
  }

  get seed(): number {
    return this.options.seed ?? 1;
  }

  /** The side that says most of a site: the patched one, or the original where it is gone. */
  private home({ patched, original }: Subject): readonly [Sites, number] {
    return patched >= 0 && this.patched.sites.reading(patched) !== null
      ? [this.patched.sites, patched]
      : original >= 0
        ? [this.original.sites, original]
        : [this.patched.sites, patched];
  }

  /** First byte and end of a site, as far as either image says. */
  private extent(subject: Subject): { start: Address; end: Address } | null {
    let found: { start: Address; end: Address } | null = null;
    for (const [sites, index] of [
      [this.original.sites, subject.original],
      [this.patched.sites, subject.patched],
    ] as const) {
      const reading = index < 0 ? null : sites.reading(index);
      if (reading === null) continue;
      const start = sites.anchor[index]! + BigInt(reading.startDelta);
      const end = start + BigInt(reading.sizeBytes);
      found = found === null ? { start, end } : { start: min(found.start, start), end: max(found.end, end) };
    }
    return found;
  }

  /** Whether the original's site calls something, and that is no tracer of an image with one. */
  private profiles({ original }: Subject): boolean {
    const { sites } = this.original;
    const state = original < 0 ? null : sites.state(original);
    return state === 'compiled' || (state === 'call' && !this.traced);
  }

  /** Whether all entries that may serve a site are called as any function is. */
  private isOrdinaryCall([sites, index]: readonly [Sites, number]): boolean {
    const reading = sites.reading(index);
    const served = reading === null ? [] : sites.entriesOf(index, reading);
    return (
      served.length > 0 && served.every((name) => conventionNamed(this.arch.conventions, name)?.ordinaryCall === true)
    );
  }

  /** Where a site begins to be executed: in front of its function there may be a part of it. */
  private firstExecuted([sites, index]: readonly [Sites, number], { start, end }: { start: Address; end: Address }) {
    const symbol = sites.functionSymbol(index);
    const place = symbol < 0 ? undefined : sites.program.functions.placeOf(symbol)?.value;
    return place !== undefined && place > start && place < end ? place : start;
  }

  private isChanged(subject: Subject, { start, end }: { start: Address; end: Address }): boolean {
    const size = Number(end - start);
    const bytes = ({ sites: { program } }: Side): string => {
      const at = program.image.fileOffsetOf(start);
      return at < 0 ? '' : program.image.bytes.subarray(at, at + size).join();
    };
    if (bytes(this.original) !== bytes(this.patched)) return true;
    return subject.patched >= 0 && this.patched.sites.state(subject.patched) === 'call';
  }

  /** Places where the function of a site is entered (PV-1, 2). */
  private entries([sites, index]: readonly [Sites, number], start: Address): readonly Entry[] {
    const { program } = sites;
    const symbol = sites.functionSymbol(index);
    const place = symbol < 0 ? undefined : program.functions.placeOf(symbol)?.value;
    if (place === undefined || place > start) return [{ address: start, global: null }];
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    const global: Entry = { address: place, global: place };
    const second: Entry = { address: place + local, global: null };
    return local === 0n || second.address > start ? [global] : [global, second];
  }

  prove(subject: Subject): SiteProof {
    const home = this.home(subject);
    const [sites, index] = home;
    const range = sites.codeRange(index)!;
    const base = {
      address: sites.ip(index),
      function: sites.program.describe(range, sites.ip(index)),
      shape: sites.shape(index),
    };
    const extent = this.extent(subject);
    if (extent === null) return { ...base, verdict: 'inconclusive', trials: 0, reason: 'not-a-site' };
    if (!this.isChanged(subject, extent)) return { ...base, verdict: 'proved', trials: 0, reason: 'unchanged' };
    const ip = this.wanted.known ? recordIp(sites, index) : sites.ip(index);
    const isOn = subject.patched >= 0 && this.patched.sites.state(subject.patched) === 'call';
    const start = this.firstExecuted(home, extent);
    const trial: Trial = {
      start,
      end: extent.end,
      ip,
      wanted: isOn && this.wanted.known ? this.wanted.at(ip) : null,
      own: this.own,
      profiles: this.profiles(subject),
      ordinaryCall: this.isOrdinaryCall(home),
      handler: this.handler,
    };
    return { ...base, ...this.decide(trial, this.entries(home, start), base.shape) };
  }

  private decide(
    trial: Trial,
    entries: readonly Entry[],
    shape: string,
  ): Pick<SiteProof, 'verdict' | 'trials' | 'reason' | 'detail' | 'account'> {
    const seen = this.shapes.get(shape) ?? 0;
    this.shapes.set(shape, seen + 1);
    const wanted = Math.max(this.options.trials ?? 2, entries.length, seen < FIRST_SITES ? FIRST_TRIALS : 0);
    let counted = 0;
    let open: Extract<Outcome, { kind: 'open' }> | null = null;
    for (let n = 0; n < wanted; n++) {
      const entry = entries[n % entries.length]!;
      const seed = mix(this.seed, Number(trial.ip & 0xffff_ffffn), n);
      const outcome = this.run(trial, entry, seed);
      if (outcome.kind === 'different') {
        const { difference, phase } = outcome;
        const account = giveAccount(this.pair, trial, { seed, entry: entry.address, phase, difference }, () =>
          this.begin(entry, seed),
        );
        this.reset();
        return { verdict: 'different', trials: counted, account };
      }
      if (outcome.kind === 'equal') counted++;
      else open ??= outcome;
    }
    if (counted > 0) return { verdict: 'proved', trials: counted };
    return {
      verdict: 'inconclusive',
      trials: 0,
      reason: open?.reason ?? 'no-way-in',
      ...(open === null ? {} : { detail: open.detail }),
    };
  }

  get pair(): Pair {
    const { original, patched, emulation, arch } = this;
    return {
      original: original.world,
      patched: patched.world,
      program: patched.sites.program,
      abi: arch.abi,
      proof: emulation.proof,
    };
  }

  private begin(entry: Entry, seed: number): ReturnType<typeof begin> {
    const worlds = [this.original.world, this.patched.world] as const;
    return begin(worlds, this.patched.sites.program, this.emulation, entry, new Random(seed), this.addresses);
  }

  private run(trial: Trial, entry: Entry, seed: number): Outcome {
    const outcome = tryOnce(this.pair, trial, this.begin(entry, seed));
    this.reset();
    return outcome;
  }

  private reset(): void {
    this.original.world.reset();
    this.patched.world.reset();
  }
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** Sites of a run between two looks at the signal, and at what else there is to do. */
const PIECE = 64;

/**
 * Proves the sites of a patched image against the original. Yields a verdict for each site, by
 * address; returns the summary.
 * @param original  as it was before the patch
 * @param patched   a linked file, or an image of `load`, of the same machine
 * @throws ElftraceError 'unsupported-form' for relocatable files and machines without an emulator,
 *   'usage' for images of different machines; what `signal` was aborted with
 * Source: PV-1 to PV-4
 */
export async function* prove(
  original: ElfImage,
  patched: ElfImage,
  arch: Arch,
  options: ProveOptions = {},
): AsyncGenerator<SiteProof, ProofSummary> {
  const prover = new Prover(original, patched, arch, options);
  const counts = { unchanged: 0, proved: 0, different: 0, inconclusive: 0, skipped: 0 };
  const reasons: Record<string, number> = {};
  const { subjects } = prover;
  const every = options.sample === undefined ? 1 : Math.max(1, Math.floor(subjects.length / options.sample));
  for (const [i, subject] of subjects.entries()) {
    if (i % PIECE === 0) {
      options.signal?.throwIfAborted();
      await Promise.resolve();
    }
    if (i % every !== 0) {
      counts.skipped++;
      continue;
    }
    const site = prover.prove(subject);
    if (site.reason === 'unchanged') counts.unchanged++;
    else counts[site.verdict]++;
    if (site.verdict === 'inconclusive' && site.reason !== undefined) {
      reasons[site.reason] = (reasons[site.reason] ?? 0) + 1;
    }
    yield site;
  }
  return {
    target: arch.target.id,
    seed: prover.seed,
    sites: subjects.length,
    ...counts,
    reasons,
    unexplained: unexplainedChanges(prover.original.sites, prover.patched.sites),
  };
}
