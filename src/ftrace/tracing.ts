/**
 * Switching a tracer on and off in a linked or loaded image: which word of which site, entry and object becomes what. Owns the order of
 * decisions (sites, then the calls inside the entries, then the objects); owns no encoding and no layout of the runtime.
 *
 * What is written besides the sites, for one tracer (00-core A3 C-TGT-4, C-TGT-9; 05-runtime-abi section 3):
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
 * A callee that the inner call does not reach is called through the list function, which calls by address.
 */
import { ByteView, equalBytes } from '../bytes.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import type { SiteReading, WritableState } from '../arch.js';
import type { Program } from '../program/program.js';
import { OPS_FLAGS, OPS_ROOM, OPS_WORD_COUNT, OPS_WORDS } from '../runtime/abi.js';
import { type EntryFlavour, flavourMark, runtimeFlavours } from '../runtime/index.js';
import type { Address } from '../units.js';
import { flavourFor } from './inject.js';
import { type Plan, type PlanRequest, planSites, type SiteDecision, type Step } from './plan.js';
import { type EntryPoint, entryPoint, waysTo } from './routes.js';
import type { Sites } from './sites.js';

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
  /** What becomes of the others (05-runtime-abi section 7). */
  readonly others: 'nop' | 'untouched';
  /** Nop form of sites that have several. */
  readonly nopForm?: string;
  /** arm64: what the words in front of functions name that are off: ops that do nothing (default), or those that walk the list (A-CO-4). */
  readonly idleOps?: 'nop' | 'list';
}

export interface TracingPlan extends Plan {
  /** Sites that call the tracer afterwards. */
  readonly enabled: number;
}

/**
 * Entries of an image, whoever provides them. `pg` passes ip and parent_ip and has a branch for the graph tracer; the others pass ops, and the graph
 * tracer is a callback that wants a register frame. The names are those of the runtime's flavours.
 */
export type EntryKind = EntryFlavour;

/**
 * What every site becomes before a session (C-INIT-2): the disabled form of the generation that the image's entries serve. RISC-V writes two nops (or an auipc
 * and a nop) over what the compiler left, the others turn calls off.
 */
export function initialState(program: Program, nopForm?: string, idle: 'nop' | 'list' = 'nop'): WritableState {
  const { kind, caller, hasObjects } = entriesOf(program);
  if (program.arch.target.id === 'arm64') {
    const literal = idleOpsOf(program, idle);
    return { kind: 'init', ...(literal === null ? {} : { literal }) };
  }
  if (!kind.startsWith('g')) return { kind: 'nop', ...(nopForm === undefined ? {} : { form: nopForm }) };
  const nopOps = hasObjects ? entryPoint(program, 'ftrace_nop_ops') : null;
  return {
    kind: 'init',
    form: kind,
    ...(fixedKinds.has(kind) ? { target: caller.address } : {}),
    ...(nopOps === null ? {} : { literal: nopOps.identity }),
  };
}

/** The ip of a site's record (C-TGT-7): what callbacks are told. Of a site with a fixed auipc the word behind it, whatever stands there now. */
export function recordIp(sites: Sites, site: number): Address {
  const reading = isFixedKind(entriesOf(sites.program).kind) ? sites.reading(site) : null;
  if (reading === null) return sites.ip(site);
  const ip = sites.anchor[site]! + BigInt(reading.ipDelta);
  // A site that could be of either generation is read as the older one.
  return reading.shape.entries.every(isFixedKind) ? ip : ip + 4n;
}

/** What an image has of the symbols of 05-runtime-abi section 2. */
export interface Entries {
  readonly kind: EntryKind;
  readonly caller: EntryPoint;
  /** The entry that saves all registers, or as many as there are; null where none passes any. */
  readonly registers: EntryPoint | null;
  /** False for a kernel that has entries of its own and objects of another layout: only sites are patched there. */
  readonly hasObjects: boolean;
}

/** How entries say what they call: a patched call, a pointer, the ops of the site. */
const calleeSymbols = ['ftrace_call', 'ftrace_call_dest', 'ftrace_nop_ops'] as const;
const objectSymbols = [
  'ftrace_stub',
  'ftrace_ops_list',
  'ftrace_list_end',
  'ftrace_ops_list_func',
  'function_trace_op',
  'elftrace_data',
] as const;

/**
 * The entries of an image.
 * @throws ElftraceError 'no-runtime' with the missing symbols when it has none
 */
export function entriesOf(program: Program): Entries {
  const caller = entryPoint(program, 'ftrace_caller');
  if (caller === null) {
    throw new ElftraceError('no-runtime', `the image has no tracing entries (missing: ftrace_caller, …)`, {
      symbol: 'ftrace_caller',
    });
  }
  const has = (symbol: string): boolean => entryPoint(program, symbol) !== null;
  return {
    kind:
      runtimeFlavours(program.arch.target.id).find((flavour) => has(flavourMark(flavour))) ??
      (has('ftrace_regs_caller') ? 'regs' : 'pg'),
    caller,
    registers: entryPoint(program, 'ftrace_regs_caller'),
    hasObjects: objectSymbols.every(has) && calleeSymbols.some(has),
  };
}

