/**
 * Direct callers in a file: a session of the core that registers them, and the plan of what it
 * changed. Owns the request; what it means is the core's.
 *
 *   one user              the site calls the direct caller itself
 *   with a tracer too     the site calls the register entry; the list runs all; the helper leaves
 *                         the address in the frame; the entry goes there
 *   variant asked for     the same, with a placeholder as second user, for only there the variants
 *                         differ (R-DIR-3, R-DIR-4)
 */
import { ElftraceError } from '../errors.js';
import type { Ops, Outcome } from '../ftrace/index.js';
import { type Preemption, withHazards } from '../patch/hazards.js';
import { siteNames } from './idle-sites.js';
import { netSteps } from './net-steps.js';
import type { Plan, PlanRequest } from '../patch/plan.js';
import { Session } from './session.js';
import type { Sites } from '../sites/sites.js';
import { entriesOf } from './entries.js';

export interface DirectRequest {
  /** Functions and their direct callers, by name. */
  readonly callers: readonly { readonly function: string; readonly caller: string }[];
  /**
   * A tracer beside them: a function `void f(ip, parent_ip, ops, regs)`, and the functions that it
   * gets; null: all.
   */
  readonly tracer: { readonly symbol: string; readonly filter: string | null } | null;
  /**
   * Through the register entry, in one of the proposals; null: straight, where no other ops is at
   * the function.
   */
  readonly variant: string | null;
  /** Ranges of the file that may not be written: [start, end). */
  readonly readonlyRanges?: PlanRequest['readonlyRanges'];
  /** Whether the system that the plan is for can be preempted: then the plan names its hazards. */
  readonly preempt?: Preemption | undefined;
  readonly signal?: AbortSignal;
}

/**
 * Checks an outcome.
 * @throws ElftraceError 'plan-refused' with the kind of error that a kernel would give
 */
function accept(outcome: Outcome, what: string): void {
  if (outcome.kind === 'done') return;
  throw new ElftraceError('plan-refused', `${what}: ${outcome.reason} [${outcome.errno}]`, { what });
}

/** The function of the image with a name. */
function functionNamed(session: Session, name: string): bigint {
  const address = session.functionAddress(name);
  if (address === null) throw new ElftraceError('no-match', `the image defines no function ${name}`, { symbol: name });
  return address;
}

/**
 * Registers the direct callers of a request, and its tracer first.
 * @returns the ops of the direct callers in the order of the request
 * @throws ElftraceError 'plan-refused', 'no-match'
 */
export function registerRequest(session: Session, request: DirectRequest): readonly Ops[] {
  const { core } = session;
  if (request.tracer !== null) {
    const { symbol, filter } = request.tracer;
    const ops = core.createOps({ name: symbol, func: functionNamed(session, symbol) });
    if (filter !== null) accept(core.setFilter(ops, 'filter', filter), `the filter of ${symbol}`);
    accept(core.register(ops), symbol);
  }
  return request.callers.map((each) => {
    const site = core.location(functionNamed(session, each.function));
    if (site === null) throw new ElftraceError('no-match', `${each.function} has no site`, { symbol: each.function });
    if (request.variant !== null) {
      const second = core.createOps({ name: `beside ${each.caller}`, func: 0n, flags: ['STUB', 'INITIALIZED'] });
      accept(core.setFilterAddresses(second, 'filter', [site.ip]), second.name);
      accept(core.register(second), second.name);
    }
    const ops = core.createOps({ name: each.caller, func: 0n });
    accept(core.setFilterAddresses(ops, 'filter', [site.ip]), `the filter of ${each.caller}`);
    accept(core.registerDirect(ops, functionNamed(session, each.caller)), `${each.function} -> ${each.caller}`);
    return ops;
  });
}

/**
 * The plan that gives functions of an image with entries their direct callers. Sites of an image of
 * `load` that are not asked for get their disabled form, those of a program stay as they are.
 * @throws ElftraceError 'plan-refused', 'no-match', 'usage', 'no-runtime'
 */
export function planDirect(sites: Sites, request: DirectRequest): Plan {
  const { program } = sites;
  const { image, arch } = program;
  const { variant: directVariant, readonlyRanges } = request;
  const session = Session.open(image.bytes, arch, {
    ...(directVariant === null ? {} : { directVariant }),
    ...(readonlyRanges === undefined ? {} : { readonlyRanges }),
  });
  registerRequest(session, request);
  const { steps, initialised } = netSteps(session, image, arch, []);
  const idle = new Set(initialised);
  const changed = new Set(steps.flatMap(({ site }) => (site < 0 || idle.has(site) ? [] : [site]))).size;
  const names = request.callers.map((each) => `${each.function}=${each.caller}`).join(' ');
  const plan: Plan = {
    target: arch.target.id,
    request: `direct ${names}`,
    steps,
    refusals: [],
    selected: sites.count,
    changed,
    unchanged: sites.count - changed - idle.size,
    initialised: siteNames(session.sites, initialised),
  };
  return withHazards(plan, sites, entriesOf(program).kind, request.preempt);
}
