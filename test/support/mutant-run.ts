/**
 * Mutants of an image, each judged by the proof of the sites that execute it (PV-5). The image is
 * loaded once; a mutant changes its bytes and runs the trials that come to them, until one differs.
 */
import { archOf } from '../../src/arches.js';
import { readElf } from '../../src/elf/read.js';
import * as elf from '../../src/elf/constants.js';
import { type Attempts, Prover, type Tried } from '../../src/prove/prove.js';
import { mix, Random } from '../../src/prove/random.js';
import { TRACER_STATES } from '../../src/prove/tracer-states.js';
import type { ProofWorld } from '../../src/prove/world.js';
import { type Program, siteStubSection, trampolineSection } from '../../src/program/program.js';
import { entriesOf } from '../../src/tracing/entries.js';
import type { Address } from '../../src/units.js';
import type { Isa } from '../../src/isa/instruction.js';
import { Equality } from './mutant-equal.js';
import { CodeFlow, type CodeRange } from './mutant-flow.js';
import { Liveness } from './mutant-liveness.js';
import { type Called, calledIn, contentsOf, usesOf } from './mutant-twins.js';
import { mutantsOf, type Mutant, type MutantKind } from './mutants.js';

const STORE_CONDITIONAL = /^(?:stl?xr|st[wd]cx\.?|sc\.[wd])/;
const LOAD_RESERVED = /^(?:lda?xr|l[wd]arx|lr\.[wd])/;
const CLOCK = /cntvct|rdtsc|rdtime|mftb|spr\w* r\d+,26[89]/;
/** arm64: functions of the runtime have frame pointers, and no unwinder looks at them there. */
const IDLE_FRAME = /^add\s+x29, sp, #0(?:x0)?$|^mov\s+x29, sp$/;
/** Where functions with the graph tracer return to. */
const HANDLER = /^\.?(?:return_to_handler|elftrace_return_text)$/;
/** Entries of sites. */
const ENTRY = /^(?:ftrace_(?:regs_)?caller|_?mcount)$/;
/** Sites of an image that are tried, in all states of the tracer's data. */
const SITES = 2;
/** Trials of a mutant that none of them finds. */
const MOST = 32;
/** Trials after which the code is asked whether the mutant does the same: then no others follow. */
const FIRST = 8;
/** Further trials once one of them says nothing: the proof is no yes any more. */
const MORE = 3;
/** Instructions: many more than any way has that does not go in circles. */
const BUDGET = 8_000;
/** Random states in which an instruction and its mutant are compared. */
const STATES = 7;
/** States in which all registers hold one small number. */
const SMALL = [0n, 1n, 4n];
/** States with numbers of the instruction itself. */
const CONSTANTS = 6;
/** Instructions after which both must be in one state, and places at which that is looked for. */
const SOON = 8;
const JOINS = 3;
const RESERVATION = /^(?:ld|st|lr|sc|clr)\w*(?:x[rp]|ex|arx|cx|\.[wd])/;

/** Where an instruction is: the same in all images that have the code. */
export interface Place {
  /** Object of the runtime, or what else holds code of the tracer. */
  readonly object: string;
  readonly symbol: string;
  /** From the symbol on, in bytes. */
  readonly offset: number;
  /** What tells the code of the symbol from others of the machine: equal where the code is. */
  readonly content: string;
}

/**
 * What the code around an instruction says of it. `retry`: a branch behind a store with a
 * reservation. `look`: a branch in front of a load with a reservation, which looks again. `clock`:
 * it reads the clock. `idle frame`: it sets a frame pointer that no code reads. `never`: no way
 * leads to it. `gives up`: all ways through it come to where the graph tracer stops for good.
 * `exchange`: the branch of a compare and exchange that finds another value.
 */
export type MutantNote = 'retry' | 'look' | 'clock' | 'idle frame' | 'never' | 'gives up' | 'exchange';

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

/** Code of the tracer in an image. */
class Code {
  private readonly names: {
    readonly address: Address;
    readonly name: string;
    /** It is of a function, and has a local entry so many bytes on; null: a label. */
    readonly local: bigint | null;
  }[] = [];
  private readonly ranges: {
    readonly start: Address;
    readonly end: Address;
    readonly object: string;
    readonly isTrampoline: boolean;
    /** Bytes after which the same code comes again; 0: never. */
    readonly period?: number;
  }[] = [];
  private readonly contents: ReadonlyMap<string, string>;

