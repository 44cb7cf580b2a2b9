/** Whether two files belong together, before anything is proved about them. */
import { equalBytes } from '../bytes.js';
import type { Arch } from '../machine/arch.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import { readLoadMap } from '../program/load-map.js';
import { type FileRecord, readRecord } from '../record/journal.js';
import type { Sha256 } from '../sha256.js';

interface PatchedFile {
  readonly image: ElfImage;
  readonly arch: Arch;
  readonly record: FileRecord | null;
}

/**
 * @param path  of the original, for messages
 * @throws ElftraceError 'usage' for files of different machines, for a patched file as its own
 *   original, and for an original that calls tracers; 'bad-record' where the record of the patched
 *   file says that it was another one before
 */
export function checkPair(before: ElfImage, { image, arch, record }: PatchedFile, path: string, digest: Sha256): void {
  if (before.header.machine !== image.header.machine) {
    throw new ElftraceError('usage', 'the two files are of different machines', { what: arch.target.id });
  }
  if (record === null) return;
  // Whatever is wrong with a tracer in the one is wrong in the other.
  if (equalBytes(before.bytes, image.bytes) && readLoadMap(image) !== null) {
    const message = `${path} is the patched file itself: nothing is proved against it`;
    throw new ElftraceError('usage', message, { file: path, reason: 'same-file' });
  }
  const own = before.section('.note.elftrace') === undefined ? null : readRecord(before);
  // What its own sites call is no part of what a function did before.
  if (own?.requests.some((request) => request.startsWith('enable')) === true) {
    const message = `${path} calls tracers itself: the file that both were made from is the original`;
    throw new ElftraceError('usage', message, { file: path, reason: 'traced-original' });
  }
  // What a patch brought in is taken out part by part: such a record names no file.
  if (record.brought.length > 0) return;
  const known = [
    record.sha256,
    ...(record.injected ? (readLoadMap(image)?.parts ?? []).map((each) => each.sha256) : []),
  ];
  // A file in between is patched from the same one.
  const actual = digest(before.bytes);
  if (known.includes(actual) || own?.sha256 === record.sha256) return;
  throw new ElftraceError('bad-record', `${path} is not the file that the record of the patched one names`, {
    ...{ file: path, what: arch.target.id, expected: record.sha256, actual },
    reason: 'other-original',
  });
}
