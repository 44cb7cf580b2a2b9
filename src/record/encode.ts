/**
 * Records as bytes: the writing half of `journal.ts`, which says what they look like. Verbs that
 * only read do without it.
 */
import { ByteView, concatBytes } from '../bytes.js';
import { hexBytes } from '../errors.js';
import { EditColumns, grown } from './edit-columns.js';
import { encodeGone } from './gone-modules.js';
import { type FileRecord, type RecordHeader, recordMagic } from './journal.js';

/** What an edit takes as a rule, and the rest. */
const EDIT_BYTES = 5;
const USUAL_BYTES = 4096;

class Writer {
  private chunk: Uint8Array;
  private used: number;

  /**
   * @param front  so many bytes are left free
   * @param size  of all, or less: room that was not written to is no memory yet
   */
  constructor(front: number, size: number) {
    this.chunk = new Uint8Array(front + size);
    this.used = front;
  }

  private reserve(size: number): void {
    this.chunk = grown(this.chunk, this.used + size);
  }

  varint(value: number): void {
    if (this.used + 8 > this.chunk.length) this.reserve(8);
    const { chunk } = this;
    let at = this.used;
    let rest = value;
    // Beyond 31 bits a shift would lose what is above.
    for (; rest > 0x7fff_ffff; rest = Math.floor(rest / 0x80)) chunk[at++] = (rest % 0x80) | 0x80;
    for (; rest >= 0x80; rest >>>= 7) chunk[at++] = (rest & 0x7f) | 0x80;
    chunk[at++] = rest;
    this.used = at;
  }

  bytes(bytes: Uint8Array): void {
    this.reserve(bytes.length);
    this.chunk.set(bytes, this.used);
    this.used += bytes.length;
  }

  finish(): Uint8Array {
    return this.chunk.subarray(0, this.used);
  }
}

/** What the descriptor says in words. */
function headerOf(record: FileRecord): RecordHeader {
  return {
    schema: record.schema,
    tool: record.tool,
    sha256: record.sha256,
    originalSize: record.originalSize,
    keptSize: record.keptSize,
    headers: record.headers.map(({ offset, bytes }) => ({ offset, bytes: hexBytes(bytes).replaceAll(' ', '') })),
    requests: [...record.requests],
    ...(record.injected ? { injected: true } : {}),
    ...(record.session.length > 0 ? { session: [...record.session] } : {}),
    ...(Object.keys(record.forms).length > 0 ? { forms: { ...record.forms } } : {}),
    ...(record.brought.length > 0 ? { brought: [...record.brought] } : {}),
    ...(record.gone.length > 0 ? { gone: record.gone.map(encodeGone) } : {}),
  };
}

/** So many numbers become text at a time. */
const TEXT_STEP = 0x4000;

/** The header as JSON; places of what was untraced may be a million, and stand at its end. */
function headerText(record: FileRecord): Uint8Array {
  const { untraced } = record;
  const text = JSON.stringify(headerOf(record));
  const encoder = new TextEncoder();
  if (untraced.length === 0) return encoder.encode(text);
  const parts = [encoder.encode(`${text.slice(0, -1)},"untraced":[`)];
  for (let from = 0; from < untraced.length; from += TEXT_STEP) {
    const some = untraced.slice(from, from + TEXT_STEP);
    const deltas = some.map((each, i) => each - (untraced[from + i - 1] ?? 0));
    parts.push(encoder.encode(`${from === 0 ? '' : ','}${deltas.join(',')}`));
  }
  parts.push(encoder.encode(']}'));
  return concatBytes(parts);
}

/**
 * The different pairs of bytes before and after in the order in which edits have them, as numbers
 * of one that each is, and which of them each pair of the columns is. In a linked file nearly every
 * call has a pair of its own, so they are looked up in columns as well: a hash table of places in
 * `different`, 1 more than each.
 */
function differentPairs({ count, pair, pairs }: EditColumns): {
  readonly different: Uint32Array;
  readonly numberOf: Int32Array;
} {
  let mask = 1;
  while (mask < 2 * pairs.count) mask = 2 * mask + 1;
  const table = new Uint32Array(mask + 1);
  const different = new Uint32Array(pairs.count);
  let found = 0;
  const numberOf = new Int32Array(pairs.count).fill(-1);
  for (let i = 0; i < count; i++) {
    const each = pair[i]!;
    if (numberOf[each] !== -1) continue;
    let at = pairs.hashOf(each) & mask;
    while (table[at] !== 0 && !pairs.areEqual(different[table[at]! - 1]!, each)) at = (at + 1) & mask;
    if (table[at] === 0) {
      different[found++] = each;
      table[at] = found;
    }
    numberOf[each] = table[at]! - 1;
  }
  return { different: different.subarray(0, found), numberOf };
}

/** Of each edit how far it is behind the one in front of it, and the number of its pair. */
function writePlaces(writer: Writer, { count, offset, pair, pairs }: EditColumns, numberOf: Int32Array): void {
  let end = 0;
  for (let i = 0; i < count; i++) {
    const here = offset[i]!;
    const each = pair[i]!;
    writer.varint(here - end);
    writer.varint(numberOf[each]!);
    end = here + pairs.sizeOf(each);
  }
}

/** The note's descriptor. Deterministic: the same record gives the same bytes. */
export function encodeRecord(record: FileRecord): Uint8Array {
  return encodeWithEdits(record, EditColumns.of(record.edits));
}

/**
 * The same of a record whose edits are there as columns.
 * @param record  its own edits are not looked at
 * @param front  bytes that are left free in front of it
 */
export function encodeWithEdits(record: FileRecord, edits: EditColumns, front = 0): Uint8Array {
  const json = headerText(record);
  const { different, numberOf } = differentPairs(edits);
  const writer = new Writer(front, json.length + EDIT_BYTES * edits.count + USUAL_BYTES);
  writer.bytes(recordMagic);
  const size = new Uint8Array(4);
  new ByteView(size, 'little').insertU32(0, json.length);
  writer.bytes(size);
  writer.bytes(json);
  writer.varint(different.length);
  for (const each of different) {
    writer.varint(edits.pairs.sizeOf(each));
    writer.bytes(edits.pairs.both(each));
  }
  writer.varint(edits.count);
  writePlaces(writer, edits, numberOf);
  writer.varint(record.cut.length);
  writer.bytes(record.cut);
  return writer.finish();
}
