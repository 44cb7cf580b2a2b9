/** What a request comes to: which planner decides, and about which image. Writes nothing. */
import { chosen } from '../machine/options.js';
import { ElftraceError } from '../errors.js';
import { planSites } from '../patch/plan-sites.js';
import { entryPoint } from '../program/entry-points.js';
import { readRecord } from '../record/journal.js';
import { selectByWords } from '../sites/selection.js';
import { stateWithout } from './forms.js';
import { checkMachineOptions } from './machine-options.js';
import type { OpenedImage } from './open.js';
import type { Planned } from './planned.js';
import { isSession, type PatchHost, type PatchRequest } from './request.js';
import { planCommon } from './selected.js';

/**
 * The plan of a request, and the image that it is about. Every selected site is changed by steps
 * with the bytes before and after, is as asked already, or is refused with a reason. What is about
 * tracers and sessions is as large as all the rest, and is loaded when it is asked for.
 * @throws ElftraceError 'usage' for options of other machines, and as each planner does
 */
export async function planRequest(opened: OpenedImage, request: PatchRequest, host: PatchHost): Promise<Planned> {
  const { arch, record } = opened;
  checkMachineOptions(arch, request.machine);
  const way = chosen(arch.options, 'direct-way', request.machine);
  if (way !== undefined) {
    const { planOtherWay } = await import('./plan-traced.js');
    return planOtherWay(opened, request, way, host);
  }
  const goesOn = record !== null && record.session.length > 0;
  // --enable alone does without a session, which kernels and files with refused sites could not
  // have.
  if (isSession(request) || (goesOn && request.to === 'tracer')) {
    const { planSessions } = await import('./sessions.js');
    return planSessions(opened, request, host);
  }
  if (goesOn) {
    throw new ElftraceError(
      'unsupported-form',
      'the file was patched by a session: go on with --session (step `tracing: off`), or revert it',
    );
  }
  if (request.to === 'untrace') return planTables(opened, request);
  if (isPlain(opened, request)) return planPlain(opened, request);
  const { planTraced } = await import('./plan-traced.js');
  return planTraced(opened, request, host);
}

/** Whether a request makes nops of calls in a file that has no tracing runtime. */
function isPlain({ program }: OpenedImage, { to, entry, ops }: PatchRequest): boolean {
  if ((to !== 'nop' && to !== 'init') || entry !== undefined || ops !== undefined) return false;
  return program.loadMap === null && (program.relocatable || entryPoint(program, 'ftrace_caller') === null);
}

/** Each selected site becomes what it is without a tracer. */
function planPlain(opened: OpenedImage, request: PatchRequest): Planned {
  const selected = selectByWords(opened.sites, opened.module, request.filters);
  const common = planCommon(opened, selected, request);
  const plan = planSites(opened.sites, { to: stateWithout(opened, request, null), ...common });
  return { plan, on: { ...opened, injected: false }, kept: null, probes: [] };
}

/** Functions go out of the table, and their calls become nops. */
async function planTables(opened: OpenedImage, request: PatchRequest): Promise<Planned> {
  const { planUntrace } = await import('../patch/untrace.js');
  const selected = selectByWords(opened.sites, opened.module, request.filters);
  const common = planCommon(opened, selected, request);
  const plan = planUntrace(opened.sites, { ...common, record: readRecord(opened.image) });
  return { plan, on: { ...opened, injected: false }, kept: null, probes: [] };
}
