/**
 * What descriptors lead to: open file descriptions, which several descriptors, of several
 * processes, may share. Here are the interface, those of files and of the standard streams, and the
 * table of a process; pipes, devices and the others are in files of their own.
 */
import { ElftraceError } from '../errors.js';
import type { Errno } from './errno.js';
import type {
  FileError,
  FileStatus,
  FileSystem,
  FileUse,
  NodeStatus,
  OpenFile,
  ReplayedInput,
  WritableFile,
} from './files.js';
import { isSpecial } from './files.js';

/** Flags that a description keeps. Source: Linux asm-generic/fcntl.h; equal on all targets. */
export const O = {
  ACCMODE: 3, RDONLY: 0, WRONLY: 1, RDWR: 2, CREAT: 0o100, EXCL: 0o200, NOCTTY: 0o400, TRUNC: 0o1000, APPEND: 0o2000, NONBLOCK: 0o4000, CLOEXEC: 0o2000000,
  PATH: 0o10000000,
} as const; // prettier-ignore
/** What F_SETFL changes of them. */
export const CHANGEABLE = O.APPEND | O.NONBLOCK;

/** Events of `poll`. Source: Linux asm-generic/poll.h; equal on all targets. */
export const POLL = { IN: 1, PRI: 2, OUT: 4, ERR: 8, HUP: 0x10, NVAL: 0x20, RDNORM: 0x40, WRNORM: 0x100, RDHUP: 0x2000 } as const; // prettier-ignore
export const READABLE = POLL.IN | POLL.RDNORM;
export const WRITABLE = POLL.OUT | POLL.WRNORM;

/** Most descriptors of a process; RLIMIT_NOFILE is at most this. */
export const OPEN_MAX = 1024;

/** An open file description. */
export abstract class Description {
  /** Descriptors of all processes that lead here. */
  private references = 0;

  constructor(
    /** Access mode, O_APPEND, O_NONBLOCK. */
    public flags: number,
    private readonly node: NodeStatus,
  ) {}

  /** What `fstat` tells. */
  get status(): NodeStatus {
    return this.node;
  }

  /** What `/proc/self/fd` shows. */
  abstract readonly path: string;

  get isReadable(): boolean {
    return (this.flags & O.ACCMODE) !== O.WRONLY;
  }

  get isWritable(): boolean {
    return (this.flags & O.ACCMODE) !== O.RDONLY;
  }

  get isNonBlocking(): boolean {
    return (this.flags & O.NONBLOCK) !== 0;
  }

  /** How many bytes a read of `size` would bring now, at most. */
  available(size: number): number {
    return size;
  }

  /** Bytes, none at the end; null: there is nothing yet. */
  read(_size: number): Uint8Array | Errno | null {
    return 'EINVAL';
  }

  readAt(_offset: number, _size: number): Uint8Array | Errno {
    return 'ESPIPE';
  }

  /** How many bytes were written; null: there is no room. */
  write(_bytes: Uint8Array): number | Errno | null {
    return 'EINVAL';
  }

  writeAt(_offset: number, _bytes: Uint8Array): number | Errno {
    return 'ESPIPE';
  }

  /** Moves the position; 'ESPIPE': there is none. `size`: what SEEK_END counts from. */
  seek(_move: (position: number, size: number) => number | Errno): number | Errno {
    return 'ESPIPE';
  }

  /** True when a write of these bytes would not wait. */
  accepts(_bytes: Uint8Array): boolean {
    return true;
  }

  /** Counts what became of it that changes its events. */
  get changes(): number {
    return 0;
  }

  /** True when an `epoll` may ask for its events; Linux refuses what is always ready. */
  get isPolled(): boolean {
    return !['file', 'directory'].includes(this.status.kind);
  }

  /** Events that are so now. */
  events(): number {
    return READABLE | WRITABLE;
  }

  /** No descriptor leads here any more. */
  protected closed(): void {
    return;
  }

  /** Another descriptor leads here. */
  hold(): void {
    this.references++;
  }

  /** A descriptor that led here was closed. */
  release(): void {
    if (--this.references === 0) this.closed();
  }

  get isOpen(): boolean {
    return this.references > 0;
  }

