/** Sessions with probes on images at rest: `planSession` of the ftrace room with somebody who serves the steps about probes. */
import type { Arch } from '../arch.js';
import type { ElfImage } from '../elf/image.js';
import type { Session, SessionOptions } from '../ftrace/session.js';
import { type ProbeHost, planSession, type SessionPlan, type SessionText } from '../ftrace/session-plan.js';
import { ProbeSession } from './session.js';

export interface ProbeSessionPlan extends SessionPlan {
  /** Null: no step was about probes. */
  readonly probes: ProbeSession | null;
}

/**
 * Performs session files, probes included, and plans what changes.
 * @param image  the image as it was before the first of the files, with the runtime in it
 * @throws ElftraceError as `planSession`; 'bad-probe' with `column` for a definition that cannot be understood, 'probe-refused' with `reason`,
 *         `errno` and `rule` for a probe that cannot be set
 */
export function planProbes(
  image: ElfImage,
  arch: Arch,
  files: readonly SessionText[],
  options: SessionOptions = {},
): ProbeSessionPlan {
  // An object, because the compiler believes that a variable which only closures assign stays null.
  const held: { probes: ProbeSession | null } = { probes: null };
  const host = (session: Session): ProbeHost => ({
    perform(operation) {
      held.probes ??= new ProbeSession(session, image, arch);
      return held.probes.perform(operation);
    },
    finish() {
      held.probes?.finish();
    },
  });
  const planned = planSession(image, arch, files, { ...options, probes: host });
  return { ...planned, probes: held.probes };
}
