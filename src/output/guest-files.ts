/**
 * The files below one directory, for a guest, read-only. The directory is the guest's `/`: `..`
 * stops there, absolute links start there. Links are resolved here, component by component, and the
 * host is only ever asked about paths without links in them, so that no name leads out. Only
 * regular files and directories are served.
 */
import * as fs from 'node:fs';
import { relative, resolve } from 'node:path';
import { isUtf8, nameBytes, textOf } from '../bytes.js';
import type { FileError, FileStatus, FileSystem } from '../guest/index.js';
import { ElftraceError } from '../errors.js';

type OpenFile = Exclude<ReturnType<FileSystem['open']>, FileError>;

/** Linux follows at most so many links in one path. */
const LINKS_MAX = 40;

const served: ReadonlySet<string> = new Set<FileError>([
  'ENOENT',
  'ENOTDIR',
  'EISDIR',
  'EACCES',
  'ELOOP',
  'EINVAL',
  'ENAMETOOLONG',
  'EEXIST',
  'ENOTEMPTY',
  'ENOSPC',
]);

function isFileError(code: unknown): code is FileError {
  return typeof code === 'string' && served.has(code);
}

/** The error that the guest gets for one of the host. */
export function errorOf(cause: unknown): FileError {
  const code = cause instanceof Error && 'code' in cause ? cause.code : '';
  if (code === 'EPERM') return 'EACCES';
  return isFileError(code) ? code : 'EIO';
}

interface Place {
  /** Path on the host; no component of it below the root is a link, except perhaps the last. */
  readonly host: string;
  readonly stats: fs.BigIntStats;
}

/**
 * The path by which a program in the tree below `directory` knows itself; null: it is not in it, or
 * the tree is all there is.
 */
export function pathInTree(path: string, directory: string | undefined): string | null {
  if (directory === undefined) return null;
  const root = resolve(directory);
  const inside = relative(root, resolve(path));
  return root === '/' || inside === '' || inside.startsWith('..') ? null : `/${inside}`;
}

/**
 * The directory as the host knows it, without links.
 * @throws ElftraceError 'io' when it is no directory
 */
function rootOf(directory: string, option: string): string {
  try {
    const root = fs.realpathSync(directory);
    if (!fs.statSync(root).isDirectory()) throw new Error('it is no directory');
    return root;
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new ElftraceError('io', `${option} ${directory}: ${text}`, { file: directory }, { cause });
  }
}

const componentsOf = (path: string): string[] => path.split('/').filter((each) => each !== '' && each !== '.');

/** A path as Node takes it: text, or the bytes of what is no UTF-8. */
export const onHost = (path: string): string | Buffer => (isUtf8(path) ? path : Buffer.from(nameBytes(path)));

/** What only UTF-8 cannot have is read as bytes. */
const LOST = '\ufffd';
function linkOf(path: string): string {
  const text = fs.readlinkSync(onHost(path), 'utf8');
  return text.includes(LOST) ? textOf(fs.readlinkSync(onHost(path), 'buffer')) : text;
}
function namesOf(path: string): string[] {
  const names = fs.readdirSync(onHost(path), 'utf8');
  if (!names.some((each) => each.includes(LOST))) return names;
  return fs.readdirSync(onHost(path), 'buffer').map((each) => textOf(each));
}

const statusOf = (path: string): fs.BigIntStats => fs.lstatSync(onHost(path), { bigint: true });

/** What a name in a directory leads to on the host, itself. */
function stepFrom(directory: Place, name: string): Place | FileError {
  if (!directory.stats.isDirectory()) return 'ENOTDIR';
  if (name.includes('\0')) return 'ENOENT';
  const host = directory.host === '/' ? `/${name}` : `${directory.host}/${name}`;
  try {
    return { host, stats: statusOf(host) };
  } catch (cause) {
    return errorOf(cause);
  }
}

/** Folders below `/` in which there are files that no tree holds. */
const OWN_FOLDERS: ReadonlySet<string> = new Set(['proc', 'dev', 'sys']);

/** A link has led to a folder that is not the tree's alone: where to. */
export interface Elsewhere {
  readonly elsewhere: string;
}
export const isElsewhere = (place: object | FileError): place is Elsewhere =>
  typeof place === 'object' && 'elsewhere' in place;

