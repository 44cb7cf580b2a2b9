/**
 * The s390x target: 64-bit, big-endian. 31-bit files are recognised and refused by the registry.
 *
 * Sites are found, judged, listed, turned off and taken out of their table. What needs code of ours
 * on the machine (entries of tracers, probes, the emulator) is not there, and says so.
 */
import type { Arch } from '../machine/arch.js';
import { EM_S390 } from '../elf/constants.js';
import { s390xAbi, s390xMcount } from './abi.js';
import { s390xIsa } from './isa.js';
import { s390xPatchTables } from './patch-tables.js';
import { R_390_64, R_390_NONE, R_390_RELATIVE, s390xModuleTypes, s390xRelocations } from './relocs.js';
import { s390xSiteShapes } from './sites.js';
import { s390xBranches, s390xStubForms } from './stubs.js';

export const s390x: Arch = {
  target: {
    id: 's390x',
    title: 'IBM Z (s390x), 64-bit, big-endian',
    elfMachine: EM_S390,
    abiName: 'sysv',
    wordBytes: 8,
    dataEndian: 'big',
    codeEndian: 'big',
    codeAlignBytes: 2,
    pageBytes: 4096,
  },
  abi: s390xAbi,
  isa: s390xIsa,
  relocations: s390xRelocations,
  relocationRoles: {
    none: R_390_NONE,
    word: R_390_64,
    relative: R_390_RELATIVE,
    companions: [],
    // The kernel's loader takes it and does nothing (S-MOD-1).
    neutralInModule: { type: R_390_NONE, addend: 'kept' },
    takenInModules: [s390xModuleTypes],
    zeroInModules: false,
  },
  mcount: s390xMcount,
  conventions: [],
  options: [],
  siteShapes: s390xSiteShapes,
  stubForms: s390xStubForms,
  outOfLine: null,
  branches: s390xBranches,
  landingPads: null,
  sleds: null,
  loader: { kind: 'none', reason: 'modules of s390x are not laid out' },
  trampolines: { kind: 'none', reason: 'there is no private code of one ops on s390x' },
  directCallers: { kind: 'none', reason: 'there are no entries for s390x that a direct caller could share' },
  livePatching: { kind: 'word' },
  patchTables: s390xPatchTables,
  probes: { kind: 'none', reason: 'probes are not served on s390x' },
  nativeTracing: { kind: 'none', reason: 'there is no runtime for it yet' },
  emulation: { kind: 'none', reason: 'there is no emulator of s390x: its programs and images are not executed' },
};
