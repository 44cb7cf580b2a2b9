/**
 * Races on real images: what a session of the ftrace core stores when a function's site goes from one state to another is the sequence, and threads
 * that call the function are those of the program. Owns the way from an image to a scene; decides no order of stores: those are the core's.
 *
 *   image -Session-> state `from` -machine-> the program runs up to its first call of the function; each thread begins there, with a stack of its own
 *                    state `to`   -steps---> stores in the core's order, by the machine's way to change running code; waits, frees
 *
 * Waits of the core (C-Q-2): `tasks` and `read` wait until every thread was outside; `rude` (something ran on every CPU) does so only where nobody is
 * preempted, else it is a serialising interrupt, which a thread in the middle of a tracer survives.
 */
import type { Arch } from '../arch.js';
import { archOf } from '../arches.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { type IrEmulation, callFunction, type CpuState, Machine, startProcess } from '../emulator/index.js';
import { ElftraceError, hex } from '../errors.js';
import { type CallSite, formatReport, GraphUser, type Ops, type Outcome } from '../ftrace/core/index.js';
import { withRuntime } from '../ftrace/inject.js';
import type { Text } from '../ftrace/image-backend.js';
import { entryPoint } from '../ftrace/routes.js';
import { Session, type SessionOptions } from '../ftrace/session.js';
import { findSites } from '../ftrace/sites.js';
import type { EntryKind } from '../ftrace/tracing.js';
import { readLoadMap } from '../program/load-map.js';
import { OPS_WORDS } from '../runtime/abi.js';
import { load, type Program } from '../program/program.js';
import type { Address, RegisterName } from '../units.js';
import type { RaceCase } from './hazards.js';
import type { RaceOptions } from './explore.js';
import type { CheckView, CodeExtent, RaceStep, Scene, Sequence, Unit, UnitForm } from './model.js';
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
  | { readonly kind: 'direct'; readonly caller: string };

const tracers = {
  call: 'elftrace_counter',
  counter: 'elftrace_counter',
  function: 'elftrace_function_tracer',
} as const;

/**
 * `nop`, `call` (a callback that counts), `function` (one that records), `list`, `graph`, `direct:CALLER`, or a function of the image.
 * @throws ElftraceError 'usage'
 */
export function parseRaceState(text: string): RaceState {
  if (text === 'nop' || text === 'list' || text === 'graph') return { kind: text };
  if (text === 'call' || text === 'counter' || text === 'function') return { kind: 'tracer', symbol: tracers[text] };
  const [, prefix, name] = /^(?:(direct):)?([A-Za-z_.$][\w.$]*)$/.exec(text) ?? [];
  if (name === undefined) {
    throw new ElftraceError('usage', `'${text}' is no state: nop, call, function, list, graph, direct:CALLER or a function`, {
      value: text,
    });
  }
  return prefix === 'direct' ? { kind: 'direct', caller: name } : { kind: 'tracer', symbol: name };
} // prettier-ignore

/** How a sequence differs from the core's own. */
export type RaceVariant = Breakage | 'stopped';

