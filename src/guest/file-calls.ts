/**
 * System calls on paths: what is opened and asked about by its name. What changes the tree is in
 * `change-calls.ts`, where paths lead in `guest-paths.ts`.
 *
 * Source: Linux, open(2), stat(2), statfs(2), path_resolution(7).
 */
import { type Answer, arg, type Arguments, type CallContext, int, type Service, storeOr } from './call-context.js';
import type { Channel } from './channels.js';
import { DEVICE_NAMES } from './devices.js';
import type { Errno } from './errno.js';
import {
  CHANGEABLE,
  type Description,
  DirectoryDescription,
  FileDescription,
  O,
  PlaceDescription,
  TextDescription,
} from './descriptions.js';
import {
  directoryEntry,
  isSpecial,
  joinPath,
  type NodeStatus,
  putNumber,
  shortDirectoryEntry,
  statBytes,
  statxBytes,
} from './files.js';
import {
  AT_EMPTY_PATH,
  AT_FDCWD,
  AT_SYMLINK_NOFOLLOW,
  type GuestPaths,
  type Place,
  withoutParents,
} from './guest-paths.js';
import { howAt, keptPath } from './kept-ways.js';
import { nodeStatus } from './network.js';
import { PipeEnd } from './pipes.js';
import { procStatus } from './proc-files.js';
import type { StatLayout } from '../machine/emulation.js';
import type { Address } from '../units.js';
import { nameBytes } from '../bytes.js';
import { reopened } from './reopened.js';

/** Of what `statfs` tells; read-only file systems say so. Source: Linux uapi/linux/magic.h. */
const TREE_MAGIC = 0x794c_7630n;
const ST_RDONLY = 1n;
const ST_VALID = 0x20n;
const BLOCK = 4096n;
const AT_EACCESS = 0x200n;
/** Permissions of the owner, who every process is. */
const OWNER = { READ: 0o400, WRITE: 0o200, EXECUTE: 0o100 } as const;
const BLOCKS = 0x4_0000n;

// prettier-ignore
export type FileCallName =
  | 'access' | 'chdir' | 'creat' | 'faccessat' | 'faccessat2' | 'fchdir' | 'flistxattr' | 'fstat' | 'fstat64'
  | 'fstatfs' | 'fstatfs64' | 'getcwd' | 'getdents' | 'getdents64' | 'listxattr' | 'llistxattr' | 'lstat'
  | 'lstat64' | 'newfstatat'
  | 'no_attributes' | 'no_attributes_of' | 'no_attributes_of_link' | 'open' | 'openat' | 'openat2'
  | 'readlink'
  | 'readlinkat' | 'stat' | 'stat64' | 'statfs' | 'statfs64' | 'statx' | 'umask';

export class FileCalls implements Readonly<Record<FileCallName, Service>> {
  constructor(
    private readonly context: CallContext,
    private readonly paths: GuestPaths,
  ) {}

  // --------------------------------------------------------------------------------------- opening

  private openAt(from: number, address: Address, flags: bigint, mode: bigint): Answer {
    const creates = (Number(BigInt.asUintN(32, flags)) & O.CREAT) !== 0;
    const found = creates ? this.pathOfFile(from, address) : this.paths.pathAt(from, address);
    if (typeof found === 'string') return found;
    return found.path === '' ? 'ENOENT' : this.openPath(found.path, flags, mode);
  }

