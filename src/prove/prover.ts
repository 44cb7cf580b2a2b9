/**
 * Proves sites one by one: where each is entered, trials of each; nothing of one is left for the
 * next.
 */
import type { Arch } from '../machine/arch.js';
import { conventionNamed } from '../machine/conventions.js';
import type { IrEmulation } from '../machine/emulation.js';
import { ElftraceError } from '../errors.js';
import type { ElfImage } from '../elf/image.js';
import type { Sites } from '../sites/sites.js';
import { findSleds, type Sled } from '../sites/sleds.js';
import { recordIp, whyNoGraph } from '../tracing/site-state.js';
import { entryPoint } from '../program/entry-points.js';
import type { Address } from '../units.js';
import { giveAccount } from './account.js';
import { enterMoment, momentsOf } from './between.js';
import { readsChangedText } from './changed-text.js';
import { differing, ImageLayout } from './layout.js';
import { OwnData } from './own-data.js';
import type { ProveOptions } from './options.js';
import { mix, Random } from './random.js';
import { type ProbeSubject, ProbeProofs } from './probes.js';
import { type Begun, begin, type Entry } from './state.js';
import { stateText } from './state-texts.js';
import { changedPages, type Outcome, type Pair, type Trial } from './compare.js';
import { patchedSites, type Subject, subjects, sitesOf } from './subjects.js';
import { NULL_POINTERS, PROBED_TAILS, TAILS, TRACER_STATES, type TracerState } from './tracer-states.js';
import { Trials } from './trial.js';
import type { Account, SiteProof } from './verdict.js';
import { type Wanted, WantedCalls } from './wanted.js';
import { ProofWorld } from './world.js';

/** Whether a function signed its return address in front of a site. */
const bindsReturn = (sites: Sites, index: number): boolean => whyNoGraph(sites, index, sites.reading(index)) !== null;

/** What is wanted of a site that is off. */
const NO_CALLS: Wanted = { calls: [], hijack: false, trap: false, direct: null, replacement: null, frame: null };
/**
 * Trials of the first sites of each shape, where they call nothing: the states that are easy to
 * miss (PV-3). Where they do, all states of the tracer's data.
 */
const FIRST_TRIALS = 12;
/** Further trials of a site to which none came. */
const MORE_TRIALS = 8;
/** Bits of a trial's seed that say in which state the tracer's data is. */
const STATE_SHIFT = 8;
const STATE_MASK = 0x3f00;
const FIRST_SITES = 3;
/** From where a site begins, which may be in front of its function: more than any has. */
const SITE_BYTES = 64n;
/** The tracer's instructions are among them. */
const PATCHED_BUDGET = 400_000;
/** Addresses of the image that registers may hold. */
const ADDRESSES = 64;
const NO_ADDRESSES = new BigUint64Array(0);

/**
 * What sites must have in common so that the states that are easy to miss need not be tried at each
 * (PV-3): the shape, and what they call. Direct callers and replacements may be many.
 */
function kindOf(shape: string, { wanted, trap, probed }: Trial): string {
  if (wanted === null) return shape;
  const { calls, hijack, isBound = false, direct, replacement } = wanted;
  const others = [hijack, isBound, direct !== null, replacement !== null, trap !== null, probed].map(Number).join('');
  return [shape, others, ...calls.map(({ name }) => name)].join(' ');
}

/** A site with what its trials need. */
export interface Tried {
  readonly trial: Trial;
  readonly entries: readonly Entry[];
}

/** The trials of a site or a probe. */
export interface Attempts {
  /** Whether it is known what the tracer's data holds afterwards. */
  readonly hasData: boolean;
  /** A return probe takes the return of the function. */
  readonly hasTrap: boolean;
  once(begun: Begun, isCalledAlike?: boolean): Outcome;
  end(): void;
}

/** An image, its sites, a machine for it. */
interface Side {
  readonly sites: Sites;
  readonly world: ProofWorld;
}

