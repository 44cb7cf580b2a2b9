/**
 * System calls about what a process shares with others, sees of the system, and may mount: there is
 * one tree and one set of names for all, and no user has the right to make another.
 *
 * Source: Linux, unshare(2), setns(2), personality(2), chroot(2), mount(2), umount(2).
 */
import { type Answer, arg, type Arguments, int, type Service } from './call-context.js';
import type { Errno } from './errno.js';
import { AT_FDCWD, AT_SYMLINK_NOFOLLOW, type GuestPaths } from './guest-paths.js';
import type { KnownProcess } from './processes.js';
import type { Address } from '../units.js';

export type SharingCallName =
  | 'chroot' | 'interrupted' | 'mount' | 'personality'
  | 'setns' | 'umount' | 'umount2' | 'unshare'; // prettier-ignore

/** Flags of `unshare`. Source: Linux uapi/linux/sched.h. */
const CLONE = {
  VM: 0x100, FS: 0x200, FILES: 0x400, SIGHAND: 0x800, THREAD: 0x1_0000, SYSVSEM: 0x4_0000,
} as const; // prettier-ignore
/** Names of users, and other sets of names: times, mounts, groups, hosts, IPC, ids, networks. */
const NEW = {
  USER: 0x1000_0000,
  OTHERS: 0x80 | 0x2_0000 | 0x200_0000 | 0x400_0000 | 0x800_0000 | 0x2000_0000 | 0x4000_0000,
} as const;
const OWN = CLONE.VM | CLONE.FS | CLONE.FILES | CLONE.SIGHAND | CLONE.THREAD | CLONE.SYSVSEM;
/** What no thread has of its own. */
const OF_THREADS = CLONE.THREAD | CLONE.SIGHAND | CLONE.VM;
/** MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW. */
const UMOUNT = { ALL: 15, NOFOLLOW: 8 } as const;
/** Asks `personality` what is. */
const ASKS = 0xffff_ffffn;

export class SharingCalls implements Readonly<Record<SharingCallName, Service>> {
  constructor(
    private readonly context: KnownProcess,
    private readonly paths: GuestPaths,
  ) {}

  /** A process of one thread shares nothing that it could get a copy of. */
  unshare(args: Arguments): Answer {
    const { context } = this;
    const flags = int(arg(args, 0));
    if ((flags & ~(OWN | NEW.USER | NEW.OTHERS)) !== 0) return 'EINVAL';
    const isAlone = context.signals.threads.length === 1;
    if ((flags & OF_THREADS) !== 0 && !isAlone) return 'EINVAL';
    // As of a Linux without namespaces of users.
    if ((flags & NEW.USER) !== 0) return 'EINVAL';
    if ((flags & NEW.OTHERS) !== 0) return 'EPERM';
    if (flags !== 0 && !isAlone) {
      context.deviate('unshared');
      return 'EINVAL';
    }
    return 0n;
  }

  /** No descriptor leads to a set of names. */
  setns(args: Arguments): Answer {
    return this.context.descriptors.get(int(arg(args, 0))) ? 'EINVAL' : 'EBADF';
  }

  /** Kept and told; only the least significant byte would change what other calls tell. */
  personality(args: Arguments): Answer {
    const { standing } = this.context;
    const [before, wanted] = [standing.personality, BigInt.asUintN(32, arg(args, 0))];
    if (wanted === ASKS) return before;
    if ((wanted & 0xffn) !== 0n) this.context.deviate('personality');
    standing.personality = wanted;
    return before;
  }

  /** What may only be done to a place that is there, by a user with rights. */
  private refused(address: Address, flags = 0n): Errno {
    const status = this.paths.statusAt(AT_FDCWD, address, flags);
    return typeof status === 'string' ? status : 'EPERM';
  }

  chroot(args: Arguments): Answer {
    const status = this.paths.statusAt(AT_FDCWD, arg(args, 0), 0n);
    if (typeof status === 'string') return status;
    return status.kind === 'directory' ? 'EPERM' : 'ENOTDIR';
  }

  /** The name of what is mounted, its kind and its data are read before the place is looked for. */
  mount(args: Arguments): Answer {
    for (const i of [2, 0]) {
      if (arg(args, i) === 0n) continue;
      const text = this.paths.textAt(arg(args, i));
      if (typeof text === 'string') return text === 'ENAMETOOLONG' ? 'EINVAL' : text;
    }
    const data = arg(args, 4);
    if (data !== 0n && !this.context.usable(data, 1, 'read')) return 'EFAULT';
    return this.refused(arg(args, 1));
  }

  umount2(args: Arguments): Answer {
    const flags = int(arg(args, 1));
    if ((flags & ~UMOUNT.ALL) !== 0) return 'EINVAL';
    return this.refused(arg(args, 0), (flags & UMOUNT.NOFOLLOW) === 0 ? 0n : AT_SYMLINK_NOFOLLOW);
  }

  umount(args: Arguments): Answer {
    return this.refused(arg(args, 0));
  }

  /** No call waits to be made again. */
  interrupted(): Answer {
    return 'EINTR';
  }
}
