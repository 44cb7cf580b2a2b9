/**
 * The tree as the processes of a run see it, over the one that the run was given: what they change
 * has times of the guest's own clock, and is told to who watches (`inotify`). What no process has
 * changed keeps the times of the tree, also when it is read, as on a file system that is mounted
 * with `noatime`; of what was changed the time of a read is kept as `relatime` says.
 *
 *   system calls -- FollowedFiles -- the tree of the run
 *                        |
 *                     watchers
 *
 * Source: Linux, inode(7), inotify(7), mount(2), the order of events by experiment.
 */
import { EVENT, EVENT_OF, type FileWatcher } from './file-events.js';
import {
  type FileChanges,
  type FileError,
  type FileStatus,
  type FileSystem,
  type FileUse,
  isFileError,
  lastName,
  type OpenFile,
  parentPath,
} from './files.js';
import { FollowedChanges } from './followed-changes.js';
import { FollowedFile, OpenName, type OpenTree } from './open-names.js';

interface Times {
  readonly accessed: bigint;
  readonly modified: bigint;
  readonly changed: bigint;
}

const [SET_USER, SET_GROUP, GROUP_EXECUTE, OWNER_SEARCH] = [0o4000, 0o2000, 0o10, 0o100] as const;

export class FollowedFiles implements Omit<FileSystem, 'from'>, OpenTree {
  /** Not there: nothing may be changed. */
  readonly changes?: FileChanges;
  /** By inode: of what was changed in this run. */
  private times = new Map<number, Times>();
  /** By inode: as they were set in this run, also of files that have no name any more. */
  private permissions = new Map<number, number>();
  /** A directory may have become one that is not searched. */
  private hasClosed = false;
  private watchers: ReadonlySet<FileWatcher> = new Set();
  private names: ReadonlySet<OpenName> = new Set();
  private lastCookie = 0;

  constructor(
    private readonly tree: FileSystem,
    /** Nanoseconds since 1970. */
    private readonly clock: () => bigint,
  ) {
    if (tree.changes) this.changes = new FollowedChanges(this, tree, tree.changes);
  }

  save(): () => void {
    const { watchers, names, lastCookie } = this;
    const [times, permissions] = [new Map(this.times), new Map(this.permissions)];
    const paths = [...names].map((each) => [each, each.path, each.isUnlinked] as const);
    return () => {
      Object.assign(this, { watchers, names, lastCookie });
      this.times = new Map(times);
      this.permissions = new Map(permissions);
      for (const [name, path, isUnlinked] of paths) Object.assign(name, { path, isUnlinked });
    };
  }

  // --------------------------------------------------------------------------------------- looking

  /** A status with the times and permissions of this run. */
  timed(status: FileStatus): FileStatus {
    const times = this.times.get(status.inode);
    const permissions = this.permissions.get(status.inode);
    if (!times && permissions === undefined) return status;
    return { ...status, ...times, ...(permissions !== undefined && { permissions }) };
  }

  status(path: string, follow: boolean): FileStatus | FileError {
    const status = this.tree.status(path, follow);
    return isFileError(status) ? status : this.timed(status);
  }

  open(path: string): OpenFile | FileError {
    const file = this.tree.open(path);
    return isFileError(file) ? file : new FollowedFile(this, file, this.nameOf(path, file.status));
  }

  readLink(path: string): { readonly text: string } | FileError {
    return this.tree.readLink(path);
  }

  list(path: string): readonly string[] | FileError {
    return this.tree.list(path);
  }

  elsewhere(path: string, follow: boolean): { readonly path: string } | null {
    return this.tree.elsewhere?.(path, follow) ?? null;
  }

  /**
   * Paths of the calls that follow are meant from a directory, or (null) from `/`.
   * @returns why none can be
   */
  from(base: string | null): FileError | null {
    this.tree.from?.(base);
    if (base === null || !this.hasClosed) return null;
    const status = this.status(base, true);
    return !isFileError(status) && (status.permissions & OWNER_SEARCH) === 0 ? 'EACCES' : null;
  }

  /** Paths of the calls that follow are of an open directory, and of names in it. */
  within(path: string): void {
    this.tree.from?.(`${path}/`);
  }

  realPath(path: string): { readonly path: string } | FileError {
    return this.tree.realPath?.(path) ?? { path };
  }

