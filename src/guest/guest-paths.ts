/**
 * Paths of a process: how it means them, and what they lead to. That is what exists whatever the
 * tree is (`devices.ts`, `proc.ts`), or a place in the tree.
 *
 * Source: Linux, path_resolution(7).
 */
import type { Address } from '../units.js';
import type { CallContext } from './call-context.js';
import { DirectoryDescription, PlaceDescription } from './descriptions.js';
import { DEVICE_NAMES, deviceAt } from './devices.js';
import type { Errno } from './errno.js';
import { type FileChanges, type FileStatus, joinPath, lastName, type NodeStatus, parentPath } from './files.js';
import type { OpenName } from './open-names.js';
import { nodeStatus, type TreeNode } from './network.js';
import { FOLDER as TERMINALS, type TerminalPlace } from './terminals.js';
import { processOf, procFileAt } from './proc.js';
import { listFile, type ProcFile, procStatus } from './proc-files.js';
import { systemFileAt } from './proc-system.js';
import { textOf } from '../bytes.js';

const PATH_MAX = 4096;
/** Links that lead to `/proc`, or from there, and are followed one behind the other. */
const LINKS_MOST = 40;
/** A path that goes on behind a link of `/proc`: the link, and the rest. */
const BEHIND_LINK = /^(\/proc\/[^/]+(?:\/task\/\d+)?\/(?:cwd|root|fd\/\d+)|\/dev\/fd\/\d+)(\/.+)$/;
/** Of the permissions of a directory: its owner may change it. */
const OWNER_CHANGES = 0o300;
export const AT_FDCWD = -100;
export const AT_SYMLINK_NOFOLLOW = 0x100n;
export const AT_EMPTY_PATH = 0x1000n;

/** What a path leads to. */
export type Place =
  | { readonly kind: 'tree'; readonly path: string }
  | { readonly kind: 'device'; readonly device: NonNullable<ReturnType<typeof deviceAt>> | TerminalPlace }
  | { readonly kind: 'proc'; readonly path: string; readonly file: ProcFile }
  | { readonly kind: 'node'; readonly path: string; readonly node: TreeNode };

/** The path without `..`, as if no link were in it. */
export function withoutParents(path: string): string {
  if (!path.includes('..')) return path;
  const out: string[] = [];
  for (const each of path.split('/').filter((name) => name !== '')) {
    if (each === '..') out.pop();
    else out.push(each);
  }
  return `/${out.join('/')}`;
}

/** Where a link of `/proc` leads; null: it is none, or leads to what is open itself. */
function nextPlace(file: ProcFile, path: string): string | null {
  if (file.kind === 'link') return joinPath(parentPath(path), file.text);
  const place = file.kind === 'descriptor' && file.description instanceof PlaceDescription ? file.description : null;
  return place && !place.isGone && place.status.kind !== 'link' ? place.path : null;
}

/** A path, and whether what stands behind its last name says that it is a directory's. */
export interface NamedPlace {
  readonly path: string;
  readonly asksDirectory: boolean;
}

export class GuestPaths {
  /** The current directory: where it was, and its name, which moves along, where it may move. */
  private place = '/';
  private current: OpenName | null = null;
  /** Bits that no new file has. */
  mask = 0o022;

  constructor(private readonly context: CallContext) {}

  save(): () => void {
    const { place, current, mask } = this;
    return () => {
      Object.assign(this, { place, current, mask });
    };
  }

  /** What a process has that begins as a copy of this one. */
  copyTo(other: GuestPaths): void {
    other.place = this.place;
    other.current = this.current?.another() ?? null;
    other.mask = this.mask;
  }

  /** The current directory. */
  get directory(): string {
    return this.current?.path ?? this.place;
  }

  /** There is no current directory any more. */
  get isGone(): boolean {
    return this.current?.isUnlinked === true;
  }

