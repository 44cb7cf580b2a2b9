/**
 * What a process sees of files: a tree that the starter of the process gives as an object, and the
 * structures of Linux that tell of them. The emulator has no files of its own: without a tree every
 * path is missing. Paths are the guest's, absolute, and mean places in the tree; the tree resolves
 * `..` and symbolic links, and never leaves itself.
 */
import { alignUp } from '../bits.js';
import type { StatLayout, StatField } from '../machine/emulation.js';
import type { Endian } from '../units.js';

/** Why a file could not be had or changed: names of Linux errors. */
export type FileError =
  | 'ENOENT' | 'ENOTDIR' | 'EISDIR' | 'EACCES' | 'ELOOP' | 'EINVAL' | 'EIO' | 'ENAMETOOLONG' | 'EEXIST' | 'ENOTEMPTY' | 'ENOSPC' | 'EFBIG' | 'EPERM' | 'EBUSY' | 'EXDEV'; // prettier-ignore

export interface FileStatus {
  readonly kind: 'file' | 'directory' | 'link';
  /** Permission bits, 0o000 to 0o7777. */
  readonly permissions: number;
  readonly sizeBytes: number;
  /** Nanoseconds since 1970. */
  readonly modified: bigint;
  /** Default: `modified`. */
  readonly accessed?: bigint;
  /** Default: `modified`. */
  readonly changed?: bigint;
  /** Different for different files. */
  readonly inode: number;
  /** Names of the file. Default: 1. */
  readonly links?: number;
}

/** What a process does with what it has opened. */
export type FileUse = 'open' | 'access' | 'modify' | 'close' | 'close-written';

/** A regular file open for reading. */
export interface OpenFile {
  readonly status: FileStatus;
  /** At most `size` bytes from `offset`; fewer only at the end of the file. */
  read(offset: number, size: number): Uint8Array;
  close(): void;
  /** Tells what a process did with it by a system call. */
  told?(use: FileUse): void;
  /** By which name it was opened. */
  readonly name?: { readonly path: string };
}

/** A regular file open for reading and writing. */
export interface WritableFile extends OpenFile {
  /** How many bytes were written. */
  write(offset: number, bytes: Uint8Array): number | FileError;
  resize(size: number): FileError | null;
}

/** What changes a tree that may be written; null: it is done. Links at the end are not followed. */
export interface FileChanges {
  /** Opens a file, which is made when it is missing, with exactly these permissions. */
  open(path: string, permissions: number, truncates: boolean): WritableFile | FileError;
  makeDirectory(path: string, permissions: number): FileError | null;
  remove(path: string, kind: 'file' | 'directory'): FileError | null;
  rename(from: string, to: string): FileError | null;
  symbolicLink(text: string, path: string): FileError | null;
  /**
   * Gives the file at `from` a second name; `follow`: that which a symbolic link there leads to.
   * Default: files have one name.
   */
  link?(from: string, to: string, follow: boolean): FileError | null;
  setPermissions(path: string, permissions: number): FileError | null;
  /**
   * Nanoseconds since 1970, which may be kept less exactly. Default: they are not kept beyond the
   * run.
   */
  setTimes?(path: string, accessed: bigint, modified: bigint, follow: boolean): FileError | null;
}

/** A tree of files. Paths are absolute, components separated by single slashes. */
export interface FileSystem {
  /** `follow`: of what a symbolic link at the end leads to. */
  status(path: string, follow: boolean): FileStatus | FileError;
  open(path: string): OpenFile | FileError;
  /** Text of a symbolic link; EINVAL when it is none. */
  readLink(path: string): { readonly text: string } | FileError;
  /** Names in a directory, without `.` and `..`, in a fixed order. */
  list(path: string): readonly string[] | FileError;
  /**
   * Paths of the calls that follow are meant from a directory, without links, that is open already:
   * what is above it need not be searched. Null: from `/`. Default: nothing is refused.
   */
  from?(base: string | null): void;
  /**
   * Where a path leads that a link takes to `/proc`, `/dev` or `/sys`, which are not the tree's
   * alone; null: it does not. By any other question the tree has no `/proc` behind a link: what a
   * host has there is not the guest's. Default: no link leads there.
   */
  elsewhere?(path: string, follow: boolean): { readonly path: string } | null;
  /** The path without links and `..`. Default: the path itself. */
  realPath?(path: string): { readonly path: string } | FileError;
  /** Without it nothing may be changed. */
  readonly changes?: FileChanges;
}