  /** The same of one that is on its way to another process. */
  savePassed(): () => void {
    return this.save();
  }

  /** Remembers its state; what is returned puts that back. */
  save(): () => void {
    const { references, flags } = this;
    return () => {
      Object.assign(this, { references, flags });
    };
  }
}

/** Descriptors 0 to 2: devices that are no terminals. */
const streamStatus: NodeStatus = { kind: 'character', permissions: 0o600, inode: 1, device: 0 };

export class InputDescription extends Description {
  readonly path = 'stdin';
  constructor(private readonly input: ReplayedInput) {
    super(O.RDONLY, streamStatus);
  }

  override read(size: number): Uint8Array | null {
    return size === 0 ? new Uint8Array() : this.input.read(size);
  }

  override events(): number {
    return READABLE;
  }
}

export class OutputDescription extends Description {
  readonly path: string;
  constructor(
    readonly number: number,
    private readonly output: (descriptor: number, bytes: Uint8Array) => void,
  ) {
    super(O.WRONLY, streamStatus);
    this.path = number === 1 ? 'stdout' : 'stderr';
  }

  override write(bytes: Uint8Array): number {
    this.output(this.number, bytes);
    return bytes.length;
  }

  override events(): number {
    return WRITABLE;
  }
}

/** A description with a position. */
export abstract class Seekable extends Description {
  position = 0;

  protected abstract get sizeBytes(): number;

  override seek(move: (position: number, size: number) => number | Errno): number | Errno {
    const to = move(this.position, this.sizeBytes);
    if (typeof to === 'number') this.position = to;
    return to;
  }

  override save(): () => void {
    const { position } = this;
    const putBack = super.save();
    return () => {
      this.position = position;
      putBack();
    };
  }
}

/** Who has files in memory, too, and is asked before and told behind what is done to them. */
export interface FileSharing {
  /** How many of `size` bytes the running process may write; an error: it was told of its limit. */
  roomAt(offset: number, size: number): number | 'EFBIG';
  /** A file is about to be read, written or cut. */
  beforeAccess(inode: number): void;
  written(inode: number, offset: number, size: number): void;
  resized(inode: number): void;
  /** A file that had the inode `before` is to be changed, and has another one from now on. */
  copied(before: number, description: FileDescription): void;
}

/** Has bytes that are read from a position on. */
abstract class Readable extends Seekable {
  override available(size: number): number {
    return Math.max(0, Math.min(size, this.sizeBytes - this.position));
  }

  override read(size: number): Uint8Array {
    const bytes = this.readAt(this.position, size);
    this.position += bytes.length;
    return bytes;
  }

  abstract override readAt(offset: number, size: number): Uint8Array;
}

/** A regular file of the tree. */
export class FileDescription extends Readable {
  readonly inode: number;
  /** Descriptions of the open file. */
  private users = { count: 1 };

  constructor(
    private readonly first: string,
    private current: OpenFile | WritableFile,
    flags: number,
    private readonly sharing: FileSharing | null = null,
  ) {
    const { status } = current;
    super(flags, status);
    this.inode = status.inode;
  }

  get file(): OpenFile | WritableFile {
    return this.current;
  }

  /** Where it is now, which is where it was opened unless it was renamed. */
  get path(): string {
    return this.current.name?.path ?? this.first;
  }

  override get status(): FileStatus {
    return this.current.status;
  }

  protected get sizeBytes(): number {
    return this.current.status.sizeBytes;
  }

  override readAt(offset: number, size: number): Uint8Array {
    const bytes = this.contents(offset, size);
    if (bytes.length > 0) this.current.told?.('access');
    return bytes;
  }

  /** What it holds, for who maps it. */
  contents(offset: number, size: number): Uint8Array {
    this.sharing?.beforeAccess(this.inode);
    return this.current.read(offset, size);
  }

  override write(bytes: Uint8Array): number | Errno {
    if ((this.flags & O.APPEND) !== 0) this.position = this.sizeBytes;
    const written = this.writeAt(this.position, bytes);
    if (typeof written === 'number') this.position += written;
    return written;
  }

