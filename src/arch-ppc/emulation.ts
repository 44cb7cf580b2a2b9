/**
 * How programs of the PowerPC targets run: the front end for each size and byte order, the state at
 * process start, and the numbers of the system calls.
 */
import { CACHE_LINE_BYTES, createPpcLifter } from './lift.js';
import type { PpcDecode } from './lift.js';
import { createPpcSignals } from './signals.js';
import { callNumbers } from '../machine/calls.js';
import type { Cpu, IpcLayout, IrEmulation, SocketOptions, StatLayout } from '../machine/emulation.js';
import { GENERIC_IPC } from '../machine/generic-linux.js';
import type { TerminalModel } from '../machine/terminals.js';
import type { Endian } from '../units.js';
import { ppcProof } from './proof.js';

/**
 * Numbers that both sizes share. Source: Linux 6.1, arch/powerpc system call table; those that it
 * answers with ENOSYS itself on both sizes are left out.
 */
const CALLS = `
  0 restart_syscall exit fork read write open close waitpid creat link unlink execve chdir time mknod chmod lchown
  18 oldstat lseek getpid mount umount setuid getuid stime ptrace alarm oldfstat pause utime - - access nice - sync
  37 kill rename mkdir rmdir dup pipe times - brk setgid getgid signal geteuid getegid acct umount2 - ioctl fcntl
  57 setpgid - oldolduname umask chroot ustat dup2 getppid getpgrp setsid sigaction sgetmask ssetmask setreuid
  71 setregid sigsuspend sigpending sethostname setrlimit getrlimit getrusage gettimeofday settimeofday getgroups
  81 setgroups select symlink oldlstat readlink uselib swapon reboot readdir mmap munmap truncate ftruncate fchmod
  95 fchown getpriority setpriority - statfs fstatfs - socketcall syslog setitimer getitimer stat lstat fstat olduname
  111 vhangup - - wait4 swapoff sysinfo ipc fsync sigreturn clone setdomainname uname modify_ldt adjtimex mprotect
  126 sigprocmask - init_module delete_module - quotactl getpgid fchdir bdflush sysfs personality - setfsuid setfsgid
  140 _llseek getdents _newselect flock msync readv writev getsid fdatasync - mlock munlock mlockall munlockall
  154 sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_yield sched_get_priority_max
  160 sched_get_priority_min sched_rr_get_interval nanosleep mremap setresuid getresuid - poll - setresgid getresgid
  171 prctl rt_sigreturn rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend
  179 pread64 pwrite64 chown getcwd capget capset sigaltstack sendfile - - vfork ugetrlimit readahead
  198 pciconfig_read pciconfig_write pciconfig_iobase multiplexer getdents64 pivot_root - madvise mincore gettid
  208 tkill setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr
  219 lremovexattr fremovexattr futex sched_setaffinity sched_getaffinity
  227 io_setup io_destroy io_getevents io_submit io_cancel set_tid_address fadvise64 exit_group lookup_dcookie
  236 epoll_create epoll_ctl epoll_wait remap_file_pages timer_create timer_settime timer_gettime timer_getoverrun
  244 timer_delete clock_settime clock_gettime clock_getres clock_nanosleep swapcontext tgkill utimes statfs64
  253 fstatfs64 - rtas sys_debug_setcontext - migrate_pages mbind get_mempolicy set_mempolicy mq_open mq_unlink
  264 mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load add_key request_key keyctl waitid ioprio_set
  274 ioprio_get inotify_init inotify_add_watch inotify_rm_watch spu_run spu_create pselect6 ppoll unshare splice
  284 tee vmsplice openat mkdirat mknodat fchownat futimesat - unlinkat renameat linkat symlinkat readlinkat fchmodat
  298 faccessat get_robust_list set_robust_list move_pages getcpu epoll_pwait utimensat signalfd timerfd_create
  307 eventfd sync_file_range2 fallocate subpage_prot timerfd_settime timerfd_gettime signalfd4 eventfd2 epoll_create1
  316 dup3 pipe2 inotify_init1 perf_event_open preadv pwritev rt_tgsigqueueinfo fanotify_init fanotify_mark prlimit64
  326 socket bind connect listen accept getsockname getpeername socketpair send sendto recv recvfrom shutdown
  339 setsockopt getsockopt sendmsg recvmsg recvmmsg accept4 name_to_handle_at open_by_handle_at clock_adjtime syncfs
  349 sendmmsg setns process_vm_readv process_vm_writev finit_module kcmp sched_setattr sched_getattr renameat2
  358 seccomp getrandom memfd_create bpf execveat switch_endian userfaultfd membarrier
  378 mlock2 copy_file_range preadv2 pwritev2 kexec_file_load statx pkey_alloc pkey_free pkey_mprotect rseq
  388 io_pgetevents
  393 semget semctl shmget shmctl shmat shmdt msgget msgsnd msgrcv msgctl
  424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount
  433 fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr
  443 quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self - process_mrelease futex_waitv
  450 set_mempolicy_home_node
`;

