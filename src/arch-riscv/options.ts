/**
 * What a user may choose about the entries and sites of RISC-V, as the command line offers it.
 */
import type { MachineOption } from '../machine/options.js';

export const riscvOptions: readonly MachineOption[] = [
  {
    name: 'riscv-site',
    about: 'riscv64',
    title: 'generation of sites',
    choices: ['g2', 'g1', 'g2-plain', 'g2-merged', 'g3', 'g3c'],
    decides: ['convention'],
    verbs: ['patch', 'race'],
    raced: ['g2', 'g1', 'g2-merged', 'g3', 'g3c'],
  },
  {
    name: 'riscv-direct',
    about: 'riscv64',
    title: 'direct callers through the register entry, by this register of its frame (t1 works)',
    choices: ['t1', 't0', 't0slot'],
    decides: ['direct-way'],
    verbs: ['patch'],
  },
];
