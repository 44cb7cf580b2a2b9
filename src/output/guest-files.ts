/**
 * The files below one directory, for a guest, read-only. The directory is the guest's `/`: `..`
 * stops there, absolute links start there. Links are resolved here, component by component, and the
 * host is only ever asked about paths without links in them, so that no name leads out. Only
 * regular files and directories are served.
 */
import * as fs from 'node:fs';
import { join, relative, resolve } from 'node:path';
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

const statusOf = (path: string): fs.BigIntStats => fs.lstatSync(path, { bigint: true });

/** Where a path of the guest leads. */
function walk(root: string, path: string, follow: boolean): Place | FileError {
  const left = componentsOf(path);
  const real: string[] = [];
  let links = 0;
  try {
    let stats = statusOf(root);
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      if (name === '..') {
        real.pop();
        stats = statusOf(join(root, ...real));
        continue;
      }
      if (name.includes('\0')) return 'ENOENT';
      const host = join(root, ...real, name);
      stats = statusOf(host);
      if (stats.isSymbolicLink() && (follow || left.length > 0)) {
        if (++links > LINKS_MAX) return 'ELOOP';
        const text = fs.readlinkSync(host);
        if (text.startsWith('/')) real.length = 0;
        left.unshift(...componentsOf(text));
        stats = statusOf(join(root, ...real));
        continue;
      }
      if (left.length > 0 && !stats.isDirectory()) return 'ENOTDIR';
      real.push(name);
    }
    return { host: join(root, ...real), stats };
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
    descriptor = fs.openSync(place.host, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
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
export function filesBelow(directory: string, changing?: ChangingTree): FileSystem {
  const root = rootOf(directory, changing?.option ?? '--root');
  const statuses = new Statuses(changing?.firstInode ?? 2);
  return {
    status(path, follow) {
      const place = walk(root, path, follow);
      return typeof place === 'string' ? place : statuses.of(place.stats);
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
        return { text: fs.readlinkSync(place.host) };
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
        return fs.readdirSync(place.host).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
      } catch (cause) {
        return errorOf(cause);
      }
    },
  };
}
