/**
 * A tree that a guest may change: what it writes is kept in a directory of its own, above a tree
 * that stays as it is. A file that is changed is copied up first; what is removed leaves a file
 * `.wh.NAME` behind, and a directory that takes the place of a removed one holds `.wh..wh..opq`, as
 * in layers of container images (OCI Image Layer Specification, whiteouts).
 *
 * Links are resolved here, component by component, so that the host is only asked about paths
 * without links in them.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { FileChanges, FileError, FileStatus, FileSystem, WritableFile } from '../guest/index.js';
import { errorOf, filesBelow, isElsewhere, LastWalk, onHost, ownFolder, stepsOf } from './guest-files.js';
import type { Elsewhere, Reached, Steps } from './guest-files.js';

const LINKS_MOST = 40;
const WHITEOUT = '.wh.';
const OPAQUE = '.wh..wh..opq';
/** Far above the numbers of files of the lower tree: no two files have the same. */
const UPPER = { option: '--write', firstInode: 0x4000_0000 } as const;
/** Bytes of the longest name. */
const NAME_MOST = 255;
const COPY_BYTES = 0x10_0000;
/** Of the permissions of a directory: its owner may change it, or look names up in it. */
const OWNER = { WRITE: 0o200, SEARCH: 0o100 } as const;

/** What a tree has at a place; null: nothing, or another tree hides it. */
interface Layers {
  readonly over: Reached | null;
  readonly under: Reached | null;
}
interface Place extends Layers {
  /** Without links. */
  readonly path: string;
  /** Null: nothing is there, but its directory is. */
  readonly status: FileStatus | null;
}
/** A place on the way to one. */
interface Step extends Layers {
  readonly path: string;
  readonly status: FileStatus | FileError;
}

