/** Traces that programs wrote themselves: a directory of files, and the objects that they name. */
import * as fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { ElftraceError } from '../errors.js';
import { FILE_NAME, LOST_NAME } from '../native/layout.js';
import type { TracedObject } from '../native/objects.js';
import { refused } from '../native/refuse.js';
import { type NativeTracer, readThreadHeader, type ThreadHeader, type TraceSource } from '../native/reader.js';
import { NativeTrace, type TraceDoubts } from '../native/trace.js';
import { ioError } from '../output/target.js';
import { exitCodes } from './exit.js';
import { err } from './terminal.js';
import { ObjectFinder } from './trace-objects.js';

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
  /** Where names of a stripped program were, without which its sites are not known. */
  readonly symbols?: string;
  /** Exit status as shells count; null: it could not be started. */
  readonly exit: number | null;
}

export interface TraceArguments {
  readonly dir: string;
  readonly object?: readonly string[] | undefined;
  /** Directories that are the root of where the program ran, or hold its files. */
  readonly root?: readonly string[] | undefined;
  /** Names of a stripped program; default: those that `record` was given. */
  readonly symbols?: string | undefined;
  /** Numbers of threads, with commas. */
  readonly tid?: string | undefined;
  /** Whether lines of sources are looked for. */
  readonly sources?: boolean | undefined;
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

/** Calls that were lost by processes that had no file, as names of files in a directory say. */
export function lostCalls(dir: string): number {
  const lost = new Map<string, number>();
  for (const name of fs.readdirSync(dir)) {
    const [, key, count] = LOST_NAME.exec(name) ?? [];
    if (key !== undefined) lost.set(key, Math.max(lost.get(key) ?? 0, Number(count)));
  }
  return [...lost.values()].reduce((a, b) => a + b, 0);
}

/** Files of the threads that were asked for. */
function chosen<T extends { readonly header: ThreadHeader }>(
  files: readonly T[],
  tid: string | undefined,
): readonly T[] {
  if (tid === undefined) return files;
  const numbers = tid.split(',').map(Number);
  if (!numbers.every((each) => Number.isInteger(each) && each > 0)) {
    throw new ElftraceError('usage', `--tid ${tid} is no list of numbers of threads, such as 17,19`);
  }
  const found = files.filter(({ header }) => numbers.includes(header.thread));
  if (found.length > 0) return found;
  throw new ElftraceError('no-match', `the trace has no thread ${tid}`);
}

/**
 * The trace of a directory.
 * @throws ElftraceError 'no-match' for a directory without traces; errors of files and objects
 */
export async function openTrace({
  dir,
  object = [],
  root = [],
  symbols,
  tid,
  sources = false,
}: TraceArguments): Promise<NativeTrace> {
  const names = traceFiles(dir);
  const lost = lostCalls(dir);
  if (names.length === 0 && lost > 0) {
    throw new ElftraceError('unsupported-form', `${dir}: no process had a file for ${lost} calls or more`, {
      reason: 'unfinished',
    });
  }
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
  if (files.length === 0) {
    throw new ElftraceError('unsupported-form', `${dir}: no file of the trace was opened by its program`, {
      reason: 'unfinished',
    });
  }
  const threads = chosen(files, tid);
  const objects = new Map<string, TracedObject>();
  const given = [...object, ...(facts ? [facts.program, facts.patched] : [])];
  const beside = dirname(resolve(dir));
  const finder = new ObjectFinder({ given, roots: root, beside, sources, symbols: symbols ?? facts?.symbols });
  for (const { header } of threads) {
    if (objects.has(header.id)) continue;
    const found = await finder.find(header);
    if (found !== null) objects.set(header.id, found);
  }
  return new NativeTrace(threads, objects, lost);
}

export const tracerOf = (trace: NativeTrace): NativeTracer =>
  trace.threads.every(({ header }) => header.tracer === 'counter')
    ? 'counter'
    : trace.returns
      ? 'function_graph'
      : 'function';

/** What is asked of a trace that has no such thing is refused, with the reason for programs. */
export function needRecords({ counts }: NativeTrace, asked: string): void {
  if (!counts) return;
  throw refused(
    'no-records',
    `${asked}: the trace says how often functions were called, not when or by whom: elftrace report`,
  );
}

/** @throws ElftraceError 'unsupported-form', reason `no-records` or `no-times` */
export function needTimes(trace: NativeTrace, asked: string): void {
  needRecords(trace, asked);
  if (trace.isTimed) return;
  throw refused('no-times', `${asked}: the trace has no times (record --clock none)`);
}

/** Says how little is known of when calls were. */
export const NO_TIMES = '# times are not recorded: threads stand one after the other, so do libraries of one';

/** Says what a trace lacks. @returns the exit code: damage is no yes */
export function sayDoubts(dir: string, doubts: TraceDoubts): number {
  const { dropped, droppedEarly, droppedUnfiled, droppedReturns, overwritten, damaged, unknown } = doubts;
  const noRoom = dropped - droppedEarly - droppedUnfiled;
  if (droppedUnfiled > 0) {
    err(`${dir}: notice: ${droppedUnfiled} calls or more were not recorded: their processes had no file`);
  }
  if (droppedEarly > 0) {
    err(`${dir}: notice: ${droppedEarly} calls were not recorded: the C library had not begun (resolvers of IFUNCs)`);
  }
  if (noRoom > 0) err(`${dir}: notice: ${noRoom} calls were not recorded: there was no room for them`);
  if (droppedReturns > 0) err(`${dir}: notice: ${droppedReturns} returns were not recorded: their calls last too long`);
  if (overwritten > 0) err(`${dir}: notice: ${overwritten} calls made room for later ones`);
  if (damaged > 0) err(`${dir}: error: ${damaged} words are no records: files are damaged`);
  if (unknown > 0) err(`${dir}: error: ${unknown} records name no site of their object`);
  return damaged + unknown > 0 ? exitCodes.failed : exitCodes.ok;
}