/** Proves an image site by site. */
export class Prover {
  readonly subjects: readonly Subject[];
  private readonly sleds: readonly Sled[];
  readonly original: Side;
  readonly patched: Side;
  readonly emulation: IrEmulation;
  private readonly wanted: WantedCalls;
  private readonly data: OwnData | null;
  /** The original is a traced image, too. */
  private readonly traced: boolean;
  private readonly handler: Address | null;
  /** Ranges that belong to the tracer. */
  readonly own: readonly { readonly start: Address; readonly end: Address }[];
  private readonly addresses: BigUint64Array;
  readonly probes: ProbeProofs | null;
  private readonly siteHits: Pair['hits'] = null;
  private readonly kinds = new Map<string, number>();

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
    const side = (sites: Sites): Side => ({
      sites,
      world: new ProofWorld(new ImageLayout(sites.program), emulation, this.seed),
    });
    this.original = side(sitesOf(original, arch, options));
    this.patched = side(patchedSites(this.original.sites, options.sites ?? sitesOf(patched, arch, options)));
    this.subjects = subjects(this.original.sites, this.patched.sites);
    const sleds = findSleds(this.original.sites.program);
    this.sleds = sleds === null || 'unread' in sleds ? [] : sleds;
    const { program } = this.patched.sites;
    this.wanted = new WantedCalls(program, emulation.proof);
    this.traced = entryPoint(this.original.sites.program, 'ftrace_caller') !== null;
    this.handler = entryPoint(program, 'return_to_handler')?.identity ?? null;
    this.own = [this.original, this.patched].flatMap(
      ({ sites }) =>
        sites.program.loadMap?.parts.filter(({ kind }) => kind === 'runtime').flatMap(({ ranges }) => ranges) ?? [],
    );
    this.data = this.wanted.known ? OwnData.of(program, this.own, emulation, this.original.world) : null;
    const step = Math.max(1, Math.floor(this.subjects.length / ADDRESSES));
    this.addresses = BigUint64Array.from(
      this.subjects.filter((_, i) => i % step === 0),
      ({ anchor }) => anchor,
    );
    const probes = ProbeProofs.of(this.pair, patched, this.own);
    if (probes !== null) this.siteHits = (ip, before) => probes.hitAtSite(ip, before);
    this.probes = probes;
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