const namesOf = (path: string): string[] => path.split('/').filter((each) => each !== '' && each !== '.');
const parentOf = (path: string): string => path.replace(/\/[^/]*$/, '') || '/';
const nameOf = (path: string): string => path.replace(/^.*\//, '');
const below = (folder: string, name: string): string => (folder === '/' ? `/${name}` : `${folder}/${name}`);

/** Node takes seconds in one number, which hold a quarter of a microsecond. */
function setHostTimes(path: fs.PathLike, accessed: bigint, modified: bigint): void {
  fs.lutimesSync(path, Number(accessed) / 1e9, Number(modified) / 1e9);
}

/** What a file of the lower tree was that was copied up. */
interface Origin {
  readonly inode?: number;
  readonly modified: bigint;
  readonly permissions?: number;
}

const reachedOr = (reached: Reached | FileError): Reached | null => (typeof reached === 'string' ? null : reached);

class Overlay implements FileSystem, FileChanges {
  private readonly upper: FileSystem & Steps;
  private readonly lowerSteps: Steps;
  /**
   * By inode in the upper tree: what was copied up in this run keeps its times, and its number,
   * where it was the only name of its file, and its permissions, where the host's user has more.
   */
  private readonly origins = new Map<number, Origin>();
  /** The directory that a path is meant from: what is above it need not be searched. */
  private base: string | null = null;
  private readonly last = new LastWalk<Place | FileError>();

  /** @param room  bytes that files may have in the directory, beside those that are there */
  constructor(
    private readonly lower: FileSystem,
    private readonly directory: string,
    private room: number,
  ) {
    this.upper = filesBelow(directory, UPPER);
    this.lowerSteps = stepsOf(lower);
  }

  get changes(): FileChanges {
    return this;
  }

  // --------------------------------------------------------------------------------------- looking

  /** True when something above hides what the lower tree has at a path without links. */
  private isHidden(path: string): boolean {
    let at = '/';
    for (const name of namesOf(path)) {
      if (typeof this.upper.status(below(at, OPAQUE), false) !== 'string') return true;
      if (typeof this.upper.status(below(at, WHITEOUT + name), false) !== 'string') return true;
      at = below(at, name);
      const over = this.upper.status(at, false);
      if (typeof over !== 'string' && over.kind !== 'directory' && at !== path) return true;
    }
    return false;
  }

  private inLower(path: string): FileStatus | FileError {
    return this.isHidden(path) ? 'ENOENT' : this.lower.status(path, false);
  }

  /** What is at a path without links in its directories. */
  private at(path: string): FileStatus | FileError {
    if (nameOf(path).startsWith(WHITEOUT)) return 'ENOENT';
    const over = this.upper.status(path, false);
    return typeof over === 'string' ? this.inLower(path) : this.known(over);
  }

  private known(status: FileStatus): FileStatus {
    const origin = this.origins.get(status.inode);
    return origin ? { ...status, ...origin } : status;
  }

  /** What was copied to a path of the upper tree is what it was. */
  private isCopyOf(path: string, lower: FileStatus): void {
    const status = this.upper.status(path, false);
    if (typeof status === 'string') return;
    const isAlone = lower.kind === 'directory' || (lower.links ?? 1) === 1;
    const { modified, permissions, inode } = lower;
    this.origins.set(status.inode, { modified, permissions, ...(isAlone && { inode }) });
    this.attempt(() => {
      setHostTimes(this.host(path), lower.modified, lower.modified);
    });
  }

  private isInUpper(path: string): boolean {
    return typeof this.upper.status(path, false) !== 'string';
  }

  private linkAt(path: string): { readonly text: string } | FileError {
    return this.isInUpper(path) ? this.upper.readLink(path) : this.lower.readLink(path);
  }

  from(base: string | null): void {
    this.base = base;
    this.last.take('', false);
  }

  /** True when a user may look names up in a directory. */
  private maySearch(path: string, { permissions }: FileStatus): boolean {
    return (permissions & OWNER.SEARCH) !== 0 || this.base?.startsWith(`${path === '/' ? '' : path}/`) === true;
  }

  /** Null: what stands at a path may be made, named otherwise, or taken away. */
  private refusedIn(path: string): FileError | null {
    const status = this.at(parentOf(path));
    return typeof status !== 'string' && (status.permissions & OWNER.WRITE) === 0 ? 'EACCES' : null;
  }

  private root(): Step {
    const over = this.upper.root();
    const status = typeof over === 'string' ? over : this.known(over.status);
    return { path: '/', status, over: reachedOr(over), under: reachedOr(this.lowerSteps.root()) };
  }

  /** True when the upper tree has a name in a directory of its own. */
  private hasName(over: Reached, name: string): boolean {
    return typeof this.upper.step(over, name) !== 'string';
  }

  /** What `at` says of a name in a directory, with one question to each tree. */
  private child({ path, over, under }: Step, name: string): Step {
    const next = below(path, name);
    const none = { path: next, over: null, under: null };
    if (name.startsWith(WHITEOUT)) return { ...none, status: 'ENOENT' };
    if (onHost(name).length > NAME_MOST) return { ...none, status: 'ENAMETOOLONG' };
    const above = over ? this.upper.step(over, name) : 'ENOENT';
    const isAbove = typeof above !== 'string';
    if (isAbove && above.status.kind !== 'directory')
      return { path: next, status: this.known(above.status), over: above, under: null };
    const isHidden = under && over && (this.hasName(over, OPAQUE) || this.hasName(over, WHITEOUT + name));
    const lower = under && !isHidden ? this.lowerSteps.step(under, name) : 'ENOENT';
    const status = isAbove ? this.known(above.status) : typeof lower === 'string' ? lower : lower.status;
    return { path: next, status, over: reachedOr(above), under: reachedOr(lower) };
  }

  private walk(path: string, follow: boolean): Place | FileError {
    return this.last.take(path, follow) ?? (this.walkTo(path, follow, false) as Place | FileError);
  }

  elsewhere(path: string, follow: boolean): { readonly path: string } | null {
    const place = this.walkTo(path, follow, true);
    if (isElsewhere(place)) return { path: place.elsewhere };
    this.last.keep(path, follow, place);
    return null;
  }

  /** `stops`: or that it leads elsewhere. */
  private walkTo(path: string, follow: boolean, stops: boolean): Place | FileError | Elsewhere {
    const left = namesOf(path);
    // From the root to where the path has led so far.
    const steps = [this.root()];
    let links = 0;
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const here = steps.at(-1)!;
      const { status } = here;
      if (typeof status === 'string') return status;
      if (status.kind !== 'directory') return 'ENOTDIR';
      if (!this.maySearch(here.path, status)) return 'EACCES';
      if (name === '..') {
        if (steps.length > 1) steps.pop();
        continue;
      }
      const own = links > 0 && steps.length === 1 ? ownFolder(name, left, stops) : null;
      if (own !== null) return own;
      const next = this.child(here, name);
      if (next.status === 'ENOENT' && left.length === 0) return { ...next, status: null };
      if (typeof next.status !== 'string' && next.status.kind === 'link' && (follow || left.length > 0)) {
        if (++links > LINKS_MOST) return 'ELOOP';
        const link = this.linkAt(next.path);
        if (typeof link === 'string') return link;
        left.unshift(...namesOf(link.text));
        if (link.text.startsWith('/')) steps.length = 1;
        continue;
      }
      steps.push(next);
    }
    const { status, ...place } = steps.at(-1)!;
    return typeof status === 'string' ? status : { ...place, status };
  }

  status(path: string, follow: boolean): FileStatus | FileError {
    const place = this.walk(path, follow);
    return typeof place === 'string' ? place : (place.status ?? 'ENOENT');
  }

  realPath(path: string): { readonly path: string } | FileError {
    const place = this.walk(path, true);
    return typeof place === 'string' ? place : place.status ? { path: place.path } : 'ENOENT';
  }

  readLink(path: string): { readonly text: string } | FileError {
    const place = this.walk(path, false);
    if (typeof place === 'string') return place;
    if (!place.status) return 'ENOENT';
    return place.status.kind === 'link' ? this.linkAt(place.path) : 'EINVAL';
  }

  list(path: string): readonly string[] | FileError {
    const place = this.walk(path, true);
    if (typeof place === 'string') return place;
    if (place.status?.kind !== 'directory') return place.status ? 'ENOTDIR' : 'ENOENT';
    const over = place.over ? this.upper.list(place.path) : [];
    if (typeof over === 'string') return over;
    const under = place.under ? this.lower.list(place.path) : [];
    const isOpaque = over.includes(OPAQUE);
    const hidden = new Set(over.filter((each) => each.startsWith(WHITEOUT)).map((each) => each.slice(WHITEOUT.length)));
    const kept = typeof under === 'string' || isOpaque ? [] : under.filter((each) => !hidden.has(each));
    const own = over.filter((each) => !each.startsWith(WHITEOUT));
    return [...new Set([...own, ...kept])].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  }

  // -------------------------------------------------------------------------------------- opening

  open(path: string): ReturnType<FileSystem['open']>;
  open(path: string, permissions: number, truncates: boolean): WritableFile | FileError;
  open(path: string, permissions?: number, truncates = false): ReturnType<FileSystem['open']> {
    const place = this.walk(path, true);
    if (typeof place === 'string') return place;
    if (permissions !== undefined) return this.openForWriting(place, permissions, truncates);
    if (!place.status) return 'ENOENT';
    return place.over ? this.openAbove(place.path) : this.lower.open(place.path);
  }

  private openAbove(path: string): ReturnType<FileSystem['open']> {
    const file = this.upper.open(path);
    if (typeof file === 'string') return file;
    const known = (): FileStatus => this.known(file.status);
    return {
      get status() {
        return known();
      },
      read: (offset, size) => file.read(offset, size),
      close: () => {
        file.close();
      },
    };
  }

  private host(path: string): string | Buffer {
    return onHost(join(this.directory, ...namesOf(path)));
  }

  /** Does something on the host; its errors are the guest's. */
  private attempt(act: () => void): FileError | null {
    try {
      act();
      return null;
    } catch (cause) {
      return errorOf(cause);
    }
  }

  /** Makes the directories of a path in the upper tree, with the permissions of the lower ones. */
  private makeParents(path: string): FileError | null {
    let at = '/';
    for (const name of namesOf(parentOf(path))) {
      at = below(at, name);
      if (this.isInUpper(at)) continue;
      const under = this.lower.status(at, false);
      const mode = typeof under === 'string' ? 0o755 : (under.permissions & 0o777) | 0o700;
      const refusal = this.attempt(() => {
        fs.mkdirSync(this.host(at), { mode });
      });
      if (refusal) return refusal;
      if (typeof under !== 'string') this.isCopyOf(at, under);
    }
    return null;
  }

  private takeRoom(bytes: number): boolean {
    if (bytes > this.room) return false;
    this.room -= bytes;
    return true;
  }

  private forgetWhiteout(path: string): void {
    const whiteout = WHITEOUT + nameOf(path);
    // There is none of a name that leaves no room for it.
    if (onHost(whiteout).length > NAME_MOST) return;
    fs.rmSync(this.host(below(parentOf(path), whiteout)), { force: true });
  }

  /** A name that the guest may give to something new. */
  private checkName(path: string): FileError | null {
    return nameOf(path).startsWith(WHITEOUT) || path.includes('\0') ? 'EACCES' : null;
  }

  /** Copies a file of the lower tree up; `truncates`: without its contents. */
  private copyUp(path: string, truncates = false): FileError | null {
    if (this.isInUpper(path)) return null;
    const parents = this.makeParents(path);
    if (parents) return parents;
    const status = this.at(path);
    if (typeof status === 'string') return status;
    const refusal = this.copy(path, status, truncates);
    if (refusal === null) this.isCopyOf(path, status);
    return refusal;
  }

  private copy(path: string, status: FileStatus, truncates: boolean): FileError | null {
    if (status.kind === 'directory')
      return this.attempt(() => void fs.mkdirSync(this.host(path), { mode: (status.permissions & 0o777) | 0o700 }));
    if (status.kind === 'link') {
      const link = this.lower.readLink(path);
      return typeof link === 'string'
        ? link
        : this.attempt(() => {
            fs.symlinkSync(onHost(link.text), this.host(path));
          });
    }
    const size = truncates ? 0 : status.sizeBytes;
    if (!this.takeRoom(size)) return 'ENOSPC';
    const file = this.lower.open(path);
    if (typeof file === 'string') return file;
    const refusal = this.attempt(() => {
      const descriptor = fs.openSync(this.host(path), 'wx', (status.permissions & 0o777) | 0o600);
      try {
        for (let at = 0; at < size; at += COPY_BYTES)
          fs.writeSync(descriptor, file.read(at, COPY_BYTES), 0, undefined, at);
      } finally {
        fs.closeSync(descriptor);
      }
    });
    file.close();
    return refusal;
  }

  private openForWriting({ path, status }: Place, permissions: number, truncates: boolean): WritableFile | FileError {
    if (status?.kind === 'directory') return 'EISDIR';
    if (status && (status.permissions & 0o200) === 0) return 'EACCES';
    const wrong = status
      ? this.copyUp(path, truncates)
      : (this.checkName(path) ?? this.refusedIn(path) ?? this.makeParents(path));
    if (wrong) return wrong;
    const { O_RDWR, O_CREAT, O_NOFOLLOW, O_EXCL } = fs.constants;
    let descriptor = -1;
    const refusal = this.attempt(() => {
      descriptor = fs.openSync(this.host(path), O_RDWR | O_NOFOLLOW | (status ? 0 : O_CREAT | O_EXCL), 0o600);
      if (!status) fs.fchmodSync(descriptor, permissions & 0o777);
      if (truncates) fs.ftruncateSync(descriptor, 0);
      if (!status) this.forgetWhiteout(path);
    });
    if (refusal) {
      if (descriptor >= 0) fs.closeSync(descriptor);
      return refusal;
    }
    return this.writable(path, descriptor);
  }

  private writable(path: string, descriptor: number): WritableFile {
    let isOpen = true;
    const sizeNow = (): number => fs.fstatSync(descriptor).size;
    const grow = (size: number): boolean => size <= sizeNow() || this.takeRoom(size - sizeNow());
    const { inode } = this.upper.status(path, false) as FileStatus;
    const first = this.at(path) as FileStatus;
    const granted = (): number | undefined => this.origins.get(inode)?.permissions;
    return {
      get status() {
        if (!isOpen) return first;
        const { size, mode, nlink } = fs.fstatSync(descriptor);
        return { ...first, sizeBytes: size, permissions: granted() ?? mode & 0o777, links: nlink };
      },
      read: (offset, size) => {
        const bytes = new Uint8Array(Math.max(0, Math.min(size, sizeNow() - offset)));
        const count = bytes.length === 0 ? 0 : fs.readSync(descriptor, bytes, 0, bytes.length, offset);
        return bytes.subarray(0, count);
      },
      write: (offset, bytes) => {
        if (!grow(offset + bytes.length)) return 'ENOSPC';
        let count = 0;
        return this.attempt(() => { count = fs.writeSync(descriptor, bytes, 0, bytes.length, offset); }) ?? count; // prettier-ignore
      },
      resize: (size) => {
        if (!grow(size)) return 'ENOSPC';
        return this.attempt(() => {
          fs.ftruncateSync(descriptor, size);
        });
      },
      close: () => {
        if (isOpen) fs.closeSync(descriptor);
        isOpen = false;
      },
    };
  }

  // ------------------------------------------------------------------------------------- changing

  /** Where something new would be; an error: there is something, or it may not be there. */
  private placeForNew(path: string): string | { readonly error: FileError } {
    const place = this.walk(path, false);
    if (typeof place === 'string') return { error: place };
    const { path: to, status } = place;
    const refusal = status ? 'EEXIST' : (this.checkName(to) ?? this.refusedIn(to) ?? this.makeParents(to));
    return refusal ? { error: refusal } : to;
  }

  makeDirectory(path: string, permissions: number): FileError | null {
    const to = this.placeForNew(path);
    if (typeof to !== 'string') return to.error;
    return this.attempt(() => {
      fs.mkdirSync(this.host(to), { mode: 0o700 });
      // What was removed here does not come back.
      if (typeof this.lower.status(to, false) !== 'string') fs.writeFileSync(this.host(below(to, OPAQUE)), '');
      this.forgetWhiteout(to);
      fs.chmodSync(this.host(to), permissions & 0o777);
    });
  }

  symbolicLink(text: string, path: string): FileError | null {
    const to = this.placeForNew(path);
    if (typeof to !== 'string') return to.error;
    return this.attempt(() => {
      fs.symlinkSync(onHost(text), this.host(to));
      this.forgetWhiteout(to);
    });
  }

  /** Names of one file of the lower tree become names of two, once one is copied up. */
  link(from: string, path: string, follow: boolean): FileError | null {
    const source = this.walk(from, follow);
    if (typeof source === 'string') return source;
    if (!source.status) return 'ENOENT';
    const to = this.placeForNew(path);
    if (typeof to !== 'string') return to.error;
    if (source.status.kind === 'directory') return 'EPERM';
    const refusal = this.copyUp(source.path);
    return refusal ?? this.attempt(() => {
      fs.linkSync(this.host(source.path), this.host(to));
      this.forgetWhiteout(to);
    }); // prettier-ignore
  }

  /** Takes what is at a path without links away, and hides what lies below it. */
  private take(path: string): FileError | null {
    const over = this.upper.status(path, false);
    // The host may give its number to another file.
    if (typeof over !== 'string' && (over.kind === 'directory' || (over.links ?? 1) <= 1))
      this.origins.delete(over.inode);
    const isUnder = typeof this.inLower(path) !== 'string';
    const parents = isUnder ? this.makeParents(path) : null;
    if (parents) return parents;
    return this.attempt(() => {
      fs.rmSync(this.host(path), { force: true, recursive: true });
      if (isUnder) fs.writeFileSync(this.host(below(parentOf(path), WHITEOUT + nameOf(path))), '');
    });
  }

  remove(path: string, kind: 'file' | 'directory'): FileError | null {
    const place = this.walk(path, false);
    if (typeof place === 'string') return place;
    if (!place.status) return 'ENOENT';
    if (place.path === '/') return 'EBUSY';
    const wrong = this.refusedIn(place.path);
    if (wrong) return wrong;
    const isDirectory = place.status.kind === 'directory';
    if (kind === 'file') return isDirectory ? 'EISDIR' : this.take(place.path);
    if (!isDirectory) return 'ENOTDIR';
    const names = this.list(place.path);
    if (typeof names === 'string') return names;
    return names.length > 0 ? 'ENOTEMPTY' : this.take(place.path);
  }

  rename(from: string, to: string): FileError | null {
    const [source, target] = [this.walk(from, false), this.walk(to, false)];
    if (typeof source === 'string') return source;
    if (typeof target === 'string') return target;
    if (!source.status) return 'ENOENT';
    if (source.path === target.path) return null;
    const isDirectory = source.status.kind === 'directory';
    if (isDirectory && `${target.path}/`.startsWith(`${source.path}/`)) return 'EINVAL';
    if (`${source.path}/`.startsWith(`${target.path}/`)) return 'ENOTEMPTY';
    const wrong = this.refusedIn(source.path) ?? this.refusedIn(target.path);
    if (wrong) return wrong;
    // What is above a directory that moves is written in it.
    const isMoved = isDirectory && parentOf(source.path) !== parentOf(target.path);
    if (isMoved && (source.status.permissions & OWNER.WRITE) === 0) return 'EACCES';
    // As overlay file systems of Linux answer: who moves then copies.
    if (isDirectory && typeof this.inLower(source.path) !== 'string') return 'EXDEV';
    if (target.status) {
      if ((target.status.kind === 'directory') !== isDirectory) return isDirectory ? 'ENOTDIR' : 'EISDIR';
      const refusal = this.remove(target.path, isDirectory ? 'directory' : 'file');
      if (refusal) return refusal;
    }
    const refusal = this.checkName(target.path) ?? this.copyUp(source.path) ?? this.makeParents(target.path);
    if (refusal) return refusal;
    const isUnder = typeof this.inLower(source.path) !== 'string';
    return this.attempt(() => {
      fs.renameSync(this.host(source.path), this.host(target.path));
      if (isUnder) fs.writeFileSync(this.host(below(parentOf(source.path), WHITEOUT + nameOf(source.path))), '');
      this.forgetWhiteout(target.path);
    });
  }

  setTimes(path: string, accessed: bigint, modified: bigint, follow: boolean): FileError | null {
    const place = this.walk(path, follow);
    if (typeof place === 'string') return place;
    if (!place.status) return 'ENOENT';
    return (
      this.copyUp(place.path) ??
      this.attempt(() => {
        setHostTimes(this.host(place.path), accessed, modified);
      })
    );
  }

  setPermissions(path: string, permissions: number): FileError | null {
    const place = this.walk(path, true);
    if (typeof place === 'string') return place;
    if (!place.status) return 'ENOENT';
    const refusal = this.copyUp(place.path);
    if (refusal) return refusal;
    // What the bits above say of users would be true of others on the host.
    const failed = this.attempt(() => {
      fs.chmodSync(this.host(place.path), permissions & 0o777);
    });
    const status = this.upper.status(place.path, false);
    const origin = typeof status === 'string' ? undefined : this.origins.get(status.inode);
    if (failed === null && origin && typeof status !== 'string') {
      this.origins.set(status.inode, { ...origin, permissions: permissions & 0o777 });
    }
    return failed;
  }
}

/**
 * The tree `lower` as a guest sees it who may change it; what becomes other is kept below
 * `directory`, at most `room` bytes more.
 * @throws ElftraceError 'io' when `directory` is none
 */
export function overlayOf(lower: FileSystem, directory: string, room: number): FileSystem {
  // Asks for the directory, too.
  filesBelow(directory, UPPER);
  return new Overlay(lower, fs.realpathSync(directory), room);
}
