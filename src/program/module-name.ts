/** What a kernel module is called. */
import { cString } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';

/** `name=` of `.modinfo`, else the file name of a `.ko`; null for what is no module. */
export function moduleName(image: ElfImage, path: string): string | null {
  const info = image.section('.modinfo');
  if (info) {
    const bytes = image.contents(info);
    for (let at = 0; at < bytes.length;) {
      const text = cString(bytes, at, bytes.length);
      if (text.startsWith('name=')) return text.slice(5);
      const end = bytes.indexOf(0, at);
      if (end < 0) break;
      at = end + 1;
    }
  }
  const match = /^(.+?)\.ko(\.(gz|xz|zst))?$/.exec(path.slice(path.lastIndexOf('/') + 1));
  return match ? match[1]!.replaceAll('-', '_') : null;
}
