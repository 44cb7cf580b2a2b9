/**
 * Switching a tracer on and off in a linked or loaded image: which word of which site, entry and
 * object becomes what. Owns the order of decisions (sites, then the calls inside the entries, then
 * the objects); owns no encoding and no layout of the runtime.
 *
 * What is written besides the sites, for one tracer (C-TGT-4, C-TGT-9, RT-10):
 *
 *   word                      function, counter, SYMBOL            function_graph
 *   entry passes ops:
 *     ops[0]                  func = the tracer                    func = ftrace_graph_func
 *     function_trace_op       ops[0]                               ops[0]
 *     ftrace_call             the tracer itself                    ftrace_graph_func
 *     ftrace_regs_call        the same                             the same
 *   entry passes ip, parent:
 *     ops[0]                  func = the tracer                    func = ftrace_stub, flag STUB
 *     elftrace_graph_ops      0                                    ops[0]
 *     ftrace_call             ftrace_ops_list_func                 ftrace_stub
 *     ftrace_graph_call       behind itself                        ftrace_graph_caller
 *   both: ftrace_ops_list     ops[0]                               ops[0]
 *
 *
 * An entry that passes ops and has a branch for the graph (x86-64 of 2014) is as on the left for
 * tracers, and as on the right for the graph. On machines with private trampolines (C-TRAMP-2) the
 * ops has one where there is room: then sites in reach call it, and ops[0] has its address and
 * ALLOC_TRAMP. The graph tracer of 2014 has the static entry in its place (T-X86-4).
 *
 * A callee that the inner call does not reach is called through the list function, which calls by
 * address.
 */
import { lookBack } from '../machine/patterns.js';
import { conventionMark, conventionNamed, type EntryConvention } from '../machine/conventions.js';
import { laidPolicy } from '../machine/options.js';
import type { TextSeam } from '../machine/trampolines.js';
import { ByteView, equalBytes } from '../bytes.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { SiteReading, SiteShape, WritableState } from '../machine/sites.js';
import type { Program } from '../program/program.js';
import { OPS_FLAGS, OPS_ROOM, OPS_WORD_COUNT, OPS_WORDS } from '../runtime/abi.js';
import type { Address } from '../units.js';
import { checkGraphSafety, graphCallback } from './graph-safety.js';
import { type Preemption, withHazards } from '../patch/hazards.js';
import { conventionFor } from './inject.js';
import type { Plan, PlanRequest, Step } from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import type { SiteDecision } from '../patch/decisions.js';
import { type EntryPoint, entryPoint, globalAt, waysTo } from '../patch/routes.js';
import type { Sites } from '../sites/sites.js';
import { foundTrampolines, ImageText, isAllocated, opsObjects } from './trampolines.js';

/** What selected sites call. */
export type Tracer =
  | { readonly kind: 'function' }
  | { readonly kind: 'function_graph' }
  | { readonly kind: 'counter' }
  /** A function of the image: `void f(ip, parent_ip, ops, regs)`. */
  | { readonly kind: 'symbol'; readonly name: string };

export interface TracingRequest extends Pick<
  PlanRequest,
  'readonlyRanges' | 'strictPermissions' | 'recorded' | 'signal' | 'module'
> {
  /** null: tracing goes off, the selected sites become nops. */
  readonly tracer: Tracer | null;
  /** One byte per site, nonzero for those that the tracer gets; all when absent. */
  readonly selection?: Uint8Array;
  /** What becomes of the others (RT-13). */
  readonly others: 'nop' | 'untouched';
  /** Nop form of sites that have several. */
  readonly nopForm?: string;
  /**
   * What words in front of functions that are off name, where they are compared: ops that do
   * nothing (default), or those that walk the list (A-CO-4).
   */
  readonly idleOps?: 'nop' | 'list';
  /** The callback needs every register: sites call the entry that saves them (SAVE_REGS). */
  readonly saveRegs?: boolean;
  /** False: no private trampoline, whatever the machine can. */
  readonly trampolines?: boolean;
  /** Whether the system that the plan is for can be preempted: then the plan names its hazards. */
  readonly preempt?: Preemption | undefined;
  /**
   * Return addresses are replaced in programs too that do not survive it (graph-safety.ts); the
   * plan's notices say why.
   */
  readonly allowUnsafeGraph?: boolean;
  /** What may stand between trampolines and the image: tests let single actions fail here. */
  readonly seam?: (own: TextSeam) => TextSeam;
}

export interface TracingPlan extends Plan {
  /** Sites that call the tracer afterwards. */
  readonly enabled: number;
}

