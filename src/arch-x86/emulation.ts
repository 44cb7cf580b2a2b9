/**
 * How programs of x86-64 run: the front end, the state at process start, and the numbers of the
 * system calls.
 */
import { x86LandingPads } from './landing-pads.js';
import { x86Lifter, x86LifterOf } from './lift.js';
import { x86Signals, x86SignalsOf } from './signals.js';
import { callNumbers } from '../machine/calls.js';
import type { IrEmulation, StatLayout } from '../machine/emulation.js';
import { GENERIC_IPC, GENERIC_SOCKET_OPTIONS } from '../machine/generic-linux.js';
import type { Address } from '../units.js';
import { x86Proof } from './proof.js';

/**
 * Source: Linux 6.1, arch/x86 system call table, 64 bits; those that it answers with ENOSYS itself
 * are left out.
 */
const CALLS = `
  0 read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
  15 rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise
  29 shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept
  44 sendto recvfrom sendmsg recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt
  56 clone fork vfork execve exit wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock
  74 fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink
  89 readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid
  103 syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups
  117 setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset rt_sigpending
  128 rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod - personality ustat statfs fstatfs sysfs
  140 getpriority setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler
  146 sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup
  154 modify_ldt pivot_root - prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount2 swapon
  168 swapoff reboot sethostname setdomainname iopl ioperm - init_module delete_module - - quotactl
  186 gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
  197 removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity sched_getaffinity - io_setup io_destroy
  208 io_getevents io_submit io_cancel - lookup_dcookie epoll_create - - remap_file_pages getdents64 set_tid_address
  219 restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime timer_getoverrun timer_delete
  227 clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes - mbind
  238 set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load
  247 waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch
  256 migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat
  268 fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice tee sync_file_range vmsplice
  279 move_pages utimensat epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime
  288 accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo
  298 perf_event_open recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime
  306 syncfs sendmmsg setns getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr
  316 renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2
  326 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq
  424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount
  433 fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr
  443 quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease
  449 futex_waitv set_mempolicy_home_node
`;

let calls: ReadonlyMap<number, string> | undefined;

/** Source: Linux asm/stat.h of x86, measured with offsetof. */
const STAT: StatLayout = {
  sizeBytes: 144,
  fields: {
    dev: [0, 8], ino: [8, 8], nlink: [16, 8], mode: [24, 4], uid: [28, 4], gid: [32, 4], rdev: [40, 8], size: [48, 8],
    blksize: [56, 8], blocks: [64, 8], atime: [72, 8], mtime: [88, 8], ctime: [104, 8],
  }, // prettier-ignore
};

/**
 * The call that ends where `before` ends, which is at `address`: its target, `indirect`, or null
 * where there is none. Lengths of the indirect forms follow from ModRM and SIB.
 */
function callBefore(before: Uint8Array, address: Address): Address | 'indirect' | null {
  const at = (back: number): number => before[before.length - back] ?? 0;
  if (before.length >= 5 && at(5) === 0xe8) {
    const displacement = new DataView(before.buffer, before.byteOffset + before.length - 4, 4).getInt32(0, true);
    return BigInt.asUintN(64, address + BigInt(displacement));
  }
  for (let size = 2; size <= Math.min(7, before.length); size++) {
    if (at(size) !== 0xff) continue;
    const modRm = at(size - 1);
    if (((modRm >> 3) & 7) !== 2) continue;
    const mod = modRm >> 6;
    const hasSib = mod !== 3 && (modRm & 7) === 4;
    let needed = 2 + (hasSib ? 1 : 0) + (mod === 1 ? 1 : mod === 2 ? 4 : 0);
    if (mod === 0 && ((modRm & 7) === 5 || (hasSib && size > 2 && (at(size - 2) & 7) === 5))) needed += 4;
    if (needed === size) return 'indirect';
  }
  return null;
}

const LEVEL_2 = 'x86-64-v2';
const LEVEL_3 = 'x86-64-v3';
/** Bytes of a signal frame with the state of `xsave`, as Linux counts them: with one of 32 bits. */
const FRAME_BYTES = 1776n;

/** The emulation member of the x86-64 `Arch`. */
export const x86Emulation: IrEmulation = {
  kind: 'ir',
  lifter: x86Lifter,
  proof: x86Proof,
  cpus: [
    { name: 'x86-64', title: 'SSE2', emulation: () => x86Emulation },
    {
      name: LEVEL_2,
      title: 'with SSE3, SSSE3, SSE4.1 and SSE4.2',
      emulation: () => ({ ...x86Emulation, lifter: x86LifterOf(LEVEL_2) }),
    },
    {
      name: LEVEL_3,
      title: 'with that, AVX, AVX2, FMA and F16C',
      emulation: () => ({
        ...x86Emulation,
        lifter: x86LifterOf(LEVEL_3),
        process: { ...x86Emulation.process, signals: x86SignalsOf(true), signalFrameBytes: FRAME_BYTES },
      }),
    },
  ],
  process: {
    entry: { kind: 'code', register: null },
    // AT_HWCAP is edx of cpuid leaf 1; AT_HWCAP2 bit 1 is FSGSBASE.
    hwcap: 0x0788_8131n,
    hwcap2: 2n,
    platform: 'x86_64',
    // There is no such entry on x86: caches are coherent.
    cacheLineBytes: 0,
    // One page less than half of 48 bits.
    userEnd: 0x7fff_ffff_f000n,
    stackTop: 0x7fff_ffff_f000n,
    get syscalls() {
      return (calls ??= callNumbers(CALLS));
    },
    machineName: 'x86_64',
    sigactionRestorer: true,
    threads: { pointer: 'fs_base', cloneTls: 4 },
    signals: x86Signals,
    guard: { protection: 0n, propertyType: x86LandingPads.propertyType, propertyBit: x86LandingPads.propertyBit },
    // The vsyscall page.
    kernelCode: [0xffff_ffff_ff60_0000n, 0xffff_ffff_ff60_1000n],
    stat: { plain: STAT, large: STAT },
    openFlags: { directory: 0o200000n, noFollow: 0o400000n, largeFile: 0o100000n },
    socketOptions: GENERIC_SOCKET_OPTIONS,
    // Times have a word of padding behind them.
    ipc: { ...GENERIC_IPC, sem: { operated: 48, changed: 64, count: 80, bytes: 104 } },
    packedEvents: true,
    frames: { kind: 'scan', callBefore },
    anchors: new Map(),
  },
};