/**
 * What a walk finds that is at `/` behind a link; null: the tree is asked. `stops`: at all folders
 * of this kind, and says so.
 */
export function ownFolder(name: string, left: readonly string[], stops: boolean): Elsewhere | FileError | null {
  if (!OWN_FOLDERS.has(name)) return null;
  if (stops) return { elsewhere: `/${[name, ...left].join('/')}` };
  return name === 'proc' ? 'ENOENT' : null;
}

/** A walk that is asked for once more, by the question that follows: where it led. */
export class LastWalk<P> {
  private last: { readonly path: string; readonly follow: boolean; readonly place: P } | null = null;

  keep(path: string, follow: boolean, place: P): void {
    this.last = { path, follow, place };
  }

  /** Undefined: it was another one. */
  take(path: string, follow: boolean): P | undefined {
    const { last } = this;
    this.last = null;
    return last?.path === path && last.follow === follow ? last.place : undefined;
  }
}

/** Where a path of the guest leads; `stops`: or that it leads elsewhere. */
function walk(root: string, path: string, follow: boolean, stops: true): Place | FileError | Elsewhere;
function walk(root: string, path: string, follow: boolean): Place | FileError;
function walk(root: string, path: string, follow: boolean, stops = false): Place | FileError | Elsewhere {
  const left = componentsOf(path);
  let links = 0;
  try {
    // From the root to where the path has led so far.
    const places: Place[] = [{ host: root, stats: statusOf(root) }];
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      if (name === '..') {
        if (places.length > 1) places.pop();
        continue;
      }
      const own = links > 0 && places.length === 1 ? ownFolder(name, left, stops) : null;
      if (own !== null) return own;
      const next = stepFrom(places.at(-1)!, name);
      if (typeof next === 'string') return next;
      if (next.stats.isSymbolicLink() && (follow || left.length > 0)) {
        if (++links > LINKS_MAX) return 'ELOOP';
        const text = linkOf(next.host);
        if (text.startsWith('/')) places.length = 1;
        left.unshift(...componentsOf(text));
        continue;
      }
      if (left.length > 0 && !next.stats.isDirectory()) return 'ENOTDIR';
      places.push(next);
    }
    return places.at(-1)!;
  } catch (cause) {
    return errorOf(cause);
  }
}

/** What the guest is told of files; the same numbers at every run. */
class Statuses {
  private readonly inodes = new Map<string, number>();

  constructor(private readonly firstInode: number) {}

  of(stats: fs.BigIntStats): FileStatus | FileError {
    const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'directory' : stats.isSymbolicLink() ? 'link' : null;
    if (kind === null) return 'EACCES';
    // The host's numbers would differ from copy to copy; these follow from what the guest looks at.
    const key = `${stats.dev}:${stats.ino}`;
    const inode = this.inodes.get(key) ?? this.inodes.size + this.firstInode;
    this.inodes.set(key, inode);
    return {
      kind,
      permissions: Number(stats.mode & 0o7777n),
      sizeBytes: Number(stats.size),
      // When the host looked at a file, or copied the tree, is not the same at every run.
      modified: stats.mtimeNs,
      inode,
      links: Number(stats.nlink),
    };
  }
}

/**
 * Reads from an open file of the host, as far as it reached when it was opened; `changes`: as far
 * as it reaches now.
 */
function openFile(descriptor: number, first: FileStatus, changes: boolean): OpenFile {
  let open = true;
  const sizeNow = (): number => (changes && open ? fs.fstatSync(descriptor).size : first.sizeBytes);
  return {
    get status() {
      if (!changes || !open) return first;
      const { size, mode, nlink } = fs.fstatSync(descriptor);
      return { ...first, sizeBytes: size, permissions: mode & 0o7777, links: nlink };
    },
    read(offset, size) {
      const bytes = new Uint8Array(Math.max(0, Math.min(size, Math.max(sizeNow() - offset, 0))));
      let done = 0;
      while (open && done < bytes.length) {
        const count = fs.readSync(descriptor, bytes, done, bytes.length - done, offset + done);
        if (count === 0) break;
        done += count;
      }
      return bytes.subarray(0, done);
    },
    close() {
      if (open) fs.closeSync(descriptor);
      open = false;
    },
  };
}