/**
 * What every site becomes before a session (C-INIT-2): the disabled form of the sites that the
 * image's entries serve. Where nothing tells their convention, calls are turned off.
 * @param nopForm  one of the convention's forms; its own choice when absent
 */
export function initialState(program: Program, nopForm?: string, idleOps: 'nop' | 'list' = 'nop'): WritableState {
  const entries = entriesOf(program);
  const { convention, caller } = entries;
  if (convention === null) return { kind: 'nop', ...(nopForm === undefined ? {} : { form: nopForm }) };
  const { idle, literal } = convention;
  if (nopForm !== undefined && idle.nopForms.length > 0) return { kind: 'nop', form: nopForm };
  const ops =
    literal === null || !entries.hasObjects ? null : idleOpsSymbol(literal.written === 'compared' ? idleOps : 'nop');
  return {
    kind: 'init',
    ...(idle.named ? { form: convention.name } : {}),
    ...(idle.fixed ? { target: caller.address } : {}),
    ...(ops === null ? {} : { literal: entryPoint(program, ops)!.identity }),
  };
}

/**
 * The runtime's ops objects of sites that are off: ops that do nothing, or those that walk the list
 * (A-CO-4).
 */
const idleOpsSymbol = (idle: 'nop' | 'list'): string => (idle === 'nop' ? 'ftrace_nop_ops' : 'ftrace_list_ops');

/** By shape: asked for at each site. */
const onlyFixed = new WeakMap<SiteShape, boolean>();

/** Whether all conventions that a shape can call leave one instruction of the site as it is. */
function hasOnlyFixed(shape: SiteShape, conventions: readonly EntryConvention[]): boolean {
  let known = onlyFixed.get(shape);
  if (known === undefined) {
    known = shape.entries.every((each) => conventionNamed(conventions, each)?.idle.fixed === true);
    onlyFixed.set(shape, known);
  }
  return known;
}

/**
 * The ip of a site's record (C-TGT-7): what callbacks are told. Of a site with a fixed auipc the
 * word behind it, whatever stands there now.
 */
export function recordIp(sites: Sites, site: number): Address {
  const { siteShapes } = sites.program.arch;
  const counted = siteShapes.some((shape) => shape.entryCountsBack !== undefined);
  const fixed = entriesOf(sites.program).convention?.idle.fixed === true;
  const reading = fixed || counted ? sites.reading(site) : null;
  if (reading === null) return sites.ip(site);
  if (!fixed) {
    const { entryCountsBack } = reading.shape;
    return sites.ip(site) + BigInt(entryCountsBack === undefined ? 0 : reading.sizeBytes - entryCountsBack);
  }
  const ip = sites.anchor[site]! + BigInt(reading.ipDelta);
  // A site that could be of either generation is read as the older one.
  return hasOnlyFixed(reading.shape, sites.program.arch.conventions) ? ip : ip + 4n;
}

/** What an image has of the symbols of the runtime (RT-9). */
export interface Entries {
  /**
   * Convention of the entries; null for entries of a kernel's own whose convention only its sites
   * tell.
   */
  readonly convention: EntryConvention | null;
  /** Name of the convention, for people; `unknown` where there is none. */
  readonly kind: string;
  /**
   * Names of the conventions that the symbols fit, `kind` first: sites of these can call the
   * entries.
   */
  readonly serves: readonly string[];
  /** Whether the graph tracer is a callback or a branch in the entry. */
  readonly graph: 'callback' | 'branch';
  readonly caller: EntryPoint;
  /** The entry that saves all registers, or as many as there are; null where none passes any. */
  readonly registers: EntryPoint | null;
  /**
   * False for a kernel that has entries of its own and objects of another layout: only sites are
   * patched there.
   */
  readonly hasObjects: boolean;
}

/** How entries say what they call: a patched call, a pointer, the ops of the site. */
const calleeSymbols: readonly [string, ...string[]] = ['ftrace_call', 'ftrace_call_dest', 'ftrace_nop_ops'];
const objectSymbols: readonly string[] = [
  'ftrace_stub',
  'ftrace_ops_list',
  'ftrace_list_end',
  'ftrace_ops_list_func',
  'function_trace_op',
  'elftrace_data',
];

/** Asked for at each site; the symbols of a program stay what they are. */
const knownEntries = new WeakMap<Program, Entries>();

/**
 * The entries of an image.
 * @throws ElftraceError 'no-runtime' with the missing symbols when it has none
 */