  constructor(
    private readonly program: Program,
    readonly object: string,
  ) {
    const { image, symbols, arch } = program;
    this.contents = contentsOf(object);
    const part = program.loadMap?.parts.find(({ kind }) => kind === 'runtime');
    for (const [i, section] of image.sections.entries()) {
      if ((section.flags & elf.SHF_EXECINSTR) === 0n || section.size === 0) continue;
      const range = { start: section.address, end: section.address + BigInt(section.size) };
      const isPart = part !== undefined && i >= part.sections.first && i < part.sections.first + part.sections.count;
      if (section.name === trampolineSection)
        this.ranges.push({ ...range, object: `${object} trampoline`, isTrampoline: true });
      else if (section.name === siteStubSection)
        this.ranges.push({ ...range, object: `${arch.target.id} site stub`, isTrampoline: true });
      else if (isPart && section.name.startsWith('.text')) this.ranges.push({ ...range, object, isTrampoline: false });
    }
    for (const each of program.loadMap?.parts ?? []) {
      for (const { address, sizeBytes, count } of each.stubs) {
        this.ranges.push({
          start: address,
          end: address + BigInt(sizeBytes * count),
          object: `${arch.target.id} stub`,
          isTrampoline: true,
          period: sizeBytes,
        });
      }
    }
    for (let i = 1; i < symbols.count; i++) {
      const name = symbols.name(i);
      if ((symbols.info[i]! & 15) === elf.STT_SECTION || name === '' || name.startsWith('$') || name.startsWith('.L'))
        continue;
      const address = program.definedAt(i);
      if (address === null || this.rangeOf(address) === undefined) continue;
      const isFunction = (symbols.info[i]! & 15) === elf.STT_FUNC;
      const local = isFunction ? BigInt(arch.abi.localEntryOffset(symbols.other[i]!)) : null;
      this.names.push({ address, name, local });
    }
    this.names.sort((a, b) => (a.address < b.address ? -1 : a.address > b.address ? 1 : a.name < b.name ? -1 : 1));
  }

  private rangeOf(address: Address) {
    return this.ranges.find(({ start, end }) => address >= start && address < end);
  }

  placeOf(address: Address): Place | null {
    const range = this.rangeOf(address);
    if (range === undefined) return null;
    let found: { readonly address: Address; readonly name: string } | null = null;
    if (!range.isTrampoline) {
      for (const each of this.names) {
        if (each.address > address) break;
        if (each.address >= range.start && (found === null || each.address > found.address)) found = each;
      }
    }
    const offset = Number(address - (found?.address ?? range.start));
    return {
      object: range.object,
      symbol: found?.name ?? '',
      offset: range.period === undefined ? offset : offset % range.period,
      content: (range.isTrampoline ? undefined : this.contents.get(found?.name ?? '')) ?? range.object,
    };
  }

  private codeRanges(): readonly CodeRange[] {
    const { image } = this.program;
    return this.ranges
      .filter(({ object }) => object === this.object)
      .map(({ start, end }) => {
        const offset = image.fileOffsetOf(start);
        return { start, end, bytes: image.bytes.slice(offset, offset + Number(end - start)) };
      });
  }

  private made: CodeFlow | null = null;

  /** Ways through the object's code. */
  get flow(): CodeFlow {
    const names = this.names.map(({ address }) => address);
    return (this.made ??= new CodeFlow(this.program.arch.isa, this.codeRanges(), names, this.jumps()));
  }

  /** Where tables of jumps lead, by the function that has them. */
  private jumps(): ReadonlyMap<Address, readonly Address[]> {
    const called = calledIn(this.object);
    return new Map(
      this.names.flatMap(({ address, name }) => {
        const jumps = called.get(name)?.jumps ?? null;
        return jumps === null ? [] : [[address, jumps.map((offset) => address + BigInt(offset))] as const];
      }),
    );
  }

  private same: Equality | null = null;