export interface ImageRaceRequest {
  /** A linked program or an image that `load` made; the runtime is laid in where it is missing. */
  readonly image: Uint8Array;
  /** Name of the function. */
  readonly site: string;
  readonly from: RaceState;
  readonly to: RaceState;
  /** Threads in the function at once. Default 1. */
  readonly cpus?: number;
  /** Arguments of a call of the function; null (default): the first call of the program is taken. */
  readonly call?: readonly (bigint | string)[] | null;
  readonly variants?: readonly RaceVariant[];
  /** `full` (default): threads stand anywhere whatever happens. `none`: nobody is inside the function when the machine is stopped. */
  readonly preempt?: 'none' | 'full';
  /** CPUs keep 64 bytes of code that they have fetched, and fetch ahead, until they are made to fetch anew. Default true. */
  readonly staleFetch?: boolean;
  /** Nop form of sites that have several (`2008`). */
  readonly nopForm?: string;
  /** Entries to lay in, where there is a choice (RISC-V, arm64). */
  readonly entries?: EntryKind;
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

const STACK_BYTES = 0x8000n;
const STACKS = { 32: 0x6000_0000n, 64: 0x6f00_0000_0000n } as const;
/** Of the caller's stack, copied to every thread's own: its frames above the stack pointer. */
const ABOVE = 0x1000n;
const BELOW = 0x4000n;
const FREED: Uint8Array = Uint8Array.of(0xde, 0xad, 0xfe, 0xed);
/** Instructions of a call without a patcher. */
const CALL_LIMIT = 100_000;

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
        done(core.registerDirect(ops, this.function(state.caller)), state.caller);
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
        state.kind === 'direct' ? core.unregisterDirect(each, this.function(state.caller)) : core.unregister(each);
      done(outcome, each.name);
    }
  }

  /** From one to the other without a gap, where the core has such a way. */
  go(from: RaceState, to: RaceState): void {
    const { core } = this.session;
    const [ops] = this.ops.get(from) ?? [];
    if (ops !== undefined && from.kind === 'direct' && to.kind === 'direct') {
      done(core.modifyDirect(ops, this.function(to.caller)), to.caller);
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
  /** Code that is written the machine's way for running code: what a site or an inner call was and becomes. */
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
    if (words || !isCode) return splitStores(address, bytes, this.arch.target.wordBytes);
    if (livePatching.kind === 'breakpoint') {
      const patch = { address, after: bytes };
      // Trampolines are built and given back where nobody executes.
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

/** The object or function in which a place is. */
function labelOf(image: ElfImage, address: Address): string {
  const { symbols } = image;
  let best = -1;
  for (let i = 1; i < symbols.count; i++) {
    const value = symbols.value[i]!;
    if (symbols.sectionIndex[i] === 0 || value > address || symbols.name(i) === '') continue;
    if (best >= 0 && value < symbols.value[best]!) continue;
    best = i;
  }
  if (best < 0) return hex(address);
  const distance = address - symbols.value[best]!;
  return distance > 0x4000n ? hex(address) : `${symbols.name(best)}${distance === 0n ? '' : `+${hex(distance)}`}`;
}

/** The image with entries. */
function prepared(request: ImageRaceRequest): { readonly image: ElfImage; readonly arch: Arch; readonly emulation: IrEmulation } {
  const given = readElf(request.image);
  const arch = archOf(given.header);
  const { emulation } = arch;
  if (emulation.kind === 'none') throw new ElftraceError('unsupported-form', `${arch.target.title}: ${emulation.reason}`);
  const program = load(given, arch);
  const image =
    entryPoint(program, 'ftrace_caller') === null
      ? withRuntime(findSites(program), undefined, undefined, request.entries, request.machine ?? {})
      : given;
  return { image, arch, emulation };
} // prettier-ignore

/** Registers and memory at the beginning of a call of the function, in a machine that is only good for that. */
interface Moment {
  readonly machine: Machine;
  readonly cpu: CpuState;
}

function reach(image: ElfImage, race: { readonly arch: Arch; readonly emulation: IrEmulation; readonly program: Program; readonly request: ImageRaceRequest }, starts: readonly Address[]): Moment {
  const { arch, emulation, program, request } = race;
  const { site, call = null, budget = 20_000_000 } = request;
  const start = call === null ? ('entry' as const) : ('none' as const);
  const process = startProcess({ image, abi: arch.abi, emulation, start });
  const { machine } = process;
  for (const [name, value] of Object.entries(program.loadMap?.registers ?? {})) machine.setRegister(name, value);
  if (call !== null) {
    const registers = new Map<RegisterName, bigint>();
    for (const [register, anchor] of emulation.process.anchors) {
      const found = program.symbols.find(anchor);
      if (found > 0) registers.set(register, program.symbols.value[found]!);
    }
    const { entry } = emulation.process;
    const toc = program.tocAt(starts[0]!);
    if (entry.kind === 'descriptor' && toc !== null) registers.set(entry.toc, toc);
    let cpu: CpuState | null = null;
    callFunction(process, { abi: arch.abi, emulation, target: { kind: 'code', address: starts[0]! }, args: call, registers }, () => {
      cpu = machine.saveCpu(0);
      return { kind: 'step-limit' };
    });
    return { machine, cpu: cpu! };
  }
  const hooks = starts.map((address) => machine.hook(address, () => 'stop'));
  const stop = machine.run({ budget });
  for (const off of hooks) off();
  if (stop.kind !== 'hook') {
    const why = stop.kind === 'exit' ? 'ends' : stop.kind === 'step-limit' ? `executes ${budget} instructions` : `stops (${stop.kind})`;
    throw new ElftraceError('no-match', `the program ${why} without a call of ${site}; give arguments for one: --call '${site}(1, 2)'`, {
      symbol: site,
    });
  }
  return { machine, cpu: machine.saveCpu(0) };
} // prettier-ignore

/** A machine for races with the same memory, and as many CPUs at the same place as there are threads. */
function crowd(moment: Moment, arch: Arch, emulation: IrEmulation, cpus: number, stop: Address, staleFetch: boolean): Machine {
  const machine = new Machine({
    lifter: emulation.lifter,
    blockInstructions: 1,
    ...(staleFetch ? { fetch: 'buffered' as const, fetchLineBytes: 64 } : {}),
  });
  const { memory } = moment.machine;
  for (const { address, size, permission, name } of memory.windows) {
    machine.map({ address, size, permission, ...(name === undefined ? {} : { name }) });
    for (let at = 0; at < size; at += 0x1000) {
      const page = memory.read(address + BigInt(at), Math.min(0x1000, size - at))!;
      if (page.some((byte) => byte !== 0)) machine.memory.write(address + BigInt(at), page);
    }
  }
  const { abi, target } = arch;
  const stacks = STACKS[target.wordBytes === 8 ? 64 : 32];
  machine.map({ address: stacks, size: Number(STACK_BYTES) * cpus, permission: 'rw', name: 'stacks' });
  for (let cpu = 1; cpu < cpus; cpu++) machine.addCpu();
  machine.restoreCpus(Array.from({ length: cpus }, () => ({ ...moment.cpu, fetched: null })));
  for (let cpu = 0; cpu < cpus; cpu++) {
    machine.switchTo(cpu);
    const old = machine.register(abi.stackPointer);
    const sp = stacks + BigInt(cpu) * STACK_BYTES + BELOW + (old & 0xfffn);
    for (let at = 0n; at < ABOVE; at += 64n) {
      const piece = memory.read(old + at, 64);
      if (piece) machine.memory.write(sp + at, piece);
    }
    if (abi.linkRegister === null) machine.writeWord(sp, target.wordBytes, stop);
    else machine.setRegister(abi.linkRegister, stop);
    machine.setRegister(abi.stackPointer, sp);
  }
  machine.switchTo(0);
  return machine;
} // prettier-ignore

/** One call by the first thread, alone: where it got to, and how it came back; null when it did not. */
interface Alone {
  readonly registers: ReadonlyMap<RegisterName, bigint> | null;
  readonly visited: ReadonlySet<Address>;
  readonly end: string;
}

function alone(machine: Machine, stop: Address, names: readonly RegisterName[]): Alone {
  const start = machine.snapshot();
  machine.switchTo(0);
  const visited = new Set<Address>();
  let end = `executes ${CALL_LIMIT} instructions`;
  let registers: Map<RegisterName, bigint> | null = null;
  for (let i = 0; i < CALL_LIMIT; i++) {
    const pc = machine.register('pc');
    if (pc === stop) {
      registers = new Map(names.map((name) => [name, machine.register(name)]));
      end = 'returns';
      break;
    }
    visited.add(pc);
    const reason = machine.step();
    if (reason.kind === 'step-limit') continue;
    end = `stops (${reason.kind}) at ${hex(pc)}`;
    break;
  }
  machine.restore(start);
  return { registers, visited, end };
}

/** Functions that were visited, as extents; instructions outside functions by themselves. */
function* extentsOf(program: Program, visited: Iterable<Address>): Generator<CodeExtent> {
  const seen = new Set<Address>();
  for (const address of visited) {
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionAt(range, address);
    const start = symbol < 0 ? undefined : program.functions.placeOf(symbol)?.value;
    const size = symbol < 0 ? 0n : program.symbols.size[symbol]!;
    const place: CodeExtent =
      start !== undefined && size > 0n
        ? { start, end: start + size, name: program.symbolName(symbol) }
        : { start: address, end: address + 1n, name: hex(address) };
    if (!seen.has(place.start)) yield place;
    seen.add(place.start);
  }
}

/**
 * The race of a request: scene, sequence and options, ready for `race` or `startRace`.
 * @throws ElftraceError 'no-match' for functions that are not there, have no site or are not called, 'plan-refused' where the core refuses a
 *   state, 'no-runtime', 'unsupported-form'
 */
export function imageRace(request: ImageRaceRequest): ImageRace {
  const { site: name, from, to, cpus = 1, preempt = 'full', variants = [] } = request;
  if (!Number.isInteger(cpus) || cpus < 1 || cpus > 8) {
    throw new ElftraceError('usage', `${cpus} CPUs: 1 to 8`, { value: cpus });
  }
  if (cpus > 1 && (from.kind === 'graph' || to.kind === 'graph')) {
    throw new ElftraceError('usage', 'the runtime records returns of one thread: the graph tracer is raced with one CPU');
  }
  const { image, arch, emulation } = prepared(request);
  const recorder = new Recorder(arch, request);
  const options: SessionOptions = {
    text: recorder.text,
    policy: { preempt, ...(request.literalOff === undefined ? {} : { literalOff: request.literalOff }) },
    ...(request.nopForm === undefined ? {} : { nopForm: request.nopForm }),
  };
  const session = Session.open(image.bytes, arch, options);
  const { program } = session.sites;
  const site = session.core.records.find((each) => each.name === name || each.name === `.${name}`);
  if (site === undefined) {
    const known = program.symbols.find(name) > 0;
    throw new ElftraceError('no-match', known ? `${name} has no site that the entries serve` : `no function is named ${name}`, {
      symbol: name,
    });
  }
  const states = new SiteStates(session, site);
  states.enter(from);
  const before = readElf(session.bytes());
  recorder.on = true;
  states.go(from, to);
  recorder.on = false;

  const range = program.codeAt(site.ip)!;
  const symbol = program.functionAt(range, site.ip);
  const first = program.functions.placeOf(symbol)!.value;
  const local = first + BigInt(arch.abi.localEntryOffset(program.symbols.other[symbol]!));
  const moment = reach(before, { arch, emulation, program, request }, first === local ? [first] : [first, local]);
  const stop = (1n << BigInt(8 * arch.target.wordBytes)) - 0x2000n;
  const staleFetch = request.staleFetch ?? true;
  const machine = crowd(moment, arch, emulation, cpus, stop, staleFetch);

  const { abi } = arch;
  const names = [abi.stackPointer, ...abi.preservedRegisters, abi.resultRegister];
  const then = alone(machine, stop, names);
  if (then.registers === null) {
    throw new ElftraceError('unsupported-form', `a call of ${name} ${then.end}: only functions that return by themselves are raced`, {
      symbol: name,
    });
  }
  const whole = machine.snapshot();
  for (const step of recorder.steps) if (step.kind === 'store') machine.memory.write(step.address, step.bytes);
  const later = alone(machine, stop, names);
  machine.restore(whole);

  const threads = Array.from({ length: cpus }, (_, cpu) => {
    machine.switchTo(cpu);
    const expect = new Map<RegisterName, bigint>();
    for (const each of names) {
      const value = then.registers!.get(each)!;
      if (each === abi.stackPointer) expect.set(each, value + BigInt(cpu) * STACK_BYTES);
      else if (each === abi.resultRegister) {
        // What a function returns may depend on other threads.
        if (cpus === 1 && later.registers?.get(each) === value) expect.set(each, value);
      } else if (machine.register(each) === value) expect.set(each, value);
    }
    return { name: `CPU ${cpu}`, expect };
  });
  machine.switchTo(0);

  const map = readLoadMap(before);
  const runtime: CodeExtent[] = (map?.parts ?? [])
    .filter(({ kind }) => kind === 'runtime')
    .flatMap((part) => part.ranges.map(({ start, end }) => ({ start, end, name: 'runtime' })));
  const code =
    cpus === 1
      ? [...extentsOf(program, [...then.visited, ...later.visited]), ...runtime]
      : program.code.map(({ address, bytes, name: section }) => ({ start: address, end: address + BigInt(bytes.length), name: section }));
  const callbacks = callbacksOf(session, [from, to]);
  const passesOps = session.backend.capabilities.passes === 4;
  const scene: Scene = {
    machine,
    threads,
    stop,
    stackPointer: abi.stackPointer,
    livePatching: arch.livePatching,
    code,
    marks: callbacks,
    checks: passesOps ? checksOf([from, to], session, states) : new Map(),
    units: unitsOf(recorder, arch, site.ip),
  };
  const stateText = (state: RaceState): string =>
    state.kind === 'tracer' ? state.symbol : state.kind === 'direct' ? `direct ${state.caller}` : state.kind;
  let sequence: Sequence = {
    name: `${name}: ${stateText(from)} to ${stateText(to)}`,
    patchers: [{ name: 'patcher', steps: recorder.steps }],
  };
  for (const variant of variants) if (variant !== 'stopped') sequence = broken(sequence, variant);
  const raceOptions: RaceOptions = staleFetch ? { prefetch: true } : {};
  const placeOf = (address: Address): string => {
    // The word in front of a function is its own (A-CO-1).
    if (address < first && first - address <= 16n) return `${name}-${hex(first - address)}`;
    const home = program.codeAt(address);
    const named = home === undefined ? states.describe(address, arch.target.wordBytes) : program.describe(home, address);
    return named === null || named === '' ? labelOf(before, address) : named;
  };
  return {
    scene, sequence, options: raceOptions, labels: new Map(), arch, image: before, program,
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