  private openPath(path: string, flags: bigint, mode: bigint): Answer {
    const { context } = this;
    const { openFlags } = context.model;
    const wanted = Number(BigInt.asUintN(32, flags));
    const isNew = (wanted & O.CREAT) !== 0 && (wanted & O.EXCL) !== 0;
    const place = this.paths.placeOf(path, true, !isNew && (flags & openFlags.noFollow) === 0n);
    if (typeof place === 'string') return place;
    if (!context.descriptors.hasRoom(1)) return 'EMFILE';
    const isDirectory = (flags & openFlags.directory) !== 0n;
    const kept = (wanted & (O.ACCMODE | O.PATH | CHANGEABLE)) | this.largeFile(flags);
    if (place.kind === 'proc' && place.file.kind === 'descriptor') {
      const again = reopened(context, this.paths, place.file.description, { wanted, kept, isDirectory });
      if (typeof again === 'string') return again;
      if ('at' in again) return this.openPath(again.at, flags & ~openFlags.noFollow, mode);
      return BigInt(context.descriptors.add(again, (wanted & O.CLOEXEC) !== 0));
    }
    if ((wanted & O.PATH) !== 0) {
      const opened = this.openPlace(place, flags, wanted & (O.PATH | O.ACCMODE));
      if (opened !== null)
        return typeof opened === 'string'
          ? opened
          : BigInt(context.descriptors.add(opened, (wanted & O.CLOEXEC) !== 0));
    }
    if (place.kind === 'node' && place.node.pipe && !isDirectory && !isNew)
      return this.openPipe(place.path, place.node.pipe, place.node.inode, kept, (wanted & O.CLOEXEC) !== 0);
    const opened =
      place.kind === 'tree'
        ? this.openInTree(place.path, flags, kept, Number(mode & 0o7777n))
        : this.openSpecial(place, kept, wanted, isDirectory);
    if (typeof opened === 'string') return opened;
    if ((wanted & O.PATH) !== 0 && !(opened instanceof DirectoryDescription)) context.deviate('path-descriptor');
    const number = context.descriptors.add(opened, (wanted & O.CLOEXEC) !== 0);
    if (number >= 0) {
      if (place.kind === 'tree' && opened instanceof FileDescription) opened.opened();
      if (opened instanceof DirectoryDescription) opened.opened();
      return BigInt(number);
    }
    if (opened instanceof FileDescription) opened.file.close();
    return 'EMFILE';
  }

  /** Where a file is that is made when it is missing: its name asks for no directory. */
  private pathOfFile(from: number, address: Address): { readonly path: string } | Errno {
    const named = this.paths.namedAt(from, address);
    if (typeof named === 'string' || !named.asksDirectory) return named;
    const parent = this.paths.nodePath(named.path);
    return typeof parent === 'string' ? parent : 'EISDIR';
  }

  /** Opens one end, or both, of a pipe in the tree: each waits for the other. */
  private openPipe(path: string, channel: Channel, inode: number, kept: number, closeOnExec: boolean): Answer {
    const { context } = this;
    const mode = kept & O.ACCMODE;
    const [reads, writes] = [mode !== O.WRONLY, mode !== O.RDONLY];
    const isHasty = (kept & O.NONBLOCK) !== 0;
    if (isHasty && !reads && channel.readers === 0) return 'ENXIO';
    const end = new PipeEnd(kept, inode, reads ? channel : null, writes ? channel : null, path);
    const { opensToRead, opensToWrite } = channel;
    // The other end may have been opened and closed again meanwhile.
    const isReady = (): boolean =>
      reads
        ? writes || channel.writers > 0 || channel.opensToWrite !== opensToWrite
        : channel.readers > 0 || channel.opensToRead !== opensToRead;
    const attempt = (): bigint | Errno => {
      const number = context.descriptors.add(end, closeOnExec);
      if (number < 0) end.abandon();
      return number < 0 ? 'EMFILE' : BigInt(number);
    };
    if (isHasty || isReady()) return attempt();
    const over = (): void => {
      if (!isReady()) end.abandon();
    };
    return context.retry(isReady, attempt, { over });
  }

  /** Opens what is no directory as a place; null: it is opened in the ordinary way. */
  private openPlace(place: Place, flags: bigint, kept: number): PlaceDescription | Errno | null {
    const { directory, noFollow } = this.context.model.openFlags;
    if (place.kind === 'proc') return null;
    const { files } = this.context;
    const inTree = place.kind === 'tree' ? files.status(place.path, (flags & noFollow) === 0n) : null;
    if (typeof inTree === 'string') return inTree;
    if (inTree?.kind === 'directory') return null;
    if ((flags & directory) !== 0n) return 'ENOTDIR';
    switch (place.kind) {
      case 'tree': {
        const follow = inTree!.kind !== 'link';
        const name = files.nameOf(place.path, inTree!, follow);
        return new PlaceDescription(place.path, inTree!, kept, name);
      }
      case 'device':
        return new PlaceDescription(place.device.path, place.device.status, kept, null);
      case 'node':
        return new PlaceDescription(place.path, nodeStatus(place.node), kept, null);
      default:
        return place satisfies never;
    }
  }