  override writeAt(offset: number, bytes: Uint8Array): number | Errno {
    if (!('write' in this.current)) return 'EBADF';
    this.sharing?.beforeAccess(this.inode);
    // What appends does so wherever it is told to write.
    const at = (this.flags & O.APPEND) === 0 ? offset : this.sizeBytes;
    const room = this.sharing?.roomAt(at, bytes.length) ?? bytes.length;
    if (typeof room === 'string') return room;
    const written = this.current.write(at, room < bytes.length ? bytes.subarray(0, room) : bytes);
    if (typeof written !== 'number') return written;
    this.sharing?.written(this.inode, at, written);
    if (written > 0) this.current.told?.('modify');
    return written;
  }

  resize(size: number): FileError | null {
    if (!('write' in this.current)) return 'EINVAL';
    this.sharing?.beforeAccess(this.inode);
    const room = size > this.sizeBytes ? this.sharing?.roomAt(size - 1, 1) : 1;
    if (typeof room === 'string') return room;
    const refusal = this.current.resize(size);
    this.sharing?.resized(this.inode);
    if (refusal === null) this.current.told?.('modify');
    return refusal;
  }

  /** A process has opened it by its name. */
  opened(): void {
    this.current.told?.('open');
  }

  /** Another description of the file that is open, which has no name by which to open it. */
  again(flags: number): FileDescription {
    const other = new FileDescription(this.first, this.current, flags, this.sharing);
    other.users = this.users;
    this.users.count++;
    return other;
  }

  protected override closed(): void {
    this.current.told?.(this.isWritable ? 'close-written' : 'close');
    if (--this.users.count === 0) this.current.close();
  }

  override save(): () => void {
    const { users } = this;
    const { count } = users;
    const putBack = super.save();
    return () => {
      users.count = count;
      putBack();
    };
  }

  /** Opens the file again, which was closed since a snapshot. */
  reopen(files: FileSystem): void {
    const file = files.open(this.path);
    if (typeof file === 'string') {
      throw new ElftraceError('io', `${this.path} was open in the snapshot and cannot be opened again (${file})`, {
        file: this.path,
      });
    }
    this.current = file;
  }
}

/** A file that is made of text when it is opened. */
export class TextDescription extends Readable {
  constructor(
    readonly path: string,
    status: NodeStatus,
    private readonly bytes: Uint8Array,
  ) {
    super(O.RDONLY, status);
  }

  protected get sizeBytes(): number {
    return this.bytes.length;
  }

  override readAt(offset: number, size: number): Uint8Array {
    return this.bytes.slice(offset, offset + size);
  }
}

/** A directory whose uses are told, and whose name moves along. */
export interface Followed {
  readonly path: string;
  readonly isUnlinked: boolean;
  follow(): void;
  told(use: FileUse): void;
  timed(status: FileStatus): FileStatus;
}

/** A directory of the tree; its position counts entries. */
export class DirectoryDescription extends Seekable {
  protected readonly sizeBytes = 0;
  /**
   * The names that there were when it was listed from the beginning: what is made or taken away
   * meanwhile moves none of the others.
   */
  listed: readonly string[] | null = null;

  constructor(
    private readonly place: string,
    private readonly first: FileStatus,
    flags: number,
    /** Null: it is none of the tree. */
    readonly followed: Followed | null = null,
  ) {
    super(flags, first);
  }

  /** A process has opened it. */
  opened(): void {
    if ((this.flags & O.PATH) === 0) this.followed?.told('open');
    else this.followed?.follow();
  }

  /** Where it is now. */
  get path(): string {
    return this.followed?.path ?? this.place;
  }

  /** There is no such directory any more. */
  get isGone(): boolean {
    return this.followed?.isUnlinked === true;
  }

  override get status(): FileStatus {
    return this.followed?.timed(this.first) ?? this.first;
  }

  protected override closed(): void {
    this.followed?.told('close');
  }

  override save(): () => void {
    const { listed } = this;
    const putBack = super.save();
    return () => {
      this.listed = listed;
      putBack();
    };
  }

  override read(): Errno {
    return 'EISDIR';
  }

  override readAt(): Errno {
    return 'EISDIR';
  }
}

