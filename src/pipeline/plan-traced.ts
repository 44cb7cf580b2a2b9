/**
 * What requests about tracers come to: calls of a tracer, direct callers in another way, sites of
 * an image that has a tracing runtime. Loaded when a request is one of these (`plan.ts`).
 */
import { chosen, chosenBeside } from '../machine/options.js';
import type { WritableState } from '../machine/sites.js';
import { ElftraceError } from '../errors.js';
import { withKeptRelocations } from '../patch/kept-relocations.js';
import type { Plan } from '../patch/plan.js';
import { planSites } from '../patch/plan-sites.js';
import { entryPoint } from '../program/entry-points.js';
import { enableEntry } from '../record/journal.js';
import { selectByWords } from '../sites/selection.js';
import { planDirect } from '../tracing/direct.js';
import { entriesOf } from '../tracing/entries.js';
import { checkGraphSafety, graphCallback } from '../tracing/graph-safety.js';
import { idleOpsOf } from '../tracing/site-state.js';
import { planTracing, tracerSymbols } from '../tracing/tracing.js';
import { formAsked, stateWithout } from './forms.js';
import type { OpenedImage } from './open.js';
import type { Planned } from './planned.js';
import type { PatchHost, PatchRequest } from './request.js';
import { checkOpsEntries, prepared, trampolinesAsked } from './runtime.js';
import { planCommon } from './selected.js';

/** Direct callers in one of the proposals that were not taken. */
export function planOtherWay(opened: OpenedImage, request: PatchRequest, way: string, host: PatchHost): Planned {
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

/** Calls of a tracer, and nops in an image that has a tracing runtime. */
export function planTraced(opened: OpenedImage, request: PatchRequest, host: PatchHost): Planned {
  const planned = planStates(opened, request, host);
  return { ...planned, plan: withKeptRelocations(planned.plan, planned.on.program) };
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
    const { tracer, saveRegs, clock, allowUnsafeGraph, preempt } = request;
    const others = program.loadMap !== null && program.loadMap.original === null ? 'nop' : 'untouched';
    const trampolines = trampolinesAsked(on, request);
    checkOpsEntries(on, request);
    const how = { saveRegs, clock, allowUnsafeGraph, trampolines, preempt };
    return planned(planTracing(sites, { tracer, others, ...how, ...common, ...forms }));
  }
  const ours = program.relocatable || entryPoint(program, 'ftrace_caller') === null ? null : entriesOf(program);
  // With the last site the tracer goes too, and the image is as it was before.
  if (request.to === 'nop' && ours?.hasObjects) {
    const off = planTracing(sites, { tracer: null, others: 'nop', ...common, ...forms });
    return planned({ ...off, request: 'nop' });
  }
  const idle = idleOpsOf(program, idleOps ?? 'nop');
  return planned(planSites(sites, { to: stateWithout(on, request, idle), ...common }));
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
