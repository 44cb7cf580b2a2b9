/**
 * What of a linked core's section table stays in its image, and the relocations that its linker
 * kept (--emit-relocs). Sections of a core keep their places; kept relocations name symbols by
 * number, and an image has a symbol table of its own, so they are written anew.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSection, RelocationTable } from '../elf/image.js';
import { ElftraceError } from '../errors.js';

const isAllocated = ({ flags }: ElfSection): boolean => (flags & elf.SHF_ALLOC) !== 0n;

/** Sections that an image gets anew, or that name symbols by numbers that change. */
function isReplaced(image: ElfImage, section: ElfSection): boolean {
  switch (section.type) {
    case elf.SHT_NULL:
    case elf.SHT_SYMTAB:
    case elf.SHT_SYMTAB_SHNDX:
    case elf.SHT_GROUP:
      return true;
    case elf.SHT_REL:
    case elf.SHT_RELA:
    case elf.SHT_STRTAB:
      return !isAllocated(section);
    default:
      return section.index === image.header.shstrndx;
  }
}

/** Sections of a linked core that are sections of its image as they are, in the order of both. */
export function stayingSections(image: ElfImage): readonly ElfSection[] {
  return image.sections.filter((section) => !isReplaced(image, section));
}

/** The relocations that the linker of a core kept. */
export function keptTables(image: ElfImage): readonly RelocationTable[] {
  if (image.header.type === elf.ET_REL) return [];
  return image.relocations.filter(({ section }) => section >= 0 && !isAllocated(image.sections[section]!));
}

/**
 * The bytes of a kept table with other symbol numbers.
 * @param numbers  new number of each symbol of `image.symbols`
 * @throws ElftraceError 'unsupported-form' for a table about other symbols, and for a number that
 *   its entries have no room for
 */
export function renumberedTable(image: ElfImage, table: RelocationTable, numbers: Uint32Array): Uint8Array {
  const section = image.sections[table.section]!;
  const bytes = image.contents(section).slice();
  const view = new ByteView(bytes, image.header.endian, section.name);
  const word = image.wordBytes;
  for (let row = 0; row < table.count; row++) {
    const symbol = table.symbol[row]!;
    if (symbol === 0) continue;
    const number = numbers[symbol]!;
    if (table.symbols !== image.symbols || (word === 4 && number > 0xff_ffff)) {
      throw new ElftraceError(
        'unsupported-form',
        `${section.name}: row ${row}: its symbol has no number in the image`,
        {
          section: section.name,
          value: symbol,
        },
      );
    }
    const at = table.fileOffset(row) - section.offset + word;
    const type = table.type[row]!;
    view.insertWord(at, word === 8 ? (BigInt(number) << 32n) | BigInt(type) : BigInt(number * 256 + type), word);
  }
  return bytes;
}