export function entriesOf(program: Program): Entries {
  let entries = knownEntries.get(program);
  if (entries === undefined) {
    entries = findEntries(program);
    knownEntries.set(program, entries);
  }
  return entries;
}

function findEntries(program: Program): Entries {
  const caller = entryPoint(program, 'ftrace_caller');
  if (caller === null) {
    throw new ElftraceError('no-runtime', `the image has no tracing entries (missing: ftrace_caller, …)`, {
      symbol: 'ftrace_caller',
    });
  }
  const has = (symbol: string): boolean => entryPoint(program, symbol) !== null;
  const serves = conventionsOf(program, has);
  const convention = serves[0] ?? null;
  return {
    convention,
    kind: convention?.name ?? 'unknown',
    serves: serves.map(({ name }) => name),
    graph: convention === null || graphIsCallback(convention) ? 'callback' : 'branch',
    caller,
    registers: entryPoint(program, 'ftrace_regs_caller'),
    hasObjects: objectSymbols.every(has) && calleeSymbols.some(has),
  };
}

/**
 * The convention of an image's entries.
 * @throws ElftraceError 'no-runtime' when it has no entries, or those of no convention of the
 *   machine
 */
export function conventionOf(program: Program): EntryConvention {
  const { convention } = entriesOf(program);
  if (convention !== null) return convention;
  throw new ElftraceError(
    'no-runtime',
    `nothing tells the convention of the image's entries (of ${program.arch.target.title}: ${namesOf(program.arch.conventions)})`,
    { symbol: 'ftrace_caller', reason: 'unknown-convention' },
  );
}

const namesOf = (rows: readonly EntryConvention[]): string => rows.map(({ name }) => name).join(', ');

const graphIsCallback = ({ symbols }: EntryConvention): boolean => symbols.graph.includes('ftrace_graph_func');

/**
 * Conventions of the symbols that the image has: objects of ours may say it themselves; where two
 * have the same symbols the load map knows which it is. Empty where only its sites tell.
 */
function conventionsOf(program: Program, has: (symbol: string) => boolean): readonly EntryConvention[] {
  const { conventions } = program.arch;
  const marked = conventions.find(({ name }) => has(conventionMark(name)));
  if (marked !== undefined) return [marked];
  const fits = (groups: readonly ('entries' | 'graph')[]): EntryConvention[] =>
    conventions.filter(
      ({ toldBy, symbols }) => toldBy === 'symbols' && groups.every((group) => symbols[group].every(has)),
    );
  const recorded = program.loadMap?.options['convention'];
  for (const found of [fits(['entries', 'graph']), fits(['entries'])]) {
    const known = found.filter(({ name }) => name === recorded);
    if (known.length > 0) return known;
    if (found.length > 0) return found;
  }
  return [];
}

/**
 * Where the graph tracer's branch at an address leads while it is off: behind itself (R-MOD-5:
 * nops), or to the stub.
 * @throws ElftraceError 'no-runtime' for entries without such a branch
 */
export function graphOff(program: Program, at: Address): Address {
  const { graphOff: leads, name } = conventionOf(program);
  if (leads === 'behind') return at + BigInt(program.arch.branches.graph.sizeBytes);
  if (leads === 'stub') return entryPoint(program, 'ftrace_stub')!.address;
  throw new ElftraceError('no-runtime', `entries of the convention ${name} have no branch for the graph tracer`, {
    symbol: 'ftrace_graph_call',
  });
}

/** Names of plans, in records and reports. */
function nameOf(tracer: Tracer | null): string {
  if (tracer === null) return 'disable';
  return `enable ${tracer.kind === 'symbol' ? tracer.name : tracer.kind}`;
}

/**
 * Stores outside sites: words of objects and branches inside entries, each compared before it is
 * planned.
 */
class Words {
  readonly steps: Step[] = [];

  constructor(
    private readonly program: Program,
    private readonly forbidden: readonly { readonly start: number; readonly end: number }[],
  ) {}

  /**
   * What a symbol names: `address` for branches, `identity` for words that hold it.
   * @throws ElftraceError 'no-runtime'
   */
  entry(symbol: string): EntryPoint {
    const found = entryPoint(this.program, symbol);
    if (found === null) {
      throw new ElftraceError('no-runtime', `the image's runtime has no symbol ${symbol}`, { symbol });
    }
    return found;
  }

  /** Address of a label or an object. */
  address(symbol: string): Address {
    return this.entry(symbol).identity;
  }

