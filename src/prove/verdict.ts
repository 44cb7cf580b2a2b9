/** What a proof says (PV-4). Types only. */
import type { Address } from '../units.js';
import type { Difference, OpenReason, Phase, RegisterDifference } from './compare.js';

/** An instruction on the way of one side. */
export interface Executed {
  readonly address: Address;
  readonly bytes: Uint8Array;
  /** Function and offset. */
  readonly place: string;
}

/** The trial that failed, both ways. */
export interface Account {
  readonly seed: number;
  readonly entry: Address;
  /** Made up, as registers and memory are. */
  readonly returnAddress: Address;
  readonly stackPointer: bigint;
  /** What the tracer's data holds as the trial begins, in words; null: no tracer is asked. */
  readonly state: string | null;
  readonly phase: Phase;
  /** What of the site is written at that moment; null: all of it (PV-3). */
  readonly during: string | null;
  readonly difference: Difference;
  /** All registers that must be equal there, and are not. */
  readonly registers: readonly RegisterDifference[];
  /** Executed instructions up to the place of comparison: the first ones, and the last ones. */
  readonly original: readonly Executed[];
  readonly patched: readonly Executed[];
  /** Instructions between the first and the last ones of the patched way that are not kept. */
  readonly gap: { readonly at: number; readonly count: number };
  /**
   * Position in `patched` (or `original`) of the last instruction that wrote what differs, of the
   * callback that saw it, or of the one behind which the way ended.
   */
  readonly writer: { readonly side: 'original' | 'patched'; readonly at: number } | null;
}

export interface SiteProof {
  readonly section: string;
  /** Place of the site, of the record's ip. */
  readonly address: Address;
  readonly function: string;
  readonly shape: string;
  readonly verdict: 'proved' | 'different' | 'inconclusive';
  /** Trials that count: both sides executed the site and came behind it. */
  readonly trials: number;
  /** `unchanged`: proved by its bytes; else why a trial said nothing. Absent otherwise. */
  readonly reason?: 'unchanged' | OpenReason | 'no-way-in' | 'not-a-site';
  readonly detail?: string;
  readonly account?: Account;
}

export interface ProofSummary {
  readonly target: string;
  readonly seed: number;
  readonly sites: number;
  readonly unchanged: number;
  readonly proved: number;
  readonly different: number;
  readonly inconclusive: number;
  /** By reason. */
  readonly reasons: Readonly<Record<string, number>>;
  /** Sites that a sample left out. */
  readonly skipped: number;
  /**
   * Changed bytes of the image that belong to no site and to nothing that is known to be changed
   * with sites: nothing was proved of them.
   */
  readonly unexplained: readonly { readonly address: Address; readonly size: number; readonly section: string }[];
}

export interface Proof {
  readonly sites: readonly SiteProof[];
  readonly summary: ProofSummary;
}
