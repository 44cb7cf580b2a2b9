/**
 * System calls that watch files: what processes of the run do to them is told. Who else changes the
 * files of a tree is not seen.
 *
 * Source: Linux, inotify(7), inotify_init(2), inotify_add_watch(2).
 */
import { type Answer, arg, type Arguments, type CallContext, int, type Service } from './call-context.js';
import { O } from './descriptions.js';
import type { Errno } from './errno.js';
import { isSpecial } from './files.js';
import { AT_FDCWD, AT_SYMLINK_NOFOLLOW, type GuestPaths } from './guest-paths.js';
import { WATCH, WatchDescription } from './watch-description.js';

export type WatchCallName = 'inotify_add_watch' | 'inotify_init' | 'inotify_init1' | 'inotify_rm_watch';

/** `fs.inotify.max_user_instances`. */
const WATCHERS_MOST = 128;
const KNOWN =
  WATCH.EVENTS |
  WATCH.ONLYDIR |
  WATCH.DONT_FOLLOW |
  WATCH.EXCL_UNLINK |
  WATCH.MASK_CREATE |
  WATCH.MASK_ADD |
  WATCH.ONESHOT;
/** Told whether asked for or not, and may be named. */
const NAMED = 0x2000 | 0x4000 | 0x8000 | 0x4000_0000;

export class WatchCalls implements Readonly<Record<WatchCallName, Service>> {
  constructor(
    private readonly context: CallContext,
    private readonly paths: GuestPaths,
  ) {}

  private begin(flags: number): Answer {
    const { context } = this;
    const { files } = context;
    if ((flags & ~(O.NONBLOCK | O.CLOEXEC)) !== 0) return 'EINVAL';
    if (files.watcherCount >= WATCHERS_MOST || !context.descriptors.hasRoom(1)) return 'EMFILE';
    const made = new WatchDescription(flags & O.NONBLOCK, context.nextInode(), context.endian, (each) => {
      files.removeWatcher(each);
    });
    files.addWatcher(made);
    return BigInt(context.descriptors.add(made, (flags & O.CLOEXEC) !== 0));
  }

  inotify_init(): Answer {
    return this.begin(0);
  }

  inotify_init1(args: Arguments): Answer {
    return this.begin(int(arg(args, 0)));
  }

  private watcherAt(number: number): WatchDescription | Errno {
    const description = this.context.descriptors.get(number);
    if (!description) return 'EBADF';
    return description instanceof WatchDescription ? description : 'EINVAL';
  }

  inotify_add_watch(args: Arguments): Answer {
    const mask = int(arg(args, 2));
    if ((mask & ~(KNOWN | NAMED)) !== 0 || (mask & (KNOWN | NAMED)) === 0) return 'EINVAL';
    const watcher = this.watcherAt(int(arg(args, 0)));
    if (watcher === 'EBADF') return watcher;
    if ((mask & WATCH.MASK_ADD) !== 0 && (mask & WATCH.MASK_CREATE) !== 0) return 'EINVAL';
    if (typeof watcher === 'string') return watcher;
    const status = this.paths.statusAt(
      AT_FDCWD,
      arg(args, 1),
      (mask & WATCH.DONT_FOLLOW) === 0 ? 0n : AT_SYMLINK_NOFOLLOW,
    );
    if (typeof status === 'string') {
      // A run without a tree: Linux has one.
      if (this.context.files.status('/', true) === 'ENOENT') this.context.deviate('watches');
      return status;
    }
    if ((mask & WATCH.ONLYDIR) !== 0 && status.kind !== 'directory') return 'ENOTDIR';
    if ((status.permissions & 0o400) === 0) return 'EACCES';
    // What is no file of the tree is read and written without being looked at.
    if (isSpecial(status)) this.context.deviate('watches');
    const number = watcher.add(status.inode, mask);
    return typeof number === 'number' ? BigInt(number) : number;
  }

  inotify_rm_watch(args: Arguments): Answer {
    const watcher = this.watcherAt(int(arg(args, 0)));
    return typeof watcher === 'string' ? watcher : (watcher.remove(int(arg(args, 1))) ?? 0n);
  }
}
