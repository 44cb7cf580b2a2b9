/** The PowerPC targets with what runs their code. */
import type { Arch, StillArch } from '../machine/arch.js';
import { lazily } from '../isa/memo.js';
import { createPpcEmulation } from './emulation.js';
import { ppc32Table, ppc64Table } from './isa.js';
import { ppc32Still, ppc64ElfV1Still, ppc64ElfV2BeStill, ppc64ElfV2LeStill } from './still.js';

function whole(still: StillArch): Arch {
  const { wordBytes, dataEndian, abiName } = still.target;
  const table = wordBytes === 8 ? ppc64Table : ppc32Table;
  const emulation = lazily(() =>
    createPpcEmulation({ wordBytes, endian: dataEndian, abi: abiName, decode: (word) => table.decode(word) }),
  );
  return {
    ...still,
    get emulation() {
      return emulation();
    },
  };
}

export const ppc32: Arch = whole(ppc32Still);
export const ppc64ElfV1: Arch = whole(ppc64ElfV1Still);
export const ppc64ElfV2Be: Arch = whole(ppc64ElfV2BeStill);
export const ppc64ElfV2Le: Arch = whole(ppc64ElfV2LeStill);
