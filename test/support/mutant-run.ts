/**
 * Mutants of an image, each judged by the proof of the sites that execute it (PV-5). The image is
 * loaded once; a mutant changes its bytes and runs the trials that come to them, until one differs.
 */
import { archOf } from '../../src/arches.js';
import { readElf } from '../../src/elf/read.js';
import { type Attempts, Prover, type Tried } from '../../src/prove/prover.js';
import { TRACER_STATES } from '../../src/prove/tracer-states.js';
import { entriesOf } from '../../src/tracing/entries.js';
import type { Address } from '../../src/units.js';
import { Alone } from './mutant-alike.js';
import { type Place, TracerCode } from './mutant-code.js';
import { type DrawnMutant, DrawnRuns, type DrawnSaid } from './mutant-drawn.js';
import { type MutantNote, MutantNotes } from './mutant-notes.js';
import { mutantsOf, type Mutant, type MutantKind } from './mutants.js';

/** Sites of an image that are tried, in all states of the tracer's data. */
const SITES = 2;
/** Trials of a mutant that none of them finds. */
const MOST = TRACER_STATES.length;
/** Trials after which the code is asked whether the mutant does the same: then no others follow. */
const FIRST = 8;
/** Further trials once one of them says nothing: the proof is no yes any more. */
const MORE = 3;
/** Instructions: many more than any way has that does not go in circles. */
const BUDGET = 8_000;

export interface Tested extends Place {
  readonly note: MutantNote | null;
  readonly kind: MutantKind;
  readonly address: Address;
  readonly mutant: Mutant;
}

/**
 * `found`: a trial differs. `open`: no trial counts. `alike`: all are equal, and so is the mutant
 * itself to what it stands for, alone, in any state. `survived`: all are equal.
 */
export type MutantVerdict = 'found' | 'open' | 'alike' | 'survived';

interface Reach {
  readonly site: number;
  readonly n: number;
}

interface Site {
  readonly tried: Tried;
  readonly trials: Attempts;
  readonly shape: string;
}

export class MutantRun {
  private readonly prover: Prover;
  private readonly sites: Site[] = [];
  private readonly code: TracerCode;
  private readonly alone: Alone;
  private readonly notes: MutantNotes;
  private readonly reaches = new Map<Address, Reach[]>();
  private readonly targets: ReadonlySet<Address>;
  /** Why the image proves nothing; null: all of its sites are proved. */
  readonly flaw: string | null;
  /** The last difference, for people. */
  said = '';

  /** @param numbers  trials of each site: those that are looked at */
  constructor(
    original: Uint8Array,
    patched: Uint8Array,
    private readonly numbers: readonly number[] = TRACER_STATES.map((_, n) => n),
  ) {
    const before = readElf(original);
    const arch = archOf(before.header);
    this.prover = new Prover(before, readElf(patched.slice()), arch, { budget: BUDGET });
    const { program } = this.prover.patched.sites;
    const probes = program.symbols.find('elftrace_probe_hit') > 0 ? '+probes' : '';
    this.code = new TracerCode(program, `${arch.target.id}/${entriesOf(program).convention?.name ?? 'none'}${probes}`);
    this.notes = new MutantNotes(program, this.code, (from, to) => this.isEntered(from, to));
    this.alone = new Alone(arch, this.prover.pair.patched);
    this.prover.watchCalls();
    this.chooseSites();
    this.flaw = this.lookAround();
    this.targets = this.branchTargets();
  }

  get object(): string {
    return this.code.object;
  }

  /** Sites of all shapes and callbacks, as far as there is room. */
  private chooseSites(): void {
    const { prover } = this;
    const kinds = new Set<string>();
    const spare: Site[] = [];
    const siteOf = (tried: Tried, shape: string): Site => ({
      tried,
      shape,
      trials: prover.trials(tried.trial),
    });
    for (const subject of prover.subjects) {
      const tried = prover.trialOf(subject);
      // The first instruction, or that of its local entry.
      if (tried?.entries.some(({ address }) => address === tried.trial.start) !== true) continue;
      const { wanted } = tried.trial;
      const shape = subject.patched < 0 ? '' : prover.patched.sites.shape(subject.patched);
      const kind = JSON.stringify([
        shape,
        wanted?.calls.map(({ name }) => name),
        wanted?.hijack,
        wanted?.direct?.name,
        wanted?.replacement?.name,
      ]);
      if (kinds.has(kind)) {
        if (spare.length < SITES) spare.push(siteOf(tried, shape));
        continue;
      }
      kinds.add(kind);
      this.sites.push(siteOf(tried, shape));
    }
    this.sites.splice(2 * SITES);
    while (this.sites.length < SITES && spare.length > 0) this.sites.push(spare.shift()!);
    for (const probe of prover.probes?.subjects ?? []) {
      if (probe.kind !== 'jump') continue;
      const tried = { trial: prover.probes!.trial(probe), entries: prover.entriesOf(probe) };
      this.sites.push({ tried, trials: prover.attemptsOf(probe), shape: 'probe.jump' });
    }
    // Behind a prologue: the site is not the first instruction. Nested functions have such sites.
    let late = 0;
    for (const subject of prover.subjects) {
      const tried = late < SITES ? prover.trialOf(subject) : null;
      if (tried === null || this.sites.some((each) => each.tried.trial.start === tried.trial.start)) continue;
      const isFirst = tried.entries.some(({ address }) => address === tried.trial.start);
      if (isFirst) continue;
      late++;
      this.sites.push(siteOf(tried, subject.patched < 0 ? '' : prover.patched.sites.shape(subject.patched)));
    }
  }

