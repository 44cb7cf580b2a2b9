/**
 * The files below one directory, for a guest, read-only. The directory is the guest's `/`: `..`
 * stops there, absolute links start there. Links are resolved here, component by component, and the
 * host is only ever asked about paths without links in them, so that no name leads out. Only
 * regular files and directories are served.
 */
import * as fs from 'node:fs';
import { join, relative, resolve } from 'node:path';
import type { FileError, FileStatus, FileSystem } from '../emulator/index.js';
import { ElftraceError } from '../errors.js';

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
  readonly stats: fs.Stats;
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
 * The tree below `directory`.
 * @throws ElftraceError 'io' when it is no directory
 */
export function filesBelow(directory: string, option = '--root'): FileSystem {
  let root: string;
  try {
    root = fs.realpathSync(directory);
    if (!fs.statSync(root).isDirectory()) throw new Error('it is no directory');
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new ElftraceError('io', `${option} ${directory}: ${text}`, { file: directory }, { cause });
  }
  const inodes = new Map<string, number>();

  /** Where a path of the guest leads. */
  const walk = (path: string, follow: boolean): Place | FileError => {
    const left = path.split('/').filter((each) => each !== '' && each !== '.');
    const real: string[] = [];
    let links = 0;
    try {
      let stats = fs.lstatSync(root);
      for (let name = left.shift(); name !== undefined; name = left.shift()) {
        if (name === '..') {
          real.pop();
          stats = fs.lstatSync(join(root, ...real));
          continue;
        }
        if (name.includes('\0')) return 'ENOENT';
        const host = join(root, ...real, name);
        stats = fs.lstatSync(host);
        if (stats.isSymbolicLink() && (follow || left.length > 0)) {
          if (++links > LINKS_MAX) return 'ELOOP';
          const text = fs.readlinkSync(host);
          if (text.startsWith('/')) real.length = 0;
          left.unshift(...text.split('/').filter((each) => each !== '' && each !== '.'));
          stats = fs.lstatSync(join(root, ...real));
          continue;
        }
        if (left.length > 0 && !stats.isDirectory()) return 'ENOTDIR';
        real.push(name);
      }
      return { host: join(root, ...real), stats };
    } catch (cause) {
      return errorOf(cause);
    }
  };

  const statusOf = (stats: fs.Stats): FileStatus | FileError => {
    const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'directory' : stats.isSymbolicLink() ? 'link' : null;
    if (kind === null) return 'EACCES';
    // The host's numbers would differ from copy to copy; these follow from what the guest looks at.
    const key = `${stats.dev}:${stats.ino}`;
    const inode = inodes.get(key) ?? inodes.size + 2;
    inodes.set(key, inode);
    return {
      kind,
      permissions: stats.mode & 0o777,
      sizeBytes: stats.size,
      modified: Math.max(0, Math.floor(stats.mtimeMs / 1000)),
      inode,
      links: stats.nlink,
    };
  };

  return {
    status(path, follow) {
      const place = walk(path, follow);
      return typeof place === 'string' ? place : statusOf(place.stats);
    },
    open(path) {
      const place = walk(path, true);
      if (typeof place === 'string') return place;
      if (place.stats.isDirectory()) return 'EISDIR';
      if (!place.stats.isFile()) return 'EACCES';
      let descriptor = -1;
      try {
        // Another process may exchange names between the walk and now: the open file must be the
        // one that was seen.
        descriptor = fs.openSync(place.host, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
        const stats = fs.fstatSync(descriptor);
        const status = statusOf(stats);
        if (typeof status === 'string' || stats.dev !== place.stats.dev || stats.ino !== place.stats.ino) {
          fs.closeSync(descriptor);
          return 'EACCES';
        }
        let open = true;
        return {
          status,
          read(offset, size) {
            const bytes = new Uint8Array(Math.max(0, Math.min(size, Math.max(stats.size - offset, 0))));
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
      } catch (cause) {
        if (descriptor >= 0) fs.closeSync(descriptor);
        return errorOf(cause);
      }
    },
    readLink(path) {
      const place = walk(path, false);
      if (typeof place === 'string') return place;
      if (!place.stats.isSymbolicLink()) return 'EINVAL';
      try {
        return { text: fs.readlinkSync(place.host) };
      } catch (cause) {
        return errorOf(cause);
      }
    },
    realPath(path) {
      const place = walk(path, true);
      return typeof place === 'string' ? place : { path: `/${relative(root, place.host)}` };
    },
    list(path) {
      const place = walk(path, true);
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
