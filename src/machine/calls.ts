/**
 * The system calls of Linux and what is served of each: one row a call that is served, with the
 * conditions under which the emulator does not do as Linux does. Handlers say which condition they
 * met (`Services.deviate`), and the list that users read is made from the same rows. A call without
 * a row is refused: it returns ENOSYS. Numbers are the target's (`ProcessModel.syscalls`).
 *
 * A condition is no condition where Linux may answer the same on some machine: there is one CPU of
 * 1 GHz, whose clock began in 1970, user 1000, a memory of 1 GiB, descriptors 0 to 2 are devices
 * that are no terminals, and files are those that were given.
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
  'read-only': 'files cannot be written, made or changed: EROFS',
  'path-descriptor': 'O_PATH: the descriptor is an ordinary one',
  holes: 'SEEK_DATA, SEEK_HOLE: EINVAL',
  'access-flags': 'flags: left out',
  'descriptor-commands':
    'commands beside F_GETFD, F_SETFD, and F_GETFL of descriptors 0 to 2: EINVAL, or the access mode alone',
  'non-blocking': 'flags that are set with F_SETFL: left out',
  requests: 'requests beside those of terminals: ENOTTY',
  'set-limit': 'new limits: left out',
  codes: 'codes beside those of fs and gs: EINVAL',
  'other-clocks': 'clocks of other processes, of devices, and waiting for CPU clocks: EINVAL',
  'futex-priority': 'locks with priority inheritance: ENOSYS',
  'new-processes': 'processes of their own: EAGAIN',
  'clone-flags': 'flags beside those of ordinary threads, and ids that are asked for: EINVAL or EPERM',
  'thread-limit': 'more than 1024 threads: EAGAIN',
  'input-ready': 'standard input: always ready, whether something is there or not',
  'stop-signal': 'signals that stop a process: the run stops',
  'other-processes': 'processes and groups beside this one: ESRCH, and nothing is sent',
  'small-stack': 'a stack between 2 KiB and 16 KiB: accepted, where some machines want more',
} as const;

export type Condition = keyof typeof CONDITIONS;

/** The handlers: methods of `Services`. */
export type ServiceName =
  | 'access' | 'alarm' | 'arch_prctl' | 'brk' | 'change_files' | 'clock_getres' | 'clock_gettime' | 'clock_nanosleep' | 'clone' | 'clone3' | 'close' | 'exit' | 'exit_group' | 'faccessat'
  | 'faccessat2' | 'fcntl' | 'flush_icache' | 'fstat' | 'fstat64' | 'futex' | 'get_robust_list' | 'getcwd' | 'getitimer' | 'getdents64' | 'getpid' | 'getppid' | 'getrandom'
  | 'getrlimit' | 'gettid' | 'gettimeofday' | 'getuid' | 'ioctl' | 'kill' | 'llseek' | 'lseek' | 'lstat' | 'lstat64' | 'madvise' | 'mmap'
  | 'mmap2' | 'mprotect' | 'munmap' | 'nanosleep' | 'newfstatat' | 'open' | 'openat' | 'pause' | 'poll' | 'ppoll' | 'pread64' | 'prlimit64' | 'read' | 'readlink'
  | 'readlinkat' | 'readv' | 'rseq' | 'rt_sigaction' | 'rt_sigpending' | 'rt_sigprocmask' | 'rt_sigqueueinfo' | 'rt_sigreturn' | 'rt_sigsuspend'
  | 'rt_sigtimedwait' | 'rt_tgsigqueueinfo' | 'sched_getaffinity' | 'sched_yield' | 'set_robust_list'
  | 'set_tid_address' | 'setitimer' | 'sigaltstack' | 'sigreturn' | 'stat' | 'stat64' | 'statx' | 'sysinfo' | 'tgkill' | 'time' | 'timer_create' | 'timer_delete' | 'timer_getoverrun'
  | 'timer_gettime' | 'timer_settime' | 'tkill' | 'uname' | 'write' | 'writev'; // prettier-ignore

export interface ServedCall {
  readonly by: ServiceName;
  /** Bytes of the words of its times, where it has a form with 8 on targets of 32 bits. */
  readonly wide: boolean;
  /** None: it is served in full. */
  readonly unless: readonly Condition[];
}

const row = (by: ServiceName, ...unless: readonly Condition[]): ServedCall => ({ by, wide: false, unless });
const wide = (by: ServiceName, ...unless: readonly Condition[]): ServedCall => ({ by, wide: true, unless });
const changing = row('change_files', 'read-only');

