/** Whether indirect branches in an image must find landing pads, and whether one does (M-PAD-5). */
import type { Arch } from '../machine/arch.js';
import type { LandingPads } from '../machine/landing-pads.js';
import { gnuProperty } from '../elf/gnu-property.js';
import type { ElfImage } from '../elf/image.js';
import { hex } from '../errors.js';
import type { Address } from '../units.js';

/**
 * The pads that the processor asks for in the code of an executable, or that an object is made
 * with; null: it asks for none.
 */
export function checkedPads(image: ElfImage, { landingPads }: Arch): LandingPads | null {
  if (landingPads === null) return null;
  const { propertyType, propertyBit } = landingPads;
  return (gnuProperty(image, propertyType) & propertyBit) === 0 ? null : landingPads;
}

/**
 * Why an indirect branch to a function traps; null: it does not.
 * @param word  the first instruction, -1 where none can be read
 */
export function landingProblem(pads: LandingPads | null, name: string, address: Address, word: number): string | null {
  if (pads === null || (word >= 0 && pads.isPad(word))) return null;
  return (
    `${name} at ${hex(address)} does not begin with ${pads.title}, and the image says that indirect branches need it: ` +
    'compile it with branch protection, or write the instruction'
  );
}
