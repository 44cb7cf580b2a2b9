/**
 * The LoongArch target: 64-bit, little-endian. 32-bit files are recognised and refused by the
 * registry.
 *
 * Sites are found, judged, listed, turned off and taken out of their table. What needs code of ours
 * on the machine (entries of tracers, probes, the emulator) is not there, and says so.
 */
import type { Arch } from '../machine/arch.js';
import { EM_LOONGARCH } from '../elf/constants.js';
import { loongarchAbi, loongarchMcount } from './abi.js';
import { loongarchIsa } from './isa.js';
import { loongarchPatchTables } from './patch-tables.js';
import {
  loongarchModuleTypes,
  loongarchRelocations,
  R_LARCH_64,
  R_LARCH_NONE,
  R_LARCH_RELATIVE,
  R_LARCH_RELAX,
} from './relocs.js';
import { loongarchSiteShapes } from './sites.js';
import { loongarchBranches, loongarchStubForms } from './stubs.js';

export const loongarch64: Arch = {
  target: {
    id: 'loongarch64',
    title: 'LoongArch 64-bit, little-endian',
    elfMachine: EM_LOONGARCH,
    abiName: 'sysv',
    wordBytes: 8,
    dataEndian: 'little',
    codeEndian: 'little',
    codeAlignBytes: 4,
    pageBytes: 16384,
  },
  abi: loongarchAbi,
  isa: loongarchIsa,
  relocations: loongarchRelocations,
  relocationRoles: {
    none: R_LARCH_NONE,
    word: R_LARCH_64,
    relative: R_LARCH_RELATIVE,
    companions: [R_LARCH_RELAX],
    // The kernel's loader takes it and does nothing (L-MOD-1).
    neutralInModule: { type: R_LARCH_NONE, addend: 'kept' },
    takenInModules: [loongarchModuleTypes],
    zeroInModules: false,
  },
  mcount: loongarchMcount,
  conventions: [],
  options: [],
  siteShapes: loongarchSiteShapes,
  stubForms: loongarchStubForms,
  outOfLine: null,
  branches: loongarchBranches,
  landingPads: null,
  sleds: null,
  loader: { kind: 'none', reason: 'modules of LoongArch are not laid out' },
  trampolines: { kind: 'none', reason: 'there is no private code of one ops on LoongArch' },
  directCallers: { kind: 'none', reason: 'there are no entries for LoongArch that a direct caller could share' },
  livePatching: { kind: 'word' },
  patchTables: loongarchPatchTables,
  probes: { kind: 'none', reason: 'probes are not served on LoongArch' },
  nativeTracing: { kind: 'none', reason: 'there is no runtime for it yet' },
  emulation: { kind: 'none', reason: 'there is no emulator of LoongArch: its programs and images are not executed' },
};
