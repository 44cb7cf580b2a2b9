/**
 * What stands around a relocatable file where a proof lays it out: an object that gives an address
 * to each symbol which the file wants from elsewhere. The addresses belong to no part: a call of
 * one ends the trial there, in the original and in the patched file alike.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import type { Address } from '../units.js';

/** Undefined symbols of an object, weak ones left out: they may stay without an address. */
export function wantedSymbols(image: ElfImage): readonly string[] {
  const { symbols } = image;
  const names: string[] = [];
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] !== elf.SHN_UNDEF || symbols.info[i]! >> 4 === elf.STB_WEAK) continue;
    const name = symbols.name(i);
    if (name !== '') names.push(name);
  }
  return names;
}

interface Section {
  readonly name: string;
  readonly type: number;
  readonly flags: number;
  readonly bytes: Uint8Array;
  readonly align: number;
  readonly link?: number;
  readonly info?: number;
  readonly entry?: number;
}

/** Strings of a table, with where each begins; the empty one is at 0. */
function stringTable(names: readonly string[]): { readonly bytes: Uint8Array; readonly offsets: readonly number[] } {
  const encoder = new TextEncoder();
  const offsets: number[] = [];
  const parts: number[] = [0];
  for (const name of names) {
    offsets.push(name === '' ? 0 : parts.length);
    if (name !== '') parts.push(...encoder.encode(name), 0);
  }
  return { bytes: Uint8Array.from(parts), offsets };
}

/** Global absolute symbols, as words of the class and byte order of `like`. */
function symbolTable(like: ElfImage, names: readonly number[], addresses: readonly Address[]): Uint8Array {
  const isWide = like.wordBytes === 8;
  const size = isWide ? 24 : 16;
  const view = new ByteView(new Uint8Array(size * (1 + names.length)), like.header.endian, 'symbols');
  const info = (elf.STB_GLOBAL << 4) | elf.STT_NOTYPE;
  names.forEach((name, i) => {
    const at = size * (i + 1);
    view.insertU32(at, name);
    if (isWide) {
      view.bytes[at + 4] = info;
      view.insertU16(at + 6, elf.SHN_ABS);
      view.insertWord(at + 8, addresses[i]!, 8);
    } else {
      view.insertWord(at + 4, addresses[i]!, 4);
      view.bytes[at + 12] = info;
      view.insertU16(at + 14, elf.SHN_ABS);
    }
  });
  return view.bytes;
}

/** Bytes of a relocatable file of the machine of `like` with some sections; names come last. */
function relocatable(like: ElfImage, given: readonly Section[]): Uint8Array {
  const word = like.wordBytes;
  const names = stringTable(['', ...given.map(({ name }) => name), '.shstrtab']);
  const last: Section = { name: '.shstrtab', type: elf.SHT_STRTAB, flags: 0, bytes: names.bytes, align: 1 };
  const sections = [...given, last];
  const headerBytes = word === 8 ? 64 : 52;
  const rowBytes = word === 8 ? 64 : 40;
  let end = headerBytes;
  const offsets = sections.map(({ bytes, align }) => {
    const at = Math.ceil(end / align) * align;
    end = at + bytes.length;
    return at;
  });
  const table = Math.ceil(end / 8) * 8;
  const view = new ByteView(new Uint8Array(table + rowBytes * (sections.length + 1)), like.header.endian, 'neighbours');
  view.bytes.set(like.bytes.subarray(0, headerBytes));
  const words = (at: number, values: readonly number[]): void => {
    values.forEach((value, i) => {
      view.insertWord(at + word * i, BigInt(value), word);
    });
  };
  // Entry point, program headers and section headers; what the machine wants of e_flags stays.
  words(24, [0, 0, table]);
  const rest = 24 + 3 * word + 4;
  [headerBytes, 0, 0, rowBytes, sections.length + 1, sections.length].forEach((value, i) => {
    view.insertU16(rest + 2 * i, value);
  });
  sections.forEach((section, i) => {
    const at = table + rowBytes * (i + 1);
    view.bytes.set(section.bytes, offsets[i]);
    view.insertU32(at, names.offsets[i + 1]!);
    view.insertU32(at + 4, section.type);
    words(at + 8, [section.flags, 0, offsets[i]!, section.bytes.length]);
    view.insertU32(at + 8 + 4 * word, section.link ?? 0);
    view.insertU32(at + 12 + 4 * word, section.info ?? 0);
    words(at + 16 + 4 * word, [section.align, section.entry ?? 0]);
  });
  return view.bytes;
}

/**
 * A relocatable file that defines symbols at addresses, for the machine of `like`.
 * @param symbols  name and address of each
 */
export function neighbours(like: ElfImage, symbols: ReadonlyMap<string, Address>): ElfImage {
  const names = stringTable([...symbols.keys()]);
  const table = symbolTable(like, names.offsets, [...symbols.values()]);
  const text = new Uint8Array(16);
  const sections: Section[] = [
    { name: '.text', type: elf.SHT_PROGBITS, flags: Number(elf.SHF_ALLOC | elf.SHF_EXECINSTR), bytes: text, align: 16 },
    {
      ...{ name: '.symtab', type: elf.SHT_SYMTAB, flags: 0, bytes: table, align: 8 },
      ...{ link: 3, info: 1, entry: table.length / (1 + symbols.size) },
    },
    { name: '.strtab', type: elf.SHT_STRTAB, flags: 0, bytes: names.bytes, align: 1 },
  ];
  return readElf(relocatable(like, sections));
}
