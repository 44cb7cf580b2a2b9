/** Whether a file is a livepatch module: most are none, and what reads one is loaded for one. */
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { moduleInfo } from '../elf/modinfo.js';

/** Names of the sections of klp_object_ext, as different versions of the kernel have them. */
export const OBJECT_SECTIONS = ['.init.klp_objects', '__klp_objects'];

/** True for a module that says it is a livepatch, or has what only livepatches have. */
export function isLivepatch(image: ElfImage): boolean {
  if (image.header.type !== elf.ET_REL) return false;
  return (
    moduleInfo(image, 'livepatch') !== null ||
    image.sections.some(
      ({ name, flags }) => (flags & elf.SHF_RELA_LIVEPATCH) !== 0n || name.startsWith('.klp.rela.'),
    ) ||
    OBJECT_SECTIONS.some((name) => image.section(name) !== undefined)
  );
}
