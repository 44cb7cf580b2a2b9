/** Whether a place can have a probe, how its instruction would be executed, and whether a jump can take the place of the breakpoint. */
import type { ProbeWhere } from './events.js';
import type { JumpWindow, ProbeRefusal } from './model.js';
import { refuse } from './model.js';
import type { ProbeText, ValidProbe } from './validate.js';

export interface ProbeExplanation {
  readonly place: ValidProbe | ProbeRefusal;
  /** The way to optimise that would be tried first, or the rule that forbids it; null where there is no probe at all. */
  readonly jump: JumpWindow | ProbeRefusal | null;
}

/** Looks at a place; writes nothing and needs no room. */
export function explainProbe(text: ProbeText, where: ProbeWhere): ProbeExplanation {
  const place = text.validate(where);
  if (place.kind === 'refused') return { place, jump: null };
  if (place.site !== null) {
    const reason = 'probes on ftrace sites are served by ftrace, without a breakpoint or jump';
    return { place, jump: refuse('EINVAL', 'site-in-window', 'K-ADDR-7', reason) };
  }
  const { optimization } = text.support;
  if (optimization.kind === 'none') {
    return { place, jump: refuse('ENOSYS', 'no-optimization', 'section 7', optimization.reason) };
  }
  const windows = optimization.windows(place.code, place.address);
  if ('kind' in windows) return { place, jump: windows };
  return { place, jump: windows[0] ?? null };
}
