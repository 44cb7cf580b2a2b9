/**
 * Files and directories that processes have open: by which name, and what is told of their use.
 */
import type { FileError, FileStatus, FileUse, OpenFile, WritableFile } from './files.js';

/** The tree, as what is open in it needs it. */
export interface OpenTree {
  /** A status with the times and permissions of this run. */
  timed(status: FileStatus): FileStatus;
  addName(name: OpenName): void;
  dropName(name: OpenName): void;
  /** A process did something with what it has open. */
  used(name: OpenName, use: FileUse): void;
  /** A file was written now. */
  stamp(inode: number, file: OpenFile): void;
}

/** A name by which a file or directory is open; it moves along when that is renamed. */
export class OpenName {
  isUnlinked = false;
  private isTold = false;
  private isFollowed = false;

  constructor(
    private readonly files: OpenTree,
    /** Without links, where the tree tells. */
    public path: string,
    readonly inode: number,
    readonly isDirectory: boolean,
  ) {}

  timed(status: FileStatus): FileStatus {
    return this.files.timed(status);
  }

  /** A process has it open, of which nothing is told: as a place only (O_PATH). */
  follow(): void {
    this.isFollowed = true;
    this.files.addName(this);
  }

  /** The same name of another process, of which nothing is told. */
  another(): OpenName {
    const name = new OpenName(this.files, this.path, this.inode, this.isDirectory);
    name.isUnlinked = this.isUnlinked;
    name.follow();
    return name;
  }

  told(use: FileUse): void {
    if (use === 'open') {
      this.isTold = true;
      this.follow();
    }
    // Files are opened on the way of other calls, too, of which nothing is told.
    if (this.isTold || use === 'modify') this.files.used(this, use);
    if (use === 'close' || use === 'close-written') {
      if (this.isFollowed) this.files.dropName(this);
      this.isTold = false;
      this.isFollowed = false;
    }
  }
}

export class FollowedFile implements OpenFile {
  constructor(
    protected readonly files: OpenTree,
    protected readonly file: OpenFile,
    readonly name: OpenName,
  ) {}

  get status(): FileStatus {
    return this.files.timed(this.file.status);
  }

  read(offset: number, size: number): Uint8Array {
    return this.file.read(offset, size);
  }

  close(): void {
    this.file.close();
  }

  told(use: FileUse): void {
    this.name.told(use);
  }
}

export class FollowedWritable extends FollowedFile implements WritableFile {
  constructor(
    files: OpenTree,
    protected override readonly file: WritableFile,
    name: OpenName,
  ) {
    super(files, file, name);
  }

  write(offset: number, bytes: Uint8Array): number | FileError {
    const written = this.file.write(offset, bytes);
    if (typeof written === 'number' && written > 0) this.files.stamp(this.name.inode, this.file);
    return written;
  }

  resize(size: number): FileError | null {
    const refusal = this.file.resize(size);
    if (refusal === null) this.files.stamp(this.name.inode, this.file);
    return refusal;
  }
}
