/**
 * System calls on paths: what is opened, asked about and changed by its name. Paths lead to what
 * exists whatever the tree is (`devices.ts`, `proc.ts`), or into the tree.
 *
 * Source: Linux, open(2), stat(2), statfs(2), path_resolution(7).
 */
import { type Answer, arg, type Arguments, type CallContext, int, type Service, storeOr } from './call-context.js';
import type { Errno } from './errno.js';
import {
  CHANGEABLE,
  type Description,
  DirectoryDescription,
  FileDescription,
  O,
  TextDescription,
} from './descriptions.js';
import { deviceAt } from './devices.js';
import {
  directoryEntry,
  type FileChanges,
  type FileError,
  isSpecial,
  joinPath,
  type NodeStatus,
  putNumber,
  statBytes,
  statxBytes,
} from './files.js';
import { type ProcFile, procFileAt, procStatus } from './proc.js';
import type { StatLayout } from '../machine/emulation.js';
import type { Address } from '../units.js';

const PATH_MAX = 4096;
const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100n;
const AT_REMOVEDIR = 0x200n;
const AT_EMPTY_PATH = 0x1000n;
/** Links of `/proc` that are followed one behind the other. */
const LINKS_MOST = 8;
/** Of what `statfs` tells; read-only file systems say so. Source: Linux uapi/linux/magic.h. */
const TREE_MAGIC = 0x794c_7630n;
const ST_RDONLY = 1n;
const ST_VALID = 0x20n;
const BLOCK = 4096n;
const BLOCKS = 0x4_0000n;

export type FileCallName =
  | 'access' | 'chdir' | 'chmod' | 'creat' | 'faccessat' | 'faccessat2' | 'fchdir' | 'fchmod' | 'fchmodat' | 'fchown' | 'fchownat' | 'fstat' | 'fstat64' | 'fstatfs' | 'fstatfs64'
  | 'ftruncate' | 'ftruncate64' | 'getcwd' | 'getdents64' | 'link' | 'linkat' | 'lstat' | 'lstat64' | 'mkdir' | 'mkdirat' | 'newfstatat' | 'no_attributes' | 'no_attributes_of' | 'open'
  | 'openat' | 'readlink' | 'readlinkat' | 'rename' | 'renameat' | 'renameat2' | 'rmdir' | 'stat' | 'stat64' | 'statfs' | 'statfs64' | 'statx' | 'symlink' | 'symlinkat' | 'truncate'
  | 'truncate64' | 'umask' | 'unlink' | 'unlinkat' | 'utimensat'; // prettier-ignore

/** What a path leads to. */
type Place =
  | { readonly kind: 'tree'; readonly path: string }
  | { readonly kind: 'device'; readonly device: NonNullable<ReturnType<typeof deviceAt>> }
  | { readonly kind: 'proc'; readonly path: string; readonly file: ProcFile };

export class FileCalls implements Readonly<Record<FileCallName, Service>> {
  private readonly decoder = new TextDecoder();
  private readonly encoder = new TextEncoder();
  private cwd = '/';
  private mask = 0o022;

  constructor(private readonly context: CallContext) {}

  save(): () => void {
    const { cwd, mask } = this;
    return () => {
      Object.assign(this, { cwd, mask });
    };
  }

  /** What a process has that begins as a copy of this one. */
  copyTo(other: FileCalls): void {
    other.cwd = this.cwd;
    other.mask = this.mask;
  }

  get directory(): string {
    return this.cwd;
  }

  // ----------------------------------------------------------------------------------------- paths

  /** The text at `address`. */
  textAt(address: Address): { readonly text: string } | Errno {
    const { memory } = this.context.machine;
    const bytes = memory.readCString(address, PATH_MAX);
    if (!bytes) return memory.check(address, 1, 'read') === null ? 'ENAMETOOLONG' : 'EFAULT';
    return { text: this.decoder.decode(bytes) };
  }

  /** The path at `address` as the guest means it from descriptor `from`; '' stays ''. */
  pathAt(from: number, address: Address): { readonly path: string } | Errno {
    const found = this.textAt(address);
    if (typeof found === 'string') return found;
    const { text } = found;
    if (text === '' || text.startsWith('/') || from === AT_FDCWD) {
      return { path: text === '' ? '' : joinPath(this.cwd, text) };
    }
    const base = this.context.descriptors.get(from);
    if (!base) return 'EBADF';
    return base instanceof DirectoryDescription ? { path: joinPath(base.path, text) } : 'ENOTDIR';
  }

