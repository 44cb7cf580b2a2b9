/** The x86-64 target: joins the parts of this folder into one `Arch` object. */
import type { StillArch } from '../machine/arch.js';
import { EM_X86_64 } from '../elf/constants.js';
import { x86Abi } from './abi.js';
import { x86Conventions } from './conventions.js';
import { x86Options } from './options.js';
import { x86Isa } from './isa.js';
import { x86Probes } from './kprobes.js';
import { x86NativeTracing } from './native-tracing.js';
import { x86PatchTables } from './patch-tables.js';
import { R_X86_64_64, R_X86_64_NONE, R_X86_64_RELATIVE, x86Relocations } from './relocs.js';
import { x86Mcount, x86SiteShapes } from './sites.js';
import { x86LivePatching } from './live.js';
import { x86Loader } from './loader.js';
import { x86Branches, x86StubForms } from './stubs.js';
import { x86Trampolines } from './trampoline.js';
import { x86Sleds } from './sleds.js';
import { x86LandingPads } from './landing-pads.js';

/** x86-64, System V psABI, 64-bit mode. */
export const x86_64Still: StillArch = {
  target: {
    id: 'x86-64',
    title: 'x86-64',
    elfMachine: EM_X86_64,
    abiName: 'sysv',
    wordBytes: 8,
    dataEndian: 'little',
    codeEndian: 'little',
    codeAlignBytes: 1,
    pageBytes: 4096,
  },
  abi: x86Abi,
  isa: x86Isa,
  relocations: x86Relocations,
  relocationRoles: {
    none: R_X86_64_NONE,
    word: R_X86_64_64,
    relative: R_X86_64_RELATIVE,
    companions: [],
    neutralInModule: { type: R_X86_64_NONE, addend: 'kept' },
    // NONE, 64, PC32, PLT32, 32, 32S, PC64
    takenInModules: [new Set([0, 1, 2, 4, 10, 11, 24])],
    zeroInModules: true,
  },
  conventions: x86Conventions,
  options: x86Options,
  mcount: x86Mcount,
  siteShapes: x86SiteShapes,
  stubForms: x86StubForms,
  outOfLine: null,
  branches: x86Branches,
  landingPads: x86LandingPads,
  sleds: x86Sleds,
  loader: x86Loader,
  trampolines: x86Trampolines,
  // ret
  directCallers: { kind: 'code', goesOn: Uint8Array.of(0xc3) },
  livePatching: x86LivePatching,
  patchTables: x86PatchTables,
  probes: x86Probes,
  nativeTracing: x86NativeTracing,
};
