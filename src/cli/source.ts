/** Files that become parts of an image. */
import { basename } from 'node:path';
import type { Arch } from '../machine/arch.js';
import { loadArch, targetOf } from '../targets.js';
import { readElf } from '../elf/read.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import { moduleName } from '../program/module-name.js';
import type { Source } from '../program/loader.js';
import { readInput } from './files.js';

/** A part's name: that of the module, else the file's without its ending. */
function partName(image: ElfImage, path: string): string {
  return moduleName(image, path) ?? basename(path).replace(/\.(o|ko|elf)$/, '');
}

/** A file that becomes a part. */
export async function sourceOf(path: string, arch: Arch | null): Promise<Source> {
  const input = await readInput(path);
  const image = readElf(input.bytes);
  const target = targetOf(image.header);
  if (arch !== null && target !== arch.target.id) {
    const { title } = (await loadArch(image.header)).target;
    throw new ElftraceError('usage', `${path} is of ${title}, the core of ${arch.target.title}`, {
      file: path,
    });
  }
  return { name: partName(image, path), image };
}