  /** Where a path leads; `follow`: through the links of `/proc`. */
  private placeOf(path: string, follow: boolean): Place | Errno {
    let at = path;
    for (let links = 0; links < LINKS_MOST; links++) {
      const plain = withoutParents(at);
      const device = deviceAt(plain, (size) => this.context.randomBytes(size));
      if (device) return { kind: 'device', device };
      const file = procFileAt(plain, this.context.procSubject());
      if (!file) return { kind: 'tree', path: at };
      if (file.kind !== 'link' || !follow) return { kind: 'proc', path: plain, file };
      at = file.text;
    }
    return 'ELOOP';
  }

  /** Where a path leads in the tree; an error where that is a device, or a file of `/proc`. */
  inTree(path: string): { readonly path: string } | Errno {
    const place = this.placeOf(path, true);
    if (typeof place === 'string' || place.kind === 'tree') return place;
    return 'EACCES';
  }

  status(path: string, follow: boolean): NodeStatus | Errno {
    const place = this.placeOf(path, follow);
    if (typeof place === 'string') return place;
    switch (place.kind) {
      case 'tree':
        return this.context.files.status(place.path, follow);
      case 'device':
        return place.device.status;
      case 'proc':
        return place.file.kind === 'descriptor' && follow ? place.file.description.status : procStatus(place.file);
      default:
        return place satisfies never;
    }
  }

  // --------------------------------------------------------------------------------------- opening

  private openAt(from: number, address: Address, flags: bigint, mode: bigint): bigint | Errno {
    const { context } = this;
    const { openFlags } = context.model;
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (found.path === '') return 'ENOENT';
    const wanted = Number(BigInt.asUintN(32, flags));
    if ((wanted & O.PATH) !== 0) context.deviate('path-descriptor');
    const place = this.placeOf(found.path, true);
    if (typeof place === 'string') return place;
    if (!context.descriptors.hasRoom(1)) return 'EMFILE';
    const isDirectory = (flags & openFlags.directory) !== 0n;
    const kept = (wanted & (O.ACCMODE | CHANGEABLE)) | this.largeFile(flags);
    const opened =
      place.kind === 'tree'
        ? this.openInTree(place.path, flags, kept, Number(mode & 0o7777n))
        : this.openSpecial(place, kept, wanted, isDirectory);
    if (typeof opened === 'string') return opened;
    const number = context.descriptors.add(opened, (wanted & O.CLOEXEC) !== 0);
    if (number >= 0) return BigInt(number);
    if (opened instanceof FileDescription) opened.file.close();
    return 'EMFILE';
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
    if (place.kind === 'device') return isDirectory ? 'ENOTDIR' : place.device.open(kept);
    const { file, path } = place;
    const isWriting = (kept & O.ACCMODE) !== O.RDONLY;
    switch (file.kind) {
      case 'link':
        return 'ELOOP';
      case 'list':
        return isWriting ? 'EISDIR' : new DirectoryDescription(path, procStatus(file), kept);
      case 'descriptor':
        return isDirectory ? 'ENOTDIR' : file.description;
      case 'text':
        if (isDirectory) return 'ENOTDIR';
        return isWriting ? 'EACCES' : new TextDescription(path, procStatus(file), file.bytes);
      default:
        return file satisfies never;
    }
  }

  private openInTree(path: string, flags: bigint, kept: number, mode: number): Description | Errno {
    const { files, model } = this.context;
    const wanted = Number(BigInt.asUintN(32, flags));
    const isCreating = (wanted & O.CREAT) !== 0;
    const isWriting = (wanted & (O.ACCMODE | O.TRUNC)) !== 0;
    const status = files.status(path, (flags & model.openFlags.noFollow) === 0n);
    if (typeof status === 'string') {
      if (status !== 'ENOENT' || !isCreating) return status;
      return this.openForWriting(path, kept, mode, false);
    }
    if (isCreating && (wanted & O.EXCL) !== 0) return 'EEXIST';
    if (status.kind === 'link') return 'ELOOP';
    if (status.kind === 'directory') {
      return isCreating || isWriting ? 'EISDIR' : new DirectoryDescription(path, status, kept);
    }
    if ((flags & model.openFlags.directory) !== 0n) return 'ENOTDIR';
    if (isWriting) return this.openForWriting(path, kept, mode, (wanted & O.TRUNC) !== 0);
    if ((status.permissions & 0o400) === 0) return 'EACCES';
    const file = files.open(path);
    return typeof file === 'string' ? file : new FileDescription(path, file, kept);
  }