/** Source: Linux arch/powerpc/include/uapi/asm/termbits.h. */
const TERMINAL: TerminalModel = {
  input: {
    ISTRIP: 0x20, INLCR: 0x40, IGNCR: 0x80, ICRNL: 0x100, IXON: 0x200, IXANY: 0x800, IUCLC: 0x1000,
    IMAXBEL: 0x2000, IUTF8: 0x4000,
  },
  output: { OPOST: 1, ONLCR: 2, OLCUC: 4, OCRNL: 8, ONOCR: 0x10, ONLRET: 0x20, XTABS: 0xc00 },
  control: { CSIZE: 0x300, CS8: 0x300, CREAD: 0x800, PARENB: 0x1000, B38400: 0xf },
  local: {
    ECHOKE: 1, ECHOE: 2, ECHOK: 4, ECHO: 8, ECHONL: 0x10, ECHOCTL: 0x40, ISIG: 0x80, ICANON: 0x100,
    IEXTEN: 0x400, TOSTOP: 0x40_0000, NOFLSH: 0x8000_0000,
  },
  characters: {
    VINTR: 0, VQUIT: 1, VERASE: 2, VKILL: 3, VEOF: 4, VMIN: 5, VEOL: 6, VTIME: 7, VEOL2: 8,
    VWERASE: 10, VREPRINT: 11, VSUSP: 12, VSTART: 13, VSTOP: 14,
    VLNEXT: 15, VDISCARD: 16,
  },
  lineAt: 35,
  charactersAt: 16,
  speedAt: 36,
  hasSpeed: true,
}; // prettier-ignore

/** Source: Linux, uapi/asm/socket.h of PowerPC. */
const SOCKET_OPTIONS: SocketOptions = {
  passCredentials: 20,
  peerCredentials: 21,
  receiveLeast: 16,
  receiveTime: 18,
  sendTime: 19,
};

/** Source: Linux, uapi/asm/ipcbuf.h, shmbuf.h, sembuf.h, msgbuf.h of PowerPC. */
const IPC: Readonly<Record<4 | 8, IpcLayout>> = {
  8: {
    ...GENERIC_IPC,
    sequenceBytes: 4,
    shm: { attached: 48, detached: 56, changed: 64, size: 72, maker: 80, last: 84, count: 88, bytes: 112 },
  },
  // High halves of times stand in front of them.
  4: {
    sequenceBytes: 4,
    shm: { attached: 52, detached: 60, changed: 68, size: 76, maker: 80, last: 84, count: 88, bytes: 104 },
    sem: { operated: 52, changed: 60, count: 64, bytes: 80 },
    msg: {
      sent: 52, received: 60, changed: 68, size: 72, count: 76, most: 80, sender: 84, receiver: 88,
      bytes: 104,
    }, // prettier-ignore
  },
};

/** Those of one size only. */
const OWN_CALLS = {
  4: `
  192 mmap2 truncate64 ftruncate64 stat64 lstat64 fstat64
  204 fcntl64
  226 sendfile64
  254 fadvise64_64
  291 fstatat64
  403 clock_gettime64 clock_settime64 clock_adjtime64 clock_getres_time64 clock_nanosleep_time64 timer_gettime64
  409 timer_settime64 timerfd_gettime64 timerfd_settime64 utimensat_time64 pselect6_time64 ppoll_time64
  416 io_pgetevents_time64 recvmmsg_time64 mq_timedsend_time64 mq_timedreceive_time64 semtimedop_time64
  421 rt_sigtimedwait_time64 futex_time64 sched_rr_get_interval_time64
`,
  8: `
  291 newfstatat
  392 semtimedop
`,
} as const;

const calls = new Map<4 | 8, ReadonlyMap<number, string>>();

function callsOf(wordBytes: 4 | 8): ReadonlyMap<number, string> {
  const known = calls.get(wordBytes) ?? callNumbers(CALLS, OWN_CALLS[wordBytes]);
  calls.set(wordBytes, known);
  return known;
}

/** Source: Linux asm/stat.h of powerpc, measured with offsetof. */
const STAT_64: StatLayout = {
  sizeBytes: 144,
  fields: {
    dev: [0, 8], ino: [8, 8], nlink: [16, 8], mode: [24, 4], uid: [28, 4], gid: [32, 4], rdev: [40, 8], size: [48, 8],
    blksize: [56, 8], blocks: [64, 8], atime: [72, 8], mtime: [88, 8], ctime: [104, 8],
  }, // prettier-ignore
};
const STAT_32: StatLayout = {
  sizeBytes: 72,
  fields: {
    dev: [0, 4], ino: [4, 4], mode: [8, 4], nlink: [12, 2], uid: [16, 4], gid: [20, 4], rdev: [24, 4], size: [28, 4],
    blksize: [32, 4], blocks: [36, 4], atime: [40, 4], mtime: [48, 4], ctime: [56, 4],
  }, // prettier-ignore
};
/** `struct stat64` of 32 bits. */
const STAT64_32: StatLayout = {
  sizeBytes: 104,
  fields: {
    dev: [0, 8], ino: [8, 8], mode: [16, 4], nlink: [20, 4], uid: [24, 4], gid: [28, 4], rdev: [32, 8], size: [48, 8],
    blksize: [56, 4], blocks: [64, 8], atime: [72, 4], mtime: [80, 4], ctime: [88, 4],
  }, // prettier-ignore
};

