/**
 * Sessions: the core on an image. At rest it works on a copy of a file and gives the bytes; live it
 * works on the memory of a machine as well. Owns the way into a session (every site verified and
 * made a nop, C-INIT-2) and the order of the image's parts; the core owns everything after.
 */
import type { Arch } from '../machine/arch.js';
import type { TextSeam } from '../machine/trampolines.js';
import { equalBytes } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError, hex } from '../errors.js';
import { load, type LoadOptions } from '../program/program.js';
import {
  type CallSite,
  type Capabilities,
  formatReport,
  FtraceCore,
  initReport,
  type Ops,
  type Outcome,
  type Policy,
  type SiteInput,
} from '../ftrace/index.js';
import type { GoneModule, GoneProbe, GoneSymbol } from '../record/gone-modules.js';
import { ImageBackend } from './image-backend.js';
import type { Text } from './image-memory.js';
import { setDirectVariant } from './direct-variant.js';
import { checkAcceptance, type Plan, type PlanRequest } from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import { findSites, type Sites } from '../sites/sites.js';
import { entriesOf, requireFixedAddresses, requireObjects } from './entries.js';
import { capabilitiesOf, policyOf } from './offers.js';
import { initialState, recordIp, whyNoGraph } from './site-state.js';
import { isCovered } from '../sites/verdicts.js';
import type { Address, RegisterName, SiteIndex } from '../units.js';
import { StoreLedger } from './ledger.js';

/** A call of a function of the host, as `Gates` of the emulator hand it over. */
export interface HostCall {
  argument(index: number): bigint;
  register(name: RegisterName): bigint;
  setRegister(name: RegisterName, value: bigint): void;
}

/** Addresses behind which there are functions of the host. */
export interface HostGates {
  add(callback: (call: HostCall) => bigint | undefined): { readonly address: Address; remove(): void };
}

/** A traced call as `Session.on` tells it. */
export interface SessionHit {
  /**
   * What callbacks are told (C-TGT-7), and the record that it belongs to; null for an ip that no
   * record has.
   */
  readonly ip: Address;
  readonly site: CallSite | null;
  readonly parentIp: Address;
  /** Address of the register frame; 0 where the entry passes none. */
  readonly regs: Address;
  readonly call: HostCall;
}

/** A callback of the host that is registered. */
export interface SessionListener {
  readonly ops: Ops;
  /** Takes it out again, with its object and gate. */
  off(): void;
}

export interface SessionOptions extends LoadOptions {
  /**
   * Where callbacks of the host get their addresses (`Gates` of the machine that runs the image);
   * needed for `on`.
   */
  readonly gates?: HostGates;
  readonly policy?: Partial<Policy>;
  readonly nopForm?: string;
  /**
   * What the image is to offer, where that is not what its entries do: for asking what happens
   * then.
   */
  readonly capabilities?: Partial<Capabilities>;
  /** Text of a machine that runs the image (`liveText`); the copy of the file alone when absent. */
  readonly text?: (image: ElfImage) => Text;
  /** Modules of the image that are not there yet: a step of the session brings each (C-MOD-1). */
  readonly absent?: ReadonlySet<string>;
  /** Modules that are not in the image any more and that the session knew. */
  readonly gone?: readonly GoneModule[];
  /**
   * The way to direct callers, of those that the entries' convention has; the one that they were
   * built with when absent.
   */
  readonly directVariant?: string;
  /** Ranges of the file that may not be written: [start, end). */
  readonly readonlyRanges?: PlanRequest['readonlyRanges'];
  /**
   * What may stand between private trampolines and the image: tests let single actions fail here.
   */
  readonly seam?: (own: TextSeam) => TextSeam;
}

/**
 * Variants that are asked for by name, and that the machine or the image does not have: the default
 * takes what there is.
 */
function checkPolicy({ target, trampolines }: Arch, capabilities: Capabilities, policy: Partial<Policy>): void {
  // T-A64-13: the reason names what serves single ops instead.
  if (trampolines.kind === 'none' && policy.trampolines !== undefined && policy.trampolines !== 'none') {
    throw new ElftraceError('unsupported-form', `private trampolines on ${target.title}: ${trampolines.reason}`, {
      value: policy.trampolines,
    });
  }
  if (policy.opsEntries === 'two' && !capabilities.listEntry) {
    throw new ElftraceError(
      'unsupported-form',
      'the image has no second entry that always lists (ftrace_list_caller)',
      {
        symbol: 'ftrace_list_caller',
      },
    );
  }
}

