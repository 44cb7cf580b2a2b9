/**
 * The record beside a patched file (`--journal FILE`): replaced together with that file, never at
 * another file's cost.
 */
import { existsSync } from 'node:fs';
import { concatBytes } from '../bytes.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { recordBeside } from '../patch/undo.js';
import { encodeRecord } from '../record/encode.js';
import { decodeRecord, decodeRecords } from '../record/journal.js';
import type { Output } from '../output/commit.js';
import { readBytes, readUnnoted, unpackInput } from './files.js';

/** The file as it lies there now, unpacked; null where there is none or it is no ELF file. */
async function imageAt(path: string): Promise<ReturnType<typeof readElf> | null> {
  if (!existsSync(path)) return null;
  try {
    // No input: it is looked at because it is about to be replaced.
    return readElf((await unpackInput(readUnnoted(path))).bytes);
  } catch (error) {
    if (error instanceof ElftraceError) return null;
    throw error;
  }
}

/**
 * The journal as an output that stands in front of its file: until the file is in place it holds
 * the old file's record as well.
 * @param output  the patched file
 * @throws ElftraceError 'usage' where the journal is no record, or that of another file
 */
export async function journalOutput(journal: string, record: Uint8Array, output: string): Promise<Output> {
  const plain: Output = { path: journal, bytes: record, replacesInput: true };
  if (journal === '-' || output === '-' || !existsSync(journal)) return plain;
  const old = readBytes(journal);
  const lost = (what: string): ElftraceError =>
    new ElftraceError('usage', `${journal} is ${what}, which would be lost: name another file`, { file: journal });
  if (old.length === 0) return plain;
  let records;
  try {
    records = decodeRecords(old);
  } catch (cause) {
    if (cause instanceof ElftraceError && cause.code === 'bad-record') throw lost('no record of elftrace');
    throw cause;
  }
  const current = await imageAt(output);
  const { sha256 } = decodeRecord(record);
  const kept = current === null ? records[0] : recordBeside(current, old);
  if (kept.sha256 !== sha256) throw lost('the record of another file');
  return { ...plain, meanwhile: concatBytes([record, encodeRecord(kept)]) };
}
