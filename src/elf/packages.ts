/**
 * Packages of distributions: `.deb` (deb(5): an `ar` archive with a tar inside) and `.rpm` (RPM V3
 * and V4 package format: lead, two headers, a cpio archive), both compressed. Their files are given
 * out one by one while the package is unpacked; none is larger in memory than is allowed.
 */
import { ByteView, cString } from '../bytes.js';
import { ElftraceError, malformed, truncated } from '../errors.js';
import { memberBytes, readArchive, type StreamedMember } from './archive.js';
import { Arriving } from './arriving.js';
import { type CompressedForm, compressedForm, type UnpackLimits, unpackPieces } from './compressed.js';
import { isRpm } from './package-heads.js';

/** Whether a file of a package is wanted, from its name and its first bytes. */
export type Wanted = (name: string, first: Uint8Array) => boolean;

/** Bytes that `Wanted` is shown. */
const FIRST_BYTES = 8;
/** Names that are longer are none. */
const MOST_NAME_BYTES = 1 << 16;

const payloadOf = (bytes: Uint8Array): Payload => (isRpm(bytes) ? rpmPayload(bytes) : debPayload(bytes));

/** What the files of a package are packed by. @throws ElftraceError as `packageFiles` */
export function packageForm(bytes: Uint8Array): CompressedForm {
  return compressedForm(payloadOf(bytes).payload);
}

/**
 * The files of a package that are wanted, in its order.
 * @param limits  `unpacked` is for each file, as the package itself is never in memory as a whole
 * @throws ElftraceError 'elf-truncated', 'elf-malformed', 'limit-exceeded', 'timeout';
 *   'unsupported-form' where the payload is compressed otherwise than by gzip, xz or zstd
 */
export async function* packageFiles(
  bytes: Uint8Array,
  wanted: Wanted,
  limits: UnpackLimits & { readonly unpacked: number },
): AsyncGenerator<StreamedMember> {
  const { payload, kind } = payloadOf(bytes);
  const { unpacked, ...rest } = limits;
  const input = new Arriving(piecesOf(payload, rest)[Symbol.asyncIterator]());
  yield* kind === 'tar' ? tarFiles(input, wanted, unpacked) : cpioFiles(input, wanted, unpacked);
}

async function* piecesOf(payload: Uint8Array, limits: UnpackLimits): AsyncGenerator<Uint8Array> {
  if (compressedForm(payload) === 'none') yield payload;
  else yield* unpackPieces(payload, limits);
}

interface Payload {
  readonly payload: Uint8Array;
  readonly kind: 'tar' | 'cpio';
}

const unsupported = (what: string, compressor: string): ElftraceError =>
  new ElftraceError('unsupported-form', `${what}: packed by ${compressor}, which is not served (gzip, xz, zstd are)`, {
    what,
    actual: compressor,
  });

function debPayload(bytes: Uint8Array): Payload {
  const member = readArchive(bytes).find(({ name }) => name === 'data.tar' || name.startsWith('data.tar.'));
  if (member === undefined) throw malformed('Debian package', 'it has no member data.tar');
  const payload = memberBytes(bytes, member);
  const what = `Debian package: ${member.name}`;
  if (compressedForm(payload) === 'none' && member.name !== 'data.tar') throw unsupported(what, member.name.slice(9));
  return { payload, kind: 'tar' };
}

const RPM_LEAD_BYTES = 96;
const RPM_PAYLOAD_COMPRESSOR = 1125;
const RPM_STRING = 6;

/** Where a header ends, and what it says of the compressor. */
function rpmHeader(bytes: Uint8Array, at: number, what: string): { end: number; compressor: string } {
  if (at + 16 > bytes.length) throw truncated(what, at, 16, bytes.length);
  const view = new ByteView(bytes, 'big', what);
  if (view.u32(at) !== 0x8ead_e801) throw malformed(what, 'it does not begin with its magic', { fileOffset: at });
  const entries = view.u32(at + 8);
  const data = at + 16 + 16 * entries;
  const end = data + view.u32(at + 12);
  if (end > bytes.length) throw truncated(what, at, end - at, bytes.length);
  for (let i = 0; i < entries; i++) {
    const entry = at + 16 + 16 * i;
    if (view.u32(entry) !== RPM_PAYLOAD_COMPRESSOR || view.u32(entry + 4) !== RPM_STRING) continue;
    const start = data + view.u32(entry + 8);
    if (start >= end) throw malformed(what, 'an entry reaches past its end', { fileOffset: entry });
    return { end, compressor: cString(bytes, start, end) };
  }
  return { end, compressor: '' };
}

function rpmPayload(bytes: Uint8Array): Payload {
  const signature = rpmHeader(bytes, RPM_LEAD_BYTES, 'rpm signature');
  const { end, compressor } = rpmHeader(bytes, Math.ceil(signature.end / 8) * 8, 'rpm header');
  const payload = bytes.subarray(end);
  const isPlain = compressedForm(payload) === 'none';
  if (isPlain && payload.length > 0 && payload[0] !== 0x30) {
    throw unsupported('rpm payload', compressor === '' ? 'an unknown program' : compressor);
  }
  return { payload, kind: 'cpio' };
}

/** A file whose size is known: its bytes where it is wanted, else it is passed over. */
async function fileOf(
  input: Arriving,
  name: string,
  size: number,
  wanted: Wanted,
  limitBytes: number,
): Promise<StreamedMember | null> {
  const what = `${name}: contents`;
  const first = await input.exactly(Math.min(size, FIRST_BYTES), what, limitBytes);
  if (!wanted(name, first)) {
    await input.skipExactly(size - first.length, what);
    return null;
  }
  const rest = await input.exactly(size - first.length, what, limitBytes);
  const bytes = new Uint8Array(size);
  bytes.set(first);
  bytes.set(rest, first.length);
  return { name, bytes };
}

