/**
 * Memory that several processes share, and memory that is a file's. Each process has a machine of
 * its own, with a copy of what is shared. One process runs at a time, so it is enough that a copy
 * is right when it is looked at:
 *
 *   process 1000 runs      stores into its copy
 *   another is entered     1000's copy -> pages of the object (and its file) -> copy of 1001
 *   1001 reads the file    its own copy -> object -> file, before the read
 *   1001 writes the file   file -> object -> its own copy, behind the write
 *
 * A page of the object is what all have agreed on. What differs from it in the copy of the process
 * that ran is what that has stored. Memory that one process has alone has no object's pages.
 *
 * Owns objects and the movement of bytes; where an address space has mapped which object is in
 * `AddressSpace.shared`.
 *
 * Source: Linux, mmap(2), msync(2), futex(2).
 */
import type { AddressSpace, SharedMapping } from './address-space.js';
import type { FileDescription, FileSharing } from './descriptions.js';
import { firstDifference, type GuestMemory } from '../emulator/memory.js';
import { SharedObject } from './shared-object.js';
import { PAGE } from '../emulator/windows.js';

const PAGE_BYTES = Number(PAGE);

/** A process, as far as it shares memory. */
export interface Sharer {
  readonly machine: { readonly memory: GuestMemory };
  readonly space: AddressSpace;
}

/** The process that runs, and may write files. */
export interface FileWriter extends Sharer {
  /** Bytes to which it may make a file grow. */
  readonly fileMost: number;
  /** It learns that it would have gone beyond. */
  fileTooLarge(): void;
}

/** Pages of a mapping that the process has memory for, each as it is now. */
function* pagesOf(mapping: SharedMapping, memory: GuestMemory): Generator<readonly [number, bigint, Uint8Array]> {
  const { from, to, offset } = mapping;
  for (let at = from; at < to; at += PAGE) {
    const now = memory.view(at, PAGE_BYTES);
    if (now) yield [(offset + Number(at - from)) / PAGE_BYTES, at, now];
  }
}

/** All that processes share. */
export class SharedMemory implements FileSharing {
  private objects: readonly SharedObject[] = [];
  /** Those of files, by inode. */
  private files: ReadonlyMap<number, SharedObject> = new Map();

  /** @param sharers  the process that runs, and all that have not ended */
  constructor(private readonly sharers: { readonly running: FileWriter | null; readonly all: readonly Sharer[] }) {}

  get usedBytes(): number {
    return this.objects.reduce((sum, each) => sum + each.usedBytes, 0);
  }

  roomAt(offset: number, size: number): number | 'EFBIG' {
    const { running } = this.sharers;
    if (!running || size === 0 || offset + size <= running.fileMost) return size;
    if (offset < running.fileMost) return running.fileMost - offset;
    running.fileTooLarge();
    return 'EFBIG';
  }

  /** The object of memory that is to be mapped. */
  objectFor(description: FileDescription | null): SharedObject {
    const known = description && this.files.get(description.inode);
    if (known) {
      known.hold(description);
      return known;
    }
    const object = new SharedObject(description);
    this.objects = [...this.objects, object];
    if (description) this.files = new Map([...this.files, [description.inode, object]]);
    return object;
  }

  /** What the process has stored is stored for all. `one`: into this object only. */
  publish(sharer: Sharer, one?: SharedObject): void {
    const { space, machine } = sharer;
    const mappings = space.shared.filter(
      ({ object, mayWrite }) => mayWrite && object.isShared && (one === undefined || object === one),
    );
    for (const object of new Set(mappings.map((each) => each.object))) {
      const own = mappings.filter((each) => each.object === object);
      // What one mapping has stored is no store of the other, which does not have it yet.
      const then = new Map<number, Uint8Array>();
      let isChanged = false;
      for (const mapping of own) {
        for (const [number, , now] of pagesOf(mapping, machine.memory)) {
          const before = then.get(number) ?? object.page(number);
          if (!object.store(number, now, before)) continue;
          then.set(number, before);
          isChanged = true;
        }
      }
      if (!isChanged) continue;
      object.version++;
      if (own.length === 1) own[0]!.seen = object.version;
      else this.fetch(sharer);
    }
  }

  /** What others have stored is there for the process, too. */
  fetch({ space, machine: { memory } }: Sharer): void {
    for (const mapping of space.shared) {
      const { object, from, to, offset } = mapping;
      if (mapping.seen === object.version) continue;
      mapping.seen = object.version;
      if (!object.isShared) continue;
      if (object.isFile) space.showFile(memory, from, to, BigInt(Math.min(object.end - offset, Number(to - from))), mapping.permission); // prettier-ignore
      for (const [number, address, now] of pagesOf(mapping, memory)) {
        const page = object.page(number);
        if (firstDifference(now, page) >= 0) memory.write(address, page);
      }
    }
  }

  /** Another process runs than before. */
  switched(from: Sharer, to: Sharer): void {
    if (from.machine === to.machine) return;
    this.publish(from);
    this.fetch(to);
  }

  /** A process is about to be copied. */
  forked(maker: Sharer): void {
    for (const { object } of maker.space.shared) object.isShared = true;
    this.publish(maker);
    this.fetch(maker);
  }

  /** Memory of the process may have been unmapped, or the process is gone. */
  settle(): void {
    const used = new Set(this.sharers.all.flatMap(({ space }) => space.shared.map(({ object }) => object)));
    const gone = this.objects.filter((each) => !used.has(each));
    if (gone.length === 0) return;
    this.objects = this.objects.filter((each) => used.has(each));
    this.files = new Map([...this.files].filter(([, each]) => used.has(each)));
    for (const each of gone) each.release();
  }

  // -------------------------------------------------------------------------------------- files

  beforeAccess(inode: number): void {
    const object = this.files.get(inode);
    const { running } = this.sharers;
    if (object && running) this.publish(running, object);
  }

  written(inode: number, offset: number, size: number): void {
    this.files.get(inode)?.reread(offset, size);
    this.fetchRunning(inode);
  }

  resized(inode: number): void {
    this.files.get(inode)?.resized();
    this.fetchRunning(inode);
  }

  private fetchRunning(inode: number): void {
    const { running } = this.sharers;
    if (this.files.has(inode) && running) this.fetch(running);
  }

  copied(before: number, description: FileDescription): void {
    const object = this.files.get(before);
    if (!object || (before === description.inode && object.isWritten)) return;
    object.hold(description);
    this.files = new Map([...this.files, [description.inode, object]]);
  }

  save(): () => void {
    const { objects, files } = this;
    const putBack = objects.map((each) => each.save());
    return () => {
      Object.assign(this, { objects, files });
      for (const each of putBack) each();
    };
  }
}
