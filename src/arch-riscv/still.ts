/** The RISC-V target. 32-bit and big-endian files are recognised and refused by the registry. */
import type { StillArch } from '../machine/arch.js';
import { wordBytes } from '../bytes.js';
import { EM_RISCV } from '../elf/constants.js';
import { riscvAbi } from './abi.js';
import { riscvConventions } from './conventions.js';
import { riscvOptions } from './options.js';
import { riscvIsa } from './isa.js';
import { riscvProbes } from './kprobes.js';
import { riscvLoader } from './loader.js';
import { riscvNativeTracing } from './native-tracing.js';
import { riscvPatchTables } from './patch-tables.js';
import {
  R_RISCV_64,
  R_RISCV_NONE,
  R_RISCV_RELATIVE,
  R_RISCV_RELAX,
  riscvModuleTypes,
  riscvRelocations,
} from './relocs.js';
import { riscvMcount, riscvSiteShapes } from './sites.js';
import { riscvBranches, riscvStubForms } from './stubs.js';
import { riscvSleds } from './sleds.js';
import { riscvLandingPads } from './landing-pads.js';

export const riscv64Still: StillArch = {
  target: {
    id: 'riscv64',
    title: 'RISC-V 64-bit, little-endian',
    elfMachine: EM_RISCV,
    abiName: 'sysv',
    wordBytes: 8,
    dataEndian: 'little',
    codeEndian: 'little',
    // With the C extension; without it code is 4-aligned, which no field of the registry's key
    // tells.
    codeAlignBytes: 2,
    pageBytes: 4096,
  },
  abi: riscvAbi,
  isa: riscvIsa,
  relocations: riscvRelocations,
  relocationRoles: {
    none: R_RISCV_NONE,
    word: R_RISCV_64,
    relative: R_RISCV_RELATIVE,
    companions: [R_RISCV_RELAX],
    // Accepted and ignored by the kernel's loader, and by a linker where no other relocation stands
    // at the place.
    neutralInModule: { type: R_RISCV_RELAX, addend: 'kept' },
    takenInModules: [riscvModuleTypes],
    zeroInModules: false,
  },
  conventions: riscvConventions,
  options: riscvOptions,
  mcount: riscvMcount,
  siteShapes: riscvSiteShapes,
  stubForms: riscvStubForms,
  outOfLine: null,
  branches: riscvBranches,
  landingPads: riscvLandingPads,
  sleds: riscvSleds,
  trampolines: { kind: 'none', reason: 'one entry serves all tracers: no code is made for a single one' },
  // jr t0
  directCallers: { kind: 'code', goesOn: wordBytes(0x0002_8067, 'little') },
  livePatching: { kind: 'word' },
  patchTables: riscvPatchTables,
  loader: riscvLoader,
  probes: riscvProbes,
  nativeTracing: riscvNativeTracing,
};