  /** Makes a directory the current one; `path`: without links, `status`: of one in the tree. */
  enter(path: string, status: FileStatus | null): void {
    const { files } = this.context;
    this.leave();
    this.place = path;
    this.current = status && files.changes ? files.nameOf(path, status) : null;
    this.current?.follow();
  }

  /** The process has ended, or goes elsewhere. */
  leave(): void {
    this.current?.told('close');
    this.current = null;
  }

  /** The text at `address`. */
  textAt(address: Address): { readonly text: string } | Errno {
    const { memory } = this.context.machine;
    const bytes = memory.readCString(address, PATH_MAX);
    if (!bytes) return memory.check(address, 1, 'read') === null ? 'ENAMETOOLONG' : 'EFAULT';
    return { text: textOf(bytes) };
  }

  /** The directory that a relative path is meant from. */
  baseOf(from: number): { readonly path: string } | Errno {
    if (from === AT_FDCWD) return this.isGone ? 'ENOENT' : { path: this.directory };
    const base = this.context.descriptors.get(from);
    if (!base) return 'EBADF';
    if (!(base instanceof DirectoryDescription)) return 'ENOTDIR';
    return base.isGone ? 'ENOENT' : { path: base.path };
  }

  /**
   * The path at `address` as the guest means it from descriptor `from`, whatever stands behind its
   * last name; '' stays ''.
   */
  namedAt(from: number, address: Address): NamedPlace | Errno {
    const found = this.textAt(address);
    if (typeof found === 'string') return found;
    const { text } = found;
    if (text === '') return { path: '', asksDirectory: false };
    const base = text.startsWith('/') ? null : this.baseOf(from);
    if (typeof base === 'string') return base;
    const refusal = this.context.files.from(base?.path ?? null);
    if (refusal !== null) return refusal;
    return { path: joinPath(base?.path ?? '/', text), asksDirectory: /[^/]\/+\.?\/*$/.test(text) };
  }

  /** The same of what is there already: a slash behind its name asks for a directory. */
  pathAt(from: number, address: Address): { readonly path: string } | Errno {
    const named = this.namedAt(from, address);
    if (typeof named === 'string' || !named.asksDirectory) return named;
    const status = this.status(named.path, true);
    if (typeof status === 'string') return status;
    if (status.kind !== 'directory') return 'ENOTDIR';
    // That a link at its end leads to.
    const real = this.context.files.realPath(named.path);
    return typeof real === 'string' ? named : real;
  }

  /**
   * Where a path leads; `follow`: through the links of `/proc`, and `followLast`: through one of
   * the tree at its end.
   */
  placeOf(path: string, follow: boolean, followLast = follow): Place | Errno {
    let at = path;
    for (let links = 0; links < LINKS_MOST; links++) {
      const plain = withoutParents(at);
      const { terminals } = this.context;
      const device = deviceAt(plain, (size) => this.context.randomBytes(size)) ?? terminals.placeOf(plain);
      if (device) return { kind: 'device', device };
      if (plain === TERMINALS) {
        const names = [...terminals.numbers.map(String), 'ptmx'];
        return { kind: 'proc', path: plain, file: { kind: 'list', names } };
      }
      const beyond = this.beyond(plain);
      if (typeof beyond === 'string') return beyond;
      if (beyond) {
        at = beyond.path;
        continue;
      }
      const file = this.procFile(plain);
      if (typeof file === 'string') return file;
      if (!file) {
        const node = this.nodeAt(at);
        if (node) return node;
        const led = this.context.files.elsewhere(at, followLast);
        if (!led) return { kind: 'tree', path: at };
        at = led.path;
        continue;
      }
      const next = follow ? nextPlace(file, plain) : null;
      if (next === null) return { kind: 'proc', path: plain, file };
      at = next;
    }
    return 'ELOOP';
  }

  /** Where a path leads that goes on behind a link of `/proc`, or a device; null: it is none. */
  private beyond(path: string): { readonly path: string } | Errno | null {
    const [, head = '', rest = ''] = BEHIND_LINK.exec(path) ?? [];
    const file = head === '' ? null : this.procFile(head);
    if (typeof file === 'string') return file;
    const folder =
      file?.kind === 'descriptor' && file.description instanceof DirectoryDescription ? file.description : null;
    if (folder?.isGone === true) return 'ENOENT';
    const next = folder?.path ?? (file && nextPlace(file, head));
    if (next !== null) return { path: joinPath(next, `.${rest}`) };
    const device = deviceAt(/^\/dev\/\w+(?=\/)/.exec(path)?.[0] ?? '', () => new Uint8Array());
    return device || file?.kind === 'descriptor' ? 'ENOTDIR' : null;
  }

  /**
   * The file of `/proc` that a path leads to, or the folder of devices where the tree has none; an
   * error: no process has that number.
   */
  private procFile(path: string): ProcFile | Errno | null {
    const { context } = this;
    if (path === '/dev') return context.files.status(path, true) === 'ENOENT' ? listFile(DEVICE_NAMES) : null;
    if (!/^\/(proc(?=\/|$)|dev\/|sys\/devices\/)/.test(path)) return null;
    const id = processOf(path);
    const subject = id === null ? context.procSubject() : context.procSubjectOf(id);
    if (!subject) return 'ENOENT';
    const system = context.procSystem();
    const file = (id === null ? systemFileAt(path, system) : null) ?? procFileAt(path, subject, system);
    // What a tree has there is of the system that it was copied from, or that runs this one.
    return file ?? (path.startsWith('/proc/') ? 'ENOENT' : null);
  }

  /** The socket or pipe that a path leads to; null: there is none. */
  private nodeAt(path: string): Place | null {
    if (!this.context.network.hasNodes) return null;
    const place = this.nodePath(path);
    const node = typeof place === 'string' ? null : this.context.network.nodeAt(place.path);
    return node && typeof place !== 'string' ? { kind: 'node', path: place.path, node } : null;
  }

  /** The path of a place in a directory that is there, without links in front of its name. */
  nodePath(text: string): { readonly path: string } | Errno {
    const path = withoutParents(joinPath(this.directory, text));
    const parent = parentPath(path);
    const status = this.context.files.status(parent, true);
    if (typeof status === 'string') return status;
    if (status.kind !== 'directory') return 'ENOTDIR';
    const real = this.context.files.realPath(parent);
    if (typeof real === 'string') return real;
    return { path: joinPath(real.path, lastName(path)) };
  }

  /** Null: what is no file of the tree may be made at a path, or taken from there. */
  refusedAt(path: string): Errno | null {
    const status = this.context.files.status(parentPath(path), true);
    if (typeof status === 'string') return status;
    return (status.permissions & OWNER_CHANGES) === OWNER_CHANGES ? null : 'EACCES';
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
      case 'node':
        return nodeStatus(place.node);
      case 'proc':
        return place.file.kind === 'descriptor' && follow
          ? place.file.description.status
          : procStatus(place.file, this.context.date);
      default:
        return place satisfies never;
    }
  }

  statusOf(number: number): NodeStatus | Errno {
    return this.context.descriptors.get(number)?.status ?? 'EBADF';
  }

  statusAt(from: number, address: Address, flags: bigint): NodeStatus | Errno {
    const found = this.pathAt(from, address);
    if (typeof found === 'string') return found;
    if (found.path !== '') return this.status(found.path, (flags & AT_SYMLINK_NOFOLLOW) === 0n);
    if ((flags & AT_EMPTY_PATH) === 0n) return 'ENOENT';
    return from === AT_FDCWD ? this.status(this.directory, true) : this.statusOf(from);
  }

  /** What changes the tree; an error: nothing may. */
  changes(): FileChanges | Errno {
    const { files } = this.context;
    if (files.changes) return files.changes;
    this.context.deviate('read-only');
    return 'EROFS';
  }
}
