/**
 * System calls that change the tree: directories, names, links, permissions, sizes.
 *
 * Source: Linux, mkdir(2), unlink(2), rename(2), symlink(2), chmod(2), chown(2), truncate(2).
 */
import type { Address } from '../units.js';
import { type Answer, arg, type Arguments, type CallContext, int, type Service } from './call-context.js';
import { Channel } from './channels.js';
import { type Description, DirectoryDescription, FileDescription, O } from './descriptions.js';
import type { Errno } from './errno.js';
import { type FileChanges, isSpecial, lastName, type NodeStatus, parentPath } from './files.js';
import { EVENT } from './file-events.js';
import type { FollowedFiles } from './followed-files.js';
import { OpenName } from './open-names.js';
import { loadTime, NANOSECONDS } from './guest-times.js';
import type { TreeNode } from './network.js';
import { AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, type GuestPaths } from './guest-paths.js';

/** Kinds of files in `st_mode`. */
const [S_IFMT, S_IFIFO, S_IFCHR, S_IFDIR, S_IFBLK, S_IFREG, S_IFSOCK] = [0o170000n, 0o010000, 0o020000, 0o040000, 0o060000, 0o100000, 0o140000] as const; // prettier-ignore
const AT_REMOVEDIR = 0x200n;
const AT_SYMLINK_FOLLOW = 0x400n;

// prettier-ignore
export type ChangeCallName =
  | 'chmod' | 'chown' | 'futimesat' | 'lchown' | 'utime' | 'utimes' | 'fchmod' | 'fchmodat' | 'fchown' | 'fchownat' | 'ftruncate' | 'ftruncate64' | 'link'
  | 'linkat' | 'mkdir' | 'mkdirat' | 'mknod' | 'mknodat' | 'rename' | 'renameat' | 'renameat2' | 'rmdir' | 'symlink'
  | 'symlinkat' | 'truncate' | 'truncate64' | 'unlink' | 'unlinkat' | 'utimensat';

/** `utimensat`: the time is now; it stays. Source: Linux uapi/linux/stat.h. */
const [UTIME_NOW, UTIME_OMIT] = [0x3fff_ffffn, 0x3fff_fffen];
/** Nanoseconds since 1970; null: now. */
type SetTime = bigint | 'omit' | null;

export class ChangeCalls implements Readonly<Record<ChangeCallName, Service>> {
  constructor(
    private readonly context: CallContext,
    private readonly paths: GuestPaths,
  ) {}

  /** Performs a change of the tree at the path of an argument. */
  private change(
    from: number,
    address: Address,
    act: (changes: FileChanges, path: string) => Errno | null,
    /** What is done where a socket or a pipe is. Default: something is in the way. */
    onNode: (path: string, node: TreeNode) => Errno | null = () => 'EEXIST',
    elsewhere: Errno = 'EPERM',
  ): Answer {
    return this.changeAt(this.paths.pathAt(from, address), act, onNode, elsewhere);
  }

  /** Makes something new; `slash`: what is said where the name asks for a directory. */
  private make(
    from: number,
    address: Address,
    act: (changes: FileChanges, path: string) => Errno | null,
    slash: Errno | null = 'ENOENT',
  ): Answer {
    const found = this.paths.namedAt(from, address);
    const isWrong = typeof found !== 'string' && found.asksDirectory && slash !== null;
    return this.changeAt(found, (changes, path) => {
      if (!isWrong) return act(changes, path);
      const there = this.paths.status(path, false);
      return typeof there === 'string' && there !== 'ENOENT' ? there : typeof there === 'string' ? slash : 'EEXIST';
    });
  }

