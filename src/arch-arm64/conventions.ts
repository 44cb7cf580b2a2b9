/**
 * The entry conventions of arm64.
 *
 *   name     sites                     passes                        calls
 *   callops  patchable areas `=4,2`    what is live at an entry      what the word in front says
 *   regs     patchable areas `=2`      a frame, the plain one less   one patched call for both
 *   args     patchable areas           what is live at one (of 6.2)  one patched call
 *   pg       -pg, behind the prologue  ip, parent_ip                 one, a branch for the graph
 *
 * Entries that do not read the word in front of a function serve sites that have one, too.
 */
import {
  commonSymbols,
  type EntryConvention,
  framedEntries,
  oneEntry,
  profilingEntry,
  type RuntimeSymbols,
  twoEntries,
} from '../machine/conventions.js';

/** One frame for all: who wants registers gets those that it has. */
const oneFrame = { ...framedEntries, regs: 'same', direct: 'any' } as const;

const argsSymbols: RuntimeSymbols = {
  ...oneEntry,
  graph: twoEntries.graph,
  direct: ['ftrace_direct_func', 'ftrace_direct_table'],
};

const callops: EntryConvention = {
  name: 'callops',
  title: 'patchable areas with a pointer to their ops in front of the function (since 6.3)',
  symbols: {
    ...argsSymbols,
    calls: [],
    common: [...commonSymbols, 'ftrace_nop_ops', 'ftrace_list_ops', 'ftrace_list_caller'],
  },
  toldBy: 'symbols',
  capabilities: { ...oneFrame, callOps: true, listEntry: true },
  lacking: [{ symbol: 'ftrace_list_caller', capabilities: { listEntry: false } }],
  // The word in front of the call is written when a site is initialised (C-INIT-2).
  idle: { named: false, fixed: false, nopForms: [] },
  // Before the bl; where a landing pad makes it 16 bytes the word is aligned all the same (A-CO-1).
  literal: { place: (ip) => (ip - 12n) & ~7n, written: 'compared' },
  chosenBy: 'a64-era',
  mustServe: true,
  plainFrame: true,
  atEntry: true,
  ordinaryCall: false,
  nestedNeedsRegs: false,
  graphOff: null,
  directWays: null,
};

/** Of those that serve the same sites, the one that passes more comes first. */
export const arm64Conventions: readonly EntryConvention[] = [
  callops,
  {
    ...callops,
    name: 'regs',
    title: 'patchable areas: the plain entry passes an incomplete frame and shares the patched call with the other',
    symbols: twoEntries,
    capabilities: framedEntries,
    lacking: [],
    literal: null,
  },
  {
    ...callops,
    name: 'args',
    title: 'patchable areas, of 6.2: one entry, whose frame has what is live at an entry; it goes to direct callers',
    symbols: argsSymbols,
    capabilities: oneFrame,
    lacking: [],
    literal: null,
  },
  {
    ...callops,
    name: 'pg',
    title: 'calls of _mcount behind the prologue: ip and parent_ip, the graph tracer is a branch in the entry',
    symbols: oneEntry,
    capabilities: profilingEntry,
    atEntry: false,
    ordinaryCall: true,
    lacking: [],
    literal: null,
    plainFrame: false,
    graphOff: 'behind',
  },
];