  /** Whether a place is in a sled of XRay: what looks like a site there is none. */
  private isInSled({ start, end }: { readonly start: Address; readonly end: Address }): boolean {
    return this.sleds.some(({ address, bytes }) => address < end && address + BigInt(bytes.length) > start);
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

  /** How a tracer finds the caller of a function that has pushed something in front of its site. */
  private callerBy([sites, index]: readonly [Sites, number]): Trial['callerBy'] {
    const reading = sites.reading(index);
    const service = reading?.shape.servedAt?.(reading, sites.viewOf(index)) ?? null;
    if (service === null) return null;
    if (service.callerInFrame) return 'callback';
    const isLate = service.entries.every((name) => conventionNamed(this.arch.conventions, name)?.atEntry === false);
    return service.entries.length > 0 && isLate ? 'frame' : null;
  }

  /** Where a site begins to be executed: in front of its function there may be a part of it. */
  private firstExecuted([sites, index]: readonly [Sites, number], { start, end }: { start: Address; end: Address }) {
    const symbol = sites.functionSymbol(index);
    const place = symbol < 0 ? undefined : sites.program.functions.placeOf(symbol)?.value;
    return place !== undefined && place > start && place < end ? place : start;
  }

  private isChanged(subject: Subject, { start, end }: { start: Address; end: Address }): boolean {
    const [before, after] = [this.original.sites.program.image, this.patched.sites.program.image];
    const [from, to] = [before.fileOffsetOf(start), after.fileOffsetOf(start)];
    const size = Number(end - start);
    const count = from < 0 ? 0 : Math.min(size, before.bytes.length - from);
    if (count !== (to < 0 ? 0 : Math.min(size, after.bytes.length - to))) return true;
    for (let i = 0; i < count; i++) {
      if (before.bytes[from + i] === after.bytes[to + i]) continue;
      // Bytes of a probe in front of the site's call are proved with the probe.
      const probes = this.probes?.within(start, end) ?? [];
      const address = start + BigInt(i);
      if (!probes.some((each) => address >= each.address && address < each.end)) return true;
    }
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

  /** The code of a site's function; null: its size is not known. */
  private body([sites, index]: readonly [Sites, number], start: Address): Trial['body'] {
    const { functions, symbols } = sites.program;
    const symbol = sites.functionSymbol(index);
    const place = symbol < 0 ? undefined : functions.placeOf(symbol)?.value;
    const size = symbol < 0 ? 0n : symbols.size[symbol]!;
    return place === undefined || place + size <= start ? null : { start: min(place, start), end: place + size };
  }

  /** How many changed sites of its kind were in front of one; the next one is one more. */
  private place(kind: string): number {
    const seen = this.kinds.get(kind) ?? 0;
    this.kinds.set(kind, seen + 1);
    return seen;
  }

  /** Passes over a site that another part proves. */
  pass(subject: Subject): void {
    const [sites, index] = this.home(subject);
    const extent = this.extent(subject);
    if (extent === null || !this.isChanged(subject, extent)) return;
    const shape = sites.shape(index);
    const isPlain = !this.wanted.known && this.probes === null;
    this.place(isPlain ? shape : kindOf(shape, this.tried(subject, this.home(subject), extent).trial));
  }

  prove(subject: Subject): SiteProof {
    const home = this.home(subject);
    const [sites, index] = home;
    const range = sites.codeRange(index)!;
    const base = {
      section: range.name,
      address: sites.ip(index),
      function: sites.program.describe(range, sites.ip(index)),
      shape: sites.shape(index),
    };
    const extent = this.extent(subject);
    if (extent === null || this.isInSled(extent))
      return { ...base, verdict: 'inconclusive', trials: 0, reason: 'not-a-site' };
    if (!this.isChanged(subject, extent)) return { ...base, verdict: 'proved', trials: 0, reason: 'unchanged' };
    const { trial, entries } = this.tried(subject, home, extent);
    const place = this.place(kindOf(base.shape, trial));
    const isEarly = place < FIRST_SITES;
    const verdict = this.decide(trial, entries, { isEarly, isFirst: place === 0 });
    if (verdict.verdict !== 'proved') return { ...base, ...verdict };
    const between = isEarly ? this.between(trial, entries, subject.patched) : null;
    if (between !== null) return { ...base, ...between };
    const { section, address, function: name, shape } = base;
    // Most sites end here: copies of all members of objects take their time.
    return { section, address, function: name, shape, verdict: 'proved', trials: verdict.trials };
  }

  /** What is tried of a site that changed; null: it did not, or is none. */
  trialOf(subject: Subject): Tried | null {
    const extent = this.extent(subject);
    return extent === null || !this.isChanged(subject, extent) ? null : this.tried(subject, this.home(subject), extent);
  }

  private tried(subject: Subject, home: readonly [Sites, number], extent: { start: Address; end: Address }): Tried {
    const [sites, index] = home;
    const isOn = subject.patched >= 0 && this.patched.sites.state(subject.patched) === 'call';
    // What callbacks are told; an image whose sites are off may have no entries to tell it.
    const ip = isOn && this.wanted.known ? recordIp(sites, index) : sites.ip(index);
    const start = this.firstExecuted(home, extent);
    const trial: Trial = {
      start,
      end: extent.end,
      ip,
      wanted: isOn && this.wanted.known ? this.wanted.at(ip, bindsReturn(this.patched.sites, subject.patched)) : null,
      own: this.own,
      profiles: this.profiles(subject),
      ordinaryCall: this.isOrdinaryCall(home),
      callerBy: this.callerBy(home),
      handler: this.handler,
      trap: null,
      handled: 0n,
      probed: false,
      body: this.body(home, start),
      steps: new Map(),
    };
    const entries = this.entries(home, start);
    return { trial: this.withProbes(trial, entries), entries };
  }

  /** A site whose callback is that of a return probe, or that has a probe on the way to it. */
  private withProbes(trial: Trial, entries: readonly Entry[]): Trial {
    const { probes } = this;
    if (probes === null) return trial;
    const first = entries.reduce((at, { address }) => min(at, address), trial.start);
    const trap = probes.returnsFrom({ ...trial, start: first });
    const begin = trial.body === null ? first : min(first, trial.body.start);
    const probed = probes.within(begin, trial.end).length > 0;
    // Breakpoints in the body would be no steps of it, nor would ways through detour buffers.
    const isFree = trial.body !== null && probes.within(trial.body.start, trial.body.end).length === 0;
    const body = isFree ? trial.body : null;
    const handled = probes.handledAt(trial.ip);
    if (trap === null) return { ...trial, handled, probed, body };
    return { ...trial, trap, handled, probed, body, wanted: { ...(trial.wanted ?? NO_CALLS), trap: true } };
  }

  /** Proves a probe. */
  proveProbe(probe: ProbeSubject): SiteProof {
    const probes = this.probes!;
    const { program } = this.patched.sites;
    const base = {
      section: program.codeAt(probe.address)?.name ?? '',
      address: probe.address,
      function: probe.name,
      shape: `probe.${probe.kind}`,
    };
    const attempts = this.attemptsOf(probe);
    return {
      ...base,
      ...this.decide(probes.trial(probe), this.entriesOf(probe), { isEarly: true, isFirst: true }, attempts),
    };
  }

  /**
   * Places where the way to a probe begins. A site on it that calls a tracer is proved by itself,
   * and leaves words below the stack, of which the function makes its frame: the way begins behind
   * it.
   */
  entriesOf(probe: ProbeSubject): readonly Entry[] {
    return this.probes!.entries(probe).map((entry) => {
      const passed = this.subjects
        .filter(({ anchor }) => anchor >= entry.address - SITE_BYTES && anchor < probe.address)
        .filter(({ patched }) => patched >= 0 && this.patched.sites.state(patched) === 'call')
        .flatMap((subject) => this.extent(subject) ?? [])
        .filter(({ end }) => end > entry.address && end <= probe.address);
      const last = passed.at(-1);
      return last === undefined ? entry : { address: last.end, global: null };
    });
  }

  /** The trials of a probe. */
  attemptsOf(probe: ProbeSubject): Attempts {
    const probes = this.probes!;
    const hasTrap = probes.trial(probe).trap !== null;
    return { hasData: probes.knows, hasTrap, once: (begun) => probes.once(probe, begun), end: () => undefined };
  }

  /**
   * Watches that functions of the tracer give back what the ABI wants preserved.
   * @returns what ends that; null: no such function is known
   */
  watchCalls(): (() => void) | null {
    return this.data?.watchCalls(this.patched.world) ?? null;
  }

  private decide(
    trial: Trial,
    entries: readonly Entry[],
    { isEarly, isFirst }: { readonly isEarly: boolean; readonly isFirst: boolean },
    probe: Attempts | null = null,
  ): Pick<SiteProof, 'verdict' | 'trials' | 'reason' | 'detail' | 'account'> {
    const isCalled = trial.wanted !== null || probe?.hasData === true;
    // A probe records something wherever the way to it begins: all states from each entry.
    const first = isCalled ? TRACER_STATES.length * (probe === null ? 1 : entries.length) : FIRST_TRIALS;
    const wanted = Math.max(this.options.trials ?? 2, entries.length, isEarly ? first : 0);
    let counted = 0;
    let open: Extract<Outcome, { kind: 'open' }> | null = null;
    const trials = probe ?? this.trials(trial);
    const leave = isFirst && isCalled ? this.watchCalls() : null;
    const end = (): void => {
      leave?.();
      trials.end();
    };
    // Where none came to the site, as all of them read through a pointer to nothing, more may.
    const isLost = (): boolean => counted === 0 && open?.reason === 'not-reached' && !open.doubt;
    for (let n = 0; n < wanted || (n < wanted + MORE_TRIALS && isLost()); n++) {
      const { entry, seed } = this.turn(trial, entries, n);
      const outcome = this.attempt(trials, entry, seed);
      if (outcome.kind === 'different') {
        const account = this.accountOf(trials, entry, seed, outcome, null);
        end();
        return { verdict: 'different', trials: counted, account };
      }
      if (outcome.kind === 'equal') counted++;
      else if (open?.doubt !== true && (open === null || outcome.doubt)) open = outcome;
    }
    end();
    if (counted > 0 && open?.doubt !== true) return { verdict: 'proved', trials: counted };
    return {
      verdict: 'inconclusive',
      trials: 0,
      reason: open?.reason ?? 'no-way-in',
      ...(open === null ? {} : { detail: open.detail }),
    };
  }

  /** Both ways of a trial that failed. */
  private accountOf(
    trials: Attempts,
    entry: Entry,
    seed: number,
    { difference, phase, registers = [] }: Extract<Outcome, { kind: 'different' }>,
    during: string | null,
  ): Account {
    const { returnAddress, stackPointer, tracer } = this.begin(trials, entry, seed);
    this.reset();
    // What a call before it left has no name of its own.
    const state = stateText(tracer ?? (trials.hasData ? 'again' : null));
    const begun = { seed, entry: entry.address, returnAddress, stackPointer, state };
    const found = { ...begun, phase, difference, registers, during };
    const account = giveAccount(this.pair, found, () => {
      const again = this.begin(trials, entry, seed);
      return () => void trials.once(again);
    });
    this.reset();
    return account;
  }

  /** What is wrong while the text of a site that is on is written (PV-3); null: nothing. */
  private between(
    trial: Trial,
    entries: readonly Entry[],
    index: number,
  ): Pick<SiteProof, 'verdict' | 'trials' | 'reason' | 'detail' | 'account'> | null {
    if (trial.wanted === null || trial.probed) return null;
    const { world, sites } = this.patched;
    for (const moment of momentsOf(sites, index)) {
      const leave = enterMoment(world, moment);
      const trials = this.trials(moment.isOn ? trial : { ...trial, wanted: null, trap: null });
      try {
        for (let n = 0; n < entries.length; n++) {
          const { entry, seed } = this.turn(trial, entries, n);
          const outcome = this.attempt(trials, entry, seed);
          if (outcome.kind === 'different') {
            const account = this.accountOf(trials, entry, seed, outcome, moment.what);
            return { verdict: 'different', trials: 0, account };
          }
          if (outcome.kind !== 'open' || !outcome.doubt) continue;
          const { reason, detail } = outcome;
          return { verdict: 'inconclusive', trials: 0, reason, detail: `${detail}, while ${moment.what}` };
        }
      } finally {
        trials.end();
        leave();
      }
    }
    return null;
  }

  /** Trials of a site. Where a probe is on the way, its handler writes words of its own. */
  trials(trial: Trial): Trials {
    return new Trials(trial.probed ? { ...this.pair, data: null } : this.pair, trial);
  }

  /** Where trial `n` of a site begins, and what decides its state. */
  turn({ ip }: Trial, entries: readonly Entry[], n: number): { readonly entry: Entry; readonly seed: number } {
    // Odd seeds mix addresses of the image in (begin): the trials of each entry take turns.
    const low = ((n % TRACER_STATES.length) << STATE_SHIFT) | ((n ^ (n >> 1)) & 1);
    const seed = ((mix(this.seed, Number(ip & 0xffff_ffffn), n) & ~(STATE_MASK | 1)) | low) >>> 0;
    const round = Math.floor(n / TRACER_STATES.length);
    return { entry: entries[(n + round) % entries.length]!, seed };
  }

  /**
   * One trial; nothing of it is left. A body that computes with its return address, as one that
   * walks past the end of its stack does, computes something else under a tracer that took it.
   * Where all else is equal that is no fault of the patch, and no proof: what the program makes of
   * it is not known.
   */
  attempt(trials: Attempts, entry: Entry, seed: number): Outcome {
    const outcome = trials.once(this.begin(trials, entry, seed));
    this.reset();
    if (outcome.kind !== 'different') return outcome;
    if (outcome.phase !== 'return') return this.readsText(trials, entry, seed) ?? outcome;
    const [ended, other] = this.outsideTracer(trials, entry, seed);
    if (ended !== null && ended.kind !== 'different') return ended;
    if (other.kind !== 'equal') return outcome;
    const detail = 'the function computes with its own return address, which the tracer replaces';
    return { kind: 'open', reason: 'uses-return-address', detail, doubt: true };
  }

  /** The trial once more: a way that reads changed text says nothing; null: it does not. */
  private readsText(trials: Attempts, entry: Entry, seed: number): Outcome | null {
    const reads = readsChangedText(this.pair, () => trials.once(this.begin(trials, entry, seed)));
    this.reset();
    const detail = 'the way to it reads text that the patch changed, through a pointer that the trial made up';
    return reads ? { kind: 'open', reason: 'not-reached', detail, doubt: false } : null;
  }

  /**
   * The trial once more, with a body that ends where it would come to the tracer's data, as any
   * pointer that a trial makes up may where addresses have 32 bits: there it finds other numbers in
   * the patched. It also ends where it would store to what tells threads apart. Code of a tracer
   * that the original has runs on.
   * @returns what comes of it, null if the body comes to no such place; then, with a body that has
   *   the tracer's return address in the original, too
   */
  private outsideTracer(trials: Attempts, entry: Entry, seed: number): [Outcome | null, Outcome] {
    const { machine } = this.original.world;
    let isThere = false;
    const isOwn = (address: Address): boolean => this.own.some(({ start, end }) => address >= start && address < end);
    const once = (isCalledAlike: boolean): Outcome => {
      const begun = this.begin(trials, entry, seed);
      const watch = (address: Address, size: number, access: 'write' | 'any') =>
        machine.watch({ address, size, access }, (_machine, { instruction }) => {
          if (isOwn(instruction)) return 'continue';
          isThere = true;
          return 'stop';
        });
      const off = [
        ...this.own.map(({ start, end }) => watch(start, Number(end - start), 'any')),
        // What tells threads apart no program changes.
        ...this.threadWords(begun).map((address) =>
          watch(address, this.patched.sites.program.image.wordBytes, 'write'),
        ),
      ];
      const outcome = trials.once(begun, isCalledAlike);
      for (const each of off) each();
      this.reset();
      return outcome;
    };
    const outcome = once(false);
    return [isThere ? outcome : null, once(true)];
  }

  get pair(): Pair {
    const { original, patched, emulation, arch } = this;
    return {
      original: original.world,
      patched: patched.world,
      program: patched.sites.program,
      abi: arch.abi,
      proof: emulation.proof,
      frames: emulation.process.frames,
      budget: this.options.budget ?? PATCHED_BUDGET,
      data: this.data,
      hits: this.siteHits,
    };
  }

  /** The state of a trial; its seed says which one of the tracer's data (PV-3). */
  private begin(trials: Attempts, entry: Entry, seed: number): Begun {
    const said = TRACER_STATES[(seed & STATE_MASK) >>> STATE_SHIFT] ?? 'fresh';
    // What returns to a return probe does not tell whether the site's own took the return.
    const isPlain = trials.hasTrap || (this.data?.trap ?? null) === null;
    const other = said === 'lost-tail' ? 'left' : 'tail';
    const state = PROBED_TAILS.has(said) && isPlain ? other : said;
    if (!trials.hasData) return this.first(entry, seed, null, null);
    if (state !== 'again') return this.first(entry, seed, null, state);
    const before = this.first(entry, (~seed & ~STATE_MASK) >>> 0, null, 'fresh');
    if (trials.once(before).kind === 'equal') {
      this.level();
      return this.first(entry, seed, before, null);
    }
    this.reset();
    return this.first(entry, seed, null, 'fresh');
  }

  /**
   * A call leaves things that may differ: whatever is below the stack pointer, where frames of the
   * next one lie that are not written to as a whole, and return addresses that it copied. Both
   * worlds get what the original left, but for the tracer's own data.
   */
  private level(): void {
    const [original, patched] = [this.original.world, this.patched.world];
    for (const page of changedPages({ original, patched })) {
      const [a, b] = [original.page(page).now, patched.page(page).now];
      for (const i of differing(a, b)) {
        const address = page + BigInt(i);
        if (this.own.some(({ start, end }) => address >= start && address < end)) continue;
        if (original.layout.owns(address) !== patched.layout.owns(address)) continue;
        patched.write(address, a.subarray(i, i + 1));
      }
    }
  }

  private first(entry: Entry, seed: number, before: Begun | null, state: TracerState | null): Begun {
    const worlds = [this.original.world, this.patched.world] as const;
    const random = new Random(seed);
    const addresses = (seed & 1) === 0 ? NO_ADDRESSES : this.addresses;
    // A function called by a tail call returns to where the one before it does (C-FG-3).
    const trap = PROBED_TAILS.has(state) ? (this.data?.trap ?? null) : null;
    const back = trap ?? (TAILS.has(state) ? this.handler : null);
    ProofWorld.leaveOut(worlds, null);
    const begun = begin(
      worlds,
      this.patched.sites.program,
      this.emulation,
      entry,
      random,
      addresses,
      before,
      state,
      back,
    );
    if (state === 'unmapped') ProofWorld.leaveOut(worlds, begun.stackPointer, this.threadWords(begun));
    if (NULL_POINTERS.has(state)) ProofWorld.leaveOutFirst(worlds);
    return begun;
  }

  /** Words that may tell threads apart: a thread pointer leads to memory. */
  private threadWords({ registers }: Begun): readonly Address[] {
    return Object.values(this.emulation.proof.threadKey?.at ?? {}).map((name) => registers.get(name));
  }

  private reset(): void {
    this.original.world.reset();
    this.patched.world.reset();
  }
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);
