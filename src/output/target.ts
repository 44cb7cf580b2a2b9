/** What a path given for output stands for, links followed, also those that name nothing yet. */
import * as fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { ElftraceError } from '../errors.js';

export type Target =
  /** `-`. */
  | { readonly kind: 'standard-output' }
  /** A device, a FIFO, or a name of an open descriptor: written to, never replaced. */
  | { readonly kind: 'stream'; readonly path: string }
  | { readonly kind: 'socket'; readonly path: string }
  /** A regular file or a new name, which a rename puts there. `existing` is null for a new name. */
  | { readonly kind: 'file'; readonly path: string; readonly existing: fs.BigIntStats | null };

/** Linux gives up on longer chains of links (ELOOP). */
const MAX_LINKS = 40;

/** The error of a file that could not be read or written, with the words of the system. */
export function ioError(path: string, action: string, cause: unknown): ElftraceError {
  const text = cause instanceof Error ? cause.message : String(cause);
  return new ElftraceError('io', `cannot ${action} ${path}: ${text}`, { file: path }, { cause });
}

/** The path behind all links. Its folder exists; the file itself need not. */
function behindLinks(path: string): string {
  let at = resolve(path);
  for (let i = 0; i < MAX_LINKS; i++) {
    const folder = fs.realpathSync(dirname(at));
    at = join(folder, at.slice(dirname(at).length).replace(/^\//, ''));
    const stats = fs.lstatSync(at, { throwIfNoEntry: false });
    if (!stats?.isSymbolicLink()) return at;
    at = resolve(folder, fs.readlinkSync(at));
  }
  throw new Error('too many links');
}

/**
 * What is open somewhere, by its name: descriptors, and what a driver makes in /dev itself. A new
 * file in its place would be another one. Folders of /dev such as /dev/shm hold files as others do.
 */
function isOpenAlready(path: string): boolean {
  return /^\/(proc|dev\/fd)\//.test(path) || dirname(path) === '/dev';
}

/**
 * @throws ElftraceError 'io' when the folder does not exist, or the path is one
 */
export function resolveTarget(path: string): Target {
  if (path === '-') return { kind: 'standard-output' };
  if (isOpenAlready(resolve(path))) return { kind: 'stream', path };
  try {
    const real = behindLinks(path);
    const existing = fs.lstatSync(real, { throwIfNoEntry: false, bigint: true }) ?? null;
    if (existing?.isDirectory()) throw new Error('it is a directory');
    if (existing?.isSocket()) return { kind: 'socket', path: real };
    if (existing !== null && !existing.isFile()) return { kind: 'stream', path: real };
    return { kind: 'file', path: real, existing };
  } catch (cause) {
    throw ioError(path, 'write', cause);
  }
}
