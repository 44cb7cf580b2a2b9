/**
 * What is told of files, and to whom: events of `inotify`.
 *
 * Source: Linux, inotify(7), the order of events by experiment.
 */
import type { FileUse } from './files.js';

/** Events of files. Source: Linux uapi/linux/inotify.h; equal on all targets. */
export const EVENT = {
  ACCESS: 1, MODIFY: 2, ATTRIB: 4, CLOSE_WRITE: 8, CLOSE_NOWRITE: 0x10, OPEN: 0x20, MOVED_FROM: 0x40, MOVED_TO: 0x80,
  CREATE: 0x100, DELETE: 0x200, DELETE_SELF: 0x400, MOVE_SELF: 0x800, IGNORED: 0x8000, DIRECTORY: 0x4000_0000,
} as const; // prettier-ignore

export const EVENT_OF = {
  open: EVENT.OPEN, access: EVENT.ACCESS, modify: EVENT.MODIFY, close: EVENT.CLOSE_NOWRITE, 'close-written': EVENT.CLOSE_WRITE,
} as const satisfies Record<FileUse, number>; // prettier-ignore

/** Something that happened to a file. */
export interface FileNews {
  readonly event: number;
  /** In the directory that is told; null: it is told to the watchers of the file itself. */
  readonly name: string | null;
  /** Joins the two halves of a renaming; else 0. */
  readonly cookie: number;
  /** The name by which the file was opened is gone. */
  readonly isUnlinked: boolean;
}

export interface FileWatcher {
  /** False: it does not watch the file with this inode. */
  watches(inode: number): boolean;
  tell(inode: number, news: FileNews): void;
  /** There is no such file any more. */
  gone(inode: number): void;
}
