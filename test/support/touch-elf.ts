/** Reads everything that an image offers, as a fuzzer's target. */
import { indexFunctions } from '../../src/elf/functions.js';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { readModuleSignature } from '../../src/elf/signature.js';
import { inPlaceAddend, placeFileOffset, sortRelocations } from '../../src/relocs/read.js';

/**
 * Reads the bytes and touches all columns, names, notes, groups and indices. Throws what the reader
 * throws.
 */
export function touchElf(bytes: Uint8Array): ElfImage {
  const image = readElf(bytes);
  for (const table of new Set([image.symbols, image.dynamicSymbols])) {
    const { count, value, size, info, other, sectionIndex } = table;
    for (const column of [value, size, info, other, sectionIndex]) {
      if (column.length !== count) throw new Error('column length');
    }
    for (let i = 0; i < count; i++) {
      table.name(i);
      const section = sectionIndex[i]!;
      if (image.sections.length > 0 && section < 0xffff_ff00 && section >= image.sections.length) {
        throw new Error('section index outside the table');
      }
    }
    if (count > 1) table.find(table.name(count - 1));
  }
  for (const table of image.relocations) {
    const { count, offset, type, symbol, addend } = table;
    for (const column of [offset, type, symbol, addend]) if (column.length !== count) throw new Error('column length');
    for (let row = 0; row < count; row++) {
      table.symbols?.name(symbol[row]!);
      table.fileOffset(row);
    }
  }
  image.notes();
  image.groups();
  void image.remarks;
  for (const section of image.sections) {
    const contents = image.contents(section);
    if (contents.length !== section.fileSize) throw new Error('contents shorter than the section');
    image.sectionsNamed(section.name);
    image.relocationsOf(section);
    image.sectionAt(section.address);
    image.fileOffsetOf(section.address);
    image.addressOf(section.offset);
  }
  const functions = indexFunctions(image);
  for (let row = 0; row < functions.functions.count; row++) {
    const start = functions.functions.start[row]!;
    functions.at(functions.functions.section[row]!, start + 1n);
    functions.next(functions.functions.section[row]!, start);
  }
  const tables = image.relocations.slice(0, 255);
  const sorted = sortRelocations(tables);
  for (let rank = 1; rank < sorted.count; rank++) {
    if (sorted.offset[rank - 1]! > sorted.offset[rank]!) throw new Error('relocations are not sorted');
  }
  for (const table of tables) {
    for (let row = 0; row < Math.min(table.count, 20); row++) {
      const at = placeFileOffset(image, table, row);
      if (at >= bytes.length) throw new Error('place outside the file');
      if (at >= 0) inPlaceAddend(image, table, row, image.wordBytes);
    }
  }
  readModuleSignature(bytes);
  return image;
}
