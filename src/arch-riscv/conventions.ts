/**
 * The entry conventions of RISC-V: the generations of its sites.
 *
 *   name       sites                     entries                                 direct callers
 *   g2         auipc t0; jalr t0 (2022)  two, the plain frame is incomplete      the register entry
 *   g2-merged  the same                  one small frame and one entry for all   the entry
 *   g1         16 bytes around ra        two, the plain one passes no registers  none
 *   g3         the auipc stays           as g2-merged; calls through a pointer   the entry
 *   g3c        the auipc stays           the same; calls what the ops say        the entry
 *   g0         -pg, behind the prologue  as g1                                   none
 *   g2-plain   as g2                     one, which passes no registers          none
 *
 * Kernels of all generations have the same symbols, so only the mark of our own objects tells one
 * from another.
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

const directSymbols: RuntimeSymbols = {
  ...twoEntries,
  direct: ['ftrace_direct_func', 'ftrace_direct_table', 'elftrace_direct_slot'],
};

const merged = { ...framedEntries, regs: 'same', direct: 'any' } as const;

/** addi zero, zero, 0 */
const NOP = 0x0000_0013;

/**
 * The thread of 2022 argues about three ways to direct callers (R-DIR-3, R-DIR-4):
 *
 *   way      helper writes the slot of        entry
 *   t1       t1                               clears it before callbacks; `bnez t1` at the exit:
 *                                             the interface
 *   t0       epc, which is loaded into t0     as it was before: no store, no test (two nops here)
 *   t0slot   t0, which is never loaded        the same
 */
const built = 't1';
const omits = [
  { symbol: 'elftrace_direct_clear', word: NOP },
  { symbol: 'ftrace_regs_caller_end', word: NOP },
];

const g2: EntryConvention = {
  name: 'g2',
  title: 'auipc t0; jalr t0: both entries pass a frame, the plain one an incomplete one (2022)',
  symbols: {
    ...directSymbols,
    graph: [...directSymbols.graph, 'ftrace_graph_call', 'ftrace_graph_regs_call', 'ftrace_graph_caller'],
  },
  toldBy: 'mark',
  // In a build with register support the plain entry makes the frame, too, and goes on where epc
  // says.
  capabilities: { ...framedEntries, direct: 'regs' },
  // T-RV-1: direct calls need the entry that saves all registers.
  lacking: [{ symbol: 'ftrace_regs_caller', capabilities: { regs: 'none', direct: 'none' } }],
  idle: { named: true, fixed: false, nopForms: [] },
  literal: null,
  chosenBy: 'riscv-site',
  mustServe: false,
  plainFrame: true,
  atEntry: true,
  ordinaryCall: false,
  nestedNeedsRegs: false,
  graphOff: 'stub',
  directWays: { slots: { t1: 48, t0: 0, t0slot: 40 }, built, omits },
};

const g2Merged: EntryConvention = {
  ...g2,
  name: 'g2-merged',
  title: 'the sites of g2 with one small frame and one entry for all',
  symbols: directSymbols,
  capabilities: merged,
  lacking: [],
  graphOff: null,
  // The one small frame has no slot of t0.
  directWays: { slots: { t1: 32, t0: 0 }, built, omits },
};

const g1: EntryConvention = {
  ...g2,
  name: 'g1',
  title: '16 bytes around a pair through ra: the plain entry passes no registers; no direct callers',
  symbols: twoEntries,
  capabilities: { ...framedEntries, resume: 'regs' },
  lacking: [],
  plainFrame: false,
  graphOff: null,
  directWays: null,
};

const g3: EntryConvention = {
  ...g2Merged,
  name: 'g3',
  title: 'sites whose auipc stays, one entry for all: what it calls is in a pointer',
  symbols: { ...directSymbols, calls: ['ftrace_call_dest'] },
  idle: { ...g2Merged.idle, fixed: true },
};

const g3c: EntryConvention = {
  ...g3,
  name: 'g3c',
  title: 'sites whose auipc stays, one entry for all: it calls what the ops in front of the function say',
  symbols: { ...directSymbols, calls: [], common: [...commonSymbols, 'ftrace_nop_ops', 'ftrace_list_ops'] },
  capabilities: { ...merged, callOps: true },
  // 12 bytes before the jalr, which is the ip.
  literal: { place: (ip) => (ip - 12n) & ~7n, written: 'always' },
  // The entry finds out by the ops of the site: it has nothing that the other ways leave out.
  directWays: { slots: { t1: 32 }, built, omits },
};

/** Of those that serve the same sites, the one that passes more comes first. */
export const riscvConventions: readonly EntryConvention[] = [
  g2,
  g2Merged,
  g1,
  g3,
  g3c,
  { ...g1, name: 'g0', title: '-pg: as g1, for calls behind the prologue', atEntry: false, ordinaryCall: true },
  {
    ...g2,
    name: 'g2-plain',
    title: 'the sites of g2 in a build without register support: one entry, which passes none; a branch for the graph',
    symbols: oneEntry,
    capabilities: { ...profilingEntry, passes: 4 },
    lacking: [],
    plainFrame: false,
    graphOff: 'behind',
    directWays: null,
  },
];
