/**
 * What a user may choose about the entries, sites and stubs of PowerPC, as the command line offers
 * it.
 */
import type { MachineOption } from '../machine/options.js';

export const ppcOptions = (bits: 32 | 64): readonly MachineOption[] => [
  {
    name: 'ppc-stubs',
    about: 'PowerPC',
    title: 'stubs of modules',
    choices: ['modern', '2008'],
    decides: ['layout'],
    verbs: ['load'],
  },
  {
    name: 'ppc-nop',
    about: 'PowerPC',
    title: 'disabled form of sites that call through stubs',
    choices: ['b8', '2008'],
    decides: ['nop-form'],
    verbs: ['patch', 'race'],
    hazards: {
      // H3: a thread that is inside the tracer returns to a nop where its restore was.
      2008: {
        rule: 'T-PPC-12',
        text:
          'sites were disabled in the form of 2008 (two nops): on a running system a thread inside the tracer would come back to a nop where ' +
          'r2 must be restored; --ppc-nop=b8 has no such window',
      },
    },
  },
  {
    name: 'ppc-entries',
    about: 'PowerPC',
    title: 'entries',
    choices: ['ool-ops', 'ool', ...(bits === 32 ? ['callops'] : []), 'regs'],
    decides: ['layout', 'convention'],
    verbs: ['load', 'patch', 'race'],
  },
];