/**
 * What is executed: of 32 bits floating point and VMX (7450), of 64 bits POWER8 with VSX, without
 * decimal floating point, transactions and event-based branches. Source: Linux asm/cputable.h.
 */
const FEATURE = {
  is32: 0x8000_0000n, is64: 0x4000_0000n, vmx: 0x1000_0000n, floats: 0x0800_0000n, isa206: 0x100n, vsx: 0x80n,
} as const; // prettier-ignore
/** With POWER9's numbers of quad precision; without its random numbers, which repeat here. */
const POWER9 = 0x0080_0000n | 0x0040_0000n;
const FEATURE2 = { isa207: 0x8000_0000n, isel: 0x0800_0000n, tar: 0x0400_0000n, cryptography: 0x0200_0000n } as const;
const sum = (features: readonly bigint[]): bigint => features.reduce((all, each) => all | each, 0n);
const HWCAP = { 4: FEATURE.is32 | FEATURE.vmx | FEATURE.floats, 8: sum(Object.values(FEATURE)) } as const;
const HWCAP2 = { 4: 0n, 8: sum(Object.values(FEATURE2)) } as const;

export interface PpcEmulationOptions {
  readonly wordBytes: 4 | 8;
  readonly endian: Endian;
  readonly abi: 'sysv' | 'elfv1' | 'elfv2';
  readonly decode: PpcDecode;
}

/** The emulation member of a PowerPC `Arch`. */
export function createPpcEmulation(options: PpcEmulationOptions): IrEmulation {
  const { wordBytes, abi, endian, decode } = options;
  const base: IrEmulation = {
    kind: 'ir',
    lifter: createPpcLifter(wordBytes === 8 ? 'power8' : 'ppc32', endian, decode),
    proof: ppcProof(abi),
    ...(wordBytes === 8 ? { cpus: processors(() => base, options) } : {}),
    process: {
      // ELFv1: e_entry is a descriptor. ELFv2: r12 = entry, which the entry code may use to find
      // its TOC.
      entry:
        abi === 'elfv1'
          ? { kind: 'descriptor', toc: 'r2' }
          : { kind: 'code', register: abi === 'elfv2' ? 'r12' : null },
      hwcap: HWCAP[wordBytes],
      hwcap2: HWCAP2[wordBytes],
      platform: wordBytes === 8 ? 'power8' : 'ppc7450',
      hasBasePlatform: true,
      cacheLineBytes: CACHE_LINE_BYTES[wordBytes === 8 ? 64 : 32],
      // 64 TiB of 64-bit kernels with hash page tables; 3 GiB.
      userEnd: wordBytes === 8 ? 0x4000_0000_0000n : 0xc000_0000n,
      stackTop: wordBytes === 8 ? 0x3fff_ffff_0000n : 0xbfff_0000n,
      get syscalls() {
        return callsOf(wordBytes);
      },
      machineName: wordBytes === 4 ? 'ppc' : options.endian === 'little' ? 'ppc64le' : 'ppc64',
      kernelCode: null,
      sigactionRestorer: true,
      threads: { pointer: wordBytes === 8 ? 'r13' : 'r2', cloneTls: 3 },
      signals: createPpcSignals(options),
      guard: null,
      stat: wordBytes === 4 ? { plain: STAT_32, large: STAT64_32 } : { plain: STAT_64, large: STAT_64 },
      // They differ from asm-generic's.
      openFlags: { directory: 0o40000n, noFollow: 0o100000n, largeFile: 0o200000n },
      socketOptions: SOCKET_OPTIONS,
      terminal: TERMINAL,
      ipc: IPC[wordBytes],
      packedEvents: false,
      frames: { kind: 'back-chain', linkOffset: wordBytes === 4 ? 4 : 16 },
      anchors: new Map(wordBytes === 4 ? [['r13', '_SDA_BASE_']] : []),
    },
  };
  return base;
}

/** Vectors up to POWER8, which is what there is without a choice, or those of POWER9. */
function processors(base: () => IrEmulation, { endian, decode }: PpcEmulationOptions): readonly Cpu[] {
  return [
    { name: 'power8', title: 'with VSX and cryptography', emulation: base },
    {
      name: 'power9',
      title: 'with the vectors and numbers of ISA 3.0, too',
      emulation: () => ({
        ...base(),
        lifter: createPpcLifter('power9', endian, decode),
        process: { ...base().process, hwcap2: HWCAP2[8] | POWER9, platform: 'power9' },
      }),
    },
  ];
}
