/**
 * Switching a tracer on and off in a linked or loaded image: which word of which site, entry and
 * object becomes what. What the sites call and what objects and inner calls hold, the core decides
 * (`one-tracer.ts`); which sites can have it is asked site by site. Owns no encoding and no layout
 * of the runtime.
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
import type { TextSeam } from '../machine/trampolines.js';
import type { SiteReading } from '../machine/sites.js';
import { ElftraceError } from '../errors.js';
import type { SiteDecision } from '../patch/decisions.js';
import { type Preemption, withHazards } from '../patch/hazards.js';
import type { Plan, PlanRequest } from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import { waysTo } from '../patch/routes.js';
import { type EntryPoint, entryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import { OPS_FLAGS } from '../runtime/abi.js';
import type { Address, SiteIndex } from '../units.js';
import type { Sites } from '../sites/sites.js';
import { type Entries, entriesOf, requireFixedAddresses, withConvention } from './entries.js';
import { EntryWords } from './entry-words.js';
import { checkGraphSafety, graphCallback } from './graph-safety.js';
import { conventionFor } from './inject.js';
import { capabilitiesOf, policyOf, runtimeSymbols } from './offers.js';
import { decideTracer, type TracerImage } from './one-tracer.js';
import { OwnTrampoline } from './own-trampoline.js';
import { idleOpsSymbol, siteOps, whyNoGraph, withOps } from './site-state.js';
import { entriesFor, planObjects, type Registered } from './tracer-words.js';

/** What selected sites call. */
export type Tracer =
  | { readonly kind: 'function' }
  | { readonly kind: 'function_graph' }
  | { readonly kind: 'counter' }
  /** A function of the image: `void f(ip, parent_ip, ops, regs)`. */
  | { readonly kind: 'symbol'; readonly name: string };

/** Tracers that are functions of the runtime. */
export const tracerSymbols = { function: 'elftrace_function_tracer', counter: 'elftrace_counter' } as const;

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
  /** What times the tracer's records have; default: those of the machine's own counter. */
  readonly clock?: 'machine' | 'none' | undefined;
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

