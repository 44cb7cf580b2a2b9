/**
 * The entry conventions of PowerPC, the same for all four targets.
 *
 *   name   sites                                              passes          graph tracer
 *   regs   at the function's entry (-mprofile-kernel, …)      a full frame    a callback
 *   ool    one nop there, the call in a stub out of line      as regs         a callback
 *   pg     behind the prologue (64 bits), as in 2008 (32)     ip, parent_ip   a branch in the entry
 *
 * No word of a frame can carry the address of a direct caller to the end of the entry, so no
 * convention has them.
 */
import { type EntryConvention, framedEntries, oneEntry, profilingEntry, twoEntries } from '../machine/conventions.js';
import type { MachineOption } from '../machine/options.js';

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
  nestedNeedsRegs: false,
  graphOff: null,
  directWays: null,
};

/** Of those that serve the same sites, the one that passes more comes first. */
export const ppcConventions: readonly EntryConvention[] = [
  regs,
  {
    ...regs,
    name: 'ool',
    title: 'one nop at the entry: the call is in a stub out of line, from which the entry finds the site',
    toldBy: 'mark',
    idle: { named: false, fixed: false, nopForms: [] },
  },
  {
    ...regs,
    name: 'pg',
    title: 'calls of _mcount: the entry passes ip and parent_ip, the graph tracer is a branch in it',
    symbols: oneEntry,
    capabilities: profilingEntry,
    atEntry: false,
    plainFrame: false,
    graphOff: 'behind',
  },
];

/** Options about the machine's sites and stubs. */
export const ppcOptions: readonly MachineOption[] = [
  { name: 'ppc-stubs', about: 'PowerPC', title: 'stubs of modules', choices: ['modern', '2008'], decides: ['layout'] },
  {
    name: 'ppc-nop',
    about: 'PowerPC',
    title: 'disabled form of sites that call through stubs',
    choices: ['b8', '2008'],
    decides: ['nop-form'],
  },
];
