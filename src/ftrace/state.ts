/**
 * What the core knows, all in one place: everything that an operation may change, and how
 * operations end.
 */
import type { Address } from '../units.js';
import type { Backend, Step } from './backend.js';
import type { Callee, OpsImage, Errno, Ops } from './ops.js';
import type { CallSite, Records } from './records.js';
import type { GraphUser } from './graph-user.js';
import type { HashPair } from './hash.js';
import type { Policy } from './policy.js';
import type { FailureReport } from './failure.js';

export interface GraphState {
  /** Users by index; the index is their bit in the frames of the shadow stack. */
  users: readonly (GraphUser | null)[];
  /** Users that the core was ever given, registered or not: their filters may wait for modules. */
  known: readonly GraphUser[];
  /** The ops that stands in the list for all of them. */
  manager: Ops | null;
  /** What 2014 puts away while `manager` is a borrowed ops (T-X86-33). */
  saved: { readonly trampoline: Ops['trampoline']; readonly flags: number } | null;
  on: boolean;
}

/** Everything that an operation may change. */
export interface CoreState {
  readonly backend: Backend;
  readonly policy: Policy;
  readonly records: Records;
  /** Registered ops, the latest first (C-REG-1). */
  list: readonly Ops[];
  /** Every ops that the core was ever given and that is not deleted. */
  known: readonly Ops[];
  /** Pairs that several ops share; others are found through `known`. */
  sharedPairs: readonly HashPair[];
  /** Global on/off (C-REG-3). */
  enabled: boolean;
  dead: string | null;
  /** What the patched calls of the entries lead to. */
  callee: Callee;
  traceOp: Ops | null;
  /** Direct callers by site. */
  direct: ReadonlyMap<CallSite, Address>;
  graph: GraphState;
  /** Objects that guest memory holds. */
  objects: ReadonlyMap<Ops, OpsImage>;
}

/**
 * An operation is done, refused (nothing happened), or failed (nothing happened, and the core is
 * dead).
 */
export type Outcome =
  | { readonly kind: 'done'; readonly steps: readonly Step[]; readonly warnings: readonly string[] }
  | { readonly kind: 'refused'; readonly errno: Errno; readonly reason: string }
  | { readonly kind: 'failed'; readonly errno: Errno; readonly reason: string; readonly report: FailureReport };

export interface Refusal {
  readonly errno: Errno;
  readonly reason: string;
}

export function refuse(errno: Errno, reason: string): Refusal {
  return { errno, reason };
}
