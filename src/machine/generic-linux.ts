/**
 * What the younger ports of Linux share (arm64, RISC-V, LoongArch): the numbers of the system calls
 * and the layout of `struct stat`.
 *
 * Source: Linux asm-generic/unistd.h and asm-generic/stat.h; the offsets were measured with
 * offsetof on both.
 */
import type { IpcLayout, SocketOptions, StatLayout } from './emulation.js';

/** In Linux 6.1; those that it answers with ENOSYS itself are left out. A port adds its own. */
export const GENERIC_CALLS = `
  0 io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr
  11 listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2
  20 epoll_create1 epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl
  30 ioprio_set ioprio_get flock mknodat mkdirat unlinkat symlinkat linkat - umount2 mount pivot_root - statfs fstatfs
  45 truncate ftruncate fallocate faccessat chdir fchdir chroot fchmod fchmodat fchownat fchown openat close vhangup
  59 pipe2 quotactl getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev sendfile pselect6 ppoll
  74 signalfd4 vmsplice splice tee readlinkat newfstatat fstat sync fsync fdatasync sync_file_range timerfd_create
  86 timerfd_settime timerfd_gettime utimensat acct capget capset personality exit exit_group waitid set_tid_address
  97 unshare futex set_robust_list get_robust_list nanosleep getitimer setitimer kexec_load init_module delete_module
  107 timer_create timer_gettime timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres
  115 clock_nanosleep syslog ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam
  122 sched_setaffinity sched_getaffinity sched_yield sched_get_priority_max sched_get_priority_min
  127 sched_rr_get_interval restart_syscall kill tkill tgkill sigaltstack rt_sigsuspend rt_sigaction rt_sigprocmask
  136 rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn setpriority getpriority reboot setregid setgid
  145 setreuid setuid setresuid getresuid setresgid getresgid setfsuid setfsgid times setpgid getpgid getsid setsid
  158 getgroups setgroups uname sethostname setdomainname getrlimit setrlimit getrusage umask prctl getcpu
  169 gettimeofday settimeofday adjtimex getpid getppid getuid geteuid getgid getegid gettid sysinfo mq_open mq_unlink
  182 mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgctl msgrcv msgsnd semget semctl semtimedop semop
  194 shmget shmctl shmat shmdt socket socketpair bind listen accept connect getsockname getpeername sendto recvfrom
  208 setsockopt getsockopt shutdown sendmsg recvmsg readahead brk munmap mremap add_key request_key keyctl clone
  221 execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock mlockall munlockall mincore madvise
  234 remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages rt_tgsigqueueinfo perf_event_open
  242 accept4 recvmmsg
  260 wait4 prlimit64 fanotify_init fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs setns
  269 sendmmsg process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp
  278 getrandom memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
  289 pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load
  424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount
  433 fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr
  443 quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease
  449 futex_waitv set_mempolicy_home_node
`;

export const GENERIC_STAT: StatLayout = {
  sizeBytes: 128,
  fields: {
    dev: [0, 8], ino: [8, 8], mode: [16, 4], nlink: [20, 4], uid: [24, 4], gid: [28, 4], rdev: [32, 8], size: [48, 8],
    blksize: [56, 4], blocks: [64, 8], atime: [72, 8], mtime: [88, 8], ctime: [104, 8],
  }, // prettier-ignore
};

/** Source: Linux asm-generic/ipcbuf.h, shmbuf.h, sembuf.h, msgbuf.h with words of 8 bytes. */
export const GENERIC_IPC: IpcLayout = {
  sequenceBytes: 2,
  shm: { size: 48, attached: 56, detached: 64, changed: 72, maker: 80, last: 84, count: 88, bytes: 112 },
  sem: { operated: 48, changed: 56, count: 64, bytes: 88 },
  msg: {
    sent: 48, received: 56, changed: 64, size: 72, count: 80, most: 88, sender: 96, receiver: 100, bytes: 120,
  }, // prettier-ignore
};

/** Source: Linux asm-generic/socket.h; x86 has the same. */
export const GENERIC_SOCKET_OPTIONS: SocketOptions = {
  passCredentials: 16,
  peerCredentials: 17,
  receiveLeast: 18,
  receiveTime: 20,
  sendTime: 21,
};
