/**
 * The entry conventions of x86-64.
 *
 *   name    sites                    plain entry passes   graph tracer      direct callers
 *   modern  __fentry__, patchable-5  an incomplete frame  a callback        from the register entry
 *   y2014   __fentry__               no registers         an entry, a jump  none
 *   mcount  -pg without -mfentry     no registers         an entry, a jump  none
 *
 * `mcount` cannot be `modern`: the function has begun, so neither a direct caller nor another
 * function can take its place, and a word above the return address of the call is not the
 * function's own.
 */
import {
  commonSymbols,
  type EntryConvention,
  framedEntries,
  type RuntimeSymbols,
  twoEntries,
} from '../machine/conventions.js';

/**
 * Besides what all have: how threads are told apart, and a callback that calls one of ordinary C.
 */
const common = [...commonSymbols, 'elftrace_thread_mode', 'elftrace_vector_func'];
const templates = [
  'ftrace_caller', 'ftrace_caller_op_ptr', 'ftrace_call', 'ftrace_caller_end',
  'ftrace_regs_caller', 'ftrace_regs_caller_op_ptr', 'ftrace_regs_call', 'ftrace_regs_caller_end',
]; // prettier-ignore

const modernSymbols: RuntimeSymbols = {
  ...twoEntries,
  common,
  templates: [...templates, 'ftrace_regs_caller_jmp'],
  direct: ['ftrace_direct_func', 'ftrace_direct_table'],
};
const symbolsOf2014: RuntimeSymbols = {
  ...twoEntries,
  common,
  graph: ['ftrace_graph_call', 'ftrace_graph_caller', 'return_to_handler'],
  templates: [...templates, 'ftrace_return'],
};

const modern: EntryConvention = {
  name: 'modern',
  title: 'calls of __fentry__: both entries pass a frame, the plain one an incomplete one',
  symbols: modernSymbols,
  toldBy: 'symbols',
  capabilities: { ...framedEntries, direct: 'regs', trampolines: true },
  lacking: [],
  // Pads of nops as compilers leave them become the one nop that a kernel writes, as calls do
  // (C-INIT-2).
  idle: { named: false, fixed: false, nopForms: [] },
  literal: null,
  chosenBy: null,
  mustServe: false,
  plainFrame: true,
  atEntry: true,
  ordinaryCall: false,
  nestedNeedsRegs: false,
  graphOff: null,
  directWays: null,
};

const of2014: EntryConvention = {
  ...modern,
  name: 'y2014',
  title: 'calls of __fentry__, entries of 2014: the plain one passes no registers, the graph tracer has one of its own',
  symbols: symbolsOf2014,
  capabilities: { ...framedEntries, resume: 'regs', trampolines: true, graph: 'trampoline' },
  plainFrame: false,
  nestedNeedsRegs: true,
  graphOff: 'stub',
};

/** Of those that serve the same sites, the one that passes more comes first. */
export const x86Conventions: readonly EntryConvention[] = [
  modern,
  of2014,
  {
    ...of2014,
    name: 'mcount',
    title: 'calls of mcount behind the prologue, entries of 2014: the caller of the function is at 8(%rbp)',
    atEntry: false,
    nestedNeedsRegs: false,
  },
];