  private changeAt(
    found: { readonly path: string } | Errno,
    act: (changes: FileChanges, path: string) => Errno | null,
    onNode: (path: string, node: TreeNode) => Errno | null = () => 'EEXIST',
    /** What is said of devices and files of `/proc`, which are none of the tree's. */
    elsewhere: Errno = 'EPERM',
  ): Answer {
    if (typeof found === 'string') return found;
    if (found.path === '') return 'ENOENT';
    const changes = this.paths.changes();
    if (typeof changes === 'string') return changes;
    const place = this.paths.placeOf(found.path, false);
    if (typeof place === 'string') return place;
    if (place.kind === 'node') return onNode(place.path, place.node) ?? 0n;
    return place.kind === 'tree' ? (act(changes, place.path) ?? 0n) : elsewhere;
  }

  private makeDirectory(from: number, address: Address, mode: bigint): Answer {
    const permissions = Number(mode & 0o1777n) & ~this.paths.mask;
    // A name that is no name is none of something new.
    const slash = this.endOf(address) === '.' ? 'ENOENT' : null;
    return this.make(from, address, (changes, path) => changes.makeDirectory(path, permissions), slash);
  }

  mkdir(args: Arguments): Answer {
    return this.makeDirectory(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  mkdirat(args: Arguments): Answer {
    return this.makeDirectory(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  /** What a path ends in that is no name: the directory itself, the one above it, or the root. */
  private endOf(address: Address): '.' | '..' | '/' | null {
    const found = this.paths.textAt(address);
    if (typeof found === 'string' || found.text === '') return null;
    const last = lastName(found.text.replace(/\/+$/, ''));
    return last === '' ? '/' : last === '.' || last === '..' ? last : null;
  }

  private remove(from: number, address: Address, kind: 'file' | 'directory'): Answer {
    const { network } = this.context;
    const end = this.endOf(address);
    if (end !== null)
      return kind === 'file' ? 'EISDIR' : ({ '.': 'EINVAL', '..': 'ENOTEMPTY', '/': 'EBUSY' } as const)[end];
    const found = this.paths.namedAt(from, address);
    const asksDirectory = typeof found !== 'string' && found.asksDirectory;
    return this.changeAt(
      found,
      (changes, path) => {
        const status = asksDirectory ? this.paths.status(path, false) : null;
        if (typeof status === 'object' && status !== null && status.kind !== 'directory') return 'ENOTDIR';
        return this.holdsNodes(path) ? 'ENOTEMPTY' : changes.remove(path, kind);
      },
      (path) => {
        const refusal = this.paths.refusedAt(path);
        if (refusal !== null) return refusal;
        if (kind === 'directory' || asksDirectory) return 'ENOTDIR';
        network.removeNode(path);
        this.context.files.nodeChanged(path, EVENT.DELETE);
        return null;
      },
    );
  }

  /** A directory in which sockets or pipes are is not empty. */
  private holdsNodes(path: string): boolean {
    const { network, files } = this.context;
    if (!network.hasNodes) return false;
    const real = files.realPath?.(path) ?? { path };
    return typeof real !== 'string' && network.nodesIn(real.path).length > 0;
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

  /** Files, pipes and sockets; devices are made by users with rights. */
  private makeNode(from: number, address: Address, mode: bigint): Answer {
    const { context } = this;
    const { network } = context;
    const permissions = Number(mode & 0o7777n) & ~this.paths.mask;
    const kind = Number(mode & S_IFMT);
    if (kind === S_IFDIR || kind === S_IFCHR || kind === S_IFBLK) return 'EPERM';
    const isNode = kind === S_IFIFO || kind === S_IFSOCK;
    if (!isNode && kind !== S_IFREG && kind !== 0) return 'EINVAL';
    return this.make(from, address, (changes, path) => {
      const there = this.paths.status(path, false);
      if (typeof there !== 'string') return 'EEXIST';
      if (there !== 'ENOENT') return there;
      if (isNode) {
        const place = this.paths.nodePath(path);
        if (typeof place === 'string') return place;
        const pipe = kind === S_IFIFO ? new Channel('pages', network.queues) : null;
        const node = { socket: null, pipe, inode: context.nextInode(), permissions };
        const wrong = this.paths.refusedAt(place.path) ?? network.addNode(place.path, node);
        if (wrong === null) context.files.nodeChanged(place.path, EVENT.CREATE);
        return wrong;
      }
      const file = changes.open(path, permissions, false);
      if (typeof file === 'string') return file;
      file.close();
      return null;
    });
  }

  mknod(args: Arguments): Answer {
    return this.makeNode(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  mknodat(args: Arguments): Answer {
    return this.makeNode(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  private renameBetween(from: number, address: Address, to: number, place: Address): Answer {
    const [source, target] = [this.paths.namedAt(from, address), this.paths.namedAt(to, place)];
    if (typeof target === 'string') return target;
    if (target.path === '') return 'ENOENT';
    if (this.endOf(address) !== null || this.endOf(place) !== null) return 'EBUSY';
    const asksDirectory = target.asksDirectory || (typeof source !== 'string' && source.asksDirectory);
    const { network } = this.context;
    if (this.leavesTree(target.path)) return 'EXDEV';
    const goal = network.hasNodes ? this.paths.nodePath(target.path) : null;
    if (typeof goal === 'string') return goal;
    const renamed = (path: string): null => {
      if (goal && path !== goal.path) {
        network.removeNode(goal.path);
        network.renamed(path, goal.path);
      }
      return null;
    };
    return this.changeAt(
      source,
      (changes, path) => {
        const status = asksDirectory ? this.paths.status(path, false) : null;
        if (typeof status === 'object' && status !== null && status.kind !== 'directory') return 'ENOTDIR';
        const before = goal && this.paths.nodePath(path);
        const wrong = changes.rename(path, target.path);
        return wrong === null && before && typeof before !== 'string' ? renamed(before.path) : wrong;
      },
      (path) => {
        const refusal = asksDirectory
          ? 'ENOTDIR'
          : (this.paths.refusedAt(path) ?? (goal && this.paths.refusedAt(goal.path)));
        if (refusal !== null) return refusal;
        const there = this.context.files.status(target.path, false);
        if (typeof there !== 'string' && there.kind === 'directory') return 'EISDIR';
        const changes = this.paths.changes();
        if (typeof there !== 'string' && typeof changes !== 'string') changes.remove(target.path, 'file');
        renamed(path);
        if (goal && path !== goal.path) this.context.files.nodeRenamed(path, goal.path);
        return null;
      },
      'EXDEV',
    );
  }

  /** True when a name is one of `/proc`, or of a device. */
  private leavesTree(path: string): boolean {
    const [place, parent] = [path, parentPath(path)].map((each) => this.paths.placeOf(each, each !== path));
    return [place, parent].some((each) => typeof each === 'object' && (each.kind === 'device' || each.kind === 'proc'));
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
    const target = flags === 0 ? 'ENOENT' : this.paths.statusAt(int(arg(args, 2)), arg(args, 3), AT_SYMLINK_NOFOLLOW);
    if (typeof target !== 'string') return 'EEXIST';
    return target === 'ENOENT' ? this.renameat(args) : target;
  }

  private symbolicLink(text: Address, from: number, address: Address): Answer {
    const found = this.paths.textAt(text);
    if (typeof found === 'string') return found;
    if (found.text === '') return 'ENOENT';
    return this.make(from, address, (changes, path) => changes.symbolicLink(found.text, path));
  }

  symlink(args: Arguments): Answer {
    return this.symbolicLink(arg(args, 0), AT_FDCWD, arg(args, 1));
  }

  symlinkat(args: Arguments): Answer {
    return this.symbolicLink(arg(args, 0), int(arg(args, 1)), arg(args, 2));
  }

  private hardLink(from: number, address: Address, to: number, place: Address, flags: bigint): Answer {
    if ((flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) !== 0n) return 'EINVAL';
    const target = this.paths.namedAt(to, place);
    if (typeof target === 'string') return target;
    if (target.path === '') return 'ENOENT';
    const follow = (flags & AT_SYMLINK_FOLLOW) !== 0n;
    const isThere = typeof this.paths.status(target.path, false) !== 'string';
    const make = (changes: FileChanges, path: string): Errno | null => {
      const there = target.asksDirectory ? this.paths.status(target.path, false) : 'EEXIST';
      if (there === 'ENOENT') return there;
      const goal = this.paths.placeOf(target.path, false);
      if (typeof goal === 'string') return goal;
      if (!isThere && this.leavesTree(target.path)) return 'EXDEV';
      if (changes.link) return changes.link(path, target.path, follow);
      this.context.deviate('hard-links');
      return 'EPERM';
    };
    const source = this.paths.textAt(address);
    if (typeof source === 'string') return source;
    const noNode = (): Errno => {
      this.context.deviate('hard-links');
      return 'EPERM';
    };
    if (source.text !== '' || (flags & AT_EMPTY_PATH) === 0n)
      return this.change(from, address, make, isThere ? () => 'EEXIST' : noNode, isThere ? 'EEXIST' : 'EXDEV');
    // A descriptor's own file may have no name any more.
    this.context.deviate('hard-links');
    return 'ENOENT';
  }

  link(args: Arguments): Answer {
    return this.hardLink(AT_FDCWD, arg(args, 0), AT_FDCWD, arg(args, 1), 0n);
  }

  linkat(args: Arguments): Answer {
    return this.hardLink(int(arg(args, 0)), arg(args, 1), int(arg(args, 2)), arg(args, 3), arg(args, 4));
  }

  private setPermissions(from: number, address: Address, mode: bigint): Answer {
    const permissions = Number(mode & 0o7777n);
    const found = this.paths.pathAt(from, address);
    const place = typeof found === 'string' || found.path === '' ? null : this.paths.placeOf(found.path, true);
    if (typeof place === 'object' && place?.kind === 'proc' && place.file.kind === 'descriptor') {
      return this.setPermissionsOf(place.file.description, permissions);
    }
    if (typeof place === 'object' && place?.kind === 'tree' && place.path !== (found as { path: string }).path) {
      const changes = this.paths.changes();
      return typeof changes === 'string' ? changes : (changes.setPermissions(place.path, permissions) ?? 0n);
    }
    return this.change(
      from,
      address,
      (changes, path) => changes.setPermissions(path, permissions),
      (_path, node) => {
        node.permissions = permissions;
        return null;
      },
    );
  }

  chmod(args: Arguments): Answer {
    return this.setPermissions(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  fchmodat(args: Arguments): Answer {
    return this.setPermissions(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  fchmod(args: Arguments): Answer {
    const description = this.context.descriptors.get(int(arg(args, 0)));
    if (!description || (description.flags & O.PATH) !== 0) return 'EBADF';
    return this.setPermissionsOf(description, Number(arg(args, 1) & 0o7777n));
  }

  private setPermissionsOf(description: Description, permissions: number): Answer {
    const changes = this.paths.changes();
    if (typeof changes === 'string') return changes;
    const name = this.nameOf(description);
    const { status } = description;
    if (!name || isSpecial(status)) return 0n;
    return this.context.files.setOpenPermissions(name, status, permissions) ?? 0n;
  }

  /** There is one user: it stays the owner, and may not make another one that. */
  private changeOwner(status: NodeStatus, owner: bigint, group: bigint): Answer {
    const isOwn = [owner, group].every((each) => [-1, 1000].includes(int(each)));
    const changes = this.paths.changes();
    if (typeof changes === 'string') return changes;
    if (!isOwn) return 'EPERM';
    if (!isSpecial(status) && status.kind === 'file') this.context.files.dropPrivileges(status);
    return 0n;
  }

  fchown(args: Arguments): Answer {
    const description = this.context.descriptors.used(int(arg(args, 0)));
    return description ? this.changeOwner(description.status, arg(args, 1), arg(args, 2)) : 'EBADF';
  }

  fchownat(args: Arguments): Answer {
    const status = this.paths.statusAt(int(arg(args, 0)), arg(args, 1), arg(args, 4));
    return typeof status === 'string' ? status : this.changeOwner(status, arg(args, 2), arg(args, 3));
  }

  private chownAt(address: Address, flags: bigint, args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, address, flags);
    return typeof status === 'string' ? status : this.changeOwner(status, arg(args, 1), arg(args, 2));
  }

  chown(args: Arguments): Answer {
    return this.chownAt(arg(args, 0), 0n, args);
  }

  lchown(args: Arguments): Answer {
    return this.chownAt(arg(args, 0), AT_SYMLINK_NOFOLLOW, args);
  }

  utimensat(args: Arguments, words: 4 | 8): Answer {
    const [from, path, address, flags] = [int(arg(args, 0)), arg(args, 1), arg(args, 2), arg(args, 3)];
    const times: SetTime[] = [null, null];
    for (let i = 0; address !== 0n && i < 2; i++) {
      const time = this.timeAt(address + BigInt(2 * i * words), words);
      if (time === 'EFAULT' || time === 'EINVAL') return time;
      times[i] = time;
    }
    if (times.every((each) => each === 'omit')) return 0n;
    if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) !== 0n) return 'EINVAL';
    if (path === 0n && from !== AT_FDCWD) return flags === 0n ? this.setTimesOf(from, times) : 'EINVAL';
    const found = this.paths.pathAt(from, path);
    if (typeof found === 'string') return found;
    if (found.path !== '') return this.setTimesAt(found.path, (flags & AT_SYMLINK_NOFOLLOW) === 0n, times);
    if ((flags & AT_EMPTY_PATH) === 0n) return 'ENOENT';
    return from === AT_FDCWD ? this.setTimesAt(this.paths.directory, true, times) : this.setTimesOf(from, times);
  }

  utimes(args: Arguments): Answer {
    return this.setMicroseconds(AT_FDCWD, arg(args, 0), arg(args, 1));
  }

  futimesat(args: Arguments): Answer {
    return this.setMicroseconds(int(arg(args, 0)), arg(args, 1), arg(args, 2));
  }

  private setMicroseconds(from: number, path: Address, address: Address): Answer {
    const { wordBytes } = this.context;
    const times: SetTime[] = [null, null];
    for (let i = 0; address !== 0n && i < 2; i++) {
      const time = loadTime(this.context, address + BigInt(2 * i * wordBytes), wordBytes);
      if (!time) return 'EFAULT';
      if (time[1] < 0n || time[1] >= 1_000_000n) return 'EINVAL';
      times[i] = time[0] * NANOSECONDS + time[1] * 1000n;
    }
    return path === 0n && from !== AT_FDCWD ? this.setTimesOf(from, times) : this.setTimesBelow(from, path, times);
  }

  /** Whole seconds. */
  utime(args: Arguments): Answer {
    const { context } = this;
    const address = arg(args, 1);
    const times: SetTime[] = [null, null];
    for (let i = 0; address !== 0n && i < 2; i++) {
      const seconds = context.loadNumber(address + BigInt(i * context.wordBytes));
      if (seconds === null) return 'EFAULT';
      times[i] = BigInt.asIntN(8 * context.wordBytes, seconds) * NANOSECONDS;
    }
    return this.setTimesBelow(AT_FDCWD, arg(args, 0), times);
  }

  private setTimesBelow(from: number, path: Address, times: readonly SetTime[]): Answer {
    const found = this.paths.pathAt(from, path);
    if (typeof found === 'string') return found;
    return found.path === '' ? 'ENOENT' : this.setTimesAt(found.path, true, times);
  }

  /** A time that is to be set, of `struct timespec`. */
  private timeAt(address: Address, words: 4 | 8): SetTime | 'EFAULT' | 'EINVAL' {
    const time = loadTime(this.context, address, words);
    if (!time) return 'EFAULT';
    const [seconds, rest] = time;
    if (rest === UTIME_NOW) return null;
    if (rest === UTIME_OMIT) return 'omit';
    return rest < 0n || rest >= NANOSECONDS ? 'EINVAL' : seconds * NANOSECONDS + rest;
  }

  private setTimesAt(path: string, follow: boolean, times: readonly SetTime[]): Answer {
    const place = this.paths.placeOf(path, follow);
    if (typeof place === 'string') return place;
    if (place.kind === 'tree') return this.setTimes({ path: place.path, follow }, times);
    return this.keepTimes(this.paths.status(path, follow));
  }

  private setTimesOf(number: number, times: readonly SetTime[]): Answer {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    const name = this.nameOf(description);
    return name ? this.setTimes(name, times) : this.keepTimes(description.status);
  }

  /** The name by which a file or directory of the tree is open; null: it is something else. */
  private nameOf(description: Description): OpenName | null {
    const name =
      description instanceof DirectoryDescription
        ? description.followed
        : description instanceof FileDescription
          ? description.file.name
          : null;
    return name instanceof OpenName ? name : null;
  }

  /** Times of what is no file of the tree; see the condition `file-times`. */
  private keepTimes(status: NodeStatus | Errno): Answer {
    if (typeof status === 'string') return status;
    const changes = this.paths.changes();
    if (typeof changes === 'string') return changes;
    this.context.deviate('file-times');
    return 0n;
  }

  private setTimes(at: Parameters<FollowedFiles['setTimes']>[0], times: readonly SetTime[]): Answer {
    const { files, machine, date } = this.context;
    const there = at instanceof OpenName ? null : files.status(at.path, at.follow);
    if (typeof there === 'string') return there;
    const changes = this.paths.changes();
    if (typeof changes === 'string') return changes;
    const [accessed, modified] = times.map((each) => (each === 'omit' ? null : (each ?? date + machine.time)));
    return files.setTimes(at, accessed!, modified!) ?? 0n;
  }

  private resize(path: string, size: bigint): Answer {
    if (size < 0n || size > BigInt(Number.MAX_SAFE_INTEGER)) return 'EINVAL';
    const changes = this.paths.changes();
    if (typeof changes === 'string') return changes;
    const status = this.context.files.status(path, true);
    if (typeof status === 'string') return status;
    if (status.kind !== 'file') return 'EISDIR';
    if ((status.permissions & 0o200) === 0) return 'EACCES';
    const file = changes.open(path, 0, false);
    if (typeof file === 'string') return file;
    const description = new FileDescription(path, file, O.RDWR, this.context.sharing);
    description.hold();
    this.context.sharing.copied(status.inode, description);
    const refusal = description.resize(Number(size));
    description.release();
    return refusal ?? 0n;
  }

  private truncateAt(address: Address, size: bigint): Answer {
    const found = this.paths.pathAt(AT_FDCWD, address);
    if (typeof found === 'string') return found;
    if (found.path === '') return 'ENOENT';
    const place = this.paths.placeOf(found.path, true);
    if (typeof place === 'string') return place;
    if (place.kind === 'tree') return this.resize(place.path, size);
    const status = this.paths.status(found.path, true);
    if (typeof status === 'string') return status;
    return isSpecial(status) ? 'EINVAL' : status.kind === 'directory' ? 'EISDIR' : 'EACCES';
  }

  truncate(args: Arguments): Answer {
    return this.truncateAt(arg(args, 0), BigInt.asIntN(8 * this.context.wordBytes, arg(args, 1)));
  }

  truncate64(args: Arguments): Answer {
    return this.truncateAt(arg(args, 0), BigInt.asIntN(64, this.context.long(args, 1)));
  }

  private resizeOpen(number: number, size: bigint): Answer {
    const description = this.context.descriptors.used(number);
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