/** The system calls that are served, by their names in Linux. */
export const SERVED_CALLS: Readonly<Record<string, ServedCall>> = {
  // Descriptors and files.
  read: row('read', 'partial'),
  readv: row('readv', 'partial'),
  pread64: row('pread64', 'partial'),
  write: row('write', 'partial'),
  writev: row('writev', 'partial'),
  open: row('open', 'read-only', 'path-descriptor'),
  openat: row('openat', 'read-only', 'path-descriptor'),
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
  faccessat2: row('faccessat2', 'read-only', 'access-flags'),
  readlink: row('readlink'),
  readlinkat: row('readlinkat'),
  getdents64: row('getdents64'),
  getcwd: row('getcwd'),
  fcntl: row('fcntl', 'descriptor-commands', 'non-blocking'),
  fcntl64: row('fcntl', 'descriptor-commands', 'non-blocking'),
  ioctl: row('ioctl', 'requests'),
  chmod: changing,
  creat: changing,
  fchmodat: changing,
  link: changing,
  linkat: changing,
  mkdir: changing,
  mkdirat: changing,
  rename: changing,
  renameat: changing,
  renameat2: changing,
  rmdir: changing,
  symlink: changing,
  symlinkat: changing,
  truncate: changing,
  truncate64: changing,
  unlink: changing,
  unlinkat: changing,
  // Memory.
  brk: row('brk', 'limits'),
  mmap: row('mmap', 'limits', 'mapping-kind', 'behind-file', 'protection'),
  mmap2: row('mmap2', 'limits', 'mapping-kind', 'behind-file', 'protection'),
  munmap: row('munmap'),
  mprotect: row('mprotect', 'limits', 'protection'),
  madvise: row('madvise', 'keeps-contents'),
  riscv_flush_icache: row('flush_icache'),
  // The process.
  exit: row('exit'),
  exit_group: row('exit_group'),
  clone: row('clone', 'new-processes', 'clone-flags', 'thread-limit'),
  clone3: row('clone3', 'new-processes', 'clone-flags', 'thread-limit'),
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
  prlimit64: row('prlimit64', 'set-limit'),
  sched_yield: row('sched_yield'),
  sched_getaffinity: row('sched_getaffinity'),
  getrandom: row('getrandom', 'partial'),
  arch_prctl: row('arch_prctl', 'codes'),
  // Time.
  time: row('time'),
  gettimeofday: row('gettimeofday'),
  clock_gettime: row('clock_gettime', 'other-clocks'),
  clock_gettime64: wide('clock_gettime', 'other-clocks'),
  clock_getres: row('clock_getres', 'other-clocks'),
  clock_getres_time64: wide('clock_getres', 'other-clocks'),
  nanosleep: row('nanosleep'),
  clock_nanosleep: row('clock_nanosleep', 'other-clocks'),
  clock_nanosleep_time64: wide('clock_nanosleep', 'other-clocks'),
  futex: row('futex', 'futex-priority'),
  futex_time64: wide('futex', 'futex-priority'),
  // Signals: sent to the process by itself, by timers, and by faults.
  kill: row('kill', 'stop-signal', 'other-processes'),
  tkill: row('tkill', 'stop-signal', 'other-processes'),
  tgkill: row('tgkill', 'stop-signal', 'other-processes'),
  rt_sigqueueinfo: row('rt_sigqueueinfo', 'stop-signal', 'other-processes'),
  rt_tgsigqueueinfo: row('rt_tgsigqueueinfo', 'stop-signal', 'other-processes'),
  rt_sigaction: row('rt_sigaction'),
  rt_sigprocmask: row('rt_sigprocmask', 'stop-signal'),
  rt_sigpending: row('rt_sigpending'),
  rt_sigsuspend: row('rt_sigsuspend', 'stop-signal'),
  rt_sigtimedwait: row('rt_sigtimedwait'),
  rt_sigtimedwait_time64: wide('rt_sigtimedwait'),
  rt_sigreturn: row('rt_sigreturn', 'stop-signal'),
  sigreturn: row('sigreturn', 'stop-signal'),
  pause: row('pause'),
  poll: row('poll', 'input-ready'),
  ppoll: row('ppoll', 'input-ready'),
  ppoll_time64: wide('ppoll', 'input-ready'),
  // Timers: in virtual time.
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
  sigaltstack: row('sigaltstack', 'small-stack'),
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