  /** O_LARGEFILE, which is always on where words have 8 bytes. */
  private largeFile(flags: bigint): number {
    const { largeFile } = this.context.model.openFlags;
    return Number(this.context.wordBytes === 8 ? largeFile : flags & largeFile);
  }

  private openSpecial(
    place: Exclude<Place, { kind: 'tree' }>,
    kept: number,
    wanted: number,
    isDirectory: boolean,
  ): Description | Errno {
    if ((wanted & O.CREAT) !== 0 && (wanted & O.EXCL) !== 0) return 'EEXIST';
    if (place.kind === 'node') return isDirectory ? 'ENOTDIR' : 'ENXIO';
    if (place.kind === 'device') return isDirectory ? 'ENOTDIR' : place.device.open(kept, (wanted & O.NOCTTY) === 0);
    const { file, path } = place;
    const isWriting = (kept & O.ACCMODE) !== O.RDONLY;
    switch (file.kind) {
      case 'link':
        return 'ELOOP';
      case 'list':
        return isWriting ? 'EISDIR' : new DirectoryDescription(path, procStatus(file, this.context.date), kept);
      case 'descriptor':
        return file.description;
      case 'text':
        if (isDirectory) return 'ENOTDIR';
        return isWriting ? 'EACCES' : new TextDescription(path, procStatus(file, this.context.date), file.bytes);
      default:
        return file satisfies never;
    }
  }

  private openInTree(path: string, flags: bigint, kept: number, mode: number): Description | Errno {
    const { files, model } = this.context;
    const wanted = Number(BigInt.asUintN(32, flags));
    const isCreating = (wanted & O.CREAT) !== 0;
    const isWriting = (wanted & (O.ACCMODE | O.TRUNC)) !== 0;
    const isNew = isCreating && (wanted & O.EXCL) !== 0;
    const status = files.status(path, !isNew && (flags & model.openFlags.noFollow) === 0n);
    if (typeof status === 'string') {
      if (status !== 'ENOENT' || !isCreating) return status;
      return this.openForWriting(path, kept, mode, false);
    }
    if (isNew) return 'EEXIST';
    if (status.kind === 'link') return 'ELOOP';
    if (status.kind === 'directory') {
      if (isCreating || isWriting) return 'EISDIR';
      if ((wanted & O.PATH) === 0 && (status.permissions & OWNER.READ) === 0) return 'EACCES';
      return new DirectoryDescription(path, status, kept, files.nameOf(path, status));
    }
    if ((flags & model.openFlags.directory) !== 0n) return 'ENOTDIR';
    const { sharing } = this.context;
    const isReading = (wanted & O.ACCMODE) !== O.WRONLY;
    if (isReading && (status.permissions & OWNER.READ) === 0) return 'EACCES';
    if (isWriting) {
      const truncates = (wanted & O.TRUNC) !== 0;
      const opened = this.openForWriting(path, kept, mode, truncates);
      if (!(opened instanceof FileDescription)) return opened;
      sharing.copied(status.inode, opened);
      if (truncates) sharing.resized(opened.inode);
      return opened;
    }
    const file = files.open(path);
    return typeof file === 'string' ? file : new FileDescription(path, file, kept, sharing);
  }

  private openForWriting(path: string, kept: number, mode: number, truncates: boolean): Description | Errno {
    const { files } = this.context;
    if (!files.changes && files.status('/', true) === 'ENOENT') {
      this.context.deviate('read-only');
      return 'ENOENT';
    }
    const changes = this.paths.changes();
    if (typeof changes === 'string') return changes;
    const file = changes.open(path, mode & ~this.paths.mask, truncates);
    return typeof file === 'string' ? file : new FileDescription(path, file, kept, this.context.sharing);
  }

  open(args: Arguments): Answer {
    return this.openAt(AT_FDCWD, arg(args, 0), arg(args, 1), arg(args, 2));
  }

