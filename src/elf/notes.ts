/**
 * Notes and section groups, read out of extents that were checked before. gABI 4.1 "Note Section",
 * "Section Groups".
 */
import type { ByteView } from '../bytes.js';
import { cString } from '../bytes.js';
import { ElftraceError, malformed, truncated } from '../errors.js';
import { GRP_COMDAT, STT_SECTION } from './constants.js';
import type { ElfGroup, ElfNote, ElfSection, SymbolTable } from './image.js';

/**
 * The notes in `[offset, offset + size)`. Words are 4 bytes in both classes; descriptor and next
 * note are aligned to 4, or to 8 where the holder is (`.note.gnu.property` of 64-bit files).
 * @param holder section or segment number that goes into the rows
 */
export function readNotes(
  view: ByteView,
  what: string,
  holder: number,
  offset: number,
  size: number,
  alignBytes: bigint,
): ElfNote[] {
  const align = alignBytes === 8n ? 8 : 4;
  const up = (value: number): number => Math.ceil(value / align) * align;
  const notes: ElfNote[] = [];
  let at = 0;
  while (at < size) {
    if (size - at < 12) {
      // Zero padding behind the last note.
      if (view.bytes.subarray(offset + at, offset + size).every((byte) => byte === 0)) break;
      throw truncated(`${what}: note ${notes.length}`, offset + at, 12, offset + size);
    }
    const nameBytes = view.u32(offset + at);
    const descriptorBytes = view.u32(offset + at + 4);
    const type = view.u32(offset + at + 8);
    const descriptorAt = up(at + 12 + nameBytes);
    if (at + 12 + nameBytes > size || (descriptorBytes > 0 && descriptorAt + descriptorBytes > size)) {
      throw truncated(`${what}: note ${notes.length}`, offset + at, descriptorAt - at + descriptorBytes, offset + size);
    }
    notes.push({
      owner: cString(view.bytes, offset + at + 12, offset + at + 12 + nameBytes),
      type,
      descriptor: view.bytes.subarray(offset + descriptorAt, offset + descriptorAt + descriptorBytes),
      offset: offset + descriptorAt,
      section: holder,
    });
    at = up(descriptorAt + descriptorBytes);
  }
  return notes;
}

/**
 * One SHT_GROUP section: a word of flags, then section numbers. The signature is the name of symbol
 * sh_info of sh_link, or the name of its section where that is a section symbol without a name.
 */
export function readGroup(
  view: ByteView,
  section: ElfSection,
  sections: readonly ElfSection[],
  symbols: SymbolTable | undefined,
): ElfGroup {
  const what = `section ${section.index} (${section.name})`;
  if (section.fileSize < 4 || section.fileSize % 4 !== 0) {
    throw malformed(`${what}: group size`, `${section.fileSize} bytes hold no flags and section numbers`, {
      value: section.fileSize,
    });
  }
  if (symbols === undefined) throw badMember(`${what}: sh_link`, section.link, 'is no symbol table');
  if (section.info >= symbols.count) throw badMember(`${what}: sh_info`, section.info, 'is no symbol of the table');
  const members: number[] = [];
  for (let at = section.offset + 4; at < section.offset + section.fileSize; at += 4) {
    const member = view.u32(at);
    if (member === 0 || member >= sections.length) throw badMember(`${what}: member`, member, 'is no section');
    members.push(member);
  }
  let signature = symbols.name(section.info);
  if (signature === '' && (symbols.info[section.info]! & 15) === STT_SECTION) {
    signature = sections[symbols.sectionIndex[section.info]!]?.name ?? '';
  }
  return { section: section.index, comdat: (view.u32(section.offset) & GRP_COMDAT) !== 0, signature, members };
}

function badMember(what: string, value: number, cause: string): ElftraceError {
  return new ElftraceError('bad-reference', `${what}: ${value} ${cause}`, { what, value });
}
