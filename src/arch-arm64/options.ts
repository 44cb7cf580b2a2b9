/**
 * What a user may choose about the entries and sites of arm64, as the command line offers it.
 */
import type { MachineOption } from '../machine/options.js';

export const arm64Options: readonly MachineOption[] = [
  {
    name: 'a64-era',
    about: 'arm64',
    title: 'entries',
    choices: ['callops', 'regs', 'args'],
    decides: ['layout', 'convention'],
    verbs: ['load', 'patch', 'race'],
    needs: {
      callops: { convention: 'callops', otherwise: () => 'not all sites have an ops pointer in front of the function' },
    },
  },
  {
    name: 'a64-entries',
    about: 'arm64',
    title: 'how ops of sites change',
    choices: ['one', 'two'],
    decides: ['layout'],
    verbs: ['load', 'patch', 'race'],
    policy: { one: { opsEntries: 'one' }, two: { opsEntries: 'two' } },
    needs: {
      two: {
        convention: 'callops',
        otherwise: (entries) =>
          `it is about entries that read an ops pointer (callops), those of the image are ${entries}`,
      },
    },
  },
  {
    name: 'a64-default',
    about: 'arm64',
    title: 'ops of idle sites',
    choices: ['nop', 'list'],
    decides: ['idle-ops'],
    verbs: ['patch', 'race'],
  },
];