  /** Executes all trials once, and notes which of them come to which instruction. */
  private lookAround(): string | null {
    const { patched } = this.prover.pair;
    if (this.sites.length === 0) return 'no site changed';
    for (const [site, { tried }] of this.sites.entries()) {
      let counted = 0;
      // Further sites differ in what they call: a third of the states says that, and full tables.
      for (const n of this.numbers.filter((each, i) => site < SITES || i % 3 === 0 || isFilled(each))) {
        const seen = new Set<Address>();
        patched.recorder = {
          step: ({ machine }) => {
            seen.add(machine.register('pc'));
          },
          turn: () => undefined,
        };
        const outcome = this.attempt(site, n);
        patched.recorder = null;
        if (outcome === 'different') return `${tried.trial.ip.toString(16)} is different: ${this.said}`;
        if (outcome === 'equal') counted++;
        for (const address of seen) {
          const known = this.reaches.get(address);
          if (known === undefined) this.reaches.set(address, [{ site, n }]);
          else known.push({ site, n });
        }
      }
      if (counted === 0) return `${tried.trial.ip.toString(16)} is inconclusive`;
    }
    return null;
  }

  /** Steps of some trials that the ways through the code do not have: there is none. */
  strays(numbers: readonly number[]): { readonly steps: number; readonly found: readonly string[] } {
    const { patched } = this.prover.pair;
    const { liveness } = this.code.equality;
    const found = new Set<string>();
    let steps = 0;
    for (const site of this.sites.keys()) {
      for (const n of numbers) {
        let last: Address | null = null;
        patched.recorder = {
          step: ({ machine }) => {
            const at = machine.register('pc');
            if (last !== null && liveness.at(last) !== undefined) {
              steps++;
              if (!liveness.mayGo(last, at)) found.add(`${last.toString(16)} -> ${at.toString(16)}`);
            }
            last = at;
          },
          turn: () => undefined,
        };
        this.attempt(site, n);
        patched.recorder = null;
      }
    }
    return { steps, found: [...found] };
  }

  private attempt(site: number, n: number): 'equal' | 'different' | 'open' | 'doubt' {
    const { tried, trials } = this.sites[site]!;
    const { entry, seed } = this.prover.turn(tried.trial, tried.entries, n);
    const outcome = this.prover.attempt(trials, entry, seed);
    if (outcome.kind === 'different') {
      this.said = JSON.stringify(outcome, (_, value: unknown) =>
        typeof value === 'bigint' ? value.toString(16) : value,
      );
    }
    return outcome.kind === 'open' && outcome.doubt ? 'doubt' : outcome.kind;
  }

  private branchTargets(): ReadonlySet<Address> {
    const { arch, image } = this.prover.patched.sites.program;
    const found = new Set<Address>();
    for (const address of this.code.instructions()) {
      const { flow } = arch.isa.decode(image.bytes, image.fileOffsetOf(address), address);
      if ('target' in flow) found.add(flow.target);
    }
    return found;
  }

  private placeOf(address: Address): Place | null {
    for (const { tried, shape } of this.sites) {
      const { start, end } = tried.trial;
      if (address >= start && address < end) {
        const object = `${this.prover.arch.target.id} site`;
        return { object, symbol: shape, offset: Number(address - start), content: object };
      }
    }
    return this.code.placeOf(address);
  }

  /** Mutants that trials come to. */
  *reached(): Generator<Tested> {
    const all = new Set([...this.reaches.keys(), ...this.code.instructions()]);
    for (const address of [...all].sort((a, b) => (a < b ? -1 : 1))) {
      for (const tested of this.at(address)) if (this.reachesOf(tested).length > 0) yield tested;
    }
  }

  /** Mutants of the object to which no trial comes. */
  *unreached(): Generator<Tested> {
    for (const address of this.code.instructions()) {
      for (const tested of this.at(address)) if (this.reachesOf(tested).length === 0) yield tested;
    }
  }

  /** Whether a mutant does the same as what it stands for, as its code says. */
  isSame({ object, address, mutant }: Tested): boolean {
    return object === this.object && this.code.equality.isSame({ address, ...mutant });
  }