  private store(
    what: string,
    address: Address,
    after: Uint8Array,
    rule: string,
    check: (now: Uint8Array) => string,
  ): void {
    const { image } = this.program;
    const fileOffset = image.fileOffsetOf(address);
    if (fileOffset < 0 || fileOffset + after.length > image.bytes.length) {
      throw new ElftraceError('site-mismatch', `${what} at ${hex(address)} is not in the file (EFAULT)`, {
        symbol: what,
        address,
      });
    }
    const before = image.bytes.slice(fileOffset, fileOffset + after.length);
    const wrong = check(before);
    if (wrong !== '') {
      throw new ElftraceError(
        'site-mismatch',
        `${what} at ${hex(address)}: ${wrong}, actual ${hexBytes(before)}; nothing was written`,
        { symbol: what, address, actual: hexBytes(before) },
      );
    }
    for (const range of this.forbidden) {
      if (fileOffset < range.end && range.start < fileOffset + after.length) {
        throw new ElftraceError('site-mismatch', `${what} at ${hex(address)} may not be written (EPERM)`, {
          symbol: what,
          address,
        });
      }
    }
    if (equalBytes(before, after)) return;
    const section = image.sections.find(
      (each) => each.size > 0 && address >= each.address && address < each.address + BigInt(each.size),
    );
    this.steps.push({
      kind: 'store',
      site: -1,
      section: section?.name ?? '',
      address,
      fileOffset,
      before,
      after,
      rule,
    });
  }

  /** A word of an object of ours. */
  word(what: string, address: Address, value: bigint, rule: string): void {
    const { image } = this.program;
    const after = new Uint8Array(image.wordBytes);
    new ByteView(after, image.header.endian).insertWord(0, value, image.wordBytes);
    this.store(what, address, after, rule, () => '');
  }

  /**
   * A branch inside an entry. What is there must be a branch to a function of the image, or
   * (`graph`) one to the next instruction or the place that it leads to when it is on.
   */
  branch(symbol: string, kind: 'call' | 'graph', target: Address, rule: string): void {
    const codec = this.program.arch.branches[kind];
    const at = this.address(symbol);
    const after = codec.encode(at, target);
    this.store(symbol, at, after, rule, (now) => {
      const leads = codec.target(now, at);
      if (leads === null) return `expected a ${kind === 'call' ? 'call' : 'branch'}`;
      if (kind === 'graph' || this.isEntry(leads)) return '';
      return `the call leads to ${hex(leads)}, where no function starts`;
    });
  }

  /** True for the address of a function, its local entry included. */
  private isEntry(address: Address): boolean {
    const { program } = this;
    const range = program.codeAt(address);
    const symbol = range === undefined ? -1 : program.functionAt(range, address);
    if (symbol < 0) return false;
    const start = program.functions.placeOf(symbol)?.value;
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[symbol]!));
    return start !== undefined && (address === start || address === start + local);
  }

  /** True when the branch of a symbol can lead to `target`. */
  reaches(symbol: string, target: Address): boolean {
    const { reach } = this.program.arch.branches.call;
    const distance = target - this.address(symbol);
    return distance >= reach.min && distance <= reach.max;
  }
}

/**
 * The function that a tracer is.
 * @throws ElftraceError 'no-match' for a symbol that is not defined, 'unsupported-form' for one
 *   with another TOC (F-10)
 */
function callbackOf(program: Program, entries: Entries, tracer: Tracer): EntryPoint {
  const symbol =
    tracer.kind === 'symbol'
      ? tracer.name
      : tracer.kind === 'counter'
        ? 'elftrace_counter'
        : tracer.kind === 'function'
          ? 'elftrace_function_tracer'
          : entries.graph === 'callback'
            ? 'ftrace_graph_func'
            : 'ftrace_stub';
  const found = entryPoint(program, symbol);
  if (found === null) throw new ElftraceError('no-match', `the image defines no function ${symbol}`, { symbol });
  const { caller } = entries;
  if (program.tocAt(found.identity) !== program.tocAt(caller.identity)) {
    throw new ElftraceError(
      'unsupported-form',
      `${symbol} has another table of contents than the entries: a tracer must belong to the core`,
      { symbol, address: found.identity },
    );
  }
  return found;
}

/**
 * Ops objects that words in front of functions may name, where they are compared before they
 * change.
 */
interface SiteOps {
  /** Of sites that call. */
  readonly on: Address;
  /** Of sites that do not. */
  readonly idle: Address;
  isKnown(address: Address): boolean;
}

