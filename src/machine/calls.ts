/**
 * The system calls of Linux and what is served of each: one row a call that is served, with the
 * conditions under which the emulator does not do as Linux does. Handlers say which condition they
 * met (`Guest.deviate`), and the list that users read is made from the same rows. A call without
 * a row is refused: it returns ENOSYS. Numbers are the target's (`ProcessModel.syscalls`).
 *
 * A condition is no condition where Linux may answer the same on some machine: there is one CPU of
 * 1 GHz, whose clock begins at a date that is given, user 1000, a memory of 1 GiB, descriptors 0 to
 * 2 are devices that are no terminals, and files are those that were given.
 */
import type { ProcessModel } from './emulation.js';

/** What the emulator does otherwise than Linux, by the name that handlers use. */
export const CONDITIONS = {
  partial: 'a buffer of which only a part may be accessed: EFAULT, where Linux transfers that part',
  limits: 'more memory than the emulator gives (--max-memory, at most 4 GiB): ENOMEM',
  'mapping-kind':
    'kinds of mappings beside private, shared, fixed, anonymous ones and hints about them: mapped without it',
  'behind-file': 'an access behind the end of a mapped file: signal 11, where Linux raises 7',
  protection: 'protection bits beside read, write, execute and those of guarded pages: left out',
  'keeps-contents': 'advice that discards or replaces memory that is not anonymous: it keeps its contents',
  'shared-twice':
    'what is mapped as shared twice in one process: a store shows in the other place when another process has run',
  remapping:
    'flags beside MREMAP_MAYMOVE, and mappings of files or shared ones that grow: EINVAL, or zeros behind the old end',
  'read-only': 'files cannot be written, made or changed without --write: EROFS',
  'rename-flags': 'flags beside RENAME_NOREPLACE: EINVAL',
  'hard-links': 'second names of a file that only a descriptor leads to: ENOENT',
  'file-times': 'times of pipes, sockets and devices: they stay',
  watches: 'watched files that are executed, mapped, or no files: not all events are told',
  nameless: 'a removed file that is opened for writing by a descriptor that only reads: EACCES',
  'path-descriptor': 'O_PATH of files of /proc: the descriptor is an ordinary one',
  holes: 'SEEK_DATA, SEEK_HOLE of memory without a place in the tree: all of it is data',
  'descriptor-commands': 'commands beside those of copies, flags, locks and sizes of pipes: EINVAL',
  'non-blocking': 'flags beside O_APPEND and O_NONBLOCK, and O_NONBLOCK of standard input: left out',
  packets: 'O_DIRECT: EINVAL',
  sockets: 'families beside AF_UNIX, AF_INET, AF_INET6 and NETLINK_ROUTE: EAFNOSUPPORT',
  netlink: 'requests beside those for interfaces and addresses: EOPNOTSUPP',
  messages: 'flags beside those of looking, waiting, cutting, signals and more to come: left out',
  'control-data':
    'control data beside descriptors, credentials and that of IP which tells how datagrams travel: EINVAL',
  queues: 'more than 64 MiB in all pipes and sockets together: ENOBUFS',
  'connect-queue': 'O_NONBLOCK with a full queue of connections: ETIMEDOUT at once',
  disconnect: 'AF_UNSPEC for a connection: left out',
  'socket-options': 'options beside the usual ones of sockets, IP and TCP: ENOPROTOOPT',
  'time-left': 'the time that is left when it ends: the argument keeps what it was',
  'epoll-flags': 'EPOLLEXCLUSIVE: left out',
  requests: 'requests beside those of terminals and of any descriptor: ENOTTY',
  'terminal-time': 'terminals without lines that limit the time of a read (VTIME): it waits for the bytes alone',
  'left-out': 'ENOSYS, as of a Linux that was built without it',
  'message-copies': 'MSG_COPY: EINVAL',
  'queue-threads': 'to be told by a thread (SIGEV_THREAD): EINVAL',
  'set-limit': 'lower limits of time and memory: told, and without effect',
  codes: 'codes beside those of fs and gs: EINVAL',
  'other-clocks': 'waiting for clocks of the CPU, and timers of those of others: EINVAL',
  'futex-priority': 'waiting that ends with a lock with priority inheritance (FUTEX_WAIT_REQUEUE_PI): ENOSYS',
  'clone-flags': 'flags beside those of ordinary threads, fork and vfork, and ids that are asked for: EINVAL or EPERM',
  'process-limit': 'more processes than --max-processes, or than there is memory for: EAGAIN',
  'other-programs': 'programs for other machines: ENOEXEC',
  'signal-owner': 'a descriptor of signals that another process made: it is told of the signals of that one',
  'huge-pages': 'MFD_HUGETLB: EINVAL',
  resident: 'pages of memory: each is told to be there',
  'process-codes': 'codes beside those of names, core dumps and rights: EINVAL',
  'thread-limit': 'more than 1024 threads: EAGAIN',
  unshared: 'CLONE_FS, CLONE_FILES, CLONE_SYSVSEM of a process with several threads: EINVAL',
  personality: 'personalities beside PER_LINUX: told, and without effect',
  'foreign-memory': 'memory that is mapped as shared: it may show what it held before',
  contexts: 'programs of 64 bits, whose C library does without it: ENOSYS',
  'input-ready': 'standard input: always ready, whether something is there or not',
} as const;