  /** The same, but where the graph tracer stops for good, or traps as it knows no return. */
  isSameUnlessStopped({ object, address, mutant }: Tested): boolean {
    const { equality, stops } = this.code;
    if (object !== this.object || stops.has(address)) return false;
    return equality.isSame({ address, ...mutant }, new Set([...stops, ...this.code.traps]));
  }

  /** Trials that come to a mutant; of neighbours that change places to the one or to the other. */
  private reachesOf({ address, mutant }: Pick<Tested, 'address' | 'mutant'>): readonly Reach[] {
    const own = this.reaches.get(address) ?? [];
    if (mutant.kind !== 'swap') return own;
    const { sizeBytes } = this.prover.arch.isa.decode(mutant.before, 0, address);
    const second = this.reaches.get(address + BigInt(sizeBytes)) ?? [];
    // Trials that come by another way to the second one, first: fewer of them are like another.
    const isOwn = new Set(own.map(({ site, n }) => `${site} ${n}`));
    return [...second.filter(({ site, n }) => !isOwn.has(`${site} ${n}`)), ...own];
  }

  private *at(address: Address): Generator<Tested> {
    const place = this.placeOf(address);
    if (place === null) return;
    const { arch, image } = this.prover.patched.sites.program;
    const offset = image.fileOffsetOf(address);
    for (const mutant of mutantsOf(arch.target.id, arch.isa, image.bytes.slice(offset, offset + 32))) {
      yield { ...place, address, kind: mutant.kind, mutant, note: this.notes.of(address, mutant) };
    }
  }

  /**
   * What trials of one number say of a mutant: the first difference as text, or the outcome.
   * @returns null where none of them comes to it
   */
  says(tested: Pick<Tested, 'address' | 'mutant'>, n: number): string | null {
    const { address, mutant } = tested;
    const { patched } = this.prover.pair;
    let found: string | null = null;
    patched.rewrite(address, mutant.after);
    for (const { site } of this.reachesOf(tested).filter((each) => each.n === n)) {
      found = this.attempt(site, n);
      if (found === 'different') found = this.said;
      if (found !== 'equal') break;
    }
    patched.rewrite(address, mutant.before);
    return found;
  }

  /**
   * What runs from drawn states say of mutants, by their keys. They begin where the trials that are
   * looked at enter the tracer.
   * @param count  runs of the code without a mutant
   */
  draw(mutants: readonly DrawnMutant[], count: number): ReadonlyMap<string, DrawnSaid> {
    const runs = new DrawnRuns(this.prover.pair, this.prover.patched.sites.program, this.prover.own);
    for (const [site, { tried }] of this.sites.entries()) {
      const { ordinaryCall: isCall, wanted } = tried.trial;
      const callbacks = new Set(wanted?.calls.map(({ place }) => place));
      for (const n of this.numbers) {
        runs.watch({ isCall, callbacks }, () => {
          this.attempt(site, n);
        });
      }
    }
    return runs.explore(mutants, count);
  }

  judge(tested: Tested): MutantVerdict {
    const { address, mutant } = tested;
    const { patched } = this.prover.pair;
    const size = BigInt(mutant.before.length);
    const reaches = inTurn(this.reachesOf(tested));
    // It is made of the code as it is without a mutant.
    void this.code.equality;
    patched.rewrite(address, mutant.after);
    let counted = 0;
    let isFound = false;
    let isOpen = false;
    let left = MOST;
    for (const [i, { site, n }] of reaches.entries()) {
      if (i === FIRST && counted === FIRST && this.isSame(tested)) break;
      const outcome = this.attempt(site, n);
      if (outcome === 'equal') counted++;
      if (outcome === 'doubt' && !isOpen) [isOpen, left] = [true, MORE];
      isFound = outcome === 'different';
      if (isFound || --left <= 0) break;
    }
    patched.rewrite(address, mutant.before);
    if (isFound) return 'found';
    if (counted === 0 || isOpen) return 'open';
    // What stands in front of the other is not executed with it.
    const isHalf = !this.reaches.has(address);
    const isEntered = isHalf || (mutant.kind === 'swap' && this.isEntered(address, address + size));
    return !isEntered && this.alone.isAlike(address, mutant) ? 'alike' : 'survived';
  }

  /** Whether something jumps between two neighbours. */
  private isEntered(address: Address, end: Address): boolean {
    for (let at = address + 1n; at < end; at++) if (this.targets.has(at)) return true;
    return false;
  }
}

const isFilled = (n: number): boolean => TRACER_STATES[n] === 'filled';

/** Each state of the tracer's data once, in the one site or the other, then once more. */
function inTurn(reaches: readonly Reach[]): readonly Reach[] {
  const turns = new Map<number, number>();
  const ranked = reaches.map((each) => {
    const turn = turns.get(each.n) ?? 0;
    turns.set(each.n, turn + 1);
    return { each, turn };
  });
  return ranked.sort((a, b) => a.turn - b.turn || a.each.n - b.each.n).map(({ each }) => each);
}