/** A site that the way into a session has changed: all of its bytes, before and after. */
interface Prepared {
  readonly fileOffset: number;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

/** A site that holds what the way into the session made of it. */
export interface IdleSite {
  readonly site: SiteIndex;
  /** Where its bytes are in the file, and what they were. */
  readonly fileOffset: number;
  readonly before: Uint8Array;
}

/** What the core is told of the modules of an image, as they come and go. */
interface Modules {
  /** Sites of those whose code is in the image. */
  readonly present: ReadonlyMap<string, readonly SiteInput[]>;
  /** The others, each at the `unload` step with which it went. */
  readonly gone: readonly GoneModule[];
  /** Turns the sites of a module into nops (C-INIT-2). */
  readonly initialise: (name: string) => void;
  /**
   * Notes what the sites of a module hold as it goes: what is registered there is not taken out of
   * them (C-MOD-2).
   */
  readonly leave: (name: string) => void;
}

/** C-INIT-1: sites of which the machine cannot make use are no records: 0. */
const usableSites = (sites: Sites): Uint8Array =>
  Uint8Array.from({ length: sites.count }, (_, i) => (sites.reading(i)?.fault === 'misaligned' ? 0 : 1));

/**
 * Several tracers on one image: ops, filters and their order as the ftrace core of a kernel has
 * them, at rest or while a machine runs the image. Sites are verified when it is made.
 * @throws ElftraceError where a site or the runtime is not as it must be
 */
export class Session {
  /** How often each module went. */
  readonly #unloads = new Map<string, number>();
  /** Modules that are there, whatever ftrace makes of them. */
  readonly #there = new Set<string>();
  /** By site. */
  readonly #prepared: ReadonlyMap<number, Prepared>;
  /**
   * The core has no sites, so ftrace is dead from the start (C-INIT-3); modules come and go all the
   * same.
   */
  readonly #untraceable: boolean;

  private constructor(
    readonly sites: Sites,
    readonly backend: ImageBackend,
    readonly core: FtraceCore,
    private readonly modules: Modules,
    private readonly gates: HostGates | null,
    prepared: ReadonlyMap<number, Prepared>,
    /** Why the bytes of the image changed. */
    readonly ledger: StoreLedger,
  ) {
    this.#prepared = prepared;
    this.#untraceable = core.dead !== null;
  }

  /**
   * Opens a session on an image with entries; the bytes given stay as they are.
   * @throws ElftraceError 'plan-refused' when a site is not as it must be, 'no-runtime' without
   *   entries, 'unsupported-form' for a policy of another machine
   */
  static open(bytes: Uint8Array, arch: Arch, options: SessionOptions = {}): Session {
    const image = readElf(bytes.slice());
    const sites = findSites(load(image, arch, options));
    const text = guarded(options.text?.(image), image, options.readonlyRanges ?? []);
    const usable = usableSites(sites);
    requireObjects(sites.program);
    requireFixedAddresses(sites.program, entriesOf(sites.program));
    const capabilities = { ...capabilitiesOf(sites), ...options.capabilities };
    checkPolicy(arch, capabilities, options.policy ?? {});
    // Where nothing is patched (T-X86-32) sites stay the calls that they were compiled to.
    const prepared = new Map<number, Prepared>();
    const ledger = new StoreLedger();
    const start = { options, text, prepared, ledger };
    if (capabilities.patchable) initialise(sites, usable, start);
    if (options.directVariant !== undefined) setDirectVariant(sites, options.directVariant, ledger);
    const { absent = new Set<string>(), gone = [] } = options;
    const policy = { ...policyOf(sites), ...options.policy };
    const backend = new ImageBackend(sites, {
      capabilities,
      ledger,
      pristine: () => findSites(load(readElf(bytes), arch, options)),
      idleLiteral: { kind: policy.literalOff === 'list' ? 'list-ops' : 'nop-ops' },
      ...(options.nopForm === undefined ? {} : { nopForm: options.nopForm }),
      ...(text === undefined ? {} : { text }),
      ...(options.seam === undefined ? {} : { seam: options.seam }),
    });
    const left = new Map<number, Uint8Array>();
    const { own, present } = recordsOf(sites, usable);
    const core = new FtraceCore({
      backend,
      sites: own,
      records: {
        siteBytes: arch.target.codeAlignBytes === 1 ? arch.branches.call.sizeBytes : 4,
        dotSymbols: arch.target.abiName === 'elfv1',
      },
      policy,
    });
    const session = new Session(
      sites,
      backend,
      core,
      {
        present,
        gone,
        initialise: (name) => {
          const selection = usable.map((use, i) => (use === 1 && sites.module(i) === name ? 1 : 0));
          if (capabilities.patchable) initialise(sites, selection, { ...start, left });
        },
        leave: (name) => {
          for (let i = 0; i < sites.count; i++) if (sites.module(i) === name) left.set(i, siteBytes(sites, i));
        },
      },
      options.gates ?? null,
      prepared,
      ledger,
    );
    const names = new Set([...present.keys(), ...gone.map(({ name }) => name)]);
    for (const name of names) if (!absent.has(name)) session.loadModule(name);
    return session;
  }

