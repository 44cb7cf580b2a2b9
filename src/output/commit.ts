/**
 * Outputs of a command, written all or nothing.
 *
 * A regular file is never written to: its new contents go to a temporary file of the same folder,
 * which is its owner's alone until it is complete and on disk, and a rename puts it in place. All
 * files of a command are complete before the first rename. What happens at any moment of a crash:
 * the old contents, or the new ones, and a temporary file that the next command for the same output
 * removes.
 */
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { ElftraceError } from '../errors.js';
import type { Pieces } from '../bytes.js';
import { copyAttributes, type Model } from './attributes.js';
import { type OutputBatch, syncFolder } from './batch.js';
import { checkUnchanged, inputOf } from './inputs.js';
import { isLeftOfLock, type Lock, prefixOf, takeLock } from './lock.js';
import { ioError, resolveTarget, type Target } from './target.js';

export interface Output {
  /** As the user named it; `-` is standard output. */
  readonly path: string;
  readonly bytes: Uint8Array | Pieces;
  /** Input whose mode, owner and attributes a new file gets. An existing file keeps its own. */
  readonly like?: string;
  readonly executable?: boolean;
  /** The output is an input because the user said so (--in-place). */
  readonly replacesInput?: boolean;
  /** Its folder is made where there is none. */
  readonly makesFolder?: boolean | undefined;
  /**
   * What the file holds while the outputs behind it take their places: a record beside a file
   * reverts the old and the new file then.
   */
  readonly meanwhile?: Uint8Array;
}

type FileTarget = Extract<Target, { readonly kind: 'file' }>;

/** The word in the names of temporary files; a random one follows. */
const TEMPORARY = 'new-';
const OWNER_ONLY = 0o600;
const NEW_FILE = 0o666;

const temporaries = new Set<string>();
const locks = new Set<Lock>();

function temporaryOf(path: string): string {
  return join(
    dirname(path),
    `${prefixOf(path)}${TEMPORARY}${process.getBuiltinModule('node:crypto').randomBytes(6).toString('hex')}`,
  );
}

/**
 * Removes what commands that were killed have left of this output. Its lock is held, so no other
 * command works on it.
 */
function removeLeftovers(path: string, batch?: OutputBatch): void {
  const prefix = prefixOf(path);
  for (const name of batch?.hiddenIn(dirname(path)) ?? fs.readdirSync(dirname(path))) {
    if (!name.startsWith(prefix)) continue;
    const leftover = join(dirname(path), name);
    const word = name.slice(prefix.length);
    const ours = word.startsWith(TEMPORARY) ? !temporaries.has(leftover) : isLeftOfLock(word);
    if (ours) fs.rmSync(leftover, { force: true });
  }
}

/** Removes the temporary files of this command and gives its locks back: on errors and signals. */
export function discardOutputs(): void {
  for (const path of temporaries) fs.rmSync(path, { force: true });
  temporaries.clear();
  for (const lock of locks) lock.release();
  locks.clear();
}

/** A lock on the output, known to `discardOutputs`. */
export function lockOutput(path: string, batch?: OutputBatch): Lock {
  const lock = takeLock(path);
  locks.add(lock);
  removeLeftovers(path, batch);
  return {
    release: () => {
      if (locks.delete(lock)) lock.release();
    },
  };
}

/** A new temporary file for this output, open for writing, readable by its owner alone. */
export function openTemporary(path: string): { readonly path: string; readonly descriptor: number } {
  const temporary = temporaryOf(path);
  temporaries.add(temporary);
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
  const descriptor = fs.openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, OWNER_ONLY);
  return { path: temporary, descriptor };
}

/** A call writes 2 GiB at most. */
const MOST_AT_ONCE = 2 ** 30;

export function writeFully(descriptor: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(descriptor, bytes, at, Math.min(bytes.length - at, MOST_AT_ONCE));
    } catch (error) {
      // A pipe that is full for now.
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error;
    }
  }
}

/** Attributes, contents on disk, closed: the temporary file can take its place. */
export function finishTemporary(
  temporary: { readonly path: string; readonly descriptor: number },
  model: Model | null,
  executable = false,
  batch?: OutputBatch,
): void {
  const { descriptor, path } = temporary;
  const isPlain = model !== null && batch?.hasPlainAttributes(model.path, path) === true;
  if (model !== null) copyAttributes(descriptor, path, model, { executable, isPlain });
  else fs.fchmodSync(descriptor, NEW_FILE & ~process.umask());
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
}

/**
 * Puts a finished temporary file in place; the folder's entry is on disk when this returns, or when
 * the batch ends.
 */
export function putInPlace(temporary: string, path: string, batch?: OutputBatch): void {
  fs.renameSync(temporary, path);
  temporaries.delete(temporary);
  if (batch === undefined) syncFolder(dirname(path));
  else batch.placed(dirname(path));
}

/**
 * The file whose attributes an output gets: its own, else those of the input that it is made from.
 */
function modelOf(target: FileTarget, like: string | undefined): Model | null {
  if (target.existing !== null) return { path: target.path, stats: target.existing };
  const stats = like === undefined ? undefined : fs.statSync(like, { bigint: true, throwIfNoEntry: false });
  return like !== undefined && stats?.isFile() ? { path: like, stats } : null;
}

/** Refuses outputs that would destroy an input, or each other. */
function checkApart(outputs: readonly { readonly output: Output; readonly target: Target }[]): void {
  const seen = new Map<string, string>();
  for (const { output, target } of outputs) {
    const { path } = output;
    if (target.kind === 'stream') continue;
    const name = target.kind === 'standard-output' ? '-' : target.path;
    const other = seen.get(name);
    if (other !== undefined) throw new ElftraceError('usage', `${path} and ${other} are one file`, { file: path });
    seen.set(name, path);
    if (target.kind !== 'file' || target.existing === null) continue;
    const { dev, ino } = target.existing;
    const same = seen.get(`${dev}:${ino}`);
    if (same !== undefined) throw new ElftraceError('usage', `${path} and ${same} are one file`, { file: path });
    seen.set(`${dev}:${ino}`, path);
    refuseInput(output, target.existing);
  }
}