function openPlace(place: Place, statuses: Statuses, changes: boolean): OpenFile | FileError {
  if (place.stats.isDirectory()) return 'EISDIR';
  if (!place.stats.isFile()) return 'EACCES';
  let descriptor = -1;
  try {
    // Another process may exchange names between the walk and now: the open file must be the
    // one that was seen.
    descriptor = fs.openSync(
      onHost(place.host),
      fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK,
    );
    const stats = fs.fstatSync(descriptor, { bigint: true });
    const status = statuses.of(stats);
    if (typeof status === 'string' || stats.dev !== place.stats.dev || stats.ino !== place.stats.ino) {
      fs.closeSync(descriptor);
      return 'EACCES';
    }
    return openFile(descriptor, status, changes);
  } catch (cause) {
    if (descriptor >= 0) fs.closeSync(descriptor);
    return errorOf(cause);
  }
}

/** What a tree has at a place that was reached name by name. */
export interface Reached {
  readonly status: FileStatus;
}
/** A tree that may be gone through name by name, links not followed. */
export interface Steps {
  root(): Reached | FileError;
  /** @param from  a place of this tree */
  step(from: Reached, name: string): Reached | FileError;
}

/** A tree that is asked for whole paths, as one that is gone through. */
export function stepsOf(files: FileSystem & Partial<Steps>): Steps {
  const { root, step } = files;
  if (root && step) return { root, step };
  const paths = new WeakMap<Reached, string>();
  const at = (path: string): Reached | FileError => {
    const status = files.status(path, false);
    if (typeof status === 'string') return status;
    const reached = { status };
    paths.set(reached, path);
    return reached;
  };
  return { root: () => at('/'), step: (from, name) => at(`${paths.get(from)!}/${name}`.replace('//', '/')) };
}

/** Of a tree whose files change while they are open, and stand beside those of another tree. */
export interface ChangingTree {
  readonly option: string;
  /** Of the first file that is looked at; the next ones count up. */
  readonly firstInode: number;
}

/**
 * The tree below `directory`.
 * @throws ElftraceError 'io' when it is no directory
 */
export function filesBelow(directory: string, changing?: ChangingTree): FileSystem & Steps {
  const root = rootOf(directory, changing?.option ?? '--root');
  const statuses = new Statuses(changing?.firstInode ?? 2);
  const places = new WeakMap<Reached, Place>();
  const last = new LastWalk<Place | FileError>();
  const reached = (place: Place | FileError): Reached | FileError => {
    if (typeof place === 'string') return place;
    const status = statuses.of(place.stats);
    if (typeof status === 'string') return status;
    const out = { status };
    places.set(out, place);
    return out;
  };
  return {
    root: () => reached(walk(root, '/', false)),
    step: (from, name) => reached(stepFrom(places.get(from)!, name)),
    status(path, follow) {
      const place = last.take(path, follow) ?? walk(root, path, follow);
      return typeof place === 'string' ? place : statuses.of(place.stats);
    },
    elsewhere(path, follow) {
      const place = walk(root, path, follow, true);
      if (isElsewhere(place)) return { path: place.elsewhere };
      last.keep(path, follow, place);
      return null;
    },
    open(path) {
      const place = walk(root, path, true);
      return typeof place === 'string' ? place : openPlace(place, statuses, changing !== undefined);
    },
    readLink(path) {
      const place = walk(root, path, false);
      if (typeof place === 'string') return place;
      if (!place.stats.isSymbolicLink()) return 'EINVAL';
      try {
        return { text: linkOf(place.host) };
      } catch (cause) {
        return errorOf(cause);
      }
    },
    realPath(path) {
      const place = walk(root, path, true);
      return typeof place === 'string' ? place : { path: `/${relative(root, place.host)}` };
    },
    list(path) {
      const place = walk(root, path, true);
      if (typeof place === 'string') return place;
      if (!place.stats.isDirectory()) return 'ENOTDIR';
      try {
        return namesOf(place.host).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
      } catch (cause) {
        return errorOf(cause);
      }
    },
  };
}
