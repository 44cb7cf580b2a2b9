/**
 * Ways to a file that are kept to (`openat2`): below a directory, without links, or with a
 * directory as the root. Links are resolved here name by name, so that what is opened is where it
 * was looked for.
 *
 * Source: Linux, openat2(2), uapi/linux/openat2.h.
 */
import type { CallContext } from './call-context.js';
import { O } from './descriptions.js';
import type { Errno } from './errno.js';
import { joinPath, parentPath } from './files.js';
import { AT_FDCWD, type GuestPaths } from './guest-paths.js';
import type { Address } from '../units.js';
import { PAGE } from '../emulator/windows.js';

const RESOLVE = {
  NO_XDEV: 1,
  NO_MAGICLINKS: 2,
  NO_SYMLINKS: 4,
  BENEATH: 8,
  IN_ROOT: 0x10,
  CACHED: 0x20,
  ALL: 0x3f,
} as const;
const LINKS_MOST = 40;
/** Bytes of `struct open_how`. */
const HOW_BYTES = 24n;
/** O_DIRECTORY, O_NOFOLLOW, O_DIRECT and O_LARGEFILE, by whatever numbers, and the others. */
const KNOWN_FLAGS = 0o37777703n;
const TEMPORARY = 0o20000000n;

export interface How {
  readonly flags: bigint;
  readonly mode: bigint;
  readonly resolve: number;
}

/** A `struct open_how` of which nothing is unknown. */
export function howAt(context: CallContext, address: Address, size: bigint): How | Errno {
  if (size < HOW_BYTES) return 'EINVAL';
  if (size > PAGE) return 'E2BIG';
  const bytes = context.load(address, Number(size));
  if (!bytes) return 'EFAULT';
  if (bytes.subarray(Number(HOW_BYTES)).some((each) => each !== 0)) return 'E2BIG';
  const [flags, mode, wanted] = [0n, 8n, 16n].map((at) => context.loadNumber(address + at, 8)!) as [
    bigint,
    bigint,
    bigint,
  ];
  if ((flags & ~KNOWN_FLAGS) !== 0n || wanted > BigInt(RESOLVE.ALL)) return 'EINVAL';
  const resolve = Number(wanted);
  const makes = (flags & (BigInt(O.CREAT) | TEMPORARY)) !== 0n;
  if (mode > 0o7777n || (!makes && mode !== 0n)) return 'EINVAL';
  const both = RESOLVE.BENEATH | RESOLVE.IN_ROOT;
  if ((resolve & both) === both) return 'EINVAL';
  const { directory, noFollow, largeFile } = context.model.openFlags;
  const ofPlaces = BigInt(O.PATH | O.CLOEXEC) | directory | noFollow | largeFile;
  if ((flags & BigInt(O.PATH)) !== 0n && (flags & ~ofPlaces) !== 0n) return 'EINVAL';
  if ((resolve & RESOLVE.CACHED) !== 0 && (makes || (flags & BigInt(O.TRUNC)) !== 0n)) return 'EAGAIN';
  return { flags, mode, resolve };
}

/** What a way is, while it is gone. */
class Way {
  private here: string;
  private links = 0;

  constructor(
    private readonly context: CallContext,
    private readonly paths: GuestPaths,
    private readonly base: string,
    private readonly resolve: number,
  ) {
    this.here = base;
  }

  private has(flag: number): boolean {
    return (this.resolve & flag) !== 0;
  }

  /** Goes back to the root. */
  private atRoot(): Errno | null {
    if (this.has(RESOLVE.BENEATH)) return 'EXDEV';
    const from = this.here;
    this.here = this.has(RESOLVE.IN_ROOT) ? this.base : '/';
    return this.crossed(from);
  }

  private up(): Errno | null {
    if (this.here === this.base && this.has(RESOLVE.BENEATH)) return 'EXDEV';
    if (this.here === this.base && this.has(RESOLVE.IN_ROOT)) return null;
    const from = this.here;
    this.here = parentPath(this.here);
    return this.crossed(from);
  }

  /** The file systems beside the tree are those of `/proc` and `/dev/pts`. */
  private crossed(from: string): Errno | null {
    const systemOf = (path: string): string => /^\/(proc|dev\/pts)(?=\/|$)/.exec(path)?.[0] ?? '/';
    return this.has(RESOLVE.NO_XDEV) && systemOf(from) !== systemOf(this.here) ? 'EXDEV' : null;
  }

  go(text: string, follow: boolean): { readonly path: string } | Errno {
    const left = namesOf(text);
    const wrong = text.startsWith('/') ? this.atRoot() : null;
    if (wrong !== null) return wrong;
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const refusal = name === '..' ? this.up() : this.enter(name, left, follow || left.length > 0);
      if (refusal !== null) return refusal;
    }
    return { path: this.here };
  }

  /** Goes to a name; what a link says is put in front of the names that are left. */
  private enter(name: string, left: string[], follow: boolean): Errno | null {
    const next = joinPath(this.here, name);
    const place = this.paths.placeOf(next, false);
    if (typeof place === 'string') return place;
    const link = !follow ? 'EINVAL' : this.linkAt(next, place);
    if (typeof link === 'object') {
      if (this.has(RESOLVE.NO_SYMLINKS) || ++this.links > LINKS_MOST) return 'ELOOP';
      left.unshift(...namesOf(link.text));
      return link.text.startsWith('/') ? this.atRoot() : null;
    }
    // What is not there yet may be made, at the end of the way.
    if (link !== 'EINVAL' && (link !== 'ENOENT' || left.length > 0)) return link;
    const from = this.here;
    this.here = next;
    if (left.length > 0) {
      const status = this.paths.status(next, true);
      if (typeof status === 'string') return status;
      if (status.kind !== 'directory') return 'ENOTDIR';
    }
    return this.crossed(from);
  }

  private linkAt(
    path: string,
    place: Exclude<ReturnType<GuestPaths['placeOf']>, string>,
  ): { readonly text: string } | Errno {
    if (place.kind === 'tree') return this.context.files.readLink(path);
    if (place.kind !== 'proc') return 'EINVAL';
    const { file } = place;
    // Of the caller's own folder: names as others are.
    if (file.kind === 'link' && !file.text.startsWith('/')) return file;
    const isLink = file.kind === 'link' || file.kind === 'descriptor';
    // What such a link leads to is no way of names.
    const jumps = RESOLVE.NO_MAGICLINKS | RESOLVE.NO_SYMLINKS;
    if (isLink && (this.resolve & jumps) !== 0) return 'ELOOP';
    return isLink && (this.resolve & (RESOLVE.BENEATH | RESOLVE.IN_ROOT)) !== 0 ? 'EXDEV' : 'EINVAL';
  }
}

const namesOf = (path: string): string[] => path.split('/').filter((each) => each !== '' && each !== '.');

/** The path that the text at `address` means from a directory. */
export function keptPath(
  context: CallContext,
  paths: GuestPaths,
  way: { readonly from: number; readonly address: Address; readonly resolve: number; readonly follow: boolean },
): { readonly path: string } | Errno {
  const found = paths.textAt(way.address);
  if (typeof found === 'string') return found;
  if (found.text === '') return 'ENOENT';
  const isInRoot = (way.resolve & RESOLVE.IN_ROOT) !== 0;
  const base = found.text.startsWith('/') && !isInRoot ? { path: '/' } : paths.baseOf(way.from);
  if (typeof base === 'string') return base;
  const real = way.from === AT_FDCWD || found.text.startsWith('/') ? base.path : context.realPath(base.path);
  return new Way(context, paths, real, way.resolve).go(found.text, way.follow);
}
