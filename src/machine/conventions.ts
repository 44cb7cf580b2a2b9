/**
 * Entry conventions: what the entry that a site calls may expect, and what it passes on. A machine
 * lists its conventions in the file `conventions.ts` of its folder, one row each; code that works
 * on images asks the row and names no machine. A convention is known by its name in load maps,
 * records, options of the command line and keys of the prebuilt runtime.
 */
import type { Address } from '../units.js';
import type { SiteStub } from './out-of-line.js';

/**
 * Name of a convention, unique within its machine. Names from outside are looked up, never assumed.
 */
export type ConventionName = string;

/** Names in the runtime of a convention, by what a request needs (RT-9). */
export interface RuntimeSymbols {
  /** Entries that a site may call. */
  readonly entries: readonly string[];
  /** Patched calls, in the order of `entries`. */
  readonly calls: readonly string[];
  readonly common: readonly string[];
  readonly graph: readonly string[];
  readonly tracers: readonly string[];
  /** Labels that private trampolines are made from; empty where there are none. */
  readonly templates: readonly string[];
  /**
   * Helper of direct callers and its table; empty where a site cannot have one beside other
   * tracers.
   */
  readonly direct: readonly string[];
}

/** What every runtime has. */
export const commonSymbols = [
  'ftrace_stub',
  'function_trace_op',
  'ftrace_ops_list',
  'ftrace_ops_list_func',
  'ftrace_ops_assist_func',
  'ftrace_list_end',
] as const;

/** The tracers that every runtime brings. */
const tracerSymbols = ['elftrace_function_tracer', 'elftrace_counter', 'elftrace_ring'] as const;

/** One entry with one patched call, and the graph tracer as a branch in it. */
export const oneEntry: RuntimeSymbols = {
  entries: ['ftrace_caller'],
  calls: ['ftrace_call'],
  common: commonSymbols,
  graph: ['ftrace_graph_call', 'ftrace_graph_caller', 'return_to_handler'],
  tracers: tracerSymbols,
  templates: [],
  direct: [],
};

/** A plain entry and one that saves every register, and the graph tracer as a callback. */
export const twoEntries: RuntimeSymbols = {
  ...oneEntry,
  entries: ['ftrace_caller', 'ftrace_regs_caller'],
  calls: ['ftrace_call', 'ftrace_regs_call'],
  graph: ['ftrace_graph_func', 'return_to_handler'],
};

/** What the entries and the code generator of a target offer (F-11). */
export interface Capabilities {
  /** Sites can be rewritten at all; without, operations only keep books (T-X86-32). */
  readonly patchable: boolean;
  /** What the plain entry hands on: ip and parent_ip, or ops and regs as well (C-TGT-9). */
  readonly passes: 2 | 4;
  /** Full register frames: none, by an entry of its own, or by the one entry there is. */
  readonly regs: 'none' | 'separate' | 'same';
  /** Which callbacks may change the resume address. */
  readonly resume: 'none' | 'regs' | 'any';
  /** Which entries can go on to a direct caller; `regs` needs a register entry. */
  readonly direct: 'none' | 'regs' | 'any';
  /**
   * Bit 0 of a direct caller's address says that sites jump to it (X-JMP-1). Rows say no, and the
   * image decides; without it, the bit is part of the address.
   */
  readonly jumps: boolean;
  /**
   * An entry can go on to a direct caller that comes back in another function than the traced one,
   * so that the two may share a site (C-IPM-4).
   */
  readonly directShares: boolean;
  /** Private trampolines can be built. */
  readonly trampolines: boolean;
  /**
   * There is a wrapper with recursion guard and RCU test; without one, such callbacks go through
   * the list function.
   */
  readonly assist: boolean;
  /**
   * A word before each function names the ops that its entry calls; the entries have no patched
   * call then.
   */
  readonly callOps: boolean;
  /**
   * There is a second entry beside the one that reads that word: it always goes through the list
   * (A-CO-5).
   */
  readonly listEntry: boolean;
  /**
   * Graph tracer: an ordinary callback; a jump in the entries; a static entry, and a jump in the
   * shared tail (2014).
   */
  readonly graph: 'none' | 'callback' | 'jump' | 'trampoline';
}

/**
 * What entries at a function's entry offer before a row says more: they pass ops and a frame, and
 * nothing else.
 */