/** Plain entries that pass no frame although they pass ops: the graph tracer needs the other entry. */
const framelessKinds: ReadonlySet<EntryKind> = new Set<EntryKind>(['g0', 'g1']);

/** Sites of which one instruction stays when they are off, and those that have the address of their ops in front. */
const fixedKinds: ReadonlySet<string> = new Set<EntryKind>(['g3', 'g3c']);
const isFixedKind = (kind: string): boolean => fixedKinds.has(kind);

/** Names of plans, in records and reports. */
function nameOf(tracer: Tracer | null): string {
  if (tracer === null) return 'disable';
  return `enable ${tracer.kind === 'symbol' ? tracer.name : tracer.kind}`;
}

/** Stores outside sites: words of objects and branches inside entries, each compared before it is planned. */
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
   * A branch inside an entry. What is there must be a branch to a function of the image, or (`jump`) one to the next instruction
   * or the place that it leads to when it is on.
   */
  branch(symbol: string, kind: 'call' | 'jump', target: Address, rule: string): void {
    const codec = this.program.arch.branches[kind];
    const at = this.address(symbol);
    const after = codec.encode(at, target);
    this.store(symbol, at, after, rule, (now) => {
      const leads = codec.target(now, at);
      if (leads === null) return `expected a ${kind}`;
      if (kind === 'jump' || this.isEntry(leads)) return '';
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
 * @throws ElftraceError 'no-match' for a symbol that is not defined, 'unsupported-form' for one with another TOC (F-10)
 */
function callbackOf(program: Program, entries: Entries, tracer: Tracer): EntryPoint {
  const symbol =
    tracer.kind === 'symbol'
      ? tracer.name
      : tracer.kind === 'counter'
        ? 'elftrace_counter'
        : tracer.kind === 'function'
          ? 'elftrace_function_tracer'
          : entries.kind === 'pg'
            ? 'ftrace_stub'
            : 'ftrace_graph_func';
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

/** Ops objects that words in front of functions may name (arm64). */
interface SiteOps {
  /** Of sites that call. */
  readonly on: Address;
  /** Of sites that do not. */
  readonly idle: Address;
  isKnown(address: Address): boolean;
}

function siteOps(program: Program, entries: Entries, idle: 'nop' | 'list'): SiteOps | null {
  if (entries.kind !== 'callops' || !entries.hasObjects) return null;
  const address = (symbol: string): Address => entryPoint(program, symbol)!.identity;
  const [on, nop, list] = [address('elftrace_data'), address('ftrace_nop_ops'), address('ftrace_list_ops')];
  const size = BigInt(program.image.wordBytes * OPS_WORD_COUNT);
  return {
    on,
    idle: idle === 'nop' ? nop : list,
    isKnown: (each) =>
      each === nop || each === list || (each >= on && each < on + size * BigInt(OPS_ROOM) && (each - on) % size === 0n),
  };
}

/** Ops that initialised sites name which are off; null where sites have no pointer of their own, or the image no ops (arm64). */
export function idleOpsOf(program: Program, idle: 'nop' | 'list'): Address | null {
  if (program.relocatable || entryPoint(program, 'ftrace_caller') === null) return null;
  return siteOps(program, entriesOf(program), idle)?.idle ?? null;
}

/** The state with its ops; sites that were never initialised keep the compiler's bytes when tracing goes off. */
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

/** Plans the objects and inner calls of one tracer, or of none. */
function planObjects(program: Program, entries: Entries, tracer: Tracer | null, words: Words): void {
  const size = BigInt(program.image.wordBytes);
  const ops = words.address('elftrace_data');
  const listEnd = words.address('ftrace_list_end');
  const stub = words.entry('ftrace_stub').address;
  const onlyGraphBranch = tracer?.kind === 'function_graph' && entries.kind === 'pg';
  const callback = tracer === null ? null : callbackOf(program, entries, tracer);
  const fields: Readonly<Record<keyof typeof OPS_WORDS, bigint>> = {
    func: callback?.identity ?? 0n,
    flags:
      callback === null
        ? 0n
        : BigInt(OPS_FLAGS.ENABLED | OPS_FLAGS.INITIALIZED | (onlyGraphBranch ? OPS_FLAGS.STUB : 0)),
    directCall: 0n,
    private: 0n,
    next: callback === null ? 0n : listEnd,
    filter: 0n,
    notrace: 0n,
    trampoline: 0n,
  };
  for (const [name, value] of Object.entries(fields)) {
    const index = OPS_WORDS[name as keyof typeof OPS_WORDS];
    words.word(`ops[0].${name}`, ops + size * BigInt(index), value, 'RT-4');
  }
  words.word('ftrace_ops_list', words.address('ftrace_ops_list'), callback === null ? listEnd : ops, 'A6.4');
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
      const direct = entries.kind !== 'pg' && words.reaches(symbol, callback.address);
      callee = direct ? callback.address : list;
    }
    words.branch(symbol, 'call', callee, 'C-TGT-4');
  }
  if (entries.kind === 'pg' && entryPoint(program, 'ftrace_graph_call') !== null) {
    const at = words.address('ftrace_graph_call');
    const off = at + BigInt(program.arch.branches.jump.sizeBytes);
    words.branch(
      'ftrace_graph_call',
      'jump',
      onlyGraphBranch ? words.entry('ftrace_graph_caller').address : off,
      'C-FG-6',
    );
    if (entryPoint(program, 'elftrace_graph_ops') !== null) {
      words.word('elftrace_graph_ops', words.address('elftrace_graph_ops'), onlyGraphBranch ? ops : 0n, 'C-FG-8');
    }
  }
}

/**
 * Decides what brings an image to one tracer on the selected sites, or to none.
 * @returns a plan for `applyPlan`; refusals for sites that cannot call the entry
 * @throws ElftraceError 'no-runtime', 'no-match', 'site-mismatch' (a word of the runtime is not as expected), 'unsupported-form'
 */
export function planTracing(sites: Sites, request: TracingRequest): TracingPlan {
  const { program } = sites;
  const { tracer, selection } = request;
  const found = entriesOf(program);
  // Entries that are not ours do not say whose sites they serve: the sites do.
  const isKnown = runtimeFlavours(program.arch.target.id).includes(found.kind);
  const entries = isKnown || tracer === null ? found : { ...found, kind: flavourFor(sites, selection) };
  if (!entries.hasObjects && tracer !== null && tracer.kind !== 'function') {
    throw new ElftraceError(
      'unsupported-form',
      `the image has entries of its own and no objects of elftrace: only its sites can be switched, not the tracer ${nameOf(tracer)}`,
    );
  }
  const isWanted = (site: number): boolean => tracer !== null && (!selection || selection[site] !== 0);
  const literalOf = (symbol: string): { literal?: Address } =>
    entries.kind === 'g3c' && entries.hasObjects ? { literal: entryPoint(program, symbol)?.identity ?? 0n } : {};
  const nopForm = request.nopForm ?? (fixedKinds.has(entries.kind) ? entries.kind : undefined);
  const nop: readonly SiteDecision[] = [
    { kind: 'nop', ...(nopForm === undefined ? {} : { form: nopForm }), ...literalOf('ftrace_nop_ops') },
  ];
  const needsFrame = tracer?.kind === 'function_graph' && framelessKinds.has(entries.kind);
  const entry = needsFrame ? (entries.registers ?? entries.caller) : entries.caller;
  const ops = siteOps(program, entries, request.idleOps ?? 'nop');
  const decided = new Set<number>();
  const { readonlyRanges, strictPermissions, recorded, signal, module } = request;
  const plan = planSites(sites, {
    name: nameOf(tracer),
    to: (site, reading) => {
      if (!isWanted(site)) return nop.map((each) => withOps(each, reading, ops, tracer));
      if (!reading.shape.entries.includes(entries.kind)) {
        const served = reading.shape.entries.join(' or ') || 'no tracer';
        const reason = `${reading.shape.name} calls ${served}, the image's entry is of kind ${entries.kind}`;
        return [{ refused: 'unsupported', code: 'wrong-entry', reason }];
      }
      decided.add(site);
      return waysTo(program, entry, sites.ip(site), reading).map((way) =>
        'refused' in way || way.kind !== 'call'
          ? way
          : withOps({ ...way, form: entries.kind, ...literalOf('elftrace_data') }, reading, ops, tracer),
      );
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
  // Switching off some of many sites leaves the tracer as it is.
  const remains = tracer === null && selection !== undefined && remainsEnabled(sites, selection);
  if (entries.hasObjects && !remains) planObjects(program, entries, tracer, words);
  const steps = [...plan.steps, ...words.steps].sort((a, b) => a.fileOffset - b.fileOffset);
  return { ...plan, steps, enabled: remains ? countEnabled(sites, selection) : decided.size };
}

function countEnabled(sites: Sites, without: Uint8Array): number {
  let count = 0;
  for (let i = 0; i < sites.count; i++) if (sites.state(i) === 'call' && !without[i]) count++;
  return count;
}

function remainsEnabled(sites: Sites, without: Uint8Array): boolean {
  return countEnabled(sites, without) > 0;
}

/** Words of an ops object, for readers of images. */
export const opsObjectWords = OPS_WORD_COUNT;
