/**
 * What `patch` and `plan` are asked: the arguments after they were read, in terms of the library.
 */
import type { Acceptance, PlanRequest } from '../patch/plan.js';
import type { Preemption } from '../patch/hazards.js';
import type { Source } from '../program/loader.js';
import type { Arch } from '../machine/arch.js';
import type { FilterWords } from '../sites/selection.js';
import type { SessionOperation } from '../tracing/session-file.js';
import type { SessionText } from '../tracing/session-plan.js';
import type { Tracer } from '../tracing/tracing.js';
import type { Address } from '../units.js';
import type { OpenNames } from './open.js';

/** Operations of one kind. */
type Operation<Kind extends SessionOperation['kind']> = SessionOperation & { readonly kind: Kind };

export interface PatchRequest {
  /** What becomes of the selected sites; null: sessions alone decide. */
  readonly to: 'nop' | 'init' | 'untrace' | 'tracer' | null;
  readonly tracer: Tracer;
  readonly saveRegs: boolean;
  /** What times records have; default: those of the machine's own counter. */
  readonly clock?: 'machine' | 'none' | undefined;
  /**
   * Relocatable files: the symbol that enabled sites call, and the one that words in front of
   * functions name. A linker or loader finds them (RT-2).
   */
  readonly entry?: string | undefined;
  readonly ops?: string | undefined;
  readonly filters: FilterWords;
  /** Session files. */
  readonly sessions: readonly SessionText[];
  /** Options that are operations of a session themselves. */
  readonly direct: readonly Operation<'direct'>[];
  readonly livepatches: readonly Operation<'livepatch'>[];
  readonly probes: readonly Operation<'probe'>[];
  /** Objects that come into the image. */
  readonly objects: readonly string[];
  /** Options of single machines that were given, by name. */
  readonly machine: Readonly<Record<string, string>>;
  readonly preempt?: Preemption | undefined;
  readonly allowUnsafeGraph: boolean;
  readonly readonlyRanges?: PlanRequest['readonlyRanges'];
  readonly strictPermissions: boolean;
  /** Sites that stay as they are, because they could not be proved. */
  readonly without?: ReadonlySet<Address>;
  readonly acceptance: Acceptance;
  /** Names and tables that the user gave: an image that is made on the way is read by them too. */
  readonly names: OpenNames;
}

/** What a request needs that is not in the file. */
export interface PatchHost {
  readonly hash: (bytes: Uint8Array) => string;
  /**
   * An object for the machine of an image.
   * @param beside  the file that names it; null: the request does
   */
  readonly source: (path: string, arch: Arch, beside: string | null) => Promise<Source>;
  /** What the user must know although the request goes on. */
  readonly notice: (text: string) => void;
}

/** True where the request is performed as a session of the core. */
export function isSession({ sessions, direct, livepatches, objects, probes }: PatchRequest): boolean {
  return [sessions, direct, livepatches, objects, probes].some((each) => each.length > 0);
}