/** The tree of a process without files. */
export const NO_FILES: FileSystem = {
  status: () => 'ENOENT',
  open: () => 'ENOENT',
  readLink: () => 'ENOENT',
  list: () => 'ENOENT',
};

/**
 * Standard input that can be read again from where it was at a snapshot. What the host gave is kept
 * from the first snapshot on, piece by piece, so that a run that is repeated gets the same pieces.
 */
export class ReplayedInput {
  /** null: no snapshot was made yet. */
  private pieces: Uint8Array[] | null = null;
  /** The piece that is read next, and how much of it was read. */
  private index = 0;
  private offset = 0;

  constructor(private readonly source: (size: number) => Uint8Array | null) {}

  /** At most `size` bytes; none at the end; null: none yet. */
  read(size: number): Uint8Array | null {
    if (!this.pieces) return this.source(size)?.subarray(0, size) ?? null;
    if (this.index === this.pieces.length) {
      const piece = this.source(size)?.slice(0, size);
      if (piece === undefined) return null;
      this.pieces.push(piece);
    }
    const piece = this.pieces[this.index]!;
    const bytes = piece.subarray(this.offset, this.offset + size);
    this.offset += bytes.length;
    if (this.offset === piece.length) {
      this.index++;
      this.offset = 0;
    }
    return bytes;
  }

  save(): () => void {
    this.pieces ??= [];
    const { index, offset } = this;
    return () => {
      this.index = index;
      this.offset = offset;
    };
  }
}

/** What is no file of the tree: a device, a pipe, a socket, or what has no name at all. */
export interface SpecialStatus {
  readonly kind: 'character' | 'pipe' | 'socket' | 'anonymous';
  readonly permissions: number;
  readonly inode: number;
  /** Of a device: as `makedev` joins its numbers. */
  readonly device: number;
  /** Nanoseconds since 1970: all of its times. Default: 1970, as of sockets without a place. */
  readonly made?: bigint;
}

export type NodeStatus = FileStatus | SpecialStatus;

export function isSpecial(status: NodeStatus): status is SpecialStatus {
  return !('sizeBytes' in status);
}

const MODE = {
  file: 0o100000, directory: 0o040000, link: 0o120000, character: 0o020000, pipe: 0o010000, socket: 0o140000, anonymous: 0,
} as const; // prettier-ignore

/** Bytes of the least and largest unit that `stat` speaks of. */
const BLOCK_BYTES = 4096;
const SECTOR_BYTES = 512;
const SHORT_LINK = 60;

type Fields = Readonly<Record<Exclude<StatField, TimeField>, number>> & Readonly<Record<TimeField, bigint>>;
type TimeField = 'atime' | 'mtime' | 'ctime';
const NANOSECONDS = 1_000_000_000n;
/** Whole seconds, and nanoseconds behind them. */
const partsOf = (time: bigint): readonly [bigint, bigint] => {
  const rest = ((time % NANOSECONDS) + NANOSECONDS) % NANOSECONDS;
  return [(time - rest) / NANOSECONDS, rest];
};

function fieldsOf(status: NodeStatus): Fields {
  const special = isSpecial(status);
  const size = special ? 0 : status.sizeBytes;
  const time = special ? (status.made ?? 0n) : status.modified;
  return {
    dev: special ? 2 : 1,
    ino: status.inode,
    mode: MODE[status.kind] | status.permissions,
    nlink: special ? 1 : (status.links ?? 1),
    uid: 1000,
    gid: 1000,
    rdev: special ? status.device : 0,
    size,
    blksize: BLOCK_BYTES,
    // The text of a short link is kept where its status is.
    blocks: status.kind === 'link' && size < SHORT_LINK ? 0 : alignUp(size, BLOCK_BYTES) / SECTOR_BYTES,
    atime: special ? time : (status.accessed ?? time),
    mtime: time,
    ctime: special ? time : (status.changed ?? time),
  };
}

