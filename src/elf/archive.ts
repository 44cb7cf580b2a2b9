/**
 * `ar` archives: the list of members, with the long names of GNU (`//` table, `/123`) and BSD
 * (`#1/20`), and replacing a member by one of the same size. Members are views; nested archives are
 * read by calling again. System V and BSD formats as in ar(5); thin archives (GNU, names only) are
 * refused, because their members are other files. An archive that arrives piece by piece is read
 * member by member.
 */
import { cString } from '../bytes.js';
import { ElftraceError, malformed, truncated } from '../errors.js';
import { limitExceeded } from '../limits/index.js';
import { Arriving } from './arriving.js';

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

/**
 * True for the magic of an archive, also of a thin one (which `readArchive` refuses with the
 * reason).
 */
export function isArchive(bytes: Uint8Array): boolean {
  return startsWith(bytes, MAGIC) || startsWith(bytes, THIN_MAGIC);
}

/** @throws ElftraceError 'unsupported-form' for a thin archive, 'not-elf' for what is none */
function checkMagic(bytes: Uint8Array): void {
  if (startsWith(bytes, THIN_MAGIC)) {
    throw new ElftraceError('unsupported-form', 'thin archive: its members are other files; pass those files', {
      what: 'archive',
      fileOffset: 0,
    });
  }
  if (!startsWith(bytes, MAGIC)) {
    throw new ElftraceError('not-elf', 'the file does not begin with "!<arch>"', { what: 'archive', fileOffset: 0 });
  }
}

/** The header of a member; its name still refers to other places. */
interface Header {
  readonly what: string;
  readonly rawName: string;
  /** Bytes behind the header, padding left out. */
  readonly stored: number;
  /** Bytes of a BSD name that stands in front of the contents. */
  readonly nameBytes: number;
}

/** @param at  where it stands in the archive */
function headerOf(header: Uint8Array, at: number): Header {
  const what = `archive member at ${at}`;
  if (header[58] !== 0x60 || header[59] !== 0x0a) {
    throw malformed(what, 'its header does not end in "`\\n"', { fileOffset: at + 58 });
  }
  const rawName = text(header, 0, 16);
  const sizeText = text(header, 48, 10);
  if (!/^\d+$/.test(sizeText)) throw malformed(`${what}: size`, `"${sizeText}" is no number`, { fileOffset: at + 48 });
  const stored = Number(sizeText);
  const nameBytes = /^#1\/\d+$/.test(rawName) ? Number(rawName.slice(3)) : 0;
  return { what, rawName, stored, nameBytes };
}

/** Name and kind; null for the table of long names. */
function memberOf(
  { rawName, what }: Header,
  bsdName: Uint8Array,
  longNames: Uint8Array | null,
): Pick<ArchiveMember, 'name' | 'kind'> | null {
  if (rawName === '//') return null;
  if (rawName === '/' || rawName === '/SYM64/') return { name: rawName, kind: 'symbols' };
  if (/^\/\d+$/.test(rawName)) return { name: longName(longNames, Number(rawName.slice(1)), what), kind: 'file' };
  const name =
    bsdName.length > 0 ? cString(bsdName, 0, bsdName.length) : rawName.endsWith('/') ? rawName.slice(0, -1) : rawName;
  return { name, kind: name.startsWith('__.SYMDEF') ? 'symbols' : 'file' };
}

/**
 * Members of an archive in file order; the table of long names is resolved and not listed.
 * @throws ElftraceError 'not-elf' (no archive), 'unsupported-form' (thin), 'elf-truncated',
 *   'elf-malformed', 'bad-reference'
 */
export function readArchive(bytes: Uint8Array): readonly ArchiveMember[] {
  checkMagic(bytes);
  const members: ArchiveMember[] = [];
  let longNames: Uint8Array | null = null;
  let at = MAGIC.length;
  while (at < bytes.length) {
    const start = at + HEADER_BYTES;
    if (start > bytes.length) {
      // One byte of padding may follow the last member.
      if (bytes.length - at === 1 && bytes[at] === 0x0a) break;
      throw truncated(`archive member at ${at}`, at, HEADER_BYTES, bytes.length);
    }
    const header = headerOf(bytes.subarray(at, start), at);
    const { what, stored, nameBytes } = header;
    if (start + stored > bytes.length) throw truncated(`${what}: contents`, start, stored, bytes.length);
    if (nameBytes > stored) throw truncated(`${what}: name`, start, nameBytes, start + stored);
    const offset = start + nameBytes;
    const member = memberOf(header, bytes.subarray(start, offset), longNames);
    if (member === null) longNames = bytes.subarray(start, start + stored);
    else members.push({ ...member, offset, size: stored - nameBytes });
    at = start + stored + (stored & 1);
  }
  return members;
}