  /**
   * Calls a function of the host for each call of the functions that words of a filter name
   * (RT-12). An image with such a callback cannot become a file.
   * @throws ElftraceError 'usage' without gates, 'plan-refused' where the core refuses, with the
   *   errno
   */
  on(
    words: string,
    callback: (hit: SessionHit) => void,
    options: { readonly name?: string; readonly regs?: boolean } = {},
  ): SessionListener {
    const { core, gates } = this;
    if (gates === null) throw new ElftraceError('usage', 'callbacks of the host need the gates of a machine', {});
    const gate = gates.add((call) => {
      const ip = call.argument(0);
      const record = core.location(ip);
      // Entries that pass two arguments leave in the others what was there; the list function
      // passes all of them.
      callback({ ip, site: record, parentIp: call.argument(1), regs: call.argument(3), call });
      return undefined;
    });
    const ops = core.createOps({
      name: options.name ?? `on ${words}`,
      func: gate.address,
      flags: options.regs === true ? ['SAVE_REGS', 'DYNAMIC'] : ['DYNAMIC'],
    });
    const must = (outcome: Outcome): void => {
      if (outcome.kind === 'done') return;
      throw new ElftraceError('plan-refused', `${ops.name}: ${outcome.reason} (${outcome.errno})`, {
        value: outcome.errno,
      });
    };
    try {
      must(core.setFilter(ops, 'filter', words));
      must(core.register(ops));
    } catch (error) {
      if (core.dead === null) must(core.destroy(ops));
      gate.remove();
      throw error;
    }
    return {
      ops,
      off() {
        must(core.unregister(ops));
        must(core.destroy(ops));
        gate.remove();
      },
    };
  }

  /** The code of a module that the core is told of next: null when it is in the image. */
  #goneNow(name: string): GoneModule | null {
    const unloads = this.#unloads.get(name) ?? 0;
    return this.modules.gone.find((each) => each.name === name && each.unload >= unloads) ?? null;
  }