export const framedEntries = {
  patchable: true,
  passes: 4,
  regs: 'separate',
  resume: 'any',
  direct: 'none',
  jumps: false,
  directShares: true,
  trampolines: false,
  assist: true,
  callOps: false,
  listEntry: false,
  graph: 'callback',
} as const satisfies Capabilities;

/** What the entry behind a prologue offers: it passes ip and parent_ip. */
export const profilingEntry = {
  ...framedEntries,
  passes: 2,
  regs: 'none',
  resume: 'none',
  graph: 'jump',
} as const satisfies Capabilities;

/** The word in front of a function, or of its site's stub, that names the ops of the site. */
export interface OpsLiteral {
  /**
   * Where it is, for the ip of a site's record. Aligned to a word.
   * @param stub  the stub out of line of the site, where it has one
   * @returns null where the site has no such word
   */
  readonly place: (ip: Address, stub: SiteStub | null) => Address | null;
  /**
   * `always`: every state of a site names its ops, whatever the word held. `compared`: the word
   * must hold ops of ours or nothing before it changes, and sites that were never initialised keep
   * the compiler's bytes.
   */
  readonly written: 'always' | 'compared';
}

/** What a site of a convention is while it is off, apart from the word in front of its function. */
export interface IdleSite {
  /** Whether the state names the convention, since the shapes have one form for each. */
  readonly named: boolean;
  /** One instruction of the site stays and leads to the plain entry. */
  readonly fixed: boolean;
  /** Names of nop forms that may be asked for; empty: there is one. */
  readonly nopForms: readonly string[];
}

/**
 * Ways from an entry to a direct caller. The helper of direct callers writes a word of the register
 * frame.
 */
export interface DirectWays {
  /** Byte offset of that word in the frame, by the name of the way. */
  readonly slots: Readonly<Record<string, number>>;
  /** The way that the runtime is built with. */
  readonly built: string;
  /** Code that every other way leaves out: a label, and the word that stands there instead. */
  readonly omits: readonly { readonly symbol: string; readonly word: number }[];
}

/**
 * One convention of a machine. A new one is a row here, a runtime object, and what its sites look
 * like (`sites.ts`).
 */
export interface EntryConvention {
  readonly name: ConventionName;
  /** One line: which sites, and what is passed. */
  readonly title: string;
  readonly symbols: RuntimeSymbols;
  /**
   * How entries of an image are known to be these: by the symbols that they have, or only by the
   * runtime's own mark.
   */
  readonly toldBy: 'symbols' | 'mark';
  /** What the entries offer where an image has all of them. */
  readonly capabilities: Capabilities;
  /** What they offer less where an image lacks a symbol. */
  readonly lacking: readonly { readonly symbol: string; readonly capabilities: Partial<Capabilities> }[];
  readonly idle: IdleSite;
  readonly literal: OpsLiteral | null;
  /** The option of the command line that takes the name; null: none does. */
  readonly chosenBy: string | null;
  /**
   * Who asks for these entries by name gets them or an error; else a name that serves no site is a
   * wish.
   */
  readonly mustServe: boolean;
  /** The plain entry passes a register frame, if an incomplete one. */
  readonly plainFrame: boolean;
  /**
   * Its sites are where nothing of the function has run: calls there can go on in another function
   * with the same arguments. Behind a prologue they cannot.
   */
  readonly atEntry: boolean;
  /**
   * Compilers make an ordinary call of the site: what a callee may change is dead behind it. Else
   * only what is free at a function's entry is.
   */
  readonly ordinaryCall: boolean;
  /** Callers of nested functions are only found with a full register frame. */
  readonly nestedNeedsRegs: boolean;
  /**
   * Where the branch for the graph tracer leads while it is off: behind itself, or to the stub;
   * null: there is no such branch, the graph tracer is a callback like others.
   */
  readonly graphOff: 'behind' | 'stub' | null;
  /**
   * Several ways of the entry to direct callers, of which an image has one; null: there is one way,
   * or none.
   */
  readonly directWays: DirectWays | null;
}

/** The row of a name, or null. */
export function conventionNamed(conventions: readonly EntryConvention[], name: string): EntryConvention | null {
  return conventions.find((each) => each.name === name) ?? null;
}

/**
 * The symbol by which an object of ours says its convention; where symbols tell they need not have
 * it.
 */
export function conventionMark(name: ConventionName): string {
  return `elftrace_entry_${name.replace('-', '_')}`;
}