function siteOps(program: Program, entries: Entries, idle: 'nop' | 'list'): SiteOps | null {
  if (entries.convention?.literal?.written !== 'compared' || !entries.hasObjects) return null;
  const address = (symbol: string): Address => entryPoint(program, symbol)!.identity;
  const [on, nop, list] = [address('elftrace_data'), address(idleOpsSymbol('nop')), address(idleOpsSymbol('list'))];
  const size = BigInt(program.image.wordBytes * OPS_WORD_COUNT);
  return {
    on,
    idle: idle === 'nop' ? nop : list,
    isKnown: (each) =>
      each === nop || each === list || (each >= on && each < on + size * BigInt(OPS_ROOM) && (each - on) % size === 0n),
  };
}

/**
 * Ops that initialised sites name which are off; null where sites have no pointer of their own, or
 * the image no ops.
 */
export function idleOpsOf(program: Program, idle: 'nop' | 'list'): Address | null {
  if (program.relocatable || entryPoint(program, 'ftrace_caller') === null) return null;
  return siteOps(program, entriesOf(program), idle)?.idle ?? null;
}

/**
 * The state with its ops; sites that were never initialised keep the compiler's bytes when tracing
 * goes off.
 */
function withOps(state: SiteDecision, reading: SiteReading, ops: SiteOps | null, tracer: Tracer | null): SiteDecision {
  if (ops === null || reading.literal === undefined || 'refused' in state) return state;
  if (reading.literal !== null && !ops.isKnown(reading.literal)) {
    const reason = `the pointer in front of the function names ${hex(reading.literal)}, which is no ops object`;
    return { refused: 'not-applicable', code: 'wrong-ops', reason };
  }
  if (state.kind === 'call') return { ...state, literal: ops.on };
  if (reading.state !== 'compiled') return { ...state, literal: ops.idle };
  return tracer === null ? state : { kind: 'init', literal: ops.idle };
}

/** What sites call, and what an ops object says of it. */
interface Way {
  /** Best first: the private trampoline, the shared entry. */
  readonly entries: readonly EntryPoint[];
  readonly trampoline: Address;
  readonly allocated: boolean;
}

/** A tracer as the words of an image have it. */
interface Registered {
  readonly callback: EntryPoint;
  readonly onlyGraphBranch: boolean;
  readonly way: Way;
}

/** Plans the objects and inner calls of one tracer, or of none. */
function planObjects(
  program: Program,
  entries: Entries,
  registered: Registered | null,
  saveRegs: boolean,
  words: Words,
): void {
  const size = BigInt(program.image.wordBytes);
  const ops = words.address('elftrace_data');
  const listEnd = words.address('ftrace_list_end');
  const stub = words.entry('ftrace_stub').address;
  const callback = registered?.callback ?? null;
  const onlyGraphBranch = registered?.onlyGraphBranch === true;
  const flags =
    OPS_FLAGS.ENABLED |
    OPS_FLAGS.INITIALIZED |
    (saveRegs ? OPS_FLAGS.SAVE_REGS : 0) |
    (onlyGraphBranch ? OPS_FLAGS.STUB : 0) |
    (registered?.way.allocated === true ? OPS_FLAGS.ALLOC_TRAMP : 0);
  const fields: Readonly<Record<keyof typeof OPS_WORDS, bigint>> = {
    func: callback?.identity ?? 0n,
    flags: callback === null ? 0n : BigInt(flags),
    directCall: 0n,
    private: 0n,
    next: callback === null ? 0n : listEnd,
    filter: 0n,
    notrace: 0n,
    trampoline: registered?.way.trampoline ?? 0n,
  };
  for (const [name, value] of Object.entries(fields)) {
    const index = OPS_WORDS[name as keyof typeof OPS_WORDS];
    words.word(`ops[0].${name}`, ops + size * BigInt(index), value, 'RT-4');
  }
  words.word('ftrace_ops_list', words.address('ftrace_ops_list'), callback === null ? listEnd : ops, 'C-REG-1');
  words.word('function_trace_op', words.address('function_trace_op'), callback === null ? listEnd : ops, 'C-TGT-8');

  const list = words.entry('ftrace_ops_list_func').address;
  if (entryPoint(program, 'ftrace_call_dest') !== null) {
    // R-MOD-4: a pointer reaches everything.
    words.word('ftrace_call_dest', words.address('ftrace_call_dest'), callback?.identity ?? stub, 'R-MOD-4');
  }
  const seen = new Set<Address>();
  for (const symbol of ['ftrace_call', 'ftrace_regs_call']) {
    const place = entryPoint(program, symbol);
    // One entry may have both names.
    if (place === null || seen.has(place.identity)) continue;
    seen.add(place.identity);
    let callee = stub;
    if (callback !== null && !onlyGraphBranch) {
      // C-TGT-9: an entry without ops and regs always goes through the list.
      const direct = entries.convention?.capabilities.passes === 4 && words.reaches(symbol, callback.address);
      callee = direct ? callback.address : list;
    }
    words.branch(symbol, 'call', callee, 'C-TGT-4');
  }
  if (entries.graph === 'branch' && entryPoint(program, 'ftrace_graph_call') !== null) {
    const at = words.address('ftrace_graph_call');
    const off = graphOff(program, at);
    words.branch(
      'ftrace_graph_call',
      'graph',
      onlyGraphBranch ? words.entry('ftrace_graph_caller').address : off,
      'C-FG-6',
    );
    if (entryPoint(program, 'elftrace_graph_ops') !== null) {
      words.word('elftrace_graph_ops', words.address('elftrace_graph_ops'), onlyGraphBranch ? ops : 0n, 'C-FG-8');
    }
  }
}

