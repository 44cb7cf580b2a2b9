/**
 * Code that one ops has for itself: private trampolines, and routines that sites call straight.
 * Types only.
 */
import type { Address } from '../units.js';

/** How trampolines are made: as in 2014, or as kernels of today do. */
export type TrampolineVariant = '2014' | 'modern';

/** Which entry a trampoline is a copy of: X-TR-1. */
export type TemplateKind = 'plain' | 'regs';

/** What is in a finished trampoline, as offsets in it. */
export interface TrampolineLayout {
  readonly template: TemplateKind;
  readonly variant: TrampolineVariant;
  readonly sizeBytes: number;
  /** S: where the generated end begins. */
  readonly bodyBytes: number;
  readonly opsLoadOffset: number;
  readonly callOffset: number;
  /** The word with the address of the ops, not aligned. */
  readonly opsOffset: number;
}

/**
 * Everything that can fail: one object, so that tests and live sessions can put another one in its
 * place.
 */
export interface TextSeam {
  /**
   * Executable memory for `sizeBytes`, from where code at `near` reaches it; null: there is none.
   */
  allocate(sizeBytes: number, near: Address): Address | null;
  free(address: Address, sizeBytes: number): void;
  /** null: it cannot be read. */
  read(address: Address, sizeBytes: number): Uint8Array | null;
  /** Fills memory that no thread can reach yet. */
  fill(address: Address, bytes: Uint8Array): boolean;
  /** Changes text that may be running: the int3 protocol. False: EPERM. */
  patch(address: Address, before: Uint8Array, after: Uint8Array): boolean;
  /** Makes finished memory read-only and executable. */
  seal(address: Address, sizeBytes: number): void;
  warn(warning: TrampolineWarning): void;
}

export interface TrampolineWarning {
  /** A refusal of the machine's, or `call-not-changed`. */
  readonly code: string;
  readonly reason: string;
}

/** A trampoline that we made: what ALLOC_TRAMP stands for, and which template it is a copy of. */
export interface OwnTrampoline {
  readonly kind: 'own';
  readonly address: Address;
  readonly layout: TrampolineLayout;
}

/** What an ops has: nothing, one that its user gave (never touched, T-X86-17), or ours. */
export type OpsTrampoline =
  { readonly kind: 'none' } | { readonly kind: 'user'; readonly address: Address } | OwnTrampoline;

export interface TrampolineOps {
  /** Address of the ops object. */
  readonly address: Address;
  readonly saveRegs: boolean;
  /** What the call shall go to: `func` (2014), or the assist wrapper where the ops wants one. */
  readonly callee: Address;
  readonly trampoline: OpsTrampoline;
}

/** Where a trampoline is made. */
export interface TrampolinePlace {
  readonly variant: TrampolineVariant;
  /** Address of a global symbol, or null. */
  readonly find: (symbol: string) => Address | null;
  readonly seam: TextSeam;
  /** First and last site that will call it: both must reach it. */
  readonly callers?: { readonly first: Address; readonly last: Address };
}

export interface TrampolineUpdate {
  readonly trampoline: OpsTrampoline;
  readonly did: 'nothing' | 'created' | 'retargeted' | 'rebuilt' | 'failed';
  /**
   * Ours that another one took the place of: to be freed when no thread can be in it any more
   * (C-Q-5).
   */
  readonly retired?: OwnTrampoline;
}

/** Private trampolines of a machine (C-TRAMP-1). */
export interface PrivateTrampolines {
  readonly kind: 'private';
  /** How they are made from the entries of a convention. */
  variantOf(convention: string): TrampolineVariant;
  /**
   * What registration does with an ops' trampoline (C-TRAMP-2): makes one, re-points the call of
   * ours, leaves a user's alone. Failure is no error (C-TRAMP-4): a warning, and no trampoline.
   */
  update(ops: TrampolineOps, place: TrampolinePlace): TrampolineUpdate;
  /**
   * The trampoline of ours for an ops at an address, by its bytes; null: what stands there is none.
   * @param callees  what it may call: the function of the ops, and wrappers around it
   */
  recognise(
    address: Address,
    ops: Address,
    callees: readonly Address[],
    place: Pick<TrampolinePlace, 'variant' | 'find' | 'seam'>,
  ): OwnTrampoline | null;
  /** Byte of memory that holds none: it must not be executed. */
  readonly fill: number;
}

/** Whether one ops can have code of its own here, or why not (T-X86-31). */
export type TrampolineModel = PrivateTrampolines | { readonly kind: 'none'; readonly reason: string };

/**
 * Whether sites can call a routine of a user straight (C-DIR-7), or why not. `goesOn`: code of one
 * that does nothing but go on into the function.
 */
export type DirectCallers =
  { readonly kind: 'code'; readonly goesOn: Uint8Array } | { readonly kind: 'none'; readonly reason: string };
