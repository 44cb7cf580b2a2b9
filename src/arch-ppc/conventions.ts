/**
 * The entry conventions of PowerPC, the same for all four targets.
 *
 *   name      sites                                          calls
 *   callops   32 bits: a word in front of the function       what that word says
 *   regs      at the function's entry (-mprofile-kernel, …)  one patched call in either entry
 *   ool-ops   one nop there, a word and the call in a stub   what that word says
 *   ool       the same stub without the word                 as regs
 *   pg        behind the prologue (64 bits), of 2008 (32)    one, a branch for the graph tracer
 *
 * All but pg pass a frame. Direct callers have those whose sites name their ops: the entry finds
 * their address there. Without such a word nothing leads from the end of the entry to them.
 */
import {
  commonSymbols,
  type EntryConvention,
  framedEntries,
  oneEntry,
  profilingEntry,
  twoEntries,
} from '../machine/conventions.js';

const regs: EntryConvention = {
  name: 'regs',
  title: "sites at the function's entry: the entries pass a register frame",
  symbols: twoEntries,
  toldBy: 'symbols',
  capabilities: framedEntries,
  lacking: [],
  // Two empty words get the `mflr r0` that stands before a call; the nop of 2008 is another word.
  idle: { named: false, fixed: false, nopForms: ['2008'] },
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

/** Ops in a word that belongs to the site. */
const callops: EntryConvention = {
  ...regs,
  name: 'callops',
  title: 'a pointer to the ops of the site in front of the function: the entries call what these say',
  symbols: {
    ...twoEntries,
    calls: [],
    common: [...commonSymbols, 'ftrace_nop_ops', 'ftrace_list_ops'],
    direct: ['ftrace_direct_func', 'ftrace_direct_table'],
  },
  toldBy: 'mark',
  // A function in the place of the traced one may need another r2, which a direct caller loses.
  capabilities: { ...framedEntries, callOps: true, direct: 'any', directShares: false },
  idle: { named: false, fixed: false, nopForms: [] },
  // The slot of the table: two words in front of the call (P-CO-1).
  literal: { place: (ip) => ip - 8n, written: 'always' },
  chosenBy: 'ppc-entries',
  mustServe: true,
};

const ool: EntryConvention = {
  ...regs,
  name: 'ool',
  title: 'one nop at the entry: the call is in a stub out of line, from which the entry finds the site',
  toldBy: 'mark',
  idle: callops.idle,
  chosenBy: 'ppc-entries',
  mustServe: true,
};

/** Of those that serve the same sites, the one that passes more comes first. */
const ppc64Conventions: readonly EntryConvention[] = [
  regs,
  {
    ...callops,
    name: 'ool-ops',
    title: 'as ool, and a pointer in front of the stub says what the entries call',
    literal: { place: (_, stub) => stub?.ops?.address ?? null, written: 'always' },
  },
  ool,
  {
    ...regs,
    name: 'pg',
    title: 'calls of _mcount: the entry passes ip and parent_ip, the graph tracer is a branch in it',
    symbols: oneEntry,
    capabilities: profilingEntry,
    atEntry: false,
    ordinaryCall: true,
    plainFrame: false,
    graphOff: 'behind',
  },
];

/** A word in front of the function has room for a pointer where these have 32 bits (P-CO-1). */
const ppc32Conventions: readonly EntryConvention[] = [
  callops,
  // The call stands in front of everything that would save arguments: _mcount keeps them.
  ...ppc64Conventions.map((each) => ({ ...each, ordinaryCall: false })),
];

/** The conventions of a target. */
export const ppcConventions = (bits: 32 | 64) => (bits === 32 ? ppc32Conventions : ppc64Conventions);