  /** What says of changed code that it does the same. */
  get equality(): Equality {
    if (this.same !== null) return this.same;
    const { arch } = this.program;
    const { emulation, abi } = arch;
    if (emulation.kind !== 'ir') throw new Error(`${arch.target.id} has no emulation`);
    const machine = { lifter: emulation.lifter, proof: emulation.proof, abi };
    const called = calledIn(this.object);
    const unknown: Called = { callers: 'any', isCompiled: false, calls: 0, isVoid: false, jumps: null };
    const jumps = this.jumps();
    const isOrdinary = entriesOf(this.program).convention?.ordinaryCall === true;
    const functions = this.names.flatMap(({ address, name, local }) => {
      if (local === null) return [];
      const said = called.get(name) ?? unknown;
      const starts = local === 0n ? [address] : [address, address + local];
      const goals = jumps.get(address) ?? null;
      return [{ ...said, starts, jumps: goals, isOrdinary: isOrdinary && !said.isCompiled && ENTRY.test(name) }];
    });
    const labels = this.names.filter(({ local }) => local === null).map(({ address }) => address);
    const liveness = new Liveness(machine, this.codeRanges(), functions, labels);
    return (this.same = new Equality(machine, liveness));
  }

  private givesUp: ReadonlySet<Address> | null = null;

  /** Instructions of ways on which the graph tracer stops for good: a return is not found. */
  get stops(): ReadonlySet<Address> {
    if (this.givesUp !== null) return this.givesUp;
    const found = new Set<Address>();
    const uses = usesOf(this.object, ['elftrace_graph_return', 'pop'], 'elftrace_graph_stopped');
    for (const [name, offsets] of uses) {
      const entry = this.names.find((each) => each.name === name)?.address;
      if (entry === undefined) continue;
      const cuts = new Set(offsets.flatMap((offset) => this.flow.at(entry + BigInt(offset)) ?? []));
      for (const each of this.flow.onlyWith(entry, cuts)) found.add(each);
    }
    return (this.givesUp = found);
  }

  /** Traps behind a return that is not known. */
  get traps(): readonly Address[] {
    const isTrap = (at: Address): boolean => this.equality.liveness.at(at)?.block.terminator.kind === 'trap';
    return [...this.instructions()].filter((at) => isTrap(at) && HANDLER.test(this.placeOf(at)!.symbol));
  }

  /** Every instruction of the runtime's object. */
  *instructions(): Generator<Address> {
    const { arch, image } = this.program;
    for (const { start, end, object } of this.ranges) {
      if (object !== this.object) continue;
      const offset = image.fileOffsetOf(start);
      for (let at = 0; at < Number(end - start);) {
        const { sizeBytes, mnemonic } = arch.isa.decode(image.bytes, offset + at, start + BigInt(at));
        if (mnemonic !== 'unknown') yield start + BigInt(at);
        at += sizeBytes;
      }
    }
  }
}

