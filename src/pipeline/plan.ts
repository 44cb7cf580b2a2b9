/** What a request comes to: which planner decides, and about which image. Writes nothing. */
import { chosen, chosenBeside } from '../machine/options.js';
import type { WritableState } from '../machine/sites.js';
import { ElftraceError } from '../errors.js';
import { withKeptRelocations } from '../patch/kept-relocations.js';
import type { Plan, PlanRequest } from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import { planUntrace } from '../patch/untrace.js';
import { entryPoint } from '../program/entry-points.js';
import { enableEntry, readRecord } from '../record/journal.js';
import { selectByWords } from '../sites/selection.js';
import type { Sites } from '../sites/sites.js';
import { planDirect } from '../tracing/direct.js';
import { entriesOf } from '../tracing/entries.js';
import { checkGraphSafety, graphCallback } from '../tracing/graph-safety.js';
import { idleOpsOf } from '../tracing/site-state.js';
import { planTracing, tracerSymbols } from '../tracing/tracing.js';
import type { Address } from '../units.js';
import { checkMachineOptions } from './machine-options.js';
import type { OpenedImage } from './open.js';
import type { Planned } from './planned.js';
import { isSession, type PatchHost, type PatchRequest } from './request.js';
import { checkOpsEntries, formAsked, prepared, trampolinesAsked } from './runtime.js';
import { planSessions } from './sessions.js';

/**
 * The plan of a request, and the image that it is about. Every selected site is changed by steps
 * with the bytes before and after, is as asked already, or is refused with a reason.
 * @throws ElftraceError 'usage' for options of other machines, and as each planner does
 */
export async function planRequest(opened: OpenedImage, request: PatchRequest, host: PatchHost): Promise<Planned> {
  const { arch, record } = opened;
  checkMachineOptions(arch, request.machine);
  const way = chosen(arch.options, 'direct-way', request.machine);
  if (way !== undefined) return planOtherWay(opened, request, way, host);
  const goesOn = record !== null && record.session.length > 0;
  // --enable alone does without a session, which kernels and files with refused sites could not
  // have.
  if (isSession(request) || (goesOn && request.to === 'tracer')) return planSessions(opened, request, host);
  if (goesOn) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched by a session: go on with --session (step `tracing: off`), or revert it',
    );
  }
  if (request.to === 'untrace') return planTables(opened, request);
  const planned = planStates(opened, request, host);
  return { ...planned, plan: withKeptRelocations(planned.plan, planned.on.program) };
}

/** Direct callers in one of the proposals that were not taken. */
function planOtherWay(opened: OpenedImage, request: PatchRequest, way: string, host: PatchHost): Planned {
  const { tracer, filters, probes } = request;
  const on = prepared(opened, undefined, request, host, probes.length === 0 ? null : probes.length);
  const enables = request.to === 'tracer';
  const isGraph = enables && tracer.kind === 'function_graph';
  const unsafe = isGraph ? checkGraphSafety(on.sites, 'enable function_graph', request.allowUnsafeGraph) : [];
  const symbols = { ...tracerSymbols, function_graph: graphCallback };
  const symbol = tracer.kind === 'symbol' ? tracer.name : symbols[tracer.kind];
  const filter = filters.filter.length === 0 ? null : filters.filter.join(' ');
  const direct = planDirect(on.sites, {
    callers: request.direct.map(({ function: name, caller, jump }) => ({
      function: name,
      caller: jump ? `jmp:${caller}` : caller,
    })),
    tracer: enables ? { symbol, filter } : null,
    variant: way,
    preempt: request.preempt,
    ...(request.readonlyRanges ? { readonlyRanges: request.readonlyRanges } : {}),
  });
  return { plan: { ...direct, notices: [...unsafe, ...(direct.notices ?? [])] }, on, kept: null, probes: [] };
}

/** Functions go out of the table, and their calls become nops. */
function planTables(opened: OpenedImage, request: PatchRequest): Planned {
  const selected = selectByWords(opened.sites, opened.module, request.filters);
  const common = planCommon(opened, selected, request);
  const plan = planUntrace(opened.sites, { ...common, record: readRecord(opened.image) });
  return { plan, on: { ...opened, injected: false }, kept: null, probes: [] };
}