/** An output that this command has read is refused, unless the user asked for it. */
export function refuseInput(output: Pick<Output, 'path' | 'replacesInput'>, existing: fs.BigIntStats): void {
  const input = inputOf(existing);
  if (input === null || output.replacesInput === true) return;
  const text = `${output.path} is an input${input === output.path ? '' : ` (${input})`}: nothing was written`;
  throw new ElftraceError('usage', text, { file: output.path });
}

interface Staged {
  readonly path: string;
  readonly temporary: string;
}

const piecesOf = (bytes: Uint8Array | Pieces): Iterable<Uint8Array> => ('pieces' in bytes ? bytes.pieces() : [bytes]);

function stage(output: Output, target: FileTarget, bytes: Uint8Array | Pieces, batch?: OutputBatch): Staged {
  const opened = openTemporary(target.path);
  try {
    for (const piece of piecesOf(bytes)) writeFully(opened.descriptor, piece);
    finishTemporary(opened, modelOf(target, output.like), output.executable, batch);
  } catch (cause) {
    fs.rmSync(opened.path, { force: true });
    throw ioError(output.path, 'write', cause);
  }
  return { path: target.path, temporary: opened.path };
}

/** Bytes to the reader of a FIFO, a device, a socket, or standard output. */
async function stream(target: Exclude<Target, FileTarget>, bytes: Uint8Array | Pieces): Promise<void> {
  if (target.kind === 'socket') {
    const { connect } = process.getBuiltinModule('node:net');
    const all = 'pieces' in bytes ? Buffer.concat(Array.from(bytes.pieces(), (piece) => piece.slice())) : bytes;
    await new Promise<void>((done, fail) => {
      const socket = connect(target.path, () => socket.end(all, done));
      socket.on('error', fail);
    });
    return;
  }
  if (target.kind === 'standard-output') {
    for (const piece of piecesOf(bytes)) writeFully(1, piece);
    return;
  }
  const descriptor = fs.openSync(target.path, fs.constants.O_WRONLY);
  try {
    for (const piece of piecesOf(bytes)) writeFully(descriptor, piece);
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Signals end the command between two steps: nothing is left half done, and temporary files go. */
export function guardSignals(): { readonly check: () => Promise<void>; readonly end: () => void } {
  let caught: NodeJS.Signals | null = null;
  const note = (signal: NodeJS.Signals): void => {
    caught = signal;
  };
  process.on('SIGINT', note).on('SIGTERM', note);
  const end = (): void => {
    process.off('SIGINT', note).off('SIGTERM', note);
  };
  const check = async (): Promise<void> => {
    await new Promise((resume) => setImmediate(resume));
    if (caught === null) return;
    end();
    discardOutputs();
    process.kill(process.pid, caught);
  };
  return { check, end };
}

function hardLinkNotices(output: Output, target: FileTarget): string[] {
  const names = Number(target.existing?.nlink ?? 1n);
  if (names < 2 || output.replacesInput !== true) return [];
  return [`${output.path} has ${names} names (hard links): the others keep the old contents`];
}

function makeFolder(path: string): void {
  try {
    fs.mkdirSync(dirname(path), { recursive: true });
  } catch (cause) {
    throw ioError(path, 'write', cause);
  }
}

/**
 * Writes the outputs of a command, in this order. Regular files are complete before the first one
 * is put in place.
 * @param batch  of a command that writes many outputs, one after the other
 * @returns notices for the user
 * @throws ElftraceError 'usage' where an output is an input or another output; 'output-busy' where
 *   another process writes it; 'output-changed' where it changed since this command read it; 'io'
 *   with the words of the system
 */
export async function writeOutputs(outputs: readonly Output[], batch?: OutputBatch): Promise<string[]> {
  for (const output of outputs) if (output.makesFolder === true) makeFolder(output.path);
  const planned = outputs.map((output) => ({ output, target: resolveTarget(output.path) }));
  checkApart(planned);
  const guard = guardSignals();
  try {
    const files = planned.flatMap(({ output, target }) => (target.kind === 'file' ? [{ output, target }] : []));
    for (const { output, target } of files) within(output, () => lockOutput(target.path, batch));
    const first = files.map(({ output, target }) => stage(output, target, output.meanwhile ?? output.bytes, batch));
    const last = files.flatMap(({ output, target }) =>
      output.meanwhile === undefined ? [] : [stage(output, target, output.bytes, batch)],
    );
    for (const { output, target } of planned) {
      if (target.kind === 'file') continue;
      await stream(target, output.bytes).catch((cause: unknown) => {
        throw ioError(output.path, 'write', cause);
      });
    }
    await guard.check();
    for (const { output, target } of files) {
      const now = fs.lstatSync(target.path, { throwIfNoEntry: false, bigint: true });
      if (now !== undefined) checkUnchanged(output.path, now);
    }
    for (const { path, temporary } of [...first, ...last]) putInPlace(temporary, path, batch);
    return files.flatMap(({ output, target }) => hardLinkNotices(output, target));
  } finally {
    discardOutputs();
    guard.end();
  }
}

/**
 * Runs a step for an output: what the system says about it becomes an error that names the output.
 */
function within(output: Output, step: () => void): void {
  try {
    step();
  } catch (cause) {
    if (cause instanceof ElftraceError) throw cause;
    throw ioError(output.path, 'write', cause);
  }
}