  /** Where a place is without links; `follow`: the one at its end, too. */
  realPlace(path: string, follow: boolean): string {
    const real = this.realPath(follow ? path : parentPath(path));
    if (isFileError(real)) return path;
    return follow ? real.path : `${real.path === '/' ? '' : real.path}/${lastName(path)}`;
  }

  /** The name by which a file or directory is opened. */
  nameOf(path: string, { inode, kind }: FileStatus, follow = true): OpenName {
    // Where nothing changes the path can be looked at again later.
    return new OpenName(this, this.changes ? this.realPlace(path, follow) : path, inode, kind === 'directory');
  }

  // -------------------------------------------------------------------------------------- changing

  private get now(): bigint {
    return this.clock();
  }

  /** A file was written now. */
  stamp(inode: number, file: OpenFile): void {
    const { now } = this;
    const accessed = this.times.get(inode)?.accessed ?? file.status.accessed ?? file.status.modified;
    this.times.set(inode, { accessed, modified: now, changed: now });
    this.dropPrivileges({ ...file.status, inode });
  }

  /** What is written, or given to a user, does not go on making its user another one. */
  dropPrivileges(status: FileStatus): void {
    const { permissions, inode } = this.timed(status);
    const dropped = SET_USER | ((permissions & GROUP_EXECUTE) === 0 ? 0 : SET_GROUP);
    if ((permissions & dropped) !== 0) this.permissions.set(inode, permissions & ~dropped);
  }

  /** A file was made now. */
  stampNew({ inode, kind }: FileStatus, permissions: number): void {
    const { now } = this;
    this.times.set(inode, { accessed: now, modified: now, changed: now });
    // The number may be that of a file which is gone; the tree keeps the other bits.
    this.permissions.delete(inode);
    if (permissions > 0o777) this.permissions.set(inode, permissions);
    this.hasClosed ||= kind === 'directory' && (permissions & OWNER_SEARCH) === 0;
  }

  /** Something of a file but its contents was changed now. */
  stampChanged(status: FileStatus, times: { readonly accessed?: bigint; readonly modified?: bigint } = {}): void {
    const { accessed, modified } = {
      accessed: status.accessed ?? status.modified,
      modified: status.modified,
      ...times,
    };
    this.times.set(status.inode, { accessed, modified, changed: this.now });
  }

  /** A directory was written now; `real`: a place in it, without links. */
  stampParent(real: string): void {
    const status = this.status(parentPath(real), true);
    if (!isFileError(status)) this.stampChanged(status, { modified: this.now });
  }

  /** The permissions of the file with this status were set. */
  permitted(status: FileStatus, permissions: number): void {
    this.permissions.set(status.inode, permissions);
    this.hasClosed ||= status.kind === 'directory' && (permissions & OWNER_SEARCH) === 0;
    this.stampChanged(status);
  }

  /**
   * Sets the permissions of what is open by a name.
   * @returns null: it is done
   */
  setOpenPermissions(name: OpenName, status: FileStatus, permissions: number): FileError | null {
    const { path: real, inode, isDirectory, isUnlinked } = name;
    if (!isUnlinked) return this.changes!.setPermissions(real, permissions);
    this.permitted({ ...status, inode }, permissions);
    this.tell(EVENT.ATTRIB, { real, inode, isDirectory, isUnlinked });
    return null;
  }

  /**
   * Sets the times of a file; null: one stays as it is. `name`: by which it is open; else `path`
   * leads to it.
   */
  setTimes(
    at: { readonly path: string; readonly follow: boolean } | OpenName,
    accessed: bigint | null,
    modified: bigint | null,
  ): FileError | null {
    const isOpen = at instanceof OpenName;
    const follow = !isOpen && at.follow;
    const before = isOpen && at.isUnlinked ? null : this.status(at.path, follow);
    if (typeof before === 'string') return before;
    if (before) {
      const [first, second] = [accessed ?? before.accessed ?? before.modified, modified ?? before.modified];
      const refusal = this.tree.changes?.setTimes?.(at.path, first, second, follow) ?? null;
      if (refusal) return refusal;
      const after = this.status(at.path, follow);
      if (isFileError(after)) return after;
      this.stampChanged(after, { accessed: first, modified: second });
    } else if (isOpen) {
      const old = this.times.get(at.inode) ?? { accessed: this.now, modified: this.now };
      this.times.set(at.inode, {
        accessed: accessed ?? old.accessed,
        modified: modified ?? old.modified,
        changed: this.now,
      });
    }
    const event = accessed === null ? EVENT.MODIFY : modified === null ? EVENT.ACCESS : EVENT.ATTRIB;
    const inode = isOpen ? at.inode : before!.inode;
    this.tell(event, {
      real: isOpen ? at.path : this.realPlace(at.path, follow),
      inode,
      isDirectory: before?.kind === 'directory',
    });
    return null;
  }