export class MutantRun {
  private readonly prover: Prover;
  private readonly sites: Site[] = [];
  private readonly code: Code;
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
    this.code = new Code(program, `${arch.target.id}/${entriesOf(program).convention?.name ?? 'none'}${probes}`);
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
      // Further sites differ in what they call: a third of the states says that.
      for (const n of this.numbers.filter((_, i) => site < SITES || i % 3 === 0)) {
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
      yield { ...place, address, kind: mutant.kind, mutant, note: this.noteOf(address, mutant) };
    }
  }

  /** What stands around an instruction, and in it. */
  private noteOf(address: Address, { before, kind }: Mutant): MutantNote | null {
    const { arch, image } = this.prover.patched.sites.program;
    const codeAt = (at: Address): Uint8Array => {
      const offset = image.fileOffsetOf(at);
      return image.bytes.subarray(offset, offset + 16);
    };
    const { isa } = arch;
    const decoded = isa.decode(before, 0, address);
    const behind = isa.decode(codeAt(address + BigInt(decoded.sizeBytes)), 0, address);
    const names = [decoded.mnemonic, ...(kind === 'swap' ? [behind.mnemonic] : [])];
    const textOf = (name: string): string => `${name} ${isa.format(decoded)}`;
    if (names.some((name) => CLOCK.test(name)) || CLOCK.test(textOf(decoded.mnemonic))) return 'clock';
    if (IDLE_FRAME.test(isa.format(decoded))) return 'idle frame';
    const all = [address, ...(kind === 'swap' ? [address + BigInt(decoded.sizeBytes)] : [])];
    if (all.every((each) => this.code.flow.isNever(each))) return 'never';
    if (all.every((each) => this.code.stops.has(each))) return 'gives up';
    // Instructions of x86-64 have no fixed size, and none has reservations.
    if (arch.target.id === 'x86-64') return null;
    const isBranch = decoded.flow.kind === 'branch';
    const isStore = STORE_CONDITIONAL.test(decoded.mnemonic) && kind === 'swap' && behind.flow.kind === 'branch';
    const front = isa.decode(codeAt(address - 4n), 0, address - 4n);
    // What comes to the second of both by another way has other flags.
    const isOther = kind === 'swap' && this.isEntered(address, address + BigInt(before.length));
    if (isStore || (isBranch && STORE_CONDITIONAL.test(front.mnemonic))) return isOther ? null : 'retry';
    if (!isBranch) return null;
    if (this.isExchange(address, decoded.sizeBytes)) return 'exchange';
    for (let at = address + BigInt(decoded.sizeBytes), n = 0; n < 3; n++) {
      const next = isa.decode(codeAt(at), 0, at);
      if (LOAD_RESERVED.test(next.mnemonic)) return 'look';
      at += BigInt(next.sizeBytes);
    }
    return null;
  }

  /**
   * Whether a branch is that of a compare and exchange: between the load with a reservation and the
   * store, or behind a comparison that stands behind the store and the branch that tries again.
   */
  private isExchange(address: Address, size: number): boolean {
    const { arch, image } = this.prover.patched.sites.program;
    const at = (place: Address) => {
      const offset = image.fileOffsetOf(place);
      return arch.isa.decode(image.bytes.subarray(offset, offset + 4), 0, place);
    };
    // Code with reservations has instructions of four bytes.
    const [before, first] = [at(address - 8n), at(address - 4n)];
    const isLoad =
      LOAD_RESERVED.test(first.mnemonic) || (first.flow.kind === 'next' && LOAD_RESERVED.test(before.mnemonic));
    if (isLoad && STORE_CONDITIONAL.test(at(address + BigInt(size)).mnemonic)) return true;
    return (
      /^(?:cmp|subs)/.test(first.mnemonic) &&
      before.flow.kind === 'branch' &&
      STORE_CONDITIONAL.test(at(address - 12n).mnemonic)
    );
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
    return !isEntered && this.isAlike(address, mutant) ? 'alike' : 'survived';
  }

  /** Whether something jumps between two neighbours. */
  private isEntered(address: Address, end: Address): boolean {
    for (let at = address + 1n; at < end; at++) if (this.targets.has(at)) return true;
    return false;
  }

  /**
   * Whether bytes do what the bytes do that they stand for: from each state tried, the machine soon
   * is at the same place in the same state. What a branch decides must have been seen both ways.
   */
  private isAlike(address: Address, { kind, before, after }: Mutant): boolean {
    const { isa } = this.prover.arch;
    const { mnemonic, flow, sizeBytes } = isa.decode(before, 0, address);
    // Reservations are in no register.
    if (RESERVATION.test(mnemonic)) return false;
    const world = this.prover.pair.patched;
    const count = kind === 'swap' ? 2 : 1;
    const skip = kind === 'nop' ? nopsIn(this.prover.arch.target.id, before) : count;
    const ways = new Set<boolean>();
    let compared = 0;
    const constants = kind === 'immediate' ? constantsIn(isa, before, after, address) : [];
    const values = [...Array.from({ length: STATES }, () => null), ...SMALL, ...constants];
    for (const [n, value] of values.entries()) {
      const runs = [before, after].map((bytes, i) => ({ bytes, least: i === 0 ? count : skip })) as [Run, Run];
      const joined = this.join(address, runs, n, value);
      if (joined === true) compared++;
      if (joined !== false && flow.kind === 'branch') {
        ways.add(this.walk(address, runs[0], n, value)[0] === address + BigInt(sizeBytes));
      }
      world.rewrite(address, before);
      if (joined === false) return false;
    }
    return compared > 1 && (flow.kind !== 'branch' || ways.size === 2);
  }

  /** Places behind each of some instructions; as many as there are until something stops them. */
  private walk(address: Address, { bytes }: Run, n: number, value: bigint | null): readonly Address[] {
    const world = this.prover.pair.patched;
    world.rewrite(address, bytes);
    enter(world, address, n, value);
    const pcs: Address[] = [];
    while (pcs.length < SOON && world.run(1).kind === 'step-limit') pcs.push(world.machine.register('pc'));
    world.reset();
    return pcs;
  }

  /** Whether both come to one place in one state; null: neither comes to an end of its own. */
  private join(address: Address, [a, b]: readonly [Run, Run], n: number, value: bigint | null): boolean | null {
    const world = this.prover.pair.patched;
    const stateOf = ({ bytes }: Run, count: number): string | null => {
      world.rewrite(address, bytes);
      return stateAfter(world, address, count, n, value);
    };
    const [first, second] = [stateOf(a, a.least), stateOf(b, b.least)];
    if (first === second) return first === null ? null : true;
    if (first === null || second === null) return false;
    const [ways, others] = [this.walk(address, a, n, value), this.walk(address, b, n, value)];
    let tried = 0;
    for (let i = a.least; i <= ways.length && tried < JOINS; i++) {
      const j = others.indexOf(ways[i - 1]!, b.least - 1) + 1;
      if (j === 0 || (i === a.least && j === b.least)) continue;
      tried++;
      const state = stateOf(a, i);
      if (state !== null && state === stateOf(b, j)) return true;
    }
    return false;
  }
}

