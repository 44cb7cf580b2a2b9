/**
 * The record that travels with a patched file (RT-6, RT-7): a note, owner
 * `elftrace`, in a section `.note.elftrace`, from which the original is restored byte for byte.
 *
 * Note descriptor, little-endian whatever the target is, so that one reader serves all:
 *
 *   offset  size  contents
 *        0     8  magic `ELFTRCJ1`
 *        8     4  size of the JSON header, bytes (H)
 *       12     H  JSON header, UTF-8 (see RecordHeader)
 *     12+H     …  journal: varints and bytes, see below
 *
 * Journal: varint P, then P pairs {varint size, before bytes, after bytes}; varint N, then N edits
 * {varint offset minus the end of the previous edit, varint pair}. Sites of one kind share their
 * pair, so 60,000 edits take about three bytes each. Then varint T and the T bytes that stood
 * behind the ELF image and were cut (a module signature).
 *
 * What is *wanted* comes from here; what the text *is* always comes from the bytes. Where they
 * disagree nothing is written.
 */
import { ByteView, cString, equalBytes, holdsAt } from '../bytes.js';
import { PT_LOAD } from '../elf/constants.js';
import type { ElfImage, ElfNote } from '../elf/image.js';
import { readNotes } from '../elf/notes.js';
import { ElftraceError, hex } from '../errors.js';
import type { Endian } from '../units.js';
import type { JournalEdit } from './edit-columns.js';
import { decodeGone, type GoneModule, isSavedGone, type SavedGone } from './gone-modules.js';

export const recordOwner = 'elftrace';
export const recordSection = '.note.elftrace';
export const recordNoteType = 1;
export const recordSchema = 1;
export const recordMagic: Uint8Array = new TextEncoder().encode('ELFTRCJ1');

const enableEntryPrefix = 'enable entry ';

/** How a record names the request that gave sites of a relocatable file a call of a symbol. */
export function enableEntry(symbol: string): string {
  return `${enableEntryPrefix}${symbol}`;
}

/** Symbols that recorded requests made sites call. */
export function enabledEntries({ requests }: FileRecord): string[] {
  return requests.flatMap((each) => (each.startsWith(enableEntryPrefix) ? [each.slice(enableEntryPrefix.length)] : []));
}

export interface FileRecord {
  readonly schema: number;
  /** Version of the tool that wrote the record. */
  readonly tool: string;
  /** SHA-256 of the original file, trailing data included, lower-case hex. */
  readonly sha256: string;
  /** Size of the original file, bytes. */
  readonly originalSize: number;
  /**
   * Bytes of the original that are still in front of what was appended: originalSize minus the cut.
   */
  readonly keptSize: number;
  /**
   * Header ranges of the original that carrying the record changed: the ELF header, and the program
   * headers if need be.
   */
  readonly headers: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  /** What was asked, oldest first: `nop`, … */
  readonly requests: readonly string[];
  /**
   * The file that the edits are about is an image that a tracing runtime was laid into first:
   * reverting goes on to the file from which that image was made.
   */
  readonly injected: boolean;
  /**
   * Texts of the session files whose operations made the edits, oldest first; empty for other
   * requests.
   */
  readonly session: readonly string[];
  /** Options that decide the bytes of a session, by their names: `ppc-nop`, `a64-default`. */
  readonly forms: Readonly<Record<string, string>>;
  /**
   * Parts of the image that the request itself brought in, oldest first: reverting takes them out
   * again.
   */
  readonly brought: readonly string[];
  /** Modules that the sessions knew and that were taken out of the image since, oldest first. */
  readonly gone: readonly GoneModule[];
  /** File positions of sites that the tables named once and name no more, ascending. */
  readonly untraced: readonly number[];
  /** Sorted by offset, not overlapping. */
  readonly edits: readonly JournalEdit[];
  /** Trailing bytes that were cut. */
  readonly cut: Uint8Array;
}

class Reader {
  private at = 0;
  constructor(private readonly data: Uint8Array) {}

