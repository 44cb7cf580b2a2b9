/** What a kernel module is called. */
import type { ElfImage } from '../elf/image.js';
import { moduleInfo } from '../elf/modinfo.js';

/** `name=` of `.modinfo`, else the file name of a `.ko`; null for what is no module. */
export function moduleName(image: ElfImage, path: string): string | null {
  const named = moduleInfo(image, 'name');
  if (named !== null) return named;
  const match = /^(.+?)\.ko(\.(gz|xz|zst))?$/.exec(path.slice(path.lastIndexOf('/') + 1));
  return match ? match[1]!.replaceAll('-', '_') : null;
}