  // -------------------------------------------------------------------------------------- watching

  addWatcher(watcher: FileWatcher): void {
    this.watchers = new Set([...this.watchers, watcher]);
  }

  removeWatcher(watcher: FileWatcher): void {
    this.watchers = new Set([...this.watchers].filter((each) => each !== watcher));
  }

  addName(name: OpenName): void {
    this.names = new Set([...this.names, name]);
  }

  dropName(name: OpenName): void {
    this.names = new Set([...this.names].filter((each) => each !== name));
    if (name.isUnlinked) this.checkGone(name.inode);
  }

  get nextCookie(): number {
    return ++this.lastCookie;
  }

  get watcherCount(): number {
    return this.watchers.size;
  }

  get areWatched(): boolean {
    return this.watchers.size > 0;
  }

  /** True when a file is watched, or the directory that it is in. */
  isWatched(path: string): boolean {
    if (!this.areWatched) return false;
    const inodes = [path, parentPath(this.realPlace(path, true))].flatMap((each) => {
      const status = this.tree.status(each, true);
      return isFileError(status) ? [] : [status.inode];
    });
    return [...this.watchers].some((watcher) => inodes.some((each) => watcher.watches(each)));
  }

  /** A process did something with what it has open. */
  used(name: OpenName, use: FileUse): void {
    const { inode, isDirectory, isUnlinked } = name;
    const times = use === 'access' ? this.times.get(inode) : undefined;
    if (times && (times.accessed <= times.modified || times.accessed <= times.changed)) {
      this.times.set(inode, { ...times, accessed: this.now });
    }
    if (!this.areWatched) return;
    const real = this.changes ? name.path : this.realPlace(name.path, true);
    this.tell(EVENT_OF[use], { real, inode, isDirectory, isUnlinked });
  }

  /** Tells of a file who watches it, or its directory. */
  tell(
    event: number,
    file: {
      readonly real: string;
      readonly inode: number;
      readonly isDirectory: boolean;
      readonly isUnlinked?: boolean;
    },
  ): void {
    if (!this.areWatched) return;
    const { real, inode, isDirectory, isUnlinked = false } = file;
    const whole = isDirectory ? event | EVENT.DIRECTORY : event;
    if (real !== '/') this.tellIn(real, whole, 0, isUnlinked);
    for (const each of this.watchers) each.tell(inode, { event: whole, name: null, cookie: 0, isUnlinked });
  }

  /** Tells who watches a file alone. */
  tellSelf(event: number, inode: number): void {
    for (const each of this.watchers) each.tell(inode, { event, name: null, cookie: 0, isUnlinked: false });
  }

  /** Tells of a name who watches its directory. */
  tellIn(real: string, event: number, cookie = 0, isUnlinked = false): void {
    if (!this.areWatched) return;
    const parent = this.tree.status(parentPath(real), true);
    if (isFileError(parent)) return;
    for (const each of this.watchers) each.tell(parent.inode, { event, name: lastName(real), cookie, isUnlinked });
  }

  /** A name of a file is gone; `isLast`: it was the only one. */
  unlinked(real: string, status: FileStatus, isLast: boolean): void {
    for (const each of this.names) if (each.path === real && each.inode === status.inode) each.isUnlinked = true;
    if (isLast) this.checkGone(status.inode);
  }

  /** Another thing without a file is made or gone: a socket or a pipe. */
  nodeChanged(real: string, event: number): void {
    this.stampParent(real);
    this.tellIn(real, event);
  }

  nodeRenamed(from: string, to: string): void {
    for (const each of [from, to]) this.stampParent(each);
    const cookie = this.nextCookie;
    this.tellIn(from, EVENT.MOVED_FROM, cookie);
    this.tellIn(to, EVENT.MOVED_TO, cookie);
  }

  private checkGone(inode: number): void {
    if ([...this.names].some((each) => each.inode === inode)) return;
    for (const each of this.watchers) each.gone(inode);
  }

  renamed(from: string, to: string): void {
    for (const each of this.names) {
      if (each.isUnlinked) continue;
      if (each.path === from) each.path = to;
      else if (each.path.startsWith(`${from}/`)) each.path = to + each.path.slice(from.length);
    }
  }
}