/** Writes `size` bytes of an unsigned number. */
export function putNumber(bytes: Uint8Array, at: number, size: number, value: number | bigint, endian: Endian): void {
  let rest = BigInt(value);
  for (let i = 0; i < size; i++) {
    bytes[endian === 'little' ? at + i : at + size - 1 - i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
}

/** The bytes of a `struct stat`. */
export function statBytes(status: NodeStatus, layout: StatLayout, endian: Endian): Uint8Array {
  const bytes = new Uint8Array(layout.sizeBytes);
  const fields = fieldsOf(status);
  const put = (name: StatField): void => {
    const [at, size] = layout.fields[name];
    const value = fields[name];
    if (typeof value === 'number') {
      putNumber(bytes, at, size, value, endian);
      return;
    }
    // On all targets the nanoseconds stand behind the seconds, and are as wide.
    partsOf(value).forEach((part, i) => {
      putNumber(bytes, at + i * size, size, part, endian);
    });
  };
  put('dev');
  put('ino');
  put('mode');
  put('nlink');
  put('uid');
  put('gid');
  put('rdev');
  put('size');
  put('blksize');
  put('blocks');
  put('atime');
  put('mtime');
  put('ctime');
  return bytes;
}

/** The bytes of a `struct statx`, equal on all targets. Source: Linux uapi/linux/stat.h. */
export function statxBytes(status: NodeStatus, endian: Endian): Uint8Array {
  const STATX_BASIC_STATS = 0x7ff;
  const bytes = new Uint8Array(256);
  const fields = fieldsOf(status);
  const put = (at: number, size: number, value: number): void => {
    putNumber(bytes, at, size, value, endian);
  };
  const putTime = (at: number, time: bigint): void => {
    const [seconds, rest] = partsOf(time);
    putNumber(bytes, at, 8, seconds, endian);
    putNumber(bytes, at + 8, 4, rest, endian);
  };
  put(0, 4, STATX_BASIC_STATS);
  put(4, 4, fields.blksize);
  put(16, 4, fields.nlink);
  put(20, 4, fields.uid);
  put(24, 4, fields.gid);
  put(28, 2, fields.mode);
  put(32, 8, fields.ino);
  put(40, 8, fields.size);
  put(48, 8, fields.blocks);
  putTime(64, fields.atime);
  putTime(96, fields.ctime);
  putTime(112, fields.mtime);
  // Major and minor number, of the device itself and of the one that holds the file.
  put(128, 4, fields.rdev >> 8);
  put(132, 4, fields.rdev & 0xff);
  put(140, 4, fields.dev);
  return bytes;
}

const DT = { pipe: 1, character: 2, directory: 4, file: 8, link: 10, socket: 12, anonymous: 0 } as const;

/** One entry of `getdents64`. `next` is the position of the entry behind it. */
export function directoryEntry(
  name: Uint8Array,
  kind: NodeStatus['kind'],
  inode: number,
  next: number,
  endian: Endian,
): Uint8Array {
  const bytes = new Uint8Array(alignUp(19 + name.length + 1, 8));
  putNumber(bytes, 0, 8, inode, endian);
  putNumber(bytes, 8, 8, next, endian);
  putNumber(bytes, 16, 2, bytes.length, endian);
  bytes[18] = DT[kind];
  bytes.set(name, 19);
  return bytes;
}

/**
 * One entry of `getdents`, of words of a target: the kind of the file stands behind the name.
 * Source: Linux, getdents(2).
 */
export function shortDirectoryEntry(
  name: Uint8Array,
  kind: NodeStatus['kind'],
  inode: number,
  next: number,
  { endian, wordBytes }: { readonly endian: Endian; readonly wordBytes: 4 | 8 },
): Uint8Array {
  const at = 2 * wordBytes;
  const bytes = new Uint8Array(alignUp(at + 2 + name.length + 2, wordBytes));
  putNumber(bytes, 0, wordBytes, inode, endian);
  putNumber(bytes, wordBytes, wordBytes, next, endian);
  putNumber(bytes, at, 2, bytes.length, endian);
  bytes.set(name, at + 2);
  bytes[bytes.length - 1] = DT[kind];
  return bytes;
}

/** The directory that a path without `..` is in. */
export const parentPath = (path: string): string => path.replace(/\/[^/]*$/, '') || '/';
/** The last name of a path. */
export const lastName = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

export const isFileError = <T extends object>(status: T | FileError): status is FileError => typeof status === 'string';

/**
 * The absolute path that `path` means from the directory `base`; `.` and `..` are left to the tree.
 */
export function joinPath(base: string, path: string): string {
  const whole = path.startsWith('/') ? path : `${base}/${path}`;
  return `/${whole
    .split('/')
    .filter((each) => each !== '' && each !== '.')
    .join('/')}`;
}