/** The sites of a selection that may be changed. */
function selectionWithout(
  sites: Sites,
  selection: Uint8Array | undefined,
  without: ReadonlySet<Address> = new Set(),
): Uint8Array | undefined {
  if (without.size === 0) return selection;
  return Uint8Array.from({ length: sites.count }, (_, i) =>
    without.has(sites.ip(i)) ? 0 : selection === undefined ? 1 : selection[i]!,
  );
}

/** What every plan of sites is told. */
function planCommon(
  { recorded, sites }: OpenedImage,
  selected: Uint8Array | undefined,
  { without, readonlyRanges, strictPermissions }: PatchRequest,
): Pick<PlanRequest, 'selection' | 'recorded' | 'readonlyRanges' | 'strictPermissions'> {
  const selection = selectionWithout(sites, selected, without);
  return {
    ...(selection ? { selection } : {}),
    ...(recorded ? { recorded } : {}),
    ...(readonlyRanges ? { readonlyRanges } : {}),
    strictPermissions,
  };
}

/** Each selected site gets one state: the call of a tracer, or what it is without one. */
function planStates(opened: OpenedImage, request: PatchRequest, host: PatchHost): Planned {
  const before = selectByWords(opened.sites, opened.module, request.filters);
  const on =
    request.to === 'tracer' ? prepared(opened, before, request, host) : ({ ...opened, injected: false } as const);
  const { sites, program, module } = on;
  const common = planCommon(on, on.injected ? selectByWords(sites, module, request.filters) : before, request);
  const planned = (plan: Plan): Planned => ({ plan, on, kept: null, probes: [] });
  if (request.entry !== undefined || request.ops !== undefined) return planned(planNamed(on, request, common));

  const { options } = opened.arch;
  const nopForm = chosenBeside(options, 'nop-form', request.machine);
  const idleOps = chosen(options, 'idle-ops', request.machine) as 'nop' | 'list' | undefined;
  const forms = { ...(nopForm === undefined ? {} : { nopForm }), ...(idleOps === undefined ? {} : { idleOps }) };
  if (request.to === 'tracer') {
    const { tracer, saveRegs, allowUnsafeGraph, preempt } = request;
    const others = program.loadMap !== null && program.loadMap.original === null ? 'nop' : 'untouched';
    const trampolines = trampolinesAsked(on, request);
    checkOpsEntries(on, request);
    const how = { saveRegs, allowUnsafeGraph, trampolines, preempt };
    return planned(planTracing(sites, { tracer, others, ...how, ...common, ...forms }));
  }
  const ours = program.relocatable || entryPoint(program, 'ftrace_caller') === null ? null : entriesOf(program);
  // With the last site the tracer goes too, and the image is as it was before.
  if (request.to === 'nop' && ours?.hasObjects) {
    const off = planTracing(sites, { tracer: null, others: 'nop', ...common, ...forms });
    return planned({ ...off, request: 'nop' });
  }
  const idle = idleOpsOf(program, idleOps ?? 'nop');
  const to: WritableState =
    request.to === 'init'
      ? { kind: 'init', ...formAsked(on, request), ...(idle === null ? {} : { literal: idle }) }
      : { kind: 'nop', ...(nopForm === undefined ? {} : { form: nopForm }) };
  return planned(planSites(sites, { to, ...common }));
}

/** Sites of a relocatable file that name what they call: a linker or loader finds it (RT-2). */
function planNamed(on: OpenedImage, request: PatchRequest, common: ReturnType<typeof planCommon>): Plan {
  const { entry, ops = null } = request;
  if (!on.program.relocatable || request.to !== 'tracer' || entry === undefined) {
    throw new ElftraceError(
      'usage',
      '--entry SYMBOL [--ops SYMBOL] goes with --enable on a relocatable file: its sites name what they call',
    );
  }
  const to: WritableState = { kind: 'call', target: 0n, names: { call: entry, ops }, ...formAsked(on, request) };
  return planSites(on.sites, { to, name: enableEntry(entry), ...common });
}