export type Condition = keyof typeof CONDITIONS;

/** The handlers: methods of `Guest` and of the classes beside it. */
export type ServiceName =
  | 'absent' | 'chroot' | 'interrupted' | 'ioprio_get' | 'ioprio_set' | 'mount' | 'personality'
  | 'process_vm_readv' | 'process_vm_writev' | 'setns' | 'umount' | 'umount2' | 'unshare' | 'accept'
  | 'accept4' | 'access' | 'adjtimex' | 'alarm' | 'arch_prctl' | 'bind' | 'brk' | 'capget'
  | 'capset' | 'chdir' | 'chmod' | 'chown' | 'clock_adjtime' | 'clock_getres' | 'clock_gettime'
  | 'clock_settime'
  | 'clock_nanosleep' | 'clone' | 'clone3' | 'close' | 'close_range' | 'connect' | 'copy_file_range'
  | 'creat' | 'dup' | 'dup2' | 'dup3' | 'epoll_create' | 'epoll_create1' | 'epoll_ctl'
  | 'epoll_pwait' | 'epoll_pwait2' | 'epoll_wait' | 'eventfd' | 'eventfd2' | 'execve' | 'execveat'
  | 'exit' | 'exit_group' | 'faccessat' | 'faccessat2' | 'fadvise' | 'fadvise_long' | 'fallocate' | 'fchdir'
  | 'fchmod' | 'fchmodat' | 'fchown' | 'fchownat' | 'fcntl' | 'flistxattr' | 'flock' | 'flush_icache' | 'fork'
  | 'fstat' | 'fstat64' | 'fstatfs' | 'fstatfs64' | 'fsync' | 'ftruncate' | 'ftruncate64' | 'futex'
  | 'futimesat' | 'get_robust_list' | 'getcpu' | 'getcwd' | 'getdents' | 'getdents64' | 'getgroups'
  | 'getitimer'
  | 'getpeername' | 'getpgid' | 'getpgrp' | 'getpid' | 'getppid' | 'getpriority' | 'getrandom'
  | 'getresuid' | 'getrlimit' | 'getrusage' | 'getsid' | 'getsockname' | 'getsockopt' | 'gettid'
  | 'gettimeofday' | 'getuid' | 'inotify_add_watch' | 'inotify_init' | 'inotify_init1'
  | 'inotify_rm_watch' | 'ioctl' | 'ipc' | 'kill' | 'lchown' | 'link' | 'linkat' | 'listen' | 'listxattr'
  | 'llistxattr'
  | 'llseek' | 'lseek' | 'lstat' | 'lstat64' | 'madvise' | 'membarrier' | 'memfd_create' | 'mincore'
  | 'mkdir' | 'mkdirat' | 'mknod' | 'mknodat' | 'mlock' | 'mlock2' | 'mlockall' | 'mmap' | 'mmap2'
  | 'mprotect' | 'mq_getsetattr' | 'mq_notify' | 'mq_open' | 'mq_timedreceive' | 'mq_timedsend'
  | 'mq_unlink' | 'mremap' | 'msgctl' | 'msgget' | 'msgrcv' | 'msgsnd' | 'msync' | 'munlock'
  | 'munlockall' | 'munmap' | 'nanosleep' | 'newfstatat' | 'nice' | 'no_attributes'
  | 'no_attributes_of' | 'no_attributes_of_link' | 'open' | 'openat' | 'openat2' | 'pause' | 'pidfd_getfd'
  | 'pidfd_open' | 'pidfd_send_signal' | 'pipe' | 'pipe2' | 'poll' | 'ppoll' | 'prctl'
  | 'privileged' | 'pread64' | 'preadv' | 'preadv2' | 'prlimit64' | 'pselect6' | 'pwrite64'
  | 'pwritev' | 'pwritev2' | 'read' | 'readahead' | 'readlink' | 'readlinkat' | 'readv' | 'recv'
  | 'recvfrom' | 'recvmmsg' | 'recvmsg' | 'rename' | 'renameat' | 'renameat2' | 'rmdir' | 'rseq'
  | 'rt_sigaction' | 'rt_sigpending' | 'rt_sigprocmask' | 'rt_sigqueueinfo' | 'rt_sigreturn'
  | 'rt_sigsuspend' | 'rt_sigtimedwait' | 'rt_tgsigqueueinfo' | 'sched_get_priority_max'
  | 'sched_get_priority_min' | 'sched_getaffinity' | 'sched_getattr' | 'sched_getparam'
  | 'sched_getscheduler' | 'sched_rr_get_interval' | 'sched_setaffinity' | 'sched_setattr'
  | 'sched_setparam' | 'sched_rr_get_interval' | 'sched_setscheduler' | 'sched_yield' | 'select'
  | 'semctl' | 'semget' | 'semop' | 'semtimedop' | 'send' | 'sendfile' | 'sendfile64' | 'sendmmsg'
  | 'sendmsg' | 'sendto' | 'set_robust_list' | 'set_tid_address' | 'setfsuid' | 'setgroups'
  | 'setitimer' | 'settimeofday' | 'setpgid' | 'setpriority' | 'setresuid' | 'setreuid'
  | 'setrlimit' | 'setsid' | 'setsockopt' | 'setuid' | 'shmat' | 'shmctl' | 'shmdt' | 'shmget'
  | 'shutdown' | 'sigaltstack' | 'signalfd' | 'signalfd4' | 'sigreturn' | 'splice' | 'socket'
  | 'socketpair' | 'stat' | 'stat64' | 'statfs' | 'statfs64' | 'statx' | 'symlink' | 'symlinkat'
  | 'swapcontext' | 'sync' | 'sync_file_range' | 'syncfs' | 'sysinfo' | 'tee' | 'tgkill' | 'time'
  | 'timer_create'
  | 'timer_delete' | 'timer_getoverrun' | 'timer_gettime' | 'timer_settime' | 'timerfd_create'
  | 'timerfd_gettime' | 'timerfd_settime' | 'times' | 'tkill' | 'truncate' | 'truncate64' | 'umask'
  | 'uname' | 'unlink' | 'unlinkat' | 'utime' | 'utimensat' | 'utimes' | 'vfork' | 'vmsplice'
  | 'wait4' | 'waitid' | 'waitpid' | 'write' | 'writev'; // prettier-ignore

