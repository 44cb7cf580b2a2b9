/** The four PowerPC targets, put together from the files of this folder. */
import type { Abi } from '../machine/abi.js';
import type { StillArch } from '../machine/arch.js';
import type { RelocationRoles } from '../machine/tables.js';
import type { Target } from '../machine/target.js';
import { EM_PPC, EM_PPC64 } from '../elf/constants.js';
import type { RelocationRow } from '../relocs/kinds.js';
import type { Endian } from '../units.js';
import { elfV1Abi, elfV2Abi, ppc32Abi } from './abi.js';
import { ppcConventions } from './conventions.js';
import { ppcOptions } from './options.js';
import { createPpcProbes } from './kprobes.js';
import { createPpcIsa, ppc32Table, ppc64Table } from './isa.js';
import { ppcNativeTracing } from './native-tracing.js';
import { ppcPatchTables } from './patch-tables.js';
import { ppc32RelocationRoles, ppc32Relocations, ppc64RelocationRoles, ppc64Relocations } from './relocs.js';
import { elfV1Sites, elfV2BeSites, elfV2LeSites, ppc32Sites } from './sites.js';
import type { PpcSites } from './sites.js';
import { createPpcLoader } from './loader.js';
import { outOfLineModel } from './out-of-line.js';
import { ppcSleds } from './sleds.js';
import { goesOn, ppc32StubForms, ppcBranches, ppc64StubForms } from './stubs.js';

interface Family {
  readonly bits: 32 | 64;
  readonly relocations: ReadonlyMap<number, RelocationRow>;
  readonly roles: RelocationRoles;
}

const family32: Family = {
  bits: 32,
  relocations: ppc32Relocations,
  roles: ppc32RelocationRoles,
};
const family64: Family = {
  bits: 64,
  relocations: ppc64Relocations,
  roles: ppc64RelocationRoles,
};

function arch(
  family: Family,
  id: Target['id'],
  abiName: Target['abiName'],
  endian: Endian,
  title: string,
  abi: Abi,
  sites: PpcSites,
): StillArch {
  const { bits } = family;
  const table = bits === 64 ? ppc64Table : ppc32Table;
  const wordBytes = bits === 64 ? 8 : 4;
  return {
    target: {
      id,
      title,
      elfMachine: bits === 64 ? EM_PPC64 : EM_PPC,
      abiName,
      wordBytes,
      dataEndian: endian,
      codeEndian: endian,
      codeAlignBytes: 4,
      pageBytes: 0x1_0000,
    },
    abi,
    isa: createPpcIsa(table, endian, bits),
    relocations: family.relocations,
    relocationRoles: family.roles,
    conventions: ppcConventions(bits),
    options: ppcOptions(bits),
    mcount: sites.mcount,
    siteShapes: sites.shapes,
    stubForms: abiName === 'sysv' ? ppc32StubForms : ppc64StubForms[abiName],
    outOfLine: outOfLineModel(bits, endian),
    branches: ppcBranches(bits, endian),
    landingPads: null,
    sleds: abiName === 'elfv2' && endian === 'little' ? ppcSleds(endian) : null,
    trampolines: { kind: 'none', reason: 'one entry serves all tracers: no code is made for a single one' },
    directCallers: { kind: 'code', goesOn: goesOn(endian) },
    livePatching: { kind: 'word' },
    patchTables: ppcPatchTables(wordBytes),
    loader: createPpcLoader(abiName, endian),
    probes: createPpcProbes({ bits, endian, abi: abiName }),
    nativeTracing: ppcNativeTracing(abiName, endian),
  };
}

export const ppc32Still: StillArch = arch(
  family32,
  'ppc32',
  'sysv',
  'big',
  'PowerPC 32-bit, System V, big-endian',
  ppc32Abi,
  ppc32Sites,
);
export const ppc64ElfV1Still: StillArch = arch(
  family64,
  'ppc64-elfv1',
  'elfv1',
  'big',
  'PowerPC 64-bit, ELFv1, big-endian',
  elfV1Abi,
  elfV1Sites,
);
export const ppc64ElfV2BeStill: StillArch = arch(
  family64,
  'ppc64-elfv2-be',
  'elfv2',
  'big',
  'PowerPC 64-bit, ELFv2, big-endian',
  elfV2Abi,
  elfV2BeSites,
);
export const ppc64ElfV2LeStill: StillArch = arch(
  family64,
  'ppc64-elfv2-le',
  'elfv2',
  'little',
  'PowerPC 64-bit, ELFv2, little-endian',
  elfV2Abi,
  elfV2LeSites,
);
