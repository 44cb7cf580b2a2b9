/**
 * Words of a linked file that are addresses of code: pointers to functions, tables of sites,
 * labels. The loader relocates them by the load address; without position-independent code they lie
 * in data as they are, where a number may look like one.
 */
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import type { Arch } from '../machine/arch.js';
import { isDynamic } from '../relocs/read.js';
import type { Address } from '../units.js';

interface Words {
  readonly image: ElfImage;
  readonly arch: Arch;
  readonly code: readonly { readonly bytes: Uint8Array; readonly address: Address }[];
}

/** Words that the loader relocates by where it loads the file: their addresses and values. */
function relocatedWords({ image, arch }: Words): Map<Address, Address> {
  const words = new Map<Address, Address>();
  const view = new ByteView(image.bytes, image.header.endian, 'relocated words');
  const { wordBytes } = image;
  const ones = (1n << BigInt(8 * wordBytes)) - 1n;
  const held = (address: Address): Address => {
    const at = image.fileOffsetOf(address);
    return at < 0 || at + wordBytes > image.bytes.length ? 0n : view.word(at, wordBytes);
  };
  for (const table of image.relocations) {
    if (!isDynamic(image, table)) continue;
    const { offset, type, addend, count, addends } = table;
    for (let row = 0; row < count; row++) {
      if (type[row] !== arch.relocationRoles.relative && type[row] !== elf.RELR_RELATIVE) continue;
      const at = offset[row]!;
      words.set(at, addends === 'row' ? addend[row]! & ones : held(at));
    }
  }
  return words;
}

/** Words of data that may be addresses of code, of a file that lies where it says. */
function wordsOfData({ image, code }: Words): Map<Address, Address> {
  const words = new Map<Address, Address>();
  const view = new ByteView(image.bytes, image.header.endian, 'words of data');
  const { wordBytes } = image;
  const first = code.reduce((least, { address }) => (address < least ? address : least), code[0]?.address ?? 0n);
  const end = code.reduce((most, { address, bytes }) => {
    const behind = address + BigInt(bytes.length);
    return behind > most ? behind : most;
  }, first);
  for (const { type, flags, offset, address, fileSize } of image.segments) {
    if (type !== elf.PT_LOAD || (flags & elf.PF_W) === 0) continue;
    const start = Number(-address & BigInt(wordBytes - 1));
    for (let at = start; at + wordBytes <= fileSize; at += wordBytes) {
      const value = view.word(offset + at, wordBytes);
      if (value >= first && value < end) words.set(address + BigInt(at), value);
    }
  }
  return words;
}

export interface CodeWords {
  /** Values by address. */
  readonly words: ReadonlyMap<Address, Address>;
  /** How many words have a value. */
  readonly counts: ReadonlyMap<Address, number>;
}

export function codeWords(program: Words & { readonly positionIndependent: boolean }): CodeWords {
  const words = program.positionIndependent ? relocatedWords(program) : wordsOfData(program);
  const counts = new Map<Address, number>();
  for (const value of words.values()) counts.set(value, (counts.get(value) ?? 0) + 1);
  return { words, counts };
}
