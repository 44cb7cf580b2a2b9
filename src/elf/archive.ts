/**
 * `ar` archives: the list of members, with the long names of GNU (`//` table, `/123`) and BSD (`#1/20`), and replacing a
 * member by one of the same size. Members are views; nested archives are read by calling again. System V and BSD formats
 * as in ar(5); thin archives (GNU, names only) are refused, because their members are other files.
 */
import { cString } from '../bytes.js';
import { ElftraceError, malformed, truncated } from '../errors.js';

export interface ArchiveMember {
  readonly name: string;
  /** Position of the contents in the archive, bytes. */
  readonly offset: number;
  readonly size: number;
  /** `symbols`: the archive's index (`/`, `/SYM64/`, `__.SYMDEF`), not a file. */
  readonly kind: 'file' | 'symbols';
}

const MAGIC = '!<arch>\n';
const THIN_MAGIC = '!<thin>\n';
const HEADER_BYTES = 60;

function startsWith(bytes: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[i] !== text.charCodeAt(i)) return false;
  return true;
}

/** True for the magic of an archive, also of a thin one (which `readArchive` refuses with the reason). */
export function isArchive(bytes: Uint8Array): boolean {
  return startsWith(bytes, MAGIC) || startsWith(bytes, THIN_MAGIC);
}

/**
 * Members of an archive in file order; the table of long names is resolved and not listed.
 * @throws ElftraceError 'not-elf' (no archive), 'unsupported-form' (thin), 'elf-truncated', 'elf-malformed', 'bad-reference'
 */
export function readArchive(bytes: Uint8Array): readonly ArchiveMember[] {
  if (startsWith(bytes, THIN_MAGIC)) {
    throw new ElftraceError('unsupported-form', 'thin archive: its members are other files; pass those files', {
      what: 'archive',
      fileOffset: 0,
    });
  }
  if (!startsWith(bytes, MAGIC)) {
    throw new ElftraceError('not-elf', 'the file does not begin with "!<arch>"', { what: 'archive', fileOffset: 0 });
  }
  const members: ArchiveMember[] = [];
  let longNames: { readonly offset: number; readonly size: number } | null = null;
  let at = MAGIC.length;
  while (at < bytes.length) {
    const what = `archive member at ${at}`;
    if (at + HEADER_BYTES > bytes.length) {
      // One byte of padding may follow the last member.
      if (bytes.length - at === 1 && bytes[at] === 0x0a) break;
      throw truncated(what, at, HEADER_BYTES, bytes.length);
    }
    if (bytes[at + 58] !== 0x60 || bytes[at + 59] !== 0x0a) {
      throw malformed(what, 'its header does not end in "`\\n"', { fileOffset: at + 58 });
    }
    const rawName = text(bytes, at, 16);
    const sizeText = text(bytes, at + 48, 10);
    if (!/^\d+$/.test(sizeText))
      throw malformed(`${what}: size`, `"${sizeText}" is no number`, { fileOffset: at + 48 });
    const stored = Number(sizeText);
    let offset = at + HEADER_BYTES;
    let size = stored;
    if (offset + stored > bytes.length) throw truncated(`${what}: contents`, offset, stored, bytes.length);

    let name: string;
    let kind: ArchiveMember['kind'] = 'file';
    if (rawName === '//') {
      longNames = { offset, size };
      at = offset + stored + (stored & 1);
      continue;
    }
    if (rawName === '/' || rawName === '/SYM64/') {
      name = rawName;
      kind = 'symbols';
    } else if (/^\/\d+$/.test(rawName)) {
      name = longName(bytes, longNames, Number(rawName.slice(1)), what);
    } else if (/^#1\/\d+$/.test(rawName)) {
      const nameBytes = Number(rawName.slice(3));
      if (nameBytes > stored) throw truncated(`${what}: name`, offset, nameBytes, offset + stored);
      name = cString(bytes, offset, offset + nameBytes);
      offset += nameBytes;
      size -= nameBytes;
      if (name.startsWith('__.SYMDEF')) kind = 'symbols';
    } else {
      name = rawName.endsWith('/') ? rawName.slice(0, -1) : rawName;
      if (rawName.startsWith('__.SYMDEF')) kind = 'symbols';
    }
    members.push({ name, offset, size, kind });
    at += HEADER_BYTES + stored + (stored & 1);
  }
  return members;
}

/** A header field: ASCII, padded with blanks. */
function text(bytes: Uint8Array, offset: number, size: number): string {
  return cString(bytes, offset, offset + size).trimEnd();
}

/** GNU: an offset into the `//` member, whose names end in "/\n" (or in NUL in archives of other systems). */
function longName(
  bytes: Uint8Array,
  table: { readonly offset: number; readonly size: number } | null,
  index: number,
  what: string,
): string {
  if (table === null || index >= table.size) {
    throw new ElftraceError('bad-reference', `${what}: name /${index} is outside the table of long names`, {
      what,
      value: index,
      max: table === null ? 0 : table.size - 1,
    });
  }
  const start = table.offset + index;
  const end = table.offset + table.size;
  let stop = start;
  while (stop < end && bytes[stop] !== 0x0a && bytes[stop] !== 0) stop++;
  if (stop > start && bytes[stop - 1] === 0x2f) stop--;
  return cString(bytes, start, stop);
}

/** The bytes of a member: a view. */
export function memberBytes(archive: Uint8Array, member: ArchiveMember): Uint8Array {
  return archive.subarray(member.offset, member.offset + member.size);
}

/**
 * The archive with one member's contents replaced, fresh. Only same-size replacement is possible: offsets in the symbol
 * table and in other members stay true.
 * @throws ElftraceError 'unsupported-form' for contents of another size
 */
export function replaceMember(archive: Uint8Array, member: ArchiveMember, contents: Uint8Array): Uint8Array {
  if (contents.length !== member.size) {
    throw new ElftraceError(
      'unsupported-form',
      `archive member ${member.name}: ${contents.length} bytes cannot replace ${member.size} in place`,
      { what: member.name, value: contents.length, expected: String(member.size) },
    );
  }
  const out = new Uint8Array(archive);
  out.set(contents, member.offset);
  return out;
}
