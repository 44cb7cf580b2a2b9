/**
 * What is opened by way of a descriptor (`/proc/self/fd/3`, `/dev/fd/3`): the file that it leads to
 * is opened once more, with a position and a mode of its own.
 *
 * Source: Linux, proc(5), open(2), fs/proc/base.c.
 */
import type { CallContext } from './call-context.js';
import { type Description, FileDescription, O, PlaceDescription } from './descriptions.js';
import type { Errno } from './errno.js';
import type { GuestPaths } from './guest-paths.js';
import { PipeEnd } from './pipes.js';
import { Socket } from './sockets.js';

const OWNER = { READ: 0o400, WRITE: 0o200 } as const;

/** How it is opened. */
export interface Way {
  /** Flags of `open`, and those that a description keeps. */
  readonly wanted: number;
  readonly kept: number;
  readonly isDirectory: boolean;
}

/** Where it is opened by its name; or the description, or what is wrong. */
export type Reopened = { readonly at: string } | Description | Errno;

export function reopened(context: CallContext, paths: GuestPaths, description: Description, way: Way): Reopened {
  const { status, path } = description;
  const { wanted, kept, isDirectory } = way;
  if (description instanceof PlaceDescription && status.kind === 'link') return 'ELOOP';
  if (description instanceof Socket) return 'ENXIO';
  // Those of all processes have one owner, who is another user.
  if (status.kind === 'anonymous') return 'EACCES';
  if (path.startsWith('/') && leadsThere(paths, path, status.inode)) return { at: path };
  if ((wanted & O.CREAT) !== 0 && (wanted & O.EXCL) !== 0) return 'EEXIST';
  if (isDirectory && status.kind !== 'directory') return 'ENOTDIR';
  if (description instanceof PipeEnd) return description.again(kept) ?? 'ENXIO';
  return description instanceof FileDescription ? fileAgain(context, description, way) : description;
}

function leadsThere(paths: GuestPaths, path: string, inode: number): boolean {
  const place = paths.placeOf(path, true);
  if (typeof place === 'string' || (place.kind === 'proc' && place.file.kind === 'descriptor')) return false;
  const status = paths.status(path, true);
  return typeof status !== 'string' && status.inode === inode;
}

/** A file without a name: memory, or one that was removed. */
function fileAgain(context: CallContext, description: FileDescription, { wanted, kept }: Way): FileDescription | Errno {
  const mode = wanted & O.ACCMODE;
  const writes = mode !== O.RDONLY || (wanted & O.TRUNC) !== 0;
  const asked = (mode === O.WRONLY ? 0 : OWNER.READ) | (writes ? OWNER.WRITE : 0);
  if ((description.status.permissions & asked) !== asked) return 'EACCES';
  if (writes && !('write' in description.file)) {
    context.deviate('nameless');
    return 'EACCES';
  }
  const refusal = (wanted & O.TRUNC) === 0 ? null : description.resize(0);
  return refusal ?? description.again(kept);
}