  varint(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 8; i++) {
      const byte = this.data[this.at++];
      if (byte === undefined) throw damaged('the journal ends inside a number');
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (!Number.isSafeInteger(value)) break;
        return value;
      }
      scale *= 0x80;
    }
    throw damaged('a number of the journal is too large');
  }

  get position(): number {
    return this.at;
  }

  bytes(size: number): Uint8Array {
    if (this.at + size > this.data.length) throw damaged('the journal ends inside a range');
    const out = this.data.slice(this.at, this.at + size);
    this.at += size;
    return out;
  }
}

function damaged(cause: string): ElftraceError {
  return new ElftraceError('bad-record', `record in ${recordSection}: ${cause}`, { section: recordSection });
}

/** What a descriptor says in words. */
export interface RecordHeader {
  schema: number;
  tool: string;
  sha256: string;
  originalSize: number;
  keptSize: number;
  headers: { offset: number; bytes: string }[];
  requests: string[];
  /** Absent means false. */
  injected?: boolean;
  /** Absent means none. */
  session?: string[];
  forms?: Record<string, string>;
  brought?: string[];
  gone?: SavedGone[];
  /** Each position minus the one before it. */
  untraced?: number[];
}

function fromHex(text: string): Uint8Array {
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = Number.parseInt(text.slice(i * 2, i * 2 + 2), 16);
  return out;
}

/**
 * The inverse of `encodeRecord`.
 * @throws ElftraceError 'bad-record' for anything that `encodeRecord` does not write, other
 *   versions included
 */
export function decodeRecord(descriptor: Uint8Array): FileRecord {
  return decodeFirst(descriptor).record;
}

/**
 * The records of a file beside a patched one. There are two while that file is replaced: the new
 * one's, then the old one's, so that either can be reverted if the process dies between the two
 * renames.
 * @throws ElftraceError 'bad-record' as `decodeRecord`
 */
export function decodeRecords(bytes: Uint8Array): [FileRecord, ...FileRecord[]] {
  const first = decodeFirst(bytes);
  const records: [FileRecord, ...FileRecord[]] = [first.record];
  for (let at = first.size; at < bytes.length;) {
    const next = decodeFirst(bytes.subarray(at));
    records.push(next.record);
    at += next.size;
  }
  return records;
}

function decodeFirst(descriptor: Uint8Array): { readonly record: FileRecord; readonly size: number } {
  if (descriptor.length < 12 || !equalBytes(descriptor.subarray(0, 8), recordMagic))
    throw damaged('no record begins here');
  const jsonSize = new ByteView(descriptor, 'little').u32(8);
  if (12 + jsonSize > descriptor.length) throw damaged('its header reaches past its end');
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(descriptor.subarray(12, 12 + jsonSize)));
  } catch (cause) {
    throw new ElftraceError('bad-record', `record in ${recordSection}: its header is no JSON`, {}, { cause });
  }
  if (!isHeader(header)) throw damaged('its header lacks fields');
  if (header.schema !== recordSchema) {
    throw damaged(`it has version ${header.schema}, this program knows ${recordSchema}`);
  }
  const reader = new Reader(descriptor.subarray(12 + jsonSize));
  const pairCount = reader.varint();
  const pairs: { before: Uint8Array; after: Uint8Array }[] = [];
  for (let i = 0; i < pairCount; i++) {
    const size = reader.varint();
    pairs.push({ before: reader.bytes(size), after: reader.bytes(size) });
  }
  const count = reader.varint();
  const edits: JournalEdit[] = [];
  let end = 0;
  for (let i = 0; i < count; i++) {
    const offset = end + reader.varint();
    const pair = pairs[reader.varint()];
    if (!pair) throw damaged('an edit names a pair that does not exist');
    edits.push({ offset, before: pair.before, after: pair.after });
    end = offset + pair.before.length;
    if (end > header.keptSize) throw damaged(`an edit lies at ${hex(offset)}, behind the original`);
  }
  const cut = reader.bytes(reader.varint());
  if (header.keptSize < 0 || header.keptSize + cut.length !== header.originalSize)
    throw damaged('its sizes do not add up');
  const headers = header.headers.map(({ offset, bytes }) => ({ offset, bytes: fromHex(bytes) }));
  if (headers.some(({ offset, bytes }) => offset < 0 || offset + bytes.length > header.keptSize)) {
    throw damaged('it keeps headers of places that the original did not have');
  }
  const record: FileRecord = {
    ...header,
    injected: header.injected === true,
    session: header.session ?? [],
    forms: header.forms ?? {},
    brought: header.brought ?? [],
    gone: (header.gone ?? []).map(decodeGone),
    untraced: runningSums(header.untraced ?? []),
    headers,
    edits,
    cut,
  };
  return { record, size: 12 + jsonSize + reader.position };
}

