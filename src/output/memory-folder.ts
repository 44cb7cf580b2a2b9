/**
 * A tree that has the folder in which programs keep memory that they share by its name (`shm_open`,
 * `sem_open`): `/dev/shm`, which a tree of files seldom holds.
 */
import type { FileError, FileStatus, FileSystem } from '../guest/index.js';

/** Folders in front of the next, with their permissions. */
const FOLDERS: ReadonlyMap<string, number> = new Map([
  ['/dev', 0o755],
  ['/dev/shm', 0o1777],
]);
/** Below the numbers of files of a tree that is written to, far above those of others. */
const FIRST_INODE = 0x3fff_ff00;

function folder(path: string, permissions: number): FileStatus {
  const inode = FIRST_INODE + path.length;
  return { kind: 'directory', permissions, sizeBytes: 4096, modified: 0n, inode };
}

/** `tree` with those of the folders that it does not have. Its paths have no links in them. */
export function withMemoryFolder(tree: FileSystem): FileSystem {
  const missing = [...FOLDERS].filter(([path]) => tree.status(path, false) === 'ENOENT');
  if (missing.length === 0) return tree;
  const made = new Map(missing.map(([path, permissions]) => [path, folder(path, permissions)]));
  const namesIn = (path: string): string[] =>
    [...made.keys()].flatMap((each) => {
      const at = each.lastIndexOf('/');
      return (each.slice(0, at) || '/') === path ? [each.slice(at + 1)] : [];
    });
  const list = (path: string): readonly string[] | FileError => {
    const names = made.has(path) ? [] : tree.list(path);
    return typeof names === 'string' ? names : [...names, ...namesIn(path)];
  };
  return {
    status: (path, follow) => made.get(path) ?? tree.status(path, follow),
    open: (path) => (made.has(path) ? 'EISDIR' : tree.open(path)),
    readLink: (path) => (made.has(path) ? 'EINVAL' : tree.readLink(path)),
    list,
  };
}