export interface ServedCall {
  readonly by: ServiceName;
  /** Bytes of the words of its times, where it has a form with 8 on targets of 32 bits. */
  readonly wide: boolean;
  /** None: it is served in full. */
  readonly unless: readonly Condition[];
}

const row = (by: ServiceName, ...unless: readonly Condition[]): ServedCall => ({ by, wide: false, unless });
const wide = (by: ServiceName, ...unless: readonly Condition[]): ServedCall => ({ by, wide: true, unless });
const changing = (by: ServiceName, ...more: readonly Condition[]): ServedCall => row(by, 'read-only', ...more);

/** The system calls that are served, by their names in Linux. */
export const SERVED_CALLS: Readonly<Record<string, ServedCall>> = {
  // Descriptors and files.
  read: row('read', 'partial'),
  readv: row('readv', 'partial'),
  pread64: row('pread64', 'partial'),
  write: row('write', 'partial', 'queues', 'netlink'),
  writev: row('writev', 'partial', 'queues', 'netlink'),
  open: row('open', 'read-only', 'path-descriptor', 'nameless'),
  openat: row('openat', 'read-only', 'path-descriptor', 'nameless'),
  openat2: row('openat2', 'read-only', 'path-descriptor', 'nameless'),
  close: row('close'),
  lseek: row('lseek', 'holes'),
  _llseek: row('llseek', 'holes'),
  stat: row('stat'),
  lstat: row('lstat'),
  fstat: row('fstat'),
  stat64: row('stat64'),
  lstat64: row('lstat64'),
  fstat64: row('fstat64'),
  newfstatat: row('newfstatat'),
  fstatat64: row('newfstatat'),
  statx: row('statx'),
  access: row('access', 'read-only'),
  faccessat: row('faccessat', 'read-only'),
  faccessat2: row('faccessat2', 'read-only'),
  readlink: row('readlink'),
  readlinkat: row('readlinkat'),
  getdents: row('getdents'),
  getdents64: row('getdents64'),
  getcwd: row('getcwd'),
  fcntl: row('fcntl', 'descriptor-commands', 'non-blocking'),
  fcntl64: row('fcntl', 'descriptor-commands', 'non-blocking'),
  flock: row('flock'),
  ioctl: row('ioctl', 'requests', 'terminal-time'),
  chmod: changing('chmod'),
  creat: changing('creat'),
  fchmod: changing('fchmod'),
  fchmodat: changing('fchmodat'),
  fchown: changing('fchown'),
  fchownat: changing('fchownat'),
  ftruncate: row('ftruncate'),
  ftruncate64: row('ftruncate64'),
  link: changing('link', 'hard-links'),
  linkat: changing('linkat', 'hard-links'),
  mkdir: changing('mkdir'),
  mkdirat: changing('mkdirat'),
  mknod: changing('mknod'),
  mknodat: changing('mknodat'),
  rename: changing('rename'),
  renameat: changing('renameat'),
  renameat2: changing('renameat2', 'rename-flags'),
  rmdir: changing('rmdir'),
  symlink: changing('symlink'),
  symlinkat: changing('symlinkat'),
  truncate: changing('truncate'),
  truncate64: changing('truncate64'),
  unlink: changing('unlink'),
  unlinkat: changing('unlinkat'),
  utimensat: changing('utimensat', 'file-times'),
  utimensat_time64: wide('utimensat', 'read-only', 'file-times'),
  pwrite64: row('pwrite64', 'partial'),
  chdir: row('chdir'),
  fchdir: row('fchdir'),
  umask: row('umask'),
  statfs: row('statfs'),
  statfs64: row('statfs64'),
  fstatfs: row('fstatfs'),
  fstatfs64: row('fstatfs64'),
  getxattr: row('no_attributes'),
  lgetxattr: row('no_attributes_of_link'),
  listxattr: row('listxattr'),
  llistxattr: row('llistxattr'),
  setxattr: row('no_attributes'),
  lsetxattr: row('no_attributes_of_link'),
  removexattr: row('no_attributes'),
  lremovexattr: row('no_attributes_of_link'),
  fsetxattr: row('no_attributes_of'),
  fremovexattr: row('no_attributes_of'),
  fgetxattr: row('no_attributes_of'),
  flistxattr: row('flistxattr'),
  fadvise64: row('fadvise'),
  fadvise64_64: row('fadvise_long'),
  fsync: row('fsync'),
  fdatasync: row('fsync'),
  close_range: row('close_range'),
  sendfile: row('sendfile'),
  sendfile64: row('sendfile64'),
  copy_file_range: row('copy_file_range'),
  preadv: row('preadv', 'partial'),
  preadv2: row('preadv2', 'partial'),
  pwritev: row('pwritev', 'partial'),
  pwritev2: row('pwritev2', 'partial'),
  fallocate: row('fallocate'),
  readahead: row('readahead'),
  sync: row('sync'),
  syncfs: row('syncfs'),
  sync_file_range: row('sync_file_range'),
  sync_file_range2: row('sync_file_range'),
  chown: changing('chown'),
  lchown: changing('lchown'),
  utime: changing('utime', 'file-times'),
  utimes: changing('utimes', 'file-times'),
  futimesat: changing('futimesat', 'file-times'),
  inotify_init: row('inotify_init'),
  inotify_init1: row('inotify_init1'),
  inotify_add_watch: row('inotify_add_watch', 'watches'),
  inotify_rm_watch: row('inotify_rm_watch'),
  dup: row('dup'),
  dup2: row('dup2'),
  dup3: row('dup3'),
  // Pipes, sockets and events.
  pipe: row('pipe'),
  pipe2: row('pipe2', 'packets'),
  socketpair: row('socketpair', 'sockets'),
  socket: row('socket', 'sockets'),
  bind: row('bind', 'read-only'),
  listen: row('listen'),
  accept: row('accept'),
  accept4: row('accept4'),
  connect: row('connect', 'connect-queue', 'disconnect'),
  shutdown: row('shutdown'),
  send: row('send', 'partial', 'messages', 'queues', 'netlink'),
  recv: row('recv', 'partial', 'messages'),
  sendto: row('sendto', 'partial', 'messages', 'queues', 'netlink'),
  recvfrom: row('recvfrom', 'partial', 'messages'),
  sendmsg: row('sendmsg', 'partial', 'messages', 'control-data', 'queues', 'netlink'),
  recvmsg: row('recvmsg', 'partial', 'messages'),
  // Files that are read and written meanwhile, which memory is near, keys of memory, and what a
  // program denies itself: programs do without.
  io_setup: row('absent', 'left-out'),
  get_mempolicy: row('absent', 'left-out'),
  set_mempolicy: row('absent', 'left-out'),
  mbind: row('absent', 'left-out'),
  io_destroy: row('absent', 'left-out'),
  io_submit: row('absent', 'left-out'),
  io_cancel: row('absent', 'left-out'),
  io_getevents: row('absent', 'left-out'),
  io_pgetevents: row('absent', 'left-out'),
  io_pgetevents_time64: row('absent', 'left-out'),
  io_uring_setup: row('absent', 'left-out'),
  io_uring_enter: row('absent', 'left-out'),
  io_uring_register: row('absent', 'left-out'),
  seccomp: row('absent', 'left-out'),
  pkey_alloc: row('absent', 'left-out'),
  pkey_free: row('absent', 'left-out'),
  pkey_mprotect: row('absent', 'left-out'),
  landlock_create_ruleset: row('absent', 'left-out'),
  landlock_add_rule: row('absent', 'left-out'),
  landlock_restrict_self: row('absent', 'left-out'),
  // Keys of the kernel, files by handles and on quota, marks on whole file systems, what measures
  // or extends a kernel, memory that is hidden, moved or faulted by programs, ports, other
  // processors.
  kexec_file_load: row('absent', 'left-out'),
  add_key: row('absent', 'left-out'),
  keyctl: row('absent', 'left-out'),
  request_key: row('absent', 'left-out'),
  bpf: row('absent', 'left-out'),
  fanotify_init: row('absent', 'left-out'),
  fanotify_mark: row('absent', 'left-out'),
  userfaultfd: row('absent', 'left-out'),
  kcmp: row('absent', 'left-out'),
  memfd_secret: row('absent', 'left-out'),
  modify_ldt: row('absent', 'left-out'),
  perf_event_open: row('absent', 'left-out'),
  quotactl: row('absent', 'left-out'),
  quotactl_fd: row('absent', 'left-out'),
  migrate_pages: row('absent', 'left-out'),
  move_pages: row('absent', 'left-out'),
  name_to_handle_at: row('absent', 'left-out'),
  open_by_handle_at: row('absent', 'left-out'),
  lookup_dcookie: row('absent', 'left-out'),
  sysfs: row('absent', 'left-out'),
  uselib: row('absent', 'left-out'),
  spu_create: row('absent', 'left-out'),
  spu_run: row('absent', 'left-out'),
  subpage_prot: row('absent', 'left-out'),
  process_madvise: row('absent', 'left-out'),
  ioperm: row('absent', 'left-out'),
  iopl: row('absent', 'left-out'),
  rtas: row('absent', 'left-out'),
  pciconfig_read: row('absent', 'left-out'),
  pciconfig_write: row('absent', 'left-out'),
  pciconfig_iobase: row('absent', 'left-out'),
  shmget: row('shmget'),
  shmat: row('shmat', 'limits', 'shared-twice'),
  shmdt: row('shmdt'),
  shmctl: row('shmctl'),
  semget: row('semget', 'limits'),
  semop: row('semop'),
  semtimedop: row('semtimedop'),
  semtimedop_time64: wide('semtimedop'),
  semctl: row('semctl'),
  msgget: row('msgget'),
  msgsnd: row('msgsnd'),
  msgrcv: row('msgrcv', 'message-copies'),
  msgctl: row('msgctl'),
  mq_open: row('mq_open'),
  mq_unlink: row('mq_unlink'),
  mq_timedsend: row('mq_timedsend'),
  mq_timedsend_time64: wide('mq_timedsend'),
  mq_timedreceive: row('mq_timedreceive'),
  mq_timedreceive_time64: wide('mq_timedreceive'),
  mq_notify: row('mq_notify', 'queue-threads'),
  mq_getsetattr: row('mq_getsetattr'),
  ipc: row('ipc', 'message-copies', 'limits', 'shared-twice'),
  sendmmsg: row('sendmmsg', 'partial', 'messages', 'control-data', 'queues', 'netlink'),
  recvmmsg: row('recvmmsg', 'partial', 'messages'),
  recvmmsg_time64: wide('recvmmsg', 'partial', 'messages'),
  getsockname: row('getsockname'),
  getpeername: row('getpeername'),
  getsockopt: row('getsockopt', 'socket-options'),
  setsockopt: row('setsockopt', 'socket-options'),
  eventfd: row('eventfd'),
  eventfd2: row('eventfd2'),
  epoll_create: row('epoll_create'),
  epoll_create1: row('epoll_create1'),
  epoll_ctl: row('epoll_ctl', 'epoll-flags'),
  epoll_wait: row('epoll_wait', 'input-ready'),
  epoll_pwait: row('epoll_pwait', 'input-ready'),
  epoll_pwait2: row('epoll_pwait2', 'input-ready'),
  select: row('select', 'input-ready', 'signal-owner', 'time-left'),
  _newselect: row('select', 'input-ready', 'signal-owner', 'time-left'),
  pselect6: row('pselect6', 'input-ready', 'signal-owner'),
  pselect6_time64: wide('pselect6', 'input-ready', 'signal-owner'),
  splice: row('splice'),
  tee: row('tee'),
  vmsplice: row('vmsplice'),
  timerfd_create: row('timerfd_create'),
  timerfd_settime: row('timerfd_settime'),
  timerfd_settime64: wide('timerfd_settime'),
  timerfd_gettime: row('timerfd_gettime'),
  timerfd_gettime64: wide('timerfd_gettime'),
  signalfd: row('signalfd'),
  signalfd4: row('signalfd4'),
  pidfd_open: row('pidfd_open'),
  pidfd_send_signal: row('pidfd_send_signal'),
  pidfd_getfd: row('pidfd_getfd'),
  memfd_create: row('memfd_create', 'huge-pages'),
  // Memory.
  brk: row('brk', 'limits'),
  mmap: row('mmap', 'limits', 'mapping-kind', 'behind-file', 'protection', 'shared-twice', 'watches'),
  mmap2: row('mmap2', 'limits', 'mapping-kind', 'behind-file', 'protection', 'shared-twice', 'watches'),
  munmap: row('munmap'),
  mprotect: row('mprotect', 'limits', 'protection'),
  madvise: row('madvise', 'keeps-contents'),
  mremap: row('mremap', 'limits', 'remapping'),
  msync: row('msync'),
  mincore: row('mincore', 'resident'),
  process_vm_readv: row('process_vm_readv', 'foreign-memory'),
  process_vm_writev: row('process_vm_writev', 'foreign-memory'),
  mlock: row('mlock'),
  mlock2: row('mlock2'),
  mlockall: row('mlockall'),
  munlock: row('munlock'),
  munlockall: row('munlockall'),
  riscv_flush_icache: row('flush_icache'),
  // The process.
  exit: row('exit'),
  exit_group: row('exit_group'),
  clone: row('clone', 'clone-flags', 'thread-limit', 'process-limit'),
  clone3: row('clone3', 'clone-flags', 'thread-limit', 'process-limit'),
  fork: row('fork', 'process-limit'),
  vfork: row('vfork', 'process-limit'),
  execve: row('execve', 'other-programs', 'watches'),
  execveat: row('execveat', 'other-programs', 'watches'),
  wait4: row('wait4'),
  waitid: row('waitid'),
  waitpid: row('waitpid'),
  getpgrp: row('getpgrp'),
  getpgid: row('getpgid'),
  setpgid: row('setpgid'),
  getsid: row('getsid'),
  setsid: row('setsid'),
  prctl: row('prctl', 'process-codes'),
  getrusage: row('getrusage'),
  times: row('times'),
  getcpu: row('getcpu'),
  membarrier: row('membarrier'),
  getgroups: row('getgroups'),
  getresuid: row('getresuid'),
  getresgid: row('getresuid'),
  sched_getscheduler: row('sched_getscheduler'),
  sched_setscheduler: row('sched_setscheduler'),
  sched_getparam: row('sched_getparam'),
  sched_getattr: row('sched_getattr'),
  sched_setattr: row('sched_setattr'),
  sched_setparam: row('sched_setparam'),
  sched_get_priority_max: row('sched_get_priority_max'),
  sched_get_priority_min: row('sched_get_priority_min'),
  sched_setaffinity: row('sched_setaffinity'),
  getpriority: row('getpriority'),
  setpriority: row('setpriority'),
  nice: row('nice'),
  ioprio_get: row('ioprio_get'),
  ioprio_set: row('ioprio_set'),
  personality: row('personality', 'personality'),
  unshare: row('unshare', 'unshared'),
  setns: row('setns'),
  chroot: row('chroot'),
  mount: row('mount'),
  umount: row('umount'),
  umount2: row('umount2'),
  syslog: row('privileged'),
  restart_syscall: row('interrupted'),
  acct: row('privileged'),
  delete_module: row('privileged'),
  finit_module: row('privileged'),
  init_module: row('privileged'),
  kexec_load: row('privileged'),
  fsopen: row('privileged'),
  fsmount: row('privileged'),
  fspick: row('privileged'),
  move_mount: row('privileged'),
  pivot_root: row('privileged'),
  reboot: row('privileged'),
  setdomainname: row('privileged'),
  sethostname: row('privileged'),
  swapoff: row('privileged'),
  swapon: row('privileged'),
  vhangup: row('privileged'),
  setuid: row('setuid'),
  setgid: row('setuid'),
  setreuid: row('setreuid'),
  setregid: row('setreuid'),
  setresuid: row('setresuid'),
  setresgid: row('setresuid'),
  setfsuid: row('setfsuid'),
  setfsgid: row('setfsuid'),
  setgroups: row('setgroups'),
  capget: row('capget'),
  capset: row('capset'),
  getpid: row('getpid'),
  getppid: row('getppid'),
  gettid: row('gettid'),
  set_tid_address: row('set_tid_address'),
  set_robust_list: row('set_robust_list'),
  get_robust_list: row('get_robust_list'),
  rseq: row('rseq'),
  getuid: row('getuid'),
  geteuid: row('getuid'),
  getgid: row('getuid'),
  getegid: row('getuid'),
  uname: row('uname'),
  sysinfo: row('sysinfo'),
  getrlimit: row('getrlimit'),
  ugetrlimit: row('getrlimit'),
  setrlimit: row('setrlimit', 'set-limit'),
  prlimit64: row('prlimit64', 'set-limit'),
  sched_rr_get_interval: row('sched_rr_get_interval'),
  sched_rr_get_interval_time64: wide('sched_rr_get_interval'),
  sched_yield: row('sched_yield'),
  sched_getaffinity: row('sched_getaffinity'),
  getrandom: row('getrandom', 'partial'),
  arch_prctl: row('arch_prctl', 'codes'),
  // Time.
  time: row('time'),
  gettimeofday: row('gettimeofday'),
  clock_gettime: row('clock_gettime'),
  clock_gettime64: wide('clock_gettime'),
  clock_settime: row('clock_settime'),
  clock_settime64: wide('clock_settime'),
  settimeofday: row('settimeofday'),
  clock_getres: row('clock_getres'),
  clock_getres_time64: wide('clock_getres'),
  nanosleep: row('nanosleep'),
  clock_nanosleep: row('clock_nanosleep', 'other-clocks'),
  clock_nanosleep_time64: wide('clock_nanosleep', 'other-clocks'),
  futex: row('futex', 'futex-priority'),
  futex_time64: wide('futex', 'futex-priority'),
  // Signals: sent to the process by itself, by timers, and by faults.
  kill: row('kill'),
  tkill: row('tkill'),
  tgkill: row('tgkill'),
  rt_sigqueueinfo: row('rt_sigqueueinfo'),
  rt_tgsigqueueinfo: row('rt_tgsigqueueinfo'),
  rt_sigaction: row('rt_sigaction'),
  rt_sigprocmask: row('rt_sigprocmask'),
  rt_sigpending: row('rt_sigpending'),
  rt_sigsuspend: row('rt_sigsuspend'),
  rt_sigtimedwait: row('rt_sigtimedwait'),
  rt_sigtimedwait_time64: wide('rt_sigtimedwait'),
  rt_sigreturn: row('rt_sigreturn'),
  sigreturn: row('sigreturn'),
  swapcontext: row('swapcontext', 'contexts'),
  pause: row('pause'),
  poll: row('poll', 'input-ready', 'signal-owner'),
  ppoll: row('ppoll', 'input-ready', 'signal-owner'),
  ppoll_time64: wide('ppoll', 'input-ready', 'signal-owner'),
  // Timers: in virtual time.
  adjtimex: row('adjtimex'),
  clock_adjtime: row('clock_adjtime'),
  clock_adjtime64: wide('clock_adjtime'),
  alarm: row('alarm'),
  getitimer: row('getitimer'),
  setitimer: row('setitimer'),
  timer_create: row('timer_create', 'other-clocks'),
  timer_settime: row('timer_settime'),
  timer_settime64: wide('timer_settime'),
  timer_gettime: row('timer_gettime'),
  timer_gettime64: wide('timer_gettime'),
  timer_getoverrun: row('timer_getoverrun'),
  timer_delete: row('timer_delete'),
  sigaltstack: row('sigaltstack'),
};

