/**
 * Policy: which of the variants of the mechanism the core follows. Owns the defaults; what entries
 * offer stands in the rows of their conventions (F-11).
 */

export interface Policy {
  /** Private trampolines (C-TRAMP-1): of 2014 (no ops that may be freed), of today, none. */
  readonly trampolines: 'none' | '2014' | 'modern';
  /** Can the tracer be preempted? Decides which wait a free needs (C-Q-2, T-X86-6). */
  readonly preempt: 'none' | 'full';
  /**
   * Graph tracer: the ops of the function tracer is borrowed; one user with an ops of its own; up
   * to 16 users (C-FG-5).
   */
  readonly graph: '2014' | 'single' | 'multi';
  /** What the word of per-callsite ops holds while its site is off (A-CO-3, A-CO-4). */
  readonly literalOff: 'nop' | 'list';
  /**
   * How that word is changed (A-CO-5): as it is, in one store, below the one entry; or with the
   * sites at a second entry meanwhile, which does not read it, and where sites stay that several
   * ops share (T-A64-5).
   */
  readonly opsEntries: 'one' | 'two';
  /**
   * Where the kernel's own behaviour is a known defect: ours by default, the kernel's for
   * comparison.
   */
  readonly quirks: {
    /** C-TGT-1: which ops CALL_OPS is evaluated on when one is left. */
    readonly callOps: 'ours' | 'kernel';
    /** C-MOD-1: whether CALL_OPS is evaluated when a module comes. */
    readonly moduleCallOps: 'ours' | 'kernel';
    /**
     * T-X86-44: which template's call is rewritten when SAVE_REGS was changed between two
     * registrations.
     */
    readonly template: 'ours' | '2014';
  };
}

export const defaultPolicy: Policy = {
  trampolines: 'modern',
  preempt: 'full',
  graph: 'multi',
  literalOff: 'nop',
  opsEntries: 'one',
  quirks: { callOps: 'ours', moduleCallOps: 'ours', template: 'ours' },
};

/** Users of the graph tracer at most (C-FG-5). */
export const GRAPH_USERS = 16;
