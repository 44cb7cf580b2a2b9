/**
 * Sessions with probes on images at rest: `planSession` of `tracing/` with a server of the steps
 * about probes.
 */
import type { Arch } from '../machine/arch.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { hex } from '../errors.js';
import type { FileRecord } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';
import { replaySessions } from '../tracing/session-parts.js';
import {
  planSession,
  type ProbeHosts,
  type SessionPlan,
  type SessionPlanOptions,
  type SessionOperations,
  type SessionText,
} from '../tracing/session-plan.js';
import { refusalText } from './explain.js';
import { isReturnProbe, type ListedProbe, ProbeSession } from './session.js';

/** Who serves the probes of one session: given to `planSession` and what is built on it. */
export interface ProbeServer {
  readonly hosts: ProbeHosts;
  /** After the session: null where no step was about probes. */
  readonly session: ProbeSession | null;
}

/** Serves sessions one after another; `session` is the last one's. */
export function probeServer(arch: Arch): ProbeServer {
  // An object, because the compiler believes that a variable which only closures assign stays null.
  const held: { session: ProbeSession | null } = { session: null };
  return {
    hosts(session, image) {
      held.session = null;
      const own: typeof held = { session: null };
      return {
        replacesReturns: ({ define }) => isReturnProbe(define, arch),
        perform(operation) {
          own.session ??= new ProbeSession(session, image, arch);
          held.session = own.session;
          return own.session.perform(operation);
        },
        moduleUse: (name) => own.session?.moduleUse(name) ?? null,
        unloadModule: (name) => own.session?.unloadModule(name),
        loadModule: (name) => own.session?.loadModule(name),
        placesIn: (module) => own.session?.placesIn(module) ?? [],
        finish: () => own.session?.finish(),
        replacedCode: () => own.session?.replacedCode() ?? [],
      };
    },
    get session() {
      return held.session;
    },
  };
}

export interface ProbeSessionPlan extends SessionPlan {
  /** Null: no step was about probes. */
  readonly probes: ProbeSession | null;
}

/**
 * Performs session files, probes included, and plans what changes.
 * @param image  the image as it was before the first of the files, with the runtime in it
 * @throws ElftraceError as `planSession`; 'bad-probe' with `column` for a definition that cannot be
 *   understood, 'probe-refused' with `reason`,
 *         `errno` and `rule` for a probe that cannot be set
 */
export function planProbes(
  image: ElfImage,
  arch: Arch,
  sources: readonly (SessionText | SessionOperations)[],
  options: Omit<SessionPlanOptions, 'probes'> = {},
): ProbeSessionPlan {
  const server = probeServer(arch);
  const planned = planSession(image, arch, sources, { ...options, probes: server.hosts });
  return { ...planned, probes: server.session };
}

/** Why places that were to be optimised are not. */
export function unoptimised(probes: readonly ListedProbe[]): readonly string[] {
  return probes.flatMap(({ symbol, offset, refusal }) =>
    refusal === null ? [] : [`${symbol}+${hex(offset)} is not optimised: ${refusalText(refusal)}`],
  );
}

/** The sessions of a record, performed on the image as it was. */
export function replayProbes(
  {
    image,
    arch,
    symbols,
  }: { readonly image: ElfImage; readonly arch: Arch; readonly symbols: SymbolTable | undefined },
  record: FileRecord,
  hash: Sha256,
): ProbeSessionPlan {
  const server = probeServer(arch);
  const plan = replaySessions(image, record, arch, hash, { symbols, probes: server.hosts });
  return { ...plan, probes: server.session };
}
