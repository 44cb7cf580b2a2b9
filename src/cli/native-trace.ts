/** Traces that programs wrote themselves: a directory of files, and the objects that they name. */
import * as fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { FILE_NAME } from '../native/layout.js';
import { TracedObject } from '../native/objects.js';
import { readThreadHeader, type ThreadHeader, type TraceSource } from '../native/reader.js';
import { NativeTrace, type TraceDoubts } from '../native/trace.js';
import { ioError } from '../output/target.js';
import { revert } from '../patch/apply.js';
import { readRecord } from '../patch/journal.js';
import { exitCodes } from './exit.js';
import { readBytes } from './files.js';
import { hash, open } from './open.js';
import { err } from './terminal.js';

/** What `record` says of a run, beside the files of its threads. */
export const RUN_FILE = 'elftrace.json';

export interface RunFacts {
  readonly schema: 1;
  /** Words of the command, the program's path as it was given first. */
  readonly command: readonly string[];
  /** Paths of the program, and of the file that ran in its place. */
  readonly program: string;
  readonly patched: string;
  readonly id: string;
  /** Exit status as shells count; null: it could not be started. */
  readonly exit: number | null;
}

export interface TraceArguments {
  readonly dir: string;
  readonly object?: readonly string[] | undefined;
}

/** Files of a trace that stay open between two reads, at most: there is one for each thread. */
const OPEN_MAX = 128;

/** One file, read in pieces. */
class FileSource implements TraceSource {
  readonly size: number;
  private static open = 0;
  private descriptor = -1;

  constructor(readonly name: string) {
    this.size = fs.statSync(name).size;
  }

  read(position: number, into: Uint8Array): number {
    if (this.descriptor < 0) {
      this.descriptor = fs.openSync(this.name, 'r');
      FileSource.open++;
    }
    let count = 0;
    while (count < into.length) {
      const more = fs.readSync(this.descriptor, into, count, into.length - count, position + count);
      if (more === 0) break;
      count += more;
    }
    if (count < into.length || position === 0 || FileSource.open > OPEN_MAX) this.close();
    return count;
  }

  private close(): void {
    fs.closeSync(this.descriptor);
    FileSource.open--;
    this.descriptor = -1;
  }
}

/** What `record` wrote into a directory; null: it did not write there. */
export function runFacts(dir: string): RunFacts | null {
  try {
    return JSON.parse(fs.readFileSync(join(dir, RUN_FILE), 'utf8')) as RunFacts;
  } catch {
    return null;
  }
}

/** Names of trace files in a directory, in order of process, thread, number. */
export function traceFiles(dir: string): string[] {
  let names: string[];
  try {
    names = fs.readdirSync(dir);
  } catch (cause) {
    throw ioError(dir, 'read', cause);
  }
  const keyOf = (name: string): number[] =>
    FILE_NAME.exec(name)!
      .slice(1)
      .map((each) => Number.parseInt(each, 16));
  return names
    .filter((name) => FILE_NAME.test(name))
    .sort((a, b) => {
      const [first, second] = [keyOf(a), keyOf(b)];
      const at = first.findIndex((each, i) => each !== second[i]);
      return at < 0 ? 0 : first[at]! - second[at]!;
    });
}

/** A file as it was before it was patched, where it is the one with this sum; else null. */
function originalOf(bytes: Uint8Array, id: string): Uint8Array | null {
  if (hash(bytes) === id) return bytes;
  try {
    const image = readElf(bytes);
    return readRecord(image)?.sha256 === id ? revert(image, null, hash) : null;
  } catch (error) {
    if (error instanceof ElftraceError) return null;
    throw error;
  }
}

/** The object of a trace among files that may be it: as it was, or patched. */
async function findObject(header: ThreadHeader, paths: readonly string[], first: number): Promise<TracedObject | null> {
  for (const path of paths) {
    if (!fs.existsSync(path)) continue;
    const bytes = originalOf(readBytes(path), header.id);
    if (bytes === null) continue;
    const opened = await open({ name: path, path, bytes, form: 'none', member: null, wrapped: [] });
    return new TracedObject(header.id, header.object, opened.sites, first);
  }
  return null;
}

/**
 * The trace of a directory.
 * @throws ElftraceError 'no-match' for a directory without traces; errors of files and objects
 */
export async function openTrace({ dir, object = [] }: TraceArguments): Promise<NativeTrace> {
  const names = traceFiles(dir);
  if (names.length === 0) {
    throw new ElftraceError('no-match', `${dir} has no traces: elftrace record PROGRAM writes them`, { file: dir });
  }
  const facts = runFacts(dir);
  const files: { source: TraceSource; header: ThreadHeader }[] = [];
  for (const name of names) {
    const source = new FileSource(join(dir, name));
    try {
      files.push({ source, header: readThreadHeader(source) });
    } catch (error) {
      if (!(error instanceof ElftraceError) || error.context.reason !== 'unfinished') throw error;
      err(`elftrace: notice: ${error.message}`);
    }
  }
  const objects = new Map<string, TracedObject>();
  let first = 0;
  for (const { header } of files) {
    if (objects.has(header.id)) continue;
    const near = header.object === '' ? [] : [header.object, join(dirname(resolve(dir)), header.object)];
    const paths = [...object, ...(facts ? [facts.program, facts.patched] : []), ...near];
    const found = await findObject(header, paths, first);
    if (found === null) continue;
    objects.set(header.id, found);
    first += found.count;
  }
  return new NativeTrace(files, objects);
}

/** Says what a trace lacks. @returns the exit code: damage is no yes */
export function sayDoubts(dir: string, { dropped, damaged, unknown }: TraceDoubts): number {
  if (dropped > 0) err(`${dir}: notice: ${dropped} calls were not recorded: there was no room for them`);
  if (damaged > 0) err(`${dir}: error: ${damaged} words are no records: files are damaged`);
  if (unknown > 0) err(`${dir}: error: ${unknown} records name no site of their object`);
  return damaged + unknown > 0 ? exitCodes.failed : exitCodes.ok;
}