function runningSums(deltas: readonly number[]): number[] {
  let sum = 0;
  return deltas.map((delta) => (sum += delta));
}

function isHeader(value: unknown): value is RecordHeader {
  if (typeof value !== 'object' || value === null) return false;
  const { schema, tool, sha256, originalSize, keptSize, headers, requests } = value as Partial<RecordHeader>;
  const { injected, session, forms, brought, gone, untraced } = value as Partial<RecordHeader>;
  return (
    typeof schema === 'number' &&
    typeof tool === 'string' &&
    typeof sha256 === 'string' &&
    /^[0-9a-f]{64}$/.test(sha256) &&
    Number.isSafeInteger(originalSize) &&
    Number.isSafeInteger(keptSize) &&
    Array.isArray(headers) &&
    headers.every(
      (each) =>
        typeof each === 'object' &&
        each !== null &&
        Number.isSafeInteger(each.offset) &&
        typeof each.bytes === 'string' &&
        /^([0-9a-f]{2})+$/.test(each.bytes),
    ) &&
    (injected === undefined || typeof injected === 'boolean') &&
    (session === undefined || isTexts(session)) &&
    (forms === undefined || (typeof forms === 'object' && forms !== null && isTexts(Object.values(forms)))) &&
    (brought === undefined || isTexts(brought)) &&
    (gone === undefined || (Array.isArray(gone) && gone.every(isSavedGone))) &&
    (untraced === undefined ||
      (Array.isArray(untraced) && untraced.every((each) => Number.isSafeInteger(each) && each >= 0))) &&
    isTexts(requests)
  );
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

/** The record of a file, or null when it carries none. A file with several is damaged. */
export function readRecord(image: ElfImage): FileRecord | null {
  const isRecord = ({ owner, type }: ElfNote): boolean => owner === recordOwner && type === recordNoteType;
  const notes = [...image.notes(), ...notesAtEnd(image)].filter(isRecord);
  if (notes.length === 0) return null;
  if (notes.length > 1) throw damaged('the file carries more than one');
  const record = decodeRecord(notes[0]!.descriptor);
  if (record.keptSize > image.bytes.length) {
    throw damaged('it describes a larger file than this one');
  }
  return record;
}

/**
 * What stands at the end of a file without section headers that has no program header for the
 * record: it lies in a segment, so that no tool cuts it off. Then a word: where its note begins.
 */
const END_MARK = 'ELFTRREC';
const END_BYTES = END_MARK.length + 8;

/** A record's note and how it is found, for the end of a segment that begins at `offset`. */
export function recordAtEnd(note: Uint8Array, offset: number, endian: Endian): Uint8Array {
  const out = new Uint8Array(note.length + END_BYTES);
  out.set(note);
  out.set(new TextEncoder().encode(END_MARK), note.length);
  new ByteView(out, endian).insertWord(note.length + END_MARK.length, BigInt(offset), 8);
  return out;
}

function notesAtEnd({ bytes, header, sections, segments }: ElfImage): readonly ElfNote[] {
  if (sections.length > 0) return [];
  const loads = segments.filter(({ type }) => type === PT_LOAD);
  const end = loads.reduce((last, { offset, fileSize }) => Math.max(last, offset + fileSize), 0);
  const at = end - END_BYTES;
  if (at < 0 || cString(bytes, at, at + END_MARK.length) !== END_MARK) return [];
  const view = new ByteView(bytes, header.endian, 'record');
  const start = view.word(at + END_MARK.length, 8);
  if (start >= BigInt(at)) throw damaged('what names its place names none');
  return readNotes(view, 'record', -1, Number(start), at - Number(start), 4n);
}

/** A place where the bytes are not what the record says it wrote. */
export interface Disagreement {
  readonly offset: number;
  readonly recorded: Uint8Array;
  readonly actual: Uint8Array;
}

/** Edits of a record that the file's bytes do not bear out (RT-6). */
export function disagreements(record: FileRecord, bytes: Uint8Array): Disagreement[] {
  const found: Disagreement[] = [];
  for (const { offset, after } of record.edits) {
    if (!holdsAt(bytes, offset, after)) {
      found.push({ offset, recorded: after, actual: bytes.slice(offset, offset + after.length) });
    }
  }
  return found;
}

/**
 * A record of another file, as one that a linker took over, says nothing of this one.
 * @throws ElftraceError 'state-mismatch' where it and the bytes disagree
 */
export function checkAgrees(record: FileRecord, bytes: Uint8Array): void {
  if (disagreements(record, bytes).length === 0) return;
  throw new ElftraceError('state-mismatch', 'the record and the bytes of the file disagree; nothing was written', {
    section: recordSection,
  });
}

/**
 * The record's edits as a look-up by place: what the record says stands in [offset, offset + size),
 * where that differs from the bytes.
 */
export function recordedState(
  record: FileRecord,
  bytes: Uint8Array,
): (offset: number, size: number) => { expected: Uint8Array; actual: Uint8Array } | null {
  const wrong = disagreements(record, bytes);
  if (wrong.length === 0) return () => null;
  return (offset, size) => {
    const hit = wrong.find((each) => each.offset < offset + size && each.offset + each.recorded.length > offset);
    return hit ? { expected: hit.recorded, actual: hit.actual } : null;
  };
}

/**
 * Merges new edits into old ones so that the result leads from the original to the new bytes in one
 * step. Old and new edits may overlap in any way; `original` must hold the original bytes and
 * `current` the bytes before the new edits.
 */
export function mergeEdits(
  old: readonly JournalEdit[],
  added: readonly JournalEdit[],
  current: Uint8Array,
): JournalEdit[] {
  if (old.length === 0) return [...added];
  // Byte by byte over the touched places: few, and the only way that is obviously right for any
  // overlap.
  const before = new Map<number, number>();
  const after = new Map<number, number>();
  for (const edit of old) {
    edit.before.forEach((byte, i) => before.set(edit.offset + i, byte));
    edit.after.forEach((byte, i) => after.set(edit.offset + i, byte));
  }
  for (const edit of added) {
    edit.after.forEach((byte, i) => {
      const at = edit.offset + i;
      if (!before.has(at)) before.set(at, current[at]!);
      after.set(at, byte);
    });
  }
  const starts = new Set([...old, ...added].map((edit) => edit.offset));
  const places = [...before.keys()].sort((a, b) => a - b);
  const merged: JournalEdit[] = [];
  let run: number[] = [];
  const flush = (): void => {
    if (run.length === 0) return;
    const edit = {
      offset: run[0]!,
      before: Uint8Array.from(run, (at) => before.get(at)!),
      after: Uint8Array.from(run, (at) => after.get(at)!),
    };
    // A place that is back at its original needs no entry.
    if (!equalBytes(edit.before, edit.after)) merged.push(edit);
    run = [];
  };
  for (const at of places) {
    if (run.length > 0 && (at !== run[run.length - 1]! + 1 || starts.has(at))) flush();
    run.push(at);
  }
  flush();
  return merged;
}