/** A member of an archive that arrives piece by piece. */
export interface StreamedMember {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/**
 * The file members that begin with `magic`, one after another; of the archive, only the one that
 * was given out last is in memory.
 * @param limitBytes  most that one of them, or the table of names, may have
 * @throws ElftraceError as `readArchive`, 'limit-exceeded', and what `pieces` throws, from taking
 *   the next one
 */
export async function* streamArchive(
  pieces: AsyncIterable<Uint8Array>,
  magic: Uint8Array,
  limitBytes: number,
): AsyncGenerator<StreamedMember> {
  const input = new Arriving(pieces[Symbol.asyncIterator]());
  checkMagic(await input.take(MAGIC.length));
  let longNames: Uint8Array | null = null;
  const exactly = (size: number, what: string): Promise<Uint8Array> => input.exactly(size, what, limitBytes);
  while (await input.more()) {
    const at = input.at;
    const head = await input.take(HEADER_BYTES);
    if (head.length === 1 && head[0] === 0x0a) return;
    if (head.length < HEADER_BYTES) throw truncated(`archive member at ${at}`, at, HEADER_BYTES, input.at);
    const header = headerOf(head, at);
    const { what, stored, nameBytes } = header;
    if (nameBytes > stored) throw truncated(`${what}: name`, input.at, nameBytes, input.at + stored);
    const member = memberOf(header, await exactly(nameBytes, `${what}: name`), longNames);
    const size = stored - nameBytes;
    if (member === null) longNames = await exactly(size, `${what}: long names`);
    else {
      const first = await exactly(Math.min(magic.length, size), `${what}: contents`);
      const rest = size - first.length;
      if (member.kind === 'file' && first.length === magic.length && magic.every((byte, i) => byte === first[i])) {
        yield { name: member.name, bytes: await contentsOf(input, first, size, limitBytes, member.name) };
      } else if ((await input.skip(rest)) < rest) throw truncated(`${what}: contents`, at, stored, input.at);
    }
    await input.skip(stored & 1);
  }
}

/** Contents of a member whose first bytes were looked at. */
async function contentsOf(
  input: Arriving,
  first: Uint8Array,
  size: number,
  limitBytes: number,
  name: string,
): Promise<Uint8Array> {
  const start = input.at - first.length;
  if (size > limitBytes) throw limitExceeded('unpacked', name, limitBytes, { value: size, fileOffset: start });
  const bytes = new Uint8Array(size);
  bytes.set(first);
  const got = await input.takeInto(bytes, first.length);
  if (got < size - first.length) throw truncated(`archive member ${name}: contents`, start, size, input.at);
  return bytes;
}

/** A header field: ASCII, padded with blanks. */
function text(bytes: Uint8Array, offset: number, size: number): string {
  return cString(bytes, offset, offset + size).trimEnd();
}

/**
 * GNU: an offset into the `//` member, whose names end in "/\n" (or in NUL in archives of other
 * systems).
 */
function longName(table: Uint8Array | null, index: number, what: string): string {
  if (table === null || index >= table.length) {
    throw new ElftraceError('bad-reference', `${what}: name /${index} is outside the table of long names`, {
      what,
      value: index,
      max: table === null ? 0 : table.length - 1,
    });
  }
  let stop = index;
  while (stop < table.length && table[stop] !== 0x0a && table[stop] !== 0) stop++;
  if (stop > index && table[stop - 1] === 0x2f) stop--;
  return cString(table, index, stop);
}

/** The bytes of a member: a view. */
export function memberBytes(archive: Uint8Array, member: ArchiveMember): Uint8Array {
  return archive.subarray(member.offset, member.offset + member.size);
}

/**
 * The archive with one member's contents replaced, fresh. Only same-size replacement is possible:
 * offsets in the symbol table and in other members stay true.
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
