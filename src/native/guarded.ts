/**
 * Files that something holds against what they were: packed ones, whose code comes to be when they
 * run, and those with a signature behind them. What a program computes over its own text when it
 * runs is in its code alone, and is not seen here.
 */
import { ByteView } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { readModuleSignature } from '../elf/signature.js';

/** Why such a file is refused, for programs and for people. */
export interface Guard {
  readonly reason: 'packed' | 'signed';
  readonly message: string;
}

const UPX_MAGIC = 'UPX!';
/** UPX ends a file with a header of its own, within so many bytes. */
const UPX_TRAILER_BYTES = 64;

const hasText = (bytes: Uint8Array, at: number, text: string): boolean =>
  at >= 0 && at + text.length <= bytes.length && [...text].every((each, i) => bytes[at + i] === each.charCodeAt(0));

/** UPX writes its word behind the program headers, after a sum of 4 bytes, and at the end. */
function isUpx({ header, bytes }: ElfImage): boolean {
  if (hasText(bytes, header.phoff + header.phnum * header.phentsize + 4, UPX_MAGIC)) return true;
  for (let at = Math.max(0, bytes.length - UPX_TRAILER_BYTES); at < bytes.length; at++) {
    if (hasText(bytes, at, UPX_MAGIC)) return header.shnum === 0;
  }
  return false;
}

/** `AI` and 1 or 2 in what ELF leaves free of its first 16 bytes: a disk image lies behind. */
function isAppImage({ bytes }: ElfImage): boolean {
  const [first, second, type] = [8, 9, 10].map((at) => new ByteView(bytes, 'little').u8(at));
  return first === 0x41 && second === 0x49 && (type === 1 || type === 2);
}

/** What stands against a changed file, by its bytes; null: nothing that is known. */
export function guardOf(image: ElfImage): Guard | null {
  if (isUpx(image)) return { reason: 'packed', message: 'the file is packed by UPX: unpack it first (upx -d)' };
  if (isAppImage(image)) {
    return { reason: 'packed', message: 'the file is an AppImage: take the program out first (--appimage-extract)' };
  }
  if (readModuleSignature(image.bytes) !== null) {
    return { reason: 'signed', message: 'a signature of the file lies behind it, which a changed one does not have' };
  }
  return null;
}
