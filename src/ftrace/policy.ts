/**
 * Policy: which of the variants of the mechanism the core follows, and the capabilities of the targets in each of their variants (F-11). Owns
 * the defaults; knows the targets only as rows of a table.
 */
import type { Capabilities } from './capabilities.js';

export interface Policy {
  /** Private trampolines (A3.1): of 2014 (no ops that may be freed), of today, none. */
  readonly trampolines: 'none' | '2014' | 'modern';
  /** Can the tracer be preempted? Decides which wait a free needs (C-Q-2, T-X86-6). */
  readonly preempt: 'none' | 'full';
  /** Graph tracer: the ops of the function tracer is borrowed; one user with an ops of its own; up to 16 users (A10). */
  readonly graph: '2014' | 'single' | 'multi';
  /** What the word of per-callsite ops holds while its site is off (A-CO-3, A-CO-4). */
  readonly literalOff: 'nop' | 'list';
  /**
   * How that word is changed (A-CO-5): as it is, in one store, below the one entry; or with the sites at a second entry meanwhile, which does not read it, and
   * where sites stay that several ops share (T-A64-5).
   */
  readonly opsEntries: 'one' | 'two';
  /** Where the kernel's own behaviour is a known defect: ours by default, the kernel's for comparison. */
  readonly quirks: {
    /** C-TGT-1: which ops CALL_OPS is evaluated on when one is left. */
    readonly callOps: 'ours' | 'kernel';
    /** C-MOD-1: whether CALL_OPS is evaluated when a module comes. */
    readonly moduleCallOps: 'ours' | 'kernel';
    /** T-X86-44: which template's call is rewritten when SAVE_REGS was changed between two registrations. */
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

const modern = {
  patchable: true,
  passes: 4,
  assist: true,
  callOps: false,
  listEntry: false,
  graph: 'callback',
} as const;
const profiling = {
  patchable: true,
  passes: 2,
  regs: 'none',
  resume: 'none',
  direct: 'none',
  trampolines: false,
  callOps: false,
  listEntry: false,
  assist: true,
  graph: 'jump',
} as const;

/** F-11: what the entries of each ABI and variant offer. */
export const profiles = {
  'x86-64': { ...modern, regs: 'separate', resume: 'any', direct: 'regs', trampolines: true },
  'x86-64 2014': {
    ...modern,
    regs: 'separate',
    resume: 'regs',
    direct: 'none',
    trampolines: true,
    graph: 'trampoline',
  },
  'ppc32 2008': profiling,
  ppc32: { ...modern, regs: 'separate', resume: 'any', direct: 'none', trampolines: false },
  'ppc64-elfv1': profiling,
  'ppc64-elfv2-be': { ...modern, regs: 'separate', resume: 'any', direct: 'none', trampolines: false },
  'ppc64-elfv2-le': { ...modern, regs: 'separate', resume: 'any', direct: 'none', trampolines: false },
  // G2 of 2022 in a build with register support: its plain entry makes the frame, too, and goes on where epc says.
  riscv64: { ...modern, regs: 'separate', resume: 'any', direct: 'regs', trampolines: false },
  'riscv64 merged': { ...modern, regs: 'same', resume: 'any', direct: 'any', trampolines: false },
  // The same without register support: a plain entry, which passes none.
  'riscv64 plain': {
    ...modern,
    regs: 'none',
    resume: 'none',
    direct: 'none',
    trampolines: false,
    graph: 'jump',
  },
  // Plain entries without a frame, before direct calls.
  'riscv64 g1': { ...modern, regs: 'separate', resume: 'regs', direct: 'none', trampolines: false },
  'riscv64 g3c': { ...modern, regs: 'same', resume: 'any', direct: 'any', trampolines: false, callOps: true },
  'arm64 mcount': profiling,
  'arm64 regs': { ...modern, regs: 'separate', resume: 'any', direct: 'none', trampolines: false },
  // One frame for all: who wants registers gets those that it has.
  'arm64 args': { ...modern, regs: 'same', resume: 'any', direct: 'any', trampolines: false },
  arm64: {
    ...modern,
    regs: 'same',
    resume: 'any',
    direct: 'any',
    trampolines: false,
    callOps: true,
    listEntry: true,
  },
} as const satisfies Record<string, Capabilities>;

export type ProfileName = keyof typeof profiles;
