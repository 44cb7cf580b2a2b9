/**
 * Changes of the tree of a run (`followed-files.ts`): made in it, dated by the guest's clock, told
 * to who watches, and known to what is open.
 *
 * Source: Linux, inotify(7), the order of events by experiment.
 */
import { EVENT } from './file-events.js';
import {
  type FileChanges,
  type FileError,
  type FileStatus,
  type FileSystem,
  isFileError,
  parentPath,
  type WritableFile,
} from './files.js';
import { FollowedWritable, type OpenName, type OpenTree } from './open-names.js';

/** A file of which something is told. */
interface ToldFile {
  /** Its place, without links. */
  readonly real: string;
  readonly inode: number;
  readonly isDirectory: boolean;
}

/** The tree that is changed, as far as who changes it needs it. */
interface ChangedTree extends OpenTree {
  readonly nextCookie: number;
  status(path: string, follow: boolean): FileStatus | FileError;
  realPlace(path: string, follow: boolean): string;
  nameOf(path: string, status: FileStatus): OpenName;
  stampNew(status: FileStatus, permissions: number): void;
  stampParent(real: string): void;
  stampChanged(status: FileStatus): void;
  permitted(status: FileStatus, permissions: number): void;
  tell(event: number, file: ToldFile): void;
  tellSelf(event: number, inode: number): void;
  tellIn(real: string, event: number, cookie?: number): void;
  unlinked(real: string, status: FileStatus, isLast: boolean): void;
  renamed(from: string, to: string): void;
}

const SET_GROUP = 0o2000;
const LINK_PERMISSIONS = 0o777;

/** What changes the tree, and is told of. */
export class FollowedChanges implements FileChanges {
  /** Not there: files have one name. */
  readonly link?: NonNullable<FileChanges['link']>;

  constructor(
    private readonly files: ChangedTree,
    private readonly tree: FileSystem,
    private readonly changes: FileChanges,
  ) {
    if (changes.link) this.link = (from, to, follow) => this.linked(to, changes.link!(from, to, follow));
  }

  open(path: string, permissions: number, truncates: boolean): WritableFile | FileError {
    const { files } = this;
    const before = this.tree.status(path, true);
    const file = this.changes.open(path, permissions, truncates);
    if (isFileError(file)) return file;
    const { status } = file;
    const name = files.nameOf(path, status);
    if (isFileError(before)) this.made(name.path, status, permissions);
    else if (truncates) {
      files.stamp(status.inode, file);
      files.tell(EVENT.MODIFY, { real: name.path, inode: status.inode, isDirectory: false });
    }
    return new FollowedWritable(files, file, name);
  }

  private made(real: string, status: FileStatus, permissions: number): void {
    this.files.stampNew(status, permissions);
    this.files.stampParent(real);
    this.files.tellIn(real, status.kind === 'directory' ? EVENT.CREATE | EVENT.DIRECTORY : EVENT.CREATE);
  }

  /** What is new at a path, when that was made. */
  private madeAt(path: string, refusal: FileError | null, permissions: number): FileError | null {
    const status = refusal === null ? this.tree.status(path, false) : refusal;
    if (!isFileError(status)) this.made(this.files.realPlace(path, false), status, permissions);
    return refusal;
  }

  makeDirectory(path: string, permissions: number): FileError | null {
    const above = this.files.status(parentPath(path), true);
    // A directory in one with that bit has it, too.
    const inherited = isFileError(above) ? 0 : above.permissions & SET_GROUP;
    return this.madeAt(path, this.changes.makeDirectory(path, permissions), permissions | inherited);
  }

  symbolicLink(text: string, path: string): FileError | null {
    return this.madeAt(path, this.changes.symbolicLink(text, path), LINK_PERMISSIONS);
  }

  remove(path: string, kind: 'file' | 'directory'): FileError | null {
    const { files } = this;
    const status = files.status(path, false);
    const real = files.realPlace(path, false);
    const refusal = this.changes.remove(path, kind);
    if (refusal !== null || isFileError(status)) return refusal;
    const isDirectory = kind === 'directory';
    files.stampParent(real);
    files.stampChanged(status);
    if (!isDirectory) files.tellSelf(EVENT.ATTRIB, status.inode);
    files.tellIn(real, isDirectory ? EVENT.DELETE | EVENT.DIRECTORY : EVENT.DELETE);
    files.unlinked(real, status, isDirectory || (status.links ?? 1) <= 1);
    return null;
  }

  rename(from: string, to: string): FileError | null {
    const { files } = this;
    const target = files.status(to, false);
    // Paths may lead through what is renamed.
    const [before, after] = [from, to].map((each) => files.realPlace(each, false)) as [string, string];
    const refusal = this.changes.rename(from, to);
    if (refusal !== null) return refusal;
    const source = files.status(after, false);
    if (before === after || isFileError(source)) return null;
    const flag = source.kind === 'directory' ? EVENT.DIRECTORY : 0;
    for (const each of [before, after]) files.stampParent(each);
    files.stampChanged(source);
    const cookie = files.nextCookie;
    files.tellIn(before, EVENT.MOVED_FROM | flag, cookie);
    files.tellIn(after, EVENT.MOVED_TO | flag, cookie);
    if (!isFileError(target)) {
      files.stampChanged(target);
      files.tellSelf(EVENT.ATTRIB, target.inode);
    }
    files.tellSelf(EVENT.MOVE_SELF, source.inode);
    if (!isFileError(target)) files.unlinked(after, target, target.kind === 'directory' || (target.links ?? 1) <= 1);
    files.renamed(before, after);
    return null;
  }

  private linked(to: string, refusal: FileError | null): FileError | null {
    const { files } = this;
    const status = refusal === null ? files.status(to, false) : refusal;
    if (isFileError(status)) return refusal;
    const real = files.realPlace(to, false);
    files.stampChanged(status);
    files.stampParent(real);
    files.tellSelf(EVENT.ATTRIB, status.inode);
    files.tellIn(real, EVENT.CREATE);
    return null;
  }

  setPermissions(path: string, permissions: number): FileError | null {
    const { files } = this;
    const before = files.status(path, true);
    const refusal = this.changes.setPermissions(path, permissions);
    const status = refusal === null ? this.tree.status(path, true) : refusal;
    if (isFileError(status) || isFileError(before)) return refusal;
    files.permitted({ ...before, inode: status.inode }, permissions);
    files.tell(EVENT.ATTRIB, {
      real: files.realPlace(path, true),
      inode: status.inode,
      isDirectory: status.kind === 'directory',
    });
    return null;
  }
}