/** What is executed, and after how many instructions it may be in the state of the other. */
interface Run {
  readonly bytes: Uint8Array;
  readonly least: number;
}

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

/** One-byte nops stand for longer instructions of x86-64. */
const nopsIn = (target: string, bytes: Uint8Array): number => (target === 'x86-64' ? bytes.length : 1);

/** Numbers of two forms of an instruction, and their neighbours: what comparisons tell apart. */
function constantsIn(isa: Isa, before: Uint8Array, after: Uint8Array, address: Address): bigint[] {
  const found = new Set<bigint>();
  for (const bytes of [before, after]) {
    const text = isa.format(isa.decode(bytes, 0, address));
    for (const [number] of text.matchAll(/-?\b(?:0x[0-9a-f]+|\d+)\b/g)) {
      const value = number.startsWith('-') ? -BigInt(number.slice(1)) : BigInt(number);
      for (const near of [-1n, 0n, 1n]) found.add(value + near);
    }
  }
  // Of x86-64 the text has no operands: a constant is what differs.
  for (const [i, byte] of before.entries()) {
    if (byte === after[i]) continue;
    for (const each of [byte, after[i]!]) found.add(BigInt.asIntN(8, BigInt(each)));
  }
  return [...found].slice(0, CONSTANTS);
}

/**
 * Brings a world into a state.
 * @param value  of all registers; null: random ones
 */
function enter(world: ProofWorld, address: Address, n: number, value: bigint | null): void {
  const { machine } = world;
  const random = new Random(mix(n + 1, 0x5eed));
  world.refresh();
  const same = value ?? random.double() & 0x7fff_fff0n;
  for (const { name, widthBits } of machine.lifter.registers) {
    if (name === 'pc') continue;
    const low = random.double();
    // Every other time all registers hold the same address, so that accesses meet.
    const isSame = value !== null || n % 2 === 1;
    const each = isSame ? same : widthBits === 128 ? (random.double() << 64n) | low : low & 0xffff_fffff0n;
    machine.setRegister(name, BigInt.asUintN(widthBits, each));
  }
  machine.setRegister('pc', address);
  world.prepare(address);
}

/** Registers and memory behind some instructions, as text; null: they do not come to an end. */
function stateAfter(
  world: ProofWorld,
  address: Address,
  count: number,
  n: number,
  value: bigint | null,
): string | null {
  const { machine } = world;
  enter(world, address, n, value);
  const stop = world.run(count);
  let text: string | null = null;
  if (stop.kind === 'step-limit') {
    text = machine.registerNames.map((name) => machine.register(name).toString(16)).join();
    for (const page of world.changed().sort((a, b) => (a < b ? -1 : 1))) {
      text += `;${page.toString(16)}:${Buffer.from(world.page(page).now).toString('latin1')}`;
    }
  }
  world.reset();
  return text;
}