  /** What changes the tree; an error: nothing may. */
  private changes(): FileChanges | Errno {
    const { files } = this.context;
    if (files.changes) return files.changes;
    this.context.deviate('read-only');
    return 'EROFS';
  }

  private openForWriting(path: string, kept: number, mode: number, truncates: boolean): Description | Errno {
    const { files } = this.context;
    if (!files.changes && files.status('/', true) === 'ENOENT') {
      this.context.deviate('read-only');
      return 'ENOENT';
    }
    const changes = this.changes();
    if (typeof changes === 'string') return changes;
    const file = changes.open(path, mode & ~this.mask, truncates);
    return typeof file === 'string' ? file : new FileDescription(path, file, kept);
  }

  open(args: Arguments): Answer {
    return this.openAt(AT_FDCWD, arg(args, 0), arg(args, 1), arg(args, 2));
  }

  openat(args: Arguments): Answer {
    return this.openAt(int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3));
  }

  creat(args: Arguments): Answer {
    return this.openAt(AT_FDCWD, arg(args, 0), BigInt(O.CREAT | O.WRONLY | O.TRUNC), arg(args, 1));
  }

  // ---------------------------------------------------------------------------------------- asking

  private statusOf(number: number): NodeStatus | Errno {
    return this.context.descriptors.get(number)?.status ?? 'EBADF';
  }

  private statusAt(from: number, address: Address, flags: bigint): NodeStatus | Errno {
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (found.path !== '') return this.status(found.path, (flags & AT_SYMLINK_NOFOLLOW) === 0n);
    if ((flags & AT_EMPTY_PATH) === 0n) return 'ENOENT';
    return from === AT_FDCWD ? this.status(this.cwd, true) : this.statusOf(from);
  }

  private storeStatus(status: NodeStatus | Errno, layout: StatLayout, to: Address): bigint | Errno {
    if (typeof status === 'string') return status;
    return storeOr(this.context.store(to, statBytes(status, layout, this.context.endian)));
  }

  stat(args: Arguments): Answer {
    return this.storeStatus(this.statusAt(AT_FDCWD, arg(args, 0), 0n), this.context.model.stat.plain, arg(args, 1));
  }

  lstat(args: Arguments): Answer {
    const status = this.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return this.storeStatus(status, this.context.model.stat.plain, arg(args, 1));
  }

  fstat(args: Arguments): Answer {
    return this.storeStatus(this.statusOf(int(arg(args, 0))), this.context.model.stat.plain, arg(args, 1));
  }

  stat64(args: Arguments): Answer {
    return this.storeStatus(this.statusAt(AT_FDCWD, arg(args, 0), 0n), this.context.model.stat.large, arg(args, 1));
  }

  lstat64(args: Arguments): Answer {
    const status = this.statusAt(AT_FDCWD, arg(args, 0), AT_SYMLINK_NOFOLLOW);
    return this.storeStatus(status, this.context.model.stat.large, arg(args, 1));
  }

  fstat64(args: Arguments): Answer {
    return this.storeStatus(this.statusOf(int(arg(args, 0))), this.context.model.stat.large, arg(args, 1));
  }

  newfstatat(args: Arguments): Answer {
    const status = this.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 3));
    return this.storeStatus(status, this.context.model.stat.large, arg(args, 2));
  }

  statx(args: Arguments): Answer {
    const status = this.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
    if (typeof status === 'string') return status;
    return storeOr(this.context.store(arg(args, 4), statxBytes(status, this.context.endian)));
  }

  private accessAt(from: number, address: Address, mode: bigint): bigint | Errno {
    const status = this.statusAt(from, address, 0n);
    if (typeof status === 'string') return status;
    if (isSpecial(status)) return 0n;
    if ((mode & 2n) !== 0n) {
      const changes = this.changes();
      if (typeof changes === 'string') return changes;
      if ((status.permissions & 0o200) === 0) return 'EACCES';
    }
    if ((mode & 1n) !== 0n && status.kind === 'file' && (status.permissions & 0o111) === 0) return 'EACCES';
    return 0n;
  }

  access(args: Arguments): Answer {
    return this.accessAt(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  faccessat(args: Arguments): Answer {
    return this.accessAt(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  faccessat2(args: Arguments): Answer {
    if (arg(args, 3) !== 0n) this.context.deviate('access-flags');
    return this.faccessat(args);
  }

  private readLink(from: number, address: Address, to: Address, size: bigint): bigint | Errno {
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (BigInt.asIntN(32, size) <= 0n) return 'EINVAL';
    if (found.path === '') return 'ENOENT';
    const place = this.placeOf(found.path, false);
    if (typeof place === 'string') return place;
    const link = this.linkOf(place);
    if (typeof link === 'string') return link;
    const bytes = this.encoder.encode(link.text).subarray(0, Number(BigInt.asUintN(31, size)));
    return storeOr(this.context.store(to, bytes), BigInt(bytes.length));
  }

  private linkOf(place: Place): { readonly text: string } | Errno {
    if (place.kind === 'tree') return this.context.files.readLink(place.path);
    if (place.kind === 'device') return 'EINVAL';
    const { file } = place;
    if (file.kind === 'descriptor') return { text: file.description.path };
    return file.kind === 'link' ? file : 'EINVAL';
  }

  readlink(args: Arguments): Answer {
    return this.readLink(AT_FDCWD, arg(args, 0), arg(args, 1), arg(args, 2));
  }

  readlinkat(args: Arguments): Answer {
    return this.readLink(int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3));
  }

  getdents64(args: Arguments): Answer {
    const { context } = this;
    const description = context.descriptors.get(int(arg(args, 0)));
    if (!description) return 'EBADF';
    if (!(description instanceof DirectoryDescription)) return 'ENOTDIR';
    const names = this.namesIn(description.path);
    if (typeof names === 'string') return names;
    const all = ['.', '..', ...names];
    const pieces: number[] = [];
    const room = Number(BigInt.asUintN(32, arg(args, 2)));
    let { position } = description;
    for (; position < all.length; position++) {
      const name = all[position]!;
      const inside = position < 2 ? description.path : joinPath(description.path, name);
      const status = this.status(inside, false);
      if (typeof status === 'string') continue;
      const bytes = this.encoder.encode(name);
      const entry = directoryEntry(bytes, status.kind, status.inode, position + 1, context.endian);
      if (pieces.length + entry.length > room) {
        if (pieces.length === 0) return 'EINVAL';
        break;
      }
      pieces.push(...entry);
    }
    if (!context.store(arg(args, 1), Uint8Array.from(pieces))) return 'EFAULT';
    description.position = position;
    return BigInt(pieces.length);
  }

  private namesIn(path: string): readonly string[] | Errno {
    const place = this.placeOf(path, true);
    if (typeof place === 'string') return place;
    if (place.kind === 'tree') return this.context.files.list(place.path);
    return place.kind === 'proc' && place.file.kind === 'list' ? place.file.names : 'ENOTDIR';
  }

  // ------------------------------------------------------------------------- the current directory

  getcwd(args: Arguments): Answer {
    const bytes = this.encoder.encode(`${this.cwd}\0`);
    const length = BigInt(bytes.length);
    return arg(args, 1) < length ? 'ERANGE' : storeOr(this.context.store(arg(args, 0), bytes), length);
  }

  private enter(path: string): bigint | Errno {
    const status = this.status(path, true);
    if (typeof status === 'string') return status;
    if (status.kind !== 'directory') return 'ENOTDIR';
    if ((status.permissions & 0o100) === 0) return 'EACCES';
    const real = this.context.files.realPath?.(path);
    this.cwd = typeof real === 'object' ? real.path : withoutParents(path);
    return 0n;
  }

  chdir(args: Arguments): Answer {
    const found = this.pathAt(AT_FDCWD, arg(args, 0));
    if (typeof found === 'string') return found;
    return found.path === '' ? 'ENOENT' : this.enter(found.path);
  }

  fchdir(args: Arguments): Answer {
    const description = this.context.descriptors.get(int(arg(args, 0)));
    if (!description) return 'EBADF';
    return description instanceof DirectoryDescription ? this.enter(description.path) : 'ENOTDIR';
  }

  umask(args: Arguments): Answer {
    const before = this.mask;
    this.mask = Number(arg(args, 0) & 0o777n);
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
    const status = this.statusAt(AT_FDCWD, arg(args, 0), 0n);
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 1), false);
  }

  fstatfs(args: Arguments): Answer {
    const status = this.statusOf(int(arg(args, 0)));
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 1), false);
  }

  statfs64(args: Arguments): Answer {
    const status = this.statusAt(AT_FDCWD, arg(args, 0), 0n);
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 2), true);
  }

  fstatfs64(args: Arguments): Answer {
    const status = this.statusOf(int(arg(args, 0)));
    return typeof status === 'string' ? status : this.storeFileSystem(arg(args, 2), true);
  }

  /** Extended attributes: the tree has none. */
  no_attributes(args: Arguments): Answer {
    const status = this.statusAt(AT_FDCWD, arg(args, 0), 0n);
    return typeof status === 'string' ? status : 'EOPNOTSUPP';
  }

  no_attributes_of(args: Arguments): Answer {
    const status = this.statusOf(int(arg(args, 0)));
    return typeof status === 'string' ? status : 'EOPNOTSUPP';
  }

  // -------------------------------------------------------------------------------------- changing

  /** Performs a change of the tree at the path of an argument. */
  private change(
    from: number,
    address: Address,
    act: (changes: FileChanges, path: string) => FileError | null,
  ): Answer {
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (found.path === '') return 'ENOENT';
    const changes = this.changes();
    if (typeof changes === 'string') return changes;
    return act(changes, found.path) ?? 0n;
  }

  private makeDirectory(from: number, address: Address, mode: bigint): Answer {
    const permissions = Number(mode & 0o777n) & ~this.mask;
    return this.change(from, address, (changes, path) => changes.makeDirectory(path, permissions));
  }

  mkdir(args: Arguments): Answer {
    return this.makeDirectory(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  mkdirat(args: Arguments): Answer {
    return this.makeDirectory(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  private remove(from: number, address: Address, kind: 'file' | 'directory'): Answer {
    return this.change(from, address, (changes, path) => changes.remove(path, kind));
  }

  unlink(args: Arguments): Answer {
    return this.remove(AT_FDCWD, arg(args, 0), 'file');
  }

  rmdir(args: Arguments): Answer {
    return this.remove(AT_FDCWD, arg(args, 0), 'directory');
  }

  unlinkat(args: Arguments): Answer {
    const isDirectory = (arg(args, 2) & AT_REMOVEDIR) !== 0n;
    return this.remove(int(arg(args, 0)), arg(args, 1), isDirectory ? 'directory' : 'file');
  }

  private renameBetween(from: number, address: Address, to: number, place: Address): Answer {
    const target = this.pathAt(to, place);
    if (typeof target === 'string') return target;
    if (target.path === '') return 'ENOENT';
    return this.change(from, address, (changes, path) => changes.rename(path, target.path));
  }

  rename(args: Arguments): Answer {
    return this.renameBetween(AT_FDCWD, arg(args, 0), AT_FDCWD, arg(args, 1));
  }

  renameat(args: Arguments): Answer {
    return this.renameBetween(int(arg(args, 0)), arg(args, 1), int(arg(args, 2)), arg(args, 3));
  }

  /** RENAME_NOREPLACE is served, other flags are not. */
  renameat2(args: Arguments): Answer {
    const flags = int(arg(args, 4));
    const NOREPLACE = 1;
    if ((flags & ~NOREPLACE) !== 0) {
      this.context.deviate('rename-flags');
      return 'EINVAL';
    }
    const target = flags === 0 ? 'ENOENT' : this.statusAt(int(arg(args, 2)), arg(args, 3), AT_SYMLINK_NOFOLLOW);
    if (typeof target !== 'string') return 'EEXIST';
    return target === 'ENOENT' ? this.renameat(args) : target;
  }

  private symbolicLink(text: Address, from: number, address: Address): Answer {
    const found = this.textAt(text);
    if (typeof found === 'string') return found;
    if (found.text === '') return 'ENOENT';
    return this.change(from, address, (changes, path) => changes.symbolicLink(found.text, path));
  }

  symlink(args: Arguments): Answer {
    return this.symbolicLink(arg(args, 0), AT_FDCWD, arg(args, 1));
  }

  symlinkat(args: Arguments): Answer {
    return this.symbolicLink(arg(args, 0), int(arg(args, 1)), arg(args, 2));
  }

  /** A tree whose lower part is read-only has no second names for files. */
  private hardLink(from: number, address: Address): Answer {
    return this.change(from, address, () => {
      this.context.deviate('hard-links');
      return 'EPERM';
    });
  }

  link(args: Arguments): Answer {
    return this.hardLink(AT_FDCWD, arg(args, 0));
  }

  linkat(args: Arguments): Answer {
    return this.hardLink(int(arg(args, 0)), arg(args, 1));
  }

  private setPermissions(from: number, address: Address, mode: bigint): Answer {
    return this.change(from, address, (changes, path) => changes.setPermissions(path, Number(mode & 0o777n)));
  }

  chmod(args: Arguments): Answer {
    return this.setPermissions(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  fchmodat(args: Arguments): Answer {
    return this.setPermissions(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  fchmod(args: Arguments): Answer {
    const description = this.context.descriptors.get(int(arg(args, 0)));
    if (!description) return 'EBADF';
    const changes = this.changes();
    if (typeof changes === 'string') return changes;
    if (!(description instanceof FileDescription)) return 0n;
    return changes.setPermissions(description.path, Number(arg(args, 1) & 0o777n)) ?? 0n;
  }

  /** There is one user: it stays the owner, and may not make another one that. */
  private changeOwner(owner: bigint, group: bigint): Answer {
    const isOwn = [owner, group].every((each) => [-1, 1000].includes(int(each)));
    const changes = this.changes();
    return typeof changes === 'string' ? changes : isOwn ? 0n : 'EPERM';
  }

  fchown(args: Arguments): Answer {
    const status = this.statusOf(int(arg(args, 0)));
    return typeof status === 'string' ? status : this.changeOwner(arg(args, 1), arg(args, 2));
  }

  fchownat(args: Arguments): Answer {
    const status = this.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 4));
    return typeof status === 'string' ? status : this.changeOwner(arg(args, 2), arg(args, 3));
  }

  /** Times are those of the tree; see the condition `file-times`. */
  utimensat(args: Arguments): Answer {
    const address = arg(args, 1);
    const status =
      address === 0n ? this.statusOf(int(arg(args, 0))) : this.statusAt(int(arg(args, 0)), address, arg(args, 3));
    if (typeof status === 'string') return status;
    const changes = this.changes();
    if (typeof changes === 'string') return changes;
    this.context.deviate('file-times');
    return 0n;
  }

  private resize(path: string, size: bigint): Answer {
    if (size < 0n || size > BigInt(Number.MAX_SAFE_INTEGER)) return 'EINVAL';
    const changes = this.changes();
    if (typeof changes === 'string') return changes;
    const status = this.context.files.status(path, true);
    if (typeof status === 'string') return status;
    if (status.kind !== 'file') return 'EISDIR';
    const file = changes.open(path, 0, false);
    if (typeof file === 'string') return file;
    const refusal = file.resize(Number(size));
    file.close();
    return refusal ?? 0n;
  }

  private truncateAt(address: Address, size: bigint): Answer {
    const found = this.pathAt(AT_FDCWD, address);
    if (typeof found === 'string') return found;
    return found.path === '' ? 'ENOENT' : this.resize(found.path, size);
  }

  truncate(args: Arguments): Answer {
    return this.truncateAt(arg(args, 0), BigInt.asIntN(8 * this.context.wordBytes, arg(args, 1)));
  }

  truncate64(args: Arguments): Answer {
    return this.truncateAt(arg(args, 0), BigInt.asIntN(64, this.context.long(args, 1)));
  }

  private resizeOpen(number: number, size: bigint): Answer {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    if (!(description instanceof FileDescription) || !description.isWritable || size < 0n) return 'EINVAL';
    if (size > BigInt(Number.MAX_SAFE_INTEGER)) return 'EFBIG';
    return description.resize(Number(size)) ?? 0n;
  }

  ftruncate(args: Arguments): Answer {
    return this.resizeOpen(int(arg(args, 0)), BigInt.asIntN(8 * this.context.wordBytes, arg(args, 1)));
  }

  ftruncate64(args: Arguments): Answer {
    return this.resizeOpen(int(arg(args, 0)), BigInt.asIntN(64, this.context.long(args, 1)));
  }
}

/** The path without `..`, as if no link were in it. */
function withoutParents(path: string): string {
  if (!path.includes('..')) return path;
  const out: string[] = [];
  for (const each of path.split('/').filter((name) => name !== '')) {
    if (each === '..') out.pop();
    else out.push(each);
  }
  return `/${out.join('/')}`;
}