/** Names of plans, in records and reports. */
function nameOf(tracer: Tracer | null, clock: NonNullable<TracingRequest['clock']> = 'machine'): string {
  if (tracer === null) return 'disable';
  const name = `enable ${tracer.kind === 'symbol' ? tracer.name : tracer.kind}`;
  return clock === 'none' ? `${name} without clock` : name;
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
      : tracer.kind !== 'function_graph'
        ? tracerSymbols[tracer.kind]
        : entries.graph === 'callback'
          ? graphCallback
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

/** What a request comes to on an image. */
class Tracing {
  readonly program: Program;
  readonly entries: Entries;
  readonly words: EntryWords;
  /** Why return addresses would better not be replaced here. */
  readonly unsafe: readonly string[];
  /** Switching off some of many sites leaves the tracer as it is. */
  readonly remains: boolean;
  /** Sites that get the tracer. */
  readonly decided = new Set<number>();

  constructor(
    readonly sites: Sites,
    readonly request: TracingRequest,
  ) {
    const { program } = sites;
    const { tracer, selection } = request;
    this.program = program;
    const found = entriesOf(program);
    // Entries that are not ours do not say whose sites they serve: the sites do.
    this.entries =
      found.convention !== null || tracer === null ? found : withConvention(found, conventionFor(sites, selection));
    requireFixedAddresses(program, this.entries);
    if (!this.entries.hasObjects && tracer !== null && tracer.kind !== 'function') {
      throw new ElftraceError(
        'unsupported-form',
        `the image has entries of its own and no objects of elftrace: only its sites can be switched, not the tracer ${tracer.kind === 'symbol' ? tracer.name : tracer.kind}`,
      );
    }
    const isGraph = tracer?.kind === 'function_graph' || (tracer?.kind === 'symbol' && tracer.name === graphCallback);
    this.unsafe = isGraph ? checkGraphSafety(sites, nameOf(tracer), request.allowUnsafeGraph === true) : [];
    this.remains = tracer === null && selection !== undefined && remainsEnabled(sites, selection);
    this.words = new EntryWords(program, request.readonlyRanges ?? []);
  }

  isWanted(site: SiteIndex): boolean {
    const { tracer, selection } = this.request;
    return tracer !== null && (!selection || selection[site] !== 0);
  }

  /**
   * The runtime's own callbacks leave alone what the plain entry does not save; any other function
   * may not. The function tracer writes down callers.
   */
  private wantsRegs(): boolean {
    const { sites, request, entries } = this;
    const { tracer } = request;
    const isWanted = (site: SiteIndex): boolean => this.isWanted(site);
    const wants =
      request.saveRegs === true ||
      (tracer?.kind === 'symbol' && plainLoses(sites, isWanted)) ||
      (tracer?.kind === 'function' &&
        entries.convention?.nestedNeedsRegs === true &&
        hasCallerInFrame(sites, isWanted));
    if (wants && entries.registers === null) {
      throw new ElftraceError('no-runtime', 'the image has no entry that saves every register (ftrace_regs_caller)', {
        symbol: 'ftrace_regs_caller',
      });
    }
    return wants;
  }

  /** What the core is told of the image. */
  private question(own: OwnTrampoline): TracerImage {
    const { sites, program, request, words } = this;
    const calls = ['ftrace_call', 'ftrace_regs_call'].filter((symbol) => entryPoint(program, symbol) !== null);
    return {
      capabilities: capabilitiesOf(sites),
      symbols: runtimeSymbols(program),
      policy: {
        ...policyOf(sites),
        ...(request.trampolines === false ? { trampolines: 'none' } : {}),
        ...(request.idleOps === undefined ? {} : { literalOff: request.idleOps }),
      },
      reachesCallback: (address) => calls.every((symbol) => words.reaches(symbol, address)),
      planTrampoline: (asked) => own.plan(asked),
    };
  }

  /** The tracer, as the core decides it; null: none, or the image has no objects for one. */
  private registered(own: OwnTrampoline, saveRegs: boolean): Registered | null {
    const { program, entries, request } = this;
    const { tracer } = request;
    if (tracer === null || !entries.hasObjects) return null;
    const callback = callbackOf(program, entries, tracer);
    const decision = decideTracer(
      this.question(own),
      tracer.kind === 'function_graph'
        ? { kind: 'graph' }
        : {
            kind: 'callback',
            func: callback.identity,
            saveRegs,
            trampoline: request.trampolines === false ? null : own.user,
          },
    );
    return { callback, decision };
  }

  /**
   * Objects and inner calls, in `words` and in the text of the trampoline.
   * @returns the entries that sites of the tracer can call, best first
   */
  decide(own: OwnTrampoline): readonly EntryPoint[] {
    const { program, entries, request } = this;
    const saveRegs = this.wantsRegs();
    const registered = this.registered(own, saveRegs);
    if (entries.hasObjects) planObjects(program, entries, registered, this.words, request.clock);
    if (registered === null) {
      own.drop();
      return entriesFor(program, entries, { kind: 'caller' }, saveRegs);
    }
    const { content, ops } = registered.decision;
    if ((ops.flags & OPS_FLAGS.ALLOC_TRAMP) === 0) own.drop();
    return entriesFor(program, entries, content, (ops.flags & OPS_FLAGS.SAVE_REGS) !== 0);
  }
}

/**
 * What each site may become, best first.
 * @param ways  entries that sites of the tracer can call; null: the tracer stays as it is
 */
function decisionsOf(
  tracing: Tracing,
  ways: readonly EntryPoint[] | null,
): (site: SiteIndex, reading: SiteReading) => readonly SiteDecision[] {
  const { sites, program, entries, request } = tracing;
  const { convention, kind } = entries;
  const { tracer } = request;
  const literalOf = (symbol: string): { literal?: Address } =>
    convention?.literal?.written === 'always' && entries.hasObjects
      ? { literal: entryPoint(program, symbol)?.identity ?? 0n }
      : {};
  const nopForm = request.nopForm ?? (convention?.idle.fixed === true ? convention.name : undefined);
  const nop: SiteDecision = {
    kind: 'nop',
    ...(nopForm === undefined ? {} : { form: nopForm }),
    ...literalOf(idleOpsSymbol('nop')),
  };
  const ops = siteOps(program, entries, request.idleOps ?? 'nop');
  const goesOff = tracer === null;
  return (site, reading) => {
    if (!tracing.isWanted(site) || ways === null) return [withOps(nop, reading, ops, goesOff)];
    const refused = whyNotServed(tracing, site, reading);
    if (refused !== null) return [refused];
    tracing.decided.add(site);
    const found = ways
      .flatMap((entry) => waysTo(program, entry, sites.ip(site), reading))
      .map((each) =>
        'refused' in each || each.kind !== 'call'
          ? each
          : withOps({ ...each, form: kind, ...literalOf('elftrace_data') }, reading, ops, goesOff),
      );
    // What the first way lacks is only said when there is no other.
    return found.some((each) => !('refused' in each)) ? found.filter((each) => !('refused' in each)) : found.slice(-1);
  };
}

/** Why the entries cannot serve a site of the tracer; null where they can. */
function whyNotServed(
  { sites, program, entries, request }: Tracing,
  site: SiteIndex,
  reading: SiteReading,
): SiteDecision | null {
  const possible = sites.entriesOf(site, reading);
  if (!possible.some((each) => entries.serves.includes(each))) {
    const served = possible.join(' or ') || 'no tracer';
    // Where functions begin decides it on some machines.
    const nameless = possible.length === 0 && !program.namesFunctions;
    const reason = nameless
      ? `nothing says that a function begins in front of this ${reading.shape.name}: name the functions with --symbols FILE`
      : `${reading.shape.name} calls ${served}, the image's entry is of kind ${entries.kind}`;
    return { refused: 'unsupported', code: 'wrong-entry', reason };
  }
  const noGraph = request.tracer?.kind === 'function_graph' ? whyNoGraph(sites, site, reading) : null;
  return noGraph === null ? null : { refused: 'unsupported', code: 'signed-return', reason: noGraph };
}

/**
 * Decides what brings an image to one tracer on the selected sites, or to none.
 * @returns a plan for `applyPlan`; refusals for sites that cannot call the entry
 * @throws ElftraceError 'no-runtime', 'no-match', 'site-mismatch' (a word of the runtime is not as
 *   expected), 'unsupported-form', 'unsafe-graph'
 */
export function planTracing(sites: Sites, request: TracingRequest): TracingPlan {
  const { program } = sites;
  const { tracer, selection, readonlyRanges, strictPermissions, recorded, signal, module } = request;
  const tracing = new Tracing(sites, request);
  const { entries, words, remains, decided } = tracing;
  const own = remains ? null : new OwnTrampoline(program, entries, readonlyRanges ?? [], request.seam);
  const ways = own === null ? null : tracing.decide(own);
  const plan = planSites(sites, {
    name: nameOf(tracer, request.clock),
    to: decisionsOf(tracing, ways),
    ...(selection && (tracer === null || request.others === 'untouched') ? { selection } : {}),
    ...(readonlyRanges ? { readonlyRanges } : {}),
    ...(strictPermissions === undefined ? {} : { strictPermissions }),
    ...(recorded ? { recorded } : {}),
    ...(signal ? { signal } : {}),
    ...(module === undefined ? {} : { module }),
  });
  for (const { site } of plan.refusals) decided.delete(site);
  const steps = [...plan.steps, ...words.steps, ...(own?.text.steps() ?? [])];
  const warnings = own?.text.warnings ?? [];
  const notices = [...tracing.unsafe, ...warnings.map(({ code, reason }) => `private trampoline: ${code}: ${reason}`)];
  const made: TracingPlan = {
    ...plan,
    steps: steps.sort((a, b) => a.fileOffset - b.fileOffset),
    enabled: remains ? countEnabled(sites, selection!) : decided.size,
    ...(notices.length > 0 ? { notices } : {}),
  };
  return withHazards(made, sites, entries.kind, request.preempt);
}

/** Whether a selected site has live registers that a plain entry would lose. */
function plainLoses(sites: Sites, isWanted: (site: SiteIndex) => boolean): boolean {
  for (let i = 0; i < sites.count; i++) {
    if (isWanted(i) && (sites.reading(i)?.shape.plainLoses?.length ?? 0) > 0) return true;
  }
  return false;
}

/** Whether a selected site has its caller where only a register frame shows it. */
function hasCallerInFrame(sites: Sites, isWanted: (site: SiteIndex) => boolean): boolean {
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