/** A place that was opened as such (O_PATH), also a link: it is looked at, not read or written. */
export class PlaceDescription extends Description {
  /** @param followed  null: it is none of the tree */
  constructor(
    private readonly place: string,
    private readonly first: NodeStatus,
    flags: number,
    private readonly followed: Followed | null,
  ) {
    super(flags, first);
    followed?.follow();
  }

  get path(): string {
    return this.followed?.path ?? this.place;
  }

  /** What is at its path now is something else, or nothing. */
  get isGone(): boolean {
    return this.followed?.isUnlinked === true;
  }

  override get status(): NodeStatus {
    return this.followed && !isSpecial(this.first) ? this.followed.timed(this.first) : this.first;
  }

  override get isReadable(): boolean {
    return false;
  }

  override get isWritable(): boolean {
    return false;
  }

  override seek(): Errno {
    return 'EBADF';
  }

  protected override closed(): void {
    this.followed?.told('close');
  }
}

interface Entry {
  readonly description: Description;
  readonly closeOnExec: boolean;
}

/** Open descriptors of a process. */
export class Descriptors {
  private table = new Map<number, Entry>();
  /** Numbers that are taken anew are below this. */
  most = OPEN_MAX;
  /** Called when a descriptor was closed. */
  onClose: (description: Description) => void = () => undefined;

  /** @param files  where files of a snapshot are opened again that were closed since */
  constructor(private readonly files: FileSystem) {}

  get(number: number): Description | undefined {
    return this.table.get(number)?.description;
  }

  /** The same, but for what was opened as a place (O_PATH), of which most calls know nothing. */
  used(number: number): Description | undefined {
    const description = this.get(number);
    return description && (description.flags & O.PATH) === 0 ? description : undefined;
  }

  /** Numbers in use, ascending. */
  get numbers(): readonly number[] {
    return [...this.table.keys()].sort((a, b) => a - b);
  }

  /** Takes the lowest free number from `least` on; -1 when none is left. */
  add(description: Description, closeOnExec = false, least = 0): number {
    for (let number = least; number < this.most; number++) {
      if (this.table.has(number)) continue;
      this.put(number, description, closeOnExec);
      return number;
    }
    return -1;
  }

  /** True when so many numbers are free. */
  hasRoom(count: number): boolean {
    let below = 0;
    for (const number of this.table.keys()) if (number < this.most) below++;
    return below + count <= this.most;
  }

  /** Makes a number lead to a description; what it led to is closed. */
  put(number: number, description: Description, closeOnExec: boolean): void {
    description.hold();
    this.close(number);
    this.table.set(number, { description, closeOnExec });
  }

  close(number: number): boolean {
    const entry = this.table.get(number);
    if (!entry) return false;
    this.table.delete(number);
    entry.description.release();
    this.onClose(entry.description);
    return true;
  }

  closesOnExec(number: number): boolean {
    return this.table.get(number)?.closeOnExec === true;
  }

  setCloseOnExec(number: number, closeOnExec: boolean): void {
    const entry = this.table.get(number);
    if (entry) this.table.set(number, { ...entry, closeOnExec });
  }

  /** Another program begins. */
  exec(): void {
    for (const number of this.numbers) if (this.closesOnExec(number)) this.close(number);
  }

  closeAll(): void {
    for (const number of this.numbers) this.close(number);
  }

  /** The table of a process that begins as a copy of this one. */
  copy(): Descriptors {
    const out = new Descriptors(this.files);
    out.most = this.most;
    for (const [number, { description, closeOnExec }] of this.table) out.put(number, description, closeOnExec);
    return out;
  }

  /**
   * Remembers what is open and where it is read next. The function that it returns puts that back:
   * it throws ElftraceError 'io' when a file that was closed since cannot be opened any more.
   */
  save(): () => void {
    const then = new Map(this.table);
    const { most } = this;
    const states = new Map([...then.values()].map(({ description }) => [description, description.save()]));
    return () => {
      for (const description of states.keys()) {
        if (description instanceof FileDescription && !description.isOpen) description.reopen(this.files);
      }
      for (const { description } of this.table.values()) if (!states.has(description)) description.release();
      this.table = new Map(then);
      this.most = most;
      for (const putBack of states.values()) putBack();
    };
  }
}