  /**
   * C-MOD-1: a module comes. Its code is in the image, or was and is gone.
   * @throws ElftraceError 'no-match' for one that never was
   */
  loadModule(name: string): Outcome {
    const gone = this.#goneNow(name);
    const sites = gone?.sites ?? this.modules.present.get(name);
    if (sites === undefined) {
      throw new ElftraceError('no-match', `there is no module '${name}' in the image`, { symbol: name });
    }
    const comes = !this.#there.has(name);
    if (comes) {
      this.backend.setGone(name, gone !== null);
      if (gone === null && this.#unloads.has(name)) this.modules.initialise(name);
    }
    const outcome = this.core.loadModule(name, sites);
    if (outcome.kind === 'done' || this.#untraceable) this.#there.add(name);
    return outcome;
  }

  /** C-MOD-2: a module goes. Its code stays where it is, unless the caller takes it away. */
  unloadModule(name: string): Outcome {
    const outcome = this.core.unloadModule(name);
    if (outcome.kind === 'done' || (this.#untraceable && this.#there.has(name))) {
      this.modules.leave(name);
      this.#unloads.set(name, this.unloadsOf(name) + 1);
      this.#there.delete(name);
    }
    return outcome;
  }

  /** How often a module went so far. */
  unloadsOf(name: string): number {
    return this.#unloads.get(name) ?? 0;
  }

  /** A module is there, its code in the image or gone with a later step. */
  isLoaded(name: string): boolean {
    return this.#there.has(name);
  }

  /** Where a probe of the session was, and in which module, if that has gone. */
  goneProbe(id: number): { readonly module: string; readonly probe: GoneProbe } | null {
    for (const { name, probes } of this.modules.gone) {
      const probe = probes.find((each) => each.id === id);
      if (probe !== undefined) return { module: name, probe };
    }
    return null;
  }

  /** Sites of a module of the image, as the core sees them. */
  sitesOfModule(name: string): readonly SiteInput[] | null {
    return this.modules.present.get(name) ?? null;
  }

  /**
   * Lets sites jump to direct callers whose address has bit 0 set (X-JMP-1); callers at odd
   * addresses cannot be called then.
   * @throws ElftraceError 'unsupported-form'
   */
  enableJumps(): void {
    this.backend.enableJumps(this.core.state.direct.values());
  }

  /**
   * Why a module cannot go: another part uses its symbols, or a registered callback lies in it.
   * null when it can.
   */
  moduleUse(name: string): string | null {
    const parts = this.sites.program.loadMap?.parts ?? [];
    const part = parts.find((each) => each.kind === 'module' && each.name === name);
    if (part === undefined) return null;
    const { modules } = this.core.state.records;
    const users = parts.filter(
      (each) => each.uses.includes(name) && (each.kind !== 'module' || modules.includes(each.name)),
    );
    if (users.length > 0) return `${name} is used by ${users.map((each) => each.name).join(', ')}`;
    const inside = (address: Address): boolean =>
      part.ranges.some(({ start, end }) => address >= start && address < end);
    const { list, graph, direct } = this.core.state;
    const called = list.find(
      (ops) =>
        inside(ops.func) ||
        inside(ops.directCall) ||
        (ops.has('IPMODIFY') && inside(ops.data)) ||
        (ops.trampoline?.kind === 'user' && inside(ops.trampoline.address)),
    );
    if (called !== undefined) return `${name} has code that ${called.name} calls`;
    const listener = graph.users.find(
      (user) => user !== null && (inside(user.callbacks.entry) || inside(user.callbacks.return)),
    );
    if (listener) return `${name} has code that the graph ${listener.name} calls`;
    const site = [...direct].find(([, address]) => inside(address))?.[0];
    return site === undefined ? null : `${name} has the direct caller of ${site.name}`;
  }

  /**
   * Sites that no ops has taken: in `bytes` they still hold what the way into the session wrote
   * there (C-INIT-2).
   * @param bytes  the image as it is, or as it is going to be
   */
  idleSites(bytes: Uint8Array): IdleSite[] {
    const found: IdleSite[] = [];
    for (const [site, { fileOffset, before, after }] of this.#prepared) {
      // A probe may stand on what the way in left alone.
      const isIdle = equalBytes(bytes.subarray(fileOffset, fileOffset + after.length), after);
      if (isIdle) found.push({ site, fileOffset, before });
    }
    return found;
  }

  /** The image as it is now. */
  bytes(): Uint8Array {
    return this.sites.program.image.bytes.slice();
  }

  /**
   * What a function pointer to a function of the image holds: its address, or that of its
   * descriptor.
   */
  pointerTo(name: string): bigint | null {
    const { program } = this.sites;
    const symbol = program.symbols.find(name);
    if (program.definedAt(symbol) !== null) return program.symbols.value[symbol]!;
    return this.#goneSymbol(name)?.pointer ?? null;
  }

  /** A symbol that the session named before its module went. */
  #goneSymbol(name: string): GoneSymbol | undefined {
    return this.modules.gone.flatMap(({ symbols }) => symbols).find((each) => each.name === name);
  }

  /** Text address of a function of the image, for ops. */
  functionAddress(name: string): bigint | null {
    const { program } = this.sites;
    return program.definedAt(program.symbols.find(name)) ?? this.#goneSymbol(name)?.address ?? null;
  }
}

/**
 * C-INIT-2, C-REP-1: the first site that is not as it must be, as a report of type INIT.
 * @throws ElftraceError 'plan-refused'
 */
function reportInit(sites: Sites, plan: Plan): void {
  const [first] = plan.refusals;
  if (first === undefined) return;
  const { program } = sites;
  const symbol = first.site < 0 ? -1 : sites.functionSymbol(first.site);
  const place = symbol < 0 ? undefined : program.functions.placeOf(symbol);
  const ip = first.site < 0 ? first.address : recordIp(sites, first.site);
  const bytes = (text: string): Uint8Array | null =>
    text === '' ? null : Uint8Array.from(text.split(/[ :]/), (each) => Number.parseInt(each, 16));
  const report = initReport({
    kind: first.errno === 'EFAULT' ? 'read-fault' : first.errno === 'EPERM' ? 'write-fault' : 'mismatch',
    ip,
    symbol: symbol < 0 ? '' : `${program.symbolName(symbol)}+${hex(ip - (place?.value ?? ip))}`,
    module: first.site < 0 ? null : sites.module(first.site),
    actual: bytes(first.actual),
    expected: bytes(first.expected),
    detail: `${first.code}: ${first.reason}`,
  });
  try {
    checkAcceptance(plan, {});
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    throw new ElftraceError(error.code, `${error.message}\n${formatReport(report)}`, error.context);
  }
}

/** The bytes of a site as they are now. */
function siteBytes(sites: Sites, index: SiteIndex): Uint8Array {
  const reading = sites.reading(index);
  return reading === null
    ? new Uint8Array(0)
    : sites.viewOf(index).bytes(reading.startDelta, reading.sizeBytes).slice();
}

/** The bytes of a site in the file: [start, end). */
function extentOf(sites: Sites, site: SiteIndex): { readonly start: number; readonly end: number } {
  const reading = sites.reading(site);
  const anchor = sites.fileOffset(site);
  if (reading === null || anchor < 0) return { start: Infinity, end: 0 };
  return { start: anchor + reading.startDelta, end: anchor + reading.startDelta + reading.sizeBytes };
}

/**
 * Notes a change of a site; a second one (nops of a compiler, then those of the machine) starts
 * from what the first found.
 */
function note(
  prepared: Map<number, Prepared>,
  site: SiteIndex,
  fileOffset: number,
  before: Uint8Array,
  after: Uint8Array,
): void {
  const first = prepared.get(site);
  if (first === undefined) {
    prepared.set(site, { fileOffset, before, after });
    return;
  }
  const start = Math.min(fileOffset, first.fileOffset);
  const end = Math.max(fileOffset + after.length, first.fileOffset + first.after.length);
  const was = new Uint8Array(end - start);
  const is = new Uint8Array(end - start);
  was.set(before, fileOffset - start);
  was.set(first.before, first.fileOffset - start);
  is.set(first.after, first.fileOffset - start);
  is.set(after, fileOffset - start);
  prepared.set(site, { fileOffset: start, before: was, after: is });
}

/** How sites are made nops, and who hears of it. */
interface StartUp {
  readonly options: SessionOptions;
  readonly text: Text | undefined;
  /** Gets what is written, by site. */
  readonly prepared: Map<number, Prepared>;
  readonly ledger: StoreLedger;
  /** What a session has left in sites, by site. */
  readonly left?: ReadonlyMap<number, Uint8Array>;
}

/** C-INIT-2: every site is verified, then made a nop. */
function initialise(
  sites: Sites,
  selection: Uint8Array,
  { options, text, prepared, ledger, left = new Map<number, Uint8Array>() }: StartUp,
): void {
  const leftBehind = (site: SiteIndex): boolean => {
    const bytes = left.get(site);
    return bytes !== undefined && equalBytes(bytes, siteBytes(sites, site));
  };
  const to = initialState(sites.program, options.nopForm, options.policy?.literalOff);
  const { bytes } = sites.program.image;
  const write = (plan: Plan): void => {
    reportInit(sites, plan);
    const changed = new Map<number, { start: number; end: number }>();
    for (const { site, fileOffset, after } of plan.steps) {
      const known = changed.get(site) ?? extentOf(sites, site);
      const [start, end] = [Math.min(known.start, fileOffset), Math.max(known.end, fileOffset + after.length)];
      changed.set(site, { start, end });
    }
    const held = new Map([...changed].map(([site, { start, end }]) => [site, bytes.slice(start, end)]));
    for (const { address, after, fileOffset, site, rule } of plan.steps) {
      if (text?.store(address, after) === false) {
        throw new ElftraceError('site-mismatch', `the site at ${hex(address)} may not be written (EPERM)`, { address });
      }
      ledger.note(fileOffset, after.length, { rule, site, reason: 'as start-up leaves the site [C-INIT-2]' });
      bytes.set(after, fileOffset);
    }
    for (const [site, { start, end }] of changed) note(prepared, site, start, held.get(site)!, bytes.slice(start, end));
  };
  write(planSites(sites, { to, selection, leftBehind }));
  sites.keep();
  // The compiler's nops are off, and yet not what the machine's own disabled form is (P-NEW-1).
  const compiled = selection.map((each, i) => (each === 1 && sites.reading(i)?.state === 'compiled' ? 1 : 0));
  if (compiled.includes(1)) write(planSites(sites, { to: { kind: 'init' }, selection: compiled }));
}

/**
 * Whether the entries can serve a site, where what stands around it decides that; others stay nops.
 */
function isServed(sites: Sites, index: SiteIndex, served: readonly string[]): boolean {
  const reading = sites.reading(index);
  if (!reading?.shape.servedAt) return true;
  return sites.entriesOf(index, reading).some((each) => served.includes(each));
}

/** A text that some ranges of the file are kept from. */
function guarded(
  text: Text | undefined,
  image: ElfImage,
  ranges: NonNullable<PlanRequest['readonlyRanges']>,
): Text | undefined {
  if (ranges.length === 0) return text;
  return {
    refresh: (address, size) => text?.refresh(address, size),
    store(address, bytes, what) {
      const at = image.fileOffsetOf(address);
      if (ranges.some(({ start, end }) => at < end && start < at + bytes.length)) return false;
      return text?.store(address, bytes, what) ?? true;
    },
    event: (step, freed) => text?.event(step, freed),
  };
}

/** C-INIT-1: the records of the core image, and of each module. */
function recordsOf(
  sites: Sites,
  usable: Uint8Array,
): { readonly own: readonly SiteInput[]; readonly present: ReadonlyMap<string, readonly SiteInput[]> } {
  const { serves: served } = entriesOf(sites.program);
  const present = new Map<string, SiteInput[]>();
  for (const part of sites.program.loadMap?.parts ?? []) if (part.kind === 'module') present.set(part.name, []);
  const own: SiteInput[] = [];
  for (let i = 0; i < sites.count; i++) {
    if (!sites.codeRange(i) || usable[i] === 0) continue;
    // Where functions begin decides what serves a site, and a leftover has no function: it is a
    // record, and disabled (C-REC-2).
    if (!isServed(sites, i, served) && !isLeftover(sites, i)) continue;
    const module = sites.module(i);
    const list = module === null ? own : (present.get(module) ?? []);
    if (module !== null) present.set(module, list);
    list.push(siteInput(sites, i));
  }
  return { own, present };
}

/** The body of an overridden weak function (C-FILT-4). */
function isLeftover(sites: Sites, index: SiteIndex): boolean {
  return sites.program.namesFunctions && !isCovered(sites, index);
}

function siteInput(sites: Sites, index: SiteIndex): SiteInput {
  const { program } = sites;
  const symbol = sites.functionSymbol(index);
  const ip = recordIp(sites, index);
  const place = symbol < 0 ? undefined : program.functions.placeOf(symbol);
  const noGraph = whyNoGraph(sites, index, sites.reading(index));
  return {
    ip,
    name: program.symbolName(symbol),
    ...(place === undefined ? {} : { siteOffset: ip - place.value, symbolSize: program.symbols.size[symbol]! }),
    weak: isLeftover(sites, index),
    ...(noGraph === null ? {} : { noGraph }),
  };
}