const BLOCK = 512;

/** A number of a tar header: octal digits, or base 256 where the first bit is set (GNU). */
function tarNumber(header: Uint8Array, offset: number, size: number, what: string): number {
  if ((header[offset]! & 0x80) !== 0) {
    let value = header[offset]! & 0x7f;
    for (let i = 1; i < size; i++) value = value * 256 + header[offset + i]!;
    if (!Number.isSafeInteger(value)) throw malformed(what, 'a number is too large');
    return value;
  }
  const text = cString(header, offset, offset + size).trim();
  if (!/^[0-7]*$/.test(text)) throw malformed(what, `"${text}" is no octal number`);
  return text === '' ? 0 : parseInt(text, 8);
}

function checkTarHeader(header: Uint8Array, what: string): void {
  // The field itself counts as blanks.
  let sum = 8 * 0x20;
  header.forEach((byte, i) => (sum += i >= 148 && i < 156 ? 0 : byte));
  const stored = tarNumber(header, 148, 8, what);
  if (sum !== stored) throw malformed(what, `the checksum is ${sum}, the header says ${stored}`);
}

/** Records `LENGTH KEY=VALUE\n` of a pax header (POSIX.1-2001, pax). */
function paxRecords(bytes: Uint8Array, what: string): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < bytes.length;) {
    const blank = bytes.indexOf(0x20, at);
    const length = Number(new TextDecoder('latin1').decode(bytes.subarray(at, Math.max(blank, at))));
    const end = at + length;
    if (blank < 0 || !Number.isInteger(length) || end > bytes.length || end <= blank) {
      throw malformed(what, 'a record has a length that cannot be');
    }
    const text = cString(bytes, blank + 1, end - 1);
    const sign = text.indexOf('=');
    if (sign > 0) records.set(text.slice(0, sign), text.slice(sign + 1));
    at = end;
  }
  return records;
}

/** What is told in front of a header about the file behind it. */
interface TarNotes {
  readonly name?: string;
  readonly size?: number;
}

async function* tarFiles(input: Arriving, wanted: Wanted, limitBytes: number): AsyncGenerator<StreamedMember> {
  let notes: TarNotes = {};
  for (;;) {
    const what = `tar header at ${input.at}`;
    const header = await input.exactly(BLOCK, what, limitBytes);
    if (header.every((byte) => byte === 0)) break;
    checkTarHeader(header, what);
    const type = String.fromCharCode(header[156]!);
    const stored = tarNumber(header, 124, 12, `${what}: size`);
    const size = notes.size ?? stored;
    const padding = (BLOCK - (size % BLOCK)) % BLOCK;
    if (type === 'L' || type === 'x') {
      const bytes = await input.exactly(size, `${what}: name`, Math.min(limitBytes, MOST_NAME_BYTES));
      notes = type === 'L' ? { ...notes, name: cString(bytes, 0, bytes.length) } : paxNotes(notes, bytes, what);
      await input.skipExactly(padding, what);
      continue;
    }
    const prefix = cString(header, 257, 263) === 'ustar' ? cString(header, 345, 500) : '';
    const plain = cString(header, 0, 100);
    const name = notes.name ?? (prefix === '' ? plain : `${prefix}/${plain}`);
    notes = {};
    // Links, devices and directories have no contents, whatever their size says.
    if (/[1-6]/.test(type)) continue;
    const isFile = type === '0' || type === '\0' || type === '7';
    const file = await fileOf(input, name, size, isFile ? wanted : () => false, limitBytes);
    if (file !== null) yield file;
    await input.skipExactly(padding, `${name}: padding`);
  }
  await input.drain();
}

function paxNotes(notes: TarNotes, bytes: Uint8Array, what: string): TarNotes {
  const records = paxRecords(bytes, what);
  const name = records.get('path');
  const size = records.get('size');
  if (size !== undefined && !(/^\d+$/.test(size) && Number.isSafeInteger(Number(size)))) {
    throw malformed(what, `"${size}" is no size`);
  }
  return { ...notes, ...(name === undefined ? {} : { name }), ...(size === undefined ? {} : { size: Number(size) }) };
}

const CPIO_HEADER_BYTES = 110;
const S_IFMT = 0o170000;
const S_IFREG = 0o100000;

async function* cpioFiles(input: Arriving, wanted: Wanted, limitBytes: number): AsyncGenerator<StreamedMember> {
  for (;;) {
    const what = `cpio header at ${input.at}`;
    const header = await input.exactly(CPIO_HEADER_BYTES, what, limitBytes);
    const text = new TextDecoder('latin1').decode(header);
    if (text.startsWith('07070X')) throw unsupported(what, 'rpm for files above 4 GiB');
    if (!/^07070[12][0-9a-f]{104}$/i.test(text)) throw malformed(what, 'it is no header of the new ASCII format');
    /** Eight hexadecimal digits each, behind the magic. */
    const field = (index: number): number => parseInt(text.slice(6 + 8 * index, 14 + 8 * index), 16);
    const [mode, size, nameBytes] = [field(1), field(6), field(11)];
    const raw = await input.exactly(nameBytes, `${what}: name`, Math.min(limitBytes, MOST_NAME_BYTES));
    const name = cString(raw, 0, raw.length);
    await input.skipExactly(-(CPIO_HEADER_BYTES + nameBytes) & 3, what);
    if (name === 'TRAILER!!!') break;
    const isFile = (mode & S_IFMT) === S_IFREG;
    const file = await fileOf(input, name, size, isFile ? wanted : () => false, limitBytes);
    if (file !== null) yield file;
    await input.skipExactly(-size & 3, `${name}: padding`);
  }
  await input.drain();
}
