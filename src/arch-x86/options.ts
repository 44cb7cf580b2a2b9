/**
 * What a user may choose about the entries of x86-64, as the command line offers it.
 */
import type { MachineOption } from '../machine/options.js';

export const x86Options: readonly MachineOption[] = [
  {
    name: 'x86-tramp',
    about: 'x86-64',
    title: 'private trampolines',
    choices: ['modern', '2014', 'none'],
    decides: ['layout'],
    verbs: ['load', 'patch', 'race'],
    raced: ['modern', '2014'],
    policy: { 2014: { graph: '2014' }, none: { trampolines: 'none' } },
  },
];
