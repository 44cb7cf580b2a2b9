/**
 * Entry conventions of the made-up machine: the whole of what a new convention needs besides its
 * sites. No file of src knows these names.
 *
 *   name     sites                      passes               graph tracer
 *   wide     a call at the entry        a frame              a callback
 *   narrow   the same                   ip, parent_ip        a branch in the entry
 *   pinned   the same                   a frame              a callback; only its mark tells it
 */
import {
  type EntryConvention,
  framedEntries,
  oneEntry,
  profilingEntry,
  twoEntries,
} from '../../../src/machine/conventions.js';
import type { MachineOption } from '../../../src/machine/options.js';

const wide: EntryConvention = {
  name: 'wide',
  title: 'a call at the entry: both entries pass a frame',
  symbols: twoEntries,
  toldBy: 'symbols',
  capabilities: { ...framedEntries, direct: 'regs' },
  lacking: [{ symbol: 'ftrace_regs_caller', capabilities: { regs: 'none', direct: 'none' } }],
  idle: { named: false, fixed: false, nopForms: ['second'] },
  literal: null,
  chosenBy: 'toy-entries',
  mustServe: true,
  plainFrame: true,
  atEntry: true,
  ordinaryCall: false,
  nestedNeedsRegs: false,
  graphOff: null,
  directWays: null,
};

export const toyConventions: readonly EntryConvention[] = [
  wide,
  {
    ...wide,
    name: 'narrow',
    title: 'a call at the entry: the entry passes ip and parent_ip',
    symbols: oneEntry,
    capabilities: profilingEntry,
    lacking: [],
    plainFrame: false,
    graphOff: 'behind',
  },
  { ...wide, name: 'pinned', title: 'as wide, told by its mark', toldBy: 'mark' },
];

export const toyOptions: readonly MachineOption[] = [
  {
    name: 'toy-entries',
    about: 'toy',
    title: 'entries',
    choices: ['wide', 'narrow', 'pinned'],
    decides: ['convention'],
    verbs: ['patch'],
  },
  {
    name: 'toy-nop',
    about: 'toy',
    title: 'word of sites that are off',
    choices: ['first', 'second'],
    decides: ['nop-form'],
    verbs: ['patch'],
  },
  {
    name: 'toy-graph',
    about: 'toy',
    title: 'who may have the graph tracer',
    choices: ['many', '2014'],
    decides: ['layout'],
    verbs: ['patch'],
    policy: { 2014: { graph: '2014' } },
  },
];