/**
 * What the sites of a tracer call. A trampoline that cannot be made is no fault (C-TRAMP-4): the
 * shared entry serves as well. The same holds for one whose call cannot be changed: it would still
 * call the tracer of before, so it is not used.
 */
function wayOf(
  program: Program,
  entries: Entries,
  registered: Omit<Registered, 'way'> | null,
  request: TracingRequest,
  text: ImageText,
  needsFrame: boolean,
): Way {
  const shared = request.saveRegs === true || needsFrame ? entries.registers : entries.caller;
  if (shared === null && request.saveRegs === true) {
    throw new ElftraceError('no-runtime', 'the image has no entry that saves every register (ftrace_regs_caller)', {
      symbol: 'ftrace_regs_caller',
    });
  }
  const entry = shared ?? entries.caller;
  const plain: Way = { entries: [entry], trampoline: 0n, allocated: false };
  const model = program.arch.trampolines;
  if (model.kind === 'none' || !entries.hasObjects) return plain;
  const variant = model.variantOf(entries.kind);
  const find = (symbol: string): Address | null => globalAt(program, symbol);
  const seam = request.seam?.(text) ?? text;
  const place = { variant, find, seam };
  const graphEntry = entries.graph === 'branch' ? entryPoint(program, 'ftrace_graph_caller') : null;
  const present = foundTrampolines(program, model, { ...place, seam: text });
  for (const { trampoline } of present) text.occupy(trampoline.address, trampoline.layout.sizeBytes);
  const mine = present.find(({ ops }) => ops.index === 0);
  const freeMine = (): void => {
    if (mine) seam.free(mine.trampoline.address, mine.trampoline.layout.sizeBytes);
  };
  if (registered === null || request.trampolines === false) {
    freeMine();
    return plain;
  }
  if (registered.onlyGraphBranch) {
    freeMine();
    // T-X86-4: it was not allocated, so ALLOC_TRAMP is clear.
    const laid = laidPolicy(program.arch.options, program.loadMap?.options ?? {});
    if (graphEntry === null || laid.trampolines === 'none') return plain;
    return { entries: [graphEntry, entry], trampoline: graphEntry.identity, allocated: false };
  }
  const now = opsObjects(program).find(({ index }) => index === 0);
  const given = now !== undefined && !isAllocated(now) && now.trampoline !== graphEntry?.identity;
  const update = model.update(
    {
      address: globalAt(program, 'elftrace_data') ?? 0n,
      saveRegs: request.saveRegs === true,
      callee: registered.callback.address,
      trampoline: mine
        ? mine.trampoline
        : given && now.trampoline !== 0n
          ? { kind: 'user', address: now.trampoline }
          : { kind: 'none' },
    },
    place,
  );
  if (update.retired) seam.free(update.retired.address, update.retired.layout.sizeBytes);
  const { trampoline } = update;
  if (trampoline.kind === 'none') return plain;
  if (update.did === 'failed') {
    freeMine();
    return plain;
  }
  const { address } = trampoline;
  const own: EntryPoint = { symbol: trampolineName, address, identity: address };
  return { entries: [own, entry], trampoline: address, allocated: trampoline.kind === 'own' };
}

const trampolineName = 'private trampoline';

/**
 * A session keeps its ops, hashes and probes in the objects of elftrace's runtime. Kernels have
 * entries of their own and objects of another layout, which only a kernel that runs can fill.
 * @throws ElftraceError 'no-runtime' with the missing symbols
 */