  openat(args: Arguments): Answer {
    return this.openAt(int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3));
  }

  /** As `openat`, on a way that is kept to. */
  openat2(args: Arguments): Answer {
    const how = howAt(this.context, arg(args, 2), arg(args, 3));
    if (typeof how === 'string') return how;
    const { flags, mode, resolve } = how;
    const [from, address] = [int(arg(args, 0)), arg(args, 1)];
    if (resolve === 0) return this.openAt(from, address, flags, mode);
    const follow = (flags & this.context.model.openFlags.noFollow) === 0n;
    const found = keptPath(this.context, this.paths, { from, address, resolve, follow });
    return typeof found === 'string' ? found : this.openPath(found.path, flags, mode);
  }

  creat(args: Arguments): Answer {
    return this.openAt(AT_FDCWD, arg(args, 0), BigInt(O.CREAT | O.WRONLY | O.TRUNC), arg(args, 1));
  }

  /** Devices, and what has no name, are as old as the run. */
  private dated(status: NodeStatus): NodeStatus {
    return isSpecial(status) && status.kind !== 'socket' ? { made: this.context.date, ...status } : status;
  }

  private storeStatus(status: NodeStatus | Errno, layout: StatLayout, to: Address): bigint | Errno {
    if (typeof status === 'string') return status;
    return storeOr(this.context.store(to, statBytes(this.dated(status), layout, this.context.endian)));
  }

  stat(args: Arguments): Answer {
    return this.storeStatus(
      this.paths.statusAt(AT_FDCWD, arg(args, 0), 0n),
      this.context.model.stat.plain,
      arg(args, 1),
    );
  }

  lstat(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return this.storeStatus(status, this.context.model.stat.plain, arg(args, 1));
  }

  fstat(args: Arguments): Answer {
    return this.storeStatus(this.paths.statusOf(int(arg(args, 0))), this.context.model.stat.plain, arg(args, 1));
  }

  stat64(args: Arguments): Answer {
    return this.storeStatus(
      this.paths.statusAt(AT_FDCWD, arg(args, 0), 0n),
      this.context.model.stat.large,
      arg(args, 1),
    );
  }

  lstat64(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return this.storeStatus(status, this.context.model.stat.large, arg(args, 1));
  }

  fstat64(args: Arguments): Answer {
    return this.storeStatus(this.paths.statusOf(int(arg(args, 0))), this.context.model.stat.large, arg(args, 1));
  }

  newfstatat(args: Arguments): Answer {
    const status = this.paths.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 3));
    return this.storeStatus(status, this.context.model.stat.large, arg(args, 2));
  }

  statx(args: Arguments): Answer {
    const status = this.paths.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
    if (typeof status === 'string') return status;
    return storeOr(this.context.store(arg(args, 4), statxBytes(this.dated(status), this.context.endian)));
  }

  private accessAt(from: number, address: Address, mode: bigint, flags = 0n): bigint | Errno {
    if (BigInt.asUintN(32, mode) > 7n) return 'EINVAL';
    const status = this.paths.statusAt(from, address, flags);
    if (typeof status === 'string') return status;
    if (isSpecial(status) || status.kind === 'link') return 0n;
    if ((mode & 4n) !== 0n && (status.permissions & OWNER.READ) === 0) return 'EACCES';
    if ((mode & 2n) !== 0n) {
      const changes = this.paths.changes();
      if (typeof changes === 'string') return changes;
      if ((status.permissions & OWNER.WRITE) === 0) return 'EACCES';
    }
    if ((mode & 1n) !== 0n && (status.permissions & OWNER.EXECUTE) === 0) return 'EACCES';
    return 0n;
  }

  access(args: Arguments): Answer {
    return this.accessAt(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  faccessat(args: Arguments): Answer {
    return this.accessAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  faccessat2(args: Arguments): Answer {
    const flags = BigInt.asUintN(32, arg(args, 3));
    if ((flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) !== 0n) return 'EINVAL';
    // Effective and real users are one.
    return this.accessAt(int(arg(args, 0)), arg(args, 1), arg(args, 2), flags & ~AT_EACCESS);
  }

  private readLink(from: number, address: Address, to: Address, size: bigint): bigint | Errno {
    const found = this.paths.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (BigInt.asIntN(32, size) <= 0n) return 'EINVAL';
    const own = found.path === '' ? this.context.descriptors.get(from) : null;
    if (found.path === '' && !(own instanceof PlaceDescription && own.status.kind === 'link')) return 'ENOENT';
    const place = this.paths.placeOf(own?.path ?? found.path, false);
    if (typeof place === 'string') return place;
    const link = this.linkOf(place);
    if (typeof link === 'string') return link;
    const bytes = nameBytes(link.text).subarray(0, Number(BigInt.asUintN(31, size)));
    return storeOr(this.context.store(to, bytes), BigInt(bytes.length));
  }

  private linkOf(place: Place): { readonly text: string } | Errno {
    if (place.kind === 'tree') return this.context.files.readLink(place.path);
    if (place.kind !== 'proc') return 'EINVAL';
    const { file } = place;
    if (file.kind === 'descriptor') return { text: this.context.realPath(file.description.path) };
    return file.kind === 'link' ? file : 'EINVAL';
  }

  readlink(args: Arguments): Answer {
    return this.readLink(AT_FDCWD, arg(args, 0), arg(args, 1), arg(args, 2));
  }

  readlinkat(args: Arguments): Answer {
    return this.readLink(int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3));
  }

  getdents64(args: Arguments): Answer {
    return this.entries(args, (name, kind, inode, next) =>
      directoryEntry(name, kind, inode, next, this.context.endian),
    );
  }

  getdents(args: Arguments): Answer {
    return this.entries(args, (name, kind, inode, next) => shortDirectoryEntry(name, kind, inode, next, this.context));
  }

  private entries(
    args: Arguments,
    entryOf: (name: Uint8Array, kind: NodeStatus['kind'], inode: number, next: number) => Uint8Array,
  ): Answer {
    const { context } = this;
    const description = context.descriptors.get(int(arg(args, 0)));
    if (!description) return 'EBADF';
    if (!(description instanceof DirectoryDescription)) return 'ENOTDIR';
    if (description.isGone) return 'ENOENT';
    if ((description.flags & O.PATH) !== 0) return 'EBADF';
    // To list a directory is not to search it.
    context.files.within(description.path);
    const names = (description.position > 0 ? description.listed : null) ?? this.namesIn(description.path);
    if (typeof names === 'string') return names;
    description.listed = names;
    const all = ['.', '..', ...names];
    const pieces: number[] = [];
    const room = Number(BigInt.asUintN(32, arg(args, 2)));
    let { position } = description;
    for (; position < all.length; position++) {
      const name = all[position]!;
      const inside = position < 2 ? description.path : joinPath(description.path, name);
      const status = this.paths.status(inside, false);
      if (typeof status === 'string') continue;
      const entry = entryOf(nameBytes(name), status.kind, status.inode, position + 1);
      if (pieces.length + entry.length > room) {
        if (pieces.length === 0) return 'EINVAL';
        break;
      }
      pieces.push(...entry);
    }
    if (!context.store(arg(args, 1), Uint8Array.from(pieces))) return 'EFAULT';
    description.followed?.told('access');
    description.position = position;
    return BigInt(pieces.length);
  }

  private namesIn(path: string): readonly string[] | Errno {
    const place = this.paths.placeOf(path, true);
    if (typeof place === 'string') return place;
    if (place.kind === 'tree') {
      const { network, files } = this.context;
      const listed = files.list(place.path);
      const names =
        place.path === '/dev' && typeof listed !== 'string' ? [...new Set([...listed, ...DEVICE_NAMES])] : listed;
      if (typeof names === 'string' || !network.hasNodes) return names;
      const real = files.realPath?.(place.path) ?? place;
      return typeof real === 'string' ? names : [...names, ...network.nodesIn(real.path)];
    }
    return place.kind === 'proc' && place.file.kind === 'list' ? place.file.names : 'ENOTDIR';
  }

  // ------------------------------------------------------------------------- the current directory

  getcwd(args: Arguments): Answer {
    if (this.paths.isGone) return 'ENOENT';
    const bytes = nameBytes(`${this.paths.directory}\0`);
    const length = BigInt(bytes.length);
    return arg(args, 1) < length ? 'ERANGE' : storeOr(this.context.store(arg(args, 0), bytes), length);
  }

  private enter(path: string): bigint | Errno {
    const status = this.paths.status(path, true);
    if (typeof status === 'string') return status;
    if (status.kind !== 'directory') return 'ENOTDIR';
    if ((status.permissions & OWNER.EXECUTE) === 0) return 'EACCES';
    const real = this.context.files.realPath(path);
    const place = this.paths.placeOf(path, true);
    const isInTree = typeof place !== 'string' && place.kind === 'tree';
    const isProc = typeof place !== 'string' && place.kind === 'proc';
    const whole = typeof real === 'object' ? real.path : withoutParents(path);
    this.paths.enter(isProc ? place.path : whole, isInTree ? status : null);
    return 0n;
  }

  chdir(args: Arguments): Answer {
    const found = this.paths.pathAt(AT_FDCWD, arg(args, 0));
    if (typeof found === 'string') return found;
    return found.path === '' ? 'ENOENT' : this.enter(found.path);
  }

  fchdir(args: Arguments): Answer {
    const description = this.context.descriptors.get(int(arg(args, 0)));
    if (!description) return 'EBADF';
    if (!(description instanceof DirectoryDescription)) return 'ENOTDIR';
    return description.isGone ? 'ENOENT' : this.enter(description.path);
  }

  umask(args: Arguments): Answer {
    const before = this.paths.mask;
    this.paths.mask = Number(arg(args, 0) & 0o777n);
    return BigInt(before);
  }

  // ------------------------------------------------------------------------------ the file systems

  /** Words of 8 bytes, but for the two of the identifier. `wide`: 8 bytes for counts on 32 bits. */
  private storeFileSystem(to: Address, wide: boolean): bigint | Errno {
    const { wordBytes: word, endian } = this.context;
    const count = wide ? 8 : word;
    const flags = ST_VALID | (this.context.files.changes ? 0n : ST_RDONLY);
    const rows: readonly (readonly [bigint, number])[] = [
      [TREE_MAGIC, word], [BLOCK, word],
      [BLOCKS, count], [BLOCKS / 2n, count], [BLOCKS / 2n, count], [BLOCKS, count], [BLOCKS / 2n, count],
      [0n, 4], [0n, 4], [255n, word], [BLOCK, word], [flags, word], [0n, word], [0n, word], [0n, word], [0n, word],
    ]; // prettier-ignore
    const bytes = new Uint8Array(rows.reduce((sum, [, size]) => sum + size, 0));
    let at = 0;
    for (const [value, size] of rows) {
      putNumber(bytes, at, size, value, endian);
      at += size;
    }
    return storeOr(this.context.store(to, bytes));
  }

  statfs(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), 0n);
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 1), false);
  }

  fstatfs(args: Arguments): Answer {
    const status = this.paths.statusOf(int(arg(args, 0)));
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 1), false);
  }

  statfs64(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), 0n);
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 2), true);
  }

  fstatfs64(args: Arguments): Answer {
    const status = this.paths.statusOf(int(arg(args, 0)));
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 2), true);
  }

  /** Extended attributes: the tree has none. */
  no_attributes(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), 0n);
    return typeof status === 'string' ? status : 'EOPNOTSUPP';
  }

  no_attributes_of_link(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return typeof status === 'string' ? status : 'EOPNOTSUPP';
  }

  no_attributes_of(args: Arguments): Answer {
    return this.context.descriptors.used(int(arg(args, 0))) ? 'EOPNOTSUPP' : 'EBADF';
  }

  /** There are none, which is no error. */
  listxattr(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), 0n);
    return typeof status === 'string' ? status : 0n;
  }

  llistxattr(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return typeof status === 'string' ? status : 0n;
  }

  flistxattr(args: Arguments): Answer {
    return this.context.descriptors.used(int(arg(args, 0))) ? 0n : 'EBADF';
  }
}
