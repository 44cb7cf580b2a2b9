/**
 * Undoes what a record says, without a plan: all or nothing, into a fresh array. What of a file is
 * undone, and what was laid into it besides, is the business of `revert.ts`.
 */
import { isZero } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError, hex, hexBytes } from '../errors.js';
import { sha256, type Sha256 } from '../sha256.js';
import { decodeRecords, disagreements, type FileRecord, readRecord, recordSection } from '../record/journal.js';

/**
 * The file without what carries its record: appended structures cut off, headers as they were;
 * edits stay. Positions are those of the original. The image itself when it carries no record.
 */
export function withoutCarrier(image: ElfImage, record: FileRecord | null): Uint8Array {
  if (!record) return image.bytes;
  const bytes = image.bytes.slice(0, record.keptSize);
  for (const header of record.headers) bytes.set(header.bytes, header.offset);
  return bytes;
}

/**
 * The file as it was before its record's edits; where a runtime was laid in first, the image with
 * it. Throws as `revert`.
 */
export function unpatched(image: ElfImage, beside: Uint8Array | null = null, hash: Sha256 = sha256): Uint8Array {
  return undo(image, beside, hash).bytes;
}

/**
 * The record beside a file that is this file's. Where none of several leads back to its original it
 * is the first.
 * @throws ElftraceError 'bad-record' as `decodeRecords`
 */
export function recordBeside(image: ElfImage, beside: Uint8Array, hash: Sha256 = sha256): FileRecord {
  const records = decodeRecords(beside);
  if (records.length === 1) return records[0];
  return records.find((record) => undoes(image, record, hash)) ?? records[0];
}

function undoes(image: ElfImage, record: FileRecord, hash: Sha256): boolean {
  try {
    undoRecord(image, record, false, hash);
    return true;
  } catch (error) {
    if (error instanceof ElftraceError) return false;
    throw error;
  }
}

/** What was there before, and the record that says so. */
interface Undone {
  readonly bytes: Uint8Array;
  readonly record: FileRecord;
}

/** @throws ElftraceError as `revert` */
export function undo(image: ElfImage, beside: Uint8Array | null, hash: Sha256): Undone {
  const inside = readRecord(image);
  const record = inside ?? (beside ? recordBeside(image, beside, hash) : null);
  if (!record) {
    throw new ElftraceError('no-record', `the file has no ${recordSection}: nothing says what its original was`, {
      section: recordSection,
    });
  }
  return undoRecord(image, record, inside !== null, hash);
}

/** Bytes that are looked at at once. */
const PAGE = 4096;

/**
 * Copies to where everything is zero yet. Pages of zeros are not written: memory that is never
 * touched costs nothing, and most of a kernel whose debugging sections are left out is that.
 */
function copyKept(from: Uint8Array, to: Uint8Array): void {
  for (let at = 0; at < from.length; at += PAGE) {
    const page = from.subarray(at, at + PAGE);
    if (!isZero(page)) to.set(page, at);
  }
}

/** @param carried  whether the image carries this record in its note */
function undoRecord(image: ElfImage, record: FileRecord, carried: boolean, hash: Sha256): Undone {
  if (record.keptSize > image.bytes.length) {
    throw new ElftraceError(
      'bad-record',
      `the record describes a file of at least ${record.keptSize} bytes, this one has ${image.bytes.length}; nothing was written`,
      { value: record.keptSize, max: image.bytes.length },
    );
  }
  const wrong = disagreements(record, image.bytes);
  if (wrong.length > 0) {
    const first = wrong[0]!;
    throw new ElftraceError(
      'state-mismatch',
      `${wrong.length} of ${record.edits.length} recorded places hold other bytes than were written, the first at file offset ` +
        `${hex(first.offset)}: recorded ${hexBytes(first.recorded)}, actual ${hexBytes(first.actual)}; nothing was written`,
      { fileOffset: first.offset, expected: hexBytes(first.recorded), actual: hexBytes(first.actual) },
    );
  }
  const out = new Uint8Array(record.originalSize);
  copyKept(image.bytes.subarray(0, record.keptSize), out);
  for (const header of carried ? record.headers : []) {
    out.set(header.bytes.subarray(0, Math.max(0, record.keptSize - header.offset)), header.offset);
  }
  for (const { offset, before } of record.edits) out.set(before, offset);
  out.set(record.cut, record.keptSize);
  const actual = hash(out);
  if (actual !== record.sha256) {
    throw new ElftraceError(
      'bad-record',
      'bytes outside the recorded places were changed too: the restored file is not the original; nothing was written',
      { expected: record.sha256, actual },
    );
  }
  return { bytes: out, record };
}