export function requireObjects(program: Program): void {
  if (entriesOf(program).hasObjects) return;
  const missing = objectSymbols.filter((symbol) => entryPoint(program, symbol) === null);
  if (!calleeSymbols.some((symbol) => entryPoint(program, symbol) !== null)) missing.push(calleeSymbols[0]);
  throw new ElftraceError(
    'no-runtime',
    `sessions, probes, direct callers, livepatches, race and cost need the objects of elftrace's runtime, and the image has entries of its own ` +
      `without them (missing: ${missing.join(', ')}); --nop, --init and --enable work on its sites`,
    { symbol: missing[0]!, reason: 'own-entries' },
  );
}

/**
 * Objects, and pointers in front of functions, name addresses: a file that is loaded anywhere would
 * need a relocation for each, those of pointers in its text (DT_TEXTREL).
 * @throws ElftraceError 'unsupported-form' for position-independent files with objects
 */
export function requireFixedAddresses({ positionIndependent }: Program, { hasObjects }: Entries): void {
  if (!positionIndependent || !hasObjects) return;
  throw new ElftraceError(
    'unsupported-form',
    'the tracing objects of a position-independent file hold addresses, which would need relocations (in its text too: DT_TEXTREL): link it with fixed addresses',
  );
}

/**
 * Decides what brings an image to one tracer on the selected sites, or to none.
 * @returns a plan for `applyPlan`; refusals for sites that cannot call the entry
 * @throws ElftraceError 'no-runtime', 'no-match', 'site-mismatch' (a word of the runtime is not as
 *   expected), 'unsupported-form', 'unsafe-graph'
 */
export function planTracing(sites: Sites, request: TracingRequest): TracingPlan {
  const { program } = sites;
  const { tracer, selection } = request;
  const found = entriesOf(program);
  // Entries that are not ours do not say whose sites they serve: the sites do.
  const entries =
    found.convention !== null || tracer === null ? found : withConvention(found, conventionFor(sites, selection));
  const { convention } = entries;
  requireFixedAddresses(program, entries);
  if (!entries.hasObjects && tracer !== null && tracer.kind !== 'function') {
    throw new ElftraceError(
      'unsupported-form',
      `the image has entries of its own and no objects of elftrace: only its sites can be switched, not the tracer ${tracer.kind === 'symbol' ? tracer.name : tracer.kind}`,
    );
  }
  const isGraph = tracer?.kind === 'function_graph' || (tracer?.kind === 'symbol' && tracer.name === graphCallback);
  const unsafe = isGraph ? checkGraphSafety(sites, nameOf(tracer), request.allowUnsafeGraph === true) : [];
  const isWanted = (site: number): boolean => tracer !== null && (!selection || selection[site] !== 0);
  const literalOf = (symbol: string): { literal?: Address } =>
    convention?.literal?.written === 'always' && entries.hasObjects
      ? { literal: entryPoint(program, symbol)?.identity ?? 0n }
      : {};
  const nopForm = request.nopForm ?? (convention?.idle.fixed === true ? convention.name : undefined);
  const nop: readonly SiteDecision[] = [
    { kind: 'nop', ...(nopForm === undefined ? {} : { form: nopForm }), ...literalOf(idleOpsSymbol('nop')) },
  ];
  // A callback that replaces return addresses finds them in the frame.
  const needsFrame =
    tracer?.kind === 'function_graph' && entries.graph === 'callback' && convention?.plainFrame === false;
  const ops = siteOps(program, entries, request.idleOps ?? 'nop');
  const decided = new Set<number>();
  const { readonlyRanges, strictPermissions, recorded, signal, module } = request;
  const { trampolines } = program.arch;
  const text = new ImageText(program, trampolines.kind === 'private' ? trampolines.fill : 0, readonlyRanges ?? []);
  // Switching off some of many sites leaves the tracer as it is.
  const remains = tracer === null && selection !== undefined && remainsEnabled(sites, selection);
  const registered =
    tracer === null || !entries.hasObjects
      ? null
      : {
          callback: callbackOf(program, entries, tracer),
          onlyGraphBranch: tracer.kind === 'function_graph' && entries.graph === 'branch',
        };
  // The runtime's own callbacks leave alone what the plain entry does not save; any other function
  // may not. The function tracer writes down callers.
  const saveRegs =
    request.saveRegs === true ||
    (tracer?.kind === 'symbol' && plainLoses(sites, isWanted)) ||
    (tracer?.kind === 'function' && convention?.nestedNeedsRegs === true && hasCallerInFrame(sites, isWanted));
  const way = remains ? null : wayOf(program, entries, registered, { ...request, saveRegs }, text, needsFrame);
  const plan = planSites(sites, {
    name: nameOf(tracer),
    to: (site, reading) => {
      if (!isWanted(site) || way === null) return nop.map((each) => withOps(each, reading, ops, tracer));
      const possible = sites.entriesOf(site, reading);
      if (!possible.some((each) => entries.serves.includes(each))) {
        const served = possible.join(' or ') || 'no tracer';
        // Where functions begin decides it on some machines.
        const nameless = possible.length === 0 && !program.namesFunctions;
        const reason = nameless
          ? `nothing says that a function begins in front of this ${reading.shape.name}: name the functions with --symbols FILE`
          : `${reading.shape.name} calls ${served}, the image's entry is of kind ${entries.kind}`;
        return [{ refused: 'unsupported', code: 'wrong-entry', reason }];
      }
      const noGraph = tracer?.kind === 'function_graph' ? whyNoGraph(sites, site, reading) : null;
      if (noGraph !== null) return [{ refused: 'unsupported', code: 'signed-return', reason: noGraph }];
      decided.add(site);
      const ways = way.entries
        .flatMap((entry) => waysTo(program, entry, sites.ip(site), reading))
        .map((each) =>
          'refused' in each || each.kind !== 'call'
            ? each
            : withOps({ ...each, form: entries.kind, ...literalOf('elftrace_data') }, reading, ops, tracer),
        );
      // What the first way lacks is only said when there is no other.
      return ways.some((each) => !('refused' in each)) ? ways.filter((each) => !('refused' in each)) : ways.slice(-1);
    },
    ...(selection && (tracer === null || request.others === 'untouched') ? { selection } : {}),
    ...(readonlyRanges ? { readonlyRanges } : {}),
    ...(strictPermissions === undefined ? {} : { strictPermissions }),
    ...(recorded ? { recorded } : {}),
    ...(signal ? { signal } : {}),
    ...(module === undefined ? {} : { module }),
  });
  for (const { site } of plan.refusals) decided.delete(site);
  const words = new Words(program, readonlyRanges ?? []);
  if (entries.hasObjects && way !== null) {
    planObjects(program, entries, registered && { ...registered, way }, saveRegs, words);
  }
  const steps = [...plan.steps, ...words.steps, ...text.steps()].sort((a, b) => a.fileOffset - b.fileOffset);
  const notices = [...unsafe, ...text.warnings.map(({ code, reason }) => `private trampoline: ${code}: ${reason}`)];
  const tracing: TracingPlan = {
    ...plan,
    steps,
    enabled: remains ? countEnabled(sites, selection) : decided.size,
    ...(notices.length > 0 ? { notices } : {}),
  };
  return withHazards(tracing, sites, entries.kind, request.preempt);
}

