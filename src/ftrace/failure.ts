/**
 * What a failed operation left to say: the step that went wrong, and the report that is made of it
 * (C-REP-1). Types only.
 */
import type { Address } from '../units.js';
import type { Step, StepProblem } from './backend.js';

/** Which step went wrong, and how. */
export type Problem = StepProblem & { readonly step: Step; readonly phase: 'read' | 'compare' | 'check' | 'write' };

/** What went wrong: reading, comparing, writing, or something that has no name. */
export type FailureKind = 'read-fault' | 'mismatch' | 'write-fault' | 'unknown';

/** What was being done: initialising sites, turning off, turning on, changing the target. */
export type FailureAction = 'INIT' | 'NOP' | 'CALL' | 'UPDATE';

/** The fields of C-REP-1 in their order. */
export interface FailureReport {
  readonly kind: FailureKind;
  /** 0 when the failure is not about a record. */
  readonly ip: Address;
  readonly symbol: string;
  readonly module: string | null;
  /** Only for a mismatch. */
  readonly actual: Uint8Array | null;
  /** Only for a mismatch, and when known. */
  readonly expected: Uint8Array | null;
  readonly action: FailureAction | null;
  readonly record: ReportedRecord | null;
  /** Place and cause in words, for failures of code that is no site. */
  readonly detail: string;
}

export interface ReportedTrampoline {
  readonly address: Address;
  readonly ops: string;
  readonly callback: Address;
  /** Its name, when known. */
  readonly callbackName: string;
}

export interface ReportedRecord {
  readonly flags: number;
  readonly count: number;
  readonly regs: boolean;
  readonly callOps: boolean;
  /**
   * Owners of trampolines that match, when the text calls one; empty then means that none was
   * found. Null when it calls none.
   */
  readonly trampolines: readonly ReportedTrampoline[] | null;
  /**
   * What the site was expected to call: address and name; what the word in front of the function
   * was expected to name.
   */
  readonly expected: string;
}
