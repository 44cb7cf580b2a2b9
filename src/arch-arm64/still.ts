/** The arm64 target: little-endian AArch64 Linux, kernel and user space. */
import type { StillArch } from '../machine/arch.js';
import { concatBytes, wordBytes } from '../bytes.js';
import { EM_AARCH64 } from '../elf/constants.js';
import { arm64LandingPads } from './landing-pads.js';
import { arm64Abi, arm64Mcount } from './abi.js';
import { arm64Conventions } from './conventions.js';
import { arm64Options } from './options.js';
import { arm64Isa, pairedAddress } from './isa.js';
import { arm64Probes } from './kprobes.js';
import { arm64Loader } from './loader.js';
import { arm64NativeTracing } from './native-tracing.js';
import { arm64PatchTables } from './patch-tables.js';
import { arm64RelocationRoles, arm64Relocations } from './relocs.js';
import { arm64SiteShapes } from './sites.js';
import { arm64Branches, arm64StubForms } from './stubs.js';
import { arm64Sleds } from './sleds.js';

export const arm64Still: StillArch = {
  target: {
    id: 'arm64',
    title: 'arm64 (AArch64), little-endian',
    elfMachine: EM_AARCH64,
    abiName: 'sysv',
    wordBytes: 8,
    dataEndian: 'little',
    codeEndian: 'little',
    codeAlignBytes: 4,
    // 64 KiB is the page size that linkers align segments for; adrp pages are always 4 KiB.
    pageBytes: 0x1_0000,
  },
  abi: arm64Abi,
  isa: arm64Isa,
  relocations: arm64Relocations,
  relocationRoles: arm64RelocationRoles,
  conventions: arm64Conventions,
  options: arm64Options,
  mcount: arm64Mcount,
  siteShapes: arm64SiteShapes,
  stubForms: arm64StubForms,
  outOfLine: null,
  branches: arm64Branches,
  computedAddress: pairedAddress,
  landingPads: arm64LandingPads,
  sleds: arm64Sleds,
  trampolines: {
    kind: 'none',
    reason:
      'the machine has no private trampolines: per-callsite ops serve it, the word in front of each function names the ops (T-A64-13)',
  },
  // A-ENT-6: bti c; mov x10, x30; mov x30, x9; ret x10
  directCallers: {
    kind: 'code',
    goesOn: concatBytes([0xd503_245f, 0xaa1e_03ea, 0xaa09_03fe, 0xd65f_0140].map((each) => wordBytes(each, 'little'))),
  },
  livePatching: { kind: 'word' },
  patchTables: arm64PatchTables,
  loader: arm64Loader,
  probes: arm64Probes,
  nativeTracing: arm64NativeTracing,
};