/** Entries of a kernel's own, with the convention that its sites tell. */
function withConvention(entries: Entries, convention: EntryConvention): Entries {
  const graph = graphIsCallback(convention) ? 'callback' : 'branch';
  return { ...entries, convention, kind: convention.name, serves: [convention.name], graph };
}

/** Why the graph tracer cannot have the returns of a site's function; null where it can. */
export function whyNoGraph(sites: Sites, site: number, reading: SiteReading | null): string | null {
  const binds = reading?.shape.bindsReturn;
  return binds !== undefined && lookBack(binds, sites.viewOf(site)) !== null ? binds.reason : null;
}

/** Whether a selected site has live registers that a plain entry would lose. */
function plainLoses(sites: Sites, isWanted: (site: number) => boolean): boolean {
  for (let i = 0; i < sites.count; i++) {
    if (isWanted(i) && (sites.reading(i)?.shape.plainLoses?.length ?? 0) > 0) return true;
  }
  return false;
}

/** Whether a selected site has its caller where only a register frame shows it. */
function hasCallerInFrame(sites: Sites, isWanted: (site: number) => boolean): boolean {
  for (let i = 0; i < sites.count; i++) {
    const reading = isWanted(i) ? sites.reading(i) : null;
    if (reading?.shape.servedAt?.(reading, sites.viewOf(i)).callerInFrame === true) return true;
  }
  return false;
}

function countEnabled(sites: Sites, without: Uint8Array): number {
  let count = 0;
  for (let i = 0; i < sites.count; i++) if (sites.state(i) === 'call' && !without[i]) count++;
  return count;
}

function remainsEnabled(sites: Sites, without: Uint8Array): boolean {
  return countEnabled(sites, without) > 0;
}