/**
 * What is served of a system call. `half`: under a condition the emulator does not do as Linux
 * does.
 */
export type CallClass = 'served' | 'half' | 'refused';

/** One system call of a target. */
export interface SystemCall {
  readonly number: number;
  readonly name: string;
  readonly class: CallClass;
  /** What is done otherwise, for `half`; refused calls return ENOSYS. */
  readonly conditions: readonly string[];
}

/** Every system call of Linux 6.1 on a target, by number, with what the emulator serves of it. */
export function systemCalls(model: ProcessModel): readonly SystemCall[] {
  return [...model.syscalls]
    .map(([number, name]): SystemCall => {
      const served = SERVED_CALLS[name];
      const conditions = served?.unless.map((each) => CONDITIONS[each]) ?? [];
      return { number, name, class: !served ? 'refused' : conditions.length > 0 ? 'half' : 'served', conditions };
    })
    .sort((a, b) => a.number - b.number);
}

/** Numbers and names from lines `NUMBER NAME NAME …`: consecutive ones, `-` where there is none. */
export function callNumbers(...texts: readonly string[]): ReadonlyMap<number, string> {
  const out = new Map<number, string>();
  for (const line of texts.join('\n').split('\n')) {
    const [first, ...names] = line.trim().split(' ');
    names.forEach((name, i) => {
      if (name !== '-') out.set(Number(first) + i, name);
    });
  }
  return out;
}
