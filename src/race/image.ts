/**
 * Races on real images: what a session of the ftrace core stores when a function's site goes from
 * one state to another is the sequence, and threads that call the function are those of the
 * program. Owns the way from an image to a scene; decides no order of stores: those are the core's.
 *
 *   image -Session-> state `from` -machine-> the program runs up to its first call of the function;
 *   each thread begins there, with a stack of its own
 *                    state `to`   -steps---> stores in the core's order, by the machine's way to
 *                                 change running code; waits, frees
 *
 * Waits of the core (C-Q-2): `tasks` and `read` wait until every thread was outside; `rude`
 * (something ran on every CPU) does so only where no thread is preempted, else it is a serialising
 * interrupt, which a thread in the middle of a tracer survives.
 */
import type { Arch } from '../machine/arch.js';
import type { ConventionName } from '../machine/conventions.js';
import { archOf } from '../arches.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import type { IrEmulation } from '../emulator/index.js';
import { ElftraceError, hex } from '../errors.js';
import { type CallSite, formatReport, GraphUser, type Ops, type Outcome } from '../ftrace/index.js';
import { withRuntime } from '../tracing/inject.js';
import type { Text } from '../tracing/image-memory.js';
import { entryPoint } from '../program/entry-points.js';
import { Session, type SessionOptions } from '../tracing/session.js';
import { findSites } from '../sites/sites.js';
import { OPS_WORDS } from '../runtime/abi.js';
import { load, type Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { RaceCase } from './hazards.js';
import { BUDGET, stageOf } from './image-stage.js';
import type { CheckView, RaceStep, Scene, Sequence, Unit, UnitForm } from './model.js';
import { type Breakage, broken, pokeSequence, splitStores, startsOf } from './sequence.js';

/** What the site of the function has. */
export type RaceState =
  /** It is off. */
  | { readonly kind: 'nop' }
  /** One ops with this function of the image as its callback. */
  | { readonly kind: 'tracer'; readonly symbol: string }
  /** Two ops, so that the site calls them by way of the list function. */
  | { readonly kind: 'list' }
  | { readonly kind: 'graph' }
  /** `jump`: the site jumps to it, and it returns to the function's caller. */
  | { readonly kind: 'direct'; readonly caller: string; readonly jump?: true };

const tracers = {
  call: 'elftrace_counter',
  counter: 'elftrace_counter',
  function: 'elftrace_function_tracer',
} as const;

/**
 * `nop`, `call` (a callback that counts), `function` (one that records), `list`, `graph`,
 * `direct:CALLER`, `jmp:CALLER`, or a function of the image.
 * @throws ElftraceError 'usage'
 */
export function parseRaceState(text: string): RaceState {
  if (text === 'nop' || text === 'list' || text === 'graph') return { kind: text };
  if (text === 'call' || text === 'counter' || text === 'function') return { kind: 'tracer', symbol: tracers[text] };
  const [, prefix, name] = /^(?:(direct|jmp):)?([A-Za-z_.$][\w.$]*)$/.exec(text) ?? [];
  if (name === undefined) {
    throw new ElftraceError('usage', `'${text}' is no state: nop, call, function, list, graph, direct:CALLER, jmp:CALLER or a function`, {
      value: text,
    });
  }
  if (prefix === undefined) return { kind: 'tracer', symbol: name };
  return { kind: 'direct', caller: name, ...(prefix === 'jmp' ? { jump: true } : {}) };
} // prettier-ignore

/**
 * How a sequence differs from the core's own. `stopped`: instructions of several words are stored
 * at once, with the machine stopped; `torn`: the word in front of a function, which names its ops,
 * is stored byte by byte, and nothing else is.
 */
export type RaceVariant = Breakage | 'stopped' | 'torn';

export interface ImageRaceRequest {
  /** A linked program or an image that `load` made; the runtime is laid in where it is missing. */
  readonly image: Uint8Array;
  /** Name of the function. */
  readonly site: string;
  readonly from: RaceState;
  readonly to: RaceState;
  /** Threads in the function at once. Default 1. */
  readonly cpus?: number;
  /**
   * Arguments of a call of the function; null (default): the first call of the program is taken.
   */
  readonly call?: readonly (bigint | string)[] | null;
  readonly variants?: readonly RaceVariant[];
  /**
   * `full` (default): threads stand anywhere whatever happens. `none`: no thread is inside the
   * function when the machine is stopped.
   */
  readonly preempt?: 'none' | 'full';
  /**
   * CPUs keep 64 bytes of code that they have fetched, and fetch ahead, until they are made to
   * fetch anew. Default true.
   */
  readonly staleFetch?: boolean;
  /** Nop form of sites that have several (`2008`). */
  readonly nopForm?: string;
  /** Entries to lay in, where there is a choice (RISC-V, arm64). */
  readonly entries?: ConventionName;
  /** Options of the machine's loader (`x86-tramp`). */
  readonly machine?: Readonly<Record<string, string>>;
  /** What sites off are on arm64. */
  readonly literalOff?: 'nop' | 'list';
  /** Instructions up to the first call of the function. Default 20,000,000. */
  readonly budget?: number;
}

export interface ImageRace extends RaceCase {
  readonly image: ElfImage;
  readonly program: Program;
  readonly site: { readonly function: string; readonly address: Address };
  /** Where an address is, for people: `core_leaf+0x8`. */
  placeOf(address: Address): string;
  isCode(address: Address): boolean;
}

const FREED: Uint8Array = Uint8Array.of(0xde, 0xad, 0xfe, 0xed);

function done(outcome: Outcome, what: string): void {
  if (outcome.kind === 'done') return;
  const why = outcome.kind === 'refused' ? `${outcome.errno}: ${outcome.reason}` : formatReport(outcome.report);
  throw new ElftraceError('plan-refused', `${what} is refused: ${why}`, { what });
}

/** Enters and leaves states of one site. */
class SiteStates {
  private readonly ops = new Map<RaceState, readonly Ops[]>();
  private graph: GraphUser | null = null;
  private made = 0;
  /** Who has, or had, which function as its callback. */
  private readonly callbacks: { readonly ops: Ops; readonly symbol: string }[] = [];
  private readonly objects: { readonly ops: Ops; readonly place: Address }[] = [];

  private register(ops: Ops): Outcome {
    const outcome = this.session.core.register(ops);
    this.objects.push({ ops, place: this.session.backend.addressOf(ops) });
    return outcome;
  }

  constructor(
    private readonly session: Session,
    private readonly site: CallSite,
  ) {}

  private function(name: string): Address {
    const address = this.session.functionAddress(name);
    if (address === null) throw new ElftraceError('no-match', `the image defines no ${name}`, { symbol: name });
    return address;
  }

  private directCaller({ caller, jump }: Extract<RaceState, { kind: 'direct' }>): Address {
    return this.function(caller) | (jump ? 1n : 0n);
  }

  /** Addresses of the ops that may call a callback. */
  ownersOf(symbol: string): ReadonlySet<Address> {
    const own = new Set(this.callbacks.flatMap((each) => (each.symbol === symbol ? [each.ops] : [])));
    return new Set(this.objects.flatMap(({ ops, place }) => (own.has(ops) ? [place] : [])));
  }

  /** A word of an ops object: `elftrace_counter 0.func`. */
  describe(address: Address, wordBytes: number): string | null {
    for (const { ops, place } of this.objects) {
      const word = Number(address - place) / wordBytes;
      const field = Object.entries(OPS_WORDS).find(([, index]) => index === word);
      if (field) return `${ops.name}.${field[0]}`;
    }
    return null;
  }

  private make(symbol: string | null): Ops {
    const func = symbol === null ? 0n : this.function(symbol);
    const name = `${symbol ?? 'direct'} ${this.made++}`;
    const ops = this.session.core.createOps({ name, func, ...(symbol === null ? {} : { flags: ['DYNAMIC'] as const }) });
    done(this.session.core.setFilterAddresses(ops, 'filter', [this.site.ip]), `the filter of ${name}`);
    if (symbol !== null) this.callbacks.push({ ops, symbol });
    return ops;
  } // prettier-ignore

  enter(state: RaceState): void {
    const { core } = this.session;
    switch (state.kind) {
      case 'nop':
        break;
      case 'tracer':
      case 'list': {
        const symbols = state.kind === 'list' ? [tracers.counter, tracers.function] : [state.symbol];
        const all = symbols.map((symbol) => this.make(symbol));
        for (const each of all) done(this.register(each), each.name);
        this.ops.set(state, all);
        break;
      }
      case 'graph': {
        this.graph = new GraphUser('graph', { entry: 0n, return: 0n });
        // The graph tracer of entries of 2014 has the filter that all function tracers share.
        if (core.setGraphFilter(this.graph, 'filter', this.site.name).kind !== 'done')
          done(core.setFilter(core.globalPair, 'filter', this.site.name), 'the filter of the graph tracer');
        done(core.registerGraph(this.graph), 'the graph tracer');
        break;
      }
      case 'direct': {
        const ops = this.make(null);
        done(core.registerDirect(ops, this.directCaller(state)), state.caller);
        this.ops.set(state, [ops]);
        break;
      }
      default:
        state satisfies never;
    }
  }

  leave(state: RaceState): void {
    const { core } = this.session;
    if (state.kind === 'graph') done(core.unregisterGraph(this.graph!), 'the graph tracer');
    for (const each of this.ops.get(state) ?? []) {
      const outcome =
        state.kind === 'direct' ? core.unregisterDirect(each, this.directCaller(state)) : core.unregister(each);
      done(outcome, each.name);
    }
  }

  /** From one to the other without a gap, where the core has such a way. */
  go(from: RaceState, to: RaceState): void {
    const { core } = this.session;
    const [ops] = this.ops.get(from) ?? [];
    if (ops !== undefined && from.kind === 'direct' && to.kind === 'direct') {
      done(core.modifyDirect(ops, this.directCaller(to)), to.caller);
    } else if (ops !== undefined && from.kind === 'tracer' && to.kind === 'tracer') {
      done(core.setFunction(ops, this.function(to.symbol)), to.symbol);
      this.callbacks.push({ ops, symbol: to.symbol });
    } else {
      this.enter(to);
      this.leave(from);
    }
  }
}

/** The core's stores as steps. */
class Recorder {
  readonly steps: RaceStep[] = [];
  /**
   * Code that is written the machine's way for running code: what a site or an inner call was and
   * becomes.
   */
  readonly live = new Map<Address, Uint8Array[]>();
  on = false;

  constructor(
    private readonly arch: Arch,
    private readonly request: ImageRaceRequest,
  ) {}

  readonly text = (image: ElfImage): Text => ({
    refresh: () => undefined,
    store: (address, bytes, what) => {
      if (this.on) this.steps.push(...this.storeSteps(image, address, bytes.slice(), what === 'words'));
      return true;
    },
    event: (step, freed) => {
      if (!this.on) return;
      switch (step.kind) {
        case 'sync':
          this.steps.push({ kind: 'synchronise', thread: 'all' });
          break;
        case 'quiesce':
          if (step.grace === 'rude' && this.request.preempt !== 'none')
            this.steps.push({ kind: 'synchronise', thread: 'all', label: 'something runs on every CPU' });
          else this.steps.push({ kind: 'wait', until: 'outside' });
          break;
        case 'free':
          for (const { address, size } of freed ?? [])
            this.steps.push({ kind: 'free', what: `the ${step.object} of ${step.of}`, address, size, fill: FREED });
          break;
        default:
          step satisfies never;
      }
    },
  });

  private storeSteps(image: ElfImage, address: Address, bytes: Uint8Array, words: boolean): readonly RaceStep[] {
    const offset = image.fileOffsetOf(address);
    const before = image.bytes.slice(offset, offset + bytes.length);
    const section = image.sectionAt(address);
    const isCode = section !== undefined && (section.flags & elf.SHF_EXECINSTR) !== 0n;
    const { livePatching } = this.arch;
    // Words of data among code are those in front of functions.
    if (words && isCode && (this.request.variants ?? []).includes('torn')) {
      return splitStores(address, bytes, 1).filter(
        (step) => step.kind === 'store' && step.bytes[0] !== before[Number(step.address - address)],
      );
    }
    if (words || !isCode) return splitStores(address, bytes, this.arch.target.wordBytes);
    if (livePatching.kind === 'breakpoint') {
      const patch = { address, after: bytes };
      // Trampolines are built and given back where no thread executes.
      if (!livePatching.canWrite(patch) || !this.isWhole(before, address)) {
        return [{ kind: 'store', address, bytes }];
      }
      this.noteLive(address, before, bytes);
      return pokeSequence(livePatching.steps([patch]));
    }
    this.noteLive(address, before, bytes);
    // Words that stay as they are need no store.
    const wordsOf = splitStores(address, bytes, 4).filter(
      (step) =>
        step.kind === 'store' && step.bytes.some((byte, i) => byte !== before[Number(step.address - address) + i]),
    );
    if (wordsOf.length < 2 || !(this.request.variants ?? []).includes('stopped')) return wordsOf;
    const stopped = { synchronises: true, ...(this.request.preempt === 'none' ? { stopped: true } : {}) };
    return [{ kind: 'store', address, bytes, label: 'with the machine stopped', ...stopped }];
  }

  private noteLive(address: Address, before: Uint8Array, after: Uint8Array): void {
    this.live.set(address, [...(this.live.get(address) ?? [before]), after]);
  }

  /** Whether one instruction, or nothing but padding that belongs to it, stands in a place. */
  private isWhole(before: Uint8Array, address: Address): boolean {
    return this.arch.isa.decode(before, 0, address).sizeBytes === before.length;
  }
}

/** The image with entries; `probeRoom`: and with room for probes. */
export function prepared(
  request: Pick<ImageRaceRequest, 'image' | 'entries' | 'machine'>,
  probeRoom?: Parameters<typeof withRuntime>[5],
): { readonly image: ElfImage; readonly arch: Arch; readonly emulation: IrEmulation } {
  const given = readElf(request.image);
  const arch = archOf(given.header);
  const { emulation } = arch;
  if (emulation.kind === 'none') throw new ElftraceError('unsupported-form', `${arch.target.title}: ${emulation.reason}`);
  const program = load(given, arch);
  const image =
    entryPoint(program, 'ftrace_caller') === null
      ? withRuntime(findSites(program), undefined, undefined, request.entries, request.machine ?? {}, probeRoom)
      : given;
  return { image, arch, emulation };
} // prettier-ignore

/** CPUs of a request, if it can be raced on so many. */
function cpusOf({ cpus = 1, from, to }: ImageRaceRequest): number {
  if (!Number.isInteger(cpus) || cpus < 1 || cpus > 8) {
    throw new ElftraceError('usage', `${cpus} CPUs: 1 to 8`, { value: cpus });
  }
  if (cpus > 1 && (from.kind === 'graph' || to.kind === 'graph')) {
    throw new ElftraceError('usage', 'the runtime records returns of one thread: the graph tracer is raced with one CPU');
  }
  return cpus;
} // prettier-ignore

/** The record of the site of a function. */
function siteOf(session: Session, name: string): Session['core']['records'][number] {
  const site = session.core.records.find((each) => each.name === name || each.name === `.${name}`);
  if (site) return site;
  const known = session.sites.program.symbols.find(name) > 0;
  const message = known ? `${name} has no site that the entries serve` : `no function is named ${name}`;
  throw new ElftraceError('no-match', message, { symbol: name });
}

function textOf(state: RaceState): string {
  if (state.kind === 'tracer') return state.symbol;
  return state.kind === 'direct' ? `${state.jump ? 'jmp' : 'direct'} ${state.caller}` : state.kind;
}

/** What the patcher does from one state to the other, as it should or in wrong ways. */
function sequenceOf({ site, from, to, variants = [] }: ImageRaceRequest, recorder: Recorder): Sequence {
  let sequence: Sequence = {
    name: `${site}: ${textOf(from)} to ${textOf(to)}`,
    patchers: [{ name: 'patcher', steps: recorder.steps }],
  };
  for (const variant of variants) if (variant !== 'stopped' && variant !== 'torn') sequence = broken(sequence, variant);
  return sequence;
}

/**
 * The race of a request: scene, sequence and options, ready for `race` or `startRace`.
 * @throws ElftraceError 'no-match' for functions that are not there, have no site or are not
 *   called, 'plan-refused' where the core refuses a state, 'no-runtime', 'unsupported-form'
 */
export function imageRace(request: ImageRaceRequest): ImageRace {
  const { site: name, from, to, preempt = 'full' } = request;
  const cpus = cpusOf(request);
  const { image, arch, emulation } = prepared(request);
  const recorder = new Recorder(arch, request);
  const options: SessionOptions = {
    text: recorder.text,
    policy: { preempt, ...(request.literalOff === undefined ? {} : { literalOff: request.literalOff }) },
    ...(request.nopForm === undefined ? {} : { nopForm: request.nopForm }),
  };
  const session = Session.open(image.bytes, arch, options);
  const { program } = session.sites;
  const site = siteOf(session, name);
  const states = new SiteStates(session, site);
  if ([from, to].some((state) => state.kind === 'direct' && state.jump)) session.enableJumps();
  states.enter(from);
  const before = readElf(session.bytes());
  recorder.on = true;
  states.go(from, to);
  recorder.on = false;

  const stage = stageOf({
    before, program, arch, emulation, name, at: site.ip, cpus, staleFetch: request.staleFetch ?? true,
    call: request.call ?? null, budget: request.budget ?? BUDGET,
    then: [], later: recorder.steps.flatMap((step) => (step.kind === 'store' ? [step] : [])),
  });
  const callbacks = callbacksOf(session, [from, to]);
  const passesOps = session.backend.capabilities.passes === 4;
  const scene: Scene = {
    ...stage.scene,
    marks: callbacks,
    checks: passesOps ? checksOf([from, to], session, states) : new Map(),
    units: unitsOf(recorder, arch, site.ip),
  };
  const sequence = sequenceOf(request, recorder);
  const placeOf = (address: Address): string =>
    stage.placeOf(address, () => states.describe(address, arch.target.wordBytes));
  return {
    scene, sequence, options: stage.options, labels: new Map(), arch, image: before, program,
    site: { function: name, address: site.ip }, placeOf, isCode: (address) => program.codeAt(address) !== undefined,
  };
} // prettier-ignore

function callbacksOf(session: Session, states: readonly RaceState[]): ReadonlyMap<Address, string> {
  const marks = new Map<Address, string>();
  for (const state of states) {
    const symbols =
      state.kind === 'tracer'
        ? [state.symbol]
        : state.kind === 'direct'
          ? [state.caller]
          : state.kind === 'list'
            ? [tracers.counter, tracers.function]
            : [];
    for (const symbol of symbols) {
      const address = session.functionAddress(symbol);
      if (address !== null) marks.set(address, symbol);
    }
  }
  return marks;
}

/** A callback gets ops of its own (H6): in its third argument. */
function checksOf(wanted: readonly RaceState[], session: Session, states: SiteStates): NonNullable<Scene['checks']> {
  const checks = new Map<Address, (view: CheckView) => string | null>();
  const third = session.sites.program.arch.abi.argumentRegisters[2]!;
  const direct = new Set(wanted.flatMap((state) => (state.kind === 'direct' ? [state.caller] : [])));
  for (const [address, symbol] of callbacksOf(session, wanted)) {
    if (direct.has(symbol)) continue;
    const own = states.ownersOf(symbol);
    checks.set(address, ({ register }) => {
      const ops = register(third);
      return own.has(ops) ? null : `${symbol} is called with ${hex(ops)}, which are not its ops`;
    });
  }
  return checks;
}

/** Contents between which instructions of several bytes change. */
function unitsOf(recorder: Recorder, arch: Arch, site: Address): readonly Unit[] {
  const distance = (address: Address): bigint => (address > site ? address - site : site - address);
  // The site comes first: it is what reports show.
  const places = [...recorder.live].sort(([a], [b]) => (distance(a) < distance(b) ? -1 : 1));
  return places.map(([address, contents]) => {
    const forms = contents.map((bytes, i): UnitForm => {
      const starts = startsOf(arch.isa, bytes, address);
      return { name: i === 0 ? 'what stood there' : i === 1 ? 'what comes' : `what comes after ${i - 1}`, bytes, starts };
    });
    const breakpoint: UnitForm = { name: 'breakpoint', bytes: Uint8Array.of(0xcc), starts: [0] };
    return { address, forms: arch.livePatching.kind === 'breakpoint' ? [...forms, breakpoint] : forms };
  });
} // prettier-ignore
